//! Return addresses that are on the stack, for code without call frame information.

use super::{Frame, Origin, Unwinder, Walk};
use crate::abi::Addr;
use crate::cpu::Architecture;
use crate::mem::Memory;

/// The most that are offered.
const MAX_FOUND: usize = 8;
/// Bytes of the stack that are looked at.
const MAX_BYTES: u64 = 4096;

impl Walk<'_, '_> {
    /// Adds the words above the stack pointer that are addresses of code after a call.
    pub(super) fn look_for_return_addresses(&mut self) {
        let Some(sp) = self.stack_pointer() else { return };
        let Some(stack) = self.stacks.iter().copied().find(|stack| stack.contains(sp)) else { return };
        let left = stack.offset_of(sp).and_then(|used| stack.len.checked_sub(used)).unwrap_or_default();
        let Ok(len) = usize::try_from(left.min(MAX_BYTES)) else { return };
        let Ok(bytes) = self.memory.read_bytes(sp, len) else { return };
        let width = self.unwinder.architecture.width();
        let mut found = 0;
        for word in bytes.chunks_exact(width.bytes()) {
            let Some(word) = self.unwinder.endian.word(width, word, 0) else { continue };
            let Some(pc) = self.unwinder.return_to(word, self.memory) else { continue };
            if self.frames.len() >= super::MAX_FRAMES || found >= MAX_FOUND {
                return;
            }
            self.frames.push(Frame { pc, is_next: false, origin: Origin::Found });
            found = found.saturating_add(1);
        }
    }
}

impl Unwinder<'_> {
    /// Where the bytes are that show whether a word is a return address.
    pub(super) fn call_before(&self, word: u64) -> Option<(Addr, usize)> {
        let pc = word & !1;
        (self.code.holds(pc) == Some(true)).then(|| Some((pc.checked_sub(4)?, 4)))?
    }

    /// The address that a word points back to, where it follows a call in the program's code.
    pub(super) fn return_to(&self, word: u64, memory: &mut dyn Memory) -> Option<Addr> {
        let thumb = match self.architecture {
            Architecture::CortexM => (word & 1 == 1).then_some(true)?,
            Architecture::Arm => word & 1 == 1,
            _ => false,
        };
        let pc = if thumb { word & !1 } else { word };
        if self.code.holds(pc) != Some(true) {
            return None;
        }
        let code = Code { memory, at: pc };
        code.follows_call(self.architecture, thumb).then_some(pc)
    }
}

/// Code around an address.
struct Code<'m> {
    memory: &'m mut dyn Memory,
    at: Addr,
}

impl Code<'_> {
    /// The bytes before the address. Instructions are little-endian on all of these processors (Arm: BE8).
    fn before(&mut self, len: u64) -> Option<u32> {
        let start = self.at.checked_sub(len)?;
        let mut bytes = [0; 4];
        let read = self.memory.read_bytes(start, usize::try_from(len).ok()?).ok()?;
        bytes.get_mut(..read.len())?.copy_from_slice(&read);
        Some(u32::from_le_bytes(bytes))
    }

    /// True where the instruction before the address is a call.
    fn follows_call(mut self, architecture: Architecture, thumb: bool) -> bool {
        let long = self.before(4);
        let short = match architecture {
            Architecture::X86 | Architecture::X86_64 => None,
            // The upper half of the same bytes; where code begins there are no more than these.
            _ => long.map(|word| word >> 16).or_else(|| self.before(2)),
        };
        let is = |word: Option<u32>, test: fn(u32) -> bool| word.is_some_and(test);
        match architecture {
            // BLX register; BL or BLX immediate.
            Architecture::CortexM | Architecture::Arm if thumb => {
                is(short, |w| w & 0xFF87 == 0x4780)
                    || is(long, |w| w & 0xD000_F800 == 0xD000_F000 || w & 0xD001_F800 == 0xC000_F000)
            }
            Architecture::Arm | Architecture::CortexM => is(long, |w| {
                w & 0x0F00_0000 == 0x0B00_0000 || w & 0x0FFF_FFF0 == 0x012F_FF30 || w & 0xFE00_0000 == 0xFA00_0000
            }),
            Architecture::Aarch64 => is(long, |w| w >> 26 == 0b10_0101 || w & 0xFFFF_FC1F == 0xD63F_0000),
            // JAL or JALR with ra; C.JALR, and on 32 bits C.JAL.
            Architecture::Riscv32 | Architecture::Riscv64 => {
                is(long, |w| w & 0xFFF == 0x0EF || w & 0x7FFF == 0x00E7)
                    || is(short, |w| w & 0xF07F == 0x9002 && w & 0xF80 != 0)
                    || (architecture == Architecture::Riscv32 && is(short, |w| w & 0xE003 == 0x2001))
            }
            Architecture::X86 | Architecture::X86_64 => self.follows_call_of_x86(),
        }
    }

    /// CALL with a distance; CALL through a register or memory, whose second byte and its third say how long it is.
    fn follows_call_of_x86(&mut self) -> bool {
        let mut starts_with = |back: u64, test: fn(&[u8]) -> bool| {
            let Some(start) = self.at.checked_sub(back) else { return false };
            let len = usize::try_from(back).unwrap_or_default();
            self.memory.read_bytes(start, len).is_ok_and(|bytes| test(&bytes))
        };
        starts_with(5, |bytes| bytes.first() == Some(&0xE8))
            || [2, 3, 4, 6, 7].into_iter().any(|back| starts_with(back, is_call_through))
    }
}

/// `FF /2`, and no byte more or less (Intel, Software Developer's Manual, volume 2, table 2-2).
fn is_call_through(bytes: &[u8]) -> bool {
    let &[0xFF, how, ref rest @ ..] = bytes else { return false };
    let (mode, register) = (how >> 6, how & 7);
    let with_index = mode != 3 && register == 4;
    let distance = match mode {
        0 if register == 5 => 4,
        0 if with_index && rest.first().is_some_and(|index| index & 7 == 5) => 4,
        1 => 1,
        2 => 4,
        _ => 0,
    };
    how & 0x38 == 0x10 && rest.len() == usize::from(with_index).saturating_add(distance)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `call *0x98(%r12)` has seven bytes after its prefix, and was not taken for a call.
    #[test]
    fn calls_through_memory_of_x86() {
        let calls: [&[u8]; 8] = [
            &[0xFF, 0xD0],
            &[0xFF, 0x10],
            &[0xFF, 0x50, 0x08],
            &[0xFF, 0x14, 0x24],
            &[0xFF, 0x54, 0x24, 0x08],
            &[0xFF, 0x15, 0, 0, 0, 0],
            &[0xFF, 0x90, 0x98, 0, 0, 0],
            &[0xFF, 0x94, 0x24, 0x98, 0, 0, 0],
        ];
        for call in calls {
            assert!(is_call_through(call), "{call:x?}");
            assert!(!is_call_through(call.get(..call.len().saturating_sub(1)).unwrap_or_default()));
            assert!(!is_call_through(&[call, &[0x90]].concat()));
        }
        // A jump, a push, and a far call.
        for other in [0xE0, 0xF0, 0xD8] {
            assert!(!is_call_through(&[0xFF, other]), "{other:#x}");
        }
        assert!(!is_call_through(&[]));
    }
}
