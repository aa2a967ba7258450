//! How stored stamps become ticks, and ticks become time.

/// Which way the time source counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Up: the usual.
    Up,
    /// Down, as a reloading timer does.
    Down,
}

impl Direction {
    /// Its name in JSON and in `--direction`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
        }
    }
}

/// How a fact about the clock is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// An option said so.
    Given,
    /// The stamps, or the program, show it.
    Detected,
    /// Nothing shows it; the usual was taken.
    Assumed,
}

/// What the ticks of a clock are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counts {
    /// Time.
    Time,
    /// The time in which the processor is awake: the counter stops while it sleeps.
    AwakeTime,
    /// Events: each stamp is so much more than the one before, and mostly 1.
    Events(u64),
    /// Nothing: every stamp is the same.
    Nothing,
}

/// The clock of a trace.
#[derive(Debug, Clone)]
pub struct Clock {
    /// Which bits of a stamp are valid.
    pub mask: u64,
    /// Which way it counts.
    pub direction: Direction,
    /// How the direction is known.
    pub direction_known: Known,
    /// Ticks until it starts over, where that is not the mask plus one.
    pub period: Option<u64>,
    /// Ticks in a second, where that is given or certain.
    pub hz: Option<f64>,
    /// What its ticks are.
    pub counts: Counts,
    /// Steps from one stamp to the next that are not believed: what is counted for them is not known to be right.
    pub doubts: u64,
    /// One sentence on how direction and period were found.
    pub reason: String,
}

impl Clock {
    /// False where every stamp is the same: there is no time in this trace.
    #[inline]
    pub const fn runs(&self) -> bool {
        !matches!(self.counts, Counts::Nothing)
    }

    /// Ticks from one stamp to the next, assuming less than one period between them.
    #[inline]
    pub fn step(&self, previous: u64, stamp: u64) -> u64 {
        let (from, to) = match self.direction {
            Direction::Up => (previous, stamp),
            Direction::Down => (stamp, previous),
        };
        if to >= from {
            return to.wrapping_sub(from);
        }
        match self.period {
            // A stamp at or past its own period (a wrong --period) still gives some forward step.
            Some(period) => to.wrapping_add(period.saturating_sub(from)),
            None => to.wrapping_sub(from) & self.mask,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(mask: u64, direction: Direction, period: Option<u64>) -> Clock {
        let (direction_known, counts) = (Known::Given, Counts::Time);
        Clock { mask, direction, direction_known, period, hz: None, counts, doubts: 0, reason: String::new() }
    }

    #[test]
    fn steps_wrap_at_the_mask_in_both_directions() {
        assert_eq!(clock(0xFFFF, Direction::Up, None).step(0xFFF0, 0x10), 0x20);
        assert_eq!(clock(0xFFFF, Direction::Down, None).step(0x10, 0xFFF0), 0x20);
        assert_eq!(clock(0xFFFF, Direction::Down, None).step(0x834, 0x793), 161);
        assert_eq!(clock(u64::MAX, Direction::Up, None).step(u64::MAX, 0), 1);
    }

    #[test]
    fn steps_wrap_at_a_period_that_is_not_the_masks() {
        let nanoseconds = clock(0xFFFF_FFFF, Direction::Up, Some(1_000_000_000));
        assert_eq!(nanoseconds.step(991_830_113, 1_687_228), 9_857_115);
    }
}
