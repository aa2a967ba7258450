//! What exceptions left on the stacks of a Cortex-M, for a source that has no registers.

use super::{CpuState, Place, Places, Target};
use crate::abi::{Addr, Region, join};
use crate::cpu::{Architecture, Effect, Level, Registers, is_device};
use crate::elf::{PF_W, PF_X, PT_LOAD, SHF_ALLOC, SHF_EXECINSTR, SHF_TLS, SHF_WRITE, Section, Segment};
use crate::kernel::{Kernel, Stop, Thread, Under, VECTOR_TABLES, exception};
use crate::mem::Memory;
use crate::sym::Exceptions;
use crate::unwind::{self, Candidate, On};

/// Where the kernel keeps the address at which the main stack begins.
const MAIN: &str = "_tx_thread_system_stack_ptr";
/// Memory of one kind is within so many bits of an address: 16 MiB.
const BANK: u32 = 24;
/// So many bytes of the main stack are looked at, as far as the source has them.
const LENS: [u64; 4] = [4 << 10, 2 << 10, 1 << 10, 512];

impl Places {
    /// Of an exception that may have come.
    pub(super) fn unknown() -> Self {
        Self {
            exception: None,
            by: "an exception, which one is not known".to_owned(),
            all: Vec::new(),
            is_certain: false,
            remarks: Vec::new(),
        }
    }

    /// Adds those that are not there yet.
    pub(super) fn add(&mut self, places: Vec<Place>) {
        for place in places {
            if !self.all.iter().any(|known| known.frame == place.frame) {
                self.all.push(place);
            }
        }
    }
}

impl Target<'_> {
    /// Frames on the main stack and on that of the thread that runs. None where memory changes while it is read.
    pub(super) fn left(&mut self, kernel: &Kernel, stop: &Stop) -> Vec<Place> {
        let [cpu] = kernel.cpus.as_slice() else { return Vec::new() };
        if kernel.processor != Some(Architecture::CortexM) || self.memory.memory().changes() {
            return Vec::new();
        }
        let thread = match cpu.under {
            Under::Thread(at) => kernel.thread(at),
            _ => None,
        };
        let stacks: Vec<Region> = thread.into_iter().flat_map(Thread::stacks).collect();
        let main = self.main_stack(Some(kernel));
        let sections: Vec<Region> = self.code().into_iter().chain(self.written()).collect();
        let found: Vec<Candidate> = self.with_unwinder(Some(kernel), |unwinder, memory, symbols| {
            // A constant among the code is none.
            let is_code = |at: Addr| {
                let is_constant = || symbols.function(at).is_none() && symbols.variable(at).is_some();
                unwinder.code.holds(at) == Some(true) && !is_constant()
            };
            // Of the others the table has no name: all of them have one handler.
            let is_handled = |number: u32| symbols.exception(number).is_some_and(|name| !name.starts_with("irq"));
            // A dump may lack a part of the memory of a chip: where the program has sections near an address, memory may be there.
            let may_be_memory = |at: Addr| sections.iter().any(|section| section.start >> BANK == at >> BANK);
            let fails = |registers: &Registers, memory: &mut dyn Memory| {
                let code = registers.pc().and_then(|pc| memory.read_bytes(pc & !1, 4).ok());
                let effect = code.and_then(|code| Effect::of(registers, &code));
                let at = effect.and_then(Effect::address).filter(|at| !is_device(*at) && !may_be_memory(*at));
                at.is_some_and(|at| memory.read_bytes(at, 1).is_err())
            };
            let on_main = main.map(|main| (On::Main, main));
            let on_thread = stacks.iter().map(|stack| (On::Thread, *stack));
            let mut look = |(on, stack)| {
                unwinder.left(
                    &unwind::Place {
                        on,
                        stack,
                        stacks: &stacks,
                        is_code: &is_code,
                        is_handled: &is_handled,
                        fails: &fails,
                    },
                    memory,
                )
            };
            on_main.into_iter().chain(on_thread).flat_map(&mut look).collect()
        });
        found.iter().map(|one| self.place_left(one, stop)).collect()
    }

    fn place_left(&mut self, found: &Candidate, stop: &Stop) -> Place {
        let functions = self.names_of(&found.backtrace);
        let within = match found.registers.level() {
            Level::Exception(number) => Some(exception(number, self.symbols().exception(number).as_deref())),
            _ => None,
        };
        self.place(found.frame, &found.registers, within, functions, stop)
    }

    /// The main stack: the kernel has stored where it begins, or the vector table says it.
    pub(super) fn main_stack(&mut self, kernel: Option<&Kernel>) -> Option<Region> {
        let at = self.symbols().lookup(MAIN).map(|symbol| symbol.address);
        let stored = at.and_then(|at| self.memory.memory().read_bytes(at, 4).ok());
        let stored = stored.and_then(|bytes| kernel?.layout.shape.endian.u32(&bytes, 0)).map(Addr::from);
        let by_table = || Exceptions::main_stack(self.info.elf()?, VECTOR_TABLES);
        let end = stored.filter(|end| *end != 0).or_else(by_table)?;
        let memory = self.memory.memory();
        let mut is_there = |len: u64| {
            let start = end.checked_sub(len).filter(|_| end & 3 == 0)?;
            memory.read_bytes(start, usize::try_from(len).ok()?).ok().map(|_| Region { start, len })
        };
        LENS.into_iter().find_map(&mut is_there)
    }

    /// A CPU as it was at a place that an interrupt left. Its callee-saved registers are not known.
    pub fn cpu_left_at(&mut self, place: &Place, cpu: &CpuState) -> CpuState {
        let registers = place.registers.clone();
        CpuState {
            functions: place.functions.clone(),
            effect: place.effect,
            in_loop: registers.pc().and_then(|pc| self.loop_at(registers.architecture(), pc)),
            polling: self.polling(&registers),
            is_outside_code: place.is_outside_code,
            interrupted: None,
            registers,
            ..cpu.clone()
        }
    }

    /// The memory that the program's file says is not written: code and constants. Small linker scripts put code and variables into
    /// one segment: its sections say which part is what.
    pub fn read_only(&self) -> Vec<Region> {
        let is_constant = |flags: u32| flags & SHF_WRITE == 0;
        self.loaded(|segment| segment.flags & PF_W == 0, |_| true, is_constant, false)
    }

    /// Segments for which `whole` holds; of others for which `parts` does, the sections for whose flags `is` holds: where it has no
    /// such section, all of it, if `or_all`.
    fn loaded(
        &self,
        whole: impl Fn(&Segment) -> bool,
        parts: impl Fn(&Segment) -> bool,
        is: impl Fn(u32) -> bool,
        or_all: bool,
    ) -> Vec<Region> {
        let offset = self.load_offset().value;
        let Some(elf) = self.info.elf() else { return Vec::new() };
        let is_it = |section: &Section| section.flags & SHF_ALLOC != 0 && section.size > 0 && is(section.flags);
        let sections = elf.sections().filter(is_it);
        let mut sections: Vec<Region> = sections.map(|one| Region { start: one.addr, len: one.size }).collect();
        sections.sort_unstable_by_key(|section| section.start);
        let last = |all: &Region| all.start.saturating_add(all.len.saturating_sub(1));
        let first_from = |at: Addr| sections.partition_point(|section| section.start < at);
        let has_sections = |all: &Region| sections.get(first_from(all.start)).is_some_and(|one| one.start <= last(all));
        let (mut found, mut spans) = (Vec::new(), Vec::new());
        for segment in elf.segments().filter(|segment| segment.kind == PT_LOAD && segment.memsz > 0) {
            let all = Region { start: segment.vaddr, len: segment.memsz };
            match (whole(&segment), parts(&segment)) {
                (true, _) => found.push(all),
                (_, true) if has_sections(&all) => spans.push((all.start, last(&all))),
                (_, true) if or_all => found.push(all),
                _ => {}
            }
        }
        // Segments of a hostile file may overlap: each section is said once.
        spans.sort_unstable();
        let spans = join(spans);
        let is_within = |section: &Region| {
            let span = spans.get(spans.partition_point(|(_, last)| *last < section.start));
            span.is_some_and(|(first, _)| *first <= section.start)
        };
        found.extend(sections.iter().copied().filter(is_within));
        found.into_iter().map(|part| Region { start: elf.width().moved(part.start, offset), ..part }).collect()
    }

    /// The section of the program's file in which an address is, where the program does not write it. Hostile text: escape before
    /// printing.
    pub fn read_only_section(&self, at: Addr) -> Option<String> {
        let offset = self.load_offset().value;
        let elf = self.info.elf()?;
        let is_it = |section: &Section| {
            let start = elf.width().moved(section.addr, offset);
            let is_constant = section.flags & (SHF_ALLOC | SHF_WRITE) == SHF_ALLOC;
            is_constant && Region { start, len: section.size }.contains(at)
        };
        elf.sections().find(is_it).map(|section| elf.section_name(&section))
    }

    /// What the program writes, by the sections of its file; empty where it has none.
    pub fn written(&self) -> Vec<Region> {
        let offset = self.load_offset().value;
        let Some(elf) = self.info.elf() else { return Vec::new() };
        let is_written = |flags: u32| flags & (SHF_ALLOC | SHF_WRITE | SHF_TLS) == SHF_ALLOC | SHF_WRITE;
        let sections = elf.sections().filter(|section| is_written(section.flags) && section.size > 0);
        sections.map(|section| Region { start: elf.width().moved(section.addr, offset), len: section.size }).collect()
    }

    /// The memory that the program's file says is code, with the constants that are beside it.
    pub fn code(&self) -> Vec<Region> {
        let is_code = |segment: &Segment| segment.flags & PF_X != 0;
        // Functions may be in RAM, in a section that is written.
        let may_be = |flags: u32| flags & SHF_WRITE == 0 || flags & SHF_EXECINSTR != 0;
        self.loaded(|segment| is_code(segment) && segment.flags & PF_W == 0, is_code, may_be, true)
    }

    /// True for a program of the small instruction set, whose loads and stores have to be aligned.
    pub fn is_baseline(&self) -> bool {
        self.info.elf().is_some_and(|elf| elf.is_arm_baseline())
    }
}
