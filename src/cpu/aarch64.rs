//! ARM in 64 bits.
//!
//! ```text
//! +0   SPSR, or DAIF in a kernel call
//! +8   ELR; 0: switched out in a kernel call
//! interrupt: [fpsr fpcr q30 q31 .. q0 q1] x28 - x26 x27 .. x0 x1 x29 x30
//! kernel:    [fpsr fpcr q14 q15 .. q8 q9] x27 x28 x25 x26 .. x19 x20 x29 x30
//! ```
//! What is in brackets is there where the thread had switched floating point on, which its control block tells.

use super::frame::Stack;
use super::notes::{HEAD_64, Prstatus};
use super::{Architecture, Kind, Register, Registers, Saved, SavedError, SavedKind};
use crate::abi::Width;

/// Those of `org.gnu.gdb.aarch64.core`.
#[rustfmt::skip]
pub(super) const REGISTERS: &[Register] = &[
    Register::general("x0", 0, 64, Kind::Int),
    Register::general("x1", 1, 64, Kind::Int),
    Register::general("x2", 2, 64, Kind::Int),
    Register::general("x3", 3, 64, Kind::Int),
    Register::general("x4", 4, 64, Kind::Int),
    Register::general("x5", 5, 64, Kind::Int),
    Register::general("x6", 6, 64, Kind::Int),
    Register::general("x7", 7, 64, Kind::Int),
    Register::general("x8", 8, 64, Kind::Int),
    Register::general("x9", 9, 64, Kind::Int),
    Register::general("x10", 10, 64, Kind::Int),
    Register::general("x11", 11, 64, Kind::Int),
    Register::general("x12", 12, 64, Kind::Int),
    Register::general("x13", 13, 64, Kind::Int),
    Register::general("x14", 14, 64, Kind::Int),
    Register::general("x15", 15, 64, Kind::Int),
    Register::general("x16", 16, 64, Kind::Int),
    Register::general("x17", 17, 64, Kind::Int),
    Register::general("x18", 18, 64, Kind::Int),
    Register::general("x19", 19, 64, Kind::Int),
    Register::general("x20", 20, 64, Kind::Int),
    Register::general("x21", 21, 64, Kind::Int),
    Register::general("x22", 22, 64, Kind::Int),
    Register::general("x23", 23, 64, Kind::Int),
    Register::general("x24", 24, 64, Kind::Int),
    Register::general("x25", 25, 64, Kind::Int),
    Register::general("x26", 26, 64, Kind::Int),
    Register::general("x27", 27, 64, Kind::Int),
    Register::general("x28", 28, 64, Kind::Int),
    Register::general("x29", 29, 64, Kind::Int),
    Register::general("x30", 30, 64, Kind::Int),
    Register::general("sp", 31, 64, Kind::Data),
    Register::general("pc", 32, 64, Kind::Code),
    Register::general("cpsr", 33, 32, Kind::Int),
];

pub(super) const PRSTATUS: Prstatus = Prstatus {
    pid: HEAD_64.0,
    registers: HEAD_64.1,
    word: Width::W8,
    order: &[
        "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16",
        "x17", "x18", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x29", "x30", "sp", "pc",
        "cpsr",
    ],
};

/// The word behind x28 is not used.
const ALL: [&str; 32] = [
    "x28", "", "x26", "x27", "x24", "x25", "x22", "x23", "x20", "x21", "x18", "x19", "x16", "x17", "x14", "x15", "x12",
    "x13", "x10", "x11", "x8", "x9", "x6", "x7", "x4", "x5", "x2", "x3", "x0", "x1", "x29", "x30",
];
const KEPT: [&str; 12] = ["x27", "x28", "x25", "x26", "x23", "x24", "x21", "x22", "x19", "x20", "x29", "x30"];

/// True for an SPSR that leads to 64-bit code at a level that there is.
const fn is_spsr(word: u64) -> bool {
    word >> 32 == 0 && matches!(word & 0x1F, 0 | 4 | 5 | 8 | 9 | 0xC | 0xD)
}

pub(super) fn saved(stack: &mut Stack<'_>, floats: Option<bool>) -> Result<Saved, SavedError> {
    let (status, elr) = (stack.u64(0)?, stack.u64(8)?);
    let solicited = elr == 0;
    if solicited && status & !0x3C0 != 0 {
        return Err(stack.no_frame(format!("{status:#x} is no DAIF")));
    }
    if !solicited && !is_spsr(status) {
        return Err(stack.no_frame(format!("{status:#x} is no SPSR")));
    }
    if elr & 3 != 0 {
        return Err(stack.no_frame(format!("the ELR {elr:#x} is not aligned")));
    }
    let (names, gap): (&[&str], usize) = if solicited { (&KEPT, 144) } else { (&ALL, 528) };
    let place = |base: usize, index: usize| base.saturating_add(16).saturating_add(index.saturating_mul(8));
    let last = names.len().saturating_sub(1);
    let (base, remark) = if !solicited && is_built(stack)? {
        (0, None)
    } else {
        stack.behind_floats(floats, gap, |s, base| s.u64(place(base, last)))?
    };
    let mut registers = Registers::new(Architecture::Aarch64);
    for (index, name) in names.iter().enumerate() {
        registers.put(name, stack.u64(place(base, index))?);
    }
    registers.put("sp", stack.above(place(base, names.len())));
    if solicited {
        let to = registers.lr().unwrap_or_default();
        registers.put("pc", to);
        return Ok(Saved { registers, kind: SavedKind::Solicited, remark });
    }
    registers.put("pc", elr);
    registers.put("cpsr", status);
    let kind = if is_built(stack)? { SavedKind::NeverRan } else { SavedKind::Interrupted };
    Ok(Saved { registers, kind, remark })
}

/// A frame as it was built: every register zero.
fn is_built(stack: &mut Stack<'_>) -> Result<bool, SavedError> {
    for index in 0..ALL.len() {
        if stack.u64(index.saturating_mul(8).saturating_add(16))? != 0 {
            return Ok(false);
        }
    }
    Ok(true)
}
