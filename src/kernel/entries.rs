//! Whether the functions that threads were created with are the ELF's: under that of another build their addresses are
//! somewhere within other functions.

#![allow(clippy::arithmetic_side_effects, reason = "counts threads that are held in memory")]

use crate::abi::Addr;
use crate::code::Code;
use crate::elf::{Elf, Machine, SymbolKind};
use crate::trace::Issue;

/// Thread entries compared with the functions of the ELF.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entries {
    /// Entries that are the first byte of a function.
    pub same: usize,
    /// Entries that are in a function.
    pub compared: usize,
    /// The first that is not the first byte of its function, as `main+0x4`.
    pub first: Option<String>,
}

impl Entries {
    /// Compares them; `None` where no entry is in a function whose size is known. Entries elsewhere may be a module's.
    pub fn of(elf: &Elf, load_offset: u64, entries: impl IntoIterator<Item = Addr>) -> Option<Self> {
        // On ARM bit 0 of a pointer to a function is set for Thumb code.
        let thumb = u64::from(elf.machine() == Machine::ARM);
        let mut found = Self { same: 0, compared: 0, first: None };
        for entry in entries {
            let at = elf.width().moved_back(entry, load_offset) & !thumb;
            // What follows a label of unknown size need not be part of it.
            let Some(function) = elf.covering(at).filter(|f| f.kind == SymbolKind::Function && f.sized) else {
                continue;
            };
            found.compared += 1;
            match at.checked_sub(function.address) {
                Some(0) => found.same += 1,
                Some(into) if found.first.is_none() => found.first = Some(format!("{}+{into:#x}", function.name)),
                _ => {}
            }
        }
        (found.compared > 0).then_some(found)
    }

    /// True where each is the first byte of a function.
    pub const fn holds(&self) -> bool {
        self.same == self.compared
    }

    /// True for the ELF of another build: a control block that was overwritten is one, not most of them.
    pub const fn is_another(&self) -> bool {
        self.same * 2 <= self.compared
    }

    /// In words: `14 of 14 thread entries begin a function`.
    pub fn describe(&self) -> String {
        format!("{} of {} thread entries begin a function", self.same, self.compared)
    }

    /// The issue of a mismatch.
    pub fn issue(&self) -> Option<Issue> {
        let first = self.first.as_ref()?;
        let why = if self.is_another() {
            "this ELF is of another build; names and lines from it are wrong"
        } else {
            "this ELF is of another build, or control blocks were overwritten; names and lines from it may be wrong"
        };
        let message = format!("{} (the first that does not is {first}): {why}", self.describe());
        Some(Issue::new(Code::ElfMismatch, message))
    }
}
