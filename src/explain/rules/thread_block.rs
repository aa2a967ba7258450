//! The control block of a thread says that its stack begins in code or constants, and its end and size say where it is: the start was
//! overwritten. The kernel writes all three at once and never changes them. What is beside the start was often written with it: the saved
//! stack pointer, from which the kernel restores the registers of the thread.
//!
//! The kernel does not clear the saved stack pointer of a thread that it goes on with. Where that of the current thread leads out of its
//! stack, it was overwritten: before the switch to the thread, which then fails, or while it ran.

use super::super::graph::Graph;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::control_blocks;
use crate::abi::{Addr, Region};
use crate::kernel::{Kernel, Stacks, Thread};

/// The members that are shown.
const START: &str = "tx_thread_stack_start";
const SAVED: &str = "tx_thread_stack_ptr";
/// So far below a stack a pointer may be of one that overflowed.
const BELOW: u64 = 1 << 16;

pub(super) fn find(case: &Case<'_>, _: &Graph) -> Vec<Finding> {
    let Some(kernel) = case.kernel.filter(|_| !case.trust.other_build) else { return Vec::new() };
    let of = |thread| match stack(thread, case) {
        Some(stack) => finding(thread, stack, kernel, case),
        None => saved_elsewhere(thread, kernel, case),
    };
    kernel.threads.iter().filter_map(of).collect()
}

/// A saved stack pointer of the current thread that leads out of its stack, farther than a stack that overflows.
fn saved_elsewhere(thread: &Thread, kernel: &Kernel, case: &Case<'_>) -> Option<Finding> {
    let stack = thread.stack.region().filter(|_| thread.stacks == Stacks::Own)?;
    let saved = thread.saved.filter(|saved| *saved != 0 && kernel.current.contains(&thread.address))?;
    let is_near = |saved: Addr| {
        let end = stack.start.saturating_add(stack.len);
        saved >= stack.start.saturating_sub(BELOW) && saved <= end
    };
    if is_near(saved) || thread.run_count.is_none_or(|runs| runs == 0) {
        return None;
    }
    let at = kernel.layout.address(thread.address, kernel.layout.thread.offset(SAVED)?);
    let name = thread.label();
    let claim = format!(
        "the control block of thread {name} was overwritten: its saved stack pointer is {saved:#x}, and its stack is {:#x} to {:#x}; it is \
         the current thread",
        stack.start,
        stack.start.saturating_add(stack.len.saturating_sub(1))
    );
    let is_inferred = kernel.layout.is_inferred();
    let confidence = if is_inferred { Confidence::Hint } else { Confidence::Likely };
    let finding = Finding::new(Code::CorruptControlBlock, case.cap(confidence), claim)
        .evidence([Evidence::memory(at, format!("{SAVED} of {name}")).holds(saved)])
        .against(["a stack that the program itself switched to looks the same"])
        .against(is_inferred.then_some("the layout of control blocks is inferred: no debug information gives it"))
        .next(format!("look for a write past the end of {}", control_blocks::writer(thread.address, case)))
        .threads([thread.address]);
    Some(control_blocks::with_writer(finding, thread.address, case))
}

/// True for a member of a control block of which this rule says something.
pub(super) fn is_of(member: Addr, case: &Case<'_>) -> bool {
    let threads = case.kernel.into_iter().flat_map(|kernel| &kernel.threads);
    let mut near = threads.filter(|thread| member.checked_sub(thread.address).is_some_and(|offset| offset < 64));
    near.any(|thread| stack(thread, case).is_some())
}

/// Where the stack of a thread is by its end, where its start is in code or constants.
fn stack(thread: &Thread, case: &Case<'_>) -> Option<Region> {
    let (end, _) = thread.end_of_stack().filter(|(end, last)| end != last)?;
    let stated = thread.stack.region()?;
    let start = end.checked_sub(stated.len)?.checked_add(1)?;
    let by_end = Region { start, len: stated.len };
    let cpus = case.cpus?;
    (cpus.writes(by_end) && cpus.is_read_only(stated.start)).then_some(by_end)
}

fn finding(thread: &Thread, stack: Region, kernel: &Kernel, case: &Case<'_>) -> Option<Finding> {
    let (name, start) = (thread.label(), thread.stack.start?);
    let member = |name: &str| {
        let offset = kernel.layout.thread.offset(name)?;
        Some(kernel.layout.address(thread.address, offset))
    };
    let saved = thread.saved.filter(|saved| saved.checked_sub(stack.start).is_none_or(|used| used > stack.len));
    let also = saved.map_or_else(String::new, |saved| format!(", and that the saved stack pointer is {saved:#x}"));
    let at = member(START).unwrap_or(thread.address);
    let of = |name: &'static str, value: Addr| {
        Evidence::memory(member(name).unwrap_or(thread.address), format!("{name} of {}", thread.label())).holds(value)
    };
    Some(
        Finding::new(
            Code::CorruptControlBlock,
            case.cap(Confidence::Likely),
            format!(
                "the control block of thread {name} was overwritten: it says that the stack begins at {start:#x}{also}; the end and the size in it \
                 say {:#x}",
                stack.start
            ),
        )
        .evidence(saved.map(|saved| of(SAVED, saved)))
        .evidence([of(START, start)])
        .next(format!(
            "set a watchpoint at {at:#x}; look for a function that gets the address of an object of another type than it expects, and for a \
             write past the end of what is in front of this block"
        ))
        .threads([thread.address]),
    )
}
