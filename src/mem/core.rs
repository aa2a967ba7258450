//! ELF cores: the memory of a stopped target, and what its notes hold.
//!
//! Cores come from the Linux kernel, from GDB (over any stub), from QEMU's monitor and from qemu-user. What
//! they have in common is little; see [`super::segments`] for what is done about it.

use super::segments::{Block, Segments};
use super::{Memory, ReadError, Region};
use crate::abi::{Addr, Width};
use crate::bytes::Bytes;
use crate::elf::{Elf, ElfKind, Machine, PF_W, PT_LOAD, SHF_ALLOC, SHF_TLS, SHF_WRITE, SHT_NOBITS, Section, Segment};

pub(crate) const NT_PRSTATUS: u32 = 1;
pub(crate) const NT_386_TLS: u32 = 0x200;
pub(crate) const NT_AUXV: u32 = 6;
const NT_FILE: u32 = 0x4649_4C45;
const AT_PHDR: u64 = 3;
/// In an auxiliary vector: where the program begins.
pub(crate) const AT_ENTRY: u64 = 9;
/// The smallest page of any target with an MMU: what a load offset is a multiple of.
const PAGE: u64 = 4096;

/// Why an ELF file is no core.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CoreError {
    /// Another type of ELF file.
    #[error("this is an ELF program ({0}), not a core: give it as --elf")]
    NotACore(String),
    /// A core without memory in it.
    #[error("this core holds no memory: {0}")]
    NoMemory(String),
}

/// A file that was mapped into the process: one entry of `NT_FILE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MappedFile {
    /// First address.
    pub start: Addr,
    /// First address past it.
    pub end: Addr,
    /// Where in the file it begins, in bytes.
    pub offset: u64,
    /// The file's name on the machine that crashed. Hostile text: escape before printing.
    pub path: String,
}

/// A core file as memory.
pub struct Core {
    elf: Elf,
    segments: Segments,
    missing: u128,
    remarks: Vec<String>,
}

impl Core {
    /// Takes the segments of a core. Reads nothing but the program headers.
    ///
    /// # Errors
    /// When it is another type of ELF file, or no byte of memory is in it.
    pub fn open(elf: Elf) -> Result<Self, CoreError> {
        if elf.kind() != ElfKind::Core {
            return Err(CoreError::NotACore(elf.describe()));
        }
        let mut blocks: Vec<Block> = Vec::new();
        // Older QEMUs write no virtual addresses where they have none: all are 0, and the physical ones are right.
        let loaded = |p: &Segment| p.kind == PT_LOAD;
        let physical =
            elf.segments().filter(loaded).all(|p| p.vaddr == 0) && elf.segments().filter(loaded).any(|p| p.paddr != 0);
        for mut p in elf.segments().filter(loaded) {
            if physical {
                p.vaddr = p.paddr;
            }
            // Addresses past the end of the address space do not exist.
            let room = elf.width().max().checked_sub(p.vaddr);
            let fit = |len: u64| room.map_or(0, |room| if len > room { room.saturating_add(1) } else { len });
            let memory = fit(p.memsz);
            let claimed = p.filesz.min(memory);
            let held = elf.segment_bytes(&p);
            let len = usize::try_from(claimed).unwrap_or(usize::MAX).min(held.len());
            let data = held.cut(0, len).unwrap_or_else(|| Bytes::from(Vec::new()));
            blocks.push(Block { start: p.vaddr, memory, claimed, data, offset: p.offset, written: None });
        }
        let (loads, missing) = (blocks.len(), blocks.iter().map(|block| u128::from(block.cut_off())).sum());
        let segments = Segments::new(blocks);
        let mut remarks = elf.damage().to_vec();
        if physical {
            remarks.push("the core has no virtual addresses: physical addresses are used".to_owned());
        }
        if segments.mapped().is_empty() {
            let why = match loads {
                0 => "it has no PT_LOAD segment".to_owned(),
                n if missing == 0 => format!("all of its {n} segments are empty"),
                _ => format!("the core is cut short: {missing} bytes of its memory are not in the file"),
            };
            return Err(CoreError::NoMemory(why));
        }
        match segments.overlapping() {
            0 => {}
            n => remarks.push(format!("segments of the core overlap by {n} bytes: the smaller one is read")),
        }
        if let Some(Err(error)) = elf.notes().find(Result::is_err) {
            remarks.push(format!("the core's notes are damaged: {error}"));
        }
        Ok(Self { elf, segments, missing, remarks })
    }

    /// Only these parts of the file (offset and length, sorted) were ever written
    /// ([`super::map::FileMap::data_ranges`]): a search leaves out the rest.
    #[must_use]
    pub fn with_data(mut self, data: Option<&[(u64, u64)]>) -> Self {
        if let Some(data) = data {
            self.segments = std::mem::take(&mut self.segments).with_data(data);
        }
        self
    }

    /// The core as an ELF file.
    pub const fn elf(&self) -> &Elf {
        &self.elf
    }

    /// Bytes of memory that the core says it holds and the file, cut short, does not.
    pub const fn missing_bytes(&self) -> u128 {
        self.missing
    }

    /// What is imperfect about this core, one sentence each.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// The notes of one type that the system wrote (`CORE`), raw.
    fn notes(&self, kind: u32) -> impl Iterator<Item = &[u8]> + '_ {
        let ours = self.elf.notes().filter_map(Result::ok);
        ours.filter(move |n| n.kind == kind && n.name == b"CORE").map(|n| n.desc)
    }

    /// The registers of each thread or CPU, raw (`NT_PRSTATUS`), in the order of the file: the first is the one that
    /// stopped. Each with its segments of thread-local storage (`NT_386_TLS`), where the core has them.
    pub fn threads(&self) -> Vec<(&[u8], Option<&[u8]>)> {
        let mut all: Vec<(&[u8], Option<&[u8]>)> = Vec::new();
        for note in self.elf.notes().filter_map(Result::ok) {
            match (note.name, note.kind, all.last_mut()) {
                (b"CORE", NT_PRSTATUS, _) => all.push((note.desc, None)),
                (b"LINUX", NT_386_TLS, Some(thread)) => thread.1 = Some(note.desc),
                _ => {}
            }
        }
        all
    }

    /// The kernel's auxiliary vector, raw.
    pub fn auxv_bytes(&self) -> Option<&[u8]> {
        self.notes(NT_AUXV).next()
    }

    /// The kernel's auxiliary vector: type and value.
    pub fn auxv(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let (endian, width) = (self.elf.endian(), self.elf.width());
        let step = width.bytes() << 1;
        self.notes(NT_AUXV).take(1).flat_map(move |desc| {
            let entry =
                move |pair: &[u8]| Some((endian.word(width, pair, 0)?, endian.word(width, pair, width.bytes())?));
            desc.chunks_exact(step).map_while(entry).take_while(|(kind, _)| *kind != 0)
        })
    }

    /// Entry point of the program as it was loaded (`AT_ENTRY`).
    pub fn entry(&self) -> Option<Addr> {
        self.auxv().find(|(kind, _)| *kind == AT_ENTRY).map(|(_, value)| value)
    }

    /// The files that were mapped (`NT_FILE`): count, page size, then three words for each, then their names.
    pub fn mapped_files(&self) -> Vec<MappedFile> {
        self.notes(NT_FILE).next().and_then(|desc| self.parse_files(desc)).unwrap_or_default()
    }

    fn parse_files(&self, desc: &[u8]) -> Option<Vec<MappedFile>> {
        let (endian, size) = (self.elf.endian(), self.elf.width().bytes());
        let word = |n: usize| endian.word(self.elf.width(), desc, n.checked_mul(size)?);
        // A wrong count is bounded by the words that are there.
        let room = desc.len().checked_div(size)?.checked_div(3)?;
        let count = usize::try_from(word(0)?).ok()?.min(room);
        let page = word(1)?;
        let names_at = count.checked_mul(3)?.checked_add(2)?.checked_mul(size)?;
        let mut names = desc.get(names_at..)?.split(|&b| b == 0);
        let file = |i: usize| {
            let at = i.checked_mul(3)?.checked_add(2)?;
            let path = String::from_utf8_lossy(names.next()?).into_owned();
            let offset = word(at.checked_add(2)?)?.checked_mul(page)?;
            Some(MappedFile { start: word(at)?, end: word(at.checked_add(1)?)?, offset, path })
        };
        Some((0..count).map_while(file).collect())
    }

    /// Whether `elf` can be the program of this core at all; else a sentence that names both. Flags are not
    /// compared: GDB writes 0.
    pub fn disagreement(&self, elf: &Elf) -> Option<String> {
        if self.elf.same_target(elf) {
            return None;
        }
        let (core, program) = (self.elf.describe(), elf.describe());
        // qemu-user leaves two cores: the target's, and beside it the host's core of qemu itself.
        let emulator = match (self.elf.machine(), elf.machine()) {
            (Machine::X86_64, _) => true,
            (Machine::AARCH64, program) => program != Machine::X86_64,
            _ => false,
        };
        let hint = match emulator {
            true => ": is it the core of the emulator (qemu) itself? The target's own is beside it, as qemu_*.core",
            false => ": they are not of the same program",
        };
        Some(format!("this core is of {core}, the ELF is {program}{hint}"))
    }

    /// What to add to an address in `elf` to get one in this core, and how that is known. `None` where nothing
    /// shows it. Wraps: an offset below zero is a large one.
    ///
    /// In this order: a program linked to fixed addresses has none; the entry point as loaded less the entry
    /// point as linked; the program headers as loaded less as linked; the file whose mapped first page holds
    /// the ELF's build id. An offset that is no multiple of a page is a sign of another build, and not taken.
    pub fn load_offset(&mut self, elf: &Elf) -> Option<(u64, &'static str)> {
        if elf.kind() != ElfKind::Dyn {
            return Some((0, "the ELF is linked to fixed addresses"));
        }
        let width = elf.width();
        let entry = self.entry().filter(|_| elf.entry() != 0).map(|at| (at, elf.entry()));
        if let Some(offset) = entry.and_then(|(run, linked)| page_offset(run, linked, width)) {
            return Some((offset, "AT_ENTRY of the core less the ELF's entry point"));
        }
        let headers = self.auxv().find(|(kind, _)| *kind == AT_PHDR);
        // PT_PHDR.
        let linked = elf.segments().find(|p| p.kind == 6).map(|p| p.vaddr);
        if let Some(offset) = headers.zip(linked).and_then(|((_, run), linked)| page_offset(run, linked, width)) {
            return Some((offset, "AT_PHDR of the core less the ELF's program headers"));
        }
        self.offset_by_build_id(elf)
    }

    fn offset_by_build_id(&mut self, elf: &Elf) -> Option<(u64, &'static str)> {
        let wanted = elf.build_id()?;
        let first = elf.segments().filter(|p| p.kind == PT_LOAD).min_by_key(|p| p.vaddr)?;
        for file in self.mapped_files().into_iter().filter(|f| f.offset == 0) {
            let len = usize::try_from(file.end.checked_sub(file.start)?.min(PAGE)).ok()?;
            let Ok(page) = self.segments.read_bytes(file.start, len) else { continue };
            if Elf::open(page).is_ok_and(|mapped| mapped.build_id().as_ref() == Some(&wanted)) {
                let linked = first.vaddr.checked_sub(first.offset)?;
                let offset = page_offset(file.start, linked, elf.width())?;
                return Some((offset, "NT_FILE of the core: the mapped file with the ELF's build id"));
            }
        }
        None
    }
}

fn page_offset(run: Addr, linked: Addr, width: Width) -> Option<u64> {
    let offset = width.moved_back(run, linked);
    offset.is_multiple_of(PAGE).then_some(offset)
}

impl Memory for Core {
    fn read(&mut self, addr: Addr, buf: &mut [u8]) -> Result<(), ReadError> {
        self.segments.read(addr, buf)
    }

    fn read_bytes(&mut self, addr: Addr, len: usize) -> Result<Bytes, ReadError> {
        self.segments.read_bytes(addr, len)
    }

    fn regions(&mut self) -> Option<Vec<Region>> {
        self.segments.regions()
    }

    fn written(&mut self) -> Option<Vec<Region>> {
        Some(self.segments.written())
    }

    fn searchable(&mut self) -> Option<Vec<Region>> {
        Some(self.segments.searchable())
    }
}

/// The parts of a program that memory cannot have changed: its read-only segments, at the load offset, and the read-only
/// sections of the others (a program in RAM is often linked into one segment). The initial values of `.data` are not memory and
/// are left out, and so is what has no bytes in the file.
pub fn elf_readonly(elf: &Elf, load_offset: u64) -> Segments {
    let block = |addr: Addr, memory: u64, claimed: u64, offset: u64, data: Bytes| {
        let start = elf.width().moved(addr, load_offset);
        let room = Region::between(start, elf.width().max()).and_then(|room| usize::try_from(room.len).ok());
        let data = data.cut(0, room.map_or(data.len(), |room| room.min(data.len()))).filter(|d| !d.is_empty())?;
        Some(Block { start, memory, claimed, data, offset, written: None })
    };
    let readonly = elf.segments().filter(|p| p.kind == PT_LOAD && p.flags & PF_W == 0);
    let segments =
        readonly.filter_map(|p| block(p.vaddr, p.memsz, p.filesz.min(p.memsz), p.offset, elf.segment_bytes(&p)));
    let sections = readonly_sections(elf);
    let sections = sections.iter().filter_map(|s| block(s.addr, s.size, s.size, s.offset, elf.section_bytes(s)));
    Segments::new(segments.chain(sections).collect())
}

/// The sections of writable segments that no code of the program writes. What shares its addresses with another section is there
/// only at times.
fn readonly_sections(elf: &Elf) -> Vec<Section> {
    let in_memory = |s: &Section| s.flags & SHF_ALLOC != 0 && s.flags & SHF_TLS == 0 && s.size > 0;
    let mut all: Vec<Section> = elf.sections().filter(in_memory).collect();
    all.sort_by_key(|s| s.addr);
    let ends: Vec<Addr> = all.iter().map(|s| s.addr.saturating_add(s.size)).collect();
    let highest_before = ends.iter().scan(0, |highest, end| {
        let before = *highest;
        *highest = before.max(*end);
        Some(before)
    });
    let next = all.iter().skip(1).map(|s| s.addr).chain([Addr::MAX]);
    let alone = all.iter().zip(highest_before).zip(ends.iter().zip(next));
    let alone = alone.filter(|((section, before), (end, next))| *before <= section.addr && *end <= next);
    let writable: Vec<Segment> = elf.segments().filter(|p| p.kind == PT_LOAD && p.flags & PF_W != 0).collect();
    let is_within = |s: &Section| {
        writable.iter().any(|p| s.addr.checked_sub(p.vaddr).is_some_and(|into| into < p.filesz.min(p.memsz)))
    };
    let fixed = |s: &&Section| s.flags & SHF_WRITE == 0 && s.kind != SHT_NOBITS && is_within(s);
    alone.map(|((section, _), _)| section).filter(fixed).cloned().collect()
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "tests say what they expect by failing")]
mod tests;
