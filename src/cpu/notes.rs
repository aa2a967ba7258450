//! `NT_PRSTATUS`: what a core's note says of one thread or CPU, as Linux and GDB lay it out.

use super::{Architecture, Registers, aarch64, arm, riscv, x86};
use crate::abi::{Endian, Width};

/// Where a note has its parts.
pub(super) struct Prstatus {
    /// Offset of `pr_pid`.
    pub(super) pid: usize,
    /// Offset of `pr_reg`.
    pub(super) registers: usize,
    /// Size of one word of `pr_reg`.
    pub(super) word: Width,
    /// The register in each word; an empty name is a word that is none of ours.
    pub(super) order: &'static [&'static str],
}

/// The headers in front of the registers, for each word size.
pub(super) const HEAD_32: (usize, usize) = (24, 72);
pub(super) const HEAD_64: (usize, usize) = (32, 112);

/// The thread's number and registers from the description of one `NT_PRSTATUS` note; `None` where it is too short.
///
/// A big-endian ARM target (BE8) has its data big-endian, but QEMU sends its registers little-endian and GDB copies
/// them into cores as they came: the order in which the status register makes sense is taken.
#[must_use]
pub fn from_prstatus(architecture: Architecture, endian: Endian, desc: &[u8]) -> Option<(u32, Registers)> {
    let layout = match architecture {
        Architecture::CortexM => &arm::PRSTATUS_M,
        Architecture::Arm => &arm::PRSTATUS,
        Architecture::Aarch64 => &aarch64::PRSTATUS,
        Architecture::Riscv32 => &riscv::PRSTATUS_32,
        Architecture::Riscv64 => &riscv::PRSTATUS_64,
        Architecture::X86 => &x86::PRSTATUS_32,
        Architecture::X86_64 => &x86::PRSTATUS_64,
    };
    let lwp = endian.u32(desc, layout.pid)?;
    let read = |endian: Endian| {
        let mut registers = Registers::new(architecture);
        let bytes = desc.get(layout.registers..)?;
        for (name, word) in layout.order.iter().zip(bytes.chunks(layout.word.bytes())) {
            registers.put(name, endian.word(layout.word, word, 0)?);
        }
        // A note that ends before the last register is none of this architecture.
        let known = layout.order.iter().all(|name| name.is_empty() || registers.get(name).is_some());
        known.then_some(registers)
    };
    Some((lwp, arm::in_order(architecture, endian, read)?))
}
