//! Order: which buffers are part of a ring, which of them hold events, and in which order they were written.

use super::layout::{self, BUFFER, ELEMENT, MAX_BUFFERS, Shape};
use super::parse::{self, RawBuffer};
use crate::abi::{Addr, Endian};
use crate::code::Code;
use crate::error::Error;
use crate::mem::Memory;
use crate::trace::{Issue, Place, many};

/// What is read, for messages.
pub const WHAT: &str = "the trace ring";
/// Headers that are read in one round trip.
const BATCH: u64 = 16;

/// One buffer of a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Slot {
    /// Its place in the ring.
    pub index: u64,
    /// Where it is in the memory that is read.
    pub address: Addr,
    /// Number of buffers that were begun before it.
    pub sequence: u32,
    /// Elements that it holds, or at most holds where its header contradicts itself.
    pub count: u64,
    /// True where its header is overwritten, so its elements are lost.
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
    /// Where buffer 0 is in the memory that is read.
    pub start: Addr,
    /// Where the kernel says that buffer 0 is; 0 where it says nothing.
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
    pub fn newest(&self) -> Option<u32> {
        self.order().last().map(|s| s.sequence)
    }

    /// True where the kernel's address of a buffer is of this ring.
    #[expect(clippy::arithmetic_side_effects, reason = "divides by a constant")]
    pub fn holds(&self, own: Addr) -> bool {
        let offset = own.wrapping_sub(self.base) & self.shape.pointer().max();
        self.base != 0 && offset.is_multiple_of(BUFFER as u64) && offset / (BUFFER as u64) < self.slots.len() as u64
    }

    /// The buffers that hold events, oldest first.
    pub fn order(&self) -> Vec<Slot> {
        let mut used: Vec<Slot> = self.slots.iter().copied().filter(|s| s.count > 0).collect();
        let numbers = || used.iter().map(|s| s.sequence);
        // Numbers that began again at 0: those past the middle came first.
        let turned = numbers().max().zip(numbers().min()).is_some_and(|(high, low)| high.abs_diff(low) > 1 << 31);
        let turn = if turned { 1 << 31 } else { 0 };
        used.sort_by_key(|s| (s.sequence.wrapping_add(turn), s.index));
        used
    }
}

/// The buffer at an address.
#[expect(clippy::arithmetic_side_effects, reason = "adds constants")]
fn at(memory: &mut dyn Memory, address: Addr) -> Result<(Shape, Endian, RawBuffer), Error> {
    let mut failed = None;
    // The short read serves the certain shape; the last event of a buffer without links needs all of it.
    for len in
        [Shape::Narrow.header(), Shape::Unlinked.header()].map(|header| header + ELEMENT).into_iter().chain([BUFFER])
    {
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
            format!("memory at {address:#x} is not a buffer of a QNX trace ring"),
            "give the address of any buffer of the ring (a multiple of 4096), or search with --scan",
        )),
    }
}

/// Follows the places that buffers of 6.x and 7.x give for themselves.
#[expect(clippy::arithmetic_side_effects, reason = "counts at most 65,536 buffers")]
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
            (index..index + BATCH).map(|i| (layout::buffer_at(start, i), header)).collect();
        for (place, result) in wanted.iter().zip(memory.read_batch(&wanted)) {
            let bytes = match result {
                Ok(bytes) => bytes,
                Err(e) if e.is_fatal() => return Err(e.explain(WHAT)),
                // The start of the ring may be cut off; its end is where nothing more is.
                Err(_) if index < first.index() => {
                    index += 1;
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
                // Overwritten: its elements are lost.
                _ if ring.slots.len() - sound < 4 || index < first.index() => {
                    ring.slots.push(Slot { index, address: place.0, is_lost: true, ..Slot::default() });
                }
                _ => break 'all,
            }
            index += 1;
        }
    }
    ring.slots.truncate(sound);
    Ok(ring)
}

/// Buffers of 8.0 have no links: they are together for as long as they look like buffers.
fn unlinked(memory: &mut dyn Memory, address: Addr, endian: Endian) -> Result<Ring, Error> {
    let mut slots = Vec::new();
    let mut look = |at: Addr| -> Result<Option<Slot>, Error> {
        match memory.read_bytes(at, BUFFER) {
            Ok(bytes) => Ok(match parse::detect(&bytes) {
                Some((shape @ Shape::Unlinked, e, raw)) if e == endian => Some(Slot::of(&raw, shape, 0, at)),
                _ => None,
            }),
            Err(e) if e.is_fatal() => Err(e.explain(WHAT)),
            Err(_) => Ok(None),
        }
    };
    let mut low = address;
    while let Some(before) = low.checked_sub(BUFFER as u64) {
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
        match at.checked_add(BUFFER as u64) {
            Some(next) if (slots.len() as u64) < MAX_BUFFERS => at = next,
            _ => break,
        }
    }
    (0..).zip(&mut slots).for_each(|(index, slot)| slot.index = index);
    Ok(Ring { shape: Shape::Unlinked, endian, start: low, base: 0, slots, is_closed: false })
}

/// What is missing between buffers, and what is wrong with the ring.
pub fn issues(ring: &Ring, order: &[Slot]) -> Vec<Issue> {
    let mut list = Vec::new();
    if let (false, Some(last)) = (ring.is_closed || ring.shape == Shape::Unlinked, ring.slots.last()) {
        let text = format!("no buffer after buffer {} says that it is the last: the ring is cut off there", last.index);
        list.push(Issue::new(Code::RingOpen, text).at(Place::address(ring.start)));
    }
    let mut add = |code, count: u64, address: Option<Addr>, text: &dyn Fn(u64) -> String| {
        if count > 0 {
            list.push(Issue::new(code, text(count)).times(count).at(Place { address, ..Place::default() }));
        }
    };
    let of = |is: fn(&Slot) -> bool| {
        let mut found = ring.slots.iter().filter(|s| is(s)).map(|s| s.address).peekable();
        let first = found.peek().copied();
        (found.count() as u64, first)
    };
    let (count, first) = of(|s| s.is_lost);
    add(Code::BufferLost, count, first, &|n| {
        let what = many(n, "buffer of the ring has", "buffers of the ring have");
        format!("{what} an overwritten header: what was in there is lost")
    });
    let (count, first) = of(|s| s.is_damaged);
    add(Code::BufferDamaged, count, first, &|n| {
        format!(
            "{} a count and an end that contradict each other: the plausible one of the two is used",
            many(n, "buffer gives", "buffers give")
        )
    });
    let gaps = order.windows(2).filter_map(|pair| {
        let [a, b] = pair else { return None };
        let missing = b.sequence.wrapping_sub(a.sequence).checked_sub(1).filter(|missing| *missing > 0)?;
        Some((u64::from(missing), b.address))
    });
    let first = gaps.clone().next().map(|(_, address)| address);
    add(Code::BufferGap, gaps.map(|(missing, _)| missing).sum(), first, &|n| {
        format!("{} missing between those that are here", many(n, "buffer is", "buffers are"))
    });
    list
}
