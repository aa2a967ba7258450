//! A lock whose holder cannot give it back: the owner of a mutex is suspended, or the thread that took a semaphore, used as a
//! lock, is suspended or has ended. A thread that ends gives its mutexes back (the kernel does that), so only a suspended
//! owner of a mutex is looked for. An owner that waits for ever itself is a cause only where that wait is far longer than
//! usual: to wait for a device with a lock in hand is a habit of healthy systems.

use super::super::graph::{Edge, Graph};
use super::super::state::Does;
use super::super::{Case, Code, Confidence, Finding};
use super::words::{NO_OWNER, behind, holds, shows, waiting};
use crate::kernel::Kind;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let mut found: Vec<Finding> = Vec::new();
    for edge in graph.edges.iter().filter(|edge| !edge.is_timed && edge.waiter != edge.holder) {
        if !found.iter().any(|f| f.threads.first() == Some(&edge.holder)) {
            found.extend(gone(edge, case, graph).or_else(|| waits_itself(edge, case, graph)));
        }
    }
    found
}

fn is_mutex(edge: &Edge, graph: &Graph) -> bool {
    graph.tasks.at(edge.waiter).and_then(|task| task.wait).is_some_and(|wait| wait.kind == Kind::Mutex)
}

/// The holder is suspended, or has ended.
fn gone(edge: &Edge, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let does = graph.tasks.at(edge.holder)?.does;
    let is = does.gone()?;
    let is_mutex = is_mutex(edge, graph);
    if is_mutex && does != Does::Suspended {
        return None;
    }
    let (waiter, holder, object) = (case.label(edge.waiter), case.label(edge.holder), case.object(edge.object));
    let (confidence, mut detractors) = case.cap(if is_mutex { Confidence::Proven } else { Confidence::Likely });
    detractors.extend((!is_mutex).then(|| NO_OWNER.to_owned()));
    let others = graph.behind(&[edge.holder]);
    let next = match does {
        Does::Suspended => "find out who suspends it (tx_thread_suspend), and why it is not resumed",
        _ => "give the semaphore back on every path of this thread",
    };
    Some(Finding {
        code: Code::LockOwnerGone,
        claim: format!("{waiter} waits for {object}, which {holder} holds; {holder} {is}"),
        confidence,
        detractors,
        evidence: vec![
            waiting(edge.waiter, edge.object, case, graph),
            holds(edge, case),
            shows(edge.holder, format!("{holder}: {is}"), graph),
        ],
        explains: behind(&others, edge.waiter, case, graph),
        next: next.to_owned(),
        threads: vec![edge.holder, edge.waiter],
        behind: others,
    })
}

/// The holder waits for ever for what nobody in sight gives.
fn waits_itself(edge: &Edge, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let wait = graph.tasks.at(edge.holder)?.wait.filter(|wait| wait.forever)?;
    let is_known = graph.wait(edge.holder).is_some() || wait.object == edge.object;
    let events = case.events.filter(|_| !is_known && !matches!(wait.kind, Kind::BlockPool | Kind::BytePool))?;
    if wait.sends || !events.is_long(edge.holder, wait.object) || !events.is_long(edge.waiter, edge.object) {
        return None;
    }
    let (waiter, holder) = (case.label(edge.waiter), case.label(edge.holder));
    let (object, other) = (case.object(edge.object), case.object(wait.object));
    let (confidence, mut detractors) = case.cap(Confidence::Likely);
    detractors.push(format!("{other} may still be given: the trace shows only that it was not, for long"));
    let others = graph.behind(&[edge.holder]);
    Some(Finding {
        code: Code::LockOwnerGone,
        claim: format!("{waiter} waits for {object}, which {holder} holds; {holder} waits for {other} with it"),
        confidence,
        detractors,
        evidence: vec![
            waiting(edge.waiter, edge.object, case, graph),
            holds(edge, case),
            waiting(edge.holder, wait.object, case, graph),
        ],
        explains: behind(&others, edge.waiter, case, graph),
        next: format!("find out who was to give {other}; do not wait for it with the lock in hand"),
        threads: vec![edge.holder, edge.waiter],
        behind: others,
    })
}
