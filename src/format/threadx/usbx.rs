//! USBX before 6.1.8 numbered some of its events one lower: the program's version string shows which USBX it has.

use super::capture::Capture;
use super::entry::Codec;
use crate::catalogue::Catalogue;
use crate::mem::Memory;
use crate::sym::Symbols;

/// Ids whose meaning depends on the version.
const MOVED: std::ops::RangeInclusive<u32> = 855..=872;
/// The same, in the data pump class.
const PUMP: std::ops::RangeInclusive<u32> = 904..=905;
/// The first version with today's numbers, a byte a part.
const TODAY: u64 = 0x06_01_08;
/// The variable that holds the version.
pub(super) const VERSION: &str = "_ux_version_id";
/// Bytes of it that are read.
const LENGTH: usize = 160;

/// Reads the version, but only where events depend on it: it costs a packet.
pub(super) fn version(memory: &mut dyn Memory, symbols: &dyn Symbols, capture: &Capture) -> Option<u64> {
    let symbol = symbols.lookup(VERSION)?;
    let layout = &capture.layout;
    let codec = Codec { endian: layout.endian, word: layout.word, mask: u64::MAX, cores: 1 };
    let depends = capture.ring.iter().any(|part| {
        let mut ids = part.bytes.chunks_exact(codec.size()).map(|slot| codec.read(slot).id & 0xFF_FFFF);
        ids.any(|id| MOVED.contains(&id) || PUMP.contains(&id))
    });
    if !depends {
        return None;
    }
    let stated = usize::try_from(symbol.size).unwrap_or(0);
    let length = if stated == 0 { LENGTH } else { stated.min(LENGTH) };
    let text = memory.read_bytes(symbol.address, length).or_else(|_| memory.read_bytes(symbol.address, 32));
    parse(&text.ok()?)
}

/// `... Version 6.1.7 ...` as 0x060107.
fn parse(text: &[u8]) -> Option<u64> {
    let text = String::from_utf8_lossy(text);
    let behind = text.split("ersion ").nth(1)?;
    let end = behind.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(behind.len());
    let mut parts = behind.get(..end)?.split('.').map(|p| p.parse::<u8>().ok());
    let mut part = || parts.next().flatten().map(u64::from);
    let (major, minor) = (part()?, part()?);
    Some(major << 16 | minor << 8 | part().unwrap_or(0))
}

/// True where the numbers are those of before 6.1.8.
pub(super) fn is_old(capture: &Capture) -> bool {
    capture.usbx.is_some_and(|v| v < TODAY)
}

/// The catalogue with the numbers of before 6.1.8: 855 was both get and set of a configuration, and what follows was
/// one lower; 904 was both write and change of the data pump.
pub(super) fn renumber(catalogue: Catalogue) -> Catalogue {
    catalogue.with_ids(|id| match id {
        856 | 905 => None,
        857..=872 => id.checked_sub(1),
        other => Some(other),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::Names;

    #[test]
    fn versions_are_read_from_the_banner() {
        let banner = b"Copyright (c) Microsoft Corporation * USBX Generic Version 6.1.7 *\0";
        assert_eq!(parse(banner), Some(0x06_01_07));
        assert_eq!(parse(b"Version 6.4"), Some(0x06_04_00));
        assert_eq!(parse(b"Version x"), None);
        assert_eq!(parse(b""), None);
    }

    #[test]
    fn ids_are_one_lower_before_6_1_8() {
        let today = Catalogue::threadx(Names::Duo);
        let old = renumber(today.clone());
        let name = |c: &Catalogue, id| c.find(id).and_then(|d| c.def(d)).map(|d| d.name.clone());
        assert_eq!(name(&old, 856), name(&today, 857));
        assert_eq!(name(&old, 871), name(&today, 872));
        assert_eq!((name(&old, 872), name(&old, 905)), (None, None));
        assert_eq!(name(&old, 855), name(&today, 855));
        assert_eq!(name(&old, 69), name(&today, 69));
        assert!(old.is_user_id(5000) && old.object_type(1).is_some());
    }
}
