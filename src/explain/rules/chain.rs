//! Where a pointer that failed is in memory, by the pointers that lead there: in the variables that the function uses, and in the
//! structures to which these point, as the elements of a list. It is for code in which the pointer was in a register of a loop, so that the
//! code in front of the instruction does not show where it was read from.

use std::collections::BTreeSet;

use super::super::Case;
use super::beyond::Beyond;
use super::shared;
use crate::abi::{Addr, Region};
use crate::cpu::Read;
use crate::session::Function;

/// The most words of a structure, the most structures, and the longest chain of them.
const WORDS: u64 = 16;
const MOST: usize = 128;
const DEPTH: usize = 8;
/// The most bytes of a variable whose pointers are followed.
const LARGEST: u64 = 64;
/// The same of one in which a word behind an array is looked for.
const LARGEST_OF_ARRAYS: u64 = 1024;

/// The first word that holds a value, in what the variables of the innermost function lead to.
pub(super) fn read(value: u64, functions: &[Function], case: &Case<'_>) -> Option<Read> {
    if !case.look.is_stored() {
        return None;
    }
    let variables = shared::variables(functions.get(..1)?, case);
    let small = variables.iter().map(|(variable, _)| variable).filter(|variable| variable.size <= LARGEST);
    small.filter_map(|variable| from(variable.address, variable.size, value, case)).next().or_else(|| {
        let all = variables.iter().map(|(variable, _)| variable).filter(|variable| variable.size <= LARGEST_OF_ARRAYS);
        let mut found = all.filter_map(|variable| behind_array(variable.address, variable.size, value, case));
        found.next().filter(|_| found.next().is_none())
    })
}

/// The only word of a variable that holds a value, where it is no pointer by its type and follows an array of pointers: an index that is one
/// too large leads there.
fn behind_array(variable: Addr, size: u64, value: u64, case: &Case<'_>) -> Option<Read> {
    let words = case.words(&case.look.bytes(variable, size)?, true).into_iter().zip(0..);
    let place = |n: u64| variable.checked_add(n.checked_mul(case.width())?);
    let mut places = words.filter(|(word, _)| *word == value).filter_map(|(_, n)| place(n));
    let place = places.next().filter(|at| case.look.is_pointer(*at) == Some(false))?;
    let array = Beyond::array_before(place, case).filter(|array| case.look.is_pointer(array.address) == Some(true));
    if places.next().is_some() {
        return None;
    }
    Some(Read { place, value, base: None, first: Some(array?.address) })
}

fn from(variable: Addr, size: u64, value: u64, case: &Case<'_>) -> Option<Read> {
    // A stack holds what registers held, and the words of the exception itself.
    let is_stack = |at: Addr| case.kernel.is_some_and(|kernel| kernel.threads.iter().any(|thread| thread.holds(at)));
    let is_memory = |at: &Addr| {
        let is_written = case.cpus.is_some_and(|cpus| cpus.writes(Region { start: *at, len: case.width() }));
        is_written && !is_stack(*at)
    };
    let words = |at: Addr, count: u64| {
        let bytes = case.look.bytes(at, count.checked_mul(case.width())?)?;
        let place = |n: usize| at.checked_add(u64::try_from(n).ok()?.checked_mul(case.width())?);
        let all = case.words(&bytes, true).into_iter().enumerate();
        Some(all.filter_map(|(n, word)| Some((place(n)?, word))).collect::<Vec<_>>())
    };
    let own = words(variable, size.checked_div(case.width())?)?.into_iter();
    let own: Vec<(Addr, u64)> = own.filter(|(at, _)| case.look.is_pointer(*at) != Some(false)).collect();
    if let Some((place, _)) = own.iter().find(|(_, word)| *word == value) {
        return Some(Read { place: *place, value, base: None, first: None });
    }
    let mut next: Vec<Addr> = own.into_iter().map(|(_, word)| word).filter(is_memory).collect();
    let mut seen = BTreeSet::new();
    for depth in 0..DEPTH {
        let mut further = Vec::new();
        for at in next.into_iter().filter(|at| at.is_multiple_of(case.width())) {
            if seen.len() >= MOST || !seen.insert(at) {
                continue;
            }
            // A structure near the end of memory may be shorter.
            let Some(all) = words(at, WORDS) else { continue };
            if let Some((place, _)) = all.iter().find(|(_, word)| *word == value) {
                return Some(Read { place: *place, value, base: (depth == 0).then_some(variable), first: None });
            }
            further.extend(all.into_iter().map(|(_, word)| word).filter(is_memory));
        }
        next = further;
    }
    None
}
