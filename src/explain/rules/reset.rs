//! The CPU is in start-up code, and the RAM has a kernel that ran: the program has begun again over the RAM of an older run.
//! Its registers then explain nothing of that run. Why it was reset is in a register of the chip, which no rule knows.
//!
//! Against it: a program that a debugger has started again by hand.

use super::super::graph::Graph;
use super::super::state::{Task, Wait};
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::place;

/// The functions of a backtrace that are named, and the threads.
const CALLERS: usize = 4;
const WAITS: usize = 6;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let Some(function) = case.kernel.and_then(|kernel| kernel.start_up.as_ref()) else { return Vec::new() };
    let cpu = case.cpus.and_then(|cpus| cpus.all.first());
    let pc = cpu.and_then(|cpu| cpu.registers.pc());
    let is_new = cpu.is_some_and(|cpu| cpu.registers.is_at_reset());
    let vector = pc.filter(|_| is_new).map(|pc| format!("at {pc:#x}, where it begins: all of its registers are 0"));
    let named = || cpu.and_then(|cpu| place::of(&cpu.functions)).unwrap_or_else(|| function.clone());
    let named = || format!("in {}", named());
    let at = vector.unwrap_or_else(named);
    vec![
        Finding::new(
            Code::Reset,
            case.cap_of_registers(Confidence::Proven),
            format!("the program has begun again (the CPU is {at}) over the RAM of the run before"),
        )
        .against(["a debugger may have started it again"])
        .evidence(pc.map(|pc| Evidence::register("pc", pc, format!("the CPU is {at}, before the kernel is entered"))))
        .evidence(cpu.and_then(|cpu| place::callers(&cpu.functions, CALLERS)))
        .evidence(case.kernel.and_then(|kernel| kernel.threads.first()).map(|first| {
            Evidence::memory(first.address, format!("the threads in memory are of the run before ({})", first.label()))
        }))
        .evidence(waited(case, graph))
        .next(
            "read the chip's reset-status register: watchdog, brown-out or software; the threads and waits are those of the run before"
                .to_owned(),
        ),
    ]
}

/// The threads that waited for ever in the run before. One that did nothing in the whole trace may be the one that a watchdog missed.
fn waited(case: &Case<'_>, graph: &Graph) -> Option<Evidence> {
    let waits = |task: &Task| Some((task.address, task.wait.filter(|wait| wait.forever)?));
    let is_silent = |thread: &u64| case.events.is_some_and(|events| events.activity(*thread).is_none());
    let mut all: Vec<(u64, Wait)> = graph.tasks.list.iter().filter_map(waits).collect();
    all.sort_by_key(|(thread, _)| !is_silent(thread));
    let (first, _) = all.first()?;
    let named = |(thread, wait): &(u64, Wait)| {
        let silent = if is_silent(thread) { " (it has no event in the trace)" } else { "" };
        format!("{} for {}{silent}", case.label(*thread), case.object(wait.object))
    };
    let names: Vec<String> = all.iter().take(WAITS).map(named).collect();
    Some(Evidence::memory(*first, format!("these waited without a time-out then: {}", names.join(", "))))
}
