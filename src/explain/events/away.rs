//! Event flags that are used as a lock: a thread takes some away (it gets them with `TX_OR_CLEAR` or `TX_AND_CLEAR`), and sets them
//! again when it is done. And flags that a call clears, whether a thread has asked for them since they were set or not.

use std::collections::{BTreeMap, BTreeSet};

use super::objects::Giver;
use super::words::Cleared;
use crate::abi::Addr;

/// The most threads that are remembered.
const MAX_THREADS: usize = 64;

/// Flags that a thread took, and nobody has set since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TakenFlags {
    /// The thread, as the trace stores its address.
    pub thread: Addr,
    /// The flags.
    pub flags: u64,
    /// The event.
    pub seq: u64,
}

/// Flags that a call cleared which keeps others (`tx_event_flags_set` with `TX_AND`), and nobody has set since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClearedFlags {
    /// Who called.
    pub by: Giver,
    /// The flags that it keeps.
    pub kept: u64,
    /// Those that it cleared, without those that were set since.
    pub flags: u64,
    /// The event.
    pub seq: u64,
    /// What it cleared that another had set, and that no thread had asked for since.
    pub unread: Option<SetFlags>,
    /// How often the same call has found no such flags before.
    pub times: u64,
}

/// Flags that a thread gets again and again, and leaves set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeftSet {
    /// Those that it got each time.
    pub flags: u64,
    /// How often.
    pub times: u64,
    /// The newest event.
    pub seq: u64,
}

/// Flags that were set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetFlags {
    /// By whom.
    pub by: Giver,
    /// The flags.
    pub flags: u64,
    /// The event.
    pub seq: u64,
}

/// Flags that a thread asks for at once again and again, of which some are never there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lacking {
    /// Those that it asks for.
    pub wanted: u64,
    /// Those of them that were there the last time.
    pub there: u64,
    /// Those that were there no time, and that nobody has set since the first.
    pub missing: u64,
    /// How often it asked.
    pub times: u64,
    /// The first event and the last.
    pub seqs: (u64, u64),
}

/// The flags of one group.
#[derive(Debug, Clone, Default)]
pub struct Away {
    /// What was taken and not set since.
    taken: Vec<TakenFlags>,
    /// What threads take away when their calls return.
    asked: BTreeMap<Addr, u64>,
    /// Flags that a thread set which had taken them: how often is no matter.
    returned: BTreeMap<Addr, u64>,
    /// Every thread that takes some away.
    takers: BTreeSet<Addr>,
    /// What threads got without a wait and left set, since they last waited for flags.
    left: BTreeMap<Addr, LeftSet>,
    /// What calls cleared, the newest last.
    cleared: Vec<ClearedFlags>,
    /// How often a call, by who clears and what it keeps, has found nothing of others.
    calls: BTreeMap<(Giver, u64), u64>,
    /// What was set, and no thread has asked for since, the newest last.
    unread: Vec<SetFlags>,
    /// What threads lack, since they last got all.
    lacking: BTreeMap<Addr, Lacking>,
}

impl Away {
    /// A thread asks.
    pub fn get(&mut self, thread: Addr, cleared: Cleared, seq: u64) {
        if self.asked.len() >= MAX_THREADS && !self.asked.contains_key(&thread) {
            return;
        }
        self.asked.insert(thread, cleared.asked);
        self.lacks(thread, cleared.lacks, seq);
        if cleared.asked != 0 {
            self.takers.insert(thread);
        }
        if cleared.left == 0 {
            self.left.remove(&thread);
        } else {
            let left = self.left.entry(thread).or_insert(LeftSet { flags: cleared.left, times: 0, seq });
            *left = LeftSet { flags: left.flags & cleared.left, times: left.times.saturating_add(1), seq };
        }
        self.take(thread, cleared.taken, seq);
    }

    fn lacks(&mut self, thread: Addr, lacks: Option<(u64, u64)>, seq: u64) {
        let Some((wanted, there)) = lacks else {
            self.lacking.remove(&thread);
            return;
        };
        let new = Lacking { wanted, there, missing: wanted & !there, times: 0, seqs: (seq, seq) };
        let one = self.lacking.entry(thread).or_insert(new);
        if one.wanted != wanted {
            *one = new;
        }
        one.there = there;
        one.missing &= !there;
        one.times = one.times.saturating_add(1);
        one.seqs.1 = seq;
    }

    /// The threads that lack flags that nobody sets, as the trace stores their addresses.
    pub fn lacking(&self) -> impl Iterator<Item = (Addr, Lacking)> {
        self.lacking.iter().filter(|(_, one)| one.missing != 0).map(|(thread, one)| (*thread, *one))
    }

    /// The wait of a thread ends, as what it asked for is given.
    pub fn given(&mut self, thread: Addr, seq: u64) {
        let flags = self.asked.get(&thread).copied().unwrap_or(0);
        self.take(thread, flags, seq);
    }

    fn take(&mut self, thread: Addr, flags: u64, seq: u64) {
        self.left.values_mut().for_each(|left| left.flags &= !flags);
        if flags != 0 && self.taken.len() < MAX_THREADS {
            self.taken.push(TakenFlags { thread, flags, seq });
        }
    }

    /// A thread has these flags, or asks for them: it knows of those that are set.
    pub fn read(&mut self, flags: u64) {
        self.unread.iter_mut().for_each(|set| set.flags &= !flags);
        self.unread.retain(|set| set.flags != 0);
    }

    /// Flags are set.
    pub fn set(&mut self, by: Giver, flags: u64, seq: u64) {
        self.read(flags);
        self.lacking.values_mut().for_each(|one| one.missing &= !flags);
        if flags != 0 && self.unread.len() < MAX_THREADS {
            self.unread.push(SetFlags { by, flags, seq });
        }
        for taken in &mut self.taken {
            if by == Giver::Thread(taken.thread) && taken.flags & flags != 0 {
                *self.returned.entry(taken.thread).or_default() |= taken.flags & flags;
            }
            taken.flags &= !flags;
        }
        self.taken.retain(|taken| taken.flags != 0);
        self.cleared.iter_mut().for_each(|cleared| cleared.flags &= !flags);
        self.cleared.retain(|cleared| cleared.flags != 0);
    }

    /// A call clears all flags but those that it keeps.
    pub fn clear(&mut self, by: Giver, kept: u64, seq: u64) {
        let is_same = |cleared: &ClearedFlags| (cleared.by, cleared.kept) == (by, kept);
        if self.calls.len() >= MAX_THREADS && !self.calls.contains_key(&(by, kept)) {
            return;
        }
        let before = self.calls.entry((by, kept)).or_default();
        let unread = self.unread.iter().rev().find(|set| set.by != by && set.flags & !kept != 0).copied();
        let times = *before;
        *before = before.saturating_add(u64::from(unread.is_none()));
        self.cleared.retain(|cleared| !is_same(cleared));
        if self.cleared.len() < MAX_THREADS {
            self.cleared.push(ClearedFlags { by, kept, flags: !kept, seq, unread, times });
        }
        self.read(!kept);
        self.left.values_mut().for_each(|left| left.flags &= kept);
    }

    /// The newest call that cleared some of these flags, which nobody has set since.
    pub fn cleared(&self, wanted: u64) -> Option<ClearedFlags> {
        self.cleared.iter().rev().find(|cleared| cleared.flags & wanted != 0).copied()
    }

    /// Events are missing: who has what is not known any more.
    pub fn forget(&mut self) {
        self.taken.clear();
        self.asked.clear();
        self.cleared.clear();
        self.unread.clear();
        self.left.clear();
        self.lacking.clear();
    }

    /// The only thread that has some of these flags, of a group in which it set them before after it had taken them.
    pub fn holder(&self, wanted: u64) -> Option<TakenFlags> {
        let mut having = self.taken.iter().filter(|taken| taken.flags & wanted != 0);
        let (Some(only), None) = (having.next(), having.next()) else { return None };
        let returned = self.returned.get(&only.thread).copied().unwrap_or(0);
        (returned & only.flags & wanted != 0).then_some(*only)
    }

    /// What a thread got without a wait and left set, since it last waited for flags.
    pub fn left(&self, thread: Addr) -> Option<LeftSet> {
        self.left.get(&thread).copied().filter(|left| left.flags != 0)
    }

    /// True for a thread that takes flags away.
    pub fn takes(&self, thread: Addr) -> bool {
        self.takers.contains(&thread)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COPY: Addr = 0x100;
    const INDEX: Addr = 0x200;
    const ONE: Cleared = Cleared { asked: 1, taken: 1, left: 0, lacks: None };

    #[test]
    fn a_flag_is_a_lock_of_the_thread_that_took_it_and_used_to_set_it() {
        let mut away = Away::default();
        away.get(COPY, ONE, 1);
        assert_eq!(away.holder(1), None, "it may be a signal that was consumed");
        away.set(Giver::Thread(COPY), 1, 1);
        assert_eq!(away.holder(1), None, "nobody has it");
        away.get(COPY, ONE, 2);
        assert_eq!(away.holder(1), Some(TakenFlags { thread: COPY, flags: 1, seq: 2 }));
        assert_eq!(away.holder(2), None);
        away.set(Giver::Interrupt(None), 1, 3);
        assert_eq!(away.holder(1), None, "another set it");
    }

    #[test]
    fn flags_are_cleared_until_somebody_sets_them() {
        let mut away = Away::default();
        away.clear(Giver::Thread(COPY), 2, 5);
        assert_eq!(away.cleared(3).map(|cleared| (cleared.kept, cleared.seq)), Some((2, 5)));
        assert_eq!(away.cleared(2), None, "it keeps this one");
        away.set(Giver::Thread(INDEX), 1, 6);
        assert_eq!(away.cleared(3), None);
        assert_eq!(away.cleared(4).map(|cleared| cleared.seq), Some(5));
    }

    /// A driver clears what is left of its last answer, after it has sent its request: an answer that is there already is lost.
    #[test]
    fn an_answer_that_is_cleared_before_anybody_has_asked_for_it() {
        let mut away = Away::default();
        let round = |away: &mut Away, seq, early: bool| {
            if early {
                away.set(Giver::Interrupt(None), 1, seq);
            }
            away.clear(Giver::Thread(COPY), !1, seq + 1);
            away.get(COPY, Cleared { asked: 1, taken: 0, left: 0, lacks: None }, seq + 2);
            away.read(1);
            if !early {
                away.set(Giver::Interrupt(None), 1, seq + 3);
                away.given(COPY, seq + 2);
                away.read(1);
            }
        };
        (0..3).for_each(|n| round(&mut away, 10 * n, false));
        assert_eq!(away.cleared(1), None);
        round(&mut away, 30, true);
        let cleared = away.cleared(1).unwrap();
        let set = SetFlags { by: Giver::Interrupt(None), flags: 1, seq: 30 };
        assert_eq!((cleared.seq, cleared.unread, cleared.times), (31, Some(set), 3));
    }

    #[test]
    fn a_wait_that_is_over_takes_the_flags_that_it_asked_for() {
        let mut away = Away::default();
        away.get(INDEX, Cleared { asked: 1, taken: 0, left: 0, lacks: None }, 1);
        away.set(Giver::Thread(COPY), 1, 2);
        away.given(INDEX, 1);
        away.set(Giver::Thread(INDEX), 1, 3);
        away.get(INDEX, ONE, 4);
        assert_eq!(away.holder(1).map(|taken| taken.seq), Some(4));
        away.forget();
        assert_eq!(away.holder(1), None);
    }
}
