//! Which functions of the application a stack that overflowed has return addresses of, and which of them makes the largest frame:
//! one of them, or what it called, needs more room than there is.
//!
//! Against it: a return address may be left over from a call that has ended. The stack was used by these calls, now or before.

use std::collections::BTreeMap;

use super::super::usage::User;
use super::super::{Case, Evidence};
use super::{frames, jump, through, words};
use crate::abi::{Addr, Region};
use crate::cpu::Architecture;
use crate::kernel::Thread;
use crate::session::is_of_kernel;

/// The most bytes of a stack that are looked at, from its start.
const MOST: u64 = 4096;
/// Bytes that are read at once.
const PIECE: u64 = 1024;
/// The most functions that are named.
const NAMED: usize = 5;
/// The fewest bytes of a frame of a function that calls another one.
const FRAME: usize = 8;
/// So often a return address is on a stack where a function is called again before it returns.
const NESTED: usize = 4;
/// The fewest bytes of a frame that is worth a word.
const LARGE: u64 = 64;

/// What return addresses say of a stack.
pub(super) struct Calls {
    pub evidence: Evidence,
    /// How many functions there are.
    pub count: usize,
    largest: Option<Largest>,
    /// `run_group is called again before it returns: 7 of its frames are on this stack`.
    nested: Option<String>,
}

impl Calls {
    /// What a claim says of them: a recursion, else the largest frame, where that is so large.
    pub fn words(&self, least: u64) -> Option<&str> {
        let largest = self.largest.as_ref().filter(|largest| largest.bytes >= least);
        self.nested.as_deref().or_else(|| largest.map(|largest| largest.text.as_str()))
    }
}

/// The function that makes the largest frame.
struct Largest {
    bytes: u64,
    /// `the frame of measure takes 256 of the stack's 512 bytes`.
    text: String,
}

/// The functions that a stack has return addresses of.
pub(super) fn of(thread: &Thread, case: &Case<'_>) -> Option<Calls> {
    let (start, size) = (thread.stack.start?, thread.stack.size?);
    let Found { functions, nested } = functions_in(Region { start, len: size }, case);
    let largest = largest(&functions, Some(thread), size, case);
    calls(start, &functions, (largest, nested), case)
}

/// The functions that memory has return addresses of, which a stack of so many bytes was used in that is none of a thread.
pub(super) fn of_main(memory: Region, size: u64, case: &Case<'_>) -> Option<Calls> {
    let Found { functions, nested } = functions_in(memory, case);
    let largest = largest(&functions, None, size, case);
    calls(memory.start, &functions, (largest, nested), case)
}

/// What memory has return addresses of.
struct Found {
    functions: Vec<(Addr, String)>,
    nested: Option<String>,
}

fn functions_in(memory: Region, case: &Case<'_>) -> Found {
    let mut functions: Vec<(Addr, String)> = Vec::new();
    let mut returns: BTreeMap<Addr, Vec<usize>> = BTreeMap::new();
    let mut into = 0;
    while let Some(left) = memory.len.min(MOST).checked_sub(into).filter(|left| *left > 0) {
        let bytes = memory.start.checked_add(into).and_then(|at| case.look.bytes(at, PIECE.min(left)));
        let first = usize::try_from(into).unwrap_or(usize::MAX);
        for (n, word) in case.words(&bytes.unwrap_or_default(), true).into_iter().enumerate() {
            let Some(function) = caller(word, case) else { continue };
            let at =
                usize::try_from(case.width()).map_or(usize::MAX, |width| first.saturating_add(n.saturating_mul(width)));
            returns.entry(word).or_default().push(at);
            if !functions.iter().any(|(_, name)| *name == function.1) {
                functions.push(function);
            }
        }
        into = into.saturating_add(PIECE);
    }
    let most = returns.into_iter().map(|(word, at)| (word, frames_of(&at))).max_by_key(|(_, times)| *times);
    let nested = most.filter(|(_, times)| *times >= NESTED).map(|(word, times)| {
        let name = words::function_at(word, case);
        format!("{name} is called again before it returns: {times} of its frames are on this stack")
    });
    Found { functions, nested }
}

/// Of the places of one return address, how many are as far from each other as those of the frames of a function that calls itself are.
fn frames_of(at: &[usize]) -> usize {
    let steps: Vec<usize> = at.iter().zip(at.iter().skip(1)).map(|(one, next)| next.saturating_sub(*one)).collect();
    // A frame has more than the return address.
    let longest = steps.chunk_by(|one, next| one == next && *one >= FRAME).map(<[usize]>::len).max();
    longest.map_or(at.len(), |steps| steps.saturating_add(1))
}

fn calls(
    start: Addr,
    functions: &[(Addr, String)],
    (largest, nested): (Option<Largest>, Option<String>),
    case: &Case<'_>,
) -> Option<Calls> {
    let mut names: Vec<&str> = functions.iter().take(NAMED).map(|(_, name)| name.as_str()).collect();
    let first = *names.first()?;
    // A library has no lines: who called it is named, too.
    let has_line = |(at, _): &&(Addr, String)| case.look.line(*at).is_some();
    let own = functions.iter().position(|function| has_line(&function)).filter(|index| *index >= NAMED);
    names.extend(own.and_then(|index| functions.get(index)).map(|(_, name)| name.as_str()));
    let text = format!(
        "it holds return addresses of these functions, from its lowest address on: {}{}",
        names.join(", "),
        largest.as_ref().map_or_else(String::new, |largest| format!("; {}", largest.text))
    );
    Some(Calls { evidence: Evidence::stack(start, text).named(first), count: functions.len(), largest, nested })
}

/// The function that makes the largest frame, of those that the stack has return addresses of. A function whose frame has no room is
/// not among them: so also of those that the thread calls by its code, where that is half of the stack or more.
fn largest(functions: &[(Addr, String)], thread: Option<&Thread>, size: u64, case: &Case<'_>) -> Option<Largest> {
    let frame = |at: Addr| frames::of_function(at, case).filter(|bytes| *bytes >= LARGE);
    let called = functions.iter().filter_map(|(at, name)| Some((frame(*at)?, name.clone()))).max();
    let by_code = || {
        let all = case.usage()?.functions_of(User::Thread(thread?.address));
        let of = all.into_iter().filter_map(|at| Some((frame(at).filter(|bytes| *bytes >= size / 2)?, at)));
        let (bytes, at) = of.max()?;
        Some((bytes, function_name(at, case)?))
    };
    chosen(called, by_code(), size)
}

/// Of the function of a return address and of one that is called by the code, that with the larger frame.
fn chosen(called: Option<(u64, String)>, by_code: Option<(u64, String)>, size: u64) -> Option<Largest> {
    let least = called.as_ref().map_or(0, |(bytes, _)| *bytes);
    let more = by_code.filter(|(bytes, name)| *bytes > least && called.as_ref().is_none_or(|(_, own)| own != name));
    let how = if more.is_some() { ", which its code calls," } else { "" };
    let (bytes, name) = more.or(called)?;
    let takes = if bytes > size {
        format!("takes {bytes} bytes, more than the stack has")
    } else {
        format!("takes {bytes} of the stack's {size} bytes")
    };
    Some(Largest { bytes, text: format!("the frame of {name}{how} {takes}") })
}

/// The name of a function of the application.
fn function_name(at: Addr, case: &Case<'_>) -> Option<String> {
    Some(words::function_at(at, case)).filter(|name| !is_of_kernel(name))
}

/// True for an address behind a call.
pub(super) fn is_return(word: Addr, case: &Case<'_>) -> bool {
    match case.kernel.and_then(|kernel| kernel.processor) {
        Some(Architecture::CortexM) => word & 1 == 1 && jump::is_behind_call(word, case),
        Some(of @ (Architecture::Riscv32 | Architecture::Riscv64)) => through::riscv_call(word, of, case).is_some(),
        _ => false,
    }
}

/// The function of the application that a return address is in.
fn caller(word: Addr, case: &Case<'_>) -> Option<(Addr, String)> {
    let function = case.look.function(word & !1).filter(|_| is_return(word, case))?;
    let name = words::function_at(word, case);
    (!is_of_kernel(&name)).then_some((function.address & !1, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `char text[640]` on a stack of 640 bytes: only the function that called it had left a return address.
    #[test]
    fn a_return_address_that_is_left_over_is_no_recursion() {
        assert_eq!(frames_of(&[16, 72, 128, 184, 240]), 5, "the frames of a function that calls itself");
        assert_eq!(frames_of(&[16, 40, 128, 160, 240]), 2, "what calls at other depths have left");
        assert_eq!(frames_of(&[16, 40, 96, 152, 208, 212]), 4, "among others");
        assert_eq!(frames_of(&[16, 20, 24, 28, 32]), 2, "a table of addresses");
        assert_eq!([frames_of(&[]), frames_of(&[16])], [0, 1]);
    }

    #[test]
    fn a_function_whose_frame_had_no_room_was_not_named() {
        let of = |called: Option<(u64, &str)>, by_code: Option<(u64, &str)>| {
            let owned = |one: Option<(u64, &str)>| one.map(|(bytes, name)| (bytes, name.to_owned()));
            chosen(owned(called), owned(by_code), 640).map(|largest| largest.text)
        };
        let report = "the frame of report, which its code calls, takes 696 bytes, more than the stack has";
        assert_eq!(of(None, Some((696, "report"))).as_deref(), Some(report));
        assert_eq!(of(Some((80, "entry")), Some((696, "report"))).as_deref(), Some(report));
        let entry = "the frame of entry takes 400 of the stack's 640 bytes";
        assert_eq!(of(Some((400, "entry")), Some((320, "report"))).as_deref(), Some(entry));
        assert_eq!(of(Some((400, "entry")), Some((400, "entry"))).as_deref(), Some(entry));
        assert_eq!(of(None, None), None);
    }
}
