//! A wait with a time-out that is too short: again and again what was waited for comes soon after it, as where the time is computed in
//! another unit than the kernel's ticks.
//!
//! Against it: a device may be slower than it should be.

use super::super::graph::Graph;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::words::in_kernel_ticks;
use crate::abi::Addr;
use crate::trace::many;

/// So often it came too late.
const OFTEN: u64 = 3;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let Some(events) = case.events.filter(|events| events.has_clock && !events.counts_events()) else {
        return Vec::new();
    };
    let often = events.objects().filter(|(_, one)| one.late.times >= OFTEN);
    often.filter_map(|(object, _)| finding(object, case, graph)).collect()
}

fn finding(stored: Addr, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let events = case.events?;
    let late = events.object(stored)?.late;
    let task = graph.stored(case, late.thread?)?;
    let mut objects = case.kernel.into_iter().flat_map(|kernel| &kernel.objects).map(|object| object.address);
    let object = objects.find(|address| events.is(*address, stored)).unwrap_or(stored);
    let (name, label, times) = (case.label(task.address), case.object(object), many(late.times, "time", "times"));
    let in_kernel = in_kernel_ticks(&[late.waited, late.delay], case);
    let claim = format!(
        "{name} waits for {label} for too short a time: {times} it was given soon after the wait had ended by a time-out; the waits lasted \
         {} ticks of the trace, and it came {} later at most{in_kernel}",
        late.waited, late.delay
    );
    let given = |seq: u64| Evidence::event(seq, format!("{label} is given, and {name} has given up waiting"));
    let (first, last) = late.seqs;
    Some(
        Finding::new(Code::EventNeverSet, case.cap(Confidence::Hint), claim)
            .against(["the device may be slower than it should be"])
            .evidence([given(first), given(last)])
            .next(format!(
                "look at the time with which {name} waits for {label}: its unit, and TX_TIMER_TICKS_PER_SECOND"
            ))
            .affected(graph.waiters(&[task.address]))
            .threads([task.address]),
    )
}
