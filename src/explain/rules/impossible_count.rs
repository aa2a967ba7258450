//! A queue that counts more messages than it has room for, by the trace alone: its registry has the size of the queue
//! (`tx_queue_create`), and each call records what the queue counts. The member of its control block was overwritten.
//!
//! Against it: where only one event shows it, that event may be damaged.

use super::super::events::Overcount;
use super::super::graph::Graph;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use crate::abi::Addr;

pub(super) fn find(case: &Case<'_>, _: &Graph) -> Vec<Finding> {
    // Memory shows more: the control block itself.
    let Some(events) = case.events.filter(|_| case.kernel.is_none()) else { return Vec::new() };
    let over = |queue: Addr| events.overcount(queue).map(|over| finding(queue, over, case));
    events.objects().filter_map(|(queue, _)| over(queue)).collect()
}

fn finding(queue: Addr, over: Overcount, case: &Case<'_>) -> Finding {
    let Overcount { room, before, first: (seq, held), times, time } = over;
    let label = case.object(queue);
    let since = before.map_or_else(String::new, |(before, _)| format!(" between events {before} and {seq}"));
    let is_time = time.map_or_else(String::new, |(thread, read)| {
        format!("; {held} is the time that {} reads in event {read}: it may have stored it there", case.label(thread))
    });
    let claimed = if times > 1 { Confidence::Likely } else { Confidence::Hint };
    let claim = format!(
        "{label} counts {held} messages and has room for {room}: its control block was overwritten \
         (tx_queue_enqueued){since}{is_time}"
    );
    let read = |(thread, seq)| Evidence::event(seq, format!("{} reads the time: {held}", case.label(thread)));
    Finding::new(Code::CorruptControlBlock, case.cap(claimed), claim)
        .against((times == 1).then_some("one event alone shows it, which may be damaged"))
        .against(["what the queue has room for is known from the registry of the trace alone"])
        .evidence(before.map(|(seq, held)| Evidence::event(seq, format!("{label} counts {held} messages"))))
        .evidence(time.map(read))
        .evidence([Evidence::event(seq, format!("{label} counts {held} messages, but has room for {room}"))])
        .explains([format!("who reads {label} gets messages that nobody sent, or that were read before")])
        .next("look at what runs between these events (`list`), and at what lies in front of the control block in the ELF: a write past the end of an array")
        .affected([queue])
}
