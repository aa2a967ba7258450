//! Memory in blocks: what a core, an image or a hex file holds, as one address space.
//!
//! Rules, each forced by a real file:
//! * A block has two sizes: bytes that are there and bytes that were in memory. What was in memory and is not
//!   there (text that the kernel left out of a core, a file cut short) is a gap. Nothing is ever filled with
//!   zeros.
//! * Where blocks overlap the smaller one is read, and of equal ones the earlier: GDB's core of a bare-metal
//!   target ends with a guessed stack segment that may span gigabytes over all the others. A block hides
//!   another only where it has bytes.
//! * A read joins blocks that touch. It fails as a whole at the first address that is missing.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

use super::{MAX_READ, Memory, ReadError, ReadErrorKind, Region};
use crate::abi::{self, Addr};
use crate::bytes::Bytes;

/// One block of memory.
#[derive(Debug, Clone)]
pub struct Block {
    /// First address.
    pub start: Addr,
    /// Bytes it had in memory. Never less than `data` holds.
    pub memory: u64,
    /// Bytes its file says it holds; more than `data` where the file is cut short.
    pub claimed: u64,
    /// The bytes that are there, from `start` on.
    pub data: Bytes,
    /// Where `data` begins in its file.
    pub offset: u64,
    /// Where its file holds bytes ([`super::map::FileMap::data_ranges`]); `None`: everywhere.
    pub written: Option<Arc<[(u64, u64)]>>,
}

impl Block {
    /// A block of which every byte is there.
    pub fn whole(start: Addr, data: Bytes) -> Self {
        let len = data.len() as u64;
        Self { start, memory: len, claimed: len, data, offset: 0, written: None }
    }

    fn len(&self) -> u64 {
        self.data.len() as u64
    }

    /// Bytes that its file says it holds, and does not.
    pub(super) fn cut_off(&self) -> u64 {
        self.claimed.saturating_sub(self.len())
    }

    fn last(&self) -> Option<Addr> {
        // Bytes past the end of the address space are dropped.
        Some(self.start.saturating_add(self.len().checked_sub(1)?))
    }
}

/// A range of addresses and the block that serves it; both ends included.
#[derive(Debug, Clone, Copy)]
struct Span {
    start: Addr,
    last: Addr,
    block: usize,
}

/// An address space made of blocks.
#[derive(Debug, Clone, Default)]
pub struct Segments {
    blocks: Vec<Block>,
    spans: Vec<Span>,
}

impl Segments {
    /// Arranges blocks, in the order of their file. Bytes past the end of the address space are dropped.
    pub fn new(blocks: Vec<Block>) -> Self {
        let spans = arrange(&blocks);
        Self { blocks, spans }
    }

    /// Bytes that more than one block holds; which one is read see above.
    pub(super) fn overlapping(&self) -> u64 {
        let all: u64 = self.blocks.iter().map(Block::len).sum();
        let mapped: u64 = self.mapped().iter().map(|r| r.len).sum();
        // Every byte that is mapped is in a block.
        all.saturating_sub(mapped)
    }

    /// What can be read: sorted, neighbours joined.
    pub(super) fn mapped(&self) -> Vec<Region> {
        join(self.spans.iter().map(|s| (s.start, s.last)))
    }

    /// All blocks are of one file, which holds bytes only here (offset and length, sorted).
    #[must_use]
    pub(super) fn with_data(mut self, data: &[(u64, u64)]) -> Self {
        let data: Arc<[(u64, u64)]> = data.into();
        self.blocks.iter_mut().for_each(|block| block.written = Some(Arc::clone(&data)));
        self
    }

    /// What can be read and was written: no holes of files.
    pub fn written(&self) -> Vec<Region> {
        join(self.spans.iter().flat_map(|span| self.without_holes(*span)))
    }

    /// The same, but each byte of a file only at the lowest of its addresses: a small file can name the same bytes as
    /// gigabytes of memory.
    pub(super) fn searchable(&self) -> Vec<Region> {
        let mut seen = Seen::default();
        let once = self.spans.iter().flat_map(|span| {
            let bytes = self.place(*span);
            let fresh = bytes.map(|(first, end)| seen.add(first, end)).unwrap_or_default();
            fresh.into_iter().filter_map(move |(from, to)| {
                let (first, _) = bytes?;
                let start = span.start.checked_add(from.checked_sub(first)?)?;
                let last = span.start.checked_add(to.checked_sub(first)?.checked_sub(1)?)?;
                Some(Span { start, last, block: span.block })
            })
        });
        join(once.flat_map(|span| self.without_holes(span)))
    }

    /// Where the bytes of a span are in this program, the end not included: the same place, the same bytes.
    fn place(&self, span: Span) -> Option<(u64, u64)> {
        let block = self.blocks.get(span.block)?;
        let place = |address: Addr| {
            let offset = address.checked_sub(block.start)?;
            u64::try_from(block.data.as_ptr().addr()).ok()?.checked_add(offset)
        };
        Some((place(span.start)?, place(span.last)?.checked_add(1)?))
    }

    /// The parts of a span that are no holes of its file; both ends included.
    fn without_holes(&self, span: Span) -> impl Iterator<Item = (Addr, Addr)> + '_ {
        const ALL: &[(u64, u64)] = &[(0, u64::MAX)];
        let block = self.blocks.get(span.block);
        let data = block.and_then(|b| b.written.as_deref()).unwrap_or(ALL);
        // Where the span is in the file. Offsets and lengths of files have 63 bits.
        let offset = block.map(|b| (b.offset, b.start));
        let place = move |address: Addr| {
            let (offset, start) = offset?;
            offset.checked_add(address.checked_sub(start)?)
        };
        let bounds = place(span.start).zip(place(span.last));
        let from = bounds.map_or(0, |(first, _)| data.partition_point(|&(at, len)| at.saturating_add(len) <= first));
        let up_to = bounds.map_or(0, |(_, last)| data.partition_point(|&(at, _)| at <= last));
        data.get(from..up_to).unwrap_or_default().iter().filter_map(move |&(at, len)| {
            let (first, last) = bounds?;
            let end = at.saturating_add(len);
            let (from, to) = (at.max(first), end.checked_sub(1)?.min(last));
            let start = from.checked_sub(first).filter(|_| from <= to)?;
            Some((span.start.checked_add(start)?, span.start.checked_add(to.checked_sub(first)?)?))
        })
    }

    fn span(&self, address: Addr) -> Option<Span> {
        let upto = self.spans.partition_point(|s| s.start <= address);
        let span = self.spans.get(upto.checked_sub(1)?)?;
        (address <= span.last).then_some(*span)
    }

    /// The bytes from `address` to the end of its span, at most `len`.
    fn run(&self, address: Addr, len: usize) -> Option<Bytes> {
        let span = self.span(address)?;
        let block = self.blocks.get(span.block)?;
        let into = usize::try_from(address.checked_sub(block.start)?).ok()?;
        let room = Region::between(address, span.last).and_then(|rest| usize::try_from(rest.len).ok());
        block.data.cut(into, room.map_or(len, |room| len.min(room)))
    }
}

impl Memory for Segments {
    fn read(&mut self, addr: Addr, buf: &mut [u8]) -> Result<(), ReadError> {
        let len = buf.len();
        let mut at = Some(addr);
        let mut rest = buf;
        while !rest.is_empty() {
            // `None`: the range passes the end of the address space.
            let here = at.ok_or_else(|| ReadError::unmapped(Addr::MAX, len))?;
            let run = self.run(here, rest.len()).ok_or_else(|| ReadError::unmapped(here, len))?;
            let (now, later) = rest.split_at_mut_checked(run.len()).ok_or_else(|| ReadError::unmapped(here, len))?;
            now.copy_from_slice(&run);
            at = here.checked_add(run.len() as u64);
            rest = later;
        }
        Ok(())
    }

    fn read_bytes(&mut self, addr: Addr, len: usize) -> Result<Bytes, ReadError> {
        // In one span: a window into the map, however long.
        if let Some(run) = self.run(addr, len).filter(|run| run.len() == len) {
            return Ok(run);
        }
        if len > MAX_READ {
            return Err(ReadError::new(addr, len, ReadErrorKind::TooLong));
        }
        // Before memory is asked for: a read of a gigabyte of which a part is missing costs nothing.
        let (mut at, mut rest) = (Some(addr), len);
        while rest > 0 {
            let here = at.ok_or_else(|| ReadError::unmapped(Addr::MAX, len))?;
            let run = self.run(here, rest).ok_or_else(|| ReadError::unmapped(here, len))?.len();
            // No more than was asked for.
            rest = rest.saturating_sub(run);
            at = here.checked_add(run as u64);
        }
        let mut buf = vec![0; len];
        self.read(addr, &mut buf)?;
        Ok(Bytes::from(buf))
    }

    fn regions(&mut self) -> Option<Vec<Region>> {
        Some(self.mapped())
    }

    fn written(&mut self) -> Option<Vec<Region>> {
        Some(Self::written(self))
    }

    fn searchable(&mut self) -> Option<Vec<Region>> {
        Some(Self::searchable(self))
    }
}

/// Ranges that were met; no two touch. The end is not included.
#[derive(Default)]
struct Seen(BTreeMap<u64, u64>);

impl Seen {
    /// Adds a range; the parts of it that are new. Each range that it swallows is visited once, and never again.
    fn add(&mut self, start: u64, end: u64) -> Vec<(u64, u64)> {
        let mut fresh = Vec::new();
        let (mut from, mut to, mut at) = (start, end, start);
        while let Some((&s, &e)) = self.0.range(..=end).next_back().filter(|(_, e)| **e >= start) {
            self.0.remove(&s);
            (from, to) = (from.min(s), to.max(e));
            fresh.push((s, e));
        }
        // They came from the highest down.
        let known = std::mem::take(&mut fresh);
        for (s, e) in known.into_iter().rev() {
            fresh.extend((at < s).then_some((at, s)));
            at = at.max(e);
        }
        fresh.extend((at < end).then_some((at, end)));
        self.0.insert(from, to);
        fresh
    }
}

/// Sweeps over all ends of blocks; between two of them the best live block serves.
fn arrange(blocks: &[Block]) -> Vec<Span> {
    let mut begins: Vec<(Addr, Addr, usize)> =
        blocks.iter().enumerate().filter_map(|(i, b)| Some((b.start, b.last()?, i))).collect();
    begins.sort_unstable();
    let mut bounds: Vec<Addr> = begins.iter().flat_map(|&(s, l, _)| [Some(s), l.checked_add(1)]).flatten().collect();
    bounds.sort_unstable();
    bounds.dedup();
    let mut live: BinaryHeap<Reverse<(u64, usize, Addr)>> = BinaryHeap::new();
    let mut coming = begins.into_iter().peekable();
    let mut spans: Vec<Span> = Vec::new();
    let mut bounds = bounds.into_iter().peekable();
    while let Some(start) = bounds.next() {
        while let Some((_, last, block)) = coming.next_if(|b| b.0 == start) {
            let size = blocks.get(block).map_or(0, |b| b.memory);
            live.push(Reverse((size, block, last)));
        }
        while live.peek().is_some_and(|Reverse((_, _, last))| *last < start) {
            live.pop();
        }
        let Some(&Reverse((_, block, _))) = live.peek() else { continue };
        // The next bound is higher.
        let last = bounds.peek().map_or(Addr::MAX, |next| next.saturating_sub(1));
        match spans.last_mut() {
            Some(before) if before.block == block && before.last.checked_add(1) == Some(start) => before.last = last,
            _ => spans.push(Span { start, last, block }),
        }
    }
    spans
}

/// Joins sorted ranges, of first and last address, that touch or overlap.
pub(super) fn join(spans: impl Iterator<Item = (Addr, Addr)>) -> Vec<Region> {
    // All of the address space has one byte more than a number can say.
    let region = |(start, last)| Region::between(start, last).unwrap_or(Region { start, len: u64::MAX });
    abi::join(spans).into_iter().map(region).collect()
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "tests say what they expect by failing")]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn block(start: Addr, data: &[u8]) -> Block {
        Block::whole(start, Bytes::from(data.to_vec()))
    }

    fn read(s: &mut Segments, addr: Addr, len: usize) -> Result<Vec<u8>, Addr> {
        s.read_bytes(addr, len).map(|b| b.to_vec()).map_err(|e| e.addr)
    }

    #[test]
    fn neighbours_are_joined_and_gaps_are_gaps() {
        let mut s = Segments::new(vec![block(0x14, &[5, 6]), block(0x10, &[1, 2, 3, 4]), block(0x20, &[9])]);
        assert_eq!(read(&mut s, 0x12, 4), Ok(vec![3, 4, 5, 6]));
        assert_eq!(read(&mut s, 0x12, 5), Err(0x16));
        assert_eq!(read(&mut s, 0x0F, 1), Err(0x0F));
        assert_eq!(read(&mut s, 0x00, 0), Ok(vec![]));
        let regions = s.regions().unwrap();
        assert_eq!(regions, [Region { start: 0x10, len: 6 }, Region { start: 0x20, len: 1 }]);
        assert_eq!(s.overlapping(), 0);
    }

    #[test]
    fn the_smaller_block_wins_then_the_earlier() {
        let big = block(0, &[1; 32]);
        let small = block(8, &[2; 4]);
        let twin = block(8, &[3; 4]);
        let mut s = Segments::new(vec![big, small, twin]);
        assert_eq!(read(&mut s, 6, 8), Ok(vec![1, 1, 2, 2, 2, 2, 1, 1]));
        assert_eq!(s.overlapping(), 8);
        assert_eq!(s.mapped(), [Region { start: 0, len: 32 }]);
    }

    #[test]
    fn what_was_not_dumped_is_never_zeros() {
        let text = Block { memory: 0x100, ..block(0x1000, &[]) };
        let bss = Block { memory: 8, ..block(0x2000, &[1, 2]) };
        let cut = Block { memory: 8, claimed: 8, ..block(0x3000, &[1, 2]) };
        let mut s = Segments::new(vec![text, bss, cut]);
        assert_eq!(read(&mut s, 0x1000, 1), Err(0x1000));
        assert_eq!(read(&mut s, 0x2000, 4), Err(0x2002));
    }

    #[test]
    fn a_block_without_bytes_hides_nothing() {
        let empty = Block { memory: 4, ..block(0x10, &[]) };
        let mut s = Segments::new(vec![empty, block(0, &[7; 64])]);
        assert_eq!(read(&mut s, 0x0E, 8), Ok(vec![7; 8]));
    }

    #[test]
    fn the_top_of_the_address_space() {
        let mut s = Segments::new(vec![block(Addr::MAX - 3, &[1, 2, 3, 4]), block(0, &[5])]);
        assert_eq!(read(&mut s, Addr::MAX - 1, 2), Ok(vec![3, 4]));
        assert_eq!(read(&mut s, Addr::MAX - 1, 3), Err(Addr::MAX), "no wrap to 0");
        assert_eq!(s.mapped()[1], Region { start: Addr::MAX - 3, len: 4 });
        let mut s = Segments::new(vec![block(Addr::MAX - 1, &[1, 2, 3, 4])]);
        assert_eq!(read(&mut s, Addr::MAX - 1, 2), Ok(vec![1, 2]));
        assert_eq!(read(&mut s, 0, 1), Err(0), "bytes past the end are dropped");
    }

    #[test]
    fn one_block_is_read_without_copying() {
        let data = Bytes::from(vec![1, 2, 3, 4]);
        let mut s = Segments::new(vec![Block::whole(0x10, data.clone())]);
        let window = s.read_bytes(0x11, 2).unwrap();
        assert_eq!(window.as_ptr(), data.as_ptr().wrapping_add(1));
        let huge = s.read_bytes(0x11, usize::MAX).unwrap_err();
        assert!(matches!(huge.kind, ReadErrorKind::TooLong));
        assert!(s.read_bytes(0x100, MAX_READ).is_err());
    }

    #[test]
    fn holes_of_the_file_are_not_searched() {
        let a = Block { offset: 0x1000, ..block(0x8000, &[1; 0x100]) };
        let b = Block { offset: 0x1100, ..block(0x8100, &[1; 0x100]) };
        let s = Segments::new(vec![a, b]);
        assert_eq!(s.written(), [Region { start: 0x8000, len: 0x200 }]);
        let some = s.clone().with_data(&[(0, 0x1010), (0x1080, 0x100), (0x11FF, 1), (0x3000, 1)]);
        assert_eq!(some.searchable(), some.written());
        assert_eq!(
            some.written(),
            [
                Region { start: 0x8000, len: 0x10 },
                Region { start: 0x8080, len: 0x100 },
                Region { start: 0x81FF, len: 1 },
            ]
        );
        assert_eq!(s.with_data(&[]).written(), []);
    }

    #[test]
    fn bytes_at_many_addresses_are_searched_once() {
        let file = Bytes::from(vec![7; 0x100]);
        let cut = |at, from, len| Block::whole(at, file.cut(from, len).unwrap());
        let s = Segments::new(vec![cut(0x1000, 0, 0x100), cut(0x2000, 0x80, 0x80), cut(0x3000, 0, 0x100)]);
        assert_eq!(s.written().len(), 3);
        assert_eq!(s.searchable(), [Region { start: 0x1000, len: 0x100 }]);
        let s = Segments::new(vec![cut(0x1000, 0x40, 0x10), cut(0x2000, 0x80, 0x10), cut(0x3000, 0x30, 0x80)]);
        let rest = [(0x1000, 0x10), (0x2000, 0x10), (0x3000, 0x10), (0x3020, 0x30), (0x3060, 0x20)];
        assert_eq!(s.searchable(), rest.map(|(start, len)| Region { start, len }));
        let other = Segments::new(vec![cut(0x1000, 0, 0x100), Block::whole(0x2000, Bytes::from(vec![7; 0x100]))]);
        assert_eq!(other.searchable().len(), 2, "other bytes, though they are the same");
    }

    /// What the rules say, byte by byte.
    fn model(blocks: &[Block]) -> BTreeMap<Addr, u8> {
        let mut order: Vec<usize> = (0..blocks.len()).collect();
        order.sort_by_key(|&i| (blocks[i].memory, i));
        let mut bytes = BTreeMap::new();
        for i in order {
            for (n, b) in blocks[i].data.iter().enumerate() {
                if let Some(at) = blocks[i].start.checked_add(n as u64) {
                    bytes.entry(at).or_insert(*b);
                }
            }
        }
        bytes
    }

    prop_compose! {
        fn some_block()(start in 0u64..96, data in prop::collection::vec(any::<u8>(), 0..24), more in 0u64..8, high in any::<bool>())
        -> Block {
            let start = if high { Addr::MAX - start } else { start };
            let mut b = block(start, &data);
            b.memory += more;
            b
        }
    }

    proptest! {
        #[test]
        fn reads_are_those_of_a_byte_map(
            blocks in prop::collection::vec(some_block(), 0..8), base in 0u64..128, len in 0usize..40, high in any::<bool>(),
        ) {
            let addr = if high { Addr::MAX - base } else { base };
            let bytes = model(&blocks);
            let mut s = Segments::new(blocks);
            let mut expected = Ok(vec![]);
            for n in 0..len as u64 {
                let at = addr.checked_add(n);
                match (at.and_then(|a| bytes.get(&a)), &mut expected) {
                    (Some(b), Ok(all)) => all.push(*b),
                    (None, Ok(_)) => expected = Err(at.unwrap_or(Addr::MAX)),
                    (_, Err(_)) => {}
                }
            }
            prop_assert_eq!(read(&mut s, addr, len), expected.clone());
            let mut buf = vec![0; len];
            prop_assert_eq!(s.read(addr, &mut buf).map(|()| buf).map_err(|e| e.addr), expected);
            let count: u64 = s.mapped().iter().map(|r| r.len).sum();
            prop_assert_eq!(count, bytes.len() as u64);
        }
    }
}
