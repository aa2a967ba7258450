//! A pointer of the program to a struct of its own that holds the address of a control block: who writes to that struct through it
//! overwrites the control block. A table that is read at an index that is one too large gives such a pointer, as does a function that is
//! passed the wrong object.
//!
//! Against it: the pointer may not have been used to write, and a number may look like such an address by chance. A struct that begins
//! with the control block of the kernel is another name for it.

use super::super::{Case, Evidence, Finding};
use super::static_pointers::{self, StaticPointer};
use super::words::function_at;
use crate::abi::{Addr, Region};

/// What the names of the kernel's types begin with.
const KERNEL: &str = "TX_";
/// The most functions that are named.
const MOST: usize = 3;

/// Such a pointer.
pub(super) struct OtherType {
    words: String,
    name: String,
    evidence: Evidence,
}

impl OtherType {
    /// The only one that holds the address of a control block.
    pub fn of(block: Addr, case: &Case<'_>) -> Option<Self> {
        let of = |pointer: StaticPointer| {
            let structs = case.look.points_to(pointer.at);
            let of = structs.first().filter(|_| !structs.iter().any(|name| name.starts_with(KERNEL)))?;
            let functions: Vec<String> =
                pointer.users.iter().take(MOST).map(|function| function_at(*function, case)).collect();
            let users = match functions.as_slice() {
                [] => String::new(),
                [one] => format!("; {one} has its address"),
                all => format!("; {} have its address", all.join(", ")),
            };
            let name = pointer.name;
            Some(Self {
                words: format!("{name}, a pointer to {of}, has the address of this block{users}"),
                evidence: Evidence::memory(
                    pointer.at,
                    format!("{name}, a pointer to {of}, holds the address of {}", case.object(block)),
                )
                .holds(block),
                name,
            })
        };
        let mut all = static_pointers::into(Region { start: block, len: 1 }, case).into_iter().filter_map(of);
        all.next().filter(|_| all.next().is_none())
    }

    /// Adds it to a finding.
    pub fn added_to(self, finding: Finding) -> Finding {
        let claim = format!("{}; {}", finding.claim, self.words);
        Finding { claim, ..finding }
            .against([format!("that somebody wrote there through {} is inferred from its type", self.name)])
            .evidence([self.evidence])
            .next(format!("find out how {} came to point there, and what is written through it", self.name))
    }
}
