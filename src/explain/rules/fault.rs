//! The CPU is in the handler of a fault. That it is follows from its status register. Which fault it is follows from the fault
//! registers; where these are not known, from the instruction that failed, which is less sure. Where it failed follows from
//! the registers that the exception pushed; without PSP these are only found by their looks.
//!
//! Against it: bits of fault registers stay set until a program clears them, so only those of the fault whose handler runs
//! count. An imprecise bus fault does not point at its instruction. What could not be pushed is not there to be read.

use super::super::cpus::thread_of;
use super::super::graph::Graph;
use super::super::{Behind, Case, Code, Confidence, Cpus, Evidence, Finding};
use super::empty_entry::EmptyEntry;
use super::heap::Suspect;
use super::jump::{NEVER_CODE, NULL, Way};
use super::pointer::Pointer;
use super::{arrays, place, set_by};
use crate::abi::{Addr, Region};
use crate::cpu::{Architecture, Effect, Fault, FaultBit, FaultKind, Level, NO_THUMB};
use crate::kernel::{Stack, Thread};
use crate::session::{CpuState, Function, Place};
use crate::sym::ArrayMember;
use crate::unwind::leads_to_handler;
use access::Kept;
pub(super) use chosen::chosen_place;
use resumed::Resumed;
pub(super) use sure::is_in;
use sure::{Sure, sure};

/// Bits that say that the stack of the interrupted code could not be written.
const STACK: [&str; 3] = ["STKOF", "MSTKERR", "STKERR"];
/// `xpsr`: Thumb state.
const THUMB: u64 = 1 << 24;
/// So far below its stack, or above its lowest end, a thread's stack pointer runs into a guard.
const GUARD: u64 = 512;
/// An access of several bytes may fail at any of them.
const PART: u64 = 8;
/// A push writes at most 16 registers, or 32 of the FPU, directly below the stack pointer.
const PUSHED: u64 = 128;
/// The number of PendSV, in which the kernel switches threads.
const PENDSV: u32 = 14;
/// The functions of a backtrace that are named.
const CALLERS: usize = 6;

/// What speaks against what events show.
const FROM_EVENTS: &str = "that this led to the fault is inferred from events";

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let Some(cpus) = case.cpus else { return Vec::new() };
    let find = |cpu| match Look::of(cpu, cpus, case) {
        Some(look) => {
            let known = look.with_failed();
            Look { place: known.as_ref().or(look.place), ..look }.finding(graph)
        }
        None => possible::find(cpu, cpus, case, graph),
    };
    cpus.all.iter().filter_map(find).collect()
}

/// True where the word below the stack pointer is still what was there before the exception: the processor skipped it to align
/// the stack.
fn leaves_popped(place: &Place) -> bool {
    let pushed = place.registers.sp().and_then(|sp| sp.checked_sub(place.frame));
    matches!(pushed, Some(36 | 108))
}

/// A place that looks like that of the fault, where others do as well.
fn possible_place(place: &Place) -> Evidence {
    let pc = place.registers.pc().unwrap_or_default();
    let at = place::of(&place.functions).unwrap_or_else(|| format!("{pc:#x}"));
    Evidence::stack(place.frame, format!("it may have come here: {at}")).holds(pc)
}

/// Where an instruction lets the stack pointer come to, below the end of the stack in which it is. Below the stack pointer only a
/// push writes.
fn lowered(effect: Effect, sp: Addr, stack: &Stack, knows_bits: bool) -> Option<Addr> {
    let to = match effect {
        Effect::Lower(to) => to,
        Effect::Write(at, _) if !knows_bits && at & 3 == 0 && at < sp && sp.saturating_sub(at) <= PUSHED => at,
        _ => return None,
    };
    (stack.holds(sp) && stack.start.is_some_and(|start| to < start)).then_some(to)
}

/// True where a jump went to an even address.
fn lost_thumb(place: &Place) -> bool {
    place.registers.get("xpsr").is_some_and(|xpsr| xpsr & THUMB == 0)
}

/// The kind of fault that a jump to what is no code gives: the bus refuses the fetch where no memory is, and the CPU itself where
/// devices are.
fn outside(place: &Place, cpus: &Cpus) -> Code {
    let is_cortex_m = place.registers.architecture() == Architecture::CortexM;
    let pc = place.registers.pc().filter(|_| is_cortex_m && !lost_thumb(place));
    match pc {
        Some(pc) if NEVER_CODE.iter().any(|range| range.contains(&pc)) => Code::MemFault,
        Some(pc) if cpus.has(pc) == Some(false) => Code::BusFault,
        _ => Code::UsageFault,
    }
}

/// What the fault is, and how that is known.
struct Kind {
    code: Code,
    words: String,
    /// By the fault registers; else by the instruction.
    is_read: bool,
}

/// One CPU in a fault.
struct Look<'a, 'c> {
    cpu: &'a CpuState,
    cpus: &'a Cpus,
    case: &'a Case<'c>,
    fault: Option<Fault>,
    place: Option<&'a Place>,
    /// Where the handler saved the words that the exception pushed there.
    saved: Option<Addr>,
    /// The register that has the address of that place.
    held: Option<&'static str>,
    thread: Option<&'a Thread>,
    /// The exception that the fault interrupted, in words; `None` for a thread.
    within: Option<String>,
    /// How the CPU came to where no code is.
    way: Option<Way>,
    /// What the thread had saved that was to go on, where that is no state of a thread.
    resumed: Option<Resumed>,
    sure: Sure,
}

impl<'a, 'c> Look<'a, 'c> {
    fn of(cpu: &'a CpuState, cpus: &'a Cpus, case: &'a Case<'c>) -> Option<Self> {
        let fault = cpu.registers.fault();
        let sure = sure(cpu, fault.as_ref())?;
        let thread = thread_of(cpu, case.kernel);
        let hints = chosen::Hints::of(cpu, cpus, case);
        let place = chosen::the_place(cpu, fault.as_ref(), cpus, &hints);
        // What is at the stack pointer then may look like what an exception pushed.
        let is_sound = |place: &&Place| !place.is_outside_code && !lost_thumb(place);
        let resumed = if place.filter(is_sound).is_none() { Resumed::of(cpu, case) } else { None };
        let place = place.filter(|_| resumed.is_none());
        let saved = place.and_then(|place| hints.copy(place));
        let held = place.and_then(|place| hints.register(place));
        let outside = place.filter(|place| place.is_outside_code || lost_thumb(place));
        let way =
            outside.and_then(|place| Way::of(&place.registers, cpu.registers.get("psp"), leaves_popped(place), case));
        let way = way.or_else(|| riscv::way(cpu, thread, case));
        // Where the frame was not found, lr may still lead back to another exception.
        let unknown = || leads_to_handler(&cpu.registers).then(|| "another exception".to_owned());
        let within = place.map_or_else(unknown, |place| place.within.clone());
        Some(Self { cpu, cpus, case, fault, place, saved, held, thread, within, way, resumed, sure })
    }

    /// What the fault registers record of this fault.
    fn bits(&self) -> impl Iterator<Item = &FaultBit> {
        self.fault.iter().flat_map(|fault| &fault.bits).filter(|bit| bit.current != Some(false))
    }

    fn has(&self, name: &str) -> bool {
        self.bits().any(|bit| bit.name == name)
    }

    /// The address that failed and its register, where it is not that of an earlier fault.
    fn address(&self) -> Option<(Addr, &'static str)> {
        let valid = |register| match register {
            "mmfar" => self.has("MMARVALID"),
            "bfar" => self.has("BFARVALID"),
            "sfar" => self.has("SFARVALID"),
            _ => true,
        };
        self.fault.as_ref()?.address.filter(|(_, register)| valid(register))
    }

    /// True where the place is certain.
    fn is_placed(&self) -> bool {
        self.cpu.interrupted.as_ref().is_some_and(|found| found.is_certain)
    }

    fn kind(&self) -> Option<Kind> {
        let place = self.place;
        let pc = place.and_then(|place| place.registers.pc());
        let is_wrong = |place: &Place| place.is_outside_code || lost_thumb(place);
        let is_call = self.way.as_ref().is_none_or(|way| way.is_call);
        let called_null = |place: &Place| is_wrong(place) && is_call && pc.is_some_and(|pc| pc < NULL);
        let jumped = |name: &str| matches!(name, "INVSTATE" | "IACCVIOL" | "IBUSERR");
        if place.is_some_and(called_null) && (self.bits().any(|bit| jumped(&bit.name)) || !self.knows_bits()) {
            return Some(self.null_call(self.knows_bits()));
        }
        if riscv::is_fetch_near_null(self.cpu) && is_call {
            return Some(self.null_call(true));
        }
        let read = self.bits().find_map(|bit| Some((bit.kind?, bit)));
        if let Some((kind, bit)) = read {
            let code = match kind {
                FaultKind::Bus => Code::BusFault,
                FaultKind::Memory => Code::MemFault,
                FaultKind::Usage => Code::UsageFault,
                FaultKind::Secure => Code::SecureFault,
            };
            // What is no instruction of the program is no illegal one of it.
            let words = if riscv::is_fetch_outside(self.cpu) {
                "the program has no code there".to_owned()
            } else if self.writes_constant() {
                "a write to read-only memory".to_owned()
            } else {
                self.refused(&bit.name).unwrap_or_else(|| bit.words.clone())
            };
            return Some(Kind { code, words: format!("{words} ({})", bit.name), is_read: true });
        }
        if self.sure == Sure::Stored {
            return riscv::stored_kind(self);
        }
        let own = match self.cpu.registers.level() {
            Level::Exception(4) => {
                Some((Code::MemFault, format!("which access is not known ({})", self.without_bits())))
            }
            Level::Exception(5) => {
                Some((Code::BusFault, format!("which access is not known ({})", self.without_bits())))
            }
            Level::Exception(6) => Some((Code::UsageFault, format!("why is not known ({})", self.without_bits()))),
            Level::Exception(7) => Some((Code::SecureFault, "which rule is not known (--reg sfsr=N)".to_owned())),
            Level::Mode("undefined") => Some((Code::UsageFault, "an undefined instruction".to_owned())),
            _ => None,
        };
        let by_effect = place.and_then(|place| self.by_instruction(place));
        match (own, by_effect) {
            (Some((code, _)), Some(kind)) => Some(Kind { code, is_read: true, ..kind }),
            (Some((code, words)), None) => Some(Kind { code, words, is_read: true }),
            (None, None) if self.resumed.is_some() => {
                let words = "a return to what is no state of a thread".to_owned();
                Some(Kind { code: Code::UsageFault, words, is_read: false })
            }
            (None, kind) => kind,
        }
    }

    fn null_call(&self, is_read: bool) -> Kind {
        let by = self.way.as_ref().and_then(|way| way.by.as_deref());
        let by = by.map_or_else(String::new, |by| format!(", by {by}"));
        Kind { code: Code::NullCall, words: format!("a call through a null pointer{by}"), is_read }
    }

    /// True where what is called is said to be called by another function than the one to which the link register leads.
    fn has_caller(&self) -> bool {
        self.way.as_ref().is_some_and(|way| way.by.is_some())
    }

    /// True where the registers that say which fault it is are known.
    fn knows_bits(&self) -> bool {
        self.cpu.registers.get("cfsr").is_some_and(|cfsr| cfsr != 0)
    }

    /// True where the register that says which fault it is has no bit of one.
    fn is_clear(&self) -> bool {
        self.cpu.registers.get("cfsr") == Some(0)
    }

    /// Why the registers do not say which fault it is.
    fn without_bits(&self) -> &'static str {
        if self.is_clear() { "cfsr is 0" } else { "--reg cfsr=N" }
    }

    /// What speaks against a kind of fault that no register shows.
    fn without_registers(&self) -> Option<String> {
        let why = if self.is_clear() { "cfsr is 0" } else { "cfsr is not known (--reg cfsr=N)" };
        let by = match self.place {
            Some(place) if lost_thumb(place) => "the Thumb bit, which was 0",
            None if self.resumed.is_some() => "the words on the stack",
            _ => "the instruction",
        };
        (self.sure != Sure::Stored).then(|| format!("the kind of fault is inferred from {by}: {why}"))
    }

    /// By the instruction that failed, where no register says it.
    fn by_instruction(&self, place: &Place) -> Option<Kind> {
        let kind = |code, words: String| Some(Kind { code, words, is_read: false });
        let pc = place.registers.pc()?;
        if place.is_outside_code {
            let jump = || format!("a jump to {}, which is not code of the program", self.named(pc));
            let words = self.way.as_ref().map_or_else(jump, |_| "the program has no code there".to_owned());
            return kind(outside(place, self.cpus), words);
        }
        if lost_thumb(place) {
            return kind(Code::UsageFault, NO_THUMB.to_owned());
        }
        match place.effect? {
            Effect::DivideByZero => kind(Code::UsageFault, "a division by zero".to_owned()),
            Effect::Undefined => kind(Code::UsageFault, "an undefined instruction".to_owned()),
            Effect::Breakpoint => kind(Code::Assert, "a breakpoint instruction: the program stopped itself".to_owned()),
            // The only division that fails is one by zero. What its register holds in an emulator may be older.
            Effect::Divide(_) if Pointer::zero_divisor(place, self.case).is_some() => {
                kind(Code::UsageFault, "a division by zero".to_owned())
            }
            Effect::Divide(None) => kind(Code::UsageFault, "a division, which fails only by zero".to_owned()),
            Effect::Divide(_) | Effect::Jump(_) | Effect::Lower(_) => None,
            effect @ (Effect::Read(at, size) | Effect::Write(at, size)) => {
                let words = self.access(effect);
                if self.cpus.refuses(at, size) {
                    return kind(Code::UsageFault, format!("{words}, which is not aligned"));
                }
                match self.cpus.has(at) {
                    Some(true) if self.writes_constant() => {
                        kind(Code::MemFault, format!("{words}, which is read-only memory"))
                    }
                    Some(true) => None,
                    _ => kind(Code::BusFault, words),
                }
            }
        }
    }

    fn finding(&self, graph: &Graph) -> Option<Finding> {
        let mut claimed = if self.sure == Sure::Runs { Confidence::Proven } else { Confidence::Likely };
        let mut detractors = Vec::new();
        match self.sure {
            // Which exception it is has its own detractor.
            Sure::Runs | Sure::Handler => {}
            Sure::Recorded => detractors.push("whether the handler of the fault still runs is not known".to_owned()),
            Sure::Stored => {
                detractors.push(riscv::STORED.to_owned());
                if !riscv::is_where_nothing_is(self.cpu, self.cpus) {
                    claimed = Confidence::Hint;
                    detractors.push(riscv::MAY_BE_INTERRUPT.to_owned());
                }
            }
        }
        let (code, words) = match self.kind() {
            Some(kind) => {
                if !kind.is_read {
                    claimed = claimed.min(Confidence::Likely);
                    detractors.extend(self.without_registers());
                }
                (kind.code, kind.words)
            }
            None => (Code::Fault, format!("what kind of fault is not known ({})", self.without_bits())),
        };
        let is_placed = self.is_placed() || self.cpu.failed.is_some();
        if !is_placed {
            if self.place.is_some() {
                claimed = claimed.min(Confidence::Likely);
            }
            detractors.extend(self.held.filter(|_| self.saved.is_none()).map(|name| {
                format!("the place is inferred from {name}, which may have the address of these words by chance")
            }));
            // Which of several places it is shows where a handler saved it.
            let found = self.cpu.interrupted.iter().filter(|_| self.saved.is_none() && self.held.is_none());
            detractors.extend(found.flat_map(|found| found.remarks.iter().cloned()));
        }
        let (kind, is_null_call) = (code, code == Code::NullCall);
        let within = self.within.as_deref();
        let code = if within.is_some() && code != Code::Assert { Code::IsrFault } else { code };
        let jumped = self.way.as_ref().filter(|_| !is_null_call);
        let came = jumped.map_or_else(String::new, |way| format!(", at {}", way.words));
        let pointer = self.pointer(graph).or_else(|| self.pointer_of_trap(graph)).or_else(|| self.chained(graph));
        let is_passed = pointer.as_ref().is_none_or(|pointer| pointer.is_passed);
        let passed = if is_passed { self.passed() } else { None };
        let whereabouts = self.whereabouts(within, jumped.is_none() && !self.has_caller(), passed);
        let in_ram = self.code_in_ram().unwrap_or_default();
        let claim = format!("{}{whereabouts}: {words}{came}{in_ram}", self.name());
        if self.has("IMPRECISERR") {
            detractors.push("the bus fault is imprecise: the instruction is some way before that place".to_owned());
        }
        let arrays = if pointer.is_none() { self.arrays_in_front(kind) } else { Vec::new() };
        let kept = if pointer.is_none() && arrays.is_empty() { self.kept() } else { Kept::default() };
        let claim = text::behind(self.with_address(claim), &arrays);
        let set_by = kept.set_by(self.case);
        let is_set = set_by.as_ref().is_some_and(|set_by| set_by.words.is_some());
        let overwritten = if is_set { None } else { kept.overwritten(self.case) };
        let next = || kept.next(set_by.as_ref()).unwrap_or_else(|| self.next(kind, &arrays));
        let mut finding = Finding::new(code, (claimed, detractors), claim)
            .evidence(self.evidence())
            .next(jumped.map_or_else(next, |way| way.next.clone()))
            .threads(self.thread.filter(|_| within.is_none()).map(|thread| thread.address))
            .in_switch(self.place.is_some_and(|place| place.registers.level() == Level::Exception(PENDSV)));
        finding.evidence.extend(kept.evidence());
        finding.detractors.extend(set_by.as_ref().map(|_| set_by::AGAINST.to_owned()));
        finding.evidence.extend(set_by.map(|set_by| set_by.evidence));
        if let Some(overwritten) = overwritten {
            finding = overwritten.added_to(finding);
        }
        let may_be_of_heap = pointer.as_ref().map(|pointer| pointer.may_be_of_heap);
        let is_wild = self.is_of_pointer() && self.accessed().is_some_and(|at| at >= NULL) && arrays.is_empty();
        let before = finding.claim.len();
        finding = self.with_causes(finding, pointer, graph);
        let is_open = may_be_of_heap.unwrap_or(finding.claim.len() == before);
        let suspect = if is_wild && is_open { Suspect::Pointer } else { Suspect::Place };
        finding = finding.with_heap(self.place.map_or(&[], |place| &place.functions), suspect, self.case);
        finding = self.with_writers_of_frame(finding);
        if let Some(Resumed { words, evidence, next }) = &self.resumed {
            finding.claim = format!("{}: {words}", finding.claim);
            finding = finding.evidence(evidence.iter().cloned()).next(next.clone());
        }
        if let Some((confidence, why)) = self.stack() {
            finding = self.overflow(finding, confidence, why);
        }
        let (confidence, against) = self.case.cap_of_exception(finding.confidence);
        finding.confidence = confidence;
        finding.detractors.extend(against);
        if let Some(stored) = self.stored() {
            finding.confidence = finding.confidence.min(Confidence::Likely);
            finding.detractors.push(stored);
        }
        Some(finding)
    }

    /// Where the fault registers are from, where the source lacks them.
    fn stored(&self) -> Option<String> {
        let name = if self.cpu.registers.architecture() == Architecture::CortexM { "cfsr" } else { "mcause" };
        let all = &self.cpu.stored_faults;
        let (_, at) = all.iter().find(|(stored, _)| *stored == name).or_else(|| all.first())?;
        let place = self.case.look.place(*at).unwrap_or_else(|| format!("{at:#x}"));
        Some(format!("{name} and the like are not in this source: they are what the handler stored ({place})"))
    }

    /// With what may have led to it: a wait whose object was deleted, a message, the word that a pointer was read from.
    fn with_causes(&self, mut finding: Finding, pointer: Option<Pointer>, graph: &Graph) -> Finding {
        let local = pointer.as_ref().and_then(|pointer| pointer.local);
        let brought = if pointer.is_none() || local.is_some() { self.brought() } else { None };
        let pointer = match local.filter(|_| brought.is_none()).and_then(|word| self.brought_by_code(word)) {
            Some(message) => pointer.map(|pointer| pointer.with_message(message)),
            None => pointer,
        };
        let no_memory = self.got_no_memory();
        let is_brought = brought.is_some();
        let against = if no_memory.is_some() { "that this led to the fault is inferred" } else { FROM_EVENTS };
        let before = self.deleted().into_iter().chain(brought).chain(no_memory).chain(self.went_without_lock());
        for (words, evidence) in before {
            finding.claim = format!("{}; {words}", finding.claim);
            finding.confidence = finding.confidence.min(Confidence::Likely);
            finding = finding.against([against]).evidence([evidence]);
        }
        let Some(pointer) = pointer else {
            if is_brought {
                return finding;
            }
            let called = self.way.as_ref().filter(|_| finding.code == Code::NullCall).and_then(|way| way.site);
            if let Some((site, empty)) = called.and_then(|site| Some((site, EmptyEntry::called(site, self.case)?))) {
                return empty.added_to(finding, site, self.case);
            }
            let before = finding.claim.len();
            let finding = self.with_index(self.with_protection(finding), graph);
            let is_unknown = finding.claim.len() == before && self.is_of_pointer();
            // The address that is recorded may be that of the word in which an access begins.
            let own = self.place.and_then(|place| place.effect).and_then(Effect::address);
            let values = self.accessed().into_iter().chain(own).filter(|_| is_unknown);
            return finding.with_block_of(values, self.own_stack(), self.case, graph);
        };
        let is_null = self.accessed().is_some_and(|at| at < NULL) && self.way.is_none();
        // A local variable is a copy, as an argument in code without optimisation.
        let copied = local.filter(|_| !is_brought && !pointer.is_of_message).map(|_| pointer.value);
        let finding = pointer.added_to(finding, self.case).behind(is_null.then_some(Behind::NoMemory));
        let finding = finding.with_block_of(copied, self.own_stack(), self.case, graph);
        match local.filter(|_| copied.is_some()) {
            Some(word) => self.with_sent_local(finding, word),
            None => finding,
        }
    }

    /// The thread, and the part of its stack that is in use.
    fn own_stack(&self) -> Option<(Addr, Option<Region>)> {
        let thread = self.thread?;
        let from = self.place.and_then(|place| place.registers.sp()).filter(|sp| thread.stack.holds(*sp));
        let len = from.and_then(|from| thread.stack.end()?.checked_sub(from));
        Some((thread.address, from.zip(len).map(|(start, len)| Region { start, len })))
    }

    /// The arrays behind whose last element the access failed, where it was one to memory that the program has.
    fn arrays_in_front(&self, code: Code) -> Vec<ArrayMember> {
        let is_access =
            matches!(code, Code::MemFault | Code::BusFault) && self.way.is_none() && self.before().is_none();
        let at = self.accessed().filter(|_| is_access && self.stack().is_none());
        at.map(|at| arrays::in_front(at, self.case)).unwrap_or_default()
    }

    /// The functions where it failed, the innermost first.
    fn functions(&self) -> &[Function] {
        match (self.place, &self.cpu.failed) {
            (Some(place), _) => &place.functions,
            (None, Some(failed)) if failed.functions.is_empty() => std::slice::from_ref(&failed.function),
            (None, Some(failed)) => &failed.functions,
            (None, None) => &[],
        }
    }

    /// Where the thread was when the trap came within whose handler this one came.
    fn outer(&self) -> Option<&Place> {
        self.cpu.failed.as_ref()?.outer.as_deref()
    }

    /// The fault before this one, to which the address belongs: a fetch of an instruction writes neither mmfar nor bfar (Armv7-M
    /// Architecture Reference Manual, B3.2.15).
    fn before(&self) -> Option<&FaultBit> {
        let first = self.bits().find(|bit| bit.kind.is_some())?;
        let is_fetch = matches!(first.name.as_str(), "IACCVIOL" | "IBUSERR");
        let has_address = |bit: &&FaultBit| matches!(bit.name.as_str(), "DACCVIOL" | "PRECISERR");
        self.bits().find(has_address).filter(|bit| is_fetch && bit.kind == first.kind)
    }
}

mod access;
mod chosen;
mod in_block;
mod index;
mod possible;
mod protection;
mod resumed;
mod riscv;
mod sent_local;
mod stack;
mod sure;
mod text;

#[cfg(test)]
mod tests;
