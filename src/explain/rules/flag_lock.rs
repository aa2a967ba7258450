//! Event flags that are used as a lock, whose holder cannot set them again: a thread took them (with an option that clears them), as
//! it did before when it set them afterwards, and was terminated, has completed or is suspended. All who set these flags also take
//! some: flags that an interrupt or a thread only sets are signals.
//!
//! Against it: flags have no owner in memory, so the holder is inferred from events; one that is suspended may be resumed.

use super::super::events::{Events, Giver, One};
use super::super::graph::Graph;
use super::super::state::{Does, Task};
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::words::{shows, waiting};
use crate::abi::Addr;
use crate::kernel::Kind;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let Some(events) = case.events else { return Vec::new() };
    let mut found: Vec<Finding> = Vec::new();
    for task in &graph.tasks.list {
        // The first has the others.
        if !found.iter().any(|finding| finding.threads.contains(&task.address)) {
            found.extend(finding(task, events, case, graph));
        }
    }
    found
}

/// True where all threads that set one of these flags also take some, and no interrupt sets one.
fn is_lock(one: &One, flags: u64) -> bool {
    let is_of_lock = |by: &Giver| match by {
        Giver::Thread(thread) => one.away.takes(*thread),
        Giver::Interrupt(_) => false,
        // The program sets them once when it starts.
        Giver::Other => true,
    };
    one.givers.iter().filter(|(_, given)| given.flags & flags != 0).all(|(by, _)| is_of_lock(by))
}

fn finding(task: &Task, events: &Events, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    // Events do not show how long a wait for flags lasts.
    let wait = task.wait.filter(|w| w.kind == Kind::EventFlags && (w.forever || case.kernel.is_none()))?;
    let (wanted, one) = (wait.wanted?.flags, events.object(wait.object)?);
    let current = case.kernel.and_then(|kernel| kernel.object(wait.object)).and_then(|group| group.get("current"));
    let taken = one.away.holder(wanted).filter(|taken| current.is_none_or(|set| set & taken.flags & wanted == 0))?;
    let holder = graph.stored(case, taken.thread).filter(|holder| holder.address != task.address)?;
    let is = holder.does.gone()?;
    let flags = taken.flags & wanted;
    if !is_lock(one, flags) {
        return None;
    }
    let is_over = holder.does != Does::Suspended;
    let is_sure = is_over || events.is_long(task.address, wait.object);
    let (object, name) = (case.object(wait.object), case.label(holder.address));
    let waits_too = |other: &&Task| {
        other.wait.is_some_and(|w| w.object == wait.object && w.wanted.is_some_and(|w| w.flags & flags != 0))
    };
    let waiters: Vec<Addr> = graph.tasks.list.iter().filter(waits_too).map(|task| task.address).collect();
    let names: Vec<String> = waiters.iter().map(|waiter| case.label(*waiter)).collect();
    let wait_word = if names.len() == 1 { "waits" } else { "wait" };
    let threads: Vec<Addr> = std::iter::once(holder.address).chain(waiters.iter().copied()).collect();
    Some(
        Finding::new(
            Code::LockOwnerGone,
            case.cap(if is_sure { Confidence::Likely } else { Confidence::Hint }),
            format!(
                "{} {wait_word} for {flags:#x} of {object}, which {name} took and did not set again; {name} {is}",
                names.join(", ")
            ),
        )
        .against(["event flags have no owner in memory: who took them is inferred from events"])
        .against((!is_over).then(|| format!("{} may be resumed", case.label(holder.address))))
        .evidence(waiters.iter().map(|w| waiting(*w, wait.object, case, graph)))
        .evidence([Evidence::event(
            taken.seq,
            format!("{name} takes {flags:#x} of {object}, and no event sets it again"),
        )])
        .evidence([match events.activity(holder.address).and_then(|activity| activity.since) {
            Some((_, seq)) => Evidence::event(seq, format!("{name}: {is}")),
            None => shows(holder.address, format!("{name}: {is}"), graph),
        }])
        .waiters(graph.waiters(&threads), task.address, case, graph)
        .next(if is_over {
            format!("set the flags again on every path of {name}, and before it is terminated")
        } else {
            format!("find out who suspends {name} (tx_thread_suspend), and why it is not resumed")
        })
        .threads(threads),
    )
}
