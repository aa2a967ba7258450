//! Registers of a stopped CPU: from a core's notes, a stub's `g`, or what a switched-out thread left on its stack.
//!
//! One file an architecture: its registers in GDB's numbering, where a core's `NT_PRSTATUS` has them, and the frames
//! that ThreadX's port saves. What a source does not hold is unknown, never zero.

mod aarch64;
mod arm;
mod before;
mod calls;
mod code;
mod cortex_m;
mod description;
mod dwarf;
mod fault;
mod frame;
mod instruction;
mod instruction_set;
mod level;
mod notes;
mod origin;
mod part;
mod polling;
mod pushed;
mod register;
mod riscv;
mod riscv_compressed;
mod riscv_jumps;
mod riscv_steps;
mod riscv_word;
mod round;
mod run;
mod saved_fault;
mod saved_trap;
mod steps;
mod stub;
mod table;
mod values;
mod x86;

use std::sync::LazyLock;

pub use before::with_those_before;
pub use calls::{Call, Callee, Function, Outcome, Paths, Piece, Program, Variant};
pub use code::CodeRanges;
pub use cortex_m::{INTERRUPT_STATE, is_exc_return, mapped_register};
pub use fault::{Fault, FaultBit, FaultKind, FrameDoubt, NO_THUMB, as_cfsr};
pub use frame::{Frames, Saved, SavedError, SavedKind};
pub use instruction::{Effect, LOOP, Loop, Size, Waiting, cannot_fail, endless_loop, long_branch, waiting};
pub use instruction_set::InstructionSet;
pub use level::{Level, profile};
pub use notes::{from_notes, to_prstatus, to_tls};
pub use origin::{Code, CodeFrame, Input, Read, called_member, computed, is_index_masked};
pub use polling::{POLLING, Polling, branches_to, polling};
pub use pushed::{Pushed, is_fault, is_fault_of_state};
pub use register::{Origin, Registers};
pub use riscv_jumps::{compressed, riscv_direct, riscv_jump, riscv_pair, signed};
pub use round::{Round, round};
pub use run::{Endless, Run, is_device, is_of_core, run};
pub use saved_fault::saved_fault;
pub use saved_trap::saved_trap;
pub use stub::{from_stub, to_stub};
pub use table::{Group, Kind, Place, Register};
pub use values::{Stored, Value, expanded};

use crate::abi::{Addr, Width};
use crate::elf::{Elf, Machine};

/// A processor's instruction set, as far as registers and saved frames depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Architecture {
    /// ARM's M profile, with or without FPU.
    CortexM,
    /// ARM's A and R profiles in 32 bits (ARMv7-A and older).
    Arm,
    /// ARM in 64 bits.
    Aarch64,
    /// RISC-V, 32 bits.
    Riscv32,
    /// RISC-V, 64 bits.
    Riscv64,
    /// x86, 32 bits.
    X86,
    /// x86, 64 bits.
    X86_64,
}

impl Architecture {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::CortexM, Self::Arm, Self::Aarch64, Self::Riscv32, Self::Riscv64, Self::X86, Self::X86_64];

    /// What a program was built for; `None` for processors whose registers are not known here.
    ///
    /// A core says ARM without a profile: ask the program where there is one.
    pub fn of(elf: &Elf) -> Option<Self> {
        Some(match (elf.machine(), elf.width()) {
            (Machine::ARM, _) if elf.is_m_profile() => Self::CortexM,
            (Machine::ARM, _) => Self::Arm,
            (Machine::AARCH64, Width::W8) => Self::Aarch64,
            (Machine(243), Width::W4) => Self::Riscv32,
            (Machine(243), Width::W8) => Self::Riscv64,
            (Machine(3), _) => Self::X86,
            (Machine::X86_64, Width::W8) => Self::X86_64,
            _ => return None,
        })
    }

    /// Bits of the floating-point registers that a program's calls use, by its `e_flags`: 0 for none, doubles where the
    /// flags are not known. `None` where that does not depend on how the program was built.
    pub fn float_bits(self, flags: Option<u32>) -> Option<u16> {
        match self {
            Self::Riscv32 | Self::Riscv64 => Some(flags.map_or(64, riscv::float_bits)),
            _ => None,
        }
    }

    /// The one of this name, or another usual one; for a dump without an ELF.
    pub fn named(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|a| a.model().names.iter().any(|name| name.eq_ignore_ascii_case(text)))
    }

    /// The number of its instruction set in an ELF file.
    pub const fn machine(self) -> Machine {
        self.model().machine
    }

    /// Its usual name.
    pub const fn name(self) -> &'static str {
        self.model().name
    }

    /// Width of an address and of a general register.
    pub const fn width(self) -> Width {
        self.model().width
    }

    /// The target triple that LLDB expects.
    pub const fn triple(self) -> &'static str {
        self.model().triple
    }

    /// Its registers: those with a number of GDB's first, in the order of a `g` packet.
    pub fn registers(self) -> &'static [Register] {
        static TABLES: LazyLock<[Vec<Register>; 7]> = LazyLock::new(|| Architecture::ALL.map(|a| a.model().expand()));
        TABLES.get(self as usize).map_or(&[], Vec::as_slice)
    }

    /// The ranges of memory into which the processor maps registers: none of those that reading changes.
    pub fn mapped(self) -> &'static [(Addr, usize)] {
        static RUNS: LazyLock<[Vec<(Addr, usize)>; 7]> =
            LazyLock::new(|| Architecture::ALL.map(|a| table::runs(a.registers())));
        RUNS.get(self as usize).map_or(&[], Vec::as_slice)
    }

    /// The names of the system and fault registers that neither a `g` packet nor a core's notes have a place for.
    pub fn system_registers(self) -> Vec<&'static str> {
        let in_note = |name: &str| table::words(self.model().note).flatten().any(|n| n == name);
        let system = self.registers().iter().filter(|r| matches!(r.group, Group::System | Group::Fault));
        system.map(|r| r.name).filter(|name| !in_note(name)).collect()
    }

    /// The index in [`Architecture::registers`] of a register, by GDB's name or another usual one.
    fn index(self, name: &str) -> Option<usize> {
        let registers = self.registers();
        let known = |name: &str| registers.iter().position(|r| r.name.eq_ignore_ascii_case(name));
        let [pc, sp, lr] = self.model().roles;
        known(name).or_else(|| match name.to_ascii_lowercase().as_str() {
            "pc" => known(pc?),
            "sp" => known(sp?),
            "lr" => known(lr?),
            alias => match self.model().aliases.iter().find(|(other, _)| *other == alias) {
                Some((_, own)) => known(own),
                None => riscv::numbered(self, alias),
            },
        })
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "tests say what they expect by failing")]
mod tests;
