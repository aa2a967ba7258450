//! The target's memory and names, for what a rule asks itself: the bytes of a control block, whose variable is there.

use std::cell::RefCell;

use crate::abi::Addr;
use crate::mem::Memory;
use crate::sym::{Symbol, Symbols};

/// The most bytes of one answer.
const MOST: usize = 1024;

/// Them.
pub struct Look<'a> {
    memory: RefCell<&'a mut dyn Memory>,
    symbols: &'a dyn Symbols,
}

impl<'a> Look<'a> {
    /// Over the memory and the symbols of a target.
    #[must_use]
    pub fn new(memory: &'a mut dyn Memory, symbols: &'a dyn Symbols) -> Self {
        Self { memory: RefCell::new(memory), symbols }
    }

    /// The bytes at an address; `None` where not all of them can be read.
    pub(super) fn bytes(&self, at: Addr, len: u64) -> Option<Vec<u8>> {
        let len = usize::try_from(len).ok().filter(|len| *len <= MOST)?;
        let mut bytes = vec![0; len];
        self.memory.try_borrow_mut().ok()?.read(at, &mut bytes).ok()?;
        Some(bytes)
    }

    /// The symbol of this name.
    pub(super) fn symbol(&self, name: &str) -> Option<Symbol> {
        self.symbols.lookup(name)
    }

    /// The variable that covers an address.
    pub(super) fn variable(&self, at: Addr) -> Option<Symbol> {
        self.symbols.variable(at)
    }

    /// The function that covers an address.
    pub(super) fn function(&self, at: Addr) -> Option<Symbol> {
        self.symbols.function(at)
    }

    /// What an interrupt is called: the name of its handler, else its number.
    pub(super) fn interrupt(&self, number: u64) -> Option<String> {
        u32::try_from(number).ok().and_then(|number| self.symbols.exception(number))
    }

    /// `logged+0x20`: the variable that covers an address.
    pub(super) fn place(&self, at: Addr) -> Option<String> {
        let symbol = self.variable(at)?;
        let offset = at.checked_sub(symbol.address)?;
        Some(if offset == 0 { symbol.name } else { format!("{}+{offset:#x}", symbol.name) })
    }
}
