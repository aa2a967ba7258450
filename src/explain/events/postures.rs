//! Whether what a call of `tx_interrupt_control` sets is set back by the next call of the same thread, with no event between. That is how
//! interrupts are disabled for a moment: which value disables them depends on the port, and only that one is set back so.

use crate::abi::Addr;

/// The most values that are remembered.
const MOST: usize = 4;
/// So often a value has to be set back at once.
const OFTEN: u64 = 4;

/// What was set last.
#[derive(Debug, Clone, Copy)]
struct Open {
    thread: Addr,
    value: u64,
    seq: u64,
    /// The thread has gone on since.
    goes_on: bool,
}

/// A value.
#[derive(Debug, Clone, Copy)]
struct Known {
    value: u64,
    /// How often it was set back by the next event, and later.
    at_once: u64,
    later: u64,
}

/// All of them.
#[derive(Debug, Default)]
pub struct Postures {
    known: Vec<Known>,
    open: Option<Open>,
    /// How many calls there are.
    calls: u64,
}

/// A value that was not set back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeftPosture {
    /// The thread, as the trace stores its address.
    pub thread: Addr,
    /// The value.
    pub value: u64,
    /// The event that sets it.
    pub seq: u64,
    /// How often it was set back before.
    pub times: u64,
}

impl Postures {
    /// The next event: of a thread, where it is of one, and what it sets.
    pub(super) fn next(&mut self, thread: Option<Addr>, value: Option<u64>, seq: u64) {
        let before = self.open.filter(|open| Some(open.thread) == thread);
        self.calls = self.calls.saturating_add(u64::from(value.is_some()));
        self.open = match (thread, value) {
            (Some(thread), Some(value)) => match before {
                Some(before) if before.value == value => Some(before),
                _ => {
                    before.into_iter().for_each(|before| self.is_set_back(before));
                    Some(Open { thread, value, seq, goes_on: false })
                }
            },
            // An interrupt that comes, or another thread, shows that it was set back in another way.
            _ => before.map(|before| Open { goes_on: true, ..before }),
        };
    }

    fn is_set_back(&mut self, open: Open) {
        if !self.known.iter().any(|known| known.value == open.value) && self.known.len() < MOST {
            self.known.push(Known { value: open.value, at_once: 0, later: 0 });
        }
        if let Some(known) = self.known.iter_mut().find(|known| known.value == open.value) {
            let count = if open.goes_on { &mut known.later } else { &mut known.at_once };
            *count = count.saturating_add(1);
        }
    }

    /// Events are missing.
    pub(super) const fn forget(&mut self) {
        self.open = None;
    }

    /// The only call, where it is the newest event. A thread that stops the system itself begins so.
    #[must_use]
    pub fn only(&self) -> Option<LeftPosture> {
        let Open { thread, value, seq, .. } = self.open.filter(|open| self.calls == 1 && !open.goes_on)?;
        Some(LeftPosture { thread, value, seq, times: 0 })
    }

    /// What was set last, and is always set back at once, where the thread has gone on without that.
    #[must_use]
    pub fn left(&self) -> Option<LeftPosture> {
        let open = self.open.filter(|open| open.goes_on)?;
        let known = self.known.iter().find(|known| known.value == open.value && known.later == 0)?;
        let Open { thread, value, seq, .. } = open;
        (known.at_once >= OFTEN).then_some(LeftPosture { thread, value, seq, times: known.at_once })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_only_call_is_the_newest_event() {
        let only = |all: &[(Option<Addr>, Option<u64>)]| {
            let mut postures = Postures::default();
            (0..).zip(all).for_each(|(seq, (thread, value))| postures.next(*thread, *value, seq));
            postures.only().map(|only| only.seq)
        };
        let (other, call) = ((Some(7), None), (Some(7), Some(1)));
        assert_eq!(only(&[other, call]), Some(1));
        assert_eq!(only(&[other, call, other]), None, "the thread went on");
        assert_eq!(only(&[other, call, (None, None)]), None, "an interrupt came");
        assert_eq!(only(&[call, (Some(7), Some(0)), other, call]), None, "it does so often");
        assert_eq!(only(&[other]), None);
    }

    /// One pair of calls after the other, and other events of the thread; then more events, each of a thread, with what it sets.
    fn left(pairs: u64, more: &[(Option<Addr>, Option<u64>)]) -> Option<u64> {
        let mut postures = Postures::default();
        let events = (0..pairs).flat_map(|_| [(Some(7), Some(1)), (Some(7), Some(0)), (Some(7), None)]);
        for (seq, (thread, value)) in (0..).zip(events.chain(more.iter().copied())) {
            postures.next(thread, value, seq);
        }
        postures.left().map(|left| left.seq)
    }

    #[test]
    fn what_is_always_set_back_at_once_and_then_not() {
        let disables = (Some(7), Some(1));
        assert_eq!(left(4, &[disables, (Some(7), None)]), Some(12));
        assert_eq!(left(4, &[disables]), None, "it may be about to set it back");
        assert_eq!(left(3, &[disables, (Some(7), None)]), None, "too few before");
        assert_eq!(left(4, &[disables, (Some(7), None), (None, None)]), None, "an interrupt came");
        assert_eq!(left(4, &[disables, (Some(7), None), (Some(8), None)]), None, "another thread ran");
        assert_eq!(
            left(4, &[disables, (Some(7), None), (Some(7), Some(0)), disables, (Some(7), None)]),
            None,
            "a habit"
        );
        assert_eq!(left(9, &[]), None, "the value that enables them is not set back at once");
    }
}
