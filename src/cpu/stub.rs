//! A stub's answer to `g`.

use super::{Architecture, Group, Registers, arm};
use crate::abi::Endian;

/// Registers from the bytes of a `g` reply; those that it does not reach stay unknown.
///
/// The order is that of the general registers. A stub without a target description sends ARM's old layout (eight FPA
/// registers of 12 bytes and their status before the CPSR), which its length tells. Registers of a big-endian ARM
/// target may be little-endian (QEMU, BE8): the order in which the status register makes sense is taken.
#[must_use]
pub fn from_stub(architecture: Architecture, endian: Endian, bytes: &[u8]) -> Registers {
    let arm = matches!(architecture, Architecture::Arm | Architecture::CortexM);
    let old = arm && bytes.len() >= arm::OLD_G;
    let read = |endian: Endian| {
        let mut registers = Registers::new(architecture);
        let mut at = 0usize;
        for register in architecture.registers().iter().filter(|r| r.group == Group::General) {
            let from = if register.number == arm::STATUS && old { arm::OLD_STATUS } else { at };
            let value = match register.bits {
                32 => endian.u32(bytes, from).map(u64::from),
                64 => endian.u64(bytes, from),
                _ => None,
            };
            if let Some(value) = value {
                registers.put(register.name, value);
            }
            at = at.saturating_add(register.bytes());
        }
        Some(registers)
    };
    arm::in_order(architecture, endian, read).unwrap_or_else(|| Registers::new(architecture))
}
