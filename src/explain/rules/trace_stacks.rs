//! Stack pointers that a trace recorded below the stack of their thread, by the trace alone: its registry has where each stack begins and
//! how large it is (`tx_thread_create`). Calls record the stack pointer in the kernel; functions that call nothing go deeper.

use super::super::graph::Graph;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use crate::abi::{Addr, Region};

/// What is farther below a stack is a damaged word.
const FAR: u64 = 0x1_0000;
/// The most bytes between two stacks that lie next to each other, as the head of a block of a pool.
const NEAR: u64 = 64;

pub(super) fn find(case: &Case<'_>, _: &Graph) -> Vec<Finding> {
    // Where memory is known it shows more, and where stacks are now.
    let Some(events) = case.events.filter(|_| case.kernel.is_none()) else { return Vec::new() };
    events.stacks().filter_map(|(thread, stack)| finding(thread, stack, case)).collect()
}

fn finding(thread: Addr, stack: Region, case: &Case<'_>) -> Option<Finding> {
    let events = case.events?;
    let pointer = events.activity(thread)?.pointer?;
    let bytes = pointer.below(stack.start, stack.start.checked_add(stack.len)?).filter(|bytes| *bytes <= FAR)?;
    let ((sp, seq), name) = (pointer.lowest, case.label(thread));
    // What lies below it may be no stack: the registry names those of threads alone.
    let below = events.stacks().filter(|(other, below)| *other != thread && below.start < stack.start);
    let below = below.max_by_key(|(_, below)| below.start).filter(|(_, below)| {
        let end = below.start.saturating_add(below.len);
        end <= stack.start && stack.start.saturating_sub(end) <= NEAR
    });
    let into = below.map_or_else(String::new, |(other, _)| format!("; the stack of {} is below it", case.label(other)));
    let text = format!("its stack pointer was {sp:#x}, {bytes} bytes below the start {:#x} of its stack", stack.start);
    Some(
        Finding::new(
            Code::StackOverflow,
            case.cap(Confidence::Likely),
            format!("the stack of {name} ({} bytes) overflowed, by {bytes} bytes or more{into}", stack.len),
        )
        .evidence([Evidence::event(seq, text)])
        .next(format!("make the stack of {name} larger, or look for large local variables in what it calls"))
        .affected(below.map(|(other, _)| other))
        .threads([thread]),
    )
}
