//! The instruction sets whose code is followed without running it, and what the calls of their programs agree on.

use super::steps::{self, Flow};
use super::values::{self, SP, State, Value};
use super::{Architecture, Program, instruction, riscv_steps};
use crate::abi::Addr;

/// An instruction set, and with it the registers that calls use (Procedure Call Standard for the Arm Architecture, 6.1; RISC-V
/// Calling Convention, 1.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstructionSet {
    /// That of a Cortex-M.
    Thumb,
    /// RISC-V, 32 bits.
    Riscv32,
    /// RISC-V, 64 bits.
    Riscv64,
}

impl InstructionSet {
    /// That of a processor; `None` where its code is not followed.
    pub const fn of(architecture: Architecture) -> Option<Self> {
        match architecture {
            Architecture::CortexM => Some(Self::Thumb),
            Architecture::Riscv32 => Some(Self::Riscv32),
            Architecture::Riscv64 => Some(Self::Riscv64),
            _ => None,
        }
    }

    /// The address of the code to which a pointer to a function leads; `None` for a number that is none.
    pub fn code_address(self, pointer: u32) -> Option<Addr> {
        match self {
            // Bit 0 says that the code is Thumb.
            Self::Thumb => (pointer & 1 == 1).then_some(Addr::from(pointer & !1)),
            Self::Riscv32 | Self::Riscv64 => (pointer & 1 == 0).then_some(Addr::from(pointer)),
        }
    }

    /// True for the first half of an instruction of 32 bits.
    pub const fn is_wide(self, first: u16) -> bool {
        match self {
            Self::Thumb => steps::is_wide(first),
            Self::Riscv32 | Self::Riscv64 => first & 3 == 3,
        }
    }

    /// True for the first half of a jump to the return address: BX LR; C.JR and JALR of ra.
    pub(super) const fn is_return(self, first: u16) -> bool {
        match self {
            Self::Thumb => first == 0x4770,
            Self::Riscv32 | Self::Riscv64 => matches!(first, 0x8082 | 0x8067),
        }
    }

    /// Carries out an instruction.
    pub(super) fn step(self, first: u16, second: u16, at: Addr, state: &mut State, program: &dyn Program) -> Flow {
        match self {
            Self::Thumb => steps::step(first, second, at, state, program),
            Self::Riscv32 | Self::Riscv64 => riscv_steps::step(first, second, at, state, program),
        }
    }

    /// True where an instruction waits, calls the supervisor or a debugger, stores exclusively, or is one of a coprocessor or of
    /// floating point: what it does to memory is not followed.
    pub(super) const fn is_not_followed(self, first: u16, second: u16) -> bool {
        match self {
            Self::Thumb => match first {
                0xBF20 | 0xBF30 | 0xBE00..=0xBEFF | 0xDF00..=0xDFFF => true,
                0xF3AF => second & 0xFF != 0,
                // STREX and its kin; STL of an Armv8-M.
                0xE840..=0xE84F | 0xE8C0..=0xE8CF => true,
                first => first & 0xEC00 == 0xEC00,
            },
            Self::Riscv32 | Self::Riscv64 => {
                let word = (second as u32) << 16 | first as u32;
                // ECALL, EBREAK and WFI; their short forms, and those of floating point.
                let is_system = matches!(word, 0x0000_0073 | 0x0010_0073 | 0x1050_0073) || first == 0x9002;
                is_system || matches!(word & 0x7F, 0x07 | 0x27 | 0x2F) || first & 3 != 3 && is_float(first)
            }
        }
    }

    /// True for an instruction of floating point, or of a coprocessor.
    pub(super) const fn is_of_floats(self, first: u16, second: u16) -> bool {
        match self {
            Self::Thumb => first & 0xEC00 == 0xEC00,
            Self::Riscv32 | Self::Riscv64 => {
                let word = (second as u32) << 16 | first as u32;
                matches!(word & 0x7F, 0x07 | 0x27) || first & 3 != 3 && is_float(first)
            }
        }
    }

    /// Whether an instruction disables interrupts (true), or enables them or restores what was before; `None` for any other.
    pub(super) fn disables_interrupts(self, first: u16, second: u16, state: &State) -> Option<bool> {
        match self {
            Self::Thumb => steps::disables_interrupts(first, second, state),
            Self::Riscv32 | Self::Riscv64 => riscv_steps::disables_interrupts(first, second, state),
        }
    }

    /// The address that an instruction accesses, where it is known; not those in the function's frame. Of an element of an array at an
    /// index that is not known, the address of the array.
    pub(super) fn accessed(self, first: u16, second: u16, state: &State) -> Option<u32> {
        match self {
            Self::Thumb => {
                let value = |number: u16| state.get(number).address().map(Addr::from);
                let is_memory = |at: &Addr| values::MEMORY.contains(&u32::try_from(*at).unwrap_or(0));
                let of_array = || {
                    let base = |number: u16| value(number).filter(is_memory).or(Some(0));
                    instruction::accessed(first, second, &base).filter(is_memory)
                };
                u32::try_from(instruction::accessed(first, second, &value).or_else(of_array)?).ok()
            }
            Self::Riscv32 | Self::Riscv64 => riscv_steps::accessed(first, second, state),
        }
    }

    /// True where an instruction in an IT block leaves the flags as they are.
    pub(super) const fn keeps_flags(self, first: u16) -> bool {
        matches!(self, Self::Thumb) && steps::keeps_flags(first)
    }

    /// True where a jump out of a function leads to code that restores its registers and returns to its caller.
    pub(super) fn comes_back(self, to: Addr, state: &mut State, program: &dyn Program) -> bool {
        self != Self::Thumb && riscv_steps::restores(to, state, program)
    }

    /// Sets the global pointer.
    pub(super) fn global(self, value: Option<u32>, state: &mut State) {
        if let Some(value) = value.filter(|_| self != Self::Thumb) {
            state.set(riscv_steps::GP, Value::Is(value));
        }
    }

    /// The number of the stack pointer.
    pub const fn stack_pointer(self) -> u16 {
        match self {
            Self::Thumb => SP,
            Self::Riscv32 | Self::Riscv64 => riscv_steps::SP,
        }
    }

    /// The register with the return address.
    pub(super) const fn link(self) -> u16 {
        match self {
            Self::Thumb => 14,
            Self::Riscv32 | Self::Riscv64 => riscv_steps::RA,
        }
    }

    pub(super) const fn arguments(self) -> [u16; 4] {
        match self {
            Self::Thumb => [0, 1, 2, 3],
            Self::Riscv32 | Self::Riscv64 => [10, 11, 12, 13],
        }
    }

    pub(super) const fn result(self) -> u16 {
        self.arguments()[0]
    }

    /// The registers that an instruction which is not known may change.
    pub(super) fn general(self) -> impl Iterator<Item = u16> {
        match self {
            Self::Thumb => 0..SP,
            Self::Riscv32 | Self::Riscv64 => 5..32,
        }
        .chain((self != Self::Thumb).then_some(riscv_steps::RA))
    }

    /// Those that a function need not keep: of RISC-V ra, t0 to t6, and a0 to a7.
    pub(super) const fn changed_by_calls(self) -> &'static [u16] {
        match self {
            Self::Thumb => &[0, 1, 2, 3, 12, 14],
            Self::Riscv32 | Self::Riscv64 => &[1, 5, 6, 7, 10, 11, 12, 13, 14, 15, 16, 17, 28, 29, 30, 31],
        }
    }
}

/// True for C.FLD, C.FSD, C.FLW, C.FSW and those beside the stack pointer, whose codes are other ones in 64 bits.
const fn is_float(first: u16) -> bool {
    matches!((first & 3, first >> 13), (0 | 2, 1 | 5))
}
