//! Whether a CPU is in a loop that does not end by itself: its instructions are carried out, with what registers and memory hold,
//! until they hold the same at the same place again. What differs counts as not known from then on: where the round still goes the
//! same way, as past a counter that decides nothing, the loop does not end. Only another thread, an interrupt or a device can end it.
//!
//! A loop that reads anew in each round all that it decides by waits for memory to change, and is none of these: see
//! [`polling`](super::polling). Here something is carried from one round to the next, as the pointer that follows a list, or the
//! index of a ring.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use super::calls::{Call, Outcome, Program, half_of};
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

    fn global_pointer(&self) -> Option<u32> {
        None
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
        assert_eq!(round.reads, [(0x2000_0020, 0x2000_0020), (0x2000_0024, 2)]);
        assert_eq!((round.follows, round.writes, round.carries), (vec![0x2000_0020], Vec::new(), true));
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
        let round = of(0x0000_0007).unwrap();
        assert_eq!((round.reads, round.follows), (vec![(0x2000_0000, 7)], Vec::new()));
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
        let of = |words: &[(Addr, u32)]| in_circles(words, &|_, _| true);
        assert_eq!(of(&[(0x110, 0x2000_0000), (0x2000_0000, 7)]), [] as [Addr; 0]);
        assert_eq!(of(&[(0x2000_0000, 0x2000_0010), (0x2000_0010, 0x2000_0000)]).len(), 2);
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
    fn what_decides_ends_it_and_a_counter_does_not() {
        // L: str r0, [r3]; ldr r3, [r3]; cmp r3, #0; bne L
        let words = [(0x2000_0020, 0x2000_0020), (0x2000_0030, 5)];
        let values = [("r3", 0x2000_0020), ("r0", 0), ("r4", 0), ("r5", 0x2000_0030)];
        let of = |code: &[u16]| found(code, 0x100, &values, &words);
        assert_eq!(of(&[0x6018, 0x681B, 0x2B00, 0xD1FB]), None, "it writes the end of the list");
        // The same with wfi; with adds r4, #1; with a word that is counted up: ldr r1, [r5]; adds r1, #1; str r1, [r5].
        assert_eq!(of(&[0xBF30, 0x681B, 0x2B00, 0xD1FB]), None);
        assert!(of(&[0xBF00, 0x681B, 0x2B00, 0xD1FB]).is_some());
        assert!(of(&[0x3401, 0x681B, 0x2B00, 0xD1FB]).is_some());
        let counts = of(&[0x6829, 0x3101, 0x6029, 0x681B, 0x2B00, 0xD1F9]).unwrap();
        assert_eq!((counts.follows, counts.writes), (vec![0x2000_0020], vec![0x2000_0030]));
        // L: subs r4, #1; bne L, with r4 0: it takes as long as it takes.
        assert_eq!(of(&[0x3C01, 0xD1FD]), None);
    }

    /// The ring of a driver became shorter while its head was behind the new end.
    #[test]
    fn an_index_that_never_comes_to_its_end() {
        // L: ldr r2, [r3]; ldr r1, [r3, #4]; cmp r2, r1; beq end; adds r2, #1; ldr r1, [r3, #8]; cmp r2, r1; bne store; movs r2, #0;
        // store: str r2, [r3]; b L; end: bx lr
        let code = [0x681A, 0x6859, 0x428A, 0xD006, 0x3201, 0x6899, 0x428A, 0xD100, 0x2200, 0x601A, 0xE7F4, 0x4770];
        let of = |head| {
            let words = [(0x2000_0000, 3), (0x2000_0004, head), (0x2000_0008, 6)];
            found(&code, 0x108, &[("r3", 0x2000_0000), ("r2", 3)], &words)
        };
        let round = of(9).unwrap();
        assert_eq!((round.reads, round.writes), (vec![(0x2000_0004, 9), (0x2000_0008, 6)], vec![0x2000_0000]));
        assert!(!round.carries, "it begins anew where it sets the index to 0");
        assert_eq!(of(5), None, "it comes to 5");
    }

    /// The end of an array, which is in front of its own place, was called a circle of a list.
    #[test]
    fn a_pointer_into_its_own_structure_is_no_list() {
        // L: ldr r2, [r3, #16]; ldrb r1, [r0, #1]; adds r0, r0, r1; cmp r0, r2; bcc L; bx lr
        let code = [0x691A, 0x7841, 0x1840, 0x4290, 0xD3FA, 0x4770];
        let words = [(0x2000_0000, 0), (0x2000_0010, 0x2000_000C)];
        let round = found(&code, 0x100, &[("r3", 0x2000_0000), ("r0", 0x2000_0000)], &words).unwrap();
        assert_eq!(round.follows, [] as [Addr; 0]);
    }

    /// A wait for an interrupt's word in a function that is called, and counts, is no such loop.
    #[test]
    fn a_wait_that_calls_a_function_and_counts_is_none() {
        // L: bl get; ldr r1, [r5]; adds r1, #1; str r1, [r5]; cmp r0, #0; beq L; bx lr; get: push {r4, lr}; ldr r0, [r6]; pop {r4, pc}
        let code = [0xF000, 0xF806, 0x6829, 0x3101, 0x6029, 0x2800, 0xD0F8, 0x4770, 0xB510, 0x6830, 0xBD10];
        let words = [(0x2000_0000, 0), (0x2000_0030, 5), (0x2000_0FF8, 0), (0x2000_0FFC, 0)];
        let values = [("r5", 0x2000_0030), ("r6", 0x2000_0000), ("sp", 0x2000_1000), ("r4", 0), ("lr", 0x101)];
        for pc in [0x100, 0x106, 0x110, 0x112] {
            assert_eq!(found(&code, pc, &values, &words), None, "{pc:#x}");
        }
    }

    #[test]
    fn loops_on_a_riscv() {
        // L: lw a4, 4(a5); blt a1, a4, end; lw a5, 0(a5); bnez a5, L; end: ret
        let list = [0x0047_A703, 0x00E5_C663, 0x0007_A783, 0xFE07_9AE3, 0x0000_8067];
        // L: lw a2, 0(a3); lw a1, 4(a3); beq a2, a1, end; addi a2, a2, 1; lw a1, 8(a3); bne a2, a1, store; li a2, 0;
        // store: sw a2, 0(a3); j L; end: ret
        let ring = [
            0x0006_A603,
            0x0046_A583,
            0x00B6_0E63,
            0x0016_0613,
            0x0086_A583,
            0x00B6_1463,
            0x0000_0613,
            0x00C6_A023,
            0xFE1F_F06F,
            0x0000_8067,
        ];
        let of = |code: &[u32], values: &[(&str, u64)], words: &[(Addr, u32)]| {
            let mut registers = Registers::new(Architecture::Riscv32);
            values.iter().for_each(|(name, value)| assert!(registers.set(name, *value)));
            let word = |at: Addr| {
                let code = || code.get(usize::try_from(at.checked_sub(0x100)?).ok()? / 4).copied();
                code().or_else(|| words.iter().find(|(place, _)| *place == at).map(|(_, word)| *word))
            };
            round(&registers, &word, &|at| at < 0x1000)
        };
        let words = [(0x8000_0020, 0x8000_0020), (0x8000_0024, 2)];
        let found = of(&list, &[("pc", 0x100), ("x15", 0x8000_0020), ("x11", 5), ("x14", 0)], &words);
        assert_eq!(found.map(|round| round.follows), Some(vec![0x8000_0020]));
        let words = [(0x8000_0000, 3), (0x8000_0004, 9), (0x8000_0008, 6)];
        let found = of(&ring, &[("pc", 0x100), ("x13", 0x8000_0000)], &words);
        assert_eq!(found.map(|round| round.writes), Some(vec![0x8000_0000]));
    }
}
