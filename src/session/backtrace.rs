//! Backtraces of the kernel's threads, with functions and source lines.

use super::Target;
use crate::abi::{Addr, Endian, Region};
use crate::cpu::{Architecture, CodeRanges, Registers};
use crate::kernel::{Kernel, Thread};
use crate::mem::Memory;
use crate::sym::dwarf::SourceFrame;
use crate::sym::{ElfSymbols, Symbol, Symbols};
use crate::unwind::{Backtrace, End, Frame, Origin, Unwinder};

/// The function in which the kernel starts every thread.
const ENTRY: &str = "_tx_thread_shell_entry";

/// One line of a backtrace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// Where it was stopped, or where it goes on once the call in it has returned.
    pub pc: Addr,
    /// Its name, from debug information or the symbol table. Hostile text: escape before printing.
    pub name: Option<String>,
    /// Bytes from its start, where only the symbol table knows it.
    pub offset: Option<u64>,
    /// Its source file, as the compiler recorded it. Hostile text.
    pub file: Option<String>,
    /// The line in it.
    pub line: Option<u32>,
    /// True where the compiler put it into the function on the next line.
    pub is_inlined: bool,
    /// How its frame was found.
    pub origin: Origin,
}

impl Function {
    /// True where it is not certain that it is on the stack.
    #[must_use]
    pub fn is_inferred(&self) -> bool {
        self.origin == Origin::Found
    }
}

impl Target<'_> {
    /// Reads the stacks of `threads`, of a kernel that was read from this target: their backtraces, in the same order.
    pub fn unwind(&mut self, kernel: &Kernel, threads: &[&Thread]) -> Vec<Backtrace> {
        let endian = kernel.layout.shape.endian;
        self.with_unwinder(kernel.processor, endian, |unwinder, memory, _| {
            let stopped = Stopped { kernel, unwinder };
            threads.iter().map(|thread| stopped.backtrace(thread, memory)).collect()
        })
    }

    /// Runs `f` with what is needed to find callers.
    pub(super) fn with_unwinder<R>(
        &mut self,
        architecture: Option<Architecture>,
        endian: Endian,
        f: impl FnOnce(&Unwinder<'_>, &mut dyn Memory, &dyn Symbols) -> R,
    ) -> R {
        let program = self.info.program.clone();
        let (memory, symbols) = self.parts();
        let cfi = program.as_ref().map(|program| program.dwarf().cfi());
        let load_offset = program.as_ref().map_or(0, ElfSymbols::load_offset);
        let code = program.as_ref().map(|p| CodeRanges::of(p.elf(), load_offset)).unwrap_or_default();
        // On ARM bit 0 of a function's address means Thumb state.
        let region = |s: Symbol| Region { start: s.address & !1, len: s.size.max(1) };
        let entry = symbols.lookup(ENTRY).map(region);
        let architecture = architecture.unwrap_or(Architecture::CortexM);
        let unwinder = Unwinder { architecture, endian, cfi: cfi.as_ref(), load_offset, code: &code, entry };
        f(&unwinder, memory, symbols)
    }

    /// The functions and source lines of each backtrace. Reads nothing of the target.
    #[must_use]
    pub fn functions(&self, backtraces: &[Backtrace]) -> Vec<Vec<Function>> {
        let program = self.info.program.as_ref();
        let linked = |frame: &Frame| match program {
            Some(program) => program.elf().width().moved_back(frame.address(), program.load_offset()),
            None => frame.address(),
        };
        let addresses: Vec<Addr> = backtraces.iter().flat_map(|b| &b.frames).map(linked).collect();
        let lines = program.map(|p| p.dwarf().source_frames(&addresses)).unwrap_or_default();
        let mut lines = lines.into_iter();
        let mut of = |frame: &Frame| functions(frame, lines.next().unwrap_or_default(), self.symbols());
        backtraces.iter().map(|b| b.frames.iter().flat_map(&mut of).collect()).collect()
    }
}

/// What the backtraces of one kernel have in common.
struct Stopped<'a> {
    kernel: &'a Kernel,
    unwinder: &'a Unwinder<'a>,
}

impl Stopped<'_> {
    /// From the registers of the thread's CPU through its exceptions to the thread itself.
    fn backtrace(&self, thread: &Thread, memory: &mut dyn Memory) -> Backtrace {
        let Some(registers) = self.kernel.registers_of(thread) else {
            return Backtrace { frames: Vec::new(), end: End::NoRegisters };
        };
        let mut all = self.unwind(thread, &registers, memory);
        // What the exception pushed is known also where no unwind information leads from its handler to it.
        let own = thread.position.registers.as_ref().filter(|own| own.pc() != registers.pc());
        if let Some(own) = own.filter(|own| !all.frames.iter().any(|f| Some(f.pc) == own.pc())) {
            let below = self.unwind(thread, own, memory);
            all.frames.retain(|f| f.origin != Origin::Found);
            let first = all.frames.len();
            all.frames.extend(below.frames);
            all.frames.get_mut(first).into_iter().for_each(|frame| frame.origin = Origin::Exception);
            all.end = below.end;
        }
        all
    }

    fn unwind(&self, thread: &Thread, registers: &Registers, memory: &mut dyn Memory) -> Backtrace {
        let unwinder = Unwinder { architecture: registers.architecture(), ..*self.unwinder };
        let stacks: Vec<Region> = thread.stretches().map(|(start, len)| Region { start, len }).collect();
        unwinder.backtrace(registers, &stacks, memory)
    }
}

/// The functions of one frame: those that were inlined first.
fn functions(frame: &Frame, source: Vec<SourceFrame>, symbols: &dyn Symbols) -> Vec<Function> {
    let symbol = symbols.function(frame.address());
    // Functions that the linker left out lie at 0 in debug information.
    let source = if frame.pc == 0 { Vec::new() } else { source };
    let last = source.len().saturating_sub(1);
    let line = |(at, source): (usize, SourceFrame)| {
        let own = symbol.as_ref().filter(|_| at == last);
        let by_symbol = own.filter(|_| source.function.is_none());
        Function {
            pc: frame.pc,
            name: source.function.or_else(|| own.map(|s| s.name.clone())),
            offset: by_symbol.and_then(|s| frame.pc.checked_sub(s.address)),
            file: source.file,
            line: source.line,
            is_inlined: at < last,
            origin: frame.origin,
        }
    };
    if source.is_empty() {
        return vec![line((0, SourceFrame::default()))];
    }
    source.into_iter().enumerate().map(line).collect()
}
