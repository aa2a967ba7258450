//! What the events show of the thread that runs the kernel's timers: how often the tick wakes it, and whether it was still at work.

use crate::abi::Addr;
use crate::trace::Event;

/// Its work.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TimerWork {
    /// The thread, as the trace stores its address.
    pub thread: Option<Addr>,
    /// How often an interrupt woke it.
    pub wakes: u64,
    /// How often of these it had not come to its end since it was woken before.
    pub late: u64,
    /// How often of these in a row, with no event of any thread between, up to the end of the trace.
    pub row: u64,
    /// The first event of this row, and its ticks.
    pub row_from: Option<(u64, i64)>,
    is_at_work: bool,
}

impl TimerWork {
    /// An interrupt wakes it.
    pub(super) fn wakes(&mut self, event: &Event, thread: Option<Addr>) {
        self.thread = thread;
        self.wakes = self.wakes.saturating_add(1);
        if std::mem::replace(&mut self.is_at_work, true) {
            self.late = self.late.saturating_add(1);
            self.row = self.row.saturating_add(1);
            self.row_from = self.row_from.or(Some((event.seq, event.ticks)));
        }
    }

    /// It blocks.
    pub(super) const fn blocked(&mut self) {
        self.is_at_work = false;
    }

    /// An event of a thread.
    pub(super) const fn goes_on(&mut self) {
        (self.row, self.row_from) = (0, None);
    }

    /// Events are missing.
    pub(super) const fn forget(&mut self) {
        self.goes_on();
        self.is_at_work = false;
    }
}
