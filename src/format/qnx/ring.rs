//! Order: which buffers belong to a ring, which of them hold events, and in which order they were written.

use super::layout::{self, ELEMENT, MAX_BUFFERS, Shape};
use super::parse::{self, RawBuffer};
use crate::abi::{Addr, Endian};
use crate::code::Code;
use crate::error::Error;
use crate::mem::Memory;
use crate::trace::{Issue, Place};

/// What is read, for messages.
pub const WHAT: &str = "the trace ring";
/// Headers that are read in one round trip.
const BATCH: u64 = 16;

/// One buffer of a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Slot {
    /// Its place in the ring.
    pub index: u64,
    /// Where it lies in the memory that is read.
    pub address: Addr,
    /// Number of buffers that were begun before it.
    pub sequence: u32,
    /// Elements that it holds, or at most holds where its header contradicts itself.
    pub count: u64,
    /// True where its header is overwritten: what it held is lost.
    pub is_lost: bool,
    /// True where its header contradicts itself.
    pub is_damaged: bool,
}

impl Slot {
    fn of(raw: &RawBuffer, shape: Shape, index: u64, address: Addr) -> Self {
        let (count, most) = raw.count(shape);
        Self {
            index,
            address,
            sequence: raw.sequence,
            count: count.unwrap_or(most),
            is_lost: false,
            is_damaged: shape != Shape::Unlinked && !raw.is_sound(shape),
        }
    }
}

/// A ring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ring {
    /// Shape of its buffers.
    pub shape: Shape,
    /// Byte order.
    pub endian: Endian,
    /// Where buffer 0 lies in the memory that is read.
    pub start: Addr,
    /// Where the kernel says that buffer 0 lies; 0 where it says nothing.
    pub base: Addr,
    /// Its buffers, by place.
    pub slots: Vec<Slot>,
    /// True where one of its buffers says that it is the last.
    pub is_closed: bool,
}

impl Ring {
    /// Walks the ring that the buffer at `address` belongs to.
    ///
    /// # Errors
    /// Where the source fails, or there is no buffer.
    pub fn walk(memory: &mut dyn Memory, address: Addr) -> Result<Self, Error> {
        let (shape, endian, raw) = at(memory, address)?;
        match shape {
            Shape::Unlinked => unlinked(memory, address, endian),
            _ => linked(memory, address, shape, endian, &raw),
        }
    }

    /// The number of the newest buffer that holds events.
    #[must_use]
    pub fn newest(&self) -> Option<u32> {
        let order = self.order();
        order.last().map(|s| s.sequence)
    }

    /// True where the kernel's address of a buffer is of this ring.
    #[must_use]
    pub fn holds(&self, own: Addr) -> bool {
        let offset = own.wrapping_sub(self.base) & self.shape.pointer().max();
        self.base != 0
            && offset.checked_rem(layout::BUFFER) == Some(0)
            && offset.checked_div(layout::BUFFER).is_some_and(|i| i < self.slots.len() as u64)
    }

    /// The buffers that hold events, oldest first.
    #[must_use]
    pub fn order(&self) -> Vec<Slot> {
        let mut used: Vec<Slot> = self.slots.iter().copied().filter(|s| s.count > 0).collect();
        let (low, high) = (used.iter().map(|s| s.sequence).min(), used.iter().map(|s| s.sequence).max());
        // Numbers that began again at 0: those past the middle came first.
        let turned = high.zip(low).is_some_and(|(h, l)| h.wrapping_sub(l) > 1 << 31);
        let turn = if turned { 1 << 31 } else { 0 };
        used.sort_by_key(|s| (s.sequence.wrapping_add(turn), s.index));
        used
    }
}

/// The buffer at an address.
fn at(memory: &mut dyn Memory, address: Addr) -> Result<(Shape, Endian, RawBuffer), Error> {
    let most = usize::try_from(layout::BUFFER).unwrap_or(usize::MAX);
    let least = Shape::Narrow.header().saturating_add(ELEMENT);
    let mut failed = None;
    // The short read serves the certain shape; the last event of a buffer without links needs all of it.
    for len in [least, Shape::Unlinked.header().saturating_add(ELEMENT), most] {
        match memory.read_bytes(address, len) {
            Ok(bytes) => {
                if let Some(found) = parse::detect(&bytes).or_else(|| parse::placed(&bytes)) {
                    return Ok(found);
                }
                failed = None;
            }
            Err(e) if e.is_fatal() => return Err(e.explain("a trace buffer")),
            Err(e) => failed = failed.or(Some(e)),
        }
    }
    match failed {
        Some(e) => Err(e.explain("a trace buffer")),
        None => Err(Error::not_found(
            Code::NotAHeader,
            format!("memory at {address:#x} is no buffer of a QNX trace ring"),
            "give the address of any buffer of the ring (a multiple of 4096), or search with --scan",
        )),
    }
}

/// Follows the places that buffers of 6.x and 7.x give for themselves.
fn linked(
    memory: &mut dyn Memory,
    address: Addr,
    shape: Shape,
    endian: Endian,
    first: &RawBuffer,
) -> Result<Ring, Error> {
    let start = address.wrapping_sub(layout::behind(first.index()));
    let mut ring = Ring { shape, endian, start, base: first.base, slots: Vec::new(), is_closed: false };
    let header = shape.header();
    let mut index = 0u64;
    // Damaged headers at the end are no part of the ring, in the middle they are.
    let mut sound = 0usize;
    'all: while index < MAX_BUFFERS {
        let wanted: Vec<(Addr, usize)> =
            (index..index.saturating_add(BATCH)).map(|i| (layout::buffer_at(start, i), header)).collect();
        for (place, result) in wanted.iter().zip(memory.read_batch(&wanted)) {
            let bytes = match result {
                Ok(bytes) => bytes,
                Err(e) if e.is_fatal() => return Err(e.explain(WHAT)),
                // The start of the ring may be cut off; its end is where nothing more is.
                Err(_) if index < first.index() => {
                    index = index.saturating_add(1);
                    continue;
                }
                Err(_) => break 'all,
            };
            let raw = parse::buffer(&bytes, endian, shape).ok().map(|(_, raw)| raw);
            let own = |r: &RawBuffer| r.base == ring.base && r.index() == index;
            match raw.filter(own) {
                Some(r) if r.is_placed(shape) => {
                    ring.slots.push(Slot::of(&r, shape, index, place.0));
                    sound = ring.slots.len();
                    if r.is_last() {
                        ring.is_closed = true;
                        break 'all;
                    }
                }
                // Overwritten: what it held is lost.
                _ if ring.slots.len().saturating_sub(sound) < 4 || index < first.index() => {
                    ring.slots.push(Slot { index, address: place.0, is_lost: true, ..Slot::default() });
                }
                _ => break 'all,
            }
            index = index.saturating_add(1);
        }
    }
    ring.slots.truncate(sound);
    Ok(ring)
}

/// Buffers of 8.0 have no links: they lie together for as long as they look like buffers.
fn unlinked(memory: &mut dyn Memory, address: Addr, endian: Endian) -> Result<Ring, Error> {
    let mut slots = Vec::new();
    let mut look = |at: Addr| -> Result<Option<Slot>, Error> {
        let len = usize::try_from(layout::BUFFER).unwrap_or(usize::MAX);
        match memory.read_bytes(at, len) {
            Ok(bytes) => Ok(match parse::detect(&bytes) {
                Some((shape @ Shape::Unlinked, e, raw)) if e == endian => Some(Slot::of(&raw, shape, 0, at)),
                _ => None,
            }),
            Err(e) if e.is_fatal() => Err(e.explain(WHAT)),
            Err(_) => Ok(None),
        }
    };
    let mut low = address;
    while let Some(before) = low.checked_sub(layout::BUFFER) {
        match look(before)? {
            Some(slot) if (slots.len() as u64) < MAX_BUFFERS => slots.push(slot),
            _ => break,
        }
        low = before;
    }
    slots.reverse();
    let mut at = address;
    while let Some(slot) = look(at)? {
        slots.push(slot);
        match at.checked_add(layout::BUFFER) {
            Some(next) if (slots.len() as u64) < MAX_BUFFERS => at = next,
            _ => break,
        }
    }
    for (index, slot) in slots.iter_mut().enumerate() {
        slot.index = index as u64;
    }
    Ok(Ring { shape: Shape::Unlinked, endian, start: low, base: 0, slots, is_closed: false })
}

/// What is missing between buffers, and what is wrong with the ring.
#[must_use]
pub fn issues(ring: &Ring, order: &[Slot]) -> Vec<Issue> {
    let mut list = Vec::new();
    if !ring.is_closed && ring.shape != Shape::Unlinked {
        list.push(
            Issue::new(
                Code::RingOpen,
                format!(
                    "no buffer after buffer {} says that it is the last: the ring is cut off there",
                    ring.slots.len().saturating_sub(1)
                ),
            )
            .at(Place::address(ring.start)),
        );
    }
    let lost: Vec<&Slot> = ring.slots.iter().filter(|s| s.is_lost).collect();
    if let Some(first) = lost.first() {
        list.push(
            Issue::new(
                Code::BufferLost,
                format!("the headers of {} buffers of the ring are overwritten: what they held is lost", lost.len()),
            )
            .times(lost.len() as u64)
            .at(Place::address(first.address)),
        );
    }
    let lost: Vec<&Slot> = ring.slots.iter().filter(|s| s.is_damaged).collect();
    if let Some(first) = lost.first() {
        list.push(
            Issue::new(
                Code::BufferDamaged, format!("{} buffers give a count and an end that contradict each other: what is believable of the two is taken", lost.len()),
            )
            .times(lost.len() as u64)
            .at(Place::address(first.address)),
        );
    }
    let mut gaps = 0u64;
    let mut place = None;
    for pair in order.windows(2) {
        let [a, b] = pair else { continue };
        let missing = u64::from(b.sequence.wrapping_sub(a.sequence)).saturating_sub(1);
        if missing > 0 {
            gaps = gaps.saturating_add(missing);
            place = place.or(Some(b.address));
        }
    }
    if gaps > 0 {
        list.push(
            Issue::new(Code::BufferGap, format!("{gaps} buffers are missing between those that are here"))
                .times(gaps)
                .at(Place { address: place, ..Place::default() }),
        );
    }
    list
}
