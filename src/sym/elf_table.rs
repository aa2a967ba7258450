//! Names from an ELF program, at run-time addresses.

use std::sync::{Arc, OnceLock};

use super::dwarf::Dwarf;
use super::exceptions::TABLES;
use super::{Exceptions, Symbol, Symbols};
use crate::abi::Addr;
use crate::elf::{Elf, ElfSymbol, Machine, SymbolKind};

/// What the formats and the kernel readers ask for: found in one pass over the table, together with the names of the
/// vector table.
const WANTED: [&str; 25] = [
    "_tx_trace_header_ptr",
    "_tx_trace_registry_start_ptr",
    "_tx_trace_registry_end_ptr",
    "_tx_trace_buffer_start_ptr",
    "_tx_trace_buffer_end_ptr",
    "_tx_trace_buffer_current_ptr",
    "_tx_trace_event_enable_bits",
    "_tx_trace_simulated_time",
    "_tx_trace_full_notify_function",
    "_tx_trace_total_registry_entries",
    "_tx_trace_available_registry_entries",
    "_tx_trace_registry_search_start",
    "_tx_trace_initialize",
    "_tx_trace_buffer",
    "tx_trace_buffer",
    "_tx_thread_current_ptr",
    "_tx_thread_execute_ptr",
    "_tx_thread_system_state",
    "_tx_thread_created_ptr",
    "_tx_thread_created_count",
    "_tx_timer_system_clock",
    "_tx_version_id",
    "_tx_linux_time_stamp",
    "_ux_version_id",
    "SystemCoreClock",
];

/// The symbols of a program, moved by its load offset; types from its debug information.
pub struct ElfSymbols {
    elf: Arc<Elf>,
    load_offset: u64,
    dwarf: Dwarf,
    exceptions: OnceLock<Option<Exceptions>>,
}

impl ElfSymbols {
    /// Over `elf`, loaded `load_offset` above where it was linked (0 unless it is position-independent; wraps).
    #[must_use]
    pub fn new(elf: Arc<Elf>, load_offset: u64) -> Self {
        drop(elf.lookup_many(&[&WANTED[..], &TABLES].concat()));
        let dwarf = Dwarf::new(Arc::clone(&elf));
        Self { elf, load_offset, dwarf, exceptions: OnceLock::new() }
    }

    /// The program.
    #[must_use]
    pub fn elf(&self) -> &Arc<Elf> {
        &self.elf
    }

    /// Its debug information.
    #[must_use]
    pub const fn dwarf(&self) -> &Dwarf {
        &self.dwarf
    }

    /// What is added to its addresses.
    #[must_use]
    pub const fn load_offset(&self) -> u64 {
        self.load_offset
    }

    fn linked(&self, address: Addr) -> Addr {
        address.wrapping_sub(self.load_offset) & self.elf.width().max()
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

    fn covering(&self, address: Addr) -> Option<Symbol> {
        self.elf.covering(self.linked(address)).map(|s| self.moved(s))
    }

    fn variable(&self, address: Addr) -> Option<Symbol> {
        let linked = self.linked(address);
        let found = self.elf.covering(linked).filter(|s| s.kind == SymbolKind::Object);
        // Where the linker knows no size, nothing but the start is known to be the variable's.
        found.filter(|s| s.sized || s.address == linked).map(|s| self.moved(s))
    }

    fn function(&self, address: Addr) -> Option<Symbol> {
        // On ARM bit 0 of a pointer to a function tells Thumb.
        let thumb = u64::from(self.elf.machine() == Machine::ARM);
        let found = self.elf.covering(self.linked(address) & !thumb).filter(|s| s.kind != SymbolKind::Object);
        found.map(|s| self.moved(s))
    }

    fn exception(&self, number: u32) -> Option<String> {
        // Where no interrupt of the chip is asked for, nobody looks for its handler.
        if let Some(name) = Exceptions::own(number) {
            return self.elf.is_m_profile().then(|| name.to_owned());
        }
        self.exceptions.get_or_init(|| Exceptions::of(&self.elf)).as_ref()?.name(number)
    }

    fn member_offset(&self, type_name: &str, member: &str) -> Option<u64> {
        self.dwarf.member_offset(type_name, member)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf::writer::{GLOBAL_OBJECT, LOCAL_OBJECT, Writer, sect, sym};

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
        assert_eq!(symbols.covering(0x4000_2027).unwrap().address, 0x4000_2020);
        assert_eq!(symbols.covering(0x2027), None);
        assert_eq!(symbols.member_offset("TX_THREAD", "tx_thread_name"), None);
        let below = ElfSymbols::new(elf, 0u64.wrapping_sub(0x1000));
        assert_eq!(below.lookup("mine").unwrap().address, 0x1020, "32-bit addresses wrap at 32 bits");
        assert_eq!(below.covering(0x1020).unwrap().name, "mine");
    }
}
