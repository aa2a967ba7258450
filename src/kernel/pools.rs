//! The memory of pools: the blocks of a byte pool as the kernel chains them, and those of a block pool.
//!
//! A block of a byte pool begins with a link to the next block and a mark: 0xFFFFEEEE while it is free, the address of its pool
//! while it is allocated. Links lead forward; that of the last block, which has no bytes of its own, points back to the first. A
//! block of a block pool begins with one pointer: to the next free block, or 0, while it is free, to its pool while it is
//! allocated. The kernel changes these words so that the chain is whole after each store.

use super::layout::{Kind, Shape};
use super::object::Object;
use crate::abi::Addr;

/// The most blocks of a pool that are followed.
const MAX_BLOCKS: usize = 1 << 16;
/// The mark of a free block.
const FREE: u64 = 0xFFFF_EEEE;
/// A mark that some versions give to the last block.
const ALLOCATED: u64 = 0xAAAA_AAAA;
/// The most words in which the block is looked for that a damaged link left out.
const MAX_SEARCHED: u64 = 512;

/// A block of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolBlock {
    /// Where the words of the kernel are that it begins with.
    pub at: Addr,
    /// The first of its own bytes.
    pub start: Addr,
    /// How many these are.
    pub len: u64,
    /// True while it is free.
    pub is_free: bool,
}

/// Where the words of the kernel in a pool are not what they can be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolDamage {
    /// The first word.
    pub at: Addr,
    /// What is there: the link and the mark, or the link.
    pub words: Vec<u64>,
    /// The block in front of it.
    pub front: Option<PoolBlock>,
}

/// The list of free blocks of a block pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FreeList {
    /// How many blocks are in it, each counted once.
    pub listed: u64,
    /// How many the pool counts.
    pub counted: u64,
    /// The block after the last of these: one that is in the list already, or that is allocated.
    pub leads_to: Option<PoolBlock>,
}

impl FreeList {
    /// True where it has all free blocks, and ends after them.
    pub const fn is_whole(&self) -> bool {
        self.listed == self.counted && self.leads_to.is_none()
    }
}

/// The blocks of a pool, up to the first damage.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PoolBlocks {
    /// Them, in the order of their addresses.
    pub all: Vec<PoolBlock>,
    /// Where they are not whole.
    pub damage: Option<PoolDamage>,
    /// The end of the list of free blocks, if no block is there.
    pub astray: Option<Addr>,
    /// The list of free blocks of a block pool without such damage.
    pub free: Option<FreeList>,
}

impl PoolBlocks {
    /// Reads them, by a function that reads words of an address's width; `None` where some of them cannot be read, or where
    /// the pool's control block contradicts itself.
    pub fn of(pool: &Object, shape: Shape, read: &mut dyn FnMut(Addr, usize) -> Option<Vec<u64>>) -> Option<Self> {
        match pool.kind {
            Kind::BytePool => Bytes::of(pool, shape)?.walk(read),
            Kind::BlockPool => blocks(pool, shape, read),
            _ => None,
        }
    }

    /// The bytes of the largest piece that a byte pool can give: it joins free blocks that are neighbours.
    pub fn largest(&self) -> u64 {
        let (mut largest, mut end, mut joined) = (0, None, 0u64);
        for block in self.all.iter().filter(|block| block.is_free) {
            let head = block.start.saturating_sub(block.at);
            joined =
                if end == Some(block.at) { joined.saturating_add(head).saturating_add(block.len) } else { block.len };
            end = block.start.checked_add(block.len);
            largest = joined.max(largest);
        }
        largest
    }
}

/// The block at an address: the next one, and whether it is free.
type BlockAt<'r> = &'r mut dyn FnMut(Addr) -> Option<(Addr, bool)>;

/// The chain of a byte pool.
struct Bytes {
    pool: Addr,
    start: Addr,
    end: Addr,
    word: u64,
    /// The bytes of free blocks, with the words in front of them, as the kernel counts them.
    available: Option<u64>,
}

impl Bytes {
    fn of(pool: &Object, shape: Shape) -> Option<Self> {
        let (start, size) = (pool.get("start")?, pool.get("size")?);
        let word = shape.pointer.size();
        let is_sound = start != 0 && start.is_multiple_of(4) && size >= word.checked_mul(4)?;
        let end = start.checked_add(size)?;
        is_sound.then_some(Self { pool: pool.address, start, end, word, available: pool.get("available") })
    }

    /// Bytes in front of those of a block.
    const fn head(&self) -> u64 {
        self.word.saturating_mul(2)
    }

    /// A mark may be narrower than an address.
    fn is_mark(&self, mark: u64) -> bool {
        let low = mark & 0xFFFF_FFFF;
        low == FREE || low == ALLOCATED || low == self.pool & 0xFFFF_FFFF
    }

    fn leads_forward(&self, at: Addr, link: Addr) -> bool {
        let least = at.saturating_add(self.head());
        let most = self.end.saturating_sub(self.head());
        (least..=most).contains(&link) && link.saturating_sub(self.start).is_multiple_of(4)
    }

    /// True for the last block: its link points back to the first, and it ends where the pool does.
    fn is_last(&self, at: Addr, link: Addr) -> bool {
        link == self.start && self.end.saturating_sub(at) <= self.head().saturating_mul(2)
    }

    /// True where the free blocks up to an address, and those from there on, are all that the kernel counts, as far as it does.
    fn is_free_memory(&self, all: &[PoolBlock], from: Addr, block: BlockAt<'_>, steps: &mut usize) -> bool {
        let Some(available) = self.available else { return true };
        let Some(behind) = self.free_behind(from, block, steps) else { return false };
        let span = |first: &PoolBlock, next: Addr| if first.is_free { next.saturating_sub(first.at) } else { 0 };
        let next = all.iter().skip(1).map(|block| block.at).chain([from]);
        let before = all.iter().zip(next).fold(0, |sum: u64, (block, next)| sum.saturating_add(span(block, next)));
        before.checked_add(behind) == Some(available)
    }

    /// The bytes of the free blocks from an address on; `None` where they do not lead to the last.
    fn free_behind(&self, from: Addr, block: BlockAt<'_>, steps: &mut usize) -> Option<u64> {
        let (mut at, mut free) = (from, 0_u64);
        while let Some(left) = steps.checked_sub(1) {
            *steps = left;
            // The last block points back.
            let Some((link, is_free)) = block(at) else {
                return (self.end.saturating_sub(at) <= self.head().saturating_mul(2)).then_some(free);
            };
            free = free.saturating_add(if is_free { link.saturating_sub(at) } else { 0 });
            at = link;
        }
        None
    }

    fn walk(&self, read: &mut dyn FnMut(Addr, usize) -> Option<Vec<u64>>) -> Option<PoolBlocks> {
        let mut found = PoolBlocks::default();
        let mut at = self.start;
        while found.all.len() < MAX_BLOCKS {
            let words = read(at, 2)?;
            let [link, mark] = *words.as_slice() else { return None };
            let is_mark = self.is_mark(mark);
            if is_mark && self.is_last(at, link) {
                return Some(found);
            }
            if !is_mark || !self.leads_forward(at, link) {
                found.damage = Some(self.damage(at, words, &found.all, read));
                return Some(found);
            }
            let start = at.checked_add(self.head())?;
            let is_free = mark & 0xFFFF_FFFF == FREE;
            found.all.push(PoolBlock { at, start, len: link.checked_sub(start)?, is_free });
            at = link;
        }
        None
    }

    /// Where no block begins at `at`, either what was there was overwritten, or the link that leads there: then the block
    /// that is left out is after that link.
    fn damage(
        &self,
        at: Addr,
        words: Vec<u64>,
        all: &[PoolBlock],
        read: &mut dyn FnMut(Addr, usize) -> Option<Vec<u64>>,
    ) -> PoolDamage {
        let mut block = |from: Addr| {
            let [link, mark] = *read(from, 2)?.as_slice() else { return None };
            let is_block = self.is_mark(mark) && link != at && self.leads_forward(from, link);
            is_block.then_some((link, mark & 0xFFFF_FFFF == FREE))
        };
        // All places together follow no more blocks than a pool may have.
        let mut steps = MAX_BLOCKS;
        let left_out = all.last().filter(|last| {
            let offsets = (0..MAX_SEARCHED).map(|word| word.saturating_mul(self.word));
            let places = offsets.map(|offset| last.start.saturating_add(offset)).take_while(|place| *place < at);
            // A block that is left out points to another one.
            places.into_iter().any(|place| {
                let is_there = block(place).and_then(|(link, _)| block(link)).is_some();
                // What the kernel has merged in free memory keeps the words of the blocks that it was.
                is_there && (!last.is_free || self.is_free_memory(all, place, &mut block, &mut steps))
            })
        });
        match left_out {
            Some(last) => {
                let words = read(last.at, 2).unwrap_or_default();
                let front = all.len().checked_sub(2).and_then(|index| all.get(index)).copied();
                PoolDamage { at: last.at, words, front }
            }
            None => PoolDamage { at, words, front: all.last().copied() },
        }
    }
}

fn blocks(pool: &Object, shape: Shape, read: &mut dyn FnMut(Addr, usize) -> Option<Vec<u64>>) -> Option<PoolBlocks> {
    let (start, size) = (pool.get("start")?, pool.get("size")?);
    let (total, len) = (pool.get("total")?, pool.get("block_size")?);
    let word = shape.pointer.size();
    let step = len.checked_add(word).filter(|_| start != 0 && len > 0)?;
    let all = total.checked_mul(step).filter(|all| *all <= size)?;
    start.checked_add(size)?;
    let is_block = |at: Addr| at.checked_sub(start).is_some_and(|into| into < all && into.is_multiple_of(step));
    let (mut found, mut links) = (PoolBlocks::default(), Vec::new());
    for at in (0..total).map_while(|index| start.checked_add(index.checked_mul(step)?)).take(MAX_BLOCKS) {
        let words = read(at, 1)?;
        let link = *words.first()?;
        if link != pool.address && link != 0 && !is_block(link) {
            found.damage = Some(PoolDamage { at, words, front: found.all.last().copied() });
            return Some(found);
        }
        found.all.push(PoolBlock { at, start: at.checked_add(word)?, len, is_free: link != pool.address });
        links.push(link);
    }
    found.astray = pool.get("available_list").filter(|first| *first != 0 && !is_block(*first));
    let is_all = u64::try_from(links.len()).is_ok_and(|len| len == total);
    if found.astray.is_none() && is_all {
        let index = |at: Addr| usize::try_from(at.checked_sub(start)?.checked_div(step)?).ok();
        found.free = free_list(pool, &found.all, &links, &index);
    }
    Some(found)
}

/// Follows the list of free blocks. The kernel puts a block there when it is released, without a look whether it is there already.
fn free_list(
    pool: &Object,
    all: &[PoolBlock],
    links: &[u64],
    index: &dyn Fn(Addr) -> Option<usize>,
) -> Option<FreeList> {
    let counted = pool.get("available")?;
    let (mut at, mut listed, mut seen) = (pool.get("available_list")?, 0u64, vec![false; all.len()]);
    while at != 0 {
        let place = index(at)?;
        let block = *all.get(place)?;
        if !block.is_free || std::mem::replace(seen.get_mut(place)?, true) {
            return Some(FreeList { listed, counted, leads_to: Some(block) });
        }
        listed = listed.saturating_add(1);
        at = *links.get(place)?;
    }
    Some(FreeList { listed, counted, leads_to: None })
}

#[cfg(test)]
mod tests;
