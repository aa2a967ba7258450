//! The kernel of a live target that a debugger controls: read again at each stop, with nothing but its threads.

use super::TargetInfo;
use super::stop::variable;
use crate::abi::Addr;
use crate::cpu::{CodeRanges, Frames};
use crate::elf::{PT_LOAD, SHF_ALLOC};
use crate::error::Error;
use crate::kernel::{About, Kernel, Root, Stop};
use crate::mem::remote::Remote;
use crate::mem::{Memory, Region};
use crate::sym::Symbols;

/// Variables without which the kernel's threads, and which of them runs, are not found.
const NEEDED: [&str; 2] = ["_tx_thread_created_ptr", "_tx_thread_current_ptr"];

impl TargetInfo {
    /// The first symbol of the kernel that is needed for its threads, and that the program lacks.
    pub fn lacks(&self) -> Option<&'static str> {
        NEEDED.into_iter().find(|name| self.symbols.lookup(name).is_none())
    }

    /// Where the program is, as far as the stub knows that.
    #[must_use]
    pub fn at_stub(mut self, remote: &mut Remote) -> Self {
        self.ask_load_offset(Some(remote), &mut Vec::new());
        self
    }

    /// The program's names.
    pub fn names(&self) -> &dyn Symbols {
        &self.symbols
    }

    /// Where the program begins.
    pub fn entry(&self) -> Option<Addr> {
        let elf = self.elf()?;
        Some(elf.width().moved(elf.entry(), self.load_offset().value)).filter(|_| elf.entry() != 0)
    }

    /// How threads save their registers, and where code is; `None` where the processor is not known.
    pub fn frames(&self) -> Option<(Frames, CodeRanges)> {
        let elf = self.elf()?;
        Some((Frames::of(elf)?, CodeRanges::of(elf, self.load_offset().value)))
    }

    /// The memory that the program's sections name, as they were loaded.
    pub fn sections(&self) -> Vec<Region> {
        let Some(elf) = self.elf() else { return Vec::new() };
        let alloc = elf.sections().filter(|s| s.flags & SHF_ALLOC != 0);
        let mut all: Vec<(Addr, u64)> = alloc.map(|s| (s.addr, s.size)).collect();
        if all.is_empty() {
            all = elf.segments().filter(|s| s.kind == PT_LOAD).map(|s| (s.vaddr, s.memsz)).collect();
        }
        let offset = self.load_offset().value;
        let moved = all.into_iter().map(|(start, len)| Region { start: elf.width().moved(start, offset), len });
        moved.filter(|region| region.len > 0 && region.last().is_some()).collect()
    }

    /// The kernel's objects. `known`: control blocks that were there at the stop before, which are read together.
    ///
    /// # Errors
    /// Where the list of threads cannot be read.
    pub fn read_kernel(&self, memory: &mut dyn Memory, known: &[Root], stop: &Stop) -> Result<Kernel, Error> {
        let about = About {
            symbols: &self.symbols,
            endian: self.hints.endian,
            pointer: self.hints.pointer,
            names: &|address| variable(&self.symbols, address),
            registered: known,
            stacks: false,
        };
        let mut kernel = Kernel::read(memory, &about)?;
        kernel.find_running(stop);
        Ok(kernel)
    }

    /// Where each thread was stopped.
    pub fn place_threads(&self, kernel: &mut Kernel, memory: &mut dyn Memory, stop: &mut Stop) {
        kernel.place(memory, stop, &self.symbols);
    }
}
