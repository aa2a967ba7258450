//! A thread asks for several event flags at once, again and again with a time-out, and some of them are never there: no event sets them,
//! while others are set. One who sets a flag may set another one than the thread wants.
//!
//! Against it: what sets the flag may be rare, and the thread may do without.

use super::super::events::Lacking;
use super::super::graph::Graph;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::words::waiting;
use super::wrong_mask::giver;
use crate::abi::Addr;
use crate::kernel::Kind;

/// The fewest times that it asked.
const TIMES: u64 = 3;
/// The most who set flags that are named.
const NAMED: usize = 6;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let groups = case.events.into_iter().flat_map(|events| events.objects());
    let all = groups.flat_map(|(group, one)| one.away.lacking().map(move |(thread, lacks)| (group, thread, lacks)));
    all.filter(|(.., lacks)| lacks.times >= TIMES && lacks.there != 0)
        .filter_map(|(group, thread, lacks)| finding(group, thread, &lacks, case, graph))
        .collect()
}

fn finding(group: Addr, thread: Addr, lacks: &Lacking, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let events = case.events?;
    let task = graph.stored(case, thread)?;
    let wait = task.wait.filter(|wait| wait.kind == Kind::EventFlags && events.is(wait.object, group))?;
    let givers = &events.object(group)?.givers;
    let mut set: Vec<(u64, String)> = givers.iter().map(|(by, given)| (given.flags, giver(*by, case, graph))).collect();
    set.sort();
    let set: Vec<String> = set
        .iter()
        .filter(|(flags, _)| *flags != 0)
        .take(NAMED)
        .map(|(flags, by)| format!("{flags:#x} by {by}"))
        .collect();
    let others = if set.is_empty() { "no other is set".to_owned() } else { format!("set are {}", set.join(", ")) };
    let (who, object) = (case.label(task.address), case.object(wait.object));
    let claim = format!(
        "{who} waits for all of {:#x} of {object}, as {} times before in vain: no event sets {:#x} ({:#x} is there); {others}",
        lacks.wanted,
        lacks.times.saturating_sub(1),
        lacks.missing,
        lacks.there
    );
    let asks = |seq| Evidence::event(seq, format!("{who} asks for {:#x} of {object} at once", lacks.wanted));
    let behind = graph.waiters(&[task.address]);
    Some(
        Finding::new(Code::WrongEventMask, case.cap(Confidence::Hint), claim)
            .against(["what sets it may be rare: it rests on what the trace does not show"])
            .evidence([asks(lacks.seqs.0), asks(lacks.seqs.1), waiting(task.address, wait.object, case, graph)])
            .next(format!("compare {:#x} with what those set who are to set it", lacks.missing))
            .threads([task.address])
            .affected(behind),
    )
}
