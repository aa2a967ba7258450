//! The stacks of two threads that overlap: each was created with memory of the other, by a wrong size or a wrong address. Whoever
//! goes deeper overwrites what the other keeps there, and that one goes on with wrong registers, or faults where the kernel
//! restores it. Both control blocks name their stacks, so memory alone proves it.
//!
//! Against it: a thread that has ended needs no stack, and memory of a pool that was released is a rule of its own. Of threads of
//! modules and of control blocks that contradict themselves nothing is said.

use super::super::graph::Graph;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::stack_released;
use crate::abi::{Addr, Region};
use crate::kernel::{Stacks, State, Thread};

/// The largest stack that is believed, in bytes.
const LARGEST: u64 = 1 << 20;

/// Two threads, the one whose stack begins first in front, and what they share.
struct Pair<'k> {
    low: &'k Thread,
    high: &'k Thread,
    shared: Region,
}

pub(super) fn find(case: &Case<'_>, _: &Graph) -> Vec<Finding> {
    pairs(case).iter().map(|pair| finding(pair, case)).collect()
}

/// True for a thread whose stack overlaps that of another one: what its fill shows may be of the other.
pub(super) fn is_so(thread: Addr, case: &Case<'_>) -> bool {
    pairs(case).iter().any(|pair| [pair.low.address, pair.high.address].contains(&thread))
}

/// Neighbours in the order of their stacks that overlap.
fn pairs<'k>(case: &Case<'k>) -> Vec<Pair<'k>> {
    let threads = case.kernel.map_or(&[][..], |kernel| &kernel.threads);
    let mut stacks: Vec<(Region, &Thread)> =
        threads.iter().filter_map(|thread| Some((stack(thread)?, thread))).collect();
    stacks.sort_by_key(|(stack, _)| stack.start);
    let overlapping = stacks.windows(2).filter_map(|two| match two {
        [(first, low), (second, high)] => Some(Pair { low, high, shared: shared(*first, *second)? }),
        _ => None,
    });
    overlapping.filter(|pair| [pair.low, pair.high].iter().all(|thread| !stack_released::is_so(thread, case))).collect()
}

/// The stack of a thread that needs it, where its control block does not contradict itself.
fn stack(thread: &Thread) -> Option<Region> {
    let is_over = matches!(thread.state, Some(State(1 | 2)) | None);
    let is_own = thread.stacks == Stacks::Own && thread.pthread.is_none() && thread.has_whole_stack();
    thread.stack.region().filter(|stack| !is_over && is_own && (1..=LARGEST).contains(&stack.len))
}

/// What two stacks share; the first begins first.
fn shared(first: Region, second: Region) -> Option<Region> {
    let len = first.start.checked_add(first.len)?.checked_sub(second.start)?.min(second.len);
    (len > 0).then_some(Region { start: second.start, len })
}

fn finding(pair: &Pair<'_>, case: &Case<'_>) -> Finding {
    let (low, high) = (pair.low.label(), pair.high.label());
    let range = |thread: &Thread| {
        let name = thread.label();
        let Region { start, len } = thread.stack.region().unwrap_or(pair.shared);
        let last = start.saturating_add(len.saturating_sub(1));
        Evidence::memory(thread.address, format!("the stack of {name}: {len} bytes, from {start:#x} to {last:#x}"))
    };
    let Region { start, len } = pair.shared;
    Finding::new(
        Code::CorruptControlBlock,
        case.cap(Confidence::Proven),
        format!(
            "the stacks of {low} and {high} overlap: they share {len} bytes from {start:#x}, and each thread overwrites there what the other keeps"
        ),
    )
    .evidence([range(pair.low), range(pair.high)])
    .next(format!("compare the address and the size of the stacks with which {low} and {high} were created"))
    .threads([pair.low.address, pair.high.address])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_stacks_share_what_is_in_both() {
        let region = |start, len| Region { start, len };
        assert_eq!(shared(region(0x100, 0x100), region(0x200, 0x100)), None, "they touch");
        assert_eq!(shared(region(0x100, 0x100), region(0x180, 0x100)), Some(region(0x180, 0x80)));
        assert_eq!(
            shared(region(0x100, 0x100), region(0x140, 0x10)),
            Some(region(0x140, 0x10)),
            "one within the other"
        );
        assert_eq!(shared(region(0x100, 0x100), region(0x100, 0x100)), Some(region(0x100, 0x100)));
        assert_eq!(shared(region(u64::MAX, 2), region(u64::MAX, 2)), None, "no such memory");
    }
}
