//! A thread that could run and does not, for most of the trace, because one more urgent thread has the processor and never
//! blocks. A system that is loaded by several threads, a long computation of the least urgent thread, and a thread that
//! computes once at the start are healthy: the one that runs must be the same all the time, must not have run so long before,
//! and who waits must have run before.

use super::super::events::{Activity, Events};
use super::super::graph::Graph;
use super::super::state::{Does, Task};
use super::super::{Case, Code, Evidence, Finding};
use super::words::{priority, shows};

/// The fewest events of the trace from which it is claimed.
const FEWEST: u64 = 32;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let Some(events) = case.events.filter(|e| e.has_clock && e.cores <= 1 && e.count >= FEWEST) else {
        return Vec::new();
    };
    let hogs = graph.tasks.list.iter().filter(|task| matches!(task.does, Does::Runs | Does::Ready));
    hogs.filter_map(|hog| finding(hog, events, case, graph)).collect()
}

/// Ticks since a thread last blocked, and how long it had the processor in them.
fn busy(activity: &Activity, events: &Events) -> (i64, i64) {
    match activity.blocked {
        Some((at, _, ran)) => (events.span.1.saturating_sub(at), activity.ran.saturating_sub(ran)),
        None => (events.length(), activity.ran),
    }
}

fn finding(hog: &Task, events: &Events, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let activity = events.activity(hog.address)?;
    let urgent = hog.priority?;
    let (since, ran) = busy(activity, events);
    // A thread that blocks now and then runs no longer than it did before.
    if ran / 2 < since / 4 || since < events.length() / 2 || ran / 3 < activity.longest {
        return None;
    }
    let starves = |task: &&Task| {
        let is_later = task.priority.is_some_and(|priority| priority > urgent);
        let lasts = events.lasts(task.address);
        let has_run = match task.runs {
            Some(runs) => runs > 0,
            None => events.activity(task.address).is_some_and(|a| a.since.is_some()),
        };
        task.does == Does::Ready && is_later && has_run && lasts >= events.length() / 2 && lasts <= since
    };
    let starved: Vec<&Task> = graph.tasks.list.iter().filter(starves).collect();
    starved.first()?;
    let (confidence, mut detractors) = case.by_events();
    detractors.push("a long computation that ends looks the same".to_owned());
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
            "{name}{} runs and does not block: {} {} ready and cannot run",
            priority(hog.address, graph),
            all.join(", "),
            if starved.len() == 1 { "is" } else { "are" }
        ),
        confidence,
        detractors,
        evidence,
        explains: Vec::new(),
        next: format!("look at the loop in which {name} runs, and for what it should wait"),
        threads: vec![hog.address],
        behind: starved.iter().map(|task| task.address).collect(),
    })
}
