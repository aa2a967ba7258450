//! A thread of a RISC-V runs with interrupts disabled (`mstatus.MIE` is 0), the timer interrupt is pending and enabled, and the
//! kernel's time stands still: `tx_time_get` gives the same again and again.
//!
//! The handler of a trap runs with interrupts disabled as well, so the kernel must not count an interrupt.
//!
//! Against it: a stop may fall into the few instructions in which the kernel disables interrupts itself. So it is a hint where
//! the length of a tick is not known.

use super::super::cpus::thread_of;
use super::super::graph::Graph;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::{interrupts, place};
use crate::cpu::{Architecture, Registers};
use crate::kernel::Above;
use crate::session::CpuState;

/// `mstatus`: interrupts are enabled in machine mode. `mie` and `mip`: the machine timer (Privileged Architecture, 3.1.6 and
/// 3.1.9).
const MIE: u64 = 1 << 3;
const TIMER: u64 = 1 << 7;
/// So many periods of the tick have to be over.
const PERIODS: i64 = 2;
/// The functions of a backtrace that are named.
const CALLERS: usize = 6;

pub(super) fn find(case: &Case<'_>, _: &Graph) -> Vec<Finding> {
    case.cpus.into_iter().flat_map(|cpus| &cpus.all).filter_map(|cpu| finding(cpu, case)).collect()
}

/// `mstatus`, `mie` and `mip` where the timer interrupt is pending and enabled, and interrupts are disabled.
fn kept_back(registers: &Registers) -> Option<[u64; 3]> {
    let is_riscv = matches!(registers.architecture(), Architecture::Riscv32 | Architecture::Riscv64);
    let all = [registers.get("mstatus")?, registers.get("mie")?, registers.get("mip")?];
    let [status, enabled, pending] = all;
    (is_riscv && status & MIE == 0 && enabled & pending & TIMER != 0).then_some(all)
}

fn finding(cpu: &CpuState, case: &Case<'_>) -> Option<Finding> {
    let thread = thread_of(cpu, case.kernel)?;
    let above = &case.kernel?.cpus.get(cpu.core)?.above;
    let [status, _, pending] = kept_back(&cpu.registers).filter(|_| *above == Above::Nothing)?;
    let still = interrupts::still(case)?;
    let is_over = still.is_over(PERIODS);
    let (most, mut detractors) = if is_over || still.period.is_none() { case.by_events() } else { return None };
    let most = if is_over { most } else { most.min(Confidence::Hint) };
    let (confidence, against) = case.cap_of_registers(most);
    detractors.extend(against);
    detractors.extend((!is_over).then(|| "a short critical section looks the same".to_owned()));
    let claim = format!(
        "thread {} keeps interrupts disabled (mstatus.MIE 0){}: the timer interrupt is pending",
        thread.label(),
        interrupts::whereabouts(case, cpu)
    );
    Some(
        Finding::new(Code::InterruptsMasked, (confidence, detractors), claim)
            .evidence([
                Evidence::register("mstatus", status, "MIE is 0: interrupts are disabled".to_owned()),
                Evidence::register("mip", pending, "MTIP is 1: the timer interrupt is pending".to_owned()),
                still.shows(),
            ])
            .evidence(place::callers(&cpu.functions, CALLERS))
            .next("find the path that clears mstatus.MIE and does not restore it")
            .threads([thread.address]),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_riscv_that_keeps_its_timer_interrupt_back_was_not_seen() {
        let of = |mstatus, mie, mip| {
            let mut registers = Registers::new(Architecture::Riscv32);
            assert!(registers.set("mstatus", mstatus) && registers.set("mie", mie) && registers.set("mip", mip));
            kept_back(&registers).is_some()
        };
        assert!(of(0x80, 0x888, 0x880));
        assert!(!of(0x88, 0x888, 0x880), "interrupts are enabled");
        assert!(!of(0x80, 0x808, 0x880), "that of the timer is disabled");
        assert!(!of(0x80, 0x888, 0x800), "it is not pending");
        assert!(kept_back(&Registers::new(Architecture::Riscv32)).is_none(), "not known");
    }
}
