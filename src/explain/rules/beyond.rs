//! A pointer that was read from where no element of an array is, though the code adds an index to the place of that array: a code from
//! outside is taken for the number of an entry of a table.
//!
//! Against it: what the code takes for the beginning of an array may be that of a part of a larger structure.

use super::super::Case;
use crate::abi::Addr;
use crate::sym::ArrayPlace;

/// The most bytes from an array to what is read by a wrong index.
const FAR: u64 = 0x1_0000;

/// Such a place.
pub(super) struct Beyond {
    /// `, where element 11 of lane_map.by_code[10] would be`
    pub words: String,
    pub next: String,
}

impl Beyond {
    /// The array of words that ends where a word is.
    pub fn array_before(place: Addr, case: &Case<'_>) -> Option<ArrayPlace> {
        let is_it = |array: &ArrayPlace| array.element == case.width() && array.array.lengths.len() == 1;
        let mut all = case.look.arrays_at(place.checked_sub(1)?).into_iter();
        all.find(|array| is_it(array) && array.end() == Some(place))
    }

    /// Of a word that code reads at an index. `first`: where the word is with the index 0.
    pub fn of(place: Addr, first: Option<Addr>, case: &Case<'_>) -> Option<Self> {
        let first = first?;
        // An array within an array: the one index of both may lead out of the inner one.
        let all = case.look.arrays_at(first);
        if all.is_empty() {
            return behind(place, first, case);
        }
        let (array, index) = all.first().and_then(|array| Some((array, index(array, place)?)))?;
        // Code that subtracts from the index may add to another place than that of its array: in front of it may be anything.
        let variable = |at| case.look.variable(at).map(|variable| variable.address);
        let is_of_other = || variable(place) != variable(first) && !case.look.arrays_at(place).is_empty();
        if first.checked_sub(array.address)? >= array.element || is_of_other() {
            return None;
        }
        let words = match all.len() {
            1 => format!(", where element {index} of {} would be", array.array),
            _ => format!(", outside of the array {}, in which the code reads", array.array),
        };
        Some(Self { words, next: next(array) })
    }
}

/// The same where the index 0 leads to no array, as where the code adds the place of the array in its structure to the index: right
/// behind an array of pointers in the same variable.
fn behind(place: Addr, first: Addr, case: &Case<'_>) -> Option<Beyond> {
    let variable = |at| case.look.variable(at).map(|variable| variable.address);
    let is_of_one = variable(place).is_some_and(|of| variable(first) == Some(of));
    let array = Beyond::array_before(place, case).filter(|_| is_of_one && place != first)?;
    let index = array.array.lengths.first()?;
    Some(Beyond { words: format!(", where element {index} of {} would be", array.array), next: next(&array) })
}

fn next(array: &ArrayPlace) -> String {
    format!("find out where the index of {} comes from, and who checks it", array.array.name)
}

/// The index of an array that leads to a place outside of it.
fn index(array: &ArrayPlace, place: Addr) -> Option<i64> {
    let len = array.bytes()?;
    let far = place.wrapping_sub(array.address).cast_signed();
    let is_outside = far < 0 || far.cast_unsigned() >= len;
    let is_near = far.unsigned_abs() < len.checked_add(FAR)?;
    far.checked_div_euclid(i64::try_from(array.element).ok()?).filter(|_| is_outside && is_near)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sym::ArrayMember;

    #[test]
    fn an_index_that_leads_out_of_the_array() {
        let array = ArrayMember { name: "lane_map.by_code".to_owned(), lengths: vec![10] };
        let array = ArrayPlace { array, address: 0x2000_0100, element: 4 };
        assert_eq!(index(&array, 0x2000_012C), Some(11));
        assert_eq!(index(&array, 0x2000_0124), None, "the last element");
        assert_eq!(index(&array, 0x2000_0128), Some(10));
        assert_eq!(index(&array, 0x2000_00FC), Some(-1));
        assert_eq!(index(&array, 0x2000_00FE), Some(-1), "a part of it");
        assert_eq!(index(&array, 0x2010_0000), None, "another variable");
    }
}
