//! Durations of one kind, and how all of these reports show them.

#![expect(clippy::arithmetic_side_effects, reason = "counts and indices; ticks are added with saturation")]

use crate::analysis::histogram::Histogram;
use crate::analysis::many;
use crate::analysis::scope::Scope;
use crate::report::{Cell, Column, Kind};

/// Durations of one kind.
#[derive(Debug, Clone, Default)]
pub(super) struct Timing {
    histogram: Histogram,
    /// The event that ended the longest.
    worst: u64,
    /// How many ended before they began, by the clock: nothing can be said of them.
    pub backwards: u64,
}

impl Timing {
    /// Counts one that the event of this number ended.
    pub fn add(&mut self, from: i64, to: i64, seq: u64) {
        let Some(ticks) = to.checked_sub(from).and_then(|t| u64::try_from(t).ok()) else {
            self.backwards += 1;
            return;
        };
        if self.histogram.max().is_none_or(|max| ticks > max) {
            self.worst = seq;
        }
        self.histogram.add(ticks);
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.histogram.count()
    }

    /// The longest; 0 of none.
    pub fn max(&self) -> u64 {
        self.histogram.max().unwrap_or(0)
    }

    /// The largest distance from the median.
    pub fn jitter(&self) -> Cell {
        let jitter = || {
            let median = self.histogram.percentile(50)?;
            Some(self.histogram.max()?.abs_diff(median).max(median.abs_diff(self.histogram.min()?)))
        };
        ticks(jitter())
    }

    /// The cells of these columns.
    pub fn cells(&self) -> [Cell; 6] {
        let all = &self.histogram;
        [
            Cell::Count(all.count()),
            ticks(all.min()),
            ticks(all.percentile(50)),
            ticks(all.percentile(99)),
            ticks(all.max()),
            if all.count() > 0 { Cell::Count(self.worst) } else { Cell::Empty },
        ]
    }
}

/// Ticks as a cell.
pub(super) fn ticks(n: Option<u64>) -> Cell {
    n.map_or(Cell::Empty, |n| Cell::Ticks(i64::try_from(n).unwrap_or(i64::MAX)))
}

/// The columns of a report: what was timed, how long it took, and what else there is.
pub(super) fn timing_columns(first: Column, more: &[Column]) -> Vec<Column> {
    let timing = [
        Column::new("count", Kind::Count),
        Column::new("min", Kind::Ticks),
        Column::new("median", Kind::Ticks),
        Column::new("p99", Kind::Ticks),
        Column::new("max", Kind::Ticks),
        Column::new("max_seq", Kind::Seq).titled("max at event"),
    ];
    [first].into_iter().chain(timing).chain(more.iter().copied()).collect()
}

/// What is true of all of these reports.
pub(super) fn notes(scope: &Scope<'_>, backwards: u64) -> Vec<String> {
    let mut notes = scope.notes();
    if backwards > 0 {
        notes.push(format!(
            "{} (events are not in the order of their time): not counted",
            many(backwards, "ended before it began", "ended before they began")
        ));
    }
    notes
}
