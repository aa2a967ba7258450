//! A thread that could run and does not, for most of the trace, because one more urgent thread has the processor and never
//! blocks. A system that is loaded by several threads, a long computation of the least urgent thread, and a thread that
//! computes once at the start are healthy: the one that runs must be the same all the time, must not have run so long before,
//! and who waits must have run before.

use super::super::cpus::thread_of;
use super::super::events::{Activity, Events};
use super::super::graph::Graph;
use super::super::state::{Does, Task};
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::place;
use super::words::{priority, shows};
use crate::abi::Addr;
use crate::session::CpuState;

/// The fewest events of the trace from which it is claimed.
const FEWEST: u64 = 32;
/// A thread whose rounds are longer than the trace looks as if it did not block.
const NO_ROUND: &str = "the trace is too short to show how long it runs otherwise: it needs a longer ring";

/// True for events that can show it.
pub(super) const fn is_enough(events: &Events) -> bool {
    events.has_clock && events.cores <= 1 && events.count >= FEWEST
}

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let Some(events) = case.events.filter(|events| is_enough(events)) else { return Vec::new() };
    let hogs = graph.tasks.list.iter().filter(|task| matches!(task.does, Does::Runs | Does::Ready));
    hogs.filter_map(|hog| finding(hog, events, case, graph)).collect()
}

/// ` in flash_wait (flash.c:4)`: where the CPU is in it.
fn within(hog: &Task, case: &Case<'_>) -> String {
    let cpu = case.cpus.and_then(|cpus| {
        let is_in = |cpu: &&CpuState| thread_of(cpu, case.kernel).is_some_and(|thread| thread.address == hog.address);
        cpus.all.iter().find(is_in)
    });
    let at = cpu.filter(|_| hog.does == Does::Runs).and_then(|cpu| place::of(&cpu.functions));
    at.map_or_else(String::new, |at| format!(" in {at}"))
}

/// Ticks since a thread last blocked, and how long it had the processor in them.
fn busy(activity: &Activity, events: &Events) -> (i64, i64) {
    match activity.blocked {
        Some((at, _, ran)) => (events.span.1.saturating_sub(at), activity.ran.saturating_sub(ran)),
        None => (events.length(), activity.ran),
    }
}

/// Ticks since a thread last blocked, and how long it had the processor in them, where it keeps the processor.
pub(super) fn keeps(hog: &Task, events: &Events) -> Option<(i64, i64)> {
    let activity = events.activity(hog.address)?;
    let (since, ran) = busy(activity, events);
    // A thread that blocks now and then runs no longer than it did before.
    (ran / 2 >= since / 4 && since >= events.length() / 2 && ran / 3 >= activity.longest).then_some((since, ran))
}

/// True for a thread that is ready and has not run, for as long as one that does not block keeps the processor.
pub(super) fn starves(task: &Task, hog: &Task, since: i64, events: &Events) -> bool {
    let is_later = task.priority.zip(hog.priority).is_some_and(|(priority, urgent)| priority > urgent);
    let lasts = events.lasts(task.address);
    let has_run = match task.runs {
        Some(runs) => runs > 0,
        None => events.activity(task.address).is_some_and(|a| a.since.is_some()),
    };
    task.does == Does::Ready && is_later && has_run && lasts >= events.length() / 2 && lasts <= since
}

/// True where the trace shows more than a round of work that is longer than itself: a whole round of the thread that runs, all
/// events since the start, or a thread that was woken to do something. One that was preempted may be what fills the idle time.
fn is_shown(hog: Addr, starved: &[Addr], events: &Events) -> bool {
    let has_round = events.activity(hog).is_some_and(|activity| activity.blocks >= 2);
    let is_woken = |thread: &Addr| {
        let activity = events.activity(*thread);
        activity.is_some_and(|a| a.woken.is_some() && a.woken == a.since.map(|(_, seq)| seq))
    };
    events.is_whole || has_round || starved.iter().any(is_woken)
}

fn finding(hog: &Task, events: &Events, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let (since, ran) = keeps(hog, events)?;
    let starved: Vec<&Task> = graph.tasks.list.iter().filter(|task| starves(task, hog, since, events)).collect();
    starved.first()?;
    let (mut confidence, mut detractors) = case.by_events();
    detractors.push("a long computation that ends looks the same".to_owned());
    let addresses: Vec<Addr> = starved.iter().map(|task| task.address).collect();
    if !is_shown(hog.address, &addresses, events) {
        confidence = confidence.min(Confidence::Hint);
        detractors.push(NO_ROUND.to_owned());
    }
    let name = case.label(hog.address);
    let all: Vec<String> = starved.iter().map(|task| case.label(task.address)).collect();
    let waits = |task: &&&Task| {
        let text = format!(
            "{}{} is ready and has not run for {} ticks",
            case.label(task.address),
            priority(task.address, graph),
            events.lasts(task.address)
        );
        match events.activity(task.address).and_then(|activity| activity.since) {
            Some((_, seq)) => Evidence::event(seq, text),
            None => shows(task.address, text, graph),
        }
    };
    let mut evidence =
        vec![shows(hog.address, format!("{name} has not blocked for {since} ticks, and ran for {ran} of them"), graph)];
    evidence.extend(starved.iter().take(3).map(|task| waits(&task)));
    Some(Finding {
        code: Code::Starvation,
        claim: format!(
            "{name}{} runs{} and does not block: {} {} ready and cannot run",
            priority(hog.address, graph),
            within(hog, case),
            all.join(", "),
            if starved.len() == 1 { "is" } else { "are" }
        ),
        confidence,
        detractors,
        evidence,
        explains: Vec::new(),
        next: format!("look at the loop in which {name} runs, and for what it should wait"),
        threads: vec![hog.address],
        behind: addresses,
    })
}

#[cfg(test)]
mod rounds {
    use super::*;

    #[test]
    fn a_round_of_work_that_is_longer_than_the_trace_is_not_shown_to_be_starvation() {
        let (worker, background) = (0x100, 0x200);
        let of_worker = |blocks| Events::of_activity(worker, Activity { blocks, ..Activity::default() }, 1000);
        assert!(!is_shown(worker, &[background], &of_worker(1)), "no whole round, and nobody woke the other");
        assert!(is_shown(worker, &[background], &of_worker(2)));
        let mut whole = of_worker(0);
        whole.is_whole = true;
        assert!(is_shown(worker, &[background], &whole));
        let woken = |woken| {
            let activity = Activity { since: Some((10, 7)), woken: Some(woken), ..Activity::default() };
            Events::of_activity(background, activity, 1000)
        };
        assert!(is_shown(worker, &[background], &woken(7)));
        assert!(!is_shown(worker, &[background], &woken(3)), "it was preempted since");
    }
}
