//! UNWINDING: from the registers of a stopped thread to its callers.
//!
//! Each frame says how it was found, and each backtrace why it ends. Nothing is guessed in silence: where call frame
//! information is missing, and the code of the function does not show its frame, return addresses that are on the stack are
//! offered as [`Origin::Found`], and no more.

mod by_code;
mod cortex_m;
mod exception;
mod found;
mod left;

pub use cortex_m::{has_lost_thumb, is_exc_return, is_on_process_stack, leads_to_handler, main_stack_at};
pub use exception::{Candidate, Exit, Search};
pub use left::{On, Place};

use std::fmt;

use crate::abi::{Addr, Endian, Region};
use crate::cpu::{Architecture, CodeRanges, Registers};
use crate::mem::Memory;
use crate::sym::Symbols;
use crate::sym::dwarf::{Caller, CallerValue, Cfi, CfiError, Values};

/// The most frames of one backtrace.
pub const MAX_FRAMES: usize = 256;

/// How a frame was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The thread's own registers.
    Registers,
    /// By the call frame information of the function that it called.
    Cfi,
    /// By the code of the function that it called, which has no call frame information.
    Code,
    /// From what an exception pushed.
    Exception,
    /// Inferred: a return address that is on the stack. It may be left over from a call that has returned.
    Found,
}

impl Origin {
    /// Its name in output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Registers => "registers",
            Self::Cfi => "cfi",
            Self::Code => "code",
            Self::Exception => "exception",
            Self::Found => "inferred",
        }
    }

    /// True for the caller of a function whose frame is known.
    pub const fn is_caller(self) -> bool {
        matches!(self, Self::Cfi | Self::Code)
    }

    /// What a reader has to know of such a frame; empty where that is nothing.
    pub const fn remark(self) -> &'static str {
        match self {
            Self::Registers | Self::Cfi | Self::Code => "",
            Self::Exception => "interrupted",
            Self::Found => "inferred",
        }
    }
}

/// One function of a backtrace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// Where it was stopped, or where it goes on once the call in it has returned.
    pub pc: Addr,
    /// True where `pc` is the next instruction; false for a return address, whose call is before it.
    pub is_next: bool,
    /// How it was found.
    pub origin: Origin,
}

impl Frame {
    /// An address in the function: that of the call, where `pc` is a return address after it.
    pub const fn address(&self) -> Addr {
        if self.is_next { self.pc } else { self.pc.saturating_sub(1) }
    }
}

/// The callers whose registers are kept.
const CALLERS: usize = 2;
/// Bytes of a handler's stack that are read at once.
const AHEAD: usize = 128;

/// Why a backtrace ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// At a function that nothing calls: that in which every thread begins, or that in which the program does.
    Entry,
    /// Call frame information says that there is no caller.
    Outermost,
    /// A return address of 0 or all ones, in a function that is not known as the first. A first function has it, and so has
    /// a stack that was overwritten.
    NoCaller(u64),
    /// A function has no call frame information, or such that cannot be used.
    Cfi(CfiError),
    /// The call frame information of a function needs a register that is not known.
    NeedsRegister(Addr, &'static str),
    /// A return address that is no code.
    NotCode(Addr),
    /// The call frame information leaves the return address open.
    NoReturnAddress(Addr),
    /// The stack pointer of a frame is outside of the thread's stack.
    OutsideStack(Addr),
    /// The stack pointer of the next frame is not above that of this one.
    NotAbove(Addr),
    /// The stack pointer before an exception is not known; its name.
    StackPointer(&'static str),
    /// What an exception pushed cannot be read.
    Unreadable(Addr),
    /// There is nothing at an address that an exception pushes.
    NoExceptionFrame(Addr),
    /// More than [`MAX_FRAMES`].
    TooMany,
    /// The program counter is not known.
    NoRegisters,
}

impl End {
    /// True where the stack above may still hold return addresses.
    const fn leaves_callers_open(&self) -> bool {
        use End::{Cfi, NeedsRegister, NoCaller, NoReturnAddress, NotCode};
        matches!(self, Cfi(_) | NeedsRegister(..) | NoReturnAddress(_) | NotCode(_) | NoCaller(_))
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Entry => f.write_str("this is the first function"),
            Self::Outermost => f.write_str("the unwind information says that this function has no caller"),
            Self::NoCaller(to) => {
                write!(f, "the return address is {to:#x}: this is the first function, or the stack was overwritten")
            }
            Self::Cfi(error) => error.fmt(f),
            Self::NeedsRegister(pc, name) => {
                write!(f, "the unwind information for {pc:#x} needs register {name}, which is not known")
            }
            Self::NotCode(at) => write!(f, "the return address {at:#x} is not code of the program"),
            Self::NoReturnAddress(pc) => write!(f, "the return address of the function at {pc:#x} is not known"),
            Self::OutsideStack(at) => write!(f, "the stack pointer {at:#x} is outside of the thread's stack"),
            Self::NotAbove(at) => write!(f, "the next frame would be at {at:#x}, which is not above this one"),
            Self::StackPointer(name) => write!(f, "{name} is not known (--reg {name}=N)"),
            Self::Unreadable(at) => write!(f, "the registers that the exception pushed to {at:#x} cannot be read"),
            Self::NoExceptionFrame(at) => write!(f, "no exception pushed the words at {at:#x}"),
            Self::TooMany => write!(f, "there are more than {MAX_FRAMES} frames"),
            Self::NoRegisters => f.write_str("the program counter is not known"),
        }
    }
}

/// The callers of one thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backtrace {
    /// The innermost first.
    pub frames: Vec<Frame>,
    /// Why there are no more.
    pub end: End,
    /// The registers of the first callers, as far as they are known.
    pub callers: Vec<Registers>,
}

impl Backtrace {
    /// True where no frame is missing and none is inferred.
    pub fn is_complete(&self) -> bool {
        matches!(self.end, End::Entry | End::Outermost) && self.frames.iter().all(|f| f.origin != Origin::Found)
    }
}

/// What is needed to find callers.
#[derive(Clone, Copy)]
pub struct Unwinder<'a> {
    /// The processor.
    pub architecture: Architecture,
    /// The byte order of its data.
    pub endian: Endian,
    /// The program's call frame information; `None` without an ELF.
    pub cfi: Option<&'a Cfi<'a>>,
    /// How far above its own addresses the program was loaded.
    pub load_offset: u64,
    /// Where the program's code is.
    pub code: &'a CodeRanges,
    /// Functions that nothing calls: that in which every thread begins, that in which the program does.
    pub entries: &'a [Region],
    /// The names of functions, and where they begin.
    pub symbols: &'a dyn Symbols,
}

/// A frame on the way, with its registers.
struct Walk<'u, 'm> {
    unwinder: Unwinder<'u>,
    memory: &'m mut dyn Memory,
    /// The stacks of the thread.
    stacks: &'m [Region],
    values: Values,
    pc: Addr,
    is_next: bool,
    /// The main stack of a Cortex-M, while the frames are those of exceptions on it.
    main: Option<Region>,
    /// True once a frame was inferred: all after it are too.
    inferred: bool,
    frames: Vec<Frame>,
    /// The registers of the first callers.
    callers: Vec<Registers>,
    /// The exceptions that were left on the way.
    exits: Vec<Exit>,
    /// True at what an exception interrupted that had lost Thumb state: it had called a wrong address.
    lost_thumb: bool,
}

impl Unwinder<'_> {
    /// The callers of the code at `registers`, whose stacks are `stacks`. Only these are read, and on a Cortex-M in an
    /// exception the main stack.
    pub fn backtrace(&self, registers: &Registers, stacks: &[Region], memory: &mut dyn Memory) -> Backtrace {
        self.with_exits(registers, stacks, memory).0
    }

    /// The same, and the exceptions of a Cortex-M that were left on the way: that which came last is the first.
    pub fn with_exits(
        &self,
        registers: &Registers,
        stacks: &[Region],
        memory: &mut dyn Memory,
    ) -> (Backtrace, Vec<Exit>) {
        let known =
            self.architecture.dwarf_registers().filter_map(|(number, name)| Some((number, registers.get(name)?)));
        let Some(pc) = registers.pc() else {
            return (Backtrace { frames: Vec::new(), end: End::NoRegisters, callers: Vec::new() }, Vec::new());
        };
        let main = cortex_m::main_stack(registers);
        // Over a link each read takes time, and the frames of most handlers need less.
        let len = |main: Region| usize::try_from(main.len).unwrap_or(AHEAD).min(AHEAD);
        drop(main.map(|main| memory.read_bytes(main.start, len(main))));
        let walk = Walk {
            unwinder: *self,
            memory,
            stacks,
            values: known.collect(),
            pc,
            is_next: true,
            main,
            inferred: false,
            frames: Vec::new(),
            callers: Vec::new(),
            exits: Vec::new(),
            lost_thumb: cortex_m::has_lost_thumb(registers),
        };
        walk.run(registers)
    }
}

/// True where a stack pointer is in a stack, or is that of an empty one.
fn within(stack: Region, sp: Addr) -> bool {
    stack.contains(sp) || stack.start.checked_add(stack.len) == Some(sp)
}

impl Walk<'_, '_> {
    fn run(mut self, registers: &Registers) -> (Backtrace, Vec<Exit>) {
        let mut system = cortex_m::Pointers::of(registers);
        let mut origin = Origin::Registers;
        let end = loop {
            let shown = if self.inferred { Origin::Found } else { origin };
            self.frames.push(Frame { pc: self.pc, is_next: self.is_next, origin: shown });
            match self.step(&mut system) {
                Ok(_) if self.frames.len() >= MAX_FRAMES => break End::TooMany,
                Ok(next) => {
                    if self.callers.len() < CALLERS {
                        self.callers.push(self.registers());
                    }
                    origin = next;
                }
                Err(end) => break end,
            }
        };
        if end.leaves_callers_open() {
            self.look_for_return_addresses();
        }
        (Backtrace { frames: self.frames, end, callers: self.callers }, self.exits)
    }

    /// Goes to the caller.
    fn step(&mut self, system: &mut cortex_m::Pointers) -> Result<Origin, End> {
        let unwinder = self.unwinder;
        let address = Frame { pc: self.pc, is_next: self.is_next, origin: Origin::Cfi }.address();
        if unwinder.entries.iter().any(|entry| entry.contains(address)) {
            return Err(End::Entry);
        }
        // A stack that overflowed goes on in what is below it.
        if let Some(outside) = self.stack_pointer().filter(|sp| !self.is_on_stack(*sp)) {
            return Err(End::OutsideStack(outside));
        }
        // Debug information has functions at 0 that the linker left out.
        let caller = if self.lost_thumb { Err(End::NotCode(self.pc)) } else { self.caller() };
        let (caller, origin) = match caller {
            Ok(caller) => (caller, Origin::Cfi),
            Err(end) => {
                // A handler in assembler: as long as the link register points back to a thread, nothing of its own stack matters.
                if let Some(left) = self.leave_handler_by_link(system) {
                    return left;
                }
                if let Some(origin) = self.go_back_by_link() {
                    return Ok(origin);
                }
                (self.caller_by_code(address, &end).ok_or(end)?, Origin::Code)
            }
        };
        let to = self.return_address(&caller);
        // Outside of the stack no return address can be read.
        if matches!(to, Ok(_) | Err(End::Cfi(_))) {
            self.check_next(self.stack_pointer(), caller.cfa)?;
        }
        let to = to?;
        self.enter(&caller);
        if unwinder.architecture == Architecture::CortexM && cortex_m::is_exc_return(to) {
            return self.leave_exception(to, caller.cfa, system).map(|()| Origin::Exception);
        }
        // What the first function has in its link register: nothing, or on ARM all ones.
        if to == 0 || to == unwinder.architecture.width().max() {
            return Err(End::NoCaller(to));
        }
        let to = match unwinder.architecture {
            Architecture::CortexM | Architecture::Arm => to & !1,
            _ => to,
        };
        if unwinder.code.holds(to) == Some(false) {
            return Err(End::NotCode(to));
        }
        (self.pc, self.is_next) = (to, caller.is_signal);
        Ok(origin)
    }

    /// From a call of a wrong address: the link register holds where the call would have returned to. That is inferred, as a
    /// damaged return address has the same effect.
    fn go_back_by_link(&mut self) -> Option<Origin> {
        let architecture = self.unwinder.architecture;
        let number = architecture.link_register().filter(|_| self.is_next)?;
        let thumb = matches!(architecture, Architecture::CortexM | Architecture::Arm);
        let to = *self.values.get(&number)?;
        let to = if thumb { to & !1 } else { to };
        let wrong = self.lost_thumb || self.unwinder.code.holds(self.pc) == Some(false);
        if !wrong || self.unwinder.code.holds(to) != Some(true) {
            return None;
        }
        self.values
            .retain(|number, _| architecture.is_kept(*number) || architecture.dwarf_number("sp") == Some(*number));
        (self.pc, self.is_next, self.inferred, self.lost_thumb) = (to, false, true, false);
        Some(Origin::Found)
    }

    /// What call frame information says of the caller.
    fn caller(&mut self) -> Result<Caller, End> {
        let unwinder = self.unwinder;
        let at = Frame { pc: self.pc, is_next: self.is_next, origin: Origin::Cfi }.address();
        let Some(cfi) = unwinder.cfi else { return Err(End::Cfi(CfiError::Missing(at))) };
        let width = unwinder.architecture.width();
        let (memory, stacks, main) = (&mut *self.memory, self.stacks, self.main);
        let mut read = |address: Addr, size: u8| {
            main.iter().chain(stacks).any(|stack| stack.contains(address)).then_some(())?;
            let bytes = memory.read_bytes(address, usize::from(size)).ok()?;
            let word = unwinder.endian.word(width, &bytes, 0);
            word.filter(|_| usize::from(size) == width.bytes())
        };
        let linked = width.moved_back(at, unwinder.load_offset);
        cfi.caller(linked, &self.values, &mut read).map_err(|error| match error {
            CfiError::Missing(_) => End::Cfi(CfiError::Missing(at)),
            CfiError::Unusable(_, why) => End::Cfi(CfiError::Unusable(at, why)),
            CfiError::Register(_, number) => {
                match unwinder.architecture.dwarf_registers().find(|(n, _)| *n == number) {
                    Some((_, name)) => End::NeedsRegister(at, name),
                    None => End::Cfi(CfiError::Register(at, number)),
                }
            }
            CfiError::Unreadable(stack) => End::Cfi(CfiError::Unreadable(stack)),
        })
    }

    /// Checks that the caller's frame may begin at `cfa`: within the stack, and above this frame. A function that keeps
    /// nothing on the stack has no frame of its own.
    fn check_next(&self, sp: Option<Addr>, cfa: Addr) -> Result<(), End> {
        let above = match sp {
            Some(sp) if self.is_next => cfa >= sp,
            Some(sp) => cfa > sp,
            None => true,
        };
        if !above {
            return Err(End::NotAbove(cfa));
        }
        if self.is_on_stack(cfa) { Ok(()) } else { Err(End::OutsideStack(cfa)) }
    }

    /// True for a stack pointer on a stack that may be read.
    fn is_on_stack(&self, sp: Addr) -> bool {
        self.main.iter().chain(self.stacks).any(|stack| within(*stack, sp))
    }

    fn return_address(&self, caller: &Caller) -> Result<Addr, End> {
        match caller.registers.get(&caller.return_register) {
            Some(CallerValue::Known(to)) => Ok(*to),
            Some(CallerValue::Undefined) => Err(End::Outermost),
            Some(CallerValue::Unreadable(at)) => Err(End::Cfi(CfiError::Unreadable(*at))),
            Some(CallerValue::Unknown) => Err(End::NoReturnAddress(self.pc)),
            // Without a rule it is still in its register: only where no call has replaced it since.
            None if self.is_next => {
                self.values.get(&caller.return_register).copied().ok_or(End::NoReturnAddress(self.pc))
            }
            None => Err(End::NoReturnAddress(self.pc)),
        }
    }

    /// The registers become those of the caller.
    fn enter(&mut self, caller: &Caller) {
        let architecture = self.unwinder.architecture;
        self.values.retain(|number, _| architecture.is_kept(*number));
        for (number, value) in &caller.registers {
            match value {
                CallerValue::Known(value) => self.values.insert(*number, *value),
                _ => self.values.remove(number),
            };
        }
        if let Some(sp) = architecture.dwarf_number("sp") {
            self.values.insert(sp, caller.cfa);
        }
    }

    /// The registers of the frame.
    fn registers(&self) -> Registers {
        let mut all = Registers::new(self.unwinder.architecture);
        for (number, name) in self.unwinder.architecture.dwarf_registers() {
            if let Some(value) = self.values.get(&number) {
                all.set_from(crate::cpu::Origin::Frame, name, *value);
            }
        }
        all.set_from(crate::cpu::Origin::Frame, "pc", self.pc);
        all
    }

    fn stack_pointer(&self) -> Option<Addr> {
        let sp = self.unwinder.architecture.dwarf_number("sp")?;
        self.values.get(&sp).copied()
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "tests say what they expect by failing")]
mod tests;
