//! Whether the code that the CPU has come through disables interrupts: of each function that it is in, the last instruction in
//! front of the place that disables or enables them.

use super::super::Case;
use super::{interrupts, place};
use crate::abi::{Addr, Endian};
use crate::session::{CpuState, is_of_kernel};

/// The functions that are looked at, the innermost first.
const FUNCTIONS: usize = 6;
/// The most bytes of one in front of the place.
const MOST: u64 = 1024;

/// A place after an instruction that disables interrupts.
pub(super) struct Disabled {
    /// Of that instruction.
    pub at: Addr,
    /// The function, in words.
    pub words: String,
}

/// Where they are disabled; `None` where the code does not show it, or the registers show that they are not.
pub(super) fn of(case: &Case<'_>, cpu: &CpuState) -> Option<Disabled> {
    if interrupts::knows_masks(cpu) {
        return None;
    }
    for function in cpu.functions.iter().filter(|function| !function.is_inferred()).take(FUNCTIONS) {
        if function.name.as_deref().is_some_and(is_of_kernel) {
            return None;
        }
        let pc = function.pc & !1;
        let start = case.look.function(pc)?.address & !1;
        let len = pc.checked_sub(start).filter(|len| *len <= MOST)?;
        match last_change(&case.look.bytes(start, len)?) {
            Some((into, true)) => {
                let words = place::of(std::slice::from_ref(function))?;
                return Some(Disabled { at: start.checked_add(into)?, words });
            }
            Some((_, false)) => return None,
            None => {}
        }
    }
    None
}

/// The last instruction that changes PRIMASK, FAULTMASK or BASEPRI, and whether it disables. One that writes a register may
/// restore what was before (Armv7-M Architecture Reference Manual, B5.2.1 and B5.2.3).
fn last_change(code: &[u8]) -> Option<(u64, bool)> {
    let (mut at, mut last) = (0_usize, None);
    while let Some(first) = Endian::Little.u16(code, at) {
        let is_wide = first >> 11 >= 0b11101;
        let second = if is_wide { Endian::Little.u16(code, at.checked_add(2)?).unwrap_or(0) } else { 0 };
        let change = match first {
            // CPSID and CPSIE with i, f or both.
            0xB671..=0xB673 => Some(true),
            0xB661..=0xB663 => Some(false),
            // MSR of the special registers 16 to 19.
            0xF380..=0xF38F if matches!(second & 0xFF, 16..=19) => Some(false),
            _ => None,
        };
        if let Some(disables) = change {
            last = Some((u64::try_from(at).ok()?, disables));
        }
        at = at.checked_add(if is_wide { 4 } else { 2 })?;
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_instruction_that_disables_or_enables_counts() {
        let of = |code: &[u16]| last_change(&code.iter().flat_map(|half| half.to_le_bytes()).collect::<Vec<_>>());
        assert_eq!(of(&[0xB580, 0xB672, 0x4603]), Some((2, true)), "push, cpsid i, mov");
        assert_eq!(of(&[0xB672, 0x4603, 0xB662]), Some((4, false)), "cpsid i, mov, cpsie i");
        assert_eq!(of(&[0xB672, 0xF383, 0x8810]), Some((2, false)), "cpsid i, msr primask, r3");
        assert_eq!(of(&[0xF000, 0xB672, 0x4603]), None, "the second half of another instruction");
        assert_eq!(of(&[0xF383, 0x8808]), None, "msr msp, r3");
        assert_eq!(of(&[]), None);
    }
}
