//! Symbols of an ELF file: found by comparing bytes in one pass, remembered by name; never listed in full.
//!
//! Which symbol a name means, where several bear it: a global one before a weak one before a local one
//! (`-flto` makes all of ThreadX's names local, so local counts), `.symtab` before `.dynsym`, then the first.
//! What has no address of its own is no answer: undefined and common symbols, thread-local ones, names of
//! files and sections, and every symbol of a file that is not linked (`ET_REL`).

use std::collections::HashMap;
use std::sync::{Mutex, OnceLock, PoisonError};

use goblin::container::Container;
use goblin::elf::sym::Sym;

use super::{Elf, ElfKind, Machine, SHF_ALLOC, SHF_EXECINSTR, SHT_DYNSYM, SHT_SYMTAB, string_at, string_is};
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
    /// False where [`Elf::covering`] took the distance to the next symbol for the size.
    pub sized: bool,
    /// What it names.
    pub kind: SymbolKind,
    /// Who sees it.
    pub binding: Binding,
}

/// What was looked up before, and the index for addresses once it was needed.
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
    /// Of several at one address the least stays.
    const fn order(&self) -> (u8, u8, u32) {
        (self.rank, self.table, self.name)
    }
}

/// A symbol table and its names.
struct Names<'a> {
    entries: &'a [u8],
    width: Width,
    endian: Endian,
    strings: &'a [u8],
}

impl<'a> Names<'a> {
    /// What each half of a long table gives, in their order: two looks at once take half the time. A short one is one part.
    fn by_halves<T: Send>(&self, look: impl Fn(&Names<'a>) -> T + Sync) -> Vec<T> {
        let middle = match self.width {
            Width::W4 => (self.entries.len() / 32).saturating_mul(16),
            Width::W8 => (self.entries.len() / 48).saturating_mul(24),
        };
        let Some((one, two)) = self.entries.split_at_checked(middle).filter(|_| self.entries.len() > LONG) else {
            return vec![look(self)];
        };
        let part = |entries| Names { entries, ..*self };
        std::thread::scope(|scope| {
            let there = std::thread::Builder::new().spawn_scoped(scope, || look(&part(two)));
            let here = look(&part(one));
            // Where there was no thread to be had, this one does it.
            let there = there.ok().and_then(|there| there.join().ok()).unwrap_or_else(|| look(&part(two)));
            vec![here, there]
        })
    }

    /// The symbols, in the order of the table. A program of 200 MB may have 600000, and nearly all are passed over by a
    /// look at one field: an entry's fields are taken from their places (gABI, `Elf32_Sym` and `Elf64_Sym`), and what
    /// nobody asks for costs nothing.
    #[inline]
    fn symbols(&self) -> impl Iterator<Item = Sym> {
        let (narrow, wide) = match self.width {
            Width::W4 => (self.entries, &[][..]),
            Width::W8 => (&[][..], self.entries),
        };
        let (narrow, wide) = (narrow.as_chunks::<16>().0, wide.as_chunks::<24>().0);
        let big = self.endian == Endian::Big;
        let narrow = narrow.iter().map(move |e| {
            let [n0, n1, n2, n3, v0, v1, v2, v3, s0, s1, s2, s3, st_info, st_other, x0, x1] = *e;
            Sym {
                st_name: word([n0, n1, n2, n3], big) as usize,
                st_value: word([v0, v1, v2, v3], big).into(),
                st_size: word([s0, s1, s2, s3], big).into(),
                st_info,
                st_other,
                st_shndx: half([x0, x1], big).into(),
            }
        });
        let wide = wide.iter().map(move |e| {
            let [n0, n1, n2, n3, st_info, st_other, x0, x1, value @ .., s0, s1, s2, s3, s4, s5, s6, s7] = *e;
            Sym {
                st_name: word([n0, n1, n2, n3], big) as usize,
                st_info,
                st_other,
                st_shndx: half([x0, x1], big).into(),
                st_value: long(value, big),
                st_size: long([s0, s1, s2, s3, s4, s5, s6, s7], big),
            }
        });
        narrow.chain(wide)
    }
}

const fn half(bytes: [u8; 2], big: bool) -> u16 {
    if big { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) }
}

const fn word(bytes: [u8; 4], big: bool) -> u32 {
    if big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
}

const fn long(bytes: [u8; 8], big: bool) -> u64 {
    if big { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) }
}

const fn container(width: Width) -> Container {
    match width {
        Width::W4 => Container::Little,
        Width::W8 => Container::Big,
    }
}

/// Bytes of a symbol table from which a second thread is worth its start.
const LONG: usize = 1 << 20;
/// How far back an address is searched among nested symbols.
const NESTING: usize = 256;
/// The most entries that [`Elf::symbols_with_prefix`] returns.
const MANY: usize = 4096;
/// The most symbols that [`Elf::sharing`] gives from each table.
const SHARING: usize = 16;
const SHN_UNDEF: usize = 0;
const SHN_ABS: usize = 0xFFF1;
const SHN_COMMON: usize = 0xFFF2;
const SHN_XINDEX: usize = 0xFFFF;

impl Elf {
    /// `.symtab` and `.dynsym`, as far as they are in the file.
    fn tables(&self) -> impl Iterator<Item = Names<'_>> + '_ {
        let linked = self.kind() != ElfKind::Object;
        [SHT_SYMTAB, SHT_DYNSYM].into_iter().filter_map(move |kind| {
            let section = self.sections().find(|s| linked && s.kind == kind)?;
            let entry = u64::try_from(Sym::size(container(self.width))).ok()?;
            // 0 is what careless writers leave; any other step is not a symbol table we know.
            if section.entsize != 0 && section.entsize != entry {
                return None;
            }
            let names = self.section_at_index(usize::try_from(section.link).ok()?)?;
            let (entries, strings) = (self.section_slice(&section), self.section_slice(&names));
            Some(Names { entries, width: self.width, endian: self.endian, strings })
        })
    }

    /// True where no `.symtab` is left: `strip` was here, or the file is cut short.
    #[must_use]
    pub fn is_stripped(&self) -> bool {
        !self.sections().any(|s| s.kind == SHT_SYMTAB && s.size > 0)
    }

    /// The symbol of exactly this name. Remembered: asking again costs nothing.
    #[must_use]
    pub fn symbol(&self, name: &str) -> Option<ElfSymbol> {
        self.lookup_many(&[name]).pop().flatten()
    }

    /// The symbols of these names, in their order, in one pass over the tables. What was asked before is not
    /// searched again.
    #[must_use]
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

    /// One pass for all of `wanted`. Most symbols are dismissed by their first bytes.
    fn search(&self, wanted: &[&str]) -> Vec<Option<ElfSymbol>> {
        let sieve = Sieve::new(wanted);
        let mut best: Vec<Option<ElfSymbol>> = vec![None; wanted.len()];
        let keep = |best: &mut [Option<ElfSymbol>], at: usize, symbol: ElfSymbol| {
            if let Some(slot) = best.get_mut(at)
                && slot.as_ref().is_none_or(|best| symbol.binding > best.binding)
            {
                *slot = Some(symbol);
            }
        };
        for table in self.tables() {
            let parts = table.by_halves(|part| {
                let mut best: Vec<Option<ElfSymbol>> = vec![None; wanted.len()];
                for sym in part.symbols().filter(|sym| sieve.may_be(part.strings, sym.st_name)) {
                    for (at, name) in wanted.iter().enumerate() {
                        if string_is(part.strings, sym.st_name, name.as_bytes())
                            && let Some(symbol) = self.defined(&sym, name.as_bytes())
                        {
                            keep(&mut best, at, symbol);
                        }
                    }
                }
                best
            });
            for part in parts {
                part.into_iter().enumerate().for_each(|(at, symbol)| {
                    if let Some(symbol) = symbol {
                        keep(&mut best, at, symbol);
                    }
                });
            }
        }
        best
    }

    /// Every defined symbol whose name begins so, in the order of the tables; at most 4096.
    #[must_use]
    pub fn symbols_with_prefix(&self, prefix: &str) -> Vec<ElfSymbol> {
        let mut found: Vec<ElfSymbol> = Vec::new();
        for table in self.tables() {
            // `.dynsym` mostly repeats `.symtab`.
            if !found.is_empty() {
                break;
            }
            let begins = |sym: &Sym| table.strings.get(sym.st_name..).is_some_and(|s| s.starts_with(prefix.as_bytes()));
            let symbols = table.symbols().filter(begins);
            found.extend(symbols.filter_map(|s| self.defined(&s, string_at(table.strings, s.st_name))).take(MANY));
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
        if matches!(sym.st_shndx, SHN_UNDEF | SHN_COMMON) {
            return None;
        }
        let kind = match sym.st_type() {
            0 => SymbolKind::None,
            1 => SymbolKind::Object,
            // STT_GNU_IFUNC; STT_ARM_TFUNC of old ARM tools.
            2 | 10 => SymbolKind::Function,
            13 if self.machine() == Machine::ARM => SymbolKind::Function,
            _ => return None,
        };
        let binding = match sym.st_bind() {
            0 => Binding::Local,
            2 => Binding::Weak,
            _ => Binding::Global,
        };
        Some((kind, binding))
    }

    /// On ARM bit 0 of a function tells Thumb; it is no part of the address.
    fn address(&self, sym: &Sym) -> Addr {
        let function = matches!(sym.st_type(), 2 | 10 | 13);
        if function && self.machine() == Machine::ARM { sym.st_value & !1 } else { sym.st_value }
    }

    /// The function or variable that covers `address` (as linked: take the load offset off first). One of size
    /// 0 reaches to the next symbol or the end of its section. The innermost wins. The first call builds an index.
    #[must_use]
    pub fn covering(&self, address: Addr) -> Option<ElfSymbol> {
        let places = self.cache.places.get_or_init(|| self.index());
        let upto = places.partition_point(|p| p.start <= address);
        let before = places.get(..upto)?;
        let near = before.iter().rev().take(NESTING).take_while(|p| p.reach > address);
        self.placed(near.into_iter().find(|p| address < p.end)?)
    }

    /// The functions and variables that share a byte with the `len` bytes at `address` (as linked), at most 16
    /// of each table. One of size 0 counts at its first byte, and up to the next symbol as in [`Elf::covering`].
    #[must_use]
    pub fn sharing(&self, address: Addr, len: u64) -> Vec<ElfSymbol> {
        let sections = self.section_ends();
        let end = address.saturating_add(len);
        let mut found: Vec<ElfSymbol> = Vec::new();
        for (number, table) in self.tables().enumerate() {
            let places = table
                .symbols()
                .filter(|sym| self.address(sym) < end)
                .filter_map(|sym| self.place(&sym, table.strings, number, &sections));
            let shares = |p: &Place| if p.rank & UNSIZED == 0 { p.end > address } else { p.start >= address };
            found.extend(places.filter(shares).filter_map(|p| self.placed(&p)).take(SHARING));
        }
        found.extend(self.covering(address).filter(|s| !s.sized));
        found
    }

    /// The functions and variables that begin at these addresses, in their order: those that [`Elf::covering`] names, in
    /// one pass over the tables and without its index. One without a size reaches to the end of its section.
    #[must_use]
    pub fn starting_at(&self, addresses: &[Addr]) -> Vec<Option<ElfSymbol>> {
        let sections = self.section_ends();
        let mut places: Vec<(Addr, Option<Place>)> = addresses.iter().map(|a| (*a, None)).collect();
        places.sort_unstable_by_key(|(address, _)| *address);
        places.dedup_by_key(|(address, _)| *address);
        let first = |a: Option<Place>, b: Option<Place>| a.into_iter().chain(b).min_by_key(Place::order);
        let mut sieve = Bits::default();
        places.iter().for_each(|(address, _)| sieve.add(*address));
        for (number, table) in self.tables().enumerate() {
            let parts = table.by_halves(|part| {
                let mut best: Vec<Option<Place>> = vec![None; places.len()];
                for sym in part.symbols() {
                    let address = self.address(&sym);
                    if sieve.may_have(address)
                        && let Ok(at) = places.binary_search_by_key(&address, |(address, _)| *address)
                        && let Some(place) = self.place(&sym, part.strings, number, &sections)
                        && let Some(slot) = best.get_mut(at)
                    {
                        *slot = first(*slot, Some(place));
                    }
                }
                best
            });
            for (at, place) in parts.into_iter().flat_map(|part| part.into_iter().enumerate()) {
                if let Some((_, best)) = places.get_mut(at) {
                    *best = first(*best, place);
                }
            }
        }
        let found = |address: &Addr| {
            let at = places.binary_search_by_key(address, |(address, _)| *address).ok()?;
            let place = places.get(at)?.1.filter(|place| place.start < place.end)?;
            self.placed(&place)
        };
        addresses.iter().map(found).collect()
    }

    /// Flags and end of every section.
    fn section_ends(&self) -> Vec<(u64, Addr)> {
        self.sections().map(|s| (s.flags, s.addr.saturating_add(s.size))).collect()
    }

    /// The symbol of a place.
    fn placed(&self, place: &Place) -> Option<ElfSymbol> {
        let table = self.tables().nth(usize::from(place.table))?;
        let name = string_at(table.strings, usize::try_from(place.name).ok()?);
        Some(ElfSymbol {
            name: String::from_utf8_lossy(name).into_owned(),
            address: place.start,
            size: place.end.saturating_sub(place.start),
            sized: place.rank & UNSIZED == 0,
            kind: place.kind,
            binding: place.binding,
        })
    }

    /// Every symbol that lies in memory, by address.
    fn index(&self) -> Vec<Place> {
        let sections = self.section_ends();
        let mut places: Vec<Place> = Vec::new();
        for (number, table) in self.tables().enumerate() {
            for sym in table.symbols() {
                places.extend(self.place(&sym, table.strings, number, &sections));
            }
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

    fn place(&self, sym: &Sym, strings: &[u8], table: usize, sections: &[(u64, Addr)]) -> Option<Place> {
        let (kind, binding) = self.class(sym)?;
        let (flags, section_end) = match sym.st_shndx {
            SHN_ABS => return None,
            SHN_XINDEX => (SHF_ALLOC, Addr::MAX),
            index => *sections.get(index)?,
        };
        let label = kind == SymbolKind::None;
        if flags & SHF_ALLOC == 0 || (label && flags & SHF_EXECINSTR == 0) {
            return None;
        }
        // `$t`, `$d`, `$x` mark code and data for disassemblers; `.L` is a compiler's own.
        if label && matches!(strings.get(sym.st_name), None | Some(0 | b'$' | b'.')) {
            return None;
        }
        let start = self.address(sym);
        let sized = sym.st_size != 0;
        let mut rank = match binding {
            Binding::Global => 0,
            Binding::Weak => 1,
            Binding::Local => 2,
        };
        if label {
            rank |= 4;
        }
        if !sized {
            rank |= UNSIZED;
        }
        let end = if sized { start.saturating_add(sym.st_size) } else { section_end };
        let name = u32::try_from(sym.st_name).ok()?;
        Some(Place { start, end, reach: 0, name, table: u8::try_from(table).ok()?, rank, kind, binding })
    }
}

const UNSIZED: u8 = 8;

/// Tells by the first bytes of a name that it is none of those wanted.
struct Sieve {
    mask: u64,
    heads: Vec<u64>,
    bits: Bits,
    len: usize,
}

impl Sieve {
    fn new(wanted: &[&str]) -> Self {
        let len = wanted.iter().map(|w| w.len()).min().unwrap_or(0).min(8);
        let mut full = [0u8; 8];
        full.iter_mut().take(len).for_each(|b| *b = 0xFF);
        let mask = u64::from_le_bytes(full);
        let mut heads: Vec<u64> = wanted.iter().map(|w| head(w.as_bytes()) & mask).collect();
        heads.sort_unstable();
        heads.dedup();
        let mut bits = Bits::default();
        heads.iter().for_each(|head| bits.add(*head));
        Self { mask, heads, bits, len }
    }

    #[inline]
    fn may_be(&self, strings: &[u8], offset: usize) -> bool {
        let Some(rest) = strings.get(offset..) else { return false };
        if rest.len() < self.len {
            return false;
        }
        let head = head(rest) & self.mask;
        self.bits.may_have(head) && self.heads.contains(&head)
    }
}

/// A set of numbers that is sure of what it has not: four bits of each number's product tell the word, six the bit.
#[derive(Default)]
struct Bits([u64; 16]);

impl Bits {
    const fn place(number: u64) -> (usize, u32) {
        // Fibonacci hashing: 2^64 divided by the golden ratio.
        let product = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        ((product >> 60) as usize, (product >> 54) as u32 & 63)
    }

    fn add(&mut self, number: u64) {
        let (word, bit) = Self::place(number);
        if let Some(word) = self.0.get_mut(word) {
            *word |= 1 << bit;
        }
    }

    #[inline]
    fn may_have(&self, number: u64) -> bool {
        let (word, bit) = Self::place(number);
        self.0.get(word).is_some_and(|word| word >> bit & 1 != 0)
    }
}

/// The first eight bytes, zeros after the end.
#[inline]
fn head(bytes: &[u8]) -> u64 {
    match bytes.first_chunk::<8>() {
        Some(eight) => u64::from_le_bytes(*eight),
        None => bytes.iter().rev().fold(0, |acc, &b| (acc << 8) | u64::from(b)),
    }
}
