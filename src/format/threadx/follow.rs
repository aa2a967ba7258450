//! Reads the new events of a ring that the target may write at the same time.
//!
//! The kernel stores a slot's words first, then its own pointer, then the header's copy of that pointer: slots before the
//! header's pointer are whole, the one at it is not.
//!
//! One slot is the canary: it is read before the first look at the pointer and again after the last. Where it holds the
//! same event both times, the ring went less than once around in between, and the pointer shows which slots were written
//! over meanwhile.
//!
//! * As long as nothing is lost, the canary is the slot before the cursor. It is overwritten before any new event is, so
//!   where it still holds its event, every slot that was read is whole.
//! * After a loss the look begins with the newest few events, since the oldest ones are overwritten while they are read.
//!   The canary is the newest slot: it is overwritten last.

#![expect(clippy::arithmetic_side_effects, reason = "numbers of slots of one ring, and of bytes that are held")]

use super::super::{Batch, Extent, Follow, Lost};
use super::capture::{Capture, Part, Place};
use super::layout::{self, TraceLayout};
use super::read::same_event;
use super::{header, order_name};
use crate::abi::Addr;
use crate::bytes::Bytes;
use crate::code::Code;
use crate::error::Error;
use crate::mem::{Memory, ReadError};

/// Slots that are read at a time: the fewer, the less of them a fast target overwrites meanwhile.
const STEP: u64 = 512;
/// After a loss: the newest slots that are read, as a share of the ring and at the most.
const NEWEST: (u64, u64) = (8, 64);
/// After a loss: how often a part of them is tried, a quarter of the part before each time.
const TRIES: u32 = 3;
/// Slots before the cursor that are kept: they show which interrupt is under way.
const TAIL: u64 = 64;
/// How often a slot may read as unused before it is passed over.
const MAX_MISSES: u32 = 8;

/// Where following goes on.
#[derive(Debug, Clone)]
pub(super) struct Cursor {
    place: Place,
    layout: TraceLayout,
    /// The registry as it was read last; empty where it was not.
    registry: Bytes,
    /// The slot that the next event goes to.
    slot: u64,
    /// The slots before it as they were read: the last of them shows whether the ring went around since.
    before: Bytes,
    /// How often in a row the next slot was there and could not be read.
    misses: u32,
    /// The ring was filled faster than it could be read, and the slot before the cursor is not known: distances from here
    /// to the pointer may lack whole rounds of the ring. At least so many events are after the cursor.
    unsure: Option<u64>,
}

impl Cursor {
    /// Where a capture ends.
    pub fn of(capture: &Capture) -> Option<Self> {
        let layout = capture.layout;
        let slot = layout.current?;
        // The slots right before it, as far back as they were read; unused ones were never written.
        let used = |back| {
            let slot = layout.before(slot, back);
            capture.slot(slot).filter(|_| capture.context(slot).is_some_and(|word| word != 0))
        };
        let mut tail: Vec<Bytes> = (1..=TAIL.min(layout.capacity)).map_while(used).collect();
        tail.reverse();
        let before = Bytes::from(tail.iter().flat_map(|slot| slot.iter().copied()).collect::<Vec<u8>>());
        let (place, registry) = (capture.place.clone(), capture.registry.clone());
        Some(Self { place, layout, registry, slot, before, misses: 0, unsure: None })
    }

    /// The slot right before it, where it is known.
    fn last(&self) -> Option<Bytes> {
        let size = self.layout.entry_size();
        self.before.cut(self.before.len().checked_sub(size)?, size)
    }
}

impl Follow for Cursor {
    fn read(&self, memory: &mut dyn Memory, names: bool) -> Result<Batch, Error> {
        if self.layout.capacity < 2 {
            return Err(Error::failed(Code::HeaderDamaged, "the trace header is not known", ""));
        }
        let mut look = Look { memory, cursor: self, layout: self.layout };
        let (fresh, taken) = look.look()?;
        look.finish(&fresh, taken, names)
    }

    fn back(&self, slots: u64) -> Option<Box<dyn Follow>> {
        let left = self.before.len().checked_sub(self.layout.bytes(slots))?;
        let before = self.before.cut(0, left).filter(|_| left >= self.layout.entry_size())?;
        Some(Box::new(Self { slot: self.layout.before(self.slot, slots), before, ..self.clone() }))
    }

    fn header(&self) -> Addr {
        self.layout.header
    }

    fn capacity(&self) -> u64 {
        self.layout.capacity
    }

    fn save(&self) -> (u64, Vec<u8>) {
        (self.slot, self.last().map(|slot| slot.to_vec()).unwrap_or_default())
    }

    fn restore(&mut self, slot: u64, before: &[u8]) {
        if slot < self.layout.capacity && (before.is_empty() || before.len() == self.layout.entry_size()) {
            self.slot = slot;
            self.before = Bytes::from(before.to_vec());
        }
    }
}

/// One look at a ring.
struct Look<'m> {
    memory: &'m mut dyn Memory,
    cursor: &'m Cursor,
    layout: TraceLayout,
}

/// What is new, as the pointer shows it before the slots are read.
struct Fresh {
    /// The slot that the current pointer held.
    pointer: u64,
    /// The first new slot that is there, and how many are.
    start: u64,
    count: u64,
    lost: Lost,
    restarted: bool,
    /// True where nothing is missing between the cursor and the first of them.
    joins: bool,
    /// True where the ring went around since the look before: the newest slots have to be found again.
    overrun: bool,
    /// A slot, and what it held before the pointer was read.
    canary: Option<(u64, Bytes)>,
}

/// New slots that are whole.
struct Taken {
    start: u64,
    bytes: Bytes,
    /// How many slots before them were lost.
    lost: u64,
    /// What follows could not be read yet.
    missed: bool,
}

/// What came of reading new slots.
enum Outcome {
    Whole(Taken),
    /// The ring went around meanwhile: none of them is whole for sure. What the current pointer was then.
    Overrun(u64),
}

impl Taken {
    fn nothing(start: u64) -> Self {
        Self { start, bytes: Bytes::from(Vec::new()), lost: 0, missed: false }
    }
}

impl Look<'_> {
    fn nothing(&self, pointer: u64) -> Fresh {
        Fresh {
            pointer,
            start: self.cursor.slot,
            count: 0,
            lost: Lost::default(),
            restarted: false,
            joins: true,
            overrun: false,
            canary: None,
        }
    }

    fn is_used(&self, slot: &[u8]) -> bool {
        self.layout.endian.word(self.layout.word, slot, 0).is_some_and(|context| context != 0)
    }

    /// The events after the cursor, or the newest of them where the ring went around.
    fn look(&mut self) -> Result<(Fresh, Taken), Error> {
        let (mut pointer, mut emptied) = (self.cursor.slot, false);
        if self.cursor.unsure.is_none() {
            let fresh = self.behind_cursor()?;
            (pointer, emptied) = (fresh.pointer, fresh.restarted);
            if !fresh.overrun {
                match self.read_slots(&fresh)? {
                    Outcome::Whole(taken) => return Ok((fresh, taken)),
                    Outcome::Overrun(now) => pointer = now,
                }
            }
        }
        self.resync(pointer, emptied)
    }

    /// The ring went around since, or it was `emptied` and filled again: tries fewer and fewer of its newest events, until
    /// they are not overwritten while they are read. The current pointer was `pointer` before.
    fn resync(&mut self, pointer: u64, emptied: bool) -> Result<(Fresh, Taken), Error> {
        let (mut pointer, mut wanted, mut tries) = (pointer, self.few(), 1);
        loop {
            let fresh = self.newest(pointer, wanted, emptied)?;
            match self.read_slots(&fresh)? {
                Outcome::Whole(taken) => return Ok((fresh, taken)),
                Outcome::Overrun(now) if tries < TRIES => pointer = now,
                // The next look may see what there is after the restart.
                Outcome::Overrun(now) if fresh.restarted => {
                    return Ok((self.nothing(now), Taken::nothing(self.cursor.slot)));
                }
                // The ring is filled faster than a single event can be read: all before the newest is lost.
                Outcome::Overrun(_) => {
                    let taken = Taken::nothing(fresh.start);
                    return Ok((Fresh { joins: false, overrun: true, canary: None, ..fresh }, taken));
                }
            }
            wanted = (wanted / 4).max(1);
            tries += 1;
        }
    }

    /// Number of slots that are read at a time of a full ring.
    fn few(&self) -> u64 {
        let (share, most) = NEWEST;
        (self.layout.capacity / share).clamp(1, most)
    }

    /// What is new between the cursor and the pointer.
    fn behind_cursor(&mut self) -> Result<Fresh, Error> {
        let last = self.layout.before(self.cursor.slot, 1);
        let (now, pointer) = self.slot_and_pointer(last)?;
        // A pointer that leads nowhere was read while it was stored.
        let Some(pointer) = pointer else { return Ok(self.nothing(self.cursor.slot)) };
        let fresh = self.nothing(pointer);
        // Before its first event a ring has nothing to compare with; its slots were never used.
        let was = self.cursor.last();
        let joins = was.map_or(!self.is_used(&now), |was| same_event(&was, &now, self.layout.word));
        if joins {
            let count = self.layout.distance(self.cursor.slot, pointer);
            return Ok(Fresh { count, canary: Some((last, now)), ..fresh });
        }
        // No event has no context, and one zero may be a read that failed: two are believed.
        let emptied = !self.is_used(&now);
        if emptied {
            let (again, _) = self.slot_and_pointer(last)?;
            if self.is_used(&again) {
                return Ok(self.nothing(self.cursor.slot));
            }
        }
        Ok(Fresh { overrun: true, restarted: emptied, ..fresh })
    }

    /// What is there of the newest events.
    fn newest(&mut self, pointer: u64, wanted: u64, emptied: bool) -> Result<Fresh, Error> {
        let capacity = self.layout.capacity;
        let newest = self.layout.before(pointer, 1);
        let (held, pointer) = self.slot_and_pointer(newest)?;
        let Some(pointer) = pointer.filter(|pointer| self.is_used(&held) || *pointer == 0) else {
            return Ok(self.nothing(self.cursor.slot));
        };
        let fresh = Fresh { joins: false, canary: Some((newest, held)), ..self.nothing(pointer) };
        // A ring that has been around has no unused slot.
        if emptied || self.is_unused(pointer)? && self.is_unused(pointer)? {
            return Ok(Fresh { start: 0, count: pointer, restarted: true, ..fresh });
        }
        let inserted = self.inserted(pointer);
        let count = wanted.min(capacity - 1).min(inserted);
        let start = self.layout.before(pointer, count);
        Ok(Fresh { start, count, lost: Lost { count: inserted - count, at_least: true }, ..fresh })
    }

    /// How many events were inserted since the cursor, at least, where the slot before it was seen to be overwritten. With
    /// one event less than the ring holds the pointer points to that slot, which is then written next.
    fn inserted(&self, pointer: u64) -> u64 {
        let capacity = self.layout.capacity;
        let distance = self.layout.distance(self.cursor.slot, pointer);
        let least = self.cursor.unsure.unwrap_or(capacity - 1);
        if distance >= least { distance } else { distance + capacity }
    }

    fn is_unused(&mut self, slot: u64) -> Result<bool, Error> {
        let bytes = self.memory.read_bytes(self.layout.address(slot), self.layout.entry_size());
        Ok(!self.is_used(&bytes.map_err(|e| e.explain("the event ring"))?))
    }

    /// What a slot holds, and after that where the pointer leads.
    fn slot_and_pointer(&mut self, slot: u64) -> Result<(Bytes, Option<u64>), Error> {
        let header = (self.layout.header, layout::header_size(self.layout.word));
        let wanted = [(self.layout.address(slot), self.layout.entry_size()), header];
        let mut results = self.memory.read_batch(&wanted).into_iter();
        let slot = results.next().unwrap_or_else(|| Err(ReadError::unmapped(header.0, 0)));
        let pointer = self.pointer(results.next())?;
        Ok((slot.map_err(|e| e.explain("the event ring"))?, pointer))
    }

    /// The slot that the current pointer of the new header points to.
    fn pointer(&self, read: Option<Result<Bytes, ReadError>>) -> Result<Option<u64>, Error> {
        let Some(head) = read.transpose().map_err(|e| e.explain("the trace header"))? else { return Ok(None) };
        let (at, endian) = (self.layout.header, self.layout.endian);
        if head.iter().all(|b| *b == 0) {
            return Err(Error::not_found(
                Code::HeaderZero,
                format!("memory at {at:#x} is all zero where the trace header was"),
                "the target was reset, or the probe gives zeros for memory that it cannot read; --wait waits until it is there again",
            ));
        }
        let now = header::parse(&head, endian, self.layout.word).map(|(_, now)| now).ok();
        let Some(now) = now.filter(|now| now.is_of_trace(&self.layout.stored)) else {
            return Err(Error::not_found(
                Code::TraceChanged,
                format!("the trace header at {at:#x} ({}) has changed", order_name(endian)),
                "the target was reset or loaded again; --wait goes on with the new trace",
            ));
        };
        Ok(self.layout.slot_of_pointer(now.current))
    }

    /// Reads new slots, and then which of them were written meanwhile.
    fn read_slots(&mut self, fresh: &Fresh) -> Result<Outcome, Error> {
        let layout = self.layout;
        // The fuller the ring, the sooner it is overwritten: the fewer are read at a time. An idle one has time for all.
        let room = layout.capacity - 1 - fresh.count;
        let take = fresh.count.min(STEP).min(room.max(self.few()));
        let Some((canary, held)) = fresh.canary.as_ref().filter(|_| take > 0) else {
            return Ok(Outcome::Whole(Taken::nothing(fresh.start)));
        };
        let bytes = self.slots(fresh.start, take)?;
        let wanted =
            [(layout.header, layout::header_size(layout.word)), (layout.address(*canary), layout.entry_size())];
        let mut again = self.memory.read_batch(&wanted).into_iter();
        let after = self.pointer(again.next())?.unwrap_or(fresh.pointer);
        let now = again.next().and_then(Result::ok).filter(|now| self.is_used(now) || !self.is_used(held));
        let Some(now) = now else {
            return Ok(Outcome::Whole(Taken { missed: true, ..Taken::nothing(fresh.start) }));
        };
        if !same_event(held, &now, layout.word) {
            return Ok(Outcome::Overrun(after));
        }
        // From the pointer to the first new slot.
        let ahead = match layout.distance(fresh.pointer, fresh.start) {
            0 => layout.capacity,
            ahead => ahead,
        };
        // What the pointer has passed, and the slot at it.
        let passed = layout.distance(fresh.pointer, after) + 1;
        let torn = passed.saturating_sub(ahead).min(take);
        // None is left: fewer are tried.
        Ok(if torn == take { Outcome::Overrun(after) } else { Outcome::Whole(self.usable(fresh.start, &bytes, torn)) })
    }

    /// Consecutive slots, around the ring.
    fn slots(&mut self, start: u64, count: u64) -> Result<Bytes, Error> {
        let layout = self.layout;
        let first = count.min(layout.capacity - start);
        let mut wanted = vec![(layout.address(start), layout.bytes(first))];
        if count > first {
            wanted.push((layout.ring, layout.bytes(count - first)));
        }
        let mut bytes: Vec<u8> = Vec::new();
        for result in self.memory.read_batch(&wanted) {
            bytes.extend_from_slice(&result.map_err(|e| e.explain("the event ring"))?);
        }
        Ok(Bytes::from(bytes))
    }

    /// The slots after the `torn` ones up to the first that reads as unused. No event has such a context: the memory could
    /// not be read, and zeros came in its place. After some tries they are passed over.
    fn usable(&self, start: u64, bytes: &Bytes, torn: u64) -> Taken {
        let layout = &self.layout;
        let used: Vec<bool> = bytes.chunks_exact(layout.entry_size()).map(|slot| self.is_used(slot)).collect();
        let count = |from: u64, is: bool| {
            let from = usize::try_from(from).unwrap_or(usize::MAX);
            used.iter().skip(from).take_while(|used| **used == is).count() as u64
        };
        let skipped = if self.cursor.misses >= MAX_MISSES { count(torn, false) } else { 0 };
        let lost = torn + skipped;
        let whole = count(lost, true);
        let bytes = bytes.cut(layout.bytes(lost), layout.bytes(whole)).unwrap_or_else(|| Bytes::from(Vec::new()));
        let missed = skipped == 0 && lost + whole < used.len() as u64;
        Taken { start: layout.after(start, lost), bytes, lost, missed }
    }

    /// Makes the batch: the capture, and the cursor after it.
    fn finish(mut self, fresh: &Fresh, taken: Taken, names: bool) -> Result<Batch, Error> {
        let (layout, cursor) = (self.layout, self.cursor);
        let slots = layout.slots(taken.bytes.len());
        let lost = Lost { count: fresh.lost.count + taken.lost, at_least: fresh.lost.at_least };
        let known = if fresh.joins && lost.count == 0 { cursor.before.clone() } else { Bytes::from(Vec::new()) };
        let count = layout.slots(known.len());
        let mut all = known.to_vec();
        all.extend_from_slice(&taken.bytes);
        let all = Bytes::from(all);
        let registry = if names || cursor.registry.is_empty() { self.registry()? } else { cursor.registry.clone() };
        let first = layout.before(taken.start, count);
        let capture = Capture {
            registry: registry.clone(),
            ring: parts(&layout, first, &all),
            is_batch: true,
            ..Capture::new(&cursor.place, layout, Extent::All)
        };
        // Where there is none, nothing is known to go on from but the place.
        let kept = all.len().min(layout.bytes(TAIL));
        let before = all.cut(all.len() - kept, kept).filter(|_| kept > 0 || lost.count > 0);
        let before = before.unwrap_or_else(|| cursor.before.clone());
        let slot = layout.after(taken.start, slots);
        // A loss, and no event after it to go on from: those that were found are still to come.
        let behind = fresh.count - taken.lost;
        let unsure = match cursor.unsure {
            _ if slots > 0 || fresh.restarted => None,
            Some(least) if slot == cursor.slot => Some(least.max(behind)),
            unsure if unsure.is_some() || fresh.overrun || lost.count > 0 => Some(behind),
            _ => None,
        };
        let misses = if taken.missed && slots == 0 { cursor.misses + 1 } else { 0 };
        let place = cursor.place.clone();
        Ok(Batch {
            capture: Box::new(capture),
            known: count,
            next: Box::new(Cursor { place, layout, registry, slot, before, misses, unsure }),
            lost,
            restarted: fresh.restarted,
            more: !fresh.overrun && fresh.count > slots + taken.lost && !taken.missed,
        })
    }

    fn registry(&mut self) -> Result<Bytes, Error> {
        let (at, len) = (self.layout.registry, self.layout.registry_len());
        let nothing = Bytes::from(Vec::new());
        if len == 0 {
            return Ok(nothing);
        }
        match self.memory.read_bytes(at, len) {
            Err(e) if e.is_fatal() => Err(e.explain("the object registry")),
            read => Ok(read.unwrap_or(nothing)),
        }
    }
}

/// Slots that follow each other from `slot` on, cut where the ring ends.
fn parts(layout: &TraceLayout, slot: u64, bytes: &Bytes) -> Vec<Part> {
    let first = layout.bytes(layout.capacity - slot).min(bytes.len());
    let parts = [(slot, bytes.cut(0, first)), (0, bytes.cut(first, bytes.len() - first))];
    let part = |(slot, bytes): (u64, Option<Bytes>)| Some(Part { slot, bytes: bytes.filter(|b| !b.is_empty())? });
    parts.into_iter().filter_map(part).collect()
}

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "tests say what they expect by failing"
)]
mod tests {
    use super::*;
    use crate::abi::{Endian, Width};
    use crate::format::threadx::ThreadX;
    use crate::format::{Format, Location};

    const BASE: Addr = 0x2000_0000;
    const SLOTS: u32 = 16;

    /// Memory that something writes into at every look.
    struct Restless {
        ram: Vec<u8>,
        dice: u32,
        harm: bool,
    }

    impl Restless {
        fn roll(&mut self, below: u32) -> u32 {
            self.dice = self.dice.wrapping_mul(1_103_515_245).wrapping_add(12_345);
            (self.dice >> 8) % below
        }

        fn word(&mut self, at: usize, value: u32) {
            self.ram[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
    }

    impl Memory for Restless {
        fn read(&mut self, addr: Addr, buf: &mut [u8]) -> Result<(), ReadError> {
            if self.harm {
                let (at, value) = (self.roll(self.ram.len() as u32 / 4), self.roll(4));
                let word = [0, u32::MAX, BASE as u32 + 0x30 + self.roll(0x300), self.dice][value as usize];
                self.word(at as usize * 4, word);
            }
            if self.harm && self.roll(16) == 0 {
                return Err(ReadError::unmapped(addr, buf.len()));
            }
            let start = addr.checked_sub(BASE).and_then(|s| usize::try_from(s).ok());
            let range = start.and_then(|s| self.ram.get(s..s.checked_add(buf.len())?));
            buf.copy_from_slice(range.ok_or_else(|| ReadError::unmapped(addr, buf.len()))?);
            Ok(())
        }

        fn changes(&self) -> bool {
            true
        }
    }

    fn restless(dice: u32) -> Restless {
        let mut this = Restless { ram: vec![0; 48 + 48 + SLOTS as usize * 32], dice, harm: false };
        let base = BASE as u32;
        let (ring, end) = (base + 96, base + 96 + SLOTS * 32);
        for (i, word) in
            [0x5458_5442, u32::MAX, base, base + 48, 32 << 16, ring, ring, end, ring + 5 * 32].into_iter().enumerate()
        {
            this.word(i * 4, word);
        }
        for slot in 0..5 {
            for (i, word) in [0x2000_8000, 0x8000_0000, 4096, slot + 1].into_iter().enumerate() {
                this.word(96 + slot as usize * 32 + i * 4, word);
            }
        }
        this
    }

    fn place() -> Place {
        let (endian, pointer) = (Some(Endian::Little), Some(Width::W4));
        Place::new(Location { header: BASE, endian, pointer, how: String::new(), by_symbols: false })
    }

    /// New slots were read from the header's stated address instead of its real one.
    #[test]
    fn behind_a_damaged_header_other_memory_was_followed() {
        let mut memory = restless(1);
        memory.word(8, 0x1234_5678);
        let capture = super::super::read::capture(&mut memory, &place(), Extent::All).unwrap();
        assert!(capture.issues.iter().any(|issue| issue.code == Code::HeaderMended), "{:?}", capture.issues);
        let cursor = Cursor::of(&capture).unwrap();
        for (i, word) in [0x2000_8000, 0x8000_0000, 4096, 6].into_iter().enumerate() {
            memory.word(96 + 5 * 32 + i * 4, word);
        }
        memory.word(32, BASE as u32 + 96 + 6 * 32);
        let batch = cursor.read(&mut memory, false).unwrap();
        let catalogue = ThreadX.catalogue(crate::catalogue::Names::default());
        let trace = batch.capture.decode(&catalogue, &crate::format::DecodeOptions::default()).unwrap();
        assert_eq!((batch.known, trace.len(), batch.lost.count), (5, 6, 0));
    }

    /// Whatever is written to the trace while it is followed, it is no panic, and what is read stays bounded.
    #[test]
    fn hostile_memory_is_followed_without_harm() {
        for dice in 0..400 {
            let mut memory = restless(dice);
            let capture = super::super::read::capture(&mut memory, &place(), Extent::All).unwrap();
            let cursor = Cursor::of(&capture).unwrap();
            assert_eq!((cursor.slot, cursor.before.len()), (5, 5 * 32));
            let mut cursor: Box<dyn Follow> = Box::new(cursor);
            memory.harm = true;
            for _ in 0..50 {
                if let Ok(batch) = cursor.read(&mut memory, dice.is_multiple_of(2)) {
                    let catalogue = ThreadX.catalogue(crate::catalogue::Names::default());
                    let trace = batch.capture.decode(&catalogue, &crate::format::DecodeOptions::default());
                    assert!(trace.map_or(0, |t| t.len()) <= STEP + TAIL);
                    cursor = batch.next;
                }
            }
        }
    }
}
