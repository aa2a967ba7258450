//! What reports look at: the events that the filters keep, and the time between the first and the last of the window.

#![expect(clippy::arithmetic_side_effects, reason = "counts of events")]

use super::tracker::{Call, System, ThreadNo, place};
use crate::query::Query;
use crate::report::{Cell, Report};
use crate::trace::{Event, Trace};

/// How many events count as the end of a trace.
const END: u64 = 1 << 16;
/// The most contexts that are counted apart.
const MAX_CONTEXTS: usize = 1 << 24;

/// The window and the filters of reports, and what was seen of them.
pub(super) struct Scope<'q> {
    query: &'q Query<'q>,
    /// The most rows that a table is to have.
    pub most: usize,
    /// Number of events in the trace.
    pub events: u64,
    /// Number of events that the filters keep.
    pub kept: u64,
    /// Ticks of the first event of the window and of the last.
    pub span: Option<(i64, i64)>,
    /// Ticks of the window's first event, in the order of the trace.
    pub begun: Option<i64>,
    /// True where filters leave something out: reports say so.
    pub filtered: bool,
    /// Number of cores.
    pub cores: u16,
    /// True where the filters keep the event that is looked at.
    pub keeps: bool,
    /// True where it is in the window.
    pub inside: bool,
    /// False where it follows the window.
    pub in_sight: bool,
    /// Number of events before the last few.
    begin_of_end: u64,
    /// Slots after the newest event that could not be read.
    unread_at_end: u64,
    /// Where filters leave something out: by context, the last event that they keep.
    last_kept: Vec<Option<u64>>,
}

impl<'q> Scope<'q> {
    pub fn new(trace: &Trace, query: &'q Query<'q>) -> Self {
        Self {
            query,
            most: usize::MAX,
            events: 0,
            kept: 0,
            span: None,
            begun: None,
            filtered: !query.keeps_all(),
            cores: trace.about.cores,
            keeps: true,
            inside: true,
            in_sight: true,
            begin_of_end: trace.len().saturating_sub(END),
            unread_at_end: trace.unread_at_end(),
            last_kept: Vec::new(),
        }
    }

    /// Takes the next event; the ticks from which on spans up to it are in the window.
    pub fn take(&mut self, event: &Event) -> i64 {
        self.events += 1;
        if self.filtered {
            self.judge(event);
        }
        self.kept += u64::from(self.keeps);
        // The time up to the first event of the window is outside it.
        match self.span {
            Some((from, to)) if self.inside => {
                self.span = Some((from.min(event.ticks), to.max(event.ticks)));
                from
            }
            Some(_) => i64::MAX,
            None => {
                self.begun = self.inside.then_some(event.ticks);
                self.span = self.begun.map(|begun| (begun, begun));
                i64::MAX
            }
        }
    }

    /// Takes all events of a trace that no filter leaves out: their number, and the ticks of the first and the last in time.
    pub const fn take_all(&mut self, events: u64, ticks: Option<(i64, i64)>) {
        (self.events, self.kept, self.span) = (events, events, ticks);
    }

    #[cold]
    fn judge(&mut self, event: &Event) {
        self.inside = self.query.is_in_range(event);
        self.keeps = self.inside && self.query.keeps(event);
        self.in_sight = self.inside || self.span.is_none();
        if self.keeps
            && let Ok(at) = usize::try_from(event.context.0)
            && at < MAX_CONTEXTS
            && let Some(last) = place(&mut self.last_kept, at)
        {
            *last = Some(event.seq);
        }
    }

    /// True where the events that are kept may be the last ones; without filters these are far from the first.
    pub const fn is_near_end(&self) -> bool {
        self.filtered || self.events >= self.begin_of_end
    }

    /// True where a wait that begins with the event that is looked at is to be counted: the filters keep that event, or
    /// the call; or it begins before the window.
    pub fn keeps_wait(&self, thread: ThreadNo, call: Option<Call>, system: &System<'_>) -> bool {
        let last = || {
            let context = usize::try_from(system.thread(thread)?.context?.0).ok()?;
            self.last_kept.get(context).copied().flatten()
        };
        self.keeps || !self.inside || call.is_some_and(|c| last().is_some_and(|last| last >= c.seq))
    }

    /// True for what began before the window.
    pub fn is_before(&self, ticks: i64) -> bool {
        self.begun.is_none_or(|begun| ticks < begun)
    }

    /// Ticks at the end.
    pub fn end(&self) -> i64 {
        self.span.map_or(0, |(_, to)| to)
    }

    /// Adds a row to a table; one more than are asked for is counted, and its cells are not made.
    pub fn push(&self, report: &mut Report, cells: impl FnOnce() -> Vec<Cell>) {
        if report.rows.len() < self.most {
            report.rows.push(cells());
        } else {
            report.more += 1;
        }
    }

    /// What a report of times says of its window: who had the processor does not depend on which events are kept.
    pub fn notes_of_times(&self) -> Vec<String> {
        let mut notes = self.unread();
        if self.filtered && self.kept != self.events {
            notes.push("times are of all events in the range: only --from and --to change them".to_owned());
        }
        notes
    }

    /// What every report says of its window.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = self.unread();
        if self.filtered {
            notes.push(format!("filters keep {} of {} events; only they are counted", self.kept, self.events));
        }
        notes
    }

    fn unread(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.unread_at_end > 0 {
            let slots = if self.unread_at_end == 1 { "slot" } else { "slots" };
            notes.push(format!(
                "the newest {} {slots} cannot be read: what is open here may have ended",
                self.unread_at_end
            ));
        }
        notes
    }
}

/// Whose the time of an interrupt is that no event announces; `None` where all are announced.
pub(super) fn interrupted_time(system: &System<'_>) -> Option<String> {
    let missing = system.announced().missing()?;
    Some(format!("{missing}: their time counts as that of the thread that they interrupt or wake"))
}
