//! Where the handler of a RISC-V's traps has stored what says which trap it is: it reads `mcause`, `mepc` and `mtval`, passes them on
//! and writes them to memory, in front of where it is. A source that lacks these registers has them there.
//!
//! The code is followed in a straight line from the start of the outermost function of the handler to its call of the next one, and so
//! on: what a branch may skip may not have been stored.

use std::cell::RefCell;

use super::calls::{Program, half_of};
use super::instruction_set::InstructionSet;
use super::riscv_jumps::word as whole;
use super::steps::Flow;
use super::values::{State, Stored, Value};
use crate::abi::Addr;

/// The registers and their numbers (The RISC-V Instruction Set Manual, volume II, 2.2).
const REGISTERS: [(u32, &str); 3] = [(0x341, "mepc"), (0x342, "mcause"), (0x343, "mtval")];
/// The most instructions of one function.
const STEPS: usize = 1024;

/// Code whose constants are not known.
struct Straight<'a> {
    set: InstructionSet,
    word: RefCell<&'a mut dyn FnMut(Addr) -> Option<u32>>,
}

impl Program for Straight<'_> {
    fn instructions(&self) -> InstructionSet {
        self.set
    }

    fn code(&self, at: Addr) -> Option<u16> {
        let mut word = self.word.try_borrow_mut().ok()?;
        half_of(word(at & !3)?, at)
    }

    fn constant(&self, _: Addr) -> Option<u32> {
        None
    }
}

/// The register to which an instruction reads one of these, and its number: CSRRS and CSRRC with no bits, CSRRW.
fn read(first: u16, second: u16) -> Option<(u16, u32)> {
    let word = if first & 3 == 3 { whole(first, second) } else { return None };
    let number = word >> 20;
    let is_read = word & 0x7F == 0x73 && matches!(word >> 12 & 7, 1..=3);
    let is_one = REGISTERS.iter().any(|(of, _)| *of == number);
    let to = u16::try_from(word >> 7 & 0x1F).ok()?;
    (is_read && is_one && to != 0).then_some((to, number))
}

/// What the functions of a handler have stored: the name of each register, and where. `functions`: the start of each and where the code is
/// in it, a return address in all but the last; the outermost first. `word`: the word of code at an address.
pub fn saved_trap(
    set: InstructionSet,
    functions: &[(Addr, Addr)],
    gp: Option<u32>,
    word: &mut dyn FnMut(Addr) -> Option<u32>,
) -> Vec<(&'static str, Addr)> {
    let program = Straight { set, word: RefCell::new(word) };
    // The lower half of `mcause` does not say whether it was an interrupt.
    let width = if set == InstructionSet::Riscv64 { 8 } else { 4 };
    let mut found: Vec<(&'static str, Addr)> = Vec::new();
    let mut arguments = [Value::Unknown; 4];
    for (number, (from, end)) in functions.iter().enumerate() {
        let callee = number.checked_add(1).and_then(|next| functions.get(next)).map(|(from, _)| *from);
        let mut state = State::new(set, arguments);
        state.stores = Some(Vec::new());
        set.global(gp, &mut state);
        arguments = [Value::Unknown; 4];
        let (mut at, mut skipped_to) = (*from, 0);
        for _ in 0..STEPS {
            let Some(first) = program.code(at).filter(|_| at < *end) else { break };
            let is_wide = set.is_wide(first);
            let second = at.checked_add(2).filter(|_| is_wide).and_then(|at| program.code(at)).unwrap_or_default();
            let next = at.saturating_add(if is_wide { 4 } else { 2 });
            let flow = set.step(first, second, at, &mut state, &program);
            if let Some((to, number)) = read(first, second) {
                state.set(to, Value::Mark(number));
            }
            state.given_away.clear();
            for stored in state.stores.as_mut().map(std::mem::take).unwrap_or_default() {
                note(stored, at >= skipped_to && stored.bytes >= width, &mut found);
            }
            let mut to = None;
            match flow {
                Flow::Next => {}
                Flow::Branch(target, _) | Flow::Either(target, _) if target <= *end => {
                    skipped_to = skipped_to.max(target);
                }
                Flow::Branch(..) | Flow::Either(..) => {}
                Flow::Call(to) if next >= *end => {
                    if to.is_some() && to == callee {
                        arguments = state.arguments();
                    }
                }
                Flow::Call(_) => state.after_call(&state.arguments(), Value::Unknown),
                Flow::Jump(Some(target)) if target >= next && target <= *end => to = Some(target),
                _ => break,
            }
            at = to.unwrap_or(next);
        }
    }
    found
}

/// A store: of one of the registers, or of what takes the place of one. `is_certain`: it was carried out, and stores a whole register.
fn note(stored: Stored, is_certain: bool, found: &mut Vec<(&'static str, Addr)>) {
    let Value::Is(place) = stored.place else { return };
    let to = Addr::from(place);
    found.retain(|(_, at)| *at != to);
    if let (Value::Mark(number), true) = (stored.value, is_certain) {
        found.extend(REGISTERS.iter().filter(|(of, _)| *of == number).map(|(_, name)| (*name, to)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Addr = 0x8000_0000;

    fn stored(words: &[u32], functions: &[(Addr, Addr)]) -> Vec<(&'static str, Addr)> {
        stored_by(InstructionSet::Riscv32, words, functions)
    }

    fn stored_by(set: InstructionSet, words: &[u32], functions: &[(Addr, Addr)]) -> Vec<(&'static str, Addr)> {
        let mut word = |at: Addr| words.get(usize::try_from(at.checked_sub(START)? / 4).ok()?).copied();
        saved_trap(set, functions, None, &mut word)
    }

    /// The outer function reads the registers and calls the inner one, which stores them. Which exception it was was not known.
    #[test]
    fn what_a_handler_of_traps_stored_was_not_read() {
        let code = [
            0x3420_2573, // csrr a0, mcause
            0x3410_25F3, // csrr a1, mepc
            0x0080_00EF, // jal ra, inner
            0x0000_006F, // j .
            0x0000_17B7, // inner: lui a5, 1
            0x00A7_A023, // sw a0, 0(a5)
            0x00B7_A223, // sw a1, 4(a5)
            0x0000_006F, // j .
        ];
        let functions = [(START, START + 12), (START + 16, START + 28)];
        assert_eq!(stored(&code, &functions), [("mcause", 0x1000), ("mepc", 0x1004)]);
        assert_eq!(stored(&code, &functions[1..]), [], "what the arguments are is not known");
    }

    /// The lower half of `mcause` of an interrupt looks like an exception.
    #[test]
    fn half_of_a_register_of_64_bits_is_not_the_register() {
        let with = |store: u32| {
            let code = [
                0x3420_2573, // csrr a0, mcause
                0x0000_17B7, // lui a5, 1
                store,
                0x0000_006F, // j .
            ];
            stored_by(InstructionSet::Riscv64, &code, &[(START, START + 12)])
        };
        assert_eq!(with(0x00A7_B023), [("mcause", 0x1000)], "sd a0, 0(a5)");
        assert_eq!(with(0x00A7_A023), [], "sw a0, 0(a5)");
    }

    /// What memory holds there may be of an earlier trap.
    #[test]
    fn what_a_branch_may_have_skipped_is_not_stored_for_certain() {
        let with = |branch: u32, value: u32| {
            let code = [
                0x3420_2573, // csrr a0, mcause
                0x0000_17B7, // lui a5, 1
                branch,
                0x00A7_A023, // sw a0, 0(a5)
                value,
                0x0000_006F, // j .
            ];
            stored(&code, &[(START, START + 20)])
        };
        let nop = 0x0000_0013;
        assert_eq!(with(nop, nop), [("mcause", 0x1000)]);
        assert_eq!(with(0x0005_0863, nop), [("mcause", 0x1000)], "beqz a0, behind the loop");
        assert_eq!(with(0x0005_0463, nop), [], "beqz a0, over the store");
        assert_eq!(with(nop, 0x0007_A023), [], "sw zero, 0(a5)");
        assert_eq!(with(nop, 0x00A7_8023), [], "sb a0, 0(a5)");
    }
}
