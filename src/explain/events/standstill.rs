//! What the events show of threads that block and go on, and of timers that nothing wakes.

use super::{Events, Now, TIMER_THREAD};
use crate::analysis::tracker::{System, ThreadNo, Who};
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
        let posture = now.places.posture(now.words);
        self.priorities.after(self.gaps);
        now.places.reprioritized(now.words).into_iter().for_each(|thread| self.priorities.called(thread));
        self.postures.next(now.thread(), posture, now.event.seq);
        self.had.event_of(now.thread());
        let Some(thread) = now.thread() else { return };
        self.last_of_threads = Some(now.event.seq);
        let registered = system.trace.objects.at(thread).and_then(|object| object.priority);
        self.priorities.event(thread, now.event.priority, registered, now.event.seq);
        self.interrupts.thread_goes_on(now.event.seq);
        if system.catalogue.is_user_id(now.event.id) {
            self.had.inserts(thread, now.words, now.event.seq);
        }
        if now.places.is_timed
            && let Some(asked) = now.places.sleep(now.words)
            && let Some(activity) = system.thread_of(now.event.context).and_then(|no| self.does(no))
        {
            activity.sleeps = Some((asked, now.event.seq));
            activity.slept = activity.slept.saturating_add(1);
        }
        if let Some(value) = posture {
            let gaps = self.gaps;
            let activity = system.thread_of(now.event.context).and_then(|no| self.does(no));
            activity.into_iter().for_each(|activity| activity.sets_posture(value, now.event.seq, gaps));
        }
        self.timers.goes_on();
        if self.blocks_on.is_some_and(|(of, ..)| of != thread) {
            self.blocks_on = None;
        }
    }

    /// A thread is ready: it goes on, or it is the one that runs the kernel's timers.
    pub(super) fn readied(
        &mut self,
        event: &Event,
        no: ThreadNo,
        (by, interrupt): (Who, Option<u64>),
        system: &System<'_>,
    ) {
        self.blocks_on = None;
        if system.name(no) != Some(TIMER_THREAD) {
            self.without_timers.readied = self.without_timers.readied.saturating_add(1);
            return;
        }
        self.without_timers = WithoutTimers { from: Some((event.seq, event.ticks)), readied: 0 };
        if let Some(number) = interrupt {
            self.interrupts.wakes_timers(number);
        }
        if by == Who::Isr {
            let runs = event.interrupted.and_then(|context| system.thread_of(context)) == Some(no);
            let thread = system.thread(no).map(|thread| thread.address);
            let next = system.role(event).and_then(|role| role.run.of(system.trace.words(event)));
            self.timers.wakes(event, thread, runs, next.is_some() && next == thread);
        }
    }

    /// A thread blocks by a call of its own.
    pub(super) fn blocks_itself(&mut self, event: &Event, no: ThreadNo, system: &System<'_>) {
        let Some(address) = system.thread(no).map(|thread| thread.address) else { return };
        let before = self.blocks_on.filter(|(of, ..)| *of == address);
        let (times, from) = before.map_or((0, event.seq), |(_, times, from)| (times, from));
        self.blocks_on = Some((address, times.saturating_add(1), from));
    }
}
