//! The only block of a pool that holds the pointer which failed: a message, say, of which a part was never set, or was written over. The
//! code did not show where the pointer was read from.
//!
//! Against it: the word may be there by chance. So blocks that are free do not count. If several blocks hold it, the stack of the thread
//! must point into exactly one of them.

use super::super::super::graph::Graph;
use super::super::super::{Case, Evidence, Finding};
use super::super::lost_blocks::words;
use super::super::{pointer, pool_memory, static_pointers};
use crate::abi::{Addr, Region};
use crate::explain::address;
use crate::kernel::Kind;

/// Smaller numbers are in many words.
const LEAST: Addr = 0x1_0000;

/// The word, and whose the block is, in words.
struct Found {
    at: Addr,
    words: String,
    /// Other blocks hold the word, too, and the stack does not point into them.
    by_stack: bool,
}

/// The most words of pools that are looked at: more say nothing.
const MOST: usize = 16;

/// The word in the only block that holds it. If several do: in the only one of them that `stack` points into.
fn of(failed: Addr, stack: Option<Region>, case: &Case<'_>, graph: &Graph) -> Option<Found> {
    if failed < LEAST || !case.look.is_stored() || case.trust.other_build || address::is_pattern(failed) {
        return None;
    }
    let pools = case.kernel?.objects.iter().filter(|pool| matches!(pool.kind, Kind::BlockPool | Kind::BytePool));
    let mut found = Vec::new();
    for pool in pools {
        let memory = Region { start: pool.get("start")?, len: pool.get("size")? };
        words(memory, case, &mut |at, word| {
            if word == failed && at.is_multiple_of(case.width()) && found.len() < MOST {
                found.push(at);
            }
        })?;
    }
    if found.len() >= MOST {
        return None;
    }
    let held = |at| pool_memory::in_pool(at, case, graph).filter(|held| !held.is_free).map(|held| held.words);
    let all = found.into_iter().filter(|at| held(*at).is_some());
    let all: Vec<(Addr, Region)> = all.filter_map(|at| Some((at, region(at, case)?))).collect();
    let mut pointed = Vec::new();
    if let Some(stack) = stack {
        words(stack, case, &mut |at, word| {
            let block = all.iter().find(|(_, block)| at.is_multiple_of(case.width()) && block.contains(word));
            pointed.extend(block.map(|(_, block)| block.start).filter(|start| !pointed.contains(start)));
        })?;
    }
    let (at, by_stack) = only(&all, &pointed)?;
    Some(Found { at, words: held(at)?, by_stack })
}

/// The first word in the only block of these; if there are several blocks, in the only one that has one of the addresses, which is `true`
/// then.
fn only(all: &[(Addr, Region)], addresses: &[Addr]) -> Option<(Addr, bool)> {
    // A block may hold the word several times.
    let mut blocks = all.to_vec();
    blocks.dedup_by_key(|(_, block)| block.start);
    if let [(at, _)] = blocks.as_slice() {
        return Some((*at, false));
    }
    blocks.retain(|(_, block)| addresses.iter().any(|address| block.contains(*address)));
    let [(at, _)] = blocks.as_slice() else { return None };
    Some((*at, true))
}

/// The block in which a word is.
fn region(at: Addr, case: &Case<'_>) -> Option<Region> {
    pool_memory::block_at(at, case).map(|block| Region { start: block.start, len: block.len })
}

impl Finding {
    /// The same with that block, for a pointer of which it is not known where it was read from: the first of these words that one block
    /// holds. `own`: the thread in which it failed, and the part of its stack that is in use.
    pub(super) fn with_block_of(
        self,
        values: impl IntoIterator<Item = Addr>,
        own: Option<(Addr, Option<Region>)>,
        case: &Case<'_>,
        graph: &Graph,
    ) -> Self {
        let (thread, stack) = own.unzip();
        let stack = stack.flatten();
        let found = values.into_iter().find_map(|failed| Some((failed, of(failed, stack, case, graph)?)));
        let Some((failed, Found { at, words, by_stack })) = found else { return self };
        let stacks = region(at, case).map(|block| static_pointers::in_stacks(block, thread, case)).unwrap_or_default();
        let names: Vec<String> = stacks.iter().map(|(thread, _)| case.label(*thread)).collect();
        let too = match names.as_slice() {
            [] => String::new(),
            [only] => format!("; the stack of {only} has an address in that block"),
            names => format!("; the stacks of {} have addresses in that block", names.join(", ")),
        };
        let which = match thread.filter(|_| by_stack) {
            Some(thread) => format!(
                "of the allocated blocks of pools that hold that word, the stack of {} points into one alone:",
                case.label(thread)
            ),
            None => "of the allocated blocks of pools only one holds that word, at".to_owned(),
        };
        let older = pointer::older_text(at, failed, case).map_or_else(String::new, |older| format!("; {older}"));
        let claim = format!("{}; {which} {at:#x}, {words}{too}{older}", self.claim);
        Self { claim, ..self }
            .against(["that the pointer was read from that block is inferred from its value"])
            .against((!stacks.is_empty()).then_some("addresses on stacks may be old"))
            .evidence([Evidence::memory(at, "the pointer that failed is here".to_owned()).holds(failed)])
            .evidence(stacks.into_iter().map(|(_, evidence)| evidence))
            .next(format!("look for who sets the word at {at:#x}, in each block that is allocated there"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing was said of a pointer that two blocks hold, though the thread had the address of one alone.
    #[test]
    fn the_block_that_the_stack_points_into() {
        let [first, second] = [0x100, 0x200].map(|start| Region { start, len: 0x40 });
        let of = |all: &[(Addr, Region)], addresses: &[Addr]| only(all, addresses);
        let two = [(0x108, first), (0x210, second)];
        assert_eq!(of(&two[..1], &[]), Some((0x108, false)), "only one holds it");
        assert_eq!(of(&[(0x108, first), (0x120, first)], &[]), Some((0x108, false)), "twice");
        assert_eq!(of(&two, &[]), None, "either");
        assert_eq!(of(&two, &[0x200]), Some((0x210, true)));
        assert_eq!(of(&two, &[0x200, 0x13F]), None, "both are used");
        assert_eq!(of(&two, &[0x140]), None, "behind the first");
        assert_eq!(of(&[], &[0x200]), None);
    }
}
