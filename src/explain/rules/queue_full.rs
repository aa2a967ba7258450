//! A queue that is full, with senders that wait, while the only thread that takes from it waits for something else. Where it is
//! known who has what that thread waits for, the cause lies there.

use super::super::graph::Graph;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use crate::kernel::{Kernel, Kind, Object};

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let Some(kernel) = case.kernel else { return Vec::new() };
    kernel.objects.iter().filter_map(|queue| finding(queue, kernel, case, graph)).collect()
}

fn finding(queue: &Object, kernel: &Kernel, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let is_full = queue.kind == Kind::Queue && queue.get("available_storage") == Some(0);
    if !is_full || queue.waiting.is_empty() {
        return None;
    }
    let events = case.events?;
    let stored = events.reader(queue.address)?;
    let reader = kernel.threads.iter().find(|thread| events.is(thread.address, stored))?;
    if graph.wait(reader.address).is_some() {
        return None;
    }
    let wait = reader.waits.as_ref().filter(|wait| wait.address != queue.address && reader.timed == Some(false))?;
    let (confidence, mut detractors) = case.cap(Confidence::Likely);
    detractors.push("that no other thread reads the queue is inferred from events".to_owned());
    let (name, of) = (reader.label(), case.object(wait.address));
    let senders: Vec<String> = queue.waiting.iter().map(|thread| case.label(*thread)).collect();
    let mut threads = vec![reader.address];
    threads.extend(&queue.waiting);
    Some(Finding {
        code: Code::QueueFull,
        claim: format!("queue {} is full: {name}, which reads it, waits for {of}", queue.label()),
        confidence,
        detractors,
        evidence: vec![
            Evidence::memory(queue.address, format!("queue {}: {}", queue.label(), queue.state(&|_| None))),
            Evidence::memory(reader.address, format!("{name}: waits for {of}, without a time-out")),
        ],
        explains: senders.iter().map(|sender| format!("{sender} waits for room in the queue")).collect(),
        next: format!("find out who was to wake {name}"),
        behind: queue.waiting.clone(),
        threads,
    })
}
