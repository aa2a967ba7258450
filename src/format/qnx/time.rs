//! Time: the low word that an event stores, and the high word that control events report for each processor.

use std::collections::BTreeMap;

use crate::code::Code;
use crate::trace::{Issue, Place, many};

/// Bits of an event's stamp.
const LOW: u64 = 0xFFFF_FFFF;
/// Ticks until the low word begins again.
const TURN: u64 = 1 << 32;
/// A stamp that is smaller than the one before it by more than this has passed the end of the low word.
const HALF: u64 = 1 << 31;
/// How far around the end of the low word an event may have been overtaken by the control event that reports it.
const NEAR: u64 = 1 << 24;
/// How far the clock of one processor can step back: an event is inserted after those that interrupted it.
pub(super) const BACK: u64 = 1 << 20;
/// What is known of one processor's clock.
#[derive(Debug, Clone, Copy, Default)]
struct Cpu {
    /// The time that its last control event reported, moved on where the low word began again without one.
    reported: Option<u64>,
    /// True where that event reported a wrap of the low word.
    turned: bool,
    /// Time of its last event.
    last: Option<u64>,
}

/// Times of the events, in the order in which they were recorded.
#[derive(Debug, Default)]
pub struct Times {
    cpus: BTreeMap<u8, Cpu>,
    times: Vec<u64>,
    /// Events that came before the first control event of their processor.
    waiting: Vec<(usize, u8, u32)>,
    /// The first time that any processor reported.
    first: Option<u64>,
    /// The last time that is known of any processor.
    latest: Option<u64>,
    /// What does not fit.
    doubts: Doubts,
}

/// What of the clock does not fit what is known of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Doubts {
    /// True where no control event gave a high word.
    pub unreported: bool,
    /// Turns of the low word that no control event reported.
    pub turns: u64,
    /// Steps of a processor's clock that lead far back, and the event after the first.
    pub falls: u64,
    /// The event after the first of these steps.
    pub first_fall: Option<u64>,
}

impl Doubts {
    /// Number of steps that are in doubt.
    #[expect(clippy::arithmetic_side_effects, reason = "counts events")]
    pub const fn count(&self) -> u64 {
        self.turns + self.falls
    }
}

/// Ticks from one time to another, negative where the other is earlier. The clock has 64 bits: also where damaged times
/// are more than half its range apart, these ticks lead from the one exactly to the other.
pub const fn ticks(from: u64, to: u64) -> i64 {
    to.wrapping_sub(from).cast_signed()
}

impl Times {
    /// A control event reports the time of its processor.
    pub fn report(&mut self, cpu: u8, time: u64) {
        self.first = self.first.or(Some(time));
        self.latest = Some(time);
        let state = self.cpus.entry(cpu).or_default();
        let before = state.reported.replace(time);
        state.turned = before.is_some_and(|b| b >> 32 < time >> 32);
        if before.is_none() {
            let (mine, others) = std::mem::take(&mut self.waiting).into_iter().partition(|(_, c, _)| *c == cpu);
            self.waiting = others;
            self.settle(mine, time);
        }
    }

    /// An event of `cpu` with the low word `stamp`.
    #[expect(clippy::arithmetic_side_effects, reason = "counts events")]
    pub fn event(&mut self, cpu: u8, stamp: u32) {
        let index = self.times.len();
        let state = self.cpus.entry(cpu).or_default();
        let Some(reported) = state.reported else {
            self.waiting.push((index, cpu, stamp));
            // Until it reports: near the others, if they reported.
            let time = self.latest.map_or(u64::from(stamp), |latest| near(latest, stamp));
            self.latest = self.latest.map(|_| time);
            self.times.push(time);
            return;
        };
        let mut time = reported & !LOW | u64::from(stamp);
        match state.last {
            // Taken before the low word began again, and put after the event that says so.
            Some(last)
                if state.turned
                    && reported & LOW < NEAR
                    && u64::from(stamp) > LOW - NEAR
                    && time >= TURN
                    && !is_earlier(reported, last, NEAR) =>
            {
                time -= TURN;
            }
            // The low word began again, and no control event came. Past the last turn of all 64 bits it is damaged.
            Some(last) if is_earlier(time, last, HALF) && reported.checked_add(TURN).is_some() => {
                time += TURN;
                state.reported = Some(reported + TURN);
                self.doubts.turns += 1;
            }
            _ => {}
        }
        if state.last.is_some_and(|last| is_earlier(time, last, BACK)) {
            self.doubts.falls += 1;
            self.doubts.first_fall = self.doubts.first_fall.or(Some(index as u64));
        }
        state.last = Some(time);
        self.latest = Some(time);
        self.times.push(time);
    }

    /// The times of all events, and what of them is in doubt.
    pub fn finish(mut self) -> (Vec<u64>, Doubts) {
        let waiting = std::mem::take(&mut self.waiting);
        match self.first {
            // Events before the first report are near it; the others have their times from their neighbours.
            Some(first) => {
                let unreported =
                    |(index, _, stamp): &(usize, u8, u32)| self.times.get(*index) == Some(&u64::from(*stamp));
                let mine = waiting.into_iter().filter(unreported).collect();
                self.settle(mine, first);
                (self.times, self.doubts)
            }
            None => {
                let mut last = waiting.first().map_or(0, |(_, _, stamp)| u64::from(*stamp));
                for (index, _, stamp) in &waiting {
                    last = near(last, *stamp);
                    if let Some(time) = self.times.get_mut(*index) {
                        *time = last;
                    }
                }
                (self.times, Doubts { unreported: true, ..self.doubts })
            }
        }
    }

    /// Events in front of the first moment that their processor reported: each is near the one after it.
    fn settle(&mut self, mine: Vec<(usize, u8, u32)>, time: u64) {
        let mut next = time;
        for (index, _, stamp) in mine.into_iter().rev() {
            next = near(next, stamp);
            if let Some(time) = self.times.get_mut(index) {
                *time = next;
            }
        }
    }
}

/// The issues for times that are in doubt.
pub fn doubted(doubts: Doubts) -> Vec<Issue> {
    let mut issues = Vec::new();
    if doubts.unreported {
        issues.push(Issue::new(
            Code::HighWordUnknown, "no control event gives the high word of the clock: times are right from one event to the next, and may miss wraps of the low word",
        ));
    } else if doubts.turns > 0 {
        issues.push(
            Issue::new(
                Code::HighWordUnknown, format!(
                    "the low word of the clock falls back {} and no control event reports that it wrapped: one wrap is assumed, and a stamp may be damaged instead",
                    many(doubts.turns, "time", "times")
                ),
            )
            .times(doubts.turns),
        );
    }
    if doubts.falls > 0 {
        issues.push(
            Issue::new(
                Code::StampsStepBack, format!(
                    "{} the clock of a processor falls back by more than an event is late: a damaged stamp, or the clock was set back",
                    many(doubts.falls, "time", "times")
                ),
            )
            .times(doubts.falls)
            .at(Place { seq: doubts.first_fall, ..Place::default() }),
        );
    }
    issues
}

/// True where a time is earlier than another by more than so many ticks.
fn is_earlier(time: u64, than: u64, by: u64) -> bool {
    than.checked_sub(time).is_some_and(|ticks| ticks > by)
}

/// The time with this low word that is nearest to another time. The clock begins at 0.
fn near(time: u64, stamp: u32) -> u64 {
    let same = time & !LOW | u64::from(stamp);
    let other = if is_earlier(time, same, HALF) {
        same.checked_sub(TURN)
    } else if is_earlier(same, time, HALF) {
        same.checked_add(TURN)
    } else {
        None
    };
    other.unwrap_or(same)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(steps: &[(u8, Option<u64>, u32)]) -> Vec<u64> {
        let mut all = Times::default();
        for (cpu, reported, stamp) in steps {
            if let Some(time) = reported {
                all.report(*cpu, *time);
            }
            all.event(*cpu, *stamp);
        }
        all.finish().0
    }

    #[test]
    fn a_smaller_stamp_is_no_new_turn() {
        let got = times(&[(0, Some(10 << 32), 5), (0, None, 0x32_9FC8), (0, None, 0x30_0246), (0, None, 0x33_0000)]);
        assert_eq!(got, [10 << 32 | 5, 10 << 32 | 0x32_9FC8, 10 << 32 | 0x30_0246, 10 << 32 | 0x33_0000]);
    }

    #[test]
    fn the_control_event_shows_a_new_turn() {
        let got = times(&[(0, Some(10 << 32), 5), (0, None, 0xFFFF_FF00), (0, Some(11 << 32 | 4), 9), (0, None, 0x20)]);
        assert_eq!(got[2..], [11 << 32 | 9, 11 << 32 | 0x20]);
    }

    #[test]
    fn an_event_overtaken_by_the_control_event_stays_before_it() {
        let got = times(&[
            (0, Some(10 << 32), 5),
            (0, None, 0xFFFF_F000),
            (0, Some(11 << 32 | 4), 9),
            (0, None, 0xFFFF_FF00),
            (0, None, 0x20),
        ]);
        assert_eq!(got[3..], [10 << 32 | 0xFFFF_FF00, 11 << 32 | 0x20]);
    }

    #[test]
    fn a_long_silence_is_no_new_turn_and_a_deep_drop_is() {
        let got = times(&[(0, Some(10 << 32 | 5), 6), (0, None, 0xC000_0000), (0, None, 0x100)]);
        assert_eq!(got[1..], [10 << 32 | 0xC000_0000, 11 << 32 | 0x100]);
    }

    #[test]
    fn what_came_before_the_first_control_event_is_near_it() {
        let got = times(&[(0, None, 0xFFFF_FFF0), (0, None, 0x10), (0, Some(7 << 32 | 0x20), 0x21)]);
        assert_eq!(got, [6 << 32 | 0xFFFF_FFF0, 7 << 32 | 0x10, 7 << 32 | 0x21]);
    }

    #[test]
    fn two_events_behind_a_damaged_high_word_had_no_time_between_them() {
        let got = times(&[(0, Some(1 << 32), 5), (0, Some(0x9000_0000 << 32), 6), (0, None, 9)]);
        let at = |n: usize| ticks(got[0], got[n]);
        assert_eq!((at(0), at(2) - at(1)), (0, 3));
    }

    #[test]
    fn processors_keep_their_own_time() {
        let got = times(&[(0, Some(7 << 32), 1), (1, Some(3 << 32), 2), (0, None, 3), (2, None, 4), (1, None, 5)]);
        assert_eq!(
            got,
            [7 << 32 | 1, 3 << 32 | 2, 7 << 32 | 3, 7 << 32 | 4, 3 << 32 | 5],
            "the third is near the one before it"
        );
    }
}
