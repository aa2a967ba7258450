//! A wait with a time-out that is too short: again and again what was waited for comes soon after it, as where the time is computed in
//! another unit than the kernel's ticks. Or the thread has repeated its request meanwhile, and waits again: the answer to the first one
//! ends that wait, and the one to the repeated one comes too late, too.
//!
//! Against it: a device may be slower than it should be, and a thread may make several requests at once on purpose.

use super::super::events::Repeated;
use super::super::graph::Graph;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::words::in_kernel_ticks;
use crate::abi::Addr;
use crate::trace::many;

/// So often it came too late.
const OFTEN: u64 = 3;
/// So often a request was repeated.
const ROUNDS: u64 = 5;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let Some(events) = case.events.filter(|events| events.has_clock && !events.counts_events()) else {
        return Vec::new();
    };
    let often = events.objects().filter(|(_, one)| one.late.times >= OFTEN);
    let late = often.filter_map(|(object, _)| finding(object, case, graph));
    // It goes on.
    let is_new = |one: &Repeated| one.seqs.1 >= events.recent();
    let repeated = events.repeated.iter().filter(|(_, one)| one.times >= ROUNDS && is_new(one));
    late.chain(repeated.filter_map(|(thread, one)| repeats(thread, &one, case, graph))).collect()
}

/// A thread that repeats its requests before their answers come.
fn repeats(thread: Addr, one: &Repeated, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let task = graph.stored(case, thread)?;
    let label = |stored: Addr| case.object(own(stored, case));
    let (name, answers, requests) = (case.label(task.address), label(one.answers), label(one.requests));
    let in_kernel = in_kernel_ticks(&[one.waited, one.delay], case);
    let times = many(one.times, "time", "times");
    let claim = format!(
        "{name} waits for {answers} for too short a time, and asks again before anything comes: {times} something came to {answers} only \
         after {name} had given something to {requests} again, and before anybody took that; the waits lasted {} ticks of the trace, and \
         something came at most {} ticks after the time-out{in_kernel}",
        one.waited, one.delay
    );
    let taken = |seq: u64| {
        Evidence::event(seq, format!("what {name} gave to {requests} is taken here, after something came to {answers}"))
    };
    let (first, last) = one.seqs;
    Some(
        Finding::new(Code::Livelock, case.cap(Confidence::Hint), claim)
            .against(["what it gives may be no request, or it may make several requests at once on purpose"])
            .evidence([taken(first), taken(last)])
            .next(format!(
                "give {name} a longer time to wait for {answers}, and let it take what is left there before it asks again"
            ))
            .affected(graph.waiters(&[task.address]))
            .threads([task.address]),
    )
}

/// The address of an object, as the kernel has it.
fn own(stored: Addr, case: &Case<'_>) -> Addr {
    let mut objects = case.kernel.into_iter().flat_map(|kernel| &kernel.objects).map(|object| object.address);
    let is_it = |address: &Addr| case.events.is_some_and(|events| events.is(*address, stored));
    objects.find(is_it).unwrap_or(stored)
}

fn finding(stored: Addr, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let events = case.events?;
    let late = events.object(stored)?.late;
    let task = graph.stored(case, late.thread?)?;
    let (name, label, times) =
        (case.label(task.address), case.object(own(stored, case)), many(late.times, "time", "times"));
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
