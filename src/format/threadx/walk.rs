//! What the bytes behind a damaged header tell: how long the registry is, and where the events stop.

use std::collections::HashSet;

use super::layout::{self, CONTEXT_INIT, CONTEXT_ISR};
use crate::abi::{Endian, Width};

/// The highest object type that a kernel registers.
const MOST_TYPE: u8 = 31;

/// Entries that are believed, and slots behind them that are looked at.
const MOST_ENTRIES: usize = 4096;
const SAMPLE: usize = 64;

/// Memory from a header on, and how its words are stored.
#[derive(Clone, Copy)]
pub(super) struct Behind<'a> {
    pub bytes: &'a [u8],
    pub endian: Endian,
    pub word: Width,
}

impl Behind<'_> {
    /// Bytes of what looks like registry entries, each of `object` bytes: an entry that was used has a type, one that was not
    /// is marked as free. A thread's address can look so too (0x20000100), so it is tried behind how many of them most slots have
    /// an event's number.
    pub fn registry(&self, object: usize) -> u64 {
        let there = self.bytes.get(layout::header_size(self.word)..).unwrap_or_default();
        let is_entry = |entry: &&[u8]| match entry.first_chunk::<4>() {
            Some([0, kind, mark, _]) => (1..=MOST_TYPE).contains(kind) && mark & 0x7F == 0,
            Some([1, kind, mark, _]) => *kind <= MOST_TYPE && mark & 0x7F == 0,
            _ => false,
        };
        let count = there.chunks_exact(object.max(1)).take(MOST_ENTRIES).take_while(is_entry).count();
        let numbered = |count: &usize| {
            let ring = there.get(count.saturating_mul(object)..).unwrap_or_default();
            let slots = ring.chunks_exact(layout::entry_size(self.word)).take(SAMPLE);
            slots.filter(|slot| self.field(slot, 2).is_some_and(|id| (1..=0xFFFF).contains(&id))).count()
        };
        // The fewest of the best.
        let best = (0..=count).rev().max_by_key(numbered).unwrap_or(count);
        (best.saturating_mul(object)) as u64
    }

    /// A word of a slot.
    fn field(&self, slot: &[u8], n: usize) -> Option<u64> {
        self.endian.word(self.word, slot, n.saturating_mul(self.word.bytes()))
    }

    /// How many slots from `start` on hold events, or were never used, where the ring's end is lost: behind the current pointer
    /// those of contexts that were met before it, in the order of their stamps.
    pub fn slots(&self, start: u64, current: Option<u64>) -> u64 {
        let slots = usize::try_from(start).ok().and_then(|start| self.bytes.get(start..)).unwrap_or_default();
        let slots = || slots.chunks_exact(layout::entry_size(self.word));
        let before = current.and_then(|c| usize::try_from(c).ok()).unwrap_or(0);
        let mut met: HashSet<u64> = slots().take(before).filter_map(|slot| self.field(slot, 0)).collect();
        met.extend([CONTEXT_ISR, CONTEXT_INIT]);
        // Events behind the pointer are older than the first of the ring.
        let first = slots().next().and_then(|slot| self.field(slot, 3)).unwrap_or(0);
        let age = |slot: &[u8]| self.field(slot, 3).map(|stamp| first.wrapping_sub(stamp) & 0xFFFF_FFFF);
        let mut last = u64::MAX;
        let is_event = |slot: &&[u8]| {
            let is_met =
                self.field(slot, 0).is_some_and(|context| context != 0 && (before == 0 || met.contains(&context)));
            let id = self.field(slot, 2).is_some_and(|id| (1..=0xFFFF).contains(&id));
            let age = if before == 0 { Some(0) } else { age(slot) };
            let in_order = age.is_some_and(|age| age <= last);
            last = age.unwrap_or(last);
            is_met && id && in_order
        };
        let behind = slots().skip(before).take_while(is_event).count();
        // The slot at the pointer is one of the ring's, used or not.
        (before.saturating_add(behind.max(1)) as u64).min(slots().count() as u64)
    }
}
