//! What the events show of sleeps: how long a tick of the kernel is in ticks of the trace's clock, and since when a thread sleeps.

use std::collections::{BTreeMap, VecDeque};

use super::{Events, Now, SetBack, TIMER_THREAD};
use crate::abi::Addr;
use crate::analysis::tracker::{System, ThreadNo, Who};
use crate::trace::{ContextKind, Event};

/// The most sleeps that are remembered, the newest.
const MOST: usize = 256;
/// So many sleeps show how long a tick is.
const LEAST: usize = 3;
/// So many ticks of the kernel show how long one is.
const MANY: i64 = 32;

/// A sleep that has begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// The call.
    pub seq: u64,
    /// Ticks of the trace at which it began.
    pub at: i64,
    /// For so many ticks of the kernel.
    pub ticks: u64,
}

/// The sleeps of a thread that are over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Over {
    /// How many.
    pub times: u64,
    /// The last one.
    pub last: Asked,
    /// Ticks of the trace at which that ended.
    pub at: i64,
}

/// One that its time ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slept {
    /// The event that ended it.
    pub seq: u64,
    /// Ticks of the trace for each tick of the kernel.
    pub period: i64,
    /// So many ticks of the kernel.
    pub ticks: u64,
}

/// The kernel's count of ticks, as the last calls of `tx_time_get` had it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock {
    /// The count.
    pub value: u64,
    /// The first call in a row that had it: event and ticks of the trace.
    pub from: (u64, i64),
    /// How many had it since.
    pub calls: u64,
}

impl Clock {
    fn next(before: Option<Self>, value: u64, from: (u64, i64)) -> Self {
        match before.filter(|clock| clock.value == value) {
            Some(clock) => Self { calls: clock.calls.saturating_add(1), ..clock },
            None => Self { value, from, calls: 1 },
        }
    }
}

/// All of them.
#[derive(Debug, Default)]
pub struct Sleeps {
    asked: BTreeMap<Addr, Asked>,
    ended: BTreeMap<Addr, Over>,
    /// Those of two ticks and more, the newest last.
    pub over: VecDeque<Slept>,
    /// Ticks of the trace when time last ended a sleep.
    pub last_end: Option<i64>,
    /// The shortest time between two events in a row of one thread.
    pub shortest: Option<i64>,
    /// The event before: its thread and its ticks.
    before: Option<(Addr, i64)>,
    /// True where the program changed the kernel's count of ticks.
    pub is_time_set: bool,
    /// True where the first event is of the kernel's initialisation.
    pub from_start: bool,
    /// The kernel's count of ticks in the last calls that asked for it.
    pub clock: Option<Clock>,
    /// The same in the first.
    first_clock: Option<Clock>,
}

impl Sleeps {
    /// How long a tick of the kernel is: the middle of what the long sleeps show. `None` where several sleeps were shorter by far: a clock
    /// that stops while the processor is idle measures nothing.
    #[must_use]
    pub fn period(&self) -> Option<i64> {
        self.by_sleeps().map(|period| self.by_clock().unwrap_or(period))
    }

    /// The same by the kernel's count of ticks, where it went on for long between the first call that asked for it and the last.
    fn by_clock(&self) -> Option<i64> {
        let (first, last) = self.first_clock.zip(self.clock).filter(|_| !self.is_time_set)?;
        let ticks = i64::try_from(last.value.checked_sub(first.value)?).ok().filter(|ticks| *ticks >= MANY)?;
        last.from.1.saturating_sub(first.from.1).checked_div(ticks).filter(|period| *period > 0)
    }

    fn by_sleeps(&self) -> Option<i64> {
        let sorted = |least: u64| {
            let long = self.over.iter().filter(|slept| slept.ticks >= least);
            let mut all: Vec<i64> = long.map(|slept| slept.period).collect();
            all.sort_unstable();
            Some(all).filter(|all| all.len() >= LEAST)
        };
        // A sleep is shorter than it was asked for by a part of its first tick, which counts less in a long one.
        let longest = self.over.iter().map(|slept| slept.ticks).max()?;
        let (all, long) = (sorted(0)?, sorted(longest / 2).or_else(|| sorted(0))?);
        let period = *long.get(long.len() / 2).filter(|period| **period > 0)?;
        (*all.get(all.len() / 8)? >= period / 2).then_some(period)
    }

    /// The sleep in which a thread is, by its address as the trace stores it.
    #[must_use]
    pub fn of(&self, thread: Addr) -> Option<Asked> {
        self.asked.get(&thread).copied()
    }

    /// The sleeps of a thread that are over, by its address as the trace stores it.
    #[must_use]
    pub fn over_of(&self, thread: Addr) -> Option<Over> {
        self.ended.get(&thread).copied()
    }

    fn ask(&mut self, thread: Addr, asked: Asked) {
        if self.asked.len() < super::MAX_THREADS || self.asked.contains_key(&thread) {
            self.asked.insert(thread, asked);
        }
    }

    fn end(&mut self, thread: Addr, event: &Event, by_time: bool) {
        let Some(asked) = self.asked.remove(&thread).filter(|_| by_time) else { return };
        self.last_end = Some(event.ticks);
        let times = self.ended.get(&thread).map_or(0, |over| over.times).saturating_add(1);
        if self.ended.len() < super::MAX_THREADS || times > 1 {
            self.ended.insert(thread, Over { times, last: asked, at: event.ticks });
        }
        if asked.ticks < 2 {
            return;
        }
        let lasted = event.ticks.saturating_sub(asked.at);
        let Some(period) = i64::try_from(asked.ticks).ok().and_then(|ticks| lasted.checked_div(ticks)) else { return };
        if self.over.len() >= MOST {
            self.over.pop_front();
        }
        self.over.push_back(Slept { seq: event.seq, period, ticks: asked.ticks });
    }

    /// The next event, where it is of a thread.
    fn next(&mut self, event: Option<(Addr, i64)>) {
        if let (Some((thread, from)), Some((next, to))) = (self.before, event)
            && thread == next
        {
            let between = to.saturating_sub(from);
            self.shortest = Some(self.shortest.map_or(between, |shortest| shortest.min(between)));
        }
        self.before = event;
    }

    /// Events are missing.
    pub(super) fn forget(&mut self) {
        (self.before, self.clock, self.first_clock) = (None, None, None);
        self.asked.clear();
    }
}

impl Events {
    /// A call that sleeps, or that sets the kernel's time.
    pub(super) fn sleeps(&mut self, now: &Now<'_>) {
        if self.count == 1 {
            self.sleeps.from_start = now.context.is_some_and(|context| context.kind == ContextKind::Init);
        }
        let (thread, event) = (now.thread(), now.event);
        self.sleeps.next(thread.map(|thread| (thread, event.ticks)));
        if !now.places.is_timed {
            return;
        }
        if let Some(to) = now.places.set_time(now.words) {
            self.sleeps.is_time_set = true;
            self.set_back = SetBack::of(now.thread(), to, self.time, event.seq).or(self.set_back.take());
            self.time = Some(to);
        }
        if let Some(value) = now.places.clock(now.words) {
            self.time = Some(value);
            self.had.time = now.thread().map(|thread| (thread, value, event.seq));
            now.thread().zip(self.set_back.as_mut()).into_iter().for_each(|(thread, set)| set.read(thread));
            self.sleeps.clock = Some(Clock::next(self.sleeps.clock, value, (event.seq, event.ticks)));
            self.sleeps.first_clock = self.sleeps.first_clock.or(self.sleeps.clock);
        }
        if let (Some(ticks), Some(thread)) = (now.places.sleep(now.words), thread) {
            self.sleeps.ask(thread, Asked { seq: event.seq, at: event.ticks, ticks });
        }
    }

    /// A thread becomes ready: its sleep is over.
    pub(super) fn wakes(&mut self, event: &Event, thread: ThreadNo, by: Who, system: &System<'_>) {
        let by_time = match by {
            Who::Thread(by) => system.name(by) == Some(TIMER_THREAD),
            Who::Isr => true,
            _ => false,
        };
        if let Some(thread) = system.thread(thread) {
            self.sleeps.end(thread.address, event, by_time);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(periods: &[i64]) -> Option<i64> {
        let over = periods.iter().map(|period| Slept { seq: 0, period: *period, ticks: 2 }).collect();
        Sleeps { over, ..Sleeps::default() }.period()
    }

    #[test]
    fn calls_that_read_the_same_time_are_counted() {
        let of = |values: &[u64]| {
            let calls = (1_u64..).zip(values);
            calls.fold(None, |before, (seq, value)| Some(Clock::next(before, *value, (seq, 0)))).unwrap()
        };
        assert_eq!(of(&[7, 8, 8, 8]), Clock { value: 8, from: (2, 0), calls: 3 });
        assert_eq!(of(&[8, 8, 9]), Clock { value: 9, from: (3, 0), calls: 1 }, "it goes on");
    }

    #[test]
    fn a_few_sleeps_show_how_long_a_tick_is() {
        assert_eq!(of(&[100, 99]), None, "too few");
        assert_eq!(of(&[100, 99, 260]), Some(100), "one was woken late");
        assert_eq!(of(&[0, 0, 0]), None, "the clock stands still");
        assert_eq!(of(&[10, 12, 60, 80, 100, 100, 100, 100, 100]), None, "it stops while the processor is idle");
    }
    /// Short sleeps, which are shorter than they were asked for by a larger part, made a tick shorter than it is.
    #[test]
    fn the_longer_sleeps_show_how_long_a_tick_is() {
        let slept = |(ticks, period)| Slept { seq: 0, period, ticks };
        let short = std::iter::repeat_n((2, 80), 20);
        let over = short.chain([(25, 99), (25, 100), (20, 98)]).map(slept).collect();
        assert_eq!(Sleeps { over, ..Sleeps::default() }.period(), Some(99));
    }
}
