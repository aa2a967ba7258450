//! A thread of a RISC-V runs with interrupts disabled (`mstatus.MIE` is 0), the timer interrupt is pending and enabled, and the
//! kernel's time stands still: `tx_time_get` gives the same again and again; or a loop waits for a word that interrupts change.
//!
//! The handler of a trap runs with interrupts disabled as well, so the kernel must not count an interrupt.
//!
//! Against it: a stop may fall into the few instructions in which the kernel disables interrupts itself. So it is a hint where
//! the length of a tick is not known, and where no loop waits.

use super::super::cpus::thread_of;
use super::super::graph::Graph;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::words::place_or_address;
use super::{interrupts, masked, masking_code, place};
use crate::abi::{Addr, Region};
use crate::cpu::{Architecture, Registers};
use crate::kernel::Above;
use crate::session::CpuState;

/// `mstatus`: interrupts are enabled in machine mode. `mie` and `mip`: the machine timer (Privileged Architecture, 3.1.6 and
/// 3.1.9).
pub(super) const MIE: u64 = 1 << 3;
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
    let still = interrupts::still(case);
    let is_over = still.as_ref().is_some_and(|still| still.is_over(PERIODS));
    let awaited = awaited(cpu, case);
    let has_no_period = still.as_ref().is_some_and(|still| still.period.is_none());
    // The kernel's own critical sections are short.
    let is_short = interrupts::is_in_kernel(cpu) && !is_over && !has_no_period && awaited.is_none();
    if is_short || cpu.in_loop.is_some() || cpu.is_outside_code || is_in_handler(cpu, case) {
        return None;
    }
    let is_sure = is_over || awaited.as_ref().is_some_and(|awaited| awaited.is_by_interrupt);
    let (most, mut detractors) = case.by_events();
    let most = if is_sure { most } else { most.min(Confidence::Hint) };
    let (confidence, against) = case.cap_of_registers(most);
    detractors.extend(against);
    detractors.extend((!is_sure).then(|| "a short critical section looks the same".to_owned()));
    let waits = awaited.as_ref().map(|awaited| format!(", where it waits for {} to change", awaited.words));
    let at = place::in_application(&cpu.functions).map_or_else(String::new, |at| format!(" in {at}"));
    let left = masking_code::left_by(thread.address, case);
    let path = left.as_ref().map_or_else(String::new, |left| format!("; {}", left.words));
    let claim = format!(
        "thread {} keeps interrupts disabled (mstatus.MIE 0){at}{}: the timer interrupt is pending{path}",
        thread.label(),
        waits.unwrap_or_default()
    );
    let by_device = awaited.as_ref().map(|_| "a device may change it too (DMA)");
    Some(
        Finding::new(Code::InterruptsMasked, (confidence, detractors), claim)
            .against(by_device)
            .evidence([
                Evidence::register("mstatus", status, "MIE is 0: interrupts are disabled".to_owned()),
                Evidence::register("mip", pending, "MTIP is 1: the timer interrupt is pending".to_owned()),
            ])
            .evidence(still.map(|still| still.shows()))
            .evidence(awaited.map(|awaited| awaited.evidence))
            .evidence(place::callers(&cpu.functions, CALLERS))
            .evidence(left.map(|left| left.evidence))
            .next("find the path that clears mstatus.MIE and does not restore it")
            .threads([thread.address]),
    )
}

/// The function to which all traps lead.
fn handler(cpu: &CpuState, case: &Case<'_>) -> Option<Addr> {
    case.look.function(cpu.registers.get("mtvec")? & !3).map(|function| function.address)
}

/// True in the handler of traps, where the hardware has disabled interrupts and the kernel may not have counted it yet.
pub(super) fn is_in_handler(cpu: &CpuState, case: &Case<'_>) -> bool {
    let at = |pc: Addr| case.look.function(pc).map(|function| function.address);
    handler(cpu, case).is_some_and(|handler| cpu.functions.iter().any(|function| at(function.pc) == Some(handler)))
}

/// Words of memory for which a loop waits.
struct Awaited {
    words: String,
    /// True where the handler of all interrupts, or what it calls, has their addresses.
    is_by_interrupt: bool,
    evidence: Evidence,
}

fn awaited(cpu: &CpuState, case: &Case<'_>) -> Option<Awaited> {
    let words = masked::awaited_words(cpu, case)?;
    let is_memory = |at: &Addr| case.cpus.is_some_and(|cpus| cpus.writes(Region { start: *at, len: 1 }));
    let words = Some(words).filter(|words| words.iter().all(is_memory))?;
    let usage = case.usage();
    let own: Vec<Addr> = cpu.functions.iter().filter_map(|f| Some(case.look.function(f.pc)?.address)).collect();
    let by_interrupt = |at: &Addr| {
        // What waits for the word has its address as well.
        let (Some(usage), Some(handler)) = (usage, handler(cpu, case)) else { return false };
        let mut functions = usage.functions_with(Region { start: *at, len: 1 });
        functions.retain(|function| !own.contains(function));
        usage.is_run_by(handler, &functions)
    };
    let named: Vec<String> = words.iter().map(|at| place_or_address(*at, case)).collect();
    let named = named.join(" and ");
    let start = cpu.polling.as_ref()?.start;
    let is_by_interrupt = words.iter().all(by_interrupt);
    let by = if is_by_interrupt { ", which interrupts may change," } else { "" };
    let evidence = Evidence::memory(start, format!("the loop here reads {named}{by} and nothing else ends it"));
    Some(Awaited { words: named, is_by_interrupt, evidence })
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
