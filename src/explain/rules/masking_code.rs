//! Whether the code that the CPU has come through disables interrupts: of each function that it is in, the last instruction in
//! front of the place that disables or enables them, also by a call.

use super::super::cpus::thread_of;
use super::super::usage::{Controls, User};
use super::super::{Case, Evidence};
use super::words::place_of_function;
use super::{interrupts, jump, place};
use crate::abi::{Addr, Endian};
use crate::cpu::Architecture;
use crate::session::{CpuState, is_of_kernel};

/// The functions that are looked at, the innermost first.
const FUNCTIONS: usize = 6;
/// Bytes of a call.
const CALL: u64 = 4;
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
    let own = cpu.functions.first().map(|function| function.pc & !1);
    let by_paths = |pc| {
        let thread = thread_of(cpu, case.kernel).filter(|_| own != Some(pc))?;
        case.usage()?.disabled_at(User::Thread(thread.address), pc, &controls(case)?)
    };
    for function in cpu.functions.iter().filter(|function| !function.is_inferred()).take(FUNCTIONS) {
        // The kernel restores what it disables: what its caller did counts.
        if function.name.as_deref().is_some_and(is_of_kernel) {
            continue;
        }
        let pc = function.pc & !1;
        if let Some(at) = by_paths(pc) {
            return Some(Disabled { at, words: place::of(std::slice::from_ref(function))? });
        }
        let start = case.look.function(pc)?.address & !1;
        let len = pc.checked_sub(start).filter(|len| *len <= MOST)?;
        let code = case.look.bytes(start, len)?;
        // The call in which the CPU still is ends at its return address.
        let is_over = |into: u64| own == Some(pc) || into.checked_add(CALL) != Some(len);
        let call = |to, argument| leaves(to, argument, case);
        match changes(start, &code, &call).filter(|(into, _)| is_over(*into)).last() {
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

/// Functions of the kernel that set the interrupt posture to their argument, and those that disable and restore it.
const SET: [&str; 2] = ["_tx_trace_interrupt_control", "_tx_thread_interrupt_control"];
const DISABLE: &str = "_tx_thread_interrupt_disable";
const RESTORE: &str = "_tx_thread_interrupt_restore";
/// The argument that disables interrupts on a Cortex-M: `TX_INT_DISABLE` in `tx_port.h`.
const OFF: u16 = 1;

/// Those of this program.
fn controls(case: &Case<'_>) -> Option<Controls> {
    let at = |name| case.look.symbol(name).map(|symbol| symbol.address & !1);
    // TX_INT_DISABLE in tx_port.h of the two.
    let off = if case.kernel?.processor == Some(Architecture::CortexM) { OFF.into() } else { 0 };
    Some(Controls { set: SET.into_iter().filter_map(at).collect(), off, disable: at(DISABLE), restore: at(RESTORE) })
}

/// A function that leaves interrupts disabled on one of its paths.
pub(super) struct Left {
    /// Where it begins.
    pub start: Addr,
    /// `fifo_write (fifo.c:12) may return without restoring the interrupts that it disables`.
    pub words: String,
    pub evidence: Evidence,
    /// What to look at.
    pub next: String,
}

/// One that a thread calls, by its code.
pub(super) fn left_by(thread: Addr, case: &Case<'_>) -> Option<Left> {
    let leak = case.usage()?.leaves_disabled(User::Thread(thread), &controls(case)?)?;
    let place = common_place(leak.at, leak.restored, case);
    let (does, on) = if leak.returns { ("return", "to its end") } else { ("go on", "on, and back here,") };
    let text = format!("it disables interrupts here, and a path leads from here {on} without restoring them");
    Some(Left {
        start: leak.function,
        words: format!("{place} may {does} without restoring the interrupts that it disables"),
        evidence: Evidence::symbol(leak.at, &place, text),
        next: format!("look at the paths behind {place} that do not restore them, such as an early return"),
    })
}

/// The place of an instruction in the innermost function that has another one, too: the compiler puts functions into others that do
/// nothing but disable interrupts.
fn common_place(at: Addr, other: Addr, case: &Case<'_>) -> String {
    let others = case.look.inlined(other);
    let common = case.look.inlined(at).into_iter().find(|(name, _)| others.iter().any(|(other, _)| name == other));
    match common {
        Some((name, Some(line))) if !case.trust.other_build => format!("{name} ({line})"),
        _ => place_of_function(at, case),
    }
}

/// The most bytes of a function that does little else than disable interrupts.
const SMALL: u64 = 64;

/// Whether a function that is called leaves interrupts disabled; `None` where it leaves them as they were. `argument`: where that
/// is a constant.
fn leaves(to: Addr, argument: Option<u16>, case: &Case<'_>) -> Option<bool> {
    let function = case.look.function(to)?;
    match function.name.as_str() {
        name if SET.contains(&name) => return Some(argument == Some(OFF)),
        DISABLE => return Some(true),
        RESTORE => return Some(false),
        name if is_of_kernel(name) => return None,
        _ => {}
    }
    let len = Some(function.size).filter(|size| *size <= SMALL)?;
    let code = case.look.bytes(function.address & !1, len)?;
    let calls = |n: usize| {
        let half = |at: usize| Endian::Little.u16(&code, at);
        half(n).is_some_and(|first| first & 0xF800 == 0xF000)
            && n.checked_add(2).and_then(half).is_some_and(|second| second & 0x9000 == 0x9000)
    };
    // What it calls, or jumps on to, may enable them again.
    if (0..code.len()).step_by(2).any(calls) {
        return None;
    }
    let all: Vec<bool> = changes(function.address & !1, &code, &|_, _| None).map(|(_, disables)| disables).collect();
    match all.split_last()? {
        (true, _) => Some(true),
        (false, before) if before.contains(&true) => None,
        (false, _) => Some(false),
    }
}

type Leaves<'a> = &'a dyn Fn(Addr, Option<u16>) -> Option<bool>;

/// The instructions that change PRIMASK, FAULTMASK or BASEPRI, and whether each disables. One that writes a register may restore what
/// was before (Armv7-M Architecture Reference Manual, B5.2.1 and B5.2.3). `leaves`: whether a call of a function with this
/// argument leaves them disabled.
fn changes<'a>(start: Addr, code: &'a [u8], leaves: Leaves<'a>) -> impl Iterator<Item = (u64, bool)> + 'a {
    let (mut at, mut argument, mut block) = (0_usize, None, 0_u32);
    let next = move || {
        let first = Endian::Little.u16(code, at)?;
        let is_wide = first >> 11 >= 0b11101;
        let second = if is_wide { Endian::Little.u16(code, at.checked_add(2)?).unwrap_or(0) } else { 0 };
        let place = u64::try_from(at).ok()?;
        at = at.checked_add(if is_wide { 4 } else { 2 })?;
        let behind = start.checked_add(u64::try_from(at).ok()?)?;
        let change = match first {
            // CPSID and CPSIE with i, f or both.
            0xB671..=0xB673 => Some(true),
            0xB661..=0xB663 => Some(false),
            // MSR of the special registers 16 to 19.
            0xF380..=0xF38F if matches!(second & 0xFF, 16..=19) => Some(false),
            // BL: behind a jump nothing of this function follows.
            _ if second & 0xD000 == 0xD000 => jump::target(first, second, behind).and_then(|to| leaves(to, argument)),
            _ => None,
        };
        // MOVS of a constant to r0, in front of a call, and not in an IT block.
        argument = (first & 0xFF00 == 0x2000 && block == 0).then_some(first & 0xFF);
        block = block.saturating_sub(1);
        if first & 0xFF00 == 0xBF00 && first & 0xF != 0 {
            block = 4_u32.saturating_sub((first & 0xF).trailing_zeros());
        }
        Some(change.map(|disables| (place, disables)))
    };
    std::iter::from_fn(next).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_instruction_that_disables_or_enables_counts() {
        // A call of the next function.
        let calls = |to: Addr, argument: Option<u16>| (to == 0x106).then_some(argument == Some(1));
        let of = |code: &[u16]| {
            let bytes: Vec<u8> = code.iter().flat_map(|half| half.to_le_bytes()).collect();
            changes(0x100, &bytes, &calls).last()
        };
        assert_eq!(of(&[0xB580, 0xB672, 0x4603]), Some((2, true)), "push, cpsid i, mov");
        assert_eq!(of(&[0xB672, 0x4603, 0xB662]), Some((4, false)), "cpsid i, mov, cpsie i");
        assert_eq!(of(&[0xB672, 0xF383, 0x8810]), Some((2, false)), "cpsid i, msr primask, r3");
        assert_eq!(of(&[0xF000, 0xB672, 0x4603]), None, "the second half of another instruction");
        assert_eq!(of(&[0xF383, 0x8808]), None, "msr msp, r3");
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[0x2001, 0xF000, 0xF800]), Some((2, true)), "movs r0, #1; bl of the kernel's function");
        assert_eq!(of(&[0xBF08, 0x2001, 0xF000, 0xF800]), None, "another function");
        assert_eq!(of(&[0x4620, 0xF000, 0xF800]), Some((2, false)), "mov r0, r4: it restores what was before");
    }
}
