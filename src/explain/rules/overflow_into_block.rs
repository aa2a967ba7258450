//! A stack that overflowed into the control block below it. Many programs define a thread's stack right after its control
//! block: what grows beyond the end of the stack damages the end of that block first. Functions leave holes in their frames, so
//! some fill (0xEF) may be left at the end of the stack, which is then only nearly full: that the block below is damaged, too,
//! makes the overflow likely, and the block its symptom.
//!
//! Where the kernel does not fill stacks, what lies in the block shows it: addresses of that stack, and return addresses.
//!
//! Against it: a write past the end of what is in front of that block.

use super::super::graph::Graph;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::stack_calls;
use crate::abi::{Addr, Region};
use crate::kernel::{High, Overwritten, Stacks};

/// Bytes that may be left of a stack that was overflown with holes.
const NEAR: u64 = 64;
/// Bytes between a control block and the stack after it.
const GAP: u64 = 64;
/// The most bytes of a control block, where no symbol says how long it is.
const BLOCK: u64 = 0x140;
/// The fewest words of frames that are no chance.
const FRAMES: usize = 3;
/// The byte with which the kernel fills stacks.
const FILL: u8 = 0xEF;

/// A stack, and its thread.
struct Used {
    thread: Addr,
    start: Addr,
    /// In bytes.
    size: Option<u64>,
    /// Bytes of fill at its end; `None` where stacks are not filled.
    left: Option<u64>,
}

/// A control block that is damaged.
struct Damage {
    address: Addr,
    text: String,
}

pub(super) fn find(case: &Case<'_>, _: &Graph) -> Vec<Finding> {
    let Some(kernel) = case.kernel else { return Vec::new() };
    let damages = damages(case);
    let own = kernel.threads.iter().filter(|thread| thread.stacks == Stacks::Own && thread.pthread.is_none());
    let known = own.filter_map(|thread| {
        let (start, size) = (thread.stack.start?, thread.stack.size?);
        let left = match thread.stack.high {
            High::Full => Some(0),
            High::Bytes(used) => Some(size.checked_sub(used)?),
            _ => None,
        };
        Some(Used { thread: thread.address, start, size: Some(size), left })
    });
    // The control block of this thread cannot be read any more: the trace has where its stack is.
    let lost = kernel.overwritten.iter().filter(|block| block.kind.is_none() && block.found.is_some());
    let lost = lost.filter_map(|block| registered(block.address, case));
    let used = known.chain(lost).filter(|used| used.left.is_none_or(|left| left <= NEAR));
    used.filter_map(|used| {
        let is_it = |damage: &&Damage| {
            is_below(damage.address, &used, case) && (used.left.is_some() || holds_frames(damage.address, &used, case))
        };
        let below: Vec<&Damage> = damages.iter().filter(is_it).collect();
        below.first().map(|_| finding(&used, &below, case))
    })
    .collect()
}

/// What is known to be damaged, by the address of its control block.
fn damages(case: &Case<'_>) -> Vec<Damage> {
    let Some(kernel) = case.kernel else { return Vec::new() };
    let over = kernel.overwritten.iter().filter_map(Overwritten::damage);
    let over = over.map(|(address, text)| Damage { address, text });
    let issues = kernel.issues.iter().filter(|issue| issue.code == crate::code::Code::KernelDamaged);
    let of_block =
        issues.filter_map(|issue| Some(Damage { address: issue.place.address?, text: issue.message.clone() }));
    over.chain(of_block).collect()
}

/// The stack of a thread by the registry of the trace, where memory shows that it was used.
fn registered(thread: Addr, case: &Case<'_>) -> Option<Used> {
    let (start, size) = case.events?.stack(thread)?;
    let filled = case.kernel?.threads.iter().any(|other| matches!(other.stack.high, High::Bytes(_)));
    let bytes = case.look.bytes(start, NEAR).filter(|_| filled)?;
    let left = bytes.iter().take_while(|byte| **byte == FILL).count() as u64;
    Some(Used { thread, start, size, left: Some(left) })
}

/// True for an address in what ends where the stack begins.
fn is_below(at: Addr, used: &Used, case: &Case<'_>) -> bool {
    let Some(distance) = used.start.checked_sub(at).filter(|distance| *distance > 0) else { return false };
    let symbol = case.look.variable(at).filter(|symbol| symbol.size > 0);
    is_next(used.start, distance, symbol.and_then(|symbol| symbol.address.checked_add(symbol.size)))
}

/// True where a block lost its id, and the words from it to the start of a stack are those of frames: return addresses, and addresses
/// in that stack or a little below it. A thread's own control block has such addresses, and no return address.
fn holds_frames(at: Addr, used: &Used, case: &Case<'_>) -> bool {
    let find = || {
        let is_lost = case.kernel?.overwritten.iter().any(|block| block.address == at && block.found.is_some());
        let len = used.start.checked_sub(at).filter(|len| is_lost && *len <= BLOCK)?;
        let stack = Region { start: used.start.saturating_sub(BLOCK), len: used.size?.saturating_add(BLOCK) };
        let words = case.words(&case.look.bytes(at, len)?, true);
        let returns = words.iter().filter(|word| stack_calls::is_return(**word, case)).count();
        let within = words.iter().filter(|word| stack.contains(**word)).count();
        Some((returns, within))
    };
    find().is_some_and(|(returns, within)| are_frames(returns, within))
}

/// So many return addresses, and addresses of the stack, are no chance.
const fn are_frames(returns: usize, within: usize) -> bool {
    returns > 0 && returns.saturating_add(within) >= FRAMES
}

/// True for a block whose variable ends there, so far below the start of a stack that nothing else is between.
fn is_next(start: Addr, distance: u64, end: Option<Addr>) -> bool {
    match end {
        Some(end) => end <= start && start.saturating_sub(end) <= GAP,
        None => distance <= BLOCK,
    }
}

fn finding(used: &Used, below: &[&Damage], case: &Case<'_>) -> Finding {
    let (name, start) = (case.label(used.thread), used.start);
    let size = used.size.map_or_else(String::new, |size| format!(" ({size} bytes)"));
    let fill = match used.left {
        None => "below it are return addresses, and addresses of this stack".to_owned(),
        Some(0) => "its lowest bytes hold no fill (0xEF) any more".to_owned(),
        Some(left) => format!("all but the lowest {left} bytes were used"),
    };
    let calls = case.thread(used.thread).and_then(|thread| stack_calls::of(thread, case));
    let words = calls.as_ref().and_then(|calls| calls.words(used.size.map_or(u64::MAX, |size| size / 2)));
    let words = words.map_or_else(String::new, |words| format!("; {words}"));
    Finding::new(
        Code::StackOverflow,
        case.cap(Confidence::Likely),
        format!("the stack of {name}{size} overflowed into the control block below it{words}"),
    )
    .against(["a write past the end of what is in front of that block may have done the same"])
    .evidence([Evidence::stack(start, format!("the stack of {name}: {fill}"))])
    .evidence(calls.map(|calls| calls.evidence))
    .evidence(below.iter().map(|damage| Evidence::memory(damage.address, damage.text.clone())))
    .next(format!("make the stack of {name} larger; what is below {start:#x} is damaged"))
    .threads([used.thread])
    .affected(below.iter().map(|damage| damage.address))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without fill (`TX_DISABLE_STACK_FILLING`) a queue below the stack of a recursive reader was overwritten by nobody.
    #[test]
    fn a_stack_without_fill_that_overflowed_was_not_found() {
        assert!(are_frames(1, 2) && are_frames(3, 0));
        assert!(!are_frames(0, 5), "the control block of its own thread");
        assert!(!are_frames(1, 1));
    }

    /// `json` at 0x2000000c has 180 bytes, and its stack begins after it, at 0x200000c0.
    #[test]
    fn a_control_block_directly_below_a_stack_is_hit_first() {
        assert!(is_next(0x2000_00c0, 0xB4, Some(0x2000_00c0)));
        assert!(is_next(0x2000_00c0, 0xB4, None), "without symbols by the distance");
        assert!(!is_next(0x2000_00c0, 0xB4, Some(0x2000_0040)), "something is between");
        assert!(!is_next(0x2000_00c0, 0x400, None), "far below");
    }
}
