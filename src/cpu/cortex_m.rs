//! ARM's M profile. ThreadX switches threads in PendSV alone: one frame, which describes itself.
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
use super::level::THUMB;
use super::table::{Group, Kind, Model, Place, bank, general, words};
use super::{Architecture, Level, Origin, Registers, Saved, SavedError, SavedKind, arm};
use crate::abi::{Addr, Width};
use crate::elf::Machine;

/// Registers of `org.gnu.gdb.arm.m-profile`, `org.gnu.gdb.arm.vfp` and `org.gnu.gdb.arm.m-system`; `exc_return`, which is
/// what `lr` held as the exception began; and those of the System Control Block that show a fault or an exception (Armv7-M
/// Architecture Reference Manual, B3.2.2; Armv8-M, D1.2). Reading any of these changes nothing.
pub(super) const MODEL: Model = Model {
    name: "Cortex-M",
    names: &["cortex-m", "cortexm", "armv6-m", "armv7-m", "armv7e-m", "armv8-m"],
    machine: Machine::ARM,
    width: Width::W4,
    registers: &[
        general(Kind::Int, 0, "r0 r1 r2 r3 r4 r5 r6 r7 r8 r9 r10 r11 r12"),
        general(Kind::Data, 13, "sp"),
        general(Kind::Int, 14, "lr"),
        general(Kind::Code, 15, "pc"),
        general(Kind::Int, 25, "xpsr"),
        bank(
            Group::Float,
            Kind::Double,
            64,
            Place::Number(26),
            "d0 d1 d2 d3 d4 d5 d6 d7 d8 d9 d10 d11 d12 d13 d14 d15",
        ),
        bank(Group::Float, Kind::Int, 32, Place::Number(42), "fpscr"),
        bank(Group::System, Kind::Data, 32, Place::Number(43), "msp psp"),
        bank(Group::System, Kind::Int, 32, Place::Number(45), "primask basepri faultmask control"),
        bank(Group::System, Kind::Data, 32, Place::Name, "msplim psplim"),
        bank(Group::System, Kind::Int, 32, Place::Name, "ipsr exc_return"),
        bank(Group::Fault, Kind::Int, 32, Place::Memory(0xE000_ED00), "cpuid icsr"),
        bank(Group::Fault, Kind::Data, 32, Place::Memory(0xE000_ED08), "vtor"),
        bank(Group::Fault, Kind::Int, 32, Place::Memory(0xE000_ED0C), "aircr scr ccr shpr1 shpr2 shpr3"),
        bank(Group::Fault, Kind::Int, 32, Place::Memory(0xE000_ED24), "shcsr cfsr hfsr dfsr"),
        bank(Group::Fault, Kind::Data, 32, Place::Memory(0xE000_ED34), "mmfar bfar"),
        bank(Group::Fault, Kind::Int, 32, Place::Memory(0xE000_EDE4), "sfsr"),
        bank(Group::Fault, Kind::Data, 32, Place::Memory(0xE000_EDE8), "sfar"),
        bank(Group::Fault, Kind::Int, 32, Place::Memory(0xE000_EF34), "fpccr"),
        bank(Group::Fault, Kind::Data, 32, Place::Memory(0xE000_EF38), "fpcar"),
        bank(Group::Fault, Kind::Int, 32, Place::Memory(0xE000_EF3C), "fpdscr"),
    ],
    roles: [Some("pc"), Some("sp"), Some("lr")],
    aliases: arm::ALIASES,
    note: "r0 r1 r2 r3 r4 r5 r6 r7 r8 r9 r10 r11 r12 sp lr pc xpsr -",
    gdb: "arm",
    features: ["org.gnu.gdb.arm.m-profile", "org.gnu.gdb.arm.vfp", "org.gnu.gdb.arm.m-system"],
    triple: "thumbv7m-none-eabi",
};

const LOW_FIRST: &str = "r4 r5 r6 r7 r8 r9 r10 r11";
const HIGH_FIRST: &str = "r8 r9 r10 r11 r4 r5 r6 r7";
const PUSHED: &str = "r0 r1 r2 r3 r12 lr pc xpsr";
/// Zero in a frame as it was built.
const EMPTY: &str = "r4 r5 r6 r7 r8 r9 r10 r11 r0 r1 r2 r3 r12";
const LOW_FLOATS: &str = "d0 d1 d2 d3 d4 d5 d6 d7";
const HIGH_FLOATS: &str = "d8 d9 d10 d11 d12 d13 d14 d15";

/// `xpsr` as pushed: a word was skipped to align the stack.
const SKIPPED: u64 = 1 << 9;
/// `xpsr`: number of the exception.
const EXCEPTION: u64 = 0x1FF;

/// True in an exception: by `xpsr`, or where that does not show it, by an EXC_RETURN in `pc` or `lr`. One that leads to
/// thread mode on the main stack is left out: after it is nothing at `psp`, and GDB goes on by `sp` alone.
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
        registers.set_from(Origin::Inferred, "msp", sp);
    }
}

/// What `cpuid` shows of the architecture.
fn architecture_of(cpuid: u64) -> Option<Profile> {
    let (maker, architecture, part) = (cpuid >> 24, cpuid >> 16 & 0xF, cpuid >> 4 & 0xFFF);
    match architecture {
        // What is not there may read as zeros or ones.
        _ if matches!(maker, 0 | 0xFF) => None,
        0xC => Some(Profile::Baseline),
        0xF if matches!(part, 0xC23 | 0xC24 | 0xC27) => Some(Profile::V7),
        0xF => Some(Profile::Mainline),
        _ => None,
    }
}

/// Which registers there are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Profile {
    /// Armv6-M, and Armv8-M without the Main Extension: every fault is a HardFault, and nothing records which.
    Baseline,
    /// Cortex-M3, M4 and M7: no SecureFault.
    V7,
    /// Armv8-M with the Main Extension, and makers' own processors.
    Mainline,
}

/// Drops what was read of registers that the processor does not have; all, where it has no `cpuid` of a Cortex-M, and the
/// bytes are something else.
pub(super) fn complete_mapped(found: &mut Registers, cpuid: Option<u64>) {
    const SECURE: [&str; 2] = ["sfsr", "sfar"];
    const RECORDS: [&str; 9] = ["cfsr", "hfsr", "mmfar", "bfar", "sfsr", "sfar", "fpccr", "fpcar", "fpdscr"];
    let drop: Vec<&str> = match found.get("cpuid").or(cpuid).and_then(architecture_of) {
        None => found.known().map(|(register, _)| register.name).collect(),
        Some(Profile::Baseline) => RECORDS.to_vec(),
        Some(Profile::V7) => SECURE.to_vec(),
        Some(Profile::Mainline) => Vec::new(),
    };
    drop.into_iter().for_each(|name| found.forget(name));
}

/// What else an evidence core of a Cortex-M holds of the System Control Space: how many interrupts there are; SysTick's
/// reload and current value and its calibration; which interrupts are enabled, pending and active, and their priorities.
///
/// Not read: `SYST_CSR` (0xE000E010), of which reading clears COUNTFLAG, and `DHCSR` (0xE000EDF0), of which reading clears
/// S_RESET_ST and S_RETIRE_ST (Armv7-M Architecture Reference Manual, B3.3.3 and C1.6.2).
pub const INTERRUPT_STATE: [(Addr, usize); 6] =
    [(0xE000_E004, 4), (0xE000_E014, 12), (0xE000_E100, 64), (0xE000_E200, 64), (0xE000_E300, 64), (0xE000_E400, 496)];

/// Where a register of SysTick or of the interrupt controller is, by its name in the Armv7-M Architecture Reference Manual (B3.3
/// and B3.4): `syst_rvr`, `nvic_iser0`. `None` for other names.
pub fn mapped_register(name: &str) -> Option<Addr> {
    const SINGLE: [(&str, Addr); 5] = [
        ("ictr", 0xE000_E004),
        ("syst_csr", 0xE000_E010),
        ("syst_rvr", 0xE000_E014),
        ("syst_cvr", 0xE000_E018),
        ("syst_calib", 0xE000_E01C),
    ];
    const NUMBERED: [(&str, Addr, u64); 4] = [
        ("nvic_iser", 0xE000_E100, 16),
        ("nvic_ispr", 0xE000_E200, 16),
        ("nvic_iabr", 0xE000_E300, 16),
        ("nvic_ipr", 0xE000_E400, 124),
    ];
    let name = name.to_ascii_lowercase();
    let single = SINGLE.iter().find(|(own, _)| *own == name).map(|(_, at)| *at);
    single.or_else(|| {
        NUMBERED.iter().find_map(|(own, first, words)| {
            let number: u64 = name.strip_prefix(own)?.parse().ok()?;
            first.checked_add(number.checked_mul(4).filter(|_| number < *words)?)
        })
    })
}

/// In an exception the registers of the thread that it interrupted are on that thread's own stack.
pub(super) fn needed(registers: &Registers) -> &'static [&'static str] {
    if in_exception(registers) { &["psp"] } else { &[] }
}

/// What a thread has of the CPU that it does not run on now: its own stack pointer is `psp`, and what switching leaves
/// alone stays as it is.
pub(super) fn complete_thread(registers: &mut Registers, cpu: &Registers) {
    if let Some(sp) = registers.sp() {
        registers.set_from(Origin::Inferred, "psp", sp);
    }
    for name in ["msp", "primask", "basepri", "faultmask"] {
        if let Some((value, origin)) = cpu.value(name) {
            registers.set_from(origin, name, value);
        }
    }
}

/// True for the value of lr that leads out of an exception. Bit 1 is 0 in all of them: `lr` after a reset is 0xffffffff.
pub const fn is_exc_return(word: u64) -> bool {
    word >> 7 == 0x1FF_FFFF && word & 2 == 0
}

/// True for an EXC_RETURN that leads to a thread: thread mode, process stack.
const fn returns_to_thread(word: u64) -> bool {
    word >> 7 == 0x1FF_FFFF && word & 0xC == 0xC
}

/// True for an EXC_RETURN that leads to a thread's stack, or to another exception, which may have interrupted a thread.
const fn returns_by_psp_or_to_handler(word: u64) -> bool {
    is_exc_return(word) && word & 0xC != 8
}

/// True for the status register of a thread: Thumb state, no exception.
const fn is_thread(xpsr: u64) -> bool {
    xpsr & THUMB != 0 && xpsr & EXCEPTION == 0
}

pub(super) fn saved(stack: &mut Stack<'_>, baseline: bool) -> Result<Saved, SavedError> {
    let mut registers = Registers::of(Architecture::CortexM, Origin::Frame);
    let exc_return = stack.next(Width::W4)?;
    if !returns_to_thread(exc_return) {
        return Err(stack.no_frame(format!("{exc_return:#010x} is not an EXC_RETURN to a thread")));
    }
    let floats = exc_return & 0x10 == 0;
    stack.need(if floats { 204 } else { 68 })?;
    if floats {
        doubles(stack, HIGH_FLOATS, &mut registers)?;
    }
    stack.take(Width::W4, if baseline { HIGH_FIRST } else { LOW_FIRST }, &mut registers)?;
    stack.take(Width::W4, PUSHED, &mut registers)?;
    if floats {
        doubles(stack, LOW_FLOATS, &mut registers)?;
        stack.take(Width::W4, "fpscr -", &mut registers)?;
    }
    let xpsr = registers.get("xpsr").unwrap_or_default();
    if !is_thread(xpsr) {
        return Err(stack.no_frame(format!(
            "{xpsr:#010x} is not the xPSR of a thread: one has the Thumb bit, and no exception number"
        )));
    }
    let empty = words(EMPTY).flatten().all(|name| registers.get(name) == Some(0));
    let pc = registers.pc().unwrap_or_default();
    // A processor pushes no odd pc. A frame that was built has the address of a function as C has it: odd.
    let built = registers.lr() == Some(0xFFFF_FFFF) && (empty || pc & 1 != 0);
    if built {
        registers.put("pc", pc & !1);
    } else if pc & 1 != 0 {
        return Err(stack.no_frame(format!("the pc {pc:#010x} is odd")));
    }
    if xpsr & SKIPPED != 0 {
        stack.skip(4);
    }
    registers.put("sp", stack.pointer());
    // It says how the frame was pushed, and is gone when the frame is.
    registers.put("xpsr", xpsr & !SKIPPED);
    let kind = if built { SavedKind::NeverRan } else { SavedKind::Switched };
    Ok(Saved { registers, kind, remark: None })
}

/// Doubles, each two single registers, the lower first.
fn doubles(stack: &mut Stack<'_>, names: &'static str, registers: &mut Registers) -> Result<(), SavedError> {
    for name in words(names).flatten() {
        let (low, high) = (stack.next(Width::W4)?, stack.next(Width::W4)?);
        registers.put(name, low | high << 32);
    }
    Ok(())
}
