//! Whether a CPU waits in a loop for a word in memory to change. Thumb encodings are those of the Armv7-M Architecture Reference
//! Manual (A5, A7).

mod riscv;

use super::{Architecture, Effect, Registers};
use crate::abi::{Addr, Endian};

/// The most bytes of such a loop.
const LONGEST: u64 = 48;
/// The most bytes of the function in front of the program counter.
pub const POLLING: u64 = 1024;

/// A loop that reads words at addresses that do not change, and calls nothing. Where it writes nothing either, it ends only where
/// one of the words changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Polling {
    /// Its first instruction.
    pub start: Addr,
    /// The addresses that it reads and does not write.
    pub reads: Vec<Addr>,
    /// True where it writes others: it may compute, and end by itself.
    pub writes: bool,
    /// True where it takes a difference, or asks which of two values is the larger: it counts, or reads a clock until its time is
    /// over, and ends by itself.
    pub measures: bool,
    /// True where a register may carry something from one round to the next: it counts. Where nothing does, and it writes nothing,
    /// only memory ends it, also where it measures.
    pub counts: bool,
}

/// What one instruction may do in such a loop.
pub(super) enum Step {
    /// It writes this register, from memory or by computing; none for a comparison.
    Writes(Option<u16>),
    /// It reads memory into this register.
    Loads(u16),
    /// It sets this register to a word of the code.
    Literal(u16, Addr),
    /// It sets this register.
    Sets(u16, u64),
    /// It sets the upper half of this register.
    SetsTop(u16, u64),
    /// It may go on at this address.
    Branches(Addr),
    /// It writes memory.
    Stores,
}

impl Step {
    /// The register that it writes.
    const fn register(&self) -> Option<u16> {
        match self {
            Self::Writes(to) => *to,
            Self::Loads(to) | Self::Literal(to, _) | Self::Sets(to, _) | Self::SetsTop(to, _) => Some(*to),
            Self::Branches(_) | Self::Stores => None,
        }
    }
}

/// The polling loop that the CPU is in; `None` where the code is not known or does something else. `from`: the first address of
/// `code`, where an instruction begins. `read`: a word of the code's memory.
pub fn polling(
    registers: &Registers,
    from: Addr,
    code: &[u8],
    read: &mut dyn FnMut(Addr) -> Option<u32>,
) -> Option<Polling> {
    match registers.architecture() {
        Architecture::CortexM => {}
        Architecture::Riscv32 | Architecture::Riscv64 => return riscv::polling(registers, from, code),
        _ => return None,
    }
    let pc = registers.pc()? & !1;
    let (start, end) = bounds(pc, from, code)?;
    let body = || Walk { at: start, end, from, code };
    // What the loop writes is not what the registers hold at its start.
    let mut now = registers.clone();
    for (at, first, second) in body() {
        let step = step(first, second, at)?;
        step.register().into_iter().for_each(|to| now.forget(&format!("r{to}")));
        if matches!(step, Step::Branches(to) if to < start) {
            return None;
        }
    }
    let (mut reads, mut written, mut until) = (Vec::new(), Vec::new(), 0);
    for (at, first, second) in body() {
        match step(first, second, at)? {
            Step::Writes(Some(to)) => now.forget(&format!("r{to}")),
            // A branch may skip it.
            Step::Literal(to, _) | Step::Sets(to, _) | Step::SetsTop(to, _) if at < until => {
                now.forget(&format!("r{to}"))
            }
            Step::Literal(to, place) => now.put(&format!("r{to}"), u64::from(read(place)?)),
            Step::Sets(to, value) => now.put(&format!("r{to}"), value),
            Step::SetsTop(to, value) => {
                let name = format!("r{to}");
                let low = now.get(&name)?;
                now.put(&name, value << 16 | low & 0xFFFF);
            }
            Step::Loads(to) => {
                let Some(Effect::Read(address, _)) = effect(&now, first, second) else { return None };
                reads.push(address);
                now.forget(&format!("r{to}"));
            }
            Step::Stores => {
                let Some(Effect::Write(address, _)) = effect(&now, first, second) else { return None };
                written.push(address);
            }
            Step::Branches(target) => until = until.max(target),
            Step::Writes(None) => {}
        }
    }
    reads.sort_unstable();
    reads.dedup();
    reads.retain(|address| !written.contains(address));
    let measures = body().any(|(_, first, second)| measures(first, second));
    let counts = counts(body());
    (!reads.is_empty()).then_some(Polling { start, reads, writes: !written.is_empty(), measures, counts })
}

/// True where a register that the loop writes may be read before it is written.
fn counts(body: Walk<'_>) -> bool {
    let all: Vec<(Option<Step>, u16, u16, Addr)> =
        body.map(|(at, first, second)| (step(first, second, at), first, second, at)).collect();
    let to = |step: &Option<Step>| step.as_ref().and_then(Step::register);
    let written: Vec<u16> = all.iter().filter_map(|(step, ..)| to(step)).collect();
    let (mut now, mut until) = (Vec::new(), 0);
    for (step, first, second, at) in &all {
        if let Some(Step::Writes(Some(_))) = step {
            let Some(from) = sources(*first, *second) else { return true };
            if from.iter().any(|register| written.contains(register) && !now.contains(register)) {
                return true;
            }
        }
        // What a branch may skip is not written in each round.
        if let Some(Step::Branches(target)) = step {
            until = until.max(*target);
        }
        now.extend(to(step).filter(|_| *at >= until));
    }
    false
}

/// The registers from which an instruction computes; `None` where that is not known.
fn sources(first: u16, second: u16) -> Option<Vec<u16>> {
    let low = |shift: u16| first >> shift & 7;
    Some(match first {
        0x0000..=0x17FF | 0x1C00..=0x1FFF | 0xB200..=0xB2FF => vec![low(3)],
        0x1800..=0x1BFF => vec![low(3), low(6)],
        0x3000..=0x3FFF => vec![low(8)],
        // MVNS and the others.
        0x43C0..=0x43FF => vec![low(3)],
        0x4000..=0x43BF => vec![low(0), low(3)],
        0x4600..=0x46FF => vec![first >> 3 & 0xF],
        // BFI and BFC keep the other bits.
        _ if first & 0xFFF0 == 0xF360 => vec![first & 0xF, second >> 8 & 0xF],
        // Data processing of a register and a shifted one, and of a register and a constant.
        _ if first & 0xFE00 == 0xEA00 => vec![first & 0xF, second & 0xF],
        _ if first & 0xF800 == 0xF000 && second & 0x8000 == 0 => vec![first & 0xF],
        _ => return None,
    })
}

/// True for a subtraction whose result is kept, and for a branch that asks for an order: CS, CC, HI, LS, GE, LT, GT, LE.
fn measures(first: u16, second: u16) -> bool {
    let is_kept = second >> 8 & 0xF != 15;
    match first {
        0x1A00..=0x1BFF | 0x1E00..=0x1FFF | 0x3800..=0x3FFF | 0xD200..=0xD3FF | 0xD800..=0xDDFF => true,
        _ if first & 0xFFE0 == 0xEBA0 || first & 0xFBE0 == 0xF1A0 => is_kept,
        _ if first & 0xF800 == 0xF000 && second & 0xD000 == 0x8000 => matches!(first >> 6 & 0xF, 2 | 3 | 8..14),
        _ => false,
    }
}

pub(super) fn effect(registers: &Registers, first: u16, second: u16) -> Option<Effect> {
    Effect::of(registers, &[first.to_le_bytes(), second.to_le_bytes()].concat())
}

/// Instructions one after the other: address and halves.
pub(super) struct Walk<'a> {
    pub at: Addr,
    /// The last instruction.
    pub end: Addr,
    pub from: Addr,
    pub code: &'a [u8],
}

impl Iterator for Walk<'_> {
    type Item = (Addr, u16, u16);

    fn next(&mut self) -> Option<Self::Item> {
        if self.at > self.end {
            return None;
        }
        let offset = usize::try_from(self.at.checked_sub(self.from)?).ok()?;
        let first = Endian::Little.u16(self.code, offset)?;
        let is_wide = first >> 11 >= 0b11101;
        let second = if is_wide { Endian::Little.u16(self.code, offset.checked_add(2)?)? } else { 0 };
        let at = self.at;
        self.at = at.checked_add(if is_wide { 4 } else { 2 })?;
        Some((at, first, second))
    }
}

/// The first and the last instruction of the innermost loop around a program counter: a branch back over it.
fn bounds(pc: Addr, from: Addr, code: &[u8]) -> Option<(Addr, Addr)> {
    let mut starts = Vec::new();
    for (at, first, second) in (Walk { at: from, end: pc.checked_add(LONGEST)?, from, code }) {
        starts.push(at);
        let to = target(first, second, at).filter(|to| at >= pc && *to <= pc && starts.contains(to));
        if let Some(to) = to.filter(|to| at.saturating_sub(*to) <= LONGEST) {
            return Some((to, at));
        }
    }
    None
}

/// True where code, which begins at `from`, branches or jumps to an address: a handler may do nothing but that.
pub fn branches_to(code: &[u8], from: Addr, to: Addr) -> bool {
    let half = |at: usize| Some(u16::from_le_bytes(code.get(at..at.checked_add(2)?)?.try_into().ok()?));
    (0..code.len()).step_by(2).zip((from..).step_by(2)).any(|(into, at)| {
        let Some(first) = half(into) else { return false };
        let second = half(into.saturating_add(2)).unwrap_or_default();
        target(first, second, at) == Some(to) || super::long_branch(first, second, at.saturating_add(4)) == Some(to)
    })
}

/// Where a branch goes to.
pub(super) fn target(first: u16, second: u16, at: Addr) -> Option<Addr> {
    let jump = |offset: i64| Some(at.wrapping_add(4).wrapping_add_signed(offset) & 0xFFFF_FFFF);
    let signed = |value: u16, bits: u32| {
        let value = i64::from(value);
        if value >> bits.saturating_sub(1) & 1 == 1 { value.wrapping_sub(1 << bits) } else { value }
    };
    match first {
        0xD000..=0xDDFF => jump(signed(first & 0xFF, 8) << 1),
        0xE000..=0xE7FF => jump(signed(first & 0x7FF, 11) << 1),
        // CBZ, CBNZ: forward.
        _ if first & 0xF500 == 0xB100 => jump(i64::from((first >> 3 & 0x40) | (first >> 2 & 0x3E))),
        // B<c>.W.
        _ if first & 0xF800 == 0xF000 && second & 0xD000 == 0x8000 && first >> 6 & 0xF < 14 => {
            let sign = first >> 10 & 1;
            let high = u32::from(second >> 11 & 1) << 18 | u32::from(second >> 13 & 1) << 17;
            let low = u32::from(first & 0x3F) << 11 | u32::from(second & 0x7FF);
            jump(i64::from(high | low).wrapping_sub(i64::from(sign) << 19) << 1)
        }
        _ => None,
    }
}

/// What an instruction does; `None` where such a loop has none of it: a call, a write of pc or sp.
pub(super) fn step(first: u16, second: u16, at: Addr) -> Option<Step> {
    if let Some(to) = target(first, second, at) {
        return Some(Step::Branches(to));
    }
    let step = if first >> 11 >= 0b11101 { wide(first, second, at)? } else { narrow(first, at)? };
    match &step {
        Step::Writes(Some(to)) | Step::Loads(to) | Step::Literal(to, _) | Step::Sets(to, _) | Step::SetsTop(to, _) => {
            (*to < 13).then_some(step)
        }
        Step::Writes(None) | Step::Branches(_) | Step::Stores => Some(step),
    }
}

/// A place in front of or after an instruction, of which pc is a multiple of 4.
const fn near(at: Addr, offset: u64, adds: bool) -> Addr {
    let base = at.wrapping_add(4) & !3;
    (if adds { base.wrapping_add(offset) } else { base.wrapping_sub(offset) }) & 0xFFFF_FFFF
}

fn narrow(word: u16, at: Addr) -> Option<Step> {
    let low = word & 7;
    let middle = word >> 8 & 7;
    let high = low | word >> 4 & 8;
    Some(match word {
        0x2000..=0x27FF => Step::Sets(middle, u64::from(word & 0xFF)),
        0x2800..=0x2FFF | 0x4500..=0x45FF => Step::Writes(None),
        0x0000..=0x1FFF => Step::Writes(Some(low)),
        0x3000..=0x3FFF => Step::Writes(Some(middle)),
        // TST, CMP, CMN.
        0x4000..=0x43FF => Step::Writes((!matches!(word >> 6 & 0xF, 8 | 10 | 11)).then_some(low)),
        0x4400..=0x44FF | 0x4600..=0x46FF => Step::Writes(Some(high)),
        0x4800..=0x4FFF => Step::Literal(middle, near(at, u64::from(word & 0xFF) << 2, true)),
        0x5000..=0x5FFF if word >> 9 & 7 >= 3 => Step::Loads(low),
        0x5000..=0x57FF | 0x6000..=0x8FFF | 0x9000..=0x97FF if word >> 11 & 1 == 0 => Step::Stores,
        0x6000..=0x8FFF => Step::Loads(low),
        0x9800..=0x9FFF => Step::Loads(middle),
        0xB200..=0xB2FF => Step::Writes(Some(low)),
        // Hints: NOP, WFI, WFE.
        0xBF00..=0xBFFF if word & 0xF == 0 => Step::Writes(None),
        // A return in the middle: a branch leads around it as long as the loop goes on.
        0x4770 | 0xBD00..=0xBDFF => Step::Writes(None),
        _ => return None,
    })
}

fn wide(first: u16, second: u16, at: Addr) -> Option<Step> {
    let to = second >> 8 & 0xF;
    let written = || Step::Writes((to != 15).then_some(to));
    let immediate = || {
        let (i, three) = (u64::from(first >> 10 & 1), u64::from(second >> 12 & 7));
        u64::from(first & 0xF) << 12 | i << 11 | three << 8 | u64::from(second & 0xFF)
    };
    Some(match first {
        // Barriers and hints; MRS.
        0xF3BF | 0xF3AF => Step::Writes(None),
        0xF3EF => written(),
        _ if first & 0xFBF0 == 0xF240 && second & 1 << 15 == 0 => Step::Sets(to, immediate()),
        _ if first & 0xFBF0 == 0xF2C0 && second & 1 << 15 == 0 => Step::SetsTop(to, immediate()),
        _ if first & 0xF800 == 0xF000 && second & 1 << 15 == 0 => written(),
        _ if first & 0xFE00 == 0xEA00 => written(),
        // LDR.W from the code.
        _ if first & 0xFF7F == 0xF85F => {
            Step::Literal(second >> 12, near(at, u64::from(second & 0xFFF), first & 1 << 7 != 0))
        }
        // Stores and loads; none that changes its base.
        _ if first & 0xFE10 == 0xF800 && (first & 1 << 7 != 0 || second & 0x0900 != 0x0900) => Step::Stores,
        _ if first & 0xFE10 == 0xF810 && (first & 1 << 7 != 0 || second & 0x0900 != 0x0900) => {
            Step::Loads(second >> 12)
        }
        _ => return None,
    })
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "tests say what they expect by failing")]
mod tests {
    use super::*;

    fn found(pc: u64, code: &[u16], values: &[(&str, u64)]) -> Option<Vec<Addr>> {
        polls(pc, code, values).map(|polling| polling.reads)
    }

    fn polls(pc: u64, code: &[u16], values: &[(&str, u64)]) -> Option<Polling> {
        let bytes: Vec<u8> = code.iter().flat_map(|half| half.to_le_bytes()).collect();
        let mut registers = Registers::new(Architecture::CortexM);
        assert!(registers.set("pc", pc));
        values.iter().for_each(|(name, value)| assert!(registers.set(name, *value)));
        let mut read = |at: Addr| Endian::Little.u32(&bytes, usize::try_from(at - 0x100).ok()?);
        polling(&registers, 0x100, &bytes, &mut read)
    }

    /// `b.w` and `b.n` to the handler of another exception.
    #[test]
    fn a_handler_that_jumps_to_another_one() {
        let code = [0x00, 0xBF, 0xFC, 0xE7];
        assert!(branches_to(&code, 0x100, 0xFE), "b.n 0xfe at 0x102");
        assert!(!branches_to(&code, 0x100, 0x100));
        let code = [0xFF, 0xF7, 0xFE, 0xBF];
        assert!(branches_to(&code, 0x100, 0x100), "b.w to itself");
        assert!(!branches_to(&[0xFF], 0x100, 0x100) && !branches_to(&[], 0, 0));
    }

    #[test]
    fn a_loop_that_waits_for_a_word() {
        // ldr r3, [pc, #8]; ldr r3, [r3]; cmp r3, #0; beq; bx lr; nop; the address.
        let flag = [0x4B02, 0x681B, 0x2B00, 0xD0FB, 0x4770, 0xBF00, 0x0040, 0x2000];
        for pc in [0x100, 0x102, 0x104, 0x106] {
            assert_eq!(found(pc, &flag, &[]), Some(vec![0x2000_0040]), "{pc:#x}");
        }
        assert_eq!(found(0x108, &flag, &[]), None, "behind it");
        // ldr r2, [r1, #4]; tst r2, r0; beq
        assert_eq!(found(0x100, &[0x684A, 0x4202, 0xD0FC], &[("r1", 0x4000_4000)]), Some(vec![0x4000_4004]));
        assert_eq!(found(0x100, &[0x684A, 0x4202, 0xD0FC], &[]), None, "the address is not known");
        // movw r1, #0x40; movt r1, #0x2000; ldrb r1, [r1]; cbnz out; b back
        let by_halves = [0xF240, 0x0140, 0xF2C2, 0x0100, 0x7809, 0xB901, 0xE7F8, 0xBF00];
        assert_eq!(found(0x108, &by_halves, &[]), Some(vec![0x2000_0040]));
    }

    #[test]
    fn other_loops_wait_for_nothing() {
        let r = [("r0", 0x2000_0000), ("r1", 0x2000_0100), ("r3", 5)];
        assert_eq!(found(0x100, &[0x3B01, 0xD1FD], &r), None, "it counts");
        assert_eq!(found(0x100, &[0x5CC2, 0x3301, 0x2A00, 0xD1FB], &r), None, "it goes along a text");
        assert_eq!(found(0x100, &[0x6802, 0x3201, 0x6002, 0xD1FB], &r), None, "it writes what it reads");
        assert_eq!(found(0x100, &[0x6802, 0xF000, 0xF800, 0xD1FB], &r), None, "it calls");
        assert_eq!(found(0x100, &[0x6802, 0x2A00, 0x4770], &r), None, "no loop");
    }

    #[test]
    fn a_loop_that_writes_another_word_may_end_by_itself() {
        // ldr r2, [r0]; str r3, [r1]; cmp r2, #0; bne
        let r = [("r0", 0x2000_0000), ("r1", 0x2000_0100), ("r3", 5)];
        let found = polls(0x100, &[0x6802, 0x600B, 0x2A00, 0xD1FB], &r).unwrap();
        assert_eq!((found.reads, found.writes), (vec![0x2000_0000], true));
        assert!(!polls(0x100, &[0x6802, 0x2A00, 0xD1FC], &r).unwrap().writes);
        // ldr r2, [r0]; lsls r2, r2, #31; bmi; bx lr; ldr r3, [r1]; adds r3, #1; str r3, [r1]; b
        let with_return = [0x6802, 0x07D2, 0xD400, 0x4770, 0x680B, 0x3301, 0x600B, 0xE7F7];
        let found = polls(0x104, &with_return, &r).unwrap();
        assert_eq!((found.reads, found.writes), (vec![0x2000_0000], true));
    }

    /// A computation that goes on for a time was called a wait for the clock.
    #[test]
    fn a_loop_that_measures_time_or_counts_ends_by_itself() {
        let r = [("r0", 0x4000_1000), ("r1", 7), ("r4", 9)];
        let measures = |code: &[u16]| polls(0x100, code, &r).unwrap().measures;
        // ldr r3, [r0, #4]; mvns r3, r3; subs r3, r3, r1; cmp r3, r4; bls
        assert!(measures(&[0x6843, 0x43DB, 0x1A5B, 0x42A3, 0xD9FA]), "until a time is over");
        let counts = |code: &[u16]| polls(0x100, code, &r).unwrap().counts;
        assert!(!counts(&[0x6843, 0x43DB, 0x1A5B, 0x42A3, 0xD9FA]), "only the clock ends it");
        assert!(counts(&[0x6803, 0xB913, 0x3901, 0xD1FB, 0xBF00]), "a counter ends it");
        // ldr r3, [r0]; cbnz out; subs r1, #1; bne
        assert!(measures(&[0x6803, 0xB913, 0x3901, 0xD1FB, 0xBF00]), "for so many times");
        // ldr r3, [r0, #4]; cmp r3, r1; blt.w
        assert!(measures(&[0x6843, 0x428B, 0xF6FF, 0xAFFC]), "until a clock comes there");
        // ldr r3, [r0]; tst r3, r1; beq
        assert!(!measures(&[0x6803, 0x420B, 0xD0FC]), "for a flag");
        // ldr r3, [r0]; subs.w pc, which is cmp.w r3, r1; bne
        assert!(!measures(&[0x6803, 0xEBB3, 0x0F01, 0xD1FB]), "for a value");
    }

    #[test]
    fn any_code_is_survived() {
        let mut state = 7_u32;
        for _ in 0..2000 {
            let code: Vec<u16> = (0..32)
                .map(|_| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    (state >> 16) as u16
                })
                .collect();
            let _ = found(0x100 + u64::from(state >> 27) * 2, &code, &[("r0", 0), ("r1", 0xFFFF_FFFF)]);
        }
    }
}
