//! What is known of each architecture, as one table: its names, its registers, and where notes and GDB have them.

use super::{Architecture, aarch64, arm, cortex_m, riscv, x86};
use crate::abi::{Addr, Width};
use crate::elf::Machine;

/// What a register holds, in the words of GDB's target descriptions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A number.
    Int,
    /// An address of data.
    Data,
    /// An address of code.
    Code,
    /// A floating-point number of 64 bits; where a program's calls use others, of so many.
    Double,
    /// An x87 number of 80 bits.
    X87,
}

/// Which part of the processor a register belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// What every processor of the kind has.
    General,
    /// The floating-point unit, where there is one.
    Float,
    /// Stack pointers, masks, and the state of exceptions.
    System,
    /// What a fault left behind.
    Fault,
}

/// How a debugger reads a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// By GDB's number.
    Number(u16),
    /// From memory: the processor maps it at this address.
    Memory(Addr),
    /// By its name alone, where a stub describes one of that name.
    Name,
}

/// One register of an architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Register {
    /// GDB's name, or the manual's.
    pub name: &'static str,
    /// How it is read.
    pub place: Place,
    /// Size. Those of more than 64 bits are named, so that a `g` packet has their place; their values are not kept.
    pub bits: u16,
    /// What it holds.
    pub kind: Kind,
    /// Where it belongs.
    pub group: Group,
}

impl Register {
    /// The same with this size.
    #[must_use]
    pub const fn sized(self, bits: u16) -> Self {
        Self { bits, ..self }
    }

    /// GDB's number, where it has one.
    pub const fn number(&self) -> Option<u16> {
        match self.place {
            Place::Number(number) => Some(number),
            Place::Memory(_) | Place::Name => None,
        }
    }

    /// Number of bytes in a `g` packet.
    pub const fn bytes(&self) -> usize {
        (self.bits >> 3) as usize
    }

    /// The largest value it holds.
    pub(super) const fn max(&self) -> u64 {
        match self.bits {
            32 => 0xFFFF_FFFF,
            _ => u64::MAX,
        }
    }
}

/// Registers of one kind whose numbers, or addresses, follow each other.
pub(super) struct Bank {
    group: Group,
    kind: Kind,
    /// Bits; 0: those of an address.
    bits: u16,
    /// The place of the first.
    first: Place,
    /// Their names, with blanks between them.
    names: &'static str,
}

/// Registers as wide as an address.
pub(super) const fn general(kind: Kind, first: u16, names: &'static str) -> Bank {
    Bank { group: Group::General, kind, bits: 0, first: Place::Number(first), names }
}

/// Registers of this group and size.
pub(super) const fn bank(group: Group, kind: Kind, bits: u16, first: Place, names: &'static str) -> Bank {
    Bank { group, kind, bits, first, names }
}

/// Names between blanks; `-` is a word without a register.
pub(super) fn words(names: &'static str) -> impl Iterator<Item = Option<&'static str>> + Clone {
    names.split_ascii_whitespace().map(|name| (name != "-").then_some(name))
}

/// The ranges of memory that hold these registers; those that follow each other are one.
pub(super) fn runs(registers: &[Register]) -> Vec<(Addr, usize)> {
    let mut runs: Vec<(Addr, usize)> = Vec::new();
    for register in registers {
        let Place::Memory(at) = register.place else { continue };
        match runs.last_mut() {
            Some((start, len)) if start.checked_add(*len as u64) == Some(at) => {
                *len = len.saturating_add(register.bytes())
            }
            _ => runs.push((at, register.bytes())),
        }
    }
    runs
}

/// One architecture.
pub(super) struct Model {
    /// What it is called.
    pub(super) name: &'static str,
    /// Other names, in lower case.
    pub(super) names: &'static [&'static str],
    pub(super) machine: Machine,
    pub(super) width: Width,
    pub(super) registers: &'static [Bank],
    /// The names of the program counter, the stack pointer and the link register.
    pub(super) roles: [Option<&'static str>; 3],
    /// Usual other names of registers.
    pub(super) aliases: &'static [(&'static str, &'static str)],
    /// The register in each word of a `NT_PRSTATUS` note's `pr_reg`.
    pub(super) note: &'static str,
    /// GDB's name of the architecture.
    pub(super) gdb: &'static str,
    /// GDB's features for the groups General, Float and System; empty where it has none.
    pub(super) features: [&'static str; 3],
    /// The triple that LLDB expects.
    pub(super) triple: &'static str,
}

impl Model {
    /// Every register, in the order of a `g` packet.
    #[allow(clippy::arithmetic_side_effects, reason = "numbers and addresses from the tables of each architecture")]
    pub(super) fn expand(&self) -> Vec<Register> {
        let own = if self.width == Width::W4 { 32 } else { 64 };
        let of = |bank: &'static Bank| {
            bank.names.split_ascii_whitespace().zip(0u16..).map(move |(name, index)| Register {
                name,
                place: match bank.first {
                    Place::Number(first) => Place::Number(first + index),
                    Place::Memory(first) => Place::Memory(first + u64::from(index) * 4),
                    Place::Name => Place::Name,
                },
                bits: if bank.bits == 0 { own } else { bank.bits },
                kind: bank.kind,
                group: bank.group,
            })
        };
        self.registers.iter().flat_map(of).collect()
    }
}

impl Architecture {
    pub(super) const fn model(self) -> &'static Model {
        match self {
            Self::CortexM => &cortex_m::MODEL,
            Self::Arm => &arm::MODEL,
            Self::Aarch64 => &aarch64::MODEL,
            Self::Riscv32 => &riscv::MODEL_32,
            Self::Riscv64 => &riscv::MODEL_64,
            Self::X86 => &x86::MODEL_32,
            Self::X86_64 => &x86::MODEL_64,
        }
    }
}
