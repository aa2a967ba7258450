//! An exception that was entered where no code is: its vector is wrong, by a write over a table in RAM or near address 0, or because
//! the table has no handler for it.
//!
//! lr holds an `EXC_RETURN` only until the handler calls something. A handler that jumps through a pointer, or returns to a damaged
//! address, may have called nothing. But it has changed registers, and a register holds the pointer: an exception that was just
//! entered has r0 to r3 and r12 as it pushed them.

use super::super::{Case, Evidence};
use super::words;
use crate::abi::{Addr, Endian};
use crate::cpu::{Pushed, Registers};
use crate::unwind::{is_exc_return, is_on_process_stack};

/// `xpsr`: the number of the exception, and Thumb state.
const EXCEPTION: u64 = 0x1FF;
const THUMB: u64 = 1 << 24;
/// The register that says where the vectors are (Armv7-M Architecture Reference Manual, B3.2.5).
const VTOR: Addr = 0xE000_ED08;
/// The bytes that an exception pushes at least.
const PUSHED: u64 = 32;

/// How an exception that has called nothing came to an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Entry {
    /// Its vector leads there.
    Vector,
    /// Its handler jumped there, by this register.
    Pointer(&'static str),
    /// One of them, or its handler returned there.
    Unknown,
}

impl Entry {
    /// `vector`: as far as it is known; it may be that of the program's file. `leads`: the word that leads there.
    fn of(registers: &Registers, pushed: Option<Pushed>, vector: Option<u64>, leads: u64) -> Self {
        if vector == Some(leads) {
            return Self::Vector;
        }
        let holds = |name: &&&str| registers.get(name).is_some_and(|value| value & !1 == leads & !1);
        if let Some(name) = NAMES.iter().find(holds) {
            return Self::Pointer(name);
        }
        let is_new = pushed.is_some_and(|pushed| {
            (pushed.is_of_thread() || pushed.is_of_exception()) && pushed.distinct() > 0 && pushed.are_in(registers)
        });
        if is_new { Self::Vector } else { Self::Unknown }
    }
}

/// Registers that a pointer may be in.
const NAMES: [&str; 13] = ["r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9", "r10", "r11", "r12"];

/// How the CPU came to an address outside of the code.
pub(super) struct Came {
    pub words: String,
    pub evidence: Option<Evidence>,
    /// False where it was a jump through a pointer.
    pub is_entry: bool,
    pub next: &'static str,
}

/// For an exception that has called nothing. `psp`: the stack pointer of what it interrupted, where that is a thread.
pub(super) fn came(registers: &Registers, psp: Option<Addr>, case: &Case<'_>) -> Option<Came> {
    let lr = registers.lr().filter(|lr| is_exc_return(*lr))?;
    let (pc, xpsr) = (registers.pc()?, registers.get("xpsr")?);
    let number = Some(xpsr & EXCEPTION).filter(|number| *number != 0)?;
    let leads = pc & !1 | u64::from(xpsr & THUMB != 0);
    let frame = if is_on_process_stack(lr) { psp } else { registers.sp() };
    let pushed = frame.and_then(|at| Pushed::of(&case.look.bytes(at, PUSHED)?, Endian::Little));
    let vector = vector(number, case);
    let name = || {
        let name = case.look.interrupt(number).map_or_else(String::new, |name| format!(" ({name})"));
        format!("exception {number}{name}")
    };
    let next = "find out what writes to the vector table: a write through a null pointer changes one at address 0";
    match Entry::of(registers, pushed, vector.map(|(_, vector)| vector), leads) {
        Entry::Vector => Some(Came {
            words: format!(": the vector of {} points there", name()),
            evidence: vector.map(|(at, vector)| shown(at, vector, leads, case)),
            is_entry: true,
            next,
        }),
        // What is 0 may be so by chance.
        Entry::Pointer(_) if pc < super::jump::NULL => None,
        Entry::Pointer(register) => Some(Came {
            words: format!(": a call through a pointer, in {register}, by the handler of {}", name()),
            evidence: None,
            is_entry: false,
            next: "find out who sets the pointer that is called there",
        }),
        Entry::Unknown if pc < super::jump::NULL => None,
        Entry::Unknown => Some(Came {
            words: format!(": the vector of {} points there, or its handler returned there", name()),
            evidence: None,
            is_entry: true,
            next,
        }),
    }
}

/// The vector of an exception, and where it is.
pub(super) fn vector(number: u64, case: &Case<'_>) -> Option<(Addr, u64)> {
    let word = |at| Endian::Little.u32(&case.look.bytes(at, 4)?, 0).map(u64::from);
    let at = word(VTOR)?.checked_add(number.checked_mul(4)?)?;
    Some((at, word(at)?))
}

fn shown(at: Addr, vector: u64, leads: u64, case: &Case<'_>) -> Evidence {
    if vector == leads {
        return Evidence::memory(at, "the vector that points there".to_owned()).holds(vector);
    }
    let own = words::function_at(vector & !1, case);
    Evidence::memory(at, format!("the vector, which was overwritten: the program has {vector:#x} ({own}) here"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::Architecture;

    const LEADS: u64 = 0x2000_0000;

    /// Registers in an exception, and what it pushed.
    fn entered(r3: u64, pushed_r3: u32, pc: u32) -> (Registers, Option<Pushed>) {
        let mut registers = Registers::new(Architecture::CortexM);
        for (name, value) in [("r0", 1), ("r1", 2), ("r2", 3), ("r3", r3), ("r4", 9), ("r12", 5)] {
            assert!(registers.set(name, value));
        }
        let words = [1, 2, 3, pushed_r3, 5, 0x301, pc, 0x0100_0000];
        let bytes: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
        (registers, Pushed::of(&bytes, Endian::Little))
    }

    fn of((registers, pushed): (Registers, Option<Pushed>), vector: Option<u64>) -> Entry {
        Entry::of(&registers, pushed, vector, LEADS)
    }

    /// A vector that was overwritten was called a damaged return address.
    #[test]
    fn an_exception_with_the_registers_that_it_pushed_was_entered_there() {
        assert_eq!(of(entered(4, 4, 0x300), None), Entry::Vector);
        assert_eq!(of(entered(4, 4, 0x300), Some(0x109D)), Entry::Vector, "it was overwritten");
        assert_eq!(of(entered(7, 4, 0x300), Some(LEADS)), Entry::Vector, "memory shows it");
    }

    #[test]
    fn a_handler_that_did_something_may_have_jumped_or_returned_there() {
        assert_eq!(of(entered(LEADS | 1, 4, 0x300), None), Entry::Pointer("r3"));
        assert_eq!(of(entered(7, 4, 0x300), None), Entry::Unknown, "it changed r3");
        assert_eq!(of(entered(4, 4, 0x301), None), Entry::Unknown, "these are not registers of an exception");
        assert_eq!(of(entered(7, 4, 0x300), Some(0x109D)), Entry::Unknown, "the program has another vector");
        let (registers, _) = entered(4, 4, 0x300);
        assert_eq!(of((registers, None), None), Entry::Unknown, "the stack is not known");
    }
}
