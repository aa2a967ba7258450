//! A thread waits for an interrupt (WFI, WFE) in code that has disabled interrupts, and no interrupt is enabled
//! in the interrupt controller: SysTick alone could wake it, and code that does this mostly stops SysTick first.
//!
//! Against it: SysTick may count. Its control register (SYST_CSR) is not read, so this is a hint. An idle thread that waits with
//! interrupts enabled is healthy, and so is the kernel's own wait.

use super::super::cpus::thread_of;
use super::super::graph::Graph;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::interrupts::{self, SYSTICK};
use super::place;
use crate::abi::Addr;
use crate::cpu::{Level, Waiting, waiting};
use crate::session::{CpuState, is_of_kernel};

/// The most bytes of a function in front of the instruction.
const LONGEST: Addr = 256;
/// The functions of a backtrace that are named.
const CALLERS: usize = 6;

pub(super) fn find(case: &Case<'_>, _: &Graph) -> Vec<Finding> {
    case.cpus.into_iter().flat_map(|cpus| &cpus.all).filter_map(|cpu| finding(cpu, case)).collect()
}

/// The instruction that waits, by the code of the function that the CPU is in.
fn at_wait(cpu: &CpuState, case: &Case<'_>) -> Option<Waiting> {
    let pc = cpu.registers.pc()?;
    let from = case.look.function(pc)?.address & !1;
    let len = pc.checked_sub(from).filter(|len| *len <= LONGEST)?.checked_add(4)?;
    waiting(cpu.registers.architecture(), pc, from, &case.look.bytes(from, len)?)
}

/// True where it is known that no interrupt can come, except that of SysTick.
fn none_is_enabled(cpu: &CpuState) -> bool {
    let of_nvic = cpu.interrupts.as_ref().is_some_and(|all| all.enabled.iter().all(|word| *word == 0));
    of_nvic && interrupts::is_pending(cpu, SYSTICK) == Some(false)
}

fn finding(cpu: &CpuState, case: &Case<'_>) -> Option<Finding> {
    let thread = thread_of(cpu, case.kernel).filter(|_| cpu.registers.level() == Level::Thread)?;
    let in_kernel = cpu.functions.first().and_then(|function| function.name.as_deref()).is_some_and(is_of_kernel);
    let wait = at_wait(cpu, case).filter(|_| !in_kernel && none_is_enabled(cpu))?;
    let primask = cpu.registers.get("primask");
    let is_masked = primask.map_or(wait.is_masked, |mask| mask & 1 == 1);
    let at = place::of(&cpu.functions).filter(|_| is_masked)?;
    let enabled = "no interrupt is enabled in the interrupt controller (NVIC_ISER)".to_owned();
    let claim = format!(
        "thread {} waits for an interrupt in {at}, with interrupts disabled, and none is enabled that could wake it",
        thread.label()
    );
    Some(
        Finding::new(Code::Hang, case.cap_of_registers(Confidence::Hint), claim)
            .against(["SysTick wakes it where it counts: its control register is not read"])
            .evidence([Evidence::memory(wait.at, "the CPU waits here for an interrupt (WFI or WFE)".to_owned())])
            .evidence(place::callers(&cpu.functions, CALLERS))
            .evidence([Evidence::memory(interrupts::ENABLED, enabled)])
            .next(
                "find out which interrupt should wake it, where that is enabled, and whether SysTick was \
stopped",
            )
            .threads([thread.address]),
    )
}
