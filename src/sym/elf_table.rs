//! Names from an ELF program, at run-time addresses.

use std::sync::{Arc, OnceLock};

use super::dwarf::Dwarf;
use super::exceptions::TABLES;
use super::{ArrayMember, ArrayPlace, Exceptions, Member, Symbol, Symbols};
use crate::abi::Addr;
use crate::elf::{Elf, ElfSymbol, Machine, SymbolKind};

/// The most constants that are listed.
const MOST_CONSTANTS: usize = 1 << 14;

/// The symbols of a program, moved by its load offset; types from its debug information.
#[derive(Clone)]
pub struct ElfSymbols {
    elf: Arc<Elf>,
    load_offset: u64,
    dwarf: Arc<Dwarf>,
    exceptions: Arc<OnceLock<Option<Exceptions>>>,
    /// Names of the vector table beside the usual ones.
    tables: &'static [&'static str],
}

impl ElfSymbols {
    /// Over `elf`, loaded `load_offset` above where it was linked (0 unless it is position-independent; wraps).
    pub fn new(elf: Arc<Elf>, load_offset: u64) -> Self {
        let dwarf = Arc::new(Dwarf::new(Arc::clone(&elf)));
        Self { elf, load_offset, dwarf, exceptions: Arc::default(), tables: &[] }
    }

    /// Finds symbols that will be asked for, and the vector table's, in one pass over the symbol table. `tables`: names
    /// that a kernel gives the vector table.
    #[must_use]
    pub fn expecting(self, names: &[&str], tables: &'static [&'static str]) -> Self {
        drop(self.elf.lookup_many(&[names, &TABLES, tables].concat()));
        Self { tables, ..self }
    }

    /// The same program at another place; what was read of it is shared.
    pub fn at(&self, load_offset: u64) -> Self {
        Self { load_offset, ..self.clone() }
    }

    /// The program.
    pub fn elf(&self) -> &Arc<Elf> {
        &self.elf
    }

    /// How far above the addresses it is linked to it was loaded.
    pub const fn load_offset(&self) -> u64 {
        self.load_offset
    }

    /// Its debug information.
    pub fn dwarf(&self) -> &Dwarf {
        &self.dwarf
    }

    fn linked(&self, address: Addr) -> Addr {
        address.wrapping_sub(self.load_offset) & self.elf.width().max()
    }

    /// The variable that covers an address, where it was linked, and how far into it the address is.
    fn within(&self, address: Addr) -> Option<(Symbol, u64)> {
        let own = self.variable(address)?;
        let offset = address.checked_sub(own.address)?;
        Some((Symbol { address: self.linked(own.address), ..own }, offset))
    }

    fn moved(&self, symbol: ElfSymbol) -> Symbol {
        let address = symbol.address.wrapping_add(self.load_offset) & self.elf.width().max();
        Symbol { name: symbol.name, address, size: symbol.size }
    }
}

impl Symbols for ElfSymbols {
    fn lookup(&self, name: &str) -> Option<Symbol> {
        self.elf.symbol(name).map(|s| self.moved(s))
    }

    fn variable(&self, address: Addr) -> Option<Symbol> {
        let linked = self.linked(address);
        let found = self.elf.covering(linked).filter(|s| s.kind == SymbolKind::Object);
        // Without a size only the first byte is known to be the variable's.
        found.filter(|s| s.sized || s.address == linked).map(|s| self.moved(s))
    }

    fn function(&self, address: Addr) -> Option<Symbol> {
        // On ARM bit 0 of a pointer to a function means Thumb.
        let thumb = u64::from(self.elf.machine() == Machine::ARM);
        let found = self.elf.covering(self.linked(address) & !thumb).filter(|s| s.kind != SymbolKind::Object);
        found.map(|s| self.moved(s))
    }

    fn constants(&self) -> Vec<Symbol> {
        self.elf.constants(MOST_CONSTANTS).into_iter().map(|symbol| self.moved(symbol)).collect()
    }

    fn source_line(&self, address: Addr) -> Option<String> {
        let frames = self.dwarf.lines().frames(&[self.linked(address)]).pop()?;
        frames.first()?.place()
    }

    fn inlined(&self, address: Addr) -> Vec<(String, Option<String>)> {
        let frames = self.dwarf.lines().frames(&[self.linked(address)]).pop().filter(|frames| frames.len() > 1);
        frames
            .unwrap_or_default()
            .into_iter()
            .filter_map(|frame| Some((frame.function.clone()?, frame.place())))
            .collect()
    }

    fn exception(&self, number: u32) -> Option<String> {
        // Where no interrupt of the chip is asked for, its handler is not searched.
        if let Some(name) = Exceptions::own(number) {
            return self.elf.is_m_profile().then(|| name.to_owned());
        }
        self.exceptions.get_or_init(|| Exceptions::of(&self.elf, self.tables)).as_ref()?.name(number)
    }

    fn handlers(&self) -> Vec<(u32, Addr)> {
        let all = Exceptions::entries(&self.elf, self.tables).into_iter();
        all.map(|(number, at)| (number, at.wrapping_add(self.load_offset) & self.elf.width().max())).collect()
    }

    fn member_offset(&self, type_name: &str, member: &str) -> Option<u64> {
        self.dwarf.member_offset(type_name, member)
    }

    fn returns_nothing(&self, address: Addr) -> bool {
        let thumb = u64::from(self.elf.machine() == Machine::ARM);
        let found = self.elf.covering(self.linked(address) & !thumb).filter(|s| s.kind != SymbolKind::Object);
        found.is_some_and(|function| {
            let linked =
                Symbol { name: function.name.to_owned(), address: function.address & !thumb, ..self.moved(function) };
            self.dwarf.returns_nothing(&linked)
        })
    }

    fn member(&self, address: Addr) -> Option<Member> {
        let (variable, offset) = self.within(address)?;
        self.dwarf.member(&variable, offset)
    }

    fn array_behind(&self, address: Addr) -> Option<ArrayMember> {
        let (variable, offset) = self.within(address)?;
        self.dwarf.array_behind(&variable, offset)
    }

    fn arrays_at(&self, address: Addr) -> Vec<ArrayPlace> {
        let Some((variable, offset)) = self.within(address) else { return Vec::new() };
        let moved = |linked: Addr| linked.wrapping_add(self.load_offset) & self.elf.width().max();
        let all = self.dwarf.arrays_at(&variable, offset).into_iter();
        all.map(|one| ArrayPlace { address: moved(one.address), ..one }).collect()
    }

    fn arrays_before(&self, address: Addr) -> Vec<ArrayMember> {
        let before = address.checked_sub(1).and_then(|last| self.within(last));
        let ending = |(variable, last): (Symbol, u64)| Some(self.dwarf.arrays_ending(&variable, last.checked_add(1)?));
        before.and_then(ending).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf::tests::writer::{GLOBAL_OBJECT, LOCAL_OBJECT, Writer, sect, sym};

    #[test]
    fn addresses_are_those_of_the_run() {
        let mut w = Writer::new(false, false, 3, 243);
        w.sects = vec![sect(".bss", 8, 3, 0x2000, vec![])];
        w.sects[0].size = Some(0x100);
        let local = sym("_tx_trace_header_ptr", 0x2010, 4, LOCAL_OBJECT, 1);
        w.syms = vec![local, sym("mine", 0x2020, 8, GLOBAL_OBJECT, 1)];
        let elf = Arc::new(Elf::open(w.build()).unwrap());
        let symbols = ElfSymbols::new(Arc::clone(&elf), 0x4000_0000);
        let header = symbols.lookup("_tx_trace_header_ptr").unwrap();
        assert_eq!((header.address, header.size), (0x4000_2010, 4));
        assert_eq!(symbols.variable(0x4000_2027).unwrap().address, 0x4000_2020);
        assert_eq!(symbols.variable(0x2027), None);
        assert_eq!(symbols.member_offset("TX_THREAD", "tx_thread_name"), None);
        let below = ElfSymbols::new(elf, 0u64.wrapping_sub(0x1000));
        assert_eq!(below.lookup("mine").unwrap().address, 0x1020, "32-bit addresses wrap at 32 bits");
        assert_eq!(below.variable(0x1020).unwrap().name, "mine");
    }
}
