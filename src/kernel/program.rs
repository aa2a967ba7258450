//! Whether an ELF is that of the program whose kernel is in memory: the kernel's version, and the names and entries of its
//! threads.

use super::{Entries, Layout, THREAD_ID};
use crate::abi::{Addr, Endian, Width};
use crate::bytes::Bytes;
use crate::code::Code;
use crate::elf::{Elf, PF_W, PT_LOAD, SHF_ALLOC, SHF_WRITE, SHT_NOBITS, SHT_NOTE, Section, Segment};
use crate::mem::{Memory, Region};
use crate::sym::Symbols;
use crate::trace::{Issue, Object, Trace};

/// The variables that are asked for whatever is read of a kernel.
pub const SYMBOLS: &[&str] = &[
    "_tx_thread_current_ptr",
    "_tx_thread_execute_ptr",
    "_tx_thread_system_state",
    "_tx_thread_created_ptr",
    "_tx_thread_created_count",
    "_tx_timer_system_clock",
    VERSION,
];
/// What a port calls the vector table.
pub const VECTOR_TABLES: &[&str] = &["_tx_vectors"];
/// What the names of the kernel's variables and functions begin with.
pub const PREFIX: &str = "_tx_";
/// Constants that identify the kernel.
pub const CONSTANTS: [&str; 2] = [VERSION, "_tx_build_options"];
/// The kernel's version string.
const VERSION: &str = "_tx_version_id";
/// The mask of events that the kernel inserts.
const ENABLE_BITS: &str = "_tx_trace_event_enable_bits";

/// The most threads that are compared.
const MAX_THREADS: usize = 32;
/// Bytes of a control block that are read: the name's pointer was at 40 to 128 in the kernels that were measured.
const BLOCK: usize = 160;
/// The type of a thread's control block, and the members with its name and its function.
const THREAD: &str = "TX_THREAD_STRUCT";
const NAME: &str = "tx_thread_name";
const ENTRY: &str = "tx_thread_entry";
/// The longest version string.
const LONGEST: usize = 160;

/// The version string of the kernel in memory.
pub fn version(memory: &mut dyn Memory, symbols: &dyn Symbols) -> Option<String> {
    text_at(memory, symbols.lookup(VERSION)?.address, LONGEST)
}

/// The mask of events that the kernel inserts; `word` is the width of its `ULONG` where the symbol has no size.
pub fn enable_bits(memory: &mut dyn Memory, symbols: &dyn Symbols, endian: Endian, word: Width) -> Option<u64> {
    let symbol = symbols.lookup(ENABLE_BITS)?;
    let width = Width::from_bytes(symbol.size).unwrap_or(word);
    endian.word(width, &memory.read_bytes(symbol.address, width.bytes()).ok()?, 0)
}

/// The width of the pointers in the threads' control blocks, by their stacks: after id, run count and stack pointer the
/// kernel stores start, end and size, and the end is the last byte. `None` where no block shows one width and no other.
pub fn pointer_width(memory: &mut dyn Memory, trace: &Trace) -> Option<Width> {
    let (endian, word) = (trace.about.endian, trace.about.word);
    let shows = |block: &Bytes, pointer: Width| {
        let at = |n: usize| word.bytes().saturating_mul(2).saturating_add(pointer.bytes().saturating_mul(n));
        let start = endian.word(pointer, block, at(1))?;
        let end = endian.word(pointer, block, at(2))?;
        let size = endian.word(word, block, at(3))?;
        (size > 0 && start > 0 && start.checked_add(size)?.checked_sub(1)? == end).then_some(())
    };
    let threads = trace.objects.iter().filter(|o| o.is_thread && !o.deleted).take(MAX_THREADS);
    let wanted: Vec<(Addr, usize)> = threads.map(|o| (o.address, BLOCK)).collect();
    let blocks: Vec<Bytes> = memory.read_batch(&wanted).into_iter().filter_map(Result::ok).collect();
    let mut is_block = blocks.iter().filter(|block| endian.word(word, block, 0) == Some(THREAD_ID)).peekable();
    is_block.peek()?;
    let blocks: Vec<&Bytes> = is_block.collect();
    let shown = |pointer| blocks.iter().any(|block| shows(block, pointer).is_some());
    match (shown(Width::W4), shown(Width::W8)) {
        (true, false) => Some(Width::W4),
        (false, true) => Some(Width::W8),
        _ => None,
    }
}

/// Thread control blocks point to their names, which are in the program's constants: under the ELF of another build
/// they read as something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Agreement {
    /// Names that are the same in the registry and after the control block's pointer.
    pub same: usize,
    /// Names that could be compared.
    pub compared: usize,
}

impl Agreement {
    /// True where the ELF is of the program in memory. One renamed thread is a change of source; most names wrong is
    /// another layout.
    pub const fn holds(self) -> bool {
        self.same > self.compared / 2
    }

    /// The issue of a mismatch.
    pub fn issue(self) -> Option<Issue> {
        (!self.holds()).then(|| {
            Issue::new(
                Code::ElfMismatch,
                format!(
                    "{} of {} thread names agree: this ELF is of another build; names and lines from it are wrong",
                    self.same, self.compared
                ),
            )
        })
    }
}

/// A program, to be compared with the kernel in memory.
#[derive(Clone, Copy)]
pub struct Program<'a> {
    /// Its ELF.
    pub elf: &'a Elf,
    /// Run-time address less link address; wraps.
    pub load_offset: u64,
    /// Its symbols and debug information.
    pub symbols: &'a dyn Symbols,
}

impl Program<'_> {
    /// The version strings of the kernel in the ELF and in memory, where they differ.
    pub fn other_version(&self, memory: &mut dyn Memory) -> Option<(String, String)> {
        let symbol = self.symbols.lookup(VERSION)?;
        let Constant::Text(ours) = constant(self.elf, symbol.address, self.load_offset) else { return None };
        let ours = String::from_utf8(ours).ok()?;
        let bytes = memory.read_bytes(symbol.address, ours.len().min(LONGEST)).ok()?;
        if ours.as_bytes().starts_with(&bytes) {
            return None;
        }
        Some((ours, version(memory, self.symbols)?))
    }

    /// Compares the names of threads in memory with the ELF's constants. `None` where they cannot be compared: addresses
    /// are cut, control blocks are not there, or names are in RAM.
    pub fn names(&self, memory: &mut dyn Memory, trace: &Trace) -> Option<Agreement> {
        let blocks = Blocks::read(memory, self.elf.width(), trace, BLOCK)?;
        // Ports and options of the kernel move the name's pointer: it is where most names are right. Only where they are
        // not, the debug information is asked, which in a large program takes longer than all else.
        let all: Vec<usize> = (0..BLOCK).step_by(blocks.pointer.bytes()).collect();
        let best = all.iter().map(|at| self.names_at(&blocks, *at)).max_by_key(|s| s.same);
        if let Some(best) = best.filter(|b| b.holds()) {
            return Some(best);
        }
        let declared = self.symbols.member_offset(THREAD, NAME).and_then(|o| usize::try_from(o).ok());
        if declared.map_or(all, |at| vec![at]).into_iter().any(|at| self.made_up(memory, &blocks, at)) {
            return None;
        }
        // What cannot be compared is no disagreement.
        let measured = Layout::measured(Some(blocks.endian), Some(blocks.pointer));
        let usual = measured.iter().filter_map(|layout| usize::try_from(layout.thread.offset(NAME)?).ok());
        let offsets: Vec<usize> = declared.map_or_else(|| usual.collect(), |at| vec![at]);
        let best = offsets.into_iter().map(|at| self.names_at(&blocks, at)).max_by_key(|s| (s.same, s.compared));
        best.filter(|b| b.compared > 0)
    }

    /// How many names agree where the pointer to the name is at `offset`.
    #[allow(clippy::arithmetic_side_effects, reason = "counts control blocks that are held in memory")]
    fn names_at(&self, blocks: &Blocks, offset: usize) -> Agreement {
        let mut score = Agreement { same: 0, compared: 0 };
        for (name, at) in blocks.words(offset) {
            let there = at.map_or(Constant::NotHere, |at| constant(self.elf, at, self.load_offset));
            let same = matches!(&there, Constant::Text(text) if is_name(text, name));
            score.same += usize::from(same);
            score.compared += usize::from(!matches!(there, Constant::NotHere));
        }
        score
    }

    /// True where the names that the pointers at `offset` point to were made up as the program ran: they are in no ELF, and
    /// say nothing of it. Two threads are enough.
    fn made_up(&self, memory: &mut dyn Memory, blocks: &Blocks, offset: usize) -> bool {
        blocks.words(offset).take(2).all(|(name, at)| {
            let Some(at) = at else { return false };
            // A name among what the ELF has for constants is no such name, whatever memory has there.
            let made_up = !matches!(constant(self.elf, at, self.load_offset), Constant::Text(_));
            let text = text_at(memory, at, LONGEST).filter(|_| made_up);
            text.is_some_and(|text| is_name(text.as_bytes(), name))
        })
    }

    /// Compares the entries of threads in memory with the ELF's functions. `None` where they cannot be compared.
    pub fn entries(&self, memory: &mut dyn Memory, trace: &Trace) -> Option<Entries> {
        let blocks = Blocks::read(memory, self.elf.width(), trace, BLOCK)?;
        let offsets: Vec<u64> = match self.symbols.member_offset(THREAD, ENTRY) {
            Some(at) => vec![at],
            None => {
                let measured = Layout::measured(Some(blocks.endian), Some(blocks.pointer));
                measured.iter().filter_map(|layout| layout.thread.offset(ENTRY)).collect()
            }
        };
        let at = |offset: u64| {
            let entries = blocks.words(usize::try_from(offset).ok()?).filter_map(|(_, entry)| entry);
            Entries::of(self.elf, self.load_offset, entries)
        };
        offsets.into_iter().filter_map(at).max_by_key(|e| (e.same, e.compared))
    }
}

/// The control blocks of live threads with the names that the trace has for them: only those that begin as one does.
pub(super) struct Blocks {
    endian: Endian,
    pub pointer: Width,
    all: Vec<(String, Bytes)>,
}

impl Blocks {
    /// Reads `len` bytes of each. `None` where the trace holds addresses cut, which cannot be followed.
    pub fn read(memory: &mut dyn Memory, pointer: Width, trace: &Trace, len: usize) -> Option<Self> {
        if pointer != trace.about.word {
            return None;
        }
        let endian = trace.about.endian;
        let named = |o: &&Object| o.is_thread && !o.deleted && !o.name.is_empty();
        let threads: Vec<_> = trace.objects.iter().filter(named).take(MAX_THREADS).collect();
        let wanted: Vec<(Addr, usize)> = threads.iter().map(|o| (o.address, len)).collect();
        let read = memory.read_batch(&wanted);
        // The first word is a ULONG, of the width of a stored word.
        let begins = |bytes: &Bytes| endian.word(pointer, bytes, 0) == Some(THREAD_ID);
        let blocks = threads.iter().zip(read).filter_map(|(o, r)| Some((o.name.clone(), r.ok()?)));
        let mut found = Self { endian, pointer, all: blocks.filter(|(_, bytes)| begins(bytes)).collect() };
        // Of a block that was overwritten nothing is the program's.
        if found.all.iter().any(|(_, block)| found.has_whole_stack(block)) {
            let all = std::mem::take(&mut found.all);
            found.all = all.into_iter().filter(|(_, block)| found.has_whole_stack(block)).collect();
        }
        Some(found)
    }

    /// True for a block whose stack ends where its start and its size put it: after id, run count and stack pointer.
    fn has_whole_stack(&self, block: &Bytes) -> bool {
        let word = |n: usize| self.endian.word(self.pointer, block, self.pointer.bytes().saturating_mul(n));
        let (Some(start), Some(end), Some(size)) = (word(3), word(4), word(5)) else { return false };
        size > 0 && start > 0 && start.checked_add(size).and_then(|end| end.checked_sub(1)) == Some(end)
    }

    /// How many there are.
    pub const fn len(&self) -> usize {
        self.all.len()
    }

    /// The name of each, and its word at `offset`.
    pub fn words(&self, offset: usize) -> impl Iterator<Item = (&str, Option<Addr>)> {
        self.all.iter().map(move |(name, block)| (name.as_str(), self.endian.word(self.pointer, block, offset)))
    }
}

/// What an ELF has at an address.
enum Constant {
    /// A string.
    Text(Vec<u8>),
    /// No string: what would be there in the program that ran.
    Other,
    /// Nothing can be said of this address: the program writes there, or the ELF holds no bytes of it, as one of debug
    /// information alone.
    NotHere,
}

/// What the ELF has at a run-time address among what the program does not write.
fn constant(elf: &Elf, at: u64, load_offset: u64) -> Constant {
    let at = elf.width().moved_back(at, load_offset);
    let (start, bytes) = match elf.section_holding(at) {
        Some(section) if section.flags & SHF_WRITE != 0 || section.kind == SHT_NOBITS => return Constant::NotHere,
        Some(section) => (section.addr, elf.section_bytes(&section)),
        None if elf.sections().any(|s| s.flags & SHF_ALLOC != 0) => {
            let fixed = |s: &Section| s.flags & (SHF_ALLOC | SHF_WRITE) == SHF_ALLOC;
            let constants = |s: &Section| fixed(s) && !matches!(s.kind, SHT_NOBITS | SHT_NOTE);
            return if elf.sections().any(|s| constants(&s)) { Constant::Other } else { Constant::NotHere };
        }
        // An ELF without section headers.
        None => {
            let holds = |p: &Segment| Region { start: p.vaddr, len: p.filesz }.contains(at);
            let fixed = |p: &Segment| p.kind == PT_LOAD && p.flags & PF_W == 0;
            let Some(segment) = elf.segments().find(|p| fixed(p) && holds(p)) else { return Constant::Other };
            (segment.vaddr, elf.segment_bytes(&segment))
        }
    };
    let rest = at.checked_sub(start).and_then(|into| bytes.get(usize::try_from(into).ok()?..));
    let text = rest.and_then(|rest| rest.get(..rest.iter().take(LONGEST).position(|b| *b == 0)?));
    text.map_or(Constant::Other, |text| Constant::Text(text.to_vec()))
}

/// True where a string is a name of the registry, which cuts long ones.
fn is_name(text: &[u8], name: &str) -> bool {
    let text = String::from_utf8_lossy(text);
    text == name || (name.len() >= 31 && text.starts_with(name))
}

/// A string of at most `max` bytes; what follows its end need not be readable.
fn text_at(memory: &mut dyn Memory, address: u64, max: usize) -> Option<String> {
    let mut text = Vec::new();
    let mut at = address;
    while text.len() < max {
        let bytes = memory.read_bytes(at, 16).or_else(|_| memory.read_bytes(at, 1)).ok()?;
        match bytes.iter().position(|b| *b == 0) {
            Some(end) => {
                text.extend_from_slice(bytes.get(..end)?);
                break;
            }
            None => text.extend_from_slice(&bytes),
        }
        at = at.checked_add(bytes.len() as u64)?;
    }
    text.truncate(max);
    (!text.is_empty() && text.is_ascii()).then(|| String::from_utf8_lossy(&text).into_owned())
}
