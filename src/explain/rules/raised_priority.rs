//! A thread that goes on with a priority which its own code sets, in a function that returns on one of its paths without changing it
//! back: what it does with that priority keeps less urgent threads from running.
//!
//! Against it: that work may be meant to have this priority, and what is ready may run soon. So it is a hint.

use super::super::cpus::thread_of;
use super::super::events::{Activity, Events};
use super::super::graph::Graph;
use super::super::state::Does;
use super::super::usage::User;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::callback::is_timer_thread;
use super::words::place_at;
use super::{shared, threshold};
use crate::abi::Addr;
use crate::kernel::{State, Thread};
use crate::session::{CpuState, Function};

/// So many events in which a thread does not run are long.
const MANY: u64 = 128;
/// The functions of the kernel that change a priority, without and with a check of the arguments.
const CHANGE: [&str; 2] = ["_tx_thread_priority_change", "_txe_thread_priority_change"];

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let Some(kernel) = case.kernel else { return Vec::new() };
    let functions: Vec<Addr> = CHANGE.iter().filter_map(|name| Some(case.look.symbol(name)?.address & !1)).collect();
    let does = |thread: &Thread, does: Does| graph.tasks.at(thread.address).is_some_and(|task| task.does == does);
    // Where one runs, it is that one which keeps the others off.
    let runs = kernel.threads.iter().find(|thread| does(thread, Does::Runs));
    let by_threshold = |thread: &Thread| {
        let is_other = runs.is_some_and(|runs| runs.address != thread.address);
        if is_other { None } else { of_threshold(thread, case) }
    };
    let all = kernel.threads.iter().filter(|thread| does(thread, Does::Runs) || does(thread, Does::Ready));
    let of_priority = |thread| if functions.is_empty() { None } else { finding(thread, &functions, case) };
    all.filter_map(|thread| of_priority(thread).or_else(|| by_threshold(thread))).collect()
}

/// The same of a preemption-threshold, which keeps more urgent threads from running.
fn of_threshold(thread: &Thread, case: &Case<'_>) -> Option<Finding> {
    let (own, threshold) = thread.priority.zip(thread.threshold).filter(|(own, threshold)| threshold < own)?;
    let is_kept = |other: &&Thread| {
        let is_between = |priority: u32| (threshold..own).contains(&priority);
        other.state == Some(State::READY) && other.priority.is_some_and(is_between)
    };
    let kept: Vec<&Thread> = case.kernel?.threads.iter().filter(is_kept).collect();
    kept.first()?;
    // Without a clock many events without one of theirs show that it is long.
    let is_old = |seq: u64, events: &Events| events.newest.saturating_sub(seq) >= MANY;
    let has_none = |other: &&Thread| {
        case.events.is_some_and(|events| {
            let activity = events.activity(other.address);
            let is_idle = |one: &Activity| one.dispatched == 0 && one.since.is_none_or(|(_, seq)| is_old(seq, events));
            events.count >= MANY && activity.is_none_or(is_idle)
        })
    };
    let is_long = kept.iter().all(has_none);
    let left = threshold::left(thread.address, case);
    let created = if left.is_none() { created_with(thread, &kept, case) } else { None };
    let is_created = created.is_some();
    let next = match created {
        Some(_) => {
            format!("create {} with a preemption-threshold that is its priority, if no other is meant", thread.label())
        }
        None => {
            "find out where this thread changes its preemption-threshold back, and on which path it does not".to_owned()
        }
    };
    let left = left.or(created);
    // It may be a section that this thread is in.
    if left.is_none() && !is_long {
        return None;
    }
    let addresses: Vec<Addr> = kept.iter().map(|other| other.address).collect();
    let awaited = functions_of(thread, case).find_map(|functions| shared::awaited(functions, &addresses, case));
    let (awaited, shown) = awaited.unzip();
    let awaited = awaited.map_or_else(String::new, |words| format!("; {words}"));
    let claimed = if !is_created && left.is_some() && is_long { Confidence::Likely } else { Confidence::Hint };
    let (words, evidence) = left.unzip();
    let labels: Vec<String> = kept.iter().map(|other| other.label()).collect();
    let (name, are) = (thread.label(), if labels.len() == 1 { "is" } else { "are" });
    let claim = format!(
        "{name} (priority {own}) goes on with preemption-threshold {threshold}, and {}, which {are} more urgent, {are} ready and cannot preempt it{}{awaited}",
        labels.join(", "),
        words.as_deref().unwrap_or_default()
    );
    let of = |other: &&Thread| {
        let text = format!("{} (priority {}) is ready", other.label(), other.priority.unwrap_or_default());
        Evidence::memory(other.address, text)
    };
    Some(
        Finding::new(Code::Starvation, case.cap(claimed), claim)
            .against(["what it does with this threshold may still be going on"])
            .evidence(evidence)
            .evidence(kept.iter().map(of))
            .evidence(shown)
            .next(next)
            .affected(kept.iter().map(|other| other.address))
            .threads([thread.address]),
    )
}

/// That a thread has had its threshold since it was created: the program has no function that changes one. It counts where the threshold
/// keeps back the thread of the kernel's timers, so that no time-out ends while it runs.
fn created_with(thread: &Thread, kept: &[&Thread], case: &Case<'_>) -> Option<(String, Evidence)> {
    let timers = kept.iter().find(|other| is_timer_thread(other, case))?;
    let is_kernel_named = case.look.symbol("_tx_thread_create").is_some();
    if !is_kernel_named || threshold::CHANGE.iter().any(|name| case.look.symbol(name).is_some()) {
        return None;
    }
    let text = format!("the program has no function that changes the preemption-threshold of {}", thread.label());
    let words = format!(
        "; the program has no function that changes it: it was created with it, and no time-out ends while {} waits",
        timers.label()
    );
    Some((words, Evidence::memory(thread.address, text)))
}

/// Where a thread that runs is, or was when an interrupt came.
fn functions_of<'c>(thread: &Thread, case: &Case<'c>) -> impl Iterator<Item = &'c [Function]> {
    let address = thread.address;
    let cpus = case.cpus.into_iter().flat_map(|cpus| cpus.all.iter().chain(cpus.left.iter().map(|(_, cpu)| cpu)));
    let kernel = case.kernel;
    let is_in = move |cpu: &&CpuState| thread_of(cpu, kernel).is_some_and(|of| of.address == address);
    cpus.filter(is_in).map(|cpu| cpu.functions.as_slice())
}

fn finding(thread: &Thread, functions: &[Addr], case: &Case<'_>) -> Option<Finding> {
    // What it has from a mutex it gives back with that.
    let own = thread.priority.filter(|_| thread.inherits().is_none())?;
    let is_behind =
        |other: &&Thread| other.state == Some(State::READY) && other.priority.is_some_and(|priority| priority > own);
    let behind: Vec<&Thread> = case.kernel?.threads.iter().filter(is_behind).collect();
    let leak =
        case.usage()
            .filter(|_| !behind.is_empty())?
            .not_undone(User::Thread(thread.address), functions, &|to| to == own)?;
    let (name, place) = (thread.label(), place_at(leak.at, case));
    let labels: Vec<String> = behind.iter().map(|other| other.label()).collect();
    let are = if labels.len() == 1 { "is" } else { "are" };
    let claim = format!(
        "{name} goes on with priority {own}, and {} {are} ready; {place} changes the priority of a thread to {own}, and may return without changing it back",
        labels.join(", ")
    );
    let text = "it changes a priority here, and a path leads from here to its end without changing it back";
    let of = |other: &&Thread| {
        let text = format!("{} (priority {}) is ready", other.label(), other.priority.unwrap_or_default());
        Evidence::memory(other.address, text)
    };
    Some(
        Finding::new(Code::Starvation, case.cap(Confidence::Hint), claim)
            .against(["what it does with this priority may still be going on"])
            .evidence([Evidence::symbol(leak.at, &place, text.to_owned())])
            .evidence(behind.iter().map(of))
            .next(format!("look at the paths behind {place} that do not change the priority back"))
            .affected(behind.iter().map(|other| other.address))
            .threads([thread.address]),
    )
}
