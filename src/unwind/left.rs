//! What exceptions left on a stack of a Cortex-M, where no register leads to it. An interrupt that is over leaves the same
//! words as a fault, so this finds these alone: frames that no interrupt leaves, as their pc is no code, or the instruction there can only
//! fail; and on the main stack those of exceptions that came upon an exception.

use super::{Backtrace, Candidate, End, Frame, Origin, Unwinder, is_exc_return, is_on_process_stack};
use crate::abi::{Addr, Endian, Region};
use crate::cpu::{Architecture, Pushed, Registers};
use crate::mem::Memory;

/// The most bytes of a stack that are looked at, from its end down.
const MAX_BYTES: u64 = 8 << 10;
/// The most frames of one stack, and the most that are tried: callers are looked for of each.
const MAX_FOUND: usize = 16;
const MAX_TRIED: usize = 128;
/// `xpsr`: the flags, Thumb state, that a word was skipped to align the stack, the comparison bits of a DSP, and the number
/// of the exception. What a jump leads to is in no block of conditional instructions.
const AFTER_JUMP: u64 = 0xF900_0000 | 1 << 9 | 0xF_0000 | EXCEPTION;
/// `xpsr`: the number of the exception.
const EXCEPTION: u64 = 0x1FF;
/// `xpsr`: the flags; that a word was skipped.
const FLAGS: u64 = 0xF800_0000;
const SKIPPED: u64 = 1 << 9;
/// `xpsr`: Thumb state.
const THUMB: u64 = 1 << 24;
/// Bytes of a frame without floating-point registers, and of those in one.
const SIZES: [u64; 2] = [32, 32 + 72];

/// Which stack is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum On {
    /// That of a thread.
    Thread,
    /// That of exceptions.
    Main,
}

/// Where to look.
pub struct Place<'a> {
    /// Which stack it is.
    pub on: On,
    /// From its lowest address.
    pub stack: Region,
    /// All stacks of the thread that runs.
    pub stacks: &'a [Region],
    /// True for an address at which the program has code.
    pub is_code: &'a dyn Fn(Addr) -> bool,
    /// True for registers with which the instruction at their pc can only fail.
    pub fails: &'a dyn Fn(&Registers, &mut dyn Memory) -> bool,
    /// True for the number of an exception that has a handler of its own.
    pub is_handled: &'a dyn Fn(u32) -> bool,
}

impl Unwinder<'_> {
    /// Frames on a stack, those at the highest addresses first.
    pub fn left(&self, place: &Place<'_>, memory: &mut dyn Memory) -> Vec<Candidate> {
        let end = place.stack.start.saturating_add(place.stack.len);
        let start = place.stack.start.max(end.saturating_sub(MAX_BYTES)).saturating_add(7) & !7;
        let Some(bytes) = end.checked_sub(start).and_then(|len| usize::try_from(len).ok()) else { return Vec::new() };
        let Ok(bytes) = memory.read_bytes(start, bytes) else { return Vec::new() };
        let places: Vec<(Addr, usize)> = (start..end).step_by(8).zip((0..bytes.len()).step_by(8)).collect();
        let (mut found, mut tried) = (Vec::new(), 0_usize);
        for (at, offset) in places.into_iter().rev() {
            let Some(pushed) = bytes.get(offset..).and_then(|rest| Pushed::of(rest, self.endian)) else { continue };
            found.extend(self.left_at(at, &pushed, place, &mut tried, memory));
            if found.len() >= MAX_FOUND || tried >= MAX_TRIED {
                break;
            }
        }
        found
    }

    fn left_at(
        &self,
        at: Addr,
        pushed: &Pushed,
        place: &Place<'_>,
        tried: &mut usize,
        memory: &mut dyn Memory,
    ) -> Option<Candidate> {
        let in_code = (place.is_code)(pushed.pc);
        let (is_whole, has_lost_thumb) = match place.on {
            On::Thread => (pushed.is_of_thread(), pushed.has_lost_thumb()),
            On::Main => (pushed.is_of_exception(), pushed.is_of_handler_without_thumb()),
        };
        if is_whole && in_code {
            *tried = tried.saturating_add(usize::from(place.on == On::Main));
            return match place.on {
                On::Main => Some(self.within_exception(at, pushed, memory)),
                On::Thread => Self::failed_in_code(at, pushed, place, memory),
            };
        }
        if pushed.xpsr & !AFTER_JUMP != 0 || !is_whole && !has_lost_thumb {
            return None;
        }
        // Addresses of RAM look like a status register without Thumb state.
        let number = u32::try_from(pushed.xpsr & EXCEPTION).unwrap_or_default();
        let is_handled = place.on == On::Thread || (place.is_handled)(number);
        // An exception that was just entered has called nothing; above its stack pointer is what it pushed.
        if is_exc_return(pushed.lr) {
            let mut entered = || {
                Pushed::read(memory, at.checked_add(SIZES[0])?, self.endian)
                    .filter(|above| (above.is_of_thread() || above.is_of_exception()) && (place.is_code)(above.pc))
            };
            let may_be = place.on == On::Main && !in_code && !is_on_process_stack(pushed.lr);
            let is_entry = may_be && is_handled && entered().is_some();
            return is_entry.then(|| self.jumped(at, pushed, place, memory).0);
        }
        let Some(behind) = self.return_to(pushed.lr, memory) else {
            // After a return to a damaged address lr may be anything.
            let is_nowhere = |memory: &mut dyn Memory| pushed.pc != 0 && memory.read_bytes(pushed.pc, 2).is_err();
            let is_sure = is_whole && pushed.xpsr & FLAGS != 0 && pushed.xpsr & !(FLAGS | THUMB | SKIPPED) == 0;
            return (is_sure && is_nowhere(memory)).then(|| self.jumped(at, pushed, place, memory).0);
        };
        *tried = tried.saturating_add(1);
        let (found, leads_back) = self.jumped(at, pushed, place, memory);
        if is_whole {
            return (!in_code && is_handled).then_some(found);
        }
        // Small numbers, and addresses of RAM, look like the status register of an exception without Thumb state: so the call
        // has to fit there.
        let is_call = match self.register_of_call(behind, memory)?.as_str() {
            _ if place.on == On::Thread => true,
            name @ ("r0" | "r1" | "r2" | "r3" | "r12") => found.registers.get(name).is_some_and(|to| to == pushed.pc),
            _ => is_handled,
        };
        (is_call && leads_back).then_some(found)
    }

    /// A frame of a thread at an instruction that can only fail. Where its callers are known, another search finds it.
    fn failed_in_code(at: Addr, pushed: &Pushed, place: &Place<'_>, memory: &mut dyn Memory) -> Option<Candidate> {
        let registers = pushed.registers(&Registers::new(Architecture::CortexM), at.checked_add(SIZES[0]));
        let first = Frame { pc: pushed.pc, is_next: true, origin: Origin::Registers };
        let backtrace = Backtrace { frames: vec![first], end: End::NoRegisters, callers: Vec::new() };
        (place.fails)(&registers, memory).then_some(Candidate { frame: at, registers, backtrace })
    }

    /// What an exception interrupted in the code of another.
    fn within_exception(&self, at: Addr, pushed: &Pushed, memory: &mut dyn Memory) -> Candidate {
        let registers = pushed.registers(&Registers::new(Architecture::CortexM), at.checked_add(32));
        let backtrace = self.backtrace(&registers, &[], memory);
        Candidate { frame: at, registers, backtrace }
    }

    /// Where a jump led out of the code: its callers are those of the link register, where these lead to the beginning. True
    /// where they do.
    fn jumped(&self, at: Addr, pushed: &Pushed, place: &Place<'_>, memory: &mut dyn Memory) -> (Candidate, bool) {
        let none = Registers::new(Architecture::CortexM);
        let first = Frame { pc: pushed.pc, is_next: true, origin: Origin::Registers };
        for size in SIZES {
            let registers = pushed.registers(&none, at.checked_add(size));
            let mut start = registers.clone();
            start.set("pc", pushed.lr & !1);
            start.set("xpsr", pushed.xpsr | THUMB);
            let pointers = registers.sp().map(|sp| self.frame_pointers(sp, place.stacks, memory)).unwrap_or_default();
            // Of a wrong frame pointer the callers do not fit.
            for pointer in std::iter::once(None).chain(pointers.into_iter().map(Some)) {
                pointer.map(|pointer| start.set("r7", pointer));
                let (mut backtrace, exits) = self.with_exits(&start, place.stacks, memory);
                let is_whole = match place.on {
                    On::Thread => backtrace.frames.len() > 1 && begins(&backtrace.end),
                    On::Main => !exits.is_empty(),
                };
                if let Some(caller) = backtrace.frames.first_mut().filter(|_| is_whole) {
                    (caller.is_next, caller.origin) = (false, Origin::Found);
                    backtrace.frames.insert(0, first);
                    return (Candidate { frame: at, registers, backtrace }, true);
                }
            }
        }
        let registers = pushed.registers(&none, at.checked_add(SIZES[0]));
        (
            Candidate {
                frame: at,
                registers,
                backtrace: Backtrace { frames: vec![first], end: End::NoRegisters, callers: Vec::new() },
            },
            false,
        )
    }

    /// The register that the call in front of an address goes through.
    fn register_of_call(&self, behind: Addr, memory: &mut dyn Memory) -> Option<String> {
        let bytes = behind.checked_sub(2).and_then(|at| memory.read_bytes(at, 2).ok())?;
        // Code of a Cortex-M is little-endian.
        let word = Endian::Little.u16(&bytes, 0).filter(|word| word & 0xFF87 == 0x4780)?;
        Some(format!("r{}", word >> 3 & 0xF))
    }
}

/// True where a backtrace comes to the first function of a thread.
const fn begins(end: &End) -> bool {
    matches!(end, End::Entry | End::Outermost | End::NoCaller(_))
}
