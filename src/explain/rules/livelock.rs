//! Threads that run and give way to each other without progress: each asks again and again for a lock that another of them
//! has, does not get it, gives back its own, and takes it again. One thread that polls a lock is healthy; a circle of them is not.
//! In a short trace it is a hint: two threads may meet twice by chance.

use super::super::events::Events;
use super::super::graph::Graph;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use crate::abi::Addr;

/// Attempts in a row that fail; the fewest of a hint.
const OFTEN: u64 = 4;
const FEWEST: u64 = 2;
/// So many events from the end of the trace the last of them is, or within its last quarter.
const RECENT: u64 = 32;

/// A thread that asks for a lock and does not get it.
#[derive(Clone, Copy)]
struct Try {
    thread: Addr,
    lock: Addr,
    owner: Addr,
    times: u64,
    seqs: (u64, u64),
}

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let Some(events) = case.events else { return Vec::new() };
    let tries = tries(events);
    let mut found: Vec<Finding> = Vec::new();
    for first in &tries {
        let Some(circle) = circle(first, &tries) else { continue };
        // The circle is counted at its lowest address.
        if circle.iter().all(|one| one.thread >= first.thread) {
            found.push(finding(&circle, case, graph));
        }
    }
    found
}

/// Those that failed often, up to the end of the trace.
fn tries(events: &Events) -> Vec<Try> {
    let recent = events.newest.saturating_sub(RECENT.max(events.count / 4));
    let failed = events.tries.failed.iter().filter(|(_, failed)| failed.times >= FEWEST && failed.seqs.1 >= recent);
    failed
        .filter_map(|((thread, lock), failed)| {
            Some(Try { thread: *thread, lock: *lock, owner: failed.owner?, times: failed.times, seqs: failed.seqs })
        })
        .collect()
}

fn circle(first: &Try, tries: &[Try]) -> Option<Vec<Try>> {
    let mut path = vec![*first];
    while path.len() <= tries.len() {
        let last = path.last()?;
        if last.owner == first.thread {
            return (path.len() > 1).then_some(path);
        }
        path.push(*tries.iter().find(|one| one.thread == last.owner)?);
    }
    None
}

fn finding(circle: &[Try], case: &Case<'_>, graph: &Graph) -> Finding {
    let full = |stored: Addr| graph.stored(case, stored).map_or(stored, |task| task.address);
    let step = |one: &Try| {
        let (thread, owner) = (case.label(full(one.thread)), case.label(full(one.owner)));
        format!(
            "{thread} asked {} times for {}, which {owner} had, and did not get it",
            one.times,
            case.object(one.lock)
        )
    };
    let evidence = |one: &Try| {
        let thread = case.label(full(one.thread));
        let text = format!(
            "{thread} asks for {} and does not get it; again up to event {}",
            case.object(one.lock),
            one.seqs.1
        );
        Evidence::event(one.seqs.0, text)
    };
    let threads: Vec<Addr> = circle.iter().map(|one| full(one.thread)).collect();
    let is_often = circle.iter().all(|one| one.times >= OFTEN);
    let (most, mut against) = case.by_events();
    against.extend((!is_often).then(|| "the trace is short: they may have met by chance".to_owned()));
    let confidence = if is_often { most } else { Confidence::Hint };
    Finding::new(Code::Livelock, (confidence, against), circle.iter().map(step).collect::<Vec<_>>().join("; "))
        .against(["one of them may have got both locks before the first event or after the last"])
        .evidence(circle.iter().map(evidence))
        .next(
            "take the locks in the same order, or wait for the second one a time that differs from thread to thread"
                .to_owned(),
        )
        .affected(graph.waiters(&threads))
        .threads(threads)
}
