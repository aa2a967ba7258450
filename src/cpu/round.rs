//! Whether a CPU is in a loop that does not end by itself: its instructions are carried out, with what registers and memory hold,
//! until they hold the same at the same place again. Nothing is written in such a loop, so that only another thread, an interrupt or
//! a device can end it.
//!
//! A loop that reads anew in each round all that it decides by waits for memory to change, and is none of these: see
//! [`polling`](super::polling). Here something is carried from one round to the next, as the pointer that follows a list.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::calls::{Call, Outcome, Program, half_of};
use super::instruction_set::InstructionSet;
use super::steps::Flow;
use super::values::{Flags, State, Value};
use super::{Architecture, Registers};
use crate::abi::Addr;

/// The most instructions that are carried out.
const STEPS: u32 = 20_000;
/// The most instructions of a round, and the most words of code and memory that are read: over a link each takes time.
const LONGEST: u32 = 512;
const WORDS: usize = 1024;
/// Of the program status register of a Cortex-M: in the middle of an IT block.
const IN_BLOCK: u64 = 0x0600_FC00;
/// The most bytes in front of what a pointer leads to that are taken for a part of it.
const PART: u64 = 256;

/// Such a loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Round {
    /// The words that it reads, by address, with what they hold.
    pub reads: Vec<(Addr, u32)>,
    /// Those of them that lead to each other in a circle, as addresses of what else is read: the pointers that it follows.
    pub follows: Vec<Addr>,
}

/// Memory, for code that is carried out.
struct Live<'a> {
    set: InstructionSet,
    word: &'a dyn Fn(Addr) -> Option<u32>,
    known: RefCell<BTreeMap<Addr, Option<u32>>>,
    reads: RefCell<Vec<(Addr, u32)>>,
}

impl Live<'_> {
    fn word(&self, at: Addr) -> Option<u32> {
        let mut known = self.known.try_borrow_mut().ok()?;
        if known.len() >= WORDS && !known.contains_key(&at) {
            return None;
        }
        *known.entry(at).or_insert_with(|| (self.word)(at))
    }
}

impl Program for Live<'_> {
    fn instructions(&self) -> InstructionSet {
        self.set
    }

    fn global_pointer(&self) -> Option<u32> {
        None
    }

    fn code(&self, at: Addr) -> Option<u16> {
        half_of(self.word(at & !3)?, at)
    }

    fn constant(&self, at: Addr) -> Option<u32> {
        let word = self.word(at)?;
        self.reads.try_borrow_mut().ok()?.push((at, word));
        Some(word)
    }

    fn outcome(&self, _: &Call) -> Outcome {
        Outcome::UNKNOWN
    }
}

/// The loop that a CPU with these registers is in. `word`: a word of its memory, also of its code, at a multiple of 4; `None` for
/// what is not to be read. `is_constant`: whether the program does not write what is at an address.
#[must_use]
pub fn round(
    registers: &Registers,
    word: &dyn Fn(Addr) -> Option<u32>,
    is_constant: &dyn Fn(Addr) -> bool,
) -> Option<Round> {
    let set = InstructionSet::of(registers.architecture())?;
    let live = Live { set, word, known: RefCell::default(), reads: RefCell::default() };
    if registers.get("xpsr").is_some_and(|status| status & IN_BLOCK != 0) {
        return None;
    }
    let first = registers.pc()? & !1;
    let mut now = Place { at: first, state: start(registers, set) };
    // Brent's way to find a circle: the place that it is compared with is renewed after twice as many steps each time.
    let (mut before, mut length, mut until) = (now.clone(), 0_u32, 1_u32);
    for _ in 0..STEPS {
        now.step(&live)?;
        length = length.checked_add(1)?;
        if now.is_same(&before) {
            let is_one = length <= LONGEST && before.passes(first, length, &live) && before.carries(length, &live);
            return if is_one { Round::of(before, length, &live, is_constant) } else { None };
        }
        if length == until {
            (before, length, until) = (now.clone(), 0, until.checked_mul(2)?);
        }
    }
    None
}

impl Round {
    fn of(mut place: Place, length: u32, live: &Live<'_>, is_constant: &dyn Fn(Addr) -> bool) -> Option<Self> {
        live.reads.try_borrow_mut().ok()?.clear();
        (0..length).try_for_each(|_| place.step(live))?;
        let mut reads = live.reads.try_borrow().ok()?.clone();
        reads.sort_unstable();
        reads.dedup();
        reads.retain(|(at, _)| !is_constant(*at));
        let follows = in_circles(&reads);
        Some(Self { reads, follows })
    }
}

/// Of words with their addresses those that lead to each other in a circle: each leads to one of them, and one of them to it.
fn in_circles(reads: &[(Addr, u32)]) -> Vec<Addr> {
    let leads = |from: &(Addr, u32), to: &(Addr, u32)| {
        from.1 != 0 && to.0.checked_sub(from.1.into()).is_some_and(|into| into < PART)
    };
    let mut all = reads.to_vec();
    loop {
        let is_on = |one: &(Addr, u32)| all.iter().any(|to| leads(one, to)) && all.iter().any(|from| leads(from, one));
        let left: Vec<(Addr, u32)> = all.iter().filter(|one| is_on(one)).copied().collect();
        if left.len() == all.len() {
            return all.into_iter().map(|(at, _)| at).collect();
        }
        all = left;
    }
}

/// The code that comes next, and what registers hold there.
#[derive(Clone)]
struct Place {
    at: Addr,
    state: State,
}

impl Place {
    fn is_same(&self, other: &Self) -> bool {
        self.at == other.at && self.state.is_same(&other.state)
    }

    /// True where a round comes to this address.
    fn passes(&self, at: Addr, length: u32, live: &Live<'_>) -> bool {
        let mut place = self.clone();
        (0..length).any(|_| {
            let is_there = place.at == at;
            let goes_on = place.step(live).is_some();
            is_there && goes_on
        })
    }

    /// True where something is carried from one round to the next: wherever a round is said to begin, it is not known how it goes on
    /// without what the loop writes.
    fn carries(&self, length: u32, live: &Live<'_>) -> bool {
        let mut first = self.clone();
        first.state.written = 0;
        if (0..length).try_for_each(|_| first.step(live)).is_none() {
            return false;
        }
        let written = first.state.written;
        let mut begin = self.clone();
        (0..length).all(|_| {
            let is_known = begin.is_known_without(written, length, live);
            !is_known && begin.step(live).is_some()
        })
    }

    /// True where a round goes on without what these registers hold at its start.
    fn is_known_without(&self, written: u32, length: u32, live: &Live<'_>) -> bool {
        let mut without = self.clone();
        (0..32).filter(|n| written >> n & 1 == 1).for_each(|n| without.state.set(n, Value::Unknown));
        without.state.flags = Flags::Unknown;
        (0..length).try_for_each(|_| without.step(live)).is_some()
    }

    /// Carries out one instruction. `None` where it leaves the function, writes memory, waits, or leads to what is not known.
    fn step(&mut self, live: &Live<'_>) -> Option<()> {
        let (flow, next) = carry_out(self.at, &mut self.state, live)?;
        if self.state.has_stored {
            return None;
        }
        self.at = match flow {
            Flow::Next => next,
            Flow::Branch(to, Some(true)) | Flow::Jump(Some(to)) => to & !1,
            Flow::Branch(_, Some(false)) => next,
            Flow::Select(ways) => {
                let [way] = <[Vec<bool>; 1]>::try_from(ways).ok()?;
                self.state.block = way;
                next
            }
            _ => return None,
        };
        Some(())
    }
}

/// Carries out one instruction: where the code goes on, and the instruction behind it. `None` for one that waits, or that is not
/// followed.
pub(super) fn carry_out(at: Addr, state: &mut State, program: &dyn Program) -> Option<(Flow, Addr)> {
    let set = program.instructions();
    let first = program.code(at)?;
    let is_wide = set.is_wide(first);
    let next = at.wrapping_add(if is_wide { 4 } else { 2 });
    let second = if is_wide { program.code(at.checked_add(2)?)? } else { 0 };
    if set.is_not_followed(first, second) {
        return None;
    }
    let in_block = !state.block.is_empty();
    if in_block && !state.block.remove(0) {
        return Some((Flow::Next, next));
    }
    let flags = state.flags;
    let flow = set.step(first, second, at, state, program);
    if in_block && set.keeps_flags(first) {
        state.flags = flags;
    }
    Some((flow, next))
}

/// What the registers hold.
fn start(registers: &Registers, set: InstructionSet) -> State {
    let mut state = State::new(set, [Value::Unknown; 4]);
    let is_arm = registers.architecture() == Architecture::CortexM;
    let value = |number: u64| u32::try_from(number).map_or(Value::Wide(number), Value::Is);
    for n in 0..32_u16 {
        let held = match (is_arm, n) {
            (true, 13) => registers.sp(),
            (true, 14) => registers.lr(),
            (true, _) => registers.get(&format!("r{n}")),
            (false, 0) => Some(0),
            (false, _) => registers.get(&format!("x{n}")),
        };
        state.set(n, held.map_or(Value::Unknown, value));
    }
    state.flags = registers.get("xpsr").filter(|_| is_arm).map_or(Flags::Unknown, Flags::of_status);
    state
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of code at 0x100 and of words.
    fn found(code: &[u16], pc: Addr, values: &[(&str, u64)], words: &[(Addr, u32)]) -> Option<Round> {
        let mut registers = Registers::new(Architecture::CortexM);
        assert!(registers.set("pc", pc));
        values.iter().for_each(|(name, value)| assert!(registers.set(name, *value)));
        let half = |at: Addr| code.get(usize::try_from(at.checked_sub(0x100)?).ok()? / 2).copied();
        let word = |at: Addr| {
            let code = || Some(u32::from(half(at)?) | u32::from(half(at.checked_add(2)?).unwrap_or_default()) << 16);
            code().or_else(|| words.iter().find(|(place, _)| *place == at).map(|(_, word)| *word))
        };
        round(&registers, &word, &|at| at < 0x1000)
    }

    /// L: ldr r2, [r3, #4]; cmp r2, r1; bgt end; ldr r3, [r3]; cmp r3, #0; bne L; end: bx lr
    const LIST: [u16; 7] = [0x685A, 0x428A, 0xDC02, 0x681B, 0x2B00, 0xD1F9, 0x4770];

    #[test]
    fn a_list_whose_node_points_to_itself() {
        let words = [(0x2000_0010, 0x2000_0020), (0x2000_0014, 1), (0x2000_0020, 0x2000_0020), (0x2000_0024, 2)];
        let of = |pc| found(&LIST, pc, &[("r3", 0x2000_0010), ("r1", 5), ("r2", 0), ("xpsr", 0x0100_0000)], &words);
        let round = of(0x100).unwrap();
        assert_eq!(
            round,
            Round { reads: vec![(0x2000_0020, 0x2000_0020), (0x2000_0024, 2)], follows: vec![0x2000_0020] }
        );
        assert_eq!(of(0x106).map(|round| round.follows), Some(vec![0x2000_0020]), "in the middle");
        let end = [(0x2000_0010, 0x2000_0020), (0x2000_0014, 1), (0x2000_0020, 0), (0x2000_0024, 2)];
        assert_eq!(found(&LIST, 0x100, &[("r3", 0x2000_0010), ("r1", 5)], &end), None, "it ends");
    }

    #[test]
    fn a_list_that_is_a_circle_of_two() {
        let words = [(0x2000_0010, 0x2000_0020), (0x2000_0014, 1), (0x2000_0020, 0x2000_0010), (0x2000_0024, 2)];
        let round = found(&LIST, 0x100, &[("r3", 0x2000_0010), ("r1", 5)], &words).unwrap();
        assert_eq!((round.reads.len(), round.follows), (4, vec![0x2000_0010, 0x2000_0020]));
    }

    #[test]
    fn a_length_of_zero_never_comes_to_the_end() {
        // L: ldrb r2, [r0, #1]; adds r0, r0, r2; cmp r0, r1; bcc L; bx lr
        let code = [0x7842, 0x1880, 0x4288, 0xD3FB, 0x4770];
        let of = |word| found(&code, 0x100, &[("r0", 0x2000_0000), ("r1", 0x2000_0010)], &[(0x2000_0000, word)]);
        assert_eq!(of(0x0000_0007), Some(Round { reads: vec![(0x2000_0000, 7)], follows: Vec::new() }));
        assert_eq!(of(0x0000_2007), None, "it is 32 bytes");
    }

    /// A thread that looks through a list again and again until an interrupt marks an element was said to be in a circle.
    #[test]
    fn a_list_that_is_looked_through_again_was_a_circle() {
        // again: ldr r3, [r0]; L: ldr r2, [r3, #4]; cmp r2, #1; beq end; ldr r3, [r3]; cmp r3, #0; bne L; b again; end: bx lr
        let code = [0x6803, 0x685A, 0x2A01, 0xD003, 0x681B, 0x2B00, 0xD1F9, 0xE7F7, 0x4770];
        let node = |n: u64| 0x2000_0100 + 16 * n;
        let next = |n: u64| if n < 19 { u32::try_from(node(n + 1)).unwrap() } else { 0 };
        let nodes = (0..20).flat_map(|n| [(node(n), next(n)), (node(n) + 4, 0)]);
        let words: Vec<(Addr, u32)> = nodes.chain([(0x2000_0000, 0x2000_0100)]).collect();
        for pc in [0x100, 0x102, 0x108, 0x10E] {
            let values = [("r0", 0x2000_0000), ("r3", node(3)), ("r2", 0), ("xpsr", 0x0100_0000)];
            assert_eq!(found(&code, pc, &values, &words), None, "{pc:#x}");
        }
    }

    /// A function that returns to a circle is not in it, and a constant of the code that is an address is no pointer that is followed.
    #[test]
    fn a_loop_that_is_not_reached_yet_was_the_one_that_does_not_end() {
        // nop; then the list
        let code = [&[0xBF00][..], &LIST].concat();
        let words = [(0x2000_0020, 0x2000_0020), (0x2000_0024, 2)];
        let of = |pc| found(&code, pc, &[("r3", 0x2000_0020), ("r1", 5), ("r2", 0)], &words);
        assert_eq!(of(0x100), None);
        assert!(of(0x102).is_some());
        let in_block = [("r3", 0x2000_0020), ("r1", 5), ("r2", 0), ("xpsr", 0x0100_0800)];
        assert_eq!(found(&code, 0x102, &in_block, &words), None, "in an IT block");
        assert_eq!(in_circles(&[(0x110, 0x2000_0000), (0x2000_0000, 7)]), [] as [Addr; 0]);
        assert_eq!(in_circles(&[(0x2000_0000, 0x2000_0010), (0x2000_0010, 0x2000_0000)]).len(), 2);
    }

    /// A loop that waits for memory to change looks the same in each round, too.
    #[test]
    fn a_loop_that_waits_was_one_that_does_not_end() {
        // L: ldr r2, [r0]; ldr r2, [r2]; cmp r2, #0; beq L; bx lr
        let code = [0x6802, 0x6812, 0x2A00, 0xD0FB, 0x4770];
        let words = [(0x2000_0000, 0x2000_0010), (0x2000_0010, 0)];
        assert_eq!(found(&code, 0x100, &[("r0", 0x2000_0000)], &words), None);
        // L: nop; b L
        assert_eq!(found(&[0xBF00, 0xE7FD], 0x100, &[], &[]), None, "a loop without a condition is a rule of its own");
    }

    #[test]
    fn what_writes_or_counts_or_sleeps_goes_on() {
        // L: str r0, [r3]; ldr r3, [r3]; cmp r3, #0; bne L
        let words = [(0x2000_0020, 0x2000_0020)];
        let of = |code: &[u16]| found(code, 0x100, &[("r3", 0x2000_0020), ("r0", 0), ("r4", 0)], &words);
        assert_eq!(of(&[0x6018, 0x681B, 0x2B00, 0xD1FB]), None);
        // The same with adds r4, #1, and with wfi.
        assert_eq!(of(&[0x3401, 0x681B, 0x2B00, 0xD1FB]), None);
        assert_eq!(of(&[0xBF30, 0x681B, 0x2B00, 0xD1FB]), None);
        assert!(of(&[0xBF00, 0x681B, 0x2B00, 0xD1FB]).is_some());
    }

    #[test]
    fn a_list_on_a_riscv() {
        // L: lw a4, 4(a5); blt a1, a4, end; lw a5, 0(a5); bnez a5, L; end: ret
        let code: [u32; 5] = [0x0047_A703, 0x00E5_C663, 0x0007_A783, 0xFE07_9AE3, 0x0000_8067];
        let words = [(0x8000_0020, 0x8000_0020), (0x8000_0024, 2)];
        let mut registers = Registers::new(Architecture::Riscv32);
        for (name, value) in [("pc", 0x100), ("x15", 0x8000_0020), ("x11", 5), ("x14", 0)] {
            assert!(registers.set(name, value));
        }
        let word = |at: Addr| {
            let code = || code.get(usize::try_from(at.checked_sub(0x100)?).ok()? / 4).copied();
            code().or_else(|| words.iter().find(|(place, _)| *place == at).map(|(_, word)| *word))
        };
        assert_eq!(round(&registers, &word, &|at| at < 0x1000).map(|round| round.follows), Some(vec![0x8000_0020]));
    }
}
