//! Threads that wait for each other in a circle. From memory alone it is proven: each waits for ever for a mutex that the
//! next one owns. Where the holder of a semaphore or of the blocks of a pool, who sets event flags, who reads a full queue, who
//! sends to an empty one, or who puts a semaphore is inferred from events it is likely. A thread that waits for room in the full
//! queue that it alone reads is a circle of one. A wait that ends by itself breaks the circle: none is claimed.
//!
//! A client waits for its server's reply while the server waits for the message of a device: healthy, and the events of the
//! device may be older than the trace. So a circle of messages alone has to last far longer than waits for them did, even where
//! no thread goes on, and it is likely only where the trace has all events since it began: an interrupt, a callback or another
//! thread that gave once is enough against it. With a mutex in the circle it is likely where the waits are long. Else, and
//! where the one who gives was seen to a few times only, it is a hint. A circle of a semaphore and messages without a lock is a
//! lost credit: see the rule for semaphores.

use super::super::graph::{Edge, Graph, How};
use super::super::{Case, Code, Confidence, Finding};
use super::words::{holds, waiting};
use crate::kernel::Kind;

/// Who gave so often is taken for the one who gives.
const OFTEN: u64 = 8;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let circles = graph.circles();
    let stays = |edge: &Edge| !edge.is_timed || is_silent(edge, case, graph);
    let is_forever = |circle: &&Vec<Edge>| circle.iter().all(stays) && lasts(circle, case);
    circles.iter().filter(is_forever).map(|c| finding(c, case, graph)).collect()
}

/// True for a long wait for event flags of which only a trace is known: its event does not say whether a time-out ends it.
fn is_silent(edge: &Edge, case: &Case<'_>, graph: &Graph) -> bool {
    let is_for_flags =
        graph.tasks.at(edge.waiter).and_then(|task| task.wait).is_some_and(|w| w.kind == Kind::EventFlags);
    let is_long = case.events.is_some_and(|events| events.is_long(edge.waiter, edge.object));
    edge.is_timed && is_for_flags && is_long && case.kernel.is_none()
}

/// True where the circle holds by a mutex, or the waits for messages in it are long.
fn lasts(circle: &[Edge], case: &Case<'_>) -> bool {
    has_mutex(circle) || circle.iter().all(|edge| edge.how != How::Puts && is_long(edge, case))
}

fn has_mutex(circle: &[Edge]) -> bool {
    circle.iter().any(|edge| edge.how == How::Owns)
}

/// True for a wait for what somebody gives that is long, and for all others.
fn is_long(edge: &Edge, case: &Case<'_>) -> bool {
    let is_gift = matches!(edge.how, How::Sends | How::Puts);
    !is_gift || case.events.is_some_and(|events| events.is_long(edge.waiter, edge.object))
}

/// Why somebody else may still give what the circle waits for.
fn doubts(circle: &[Edge], case: &Case<'_>, graph: &Graph) -> Vec<String> {
    let mut doubts: Vec<String> = circle
        .iter()
        .filter_map(|edge| {
            let times = seldom(edge, case)?;
            let (holder, object) = (case.label(edge.holder), case.object(edge.object));
            Some(format!("events of {holder} with {object} in the trace: only {times}"))
        })
        .collect();
    let waits = circle.iter().filter(|edge| !is_long(edge, case));
    doubts.extend(waits.map(|edge| format!("the wait for {} is not longer than usual", case.object(edge.object))));
    let silent = circle.iter().filter(|edge| is_silent(edge, case, graph));
    doubts.extend(silent.map(|edge| {
        format!("no event shows whether {} waits with a time-out for event flags", case.label(edge.waiter))
    }));
    let is_whole = case.events.is_some_and(|events| events.is_whole);
    if !is_whole && !has_mutex(circle) && circle.iter().any(|edge| edge.how == How::Sends) {
        doubts.push("an interrupt or another thread may have sent before the oldest event of the trace".to_owned());
    }
    doubts
}

/// How often the one who alone gives was seen to, where that was seldom.
fn seldom(edge: &Edge, case: &Case<'_>) -> Option<u64> {
    let one = case.events?.object(edge.object)?;
    let times = match edge.how {
        How::Sends | How::Puts => one.givers.values().map(|given| given.times).sum(),
        How::Reads if edge.holder == edge.waiter => one.asks,
        _ => return None,
    };
    (times < OFTEN).then_some(times)
}

/// True where the holder is inferred: a semaphore has no owner in memory.
fn is_inferred(edge: &Edge, graph: &Graph) -> bool {
    let wait = graph.tasks.at(edge.waiter).and_then(|task| task.wait);
    wait.is_none_or(|wait| wait.kind != Kind::Mutex)
}

fn finding(circle: &[Edge], case: &Case<'_>, graph: &Graph) -> Finding {
    let inferred: Vec<&Edge> = circle.iter().filter(|edge| is_inferred(edge, graph)).collect();
    let doubts = doubts(circle, case, graph);
    let claimed = match (inferred.is_empty(), doubts.is_empty()) {
        (true, _) => Confidence::Proven,
        (_, true) => Confidence::Likely,
        _ => Confidence::Hint,
    };
    let threads: Vec<u64> = circle.iter().map(|edge| edge.waiter).collect();
    let evidence = |edge: &Edge| [waiting(edge.waiter, edge.object, case, graph), holds(edge, case)];
    Finding::new(
        Code::Deadlock,
        case.cap(claimed),
        circle.iter().map(|edge| step(edge, case)).collect::<Vec<_>>().join("; "),
    )
    .against(inferred.iter().map(|edge| {
        let (holder, object) = (case.label(edge.holder), case.object(edge.object));
        match edge.how {
            How::Sets(_) => format!("that only {holder} sets these flags of {object} is inferred from events"),
            How::Reads => format!("that only {holder} reads {object} is inferred from events"),
            How::Sends => format!("that only {holder} sends to {object} is inferred from events"),
            How::Puts => format!("that only {holder} puts {object} is inferred from events"),
            How::HasAll => format!("that {holder} has all blocks of {object} is inferred from events"),
            How::MayHold => {
                format!("that {holder} holds {object} is inferred from its stack and the program's code")
            }
            How::Owns | How::Took => {
                format!("that {holder} holds {object} is inferred from events: a semaphore has no owner in memory")
            }
        }
    }))
    .against(doubts)
    .evidence(circle.iter().flat_map(evidence))
    .waiters(graph.waiters(&threads), 0, case, graph)
    .next(next(circle))
    .threads(threads)
}

/// `Store waits for mutex bus, which Log holds`.
fn step(edge: &Edge, case: &Case<'_>) -> String {
    let (waiter, holder) = (case.label(edge.waiter), case.label(edge.holder));
    let object = case.object(edge.object);
    match edge.how {
        How::Sets(flags) => format!("{waiter} waits for {flags:#x} of {object}, which only {holder} sets"),
        How::Reads if edge.holder == edge.waiter => {
            format!("{waiter} waits for room in {object}, which is full and which it alone reads")
        }
        How::Reads => format!("{waiter} waits for room in {object}, which only {holder} reads"),
        How::Sends => format!("{waiter} waits for a message in {object}, to which only {holder} sends"),
        How::Puts => format!("{waiter} waits for {object}, which only {holder} puts"),
        How::HasAll => format!("{waiter} waits for a block of {object}, all of which {holder} has"),
        How::Owns | How::Took | How::MayHold => format!("{waiter} waits for {object}, which {holder} holds"),
    }
}

fn next(circle: &[Edge]) -> &'static str {
    if circle.len() == 1 {
        return "do not let the thread that reads a queue wait to send to it: send without a wait, or keep the message";
    }
    if circle.iter().all(|edge| edge.how == How::Sends) {
        return "a message was lost, or was never sent: wait for a reply with a time-out, and look for a path that does not answer";
    }
    if circle.iter().any(|edge| edge.how.is_alone()) {
        return "let none of them wait before it has done what the other waits for, nor while it holds a lock that the other needs";
    }
    if circle.iter().any(|edge| edge.how == How::HasAll) {
        return "do not wait for memory while holding the lock, nor for the lock while holding memory that others wait for";
    }
    "take the locks in the same order everywhere; `threads --bt` shows where each was taken"
}
