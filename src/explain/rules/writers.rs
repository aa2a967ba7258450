//! Which code has the address of a word: what a loop waits for is changed by code that has its address. A function has that of a
//! variable among its constants, or that of the beginning of the structure of which it is a part.

use super::super::Case;
use super::interrupts::{FIRST, SYSTICK};
use super::{jump, vector};
use crate::abi::{Addr, Endian};

/// The most bytes of a function that are looked at.
const MOST: u64 = 1024;
/// The most functions that are looked at.
const FUNCTIONS: usize = 16;
/// RAM of a Cortex-M: nothing but code and DMA change a word there (Armv7-M Architecture Reference Manual, B3.1).
const RAM: std::ops::Range<Addr> = 0x2000_0000..0x4000_0000;

/// True for a word in RAM.
pub(super) fn is_in_ram(at: Addr) -> bool {
    RAM.contains(&at)
}

/// True where the handler of an exception, or a function that it calls, has the address of a word.
pub(super) fn handler_has(number: u64, word: Addr, case: &Case<'_>) -> bool {
    let variable = |at| case.look.variable(at).map(|symbol| symbol.address);
    handler_leads(number, case, |_, code| is_named(constants(code), word, &variable))
}

/// The interrupts of the program, other than one, whose handlers have the address of a word. `without`: functions that are not
/// looked at.
pub(super) fn handlers_with(word: Addr, but: u64, without: &[Addr], case: &Case<'_>) -> Vec<u64> {
    let mut all: Vec<u64> = case.look.handlers().into_iter().map(|(number, _)| u64::from(number)).collect();
    all.retain(|number| (*number == SYSTICK || *number >= FIRST) && *number != but);
    all.dedup();
    let variable = |at| case.look.variable(at).map(|symbol| symbol.address);
    let has = |at: Addr, code: &[u8]| !without.contains(&at) && is_named(constants(code), word, &variable);
    all.into_iter().filter(|number| handler_leads(*number, case, has)).collect()
}

/// True where the handler of an exception, or a function that it calls, calls a function.
pub(super) fn handler_calls(number: u64, function: Addr, case: &Case<'_>) -> bool {
    handler_leads(number, case, |at, _| at == function & !1)
}

/// True where something is so of the handler of an exception, or of a function that it calls, by address and code.
fn handler_leads(number: u64, case: &Case<'_>, is_so: impl Fn(Addr, &[u8]) -> bool) -> bool {
    vector::vector(number, case).is_some_and(|(_, handler)| leads(handler, case, is_so))
}

/// True where a function, or one that it calls, calls one of these.
pub(super) fn calls(function: Addr, callees: &[Addr], case: &Case<'_>) -> bool {
    leads(function, case, |at, _| callees.contains(&at))
}

fn leads(function: Addr, case: &Case<'_>, is_so: impl Fn(Addr, &[u8]) -> bool) -> bool {
    let mut all = vec![function & !1];
    let mut at = 0;
    while let Some(next) = all.get(at).copied() {
        at = at.saturating_add(1);
        let Some((start, code)) = code(next, case) else { continue };
        if is_so(next, &code) {
            return true;
        }
        let more: Vec<Addr> = callees(start, &code, case).filter(|callee| !all.contains(callee)).collect();
        all.extend(more.into_iter().take(FUNCTIONS.saturating_sub(all.len())));
    }
    false
}

/// The functions that code calls, or whose address it has: it may call those through that.
fn callees(start: Addr, code: &[u8], case: &Case<'_>) -> impl Iterator<Item = Addr> {
    let calls = halves(code)
        .filter_map(move |(into, first, second)| jump::target(first, second, start.checked_add(into)?.checked_add(4)?));
    let named = constants(code).filter(|at| at & 1 == 1);
    calls.chain(named).map(|at| at & !1).filter(|at| case.look.function(*at).is_some_and(|f| f.address & !1 == *at))
}

fn constants(code: &[u8]) -> impl Iterator<Item = Addr> {
    code.chunks_exact(4).filter_map(|four| Endian::Little.u32(four, 0)).map(u64::from)
}

/// True where one of these constants is the address of a word, or of the variable that it is a part of.
fn is_named(mut words: impl Iterator<Item = Addr>, word: Addr, variable: &dyn Fn(Addr) -> Option<Addr>) -> bool {
    let start = variable(word);
    words.any(|at| at == word || start == Some(at))
}

/// The code of the function at an address.
fn code(at: Addr, case: &Case<'_>) -> Option<(Addr, Vec<u8>)> {
    let symbol = case.look.function(at & !1)?;
    let start = symbol.address & !1;
    Some((start, case.look.bytes(start, symbol.size.clamp(2, MOST))?))
}

fn halves(code: &[u8]) -> impl Iterator<Item = (u64, u16, u16)> {
    (0..code.len()).step_by(2).filter_map(|at| {
        let (first, second) = (Endian::Little.u16(code, at)?, Endian::Little.u16(code, at.checked_add(2)?)?);
        Some((u64::try_from(at).ok()?, first, second))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_names_a_word_or_the_variable_that_it_is_in() {
        let variable = |at| (at >= 0x2000_0100).then_some(0x2000_0100);
        let of = |words: &[u64]| is_named(words.iter().copied(), 0x2000_0110, &variable);
        assert!(of(&[5, 0x2000_0110]));
        assert!(of(&[0x2000_0100]), "a structure");
        assert!(!of(&[0x2000_0104]), "another part of it");
        assert!(!of(&[0x2000_00F0, 0x4000_0000, 0]), "its neighbour");
    }
}
