//! A word in the memory of a pool: whose block it is in, by the trace, and which variables point there.

use std::collections::BTreeSet;

use super::super::events::{Freed, Giver};
use super::super::graph::Graph;
use super::super::usage::User;
use super::super::{Case, Evidence};
use super::corrupt_pool::blocks;
use super::static_pointers::{self, StaticPointer};
use super::wrong_mask::giver;
use crate::abi::{Addr, Region};
use crate::kernel::{Kind, Object, PoolBlock};

/// HardFault, MemManage, BusFault and UsageFault.
const FAULTS: std::ops::RangeInclusive<u32> = 3..=6;

/// A word in the memory of a pool.
pub(super) struct Held {
    pub words: String,
    pub is_free: bool,
    /// The trace shows that it was released, and it is in use again.
    pub was_released: bool,
    /// The trace shows that another one had it before.
    pub changed_owner: bool,
}

pub(super) fn in_pool(place: Addr, case: &Case<'_>, graph: &Graph) -> Option<Held> {
    let (pool, block) = pool_block(place, case)?;
    let start = case.stored(block.start);
    let memory = case.events.and_then(|events| events.object(pool.address)).map(|one| &one.pool);
    let was_released = !block.is_free
        && memory.is_some_and(|memory| memory.released(start).is_some() && !memory.live.contains_key(&start));
    let owners = memory.and_then(|memory| memory.owners.get(&start));
    let changed_owner = owners.is_some_and(|all| all.len() > 1);
    Some(Held { words: words(place, &block, pool, case, graph), is_free: block.is_free, was_released, changed_owner })
}

/// The block of a pool in which a word is.
pub(super) fn block_at(place: Addr, case: &Case<'_>) -> Option<PoolBlock> {
    pool_block(place, case).map(|(_, block)| block)
}

/// The pool whose block begins at an address, if that block is free.
pub(super) fn free_block(start: Addr, case: &Case<'_>) -> Option<Addr> {
    pool_block(start, case).filter(|(_, block)| block.is_free && block.start == start).map(|(pool, _)| pool.address)
}

/// The threads that had the block in which a word is, where the trace shows several.
pub(super) fn owners(place: Addr, case: &Case<'_>, graph: &Graph) -> Option<Evidence> {
    let (pool, block) = pool_block(place, case)?;
    let all =
        case.events?.object(pool.address)?.pool.owners.get(&case.stored(block.start)).filter(|all| all.len() > 1)?;
    let named = all.iter().map(|(thread, seq)| format!("{} (event {seq})", giver(Giver::Thread(*thread), case, graph)));
    let named: Vec<String> = named.collect();
    let (_, newest) = all.last()?;
    Some(Evidence::event(*newest, format!("this block was allocated one after the other by {}", named.join(", "))))
}

fn pool_block<'k>(place: Addr, case: &Case<'k>) -> Option<(&'k Object, PoolBlock)> {
    let is_there = |pool: &&Object| {
        let memory = pool.get("start").zip(pool.get("size")).map(|(start, len)| Region { start, len });
        matches!(pool.kind, Kind::BlockPool | Kind::BytePool) && memory.is_some_and(|memory| memory.contains(place))
    };
    let pool = case.kernel?.objects.iter().find(is_there)?;
    let all = blocks(pool, case)?.all;
    let index = all.partition_point(|block| block.start <= place).checked_sub(1)?;
    let block = all.get(index).filter(|block| place.saturating_sub(block.start) < block.len)?;
    Some((pool, *block))
}

/// Whose memory it is. `place`: a word in the block.
fn words(place: Addr, block: &PoolBlock, pool: &Object, case: &Case<'_>, graph: &Graph) -> String {
    let which = format!("in a block of {}", case.object(pool.address));
    let memory = case.events.and_then(|events| events.object(pool.address)).map(|one| &one.pool);
    let who = |thread: Addr| giver(Giver::Thread(thread), case, graph);
    let owner = memory.and_then(|memory| memory.live.get(&case.stored(block.start)));
    let owner = owner.filter(|owner| !owner.is_doubtful);
    let begins = || memory.and_then(|memory| memory.freed(case.stored(block.start)));
    let freed = memory.and_then(|memory| memory.held(case.stored(place)).map(|(_, freed)| freed)).or_else(begins);
    let freed = freed.filter(|freed| owner.is_none_or(|owner| freed.seq < owner.seq));
    let earlier = |last: Addr| {
        let all = memory.and_then(|memory| memory.owners.get(&case.stored(block.start))).into_iter().flatten();
        let names: Vec<String> = all.filter(|(thread, _)| *thread != last).map(|(thread, _)| who(*thread)).collect();
        if names.is_empty() { String::new() } else { format!(" (earlier, {} had it)", names.join(", ")) }
    };
    let before = |freed: Freed| {
        let (owner, by) = (who(freed.block.thread), giver(freed.by, case, graph));
        format!("{owner} had it, and {by} released it{}", earlier(freed.block.thread))
    };
    let released = memory.and_then(|memory| memory.released(case.stored(block.start)));
    match (block.is_free, owner, freed) {
        (true, _, Some(freed)) => format!("{which} that is free: {}", before(freed)),
        (true, _, None) => format!("{which} that is free"),
        (false, Some(owner), Some(freed)) => {
            format!("{which} that {} has; before, {}", who(owner.thread), before(freed))
        }
        (false, Some(owner), None) => format!("{which} that {} has", who(owner.thread)),
        // By whom is not known: without a clock the kernel may note the address in the event of another call.
        (false, None, _) => match released {
            Some((by, seq)) => {
                format!("{which} that {} released (event {seq}) and that was allocated again", giver(by, case, graph))
            }
            None => which,
        },
    }
}

/// The variables that point into the block of a pool in which a word is. The block's owner may keep such a pointer; one that was kept after
/// a release looks the same.
pub(super) fn kept(place: Addr, case: &Case<'_>) -> Vec<StaticPointer> {
    let block = block_at(place, case);
    let all = block.map(|block| static_pointers::into(Region { start: block.start, len: block.len }, case));
    all.unwrap_or_default().into_iter().filter(|one| !is_of_fault(one, case)).collect()
}

/// What to look at, with these.
pub(super) fn with_kept(next: String, kept: &[StaticPointer]) -> String {
    match kept.first() {
        Some(first) => {
            format!("{next}; and for a path that releases this block while {} points into it", first.name)
        }
        None => next,
    }
}

/// The block of a pool in which a word is that is no pointer: whose it is and what points into it, as evidence, and what to look at.
pub(super) fn block_of(place: Addr, case: &Case<'_>, graph: &Graph) -> Option<(String, Vec<Evidence>, String)> {
    let held = in_pool(place, case, graph)?;
    let kept = kept(place, case);
    let words = static_pointers::said(&held.words, &kept, "points into it", "point into it");
    let next = if held.is_free || held.was_released {
        format!("look for what uses {place:#x} after its release")
    } else {
        format!("look for who writes to {place:#x}")
    };
    let evidence = owners(place, case, graph).into_iter().chain(kept.iter().map(|kept| kept.evidence.clone()));
    Some((words, evidence.collect(), with_kept(next, &kept)))
}

/// True for a variable that only handlers of faults use: they store there what the exception pushed.
fn is_of_fault(one: &StaticPointer, case: &Case<'_>) -> bool {
    let Some(usage) = case.usage() else { return false };
    let functions = || FAULTS.flat_map(|number| usage.functions_of(User::Handler(number)));
    let of_faults: BTreeSet<Addr> = functions().collect();
    !one.users.is_empty() && one.users.is_subset(&of_faults)
}
