//! What the events show of one object: who takes from it, who gives, and who has not given back.

use std::collections::{BTreeMap, BTreeSet};

use super::Now;
use super::away::Away;
use super::counted::{self, Counted};
use super::late::Late;
use super::pools::{Pool, Sent};
use super::refusals::Refusals;
use super::untaken::{Short, Untaken};
use crate::abi::Addr;
use crate::analysis::tracker::System;
use crate::kernel::Wanted;

/// The most threads that are remembered of an object.
const MAX_THREADS: usize = 64;

/// A thread that took an instance of a semaphore, or a message, by an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// The thread, as the trace stores its address.
    pub thread: Addr,
    /// The event.
    pub seq: u64,
    /// Its ticks.
    pub at: i64,
    /// How often the thread had blocked before.
    pub blocks: u64,
}

/// Who gives something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Giver {
    /// A thread, as the trace stores its address.
    Thread(Addr),
    /// An interrupt, with its number where that is known.
    Interrupt(Option<u64>),
    /// Another context.
    Other,
}

/// What one giver gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Given {
    /// How often.
    pub times: u64,
    /// The newest event.
    pub seq: u64,
    /// All event flags that it set.
    pub flags: u64,
    /// Those that it set last, and those that it set before.
    pub last: u64,
    pub before: u64,
}

/// How often a thread has a mutex after each of its puts, since that became less or it gave the mutex back for the last time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    /// The thread, as the trace stores its address.
    pub thread: Addr,
    /// How often it has the mutex.
    pub level: u64,
    /// Puts that left it with the mutex.
    pub puts: u64,
    /// How often the level became more.
    pub raises: u64,
    /// The event of the first of these puts.
    pub seq: u64,
}

/// Waits for an object that ended by a time-out one after the other, without a put between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeOuts {
    /// How many.
    pub times: u64,
    /// The event that ended the first.
    pub seq: u64,
    /// Who waited; `None` where not all were of one thread.
    pub thread: Option<Addr>,
}

/// What a queue held each time that a thread asked for a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// How often.
    pub times: u64,
    /// The fewest messages.
    pub fewest: u64,
    /// The first event and the last.
    pub seqs: (u64, u64),
}

impl Found {
    /// Once more.
    const fn again(so_far: Option<Self>, held: u64, seq: u64) -> Self {
        match so_far {
            Some(Self { times, fewest, seqs }) => Self {
                times: times.saturating_add(1),
                fewest: if held < fewest { held } else { fewest },
                seqs: (seqs.0, seq),
            },
            None => Self { times: 1, fewest: held, seqs: (seq, seq) },
        }
    }
}

/// The most messages that a queue held when something was sent to it without a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fullest {
    /// So many messages.
    pub held: u64,
    /// How often it held so many.
    pub times: u64,
    /// The last event.
    pub seq: u64,
}

impl Fullest {
    /// Once more.
    const fn again(so_far: Option<Self>, held: u64, seq: u64) -> Self {
        match so_far {
            Some(most) if held < most.held => most,
            Some(most) if held == most.held => Self { times: most.times.saturating_add(1), seq, ..most },
            _ => Self { held, times: 1, seq },
        }
    }
}

/// How often one after the other a thread sent to a queue without a wait and found the same number of messages in it. What interrupts
/// send meanwhile does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SentAgain {
    /// The thread, as the trace stores its address.
    pub thread: Addr,
    /// So many messages.
    pub held: u64,
    /// How often.
    pub times: u64,
    /// The last event.
    pub seq: u64,
}

impl SentAgain {
    /// Once more.
    fn again(so_far: Option<Self>, thread: Addr, held: u64, seq: u64) -> Self {
        let before = so_far.filter(|so_far| (so_far.thread, so_far.held) == (thread, held));
        Self { thread, held, times: before.map_or(1, |before| before.times.saturating_add(1)), seq }
    }
}

/// One object.
#[derive(Debug, Clone, Default)]
pub struct One {
    /// Who took and did not give back.
    pub held: Vec<Taken>,
    /// Puts by a thread that held it then.
    pub own_puts: u64,
    /// The longest that a thread held it, in ticks.
    pub longest_hold: i64,
    /// Who gives.
    pub givers: BTreeMap<Giver, Given>,
    /// Every thread that takes.
    pub takers: BTreeSet<Addr>,
    /// The newest event in which each thread asks for it.
    pub asked_in: BTreeMap<Addr, u64>,
    /// How often threads asked for something.
    pub asks: u64,
    /// True where an interrupt, or another context that is no thread, takes too.
    pub is_taken_elsewhere: bool,
    /// The longest wait that is over, in ticks.
    pub longest_wait: i64,
    /// The same in events, for a trace whose clock does not run.
    pub longest_wait_in_events: u64,
    /// Waits that ended by a time-out since the last put.
    pub time_outs: Option<TimeOuts>,
    /// What came soon after such a wait.
    pub late: Late,
    /// Event flags that some thread asked for.
    pub asked: u64,
    /// Event flags that threads took away.
    pub away: Away,
    /// What each thread asked for last.
    pub wanted: BTreeMap<Addr, Wanted>,
    /// Its memory, where it is a pool.
    pub pool: Pool,
    /// Puts of a mutex that left it with its owner.
    pub kept: Option<Kept>,
    /// Puts of which no event takes anything.
    pub untaken: Option<Untaken>,
    /// What it held each time that something was asked of it.
    pub found: Option<Found>,
    /// The most that it held when something was put into it without a wait.
    pub fullest: Option<Fullest>,
    /// Messages that it refused.
    pub refusals: Option<Refusals>,
    /// The thread that sent to a queue last without a wait.
    pub sent_again: Option<SentAgain>,
    /// Releases or sets in a row while a thread waits, which gets nothing.
    pub short: Option<Short>,
    /// What it counts, where it is a queue.
    pub(super) counted: Counted,
    /// True where it is among those that a gap makes unknown.
    pub(super) is_listed: bool,
}

impl One {
    /// A thread asks for something.
    pub fn taker(&mut self, thread: Addr) {
        self.untaken = None;
        self.late.asks();
        self.asks = self.asks.saturating_add(1);
        if self.takers.len() < MAX_THREADS {
            self.takers.insert(thread);
        }
    }

    /// What it holds when a thread asks for something.
    pub fn finds(&mut self, held: u64, seq: u64) {
        self.found = Some(Found::again(self.found, held, seq));
    }

    /// The event in which a thread asks for something.
    pub fn asks_in(&mut self, thread: Addr, seq: u64) {
        if self.asked_in.len() < MAX_THREADS || self.asked_in.contains_key(&thread) {
            self.asked_in.insert(thread, seq);
        }
    }

    /// A thread has an instance.
    pub fn take(&mut self, taken: Taken) {
        if self.held.len() < MAX_THREADS {
            self.held.push(taken);
        }
    }

    /// A wait of a thread for it ends by a time-out.
    pub fn times_out(&mut self, thread: Addr, seq: u64, at: i64, waited: i64) {
        self.late.times_out(thread, at, waited);
        let all = self.time_outs.get_or_insert(TimeOuts { times: 0, seq, thread: Some(thread) });
        all.times = all.times.saturating_add(1);
        all.thread = all.thread.filter(|before| *before == thread);
    }

    /// Somebody gives.
    pub fn give(&mut self, by: Giver, seq: u64, at: i64, flags: u64) {
        self.time_outs = None;
        self.late.given(seq, at);
        self.away.set(by, flags, seq);
        if self.givers.len() < MAX_THREADS || self.givers.contains_key(&by) {
            let given = self.givers.entry(by).or_default();
            *given = Given {
                times: given.times.saturating_add(1),
                seq,
                flags: given.flags | flags,
                last: flags,
                before: given.flags,
            };
        }
        match self.held.iter().position(|taken| Giver::Thread(taken.thread) == by) {
            Some(index) => {
                let taken = self.held.remove(index);
                self.longest_hold = self.longest_hold.max(at.saturating_sub(taken.at));
                self.own_puts = self.own_puts.saturating_add(1);
            }
            None if !self.held.is_empty() => {
                self.held.remove(0);
            }
            None => {}
        }
    }

    /// Events are missing: who holds what is not known any more; who reads what is.
    pub fn forget(&mut self) {
        self.held.clear();
        self.away.forget();
        self.late.asks();
        (self.kept, self.untaken, self.short, self.time_outs) = (None, None, None, None);
        (self.found, self.fullest, self.sent_again, self.counted) = (None, None, None, Counted::default());
        self.pool.forget();
        self.is_listed = false;
    }

    /// A thread gives a mutex back that it had so often.
    pub fn unlock(&mut self, thread: Addr, had: u64, seq: u64) {
        let Some(level) = had.checked_sub(1).filter(|level| *level > 0) else {
            self.kept = None;
            return;
        };
        let same = self.kept.filter(|kept| kept.thread == thread && kept.level <= level);
        let kept = same.unwrap_or(Kept { thread, level, puts: 0, raises: 0, seq });
        let raises = kept.raises.saturating_add(u64::from(level > kept.level));
        self.kept = Some(Kept { level, raises, puts: kept.puts.saturating_add(1), ..kept });
    }

    /// The thread that took most and did not give back, and what it took, of a semaphore of which several are taken; by the
    /// same signs as for a lock.
    pub fn hoard(&self) -> Option<(Addr, Vec<Taken>)> {
        let takes = |by: &Giver| matches!(by, Giver::Thread(thread) if self.takers.contains(thread));
        if self.held.len() < 2 || self.own_puts == 0 || !self.givers.keys().all(takes) {
            return None;
        }
        let mut by: BTreeMap<Addr, Vec<Taken>> = BTreeMap::new();
        self.held.iter().for_each(|taken| by.entry(taken.thread).or_default().push(*taken));
        by.into_iter().max_by_key(|(_, taken)| taken.len())
    }

    /// The only holder of a semaphore that is used as a lock: who gives takes, too, and at least one put is seen of a thread
    /// that had taken it before. One that was taken and never put by a thread is a signal that was consumed.
    pub fn holder(&self) -> Option<Taken> {
        let takes = |by: &Giver| matches!(by, Giver::Thread(thread) if self.takers.contains(thread));
        match self.held.as_slice() {
            [only] if self.givers.keys().all(takes) && self.own_puts > 0 => Some(*only),
            _ => None,
        }
    }
}

impl super::Events {
    /// The count that a semaphore was created with, by the registry of the trace.
    #[must_use]
    pub fn initial(&self, semaphore: Addr) -> Option<u64> {
        self.initial.get(&(semaphore & self.mask)).copied()
    }

    /// The last event that created a thread or an object.
    #[must_use]
    pub fn created(&self, object: Addr) -> Option<u64> {
        self.created.get(&(object & self.mask)).copied()
    }

    /// The threads that take from an object, as the trace stores their addresses.
    #[must_use]
    pub fn takers(&self, object: Addr) -> BTreeSet<Addr> {
        self.object(object).map_or_else(BTreeSet::new, |one| one.takers.clone())
    }

    /// Something is given. `waits`: how long the caller would wait.
    pub(super) fn put(&mut self, now: &Now<'_>, object: Addr, by: Giver, waits: Option<u64>, system: &System<'_>) {
        let Now { event, words, places: fields, .. } = *now;
        let (memory, flags) = (fields.memory(event, words), fields.flags(words).unwrap_or(0));
        let is_handed_over = fields.is_handed_over(words);
        let object = memory.and_then(|memory| self.pool_of(memory, object)).unwrap_or(object);
        let held = fields.held(words);
        let sent = self.sent(by, held.map(|held| Sent { queue: object, seq: event.seq, held }), system);
        if let (Giver::Thread(thread), Some(buffer)) = (by, fields.buffer(words).filter(|buffer| *buffer != 0)) {
            let ready = system.find_thread(thread).and_then(|no| self.does(no)).and_then(|activity| activity.woken);
            self.same_buffer.sent(thread, (object, buffer, event.seq), ready);
        }
        let (numbers, room) = (self.had, counted::room(now, object, system.trace));
        let Some(one) = self.one(object) else { return };
        one.give(by, event.seq, event.ticks, flags);
        if let Some(kept) = fields.kept(words) {
            one.away.clear(by, kept, event.seq);
        }
        if let Some(held) = held {
            room.into_iter().for_each(|room| one.counted.next(event.seq, held, room, &numbers));
            if waits == Some(0) {
                one.fullest = Some(Fullest::again(one.fullest, held, event.seq));
                Refusals::sent(one, object, (by, held, event.seq), system);
                if let Giver::Thread(thread) = by {
                    one.sent_again = Some(SentAgain::again(one.sent_again, thread, held, event.seq));
                }
            }
            one.untaken = Some(Untaken::put(one.untaken, held, event.seq, event.ticks));
        }
        one.short = Short::give(one.short, fields.free(words), event.seq, event.ticks);
        if let Some(memory) = memory {
            one.pool.release_by(memory, by, event.seq, is_handed_over, sent);
        }
    }

    /// What a thread sent last; `sends`: what it sends now.
    fn sent(&mut self, by: Giver, sends: Option<Sent>, system: &System<'_>) -> Option<Sent> {
        let Giver::Thread(thread) = by else { return None };
        let activity = self.does(system.find_thread(thread)?)?;
        activity.sent = sends.or(activity.sent);
        activity.sent
    }

    /// The pool that a block was released to before, where an event names as its pool what no event named: the kernel takes the
    /// word in front of a block for the address of its pool, and that of a free block is a link.
    fn pool_of(&self, memory: Addr, named: Addr) -> Option<Addr> {
        if self.numbers.find(named).is_some() {
            return None;
        }
        self.objects.iter().find(|(_, one)| one.pool.freed(memory).is_some()).map(|(pool, _)| *pool)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CARD: Addr = 0x100;

    fn taken(seq: u64) -> Taken {
        Taken { thread: CARD, seq, at: 0, blocks: 0 }
    }

    #[test]
    fn a_mutex_that_is_taken_more_often_than_given_back() {
        let mut one = One::default();
        // A recursive function takes it three times, and gives it back as often.
        [3, 2, 1].into_iter().for_each(|had| one.unlock(CARD, had, 1));
        assert_eq!(one.kept, None);
        // Each second of its calls returns without a put.
        [2, 2, 3, 3, 4, 4].into_iter().enumerate().for_each(|(n, had)| one.unlock(CARD, had, 10 + n as u64));
        assert_eq!(one.kept, Some(Kept { thread: CARD, level: 3, puts: 6, raises: 2, seq: 10 }));
        one.unlock(CARD, 3, 20);
        assert_eq!(one.kept, Some(Kept { thread: CARD, level: 2, puts: 1, raises: 0, seq: 20 }), "it was given back");
    }

    /// Waits that were tried again and again were as short as the last one.
    #[test]
    fn waits_that_time_out_one_after_the_other_were_counted_as_one() {
        let mut one = One::default();
        [5, 9].into_iter().for_each(|seq| one.times_out(CARD, seq, 0, 0));
        assert_eq!(one.time_outs, Some(TimeOuts { times: 2, seq: 5, thread: Some(CARD) }));
        one.give(Giver::Interrupt(None), 10, 20, 0);
        assert_eq!(one.time_outs, None, "it was put");
        one.times_out(CARD, 12, 0, 0);
        assert_eq!(one.time_outs, Some(TimeOuts { times: 1, seq: 12, thread: Some(CARD) }));
        one.times_out(CARD + 1, 14, 0, 0);
        assert_eq!(one.time_outs, Some(TimeOuts { times: 2, seq: 12, thread: None }), "each waited once");
        one.forget();
        assert_eq!(one.time_outs, None, "a put may be among the events that are missing");
    }

    #[test]
    fn the_most_that_a_queue_held_when_it_was_sent_to() {
        let all = [(7, 1), (8, 2), (6, 3), (8, 4)].into_iter();
        let fullest = all.fold(None, |so_far, (held, seq)| Some(Fullest::again(so_far, held, seq)));
        assert_eq!(fullest, Some(Fullest { held: 8, times: 2, seq: 4 }));
    }

    /// What several threads sent in all of the trace was taken for tries of one.
    #[test]
    fn tries_of_one_thread_one_after_the_other() {
        let sent = |all: &[(Addr, u64)]| {
            let all = all.iter().zip(1..);
            all.fold(None, |so_far, ((thread, held), seq)| Some(SentAgain::again(so_far, *thread, *held, seq)))
        };
        let last = |thread, held, times, seq| Some(SentAgain { thread, held, times, seq });
        assert_eq!(sent(&[(1, 8), (1, 8), (1, 8)]), last(1, 8, 3, 3));
        assert_eq!(sent(&[(1, 8), (1, 8), (2, 8), (1, 8)]), last(1, 8, 1, 4), "another thread");
        assert_eq!(sent(&[(1, 8), (1, 7), (1, 8), (1, 8)]), last(1, 8, 2, 4), "a message was taken");
    }

    #[test]
    fn what_a_reader_found_each_time() {
        let mut one = One::default();
        [(16, 3), (16, 7), (15, 9)].into_iter().for_each(|(held, seq)| one.finds(held, seq));
        assert_eq!(one.found, Some(Found { times: 3, fewest: 15, seqs: (3, 9) }));
        one.forget();
        assert_eq!(one.found, None);
    }

    #[test]
    fn a_signal_that_was_taken_once_is_no_lock() {
        let mut one = One::default();
        one.taker(CARD);
        one.take(taken(1));
        assert_eq!(one.holder(), None, "no thread ever gave it back");
        one.give(Giver::Thread(CARD), 2, 5, 0);
        one.take(taken(3));
        assert_eq!(one.holder(), Some(taken(3)));
        one.give(Giver::Interrupt(Some(9)), 4, 6, 0);
        one.take(taken(5));
        assert_eq!(one.holder(), None, "an interrupt gives it");
    }
}
