//! The stack of a thread that still lives is memory of a pool that was released: by whoever ended the thread, or thought so. The
//! next owner of that memory writes over the stack, and the thread runs into nowhere when it goes on. It is no overflow: no larger
//! stack helps.
//!
//! Against it: a thread that has ended needs no stack; its memory may be released before it is deleted.

use super::super::events::Block;
use super::super::graph::Graph;
use super::super::{Case, Evidence, Finding};
use super::released_memory::Released;
use crate::kernel::{Kernel, Stacks, State, Thread};

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let Some(kernel) = case.kernel else { return Vec::new() };
    let lives = |thread: &&Thread| {
        let is_over = matches!(thread.state, Some(State(1 | 2)) | None);
        !is_over && thread.stacks == Stacks::Own && thread.pthread.is_none()
    };
    let found = kernel.threads.iter().filter(lives).filter_map(|thread| {
        let released = of_thread(thread, kernel, case)?;
        Some(finding(thread, &released, case, graph))
    });
    found.collect()
}

/// True for a thread whose stack is another one's memory.
pub(super) fn is_so(thread: &Thread, case: &Case<'_>) -> bool {
    case.kernel.is_some_and(|kernel| of_thread(thread, kernel, case).is_some())
}

fn of_thread<'k>(thread: &Thread, kernel: &'k Kernel, case: &Case<'_>) -> Option<Released<'k>> {
    let stack = thread.stack.region().filter(|stack| stack.len > 0)?;
    let is_newer = |block: &Block| {
        // The stack is the block from its beginning.
        let ran = || case.events?.activity(thread.address).and_then(|activity| activity.first);
        let first = case.events.and_then(|events| events.created(thread.address)).or_else(ran);
        // Without events of the thread what it saved shows that somebody else writes there.
        let is_own = block.start == case.stored(stack.start);
        is_own && first.map_or_else(|| is_lost(thread, case), |first| first < block.seq)
    };
    Released::of(stack, kernel, case, &is_newer)
}

/// True where what a thread saved leads nowhere.
fn is_lost(thread: &Thread, case: &Case<'_>) -> bool {
    let pc = thread.position.pc.filter(|pc| case.look.function(pc & !1).is_some());
    thread.core.is_none() && pc.is_none()
}

fn finding(thread: &Thread, released: &Released<'_>, case: &Case<'_>, graph: &Graph) -> Finding {
    let name = thread.label();
    let (start, len) = (thread.stack.start.unwrap_or_default(), thread.stack.size.unwrap_or_default());
    let shown = Evidence::stack(start, format!("the stack of {name}: {len} bytes"));
    released
        .finding(&format!("the stack of {name}"), Some(shown), case, graph)
        .next(format!("terminate and delete {name} before its stack is released"))
        .threads([thread.address])
}
