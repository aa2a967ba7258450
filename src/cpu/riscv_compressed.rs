//! Instructions of 16 bits of RISC-V code, as those of 32 bits that do the same (The RISC-V Instruction Set Manual, volume I,
//! "C", 16.3 to 16.8; "Zcb").

use super::riscv_jumps::{compressed, gathered, signed};
use super::riscv_word::{IMMEDIATE, IMMEDIATE_32, LOAD, LOAD_FLOAT, REGISTERS, REGISTERS_32, STORE, STORE_FLOAT};

/// With a constant of 12 bits.
const fn with_constant(code: u32, kind: u32, to: u32, from: u32, constant: u32) -> u32 {
    (constant & 0xFFF) << 20 | from << 15 | kind << 12 | to << 7 | code
}

const fn store(code: u32, kind: u32, base: u32, from: u32, offset: u32) -> u32 {
    (offset >> 5 & 0x7F) << 25 | from << 20 | base << 15 | kind << 12 | (offset & 0x1F) << 7 | code
}

/// `kind`: its 10 bits.
const fn of_registers(code: u32, kind: u32, to: u32, a: u32, b: u32) -> u32 {
    (kind >> 3) << 25 | b << 20 | a << 15 | (kind & 7) << 12 | to << 7 | code
}

fn jump(link: u32, offset: i64) -> u32 {
    let bits = low(offset);
    (bits >> 20 & 1) << 31
        | (bits >> 1 & 0x3FF) << 21
        | (bits >> 11 & 1) << 20
        | (bits >> 12 & 0xFF) << 12
        | link << 7
        | 0x6F
}

/// BEQ or BNE with zero.
fn branch(kind: u32, register: u32, offset: i64) -> u32 {
    let bits = low(offset);
    (bits >> 12 & 1) << 31
        | (bits >> 5 & 0x3F) << 25
        | register << 15
        | kind << 12
        | (bits >> 1 & 0xF) << 8
        | (bits >> 11 & 1) << 7
        | 0x63
}

/// The lower half of a number.
fn low(number: i64) -> u32 {
    u32::try_from(number & 0xFFFF_FFFF).unwrap_or_default()
}

/// The instruction of 32 bits; `None` where there is none, or what this one means depends on the extensions of the processor.
pub(super) fn expanded(half: u16, is_64: bool) -> Option<u32> {
    let kind = half >> 13;
    match half & 3 {
        0 => memory(half, kind, is_64),
        1 => control(half, kind, is_64),
        2 => stack(half, kind, is_64),
        _ => None,
    }
}

/// One of s0, s1, a0 to a5.
fn register(half: u16, from: u32) -> u32 {
    u32::from(half >> from & 7) | 8
}

/// Loads and stores with a base register.
fn memory(half: u16, kind: u16, is_64: bool) -> Option<u32> {
    let (value, base) = (register(half, 2), register(half, 7));
    let top = gathered(half, 12, &[5, 4, 3]);
    let word = || top | gathered(half, 6, &[2, 6]);
    let long = || top | gathered(half, 6, &[7, 6]);
    Some(match kind {
        // All zeros are no instruction.
        0 => {
            let offset = gathered(half, 12, &[5, 4, 9, 8, 7, 6, 2, 3]);
            return (offset != 0).then(|| with_constant(IMMEDIATE, 0, value, 2, offset));
        }
        1 => with_constant(LOAD_FLOAT, 3, value, base, long()),
        2 => with_constant(LOAD, 2, value, base, word()),
        3 if is_64 => with_constant(LOAD, 3, value, base, long()),
        3 => with_constant(LOAD_FLOAT, 2, value, base, word()),
        4 => return part(half, value, base),
        5 => store(STORE_FLOAT, 3, base, value, long()),
        6 => store(STORE, 2, base, value, word()),
        _ if is_64 => store(STORE, 3, base, value, long()),
        _ => store(STORE_FLOAT, 2, base, value, word()),
    })
}

/// C.LBU, C.LHU, C.LH, C.SB and C.SH.
fn part(half: u16, value: u32, base: u32) -> Option<u32> {
    let (byte, pair) = (gathered(half, 6, &[0, 1]), gathered(half, 5, &[1]));
    match half >> 10 & 7 {
        0 => Some(with_constant(LOAD, 4, value, base, byte)),
        1 if half >> 6 & 1 == 0 => Some(with_constant(LOAD, 5, value, base, pair)),
        1 => Some(with_constant(LOAD, 1, value, base, pair)),
        2 => Some(store(STORE, 0, base, value, byte)),
        3 => Some(store(STORE, 1, base, value, pair)),
        _ => None,
    }
}

/// Constants, arithmetic, jumps and branches.
fn control(half: u16, kind: u16, is_64: bool) -> Option<u32> {
    let to = u32::from(half >> 7 & 0x1F);
    let constant = low(signed(gathered(half, 12, &[5]) | gathered(half, 6, &[4, 3, 2, 1, 0]), 6));
    let near = || signed(gathered(half, 12, &[8, 4, 3]) | gathered(half, 6, &[7, 6, 2, 1, 5]), 9);
    Some(match kind {
        0 => with_constant(IMMEDIATE, 0, to, to, constant),
        1 if is_64 => with_constant(IMMEDIATE_32, 0, to, to, constant),
        1 => jump(1, compressed(half)),
        2 => with_constant(IMMEDIATE, 0, to, 0, constant),
        3 if to == 2 => {
            let by = signed(gathered(half, 12, &[9]) | gathered(half, 6, &[4, 6, 8, 7, 5]), 10);
            with_constant(IMMEDIATE, 0, 2, 2, low(by))
        }
        3 => (constant & 0xF_FFFF) << 12 | to << 7 | 0x37,
        4 => return arithmetic(half, constant),
        5 => jump(0, compressed(half)),
        6 => branch(0, register(half, 7), near()),
        _ => branch(1, register(half, 7), near()),
    })
}

fn arithmetic(half: u16, constant: u32) -> Option<u32> {
    let (to, other) = (register(half, 7), register(half, 2));
    let shift = constant & 0x3F;
    Some(match (half >> 10 & 3, half >> 12 & 1, half >> 5 & 3) {
        (0, ..) => with_constant(IMMEDIATE, 5, to, to, shift),
        (1, ..) => with_constant(IMMEDIATE, 5, to, to, shift | 0x400),
        (2, ..) => with_constant(IMMEDIATE, 7, to, to, constant),
        (_, 0, 0) => of_registers(REGISTERS, 0x100, to, to, other),
        (_, 0, 1) => of_registers(REGISTERS, 4, to, to, other),
        (_, 0, 2) => of_registers(REGISTERS, 6, to, to, other),
        (_, 0, _) => of_registers(REGISTERS, 7, to, to, other),
        (_, _, 0) => of_registers(REGISTERS_32, 0x100, to, to, other),
        (_, _, 1) => of_registers(REGISTERS_32, 0, to, to, other),
        // C.MUL.
        (_, _, 2) => of_registers(REGISTERS, 8, to, to, other),
        _ => match half >> 2 & 7 {
            // C.ZEXT.B and C.NOT. What the others give is not needed: a quotient, which is not known either.
            0 => with_constant(IMMEDIATE, 7, to, to, 0xFF),
            5 => with_constant(IMMEDIATE, 4, to, to, 0xFFF),
            1..=4 => of_registers(REGISTERS, 0xC, to, to, to),
            _ => return None,
        },
    })
}

/// Loads and stores above the stack pointer, and what has two registers.
fn stack(half: u16, kind: u16, is_64: bool) -> Option<u32> {
    let (to, from) = (u32::from(half >> 7 & 0x1F), u32::from(half >> 2 & 0x1F));
    let top = gathered(half, 12, &[5]);
    let word = || top | gathered(half, 6, &[4, 3, 2, 7, 6]);
    let long = || top | gathered(half, 6, &[4, 3, 8, 7, 6]);
    let word_to = || gathered(half, 12, &[5, 4, 3, 2, 7, 6]);
    let long_to = || gathered(half, 12, &[5, 4, 3, 8, 7, 6]);
    Some(match (kind, half >> 12 & 1, to, from) {
        (0, ..) => with_constant(IMMEDIATE, 1, to, to, top | from),
        (1, ..) => with_constant(LOAD_FLOAT, 3, to, 2, long()),
        (2, ..) => with_constant(LOAD, 2, to, 2, word()),
        (3, ..) if is_64 => with_constant(LOAD, 3, to, 2, long()),
        (3, ..) => with_constant(LOAD_FLOAT, 2, to, 2, word()),
        (4, 0, 0, 0) => return None,
        (4, 0, _, 0) => with_constant(0x67, 0, 0, to, 0),
        (4, 0, ..) => of_registers(REGISTERS, 0, to, 0, from),
        (4, _, 0, 0) => 0x0010_0073,
        (4, _, _, 0) => with_constant(0x67, 0, 1, to, 0),
        (4, ..) => of_registers(REGISTERS, 0, to, to, from),
        // CM.PUSH, CM.POPRET, CM.JT and their kin of "Zcmp" and "Zcmt" have codes of C.FSDSP.
        (5, ..) if matches!(half >> 10 & 7, 0 | 3) || half >> 11 & 3 == 3 && half >> 8 & 1 == 0 => return None,
        (5, ..) => store(STORE_FLOAT, 3, 2, from, long_to()),
        (6, ..) => store(STORE, 2, 2, from, word_to()),
        _ if is_64 => store(STORE, 3, 2, from, long_to()),
        _ => store(STORE_FLOAT, 2, 2, from, word_to()),
    })
}
