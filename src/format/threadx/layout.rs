//! The three structures of a ThreadX trace buffer, in the two widths of `ULONG`.
//!
//! ```text
//!            ULONG 4                         ULONG 8
//! header     48: id mask base registry       96: the same, every word 8 bytes; the two 16-bit
//!                u16 u16 registry_end            numbers (reserved, name size) with 4 bytes of padding
//!                start end current 3 x mark
//! registry   16 + name: 4 bytes, pointer,    32 + name: 4 bytes, 4 of padding, pointer, two parameters
//!                two parameters, name
//! entry      32: eight words                 64: eight words
//! ```

use crate::abi::Width;

/// The header's first word: `TXTB`.
pub const MAGIC: u32 = 0x5458_5442;
/// The header's last three words.
pub const MARKS: (u64, u64, u64) = (0xAAAA_AAAA, 0xBBBB_BBBB, 0xCCCC_CCCC);
/// Context word of an interrupt service routine.
pub const CONTEXT_ISR: u64 = 0xFFFF_FFFF;
/// Context word before the scheduler runs.
pub const CONTEXT_INIT: u64 = 0xF0F0_F0F0;
/// Number of words in a trace entry.
pub const ENTRY_WORDS: usize = 8;
/// The longest object name that a sane kernel is built with; the default is 32.
pub const MAX_NAME: u16 = 4096;

/// The length of object names in most kernels.
pub const USUAL_NAME: u16 = 32;

/// Bytes of the header.
#[must_use]
pub const fn header_size(word: Width) -> usize {
    match word {
        Width::W4 => 48,
        Width::W8 => 96,
    }
}

/// Bytes of a trace entry.
#[must_use]
pub const fn entry_size(word: Width) -> usize {
    match word {
        Width::W4 => 32,
        Width::W8 => 64,
    }
}

/// Bytes of a registry entry before its name.
#[must_use]
pub const fn object_head(word: Width) -> usize {
    match word {
        Width::W4 => 16,
        Width::W8 => 32,
    }
}

/// Bytes of a registry entry: the C structure is padded to its alignment, whatever the name size.
#[must_use]
pub fn object_size(word: Width, name_size: u16) -> usize {
    let unpadded = object_head(word).saturating_add(usize::from(name_size));
    unpadded.next_multiple_of(word.bytes())
}
