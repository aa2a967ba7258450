//! A text that fills an array of characters to its end, and the pointer right behind it, whose lowest byte is 0: a copy of a text that is as
//! long as the array writes its end there, and one that is longer its last characters. The pointer then leads to where nobody
//! expects a write, and nothing else may show it: no thread waits, and a fault comes later and elsewhere.
//!
//! Against it: an array that is filled on purpose has no end, and the address of what is aligned may end in 0, or have bytes that are
//! characters. It is likely where characters are in the pointer, the texts of the other elements of an array have ends, and their
//! pointers lead to one variable, and this one elsewhere.

use std::ops::Range;

use super::super::graph::Graph;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::static_pointers::kernel_memory;
use super::words::{function_at, place_or_address};
use crate::abi::{Addr, Endian, Region};
use crate::sym::{ArrayMember, ArrayPlace};

/// Bytes that are read at once.
const PIECE: u64 = 1024;
/// The shortest text that is looked at, and the most texts.
const SHORTEST: u64 = 4;
/// The shortest array that is said to have been too short where nothing else shows it.
const LONG: u64 = 8;
const MOST: usize = 4096;
/// The most arrays that one text may be in, one behind the other.
const IN_ONE: usize = 16;
/// The most elements that are compared, and the fewest others with an end.
const ELEMENTS: u64 = 64;
const OTHERS: usize = 2;
/// The most functions that are named, and the most findings.
const NAMED: usize = 4;
const FINDINGS: usize = 2;

/// A full array with the pointer behind it.
struct Full {
    array: ArrayMember,
    text: String,
    /// A shorter text was written over the beginning of the array since.
    is_older: bool,
    pointer: Addr,
    value: u64,
    /// Characters of the text that are in the pointer.
    over: u64,
    /// The byte behind the text is 0.
    has_end: bool,
    others: Others,
}

/// What the same members of the other elements of an array show.
#[derive(Default)]
struct Others {
    /// Their texts have ends.
    have_ends: bool,
    /// Their pointers lead to one variable.
    target: Option<String>,
    /// And the pointer elsewhere.
    is_elsewhere: bool,
}

pub(super) fn find(case: &Case<'_>, _: &Graph) -> Vec<Finding> {
    let is_little = case.kernel.is_some_and(|kernel| kernel.layout.shape.endian == Endian::Little);
    if !is_little || !case.look.is_stored() || case.trust.other_build || case.trust.without_lines.is_some() {
        return Vec::new();
    }
    let texts = texts(case).unwrap_or_default();
    let mut full: Vec<Full> = texts.into_iter().flat_map(|text| full(&text, case)).collect();
    // The parts of memory overlap.
    full.sort_by_key(|full| full.pointer);
    full.dedup_by_key(|full| full.pointer);
    full.iter().filter_map(|full| finding(full, case)).take(FINDINGS).collect()
}

/// Texts in the variables of the program.
fn texts(case: &Case<'_>) -> Option<Vec<Range<Addr>>> {
    let kernel = kernel_memory(case);
    let mut all = Vec::new();
    for region in case.cpus?.written()? {
        let mut begun: Option<Addr> = None;
        for piece in 0..region.len.div_ceil(PIECE) {
            let into = piece.checked_mul(PIECE)?;
            let from = region.start.checked_add(into)?;
            let len = region.len.checked_sub(into)?.min(PIECE);
            let bytes = case.look.bytes(from, len).unwrap_or_default();
            // What cannot be read ends a text.
            begun = begun.filter(|_| !bytes.is_empty());
            for (byte, at) in bytes.iter().zip(from..) {
                if is_text(*byte) {
                    begun = begun.or(Some(at));
                    continue;
                }
                let text = begun.take().map(|begun| begun..at);
                let is_long = |text: &Range<Addr>| text.end.saturating_sub(text.start) >= SHORTEST;
                let is_of_kernel = |text: &Range<Addr>| kernel.iter().any(|region| region.contains(text.start));
                all.extend(text.filter(|text| is_long(text) && !is_of_kernel(text)));
            }
            if all.len() >= MOST {
                return Some(all);
            }
        }
    }
    Some(all)
}

const fn is_text(byte: u8) -> bool {
    byte.is_ascii_graphic() || byte == b' '
}

/// The arrays of characters that a text fills, each with a pointer behind it.
fn full(text: &Range<Addr>, case: &Case<'_>) -> Vec<Full> {
    let (mut all, mut at) = (Vec::new(), text.start);
    for _ in 0..IN_ONE {
        let arrays = case.look.arrays_at(at);
        let Some((array, end)) = arrays.last().and_then(|array| Some((array, array.end()?))) else { break };
        if array.element != 1 || end > text.end {
            break;
        }
        all.extend(of_array(&arrays, text, end, case));
        at = end;
    }
    all
}

/// `arrays`: that of the characters is the last, those around it are in front of it.
fn of_array(arrays: &[ArrayPlace], text: &Range<Addr>, pointer: Addr, case: &Case<'_>) -> Option<Full> {
    let (array, outer) = arrays.split_last()?;
    pointer.checked_sub(array.address).filter(|len| *len >= SHORTEST)?;
    let over = text.end.checked_sub(pointer).filter(|over| *over < case.width())?;
    // A shorter text may have been written over the beginning of one that was too long.
    let is_older = array.address < text.start;
    if is_older && over > 0 || case.look.is_pointer(pointer) != Some(true) {
        return None;
    }
    let value = word(pointer, case)?;
    // What is left of the address that was there.
    let bits = u32::try_from(over.checked_add(1)?.checked_mul(8)?).ok()?;
    value.checked_shr(bits).filter(|rest| *rest != 0)?;
    let has_end = case.look.bytes(text.end, 1)?.first() == Some(&0);
    let from = array.address.max(text.start);
    let bytes = case.look.bytes(from, pointer.checked_sub(from)?.checked_add(over)?)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let others = outer.last().map(|outer| others(outer, array, pointer, value, case)).unwrap_or_default();
    Some(Full { array: array.array.clone(), is_older, text, pointer, value, over, has_end, others })
}

/// Looks at the other elements of the array that both are in.
fn others(outer: &ArrayPlace, array: &ArrayPlace, pointer: Addr, value: u64, case: &Case<'_>) -> Others {
    let elements = outer.array.lengths.iter().copied().try_fold(1_u64, u64::checked_mul).unwrap_or(0);
    let within = |at: Addr| at.checked_sub(outer.address)?.checked_rem(outer.element);
    let places = |of: Addr| {
        let into = within(of);
        let at = move |n: u64| outer.address.checked_add(n.checked_mul(outer.element)?)?.checked_add(into?);
        (0..elements.min(ELEMENTS)).filter_map(at).filter(move |at| *at != of)
    };
    let len = array.bytes().unwrap_or(0);
    let ends = places(array.address).filter_map(|at| case.look.bytes(at, len));
    let ends: Vec<bool> = ends.filter(|bytes| bytes.first() != Some(&0)).map(|bytes| bytes.contains(&0)).collect();
    let have_ends = ends.len() >= OTHERS && ends.iter().all(|has_end| *has_end);
    let name = |value: u64| case.look.variable(value).map(|variable| variable.name);
    let values = places(pointer).filter_map(|at| word(at, case)).filter(|value| *value != 0);
    let mut targets: Vec<Option<String>> = values.map(name).collect();
    let pointers = targets.len();
    targets.sort();
    targets.dedup();
    let target = match targets.as_slice() {
        [Some(one)] if pointers >= OTHERS => Some(one.clone()),
        _ => None,
    };
    let is_elsewhere = target.is_some() && name(value) != target;
    Others { have_ends, target, is_elsewhere }
}

fn finding(full: &Full, case: &Case<'_>) -> Option<Finding> {
    let Full { array, is_older, text, pointer, value, over, has_end, others } = full;
    let is_other = others.have_ends && others.is_elsewhere;
    let confidence = match has_end {
        true if *over > 0 && is_other => Confidence::Likely,
        // A short one is rather filled on purpose.
        true if others.have_ends || array.lengths.last().is_some_and(|length| *length >= LONG) => Confidence::Hint,
        // Who writes through it may have moved it on since.
        false if !is_older && is_other => Confidence::Hint,
        _ => return None,
    };
    let name = case.look.place(*pointer)?;
    let owner = case.kernel.and_then(|kernel| kernel.threads.iter().find(|thread| thread.holds(*value)));
    let leads = match owner {
        Some(thread) => format!("which leads into the stack of {} ({value:#x})", thread.label()),
        None => format!("which leads to {}", place_or_address(*value, case)),
    };
    let elsewhere = others.target.as_ref().filter(|_| others.is_elsewhere);
    let elsewhere = elsewhere.map_or_else(String::new, |target| format!(", and not to {target} as the others"));
    let claim = if *over > 0 {
        format!(
            "the text \"{text}\" is longer than {array}, and its end is in the pointer behind it, {name}, {leads}{elsewhere}"
        )
    } else if *is_older {
        format!(
            "an older text in {array} ended with \"{text}\", up to its last byte: its end may have been written over a byte of the pointer behind it, \
             {name}, {leads}{elsewhere}"
        )
    } else {
        format!(
            "the text \"{text}\" fills {array}: its end may have been written over a byte of the pointer behind it, {name}, {leads}{elsewhere}"
        )
    };
    let variable = case.look.variable(*pointer)?;
    let users = case.functions_with(Region { start: variable.address, len: variable.size.max(1) });
    let users: Vec<String> = users.into_iter().take(NAMED).map(|function| function_at(function, case)).collect();
    let by =
        if users.is_empty() { String::new() } else { format!("; these use {}: {}", variable.name, users.join(", ")) };
    Some(
        Finding::new(Code::CorruptData, case.cap(confidence), claim)
            .against(["an array that is filled on purpose has no end either"])
            .evidence([
                Evidence::memory(*pointer, format!("{name}: what is left of the pointer")).holds(*value),
                Evidence::memory(pointer.checked_sub(1)?, format!("the last byte of {array} is no 0")),
            ])
            .next(format!("look for who copies a text to {} without a check of its length{by}", array.name))
            .affected(owner.map(|thread| thread.address)),
    )
}

fn word(at: Addr, case: &Case<'_>) -> Option<u64> {
    case.words(&case.look.bytes(at, case.width())?, true).first().copied()
}
