//! Thumb code (Armv7-M Architecture Reference Manual, A5, A7).

use super::super::instruction::long_branch;
use super::super::polling::{self, Step, Walk};
use super::super::steps;
use super::{Code, Does, Instruction, Line, Table, bit};
use crate::abi::{Addr, Endian};

/// What a call may change: r0 to r3, r12 and lr (Procedure Call Standard for the Arm Architecture, 6.1.1).
const BY_CALLS: u32 = 0x500F;

pub(super) fn lines(code: &Code<'_>) -> Option<Vec<Line>> {
    let end = code.from.checked_add(u64::try_from(code.code.len()).ok()?)?;
    let walk = Walk { at: code.from, end, from: code.from, code: code.code };
    let mut block = 0_u32;
    let line = |(at, first, second): (Addr, u16, u16)| {
        let is_conditional = block > 0;
        block = block.saturating_sub(1);
        if is_it(first) {
            block = length_of_block(first);
        }
        Line { at, instruction: Instruction::Thumb { first, second, is_conditional } }
    };
    Some(walk.map(line).collect())
}

/// True for IT: the instructions behind it are carried out on a condition.
pub(super) const fn is_it(first: u16) -> bool {
    first & 0xFF00 == 0xBF00 && first & 0xF != 0
}

/// The number of these instructions.
pub(super) const fn length_of_block(it: u16) -> u32 {
    4_u32.saturating_sub((it & 0xF).trailing_zeros())
}

/// Where it may branch to.
pub(super) fn target(first: u16, second: u16, at: Addr) -> Option<Addr> {
    let long = || long_branch(first, second, at.checked_add(4)?).filter(|_| second & 0x4000 == 0);
    polling::target(first, second, at).or_else(long)
}

/// True for what does not go on at the next instruction.
pub(super) const fn leaves(first: u16, second: u16) -> bool {
    match first {
        0xE000..=0xE7FF | 0xBD00..=0xBDFF | 0xDE00..=0xDEFF => true,
        first if first & 0xFF80 == 0x4700 || first & 0xFF87 == 0x4687 => true,
        first if first & 0xF800 == 0xF000 => second & 0xD000 == 0x9000,
        _ if is_popped(first, second) => true,
        first if first & 0xFE50 == 0xE810 => second & 0x8000 != 0,
        _ => false,
    }
}

/// A jump whose targets are not known: through a table, as TBB, TBH and loads of pc, and the end of a loop of Armv8.1-M (LE).
pub(super) const fn is_table(first: u16, second: u16) -> bool {
    match first {
        0x46F7 => false,
        // BX of another register than lr: to a label whose address the code has.
        _ if first & 0xFF87 == 0x4700 && first != 0x4770 => true,
        _ if first & 0xFF87 == 0x4687 || first & 0xFF87 == 0x4487 => true,
        0xF00F | 0xF01F | 0xF02F => second & 0xF000 == 0xC000,
        _ if first & 0xFFF0 == 0xE8D0 => second & 0xFFE0 == 0xF000,
        _ => first & 0xFF70 == 0xF850 && second >> 12 == 15 && !is_popped(first, second),
    }
}

/// The most instructions between the comparison and the jump through a table.
const NEAR: usize = 4;

/// The jump of TBB or TBH through the table behind it, as long as the comparison in front of it says.
pub(super) fn table(line: &Line, all: &[Line], code: &Code<'_>) -> Option<Table> {
    let Instruction::Thumb { first: 0xE8DF, second, .. } = line.instruction else { return None };
    let (index, is_half) = (second & 0xF, second & 0x10 != 0);
    let first_of = |line: &Line| if let Instruction::Thumb { first, .. } = line.instruction { first } else { 0 };
    let before: Vec<u16> = all.iter().rev().filter(|other| other.at < line.at).take(NEAR).map(first_of).collect();
    // CMP of the index, and BHI behind it.
    let compares =
        |pair: &&[u16]| matches!(pair, [branch, compare] if branch >> 8 == 0xD8 && compare >> 8 == 0x28 | index);
    let pair = before.windows(2).find(compares).filter(|_| index < 8)?;
    let count = u64::from(pair.last()? & 0xFF).checked_add(1)?;
    let start = line.at.checked_add(4)?;
    let byte = |at: Addr| code.code.get(usize::try_from(at.checked_sub(code.from)?).ok()?).copied();
    let target = |n: u64| {
        let at = start.checked_add(if is_half { n << 1 } else { n })?;
        let high = if is_half { byte(at.checked_add(1)?)? } else { 0 };
        start.checked_add(u64::from(u16::from_le_bytes([byte(at)?, high])) << 1)
    };
    let len = if is_half { count << 1 } else { count };
    let targets = (0..count).map(target).collect::<Option<Vec<Addr>>>()?;
    Some(Table { at: line.at, targets, bytes: start..start.checked_add(len.next_multiple_of(2))? })
}

/// LDR of pc from the top of the stack: a return.
const fn is_popped(first: u16, second: u16) -> bool {
    first == 0xF85D && second == 0xFB04
}

/// True where it may write memory, itself or by a call.
pub(super) const fn stores(first: u16, second: u16) -> bool {
    match first {
        0x5000..=0x55FF | 0x6000..=0x67FF | 0x7000..=0x77FF | 0x8000..=0x87FF | 0x9000..=0x97FF => true,
        0xB400..=0xB5FF | 0xC000..=0xC7FF | 0x4780..=0x47FF | 0xDF00..=0xDFFF => true,
        first if first & 0xF800 == 0xF000 => second & 0xD000 == 0xD000,
        first => first & 0xFE10 == 0xF800 || first & 0xFE10 == 0xE800 || first & 0xEE10 == 0xEC00,
    }
}

/// The register into which an instruction loads one word.
pub(in super::super) fn loaded_word(first: u16, second: u16) -> Option<u16> {
    match first {
        0x6800..=0x6FFF | 0x5800..=0x59FF => Some(first & 7),
        0x9800..=0x9FFF => Some(first >> 8 & 7),
        _ if first & 0xFFF0 == 0xF8D0 || first & 0xFFF0 == 0xF850 => Some(second >> 12).filter(|to| *to < 15),
        _ => None,
    }
}

/// The most instructions between a call and what reads its pointer: they set its arguments.
const ARGUMENTS: usize = 4;

/// The member that a call through a register was read from by one of the instructions in front of it, as its distance from the beginning
/// of its structure. `code`: up to the call and with it.
#[must_use]
pub fn called_member(code: &[u8]) -> Option<u64> {
    let back = |bytes: usize| Endian::Little.u16(code, code.len().checked_sub(bytes)?);
    let called = back(2).filter(|call| call & 0xFF87 == 0x4780)? >> 3 & 0xF;
    // LDR with an offset of words, of 16 bits and of 32.
    let loaded = |at: usize| {
        if back(at.checked_add(4)?).is_some_and(|first| first & 0xFFF0 == 0xF8D0) {
            let second = back(at.checked_add(2)?)?;
            return (second >> 12 == called).then_some(u64::from(second & 0xFFF));
        }
        let load = back(at.checked_add(2)?).filter(|load| load & 0xF800 == 0x6800 && load & 7 == called)?;
        Some(u64::from(load >> 6 & 0x1F) << 2)
    };
    let keeps = |at: usize| back(at.saturating_add(2)).is_some_and(|half| sets_another(half, called));
    let mut places = (2..).step_by(2).take(ARGUMENTS);
    places.find_map(|at| match loaded(at) {
        Some(member) => Some(Some(member)),
        None => (!keeps(at)).then_some(None),
    })?
}

/// True for an instruction that sets another low register: MOV, and LDR with an offset of words.
const fn sets_another(half: u16, register: u16) -> bool {
    match half {
        0x4600..=0x467F | 0x6800..=0x6FFF => half & 7 != register,
        0x2000..=0x27FF => half >> 8 & 7 != register,
        _ => false,
    }
}

/// The registers whose words an instruction stores, each with its distance from the address.
pub(in super::super) fn stored_words(first: u16, second: u16) -> Vec<(u16, Addr)> {
    match first {
        0x6000..=0x67FF => vec![(first & 7, 0)],
        0x9000..=0x97FF => vec![(first >> 8 & 7, 0)],
        0xC000..=0xC7FF => (0..8).filter(|register| first >> register & 1 == 1).zip((0..).step_by(4)).collect(),
        _ if first & 0xFFF0 == 0xF8C0 || first & 0xFFF0 == 0xF840 => vec![(second >> 12, 0)],
        // STRD.
        _ if first & 0xFF50 == 0xE940 => vec![(second >> 12, 0), (second >> 8 & 0xF, 4)],
        // STMIA.
        _ if first & 0xFFD0 == 0xE880 => (0..15).filter(|r| second >> r & 1 == 1).zip((0..).step_by(4)).collect(),
        _ => Vec::new(),
    }
}

/// True for PUSH, STMDB, STRD and STR beside the stack pointer.
pub(super) fn stores_in_stack(first: u16, second: u16) -> bool {
    matches!(first, 0xB400..=0xB5FF | 0xE92D | 0xE9CD | 0xE94D)
        || first & 0xFF3F == 0xED2D
        || first & 0xFF3F == 0xED0D
        || stored(first, second).is_some_and(|(base, _)| base == 13)
}

/// The register and the constant whose sum is the address that a store writes.
pub(super) fn stored(first: u16, second: u16) -> Option<(u16, i64)> {
    let (base, five) = (first >> 3 & 7, i64::from(first >> 6 & 0x1F));
    Some(match first {
        0x6000..=0x67FF => (base, five << 2),
        0x7000..=0x77FF => (base, five),
        0x8000..=0x87FF => (base, five << 1),
        0x9000..=0x97FF => (13, i64::from(first & 0xFF) << 2),
        _ if first & 0xFFF0 == 0xF8C0 => (first & 0xF, i64::from(second & 0xFFF)),
        _ => return None,
    })
}

const fn is_wide(first: u16) -> bool {
    first >> 11 >= 0b11101
}

/// The register that an instruction takes for an address: of a load or a store, or of a jump.
pub(super) fn pointer(first: u16, second: u16) -> Option<u16> {
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

/// The registers of which an instruction that accesses memory makes the address: the one that it takes for an address, and an index.
pub(in super::super) fn addressing(first: u16, second: u16) -> Option<(u16, Option<u16>)> {
    let is_indexed = first & 0xFE80 == 0xF800 && second & 0xFC0 == 0;
    match first {
        0x5000..=0x5FFF => Some((first >> 3 & 7, Some(first >> 6 & 7))),
        0x4700..=0x47FF => None,
        _ if is_indexed && first & 0xF < 13 => Some((first & 0xF, Some(second & 0xF))),
        _ => pointer(first, second).map(|base| (base, None)),
    }
}

/// The register by which UDIV or SDIV divides.
pub(super) fn divisor(first: u16, second: u16) -> Option<u16> {
    (first & 0xFFD0 == 0xFB90 && second & 0xF0F0 == 0xF0F0).then_some(second & 0xF)
}

/// What an instruction does: to this register, where it reads several.
pub(super) fn does(first: u16, second: u16, at: Addr, register: u16) -> Does {
    match several(first, second, register) {
        Some(loads) => loads,
        None if is_wide(first) => wide(first, second, at),
        None => narrow(first, at),
    }
}

/// The word that LDRD, LDMIA or LDMDB reads into a register.
fn several(first: u16, second: u16, register: u16) -> Option<Does> {
    let loads = |base, plus| Some(Does::Loads { to: register, base, plus, index: None });
    let below = |list: u16| i64::from((u32::from(list) & bit(register).wrapping_sub(1)).count_ones()) << 2;
    let is_in = |list: u16| u32::from(list) & bit(register) != 0;
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
        // LDRB and LDRH, with and without a sign.
        0x7800..=0x7FFF => Does::LoadsPart { to: low, base: middle, plus: five, index: None, bytes: 1 },
        0x8800..=0x8FFF => Does::LoadsPart { to: low, base: middle, plus: five << 1, index: None, bytes: 2 },
        0x5600..=0x57FF | 0x5C00..=0x5DFF => {
            Does::LoadsPart { to: low, base: middle, plus: 0, index: Some((third, 0)), bytes: 1 }
        }
        0x5A00..=0x5BFF | 0x5E00..=0x5FFF => {
            Does::LoadsPart { to: low, base: middle, plus: 0, index: Some((third, 0)), bytes: 2 }
        }
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
        0xBC00..=0xBDFF => Does::Writes(u32::from(word & 0xFF) | bit(13)),
        0xB000..=0xB0FF | 0xB400..=0xB5FF => Does::Writes(bit(13)),
        0x1800..=0x19FF => Does::Adds { to: low, base: middle, index: third, shift: 0 },
        0x4340..=0x437F => Does::Multiplies { to: low, one: low, other: middle },
        0x4400..=0x44FF => {
            let to = low | word >> 4 & 8;
            Does::Adds { to, base: to, index: word >> 3 & 0xF, shift: 0 }
        }
        0xBA00..=0xBAFF => Does::Writes(bit(low)),
        0xDF00..=0xDFFF => Does::Writes(BY_CALLS),
        // What writes no register: CPS, BKPT, hints, IT and CBZ.
        0xB600..=0xB6FF | 0xBE00..=0xBFFF | 0xB100..=0xB1FF | 0xB300..=0xB3FF | 0xB900..=0xB9FF | 0xBB00..=0xBBFF => {
            Does::Writes(0)
        }
        0xD000..=0xDEFF | 0xE000..=0xE7FF | 0x4700..=0x477F => Does::Writes(0),
        0xC000..=0xC7FF => Does::Writes(bit(word >> 8 & 7)),
        0xC800..=0xCFFF => Does::Writes(u32::from(word & 0xFF) | bit(word >> 8 & 7)),
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
        // LDRB, LDRH, LDRSB and LDRSH.
        _ if first & 0xFED0 == 0xF890 && base != 15 && to != 15 => {
            let bytes = if first & 1 << 5 == 0 { 1 } else { 2 };
            Does::LoadsPart { to, base, plus: i64::from(second & 0xFFF), index: None, bytes }
        }
        _ if first & 0xFED0 == 0xF810 && base != 15 && to != 15 && second & 0xFC0 == 0 => {
            let bytes = if first & 1 << 5 == 0 { 1 } else { 2 };
            Does::LoadsPart { to, base, plus: 0, index: Some((second & 0xF, second >> 4 & 3)), bytes }
        }
        // LDR of a word that moves its base: from where that points then, or pointed before.
        _ if first & 0xFFF0 == 0xF850 && base != 15 && to != 15 && to != base && second & 0x900 == 0x900 => {
            let by = if second & 1 << 9 == 0 { low.wrapping_neg() } else { low };
            Does::Moving { to, base, plus: if second & 1 << 10 == 0 { by.wrapping_neg() } else { 0 } }
        }
        // A load that changes its base.
        _ if first & 0xFE10 == 0xF810 && base != 15 && second & 0x900 == 0x900 => Does::Writes(bit(to) | bit(base)),
        // A store that changes its base.
        _ if first & 0xFE90 == 0xF800 && second & 0x900 == 0x900 => Does::Writes(bit(base)),
        // MOV.W of a register.
        _ if first & 0xFFEF == 0xEA4F && second & 0xF0F0 == 0 => {
            Does::Moves { to: second >> 8 & 0xF, from: second & 0xF, plus: 0 }
        }
        // ADD.W of two registers, the second one shifted to the left.
        _ if first & 0xFFE0 == 0xEB00 && base < 13 && second & 0x8030 == 0 && second >> 8 & 0xF != 15 => {
            let shift = second >> 10 & 0x1C | second >> 6 & 3;
            Does::Adds { to: second >> 8 & 0xF, base, index: second & 0xF, shift }
        }
        // LDRD and STRD; LDM and STM.
        _ if first & 0xFE40 == 0xE840 => {
            // STREX, and what else has these encodings, writes a register that is not the one that it stores.
            let is_plain = first & 1 << 8 != 0 || first & 1 << 5 != 0;
            let result = if is_plain { 0 } else { bit(second & 0xF) | bit(second >> 8 & 0xF) | bit(to) };
            let read = if first & 1 << 4 == 0 { result } else { bit(to) | bit(second >> 8 & 0xF) };
            Does::Writes(read | moved)
        }
        _ if first & 0xFE50 == 0xE810 => Does::Writes(u32::from(second) | moved),
        _ if first & 0xFE50 == 0xE800 => Does::Writes(moved),
        // MUL; with another register added it is none.
        _ if first & 0xFFF0 == 0xFB00 && second & 0xF0F0 == 0xF000 => {
            Does::Multiplies { to: second >> 8 & 0xF, one: base, other: second & 0xF }
        }
        // Products and divisions write one register, or two; bit fields and extensions one.
        _ if first & 0xFF00 == 0xFB00 => Does::Writes(bit(to) | bit(second >> 8 & 0xF)),
        _ if first & 0xFF00 == 0xFA00 => Does::Writes(bit(second >> 8 & 0xF)),
        // Registers of the FPU, and VMOV to others; VMRS to the flags.
        _ if first & 0xEF00 == 0xEE00 && second & 0xE00 == 0xA00 => {
            let reads = first >> 4 & second >> 4 & 1 == 1;
            Does::Writes(if reads && to != 15 { bit(to) } else { 0 })
        }
        _ if first & 0xFFF0 == 0xEC50 => Does::Writes(bit(to) | bit(base)),
        _ if first & 0xEE00 == 0xEC00 => Does::Writes(moved),
        _ if first & 0xEE00 == 0xEE00 => Does::Writes(bit(to)),
        // A critical section ends with it.
        _ if steps::writes_mask(first, second) => Does::Writes(0),
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
        None => Does::Writes(u32::MAX),
    }
}
