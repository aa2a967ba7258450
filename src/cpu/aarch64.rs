//! ARM in 64 bits.
//!
//! ```text
//! +0   SPSR, or DAIF in a kernel call
//! +8   ELR; 0: switched out in a kernel call
//! interrupt: [fpsr fpcr q30 q31 .. q0 q1] x28 - x26 x27 .. x0 x1 x29 x30
//! kernel:    [fpsr fpcr q14 q15 .. q8 q9] x27 x28 x25 x26 .. x19 x20 x29 x30
//! ```
//! What is in brackets is there where the thread had switched floating point on, which its control block shows.

use super::frame::Stack;
use super::table::{Group, Kind, Model, Place, bank, general};
use super::{Architecture, Origin, Registers, Saved, SavedError, SavedKind};
use crate::abi::Width;
use crate::elf::Machine;

/// Registers of `org.gnu.gdb.aarch64.core`; syndrome, address and return address of the last exception that came to the
/// current exception level (Arm Architecture Reference Manual for A-profile, D19.2).
pub(super) const MODEL: Model = Model {
    name: "AArch64",
    names: &["aarch64", "arm64", "armv8-a"],
    machine: Machine::AARCH64,
    width: Width::W8,
    registers: &[
        general(Kind::Int, 0, "x0 x1 x2 x3 x4 x5 x6 x7 x8 x9 x10 x11 x12 x13 x14 x15"),
        general(Kind::Int, 16, "x16 x17 x18 x19 x20 x21 x22 x23 x24 x25 x26 x27 x28 x29 x30"),
        general(Kind::Data, 31, "sp"),
        general(Kind::Code, 32, "pc"),
        bank(Group::General, Kind::Int, 32, Place::Number(33), "cpsr"),
        bank(Group::Fault, Kind::Int, 0, Place::Name, "esr"),
        bank(Group::Fault, Kind::Data, 0, Place::Name, "far"),
        bank(Group::Fault, Kind::Code, 0, Place::Name, "elr"),
    ],
    roles: [Some("pc"), Some("sp"), Some("x30")],
    aliases: &[("fp", "x29")],
    note: "x0 x1 x2 x3 x4 x5 x6 x7 x8 x9 x10 x11 x12 x13 x14 x15 \
           x16 x17 x18 x19 x20 x21 x22 x23 x24 x25 x26 x27 x28 x29 x30 sp pc cpsr",
    gdb: "aarch64",
    features: ["org.gnu.gdb.aarch64.core", "", ""],
    triple: "aarch64-none-elf",
};

/// The word after x28 is not used.
const ALL: &str = "x28 - x26 x27 x24 x25 x22 x23 x20 x21 x18 x19 x16 x17 x14 x15 x12 x13 x10 x11 x8 x9 x6 x7 x4 x5 x2 x3 \
                   x0 x1 x29 x30";
const KEPT: &str = "x27 x28 x25 x26 x23 x24 x21 x22 x19 x20 x29 x30";

/// True for an SPSR that leads to 64-bit code at a level that there is.
const fn is_spsr(word: u64) -> bool {
    word >> 32 == 0 && matches!(word & 0x1F, 0 | 4 | 5 | 8 | 9 | 0xC | 0xD)
}

pub(super) fn saved(stack: &mut Stack<'_>, floats: Option<bool>) -> Result<Saved, SavedError> {
    const WORD: Width = Width::W8;
    let (status, elr) = (stack.next(WORD)?, stack.next(WORD)?);
    let solicited = elr == 0;
    if solicited && status & !0x3C0 != 0 {
        return Err(stack.no_frame(format!("{status:#x} is not a DAIF")));
    }
    if !solicited && !is_spsr(status) {
        return Err(stack.no_frame(format!("{status:#x} is not an SPSR")));
    }
    if elr & 3 != 0 {
        return Err(stack.no_frame(format!("the ELR {elr:#x} is not aligned")));
    }
    let built = !solicited && is_built(stack)?;
    let floats = if built { Some(false) } else { floats };
    // FPSR, FPCR and 16 or 64 words; then x30 is the last of 12 or 32.
    let (size, behind) = if solicited { (144, 11 * 8) } else { (528, 31 * 8) };
    let (size, remark) = stack.float_bytes(floats, size, WORD, behind)?;
    stack.skip(size);
    let mut registers = Registers::of(Architecture::Aarch64, Origin::Frame);
    stack.take(WORD, if solicited { KEPT } else { ALL }, &mut registers)?;
    registers.put("sp", stack.pointer());
    if solicited {
        let to = registers.lr().unwrap_or_default();
        registers.put("pc", to);
        return Ok(Saved { registers, kind: SavedKind::Solicited, remark });
    }
    registers.put("pc", elr);
    registers.put("cpsr", status);
    let kind = if built { SavedKind::NeverRan } else { SavedKind::Interrupted };
    Ok(Saved { registers, kind, remark })
}

/// A frame as it was built: all 32 words of registers zero.
fn is_built(stack: &mut Stack<'_>) -> Result<bool, SavedError> {
    for offset in (0usize..256).step_by(8) {
        if stack.peek(Width::W8, offset)? != 0 {
            return Ok(false);
        }
    }
    Ok(true)
}
