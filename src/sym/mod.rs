//! SYMBOLS: names to addresses and back, whatever the source of the names.

pub mod dwarf;
pub mod elf_table;
pub mod evidence_notes;
pub mod exceptions;
pub mod layers;
pub mod pairs;

pub use dwarf::{ArrayMember, ArrayPlace, Member};
pub use elf_table::ElfSymbols;
pub use evidence_notes::EvidenceNotes;
pub use exceptions::Exceptions;
pub use layers::Layers;
pub use pairs::Pairs;

use crate::abi::Addr;

/// A named place on the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Symbol {
    /// Its name as the linker knows it. Hostile text: escape before printing.
    pub name: String,
    /// Run-time address (any load offset already added).
    pub address: Addr,
    /// Size in bytes; 0 where unknown.
    pub size: u64,
}

/// Looks names and addresses up. `None` means not found.
#[allow(unused_variables, reason = "these do nothing unless they are implemented")]
pub trait Symbols {
    /// The symbol of exactly this name, local or global.
    fn lookup(&self, name: &str) -> Option<Symbol>;

    /// The variable that covers `address`: never a function, nor what is between variables.
    fn variable(&self, address: Addr) -> Option<Symbol> {
        None
    }

    /// The function that covers `address`: never a variable.
    fn function(&self, address: Addr) -> Option<Symbol> {
        None
    }

    /// The variables that the program does not write, as far as its file says so. Empty where it does not.
    fn constants(&self) -> Vec<Symbol> {
        Vec::new()
    }

    /// File and line at an address, where debug information says: `pump.c:12`. Hostile text: escape before printing.
    fn source_line(&self, address: Addr) -> Option<String> {
        None
    }

    /// The functions that the compiler put into the one at an address, the innermost first, and that one, each with the file and line in
    /// it: `fifo_take` and `radio.c:84`. Empty where there are none. Hostile text.
    fn inlined(&self, address: Addr) -> Vec<(String, Option<String>)> {
        Vec::new()
    }

    /// The name of the exception of this number, where the program is for a processor that numbers them.
    fn exception(&self, number: u32) -> Option<String> {
        None
    }

    /// The handlers in the program's vector table with the numbers of their exceptions, where the program is for a processor that
    /// numbers them.
    fn handlers(&self) -> Vec<(u32, Addr)> {
        Vec::new()
    }

    /// The other exceptions whose vectors lead to the handler of the one with this number.
    fn others_with_handler(&self, number: u32) -> Vec<u32> {
        let all = self.handlers();
        let own = all.iter().find(|(other, _)| *other == number).map(|(_, at)| at & !1);
        let others = all.iter().filter(|(other, at)| *other != number && Some(at & !1) == own);
        others.map(|(other, _)| *other).collect()
    }

    /// True for the start of a function that returns nothing, where debug information says.
    fn returns_nothing(&self, address: Addr) -> bool {
        false
    }

    /// Offset of a member in a struct type, where debug information says.
    fn member_offset(&self, type_name: &str, member: &str) -> Option<u64> {
        None
    }

    /// What is at an address within the variable that covers it, where debug information says.
    fn member(&self, address: Addr) -> Option<Member> {
        None
    }

    /// The array that begins where the structure at an address ends, within one variable.
    fn array_behind(&self, address: Addr) -> Option<ArrayMember> {
        None
    }

    /// The arrays that an address is in: the outermost first.
    fn arrays_at(&self, address: Addr) -> Vec<ArrayPlace> {
        Vec::new()
    }

    /// The arrays that end in front of an address, within one variable: the outermost first.
    fn arrays_before(&self, address: Addr) -> Vec<ArrayMember> {
        Vec::new()
    }
}

/// No names at all: a bare dump.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoSymbols;

impl Symbols for NoSymbols {
    fn lookup(&self, _: &str) -> Option<Symbol> {
        None
    }
}
