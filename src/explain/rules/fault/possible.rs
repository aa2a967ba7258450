//! A fault in a source without registers, as a dump of the RAM: nothing shows that the CPU is in one. What is there are the
//! words that exceptions pushed. Each interrupt leaves such words. They are those of a fault where the instruction at their pc
//! can only fail with their registers, or where their pc is no code at all.
//!
//! That is a hint. Where the same words are in memory elsewhere, outside of stacks, a handler has saved them: programs do that
//! for faults alone, so it is likely then.
//!
//! Against it: memory that the dump does not hold, as that of devices or of a second chip, can be read by the program all the
//! same. So an address of a device counts only where a handler saved the words, and code that is not in the ELF, of a boot
//! loader or a ROM, looks like none.

use super::super::super::address;
use super::super::super::cpus::thread_of;
use super::super::super::graph::Graph;
use super::super::super::{Case, Code, Confidence, Cpus, Evidence, Finding};
use super::super::empty_entry::EmptyEntry;
use super::super::heap::Suspect;
use super::super::jump::{NULL, Way};
use super::super::passed::Access;
use super::super::pointer::Pointer;
use super::super::static_pointers::trace;
use super::super::{callback, place, words};
use super::{CALLERS, leaves_popped, outside};
use crate::abi::{Addr, Region};
use crate::cpu::{Effect, Level, Origin, is_exc_return};
use crate::kernel::Thread;
use crate::session::{CpuState, Place};

/// From here on a Cortex-M has no memory that programs use (Armv7-M Architecture Reference Manual, B3.1).
const NOTHING: Addr = 0xE010_0000;
/// Where its memory is, of which a dump has what the program uses: SRAM, external RAM, and external devices, of which few
/// chips have any.
const RAM: [Region; 2] =
    [Region { start: 0x2000_0000, len: 0x2000_0000 }, Region { start: 0x6000_0000, len: 0x8000_0000 }];
/// Bytes of an address.
const WORD: u64 = 4;
/// lr, pc and xpsr in what an exception pushed.
const SAVED: (Addr, u64) = (20, 12);
/// The most bytes of memory in which they are looked for.
const MOST: u64 = 8 << 20;
/// HFSR: a fault was escalated to HardFault, or came at the read of a vector.
const FORCED: u64 = 1 << 30;
const VECTTBL: u64 = 1 << 1;
/// CFSR: its bits, and those that say that an address is valid.
const CFSR: u64 = 0x031F_BFBB;
const VALID: u64 = 0x8080;
/// Bytes around the address of a frame in which a handler stores what else it keeps of a fault.
const RECORD: u64 = 128;
/// Bytes that are read at once.
const STEP: u64 = 1024;

/// The place that looks most like that of a fault.
pub(super) fn find(cpu: &CpuState, cpus: &Cpus, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    if let Some(place) = given(cpu) {
        let why = Why::of(&place, cpus, case).filter(|why| why.is_fault && why.way.is_none())?;
        return Some(why.with_pointer(why.finding(None, cpu, cpus, case), case, graph));
    }
    let found = cpu.interrupted.as_ref().filter(|_| cpu.registers.level() == Level::Unknown)?;
    if let Some(finding) = found.all.iter().find_map(|place| overflow(place, cpu, case)) {
        return Some(finding);
    }
    let may_fail: Vec<Why<'_>> = found.all.iter().filter_map(|place| Why::of(place, cpus, case)).collect();
    let places: Vec<&Place> = may_fail.iter().map(|why| why.place).collect();
    let is_record = |n: usize, at: Addr| may_fail.get(n).is_some_and(|why| is_record(at, why, case));
    let saved = copies(&places, &is_record, cpus, case);
    let with_copy = may_fail.iter().zip(&saved).find_map(|(why, at)| Some((why, Some((*at)?))));
    let (why, copy) = with_copy.or_else(|| may_fail.iter().find(|why| why.is_fault).map(|why| (why, None)))?;
    Some(why.with_pointer(why.finding(copy, cpu, cpus, case), case, graph))
}

/// True for a variable that has the address of the frame, and beside it what two of the registers of a fault hold: the bits of CFSR, and HFSR
/// or the address that failed (Armv7-M Architecture Reference Manual, B3.2.15 to B3.2.18). Of a frame on the main stack it may be a record
/// of a run before: that stack is not cleared at the start, as those of threads are.
fn is_record(at: Addr, why: &Why<'_>, case: &Case<'_>) -> bool {
    let Some(variable) = case.look.variable(at).filter(|_| why.place.within.is_none()) else { return false };
    let start = variable.address.max(at.saturating_sub(RECORD));
    let end = variable.address.saturating_add(variable.size).min(at.saturating_add(RECORD));
    let words = case.look.bytes(start & !3, end.saturating_sub(start & !3)).map(|bytes| case.words(&bytes, true));
    let failed = why.place.effect.and_then(Effect::address).filter(|at| *at >= address::NULL);
    words.is_some_and(|words| are_registers(&words, failed))
}

/// True where some words are those of CFSR, and of HFSR or the address that failed.
fn are_registers(words: &[u64], failed: Option<Addr>) -> bool {
    let bits = words.iter().filter(|word| **word != 0 && **word & !CFSR == 0);
    let is_hfsr = || words.iter().any(|word| matches!(*word, FORCED | VECTTBL));
    let is_failed = |bits: &u64| bits & VALID != 0 && failed.is_some_and(|failed| words.contains(&failed));
    bits.into_iter().any(|bits| is_hfsr() || is_failed(bits))
}

/// Where a thread is by registers that were given: those of a crash log are those that the fault found.
fn given(cpu: &CpuState) -> Option<Place> {
    let (_, origin) = cpu.registers.value("pc").filter(|_| cpu.registers.level() == Level::Thread)?;
    (origin == Origin::Given && !cpu.is_outside_code).then(|| Place {
        frame: cpu.registers.sp().unwrap_or_default(),
        registers: cpu.registers.clone(),
        within: None,
        functions: cpu.functions.clone(),
        callers: Vec::new(),
        effect: cpu.effect,
        is_outside_code: false,
    })
}

/// That an instruction makes room on the stack below its end. Whichever exception came there, the program got to it.
fn overflow(place: &Place, cpu: &CpuState, case: &Case<'_>) -> Option<Finding> {
    let thread = thread_of(cpu, case.kernel).filter(|_| place.within.is_none())?;
    let (sp, start) = (place.registers.sp()?, thread.stack.start?);
    let effect = place.effect.filter(|effect| matches!(effect, Effect::Lower(_)))?;
    let to = super::lowered(effect, sp, &thread.stack, false)?;
    let (name, pc) = (thread.label(), place.registers.pc()?);
    let below = start.saturating_sub(to);
    let text = format!("the instruction at {pc:#x} lowers sp from {sp:#x} to {to:#x}, {below} bytes below the stack");
    let at = place::of(&place.functions).map_or_else(String::new, |at| format!(" in {at}"));
    let size = thread.stack.size.map_or_else(String::new, |size| format!(" ({size} bytes)"));
    Some(
        Finding::new(
            Code::StackOverflow,
            case.cap_of_exception(Confidence::Likely),
            format!("the stack of {name}{size} is too small{at}"),
        )
        .against(["words that only look like what an exception pushed give the same"])
        .evidence([
            Evidence::stack(place.frame, format!("an exception came there: pc {pc:#x}")).holds(pc),
            Evidence::stack(start, text),
        ])
        .evidence(place::callers(&place.functions, CALLERS))
        .next(format!("{}: `threads --bt={:#x}`", words::larger_stack(thread, case), thread.address))
        .threads([thread.address]),
    )
}

fn is_given(cpu: &CpuState) -> bool {
    cpu.registers.pc().is_some()
}

/// A place whose instruction can fail.
struct Why<'a> {
    place: &'a Place,
    code: Code,
    words: String,
    /// How the CPU came to where no code is.
    way: Option<Way>,
    /// True where nothing else explains it; false where it may be an access of a device.
    is_fault: bool,
}

impl<'a> Why<'a> {
    fn of(place: &'a Place, cpus: &Cpus, case: &Case<'_>) -> Option<Self> {
        if place.is_outside_code || place.registers.get("xpsr").is_some_and(|xpsr| xpsr & super::THUMB == 0) {
            return Self::jumped(place, cpus, case);
        }
        let effect = place.effect?;
        let with = |code, is_fault| Some(Self { place, code, words: effect.words(), way: None, is_fault });
        match effect {
            Effect::DivideByZero | Effect::Undefined => with(Code::UsageFault, true),
            Effect::Breakpoint => with(Code::Assert, true),
            Effect::Read(at, size) | Effect::Write(at, size) if cpus.refuses(at, size) => {
                let words = format!("{}, which is not aligned", effect.words());
                Some(Self { place, code: Code::UsageFault, words, way: None, is_fault: true })
            }
            // Only the code that writes a flash memory does that.
            Effect::Write(at, _) if cpus.is_read_only(at) => {
                let words = format!("{} (code or a constant)", effect.words());
                Some(Self { place, code: Code::MemFault, words, way: None, is_fault: true })
            }
            // What is there on a Cortex-M is the table of vectors.
            Effect::Read(at, _) if at < NULL => with(Code::BusFault, true),
            Effect::Read(at, _) | Effect::Write(at, _) if cpus.has(at) == Some(false) => {
                let is_null = at < NULL && matches!(effect, Effect::Write(..));
                let is_ram = RAM.iter().any(|ram| ram.contains(at));
                with(Code::BusFault, is_null || is_ram || at >= NOTHING || address::is_pattern(at))
            }
            _ => None,
        }
    }

    fn jumped(place: &'a Place, cpus: &Cpus, case: &Case<'_>) -> Option<Self> {
        let pc = place.registers.pc()?;
        let way = Way::of(&place.registers, None, leaves_popped(place), case)?;
        let (code, words) = if way.is_call && pc < NULL {
            let by = way.by.as_deref().map_or_else(String::new, |by| format!(", by {by}"));
            (Code::NullCall, format!("a call through a null pointer{by}"))
        } else {
            (outside(place, cpus), format!("the program has no code at {}", way.words))
        };
        Some(Self { place, code, words, way: Some(way), is_fault: true })
    }

    fn finding(&self, copy: Option<Addr>, cpu: &CpuState, cpus: &Cpus, case: &Case<'_>) -> Finding {
        let place = self.place;
        let thread = thread_of(cpu, case.kernel).filter(|_| place.within.is_none());
        let mut evidence = self.evidence(cpu, cpus);
        let mut detractors = Vec::new();
        let is_likely = copy.map(|at| {
            evidence.insert(1.min(evidence.len()), saved(at, place.frame, case));
        });
        let if_so = if is_likely.is_some() { "" } else { ", if the CPU is in a fault" };
        let (confidence, against) =
            case.cap_of_exception(if is_likely.is_some() { Confidence::Likely } else { Confidence::Hint });
        detractors.extend(against);
        detractors.push(if is_given(cpu) && cpu.registers.lr().is_some_and(is_exc_return) {
            "which exception the CPU is in is not known (--reg xpsr=N)".to_owned()
        } else if is_given(cpu) {
            "the registers that were given are those of a thread: whether a fault came there is not known".to_owned()
        } else {
            "this source has no registers: whether the CPU is in a fault is not known".to_owned()
        });
        let is_call = self.code == Code::NullCall;
        Finding::new(
            match self.code {
                Code::Assert => Code::Assert,
                _ if place.within.is_some() => Code::IsrFault,
                code => code,
            },
            (confidence, detractors),
            format!("{}{}{if_so}", self.words, self.whereabouts(thread, case)),
        )
        .evidence(evidence)
        .next(match &self.way {
            Some(way) if !is_call => way.next.clone(),
            _ => "give the registers that the crash log printed: --reg pc=N --reg xpsr=N --reg psp=N".to_owned(),
        })
        .with_heap(&place.functions, Suspect::Place, case)
        .threads(thread.map(|thread| thread.address))
    }

    fn access(&self) -> Option<Access<'_>> {
        let (registers, failed) = (&self.place.registers, self.place.effect?.address()?);
        Some(Access { at: registers.pc()?, failed: Some(failed), registers })
    }

    /// The same, and a division.
    fn access_or_division(&self) -> Option<Access<'_>> {
        let (registers, effect) = (&self.place.registers, self.place.effect?);
        let fails = effect == Effect::DivideByZero || effect.address().is_some();
        Some(Access { at: registers.pc().filter(|_| fails)?, failed: effect.address(), registers })
    }

    /// The function that passed the pointer, or the divisor.
    fn passed(&self, case: &Case<'_>) -> Option<String> {
        self.access_or_division()?.passed(&self.place.functions, case)
    }

    /// With where the pointer was read from.
    fn with_pointer(&self, finding: Finding, case: &Case<'_>, graph: &Graph) -> Finding {
        let chained = || Pointer::of_chain(&self.access()?, &self.place.functions, case, graph);
        let divisor = || Pointer::of_divisor(self.place, case, graph);
        let by_caller = || Pointer::of_caller(&self.access_or_division()?, self.place, case, graph);
        let in_code = || if self.way.is_none() { divisor().or_else(by_caller) } else { None };
        match Pointer::of_place(self.place, self.way.as_ref(), case, graph).or_else(chained).or_else(in_code) {
            Some(pointer) => pointer.added_to(finding, case),
            None => {
                if let Some((site, empty)) = self.empty_entry(case) {
                    return empty.added_to(finding, site, case);
                }
                let own = finding.threads.first().map(|thread| (*thread, None));
                finding.with_block_of(self.place.effect.and_then(Effect::address), own, case, graph)
            }
        }
    }

    /// The empty entry of a table of functions through which it may have called, with the address of the call.
    fn empty_entry(&self, case: &Case<'_>) -> Option<(Addr, EmptyEntry)> {
        let site = self.way.as_ref().filter(|_| self.code == Code::NullCall)?.site?;
        Some((site, EmptyEntry::called(site, case)?))
    }

    /// ` in put_px (map.c:5), thread Map`. A jump that was no call does not say where it was.
    fn whereabouts(&self, thread: Option<&Thread>, case: &Case<'_>) -> String {
        let place = self.place;
        // Nor does a call whose caller is named.
        let has_caller = self.way.as_ref().is_some_and(|way| way.by.is_some());
        let is_placed = self.code == Code::NullCall && !has_caller || self.way.is_none();
        let by = self.passed(case).map_or_else(String::new, |by| format!(", called by {by}"));
        let at = place::of(&place.functions).filter(|_| is_placed);
        let at = at.map_or_else(String::new, |at| format!(" in {at}{by}"));
        match (&place.within, thread) {
            (Some(exception), _) => format!("{at}, within {exception}"),
            (None, Some(thread)) => {
                format!("{at}, thread {}{}", thread.label(), callback::of(&place.functions, Some(thread), case))
            }
            (None, None) => at,
        }
    }

    fn evidence(&self, cpu: &CpuState, cpus: &Cpus) -> Vec<Evidence> {
        let place = self.place;
        let pc = place.registers.pc().unwrap_or_default();
        let mut all = vec![if is_given(cpu) {
            Evidence::register("pc", pc, "the instruction there can only fail with these registers".to_owned())
        } else {
            Evidence::stack(place.frame, format!("this looks like what an exception pushed: pc {pc:#x}"))
        }];
        if let Some(said) = place.effect.and_then(Effect::address).and_then(|at| Some((at, cpus.at(at)?))) {
            all.push(Evidence::memory(said.0, said.1.to_owned()));
        }
        if let Some(said) = place.effect.and_then(Effect::address).and_then(|at| Some((at, cpus.constant(at)?))) {
            all.push(Evidence::memory(said.0, said.1.to_owned()));
        }
        match &self.way {
            Some(way) => all.extend(way.evidence.iter().cloned()),
            None => all.extend(place::callers(&place.functions, CALLERS)),
        }
        all
    }
}

/// That a handler saved what an exception pushed, or where that is.
pub(super) fn saved(at: Addr, frame: Addr, case: &Case<'_>) -> Evidence {
    let variable = case.look.place(at).map_or_else(String::new, |name| format!(" ({name})"));
    let is_address = case.look.bytes(at, WORD) == Some(stored(frame));
    let text = match is_address {
        true => format!("this holds the address of these registers{variable}: a handler may have stored it"),
        false => format!("its lr, pc and xpsr again{variable}: a handler saved them"),
    };
    Evidence::memory(at, text)
}

/// An address as a Cortex-M stores it.
fn stored(at: Addr) -> Vec<u8> {
    u32::try_from(at).map(|at| at.to_le_bytes().to_vec()).unwrap_or_default()
}

/// Where memory outside of stacks has lr, pc and xpsr of each place again, in this order or the other way round; or its address, where
/// `counts` says so for the number of the place and where that is.
pub(super) fn copies(
    places: &[&Place],
    counts: &dyn Fn(usize, Addr) -> bool,
    cpus: &Cpus,
    case: &Case<'_>,
) -> Vec<Option<Addr>> {
    let needle = |place: &&Place| {
        let words = case.look.bytes(place.frame.checked_add(SAVED.0)?, SAVED.1)?;
        // As local variables, one after the other on the stack.
        let reversed = words.chunks(4).rev().flatten().copied().collect();
        Some([words, reversed])
    };
    let needles: Vec<Option<[Vec<u8>; 2]>> = places.iter().map(needle).collect();
    let addresses: Vec<Vec<u8>> = places.iter().map(|place| stored(place.frame)).collect();
    let mut found = vec![None; places.len()];
    if places.is_empty() || !case.look.is_stored() {
        return found;
    }
    let mut left = MOST;
    let regions = cpus.regions().unwrap_or_default().iter();
    for region in regions.filter(|region| RAM.iter().any(|ram| ram.contains(region.start))) {
        let end = region.start.saturating_add(region.len);
        let mut at = region.start.saturating_add(3) & !3;
        while at < end && left > 0 {
            let bytes = case.look.bytes(at, STEP.min(end.saturating_sub(at))).unwrap_or_default();
            let all = needles.iter().zip(&addresses).zip(places).zip(&mut found).enumerate();
            for (number, needle, address, place, to) in all.map(|(i, (((n, a), p), t))| (i, n, a, p, t)) {
                let is_copy = |at: &Addr| is_copy(*at, place.frame, case);
                let words = needle.iter().flatten().flat_map(|needle| hits(&bytes, needle));
                // Of the stack that a handler runs on only the words themselves are a sign: its callers leave addresses there.
                let is_variable = |at: &Addr| counts(number, *at);
                let pointers = hits(&bytes, address).filter_map(|offset| at.checked_add(offset)).filter(is_variable);
                let words = words.filter_map(|offset| at.checked_add(offset));
                let mut all = words.chain(pointers).filter(is_copy);
                *to = to.or_else(|| all.next());
            }
            // The words may be at the end of one piece and at the beginning of the next.
            at = at.saturating_add(STEP.saturating_sub(SAVED.1));
            left = left.saturating_sub(STEP);
        }
    }
    found
}

fn hits<'b>(bytes: &'b [u8], needle: &'b [u8]) -> impl Iterator<Item = u64> + 'b {
    let windows = bytes.windows(needle.len().max(1)).step_by(4).zip(0_u64..);
    windows.filter(move |(window, _)| *window == needle).map(|(_, at)| at.saturating_mul(4))
}

/// True for an address outside of the stacks of threads, of the stack on which the words are themselves, and of the events.
fn is_copy(at: Addr, frame: Addr, case: &Case<'_>) -> bool {
    if trace(case).is_some_and(|events| events.contains(at)) {
        return false;
    }
    let on_thread = |at: Addr| case.kernel.is_some_and(|kernel| kernel.threads.iter().any(|thread| thread.holds(at)));
    !on_thread(at) && (on_thread(frame) || at.abs_diff(frame) > (4 << 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A word that is 2.0 as a floating-point number, or the first address of a device, is no fault register by itself.
    #[test]
    fn a_record_of_a_fault_has_two_of_its_registers() {
        assert!(are_registers(&[0xDEAD_FA17, 0x8200, 0x4000_0000, 0x8E41_D3A8], None));
        assert!(are_registers(&[0x8200, 0x8E41_D3A8], Some(0x8E41_D3A8)));
        assert!(!are_registers(&[0x4000_0000, 0x2000_1234], None), "no bit of CFSR");
        assert!(!are_registers(&[0x8200, 0x2000_1234], Some(0x8E41_D3A8)));
        assert!(!are_registers(&[0x0200, 0x8E41_D3A8], Some(0x8E41_D3A8)), "no valid address");
    }
}
