//! A pointer right behind an array: a word of another type that was read as one more element of an array of pointers; or like the elements of it, as a write past the end of the array leaves one; or a part of a text
//! that begins in front of it; or where an index that is none leads.
//!
//! Against it: who sets the pointer may have set it so.

use super::super::{Case, Evidence};
use super::pointer::{text_into, word};
use super::wrong_index::{self, WrongIndex};
use super::{arrays, set_by};
use crate::abi::{Addr, Region};
use crate::sym::ArrayMember;

/// Numbers that differ by less than this part of them are of one size.
const NEAR: u64 = 16;
/// A value that is no small number.
const SMALL: u64 = 0xFFFF;
/// The most bytes of a variable in which the same value is looked for.
const LARGEST: u64 = 4096;

/// Such a pointer.
pub(super) struct PastEnd {
    /// `, right behind the array limits[16], which ends with 0x453b8000`, or `, and the text "..." in title runs on into it`.
    pub words: String,
    pub next: String,
    /// Who writes to the array at an index that it computes.
    pub evidence: Option<Evidence>,
    /// What speaks against it.
    pub against: Option<&'static str>,
}

impl PastEnd {
    /// Of a pointer that leads to no memory.
    pub fn of(place: Addr, value: u64, case: &Case<'_>) -> Option<Self> {
        if case.cpus?.has(value) != Some(false) {
            return None;
        }
        let arrays: Option<[ArrayMember; 1]> = arrays::in_front(place, case).try_into().ok();
        let array = arrays.as_ref().map(|[array]| array);
        let is_text = text(place, case).is_some();
        if let Some((words, next)) = array.filter(|_| !is_text).and_then(|array| element_read(place, array, case)) {
            return Some(Self { words, next, evidence: None, against: Some(NUMBER) });
        }
        let in_front = text(place, case).or_else(|| element(place, value, array?, case));
        let Some((words, next)) = in_front else {
            let WrongIndex { words, next, evidence } = WrongIndex::of(place, case)?;
            let (evidence, against) = (Some(evidence), Some(wrong_index::AGAINST));
            return Some(Self { words: format!("; {words}"), next, evidence, against });
        };
        let variable = case.look.variable(place)?;
        let memory = Region { start: variable.address, len: variable.size };
        let (by, evidence) =
            array.and_then(|array| set_by::writers(array, memory, case)).map(|by| (by.words, by.evidence)).unzip();
        let by = by.map_or_else(String::new, |by| format!("; {by}"));
        Some(Self { words: format!(", {words}{by}"), next, evidence, against: None })
    }
}

/// The end of a text that begins in front of the pointer.
fn text(place: Addr, case: &Case<'_>) -> Option<(String, String)> {
    let (words, _) = text_into(place, case)?;
    Some((format!("and {words}"), "look for who writes a text there that is too long".to_owned()))
}

/// What speaks against an element that is past the end of an array.
const NUMBER: &str = "the program may keep an address in a number on purpose";

/// What was read as a pointer is none by its type, and the array of pointers in front of it ends there: an index may have been too large.
fn element_read(place: Addr, array: &ArrayMember, case: &Case<'_>) -> Option<(String, String)> {
    let last = place.checked_sub(case.width())?;
    if case.look.is_pointer(place) != Some(false) || case.look.is_pointer(last) != Some(true) {
        return None;
    }
    let elements = array.lengths.iter().copied().try_fold(1u64, u64::checked_mul)?;
    let words = format!(
        "; this word is not a pointer by its type, and follows the array {array}: perhaps that was read at the index {elements}, past its end"
    );
    Some((words, format!("look for who computes the index of {}, and check its range", array.name)))
}

/// One more element of an array: another word of the variable holds the same, or the last word of the array is a number of the same
/// size.
fn element(place: Addr, value: u64, array: &ArrayMember, case: &Case<'_>) -> Option<(String, String)> {
    let last = word(place.checked_sub(case.width())?, case)?;
    let next = format!("look for who writes more elements of {} than there are", array.name);
    if last == value {
        return None;
    }
    if let Some(source) = same(place, value, array, case) {
        let words = format!(
            "right behind the array {array}; {source} holds the same {value:#x}, which may have been written past its end"
        );
        return Some((words, next));
    }
    let bits = case.width().checked_mul(8)?.checked_sub(8)?;
    let highest = |word: u64| word.checked_shr(u32::try_from(bits).unwrap_or(u32::MAX)).unwrap_or(0);
    let is_near = last.abs_diff(value) <= value.max(last) / NEAR;
    if highest(last) == 0 || highest(last) != highest(value) && !is_near {
        return None;
    }
    let words =
        format!("right behind the array {array}, which ends with {last:#x}: {value:#x} may be written past its end");
    Some((words, next))
}

/// The only other word of the same variable that holds a value, outside of the array, by its name. A small number, and a pattern of equal
/// bytes, is in many places.
fn same(place: Addr, value: u64, array: &ArrayMember, case: &Case<'_>) -> Option<String> {
    let is_pattern = value.to_le_bytes().iter().take(4).all(|byte| u64::from(*byte) == value & 0xFF);
    let variable = case.look.variable(place).filter(|_| value > SMALL && !is_pattern)?;
    let words = variable.size.min(LARGEST).checked_div(case.width())?;
    let all = (0..words).filter_map(|n| variable.address.checked_add(n.checked_mul(case.width())?));
    let mut all = all.filter(|at| *at != place && word(*at, case) == Some(value));
    let at = all.next().filter(|_| all.next().is_none())?;
    case.look.place(at).filter(|name| !name.starts_with(&array.name))
}
