//! Who may have written to an address by an index that is none: a search that finds nothing returns -1, which is 255 in a variable of 8
//! bits, and 65535 in one of 16. Where the element of that number would be at the address, the code that writes to the array at an index
//! that it computes is named.
//!
//! Against it: that code may check its index, and others may write there, too.

use std::collections::BTreeMap;

use super::super::usage::Store;
use super::super::{Case, Evidence, Finding};
use super::set_by;
use super::words::place_at;
use crate::abi::Addr;
use crate::cpu::{Stored, Value};
use crate::sym::ArrayPlace;

/// -1 in a variable of 8 bits, and of 16.
const WRONG: [u64; 2] = [0xFF, 0xFFFF];

/// Bytes of an id, and of a pointer.
const WORD: u64 = 4;

/// What speaks against it.
pub(super) const AGAINST: &str = "that an index was wrong is inferred from where it leads: the code may check it";

/// Such an index.
pub(super) struct WrongIndex {
    /// `lane_book (app.c:33), which router calls, writes to line.lanes[12] at an index that it computes: element 255 would be there`.
    pub words: String,
    pub next: String,
    pub evidence: Evidence,
}

impl WrongIndex {
    /// Of an address; `None` where several functions may have written there so.
    pub fn of(at: Addr, case: &Case<'_>) -> Option<Self> {
        let all = case.usage()?.indexed_stores()?;
        let base = |stored: &Stored| if let Value::Near(at) = stored.place { Some(Addr::from(at)) } else { None };
        let (mut found, mut looked) = (BTreeMap::new(), BTreeMap::new());
        for (store, stored) in all {
            let Some(first) = base(stored) else { continue };
            let arrays: &Vec<ArrayPlace> = looked.entry(first).or_insert_with(|| case.look.arrays_at(first));
            let wrong = arrays.iter().find_map(|array| Some((array, wrong_index(array, at)?)));
            // The compiler may have added the place of the array in its variable to the index.
            let comes_there = |array: &ArrayPlace, (other, stored): &(Store, Stored)| {
                let variable = |at| case.look.variable(at).map(|variable| variable.address);
                let is_of_array = |from: &Addr| other.function == store.function && variable(*from) == variable(first);
                base(stored).filter(is_of_array).is_some_and(|from| is_written(array, at, from, stored.bytes.into()))
            };
            if let Some((array, index)) = wrong
                && all.iter().any(|other| comes_there(array, other))
            {
                found.entry(store.function).or_insert((*store, array.clone(), index));
            }
        }
        let (store, array, index) = found.first_key_value().filter(|_| found.len() == 1)?.1;
        let place = place_at(store.at, case);
        let ArrayPlace { array, .. } = array;
        Some(Self {
            words: format!(
                "{} writes to {array} at an index that it computes: element {index} would be there",
                set_by::named(store, case)
            ),
            next: format!("look at {place}: whether the index of {} may be {index:#x} there", array.name),
            evidence: Evidence::symbol(
                store.at,
                &place,
                format!("by the code, {array} is written here, at an index that is computed"),
            ),
        })
    }

    /// Adds it to a finding.
    pub fn added_to(self, finding: Finding) -> Finding {
        let claim = format!("{}; {}", finding.claim, self.words);
        Finding { claim, ..finding }.against([AGAINST]).evidence([self.evidence]).next(self.next)
    }
}

/// The wrong index of an array that leads to an address.
fn wrong_index(array: &ArrayPlace, at: Addr) -> Option<u64> {
    let elements = array.array.lengths.iter().copied().try_fold(1u64, u64::checked_mul)?;
    let index = at.checked_sub(array.address)?.checked_div(array.element)?;
    (index >= elements && WRONG.contains(&index)).then_some(index)
}

/// True where a store of so many bytes, which is at an address in or in front of an array for index 0, writes all of a word in another
/// element.
fn is_written(array: &ArrayPlace, at: Addr, from: Addr, bytes: u64) -> bool {
    let into = at.checked_sub(from).and_then(|distance| distance.checked_rem(array.element));
    into.and_then(|into| into.checked_add(WORD)).is_some_and(|end| end <= bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sym::ArrayMember;

    #[test]
    fn an_index_of_255_in_a_shorter_array() {
        let array = |length| ArrayPlace {
            array: ArrayMember { name: "lanes".to_owned(), lengths: vec![length] },
            address: 0x2000_0060,
            element: 16,
        };
        let of = |length, at| wrong_index(&array(length), at);
        assert_eq!(of(12, 0x2000_0060 + 255 * 16), Some(255));
        assert_eq!(of(12, 0x2000_0060 + 255 * 16 + 12), Some(255), "a member of the element");
        assert_eq!(of(12, 0x2000_0060 + 254 * 16), None);
        assert_eq!(of(300, 0x2000_0060 + 255 * 16), None, "an element");
        assert_eq!(of(12, 0x2000_0060 + 65535 * 16), Some(65535));
        assert_eq!(of(12, 0x2000_0000), None, "in front of it");
        let is_written = |at, from, bytes| is_written(&array(12), at, from, bytes);
        let there = 0x2000_0060 + 255 * 16;
        assert!(is_written(there + 4, 0x2000_0064, 4) && is_written(there + 4, 0x2000_0060, 8));
        assert!(is_written(there, 0x2000_0000, 4), "6 elements in front of the array");
        assert!(!is_written(there + 8, 0x2000_0064, 4), "another member");
        assert!(!is_written(there + 4, 0x2000_0064, 1), "a part of the word");
    }
}
