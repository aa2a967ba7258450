//! A thread that waits for a semaphore that it has itself: used as a lock, a path of this thread did not give it back.

use super::super::graph::{Edge, Graph};
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::deadlock::waits;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let own = graph.edges.iter().filter(|edge| edge.waiter == edge.holder && !edge.is_timed);
    own.filter_map(|edge| Some(finding(edge, edge.seq?, case, graph))).collect()
}

fn finding(edge: &Edge, seq: u64, case: &Case<'_>, graph: &Graph) -> Finding {
    let (thread, object) = (case.label(edge.waiter), case.object(edge.object));
    let (confidence, mut detractors) = case.cap(Confidence::Likely);
    detractors.push("a semaphore has no owner in memory: who took it is inferred from events".to_owned());
    let behind = graph.behind(&[edge.waiter]);
    Finding {
        code: Code::SemaphoreLeak,
        claim: format!("{thread} waits for {object}, which it took itself and did not give back"),
        confidence,
        detractors,
        evidence: vec![
            Evidence::event(seq, format!("{thread} takes {object}, and no event gives it back")),
            Evidence::memory(edge.waiter, format!("{thread}: waits for {object}, without a time-out")),
        ],
        explains: behind.iter().filter_map(|t| waits(*t, case, graph)).collect(),
        next: format!("look for a path of {thread} that returns without tx_semaphore_put"),
        threads: vec![edge.waiter],
        behind,
    }
}
