//! ARM in 32 bits, A and R profiles.
//!
//! ```text
//! +0   1: switched out by an interrupt; 0: in a kernel call
//! +4   CPSR
//! interrupt: [d0-d31 fpscr] r0-r12 lr pc
//! kernel:    [d8-d31 fpscr] r4-r11 lr
//! ```
//! What is in brackets is there where the thread had switched the VFP on, which its control block shows.

use super::frame::Stack;
use super::table::{Group, Kind, Model, Place, bank, general, words};
use super::{Architecture, Origin, Registers, Saved, SavedError, SavedKind};
use crate::abi::{Endian, Width};
use crate::elf::Machine;

/// Registers of `org.gnu.gdb.arm.core` and `org.gnu.gdb.arm.vfp`; state and address of the last data abort and of the last
/// prefetch abort (Armv7-A Architecture Reference Manual, B3.18.2 and B5.8.2).
pub(super) const MODEL: Model = Model {
    name: "ARM",
    names: &["arm", "armv7-a", "armv7-r", "cortex-a", "cortex-r"],
    machine: Machine::ARM,
    width: Width::W4,
    registers: &[
        general(Kind::Int, 0, "r0 r1 r2 r3 r4 r5 r6 r7 r8 r9 r10 r11 r12"),
        general(Kind::Data, 13, "sp"),
        general(Kind::Int, 14, "lr"),
        general(Kind::Code, 15, "pc"),
        general(Kind::Int, STATUS, "cpsr"),
        bank(Group::Float, Kind::Double, 64, Place::Number(26), LOW_DOUBLES),
        bank(Group::Float, Kind::Double, 64, Place::Number(34), HIGH_DOUBLES),
        bank(Group::Float, Kind::Int, 32, Place::Number(58), "fpscr"),
        bank(Group::System, Kind::Int, 32, Place::Name, "spsr"),
        bank(Group::Fault, Kind::Int, 32, Place::Name, "dfsr ifsr"),
        bank(Group::Fault, Kind::Data, 32, Place::Name, "dfar ifar"),
    ],
    roles: [Some("pc"), Some("sp"), Some("lr")],
    aliases: ALIASES,
    note: "r0 r1 r2 r3 r4 r5 r6 r7 r8 r9 r10 r11 r12 sp lr pc cpsr -",
    gdb: "arm",
    features: ["org.gnu.gdb.arm.core", "org.gnu.gdb.arm.vfp", ""],
    triple: "armv7-none-eabi",
};

const LOW_DOUBLES: &str = "d0 d1 d2 d3 d4 d5 d6 d7";
const HIGH_DOUBLES: &str =
    "d8 d9 d10 d11 d12 d13 d14 d15 d16 d17 d18 d19 d20 d21 d22 d23 d24 d25 d26 d27 d28 d29 d30 d31";

/// The usual other names, in both profiles.
pub(super) const ALIASES: &[(&str, &str)] =
    &[("r13", "sp"), ("r14", "lr"), ("r15", "pc"), ("fp", "r11"), ("ip", "r12"), ("psr", "xpsr"), ("apsr", "xpsr")];

/// Size of a `g` reply in the layout with FPA registers, and where its status register is.
pub(super) const OLD_G: usize = 168;
pub(super) const OLD_STATUS: usize = 164;
/// GDB's number of the status register, in both profiles.
pub(super) const STATUS: u16 = 25;

const ALL: &str = "r0 r1 r2 r3 r4 r5 r6 r7 r8 r9 r10 r11 r12 lr pc";
const KEPT: &str = "r4 r5 r6 r7 r8 r9 r10 r11 lr";
/// Zero in a frame as it was built, which has the start of the stack in r10 and the scheduler in lr.
const EMPTY: &str = "r0 r1 r2 r3 r4 r5 r6 r7 r8 r9 r11 r12";

/// True for a mode that there is.
const fn is_mode(cpsr: u64) -> bool {
    matches!(cpsr & 0x1F, 0x10..=0x13 | 0x16 | 0x17 | 0x1A | 0x1B | 0x1F)
}

/// True for a status word of the A or R profile: a mode that there is, and no Jazelle state.
pub(super) const fn is_cpsr(word: u64) -> bool {
    is_mode(word) && word & super::level::THUMB == 0
}

/// Reads in this byte order, or in the other where only that one makes a status register of a big-endian ARM target:
/// data big-endian (bit 9) and a mode that there is.
pub(super) fn in_order(
    architecture: Architecture,
    endian: Endian,
    read: impl Fn(Endian) -> Option<Registers>,
) -> Option<Registers> {
    let given = read(endian)?;
    let sound = |r: &Registers| r.get("cpsr").is_some_and(|cpsr| is_mode(cpsr) && cpsr & 1 << 9 != 0);
    if architecture != Architecture::Arm || endian == Endian::Little || sound(&given) {
        return Some(given);
    }
    let other = read(Endian::Little)?;
    Some(if sound(&other) { other } else { given })
}

pub(super) fn saved(stack: &mut Stack<'_>, floats: Option<bool>) -> Result<Saved, SavedError> {
    const WORD: Width = Width::W4;
    let (kind, cpsr) = (stack.next(WORD)?, stack.next(WORD)?);
    if kind > 1 {
        return Err(stack.no_frame(format!("its first word is {kind:#x}, neither 0 (kernel) nor 1 (interrupt)")));
    }
    if !is_mode(cpsr) {
        return Err(stack.no_frame(format!("{cpsr:#010x} is not a CPSR: the processor has no such mode")));
    }
    let interrupt = kind == 1;
    // d0-d31 or d8-d31 and the status word; then the return address after r0-r12 and lr, or r4-r11.
    let (doubles, behind) = if interrupt { (32 * 8 + 4, 14 * 4) } else { (24 * 8 + 4, 8 * 4) };
    let (size, remark) = stack.float_bytes(floats, doubles, WORD, behind)?;
    let mut registers = Registers::of(Architecture::Arm, Origin::Frame);
    if size > 0 {
        stack.take(Width::W8, if interrupt { LOW_DOUBLES } else { "" }, &mut registers)?;
        stack.take(Width::W8, HIGH_DOUBLES, &mut registers)?;
        stack.take(WORD, "fpscr", &mut registers)?;
    }
    stack.take(WORD, if interrupt { ALL } else { KEPT }, &mut registers)?;
    registers.put("sp", stack.pointer());
    registers.put("cpsr", cpsr);
    if !interrupt {
        let to = registers.lr().unwrap_or_default();
        registers.put("pc", to & !1);
        // The return leaves ARM state where the address says so.
        registers.put("cpsr", cpsr & !0x20 | (to & 1) << 5);
        return Ok(Saved { registers, kind: SavedKind::Solicited, remark });
    }
    // A frame that was built for a function in Thumb state has its address with bit 0 set.
    let pc = registers.pc().unwrap_or_default();
    registers.put("pc", if cpsr & 0x20 == 0 { pc } else { pc & !1 });
    // After the pc of a frame as it was built is a zero.
    let empty = words(EMPTY).flatten().all(|name| registers.get(name) == Some(0));
    let built = empty && stack.peek(WORD, 0).is_ok_and(|word| word == 0);
    let kind = if built { SavedKind::NeverRan } else { SavedKind::Interrupted };
    Ok(Saved { registers, kind, remark })
}
