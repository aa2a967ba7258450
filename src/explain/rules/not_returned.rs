//! From a source without registers: the trace ends in an interrupt whose beginning it has and whose end it lacks, the interrupt has made a
//! thread ready, and no thread has run since. It may not end, or the CPU was stopped within it by chance.
//!
//! Where it has made none ready, the trace may end in it as a fault or a loop in its handler stops the system. It counts where
//! interrupts of this number take little of the time, so that the end of the trace is hardly in one by chance.
//!
//! It needs interrupts of this number that ended before: an application that inserts beginnings alone shows nothing.

use super::super::events::{Events, Inserted, Interrupt, Open};
use super::super::graph::Graph;
use super::super::state::Does;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::isr_storm;
use super::words::trace_ticks;
use crate::abi::Addr;

/// So often it has to have ended before.
const TIMES: u64 = 16;
/// The threads that are named.
const NAMED: usize = 3;
/// One part in so many of the time is little.
const LITTLE: i64 = 50;

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
        return last(open, before, events, case);
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

/// The trace ends in an interrupt that took little of its time before.
fn last(open: &Open, before: &Interrupt, events: &Events, case: &Case<'_>) -> Option<Finding> {
    // Programs stop themselves in the tick, as a watchdog of their own does.
    let is_tick = isr_storm::is_tick(open.number, events, case);
    let is_measured = before.longest > 0 && !events.counts_events();
    if is_tick || !is_measured || before.inside > events.length() / LITTLE {
        return None;
    }
    let name = case.interrupt(Some(open.number));
    let words = |inserted: &Inserted| inserted.words.map(|word| format!("{word:#x}")).join(" ");
    let inserted = open.inserted.map(|inserted| {
        Evidence::event(inserted.seq, format!("user event {} of its handler: {}", inserted.id, words(&inserted)))
    });
    let text = format!("it begins; of {} before, the longest took {}", before.times, trace_ticks(before.longest, case));
    Some(
        Finding::new(
            Code::IsrNeverEnds,
            case.cap(Confidence::Hint),
            format!("the trace ends in {name}, whose handler has not ended: a fault or a loop in it may have stopped the system"),
        )
        .against(["the CPU may have been stopped within it by chance"])
        .evidence([Evidence::event(open.seq, text)])
        .evidence(inserted)
        .next(format!("read the registers, or look at what the handler of {name} does after its last event"))
        .usual(true),
    )
}
