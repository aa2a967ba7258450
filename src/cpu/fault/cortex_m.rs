//! Faults of a Cortex-M.
//!
//! Bits and rules are those of the Armv7-M Architecture Reference Manual (B3.2.13 to B3.2.18) and of the Armv8-M
//! Architecture Reference Manual (D1.2: CFSR, HFSR, DFSR, SFSR, SHCSR, FPCCR). All bits stay set until a program clears
//! them, so the bits of earlier faults may be among them.

use super::{Bit, Fault, FaultBit, set_bits};
use crate::abi::Addr;
use crate::cpu::{Architecture, Level, Registers};

/// `cfsr`: MemManage (bits 0 to 7), BusFault (8 to 15), UsageFault (16 to 31).
const CFSR: [Bit; 20] = [
    (1, "IACCVIOL", "an instruction was fetched from where the MPU allows none"),
    (1 << 1, "DACCVIOL", "a data access that the MPU forbids"),
    (1 << 3, "MUNSTKERR", "the MPU forbids the stack from which an exception return takes registers"),
    (1 << 4, "MSTKERR", "the MPU forbids the stack of the exception frame: it may not have been written"),
    (1 << 5, "MLSPERR", "the MPU forbids the frame's place for s0 to s15: they are stale in it"),
    (MMARVALID, "MMARVALID", "mmfar holds the address"),
    (1 << 8, "IBUSERR", "a bus error at the fetch of an instruction"),
    (1 << 9, "PRECISERR", "a bus error at a data access"),
    (1 << 10, "IMPRECISERR", "a bus error at a write, some instructions before the interrupted pc"),
    (1 << 11, "UNSTKERR", "a bus error as an exception return took registers from the stack"),
    (1 << 12, "STKERR", "a bus error at the stack of the exception frame: it may not have been written"),
    (1 << 13, "LSPERR", "a bus error at the frame's place for s0 to s15: they are stale in it"),
    (BFARVALID, "BFARVALID", "bfar holds the address"),
    (1 << 16, "UNDEFINSTR", "an undefined instruction"),
    (1 << 17, "INVSTATE", NO_THUMB),
    (1 << 18, "INVPC", "an exception return with a wrong EXC_RETURN or a damaged frame"),
    (1 << 19, "NOCP", "an instruction of a coprocessor or FPU that is off or not there"),
    (1 << 20, "STKOF", "the stack passed its limit (msplim, psplim): the exception frame may not have been written"),
    (1 << 24, "UNALIGNED", "an access that is not aligned"),
    (1 << 25, "DIVBYZERO", "a division by zero"),
];
/// What INVSTATE means. The Thumb bit of the `xpsr` that was pushed shows it as well.
pub const NO_THUMB: &str = "no Thumb state: a jump, a return or a vector went to an even address";
const MMARVALID: u64 = 1 << 7;
const BFARVALID: u64 = 1 << 15;
/// The bits of the three faults in `cfsr`.
const MEM_MANAGE: u64 = 0xFF;
const BUS_FAULT: u64 = 0xFF00;
/// Faults that have an address: DACCVIOL; PRECISERR. IACCVIOL and IBUSERR have none.
const WITH_MMFAR: u64 = 1 << 1;
const WITH_BFAR: u64 = 1 << 9;

const HFSR: [Bit; 3] = [
    (1 << 1, "VECTTBL", "the vector of an exception could not be read"),
    (FORCED, "FORCED", "a fault was escalated to HardFault: cfsr says which"),
    (DEBUGEVT, "DEBUGEVT", "a breakpoint or another debug event without a debugger: dfsr has the reason"),
];
const FORCED: u64 = 1 << 30;
const DEBUGEVT: u64 = 1 << 31;

const DFSR: [Bit; 5] = [
    (1, "HALTED", "a halt or a step by the debugger"),
    (1 << 1, "BKPT", "a breakpoint"),
    (1 << 2, "DWTTRAP", "a watchpoint"),
    (1 << 3, "VCATCH", "a vector catch"),
    (1 << 4, "EXTERNAL", "an external request"),
];

const SFSR: [Bit; 8] = [
    (1, "INVEP", "a call into secure code that does not begin with SG"),
    (1 << 1, "INVIS", "a damaged signature in a secure exception frame"),
    (1 << 2, "INVER", "an exception return with an EXC_RETURN of the other security state"),
    (1 << 3, "AUVIOL", "an access to secure memory by non-secure code"),
    (1 << 4, "INVTRAN", "a jump from secure to non-secure code that is not marked as one"),
    (1 << 5, "LSPERR", "security forbids the frame's place for s0 to s15: they are stale in it"),
    (SFARVALID, "SFARVALID", "sfar holds the address"),
    (1 << 7, "LSERR", "a security error while floating-point registers were to be stored"),
];
const SFARVALID: u64 = 1 << 6;
/// AUVIOL.
const WITH_SFAR: u64 = 1 << 3;

/// `fpccr`: room for s0 to s15 is in a frame, and they are still in the registers.
const LSPACT: u64 = 1;
const FPCCR: [Bit; 1] = [(LSPACT, "LSPACT", "s0 to s15 in an exception frame are stale: they are still in the FPU")];
/// From the start of a frame to its s0.
const FLOATS_AT: u64 = 32;

/// `cfsr`: pushing registers as an exception came failed.
const NOT_WRITTEN: [(u64, &str); 3] = [(1 << 4, "MSTKERR"), (1 << 12, "STKERR"), (1 << 20, "STKOF")];
/// `cfsr`: storing the floating-point registers into a frame failed later on.
const FLOATS_NOT_WRITTEN: [(u64, &str); 2] = [(1 << 5, "MLSPERR"), (1 << 13, "LSPERR")];

/// The numbers of the exceptions that handle faults.
const HARD_FAULT: u32 = 3;
const SECURE_FAULT: u32 = 7;
const NMI: u32 = 2;
/// `shcsr`: the exception of this number is active, or was interrupted by another. HARDFAULTACT is of Armv8-M alone.
const ACTIVE: [(u64, u32); 5] = [(1 << 2, 3), (1, 4), (1 << 1, 5), (1 << 3, 6), (1 << 4, 7)];

/// The fewest of `cfsr` that is not rather a count, where the exception does not say of which fault it is.
const FEWEST: u64 = 0x80;

/// What a word says where it is the `cfsr` that the handler of this exception read: its bits. `None` where it has others, or is of another
/// fault than that handler's.
pub fn as_cfsr(word: u64, exception: u32) -> Option<Vec<FaultBit>> {
    let known = CFSR.iter().fold(0, |all, (bit, ..)| all | bit);
    let own = match exception {
        HARD_FAULT if word >= FEWEST => known,
        4 => MEM_MANAGE,
        5 => BUS_FAULT,
        6 => known & !(MEM_MANAGE | BUS_FAULT),
        _ => return None,
    };
    let bits = set_bits("cfsr", word, &CFSR, |_| Some(true));
    (word & !(known & own) == 0 && bits.iter().any(|bit| bit.kind.is_some())).then_some(bits)
}

/// The fault handler that runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Handler {
    Runs(u32),
    None,
    Unknown,
}

impl Handler {
    fn of(registers: &Registers) -> Self {
        let level = registers.level();
        if let Level::Exception(number @ HARD_FAULT..=SECURE_FAULT) = level {
            let [cfsr, hfsr] = ["cfsr", "hfsr"].map(|name| registers.get(name));
            // Several faults may have the handler by which it was inferred. Where nothing was forced, it is one that cfsr records.
            let is_not_forced = registers.has_inferred_exception() && hfsr == Some(0);
            let other = cfsr.filter(|cfsr| is_not_forced && *cfsr != 0 && !records(*cfsr, number));
            return Self::Runs(other.map_or(number, exception_of));
        }
        let shcsr = registers.get("shcsr");
        let active = ACTIVE.into_iter().find(|(bit, _)| shcsr.is_some_and(|word| word & bit != 0));
        match (active, level) {
            (Some((_, number)), _) => Self::Runs(number),
            (None, Level::Thread) => Self::None,
            // An NMI may have interrupted a HardFault, which an Armv7-M does not show.
            (None, Level::Exception(number)) if number != NMI && shcsr.is_some() => Self::None,
            _ => Self::Unknown,
        }
    }

    const fn name(self) -> Option<&'static str> {
        match self {
            Self::Runs(3) => Some("HardFault"),
            Self::Runs(4) => Some("MemManage"),
            Self::Runs(5) => Some("BusFault"),
            Self::Runs(6) => Some("UsageFault"),
            Self::Runs(7) => Some("SecureFault"),
            _ => None,
        }
    }

    /// Whether what the bits record is of the fault that goes on. `own`: the exception of these bits.
    const fn is_current(self, own: u32, forced: bool) -> Option<bool> {
        match self {
            Self::Runs(number) => Some(number == own || number == HARD_FAULT && forced),
            Self::None => Some(false),
            Self::Unknown => None,
        }
    }
}

/// True where `cfsr` has a bit of an exception.
const fn records(cfsr: u64, number: u32) -> bool {
    match number {
        4 => cfsr & MEM_MANAGE != 0,
        5 => cfsr & BUS_FAULT != 0,
        6 => cfsr & !(MEM_MANAGE | BUS_FAULT) != 0,
        _ => false,
    }
}

/// The exception of a bit of `cfsr`.
const fn exception_of(mask: u64) -> u32 {
    match mask {
        _ if mask & MEM_MANAGE != 0 => 4,
        _ if mask & BUS_FAULT != 0 => 5,
        _ => 6,
    }
}

/// What the registers record.
pub(super) fn fault(registers: &Registers) -> Option<Fault> {
    let [cfsr, hfsr, sfsr, dfsr, fpccr] = ["cfsr", "hfsr", "sfsr", "dfsr", "fpccr"].map(|name| registers.get(name));
    let handler = Handler::of(registers);
    // Bits that mean nothing record nothing.
    let has = |word: Option<u64>, bits: &[Bit]| word.is_some_and(|word| bits.iter().any(|(mask, ..)| word & mask != 0));
    let any = has(cfsr, &CFSR) || has(hfsr, &HFSR) || has(sfsr, &SFSR);
    let shown = handler.name().is_some() && (cfsr.is_some() || hfsr.is_some());
    let typed = registers.is_given("dfsr") && dfsr != Some(0);
    if !any && !shown && !typed {
        return None;
    }
    // Without hfsr it is not known that the fault was not forced.
    let forced = hfsr.is_none_or(|hfsr| hfsr & FORCED != 0);
    let of_cfsr = |mask| handler.is_current(exception_of(mask), forced);
    let mut bits = set_bits("hfsr", hfsr.unwrap_or_default(), &HFSR, |_| handler.is_current(HARD_FAULT, false));
    let cfsr = cfsr.unwrap_or_default();
    bits.extend(set_bits("cfsr", cfsr, &CFSR, of_cfsr));
    let is_sfsr_known = sfsr.is_some();
    let sfsr = sfsr.unwrap_or_default();
    bits.extend(set_bits("sfsr", sfsr, &SFSR, |_| handler.is_current(SECURE_FAULT, forced)));
    // A debugger that halts a CPU leaves HALTED there.
    let event = hfsr.is_some_and(|hfsr| hfsr & DEBUGEVT != 0);
    bits.extend(set_bits("dfsr", dfsr.filter(|_| event || typed).unwrap_or_default(), &DFSR, |_| None));
    bits.extend(set_bits("fpccr", fpccr.unwrap_or_default(), &FPCCR, |_| Some(true)));
    if hfsr.is_some_and(|hfsr| hfsr & FORCED != 0) && registers.get("cfsr") == Some(0) && sfsr == 0 {
        no_reason(&mut bits, is_sfsr_known);
    }
    let (address, address_valid) = address(registers, cfsr, sfsr, of_cfsr);
    let current = match handler {
        Handler::Runs(_) => Some(true),
        Handler::None => Some(false),
        Handler::Unknown => None,
    };
    Some(Fault { name: handler.name(), current, registers: registers.known_of_faults(), bits, address, address_valid })
}

/// A forced HardFault whose reason is not in `cfsr`.
fn no_reason(bits: &mut [FaultBit], is_sfsr_known: bool) {
    for bit in bits.iter_mut().filter(|bit| bit.name == "FORCED") {
        let secure = if is_sfsr_known { "" } else { ", or a SecureFault of an Armv8-M (sfsr is not known)" };
        bit.words = format!(
            "another fault became this one; cfsr is 0: a breakpoint instruction, or its bits were cleared{secure}"
        );
    }
}

/// The address whose access failed, and whether the registers hold one for the faults that they record.
fn address(
    registers: &Registers,
    cfsr: u64,
    sfsr: u64,
    of_cfsr: impl Fn(u64) -> Option<bool>,
) -> (Option<(Addr, &'static str)>, Option<bool>) {
    let rows = [
        (cfsr, MMARVALID, WITH_MMFAR, "mmfar", of_cfsr(MMARVALID)),
        (cfsr, BFARVALID, WITH_BFAR, "bfar", of_cfsr(BFARVALID)),
        (sfsr, SFARVALID, WITH_SFAR, "sfar", None),
    ];
    let valid = rows.iter().filter(|(word, valid, ..)| word & valid != 0);
    // One of the fault that goes on, where there are several.
    let best = valid.max_by_key(|(.., current)| *current == Some(true));
    let found = best.and_then(|(.., name, _)| Some((registers.get(name)?, *name)));
    let expected = rows.iter().any(|(word, _, with, ..)| word & with != 0);
    let is_valid = match (best, found) {
        (Some(_), Some(_)) => Some(true),
        (Some(_), None) => None,
        (None, _) => expected.then_some(false),
    };
    (found, is_valid)
}

/// What the fault registers say against a frame that an exception of a Cortex-M pushed.
///
/// The bits stay set until a program clears them: they may be those of an earlier exception.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FrameDoubt {
    /// The bits that say that the frame may not have been written: MSTKERR, STKERR, STKOF.
    pub not_written: Vec<&'static str>,
    /// The bits that say that s0 to s15 in it may not have been written: MLSPERR, LSPERR, LSPACT.
    pub floats_stale: Vec<&'static str>,
}

impl FrameDoubt {
    /// In words, without a full stop: `STKERR: the exception frame may not have been written`.
    pub fn words(&self) -> Vec<String> {
        let said = [
            (&self.not_written, "the exception frame may not have been written"),
            (&self.floats_stale, "s0 to s15 in the exception frame are stale"),
        ];
        let said = said.into_iter().filter(|(bits, _)| !bits.is_empty());
        said.map(|(bits, words)| format!("{}: {words}", bits.join(", "))).collect()
    }
}

impl Registers {
    /// What the fault registers of this CPU say against the exception frame whose r0 is at `at`. Nothing where they are not
    /// known. LSPACT is about one frame only: that whose s0 is at `fpcar`.
    pub fn frame_doubt(&self, at: Addr) -> FrameDoubt {
        if self.architecture() != Architecture::CortexM {
            return FrameDoubt::default();
        }
        let cfsr = self.get("cfsr").unwrap_or_default();
        let set = |bits: &[(u64, &'static str)]| bits.iter().filter(|(b, _)| cfsr & b != 0).map(|(_, n)| *n).collect();
        let mut floats_stale: Vec<&'static str> = set(&FLOATS_NOT_WRITTEN);
        let lazy = self.get("fpccr").unwrap_or_default() & LSPACT != 0;
        let floats = self.get("fpcar").map(|at| at & !7);
        if lazy && floats.is_none_or(|floats| at.checked_add(FLOATS_AT).is_some_and(|own| own & !7 == floats)) {
            floats_stale.push("LSPACT");
        }
        FrameDoubt { not_written: set(&NOT_WRITTEN), floats_stale }
    }
}
