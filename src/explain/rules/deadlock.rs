//! Threads that wait for each other in a circle. From memory alone it is proven: each waits for ever for a mutex that the
//! next one owns. Where the holder of a semaphore is inferred from events it is likely. A wait that ends by itself breaks the
//! circle: none is claimed.

use super::super::graph::{Edge, Graph};
use super::super::{Case, Code, Confidence, Evidence, Finding};

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let circles = graph.circles();
    circles.iter().filter(|circle| circle.iter().all(|edge| !edge.is_timed)).map(|c| finding(c, case, graph)).collect()
}

fn finding(circle: &[Edge], case: &Case<'_>, graph: &Graph) -> Finding {
    let inferred: Vec<&Edge> = circle.iter().filter(|edge| edge.seq.is_some()).collect();
    let claimed = if inferred.is_empty() { Confidence::Proven } else { Confidence::Likely };
    let (confidence, mut detractors) = case.cap(claimed);
    detractors.extend(inferred.iter().map(|edge| {
        let (holder, object) = (case.label(edge.holder), case.object(edge.object));
        format!("that {holder} holds {object} is inferred from events: a semaphore has no owner in memory")
    }));
    let threads: Vec<u64> = circle.iter().map(|edge| edge.waiter).collect();
    let behind = graph.behind(&threads);
    let step = |edge: &Edge| {
        let (waiter, holder) = (case.label(edge.waiter), case.label(edge.holder));
        format!("{waiter} waits for {}, which {holder} holds", case.object(edge.object))
    };
    Finding {
        code: Code::Deadlock,
        claim: circle.iter().map(step).collect::<Vec<_>>().join("; "),
        confidence,
        detractors,
        evidence: circle.iter().flat_map(|edge| evidence(edge, case)).collect(),
        explains: behind.iter().filter_map(|waiter| waits(*waiter, case, graph)).collect(),
        next: "take the locks in the same order everywhere; `threads --bt` shows where each was taken".to_owned(),
        threads,
        behind,
    }
}

fn evidence(edge: &Edge, case: &Case<'_>) -> [Evidence; 2] {
    let (waiter, holder) = (case.label(edge.waiter), case.label(edge.holder));
    let object = case.object(edge.object);
    let has = match edge.seq {
        Some(seq) => Evidence::event(seq, format!("{holder} takes {object}, and no event gives it back")),
        None => Evidence::memory(edge.object, format!("{object}: its owner is {holder}")),
    };
    [Evidence::memory(edge.waiter, format!("{waiter}: waits for {object}, without a time-out")), has]
}

/// What a thread behind a finding waits for.
pub(super) fn waits(waiter: u64, case: &Case<'_>, graph: &Graph) -> Option<String> {
    let edge = graph.wait(waiter)?;
    Some(format!("{} waits for {}", case.label(waiter), case.object(edge.object)))
}
