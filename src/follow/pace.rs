//! How often to read: so that the ring is far from full each time, and not more often than needed.

use std::time::Duration;

/// The shortest pause between two reads.
const SHORTEST: Duration = Duration::from_millis(1);
/// The longest.
const LONGEST: Duration = Duration::from_millis(250);
/// The first.
const FIRST: Duration = Duration::from_millis(16);

/// The pause between reads.
#[derive(Debug, Clone)]
pub struct Pace {
    capacity: u64,
    pause: Duration,
}

impl Pace {
    /// For a ring of so many slots.
    pub const fn new(capacity: u64) -> Self {
        Self { capacity, pause: FIRST }
    }

    /// How long to wait now.
    pub(super) const fn pause(&self) -> Duration {
        self.pause
    }

    /// A read has found so many new slots: the pause is halved where more than a quarter of the ring was new, doubled where less than
    /// a sixteenth was.
    #[allow(clippy::arithmetic_side_effects, reason = "at most twice LONGEST")]
    pub(super) fn saw(&mut self, slots: u64, lost: bool) {
        if lost {
            self.pause = SHORTEST;
        } else if slots > self.capacity / 4 {
            self.pause = (self.pause / 2).max(SHORTEST);
        } else if slots < self.capacity / 16 {
            self.pause = (self.pause * 2).min(LONGEST);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_follows_the_fill() {
        let mut pace = Pace::new(256);
        for _ in 0..10 {
            pace.saw(3, false);
        }
        assert_eq!(pace.pause(), LONGEST);
        pace.saw(40, false);
        assert_eq!(pace.pause(), LONGEST);
        pace.saw(65, false);
        assert_eq!(pace.pause(), LONGEST / 2);
        pace.saw(65, true);
        assert_eq!(pace.pause(), SHORTEST);
        pace.saw(255, false);
        assert_eq!(pace.pause(), SHORTEST);
    }
}
