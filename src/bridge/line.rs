//! The bridge's own monitor lines, in the packets that carry them. No input or output here.

use crate::rsp::packet::{encode, from_hex, to_hex};

/// How such a line begins.
const NAME: &[u8] = b"tx-trace";

/// The packet that carries a monitor line.
const PACKET: &[u8] = b"qRcmd,";

/// Bytes of text in one console packet: below the smallest packet size that a stub announces.
const CHUNK: usize = 480;

/// The text after `tx-trace` in the monitor line of a packet; `None` for any other packet.
pub(super) fn own_line(body: &[u8]) -> Option<String> {
    let text = from_hex(body.strip_prefix(PACKET)?)?;
    let rest = text.strip_prefix(NAME)?;
    let ends = rest.first().is_none_or(u8::is_ascii_whitespace);
    ends.then(|| String::from_utf8_lossy(rest).into_owned())
}

/// True where the first bytes of a packet may become one with such a line.
pub(super) fn may_be_own(bytes: &[u8]) -> bool {
    let head = [b"$", PACKET, &to_hex(NAME)].concat();
    bytes.iter().zip(&head).all(|(a, b)| a.eq_ignore_ascii_case(b))
}

/// The packets that answer a line: text for the debugger's console, and `OK`.
pub(super) fn answer(text: &[u8]) -> Vec<Vec<u8>> {
    let console = |part: &[u8]| encode(&[b"O", to_hex(part).as_slice()].concat());
    text.chunks(CHUNK).map(console).chain([encode(b"OK")]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(line: &str) -> Vec<u8> {
        [PACKET, &to_hex(line.as_bytes())].concat()
    }

    #[test]
    fn only_lines_that_begin_with_our_name() {
        assert_eq!(own_line(&packet("tx-trace")).as_deref(), Some(""));
        assert_eq!(own_line(&packet("tx-trace last 5")).as_deref(), Some(" last 5"));
        for other in ["help", "tx-tracer", "tx-", " tx-trace", "reset tx-trace"] {
            assert_eq!(own_line(&packet(other)), None, "{other}");
        }
        assert_eq!(own_line(b"qRcmd"), None);
        assert_eq!(own_line(b"qRcmd,zz"), None);
        assert_eq!(own_line(b"m20000000,4"), None);
    }

    #[test]
    fn as_much_is_held_back_as_may_be_own() {
        let whole = [b"$", packet("tx-trace last").as_slice()].concat();
        for end in 1..whole.len() {
            assert!(may_be_own(&whole[..end]));
            let mut other = whole[..end].to_vec();
            other[(end - 1).min(22)] ^= 1;
            assert!(!may_be_own(&other), "{end}");
        }
        assert!(may_be_own(
            &whole.to_ascii_uppercase().iter().map(|b| if *b == b'Q' { b'q' } else { *b }).collect::<Vec<_>>()
        ));
    }

    #[test]
    fn text_is_cut_into_packets() {
        assert_eq!(answer(b""), [b"$OK#9a".to_vec()]);
        let frames = answer(&[b'x'; CHUNK + 1]);
        assert_eq!(frames.len(), 3);
        assert!(frames[0].len() < 1000 && frames[1] == encode(b"O78"));
    }
}
