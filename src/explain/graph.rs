//! Who waits for whom.

use super::Case;
use crate::abi::Addr;
use crate::kernel::{Kernel, Kind, Thread};

/// A thread that waits for what another has to give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge {
    /// Who waits.
    pub waiter: Addr,
    /// For what.
    pub object: Addr,
    /// Who has it, or has to act on it.
    pub holder: Addr,
    /// The event that shows that; `None` where memory does.
    pub seq: Option<u64>,
    /// It waits for a time at most, or that is not known.
    pub is_timed: bool,
}

/// The waits of one moment: at most one for each thread.
#[derive(Debug, Default)]
pub struct Graph {
    /// Them.
    pub edges: Vec<Edge>,
}

impl Graph {
    /// The waits whose holder is known.
    pub fn of(case: &Case<'_>) -> Self {
        let Some(kernel) = case.kernel else { return Self::default() };
        Self { edges: kernel.threads.iter().filter_map(|thread| edge(thread, kernel, case)).collect() }
    }

    /// The wait of a thread.
    pub fn wait(&self, thread: Addr) -> Option<&Edge> {
        self.edges.iter().find(|edge| edge.waiter == thread)
    }

    /// The threads that wait for these, for those that do, and so on.
    pub fn behind(&self, of: &[Addr]) -> Vec<Addr> {
        let mut found: Vec<Addr> = of.to_vec();
        let mut at = 0usize;
        while let Some(holder) = found.get(at).copied() {
            at = at.saturating_add(1);
            for edge in self.edges.iter().filter(|edge| edge.holder == holder) {
                if !found.contains(&edge.waiter) {
                    found.push(edge.waiter);
                }
            }
        }
        found.split_off(of.len().min(found.len()))
    }

    /// Circles of waits of several threads, each once.
    pub fn circles(&self) -> Vec<Vec<Edge>> {
        let mut circles: Vec<Vec<Edge>> = Vec::new();
        for start in &self.edges {
            let mut path = vec![*start];
            while let Some(next) = path.last().and_then(|edge| self.wait(edge.holder)) {
                if next.waiter == start.waiter {
                    // The circle is counted at its lowest address.
                    if path.len() > 1 && path.iter().all(|edge| edge.waiter >= start.waiter) {
                        circles.push(path);
                    }
                    break;
                }
                if path.iter().any(|edge| edge.waiter == next.waiter) {
                    break;
                }
                path.push(*next);
            }
        }
        circles
    }
}

fn edge(thread: &Thread, kernel: &Kernel, case: &Case<'_>) -> Option<Edge> {
    let wait = thread.waits.as_ref()?;
    let is_timed = thread.timed != Some(false);
    let edge = |holder, seq| Edge { waiter: thread.address, object: wait.address, holder, seq, is_timed };
    let own = |stored| kernel.threads.iter().find(|t| case.events.is_some_and(|e| e.is(t.address, stored)));
    match wait.kind {
        Kind::Mutex => wait.owner.map(|owner| edge(owner, None)),
        Kind::Semaphore => {
            let taken = case.events?.holder(wait.address)?;
            Some(edge(own(taken.thread)?.address, Some(taken.seq)))
        }
        _ => None,
    }
}
