//! A queue that counts more messages than it has room for, by the trace alone: its registry has the size of the queue
//! (`tx_queue_create`), and each call records what the queue counts. The member of its control block was overwritten.
//!
//! Against it: where only one event shows it, that event may be damaged.

use super::super::events::{HadNumber, Overcount};
use super::super::graph::Graph;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::control_blocks;
use crate::abi::Addr;

pub(super) fn find(case: &Case<'_>, _: &Graph) -> Vec<Finding> {
    // Memory shows more: the control block itself.
    let Some(events) = case.events.filter(|_| case.kernel.is_none()) else { return Vec::new() };
    let over = |queue: Addr| events.overcount(queue).map(|over| finding(queue, over, case));
    events.objects().filter_map(|(queue, _)| over(queue)).collect()
}

fn finding(queue: Addr, over: Overcount, case: &Case<'_>) -> Finding {
    let Overcount { room, before, first: (seq, held), times, from } = over;
    let label = case.object(queue);
    let since = before.map_or_else(String::new, |(before, _)| format!(" between events {before} and {seq}"));
    let had = from.map(|from| had(from, held, case));
    let stored = had.as_ref().map_or_else(String::new, |(words, _)| format!("; {words}"));
    let claimed = if times > 1 { Confidence::Likely } else { Confidence::Hint };
    let claim = format!(
        "{label} counts {held} messages and has room for {room}: its control block was overwritten \
         (tx_queue_enqueued){since}{stored}"
    );
    let finding = Finding::new(Code::CorruptControlBlock, case.cap(claimed), claim)
        .against((times == 1).then_some("one event alone shows it, which may be damaged"))
        .against(["what the queue has room for is known from the registry of the trace alone"])
        .evidence(before.map(|(seq, held)| Evidence::event(seq, format!("{label} counts {held} messages"))))
        .evidence(had.map(|(_, evidence)| evidence))
        .evidence([Evidence::event(seq, format!("{label} counts {held} messages, but has room for {room}"))])
        .explains([format!("who reads {label} gets messages that nobody sent, or that were read before")])
        .next(format!(
            "look at what runs between these events (`list`), and for a write past the end of {}",
            control_blocks::writer(queue, case)
        ))
        .affected([queue]);
    control_blocks::with_writer(finding, queue, case)
}

/// Who may have stored the number there, and the event that shows that it had it.
fn had(from: HadNumber, held: u64, case: &Case<'_>) -> (String, Evidence) {
    let HadNumber { thread, seq, is_time, added_to } = from;
    let thread = case.label(thread);
    let number = held.saturating_sub(added_to);
    let (shown, words) = if is_time {
        let shown = format!("{thread} reads the time: {held}");
        (shown, format!("{held} is the time that {thread} reads in event {seq}: it may have stored it there"))
    } else {
        let how = if added_to == 0 { "written this value there" } else { "added it there" };
        (
            format!("{thread} recorded {number}"),
            format!("{thread} recorded {number} in event {seq}, and may have {how}"),
        )
    };
    (words, Evidence::event(seq, shown))
}
