//! A number in front of what was overwritten that is too large for the array that ends there: the index of code that writes one element
//! after the other and does not stop at the end.
//!
//! Against it: a count of something else may be as large.

use super::super::{Case, Evidence};
use super::pointer::word;
use crate::abi::Addr;
use crate::sym::ArrayPlace;

/// What speaks against it.
pub(super) const AGAINST: &str = "a number that is larger than its array has elements may count something else";
/// Bytes of a number.
const WORD: u64 = 4;
/// The most bytes of a variable in which it is looked for, and the most that are written past the end of the array.
const LARGEST: u64 = 4096;

/// The only number among the members of a struct that is larger than the length of its array that ends in front of an address, and that
/// leads behind it as an index: `lanes[1].points is 72`, and the same as evidence.
pub(super) fn beyond(at: Addr, case: &Case<'_>) -> Option<(String, Evidence)> {
    let ends = |array: &ArrayPlace| array.array.lengths.len() == 1 && array.end() == Some(at);
    let array = case.look.arrays_at(at.checked_sub(1)?).into_iter().find(ends)?;
    let length = *array.array.lengths.first()?;
    let prefix = array.array.name.rsplit_once('.').map(|(parent, _)| format!("{parent}."))?;
    let variable = case.look.variable(array.address).filter(|variable| variable.size <= LARGEST)?;
    let is_member = |name: &str| name.strip_prefix(&prefix).is_some_and(|rest| !rest.contains(['.', '[', '+']));
    let leads_there = |value: u64| {
        let place = value.checked_mul(array.element).and_then(|into| array.address.checked_add(into));
        value > length && place.is_some_and(|place| place > at && place.saturating_sub(at) <= LARGEST)
    };
    let words = variable.size.checked_div(case.width())?;
    let places = (0..words).filter_map(|n| variable.address.checked_add(n.checked_mul(case.width())?));
    let mut all = places.filter_map(|place| {
        let value = word(place, case).filter(|value| leads_there(*value))?;
        // A shorter member is a part of the word.
        let name = case.look.place(place).filter(|name| is_member(name) && case.look.len_in_word(place) == WORD)?;
        Some((place, name, value))
    });
    let (place, name, value) = all.next().filter(|_| all.next().is_none())?;
    let words = format!("{name} is {value}");
    let text = format!("{words}, and {} has {length} elements", array.array.name);
    Some((words, Evidence::memory(place, text)))
}
