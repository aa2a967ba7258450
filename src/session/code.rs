//! Whether the code in memory is the ELF's: its build id and some of its bytes, held against those at the same addresses.

use crate::abi::Addr;
use crate::elf::{Elf, PF_W, PF_X, PT_LOAD, SHF_ALLOC, SHF_EXECINSTR, SHF_TLS, SHF_WRITE, SHT_NOTE, Section, Segment};
use crate::mem::Memory;
use crate::trace::{Issue, Place, Severity};

/// What shows whether the code in memory is the ELF's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodeMatch {
    /// Whether memory holds the ELF's build id; `None` where either has none.
    pub build_id: Option<bool>,
    /// Samples that are the same in memory and ELF.
    pub same: usize,
    /// Samples that could be compared.
    pub compared: usize,
    /// The first that differs.
    pub first: Option<Addr>,
}

/// How many samples are taken, spread evenly over the code.
const SAMPLES: u64 = 8;
/// Bytes of a sample.
const LEN: u64 = 256;
/// Bytes of the smallest sample that shows anything.
const LEAST: usize = 32;

impl CodeMatch {
    /// True where nothing differs.
    #[must_use]
    pub fn holds(self) -> bool {
        self.first.is_none() && self.build_id != Some(false)
    }

    /// True for the ELF of another build: its build id is another, or, where none is known, most of the code.
    #[must_use]
    pub fn is_another(self) -> bool {
        self.build_id.map_or(self.same.saturating_mul(2) < self.compared, |same| !same)
    }

    /// True where thread names can still show another build.
    #[must_use]
    pub fn leaves_open(self) -> bool {
        self.holds() && self.build_id.is_none()
    }

    /// In words: `8 of 8 samples of code agree`.
    #[must_use]
    pub fn describe(self) -> String {
        let samples = format!("{} of {} samples of code agree", self.same, self.compared);
        match (self.build_id, self.compared) {
            (None, _) => samples,
            (Some(same), n) => {
                let id = if same { "the build id is the same" } else { "the build id is another" };
                if n == 0 { id.to_owned() } else { format!("{id}, {samples}") }
            }
        }
    }

    /// The sentence that a mismatch deserves.
    #[must_use]
    pub fn issue(self) -> Option<Issue> {
        if self.holds() {
            return None;
        }
        let why = if self.is_another() {
            "this ELF is of another build; names and lines from it are wrong"
        } else if self.build_id.is_some() {
            "some of its code was changed in memory"
        } else {
            "this ELF is of another build, or some of its code was changed in memory; names and lines from it may be wrong"
        };
        let first = self.first.map_or(String::new(), |at| format!(" (the first that differs lies at {at:#x})"));
        let issue = Issue::new("elf-mismatch", Severity::Inferred, format!("{}{first}: {why}", self.describe()));
        Some(self.first.map_or(issue.clone(), |at| issue.at(Place::address(at))))
    }
}

/// A stretch of code in the ELF.
struct Code {
    /// Its address as linked.
    start: Addr,
    bytes: crate::bytes::Bytes,
}

/// Compares samples of the ELF's code with memory. `None` where either has none of it. Memory that is all one byte was
/// erased, or could not be read, and shows nothing.
pub fn compare(memory: &mut dyn Memory, elf: &Elf, load_offset: u64) -> Option<CodeMatch> {
    let code = code(elf);
    let samples = samples(&code);
    let at = |address: Addr| address.wrapping_add(load_offset) & elf.width().max();
    let wanted: Vec<(Addr, usize)> = samples.iter().map(|(address, ours)| (at(*address), ours.len())).collect();
    let build_id = same_build_id(memory, elf, load_offset);
    let mut found = CodeMatch { build_id, same: 0, compared: 0, first: None };
    for ((address, ours), there) in samples.iter().zip(memory.read_batch(&wanted)) {
        let Some(there) = there.ok().filter(|bytes| !is_uniform(bytes)) else { continue };
        found.compared = found.compared.saturating_add(1);
        if is_same(ours, &there) {
            found.same = found.same.saturating_add(1);
        } else if found.first.is_none() {
            found.first = Some(at(*address));
        }
    }
    (found.compared > 0 || build_id.is_some()).then_some(found)
}

/// Whether memory holds the ELF's build id where it belongs; `None` where either has none.
fn same_build_id(memory: &mut dyn Memory, elf: &Elf, load_offset: u64) -> Option<bool> {
    let id = elf.build_id()?;
    let notes = elf.sections().filter(|s| s.kind == SHT_NOTE && s.flags & SHF_ALLOC != 0);
    notes.into_iter().find_map(|section| {
        let ours = elf.section_bytes(&section);
        let head = ours.len().checked_sub(id.len()).filter(|_| ours.ends_with(&id))?;
        let at = section.addr.wrapping_add(load_offset) & elf.width().max();
        let there = memory.read_bytes(at, ours.len()).ok()?;
        // Where the note's own header is not there, the note was not loaded, and shows nothing.
        (there.get(..head) == ours.get(..head)).then(|| *there == *ours)
    })
}

/// A debugger's breakpoints replace a few bytes; other code differs in most of them.
fn is_same(ours: &[u8], there: &[u8]) -> bool {
    let differ = ours.iter().zip(there).filter(|(a, b)| a != b).count();
    differ.saturating_mul(8) <= ours.len()
}

fn is_uniform(bytes: &[u8]) -> bool {
    bytes.iter().all(|b| Some(b) == bytes.first())
}

/// What the program executes and does not write, where it runs: its sections, else its segments. What shares its addresses
/// with something else (an overlay, an object file that is not linked) is in memory only at times.
fn code(elf: &Elf) -> Vec<Code> {
    let mut sections: Vec<Section> = elf.sections().filter(is_in_memory).collect();
    if sections.is_empty() {
        let fixed = |p: &Segment| p.kind == PT_LOAD && p.flags & PF_X != 0 && p.flags & PF_W == 0;
        return elf.segments().filter(fixed).map(|p| Code { start: p.vaddr, bytes: elf.segment_bytes(&p) }).collect();
    }
    sections.sort_by_key(|s| s.addr);
    let mut all = Vec::new();
    let mut end = 0;
    for (i, section) in sections.iter().enumerate() {
        let next = sections.get(i.saturating_add(1)).map_or(u64::MAX, |s| s.addr);
        let own_end = section.addr.saturating_add(section.size);
        let alone = section.addr >= end && own_end <= next;
        end = end.max(own_end);
        if alone && section.flags & SHF_EXECINSTR != 0 && section.flags & SHF_WRITE == 0 {
            all.push(Code { start: section.addr, bytes: elf.section_bytes(section) });
        }
    }
    all
}

fn is_in_memory(section: &Section) -> bool {
    section.flags & SHF_ALLOC != 0 && section.flags & SHF_TLS == 0 && section.size > 0
}

/// Samples spread over the code: the address as linked, and the bytes. Fill between functions shows nothing.
fn samples(code: &[Code]) -> Vec<(Addr, &[u8])> {
    let len = |c: &Code| u64::try_from(c.bytes.len()).unwrap_or(0);
    let total = code.iter().fold(0u64, |n, c| n.saturating_add(len(c)));
    let count = total.checked_div(LEN).unwrap_or(0).clamp(1, SAMPLES);
    let step = total.checked_div(count).unwrap_or(0);
    let mut all: Vec<(Addr, &[u8])> = Vec::new();
    for i in 0..count {
        let mut into = step.saturating_mul(i).saturating_add(step.saturating_sub(LEN) >> 1);
        for part in code {
            if into >= len(part) {
                into = into.saturating_sub(len(part));
                continue;
            }
            let from = into & !3;
            let size = len(part).saturating_sub(from).min(LEN);
            let range = usize::try_from(from).ok().zip(usize::try_from(size).ok());
            let bytes = range.and_then(|(from, size)| part.bytes.get(from..from.checked_add(size)?));
            if let Some(bytes) = bytes.filter(|b| b.len() >= LEAST && !is_uniform(b)) {
                all.push((part.start.wrapping_add(from), bytes));
            }
            break;
        }
    }
    all
}
