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
use super::table::{Bank, Group, Kind, Model, Place, bank, general, words};
use super::{Architecture, Origin, Registers, Saved, SavedError, SavedKind};
use crate::abi::Width;
use crate::elf::Machine;

/// Registers of `org.gnu.gdb.riscv.cpu`, of `org.gnu.gdb.riscv.fpu` for doubles, and of `org.gnu.gdb.riscv.csr`, whose
/// numbers are 65 above those of the instruction set.
const REGISTERS: &[Bank] = &[
    general(Kind::Int, 0, "zero"),
    general(Kind::Code, 1, "ra"),
    general(Kind::Data, 2, "sp gp tp"),
    general(Kind::Int, 5, "t0 t1 t2"),
    general(Kind::Data, 8, "fp"),
    general(Kind::Int, 9, "s1 a0 a1 a2 a3 a4 a5 a6 a7 s2 s3 s4 s5 s6 s7 s8 s9 s10 s11 t3 t4 t5 t6"),
    general(Kind::Code, 32, "pc"),
    bank(Group::Float, Kind::Double, 64, Place::Number(33), "ft0 ft1 ft2 ft3 ft4 ft5 ft6 ft7 fs0 fs1"),
    bank(Group::Float, Kind::Double, 64, Place::Number(43), "fa0 fa1 fa2 fa3 fa4 fa5 fa6 fa7"),
    bank(Group::Float, Kind::Double, 64, Place::Number(51), "fs2 fs3 fs4 fs5 fs6 fs7 fs8 fs9 fs10 fs11"),
    bank(Group::Float, Kind::Double, 64, Place::Number(61), "ft8 ft9 ft10 ft11"),
    bank(Group::Float, Kind::Int, 32, Place::Number(66), "fflags frm fcsr"),
    bank(Group::System, Kind::Int, 0, Place::Number(65 + 0x300), "mstatus"),
    bank(Group::System, Kind::Int, 0, Place::Number(65 + 0x304), "mie mtvec"),
    bank(Group::System, Kind::Int, 0, Place::Number(65 + 0x341), "mepc mcause mtval mip"),
];

const NOTE: &str = "pc ra sp gp tp t0 t1 t2 fp s1 a0 a1 a2 a3 a4 a5 a6 a7 s2 s3 s4 s5 s6 s7 s8 s9 s10 s11 t3 t4 t5 t6";

pub(super) const MODEL_32: Model = Model {
    name: "riscv32",
    names: &["riscv32", "rv32"],
    machine: Machine(243),
    width: Width::W4,
    registers: REGISTERS,
    roles: [Some("pc"), Some("sp"), Some("ra")],
    aliases: &[("s0", "fp")],
    note: NOTE,
    gdb: "riscv:rv32",
    features: ["org.gnu.gdb.riscv.cpu", "org.gnu.gdb.riscv.fpu", "org.gnu.gdb.riscv.csr"],
    triple: "riscv32-unknown-elf",
};
pub(super) const MODEL_64: Model = Model {
    name: "riscv64",
    names: &["riscv64", "rv64"],
    width: Width::W8,
    gdb: "riscv:rv64",
    triple: "riscv64-unknown-elf",
    ..MODEL_32
};

/// From 1R on.
const KEPT: &str = "s11 s10 s9 s8 s7 s6 s5 s4 s3 s2 s1 fp";
/// After those of [`KEPT`], in a frame of an interrupt.
const REST: &str = "t6 t5 t4 t3 t2 t1 t0 a7 a6 a5 a4 a3 a2 a1 a0 ra";

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

/// The place of `x0` to `x31`.
pub(super) fn numbered(architecture: Architecture, name: &str) -> Option<usize> {
    let riscv = matches!(architecture, Architecture::Riscv32 | Architecture::Riscv64);
    let number: usize = name.strip_prefix('x').filter(|_| riscv)?.parse().ok()?;
    (number < 32).then_some(number)
}

/// True where all registers hold what a reset leaves in them, and no trap was taken since.
pub(super) fn is_at_reset(registers: &Registers) -> bool {
    let general = words(KEPT).chain(words(REST)).chain(words("sp gp tp")).flatten();
    let is_clear = |name: &str| registers.get(name).is_none_or(|value| value == 0);
    general.into_iter().all(|name| registers.get(name) == Some(0))
        && ["mcause", "mepc", "mtval"].into_iter().all(is_clear)
}

pub(super) fn saved(
    stack: &mut Stack<'_>,
    architecture: Architecture,
    floats: Option<bool>,
) -> Result<Saved, SavedError> {
    let width = architecture.width();
    let kind = stack.next(width)?;
    if kind > 1 {
        return Err(stack.no_frame(format!("its first word is {kind:#x}, neither 0 (kernel) nor 1 (interrupt)")));
    }
    let mut registers = Registers::of(architecture, Origin::Frame);
    registers.put("zero", 0);
    stack.take(width, KEPT, &mut registers)?;
    let (mut floats, mut remark) = (floats, None);
    let (pc, plain, with_floats) = if kind == 0 {
        stack.take(width, "ra", &mut registers)?;
        if floats.is_none() {
            floats = Some(stack.next(width)? & FS != 0);
            remark = Some("mstatus decides whether it holds floating-point registers".to_owned());
        }
        (registers.lr().unwrap_or_default(), 16, 29)
    } else {
        stack.take(width, REST, &mut registers)?;
        // One word is not used.
        stack.skip(width.bytes());
        (stack.next(width)?, 32, 65)
    };
    if pc == 0 || pc & 1 != 0 {
        return Err(stack.no_frame(format!("the pc {pc:#x} is {}", if pc == 0 { "zero" } else { "odd" })));
    }
    registers.put("pc", pc);
    match floats {
        Some(floats) => {
            let words: usize = if floats { with_floats } else { plain };
            registers.put("sp", end_of_frame(stack, words, width));
        }
        None => {
            remark = Some("the stack pointer is unknown: without the ELF, so is the size of the frame".to_owned());
        }
    }
    let empty = words(KEPT).chain(words(REST)).flatten().all(|name| registers.get(name) == Some(0));
    let kind = match kind {
        0 => SavedKind::Solicited,
        _ if empty => SavedKind::NeverRan,
        _ => SavedKind::Interrupted,
    };
    Ok(Saved { registers, kind, remark })
}

/// Where a frame of so many words ends.
fn end_of_frame(stack: &Stack<'_>, words: usize, width: Width) -> u64 {
    let end = stack.above(words.saturating_mul(width.bytes()));
    end.checked_next_multiple_of(16).unwrap_or(end)
}

/// What a trap stores of the thread that it interrupts, before it is known whether another one goes on: it is laid out as a frame of
/// an interrupt, without its first word and s1 to s11.
pub(super) fn trapped(
    stack: &mut Stack<'_>,
    architecture: Architecture,
    floats: bool,
) -> Result<Registers, SavedError> {
    let width = architecture.width();
    let mut registers = Registers::of(architecture, Origin::Frame);
    let mut kept = registers.clone();
    stack.skip(width.bytes());
    stack.take(width, KEPT, &mut kept)?;
    stack.take(width, REST, &mut registers)?;
    stack.skip(width.bytes());
    registers.put("zero", 0);
    registers.put("pc", stack.next(width)?);
    registers.put("fp", kept.get("fp").unwrap_or_default());
    registers.put("sp", end_of_frame(stack, if floats { 65 } else { 32 }, width));
    Ok(registers)
}
