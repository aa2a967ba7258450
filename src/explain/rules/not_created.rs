//! Objects for which threads wait, and that the kernel's list of created ones does not have: they were created in an earlier run, in
//! memory that keeps its contents over a reset, and not again since the last start. What they held then is out of date: the owner of a
//! mutex, the count of a semaphore, the pointers of a list.
//!
//! A mutex whose owner counts no mutexes was owned before: that is likely. Of others the list alone shows it.
//!
//! Against it: a write over a pointer of the list may have cut an object out, together with the kernel's count.

use super::super::graph::Graph;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::words::waiting;
use crate::abi::Addr;
use crate::kernel::{Kernel, Kind, Object};

/// What speaks against it.
const AGAINST: &str = "a write over the kernel's list of these objects, and over their count, would look the same";

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    // Code before the kernel's own start clears its variables: what is in memory then is of the run before.
    let is_sound = |kernel: &&Kernel| kernel.start_up.is_none() && !case.trust.other_build;
    let Some(kernel) = case.kernel.filter(is_sound) else { return Vec::new() };
    let objects = kernel.not_created.iter().filter_map(|at| kernel.object(*at));
    objects.filter_map(|object| finding(object, case, graph)).collect()
}

fn finding(object: &Object, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let (at, label) = (object.address, case.object(object.address));
    let waiters: Vec<Addr> = graph.tasks.waiting(at).map(|task| task.address).collect();
    let names: Vec<String> = waiters.iter().map(|waiter| case.label(*waiter)).collect();
    let waits = if waiters.len() == 1 { "waits" } else { "wait" };
    let first = *waiters.first()?;
    let owner = object.owner().filter(|owner| counts_none(*owner, case));
    let why = match owner {
        Some(owner) => format!(
            "it was not created since the last start; {} owned it before, and counts no mutex that it owns now",
            case.label(owner)
        ),
        None => "perhaps it was not created since the last start".to_owned(),
    };
    let place = case.look.place(at).map_or_else(String::new, |place| format!(" ({})", block(&place)));
    let claim = format!(
        "{} {waits} for {label}{place}, which is not in the kernel's list of created ones: {why}",
        names.join(", ")
    );
    let code =
        if object.kind == Kind::Mutex && owner.is_some() { Code::LockOwnerGone } else { Code::CorruptControlBlock };
    let claimed = if owner.is_some() { Confidence::Likely } else { Confidence::Hint };
    let state = object.state(&|at| case.label(at));
    let counts = owner.map(|owner| {
        let text = format!("{}: it counts 0 mutexes that it owns (tx_thread_owned_mutex_count)", case.label(owner));
        Evidence::memory(owner, text)
    });
    Some(
        Finding::new(code, case.cap(claimed), claim)
            .against([AGAINST])
            .evidence([Evidence::memory(at, format!("{label}: {state}; it is not in the kernel's list"))])
            .evidence(counts)
            .evidence([waiting(first, at, case, graph)])
            .waiters(graph.waiters(&waiters), first, case, graph)
            .next("create it at each start; keep no objects of the kernel in memory that a reset does not clear")
            .threads(waiters.iter().copied().chain(owner))
            .affected([at]),
    )
}

/// `retained.lock` of `retained.lock.tx_mutex_id`.
fn block(place: &str) -> &str {
    place.rsplit_once('.').filter(|(_, member)| member.starts_with("tx_")).map_or(place, |(block, _)| block)
}

/// True for a thread that counts no mutexes.
fn counts_none(thread: Addr, case: &Case<'_>) -> bool {
    let thread = case.kernel.and_then(|kernel| kernel.threads.iter().find(|one| one.address == thread));
    thread.is_some_and(|thread| thread.owned_mutexes == Some(0))
}
