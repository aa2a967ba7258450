//! The kernel's initialisation has not ended (`_tx_thread_system_state`): no thread has run yet. Before the first thread runs no
//! thread can change what a loop waits for, and an interrupt only where interrupts are enabled.
//!
//! Against it: a stop while the program starts looks the same, as does a driver that waits for its device for a moment. It is likely
//! only where the loop waits for a word in RAM and interrupts are disabled.

use super::super::graph::Graph;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::interrupts::{self, Mask};
use super::{place, words, writers};
use crate::cpu::Level;
use crate::kernel::{Kernel, Thread};
use crate::session::{CpuState, Function, is_of_kernel};
use crate::trace::many;

/// Where the kernel keeps whether it has started.
const STATE: &str = "_tx_thread_system_state";
/// The function of the application that the kernel calls in its initialisation.
const DEFINE: &str = "tx_application_define";
/// The functions of a backtrace that are named.
const CALLERS: usize = 8;

pub(super) fn find(case: &Case<'_>, _: &Graph) -> Vec<Finding> {
    finding(case).into_iter().collect()
}

fn finding(case: &Case<'_>) -> Option<Finding> {
    let kernel = case.kernel.filter(|kernel| kernel.is_initializing() && !kernel.other_build)?;
    if kernel.start_up.is_some() || kernel.current.iter().any(|thread| *thread != 0) {
        return None;
    }
    let known = |cpu: &&CpuState| cpu.registers.is_placed();
    let Some(cpu) = case.cpus.and_then(|cpus| cpus.all.iter().find(known)) else {
        return Some(by_memory(kernel, case));
    };
    // Exceptions, and loops without an exit, are other rules.
    if cpu.registers.level() != Level::Thread && cpu.exception.is_some() || cpu.in_loop.is_some() {
        return None;
    }
    waits(cpu, case).or_else(|| is_in(cpu, kernel, case))
}

/// A loop that waits for a word to change.
fn waits(cpu: &CpuState, case: &Case<'_>) -> Option<Finding> {
    let polling = cpu.polling.as_ref().filter(|polling| !polling.writes && !polling.counts)?;
    let word = *polling.reads.first()?;
    let what = words::place_or_address(word, case);
    let at = place::of(&cpu.functions)?;
    let mask = Mask::of(&cpu.registers);
    let is_ours = polling.reads.iter().all(|at| writers::is_in_ram(*at));
    let is_kept = is_ours && matches!(mask, Some(Mask::Primask | Mask::Faultmask));
    if !is_kept && polling.measures {
        return None;
    }
    let (claimed, why) = if is_kept {
        (Confidence::Likely, ", and interrupts are disabled until the kernel starts its first thread")
    } else {
        (Confidence::Hint, "")
    };
    let claim = format!("the kernel has not started its first thread: {at} waits in a loop for {what} to change{why}");
    Some(
        Finding::new(Code::Hang, case.cap_of_registers(claimed), claim)
            .against((!is_kept).then_some("a driver that waits for its device for a moment looks the same"))
            .evidence([Evidence::memory(
                polling.start,
                format!("the loop here reads {what}, and nothing else ends it"),
            )])
            .evidence(mask.filter(|_| is_kept).map(disabled))
            .evidence(place::callers(&cpu.functions, CALLERS))
            .next(
                "find out who should change it: before the first thread runs neither a thread nor a time-out of the \
                 kernel can",
            ),
    )
}

fn disabled(mask: Mask) -> Evidence {
    let (register, value) = mask.register();
    Evidence::register(register, value, "interrupts are disabled".to_owned())
}

/// Where the CPU is.
fn is_in(cpu: &CpuState, kernel: &Kernel, case: &Case<'_>) -> Option<Finding> {
    let at = whereabouts(cpu).or_else(|| place::of(&cpu.functions))?;
    let tick = cpu.registers.get("icsr").filter(|icsr| icsr & interrupts::PENDSTSET != 0);
    let pending = "SysTick is pending: the initialisation has taken a tick at least";
    Some(
        Finding::new(
            Code::Hang,
            case.cap_of_registers(Confidence::Hint),
            format!("the kernel has not started its first thread: its initialisation is in {at}"),
        )
        .against(["a stop while the program starts looks the same"])
        .evidence(place::callers(&cpu.functions, CALLERS))
        .evidence(tick.map(|icsr| Evidence::register("icsr", icsr, pending.to_owned())))
        .evidence(Mask::of(&cpu.registers).map(disabled))
        .evidence(so_far(kernel, case))
        .next("look at what this code waits for: neither a thread nor a time-out of the kernel can end it yet"),
    )
}

/// `probe (board.c:30), in delay (board.c:12)`: the step of the initialisation, which is a function that the kernel or
/// `tx_application_define` calls, and where the CPU is.
fn whereabouts(cpu: &CpuState) -> Option<String> {
    let at = place::of(&cpu.functions)?;
    let name = |function: &Function| function.name.clone().unwrap_or_default();
    let is_outer = |name: String| name == DEFINE || is_of_kernel(&name);
    let outer = cpu.functions.iter().position(|function| is_outer(name(function)))?;
    let step = cpu.functions.get(outer.checked_sub(1)?..).and_then(place::of)?;
    Some(if step == at { at } else { format!("{step}, in {at}") })
}

/// From memory alone.
fn by_memory(kernel: &Kernel, case: &Case<'_>) -> Finding {
    let claim = "the kernel has not started its first thread: its initialisation had not ended".to_owned();
    Finding::new(Code::Hang, case.cap(Confidence::Hint), claim)
        .against(["a stop while the program starts looks the same"])
        .evidence(so_far(kernel, case))
        .next("give the registers (--reg pc=N --reg sp=N --reg lr=N): they show where tx_application_define is")
}

/// How far it came.
fn so_far(kernel: &Kernel, case: &Case<'_>) -> Vec<Evidence> {
    let symbol = case.look.symbol(STATE);
    let state = symbol.zip(kernel.system_state.first()).map(|(symbol, state)| {
        Evidence::memory(symbol.address, "the kernel is in its initialisation".to_owned()).holds(*state).named(STATE)
    });
    // The list of threads is in the order in which they were created.
    let last = kernel.threads.last().map(|thread: &Thread| {
        let threads = many(kernel.threads.len() as u64, "thread exists", "threads exist");
        let objects = many(kernel.objects.len() as u64, "other object", "other objects");
        let text = format!("{threads}, and {objects}; {} is the thread that was created last", thread.label());
        Evidence::memory(thread.address, text)
    });
    state.into_iter().chain(last).collect()
}
