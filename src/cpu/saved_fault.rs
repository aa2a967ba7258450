//! Where a handler has stored the fault registers of a Cortex-M: it reads them and writes them to memory, in front of where it is. A
//! source that lacks the registers has them there.
//!
//! The code is followed in a straight line from the start of the function: what a branch may skip may not have been stored.

use std::cell::RefCell;
use std::ops::Range;

use super::calls::{Program, half_of};
use super::instruction::accessed;
use super::instruction_set::InstructionSet;
use super::origin;
use super::steps::Flow;
use super::values::{State, Value};
use crate::abi::Addr;

/// The registers and their addresses (Armv7-M Architecture Reference Manual, B3.2.2).
const REGISTERS: [(Addr, &str); 4] =
    [(0xE000_ED28, "cfsr"), (0xE000_ED2C, "hfsr"), (0xE000_ED34, "mmfar"), (0xE000_ED38, "bfar")];
/// Where a processor of this kind has code and RAM; elsewhere there may be devices (the same, B3.1).
const MEMORY: [Range<Addr>; 2] = [0..0x4000_0000, 0x6000_0000..0xA000_0000];
/// Nothing is known of the arguments.
const ANY: [Value; 4] = [Value::Unknown; 4];

/// Code whose constants are in memory.
struct Straight<'a> {
    word: RefCell<&'a mut dyn FnMut(Addr) -> Option<u32>>,
}

impl Straight<'_> {
    fn word(&self, at: Addr) -> Option<u32> {
        let mut word = self.word.try_borrow_mut().ok().filter(|_| is_memory(at))?;
        word(at)
    }
}

impl Program for Straight<'_> {
    fn instructions(&self) -> InstructionSet {
        InstructionSet::Thumb
    }

    fn code(&self, at: Addr) -> Option<u16> {
        half_of(self.word(at & !3)?, at)
    }

    fn constant(&self, at: Addr) -> Option<u32> {
        self.word(at)
    }
}

fn is_memory(at: Addr) -> bool {
    MEMORY.iter().any(|range| range.contains(&at))
}

/// The fault registers that a function has stored before it came to `pc`: the name of each, and where. `from`: the start of the function.
/// `word`: the word at an address.
pub fn saved_fault(from: Addr, pc: Addr, word: &mut dyn FnMut(Addr) -> Option<u32>) -> Vec<(&'static str, Addr)> {
    let program = Straight { word: RefCell::new(word) };
    let set = InstructionSet::Thumb;
    let mut state = State::new(set, ANY);
    let mut holds: [Option<&'static str>; 16] = [None; 16];
    let mut found: Vec<(&'static str, Addr)> = Vec::new();
    let mut at = from & !1;
    // A branch may skip what is in front of this address, and the condition of an IT block so many instructions.
    let (mut skipped_to, mut conditional) = (0, 0_usize);
    while at < pc & !1 {
        let Some(first) = program.code(at) else { break };
        let is_wide = set.is_wide(first);
        let second = if is_wide { at.checked_add(2).and_then(|at| program.code(at)).unwrap_or_default() } else { 0 };
        let value = |number: u16| state.get(number).known().map(Addr::from);
        let place = accessed(first, second, &value);
        for (register, offset) in origin::stored_words(first, second) {
            let name = holds.get(usize::from(register)).copied().flatten();
            let Some(to) = place.and_then(|place| place.checked_add(offset)) else { continue };
            found.retain(|(_, at)| *at != to);
            let is_certain = at >= skipped_to && conditional == 0 && is_memory(to);
            found.extend(name.filter(|_| is_certain).map(|name| (name, to)));
        }
        let read = place.and_then(|place| REGISTERS.iter().find(|(address, _)| *address == place));
        let written = origin::written_by(first, second, at);
        for (register, name) in (0_u16..).zip(holds.iter_mut()) {
            if written & 1 << register != 0 {
                *name = read.map(|(_, name)| *name).filter(|_| origin::loaded_word(first, second) == Some(register));
            }
        }
        let next = at.saturating_add(if is_wide { 4 } else { 2 });
        conditional = conditional.saturating_sub(1);
        let mut to = None;
        match set.step(first, second, at, &mut state, &program) {
            Flow::Next => {}
            Flow::Branch(target, _) | Flow::Either(target, _) if target <= pc & !1 => {
                skipped_to = skipped_to.max(target);
            }
            Flow::Branch(..) | Flow::Either(..) => {}
            Flow::Select(ways) => conditional = ways.iter().map(Vec::len).max().unwrap_or_default(),
            Flow::Call(_) => {
                state.after_call(&state.arguments(), Value::Unknown);
                let changed = set.changed_by_calls().iter().map(|number| usize::from(*number));
                changed.for_each(|number| holds.iter_mut().skip(number).take(1).for_each(|name| *name = None));
            }
            Flow::Jump(Some(target)) if target >= next => to = Some(target),
            Flow::Jump(_) | Flow::Jumps(_) | Flow::Returns | Flow::Stops | Flow::Unknown => break,
        }
        state.block.clear();
        at = to.unwrap_or(next);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(halves: &[u16]) -> Vec<(&'static str, Addr)> {
        let bytes: Vec<u8> = halves.iter().flat_map(|half| half.to_le_bytes()).collect();
        let mut word = |at: Addr| {
            let into = usize::try_from(at.checked_sub(0x100)?).ok()?;
            let four = bytes.get(into..into.checked_add(4)?)?;
            Some(u32::from_le_bytes(four.try_into().ok()?))
        };
        saved_fault(0x100, 0x100_u64.saturating_add(bytes.len() as u64), &mut word)
    }

    /// "Which access is not known (--reg cfsr=N)" of a core whose memory had it.
    #[test]
    fn what_a_handler_stored_of_the_fault_registers_was_not_read() {
        // ldr r1, [pc, #16]; ldr r3, [pc, #16]; ldr r2, [r1, #40]; str r2, [r3]; ldr r2, [r1, #56]; str r2, [r3, #12]; b .; nop
        let code = [0x4904, 0x4B05, 0x6A8A, 0x601A, 0x6B8A, 0x60DA, 0xE7FE, 0xBF00, 0xBF00, 0xBF00];
        let words = [0xED00, 0xE000, 0x0048, 0x2000];
        let found = stored(&[code.as_slice(), &words].concat());
        assert_eq!(found, [("cfsr", 0x2000_0048), ("bfar", 0x2000_0054)]);
        // movw r1, #0xed28; movt r1, #0xe000; ldr r2, [r1]; movs r2, #0; str r2, [r3]: it is overwritten
        assert_eq!(stored(&[0xF64E, 0x5128, 0xF2CE, 0x0100, 0x680A, 0x2200, 0x601A]), []);
    }

    /// What memory holds there is older.
    #[test]
    fn fault_registers_that_a_branch_may_not_have_stored_were_taken_as_stored() {
        // movw r1, #0xed28; movt r1, #0xe000; ldr r2, [r1]; movs r3, #32; lsls r3, r3, #24
        let read = [0xF64E, 0x5128, 0xF2CE, 0x0100, 0x680A, 0x2320, 0x061B];
        let with = |rest: &[u16]| stored(&[read.as_slice(), rest].concat());
        // str r2, [r3]; nop
        assert_eq!(with(&[0x601A, 0xBF00]), [("cfsr", 0x2000_0000)]);
        // cbnz r0, over the store
        assert_eq!(with(&[0xB900, 0x601A, 0xBF00]), []);
        // cmp r0, #0; it eq; streq r2, [r3]
        assert_eq!(with(&[0x2800, 0xBF08, 0x601A, 0xBF00]), []);
        // str r2, [r1]: what is set is cleared
        assert_eq!(with(&[0x600A, 0xBF00]), []);
        // str r2, [r3]; str r0, [r3]
        assert_eq!(with(&[0x601A, 0x6018, 0xBF00]), []);
        // bl; str r2, [r3]: the call changes r2
        assert_eq!(with(&[0xF000, 0xF800, 0x601A, 0xBF00]), []);
    }
}
