//! Fields of RISC-V instructions of 32 bits (The RISC-V Instruction Set Manual, volume I, 2.2 and 24).

use super::riscv_compressed::expanded;
use super::riscv_jumps::{branch, far, signed, word as joined};
use crate::abi::{Addr, Endian};

/// Codes of instructions.
pub(super) const LOAD: u32 = 0x03;
pub(super) const LOAD_FLOAT: u32 = 0x07;
pub(super) const FENCE: u32 = 0x0F;
pub(super) const IMMEDIATE: u32 = 0x13;
pub(super) const AUIPC: u32 = 0x17;
pub(super) const IMMEDIATE_32: u32 = 0x1B;
pub(super) const STORE: u32 = 0x23;
pub(super) const STORE_FLOAT: u32 = 0x27;
pub(super) const REGISTERS: u32 = 0x33;
pub(super) const LUI: u32 = 0x37;
pub(super) const REGISTERS_32: u32 = 0x3B;
pub(super) const BRANCH: u32 = 0x63;
pub(super) const JUMP_TO_REGISTER: u32 = 0x67;
pub(super) const JUMP: u32 = 0x6F;

/// The code of an instruction.
pub(super) const fn code(word: u32) -> u32 {
    word & 0x7F
}

/// The register whose number begins at this bit.
pub(super) const fn register(word: u32, from: u32) -> u16 {
    (word >> from & 0x1F) as u16
}

/// The register that it writes.
pub(super) const fn to(word: u32) -> u16 {
    register(word, 7)
}

/// Which of the instructions of one code it is.
pub(super) const fn kind(word: u32) -> u32 {
    word >> 12 & 7
}

/// The constant of 12 bits.
pub(super) const fn constant(word: u32) -> i64 {
    (word.cast_signed() >> 20) as i64
}

/// The constant of a store.
pub(super) fn store_offset(word: u32) -> i64 {
    signed(word >> 25 << 5 | u32::from(to(word)), 12)
}

/// Where it may branch to.
pub(super) fn target(word: u32, at: Addr) -> Option<Addr> {
    match (code(word), to(word)) {
        (BRANCH, _) => Some(at.wrapping_add_signed(branch(word))),
        (JUMP, 0) => Some(at.wrapping_add_signed(far(word))),
        _ => None,
    }
}

/// The instructions of code that begins at `from`, with their addresses, each as one of 32 bits; 0 for what has none.
pub(super) fn instructions(from: Addr, code: &[u8], is_64: bool) -> impl Iterator<Item = (Addr, u32)> {
    let mut offset = 0_usize;
    std::iter::from_fn(move || {
        let at = from.checked_add(u64::try_from(offset).ok()?)?;
        let first = Endian::Little.u16(code, offset)?;
        let is_long = first & 3 == 3;
        let second = if is_long { Endian::Little.u16(code, offset.checked_add(2)?)? } else { 0 };
        offset = offset.checked_add(if is_long { 4 } else { 2 })?;
        let word = if is_long { joined(first, second) } else { expanded(first, is_64).unwrap_or_default() };
        Some((at, word))
    })
}
