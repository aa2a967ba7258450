//! Who may have written to an address by an index that is none: a search that finds nothing returns -1, which is 255 in a variable of 8
//! bits, and 65535 in one of 16. Where the element of that number would be at the address, the code that writes to the array at an index
//! that it computes is named. The same of an array that begins not far behind the address, of an index below 0.
//!
//! Against it: that code may check its index, and others may write there, too.

use std::collections::BTreeMap;

use super::super::usage::Store;
use super::super::{Case, Evidence, Finding};
use super::pointer::body;
use super::set_by;
use super::words::place_at;
use crate::abi::Addr;
use crate::cpu::{Architecture, Stored, Value, is_index_masked};
use crate::sym::{ArrayMember, ArrayPlace};

/// -1 in a variable of 8 bits, and of 16.
const WRONG: [u64; 2] = [0xFF, 0xFFFF];

/// Bytes of an id, and of a pointer.
const WORD: u64 = 4;
/// The most bytes from an address to an array behind it.
const FAR: u64 = 1024;
/// The most functions of which one may have written there by an index below 0.
const MOST: usize = 2;
/// The most functions that are looked for.
const ALL: usize = 8;

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
        let all = by(at, &wrong_index, case)?;
        all.first().filter(|_| all.len() == 1).map(|wrong| wrong.said(case))
    }

    /// The same of an index below 0: of one function, or of one of two.
    pub fn below(at: Addr, case: &Case<'_>) -> Vec<Self> {
        let is_called =
            |wrong: &Wrong| case.usage().is_some_and(|usage| !usage.callers_of(wrong.store.function).is_empty());
        let mut all = by(at, &index_below, case).unwrap_or_default();
        all.retain(|wrong| is_called(wrong) && !may_not_be_below(&wrong.store, case));
        if all.len() > MOST { Vec::new() } else { all.iter().map(|wrong| wrong.said(case)).collect() }
    }

    /// Adds it to a finding.
    pub fn added_to(self, finding: Finding) -> Finding {
        let claim = format!("{}; {}", finding.claim, self.words);
        Finding { claim, ..finding }.against([AGAINST]).evidence([self.evidence]).next(self.next)
    }
}

/// True where the code in front of a store keeps its index from being below 0. Of Thumb code.
fn may_not_be_below(store: &Store, case: &Case<'_>) -> bool {
    let is_thumb = case.kernel.is_some_and(|kernel| kernel.processor == Some(Architecture::CortexM));
    let Some((from, code)) = body(store.at, case).filter(|_| is_thumb) else { return false };
    let front = || usize::try_from(store.at.checked_sub(from)?).ok();
    front()
        .and_then(|front| code.split_at_checked(front))
        .is_some_and(|(front, rest)| is_index_masked(from, front, rest))
}

/// Adds who may have written there by an index below 0 to a finding.
pub(super) fn may_be(all: Vec<WrongIndex>, finding: Finding) -> Finding {
    let words: Vec<&str> = all.iter().map(|wrong| wrong.words.as_str()).collect();
    let next: Vec<&str> = all.iter().map(|wrong| wrong.next.as_str()).collect();
    if words.is_empty() {
        return finding;
    }
    let claim = format!("{}; perhaps an index was below 0: {}", finding.claim, words.join("; or "));
    let next = format!("{}; and {}", next.join("; "), finding.next);
    Finding { claim, ..finding }.against([AGAINST]).evidence(all.into_iter().map(|wrong| wrong.evidence)).next(next)
}

/// A store of a function that may have written to an address.
struct Wrong {
    store: Store,
    array: ArrayMember,
    index: i64,
}

impl Wrong {
    fn said(&self, case: &Case<'_>) -> WrongIndex {
        let Self { store, array, index } = self;
        let place = place_at(store.at, case);
        let said = if *index < 0 { index.to_string() } else { format!("{index:#x}") };
        WrongIndex {
            words: format!(
                "{} writes to {array} at an index that it computes: element {index} would be there",
                set_by::named(store, case)
            ),
            next: format!("look at {place}: whether the index of {} may be {said} there", array.name),
            evidence: Evidence::symbol(
                store.at,
                &place,
                format!("by the code, {array} is written here, at an index that is computed"),
            ),
        }
    }
}

/// The first such store of each function, up to a limit. `index`: which index of an array leads to an address.
fn by(at: Addr, index: &dyn Fn(&ArrayPlace, Addr) -> Option<i64>, case: &Case<'_>) -> Option<Vec<Wrong>> {
    let all = case.usage()?.indexed_stores()?;
    let base = |stored: &Stored| if let Value::Near(at) = stored.place { Some(Addr::from(at)) } else { None };
    let variable = |at| case.look.variable(at).map(|variable| variable.address);
    let (mut found, mut looked) = (BTreeMap::new(), BTreeMap::new());
    for (store, stored) in all {
        let Some(first) = base(stored).filter(|_| !found.contains_key(&store.function)) else { continue };
        let arrays: &Vec<ArrayPlace> = looked.entry(first).or_insert_with(|| case.look.arrays_at(first));
        let Some((array, index)) = arrays.iter().find_map(|array| Some((array, index(array, at)?))) else { continue };
        // The compiler may have added the place of the array in its variable to the index.
        let own = variable(first);
        let comes_there = |(other, stored): &(Store, Stored)| {
            let is_of_array = |from: &Addr| other.function == store.function && variable(*from) == own;
            base(stored).filter(is_of_array).is_some_and(|from| is_written(array, at, from, stored.bytes.into()))
        };
        if all.iter().any(comes_there) {
            found.insert(store.function, Wrong { store: *store, array: array.array.clone(), index });
        }
        if found.len() > ALL {
            break;
        }
    }
    Some(found.into_values().collect())
}

/// The wrong index of an array that leads to an address.
fn wrong_index(array: &ArrayPlace, at: Addr) -> Option<i64> {
    let elements = array.array.lengths.iter().copied().try_fold(1u64, u64::checked_mul)?;
    let index = at.checked_sub(array.address)?.checked_div(array.element)?;
    (index >= elements && WRONG.contains(&index)).then_some(i64::try_from(index).ok()?)
}

/// The index below 0 of an array behind an address that leads there.
fn index_below(array: &ArrayPlace, at: Addr) -> Option<i64> {
    let far = at.wrapping_sub(array.address).cast_signed();
    let is_near = far < 0 && far.unsigned_abs() <= FAR;
    far.checked_div_euclid(i64::try_from(array.element).ok()?).filter(|_| is_near)
}

/// True where a store of so many bytes, which is at an address in or in front of an array for index 0, writes all of a word in another
/// element.
fn is_written(array: &ArrayPlace, at: Addr, from: Addr, bytes: u64) -> bool {
    let size = i64::try_from(array.element).ok();
    let into = size.and_then(|size| at.wrapping_sub(from).cast_signed().checked_rem_euclid(size));
    into.and_then(|into| into.cast_unsigned().checked_add(WORD)).is_some_and(|end| end <= bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

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

    /// An open thermocouple reads -2700, and its bucket was 72 words in front of the array: the count of a mutex.
    #[test]
    fn an_index_below_0_leads_in_front_of_the_array() {
        let array = ArrayMember { name: "dwell".to_owned(), lengths: vec![24] };
        let array = ArrayPlace { array, address: 0x2000_0400, element: 4 };
        assert_eq!(index_below(&array, 0x2000_02E0), Some(-72));
        assert_eq!(index_below(&array, 0x2000_0400), None, "its first element");
        assert_eq!(index_below(&array, 0x2000_0000), Some(-256));
        assert_eq!(index_below(&array, 0x1FFF_FFFC), None, "too far");
        assert!(is_written(&array, 0x2000_02E0, 0x2000_0400, 4));
        assert!(!is_written(&array, 0x2000_02E2, 0x2000_0400, 4));
    }
}
