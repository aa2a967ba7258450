//! Backtraces of the kernel's threads, with functions and source lines.

use super::Target;
use super::callers::{self, KernelCode, Place};
use crate::abi::{Addr, Endian, Region};
use crate::cpu::{Architecture, CodeRanges, Level, Registers};
use crate::kernel::{Kernel, PREFIX, Thread};
use crate::mem::Memory;
use crate::sym::dwarf::SourceFrame;
use crate::sym::{ElfSymbols, Symbol, Symbols};
use crate::unwind::{Backtrace, End, Frame, Origin, Unwinder};

/// The function in which the kernel starts every thread.
const SHELL: &str = "_tx_thread_shell_entry";

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
    pub fn is_inferred(&self) -> bool {
        self.origin == Origin::Found
    }
}

/// The backtraces of threads, without names.
#[derive(Debug, Clone, Default)]
pub struct Unwound {
    /// The control blocks of the threads.
    pub threads: Vec<Addr>,
    /// The backtrace of each.
    pub backtraces: Vec<Backtrace>,
}

/// The functions of the backtraces, in the same order.
#[derive(Debug, Clone, Default)]
pub struct Functions {
    /// Those of each thread, the innermost first.
    pub all: Vec<Vec<Function>>,
    /// Of each thread the first that is neither of the kernel nor of the C library, where it is known.
    pub called_from: Vec<Option<Function>>,
}

impl Target<'_> {
    /// True where the program says how its functions are unwound: by call frame information, or, of a Cortex-M, by their code.
    pub fn has_unwind_information(&self) -> bool {
        let has = |program: &ElfSymbols| {
            program.dwarf().has_cfi() || Architecture::of(program.elf()) == Some(Architecture::CortexM)
        };
        self.info.program.as_ref().is_some_and(has)
    }

    /// Why callers of functions and source lines are not known, in words; `None` where the program says them.
    pub fn without_lines(&self) -> Option<String> {
        match &self.info.program {
            Some(program) => program.dwarf().unavailable(),
            None if self.info.elf_path.as_os_str().is_empty() => Some("they need the ELF (--elf FILE)".to_owned()),
            None => Some("they need the ELF that the core was taken with".to_owned()),
        }
    }

    /// Reads the stacks of `threads`, of a kernel that was read from this target.
    pub fn unwind(&mut self, kernel: &Kernel, threads: &[&Thread]) -> Unwound {
        self.with_unwinder(Some(kernel), |unwinder, memory, _| {
            let stopped = Stopped { kernel, unwinder };
            read_ahead(threads, memory);
            Unwound {
                threads: threads.iter().map(|thread| thread.address).collect(),
                backtraces: threads.iter().map(|thread| stopped.backtrace(thread, memory)).collect(),
            }
        })
    }

    /// Runs `f` with what is needed to find callers. `kernel`: where it could be read.
    pub(super) fn with_unwinder<R>(
        &mut self,
        kernel: Option<&Kernel>,
        f: impl FnOnce(&Unwinder<'_>, &mut dyn Memory, &dyn Symbols) -> R,
    ) -> R {
        let program = self.info.program.clone();
        let (memory, symbols) = self.parts();
        let cfi = program.as_ref().map(|program| program.dwarf().cfi());
        let load_offset = program.as_ref().map_or(0, ElfSymbols::load_offset);
        let code = program.as_ref().map(|p| CodeRanges::of(p.elf(), load_offset)).unwrap_or_default();
        let entries = entries(kernel, symbols, program.as_ref());
        let by_program = program.as_ref().map(|p| p.elf().endian());
        let endian = kernel.map(|kernel| kernel.layout.shape.endian).or(by_program).unwrap_or(Endian::Little);
        let by_program = program.as_ref().and_then(|p| Architecture::of(p.elf()));
        // Before its threads are read, the kernel does not show it.
        let processor = kernel.and_then(|kernel| kernel.processor).or(by_program);
        let architecture = processor.unwrap_or(Architecture::CortexM);
        let unwinder =
            Unwinder { architecture, endian, cfi: cfi.as_ref(), load_offset, code: &code, entries: &entries, symbols };
        f(&unwinder, memory, symbols)
    }

    /// The functions and source lines of each backtrace. Reads nothing of the target.
    pub fn functions(&self, kernel: &Kernel, unwound: &Unwound) -> Functions {
        let program = self.info.program.as_ref();
        let linked = |at: Addr| program.map_or(at, |p| p.elf().width().moved_back(at, p.load_offset()));
        let frames = || unwound.backtraces.iter().flat_map(|b| &b.frames);
        let addresses: Vec<Addr> = frames().map(|frame| linked(frame.address())).collect();
        let lines = program.map(|p| p.dwarf().lines());
        let mut source = lines.as_ref().map(|l| l.frames(&addresses)).unwrap_or_default().into_iter();
        let mut of = |frame: &Frame| functions(frame, source.next().unwrap_or_default(), self.symbols());
        let by_frame: Vec<Vec<Vec<Function>>> =
            unwound.backtraces.iter().map(|b| b.frames.iter().map(&mut of).collect()).collect();
        let mut units = lines.as_ref().map(|l| l.units(&addresses, PREFIX)).unwrap_or_default().into_iter();
        let mut units = || units.next().flatten();
        let places: Vec<Vec<Place<'_>>> = unwound
            .backtraces
            .iter()
            .zip(&by_frame)
            .map(|(b, all)| b.frames.iter().zip(all).map(|(frame, own)| callers::place(frame, own, units())).collect())
            .collect();
        let threads: Vec<_> = unwound.threads.iter().map(|at| kernel.thread(*at)).zip(places).collect();
        let code = lines.map(|lines| KernelCode::find(kernel, self.symbols(), &lines, &linked, &threads));
        let called_from =
            threads.iter().map(|(thread, places)| code.as_ref()?.called_from((*thread)?, places)).collect();
        Functions { all: by_frame.iter().map(|frames| frames.concat()).collect(), called_from }
    }
}

/// Bytes of a stack that are read at once: the frames of most threads need less.
const AHEAD: u64 = 1024;

/// Reads the stacks that backtraces begin on together: over a link each read costs a round trip.
fn read_ahead(threads: &[&Thread], memory: &mut dyn Memory) {
    let used = |thread: &&Thread| {
        let sp = thread.position.registers.as_ref()?.sp()?;
        let stack = thread.stacks().find(|stack| stack.contains(sp))?;
        let left = stack.start.checked_add(stack.len)?.checked_sub(sp)?;
        Some((sp, usize::try_from(left.min(AHEAD)).ok()?))
    };
    let wanted: Vec<(Addr, usize)> = threads.iter().filter_map(used).collect();
    // What cannot be read is missed where it is needed.
    drop(memory.read_batch(&wanted));
}

/// What the backtraces of one kernel have in common.
struct Stopped<'a> {
    kernel: &'a Kernel,
    unwinder: &'a Unwinder<'a>,
}

/// The functions that nothing calls: that in which the kernel starts every thread, by its name, or because threads that
/// never ran will begin there; and that in which the program starts.
fn entries(kernel: Option<&Kernel>, symbols: &dyn Symbols, program: Option<&ElfSymbols>) -> Vec<Region> {
    // On ARM bit 0 of a function's address means Thumb state.
    let region = |s: Symbol| Region { start: s.address & !1, len: s.size.max(1) };
    let never_ran = kernel
        .into_iter()
        .flat_map(|kernel| &kernel.threads)
        .filter(|t| t.position.never_ran)
        .filter_map(|t| t.position.pc);
    let begins_at = |pc: Addr| symbols.function(pc).map(region).filter(|function| function.start == pc & !1);
    let start = program.map(|p| p.elf().width().moved(p.elf().entry(), p.load_offset()) & !1).filter(|at| *at != 0);
    let known = symbols.lookup(SHELL).map(region);
    let mut all: Vec<Region> = known.into_iter().chain(never_ran.chain(start).filter_map(begins_at)).collect();
    all.sort_unstable_by_key(|region| (region.start, region.len));
    all.dedup();
    all
}

impl Stopped<'_> {
    /// From the registers of the thread's CPU through its exceptions to the thread itself.
    fn backtrace(&self, thread: &Thread, memory: &mut dyn Memory) -> Backtrace {
        let Some(registers) = self.kernel.registers_of(thread) else {
            return Backtrace { frames: Vec::new(), end: End::NoRegisters, callers: Vec::new() };
        };
        let mut all = self.unwind(thread, &registers, memory);
        // What the exception pushed is known also where no unwind information leads from its handler to it.
        let own = thread.position.registers.as_ref().filter(|own| own.pc() != registers.pc());
        if let Some(own) = own.filter(|own| !all.frames.iter().any(|f| Some(f.pc) == own.pc())) {
            let below = self.unwind(thread, own, memory);
            all.frames.retain(|f| f.origin != Origin::Found);
            let first = all.frames.len();
            all.frames.extend(below.frames);
            // Where no register shows the exception, it is only likely that one pushed these registers.
            let is_sure = matches!(registers.level(), Level::Exception(_));
            let origin = if is_sure { Origin::Exception } else { Origin::Found };
            all.frames.get_mut(first).into_iter().for_each(|frame| frame.origin = origin);
            all.end = below.end;
        }
        all
    }

    fn unwind(&self, thread: &Thread, registers: &Registers, memory: &mut dyn Memory) -> Backtrace {
        let unwinder = Unwinder { architecture: registers.architecture(), ..*self.unwinder };
        let mut stacks: Vec<Region> = thread.stacks().collect();
        if thread.pthread.is_some() {
            stacks.extend(registers.sp().and_then(|sp| system_stack(sp, memory)));
        }
        unwinder.backtrace(registers, &stacks, memory)
    }
}

/// What is used of the stack of an operating system's thread: from its stack pointer to the end of the mapping.
fn system_stack(sp: Addr, memory: &mut dyn Memory) -> Option<Region> {
    /// Of a live process mappings are not known; Linux gives a thread no more than this.
    const MOST: u64 = 8 << 20;
    let left = match memory.regions() {
        Some(mapped) => mapped.iter().find(|m| m.contains(sp)).and_then(|m| m.len.checked_sub(m.offset_of(sp)?))?,
        None => MOST,
    };
    Some(Region { start: sp, len: left.min(MOST) })
}

/// The functions of one frame: those that were inlined first.
pub(super) fn functions(frame: &Frame, source: Vec<SourceFrame>, symbols: &dyn Symbols) -> Vec<Function> {
    let symbol = symbols.function(frame.address());
    // Functions that the linker left out are at 0 in debug information.
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
