//! The machine timer of a RISC-V, which gives the tick, has expired and is switched off: `mip.MTIP` is 1 and `mie.MTIE` is 0. That it
//! gave the tick shows the last trap (`mcause`), which was its interrupt.
//!
//! It is likely where no thread is ready and something waits for time to pass: then no thread can switch it on again. In a thread it
//! is a hint: a driver may switch it off for a moment.
//!
//! Against it: another interrupt may switch it on.

use super::super::graph::Graph;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::{place, timers_still};
use crate::cpu::{Architecture, Level, Registers};
use crate::kernel::Under;
use crate::session::CpuState;

/// The bit of the machine timer in `mie` and `mip`, and its number in `mcause` (Privileged Architecture, 3.1.9 and 3.1.15).
const TIMER: u64 = 7;
/// The functions of a backtrace that are named.
const CALLERS: usize = 6;

pub(super) fn find(case: &Case<'_>, _: &Graph) -> Vec<Finding> {
    case.cpus.into_iter().flat_map(|cpus| &cpus.all).filter_map(|cpu| finding(cpu, case)).collect()
}

/// The cause of an interrupt of the machine timer.
const fn interrupt(architecture: Architecture) -> Option<u64> {
    match architecture {
        Architecture::Riscv32 => Some(1 << 31 | TIMER),
        Architecture::Riscv64 => Some(1 << 63 | TIMER),
        _ => None,
    }
}

/// `mie`, `mip` and `mcause` where the machine timer has expired and is switched off.
fn is_off(registers: &Registers) -> Option<[u64; 3]> {
    let (enabled, pending) = (registers.get("mie")?, registers.get("mip")?);
    let cause = registers.get("mcause").filter(|cause| Some(*cause) == interrupt(registers.architecture()))?;
    (enabled >> TIMER & 1 == 0 && pending >> TIMER & 1 == 1).then_some([enabled, pending, cause])
}

fn finding(cpu: &CpuState, case: &Case<'_>) -> Option<Finding> {
    let [enabled, pending, cause] = is_off(&cpu.registers)?;
    let armed = timers_still::armed(case.kernel?);
    armed.first()?;
    let is_idle = cpu.under == Some(Under::Idle) && !matches!(cpu.registers.level(), Level::Exception(_));
    let claimed = if is_idle { Confidence::Likely } else { Confidence::Hint };
    let why = if is_idle { ", and no thread is ready that could switch it on" } else { "" };
    let against =
        if is_idle { "another interrupt may switch it on" } else { "a driver may have switched it off for a moment" };
    let claim = format!(
        "the tick does not come: the machine timer has expired, and its interrupt is disabled (mie.MTIE){why}; {} for a time-out",
        timers_still::waits(&armed)
    );
    Some(
        Finding::new(Code::NoTick, case.cap_of_registers(claimed), claim)
            .against([against])
            .evidence([
                Evidence::register(
                    "mie",
                    enabled,
                    "MTIE is 0: the interrupt of the machine timer is disabled".to_owned(),
                ),
                Evidence::register("mip", pending, "MTIP is 1: the machine timer has expired".to_owned()),
                Evidence::register("mcause", cause, "the last trap was the interrupt of the machine timer".to_owned()),
            ])
            .evidence(place::callers(&cpu.functions, CALLERS))
            .next("find out who clears mie.MTIE, and on which path it is not set again"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_timer_that_is_switched_off_was_not_seen() {
        let of = |architecture, mie, mip, mcause| {
            let mut registers = Registers::new(architecture);
            assert!(registers.set("mie", mie) && registers.set("mip", mip) && registers.set("mcause", mcause));
            is_off(&registers).is_some()
        };
        let (rv32, rv64) = (Architecture::Riscv32, Architecture::Riscv64);
        assert!(of(rv32, 0x808, 0x80, 0x8000_0007));
        assert!(of(rv64, 0x808, 0x80, 0x8000_0000_0000_0007));
        assert!(!of(rv64, 0x888, 0x80, 0x8000_0000_0000_0007), "it comes at once");
        assert!(!of(rv64, 0x808, 0, 0x8000_0000_0000_0007), "it has not expired");
        assert!(!of(rv64, 0x808, 0x80, 0x8000_0000_0000_000b), "another interrupt may give the tick");
        assert!(!of(rv64, 0x808, 0x80, 7), "a fault, of the same number");
        assert!(is_off(&Registers::new(rv64)).is_none(), "not known");
    }
}
