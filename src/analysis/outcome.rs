//! What became of a call: whether it blocked, for how long, and who ended it.

use super::{Change, State, Told, Tracker, Who};
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
    /// The events do not tell.
    Unknown,
}

/// Outcomes of calls, found by the event of the call.
#[derive(Debug, Clone, Default)]
pub struct Outcomes(Vec<Outcome>);

impl Outcomes {
    /// Finds what became of every call between two sequence numbers (both included) that blocked.
    #[must_use]
    pub fn of(trace: &Trace, catalogue: &Catalogue, first: u64, last: u64) -> Self {
        let mut tracker = Tracker::new(trace, catalogue);
        let mut all = Vec::new();
        let mut told = Told::default();
        let mut newest = 0i64;
        let mut events = trace.events().peekable();
        while let Some(event) = events.next() {
            newest = event.ticks;
            tracker.step(&event, events.peek(), &mut told);
            for change in &told.changes {
                let Change::Readied { by, waited: Some(wait), .. } = *change else { continue };
                let Some(call) = wait.call.filter(|c| (first..=last).contains(&c.seq)) else { continue };
                let by = match by {
                    Who::Thread(no) => tracker.thread(no).and_then(|t| t.context).map_or(Waker::Unknown, Waker::Thread),
                    Who::Isr => Waker::Interrupt(event.isr),
                    _ => Waker::Unknown,
                };
                all.push(Outcome { seq: call.seq, ticks: event.ticks.saturating_sub(wait.from), by });
            }
        }
        for (_, thread) in tracker.threads().filter(|(_, t)| matches!(t.state, State::Blocked(_))) {
            if let Some(call) = thread.blocked_in.filter(|c| (first..=last).contains(&c.seq)) {
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
