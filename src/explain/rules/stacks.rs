//! Stacks that were used to their end. The kernel fills a stack with 0xEF before its thread runs: where the lowest bytes are
//! something else, the stack was used up, or written by a neighbour. A saved stack pointer below the start proves it.

use super::super::graph::Graph;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use crate::kernel::{High, Stacks, Thread};

/// Bytes that are left where a stack is nearly full.
const NEAR: u64 = 32;

pub(super) fn find(case: &Case<'_>, _: &Graph) -> Vec<Finding> {
    let Some(kernel) = case.kernel else { return Vec::new() };
    let own = kernel.threads.iter().filter(|thread| thread.stacks == Stacks::Own && thread.pthread.is_none());
    own.filter_map(|thread| finding(thread, case)).collect()
}

fn finding(thread: &Thread, case: &Case<'_>) -> Option<Finding> {
    let (start, size) = (thread.stack.start?, thread.stack.size?);
    let name = thread.label();
    let saved = thread.saved.filter(|saved| *saved < start && thread.core.is_none());
    let left = size.saturating_sub(thread.stack.high.bytes(Some(size)).unwrap_or(0));
    let (code, claimed, claim, text) = if let Some(saved) = saved {
        let below = start.saturating_sub(saved);
        let text = format!("its saved stack pointer {saved:#x} lies {below} bytes below the start of its stack");
        (Code::StackOverflow, Confidence::Proven, format!("the stack of {name} ({size} bytes) overflowed"), text)
    } else if thread.stack.high == High::Full {
        let text = "its lowest bytes hold no fill (0xEF) any more".to_owned();
        (
            Code::StackOverflow,
            Confidence::Likely,
            format!("the stack of {name} ({size} bytes) was used to its end"),
            text,
        )
    } else if left <= NEAR && matches!(thread.stack.high, High::Bytes(_)) {
        let text = format!("the lowest {left} bytes hold fill (0xEF)");
        let claim = format!("the stack of {name} was used to {left} bytes from its end");
        (Code::StackNearOverflow, Confidence::Hint, claim, text)
    } else {
        return None;
    };
    let (confidence, mut detractors) = case.cap(claimed);
    if claimed == Confidence::Likely {
        detractors.push("a neighbour may have written there instead".to_owned());
    }
    Some(Finding {
        code,
        claim,
        confidence,
        detractors,
        evidence: vec![Evidence::stack(start, text)],
        explains: Vec::new(),
        next: format!("make the stack of {name} larger; what lies below {start:#x} may be damaged"),
        threads: vec![thread.address],
        behind: Vec::new(),
    })
}
