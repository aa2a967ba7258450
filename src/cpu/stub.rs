//! A stub's answer to `g`, and the same for a thread that does not run.

use super::{Architecture, Group, Origin, Registers, arm};
use crate::abi::Endian;

/// Registers from the bytes of a `g` reply; those with a byte that is not known, or beyond its end, stay unknown.
///
/// The order is that of the general registers. A stub without a target description sends ARM's old layout (eight FPA
/// registers of 12 bytes and their status before the CPSR), which its length shows. Registers of a big-endian ARM
/// target may be little-endian (QEMU, BE8): the order in which the status register makes sense is taken.
pub fn from_stub(architecture: Architecture, endian: Endian, bytes: &[Option<u8>]) -> Registers {
    let arm = matches!(architecture, Architecture::Arm | Architecture::CortexM);
    let old = arm && bytes.len() >= arm::OLD_G;
    let read = |endian: Endian| {
        let mut registers = Registers::of(architecture, Origin::Read);
        let mut rest = bytes;
        for register in architecture.registers().iter().filter(|r| r.group == Group::General) {
            if old && register.number() == Some(arm::STATUS) {
                rest = bytes.get(arm::OLD_STATUS..).unwrap_or_default();
            }
            let (own, behind) = rest.split_at_checked(register.bytes()).unwrap_or_default();
            rest = behind;
            let known: Option<Vec<u8>> = own.iter().copied().collect();
            let value = known.and_then(|bytes| match register.bits {
                32 => endian.u32(&bytes, 0).map(u64::from),
                64 => endian.u64(&bytes, 0),
                _ => None,
            });
            value.map(|value| registers.set(register.name, value));
        }
        Some(registers)
    };
    arm::in_order(architecture, endian, read).unwrap_or_else(|| Registers::of(architecture, Origin::Read))
}

/// The registers of another thread in the form of this `g` reply of the CPU, with what is not known left open.
pub fn to_stub(registers: &Registers, endian: Endian, cpu: &[Option<u8>]) -> Vec<Option<u8>> {
    let architecture = registers.architecture();
    let arm = matches!(architecture, Architecture::Arm | Architecture::CortexM);
    let old = arm && cpu.len() >= arm::OLD_G;
    let endian = order(architecture, endian, cpu);
    let mut all: Vec<Option<u8>> = Vec::with_capacity(cpu.len());
    for register in architecture.registers().iter().filter(|r| r.group == Group::General) {
        if old && register.number() == Some(arm::STATUS) {
            all.resize(arm::OLD_STATUS, None);
        }
        all.extend(registers.encode(register, endian));
    }
    all.resize(cpu.len(), None);
    all
}

/// The byte order in which the CPU's registers came.
fn order(architecture: Architecture, endian: Endian, cpu: &[Option<u8>]) -> Endian {
    let read = from_stub(architecture, endian, cpu);
    let status = architecture.registers().iter().take_while(|r| r.name != "cpsr").map(super::Register::bytes).sum();
    let bytes: Option<Vec<u8>> = cpu.get(status..).and_then(|rest| rest.iter().take(4).copied().collect());
    let value = bytes.and_then(|bytes| endian.u32(&bytes, 0)).map(u64::from);
    match read.get("cpsr") {
        Some(cpsr) if endian == Endian::Big && value.is_some_and(|value| value != cpsr) => Endian::Little,
        _ => endian,
    }
}
