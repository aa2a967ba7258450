//! What a thread did, and calls that an interrupt may not make.

use super::pointers::Pointer;
use super::pools::Sent;
use super::{Events, Now};
use crate::abi::Addr;
use crate::analysis::tracker::System;
use crate::catalogue::Role;
use crate::kernel::api::{self, Forbidden};

/// What a thread did.
#[derive(Debug, Clone, Copy, Default)]
pub struct Activity {
    /// Ticks that it had the processor.
    pub ran: i64,
    /// The message that it sent last.
    pub sent: Option<Sent>,
    /// How often it got the processor.
    pub dispatched: u64,
    /// Its last event.
    pub last: u64,
    /// The first event that gave it the processor.
    pub first: Option<u64>,
    /// How often it blocked.
    pub blocks: u64,
    /// Ticks and event of the last time, and how long it had had the processor by then.
    pub blocked: Option<(i64, u64, i64)>,
    /// The longest that it had the processor between two times that it blocked.
    pub longest: i64,
    /// How often a call suspended it.
    pub suspended: u64,
    /// Ticks since which it is in its state, where an event shows that.
    pub since: Option<(i64, u64)>,
    /// True where its first event says that it was ready before.
    pub was_ready: bool,
    /// For how many ticks of the kernel it went to sleep last, and the event.
    pub sleeps: Option<(u64, u64)>,
    /// How often it got a mutex.
    pub acquired: u64,
    /// How often it went to sleep.
    pub slept: u64,
    /// The last event that ended a wait of it.
    pub woken: Option<u64>,
    /// Its stack pointers.
    pub pointer: Option<Pointer>,
    /// The object that was deleted while it waited for it, by whom, and the event that ended the wait, where that was its last wait.
    pub deleted: Option<(Addr, Option<Addr>, u64)>,
    /// Its longest wait for an object that is over, in ticks.
    pub longest_wait: i64,
    /// The last message that it received.
    pub received: Option<Received>,
    /// What it asked for last, where it had to wait.
    pub asked: Option<Received>,
    /// The last wait for a message, where it ended without one and the thread has asked for none since.
    pub in_vain: Option<Received>,
    /// What it passed to `tx_interrupt_control` last.
    pub posture: Option<Posture>,
}

/// The same argument of calls of `tx_interrupt_control`, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Posture {
    /// The argument: what it means depends on the port.
    pub value: u64,
    /// The first of these calls, and how many there are.
    pub from: u64,
    pub times: u64,
    /// How often the thread had blocked before the first.
    pub blocks: u64,
    /// How often events were missing before.
    pub gaps: u64,
}

/// A message that a thread receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// The queue, as the trace stores its address.
    pub queue: Addr,
    /// Where the message goes.
    pub to: Addr,
    /// The event of the call.
    pub seq: u64,
    /// How often events were missing before.
    pub gaps: u64,
}

impl Activity {
    /// The thread calls `tx_interrupt_control`.
    pub(super) fn sets_posture(&mut self, value: u64, seq: u64, gaps: u64) {
        let same = self.posture.filter(|before| before.value == value && before.gaps == gaps);
        let first = Posture { value, from: seq, times: 0, blocks: self.blocks, gaps };
        let of = same.unwrap_or(first);
        self.posture = Some(Posture { times: of.times.saturating_add(1), ..of });
    }

    /// The thread asks for a message. `is_there`: one is in the queue.
    pub(super) const fn asks(&mut self, message: Received, is_there: bool) {
        self.in_vain = None;
        (self.received, self.asked) = if is_there { (Some(message), None) } else { (None, Some(message)) };
    }

    /// Its wait in the call of an event is over. A call that did not wait, on a queue that was empty, got nothing.
    pub(super) fn is_answered(&mut self, call: u64, is_given: bool) {
        if let Some(message) = self.asked.take().filter(|message| message.seq == call) {
            (self.received, self.in_vain) = if is_given { (Some(message), None) } else { (None, Some(message)) };
        }
    }
}

/// So many events are long where the clock of the trace does not run.
pub(super) const MANY_EVENTS: u64 = 128;

impl Events {
    /// The last message that a thread received, where no event is missing since.
    #[must_use]
    pub fn received(&self, thread: Addr) -> Option<Received> {
        self.activity(thread)?.received.filter(|message| message.gaps == self.gaps)
    }

    /// Where the stack of a thread begins, and how many bytes it has, by the registry of the trace.
    #[must_use]
    pub fn stack(&self, thread: Addr) -> Option<(Addr, Option<u64>)> {
        self.stacks.get(&(thread & self.mask)).copied()
    }

    /// How often events are missing.
    #[must_use]
    pub const fn gaps(&self) -> u64 {
        self.gaps
    }

    /// Who terminated a thread last, as the trace stores its address, and the event.
    #[must_use]
    pub fn terminated(&self, thread: Addr) -> Option<(Addr, u64)> {
        self.terminated.get(&(thread & self.mask)).copied()
    }

    /// Who suspended a thread last, as the trace stores its address, and the event of the call.
    #[must_use]
    pub fn suspended(&self, thread: Addr) -> Option<(Addr, u64)> {
        self.suspended.get(&(thread & self.mask)).copied()
    }

    /// The first of the newest quarter of the events: what was seen since goes on.
    #[must_use]
    pub const fn recent(&self) -> u64 {
        self.newest.saturating_sub(self.count / 4)
    }

    /// Ticks from the first event to the last.
    #[must_use]
    pub const fn length(&self) -> i64 {
        self.span.1.saturating_sub(self.span.0)
    }

    /// Ticks for which a thread is in its state; all of the trace where no event of it shows a change.
    #[must_use]
    pub fn lasts(&self, thread: Addr) -> i64 {
        let since = self.activity(thread).and_then(|activity| activity.since);
        since.map_or_else(|| self.length(), |(since, _)| self.span.1.saturating_sub(since))
    }

    /// Events since a thread came into its state; all of the trace where no event of it shows a change.
    fn lasts_in_events(&self, thread: Addr) -> u64 {
        let since = self.activity(thread).and_then(|activity| activity.since);
        since.map_or(self.count, |(_, since)| self.newest.saturating_sub(since))
    }

    /// True where a wait lasts far longer than those that are over: a quarter of the trace at least, and four times as long
    /// as any wait for the same object that ended in it. Where the clock of the trace does not run, events are the measure.
    #[must_use]
    pub fn is_long(&self, thread: Addr, object: Addr) -> bool {
        if !self.has_clock {
            let (usual, lasts) =
                (self.object(object).map_or(0, |one| one.longest_wait_in_events), self.lasts_in_events(thread));
            return lasts >= MANY_EVENTS && lasts >= self.count / 4 && lasts / 4 >= usual;
        }
        let usual = self.object(object).map_or(0, |one| one.longest_wait);
        self.lasts_long(thread) && self.lasts(thread) / 4 >= usual
    }

    /// The same, as far as the waits of this thread show it: others may wait for other flags of the same group.
    #[must_use]
    pub fn is_long_for_it(&self, thread: Addr) -> bool {
        let usual = self.activity(thread).map_or(0, |activity| activity.longest_wait);
        self.has_clock && self.lasts_long(thread) && self.lasts(thread) / 4 >= usual
    }

    /// True where a wait is no longer than one for the same object that ended in the trace.
    #[must_use]
    pub fn is_usual(&self, thread: Addr, object: Addr) -> bool {
        let usual = self.object(object).map_or(0, |one| one.longest_wait);
        self.has_clock && usual > 0 && self.lasts(thread) <= usual
    }

    /// True where the buffer of a call of an interrupt is that of a thread's call, or in a thread's stack. An interrupt that comes
    /// while a thread inserts an event may leave parts of both.
    #[must_use]
    pub fn is_of_thread(&self, call: &WrongCall) -> bool {
        let Some(buffer) = call.buffer else { return false };
        let mut stacks = self.stacks.values();
        let is_within = |(start, size): &(Addr, Option<u64>)| {
            buffer.checked_sub(*start).zip(*size).is_some_and(|(into, size)| into < size)
        };
        self.buffers.contains(&buffer) || stacks.any(is_within)
    }

    /// True where a thread is in its state for a quarter of the trace at least.
    #[must_use]
    pub fn lasts_long(&self, thread: Addr) -> bool {
        let quarter = self.length() / 4;
        self.has_clock && self.count >= 32 && self.lasts(thread) >= quarter.max(1)
    }
}

/// A call that may wait, by an interrupt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrongCall {
    /// The event.
    pub seq: u64,
    /// What is called.
    pub call: String,
    /// On what.
    pub object: Option<Addr>,
    /// The number of the interrupt, where it is known.
    pub interrupt: Option<u32>,
    /// The buffer that is passed.
    pub buffer: Option<Addr>,
}

impl WrongCall {
    /// A call that an interrupt makes: it may ask for nothing that can make it wait, and for no mutex.
    pub(super) fn of(now: &Now<'_>, role: &Role, system: &System<'_>) -> Option<Self> {
        let Now { event, words, places, .. } = *now;
        let def = event.def.and_then(|def| system.catalogue.def(def));
        let call = def.map_or("", |def| def.name.as_str());
        let waits = role.wait.of(words).is_some_and(|wait| wait != 0) && !role.is_above_kernel;
        let is_wrong = match api::in_interrupt(call) {
            Some(Forbidden::Always) => true,
            Some(Forbidden::WithWait) => waits,
            None => waits || role.acquire.is_some() || role.release.is_some(),
        };
        is_wrong.then(|| Self {
            seq: event.seq,
            call: call.to_owned(),
            object: role.object.of(words),
            interrupt: event.isr,
            buffer: places.buffer(words),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `audit_fetch` returned early and left interrupts disabled: each later pair of calls disables them twice.
    #[test]
    fn calls_that_leave_interrupts_disabled_are_counted_from_the_first() {
        let mut activity = Activity::default();
        [(0, 1), (8, 2), (0, 3)].into_iter().for_each(|(value, seq)| activity.sets_posture(value, seq, 0));
        activity.blocks = 4;
        (4..9).for_each(|seq| activity.sets_posture(0, seq, 0));
        let posture = activity.posture.unwrap();
        assert_eq!((posture.value, posture.from, posture.times, posture.blocks), (0, 3, 6, 0));
        activity.sets_posture(0, 9, 1);
        assert_eq!(activity.posture.map(|posture| posture.times), Some(1), "events are missing before it");
    }

    /// A record of an interrupt with the arguments of the thread's call that it interrupted was "likely" a call of the interrupt.
    #[test]
    fn a_record_that_a_thread_and_an_interrupt_wrote_was_a_call_of_the_interrupt() {
        let mut events = Events { buffers: [0x2001_2340].into(), ..Events::default() };
        events.stacks.insert(0x2000_0000, (0x2000_1000, Some(0x100)));
        let call = |buffer| {
            let call = WrongCall { seq: 1, call: "tx_queue_send".to_owned(), object: None, interrupt: None, buffer };
            events.is_of_thread(&call)
        };
        assert!(call(Some(0x2001_2340)) && call(Some(0x2000_1080)));
        assert!(!call(Some(0x2000_1100)) && !call(None));
    }

    /// A receive with `TX_NO_WAIT` from an empty queue, and then a wait for a semaphore, which was given.
    #[test]
    fn the_end_of_another_wait_was_the_answer_to_a_receive() {
        let message = Received { queue: 0x100, to: 0x200, seq: 7, gaps: 0 };
        let after = |call, is_given| {
            let mut activity = Activity::default();
            activity.asks(message, false);
            activity.is_answered(call, is_given);
            activity.received
        };
        assert_eq!(after(9, true), None);
        assert_eq!(after(7, false), None, "a time-out");
        assert_eq!(after(7, true), Some(message));
        let mut activity = Activity::default();
        activity.asks(message, false);
        activity.is_answered(7, false);
        assert_eq!(activity.in_vain, Some(message));
        activity.asks(Received { seq: 9, ..message }, false);
        assert_eq!(activity.in_vain, None, "it asks again");
    }
}
