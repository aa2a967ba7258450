//! From a source without registers: the trace ends in an interrupt whose beginning it has and whose end it lacks, the interrupt has made a
//! thread ready, and no thread has run since. It may not end, or the CPU was stopped within it by chance.
//!
//! It needs interrupts of this number that ended before: an application that inserts beginnings alone shows nothing.

use super::super::graph::Graph;
use super::super::state::Does;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::words::trace_ticks;
use crate::abi::Addr;

/// So often it has to have ended before.
const TIMES: u64 = 16;
/// The threads that are named.
const NAMED: usize = 3;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    finding(case, graph).into_iter().collect()
}

fn finding(case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    if case.cpus.is_some_and(|cpus| cpus.all.iter().any(|cpu| cpu.registers.pc().is_some())) {
        return None;
    }
    let events = case.events.filter(|events| events.has_clock && events.cores <= 1)?;
    let open = events.interrupts.open.last().filter(|open| open.above == 0)?;
    let before = events.interrupts.by_number.get(&open.number).filter(|one| one.times >= TIMES && one.is_timed())?;
    let tasks = &graph.tasks.list;
    if tasks.iter().any(|task| task.does == Does::Runs) || events.last_of_threads > Some(open.seq) {
        return None;
    }
    let is_made_ready = |thread: Addr| {
        let since = events.activity(thread).and_then(|activity| activity.since);
        since.is_some_and(|(_, seq)| seq > open.seq)
    };
    let ready = tasks.iter().filter(|task| task.does == Does::Ready).map(|task| task.address);
    let ready: Vec<Addr> = ready.filter(|at| is_made_ready(*at)).collect();
    let names: Vec<String> = ready.iter().take(NAMED).map(|at| case.label(*at)).collect();
    if names.is_empty() {
        return None;
    }
    let name = case.interrupt(Some(open.number));
    let (has, does) = if ready.len() == 1 { ("has", "does") } else { ("have", "do") };
    let more = ready.len().saturating_sub(names.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let lasts = events.span.1.saturating_sub(open.since);
    Some(
        Finding::new(
            Code::IsrNeverEnds,
            case.cap(Confidence::Hint),
            format!(
                "{name} has not ended at the newest event: {}{more} {has} been ready since then and {does} not run",
                names.join(", ")
            ),
        )
        .against(["the CPU may have been stopped within it by chance"])
        .against((lasts <= before.longest).then_some("by the events it has not lasted longer than before"))
        .evidence([Evidence::event(
            open.seq,
            format!(
                "it begins, {} before the newest event; of {} before, the longest took {}",
                trace_ticks(lasts, case),
                before.times,
                trace_ticks(before.longest, case)
            ),
        )])
        .next(format!(
            "look at what the handler of {name} does after its last call of the kernel; where it is now only registers show"
        ))
        .affected(ready)
        .usual(true),
    )
}
