//! The priorities of interrupts that the program's code sets, where the interrupt controller was not read: an interrupt that calls the
//! kernel, above what the kernel masks by BASEPRI.
//!
//! Against it: the priority may have been changed elsewhere, or the interrupt may be disabled. So it is a hint where nothing else shows
//! damage.

use super::super::graph::Graph;
use super::super::usage::User;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::by_code::user_name;
use super::irq_priority;
use super::words::place_at;
use crate::abi::Region;

/// The priorities of the interrupts of the chip, one byte each (Armv7-M Architecture Reference Manual, B3.4.9).
const PRIORITIES: Region = Region { start: 0xE000_E400, len: 0x1F0 };
const FIRST: u32 = 16;
/// The bits of a priority that each chip has.
const BITS: u64 = 0xE0;

/// The constant that the program sets the priority of an interrupt to.
pub(super) struct Set {
    pub words: String,
    pub evidence: Evidence,
    value: u64,
}

pub(super) fn find(case: &Case<'_>, _: &Graph) -> Vec<Finding> {
    hint(case).into_iter().collect()
}

/// An interrupt that calls the kernel by its code, and whose priority is above the kernel's by the code, where no register shows it.
fn hint(case: &Case<'_>) -> Option<Finding> {
    let level = irq_priority::level(case)?;
    let is_read = |number: u32| irq_priority::is_above_kernel(u64::from(number), case).is_some();
    let mut handlers = case.usage()?.calling_handlers().filter(|number| !is_read(*number));
    let (number, set) = handlers.find_map(|number| Some((number, above(number, case)?)))?;
    let name = user_name(User::Handler(number), case);
    let calls = irq_priority::calls(u64::from(number), case);
    let claim = format!(
        "{name} calls {calls}, and may interrupt the kernel's critical sections: {}, and they mask only priorities from {level:#x} on \
         (BASEPRI)",
        set.words
    );
    Some(
        Finding::new(Code::IrqPriority, case.cap(Confidence::Hint), claim)
            .against(["it is inferred from the program's code: no register shows the priority, nor whether the interrupt is enabled"])
            .evidence([set.evidence])
            .next(format!("give {name} a priority of {level:#x} or a higher number, or do not call the kernel in it")),
    )
}

/// What the code sets the priority of an interrupt to, where that is above what the kernel masks, and no register shows it.
pub(super) fn above(number: u32, case: &Case<'_>) -> Option<Set> {
    let level =
        irq_priority::level(case).filter(|_| irq_priority::is_above_kernel(u64::from(number), case).is_none())?;
    of(number, case).filter(|set| is_above(set.value, level) == Some(true))
}

/// Whether an interrupt is above what the kernel masks, by the NVIC, else by the code that sets its priority.
pub(super) fn urgent(number: u32, case: &Case<'_>) -> (Option<bool>, Option<Set>) {
    let set = of(number, case);
    let by_code = irq_priority::level(case).zip(set.as_ref()).and_then(|(level, set)| is_above(set.value, level));
    (irq_priority::is_above_kernel(u64::from(number), case).or(by_code), set)
}

/// Each chip has the upper bits of a priority: at least three (Armv7-M Architecture Reference Manual, B1.5.4). `None` where more of them
/// decide.
const fn is_above(priority: u64, level: u64) -> Option<bool> {
    if priority & BITS < level & BITS {
        Some(true)
    } else if priority >= level {
        Some(false)
    } else {
        None
    }
}

/// The only constant that the code stores to the priority of an interrupt.
fn of(number: u32, case: &Case<'_>) -> Option<Set> {
    let at = PRIORITIES.start.checked_add(number.checked_sub(FIRST)?.into())?;
    let (value, store) = case.usage()?.only_constant(at, 1, PRIORITIES)?;
    let value = u64::from(value & 0xFF);
    let (place, name) = (place_at(store, case), user_name(User::Handler(number), case));
    let words = format!("{place} sets the priority of {name} to {value:#x}");
    let evidence = Evidence::symbol(store, &place, format!("by the code, {words}"));
    Some(Set { words, value, evidence })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_are_compared_by_the_bits_that_each_chip_has() {
        assert_eq!([is_above(0x20, 0x40), is_above(0x30, 0x40)], [Some(true), Some(true)]);
        assert_eq!([is_above(0x40, 0x40), is_above(0x60, 0x40)], [Some(false), Some(false)]);
        assert_eq!(is_above(0x40, 0x50), None, "a chip with three bits has 0x40 for both");
    }
}
