//! Who ran for how long since any moment: cumulative ticks, and a log of what they were when each first ran after such
//! a moment. So an event costs the same however many waits are open.

#![expect(clippy::arithmetic_side_effects, reason = "counts and indices; ticks are added with saturation")]

use crate::analysis::tracker::{System, Who, place};

/// Ticks of a thread or context at one priority.
#[derive(Debug, Clone, Copy)]
struct Sum {
    who: Who,
    priority: Option<u16>,
    ticks: i64,
    /// The last moment after which it ran.
    moment: u64,
    /// The last question that has counted it.
    asked: u64,
}

/// What a sum was before its thread first ran after a moment.
#[derive(Debug, Clone, Copy)]
struct Entry {
    moment: u64,
    sum: u32,
    before: i64,
}

/// Somebody who ran between two moments.
#[derive(Debug, Clone, Copy)]
pub(super) struct Share {
    pub who: Who,
    pub priority: Option<u16>,
    pub ticks: i64,
}

/// Who ran for how long.
#[derive(Debug, Default)]
pub(super) struct Ran {
    sums: Vec<Sum>,
    /// By [`Who::place`]: the number of the last sum plus one.
    last: Vec<u32>,
    log: Vec<Entry>,
    moment: u64,
    asked: u64,
}

/// So many entries are read again at the most for one answer; then the questions are answered, and asked again.
const MAX_LOG: usize = 1 << 15;

impl Ran {
    /// Somebody ran, with the priority that it has now.
    pub fn add(&mut self, who: Who, ticks: i64, system: &System<'_>) {
        let priority = match who {
            Who::Thread(no) => system.thread(no).and_then(|t| t.priority),
            _ => None,
        };
        let Some(last) = place(&mut self.last, who.place()) else { return };
        let at = |n: u32| usize::try_from(n).ok().and_then(|n| n.checked_sub(1));
        if at(*last).and_then(|n| self.sums.get(n)).is_none_or(|s| s.priority != priority) {
            // With a priority that comes back a second sum of the same begins: who adds up takes both.
            self.sums.push(Sum { who, priority, ticks: 0, moment: 0, asked: 0 });
            *last = u32::try_from(self.sums.len()).unwrap_or(u32::MAX);
        }
        let number = last.saturating_sub(1);
        let Some(sum) = at(*last).and_then(|n| self.sums.get_mut(n)) else { return };
        if sum.moment != self.moment {
            sum.moment = self.moment;
            self.log.push(Entry { moment: self.moment, sum: number, before: sum.ticks });
        }
        sum.ticks = sum.ticks.saturating_add(ticks);
    }

    /// A moment since which can be asked.
    pub fn now(&mut self) -> u64 {
        self.moment += 1;
        self.moment
    }

    /// Who ran since a moment.
    pub fn since(&mut self, moment: u64, mut each: impl FnMut(Share)) {
        self.asked += 1;
        let first = self.log.partition_point(|e| e.moment < moment);
        for entry in self.log.iter().skip(first) {
            let sum = usize::try_from(entry.sum).ok().and_then(|n| self.sums.get_mut(n));
            let Some(sum) = sum.filter(|s| s.asked != self.asked) else { continue };
            sum.asked = self.asked;
            let ticks = sum.ticks.saturating_sub(entry.before);
            each(Share { who: sum.who, priority: sum.priority, ticks });
        }
    }

    /// True where so much is remembered that questions should be asked again.
    pub fn is_full(&self) -> bool {
        self.log.len() >= MAX_LOG
    }

    /// Forgets everything: no moment before now is asked for.
    pub fn clear(&mut self) {
        self.log.clear();
        for sum in self.sums.drain(..) {
            if let Some(last) = self.last.get_mut(sum.who.place()) {
                *last = 0;
            }
        }
    }
}
