//! What is new since a look before, in a ring that may be written meanwhile.
//!
//! The kernel stores a slot's words first, then its own pointer, then the header's copy of that pointer: slots before
//! the header's pointer are whole, the one at it is not.
//!
//! One slot is the witness: it is read before the first look at the pointer and again after the last. Where it holds the
//! same event both times, the ring went less than once around in between, and the pointer shows which slots were written
//! over meanwhile.
//!
//! * As long as nothing is lost, the witness is the slot before the cursor. It is written over before any new event is,
//!   so where it still holds its event, every slot that was read is whole.
//! * After a loss the look begins with the newest few events, since the oldest ones are written over while they are
//!   read. The witness is the newest slot: it is written over last.

use super::super::{Extent, Follow, Lost, Newer};
use super::held::{Block, Capture, Place};
use super::parse::{self, RawHeader};
use super::read::{remember, same_event};
use super::ring::Geometry;
use super::{layout, order_name};
use crate::abi::{Addr, Endian, Width};
use crate::bytes::Bytes;
use crate::code::Code;
use crate::error::Error;
use crate::mem::{Memory, ReadError};

/// Slots that are read at a time: the fewer, the less of them a fast target writes over meanwhile.
const STEP: u64 = 512;
/// After a loss: the newest slots that are read, as a share of the ring and at the most.
const NEWEST: (u64, u64) = (8, 64);
/// After a loss: how often a part of them is tried, a quarter of the part before each time.
const TRIES: u32 = 3;
/// Slots before the cursor that are kept: they tell which interrupt is under way.
const TAIL: u64 = 64;
/// How often a slot may read as unused before it is passed over.
const PATIENCE: u32 = 8;

/// Where following stands.
#[derive(Debug, Clone)]
pub(super) struct Cursor {
    /// The trace that is followed.
    place: Place,
    /// The slot that the next event goes to.
    slot: u64,
    /// Number of slots of the ring, and bytes of each.
    slots: (u64, usize),
    /// The slots before it as they were read: the last of them tells whether the ring went around since.
    before: Bytes,
    /// What describes the trace: its header and its objects, as they were read last.
    described: Vec<Block>,
    /// How often in a row the next slot was there and could not be read.
    misses: u32,
    /// The ring was filled faster than it could be read, and the slot before the cursor is not known: distances from here
    /// to the pointer may lack whole rounds of the ring. At least so many events are behind the cursor.
    unsure: Option<u64>,
}

impl Follow for Cursor {
    fn newer(&self, memory: &mut dyn Memory, names: bool) -> Result<Newer, Error> {
        let mut look = Look::new(memory, &self.place, self)?;
        let (found, taken) = look.look(self)?;
        look.finish(self, &found, taken, names)
    }

    fn back(&self, slots: u64) -> Option<Box<dyn Follow>> {
        let (capacity, size) = self.slots;
        let bytes = usize::try_from(slots).ok()?.checked_mul(size)?;
        let left = self.before.len().checked_sub(bytes).filter(|left| *left >= size)?;
        let slot = self.slot.checked_add(capacity)?.checked_sub(slots)?.checked_rem(capacity)?;
        Some(Box::new(Self { slot, before: self.before.cut(0, left)?, ..self.clone() }))
    }

    fn header(&self) -> Addr {
        self.place.at.header
    }

    fn capacity(&self) -> u64 {
        self.slots.0
    }

    fn save(&self) -> (u64, Vec<u8>) {
        let start = self.before.len().saturating_sub(self.slots.1);
        (self.slot, self.before.get(start..).unwrap_or_default().to_vec())
    }

    fn restore(&mut self, slot: u64, before: &[u8]) {
        if slot < self.slots.0 && (before.is_empty() || before.len() == self.slots.1) {
            self.slot = slot;
            self.before = Bytes::from(before.to_vec());
        }
    }
}

/// Where a capture ends.
pub(super) fn cursor(capture: &Capture) -> Option<Cursor> {
    let head = capture.blocks("header").next()?;
    let (_, raw) = parse::header(&head.bytes, capture.endian, capture.word).ok()?;
    let raw = raw.mended(capture);
    let known = capture.value("current");
    let g = Geometry::new(head.address, capture.endian, capture.word, &raw, known, &mut Vec::new());
    let slot = g.current?;
    let size = layout::entry_size(g.word);
    // The slots right before it, as far back as they were read; unused ones were never written.
    let mut tail: Vec<Bytes> = Vec::new();
    for back in 1..=TAIL.min(g.capacity) {
        let at = g.address(distance(g.capacity, back, slot));
        let found = capture.blocks("ring").find_map(|b| {
            let offset = usize::try_from(at.checked_sub(b.address)?).ok()?;
            b.bytes.cut(offset, size)
        });
        match found.filter(|b| g.endian.word(g.word, b, 0).is_some_and(|w| w != 0)) {
            Some(bytes) => tail.push(bytes),
            None => break,
        }
    }
    let mut before = Vec::with_capacity(tail.len().saturating_mul(size));
    tail.iter().rev().for_each(|b| before.extend_from_slice(b));
    let described = capture.blocks.iter().filter(|b| matches!(b.role, "header" | "registry")).cloned().collect();
    let slots = (g.capacity, size);
    let place = capture.place.clone();
    Some(Cursor { place, slot, slots, before: Bytes::from(before), described, misses: 0, unsure: None })
}

/// Slots from one to another, around the ring.
fn distance(capacity: u64, from: u64, to: u64) -> u64 {
    to.saturating_add(capacity).saturating_sub(from).checked_rem(capacity).unwrap_or(0)
}

/// How many events were inserted while the pointer went from one slot to another, where the slot before the first of
/// them was seen to be written over: at least so many. With one event less than the ring holds the pointer leads to that
/// slot, which is then written next.
fn after_overrun(capacity: u64, from: u64, to: u64) -> u64 {
    let distance = distance(capacity, from, to);
    if distance == capacity.saturating_sub(1) { distance } else { distance.saturating_add(capacity) }
}

/// One look at a ring.
struct Look<'m> {
    memory: &'m mut dyn Memory,
    place: &'m Place,
    head: Bytes,
    endian: Endian,
    word: Width,
    raw: RawHeader,
    g: Geometry,
}

/// What the pointer tells.
struct Found {
    /// The slot that it led to, before the slots were read.
    current: u64,
    /// The first new slot that is there, and how many are.
    start: u64,
    count: u64,
    lost: Lost,
    restarted: bool,
    /// True where nothing is missing between the cursor and the first of them.
    joins: bool,
    /// True where the ring went around since the look before: what is there has to be looked for anew.
    overrun: bool,
    /// A slot, and what it held before the pointer was read.
    witness: Option<(Addr, Bytes)>,
}

impl Found {
    /// Nothing new.
    fn nothing(cursor: &Cursor, current: u64) -> Self {
        Self {
            current,
            start: cursor.slot,
            count: 0,
            lost: Lost::default(),
            restarted: false,
            joins: true,
            overrun: false,
            witness: None,
        }
    }

    /// The ring is filled faster than a single event can be read: all before the newest is lost.
    fn all_lost(self) -> (Self, Taken) {
        let none = Bytes::from(Vec::new());
        let taken = Taken { start: self.start, bytes: none, lost: Lost::default(), missed: false, overrun: None };
        (Self { joins: false, overrun: true, witness: None, ..self }, taken)
    }
}

/// New slots that are whole.
struct Taken {
    start: u64,
    bytes: Bytes,
    lost: Lost,
    /// What followed could not be read yet.
    missed: bool,
    /// The ring went around while they were read: none of them is whole for sure. Where the pointer led to then.
    overrun: Option<u64>,
}

impl<'m> Look<'m> {
    fn new(memory: &'m mut dyn Memory, place: &'m Place, cursor: &Cursor) -> Result<Self, Error> {
        let damaged = || Error::failed(Code::HeaderDamaged, "the trace header is not known", "");
        let head = cursor.described.iter().find(|b| b.role == "header").ok_or_else(damaged)?;
        let (endian, word, raw) = parse::detect(&head.bytes).ok_or_else(damaged)?;
        let g = Geometry::new(head.address, endian, word, &raw, None, &mut Vec::new());
        if (g.capacity, layout::entry_size(word)) != cursor.slots || g.capacity < 2 {
            return Err(damaged());
        }
        Ok(Self { memory, place, head: head.bytes.clone(), endian, word, raw, g })
    }

    fn context(&self, slot: &[u8]) -> u64 {
        self.g.endian.word(self.g.word, slot, 0).unwrap_or(0)
    }

    /// Takes a header that was read now; the slot that its pointer leads to.
    fn header(&mut self, read: Option<Result<Bytes, ReadError>>) -> Result<Option<u64>, Error> {
        let head = match read {
            Some(Ok(head)) => head,
            Some(Err(e)) => return Err(e.explain("the trace header")),
            None => return Ok(None),
        };
        if head.iter().all(|b| *b == 0) {
            return Err(Error::not_found(
                Code::HeaderZero,
                format!("memory at {:#x} is all zero where the trace header was", self.g.header),
                "the target was reset, or the probe gives zeros for memory that it cannot read; --wait waits until it is there again",
            ));
        }
        let now = parse::header(&head, self.endian, self.word).map(|(_, raw)| raw).ok();
        let Some(raw) = now.filter(|raw| raw.describes_as(&self.raw)) else {
            return Err(Error::not_found(
                Code::TraceChanged,
                format!(
                    "the trace header at {:#x} ({}) is another than before",
                    self.g.header,
                    order_name(self.endian)
                ),
                "the target was reset or loaded anew; --wait goes on with the new trace",
            ));
        };
        self.head = head;
        Ok(Geometry::new(self.g.header, self.endian, self.word, &raw, None, &mut Vec::new()).current)
    }

    /// What is new behind the cursor, or the newest of it where the ring went around.
    fn look(&mut self, cursor: &Cursor) -> Result<(Found, Taken), Error> {
        let (mut pointer, mut emptied) = (cursor.slot, false);
        if cursor.unsure.is_none() {
            let found = self.at_pointer(cursor)?;
            (pointer, emptied) = (found.current, found.restarted);
            if !found.overrun {
                let taken = self.read(cursor, &found)?;
                match taken.overrun {
                    None => return Ok((found, taken)),
                    Some(current) => pointer = current,
                }
            }
        }
        let (share, most) = NEWEST;
        let mut wanted = cursor.slots.0.checked_div(share).unwrap_or(0).clamp(1, most);
        let mut tries = 1;
        loop {
            let found = self.newest(cursor, pointer, wanted, emptied)?;
            let taken = self.read(cursor, &found)?;
            match taken.overrun {
                None => return Ok((found, taken)),
                Some(_) if tries >= TRIES && !found.restarted => return Ok(found.all_lost()),
                Some(current) if tries >= TRIES => {
                    // The next look may see what there is behind the restart.
                    let found = Found::nothing(cursor, current);
                    let taken = self.read(cursor, &found)?;
                    return Ok((found, taken));
                }
                Some(current) => pointer = current,
            }
            wanted = (wanted / 4).max(1);
            tries = tries.saturating_add(1);
        }
    }

    /// Where the pointer stands, and what is new up to there.
    fn at_pointer(&mut self, cursor: &Cursor) -> Result<Found, Error> {
        let (capacity, size) = cursor.slots;
        let was = cursor.before.len().checked_sub(size).and_then(|at| cursor.before.cut(at, size));
        let last = distance(capacity, 1, cursor.slot);
        let (now, current) = self.slot_and_pointer(last)?;
        // A pointer that leads nowhere was read while it was stored.
        let Some(current) = current else { return Ok(Found::nothing(cursor, cursor.slot)) };
        let found = Found::nothing(cursor, current);
        // Before its first event a ring has nothing to compare with; its slots were never used.
        let joins = was.as_ref().map_or(self.context(&now) == 0, |was| same_event(was, &now, self.word));
        if joins {
            let count = distance(capacity, cursor.slot, current);
            return Ok(Found { count, witness: Some((self.g.address(last), now)), ..found });
        }
        // No event has no context, and one zero may be a read that failed: two are believed.
        if self.context(&now) == 0 && self.slot_and_pointer(last).map(|(slot, _)| self.context(&slot))? != 0 {
            return Ok(Found::nothing(cursor, cursor.slot));
        }
        Ok(Found { overrun: true, restarted: self.context(&now) == 0, ..found })
    }

    /// The ring went around, or it was `emptied` and filled anew: what is there of its newest events. The pointer led to
    /// `pointer` before.
    fn newest(&mut self, cursor: &Cursor, pointer: u64, wanted: u64, emptied: bool) -> Result<Found, Error> {
        let capacity = cursor.slots.0;
        let newest = distance(capacity, 1, pointer);
        let (held, current) = self.slot_and_pointer(newest)?;
        let Some(current) = current else { return Ok(Found::nothing(cursor, cursor.slot)) };
        if self.context(&held) == 0 && current != 0 {
            return Ok(Found::nothing(cursor, cursor.slot));
        }
        let witness = Some((self.g.address(newest), held));
        let found = Found { joins: false, witness, ..Found::nothing(cursor, current) };
        // A ring that has been around has no unused slot.
        if emptied || self.is_unused(current)? && self.is_unused(current)? {
            return Ok(Found { start: 0, count: current, restarted: true, ..found });
        }
        let inserted = match (cursor.unsure, distance(capacity, cursor.slot, current)) {
            (None, _) => after_overrun(capacity, cursor.slot, current),
            (Some(least), distance) if distance >= least => distance,
            (Some(_), distance) => distance.saturating_add(capacity),
        };
        let count = wanted.min(capacity.saturating_sub(1)).min(inserted);
        let start = distance(capacity, count, current);
        let lost = Lost { count: inserted.saturating_sub(count), at_least: true };
        Ok(Found { start, count, lost, ..found })
    }

    fn is_unused(&mut self, slot: u64) -> Result<bool, Error> {
        let bytes = self.memory.read_bytes(self.g.address(slot), layout::entry_size(self.word));
        Ok(self.context(&bytes.map_err(|e| e.explain("the event ring"))?) == 0)
    }

    /// What a slot holds, and after that where the pointer leads.
    fn slot_and_pointer(&mut self, slot: u64) -> Result<(Bytes, Option<u64>), Error> {
        let wanted = [(self.g.address(slot), layout::entry_size(self.word)), (self.g.header, self.head.len())];
        let mut results = self.memory.read_batch(&wanted).into_iter();
        let bytes = results.next().unwrap_or_else(|| Err(ReadError::unmapped(self.g.header, 0)));
        let pointer = self.header(results.next())?;
        Ok((bytes.map_err(|e| e.explain("the event ring"))?, pointer))
    }

    /// Reads the new slots, and looks which of them were written meanwhile.
    fn read(&mut self, cursor: &Cursor, found: &Found) -> Result<Taken, Error> {
        let (capacity, size) = cursor.slots;
        // The fuller the ring, the sooner it is written over: the fewer are read at a time. An idle one has time for all.
        let (share, most) = NEWEST;
        let few = capacity.checked_div(share).unwrap_or(0).clamp(1, most);
        let room = capacity.saturating_sub(1).saturating_sub(found.count);
        let take = found.count.min(STEP).min(room.max(few));
        let none = Taken {
            start: found.start,
            bytes: Bytes::from(Vec::new()),
            lost: Lost::default(),
            missed: false,
            overrun: None,
        };
        let Some((place, held)) = found.witness.as_ref().filter(|_| take > 0) else { return Ok(none) };
        let first = take.min(capacity.saturating_sub(found.start));
        let mut wanted = vec![(self.g.address(found.start), self.g.bytes(first))];
        if take > first {
            wanted.push((self.g.address(0), self.g.bytes(take.saturating_sub(first))));
        }
        let mut bytes: Vec<u8> = Vec::new();
        for result in self.memory.read_batch(&wanted) {
            bytes.extend_from_slice(&result.map_err(|e| e.explain("the event ring"))?);
        }
        let bytes = Bytes::from(bytes);
        let mut again = self.memory.read_batch(&[(self.g.header, self.head.len()), (*place, size)]).into_iter();
        let after = self.header(again.next())?.unwrap_or(found.current);
        let now = again.next().and_then(Result::ok);
        let Some(now) = now.filter(|now| self.context(now) != 0 || self.context(held) == 0) else {
            return Ok(Taken { missed: true, ..none });
        };
        if !same_event(held, &now, self.word) {
            return Ok(Taken { overrun: Some(after), ..none });
        }
        let moved = distance(capacity, found.current, after);
        // From the pointer to the first new slot.
        let ahead = distance(capacity, found.current, found.start);
        let ahead = if ahead == 0 { capacity } else { ahead };
        // What the pointer has passed, and the slot at it.
        let torn = moved.saturating_add(1).saturating_sub(ahead).min(take);
        // None is left: fewer are tried.
        if torn == take {
            return Ok(Taken { overrun: Some(after), ..none });
        }
        let skip = self.g.bytes(torn);
        let good = bytes.cut(skip, bytes.len().saturating_sub(skip)).unwrap_or_else(|| none.bytes.clone());
        // No event has this context: the memory could not be read, and zeros came in its place.
        let unused = good.chunks_exact(size).position(|slot| self.context(slot) == 0);
        let lost = Lost { count: torn, at_least: false };
        let start = found.start.saturating_add(torn).checked_rem(capacity).unwrap_or(0);
        Ok(match unused {
            None => Taken { start, bytes: good, lost, ..none },
            Some(0) if cursor.misses >= PATIENCE => {
                let zeros = good.chunks_exact(size).take_while(|slot| self.context(slot) == 0).count();
                let skip = zeros.saturating_mul(size);
                let zeros = zeros as u64;
                let bytes = good.cut(skip, good.len().saturating_sub(skip)).unwrap_or_else(|| none.bytes.clone());
                let usable = bytes.chunks_exact(size).position(|slot| self.context(slot) == 0);
                let bytes = match usable {
                    Some(slots) => bytes.cut(0, slots.saturating_mul(size)).unwrap_or_else(|| none.bytes.clone()),
                    None => bytes,
                };
                Taken {
                    start: start.saturating_add(zeros).checked_rem(capacity).unwrap_or(0),
                    bytes,
                    lost: Lost { count: torn.saturating_add(zeros), at_least: false },
                    ..none
                }
            }
            Some(slots) => Taken {
                start,
                bytes: good.cut(0, slots.saturating_mul(size)).unwrap_or_else(|| none.bytes.clone()),
                lost,
                missed: true,
                ..none
            },
        })
    }

    /// Puts the capture together, and the cursor behind it.
    fn finish(mut self, cursor: &Cursor, found: &Found, taken: Taken, names: bool) -> Result<Newer, Error> {
        let (capacity, size) = cursor.slots;
        let slots = (taken.bytes.len() as u64).checked_div(size as u64).unwrap_or(0);
        let lost = Lost {
            count: found.lost.count.saturating_add(taken.lost.count),
            at_least: found.lost.at_least || taken.lost.at_least,
        };
        let joins = found.joins && lost.count == 0;
        let known = if joins { cursor.before.clone() } else { Bytes::from(Vec::new()) };
        let mut before = known.to_vec();
        before.extend_from_slice(&taken.bytes);
        let surplus = before.len().saturating_sub(self.g.bytes(TAIL));
        before.drain(..surplus);
        let (slot, before) = if before.is_empty() {
            // Nothing is known to go on from but the place.
            (taken.start, if lost.count == 0 { cursor.before.clone() } else { Bytes::from(Vec::new()) })
        } else {
            (taken.start.saturating_add(slots).checked_rem(capacity).unwrap_or(0), Bytes::from(before))
        };
        let registry = match cursor.described.iter().find(|b| b.role == "registry") {
            Some(block) if !names => Some(block.clone()),
            _ => self.registry()?,
        };
        let header = Block { role: "header", address: self.g.header, bytes: self.head.clone() };
        let described: Vec<Block> = [Some(header), registry].into_iter().flatten().collect();
        let mut blocks = described.clone();
        let count = (known.len() as u64).checked_div(size as u64).unwrap_or(0);
        self.put(&mut blocks, distance(capacity, count.checked_rem(capacity).unwrap_or(0), taken.start), &known);
        self.put(&mut blocks, taken.start, &taken.bytes);
        let mut capture = Capture {
            endian: self.endian,
            word: self.word,
            blocks,
            values: vec![("header", self.g.header)],
            issues: Vec::new(),
            place: self.place.clone(),
            extent: Extent::All,
            is_newer: true,
        };
        remember(self.place, &mut capture);
        // A loss, and no event behind it to go on from: those that were found are still to come.
        let behind = found.count.saturating_sub(taken.lost.count);
        let unsure = match cursor.unsure {
            _ if slots > 0 || found.restarted => None,
            Some(least) if slot == cursor.slot => Some(least.max(behind)),
            unsure if unsure.is_some() || found.overrun || lost.count > 0 => Some(behind),
            _ => None,
        };
        let misses = if taken.missed && slots == 0 { cursor.misses.saturating_add(1) } else { 0 };
        let place = self.place.clone();
        Ok(Newer {
            capture: Box::new(capture),
            known: count,
            next: Box::new(Cursor { place, slot, slots: cursor.slots, before, described, misses, unsure }),
            lost,
            restarted: found.restarted,
            more: !found.overrun && found.count > slots.saturating_add(taken.lost.count) && !taken.missed,
        })
    }

    /// Adds slots that follow each other, cut where the ring ends.
    fn put(&self, blocks: &mut Vec<Block>, slot: u64, bytes: &Bytes) {
        let first = self.g.bytes(self.g.capacity.saturating_sub(slot)).min(bytes.len());
        let parts = [(slot, bytes.cut(0, first)), (0, bytes.cut(first, bytes.len().saturating_sub(first)))];
        for (slot, part) in parts {
            if let Some(bytes) = part.filter(|b| !b.is_empty()) {
                blocks.push(Block { role: "ring", address: self.g.address(slot), bytes });
            }
        }
    }

    fn registry(&mut self) -> Result<Option<Block>, Error> {
        let size = layout::object_size(self.word, self.g.name_size);
        let len = usize::try_from(self.g.objects).unwrap_or(0).saturating_mul(size);
        let address: Addr = self.g.registry;
        match self.memory.read_bytes(address, len) {
            Ok(bytes) => Ok(Some(Block { role: "registry", address, bytes })),
            Err(e) if e.is_fatal() => Err(e.explain("the object registry")),
            Err(_) => Ok(None),
        }
    }
}

impl RawHeader {
    /// True where all but the pointer is as in another header of the same trace.
    const fn describes_as(&self, other: &Self) -> bool {
        self.id == other.id
            && self.time_mask == other.time_mask
            && self.base == other.base
            && self.registry_start == other.registry_start
            && self.registry_end == other.registry_end
            && self.name_size == other.name_size
            && self.buffer_start == other.buffer_start
            && self.buffer_end == other.buffer_end
    }
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

    /// Whatever is written over the trace while it is followed, it is no panic, and what is read stays bounded.
    #[test]
    fn hostile_memory_is_followed_without_harm() {
        for dice in 0..400 {
            let mut memory = restless(dice);
            let at = Location {
                header: BASE,
                endian: Some(Endian::Little),
                pointer: Some(Width::W4),
                how: String::new(),
                by_symbols: false,
            };
            let place = Place { at, known: Vec::new() };
            let capture = super::super::read::capture(&mut memory, &place, Extent::All).unwrap();
            let cursor = cursor(&capture).unwrap();
            assert_eq!((cursor.slot, cursor.before.len()), (5, 5 * 32));
            let mut cursor: Box<dyn Follow> = Box::new(cursor);
            memory.harm = true;
            for _ in 0..50 {
                if let Ok(newer) = cursor.newer(&mut memory, dice.is_multiple_of(2)) {
                    let catalogue = ThreadX.catalogue(crate::catalogue::Names::default());
                    let trace = newer.capture.decode(&catalogue, &crate::format::DecodeOptions::default());
                    assert!(trace.map_or(0, |t| t.len()) <= STEP + TAIL);
                    cursor = newer.next;
                }
            }
        }
    }
}
