//! ELF FILES: header, segments, sections, notes and symbols.
//!
//! The only room that uses goblin, which reads the headers and the symbol tables. `goblin::elf::Elf::parse` is not used: it
//! reads everything at once, checks every string, and refuses a file that is cut short. Here [`Elf::open`] reads the
//! header and the two tables of headers; the rest is read from the bytes (usually a memory map) when it is needed. Counts,
//! sizes and offsets in the file may be wrong: each is limited to the bytes that are there.

mod arm;
pub mod core_file;
mod cut;
pub mod notes;
pub mod symbols;

use std::fmt;
use std::sync::OnceLock;

use goblin::container::{Container, Ctx, Endian as GoblinEndian};
use goblin::elf::header::{EI_CLASS, EI_DATA, EM_AARCH64, EM_ARM, EM_X86_64, ET_CORE, ET_DYN, ET_EXEC, ET_REL, Header};
use goblin::elf::program_header::ProgramHeader;
use goblin::elf::section_header::{SHN_XINDEX, SectionHeader};

use crate::abi::{Addr, Endian, Width};
use crate::bytes::Bytes;

pub use goblin::elf::program_header::{PF_W, PF_X, PT_LOAD, PT_NOTE};
pub use goblin::elf::section_header::{
    SHF_ALLOC, SHF_COMPRESSED, SHF_EXECINSTR, SHF_TLS, SHF_WRITE, SHT_DYNAMIC, SHT_DYNSYM, SHT_NOBITS, SHT_NOTE,
    SHT_SYMTAB,
};
pub use notes::{Note, NoteError, Notes};
pub use symbols::{Binding, ElfSymbol, SymbolKind};

/// `e_phnum` where the count does not fit.
const PN_XNUM: u16 = 0xFFFF;

/// The most headers of one table that are read. A program or a core has some thousand at most; a hostile file of 300 MB could
/// claim millions, and each takes memory.
const MAX_HEADERS: usize = 1 << 18;

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

/// The instruction set: `e_machine`. Displays its usual name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Machine(pub u16);

impl Machine {
    /// `EM_ARM`: function symbols carry the Thumb bit.
    pub const ARM: Self = Self(EM_ARM);
    /// `EM_X86_64`.
    pub const X86_64: Self = Self(EM_X86_64);
    /// `EM_AARCH64`.
    pub const AARCH64: Self = Self(EM_AARCH64);

    /// Its usual name; `None` for a number that is not in this table (the `e_machine` registry of the gABI).
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
    /// `sh_flags`, as [`SHF_ALLOC`]: the lower 32 bits, which hold all flags that are defined.
    pub flags: u32,
    /// First address; 0 where it is not in memory.
    pub addr: Addr,
    /// Where the bytes begin in the file.
    pub offset: u64,
    /// Number of bytes.
    pub size: u64,
    /// `sh_link`: for a symbol table, the number of its string table.
    pub link: u32,
    /// Size of one entry, where it is a table.
    pub entsize: u64,
    /// `sh_addralign`.
    pub align: u64,
    name: usize,
}

/// An ELF file over bytes that do not change.
pub struct Elf {
    bytes: Bytes,
    header: Header,
    ctx: Ctx,
    segments: Vec<Segment>,
    sections: Vec<Section>,
    /// Number of the section that holds the names of sections.
    section_names: usize,
    damage: Vec<String>,
    /// Addresses of the sections in memory that have no bytes in the file, in order.
    without_bytes: OnceLock<Vec<Addr>>,
    cache: symbols::SymbolCache,
}

impl fmt::Debug for Elf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Elf({}, {:?}, {} bytes)", self.describe(), self.kind(), self.bytes.len())
    }
}

impl Elf {
    /// Reads the header and the tables of segments and sections.
    ///
    /// # Errors
    /// When the bytes are not ELF, end inside the header, or name an unknown class or byte order. Damage after the
    /// header is no error: what is there can be used, and [`Elf::damage`] describes the rest.
    pub fn open(bytes: impl Into<Bytes>) -> Result<Self, ElfError> {
        let bytes = bytes.into();
        let header = goblin::elf::Elf::parse_header(&bytes).map_err(|_| not_readable(&bytes))?;
        let (Ok(container), Ok(endian)) = (header.container(), header.endianness()) else {
            return Err(not_readable(&bytes));
        };
        let mut elf = Self {
            bytes,
            header,
            ctx: Ctx::new(container, endian),
            segments: Vec::new(),
            sections: Vec::new(),
            section_names: header.e_shstrndx.into(),
            damage: Vec::new(),
            without_bytes: OnceLock::new(),
            cache: symbols::SymbolCache::default(),
        };
        elf.read_tables();
        Ok(elf)
    }

    /// Reads both tables. A count or number that does not fit its 16-bit field is in section 0 (gABI).
    fn read_tables(&mut self) {
        let (header, bytes, ctx) = (self.header, self.bytes.clone(), self.ctx);
        let sections = |count| {
            let parse = |offset, count| SectionHeader::parse_from(&bytes, offset, count, ctx).ok();
            let size = SectionHeader::size(ctx);
            read_table(bytes.len(), header.e_shoff, size, count, parse)
        };
        let first = sections(1).pop();
        let count = match (header.e_shnum, &first) {
            (0, Some(first)) => first.sh_size,
            (count, _) => count.into(),
        };
        let headers = sections(count);
        self.note_lost(header.e_shoff, count, headers.len(), "section headers (with them the symbols)");
        self.sections = headers.into_iter().enumerate().map(section).collect();
        let mut count = u64::from(header.e_phnum);
        if let Some(first) = first {
            if u32::from(header.e_shstrndx) == SHN_XINDEX {
                self.section_names = first.sh_link as usize;
            }
            if header.e_phnum == PN_XNUM && first.sh_info != 0 {
                count = first.sh_info.into();
            }
        }
        let parse = |offset, count| ProgramHeader::parse(&bytes, offset, count, ctx).ok();
        let size = ProgramHeader::size(ctx);
        let headers = read_table(bytes.len(), header.e_phoff, size, count, parse);
        self.note_lost(header.e_phoff, count, headers.len(), "program headers");
        self.segments = headers.into_iter().map(segment).collect();
    }

    fn note_lost(&mut self, offset: u64, count: u64, read: usize, what: &str) {
        if let Some(lost) = count.checked_sub(read as u64).filter(|lost| *lost > 0 && offset != 0) {
            self.damage.push(format!("{lost} of {count} {what} are not in the file: it is cut short or damaged"));
        }
    }

    /// What is wrong with the file's tables, one sentence each; empty for a sound file.
    pub fn damage(&self) -> &[String] {
        &self.damage
    }

    /// The whole file.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// 32- or 64-bit: the width of an address.
    pub const fn width(&self) -> Width {
        match self.ctx.container {
            Container::Little => Width::W4,
            Container::Big => Width::W8,
        }
    }

    /// Byte order of the data (`EI_DATA`).
    pub const fn endian(&self) -> Endian {
        match self.ctx.le {
            GoblinEndian::Little => Endian::Little,
            GoblinEndian::Big => Endian::Big,
        }
    }

    /// The instruction set.
    pub const fn machine(&self) -> Machine {
        Machine(self.header.e_machine)
    }

    /// What the file is for.
    pub const fn kind(&self) -> ElfKind {
        match self.header.e_type {
            ET_REL => ElfKind::Object,
            ET_EXEC => ElfKind::Exec,
            ET_DYN => ElfKind::Dyn,
            ET_CORE => ElfKind::Core,
            other => ElfKind::Other(other),
        }
    }

    /// Entry point as linked. On ARM bit 0 means Thumb and is kept.
    pub const fn entry(&self) -> Addr {
        self.header.e_entry
    }

    /// `e_flags`. GDB writes 0 into the cores it makes of bare metal.
    pub const fn flags(&self) -> u32 {
        self.header.e_flags
    }

    /// `EI_OSABI`.
    pub const fn osabi(&self) -> u8 {
        let [.., osabi, _, _, _, _, _, _, _, _] = self.header.e_ident;
        osabi
    }

    /// Class, byte order and machine in words: `32-bit big-endian PowerPC`.
    pub fn describe(&self) -> String {
        let bits = match self.width() {
            Width::W4 => 32,
            Width::W8 => 64,
        };
        format!("{bits}-bit {}-endian {}", self.endian().name(), self.machine())
    }

    /// True where class, byte order and machine are those of `other`. Flags are not compared: cores lose them.
    pub fn same_target(&self, other: &Self) -> bool {
        self.width() == other.width() && self.endian() == other.endian() && self.machine() == other.machine()
    }

    /// The program headers, in the order of the file.
    pub fn segments(&self) -> impl Iterator<Item = Segment> + '_ {
        self.segments.iter().copied()
    }

    /// The bytes of a segment as far as the file goes. Never more than `memsz` of a [`PT_LOAD`].
    pub fn segment_bytes(&self, segment: &Segment) -> Bytes {
        if self.is_debug_only(segment) {
            return Bytes::from(Vec::new());
        }
        let len = if segment.kind == PT_LOAD { segment.filesz.min(segment.memsz) } else { segment.filesz };
        self.clipped(segment.offset, len)
    }

    /// The section headers, in the order of the file.
    pub fn sections(&self) -> impl Iterator<Item = Section> + '_ {
        self.sections.iter().copied()
    }

    /// The first section of this name.
    pub fn section(&self, name: &str) -> Option<Section> {
        let names = self.section_slice(self.sections.get(self.section_names)?);
        self.sections().find(|s| string_is(names, s.name, name.as_bytes()))
    }

    /// The name of a section. Hostile text: escape before printing.
    pub fn section_name(&self, section: &Section) -> String {
        let names = self.sections.get(self.section_names);
        let bytes = names.map_or(&[][..], |n| string_at(self.section_slice(n), section.name));
        String::from_utf8_lossy(bytes).into_owned()
    }

    /// The section in the target's memory that holds `address` (as linked: take the load offset off first).
    pub fn section_holding(&self, address: Addr) -> Option<Section> {
        self.sections()
            .find(|s| s.flags & SHF_ALLOC != 0 && address.checked_sub(s.addr).is_some_and(|into| into < s.size))
    }

    /// Whether the program may write all of the `len` bytes at `address` (as linked): as its sections say, else its
    /// segments. `None` where neither holds them.
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
    pub fn section_bytes(&self, section: &Section) -> Bytes {
        let size = if section.kind == SHT_NOBITS { 0 } else { section.size };
        self.clipped(section.offset, size)
    }

    pub(crate) fn section_slice(&self, section: &Section) -> &[u8] {
        let size = if section.kind == SHT_NOBITS { 0 } else { section.size };
        self.bytes.get(clip(self.bytes.len(), section.offset, size)).unwrap_or(&[])
    }

    fn clipped(&self, offset: u64, len: u64) -> Bytes {
        let range = clip(self.bytes.len(), offset, len);
        self.bytes.cut(range.start, range.len()).unwrap_or_else(|| Vec::new().into())
    }

    /// Every note of the note segments, or, in a file without segments, of the note sections. Ends after an error, and
    /// where segments overlap so that they are larger than the file.
    pub fn notes(&self) -> impl Iterator<Item = Result<Note<'_>, NoteError>> + '_ {
        let segments = self.segments().filter(|p| p.kind == PT_NOTE).map(|p| (p.offset, p.filesz, p.align));
        let bare = self.segments.is_empty();
        let sections = self.sections().filter(move |s| bare && s.kind == SHT_NOTE).map(|s| (s.offset, s.size, s.align));
        let mut left = self.bytes.len();
        let mut ended = false;
        let one = move |(offset, size, align): (u64, u64, u64)| {
            let range = clip(self.bytes.len(), offset, size);
            let lost = size.saturating_sub(range.len() as u64);
            let rest = left.checked_sub(range.len());
            left = rest.unwrap_or(0);
            let slice = self.bytes.get(range).unwrap_or(&[]);
            let notes = rest.map(|_| Notes::new(slice, self.endian(), align, lost));
            notes.into_iter().flatten().chain(rest.is_none().then_some(Err(NoteError::Overlap)))
        };
        let all = segments.chain(sections).flat_map(one);
        all.take_while(move |note| !std::mem::replace(&mut ended, note.is_err()))
    }

    /// The linker's build id (`NT_GNU_BUILD_ID`), where it wrote one.
    pub fn build_id(&self) -> Option<Vec<u8>> {
        let found = self.notes().filter_map(Result::ok).find(|n| n.is_build_id());
        found.map(|n| n.desc.to_vec())
    }
}

/// Why goblin does not read a header.
fn not_readable(bytes: &[u8]) -> ElfError {
    if !bytes.starts_with(b"\x7fELF") {
        return ElfError::NotElf;
    }
    match (bytes.get(EI_CLASS), bytes.get(EI_DATA)) {
        (Some(&class), _) if !matches!(class, 1 | 2) => ElfError::Class(class),
        (_, Some(&order)) if !matches!(order, 1 | 2) => ElfError::Order(order),
        _ => ElfError::Short(bytes.len()),
    }
}

/// Reads those entries of a table of headers that are in a file of `len` bytes; at offset 0 there is no table. Their `size`
/// is the gABI's, as in goblin: no tool writes another one, and a damaged `e_phentsize` or `e_shentsize` does no harm.
fn read_table<H>(
    len: usize,
    offset: u64,
    size: usize,
    count: u64,
    parse: impl Fn(usize, usize) -> Option<Vec<H>>,
) -> Vec<H> {
    let Ok(offset) = usize::try_from(offset) else { return Vec::new() };
    let room = len.checked_sub(offset).and_then(|room| room.checked_div(size)).unwrap_or(0);
    let there = usize::try_from(count).map_or(room, |count| count.min(room)).min(MAX_HEADERS);
    if offset == 0 || there == 0 {
        return Vec::new();
    }
    parse(offset, there).unwrap_or_default()
}

fn segment(p: ProgramHeader) -> Segment {
    Segment {
        kind: p.p_type,
        flags: p.p_flags,
        vaddr: p.p_vaddr,
        paddr: p.p_paddr,
        offset: p.p_offset,
        filesz: p.p_filesz,
        memsz: p.p_memsz,
        align: p.p_align,
    }
}

fn section((index, s): (usize, SectionHeader)) -> Section {
    Section {
        index,
        kind: s.sh_type,
        flags: s.sh_flags as u32,
        addr: s.sh_addr,
        offset: s.sh_offset,
        size: s.sh_size,
        link: s.sh_link,
        entsize: s.sh_entsize,
        align: s.sh_addralign,
        name: s.sh_name,
    }
}

/// The part of `len` bytes from `offset` that is among the `there` bytes of a file.
fn clip(there: usize, offset: u64, len: u64) -> std::ops::Range<usize> {
    let within = |n: Option<u64>| n.and_then(|n| usize::try_from(n).ok()).map_or(there, |n| n.min(there));
    within(Some(offset))..within(offset.checked_add(len))
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
pub(crate) mod tests;
