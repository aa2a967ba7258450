//! The CPU is in a variable that holds the copy of a function: programs copy what writes to flash into RAM. The first bytes of the
//! variable are those of the function. Where they differ at the instruction that the CPU came to, not all of it was copied, or the copy
//! was overwritten.

use super::super::{Case, Evidence};
use super::jump::Way;
use crate::abi::{Addr, Region};
use crate::sym::Symbol;

/// So many bytes that are the same are a copy.
const ALIKE: usize = 16;
/// The most places that are compared.
const FUNCTIONS: usize = 64;
/// The largest function that is compared.
const MOST: u64 = 4096;

/// The way within a copy to the address at which the CPU is.
pub(super) fn way(pc: Addr, case: &Case<'_>) -> Option<Way> {
    let copy = case.look.variable(pc)?;
    let into = pc.checked_sub(copy.address).filter(|into| *into >= ALIKE as u64)?;
    let function = original(&copy, case).filter(|function| into < function.size)?;
    let alike = alike(&copy, &function, case)?;
    let (name, label) = (&function.name, &copy.name);
    let evidence = |text: String| {
        vec![Evidence::memory(copy.address, text), Evidence::symbol(function.address, name, "the original".to_owned())]
    };
    let way = |words: String, text: String, next: String| Way {
        words,
        evidence: evidence(text),
        is_call: false,
        by: None,
        site: None,
        next,
    };
    let size = function.size;
    Some(if into < alike {
        let text = format!("{label} holds a copy of {name}: the first {alike} of its {size} bytes are the same");
        way(
            format!(": at byte {into} of a copy of {name}"),
            text,
            format!("look at the instruction of {name} that is {into} bytes behind its start"),
        )
    } else {
        let text = format!("the first {alike} bytes are those of {name}, which has {size}; those behind them are not");
        let next = format!(
            "compare {size}, the size of {name}, with how many bytes are copied to {label}, and look at who writes there after that"
        );
        way(
            format!(
                ": behind the first {alike} bytes of {label}, which are a copy of {name}; {name} has {size}, and the rest is not there"
            ),
            text,
            next,
        )
    })
}

/// The function whose first bytes a variable holds: functions may begin alike, so it is the one that is alike for longest, if only one is.
fn original(copy: &Symbol, case: &Case<'_>) -> Option<Symbol> {
    let first = case.look.bytes(copy.address, ALIKE as u64)?;
    // A function begins with no such bytes; memory that was never written does.
    if first.windows(2).all(|two| two.first() == two.last()) || !case.look.is_stored() {
        return None;
    }
    let places = case.cpus?.code.iter().flat_map(|code| places(*code, &first, case));
    let starts = places.filter_map(|at| case.look.function(at).filter(|function| function.address & !1 == at));
    let mut all: Vec<(u64, Symbol)> =
        starts.filter_map(|function| Some((alike(copy, &function, case)?, function))).collect();
    all.sort_by_key(|(alike, _)| *alike);
    let (longest, function) = all.pop()?;
    all.iter().all(|(alike, _)| *alike < longest).then_some(function)
}

/// How many of the first bytes of a function a variable holds.
fn alike(copy: &Symbol, function: &Symbol, case: &Case<'_>) -> Option<u64> {
    let len = function.size.min(MOST);
    let (own, code) = (case.look.bytes(copy.address, len)?, case.look.bytes(function.address & !1, len)?);
    Some(own.iter().zip(&code).take_while(|(own, code)| own == code).count() as u64)
}

/// Where these bytes are in the code.
fn places(code: Region, bytes: &[u8], case: &Case<'_>) -> Vec<Addr> {
    const STEP: u64 = 256;
    let in_piece = |piece: u64| {
        let into = piece.checked_mul(STEP)?;
        let from = code.start.checked_add(into)?;
        let len = STEP.checked_add(ALIKE as u64)?.min(code.len.checked_sub(into)?);
        let piece = case.look.within(code, from, usize::try_from(len).ok()?)?;
        let found = piece.windows(bytes.len()).enumerate().filter(|(_, window)| *window == bytes);
        Some(found.filter_map(|(at, _)| from.checked_add(at as u64)).collect::<Vec<_>>())
    };
    let mut all: Vec<Addr> = (0..code.len.div_ceil(STEP)).filter_map(in_piece).flatten().take(FUNCTIONS).collect();
    // Pieces overlap.
    all.dedup();
    all
}
