//! A control block in memory of a pool that was released: the object was not deleted before. The kernel goes on to use it, and the
//! next owner of that memory writes over it. It is no write past an end.
//!
//! Where the memory is free, that is so whether the control block was overwritten or not. Where somebody has it again, only one
//! that was overwritten shows it.

use super::super::events::Block;
use super::super::graph::Graph;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::control_blocks::{self, first_words};
use super::corrupt_pool::followers;
use super::released_memory::Released;
use crate::abi::{Addr, Region};
use crate::kernel::{Kernel, Kind, Object};

/// Bytes of a control block that are looked at: the shortest has more.
const LEN: u64 = 16;
/// The most control blocks in pools that are looked at: the blocks of its pool are read for each.
const MOST: usize = 128;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let Some(kernel) = case.kernel.filter(|_| !case.trust.other_build) else { return Vec::new() };
    let lost = kernel.overwritten.iter().filter(|block| block.found.is_some());
    let lost = lost.map(|block| (block.address, control_blocks::label(block, case), true));
    let threads = kernel.threads.iter().map(|thread| (thread.address, format!("thread {}", thread.label()), false));
    let objects = kernel.objects.iter().map(|object| (object.address, case.object(object.address), false));
    let pools = || kernel.objects.iter().filter(|object| matches!(object.kind, Kind::BlockPool | Kind::BytePool));
    let is_in_pool = |(at, ..): &(Addr, String, bool)| {
        let memory = |pool: &Object| Some(Region { start: pool.get("start")?, len: pool.get("size")? });
        pools().filter_map(memory).any(|memory| memory.contains(*at))
    };
    let all = lost.chain(threads).chain(objects).filter(is_in_pool).take(MOST);
    all.filter_map(|(at, name, is_lost)| {
        let released = of_block(at, is_lost, kernel, case)?;
        let mut found = finding(at, &name, &released, case, graph);
        // The pointer that leads to it may be what was overwritten.
        if is_lost {
            found.confidence = found.confidence.min(Confidence::Likely);
        }
        Some(found)
    })
    .collect()
}

/// True for a control block in memory that was released.
pub(super) fn is_so(at: Addr, is_lost: bool, case: &Case<'_>) -> bool {
    case.kernel.is_some_and(|kernel| of_block(at, is_lost, kernel, case).is_some())
}

fn of_block<'k>(at: Addr, is_lost: bool, kernel: &'k Kernel, case: &Case<'_>) -> Option<Released<'k>> {
    let created = case.events.and_then(|events| events.created(at));
    let is_newer = |block: &Block| created.is_none_or(|created| created < block.seq);
    let released = Released::of(Region { start: at, len: LEN }, kernel, case, &is_newer)?;
    (is_lost || released.is_free()).then_some(released)
}

fn finding(at: Addr, name: &str, released: &Released<'_>, case: &Case<'_>, graph: &Graph) -> Finding {
    let words = first_words(at, case);
    let shown = Evidence::memory(at, format!("the control block of {name}"));
    let mut finding = released.finding(&format!("the control block of {name}"), Some(shown), case, graph);
    finding.code = Code::CorruptControlBlock;
    finding.next(format!("delete {name} before its memory is released")).affected(followers(&words, case)).threads([at])
}
