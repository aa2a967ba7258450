//! What the events show of the thread that runs the kernel's timers: how often the tick wakes it, and whether it was still at work.

use crate::abi::Addr;
use crate::trace::{ContextId, Event};

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
    /// The longest of the times for which it worked and no thread had an event.
    longest: Option<Stretch>,
    /// How often the tick woke it [`LONG`] times in one of them.
    pub long: u64,
    /// Since when it is ready and chosen to run next while something else has the processor, and no thread has an event.
    pub kept: Option<KeptReady>,
    is_at_work: bool,
    /// The time since it was woken, while no thread has an event.
    stretch: Option<Stretch>,
}

/// So many ticks at work without a break are long.
pub const LONG: u64 = 8;

/// A time for which the thread worked, and neither it nor another one had an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// The event that woke it, and its ticks.
    pub from: (u64, i64),
    /// The same of the last one that woke it meanwhile.
    pub to: (u64, i64),
    /// How often it was woken meanwhile while it ran. While it is at work the kernel wakes it at each tick, and does not move its timers on.
    pub wakes: u64,
}

/// A time for which the thread was ready and did not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeptReady {
    /// The event that made it ready, and its ticks.
    pub from: (u64, i64),
    /// How often the tick woke it again since, and found that it is the next thread to run.
    pub again: u64,
    /// The context that was interrupted each time.
    pub interrupted: Option<ContextId>,
}

impl TimerWork {
    /// An interrupt wakes it. `runs`: it interrupts that thread itself. `is_next`: the kernel has chosen it to run next.
    pub(super) fn wakes(&mut self, event: &Event, thread: Option<Addr>, runs: bool, is_next: bool) {
        self.thread = thread;
        self.wakes = self.wakes.saturating_add(1);
        let now = (event.seq, event.ticks);
        let is_late = std::mem::replace(&mut self.is_at_work, true);
        if is_late {
            self.late = self.late.saturating_add(1);
            self.row = self.row.saturating_add(1);
            self.row_from = self.row_from.or(Some(now));
        }
        self.kept = match self.kept {
            _ if runs => None,
            _ if !is_late => Some(KeptReady { from: now, again: 0, interrupted: event.interrupted }),
            Some(kept) if is_next && kept.interrupted == event.interrupted => {
                Some(KeptReady { again: kept.again.saturating_add(1), ..kept })
            }
            _ => None,
        };
        match &mut self.stretch {
            Some(stretch) if is_late && runs => {
                (stretch.to, stretch.wakes) = (now, stretch.wakes.saturating_add(1));
                if self.longest.is_none_or(|longest| longest.wakes <= stretch.wakes) {
                    self.longest = Some(*stretch);
                }
                if stretch.wakes == LONG {
                    self.long = self.long.saturating_add(1);
                }
            }
            // Else something else has the processor.
            stretch => *stretch = (runs || !is_late).then_some(Stretch { from: now, to: now, wakes: 0 }),
        }
    }

    /// The time for which it is at work now, where that is long, else the longest such time; and whether it is that of now.
    pub fn long_work(&self) -> Option<(Stretch, bool)> {
        let now = self.stretch.filter(|_| self.is_at_work).map(|stretch| (stretch, true));
        let all = now.into_iter().chain(self.longest.map(|stretch| (stretch, false)));
        all.into_iter().find(|(stretch, _)| stretch.wakes >= LONG)
    }

    /// It blocks.
    pub(super) const fn blocked(&mut self) {
        self.is_at_work = false;
        (self.stretch, self.kept) = (None, None);
    }

    /// An event of a thread.
    pub(super) const fn goes_on(&mut self) {
        (self.row, self.row_from) = (0, None);
        (self.stretch, self.kept) = (None, None);
    }

    /// Events are missing.
    pub(super) const fn forget(&mut self) {
        self.goes_on();
        self.is_at_work = false;
    }
}
