//! What the events show of the memory of one pool: who allocated which block, who released it, and who gets none.

use std::collections::{BTreeMap, BTreeSet};

use super::Giver;
use crate::abi::Addr;

/// The most blocks of a pool that are followed at a time.
const MAX_BLOCKS: usize = 4096;
/// The most owners of one block that are remembered.
const MAX_OWNERS: usize = 4;
/// So many times that a block was sent and released are remembered.
const MAX_SENT: usize = 16;
/// The most threads that are followed that get no memory.
const MAX_THREADS: usize = 64;
/// The most threads whose rounds are followed.
const MAX_HOLDERS: usize = 4096;

/// A block of memory that is allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// Its first byte, as the trace stores it.
    pub start: Addr,
    /// By whom.
    pub thread: Addr,
    /// The event.
    pub seq: u64,
    /// How many were allocated from this pool before it.
    pub number: u64,
    /// In which round of its thread.
    pub round: u64,
    /// The call blocked: its event does not have the address that the thread got.
    pub is_doubtful: bool,
    /// How many bytes were asked for, where the pool's blocks are not all of one size.
    pub len: Option<u64>,
}

/// A block of memory that was allocated and released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Freed {
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
    pub first: Freed,
    /// Who released it again.
    pub by: Giver,
    /// The event.
    pub seq: u64,
}

/// A message that a thread sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// The queue, as the trace stores its address.
    pub queue: Addr,
    /// The event.
    pub seq: u64,
    /// So many messages were in the queue before.
    pub held: u64,
}

/// A block that its thread released itself after it had sent a message: the message may have been the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SentAndFreed {
    /// What it sent last.
    pub sent: Sent,
    /// The block.
    pub freed: Freed,
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

/// The rounds of a thread: it allocates some blocks, then some of them are released. Blocks of one round may be released in any
/// order; one that is still held when later rounds are over was left behind.
#[derive(Debug, Clone, Copy, Default)]
struct Rounds {
    /// The number of the round that goes on.
    current: u64,
    /// True where a block was released since the newest was allocated: the next begins a round.
    is_over: bool,
    /// The newest round of which a block was released, and the newest one before it.
    released: (Option<u64>, Option<u64>),
    /// The event with which it asked last, and the address in it.
    asked: Option<(u64, Addr)>,
}

impl Rounds {
    const fn allocates(&mut self) -> u64 {
        if self.is_over {
            self.current = self.current.saturating_add(1);
            self.is_over = false;
        }
        self.current
    }

    fn releases(&mut self, round: u64) {
        self.is_over = true;
        let (newest, before) = self.released;
        if newest.is_none_or(|newest| round > newest) {
            self.released = (Some(round), newest);
        } else if newest != Some(round) && before.is_none_or(|before| round > before) {
            self.released.1 = Some(round);
        }
    }

    /// True where a block of a later round was released.
    fn are_past(&self, round: u64) -> bool {
        self.released.0.is_some_and(|newest| newest > round)
    }

    /// True where blocks of two later rounds were released.
    fn are_long_past(&self, round: u64) -> bool {
        self.released.1.is_some_and(|second| second > round)
    }
}

/// Memory of a pool.
#[derive(Debug, Clone, Default)]
pub struct Pool {
    /// Allocated and not released, by address.
    pub live: BTreeMap<Addr, Block>,
    /// The threads that had the block at an address, each with the last event in which it got it.
    pub owners: BTreeMap<Addr, Vec<(Addr, u64)>>,
    /// Allocated and released, by address.
    freed: BTreeMap<Addr, Freed>,
    /// Who released the block at an address last, whoever allocated it, and the event.
    releases: BTreeMap<Addr, (Giver, u64)>,
    /// The threads that get no memory.
    pub refused: BTreeMap<Addr, Refused>,
    /// The last thread that found the pool empty and waits for ever, with the event, while no event shows a release or another
    /// allocation.
    pub waits: Option<(Addr, u64)>,
    /// The interrupts that get no memory, by their numbers.
    pub refused_interrupts: BTreeMap<Option<u64>, Refused>,
    /// How many were allocated.
    pub allocated: u64,
    /// How many were released, by whom.
    pub released: BTreeMap<Giver, u64>,
    /// The first block that was released twice.
    pub twice: Option<Twice>,
    /// By block, the newest times that its thread released it itself after it had sent a message.
    pub sent: BTreeMap<Addr, Vec<SentAndFreed>>,
    /// By the thread that allocates.
    rounds: BTreeMap<Addr, Rounds>,
    /// By the thread that allocates: the most allocations of the pool from that of a block to its release.
    oldest: BTreeMap<Addr, u64>,
    /// Blocks that are not known because too many are allocated.
    lost: bool,
}

impl Pool {
    /// A thread gets a block.
    pub fn allocate(&mut self, memory: Addr, thread: Addr, seq: u64, len: Option<u64>) {
        let number = self.allocated;
        self.allocated = number.saturating_add(1);
        self.refused.remove(&thread);
        self.waits = None;
        self.owned(memory, thread, seq);
        if self.live.len() < MAX_BLOCKS && (self.rounds.len() < MAX_HOLDERS || self.rounds.contains_key(&thread)) {
            let rounds = self.rounds.entry(thread).or_default();
            let round = rounds.allocates();
            rounds.asked = Some((seq, memory));
            self.live.insert(memory, Block { start: memory, thread, seq, number, round, len, is_doubtful: false });
        } else {
            self.lost = true;
        }
    }

    fn owned(&mut self, memory: Addr, thread: Addr, seq: u64) {
        if self.owners.len() >= MAX_BLOCKS && !self.owners.contains_key(&memory) {
            return;
        }
        let owners = self.owners.entry(memory).or_default();
        owners.retain(|(owner, _)| *owner != thread);
        if owners.len() >= MAX_OWNERS {
            owners.remove(0);
        }
        owners.push((thread, seq));
    }

    /// The call with this event blocks: the kernel wrote no address yet, and the event has what the variable held before. It may
    /// be the address that the thread gets, so the block stays; nothing follows from it for rounds.
    pub fn doubts(&mut self, thread: Addr, seq: u64) {
        let asked = self.rounds.get_mut(&thread).and_then(|rounds| rounds.asked.take_if(|(asked, _)| *asked == seq));
        if let Some(block) = asked.and_then(|(_, memory)| self.live.get_mut(&memory)).filter(|block| block.seq == seq) {
            block.is_doubtful = true;
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

    /// An interrupt asks, which cannot wait: it gets a block, or nothing.
    pub fn interrupt_asks(&mut self, number: Option<u64>, memory: Addr, seq: u64, at: i64, len: Option<u64>) {
        if memory != 0 {
            self.leaves(memory);
            self.refused_interrupts.remove(&number);
        } else if self.refused_interrupts.len() < MAX_THREADS || self.refused_interrupts.contains_key(&number) {
            let first = Refused { times: 0, first: (seq, at), last: seq, len };
            let refused = self.refused_interrupts.entry(number).or_insert(first);
            *refused = Refused { times: refused.times.saturating_add(1), last: seq, len, ..*refused };
        }
    }

    /// A block is given back. `is_handed_over`: a thread that waits for memory gets it.
    pub fn release(&mut self, memory: Addr, by: Giver, seq: u64, is_handed_over: bool) {
        self.release_by(memory, by, seq, is_handed_over, None);
    }

    /// The same of a thread that has sent a message before.
    pub fn release_by(&mut self, memory: Addr, by: Giver, seq: u64, is_handed_over: bool, sent: Option<Sent>) {
        let freed = self.freed.get(&memory).copied().filter(|_| !self.lost && !self.live.contains_key(&memory));
        let twice = freed.map(|first| Twice { start: memory, first, by, seq });
        self.twice = self.twice.or(twice);
        self.waits = None;
        if self.releases.len() < MAX_BLOCKS || self.releases.contains_key(&memory) {
            self.releases.insert(memory, (by, seq));
        }
        if let Some(block) = self.live.remove(&memory) {
            let age = self.allocated.saturating_sub(block.number);
            if self.oldest.len() < MAX_HOLDERS || self.oldest.contains_key(&block.thread) {
                let oldest = self.oldest.entry(block.thread).or_default();
                *oldest = age.max(*oldest);
            }
            let times = self.released.entry(by).or_default();
            *times = times.saturating_add(1);
            if let Some(rounds) = self.rounds.get_mut(&block.thread).filter(|_| !block.is_doubtful) {
                rounds.releases(block.round);
            }
            if self.freed.len() >= MAX_BLOCKS {
                self.freed.pop_first();
            }
            let freed = Freed { block, by, seq };
            self.freed.insert(memory, freed);
            let own = sent.filter(|sent| by == Giver::Thread(block.thread) && sent.seq > block.seq);
            if let Some(sent) = own.filter(|_| self.sent.len() < MAX_BLOCKS || self.sent.contains_key(&memory)) {
                let all = self.sent.entry(memory).or_default();
                if all.len() >= MAX_SENT {
                    all.remove(0);
                }
                all.push(SentAndFreed { sent, freed });
            }
        }
        if is_handed_over {
            self.freed.remove(&memory);
        }
    }

    /// Something that is no thread gets a block.
    pub fn leaves(&mut self, memory: Addr) {
        self.freed.remove(&memory);
    }

    /// Events are missing: what is allocated is not known any more.
    pub fn forget(&mut self) {
        self.live.clear();
        self.owners.clear();
        self.freed.clear();
        self.sent.clear();
        self.rounds.clear();
        self.refused.clear();
        self.refused_interrupts.clear();
        self.waits = None;
    }

    /// The block that was released last of those that held an address.
    pub fn held(&self, at: Addr) -> Option<(Addr, Freed)> {
        let holds = |(start, freed): &(&Addr, &Freed)| {
            at.checked_sub(**start).is_some_and(|into| into < freed.block.len.unwrap_or(0))
        };
        let found = self.freed.iter().filter(holds).max_by_key(|(_, freed)| freed.seq);
        found.map(|(start, freed)| (*start, *freed))
    }

    /// Who released the block at each address last, and the event.
    pub fn releases_to(&self) -> impl Iterator<Item = (Addr, (Giver, u64))> {
        self.releases.iter().map(|(start, by)| (*start, *by))
    }

    /// Who released the block at an address last, and the event.
    pub fn released(&self, start: Addr) -> Option<(Giver, u64)> {
        self.releases.get(&start).copied()
    }

    /// The block that begins at an address, as it was released last.
    pub fn freed(&self, start: Addr) -> Option<Freed> {
        self.freed.get(&start).copied()
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

    /// Blocks that were left behind: they are kept far longer than any of their thread that was released, and a block of a later
    /// round of it was released; of two later rounds for at least one of them. What a thread allocates and releases in one burst
    /// is in use until then.
    pub fn left_behind(&self) -> Vec<Block> {
        let patience = |oldest: u64| oldest.saturating_mul(2).saturating_add(1);
        let oldest = |block: &Block| self.oldest.get(&block.thread).copied().unwrap_or_default();
        let is_old = |block: &Block| self.allocated.saturating_sub(block.number) > patience(oldest(block));
        let rounds = |block: &Block| self.rounds.get(&block.thread).copied().unwrap_or_default();
        let kept = self.sorted(|block| is_old(block) && rounds(block).are_past(block.round));
        let long = kept.iter().filter(|block| rounds(block).are_long_past(block.round));
        let threads: BTreeSet<Addr> = long.map(|block| block.thread).collect();
        kept.into_iter().filter(|block| threads.contains(&block.thread)).collect()
    }

    /// Blocks of threads of which no block was released.
    pub fn never_released(&self) -> Vec<Block> {
        let is_none = |block: &Block| self.rounds.get(&block.thread).is_some_and(|rounds| rounds.released.0.is_none());
        self.sorted(is_none)
    }

    fn sorted(&self, is_kept: impl Fn(&Block) -> bool) -> Vec<Block> {
        if self.lost {
            return Vec::new();
        }
        let mut kept: Vec<Block> =
            self.live.values().copied().filter(|block| !block.is_doubtful && is_kept(block)).collect();
        kept.sort_by_key(|block| block.number);
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block that its owner releases though it has sent it, and one that it releases as no message has left it.
    #[test]
    fn a_block_that_was_sent_before_its_thread_released_it() {
        let mut pool = Pool::default();
        let sent = |seq| Some(Sent { queue: 0x300, seq, held: 0 });
        pool.allocate(0x1000, MQTT, 5, None);
        pool.release_by(0x1000, Giver::Thread(MQTT), 7, false, sent(3));
        assert_eq!(pool.sent.get(&0x1000), None, "the message was sent before");
        pool.allocate(0x1000, MQTT, 10, None);
        pool.release_by(0x1000, Giver::Thread(MQTT), 14, false, sent(12));
        pool.allocate(0x1000, MQTT, 20, None);
        pool.release_by(0x1000, Giver::Thread(TLS), 24, false, sent(22));
        let all = pool.sent.get(&0x1000).unwrap();
        assert_eq!(all.iter().map(|one| (one.sent.seq, one.freed.seq)).collect::<Vec<_>>(), [(12, 14)]);
    }

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
    fn an_interrupt_that_gets_no_memory_was_not_counted() {
        let mut pool = Pool::default();
        (0..9).for_each(|seq| pool.interrupt_asks(Some(24), 0, seq, 0, None));
        assert_eq!(pool.refused_interrupts.get(&Some(24)).map(|r| (r.times, r.first.0, r.last)), Some((9, 0, 8)));
        pool.interrupt_asks(Some(24), 0x1000, 9, 0, None);
        assert!(pool.refused_interrupts.is_empty(), "it got a block");
    }

    #[test]
    fn one_thread_has_all_blocks() {
        let mut pool = Pool::default();
        (0..4).for_each(|n| pool.allocate(0x1000 + 68 * n, TLS, 10 + n, None));
        assert_eq!(pool.only(4).map(|block| (block.thread, block.seq)), Some((TLS, 13)));
        assert_eq!(pool.only(5), None, "one was allocated before the first event");
        pool.release(0x1000, Giver::Thread(TLS), 20, false);
        assert_eq!(pool.only(4), None, "one is free, or a thread has it that no event shows");
        pool.allocate(0x1000, MQTT, 21, None);
        assert_eq!(pool.only(4), None, "another thread has one");
    }

    /// Four blocks in a burst, which `left` of them outlive, for each of these addresses.
    fn bursts(pool: &mut Pool, at: &[Addr], left: usize) {
        for start in at {
            let blocks: Vec<Addr> = (*start..).take(4).collect();
            blocks.iter().for_each(|block| pool.allocate(*block, TLS, *block, None));
            // The newest first: blocks that were allocated later are released while older ones are in use.
            let released = blocks.iter().skip(left).rev();
            released.for_each(|block| pool.release(*block, Giver::Thread(TLS), *block, false));
        }
    }

    #[test]
    fn an_allocation_that_blocks_has_the_address_of_an_older_block() {
        let ends = |blocks: bool| {
            let mut pool = Pool::default();
            pool.allocate(0x1000, TLS, 1, None);
            if blocks {
                pool.doubts(TLS, 1);
            }
            pool.release(0x1000, Giver::Thread(MQTT), 2, true);
            pool.rounds.get(&TLS).and_then(|rounds| rounds.released.0)
        };
        assert_eq!(ends(false), Some(0));
        assert_eq!(ends(true), None, "it may have been a block of another thread");
    }

    #[test]
    fn bursts_that_are_held_and_released_together_leave_nothing_behind() {
        let mut pool = Pool::default();
        // Blocks of another thread make the pool's age grow meanwhile.
        let others = |pool: &mut Pool| {
            for n in 0..20 {
                pool.allocate(0x9000, MQTT, n, None);
                pool.release(0x9000, Giver::Thread(MQTT), n, false);
            }
        };
        (0..4).for_each(|n| pool.allocate(0x1000 + n, TLS, n, None));
        others(&mut pool);
        assert_eq!(pool.left_behind(), [], "the first burst is in use");
        pool.release(0x1003, Giver::Thread(TLS), 90, false);
        pool.release(0x1002, Giver::Thread(TLS), 91, false);
        others(&mut pool);
        assert_eq!(pool.left_behind(), [], "it stops in the middle of the releases of one burst");
    }

    #[test]
    fn a_thread_that_keeps_its_blocks_for_long_hid_the_leak_of_another_one() {
        let mut pool = Pool::default();
        // A log has the newest six of its blocks.
        for n in 0..40 {
            pool.allocate(0x9000 + n, MQTT, n, None);
            (6..=n).rev().take(1).for_each(|n| pool.release(0x9000 + n - 6, Giver::Thread(MQTT), n, false));
            pool.allocate(0x1000 + n, TLS, n, None);
            // It does not release one of ten.
            (0..10).any(|of| n % 10 == of && of > 0).then(|| pool.release(0x1000 + n, Giver::Thread(TLS), n, false));
        }
        let left: Vec<Addr> = pool.left_behind().iter().map(|block| block.start).collect();
        assert_eq!(left, [0x1000, 0x100A, 0x1014, 0x101E]);
    }

    #[test]
    fn a_block_that_two_later_rounds_outlived_is_left_behind() {
        let mut pool = Pool::default();
        bursts(&mut pool, &[0x1000, 0x1100], 1);
        assert_eq!(pool.left_behind(), [], "one later round may be chance");
        let mut pool = Pool::default();
        bursts(&mut pool, &[0x1000, 0x1100, 0x1200, 0x1300, 0x1400, 0x1500], 1);
        let seqs: Vec<u64> = pool.left_behind().iter().map(|block| block.seq).collect();
        assert_eq!(seqs, [0x1000, 0x1100, 0x1200, 0x1300, 0x1400], "not the newest");
        let mut pool = Pool::default();
        bursts(&mut pool, &[0x1000, 0x1100, 0x1200, 0x1300, 0x1400, 0x1500], 0);
        assert_eq!(pool.left_behind(), []);
    }

    #[test]
    fn another_thread_may_release_the_later_blocks() {
        let mut pool = Pool::default();
        for n in 0..20 {
            pool.allocate(0x1000 + n, TLS, n, None);
            if n % 5 != 4 {
                pool.release(0x1000 + n, Giver::Thread(MQTT), n, false);
            }
        }
        let seqs: Vec<u64> = pool.left_behind().iter().map(|block| block.seq).collect();
        assert_eq!(seqs, [4, 9, 14]);
        assert_eq!(pool.never_released(), []);
    }

    #[test]
    fn a_thread_that_releases_nothing_may_be_in_its_first_round() {
        let mut pool = Pool::default();
        (0..4).for_each(|n| pool.allocate(0x1000 + n, TLS, n, None));
        assert_eq!((pool.left_behind().len(), pool.never_released().len()), (0, 4));
    }
}
