//! REPORTS: one pass over the events feeds all of them through one tracker. They ask for effects, never for ids, so that
//! they serve every system; only `tracex/` knows the ids of the system whose viewer it imitates.

pub mod addresses;
pub mod blocked;
pub mod change;
pub mod histogram;
pub mod inversions;
pub mod latency;
pub mod outcome;
pub mod profile;
pub mod roles;
pub mod services;
pub mod stack;
pub mod state;
pub mod stats;
mod times;
pub mod tracex;
pub mod usage;
pub mod waits;

use std::ops::ControlFlow;

use crate::catalogue::Catalogue;
use crate::error::Error;
use crate::query::Query;
use crate::report::{Cell, Report};
use crate::trace::{Event, Trace};

pub use change::{Call, Change, Patience, Span, State, ThreadNo, Told, Wait, Who};
pub use outcome::{Outcome, Outcomes, Waker};
pub use state::Tracker;

/// The reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Name {
    /// Who had the processor, for how long.
    Profile,
    /// Counters.
    Stats,
    /// How often each event was inserted.
    Services,
    /// How low each stack pointer went.
    Stack,
    /// Priority inversions.
    Inversions,
    /// How long threads waited.
    Blocked,
    /// How long things took.
    Latency,
    /// How queues, locks, semaphores and pools were used.
    Use,
}

impl Name {
    /// All of them, in the order of `report`.
    pub const ALL: [Self; 8] = [
        Self::Profile,
        Self::Stats,
        Self::Services,
        Self::Stack,
        Self::Inversions,
        Self::Blocked,
        Self::Latency,
        Self::Use,
    ];
}

/// What is wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wish {
    /// These reports, in this order.
    pub names: Vec<Name>,
    /// By the definitions of the vendor's viewer.
    pub tracex: bool,
    /// Repeating events: names, globs or ids.
    pub every: Vec<String>,
    /// Spans between events: `A..B`, `A..B:FIELD`.
    pub spans: Vec<String>,
}

/// Makes the reports.
///
/// # Errors
/// Where a wish names what is not there.
pub fn reports(trace: &Trace, catalogue: &Catalogue, query: &Query<'_>, wish: &Wish) -> Result<Vec<Report>, Error> {
    if wish.tracex {
        return tracex::reports(trace, catalogue, query, &wish.names);
    }
    let mut visitors: Vec<Box<dyn Visitor>> = Vec::new();
    for name in &wish.names {
        visitors.push(match name {
            Name::Profile => Box::<profile::Profile>::default(),
            Name::Stats => Box::<stats::Stats>::default(),
            Name::Services => Box::<services::Services>::default(),
            Name::Stack => Box::<stack::Stack>::default(),
            Name::Inversions => Box::<inversions::Inversions>::default(),
            Name::Blocked => Box::<blocked::Blocked>::default(),
            Name::Latency => Box::new(latency::Latency::new(trace, catalogue, wish)?),
            Name::Use => Box::new(usage::Use::new(trace, catalogue)),
        });
    }
    Ok(run(trace, catalogue, query, &mut visitors))
}

/// A report in the making.
pub trait Visitor {
    /// Somebody had a core up to this event.
    fn span(&mut self, span: &Span, tracker: &Tracker<'_>) {
        let _ = (span, tracker);
    }

    /// The event changes something. The tracker already knows.
    fn change(&mut self, event: &Event, change: &Change, tracker: &Tracker<'_>) {
        let _ = (event, change, tracker);
    }

    /// The same for what goes on over several events: each change up to the end of the window, whatever the filters keep.
    fn seen(&mut self, seen: &Seen<'_>, change: &Change, tracker: &Tracker<'_>) {
        let _ = (seen, change, tracker);
    }

    /// An event that the filters keep, after its changes.
    fn event(&mut self, event: &Event, tracker: &Tracker<'_>) {
        let _ = (event, tracker);
    }

    /// All of these for one event. No report writes it for itself: made anew for each of them, it costs one call an event,
    /// and what a report does not look at costs nothing.
    fn step(&mut self, step: &Step<'_>, tracker: &Tracker<'_>) {
        let event = step.seen.event;
        step.spans.iter().for_each(|s| self.span(s, tracker));
        if step.in_sight {
            step.changes.iter().for_each(|c| self.seen(&step.seen, c, tracker));
        }
        if step.seen.kept {
            step.changes.iter().for_each(|c| self.change(event, c, tracker));
            self.event(event, tracker);
        }
    }

    /// Everything was seen.
    fn finish(&mut self, whole: &Whole, tracker: &Tracker<'_>) -> Vec<Report>;
}

/// An event and whether it counts.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'e> {
    /// The event.
    pub event: &'e Event,
    /// False before the window.
    pub inside: bool,
    /// True where the filters keep it.
    pub kept: bool,
}

/// What reports are told of one event.
#[derive(Debug, Clone, Copy)]
pub struct Step<'s> {
    /// The event.
    pub seen: Seen<'s>,
    /// Who had its core up to it, within the window.
    pub spans: &'s [Span],
    /// What it changes.
    pub changes: &'s [Change],
    /// False behind the window.
    pub in_sight: bool,
}

/// What was looked at.
#[derive(Debug, Clone, Default)]
pub struct Whole {
    /// Number of events in the trace.
    pub events: u64,
    /// Number of events that the filters keep.
    pub kept: u64,
    /// Ticks of the first event and of the last.
    pub span: Option<(i64, i64)>,
    /// True where filters leave something out: reports say so.
    pub filtered: bool,
    /// True where the trace has lost its beginning: states before the first event that tells are unknown.
    pub wrapped: bool,
    /// Number of cores.
    pub cores: u16,
    /// How far events tell of interrupts, in the whole trace.
    pub announced: Announced,
}

/// How far a trace tells when interrupts begin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Announced {
    /// True where an event says that an interrupt begins.
    any: bool,
    /// True where an interrupt inserted events, and none of its beginning.
    bare: bool,
    /// True behind the oldest events, if these are of an interrupt: what says that it begins may be overwritten.
    behind_first: bool,
}

impl Announced {
    /// Takes what an event changes.
    fn see(&mut self, changes: &[Change]) {
        let bare = changes.iter().any(|c| matches!(c, Change::Unannounced));
        self.bare |= bare && self.behind_first;
        self.behind_first |= !bare;
        self.any |= changes.iter().any(|c| matches!(c, Change::Entered { .. }));
    }

    /// What is not told, in words; `None` where every interrupt that inserted events said that it began.
    const fn missing(self) -> Option<&'static str> {
        match self {
            Self { any: false, .. } => Some("interrupts are not announced in this trace"),
            Self { bare: true, .. } => Some("some interrupts are not announced in this trace"),
            Self { any: true, bare: false, .. } => None,
        }
    }
}

impl Whole {
    /// Ticks from the first event to the last.
    #[must_use]
    pub fn ticks(&self) -> i64 {
        self.span.map_or(0, |(from, to)| to.saturating_sub(from))
    }

    /// What every report says of its window.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.filtered {
            notes.push(format!("filters keep {} of {} events; only they are counted", self.kept, self.events));
        }
        notes
    }

    /// Whose the time of an interrupt is that no event announces; `None` where all are announced.
    fn interrupted_time(&self) -> Option<String> {
        let said = self.announced.missing()?;
        Some(format!("{said}: their time counts as that of the thread (or idle time) that they interrupt, or wake"))
    }
}

/// So many of something.
fn many(n: u64, one: &str, more: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { more })
}

/// Runs reports over a trace in one pass. The tracker sees every event, so that states are right; reports see what the
/// filters keep, and the time between events that the filters' range keeps.
#[must_use]
pub fn run(trace: &Trace, catalogue: &Catalogue, query: &Query<'_>, visitors: &mut [Box<dyn Visitor>]) -> Vec<Report> {
    let mut tracker = Tracker::new(trace, catalogue);
    let mut whole = Whole {
        filtered: !query.keeps_all(),
        wrapped: trace.about.wrapped,
        cores: trace.about.cores,
        ..Whole::default()
    };
    let mut told = Told::default();
    let all = query.keeps_all();
    let mut take = |event: &Event, next: Option<&Event>| {
        whole.events = whole.events.saturating_add(1);
        let in_range = all || query.is_in_range(event);
        let kept = all || in_range && query.keeps(event);
        tracker.step(event, next, &mut told);
        whole.announced.see(&told.changes);
        match whole.span {
            Some((from, to)) if in_range => {
                if told.spans.iter().any(|s| s.from < from) {
                    told.spans.retain(|s| s.from >= from);
                }
                whole.span = Some((from.min(event.ticks), to.max(event.ticks)));
            }
            // The time up to the first event of the window lies outside it.
            before => {
                told.spans.clear();
                whole.span = before.or(in_range.then_some((event.ticks, event.ticks)));
            }
        }
        whole.kept = whole.kept.saturating_add(u64::from(kept));
        let step = Step {
            seen: Seen { event, inside: in_range, kept },
            spans: &told.spans,
            changes: &told.changes,
            in_sight: in_range || whole.span.is_none(),
        };
        visitors.iter_mut().for_each(|v| v.step(&step, &tracker));
    };
    // Each event is taken when the one after it is known.
    let mut last: Option<Event> = None;
    trace.visit_ahead(|event| {
        if let Some(before) = last.replace(*event) {
            take(&before, Some(event));
        }
        ControlFlow::Continue(())
    });
    if let Some(last) = last {
        take(&last, None);
    }
    let mut reports: Vec<Report> = visitors.iter_mut().flat_map(|v| v.finish(&whole, &tracker)).collect();
    times::judge(&mut reports, &trace.clock);
    reports
}

/// Part of a whole in percent; 0 of nothing.
#[must_use]
pub fn share(part: i64, whole: i64) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "a share is shown with two decimals")]
    if whole > 0 { part as f64 * 100.0 / whole as f64 } else { 0.0 }
}

/// A thread as a cell.
#[must_use]
pub fn thread_cell(no: ThreadNo, tracker: &Tracker<'_>) -> Cell {
    let Some(thread) = tracker.thread(no) else { return Cell::Empty };
    Cell::Named(thread.address, tracker.name(no).map(str::to_owned))
}

/// An object as a cell.
#[must_use]
pub fn object_cell(address: crate::abi::Addr, tracker: &Tracker<'_>) -> Cell {
    let name = tracker.trace.objects.at(address).map(|o| o.name.clone()).filter(|n| !n.is_empty());
    Cell::Named(address, name)
}

/// A word for who has a core.
#[must_use]
pub const fn word(who: Who) -> &'static str {
    match who {
        Who::Thread(_) => "thread",
        Who::Isr => "isr",
        Who::Idle => "idle",
        Who::Init => "init",
        Who::Unknown => "unknown",
    }
}

/// Who had a core, as a cell: a thread by name, the others by their word.
#[must_use]
pub fn who_cell(who: Who, tracker: &Tracker<'_>) -> Cell {
    match who {
        Who::Thread(no) => thread_cell(no, tracker),
        other => Cell::Text(word(other).to_owned()),
    }
}
