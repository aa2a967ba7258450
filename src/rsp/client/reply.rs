//! What the bodies of replies look like: which can be an answer to what.

use std::collections::BTreeMap;

use crate::rsp::packet::from_hex;

/// Our greeting. Without `multiprocess+`: with it QEMU answers a plain `D` with E22 and gdbserver with E01. Not bare:
/// gdbstub does not know `qSupported` without a colon.
pub(super) const SUPPORTED: &[u8] = b"qSupported:hwbreak+";

/// After a flight of reads: its answer is empty on every stub, as no answer to them is, and comes last.
pub(super) const FENCE: &[u8] = b"vMustReplyEmpty";

/// Switches acknowledgements off.
pub(super) const NO_ACK: &[u8] = b"QStartNoAckMode";

/// An answer to [`SUPPORTED`].
pub(super) fn is_supported(body: &[u8]) -> bool {
    body.is_empty() || is_features(body) || is_error(body)
}

/// An answer to `?`.
pub(super) fn is_stop_answer(body: &[u8]) -> bool {
    is_stop(body) || is_gone(body) || is_simple(body) && body != b"OK"
}

/// An answer of a request that is done or not: `OK`, an error, or nothing where it is not known.
pub(super) fn is_simple(body: &[u8]) -> bool {
    body == b"OK" || body.is_empty() || is_error(body)
}

/// `E` and two digits, or `E.` and words. A reply of memory has an even number of digits, so it is never this.
pub(super) fn is_error(body: &[u8]) -> bool {
    match body {
        [b'E', a, b] => a.is_ascii_hexdigit() && b.is_ascii_hexdigit(),
        [b'E', b'.', ..] => true,
        _ => false,
    }
}

/// A stop reply: `S05`, `T05thread:01;`. The target is there and is halted.
pub(super) fn is_stop(body: &[u8]) -> bool {
    matches!(body, [b'T' | b'S', a, b, ..] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit())
}

/// The number of the process in a stop reply, where the stub counts processes: `1a` of `T05thread:p1a.1;`.
pub(super) fn process(stop: &[u8]) -> Option<&[u8]> {
    let thread = stop.get(3..)?.split(|&b| b == b';').find_map(|pair| pair.strip_prefix(b"thread:p"))?;
    let number = thread.split(|&b| b == b'.').next()?;
    (!number.is_empty() && number.iter().all(u8::is_ascii_hexdigit)).then_some(number)
}

/// The thread in a stop reply: `1a` of `T05thread:1a;core:0;`.
pub(super) fn thread(stop: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(stop.get(3..)?).ok()?;
    text.split(';').find_map(|pair| pair.strip_prefix("thread:"))
}

/// `W00`, `X09`, `N`: there is nothing that could be stopped.
pub(super) fn is_gone(body: &[u8]) -> bool {
    body == b"N" || matches!(body, [b'W' | b'X', a, b, ..] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit())
}

/// The hex digits of a console packet, `O` and an even number of them. `OK` is not one.
pub(super) fn console(body: &[u8]) -> Option<&[u8]> {
    match body {
        [b'O', text @ ..] if text.len().is_multiple_of(2) && text.iter().all(u8::is_ascii_hexdigit) => Some(text),
        _ => None,
    }
}

/// The name under which a request is counted: `m`, `?`, `qXfer`, `vMustReplyEmpty`.
pub(super) fn packet_name(body: &[u8]) -> String {
    let end = match body.first() {
        Some(b'q' | b'Q' | b'v') => body.iter().position(|b| b":,;".contains(b)).unwrap_or(body.len()),
        _ => 1,
    };
    String::from_utf8_lossy(body.get(..end).unwrap_or(body)).into_owned()
}

/// What a stub said it can do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Features {
    entries: BTreeMap<String, String>,
    /// It answered the question with an error.
    refused: bool,
}

impl Features {
    pub(super) fn parse(body: &[u8]) -> Self {
        if is_error(body) {
            return Self { refused: true, ..Self::default() };
        }
        let text = String::from_utf8_lossy(body);
        let entries = text.split(';').filter_map(|entry| match entry.split_once('=') {
            Some((name, value)) => Some((name.to_owned(), value.to_owned())),
            None => entry.char_indices().last().and_then(|(i, mark)| {
                let name = entry.get(..i)?;
                (!name.is_empty() && "+-?".contains(mark)).then(|| (name.to_owned(), mark.to_string()))
            }),
        });
        Self { entries: entries.collect(), refused: false }
    }

    /// True where `body` is the answer to the same question, asked once more: empty or an error as before, or with the same
    /// packet size.
    pub(super) fn come_again_in(&self, body: &[u8]) -> bool {
        match (self.refused, self.is_empty()) {
            (true, _) => is_error(body),
            (false, true) => body.is_empty(),
            (false, false) => is_features(body) && Self::parse(body).packet_size() == self.packet_size(),
        }
    }

    /// True where the stub offers `name` (`QStartNoAckMode`, `qXfer:auxv:read`, ...).
    pub fn has(&self, name: &str) -> bool {
        self.entries.get(name).is_some_and(|mark| mark == "+")
    }

    /// The longest packet that the stub takes, in characters, where it says so.
    pub(super) fn packet_size(&self) -> Option<usize> {
        usize::from_str_radix(self.entries.get("PacketSize")?, 16).ok()
    }

    /// True where the stub said nothing.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// A reply to `qSupported` that is not empty: every entry ends in a mark or has a value. Our own question, sent back by
/// a line that echoes, looks like one and is none; nor is memory in binary form, which may hold any character.
pub(super) fn is_features(body: &[u8]) -> bool {
    let entry =
        |e: &[u8]| e.is_empty() || e.contains(&b'=') || (e.len() > 1 && matches!(e.last(), Some(b'+' | b'-' | b'?')));
    let text = !body.is_empty() && body.iter().all(u8::is_ascii_graphic);
    text && !is_stop(body) && !body.starts_with(b"qSupported") && body.split(|&b| b == b';').all(entry)
}

/// An answer to a request of `len` bytes of memory.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Data {
    /// Some bytes, at least one and at most what was asked for. Fewer than that is legal.
    Bytes(Vec<u8>),
    /// `E..`, or an `x` reply without any byte.
    Refused(String),
    /// Empty: the packet is not known.
    Unsupported,
}

/// Understands a reply to `m` (hex) or to `x` (`b` and bytes). `None`: this cannot be an answer, in particular when it
/// is longer than what was asked for.
pub(super) fn data(body: &[u8], len: usize, binary: bool) -> Option<Data> {
    if body.is_empty() {
        return Some(Data::Unsupported);
    }
    if is_error(body) {
        return Some(Data::Refused(String::from_utf8_lossy(body).into_owned()));
    }
    if binary {
        let bytes = body.strip_prefix(b"b")?;
        return match bytes.len() {
            0 => Some(Data::Refused("no bytes".into())),
            n if n <= len => Some(Data::Bytes(bytes.to_vec())),
            _ => None,
        };
    }
    from_hex(body).filter(|bytes| bytes.len() <= len).map(Data::Bytes)
}

/// True for what `g` is answered with, also by a stub that has no registers.
pub(super) fn is_registers(body: &[u8]) -> bool {
    body.is_empty() || is_error(body) || registers(body).is_some()
}

/// The registers of that answer.
pub(super) fn known_registers(body: &[u8]) -> Option<Vec<Option<u8>>> {
    if is_error(body) { None } else { registers(body) }
}

/// An answer to `g`: two digits a byte, or `xx` for one that is not known. `None` for anything else, and for nothing.
pub(super) fn registers(body: &[u8]) -> Option<Vec<Option<u8>>> {
    let byte = |pair: &[u8]| match pair {
        b"xx" => Some(None),
        pair => from_hex(pair).and_then(|b| b.first().copied()).map(Some),
    };
    let pairs = body.chunks_exact(2);
    (!body.is_empty() && pairs.remainder().is_empty()).then(|| pairs.map(byte).collect()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_distinguished() {
        assert!(is_stop(b"T02thread:01;") && is_stop(b"S05") && !is_stop(b"OK") && !is_stop(b"T"));
        assert!(is_error(b"E01") && is_error(b"E.no memory") && !is_error(b"E012") && !is_error(b"EE"));
        assert!(is_gone(b"W00") && is_gone(b"X09") && !is_gone(b"S05"));
        assert_eq!(console(b"O4142"), Some(&b"4142"[..]));
        assert_eq!(console(b"O"), Some(&b""[..]));
        assert_eq!(console(b"OK"), None);
        assert!(is_features(b"PacketSize=1000;qXfer:features:read+;x?"));
        assert!(!is_features(b"T05thread:01;") && !is_features(b"OK") && !is_features(b"00112233"));
        // Seen: 1 KB of memory with `=` and without `;` in it.
        assert!(!is_features(b"b\x00\x3d\x01"));
        let before = Features::parse(b"PacketSize=1000;x+");
        assert!(before.come_again_in(b"PacketSize=1000") && !before.come_again_in(b"bA=1"));
        let refused = Features::parse(b"E.no target");
        assert!(refused.come_again_in(b"E01") && !refused.come_again_in(b"") && !before.come_again_in(b"E01"));
        assert!(Features::parse(b"").come_again_in(b"") && !Features::parse(b"").come_again_in(b"E01"));
    }

    #[test]
    fn memory_never_longer_than_asked() {
        assert_eq!(data(b"0011", 2, false), Some(Data::Bytes(vec![0, 0x11])));
        assert_eq!(data(b"00", 2, false), Some(Data::Bytes(vec![0])));
        assert_eq!(data(b"001122", 2, false), None);
        assert_eq!(data(b"001", 2, false), None);
        assert_eq!(data(b"OK", 2, false), None);
        assert_eq!(data(b"E14", 2, false), Some(Data::Refused("E14".into())));
        assert_eq!(data(b"b\x00\x11", 2, true), Some(Data::Bytes(vec![0, 0x11])));
        assert_eq!(data(b"b", 2, true), Some(Data::Refused("no bytes".into())));
        assert_eq!(data(b"0011", 2, true), None);
        assert_eq!(data(b"", 2, true), Some(Data::Unsupported));
    }

    #[test]
    fn registers_of_which_some_are_not_known() {
        assert_eq!(registers(b"00ffxx12"), Some(vec![Some(0), Some(0xff), None, Some(0x12)]));
        assert_eq!(registers(b""), None);
        assert_eq!(registers(b"E01"), None);
        assert_eq!(registers(b"0x"), None);
    }

    #[test]
    fn features_with_marks_and_values() {
        let features = Features::parse(b"PacketSize=47ff;QStartNoAckMode+;qXfer:memory-map:read-;vContSupported+");
        assert_eq!(features.packet_size(), Some(0x47ff));
        assert!(features.has("QStartNoAckMode") && !features.has("qXfer:memory-map:read"));
    }

    #[test]
    fn packets_are_counted_by_name() {
        for (body, name) in
            [("m20000000,8", "m"), ("?", "?"), ("qXfer:auxv:read::0,100", "qXfer"), ("qRcmd,00", "qRcmd")]
        {
            assert_eq!(packet_name(body.as_bytes()), name);
        }
    }
}
