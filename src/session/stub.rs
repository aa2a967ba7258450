//! The registers of a CPU that a stub or a debugger holds.

use crate::abi::Endian;
use crate::cpu::{self, Frames, Origin, Registers};
use crate::rsp::{Client, RspError};

/// The registers of the CPU that stopped; `None` where the stub gives none.
pub(super) fn registers(client: &mut Client, frames: Frames) -> Result<Option<Registers>, RspError> {
    let named = client.named_registers()?;
    if !named.is_empty() {
        let mut cpu = Registers::of(frames.architecture, Origin::Read);
        for (name, value) in &named {
            // A debugger knows more than is known here: segments, flags of its own.
            cpu.set(name, *value);
        }
        for name in cpu.fault_names() {
            let banked = cpu.banked_name(name);
            let own =
                named.iter().find(|(known, _)| banked.as_ref() == Some(known)).filter(|_| cpu.get(name).is_none());
            own.map(|(_, value)| cpu.set(name, *value));
        }
        return Ok(Some(cpu));
    }
    let Some(bytes) = client.registers()? else { return Ok(None) };
    let mut cpu = cpu::from_stub(frames.architecture, frames.endian, &bytes);
    cpu.complete();
    let needed = cpu.needed();
    ask(client, frames.endian, &mut cpu, needed)?;
    Ok(Some(cpu))
}

/// Asks for registers beyond the general ones, by the numbers that the stub's description gives them.
pub(super) fn ask(client: &mut Client, endian: Endian, cpu: &mut Registers, names: &[&str]) -> Result<(), RspError> {
    let unknown: Vec<&str> = names.iter().copied().filter(|name| cpu.get(name).is_none()).collect();
    if unknown.is_empty() {
        return Ok(());
    }
    let described = client.described_registers()?;
    for name in unknown {
        let banked = cpu.banked_name(name);
        let is_own = |known: &str| known.eq_ignore_ascii_case(name) || banked.as_deref() == Some(known);
        let Some((_, number)) = described.iter().find(|(known, _)| is_own(known)) else { continue };
        let Some(bytes) = client.register(*number)? else { continue };
        let number = |bytes: &[u8]| bytes.iter().fold(0u64, |n, byte| n << 8 | u64::from(*byte));
        let value = match (bytes.len(), endian) {
            (0 | 9.., _) => continue,
            (_, Endian::Big) => number(&bytes),
            (_, Endian::Little) => number(&bytes.iter().rev().copied().collect::<Vec<u8>>()),
        };
        cpu.set_from(Origin::Read, name, value);
    }
    Ok(())
}
