//! What the events show of the memory of one pool: who allocated which block, who released it, and who gets none.

use std::collections::BTreeMap;

use super::Giver;
use crate::abi::Addr;

/// The most blocks of a pool that are followed at a time.
const MAX_BLOCKS: usize = 4096;
/// The most threads that are followed that get no memory.
const MAX_THREADS: usize = 64;

/// A block of memory that is allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// By whom.
    pub thread: Addr,
    /// The event.
    pub seq: u64,
    /// How many were allocated from this pool before it.
    pub number: u64,
    /// How many bytes were asked for, where the pool's blocks are not all of one size.
    pub len: Option<u64>,
}

/// A block of memory that was allocated and released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Former {
    /// It, while it was allocated.
    pub block: Block,
    /// Who released it.
    pub by: Giver,
    /// The event.
    pub seq: u64,
}

/// A block that was released again, without an allocation since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Twice {
    /// Its first byte.
    pub start: Addr,
    /// It, as it was released for the first time.
    pub first: Former,
    /// Who released it again.
    pub by: Giver,
    /// The event.
    pub seq: u64,
}

/// A thread that asked without a wait, and got nothing since it last got a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused {
    /// How often.
    pub times: u64,
    /// The first event and its ticks.
    pub first: (u64, i64),
    /// The last event.
    pub last: u64,
    /// The bytes that it asked for last, where that is its choice.
    pub len: Option<u64>,
}

/// Memory of a pool.
#[derive(Debug, Clone, Default)]
pub struct Pool {
    /// Allocated and not released, by address.
    pub live: BTreeMap<Addr, Block>,
    /// Allocated and released, by address.
    former: BTreeMap<Addr, Former>,
    /// The threads that get no memory.
    pub refused: BTreeMap<Addr, Refused>,
    /// How many were allocated.
    pub allocated: u64,
    /// How many were released, by whom.
    pub released: BTreeMap<Giver, u64>,
    /// The most allocations from that of a block to its release.
    pub oldest: u64,
    /// The first block that was released twice.
    pub twice: Option<Twice>,
    /// Blocks that are not known because too many are allocated.
    lost: bool,
}

impl Pool {
    /// A thread gets a block.
    pub fn allocate(&mut self, memory: Addr, thread: Addr, seq: u64, len: Option<u64>) {
        let number = self.allocated;
        self.allocated = number.saturating_add(1);
        self.refused.remove(&thread);
        if self.live.len() < MAX_BLOCKS {
            self.live.insert(memory, Block { thread, seq, number, len });
        } else {
            self.lost = true;
        }
    }

    /// A thread asks without a wait, and gets nothing.
    pub fn refuse(&mut self, thread: Addr, seq: u64, at: i64, len: Option<u64>) {
        if self.refused.len() >= MAX_THREADS && !self.refused.contains_key(&thread) {
            return;
        }
        let refused = self.refused.entry(thread).or_insert(Refused { times: 0, first: (seq, at), last: seq, len });
        *refused = Refused { times: refused.times.saturating_add(1), last: seq, len, ..*refused };
    }

    /// A block is given back. `is_handed_over`: a thread that waits for memory gets it.
    pub fn release(&mut self, memory: Addr, by: Giver, seq: u64, is_handed_over: bool) {
        let former = self.former.get(&memory).copied().filter(|_| !self.lost && !self.live.contains_key(&memory));
        let twice = former.map(|first| Twice { start: memory, first, by, seq });
        self.twice = self.twice.or(twice);
        if let Some(block) = self.live.remove(&memory) {
            self.oldest = self.oldest.max(self.allocated.saturating_sub(block.number));
            let times = self.released.entry(by).or_default();
            *times = times.saturating_add(1);
            if self.former.len() >= MAX_BLOCKS {
                self.former.pop_first();
            }
            self.former.insert(memory, Former { block, by, seq });
        }
        if is_handed_over {
            self.former.remove(&memory);
        }
    }

    /// Something that is no thread gets a block.
    pub fn leaves(&mut self, memory: Addr) {
        self.former.remove(&memory);
    }

    /// Events are missing: what is allocated is not known any more.
    pub fn forget(&mut self) {
        self.live.clear();
        self.former.clear();
        self.refused.clear();
    }

    /// The block that was released last of those that held an address.
    pub fn held(&self, at: Addr) -> Option<(Addr, Former)> {
        let holds = |(start, former): &(&Addr, &Former)| {
            at.checked_sub(**start).is_some_and(|into| into < former.block.len.unwrap_or(0))
        };
        let found = self.former.iter().filter(holds).max_by_key(|(_, former)| former.seq);
        found.map(|(start, former)| (*start, *former))
    }

    /// The block that begins at an address, as it was released last.
    pub fn former(&self, start: Addr) -> Option<Former> {
        self.former.get(&start).copied()
    }

    /// The block that was allocated last.
    pub fn newest(&self) -> Option<(Addr, Block)> {
        let newest = self.live.iter().max_by_key(|(_, block)| block.number);
        newest.map(|(start, block)| (*start, *block))
    }

    /// The newest block, where the pool has so many in all, and one thread allocated all of them.
    pub fn only(&self, total: u64) -> Option<Block> {
        let (_, newest) = self.newest()?;
        let is_all = u64::try_from(self.live.len()).ok() == Some(total);
        (is_all && self.live.values().all(|block| block.thread == newest.thread)).then_some(newest)
    }

    /// Blocks that are kept far longer than any that was released; all, where none was released and the pool is used up.
    pub fn kept(&self, is_used_up: bool) -> Vec<Block> {
        if self.lost || (self.released.is_empty() && !is_used_up) {
            return Vec::new();
        }
        if self.released.is_empty() {
            return self.live.values().copied().collect();
        }
        let patience = self.oldest.saturating_mul(2).saturating_add(1);
        let is_old = |block: &&Block| self.allocated.saturating_sub(block.number) > patience;
        let mut kept: Vec<Block> = self.live.values().filter(is_old).copied().collect();
        kept.sort_by_key(|block| block.number);
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_released_twice_where_nobody_got_it_meanwhile() {
        let by = Giver::Thread(TLS);
        let again = |between: &dyn Fn(&mut Pool), is_handed_over| {
            let mut pool = Pool::default();
            pool.allocate(0x1000, TLS, 1, None);
            pool.release(0x1000, by, 2, is_handed_over);
            between(&mut pool);
            pool.release(0x1000, Giver::Thread(MQTT), 5, false);
            pool.twice.map(|twice| (twice.start, twice.first.seq, twice.seq))
        };
        assert_eq!(again(&|_| {}, false), Some((0x1000, 2, 5)));
        assert_eq!(again(&|_| {}, true), None, "a thread that waited has it");
        assert_eq!(again(&|pool| pool.allocate(0x1000, MQTT, 3, None), false), None);
        assert_eq!(again(&|pool| pool.leaves(0x1000), false), None, "an interrupt allocated it");
        assert_eq!(again(&Pool::forget, false), None, "events are missing");
    }

    const TLS: Addr = 0x100;
    const MQTT: Addr = 0x200;

    #[test]
    fn one_thread_has_all_blocks() {
        let mut pool = Pool::default();
        (0..4).for_each(|n| pool.allocate(0x1000 + 68 * n, TLS, 10 + n, None));
        assert_eq!(pool.only(4).map(|block| (block.thread, block.seq)), Some((TLS, 13)));
        assert_eq!(pool.only(5), None, "one was allocated before the first event");
        pool.release(0x1000, Giver::Thread(TLS), 20, false);
        assert_eq!(pool.only(4), None, "one is free, or somebody has it that no event shows");
        pool.allocate(0x1000, MQTT, 21, None);
        assert_eq!(pool.only(4), None, "another thread has one");
    }
}
