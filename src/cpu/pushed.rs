//! What a Cortex-M pushes when an exception comes: r0 to r3, r12, lr, pc, xpsr.

use std::collections::BTreeSet;

use super::level::THUMB;
use super::{Architecture, Origin, Registers};
use crate::abi::{Addr, Endian, Width};
use crate::mem::Memory;

/// `xpsr` as pushed: a word was skipped to align the stack.
const SKIPPED: u64 = 1 << 9;
/// `xpsr`: number of the exception.
const EXCEPTION: u64 = 0x1FF;
/// `xpsr` as pushed, of an Armv8-M: the floating-point state was that of secure code (SFPA in RETPSR).
const SECURE_FLOATS: u64 = 1 << 20;
/// `xpsr`: bits that are always 0 (Armv7-M Architecture Reference Manual, B1.4.2).
const ZERO: u64 = 0xE << 20;
const NAMES: [&str; 5] = ["r0", "r1", "r2", "r3", "r12"];
/// Bytes.
const SIZE: usize = 32;

/// The words that an exception pushed, or that look like it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pushed {
    /// r0 to r3 and r12.
    first: [u64; 5],
    /// The link register.
    pub lr: u64,
    /// The instruction that was to run next, or that failed.
    pub pc: Addr,
    /// The status register, with the exception that was interrupted.
    pub xpsr: u64,
}

impl Pushed {
    /// From the bytes at the stack pointer; `None` where they are too few.
    pub fn of(bytes: &[u8], endian: Endian) -> Option<Self> {
        let word = |at| endian.u32(bytes, at).map(u64::from);
        let first = [word(0)?, word(4)?, word(8)?, word(12)?, word(16)?];
        Some(Self { first, lr: word(20)?, pc: word(24)?, xpsr: word(28)? })
    }

    /// From memory; `None` where that cannot be read.
    pub fn read(memory: &mut dyn Memory, at: Addr, endian: Endian) -> Option<Self> {
        Self::of(&memory.read_bytes(at, SIZE).ok()?, endian)
    }

    /// True for the registers of a thread: Thumb state, no exception.
    pub const fn is_of_thread(&self) -> bool {
        self.xpsr & (EXCEPTION | ZERO | THUMB) == THUMB && self.pc & 1 == 0
    }

    /// True for those of a thread that has called an address without the Thumb bit.
    pub const fn has_lost_thumb(&self) -> bool {
        self.xpsr & (EXCEPTION | ZERO | THUMB) == 0 && self.pc & 1 == 0
    }

    /// The number of the exception that was interrupted; 0 for none.
    pub fn exception(&self) -> u32 {
        u32::try_from(self.xpsr & EXCEPTION).unwrap_or_default()
    }

    /// True for those of another exception.
    pub const fn is_of_exception(&self) -> bool {
        self.xpsr & EXCEPTION != 0 && self.xpsr & (ZERO | THUMB) == THUMB && self.pc & 1 == 0
    }

    /// True for those of another exception that has called an address without the Thumb bit.
    pub const fn is_of_handler_without_thumb(&self) -> bool {
        self.xpsr & EXCEPTION != 0 && self.xpsr & (ZERO | THUMB) == 0 && self.pc & 1 == 0
    }

    /// True where r0 to r3 and r12 are those of a CPU: its handler has not changed them.
    pub fn are_in(&self, cpu: &Registers) -> bool {
        NAMES.into_iter().zip(self.first).all(|(name, value)| cpu.get(name) == Some(value))
    }

    /// How many different values other than 0 these registers have.
    pub fn distinct(&self) -> usize {
        self.first.iter().filter(|value| **value != 0).collect::<BTreeSet<_>>().len()
    }

    /// The registers of what was interrupted, with `kept`: those that a call keeps, as far as they are known. `above`: the
    /// address after the frame; where that is not known, the stack pointer is not either.
    pub fn registers(&self, kept: &Registers, above: Option<Addr>) -> Registers {
        let mut registers = Registers::of(Architecture::CortexM, Origin::Frame);
        for (name, value) in NAMES.into_iter().zip(self.first) {
            registers.set(name, value);
        }
        for number in 4..=11 {
            let name = format!("r{number}");
            kept.get(&name).map(|value| registers.set(&name, value));
        }
        registers.set("lr", self.lr);
        registers.set("pc", self.pc);
        // Bit 9 says how it was pushed.
        registers.set("xpsr", self.xpsr & !(SKIPPED | SECURE_FLOATS));
        let skipped = if self.xpsr & SKIPPED == 0 { 0 } else { 4 };
        above.map(|above| registers.set("sp", above.wrapping_add(skipped) & Width::W4.max()));
        registers
    }
}

/// True for the exceptions that a fault causes: HardFault, MemManage, BusFault, UsageFault, SecureFault.
pub const fn is_fault(exception: u32) -> bool {
    matches!(exception, 3..=7)
}

/// True for those of them that a call of an address without the Thumb bit causes.
pub const fn is_fault_of_state(exception: u32) -> bool {
    matches!(exception, 3 | 6)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pushed(xpsr: u32) -> Pushed {
        let words = [1, 2, 3, 4, 5, 0x0800_0101, 0x0800_0200, xpsr];
        Pushed::of(&words.map(u32::to_le_bytes).concat(), Endian::Little).unwrap()
    }

    /// Bit 20 of a pushed status register (SFPA) was taken for a bit that is always 0: the frame was none.
    #[test]
    fn a_frame_of_secure_code_with_floats_was_none() {
        let frame = pushed(0x0110_0000);
        assert!(frame.is_of_thread());
        let registers = frame.registers(&Registers::new(Architecture::CortexM), Some(0x2000_0100));
        assert_eq!(registers.get("xpsr"), Some(0x0100_0000), "it is no bit of the status register");
        assert!(!pushed(0x0120_0000).is_of_thread(), "a bit that is always 0");
        assert!(!pushed(0x0010_0000).is_of_thread(), "no Thumb state");
        assert!(pushed(0x0110_0003).is_of_exception());
    }
}
