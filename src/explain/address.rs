//! What is at an address, in words, as it explains why an access failed.

use super::look;
use crate::abi::{Addr, Region, Width};
use crate::cpu::Architecture;
use crate::kernel::Kernel;
use crate::mem::Memory;
use crate::sym::Symbols;

/// So near to 0 an address is that of a member of what a null pointer points to.
pub(super) const NULL: Addr = 0x1000;
/// So near to a pattern an address is a member of what that points to.
const NEAR: Addr = 0x1000;
/// So near after the end of memory something ran over it.
const BEHIND: Addr = 1 << 20;

/// Bytes of a text that are read, as far as there is memory; the fewest characters of one that ends, and of one that goes on.
const STRING: [usize; 4] = [32, 16, 8, 4];
const SHORTEST: usize = 3;
const CUT: usize = 12;
/// The most characters of the name of a section.
const SECTION: usize = 32;

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

/// What is at an address of code or a constant: `in .rodata: the text "CET"`. `section`: of the program's file. Hostile text: escape
/// before printing.
pub(super) fn constant(
    at: Addr,
    section: Option<&str>,
    symbols: &dyn Symbols,
    memory: &mut dyn Memory,
) -> Option<String> {
    let text = if is_within_function(at, symbols) { None } else { string(at, memory) };
    let section = section.map(|section| format!("in {}", section.chars().take(SECTION).collect::<String>()));
    let text = text.map(|text| format!("the text \"{text}\""));
    let all: Vec<String> = section.into_iter().chain(text).collect();
    (!all.is_empty()).then(|| all.join(": "))
}

/// True within a function whose size the program's file says: behind another one there may be constants.
pub(super) fn is_within_function(at: Addr, symbols: &dyn Symbols) -> bool {
    let function = symbols.function(at).and_then(|function| symbols.lookup(&function.name));
    function.is_some_and(|function| function.size > 0)
}

/// The text that begins at an address, and ends with a 0 or goes on for long.
fn string(at: Addr, memory: &mut dyn Memory) -> Option<String> {
    let bytes = STRING.into_iter().find_map(|len| memory.read_bytes(at, len).ok())?;
    let is_text = |byte: &&u8| byte.is_ascii_graphic() || **byte == b' ';
    let len = bytes.iter().take_while(is_text).count();
    let text = String::from_utf8_lossy(bytes.get(..len)?).into_owned();
    match bytes.get(len) {
        Some(0) if len >= SHORTEST => Some(text),
        None if len >= CUT => Some(format!("{text}...")),
        _ => None,
    }
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
    let is_of_words =
        |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b' ' | b'.' | b',' | b'-' | b'_' | b'/' | b':');
    let letters = bytes.iter().filter(|byte| byte.is_ascii_alphabetic()).count();
    // With one letter, or other characters, only where chips have no memory: not at 0x20.., 0x24.., 0x30.. to 0x39.., 0x60...
    let is_elsewhere = !matches!(bytes.last(), Some(b' '..=b'$' | b'0'..=b'9' | b'`'));
    let is_text = bytes.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ');
    let are_words = bytes.iter().all(is_of_words) && letters >= 2;
    let may_be_words =
        is_text && is_elsewhere && letters >= 1 && bytes.iter().filter(|byte| is_of_words(byte)).count() >= 3;
    (are_words || may_be_words).then(|| bytes.iter().map(|byte| char::from(*byte)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_is_text() {
        assert_eq!(text(0x4141_4141).as_deref(), Some("AAAA"));
        assert_eq!(text(0x7365_7270).as_deref(), Some("pres"));
        assert_eq!(text(0x3D72_2034).as_deref(), Some("4 r="), "one letter");
        assert_eq!(
            [0x4001_3000, 0x2000_2020, 0x3030_3030, 0x1_4141_4141, 0x2020_4138, 0x3420_4138, 0x6020_2041].map(text),
            [const { None }; 7]
        );
    }

    /// Memory at 0x100, whose symbol is a function of 4 bytes.
    struct Flash(&'static [u8]);

    impl Memory for Flash {
        fn read(&mut self, at: Addr, to: &mut [u8]) -> Result<(), crate::mem::ReadError> {
            let into = usize::try_from(at.wrapping_sub(0x100)).unwrap();
            let bytes = self.0.get(into..into.saturating_add(to.len()));
            to.copy_from_slice(bytes.ok_or_else(|| crate::mem::ReadError::unmapped(at, to.len()))?);
            Ok(())
        }
    }

    impl Symbols for Flash {
        fn lookup(&self, name: &str) -> Option<crate::sym::Symbol> {
            self.function(0x100).filter(|own| own.name == name)
        }

        fn function(&self, at: Addr) -> Option<crate::sym::Symbol> {
            (0x100..0x104).contains(&at).then(|| crate::sym::Symbol { name: "f".to_owned(), address: 0x100, size: 4 })
        }
    }

    /// "At address 0x4254", where the program has a text that was written to.
    #[test]
    fn a_constant_that_was_written_was_an_address_without_a_name() {
        let flash = b"code\0CET\0ok\0this goes on and on and on\x01\0\0\0\0\0\0\0\0";
        let of = |at, section| constant(at, section, &Flash(b""), &mut Flash(flash));
        assert_eq!(of(0x105, Some(".rodata")).as_deref(), Some("in .rodata: the text \"CET\""));
        assert_eq!(of(0x109, Some(".rodata")).as_deref(), Some("in .rodata"), "it may be a number");
        assert_eq!(of(0x10C, None).as_deref(), None, "it ends with what is no text");
        assert_eq!(of(0x100, Some(".text")).as_deref(), Some("in .text"), "code");
        assert_eq!(constant(0x105, Some(&"s".repeat(99)), &Flash(b""), &mut Flash(flash)).unwrap().len(), 51);
        let long = b"code the text of a message of the program that is long";
        let of = constant(0x105, None, &Flash(b""), &mut Flash(long));
        assert_eq!(of.as_deref(), Some("the text \"the text of a message of the pro...\""));
    }
}
