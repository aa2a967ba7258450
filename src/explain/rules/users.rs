//! Which threads use an object, where no event shows it: the code of a thread's function holds the address of the object, or its
//! stack does. A compiler keeps the address of a variable after the function that uses it, or in a register that a call saves. It
//! is a sign only: an address on a stack may be an old one, and a function that is called may use the object instead.

use super::super::Case;
use super::super::state::Task;
use crate::abi::{Addr, Region};
use crate::kernel::{Object, Thread};

/// The most bytes of a function that are looked at.
const FUNCTION: u64 = 4096;
/// The most bytes of a stack that are looked at.
const STACK: u64 = 512;
/// Bytes that are read at once.
const PIECE: u64 = 512;

/// True where a thread's code or its stack holds the address of an object. Never with an ELF of another build.
pub(super) fn uses(task: &Task, object: Addr, case: &Case<'_>) -> bool {
    let thread = case.thread(task.address).filter(|_| !case.trust.other_build);
    thread.is_some_and(|thread| in_code(thread, object, case) || on_stack(thread, object, case))
}

/// True where the code of a timer's callback holds the address of an object. Never with an ELF of another build.
pub(super) fn callback_uses(timer: &Object, object: Addr, case: &Case<'_>) -> bool {
    let callback = timer.get("tx_timer_internal_timeout_function").filter(|_| !case.trust.other_build);
    callback.is_some_and(|callback| code_holds(callback, object, case))
}

fn in_code(thread: &Thread, object: Addr, case: &Case<'_>) -> bool {
    thread.entry.is_some_and(|entry| code_holds(entry, object, case))
}

/// True where the function at an address holds the address of an object.
fn code_holds(entry: Addr, object: Addr, case: &Case<'_>) -> bool {
    // Code that makes the address of two halves has no word with it.
    let makes = |function: Addr| case.functions_with(Region { start: object, len: 1 }).contains(&(function & !1));
    case.look.function(entry & !1).is_some_and(|function| {
        let own = Region { start: function.address & !3, len: function.size.min(FUNCTION) };
        holds(own, object, case) || makes(function.address)
    })
}

fn on_stack(thread: &Thread, object: Addr, case: &Case<'_>) -> bool {
    let in_use = || {
        // Where the thread runs that has a core, or where an exception came.
        let running = || {
            let cpu = case.cpus?.all.get(thread.core?)?;
            let places = cpu.interrupted.iter().flat_map(|found| &found.all).filter_map(|place| place.registers.sp());
            cpu.registers.sp().into_iter().chain(places).find(|sp| thread.holds(*sp))
        };
        let sp = thread.saved.filter(|sp| thread.core.is_none() && thread.holds(*sp)).or_else(running)?;
        Some(Region { start: sp & !3, len: thread.stack.end()?.checked_sub(sp)?.min(STACK) })
    };
    in_use().is_some_and(|region| holds(region, object, case))
}

fn holds(region: Region, word: Addr, case: &Case<'_>) -> bool {
    let pieces = (0..region.len.div_ceil(PIECE)).filter_map(|n| {
        let offset = n.checked_mul(PIECE)?;
        Some((region.start.checked_add(offset)?, PIECE.min(region.len.checked_sub(offset)?)))
    });
    let mut bytes = pieces.into_iter().filter_map(|(at, len)| case.look.bytes(at, len));
    bytes.any(|bytes| case.words(&bytes, true).contains(&word))
}
