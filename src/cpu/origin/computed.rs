//! What an address was computed from that is no pointer: an index out of range in a variable, which the function read, or which its
//! caller read and passed to it.
//!
//! The instructions on the way to the access are carried out with what memory holds now. Only where the address that comes out is the one
//! that failed, the loads on which it depends are what it was computed from.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use super::super::calls::{Program, half_of};
use super::super::instruction_set::InstructionSet;
use super::super::round::carry_out_all;
use super::super::steps::Flow;
use super::super::values::{Flags, State, Stored, Value};
use super::{Code, DEEP, Does, Instruction, Line, SMALL, Way, bit, thumb, ways};
use crate::abi::Addr;

/// The most ways that are tried, of all functions together.
const TRIES: usize = 16;
/// So many instructions in front of the end it may begin, in the outermost function.
const STARTS: usize = 96;
/// The most instructions that are carried out.
const STEPS: u32 = 300_000;
/// The most loads on which an address depends that are looked for.
const LOADS: usize = 64;

/// A load on which an address depends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Input {
    /// Where it reads.
    pub place: Addr,
    /// What is there now, so many bytes of it.
    pub value: u64,
    /// The bytes.
    pub bytes: u8,
    /// True where it is an address of memory.
    pub is_pointer: bool,
}

/// The loads on which the address `failed` depends, in the order of the code. `frames`: the function with the access, then its callers,
/// each at where the one before returns to. Empty where that is not known, or ways of the code differ in it. Of a little-endian Cortex-M
/// or RISC-V.
#[must_use]
pub fn computed(frames: &[Code<'_>], failed: Addr) -> Vec<Input> {
    let budget = Budget { left: Cell::new(STEPS), words: RefCell::default() };
    (1..=frames.len()).find_map(|count| of_frames(frames.get(..count)?, failed, &budget)).unwrap_or_default()
}

/// What is left of the instructions that are carried out, and the words that were read.
struct Budget {
    left: Cell<u32>,
    words: RefCell<BTreeMap<Addr, Option<u64>>>,
}

fn of_frames(frames: &[Code<'_>], failed: Addr, budget: &Budget) -> Option<Vec<Input>> {
    let inner = frames.first()?;
    let set = InstructionSet::of(inner.registers.architecture())?;
    let last = *inner.lines()?.iter().find(|line| line.at == inner.at)?;
    // The outermost function first.
    let mut paths: Vec<Vec<Vec<Line>>> = vec![Vec::new()];
    for code in frames.iter().rev() {
        let all = code.lines()?;
        let call = all.iter().rev().find(|line| line.at < code.at).copied().filter(|_| code.at != inner.at);
        let ways = ways(call.map_or(code.at, |call| call.at), &all, code)?;
        let longer = paths.iter().flat_map(|path| {
            ways.iter().map(move |way| {
                let way = way.iter().copied().chain(call).collect::<Vec<Line>>();
                path.iter().cloned().chain([way]).collect()
            })
        });
        paths = longer.take(TRIES).collect();
    }
    let outer = frames.last()?;
    let all: Vec<Vec<Input>> = paths
        .iter()
        .filter_map(|path| {
            let first = path.first()?.len();
            // What a register holds is known best near the end, and more loads are further in front of it.
            let of = |from| {
                let (without, unsure) = (Cell::new(Without::Nothing), Cell::new(0));
                Run { set, code: inner, path, last, outer, from, without, unsure, budget }.inputs(failed)
            };
            (0..first).rev().take(STARTS).filter_map(of).max_by_key(Vec::len)
        })
        .collect();
    // What all ways have in common that lead to this address.
    let (one, others) = all.split_first()?;
    let is_common = |input: &&Input| others.iter().all(|other| other.contains(input));
    let common: Vec<Input> = one.iter().filter(is_common).copied().collect();
    (!common.is_empty() && budget.left.get() > 0).then_some(common)
}

/// The loads whose values are not to be known.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Without {
    Nothing,
    /// That of this number.
    One(usize),
    All,
}

struct Run<'a, 'c> {
    set: InstructionSet,
    code: &'a Code<'c>,
    /// The ways through the functions, the outermost first.
    path: &'a [Vec<Line>],
    /// The access.
    last: Line,
    outer: &'a Code<'c>,
    /// Where it begins in the first of them.
    from: usize,
    without: Cell<Without>,
    /// So many of the next instructions may be carried out, or not.
    unsure: Cell<usize>,
    budget: &'a Budget,
}

impl Run<'_, '_> {
    /// The loads that decide the address, where that is the one that failed.
    fn inputs(&self, failed: Addr) -> Option<Vec<Input>> {
        let (_, loads) = self.carried_out().filter(|(address, _)| *address == failed)?;
        let decides = |without: Without| {
            self.without.set(without);
            self.carried_out().is_none_or(|(address, _)| address != failed)
        };
        // Of a constant address no load is to be looked for.
        if !decides(Without::All) {
            return None;
        }
        let decides = |(n, _): &(usize, Input)| decides(Without::One(*n));
        let all = loads.into_iter().enumerate().take(LOADS);
        let inputs: Vec<Input> = all.filter(decides).map(|(_, load)| load).collect();
        (!inputs.is_empty()).then_some(inputs)
    }

    /// The address that comes out, and the loads on the way.
    fn carried_out(&self) -> Option<(Addr, Vec<Input>)> {
        self.unsure.set(0);
        let first = self.path.first()?;
        let way = Way::new(first, self.outer);
        let mut state = State::new(self.set, [Value::Unknown; 4]);
        state.set(self.set.link(), Value::Unknown);
        let registers = if self.set == InstructionSet::Thumb { 16 } else { 32 };
        for register in 0..registers {
            let held = way.value(register, self.from, DEEP).and_then(|value| u32::try_from(value).ok());
            if held.is_some() || register != self.set.stack_pointer() {
                state.set(register, held.map_or(Value::Unknown, Value::Is));
            }
        }
        let memory = Memory { code: self.code, set: self.set, written: RefCell::default(), budget: self.budget };
        let mut loads = Vec::new();
        let mut lines = self.path.iter().flatten().skip(self.from).peekable();
        while let Some(line) = lines.next() {
            let goes_to = self.step(line, &mut state, &memory, &mut loads)?;
            let next = lines.peek().map_or(self.last.at, |next| next.at);
            // A way that the code does not go with these values.
            if goes_to.is_some_and(|to| to != next) {
                return None;
            }
        }
        let (at, second) = match self.last.instruction {
            Instruction::Thumb { first, second, .. } => (first, second),
            Instruction::Riscv { .. } => (memory.code(self.last.at)?, memory.code(self.last.at.checked_add(2)?)?),
        };
        Some((self.set.accessed(at, second, &state)?.into(), loads))
    }

    /// Carries out one instruction: where the code goes then, where that is known of a jump.
    fn step(
        &self,
        line: &Line,
        state: &mut State,
        memory: &Memory<'_, '_>,
        loads: &mut Vec<Input>,
    ) -> Option<Option<Addr>> {
        self.budget.left.set(self.budget.left.get().checked_sub(1)?);
        if let Some(left) = self.unsure.get().checked_sub(1) {
            self.unsure.set(left);
            (0..16).filter(|register| line.written(*register)).for_each(|register| state.set(register, Value::Unknown));
            state.flags = Flags::Unknown;
            return (!line.stores()).then_some(None);
        }
        let load = self.load(line, state, memory);
        state.stores = Some(Vec::new());
        let (flow, behind) = carry_out_all(line.at, state, memory, true)?;
        memory.write(state.stores.take()?)?;
        if let Some((to, input)) = load {
            if matches!(self.without.get(), Without::One(n) if n == loads.len()) || self.without.get() == Without::All {
                state.set(to, Value::Unknown);
            }
            loads.push(input);
        }
        let mut goes_to = None;
        match flow {
            Flow::Select(ways) => match <[Vec<bool>; 1]>::try_from(ways) {
                Ok([way]) => state.block = way,
                // Whether these are carried out is not known: neither is what they write.
                Err(ways) => self.unsure.set(ways.first()?.len()),
            },
            Flow::Call(Some(to)) if self.begins_at(to) => {
                state.set(self.set.link(), Value::Unknown);
                goes_to = Some(to & !1);
            }
            Flow::Call(_) => state.after_call(&state.arguments(), Value::Unknown),
            Flow::Branch(to, Some(is_taken)) => goes_to = Some(if is_taken { to & !1 } else { behind }),
            _ => {}
        }
        Some(goes_to)
    }

    /// True for the start of a function of the path.
    fn begins_at(&self, to: Addr) -> bool {
        self.path.iter().skip(1).any(|way| way.first().is_some_and(|first| first.at == to & !1))
    }

    /// What a line reads into which register, where that is known.
    fn load(&self, line: &Line, state: &State, memory: &Memory<'_, '_>) -> Option<(u16, Input)> {
        let known = |register: u16| state.get(register).known().map(u64::from);
        let registers = if self.set == InstructionSet::Thumb { 16 } else { 1 };
        (0..registers).find_map(|register| {
            // Also one in an IT block, which is carried out.
            let does = match line.instruction {
                Instruction::Thumb { first, second, .. } => thumb::does(first, second, line.at, register),
                Instruction::Riscv { .. } => line.does(register),
            };
            let (to, base, plus, index, bytes) = match does {
                Does::Loads { to, base, plus, index } => (to, base, plus, index, 4),
                Does::LoadsPart { to, base, plus, index, bytes } => (to, base, plus, index, bytes),
                Does::Moving { to, base, plus } if to == register => (to, base, plus, None, 4),
                _ => return None,
            };
            let is_it = self.set != InstructionSet::Thumb || does.written() & bit(register) != 0;
            let index = match index {
                Some((register, shift)) => known(register)? << (shift & 3),
                None => 0,
            };
            let place = known(base).filter(|_| is_it)?.wrapping_add_signed(plus).wrapping_add(index) & 0xFFFF_FFFF;
            // What the way itself has put there was read before.
            let word = memory.constant(place & !3).filter(|_| !memory.has_written(place & !3))?;
            let bits = u32::from(bytes).saturating_mul(8);
            let part = u64::from(word) >> (place & 3).saturating_mul(8);
            let value = part & 1_u64.checked_shl(bits)?.wrapping_sub(1);
            let is_pointer = value >= SMALL && bytes >= 4 && (self.code.word)(value & !3).is_some();
            Some((to, Input { place, value, bytes, is_pointer }))
        })
    }
}

/// What memory holds now, but for what the way has written.
struct Memory<'a, 'c> {
    code: &'a Code<'c>,
    set: InstructionSet,
    written: RefCell<BTreeMap<Addr, Option<u32>>>,
    budget: &'a Budget,
}

impl Memory<'_, '_> {
    fn has_written(&self, at: Addr) -> bool {
        self.written.try_borrow().is_ok_and(|written| written.contains_key(&at))
    }

    fn write(&self, all: Vec<Stored>) -> Option<()> {
        let mut written = self.written.try_borrow_mut().ok()?;
        for Stored { place, value, bytes } in all {
            let Value::Is(at) = place else { continue };
            let first = Addr::from(at & !3);
            // Of less than a word, what memory holds now is as good.
            if bytes == 4 && at & 3 == 0 {
                written.insert(first, value.known());
            }
        }
        Some(())
    }
}

impl Program for Memory<'_, '_> {
    fn instructions(&self) -> InstructionSet {
        self.set
    }

    fn code(&self, at: Addr) -> Option<u16> {
        half_of(self.constant(at & !3)?, at)
    }

    fn constant(&self, at: Addr) -> Option<u32> {
        if let Some(written) = self.written.try_borrow().ok()?.get(&at) {
            return *written;
        }
        let mut words = self.budget.words.try_borrow_mut().ok()?;
        let word = (*words.entry(at).or_insert_with(|| (self.code.word)(at)))?;
        u32::try_from(word & 0xFFFF_FFFF).ok()
    }
}
