//! Backtraces of the kernel's threads, with functions and source lines.

use super::Target;
use crate::abi::{Addr, Region};
use crate::cpu::CodeRanges;
use crate::kernel::{Kernel, Thread};
use crate::sym::dwarf::SourceFrame;
use crate::sym::{ElfSymbols, Symbols};
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

/// The callers of one thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadBacktrace {
    /// Its control block.
    pub thread: Addr,
    /// The innermost first.
    pub functions: Vec<Function>,
    /// Why there are no more.
    pub end: End,
}

impl Target<'_> {
    /// The backtraces of `threads` of a kernel that was read from this target, in their order.
    pub fn backtraces(&mut self, kernel: &Kernel, threads: &[&Thread]) -> Vec<ThreadBacktrace> {
        let program = self.info.program.clone();
        let (memory, symbols) = self.parts();
        let cfi = program.as_ref().map(|program| program.dwarf().cfi());
        let offset = program.as_ref().map_or(0, ElfSymbols::load_offset);
        let code = program.as_ref().map(|p| CodeRanges::of(p.elf(), offset)).unwrap_or_default();
        let entry = symbols.lookup(ENTRY);
        // On ARM bit 0 means Thumb state.
        let entry = entry.map(|s| Region { start: s.address & !1, len: s.size.max(1) });
        let found: Vec<Backtrace> = threads
            .iter()
            .map(|thread| {
                let Some(registers) = &thread.position.registers else {
                    return Backtrace { frames: Vec::new(), end: End::NoRegisters };
                };
                let unwinder = Unwinder {
                    architecture: registers.architecture(),
                    endian: kernel.layout.shape.endian,
                    cfi: cfi.as_ref(),
                    load_offset: offset,
                    code: &code,
                    entry,
                };
                let stacks: Vec<Region> = thread.stretches().map(|(start, len)| Region { start, len }).collect();
                unwinder.backtrace(registers, &stacks, memory)
            })
            .collect();
        let linked = |frame: &Frame| match &program {
            Some(program) => program.elf().width().moved_back(frame.address(), offset),
            None => frame.address(),
        };
        let addresses: Vec<Addr> = found.iter().flat_map(|b| &b.frames).map(linked).collect();
        let lines = program.as_ref().map(|p| p.dwarf().source_frames(&addresses)).unwrap_or_default();
        let mut lines = lines.into_iter();
        let all = threads.iter().zip(found);
        all.map(|(thread, Backtrace { frames, end })| {
            let functions = frames.iter().flat_map(|f| functions(f, lines.next().unwrap_or_default(), symbols));
            ThreadBacktrace { thread: thread.address, functions: functions.collect(), end }
        })
        .collect()
    }
}

/// The functions of one frame: those that were inlined first.
fn functions(frame: &Frame, source: Vec<SourceFrame>, symbols: &dyn Symbols) -> Vec<Function> {
    let symbol = symbols.function(frame.address());
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
