//! Time: the steps between stamps, and those that no clock makes that only counts on.

#![expect(clippy::arithmetic_side_effects, reason = "counts stamps")]

use super::super::DecodeOptions;
use super::index::Index;
use crate::abi::Width;
use crate::code::Code;
use crate::trace::{Clock, Counts, Direction, Issue, Known, Place, many};

/// Pauses of more than half the clock's range are usual where one step in so many is one.
const USUAL: usize = 8;

/// Steps that lead back: the number of the event after each, and the ticks, which are negative.
pub(super) type Back = Vec<(u64, i64)>;

/// The steps that lead back, of the events' numbers and stamps in their order. A clock that is half way around and more
/// stepped back where that pause would be longer than all others together; one of 64 bits never goes around.
pub(super) fn back(stamps: &[(u64, u64)], clock: &Clock, issues: &mut Vec<Issue>) -> Back {
    let mut found = Back::new();
    let (mut long, mut rest) = (Vec::new(), 0u128);
    for pair in stamps.windows(2) {
        let [(_, before), (seq, stamp)] = *pair else { continue };
        let (on, back) = (clock.step(before, stamp), clock.step(stamp, before));
        if on > back {
            long.push((seq, on, back, (before, stamp)));
        } else {
            rest += u128::from(on);
        }
    }
    let endless = clock.mask == u64::MAX && clock.period.is_none();
    let usual = long.len() > 2 && USUAL * long.len() > stamps.len();
    let mut first = None;
    for (seq, on, back, stamps) in long {
        if endless || !usual && u128::from(on) > rest {
            first = first.or(Some((seq, stamps)));
            found.push((seq, back.wrapping_neg().cast_signed()));
        }
    }
    if let Some((seq, (before, stamp))) = first {
        issues.push(
            Issue::new(
                Code::StampsStepBack,
                format!(
                    "the time stamps fall back {}, first from {before:#x} to {stamp:#x}: a damaged stamp, or a clock that was set back or started again; if the clock wrapped, that pause would be longer than all others together, so it is shown as a step back",
                    many(found.len() as u64, "time", "times")
                ),
            )
            .times(found.len() as u64)
            .at(Place::seq(seq)),
        );
    }
    found
}

/// Judges the clock by the stamps of all records.
pub(super) fn find(index: &Index, options: &DecodeOptions, issues: &mut Vec<Issue>) -> Clock {
    let (mut up, mut down, mut stamps, mut wide) = (0u64, 0u64, 0u64, 0u64);
    let mut before = None;
    for r in &index.order.records {
        let Some(stamp) = index.stamp(r) else { continue };
        wide += u64::from(r.header.kind().stamp == Some(8));
        stamps += 1;
        match before.map(|b| stamp.cmp(&b)) {
            Some(std::cmp::Ordering::Greater) => up += 1,
            Some(std::cmp::Ordering::Less) => down += 1,
            _ => {}
        }
        before = Some(stamp);
    }
    let runs = up > 0 || down > 0 || stamps == 1;
    let (direction, direction_known, reason) = match options.direction {
        Some(given) => (given, Known::Given, "given by --direction".to_owned()),
        None if up == down => {
            (Direction::Up, Known::Assumed, "too few stamps differ to show it; up is the usual".to_owned())
        }
        None => {
            let way = if down > up { Direction::Down } else { Direction::Up };
            (way, Known::Detected, format!("{up} stamps are larger than the one before, {down} are smaller"))
        }
    };
    if stamps == 0 && !index.order.records.is_empty() {
        issues.push(Issue::new(
            Code::NoStamps,
            "this logger was built without time stamps: the order of events is known, not their time",
        ));
    } else if !runs && stamps > 1 {
        issues.push(Issue::new(
            Code::ClockStopped,
            "all time stamps are equal: the time source does not run, so no times are shown",
        ));
    }
    // A logger writes stamps of one width: a few records of the other are none of its own.
    let mask = if wide > stamps / 2 { u64::MAX } else { Width::W4.max() };
    let counts = if runs { Counts::Time } else { Counts::Nothing };
    Clock { mask, direction, direction_known, period: options.period, hz: options.hz, counts, doubts: 0, reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(mask: u64, stamps: &[u64]) -> (Back, usize) {
        let clock = Clock {
            mask,
            direction: Direction::Up,
            direction_known: Known::Given,
            period: None,
            hz: None,
            counts: Counts::Time,
            doubts: 0,
            reason: String::new(),
        };
        let numbered: Vec<(u64, u64)> = (0..).zip(stamps.iter().copied()).collect();
        let mut issues = Vec::new();
        (back(&numbered, &clock, &mut issues), issues.len())
    }

    #[test]
    fn a_clock_that_goes_around_does_not_step_back() {
        assert_eq!(steps(0xFFFF_FFFF, &[0xFFFF_F000, 0xFFFF_FF00, 0x20, 0x400]), (vec![], 0));
    }

    #[test]
    fn a_damaged_stamp_is_a_step_back_and_one_on() {
        assert_eq!(steps(0xFFFF_FFFF, &[1000, 2000, 0, 4000, 5000]), (vec![(2, -2000)], 1));
        assert_eq!(steps(u64::MAX, &[1 << 32, (1 << 32) + 5, 7, (1 << 32) + 9]), (vec![(2, 2 - (1 << 32))], 1));
    }

    #[test]
    fn long_pauses_are_no_steps_back_where_they_are_usual() {
        let stamps: Vec<u64> = (0..40).map(|i| (i * 0xC000_0000) & 0xFFFF_FFFF).collect();
        assert_eq!(steps(0xFFFF_FFFF, &stamps), (vec![], 0));
    }

    #[test]
    fn a_long_pause_among_as_long_ones_is_believed() {
        let stamps = [0, 0x7000_0000, 0xE000_0000, 0x5000_0000, 0x5000_0010, 0xD000_0000, 0x6000_0000, 0xD000_0000];
        assert_eq!(steps(0xFFFF_FFFF, &stamps), (vec![], 0));
    }
}
