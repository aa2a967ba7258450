//! ELF FILES: header, segments, sections, notes and symbols, each read only when it is asked for.
//!
//! The only room that knows goblin. Nothing is parsed ahead of need: an [`Elf`] is the header and two
//! table extents over bytes that are usually a memory map. Counts, sizes and offsets in the file are
//! claims; every one is bounded by the bytes that are there.

mod arm;
pub mod core_file;
mod cut;
pub mod notes;
pub mod symbols;

use std::fmt;
use std::sync::OnceLock;

use goblin::container::{Container, Ctx, Endian as GoblinEndian};
use goblin::elf::header::Header;
use goblin::elf::program_header::ProgramHeader;
use goblin::elf::section_header::SectionHeader;

use crate::abi::{Addr, Endian, Width};
use crate::bytes::Bytes;

pub use notes::{Note, NoteError, Notes};
pub use symbols::{Binding, ElfSymbol, SymbolKind};

/// `p_type` of a segment that is memory.
pub const PT_LOAD: u32 = 1;
/// `p_type` of a segment that holds notes.
pub const PT_NOTE: u32 = 4;
/// `p_flags`: may be executed.
pub const PF_X: u32 = 1;
/// `p_flags`: may be written.
pub const PF_W: u32 = 2;
/// `sh_type` of a symbol table.
pub const SHT_SYMTAB: u32 = 2;
/// `sh_type` of notes.
pub const SHT_NOTE: u32 = 7;
/// `sh_type` of a section without bytes in the file (`.bss`).
pub const SHT_NOBITS: u32 = 8;
/// `sh_type` of the dynamic linker's symbol table.
pub const SHT_DYNSYM: u32 = 11;
/// `sh_flags`: the program writes it.
pub const SHF_WRITE: u64 = 1;
/// `sh_flags`: lies in the target's memory.
pub const SHF_ALLOC: u64 = 2;
/// `sh_flags`: holds instructions.
pub const SHF_EXECINSTR: u64 = 4;
/// `sh_flags`: a template for each thread's own copy, not memory.
pub const SHF_TLS: u64 = 0x400;
/// `sh_flags`: the bytes in the file are compressed.
pub const SHF_COMPRESSED: u64 = 0x800;

const PN_XNUM: u16 = 0xFFFF;
const SHN_XINDEX: u16 = 0xFFFF;

/// Why bytes are not an ELF file that can be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ElfError {
    /// The magic is missing.
    #[error("not an ELF file: it does not begin with 7f 45 4c 46")]
    NotElf,
    /// The file ends inside the header.
    #[error("an ELF file cut off inside its header: it has only {0} bytes")]
    Short(usize),
    /// `EI_CLASS` is neither 1 nor 2.
    #[error("ELF class {0} is neither 32-bit (1) nor 64-bit (2)")]
    Class(u8),
    /// `EI_DATA` is neither 1 nor 2.
    #[error("ELF byte order {0} is neither little-endian (1) nor big-endian (2)")]
    Order(u8),
    /// Something else in the header.
    #[error("the ELF header cannot be read: {0}")]
    Header(String),
}

/// What an ELF file is for: `e_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ElfKind {
    /// `ET_REL`: not linked; its symbols have no addresses.
    Object,
    /// `ET_EXEC`: linked to fixed addresses.
    Exec,
    /// `ET_DYN`: a position-independent program or a library; runs at a load offset.
    Dyn,
    /// `ET_CORE`: memory of a stopped target.
    Core,
    /// Anything else.
    Other(u16),
}

/// The instruction set: `e_machine`. Displays as people call it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Machine(pub u16);

impl Machine {
    /// `EM_ARM`: function symbols carry the Thumb bit.
    pub const ARM: Self = Self(40);
    /// `EM_X86_64`.
    pub const X86_64: Self = Self(62);
    /// `EM_AARCH64`.
    pub const AARCH64: Self = Self(183);

    /// What people call it; `None` for numbers this table lacks (the `e_machine` registry of the gABI).
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        Some(match self.0 {
            2 | 18 => "SPARC",
            3 => "i386",
            4 => "m68k",
            8 => "MIPS",
            20 => "PowerPC",
            21 => "PowerPC64",
            22 => "S/390",
            36 => "V850",
            40 => "ARM",
            42 => "SuperH",
            43 => "SPARC V9",
            44 => "TriCore",
            62 => "x86-64",
            83 => "AVR",
            87 => "V850 (Renesas)",
            93 => "ARC",
            94 => "Xtensa",
            106 => "Blackfin",
            113 => "Nios II",
            140 => "TMS320C6000",
            164 => "Hexagon",
            173 => "RX",
            183 => "AArch64",
            189 => "MicroBlaze",
            195 => "ARCv2",
            243 => "RISC-V",
            252 => "C-SKY",
            258 => "LoongArch",
            _ => return None,
        })
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "machine {}", self.0),
        }
    }
}

/// One program header. Sizes and offsets are as the file claims them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// `p_type`, as [`PT_LOAD`].
    pub kind: u32,
    /// `p_flags`, as [`PF_W`].
    pub flags: u32,
    /// First address, before any load offset.
    pub vaddr: Addr,
    /// Its physical address: the same, 0, or where a loader puts it.
    pub paddr: Addr,
    /// Where the bytes begin in the file.
    pub offset: u64,
    /// Bytes in the file.
    pub filesz: u64,
    /// Bytes in memory.
    pub memsz: u64,
    /// `p_align`.
    pub align: u64,
}

/// One section header. Sizes and offsets are as the file claims them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Section {
    /// Its number in the table.
    pub index: usize,
    /// `sh_type`, as [`SHT_NOBITS`].
    pub kind: u32,
    /// `sh_flags`, as [`SHF_ALLOC`].
    pub flags: u64,
    /// First address; 0 where it is not in memory.
    pub addr: Addr,
    /// Where the bytes begin in the file.
    pub offset: u64,
    /// Number of bytes.
    pub size: u64,
    /// `sh_link`: for a symbol table, the number of its string table.
    pub link: u32,
    /// `sh_info`.
    pub info: u32,
    /// Size of one entry, where it is a table.
    pub entsize: u64,
    /// `sh_addralign`.
    pub align: u64,
    name: usize,
}

/// A table of headers: where it begins, the step, and how many entries really are there.
#[derive(Debug, Clone, Copy, Default)]
struct Table {
    offset: usize,
    step: usize,
    count: usize,
}

impl Table {
    fn at(self, index: usize) -> Option<usize> {
        if index >= self.count {
            return None;
        }
        self.offset.checked_add(index.checked_mul(self.step)?)
    }
}

/// An ELF file over bytes that stay where they are.
pub struct Elf {
    bytes: Bytes,
    header: Header,
    ctx: Ctx,
    width: Width,
    endian: Endian,
    segments: Table,
    sections: Table,
    section_names: usize,
    damage: Vec<String>,
    /// The section headers, once they were asked for: they are looked through by name and by address.
    section_list: OnceLock<Vec<Section>>,
    /// Where sections in memory begin of which the file has no bytes, in order.
    without_bytes: OnceLock<Vec<Addr>>,
    cache: symbols::SymbolCache,
}

impl fmt::Debug for Elf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Elf({}, {:?}, {} bytes)", self.describe(), self.kind(), self.bytes.len())
    }
}

impl Elf {
    /// Reads the header and nothing else.
    ///
    /// # Errors
    /// When the bytes are not ELF, end inside the header, or name an unknown class or byte order. Damage
    /// further on is no error: what is there can be used, and [`Elf::damage`] tells.
    pub fn open(bytes: impl Into<Bytes>) -> Result<Self, ElfError> {
        let bytes = bytes.into();
        let magic = bytes.get(..4).ok_or(ElfError::NotElf)?;
        if magic != b"\x7fELF" {
            return Err(ElfError::NotElf);
        }
        let short = ElfError::Short(bytes.len());
        let (container, width, size) = match bytes.get(4) {
            Some(1) => (Container::Little, Width::W4, 52),
            Some(2) => (Container::Big, Width::W8, 64),
            Some(&other) => return Err(ElfError::Class(other)),
            None => return Err(short),
        };
        let (order, endian) = match bytes.get(5) {
            Some(1) => (GoblinEndian::Little, Endian::Little),
            Some(2) => (GoblinEndian::Big, Endian::Big),
            Some(&other) => return Err(ElfError::Order(other)),
            None => return Err(short),
        };
        if bytes.len() < size {
            return Err(short);
        }
        let header = goblin::elf::Elf::parse_header(&bytes).map_err(|e| ElfError::Header(e.to_string()))?;
        let mut elf = Self {
            bytes,
            header,
            ctx: Ctx::new(container, order),
            width,
            endian,
            segments: Table::default(),
            sections: Table::default(),
            section_names: 0,
            damage: Vec::new(),
            section_list: OnceLock::new(),
            without_bytes: OnceLock::new(),
            cache: symbols::SymbolCache::default(),
        };
        elf.find_tables();
        Ok(elf)
    }

    /// Where the two header tables are. Counts that do not fit their 16-bit field stand in section 0 (gABI).
    fn find_tables(&mut self) {
        let header = self.header;
        let section_size = SectionHeader::size(self.ctx);
        let first = self.table(header.e_shoff, header.e_shentsize, section_size, 1);
        self.sections = first.0;
        let zero = self.parse_section(0);
        let many = match (header.e_shnum, zero) {
            (0, Some(zero)) => zero.size,
            (count, _) => u64::from(count),
        };
        let (sections, lost) = self.table(header.e_shoff, header.e_shentsize, section_size, many);
        self.sections = sections;
        self.note_lost(lost, many, "section headers (with them the symbols)");
        self.section_names = match (header.e_shstrndx, zero) {
            (SHN_XINDEX, Some(zero)) => usize::try_from(zero.link).unwrap_or(0),
            (index, _) => usize::from(index),
        };
        let many = match (header.e_phnum, zero) {
            (PN_XNUM, Some(zero)) if zero.info != 0 => u64::from(zero.info),
            (count, _) => u64::from(count),
        };
        let (segments, lost) = self.table(header.e_phoff, header.e_phentsize, ProgramHeader::size(self.ctx), many);
        self.segments = segments;
        self.note_lost(lost, many, "program headers");
    }

    /// The entries of a table that lie in the file, and how many do not.
    fn table(&self, offset: u64, step: u16, size: usize, count: u64) -> (Table, u64) {
        let step = usize::from(step);
        if offset == 0 || count == 0 {
            return (Table::default(), 0);
        }
        let Ok(offset) = usize::try_from(offset) else { return (Table::default(), count) };
        if step < size || offset > self.bytes.len() {
            return (Table::default(), count);
        }
        // The last entry needs `size` bytes, not the whole step.
        let room = self.bytes.len().saturating_sub(offset);
        let fits = room.checked_sub(size).and_then(|r| r.checked_div(step)).map_or(0, |n| n.saturating_add(1));
        let there = usize::try_from(count).unwrap_or(usize::MAX).min(fits);
        let lost = count.saturating_sub(u64::try_from(there).unwrap_or(count));
        (Table { offset, step, count: there }, lost)
    }

    fn note_lost(&mut self, lost: u64, of: u64, what: &str) {
        if lost > 0 {
            self.damage.push(format!("{lost} of {of} {what} are not in the file: it is cut short or damaged"));
        }
    }

    /// What is wrong with the file's tables, one sentence each; empty for a sound file.
    #[must_use]
    pub fn damage(&self) -> &[String] {
        &self.damage
    }

    /// The whole file.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// 32- or 64-bit: the width of an address.
    #[must_use]
    pub const fn width(&self) -> Width {
        self.width
    }

    /// Byte order of the data (`EI_DATA`).
    #[must_use]
    pub const fn endian(&self) -> Endian {
        self.endian
    }

    /// The instruction set.
    #[must_use]
    pub const fn machine(&self) -> Machine {
        Machine(self.header.e_machine)
    }

    /// What the file is for.
    #[must_use]
    pub const fn kind(&self) -> ElfKind {
        match self.header.e_type {
            1 => ElfKind::Object,
            2 => ElfKind::Exec,
            3 => ElfKind::Dyn,
            4 => ElfKind::Core,
            other => ElfKind::Other(other),
        }
    }

    /// Entry point as linked. On ARM bit 0 tells Thumb and is kept.
    #[must_use]
    pub const fn entry(&self) -> Addr {
        self.header.e_entry
    }

    /// `e_flags`. GDB writes 0 into the cores it makes of bare metal.
    #[must_use]
    pub const fn flags(&self) -> u32 {
        self.header.e_flags
    }

    /// `EI_OSABI`.
    #[must_use]
    pub const fn osabi(&self) -> u8 {
        let [_, _, _, _, _, _, _, osabi, ..] = self.header.e_ident;
        osabi
    }

    /// Class, byte order and machine in words: `32-bit big-endian PowerPC`.
    #[must_use]
    pub fn describe(&self) -> String {
        let bits = match self.width {
            Width::W4 => 32,
            Width::W8 => 64,
        };
        format!("{bits}-bit {}-endian {}", self.endian.name(), self.machine())
    }

    /// True where class, byte order and machine are those of `other`. Flags are not compared: cores lose them.
    #[must_use]
    pub fn same_target(&self, other: &Self) -> bool {
        self.width == other.width && self.endian == other.endian && self.machine() == other.machine()
    }

    /// The program headers, in the order of the file.
    pub fn segments(&self) -> impl Iterator<Item = Segment> + '_ {
        (0..self.segments.count).map_while(|index| {
            let at = self.segments.at(index)?;
            let p = ProgramHeader::parse(&self.bytes, at, 1, self.ctx).ok()?.pop()?;
            Some(Segment {
                kind: p.p_type,
                flags: p.p_flags,
                vaddr: p.p_vaddr,
                paddr: p.p_paddr,
                offset: p.p_offset,
                filesz: p.p_filesz,
                memsz: p.p_memsz,
                align: p.p_align,
            })
        })
    }

    /// The bytes of a segment as far as the file goes. Never more than `memsz` of a [`PT_LOAD`].
    #[must_use]
    pub fn segment_bytes(&self, segment: &Segment) -> Bytes {
        if self.is_debug_only(segment) {
            return Bytes::from(Vec::new());
        }
        let len = if segment.kind == PT_LOAD { segment.filesz.min(segment.memsz) } else { segment.filesz };
        self.clipped(segment.offset, len)
    }

    /// The section headers, in the order of the file.
    pub fn sections(&self) -> impl Iterator<Item = Section> + '_ {
        self.section_list().iter().copied()
    }

    /// Section number `index`; `None` past the table.
    #[must_use]
    pub fn section_at_index(&self, index: usize) -> Option<Section> {
        self.section_list().get(index).copied()
    }

    fn section_list(&self) -> &[Section] {
        self.section_list
            .get_or_init(|| (0..self.sections.count).map_while(|index| self.parse_section(index)).collect())
    }

    fn parse_section(&self, index: usize) -> Option<Section> {
        let at = self.sections.at(index)?;
        let s = SectionHeader::parse_from(&self.bytes, at, 1, self.ctx).ok()?.pop()?;
        Some(Section {
            index,
            kind: s.sh_type,
            flags: s.sh_flags,
            addr: s.sh_addr,
            offset: s.sh_offset,
            size: s.sh_size,
            link: s.sh_link,
            info: s.sh_info,
            entsize: s.sh_entsize,
            align: s.sh_addralign,
            name: s.sh_name,
        })
    }

    /// The first section of this name.
    #[must_use]
    pub fn section(&self, name: &str) -> Option<Section> {
        let names = self.section_at_index(self.section_names)?;
        let names = self.section_slice(&names);
        self.sections().find(|s| string_is(names, s.name, name.as_bytes()))
    }

    /// The name of a section. Hostile text: escape before printing.
    #[must_use]
    pub fn section_name(&self, section: &Section) -> String {
        let names = self.section_at_index(self.section_names);
        let bytes = names.as_ref().map_or(&[][..], |n| string_at(self.section_slice(n), section.name));
        String::from_utf8_lossy(bytes).into_owned()
    }

    /// The section in the target's memory that holds `address` (as linked: take the load offset off first).
    #[must_use]
    pub fn section_holding(&self, address: Addr) -> Option<Section> {
        self.sections()
            .find(|s| s.flags & SHF_ALLOC != 0 && address.checked_sub(s.addr).is_some_and(|into| into < s.size))
    }

    /// Whether the program may write all of the `len` bytes at `address` (as linked): as its sections say, else its
    /// segments. `None` where neither holds them.
    #[must_use]
    pub fn writes(&self, address: Addr, len: u64) -> Option<bool> {
        let end = address.checked_add(len)?;
        let shares = |start: Addr, size: u64| start < end && start.saturating_add(size) > address;
        let holds = |start: Addr, size: u64| start <= address && start.saturating_add(size) >= end;
        let mut all = None;
        for s in
            self.sections().filter(|s| s.flags & SHF_ALLOC != 0 && s.flags & SHF_TLS == 0 && shares(s.addr, s.size))
        {
            if s.flags & SHF_WRITE == 0 {
                return Some(false);
            }
            all = all.or(holds(s.addr, s.size).then_some(true));
        }
        let mut segments = self.segments().filter(|p| p.kind == PT_LOAD && holds(p.vaddr, p.memsz));
        all.or_else(|| segments.next().map(|p| p.flags & PF_W != 0))
    }

    /// The bytes of a section as far as the file goes; empty for one without bytes in the file.
    #[must_use]
    pub fn section_bytes(&self, section: &Section) -> Bytes {
        if section.kind == SHT_NOBITS {
            return Bytes::from(Vec::new());
        }
        self.clipped(section.offset, section.size)
    }

    fn section_slice(&self, section: &Section) -> &[u8] {
        if section.kind == SHT_NOBITS {
            return &[];
        }
        let (offset, len) = self.clip(section.offset, section.size);
        offset.checked_add(len).and_then(|end| self.bytes.get(offset..end)).unwrap_or(&[])
    }

    /// Offset and length of a stretch of the file, cut to the bytes that are there.
    fn clip(&self, offset: u64, len: u64) -> (usize, usize) {
        let offset = usize::try_from(offset).unwrap_or(usize::MAX).min(self.bytes.len());
        let room = self.bytes.len().saturating_sub(offset);
        (offset, usize::try_from(len).unwrap_or(usize::MAX).min(room))
    }

    fn clipped(&self, offset: u64, len: u64) -> Bytes {
        let (offset, len) = self.clip(offset, len);
        self.bytes.cut(offset, len).unwrap_or_else(|| Bytes::from(Vec::new()))
    }

    /// Every note of the note segments, or, in a file without segments, of the note sections. Ends after an error, and
    /// where segments overlap so that they are larger than the file.
    pub fn notes(&self) -> impl Iterator<Item = Result<Note<'_>, NoteError>> + '_ {
        let from_segments = self.segments().filter(|p| p.kind == PT_NOTE).map(|p| (p.offset, p.filesz, p.align));
        let bare = self.segments.count == 0;
        let from_sections =
            self.sections().filter(move |s| bare && s.kind == SHT_NOTE).map(|s| (s.offset, s.size, s.align));
        let mut ended = false;
        let mut left = self.bytes.len();
        from_segments
            .chain(from_sections)
            .flat_map(move |(offset, size, align)| {
                let (at, len) = self.clip(offset, size);
                let rest = left.checked_sub(len);
                left = rest.unwrap_or(0);
                let slice = at.checked_add(len).and_then(|end| self.bytes.get(at..end)).unwrap_or(&[]);
                let lost = size.saturating_sub(u64::try_from(len).unwrap_or(size));
                let notes = rest.map(|_| Notes::new(slice, self.endian, align, lost));
                notes.into_iter().flatten().chain(rest.is_none().then_some(Err(NoteError::Overlap)))
            })
            .take_while(move |note| !std::mem::replace(&mut ended, note.is_err()))
    }

    /// The linker's build id (`NT_GNU_BUILD_ID`), where it wrote one.
    #[must_use]
    pub fn build_id(&self) -> Option<Vec<u8>> {
        let found = self.notes().filter_map(Result::ok).find(|n| n.is_build_id());
        found.map(|n| n.desc.to_vec())
    }
}

/// The longest name that is read: a table without a NUL would be one name, and as long for each symbol.
const LONGEST_NAME: usize = 16 << 10;

/// The bytes at `offset` of a string table, up to the NUL, the table's end, or the longest name.
fn string_at(table: &[u8], offset: usize) -> &[u8] {
    let rest = table.get(offset..).unwrap_or(&[]);
    let rest = rest.get(..LONGEST_NAME).unwrap_or(rest);
    rest.split(|&b| b == 0).next().unwrap_or(&[])
}

/// True where the string at `offset` of a string table is `wanted`: no search for its end.
fn string_is(table: &[u8], offset: usize, wanted: &[u8]) -> bool {
    let Some(end) = offset.checked_add(wanted.len()) else { return false };
    table.get(offset..end) == Some(wanted) && matches!(table.get(end), None | Some(0))
}

#[cfg(test)]
mod tests;
#[cfg(test)]
#[allow(missing_docs, clippy::arithmetic_side_effects, reason = "test code")]
pub(crate) mod writer;
