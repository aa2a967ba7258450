//! The only block of a pool that holds the pointer which failed: a message, say, of which a part was never set, or was written over. The
//! code did not show where the pointer was read from.
//!
//! Against it: the word may be there by chance. So blocks that are free do not count, nor a pointer that several words hold.

use super::super::super::graph::Graph;
use super::super::super::{Case, Evidence, Finding};
use super::super::lost_blocks::words;
use super::super::pointer;
use crate::abi::{Addr, Region};
use crate::explain::address;
use crate::kernel::Kind;

/// Smaller numbers are in many words.
const LEAST: Addr = 0x1_0000;

/// Its word, and whose the block is, in words.
fn of(failed: Addr, case: &Case<'_>, graph: &Graph) -> Option<(Addr, String)> {
    if failed < LEAST || !case.look.is_stored() || case.trust.other_build || address::is_pattern(failed) {
        return None;
    }
    let pools = case.kernel?.objects.iter().filter(|pool| matches!(pool.kind, Kind::BlockPool | Kind::BytePool));
    let mut found = Vec::new();
    for pool in pools {
        let memory = Region { start: pool.get("start")?, len: pool.get("size")? };
        words(memory, case, &mut |at, word| {
            if word == failed && at.is_multiple_of(case.width()) && found.len() < 2 {
                found.push(at);
            }
        })?;
    }
    let [at] = found.as_slice() else { return None };
    let held = pointer::in_pool(*at, case, graph).filter(|held| !held.is_free)?;
    Some((*at, held.words))
}

impl Finding {
    /// The same with that block, for a pointer of which it is not known where it was read from.
    pub(super) fn with_block_of(self, failed: Option<Addr>, case: &Case<'_>, graph: &Graph) -> Self {
        let Some((failed, (at, words))) = failed.and_then(|failed| Some((failed, of(failed, case, graph)?))) else {
            return self;
        };
        let claim = format!("{}; of all blocks of pools only one holds that word, at {at:#x}, {words}", self.claim);
        Self { claim, ..self }
            .against(["that the pointer was read from that block is inferred from its value"])
            .evidence([Evidence::memory(at, "the pointer that failed is here".to_owned()).holds(failed)])
            .next(format!("look for who sets the word at {at:#x}, in each block that is allocated there"))
    }
}
