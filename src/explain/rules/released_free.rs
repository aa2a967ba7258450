//! A free block of a pool was released again.
//!
//! `tx_block_release` does not check that. It takes the word in front of a block for the address of its pool. In front of a free block
//! this word is the link to the next free block, or 0 in front of the last one. The event of the release then names something that is
//! no pool.
//!
//! Where the thread received the block's address from a queue before, and then waited for a message in vain, it may have used the old
//! message again.
//!
//! Against it: a write in front of the block has the same effect, if the block was released to its own pool since.

use std::collections::{BTreeMap, BTreeSet};

use super::super::events::{Giver, Received};
use super::super::graph::Graph;
use super::super::usage::User;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::corrupt_pool::blocks;
use super::released_twice::has_message;
use super::words::place_at;
use super::wrong_mask::giver;
use crate::abi::{Addr, Region};
use crate::kernel::{Kind, Object};

/// The most such blocks that are named.
const MOST: usize = 4;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let Some((events, kernel)) = case.events.zip(case.kernel) else { return Vec::new() };
    let known: BTreeSet<Addr> = kernel.objects.iter().map(|object| case.stored(object.address)).collect();
    let others = events.objects().filter(|(stored, _)| !known.contains(stored));
    let releases = others.flat_map(|(stored, one)| one.pool.releases_to().map(move |(start, by)| (stored, start, by)));
    let mut releases = releases.peekable();
    if releases.peek().is_none() {
        return Vec::new();
    }
    let pools = kernel.objects.iter().filter(|object| object.kind == Kind::BlockPool);
    let free: BTreeMap<Addr, &Object> =
        pools.flat_map(|pool| free(pool, case).map(move |start| (start, pool))).collect();
    let of = |(stored, start, by): (Addr, Addr, _)| {
        let pool = free.get(&start).filter(|pool| stored == 0 || is_within(stored, pool, case))?;
        Some(finding(pool, (stored, start), by, case, graph))
    };
    releases.filter_map(of).take(MOST).collect()
}

/// True for an address in the memory of a pool, as the trace stores it: that of the link to the next free block.
fn is_within(stored: Addr, pool: &Object, case: &Case<'_>) -> bool {
    let memory = pool.get("start").zip(pool.get("size"));
    memory.is_some_and(|(start, len)| Region { start: case.stored(start), len }.contains(stored))
}

/// The free blocks of a pool, as the trace stores their addresses.
fn free(pool: &Object, case: &Case<'_>) -> impl Iterator<Item = Addr> {
    let all = blocks(pool, case).map(|blocks| blocks.all).unwrap_or_default();
    let free: Vec<Addr> = all.iter().filter(|block| block.is_free).map(|block| case.stored(block.start)).collect();
    free.into_iter()
}

fn finding(
    pool: &Object,
    (taken, start): (Addr, Addr),
    (by, seq): (Giver, u64),
    case: &Case<'_>,
    graph: &Graph,
) -> Finding {
    let (name, label) = (giver(by, case, graph), case.object(pool.address));
    let thread = match by {
        Giver::Thread(stored) => graph.stored(case, stored).map(|task| task.address),
        _ => None,
    };
    // A wait that began after the release has nothing to do with it.
    let in_vain = thread.and_then(|thread| in_vain(thread, start, case)).filter(|(_, message)| message.seq < seq);
    let by_wait = in_vain.map_or_else(String::new, |(queue, _)| {
        format!(
            "; its last wait for {} ended without a message, and the block had come from there: perhaps it used the message before again",
            case.object(queue)
        )
    });
    let unchecked = thread.filter(|_| in_vain.is_none()).and_then(|thread| unchecked(thread, start, case));
    let again = unchecked.map_or(by_wait, |(queue, at)| {
        let (label, place) = (case.object(queue), place_at(at, case));
        format!(
            "; it does not look at whether it got a message of {label} ({place}), from where the block had come: perhaps it used the message before again"
        )
    });
    let code = unchecked.map(|(_, at)| {
        let text = "whatever this call returns, the code goes on in the same way".to_owned();
        Evidence::symbol(at, &place_at(at, case), text)
    });
    let shown = in_vain.map(|(queue, message)| {
        let text = format!("{name} asks for a message of {}, and its wait ends without one", case.object(queue));
        Evidence::event(message.seq, text)
    });
    let next = match in_vain.map(|(queue, _)| queue).or(unchecked.map(|(queue, _)| queue)) {
        Some(_) => format!("look at what {name} does where tx_queue_receive returns another status than TX_SUCCESS"),
        None => format!("look for a path of {name} that releases one block twice"),
    };
    Finding::new(
        Code::CorruptPool,
        case.cap(Confidence::Likely),
        format!("{name} released the block at {start:#x} of {label}, which was free: the kernel took {taken:#x} for its pool{again}"),
    )
    .against(["a write in front of the block, before it was released again, does the same"])
    .evidence([
        Evidence::event(seq, format!("{name} releases the block at {start:#x}, to a pool at {taken:#x}, and there is none")),
        Evidence::memory(pool.address, format!("{label}: the block at {start:#x} is in its list of free blocks")),
    ])
    .evidence(shown)
    .evidence(code)
    .next(next)
    .threads([pool.address])
    .affected(thread)
}

/// The queue for whose message a thread waited last, in vain, where that has had the address of a block.
fn in_vain(thread: Addr, block: Addr, case: &Case<'_>) -> Option<(Addr, Received)> {
    let (events, kernel) = (case.events?, case.kernel?);
    let message = events.activity(thread)?.in_vain.filter(|message| message.gaps == events.gaps())?;
    let queue = kernel.objects.iter().find(|object| case.stored(object.address) == message.queue)?;
    has_message(queue, block, case).then_some((queue.address, message))
}

/// A queue that has had the address of a block, where a thread asks for a message of it and does not look at whether it got one.
fn unchecked(thread: Addr, block: Addr, case: &Case<'_>) -> Option<(Addr, Addr)> {
    let usage = case.usage()?;
    let queues = case.kernel?.objects.iter().filter(|object| object.kind == Kind::Queue);
    queues
        .filter(|queue| has_message(queue, block, case))
        .find_map(|queue| Some((queue.address, usage.unchecked(User::Thread(thread), Kind::Queue, queue.address)?)))
}
