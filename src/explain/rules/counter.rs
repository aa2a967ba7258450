//! A number beside an array that ends in front of what was overwritten, and that is too large for it: it may be the index of code that
//! writes one element after the other and does not stop at the end.
//!
//! Against it: a count of something else may be as large. What is written to an array of bytes is mostly a text, which no index counts.

use super::super::{Case, Evidence};
use crate::abi::Addr;
use crate::sym::ArrayPlace;

/// What speaks against it.
pub(super) const AGAINST: &str = "a number that is larger than its array has elements may count something else";
/// Bytes of a number.
const WORD: u64 = 4;
/// The most bytes of a variable in which it is looked for, and the most that are written past the end of the array.
const LARGEST: u64 = 4096;

/// The only number among the members of a struct that is larger than the length of its array that ends in front of an address, and that
/// leads behind it as an index: `lanes[1].points, which may be its index, is 72`, and as evidence.
pub(super) fn beyond(at: Addr, case: &Case<'_>) -> Option<(String, Evidence)> {
    let is_it = |array: &ArrayPlace| array.array.lengths.len() == 1 && array.element > 1 && array.end() == Some(at);
    let array = case.look.arrays_at(at.checked_sub(1)?).into_iter().find(is_it)?;
    let length = *array.array.lengths.first()?;
    let prefix = array.array.name.rsplit_once('.').map(|(parent, _)| format!("{parent}."))?;
    let variable = case.look.variable(array.address).filter(|variable| variable.size <= LARGEST)?;
    let is_member = |name: &str| name.strip_prefix(&prefix).is_some_and(|rest| !rest.contains(['.', '[', '+']));
    let leads_there = |value: u64| {
        let place = value.checked_mul(array.element).and_then(|into| array.address.checked_add(into));
        value > length && place.is_some_and(|place| place > at && place.saturating_sub(at) <= LARGEST)
    };
    let word = |place: Addr| {
        let bytes = case.look.bytes(place, WORD)?;
        case.kernel?.layout.shape.endian.u32(&bytes, 0).map(u64::from)
    };
    let places = (0..variable.size / WORD).filter_map(|n| variable.address.checked_add(n.checked_mul(WORD)?));
    let mut all = places.filter_map(|place| {
        let value = word(place).filter(|value| leads_there(*value))?;
        // A shorter member is a part of the word.
        let name = case.look.place(place).filter(|name| is_member(name) && case.look.len_in_word(place) == WORD)?;
        Some((place, name, value))
    });
    let (place, name, value) = all.next().filter(|_| all.next().is_none())?;
    let words = format!("{name}, which may be its index, is {value}");
    let text = format!("{name} is {value}, and {} has {length} elements", array.array.name);
    Some((words, Evidence::memory(place, text)))
}
