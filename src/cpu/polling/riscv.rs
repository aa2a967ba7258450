//! Polling loops in RISC-V code (The RISC-V Instruction Set Manual, volume I).

use super::super::riscv_word::{
    AUIPC, BRANCH, FENCE, IMMEDIATE, IMMEDIATE_32, JUMP, LOAD, LUI, REGISTERS, REGISTERS_32, STORE, code, constant,
    instructions, kind, register, store_offset, target, to,
};
use super::super::{Architecture, Registers};
use super::{LONGEST, Polling};
use crate::abi::Addr;

/// An instruction, as one of 32 bits.
#[derive(Clone, Copy)]
struct Line {
    at: Addr,
    word: u32,
}

/// What the registers of a loop hold, by their numbers.
struct State {
    values: [Option<u64>; 32],
    /// Those that were written in this round, and those that the loop writes: one bit for each.
    now: u32,
    written: u32,
    is_64: bool,
    /// True where a register carries something from one round to the next.
    counts: bool,
    /// A branch may skip what is in front of this address.
    until: Addr,
}

/// The polling loop that the CPU is in.
pub(super) fn polling(registers: &Registers, from: Addr, bytes: &[u8]) -> Option<Polling> {
    let is_64 = registers.architecture() == Architecture::Riscv64;
    let body = body(registers.pc()?, from, bytes, is_64)?;
    let start = body.first()?.at;
    let leaves = |line: &Line| target(line.word, line.at).is_some_and(|to| to < start);
    if body.iter().any(leaves) {
        return None;
    }
    let mut state = State {
        values: std::array::from_fn(|number| registers.get(&format!("x{number}"))),
        now: 0,
        written: body.iter().filter_map(|line| written(line.word)).fold(0, |all, to| all | bit(to)),
        is_64,
        counts: false,
        until: 0,
    };
    let (mut reads, mut stores) = (Vec::new(), Vec::new());
    for line in &body {
        let place = state.place(line.word);
        match code(line.word) {
            LOAD => reads.push(place?),
            STORE => stores.push(place?),
            FENCE | IMMEDIATE | AUIPC | IMMEDIATE_32 | REGISTERS | LUI | REGISTERS_32 | BRANCH | JUMP => {}
            _ => return None,
        }
        state.step(*line)?;
    }
    reads.sort_unstable();
    reads.dedup();
    reads.retain(|address| !stores.contains(address));
    let measures = state.counts || body.iter().any(|line| measures(line.word));
    let counts = state.counts;
    (!reads.is_empty()).then_some(Polling { start, reads, writes: !stores.is_empty(), measures, counts })
}

/// The innermost loop around a program counter: up to a branch back over it.
fn body(pc: Addr, from: Addr, bytes: &[u8], is_64: bool) -> Option<Vec<Line>> {
    let last = pc.checked_add(LONGEST)?;
    let mut all: Vec<Line> = Vec::new();
    for (at, word) in instructions(from, bytes, is_64).take_while(|(at, _)| *at <= last) {
        all.push(Line { at, word });
        let to = target(word, at).filter(|to| at >= pc && *to <= pc && at.saturating_sub(*to) <= LONGEST);
        if let Some(first) = to.and_then(|to| all.iter().position(|line| line.at == to)) {
            return Some(all.split_off(first));
        }
    }
    None
}

const fn bit(register: u16) -> u32 {
    1_u32.wrapping_shl(register as u32)
}

/// The register that it writes.
fn written(word: u32) -> Option<u16> {
    let writes = matches!(code(word), LOAD | IMMEDIATE | AUIPC | IMMEDIATE_32 | REGISTERS | LUI | REGISTERS_32 | JUMP);
    Some(to(word)).filter(|to| writes && *to != 0)
}

/// The registers that it reads.
fn read(word: u32) -> Vec<u16> {
    let (a, b) = (register(word, 15), register(word, 20));
    match code(word) {
        LOAD | IMMEDIATE | IMMEDIATE_32 => vec![a],
        STORE | REGISTERS | REGISTERS_32 | BRANCH => vec![a, b],
        _ => Vec::new(),
    }
}

/// True for a subtraction, and for a branch that asks for an order (BLT, BGE, BLTU, BGEU).
fn measures(word: u32) -> bool {
    match code(word) {
        REGISTERS | REGISTERS_32 => kind(word) == 0 && word >> 25 == 0x20,
        BRANCH => kind(word) >= 4,
        _ => false,
    }
}

impl State {
    /// The address that a load or a store accesses.
    fn place(&self, word: u32) -> Option<Addr> {
        let offset = match code(word) {
            LOAD => constant(word),
            STORE => store_offset(word),
            _ => return None,
        };
        let base = register(word, 15);
        // What the loop writes is not what the register holds at its start.
        let is_known = self.written & !self.now & bit(base) == 0;
        let value = self.value(base).filter(|_| is_known)?;
        Some(self.cut(value.wrapping_add_signed(offset)))
    }

    fn value(&self, register: u16) -> Option<u64> {
        if register == 0 { Some(0) } else { *self.values.get(usize::from(register))? }
    }

    const fn cut(&self, value: u64) -> u64 {
        if self.is_64 { value } else { value & 0xFFFF_FFFF }
    }

    /// Carries an instruction out; `None` for a call.
    fn step(&mut self, Line { at, word }: Line) -> Option<()> {
        self.until = self.until.max(target(word, at).unwrap_or_default());
        self.counts |= read(word).into_iter().any(|from| self.written & !self.now & bit(from) != 0);
        let Some(to) = written(word) else { return Some(()) };
        let upper = i64::from((word & 0xFFFF_F000).cast_signed());
        let value = match code(word) {
            JUMP => return None,
            LUI => Some(upper.cast_unsigned()),
            AUIPC => Some(at.wrapping_add_signed(upper)),
            IMMEDIATE if kind(word) == 0 => {
                self.value(register(word, 15)).map(|value| value.wrapping_add_signed(constant(word)))
            }
            _ => None,
        };
        let value = value.map(|value| self.cut(value));
        // What a branch may skip is not written in each round.
        let is_certain = at >= self.until;
        self.values.get_mut(usize::from(to)).into_iter().for_each(|known| *known = value.filter(|_| is_certain));
        self.now |= if is_certain { bit(to) } else { 0 };
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(pc: u64, code: &[u32], values: &[(&str, u64)]) -> Option<Polling> {
        let halves = |word: &u32| {
            let low = word.to_le_bytes();
            if word & 3 == 3 { low.to_vec() } else { low[..2].to_vec() }
        };
        let bytes: Vec<u8> = code.iter().flat_map(halves).collect();
        let mut registers = Registers::new(Architecture::Riscv32);
        assert!(registers.set("pc", pc));
        values.iter().for_each(|(name, value)| assert!(registers.set(name, *value)));
        polling(&registers, 0x100, &bytes)
    }

    /// A loop of a RISC-V that waits for a word was not seen.
    #[test]
    fn a_riscv_waited_for_a_word() {
        let a0 = [("a0", 0x8004_0000)];
        // lw a3, 16(a0); c.beqz a3, back
        let flag = [0x0105_2683, 0xDEF5];
        assert_eq!(found(0x100, &flag, &a0).map(|all| all.reads), Some(vec![0x8004_0010]));
        assert_eq!(found(0x104, &flag, &a0).map(|all| all.measures), Some(false));
        assert_eq!(found(0x100, &flag, &[]), None, "the address is not known");
        // lui a0, 0x80040; lw a3, 16(a0); beq a3, zero, -8
        let made = [0x8004_0537, 0x0105_2683, 0xFE06_8CE3];
        assert_eq!(found(0x108, &made, &[]).map(|all| all.reads), Some(vec![0x8004_0010]));
        // lw a3, 16(a0); jal ra, 0; c.beqz a3, back
        assert_eq!(found(0x100, &[0x0105_2683, 0x0000_00EF, 0xDAF5], &a0), None, "it calls");
    }

    /// A loop that waits for the kernel's tick with interrupts disabled was one that ends by itself.
    #[test]
    fn a_riscv_that_reads_a_clock_in_memory_does_not_count() {
        let values = [("a0", 0x8004_0000), ("a1", 7), ("a2", 2), ("a4", 9)];
        // lw a3, 16(a0); c.sub a3, a1; bltu a3, a2, -6
        let clock = found(0x104, &[0x0105_2683, 0x8E8D, 0xFEC6_EDE3], &values).unwrap();
        assert_eq!((clock.reads, clock.writes, clock.measures, clock.counts), (vec![0x8004_0010], false, true, false));
        // lw a3, 16(a0); c.addi a4, -1; bne a4, zero, -6
        let counter = found(0x104, &[0x0105_2683, 0x177D, 0xFE07_1DE3], &values).unwrap();
        assert!(counter.counts && counter.measures);
        // lw a3, 0(a0); c.addi a0, 4; bne a3, zero, -6
        assert_eq!(found(0x104, &[0x0005_2683, 0x0511, 0xFE06_9DE3], &values), None, "it goes along a text");
    }

    #[test]
    fn any_code_is_survived() {
        let mut state = 7_u32;
        for _ in 0..2000 {
            let code: Vec<u32> = (0..16)
                .map(|_| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    state.rotate_left(9)
                })
                .collect();
            let _ = found(0x100 + u64::from(state >> 28) * 2, &code, &[("a0", 0), ("a1", 0xFFFF_FFFF)]);
        }
    }
}
