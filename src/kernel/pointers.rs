//! Whether pointers in memory match an ELF: its variables of the kernel point to threads, and the control blocks of the
//! threads lead to its code and constants.

#![allow(clippy::arithmetic_side_effects, reason = "counts threads that are held in memory")]

use super::program::{Blocks, Program};
use super::{SYMBOLS, THREAD_ID};
use crate::abi::{Addr, Endian, Width};
use crate::code::Code;
use crate::elf::{Elf, ElfKind, PF_W, PF_X, PT_LOAD, SHF_ALLOC, SHF_EXECINSTR, SHF_TLS, SHF_WRITE, SHT_DYNAMIC};
use crate::mem::{Memory, Region};
use crate::trace::{Issue, Trace};

/// Bytes of a control block in which pointers to the program's code and constants are looked for: name and entry were
/// within 160 bytes in the kernels that were measured.
const BLOCK: usize = 256;
/// Smaller numbers are counters, states and priorities.
const SMALLEST: Addr = 0x100;
/// A number that is smaller, and the same in all threads, is the size of their stacks.
const LARGEST: Addr = 0x1_0000;
/// The fewest threads that show anything.
const FEWEST: usize = 2;

/// The kernel's pointers to threads, by the ELF's addresses. Those that are 0 are not compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pointers {
    /// Those that point to the control block of a thread.
    pub good: usize,
    /// Those that could be followed.
    pub compared: usize,
}

impl Pointers {
    /// True where some lead to a thread: others may have been overwritten.
    pub const fn holds(self) -> bool {
        self.good > 0 || self.compared < FEWEST
    }

    /// In words: `3 of 3 pointers of the kernel point to a thread`.
    pub fn describe(self) -> String {
        format!("{} of {} pointers of the kernel point to a thread", self.good, self.compared)
    }

    /// The issue of a mismatch.
    pub fn issue(self) -> Option<Issue> {
        const WHY: &str = "this ELF is of another build, or the kernel's variables were overwritten; names and lines from it may be wrong";
        (!self.holds()).then(|| Issue::new(Code::ElfMismatch, format!("{}: {WHY}", self.describe())))
    }
}

impl Program<'_> {
    /// Follows the pointers to threads that the kernel has where this ELF says. `None` where none is set, or none can be
    /// followed.
    pub fn pointers(&self, memory: &mut dyn Memory, trace: &Trace) -> Option<Pointers> {
        let (endian, word, pointer) = (trace.about.endian, trace.about.word, self.elf.width());
        let is_pointer = |name: &&&str| name.ends_with("_ptr");
        let places = SYMBOLS.iter().filter(is_pointer).filter_map(|name| self.symbols.lookup(name));
        let to = follow(memory, endian, pointer, places.map(|symbol| symbol.address));
        let ids = follow(memory, endian, word, to.into_iter().filter(|at| *at != 0));
        let found = Pointers { good: ids.iter().filter(|id| **id == THREAD_ID).count(), compared: ids.len() };
        (found.compared > 0).then_some(found)
    }

    /// The number of threads in memory, where none of their control blocks points to this ELF's code or constants: it is the
    /// ELF of another program. Of an ELF that is linked with libraries nothing can be said.
    pub fn foreign_threads(&self, memory: &mut dyn Memory, trace: &Trace) -> Option<usize> {
        let is_linked_alone = self.elf.kind() == ElfKind::Exec && self.elf.sections().all(|s| s.kind != SHT_DYNAMIC);
        let fixed = fixed(self.elf);
        if !is_linked_alone || fixed.is_empty() {
            return None;
        }
        let blocks = Blocks::read(memory, self.elf.width(), trace, BLOCK)?;
        let is_ours = |at: &Addr| {
            let at = self.elf.width().moved_back(*at, self.load_offset);
            fixed.iter().any(|region| region.contains(at))
        };
        let ours = |offset| {
            let words: Vec<Addr> = blocks.words(offset).filter_map(|(_, at)| at).filter(is_ours).collect();
            // Where code begins at 0, counters and sizes look like addresses of it.
            let is_alone = |at: &Addr| words.iter().filter(|other| *other == at).count() == 1;
            let is_first = |at: &Addr| Some(at) == words.first() && (words.len() == 1 || !is_alone(at));
            let is_number = |at: &Addr| *at < SMALLEST || (*at < LARGEST && is_first(at));
            words.iter().filter(|at| !is_number(at)).count()
        };
        let most = (0..BLOCK).step_by(blocks.pointer.bytes()).map(ours).max().unwrap_or(0);
        let threads = blocks.len();
        (threads >= FEWEST && most * 2 < threads).then_some(threads)
    }
}

/// The words of this width at these addresses, as far as they can be read.
fn follow(memory: &mut dyn Memory, endian: Endian, width: Width, at: impl Iterator<Item = Addr>) -> Vec<u64> {
    let wanted: Vec<(Addr, usize)> = at.map(|at| (at, width.bytes())).collect();
    memory.read_batch(&wanted).into_iter().filter_map(|read| endian.word(width, &read.ok()?, 0)).collect()
}

/// Code and constants: what the program executes or does not write, by its sections, else by its segments.
fn fixed(elf: &Elf) -> Vec<Region> {
    let in_memory = |flags: u32, size: u64| flags & SHF_ALLOC != 0 && flags & SHF_TLS == 0 && size > 0;
    let is_fixed = |flags: u32| flags & SHF_EXECINSTR != 0 || flags & SHF_WRITE == 0;
    if elf.sections().any(|s| in_memory(s.flags, s.size)) {
        let sections = elf.sections().filter(|s| in_memory(s.flags, s.size) && is_fixed(s.flags));
        return sections.map(|s| Region { start: s.addr, len: s.size }).collect();
    }
    let segments = elf.segments().filter(|p| p.kind == PT_LOAD && (p.flags & PF_X != 0 || p.flags & PF_W == 0));
    segments.map(|p| Region { start: p.vaddr, len: p.memsz }).collect()
}
