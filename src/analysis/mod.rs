//! REPORTS: one pass over the events feeds one [`Tracker`], and all reports consume what it finds: spans, changes, calls
//! with outcomes. They ask for effects, never for ids, so that they serve every system; only `tracex/` knows the ids of the
//! system whose viewer it imitates.

mod blocked;
mod cells;
pub mod histogram;
mod intern;
mod inversions;
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

use crate::catalogue::Catalogue;
use crate::error::Error;
use crate::query::Query;
use crate::report::Report;
use crate::trace::Trace;

pub use cells::share;
pub use outcome::{Outcome, Outcomes, Waker};
pub use tracker::{Consumer, Tracker};

use cells::{address_cell, columns, many, object_cell, thread_cell, who_cell, word};
use scope::Scope;
use tracker::{Step, System, Wants};

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

    /// What this report needs of the tracker; `None` where it looks at events alone.
    const fn wants(self) -> Option<Wants> {
        match self {
            Self::Services | Self::Stack => None,
            Self::Profile => Some(Wants { changes: false, calls: false }),
            Self::Stats | Self::Latency => Some(Wants { changes: true, calls: false }),
            Self::Inversions | Self::Blocked | Self::Use => Some(Wants::ALL),
        }
    }

    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Profile => "profile",
            Self::Stats => "stats",
            Self::Services => "services",
            Self::Stack => "stack",
            Self::Inversions => "inversions",
            Self::Blocked => "blocked",
            Self::Latency => "latency",
            Self::Use => "use",
        }
    }
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
    let has = |name| request.names.contains(&name);
    let mut all = Reports {
        scope: Scope::new(trace, query),
        profile: has(Name::Profile).then(profile::Profile::default),
        stats: has(Name::Stats).then(|| stats::Stats::new(catalogue)),
        services: has(Name::Services).then(|| services::Services::new(trace)),
        stack: has(Name::Stack).then(stack::Stack::default),
        inversions: has(Name::Inversions).then(|| inversions::Inversions::new(trace)),
        blocked: has(Name::Blocked).then(blocked::Blocked::default),
        latency: if has(Name::Latency) { Some(latency::Latency::new(trace, catalogue, request)?) } else { None },
        usage: has(Name::Use).then(|| usage::Use::new(trace, catalogue)),
    };
    let wants = request.names.iter().filter_map(|n| n.wants());
    let wants = wants.reduce(|a, b| Wants { changes: a.changes || b.changes, calls: a.calls || b.calls });
    let mut tracker = Tracker::new(trace, catalogue, wants.unwrap_or_default());
    trace.visit_ahead(|event| {
        match wants {
            Some(_) => tracker.event(event, &mut all),
            None => all.step(&Step { event, spans: &[], changes: &[] }, tracker.system()),
        }
        ControlFlow::Continue(())
    });
    tracker.finish(&mut all);
    let mut reports: Vec<Report> = Vec::new();
    for name in &request.names {
        reports.extend(all.finish(*name, tracker.system()));
    }
    times::judge(&mut reports, &trace.clock);
    Ok(reports)
}

/// The reports that are being made.
struct Reports<'q> {
    scope: Scope<'q>,
    profile: Option<profile::Profile>,
    stats: Option<stats::Stats>,
    services: Option<services::Services>,
    stack: Option<stack::Stack>,
    inversions: Option<inversions::Inversions>,
    blocked: Option<blocked::Blocked>,
    latency: Option<latency::Latency>,
    usage: Option<usage::Use>,
}

impl Consumer for Reports<'_> {
    /// States must be right, so the tracker sees every event; reports see what the filters keep, and the time between
    /// events that the filters' range keeps.
    #[inline]
    fn step(&mut self, step: &Step<'_>, system: &System<'_>) {
        let (event, changes) = (step.event, step.changes);
        let spans = self.scope.take(step);
        let scope = &self.scope;
        if let Some(profile) = &mut self.profile {
            spans.clone().for_each(|s| profile.span(s));
        }
        if let Some(stats) = &mut self.stats {
            spans.clone().for_each(|s| stats.span(s));
        }
        if let Some(inversions) = &mut self.inversions {
            spans.for_each(|s| inversions.span(s, system));
        }
        // What goes on over several events is followed up to the end of the window, whatever the filters keep.
        if !changes.is_empty() && scope.in_sight {
            if let Some(inversions) = &mut self.inversions {
                changes.iter().for_each(|c| inversions.change(event, c, scope, system));
            }
            if let Some(blocked) = &mut self.blocked {
                changes.iter().for_each(|c| blocked.change(event, c, scope, system));
            }
        }
        if !scope.keeps {
            return;
        }
        if let Some(stats) = &mut self.stats {
            changes.iter().for_each(|c| stats.change(event, c, system));
            stats.event(event, system);
        }
        if let Some(latency) = &mut self.latency {
            changes.iter().for_each(|c| latency.change(event, c, system));
            latency.event(event, system);
        }
        if let Some(usage) = &mut self.usage {
            changes.iter().for_each(|c| usage.change(event, c, system));
            usage.event(event, system);
        }
        if let Some(services) = &mut self.services {
            services.event(event);
        }
        if let Some(stack) = &mut self.stack {
            stack.event(event, system);
        }
    }
}

impl Reports<'_> {
    /// One report, with those that belong to it.
    fn finish(&mut self, name: Name, system: &System<'_>) -> Vec<Report> {
        let scope = &self.scope;
        let made = match name {
            Name::Profile => self.profile.take().map(|r| r.finish(scope, system)),
            Name::Stats => self.stats.take().map(|r| r.finish(scope, system)),
            Name::Services => self.services.take().map(|r| r.finish(scope, system)),
            Name::Stack => self.stack.take().map(|r| r.finish(scope, system)),
            Name::Inversions => self.inversions.take().map(|r| r.finish(scope, system)),
            Name::Blocked => self.blocked.take().map(|r| r.finish(scope, system)),
            Name::Latency => self.latency.take().map(|r| r.finish(scope, system)),
            Name::Use => self.usage.take().map(|r| r.finish(scope, system)),
        };
        made.unwrap_or_default()
    }
}
