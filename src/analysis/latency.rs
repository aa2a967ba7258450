//! `latency`: how long things took, as count, extremes, median and 99th percentile; the event that ended the longest is
//! named. Threads and interrupts always; repeating events and spans between events where they are asked for.

mod every;
mod interrupts;
mod spans;
mod threads;
mod timing;

use super::scope::Scope;
use super::tracker::{Step, System};
use super::{Changes, Making, Needs, Of};
use crate::catalogue::Role;
use crate::error::Error;
use crate::report::Report;
use crate::trace::{DefId, Event};

/// In the making.
#[derive(Debug)]
pub(super) struct Latency {
    threads: threads::Threads,
    interrupts: interrupts::Interrupts,
    every: Option<every::Every>,
    spans: Option<spans::Spans>,
}

impl Making for Latency {
    /// It times changes, and events where that is asked for.
    const NEEDS: Needs = Needs { spans: false, changes: Changes::Kept, calls: false };

    fn make(of: &Of<'_>) -> Result<Self, Error> {
        Ok(Latency {
            threads: threads::Threads::new(of.by_thread()),
            interrupts: interrupts::Interrupts::default(),
            every: every::Every::new(&of.request.every, of.catalogue)?,
            spans: spans::Spans::new(&of.request.spans, of.trace, of.catalogue)?,
        })
    }

    fn changes(&mut self, step: &Step<'_>, _: &Scope<'_>, system: &System<'_>) {
        for change in step.changes {
            self.threads.change(step.event, change);
            self.interrupts.change(step.event, change, system);
        }
    }

    fn gap(&mut self) {
        self.every.iter_mut().for_each(every::Every::gap);
        self.spans.iter_mut().for_each(spans::Spans::gap);
    }

    fn looks_at(&self, _: Option<DefId>, _: Option<&Role>) -> bool {
        self.every.is_some() || self.spans.is_some()
    }

    fn event(&mut self, event: &Event, system: &System<'_>) {
        if let Some(every) = &mut self.every {
            every.event(event);
        }
        if let Some(spans) = &mut self.spans {
            spans.event(event, system);
        }
    }

    fn finish(self, scope: &Scope<'_>, system: &System<'_>) -> Vec<Report> {
        let mut all = vec![self.threads.report(scope, system), self.interrupts.report(scope, system)];
        all.extend(self.every.map(|e| e.report(scope, system)));
        all.extend(self.spans.map(|s| s.report(scope)));
        all
    }
}
