//! Which of the places that look like that of a fault is it. Where PSP is not known, an interrupt that is over leaves such words, and
//! a switch of threads does.
//!
//! A handler that saves what the exception pushed does so for the fault alone: the place whose words are in memory elsewhere is it. So is
//! the only one whose address a register of the CPU has: handlers pass it to functions that look at it.
//! An instruction that accesses no memory cannot have failed, unless a write in front of it did that the bus refused later (an imprecise
//! bus fault): such a place is one that may be it, and no more.

use super::super::super::{Case, Cpus};
use super::lost_thumb;
use super::possible::copies;
use crate::abi::{Addr, Endian};
use crate::cpu::{Architecture, Effect, Fault, cannot_fail};
use crate::session::{CpuState, Place};

/// Bits of fault registers that are set at any instruction: an access in front of it failed, it could not be fetched, registers could
/// not be pushed or a vector not be read, an exception could not return to it, or a watchpoint came.
const ANYWHERE: [&str; 15] = [
    "IMPRECISERR",
    "IBUSERR",
    "IACCVIOL",
    "STKOF",
    "MSTKERR",
    "STKERR",
    "MLSPERR",
    "LSPERR",
    "VECTTBL",
    "INVPC",
    "INVER",
    "INVIS",
    "MUNSTKERR",
    "UNSTKERR",
    "DWTTRAP",
];

/// The registers of a Cortex-M that code computes with.
const GENERAL: [&str; 13] = ["r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9", "r10", "r11", "r12"];

/// What else speaks for a place, or against it.
pub(super) struct Hints {
    /// The frames whose words a handler saved, and where.
    pub saved: Vec<(Addr, Addr)>,
    /// The only frame whose address a register of the CPU has, and which one.
    pub held: Option<(Addr, &'static str)>,
    /// Where the instruction at pc accesses no memory.
    pub harmless: Vec<Addr>,
}

impl Hints {
    /// Of the places of a CPU, where none is certain.
    pub fn of(cpu: &CpuState, cpus: &Cpus, case: &Case<'_>) -> Self {
        let found = cpu.interrupted.as_ref().filter(|found| !found.is_certain);
        let all: Vec<&Place> = found.into_iter().flat_map(|found| &found.all).collect();
        let is_variable = |_, at| case.look.variable(at).is_some();
        let saved = all
            .iter()
            .zip(copies(&all, &is_variable, cpus, case))
            .filter_map(|(place, copy)| Some((place.frame, copy?)));
        let is_harmless = |pc: &Addr| {
            let bytes = case.look.bytes(*pc, 4).unwrap_or_default();
            let half = |at| Endian::Little.u16(&bytes, at);
            half(0).zip(half(2)).is_some_and(|(first, second)| cannot_fail(first, second))
        };
        let is_thumb = cpu.registers.architecture() == Architecture::CortexM;
        let in_code = all.iter().filter(|place| is_thumb && !place.is_outside_code && !lost_thumb(place));
        let harmless = in_code.filter_map(|place| place.registers.pc()).filter(is_harmless).collect();
        let held = GENERAL.into_iter().filter_map(|name| Some((cpu.registers.get(name)?, name)));
        // What the exception found in a register, the handler did not put there.
        let is_passed = |place: &Place, name: &str| place.registers.get(name) != Some(place.frame);
        let is_of = |at: Addr, name: &str| all.iter().any(|place| place.frame == at && is_passed(place, name));
        let held: Vec<(Addr, &str)> = held.filter(|(at, name)| is_of(*at, name)).collect();
        let held = held.first().copied().filter(|(first, _)| is_thumb && held.iter().all(|(at, _)| at == first));
        Self { saved: saved.collect(), held, harmless }
    }

    /// The register that has the address of a place.
    pub fn register(&self, place: &Place) -> Option<&'static str> {
        self.held.filter(|(frame, _)| *frame == place.frame).map(|(_, name)| name)
    }

    /// Where a handler saved the words of a place.
    pub fn copy(&self, place: &Place) -> Option<Addr> {
        self.saved.iter().find(|(frame, _)| *frame == place.frame).map(|(_, copy)| *copy)
    }
}

/// Where the fault came of a CPU that is in one; `None` where no place is certain, and none alone fits.
pub(in super::super) fn chosen_place<'a>(cpu: &'a CpuState, case: &Case<'_>) -> Option<&'a Place> {
    let cpus = case.cpus?;
    the_place(cpu, cpu.registers.fault().as_ref(), cpus, &Hints::of(cpu, cpus, case))
}

/// The place where a fault came: that which is certain; else that which a handler saved, or where all that may be it agree. Else the
/// only one of them whose instruction can have failed so.
pub(super) fn the_place<'a>(cpu: &'a CpuState, fault: Option<&Fault>, cpus: &Cpus, hints: &Hints) -> Option<&'a Place> {
    let found = cpu.interrupted.as_ref()?;
    if found.is_certain {
        return found.all.first();
    }
    let mut saved = found.all.iter().filter(|place| hints.copy(place).is_some());
    if let (Some(only), None) = (saved.next(), saved.next()) {
        return Some(only);
    }
    let has = |name: &str| fault.is_some_and(|fault| fault.bits.iter().any(|bit| bit.name == name));
    // These come at any instruction.
    let may_be_any = ANYWHERE.into_iter().any(has);
    let has_failed = |place: &Place| {
        may_be_any || can_fail(place, cpus) || matches!(place.effect, Some(Effect::Divide(None | Some(0))))
    };
    let is_saved = found.all.iter().any(|place| hints.copy(place).is_some());
    let held = found.all.iter().find(|place| hints.register(place).is_some() && has_failed(place));
    if let Some(held) = held.filter(|_| !is_saved) {
        return Some(held);
    }
    let is_harmless =
        |place: &Place| !may_be_any && place.registers.pc().is_some_and(|pc| hints.harmless.contains(&pc));
    let all: Vec<&Place> = found.all.iter().filter(|place| !is_harmless(place)).collect();
    let agrees = |with: &Place, place: &Place| place.registers.pc() == with.registers.pc();
    let first = all.first().copied()?;
    // Where others were left out, only one that can have failed.
    let divides = matches!(first.effect, Some(Effect::Divide(_)));
    let is_alone = all.len() == found.all.len() || can_fail(first, cpus) || divides;
    if is_alone && all.iter().all(|place| agrees(first, place)) {
        return Some(first);
    }
    let address = fault.and_then(|fault| fault.address).map(|(at, _)| at);
    // Memory that can be read gives no bus error at a fetch.
    let is_fetch = fault.is_some_and(|fault| fault.bits.iter().any(|bit| bit.name == "IBUSERR"));
    let is_there = |place: &Place| place.registers.pc().and_then(|pc| cpus.has(pc)) == Some(true);
    let failed = |place: &Place| can_fail(place, cpus) && !(is_fetch && is_there(place));
    let named = |place: &Place| address.is_some() && place.effect.and_then(Effect::address) == address;
    let some = all.iter().find(|place| named(place)).or_else(|| all.iter().find(|place| failed(place)))?;
    // A division by what is not known may have failed as well.
    let may_fail = |place: &Place| failed(place) || matches!(place.effect, Some(Effect::Divide(None)));
    let mut others = all.iter().filter(|place| if named(some) { named(place) } else { may_fail(place) });
    others.all(|other| agrees(some, other)).then_some(*some)
}

/// True where the instruction at a place can have failed, as far as it and memory are known.
pub(super) fn can_fail(place: &Place, cpus: &Cpus) -> bool {
    place.is_outside_code
        || lost_thumb(place)
        || match place.effect {
            Some(Effect::Read(at, size) | Effect::Write(at, size)) => {
                let is_constant = matches!(place.effect, Some(Effect::Write(..))) && cpus.is_read_only(at);
                cpus.has(at) != Some(true) || cpus.refuses(at, size) || is_constant
            }
            Some(Effect::DivideByZero | Effect::Undefined | Effect::Breakpoint) => true,
            Some(Effect::Divide(_) | Effect::Jump(_) | Effect::Lower(_)) | None => false,
        }
}
