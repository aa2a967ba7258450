//! Which events have a time that is not what their stamps say.

use crate::code::Code;
use crate::trace::{Clock, Event, Trace};

/// A stamp, and the ticks that were counted for it.
type Moment = (u64, i64);

/// A clock: of all cores, or of one.
#[derive(Debug, Clone, Copy, Default)]
struct Line {
    /// The last event whose time was plausible.
    plausible: Option<Moment>,
    /// The last event.
    last: Option<Moment>,
}

/// Compares the ticks of events with their stamps. A format that does not believe a stamp counts something else for it:
/// nothing, or as much as the events around it need.
#[derive(Debug)]
pub(super) struct PlausibleTimes<'t> {
    clock: &'t Clock,
    /// True where each core has a clock of its own.
    per_core: bool,
    lines: Vec<Line>,
    /// Events before which the clock went around an unknown number of times.
    long: Vec<u64>,
}

impl<'t> PlausibleTimes<'t> {
    pub fn new(trace: &'t Trace) -> Self {
        let of = |code: Code| trace.issues.iter().filter(move |issue| issue.code == code);
        Self {
            clock: &trace.clock,
            per_core: of(Code::ClockPerCore).next().is_some(),
            lines: Vec::new(),
            long: of(Code::GapLongerThanClock).filter_map(|issue| issue.place.seq).collect(),
        }
    }

    /// Takes the next event: ticks of the one before it on its clock, where the time between them is not known to be right.
    pub(super) fn doubted(&mut self, event: &Event) -> Option<i64> {
        let stamp = event.stamp?;
        let now = (stamp, event.ticks);
        let at = if self.per_core { usize::from(event.core) } else { 0 };
        if at >= self.lines.len() {
            self.lines.resize(at.saturating_add(1), Line::default());
        }
        let line = self.lines.get_mut(at)?;
        let Line { plausible, last } = *line;
        // After a single stamp that is not plausible, time goes on from before it; after a clock that was set, from there.
        let is_plausible = [plausible, last].into_iter().flatten().any(|before| fits(self.clock, before, now));
        line.last = Some(now);
        if is_plausible || plausible.is_none() {
            line.plausible = Some(now);
        }
        let (_, before) = last?;
        (!is_plausible || self.long.contains(&event.seq)).then_some(before)
    }
}

/// True where so many ticks are between two stamps, give or take whole periods of the clock.
fn fits(clock: &Clock, before: Moment, now: Moment) -> bool {
    let turn = clock.period.map_or_else(|| i128::from(clock.mask).saturating_add(1), i128::from);
    let counted = i128::from(now.1).saturating_sub(i128::from(before.1));
    let stamped = i128::from(clock.step(before.0, now.0));
    counted.saturating_sub(stamped).checked_rem(turn.max(1)) == Some(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Counts, Direction, Known};

    fn clock(direction: Direction, period: Option<u64>) -> Clock {
        let (direction_known, counts) = (Known::Given, Counts::Time);
        Clock { mask: 0xFFFF, direction, direction_known, period, hz: None, counts, doubts: 0, reason: String::new() }
    }

    fn plausible(clock: &Clock, moments: &[Moment]) -> Vec<bool> {
        let mut all = PlausibleTimes { clock, per_core: false, lines: Vec::new(), long: Vec::new() };
        let event = |(stamp, ticks): &Moment| Event { stamp: Some(*stamp), ticks: *ticks, ..Event::default() };
        moments.iter().map(|moment| all.doubted(&event(moment)).is_none()).collect()
    }

    #[test]
    fn one_stamp_that_is_not_counted_is_one_doubt() {
        let moments = [(100, 0), (200, 100), (60_000, 100), (300, 200), (400, 300)];
        assert_eq!(plausible(&clock(Direction::Up, None), &moments), [true, true, false, true, true]);
    }

    #[test]
    fn a_clock_that_started_again_is_one_doubt() {
        let moments = [(5000, 0), (5100, 100), (20, 100), (50, 130), (90, 170)];
        assert_eq!(plausible(&clock(Direction::Up, None), &moments), [true, true, false, true, true]);
    }

    #[test]
    fn turns_of_the_clock_and_steps_back_are_what_the_stamps_say() {
        let up = [(0xFFF0, 0), (0x10, 0x20), (0x8, 0x18), (0x20, 0x10030)];
        assert_eq!(plausible(&clock(Direction::Up, None), &up), [true; 4]);
        let down = [(0x10, 0), (990, 26), (980, 36)];
        assert_eq!(plausible(&clock(Direction::Down, Some(1000)), &down), [true; 3]);
    }
}
