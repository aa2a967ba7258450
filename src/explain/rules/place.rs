//! Places of the program in words.

use super::super::Evidence;
use crate::session::Function;

/// The function that is meant: of a call of a wrong address, that which called it.
fn meant(functions: &[Function]) -> Option<(&Function, bool)> {
    let first = functions.first()?;
    let caller = functions.get(1).filter(|caller| caller.is_inferred() && first.name.is_none());
    caller.map(|caller| (caller, true)).or(Some((first, false)))
}

/// `parse_field (crashes.c:121)`, `0x0, called by call (crashes.c:174)`. Hostile text: escape before printing.
pub(super) fn of(functions: &[Function]) -> Option<String> {
    let (function, called) = meant(functions)?;
    let text = one(function);
    let first = functions.first().filter(|_| called);
    Some(first.map_or(text.clone(), |first| format!("{:#x}, called by {text}", first.pc)))
}

/// `parse_field (crashes.c:121)`.
fn one(function: &Function) -> String {
    let name = function.name.clone().unwrap_or_else(|| format!("{:#x}", function.pc));
    let file = function.file.as_deref().map(|file| file.rsplit(['/', '\\']).next().unwrap_or(file));
    match (file, function.line) {
        (Some(file), Some(line)) => format!("{name} ({file}:{line})"),
        _ => name,
    }
}

/// Who called whom, up to so many, as evidence.
pub(super) fn callers(functions: &[Function], most: usize) -> Option<Evidence> {
    let (function, _) = meant(functions)?;
    // Of a call of a wrong address the caller is inferred, and the others are found from it.
    let is_shown = |(at, f): &(usize, &Function)| !f.is_inferred() || *at == 1 && std::ptr::eq(*f, function);
    let names: Vec<String> = functions.iter().enumerate().filter(is_shown).take(most).map(|(_, f)| one(f)).collect();
    let text = if names.len() > 1 { names.join(" < ") } else { one(function) };
    let evidence = Evidence::symbol(function.pc, function.name.as_deref().unwrap_or_default(), text);
    Some(Evidence { symbol: evidence.symbol.clone().filter(|name| !name.is_empty()), ..evidence })
}
