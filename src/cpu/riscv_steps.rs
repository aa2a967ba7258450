//! One instruction of RISC-V code: what it does to values that are known, and where the code goes on. Encodings are those of The
//! RISC-V Instruction Set Manual, volume I (RV32I, RV64I, "M", "A"); what those for floating point do to other registers, too.

use super::InstructionSet;
use super::calls::Program;
use super::part::Part;
use super::riscv_compressed::expanded;
use super::riscv_jumps::{branch, far, signed, word};
use super::steps::{ENTRIES, Flow};
use super::values::{State, Value};
use crate::abi::Addr;

/// The registers ra, sp, gp and t0 (RISC-V Calling Convention, 1.1).
pub(super) const RA: u16 = 1;
pub(super) const SP: u16 = 2;
pub(super) const GP: u16 = 3;
const T0: u16 = 5;
/// The most instructions of a routine that saves or restores registers.
const ROUTINE: usize = 64;
/// What `csrrw zero, cycle, zero` is: no instruction.
const NONE: u32 = 0xC000_1073;

/// Carries out an instruction.
pub(super) fn step(first: u16, second: u16, at: Addr, state: &mut State, program: &dyn Program) -> Flow {
    let is_64 = state.instructions == InstructionSet::Riscv64;
    if first == 0 {
        return Flow::Stops;
    }
    let word = if first & 3 == 3 { Some(word(first, second)) } else { expanded(first, is_64) };
    let Some(word) = word.filter(|word| word & 0x1F != 0x1F) else { return Flow::Unknown };
    let next = at.wrapping_add(if first & 3 == 3 { 4 } else { 2 });
    Step { word, at, next, is_64, state, program }.carry_out()
}

/// The CSRs sstatus and mstatus, and their bits that enable interrupts; sie and mie, and those of the timer (Privileged Architecture,
/// 3.1.6, 3.1.9, 4.1.1 and 4.1.3).
const STATUS: [(u32, u32); 4] = [(0x100, 1 << 1), (0x300, 1 << 3), (0x104, 1 << 5), (0x304, 1 << 7)];

/// Whether an instruction disables interrupts: one that clears their bit. One that sets it, or writes what is not known, enables them or
/// restores what was before.
pub(super) fn disables_interrupts(first: u16, second: u16, state: &State) -> Option<bool> {
    let word = Some(word(first, second)).filter(|word| word & 0x7F == 0x73)?;
    let (_, bit) = STATUS.into_iter().find(|(number, _)| *number == word >> 20)?;
    let (kind, source) = (word >> 12 & 7, word >> 15 & 0x1F);
    // The last three kinds have a constant in place of a register.
    let value = if kind >= 5 { Value::Is(source) } else { value_of(source, state) };
    let has_bit = match value {
        Value::Is(value) => Some(value & bit != 0),
        Value::Wide(value) => Some(value & u64::from(bit) != 0),
        _ => None,
    };
    match (kind & 3, has_bit) {
        // The other interrupts of sie and mie are enabled by the same word.
        (1, _) if matches!(word >> 20, 0x104 | 0x304) => None,
        // CSRRW; CSRRS and CSRRC, which change nothing where the register is x0.
        (1, is_set) => Some(is_set == Some(false)),
        (2 | 3, _) if source == 0 => None,
        (2, is_set) => is_set.unwrap_or(true).then_some(false),
        (3, is_set) => is_set?.then_some(true),
        _ => None,
    }
}

/// The address that a load or a store accesses, where it is known.
pub(super) fn accessed(first: u16, second: u16, state: &State) -> Option<u32> {
    let value = |number: u16| value_of(number.into(), state).address().map(u64::from);
    let (.., at) = access(first, second, state.instructions == InstructionSet::Riscv64, &value)?;
    u32::try_from(at).ok()
}

/// Of a load or a store: whether it reads, its kind (the lowest bits are the size as a power of 2), and the address. `value`: what the
/// register of a number holds.
pub(super) fn access(
    first: u16,
    second: u16,
    is_64: bool,
    value: &dyn Fn(u16) -> Option<u64>,
) -> Option<(bool, u32, Addr)> {
    let word = if first & 3 == 3 { word(first, second) } else { expanded(first, is_64)? };
    let kind = word >> 12 & 7;
    // With other kinds, 0x07 and 0x27 are loads and stores of vectors, which have no offset.
    let is_float = (1..=3).contains(&kind);
    let (is_read, offset) = match word & 0x7F {
        0x07 | 0x27 if !is_float => return None,
        0x03 | 0x07 => (true, i64::from(word.cast_signed() >> 20)),
        0x23 | 0x27 => (false, signed(word >> 25 << 5 | word >> 7 & 0x1F, 12)),
        _ => return None,
    };
    let base = value(u16::try_from(word >> 15 & 0x1F).ok()?)?;
    Some((is_read, kind, base.wrapping_add_signed(offset)))
}

fn value_of(register: u32, state: &State) -> Value {
    match u16::try_from(register) {
        Ok(0) | Err(_) => Value::Is(0),
        Ok(register) => state.get(register),
    }
}

struct Step<'s> {
    word: u32,
    at: Addr,
    next: Addr,
    is_64: bool,
    state: &'s mut State,
    program: &'s dyn Program,
}

impl Step<'_> {
    fn bits(&self, from: u32, mask: u16) -> u16 {
        u16::try_from(self.word >> from & u32::from(mask)).unwrap_or_default()
    }

    fn to(&self) -> u16 {
        self.bits(7, 0x1F)
    }

    fn kind(&self) -> u16 {
        self.bits(12, 7)
    }

    fn get(&self, register: u16) -> Value {
        if register == 0 { Value::Is(0) } else { self.state.get(register) }
    }

    fn first(&self) -> Value {
        self.get(self.bits(15, 0x1F))
    }

    fn second(&self) -> Value {
        self.get(self.bits(20, 0x1F))
    }

    fn set(&mut self, value: Value) {
        let to = self.to();
        if to != 0 {
            self.state.set(to, value);
        }
    }

    /// The constant of 12 bits.
    const fn constant(&self) -> i64 {
        (self.word.cast_signed() >> 20) as i64
    }

    /// The constant of 20 bits, in its place.
    fn upper(&self) -> u64 {
        i64::from((self.word & 0xFFFF_F000).cast_signed()).cast_unsigned()
    }

    fn numbers(&self) -> Numbers {
        Numbers { is_64: self.is_64 }
    }

    fn carry_out(mut self) -> Flow {
        match self.word & 0x7F {
            0x37 => self.set(self.numbers().value(self.upper())),
            0x17 => self.set(self.numbers().value(self.at.wrapping_add(self.upper()))),
            0x6F => return self.jump(),
            0x67 => return self.jump_to_register(),
            0x63 => return self.branch(),
            0x03 => self.load(),
            0x23 => self.store(),
            0x13 => self.immediate(),
            0x1B => self.immediate_32(),
            0x33 => self.registers(),
            0x3B => self.registers_32(),
            0x2F => self.atomic(),
            0x27 => self.store_float(),
            0x73 => return self.system(),
            // FEQ, FCVT, FMV and FCLASS to a general register.
            0x53 if matches!(self.word >> 27, 0x14 | 0x18 | 0x1C) => self.set(Value::Unknown),
            0x07 | 0x0F | 0x43 | 0x47 | 0x4B | 0x4F | 0x53 => {}
            // Of another extension.
            _ => self.set(Value::Unknown),
        }
        Flow::Next
    }

    fn jump(self) -> Flow {
        let to = self.at.wrapping_add_signed(far(self.word));
        let to = if self.is_64 { to } else { to & 0xFFFF_FFFF };
        match self.to() {
            0 => Flow::Jump(Some(to)),
            T0 if routine(to, self.next, self.state, self.program) => Flow::Next,
            T0 => Flow::Unknown,
            _ => Flow::Call(Some(to)),
        }
    }

    fn jump_to_register(self) -> Flow {
        let register = self.bits(15, 0x1F);
        let value = self.numbers().plus(self.first(), self.numbers().value(self.constant().cast_unsigned()));
        let to = value.known().map(Addr::from);
        match (self.to(), to) {
            // The return of a function, whether what is in ra was followed or not.
            (0, _) if register == RA => Flow::Returns,
            (0, None) => match value {
                Value::Return => Flow::Returns,
                Value::Entry { .. } => self.table(value),
                // Of a function that has left its frame it may be a call at its end.
                _ if self.get(SP) == Value::Frame(0) && self.get(RA) == Value::Return => Flow::Jump(None),
                _ => Flow::Unknown,
            },
            (0, Some(to)) => Flow::Jump(Some(to)),
            (T0, Some(to)) if routine(to, self.next, self.state, self.program) => Flow::Next,
            (T0, _) => Flow::Unknown,
            _ => Flow::Call(to),
        }
    }

    /// A jump to one of the addresses in a table.
    fn table(&self, value: Value) -> Flow {
        let Value::Entry { table, count, shift, plus } = value else { return Flow::Unknown };
        let entry = |n: u16| {
            let place = table.checked_add(u32::from(n).checked_shl(shift.into())?)?;
            Some(Addr::from(self.program.constant(place.into())?.wrapping_add(plus)))
        };
        let all: Option<Vec<Addr>> = (0..count).map(entry).collect();
        all.map_or(Flow::Unknown, |mut all| {
            all.sort_unstable();
            all.dedup();
            Flow::Jumps(all)
        })
    }

    fn branch(mut self) -> Flow {
        let to = self.at.wrapping_add_signed(branch(self.word));
        let (numbers, kind) = (self.numbers(), self.kind());
        let (a, b) = (numbers.number(self.first()), numbers.number(self.second()));
        if kind >= 6
            && let Some(flow) = self.bounded(to, a, b)
        {
            return flow;
        }
        let holds = a.zip(b).map(|(a, b)| match kind >> 1 {
            0 => a == b,
            2 => a.cast_signed() < b.cast_signed(),
            _ => a < b,
        });
        let of_marks = || self.state.equal(self.first(), self.second()).filter(|_| kind < 2);
        Flow::Branch(to, holds.or_else(of_marks).map(|holds| holds != (kind & 1 == 1)))
    }

    /// BLTU and BGEU of a number that is not known and one that is: on one of the two ways the first is a small one.
    fn bounded(&mut self, to: Addr, a: Option<u64>, b: Option<u64>) -> Option<Flow> {
        let is_less = self.kind() == 6;
        // The register, the first number that it is below, and whether it is so where the branch is taken.
        let (register, limit, is_taken) = match (a, b) {
            (None, Some(limit)) => (self.bits(15, 0x1F), limit, is_less),
            (Some(most), None) => (self.bits(20, 0x1F), most.checked_add(1)?, !is_less),
            _ => return None,
        };
        let count = u16::try_from(limit).ok().filter(|count| u32::from(*count) <= ENTRIES)?;
        if self.state.get(register) != Value::Unknown {
            return None;
        }
        let small = Value::Among { count, shift: 0, base: 0 };
        let mut taken = Box::new(self.state.clone());
        if is_taken {
            taken.set(register, small);
        } else {
            self.state.set(register, small);
        }
        Some(Flow::Either(to, taken))
    }

    fn place(&self, offset: i64) -> Value {
        self.numbers().plus(self.first(), self.numbers().value(offset.cast_unsigned()))
    }

    fn load(&mut self) {
        let (place, numbers) = (self.place(self.constant()), self.numbers());
        let constant = |at: u32| self.program.constant(at.into()).map(u64::from);
        let sign = |word: u64| i64::from(low(word).cast_signed()).cast_unsigned();
        let known = |number: Option<u64>| number.map_or(Value::Unknown, |number| numbers.value(number));
        let part = |size: u16, is_signed: bool, at: u32| {
            let word = self.program.constant(Addr::from(at & !3))?;
            Part::of(size, is_signed).within(word, at).map(u64::from)
        };
        let value = match (self.kind(), place) {
            (kind @ (0 | 1), Value::Is(at)) => known(part(kind, true, at).map(sign)),
            (kind @ (4 | 5), Value::Is(at)) => known(part(kind & 1, false, at)),
            (2, Value::Is(at)) => known(constant(at).map(sign)),
            (6, Value::Is(at)) => known(constant(at)),
            (3, Value::Is(at)) => {
                let top = at.checked_add(4).and_then(constant);
                known(constant(at).zip(top).map(|(low, top)| top << 32 | low))
            }
            (2 | 3 | 6, Value::Among { count, shift, base }) => Value::Entry { table: base, count, shift, plus: 0 },
            (2, Value::Frame(_)) if !self.is_64 => self.state.load(place),
            (2, Value::Frame(_)) => match numbers.number(self.state.load(place)) {
                Some(number) => numbers.value(sign(number)),
                None => Value::Unknown,
            },
            (3, Value::Frame(_)) => self.state.load_long(place),
            _ => Value::Unknown,
        };
        self.set(value);
    }

    fn store(&mut self) {
        let offset = signed(self.word >> 25 << 5 | u32::from(self.to()), 12);
        let (place, value) = (self.place(offset), self.second());
        match (self.kind(), self.is_64) {
            (2, false) => self.state.store(place, value),
            (2 | 3, true) => self.state.store_long(place, value, self.kind() == 2),
            _ => self.write_part(place, value),
        }
    }

    /// Less than a register is written, of which the lowest bytes are those of a value.
    fn write_part(&mut self, place: Value, value: Value) {
        if self.is_64 {
            let place = if let Value::Frame(at) = place { Value::Frame(at & !3) } else { place };
            self.state.store_long(place, Value::Unknown, true);
        } else {
            self.state.store_part(place, value, if self.kind() == 0 { 1 } else { 2 });
        }
    }

    fn store_float(&mut self) {
        let offset = signed(self.word >> 25 << 5 | u32::from(self.to()), 12);
        let place = self.place(offset);
        match self.kind() {
            2 | 3 => {
                self.write_part(place, Value::Unknown);
                if self.kind() == 3 {
                    self.write_part(self.numbers().plus(place, Value::Is(4)), Value::Unknown);
                }
            }
            // FSQ, and vectors: as much as their length says.
            _ if matches!(place, Value::Frame(_)) => self.state.forget_slots(),
            _ => {}
        }
    }

    fn atomic(&mut self) {
        let (place, value) = (self.first(), self.second());
        // LR reads.
        if self.word >> 27 != 2 {
            self.state.store(place, value);
            self.write_part(place, Value::Unknown);
        }
        self.set(Value::Unknown);
    }

    fn immediate(&mut self) {
        let (a, n) = (self.first(), self.numbers());
        let constant = self.constant().cast_unsigned();
        let by = u32::from(self.bits(20, if self.is_64 { 0x3F } else { 0x1F }));
        let b = n.value(constant);
        let value = match self.kind() {
            0 => n.plus(a, b),
            1 if self.word >> 26 == 0 => n.left(a, by),
            2 => n.with(a, b, |a, b| u64::from(a.cast_signed() < b.cast_signed())),
            3 => n.with(a, b, |a, b| u64::from(a < b)),
            4 => n.with(a, b, |a, b| a ^ b),
            5 if self.word >> 26 == 0 => n.right(a, by),
            5 if self.word >> 26 == 0x10 => {
                n.with(a, Value::Is(by), |a, b| a.cast_signed().checked_shr(low(b)).unwrap_or_default().cast_unsigned())
            }
            6 => n.with_address(a, b, |a, b| a | b),
            7 => n.with_address(a, b, |a, b| a & b),
            _ => Value::Unknown,
        };
        self.set(value);
    }

    /// ADDIW, and the shifts of the lower half.
    fn immediate_32(&mut self) {
        let (a, constant) = (self.first(), self.constant().cast_unsigned());
        let (n, half) = (self.numbers(), Numbers { is_64: false });
        let by = u32::from(self.bits(20, 0x1F));
        let value = match (self.kind(), a, constant) {
            // SEXT.W of a small number.
            (0, Value::Among { shift: 0, base: 0, .. }, 0) => a,
            (0, ..) => n.map(a, |a| half.signed(a.wrapping_add(constant))),
            (1, ..) if self.word >> 25 == 0 => n.map(a, |a| half.signed(a.checked_shl(by).unwrap_or_default())),
            (5, ..) if self.word >> 25 == 0 => {
                n.map(a, |a| half.signed(u64::from(low(a).checked_shr(by).unwrap_or_default())))
            }
            _ => Value::Unknown,
        };
        self.set(value);
    }

    fn registers(&mut self) {
        let (a, b, n) = (self.first(), self.second(), self.numbers());
        let value = match (self.word >> 25, self.kind()) {
            (0, 0) => n.plus(a, b),
            (0x20, 0) => n.minus(a, b),
            (0, 2) => n.with(a, b, |a, b| u64::from(a.cast_signed() < b.cast_signed())),
            (0, 3) => n.with(a, b, |a, b| u64::from(a < b)),
            (0, 4) => n.with(a, b, |a, b| a ^ b),
            (0, 6) => n.with_address(a, b, |a, b| a | b),
            (0, 7) => n.with_address(a, b, |a, b| a & b),
            (1, 0) => n.with(a, b, u64::wrapping_mul),
            // SH1ADD to SH3ADD ("Zba").
            (0x10, kind @ (2 | 4 | 6)) => n.plus(n.left(a, u32::from(kind >> 1)), b),
            _ => Value::Unknown,
        };
        self.set(value);
    }

    /// ADDW and SUBW.
    fn registers_32(&mut self) {
        let (a, b, n, half) = (self.first(), self.second(), self.numbers(), Numbers { is_64: false });
        let value = match (self.word >> 25, self.kind()) {
            (0, 0) => n.with(a, b, |a, b| half.signed(a.wrapping_add(b))),
            (0x20, 0) => n.with(a, b, |a, b| half.signed(a.wrapping_sub(b))),
            _ => Value::Unknown,
        };
        self.set(value);
    }

    fn system(mut self) -> Flow {
        match self.word {
            NONE => return Flow::Stops,
            // URET, SRET and MRET.
            0x0020_0073 | 0x1020_0073 | 0x3020_0073 => return Flow::Returns,
            // ECALL.
            0x0000_0073 => self.state.forget(),
            _ if self.kind() != 0 => self.set(Value::Unknown),
            _ => {}
        }
        Flow::Next
    }
}

/// The lower half of a number.
fn low(number: u64) -> u32 {
    u32::try_from(number & 0xFFFF_FFFF).unwrap_or_default()
}

/// Numbers in registers of 32 or 64 bits. Those of 32 bits are taken with their sign: comparisons give the same.
#[derive(Clone, Copy)]
struct Numbers {
    is_64: bool,
}

impl Numbers {
    fn signed(self, number: u64) -> u64 {
        if self.is_64 { number } else { i64::from(low(number).cast_signed()).cast_unsigned() }
    }

    fn number(self, value: Value) -> Option<u64> {
        match value {
            Value::Is(number) => Some(self.signed(number.into())),
            Value::Wide(number) => Some(number),
            _ => None,
        }
    }

    fn value(self, number: u64) -> Value {
        match u32::try_from(number) {
            Ok(number) => Value::Is(number),
            Err(_) if self.is_64 => Value::Wide(number),
            Err(_) => Value::Is(low(number)),
        }
    }

    fn map(self, value: Value, of: impl Fn(u64) -> u64) -> Value {
        self.number(value).map_or(Value::Unknown, |number| self.value(of(number)))
    }

    fn with(self, a: Value, b: Value, of: impl Fn(u64, u64) -> u64) -> Value {
        self.number(a).zip(self.number(b)).map_or(Value::Unknown, |(a, b)| self.value(of(a, b)))
    }

    /// AND and OR: an address that is aligned, or has a bit set, is still one.
    fn with_address(self, a: Value, b: Value, of: impl Fn(u64, u64) -> u64) -> Value {
        match (a, b) {
            (Value::Mark(mark), Value::Is(_) | Value::Wide(_)) | (Value::Is(_) | Value::Wide(_), Value::Mark(mark)) => {
                Value::Mark(mark)
            }
            _ => self.with(a, b, of),
        }
    }

    fn plus(self, a: Value, b: Value) -> Value {
        match (a, b) {
            (Value::Is(_) | Value::Wide(_), Value::Is(_) | Value::Wide(_)) => self.with(a, b, u64::wrapping_add),
            (Value::Is(0), other) | (other, Value::Is(0)) => other,
            (Value::Is(_) | Value::Wide(_), _) => self.plus_number(b, a),
            _ => self.plus_number(a, b),
        }
    }

    /// What is not a number with one.
    fn plus_number(self, value: Value, number: Value) -> Value {
        let by = self.number(number).map(low);
        match (value, by) {
            (Value::Frame(at), Some(by)) => Value::Frame(at.wrapping_add_unsigned(by)),
            (Value::Near(at), Some(by)) => Value::near(at.wrapping_add(by)),
            (Value::Unknown, Some(by)) => Value::near(by),
            (Value::Near(at), None) if number == Value::Unknown => Value::Near(at),
            (Value::Among { count, shift, base }, Some(by)) => {
                Value::Among { count, shift, base: base.wrapping_add(by) }
            }
            (Value::Entry { table, count, shift, plus }, Some(by)) => {
                Value::Entry { table, count, shift, plus: plus.wrapping_add(by) }
            }
            // What is marked is an address: what is added leads to a part of it.
            (Value::Mark(_), Some(_)) => value,
            (Value::Mark(mark), None) if number == Value::Unknown => Value::Mark(mark),
            (Value::Unknown, None) if matches!(number, Value::Mark(_)) => number,
            _ => Value::Unknown,
        }
    }

    fn minus(self, a: Value, b: Value) -> Value {
        match (a, self.number(b)) {
            (Value::Frame(at), Some(by)) => Value::Frame(at.wrapping_sub_unsigned(low(by))),
            (Value::Mark(_), Some(_)) => a,
            (Value::Mark(_), None) if b == Value::Unknown => a,
            _ => self.with(a, b, u64::wrapping_sub),
        }
    }

    fn left(self, value: Value, by: u32) -> Value {
        match value {
            Value::Among { count, shift, base: 0 } => {
                let shift = u32::from(shift).saturating_add(by);
                // Of at most [`ENTRIES`] numbers none loses a bit.
                let most = if self.is_64 { 48 } else { 23 };
                let shift = u8::try_from(shift).ok().filter(|shift| *shift <= most);
                shift.map_or(Value::Unknown, |shift| Value::Among { count, shift, base: 0 })
            }
            _ if by == 0 => value,
            _ => self.map(value, |number| number.checked_shl(by).unwrap_or_default()),
        }
    }

    fn right(self, value: Value, by: u32) -> Value {
        let mask = if self.is_64 { u64::MAX } else { 0xFFFF_FFFF };
        match value {
            Value::Among { count, shift, base: 0 } => {
                let shift = u32::from(shift).checked_sub(by).and_then(|shift| u8::try_from(shift).ok());
                shift.map_or(Value::Unknown, |shift| Value::Among { count, shift, base: 0 })
            }
            _ if by == 0 => value,
            _ => self.map(value, |number| (number & mask).checked_shr(by).unwrap_or_default()),
        }
    }
}

/// Carries out a routine that saves registers (`__riscv_save_0`): it is called through t0, and returns there. False where the
/// code is anything else.
fn routine(at: Addr, back: Addr, state: &mut State, program: &dyn Program) -> bool {
    let mut now = state.clone();
    now.set(T0, u32::try_from(back).map_or(Value::Unknown, Value::Is));
    let comes_back = |flow: &Flow| matches!(flow, Flow::Jump(Some(to)) if *to == back);
    let is_so = straight(at, &mut now, program, comes_back);
    if is_so {
        now.set(T0, Value::Unknown);
        *state = now;
    }
    is_so
}

/// Carries out one that restores registers and returns (`__riscv_restore_0`), to which a function jumps that has a frame yet.
pub(super) fn restores(at: Addr, state: &mut State, program: &dyn Program) -> bool {
    if !matches!(state.get(SP), Value::Frame(below) if below != 0) {
        return false;
    }
    let mut now = state.clone();
    let is_so = straight(at, &mut now, program, |flow| matches!(flow, Flow::Returns));
    let is_left = is_so && now.get(SP) == Value::Frame(0) && now.get(RA) == Value::Return;
    if is_left {
        *state = now;
    }
    is_left
}

/// Follows code without branches and calls up to its end.
fn straight(mut at: Addr, state: &mut State, program: &dyn Program, is_end: impl Fn(&Flow) -> bool) -> bool {
    for _ in 0..ROUTINE {
        let Some(first) = program.code(at) else { return false };
        let is_wide = first & 3 == 3;
        let second = at.checked_add(2).filter(|_| is_wide).and_then(|at| program.code(at)).unwrap_or_default();
        let is_call =
            matches!(word(first, second) & 0x7F, 0x67 | 0x6F) && is_wide && word(first, second) >> 7 & 0x1F != 0;
        if is_call {
            return false;
        }
        match step(first, second, at, state, program) {
            flow if is_end(&flow) => return true,
            Flow::Next => at = at.wrapping_add(if is_wide { 4 } else { 2 }),
            Flow::Jump(Some(to)) => at = to,
            _ => return false,
        }
    }
    false
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "tests say what they expect by failing")]
mod tests;
