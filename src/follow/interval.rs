//! The events of an interval as a trace of their own, for reports.

use super::Update;
use crate::trace::{Event, Events, Issue, Trace, WalkState};

/// The most events of one interval.
const MAX_EVENTS: usize = 1 << 18;

/// Events that have been decoded.
struct List(Vec<Event>);

impl Events for List {
    fn count(&self) -> u64 {
        self.0.len() as u64
    }

    fn fill(&self, index: u64, _: &mut WalkState, out: &mut [Event]) -> usize {
        let rest = usize::try_from(index).ok().and_then(|from| self.0.get(from..)).unwrap_or_default();
        let places = out.iter_mut().zip(rest).map(|(place, event)| *place = *event);
        places.count()
    }
}

/// A trace with these events, and all else of another one. Others are missing before those of `gaps`.
fn with(trace: &Trace, events: Vec<Event>, gaps: Vec<u64>, issues: Vec<Issue>) -> Trace {
    let mut about = trace.about.clone();
    (about.held, about.empty) = (events.len() as u64, 0);
    // What came before is not among them.
    about.wrapped = true;
    about.origin = events.first().map_or(0, |e| e.seq);
    // Numbers count slots: one that is passed over held an event that is lost.
    let is_gap = |pair: &[Event]| matches!(pair, [a, b] if a.seq.checked_add(1) != Some(b.seq));
    let jumps = events.windows(2).filter(|pair| is_gap(pair)).filter_map(|pair| Some(pair.last()?.seq));
    let mut gaps: Vec<u64> = jumps.chain(gaps).collect();
    gaps.sort_unstable();
    gaps.dedup();
    let source = Box::new(List(events));
    let (contexts, objects) = (trace.contexts.clone(), trace.objects.clone());
    let mut made = Trace::new(about, trace.clock.clone(), contexts, objects, issues, source);
    made.gaps = gaps;
    made
}

/// A trace without events of its own: for those that are kept beside it.
pub(super) fn shell(trace: &Trace) -> Trace {
    let mut shell = with(trace, Vec::new(), Vec::new(), Vec::new());
    shell.interrupts = trace.interrupts.clone();
    shell
}

/// The events of an interval.
#[derive(Default)]
pub struct Interval {
    events: Vec<Event>,
    /// Events before which others are missing.
    gaps: Vec<u64>,
}

impl Interval {
    /// Adds the events of an update; false where there is no room for more.
    pub fn add(&mut self, update: &Update) -> bool {
        self.events.extend(&update.events);
        self.events.len() < MAX_EVENTS
    }

    /// Events are missing before the one of this number, which is added next.
    pub fn gap(&mut self, seq: u64) {
        if !self.events.is_empty() && self.gaps.last() != Some(&seq) {
            self.gaps.push(seq);
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// True where there is none.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Ticks of the first and of the last.
    pub fn span(&self) -> Option<(i64, i64)> {
        Some((self.events.first()?.ticks, self.events.last()?.ticks))
    }

    /// Makes a trace of them, and begins the next interval. Names are those in `latest`.
    pub fn take(&mut self, latest: &Trace) -> Trace {
        with(latest, std::mem::take(&mut self.events), std::mem::take(&mut self.gaps), Vec::new())
    }
}
