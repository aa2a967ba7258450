//! `NT_PRSTATUS`: what a core's note says of one thread or CPU, as Linux and GDB lay it out.

use super::{Architecture, Level, Registers, aarch64, arm, riscv, x86};
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

/// The layout of an architecture's note.
const fn layout(architecture: Architecture) -> &'static Prstatus {
    match architecture {
        Architecture::CortexM => &arm::PRSTATUS_M,
        Architecture::Arm => &arm::PRSTATUS,
        Architecture::Aarch64 => &aarch64::PRSTATUS,
        Architecture::Riscv32 => &riscv::PRSTATUS_32,
        Architecture::Riscv64 => &riscv::PRSTATUS_64,
        Architecture::X86 => &x86::PRSTATUS_32,
        Architecture::X86_64 => &x86::PRSTATUS_64,
    }
}

/// The registers of one thread of a system, from its `NT_PRSTATUS` note and the `NT_386_TLS` note behind that; `None`
/// where the first is too short.
#[must_use]
pub fn from_notes(
    architecture: Architecture,
    endian: Endian,
    prstatus: &[u8],
    tls: Option<&[u8]>,
) -> Option<Registers> {
    let (lwp, mut registers) = from_prstatus(architecture, endian, prstatus)?;
    match architecture {
        Architecture::X86 => {
            let base = tls.and_then(|note| x86::segment(note, endian, &registers));
            registers.belong_to(lwp, base);
        }
        Architecture::X86_64 => registers.belong_to(lwp, None),
        // Bare metal: whoever wrote the core numbered its CPUs.
        _ => {}
    }
    Some(registers)
}

/// The `NT_386_TLS` note that goes behind a thread's `NT_PRSTATUS`, where there is one.
#[must_use]
pub fn to_tls(registers: &Registers, endian: Endian) -> Option<Vec<u8>> {
    (registers.architecture() == Architecture::X86).then(|| x86::segment_note(registers, endian)).flatten()
}

/// The thread's number and registers from the description of one `NT_PRSTATUS` note; `None` where it is too short.
///
/// A big-endian ARM target (BE8) has its data big-endian, but QEMU sends its registers little-endian and GDB copies
/// them into cores as they came: the order in which the status register makes sense is taken. For a Cortex-M QEMU
/// writes the status word of the other profiles: that is no xPSR, which is unknown then.
#[must_use]
pub fn from_prstatus(architecture: Architecture, endian: Endian, desc: &[u8]) -> Option<(u32, Registers)> {
    let layout = layout(architecture);
    let lwp = endian.u32(desc, layout.pid)?;
    let read = |endian: Endian| {
        let mut registers = Registers::new(architecture);
        let bytes = desc.get(layout.registers..)?;
        for (name, word) in layout.order.iter().zip(bytes.chunks(layout.word.bytes())) {
            registers.put(name, endian.word(layout.word, word, 0)?);
        }
        // A note that ends before the last register is none of this architecture.
        let known = layout.order.iter().all(|name| name.is_empty() || registers.get(name).is_some());
        if architecture == Architecture::CortexM && registers.level() == Level::Unknown {
            registers.forget("xpsr");
        }
        known.then_some(registers)
    };
    Some((lwp, arm::in_order(architecture, endian, read)?))
}

/// Size of the whole description, as the readers of cores want it: headers, registers, and one word behind them.
const fn size(architecture: Architecture) -> usize {
    match architecture {
        Architecture::CortexM | Architecture::Arm => 148,
        Architecture::Aarch64 => 392,
        Architecture::Riscv32 => 204,
        Architecture::Riscv64 => 376,
        Architecture::X86 => 144,
        Architecture::X86_64 => 336,
    }
}

/// The description of an `NT_PRSTATUS` note. It has no way to say that a register is not known: such a one is 0.
#[must_use]
pub fn to_prstatus(registers: &Registers, endian: Endian, lwp: u32, signal: u16) -> Vec<u8> {
    let architecture = registers.architecture();
    let layout = layout(architecture);
    let mut desc = vec![0; size(architecture)];
    let mut put = |at: usize, len: usize, value: u64| {
        let Some(place) = at.checked_add(len).and_then(|end| desc.get_mut(at..end)) else { return };
        let bytes = value.to_le_bytes();
        place.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
        if endian == Endian::Big {
            place.reverse();
        }
    };
    put(0, 4, signal.into());
    put(12, 2, signal.into());
    put(layout.pid, 4, lwp.into());
    let mut at = layout.registers;
    for name in layout.order {
        put(at, layout.word.bytes(), registers.get(name).unwrap_or(0));
        at = at.saturating_add(layout.word.bytes());
    }
    desc
}
