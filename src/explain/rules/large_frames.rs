//! A stack that is too small for the frames of what its thread calls, by the program's code. A function whose local variables are larger
//! than the stack reaches over the end of it at once, and may write nothing near it: then the fill and a guard word there are as they
//! were, the thread goes on, and the thread whose stack is below fails.
//!
//! Programs have functions that are too large for a stack and that its thread never calls. So it is said only where the thread whose stack
//! is below is in a fault, or may be at an address without code. It is likely where one frame is larger than the stack, and where the
//! fault left no place in the code: the thread went on with words that were none of its own. Else it is a hint.
//!
//! Against it: the thread may not have come to this call. The frames are those of the chain of calls that needs the most; what the kernel
//! needs, and functions that call themselves more than once, come on top.

use super::super::cpus::thread_of;
use super::super::graph::Graph;
use super::super::usage::{Deepest, User};
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::{fault, frames, words};
use crate::abi::Addr;
use crate::kernel::{Stacks, Thread};
use crate::session::{CpuState, Place};

/// Bytes between two stacks that are neighbours.
const GAP: u64 = 64;
/// The functions of a chain that are named.
const NAMED: usize = 4;

pub(super) fn find(case: &Case<'_>, _: &Graph) -> Vec<Finding> {
    let Some(kernel) = case.kernel else { return Vec::new() };
    let own = |thread: &&Thread| thread.stacks == Stacks::Own && thread.pthread.is_none();
    kernel.threads.iter().filter(own).filter_map(|thread| finding(thread, case)).collect()
}

fn finding(thread: &Thread, case: &Case<'_>) -> Option<Finding> {
    let (start, size) = (thread.stack.start?, thread.stack.size?);
    let below = case.kernel?.threads.iter().find(|other| is_next(other, start))?;
    let gap = start.checked_sub(below.stack.end()?)?;
    let (fault, is_lost) = fault_of(below, case)?;
    let frame = |at: Addr| frames::of_any(at, case).unwrap_or(0);
    let deepest = case.usage()?.deepest(User::Thread(thread.address), &frame);
    let (largest, bytes) = *deepest
        .functions
        .iter()
        .max_by_key(|(_, bytes)| *bytes)
        .filter(|_| deepest.bytes > size.saturating_add(gap))?;
    if thread.run_count == Some(0) {
        return None;
    }
    let (name, function, other) = (thread.label(), words::place_at(largest, case), below.label());
    let is_own = deepest.functions.last().is_some_and(|(at, _)| *at == largest);
    let how = if is_own { "" } else { ", which its code calls," };
    let takes = if bytes > size {
        format!("the frame of {function}{how} takes {bytes} bytes")
    } else {
        let together = deepest.bytes;
        format!("the functions that its code calls take {together} bytes, {bytes} of them the frame of {function}")
    };
    let is_sure = bytes > size && is_lost;
    Some(
        Finding::new(
            Code::StackOverflow,
            case.cap(if is_sure { Confidence::Likely } else { Confidence::Hint }),
            format!("the stack of {name} ({size} bytes) is too small: {takes}; the stack of {other} is below it"),
        )
        .against(["whether the thread has come to this call is not known: it is found by its code"])
        .evidence([Evidence::symbol(largest, &function, chain(&deepest, case))])
        .evidence([fault])
        .explains([format!("{other} may have lost words of its stack")])
        .next(format!("make the stack of {name} larger, or the local variables of {function} smaller"))
        .threads([thread.address])
        .affected([below.address]),
    )
}

/// True for the thread whose stack ends where another begins.
fn is_next(thread: &Thread, start: Addr) -> bool {
    thread.stack.end().is_some_and(|end| end <= start && start.saturating_sub(end) <= GAP)
}

/// That a CPU is in a fault of this thread; without registers that the thread may have come to an address without code. True where it
/// failed at no place in the code.
fn fault_of(thread: &Thread, case: &Case<'_>) -> Option<(Evidence, bool)> {
    let is_its = |cpu: &&CpuState| thread_of(cpu, case.kernel).is_some_and(|of| of.address == thread.address);
    let cpu = case.cpus?.all.iter().find(is_its)?;
    let name = thread.label();
    if let Some(pc) = cpu.registers.pc() {
        let text = format!("the CPU is in the handler of a fault of {name}");
        let is_in_code = |place: &Place| !place.is_outside_code;
        let is_lost = cpu.interrupted.as_ref().is_none_or(|found| !found.all.iter().any(is_in_code));
        return fault::is_in(cpu).then(|| (Evidence::register("pc", pc, text), is_lost));
    }
    let is_lost = |place: &&Place| place.is_outside_code && thread.stack.holds(place.frame);
    let place = cpu.interrupted.as_ref()?.all.iter().find(is_lost)?;
    let pc = place.registers.pc()?;
    let text =
        format!("in the stack of {name}, this looks like what an exception pushed: there is no code at pc {pc:#x}");
    Some((Evidence::stack(place.frame, text).holds(pc), true))
}

/// `uplink_entry (16 bytes) > send_trip (1136 bytes)`: the outermost first.
pub(super) fn chain(deepest: &Deepest, case: &Case<'_>) -> String {
    let mut with_frame: Vec<&(Addr, u64)> = deepest.functions.iter().filter(|(_, bytes)| *bytes > 0).collect();
    with_frame.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    with_frame.truncate(NAMED);
    let shown = deepest.functions.iter().rev().filter(|one| with_frame.contains(one));
    let names: Vec<String> =
        shown.map(|(at, bytes)| format!("{} ({bytes} bytes)", words::function_at(*at, case))).collect();
    format!("the largest frames on the way there: {}", names.join(" > "))
}
