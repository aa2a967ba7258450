//! Priority inversion: a thread waits for a mutex whose owner is ready and does not run, because another thread runs that is
//! more urgent than the owner and less urgent than the waiter. One moment does not show how long that lasts, and short ones
//! are healthy, so memory alone gives a hint. Where the trace shows that the wait was on at its end, that threads in between
//! ran for most of it, and that it was far longer than the owner's own work, it is likely.

use super::super::events::Inversion;
use super::super::graph::{Edge, Graph};
use super::super::state::Does;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::words::{behind, holds, priority, shows, waiting};
use crate::abi::Addr;
use crate::kernel::{Kernel, Kind, State, Thread};

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let mut found = by_events(case, graph);
    let Some(kernel) = case.kernel else { return found };
    let mutexes = graph.edges.iter().filter(|edge| kernel.object(edge.object).is_some_and(|o| o.kind == Kind::Mutex));
    for edge in mutexes {
        let Some(culprit) = culprit(edge, kernel) else { continue };
        if !found.iter().any(|f| f.threads.contains(&edge.holder)) {
            found.push(in_memory(edge, culprit, case, graph));
        }
    }
    found
}

/// Those that the trace shows to be on at its end.
fn by_events(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let Some(events) = case.events.filter(|events| events.has_clock) else { return Vec::new() };
    let is_long = |inversion: &&Inversion| {
        let usual = events.object(inversion.lock).map_or(0, |one| one.longest_wait);
        inversion.ran >= inversion.waited / 2 && inversion.waited / 4 >= usual
    };
    events.inversions.iter().filter(is_long).filter_map(|inversion| lasting(inversion, case, graph)).collect()
}

fn lasting(inversion: &Inversion, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let full = |stored: Addr| graph.stored(case, stored).map(|task| task.address);
    let (waiter, owner, culprit) = (full(inversion.waiter)?, full(inversion.owner)?, full(inversion.culprit)?);
    let edge = graph.wait(waiter).filter(|edge| edge.holder == owner)?;
    // The owner could go on: it is neither suspended nor does it wait.
    let events = case.events?;
    let does = graph.tasks.at(owner)?.does;
    if !matches!(does, Does::Ready | Does::Runs) {
        return None;
    }
    let long = inversion.waited >= events.length() / 20;
    let (confidence, detractors) = case.cap(if long { Confidence::Likely } else { Confidence::Hint });
    let object = case.object(edge.object);
    let [w, o, c] = [waiter, owner, culprit].map(|thread| case.label(thread));
    let others = graph.behind(&[owner]);
    let mut symptoms = others.clone();
    // That others do not run either is the work of the same thread.
    symptoms.push(culprit);
    Some(Finding {
        code: Code::PriorityInversion,
        claim: format!(
            "{w} (priority {}) waits for {object}, which {o} (priority {}) owns; {c}{} keeps {o} from running",
            inversion.priorities.0,
            inversion.priorities.1,
            priority(culprit, graph)
        ),
        confidence,
        detractors,
        evidence: vec![
            Evidence::event(
                inversion.from,
                format!(
                    "{w} has waited for {object} since, for {} ticks; {c} ran for {} of them",
                    inversion.waited, inversion.ran
                ),
            ),
            holds(edge, case),
            waiting(waiter, edge.object, case, graph),
        ],
        explains: behind(&others, waiter, case, graph),
        next: "create the mutex with TX_INHERIT, or make what runs in between shorter".to_owned(),
        threads: vec![waiter, owner],
        behind: symptoms,
    })
}

/// The thread that keeps the owner from running.
fn culprit<'k>(edge: &Edge, kernel: &'k Kernel) -> Option<&'k Thread> {
    let (waiter, owner) = (kernel.thread(edge.waiter)?, kernel.thread(edge.holder)?);
    let (urgent, lazy) = (waiter.priority?, owner.priority?);
    if owner.state != Some(State::READY) || owner.core.is_some() || lazy <= urgent {
        return None;
    }
    let between = |thread: &&Thread| thread.priority.is_some_and(|p| urgent < p && p < lazy);
    kernel.threads.iter().filter(|thread| thread.core.is_some()).find(between)
}

fn in_memory(edge: &Edge, culprit: &Thread, case: &Case<'_>, graph: &Graph) -> Finding {
    let (waiter, owner, object) = (case.label(edge.waiter), case.label(edge.holder), case.object(edge.object));
    let (confidence, mut detractors) = case.cap(Confidence::Hint);
    detractors.push("one moment does not show how long it lasts: `inversions` has what the events show".to_owned());
    let (name, others) = (culprit.label(), graph.behind(&[edge.holder]));
    Finding {
        code: Code::PriorityInversion,
        claim: format!(
            "{waiter}{} waits for {object}, which {owner}{} owns; {name}{} runs and keeps {owner} from running",
            priority(edge.waiter, graph),
            priority(edge.holder, graph),
            priority(culprit.address, graph)
        ),
        confidence,
        detractors,
        evidence: vec![
            holds(edge, case),
            shows(edge.holder, format!("{owner}: ready, and does not run"), graph),
            shows(culprit.address, format!("{name}: runs"), graph),
        ],
        explains: behind(&others, edge.waiter, case, graph),
        next: "create the mutex with TX_INHERIT, or make what runs in between shorter".to_owned(),
        threads: vec![edge.waiter, edge.holder],
        behind: others,
    }
}
