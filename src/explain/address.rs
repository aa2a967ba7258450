//! What is at an address, in words, as it explains why an access failed.

use super::look;
use crate::abi::{Addr, Region, Width};
use crate::cpu::Architecture;
use crate::kernel::Kernel;
use crate::sym::Symbols;

/// So near to 0 an address is that of a member of what a null pointer points to.
const NULL: Addr = 0x1000;
/// So near to a pattern an address is a member of what that points to.
const NEAR: Addr = 0x1000;
/// So near after the end of memory something ran over it.
const BEHIND: Addr = 1 << 20;

/// The last region of a Cortex-M's memory map: beyond the registers of the core.
const VENDOR: Addr = 0xE010_0000;

/// Words that memory holds where nothing was written yet, or not any more, and what they are. 0xEF is the fill of ThreadX's
/// stacks; the marks are those of its byte pools (`tx_byte_pool.h`) and of NetX's packets (`nx_packet.h`).
const PATTERNS: [(u32, &str); 6] = [
    (0xEFEF_EFEF, "the fill of a stack (0xEF): a variable that was never written was used as a pointer"),
    (0xAAAA_AAAA, "0xaaaaaaaa, the mark of a byte pool's block or a NetX packet in use: it was used as a pointer"),
    (0xFFFF_EEEE, "0xffffeeee, the mark of a free block in a byte pool: it was used as a pointer"),
    (0xEEEE_EEEE, "0xeeeeeeee, the mark of a NetX packet in a queue: it was used as a pointer"),
    (0xDDDD_DDDD, "0xdddddddd, a mark of freed memory or of a NetX packet: it was used as a pointer"),
    (0xDEAD_BEEF, "0xdeadbeef, a mark: it was used as a pointer"),
];

/// What is there; `None` where nothing is known of it. Hostile text: escape before printing.
pub(super) fn what(
    at: Addr,
    symbols: &dyn Symbols,
    kernel: Option<&Kernel>,
    regions: Option<&[Region]>,
    architecture: Architecture,
) -> Option<String> {
    let word = kernel.map_or(Width::W4, |kernel| kernel.layout.shape.pointer);
    if at < NULL {
        return Some(match at {
            0 => "a null pointer".to_owned(),
            at => format!("{at} bytes after a null pointer"),
        });
    }
    if let Some(said) = pattern(at, word) {
        return Some(said.to_owned());
    }
    let stack = kernel.and_then(|kernel| kernel.threads.iter().find(|thread| thread.holds(at)));
    if let Some(thread) = stack {
        let above = thread.stack.start.and_then(|start| at.checked_sub(start));
        let above = above.map_or_else(String::new, |above| format!(", {above} bytes above its lowest end"));
        return Some(format!("in the stack of {}{above}", thread.label()));
    }
    if let Some(place) = look::place(at, symbols) {
        return Some(format!("in {place}"));
    }
    if let Some(symbol) = symbols.function(at) {
        return Some(format!("code of {}", symbol.name));
    }
    outside(at, regions, architecture)
}

/// True near a word of 32 bits that memory holds where nothing was written.
pub(super) fn is_pattern(at: Addr) -> bool {
    pattern(at, Width::W4).is_some()
}

fn pattern(at: Addr, word: Width) -> Option<&'static str> {
    let pattern = |of: u32| match word {
        Width::W8 => u64::from(of) << 32 | u64::from(of),
        _ => u64::from(of),
    };
    let near = |of: u32| at.abs_diff(pattern(of)) < NEAR;
    PATTERNS.iter().find(|(of, _)| near(*of)).map(|(_, said)| *said)
}

/// Where there is no memory: in the memory map of the processor, or in the source, where that says what it has.
fn outside(at: Addr, regions: Option<&[Region]>, architecture: Architecture) -> Option<String> {
    let known = regions.unwrap_or_default();
    if known.iter().any(|region| region.contains(at)) {
        return None;
    }
    if architecture == Architecture::CortexM && at >= VENDOR {
        return Some("an address at which a chip has no memory".to_owned());
    }
    let regions = regions?;
    if let Some(text) = text(at) {
        return Some(format!("the bytes of the text \"{text}\""));
    }
    let last = regions.iter().filter_map(|region| region.last()).filter(|last| *last < at).max();
    let behind = last.and_then(|last| at.checked_sub(last)).filter(|behind| *behind < BEHIND);
    behind.map(|behind| format!("{behind} bytes after the end of the memory that this source has"))
}

/// The four characters that an address is; `None` where it is none. Code and data of a chip are elsewhere.
pub(super) fn text(address: Addr) -> Option<String> {
    let bytes = u32::try_from(address).ok()?.to_le_bytes();
    let is_text =
        |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b' ' | b'.' | b',' | b'-' | b'_' | b'/' | b':');
    let letters = bytes.iter().filter(|byte| byte.is_ascii_alphabetic()).count();
    (bytes.iter().all(is_text) && letters >= 2).then(|| bytes.iter().map(|byte| char::from(*byte)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_is_text() {
        assert_eq!(text(0x4141_4141).as_deref(), Some("AAAA"));
        assert_eq!(text(0x7365_7270).as_deref(), Some("pres"));
        assert_eq!(
            [text(0x4001_3000), text(0x2000_2020), text(0x3030_3030), text(0x1_4141_4141)],
            [None, None, None, None]
        );
    }
}
