//! Counters of the products that share the kernel's buffer. The catalogue says which events feed them.

#![expect(clippy::arithmetic_side_effects, reason = "counts and indices; ticks are added with saturation")]

use super::COUNTER;
use crate::analysis::scope::Scope;
use crate::analysis::tracker::System;
use crate::catalogue::{Catalogue, Counter, counters};
use crate::report::{Cell, Report, Term};
use crate::trace::{DefId, Event};

/// What is added up of one counter.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    value: u64,
    /// Events that could have fed it.
    events: u64,
    /// Of these, events whose word the kernel had not filled in.
    unfilled: u64,
}

/// The counters, and by definition which of them it feeds.
#[derive(Debug)]
pub struct Components {
    by_def: Vec<Vec<usize>>,
    sums: Vec<Sum>,
}

impl Components {
    /// Looks up which definitions feed counters.
    pub fn new(catalogue: &Catalogue) -> Self {
        let mut by_def = vec![Vec::new(); catalogue.iter().count()];
        for (at, counter) in counters().iter().enumerate() {
            for (_, fed) in catalogue.iter().zip(&mut by_def).filter(|(def, _)| def.name == counter.event) {
                fed.push(at);
            }
        }
        Self { by_def, sums: vec![Sum::default(); counters().len()] }
    }

    /// True where events of a definition feed counters.
    pub fn has(&self, def: DefId) -> bool {
        self.by_def.get(def.index()).is_some_and(|fed| !fed.is_empty())
    }

    /// An event, which may feed counters.
    pub fn event(&mut self, event: &Event, system: &System<'_>) {
        let fed = event.def.and_then(|d| self.by_def.get(d.index())).filter(|fed| !fed.is_empty());
        let Some(fed) = fed else { return };
        let words = system.trace.words(event);
        for index in fed {
            let (Some(counter), Some(sum)) = (counters().get(*index), self.sums.get_mut(*index)) else { continue };
            sum.events += 1;
            match counter.adds.of(words, event.doubtful) {
                Some(n) => sum.value = sum.value.saturating_add(n),
                None => sum.unfilled += 1,
            }
        }
    }

    /// A report for each product of which there was an event.
    pub fn reports(&self, scope: &Scope<'_>) -> Vec<Report> {
        let mut reports: Vec<Report> = Vec::new();
        let rows: Vec<(&Counter, Sum)> = counters().iter().zip(self.sums.iter().copied()).collect();
        let there = |name| rows.iter().any(|(c, s)| c.report == name && s.events > 0);
        for (counter, sum) in rows.iter().filter(|(c, _)| there(c.report)) {
            if reports.last().is_none_or(|r| r.name != counter.report.name) {
                let Term { name, title } = counter.report;
                reports.push(Report { notes: scope.notes(), ..Report::new(name, title, COUNTER) });
            }
            let Some(report) = reports.last_mut() else { continue };
            let known = sum.events == 0 || sum.unfilled < sum.events;
            let value = if known { Cell::Count(sum.value) } else { Cell::Empty };
            report.rows.push([Cell::term(counter.term), value]);
            if sum.unfilled > 0 {
                report.notes.push(format!(
                    "{}: {} of {} events are left out: the kernel had not filled in the word",
                    counter.term.title, sum.unfilled, sum.events
                ));
            }
        }
        reports
    }
}
