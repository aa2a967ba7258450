//! Threads that wait for each other in a circle. From memory alone it is proven: each waits for ever for a mutex that the
//! next one owns. Where the holder of a semaphore, or who sets event flags, is inferred from events it is likely. A wait that ends by itself breaks the
//! circle: none is claimed.

use super::super::graph::{Edge, Graph};
use super::super::{Case, Code, Confidence, Finding};
use super::words::{behind, holds, waiting};
use crate::kernel::Kind;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let circles = graph.circles();
    circles.iter().filter(|circle| circle.iter().all(|edge| !edge.is_timed)).map(|c| finding(c, case, graph)).collect()
}

/// True where the holder is inferred: a semaphore has no owner in memory.
fn is_inferred(edge: &Edge, graph: &Graph) -> bool {
    let wait = graph.tasks.at(edge.waiter).and_then(|task| task.wait);
    wait.is_none_or(|wait| wait.kind != Kind::Mutex)
}

fn finding(circle: &[Edge], case: &Case<'_>, graph: &Graph) -> Finding {
    let inferred: Vec<&Edge> = circle.iter().filter(|edge| is_inferred(edge, graph)).collect();
    let claimed = if inferred.is_empty() { Confidence::Proven } else { Confidence::Likely };
    let (confidence, mut detractors) = case.cap(claimed);
    detractors.extend(inferred.iter().map(|edge| {
        let (holder, object) = (case.label(edge.holder), case.object(edge.object));
        if edge.flags.is_some() {
            return format!("that only {holder} sets these flags of {object} is inferred from events");
        }
        format!("that {holder} holds {object} is inferred from events: a semaphore has no owner in memory")
    }));
    let threads: Vec<u64> = circle.iter().map(|edge| edge.waiter).collect();
    let others = graph.behind(&threads);
    let step = |edge: &Edge| {
        let (waiter, holder) = (case.label(edge.waiter), case.label(edge.holder));
        if let Some(flags) = edge.flags {
            return format!("{waiter} waits for {flags:#x} of {}, which only {holder} sets", case.object(edge.object));
        }
        format!("{waiter} waits for {}, which {holder} holds", case.object(edge.object))
    };
    let evidence = |edge: &Edge| [waiting(edge.waiter, edge.object, case, graph), holds(edge, case)];
    Finding {
        code: Code::Deadlock,
        claim: circle.iter().map(step).collect::<Vec<_>>().join("; "),
        confidence,
        detractors,
        evidence: circle.iter().flat_map(evidence).collect(),
        explains: behind(&others, 0, case, graph),
        next: if circle.iter().any(|edge| edge.flags.is_some()) {
            "let none of them wait before it has set what the other waits for, nor with a lock in hand that the other needs"
        } else {
            "take the locks in the same order everywhere; `threads --bt` shows where each was taken"
        }
        .to_owned(),
        threads,
        behind: others,
    }
}
