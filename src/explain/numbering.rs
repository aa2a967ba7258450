//! What the numbers of interrupts in a trace count. A program gives its interrupts the numbers that it likes: on a Cortex-M those of the
//! exceptions, as IPSR has them, or those of the interrupts of the chip, which begin at 0 (Armv7-M Architecture Reference Manual, B1.5.2).
//! The one that the CPU is in shows it, else the vector table: all numbers of the trace must have handlers of their own.

use super::{Case, Events};
use crate::cpu::{Level, is_fault};
use crate::sym::Exceptions;

/// The number of the first exception that is an interrupt of the chip.
const FIRST_INTERRUPT: u64 = 16;

impl Case<'_> {
    /// What has to be added to the numbers of interrupts in the trace to have those of exceptions; `None` where that is not known.
    pub(super) fn added_to_interrupts(&self) -> Option<u64> {
        *self.added.get_or_init(|| self.added())
    }

    fn added(&self) -> Option<u64> {
        let Some(events) = self.events else { return Some(0) };
        // The handler that has not ended.
        if let Some(open) = events.interrupts.open.last().filter(|_| events.cores <= 1) {
            let shown = [FIRST_INTERRUPT, 0].into_iter().find(|added| self.is_in(open.number.saturating_add(*added)));
            if shown.is_some() {
                return shown;
            }
        }
        let numbers = || events.interrupts.by_number.keys().copied();
        let count_exceptions = numbers().all(|number| self.may_be_exception(number, events));
        let count_interrupts = numbers().all(|number| self.has_handler(number.saturating_add(FIRST_INTERRUPT)));
        match (count_exceptions, count_interrupts) {
            (true, false) => Some(0),
            (false, true) => Some(FIRST_INTERRUPT),
            // Without a vector table nothing shows it, nor where it fits both.
            _ => None,
        }
    }

    /// True where the CPU is in the handler of this exception.
    fn is_in(&self, number: u64) -> bool {
        let mut levels = self.cpus.into_iter().flat_map(|cpus| &cpus.all).map(|cpu| cpu.registers.level());
        levels.any(|level| matches!(level, Level::Exception(is_in) if u64::from(is_in) == number))
    }

    /// True for an exception of the architecture, but for a fault whose handler has ended, and for one with a handler of its own.
    fn may_be_exception(&self, number: u64, events: &Events) -> bool {
        let of_architecture = u32::try_from(number).ok().filter(|_| number < FIRST_INTERRUPT);
        match of_architecture {
            Some(number) => {
                let one = events.interrupts.by_number.get(&number.into());
                let has_ended = one.is_some_and(|one| one.times > 0);
                Exceptions::own(number).is_some() && !(is_fault(number) && has_ended)
            }
            None => self.has_handler(number),
        }
    }

    /// True where the vector table has a handler for this exception alone.
    fn has_handler(&self, number: u64) -> bool {
        let Ok(number) = u32::try_from(number) else { return false };
        let has_vector = || self.look.handlers().iter().any(|(other, _)| *other == number);
        !self.trust.other_build && has_vector() && self.look.others_with_handler(number).is_empty()
    }

    /// What the interrupt of this number in the trace is called.
    pub(super) fn interrupt(&self, number: Option<u64>) -> String {
        let Some(number) = number else { return "an interrupt".to_owned() };
        match self.added_to_interrupts() {
            Some(added) => self.exception(number.saturating_add(added)),
            None => format!("interrupt {number}"),
        }
    }
}
