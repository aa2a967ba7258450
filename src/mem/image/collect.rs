//! Bytes at addresses, in the order of a file, become blocks of memory.

use super::text::{Flaws, Wrong};
use crate::abi::{Addr, last_address};
use crate::bytes::Bytes;

/// The most pieces that a file's memory may be in: memory has a handful, a hostile file one for each of its lines.
const MAX_PIECES: usize = 1 << 18;

/// Bytes that follow each other in memory and in the file.
#[derive(Debug, Clone, Copy)]
struct Run {
    start: Addr,
    /// Where in the arena.
    offset: usize,
    len: usize,
    /// Bytes of a word, where the bytes are those of words.
    unit: u8,
}

impl Run {
    /// The address after its last byte, which may be that of the address space.
    #[allow(clippy::arithmetic_side_effects, reason = "a sum of 65 bits")]
    fn end(&self) -> u128 {
        u128::from(self.start) + self.len as u128
    }
}

/// Takes bytes one record after the other. All of them are in one arena: memory is that of the bytes, and little more.
#[derive(Debug, Default)]
pub(super) struct Collector {
    arena: Vec<u8>,
    runs: Vec<Run>,
    pub flaws: Flaws,
}

impl Collector {
    /// Adds the bytes of one line.
    #[allow(clippy::arithmetic_side_effects, reason = "lengths in the arena")]
    pub(super) fn push(&mut self, start: Addr, bytes: &[u8], unit: u8, line: u64) {
        if bytes.is_empty() {
            return;
        }
        if last_address(start, bytes.len()).is_none() {
            return self.flaws.add(Wrong::PastEnd, line);
        }
        let offset = self.arena.len();
        let full = self.runs.len() >= MAX_PIECES;
        match self.runs.last_mut() {
            Some(run) if run.unit == unit && run.start.checked_add(run.len as u64) == Some(start) => {
                run.len += bytes.len();
            }
            _ if full => return self.flaws.add(Wrong::Pieces, line),
            _ => self.runs.push(Run { start, offset, len: bytes.len(), unit }),
        }
        self.arena.extend_from_slice(bytes);
    }

    /// Turns the bytes of each word around.
    pub(super) fn swap_words(&mut self) {
        for run in self.runs.iter().filter(|r| r.unit > 1) {
            let bytes = self.arena.get_mut(run.offset..).and_then(|rest| rest.get_mut(..run.len));
            let Some(bytes) = bytes else { continue };
            bytes.chunks_exact_mut(usize::from(run.unit)).for_each(<[u8]>::reverse);
        }
    }

    /// The blocks: sorted, without overlap, none touches another. Where bytes were given twice the later ones count.
    #[allow(clippy::arithmetic_side_effects, reason = "lengths in the arena, and ends of runs in 128 bits")]
    pub(super) fn finish(mut self) -> (Vec<(Addr, Bytes)>, Flaws) {
        self.arena.shrink_to_fit();
        let mut order: Vec<usize> = (0..self.runs.len()).collect();
        let start = |i: &usize| self.runs.get(*i).map_or(0, |r| r.start);
        order.sort_by_key(start);
        let arena = Bytes::from(std::mem::take(&mut self.arena));
        let mut blocks = Vec::new();
        let mut rest = order.as_slice();
        while let Some(first) = rest.first().and_then(|i| self.runs.get(*i)) {
            // One group: runs that touch or overlap.
            let mut end = first.end();
            let mut size = first.len;
            let mut in_order = true;
            let mut before = *first;
            let mut count = 1;
            while let Some(next) = rest.get(count).and_then(|i| self.runs.get(*i)) {
                let start = u128::from(next.start);
                if start > end {
                    break;
                }
                in_order &= start == end && before.offset + before.len == next.offset;
                end = end.max(next.end());
                size += next.len;
                before = *next;
                count += 1;
            }
            let (group, later) = rest.split_at_checked(count).unwrap_or((rest, &[]));
            let start = first.start;
            if in_order {
                blocks.extend(arena.cut(first.offset, size).map(|bytes| (start, bytes)));
            } else {
                // No longer than all of the runs together.
                let len = usize::try_from(end - u128::from(start)).unwrap_or(size);
                blocks.push((start, Bytes::from(overlay(&self.runs, group, &arena, start, len, &mut self.flaws))));
            }
            rest = later;
        }
        (blocks, self.flaws)
    }
}

/// One group of runs in the order of the file, the later ones over the earlier. `len` is at most the sum of theirs.
#[allow(clippy::arithmetic_side_effects, reason = "counts bytes in the arena, all of which have addresses")]
fn overlay(runs: &[Run], group: &[usize], arena: &Bytes, start: Addr, len: usize, flaws: &mut Flaws) -> Vec<u8> {
    let mut bytes = vec![0; len];
    let mut written = vec![false; len];
    let mut by_file = group.to_vec();
    by_file.sort_unstable();
    let mut differ = 0;
    let mut first: Option<Addr> = None;
    for run in by_file.iter().filter_map(|i| runs.get(*i)) {
        let Some(from) = arena.cut(run.offset, run.len) else { continue };
        let Some(at) = run.start.checked_sub(start).and_then(|at| usize::try_from(at).ok()) else { continue };
        let slots = bytes.iter_mut().zip(written.iter_mut()).skip(at);
        for ((i, (byte, seen)), new) in slots.enumerate().zip(from.iter()) {
            if *seen && *byte != *new {
                differ += 1;
                // `Collector::push` refuses bytes past the end of the address space.
                let address = run.start + i as u64;
                first = Some(first.map_or(address, |f| f.min(address)));
            }
            (*byte, *seen) = (*new, true);
        }
    }
    if differ > 0 {
        flaws.add_at(Wrong::Overlap, differ, first);
    }
    bytes
}
