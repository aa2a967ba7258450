//! What the clock counts decides what a report can say of time: the reason is the first note of every report that has any.
//! Where it measures time, and its rate is not known, a note says how to get units.

use crate::report::{Cell, Column, Kind, RATELESS, Report};
use crate::trace::{Clock, Counts};

/// Removes from reports what the clock does not measure, and says why.
pub(super) fn judge(reports: &mut [Report], clock: &Clock) {
    let timed = reports.iter_mut().filter(|r| r.columns.iter().any(|c| c.kind == Kind::Ticks));
    let Some(why) = why(clock.counts) else {
        if clock.hz.is_none() {
            let shows = |r: &&mut Report| r.rows.iter().flatten().any(|cell| matches!(cell, Cell::Ticks(_)));
            timed.filter(shows).for_each(|report| report.notes.push(RATELESS.to_owned()));
        }
        return;
    };
    for report in timed {
        let unknown: Vec<bool> = report.columns.iter().map(|c| is_unknown(c, clock.counts)).collect();
        for row in report.rows.iter_mut() {
            let cells = row.iter_mut().zip(&unknown).filter(|(_, unknown)| **unknown);
            cells.for_each(|(cell, _)| *cell = Cell::Empty);
        }
        report.notes.insert(0, why.to_owned());
    }
}

/// Why ticks are not time; `None` where they are.
pub(super) const fn why(counts: Counts) -> Option<&'static str> {
    match counts {
        Counts::Time => None,
        Counts::AwakeTime => {
            Some("the clock stops while the processor sleeps: idle time, and waits across it, were longer than shown")
        }
        Counts::Events(_) => Some("the clock counts events, not time: how long anything took is not known"),
        Counts::Nothing => Some("the clock does not advance: how long anything took is not known"),
    }
}

/// How long something took, for a sentence; `None` where the clock does not measure it.
pub fn length(clock: &Clock, ticks: i64) -> Option<String> {
    number(clock, ticks).map(|(number, unit)| format!("{number} {unit}"))
}

/// The same beside another length, whose unit is said.
pub(super) fn again(clock: &Clock, ticks: i64) -> Option<String> {
    if clock.hz.is_some() { length(clock, ticks) } else { number(clock, ticks).map(|(number, _)| number) }
}

/// Number and unit.
fn number(clock: &Clock, ticks: i64) -> Option<(String, &'static str)> {
    let unit = match clock.counts {
        Counts::Nothing => return None,
        Counts::Events(1) => "events",
        Counts::Events(_) | Counts::Time | Counts::AwakeTime => "ticks",
    };
    let Some(hz) = clock.hz.filter(|hz| hz.is_finite() && *hz > 0.0) else { return Some((ticks.to_string(), unit)) };
    #[allow(clippy::cast_precision_loss, reason = "three decimals are shown")]
    let seconds = ticks as f64 / hz;
    let units = [("s", 1.0), ("ms", 1e3), ("us", 1e6), ("ns", 1e9)];
    let fits = units.iter().find(|(_, per)| (seconds * per).abs() >= 1.0);
    let (unit, per) = fits.copied().unwrap_or(("us", 1e6));
    Some((format!("{:.3}", seconds * per), unit))
}

/// True where a column holds what cannot be known of such a clock.
fn is_unknown(column: &Column, counts: Counts) -> bool {
    match counts {
        Counts::Time | Counts::AwakeTime => false,
        // A share of events is none of the time.
        Counts::Events(_) => column.name == "share",
        Counts::Nothing => column.kind == Kind::Ticks || matches!(column.name, "share" | "max_seq"),
    }
}
