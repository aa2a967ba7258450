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
            first if first & 0xFE50 == 0xE810 => self.second & 0x8000 != 0,
            _ => false,
        }
    }

    /// A jump through a table: TBB, TBH. Where it leads to is among the code.
    const fn is_table(&self) -> bool {
        self.first & 0xFFF0 == 0xE8D0 && self.second & 0xFFE0 == 0xF000
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

    /// The last instruction in front of an address that writes a register.
    fn writer(&self, register: u16, before: Addr) -> Option<(Addr, Does)> {
        let all = self.before.iter().rev().filter(|line| line.at < before).map(|line| (line.at, line.does(register)));
        all.into_iter().find(|(_, does)| does.written() & bit(register) != 0)
    }

    /// What a register held in front of the instruction at an address.
    fn value(&self, register: u16, at: Addr, deep: u8) -> Option<u64> {
        let deep = deep.checked_sub(1)?;
        let last = self.writer(register, END).map(|(writer, _)| writer);
        if last.is_none_or(|last| last < at) {
            return self.now(register);
        }
        let (writer, does) = self.writer(register, at)?;
        match does {
            Does::Loads { .. } => (self.code.word)(self.place(&does, writer, deep)?).map(u64::from),
            Does::Literal { place, .. } => (self.code.word)(place).map(u64::from),
            Does::Sets { value, is_top: false, .. } => Some(value),
            Does::Sets { value, .. } => Some(value << 16 | self.value(register, writer, deep)? & 0xFFFF),
            Does::Moves { from, plus, .. } => Some(cut(self.value(from, writer, deep)?.wrapping_add_signed(plus))),
            Does::Writes(_) => None,
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
        0x5000..=0x8FFF => first >> 3 & 7,
        0xC000..=0xCFFF => first >> 8 & 7,
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
mod tests {
    use super::*;

    /// The pointer of the last instruction.
    fn pointer_of(code: &[u16], values: &[(&str, u64)], words: &[(Addr, u32)]) -> Option<(Addr, u64)> {
        let bytes: Vec<u8> = code.iter().flat_map(|half| half.to_le_bytes()).collect();
        let mut registers = Registers::new(Architecture::CortexM);
        values.iter().for_each(|(name, value)| assert!(registers.set(name, *value)));
        let word = |at: Addr| words.iter().find(|(place, _)| *place == at).map(|(_, word)| *word);
        Code { at: registers.pc()?, registers: &registers, from: 0x100, code: &bytes, word: &word }
            .pointer()
            .map(|read| (read.place, read.value))
    }

    #[test]
    fn a_pointer_that_was_read_from_a_member() {
        // ldr r3, [r0, #8]; movs r2, #1; str r2, [r3]
        let code = [0x6883, 0x2201, 0x601A];
        let values = [("pc", 0x104), ("r0", 0x2000_0100), ("r3", 0xDEAD_0000)];
        let of = |word| pointer_of(&code, &values, &[(0x2000_0108, word)]);
        assert_eq!(of(0xDEAD_0000), Some((0x2000_0108, 0xDEAD_0000)));
        assert_eq!(of(0xDEAD_0004), None, "it was changed since");
    }

    #[test]
    fn a_pointer_that_was_read_through_a_global_one() {
        // ldr r3, [pc, #8]; ldr r3, [r3]; ldr r3, [r3, #4]; ldr r0, [r3, #12]; bx lr; then the constant
        let code = [0x4B02, 0x681B, 0x685B, 0x68D8, 0x4770, 0xBF00, 0x0040, 0x2000];
        let words = [(0x10C, 0x2000_0040), (0x2000_0040, 0x2000_0500), (0x2000_0504, 0xFFFF_0000)];
        let found = pointer_of(&code, &[("pc", 0x106), ("r3", 0xFFFF_0000)], &words);
        assert_eq!(found, Some((0x2000_0504, 0xFFFF_0000)));
    }

    #[test]
    fn a_function_that_was_called_through_a_member() {
        // mov r4, r0; ldr r3, [r4, #16]; mov r0, r4; blx r3
        let code = [0x4604, 0x6923, 0x4620, 0x4798];
        let values = [("pc", 0x106), ("r4", 0x2000_0200), ("r3", 0x1235)];
        assert_eq!(pointer_of(&code, &values, &[(0x2000_0210, 0x1235)]), Some((0x2000_0210, 0x1235)));
    }

    #[test]
    fn pointers_that_were_read_with_others() {
        // ldrd r1, r0, [r4, #12]; adds r0, #1; blx r1
        let values = [("pc", 0x106), ("r4", 0x2000_0200), ("r1", 0x1235)];
        assert_eq!(
            pointer_of(&[0xE9D4, 0x1003, 0x3001, 0x4788], &values, &[(0x2000_020C, 0x1235)]).map(|p| p.0),
            Some(0x2000_020C)
        );
        // ldmia r4, {r1, r3}; blx r3
        let values = [("pc", 0x102), ("r4", 0x2000_0200), ("r3", 0x1235)];
        assert_eq!(pointer_of(&[0xCC0A, 0x4798], &values, &[(0x2000_0204, 0x1235)]), None, "it changes its base");
        // ldmia.w r4, {r1, r3}; blx r3
        let values = [("pc", 0x104), ("r4", 0x2000_0200), ("r3", 0x1235)];
        let found = pointer_of(&[0xE894, 0x000A, 0x4798], &values, &[(0x2000_0204, 0x1235)]);
        assert_eq!(found.map(|p| p.0), Some(0x2000_0204));
    }

    /// A branch from behind, a return between the two, and IT blocks.
    #[test]
    fn the_load_of_another_path_was_taken() {
        let words = [(0x2000_0000, 0), (0x2000_0004, 0), (0x2000_0100, 0), (0x2000_0104, 0)];
        let of = |code: &[u16], at: Addr| {
            let values = [("pc", at), ("r0", 0x2000_0000), ("r1", 0x2000_0100), ("r2", 1), ("r3", 0)];
            pointer_of(code, &values, &words).map(|p| p.0)
        };
        // ldr r3, [r0]; cbz r1, to the last; ldr r3, [r0, #4]; str r1, [r3]
        assert_eq!(of(&[0x6803, 0xB101, 0x6843, 0x6019], 0x106), None);
        assert_eq!(of(&[0x6803, 0xBF00, 0x6843, 0x6019], 0x106), Some(0x2000_0004));
        // cbz r2, L; ldr r3, [r0, #4]; X: str r2, [r3]; bx lr; L: ldr r3, [r1, #4]; b X
        assert_eq!(of(&[0xB112, 0x6843, 0x601A, 0x4770, 0x684B, 0xE7FB], 0x104), None);
        // ldr r3, [r0]; bx lr; X: str r2, [r3]; b X
        assert_eq!(of(&[0x6803, 0x4770, 0x601A, 0xE7FD], 0x104), None);
        // ldr r3, [r0]; bx lr; str r2, [r3]
        assert_eq!(of(&[0x6803, 0x4770, 0x601A], 0x104), None);
        // ite ne; ldrne r3, [r0]; ldreq r3, [r1]; str r2, [r3]
        assert_eq!(of(&[0xBF14, 0x6803, 0x680B, 0x601A], 0x106), None);
        // cbz r2, behind; ldr r3, [r0]; str r2, [r3]; nop
        assert_eq!(of(&[0xB10A, 0x6803, 0x601A, 0xBF00], 0x104), Some(0x2000_0000), "it was not taken");
    }

    #[test]
    fn the_structure_of_another_register_was_named() {
        let base = |code: &[u16], at: Addr, words: &[(Addr, u32)]| {
            let bytes: Vec<u8> = code.iter().flat_map(|half| half.to_le_bytes()).collect();
            let mut registers = Registers::new(Architecture::CortexM);
            let values = [("r0", 0x2000_0100), ("r3", 0xDEAD_0000), ("r4", 0xDEAD_0000)];
            values.iter().for_each(|(name, value)| assert!(registers.set(name, *value)));
            let word = |at: Addr| words.iter().find(|(place, _)| *place == at).map(|(_, word)| *word);
            let read = Code { at, registers: &registers, from: 0x100, code: &bytes, word: &word }.pointer()?;
            Some((read.place, read.base))
        };
        // ldr r4, [r5]; ldr r3, [r0, #8]; mov r4, r3; str r1, [r4]
        let words = [(0x2000_0108, 0xDEAD_0000)];
        assert_eq!(base(&[0x682C, 0x6883, 0x461C, 0x6021], 0x106, &words), Some((0x2000_0108, None)));
        // ldr r3, [pc, #8]; ldr r3, [r3]; ldr r3, [r3, #4]; str r0, [r3]; bx lr; then the constant
        let code = [0x4B02, 0x681B, 0x685B, 0x6018, 0x4770, 0xBF00, 0x0040, 0x2000];
        let words = [(0x10C, 0x2000_0040), (0x2000_0040, 0x2000_0500), (0x2000_0504, 0xDEAD_0000)];
        assert_eq!(base(&code, 0x106, &words), Some((0x2000_0504, Some(0x2000_0040))));
    }

    #[test]
    fn a_stack_pointer_that_was_moved_was_taken_for_the_one_of_the_load() {
        // ldr r3, [sp, #4]; pop {r4}; bx r3
        let values = [("pc", 0x104), ("sp", 0x2000_1004), ("r3", 0)];
        assert_eq!(pointer_of(&[0x9B01, 0xBC10, 0x4718], &values, &[(0x2000_1008, 0), (0x2000_1004, 0)]), None);
    }

    #[test]
    fn what_a_call_returned_was_read_from_nowhere_that_is_known() {
        // ldr r0, [r4]; bl; str r1, [r0]
        let code = [0x6820, 0xF000, 0xF800, 0x6001];
        let values = [("pc", 0x106), ("r4", 0x2000_0200), ("r0", 7)];
        assert_eq!(pointer_of(&code, &values, &[(0x2000_0200, 7)]), None);
    }

    #[test]
    fn any_code_is_survived() {
        let mut state = 11_u32;
        for _ in 0..2000 {
            let mut next = || {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 16) as u16
            };
            let code: Vec<u16> = (0..32).map(|_| next()).collect();
            let pc = 0x100 + u64::from(next() >> 10) * 2;
            let _ = pointer_of(&code, &[("pc", pc), ("r0", 0), ("r1", 0xFFFF_FFFF), ("r3", 4)], &[(4, 4), (0, 0)]);
        }
    }
}
