//! A trace in which the priority of a thread becomes less urgent several times, and no call changes it: the word in its control block is
//! overwritten. A thread that has a mutex may become more urgent, and no less than before.
//!
//! Against it: the events of calls that change priorities may not be enabled.

use super::super::events::Risen;
use super::super::graph::Graph;
use super::super::state::Does;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use crate::abi::Addr;

/// The fewest changes, and those for more than a hint: a call in front of the oldest event, and mutexes that are put since, explain some.
const FEWEST: u64 = 2;
const SURE: u64 = 3;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let all = case.events.into_iter().flat_map(|events| events.priorities.risen());
    all.filter(|(_, risen)| risen.times >= FEWEST)
        .filter_map(|(thread, risen)| finding(thread, &risen, case, graph))
        .collect()
}

fn finding(thread: Addr, risen: &Risen, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let events = case.events?;
    let task = graph.stored(case, thread);
    let address = task.map_or(thread, |task| task.address);
    let name = case.label(address);
    let Risen { registered, highest, times, seqs } = *risen;
    let is_kept = task.is_some_and(|task| task.does == Does::Ready);
    let last = events.activity(address).map(|activity| activity.last);
    let kept = if is_kept { "; it is ready and does not run" } else { "" };
    let place = case.look.block(address).filter(|place| *place != name);
    let place = place.map_or_else(String::new, |place| format!(" ({place})"));
    let (confidence, detractors) = case.by_events();
    let of = |seq, text: String| Evidence::event(seq, text);
    Some(
        Finding::new(
            Code::CorruptControlBlock,
            (confidence.min(if times >= SURE { Confidence::Likely } else { Confidence::Hint }), detractors),
            format!(
                "the priority of {name} goes from {registered} to {highest} in {times} steps, and no call changes it: the control block of \
                 {name}{place} may be overwritten{kept}"
            ),
        )
        .against(["calls that change it may not be among the events that are enabled"])
        .evidence([of(seqs.0, format!("{name} has another priority than {registered} here"))])
        .evidence([of(seqs.1, format!("{name} has priority {highest} here"))])
        .evidence(last.filter(|_| is_kept).map(|seq| of(seq, format!("the last event of {name}"))))
        .next(format!("look for what happens in front of these events each time, and for an array in front of thread {name} that is written at an index"))
        .threads([address]),
    )
}
