//! Names from symbols, for what the trace itself does not name.

use crate::abi::{Addr, Width};
use crate::output::Resolve;
use crate::session::Session;
use crate::sym::Symbols;
use crate::trace::Trace;

/// The symbols of a session, asked by the addresses of its trace.
pub struct SymbolNames<'a> {
    symbols: &'a dyn Symbols,
    /// The upper half of every address, where the trace cuts them to their low 32 bits.
    high: u64,
}

impl<'a> SymbolNames<'a> {
    /// Over the symbols of `session`.
    pub fn new(session: &'a Session, trace: &Trace) -> Self {
        let cut = trace.about.word == Width::W4 && trace.about.pointer == Some(Width::W8);
        let high = if cut { trace.about.base & !Width::W4.max() } else { 0 };
        Self { symbols: session.symbols(), high }
    }
}

impl SymbolNames<'_> {
    /// The address of a name, as the trace stores addresses.
    pub fn address_of(&self, name: &str) -> Option<Addr> {
        let symbol = self.symbols.lookup(name.strip_prefix('&').unwrap_or(name))?;
        Some(if self.high == 0 { symbol.address } else { symbol.address & Width::W4.max() })
    }
}

impl Resolve for SymbolNames<'_> {
    fn object(&self, address: Addr) -> Option<String> {
        let address = address | self.high;
        let symbol = self.symbols.covering(address).filter(|s| s.address == address && address != 0)?;
        Some(format!("&{}", symbol.name))
    }

    fn code(&self, address: Addr) -> Option<String> {
        let address = address | self.high;
        let symbol = self.symbols.covering(address)?;
        let offset = address.checked_sub(symbol.address)?;
        Some(if offset == 0 { symbol.name } else { format!("{}+{offset:#x}", symbol.name) })
    }
}
