//! Faults of an ARM of the A or R profile in 32 bits: `dfsr`, `dfar`, `ifsr`, `ifar`.
//!
//! Encodings are those of the Armv7-A and Armv7-R Architecture Reference Manual (B3.13, B4.1.52, B5.5). The registers keep
//! the last abort of their kind, and hold anything after a reset: only in abort mode are they of an abort that goes on.

use super::{Fault, FaultBit, FaultKind};
use crate::abi::Addr;
use crate::cpu::{Level, Registers};

/// What shows a fault.
pub(super) const NAMES: [&str; 4] = ["dfsr", "dfar", "ifsr", "ifar"];

/// `dfsr`: the access was a write.
const WRITE: u64 = 1 << 11;
/// The state has the long format.
const LONG: u64 = 1 << 9;

/// True where the mode does not rule out that an abort goes on.
pub(super) fn may_be_in_fault(registers: &Registers) -> bool {
    matches!(registers.level(), Level::Mode("abort" | "undefined") | Level::Unknown)
}

/// The state in words, of the short format, and whether it has an address.
const fn short(status: u64) -> Option<(&'static str, bool)> {
    Some(match status {
        0x01 => ("alignment fault", true),
        0x02 => ("debug event", false),
        0x03 | 0x06 => ("access flag fault", true),
        0x04 => ("fault in cache maintenance of an instruction cache", true),
        0x05 => ("translation fault, first level", true),
        0x07 => ("translation fault, second level", true),
        0x08 => ("synchronous external abort", true),
        0x09 => ("domain fault, first level", true),
        0x0B => ("domain fault, second level", true),
        0x0C => ("external abort on a translation table walk, first level", true),
        0x0D => ("permission fault, first level", true),
        0x0E => ("external abort on a translation table walk, second level", true),
        0x0F => ("permission fault, second level", true),
        0x10 => ("TLB conflict abort", true),
        0x16 => ("asynchronous external abort: it belongs to no instruction", false),
        0x18 => ("asynchronous parity error: it belongs to no instruction", false),
        0x19 => ("synchronous parity error", true),
        _ => return None,
    })
}

/// The same of the long format.
const fn long(status: u64) -> Option<(&'static str, bool)> {
    Some(match status {
        0x04..=0x07 => ("translation fault", true),
        0x08..=0x0B => ("access flag fault", true),
        0x0C..=0x0F => ("permission fault", true),
        0x10 => ("synchronous external abort", true),
        0x11 => ("asynchronous external abort: it belongs to no instruction", false),
        0x14..=0x17 => ("external abort on a translation table walk", true),
        0x18 => ("synchronous parity error", true),
        0x19 => ("asynchronous parity error: it belongs to no instruction", false),
        0x21 => ("alignment fault", true),
        0x22 => ("debug event", false),
        _ => return None,
    })
}

/// What was recorded by the status register of this name.
struct Recorded {
    bit: FaultBit,
    has_address: bool,
}

fn recorded(registers: &Registers, name: &'static str) -> Option<Recorded> {
    let word = registers.get(name)?;
    let is_long = word & LONG != 0;
    let status = if is_long { word & 0x3F } else { word & 0xF | (word >> 6 & 0x10) };
    let known = if is_long { long(status) } else { short(status) };
    let (words, has_address) = match known {
        Some(known) => known,
        // No abort has this state: the register was not written.
        None if !registers.is_given(name) => return None,
        None => ("a state that the architecture does not define", false),
    };
    let kind = match name {
        "dfsr" if word & WRITE != 0 => "data abort at a write",
        "dfsr" => "data abort at a read",
        _ => "prefetch abort",
    };
    let bit = FaultBit {
        register: name,
        name: format!("status {status:#04x}"),
        words: format!("{kind}: {words}"),
        current: None,
        kind: Some(match words {
            _ if words.contains("external abort") || words.contains("parity") => FaultKind::Bus,
            "alignment fault" | "debug event" => FaultKind::Usage,
            _ => FaultKind::Memory,
        }),
    };
    Some(Recorded { bit, has_address })
}

/// What the registers record; `None` where the mode of the CPU shows that no abort goes on, and none was typed.
pub(super) fn fault(registers: &Registers) -> Option<Fault> {
    let typed = NAMES.iter().any(|name| registers.is_given(name));
    if !typed && !may_be_in_fault(registers) {
        return None;
    }
    let [data, fetch] = ["dfsr", "ifsr"].map(|name| recorded(registers, name));
    if data.is_none() && fetch.is_none() {
        return None;
    }
    let current = (registers.level() == Level::Mode("abort")).then_some(true);
    // Only one of the two can be the abort that goes on, and nothing shows which.
    let only = data.is_some() != fetch.is_some();
    let mut address: Option<(Addr, &'static str)> = None;
    let mut expected = false;
    let mut bits = Vec::new();
    for (recorded, name) in [(data, "dfar"), (fetch, "ifar")] {
        let Some(Recorded { mut bit, has_address }) = recorded else { continue };
        bit.current = current.filter(|_| only);
        bits.push(bit);
        expected |= has_address;
        address = address.or_else(|| registers.get(name).filter(|_| has_address && only).map(|at| (at, name)));
    }
    let address_valid = match address {
        Some(_) => Some(true),
        None => (only && !expected).then_some(false),
    };
    Some(Fault {
        name: current.map(|_| "abort"),
        current,
        registers: registers.known_of_faults(),
        bits,
        address,
        address_valid,
    })
}
