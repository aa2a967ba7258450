//! From an exception of a Cortex-M to what it interrupted.
//!
//! The processor pushes r0 to r3, r12, lr, pc and xpsr, and puts an EXC_RETURN into lr (Armv7-M Architecture Reference
//! Manual, B1.5; Armv8-M, B3.18 to B3.22). Bits of an EXC_RETURN: 2 the frame is on the process stack, 3 back to a thread,
//! 4 no floating-point registers are in the frame, 5 (Armv8-M) r4 to r11 are not in it.

use super::{End, Exit, Origin, Walk};
use crate::abi::{Addr, Region, Width};
pub use crate::cpu::is_exc_return;
use crate::cpu::{self, Architecture, Level, Registers};

/// The registers in the order in which they are pushed, by the numbers of debug information; the last is xpsr.
const PUSHED: [u16; 7] = [0, 1, 2, 3, 12, 14, 15];
/// Bytes of them with xpsr.
const BASIC: u64 = 32;
/// Bytes of s0 to s15, fpscr and a word unused.
const FLOATS: u64 = 72;
/// Bytes of a signature, a word unused and r4 to r11.
const ADDITIONAL: u64 = 40;
const SIGNATURE: u64 = 0xFEFA_125A;
/// `xpsr`: a word was skipped to align the stack.
const SKIPPED: u64 = 1 << 9;
const THUMB: u64 = 1 << 24;
const EXCEPTION: u64 = 0x1FF;

const PROCESS_STACK: u64 = 1 << 2;
const TO_THREAD: u64 = 1 << 3;
const NO_FLOATS: u64 = 1 << 4;
const NO_ADDITIONAL: u64 = 1 << 5;

/// True for an EXC_RETURN of an exception whose frame is on the process stack.
pub const fn is_on_process_stack(exc_return: u64) -> bool {
    exc_return & PROCESS_STACK != 0
}

/// True for the registers of an exception that interrupted another: no thread caused it. A value of this kind comes into
/// lr only as an exception begins.
pub fn leads_to_handler(registers: &Registers) -> bool {
    let is_m_profile = registers.architecture() == Architecture::CortexM;
    is_m_profile && registers.lr().is_some_and(|lr| is_exc_return(lr) && lr & (TO_THREAD | PROCESS_STACK) == 0)
}

/// The most bytes of the main stack that are read: nothing says where it ends.
const MAIN: u64 = 64 << 10;
/// Where memory is, by the address map of the architecture (Armv7-M, B3.1): code, SRAM and external RAM. All else is of
/// devices, and reading it may change them.
const MEMORY: [Region; 2] = [Region { start: 0, len: 0x4000_0000 }, Region { start: 0x6000_0000, len: 0x4000_0000 }];

/// The main stack, where `registers` are those of an exception on it. A thread whose stack pointer left its stack is in no
/// exception.
pub(super) fn main_stack(registers: &Registers) -> Option<Region> {
    let sp = registers.sp().filter(|_| registers.architecture() == Architecture::CortexM)?;
    let in_exception = match registers.level() {
        Level::Exception(_) => true,
        Level::Unknown => registers.get("msp") == Some(sp) || registers.get("lr").is_some_and(is_exc_return),
        Level::Thread | Level::Mode(_) => false,
    };
    in_exception.then(|| main_stack_at(sp)).flatten()
}

/// The main stack from a stack pointer upwards: nothing of a device.
pub fn main_stack_at(sp: Addr) -> Option<Region> {
    let memory = MEMORY.into_iter().find(|memory| memory.contains(sp))?;
    let rest = memory.len.checked_sub(memory.offset_of(sp)?)?;
    Some(Region { start: sp, len: rest.min(MAIN) })
}

/// True for registers, as an exception pushed them, of code that has called an address without the Thumb bit.
pub fn has_lost_thumb(registers: &Registers) -> bool {
    let pushed = registers.value("xpsr").filter(|(_, origin)| *origin == cpu::Origin::Frame);
    registers.architecture() == Architecture::CortexM && pushed.is_some_and(|(xpsr, _)| xpsr & THUMB == 0)
}

/// What is known beside the registers that a call changes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Pointers {
    /// The process stack pointer.
    process: Option<Addr>,
    /// The number of the exception; `None` where it is not known, or there is none.
    exception: Option<u32>,
}

impl Pointers {
    pub(super) fn of(registers: &Registers) -> Self {
        let process = (registers.architecture() == Architecture::CortexM).then(|| registers.get("psp")).flatten();
        let exception = match registers.level() {
            Level::Exception(number) => Some(number),
            _ => None,
        };
        Self { process, exception }
    }
}

impl Walk<'_, '_> {
    /// Leaves a handler without call frame information whose lr still leads to what it interrupted on the process stack.
    /// `None` where that is not so.
    pub(super) fn leave_handler_by_link(&mut self, pointers: &mut Pointers) -> Option<Result<Origin, End>> {
        let lr = *self.values.get(&14)?;
        let own = self.is_next && self.unwinder.architecture == Architecture::CortexM;
        if !own || !is_exc_return(lr) || lr & PROCESS_STACK == 0 {
            return None;
        }
        let sp = self.stack_pointer().unwrap_or_default();
        Some(self.leave_exception(lr, sp, pointers).map(|()| Origin::Exception))
    }

    /// Goes back to what was interrupted. `sp`: the main stack pointer as the exception began.
    pub(super) fn leave_exception(&mut self, exc_return: u64, sp: Addr, pointers: &mut Pointers) -> Result<(), End> {
        let process = exc_return & PROCESS_STACK != 0;
        self.exits.push(self.exit(exc_return, sp, pointers.exception));
        let at = if process { pointers.process.ok_or(End::StackPointer("psp"))? } else { sp };
        if !self.is_on_stack(at) {
            return Err(End::OutsideStack(at));
        }
        let mut behind = at;
        if exc_return & NO_ADDITIONAL == 0 {
            self.take_additional(at)?;
            behind = at.wrapping_add(ADDITIONAL);
        }
        for (number, place) in PUSHED.into_iter().zip((behind..).step_by(4)) {
            let word = self.pushed(place)?;
            self.values.insert(number, word);
        }
        let xpsr = self.pushed(behind.wrapping_add(BASIC - 4))?;
        let to_thread = exc_return & TO_THREAD != 0;
        let pc = self.values.remove(&15).unwrap_or_default();
        // A call of an address without the Thumb bit is a fault.
        self.lost_thumb = xpsr & THUMB == 0 && pointers.exception.is_some_and(cpu::is_fault_of_state);
        let state = xpsr & THUMB != 0 || self.lost_thumb;
        if !state || (xpsr & EXCEPTION == 0) != to_thread || pc & 1 != 0 {
            return Err(End::NoExceptionFrame(at));
        }
        let floats = if exc_return & NO_FLOATS == 0 { FLOATS } else { 0 };
        let skipped = if xpsr & SKIPPED == 0 { 0 } else { 4 };
        let sp = behind.wrapping_add(BASIC).wrapping_add(floats).wrapping_add(skipped) & Width::W4.max();
        self.values.insert(13, sp);
        if process {
            pointers.process = Some(sp);
        }
        // Only a thread runs on the process stack.
        self.main = self.main.filter(|_| !process);
        pointers.exception = u32::try_from(xpsr & EXCEPTION).ok().filter(|number| *number != 0);
        (self.pc, self.is_next) = (pc, true);
        self.left(behind, xpsr);
        Ok(())
    }

    /// An exception that is about to be left: of what it interrupted only the registers are known that it kept.
    fn exit(&self, exc_return: u64, sp: Addr, exception: Option<u32>) -> Exit {
        Exit { exception, exc_return, main_pointer: sp, frame: None, registers: self.known() }
    }

    /// It was left: what it pushed is at `frame`.
    fn left(&mut self, frame: Addr, xpsr: u64) {
        let (pc, mut registers) = (self.pc, self.known());
        registers.set("pc", pc);
        // How it was pushed is gone when it is.
        registers.set("xpsr", xpsr & !SKIPPED);
        if let Some(exit) = self.exits.last_mut() {
            (exit.frame, exit.registers) = (Some(frame), registers);
        }
    }

    /// The registers as they are now.
    fn known(&self) -> Registers {
        let mut registers = Registers::of(Architecture::CortexM, cpu::Origin::Frame);
        for (number, name) in Architecture::CortexM.dwarf_registers() {
            if let Some(value) = self.values.get(&number) {
                registers.set(name, *value);
            }
        }
        registers
    }

    /// r4 to r11, which a secure exception pushes below the others.
    fn take_additional(&mut self, at: Addr) -> Result<(), End> {
        if self.pushed(at)? & !1 != SIGNATURE {
            return Err(End::NoExceptionFrame(at));
        }
        for (number, place) in (4..=11).zip((at.wrapping_add(8)..).step_by(4)) {
            let word = self.pushed(place)?;
            self.values.insert(number, word);
        }
        Ok(())
    }

    fn pushed(&mut self, at: Addr) -> Result<u64, End> {
        if !self.main.iter().chain(self.stacks).any(|stack| stack.contains(at)) {
            return Err(End::Unreadable(at));
        }
        let bytes = self.memory.read_bytes(at, 4).map_err(|_| End::Unreadable(at))?;
        self.unwinder.endian.u32(&bytes, 0).map(u64::from).ok_or(End::Unreadable(at))
    }
}
