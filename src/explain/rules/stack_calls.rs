//! Which functions of the application a stack that overflowed has return addresses of, and which of them makes the largest frame:
//! one of them, or what it called, needs more room than there is.
//!
//! Against it: a return address may be left over from a call that has ended. The stack was used by these calls, now or before.

use super::super::{Case, Evidence};
use super::{frames, jump, through, words};
use crate::abi::Addr;
use crate::cpu::Architecture;
use crate::kernel::Thread;
use crate::session::is_of_kernel;

/// The most bytes of a stack that are looked at, from its start.
const MOST: u64 = 4096;
/// Bytes that are read at once.
const PIECE: u64 = 1024;
/// The most functions that are named.
const NAMED: usize = 5;
/// The fewest bytes of a frame that is worth a word.
const LARGE: u64 = 64;

/// What return addresses say of a stack.
pub(super) struct Calls {
    pub evidence: Evidence,
    /// `the frame of measure takes 256 of the stack's 512 bytes`.
    pub largest: Option<String>,
}

/// The functions that a stack has return addresses of.
pub(super) fn of(thread: &Thread, case: &Case<'_>) -> Option<Calls> {
    let (start, size) = (thread.stack.start?, thread.stack.size?);
    let mut functions: Vec<(Addr, String)> = Vec::new();
    for into in (0..size.min(MOST)).step_by(usize::try_from(PIECE).ok()?) {
        let len = PIECE.min(size.checked_sub(into)?);
        let Some(bytes) = case.look.bytes(start.checked_add(into)?, len) else { continue };
        for function in case.words(&bytes, true).into_iter().filter_map(|word| caller(word, case)) {
            if !functions.iter().any(|(_, name)| *name == function.1) {
                functions.push(function);
            }
        }
    }
    let names: Vec<&str> = functions.iter().take(NAMED).map(|(_, name)| name.as_str()).collect();
    let largest = functions.iter().filter_map(|(at, name)| Some((frames::of_function(*at, case)?, name))).max();
    let largest = largest.filter(|(bytes, _)| *bytes >= LARGE);
    let largest = largest.map(|(bytes, name)| format!("the frame of {name} takes {bytes} of the stack's {size} bytes"));
    let first = names.first()?;
    let text = format!(
        "it holds return addresses of these functions, from its lowest address on: {}{}",
        names.join(", "),
        largest.as_ref().map_or_else(String::new, |largest| format!("; {largest}"))
    );
    Some(Calls { evidence: Evidence::stack(start, text).named(first), largest })
}

/// The function of the application that a return address is in.
fn caller(word: Addr, case: &Case<'_>) -> Option<(Addr, String)> {
    let of = case.kernel?.processor?;
    let is_return = match of {
        Architecture::CortexM => word & 1 == 1 && jump::is_behind_call(word, case),
        Architecture::Riscv32 | Architecture::Riscv64 => through::riscv_call(word, of, case).is_some(),
        _ => false,
    };
    let function = case.look.function(word & !1).filter(|_| is_return)?;
    let name = words::function_at(word, case);
    (!is_of_kernel(&name)).then_some((function.address & !1, name))
}
