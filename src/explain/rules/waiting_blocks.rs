//! A pool that is used up because its blocks wait as messages in a queue whose reader does not read: drivers and protocols pass
//! pointers to packets on. No thread leaks them, and the thread that asks for memory is a victim: the cause is what the reader waits
//! for. The words of the messages in memory show it. Who reads is known from events, or from the code of the threads.
//!
//! Against it: the reader may be about to go on. So it is likely only where the reader waits for ever for something else, and
//! has done so for long, or has ended. Messages may hold numbers that look like addresses: more than half of the pool has to be in
//! one queue.

use std::collections::BTreeMap;

use super::super::graph::Graph;
use super::super::state::{Does, Task};
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::by_code;
use super::corrupt_pool::{blocks, is_beside};
use super::queue_full::{Reader, reader};
use super::users::uses;
use super::words::{shows, waiting, waits, wanted};
use crate::abi::{Addr, Region};
use crate::kernel::{Kind, Object, PoolBlock};

/// The fewest blocks in one queue.
const FEWEST: usize = 2;
/// The largest storage of a queue that is read.
const LARGEST: u64 = 1 << 16;
/// Bytes that are read at once.
const PIECE: u64 = 512;

/// A queue, and the blocks of a pool to which its messages point: how many bytes each has, by its first one.
pub(super) struct Waiting {
    pub queue: Addr,
    pub blocks: BTreeMap<Addr, u64>,
}

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let pools = case.kernel.into_iter().flat_map(|kernel| &kernel.objects);
    let used_up = pools.filter(|pool| graph.tasks.waiting(pool.address).next().is_some() || is_empty(pool));
    used_up.filter_map(|pool| finding(pool, case, graph)).collect()
}

fn is_empty(pool: &Object) -> bool {
    pool.kind == Kind::BlockPool && pool.get("available") == Some(0)
}

/// The blocks of a pool that wait in queues.
pub(super) fn of_pool(pool: &Object, case: &Case<'_>) -> Vec<Waiting> {
    let is_pool = matches!(pool.kind, Kind::BlockPool | Kind::BytePool);
    let Some(all) = is_pool.then(|| blocks(pool, case)).flatten() else { return Vec::new() };
    let queues = case.kernel.into_iter().flat_map(|kernel| &kernel.objects).filter(|o| o.kind == Kind::Queue);
    let of = |queue: &Object| {
        let words = messages(queue, case)?;
        let blocks: BTreeMap<Addr, u64> = words.iter().filter_map(|word| holding(*word, &all.all)).collect();
        (!blocks.is_empty()).then_some(Waiting { queue: queue.address, blocks })
    };
    queues.filter_map(of).collect()
}

/// The first byte of the allocated block that holds an address, and how many it has.
fn holding(at: Addr, all: &[PoolBlock]) -> Option<(Addr, u64)> {
    let index = all.partition_point(|block| block.start <= at).checked_sub(1)?;
    let block = all.get(index).filter(|block| !block.is_free)?;
    (at.checked_sub(block.start)? < block.len).then_some((block.start, block.len))
}

/// The words of the messages that wait in a queue.
fn messages(queue: &Object, case: &Case<'_>) -> Option<Vec<u64>> {
    let get = |name| queue.get(name);
    let (start, read) = (get("start")?, get("read")?);
    let word = case.kernel?.layout.shape.word.bytes() as u64;
    let message = get("message_size")?.checked_mul(word).filter(|len| *len > 0)?;
    let storage = Region { start, len: get("capacity")?.checked_mul(message).filter(|len| *len <= LARGEST)? };
    let enqueued = get("enqueued").filter(|n| get("capacity").is_some_and(|all| *n <= all))?;
    let first = storage.offset_of(read).filter(|into| into.is_multiple_of(message))?;
    if !case.look.is_stored() && !is_beside(start, case) {
        return None;
    }
    let len = enqueued.checked_mul(message)?;
    let before_end = len.min(storage.len.checked_sub(first)?);
    let mut bytes = piecewise(storage, read, before_end, case)?;
    bytes.extend(piecewise(storage, start, len.checked_sub(before_end)?, case)?);
    Some(case.words(&bytes, true))
}

fn piecewise(storage: Region, from: Addr, len: u64, case: &Case<'_>) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for piece in 0..len.div_ceil(PIECE) {
        let into = piece.checked_mul(PIECE)?;
        let size = usize::try_from(PIECE.min(len.checked_sub(into)?)).ok()?;
        bytes.extend(case.look.within(storage, from.checked_add(into)?, size)?);
    }
    Some(bytes)
}

/// True for more than half of the blocks of a block pool, or of the bytes of a byte pool.
fn is_most(kind: Kind, blocks: &BTreeMap<Addr, u64>, total: Option<u64>) -> bool {
    let part = match kind {
        Kind::BlockPool => blocks.len() as u64,
        _ => blocks.values().fold(0, |sum: u64, len| sum.saturating_add(*len)),
    };
    blocks.len() >= FEWEST && total.is_some_and(|total| part > total / 2)
}

/// Who reads a queue. Who waits for memory of the pool sends to it, rather than that it reads it.
fn reads<'g>(queue: Addr, pool: &Object, case: &Case<'_>, graph: &'g Graph) -> Option<Reader<'g>> {
    reader(queue, case, graph).or_else(|| {
        let waits = |task: &Task| task.wait.is_some_and(|wait| wait.object == pool.address);
        let mut others = graph.tasks.list.iter().filter(|task| !waits(task) && uses(task, queue, case));
        let (Some(task), None) = (others.next(), others.next()) else { return None };
        Some(Reader { task, is_inferred: true })
    })
}

/// Why the reader does not read, in words, and how sure it is.
fn why(queue: Addr, reader: &Reader<'_>, case: &Case<'_>, graph: &Graph) -> Option<(String, Confidence)> {
    let task = reader.task;
    let sure = |is_so: bool| if is_so { Confidence::Likely } else { Confidence::Hint };
    let is_long = |object: Addr| case.events.is_some_and(|events| events.is_long(task.address, object));
    match (task.wait.filter(|wait| wait.object != queue), task.does.gone()) {
        (Some(wait), _) if wait.forever => {
            let givers = by_code::givers(&wait, case, graph);
            let words = format!("it waits for {}", wanted(&wait, givers.as_ref(), case));
            Some((words, sure(is_long(wait.object))))
        }
        (None, Some(gone)) => Some((format!("it {gone}"), sure(task.does != Does::Suspended))),
        // It goes on by itself.
        _ => None,
    }
}

fn finding(pool: &Object, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let all = of_pool(pool, case);
    let total = pool.get(if pool.kind == Kind::BlockPool { "total" } else { "size" });
    let most = all.iter().max_by_key(|waiting| waiting.blocks.len());
    let most = most.filter(|waiting| is_most(pool.kind, &waiting.blocks, total))?;
    let (label, queue) = (case.object(pool.address), case.object(most.queue));
    let reader = reads(most.queue, pool, case, graph);
    let (why, claimed) = match &reader {
        Some(reader) => {
            let (why, claimed) = why(most.queue, reader, case, graph)?;
            (format!("which {} reads; {why}", case.label(reader.task.address)), claimed)
        }
        None => ("and no thread is seen that reads it".to_owned(), Confidence::Hint),
    };
    let waiters: Vec<&Task> = graph.tasks.waiting(pool.address).collect();
    let lasts = waiters.iter().any(|task| task.wait.is_some_and(|wait| wait.forever));
    let count = most.blocks.len();
    let of = pool.get("total").map_or_else(String::new, |total| format!(" of its {total}"));
    let text = format!("its messages are the addresses of {count} blocks of {label}");
    let first = most.blocks.keys().next().copied().unwrap_or_default();
    let reading = reader.as_ref().map(|reader| reader.task);
    let threads: Vec<Addr> = vec![reading.map_or(pool.address, |task| task.address)];
    let mut behind: Vec<Addr> = waiters.iter().map(|task| task.address).chain([pool.address]).collect();
    behind.extend(graph.waiters(&[threads.as_slice(), behind.as_slice()].concat()));
    Some(
        Finding::new(
            Code::PoolEmpty,
            case.cap(if lasts { claimed } else { Confidence::Hint }),
            format!("{label} is used up: {count}{of} blocks wait in {queue}, {why}"),
        )
        .against(["who reads the queue is inferred, and it may be about to go on"])
        .evidence([Evidence::memory(most.queue, format!("{queue}: {text}")).holds(first)])
        .evidence(reading.map(|task| match task.wait {
            Some(wait) => waiting(task.address, wait.object, case, graph),
            None => shows(task.address, format!("{} reads {queue}", case.label(task.address)), graph),
        }))
        .evidence(waiters.first().map(|task| waiting(task.address, pool.address, case, graph)))
        .explains(waiters.iter().filter_map(|task| waits(task.address, case, graph)))
        .next(reading.map_or_else(
            || format!("find out which thread reads {queue}"),
            |task| format!("find out why {} does not go on", case.label(task.address)),
        ))
        .threads(threads)
        .affected(behind),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_leads_to_the_block_that_holds_its_address() {
        let block = |start: Addr, is_free| PoolBlock { at: start.saturating_sub(4), start, len: 64, is_free };
        let all = [block(0x1004, false), block(0x1048, true), block(0x108C, false)];
        assert_eq!(holding(0x1004, &all), Some((0x1004, 64)));
        assert_eq!(holding(0x1030, &all), Some((0x1004, 64)), "after a header");
        assert_eq!(holding(0x1044, &all), None, "the word of the kernel in front of a block");
        assert_eq!(holding(0x1048, &all), None, "it is free");
        assert_eq!(holding(0x0FFF, &all), None);
        assert_eq!(holding(0x10CC, &all), None);
    }

    #[test]
    fn two_small_blocks_were_most_of_a_byte_pool() {
        let blocks = BTreeMap::from([(0x1004, 64), (0x1048, 64)]);
        assert!(!is_most(Kind::BytePool, &blocks, Some(4096)));
        assert!(is_most(Kind::BytePool, &blocks, Some(255)));
        assert!(is_most(Kind::BlockPool, &blocks, Some(3)));
        assert!(!is_most(Kind::BlockPool, &blocks, Some(4)));
    }
}
