//! How often to look: so that the ring is far from full each time, and no oftener than it has to be.

use std::time::Duration;

/// The shortest pause between two looks.
pub const SHORTEST: Duration = Duration::from_millis(1);
/// The longest.
pub const LONGEST: Duration = Duration::from_millis(250);
/// The first.
const FIRST: Duration = Duration::from_millis(16);

/// The pause between looks.
#[derive(Debug, Clone)]
pub struct Pace {
    capacity: u64,
    pause: Duration,
}

impl Pace {
    /// For a ring of so many slots.
    #[must_use]
    pub const fn new(capacity: u64) -> Self {
        Self { capacity, pause: FIRST }
    }

    /// How long to wait now.
    #[must_use]
    pub const fn pause(&self) -> Duration {
        self.pause
    }

    /// A look has found so many new slots: halved where more than a quarter of the ring was new, doubled where less than
    /// a sixteenth was.
    pub fn saw(&mut self, slots: u64, lost: bool) {
        if lost {
            self.pause = SHORTEST;
        } else if slots > self.capacity / 4 {
            self.pause = self.pause.checked_div(2).unwrap_or_default().max(SHORTEST);
        } else if slots < self.capacity / 16 {
            self.pause = self.pause.saturating_mul(2).min(LONGEST);
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
