//! Variables of the program that point into memory which was damaged: a pointer that was kept after the release of its block, or
//! the place to which an interrupt or a device writes next.
//!
//! Against it: a number may look like such an address by chance, and whoever has the memory now may keep a pointer to it.

use std::collections::BTreeSet;

use super::super::{Case, Evidence};
use super::lost_blocks::{is_old, old, words};
use super::pointer::stack_of;
use super::words::function_at;
use crate::abi::{Addr, Region};
use crate::kernel::{Kind, Object, State, Thread};
use crate::sym::Symbol;

/// The most variables, and the most functions of each, that are named.
const MOST: usize = 3;
/// The most bytes of a control block that is a part of a structure.
const BLOCK: u64 = 0xB0;

/// Where a trace begins and ends.
const TRACE: [&str; 2] = ["_tx_trace_header_ptr", "_tx_trace_buffer_end_ptr"];
/// So far below the stack pointer the frame of a function that has returned is looked at.
const BELOW: u64 = 256;

/// One of them.
pub(super) struct StaticPointer {
    /// Where it is.
    pub at: Addr,
    /// `marquee, whose address scroll has,`.
    pub words: String,
    /// `marquee`.
    pub name: String,
    /// Whether it is declared as a pointer; `None` where that is not known.
    pub is_pointer: Option<bool>,
    /// The functions that have its address.
    pub users: BTreeSet<Addr>,
    pub evidence: Evidence,
}

/// Those into this memory.
pub(super) fn into(memory: Region, case: &Case<'_>) -> Vec<StaticPointer> {
    find(memory, case).unwrap_or_default()
}

/// What is said of memory, with those that point there: `...; marquee, whose address scroll has, points into it, too`.
pub(super) fn said(words: &str, all: &[StaticPointer], one: &str, several: &str) -> String {
    let names: Vec<&str> = all.iter().map(|pointer| pointer.words.as_str()).collect();
    match names.as_slice() {
        [] => words.to_owned(),
        [only] => format!("{words}; {only} {one}"),
        names => format!("{words}; {} {several}", names.join(" and ")),
    }
}

/// Those into the stack of a thread whose return address was damaged, from a stack pointer on where that is known.
pub(super) fn into_stack(thread: &Thread, sp: Option<Addr>, case: &Case<'_>) -> Vec<StaticPointer> {
    let Some(stack) = stack_of(thread) else { return Vec::new() };
    let start = sp.and_then(|sp| sp.checked_sub(BELOW)).filter(|start| stack.contains(*start));
    // Who created the thread may keep the address of its stack.
    let start = start.unwrap_or(stack.start).max(stack.start.saturating_add(case.width()));
    let len = stack.len.saturating_sub(start.saturating_sub(stack.start));
    into(Region { start, len }, case)
}

/// Other threads that have an address below the stack pointer of a thread in the part of their stacks that is in use: a function of
/// it has returned, and its local variable is used still. With the words.
pub(super) fn in_other_stacks(own: &Thread, sp: Addr, case: &Case<'_>) -> Vec<(Addr, Evidence)> {
    if !case.look.is_stored() || !stack_of(own).is_some_and(|stack| stack.contains(sp)) {
        return Vec::new();
    }
    let start = sp.saturating_sub(BELOW).max(own.stack.start.unwrap_or(sp));
    in_stacks(Region { start, len: sp.saturating_sub(start) }, Some(own.address), case)
}

/// The same of any memory: who has an address in it, but for one thread.
pub(super) fn in_stacks(memory: Region, but: Option<Addr>, case: &Case<'_>) -> Vec<(Addr, Evidence)> {
    // The stack of a thread that has ended is old.
    let is_other = |thread: &&Thread| but != Some(thread.address) && !matches!(thread.state, Some(State(1 | 2)));
    let others = case.kernel.into_iter().flat_map(|kernel| &kernel.threads).filter(is_other);
    let of = |thread: &Thread| {
        let (from, end) = (thread.stack.pointer.filter(|sp| thread.stack.holds(*sp))?, thread.stack.end()?);
        let mut found = None;
        words(Region { start: from, len: end.checked_sub(from)? }, case, &mut |at, word| {
            let is_it = at.is_multiple_of(case.width()) && memory.contains(word);
            found = found.or(is_it.then_some((at, word)));
        })?;
        let (at, word) = found?;
        let from = received(thread, at, case).map_or_else(String::new, |queue| format!(", received from {queue}"));
        let text = format!("the stack of {} has an address there{from}", thread.label());
        Some((thread.address, Evidence::stack(at, text).holds(word)))
    };
    others.filter_map(of).take(MOST).collect()
}

/// The queue from which a thread that waits for its next message received the last one to an address.
fn received(thread: &Thread, at: Addr, case: &Case<'_>) -> Option<String> {
    let wait = thread.waits.as_ref().filter(|wait| wait.kind == Kind::Queue)?;
    let queue = case.kernel?.object(wait.address).filter(|queue| queue.get("enqueued") == Some(0))?;
    let words = queue.get("message_size")?;
    let len = words.checked_mul(case.kernel?.layout.shape.word.bytes() as u64)?;
    let buffer = Region { start: thread.message_buffer()?, len };
    buffer.contains(at).then(|| case.object(wait.address))
}

fn find(memory: Region, case: &Case<'_>) -> Option<Vec<StaticPointer>> {
    if !case.look.is_stored() || case.trust.other_build || memory.len == 0 {
        return None;
    }
    let (old, kernel) = (old(case)?, kernel_memory(case));
    let mut found: Vec<(Addr, Addr)> = Vec::new();
    for region in case.cpus?.written()? {
        words(region, case, &mut |at, word| {
            let is_it = memory.contains(word) && at.is_multiple_of(case.width());
            let is_of_program = || !is_old(at, &old) && !kernel.iter().any(|region| region.contains(at));
            if is_it && found.len() < MOST && !found.contains(&(at, word)) && is_of_program() {
                found.push((at, word));
            }
        })?;
    }
    Some(found.into_iter().filter_map(|(at, value)| pointer(at, value, case)).collect())
}

fn pointer(at: Addr, value: Addr, case: &Case<'_>) -> Option<StaticPointer> {
    let variable = case.look.variable(at).filter(|variable| !variable.name.starts_with("_tx"))?;
    let place = case.look.place(at)?;
    let users = case.functions_with(Region { start: variable.address, len: variable.size.max(1) });
    let names: Vec<String> = users.iter().copied().take(MOST).map(|function| function_at(function, case)).collect();
    let by = match names.as_slice() {
        [] => String::new(),
        [one] => format!(", whose address {one} has,"),
        [first @ .., last] => format!(", whose address {} and {last} have,", first.join(", ")),
    };
    let evidence = Evidence::memory(at, format!("{place}{by} points there")).holds(value);
    let (words, is_pointer) = (format!("{place}{by}"), case.look.is_pointer(at));
    Some(StaticPointer { at, words, name: place, is_pointer, users, evidence })
}

/// The trace, whose registry has the addresses of objects.
pub(in super::super) fn trace(case: &Case<'_>) -> Option<Region> {
    let pointer = |name| {
        let symbol = case.look.symbol(name)?;
        case.words(&case.look.bytes(symbol.address, case.width())?, true).first().copied().filter(|at| *at != 0)
    };
    let [start, end] = TRACE.map(pointer);
    let (start, end) = (start?, end?);
    Some(Region { start, len: end.checked_sub(start)? })
}

/// Control blocks, stacks, messages and the memory of pools: what they hold is the kernel's, or not static.
pub(super) fn kernel_memory(case: &Case<'_>) -> Vec<Region> {
    let Some(kernel) = case.kernel else { return Vec::new() };
    let block = |at: Addr| {
        let end = |variable: &Symbol| variable.address.saturating_add(variable.size);
        let own = case.look.variable(at).filter(|variable| at < end(variable));
        let len = match own {
            Some(variable) if variable.address == at => variable.size,
            // A part of it.
            Some(variable) => end(&variable).saturating_sub(at).min(BLOCK),
            None => BLOCK,
        };
        Region { start: at, len }
    };
    let storage = |object: &Object| {
        let start = object.get("start")?;
        let len = match object.kind {
            Kind::BlockPool | Kind::BytePool => object.get("size")?,
            Kind::Queue => {
                let words = object.get("capacity")?.checked_mul(object.get("message_size")?)?;
                words.checked_mul(kernel.layout.shape.word.bytes() as u64)?
            }
            _ => return None,
        };
        Some(Region { start, len })
    };
    let blocks = kernel.threads.iter().map(|thread| thread.address).chain(kernel.objects.iter().map(|o| o.address));
    let stacks = kernel.threads.iter().filter_map(stack_of);
    let storage = kernel.objects.iter().filter_map(storage);
    blocks.map(block).chain(stacks).chain(storage).chain(trace(case)).collect()
}
