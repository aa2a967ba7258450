//! The calls of one function, on all of its paths. Code is followed without running it: a path goes both ways at a branch whose
//! condition is not known. Constants are followed through registers and the function's own stack frame, so that the arguments
//! of a call are known where the program gives constants.

mod leads;
mod variant;

use std::collections::{BTreeMap, BTreeSet};

pub use variant::{Function, Variant};

use super::instruction_set::InstructionSet;
use super::steps::Flow;
use super::values::{State, Stored, Value};
use crate::abi::{Addr, Region};

/// The most instructions that are followed in one function.
const STEPS: usize = 20_000;
/// So many different states are followed from one place; after that only what all of them know.
const STATES: usize = 6;
/// After that, so many more of what those know that have the same marks at the same places: a number that is counted up does not
/// make memory unknown that a call gave.
const MARKED: usize = 3;

/// The most addresses that are kept of those that one function uses.
const USED: usize = 1024;

/// A call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Where it is.
    pub at: Addr,
    /// What is called.
    pub to: Callee,
    /// Its first arguments.
    pub arguments: [Value; 4],
    /// Marks on the stack to which its arguments point; of what is stored, the mark.
    pub passes: Vec<u32>,
    /// True where its arguments point to an address of the function's own frame: that of a local variable.
    pub passes_local: bool,
}

impl Call {
    /// What an instruction does that calls no function.
    const fn of_instruction(at: Addr, to: Callee, passes: Vec<u32>) -> Self {
        Self { at, to, arguments: [Value::Unknown; 4], passes, passes_local: false }
    }
}

/// What is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Callee {
    /// The function at this address.
    At(Addr),
    /// An address that is not known.
    Unknown,
    /// Nothing: a mark is stored in memory other than the function's frame.
    Store,
    /// Nothing: a mark is returned.
    Result,
    /// Nothing: an instruction disables interrupts (true), or enables or restores them.
    Interrupts(bool),
    /// Nothing: memory is accessed, where somebody asks for it.
    Access,
}

impl Callee {
    /// True for a call of a function.
    pub const fn is_function(self) -> bool {
        matches!(self, Self::At(_) | Self::Unknown)
    }
}

/// What a call does, as far as the one who follows the code knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// False for a function that does not return.
    pub returns: bool,
    /// What it returns.
    pub result: Value,
    /// What it writes to where its second argument points.
    pub writes: Option<Value>,
}

impl Outcome {
    /// Of a call of which nothing is known.
    pub const UNKNOWN: Self = Self { returns: true, result: Value::Unknown, writes: None };
}

/// What the code and the constants around it are.
pub trait Program {
    /// What its instructions are.
    fn instructions(&self) -> InstructionSet;
    /// What the global pointer of a RISC-V holds for the whole run.
    fn global_pointer(&self) -> Option<u32> {
        None
    }
    /// The two bytes of code at an address.
    fn code(&self, at: Addr) -> Option<u16>;
    /// The word at an address that the program does not write.
    fn constant(&self, at: Addr) -> Option<u32>;
    /// What a call does.
    fn outcome(&self, _call: &Call) -> Outcome {
        Outcome::UNKNOWN
    }
    /// How many bytes a call reads where its arguments point to; `None` where that is not known.
    fn reads(&self, _to: Callee, _arguments: [Value; 4]) -> Option<u32> {
        None
    }
    /// True for a function that returns nothing, where that is known: what it leaves in the register of a result is none.
    fn returns_nothing(&self, _function: Addr) -> bool {
        false
    }
    /// True where what has a mark is no null pointer.
    fn marks_are_set(&self) -> bool {
        false
    }
}

/// The two bytes of code at an address, of the word that they are in. Code of a Cortex-M and of a RISC-V is little-endian.
pub(super) fn half_of(word: u32, at: Addr) -> Option<u16> {
    u16::try_from(if at & 2 == 0 { word & 0xFFFF } else { word >> 16 }).ok()
}

/// A piece of a path: calls one after the other, up to a branch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Piece {
    /// Its calls.
    pub calls: Vec<Call>,
    /// The pieces that may follow.
    pub next: Vec<usize>,
    /// The function returns after it.
    pub returns: bool,
}

/// All paths of a function.
#[derive(Debug, Clone, Default)]
pub struct Paths {
    /// Their pieces; the function begins with the first.
    pub pieces: Vec<Piece>,
    /// False where a path could not be followed to its end: a jump to an address that is not known, or too much code.
    pub is_complete: bool,
    /// How many instructions were followed.
    pub steps: usize,
    /// The addresses of memory that it accesses, or passes to other functions, as far as they are known.
    pub used: BTreeSet<u32>,
    /// The stores to memory other than its frame, each with the address of the instruction, where somebody asks.
    pub stored: BTreeSet<(Addr, Stored)>,
    /// The accesses to known addresses of memory, each with the address of the instruction, where stores are asked for.
    pub accesses: BTreeSet<(Addr, u32)>,
    /// What it returns, each where a path ends.
    results: BTreeSet<Value>,
}

impl Paths {
    /// True where the same calls and stores are made on the same paths, with the same results.
    pub fn does_the_same(&self, other: &Self) -> bool {
        self.acts_the_same(other) && self.results == other.results
    }

    /// True where the same calls and stores are made on the same paths; what the function returns may differ.
    pub fn acts_the_same(&self, other: &Self) -> bool {
        (&self.pieces, &self.stored) == (&other.pieces, &other.stored)
    }

    /// Of the function with this first and last address, called with these arguments.
    pub fn of(program: &dyn Program, first: Addr, last: Addr, arguments: [Value; 4]) -> Self {
        Self::walked(program, first, last, arguments, Watch::default()).0
    }

    /// The same, with what it stores.
    pub fn storing(program: &dyn Program, first: Addr, last: Addr, arguments: [Value; 4]) -> Self {
        Self::walked(program, first, last, arguments, Watch { stores: true, ..Watch::default() }).0
    }

    /// The same as [`Paths::of`], with the accesses to known addresses in this memory, in the place of calls.
    pub fn accessing(
        program: &dyn Program,
        (first, last): (Addr, Addr),
        arguments: [Value; 4],
        memory: Region,
    ) -> Self {
        Self::walked(program, first, last, arguments, Watch { memory: Some(memory), ..Watch::default() }).0
    }

    /// The same, and what a register holds each time that the code comes to the instruction at an address: `Unknown` where that
    /// is not always the same, `None` where no path leads there.
    pub fn watching(
        program: &dyn Program,
        first: Addr,
        last: Addr,
        arguments: [Value; 4],
        watch: (Addr, u16),
    ) -> (Self, Option<Value>) {
        Self::walked(program, first, last, arguments, Watch { register: Some(watch), ..Watch::default() })
    }

    /// The paths from one instruction of a function on, of whose registers nothing is known, and whether one leads to the instruction at
    /// another address.
    pub fn from(program: &dyn Program, first: Addr, last: Addr, begin: Addr, to: Addr) -> (Self, bool) {
        let watch = Watch { register: Some((to, program.instructions().stack_pointer())), ..Watch::default() };
        let (paths, seen) = Self::walked_from(program, (first, last), begin, [Value::Unknown; 4], watch);
        (paths, seen.is_some())
    }

    fn walked(
        program: &dyn Program,
        first: Addr,
        last: Addr,
        arguments: [Value; 4],
        watch: Watch,
    ) -> (Self, Option<Value>) {
        Self::walked_from(program, (first, last), first, arguments, watch)
    }

    fn walked_from(
        program: &dyn Program,
        (first, last): (Addr, Addr),
        begin: Addr,
        arguments: [Value; 4],
        watch: Watch,
    ) -> (Self, Option<Value>) {
        let paths = Self { is_complete: true, ..Self::default() };
        let set = program.instructions();
        let (states, seen) = (BTreeMap::new(), BTreeSet::new());
        let (todo, leaves_unknown, watched) = (Vec::new(), false, None);
        let mut walk = Walk { program, set, first, last, paths, states, todo, seen, leaves_unknown, watch, watched };
        let mut start = State::new(set, arguments);
        start.marks_are_set = program.marks_are_set();
        start.stores = watch.stores.then(Vec::new);
        set.global(program.global_pointer(), &mut start);
        walk.piece_at(begin, start);
        while let Some((index, at, state)) = walk.todo.pop() {
            walk.follow(index, at, state);
        }
        // What jumps out of the function may jump through a table of it instead, to what was not seen.
        walk.paths.is_complete &= !walk.leaves_unknown || walk.is_all_seen();
        (walk.paths, walk.watched)
    }

    /// All calls.
    pub fn calls(&self) -> impl Iterator<Item = &Call> {
        self.pieces.iter().flat_map(|piece| &piece.calls)
    }

    /// The mark that the function returns, where it returns nothing else, but for 0.
    pub fn returned(&self) -> Option<u32> {
        let mut all = self.results.iter().filter(|value| **value != Value::Is(0));
        match (all.next(), all.next()) {
            (Some(Value::Mark(mark)), None) if self.is_complete => Some(*mark),
            _ => None,
        }
    }

    /// The number that the function returns on all of its paths.
    pub fn fixed(&self) -> Option<u32> {
        let mut all = self.results.iter();
        match (all.next(), all.next()) {
            (Some(Value::Is(number)), None) if self.is_complete => Some(*number),
            _ => None,
        }
    }

    /// True where some path comes to an end of the function.
    pub fn returns(&self) -> bool {
        self.pieces.iter().any(|piece| piece.returns)
    }

    /// True where a call for which `is` holds may be made again and again.
    pub fn repeats(&self, is: impl Fn(&Call) -> bool) -> bool {
        self.pieces.iter().enumerate().any(|(index, piece)| piece.calls.iter().any(&is) && self.is_round(index))
    }

    /// True where some path leads back to where it was.
    pub fn has_round(&self) -> bool {
        (0..self.pieces.len()).any(|index| self.is_round(index))
    }

    /// True where a path leads from a piece back to itself.
    fn is_round(&self, start: usize) -> bool {
        let (mut seen, mut todo) = (vec![false; self.pieces.len()], vec![start]);
        while let Some(index) = todo.pop() {
            for next in self.pieces.get(index).map(|piece| piece.next.as_slice()).unwrap_or_default() {
                if *next == start {
                    return true;
                }
                if let Some(seen) = seen.get_mut(*next).filter(|seen| !**seen) {
                    *seen = true;
                    todo.push(*next);
                }
            }
        }
        false
    }
}

/// What is watched on the paths.
#[derive(Debug, Clone, Copy, Default)]
struct Watch {
    /// A register in front of an instruction.
    register: Option<(Addr, u16)>,
    /// What is stored.
    stores: bool,
    /// Accesses to this memory.
    memory: Option<Region>,
}

struct Walk<'p> {
    program: &'p dyn Program,
    set: InstructionSet,
    first: Addr,
    last: Addr,
    paths: Paths,
    /// The states with which pieces begin at an address, and the piece of each.
    states: BTreeMap<Addr, Vec<(State, usize)>>,
    todo: Vec<(usize, Addr, State)>,
    /// The instructions that were followed.
    seen: BTreeSet<Addr>,
    /// True where a jump leads to what is not known.
    leaves_unknown: bool,
    watch: Watch,
    /// What the watched register holds.
    watched: Option<Value>,
}

impl Walk<'_> {
    /// The piece that begins here in this state.
    fn piece_at(&mut self, at: Addr, state: State) -> usize {
        let known = self.states.entry(at).or_default();
        let same = || known.iter().filter(|(before, _)| before.block == state.block);
        if let Some((_, index)) = same().find(|(before, _)| before.joined(&state) == *before) {
            return *index;
        }
        let known_to = |all: State, (before, _): &(State, usize)| all.joined(before);
        let state = match same().count() {
            count if count < STATES => state.clone(),
            count if count < STATES.saturating_add(MARKED) => {
                same().filter(|(before, _)| before.has_marks_of(&state)).fold(state.clone(), known_to)
            }
            _ => same().fold(state.clone(), known_to),
        };
        let index = self.paths.pieces.len();
        self.paths.pieces.push(Piece::default());
        known.push((state.clone(), index));
        self.todo.push((index, at, state));
        index
    }

    fn leads_to(&mut self, index: usize, at: Addr, state: State) {
        let next = self.piece_at(at, state);
        if let Some(piece) = self.paths.pieces.get_mut(index).filter(|piece| !piece.next.contains(&next)) {
            piece.next.push(next);
        }
    }

    const fn is_within(&self, at: Addr) -> bool {
        self.first <= at && at <= self.last
    }

    fn follow(&mut self, index: usize, mut at: Addr, mut state: State) {
        loop {
            self.paths.steps = self.paths.steps.saturating_add(1);
            if self.paths.steps > STEPS {
                self.paths.is_complete = false;
                return;
            }
            let first = self.program.code(at).filter(|_| self.is_within(at));
            let second = || self.program.code(at.checked_add(2)?);
            // Behind a call that does not return there may be anything.
            let Some(first) = first else { return };
            if self.set != InstructionSet::Thumb {
                self.seen.insert(at);
            }
            let is_wide = self.set.is_wide(first);
            let second = if is_wide { second().unwrap_or_default() } else { 0 };
            let next = at.wrapping_add(if is_wide { 4 } else { 2 });
            let in_block = !state.block.is_empty();
            let is_skipped = in_block && !state.block.remove(0);
            if let Some((_, register)) = self.watch.register.filter(|(watched, _)| *watched == at && !is_skipped) {
                self.see(state.get(register));
            }
            if let Some(place) = self.set.accessed(first, second, &state).filter(|_| !is_skipped) {
                self.uses(at, place);
                if self.watch.memory.is_some_and(|memory| memory.contains(place.into())) {
                    self.add(index, Call::of_instruction(at, Callee::Access, Vec::new()));
                }
            }
            if let Some(disables) = self.set.disables_interrupts(first, second, &state).filter(|_| !is_skipped) {
                self.add(index, Call::of_instruction(at, Callee::Interrupts(disables), Vec::new()));
            }
            let flow = if is_skipped {
                Flow::Next
            } else {
                let flags = state.flags;
                let flow = self.set.step(first, second, at, &mut state, self.program);
                if in_block && self.set.keeps_flags(first) {
                    state.flags = flags;
                }
                flow
            };
            for stored in state.stores.as_mut().map(std::mem::take).unwrap_or_default() {
                self.stores(at, stored);
            }
            for mark in std::mem::take(&mut state.given_away) {
                self.add(index, Call::of_instruction(at, Callee::Store, vec![mark]));
            }
            match flow {
                Flow::Next => at = next,
                Flow::Branch(to, condition) => {
                    if condition != Some(false) {
                        self.jump(index, at, Some(to), state.clone());
                    }
                    if condition != Some(true) {
                        self.leads_to(index, next, state);
                    }
                    return;
                }
                Flow::Either(to, taken) => {
                    self.jump(index, at, Some(to), *taken);
                    self.leads_to(index, next, state);
                    return;
                }
                Flow::Select(ways) => {
                    for way in ways {
                        let mut chosen = state.clone();
                        chosen.block = way;
                        self.leads_to(index, next, chosen);
                    }
                    return;
                }
                Flow::Jumps(all) => {
                    for to in all {
                        self.jump(index, at, Some(to), state.clone());
                    }
                    return;
                }
                Flow::Jump(to) => return self.jump(index, at, to, state),
                Flow::Call(to) => {
                    if !self.call(index, at, callee(to), &mut state) {
                        return;
                    }
                    at = next;
                }
                Flow::Returns => return self.ends(index, at, &state),
                Flow::Stops => return,
                Flow::Unknown => {
                    self.paths.is_complete = false;
                    return;
                }
            }
        }
    }

    /// An address is used, of memory other than constants.
    fn uses(&mut self, at: Addr, place: u32) {
        if self.watch.stores && self.paths.accesses.len() < USED {
            self.paths.accesses.insert((at, place));
        }
        if self.paths.used.len() < USED && self.program.constant(place.into()).is_none() {
            self.paths.used.insert(place);
        }
    }

    fn stores(&mut self, at: Addr, stored: Stored) {
        let is_known = matches!(stored.place, Value::Is(_) | Value::Near(_));
        if is_known && self.paths.stored.len() < USED {
            self.paths.stored.insert((at, stored));
        }
    }

    /// What the watched register holds, once more.
    fn see(&mut self, value: Value) {
        self.watched = Some(match self.watched {
            Some(before) if before != value => Value::Unknown,
            _ => value,
        });
    }

    /// A jump; one that leaves the function is a call at its end.
    fn jump(&mut self, index: usize, at: Addr, to: Option<Addr>, mut state: State) {
        match to.map(|to| to & !1) {
            Some(to) if self.is_within(to) => self.leads_to(index, to, state),
            Some(to) if self.set.comes_back(to, &mut state, self.program) => self.ends(index, at, &state),
            to => {
                self.leaves_unknown |= to.is_none();
                if self.call(index, at, callee(to), &mut state) {
                    self.ends(index, at, &state);
                }
            }
        }
    }

    fn ends(&mut self, index: usize, at: Addr, state: &State) {
        let result = match state.result() {
            Value::Mark(_) if self.program.returns_nothing(self.first) => Value::Unknown,
            result => result,
        };
        self.paths.results.insert(result);
        if let Value::Mark(mark) = result {
            self.add(index, Call::of_instruction(at, Callee::Result, vec![mark]));
        }
        if let Some(piece) = self.paths.pieces.get_mut(index) {
            piece.returns = true;
        }
    }

    /// True where each instruction of the function was followed, as far as its size is known.
    fn is_all_seen(&self) -> bool {
        let mut at = self.first;
        while self.set != InstructionSet::Thumb && self.is_within(at) {
            let Some(first) = self.program.code(at) else { return true };
            if !self.seen.contains(&at) {
                return false;
            }
            at = at.saturating_add(if self.set.is_wide(first) { 4 } else { 2 });
        }
        true
    }

    fn add(&mut self, index: usize, call: Call) {
        if let Some(piece) = self.paths.pieces.get_mut(index) {
            piece.calls.push(call);
        }
    }

    /// True where it goes on after the call.
    fn call(&mut self, index: usize, at: Addr, to: Callee, state: &mut State) -> bool {
        let arguments = state.arguments();
        arguments.iter().filter_map(|argument| argument.known()).for_each(|place| self.uses(at, place));
        let (passes, passes_local) = state.pointed_to(self.program.reads(to, arguments));
        let call = Call { at, to, arguments, passes, passes_local };
        let outcome = self.program.outcome(&call);
        state.after_call(&arguments, outcome.result);
        if let (Some(value), [_, place @ Value::Frame(_), ..]) = (outcome.writes, arguments) {
            state.store(place, value);
        }
        self.add(index, call);
        outcome.returns
    }
}

fn callee(to: Option<Addr>) -> Callee {
    to.map_or(Callee::Unknown, |to| Callee::At(to & !1))
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "tests say what they expect by failing")]
mod tests;
