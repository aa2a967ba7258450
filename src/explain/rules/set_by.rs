//! Who sets a word of a variable, by the code that stores to it. Where its value is the cause of a failure, this says how it got it.
//!
//! Against it: what writes through a pointer from memory, and DMA, are not seen, so others may set it, too.

use std::collections::BTreeSet;

use super::super::usage::{Store, User};
use super::super::{Case, Evidence};
use super::shared::{is_data, names};
use super::words::place_at;
use crate::abi::{Addr, Region};
use crate::sym::{ArrayMember, ArrayPlace};

/// The most functions that are named.
const MOST: usize = 3;
/// The most that set a word to the same value and are named in the claim.
const FEW: usize = 2;

/// The most bytes of an element that is no structure.
const WORD: u64 = 8;

/// What speaks against it.
pub(super) const AGAINST: &str = "who sets it is inferred from the program's code: others may set it through a pointer, and it may still be as it was at the start";

/// Who sets something: `BusUnsubscribe (bus.c:40), which session calls, sets` and ` to 0`.
pub(super) struct Setting {
    who: String,
    to: String,
}

impl Setting {
    /// `BusUnsubscribe (bus.c:40), which session calls, sets it to 0`. `what`: what is set.
    pub fn of(&self, what: &str) -> String {
        format!("{} {what}{}", self.who, self.to)
    }
}

/// Who sets a word.
pub(super) struct SetBy {
    /// For the claim; `None` where several may have.
    pub words: Option<Setting>,
    /// What to look at then.
    pub next: Option<String>,
    pub evidence: Evidence,
}

impl SetBy {
    /// Of a word of a variable, and its value now.
    pub fn of(word: Addr, value: u64, case: &Case<'_>) -> Option<Self> {
        let variable = case.look.variable(word).filter(|variable| is_data(variable, case))?;
        let name = case.look.place(word)?;
        let member = without_indices(&name);
        let is_element = |at: Addr| case.look.place(at).is_some_and(|place| without_indices(&place) == member);
        let memory = Region { start: variable.address, len: variable.size };
        let all = case.usage()?.stores(word, memory, &is_element);
        // Of stores in one line, one is enough.
        let mut lines = BTreeSet::new();
        let all: Vec<Store> =
            all.into_iter().filter(|store| lines.insert((place_at(store.at, case), store.value))).collect();
        let same: Vec<&Store> = all.iter().filter(|store| store.value.map(u64::from) == Some(value)).collect();
        let unknown: Vec<&Store> = all.iter().filter(|store| store.value.is_none()).collect();
        let setting = |stores: &[&Store], to: &str| {
            let named: Vec<String> = stores.iter().map(|store| named(store, case)).collect();
            let set = if named.len() == 1 { "sets" } else { "set" };
            Setting { who: format!("{} {set}", named.join(" and ")), to: to.to_owned() }
        };
        let (words, next) = match (same.as_slice(), unknown.as_slice()) {
            (same @ [first, ..], _) if same.len() <= FEW => (
                Some(setting(same, &format!(" to {}", written(value)))),
                Some(format!("look at {}: {name} may still be used when it does that", place_at(first.at, case))),
            ),
            ([], [only]) => (
                Some(setting(&[*only], "")),
                Some(format!("look at what {} sets {name} to, and when", place_at(only.at, case))),
            ),
            _ => (None, None),
        };
        let first = all.first()?;
        let listed: Vec<String> = all.iter().take(MOST).map(|store| place_at(store.at, case)).collect();
        let more = all.len().saturating_sub(listed.len());
        let more = if more > 0 { format!(" ({more} more)") } else { String::new() };
        let text = format!("by the code, {name} is written in {}{more}", listed.join(", "));
        Some(Self { words, next, evidence: Evidence::symbol(first.at, &place_at(first.at, case), text) })
    }
}

/// Who writes to elements of an array.
pub(super) struct Writers {
    /// In words.
    pub words: String,
    pub evidence: Evidence,
    /// Who calls the functions that do.
    pub callers: BTreeSet<User>,
}

/// Who writes to elements of an array at an index that the code computes: `log_add (log.c:33), which climate calls, writes to it`, and as
/// evidence. `variable`: that of which it is a part. Where the compiler has added the place of the array in the variable to the index, it
/// is known only that it is an element of the variable: `writes to wear at an index that it computes`.
pub(super) fn writers(array: &ArrayMember, variable: Region, case: &Case<'_>) -> Option<Writers> {
    let elements = format!("{}[]", without_indices(&array.name));
    let is_element = |at: Addr| case.look.place(at).is_some_and(|place| without_indices(&place).starts_with(&elements));
    let is_of_none = |at: Addr| {
        variable.contains(at) && case.look.place(at).is_some_and(|place| !without_indices(&place).contains("[]"))
    };
    // Or the array is a part of each element of another one.
    let begins_element = |at: Addr| {
        let is_it = |one: &ArrayPlace| one.element > WORD && at.abs_diff(one.address).is_multiple_of(one.element);
        variable.contains(at) && case.look.arrays_at(at).iter().any(is_it)
    };
    let of_array = writers_where(variable, &is_element, case);
    let is_exact = !of_array.is_empty();
    let (all, to) = if is_exact {
        (of_array, "to it".to_owned())
    } else {
        let name = case.look.variable(variable.start)?.name;
        let mut all = writers_where(variable, &is_of_none, case);
        if all.is_empty() {
            all = writers_where(variable, &begins_element, case);
        }
        (all, format!("to {name} at an index that it computes"))
    };
    let first = all.first().filter(|_| all.len() <= FEW)?;
    let said: Vec<String> = all.iter().map(|store| named(store, case)).collect();
    let write = if said.len() == 1 { "writes" } else { "write" };
    let what = if is_exact { array.to_string() } else { format!("memory in front of or within {array}") };
    let text = format!("by the code, {what} is written here, at an index that is computed");
    let evidence = Evidence::symbol(first.at, &place_at(first.at, case), text);
    let callers = all.iter().filter_map(|store| Some(case.usage()?.callers_of(store.function))).flatten().collect();
    Some(Writers { words: format!("{} {write} {to}", said.join(" and ")), evidence, callers })
}

/// Who writes to an array that begins at an address, at an index that the code computes: a negative index would lead to what is in front
/// of it. In words, and as evidence.
pub(super) fn writers_behind(at: Addr, case: &Case<'_>) -> Option<(String, Evidence)> {
    let variable = case.look.variable(at).filter(|variable| variable.address == at)?;
    case.look.place(at).filter(|place| place.ends_with("[0]"))?;
    let memory = Region { start: at, len: variable.size };
    let mut functions = BTreeSet::new();
    let mut all = case.usage()?.stores_at_index(memory);
    all.retain(|store| functions.insert(store.function));
    let first = all.first().filter(|_| all.len() <= FEW)?;
    let said: Vec<String> = all.iter().map(|store| named(store, case)).collect();
    let write = if said.len() == 1 { "writes" } else { "write" };
    let text = format!("by the code, {} is written here, at an index that is computed", variable.name);
    let words = format!(
        "{} {write} to {}, the array behind it, at an index that it computes: a negative index would lead there",
        said.join(" and "),
        variable.name
    );
    Some((words, Evidence::symbol(first.at, &place_at(first.at, case), text)))
}

/// The first store of each function at an index of a variable that the code computes, by where index 0 leads.
fn writers_where(variable: Region, is_element: &dyn Fn(Addr) -> bool, case: &Case<'_>) -> Vec<Store> {
    let mut functions = BTreeSet::new();
    // What is written at a constant index is within it.
    let nowhere = variable.start.checked_add(variable.len);
    let all = nowhere.and_then(|nowhere| Some(case.usage()?.stores(nowhere, variable, is_element)));
    all.into_iter().flatten().filter(|store| functions.insert(store.function)).collect()
}

/// The only thread that is in the function of a store, in a call behind it.
fn inside(store: &Store, case: &Case<'_>) -> Option<Addr> {
    let is_there = |pc: &Addr| {
        let function = case.look.function(*pc & !1).map(|function| function.address & !1);
        function == Some(store.function & !1) && *pc > store.at
    };
    let cpus = case.cpus?;
    let threads = case.kernel.into_iter().flat_map(|kernel| &kernel.threads).map(|thread| thread.address);
    let calls_there = |thread: Addr| cpus.call(thread).is_some_and(|call| is_there(&call.pc));
    let is_called_there = |thread: Addr| cpus.callers(thread).is_some_and(|callers| callers.iter().any(is_there));
    let mut all = threads.filter(|thread| calls_there(*thread) || is_called_there(*thread));
    all.next().filter(|_| all.next().is_none())
}

/// `BusUnsubscribe (bus.c:39), which session calls`.
pub(super) fn named(store: &Store, case: &Case<'_>) -> String {
    let place = place_at(store.at, case);
    if let Some(thread) = inside(store, case) {
        return format!("{place}, in which {} is,", case.label(thread));
    }
    let callers = case.usage().map(|usage| usage.callers_of(store.function)).unwrap_or_default();
    match callers.len() {
        0 => place,
        1 => format!("{place}, which {} calls,", names(&callers, case)),
        _ => format!("{place}, which {} call,", names(&callers, case)),
    }
}

/// 0, or an address.
fn written(value: u64) -> String {
    if value == 0 { "0".to_owned() } else { format!("{value:#x}") }
}

/// `s_aSub[].pfnSink`: the member of any element.
pub(super) fn without_indices(name: &str) -> String {
    let mut depth = 0_u32;
    let mut kept = String::new();
    for c in name.chars() {
        match c {
            '[' => depth = depth.saturating_add(1),
            ']' => depth = depth.saturating_sub(1),
            _ if depth > 0 => continue,
            _ => {}
        }
        kept.push(c);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_is_left_out() {
        assert_eq!(without_indices("s_aSub[2].pfnSink"), "s_aSub[].pfnSink");
        assert_eq!(without_indices("a[1][2].b[3]+0x4"), "a[][].b[]+0x4");
    }
}
