//! A stub's answer to `g`.

use super::{Architecture, Group, Origin, Registers, arm};
use crate::abi::Endian;

/// Registers from the bytes of a `g` reply; those with a byte that is not known, or beyond its end, stay unknown.
///
/// The order is that of the general registers. A stub without a target description sends ARM's old layout (eight FPA
/// registers of 12 bytes and their status before the CPSR), which its length shows. Registers of a big-endian ARM
/// target may be little-endian (QEMU, BE8): the order in which the status register makes sense is taken.
#[must_use]
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
