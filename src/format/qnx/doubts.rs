//! Stamps that do not match what the same processor recorded around them: no time is counted to their events.

#![expect(clippy::arithmetic_side_effects, reason = "counts events that are held in memory")]

use std::collections::BTreeMap;

use super::time::BACK;
use crate::code::Code;
use crate::trace::{Issue, Place};

/// A clock that steps back by so little is not doubted: two microseconds at 2 GHz.
const LITTLE: u64 = 1 << 12;
/// So many stamps in a row are damaged at the most. More are those of a clock that was set.
const MOST: usize = 4;

/// An event, as far as its time depends on it.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    pub cpu: u8,
    pub time: u64,
    /// An event may be inserted late after those of an interrupt.
    pub in_interrupt: bool,
}

/// What was found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Found {
    /// Events whose stamps do not match.
    pub count: u64,
    /// The first of them.
    pub first: Option<u64>,
}

/// The events of one processor, in the order in which they were recorded.
#[derive(Debug, Default)]
struct Cpu {
    all: Vec<usize>,
    /// Those whose times rise.
    kept: Vec<usize>,
    /// Those after the last kept one that are far earlier.
    behind: Vec<usize>,
    wrong: Vec<usize>,
}

/// Gives events whose stamps do not match the time of the event before them, as far as their processor was there by then.
pub fn correct(moments: &mut [Moment]) -> Found {
    let mut cpus: BTreeMap<u8, Cpu> = BTreeMap::new();
    for (i, moment) in moments.iter().enumerate() {
        cpus.entry(moment.cpu).or_default().all.push(i);
    }
    let mut wrong: Vec<usize> = Vec::new();
    for cpu in cpus.values_mut() {
        let all = std::mem::take(&mut cpu.all);
        for (n, i) in all.iter().enumerate() {
            let next = all.get(n + 1..).unwrap_or_default();
            cpu.add(moments, *i, next.get(..MOST).unwrap_or(next));
        }
        wrong.append(&mut cpu.wrong);
        wrong.append(&mut cpu.behind);
    }
    wrong.sort_unstable();
    give_times(moments, &wrong);
    Found { count: wrong.len() as u64, first: wrong.first().map(|first| *first as u64) }
}

/// The time of the event before each of these, between those of the next ones on its own processor.
fn give_times(moments: &mut [Moment], wrong: &[usize]) {
    if wrong.is_empty() {
        return;
    }
    let is_wrong = |i: usize| wrong.binary_search(&i).is_ok();
    // Of each processor the time that is next.
    let mut next: BTreeMap<u8, u64> = BTreeMap::new();
    let mut most = vec![None; wrong.len()];
    for (i, moment) in moments.iter().enumerate().rev() {
        match wrong.binary_search(&i).ok().and_then(|at| most.get_mut(at)) {
            Some(most) => *most = next.get(&moment.cpu).copied(),
            None => drop(next.insert(moment.cpu, moment.time)),
        }
    }
    let (mut own, mut latest) = (BTreeMap::<u8, u64>::new(), None);
    let mut most = most.into_iter();
    for (i, moment) in moments.iter_mut().enumerate() {
        if is_wrong(i) {
            let (least, most) = (own.get(&moment.cpu).copied(), most.next().flatten());
            let near = latest.or(least).or(most).unwrap_or(moment.time);
            moment.time = near.min(most.unwrap_or(u64::MAX)).max(least.unwrap_or(0));
        }
        own.insert(moment.cpu, moment.time);
        latest = Some(moment.time);
    }
}

impl Cpu {
    /// Takes the next event; `next` are those after it.
    fn add(&mut self, moments: &[Moment], i: usize, next: &[usize]) {
        let time = |i: &usize| moments.get(*i).map_or(0, |moment| moment.time);
        let now = time(&i);
        let Some(top) = self.kept.last() else { return self.kept.push(i) };
        let back = time(top).saturating_sub(now);
        let is_late = back <= BACK && moments.get(*top).is_some_and(|moment| moment.in_interrupt);
        if back == 0 {
            self.wrong.append(&mut self.behind);
            return self.kept.push(i);
        }
        if back <= LITTLE || is_late {
            return;
        }
        let ahead = self.kept.iter().rev().take(MOST + 1).take_while(|kept| time(kept) > now).count();
        let least = self.kept.iter().rev().nth(ahead.saturating_sub(1)).map_or(0, time);
        let earlier = 1 + next.iter().take_while(|next| time(next) < least).count();
        let is_ahead = match (ahead, earlier) {
            (1, 1) => self.kept.last().is_some_and(|top| is_farther(moments, *top, i)),
            _ => earlier > ahead || earlier == ahead && next.len() < MOST,
        };
        if ahead <= MOST && is_ahead {
            let from = self.kept.len().saturating_sub(ahead);
            self.wrong.extend(self.kept.drain(from..));
            self.wrong.append(&mut self.behind);
            return self.kept.push(i);
        }
        self.behind.push(i);
        if self.behind.len() > MOST {
            // The clock was set back: times go on from there.
            self.kept.clear();
            self.kept.append(&mut self.behind);
        }
    }
}

/// True where the first of two events of one processor is farther than the second from what another recorded between them.
fn is_farther(moments: &[Moment], first: usize, second: usize) -> bool {
    let pair = moments.get(first).zip(moments.get(second));
    let Some((a, b)) = pair else { return false };
    let before = moments.get(..second).unwrap_or_default();
    let other = before.iter().rev().take(MOST * 16).find(|moment| moment.cpu != a.cpu);
    other.is_some_and(|other| other.time.abs_diff(a.time) > other.time.abs_diff(b.time))
}

/// The issue of what was found.
pub fn issue(found: Found) -> Option<Issue> {
    let (n, s) = (found.count, if found.count == 1 { "" } else { "s" });
    let message = format!(
        "the time stamp{s} of {n} event{s} do not match those around on the same processor: damaged, or of another clock; the time of the event before is used instead of each"
    );
    let issue = Issue::new(Code::StampsStepBack, message.replace("1 event do not", "1 event does not"));
    (n > 0).then(|| issue.times(n).at(Place { seq: found.first, ..Place::default() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(all: &[(u8, u64, bool)]) -> (Vec<u64>, u64) {
        let moment = |(cpu, time, in_interrupt): &(u8, u64, bool)| Moment {
            cpu: *cpu,
            time: *time,
            in_interrupt: *in_interrupt,
        };
        let mut all: Vec<Moment> = all.iter().map(moment).collect();
        let found = correct(&mut all);
        (all.iter().map(|moment| moment.time).collect(), found.count)
    }

    fn of_one(all: &[u64]) -> (Vec<u64>, u64) {
        times(&all.iter().map(|time| (0, *time, false)).collect::<Vec<_>>())
    }

    #[test]
    fn one_stamp_or_a_few_in_the_future() {
        let got = of_one(&[10, 20, 90_000, 30, 40, 50]);
        assert_eq!(got, (vec![10, 20, 20, 30, 40, 50], 1));
        let got = of_one(&[10, 20, 90_000, 90_010, 30, 40, 50, 60]);
        assert_eq!(got, (vec![10, 20, 20, 20, 30, 40, 50, 60], 2));
        assert_eq!(of_one(&[90_000, 30, 40, 50]).0, [30, 30, 40, 50], "the first");
    }

    #[test]
    fn one_stamp_in_the_past() {
        let got = of_one(&[100_010, 100_020, 30, 100_030, 100_040]);
        assert_eq!(got, (vec![100_010, 100_020, 100_020, 100_030, 100_040], 1));
        assert_eq!(of_one(&[100_010, 100_020, 100_030, 100_040, 100_050, 30]).1, 1, "the last");
    }

    #[test]
    fn a_clock_that_was_set_back_goes_on_from_there() {
        let all: Vec<u64> = (0..20).map(|n| 900_000 + n).chain((0..20).map(|n| 10_000 + n)).collect();
        assert_eq!(of_one(&all), (all, 0));
    }

    #[test]
    fn events_behind_an_interrupt_are_late() {
        let all = [(0, 10, false), (0, 90_000, true), (0, 90_010, true), (0, 50, false), (0, 90_020, false)];
        let got = times(&all);
        assert_eq!((got.0, got.1), (vec![10, 90_000, 90_010, 50, 90_020], 0));
    }

    /// Half of the stamps of a processor were ahead: what the other recorded between them shows which.
    #[test]
    fn every_second_stamp_in_the_future() {
        let all = [(0, 100, false), (1, 32_580, false), (0, 330, false), (1, 340, false), (0, 3_990, false)];
        let more = [(1, 35_580, false), (0, 4_190, false), (1, 4_200, false), (0, 4_300, false)];
        let got = times(&[&all[..], &more].concat());
        assert_eq!(got, (vec![100, 100, 330, 340, 3_990, 3_990, 4_190, 4_200, 4_300], 2));
    }
}
