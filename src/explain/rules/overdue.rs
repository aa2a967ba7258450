//! Sleeps that should be over for long, by the events alone: the tick does not come, or its handler does not call the kernel. It needs
//! sleeps of before, which show how long a tick of the kernel is, and other threads that were made ready meanwhile: their events
//! are recorded.
//!
//! Against it: a program that stops its tick on purpose.

use super::super::events::{Asked, Events};
use super::super::graph::Graph;
use super::super::state::{Does, Task};
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::timers_still::{NEXT, READIED, is_tickless, waits};

/// So many ticks of the kernel, and so many times its length, a sleep has to be overdue.
const TICKS: i64 = 16;
const TIMES: i64 = 2;

/// A sleep that should be over.
struct Overdue<'a> {
    task: &'a Task,
    asked: Asked,
    /// For so many ticks of the kernel.
    by: i64,
}

pub(super) fn finding(case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let events = case.events.filter(|events| events.has_clock && events.cores <= 1)?;
    let period = events.sleeps.period().filter(|_| !is_tickless(case))?;
    let quiet = events.without_timers;
    if quiet.readied < READIED {
        return None;
    }
    let sleepers = graph.tasks.list.iter().filter(|task| task.does == Does::Sleeps);
    let all: Vec<Overdue<'_>> = sleepers.filter_map(|task| overdue(task, period, events)).collect();
    let longest = all.iter().max_by_key(|one| one.by)?;
    let names: Vec<String> = all.iter().map(|one| case.label(one.task.address)).collect();
    let name = case.label(longest.task.address);
    let claim = format!(
        "the tick does not come, or does not reach the kernel: {} for a time to pass; the sleep of {name}, of {} kernel ticks, \
         should have ended {} kernel ticks before the newest event",
        waits(&names),
        longest.asked.ticks,
        longest.by
    );
    let sleep = |one: &Overdue<'_>| {
        let text = format!("{} asked for a sleep of {} kernel ticks", case.label(one.task.address), one.asked.ticks);
        Evidence::event(one.asked.seq, text)
    };
    let last = quiet.from.map(|(seq, _)| {
        let times = quiet.readied;
        Evidence::event(
            seq,
            format!("the kernel's timers ran last; since then other threads were made ready {times} times"),
        )
    });
    Some(
        Finding::new(Code::NoTick, case.cap(Confidence::Likely), claim)
            .against(["the program may have stopped its tick on purpose"])
            .evidence(last)
            .evidence(counted(events, period))
            .evidence([sleep(longest)])
            .evidence(all.iter().filter(|one| one.asked.seq != longest.asked.seq).map(sleep))
            .next(match quiet.from {
                Some((seq, _)) => format!("look at what ran soon after event {seq}; {NEXT}"),
                None => NEXT.to_owned(),
            })
            .threads(all.iter().map(|one| one.task.address)),
    )
}

fn overdue<'a>(task: &'a Task, period: i64, events: &Events) -> Option<Overdue<'a>> {
    let asked = events.sleeps.of(events.stored(task.address))?;
    let by = late(asked, events.span.1, period)?;
    // Where it should have ended before another one did, the tick is not what is missing.
    let is_last = events.sleeps.last_end.is_none_or(|end| behind(asked, end, period).is_some_and(|by| by <= 1));
    is_last.then_some(Overdue { task, asked, by })
}

/// For how many ticks of the kernel a sleep should be over; less than 0 where it should not.
fn behind(asked: Asked, now: i64, period: i64) -> Option<i64> {
    now.checked_sub(asked.at)?.checked_div(period)?.checked_sub_unsigned(asked.ticks)
}

/// The same where that is long.
fn late(asked: Asked, now: i64, period: i64) -> Option<i64> {
    behind(asked, now, period).filter(|by| *by >= TICKS && (*by / TIMES).unsigned_abs() >= asked.ticks)
}

/// Calls of `tx_time_get` that all had the same count.
fn counted(events: &Events, period: i64) -> Option<Evidence> {
    let clock = events.sleeps.clock.filter(|clock| clock.calls >= 2)?;
    let (seq, at) = clock.from;
    let lasts = events.span.1.checked_sub(at)?.checked_div(period).filter(|ticks| *ticks >= TICKS)?;
    let text = format!(
        "the kernel counts {} ticks in this call of tx_time_get and in {} after it, up to {lasts} kernel ticks later",
        clock.value,
        clock.calls.saturating_sub(1)
    );
    Some(Evidence::event(seq, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_is_overdue_where_several_times_its_length_is_over() {
        let of = |ticks, now| late(Asked { seq: 0, at: 1000, ticks }, now, 100);
        assert_eq!(of(10, 4600), Some(26));
        assert_eq!(of(10, 3500), None, "fewer ticks");
        assert_eq!(of(40, 10_000), None, "not several times its length");
        assert_eq!(of(40, 13_000), Some(80));
        assert_eq!(of(u64::MAX, 13_000), None);
    }
}
