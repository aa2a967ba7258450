//! Where in memory a register got its value from, by the code in front of an instruction.
//!
//! Where several ways lead to the instruction, an answer counts only where all of them give it; and where the word in memory still is
//! what the register holds, or where the code moves it on, as `*p++ = c` does.

use super::{Architecture, Registers};
use crate::abi::{Addr, Region};

mod computed;
mod division;
mod frame;
mod masked;
mod riscv;
mod thumb;
mod values;

/// The most instructions that are followed from one register to another.
const DEEP: u8 = 6;
/// Below it is what a null pointer and a small number point to. An index is less than so many bytes.
const NULL: u64 = 0x100;
const SMALL: u64 = 0x1_0000;
/// The most bytes by which a pointer is moved on.
const STEP: u64 = 8;
/// The registers that an instruction of Thumb code writes, by their bits.
pub(super) fn written_by(first: u16, second: u16, at: Addr) -> u32 {
    (0..16).fold(0, |all, register| all | thumb::does(first, second, at, register).written())
}

pub use computed::{Input, computed};
pub use frame::CodeFrame;
pub use masked::is_index_masked;
pub use thumb::called_member;
pub(super) use thumb::{addressing, loaded_word, stored_words};

/// What one instruction does to registers.
enum Does {
    /// It reads a word at the first register plus a constant, or plus the second one times a power of 2.
    Loads { to: u16, base: u16, plus: i64, index: Option<(u16, u16)> },
    /// It reads so many bytes of a word, in the same way.
    LoadsPart { to: u16, base: u16, plus: i64, index: Option<(u16, u16)>, bytes: u8 },
    /// It moves the second register, and reads the word that is so far from where that points then.
    Moving { to: u16, base: u16, plus: i64 },
    /// It reads a constant among the code.
    Literal { to: u16, place: Addr },
    /// It sets a register, or its upper half.
    Sets { to: u16, value: u64, is_top: bool },
    /// It copies a register, and adds a constant.
    Moves { to: u16, from: u16, plus: i64 },
    /// It adds two registers, the second one times a power of 2.
    Adds { to: u16, base: u16, index: u16, shift: u16 },
    /// It multiplies two registers.
    Multiplies { to: u16, one: u16, other: u16 },
    /// It writes these registers.
    Writes(u32),
}

impl Does {
    fn written(&self) -> u32 {
        match self {
            Self::Loads { to, .. }
            | Self::LoadsPart { to, .. }
            | Self::Literal { to, .. }
            | Self::Sets { to, .. }
            | Self::Moves { to, .. }
            | Self::Multiplies { to, .. }
            | Self::Adds { to, .. } => bit(*to),
            Self::Moving { to, base, .. } => bit(*to) | bit(*base),
            Self::Writes(all) => *all,
        }
    }
}

const fn bit(register: u16) -> u32 {
    1 << (register & 0x1F)
}

/// Where a pointer was read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Read {
    /// The word.
    pub place: Addr,
    /// The pointer.
    pub value: u64,
    /// The word that the address of the structure was read from, of which the pointer is a part.
    pub base: Option<Addr>,
    /// Where the element 0 of an array is, where the code adds an index to that for the address of the word.
    pub first: Option<Addr>,
}

/// The code of the function around an instruction, and the registers there.
pub struct Code<'a> {
    /// Where the instruction is.
    pub at: Addr,
    /// The registers in front of it.
    pub registers: &'a Registers,
    /// Where the function begins.
    pub from: Addr,
    /// All of its code.
    pub code: &'a [u8],
    /// The stack in which the stack pointer is, where that is known.
    pub stack: Option<Region>,
    /// A word of memory, as long as a register.
    pub word: &'a dyn Fn(Addr) -> Option<u64>,
}

impl Code<'_> {
    /// The numbers of the registers that the code in front of the instruction writes, on whatever path. Of a Cortex-M.
    #[must_use]
    pub fn written(&self) -> Vec<u16> {
        let all = self.lines().unwrap_or_default();
        let before = || all.iter().filter(|line| line.at < self.at);
        (0..16).filter(|register| before().any(|line| line.does(*register).written() & bit(*register) != 0)).collect()
    }

    /// The word of memory that the instruction's pointer was read from: the register that it adds to, or the one through which
    /// it jumps. `None` where that is not known, and for other processors than a Cortex-M and a RISC-V.
    #[must_use]
    pub fn pointer(&self) -> Option<Read> {
        let all = self.lines()?;
        let line = all.iter().find(|line| line.at == self.at)?;
        let read = |way: &Way<'_, '_>| {
            let register = line.pointer().or_else(|| way.indexed(line))?;
            let value = way.now(register)?;
            let found = way.origin(register, END, value, DEEP)?;
            let of = way.value(found.base, found.load, DEEP);
            let base = of.and_then(|of| way.origin(found.base, found.load, of, DEEP));
            let value = if found.is_indexed { (self.word)(found.place)? } else { value };
            Some(Read { place: found.place, value, base: base.map(|base| base.place), first: found.first })
        };
        self.on_all_ways(&all, read)
    }

    /// The register of the argument that a register holds in front of the instruction, as the function got it: where all ways from the
    /// start of the function show that, and none of them writes memory but the stack.
    #[must_use]
    pub fn unchanged_argument(&self, register: u16) -> Option<u16> {
        let all = self.lines()?;
        let ways = ways(self.at, &all, self)?;
        let is_start = |way: &[Line]| way.first().map_or(self.at, |line| line.at) == self.from;
        let writes = |way: &[Line]| way.iter().any(|line| line.stores() && !line.stores_in_stack());
        let of = |way: &Vec<Line>| {
            let way = Some(way).filter(|way| is_start(way) && !writes(way))?;
            Way::new(way, self).argument(register, END, DEEP)
        };
        let found: Vec<u16> = ways.iter().map(of).collect::<Option<_>>()?;
        let first = *found.first()?;
        found.iter().all(|other| *other == first).then_some(first)
    }

    /// The word of memory that the call in front of a return address got an argument from: the register, and its value. The registers
    /// of the code are those at the return address. The function that was called must not have written memory.
    #[must_use]
    pub fn argument(&self, back: Addr, register: u16, value: u64) -> Option<Read> {
        let all = self.lines()?;
        let (call, _) = all.iter().zip(all.iter().skip(1)).find(|(_, next)| next.at == back)?;
        let code = Code { at: call.at, ..*self };
        let read = |way: &Way<'_, '_>| {
            let found = way.origin(register, END, value, DEEP)?;
            Some(Read { place: found.place, value, base: None, first: None })
        };
        code.on_all_ways(&all, read)
    }

    /// What all ways to the instruction give. `all`: the instructions of the function.
    fn on_all_ways(&self, all: &[Line], read: impl Fn(&Way<'_, '_>) -> Option<Read>) -> Option<Read> {
        let found = ways(self.at, all, self)?.into_iter().map(|before| read(&Way::new(&before, self)));
        let found: Vec<Read> = found.collect::<Option<_>>()?;
        let (one, others) = found.split_first()?;
        let is_same = |other: &Read| (other.place, other.value) == (one.place, one.value);
        let first = one.first.filter(|first| others.iter().all(|other| other.first == Some(*first)));
        others.iter().all(is_same).then_some(Read { first, ..*one })
    }

    /// The register from which the instruction makes the address that it accesses, and what it holds, where that is known. Of a base
    /// and an index, that which is nearer to the address that failed.
    #[must_use]
    pub fn base(&self, failed: Option<Addr>) -> Option<(u16, Option<u64>)> {
        let (base, index) = self.lines()?.into_iter().find(|line| line.at == self.at)?.addressing()?;
        let way = Way::new(&[], self);
        let Some(index) = index else { return Some((base, way.now(base))) };
        let far = |register: u16| Some(way.now(register)?.abs_diff(failed?));
        let nearer = if far(index)? < far(base)? { index } else { base };
        Some((nearer, way.now(nearer)))
    }

    /// The instructions of the function.
    fn lines(&self) -> Option<Vec<Line>> {
        match self.registers.architecture() {
            Architecture::CortexM => thumb::lines(self),
            architecture @ (Architecture::Riscv32 | Architecture::Riscv64) => Some(riscv::lines(self, architecture)),
            _ => None,
        }
    }

    /// True for a register of arguments.
    fn is_of_argument(&self, register: u16) -> bool {
        match self.registers.architecture() {
            Architecture::CortexM => register < 4,
            _ => (10..18).contains(&register),
        }
    }

    /// Bytes of a register.
    const fn width(&self) -> u64 {
        if matches!(self.registers.architecture(), Architecture::Riscv64) { 8 } else { 4 }
    }
}

/// An instruction.
#[derive(Clone, Copy)]
enum Instruction {
    /// Its halves; it is in an IT block where `is_conditional`.
    Thumb { first: u16, second: u16, is_conditional: bool },
    /// As one of 32 bits.
    Riscv { word: u32, is_64: bool },
}

/// One instruction of the function.
#[derive(Clone, Copy)]
struct Line {
    at: Addr,
    instruction: Instruction,
}

impl Line {
    /// What it does to this register, where it writes several.
    fn does(&self, register: u16) -> Does {
        match self.instruction {
            Instruction::Thumb { first, second, is_conditional } => {
                let does = thumb::does(first, second, self.at, register);
                if is_conditional { Does::Writes(does.written()) } else { does }
            }
            Instruction::Riscv { word, is_64 } => riscv::does(word, self.at, is_64),
        }
    }

    /// True where it writes a register.
    fn written(&self, register: u16) -> bool {
        self.does(register).written() & bit(register) != 0
    }

    /// Where it may branch to.
    fn target(&self) -> Option<Addr> {
        match self.instruction {
            Instruction::Thumb { first, second, .. } => thumb::target(first, second, self.at),
            Instruction::Riscv { word, .. } => riscv::target(word, self.at),
        }
    }

    /// True for what does not go on at the next instruction.
    const fn leaves(&self) -> bool {
        match self.instruction {
            Instruction::Thumb { first, second, is_conditional } => !is_conditional && thumb::leaves(first, second),
            Instruction::Riscv { word, .. } => riscv::leaves(word),
        }
    }

    /// A jump whose targets are not known.
    const fn is_table(&self) -> bool {
        match self.instruction {
            Instruction::Thumb { first, second, .. } => thumb::is_table(first, second),
            Instruction::Riscv { word, .. } => riscv::is_table(word),
        }
    }

    /// True where it may write memory, itself or by a call.
    const fn stores(&self) -> bool {
        match self.instruction {
            Instruction::Thumb { first, second, .. } => thumb::stores(first, second),
            Instruction::Riscv { word, .. } => riscv::stores(word),
        }
    }

    /// The register and the constant whose sum is the address that it writes; `None` where it writes more, or elsewhere.
    fn stored(&self) -> Option<(u16, i64)> {
        match self.instruction {
            Instruction::Thumb { first, second, .. } => thumb::stored(first, second),
            Instruction::Riscv { word, .. } => riscv::stored(word),
        }
    }

    /// The register whose word it writes there.
    fn stored_register(&self) -> Option<u16> {
        match self.instruction {
            Instruction::Thumb { first, second, .. } => {
                thumb::stored_words(first, second).first().map(|(register, _)| *register)
            }
            Instruction::Riscv { word, .. } => riscv::stored_register(word),
        }
    }

    /// True where it writes beside the stack pointer, and nowhere else.
    fn stores_in_stack(&self) -> bool {
        match self.instruction {
            Instruction::Thumb { first, second, .. } => thumb::stores_in_stack(first, second),
            Instruction::Riscv { word, .. } => riscv::stores_in_stack(word),
        }
    }

    /// The registers of which it makes the address that it accesses: the one that it takes for an address, and an index.
    fn addressing(&self) -> Option<(u16, Option<u16>)> {
        match self.instruction {
            Instruction::Thumb { first, second, .. } => thumb::addressing(first, second),
            Instruction::Riscv { word, .. } => riscv::addressing(word),
        }
    }

    /// True where the index of its address is multiplied.
    const fn is_scaled(&self) -> bool {
        matches!(self.instruction, Instruction::Thumb { first, second, .. } if first >> 11 == 0b11111 && second >> 4 & 3 != 0)
    }

    /// The register by which it divides.
    fn divisor(&self) -> Option<u16> {
        match self.instruction {
            Instruction::Thumb { first, second, .. } => thumb::divisor(first, second),
            // There, a division by zero is no fault.
            Instruction::Riscv { .. } => None,
        }
    }

    /// The register that it takes for an address: of a load or a store, or of a jump.
    fn pointer(&self) -> Option<u16> {
        match self.instruction {
            Instruction::Thumb { first, second, .. } => thumb::pointer(first, second),
            Instruction::Riscv { word, .. } => riscv::pointer(word),
        }
    }
}

/// The most ways to an instruction that are followed, and the most instructions of one.
const WAYS: usize = 16;
const LONG: usize = 512;

/// The ways to an instruction: what was carried out in front of it, one after the other, as far back as that is known.
fn ways(at: Addr, all: &[Line], code: &Code<'_>) -> Option<Vec<Vec<Line>>> {
    let jumps = all.iter().filter(|line| line.is_table() && line.at != at);
    let tables: Vec<Table> = jumps.map(|line| thumb::table(line, all, code)).collect::<Option<_>>()?;
    // What is decoded of a table is no code.
    let is_code = |line: &&Line| !tables.iter().any(|table| table.bytes.contains(&line.at));
    let all: Vec<Line> = all.iter().filter(is_code).copied().collect();
    let (mut todo, mut ended) = (vec![(at, Vec::<Line>::new())], Vec::new());
    while let Some((next, way)) = todo.pop() {
        let before: Vec<Line> = before(next, &all, &tables).copied().collect();
        let is_new = |line: &Line| line.at != at && way.iter().all(|other| other.at != line.at);
        let count = todo.len().saturating_add(ended.len()).saturating_add(before.len());
        let is_start = all.first().is_none_or(|first| first.at == next);
        // Round a loop once more there may be anything.
        if is_start || before.is_empty() || !before.iter().all(is_new) || count > WAYS || way.len() >= LONG {
            ended.push(way);
            continue;
        }
        todo.extend(before.into_iter().map(|line| (line.at, way.iter().copied().chain([line]).collect())));
    }
    ended.iter_mut().for_each(|way| way.reverse());
    Some(ended)
}

/// A jump through a table.
struct Table {
    /// The instruction.
    at: Addr,
    targets: Vec<Addr>,
    /// Where the table is.
    bytes: std::ops::Range<Addr>,
}

/// The instructions from which the code comes to an address.
fn before<'l>(at: Addr, all: &'l [Line], tables: &'l [Table]) -> impl Iterator<Item = &'l Line> {
    let above = all.iter().rev().find(|line| line.at < at).filter(|line| !line.leaves() && !line.is_table());
    let leads = move |line: &&Line| {
        let by_table = || tables.iter().any(|table| table.at == line.at && table.targets.contains(&at));
        line.target() == Some(at) || by_table()
    };
    all.iter().filter(leads).chain(above)
}

/// A place behind all instructions of a way.
const END: usize = usize::MAX;

/// What a load has put into a register.
struct Held {
    register: u16,
    /// The load.
    writer: usize,
    value: u64,
}

/// The load of a word.
struct Found {
    /// The word.
    place: Addr,
    /// Which instruction of the way.
    load: usize,
    /// The register with the address.
    base: u16,
    /// An index was added to what was read.
    is_indexed: bool,
    /// Where the word would be with an index of 0.
    first: Option<Addr>,
}

/// Instructions that were carried out one after the other. A place among them is an index.
struct Way<'l, 'a> {
    before: &'l [Line],
    code: &'l Code<'a>,
    /// Memory is taken to be as it was, though a call may have written it: where what is found has the value of a pointer.
    trusts_memory: bool,
}

impl<'l, 'a> Way<'l, 'a> {
    const fn new(before: &'l [Line], code: &'l Code<'a>) -> Self {
        Self { before, code, trusts_memory: false }
    }
}

impl Way<'_, '_> {
    /// What a register holds at the end.
    fn now(&self, register: u16) -> Option<u64> {
        let registers = self.code.registers;
        match (registers.architecture(), register) {
            (Architecture::CortexM, 13) => registers.sp(),
            (Architecture::CortexM, 14) => registers.lr(),
            (Architecture::CortexM, 15) => None,
            (Architecture::CortexM, _) => registers.get(&format!("r{register}")),
            (_, 0) => Some(0),
            _ => registers.get(&format!("x{register}")),
        }
    }

    /// Of a base and an index, the one that is no address of memory, where the other is a small number: as a rule the pointer is the
    /// wrong one then. An index that is multiplied is no pointer.
    fn indexed(&self, line: &Line) -> Option<u16> {
        let (base, index) = line.addressing().and_then(|(base, index)| Some((base, index?)))?;
        let is_no_address = |value: u64| value < NULL || (self.code.word)(value & !3).is_none();
        let is_it = |(pointer, other): &(u16, u16)| {
            let is_small = self.now(*other).is_some_and(|other| other < SMALL);
            is_small && self.now(*pointer).is_some_and(is_no_address)
        };
        let turned = (index, base);
        let ways = [(base, index), turned];
        let count = if line.is_scaled() { 1 } else { ways.len() };
        ways.into_iter().take(count).find(is_it).map(|(pointer, _)| pointer)
    }

    /// An address as long as a register.
    const fn cut(&self, value: u64) -> u64 {
        if self.code.width() == 8 { value } else { value & 0xFFFF_FFFF }
    }

    /// What a register holds at the end, where that is known, and no instruction from a place on writes it.
    fn unchanged(&self, register: u16, from: usize) -> Option<u64> {
        let is_written = self.writer(register, END).is_some_and(|(last, _)| last >= from);
        if is_written { None } else { self.now(register) }
    }

    /// The last instruction in front of a place that writes a register.
    fn writer(&self, register: u16, before: usize) -> Option<(usize, Does)> {
        let front = self.before.get(..before).unwrap_or(self.before);
        let mut all = front.iter().enumerate().rev().map(|(place, line)| (place, line.does(register)));
        all.find(|(_, does)| does.written() & bit(register) != 0)
    }

    /// True where an instruction behind the load of a word may have written it.
    fn may_change(&self, place: Addr, read: &Held) -> bool {
        if self.trusts_memory {
            return false;
        }
        // What is stored beside the stack pointer is in the stack.
        let is_elsewhere =
            |line: &Line| line.stores_in_stack() && self.code.stack.is_some_and(|stack| !stack.contains(place));
        let through_it = |at: usize, line: &Line| {
            let (base, plus) = line.stored().filter(|(base, _)| *base == read.register)?;
            let is_it = self.written_by(base, at) == Some(read.writer);
            is_it.then(|| self.cut(read.value.wrapping_add_signed(plus)))
        };
        let stored = |at: usize, line: &Line| through_it(at, line).or_else(|| self.stored(at, line));
        let mut stores = self.behind(read.writer).filter(|(_, line)| line.stores() && !is_elsewhere(line));
        stores.any(|(at, line)| stored(at, line).is_none_or(|at| at.abs_diff(place) < self.code.width()))
    }

    /// The instructions behind a place, each with its own.
    fn behind(&self, place: usize) -> impl Iterator<Item = (usize, &Line)> {
        self.before.iter().enumerate().filter(move |(at, _)| *at > place)
    }

    /// True where an instruction behind a load writes the very word that it read: a pointer that is moved on.
    /// `by`: the register and the offset of the load.
    fn is_stored_again(&self, place: Addr, by: Option<(u16, i64)>, load: usize) -> bool {
        let is_same = |at: usize, line: &Line| {
            let same = by.filter(|by| line.stored() == Some(*by));
            same.is_some_and(|(base, _)| self.written_by(base, at) == self.written_by(base, load))
        };
        self.behind(load).any(|(at, line)| is_same(at, line) || self.stored(at, line) == Some(place))
    }

    /// The last instruction in front of a place that writes a register.
    fn written_by(&self, register: u16, before: usize) -> Option<usize> {
        self.writer(register, before).map(|(writer, _)| writer)
    }

    /// The last instruction in front of a place that stores this very word, and the register that it stores.
    fn stored_before(&self, place: Addr, before: usize) -> Option<(usize, u16)> {
        let front = self.before.get(..before)?.iter().enumerate().rev();
        let (at, line) = front.into_iter().find(|(at, line)| self.stored(*at, line) == Some(place))?;
        Some((at, line.stored_register()?))
    }

    /// Where an instruction stores; `None` where that is not known without what memory held.
    fn stored(&self, at: usize, line: &Line) -> Option<Addr> {
        let (base, plus) = line.stored()?;
        Some(self.cut(self.plain(base, at, DEEP)?.wrapping_add_signed(plus)))
    }

    /// The word that a register was read from, which holds its value, and the load that read it.
    fn origin(&self, register: u16, at: usize, value: u64, deep: u8) -> Option<Found> {
        let deep = deep.checked_sub(1)?;
        let (writer, does) = self.writer(register, at)?;
        match does {
            Does::Loads { base, plus, index, .. } => {
                let place = self.place(&does, writer, deep)?;
                let word = (self.code.word)(place)?;
                let is_stored_again = || self.is_stored_again(place, index.is_none().then_some((base, plus)), writer);
                let is_so = word == value || word.abs_diff(value) <= STEP && is_stored_again();
                let first = self.first(&does, writer, deep);
                let found = is_so.then_some(Found { place, load: writer, base, is_indexed: false, first })?;
                // A local variable: where the function read what it stored there.
                let is_local = word == value && self.code.stack.is_some_and(|stack| stack.contains(place));
                let stored = is_local.then(|| self.stored_before(place, writer)).flatten();
                let trusting = Way { trusts_memory: value >= SMALL, ..*self };
                let before = stored.and_then(|(at, register)| trusting.origin(register, at, value, deep));
                Some(before.unwrap_or(found))
            }
            Does::Moving { to, base, plus } if to == register => {
                let behind = writer.checked_add(1)?;
                let place = self.cut(self.value(base, behind, deep)?.wrapping_add_signed(plus));
                let found = Found { place, load: behind, base, is_indexed: false, first: None };
                ((self.code.word)(place)? == value).then_some(found)
            }
            // A part that is 0 is 0 with and without its sign.
            Does::LoadsPart { base, bytes, .. } if value == 0 => {
                let place = self.place(&does, writer, deep)?;
                let bits = 8_u32.saturating_mul(bytes.into());
                let is_zero = (self.code.word)(place)?.trailing_zeros() >= bits;
                let first = self.first(&does, writer, deep);
                is_zero.then_some(Found { place, load: writer, base, is_indexed: false, first })
            }
            Does::Moves { from, plus, .. } => {
                self.origin(from, writer, self.cut(value.wrapping_sub(plus.cast_unsigned())), deep)
            }
            Does::Multiplies { one, other, .. } if value == 0 => {
                [one, other].into_iter().find_map(|factor| self.origin(factor, writer, 0, deep))
            }
            Does::Adds { base, index, shift, .. } => {
                let of = |(base, index): (u16, u16)| {
                    let index = self.value(index, writer, deep)?.checked_shl(shift.into())?;
                    let held = self.cut(value.wrapping_sub(index));
                    let found = self.origin(base, writer, held, deep).filter(|_| self.is_wrong_base(held, index))?;
                    Some(Found { is_indexed: true, ..found })
                };
                let turned = Some((index, base)).filter(|_| shift == 0);
                [Some((base, index)), turned].into_iter().flatten().find_map(of)
            }
            _ => None,
        }
    }

    /// True for the base of an address that is the wrong one of the two: the index is small, and the base is no address of memory, or is
    /// not aligned where the index is.
    fn is_wrong_base(&self, base: u64, index: u64) -> bool {
        let is_odd = base & 3 != 0 && index & 3 == 0;
        index < SMALL && (is_odd || base < NULL || (self.code.word)(base & !3).is_none())
    }
}

#[cfg(test)]
mod tests;
