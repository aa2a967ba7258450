//! Memory of a pool that was released while something in it is still in use: who releases it, or ended the thread, does not know
//! of it. The next owner of that memory writes over it.
//!
//! Memory shows it while the memory is free, or where a block of the pool begins or ends within it. Where somebody has it again,
//! events show that it was allocated later.

use super::super::events::{Block, Giver};
use super::super::graph::Graph;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::corrupt_pool::blocks;
use super::wrong_mask::giver;
use crate::abi::{Addr, Region};
use crate::kernel::{Kernel, Kind, Object, PoolBlock};

/// What became of memory.
pub(super) enum Fate {
    /// It is free.
    Free(PoolBlock),
    /// Others have parts of it: a block begins within it.
    Cut(PoolBlock),
    /// It was allocated again.
    Allocated(Block),
}

/// Memory that was released.
pub(super) struct Released<'k> {
    pool: &'k Object,
    memory: Region,
    /// The block of the pool that it begins in.
    start: Addr,
    fate: Fate,
}

impl<'k> Released<'k> {
    /// `is_newer`: true for an allocation later than the use of the memory began.
    pub fn of(memory: Region, kernel: &'k Kernel, case: &Case<'_>, is_newer: &dyn Fn(&Block) -> bool) -> Option<Self> {
        let pools = kernel.objects.iter().filter(|o| matches!(o.kind, Kind::BlockPool | Kind::BytePool));
        let holds = |pool: &&Object| {
            let region = pool.get("start").zip(pool.get("size")).map(|(start, len)| Region { start, len });
            region.is_some_and(|region| memory.is_within(region))
        };
        let pool = pools.into_iter().find(holds)?;
        // A pool that was created too large reaches over variables: they are none of its memory.
        let start = pool.get("start")?;
        if case.look.variable(memory.start).is_some_and(|variable| variable.address > start) {
            return None;
        }
        let found = blocks(pool, case).filter(|found| found.damage.is_none())?;
        let before = found.all.partition_point(|block| block.start <= memory.start);
        let start = found.all.get(before.checked_sub(1)?)?.start;
        let allocated = || {
            let block = *case.events?.object(pool.address)?.pool.live.get(&case.stored(start))?;
            (!block.is_doubtful && is_newer(&block)).then_some(block)
        };
        let fate = fate(memory, &found.all).or_else(|| allocated().map(Fate::Allocated))?;
        Some(Self { pool, memory, start, fate })
    }

    /// True where the memory is free.
    pub const fn is_free(&self) -> bool {
        matches!(self.fate, Fate::Free(_))
    }

    /// What that says of what is in the memory, for example the stack of a thread, and where it is.
    pub fn finding(&self, what: &str, shown: Option<Evidence>, case: &Case<'_>, graph: &Graph) -> Finding {
        let label = case.object(self.pool.address);
        let memory = case.events.and_then(|events| events.object(self.pool.address)).map(|one| &one.pool);
        let release = memory
            .and_then(|memory| [self.memory.start, self.start].iter().find_map(|at| memory.released(case.stored(*at))));
        let release = release.map(|(by, seq)| (giver(by, case, graph), seq));
        let released = release.as_ref().map_or_else(|| "released".to_owned(), |(by, _)| format!("released by {by}"));
        let is_shown = release.is_some();
        let claim = format!("{what} is memory of {label} that was {released}");
        let (claim, claimed, state) = match &self.fate {
            Fate::Free(block) => (
                if is_shown {
                    format!("{claim}, and is free")
                } else {
                    format!("{what} is memory of {label} that is free")
                },
                if is_shown { Confidence::Proven } else { Confidence::Likely },
                Evidence::memory(block.at, format!("{label}: the block of {} bytes here is free", block.len)),
            ),
            Fate::Cut(next) => (
                format!("{claim}: a block begins in the middle of it"),
                Confidence::Likely,
                Evidence::memory(next.at, format!("{label}: a block of {} bytes begins here", next.len)),
            ),
            Fate::Allocated(block) => {
                let who = giver(Giver::Thread(block.thread), case, graph);
                let text = format!("{who} allocates the block at {:#x}", self.start);
                (format!("{claim}: {who} has it now"), Confidence::Likely, Evidence::event(block.seq, text))
            }
        };
        Finding::new(Code::CorruptPool, case.cap(claimed), claim)
            .evidence(shown)
            .evidence([state])
            .evidence(release.map(|(by, seq)| Evidence::event(seq, format!("{by} releases that memory"))))
    }
}

/// What the blocks of a pool show of memory in it.
fn fate(memory: Region, all: &[PoolBlock]) -> Option<Fate> {
    let index = all.partition_point(|block| block.start <= memory.start).checked_sub(1)?;
    let block = *all.get(index)?;
    let own = Region { start: block.start, len: block.len };
    if block.is_free && memory.is_within(own) {
        return Some(Fate::Free(block));
    }
    // The words of the kernel in front of the next block are in the middle of it.
    let next = all.get(index.checked_add(1)?).filter(|next| memory.contains(next.at));
    next.map(|next| Fate::Cut(*next))
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
