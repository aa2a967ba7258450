//! `.kev` files of the trace logger: a text header, the system page, and elements without buffer headers.

use super::layout::KEV_MAGIC;
use crate::abi::Endian;

/// The longest text header that is believed.
const MOST: usize = 1 << 16;

/// What the text header says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Kev {
    /// Byte order.
    pub big: bool,
    /// Ticks in a second.
    pub cycles: Option<u64>,
    /// Number of processors.
    pub cpus: Option<u64>,
    /// Release: 64 is 6.4.
    pub release: Option<u16>,
    /// The release as it is written.
    pub release_text: String,
    /// The machine.
    pub machine: String,
    /// When it was logged.
    pub date: String,
    /// Where the system page begins.
    pub syspage: usize,
    /// Where the elements begin.
    pub events: usize,
}

impl Kev {
    /// Byte order.
    #[must_use]
    pub const fn endian(&self) -> Endian {
        if self.big { Endian::Big } else { Endian::Little }
    }
}

/// Reads the header of a file; `None` where it is no such file, or its header has no end.
#[must_use]
pub fn parse(bytes: &[u8]) -> Option<Kev> {
    if !bytes.starts_with(KEV_MAGIC) {
        return None;
    }
    let head = bytes.get(..bytes.len().min(MOST))?;
    let mut kev = Kev::default();
    let mut syspage_len = 0usize;
    let mut at = KEV_MAGIC.len();
    loop {
        let (key, value) = key_at(head, at)?;
        if key == b"HEADER_END" {
            kev.syspage = value;
            kev.events = value.checked_add(syspage_len)?;
            return Some(kev);
        }
        let end = next_key(head, value)?;
        let text = String::from_utf8_lossy(head.get(value..end)?).trim().to_owned();
        match key {
            b"BIG_ENDIAN" => kev.big = text == "TRUE",
            b"CYCLES_PER_SEC" => kev.cycles = text.parse().ok().filter(|n| *n > 0),
            b"CPU_NUM" => kev.cpus = text.parse().ok(),
            b"SYS_RELEASE" => {
                kev.release = release(&text);
                kev.release_text = text;
            }
            b"MACHINE" => kev.machine = text,
            b"DATE" => kev.date = text,
            b"SYSPAGE_LEN" => syspage_len = text.parse().ok()?,
            _ => {}
        }
        at = end;
    }
}

/// `6.4.1` is 64.
fn release(text: &str) -> Option<u16> {
    let mut parts = text.split('.').map(|p| p.parse::<u16>().ok());
    let (major, minor) = (parts.next()??, parts.next()??);
    (major < 100 && minor < 10).then(|| major.saturating_mul(10).saturating_add(minor))
}

/// The key at `at`, and where its value begins.
fn key_at(head: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let rest = head.get(at..)?.strip_prefix(b"TRACE_")?;
    let len = rest.iter().take_while(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || **b == b'_').count();
    let (key, value) = rest.split_at_checked(len)?;
    let start = at.checked_add(6)?.checked_add(len)?.checked_add(2)?;
    (len > 0 && value.starts_with(b"::")).then_some((key, start))
}

/// Where the next key begins: keys follow values without anything between.
fn next_key(head: &[u8], from: usize) -> Option<usize> {
    (from..head.len()).find(|at| head.get(*at) == Some(&b'T') && key_at(head, *at).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_stand_without_separators() {
        let text = b"TRACE_HEADER_BEGIN::TRACE_FILE_NAME::/tmp/TRACE_xTRACE_DATE:: Mon\nTRACE_BIG_ENDIAN::TRUE\
                     TRACE_CYCLES_PER_SEC::2300571400TRACE_CPU_NUM::2TRACE_SYS_RELEASE::6.4.1TRACE_MACHINE::x86pc\
                     TRACE_SYSPAGE_LEN::16TRACE_HEADER_END::0123456789abcdefEVENTS";
        let kev = parse(text).unwrap();
        assert_eq!((kev.big, kev.cycles, kev.cpus), (true, Some(2_300_571_400), Some(2)));
        assert_eq!((kev.release, kev.release_text.as_str(), kev.date.as_str()), (Some(64), "6.4.1", "Mon"));
        assert_eq!(&text[kev.events..], b"EVENTS");
    }

    #[test]
    fn a_header_without_an_end_is_none() {
        assert_eq!(parse(b"TRACE_HEADER_BEGIN::TRACE_DATE::x"), None);
        assert_eq!(parse(b"TRACE_HEADER_BEGIN::"), None);
        assert_eq!(parse(b"TRACE_HEADER_BEGIN::rubbish"), None);
        assert_eq!(parse(b"TRACE_HEADER_BEGIN::TRACE_SYSPAGE_LEN::-4TRACE_HEADER_END::"), None);
    }
}
