//! The CPU is in the handler that the kernel calls where its check of the stack (TX_ENABLE_STACK_CHECKING) found it used up:
//! that of the kernel, or the one that the application has registered. The thread is the one that the handler was given, which
//! may not be the current one, as the kernel checks a thread that it resumes, too: a register holds it, or it is the only one whose stack
//! is used up, or whose stack pointer is outside of its stack. The current one it is where nothing of its stack is known.

use super::super::cpus::thread_of;
use super::super::graph::Graph;
use super::super::{Case, Code, Confidence, Cpus, Evidence, Finding};
use super::{place, stack_calls};
use crate::kernel::{High, Thread};
use crate::session::CpuState;

/// The registers in which compilers keep an argument, of all processors.
const ARGUMENTS: [&str; 12] = ["r0", "r3", "r4", "r5", "r6", "r7", "a0", "s0", "s1", "x0", "x19", "x20"];
/// What speaks against a thread that no register shows.
const INFERRED: &str = "that the check was made for this thread is inferred from its stack: a write above the end of another stack leads to \
                        the same handler";
/// The functions of a backtrace that are named.
const CALLERS: usize = 5;

pub(super) fn find(case: &Case<'_>, _: &Graph) -> Vec<Finding> {
    let Some(cpus) = case.cpus else { return Vec::new() };
    cpus.all.iter().filter_map(|cpu| finding(cpu, cpus, case)).collect()
}

fn finding(cpu: &CpuState, cpus: &Cpus, case: &Case<'_>) -> Option<Finding> {
    let called = cpu.functions.iter().filter(|function| !function.is_inferred());
    let handler = called
        .take(CALLERS)
        .find(|function| cpus.stack_handlers.iter().any(|handler| handler.contains(function.pc & !1)))?;
    let current = thread_of(cpu, case.kernel).filter(|thread| !has_room(thread));
    // Of another one it is not known that the handler was called for it.
    let is_full = |thread: &&Thread| thread.stack.high == High::Full;
    let limited = at_limit(cpu, case);
    let known = given(cpu, case).or_else(|| current.filter(is_full)).or(limited);
    let thread = known.or_else(|| only(case)).or(current);
    let is_inferred = known.is_none() && thread.is_some();
    let name = handler.name.clone().unwrap_or_else(|| format!("{:#x}", handler.pc));
    let text = format!("the CPU is in {name}, which the kernel calls where a stack was used up");
    let mut evidence = vec![Evidence::symbol(handler.pc, &name, text)];
    evidence.extend(place::callers(&cpu.functions, CALLERS));
    let claim = match thread {
        Some(thread) => {
            evidence.extend(lowest(thread));
            let psp = limited.and_then(|_| cpu.registers.get("psp"));
            evidence.extend(psp.map(|psp| {
                Evidence::register("psp", psp, format!("it is at the end of the stack of {}", thread.label()))
            }));
            let size = thread.stack.size.map_or_else(String::new, |size| format!(" ({size} bytes)"));
            let calls = stack_calls::of(thread, case);
            let least = thread.stack.size.map_or(u64::MAX, |size| size / 2);
            let words = calls.as_ref().and_then(|calls| calls.words(least));
            let words = words.map_or_else(String::new, |words| format!("; {words}"));
            evidence.extend(calls.map(|calls| calls.evidence));
            format!("the stack of {}{size} overflowed: the kernel's check found it{words}", thread.label())
        }
        None => "a stack overflowed: the kernel's check found it; of which thread is not known".to_owned(),
    };
    Some(
        Finding::new(
            Code::StackOverflow,
            case.cap_of_registers(if is_inferred { Confidence::Likely } else { Confidence::Proven }),
            claim,
        )
        .against(is_inferred.then_some(INFERRED))
        .evidence(evidence)
        .next(thread.map_or_else(
            || "look at the argument of the handler: it is the thread".to_owned(),
            |thread| format!("make the stack of {} larger; what is below it may be damaged", thread.label()),
        ))
        .threads(thread.map(|thread| thread.address)),
    )
}

/// The thread that the handler was given, by the registers: one whose stack was used up.
fn given<'k>(cpu: &CpuState, case: &Case<'k>) -> Option<&'k Thread> {
    let kernel = case.kernel?;
    let held = ARGUMENTS.iter().filter_map(|name| cpu.registers.get(name));
    held.filter_map(|at| kernel.thread(at)).find(|thread| thread.stack.high == High::Full)
}

/// The current thread, where its stack pointer is at the limit that an Armv8-M checks (`PSPLIM`), which is the end of its stack: what is
/// below was not overwritten.
fn at_limit<'k>(cpu: &CpuState, case: &Case<'k>) -> Option<&'k Thread> {
    let thread = thread_of(cpu, case.kernel)?;
    let (psp, start) = (cpu.registers.get("psp")?, thread.stack.start?);
    // The limit is a multiple of 8.
    let is_limit = cpu.registers.get("psplim") == Some(psp) && psp.abs_diff(start) <= 8;
    is_limit.then_some(thread)
}

/// The only thread whose stack is used up.
fn only<'k>(case: &Case<'k>) -> Option<&'k Thread> {
    let is_outside = |thread: &Thread| thread.stack.pointer.is_some_and(|sp| !thread.stack.holds(sp));
    let mut all = case.kernel?.threads.iter().filter(|thread| thread.stack.high == High::Full || is_outside(thread));
    all.next().filter(|_| all.next().is_none())
}

/// True where the lowest bytes of a stack hold fill.
fn has_room(thread: &Thread) -> bool {
    matches!(thread.stack.high, High::Bytes(_))
}

fn lowest(thread: &Thread) -> Option<Evidence> {
    let start = thread.stack.start.filter(|_| thread.stack.high == High::Full)?;
    Some(Evidence::stack(start, "its lowest bytes hold no fill (0xEF) any more".to_owned()))
}
