//! What became of a call: whether it blocked, for how long, and who ended it.

use std::ops::ControlFlow;

use super::tracker::{Change, Consumer, Step, System, ThreadState, Tracker, Wants, Who};
use crate::catalogue::Catalogue;
use crate::trace::{ContextId, Trace};

/// What became of a call that blocked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// The event of the call.
    pub seq: u64,
    /// Ticks from blocking to being ready again, or to the end of the trace.
    pub ticks: i64,
    /// Who made the caller ready.
    pub by: Waker,
}

/// Who ended a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waker {
    /// Nobody: it still waits at the end of the trace.
    Nobody,
    /// A thread.
    Thread(ContextId),
    /// An interrupt, with its number where that is known.
    Interrupt(Option<u32>),
    /// The events do not show it.
    Unknown,
}

/// Outcomes of calls, found by the event of the call.
#[derive(Debug, Clone, Default)]
pub struct Outcomes(Vec<Outcome>);

impl Outcomes {
    /// Finds what became of every call between two sequence numbers (both included) that blocked.
    #[must_use]
    pub fn of(trace: &Trace, catalogue: &Catalogue, first: u64, last: u64) -> Self {
        let mut tracker = Tracker::new(trace, catalogue, Wants::ALL);
        let mut finder = Finder { first, last, newest: 0, all: Vec::new() };
        trace.visit(|event| {
            tracker.event(event, &mut finder);
            ControlFlow::Continue(())
        });
        tracker.finish(&mut finder);
        let Finder { newest, mut all, .. } = finder;
        for (no, thread) in tracker.system().threads().filter(|(_, t)| matches!(t.state, ThreadState::Blocked(_))) {
            if let Some(call) = tracker.system().calls_of(no).blocked_in.filter(|c| (first..=last).contains(&c.seq)) {
                all.push(Outcome { seq: call.seq, ticks: newest.saturating_sub(thread.since), by: Waker::Nobody });
            }
        }
        all.sort_by_key(|o| o.seq);
        Self(all)
    }

    /// What became of the call with this event; `None` where it did not block, or is no call.
    #[must_use]
    pub fn get(&self, seq: u64) -> Option<&Outcome> {
        self.0.binary_search_by_key(&seq, |o| o.seq).ok().and_then(|i| self.0.get(i))
    }
}

/// Collects the outcomes of calls in a range.
struct Finder {
    first: u64,
    last: u64,
    /// Ticks of the last event.
    newest: i64,
    all: Vec<Outcome>,
}

impl Consumer for Finder {
    fn step(&mut self, step: &Step<'_>, system: &System<'_>) {
        self.newest = step.event.ticks;
        for change in step.changes {
            let Change::Readied { by, waited: Some(wait), .. } = *change else { continue };
            let Some(call) = wait.call.filter(|c| (self.first..=self.last).contains(&c.seq)) else { continue };
            let by = match by {
                Who::Thread(no) => system.thread(no).and_then(|t| t.context).map_or(Waker::Unknown, Waker::Thread),
                Who::Isr => Waker::Interrupt(step.event.isr),
                _ => Waker::Unknown,
            };
            self.all.push(Outcome { seq: call.seq, ticks: step.event.ticks.saturating_sub(wait.from), by });
        }
    }
}
