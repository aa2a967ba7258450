//! ARM's M profile. ThreadX switches threads in PendSV alone: one frame, which tells of itself.
//!
//! ```text
//! +0   EXC_RETURN (thread mode, process stack); bit 4 clear: floating-point registers are in the frame
//! +4   s16-s31, only with them
//!      r4-r11 (small instruction set: r8-r11, r4-r7)
//!      r0-r3 r12 lr pc xpsr, as the processor pushed them
//!      s0-s15 fpscr and a word unused, only with floating-point registers
//!      one word unused where bit 9 of the pushed xpsr is set
//! ```

use super::frame::Stack;
use super::{Architecture, Group, Kind, Level, Register, Registers, Saved, SavedError, SavedKind};

/// Those of `org.gnu.gdb.arm.m-profile`, `org.gnu.gdb.arm.vfp` and `org.gnu.gdb.arm.m-system`.
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
    Register::general("xpsr", 25, 32, Kind::Int),
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
    Register::of(Group::Float, "fpscr", 42, 32, Kind::Int),
    Register::of(Group::System, "msp", 43, 32, Kind::Data),
    Register::of(Group::System, "psp", 44, 32, Kind::Data),
    Register::of(Group::System, "primask", 45, 32, Kind::Int),
    Register::of(Group::System, "basepri", 46, 32, Kind::Int),
    Register::of(Group::System, "faultmask", 47, 32, Kind::Int),
    Register::of(Group::System, "control", 48, 32, Kind::Int),
];

const LOW_FIRST: [&str; 8] = ["r4", "r5", "r6", "r7", "r8", "r9", "r10", "r11"];
const HIGH_FIRST: [&str; 8] = ["r8", "r9", "r10", "r11", "r4", "r5", "r6", "r7"];
const PUSHED: [&str; 8] = ["r0", "r1", "r2", "r3", "r12", "lr", "pc", "xpsr"];
const LOW_FLOATS: [&str; 8] = ["d0", "d1", "d2", "d3", "d4", "d5", "d6", "d7"];
const HIGH_FLOATS: [&str; 8] = ["d8", "d9", "d10", "d11", "d12", "d13", "d14", "d15"];

/// `xpsr`: Thumb state, without which the processor runs nothing.
const THUMB: u64 = 1 << 24;
/// `xpsr` as pushed: a word was skipped to align the stack.
const SKIPPED: u64 = 1 << 9;

/// True in an exception: by `xpsr`, or where that does not tell, by an EXC_RETURN in `pc` or `lr`. One that leads to
/// thread mode on the main stack is left out: behind it is nothing at `psp`, and GDB goes on by `sp` alone.
fn in_exception(registers: &Registers) -> bool {
    match registers.level() {
        Level::Exception(_) => true,
        Level::Unknown => [registers.pc(), registers.lr()].into_iter().flatten().any(returns_by_psp_or_to_handler),
        Level::Thread | Level::Mode(_) => false,
    }
}

/// Exceptions run on the main stack: their `sp` is `msp`.
pub(super) fn complete(registers: &mut Registers) {
    if let Some(sp) = registers.sp().filter(|_| in_exception(registers) && registers.get("msp").is_none()) {
        registers.put("msp", sp);
    }
}

/// In an exception the registers of the thread that it interrupted lie on that thread's own stack.
pub(super) fn needed(registers: &Registers) -> &'static [&'static str] {
    if in_exception(registers) { &["psp"] } else { &[] }
}

/// What a thread has of the CPU that it does not run on now: its own stack pointer is `psp`, and what switching leaves
/// alone stays as it is.
pub(super) fn complete_thread(registers: &mut Registers, cpu: &Registers) {
    if let Some(sp) = registers.sp() {
        registers.put("psp", sp);
    }
    for name in ["msp", "primask", "basepri", "faultmask"] {
        if let Some(value) = cpu.get(name) {
            registers.put(name, value);
        }
    }
}

/// True for an EXC_RETURN that leads to a thread: thread mode, process stack.
const fn returns_to_thread(word: u64) -> bool {
    word >> 7 == 0x1FF_FFFF && word & 0xC == 0xC
}

/// True for an EXC_RETURN that leads to a thread's stack, or to another exception, which may have come upon a thread. Bit 1
/// is 0 in all of them: `lr` after a reset is 0xffffffff.
const fn returns_by_psp_or_to_handler(word: u64) -> bool {
    word >> 7 == 0x1FF_FFFF && word & 2 == 0 && word & 0xC != 8
}

pub(super) fn saved(stack: &mut Stack<'_>, baseline: bool) -> Result<Saved, SavedError> {
    let mut at = 0usize;
    let mut registers = Registers::new(Architecture::CortexM);
    let exc_return = next(stack, &mut at)?;
    if !returns_to_thread(exc_return) {
        return Err(stack.no_frame(format!("{exc_return:#010x} is no EXC_RETURN to a thread")));
    }
    let floats = exc_return & 0x10 == 0;
    stack.need(if floats { 204 } else { 68 })?;
    if floats {
        doubles(stack, &mut at, &HIGH_FLOATS, &mut registers)?;
    }
    for name in if baseline { HIGH_FIRST } else { LOW_FIRST }.into_iter().chain(PUSHED) {
        registers.put(name, next(stack, &mut at)?);
    }
    if floats {
        doubles(stack, &mut at, &LOW_FLOATS, &mut registers)?;
        registers.put("fpscr", next(stack, &mut at)?);
        at = at.saturating_add(4);
    }
    let xpsr = registers.get("xpsr").unwrap_or_default();
    if xpsr & THUMB == 0 || xpsr & 0x1FF != 0 {
        return Err(stack.no_frame(format!("{xpsr:#010x} is no xPSR of a thread: Thumb state, no exception")));
    }
    let empty = LOW_FIRST.iter().chain(PUSHED.iter().take(5)).all(|name| registers.get(name) == Some(0));
    let pc = registers.pc().unwrap_or_default();
    // A processor pushes no odd pc. A frame that was built has the address of a function as C has it: odd.
    let built = registers.lr() == Some(0xFFFF_FFFF) && (empty || pc & 1 != 0);
    if built {
        registers.put("pc", pc & !1);
    } else if pc & 1 != 0 {
        return Err(stack.no_frame(format!("the pc {pc:#010x} is odd")));
    }
    if xpsr & SKIPPED != 0 {
        at = at.saturating_add(4);
    }
    registers.put("sp", stack.above(at));
    // It says how the frame was pushed, and is gone when the frame is.
    registers.put("xpsr", xpsr & !SKIPPED);
    let kind = if built { SavedKind::NeverRan } else { SavedKind::Switched };
    Ok(Saved { registers, kind, remark: None })
}

fn next(stack: &mut Stack<'_>, at: &mut usize) -> Result<u64, SavedError> {
    let word = stack.u32(*at)?;
    *at = at.saturating_add(4);
    Ok(word)
}

/// Eight doubles, each two single registers, the lower first.
fn doubles(
    stack: &mut Stack<'_>,
    at: &mut usize,
    names: &[&str; 8],
    registers: &mut Registers,
) -> Result<(), SavedError> {
    for name in names {
        let (low, high) = (next(stack, at)?, next(stack, at)?);
        registers.put(name, low | high << 32);
    }
    Ok(())
}
