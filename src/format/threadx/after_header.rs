//! What the bytes after a damaged header show: how long the registry is, and where the events stop.

#![expect(clippy::arithmetic_side_effects, reason = "numbers of entries and slots, and their sizes")]

use std::collections::HashSet;

use super::layout::{self, CONTEXT_INIT, CONTEXT_ISR};
use crate::abi::{Endian, Width};

/// The highest object type that a kernel registers.
const MAX_TYPE: u8 = 31;

/// Slots in a row that were overwritten, and hide no end of the ring.
const PASSED: usize = 4;
/// Entries that are believed, and slots after them that are examined.
const MAX_ENTRIES: usize = 4096;
const SAMPLE: usize = 64;

/// Memory from a header on, and how its words are stored.
#[derive(Clone, Copy)]
pub(super) struct AfterHeader<'a> {
    pub bytes: &'a [u8],
    pub endian: Endian,
    pub word: Width,
}

impl AfterHeader<'_> {
    /// Bytes of what looks like registry entries, each of `object` bytes: an entry that was used has a type, one that was not
    /// is marked as free. A thread's address can look so too (0x20000100), so it is tried after how many of them most slots have
    /// an event's number.
    pub fn registry(&self, object: usize) -> u64 {
        let there = self.bytes.get(layout::header_size(self.word)..).unwrap_or_default();
        let is_entry = |entry: &&[u8]| match entry.first_chunk::<4>() {
            Some([0, kind, mark, _]) => (1..=MAX_TYPE).contains(kind) && mark & 0x7F == 0,
            Some([1, kind, mark, _]) => *kind <= MAX_TYPE && mark & 0x7F == 0,
            _ => false,
        };
        let count = there.chunks_exact(object.max(1)).take(MAX_ENTRIES).take_while(is_entry).count();
        let numbered = |count: &usize| {
            let ring = there.get(count * object..).unwrap_or_default();
            let slots = ring.chunks_exact(layout::entry_size(self.word)).take(SAMPLE);
            slots.filter(|slot| self.field(slot, 2).is_some_and(|id| (1..=0xFFFF).contains(&id))).count()
        };
        // The fewest of the best.
        let best = (0..=count).rev().max_by_key(numbered).unwrap_or(count);
        (best * object) as u64
    }

    /// A word of a slot.
    fn field(&self, slot: &[u8], n: usize) -> Option<u64> {
        self.endian.word(self.word, slot, n * self.word.bytes())
    }

    /// How many slots after the ring's end go on where its last slots, `tail`, stop: events of contexts that these or the
    /// registry know, their stamps as close to each other. None where the last slot was never used, and where the ring's
    /// first slot follows it no later: then what follows is the rest of a larger ring in the same memory.
    pub fn going_on(&self, object: usize, first: &[u8], tail: &[u8], behind: &[u8]) -> u64 {
        let size = layout::entry_size(self.word);
        let known = self.contexts(object, tail.chunks_exact(size));
        let is_event = |slot: &[u8]| {
            let context = self.field(slot, 0).is_some_and(|c| known.contains(&c));
            // SMP kernels store the core above the id.
            context && self.field(slot, 2).is_some_and(|id| (1..=0xFFFF).contains(&(id & 0x00FF_FFFF)))
        };
        let stamp = |slot: &[u8]| self.field(slot, 3).and_then(|s| u32::try_from(s & 0xFFFF_FFFF).ok()).unwrap_or(0);
        let apart = |a: u32, b: u32| a.wrapping_sub(b).min(b.wrapping_sub(a));
        let stamps: Vec<u32> = tail.chunks_exact(size).filter(|slot| is_event(slot)).map(stamp).collect();
        let (Some(mut last), true) = (stamps.last().copied(), tail.chunks_exact(size).last().is_some_and(is_event))
        else {
            return 0;
        };
        let steps = stamps.windows(2).filter_map(|w| Some(apart(*w.first()?, *w.last()?)));
        let mut steps: Vec<u32> = steps.collect();
        steps.sort_unstable();
        // One of them may be where the ring begins.
        let [.., usual, _] = steps.as_slice() else { return 0 };
        let closes =
            is_event(first) && behind.get(..size).is_some_and(|b| apart(last, stamp(first)) <= apart(last, stamp(b)));
        if closes {
            return 0;
        }
        let follows = |slot: &&[u8]| {
            let before = std::mem::replace(&mut last, stamp(slot));
            is_event(slot) && apart(before, last) <= *usual
        };
        behind.chunks_exact(size).take_while(follows).count() as u64
    }

    /// The context words of these slots, those of registered objects, and those that every kernel has.
    fn contexts<'s>(&self, object: usize, slots: impl Iterator<Item = &'s [u8]>) -> HashSet<u64> {
        let registry = self.bytes.get(layout::header_size(self.word)..).unwrap_or_default();
        let pointers = registry.chunks_exact(object.max(1)).filter_map(|entry| self.field(entry, 1));
        let mut known: HashSet<u64> = slots.filter_map(|slot| self.field(slot, 0)).chain(pointers).collect();
        known.extend([CONTEXT_ISR, CONTEXT_INIT]);
        // What was never registered, and never ran.
        known.remove(&0);
        known
    }

    /// How many slots from `start` on are the ring's, where its end is lost: those before the current pointer, and after it up
    /// to the last event of a context that is known: of an event before it, or of a thread in the registry. Stamps do
    /// not help here: a clock may run down, or around several times.
    pub fn slots(&self, start: u64, object: usize, current: Option<u64>) -> u64 {
        let start = usize::try_from(start).unwrap_or(usize::MAX);
        let (described, ring) = self.bytes.split_at_checked(start).unwrap_or((self.bytes, &[]));
        let slots = || ring.chunks_exact(layout::entry_size(self.word));
        let before = current.and_then(|c| usize::try_from(c).ok()).unwrap_or(0);
        let described = AfterHeader { bytes: described, ..*self };
        let known = described.contexts(object, slots().take(before));
        let has_known = known.iter().any(|c| ![CONTEXT_ISR, CONTEXT_INIT].contains(c));
        let is_event = |slot: &[u8]| {
            let context = self.field(slot, 0).is_some_and(|c| c != 0 && (!has_known || known.contains(&c)));
            context && self.field(slot, 2).is_some_and(|id| (1..=0xFFFF).contains(&id))
        };
        // The slot at the pointer is the ring's, used or not.
        let mut end = before.saturating_add(1);
        for (slot, bytes) in slots().enumerate().skip(before) {
            if is_event(bytes) {
                end = slot + 1;
            } else if slot.saturating_sub(end) >= PASSED {
                break;
            }
        }
        (end as u64).min(slots().count() as u64)
    }
}
