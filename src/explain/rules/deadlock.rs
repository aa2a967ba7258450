//! Threads that wait for each other in a circle. From memory alone it is proven: each waits for ever for a mutex that the
//! next one owns. Where the holder of a semaphore or of the blocks of a pool, who sets event flags, or who reads a full queue
//! is inferred from events it is likely. A wait that ends by itself breaks the
//! circle: none is claimed.

use super::super::graph::{Edge, Graph, How};
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
        match edge.how {
            How::Sets(_) => format!("that only {holder} sets these flags of {object} is inferred from events"),
            How::Reads => format!("that only {holder} reads {object} is inferred from events"),
            How::HasAll => format!("that {holder} has all blocks of {object} is inferred from events"),
            How::Owns | How::Took => {
                format!("that {holder} holds {object} is inferred from events: a semaphore has no owner in memory")
            }
        }
    }));
    let threads: Vec<u64> = circle.iter().map(|edge| edge.waiter).collect();
    let others = graph.behind(&threads);
    let step = |edge: &Edge| {
        let (waiter, holder) = (case.label(edge.waiter), case.label(edge.holder));
        let object = case.object(edge.object);
        match edge.how {
            How::Sets(flags) => format!("{waiter} waits for {flags:#x} of {object}, which only {holder} sets"),
            How::Reads => format!("{waiter} waits for room in {object}, which only {holder} reads"),
            How::HasAll => format!("{waiter} waits for a block of {object}, all of which {holder} has"),
            How::Owns | How::Took => format!("{waiter} waits for {object}, which {holder} holds"),
        }
    };
    let evidence = |edge: &Edge| [waiting(edge.waiter, edge.object, case, graph), holds(edge, case)];
    Finding {
        code: Code::Deadlock,
        claim: circle.iter().map(step).collect::<Vec<_>>().join("; "),
        confidence,
        detractors,
        evidence: circle.iter().flat_map(evidence).collect(),
        explains: behind(&others, 0, case, graph),
        next: next(circle).to_owned(),
        threads,
        behind: others,
    }
}

fn next(circle: &[Edge]) -> &'static str {
    if circle.iter().any(|edge| edge.how.is_alone()) {
        return "let none of them wait before it has done what the other waits for, nor with a lock in hand that the other needs";
    }
    if circle.iter().any(|edge| edge.how == How::HasAll) {
        return "wait for memory without the lock in hand, and for the lock without memory that others wait for";
    }
    "take the locks in the same order everywhere; `threads --bt` shows where each was taken"
}
