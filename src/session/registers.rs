//! Registers that were typed (`--reg`): a name that the processor does not have is an error of every command. Those of a Cortex-M's
//! SysTick and interrupt controller are memory at their addresses, as in an evidence core.

use super::{GivenRegisters, TargetInfo};
use crate::abi::Addr;
use crate::bytes::Bytes;
use crate::code::Code;
use crate::cpu::{self, Architecture, Group, Registers};
use crate::error::Error;
use crate::mem::segments::{Block, Segments};
use crate::near;

/// A register that is memory, and was typed.
#[derive(Debug, Clone)]
pub(super) struct Mapped {
    name: String,
    at: Addr,
    value: u32,
}

impl Mapped {
    /// Takes them out of what was typed.
    pub(super) fn take_from(registers: &mut GivenRegisters) -> Vec<Self> {
        let of = |(name, value): &(String, u64)| {
            Some(Self { name: name.clone(), at: cpu::mapped_register(name)?, value: u32::try_from(*value).ok()? })
        };
        let all: Vec<Self> = registers.typed.iter().filter_map(of).collect();
        registers.typed.retain(|typed| of(typed).is_none());
        all
    }

    /// Their memory. Of a register that was typed twice the last value counts, as of others.
    pub(super) fn memory(all: &[Self]) -> Segments {
        let block = |one: &Self| Block::whole(one.at, Bytes::from(one.value.to_le_bytes().to_vec()));
        Segments::new(all.iter().rev().map(block).collect())
    }
}

impl TargetInfo {
    /// Checks their names and values, as far as the processor is known.
    ///
    /// # Errors
    /// For a register that the processor does not have, or a value that is too large for it.
    pub(super) fn check_registers(&self) -> Result<(), Error> {
        let possible = self.possible_architectures();
        let mapped = self.mapped.first().filter(|_| !possible.is_empty() && !possible.contains(&Architecture::CortexM));
        if let Some(Mapped { name, value, .. }) = mapped {
            return Err(no_register(&possible, name, (*value).into()));
        }
        let unknown = self.registers.typed.iter().find(|(name, value)| {
            !possible.is_empty() && !possible.iter().any(|a| Registers::new(*a).set(name, *value))
        });
        unknown.map_or(Ok(()), |(name, value)| Err(no_register(&possible, name, *value)))
    }

    /// The processors that the target can have; none where the program is for one whose registers are not known here.
    fn possible_architectures(&self) -> Vec<Architecture> {
        match (self.elf().map(Architecture::of), self.core.architecture()) {
            (Some(program), _) => program.into_iter().collect(),
            // A core of an ARM need not name the profile.
            (None, Some(Architecture::Arm)) => vec![Architecture::Arm, Architecture::CortexM],
            (None, Some(core)) => vec![core],
            (None, None) => Architecture::ALL.to_vec(),
        }
    }
}

/// The error of a register that none of these has, or that is smaller than the value.
pub(super) fn no_register(possible: &[Architecture], name: &str, value: u64) -> Error {
    let registers = || possible.iter().flat_map(|a| a.registers());
    let who = match possible {
        [only] => only.name(),
        _ => "a supported processor",
    };
    let has = |a: &Architecture| {
        Registers::new(*a).set(name, 0) || *a == Architecture::CortexM && cpu::mapped_register(name).is_some()
    };
    let mapped = cpu::mapped_register(name).filter(|_| possible.contains(&Architecture::CortexM));
    if let Some(at) = mapped.filter(|_| u32::try_from(value).is_ok()) {
        let message =
            format!("--reg {name}={value:#x}: it is memory at {at:#x}, and only a core or a dump can be given it");
        return Error::usage(Code::Usage, message)
            .hint("a live target is read there; a trace needs the dump of its memory");
    }
    if possible.iter().any(has) {
        let message = format!("--reg {name}={value:#x}: the value is too large for {name} of {who}");
        return Error::usage(Code::Usage, message);
    }
    let names = registers().map(|register| register.name).chain(["pc", "sp", "lr"]);
    let near = near::did_you_mean(&near::nearest(name, names), "");
    let hint = match possible {
        _ if !near.is_empty() => near,
        [_] => {
            let own = registers().filter(|register| register.group != Group::Float).map(|register| register.name);
            format!("its registers are {}", own.collect::<Vec<_>>().join(", "))
        }
        _ => "--elf FILE shows which processor it is".to_owned(),
    };
    let why = match possible {
        [_] => format!("{who} has no such register"),
        _ => "no supported processor has such a register".to_owned(),
    };
    Error::usage(Code::Usage, format!("--reg {name}={value:#x}: {why}")).hint(hint)
}
