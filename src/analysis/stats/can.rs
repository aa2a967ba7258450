//! What a system's events can show: what none of them can show is not zero, but unknown.

use super::Counts;
use crate::analysis::tracker::System;
use crate::catalogue::Effect;
use crate::report::Cell;

/// What can be shown.
#[derive(Debug, Clone, Copy)]
pub struct Can {
    /// That a processor has no work.
    idle: bool,
    /// That a time slice is over.
    pub slices: bool,
    /// That an interrupt begins.
    pub interrupts: bool,
}

impl Can {
    /// Asks the catalogue.
    pub fn of(system: &System<'_>) -> Self {
        let all = system.catalogue;
        Self {
            idle: !all.ways().idle_is_thread,
            slices: all.has_effect(Effect::Slice),
            interrupts: all.has_effect(Effect::IsrEnter),
        }
    }

    const fn count(can: bool, n: u64) -> Cell {
        if can || n > 0 { Cell::Count(n) } else { Cell::Empty }
    }

    /// A count of what has to do with a processor without work.
    pub const fn idle(self, n: u64) -> Cell {
        Self::count(self.idle, n)
    }

    /// A count of what has to do with time slices.
    pub const fn slice(self, n: u64) -> Cell {
        Self::count(self.slices, n)
    }

    /// A count of what has to do with interrupts.
    pub const fn interrupt(self, n: u64) -> Cell {
        Self::count(self.interrupts, n)
    }

    /// What is not shown, in words.
    pub fn say(self, all: &Counts, notes: &mut Vec<String>) {
        if !self.idle {
            notes.push("idle: not recorded; a processor without work runs a thread of the system".to_owned());
        }
        if !self.slices {
            let mut said = "time slices, yields: not recorded".to_owned();
            if all.yields > 0 {
                said.push_str(&format!("; {} switches were one or the other", all.yields));
            }
            notes.push(said);
        }
        if !self.interrupts {
            notes.push("interrupts: not recorded; no event of this system says that one begins".to_owned());
        }
    }
}
