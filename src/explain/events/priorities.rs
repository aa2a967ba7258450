//! Priorities of threads that become less urgent though no call changes them. A thread that has a mutex may be more urgent for a
//! while, and then as before; it never becomes less urgent than it was registered.

use std::collections::{BTreeMap, BTreeSet};

use crate::abi::Addr;

/// The most threads that are followed.
const MAX_THREADS: usize = 256;

/// How a priority rose, by its number: a larger one is less urgent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Risen {
    /// The number with which the thread was registered.
    pub registered: u16,
    /// The largest number so far.
    pub highest: u16,
    /// How often it was larger than ever before.
    pub times: u64,
    /// The first of these events, and the last.
    pub seqs: (u64, u64),
}

/// Those of all threads, as the trace stores their addresses.
#[derive(Debug, Default)]
pub struct Priorities {
    risen: BTreeMap<Addr, Risen>,
    called: BTreeSet<Addr>,
    gaps: u64,
}

impl Priorities {
    /// An event of a thread, with its priority, and the one with which it was registered.
    pub fn event(&mut self, thread: Addr, priority: Option<u16>, registered: Option<u16>, seq: u64) {
        let Some((priority, registered)) = priority.zip(registered).filter(|(now, before)| now > before) else {
            return;
        };
        if self.risen.len() >= MAX_THREADS && !self.risen.contains_key(&thread) {
            return;
        }
        let new = Risen { registered, highest: registered, times: 0, seqs: (seq, seq) };
        let one = self.risen.entry(thread).or_insert(new);
        if priority > one.highest {
            (one.highest, one.times, one.seqs.1) = (priority, one.times.saturating_add(1), seq);
        }
    }

    /// What was seen before events were missing is forgotten: a call may be among them. `gaps`: how often that was so.
    pub fn after(&mut self, gaps: u64) {
        if self.gaps != gaps {
            *self = Self { gaps, ..Self::default() };
        }
    }

    /// A call changes the priority of a thread.
    pub fn called(&mut self, thread: Addr) {
        if self.called.len() < MAX_THREADS {
            self.called.insert(thread);
        }
    }

    /// Those that no call of the trace changed.
    pub fn risen(&self) -> impl Iterator<Item = (Addr, Risen)> {
        let is_full = self.called.len() >= MAX_THREADS;
        let all = self.risen.iter().filter(move |(thread, _)| !is_full && !self.called.contains(thread));
        all.map(|(thread, risen)| (*thread, *risen))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_priority_rises_without_a_call() {
        let mut all = Priorities::default();
        for (seq, priority) in [(1, 9), (2, 5), (3, 9), (4, 11), (5, 11), (6, 13), (7, 9)] {
            all.event(1, Some(priority), Some(9), seq);
            all.event(2, Some(priority), Some(9), seq);
            all.event(3, Some(priority), None, seq);
        }
        all.called(2);
        all.after(0);
        let found: Vec<(Addr, Risen)> = all.risen().collect();
        assert_eq!(found, [(1, Risen { registered: 9, highest: 13, times: 2, seqs: (4, 6) })]);
        all.after(1);
        assert_eq!(all.risen().count(), 0, "the call may be missing");
    }
}
