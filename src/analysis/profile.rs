//! `profile`: who had the processor, for how long. The parts add up to the whole: what cannot be attributed is a row.

use std::collections::BTreeMap;

use super::{Span, Tracker, Visitor, Who, Whole, share, who_cell, word};
use crate::report::{Cell, Column, Kind, Report};

/// Adds up the time of everybody, by core.
#[derive(Debug, Default)]
pub struct Profile {
    by: BTreeMap<(u16, Who), (i64, u64)>,
}

impl Visitor for Profile {
    fn span(&mut self, span: &Span, _: &Tracker<'_>) {
        let (ticks, spans) = self.by.entry((span.core, span.who)).or_default();
        *ticks = ticks.saturating_add(span.to.saturating_sub(span.from));
        *spans = spans.saturating_add(1);
    }

    fn finish(&mut self, whole: &Whole, tracker: &Tracker<'_>) -> Vec<Report> {
        let several = whole.cores > 1;
        let mut columns = vec![
            Column { name: "who", kind: Kind::Thread },
            Column { name: "kind", kind: Kind::Text },
            Column { name: "ticks", kind: Kind::Ticks },
            Column { name: "share", kind: Kind::Real(2) },
        ];
        if several {
            columns.insert(0, Column { name: "core", kind: Kind::Count });
        }
        let mut report = Report { name: "profile", columns, ..Report::default() };
        let mut totals: BTreeMap<u16, i64> = BTreeMap::new();
        for ((core, _), (ticks, _)) in &self.by {
            let total = totals.entry(*core).or_default();
            *total = total.saturating_add(*ticks);
        }
        let mut rows: Vec<(&(u16, Who), i64)> = self.by.iter().map(|(k, (ticks, _))| (k, *ticks)).collect();
        rows.sort_by_key(|((core, _), ticks)| (*core, std::cmp::Reverse(*ticks)));
        for ((core, who), ticks) in rows {
            // A core's last event at the same tick as its first gives nobody any time.
            if ticks == 0 && *who == Who::Unknown {
                continue;
            }
            let total = totals.get(core).copied().unwrap_or(0);
            let mut row = vec![
                who_cell(*who, tracker),
                Cell::Text(word(*who).to_owned()),
                Cell::Ticks(ticks),
                Cell::Real(share(ticks, total)),
            ];
            if several {
                row.insert(0, Cell::Count(u64::from(*core)));
            }
            report.rows.push(row);
        }
        report.notes = whole.notes();
        if !tracker.trace.clock.runs {
            report.notes.push("the clock stands still: nobody's time can be told".to_owned());
        }
        let unknown: i64 = self.by.iter().filter(|((_, w), _)| *w == Who::Unknown).map(|(_, (t, _))| *t).sum();
        if unknown > 0 {
            report.notes.push(
                "unknown: the event at the end of the time is of somebody whom no event before it made run".to_owned(),
            );
        }
        vec![report]
    }
}
