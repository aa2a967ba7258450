//! RISC-V, 32 and 64 bits; R is the size of a register.
//!
//! ```text
//! 0R   1: switched out by an interrupt; 0: in a kernel call
//! interrupt: s11 .. s0 (1R..12R) t6 .. t0 (13R..19R) a7 .. a0 (20R..27R) ra 28R, mepc 30R; 32R in all
//!            [f0-f31 from 31R, fcsr 63R; 65R in all]
//! kernel:    s11 .. s0 (1R..12R) ra 13R, mstatus 14R; 16R in all [fs0-fs11, fcsr from 15R; 29R in all]
//! ```
//! What is in brackets is there in programs built for floating point. Later versions round the size up to 16 bytes,
//! to which the stack pointer is aligned: rounding the result up serves both.

use super::frame::Stack;
use super::notes::{HEAD_32, HEAD_64, Prstatus};
use super::{Architecture, Group, Kind, Register, Registers, Saved, SavedError, SavedKind};
use crate::abi::Width;

/// Those of `org.gnu.gdb.riscv.cpu` in 32 bits, and of `org.gnu.gdb.riscv.fpu` for doubles.
#[rustfmt::skip]
pub(super) const REGISTERS_32: &[Register] = &[
    Register::general("zero", 0, 32, Kind::Int),
    Register::general("ra", 1, 32, Kind::Code),
    Register::general("sp", 2, 32, Kind::Data),
    Register::general("gp", 3, 32, Kind::Data),
    Register::general("tp", 4, 32, Kind::Data),
    Register::general("t0", 5, 32, Kind::Int),
    Register::general("t1", 6, 32, Kind::Int),
    Register::general("t2", 7, 32, Kind::Int),
    Register::general("fp", 8, 32, Kind::Data),
    Register::general("s1", 9, 32, Kind::Int),
    Register::general("a0", 10, 32, Kind::Int),
    Register::general("a1", 11, 32, Kind::Int),
    Register::general("a2", 12, 32, Kind::Int),
    Register::general("a3", 13, 32, Kind::Int),
    Register::general("a4", 14, 32, Kind::Int),
    Register::general("a5", 15, 32, Kind::Int),
    Register::general("a6", 16, 32, Kind::Int),
    Register::general("a7", 17, 32, Kind::Int),
    Register::general("s2", 18, 32, Kind::Int),
    Register::general("s3", 19, 32, Kind::Int),
    Register::general("s4", 20, 32, Kind::Int),
    Register::general("s5", 21, 32, Kind::Int),
    Register::general("s6", 22, 32, Kind::Int),
    Register::general("s7", 23, 32, Kind::Int),
    Register::general("s8", 24, 32, Kind::Int),
    Register::general("s9", 25, 32, Kind::Int),
    Register::general("s10", 26, 32, Kind::Int),
    Register::general("s11", 27, 32, Kind::Int),
    Register::general("t3", 28, 32, Kind::Int),
    Register::general("t4", 29, 32, Kind::Int),
    Register::general("t5", 30, 32, Kind::Int),
    Register::general("t6", 31, 32, Kind::Int),
    Register::general("pc", 32, 32, Kind::Code),
    Register::of(Group::Float, "ft0", 33, 64, Kind::Double),
    Register::of(Group::Float, "ft1", 34, 64, Kind::Double),
    Register::of(Group::Float, "ft2", 35, 64, Kind::Double),
    Register::of(Group::Float, "ft3", 36, 64, Kind::Double),
    Register::of(Group::Float, "ft4", 37, 64, Kind::Double),
    Register::of(Group::Float, "ft5", 38, 64, Kind::Double),
    Register::of(Group::Float, "ft6", 39, 64, Kind::Double),
    Register::of(Group::Float, "ft7", 40, 64, Kind::Double),
    Register::of(Group::Float, "fs0", 41, 64, Kind::Double),
    Register::of(Group::Float, "fs1", 42, 64, Kind::Double),
    Register::of(Group::Float, "fa0", 43, 64, Kind::Double),
    Register::of(Group::Float, "fa1", 44, 64, Kind::Double),
    Register::of(Group::Float, "fa2", 45, 64, Kind::Double),
    Register::of(Group::Float, "fa3", 46, 64, Kind::Double),
    Register::of(Group::Float, "fa4", 47, 64, Kind::Double),
    Register::of(Group::Float, "fa5", 48, 64, Kind::Double),
    Register::of(Group::Float, "fa6", 49, 64, Kind::Double),
    Register::of(Group::Float, "fa7", 50, 64, Kind::Double),
    Register::of(Group::Float, "fs2", 51, 64, Kind::Double),
    Register::of(Group::Float, "fs3", 52, 64, Kind::Double),
    Register::of(Group::Float, "fs4", 53, 64, Kind::Double),
    Register::of(Group::Float, "fs5", 54, 64, Kind::Double),
    Register::of(Group::Float, "fs6", 55, 64, Kind::Double),
    Register::of(Group::Float, "fs7", 56, 64, Kind::Double),
    Register::of(Group::Float, "fs8", 57, 64, Kind::Double),
    Register::of(Group::Float, "fs9", 58, 64, Kind::Double),
    Register::of(Group::Float, "fs10", 59, 64, Kind::Double),
    Register::of(Group::Float, "fs11", 60, 64, Kind::Double),
    Register::of(Group::Float, "ft8", 61, 64, Kind::Double),
    Register::of(Group::Float, "ft9", 62, 64, Kind::Double),
    Register::of(Group::Float, "ft10", 63, 64, Kind::Double),
    Register::of(Group::Float, "ft11", 64, 64, Kind::Double),
    Register::of(Group::Float, "fflags", 66, 32, Kind::Int),
    Register::of(Group::Float, "frm", 67, 32, Kind::Int),
    Register::of(Group::Float, "fcsr", 68, 32, Kind::Int),
];

/// Those of `org.gnu.gdb.riscv.cpu` in 64 bits, and of `org.gnu.gdb.riscv.fpu` for doubles.
#[rustfmt::skip]
pub(super) const REGISTERS_64: &[Register] = &[
    Register::general("zero", 0, 64, Kind::Int),
    Register::general("ra", 1, 64, Kind::Code),
    Register::general("sp", 2, 64, Kind::Data),
    Register::general("gp", 3, 64, Kind::Data),
    Register::general("tp", 4, 64, Kind::Data),
    Register::general("t0", 5, 64, Kind::Int),
    Register::general("t1", 6, 64, Kind::Int),
    Register::general("t2", 7, 64, Kind::Int),
    Register::general("fp", 8, 64, Kind::Data),
    Register::general("s1", 9, 64, Kind::Int),
    Register::general("a0", 10, 64, Kind::Int),
    Register::general("a1", 11, 64, Kind::Int),
    Register::general("a2", 12, 64, Kind::Int),
    Register::general("a3", 13, 64, Kind::Int),
    Register::general("a4", 14, 64, Kind::Int),
    Register::general("a5", 15, 64, Kind::Int),
    Register::general("a6", 16, 64, Kind::Int),
    Register::general("a7", 17, 64, Kind::Int),
    Register::general("s2", 18, 64, Kind::Int),
    Register::general("s3", 19, 64, Kind::Int),
    Register::general("s4", 20, 64, Kind::Int),
    Register::general("s5", 21, 64, Kind::Int),
    Register::general("s6", 22, 64, Kind::Int),
    Register::general("s7", 23, 64, Kind::Int),
    Register::general("s8", 24, 64, Kind::Int),
    Register::general("s9", 25, 64, Kind::Int),
    Register::general("s10", 26, 64, Kind::Int),
    Register::general("s11", 27, 64, Kind::Int),
    Register::general("t3", 28, 64, Kind::Int),
    Register::general("t4", 29, 64, Kind::Int),
    Register::general("t5", 30, 64, Kind::Int),
    Register::general("t6", 31, 64, Kind::Int),
    Register::general("pc", 32, 64, Kind::Code),
    Register::of(Group::Float, "ft0", 33, 64, Kind::Double),
    Register::of(Group::Float, "ft1", 34, 64, Kind::Double),
    Register::of(Group::Float, "ft2", 35, 64, Kind::Double),
    Register::of(Group::Float, "ft3", 36, 64, Kind::Double),
    Register::of(Group::Float, "ft4", 37, 64, Kind::Double),
    Register::of(Group::Float, "ft5", 38, 64, Kind::Double),
    Register::of(Group::Float, "ft6", 39, 64, Kind::Double),
    Register::of(Group::Float, "ft7", 40, 64, Kind::Double),
    Register::of(Group::Float, "fs0", 41, 64, Kind::Double),
    Register::of(Group::Float, "fs1", 42, 64, Kind::Double),
    Register::of(Group::Float, "fa0", 43, 64, Kind::Double),
    Register::of(Group::Float, "fa1", 44, 64, Kind::Double),
    Register::of(Group::Float, "fa2", 45, 64, Kind::Double),
    Register::of(Group::Float, "fa3", 46, 64, Kind::Double),
    Register::of(Group::Float, "fa4", 47, 64, Kind::Double),
    Register::of(Group::Float, "fa5", 48, 64, Kind::Double),
    Register::of(Group::Float, "fa6", 49, 64, Kind::Double),
    Register::of(Group::Float, "fa7", 50, 64, Kind::Double),
    Register::of(Group::Float, "fs2", 51, 64, Kind::Double),
    Register::of(Group::Float, "fs3", 52, 64, Kind::Double),
    Register::of(Group::Float, "fs4", 53, 64, Kind::Double),
    Register::of(Group::Float, "fs5", 54, 64, Kind::Double),
    Register::of(Group::Float, "fs6", 55, 64, Kind::Double),
    Register::of(Group::Float, "fs7", 56, 64, Kind::Double),
    Register::of(Group::Float, "fs8", 57, 64, Kind::Double),
    Register::of(Group::Float, "fs9", 58, 64, Kind::Double),
    Register::of(Group::Float, "fs10", 59, 64, Kind::Double),
    Register::of(Group::Float, "fs11", 60, 64, Kind::Double),
    Register::of(Group::Float, "ft8", 61, 64, Kind::Double),
    Register::of(Group::Float, "ft9", 62, 64, Kind::Double),
    Register::of(Group::Float, "ft10", 63, 64, Kind::Double),
    Register::of(Group::Float, "ft11", 64, 64, Kind::Double),
    Register::of(Group::Float, "fflags", 66, 32, Kind::Int),
    Register::of(Group::Float, "frm", 67, 32, Kind::Int),
    Register::of(Group::Float, "fcsr", 68, 32, Kind::Int),
];

const ORDER: &[&str] = &[
    "pc", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "fp", "s1", "a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "s2",
    "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "t3", "t4", "t5", "t6",
];

pub(super) const PRSTATUS_32: Prstatus =
    Prstatus { pid: HEAD_32.0, registers: HEAD_32.1, word: Width::W4, order: ORDER };
pub(super) const PRSTATUS_64: Prstatus =
    Prstatus { pid: HEAD_64.0, registers: HEAD_64.1, word: Width::W8, order: ORDER };

/// From 1R on.
const KEPT: [&str; 12] = ["s11", "s10", "s9", "s8", "s7", "s6", "s5", "s4", "s3", "s2", "s1", "fp"];
/// Behind those of [`KEPT`], in a frame of an interrupt.
const REST: [&str; 16] =
    ["t6", "t5", "t4", "t3", "t2", "t1", "t0", "a7", "a6", "a5", "a4", "a3", "a2", "a1", "a0", "ra"];

/// `mstatus`: state of the floating-point unit; 0 is off.
const FS: u64 = 3 << 13;

/// Bits of the floating-point registers in which a program passes arguments, by its `e_flags`; 0 where it uses none.
pub(super) const fn float_bits(flags: u32) -> u16 {
    match flags & 6 {
        0 => 0,
        2 => 32,
        4 => 64,
        _ => 128,
    }
}

/// The usual other names: `x0`..`x31`, `s0`.
pub(super) fn alias(name: &str) -> Option<&'static str> {
    if name == "s0" {
        return Some("fp");
    }
    let number: usize = name.strip_prefix('x')?.parse().ok()?;
    REGISTERS_64.get(number).filter(|_| number < 32).map(|r| r.name)
}

pub(super) fn saved(
    stack: &mut Stack<'_>,
    architecture: Architecture,
    floats: Option<bool>,
) -> Result<Saved, SavedError> {
    let width = architecture.width();
    let word = |stack: &mut Stack<'_>, index: usize| {
        let offset = index.saturating_mul(width.bytes());
        match width {
            Width::W4 => stack.u32(offset),
            Width::W8 => stack.u64(offset),
        }
    };
    let kind = word(stack, 0)?;
    if kind > 1 {
        return Err(stack.no_frame(format!("its first word is {kind:#x}, neither 0 (kernel) nor 1 (interrupt)")));
    }
    let mut registers = Registers::new(architecture);
    registers.put("zero", 0);
    for (index, name) in KEPT.iter().enumerate() {
        registers.put(name, word(stack, index.saturating_add(1))?);
    }
    let (mut floats, mut remark) = (floats, None);
    let (pc, plain, with_floats) = if kind == 0 {
        let ra = word(stack, 13)?;
        registers.put("ra", ra);
        if floats.is_none() {
            floats = Some(word(stack, 14)? & FS != 0);
            remark = Some("whether it holds floating-point registers is taken from mstatus");
        }
        (ra, 16, 29)
    } else {
        for (index, name) in REST.iter().enumerate() {
            registers.put(name, word(stack, index.saturating_add(13))?);
        }
        (word(stack, 30)?, 32, 65)
    };
    if pc == 0 || pc & 1 != 0 {
        return Err(stack.no_frame(format!("the pc {pc:#x} is {}", if pc == 0 { "zero" } else { "odd" })));
    }
    registers.put("pc", pc);
    match floats {
        Some(floats) => {
            let words: usize = if floats { with_floats } else { plain };
            let end = stack.above(words.saturating_mul(width.bytes()));
            registers.put("sp", end.checked_next_multiple_of(16).unwrap_or(end));
        }
        None => remark = Some("the stack pointer is unknown: without the ELF, so is the size of the frame"),
    }
    let empty = KEPT.iter().chain(&REST).all(|name| registers.get(name) == Some(0));
    let kind = match kind {
        0 => SavedKind::Solicited,
        _ if empty => SavedKind::NeverRan,
        _ => SavedKind::Interrupted,
    };
    Ok(Saved { registers, kind, remark })
}
