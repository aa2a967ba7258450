//! What comes soon after a wait for it has ended by a time-out.

use crate::abi::Addr;

/// How often that was so for one thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Late {
    /// The thread, as the trace stores its address; `None` where there were several.
    pub thread: Option<Addr>,
    /// How often.
    pub times: u64,
    /// The first and the last event that gave it too late.
    pub seqs: (u64, u64),
    /// Ticks: the longest of these waits, and the most that it came later.
    pub waited: i64,
    pub delay: i64,
    /// The last wait that ended so, since which the thread has not asked again: who, until when, and how long.
    open: Option<(Addr, i64, i64)>,
}

impl Late {
    /// A wait of a thread is over.
    pub(super) const fn times_out(&mut self, thread: Addr, at: i64, waited: i64) {
        self.open = Some((thread, at, waited));
    }

    /// Somebody asks for it.
    pub(super) const fn asks(&mut self) {
        self.open = None;
    }

    /// It is given: too late where it comes within the time that the wait had lasted.
    pub(super) fn given(&mut self, seq: u64, at: i64) {
        let Some((thread, until, waited)) = self.open.take() else { return };
        let delay = at.saturating_sub(until);
        if delay > waited {
            return;
        }
        let (first, of) = if self.times == 0 { (seq, Some(thread)) } else { (self.seqs.0, self.thread) };
        *self = Self {
            thread: of.filter(|of| *of == thread),
            times: self.times.saturating_add(1),
            seqs: (first, seq),
            waited: self.waited.max(waited),
            delay: self.delay.max(delay),
            open: None,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_soon_after_a_time_out_is_late() {
        let mut late = Late::default();
        for (round, delay) in (0..).zip([10, 12, 70]) {
            late.times_out(7, 1000 * round, 60);
            late.given(u64::try_from(round).unwrap(), 1000 * round + delay);
        }
        assert_eq!((late.times, late.thread, late.seqs), (2, Some(7), (0, 1)), "the third came long after");
        assert_eq!((late.waited, late.delay), (60, 12));
        late.times_out(7, 5000, 60);
        late.asks();
        late.given(9, 5010);
        assert_eq!(late.times, 2, "it had asked again");
        late.times_out(8, 6000, 60);
        late.given(10, 6001);
        assert_eq!((late.times, late.thread), (3, None));
    }
}
