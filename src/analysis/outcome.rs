//! The outcome of a call: whether it blocked, for how long, and who ended it.

use std::collections::{BTreeMap, VecDeque};

use super::tracker::{Change, Consumer, Step, System, ThreadNo, ThreadState, Tracker, Wants, Who};
use crate::catalogue::Catalogue;
use crate::trace::{ContextId, Event, Trace, Walk};

/// The outcome of a call that blocked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// Ticks from blocking to being ready again, or to the last event that was looked at.
    pub ticks: i64,
    /// Who made the caller ready.
    pub by: Waker,
}

/// Who ended a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waker {
    /// Nobody: it still waits at the end of the trace.
    Nobody,
    /// It still waits at the last event that was looked at, which is not the last of the trace.
    NotYet,
    /// A thread.
    Thread(ContextId),
    /// An interrupt, with its number where that is known.
    Interrupt(Option<u32>),
    /// The events do not show it.
    Unknown,
}

/// Finds the outcomes of calls, event by event. It looks so many slots ahead, and keeps in memory what it has found
/// there: a trace may be of any length.
pub struct Outcomes<'a> {
    tracker: Tracker<'a>,
    walk: Walk<'a>,
    ahead: u64,
    /// The number of the last event that was looked at, its ticks, and whether it is the last one of all.
    seen: Option<(u64, i64)>,
    is_over: bool,
    found: Found,
}

impl<'a> Outcomes<'a> {
    /// Looks `ahead` slots further than the event that is asked about.
    #[must_use]
    pub fn new(trace: &'a Trace, catalogue: &'a Catalogue, ahead: u64) -> Self {
        let tracker = Tracker::new(trace, catalogue, Wants::ALL);
        Self { tracker, walk: trace.events(), ahead, seen: None, is_over: false, found: Found::default() }
    }

    /// The outcome of the call with this event; `None` where it did not block, or is no call. Events are asked about in
    /// the order of the trace.
    pub fn of(&mut self, event: &Event) -> Option<Outcome> {
        self.look_up_to(event.seq.saturating_add(self.ahead));
        if !self.found.forget_before(event.seq) {
            return None;
        }
        self.found.of(event.seq, self.tracker.system(), self.seen.map_or(0, |(_, ticks)| ticks), self.is_over)
    }

    fn look_up_to(&mut self, seq: u64) {
        while !self.is_over && self.seen.is_none_or(|(seen, _)| seen < seq) {
            match self.walk.advance() {
                Some(event) => {
                    self.seen = Some((event.seq, event.ticks));
                    self.tracker.event(event, &mut self.found);
                }
                None => {
                    self.is_over = true;
                    self.tracker.finish(&mut self.found);
                }
            }
        }
    }
}

/// What is known of a call that blocked.
#[derive(Debug, Clone, Copy)]
enum BlockedCall {
    /// Its caller waits since these ticks.
    Waits { thread: ThreadNo, since: i64 },
    /// Its caller was made ready.
    Over(Outcome),
}

/// Calls that blocked, by the numbers of their events.
#[derive(Default)]
struct Found {
    calls: BTreeMap<u64, BlockedCall>,
    /// No call is of an event before this one.
    oldest: u64,
}

impl Found {
    fn insert(&mut self, seq: u64, call: BlockedCall) {
        self.oldest = self.oldest.min(seq);
        self.calls.insert(seq, call);
    }

    /// Forgets the calls before the event `seq`; true where the oldest call that is left may be of this event.
    fn forget_before(&mut self, seq: u64) -> bool {
        while self.oldest < seq {
            self.calls.remove(&self.oldest);
            self.oldest = self.calls.first_key_value().map_or(u64::MAX, |(first, _)| *first);
        }
        self.oldest == seq
    }

    /// The outcome of the call with the event `seq`, where the last event that was looked at has the ticks `now`.
    fn of(&self, seq: u64, system: &System<'_>, now: i64, is_over: bool) -> Option<Outcome> {
        match *self.calls.get(&seq)? {
            BlockedCall::Over(outcome) => Some(outcome),
            BlockedCall::Waits { thread, since } => {
                let is_blocked = system.thread(thread).is_some_and(|t| matches!(t.state, ThreadState::Blocked(_)));
                let in_it = system.calls_of(thread).blocked_in.is_some_and(|call| call.seq == seq);
                let by = if is_over { Waker::Nobody } else { Waker::NotYet };
                (is_blocked && in_it).then_some(Outcome { ticks: now.saturating_sub(since), by })
            }
        }
    }
}

/// The last events that filters keep, with the outcomes of their calls.
pub(super) struct LastEvents {
    most: usize,
    events: VecDeque<Event>,
    /// Ticks of the last event, kept or not.
    now: i64,
    found: Found,
}

impl LastEvents {
    /// So many events at most.
    pub fn new(most: usize) -> Self {
        Self { most, events: VecDeque::new(), now: 0, found: Found::default() }
    }

    /// Takes the next event.
    pub fn step(&mut self, step: &Step<'_>, keeps: bool, system: &System<'_>) {
        self.now = step.event.ticks;
        if keeps {
            if self.events.len() >= self.most {
                self.events.pop_front();
            }
            self.events.push_back(*step.event);
        }
        if !step.changes.is_empty() {
            self.found.step(step, system);
            self.found.forget_before(self.events.front().map_or(u64::MAX, |oldest| oldest.seq));
        }
    }

    /// Events are missing after the last one.
    pub fn gap(&mut self) {
        self.found.gap();
    }

    /// Them, after the last event of the trace.
    pub fn events(&self, system: &System<'_>) -> impl Iterator<Item = (&Event, Option<Outcome>)> {
        self.events.iter().map(|event| (event, self.found.of(event.seq, system, self.now, true)))
    }
}

impl Consumer for Found {
    fn step(&mut self, step: &Step<'_>, system: &System<'_>) {
        for change in step.changes {
            match *change {
                Change::Blocked { thread, .. } => {
                    let since = system.thread(thread).map(|t| t.since);
                    if let (Some(since), Some(call)) = (since, system.calls_of(thread).blocked_in) {
                        self.insert(call.seq, BlockedCall::Waits { thread, since });
                    }
                }
                Change::Readied { by, waited: Some(wait), .. } => {
                    let Some(call) = wait.call else { continue };
                    let by = match by {
                        Who::Thread(no) => {
                            system.thread(no).and_then(|t| t.context).map_or(Waker::Unknown, Waker::Thread)
                        }
                        Who::Isr => Waker::Interrupt(step.event.isr),
                        _ => Waker::Unknown,
                    };
                    let ticks = step.event.ticks.saturating_sub(wait.from);
                    self.insert(call.seq, BlockedCall::Over(Outcome { ticks, by }));
                }
                _ => {}
            }
        }
    }

    fn gap(&mut self) {
        // Whether these wait on is not known.
        self.calls.retain(|_, call| matches!(call, BlockedCall::Over(_)));
    }
}
