//! RISC-V code (The RISC-V Instruction Set Manual, volume I).

use super::super::Architecture;
pub(super) use super::super::riscv_word::target;
use super::super::riscv_word::{
    BRANCH, JUMP, JUMP_TO_REGISTER, LOAD, LOAD_FLOAT, STORE, STORE_FLOAT, code, constant, instructions, kind, register,
    store_offset, to,
};
use super::{Code, Does, Instruction, Line, bit};
use crate::abi::Addr;

/// What a call may change: ra, t0 to t6 and a0 to a7 (RISC-V Calling Convention, 1.1).
const BY_CALLS: u32 = 0xF003_FCE2;
/// The registers ra, sp, tp and t0.
const RA: u16 = 1;
const SP: u16 = 2;
const TP: u16 = 4;
const T0: u16 = 5;
/// Codes of instructions.
const ATOMIC: u32 = 0x2F;
const SYSTEM: u32 = 0x73;
const ECALL: u32 = 0x0000_0073;

/// What is none of these instructions does not go on, and may write all registers.
pub(super) fn lines(code: &Code<'_>, architecture: Architecture) -> Vec<Line> {
    let is_64 = architecture == Architecture::Riscv64;
    let all = instructions(code.from, code.code, is_64);
    all.map(|(at, word)| Line { at, instruction: Instruction::Riscv { word, is_64 } }).collect()
}

/// True for what does not go on at the next instruction.
pub(super) const fn leaves(word: u32) -> bool {
    match code(word) {
        JUMP | JUMP_TO_REGISTER => to(word) == 0,
        // URET, SRET and MRET.
        SYSTEM => matches!(word, 0x0020_0073 | 0x1020_0073 | 0x3020_0073),
        0 => true,
        _ => false,
    }
}

/// A jump through a register that is no return: to a function, or through a table.
pub(super) const fn is_table(word: u32) -> bool {
    code(word) == JUMP_TO_REGISTER && to(word) == 0 && register(word, 15) != RA
}

/// True where it may write memory, itself or by a call.
pub(super) const fn stores(word: u32) -> bool {
    match code(word) {
        STORE | STORE_FLOAT | ATOMIC | 0 => true,
        JUMP | JUMP_TO_REGISTER => to(word) != 0,
        _ => word == ECALL,
    }
}

/// The register and the constant whose sum is the address that a store writes.
pub(super) fn stored(word: u32) -> Option<(u16, i64)> {
    // Vectors have kinds of their own.
    let is_plain = code(word) == STORE || code(word) == STORE_FLOAT && matches!(kind(word), 2 | 3);
    is_plain.then_some((register(word, 15), store_offset(word)))
}

/// The register whose value a store writes, where that is no register of the FPU.
pub(super) fn stored_register(word: u32) -> Option<u16> {
    (code(word) == STORE).then(|| register(word, 20))
}

/// True for a store beside the stack pointer.
pub(super) fn stores_in_stack(word: u32) -> bool {
    stored(word).is_some_and(|(base, _)| base == SP)
}

/// The register that an instruction takes for an address: of a load or a store, or of a jump.
pub(super) fn pointer(word: u32) -> Option<u16> {
    let has_base = matches!(code(word), LOAD | LOAD_FLOAT | STORE | STORE_FLOAT | ATOMIC | JUMP_TO_REGISTER);
    // What is relative to sp, gp or tp has no pointer of the program.
    Some(register(word, 15)).filter(|base| has_base && *base > TP)
}

/// The register of which an instruction that accesses memory makes the address.
pub(super) fn addressing(word: u32) -> Option<(u16, Option<u16>)> {
    pointer(word).filter(|_| code(word) != JUMP_TO_REGISTER).map(|base| (base, None))
}

/// What an instruction does.
pub(super) fn does(word: u32, at: Addr, is_64: bool) -> Does {
    let (to, from) = (to(word), register(word, 15));
    let upper = i64::from((word & 0xFFFF_F000).cast_signed()).cast_unsigned();
    let cut = |value: u64| if is_64 { value } else { value & 0xFFFF_FFFF };
    let sets = |value: u64| Does::Sets { to, value: cut(value), is_top: false };
    let moves = |from: u16, plus: i64| match from {
        0 => sets(plus.cast_unsigned()),
        _ => Does::Moves { to, from, plus },
    };
    match (code(word), kind(word)) {
        // A routine that saves registers on the stack.
        (JUMP | JUMP_TO_REGISTER, _) if to == T0 => Does::Writes(u32::MAX),
        (JUMP | JUMP_TO_REGISTER, _) if to != 0 => Does::Writes(BY_CALLS | bit(to)),
        (SYSTEM, _) if word == ECALL => Does::Writes(BY_CALLS),
        (STORE | STORE_FLOAT | LOAD_FLOAT | BRANCH | JUMP | JUMP_TO_REGISTER | 0x0F, _) => Does::Writes(0),
        (0, _) => Does::Writes(u32::MAX),
        // Register 0 is always 0.
        (LOAD | ATOMIC | SYSTEM | 0x13 | 0x17 | 0x1B | 0x33 | 0x37 | 0x3B | 0x53, _) if to == 0 => Does::Writes(0),
        (LOAD, 0 | 4) => Does::LoadsPart { to, base: from, plus: constant(word), index: None, bytes: 1 },
        (LOAD, 1 | 5) => Does::LoadsPart { to, base: from, plus: constant(word), index: None, bytes: 2 },
        (LOAD, 2 | 6) if is_64 => Does::LoadsPart { to, base: from, plus: constant(word), index: None, bytes: 4 },
        (LOAD, 2) if !is_64 => Does::Loads { to, base: from, plus: constant(word), index: None },
        (LOAD, 3) if is_64 => Does::Loads { to, base: from, plus: constant(word), index: None },
        // LUI and AUIPC.
        (0x37, _) => sets(upper),
        (0x17, _) => sets(at.wrapping_add(upper)),
        // ADDI; ADD of a register and 0, which is MV.
        (0x13, 0) => moves(from, constant(word)),
        (0x33, 0) if word >> 25 == 0 && from == 0 => moves(register(word, 20), 0),
        (0x33, 0) if word >> 25 == 0 && register(word, 20) == 0 => moves(from, 0),
        (0x33, 0) if word >> 25 == 0 => Does::Adds { to, base: from, index: register(word, 20), shift: 0 },
        // Constants and registers, CSRs, atomic accesses and conversions write the one register that they name.
        (0x13 | 0x1B | 0x33 | 0x3B | LOAD | ATOMIC | SYSTEM | 0x53, _) => Does::Writes(bit(to)),
        // Products of floating-point registers.
        (0x43 | 0x47 | 0x4B | 0x4F, _) => Does::Writes(0),
        _ => Does::Writes(u32::MAX),
    }
}
