//! Whether the clock goes on while the processor is idle: intervals of the trace whose length the kernel counted in its
//! own ticks.

#![expect(clippy::arithmetic_side_effects, reason = "counts of events; ticks are computed with checks")]

use std::collections::HashMap;

use super::entry::{Entry, id};
use crate::trace::ContextKind;

/// The kernel's code for a thread that sleeps.
const SLEEPS: u64 = 4;
/// The most intervals, and the most threads, that are kept.
const MOST: usize = 4096;
/// Kernel ticks between two counts that are compared: the count itself is within one.
const APART: u64 = 8;
/// So many intervals of a kind are asked for before anything is said.
const LEAST: usize = 3;

/// A place in the trace.
#[derive(Debug, Clone, Copy)]
struct Moment {
    /// Ticks of the clock since the first event, by the mask alone.
    elapsed: u64,
    /// How often the processor was found idle until then.
    idles: u64,
}

/// From one moment to another.
#[derive(Debug, Clone, Copy)]
struct Interval {
    /// Ticks of the clock.
    elapsed: u64,
    /// The least and the most that it lasted, in ticks of the kernel.
    least: u64,
    most: u64,
    /// True where the processor was idle meanwhile.
    idle: bool,
}

/// What a tick of the kernel is in ticks of the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Verdict {
    /// While the processor is busy, or as often as not.
    pub usual: u64,
    /// Where the clock went on too little, and the processor was idle.
    pub short: u64,
}

/// Collects them in one pass.
#[derive(Debug, Default)]
pub(super) struct KernelTicks {
    /// True where the processor is idle after the event before.
    idle: bool,
    idles: u64,
    /// By thread: when it asked to sleep, and for how long.
    asleep: HashMap<u64, (Moment, u64)>,
    /// By thread: when an interrupt last made it ready. The kernel's timer thread wakes others late, where more urgent
    /// ones run, and was itself made ready at the tick.
    woken: HashMap<u64, Moment>,
    /// The kernel's count of ticks.
    count: Option<(u64, Moment)>,
    intervals: Vec<Interval>,
}

impl KernelTicks {
    /// False for events that need not come: none do once there are intervals enough; and before that, in a thread, those
    /// that say nothing about time, unless the processor was idle.
    #[inline]
    pub fn takes(&self, kind: ContextKind, is_timed: impl FnOnce() -> bool) -> bool {
        self.intervals.len() < MOST && (self.idle || kind == ContextKind::Isr || is_timed())
    }

    /// Takes one event.
    pub fn event(&mut self, entry: &Entry, kind: ContextKind, elapsed: u64) {
        let found_idle = match kind {
            ContextKind::Isr => entry.priority == 0,
            ContextKind::Thread => self.idle,
            _ => false,
        };
        self.idles += u64::from(found_idle);
        let now = Moment { elapsed, idles: self.idles };
        let [i1, i2, _, next] = entry.info;
        match entry.id {
            id::SLEEP if kind == ContextKind::Thread => keep(&mut self.asleep, entry.context, (now, i1)),
            id::WAIT_ABORT => {
                self.asleep.remove(&i1);
            }
            id::RESUME => self.resumed(entry, (kind, i1, i2), now),
            id::TIME_SET => self.count = None,
            id::TIME_GET => self.counted(i1, now),
            _ => {}
        }
        self.idle = match (entry.id, kind) {
            (id::SUSPEND, ContextKind::Thread | ContextKind::Isr) => next == 0,
            (id::RESUME, ContextKind::Isr) => found_idle && next == 0,
            (_, ContextKind::Isr) => found_idle,
            _ => false,
        };
    }

    fn resumed(&mut self, entry: &Entry, (kind, thread, was): (ContextKind, u64, u64), now: Moment) {
        let in_isr = kind == ContextKind::Isr;
        if in_isr {
            keep(&mut self.woken, thread, now);
        }
        if was != SLEEPS {
            return;
        }
        let Some((from, ticks)) = self.asleep.remove(&thread) else { return };
        let waker = if in_isr { None } else { self.woken.get(&entry.context) };
        let to = waker.filter(|woken| woken.elapsed > from.elapsed).copied().unwrap_or(now);
        self.interval(from, to, ticks);
    }

    fn counted(&mut self, count: u64, now: Moment) {
        let Some((before, from)) = self.count else {
            self.count = Some((count, now));
            return;
        };
        match count.checked_sub(before) {
            Some(ticks) if ticks < APART => return,
            Some(ticks) => self.interval(from, now, ticks),
            None => {}
        }
        self.count = Some((count, now));
    }

    /// So many ticks of the kernel came meanwhile, the first and the last at any time.
    fn interval(&mut self, from: Moment, to: Moment, ticks: u64) {
        let (least, most) = (ticks.saturating_sub(1), ticks.saturating_add(1));
        if least > 0 && self.intervals.len() < MOST {
            let elapsed = to.elapsed.saturating_sub(from.elapsed);
            self.intervals.push(Interval { elapsed, least, most, idle: to.idles > from.idles });
        }
    }

    /// What intervals with idle time say, where they contradict the others: the clock stops while the processor is idle.
    /// `mask` is that of the stamps: where an interval is longer than the clock can count, nothing follows from it.
    pub fn verdict(&self, mask: u64) -> Option<Verdict> {
        let a_tick = |s: &Interval| s.elapsed.checked_div(s.most);
        let busy: Vec<u64> = self.intervals.iter().filter(|s| !s.idle).filter_map(a_tick).collect();
        let known = busy.len() >= LEAST;
        let usual = median(if known { busy } else { self.intervals.iter().filter_map(a_tick).collect() })?;
        let counted = |s: &&Interval| s.idle && s.most.saturating_mul(usual) <= mask >> 1;
        let idle: Vec<&Interval> = self.intervals.iter().filter(counted).collect();
        let limit = usual.saturating_sub(usual / 16);
        let short = |s: &&&Interval| s.elapsed.checked_div(s.least).is_some_and(|tick| tick < limit);
        let short: Vec<u64> = idle.iter().filter(short).filter_map(|s| a_tick(s)).collect();
        // Where every interval has idle time, the usual one is itself too short.
        let share = if known { 2 } else { 8 };
        let enough = short.len() >= LEAST && short.len() * share >= idle.len();
        if enough { Some(Verdict { usual, short: median(short)? }) } else { None }
    }
}

fn keep<T>(map: &mut HashMap<u64, T>, thread: u64, value: T) {
    if map.len() < MOST || map.contains_key(&thread) {
        map.insert(thread, value);
    }
}

fn median(mut values: Vec<u64>) -> Option<u64> {
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}
