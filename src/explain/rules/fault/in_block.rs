//! The only block of a pool that holds the pointer which failed: a message, say, of which a part was never set, or was written over. The
//! code did not show where the pointer was read from.
//!
//! Against it: the word may be there by chance. So blocks that are free do not count. Where several hold it, the one counts that alone
//! has an address on the stack of the thread.

use std::collections::BTreeSet;

use super::super::super::graph::Graph;
use super::super::super::{Case, Evidence, Finding};
use super::super::lost_blocks::words;
use super::super::{pointer, static_pointers};
use crate::abi::{Addr, Region};
use crate::explain::address;
use crate::kernel::Kind;

/// Smaller numbers are in many words.
const LEAST: Addr = 0x1_0000;

/// The word, and whose the block is, in words.
struct Found {
    at: Addr,
    words: String,
    /// Other blocks hold the word, too, and the stack has no address in them.
    by_stack: bool,
}

/// The most words of pools that are looked at: more say nothing.
const MOST: usize = 16;

/// Its word. Of several, that of the block in which alone `stack` has an address.
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
    let is_all = found.len() < MOST;
    let held = |at| pointer::in_pool(at, case, graph).filter(|held| !held.is_free).map(|held| (at, held.words));
    let mut all: Vec<(Addr, String)> = found.into_iter().filter_map(held).filter(|_| is_all).collect();
    // A block may hold it several times.
    all.dedup_by_key(|(at, _)| region(*at, case).map(|block| block.start));
    let by_stack = all.len() > 1;
    if let Some(stack) = stack.filter(|_| by_stack) {
        let blocks: Vec<Region> = all.iter().filter_map(|(at, _)| region(*at, case)).collect();
        let mut used = BTreeSet::new();
        words(stack, case, &mut |at, word| {
            let block = blocks.iter().find(|block| at.is_multiple_of(case.width()) && block.contains(word));
            used.extend(block.map(|block| block.start));
        })?;
        all.retain(|(at, _)| region(*at, case).is_some_and(|block| used.contains(&block.start)));
    }
    let (at, words) = all.pop()?;
    all.is_empty().then_some(Found { at, words, by_stack })
}

/// The block in which a word is.
fn region(at: Addr, case: &Case<'_>) -> Option<Region> {
    pointer::block_at(at, case).map(|block| Region { start: block.start, len: block.len })
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
        let claim = format!("{}; {which} {at:#x}, {words}{too}", self.claim);
        Self { claim, ..self }
            .against(["that the pointer was read from that block is inferred from its value"])
            .against((!stacks.is_empty()).then_some("addresses on stacks may be old"))
            .evidence([Evidence::memory(at, "the pointer that failed is here".to_owned()).holds(failed)])
            .evidence(stacks.into_iter().map(|(_, evidence)| evidence))
            .next(format!("look for who sets the word at {at:#x}, in each block that is allocated there"))
    }
}
