//! In which handler the CPU is, where no register says it: an exception that came upon the handler of an interrupt left the
//! number of that interrupt on the main stack, with the place in its code.
//!
//! Against it: such words stay after both handlers have ended. So it counts where something else shows that a handler keeps the
//! CPU, and where all that was left is of one interrupt.

use super::super::{Case, Evidence};
use super::interrupts::{self, FIRST};
use super::place;
use crate::cpu::Level;

/// The interrupt.
pub(super) struct InHandler {
    pub number: u64,
    /// Its name.
    pub name: String,
    /// ` in parse (reader.c:12)`, or empty.
    pub at: String,
    pub evidence: Evidence,
}

/// What speaks against it.
pub(super) const AGAINST: &str = "what an exception left on the main stack may be older: that handler may have ended";

impl InHandler {
    /// The only one of which something was left; of several places the lowest one, which is the newest of a nest.
    pub(super) fn of(case: &Case<'_>) -> Option<Self> {
        let [cpu] = case.cpus?.all.as_slice() else { return None };
        let left = cpu.interrupted.as_ref()?.all.iter().filter_map(|place| match place.registers.level() {
            Level::Exception(number) if u64::from(number) >= FIRST => Some((u64::from(number), place)),
            _ => None,
        });
        let (number, found) = left.clone().min_by_key(|(_, place)| place.frame)?;
        if left.clone().any(|(other, _)| other != number) {
            return None;
        }
        let pc = found.registers.pc()?;
        let name = interrupts::name(case, number);
        let at = place::of(&found.functions).map_or_else(String::new, |at| format!(" in {at}"));
        let text =
            format!("this looks like what an exception pushed that interrupted the handler of {name}: pc {pc:#x}{at}");
        Some(Self { number, at, evidence: Evidence::stack(found.frame, text).holds(pc), name })
    }
}
