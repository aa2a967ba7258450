//! SysTick is switched off, or its reload value is 0, while threads and timers wait for time to pass and others go on. Its control
//! register is not read from a target, as reading it clears a flag (COUNTFLAG; Armv7-M Architecture Reference Manual, B3.3.3): it is
//! known where a dump has it (`dump --range 0xe000e010..0xe000e020`). With a reload value of 0 it does not count (B3.3.4).
//!
//! Against it: a program may stop its tick while it is idle, and a dump may fall into that moment. So it is a hint, but for a reload
//! value of 0 where the handler of SysTick calls the kernel's tick: nobody stops a timer in this way on purpose. A stub may answer
//! with zeros for registers that it does not read: so another register near it must not be 0, the priority of PendSV.

use super::super::graph::Graph;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::interrupts::{self, PENDSV};
use super::no_tick::{CONTROL, ENABLE, RELOAD};
use super::tick_rate::is_by_systick;
use super::timers_still::{READIED, armed, is_tickless, waits};
use crate::abi::Endian;
use crate::cpu::Architecture;

/// So often other threads have to be made ready where the register alone shows that no tick comes.
const FEW: u64 = 3;

pub(super) fn find(case: &Case<'_>, _: &Graph) -> Vec<Finding> {
    finding(case).into_iter().collect()
}

fn finding(case: &Case<'_>) -> Option<Finding> {
    let (kernel, events) = (case.kernel?, case.events?);
    let has_calls = is_tickless(case);
    if kernel.processor != Some(Architecture::CortexM) || !case.look.is_stored() || has_calls {
        return None;
    }
    let armed = armed(kernel);
    armed.first()?;
    let off = Off::of(case).filter(|off| events.without_timers.readied >= off.readied)?;
    let claim = format!("{}: {} for a time to pass", off.words, waits(&armed));
    let readied = format!(
        "other threads were made ready {} times since the kernel's timers were last looked at",
        events.without_timers.readied
    );
    let last = match events.without_timers.from {
        Some((seq, _)) => Evidence::event(seq, readied),
        None => Evidence { address: None, ..Evidence::memory(off.at, readied) },
    };
    Some(
        Finding::new(Code::NoTick, case.cap(off.confidence), claim)
            .against(["a program may stop its tick while it is idle"])
            .against((off.confidence == Confidence::Hint).then_some("another timer may give the tick"))
            .evidence([Evidence::memory(off.at, off.register.to_owned()).holds(off.value.into()), last])
            .next(off.next),
    )
}

/// Why it does not count.
struct Off {
    words: &'static str,
    /// The register that shows it.
    register: &'static str,
    at: u64,
    value: u32,
    next: &'static str,
    /// So often other threads have to be made ready without the kernel's timers.
    readied: u64,
    confidence: Confidence,
}

impl Off {
    fn of(case: &Case<'_>) -> Option<Self> {
        let word = |at: u64| Endian::Little.u32(&case.look.bytes(at, 4)?, 0);
        let mut cpus = case.cpus.into_iter().flat_map(|cpus| &cpus.all);
        let are_read = cpus.any(|cpu| interrupts::priority(cpu, PENDSV).is_some_and(|priority| priority != 0));
        Self::by(word(CONTROL), word(RELOAD), || are_read && is_by_systick(case))
    }

    /// By the values of the registers. `is_tick`: whether the handler of SysTick gives the kernel its tick, and registers near it are read.
    fn by(control: Option<u32>, reload: Option<u32>, is_tick: impl Fn() -> bool) -> Option<Self> {
        let control = control.filter(|control| is_off(*control)).map(|value| Self {
            words: "SysTick is switched off (SYST_CSR.ENABLE is 0)",
            register: "SysTick's control register",
            at: CONTROL,
            value,
            next: "find out who clears SYST_CSR.ENABLE, and on which path it is not set again",
            readied: READIED,
            confidence: Confidence::Hint,
        });
        let reload = || {
            reload.filter(|reload| *reload == 0 && is_tick()).map(|value| Self {
                words: "SysTick does not count: its reload value is 0 (SYST_RVR)",
                register: "SysTick's reload value",
                at: RELOAD,
                value,
                next: "find out who sets SysTick's reload value (SYST_RVR), and from which clock it is computed",
                readied: FEW,
                confidence: Confidence::Likely,
            })
        };
        control.or_else(reload)
    }
}

/// True for a timer that was set up and does not count: after a reset all bits are 0.
const fn is_off(control: u32) -> bool {
    control & ENABLE == 0 && control & 6 != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A clock of less than 1 MHz, divided by 1 MHz, became the reload value.
    #[test]
    fn a_reload_value_of_0_was_not_seen() {
        let at = |control, reload, is_tick: bool| Off::by(control, reload, || is_tick).map(|off| off.at);
        assert_eq!(at(None, Some(0), true), Some(RELOAD));
        assert_eq!(at(Some(7), Some(0), true), Some(RELOAD));
        assert_eq!(at(None, Some(0), false), None, "another timer gives the tick");
        assert_eq!(at(None, Some(24_999), true), None);
        assert_eq!(at(Some(6), Some(0), true), Some(CONTROL));
    }

    #[test]
    fn a_systick_that_was_never_set_up_is_not_switched_off() {
        assert!(is_off(6) && is_off(4));
        assert!(!is_off(7) && !is_off(0) && !is_off(1 << 16));
    }
}
