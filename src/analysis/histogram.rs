//! A histogram of durations in constant memory: exact for small numbers, logarithmic above, so that a quantile is within
//! one percent of the number that has this rank.

#![expect(clippy::arithmetic_side_effects, reason = "counts and indices; ticks are added with saturation")]

use std::borrow::Cow;

/// Buckets of a power of two: the relative error is at most half of its inverse.
const STEPS: usize = 64;
/// Its logarithm.
const BITS: u32 = 6;

/// So many numbers are kept as they are, before any are counted: most threads of a large system have few.
const FEW: usize = 16;

/// Counts durations.
#[derive(Debug, Clone)]
pub struct Histogram(Kept);

#[derive(Debug, Clone)]
enum Kept {
    /// The numbers, while they are few.
    Few(Vec<u64>),
    Many(Box<Counts>),
}

/// Numbers that were counted. A power of two takes its 64 counts when the first of its numbers comes.
#[derive(Debug, Clone, Default)]
struct Counts {
    powers: Vec<Vec<u64>>,
    count: u64,
    ends: Option<(u64, u64)>,
}

impl Default for Histogram {
    fn default() -> Self {
        Self(Kept::Few(Vec::new()))
    }
}

/// Which power of two a number is counted with, and which of its steps.
fn place(value: u64) -> (usize, usize) {
    let index = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    let Some(shift) = value.checked_ilog2().and_then(|top| top.checked_sub(BITS)) else { return (0, index(value)) };
    let steps = index(value >> shift);
    // `shift` is at most 57.
    (usize::try_from(shift).unwrap_or(0).saturating_add(1), steps.saturating_sub(STEPS))
}

/// The number in the middle of a bucket.
fn middle(power: usize, step: usize) -> u64 {
    let step = u64::try_from(step).unwrap_or(0);
    let Some(shift) = power.checked_sub(1).and_then(|s| u32::try_from(s).ok()) else { return step };
    let low = step.saturating_add(64).checked_shl(shift).unwrap_or(u64::MAX);
    let width = 1u64.checked_shl(shift).unwrap_or(u64::MAX);
    low.saturating_add(width.saturating_sub(1) / 2)
}

impl Counts {
    fn of(numbers: &[u64]) -> Self {
        let mut this = Self::default();
        numbers.iter().for_each(|value| this.add(*value));
        this
    }

    fn add(&mut self, value: u64) {
        let (power, step) = place(value);
        if power >= self.powers.len() {
            self.powers.resize(power + 1, Vec::new());
        }
        if let Some(steps) = self.powers.get_mut(power) {
            if steps.is_empty() {
                steps.resize(STEPS, 0);
            }
            if let Some(n) = steps.get_mut(step) {
                *n += 1;
            }
        }
        self.count += 1;
        let (low, high) = self.ends.unwrap_or((value, value));
        self.ends = Some((low.min(value), high.max(value)));
    }

    fn percentile(&self, percent: u8) -> Option<u64> {
        let (low, high) = self.ends?;
        let rank = u128::from(self.count).saturating_mul(u128::from(percent.min(100))).div_ceil(100).max(1);
        // The ends are known exactly.
        if rank >= u128::from(self.count) {
            return Some(high);
        }
        if rank == 1 {
            return Some(low);
        }
        let mut below = 0u128;
        for (power, steps) in self.powers.iter().enumerate() {
            for (step, n) in steps.iter().enumerate() {
                below = below.saturating_add(u128::from(*n));
                if below >= rank {
                    return Some(middle(power, step).clamp(low, high));
                }
            }
        }
        Some(high)
    }
}

impl Histogram {
    /// Counts a number.
    pub fn add(&mut self, value: u64) {
        match &mut self.0 {
            Kept::Few(few) if few.len() < FEW => {
                few.reserve_exact(1);
                few.push(value);
            }
            Kept::Few(few) => {
                let mut counts = Counts::of(few);
                counts.add(value);
                self.0 = Kept::Many(Box::new(counts));
            }
            Kept::Many(counts) => counts.add(value),
        }
    }

    /// The same with every number counted.
    fn counted(&self) -> Cow<'_, Counts> {
        match &self.0 {
            Kept::Few(few) => Cow::Owned(Counts::of(few)),
            Kept::Many(counts) => Cow::Borrowed(counts),
        }
    }

    /// How many numbers were counted.
    pub fn count(&self) -> u64 {
        match &self.0 {
            Kept::Few(few) => few.len() as u64,
            Kept::Many(counts) => counts.count,
        }
    }

    /// The smallest, exactly.
    pub fn min(&self) -> Option<u64> {
        match &self.0 {
            Kept::Few(few) => few.iter().copied().min(),
            Kept::Many(counts) => counts.ends.map(|(low, _)| low),
        }
    }

    /// The largest, exactly.
    pub fn max(&self) -> Option<u64> {
        match &self.0 {
            Kept::Few(few) => few.iter().copied().max(),
            Kept::Many(counts) => counts.ends.map(|(_, high)| high),
        }
    }

    /// The number below or at which so many of a hundred are (nearest rank), within one percent.
    pub fn percentile(&self, percent: u8) -> Option<u64> {
        self.counted().percentile(percent)
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn small_numbers_are_exact() {
        let mut all = Histogram::default();
        assert_eq!((all.count(), all.min(), all.max(), all.percentile(50)), (0, None, None, None));
        (0..128).for_each(|n| all.add(n));
        for percent in 1..=100u8 {
            assert_eq!(all.percentile(percent), Some((128 * u64::from(percent)).div_ceil(100) - 1));
        }
    }

    #[test]
    fn every_number_is_within_one_percent_of_its_bucket() {
        let around = |n: u64| [n.saturating_sub(1), n, n.saturating_add(1), n | n >> 1, n | (n - 1)];
        for value in (0..64).flat_map(|bit| around(1u64 << bit)).chain([u64::MAX]) {
            let (power, step) = place(value);
            let error = middle(power, step).abs_diff(value);
            assert!(u128::from(error) * 128 <= u128::from(value), "{value}: {error}");
        }
    }

    #[test]
    fn memory_is_bounded() {
        let mut all = Histogram::default();
        (0..64).for_each(|bit| all.add(1 << bit));
        all.add(u64::MAX);
        let powers = &all.counted().into_owned().powers;
        assert!(powers.len() <= 59 && powers.iter().all(|p| p.len() <= STEPS));
    }
}
