//! ARM in 32 bits, A and R profiles.
//!
//! ```text
//! +0   1: switched out by an interrupt; 0: in a kernel call
//! +4   CPSR
//! interrupt: [d0-d31 fpscr] r0-r12 lr pc
//! kernel:    [d8-d31 fpscr] r4-r11 lr
//! ```
//! What is in brackets is there where the thread had switched the VFP on, which its control block tells.

use super::frame::Stack;
use super::notes::{HEAD_32, Prstatus};
use super::{Architecture, Group, Kind, Register, Registers, Saved, SavedError, SavedKind};
use crate::abi::{Endian, Width};

/// Those of `org.gnu.gdb.arm.core` and `org.gnu.gdb.arm.vfp`.
#[rustfmt::skip]
pub(super) const REGISTERS: &[Register] = &[
    Register::general("r0", 0, 32, Kind::Int),
    Register::general("r1", 1, 32, Kind::Int),
    Register::general("r2", 2, 32, Kind::Int),
    Register::general("r3", 3, 32, Kind::Int),
    Register::general("r4", 4, 32, Kind::Int),
    Register::general("r5", 5, 32, Kind::Int),
    Register::general("r6", 6, 32, Kind::Int),
    Register::general("r7", 7, 32, Kind::Int),
    Register::general("r8", 8, 32, Kind::Int),
    Register::general("r9", 9, 32, Kind::Int),
    Register::general("r10", 10, 32, Kind::Int),
    Register::general("r11", 11, 32, Kind::Int),
    Register::general("r12", 12, 32, Kind::Int),
    Register::general("sp", 13, 32, Kind::Data),
    Register::general("lr", 14, 32, Kind::Int),
    Register::general("pc", 15, 32, Kind::Code),
    Register::general("cpsr", 25, 32, Kind::Int),
    Register::of(Group::Float, "d0", 26, 64, Kind::Double),
    Register::of(Group::Float, "d1", 27, 64, Kind::Double),
    Register::of(Group::Float, "d2", 28, 64, Kind::Double),
    Register::of(Group::Float, "d3", 29, 64, Kind::Double),
    Register::of(Group::Float, "d4", 30, 64, Kind::Double),
    Register::of(Group::Float, "d5", 31, 64, Kind::Double),
    Register::of(Group::Float, "d6", 32, 64, Kind::Double),
    Register::of(Group::Float, "d7", 33, 64, Kind::Double),
    Register::of(Group::Float, "d8", 34, 64, Kind::Double),
    Register::of(Group::Float, "d9", 35, 64, Kind::Double),
    Register::of(Group::Float, "d10", 36, 64, Kind::Double),
    Register::of(Group::Float, "d11", 37, 64, Kind::Double),
    Register::of(Group::Float, "d12", 38, 64, Kind::Double),
    Register::of(Group::Float, "d13", 39, 64, Kind::Double),
    Register::of(Group::Float, "d14", 40, 64, Kind::Double),
    Register::of(Group::Float, "d15", 41, 64, Kind::Double),
    Register::of(Group::Float, "d16", 42, 64, Kind::Double),
    Register::of(Group::Float, "d17", 43, 64, Kind::Double),
    Register::of(Group::Float, "d18", 44, 64, Kind::Double),
    Register::of(Group::Float, "d19", 45, 64, Kind::Double),
    Register::of(Group::Float, "d20", 46, 64, Kind::Double),
    Register::of(Group::Float, "d21", 47, 64, Kind::Double),
    Register::of(Group::Float, "d22", 48, 64, Kind::Double),
    Register::of(Group::Float, "d23", 49, 64, Kind::Double),
    Register::of(Group::Float, "d24", 50, 64, Kind::Double),
    Register::of(Group::Float, "d25", 51, 64, Kind::Double),
    Register::of(Group::Float, "d26", 52, 64, Kind::Double),
    Register::of(Group::Float, "d27", 53, 64, Kind::Double),
    Register::of(Group::Float, "d28", 54, 64, Kind::Double),
    Register::of(Group::Float, "d29", 55, 64, Kind::Double),
    Register::of(Group::Float, "d30", 56, 64, Kind::Double),
    Register::of(Group::Float, "d31", 57, 64, Kind::Double),
    Register::of(Group::Float, "fpscr", 58, 32, Kind::Int),
];

/// Size of a `g` reply in the layout with FPA registers, and where its status register is.
pub(super) const OLD_G: usize = 168;
pub(super) const OLD_STATUS: usize = 164;
/// GDB's number of the status register, in both profiles.
pub(super) const STATUS: u16 = 25;

const ALL: [&str; 15] = ["r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9", "r10", "r11", "r12", "lr", "pc"];
const KEPT: [&str; 9] = ["r4", "r5", "r6", "r7", "r8", "r9", "r10", "r11", "lr"];

pub(super) const PRSTATUS: Prstatus = Prstatus {
    pid: HEAD_32.0,
    registers: HEAD_32.1,
    word: Width::W4,
    order: &["r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9", "r10", "r11", "r12", "sp", "lr", "pc", "cpsr"],
};

pub(super) const PRSTATUS_M: Prstatus = Prstatus {
    pid: HEAD_32.0,
    registers: HEAD_32.1,
    word: Width::W4,
    order: &["r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9", "r10", "r11", "r12", "sp", "lr", "pc", "xpsr"],
};

/// The usual other names.
pub(super) fn alias(name: &str) -> Option<&'static str> {
    Some(match name {
        "r13" => "sp",
        "r14" => "lr",
        "r15" => "pc",
        "fp" => "r11",
        "ip" => "r12",
        "psr" | "apsr" => "xpsr",
        _ => return None,
    })
}

/// True for a mode that there is.
const fn is_mode(cpsr: u64) -> bool {
    matches!(cpsr & 0x1F, 0x10..=0x13 | 0x16 | 0x17 | 0x1A | 0x1B | 0x1F)
}

/// True for a status word of the A or R profile: a mode that there is, and no Jazelle state.
pub(super) const fn is_cpsr(word: u64) -> bool {
    is_mode(word) && word & super::level::THUMB == 0
}

/// Reads in the byte order that was told, or in the other where only that one makes a status register of a
/// big-endian ARM target: data big-endian (bit 9) and a mode that there is.
pub(super) fn in_order(
    architecture: Architecture,
    endian: Endian,
    read: impl Fn(Endian) -> Option<Registers>,
) -> Option<Registers> {
    let told = read(endian)?;
    let sound = |r: &Registers| r.get("cpsr").is_some_and(|cpsr| is_mode(cpsr) && cpsr & 1 << 9 != 0);
    if architecture != Architecture::Arm || endian == Endian::Little || sound(&told) {
        return Some(told);
    }
    let other = read(Endian::Little)?;
    Some(if sound(&other) { other } else { told })
}

pub(super) fn saved(stack: &mut Stack<'_>, floats: Option<bool>) -> Result<Saved, SavedError> {
    let (kind, cpsr) = (stack.u32(0)?, stack.u32(4)?);
    if kind > 1 {
        return Err(stack.no_frame(format!("its first word is {kind:#x}, neither 0 (kernel) nor 1 (interrupt)")));
    }
    if !is_mode(cpsr) {
        return Err(stack.no_frame(format!("{cpsr:#010x} is no CPSR: the processor has no such mode")));
    }
    let (names, first, return_at) = if kind == 1 { (&ALL[..], 0, 14) } else { (&KEPT[..], 8, 8) };
    // d8-d31 or d0-d31, and the status word.
    let gap = 32usize.saturating_sub(first).saturating_mul(8).saturating_add(4);
    let place = |base: usize, index: usize| base.saturating_add(8).saturating_add(index.saturating_mul(4));
    let (base, remark) = stack.behind_floats(floats, gap, |s, base| s.u32(place(base, return_at)))?;
    let mut registers = Registers::new(Architecture::Arm);
    if base > 0 {
        for (index, register) in REGISTERS.iter().filter(|r| r.kind == Kind::Double).skip(first).enumerate() {
            registers.put(register.name, stack.u64(index.saturating_mul(8).saturating_add(8))?);
        }
        registers.put("fpscr", stack.u32(gap.saturating_add(4))?);
    }
    for (index, name) in names.iter().enumerate() {
        registers.put(name, stack.u32(place(base, index))?);
    }
    let end = place(base, names.len());
    registers.put("sp", stack.above(end));
    registers.put("cpsr", cpsr);
    if kind == 1 {
        // A frame that was built for a function in Thumb state has its address with bit 0 set.
        let pc = registers.pc().unwrap_or_default();
        registers.put("pc", if cpsr & 0x20 == 0 { pc } else { pc & !1 });
    }
    if kind == 0 {
        let to = registers.lr().unwrap_or_default();
        registers.put("pc", to & !1);
        // The return leaves ARM state where the address says so.
        registers.put("cpsr", cpsr & !0x20 | (to & 1) << 5);
        return Ok(Saved { registers, kind: SavedKind::Solicited, remark });
    }
    // As it was built: all zero but the start of the stack in r10, the scheduler in lr, and a zero behind the pc.
    let empty = ALL.iter().take(13).filter(|name| **name != "r10").all(|name| registers.get(name) == Some(0));
    let built = empty && stack.u32(end).is_ok_and(|word| word == 0);
    let kind = if built { SavedKind::NeverRan } else { SavedKind::Interrupted };
    Ok(Saved { registers, kind, remark })
}
