//! Time: the low word that an event stores, and the high word that control events report for each processor.

use crate::code::Code;
use crate::trace::{Issue, Place};

/// Bits of an event's stamp.
const LOW: u64 = 0xFFFF_FFFF;
/// A stamp that is smaller than the one before it by more than this has passed the end of the low word.
const HALF: u64 = 1 << 31;
/// How far around the end of the low word an event may have been overtaken by the control event that reports it.
const NEAR: u64 = 1 << 24;
/// How far the clock of one processor is believed to step back: an event is put behind those that interrupted it.
const BACK: u64 = 1 << 20;
/// Number of processors that an element can name.
const CPUS: usize = 64;

/// What is known of one processor's clock.
#[derive(Debug, Clone, Copy, Default)]
struct Cpu {
    /// The time that its last control event reported, moved on where the low word began again without one.
    reported: Option<u64>,
    /// True where that event reported a new turn of the low word.
    turned: bool,
    /// Time of its last event.
    last: Option<u64>,
}

/// Times of the events, in the order in which they were recorded.
#[derive(Debug)]
pub struct Times {
    cpus: [Cpu; CPUS],
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
    /// Steps of a processor's clock that lead far back, and the event behind the first.
    pub falls: u64,
    /// The event behind the first of these steps.
    pub first_fall: Option<u64>,
}

impl Times {
    /// No event yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            cpus: [Cpu::default(); CPUS],
            times: Vec::new(),
            waiting: Vec::new(),
            first: None,
            latest: None,
            doubts: Doubts::default(),
        }
    }

    /// A control event reports the time of its processor.
    pub fn report(&mut self, cpu: u8, time: u64) {
        self.first = self.first.or(Some(time));
        self.latest = Some(time);
        if let Some(state) = self.cpus.get_mut(usize::from(cpu)) {
            let before = state.reported.replace(time);
            state.turned = before.is_some_and(|b| b >> 32 < time >> 32);
            if before.is_none() {
                let (mine, others) = std::mem::take(&mut self.waiting).into_iter().partition(|(_, c, _)| *c == cpu);
                self.waiting = others;
                self.settle(mine, time);
            }
        }
    }

    /// An event of `cpu` with the low word `stamp`.
    pub fn event(&mut self, cpu: u8, stamp: u32) {
        let index = self.times.len();
        let Some(state) = self.cpus.get_mut(usize::from(cpu)) else {
            self.times.push(u64::from(stamp));
            return;
        };
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
            // Taken before the low word began again, and put behind the event that says so.
            Some(last)
                if state.turned
                    && time.saturating_sub(reported) > HALF
                    && reported & LOW < NEAR
                    && u64::from(stamp) > LOW.saturating_sub(NEAR)
                    && time > LOW
                    && last <= reported.saturating_add(NEAR) =>
            {
                time = time.saturating_sub(LOW).saturating_sub(1);
            }
            // The low word began again, and no control event came.
            Some(last) if last.saturating_sub(time) > HALF => {
                time = time.saturating_add(LOW).saturating_add(1);
                state.reported = Some(reported.saturating_add(LOW).saturating_add(1));
                self.doubts.turns = self.doubts.turns.saturating_add(1);
            }
            _ => {}
        }
        if state.last.is_some_and(|last| last.saturating_sub(time) > BACK) {
            self.doubts.falls = self.doubts.falls.saturating_add(1);
            self.doubts.first_fall = self.doubts.first_fall.or(Some(index as u64));
        }
        state.last = Some(time);
        self.latest = Some(time);
        self.times.push(time);
    }

    /// The times of all events, and what is to be doubted of them.
    #[must_use]
    pub fn finish(mut self) -> (Vec<u64>, Doubts) {
        let waiting = std::mem::take(&mut self.waiting);
        match self.first {
            // What came before anybody reported is near the first who did; the rest has its time from its neighbours.
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

    /// Events in front of the first moment that their processor reported: each is near the one behind it.
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

/// What is said of times that are in doubt.
pub fn doubted(doubts: Doubts) -> Vec<Issue> {
    let mut issues = Vec::new();
    if doubts.unreported {
        issues.push(Issue::new(
            Code::HighWordUnknown, "no control event gives the high word of the clock: times are right from one event to the next, and may miss whole turns of the low word",
        ));
    } else if doubts.turns > 0 {
        issues.push(
            Issue::new(
                Code::HighWordUnknown, format!(
                    "the low word of the clock falls back {} times and no control event reports a new turn: one is assumed, and a stamp may be damaged instead",
                    doubts.turns
                ),
            )
            .times(doubts.turns),
        );
    }
    if doubts.falls > 0 {
        issues.push(
            Issue::new(
                Code::StampsStepBack, format!(
                    "{} times the clock of a processor falls back by more than an event is late: a damaged stamp, or the clock was set back",
                    doubts.falls
                ),
            )
            .times(doubts.falls)
            .at(Place { seq: doubts.first_fall, ..Place::default() }),
        );
    }
    issues
}

/// The time with this low word that is nearest to another time.
fn near(time: u64, stamp: u32) -> u64 {
    let same = time & !LOW | u64::from(stamp);
    if same > time.saturating_add(HALF) {
        same.checked_sub(LOW).and_then(|t| t.checked_sub(1)).unwrap_or(same)
    } else if time > same.saturating_add(HALF) {
        same.saturating_add(LOW).saturating_add(1)
    } else {
        same
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(steps: &[(u8, Option<u64>, u32)]) -> Vec<u64> {
        let mut all = Times::new();
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
    fn the_control_event_tells_of_a_new_turn() {
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
    fn processors_keep_their_own_time() {
        let got = times(&[(0, Some(7 << 32), 1), (1, Some(3 << 32), 2), (0, None, 3), (2, None, 4), (1, None, 5)]);
        assert_eq!(
            got,
            [7 << 32 | 1, 3 << 32 | 2, 7 << 32 | 3, 7 << 32 | 4, 3 << 32 | 5],
            "the third is near the one before it"
        );
    }
}
