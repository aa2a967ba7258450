//! Whether the code in memory is the ELF's: its build id and some of its bytes are compared with those in memory.

use super::LoadOffset;
use crate::abi::Addr;
use crate::bytes::Bytes;
use crate::code::Code;
use crate::elf::{
    Elf, ElfKind, PF_W, PF_X, PT_LOAD, SHF_ALLOC, SHF_EXECINSTR, SHF_TLS, SHF_WRITE, SHT_NOTE, Section, Segment,
};
use crate::mem::{Memory, Region};
use crate::trace::{Issue, Place};

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

/// Whether that is known of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compared {
    /// Not yet: memory has nothing of the ELF's own bytes in it, and can be asked.
    #[default]
    Not,
    /// When files were opened. After them are the ELF's own bytes by now.
    Was(Option<CodeMatch>),
}

impl Compared {
    /// What was found, where it was compared.
    pub(super) const fn found(self) -> Option<CodeMatch> {
        match self {
            Self::Not => None,
            Self::Was(found) => found,
        }
    }
}

/// How many samples are taken, spread evenly over the code.
const SAMPLES: usize = 8;
/// Bytes of the first sample.
const LEN: usize = 256;
/// Each sample is so much shorter than the one before: a client that keeps reads of different lengths in flight together
/// needs no question between them to keep their answers apart.
const SHORTER: usize = 4;
/// Bytes of the smallest sample that shows anything.
const MIN_LEN: usize = 32;

impl CodeMatch {
    /// True where nothing differs.
    pub fn holds(self) -> bool {
        self.first.is_none() && self.build_id != Some(false)
    }

    /// True for the ELF of another build: its build id is another, or, where none is known, most of the code.
    pub fn is_another(self) -> bool {
        self.build_id.map_or(self.same < self.compared.div_ceil(2), |same| !same)
    }

    /// True where code differs, and no build id shows that the ELF is that of the program all the same.
    pub(super) fn may_be_another(self) -> bool {
        !self.holds() && self.build_id != Some(true)
    }

    /// True where thread names and entries can still show another build.
    pub(super) fn leaves_open(self) -> bool {
        self.build_id.is_none() && !self.is_another()
    }

    /// In words: `8 of 8 samples of code agree`.
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

    /// The issue of a mismatch.
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
        let first = self.first.map_or(String::new(), |at| format!(" (the first that differs is at {at:#x})"));
        let issue = Issue::new(Code::ElfMismatch, format!("{}{first}: {why}", self.describe()));
        Some(self.first.map_or(issue.clone(), |at| issue.at(Place::address(at))))
    }
}

/// A range of code in the ELF.
struct CodeRange {
    /// Its address as linked.
    start: Addr,
    bytes: Bytes,
}

/// Compares the ELF's build id and samples of its code with memory, read in one flight. `None` where either has none of it.
/// Memory that is all one byte was erased, or could not be read, and shows nothing.
#[allow(clippy::arithmetic_side_effects, reason = "counts samples, of which there are eight")]
pub(super) fn compare(memory: &mut dyn Memory, elf: &Elf, load: LoadOffset) -> Option<CodeMatch> {
    if elf.kind() == ElfKind::Dyn && load.how.is_empty() {
        // Where it was loaded is not known.
        return None;
    }
    let code = code(elf);
    let samples = samples(&code);
    let notes = build_id_notes(elf);
    let at = |address: Addr| elf.width().moved(address, load.value);
    let notes_at = notes.iter().map(|note| (at(note.start), note.bytes.len()));
    let wanted: Vec<(Addr, usize)> =
        notes_at.chain(samples.iter().map(|(address, ours)| (at(*address), ours.len()))).collect();
    let mut read = memory.read_batch(&wanted).into_iter();
    let there = notes.iter().zip(read.by_ref()).filter_map(|(note, there)| note.is_same(&there.ok()?));
    let build_id = there.collect::<Vec<bool>>().first().copied();
    let mut found = CodeMatch { build_id, same: 0, compared: 0, first: None };
    for ((address, ours), there) in samples.iter().zip(read) {
        let Some(there) = there.ok().filter(|bytes| !is_uniform(bytes)) else { continue };
        found.compared += 1;
        if is_same(ours, &there) {
            found.same += 1;
        } else if found.first.is_none() {
            found.first = Some(at(*address));
        }
    }
    (found.compared > 0 || build_id.is_some()).then_some(found)
}

/// The section of a build id, in memory as linked.
struct IdNote {
    start: Addr,
    bytes: Bytes,
    /// Bytes of the note before the id.
    head: usize,
}

impl IdNote {
    /// Whether memory has the same id; `None` where not even the note's own header is there: it was not loaded.
    fn is_same(&self, there: &[u8]) -> Option<bool> {
        (there.get(..self.head) == self.bytes.get(..self.head)).then(|| *there == *self.bytes)
    }
}

/// The sections in memory that end with the ELF's build id.
fn build_id_notes(elf: &Elf) -> Vec<IdNote> {
    let Some(id) = elf.build_id() else { return Vec::new() };
    let notes = elf.sections().filter(|s| s.kind == SHT_NOTE && s.flags & SHF_ALLOC != 0);
    let of = |section: Section| {
        let bytes = elf.section_bytes(&section);
        let head = bytes.len().checked_sub(id.len()).filter(|_| bytes.ends_with(&id))?;
        Some(IdNote { start: section.addr, bytes, head })
    };
    notes.filter_map(of).collect()
}

/// A debugger's breakpoints replace a few bytes; other code differs in most of them.
fn is_same(ours: &[u8], there: &[u8]) -> bool {
    let differ = ours.iter().zip(there).filter(|(a, b)| a != b).count();
    differ <= ours.len() / 8
}

fn is_uniform(bytes: &[u8]) -> bool {
    bytes.iter().all(|b| Some(b) == bytes.first())
}

/// What the program executes and does not write, where it runs: its sections, else its segments. What shares its addresses
/// with something else (an overlay, an object file that is not linked) is in memory only at times.
fn code(elf: &Elf) -> Vec<CodeRange> {
    let mut sections: Vec<Section> = elf.sections().filter(is_in_memory).collect();
    if sections.is_empty() {
        let fixed = |p: &Segment| p.kind == PT_LOAD && p.flags & PF_X != 0 && p.flags & PF_W == 0;
        return elf
            .segments()
            .filter(fixed)
            .map(|p| CodeRange { start: p.vaddr, bytes: elf.segment_bytes(&p) })
            .collect();
    }
    sections.sort_by_key(|s| s.addr);
    let mut all = Vec::new();
    // The highest last address of the sections before.
    let mut before: Option<Addr> = None;
    for (i, section) in sections.iter().enumerate() {
        let Some(last) = (Region { start: section.addr, len: section.size }).last() else { continue };
        let overlaps_next = sections.get(i..).and_then(|rest| rest.get(1)).is_some_and(|next| next.addr <= last);
        let alone = before.is_none_or(|before| before < section.addr) && !overlaps_next;
        before = before.max(Some(last));
        if alone && section.flags & SHF_EXECINSTR != 0 && section.flags & SHF_WRITE == 0 {
            all.push(CodeRange { start: section.addr, bytes: elf.section_bytes(section) });
        }
    }
    all
}

fn is_in_memory(section: &Section) -> bool {
    section.flags & SHF_ALLOC != 0 && section.flags & SHF_TLS == 0 && section.size > 0
}

/// Samples spread over the code: the address as linked, and the bytes. Fill between functions shows nothing.
#[allow(
    clippy::arithmetic_side_effects,
    reason = "offsets in code that is held in memory; no sample is longer than LEN"
)]
fn samples(code: &[CodeRange]) -> Vec<(Addr, &[u8])> {
    let total: usize = code.iter().map(|part| part.bytes.len()).sum();
    let count = (total / LEN).clamp(1, SAMPLES);
    let step = total / count;
    let mut all: Vec<(Addr, &[u8])> = Vec::new();
    for i in 0..count {
        let mut into = step * i + step.saturating_sub(LEN) / 2;
        for part in code {
            if into >= part.bytes.len() {
                into -= part.bytes.len();
                continue;
            }
            let from = into & !3;
            let rest = part.bytes.get(from..).unwrap_or_default();
            let bytes = rest.get(..LEN - SHORTER * i).unwrap_or(rest);
            if bytes.len() >= MIN_LEN && !is_uniform(bytes) {
                all.push((part.start.wrapping_add(from as u64), bytes));
            }
            break;
        }
    }
    all
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "tests say what they expect by failing")]
mod tests {
    use super::*;
    use crate::elf::tests::writer::{Writer, load, sect};
    use crate::mem::segments::{Block, Segments};

    const NOBITS: u32 = 8;
    const ALLOC: u64 = 2;
    const CODE: u64 = 6;
    const TEXT: u64 = 0x0800_0000;

    /// Bytes that look like code: no two ranges are alike.
    fn noise(seed: u64, len: usize) -> Vec<u8> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        };
        (0..len).map(|_| next()).collect()
    }

    fn writer(wide: bool, big: bool) -> Writer {
        let mut writer = Writer::new(wide, big, 2, 40);
        writer.sects = vec![sect(".text", 1, CODE, TEXT, noise(1, 0x4000))];
        writer
    }

    fn matched(writer: &Writer, at: u64, memory: Vec<u8>, offset: u64) -> Option<CodeMatch> {
        let mut memory = Segments::new(vec![Block::whole(at, Bytes::from(memory))]);
        compare(&mut memory, &Elf::open(writer.build()).unwrap(), LoadOffset { value: offset, how: "a test" })
    }

    fn counts(found: Option<CodeMatch>) -> (usize, usize) {
        found.map_or((0, 0), |f| (f.same, f.compared))
    }

    #[test]
    fn code_of_another_build_was_accepted_without_a_word() {
        for (wide, big) in [(false, false), (false, true), (true, false), (true, true)] {
            let writer = writer(wide, big);
            let own = matched(&writer, TEXT, noise(1, 0x4000), 0).unwrap();
            assert_eq!((own.same, own.compared, own.holds(), own.issue()), (8, 8, true, None));
            let other = matched(&writer, TEXT, noise(2, 0x4000), 0).unwrap();
            assert_eq!((other.same, other.compared, other.is_another()), (0, 8, true));
            let issue = other.issue().unwrap();
            assert_eq!((issue.code, issue.severity), (Code::ElfMismatch, crate::trace::Severity::Inferred));
            assert!(issue.message.contains("0 of 8 samples of code agree") && issue.message.contains("another build"));
            // Alike up to a function that grew by a word.
            let mut grown = noise(1, 0x4000);
            grown.splice(0x2000..0x2000, [1, 2, 3, 4]);
            let some = matched(&writer, TEXT, grown, 0).unwrap();
            assert_eq!((some.same, some.compared, some.is_another(), some.holds()), (4, 8, false, false));
            assert!(some.issue().unwrap().message.contains("or some of its code was changed in memory"));
        }
    }

    /// Where a debugger stops the program it replaces instructions.
    #[test]
    fn breakpoints_are_no_other_build() {
        let mut memory = noise(1, 0x4000);
        for at in (0..0x4000).step_by(64) {
            memory[at..at + 4].copy_from_slice(&[0, 0xBE, 0, 0xBE]);
        }
        assert_eq!(counts(matched(&writer(false, false), TEXT, memory, 0)), (8, 8));
    }

    #[test]
    fn what_is_not_there_is_not_compared() {
        let writer = writer(false, false);
        assert_eq!(matched(&writer, 0x2000_0000, noise(1, 0x4000), 0), None, "a dump of RAM");
        for erased in [0, 0xFF] {
            assert_eq!(matched(&writer, TEXT, vec![erased; 0x4000], 0), None, "flash that was erased or refused");
        }
        assert_eq!(counts(matched(&writer, TEXT, noise(1, 0x1000), 0)), (2, 2), "the first quarter");
        // An ELF of debug information alone.
        let mut debug = writer.clone();
        debug.sects = vec![sect(".text", NOBITS, CODE, TEXT, noise(3, 0x4000))];
        assert_eq!(matched(&debug, TEXT, noise(1, 0x4000), 0), None);
        let mut constants = writer.clone();
        constants.sects = vec![sect(".rodata", 1, ALLOC, TEXT, noise(3, 0x4000))];
        assert_eq!(matched(&constants, TEXT, noise(1, 0x4000), 0), None);
    }

    /// Overlays take turns at one address; objects that are not linked all are at 0.
    #[test]
    fn sections_that_share_addresses_are_not_compared() {
        let mut writer = writer(false, false);
        let overlay = |seed| sect(".overlay", 1, CODE, 0x2000_0000, noise(seed, 0x1000));
        writer.sects.extend([overlay(5), overlay(6)]);
        let found = matched(&writer, 0x2000_0000, noise(7, 0x1000), 0);
        assert_eq!(found, None);
        assert_eq!(counts(matched(&writer, TEXT, noise(1, 0x4000), 0)), (8, 8));
    }

    #[test]
    fn code_is_compared_where_it_was_loaded() {
        let writer = writer(true, false);
        let offset = 0x5555_0000_0000;
        assert_eq!(counts(matched(&writer, TEXT + offset, noise(1, 0x4000), offset)), (8, 8));
        assert_eq!(matched(&writer, TEXT + offset, noise(1, 0x4000), 0), None);
        // It is not known where a program that moves was loaded.
        let moves = Elf::open(Writer { kind: 3, ..writer }.build()).unwrap();
        let mut memory = Segments::new(vec![Block::whole(TEXT, Bytes::from(noise(2, 0x4000)))]);
        assert_eq!(compare(&mut memory, &moves, LoadOffset::default()), None);
    }

    #[test]
    fn an_elf_without_sections_is_compared_by_its_segments() {
        let mut writer = Writer::new(false, true, 2, 20);
        writer.segs = vec![load(TEXT, 5, noise(1, 0x4000)), load(0x1000, 6, noise(2, 0x4000))];
        assert_eq!(counts(matched(&writer, TEXT, noise(1, 0x4000), 0)), (8, 8));
        assert_eq!(counts(matched(&writer, TEXT, noise(4, 0x4000), 0)), (0, 8));
        assert_eq!(matched(&writer, 0x1000, noise(4, 0x4000), 0), None, "what it writes is not compared");
    }

    #[test]
    fn a_build_id_decides() {
        let id = |n: u8| {
            let mut note = Writer::new(false, false, 2, 40);
            note.notes = vec![("GNU", 3, vec![n; 20])];
            note.note_bytes()
        };
        let mut writer = writer(false, false);
        writer.sects.push(sect(".note.gnu.build-id", 7, ALLOC, TEXT + 0x4000, id(1)));
        let memory = |code: u64, n| [noise(code, 0x4000), id(n)].concat();
        let own = matched(&writer, TEXT, memory(1, 1), 0).unwrap();
        assert_eq!((own.build_id, own.holds(), own.leaves_open()), (Some(true), true, false));
        // The same code, as far as the samples reach.
        let other = matched(&writer, TEXT, memory(1, 2), 0).unwrap();
        assert_eq!((other.build_id, other.holds(), other.is_another()), (Some(false), false, true));
        assert!(other.issue().unwrap().message.starts_with("the build id is another, 8 of 8"));
        let changed = matched(&writer, TEXT, memory(2, 1), 0).unwrap();
        assert_eq!((changed.holds(), changed.is_another()), (false, false));
        assert!(changed.issue().unwrap().message.ends_with("some of its code was changed in memory"));
        // Something else is where the note should be.
        let none = matched(&writer, TEXT, noise(1, 0x5000), 0).unwrap();
        assert_eq!((none.build_id, none.holds()), (None, true));
    }

    /// Wrong sizes and addresses are bounded.
    #[test]
    fn sections_that_lie_are_survived() {
        let mut random = noise(9, 4096).into_iter().cycle();
        let whole = writer(false, false).build();
        for _ in 0..500 {
            let mut bytes = whole.clone();
            for _ in 0..8 {
                let at = usize::from(random.next().unwrap()) * 256 + usize::from(random.next().unwrap());
                let tail = bytes.len() - 1 - at % 200;
                bytes[tail] = random.next().unwrap();
                bytes[at % 64] ^= u8::from(at % 64 > 8) * random.next().unwrap();
            }
            let Ok(elf) = Elf::open(bytes) else { continue };
            let mut memory = Segments::new(vec![Block::whole(TEXT, Bytes::from(noise(1, 0x100)))]);
            let _ = compare(&mut memory, &elf, LoadOffset { value: u64::MAX, how: "a test" });
        }
    }
}
