//! From a trace alone: what is put into a queue or a semaphore and not taken out, a lock that one thread has all the time, and
//! memory that is released, or event flags that are set, and do not help who waits for them. Whoever should take, or waits, has no event in the trace: which of
//! the threads without one it is, is not known, and what they do neither. So all of this is a hint.
//!
//! Against it: messages and counts may be left on purpose, and a filter of the trace may leave out the calls that take them.

use super::super::events::{Events, One, Short, Untaken};
use super::super::graph::Graph;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::unseen::threads_without_events;
use super::wrong_mask::giver;
use crate::abi::Addr;
use crate::kernel::Kind;

/// So often something has to be put in, asked for or released.
const OFTEN: u64 = 8;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let Some(events) = case.events.filter(|_| case.kernel.is_none()) else { return Vec::new() };
    let unseen: Vec<Addr> = threads_without_events(events, graph).map(|(thread, _)| thread).collect();
    if unseen.is_empty() {
        return Vec::new();
    }
    let names = names(&unseen, case);
    let queues = events.objects().filter_map(|(queue, one)| left_in_queue(queue, one, &names, events, case, graph));
    let pools = events.objects().filter_map(|(pool, one)| never_enough(pool, one, &names, events, case, graph));
    queues.chain(pools).chain(never_given(&unseen, events, case)).collect()
}

/// `Spooler has no event`.
fn names(unseen: &[Addr], case: &Case<'_>) -> String {
    let all: Vec<String> = unseen.iter().map(|thread| case.label(*thread)).collect();
    format!("{} {} no event", all.join(", "), if all.len() == 1 { "has" } else { "have" })
}

/// True for what goes on for half of the trace at least, up to its end.
fn lasts(times: u64, first: i64, last: u64, events: &Events) -> bool {
    let is_recent = last >= events.recent();
    times >= OFTEN && is_recent && events.span.1.saturating_sub(first) >= events.length() / 2
}

/// What is put into an object all the time and not taken.
pub(super) fn untaken(one: &One, events: &Events) -> Option<Untaken> {
    one.untaken.filter(|untaken| lasts(untaken.puts, untaken.first.1, untaken.last.0, events) && one.takers.is_empty())
}

fn left_in_queue(
    queue: Addr,
    one: &One,
    unseen: &str,
    events: &Events,
    case: &Case<'_>,
    graph: &Graph,
) -> Option<Finding> {
    let untaken = untaken(one, events).filter(|_| events.kind(queue) == Some(Kind::Queue))?;
    let (label, held) = (case.object(queue), untaken.held);
    let who: Vec<String> = one.givers.keys().take(3).map(|by| giver(*by, case, graph)).collect();
    let (who, puts) = (who.join(", "), untaken.puts);
    let claim = if untaken.is_refused() {
        format!("{label} is full: {who} sent to it {puts} times, and each time it has {} messages; {unseen}", held.0)
    } else if untaken.only_grows() {
        format!("{label} only fills: {puts} messages were sent to it by {who}, and none was received; {unseen}")
    } else {
        return None;
    };
    let said = |(seq, _): (u64, i64), held: u64| Evidence::event(seq, format!("{label} has {held} messages"));
    Some(
        Finding::new(Code::QueueFull, case.cap(Confidence::Hint), claim)
            .against(["messages that nobody wants may be left there, or a filter of the trace leaves out who receives"])
            .evidence([said(untaken.first, held.0), said(untaken.last, held.1)])
            .next(format!("find out who reads {label}, and what that thread does: `threads` of a core shows it"))
            .affected(vec![queue]),
    )
}

/// Somebody waits for memory all the time, and what others release is not enough.
fn never_enough(
    pool: Addr,
    one: &One,
    unseen: &str,
    events: &Events,
    case: &Case<'_>,
    graph: &Graph,
) -> Option<Finding> {
    let short = one.short.filter(|short| lasts(short.times, short.first.1, short.last.0, events))?;
    if graph.tasks.waiting(pool).next().is_some() {
        return None;
    }
    if one.givers.values().any(|given| given.flags != 0) {
        return Some(never_met(pool, one, short, unseen, case, graph));
    }
    let (label, times, free) = (case.object(pool), short.times, short.free);
    let claim = format!(
        "a thread waits for memory of {label}, and {times} releases in a row do not give it enough, though {free} bytes \
         are free: the pool may be fragmented; {unseen}"
    );
    let said =
        |(seq, _): (u64, i64)| Evidence::event(seq, format!("memory of {label} is released, and a thread waits"));
    Some(
        Finding::new(Code::PoolEmpty, case.cap(Confidence::Hint), claim)
            .against(["it may wait for more memory than the pool ever has"])
            .evidence([said(short.first), said(short.last)])
            .next("give blocks of this size a block pool of their own, or allocate what is kept for long first")
            .affected(vec![pool]),
    )
}

/// Somebody waits for event flags all the time, and those that others set are not the ones.
fn never_met(group: Addr, one: &One, short: Short, unseen: &str, case: &Case<'_>, graph: &Graph) -> Finding {
    let (label, times) = (case.object(group), short.times);
    let sets =
        one.givers.iter().take(3).map(|(by, given)| format!("{} sets {:#x}", giver(*by, case, graph), given.flags));
    let sets = sets.collect::<Vec<_>>().join(", ");
    let claim = format!("a thread waits for {label}, and {times} sets in a row do not wake it: {sets}; {unseen}");
    let said = |(seq, _): (u64, i64)| Evidence::event(seq, format!("flags of {label} are set, and a thread waits"));
    Finding::new(Code::WrongEventMask, case.cap(Confidence::Hint), claim)
        .against(["it may wait for a flag that is set rarely, or for several together"])
        .evidence([said(short.first), said(short.last)])
        .next("compare the flags that are set with those that the thread waits for: `threads` of a core shows them")
        .affected(vec![group])
}

/// Mutexes that threads ask for and never get, as a thread without an event has them.
fn never_given(unseen: &[Addr], events: &Events, case: &Case<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for ((thread, lock), failed) in &events.tries.failed {
        let is_unseen = |owner: &Addr| unseen.iter().any(|thread| events.is(*thread, *owner));
        let Some(owner) = failed.owner.filter(is_unseen) else { continue };
        if failed.times < OFTEN || failed.seqs.1 < events.recent() {
            continue;
        }
        let (name, owner_name, object) = (case.label(*thread), case.label(owner), case.object(*lock));
        let times = failed.times;
        let claim = format!(
            "{name} asked {times} times for {object} and did not get it: {owner_name} has it all the time, and has no event"
        );
        let text = format!("{name} asks for {object}, which {owner_name} has; again up to event {}", failed.seqs.1);
        found.push(
            Finding::new(Code::LockOwnerGone, case.cap(Confidence::Hint), claim)
                .against(["a thread may keep a lock for all of its work on purpose"])
                .evidence([Evidence::event(failed.seqs.0, text)])
                .next(format!("find out what {owner_name} waits for: `threads` of a core shows it"))
                .threads([owner])
                .affected(vec![*thread]),
        );
    }
    found
}
