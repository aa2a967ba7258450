//! Faults of an ARM in 64 bits: `esr`, `far`, `elr` of the current exception level.
//!
//! Encodings are those of the Arm Architecture Reference Manual for A-profile (D19.2, ESR_ELx). `esr` keeps the last exception
//! that was no interrupt; nothing shows whether its handler still runs.

use super::{Fault, FaultBit, FaultKind};
use crate::abi::Addr;
use crate::cpu::Registers;

/// What shows a fault.
pub(super) const NAMES: [&str; 3] = ["esr", "far", "elr"];

/// Classes of exceptions that are no fault: a floating-point unit that is switched on at its first use, and calls.
const NO_FAULT: [u64; 8] = [0x07, 0x11, 0x12, 0x13, 0x15, 0x16, 0x17, 0x3C];

/// The stub's name of the register that the current exception level has, by `cpsr`; EL0 has none of its own.
pub(super) fn banked_name(registers: &Registers, name: &str) -> Option<String> {
    let level = registers.get("cpsr").map_or(1, |cpsr| cpsr >> 2 & 3).max(1);
    NAMES.contains(&name).then(|| format!("{}_EL{level}", name.to_ascii_uppercase()))
}

/// The class of an exception in words.
const fn class(class: u64) -> &'static str {
    match class {
        0x00 => "an undefined instruction, or another cause without a class",
        0x01 => "a trapped WFI or WFE",
        0x07 => "an access to floating-point or SIMD registers that are off",
        0x0E => "an illegal execution state",
        0x11 | 0x15 => "an SVC instruction",
        0x12 | 0x16 => "an HVC instruction",
        0x13 | 0x17 => "an SMC instruction",
        0x18 => "a trapped access to a system register",
        0x19 => "an access to SVE registers that are off",
        0x20 => "instruction abort from a lower exception level",
        0x21 => "instruction abort",
        0x22 => "the pc is not aligned",
        0x24 => "data abort from a lower exception level",
        0x25 => "data abort",
        0x26 => "the stack pointer is not aligned",
        0x28 | 0x2C => "a trapped floating-point exception",
        0x2F => "SError: an error that belongs to no instruction",
        0x30 | 0x31 => "a hardware breakpoint",
        0x32 | 0x33 => "a software step",
        0x34 | 0x35 => "a watchpoint",
        0x38 | 0x3C => "a breakpoint instruction",
        _ => "an exception class without a name here",
    }
}

/// The state of an instruction abort or data abort in words.
fn status(status: u64) -> String {
    let level = status & 3;
    match status {
        0x00..=0x03 => format!("address size fault, level {level}"),
        0x04..=0x07 => format!("translation fault, level {level}"),
        0x08..=0x0B => format!("access flag fault, level {level}"),
        0x0C..=0x0F => format!("permission fault, level {level}"),
        0x10 => "synchronous external abort".to_owned(),
        0x14..=0x17 => format!("external abort on a translation table walk, level {level}"),
        0x18 => "parity or ECC error".to_owned(),
        0x1C..=0x1F => format!("parity or ECC error on a translation table walk, level {level}"),
        0x21 => "alignment fault".to_owned(),
        0x30 => "TLB conflict abort".to_owned(),
        _ => format!("state {status:#04x}"),
    }
}

/// The kind of fault by the class and the state of an exception.
const fn kind(class: u64, status: u64) -> FaultKind {
    match (class, status) {
        (0x2F, _) | (0x20 | 0x21 | 0x24 | 0x25, 0x10..=0x1F) => FaultKind::Bus,
        (0x20 | 0x21 | 0x24 | 0x25, 0x21) => FaultKind::Usage,
        (0x20 | 0x21 | 0x24 | 0x25, _) => FaultKind::Memory,
        _ => FaultKind::Usage,
    }
}

/// What `esr` records; `None` where that is no fault, or the state after a reset.
pub(super) fn fault(registers: &Registers) -> Option<Fault> {
    let esr = registers.get("esr")?;
    let own = esr >> 26 & 0x3F;
    if !registers.is_given("esr") && (esr == 0 || NO_FAULT.contains(&own)) {
        return None;
    }
    let is_data = matches!(own, 0x24 | 0x25);
    let is_abort = is_data || matches!(own, 0x20 | 0x21);
    let mut words = class(own).to_owned();
    if is_data {
        words.push_str(if esr & 1 << 6 != 0 { " at a write" } else { " at a read" });
    }
    if is_abort {
        words.push_str(&format!(": {}", status(esr & 0x3F)));
    }
    let bit = FaultBit {
        register: "esr",
        name: format!("EC {own:#04x}"),
        words,
        current: None,
        kind: Some(kind(own, esr & 0x3F)),
    };
    // FnV: far was not written.
    let has_address = is_abort && esr & 1 << 10 == 0 || own == 0x22;
    let address: Option<(Addr, &'static str)> = registers.get("far").filter(|_| has_address).map(|at| (at, "far"));
    let address_valid =
        if is_abort || own == 0x22 { Some(has_address).filter(|v| !v || address.is_some()) } else { None };
    Some(Fault {
        name: None,
        current: None,
        registers: registers.known_of(&NAMES),
        bits: vec![bit],
        address,
        address_valid,
    })
}
