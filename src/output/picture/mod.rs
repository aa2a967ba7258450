//! PICTURES: writers of timelines. The model shows slices, instants, levels, gaps and marks ([`crate::timeline`]); `words`
//! finds the names for all writers, and each writer has a file of its own.

pub mod chrome;
pub mod html;
pub mod perfetto;
mod proto;
pub mod terminal;
pub mod words;

use crate::timeline::{Mark, Scene};

/// Moments of a picture for viewers that count in nanoseconds: exact where the rate of the clock is known, else one for
/// each tick.
#[derive(Debug, Clone, Copy)]
pub struct Time {
    origin: i64,
    hz: Option<f64>,
}

/// Nanoseconds in a second.
const NANOS: i128 = 1_000_000_000;

impl Time {
    /// Counts from the first event of the window.
    pub fn of(scene: &Scene<'_>) -> Self {
        Self { origin: scene.window.0, hz: scene.hz() }
    }

    /// Nanoseconds from the first event, rounded down: moments that follow each other still do.
    #[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "a rate is at most 1e12")]
    fn nanos(&self, ticks: i64) -> u64 {
        let ticks = ticks.saturating_sub(self.origin).max(0);
        let nanos = match self.hz {
            None => i128::from(ticks),
            Some(hz) if hz.fract() == 0.0 && hz >= 1.0 => {
                i128::from(ticks).saturating_mul(NANOS).checked_div(hz as i128).unwrap_or(0)
            }
            Some(hz) => (ticks as f64 * 1e9 / hz) as i128,
        };
        u64::try_from(nanos).unwrap_or(u64::MAX)
    }

    /// What a file says of its times.
    pub fn sentence(&self) -> String {
        match self.hz {
            Some(hz) => format!("times are exact: the clock has {hz} ticks a second"),
            None => "the clock's rate is not known: 1 ns is 1 tick (--hz)".to_owned(),
        }
    }
}

/// Gives each mark a row, so that those in one row do not overlap: the numbers of the rows, by mark.
fn rows(marks: &[Mark]) -> Vec<u32> {
    const MOST: usize = 64;
    let mut ends: Vec<i64> = Vec::new();
    let mut rows = Vec::with_capacity(marks.len());
    for mark in marks {
        let free = ends.iter().position(|end| *end < mark.from || (*end == mark.from && mark.from < mark.to));
        let row = free.unwrap_or_else(|| if ends.len() < MOST { ends.len() } else { MOST.saturating_sub(1) });
        match ends.get_mut(row) {
            Some(end) => *end = mark.to.max(*end),
            None => ends.push(mark.to),
        }
        rows.push(u32::try_from(row).unwrap_or(0));
    }
    rows
}
