//! A queue that is full, with senders that wait, while the only thread that takes from it waits for something else, is
//! suspended, or has ended. Where it is known who has what that thread waits for, the cause is there. A queue is often full
//! for a moment: it is likely only where the trace shows that both waits last far longer than usual.

use super::super::graph::Graph;
use super::super::state::Task;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::words::{shows, waiting};
use crate::abi::Addr;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    full(graph).into_iter().filter_map(|queue| finding(queue, case, graph)).collect()
}

/// Queues of which no reader is known: behind the waits that may keep it from reading.
pub(super) fn unread(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let all = full(graph);
    let unknown: Vec<Addr> = all.into_iter().filter(|queue| finding(*queue, case, graph).is_none()).collect();
    let found: Vec<Finding> = unknown.iter().filter_map(|queue| nobody(*queue, case, graph)).collect();
    if found.is_empty() { crossed(&unknown, case, graph).into_iter().collect() } else { found }
}

/// Several queues are full, and all who send to them wait for ever: each may be the reader of another.
fn crossed(queues: &[Addr], case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let known = |queue: &Addr| case.events.is_some_and(|events| !events.takers(*queue).is_empty());
    if queues.len() < 2 || queues.iter().any(known) {
        return None;
    }
    let senders: Vec<&Task> = queues.iter().flat_map(|queue| graph.tasks.waiting(*queue)).collect();
    if !senders.iter().all(|task| task.wait.is_some_and(|wait| wait.forever)) {
        return None;
    }
    let (confidence, mut detractors) = case.cap(Confidence::Hint);
    detractors.push("one moment does not show how long it lasts, nor who reads these queues".to_owned());
    let pairs = || senders.iter().filter_map(|task| Some((task.address, task.wait?.object)));
    let waits = pairs().map(|(at, queue)| format!("{} waits for room in {}", case.label(at), case.object(queue)));
    let threads: Vec<Addr> = senders.iter().map(|task| task.address).collect();
    let waits: Vec<String> = waits.collect();
    Some(Finding {
        code: Code::QueueFull,
        claim: format!("{}: no thread is seen that would read", waits.join("; ")),
        confidence,
        detractors,
        evidence: pairs().map(|(at, queue)| waiting(at, queue, case, graph)).collect(),
        explains: Vec::new(),
        next: "check whether each of them is the reader of the other's queue".to_owned(),
        behind: graph.behind(&threads),
        threads,
    })
}

/// Queues into which a thread waits to put a message.
fn full(graph: &Graph) -> Vec<Addr> {
    let mut queues: Vec<Addr> = graph
        .tasks
        .list
        .iter()
        .filter_map(|task| task.wait.filter(|wait| wait.sends))
        .map(|wait| wait.object)
        .collect();
    queues.sort_unstable();
    queues.dedup();
    queues
}

/// The trace shows no thread that takes from it, for long.
fn nobody(queue: Addr, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let events = case.events.filter(|events| events.takers(queue).is_empty())?;
    let sender = graph.tasks.waiting(queue).find(|task| task.wait.is_some_and(|wait| wait.forever))?;
    if !events.is_long(sender.address, queue) {
        return None;
    }
    let (name, label) = (case.label(sender.address), case.object(queue));
    let (confidence, mut detractors) = case.cap(Confidence::Hint);
    detractors.push("it rests on what the trace does not show".to_owned());
    let behind = graph.behind(&[sender.address]);
    Some(Finding {
        code: Code::QueueFull,
        claim: format!("{label} is full: {name} waits for room, and no event takes from it"),
        confidence,
        detractors,
        evidence: vec![waiting(sender.address, queue, case, graph)],
        explains: Vec::new(),
        next: format!("find out which thread reads {label}, and what it waits for (`threads --bt`)"),
        threads: vec![sender.address],
        behind,
    })
}

/// The only thread that was seen to take from a queue.
fn reader<'g>(queue: Addr, case: &Case<'_>, graph: &'g Graph) -> Option<&'g Task> {
    let takers = case.events?.takers(queue);
    let only = takers.first().filter(|_| takers.len() == 1)?;
    graph.stored(case, *only)
}

fn finding(queue: Addr, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let events = case.events?;
    let reader = reader(queue, case, graph)?;
    let senders: Vec<Addr> = graph.tasks.waiting(queue).map(|task| task.address).collect();
    let name = reader.address;
    let called = case.label(name);
    let (why, proof, claimed, next) = match (reader.wait.filter(|wait| wait.object != queue), reader.does.gone()) {
        (Some(wait), _) if wait.forever && graph.wait(name).is_none() => {
            let long = events.is_long(name, wait.object) && senders.iter().any(|s| events.is_long(*s, queue));
            let of = case.object(wait.object);
            let proof = waiting(name, wait.object, case, graph);
            let claimed = if long { Confidence::Likely } else { Confidence::Hint };
            (format!("waits for {of}"), proof, claimed, format!("find out who was to wake {called}"))
        }
        (None, Some(gone)) => {
            let proof = shows(name, format!("{called}: {gone}"), graph);
            (gone.to_owned(), proof, Confidence::Likely, format!("find out why {called} {gone}"))
        }
        _ => return None,
    };
    let (confidence, mut detractors) = case.cap(claimed);
    detractors.push("that no other thread reads the queue is inferred from events".to_owned());
    let label = case.object(queue);
    let waits = |sender: &Addr| format!("{} waits for room in {label}", case.label(*sender));
    let full = case
        .kernel
        .and_then(|kernel| kernel.object(queue))
        .map(|object| Evidence::memory(queue, format!("{label}: {}", object.state(&|_| String::new()))));
    let mut threads = vec![name];
    threads.extend(&senders);
    let behind = graph.behind(&[name]);
    Some(Finding {
        code: Code::QueueFull,
        claim: format!("{label} is full: {called}, which reads it, {why}"),
        confidence,
        detractors,
        evidence: full
            .into_iter()
            .chain([proof])
            .chain(senders.first().map(|s| waiting(*s, queue, case, graph)))
            .collect(),
        explains: senders.iter().map(waits).collect(),
        next,
        behind,
        threads,
    })
}
