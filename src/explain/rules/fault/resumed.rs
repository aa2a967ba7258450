//! Of a Cortex-M: the kernel was to go on with a thread, and what the thread had saved on its stack is no state that an exception
//! pushed. Its stack was overwritten while it did not run, as by one who still had the address of a local variable of it.
//!
//! The words that the exception pushed are above the registers that the kernel saved: r4 to r11, on some ports lr, with an FPU s16 to s31.
//! The stack pointer of threads leads to them, or behind them, where the processor has taken them (Armv7-M Architecture Reference
//! Manual, B1.5.8).

use super::super::super::cpus::thread_of;
use super::super::super::{Case, Evidence};
use super::super::static_pointers;
use crate::abi::Addr;
use crate::kernel::Thread;
use crate::session::CpuState;
use crate::unwind::is_exc_return;

/// The bytes of r4 to r11, of lr, and of s16 to s31.
const SAVED: u64 = 32;
const LR: u64 = 4;
const FPU: u64 = 64;
/// The bits of a value of lr that says how to return from an exception, and the one that is 0 where an FPU was used.
const RETURN: u32 = 0xFFFF_FF80;
const WITHOUT_FPU: u32 = 1 << 4;
/// The bytes of the words that an exception pushed, with and without an alignment word, and with those of an FPU.
const PUSHED: [u64; 5] = [0, 32, 36, 104, 108];
/// Where pc and xpsr are among them.
const PC: u64 = 24;
const XPSR: u64 = 28;
/// In `cfsr`: an exception returned to what is no state (INVPC).
const INVPC: u64 = 1 << 18;
/// In `xpsr`: Thumb state, and the number of an exception, which is 0 in a thread.
const THUMB: u32 = 1 << 24;
const NUMBER: u32 = 0x1FF;

/// What a thread had saved, and was overwritten.
pub(super) struct Resumed {
    pub words: String,
    pub evidence: Vec<Evidence>,
    pub next: String,
}

impl Resumed {
    /// Of the thread that the CPU was to go on with.
    pub fn of(cpu: &CpuState, case: &Case<'_>) -> Option<Self> {
        let thread = thread_of(cpu, case.kernel)?;
        cpu.registers.get("cfsr").is_none_or(|cfsr| cfsr & INVPC != 0).then_some(())?;
        cpu.registers.lr().filter(|lr| is_exc_return(*lr) && lr & 4 != 0)?;
        let (saved, psp) = (thread.saved.filter(|at| thread.stack.holds(*at))?, cpu.registers.get("psp")?);
        let endian = case.kernel?.layout.shape.endian;
        let word = |at: Addr| endian.u32(&case.look.bytes(at, 4)?, 0);
        let is_return = |word: &u32| word & RETURN == RETURN;
        let first = word(saved).filter(is_return);
        let last = || word(saved.checked_add(SAVED)?).filter(is_return);
        let len = match first {
            Some(lr) if lr & WITHOUT_FPU == 0 => LR + FPU + SAVED,
            Some(_) => LR + SAVED,
            None if last().is_some() => SAVED + LR,
            None => SAVED,
        };
        let at = saved.checked_add(len)?;
        let leads = |len: &u64| at.checked_add(*len) == Some(psp);
        PUSHED.iter().find(|len| leads(len))?;
        let word = |into: u64| word(at.checked_add(into)?);
        let (pc, xpsr) = (word(PC)?, word(XPSR)?);
        // Code that the ELF does not have, as that of a module, is code too.
        let is_state = xpsr & THUMB != 0 && xpsr & NUMBER == 0 && pc & 1 == 0;
        (!is_state).then(|| Self::new(thread, at, (pc, xpsr), case))
    }

    fn new(thread: &Thread, at: Addr, (pc, xpsr): (u32, u32), case: &Case<'_>) -> Self {
        let name = thread.label();
        let written = static_pointers::into_stack(thread, Some(at), case);
        let others = static_pointers::in_other_stacks(thread, at, case);
        let names: Vec<String> = others.iter().map(|(other, _)| case.label(*other)).collect();
        let by = match names.as_slice() {
            [] => String::new(),
            all => format!(
                "; perhaps by {}, whose stack has an address there, as of a variable of a function that has returned",
                all.join(" or ")
            ),
        };
        let words = format!("{name} was to go on, and what it had saved on its stack at {at:#x} was overwritten{by}");
        let words = static_pointers::said(&words, &written, "points into its stack", "point into its stack");
        let text = format!("{name} was to go on from here: pc {pc:#x} and xpsr {xpsr:#x} are no state of a thread");
        let next = if others.is_empty() {
            format!(
                "look for who writes to the stack of {name} while it waits, as through the address of a local variable"
            )
        } else {
            format!(
                "look for a function of {name} that gives the address of a local variable to {}, and returns while that one may still write there",
                names.join(" or ")
            )
        };
        let evidence = std::iter::once(Evidence::stack(at, text));
        let evidence = evidence.chain(others.into_iter().map(|(_, evidence)| evidence));
        Self { words, evidence: evidence.chain(written.into_iter().map(|pointer| pointer.evidence)).collect(), next }
    }
}
