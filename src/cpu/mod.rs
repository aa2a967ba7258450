//! REGISTERS OF A STOPPED CPU: out of a core's notes, a stub's `g`, or what a switched-out thread left on its stack.
//!
//! One file an architecture: its registers in GDB's numbering, where a core's `NT_PRSTATUS` has them, and the frames
//! that ThreadX's port saves. What a source does not hold is unknown, never zero.

mod aarch64;
mod arm;
mod code;
mod cortex_m;
mod description;
mod frame;
mod level;
mod notes;
mod register;
mod riscv;
mod stub;
mod x86;

pub use code::CodeRanges;
pub use frame::{Frames, Saved, SavedError, SavedKind, saved};
pub use level::{Level, profile};
pub use notes::{from_notes, from_prstatus, to_prstatus, to_tls};
pub use register::{Group, Kind, Register, Registers};
pub use stub::from_stub;

use crate::abi::Width;
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
    #[must_use]
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
    #[must_use]
    pub fn float_bits(self, flags: Option<u32>) -> Option<u16> {
        match self {
            Self::Riscv32 | Self::Riscv64 => Some(flags.map_or(64, riscv::float_bits)),
            _ => None,
        }
    }

    /// The one that people call so; for a dump without an ELF.
    #[must_use]
    pub fn named(text: &str) -> Option<Self> {
        Some(match text.to_ascii_lowercase().as_str() {
            "cortex-m" | "cortexm" | "armv6-m" | "armv7-m" | "armv7e-m" | "armv8-m" => Self::CortexM,
            "arm" | "armv7-a" | "armv7-r" | "cortex-a" | "cortex-r" => Self::Arm,
            "aarch64" | "arm64" | "armv8-a" => Self::Aarch64,
            "riscv32" | "rv32" => Self::Riscv32,
            "riscv64" | "rv64" => Self::Riscv64,
            "i386" | "x86" => Self::X86,
            "x86-64" | "x86_64" | "amd64" => Self::X86_64,
            _ => return None,
        })
    }

    /// The number of its instruction set in an ELF file.
    #[must_use]
    pub const fn machine(self) -> Machine {
        match self {
            Self::CortexM | Self::Arm => Machine::ARM,
            Self::Aarch64 => Machine::AARCH64,
            Self::Riscv32 | Self::Riscv64 => Machine(243),
            Self::X86 => Machine(3),
            Self::X86_64 => Machine::X86_64,
        }
    }

    /// What people call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::CortexM => "Cortex-M",
            Self::Arm => "ARM",
            Self::Aarch64 => "AArch64",
            Self::Riscv32 => "riscv32",
            Self::Riscv64 => "riscv64",
            Self::X86 => "i386",
            Self::X86_64 => "x86-64",
        }
    }

    /// Width of an address and of a general register.
    #[must_use]
    pub const fn width(self) -> Width {
        match self {
            Self::CortexM | Self::Arm | Self::Riscv32 | Self::X86 => Width::W4,
            Self::Aarch64 | Self::Riscv64 | Self::X86_64 => Width::W8,
        }
    }

    /// Its registers: GDB's names and numbering, in the order of a `g` packet.
    #[must_use]
    pub const fn registers(self) -> &'static [Register] {
        match self {
            Self::CortexM => cortex_m::REGISTERS,
            Self::Arm => arm::REGISTERS,
            Self::Aarch64 => aarch64::REGISTERS,
            Self::Riscv32 => riscv::REGISTERS_32,
            Self::Riscv64 => riscv::REGISTERS_64,
            Self::X86 => x86::REGISTERS_32,
            Self::X86_64 => x86::REGISTERS_64,
        }
    }

    /// The names of the registers that neither a `g` packet nor a core's notes have a place for.
    #[must_use]
    pub fn system_registers(self) -> Vec<&'static str> {
        match self {
            // Those of x86 are in both.
            Self::CortexM => self.registers().iter().filter(|r| r.group == Group::System).map(|r| r.name).collect(),
            _ => Vec::new(),
        }
    }

    /// The name in [`Architecture::registers`] of the program counter, the stack pointer and the link register.
    const fn roles(self) -> [Option<&'static str>; 3] {
        match self {
            Self::CortexM | Self::Arm => [Some("pc"), Some("sp"), Some("lr")],
            Self::Aarch64 => [Some("pc"), Some("sp"), Some("x30")],
            Self::Riscv32 | Self::Riscv64 => [Some("pc"), Some("sp"), Some("ra")],
            Self::X86 => [Some("eip"), Some("esp"), None],
            Self::X86_64 => [Some("rip"), Some("rsp"), None],
        }
    }

    /// The name in [`Architecture::registers`] of what people or other tools call `name`.
    fn canonical(self, name: &str) -> Option<&'static str> {
        let known = |name: &str| self.registers().iter().find(|r| r.name.eq_ignore_ascii_case(name)).map(|r| r.name);
        let [pc, sp, lr] = self.roles();
        known(name).or_else(|| match (self, name.to_ascii_lowercase().as_str()) {
            (_, "pc") => pc,
            (_, "sp") => sp,
            (_, "lr") => lr,
            (Self::CortexM | Self::Arm, alias) => arm::alias(alias).and_then(known),
            (Self::Aarch64, "fp") => Some("x29"),
            (Self::Riscv32 | Self::Riscv64, alias) => riscv::alias(alias),
            _ => None,
        })
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "tests say what they expect by failing")]
mod tests;
