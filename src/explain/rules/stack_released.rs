//! The stack of a thread that still lives is memory of a pool that was released: by whoever ended the thread, or thought so. The
//! next owner of that memory writes over the stack, and the thread runs into nowhere when it goes on. It is no overflow: no larger
//! stack helps.
//!
//! Memory shows it while the memory is free, or where a block of the pool begins or ends within the stack. Where somebody has it
//! again, events show that it was allocated after the thread was created.
//!
//! Against it: a thread that has ended needs no stack; its memory may be released before it is deleted.

use super::super::events::{Block, Giver};
use super::super::graph::Graph;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::corrupt_pool::blocks;
use super::wrong_mask::giver;
use crate::abi::{Addr, Region};
use crate::kernel::{Kernel, Kind, Object, PoolBlock, Stacks, State, Thread};

/// What became of the memory of a stack.
enum Fate {
    /// It is free.
    Free(PoolBlock),
    /// Others have parts of it: a block begins within it.
    Cut(PoolBlock),
    /// It was allocated since the thread was created.
    Allocated(Block),
}

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let Some(kernel) = case.kernel else { return Vec::new() };
    let lives = |thread: &&Thread| {
        let is_over = matches!(thread.state, Some(State(1 | 2)) | None);
        !is_over && thread.stacks == Stacks::Own && thread.pthread.is_none()
    };
    let found = kernel.threads.iter().filter(lives).filter_map(|thread| {
        let (pool, fate) = of_thread(thread, kernel, case)?;
        Some(finding(thread, pool, &fate, case, graph))
    });
    found.collect()
}

/// True for a thread whose stack is another one's memory.
pub(super) fn is_so(thread: &Thread, case: &Case<'_>) -> bool {
    case.kernel.is_some_and(|kernel| of_thread(thread, kernel, case).is_some())
}

fn of_thread<'k>(thread: &Thread, kernel: &'k Kernel, case: &Case<'_>) -> Option<(&'k Object, Fate)> {
    let stack = thread.stack.region().filter(|stack| stack.len > 0)?;
    let pools = kernel.objects.iter().filter(|o| matches!(o.kind, Kind::BlockPool | Kind::BytePool));
    let holds = |pool: &&Object| {
        let region = pool.get("start").zip(pool.get("size")).map(|(start, len)| Region { start, len });
        region.is_some_and(|region| stack.is_within(region))
    };
    let pool = pools.into_iter().find(holds)?;
    let found = blocks(pool, case).filter(|found| found.damage.is_none())?;
    let fate = fate(stack, &found.all).or_else(|| allocated(thread, pool, stack.start, case).map(Fate::Allocated))?;
    Some((pool, fate))
}

/// What the blocks of a pool show of a stack in its memory.
fn fate(stack: Region, all: &[PoolBlock]) -> Option<Fate> {
    let index = all.partition_point(|block| block.start <= stack.start).checked_sub(1)?;
    let block = *all.get(index)?;
    let own = Region { start: block.start, len: block.len };
    if block.is_free && stack.is_within(own) {
        return Some(Fate::Free(block));
    }
    // The words of the kernel in front of the next block are in the middle of the stack.
    let next = all.get(index.checked_add(1)?).filter(|next| stack.contains(next.at));
    next.map(|next| Fate::Cut(*next))
}

/// The block that begins where the stack does, where an event allocates it after the thread was created.
fn allocated(thread: &Thread, pool: &Object, start: Addr, case: &Case<'_>) -> Option<Block> {
    let events = case.events?;
    let one = events.object(pool.address)?;
    let block = *one.pool.live.get(&case.stored(start)).filter(|block| !block.is_doubtful)?;
    let ran = || events.activity(thread.address).and_then(|activity| activity.first);
    let first = events.created(thread.address).or_else(ran);
    // Without events of the thread what it saved shows that somebody else writes there.
    first.map_or_else(|| is_lost(thread, case), |first| first < block.seq).then_some(block)
}

/// True where what a thread saved leads nowhere.
fn is_lost(thread: &Thread, case: &Case<'_>) -> bool {
    let pc = thread.position.pc.filter(|pc| case.look.function(pc & !1).is_some());
    thread.core.is_none() && pc.is_none()
}

fn finding(thread: &Thread, pool: &Object, fate: &Fate, case: &Case<'_>, graph: &Graph) -> Finding {
    let (name, label) = (thread.label(), case.object(pool.address));
    let start = thread.stack.start.unwrap_or_default();
    let memory = case.events.and_then(|events| events.object(pool.address)).map(|one| &one.pool);
    let at = match fate {
        Fate::Free(block) => block.start,
        Fate::Cut(_) | Fate::Allocated(_) => start,
    };
    let release = memory.and_then(|memory| memory.released(case.stored(start)).or(memory.released(case.stored(at))));
    let release = release.map(|(by, seq)| (giver(by, case, graph), seq));
    let released = release.as_ref().map_or_else(|| "released".to_owned(), |(by, _)| format!("released by {by}"));
    let (claim, claimed, shown) = match fate {
        Fate::Free(block) => (
            format!("the stack of {name} is memory of {label} that was {released}, and is free"),
            Confidence::Proven,
            Evidence::memory(block.at, format!("{label}: the block of {} bytes here is free", block.len)),
        ),
        Fate::Cut(next) => (
            format!("the stack of {name} is memory of {label} that was {released}: a block begins in the middle of it"),
            Confidence::Likely,
            Evidence::memory(next.at, format!("{label}: a block of {} bytes begins here", next.len)),
        ),
        Fate::Allocated(block) => {
            let who = giver(Giver::Thread(block.thread), case, graph);
            (
                format!("the stack of {name} is memory of {label} that was {released}: {who} has it now"),
                Confidence::Likely,
                Evidence::event(block.seq, format!("{who} allocates the block at {start:#x}")),
            )
        }
    };
    let len = thread.stack.size.unwrap_or_default();
    Finding::new(Code::CorruptPool, case.cap(claimed), claim)
        .evidence([Evidence::stack(start, format!("the stack of {name}: {len} bytes")), shown])
        .evidence(release.map(|(by, seq)| Evidence::event(seq, format!("{by} releases that memory"))))
        .next(format!("terminate and delete {name} before its stack is released"))
        .threads([thread.address])
}

#[cfg(test)]
mod tests {
    use super::*;

    const STACK: Region = Region { start: 0x1008, len: 800 };

    fn block(at: Addr, len: u64, is_free: bool) -> PoolBlock {
        PoolBlock { at, start: at.saturating_add(8), len, is_free }
    }

    #[test]
    fn a_stack_in_a_free_block_was_released() {
        assert!(matches!(fate(STACK, &[block(0x1000, 900, true)]), Some(Fate::Free(_))));
        let joined = [block(0x0F00, 2000, true)];
        assert!(matches!(fate(STACK, &joined), Some(Fate::Free(_))), "joined with the free block in front of it");
        assert!(fate(STACK, &[block(0x1000, 800, false)]).is_none(), "it is allocated");
        assert!(fate(STACK, &[block(0x1000, 800, false), block(0x1328, 64, true)]).is_none());
    }

    #[test]
    fn a_block_that_begins_in_a_stack_was_allocated_from_its_memory() {
        let cut = [block(0x1000, 100, false), block(0x106C, 700, true)];
        assert!(matches!(fate(STACK, &cut), Some(Fate::Cut(next)) if next.at == 0x106C));
    }
}
