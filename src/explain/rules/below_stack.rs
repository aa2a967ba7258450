//! What is in memory right below a stack, which loses its last words where the stack overflows: the storage of a queue, or the block of a
//! byte pool that variables point to.

use super::super::Case;
use super::{pool_memory, static_pointers};
use crate::abi::{Addr, Region};
use crate::kernel::{Kind, Object};

/// The most variables that are named.
const MOST: usize = 2;

/// That, in words: `queue reports, whose storage ends at 0x20000900, may hold other messages than were sent`.
pub(super) fn of(start: Addr, case: &Case<'_>) -> Option<String> {
    queue(start, case).or_else(|| block(start, case))
}

/// The bytes of the two words that a byte pool has in front of each block.
fn words(case: &Case<'_>) -> u64 {
    case.width().saturating_mul(2)
}

fn queue(start: Addr, case: &Case<'_>) -> Option<String> {
    let end = |queue: &Object| {
        let (from, end) = (queue.get("start")?, queue.get("end")?);
        let gap = start.checked_sub(end).filter(|_| from < end)?;
        (queue.kind == Kind::Queue && gap <= words(case)).then_some((queue.address, end))
    };
    let (queue, end) = case.kernel?.objects.iter().find_map(end)?;
    Some(format!("{}, whose storage ends at {end:#x}, may hold other messages than were sent", case.object(queue)))
}

fn block(start: Addr, case: &Case<'_>) -> Option<String> {
    // What is in front of the words of the stack's own block.
    let last = start.checked_sub(words(case))?.checked_sub(1)?;
    let block = pool_memory::block_at(last, case).filter(|block| !block.is_free)?;
    let all = static_pointers::into(Region { start: block.start, len: block.len }, case);
    let names: Vec<&str> = all.iter().take(MOST).map(|pointer| pointer.name.as_str()).collect();
    let point = match names.len() {
        0 => return None,
        1 => "points",
        _ => "point",
    };
    Some(format!("the block of a pool to which {} {point} ends below it, and may be damaged", names.join(" and ")))
}
