//! What an exception of a Cortex-M interrupted; where that is a fault, the place of the crash.
//!
//! The place is certain where the registers show which stack the exception pushed to, and where on it. Where PSP is not
//! known, frames that may be the exception's are offered, and used for nothing else: each interrupt that is over leaves one
//! below the stack pointer.

mod kept;

use std::cell::OnceCell;

use super::cpus::{exception, exception_name};
use super::{Above, Kernel, Thread, Under};
use crate::abi::{Addr, Region};
use crate::cpu::{Architecture, Level, Origin, Pushed, Registers, is_fault, is_fault_of_state};
use crate::mem::Memory;
use crate::sym::Symbols;
use crate::unwind::{Backtrace, End, Exit, Search, Unwinder, is_exc_return, leads_to_handler, main_stack_at};

/// How a place was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FoundBy {
    /// What the exception pushed is at PSP.
    ProcessStack,
    /// It is on the main stack, where the handler's own frames end.
    MainStack,
    /// It looks like what an exception pushes.
    Search,
}

impl FoundBy {
    /// Its name in output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ProcessStack => "psp",
            Self::MainStack => "msp",
            Self::Search => "candidate",
        }
    }
}

/// A place that an exception interrupted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interruption {
    /// Where the registers are that the exception pushed.
    pub frame: Addr,
    /// How it was found.
    pub found: FoundBy,
    /// The registers before the exception, as far as they are known.
    pub registers: Registers,
    /// The exception that was interrupted, in words; `None` for a thread.
    pub within: Option<String>,
    /// The functions there, the innermost first.
    pub backtrace: Backtrace,
}

impl Interruption {
    /// The number of the exception that was interrupted; `None` for a thread.
    pub fn in_exception(&self) -> Option<u32> {
        match self.registers.level() {
            Level::Exception(number) => Some(number),
            _ => None,
        }
    }
}

/// What was interrupted by the exception that a CPU is in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interrupted {
    /// The core.
    pub core: usize,
    /// The number of the exception; `None` where it is not known.
    pub exception: Option<u32>,
    /// What the architecture or the vector table calls it.
    pub name: Option<String>,
    /// The exception in words.
    pub by: String,
    /// The thread below all exceptions.
    pub thread: Option<Addr>,
    /// Its registers, where the way to it is certain.
    pub registers: Option<Registers>,
    /// One place where that is certain; else those that may be it, the most likely first.
    pub places: Vec<Interruption>,
    /// True where the place is certain.
    pub is_certain: bool,
    /// What a reader has to know of it, in words.
    pub remarks: Vec<String>,
}

impl Interrupted {
    /// True where the exception is a fault.
    pub fn is_crash(&self) -> bool {
        self.exception.is_some_and(is_fault)
    }

    /// The place, where it is certain.
    pub fn certain(&self) -> Option<&Interruption> {
        self.places.first().filter(|_| self.is_certain)
    }
}

/// The most bytes of the main stack that are looked at.
const MAIN: usize = 4096;
/// The fewest that are read at a time: where the main stack ends is not known.
const STEP: usize = 64;
/// The most frames on it.
const MAX_ON_MAIN: usize = 3;
/// Why a place is not certain where psp leads to none.
const NESTED: &str =
    "psp leads to no place: that the exception interrupted another one is inferred from the bytes on the main stack";
/// `icsr`: no exception is active beside that which runs.
const RETURNS_TO_BASE: u64 = 1 << 11;
/// `shcsr`: the handlers that are active, by bit and number of the exception (Armv7-M Architecture Reference Manual, B3.2.13). Where a
/// processor has no such bit it is 0.
const ACTIVE: [(u64, u32); 7] = [(0, 4), (1, 5), (3, 6), (7, 11), (8, 12), (10, 14), (11, 15)];
/// The number of the first interrupt of the chip, and where its controller shows which are active (B3.4.7).
const FIRST_INTERRUPT: u32 = 16;
const IABR: (Addr, usize) = (0xE000_E300, 64);
/// `cfsr`: an instruction could not be read (IACCVIOL, IBUSERR), or was to run without Thumb state (INVSTATE).
const WRONG_CALL: u64 = 1 | 1 << 8 | 1 << 17;
/// `cfsr`: the processor was not in Thumb state, and nothing else.
const INVSTATE: u64 = 1 << 17;
/// Bytes of a frame without floating-point registers.
const BASIC: u64 = 32;

impl Kernel {
    /// True where a CPU is in an exception, or that is not known.
    pub fn may_be_interrupted(&self) -> bool {
        let may = |above: &Above| matches!(above, Above::Exception(..) | Above::Unknown);
        self.processor == Some(Architecture::CortexM) && self.cpus.iter().any(|cpu| may(&cpu.above))
    }

    /// Finds what the exceptions interrupted that CPUs are in.
    pub fn find_interrupted(
        &self,
        memory: &mut dyn Memory,
        unwinder: &Unwinder<'_>,
        symbols: &dyn Symbols,
    ) -> Vec<Interrupted> {
        let found = (0..self.cpus.len()).filter_map(|core| self.interrupted_on(core, memory, unwinder, symbols));
        found.collect()
    }

    /// Keeps them. Where one shows it, the exception that interrupted a thread is named.
    pub fn take_interrupted(&mut self, found: Vec<Interrupted>) {
        self.interrupted = found;
        self.name_exceptions();
    }

    fn interrupted_on(
        &self,
        core: usize,
        memory: &mut dyn Memory,
        unwinder: &Unwinder<'_>,
        symbols: &dyn Symbols,
    ) -> Option<Interrupted> {
        let cpu = self.cpus.get(core)?;
        let number = match &cpu.above {
            Above::Exception(number, _) => Some(*number),
            Above::Unknown => None,
            _ => return None,
        };
        let thread = match cpu.under {
            Under::Thread(at) => self.thread(at),
            _ => None,
        };
        let stacks: Vec<Region> = thread.into_iter().flat_map(Thread::stacks).collect();
        let entry = thread.and_then(|t| symbols.function(t.entry? & !1));
        let entry = entry.map(|s| Region { start: s.address & !1, len: s.size.max(1) });
        let none = Registers::new(Architecture::CortexM);
        let registers = self.registers_of_core(core).unwrap_or(&none);
        let look =
            Look { thread, number, registers, stacks, entry: entry.as_slice(), unwinder, active: OnceCell::new() };
        let mut found = look.find(memory)?;
        found.core = core;
        for place in &mut found.places {
            let name = |number| exception(number, exception_name(number, symbols).as_deref());
            place.within = place.in_exception().map(name);
        }
        found.name = found.exception.and_then(|number| exception_name(number, symbols));
        found.by = match found.exception {
            Some(number) => exception(number, found.name.as_deref()),
            None => "an exception, which one is not known".to_owned(),
        };
        Some(found)
    }

    /// The thread is interrupted by the exception that interrupted it, not by a nested one.
    fn name_exceptions(&mut self) {
        for found in &self.interrupted {
            let within = found.certain().and_then(|place| place.within.as_ref());
            let (Some(own), Some(thread)) = (within, found.thread) else { continue };
            let Some(thread) = self.threads.iter_mut().find(|t| t.address == thread) else { continue };
            if let Some(rest) = thread.position.how.strip_prefix(&format!("interrupted by {}", found.by)) {
                thread.position.how = format!("interrupted by {own}{rest}");
            }
        }
    }
}

/// Where to look on one core.
struct Look<'a> {
    thread: Option<&'a Thread>,
    /// The exception that the CPU is in.
    number: Option<u32>,
    registers: &'a Registers,
    /// The thread's.
    stacks: Vec<Region>,
    /// The function in which the thread began.
    entry: &'a [Region],
    unwinder: &'a Unwinder<'a>,
    /// What [`active_interrupts`] reads.
    active: OnceCell<Vec<u32>>,
}

/// A bit for each interrupt of the chip whose handler is active, from the first on; empty where that is not known. They are read
/// only of what is known to be a Cortex-M, which changes nothing, and only where they decide: it is a round trip of its own.
fn active_interrupts(registers: &Registers, memory: &mut dyn Memory) -> Vec<u32> {
    let bytes = registers.get("cpuid").filter(|_| !memory.changes());
    let bytes = bytes.and_then(|_| memory.read_bytes(IABR.0, IABR.1).ok());
    let word = |four: &[u8]| four.try_into().map_or(0, u32::from_le_bytes);
    bytes.map_or_else(Vec::new, |bytes| bytes.as_slice().chunks_exact(4).map(word).collect())
}

/// A bit of several words.
fn is_set(words: &[u32], bit: u32) -> bool {
    let word = usize::try_from(bit / 32).ok().and_then(|word| words.get(word));
    word.is_some_and(|word| word >> (bit % 32) & 1 == 1)
}

impl Look<'_> {
    fn find(&self, memory: &mut dyn Memory) -> Option<Interrupted> {
        let (backtrace, exits) = self.unwinder.with_exits(self.registers, &self.stacks, memory);
        let of_fault = exits.iter().find(|exit| exit.exception.is_some_and(is_fault));
        if let Some(exit) = of_fault.or(exits.first()) {
            let mut found = self.by_exit(exit, &backtrace.end, memory)?;
            let last = exits.iter().find(|exit| exit.is_on_process_stack() && exit.frame.is_some());
            found.registers = last.filter(|_| found.is_certain).map(|exit| {
                let mut registers = exit.registers.clone();
                registers.complete_thread(self.registers);
                registers
            });
            return Some(found);
        }
        match self.registers.get("psp").filter(|_| !leads_to_handler(self.registers)) {
            Some(psp) => self.at_process_stack(psp, memory),
            None => self.by_search(None, memory),
        }
    }

    /// The handler's callers end at the exception: which stack it pushed to is known.
    fn by_exit(&self, exit: &Exit, end: &End, memory: &mut dyn Memory) -> Option<Interrupted> {
        let number = exit.exception.or(self.number);
        let psp = self.registers.get("psp").filter(|_| exit.is_on_process_stack());
        let Some(frame) = exit.frame.or(psp).or((!exit.is_on_process_stack()).then_some(exit.main_pointer)) else {
            return self.by_search(Some(exit), memory);
        };
        let doubt = self.registers.frame_doubt(frame);
        let mut found = self.none(number);
        found.remarks = if number.is_some_and(is_fault) { doubt.words() } else { Vec::new() };
        if exit.frame.is_none() {
            found.remarks.push(end.to_string());
        } else if found.remarks.is_empty() || doubt.not_written.is_empty() {
            let by = if exit.is_on_process_stack() { FoundBy::ProcessStack } else { FoundBy::MainStack };
            found.places.push(self.place(frame, by, exit.registers.clone(), memory));
            found.is_certain = true;
        }
        Some(found)
    }

    /// No unwind information leads through the handler, and PSP is known.
    fn at_process_stack(&self, psp: Addr, memory: &mut dyn Memory) -> Option<Interrupted> {
        let mut found = self.none(self.number);
        let on_main = self.on_main_stack(memory);
        let to_base = self.registers.get("icsr").is_some_and(|icsr| icsr & RETURNS_TO_BASE != 0);
        let own = self.thread.and_then(|t| t.position.registers.as_ref());
        // The frame was checked as the thread was placed.
        let Some(own) = own.filter(|own| own.level() == Level::Thread || self.called_wrong_address(own)) else {
            found.remarks = self.registers.frame_doubt(psp).words();
            if found.is_crash() && found.remarks.is_empty() && !to_base {
                found.places = self.all_nested(on_main.unwrap_or_default(), memory);
                found.remarks.extend((!found.places.is_empty()).then(|| NESTED.to_owned()));
            }
            return (!found.remarks.is_empty() && found.is_crash()).then_some(found);
        };
        let pushed = Pushed::read(memory, psp, self.unwinder.endian)?;
        let above = self.floats().map(|size| psp.wrapping_add(BASIC).wrapping_add(size));
        let mut registers = pushed.registers(&Registers::new(Architecture::CortexM), above);
        if above.is_none() {
            own.sp().map(|sp| registers.set_from(Origin::Inferred, "sp", sp));
        }
        found.places.push(self.place(psp, FoundBy::ProcessStack, registers, memory));
        if found.is_crash() && self.is_within_another(memory) {
            let nested = on_main.unwrap_or_default();
            found.is_certain = matches!(nested.as_slice(), [(_, pushed)] if self.entered_wrong(pushed, memory));
            found.places = nested.iter().filter_map(|(at, pushed)| self.nested(*at, pushed, memory)).collect();
            if !found.is_certain {
                found.remarks.push(
                    "another exception was active before (shcsr, NVIC_IABR): it did not interrupt the thread"
                        .to_owned(),
                );
            }
            return Some(found);
        }
        found.is_certain = self.number.is_some() && (to_base || on_main.as_ref().is_some_and(Vec::is_empty));
        if !found.is_certain {
            let why = match self.number {
                None => "that there was an exception is inferred from the bytes at psp",
                Some(_) => "whether the exception interrupted the thread or another exception is not known",
            };
            found.remarks.push(why.to_owned());
            found.places.splice(0..0, self.all_nested(on_main.unwrap_or_default(), memory));
        }
        Some(found)
    }

    /// Neither a stack pointer nor unwind information points to it.
    fn by_search(&self, exit: Option<&Exit>, memory: &mut dyn Memory) -> Option<Interrupted> {
        let number = exit.map_or(self.number, |exit| exit.exception.or(self.number));
        let mut found = self.none(number);
        let is_on_main = exit.map_or_else(|| leads_to_handler(self.registers), |exit| !exit.is_on_process_stack());
        if let Some(place) = self.kept(exit, memory).filter(|_| number.is_some() && !is_on_main) {
            found.places.push(place);
            let why = "PSP is not known (--reg psp=N): the frame is the one that has r0 to r3 and r12 of the CPU";
            found.remarks.push(why.to_owned());
            return Some(found);
        }
        let kept = exit.map_or_else(|| Registers::new(Architecture::CortexM), |exit| exit.registers.clone());
        for stack in self.stacks.iter().filter(|_| !is_on_main) {
            let search = Search {
                on: *stack,
                stacks: &self.stacks,
                begins_in: self.entry,
                kept: kept.clone(),
                floats: exit.map(Exit::has_floats),
                wrong_call: number.is_some_and(is_fault) && self.may_be_wrong_call(),
                lost_thumb: number.is_some_and(is_fault_of_state) && self.has_lost_thumb(),
            };
            let mut candidates = self.unwinder.candidates(&search, memory);
            if candidates.is_empty() && search.wrong_call && self.registers.get("cfsr").is_some() {
                candidates = self.unwinder.wrong_returns(&search, memory);
            }
            found.places.extend(candidates.into_iter().map(|c| Interruption {
                frame: c.frame,
                within: None,
                found: FoundBy::Search,
                registers: c.registers,
                backtrace: c.backtrace,
            }));
        }
        if exit.is_none() {
            let on_main = self.on_main_stack(memory).unwrap_or_default();
            found.places.splice(0..0, self.all_nested(on_main, memory));
        }
        if found.places.is_empty() {
            let why = if is_on_main {
                "lr points back to another exception, and no frame on the main stack fits"
            } else {
                "PSP is not known (--reg psp=N), and no frame on the stack fits"
            };
            found.remarks.push(why.to_owned());
            return number.is_some_and(is_fault).then_some(found);
        }
        found.remarks.push(
            match number {
                Some(_) => {
                    "PSP is not known (--reg psp=N): a candidate may be left over from an exception that is over"
                }
                None => "whether there was an exception is not known; if there was one, it may have pushed its registers here",
            }
            .to_owned(),
        );
        Some(found)
    }

    fn none(&self, exception: Option<u32>) -> Interrupted {
        Interrupted { exception, thread: self.thread.map(|t| t.address), ..Interrupted::default() }
    }

    /// A place with its callers.
    fn place(&self, frame: Addr, found: FoundBy, mut registers: Registers, memory: &mut dyn Memory) -> Interruption {
        match registers.level() {
            // An exception was interrupted: the process stack is as it was.
            Level::Exception(_) => {
                registers.sp().map(|sp| registers.set_from(Origin::Inferred, "msp", sp));
                self.registers.get("psp").map(|psp| registers.set_from(Origin::Inferred, "psp", psp));
            }
            _ => registers.complete_thread(self.registers),
        }
        let backtrace = self.unwinder.backtrace(&registers, &self.stacks, memory);
        Interruption { frame, found, registers, within: None, backtrace }
    }

    /// Those of the frames on the main stack that may be that of an exception within another.
    fn all_nested(&self, on_main: Vec<(Addr, Pushed)>, memory: &mut dyn Memory) -> Vec<Interruption> {
        on_main.into_iter().filter_map(|(at, pushed)| self.nested(at, &pushed, memory)).collect()
    }

    /// A frame on the main stack that may be that of an exception within another.
    fn nested(&self, at: Addr, pushed: &Pushed, memory: &mut dyn Memory) -> Option<Interruption> {
        let registers = pushed.registers(&Registers::new(Architecture::CortexM), at.checked_add(BASIC));
        let place = self.place(at, FoundBy::Search, registers, memory);
        let leads_out = match place.backtrace.end {
            End::StackPointer(_) | End::Entry | End::Outermost | End::NoCaller(_) => true,
            // The idle system: psp is where the last thread left it.
            End::OutsideStack(at) => self.thread.is_none() && self.registers.get("psp") == Some(at),
            _ => false,
        };
        (leads_out || self.unwinder.cfi.is_none() || self.entered_wrong(pushed, memory)).then_some(place)
    }

    /// What looks like the frame of an exception within another, on the main stack; `None` where that is not known or
    /// cannot be read.
    fn on_main_stack(&self, memory: &mut dyn Memory) -> Option<Vec<(Addr, Pushed)>> {
        let sp = self.registers.sp().filter(|sp| !self.stacks.iter().any(|stack| stack.contains(*sp)))?;
        let start = sp.checked_add(7)? & !7;
        let main = main_stack_at(start)?;
        let bytes = up_to(usize::try_from(main.len).unwrap_or(MAIN).min(MAIN), start, memory)?;
        let frames = (start..).step_by(8).zip((0..bytes.len()).step_by(8)).filter_map(|(at, offset)| {
            let pushed = Pushed::of(bytes.get(offset..)?, self.unwinder.endian)?;
            let in_code = |at: Addr| self.unwinder.code.holds(at) != Some(false);
            // Only where nothing else can have been: what a handler pushes may hold small numbers.
            let called_wrong = pushed.is_of_handler_without_thumb()
                && self.has_lost_thumb()
                && leads_to_handler(self.registers)
                && pushed.lr & 1 == 1
                && in_code(pushed.lr & !1);
            (pushed.is_of_exception() && in_code(pushed.pc) || called_wrong || self.entered_wrong(&pushed, memory))
                .then_some((at, pushed))
        });
        Some(frames.take(MAX_ON_MAIN).collect())
    }

    fn active(&self, memory: &mut dyn Memory) -> &[u32] {
        self.active.get_or_init(|| active_interrupts(self.registers, memory))
    }

    /// True where the handler of an exception is known to be active beside that in which the CPU is.
    fn is_active(&self, exception: u32, memory: &mut dyn Memory) -> bool {
        if let Some(irq) = exception.checked_sub(FIRST_INTERRUPT) {
            return self.number != Some(exception) && is_set(self.active(memory), irq);
        }
        let shcsr = self.registers.get("shcsr").unwrap_or(0);
        let bit = ACTIVE.iter().find(|(_, number)| *number == exception);
        self.number != Some(exception) && bit.is_some_and(|(bit, _)| shcsr >> bit & 1 == 1)
    }

    /// True for an exception that has called nothing, as its lr leads back to what it interrupted; its handler may be no code.
    fn entered_wrong(&self, pushed: &Pushed, memory: &mut dyn Memory) -> bool {
        pushed.is_of_exception() && is_exc_return(pushed.lr) && self.is_active(pushed.exception(), memory)
    }

    /// True where it is known that an exception was interrupted by that in which the CPU is.
    fn is_within_another(&self, memory: &mut dyn Memory) -> bool {
        let words = u32::try_from(self.active(memory).len()).unwrap_or(0);
        let last = FIRST_INTERRUPT.saturating_add(words.saturating_mul(32));
        let of_chip = (FIRST_INTERRUPT..last).any(|exception| self.is_active(exception, memory));
        of_chip || ACTIVE.iter().any(|(_, exception)| self.is_active(*exception, memory))
    }

    /// Bytes of the floating-point registers in a frame, where that is known.
    fn floats(&self) -> Option<u64> {
        let exc_return = self.registers.get("exc_return")?;
        Some(if exc_return & (1 << 4) == 0 { 72 } else { 0 })
    }

    /// False where the fault registers say that it was another fault.
    fn may_be_wrong_call(&self) -> bool {
        self.registers.get("cfsr").is_none_or(|cfsr| cfsr & WRONG_CALL != 0)
    }

    /// True where the fault registers record that alone.
    fn has_lost_thumb(&self) -> bool {
        self.registers.get("cfsr") == Some(INVSTATE)
    }

    fn called_wrong_address(&self, own: &Registers) -> bool {
        self.number.is_some_and(is_fault_of_state) && own.get("xpsr").is_some_and(|xpsr| xpsr & 0x1FF == 0)
    }
}

/// So many bytes, or those in front of the first that cannot be read; `None` where there are none. Over a link each read
/// takes time, and mostly the first has all.
fn up_to(most: usize, start: Addr, memory: &mut dyn Memory) -> Option<Vec<u8>> {
    let (mut bytes, mut len) = (Vec::new(), most);
    while len >= STEP {
        let at = start.checked_add(bytes.len() as u64)?;
        match memory.read_bytes(at, len) {
            Ok(more) => bytes.extend_from_slice(&more),
            Err(_) => len /= 2,
        }
        len = len.min(most.saturating_sub(bytes.len()));
    }
    (!bytes.is_empty()).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only the exceptions of SHCSR counted: no interrupt of the chip was ever active.
    #[test]
    fn an_interrupt_of_the_chip_that_is_active_was_not_seen() {
        let active = [1 << 4, 1 << 31];
        assert!(is_set(&active, 4) && is_set(&active, 63));
        assert!(!is_set(&active, 5) && !is_set(&active, 62));
        assert!(!is_set(&active, 64) && !is_set(&[], 0), "not known");
    }
}
