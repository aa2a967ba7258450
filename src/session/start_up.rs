//! Whether the CPU is in start-up code: before the kernel is entered, over RAM that may be of an older run.

use super::callers::is_of_kernel;
use super::{Function, Target};
use crate::abi::{Addr, Endian, Region};
use crate::cpu::{Architecture, Level, Registers, long_branch};
use crate::kernel::{Kernel, Stop};
use crate::sym::Symbol;
use crate::unwind::{Origin, main_stack_at};

/// Names of the function in which a program without an operating system begins, where that is not the ELF's entry.
const FIRST: [&str; 6] = ["Reset_Handler", "ResetISR", "Reset_Handler_C", "_start", "__start", "_reset"];

/// So many of them jump one to the next at most.
const JUMPS: usize = 4;
/// The most bytes of such a function whose symbol has no size.
const UNSIZED: u64 = 256;

impl Target<'_> {
    /// The function that the CPU is in, where it has begun the program and not yet entered the kernel: the first function of
    /// the program, or one that this has called; also where it has run nothing since a reset. `None` where a thread or the
    /// kernel runs, or that is not known.
    pub(super) fn start_up(&mut self, kernel: Option<&Kernel>, stop: &Stop) -> Option<Function> {
        let [cpu] = stop.cpus.as_slice() else { return None };
        if let Some(pc) = cpu.pc().filter(|_| cpu.is_at_reset()) {
            return Some(self.function_at(pc));
        }
        let first = self.first_functions(cpu)?;
        let pc = cpu.pc()?;
        let is_first = |at: u64| first.iter().any(|function| function.contains(at));
        if self.is_first(cpu, pc) {
            return Some(self.function_at(pc & !1));
        }
        // Over a link each read takes time.
        if kernel.is_none() && self.is_live() {
            return None;
        }
        let sp = cpu.sp()?;
        if kernel.is_some_and(|kernel| kernel.threads.iter().any(|thread| thread.holds(sp))) {
            return None;
        }
        let main = main_stack_at(sp)?;
        let backtrace = self.with_unwinder(kernel, |unwinder, memory, _| unwinder.backtrace(cpu, &[main], memory));
        let certain = backtrace.frames.iter().take_while(|frame| frame.origin != Origin::Found);
        let frames: Vec<u64> = certain.map(|frame| frame.address()).collect();
        let in_kernel = |at: &u64| self.symbols().function(*at).is_some_and(|function| is_of_kernel(&function.name));
        let begins = frames.iter().any(|at| is_first(*at)) && !frames.iter().any(in_kernel);
        begins.then(|| self.function_at(pc & !1))
    }

    /// True where a program counter is in a function in which the program begins.
    pub(super) fn is_first(&self, cpu: &Registers, pc: u64) -> bool {
        self.first_functions(cpu).is_some_and(|all| all.iter().any(|function| function.contains(pc & !1)))
    }

    /// The functions in which the program begins; `None` where the CPU is in an exception, or is none of these processors.
    fn first_functions(&self, cpu: &Registers) -> Option<Vec<Region>> {
        let is_bare = match cpu.architecture() {
            Architecture::CortexM | Architecture::Arm => !matches!(cpu.level(), Level::Exception(_) | Level::Mode(_)),
            Architecture::Aarch64 | Architecture::Riscv32 | Architecture::Riscv64 => true,
            Architecture::X86 | Architecture::X86_64 => false,
        };
        let program = self.info.program.as_ref().filter(|_| is_bare)?;
        let entry = program.elf().width().moved(program.elf().entry(), program.load_offset()) & !1;
        let symbols = self.symbols();
        let entry = symbols.function(entry).filter(|function| function.address & !1 == entry);
        let named = FIRST.iter().filter_map(|name| symbols.lookup(name));
        let region = |start: u64, len: u64| Region { start: start & !1, len };
        // Assembler code often has a symbol without a size: it ends where the next function begins.
        let end = |start: u64| {
            let is_own = |at: &u64| symbols.function(*at).is_some_and(|own| own.address & !1 == start);
            (1..=UNSIZED / 2)
                .map(|n| start.wrapping_add(n << 1))
                .find(|at| !is_own(at))
                .map_or(UNSIZED, |end| end.wrapping_sub(start))
        };
        let size = |f: &Symbol| if f.size > 0 { f.size } else { end(f.address & !1) };
        let mut all: Vec<Region> =
            entry.into_iter().chain(named).map(|f| region(f.address, size(&f))).filter(|one| one.len > 0).collect();
        // What the last of them jumps to at its end is called by none.
        for _ in 0..JUMPS {
            let last = all.last().filter(|_| cpu.architecture() == Architecture::CortexM);
            let Some(next) = last.and_then(|last| self.jumped_to(*last)).filter(|next| !all.contains(next)) else {
                break;
            };
            all.push(next);
        }
        (!all.is_empty()).then_some(all)
    }

    /// The only function of the application that a function in Thumb code jumps to: B.W to its start (Armv7-M Architecture Reference Manual,
    /// A7.7.12).
    fn jumped_to(&self, function: Region) -> Option<Region> {
        let program = self.info.program.as_ref()?;
        let linked = program.elf().width().moved_back(function.start, program.load_offset());
        let section = program.elf().section_holding(linked)?;
        let bytes = program.elf().section_bytes(&section);
        let into = usize::try_from(linked.checked_sub(section.addr)?).ok()?;
        let code = bytes.as_slice().get(into..)?;
        let end = usize::try_from(function.len.min(UNSIZED)).ok()?;
        let target = |at: usize| {
            let to = jump(code, at, function.start)?;
            let found = self.symbols().function(to).filter(|found| found.address & !1 == to && found.size > 0)?;
            (!is_of_kernel(&found.name)).then_some(Region { start: to, len: found.size })
        };
        let mut all = (0..end).step_by(2).filter_map(target).filter(|to| to.start != function.start);
        let only = all.next()?;
        all.all(|other| other == only).then_some(only)
    }
}

/// Where B.W leads that is so far into code from an address on; `None` for another instruction, BL included.
fn jump(code: &[u8], into: usize, start: Addr) -> Option<Addr> {
    let half = |at: usize| Endian::Little.u16(code, at);
    let second = half(into.checked_add(2)?).filter(|second| second & 0x4000 == 0)?;
    long_branch(half(into)?, second, start.checked_add(u64::try_from(into).ok()?)?.checked_add(4)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The code that a reset handler jumps to was taken for a thread's: "the program stopped itself".
    #[test]
    fn a_reset_handler_that_jumps_on_calls_nothing() {
        let code: Vec<u8> =
            [0xF3BFu16, 0x8F6F, 0xF000, 0xB804, 0xF000, 0xF804].iter().flat_map(|half| half.to_le_bytes()).collect();
        assert_eq!(jump(&code, 4, 0x1000_0754), Some(0x1000_0764));
        assert_eq!(jump(&code, 0, 0x1000_0754), None, "isb");
        assert_eq!(jump(&code, 8, 0x1000_0754), None, "a call");
        assert_eq!(jump(&code, 10, 0x1000_0754), None, "the end of the code");
    }
}
