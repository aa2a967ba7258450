//! Symbols of an ELF file: found by comparing bytes in one pass, remembered by name; never listed in full.
//!
//! Which symbol a name means, where several bear it: a global one before a weak one before a local one
//! (`-flto` makes all of ThreadX's names local, so local counts), `.symtab` before `.dynsym`, then the first.
//! What has no address of its own is no answer: undefined and common symbols, thread-local ones, names of
//! files and sections, and every symbol of a file that is not linked (`ET_REL`).

use std::collections::HashMap;
use std::sync::{Mutex, OnceLock, PoisonError};

use goblin::elf::sym::{Sym, Symtab};

use super::{Elf, ElfKind, Machine, SHF_ALLOC, SHF_EXECINSTR, SHT_DYNSYM, SHT_SYMTAB, string_at, string_is};
use crate::abi::Addr;

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

/// A symbol table and its names.
struct Names<'a> {
    symbols: Symtab<'a>,
    strings: &'a [u8],
}

/// How far back an address is searched among nested symbols.
const NESTING: usize = 256;
/// The most entries that [`Elf::symbols_with_prefix`] returns.
const MANY: usize = 4096;
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
            let size = Sym::size(self.ctx.container);
            let entry = u64::try_from(size).ok()?;
            // 0 is what careless writers leave; any other step is not a symbol table we know.
            if section.entsize != 0 && section.entsize != entry {
                return None;
            }
            let (offset, len) = self.clip(section.offset, section.size);
            let symbols = Symtab::parse(&self.bytes, offset, len.checked_div(size)?, self.ctx).ok()?;
            let names = self.section_at_index(usize::try_from(section.link).ok()?)?;
            Some(Names { symbols, strings: self.section_slice(&names) })
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
        let mut best: Vec<Option<(Binding, ElfSymbol)>> = vec![None; wanted.len()];
        let sieve = Sieve::new(wanted);
        for table in self.tables() {
            for sym in table.symbols.iter() {
                if !sieve.may_be(table.strings, sym.st_name) {
                    continue;
                }
                for (slot, name) in best.iter_mut().zip(wanted) {
                    if !string_is(table.strings, sym.st_name, name.as_bytes()) {
                        continue;
                    }
                    let Some(symbol) = self.defined(&sym, name.as_bytes()) else { continue };
                    if slot.as_ref().is_none_or(|(binding, _)| symbol.binding > *binding) {
                        *slot = Some((symbol.binding, symbol));
                    }
                }
            }
        }
        best.into_iter().map(|slot| slot.map(|(_, symbol)| symbol)).collect()
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
            let symbols = table.symbols.iter().filter(begins);
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
        let place = near.into_iter().find(|p| address < p.end)?;
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
        let sections: Vec<(u64, Addr)> = self.sections().map(|s| (s.flags, s.addr.saturating_add(s.size))).collect();
        let mut places: Vec<Place> = Vec::new();
        for (number, table) in self.tables().enumerate() {
            for sym in table.symbols.iter() {
                places.extend(self.place(&sym, table.strings, number, &sections));
            }
        }
        // Of several at one address the best stays: sized, typed, widely visible, from the first table.
        places.sort_unstable_by_key(|p| (p.start, p.rank, p.table, p.name));
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
        Self { mask, heads, len }
    }

    fn may_be(&self, strings: &[u8], offset: usize) -> bool {
        let Some(rest) = strings.get(offset..) else { return false };
        if rest.len() < self.len {
            return false;
        }
        let head = head(rest) & self.mask;
        self.heads.contains(&head)
    }
}

/// The first eight bytes, zeros after the end.
fn head(bytes: &[u8]) -> u64 {
    match bytes.first_chunk::<8>() {
        Some(eight) => u64::from_le_bytes(*eight),
        None => bytes.iter().rev().fold(0, |acc, &b| (acc << 8) | u64::from(b)),
    }
}
