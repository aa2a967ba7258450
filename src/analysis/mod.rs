//! REPORTS: one pass over the events feeds one [`Tracker`], and all reports consume what it finds: spans, changes, calls
//! with outcomes. They ask for effects, never for ids, so that they serve every system; only `tracex/` knows the ids of the
//! system whose viewer it imitates.

mod blocked;
mod cells;
pub mod histogram;
mod inversions;
mod last_states;
mod latency;
mod outcome;
mod profile;
mod scope;
mod services;
mod stack;
mod stats;
mod times;
pub mod tracex;
pub mod tracker;
mod usage;

use std::ops::ControlFlow;

use crate::catalogue::{Catalogue, Role};
use crate::error::Error;
use crate::query::{Filters, Query};
use crate::report::Report;
use crate::trace::{DefId, Event, Trace};

pub use cells::share;
pub use inversions::{Circle, Inverted};
pub use last_states::{LastState, LastWait, Place};
pub use outcome::{Outcome, Outcomes, Waker};
pub use times::length;
pub use tracker::{Consumer, Tracker};

use cells::{address_cell, many, object_cell, share_cell, thread_cell, who_cell, word};
use outcome::LastEvents;
use scope::Scope;
use tracker::{Span, Step, System, Wants};

/// The table of reports: name and type. From it come [`Name`] and [`Making`], which calls each without a detour.
macro_rules! reports {
    ($($(#[$doc:meta])* $variant:ident, $name:literal, $module:ident::$type:ident;)*) => {
        /// The reports.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Name {
            $($(#[$doc])* $variant,)*
        }

        impl Name {
            /// All of them, in the order of `report`.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$variant),*];

            /// Its name on the command line.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            const fn needs(self) -> Needs {
                match self {
                    $(Self::$variant => <$module::$type as Making>::NEEDS,)*
                }
            }
        }

        /// The reports that are being made.
        struct Reports<'q> {
            scope: Scope<'q>,
            /// True where events are missing before the next one.
            is_behind_gap: bool,
            /// By definition: a bit for each report that looks at its events. The last is of events without a definition.
            looks: Vec<u32>,
            last: Option<LastEvents>,
            $($module: Option<$module::$type>,)*
        }

        impl<'q> Reports<'q> {
            fn new(scope: Scope<'q>, of: &Of<'_>) -> Result<Self, Error> {
                let mut this = Self { scope, is_behind_gap: false, looks: Vec::new(), last: None, $($module: None,)* };
                this.last = (of.request.last > 0).then(|| LastEvents::new(of.request.last));
                $(if of.request.names.contains(&Name::$variant) {
                    this.$module = Some($module::$type::make(of)?);
                })*
                let looks = |def: Option<DefId>| {
                    let role = def.and_then(|def| of.catalogue.roles().get(def));
                    let mut bits = 0;
                    $(if this.$module.as_ref().is_some_and(|report| report.looks_at(def, role)) {
                        bits |= 1 << Name::$variant as u32;
                    })*
                    bits
                };
                let defs = (0u32..).zip(of.catalogue.iter()).map(|(def, _)| Some(DefId::new(def)));
                this.looks = defs.chain([None]).map(looks).collect();
                Ok(this)
            }

            #[cold]
            fn forget(&mut self) {
                $(if let Some(report) = &mut self.$module {
                    report.gap();
                })*
            }

            fn span(&mut self, span: &Span, system: &System<'_>) {
                $(if let Some(report) = &mut self.$module {
                    report.span(span, system);
                })*
            }

            fn changes(&mut self, step: &Step<'_>, system: &System<'_>) {
                $(if let Some(report) = &mut self.$module
                    && (self.scope.keeps || $module::$type::NEEDS.changes == Changes::UpToEnd)
                {
                    report.changes(step, &self.scope, system);
                })*
            }

            fn event(&mut self, event: &Event, looks: u32, system: &System<'_>) {
                $(if looks & (1 << Name::$variant as u32) != 0
                    && let Some(report) = &mut self.$module
                {
                    report.event(event, system);
                })*
            }

            /// One report, with those that belong to it.
            fn finish(&mut self, name: Name, system: &System<'_>) -> Vec<Report> {
                let made = match name {
                    $(Name::$variant => self.$module.take().map(|report| report.finish(&self.scope, system)),)*
                };
                made.unwrap_or_default()
            }
        }
    };
}

reports! {
    /// Who had the processor, for how long.
    Profile, "profile", profile::Profile;
    /// Counters.
    Stats, "stats", stats::Stats;
    /// How often each event was inserted.
    Services, "services", services::Services;
    /// How low each stack pointer went.
    Stack, "stack", stack::Stack;
    /// Priority inversions.
    Inversions, "inversions", inversions::Inversions;
    /// How long threads waited.
    Blocked, "blocked", blocked::Blocked;
    /// How long things took.
    Latency, "latency", latency::Latency;
    /// How queues, locks, semaphores and pools were used.
    Use, "use", usage::Use;
}

/// What a report needs of the tracker.
#[derive(Debug, Clone, Copy)]
struct Needs {
    /// The spans of the window.
    spans: bool,
    changes: Changes,
    /// In changes: calls, their outcomes, and locks.
    calls: bool,
}

impl Needs {
    /// Nothing: it looks at events alone.
    const NOTHING: Self = Self { spans: false, changes: Changes::None, calls: false };
}

/// Which changes a report needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Changes {
    None,
    /// Those of events that the filters keep.
    Kept,
    /// All up to the end of the window: what goes on over several events is followed whatever the filters keep.
    UpToEnd,
}

/// What reports are made of.
struct Of<'a> {
    trace: &'a Trace,
    catalogue: &'a Catalogue,
    request: &'a ReportRequest,
}

impl Of<'_> {
    /// A list with room for all threads that insert events: one that grows leaves blocks of memory behind.
    fn by_thread<T>(&self) -> Vec<T> {
        Vec::with_capacity(self.trace.contexts.len())
    }
}

/// A report that is being made.
trait Making: Sized {
    /// What of the methods below it has.
    const NEEDS: Needs;

    /// Begins it.
    ///
    /// # Errors
    /// Where the request names what is not there.
    fn make(of: &Of<'_>) -> Result<Self, Error>;

    /// Somebody had a core.
    #[inline(always)]
    fn span(&mut self, span: &Span, system: &System<'_>) {
        let _ = (span, system);
    }

    /// What an event changes.
    #[inline(always)]
    fn changes(&mut self, step: &Step<'_>, scope: &Scope<'_>, system: &System<'_>) {
        let _ = (step, scope, system);
    }

    /// Events are missing: what is open is not known to end, and an interval does not reach over them.
    fn gap(&mut self) {}

    /// True where it looks at the events of a definition, or at those without one.
    fn looks_at(&self, def: Option<DefId>, role: Option<&Role>) -> bool {
        let _ = (def, role);
        false
    }

    /// An event that the filters keep, and that it looks at.
    #[inline(always)]
    fn event(&mut self, event: &Event, system: &System<'_>) {
        let _ = (event, system);
    }

    /// The report, with those that belong to it.
    fn finish(self, scope: &Scope<'_>, system: &System<'_>) -> Vec<Report>;
}

/// Which reports to make, and of what.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReportRequest {
    /// These reports, in this order.
    pub names: Vec<Name>,
    /// By the definitions of the vendor's viewer.
    pub tracex: bool,
    /// Repeating events: names, globs or ids.
    pub every: Vec<String>,
    /// Spans between events: `A..B`, `A..B:FIELD`.
    pub spans: Vec<String>,
    /// How many of the last events to keep, with the outcomes of their calls.
    pub last: usize,
}

impl ReportRequest {
    /// One report alone.
    #[must_use]
    pub fn of(name: Name) -> Self {
        Self { names: vec![name], ..Self::default() }
    }
}

/// Makes the reports.
///
/// # Errors
/// Where the request names what is not there.
pub fn reports(
    trace: &Trace,
    catalogue: &Catalogue,
    query: &Query<'_>,
    request: &ReportRequest,
) -> Result<Vec<Report>, Error> {
    if request.tracex {
        return tracex::reports(trace, catalogue, query, &request.names);
    }
    let mut made = Made::of(trace, catalogue, query, request)?;
    Ok(request.names.iter().flat_map(|name| made.report(*name, usize::MAX)).collect())
}

/// The inversions, and the threads that wait for each other, as periods of time.
pub type Marks = (Vec<Inverted>, Vec<Circle>);

/// What one pass over the events found. Each report is made when it is asked for: who prints them one by one needs room
/// for one.
pub struct Made<'a> {
    reports: Reports<'a>,
    tracker: Tracker<'a>,
    /// Ticks of the latest event.
    end: i64,
}

impl<'a> Made<'a> {
    /// Looks at all events for the reports of a request.
    ///
    /// # Errors
    /// Where the request names what is not there.
    pub fn of(
        trace: &'a Trace,
        catalogue: &'a Catalogue,
        query: &'a Query<'a>,
        request: &ReportRequest,
    ) -> Result<Self, Error> {
        let needs = || request.names.iter().map(|name| name.needs());
        let last = request.last > 0;
        let wants = Wants {
            changes: last || needs().any(|n| n.changes != Changes::None),
            calls: last || needs().any(|n| n.calls),
        };
        let reports = Reports::new(Scope::new(trace, query), &Of { trace, catalogue, request })?;
        if !wants.changes && needs().any(|n| n.spans) && reports.want_times_alone() {
            return Ok(Self::timed(Tracker::new(trace, catalogue, wants), reports));
        }
        if wants.changes || needs().any(|n| n.spans) {
            return Ok(Self::tracked(Tracker::new(trace, catalogue, wants), reports, |reports| reports));
        }
        let (mut reports, tracker, mut end) = (reports, Tracker::new(trace, catalogue, wants), i64::MIN);
        trace.visit(|event| {
            end = end.max(event.ticks);
            reports.step(&Step { event, spans: &[], changes: &[] }, tracker.system());
            ControlFlow::Continue(())
        });
        Ok(Self { reports, tracker, end })
    }

    /// The same, and shows what the tracker finds to another consumer as well, whatever the filters keep: with the
    /// marks of the whole trace. The tracker then sees all changes and calls.
    ///
    /// # Errors
    /// As [`Made::of`].
    pub fn beside(
        trace: &'a Trace,
        catalogue: &'a Catalogue,
        query: &'a Query<'a>,
        request: &ReportRequest,
        also: &mut impl Consumer,
    ) -> Result<(Self, Marks), Error> {
        let reports = Reports::new(Scope::new(trace, query), &Of { trace, catalogue, request })?;
        let all = Query::compile(&Filters::default(), trace, catalogue)?;
        let has_all = query.keeps_all() && request.names.contains(&Name::Inversions);
        let inversions = ReportRequest::of(Name::Inversions);
        let of_all = Of { trace, catalogue, request: &inversions };
        let whole = (!has_all).then(|| Reports::new(Scope::new(trace, &all), &of_all)).transpose()?;
        let (tracker, mut found) = (Tracker::new(trace, catalogue, Wants::ALL), None);
        let mut made = Self::tracked(tracker, Both { reports, whole, also }, |both| {
            found = both.whole;
            both.reports
        });
        let marks = match &mut found {
            Some(whole) => whole.marks(made.system()),
            None => made.reports.marks(made.tracker.system()),
        };
        Ok((made, marks))
    }

    /// Follows all events for a consumer, which has the reports.
    fn tracked<C: Consumer>(mut tracker: Tracker<'a>, mut to: C, reports: impl FnOnce(C) -> Reports<'a>) -> Self {
        let (trace, mut end) = (tracker.system().trace, i64::MIN);
        trace.visit(|event| {
            end = end.max(event.ticks);
            tracker.event(event, &mut to);
            ControlFlow::Continue(())
        });
        tracker.finish(&mut to);
        Self { reports: reports(to), tracker, end }
    }

    /// Follows all events for reports that take spans of the whole trace and nothing else.
    fn timed(mut tracker: Tracker<'a>, reports: Reports<'a>) -> Self {
        let (trace, mut to) = (tracker.system().trace, Times(reports));
        let mut ticks: Option<(i64, i64)> = None;
        trace.visit_unnumbered(|event| {
            let (from, end) = ticks.unwrap_or((event.ticks, event.ticks));
            ticks = Some((from.min(event.ticks), end.max(event.ticks)));
            tracker.event(event, &mut to);
            ControlFlow::Continue(())
        });
        tracker.finish(&mut to);
        let Times(mut reports) = to;
        reports.scope.take_all(trace.len(), ticks);
        Self { reports, tracker, end: ticks.map_or(i64::MIN, |(_, end)| end) }
    }

    /// A report of the request, with those that belong to it, each with so many rows at most; nothing where it was asked
    /// for before.
    pub fn report(&mut self, name: Name, most: usize) -> Vec<Report> {
        self.reports.scope.most = most;
        let mut reports = self.reports.finish(name, self.tracker.system());
        times::judge(&mut reports, &self.tracker.system().trace.clock);
        reports
    }

    /// What the last events leave each thread doing, whatever the filters keep. Waits are known where the request has a
    /// report of waits or locks.
    pub fn last_states(&self) -> impl Iterator<Item = LastState> + '_ {
        last_states::last_states(self.system(), self.end)
    }

    /// The last events that the filters keep, with the outcomes of their calls, as many as the request asks for.
    pub fn last_events(&self) -> impl Iterator<Item = (&Event, Option<Outcome>)> {
        self.reports.last.iter().flat_map(|last| last.events(self.system()))
    }

    /// What is known after the last event, whatever the filters keep.
    pub const fn system(&self) -> &System<'a> {
        self.tracker.system()
    }
}

/// Reports that take spans of the whole trace and nothing else: no event is shown to them.
struct Times<'q>(Reports<'q>);

impl Consumer for Times<'_> {
    fn step(&mut self, step: &Step<'_>, system: &System<'_>) {
        for span in step.spans {
            self.0.span(span, system);
        }
    }
}

/// Reports, and somebody else who looks at the same.
struct Both<'q, 'w, 'c, C> {
    reports: Reports<'q>,
    /// Reports of the whole trace.
    whole: Option<Reports<'w>>,
    also: &'c mut C,
}

impl<C: Consumer> Consumer for Both<'_, '_, '_, C> {
    fn step(&mut self, step: &Step<'_>, system: &System<'_>) {
        self.reports.step(step, system);
        if let Some(whole) = &mut self.whole {
            whole.step(step, system);
        }
        self.also.step(step, system);
    }

    fn gap(&mut self) {
        self.reports.gap();
        if let Some(whole) = &mut self.whole {
            whole.gap();
        }
        self.also.gap();
    }
}

impl Reports<'_> {
    /// True where no filter leaves out a part of the time, and no report looks at events. (One that takes no changes has
    /// nothing that a gap ends.)
    fn want_times_alone(&self) -> bool {
        !self.scope.filtered && self.last.is_none() && self.looks.iter().all(|looks| *looks == 0)
    }

    fn marks(&mut self, system: &System<'_>) -> Marks {
        self.inversions.as_mut().map(|found| found.marks(system)).unwrap_or_default()
    }
}

impl Consumer for Reports<'_> {
    /// States must be right, so the tracker sees every event; reports see what the filters keep, and the time between
    /// events that the filters' range keeps.
    fn step(&mut self, step: &Step<'_>, system: &System<'_>) {
        let from = self.scope.take(step.event);
        if std::mem::take(&mut self.is_behind_gap) && self.scope.in_sight {
            self.forget();
        }
        for span in step.spans.iter().filter(|span| span.from >= from) {
            self.span(span, system);
        }
        if !step.changes.is_empty() && self.scope.in_sight {
            self.changes(step, system);
        }
        if self.scope.is_near_end()
            && let Some(last) = &mut self.last
        {
            last.step(step, self.scope.keeps, system);
        }
        if self.scope.keeps {
            let def = step.event.def.map(DefId::index);
            let looks = def.map_or(self.looks.last(), |def| self.looks.get(def));
            match looks.copied().unwrap_or_default() {
                0 => {}
                looks => self.event(step.event, looks, system),
            }
        }
    }

    fn gap(&mut self) {
        self.is_behind_gap = true;
        if let Some(last) = &mut self.last {
            last.gap();
        }
    }
}
