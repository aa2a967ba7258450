//! What registers and stack slots are known to hold while code is followed without running it. Encodings are those of the Armv7-M
//! Architecture Reference Manual (A5, A7).

use std::collections::{BTreeMap, BTreeSet};

use super::instruction_set::InstructionSet;

/// Where memory of a program is, as a rule: other numbers are no addresses of variables.
pub(super) const MEMORY: std::ops::Range<u32> = 0x1000_0000..0xE000_0000;

/// What a register holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Value {
    /// It is not known.
    Unknown,
    /// This number, or this address.
    Is(u32),
    /// This number in a register of 64 bits, which has more than 32 bits: a negative one, too.
    Wide(u64),
    /// This address of memory and what is not known: an element of the array that is there.
    Near(u32),
    /// So many bytes above the stack pointer at the start of the function.
    Frame(i32),
    /// Where the function returns to.
    Return,
    /// What a call left there, by a number of the one who follows the code.
    Mark(u32),
    /// One of the first numbers, times a power of 2, plus a constant: an index into a table, or an address in it.
    Among {
        /// So many numbers.
        count: u16,
        /// The power of 2.
        shift: u8,
        /// What is added.
        base: u32,
    },
    /// What one of the words of a table holds, plus a constant.
    Entry {
        /// Where the table is.
        table: u32,
        /// So many words.
        count: u16,
        /// The distance of two words, as a power of 2.
        shift: u8,
        /// What is added.
        plus: u32,
    },
}

impl Value {
    /// The number, where it is known.
    pub const fn known(self) -> Option<u32> {
        match self {
            Self::Is(value) => Some(value),
            _ => None,
        }
    }

    /// The number of a mark.
    pub const fn mark(self) -> Option<u32> {
        match self {
            Self::Mark(mark) => Some(mark),
            _ => None,
        }
    }

    /// The address of memory that it is, or that of the array in which it is.
    pub(super) const fn address(self) -> Option<u32> {
        match self {
            Self::Is(at) | Self::Near(at) => Some(at),
            _ => None,
        }
    }

    /// A number and what is not known.
    pub(super) const fn near(number: u32) -> Self {
        if MEMORY.start <= number && number < MEMORY.end { Self::Near(number) } else { Self::Unknown }
    }

    const fn is_mark(self) -> bool {
        matches!(self, Self::Mark(_))
    }

    pub(super) const fn plus(self, other: Self) -> Self {
        match (self, other) {
            (Self::Is(a), Self::Is(b)) => Self::Is(a.wrapping_add(b)),
            (Self::Frame(a), Self::Is(b)) | (Self::Is(b), Self::Frame(a)) => Self::Frame(a.wrapping_add_unsigned(b)),
            (Self::Near(a), Self::Is(b)) | (Self::Is(b), Self::Near(a)) => Self::near(a.wrapping_add(b)),
            (Self::Is(a) | Self::Near(a), Self::Unknown) | (Self::Unknown, Self::Is(a) | Self::Near(a)) => {
                Self::near(a)
            }
            // What is marked is an address: what is added leads to a part of it.
            (Self::Mark(mark), Self::Is(_) | Self::Unknown) | (Self::Is(_) | Self::Unknown, Self::Mark(mark)) => {
                Self::Mark(mark)
            }
            _ => Self::Unknown,
        }
    }

    pub(super) const fn minus(self, other: Self) -> Self {
        match (self, other) {
            (Self::Is(a), Self::Is(b)) => Self::Is(a.wrapping_sub(b)),
            (Self::Frame(a), Self::Is(b)) => Self::Frame(a.wrapping_sub_unsigned(b)),
            (Self::Near(a), Self::Is(b)) => Self::near(a.wrapping_sub(b)),
            (Self::Mark(mark), Self::Is(_) | Self::Unknown) => Self::Mark(mark),
            _ => Self::Unknown,
        }
    }

    pub(super) fn with(self, other: Self, of: fn(u32, u32) -> u32) -> Self {
        match (self, other) {
            (Self::Is(a), Self::Is(b)) => Self::Is(of(a, b)),
            // An address that is aligned, or has a bit set.
            (Self::Mark(mark), Self::Is(_)) | (Self::Is(_), Self::Mark(mark)) => Self::Mark(mark),
            _ => Self::Unknown,
        }
    }

    pub(super) fn map(self, of: impl Fn(u32) -> u32) -> Self {
        self.known().map_or(Self::Unknown, |value| Self::Is(of(value)))
    }

    /// A shift by a constant: LSL, LSR, ASR, ROR.
    pub(super) fn shifted(self, kind: u16, by: u32) -> Self {
        match (kind & 3, by) {
            (0, 0) => self,
            (0, by) => self.map(|value| value.checked_shl(by).unwrap_or(0)),
            (1, by) => self.map(|value| if by == 0 { 0 } else { value.checked_shr(by).unwrap_or(0) }),
            // By 0 it is one by 32.
            (2, by) => {
                self.map(|value| value.cast_signed().wrapping_shr(if by == 0 { 31 } else { by }).cast_unsigned())
            }
            // By 0 it takes a flag.
            (_, 0) => Self::Unknown,
            (_, by) => self.map(|value| value.rotate_right(by)),
        }
    }
}

/// What the last instruction that set the flags compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flags {
    Unknown,
    /// These two.
    Compared(Value, Value),
    /// This result with 0: only whether it is 0, and its sign, are known.
    Result(Value),
}

impl Flags {
    /// Those of a program status register of a Cortex-M: two numbers whose comparison gives the same.
    pub(super) fn of_status(status: u64) -> Self {
        const SOME: [u32; 5] = [0, 1, 0x7FFF_FFFF, 0x8000_0000, u32::MAX];
        let is_same = |(a, b): &(u32, u32)| {
            let (result, overflows) = a.cast_signed().overflowing_sub(b.cast_signed());
            let flags = [result < 0, result == 0, a >= b, overflows];
            flags.iter().fold(0, |all, flag| all << 1 | u64::from(*flag)) == status >> 28 & 0xF
        };
        let mut pairs = SOME.iter().flat_map(|a| SOME.iter().map(move |b| (*a, *b)));
        pairs.find(is_same).map_or(Self::Unknown, |(a, b)| Self::Compared(Value::Is(a), Value::Is(b)))
    }

    /// Whether a condition holds; `None` where that is not known.
    pub(super) fn holds(self, condition: u16) -> Option<bool> {
        let (a, b, is_whole) = match self {
            Self::Compared(a, b) => (a.known()?, b.known()?, true),
            Self::Result(a) => (a.known()?, 0, false),
            Self::Unknown => return None,
        };
        let (signed, other) = (a.cast_signed(), b.cast_signed());
        let holds = match condition >> 1 {
            0 => a == b,
            2 => signed.wrapping_sub(other) < 0,
            1 if is_whole => a >= b,
            4 if is_whole => a > b,
            5 if is_whole => signed >= other,
            6 if is_whole => signed > other,
            _ => return None,
        };
        Some(holds != (condition & 1 == 1))
    }
}

/// A store that was followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stored {
    /// Where.
    pub place: Value,
    /// What, of which the lowest bytes are stored.
    pub value: Value,
    /// So many bytes.
    pub bytes: u8,
}

/// Registers, stack slots and flags at one place of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct State {
    pub(super) instructions: InstructionSet,
    registers: [Value; 32],
    /// Words of the function's frame, by their distance from the stack pointer at its start.
    slots: BTreeMap<i32, Value>,
    /// Slots of which less than a register was written: the lower half of one of 64 bits.
    halves: BTreeSet<i32>,
    /// An address of the frame was given away: whoever has it may write there.
    is_shared: bool,
    pub(super) flags: Flags,
    /// Marks that were stored elsewhere than in the frame.
    pub(super) given_away: Vec<u32>,
    /// Of the next instructions in an IT block, whether each is carried out.
    pub(super) block: Vec<bool>,
    /// What has a mark is memory that is there: no null pointer.
    pub(super) marks_are_set: bool,
    /// True where memory was written.
    pub(super) has_stored: bool,
    /// What was stored, where somebody asks.
    pub(super) stores: Option<Vec<Stored>>,
    /// True where memory was read at an address that is not known.
    pub(super) reads_unknown: bool,
    /// The registers that were written, by their bits.
    pub(super) written: u32,
}

/// The most slots that are kept.
const SLOTS: usize = 64;
/// The most bytes of a message, and of what is looked at of other variables.
const MESSAGE: i32 = 64;
/// What an argument points to is taken to have so many bytes.
const OBJECT: i32 = 64;
/// The number of the stack pointer in Thumb code.
pub(super) const SP: u16 = 13;

impl State {
    /// At the start of a function with these arguments.
    pub(super) fn new(set: InstructionSet, arguments: [Value; 4]) -> Self {
        let mut state = Self {
            instructions: set,
            registers: [Value::Unknown; 32],
            slots: BTreeMap::new(),
            halves: BTreeSet::new(),
            is_shared: false,
            flags: Flags::Unknown,
            given_away: Vec::new(),
            block: Vec::new(),
            marks_are_set: false,
            has_stored: false,
            stores: None,
            reads_unknown: false,
            written: 0,
        };
        set.arguments().into_iter().zip(arguments).for_each(|(register, value)| state.set(register, value));
        state.set(set.stack_pointer(), Value::Frame(0));
        state.set(set.link(), Value::Return);
        state
    }

    /// Whether a condition holds; `None` where that is not known.
    pub(super) fn holds(&self, condition: u16) -> Option<bool> {
        let of_mark = match self.flags {
            Flags::Compared(a, b) => self.equal(a, b),
            Flags::Result(a) => self.equal(a, Value::Is(0)),
            Flags::Unknown => None,
        };
        // EQ and NE.
        of_mark.filter(|_| condition < 2).map(|equal| equal != (condition == 1)).or_else(|| self.flags.holds(condition))
    }

    /// Whether two values are equal, where one of them is memory that is there, and the other 0.
    pub(super) fn equal(&self, a: Value, b: Value) -> Option<bool> {
        let is_pair = matches!((a, b), (Value::Mark(_), Value::Is(0)) | (Value::Is(0), Value::Mark(_)));
        (is_pair && self.marks_are_set).then_some(false)
    }

    pub(super) fn get(&self, register: u16) -> Value {
        self.registers.get(usize::from(register)).copied().unwrap_or(Value::Unknown)
    }

    pub(super) fn set(&mut self, register: u16, value: Value) {
        if let Some(place) = self.registers.get_mut(usize::from(register)) {
            *place = value;
            self.written |= 1_u32.checked_shl(register.into()).unwrap_or_default();
        }
    }

    pub(super) fn arguments(&self) -> [Value; 4] {
        self.instructions.arguments().map(|n| self.get(n))
    }

    /// What a function returns in its register.
    pub(super) fn result(&self) -> Value {
        self.get(self.instructions.result())
    }

    /// What is on the stack where arguments point to, or above within so many bytes; a little above where these are not known. Only what
    /// a reader could use: marks, and addresses of the frame itself.
    pub(super) fn pointed_to(&self, bytes: Option<u32>) -> (Vec<u32>, bool) {
        let bytes = bytes.and_then(|bytes| i32::try_from(bytes).ok()).unwrap_or(MESSAGE);
        let is_there = |at: i32| {
            let above = |from: i32| (0..bytes).contains(&at.wrapping_sub(from));
            self.arguments().iter().any(|value| matches!(value, Value::Frame(from) if above(*from)))
        };
        let all = || self.slots.iter().filter(|(at, _)| is_there(**at)).map(|(_, value)| *value);
        let marks = all().filter_map(Value::mark).collect();
        (marks, all().any(|value| matches!(value, Value::Frame(_))))
    }

    pub(super) fn forget(&mut self) {
        self.instructions.general().for_each(|n| self.set(n, Value::Unknown));
        self.flags = Flags::Unknown;
    }

    /// Something was written to a part of the frame: the return address and what calls left there stay.
    pub(super) fn forget_slots(&mut self) {
        self.slots.retain(|_, value| matches!(value, Value::Return | Value::Mark(_)));
    }

    /// The word at an address of the frame.
    pub(super) fn load(&self, at: Value) -> Value {
        match at {
            Value::Frame(at) => self.slots.get(&at).copied().unwrap_or(Value::Unknown),
            _ => Value::Unknown,
        }
    }

    pub(super) fn store(&mut self, at: Value, value: Value) {
        self.record(Stored { place: at, value, bytes: 4 });
        self.write(at, value);
    }

    fn record(&mut self, stored: Stored) {
        self.stores.iter_mut().for_each(|stores| stores.push(stored));
    }

    fn write(&mut self, at: Value, value: Value) {
        self.has_stored = true;
        self.is_shared |= matches!(value, Value::Frame(_));
        if let (Value::Mark(mark), false) = (value, matches!(at, Value::Frame(_))) {
            self.given_away.push(mark);
        }
        match at {
            Value::Frame(at) if self.slots.len() < SLOTS || self.slots.contains_key(&at) => {
                self.slots.insert(at, value);
            }
            Value::Frame(at) => {
                self.slots.remove(&at);
            }
            // A constant is an address of a variable.
            Value::Is(_) | Value::Near(_) | Value::Wide(_) | Value::Among { .. } | Value::Mark(_) => {}
            _ if self.is_shared => self.forget_slots(),
            _ => {}
        }
    }

    /// A register of 64 bits is stored, or its lower half. What overlaps it is not known then.
    pub(super) fn store_long(&mut self, at: Value, value: Value, is_half: bool) {
        self.record(Stored { place: at, value, bytes: if is_half { 4 } else { 8 } });
        self.write(at, value);
        let Value::Frame(at) = at else { return };
        if is_half {
            self.halves.insert(at);
        } else {
            self.halves.remove(&at);
            self.slots.remove(&at.wrapping_add(4));
        }
        // Of the one in front of it the lower half is left.
        if at & 4 != 0 {
            self.halves.insert(at.wrapping_sub(4));
        }
    }

    /// The register of 64 bits that is stored at an address of the frame.
    pub(super) fn load_long(&self, at: Value) -> Value {
        match at {
            Value::Frame(at) if self.halves.contains(&at) => Value::Unknown,
            at => self.load(at),
        }
    }

    /// Less than a word was written to an address of the frame.
    pub(super) fn store_part(&mut self, at: Value, value: Value, bytes: u8) {
        self.record(Stored { place: at, value, bytes });
        match at {
            Value::Frame(at) => self.write(Value::Frame(at & !3), Value::Unknown),
            other => self.write(other, Value::Unknown),
        }
    }

    /// What a call leaves of the registers and, where an address of the frame is known elsewhere, of the frame. What another
    /// call left there stays, unless its address is an argument, and so do addresses of the frame, which calls seldom replace, unless they
    /// are in what an argument points to. `result`: what it returns.
    pub(super) fn after_call(&mut self, arguments: &[Value; 4], result: Value) {
        self.is_shared |= arguments.iter().any(|argument| matches!(argument, Value::Frame(_)));
        if self.is_shared {
            let is_given = |at: &i32| arguments.contains(&Value::Frame(*at));
            let is_within = |at: &i32| {
                let above = |from: i32| (0..OBJECT).contains(&at.wrapping_sub(from));
                arguments.iter().any(|value| matches!(value, Value::Frame(from) if above(*from)))
            };
            self.slots.retain(|at, value| match value {
                Value::Return | Value::Mark(_) => !is_given(at),
                Value::Frame(_) => !is_within(at),
                _ => false,
            });
        }
        self.instructions.changed_by_calls().iter().for_each(|n| self.set(*n, Value::Unknown));
        self.set(self.instructions.result(), result);
        self.flags = Flags::Unknown;
    }

    /// True where registers and flags hold the same.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.registers == other.registers && self.flags == other.flags && self.block == other.block
    }

    /// True where also the words of the frame are the same.
    pub(super) fn is_same_with_frame(&self, other: &Self) -> bool {
        self.is_same(other) && self.slots == other.slots
    }

    /// True where both have the same marks at the same places.
    pub(super) fn has_marks_of(&self, other: &Self) -> bool {
        let mut registers = self.registers.iter().zip(&other.registers);
        registers.all(|(a, b)| a == b || !a.is_mark() && !b.is_mark()) && self.marked_slots().eq(other.marked_slots())
    }

    fn marked_slots(&self) -> impl Iterator<Item = (&i32, &Value)> {
        self.slots.iter().filter(|(_, value)| value.is_mark())
    }

    /// What both know.
    pub(super) fn joined(&self, other: &Self) -> Self {
        let same = |a: Value, b: Value| if a == b { a } else { Value::Unknown };
        let mut registers = self.registers;
        registers.iter_mut().zip(other.registers).for_each(|(a, b)| *a = same(*a, b));
        let mut slots = self.slots.clone();
        slots.retain(|at, value| other.slots.get(at) == Some(value));
        let flags = if self.flags == other.flags { self.flags } else { Flags::Unknown };
        let is_shared = self.is_shared || other.is_shared;
        let halves = self.halves.union(&other.halves).copied().collect();
        let (given_away, block) = (Vec::new(), self.block.clone());
        let Self { instructions, marks_are_set, has_stored, reads_unknown, written, .. } = *self;
        Self {
            instructions,
            registers,
            slots,
            halves,
            is_shared,
            flags,
            given_away,
            block,
            marks_are_set,
            has_stored,
            stores: self.stores.as_ref().map(|_| Vec::new()),
            reads_unknown,
            written,
        }
    }
}

/// The constant of an instruction of 32 bits that has a modified one (Armv7-M Architecture Reference Manual, A5.3.2).
#[must_use]
pub fn expanded(first: u16, second: u16) -> u32 {
    let low = u32::from(second & 0xFF);
    let code = u32::from(first >> 10 & 1) << 4 | u32::from(second >> 12 & 7) << 1 | u32::from(second >> 7 & 1);
    match code >> 1 {
        0 => low,
        1 => low << 16 | low,
        2 => low << 24 | low << 8,
        3 => low << 24 | low << 16 | low << 8 | low,
        _ => (low | 0x80).rotate_right(code),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_of_instructions() {
        // movs.w r0, #0xff0000ff is none; #-1 is mvn; #0x20000000, #0x80, #0x00ff00ff.
        assert_eq!(expanded(0xF04F, 0x5000), 0x2000_0000);
        assert_eq!(expanded(0xF04F, 0x0080), 0x80);
        assert_eq!(expanded(0xF04F, 0x10FF), 0x00FF_00FF);
        assert_eq!(expanded(0xF44F, 0x7080), 0x100, "#256");
    }

    #[test]
    fn conditions_of_what_was_compared() {
        let of = |a, b, condition| Flags::Compared(Value::Is(a), Value::Is(b)).holds(condition);
        assert_eq!((of(3, 3, 0), of(3, 3, 1)), (Some(true), Some(false)));
        assert_eq!((of(4, 3, 8), of(3, 3, 8), of(3, 3, 9)), (Some(true), Some(false), Some(true)));
        assert_eq!((of(u32::MAX, 0, 11), of(u32::MAX, 0, 2)), (Some(true), Some(true)), "-1 < 0, and the largest");
        assert_eq!(Flags::Compared(Value::Unknown, Value::Is(1)).holds(0), None);
        assert_eq!(Flags::Result(Value::Is(0)).holds(2), None);
    }
}
