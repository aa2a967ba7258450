//! A pointer right behind an array, and like the elements of it, as a write past the end of the array leaves one.
//!
//! Against it: who sets the pointer may have set it so.

use super::super::{Case, Evidence};
use super::pointer::word;
use super::{arrays, set_by};
use crate::abi::{Addr, Region};

/// Such a pointer.
pub(super) struct PastEnd {
    /// `right behind the array limits[16], which ends with 0x453b8000`.
    pub words: String,
    pub next: String,
    /// Who writes to the array at an index that it computes.
    pub evidence: Option<Evidence>,
}

impl PastEnd {
    /// Of a pointer that leads to no memory. Its word and the last word of the array are alike in their highest byte, as numbers
    /// of one size are.
    pub fn of(place: Addr, value: u64, case: &Case<'_>) -> Option<Self> {
        if case.cpus?.has(value) != Some(false) {
            return None;
        }
        let [array] = arrays::in_front(place, case).try_into().ok()?;
        let last = word(place.checked_sub(case.width())?, case)?;
        let bits = case.width().checked_mul(8)?.checked_sub(8)?;
        let highest = |word: u64| word.checked_shr(u32::try_from(bits).unwrap_or(u32::MAX)).unwrap_or(0);
        if last == value || highest(last) == 0 || highest(last) != highest(value) {
            return None;
        }
        let variable = case.look.variable(place)?;
        let memory = Region { start: variable.address, len: variable.size };
        let (by, evidence) = set_by::writers(&array, memory, case).unzip();
        let by = by.map_or_else(String::new, |by| format!("; {by}"));
        let name = &array.name;
        Some(Self {
            words: format!(
                "right behind the array {array}, which ends with {last:#x}: {value:#x} may be written past its end{by}"
            ),
            next: format!("look for who writes more elements of {name} than there are"),
            evidence,
        })
    }
}
