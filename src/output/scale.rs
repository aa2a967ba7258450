//! One unit a column, chosen by what the column has to hold.

use super::text::{add_decimal, add_fixed};
use crate::trace::{Clock, Counts};

/// How ticks are written in a column.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scale {
    /// The unit, for the head.
    pub unit: &'static str,
    /// Last decimals in a tick; `None` where ticks are written as they are.
    factor: Option<f64>,
    decimals: usize,
}

impl Scale {
    /// Ticks as they are.
    pub(super) const TICKS: Self = Self { unit: "ticks", factor: None, decimals: 0 };

    /// Ticks of a clock that counts events.
    pub(super) const EVENTS: Self = Self { unit: "events", ..Self::TICKS };

    /// True where the unit is one of time.
    pub(super) const fn is_time(&self) -> bool {
        self.factor.is_some()
    }

    /// The unit for ticks of a trace's clock, as [`Scale::choose`].
    pub(super) fn of(clock: &Clock, most: u64, digits: u32) -> Self {
        if clock.counts == Counts::Events(1) { Self::EVENTS } else { Self::choose(clock.hz, most, digits) }
    }

    /// The unit for a column whose largest number is `most` ticks: the coarsest in which three decimals still distinguish
    /// one tick from the next, and a coarser one where that would take more than `digits` digits before the point.
    pub(super) fn choose(hz: Option<f64>, most: u64, digits: u32) -> Self {
        const UNITS: [(&str, f64); 4] = [("s", 1.0), ("ms", 1e3), ("us", 1e6), ("ns", 1e9)];
        let Some(hz) = hz.filter(|hz| hz.is_finite() && *hz > 0.0) else { return Self::TICKS };
        let tick = 1.0 / hz;
        let fine = UNITS.iter().position(|(_, per)| tick * per >= 0.001).unwrap_or(3);
        #[allow(clippy::cast_precision_loss)]
        let most = most as f64 * tick;
        let bound = 10f64.powi(i32::try_from(digits).unwrap_or(9));
        let place = (0..=fine).rev().find(|i| UNITS.get(*i).is_some_and(|(_, per)| most * per < bound)).unwrap_or(0);
        let (unit, per) = UNITS.get(place).copied().unwrap_or(("s", 1.0));
        let decimals = (0..3).find(|d| tick * per * 10f64.powi(*d) >= 1.0).unwrap_or(3);
        let factor = tick * per * 10f64.powi(decimals);
        Self { unit, factor: Some(factor), decimals: usize::try_from(decimals).unwrap_or(0) }
    }

    /// Ticks in this unit.
    pub(super) fn text(&self, ticks: i64) -> String {
        let mut out = String::new();
        self.add(&mut out, ticks);
        out
    }

    /// Adds ticks in this unit.
    pub(super) fn add(&self, out: &mut String, ticks: i64) {
        match self.factor {
            None => add_decimal(out, ticks),
            Some(factor) => {
                #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "the cast saturates")]
                let n = (ticks as f64 * factor).round() as i64;
                add_fixed(out, n, self.decimals);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(scale: Scale, ticks: i64) -> String {
        format!("{} {}", scale.text(ticks), scale.unit)
    }

    #[test]
    fn units_follow_the_clock_and_the_window() {
        assert_eq!(text(Scale::choose(None, 9, 6), -5), "-5 ticks");
        assert_eq!(text(Scale::choose(Some(72e6), 72_000, 6), 72), "1.00 us");
        assert_eq!(text(Scale::choose(Some(72e6), 720_000_000, 6), 72_000), "1.000 ms");
        assert_eq!(text(Scale::choose(Some(1000.0), 50, 6), 7), "0.007 s");
        assert_eq!(text(Scale::choose(Some(1e9), 5, 6), 5), "0.005 us");
        assert_eq!(text(Scale::choose(Some(4e9), 5, 6), 6), "1.5 ns");
        assert_eq!(text(Scale::choose(Some(1e6), 5_000_000_000, 6), 1_500_000), "1.500 s");
    }
}
