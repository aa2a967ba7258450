//! Symbols of an ELF file: found by comparing bytes in one pass, remembered by name; never listed in full.
//!
//! Which symbol a name means, where several have it: a global one before a weak one before a local one
//! (`-flto` makes all of ThreadX's names local, so local counts), `.symtab` before `.dynsym`, then the first.
//! What has no address of its own is not found: undefined and common symbols, thread-local ones, names of
//! files and sections, and every symbol of a file that is not linked (`ET_REL`).
//!
//! goblin reads the entries. The names are compared here: goblin's string table checks every name ahead of use, and a
//! program of 200 MB may have 600,000.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, OnceLock, PoisonError};

use goblin::elf::section_header::{SHN_ABS, SHN_COMMON, SHN_UNDEF, SHN_XINDEX};
use goblin::elf::sym::{STB_LOCAL, STB_WEAK, STT_FUNC, STT_GNU_IFUNC, STT_LOPROC, STT_NOTYPE, STT_OBJECT, Sym, Symtab};

use super::{Elf, ElfKind, Machine, SHF_ALLOC, SHF_EXECINSTR, SHF_WRITE, SHT_DYNSYM, SHT_SYMTAB, string_at, string_is};
use crate::abi::{Addr, Endian, Width};

/// What a symbol names: `st_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SymbolKind {
    /// No type: labels of assembly and of linker scripts.
    None,
    /// A variable.
    Object,
    /// A function.
    Function,
}

/// Who sees a symbol: `st_bind`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Binding {
    /// Its own object file.
    Local,
    /// Everybody, unless a global one is there.
    Weak,
    /// Everybody.
    Global,
}

/// A defined symbol, at the address it was linked to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ElfSymbol {
    /// Its name. Hostile text: escape before printing.
    pub name: String,
    /// Address as linked, without any load offset; without the Thumb bit.
    pub address: Addr,
    /// Size in bytes; 0 where the linker does not know.
    pub size: u64,
    /// False where the linker gives no size, and [`Elf::covering`] takes the distance to the next symbol.
    pub sized: bool,
    /// What it names.
    pub kind: SymbolKind,
    /// Who sees it.
    pub binding: Binding,
}

/// The symbols that were searched for, and the index of addresses once it was needed.
#[derive(Default)]
pub(super) struct SymbolCache {
    names: Mutex<HashMap<String, Option<ElfSymbol>>>,
    places: OnceLock<Vec<Place>>,
}

/// One entry of the address index: 32 bytes.
#[derive(Debug, Clone, Copy)]
struct Place {
    start: Addr,
    /// First address past it.
    end: Addr,
    /// The highest `end` of all entries up to and with this one: where a search backwards may stop.
    reach: Addr,
    name: u32,
    table: u8,
    rank: u8,
    kind: SymbolKind,
    binding: Binding,
}

impl Place {
    /// Of several at one address the least is kept.
    const fn order(&self) -> (u8, u8, u32) {
        (self.rank, self.table, self.name)
    }
}

/// A symbol table and its names.
struct Table<'a> {
    symbols: Symtab<'a>,
    names: &'a [u8],
    entries: &'a [u8],
    entry_size: usize,
    endian: Endian,
    width: Width,
}

impl Table<'_> {
    /// Number and `st_name` of each entry, read at its place (gABI). Nearly all entries are rejected by this field or the
    /// next, and reading whole ones makes the first line of `last` a sixth later.
    fn name_offsets(&self) -> impl Iterator<Item = (usize, usize)> {
        let entries = self.entries.chunks_exact(self.entry_size).enumerate();
        entries.filter_map(|(number, entry)| Some((number, self.endian.u32(entry, 0)? as usize)))
    }

    /// Number and `st_value` of each entry. It is at 4 in the entries of 32 bits, and at 8 in those of 64.
    fn values(&self) -> impl Iterator<Item = (usize, u64)> {
        let entries = self.entries.chunks_exact(self.entry_size).enumerate();
        entries.filter_map(|(number, entry)| Some((number, self.endian.word(self.width, entry, self.width.bytes())?)))
    }
}

/// `STT_ARM_TFUNC` of old ARM tools: a function of Thumb code.
const STT_ARM_TFUNC: u8 = STT_LOPROC;

/// How far back an address is searched among nested symbols.
const NESTING: usize = 256;
/// The most entries that [`Elf::symbols_with_prefix`] returns.
const MANY: usize = 4096;
/// The most symbols that [`Elf::sharing`] gives from each table.
const SHARING: usize = 16;
/// Bit of a rank: the linker gives no size.
const UNSIZED: u8 = 8;
/// Bit of a rank: a label, neither a function nor a variable.
const LABEL: u8 = 4;

impl Elf {
    /// `.symtab` and `.dynsym`, as far as they are in the file.
    fn tables(&self) -> impl Iterator<Item = Table<'_>> + '_ {
        let linked = self.kind() != ElfKind::Object;
        [SHT_SYMTAB, SHT_DYNSYM].into_iter().filter_map(move |kind| {
            let section = self.sections().find(|s| linked && s.kind == kind)?;
            let size = Sym::size(self.ctx.container);
            // Some writers leave 0; any other size is not a symbol table that we know.
            if section.entsize != 0 && section.entsize != size as u64 {
                return None;
            }
            let names = self.section_slice(self.sections.get(section.link as usize)?);
            let entries = self.section_slice(&section);
            let symbols = Symtab::parse(entries, 0, entries.len().checked_div(size)?, self.ctx).ok()?;
            Some(Table { symbols, names, entries, entry_size: size, endian: self.endian(), width: self.width() })
        })
    }

    /// True where no `.symtab` is left: `strip` was here, or the file is cut short.
    pub fn is_stripped(&self) -> bool {
        !self.sections().any(|s| s.kind == SHT_SYMTAB && s.size > 0)
    }

    /// The symbol of exactly this name. Remembered: asking again costs nothing.
    pub fn symbol(&self, name: &str) -> Option<ElfSymbol> {
        self.lookup_many(&[name]).pop().flatten()
    }

    /// The symbols of these names, in their order, in one pass over the tables. What was asked before is not
    /// searched again.
    pub fn lookup_many(&self, names: &[&str]) -> Vec<Option<ElfSymbol>> {
        let mut known = self.cache.names.lock().unwrap_or_else(PoisonError::into_inner);
        let mut fresh: Vec<&str> = names.iter().copied().filter(|n| !known.contains_key(*n)).collect();
        fresh.sort_unstable();
        fresh.dedup();
        if !fresh.is_empty() {
            let found = self.search(&fresh);
            known.extend(fresh.iter().map(|n| (*n).to_owned()).zip(found));
        }
        names.iter().map(|n| known.get(*n).cloned().flatten()).collect()
    }

    /// One pass for all of `wanted`.
    fn search(&self, wanted: &[&str]) -> Vec<Option<ElfSymbol>> {
        let filter = NameFilter::new(wanted);
        let mut found: Vec<Option<ElfSymbol>> = vec![None; wanted.len()];
        for table in self.tables() {
            for (number, offset) in table.name_offsets() {
                for at in filter.candidates(table.names, offset) {
                    if let (Some(name), Some(best)) = (wanted.get(*at), found.get_mut(*at))
                        && string_is(table.names, offset, name.as_bytes())
                        && let Some(sym) = table.symbols.get(number)
                        && let Some(symbol) = self.defined(&sym, name.as_bytes())
                        && best.as_ref().is_none_or(|best| symbol.binding > best.binding)
                    {
                        *best = Some(symbol);
                    }
                }
            }
        }
        found
    }

    /// Every defined symbol whose name begins so, in the order of the tables; at most 4096.
    pub fn symbols_with_prefix(&self, prefix: &str) -> Vec<ElfSymbol> {
        let mut found: Vec<ElfSymbol> = Vec::new();
        for table in self.tables() {
            // `.dynsym` mostly repeats `.symtab`.
            if !found.is_empty() {
                break;
            }
            let begins = |sym: &Sym| table.names.get(sym.st_name..).is_some_and(|s| s.starts_with(prefix.as_bytes()));
            let symbols = table.symbols.iter().filter(begins);
            found.extend(symbols.filter_map(|s| self.defined(&s, string_at(table.names, s.st_name))).take(MANY));
        }
        found
    }

    /// A symbol that has an address, else `None`.
    fn defined(&self, sym: &Sym, name: &[u8]) -> Option<ElfSymbol> {
        let (kind, binding) = self.class(sym)?;
        let name = String::from_utf8_lossy(name).into_owned();
        Some(ElfSymbol { name, address: self.address(sym), size: sym.st_size, sized: sym.st_size != 0, kind, binding })
    }

    fn class(&self, sym: &Sym) -> Option<(SymbolKind, Binding)> {
        if matches!(section_number(sym), SHN_UNDEF | SHN_COMMON) {
            return None;
        }
        let kind = match sym.st_type() {
            STT_NOTYPE => SymbolKind::None,
            STT_OBJECT => SymbolKind::Object,
            STT_FUNC | STT_GNU_IFUNC => SymbolKind::Function,
            STT_ARM_TFUNC if self.machine() == Machine::ARM => SymbolKind::Function,
            _ => return None,
        };
        let binding = match sym.st_bind() {
            STB_LOCAL => Binding::Local,
            STB_WEAK => Binding::Weak,
            _ => Binding::Global,
        };
        Some((kind, binding))
    }

    /// On ARM bit 0 of a function means Thumb; it is no part of the address.
    fn address(&self, sym: &Sym) -> Addr {
        let function = matches!(sym.st_type(), STT_FUNC | STT_GNU_IFUNC | STT_ARM_TFUNC);
        if function && self.machine() == Machine::ARM { sym.st_value & !1 } else { sym.st_value }
    }

    /// The function or variable that covers `address` (as linked: take the load offset off first). One of size
    /// 0 reaches to the next symbol or the end of its section. The innermost wins. The first call builds an index.
    pub fn covering(&self, address: Addr) -> Option<ElfSymbol> {
        let places = self.cache.places.get_or_init(|| self.index());
        let upto = places.partition_point(|p| p.start <= address);
        let before = places.get(..upto)?;
        let near = before.iter().rev().take(NESTING).take_while(|p| p.reach > address);
        self.placed(near.into_iter().find(|p| address < p.end)?)
    }

    /// The functions and variables that share a byte with the `len` bytes at `address` (as linked), at most 16
    /// of each table. One of size 0 counts at its first byte, and up to the next symbol as in [`Elf::covering`].
    pub fn sharing(&self, address: Addr, len: u64) -> Vec<ElfSymbol> {
        let sections = self.section_ends();
        let end = address.saturating_add(len);
        let mut found: Vec<ElfSymbol> = Vec::new();
        for (number, table) in self.tables().enumerate() {
            let places = table
                .symbols
                .iter()
                .filter(|sym| self.address(sym) < end)
                .filter_map(|sym| self.place(&sym, table.names, number, &sections));
            let shares = |p: &Place| if p.rank & UNSIZED == 0 { p.end > address } else { p.start >= address };
            found.extend(places.filter(shares).filter_map(|p| self.placed(&p)).take(SHARING));
        }
        found.extend(self.covering(address).filter(|s| !s.sized));
        found
    }

    /// The variables with a size in sections that are not written, by address, each once; at most so many.
    pub fn constants(&self, most: usize) -> Vec<ElfSymbol> {
        let sections = self.section_ends();
        let is_read_only = |sym: &Sym| {
            let section = sections.get(usize::try_from(section_number(sym)).unwrap_or(usize::MAX));
            section.is_some_and(|(flags, _)| flags & SHF_WRITE == 0)
        };
        let mut places: Vec<Place> = Vec::new();
        for (number, table) in self.tables().enumerate() {
            let all = table.symbols.iter().filter(is_read_only);
            let all = all.filter_map(|sym| self.place(&sym, table.names, number, &sections));
            places.extend(all.filter(|place| place.kind == SymbolKind::Object && place.rank & UNSIZED == 0));
        }
        places.sort_unstable_by_key(|place| (place.start, place.order()));
        places.dedup_by_key(|place| place.start);
        places.truncate(most);
        places.iter().filter_map(|place| self.placed(place)).collect()
    }

    /// The functions and variables that begin at these addresses, in their order: those that [`Elf::covering`] names, in
    /// one pass over the tables and without its index. One without a size reaches to the end of its section.
    pub fn starting_at(&self, addresses: &[Addr]) -> Vec<Option<ElfSymbol>> {
        let sections = self.section_ends();
        let filter = Bits::of(addresses);
        let mut places: BTreeMap<Addr, Option<Place>> = addresses.iter().map(|a| (*a, None)).collect();
        for (number, table) in self.tables().enumerate() {
            for (number_in_table, value) in table.values() {
                // On ARM a function may have the Thumb bit.
                if (filter.may_have(value) || filter.may_have(value & !1))
                    && let Some(sym) = table.symbols.get(number_in_table)
                    && let Some(best) = places.get_mut(&self.address(&sym))
                    && let Some(place) = self.place(&sym, table.names, number, &sections)
                    && best.as_ref().is_none_or(|best| place.order() < best.order())
                {
                    *best = Some(place);
                }
            }
        }
        let found = |address: &Addr| {
            let place = places.get(address)?.filter(|place| place.start < place.end)?;
            self.placed(&place)
        };
        addresses.iter().map(found).collect()
    }

    /// Flags and end of every section.
    fn section_ends(&self) -> Vec<(u32, Addr)> {
        self.sections().map(|s| (s.flags, s.addr.saturating_add(s.size))).collect()
    }

    /// The symbol of a place.
    fn placed(&self, place: &Place) -> Option<ElfSymbol> {
        let table = self.tables().nth(usize::from(place.table))?;
        let name = string_at(table.names, place.name as usize);
        Some(ElfSymbol {
            name: String::from_utf8_lossy(name).into_owned(),
            address: place.start,
            size: place.end.saturating_sub(place.start),
            sized: place.rank & UNSIZED == 0,
            kind: place.kind,
            binding: place.binding,
        })
    }

    /// Every symbol that is in memory, by address.
    fn index(&self) -> Vec<Place> {
        let sections = self.section_ends();
        let mut places: Vec<Place> = Vec::new();
        for (number, table) in self.tables().enumerate() {
            places.extend(table.symbols.iter().filter_map(|sym| self.place(&sym, table.names, number, &sections)));
        }
        // Of several at one address the best stays: sized, typed, widely visible, from the first table.
        places.sort_unstable_by_key(|p| (p.start, p.order()));
        places.dedup_by_key(|p| p.start);
        let mut next = Addr::MAX;
        for place in places.iter_mut().rev() {
            // Until now `end` of an unsized symbol is the end of its section.
            if place.rank & UNSIZED != 0 {
                place.end = place.end.min(next);
            }
            next = place.start;
        }
        let mut reach = 0;
        for place in &mut places {
            reach = place.end.max(reach);
            place.reach = reach;
        }
        places
    }

    /// Where a symbol is; `None` for one that is not in the target's memory.
    fn place(&self, sym: &Sym, names: &[u8], table: usize, sections: &[(u32, Addr)]) -> Option<Place> {
        let (kind, binding) = self.class(sym)?;
        let (flags, section_end) = match section_number(sym) {
            SHN_ABS => return None,
            SHN_XINDEX => (SHF_ALLOC, Addr::MAX),
            index => *sections.get(index as usize)?,
        };
        // Tools that change sections (`objcopy --set-section-flags`) leave variables without a type, but with their size.
        let is_untyped = kind == SymbolKind::None && sym.st_size != 0 && flags & SHF_EXECINSTR == 0;
        let kind = if is_untyped { SymbolKind::Object } else { kind };
        let label = kind == SymbolKind::None;
        if flags & SHF_ALLOC == 0 || (label && flags & SHF_EXECINSTR == 0) {
            return None;
        }
        // `$t`, `$d`, `$x` mark code and data for disassemblers; `.L` is a compiler's own.
        if label && matches!(names.get(sym.st_name), None | Some(0 | b'$' | b'.')) {
            return None;
        }
        let start = self.address(sym);
        let (end, unsized_bit) = match sym.st_size {
            0 => (section_end, UNSIZED),
            size => (start.saturating_add(size), 0),
        };
        let seen = match binding {
            Binding::Global => 0,
            Binding::Weak => 1,
            Binding::Local => 2,
        };
        let rank = seen | unsized_bit | if label { LABEL } else { 0 };
        let name = u32::try_from(sym.st_name).ok()?;
        Some(Place { start, end, reach: 0, name, table: u8::try_from(table).ok()?, rank, kind, binding })
    }
}

/// `st_shndx`, in the type of goblin's constants.
const fn section_number(sym: &Sym) -> u32 {
    sym.st_shndx as u32
}

/// Finds which of the wanted names a symbol can have, by the first bytes of its name: most have none of them.
struct NameFilter {
    mask: u64,
    bits: Bits,
    by_head: HashMap<u64, Vec<usize>>,
}

impl NameFilter {
    fn new(wanted: &[&str]) -> Self {
        let len = wanted.iter().map(|w| w.len()).min().unwrap_or(0);
        let mut mask = [0xFF; 8];
        mask.iter_mut().skip(len).for_each(|b| *b = 0);
        let mask = u64::from_le_bytes(mask);
        let mut by_head: HashMap<u64, Vec<usize>> = HashMap::new();
        for (at, name) in wanted.iter().enumerate() {
            by_head.entry(head(name.as_bytes()) & mask).or_default().push(at);
        }
        let bits = Bits::of(by_head.keys());
        Self { mask, bits, by_head }
    }

    /// Positions of the wanted names that begin as the string at `offset` does.
    fn candidates(&self, names: &[u8], offset: usize) -> &[usize] {
        let head = names.get(offset..).map_or(0, head) & self.mask;
        if !self.bits.may_have(head) {
            return &[];
        }
        self.by_head.get(&head).map_or(&[], Vec::as_slice)
    }
}

/// A set of numbers that may report one that it does not have, and never misses one (a Bloom filter).
struct Bits([u64; 64]);

impl Bits {
    fn of<'n>(numbers: impl IntoIterator<Item = &'n u64>) -> Self {
        let mut bits = [0; 64];
        for number in numbers {
            let (word, bit) = Self::place(*number);
            if let Some(word) = bits.get_mut(word) {
                *word |= bit;
            }
        }
        Self(bits)
    }

    /// Word and bit of a number.
    const fn place(number: u64) -> (usize, u64) {
        // Fibonacci hashing: 2^64 divided by the golden ratio.
        let hash = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        ((hash >> 58) as usize, 1 << (hash >> 52 & 63))
    }

    fn may_have(&self, number: u64) -> bool {
        let (word, bit) = Self::place(number);
        self.0.get(word).is_some_and(|word| word & bit != 0)
    }
}

/// The first eight bytes, zeros after the end.
fn head(bytes: &[u8]) -> u64 {
    match bytes.first_chunk::<8>() {
        Some(eight) => u64::from_le_bytes(*eight),
        None => bytes.iter().rev().fold(0, |acc, &b| (acc << 8) | u64::from(b)),
    }
}
