//! `latency`: how long things took, as count, extremes, median and 99th percentile; the event that ended the longest is
//! named. Threads and interrupts always; repeating events and spans between events where they are asked for.

mod every;
mod interrupts;
mod spans;
mod threads;
mod timing;

use super::{Change, Tracker, Visitor, Whole, Wish};
use crate::catalogue::Catalogue;
use crate::error::Error;
use crate::report::Report;
use crate::trace::{Event, Trace};

/// In the making.
#[derive(Debug)]
pub struct Latency {
    threads: threads::Threads,
    interrupts: interrupts::Interrupts,
    every: Option<every::Every>,
    spans: Option<spans::Spans>,
}

impl Latency {
    /// What is wanted, held against the catalogue.
    ///
    /// # Errors
    /// Where an event or a field does not exist.
    pub fn new(trace: &Trace, catalogue: &Catalogue, wish: &Wish) -> Result<Self, Error> {
        Ok(Self {
            threads: threads::Threads::default(),
            interrupts: interrupts::Interrupts::default(),
            every: every::Every::new(&wish.every, catalogue)?,
            spans: spans::Spans::new(&wish.spans, trace, catalogue)?,
        })
    }
}

impl Latency {
    /// Tells those who were asked for by name.
    fn asked(&mut self, event: &Event, tracker: &Tracker<'_>) {
        if let Some(every) = &mut self.every {
            every.event(event);
        }
        if let Some(spans) = &mut self.spans {
            spans.event(event, tracker);
        }
    }
}

impl Visitor for Latency {
    fn change(&mut self, event: &Event, change: &Change, tracker: &Tracker<'_>) {
        self.threads.change(event, change);
        self.interrupts.change(event, change, tracker);
    }

    #[inline]
    fn event(&mut self, event: &Event, tracker: &Tracker<'_>) {
        if self.every.is_some() || self.spans.is_some() {
            self.asked(event, tracker);
        }
    }

    fn finish(&mut self, whole: &Whole, tracker: &Tracker<'_>) -> Vec<Report> {
        let mut all = vec![self.threads.report(whole, tracker), self.interrupts.report(whole, tracker)];
        all.extend(self.every.as_ref().map(|e| e.report(whole, tracker)));
        all.extend(self.spans.as_ref().map(|s| s.report(whole, tracker)));
        all
    }
}
