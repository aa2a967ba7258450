//! SysTick is switched off, while threads and timers wait for time to pass and others go on. Its control register is not read from a
//! target, as reading it clears a flag (COUNTFLAG; Armv7-M Architecture Reference Manual, B3.3.3): it is known where a dump has
//! it (`dump --range 0xe000e010..0xe000e020`).
//!
//! Against it: a program may stop its tick while it is idle, and a dump may fall into that moment. So it is a hint.

use super::super::graph::Graph;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::timers_still::{READIED, TICKLESS, armed, waits};
use crate::abi::Endian;
use crate::cpu::Architecture;

/// SysTick's control register, and its bit that lets it count.
const CONTROL: u64 = 0xE000_E010;
const ENABLE: u32 = 1;

pub(super) fn find(case: &Case<'_>, _: &Graph) -> Vec<Finding> {
    finding(case).into_iter().collect()
}

fn finding(case: &Case<'_>) -> Option<Finding> {
    let (kernel, events) = (case.kernel?, case.events?);
    let has_calls = TICKLESS.iter().any(|name| case.look.symbol(name).is_some());
    if kernel.processor != Some(Architecture::CortexM)
        || !case.look.is_stored()
        || has_calls
        || events.without_timers.readied < READIED
    {
        return None;
    }
    let control = Endian::Little.u32(&case.look.bytes(CONTROL, 4)?, 0).filter(|control| is_off(*control))?;
    let armed = armed(kernel);
    armed.first()?;
    let claim = format!("SysTick is switched off (SYST_CSR.ENABLE is 0): {} for a time to pass", waits(&armed));
    let readied = format!(
        "other threads were made ready {} times since the kernel's timers were last looked at",
        events.without_timers.readied
    );
    let last = match events.without_timers.from {
        Some((seq, _)) => Evidence::event(seq, readied),
        None => Evidence::memory(CONTROL, readied),
    };
    Some(
        Finding::new(Code::NoTick, case.cap(Confidence::Hint), claim)
            .against(["a program may stop its tick while it is idle"])
            .against(["another timer may give the tick"])
            .evidence([Evidence::memory(CONTROL, "SysTick's control register".to_owned()).holds(control.into()), last])
            .next("find out who clears SYST_CSR.ENABLE, and on which path it is not set again"),
    )
}

/// True for a timer that was set up and does not count: after a reset all bits are 0.
const fn is_off(control: u32) -> bool {
    control & ENABLE == 0 && control & 6 != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_systick_that_was_never_set_up_is_not_switched_off() {
        assert!(is_off(6) && is_off(4));
        assert!(!is_off(7) && !is_off(0) && !is_off(1 << 16));
    }
}
