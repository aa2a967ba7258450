//! Of a RISC-V: how it came to an address where the program has no code. The trap that is recorded has stored the registers of
//! its thread where the thread's control block says, if its handler begins as those of the kernel do
//! (`_tx_thread_context_save`).
//!
//! A call through a pointer leaves ra behind its JALR. A return leaves its own target in ra. Where ra is behind a direct call,
//! the function that was called jumped on, or the one that called it jumped, through a register.

use super::super::super::{Case, Code, Cpus, Evidence};
use super::super::jump::{NEXT_OF_CALL, NEXT_OF_JUMP, NEXT_OF_RETURN, NULL, Way, named, what};
use super::super::message::{self, Message};
use super::super::{static_pointers, through, words};
use super::{Kind, Look};
use crate::abi::Addr;
use crate::cpu::{Architecture, Effect, Registers};
use crate::kernel::Thread;
use crate::session::CpuState;

/// What to look at behind a damaged return address of a function that is not known.
const NEXT_OF_RUINED: &str = "look for what writes past a local variable of this thread, or into one of a function that has \
                              returned, and at the bytes around its stack pointer";
/// The same where it may have been a call.
const NEXT_OF_EITHER: &str = "find out who sets the pointers to functions that are called there, and look for what writes past a \
                              local variable";

/// Traps at the fetch of an instruction: an access fault, an illegal instruction, a page fault.
const FETCHES: [u64; 3] = [1, ILLEGAL, 12];
const ILLEGAL: u64 = 2;
/// Traps at an access of data: one that is not aligned, an access fault, a page fault.
const ACCESSES: [u64; 6] = [4, 5, 6, 7, 13, 15];
/// Words of the frame: ra and mepc.
const RA: usize = 28;
const MEPC: usize = 30;

/// True for a trap at the fetch of an instruction. Where no register says which trap it was, any may be it.
fn is_fetch(cpu: &CpuState) -> bool {
    let is_stored = || cpu.failed.as_ref().is_some_and(|failed| failed.stored.is_some() && failed.is_outside_code);
    cpu.registers.get("mcause").map_or_else(is_stored, |cause| FETCHES.contains(&cause))
}

/// Where the last trap came.
pub(super) fn trap_pc(cpu: &CpuState) -> Option<Addr> {
    let stored = || cpu.failed.as_ref().filter(|failed| failed.stored.is_some()).map(|failed| failed.function.pc);
    cpu.registers.get("mepc").or_else(stored)
}

/// True where the trap came from near address 0, where no code is.
pub(super) fn is_fetch_near_null(cpu: &CpuState) -> bool {
    is_fetch(cpu) && trap_pc(cpu).is_some_and(|mepc| mepc < NULL)
}

/// True where it came from what is no code of the program.
pub(super) fn is_fetch_outside(cpu: &CpuState) -> bool {
    is_fetch(cpu) && cpu.failed.as_ref().is_some_and(|failed| failed.is_outside_code)
}

/// What speaks against a fault that no register records.
pub(super) const STORED: &str =
    "which exception it is, is inferred: the place is that which its handler stored (--reg mcause=N --reg mepc=N)";

/// What speaks against a fault where there may be memory.
pub(super) const MAY_BE_INTERRUPT: &str =
    "an interrupt may have come there, in code or at memory that is not in the ELF";

/// True where the source has all memory, and none where the code was, or at what it accessed: no instruction goes on there.
pub(super) fn is_where_nothing_is(cpu: &CpuState, cpus: &Cpus) -> bool {
    let Some(failed) = cpu.failed.as_ref() else { return false };
    let accessed = failed.effect.filter(|_| !failed.is_outside_code).and_then(Effect::address);
    cpus.has(accessed.unwrap_or(failed.function.pc)) == Some(false)
}

/// True where a handler that is a loop without an exit has stored a place at which no interrupt can have come: where the program has
/// no code, or, as is inferred, at an access near address 0.
pub(super) fn is_stored_fault(cpu: &CpuState) -> bool {
    let stored = cpu.failed.as_ref().filter(|failed| failed.stored.is_some() && cpu.exception.is_some());
    let is_null = |effect: Effect| effect.address().is_some_and(|at| at < NULL);
    stored.is_some_and(|failed| cpu.in_loop.is_some() && (failed.is_outside_code || failed.effect.is_some_and(is_null)))
}

/// The address of the access at which the last trap came.
pub(super) fn accessed(cpu: &CpuState) -> Option<Addr> {
    let is_access = cpu.registers.get("mcause").map_or_else(|| is_stored_fault(cpu), |cause| ACCESSES.contains(&cause));
    cpu.failed.as_ref().filter(|_| is_access)?.effect?.address()
}

/// What kind of fault that is.
pub(super) fn stored_kind(look: &Look<'_, '_>) -> Option<Kind> {
    let failed = look.cpu.failed.as_ref()?;
    let (code, words) = match failed.effect {
        _ if failed.is_outside_code => (Code::Fault, "the program has no code there".to_owned()),
        effect => (Code::BusFault, look.access(effect?)),
    };
    Some(Kind { code, words, is_read: false })
}

/// What the trap stored of a thread.
struct Frame {
    at: Addr,
    words: Vec<u64>,
}

/// That; `None` where what is there is of another trap.
fn frame(cpu: &CpuState, thread: &Thread, case: &Case<'_>) -> Option<Frame> {
    let width = case.width();
    let member = case.kernel?.layout.thread.offset("tx_thread_stack_ptr")?;
    let saved = case.look.bytes(thread.address.checked_add(member)?, width)?;
    let at = *case.words(&saved, true).first().filter(|frame| thread.holds(**frame))?;
    let words = case.words(&case.look.bytes(at, width.checked_mul(32)?)?, true);
    (words.get(MEPC) == trap_pc(cpu).as_ref()).then_some(Frame { at, words })
}

/// The register of this number in a frame.
fn value(words: &[u64], number: u16) -> Option<u64> {
    let index = match usize::from(number) {
        1 => RA,
        5..=7 => 24_usize.checked_sub(number.into())?,
        8..=9 => 20_usize.checked_sub(number.into())?,
        10..=17 => 37_usize.checked_sub(number.into())?,
        18..=27 => 28_usize.checked_sub(number.into())?,
        28..=31 => 44_usize.checked_sub(number.into())?,
        _ => return None,
    };
    words.get(index).copied()
}

impl Frame {
    /// The registers of the thread there.
    fn registers(&self, cpu: &Registers) -> Registers {
        let mut registers = Registers::new(cpu.architecture());
        let stored = (1..32_u16).filter_map(|number| Some((format!("x{number}"), value(&self.words, number)?)));
        // The kernel's own code leaves gp as it is.
        let kept = [("gp", cpu.get("gp")), ("pc", self.words.get(MEPC).copied())];
        let kept = kept.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        stored.chain(kept).for_each(|(name, value)| {
            registers.set(&name, value);
        });
        registers
    }
}

/// The instruction that needed a pointer which failed, with the registers in front of it: an access of data, or the call or
/// jump that led to where the program has no code.
pub(super) fn access(
    cpu: &CpuState,
    thread: Option<&Thread>,
    way: Option<&Way>,
    case: &Case<'_>,
) -> Option<(Addr, Registers)> {
    let is_stored = || is_stored_fault(cpu);
    let is_of_data = cpu.registers.get("mcause").map_or_else(is_stored, |cause| ACCESSES.contains(&cause));
    let at = match way {
        Some(way) => way.site?,
        None => trap_pc(cpu).filter(|_| is_of_data)?,
    };
    Some((at, frame(cpu, thread?, case)?.registers(&cpu.registers)))
}

/// How it came there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Came {
    /// By a call through a register.
    Call { at: Addr },
    /// By a jump through a register, at the end of the function that was called there.
    Tail { at: Addr, call: Addr },
    /// By a jump through a register, of the function that made the last call.
    Jump { at: Addr },
    /// By a return: ra leads there too, or to no code.
    Return { ra: Addr },
    /// After a direct call of a function, by a jump or a return.
    After { call: Addr, to: Addr },
    /// What the trap stored was not found.
    Unknown,
}

impl Came {
    fn of(words: &[u64], of: Architecture, case: &Case<'_>) -> Self {
        let (Some(ra), Some(pc)) = (words.get(RA).copied(), words.get(MEPC).copied()) else { return Self::Unknown };
        let values = |number| value(words, number);
        match through::riscv_call(ra, of, case) {
            Some(through::Call::Register { at }) => Self::Call { at },
            Some(through::Call::Function { at, to }) if to == pc => Self::Call { at },
            Some(through::Call::Function { at: call, to }) => {
                let tail = through::tail(to, pc, &values, of, case).map(|site| Self::Tail { at: site.at, call });
                let jump = || through::within(call, pc, &values, of, case).map(|site| Self::Jump { at: site.at });
                tail.or_else(jump).unwrap_or(Self::After { call, to })
            }
            None if ra < NULL || ra & !1 == pc & !1 => Self::Return { ra },
            None => Self::Unknown,
        }
    }
}

/// How a thread came to an address near 0, or to another that is no code of the program.
pub(super) fn way(cpu: &CpuState, thread: Option<&Thread>, case: &Case<'_>) -> Option<Way> {
    let registers = &cpu.registers;
    let is_there = is_fetch_near_null(cpu) || is_fetch_outside(cpu);
    let pc = registers.pc().and(trap_pc(cpu)).filter(|_| is_there)?;
    let frame = thread.and_then(|thread| frame(cpu, thread, case));
    let came = frame.as_ref().map_or(Came::Unknown, |frame| Came::of(&frame.words, registers.architecture(), case));
    let place = |at: Addr| words::place_at(at, case);
    let (how, is_call, by, next) = match came {
        Came::Call { at } => {
            (format!(": a call through a pointer, by {}", place(at)), true, Some(place(at)), NEXT_OF_CALL)
        }
        Came::Tail { at, call } => {
            let by = format!("{}, which {} called", words::function_at(at, case), place(call));
            (format!(": a call through a pointer, by {by}"), true, Some(by), NEXT_OF_CALL)
        }
        Came::Jump { at } => (format!(": a jump through a pointer, in {}", place(at)), false, None, NEXT_OF_JUMP),
        Came::Return { ra } => {
            (format!(": a damaged return address, because ra is {ra:#x}"), false, None, NEXT_OF_RUINED)
        }
        Came::After { call, to } => (
            format!(
                ": a damaged return address, or a jump through a pointer; the last call was that of {} by {}",
                words::function_at(to, case),
                place(call)
            ),
            false,
            None,
            NEXT_OF_RETURN,
        ),
        Came::Unknown => {
            // Only of code that the processor has fetched.
            let may_be_code =
                registers.get("mcause").is_none_or(|cause| cause == ILLEGAL) && what(pc, false, case).is_none();
            let other = if may_be_code { ", or code that is not in the ELF (a boot loader, ROM)" } else { "" };
            (format!(": a call through a pointer or a damaged return address{other}"), false, None, NEXT_OF_EITHER)
        }
    };
    let site = match came {
        Came::Call { at } | Came::Tail { at, .. } | Came::Jump { at } => Some(at),
        _ => None,
    };
    let shown = match came {
        Came::Call { at } => Some((at, "ra leads behind this call through a register")),
        Came::Tail { at, .. } | Came::Jump { at } => Some((at, "this jump goes through a register that leads there")),
        Came::After { call, .. } => Some((call, "ra leads behind this call")),
        Came::Return { .. } | Came::Unknown => None,
    };
    let shown = shown.map(|(at, text)| Evidence::symbol(at, &place(at), text.to_owned()));
    let evidence = shown.or_else(|| returned(frame.as_ref()?, came, case));
    let is_damaged = matches!(came, Came::Return { .. } | Came::After { .. });
    let message = thread.filter(|_| is_damaged).and_then(|thread| message::over_return_of(thread, case));
    let (over, next) = match &message {
        Some(Message { words, queue, .. }) => (
            format!("; {words}"),
            format!("make the variable as long as a message of {queue}, or the messages shorter"),
        ),
        None => (String::new(), next.to_owned()),
    };
    let written = thread.filter(|_| is_damaged).map(|thread| static_pointers::into_stack(thread, None, case));
    let written = written.unwrap_or_default();
    let words = format!("{}{how}{over}", named(pc, registers, case));
    let words = static_pointers::said(&words, &written, "points into its stack", "point into its stack");
    let evidence = evidence.into_iter().chain(message.map(|message| message.evidence));
    let evidence = evidence.chain(written.into_iter().map(|pointer| pointer.evidence)).collect();
    Some(Way { words, evidence, is_call, by, site, next })
}

/// The return address that the trap stored, where the function returned by it.
fn returned(frame: &Frame, came: Came, case: &Case<'_>) -> Option<Evidence> {
    let Came::Return { ra } = came else { return None };
    let offset = case.width().checked_mul(u64::try_from(RA).ok()?)?;
    Some(Evidence::stack(frame.at.checked_add(offset)?, format!("ra, as the trap stored it: {ra:#x}")).holds(ra))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The frame of a trap at 0 whose words are their own places but for ra.
    fn stored(ra: u64) -> Vec<u64> {
        let mut words: Vec<u64> = (0x1000..0x1020).collect();
        (words[RA], words[MEPC]) = (ra, 0);
        words
    }

    #[test]
    fn registers_in_the_frame_of_a_trap() {
        let words = stored(7);
        let at = |number| value(&words, number).map(|word| word.wrapping_sub(0x1000));
        assert_eq!(value(&words, 1), Some(7), "ra");
        assert_eq!([at(5), at(7), at(8), at(9)], [Some(19), Some(17), Some(12), Some(11)], "t0, t2, s0, s1");
        assert_eq!([at(10), at(17), at(18), at(27)], [Some(27), Some(20), Some(10), Some(1)], "a0, a7, s2, s11");
        assert_eq!([at(28), at(31)], [Some(16), Some(13)], "t3, t6");
        assert_eq!([at(0), at(2), at(3), at(4)], [None; 4], "zero, sp, gp, tp");
        assert_eq!(value(&words[..20], 10), None);
    }
}
