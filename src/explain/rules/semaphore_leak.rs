//! A semaphore that is used as a lock, and was not given back by a path of a thread that goes on: it waits for the semaphore
//! again itself, or has blocked many times since it took it while others wait. Semaphores that are given by interrupts, or by
//! threads that do not take them, are no locks.

use super::super::graph::{Edge, Graph};
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::words::{NO_OWNER, behind, waiting};

/// A holder that blocked so often since it took the semaphore has gone on without it.
const OFTEN: u64 = 4;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let mut found: Vec<Finding> = Vec::new();
    for edge in graph.edges.iter().filter(|edge| !edge.is_timed) {
        if !found.iter().any(|f| f.threads.first() == Some(&edge.holder)) {
            found.extend(finding(edge, case, graph));
        }
    }
    found
}

fn finding(edge: &Edge, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let events = case.events?;
    let one = events.object(edge.object)?;
    let taken = *one.held.iter().find(|taken| Some(taken.seq) == edge.seq)?;
    let (object, holder) = (case.object(edge.object), case.label(edge.holder));
    let activity = events.activity(edge.holder)?;
    let since = activity.blocks.saturating_sub(taken.blocks);
    let held = events.span.1.saturating_sub(taken.at);
    let itself = edge.waiter == edge.holder;
    if !itself {
        let gone = graph.tasks.at(edge.holder).is_none_or(|task| task.does.gone().is_some());
        if gone || since < OFTEN || held / 8 < one.longest_hold {
            return None;
        }
    }
    let (confidence, mut detractors) = case.cap(Confidence::Likely);
    detractors.push(NO_OWNER.to_owned());
    let others = graph.behind(&[edge.holder]);
    let waiter = case.label(edge.waiter);
    let claim = if itself {
        format!("{holder} waits for {object}, which it took itself and did not give back")
    } else {
        format!("{waiter} waits for {object}, which {holder} took and did not give back; {holder} has gone on since")
    };
    let mut evidence = vec![Evidence::event(taken.seq, format!("{holder} takes {object}, and no event gives it back"))];
    if !itself {
        evidence.push(Evidence::event(taken.seq, format!("{holder} has blocked {since} times since")));
    }
    evidence.push(waiting(edge.waiter, edge.object, case, graph));
    Some(Finding {
        code: Code::SemaphoreLeak,
        claim,
        confidence,
        detractors,
        evidence,
        explains: behind(&others, edge.waiter, case, graph),
        next: format!("look for a path of {holder} that returns without tx_semaphore_put"),
        threads: vec![edge.holder, edge.waiter],
        behind: others,
    })
}
