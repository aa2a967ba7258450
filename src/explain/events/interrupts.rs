//! What the events show of interrupts: how often each comes, how long it takes, and whether it does anything.

use std::collections::BTreeMap;

use super::{Events, Now};
use crate::analysis::tracker::System;

/// The most numbers that are followed.
const MAX: usize = 512;

/// So many times as long as it is itself another one may take between two of a row.
const OTHER: i64 = 8;

/// So many times as long as it was itself it may take until it begins again soon. The events of its begin and its end take time, too.
const SOON: i64 = 8;

/// So often it has to have come before.
const FEW: u64 = 4;

/// So many times between two of its kind are remembered.
const GAPS: usize = 8;

/// One interrupt.
#[derive(Debug, Clone, Copy, Default)]
pub struct Interrupt {
    /// How often it ended.
    pub times: u64,
    /// The longest that it took, in ticks, and what it took last.
    pub longest: i64,
    took: i64,
    /// The ticks that it took in all.
    pub inside: i64,
    /// Events of the kernel inside of it.
    pub acts: u64,
    /// How often in a row it came again at once.
    pub row: u64,
    /// Event and ticks at which that began.
    pub row_from: (u64, i64),
    /// Ticks inside of it since then.
    pub row_ticks: i64,
    /// In this row: the shortest and the longest time inside of it, and outside.
    pub row_inside: Range,
    pub row_outside: Range,
    /// Ticks at its last end.
    pub ended: i64,
    /// How often it began, and how often of these the clock stepped back from the event before.
    pub begun: u64,
    backs: u64,
    /// Ticks from one beginning to the next, the last ones.
    gaps: [i64; GAPS],
    /// Event and ticks of its last beginning, and how long threads had run by then.
    last: (u64, i64, i64),
    /// How often it woke the thread that runs the kernel's timers.
    wakes: u64,
    /// How it began again soon after its end, with nothing between.
    soon: Option<Soon>,
}

/// That an interrupt began again soon after its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Soon {
    /// The first time since the last event of a thread.
    pub from: u64,
    /// How often since then.
    pub times: u64,
    /// How often it had begun before.
    pub before: u64,
    /// The last event of a thread before that.
    period: u64,
    /// True where it did so before that, too.
    is_usual: bool,
}

/// The shortest and the longest of some times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Range(Option<(i64, i64)>);

impl Interrupt {
    /// False where the clock steps back as it begins, most times. Such a clock is made of a count of ticks, which this handler
    /// advances, and of the value of the timer, which has begun again by then: each handler seems to last for a period of the
    /// timer, whatever it takes.
    #[must_use]
    pub const fn is_timed(&self) -> bool {
        self.backs <= self.begun / 2
    }
}

impl Interrupt {
    /// The event of its last beginning.
    #[must_use]
    pub const fn last(&self) -> u64 {
        self.last.0
    }

    /// True where it never woke the thread that runs the kernel's timers.
    #[must_use]
    pub const fn wakes_nobody(&self) -> bool {
        self.wakes == 0
    }
}

impl Range {
    fn take(&mut self, ticks: i64) {
        let (least, most) = self.0.unwrap_or((ticks, ticks));
        self.0 = Some((least.min(ticks), most.max(ticks)));
    }

    /// The longest without the shortest.
    #[must_use]
    pub const fn spread(self) -> i64 {
        match self.0 {
            Some((least, most)) => most.saturating_sub(least),
            None => 0,
        }
    }

    /// The longest.
    #[must_use]
    pub const fn most(self) -> i64 {
        match self.0 {
            Some((_, most)) => most,
            None => 0,
        }
    }
}

/// Calls of interrupts at the end of the trace, after the last event of a thread.
#[derive(Debug, Clone, Copy, Default)]
pub struct Alone {
    /// The first event.
    pub first: u64,
    /// How many there are.
    pub times: u64,
    /// Ticks of the first and of the last one.
    span: (i64, i64),
    /// The shortest time from one to the next.
    least: Option<i64>,
}

impl Alone {
    /// One more.
    pub fn take(&mut self, seq: u64, at: i64) {
        if self.times == 0 {
            (self.first, self.span.0) = (seq, at);
        } else {
            let apart = at.saturating_sub(self.span.1);
            self.least = Some(self.least.map_or(apart, |least| least.min(apart)));
        }
        self.times = self.times.saturating_add(1);
        self.span.1 = at;
    }

    /// The ticks from one to the next on average, where that is hardly more than the shortest.
    #[must_use]
    pub fn steady(&self) -> Option<i64> {
        let between = i64::try_from(self.times).ok()?.checked_sub(1)?;
        let average = self.span.1.checked_sub(self.span.0)?.checked_div(between)?;
        let least = self.least?;
        // Also the clock of the trace has steps.
        (average <= least.saturating_add((least / 2).max(1))).then_some(average)
    }
}

/// An interrupt that has begun and not ended.
#[derive(Debug, Clone, Copy)]
pub struct Open {
    /// Its number.
    pub number: u64,
    /// Event with which it began.
    pub seq: u64,
    /// Ticks.
    pub since: i64,
    /// Interrupts that came on top of it since.
    pub above: u64,
    /// The last event of the application that its handler inserted.
    pub inserted: Option<Inserted>,
}

/// An event of the application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inserted {
    /// Which one of the trace.
    pub seq: u64,
    /// Its id.
    pub id: u32,
    /// Its words.
    pub words: [u64; 4],
}

/// The interrupt that gives the kernel its tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tick {
    /// Its number.
    pub number: u64,
    /// Ticks of the trace's clock from one to the next.
    pub period: i64,
    /// The event of the last one.
    pub seq: u64,
    /// For so long threads ran since. Idle time does not count: a system may stop its tick while nothing is to be done.
    pub since: i64,
}

/// All of them.
#[derive(Debug, Default)]
pub struct Interrupts {
    /// Ticks for which threads ran, up to the last event.
    pub ran: i64,
    /// Calls that give something, in interrupts whose number no event shows.
    pub unnumbered: u64,
    /// The number of the one that began last.
    pub newest: Option<u64>,
    /// True where another interrupt came since the last one ended.
    is_other_between: bool,
    /// Ticks of the last event.
    before: Option<i64>,
    /// By number.
    pub by_number: BTreeMap<u64, Interrupt>,
    /// The innermost last.
    pub open: Vec<Open>,
    /// Their calls since the last event of a thread.
    pub alone: Alone,
    /// The last event of a thread.
    period: u64,
}

impl Interrupts {
    /// One begins.
    pub fn enter(&mut self, number: u64, seq: u64, at: i64) {
        let is_other_between = std::mem::take(&mut self.is_other_between) || self.newest != Some(number);
        self.newest = Some(number);
        self.open.iter_mut().for_each(|open| open.above = open.above.saturating_add(1));
        if self.open.len() < MAX {
            self.open.push(Open { number, seq, since: at, above: 0, inserted: None });
        }
        if self.by_number.len() >= MAX && !self.by_number.contains_key(&number) {
            return;
        }
        let (ran, steps_back) = (self.ran, self.before.is_some_and(|before| at < before));
        let one = self.by_number.entry(number).or_default();
        if one.begun > 0
            && let Some(gap) =
                one.begun.checked_rem(GAPS as u64).and_then(|n| one.gaps.get_mut(usize::try_from(n).ok()?))
        {
            *gap = at.saturating_sub(one.last.1);
        }
        one.begun = one.begun.saturating_add(1);
        one.backs = one.backs.saturating_add(u64::from(steps_back));
        one.last = (seq, at, ran);
        let usual = one.row_ticks.checked_div(i64::try_from(one.row).unwrap_or(i64::MAX)).unwrap_or(0);
        let outside = at.saturating_sub(one.ended);
        if one.took > 0 && !is_other_between && outside <= one.took.saturating_mul(SOON) {
            let (period, is_usual) = (self.period, one.soon.is_some());
            let same = one.soon.filter(|soon| soon.period == period);
            let first = Soon { from: seq, times: 0, before: one.begun, period, is_usual };
            let soon = same.unwrap_or(first);
            one.soon = Some(Soon { times: soon.times.saturating_add(1), ..soon });
        }
        let at_once = one.times > 0 && outside <= usual.saturating_mul(2);
        if at_once {
            one.row_outside.take(outside);
        } else if !is_other_between || outside > usual.saturating_mul(OTHER) {
            (one.row, one.row_from, one.row_ticks) = (0, (seq, at), 0);
            (one.row_inside, one.row_outside) = (Range::default(), Range::default());
        }
    }

    /// One ends.
    pub fn exit(&mut self, at: i64) {
        let Some(open) = self.open.pop() else { return };
        let Some(one) = self.by_number.get_mut(&open.number) else { return };
        let ticks = at.saturating_sub(open.since).max(0);
        one.times = one.times.saturating_add(1);
        one.row = one.row.saturating_add(1);
        one.row_ticks = one.row_ticks.saturating_add(ticks);
        one.row_inside.take(ticks);
        one.inside = one.inside.saturating_add(ticks);
        (one.longest, one.took) = (one.longest.max(ticks), ticks);
        one.ended = at;
    }

    /// A thread has an event.
    pub fn thread_goes_on(&mut self, seq: u64) {
        (self.period, self.alone) = (seq, Alone::default());
    }

    /// The number of the interrupt that began again soon after its end most often since the last event of a thread, and that had come
    /// before without that. It is not the tick.
    #[must_use]
    pub fn comes_back(&self) -> Option<(u64, Soon)> {
        let is_new = |soon: &Soon| soon.period == self.period && !soon.is_usual && soon.before >= FEW;
        let all = self.by_number.iter().filter(|(_, one)| one.wakes == 0);
        let new = all.filter_map(|(number, one)| Some((*number, one.soon.filter(is_new)?)));
        new.max_by_key(|(_, soon)| soon.times)
    }

    /// The event at these ticks is done with.
    pub const fn after(&mut self, at: i64) {
        self.before = Some(at);
    }

    /// An interrupt gives something to threads.
    pub fn gives(&mut self) {
        self.unnumbered = self.unnumbered.saturating_add(u64::from(self.open.is_empty()));
    }

    /// One wakes the thread that runs the kernel's timers.
    pub fn wakes_timers(&mut self, number: u64) {
        if let Some(one) = self.by_number.get_mut(&number) {
            one.wakes = one.wakes.saturating_add(1);
        }
    }

    /// The interrupt that gives the tick: it wakes the kernel's timers, and came often enough to know when it is due.
    #[must_use]
    pub fn tick(&self) -> Option<Tick> {
        let known = |(_, one): &(&u64, &Interrupt)| one.wakes > 0 && one.begun > GAPS as u64;
        let (number, one) = self.by_number.iter().filter(known).max_by_key(|(_, one)| one.wakes)?;
        let mut gaps = one.gaps;
        gaps.sort_unstable();
        let period = *gaps.get(GAPS / 2).filter(|gap| **gap > 0)?;
        let (seq, _, ran) = one.last;
        Some(Tick { number: *number, period, seq, since: self.ran.saturating_sub(ran) })
    }

    /// The one that is open calls the kernel; where none is, one that is not announced.
    pub fn acts(&mut self) {
        self.is_other_between |= self.open.is_empty();
        if let Some(one) = self.open.last().and_then(|open| self.by_number.get_mut(&open.number)) {
            one.acts = one.acts.saturating_add(1);
        }
    }

    /// The handler of the innermost one inserts an event of the application.
    fn inserts(&mut self, seq: u64, id: u32, words: &[u64]) {
        if let Some(open) = self.open.last_mut() {
            let word = |n: usize| words.get(n).copied().unwrap_or_default();
            open.inserted = Some(Inserted { seq, id, words: [word(0), word(1), word(2), word(3)] });
        }
    }

    /// Events are missing.
    pub fn forget(&mut self) {
        self.open.clear();
        self.alone = Alone::default();
        for one in self.by_number.values_mut() {
            (one.row, one.row_ticks, one.ended) = (0, 0, i64::MIN);
            (one.begun, one.backs, one.wakes) = (0, 0, 0);
            (one.took, one.soon) = (0, None);
        }
        self.before = None;
    }
}

impl Events {
    /// What a handler inserts for the application.
    pub(super) fn by_interrupt(&mut self, now: &Now<'_>, system: &System<'_>) {
        if now.is_of_interrupt() && system.catalogue.is_user_id(now.event.id) {
            self.interrupts.inserts(now.event.seq, now.event.id, now.words);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Alone, Interrupts};

    /// An interrupt that came again at once called the kernel every 16 ticks, and no event of its begin and end was inserted.
    #[test]
    fn calls_alone_are_steady_where_none_is_far_from_the_next() {
        let of = |apart: &[i64]| {
            let mut alone = Alone::default();
            let mut at = 0;
            for (seq, apart) in [0].iter().chain(apart).enumerate() {
                at += apart;
                alone.take(7 + seq as u64, at);
            }
            alone
        };
        let storm = of(&[16, 17, 16, 16, 17, 106, 16, 17, 16, 17, 16, 16, 16, 17, 17, 16, 16, 16, 16]);
        assert_eq!((storm.first, storm.times, storm.steady()), (7, 20, Some(21)), "one came late");
        assert_eq!(of(&[16, 16, 900, 16, 16, 900]).steady(), None, "bursts");
        assert_eq!(of(&[0, 1, 0, 1]).steady(), Some(0), "a coarse clock");
        assert_eq!(of(&[]).steady(), None);
    }

    #[test]
    fn one_that_does_not_end_has_others_above_it() {
        let mut all = Interrupts::default();
        for n in 0..3 {
            all.enter(21, n, 1000 * i64::try_from(n).unwrap());
            all.exit(1000 * i64::try_from(n).unwrap() + 10);
        }
        all.enter(21, 10, 5000);
        for n in 0..9i64 {
            all.enter(15, 20, 6000 + 1000 * n);
            all.exit(6000 + 1000 * n + 5);
        }
        let open = all.open.first().unwrap();
        assert_eq!((open.number, open.since, open.above), (21, 5000, 9));
        assert_eq!(all.by_number[&21].longest, 10);
    }

    #[test]
    fn the_tick_is_what_wakes_the_timers_and_time_without_threads_does_not_count() {
        let mut all = Interrupts::default();
        for n in 0..12_i64 {
            all.ran += 700;
            all.enter(15, u64::try_from(n).unwrap(), 1000 * n);
            all.wakes_timers(15);
            all.exit(1000 * n + 10);
        }
        assert_eq!(all.tick().map(|tick| (tick.number, tick.period, tick.seq, tick.since)), Some((15, 1000, 11, 0)));
        all.ran += 2500;
        assert_eq!(all.tick().unwrap().since, 2500);
        all.forget();
        assert_eq!(all.tick(), None, "events are missing");
    }

    #[test]
    fn a_row_ends_where_it_pauses() {
        let mut all = Interrupts::default();
        let mut at = 0;
        for _ in 0..70 {
            all.enter(21, 1, at);
            all.exit(at + 200);
            at += 280;
        }
        assert_eq!((all.by_number[&21].row, all.by_number[&21].row_ticks), (70, 14_000));
        let mut all = Interrupts { by_number: all.by_number.clone(), newest: all.newest, ..Interrupts::default() };
        all.acts();
        all.enter(21, 2, at + 600);
        all.exit(at + 800);
        assert_eq!(all.by_number[&21].row, 71, "the tick came between");
        all.enter(21, 2, at + 10_000);
        all.exit(at + 10_200);
        assert_eq!((all.by_number[&21].row, all.by_number[&21].row_from), (1, (2, at + 10_000)));
    }

    /// Of a clock `ticks * reload + (reload - VAL)`, whose ticks the handler advances, SysTick seemed to take all of the time.
    #[test]
    fn a_clock_that_steps_back_as_the_tick_begins_was_taken_for_a_storm() {
        let run = |step: i64| {
            let mut all = Interrupts::default();
            for n in 0..80_i64 {
                let start = 1000 * n + if n % 4 == 0 { 60 } else { 15 };
                all.enter(15, 1, start - step);
                all.after(start - step);
                all.exit(start + 30);
                all.after(start + 30);
                // A thread goes on.
                all.after(start + 200);
            }
            all
        };
        assert!(!run(1000).by_number[&15].is_timed());
        assert_eq!(run(1000).by_number[&15].longest, 1030);
        assert!(run(0).by_number[&15].is_timed());
        let mut all = run(1000);
        all.forget();
        assert!(all.by_number[&15].is_timed(), "events are missing");
    }
}
