//! Locks that threads ask for and do not get, and waits behind less urgent owners.

use std::collections::BTreeMap;

use crate::abi::Addr;
use crate::analysis::Inverted;

/// The most pairs of thread and lock that are followed.
const MAX: usize = 4096;

/// How often a thread asked for a lock and did not get it, since it last had it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failed {
    /// How often.
    pub times: u64,
    /// Who had the lock each time; `None` where that changed, or is not known.
    pub owner: Option<Addr>,
    /// The first and the last event.
    pub seqs: (u64, u64),
}

/// A lock that a thread gave back without having it: the kernel refuses that, and the thread may have used what the lock protects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotOwned {
    /// The lock, as the trace stores its address.
    pub lock: Addr,
    /// The event that gave it back.
    pub put: u64,
    /// The event in which it last asked for the lock in vain, or its wait ended in vain; `None` where none is seen.
    pub failed: Option<u64>,
}

/// All of them.
#[derive(Debug, Default)]
pub struct Tries {
    /// By thread and lock.
    pub failed: BTreeMap<(Addr, Addr), Failed>,
    /// The last of each thread, since it last had that lock.
    not_owned: BTreeMap<Addr, NotOwned>,
}

impl Tries {
    /// A thread asks and does not get it.
    pub fn fails(&mut self, thread: Addr, lock: Addr, owner: Option<Addr>, seq: u64) {
        if self.failed.len() >= MAX && !self.failed.contains_key(&(thread, lock)) {
            return;
        }
        let failed = self.failed.entry((thread, lock)).or_insert(Failed { times: 0, owner, seqs: (seq, seq) });
        failed.times = failed.times.saturating_add(1);
        failed.seqs.1 = seq;
        if failed.owner != owner {
            failed.owner = None;
        }
    }

    /// A thread gets a lock.
    pub fn succeeds(&mut self, thread: Addr, lock: Addr) {
        self.failed.remove(&(thread, lock));
        if self.not_owned(thread).is_some_and(|one| one.lock == lock) {
            self.not_owned.remove(&thread);
        }
    }

    /// A thread gives back a lock that it does not have.
    pub fn is_refused(&mut self, thread: Addr, lock: Addr, put: u64) {
        if self.not_owned.len() < MAX || self.not_owned.contains_key(&thread) {
            let failed = self.failed.get(&(thread, lock)).map(|failed| failed.seqs.1);
            self.not_owned.insert(thread, NotOwned { lock, put, failed });
        }
    }

    /// A thread blocks: what it did without the lock is over.
    pub fn goes_on(&mut self, thread: Addr) {
        self.not_owned.remove(&thread);
    }

    /// The lock that a thread gave back last without having it, where it has neither blocked nor got the lock since. Its address is as
    /// the trace stores it.
    pub fn not_owned(&self, thread: Addr) -> Option<NotOwned> {
        self.not_owned.get(&thread).copied()
    }

    /// Events are missing.
    pub fn forget(&mut self) {
        self.failed.clear();
        self.not_owned.clear();
    }
}

/// A wait for a lock that a less urgent thread has, still on at the end of the trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inversion {
    /// Who waits, as the trace stores its address.
    pub waiter: Addr,
    /// Who has the lock.
    pub owner: Addr,
    /// The lock.
    pub lock: Addr,
    /// Ticks so far.
    pub waited: i64,
    /// Who ran instead of the owner most, and how long.
    pub culprit: Addr,
    /// Ticks.
    pub ran: i64,
    /// Ticks for which it is not known who ran: an interrupt, or the thread below it.
    pub unknown: i64,
    /// Priorities of waiter and owner.
    pub priorities: (u64, u64),
    /// The event with which it began.
    pub from: u64,
    /// The event with which it ended; `None` where it goes on.
    pub to: Option<u64>,
}

/// Those that are still on, in the order in which they began, and the longest that is over; `end`: ticks of the last event.
pub fn inversions(mut all: Vec<Inverted>, end: i64) -> (Vec<Inversion>, Option<Inversion>) {
    all.sort_by_key(|one| one.from);
    let of = |one: Inverted| {
        let ((ticks, from), (waiter, owner)) = (one.from?, one.priorities);
        Some(Inversion {
            waiter: one.waiter,
            owner: one.owner,
            lock: one.lock,
            waited: one.to.map_or(end, |(to, _)| to).saturating_sub(ticks),
            culprit: one.culprit?,
            ran: one.ran,
            unknown: one.unknown,
            priorities: (waiter?.into(), owner?.into()),
            from,
            to: one.to.map(|(_, to)| to),
        })
    };
    let (open, past): (Vec<_>, Vec<_>) = all.into_iter().filter_map(of).partition(|one| one.to.is_none());
    (open, past.into_iter().max_by_key(|one| one.waited))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread went on after its wait for a mutex had ended in vain, and nothing was said of it.
    #[test]
    fn a_lock_that_was_given_back_without_having_it() {
        let (thread, lock, other) = (1, 2, 3);
        let mut tries = Tries::default();
        tries.fails(thread, lock, Some(other), 7);
        tries.is_refused(thread, lock, 9);
        assert_eq!(tries.not_owned(thread), Some(NotOwned { lock, put: 9, failed: Some(7) }));
        assert_eq!(tries.not_owned(other), None);
        tries.succeeds(thread, other);
        assert!(tries.not_owned(thread).is_some(), "another lock");
        tries.succeeds(thread, lock);
        assert_eq!(tries.not_owned(thread), None);
        tries.is_refused(thread, lock, 12);
        assert_eq!(tries.not_owned(thread), Some(NotOwned { lock, put: 12, failed: None }));
        tries.goes_on(thread);
        assert_eq!(tries.not_owned(thread), None, "it has blocked since");
        tries.is_refused(thread, lock, 15);
        tries.forget();
        assert_eq!(tries.not_owned(thread), None);
    }
}
