//! What the events show of threads that block and go on, and of timers that nothing wakes.

use super::{Events, Now, TIMER_THREAD};
use crate::analysis::tracker::{Change, System, Who};
use crate::trace::Event;

/// A part of the trace in which nothing wakes the thread that runs the kernel's timers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WithoutTimers {
    /// The event with which it begins, and its ticks; `None` for the beginning of the trace.
    pub from: Option<(u64, i64)>,
    /// How often other threads were made ready in it.
    pub readied: u64,
}

impl Events {
    /// Whether a thread did something.
    pub(super) fn by_thread(&mut self, now: &Now<'_>, system: &System<'_>) {
        let Some(thread) = now.thread() else { return };
        self.last_of_threads = Some(now.event.seq);
        if let Some(asked) = now.places.sleep(now.words)
            && let Some(activity) = system.find_thread(thread).and_then(|no| self.does(no))
        {
            activity.sleeps = Some((asked, now.event.seq));
            activity.slept = activity.slept.saturating_add(1);
        }
        self.timers.goes_on();
        self.blocks_on = self.blocks_on.filter(|(of, ..)| *of == thread);
    }

    /// Threads that block and go on, and how long nothing wakes the kernel's timers.
    pub(super) fn goes_on(&mut self, event: &Event, change: &Change, system: &System<'_>) {
        let is_timers = |no| system.name(no) == Some(TIMER_THREAD);
        match *change {
            Change::Readied { thread, .. } if is_timers(thread) => {
                (self.blocks_on, self.without_timers) =
                    (None, WithoutTimers { from: Some((event.seq, event.ticks)), readied: 0 });
            }
            Change::Readied { .. } => {
                self.blocks_on = None;
                self.without_timers.readied = self.without_timers.readied.saturating_add(1);
            }
            Change::Blocked { thread, by: Who::Thread(by), .. } if thread == by => {
                let Some(address) = system.thread(thread).map(|thread| thread.address) else { return };
                let before = self.blocks_on.filter(|(of, ..)| *of == address);
                let (times, from) = before.map_or((0, event.seq), |(_, times, from)| (times, from));
                self.blocks_on = Some((address, times.saturating_add(1), from));
            }
            _ => {}
        }
    }
}
