//! What the events show of interrupts: how often each comes, how long it takes, and whether it does anything.

use std::collections::BTreeMap;

/// The most numbers that are followed.
const MAX: usize = 512;

/// One interrupt.
#[derive(Debug, Clone, Copy, Default)]
pub struct Interrupt {
    /// How often it ended.
    pub times: u64,
    /// The longest that it took, in ticks.
    pub longest: i64,
    /// Events of the kernel inside of it.
    pub acts: u64,
    /// How often in a row it came again at once.
    pub row: u64,
    /// Event and ticks at which that began.
    pub row_from: (u64, i64),
    /// Ticks inside of it since then.
    pub row_ticks: i64,
    /// Ticks at its last end.
    pub ended: i64,
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
}

/// All of them.
#[derive(Debug, Default)]
pub struct Interrupts {
    /// By number.
    pub by_number: BTreeMap<u64, Interrupt>,
    /// The innermost last.
    pub open: Vec<Open>,
}

impl Interrupts {
    /// One begins.
    pub fn enter(&mut self, number: u64, seq: u64, at: i64) {
        self.open.iter_mut().for_each(|open| open.above = open.above.saturating_add(1));
        if self.open.len() < MAX {
            self.open.push(Open { number, seq, since: at, above: 0 });
        }
        if self.by_number.len() >= MAX && !self.by_number.contains_key(&number) {
            return;
        }
        let one = self.by_number.entry(number).or_default();
        let usual = one.row_ticks.checked_div(i64::try_from(one.row).unwrap_or(i64::MAX)).unwrap_or(0);
        let at_once = one.times > 0 && at.saturating_sub(one.ended) <= usual.saturating_mul(2);
        if !at_once {
            (one.row, one.row_from, one.row_ticks) = (0, (seq, at), 0);
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
        one.longest = one.longest.max(ticks);
        one.ended = at;
    }

    /// The one that is open calls the kernel.
    pub fn acts(&mut self) {
        if let Some(one) = self.open.last().and_then(|open| self.by_number.get_mut(&open.number)) {
            one.acts = one.acts.saturating_add(1);
        }
    }

    /// Events are missing.
    pub fn forget(&mut self) {
        self.open.clear();
        for one in self.by_number.values_mut() {
            (one.row, one.row_ticks, one.ended) = (0, 0, i64::MIN);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Interrupts;

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
    fn a_row_ends_where_it_pauses() {
        let mut all = Interrupts::default();
        let mut at = 0;
        for _ in 0..70 {
            all.enter(21, 1, at);
            all.exit(at + 200);
            at += 280;
        }
        assert_eq!((all.by_number[&21].row, all.by_number[&21].row_ticks), (70, 14_000));
        all.enter(21, 2, at + 10_000);
        all.exit(at + 10_200);
        assert_eq!((all.by_number[&21].row, all.by_number[&21].row_from), (1, (2, at + 10_000)));
    }
}
