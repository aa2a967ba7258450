//! Where a Cortex-M was interrupted: the exceptions on the way of a backtrace, and frames that may be of one.

use super::{Backtrace, End, Origin, Unwinder};
use crate::abi::{Addr, Endian, Region};
use crate::bytes::Bytes;
use crate::cpu::{Pushed, Registers};
use crate::mem::Memory;

/// An exception of a Cortex-M that a backtrace comes to the end of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exit {
    /// Its number; `None` where it is not known.
    pub exception: Option<u32>,
    /// The value of `lr` that leads out of it.
    pub exc_return: u64,
    /// The main stack pointer as it began.
    pub main_pointer: Addr,
    /// Where the registers are that it pushed; `None` where that is not known, or what is there is none.
    pub frame: Option<Addr>,
    /// The registers of what it interrupted; without a frame those alone that a call keeps.
    pub registers: Registers,
}

/// The bit of an EXC_RETURN: the frame is on the process stack.
const PROCESS_STACK: u64 = 1 << 2;
/// No floating-point registers are in the frame.
const NO_FLOATS: u64 = 1 << 4;

impl Exit {
    /// True where what it pushed is on the process stack: it interrupted a thread.
    pub const fn is_on_process_stack(&self) -> bool {
        self.exc_return & PROCESS_STACK != 0
    }

    /// True where the frame has room for floating-point registers.
    pub const fn has_floats(&self) -> bool {
        self.exc_return & NO_FLOATS == 0
    }
}

/// Where to look for what an exception pushed.
pub struct Search<'a> {
    /// The stack on which it may be, from the lowest address at which it may begin.
    pub on: Region,
    /// The stacks of the thread that was interrupted.
    pub stacks: &'a [Region],
    /// The functions of which one has to be among the callers.
    pub begins_in: &'a [Region],
    /// Registers that the handler kept; as far as they are known.
    pub kept: Registers,
    /// Whether the frame has room for floating-point registers; `None` where that is not known.
    pub floats: Option<bool>,
    /// The exception is one that a call of a wrong address causes.
    pub wrong_call: bool,
    /// The processor says that it was not in Thumb state: what it pushed has that bit clear.
    pub lost_thumb: bool,
}

impl Search<'_> {
    /// The end of the stack, from an address at which a frame may begin.
    fn bytes(&self, memory: &mut dyn Memory) -> Option<(Addr, Bytes)> {
        let end = self.on.start.saturating_add(self.on.len);
        let start = self.on.start.max(end.saturating_sub(MAX_BYTES)).saturating_add(7) & !7;
        let len = end.checked_sub(start).and_then(|len| usize::try_from(len).ok())?;
        memory.read_bytes(start, len).ok().map(|bytes| (start, bytes))
    }
}

/// What may be the frame of an exception.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Where it begins.
    pub frame: Addr,
    /// The registers of what was interrupted.
    pub registers: Registers,
    /// Its callers.
    pub backtrace: Backtrace,
}

/// The most bytes of a stack that are looked at, from its end down.
const MAX_BYTES: u64 = 64 << 10;
/// The most places whose callers are looked for.
const MAX_TRIED: usize = 64;
/// The most candidates.
const MAX_FOUND: usize = 3;
/// So many bytes a frame pointer may be above the stack pointer in code of GCC, which sets it below all local variables.
const FRAME_POINTER: [u64; 6] = [0, 4, 8, 12, 16, 24];
/// LLVM sets it above them, to where the one of the caller is saved, with the return address behind it: so many bytes are looked at.
const RECORD: u64 = 512;
/// The most such places that are tried.
const MAX_RECORDS: usize = 4;
/// `xpsr`: Thumb state.
const THUMB: u64 = 1 << 24;
/// Bytes of a frame without floating-point registers.
const BASIC: u64 = 32;
/// Bytes of the floating-point registers in one.
const FLOATS: u64 = 72;

impl Unwinder<'_> {
    /// Frames on a stack that have a pc of the program, a status register of a thread, a return address in lr, and callers up
    /// to the function in which the thread began. That which is highest is the first: what an interrupt pushed that is
    /// over is below the stack pointer, and mostly lower than what was pushed last.
    pub fn candidates(&self, search: &Search<'_>, memory: &mut dyn Memory) -> Vec<Candidate> {
        let Some((start, bytes)) = search.bytes(memory) else { return Vec::new() };
        let (mut found, mut tried) = (Vec::new(), 0_usize);
        let places: Vec<Addr> = (start..).step_by(8).zip((0..bytes.len()).step_by(8)).map(|(at, _)| at).collect();
        self.read_calls(&bytes, search.wrong_call, memory);
        for at in places.into_iter().rev() {
            let offset = at.checked_sub(start).and_then(|offset| usize::try_from(offset).ok()).unwrap_or_default();
            let Some(pushed) = bytes.get(offset..).and_then(|rest| Pushed::of(rest, self.endian)) else { continue };
            let contradicts = search.lost_thumb && !pushed.has_lost_thumb();
            if contradicts || !self.may_be_pushed(&pushed, search.wrong_call, memory) {
                continue;
            }
            tried = tried.saturating_add(1);
            if tried > MAX_TRIED || found.len() >= MAX_FOUND {
                break;
            }
            found.extend(self.candidate(at, &pushed, search, memory));
        }
        // Words that are 0 look like a call of 0. One that went through a register that holds the same is no chance: at such an
        // address there is only the fault, and frames below it are left over.
        let calls: Vec<bool> = found.iter().map(|one| self.has_called(&one.registers, memory)).collect();
        if calls.contains(&true) {
            let mut calls = calls.into_iter();
            found.retain(|_| calls.next() == Some(true));
        } else if found.iter().any(|candidate| self.is_in_code(candidate)) {
            found.retain(|candidate| self.is_in_code(candidate) || is_call_of_thumb(&candidate.registers));
        }
        found
    }

    /// Frames with a pc that is no code, the status register of a thread, and a return address in lr: of a function whose own return
    /// address was overwritten. Its callers are not known.
    pub fn wrong_returns(&self, search: &Search<'_>, memory: &mut dyn Memory) -> Vec<Candidate> {
        let Some((start, bytes)) = search.bytes(memory) else { return Vec::new() };
        self.read_calls(&bytes, true, memory);
        let places = (start..).step_by(8).zip((0..bytes.len()).step_by(8));
        let mut found: Vec<(Addr, Pushed)> = places
            .filter_map(|(at, offset)| Some((at, Pushed::of(bytes.get(offset..)?, self.endian)?)))
            .filter(|(_, pushed)| pushed.pc != 0 && self.code.holds(pushed.pc) == Some(false))
            .filter(|(_, pushed)| !search.lost_thumb || pushed.has_lost_thumb())
            .filter(|(_, pushed)| self.may_be_pushed(pushed, true, memory))
            .collect();
        found.truncate(MAX_FOUND);
        let candidate = |(at, pushed): (Addr, Pushed)| {
            let size = if search.floats == Some(true) { BASIC.saturating_add(FLOATS) } else { BASIC };
            let registers = pushed.registers(&search.kept, Some(at.checked_add(size)?));
            let frame = super::Frame { pc: pushed.pc, is_next: true, origin: Origin::Registers };
            let end = End::NotCode(pushed.pc);
            Some(Candidate {
                frame: at,
                registers,
                backtrace: Backtrace { frames: vec![frame], end, callers: Vec::new() },
            })
        };
        found.into_iter().filter_map(candidate).collect()
    }

    /// True where pc is no code, and lr is behind a call through a register that holds pc: BLX (Armv7-M Architecture Reference
    /// Manual, A7.7.19).
    fn has_called(&self, registers: &Registers, memory: &mut dyn Memory) -> bool {
        let (Some(pc), Some(lr)) = (registers.pc(), registers.lr()) else { return false };
        if self.code.holds(pc) == Some(true) && pc != 0 || self.return_to(lr, memory).is_none() {
            return false;
        }
        let before = (lr & !1).checked_sub(2).and_then(|at| memory.read_bytes(at, 2).ok());
        before.and_then(|bytes| Endian::Little.u16(&bytes, 0)).is_some_and(|call| calls(call, pc, registers))
    }

    /// Reads what is before the return addresses that are looked at, in one batch: over a link each read takes time.
    fn read_calls(&self, bytes: &[u8], wrong_call: bool, memory: &mut dyn Memory) {
        let pushed = (0..bytes.len()).step_by(8).filter_map(|at| Pushed::of(bytes.get(at..)?, self.endian));
        let asked = pushed.filter(|pushed| wrong_call && !self.is_placed(pushed));
        let state = asked.filter(|pushed| pushed.is_of_thread() || pushed.has_lost_thumb());
        let calls: Vec<(Addr, usize)> = state.filter_map(|pushed| self.call_before(pushed.lr)).collect();
        drop(memory.read_batch(&calls));
    }

    /// True for what interrupted a thread within the program's code.
    fn is_placed(&self, pushed: &Pushed) -> bool {
        pushed.is_of_thread() && pushed.pc & 1 == 0 && self.code.holds(pushed.pc) == Some(true)
    }

    fn is_in_code(&self, candidate: &Candidate) -> bool {
        candidate.registers.pc().is_some_and(|pc| pc != 0 && self.code.holds(pc) == Some(true))
    }

    /// By the words alone.
    fn may_be_pushed(&self, pushed: &Pushed, wrong_call: bool, memory: &mut dyn Memory) -> bool {
        // A function that has saved its return address uses lr for anything.
        if self.is_placed(pushed) {
            return true;
        }
        let may_be = pushed.is_of_thread() || pushed.has_lost_thumb();
        wrong_call && may_be && self.return_to(pushed.lr, memory).is_some()
    }

    /// With the callers.
    fn candidate(&self, at: Addr, pushed: &Pushed, search: &Search<'_>, memory: &mut dyn Memory) -> Option<Candidate> {
        let sizes: &[u64] = match search.floats {
            Some(true) => &[BASIC + FLOATS],
            Some(false) => &[BASIC],
            None => &[BASIC, BASIC + FLOATS],
        };
        sizes.iter().find_map(|size| {
            let registers = pushed.registers(&search.kept, Some(at.checked_add(*size)?));
            let backtrace = self.callers(pushed, &registers, search, memory)?;
            Some(Candidate { frame: at, registers, backtrace })
        })
    }

    /// What the frame pointer of Thumb code may be in a function with this stack pointer.
    pub(super) fn frame_pointers(&self, sp: Addr, stacks: &[Region], memory: &mut dyn Memory) -> Vec<Addr> {
        let mut all: Vec<Addr> = FRAME_POINTER.iter().map(|above| sp.wrapping_add(*above)).collect();
        let Some(stack) = stacks.iter().find(|stack| stack.contains(sp)) else { return all };
        let end = stack.start.saturating_add(stack.len);
        let len = end.saturating_sub(sp).min(RECORD);
        let Some(bytes) = usize::try_from(len).ok().and_then(|len| memory.read_bytes(sp, len).ok()) else { return all };
        let word = |offset: usize| self.endian.u32(&bytes, offset).map(Addr::from);
        let is_record = |(at, offset): &(Addr, usize)| {
            let (Some(outer), Some(back)) = (word(*offset), offset.checked_add(4).and_then(word)) else { return false };
            (at.saturating_add(1)..end).contains(&outer) && back & 1 == 1 && self.code.holds(back & !1) == Some(true)
        };
        let places = (sp..).step_by(4).zip((0..bytes.len()).step_by(4));
        all.extend(places.filter(is_record).map(|(at, _)| at).take(MAX_RECORDS));
        all
    }

    /// The callers up to the thread's entry; `None` where they do not lead there.
    fn callers(
        &self,
        pushed: &Pushed,
        registers: &Registers,
        search: &Search<'_>,
        memory: &mut dyn Memory,
    ) -> Option<Backtrace> {
        let wrong = pushed.has_lost_thumb() || self.code.holds(pushed.pc) != Some(true);
        let mut start = registers.clone();
        if wrong {
            start.set("pc", pushed.lr & !1);
            start.set("xpsr", pushed.xpsr | THUMB);
        }
        let begins = |frame: &super::Frame| search.begins_in.iter().any(|entry| entry.contains(frame.address()));
        let leads_there = |all: &Backtrace| {
            let entry = all.frames.iter().position(begins);
            let calls = entry.and_then(|entry| all.frames.get(..=entry));
            ends(all) && calls.is_some_and(|calls| calls.iter().skip(1).all(|frame| frame.origin.is_caller()))
        };
        let own = self.backtrace(&start, search.stacks, memory);
        let mut found = Some(own).filter(leads_there);
        if found.is_none() && search.kept.get("r7").is_none() {
            // Of a wrong frame pointer the callers do not fit.
            let pointers = self.frame_pointers(registers.sp()?, search.stacks, memory);
            found = pointers.into_iter().find_map(|pointer| {
                start.set("r7", pointer);
                Some(self.backtrace(&start, search.stacks, memory)).filter(leads_there)
            });
        }
        let mut backtrace = found?;
        if wrong {
            let first = backtrace.frames.first_mut()?;
            (first.is_next, first.origin) = (false, Origin::Found);
            backtrace.frames.insert(0, super::Frame { pc: pushed.pc, is_next: true, origin: Origin::Registers });
        }
        Some(backtrace)
    }
}

/// True where a jump went to an address that is not 0, in Thumb state: words of another kind hardly look like that.
fn is_call_of_thumb(registers: &Registers) -> bool {
    registers.pc().is_some_and(|pc| pc != 0) && registers.get("xpsr").is_some_and(|xpsr| xpsr & THUMB != 0)
}

/// True for a call through a register that holds an address: BLX.
fn calls(call: u16, pc: Addr, registers: &Registers) -> bool {
    let register = Some(call >> 3 & 0xF).filter(|_| call & 0xFF87 == 0x4780);
    let called = register.and_then(|register| registers.get(&format!("r{register}")));
    called.is_some_and(|called| called & !1 == pc & !1)
}

/// True where it is a thread's first function that has no caller.
fn ends(backtrace: &Backtrace) -> bool {
    matches!(backtrace.end, End::Entry | End::Outermost | End::NoCaller(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::Architecture;

    /// A frame that a tick had left was the place of a call through a null pointer: words that are 0 look like such a call.
    #[test]
    fn a_call_through_a_register_that_holds_pc_was_taken_for_zeros() {
        let mut registers = Registers::new(Architecture::CortexM);
        assert!(registers.set("r3", 0) && registers.set("r2", 0x2000_0101));
        assert!(calls(0x4798, 0, &registers), "blx r3");
        assert!(calls(0x4790, 0x2000_0100, &registers), "blx r2, in data");
        assert!(!calls(0x4790, 0, &registers), "r2 is not 0");
        assert!(!calls(0x47A0, 0, &registers), "r4 is not known");
        assert!(!calls(0x4718, 0, &registers), "bx r3");
    }
}
