//! What the target's memory already holds: control blocks, stacks, flash. Read before anything is written to it.

use super::state::State;
use crate::abi::{Addr, Width};
use crate::error::Error;
use crate::kernel::{Kind, Layout, THREAD_ID};
use crate::mem::{Memory, Region};
use crate::rsp::client::MapKind;
use crate::session::Target;

/// Memory that belongs to something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// What it belongs to, in words.
    pub what: String,
    /// Where it is.
    pub region: Region,
}

/// The least size and alignment of a RAM: what is beside something that the kernel writes, within this, is RAM as well.
const RAM_UNIT: u64 = 1024;

/// No control block is longer, whatever debug information says.
const MAX_BLOCK: u64 = 4096;

/// The most bytes of a write that are searched for control blocks.
const MAX_SEARCHED: u64 = 64 << 10;

/// Control blocks and stacks.
#[derive(Debug, Default)]
pub struct Owners {
    /// Control blocks that the trace's registry names, and that begin as one.
    pub registered: Vec<Owner>,
    /// Others, at a write or right before it: that begin as one, and are linked with another.
    pub found: Vec<Owner>,
    /// Stacks of registered threads.
    pub stacks: Vec<Owner>,
}

impl Owners {
    /// Looks around each write: at what the trace's registry names there, and for what begins as a control block. The
    /// kernel's lists are not walked, as the target is halted during that time.
    pub fn read(target: &mut Target<'_>, state: &State, writes: &[Region]) -> Self {
        let layouts = layouts(target, state);
        let longest = layouts.iter().map(Layout::head_len).max().unwrap_or(0);
        let memory = target.parts().0;
        let stack = |(thread, region): &(Addr, Region)| Owner {
            what: format!("the stack of the thread at {thread:#x}"),
            region: *region,
        };
        let mut owners = Self { stacks: state.stacks.iter().map(stack).collect(), ..Self::default() };
        let near = |at: &&Addr| {
            let block = Region { start: **at, len: longest };
            writes.iter().any(|write| block.overlaps(around(*write)))
        };
        let id = Width::W8.bytes();
        let wanted: Vec<(Addr, usize)> = state.registered.iter().filter(near).map(|at| (*at, id)).collect();
        for ((at, _), bytes) in wanted.iter().zip(memory.read_batch(&wanted)) {
            let blocks = bytes.iter().flat_map(|bytes| layouts.iter().filter_map(|layout| Block::at(layout, bytes)));
            owners.registered.extend(blocks.max_by_key(|b| b.len).map(|block| block.owner(*at)));
        }
        for write in writes {
            let farthest = write.start.saturating_sub(longest);
            // A block does not begin before its memory does.
            let before = [farthest, around(*write).start.max(farthest)].into_iter().find_map(|start| {
                let own = write.len.clamp(id as u64, MAX_SEARCHED);
                let len = usize::try_from(write.start.checked_sub(start)?.checked_add(own)?).ok()?;
                Some((start, memory.read_bytes(start, len).ok()?))
            });
            if let Some((start, bytes)) = before {
                owners.find(start, &bytes, memory, &layouts);
            }
        }
        owners
    }

    /// All control blocks.
    pub fn blocks(&self) -> impl Iterator<Item = &Owner> {
        self.registered.iter().chain(&self.found)
    }

    /// Looks for words that control blocks begin with; one is a block where its link points to another of its kind.
    fn find(&mut self, start: Addr, bytes: &[u8], memory: &mut dyn Memory, layouts: &[Layout]) {
        for layout in layouts {
            let word = layout.shape.word;
            for (at, offset) in (start..).step_by(4).zip((0..bytes.len()).step_by(4)) {
                let Some(block) = bytes.get(offset..).and_then(|rest| Block::at(layout, rest)) else { continue };
                if self.blocks().any(|known| known.region.start == at) {
                    continue;
                }
                let next = block
                    .next_at
                    .and_then(|next| memory.read_bytes(at.checked_add(next)?, layout.shape.pointer.bytes()).ok());
                let next = next.and_then(|bytes| layout.shape.endian.word(layout.shape.pointer, &bytes, 0));
                let there = next.and_then(|next| memory.read_bytes(next, word.bytes()).ok());
                if there.and_then(|bytes| layout.shape.endian.word(word, &bytes, 0)) == Some(block.id) {
                    self.found.push(block.owner(at));
                }
            }
        }
    }
}

/// A control block by its first word.
struct Block {
    id: u64,
    name: &'static str,
    /// Bytes up to and with its links.
    len: u64,
    /// Where its link to the next of its kind is.
    next_at: Option<u64>,
}

impl Block {
    fn at(layout: &Layout, bytes: &[u8]) -> Option<Self> {
        let id = layout.shape.endian.word(layout.shape.word, bytes, 0)?;
        if id == THREAD_ID {
            let next_at = layout.thread.offset("tx_thread_created_next");
            return Some(Self { id, name: "thread", len: layout.head_len(), next_at });
        }
        let kind = Kind::of_id(id)?;
        let of = layout.object(kind)?;
        Some(Self { id, name: kind.name(), len: of.len, next_at: of.offset("created_next") })
    }

    fn owner(&self, start: Addr) -> Owner {
        Owner { what: format!("the control block of a {}", self.name), region: Region { start, len: self.len } }
    }
}

/// The layouts that control blocks may have, for these words: every one that was measured, or that of debug information
/// with the shortest of these, as debug information may be wrong.
fn layouts(target: &mut Target<'_>, state: &State) -> Vec<Layout> {
    let word = state.layout.map(|l| l.word);
    let mut all = Layout::measured(Some(state.endian), Some(state.pointer));
    all.retain(|layout| word.is_none_or(|word| layout.shape.word == word));
    let by_debug = Layout::declared(target.symbols(), state.endian, state.pointer);
    if let Some(by_debug) = by_debug.filter(|layout| layout.head_len() <= MAX_BLOCK) {
        all.sort_by_key(Layout::head_len);
        all.truncate(1);
        all.push(by_debug);
    }
    all
}

/// The memory that cannot end between its parts: whole units around it.
pub(super) fn around(region: Region) -> Region {
    let start = region.start & !(RAM_UNIT - 1);
    // Past the end of the address space there is none.
    let last = Region { len: region.len.max(1), ..region }.last().map_or(Addr::MAX, |last| last | (RAM_UNIT - 1));
    Region::between(start, last).unwrap_or(Region { start, len: u64::MAX })
}

/// What the stub calls flash or ROM. What it calls RAM is no proof: OpenOCD calls everything else so.
///
/// # Errors
/// Of the link.
pub(super) fn read_only(target: &mut Target<'_>) -> Result<Vec<Region>, Error> {
    let Some(remote) = target.remote_mut() else { return Ok(Vec::new()) };
    let map = remote.client_mut().memory_map().map_err(Error::from)?;
    let fixed = map.unwrap_or_default().into_iter().filter(|r| r.kind != MapKind::Ram);
    Ok(fixed.map(|r| Region { start: r.start, len: r.len }).collect())
}
