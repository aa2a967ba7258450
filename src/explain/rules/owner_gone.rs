//! A lock whose holder cannot give it back: the owner of a mutex is suspended, or the thread that took a semaphore, used as a
//! lock, is suspended or has ended. A thread that ends gives its mutexes back (the kernel does that), so only a suspended
//! owner of a mutex is looked for.

use super::super::graph::{Edge, Graph};
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::deadlock::waits;
use crate::kernel::State;

const COMPLETED: State = State(1);
const TERMINATED: State = State(2);
const SUSPENDED: State = State(3);

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let mut found: Vec<Finding> = Vec::new();
    for edge in graph.edges.iter().filter(|edge| !edge.is_timed) {
        let Some(state) = case.thread(edge.holder).and_then(|holder| holder.state) else { continue };
        let is_gone = state == SUSPENDED || edge.seq.is_some() && [COMPLETED, TERMINATED].contains(&state);
        let is_known = found.iter().any(|f| f.threads.first() == Some(&edge.holder));
        if is_gone && !is_known {
            found.push(finding(edge, state, case, graph));
        }
    }
    found
}

fn finding(edge: &Edge, state: State, case: &Case<'_>, graph: &Graph) -> Finding {
    let (waiter, holder, object) = (case.label(edge.waiter), case.label(edge.holder), case.object(edge.object));
    let claimed = if edge.seq.is_some() { Confidence::Likely } else { Confidence::Proven };
    let (confidence, mut detractors) = case.cap(claimed);
    let is = match state {
        SUSPENDED => "is suspended",
        COMPLETED => "has completed",
        _ => "was terminated",
    };
    let has = match edge.seq {
        Some(seq) => {
            detractors.push("a semaphore has no owner in memory: who took it is inferred from events".to_owned());
            Evidence::event(seq, format!("{holder} takes {object}, and no event gives it back"))
        }
        None => Evidence::memory(edge.object, format!("{object}: its owner is {holder}")),
    };
    let behind = graph.behind(&[edge.holder]);
    let next = match state {
        SUSPENDED => "find out who suspends it (tx_thread_suspend), and why it is not resumed",
        _ => "give the semaphore back on every path of this thread",
    };
    Finding {
        code: Code::LockOwnerGone,
        claim: format!("{waiter} waits for {object}, which {holder} holds; {holder} {is}"),
        confidence,
        detractors,
        evidence: vec![
            Evidence::memory(edge.waiter, format!("{waiter}: waits for {object}, without a time-out")),
            has,
            Evidence::memory(edge.holder, format!("{holder}: {}", state.name())),
        ],
        explains: behind.iter().filter(|t| **t != edge.waiter).filter_map(|t| waits(*t, case, graph)).collect(),
        next: next.to_owned(),
        threads: vec![edge.holder, edge.waiter],
        behind,
    }
}
