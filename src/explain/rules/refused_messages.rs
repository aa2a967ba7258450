//! A full queue refuses messages whose sender does not wait, while the only thread that reads it waits for something else, or sleeps. Where
//! that wait is over, nothing else shows it: the messages are missing, and the program may notice that much later.
//!
//! Against it: the program may send again, or need no message. So it is a hint, and comes after others.

use super::super::events::{Reader, Refusals};
use super::super::graph::Graph;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::queue_full::BY_EVENTS;
use super::wrong_mask::giver;
use crate::abi::Addr;
use crate::kernel::Kind;
use crate::trace::many;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let Some(events) = case.events else { return Vec::new() };
    let queues = events.objects().filter(|(queue, _)| events.kind(*queue) == Some(Kind::Queue));
    let refused = queues.filter_map(|(queue, one)| Some((queue, one.refusals?)));
    refused.filter_map(|(queue, refusals)| finding(queue, refusals, refusals.reader?, case, graph)).collect()
}

fn finding(queue: Addr, refusals: Refusals, reader: Reader, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let full = |stored: Addr| graph.stored(case, stored).map_or(stored, |task| task.address);
    let thread = full(reader.thread);
    // A wait that is not over is found by itself.
    let waits_still = |object: Addr| {
        let wait = graph.tasks.at(thread).and_then(|task| task.wait);
        wait.is_some_and(|wait| case.events.is_some_and(|events| events.is(wait.object, object)))
    };
    if reader.object.is_some_and(waits_still) {
        return None;
    }
    let objects = || case.kernel.into_iter().flat_map(|kernel| &kernel.objects);
    let of_kernel =
        |stored: Addr| objects().map(|o| o.address).find(|at| case.events.is_some_and(|e| e.is(*at, stored)));
    let named = |stored: Addr| case.object(of_kernel(stored).unwrap_or(stored));
    let (name, label) = (case.label(thread), named(queue));
    let (by, seq) = (giver(refusals.first.0, case, graph), refusals.first.1);
    let does = match (reader.object, reader.owner) {
        (Some(object), Some((owner, sleeps))) => {
            let sleeping = if sleeps { ", and which slept" } else { "" };
            format!("waited for {}, which {} had{sleeping}", named(object), case.label(full(owner)))
        }
        (Some(object), None) => format!("waited for {}", named(object)),
        (None, _) => "slept".to_owned(),
    };
    let claim = format!(
        "{label} was full ({}) and refused {}, the first of {by}; {name}, which alone reads it, {does} then",
        many(refusals.capacity, "message", "messages"),
        many(refusals.times, "message", "messages"),
    );
    let next = match (reader.object, reader.owner) {
        (Some(object), Some((owner, true))) => {
            format!(
                "do not let {} sleep while it has {}; check what the send returns",
                case.label(full(owner)),
                named(object)
            )
        }
        _ => format!("compare the size of {label} with the time that {name} is away; check what the send returns"),
    };
    Some(
        Finding::new(Code::QueueFull, case.cap(Confidence::Hint), claim)
            .against([BY_EVENTS, "the program may send it again, or do without it"])
            .evidence([Evidence::event(seq, format!("{by} sends to {label} without a wait, and it is full"))])
            .next(next)
            .usual(true)
            .threads([thread]),
    )
}
