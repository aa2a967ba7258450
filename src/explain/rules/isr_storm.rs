//! An interrupt that comes again as soon as its handler ends, so that nothing else runs: as a rule its cause is not
//! acknowledged in the device. A burst of a device is healthy: it must be long, and take most of the time. Its time is known
//! only where the kernel was built to announce interrupts. The events themselves take time: where no thread runs any more and the
//! time from its end to its next beginning is always the same, however long it takes, its share does not matter. Of the interrupt
//! that advances the clock of the trace itself no time is known.

use super::super::events::{Events, Interrupt, Open};
use super::super::graph::Graph;
use super::super::{Case, Code, Evidence, Finding};
use super::interrupts::SYSTICK;
use super::words;

/// In a row, at the end of the trace.
const FEWEST: u64 = 64;
/// Parts of a hundred of the time in which it was inside of its handler.
const SHARE: i64 = 50;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let Some(events) = case.events.filter(|events| events.has_clock && !events.counts_events() && events.cores <= 1)
    else {
        return Vec::new();
    };
    let storms = events.interrupts.by_number.iter().filter(|(_, one)| one.is_timed());
    let storms = storms.filter_map(|(n, one)| storm(*n, one, events, case, graph));
    storms.chain(events.interrupts.open.first().and_then(|open| endless(open, events, case))).collect()
}

fn storm(number: u64, one: &Interrupt, events: &Events, case: &Case<'_>, _: &Graph) -> Option<Finding> {
    let (seq, from) = one.row_from;
    let all = events.span.1.saturating_sub(from);
    let each = one.row_ticks.checked_div(i64::try_from(one.row).ok()?)?;
    let goes_on = events.span.1.saturating_sub(one.ended) <= each.saturating_mul(4);
    let share = one.row_ticks.saturating_mul(100).checked_div(all)?;
    let since = events.last_of_threads;
    let is_alone = since.is_none_or(|last| last < seq);
    if one.row < FEWEST || !goes_on || share < SHARE && !(is_alone && is_back_to_back(one)) {
        return None;
    }
    let name = case.interrupt(Some(number));
    let no_thread = match since {
        Some(last) if is_alone => format!("; no thread has run since event {last}"),
        None => "; no thread has run in the trace".to_owned(),
        Some(_) => String::new(),
    };
    let silent = if one.acts == 0 { "; it never calls the kernel" } else { "" };
    Some(
        Finding::new(
            Code::IsrStorm,
            case.by_events(),
            format!(
                "{name} comes again as soon as it ends: {} times in a row, and takes {share} % of the time{no_thread}",
                one.row
            ),
        )
        .against(["a burst of the device looks the same"])
        .evidence([Evidence::event(
            seq,
            format!(
                "{} times since, {each} ticks of the trace each, in {all}{}{silent}",
                one.row,
                words::in_kernel_ticks(&[all], case)
            ),
        )])
        .next(if is_tick(number, events, case) {
            format!("look at how long the handler of {name} takes, and at who sets how often it comes (of SysTick: SYST_RVR)")
        } else {
            words::acknowledge(&name)
        }),
    )
}

/// True for the interrupt of a timer that gives the tick: nothing has to be acknowledged for SysTick.
pub(super) fn is_tick(number: u64, events: &Events, case: &Case<'_>) -> bool {
    // Where it is not known what the numbers count, 15 may be SysTick.
    let is_systick = case.added_to_interrupts().map_or(number, |added| number.saturating_add(added)) == SYSTICK;
    is_systick || events.interrupts.tick().is_some_and(|tick| tick.number == number)
}

/// True where it comes again in the same time after its end, however long it was in its handler: one that comes at fixed times
/// has the same time between two beginnings.
const fn is_back_to_back(one: &Interrupt) -> bool {
    let (inside, outside) = (one.row_inside.spread(), one.row_outside.spread());
    inside > 0 && inside / 4 >= outside && outside <= one.row_outside.most() / 4
}

/// An interrupt that began and has not ended, far longer than it ever took, while others came.
fn endless(open: &Open, events: &Events, case: &Case<'_>) -> Option<Finding> {
    // The oldest slot of a ring is the one that the kernel writes next: its event may be one that was half written at the stop.
    if open.seq == 0 && !events.is_whole {
        return None;
    }
    let one = events.interrupts.by_number.get(&open.number).filter(|one| one.is_timed())?;
    let lasts = events.span.1.saturating_sub(open.since);
    if one.times < 3 || open.above < 8 || lasts / 16 < one.longest {
        return None;
    }
    let name = case.interrupt(Some(open.number));
    Some(
        Finding::new(
            Code::IsrNeverEnds,
            case.by_events(),
            format!("{name} began {} ago and has not ended", words::trace_ticks(lasts, case)),
        )
        .against(["an event of its end may be missing"])
        .evidence([Evidence::event(
            open.seq,
            format!(
                "it begins; before it took {} at most; {} interrupts came on top of it since",
                words::trace_ticks(one.longest, case),
                open.above
            ),
        )])
        .next(format!("find out what the handler of {name} waits for")),
    )
}
