//! Of a RISC-V: how it came to an address near 0. The trap that is recorded has stored the registers of its thread where the
//! thread's control block says, if its handler begins as those of the kernel do (`_tx_thread_context_save`).
//!
//! A call through a pointer leaves ra behind its JALR. A return leaves its own target in ra. Where ra is behind a direct call, the
//! function that was called jumped on, or the one that called it jumped, through a register.

use super::super::super::{Case, Evidence};
use super::super::jump::{NEXT_OF_CALL, NEXT_OF_JUMP, NEXT_OF_RETURN, NULL, Way, named};
use super::super::{through, words};
use crate::abi::Addr;
use crate::cpu::{Architecture, Registers};
use crate::kernel::Thread;

/// Traps at the fetch of an instruction: an access fault, an illegal instruction, a page fault.
const FETCHES: [u64; 3] = [1, 2, 12];
/// Words of the frame: ra and mepc.
const RA: usize = 28;
const MEPC: usize = 30;

/// True where the trap came from near address 0, where no code is.
pub(super) fn is_fetch_near_null(registers: &Registers) -> bool {
    let is_fetch = registers.get("mcause").is_some_and(|cause| FETCHES.contains(&cause));
    is_fetch && registers.get("mepc").is_some_and(|mepc| mepc < NULL)
}

/// The words that the trap stored of a thread; `None` where what is there is of another trap.
fn frame(registers: &Registers, thread: &Thread, case: &Case<'_>) -> Option<Vec<u64>> {
    let width = case.width();
    let member = case.kernel?.layout.thread.offset("tx_thread_stack_ptr")?;
    let saved = case.look.bytes(thread.address.checked_add(member)?, width)?;
    let frame = *case.words(&saved, true).first().filter(|frame| thread.holds(**frame))?;
    let bytes = case.look.bytes(frame, width.checked_mul(32)?)?;
    Some(case.words(&bytes, true)).filter(|words| words.get(MEPC) == registers.get("mepc").as_ref())
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

/// How a thread came to an address near 0.
pub(super) fn way(registers: &Registers, thread: Option<&Thread>, case: &Case<'_>) -> Option<Way> {
    let pc = registers.pc().and(registers.get("mepc")).filter(|_| is_fetch_near_null(registers))?;
    let words = thread.and_then(|thread| frame(registers, thread, case));
    let came = words.map_or(Came::Unknown, |words| Came::of(&words, registers.architecture(), case));
    let place = |at: Addr| words::place_at(at, case);
    let (how, is_call, by, next) = match came {
        Came::Call { at } => (": a call through a pointer".to_owned(), true, Some(place(at)), NEXT_OF_CALL),
        Came::Tail { at, call } => {
            let by = format!("{}, which {} called", words::function_at(at, case), place(call));
            (": a call through a pointer".to_owned(), true, Some(by), NEXT_OF_CALL)
        }
        Came::Jump { at } => (format!(": a jump through a pointer, in {}", place(at)), false, None, NEXT_OF_JUMP),
        Came::Return { ra } => {
            (format!(": a damaged return address, because ra is {ra:#x}"), false, None, NEXT_OF_RETURN)
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
            (": a call through a pointer or a damaged return address".to_owned(), false, None, NEXT_OF_CALL)
        }
    };
    let shown = match came {
        Came::Call { at } => Some((at, "ra leads behind this call through a register")),
        Came::Tail { at, .. } | Came::Jump { at } => Some((at, "this jump goes through a register that leads there")),
        Came::After { call, .. } => Some((call, "ra leads behind this call")),
        Came::Return { .. } | Came::Unknown => None,
    };
    let evidence = shown.map(|(at, text)| Evidence::symbol(at, &place(at), text.to_owned()));
    let words = format!("{}{how}", named(pc, registers, case));
    Some(Way { words, evidence: evidence.into_iter().collect(), is_call, by, next: next.to_owned() })
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

    #[test]
    fn a_fetch_near_address_0_may_be_a_null_call() {
        let of = |mcause, mepc| {
            let mut registers = Registers::new(Architecture::Riscv64);
            assert!(registers.set("mcause", mcause) && registers.set("mepc", mepc));
            is_fetch_near_null(&registers)
        };
        assert!(of(1, 0) && of(2, 0x10) && of(12, 0));
        assert!(!of(1, 0x4000_0000) && !of(7, 0) && !of(8, 0));
    }
}
