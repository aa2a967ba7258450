//! What the bytes behind a damaged header tell: how long the registry is, and where the events stop.

use std::collections::HashSet;

use super::layout::{self, CONTEXT_INIT, CONTEXT_ISR};
use crate::abi::{Endian, Width};

/// The highest object type that a kernel registers.
const MOST_TYPE: u8 = 31;

/// Slots in a row that were written over, and hide no end of the ring.
const PASSED: usize = 4;
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

    /// How many slots from `start` on are the ring's, where its end is lost: those before the current pointer, and behind it up
    /// to the last event of a context that is known: of an event before it, or of a thread in the registry. Stamps do
    /// not help here: a clock may run down, or around several times.
    pub fn slots(&self, start: u64, object: usize, current: Option<u64>) -> u64 {
        let start = usize::try_from(start).unwrap_or(usize::MAX);
        let (described, ring) = self.bytes.split_at_checked(start).unwrap_or((self.bytes, &[]));
        let slots = || ring.chunks_exact(layout::entry_size(self.word));
        let before = current.and_then(|c| usize::try_from(c).ok()).unwrap_or(0);
        let registry = described.get(layout::header_size(self.word)..).unwrap_or_default();
        let pointers = registry.chunks_exact(object.max(1)).filter_map(|entry| self.field(entry, 1));
        let mut known: HashSet<u64> =
            slots().take(before).filter_map(|slot| self.field(slot, 0)).chain(pointers).collect();
        // What was never registered, and never ran.
        known.remove(&0);
        let has_known = !known.is_empty();
        known.extend([CONTEXT_ISR, CONTEXT_INIT]);
        let is_event = |slot: &[u8]| {
            let context = self.field(slot, 0).is_some_and(|c| c != 0 && (!has_known || known.contains(&c)));
            context && self.field(slot, 2).is_some_and(|id| (1..=0xFFFF).contains(&id))
        };
        // The slot at the pointer is the ring's, used or not.
        let mut end = before.saturating_add(1);
        for (slot, bytes) in slots().enumerate().skip(before) {
            if is_event(bytes) {
                end = slot.saturating_add(1);
            } else if slot >= end.saturating_add(PASSED) {
                break;
            }
        }
        (end as u64).min(slots().count() as u64)
    }
}
