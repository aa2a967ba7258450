//! How fast memory comes over a link, and how much of it may be on its way at once.
//!
//! A stub answers all requests that it has received before it reads anything else. A probe that carries 2 KB/s needs a minute
//! for 16 requests of 8 KB, and so long a target stays halted after Ctrl-C. So the bytes on their way are bounded by
//! the rate that was measured.

use std::time::{Duration, Instant};

/// What is on its way together takes about this long, in milliseconds.
const AHEAD_MS: u64 = 250;
/// The bytes that may be on their way while the rate is not known, or is low: `last 50` needs no more at a time.
const DEFAULT: usize = 4096;
/// The fewest bytes that are asked for at once, however slow the link is.
const MIN: usize = 128;
/// The fewest bytes that a rate is measured by.
const SAMPLE: usize = 64;

/// The rate at which memory comes, in one series of requests.
#[derive(Debug, Clone)]
pub(super) struct Rate {
    began: Instant,
    bytes: usize,
    /// Bytes a second; 0 where it is not known.
    per_second: u64,
    /// The bytes that may be on their way at any rate.
    floor: usize,
}

impl Default for Rate {
    fn default() -> Self {
        Self { began: Instant::now(), bytes: 0, per_second: 0, floor: DEFAULT }
    }
}

impl Rate {
    /// The first request of a series is being sent.
    pub(super) fn begin(&mut self) {
        self.began = Instant::now();
        self.bytes = 0;
    }

    /// Counts bytes that were received.
    pub(super) fn received(&mut self, bytes: usize) {
        self.add(bytes, self.began.elapsed());
    }

    #[allow(clippy::arithmetic_side_effects, reason = "counts bytes that are held in memory")]
    fn add(&mut self, bytes: usize, elapsed: Duration) {
        self.bytes += bytes;
        if self.bytes >= SAMPLE {
            // In f64, which neither overflows nor divides by 0; `as` takes the nearest number that fits.
            self.per_second = (self.bytes as f64 / elapsed.as_secs_f64()) as u64;
        }
    }

    /// An answer did not come in time: less is asked for from now on.
    pub(super) fn late(&mut self) {
        self.per_second = 0;
        self.floor = (self.floor / 4).max(MIN);
    }

    /// The most bytes on their way together.
    pub(super) fn in_flight(&self) -> usize {
        let ahead = self.per_second.saturating_mul(AHEAD_MS) / 1000;
        usize::try_from(ahead).unwrap_or(usize::MAX).max(self.floor)
    }

    /// The most bytes of one request: half of what may be on its way, so that a stub always has the next one.
    pub(super) fn chunk(&self) -> usize {
        // Words are never cut.
        (self.in_flight() / 2).max(MIN / 2) & !15
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_on_its_way_takes_a_quarter_of_a_second() {
        let mut rate = Rate::default();
        assert_eq!((rate.in_flight(), rate.chunk()), (4096, 2048));
        rate.add(16, Duration::from_millis(1));
        assert_eq!(rate.in_flight(), 4096);
        rate.add(100_000 - 16, Duration::from_secs(1));
        assert_eq!((rate.in_flight(), rate.chunk()), (25_000, 12_496));
        rate.late();
        assert_eq!((rate.in_flight(), rate.chunk()), (1024, 512));
        for _ in 0..9 {
            rate.late();
        }
        assert_eq!(rate.in_flight(), 128);
    }
}
