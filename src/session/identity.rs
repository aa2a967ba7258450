//! Whether ELF and memory match, and which kernel runs.

use super::Session;
use super::code::{self, CodeMatch, Compared};
use super::entries::Entries;
use crate::abi::{Endian, Width};
use crate::bytes::Bytes;
use crate::catalogue::Names;
use crate::code::Code;
use crate::elf::{Elf, PF_W, PT_LOAD, SHF_ALLOC, SHF_WRITE, SHT_NOBITS, SHT_NOTE, Section, Segment};
use crate::format::{DecodeOptions, Extent};
use crate::kernel::Layout;
use crate::mem::Memory;
use crate::sym::Symbols;
use crate::trace::{Issue, Trace};

/// What memory and ELF say of the program.
#[derive(Debug, Clone, Default)]
pub struct Identity {
    /// The kernel's version string.
    pub version: Option<String>,
    /// The enable mask.
    pub enable_bits: Option<u64>,
    /// How many thread names agree between memory and ELF.
    pub agreement: Option<Agreement>,
    /// How many thread entries are functions of the ELF.
    pub entries: Option<Entries>,
    /// How much of the code does.
    pub code: Option<CodeMatch>,
}

impl Identity {
    /// The thread names, unless code decides.
    pub(super) fn names(&self) -> Option<Agreement> {
        self.agreement.filter(|_| self.code.is_none_or(CodeMatch::leaves_open))
    }

    /// The thread entries, unless code decides.
    fn entries(&self) -> Option<&Entries> {
        self.entries.as_ref().filter(|_| self.code.is_none_or(CodeMatch::leaves_open))
    }

    /// True where something shows that the ELF is of another build: then nothing follows from what lies at its addresses.
    #[must_use]
    pub fn is_another(&self) -> bool {
        self.code.is_some_and(CodeMatch::is_another)
            || self.names().is_some_and(|names| !names.holds())
            || self.entries().is_some_and(Entries::is_another)
    }

    /// The sentence that a mismatch deserves: what is sure before what is not, code before names before entries.
    #[must_use]
    pub fn issue(&self) -> Option<Issue> {
        let sure = self.code.filter(|code| code.is_another()).and_then(CodeMatch::issue);
        let sure = sure.or_else(|| self.names()?.issue());
        let sure = sure.or_else(|| self.entries().filter(|e| e.is_another())?.issue());
        sure.or_else(|| self.code?.issue()).or_else(|| self.entries()?.issue())
    }
}

/// Thread control blocks point to their names, which lie in the program's constants: under the ELF of another build
/// they read as something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Agreement {
    /// Names that are the same in the registry and behind the control block's pointer.
    pub same: usize,
    /// Names that could be compared.
    pub compared: usize,
}

impl Agreement {
    /// True where the ELF is of the program in memory. One renamed thread is a change of source; most names wrong is
    /// another layout.
    #[must_use]
    pub const fn holds(self) -> bool {
        self.same.saturating_mul(2) > self.compared
    }

    /// The sentence that a mismatch deserves.
    #[must_use]
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

/// The most threads whose names are compared.
const MOST: usize = 32;
/// Bytes of a control block that are looked at: the name's pointer lay at 40 to 128 in the kernels that were measured.
const BLOCK: usize = 160;
/// The first word of a thread's control block: `THRD`.
const THREAD_MARK: u64 = 0x5448_5244;
/// The member that holds a thread's function.
const ENTRY: &str = "tx_thread_entry";
/// The longest version string.
const LONGEST: usize = 160;

impl Session<'_> {
    /// Reads what shows whether ELF and memory match. Costs reads: for `info`, not for `last`.
    pub fn identity(&mut self, trace: &Trace) -> Identity {
        let endian = trace.about.endian;
        let mut identity = Identity { version: self.kernel_version(), ..Identity::default() };
        if let Some(symbol) = self.symbols.lookup("_tx_trace_event_enable_bits") {
            let width = Width::from_bytes(symbol.size).unwrap_or(trace.about.word);
            identity.enable_bits = word_at(self.memory.memory(), symbol.address, endian, width);
        }
        identity.agreement = self.agreement(trace);
        identity.entries = self.entries(trace);
        identity.code = self.code_match();
        identity
    }

    /// What thread names and the code of files show: it costs no read of a live target.
    pub(super) fn by_names(&mut self, trace: &Trace) -> Identity {
        let agreement = if self.is_live() { None } else { self.agreement(trace) };
        Identity { agreement, code: self.code.found(), ..Identity::default() }
    }

    /// How much of the code in memory is the ELF's. Costs reads of a live target, and none of files.
    pub fn code_match(&mut self) -> Option<CodeMatch> {
        if let Compared::Was(found) = self.code {
            return found;
        }
        let elf = self.elf.clone()?;
        let found = code::compare(self.memory.memory(), &elf, self.load_offset);
        self.code = Compared::Was(found);
        found
    }

    /// What shows that the ELF is not that of the program in memory: byte order, build id, kernel version, code, or names
    /// or entries of threads. `None` where nothing shows it; that is no proof that they match.
    pub fn mismatch(&mut self) -> Option<String> {
        let elf = self.elf.clone()?;
        let code = self.code_match();
        if code.is_some_and(|c| c.build_id == Some(true)) {
            return None;
        }
        if let Some(issue) = code.filter(|c| c.is_another()).and_then(CodeMatch::issue) {
            return Some(issue.message);
        }
        if let Some((ours, there)) = self.other_version(&elf) {
            return Some(format!(
                "the kernel in memory says \"{there}\", the ELF \"{ours}\": this ELF is of another program"
            ));
        }
        let loaded = self.load(Extent::Nothing, Names::default(), &DecodeOptions::default()).ok()?;
        let issue = super::other_order(&elf, &loaded.trace);
        let issue = issue.or_else(|| self.agreement(&loaded.trace)?.issue());
        issue.or_else(|| self.entries(&loaded.trace)?.issue()).map(|issue| issue.message)
    }

    /// The version strings of the kernel in the ELF and in memory, where they differ.
    fn other_version(&mut self, elf: &Elf) -> Option<(String, String)> {
        let symbol = self.symbols.lookup("_tx_version_id")?;
        let Constant::Text(ours) = constant(elf, symbol.address, self.load_offset.value) else { return None };
        let ours = String::from_utf8(ours).ok()?;
        let there = self.kernel_version()?;
        (!there.starts_with(ours.get(..LONGEST).unwrap_or(&ours))).then_some((ours, there))
    }

    /// The kernel's version string.
    pub fn kernel_version(&mut self) -> Option<String> {
        let symbol = self.symbols.lookup("_tx_version_id")?;
        text_at(self.memory.memory(), symbol.address, LONGEST)
    }

    /// Holds the names of threads in memory against the ELF's constants. `None` where they cannot be compared: addresses
    /// are cut, control blocks are not there, or names lie in RAM.
    pub(super) fn agreement(&mut self, trace: &Trace) -> Option<Agreement> {
        let elf = self.elf.clone()?;
        let pointer = elf.width();
        // Truncated addresses cannot be followed.
        if pointer != trace.about.word {
            return None;
        }
        let blocks = self.control_blocks(trace, pointer);
        // Ports and options of the kernel move the name's pointer: it lies where most names are right. Only where they are
        // not, the debug information is asked, which in a large program takes longer than all else.
        let endian = trace.about.endian;
        let load_offset = self.load_offset.value;
        let score = |offset: usize| {
            let mut score = Agreement { same: 0, compared: 0 };
            for (name, block) in &blocks {
                let at = endian.word(pointer, block, offset);
                let there = at.map_or(Constant::NotHere, |at| constant(&elf, at, load_offset));
                let same = matches!(&there, Constant::Text(text) if is_name(text, name));
                score.same = score.same.saturating_add(usize::from(same));
                score.compared = score.compared.saturating_add(usize::from(!matches!(there, Constant::NotHere)));
            }
            score
        };
        let all: Vec<usize> = (0..BLOCK).step_by(pointer.bytes()).collect();
        let best = all.iter().map(|at| score(*at)).max_by_key(|s| s.same);
        if let Some(best) = best.filter(|b| b.holds()) {
            return Some(best);
        }
        let told = self.symbols.member_offset("TX_THREAD_STRUCT", "tx_thread_name");
        let told = told.and_then(|o| usize::try_from(o).ok());
        // Names that the program made up as it ran are in no ELF, and say nothing of it. Two threads are enough.
        let some = blocks.get(..2.min(blocks.len())).unwrap_or(&[]);
        let in_ram = |offset: &usize| {
            some.iter().all(|(name, block)| {
                let Some(at) = endian.word(pointer, block, *offset) else { return false };
                // A name among what the ELF has for constants is no such name, whatever memory has there.
                let made_up = !matches!(constant(&elf, at, load_offset), Constant::Text(_));
                let text = text_at(self.memory.memory(), at, LONGEST).filter(|_| made_up);
                text.is_some_and(|text| is_name(text.as_bytes(), name))
            })
        };
        if told.map_or(all, |at| vec![at]).iter().any(in_ram) {
            return None;
        }
        // What cannot be compared is no disagreement.
        let usual = Layout::measured(Some(endian), Some(pointer)).into_iter().filter_map(|l| name_offset(&l));
        let offsets: Vec<usize> = told.map_or_else(|| usual.collect(), |at| vec![at]);
        let best = offsets.into_iter().map(score).max_by_key(|s| (s.same, s.compared));
        best.filter(|b| b.compared > 0)
    }

    /// Holds the entries of threads in memory against the ELF's functions. `None` where they cannot be compared.
    fn entries(&mut self, trace: &Trace) -> Option<Entries> {
        let elf = self.elf.clone()?;
        let pointer = elf.width();
        if pointer != trace.about.word {
            return None;
        }
        let endian = trace.about.endian;
        let blocks = self.control_blocks(trace, pointer);
        let told = self.symbols.member_offset("TX_THREAD_STRUCT", ENTRY);
        let usual =
            || Layout::measured(Some(endian), Some(pointer)).iter().filter_map(|l| l.thread.offset(ENTRY)).collect();
        let offsets: Vec<u64> = told.map_or_else(usual, |at| vec![at]);
        let at = |offset: u64| {
            let offset = usize::try_from(offset).ok()?;
            let entries = blocks.iter().filter_map(|(_, block)| endian.word(pointer, block, offset));
            Entries::of(&elf, self.load_offset, entries)
        };
        offsets.into_iter().filter_map(at).max_by_key(|e| (e.same, e.compared))
    }

    /// The control blocks of live threads with the names that the trace has for them: only those that begin as one does.
    fn control_blocks(&mut self, trace: &Trace, pointer: Width) -> Vec<(String, Bytes)> {
        let named = |o: &&crate::trace::Object| o.is_thread && !o.deleted && !o.name.is_empty();
        let threads: Vec<_> = trace.objects.iter().filter(named).take(MOST).collect();
        let wanted: Vec<(u64, usize)> = threads.iter().map(|o| (o.address, BLOCK)).collect();
        let read = self.memory.memory().read_batch(&wanted);
        let begins = |bytes: &Bytes| {
            // The mark is a ULONG, of the width of a stored word.
            trace.about.endian.word(pointer, bytes, 0) == Some(THREAD_MARK)
        };
        let blocks = threads.iter().zip(read).filter_map(|(o, r)| Some((o.name.clone(), r.ok()?)));
        blocks.filter(|(_, bytes)| begins(bytes)).collect()
    }
}

/// What the ELF has at a run-time address among what the program does not write.
fn constant(elf: &Elf, at: u64, load_offset: u64) -> Constant {
    let at = at.wrapping_sub(load_offset);
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
            let holds = |p: &Segment| at.checked_sub(p.vaddr).is_some_and(|into| into < p.filesz);
            let fixed = |p: &Segment| p.kind == PT_LOAD && p.flags & PF_W == 0;
            let Some(segment) = elf.segments().find(|p| fixed(p) && holds(p)) else { return Constant::Other };
            (segment.vaddr, elf.segment_bytes(&segment))
        }
    };
    let rest = usize::try_from(at.wrapping_sub(start)).ok().and_then(|into| bytes.get(into..));
    let text = rest.and_then(|rest| rest.get(..rest.iter().take(LONGEST).position(|b| *b == 0)?));
    text.map_or(Constant::Other, |text| Constant::Text(text.to_vec()))
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

/// Where a layout has the pointer to a thread's name.
fn name_offset(layout: &Layout) -> Option<usize> {
    usize::try_from(layout.thread.offset("tx_thread_name")?).ok()
}

/// True where a string is a name of the registry, which cuts long ones.
fn is_name(text: &[u8], name: &str) -> bool {
    let text = String::from_utf8_lossy(text);
    text == name || (name.len() >= 31 && text.starts_with(name))
}

fn word_at(memory: &mut dyn Memory, address: u64, endian: Endian, width: Width) -> Option<u64> {
    let bytes = memory.read_bytes(address, width.bytes()).ok()?;
    endian.word(width, &bytes, 0)
}

/// A string of at most `most` bytes; what lies behind its end need not be readable.
fn text_at(memory: &mut dyn Memory, address: u64, most: usize) -> Option<String> {
    let mut text = Vec::new();
    let mut at = address;
    while text.len() < most {
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
    text.truncate(most);
    (!text.is_empty() && text.is_ascii()).then(|| String::from_utf8_lossy(&text).into_owned())
}
