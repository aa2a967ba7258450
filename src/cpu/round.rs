//! Whether a CPU is in a loop that does not end by itself: its instructions are carried out, with what registers and memory hold,
//! until they hold the same at the same place again. What differs counts as not known from then on: where the round still goes the
//! same way, as past a counter that decides nothing, the loop does not end. Only another thread, an interrupt or a device can end it.
//!
//! A loop that reads anew in each round all that it decides by waits for memory to change, and is none of these: see
//! [`polling`](super::polling). Here something is carried from one round to the next, as the pointer that follows a list, or the
//! index of a ring.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use super::calls::{Program, half_of};
use super::instruction_set::InstructionSet;
use super::origin::addressing;
use super::run::{is_device, is_of_core};
use super::steps::Flow;
use super::values::{Flags, State, Stored, Value};
use super::{Architecture, Registers};
use crate::abi::Addr;

/// The most instructions that are carried out, and all together in what is compared.
const STEPS: u32 = 20_000;
const TRIES: u32 = 400_000;
/// The most instructions of a round, and the most words of code and memory that are read: over a link each takes time.
const LONGEST: u32 = 4096;
const WORDS: usize = 1024;
/// The most words that are written, and the most calls within each other.
const WRITTEN: usize = 512;
const DEPTH: usize = 32;
/// So many of the words that are read are looked at to find those by which the loop decides.
const READS: usize = 32;
/// So often more is found that differs.
const WIDENED: u32 = 8;
/// Of the program status register of a Cortex-M: in the middle of an IT block.
const IN_BLOCK: u64 = 0x0600_FC00;
/// The most bytes in front of what a pointer leads to that are taken for a part of it.
const PART: u64 = 256;
/// The most bytes of a stack above its pointer that are taken for frames of the loop.
const FRAMES: u32 = 4096;

/// Such a loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Round {
    /// The words that it reads and does not write, with what they hold: where it follows no pointers, those by which it decides.
    pub reads: Vec<(Addr, u32)>,
    /// Those of them that lead to each other in a circle, as addresses of what else is read: the pointers that it follows.
    pub follows: Vec<Addr>,
    /// The words that it writes, but for those of its stack; where it follows no pointers, those by which it decides.
    pub writes: Vec<Addr>,
    /// True where something is carried from each round to the next. Else it begins anew in each round, as one that looks through an
    /// array again and again, and keeps its index in memory.
    pub carries: bool,
}

/// Words that were written; `None` where it is not known what.
type Written = BTreeMap<Addr, Option<u32>>;

/// Memory, for code that is carried out.
struct Live<'a> {
    set: InstructionSet,
    word: &'a dyn Fn(Addr) -> Option<u32>,
    known: RefCell<BTreeMap<Addr, Option<u32>>>,
    /// What was read of memory as it is, and what was written, since they were last cleared.
    reads: RefCell<Vec<(Addr, u32)>>,
    /// The words that were read, each with the register that the instruction took for its address; `None` where that is not known.
    bases: RefCell<BTreeSet<(Addr, Option<u32>)>>,
    writes: RefCell<BTreeSet<Addr>>,
    /// What the place that is carried out has written.
    written: RefCell<Written>,
    /// So many more instructions.
    left: RefCell<u32>,
}

impl Live<'_> {
    fn word(&self, at: Addr) -> Option<u32> {
        let mut known = self.known.try_borrow_mut().ok()?;
        if known.len() >= WORDS && !known.contains_key(&at) {
            return None;
        }
        *known.entry(at).or_insert_with(|| (self.word)(at))
    }

    fn written(&self, at: Addr) -> Option<Option<u32>> {
        self.written.try_borrow().ok()?.get(&at).copied()
    }

    /// What a word holds.
    fn now(&self, at: Addr) -> Option<u32> {
        self.written(at).unwrap_or_else(|| self.word(at))
    }

    /// `None` where it is not known to which variable something is written, or where the core decides what runs next.
    fn write(&self, stored: Stored) -> Option<()> {
        let at = match stored.place {
            Value::Is(at) => at,
            // An element of an array that is not known may be any, also behind its end.
            _ => return None,
        };
        if is_device(at.into()) {
            return (!is_of_core(at.into())).then_some(());
        }
        let (low, bits) = (at & 3, u32::from(stored.bytes).checked_mul(8)?);
        let first = Addr::from(at & !3);
        let mut words = vec![(first, stored.value.known())];
        if low.checked_add(stored.bytes.into())? > 4 {
            // Of two words.
            words = vec![(first, None), (first.checked_add(4)?, None)];
        } else if stored.bytes < 4 {
            let mask = 1_u32.checked_shl(bits)?.wrapping_sub(1);
            let merged = stored.value.known().zip(self.now(first)).and_then(|(value, old)| {
                let by = low.checked_mul(8)?;
                Some(old & !mask.checked_shl(by)? | (value & mask).checked_shl(by)?)
            });
            words = vec![(first, merged)];
        }
        let mut written = self.written.try_borrow_mut().ok()?;
        self.writes.try_borrow_mut().ok()?.extend(words.iter().map(|(at, _)| *at));
        written.extend(words);
        (written.len() <= WRITTEN).then_some(())
    }

    fn clear(&self) -> Option<()> {
        self.reads.try_borrow_mut().ok()?.clear();
        self.bases.try_borrow_mut().ok()?.clear();
        self.writes.try_borrow_mut().ok()?.clear();
        Some(())
    }
}

impl Program for Live<'_> {
    fn instructions(&self) -> InstructionSet {
        self.set
    }

    fn code(&self, at: Addr) -> Option<u16> {
        half_of(self.word(at & !3)?, at)
    }

    fn constant(&self, at: Addr) -> Option<u32> {
        if at & 3 != 0 && [at & !3, at.checked_add(3)? & !3].into_iter().any(|word| self.written(word).is_some()) {
            return None;
        }
        if let Some(written) = self.written(at) {
            return written;
        }
        let word = self.word(at)?;
        self.reads.try_borrow_mut().ok()?.push((at, word));
        Some(word)
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
    let live = Live {
        set,
        word,
        known: RefCell::default(),
        reads: RefCell::default(),
        bases: RefCell::default(),
        writes: RefCell::default(),
        written: RefCell::default(),
        left: RefCell::new(TRIES),
    };
    if registers.get("xpsr").is_some_and(|status| status & IN_BLOCK != 0) {
        return None;
    }
    let first = registers.pc()? & !1;
    let mut now = Place { at: first, callers: Vec::new(), state: start(registers, set), written: Written::new() };
    // Brent's way to find a circle: the place that it is compared with is renewed after twice as many steps each time.
    let (mut before, mut length, mut until) = (now.clone(), 0_u32, 1_u32);
    for _ in 0..STEPS {
        now.step(&live)?;
        length = length.checked_add(1)?;
        if now.at == before.at && length <= LONGEST && before.is_repeated(&now, length, &live) {
            let carries = before.carries(length, &live);
            let is_one = before.passes(first, length, &live) && (carries || before.decides(length, &live));
            return if is_one { Round::of(before, length, carries, &live, is_constant) } else { None };
        }
        if length == until {
            (before, length, until) = (now.clone(), 0, until.checked_mul(2)?);
        }
    }
    None
}

impl Round {
    fn of(
        mut place: Place,
        length: u32,
        carries: bool,
        live: &Live<'_>,
        is_constant: &dyn Fn(Addr) -> bool,
    ) -> Option<Self> {
        let (start, pushed) = (place.clone(), place.pushed(length, live)?);
        live.clear()?;
        (0..length).try_for_each(|_| place.step(live))?;
        let is_own = |at: &Addr| is_within(*at, &pushed);
        let mut writes: Vec<Addr> = live.writes.try_borrow().ok()?.iter().filter(|at| !is_own(at)).copied().collect();
        let mut counts: BTreeMap<(Addr, u32), usize> = BTreeMap::new();
        for read in live.reads.try_borrow().ok()?.iter().filter(|(at, _)| !is_constant(*at) && !is_own(at)) {
            let count = counts.entry(*read).or_default();
            *count = count.saturating_add(1);
        }
        let mut reads: Vec<(Addr, u32)> = counts.keys().copied().collect();
        let bases = live.bases.try_borrow().ok()?.clone();
        let follows = in_circles(&reads, &|at, base| bases.contains(&(at, Some(base))) || bases.contains(&(at, None)));
        if follows.is_empty() {
            // Those by which it decides, and first those that it looks at most often.
            reads.sort_by_key(|read| std::cmp::Reverse(counts.get(read)));
            reads.truncate(READS);
            reads.retain(|(at, _)| !start.is_known_without(0, &[*at].into(), length, live));
            let decides = |at: &Addr| start.is_decided_by(&|other| other == *at, length, live);
            let deciding: Vec<Addr> = writes.iter().copied().take(READS).filter(decides).collect();
            writes = deciding;
        }
        // Without a step left, nothing that was looked for is known.
        (*live.left.try_borrow().ok()? > 0).then_some(Self { reads, follows, writes, carries })
    }
}

/// Of words with their addresses those that lead to each other in a circle: each leads to one of them, and one of them to it.
/// `is_read_by`: whether a word was read through a pointer. One that leads into its own structure, as to the end of an array, is
/// compared with and not followed.
fn in_circles(reads: &[(Addr, u32)], is_read_by: &dyn Fn(Addr, u32) -> bool) -> Vec<Addr> {
    let leads = |from: &(Addr, u32), to: &(Addr, u32)| {
        let is_in = to.0.checked_sub(from.1.into()).is_some_and(|into| into < PART);
        from.1 != 0 && is_in && is_read_by(to.0, from.1)
    };
    let mut all = reads.to_vec();
    loop {
        let is_on = |one: &(Addr, u32)| all.iter().any(|to| leads(one, to)) && all.iter().any(|from| leads(from, one));
        let left: Vec<(Addr, u32)> = all.iter().filter(|one| is_on(one)).copied().collect();
        if left.len() == all.len() {
            return in_order(&all);
        }
        all = left;
    }
}

/// Words of circles in the order in which they lead to each other.
fn in_order(all: &[(Addr, u32)]) -> Vec<Addr> {
    let (mut left, mut ordered) = (all.to_vec(), Vec::new());
    let mut next = left.first().copied();
    while let Some((at, word)) = next {
        left.retain(|one| one.0 != at);
        ordered.push(at);
        let leads = |to: &&(Addr, u32)| to.0.checked_sub(word.into()).is_some_and(|into| into < PART);
        next = left.iter().filter(leads).min_by_key(|to| to.0).or(left.first()).copied();
    }
    ordered
}

fn is_within(at: Addr, range: &std::ops::Range<u32>) -> bool {
    u32::try_from(at).is_ok_and(|at| range.contains(&at))
}

/// The code that comes next, and what registers and memory hold there.
#[derive(Clone)]
struct Place {
    at: Addr,
    /// Where the functions return to that it has called.
    callers: Vec<Addr>,
    state: State,
    written: Written,
}

impl Place {
    fn is_same(&self, other: &Self) -> bool {
        self.at == other.at
            && self.callers == other.callers
            && self.state.is_same(&other.state)
            && self.written == other.written
    }

    /// What both have in common: the rest is not known.
    fn joined(&self, other: &Self, live: &Live<'_>) -> Self {
        let held = |of: &Self, at: Addr| of.written.get(&at).copied().unwrap_or_else(|| live.word(at));
        let all = self.written.keys().chain(other.written.keys());
        let written = all.map(|at| (*at, held(self, *at).filter(|held_here| held(other, *at) == Some(*held_here))));
        Self {
            at: self.at,
            callers: self.callers.clone(),
            state: self.state.joined(&other.state),
            written: written.collect(),
        }
    }

    /// True where what differs between the start and the end of a round does not decide how it goes on.
    fn is_repeated(&self, end: &Self, length: u32, live: &Live<'_>) -> bool {
        let is_between = |place: &Self| place.state.block.is_empty();
        if self.callers != end.callers || !is_between(self) || !is_between(end) {
            return false;
        }
        let mut start = self.joined(end, live);
        for _ in 0..WIDENED {
            let mut end = start.clone();
            if (0..length).try_for_each(|_| end.step(live)).is_none()
                || end.at != start.at
                || end.callers != start.callers
                || !is_between(&end)
            {
                return false;
            }
            let both = start.joined(&end, live);
            if both.is_same(&start) {
                return true;
            }
            start = both;
        }
        false
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
        if live.clear().is_none() || (0..length).try_for_each(|_| first.step(live)).is_none() {
            return false;
        }
        let registers = first.state.written;
        let Ok(memory) = live.writes.try_borrow().map(|writes| writes.clone()) else { return false };
        let mut begin = self.clone();
        (0..length).all(|_| {
            let is_known = begin.is_known_without(registers, &memory, length, live);
            !is_known && begin.step(live).is_some()
        })
    }

    /// True where how a round goes on depends on what it has written itself to a variable.
    fn decides(&self, length: u32, live: &Live<'_>) -> bool {
        let pushed = self.pushed(length, live);
        pushed.is_some_and(|pushed| self.is_decided_by(&|at| !is_within(at, &pushed), length, live))
    }

    /// The same of these words.
    fn is_decided_by(&self, is_one: &dyn Fn(Addr) -> bool, length: u32, live: &Live<'_>) -> bool {
        let mut blind = self.clone();
        let goes_on = (0..length).try_for_each(|_| {
            blind.step(live)?;
            blind.written.iter_mut().filter(|(at, _)| is_one(**at)).for_each(|(_, word)| *word = None);
            Some(())
        });
        goes_on.is_none()
    }

    /// True where a round goes on without what these registers and words hold at its start. Where its stack is, it needs to know.
    fn is_known_without(&self, registers: u32, memory: &BTreeSet<Addr>, length: u32, live: &Live<'_>) -> bool {
        let mut without = self.clone();
        let stack = self.stack_pointer().map_or(0..0, |sp| sp..sp.saturating_add(FRAMES));
        let is_known = |n: u16| self.state.get(n).known().is_some_and(|value| stack.contains(&value));
        let lost = (0..32).filter(|n| registers >> n & 1 == 1 && !is_known(*n));
        lost.for_each(|n| without.state.set(n, Value::Unknown));
        without.state.flags = Flags::Unknown;
        without.written.extend(memory.iter().map(|at| (*at, None)));
        (0..length).try_for_each(|_| without.step(live)).is_some()
    }

    fn stack_pointer(&self) -> Option<u32> {
        self.state.get(self.state.instructions.stack_pointer()).known()
    }

    /// Where the functions that a round calls have what they keep of their callers.
    fn pushed(&self, length: u32, live: &Live<'_>) -> Option<std::ops::Range<u32>> {
        let Some(own) = self.stack_pointer() else { return Some(0..0) };
        let mut place = self.clone();
        let mut range = own..own;
        for _ in 0..length {
            place.step(live)?;
            let now = place.stack_pointer()?;
            range = range.start.min(now)..range.end.max(now);
        }
        Some(range)
    }

    /// Carries out one instruction. `None` where it waits, or leads or writes to what is not known.
    fn step(&mut self, live: &Live<'_>) -> Option<()> {
        let mut left = live.left.try_borrow_mut().ok()?;
        *left = left.checked_sub(1)?;
        drop(left);
        live.written.try_borrow_mut().ok().map(|mut now| std::mem::swap(&mut *now, &mut self.written))?;
        let stepped = self.carried_out(live);
        live.written.try_borrow_mut().ok().map(|mut now| std::mem::swap(&mut *now, &mut self.written))?;
        stepped
    }

    fn carried_out(&mut self, live: &Live<'_>) -> Option<()> {
        let first = live.code(self.at)?;
        if live.set == InstructionSet::Thumb && is_stored_downwards(first) {
            return None;
        }
        self.state.stores = Some(Vec::new());
        let base = self.base(first, live);
        let before = live.reads.try_borrow().ok()?.len();
        let (flow, next) = carry_out(self.at, &mut self.state, live)?;
        let read = live.reads.try_borrow().ok()?.get(before..).unwrap_or_default().to_vec();
        live.bases.try_borrow_mut().ok()?.extend(read.into_iter().map(|(at, _)| (at, base)));
        self.state.stores.take()?.into_iter().try_for_each(|stored| live.write(stored))?;
        self.at = match flow {
            Flow::Next | Flow::Branch(_, Some(false)) => next,
            Flow::Branch(to, Some(true)) | Flow::Jump(Some(to)) => to & !1,
            Flow::Select(ways) => {
                let [way] = <[Vec<bool>; 1]>::try_from(ways).ok()?;
                self.state.block = way;
                next
            }
            Flow::Call(Some(to)) if self.callers.len() < DEPTH => {
                self.callers.push(next);
                self.state.set(live.set.link(), Value::Return);
                to & !1
            }
            Flow::Returns => self.callers.pop()?,
            // The return address was in memory.
            Flow::Jump(None) if live.set.is_return(first) => self.callers.pop()?,
            _ => return None,
        };
        Some(())
    }

    /// What the register holds that an instruction of Thumb code takes for an address.
    fn base(&self, first: u16, live: &Live<'_>) -> Option<u32> {
        if live.set != InstructionSet::Thumb {
            return None;
        }
        let second = live.code(self.at.checked_add(2)?).unwrap_or_default();
        let (base, _) = addressing(first, second)?;
        self.state.get(base).known()
    }
}

/// True for STMDB, but to the stack: where it stores is not followed.
pub(super) const fn is_stored_downwards(first: u16) -> bool {
    first & 0xFFD0 == 0xE900 && first & 0xF != 13
}

/// Carries out one instruction: where the code goes on, and the instruction behind it. `None` for one that waits, or that is not
/// followed.
pub(super) fn carry_out(at: Addr, state: &mut State, program: &dyn Program) -> Option<(Flow, Addr)> {
    carry_out_all(at, state, program, false)
}

/// The same, also of floating point, where `with_floats`: what that stores is not known then.
pub(super) fn carry_out_all(
    at: Addr,
    state: &mut State,
    program: &dyn Program,
    with_floats: bool,
) -> Option<(Flow, Addr)> {
    let set = program.instructions();
    let first = program.code(at)?;
    let is_wide = set.is_wide(first);
    let next = at.wrapping_add(if is_wide { 4 } else { 2 });
    let second = if is_wide { program.code(at.checked_add(2)?)? } else { 0 };
    if set.is_not_followed(first, second) && !(with_floats && set.is_of_floats(first, second)) {
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
mod tests;
