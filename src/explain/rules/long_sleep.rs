//! A thread sleeps, or waits with a time-out, for longer than anybody means: the ticks are a difference of two times that became
//! negative, as where the next round of work should have begun already. `tx_thread_sleep` takes it for a number without sign: at
//! 1000 ticks a second it is 49 days.
//!
//! The longest of all is `TX_WAIT_FOREVER`: no timer runs for it, and the thread never wakes.
//!
//! Against it: a program may sleep for the longest time that there is to mean for ever. So it is a hint, and only for what is
//! left of more than half of all ticks that a word can count. A port may count time-outs below zero that are overdue: of several
//! such threads nothing is said.

use super::super::events::{Events, NegativeWait};
use super::super::graph::Graph;
use super::super::state::{Does, Task};
use super::super::usage::User;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::set_by::{self, SetBy};
use crate::abi::Addr;
use crate::kernel::Thread;
use crate::trace::many;

/// The ticks of which a program sleeps fewer: half of what a word of 32 bits counts.
const HALF: u64 = 1 << 31;
/// One more than the longest time.
const ALL: u64 = 1 << 32;
/// `TX_WAIT_FOREVER`.
const FOREVER: u64 = 0xFFFF_FFFF;
/// The most bytes of a variable that is looked at as a whole.
const MOST_BYTES: u64 = 256;
/// The function that puts a thread to sleep.
const SLEEP: &str = "_tx_thread_sleep";
/// The most threads that sleep for ever that are looked at: the code of each is followed.
const MOST: usize = 8;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let threads = case.kernel.into_iter().flat_map(|kernel| &kernel.threads);
    let mut found: Vec<Finding> = threads.clone().filter_map(|thread| finding(thread, case, graph)).collect();
    if case.kernel.is_none() {
        found.extend(graph.tasks.list.iter().filter_map(|task| by_event(task, case, graph)));
    }
    // Several at once are overdue.
    if found.len() > 1 {
        found.clear();
    }
    if found.is_empty() {
        found.extend(case.events.into_iter().flat_map(|events| by_calls(events, case, graph)));
    }
    let sleeping = threads.filter(|thread| never_wakes(thread.timed, thread.ticks_left)).take(MOST);
    found.extend(sleeping.filter_map(|thread| endless(thread, case, graph)));
    found
}

/// The ticks that are left, where they are such a difference.
fn ticks(timed: Option<bool>, left: Option<u64>) -> Option<u64> {
    left.filter(|left| timed == Some(true) && (HALF..ALL).contains(left))
}

/// The same of a trace alone: what the thread asked for.
fn by_event(task: &Task, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let asked = case.events?.activity(task.address)?.sleeps.filter(|_| task.does == Does::Sleeps);
    let (asked, seq) = asked.filter(|(asked, _)| (HALF..ALL).contains(asked))?;
    let name = case.label(task.address);
    let text = format!("{name} asks for {asked} ticks; as a number with a sign that is -{}", ALL.saturating_sub(asked));
    Some(found(task, (asked, "sleeps for"), Evidence::event(seq, text).holds(asked), case, graph))
}

/// Calls that need not wait, as there is always something to take: none of them ends by its time-out.
fn by_calls(events: &Events, case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let of = |((thread, object), call): (&(Addr, Addr), &NegativeWait)| {
        let task = graph.tasks.list.iter().find(|task| case.stored(task.address) == *thread)?;
        let (name, object, NegativeWait { ticks, below, seq, times }) =
            (case.label(task.address), case.object(*object), *call);
        let claim = format!(
            "the time-out of {name} for {object} was {ticks} ticks ({ticks:#x}), {}: a negative number of ticks, -{below}, which is taken for a large one",
            many(times, "time", "times")
        );
        let text = format!("the last call of {name} with {object}: its time-out as a number with a sign is -{below}");
        let finding = Finding::new(Code::EventNeverSet, case.cap(Confidence::Hint), claim)
            .against(["a program may ask so to mean for ever"])
            .evidence([Evidence::event(seq, text).holds(ticks)])
            .next(format!("look at how {name} computes its time-out: a time that is over gives a negative difference"));
        Some(finding.waiters(graph.waiters(&[task.address]), task.address, case, graph).threads([task.address]))
    };
    events.negative.iter().filter_map(of).take(MOST).collect()
}

/// True for a thread that sleeps where the ticks it asked for were taken for `TX_WAIT_FOREVER`.
fn never_wakes(timed: Option<bool>, left: Option<u64>) -> bool {
    timed == Some(false) && left == Some(FOREVER)
}

/// A thread that sleeps without a timer: `tx_thread_sleep` took the ticks for `TX_WAIT_FOREVER`.
fn endless(thread: &Thread, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let task = graph.tasks.at(thread.address).filter(|task| task.does == Does::Sleeps)?;
    if is_meant(thread.address, case) {
        return None;
    }
    let name = thread.label();
    let text = format!("{name} sleeps, no timer runs for it, and its ticks are {FOREVER:#x}");
    let place = case.cpus.and_then(|cpus| cpus.call(thread.address)).map(|call| format!(", in {}", call.label()));
    let place = place.unwrap_or_default();
    let origin = Origin::of(thread.address, case);
    let from = origin.as_ref().map_or_else(String::new, |origin| format!(", {}", origin.words));
    let claim =
        format!("{name} sleeps for ever{place}: it asked for {FOREVER:#x} ticks, which is TX_WAIT_FOREVER{from}");
    let finding = Finding::new(Code::EventNeverSet, case.cap(Confidence::Hint), claim)
        .against(["a program may sleep so to mean for ever"])
        .evidence([Evidence::memory(thread.address, text).holds(FOREVER)])
        .waiters(graph.waiters(&[task.address]), task.address, case, graph)
        .threads([task.address]);
    Some(match origin {
        Some(origin) => {
            let against = (origin.evidence.len() > 1).then_some(set_by::AGAINST);
            finding.against(against).evidence(origin.evidence).next(origin.next)
        }
        None => finding
            .next(format!("look at how {name} computes its ticks: -1, or a number that is too large, is for ever")),
    })
}

/// The variable from which a thread read its ticks.
struct Origin {
    words: String,
    evidence: Vec<Evidence>,
    next: String,
}

impl Origin {
    fn of(thread: Addr, case: &Case<'_>) -> Option<Self> {
        let back = case.cpus?.call(thread)?.pc & !1;
        let function = case.look.function(back.checked_sub(1)?)?.address & !1;
        let place = case.usage()?.passed_from(function, back)?;
        let name = case.look.place(place)?;
        let value = case.words(&case.look.bytes(place, 4)?, false).first().copied()?;
        let words = match value {
            FOREVER => format!("from {name}"),
            _ => format!("from {name}, which holds {value:#x} now"),
        };
        let also = filled(place, case).map_or_else(String::new, |filled| format!("; {filled}"));
        let text = format!("{name}, from which it read its ticks, holds {value:#x}{also}");
        let set_by = SetBy::of(place, FOREVER, case);
        let next = set_by.as_ref().and_then(|set| set.next.clone());
        let evidence = vec![Evidence::memory(place, text).holds(value)];
        Some(Self {
            words,
            evidence: evidence.into_iter().chain(set_by.map(|set| set.evidence)).collect(),
            next: next.unwrap_or_else(|| format!("look at who sets {name}")),
        })
    }
}

/// Which words of the variable at a place are all ones, as memory is that was erased, or filled and not written since.
fn filled(place: Addr, case: &Case<'_>) -> Option<String> {
    let variable = case.look.variable(place).filter(|variable| variable.size <= MOST_BYTES)?;
    let words = case.words(&case.look.bytes(variable.address, variable.size)?, false);
    let ones = words.iter().filter(|word| **word == FOREVER).count();
    (ones > 1).then(|| format!("{ones} of the {} words of {} are {FOREVER:#x}", words.len(), variable.name))
}

/// True where the code of a thread passes this number itself, so that it is meant.
fn is_meant(thread: Addr, case: &Case<'_>) -> bool {
    let Some((sleep, usage)) = case.look.symbol(SLEEP).zip(case.usage()) else { return false };
    usage.passes(User::Thread(thread), &[sleep.address & !1], u32::MAX)
}

fn finding(thread: &Thread, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let left = ticks(thread.timed, thread.ticks_left)?;
    let task = graph.tasks.at(thread.address)?;
    let name = thread.label();
    let what = match task.wait {
        Some(wait) => format!("waits for {} for at most", case.object(wait.object)),
        None if task.does == Does::Sleeps => "sleeps for at most".to_owned(),
        None => return None,
    };
    let negative = ALL.saturating_sub(left);
    let text =
        format!("{name}: its time-out has at most {left} ticks left; as a number with a sign that is -{negative}");
    Some(found(
        task,
        (left, &format!("{what} another")),
        Evidence::memory(thread.address, text).holds(left),
        case,
        graph,
    ))
}

fn found(task: &Task, (ticks, what): (u64, &str), evidence: Evidence, case: &Case<'_>, graph: &Graph) -> Finding {
    let name = case.label(task.address);
    let claim =
        format!("{name} {what} {ticks} ticks ({ticks:#x}): a negative number of ticks, which is taken for a large one");
    Finding::new(Code::EventNeverSet, case.cap(Confidence::Hint), claim)
        .against(["a program may sleep for the longest time to mean for ever"])
        .evidence([evidence])
        .waiters(graph.waiters(&[task.address]), task.address, case, graph)
        .next(format!("look at how {name} computes its ticks: a time that is over gives a negative difference"))
        .threads([task.address])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_negative_difference_of_times_is_a_long_sleep() {
        assert_eq!(ticks(Some(true), Some(0xFFFF_FFF4)), Some(0xFFFF_FFF4));
        assert_eq!(ticks(Some(true), Some(86_400_000)), None, "a day");
        assert_eq!(ticks(Some(false), Some(0xFFFF_FFF4)), None, "no time-out runs: the number is an old one");
        assert_eq!(ticks(None, Some(0xFFFF_FFF4)), None);
    }

    /// A quotient of a division by 0 was the time of a sleep: nothing was said of the thread, whose time-out does not run.
    #[test]
    fn a_sleep_for_ever_was_no_finding() {
        assert!(never_wakes(Some(false), Some(0xFFFF_FFFF)));
        assert!(!never_wakes(Some(true), Some(0xFFFF_FFFF)), "a timer runs");
        assert!(!never_wakes(Some(false), Some(5)), "it was woken before its time");
        assert!(!never_wakes(None, Some(0xFFFF_FFFF)));
    }
}
