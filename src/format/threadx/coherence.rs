//! Which time stamps do not match the rest of a trace.
//!
//! A trace is cut where a step of its clock is out of the ordinary. Between two cuts is a range that agrees with
//! itself. A range without which the ranges around it follow each other is an outlier: a damaged stamp, slots of an
//! older lap or of another capture. What is left are long pauses, and steps back of the clock.

#![expect(
    clippy::arithmetic_side_effects,
    reason = "counts of events, and their sequence numbers; ticks are added with saturation"
)]

use std::ops::Range;

use super::entry::kind_of;
use super::steps::{Identity, Scale, Stamped, Steps, View, identity, little, range};
use crate::trace::{Clock, ContextKind};

/// The most ranges that are kept; a trace with more cuts is not judged.
const MAX_RANGES: usize = 1024;
/// Outliers are believed where pauses alone would make fewer than one in so many of them.
const RARE: u64 = 32;

/// Events that follow each other by ordinary steps.
#[derive(Debug, Clone, Copy)]
pub(super) struct EventRange {
    /// Its first event, and the one after its last.
    pub seqs: (u64, u64),
    /// First and last stamp.
    pub stamps: (u64, u64),
    /// The stamp before the last.
    last_but_one: Option<u64>,
    pub count: u64,
    /// Ticks from the first to the last.
    pub elapsed: i64,
}

/// Small steps back that nothing explains.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct StepsBack {
    nested: u64,
    pub count: u64,
    pub most: u64,
    pub first: Option<u64>,
}

impl StepsBack {
    /// Counts a step back. One is no surprise where an interrupt inserted its events after an event had read the clock, or
    /// where cores read it.
    fn add(&mut self, ticks: u64, before: &Stamped, now: &Stamped) {
        let nested = kind_of(before.context) == ContextKind::Isr && ticks <= self.nested;
        if nested || before.core != now.core {
            return;
        }
        self.count += 1;
        self.most = self.most.max(ticks);
        self.first = self.first.or(Some(now.seq));
    }

    pub fn join(self, other: Self) -> Self {
        Self {
            nested: self.nested.max(other.nested),
            count: self.count + other.count,
            most: self.most.max(other.most),
            first: self.first.into_iter().chain(other.first).min(),
        }
    }
}

/// A trace cut where a step is out of the ordinary.
#[derive(Debug, Default)]
pub(super) struct EventRanges {
    /// The clock by which it was cut.
    clock: Option<Identity>,
    pub list: Vec<EventRange>,
    /// Steps from here on are out of the ordinary.
    pub big: u64,
    /// The largest ordinary step, as a power of two.
    usual: u64,
    pub backs: StepsBack,
}

impl EventRanges {
    /// Cuts the trace by the steps of its clock; empty where it cannot be judged.
    pub fn of(view: View<'_>, steps: &Steps) -> Self {
        let none = Self { clock: Some(identity(view.clock)), ..Self::default() };
        let Some(Scale { big, usual, nested }) = steps.scale() else { return none };
        let backs = StepsBack { nested, ..StepsBack::default() };
        let mut cutter = Cutter { clock: view.clock, big, list: Vec::new(), backs, before: None };
        for block in &steps.blocks {
            match cutter.list.last_mut().filter(|last| block.longest < big && last.count > 1) {
                Some(last) => {
                    last.seqs.1 = block.last.seq + 1;
                    last.stamps.1 = block.last.stamp;
                    last.last_but_one = Some(block.last_but_one);
                    last.count += block.count;
                    last.elapsed = last.elapsed.saturating_add_unsigned(block.elapsed);
                    cutter.before = Some(block.last);
                }
                None => view.events(block.place, |seq, entry| {
                    cutter.add(Stamped { seq, stamp: entry.stamp, context: entry.context, core: entry.core });
                }),
            }
            if cutter.list.len() > MAX_RANGES {
                return none;
            }
        }
        Self { list: cutter.list, big, usual, backs: cutter.backs, ..none }
    }

    /// True where it was cut by this clock.
    pub fn is_by(&self, clock: &Clock) -> bool {
        self.clock == Some(identity(clock))
    }
}

/// Cuts a trace event by event.
struct Cutter<'a> {
    clock: &'a Clock,
    big: u64,
    list: Vec<EventRange>,
    backs: StepsBack,
    /// The last event.
    before: Option<Stamped>,
}

impl Cutter<'_> {
    fn add(&mut self, now: Stamped) {
        let before = self.before.replace(now);
        if let Some(before) = before.filter(|_| !self.is_alone(&now))
            && self.goes_on(&before, &now)
        {
            return;
        }
        self.list.push(EventRange::of(now.seq, now.stamp));
    }

    /// True where the event before is a single one between two that follow each other, and none of theirs.
    fn is_alone(&self, now: &Stamped) -> bool {
        let [.., whole, one] = self.list.as_slice() else { return false };
        let cut = self.clock.step(whole.stamps.1, one.stamps.0) >= self.big;
        cut && one.count == 1 && self.clock.step(whole.stamps.1, now.stamp) < self.big
    }

    /// Takes an event into the last range, where it follows.
    fn goes_on(&mut self, before: &Stamped, now: &Stamped) -> bool {
        let (clock, big) = (self.clock, self.big);
        let Some(last) = self.list.last_mut() else { return false };
        let step = clock.step(last.stamps.1, now.stamp);
        let back = range(clock).saturating_sub(step);
        if step < big || back <= little(range(clock)).min(big) {
            last.last_but_one = Some(last.stamps.1);
            last.seqs.1 = now.seq + 1;
            last.stamps.1 = now.stamp;
            last.count += 1;
            if step < big {
                last.elapsed = last.elapsed.saturating_add_unsigned(step);
            } else {
                self.backs.add(back, before, now);
                last.elapsed = last.elapsed.saturating_sub_unsigned(back);
            }
            return true;
        }
        // Not so far back: without the event before it, this one may follow.
        if back < big
            && let Some(stamp) = last.last_but_one.filter(|stamp| clock.step(*stamp, now.stamp) < big)
        {
            let outlier = EventRange::of(before.seq, last.stamps.1);
            last.elapsed = last.elapsed.saturating_sub_unsigned(clock.step(stamp, last.stamps.1));
            last.stamps.1 = stamp;
            last.seqs.1 = before.seq;
            last.count -= 1;
            self.list.push(outlier);
        }
        false
    }
}

impl EventRange {
    /// One event.
    const fn of(seq: u64, stamp: u64) -> Self {
        Self { seqs: (seq, seq + 1), stamps: (stamp, stamp), last_but_one: None, count: 1, elapsed: 0 }
    }
}

/// The ranges of a trace: those that match, and the others.
#[derive(Debug, Default)]
pub(super) struct Sorted {
    /// Those that do not match, with those around them joined.
    pub outliers: Vec<EventRange>,
    /// The others, in their order.
    pub kept: Vec<EventRange>,
}

impl Sorted {
    /// The events whose stamps do not match: ranges in their order, of which none reaches into another.
    pub fn ranges(&self) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for (from, to) in self.outliers.iter().map(|outlier| outlier.seqs) {
            match ranges.last_mut() {
                // A range was taken out, and then what is around it.
                Some(outer) if from < outer.end => outer.end = outer.end.max(to),
                _ => ranges.push(from..to),
            }
        }
        ranges
    }
}

/// True where one of the ranges of [`Sorted::ranges`] holds the event.
pub(super) fn holds(ranges: &[Range<u64>], seq: u64) -> bool {
    let at = ranges.partition_point(|range| range.end <= seq);
    ranges.get(at).is_some_and(|range| range.contains(&seq))
}

impl EventRanges {
    /// So long a step may be where ranges follow each other, with so many events between them that are not there any
    /// more: these may have taken up to four times as long as others.
    fn reach(&self, events: u64, pace: u64, clock: &Clock) -> u64 {
        let taken = pace.saturating_mul(4).saturating_mul(events).min(range(clock) >> 3);
        self.usual.saturating_mul(2).min(self.big).saturating_add(taken)
    }

    /// True where a range makes a wrap of the clock of what is a short time without it.
    fn is_outlier(&self, [before, one, after]: [&EventRange; 3], pace: u64, clock: &Clock) -> bool {
        let range = range(clock);
        let step = clock.step(before.stamps.1, after.stamps.0);
        let back = range.saturating_sub(step);
        let joins = step < self.reach(one.count, pace, clock) || back < self.usual;
        let to = clock.step(before.stamps.1, one.stamps.0);
        let from = clock.step(one.stamps.1, after.stamps.0);
        let turns = to.saturating_add_signed(one.elapsed).saturating_add(from) > step;
        let short = 0u64.saturating_add_signed(one.elapsed) <= range >> 2;
        joins && turns && short && one.count < before.count + after.count
    }

    /// Takes out what does not match.
    pub fn sort(&self, clock: &Clock) -> Sorted {
        let mut sorted = Sorted::default();
        let elapsed = self.list.iter().map(|s| 0u64.saturating_add_signed(s.elapsed)).fold(0, u64::saturating_add);
        let pace = elapsed.checked_div(self.list.iter().map(|s| s.count).sum()).unwrap_or(0);
        let mut reach = 0u64;
        for next in &self.list {
            sorted.kept.push(*next);
            while let [.., before, one, after] = sorted.kept.as_slice() {
                if !self.is_outlier([before, one, after], pace, clock) {
                    break;
                }
                reach = reach.max(self.reach(one.count, pace, clock));
                let joined = EventRange {
                    seqs: (before.seqs.0, after.seqs.1),
                    stamps: (before.stamps.0, after.stamps.1),
                    last_but_one: after.last_but_one,
                    count: before.count + after.count,
                    elapsed: before.elapsed.saturating_add(after.elapsed),
                };
                sorted.outliers.push(*one);
                sorted.kept.truncate(sorted.kept.len() - 3);
                sorted.kept.push(joined);
            }
        }
        // Where long pauses are usual, two of them often make a period of the clock.
        let steps = sorted.kept.windows(2).filter_map(|pair| match pair {
            [a, b] => Some(clock.step(a.stamps.1, b.stamps.0)),
            _ => None,
        });
        let pauses = steps.filter(|step| *step >= self.big).count() as u64;
        let expected = pauses.saturating_mul(reach.saturating_add(self.usual)).saturating_mul(RARE);
        if expected >= range(clock).saturating_mul(sorted.outliers.len() as u64) {
            return Sorted { outliers: Vec::new(), kept: self.list.clone() };
        }
        sorted.outliers.sort_by_key(|s| s.seqs);
        sorted
    }

    /// The event that is the oldest by its stamp, where that is not the first: the newest is followed by the first as by any
    /// other, and one step in between is longer than all the rest.
    pub fn oldest(&self, clock: &Clock) -> Option<u64> {
        let kept = self.sort(clock).kept;
        let (first, last) = kept.first().zip(kept.last())?;
        let cuts = kept.windows(2).filter_map(|pair| match pair {
            [a, b] => Some((clock.step(a.stamps.1, b.stamps.0), b.seqs.0)),
            _ => None,
        });
        let mut cuts: Vec<(u64, u64)> = cuts.collect();
        cuts.sort_unstable();
        let (step, seq) = cuts.pop()?;
        // Not by a pause: of pauses that are longer than the clock's range the stamps show any length.
        if clock.step(last.stamps.1, first.stamps.0) > self.usual {
            return None;
        }
        let ordinary = kept.iter().fold(0u64, |sum, s| sum.saturating_add_signed(s.elapsed));
        let others = cuts.iter().fold(ordinary, |sum, (one, _)| sum.saturating_add(*one));
        let alone = kept.len() == 2 && step >= self.usual.saturating_mul(16);
        (step > others || alone).then_some(seq)
    }

    /// True where a clock may reload: a stamp is as close to 0 as the next is far.
    pub fn reaches_zero(&self) -> bool {
        self.list.iter().any(|s| s.stamps.0.min(s.stamps.1) <= self.usual)
    }
}
