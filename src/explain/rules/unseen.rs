//! From a trace alone: what it shows of threads that have no event in it. Nothing shows what such a thread does: it may be
//! ready, wait, or have ended. So all of this is a hint.
//!
//! One thread has the processor for most of the trace and never blocks, and threads that it does not have to give way to have
//! no event: they may be ready and cannot run. Nothing is said of the least urgent thread, which may compute all the time. And a
//! mutex that a thread puts again and again, and has more often after each round: no other thread can take it.

use super::super::events::{Activity, Events, Kept, TIMER_THREAD, Untaken};
use super::super::graph::Graph;
use super::super::state::{Does, Task};
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::never_taken;
use super::starvation::{is_enough, keeps};
use super::words::{in_kernel_ticks, priority, shows};
use crate::abi::Addr;

/// So often a thread has to have a mutex more often than before: a function that calls itself does it a few times.
const RAISES: u64 = 4;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let Some(events) = case.events.filter(|_| case.kernel.is_none()) else { return Vec::new() };
    let runs = graph.tasks.list.iter().filter(|task| task.does == Does::Runs && is_enough(events));
    let hogs = runs.filter_map(|hog| keeps_off(hog, events, case, graph));
    let mutexes = events.objects().filter_map(|(mutex, one)| never_free(mutex, one.kept?, case));
    hogs.chain(mutexes).collect()
}

/// True for a thread that the one that runs does not have to give way to.
fn is_behind(priority: Option<u32>, hog: &Task) -> bool {
    priority.zip(hog.priority).is_some_and(|(priority, urgent)| priority >= urgent)
}

/// True for a thread that events name, and none is of.
fn is_unseen(task: &Task, activity: Option<&Activity>) -> bool {
    let has_event = activity.is_some_and(|activity| activity.first.is_some() || activity.since.is_some());
    task.does == Does::Unknown && !has_event
}

/// The threads of the application that have no event, with their priorities where these are known.
pub(super) fn threads_without_events<'e>(
    events: &'e Events,
    graph: &'e Graph,
) -> impl Iterator<Item = (Addr, Option<u32>)> + 'e {
    let named = graph.tasks.list.iter().filter(|task| is_unseen(task, events.activity(task.address)));
    let silent = events.silent().iter().map(|(at, priority)| (*at, Some(*priority)));
    let all = named.map(|task| (task.address, task.priority)).chain(silent);
    all.filter(|(at, _)| events.name(*at) != Some(TIMER_THREAD))
}

fn keeps_off(hog: &Task, events: &Events, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let activity = events.activity(hog.address).filter(|activity| activity.blocks == 0)?;
    let (since, ran) = keeps(hog, events)?;
    let others: Vec<_> = threads_without_events(events, graph).filter(|(at, _)| *at != hog.address).collect();
    let behind = others.iter().filter(|(_, priority)| is_behind(*priority, hog));
    let mut unseen: Vec<Addr> = behind.map(|(at, _)| *at).collect();
    // A preemption-threshold keeps off more urgent ones too: what is put for them is left.
    let mut left = None;
    if unseen.is_empty() {
        let grows = |one| never_taken::untaken(one, events).filter(Untaken::only_grows);
        left = events.objects().find_map(|(object, one)| Some((object, grows(one)?)));
        left?;
        unseen = others.iter().map(|(at, _)| *at).collect();
    }
    unseen.first()?;
    let name = case.label(hog.address);
    let all: Vec<String> = unseen.iter().map(|thread| case.label(*thread)).collect();
    let threshold = left.map_or_else(String::new, |(object, untaken)| {
        let object = case.object(object);
        format!(": a preemption-threshold may keep it off, as {object} was put {} times and not taken", untaken.puts)
    });
    let claim = format!(
        "{name}{} runs and never blocks in the trace: {} {} no event, and cannot run if ready{threshold}",
        priority(hog.address, graph),
        all.join(", "),
        if all.len() == 1 { "has" } else { "have" },
    );
    let kernel_ticks = in_kernel_ticks(&[since, ran], case);
    let text =
        format!("{name} has not blocked for {since} ticks of the trace, and ran for {ran} of them{kernel_ticks}");
    let evidence = match activity.first {
        Some(seq) => Evidence::event(seq, text),
        None => shows(hog.address, text, graph),
    };
    Some(
        Finding::new(Code::Starvation, case.cap(Confidence::Hint), claim)
            .against([
                "a thread without an event may wait for something, or have ended",
                "a long computation that ends looks the same",
            ])
            .evidence([evidence])
            .next(format!(
                "look at the loop in which {name} runs, and for what it should wait; a core shows who is ready"
            ))
            .threads([hog.address])
            .affected(unseen),
    )
}

const fn is_kept(kept: Kept) -> bool {
    kept.raises >= RAISES
}

fn never_free(mutex: Addr, kept: Kept, case: &Case<'_>) -> Option<Finding> {
    if !is_kept(kept) {
        return None;
    }
    let (name, object) = (case.label(kept.thread), case.object(mutex));
    let text = format!("{name} gives {object} back and still has it; so do {} puts in a row", kept.puts);
    let claim = format!(
        "{name} takes {object} more often than it gives it back, and has it {} times after its last put: no other thread can take it",
        kept.level
    );
    Some(
        Finding::new(Code::LockOwnerGone, case.cap(Confidence::Hint), claim)
            .against(["a function that calls itself, and takes the mutex each time, gives it back later"])
            .evidence([Evidence::event(kept.seq, text)])
            .next(format!("look for a path of {name} that returns without tx_mutex_put"))
            .threads([kept.thread]),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(address: Addr, does: Does, priority: u32) -> Task {
        Task {
            address,
            does,
            priority: Some(priority),
            threshold: None,
            time_slice: None,
            wait: None,
            runs: None,
            seq: None,
        }
    }

    #[test]
    fn only_threads_that_are_not_more_urgent_and_have_no_event_may_be_kept_off() {
        let hog = task(0x100, Does::Runs, 5);
        assert!(is_behind(Some(12), &hog) && is_behind(Some(5), &hog));
        assert!(!is_behind(Some(4), &hog), "it would preempt");
        assert!(!is_behind(None, &hog));
        assert!(is_unseen(&task(0x200, Does::Unknown, 12), None));
        assert!(!is_unseen(&task(0x200, Does::Sleeps, 12), None));
        let ran = Activity { first: Some(3), ..Activity::default() };
        assert!(!is_unseen(&task(0x200, Does::Unknown, 12), Some(&ran)));
    }

    #[test]
    fn a_mutex_that_is_taken_again_and_again_without_a_put_is_never_free() {
        let kept = |raises| Kept { thread: 0x100, level: 8, puts: 30, raises, seq: 7 };
        assert!(is_kept(kept(6)));
        assert!(!is_kept(kept(1)), "a function that calls itself");
    }
}
