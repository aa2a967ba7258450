//! A limit of the time for reading debug information: a few kilobytes can refer to themselves for years.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// Time for a file of any size.
const LEAST: Duration = Duration::from_millis(1500);
/// Additional time for each byte of it: sound debug information takes some 2 ms a megabyte, and may come from a disk.
const PER_BYTE: Duration = Duration::from_nanos(50);
/// Steps between two readings of the clock.
const STEPS: u32 = 256;
/// The longest name that is kept.
const LONGEST_NAME: usize = 1024;

/// A deadline that is cheap to check.
pub(super) struct Budget {
    ends: Instant,
    steps: Cell<u32>,
    over: Cell<bool>,
}

impl Budget {
    /// For debug information in a file of so many bytes, of which so much time was spent before.
    pub fn new(bytes: usize, spent: Duration) -> Self {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let all = LEAST.saturating_add(PER_BYTE.saturating_mul(bytes));
        let now = Instant::now();
        Self {
            ends: now.checked_add(all.saturating_sub(spent)).unwrap_or(now),
            steps: Cell::new(0),
            over: Cell::new(false),
        }
    }

    /// `None` where the time is over. For steps that take long themselves.
    pub fn check(&self) -> Option<()> {
        if !self.over.get() {
            self.over.set(Instant::now() >= self.ends);
        }
        (!self.over.get()).then_some(())
    }

    /// The same for small steps: reads the clock at some of them.
    pub(super) fn step(&self) -> Option<()> {
        self.steps.set(self.steps.get().wrapping_add(1));
        if self.over.get() || self.steps.get().is_multiple_of(STEPS) { self.check() } else { Some(()) }
    }
}

/// A name as far as it is kept. Hostile text.
pub(super) fn name(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.get(..LONGEST_NAME).unwrap_or(bytes)).into_owned()
}
