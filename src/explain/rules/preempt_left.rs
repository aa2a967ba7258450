//! The kernel switches to no other thread: `_tx_thread_preempt_disable` is not 0, though the thread that runs is not in the call which
//! raised it. A thread that is more urgent is ready and does not run; calls that wait return at once. That is so where an interrupt which
//! the kernel does not mask (its priority is above that of BASEPRI) calls the kernel in the middle of a call of a thread, and where a
//! call was left in the middle.
//!
//! Against it: the count may have been overwritten.

use super::super::cpus::thread_of;
use super::super::graph::Graph;
use super::super::state::Does;
use super::super::usage::User;
use super::super::{Case, Code, Confidence, Events, Evidence, Finding};
use super::{by_code, irq_priority, place, priority_by_code, silence, starvation};
use crate::abi::Addr;
use crate::cpu::Level;
use crate::kernel::{State, Thread};
use crate::session::{CpuState, is_of_kernel};

/// The count.
const COUNT: &str = "_tx_thread_preempt_disable";
/// Functions of the kernel in which threads are switched out as a rule, and in which they begin.
const USUAL: [&str; 5] = [
    "_tx_thread_system_suspend",
    "_tx_thread_system_return",
    "_tx_thread_system_preempt_check",
    "_tx_thread_shell_entry",
    "_tx_timer_thread_entry",
];
/// The functions of a backtrace that are named, and the handlers.
const CALLERS: usize = 6;
const HANDLERS: usize = 3;
/// Within a call of the kernel fewer events than these follow one that makes a thread ready.
const WITHIN_CALL: u64 = 16;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let cpus = case.cpus.map_or(&[][..], |cpus| &cpus.all);
    let [cpu] = cpus else { return Vec::new() };
    finding(cpu, case, graph).into_iter().collect()
}

fn finding(cpu: &CpuState, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let kernel = case.kernel.filter(|_| !case.trust.other_build && !case.trust.was_running)?;
    let count = kernel.preempt_disable.filter(|count| *count != 0)?;
    let thread = thread_of(cpu, case.kernel).filter(|_| cpu.registers.level() == Level::Thread)?;
    if kernel.is_initializing() || kernel.system_state.iter().any(|state| *state != 0) {
        return None;
    }
    let [execute] = kernel.execute.as_slice() else { return None };
    let kept = kernel.thread(*execute).filter(|kept| kept.address != thread.address)?;
    let is_urgent = kept.priority.zip(thread.priority).is_some_and(|(kept, own)| kept < own);
    // A call of the kernel raises it for a moment: the trace has to show that the thread goes on.
    let task = graph.tasks.at(thread.address)?;
    let goes_on = case.events.is_some_and(|events| starvation::goes_on(task, events));
    if !is_urgent || kept.state != Some(State::READY) || !goes_on || !is_kept(kept.address, case) {
        return None;
    }
    let (name, other) = (thread.label(), kept.label());
    let left = left(thread.address, case);
    let in_call = left.as_ref().map_or_else(String::new, |(thread, function)| {
        format!("; {} was switched out in {function}, which raises it", thread.label())
    });
    let calling = || case.usage().into_iter().flat_map(|usage| usage.calling_handlers());
    // By the code, where no register shows it.
    let set = calling().find_map(|number| Some((number, priority_by_code::above(number, case)?)));
    let why = set.as_ref().map_or_else(
        || "perhaps an interrupt above the kernel's mask calls the kernel".to_owned(),
        |(number, set)| {
            let (by, level) = (by_code::user_name(User::Handler(*number), case), irq_priority::level(case));
            let level = level.map_or_else(String::new, |level| format!(" ({level:#x})"));
            format!("{by} calls the kernel, and {}, which the kernel's BASEPRI{level} does not mask", set.words)
        },
    );
    let claim = format!(
        "the kernel switches to no other thread while {name} runs: {COUNT} is {count}, and {other}, which is more urgent, is ready{in_call}; {why}"
    );
    let at = case.look.symbol(COUNT)?.address;
    let handlers = calling().filter(|number| set.as_ref().is_none_or(|(only, _)| only == number)).take(HANDLERS);
    let handlers: Vec<String> = handlers.map(|number| by_code::user_name(User::Handler(number), case)).collect();
    let calling = match handlers.as_slice() {
        [] => String::new(),
        [one] => format!(": {one} calls the kernel"),
        all => format!(": {} call the kernel", all.join(", ")),
    };
    let ready = graph.tasks.list.iter().filter(|task| task.does == Does::Ready);
    Some(
        Finding::new(Code::IrqPriority, case.cap(Confidence::Likely), claim)
            .against(["the count may have been overwritten"])
            .against(
                set.as_ref()
                    .map(|_| "the priority is inferred from the program's code, which may set it again elsewhere"),
            )
            .evidence([
                Evidence::memory(at, format!("{COUNT}: the kernel does not switch threads")).holds(count),
                Evidence::memory(kept.address, format!("{other} is ready, and the next one to run")),
            ])
            .evidence(place::callers(&cpu.functions, CALLERS))
            .evidence(left.map(|(thread, function)| {
                Evidence::memory(thread.address, format!("{} is ready, and in {function}", thread.label()))
            }))
            .evidence(set.map(|(_, set)| set.evidence))
            .next(format!("compare the priorities of the interrupts with the mask of the kernel{calling}"))
            .threads([thread.address])
            .affected(ready.map(|task| task.address)),
    )
}

/// True where a thread has been ready for longer than a call of the kernel takes: it was made ready many events ago, and the kernel logs
/// all events.
fn is_kept(thread: Addr, case: &Case<'_>) -> bool {
    let is_old = |events: &Events| {
        let since = events.activity(thread).and_then(|of| of.since);
        since.is_none_or(|(_, seq)| seq.saturating_add(WITHIN_CALL) < events.count)
    };
    silence::inserts_all(case) == Some(true) && case.events.is_some_and(is_old)
}

/// A thread that is ready, and was switched out within a call of the kernel; with the function.
fn left<'c>(running: Addr, case: &Case<'c>) -> Option<(&'c Thread, String)> {
    let is_out = |thread: &&Thread| thread.state == Some(State::READY) && thread.address != running;
    case.kernel?.threads.iter().filter(is_out).find_map(|thread| {
        let pc = *case.cpus?.frames(thread.address)?.first()?;
        let name = case.look.function(pc & !1)?.name;
        (is_of_kernel(&name) && !USUAL.contains(&name.as_str())).then_some((thread, name))
    })
}
