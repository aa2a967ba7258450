//! One instruction of Thumb code: what it does to values that are known, and where the code goes on. Encodings are those of the
//! Armv7-M Architecture Reference Manual (A5, A7).

use super::calls::Program;
use super::part::Part;
use super::polling::target;
use super::values::{Flags, SP, State, Value, expanded};
use crate::abi::Addr;

/// Where the code goes on.
pub(super) enum Flow {
    /// At the next instruction.
    Next,
    /// At an address, where a condition holds, else at the next instruction.
    Branch(Addr, Option<bool>),
    /// At an address in this state, or at the next instruction.
    Either(Addr, Box<State>),
    /// At the next instruction, in one of these ways of an IT block: whether each of its instructions is carried out.
    Select(Vec<Vec<bool>>),
    /// At an address, or where that is not known.
    Jump(Option<Addr>),
    /// At one of these.
    Jumps(Vec<Addr>),
    /// In a function, and then at the next instruction.
    Call(Option<Addr>),
    /// In the caller.
    Returns,
    /// Nowhere.
    Stops,
    /// It is not known where.
    Unknown,
}

mod numbers;
mod tables;

/// The most entries of a table of jumps.
pub(super) const ENTRIES: u32 = 256;

pub(super) const fn is_wide(first: u16) -> bool {
    first >> 11 >= 0b11101
}

/// Carries out an instruction.
pub(super) fn step(first: u16, second: u16, at: Addr, state: &mut State, program: &dyn Program) -> Flow {
    if is_wide(first) { wide(first, second, at, state, program) } else { narrow(first, at, state, program) }
}

/// True for an instruction of 16 bits that sets no flags in an IT block: there only comparisons and calls do.
pub(super) const fn keeps_flags(first: u16) -> bool {
    let compares =
        matches!(first, 0x2800..=0x2FFF | 0x4500..=0x45FF) || matches!(first & 0xFFC0, 0x4200 | 0x4280 | 0x42C0);
    !is_wide(first) && !compares && first & 0xFF80 != 0x4780
}

/// The special registers PRIMASK, BASEPRI, BASEPRI_MAX and FAULTMASK (Armv7-M Architecture Reference Manual, B5.1.1).
const MASKS: std::ops::RangeInclusive<u16> = 16..=19;

/// True for MSR to one of them.
pub(super) fn writes_mask(first: u16, second: u16) -> bool {
    first & 0xFFF0 == 0xF380 && second & 0xFF00 == 0x8800 && MASKS.contains(&(second & 0xFF))
}

/// Whether an instruction disables interrupts: CPS, and MSR to one of their masks (B5.2.1 and B5.2.3). One that writes what is not known
/// restores what was before.
pub(super) fn disables_interrupts(first: u16, second: u16, state: &State) -> Option<bool> {
    match first {
        0xB671..=0xB673 => Some(true),
        0xB661..=0xB663 => Some(false),
        _ if writes_mask(first, second) => Some(matches!(state.get(first & 0xF), Value::Is(mask) if mask != 0)),
        _ => None,
    }
}

/// The word that the code counts as its place.
fn near(at: Addr, offset: u32, adds: bool) -> u32 {
    let base = u32::try_from(at.wrapping_add(4) & 0xFFFF_FFFC).unwrap_or_default();
    if adds { base.wrapping_add(offset) } else { base.wrapping_sub(offset) }
}

fn literal(place: u32, program: &dyn Program) -> Value {
    program.constant(Addr::from(place)).map_or(Value::Unknown, Value::Is)
}

/// The word at an address: of the frame, or of what the program does not write.
fn load(at: Value, state: &State, program: &dyn Program) -> Value {
    match at {
        Value::Is(at) => literal(at, program),
        at => state.load(at),
    }
}

/// What a load of less than a word reads at an address.
fn load_part(part: Part, at: u32, program: &dyn Program) -> Value {
    let word = program.constant(Addr::from(at & !3));
    word.and_then(|word| part.within(word, at)).map_or(Value::Unknown, Value::Is)
}

fn go_to(value: Value) -> Flow {
    match value {
        Value::Return => Flow::Returns,
        value => Flow::Jump(value.known().map(Addr::from)),
    }
}

fn number(value: u16) -> Value {
    Value::Is(u32::from(value))
}

fn narrow(word: u16, at: Addr, state: &mut State, program: &dyn Program) -> Flow {
    let (low, middle) = (word & 7, word >> 3 & 7);
    if matches!(word, 0xD000..=0xDDFF) {
        let holds = state.holds(word >> 8 & 0xF);
        return target(word, 0, at).map_or(Flow::Unknown, |to| Flow::Branch(to, holds));
    }
    match word {
        0x0000..=0x1FFF => arithmetic(word, state),
        0x2000..=0x3FFF => immediate(word, state),
        0x4000..=0x43FF => data(word, state),
        0x4400..=0x47FF => return high(word, at, state),
        0x4800..=0x4FFF => {
            let value = literal(near(at, u32::from(word & 0xFF) << 2, true), program);
            state.set(word >> 8 & 7, value);
        }
        0x5000..=0x8FFF => access(word, state, program),
        0x9000..=0x9FFF => {
            let place = state.get(SP).plus(number((word & 0xFF) << 2));
            let register = word >> 8 & 7;
            if word & 1 << 11 == 0 {
                state.store(place, state.get(register));
            } else {
                state.set(register, load(place, state, program));
            }
        }
        0xA000..=0xA7FF => state.set(word >> 8 & 7, Value::Is(near(at, u32::from(word & 0xFF) << 2, true))),
        0xA800..=0xAFFF => state.set(word >> 8 & 7, state.get(SP).plus(number((word & 0xFF) << 2))),
        0xB000..=0xB07F => state.set(SP, state.get(SP).plus(number((word & 0x7F) << 2))),
        0xB080..=0xB0FF => state.set(SP, state.get(SP).minus(number((word & 0x7F) << 2))),
        0xB100..=0xB1FF | 0xB300..=0xB3FF | 0xB900..=0xB9FF | 0xBB00..=0xBBFF => {
            let value = state.get(low);
            let is_zero = value.known().map(|value| value == 0).or_else(|| state.equal(value, Value::Is(0)));
            let holds = is_zero.map(|is_zero| is_zero != (word & 1 << 11 != 0));
            return target(word, 0, at).map_or(Flow::Unknown, |to| Flow::Branch(to, holds));
        }
        0xB200..=0xB2FF => {
            let part = Part::of(if word >> 6 & 1 == 0 { 1 } else { 0 }, word >> 7 & 1 == 0);
            state.set(low, state.get(middle).map(|value| part.extended(value)));
        }
        0xB400..=0xB5FF => push(word & 0xFF | (word & 1 << 8) << 6, state),
        0xBC00..=0xBDFF => return pop(SP, true, word & 0xFF | (word & 1 << 8) << 7, state, program),
        0xBF00..=0xBFFF if word & 0xF != 0 => return Flow::Select(ways(word, state)),
        0xB600..=0xB6FF | 0xBE00..=0xBFFF => {}
        0xC000..=0xC7FF => multiple(word >> 8 & 7, word & 0xFF, state),
        0xC800..=0xCFFF => {
            let (base, list) = (word >> 8 & 7, word & 0xFF);
            return pop(base, list >> base & 1 == 0, list, state, program);
        }
        0xDE00..=0xDEFF => return Flow::Stops,
        0xDF00..=0xDFFF => [0, 1, 2, 3, 12].into_iter().for_each(|n| state.set(n, Value::Unknown)),
        0xE000..=0xE7FF => return target(word, 0, at).map_or(Flow::Unknown, |to| Flow::Jump(Some(to))),
        _ => state.forget(),
    }
    Flow::Next
}

/// Shifts, additions and subtractions of registers and of small constants.
fn arithmetic(word: u16, state: &mut State) {
    let (low, middle, third) = (word & 7, word >> 3 & 7, word >> 6 & 7);
    let of = state.get(middle);
    let other = if word & 1 << 10 == 0 { state.get(third) } else { number(third) };
    let value = match word >> 9 {
        0b1100 | 0b1110 => of.plus(other),
        0b1101 | 0b1111 => of.minus(other),
        _ => of.shifted(word >> 11, u32::from(word >> 6 & 0x1F)),
    };
    state.flags = match word >> 9 {
        0b1101 | 0b1111 => Flags::Compared(of, other),
        _ => Flags::Result(value),
    };
    state.set(low, value);
}

/// MOV, CMP, ADD and SUB of a constant of 8 bits.
fn immediate(word: u16, state: &mut State) {
    let (register, by) = (word >> 8 & 7, number(word & 0xFF));
    let of = state.get(register);
    let value = match word >> 11 & 3 {
        0 => by,
        1 => {
            state.flags = Flags::Compared(of, by);
            return;
        }
        2 => of.plus(by),
        _ => of.minus(by),
    };
    state.flags = if word >> 11 & 3 == 3 { Flags::Compared(of, by) } else { Flags::Result(value) };
    state.set(register, value);
}

/// Operations on two of the low registers.
fn data(word: u16, state: &mut State) {
    let (to, a, b) = (word & 7, state.get(word & 7), state.get(word >> 3 & 7));
    let value = match word >> 6 & 0xF {
        0 => a.with(b, |a, b| a & b),
        1 => a.with(b, |a, b| a ^ b),
        kind @ 2..=4 => numbers::shifted(kind.wrapping_sub(2), a, b),
        7 => numbers::shifted(3, a, b),
        8 => {
            state.flags = Flags::Result(a.with(b, |a, b| a & b));
            return;
        }
        9 => Value::Is(0).minus(b),
        10 => {
            state.flags = Flags::Compared(a, b);
            return;
        }
        11 => {
            state.flags = Flags::Unknown;
            return;
        }
        12 => a.with(b, |a, b| a | b),
        13 => a.with(b, u32::wrapping_mul),
        14 => a.with(b, |a, b| a & !b),
        15 => b.map(|b| !b),
        _ => Value::Unknown,
    };
    state.flags = Flags::Result(value);
    state.set(to, value);
}

/// ADD, CMP and MOV of all registers; BX and BLX.
fn high(word: u16, at: Addr, state: &mut State) -> Flow {
    let (to, from) = (word & 7 | word >> 4 & 8, word >> 3 & 0xF);
    let get = |register: u16| if register == 15 { Value::Is(near(at, 0, true)) } else { state.get(register) };
    let (a, b) = (get(to), get(from));
    match word >> 8 & 3 {
        0 if to == 15 => return Flow::Unknown,
        0 => state.set(to, a.plus(b)),
        1 => state.flags = Flags::Compared(a, b),
        2 if to == 15 => return if b == Value::Unknown { Flow::Unknown } else { go_to(b) },
        2 => state.set(to, b),
        _ if word & 1 << 7 != 0 => return Flow::Call(b.known().map(Addr::from)),
        _ => return go_to(b),
    }
    Flow::Next
}

/// Loads and stores of the low registers.
fn access(word: u16, state: &mut State, program: &dyn Program) {
    let (register, base, offset) = (word & 7, state.get(word >> 3 & 7), word >> 6 & 0x1F);
    let by_register = || base.plus(state.get(word >> 6 & 7));
    let is_read = word & 1 << 11 != 0;
    let (place, is_read, part) = match word >> 11 {
        0b01010 | 0b01011 => {
            let kind = word >> 9 & 7;
            let size = match kind {
                0 | 4 => 2,
                1 | 5 | 7 => 1,
                _ => 0,
            };
            (by_register(), kind >= 3, Part::of(size, matches!(kind, 3 | 7)))
        }
        0b01100 | 0b01101 => (base.plus(number(offset << 2)), is_read, Part::WORD),
        0b01110 | 0b01111 => (base.plus(number(offset)), is_read, Part::of(0, false)),
        _ => (base.plus(number(offset << 1)), is_read, Part::of(1, false)),
    };
    transfer(register, place, is_read, part, state, program);
}

fn transfer(register: u16, at: Value, is_read: bool, part: Part, state: &mut State, program: &dyn Program) {
    state.reads_unknown |= is_read && !matches!(at, Value::Is(_) | Value::Frame(_));
    match (is_read, part.bits, at) {
        (true, 32, at) => state.set(register, load(at, state, program)),
        (true, _, Value::Is(at)) => state.set(register, load_part(part, at, program)),
        (true, ..) => state.set(register, Value::Unknown),
        (false, 32, at) => state.store(at, state.get(register)),
        (false, bits, at) => state.store_part(at, state.get(register), if bits == 8 { 1 } else { 2 }),
    }
}

/// The registers of a list, the lowest first.
fn listed(list: u16) -> impl Iterator<Item = u16> {
    (0..16).filter(move |n| list >> n & 1 == 1)
}

fn push(list: u16, state: &mut State) {
    let bytes = u16::try_from(list.count_ones()).unwrap_or_default() << 2;
    let mut at = state.get(SP).minus(number(bytes));
    state.set(SP, at);
    for register in listed(list) {
        state.store(at, state.get(register));
        at = at.plus(number(4));
    }
}

/// Stores of several registers upwards.
fn multiple(base: u16, list: u16, state: &mut State) {
    let mut at = state.get(base);
    for register in listed(list) {
        state.store(at, state.get(register));
        at = at.plus(number(4));
    }
    state.set(base, at);
}

/// Loads of several registers.
fn pop(base: u16, writes_back: bool, list: u16, state: &mut State, program: &dyn Program) -> Flow {
    let mut at = state.get(base);
    state.reads_unknown |= !matches!(at, Value::Is(_) | Value::Frame(_));
    let mut goes_to = None;
    for register in listed(list) {
        let value = load(at, state, program);
        at = at.plus(number(4));
        if register == 15 {
            goes_to = Some(value);
        } else {
            state.set(register, value);
        }
    }
    if writes_back {
        state.set(base, at);
    }
    match goes_to {
        // What is popped is a return address, whether it was followed or not.
        Some(_) => Flow::Returns,
        None => Flow::Next,
    }
}

/// Which of the instructions of an IT block are carried out, as far as its condition is known.
fn ways(word: u16, state: &State) -> Vec<Vec<bool>> {
    let (condition, mask) = (word >> 4 & 0xF, word & 0xF);
    let count = 4u32.saturating_sub(mask.trailing_zeros());
    let same = |n: u32| n == 0 || mask >> 4u32.saturating_sub(n) & 1 == condition & 1;
    let way = |holds: bool| (0..count).map(|n| same(n) == holds).collect();
    match state.holds(condition) {
        Some(holds) => vec![way(holds)],
        None => vec![way(true), way(false)],
    }
}

fn wide(first: u16, second: u16, at: Addr, state: &mut State, program: &dyn Program) -> Flow {
    if first & 0xF800 == 0xF000 && second & 1 << 15 != 0 {
        return control(first, second, at, state);
    }
    match first {
        0xE8D0..=0xE8DF if second & 0xFFE0 == 0xF000 => return tables::distances(first, second, at, state, program),
        0xF850..=0xF85E if second & 0xFFC0 == 0xF000 => return tables::words(first, second, state, program),
        _ if first & 0xFE40 == 0xE800 => return several(first, second, state, program),
        _ if first & 0xFE40 == 0xE840 => pair(first, second, state, program),
        _ if first & 0xFE00 == 0xEA00 => shifted(first, second, state),
        _ if first & 0xF800 == 0xF000 => constant(first, second, at, state),
        _ if first & 0xFE00 == 0xF800 => return single(first, second, at, state, program),
        _ if first & 0xFF00 == 0xFB00 => numbers::product(first, second, state),
        _ if first & 0xFF00 == 0xFA00 => numbers::moved(first, second, state),
        _ if first & 0xEC00 == 0xEC00 => float(first, second, state),
        _ => state.forget(),
    }
    Flow::Next
}

/// Of the floating-point unit, and other coprocessors (Armv7-M Architecture Reference Manual, A6.4 to A6.7).
fn float(first: u16, second: u16, state: &mut State) {
    let bytes = number((second & 0xFF) << 2);
    match first & 0xFFBF {
        // VPUSH and VPOP.
        0xED2D => return state.set(SP, state.get(SP).minus(bytes)),
        0xECBD => return state.set(SP, state.get(SP).plus(bytes)),
        _ => {}
    }
    // VSTR and VSTM: at an address that is near that of the register.
    if first & 0xFE10 == 0xEC00 && matches!(state.get(first & 0xF), Value::Frame(_)) {
        state.forget_slots();
    }
    let (to, other) = (second >> 12, first & 0xF);
    // The coprocessors 10 and 11 are the floating-point unit. Of another it is not known which registers are written.
    let written = match (second & 0xE00 == 0xA00, first & 0xFF00, second >> 4 & 1) {
        (false, ..) => {
            state.flags = if first & 0xFF00 == 0xEE00 { Flags::Unknown } else { state.flags };
            [Some(to), Some(other)]
        }
        // Arithmetic, whose registers are those of the unit.
        (_, 0xEE00 | 0xFE00, 0) => [None, None],
        // VMOV and VMRS, which write one register, or the flags, where they read the unit.
        (_, 0xEE00, _) => {
            let reads = first >> 4 & 1 == 1;
            state.flags = if reads && to == 15 { Flags::Unknown } else { state.flags };
            [reads.then_some(to).filter(|to| *to != 15), None]
        }
        // VMOV of two registers.
        (_, 0xEC00, _) if first & 0xFFE0 == 0xEC40 => {
            let reads = first >> 4 & 1 == 1;
            [reads.then_some(to), reads.then_some(other)]
        }
        // VLDR, VSTR, VLDM and VSTM: the last two may change the register with the address.
        (_, 0xEC00 | 0xED00, _) => [None, (first >> 5 & 1 == 1).then_some(other)],
        _ => [Some(to), Some(other)],
    };
    written.into_iter().flatten().filter(|n| *n != SP).for_each(|n| state.set(n, Value::Unknown));
}

/// Branches, calls, and instructions of the system.
fn control(first: u16, second: u16, at: Addr, state: &mut State) -> Flow {
    let next = at.wrapping_add(4);
    match second & 0xD000 {
        0xD000 | 0x9000 => {
            let sign = i64::from(first >> 10 & 1);
            let one = |shift: u16| i64::from(second >> shift & 1) ^ sign ^ 1;
            let low = i64::from(first & 0x3FF) << 12 | i64::from(second & 0x7FF) << 1;
            let offset = (one(13) << 23 | one(11) << 22 | low).wrapping_sub(sign << 24);
            let to = next.wrapping_add_signed(offset) & 0xFFFF_FFFF;
            if second & 1 << 14 == 0 { Flow::Jump(Some(to)) } else { Flow::Call(Some(to)) }
        }
        0xC000 => Flow::Call(None),
        _ if first >> 6 & 0xF < 14 => {
            let holds = state.holds(first >> 6 & 0xF);
            target(first, second, at).map_or(Flow::Unknown, |to| Flow::Branch(to, holds))
        }
        _ if first & 0xFFF0 == 0xF7F0 && second & 0xF000 == 0xA000 => Flow::Stops,
        _ => {
            match first {
                0xF3EF => state.set(second >> 8 & 0xF, Value::Unknown),
                // MSR may write the flags.
                0xF380..=0xF38F => state.flags = Flags::Unknown,
                _ => {}
            }
            Flow::Next
        }
    }
}

/// LDM, STM, PUSH and POP.
fn several(first: u16, second: u16, state: &mut State, program: &dyn Program) -> Flow {
    let (base, is_read, is_up) = (first & 0xF, first & 1 << 4 != 0, first & 1 << 7 != 0);
    let writes_back = first & 1 << 5 != 0;
    match (is_read, is_up) {
        (true, true) => pop(base, writes_back, second, state, program),
        (true, false) => {
            listed(second & 0x7FFF).for_each(|n| state.set(n, Value::Unknown));
            if second >> 15 == 1 { Flow::Returns } else { Flow::Next }
        }
        (false, _) if base == SP && writes_back && !is_up => {
            push(second, state);
            Flow::Next
        }
        (false, _) => {
            let before = state.get(base);
            multiple(base, second, state);
            if !writes_back || !is_up {
                state.set(base, if writes_back { Value::Unknown } else { before });
            }
            Flow::Next
        }
    }
}

/// LDRD and STRD; the exclusive ones.
fn pair(first: u16, second: u16, state: &mut State, program: &dyn Program) {
    let (is_read, adds) = (first & 1 << 4 != 0, first & 1 << 7 != 0);
    let (indexed, writes_back) = (first & 1 << 8 != 0, first & 1 << 5 != 0);
    if !indexed && !writes_back {
        // LDREX, STREX and their kin: those of words alone have an offset. TT of an Armv8-M (C2.4.247) is no store.
        let is_word = first & 1 << 7 == 0;
        if !(is_read || is_word && second >> 12 == 15) {
            let offset = if is_word { (second & 0xFF) << 2 } else { 0 };
            let place = state.get(first & 0xF).plus(number(offset));
            state.store_part(place, Value::Unknown, 4);
        }
        [second >> 12, second >> 8 & 0xF, second & 0xF].into_iter().for_each(|n| state.set(n, Value::Unknown));
        return;
    }
    let (base, offset) = (first & 0xF, number((second & 0xFF) << 2));
    let moved = if adds { state.get(base).plus(offset) } else { state.get(base).minus(offset) };
    let place = if indexed { moved } else { state.get(base) };
    if writes_back {
        state.set(base, moved);
    }
    transfer(second >> 12, place, is_read, Part::WORD, state, program);
    transfer(second >> 8 & 0xF, place.plus(number(4)), is_read, Part::WORD, state, program);
}

/// Operations on registers of which one is shifted.
fn shifted(first: u16, second: u16, state: &mut State) {
    let (from, to, sets) = (first & 0xF, second >> 8 & 0xF, first & 1 << 4 != 0);
    // CSEL and its kin, and shifts of two registers (Armv8-M Architecture Reference Manual, C1.5).
    if second >> 15 == 1 || first & 0xFFF0 == 0xEA50 && matches!(second & 0xF, 13 | 15) {
        let written = if second >> 15 == 1 { [to, to] } else { [from & 0xE, to | 1] };
        written.into_iter().for_each(|n| state.set(n, Value::Unknown));
        return;
    }
    let by = u32::from(second >> 12 & 7) << 2 | u32::from(second >> 6 & 3);
    let other = state.get(second & 0xF).shifted(second >> 4, by);
    operate(first >> 5 & 0xF, (from, to), other, sets, state);
}

/// `operation`: the bits that say which (Armv7-M Architecture Reference Manual, A5.3.1 and A5.3.11).
fn operate(operation: u16, (from, to): (u16, u16), other: Value, sets: bool, state: &mut State) {
    let of = if from == 15 { Value::Unknown } else { state.get(from) };
    let value = match operation {
        0 => of.with(other, |a, b| a & b),
        1 => of.with(other, |a, b| a & !b),
        2 if from == 15 => other,
        2 => of.with(other, |a, b| a | b),
        3 if from == 15 => other.map(|b| !b),
        3 => of.with(other, |a, b| a | !b),
        4 => of.with(other, |a, b| a ^ b),
        8 => of.plus(other),
        13 => of.minus(other),
        14 => other.minus(of),
        _ => Value::Unknown,
    };
    if sets {
        state.flags = if operation == 13 { Flags::Compared(of, other) } else { Flags::Result(value) };
    }
    if to != 15 {
        state.set(to, value);
    }
}

/// Operations with a constant.
fn constant(first: u16, second: u16, at: Addr, state: &mut State) {
    let (from, to) = (first & 0xF, second >> 8 & 0xF);
    if first & 1 << 9 == 0 {
        return operate(first >> 5 & 0xF, (from, to), Value::Is(expanded(first, second)), first & 1 << 4 != 0, state);
    }
    let low = u32::from(first >> 10 & 1) << 11 | u32::from(second >> 12 & 7) << 8 | u32::from(second & 0xFF);
    let long = u32::from(from) << 12 | low;
    let of = if from == 15 { Value::Is(near(at, 0, true)) } else { state.get(from) };
    let value = match first & 0xFBF0 {
        0xF240 => Value::Is(long),
        0xF2C0 => state.get(to).map(|value| long << 16 | value & 0xFFFF),
        0xF200 => of.plus(Value::Is(low)),
        0xF2A0 => of.minus(Value::Is(low)),
        _ => numbers::bits(first, second, of, state.get(to)),
    };
    state.set(to, value);
}

/// Loads and stores of one register.
fn single(first: u16, second: u16, at: Addr, state: &mut State, program: &dyn Program) -> Flow {
    let (is_read, register, base) = (first & 1 << 4 != 0, second >> 12, first & 0xF);
    let part = Part::of(first >> 5 & 3, first & 1 << 8 != 0);
    let is_word = part.bits == 32;
    let low = number(second & 0xFF);
    let (place, moved) = if base == 15 {
        (Value::Is(near(at, u32::from(second & 0xFFF), first & 1 << 7 != 0)), None)
    } else if first & 1 << 7 != 0 {
        (state.get(base).plus(number(second & 0xFFF)), None)
    } else if second & 1 << 11 != 0 {
        let (adds, indexed) = (second & 1 << 9 != 0, second & 1 << 10 != 0);
        let moved = if adds { state.get(base).plus(low) } else { state.get(base).minus(low) };
        (if indexed { moved } else { state.get(base) }, (second & 1 << 8 != 0).then_some(moved))
    } else {
        let by = state.get(second & 0xF).shifted(0, u32::from(second >> 4 & 3));
        (state.get(base).plus(by), None)
    };
    // Only of pc: other registers have their turn below.
    let value = if is_read && register == 15 && is_word { load(place, state, program) } else { Value::Unknown };
    // The base is that of POP, and the other adds 4 and is not indexed.
    let is_pop = base == SP && moved.is_some();
    if let Some(moved) = moved.filter(|_| base != 15) {
        state.set(base, moved);
    }
    match (is_read, register) {
        (true, 15) if !is_word => Flow::Next,
        (true, 15) if is_pop => Flow::Returns,
        (true, 15) if value == Value::Unknown => Flow::Unknown,
        (true, 15) => go_to(value),
        _ => {
            transfer(register, place, is_read, part, state, program);
            Flow::Next
        }
    }
}

#[cfg(test)]
mod tests;
