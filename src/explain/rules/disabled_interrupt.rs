//! An interrupt that is pending and disabled in the interrupt controller, whose handler may be the one that gives what a thread
//! waits for: its code has the object's address. Where only one interrupt is so, it is named also without that.
//!
//! Against it: a driver that reads its device in a loop leaves the interrupt disabled on purpose.

use super::super::{Case, Evidence};
use super::interrupts::{self, FIRST};
use super::isr_stuck::has_own_handler;
use super::writers;
use crate::abi::Addr;
use crate::session::CpuState;

/// NVIC_ISPR0: which interrupts are pending.
const PENDING: Addr = 0xE000_E200;

/// It.
pub(super) struct Disabled {
    /// In words.
    pub why: String,
    /// Its name.
    pub name: String,
    /// What shows it.
    pub evidence: Evidence,
    /// True where the code of its handler has the address of the object.
    pub is_user: bool,
}

/// Of an object for which a thread waits.
pub(super) fn of(object: Addr, case: &Case<'_>) -> Option<Disabled> {
    let all = all(case);
    let user = all.iter().copied().find(|number| writers::handler_has(*number, object, case));
    let only = match all.as_slice() {
        [one] => Some(*one),
        _ => None,
    };
    let number = user.or(only)?;
    let name = interrupts::name(case, number);
    let word = number.checked_sub(FIRST)?.checked_div(32)?.checked_mul(4)?;
    let evidence =
        Evidence::memory(PENDING.checked_add(word)?, format!("{name} is pending, and it is disabled (NVIC_ISER)"));
    let whose = if user.is_some() { ", whose handler uses it," } else { "" };
    let why = format!("{name}{whose} is pending and disabled in the interrupt controller");
    Some(Disabled { why, name, evidence, is_user: user.is_some() })
}

/// The numbers of the exceptions that are so, with a handler of their own.
pub(in super::super) fn all(case: &Case<'_>) -> Vec<u64> {
    case.cpus.into_iter().flat_map(|cpus| &cpus.all).flat_map(|cpu| pending(cpu, case)).collect()
}

fn pending(cpu: &CpuState, case: &Case<'_>) -> Vec<u64> {
    let irqs = cpu.interrupts.as_ref().map_or(0, |all| all.priorities.len());
    let last = FIRST.saturating_add(u64::try_from(irqs).unwrap_or(0));
    let is_so = |number: &u64| {
        let waits = interrupts::is_pending(cpu, *number) == Some(true);
        waits && interrupts::is_enabled(cpu, *number) == Some(false) && has_own_handler(*number, case)
    };
    (FIRST..last).filter(is_so).collect()
}
