//! Faults of a RISC-V in machine mode: `mcause`, `mepc`, `mtval`.
//!
//! The causes are those of the RISC-V Instruction Set Manual, volume II (3.1.15, table of `mcause`). `mcause` keeps the last
//! trap, an interrupt too, until the next; nothing shows whether its handler still runs.

use super::{Fault, FaultBit, FaultKind};
use crate::abi::{Addr, Width};
use crate::cpu::Registers;

/// What shows a fault.
pub(super) const NAMES: [&str; 4] = ["mcause", "mepc", "mtval", "mstatus"];

/// Causes that are no fault: a breakpoint, and calls of the environment.
const NO_FAULT: [u64; 5] = [3, 8, 9, 10, 11];

/// The name of a cause, and whether `mtval` is the address that failed.
const fn cause(code: u64) -> Option<(&'static str, bool)> {
    Some(match code {
        0 => ("instruction address misaligned", true),
        1 => ("instruction access fault", true),
        2 => ("illegal instruction", false),
        3 => ("breakpoint", false),
        4 => ("load address misaligned", true),
        5 => ("load access fault", true),
        6 => ("store or AMO address misaligned", true),
        7 => ("store or AMO access fault", true),
        8 => ("environment call from U-mode", false),
        9 => ("environment call from S-mode", false),
        10 => ("environment call from VS-mode", false),
        11 => ("environment call from M-mode", false),
        12 => ("instruction page fault", true),
        13 => ("load page fault", true),
        15 => ("store or AMO page fault", true),
        16 => ("double trap", false),
        18 => ("software check", false),
        19 => ("hardware error", false),
        20 => ("instruction guest-page fault", true),
        21 => ("load guest-page fault", true),
        23 => ("store or AMO guest-page fault", true),
        _ => return None,
    })
}

/// What `mcause` records; `None` where that is an interrupt, no fault, or the state after a reset.
pub(super) fn fault(registers: &Registers) -> Option<Fault> {
    let mcause = registers.get("mcause")?;
    let interrupt = match registers.architecture().width() {
        Width::W8 => 1 << 63,
        _ => 1 << 31,
    };
    let [mepc, mtval] = ["mepc", "mtval"].map(|name| registers.get(name));
    // A reset leaves 0 in all of them.
    let untouched = mcause == 0 && mepc.unwrap_or(0) == 0 && mtval.unwrap_or(0) == 0;
    let typed = registers.is_given("mcause");
    if mcause & interrupt != 0 || registers.is_at_reset() || !typed && (NO_FAULT.contains(&mcause) || untouched) {
        return None;
    }
    let (words, has_address) = cause(mcause).unwrap_or(("a cause of the chip's own", false));
    let bits = vec![FaultBit {
        register: "mcause",
        name: format!("cause {mcause}"),
        words: format!("{words}: the last trap that was taken"),
        current: None,
        kind: Some(match mcause {
            0 | 2 | 4 | 6 | 16 | 18 => FaultKind::Usage,
            12..=15 | 20..=23 => FaultKind::Memory,
            _ => FaultKind::Bus,
        }),
    }];
    // A processor may leave 0 in mtval for any cause.
    let address: Option<(Addr, &'static str)> = mtval.filter(|at| has_address && *at != 0).map(|at| (at, "mtval"));
    Some(Fault {
        name: None,
        current: None,
        registers: registers.known_of(&NAMES),
        bits,
        address,
        address_valid: address.map(|_| true),
    })
}
