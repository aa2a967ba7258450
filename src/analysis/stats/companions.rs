//! Counters of the products that share the kernel's buffer. The catalogue says which events feed them.

use crate::analysis::{Tracker, Whole};
use crate::catalogue::{Counter, counters};
use crate::report::{Cell, Column, Kind, Report};
use crate::trace::Event;

/// What is added up of one counter.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    value: u64,
    /// Events that could have fed it.
    events: u64,
    /// Of these, events that do not tell.
    untold: u64,
}

/// The counters, and by definition which of them it feeds.
#[derive(Debug, Default)]
pub struct Companions {
    by_def: Option<Vec<Vec<usize>>>,
    sums: Vec<Sum>,
}

/// By definition the counters that its events feed.
fn feeds(tracker: &Tracker<'_>) -> Vec<Vec<usize>> {
    let of = |name: &str| counters().iter().enumerate().filter(|(_, c)| c.event == name).map(|(i, _)| i).collect();
    tracker.catalogue.iter().map(|def| of(&def.name)).collect()
}

impl Companions {
    /// An event, which may feed counters.
    #[inline]
    pub fn event(&mut self, event: &Event, tracker: &Tracker<'_>) {
        let fed = |by_def: &Vec<Vec<usize>>| {
            event.def.and_then(|d| by_def.get(usize::try_from(d.0).ok()?)).is_some_and(|fed| !fed.is_empty())
        };
        if self.by_def.as_ref().is_none_or(fed) {
            self.feed(event, tracker);
        }
    }

    fn feed(&mut self, event: &Event, tracker: &Tracker<'_>) {
        let by_def = self.by_def.get_or_insert_with(|| feeds(tracker));
        let Some(fed) = event.def.and_then(|d| by_def.get(usize::try_from(d.0).ok()?)) else { return };
        if fed.is_empty() {
            return;
        }
        self.sums.resize(counters().len(), Sum::default());
        let words = tracker.trace.words(event);
        for index in fed {
            let (Some(counter), Some(sum)) = (counters().get(*index), self.sums.get_mut(*index)) else { continue };
            sum.events = sum.events.saturating_add(1);
            match counter.adds.of(words, event.doubtful) {
                Some(n) => sum.value = sum.value.saturating_add(n),
                None => sum.untold = sum.untold.saturating_add(1),
            }
        }
    }

    /// A report for each product of which there was an event.
    pub fn reports(&self, whole: &Whole) -> Vec<Report> {
        let mut reports: Vec<Report> = Vec::new();
        let rows: Vec<(&Counter, Sum)> = counters().iter().zip(self.sums.iter().copied()).collect();
        let there = |name| rows.iter().any(|(c, s)| c.report == name && s.events > 0);
        for (counter, sum) in rows.iter().filter(|(c, _)| there(c.report)) {
            if reports.last().is_none_or(|r| r.name != counter.report) {
                let columns =
                    vec![Column { name: "counter", kind: Kind::Text }, Column { name: "value", kind: Kind::Count }];
                reports.push(Report { name: counter.report, columns, notes: whole.notes(), ..Report::default() });
            }
            let Some(report) = reports.last_mut() else { continue };
            report.rows.push(vec![Cell::Text(counter.name.to_owned()), Cell::Count(sum.value)]);
            if sum.untold > 0 {
                report.notes.push(format!(
                    "{}: {} of {} events are left out; the kernel had not filled in what they would tell",
                    counter.name, sum.untold, sum.events
                ));
            }
            if sum.value > 0 && !counter.note.is_empty() {
                report.notes.push(counter.note.to_owned());
            }
        }
        reports
    }
}
