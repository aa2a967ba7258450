//! What is in memory right below a stack, which loses its last words where the stack overflows: the storage of a queue, or the block of a
//! byte pool that variables point to.

use super::super::Case;
use super::{pool_memory, static_pointers};
use crate::abi::{Addr, Region};
use crate::kernel::Kind;

/// The words of a byte pool that may be between a block and a stack, in bytes.
const GAP: u64 = 16;
/// The most variables that are named.
const MOST: usize = 2;

/// That, in words: `queue reports, whose storage ends at 0x20000900, may hold other messages than were sent`.
pub(super) fn of(start: Addr, case: &Case<'_>) -> Option<String> {
    queue(start, case).or_else(|| block(start, case))
}

fn queue(start: Addr, case: &Case<'_>) -> Option<String> {
    let objects = &case.kernel?.objects;
    let ends = |queue: Addr| {
        let queue = case.kernel?.object(queue)?;
        let (from, end) = (queue.get("start")?, queue.get("end")?);
        (from < end && end <= start && start.saturating_sub(end) <= GAP).then_some((queue.address, end))
    };
    let queues = objects.iter().filter(|object| object.kind == Kind::Queue);
    let (queue, end) = queues.into_iter().find_map(|queue| ends(queue.address))?;
    Some(format!("{}, whose storage ends at {end:#x}, may hold other messages than were sent", case.object(queue)))
}

fn block(start: Addr, case: &Case<'_>) -> Option<String> {
    // The words in front of the stack's own block may be those that were written over: what is in front of them counts.
    let last = start.checked_sub(GAP)?;
    let block = pool_memory::block_at(last, case).filter(|block| !block.is_free)?;
    let all = static_pointers::into(Region { start: block.start, len: block.len }, case);
    let names: Vec<&str> = all.iter().take(MOST).map(|pointer| pointer.name.as_str()).collect();
    if names.is_empty() {
        return None;
    }
    let point = if names.len() == 1 { "points" } else { "point" };
    Some(format!("the block of a pool to which {} {point} ends below it, and may be damaged", names.join(" and ")))
}
