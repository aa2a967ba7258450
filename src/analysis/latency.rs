//! `latency`: how long things took, as count, extremes, median and 99th percentile; the event that ended the longest is
//! named. Threads and interrupts always; repeating events and spans between events where they are asked for.

mod every;
mod interrupts;
mod spans;
mod threads;
mod timing;

use super::ReportRequest;
use super::scope::Scope;
use super::tracker::{Change, System};
use crate::catalogue::Catalogue;
use crate::error::Error;
use crate::report::Report;
use crate::trace::{Event, Trace};

/// In the making.
#[derive(Debug)]
pub(super) struct Latency {
    threads: threads::Threads,
    interrupts: interrupts::Interrupts,
    every: Option<every::Every>,
    spans: Option<spans::Spans>,
}

impl Latency {
    /// Checks what is asked for against the catalogue.
    ///
    /// # Errors
    /// Where an event or a field does not exist.
    pub fn new(trace: &Trace, catalogue: &Catalogue, request: &ReportRequest) -> Result<Self, Error> {
        Ok(Self {
            threads: threads::Threads::default(),
            interrupts: interrupts::Interrupts::default(),
            every: every::Every::new(&request.every, catalogue)?,
            spans: spans::Spans::new(&request.spans, trace, catalogue)?,
        })
    }
}

impl Latency {
    #[inline]
    pub fn change(&mut self, event: &Event, change: &Change, system: &System<'_>) {
        self.threads.change(event, change);
        self.interrupts.change(event, change, system);
    }

    #[inline]
    pub fn event(&mut self, event: &Event, system: &System<'_>) {
        if let Some(every) = &mut self.every {
            every.event(event);
        }
        if let Some(spans) = &mut self.spans {
            spans.event(event, system);
        }
    }

    pub fn finish(self, scope: &Scope<'_>, system: &System<'_>) -> Vec<Report> {
        let mut all = vec![self.threads.report(scope, system), self.interrupts.report(scope, system)];
        all.extend(self.every.map(|e| e.report(scope, system)));
        all.extend(self.spans.map(|s| s.report(scope, system)));
        all
    }
}
