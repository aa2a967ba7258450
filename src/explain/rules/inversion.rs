//! Priority inversion in memory: a thread waits for a mutex whose owner is ready and does not run, because another thread
//! runs that is more urgent than the owner and less urgent than the waiter. One moment does not show how long that lasts:
//! short ones are healthy, so it is a hint.

use super::super::graph::{Edge, Graph};
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::deadlock::waits;
use crate::kernel::{Kernel, State, Thread};

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let Some(kernel) = case.kernel else { return Vec::new() };
    let inverted = |edge: &&Edge| culprit(edge, kernel).is_some();
    let mut found: Vec<Finding> = Vec::new();
    for edge in graph.edges.iter().filter(|edge| edge.seq.is_none()).filter(inverted) {
        let Some(culprit) = culprit(edge, kernel) else { continue };
        if !found.iter().any(|f| f.threads.contains(&edge.holder)) {
            found.push(finding(edge, culprit, case, graph));
        }
    }
    found
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

fn finding(edge: &Edge, culprit: &Thread, case: &Case<'_>, graph: &Graph) -> Finding {
    let (waiter, owner, object) = (case.label(edge.waiter), case.label(edge.holder), case.object(edge.object));
    let (confidence, mut detractors) = case.cap(Confidence::Hint);
    detractors.push("one moment does not show how long it lasts: `inversions` has what the events show".to_owned());
    let priority = |address| {
        case.thread(address).and_then(|t| t.priority).map_or_else(String::new, |p| format!(" (priority {p})"))
    };
    let (name, behind) = (culprit.label(), graph.behind(&[edge.holder]));
    Finding {
        code: Code::PriorityInversion,
        claim: format!(
            "{waiter}{} waits for {object}, which {owner}{} owns; {name}{} runs and keeps {owner} from running",
            priority(edge.waiter),
            priority(edge.holder),
            priority(culprit.address)
        ),
        confidence,
        detractors,
        evidence: vec![
            Evidence::memory(edge.object, format!("{object}: its owner is {owner}")),
            Evidence::memory(edge.holder, format!("{owner}: ready, and does not run")),
            Evidence::memory(culprit.address, format!("{name}: runs")),
        ],
        explains: behind.iter().filter(|t| **t != edge.waiter).filter_map(|t| waits(*t, case, graph)).collect(),
        next: "create the mutex with TX_INHERIT, or make what runs in between shorter".to_owned(),
        threads: vec![edge.waiter, edge.holder],
        behind,
    }
}
