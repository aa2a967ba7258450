//! Where in memory a register got its value from, by the code in front of an instruction. Thumb encodings are those of the Armv7-M
//! Architecture Reference Manual (A5, A7).
//!
//! Only those instructions in front count that were carried out for certain: up to a place to which a branch leads, or behind one
//! that is always taken. An answer counts only where the word in memory still is what the register holds.

use super::instruction::long_branch;
use super::polling::{self, Step, Walk};
use super::{Architecture, Registers};
use crate::abi::Addr;

/// The most instructions that are followed from one register to another.
const DEEP: u8 = 6;
/// What a call may change: r0 to r3, r12 and lr (Procedure Call Standard for the Arm Architecture, 6.1.1).
const BY_CALLS: u16 = 0x500F;

/// What one instruction does to registers.
enum Does {
    /// It reads a word at the first register plus a constant, or plus the second one times a power of 2.
    Loads { to: u16, base: u16, plus: i64, index: Option<(u16, u16)> },
    /// It reads a constant among the code.
    Literal { to: u16, place: Addr },
    /// It sets a register, or its upper half.
    Sets { to: u16, value: u64, is_top: bool },
    /// It copies a register, and adds a constant.
    Moves { to: u16, from: u16, plus: i64 },
    /// It writes these registers.
    Writes(u16),
}

impl Does {
    fn written(&self) -> u16 {
        match self {
            Self::Loads { to, .. } | Self::Literal { to, .. } | Self::Sets { to, .. } | Self::Moves { to, .. } => {
                bit(*to)
            }
            Self::Writes(all) => *all,
        }
    }
}

const fn bit(register: u16) -> u16 {
    1 << (register & 0xF)
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
    /// A word of memory.
    pub word: &'a dyn Fn(Addr) -> Option<u32>,
}

impl Code<'_> {
    /// The word of memory that the instruction's pointer was read from: the register that it adds to, or the one through which
    /// it jumps. `None` where that is not known, and for other processors than a Cortex-M.
    #[must_use]
    pub fn pointer(&self) -> Option<Read> {
        if self.registers.architecture() != Architecture::CortexM {
            return None;
        }
        let end = self.from.checked_add(u64::try_from(self.code.len()).ok()?)?;
        let all = lines(Walk { at: self.from, end, from: self.from, code: self.code });
        let (before, rest) = all.split_at_checked(all.iter().position(|line| line.at == self.at)?)?;
        let register = rest.first().and_then(|line| pointer(line.first, line.second))?;
        let way = Way { before: straight(before, self.at, &all)?, code: self };
        let value = way.now(register)?;
        let found = way.origin(register, END, value, DEEP)?;
        let base = way.value(found.base, found.load, DEEP).and_then(|of| way.origin(found.base, found.load, of, DEEP));
        Some(Read { place: found.place, value, base: base.map(|base| base.place) })
    }
}

/// One instruction of the function.
struct Line {
    at: Addr,
    first: u16,
    second: u16,
    /// It is in an IT block.
    is_conditional: bool,
}

impl Line {
    /// What it does to this register, where it writes several.
    fn does(&self, register: u16) -> Does {
        let does = does(self.first, self.second, self.at, register);
        if self.is_conditional { Does::Writes(does.written()) } else { does }
    }

    /// Where it may branch to.
    fn target(&self) -> Option<Addr> {
        let long =
            || long_branch(self.first, self.second, self.at.checked_add(4)?).filter(|_| self.second & 0x4000 == 0);
        polling::target(self.first, self.second, self.at).or_else(long)
    }

    /// True for what does not go on at the next instruction.
    const fn leaves(&self) -> bool {
        match self.first {
            0xE000..=0xE7FF | 0xBD00..=0xBDFF | 0xDE00..=0xDEFF => true,
            first if first & 0xFF80 == 0x4700 || first & 0xFF87 == 0x4687 => true,
            first if first & 0xF800 == 0xF000 => self.second & 0xD000 == 0x9000,
            _ if self.is_popped() => true,
            first if first & 0xFE50 == 0xE810 => self.second & 0x8000 != 0,
            _ => false,
        }
    }

    /// A jump whose targets are not known: through a table, as TBB, TBH and loads of pc, and the end of a loop of Armv8.1-M (LE).
    const fn is_table(&self) -> bool {
        let (first, second) = (self.first, self.second);
        match first {
            0x46F7 => false,
            _ if first & 0xFF87 == 0x4687 || first & 0xFF87 == 0x4487 => true,
            0xF00F | 0xF01F | 0xF02F => second & 0xF000 == 0xC000,
            _ if first & 0xFFF0 == 0xE8D0 => second & 0xFFE0 == 0xF000,
            _ => first & 0xFF70 == 0xF850 && second >> 12 == 15 && !self.is_popped(),
        }
    }

    /// LDR of pc from the top of the stack: a return.
    const fn is_popped(&self) -> bool {
        self.first == 0xF85D && self.second == 0xFB04
    }

    /// True where it may write memory, itself or by a call.
    const fn stores(&self) -> bool {
        match self.first {
            0x5000..=0x55FF | 0x6000..=0x67FF | 0x7000..=0x77FF | 0x8000..=0x87FF | 0x9000..=0x97FF => true,
            0xB400..=0xB5FF | 0xC000..=0xC7FF | 0x4780..=0x47FF | 0xDF00..=0xDFFF => true,
            first if first & 0xF800 == 0xF000 => self.second & 0xD000 == 0xD000,
            first => first & 0xFE10 == 0xF800 || first & 0xFE10 == 0xE800 || first & 0xEE10 == 0xEC00,
        }
    }
}

fn lines(walk: Walk<'_>) -> Vec<Line> {
    let mut block = 0_u32;
    let line = |(at, first, second): (Addr, u16, u16)| {
        let is_conditional = block > 0;
        block = block.saturating_sub(1);
        if first & 0xFF00 == 0xBF00 && first & 0xF != 0 {
            block = 4_u32.saturating_sub((first & 0xF).trailing_zeros());
        }
        Line { at, first, second, is_conditional }
    };
    walk.map(line).collect()
}

/// The last of these instructions that were carried out for certain, one after the other, before the one at an address.
fn straight<'l>(before: &'l [Line], at: Addr, all: &[Line]) -> Option<&'l [Line]> {
    if all.iter().any(Line::is_table) {
        return None;
    }
    let targets: Vec<Addr> = all.iter().filter_map(Line::target).collect();
    let mut first = before.len();
    let mut next = at;
    while let Some(index) = first.checked_sub(1).filter(|_| !targets.contains(&next)) {
        let line = before.get(index)?;
        if line.leaves() && !line.is_conditional {
            break;
        }
        (first, next) = (index, line.at);
    }
    before.get(first..)
}

/// So near to a word a store may write it.
const NEAR: u64 = 4;
/// Behind all instructions.
const END: Addr = Addr::MAX;

/// The load of a word.
struct Found {
    /// The word.
    place: Addr,
    /// The instruction.
    load: Addr,
    /// The register with the address.
    base: u16,
}

/// Instructions that were carried out one after the other.
struct Way<'l, 'a> {
    before: &'l [Line],
    code: &'l Code<'a>,
}

impl Way<'_, '_> {
    /// What a register holds at the end.
    fn now(&self, register: u16) -> Option<u64> {
        match register {
            13 => self.code.registers.sp(),
            14 => self.code.registers.lr(),
            15 => None,
            _ => self.code.registers.get(&format!("r{register}")),
        }
    }

    /// What a register holds at the end, where that is known, and no instruction from an address on writes it.
    fn unchanged(&self, register: u16, from: Addr) -> Option<u64> {
        let is_written = self.writer(register, END).is_some_and(|(last, _)| last >= from);
        if is_written { None } else { self.now(register) }
    }

    /// The last instruction in front of an address that writes a register.
    fn writer(&self, register: u16, before: Addr) -> Option<(Addr, Does)> {
        let all = self.before.iter().rev().filter(|line| line.at < before).map(|line| (line.at, line.does(register)));
        all.into_iter().find(|(_, does)| does.written() & bit(register) != 0)
    }

    /// What a register held in front of the instruction at an address.
    fn value(&self, register: u16, at: Addr, deep: u8) -> Option<u64> {
        let deep = deep.checked_sub(1)?;
        if let Some(now) = self.unchanged(register, at) {
            return Some(now);
        }
        let (writer, does) = self.writer(register, at)?;
        match does {
            Does::Loads { .. } => {
                let place = self.place(&does, writer, deep)?;
                // What was written since is not what it read.
                if self.may_change(place, writer) { None } else { (self.code.word)(place).map(u64::from) }
            }
            Does::Moves { from, plus, .. } => Some(cut(self.value(from, writer, deep)?.wrapping_add_signed(plus))),
            Does::Literal { .. } | Does::Sets { .. } => self.plain(register, at, deep),
            Does::Writes(_) => None,
        }
    }

    /// True where an instruction behind an address may have written a word.
    fn may_change(&self, place: Addr, behind: Addr) -> bool {
        let mut stores = self.before.iter().filter(|line| line.at > behind && line.stores());
        stores.any(|line| self.stored(line).is_none_or(|at| at.abs_diff(place) < NEAR))
    }

    /// Where an instruction stores; `None` where that is not known without what memory held.
    fn stored(&self, line: &Line) -> Option<Addr> {
        let (word, five) = (line.first, u64::from(line.first >> 6 & 0x1F));
        let (base, plus) = match word {
            0x6000..=0x67FF => (word >> 3 & 7, five << 2),
            0x7000..=0x77FF => (word >> 3 & 7, five),
            0x8000..=0x87FF => (word >> 3 & 7, five << 1),
            0x9000..=0x97FF => (13, u64::from(word & 0xFF) << 2),
            _ if word & 0xFFF0 == 0xF8C0 => (word & 0xF, u64::from(line.second & 0xFFF)),
            _ => return None,
        };
        Some(cut(self.plain(base, line.at, DEEP)?.wrapping_add(plus)))
    }

    /// What a register held in front of the instruction at an address, where no word that the program writes was read for it.
    fn plain(&self, register: u16, at: Addr, deep: u8) -> Option<u64> {
        let deep = deep.checked_sub(1)?;
        if let Some(now) = self.unchanged(register, at) {
            return Some(now);
        }
        let (writer, does) = self.writer(register, at)?;
        match does {
            Does::Literal { place, .. } => (self.code.word)(place).map(u64::from),
            Does::Sets { value, is_top: false, .. } => Some(value),
            Does::Sets { value, .. } => Some(value << 16 | self.plain(register, writer, deep)? & 0xFFFF),
            Does::Moves { from, plus, .. } => Some(cut(self.plain(from, writer, deep)?.wrapping_add_signed(plus))),
            Does::Loads { .. } | Does::Writes(_) => None,
        }
    }

    /// Where a load reads.
    fn place(&self, load: &Does, at: Addr, deep: u8) -> Option<Addr> {
        let Does::Loads { base, plus, index, .. } = load else { return None };
        let base = self.value(*base, at, deep)?.wrapping_add_signed(*plus);
        let index = match index {
            Some((register, shift)) => self.value(*register, at, deep)? << (shift & 3),
            None => 0,
        };
        Some(cut(base.wrapping_add(index)))
    }

    /// The word that a register was read from, which holds its value, and the load that read it.
    fn origin(&self, register: u16, at: Addr, value: u64, deep: u8) -> Option<Found> {
        let deep = deep.checked_sub(1)?;
        let (writer, does) = self.writer(register, at)?;
        match does {
            Does::Loads { base, .. } => {
                let place = self.place(&does, writer, deep)?;
                let is_so = (self.code.word)(place).map(u64::from) == Some(value);
                is_so.then_some(Found { place, load: writer, base })
            }
            Does::Moves { from, plus, .. } => {
                self.origin(from, writer, cut(value.wrapping_sub(plus.cast_unsigned())), deep)
            }
            _ => None,
        }
    }
}

/// An address of 32 bits.
const fn cut(value: u64) -> u64 {
    value & 0xFFFF_FFFF
}

const fn is_wide(first: u16) -> bool {
    first >> 11 >= 0b11101
}

/// The register that an instruction takes for an address: of a load or a store, or of a jump.
fn pointer(first: u16, second: u16) -> Option<u16> {
    Some(match first {
        0x4700..=0x47FF => first >> 3 & 0xF,
        0x6000..=0x8FFF => first >> 3 & 7,
        0xC000..=0xCFFF => first >> 8 & 7,
        // Which of two registers is the wrong one is not known.
        _ if first & 0xFE80 == 0xF800 && second & 0x800 == 0 => return None,
        _ if first & 0xFE00 == 0xF800 || first & 0xFE00 == 0xE800 => first & 0xF,
        _ if first & 0xFF20 == 0xED00 && second & 0xE00 == 0xA00 => first & 0xF,
        _ => return None,
    })
    .filter(|register| *register < 13)
}

/// What an instruction does: to this register, where it reads several.
fn does(first: u16, second: u16, at: Addr, register: u16) -> Does {
    match several(first, second, register) {
        Some(loads) => loads,
        None if is_wide(first) => wide(first, second, at),
        None => narrow(first, at),
    }
}

/// The word that LDRD, LDMIA or LDMDB reads into a register.
fn several(first: u16, second: u16, register: u16) -> Option<Does> {
    let loads = |base, plus| Some(Does::Loads { to: register, base, plus, index: None });
    let below = |list: u16| i64::from((list & bit(register).wrapping_sub(1)).count_ones()) << 2;
    let is_in = |list: u16| list & bit(register) != 0;
    let base = first & 0xF;
    match first {
        0xC800..=0xCFFF if is_in(first & 0xFF) => loads(first >> 8 & 7, below(first & 0xFF)),
        _ if first & 0xFFD0 == 0xE890 && is_in(second) => loads(base, below(second)),
        _ if first & 0xFFD0 == 0xE910 && is_in(second) => {
            loads(base, below(second).wrapping_sub(i64::from(second.count_ones()) << 2))
        }
        // LDRD from behind the base or in front of it.
        _ if first & 0xFF50 == 0xE950 && base != 15 => {
            let offset = i64::from(second & 0xFF) << 2;
            let offset = if first & 1 << 7 == 0 { offset.wrapping_neg() } else { offset };
            let (one, other) = (second >> 12, second >> 8 & 0xF);
            match register {
                _ if register == one => loads(base, offset),
                _ if register == other => loads(base, offset.wrapping_add(4)),
                _ => None,
            }
        }
        _ => None,
    }
}

fn narrow(word: u16, at: Addr) -> Does {
    let (low, middle, third) = (word & 7, word >> 3 & 7, word >> 6 & 7);
    let five = i64::from(word >> 6 & 0x1F);
    match word {
        0x6800..=0x6FFF => Does::Loads { to: low, base: middle, plus: five << 2, index: None },
        0x9800..=0x9FFF => Does::Loads { to: word >> 8 & 7, base: 13, plus: i64::from(word & 0xFF) << 2, index: None },
        0x5800..=0x59FF => Does::Loads { to: low, base: middle, plus: 0, index: Some((third, 0)) },
        0x4600..=0x46FF => Does::Moves { to: low | word >> 4 & 8, from: word >> 3 & 0xF, plus: 0 },
        0x0000..=0x003F => Does::Moves { to: low, from: middle, plus: 0 },
        0x1C00..=0x1DFF => Does::Moves { to: low, from: middle, plus: i64::from(third) },
        0x1E00..=0x1FFF => Does::Moves { to: low, from: middle, plus: i64::from(third).wrapping_neg() },
        0x3000..=0x37FF => Does::Moves { to: word >> 8 & 7, from: word >> 8 & 7, plus: i64::from(word & 0xFF) },
        0x3800..=0x3FFF => {
            Does::Moves { to: word >> 8 & 7, from: word >> 8 & 7, plus: i64::from(word & 0xFF).wrapping_neg() }
        }
        // BLX, and what several instructions write.
        0x4780..=0x47FF => Does::Writes(BY_CALLS),
        0xBC00..=0xBDFF => Does::Writes(word & 0xFF | bit(13)),
        0xB000..=0xB0FF | 0xB400..=0xB5FF => Does::Writes(bit(13)),
        0x4400..=0x44FF => Does::Writes(bit(low | word >> 4 & 8)),
        0xBA00..=0xBAFF => Does::Writes(bit(low)),
        0xDF00..=0xDFFF => Does::Writes(BY_CALLS),
        // What writes no register: CPS, BKPT, hints, IT and CBZ.
        0xB600..=0xB6FF | 0xBE00..=0xBFFF | 0xB100..=0xB1FF | 0xB300..=0xB3FF | 0xB900..=0xB9FF | 0xBB00..=0xBBFF => {
            Does::Writes(0)
        }
        0xD000..=0xDEFF | 0xE000..=0xE7FF | 0x4700..=0x477F => Does::Writes(0),
        0xC000..=0xC7FF => Does::Writes(bit(word >> 8 & 7)),
        0xC800..=0xCFFF => Does::Writes(word & 0xFF | bit(word >> 8 & 7)),
        0xA000..=0xAFFF => Does::Writes(bit(word >> 8 & 7)),
        _ => by_step(word, 0, at),
    }
}

fn wide(first: u16, second: u16, at: Addr) -> Does {
    let (to, base) = (second >> 12, first & 0xF);
    let low = i64::from(second & 0xFF);
    // Several words, where the base is written back.
    let moved = if first & 1 << 5 == 0 { 0 } else { bit(base) };
    match first {
        _ if first & 0xF800 == 0xF000 && second & 0xD000 == 0xD000 => Does::Writes(BY_CALLS),
        // LDR of a word.
        _ if first & 0xFFF0 == 0xF8D0 && base != 15 => {
            Does::Loads { to, base, plus: i64::from(second & 0xFFF), index: None }
        }
        _ if first & 0xFFF0 == 0xF850 && base != 15 && second & 0xFC0 == 0 => {
            Does::Loads { to, base, plus: 0, index: Some((second & 0xF, second >> 4 & 3)) }
        }
        _ if first & 0xFFF0 == 0xF850 && base != 15 && second & 0xF00 == 0xC00 => {
            Does::Loads { to, base, plus: low.wrapping_neg(), index: None }
        }
        // A load that changes its base.
        _ if first & 0xFE10 == 0xF810 && base != 15 && second & 0x900 == 0x900 => Does::Writes(bit(to) | bit(base)),
        // MOV.W of a register.
        _ if first & 0xFFEF == 0xEA4F && second & 0xF0F0 == 0 => {
            Does::Moves { to: second >> 8 & 0xF, from: second & 0xF, plus: 0 }
        }
        // LDRD and STRD; LDM and STM.
        _ if first & 0xFE40 == 0xE840 => {
            // STREX, and what else has these encodings, writes a register that is not the one that it stores.
            let is_plain = first & 1 << 8 != 0 || first & 1 << 5 != 0;
            let result = if is_plain { 0 } else { bit(second & 0xF) | bit(second >> 8 & 0xF) | bit(to) };
            let read = if first & 1 << 4 == 0 { result } else { bit(to) | bit(second >> 8 & 0xF) };
            Does::Writes(read | moved)
        }
        _ if first & 0xFE50 == 0xE810 => Does::Writes(second | moved),
        _ if first & 0xFE50 == 0xE800 => Does::Writes(moved),
        // Products and divisions write one register, or two; bit fields and extensions one.
        _ if first & 0xFF00 == 0xFB00 => Does::Writes(bit(to) | bit(second >> 8 & 0xF)),
        _ if first & 0xFF00 == 0xFA00 => Does::Writes(bit(second >> 8 & 0xF)),
        // Registers of the FPU, and VMOV to others.
        _ if first & 0xFFF0 == 0xEC50 => Does::Writes(bit(to) | bit(base)),
        _ if first & 0xEE00 == 0xEC00 => Does::Writes(moved),
        _ if first & 0xEE00 == 0xEE00 => Does::Writes(bit(to)),
        _ => by_step(first, second, at),
    }
}

/// The same by what a loop is looked at for. What others write is not known.
fn by_step(first: u16, second: u16, at: Addr) -> Does {
    match polling::step(first, second, at) {
        Some(Step::Literal(to, place)) => Does::Literal { to, place },
        Some(Step::Sets(to, value)) => Does::Sets { to, value, is_top: false },
        Some(Step::SetsTop(to, value)) => Does::Sets { to, value, is_top: true },
        Some(Step::Writes(Some(to)) | Step::Loads(to)) => Does::Writes(bit(to)),
        Some(Step::Writes(None) | Step::Branches(_) | Step::Stores) => Does::Writes(0),
        None => Does::Writes(u16::MAX),
    }
}

#[cfg(test)]
mod tests;
