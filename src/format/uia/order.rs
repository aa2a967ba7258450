//! Order: where in a buffer the records are, oldest first.
//!
//! A stop-mode packet is overwritten from its start when it is full. Records differ in length, so after the first lap no
//! field says where the oldest whole one begins. But each holds the length of the one before it, so the chain is walked
//! back from the end of the lap. Everything else is read forward.

#![expect(
    clippy::arithmetic_side_effects,
    reason = "offsets in a buffer of at most 256 MiB, and lengths of at most 27 bits"
)]

use super::layout;
use super::record::{Packet, Record};
use super::walk::{End, Walk};
use crate::abi::Endian;

/// How a buffer is filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// One packet, overwritten from its start when it is full.
    Lap,
    /// Records round a ring without a packet, from the read pointer to the write pointer.
    Circular,
    /// Packets of one size, each filled once and then sent.
    Packets,
}

/// Bytes in the middle that are no records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lost {
    /// Number of the record that follows.
    pub before: usize,
    /// Offset in the bytes.
    pub at: usize,
    /// How many.
    pub len: usize,
}

/// The records of a buffer.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// The bytes in which the offsets count: the buffer, or for a ring its bytes from the read pointer on.
    pub bytes: Vec<u8>,
    /// Offset in the buffer of the first of these bytes: a ring begins in its middle.
    turned: usize,
    /// The records, oldest first.
    pub records: Vec<Record>,
    /// True where older records were overwritten.
    pub wrapped: bool,
    /// What could not be read as records.
    pub lost: Vec<Lost>,
    /// Where the next record goes, where that is known: an offset in the buffer.
    pub write: Option<usize>,
    /// True where the packet's header is none, or its length contradicts the records: only the records show whether
    /// older ones follow the newest.
    pub damaged: bool,
}

/// What is known of a buffer beside its bytes; offsets count from its start.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    /// How it is filled.
    pub shape: Shape,
    /// Byte order of its records.
    pub endian: Endian,
    /// Where the next record goes.
    pub write: Option<usize>,
    /// Where the host reads next.
    pub read: Option<usize>,
    /// Bytes of the packet's header, where that is known.
    pub header: Option<usize>,
}

impl Order {
    /// Finds the records of a buffer.
    pub fn of(bytes: &[u8], known: &Known) -> Self {
        match known.shape {
            Shape::Lap => lap(bytes, known),
            Shape::Circular => circular(bytes, known),
            Shape::Packets => packets(bytes, known),
        }
    }

    /// The word of the buffer at which a record begins.
    pub fn slot(&self, at: usize) -> u64 {
        let place = at + self.turned;
        let is_turned = self.wrapped && self.turned > 0;
        let around = place.checked_sub(self.bytes.len()).filter(|_| is_turned);
        (around.unwrap_or(place) / 4) as u64
    }

    /// Goes on where the chain of records is broken at `at`: adds those that other chains up to `bound` hold, and then
    /// `rest`, and notes the bytes between them, up to `to`.
    fn resync(&mut self, walk: Walk<'_>, at: usize, bound: usize, rest: Vec<Record>, to: usize) {
        let mut found = walk.chains(self.floor(at), bound);
        found.extend(rest);
        let mut from = at;
        if found.first().is_some_and(|f| f.at < at) {
            from = self.records.pop().map_or(at, |r| r.at);
        }
        let end = found.last().map_or(from, Record::end);
        self.note_gaps(from, &found, self.records.len());
        self.records.append(&mut found);
        if end < to {
            self.lost.push(Lost { before: self.records.len(), at: end, len: to - end });
        }
    }

    /// Where to look for records when the chain is broken at `at`: the length of the record before it can be what is
    /// damaged, and then others are in it.
    fn floor(&self, at: usize) -> usize {
        let last = self.records.last().filter(|r| r.end() == at);
        last.map_or(at, |r| r.at + 4)
    }

    /// Notes the bytes between records, the first of which has this number.
    fn note_gaps(&mut self, from: usize, records: &[Record], number: usize) {
        let mut at = from;
        for (before, r) in (number..).zip(records) {
            if r.at > at {
                self.lost.push(Lost { before, at, len: r.at - at });
            }
            at = r.end();
        }
    }
}

fn lap(bytes: &[u8], known: &Known) -> Order {
    let walk = Walk { bytes, endian: known.endian };
    let packet = Packet::of(bytes).filter(|p| known.header.is_none_or(|h| h == p.header));
    let data = packet.map_or(known.header.unwrap_or(0), |p| p.header);
    let full = packet.map_or(0, |p| p.length);
    let mut head = Vec::new();
    let end = walk.forward(data, known.write.unwrap_or(bytes.len()), &mut head);
    let marked = if let End::Marker(at) = end { Some(at) } else { None };
    let write = known.write.or(marked);
    let mut order = Order { bytes: bytes.to_vec(), write, ..Order::default() };
    let mut tail = Vec::new();
    if let Some(write) = write.filter(|w| full > *w && full <= bytes.len()) {
        order.wrapped = true;
        tail = walk.backward(full, write);
        // One build writes one kind of record: among those with links to each other, one without is a piece of another.
        let is_linked = head.first().is_some_and(|record| record.header.kind().chained);
        if tail.is_empty() && !is_linked {
            tail = walk.leading_to(full, write + 4);
        }
    }
    // The first record of all has none before it: where there was one, the buffer was filled, whatever its length says.
    let is_preceded = head.first().is_some_and(|r| r.header.is_preceded());
    order.damaged = packet.is_none() || full > bytes.len() || full == 0 && is_preceded;
    if let Some(write) = write.filter(|w| *w < bytes.len()) {
        older(walk, (write, packet), &mut tail, head.first(), &mut order);
    }
    // The first record of a lap knows the length of the last one before it.
    if let (Some(last), Some(first)) = (tail.last(), head.first()) {
        order.damaged |= first.header.previous.is_some_and(|p| p != last.header.length);
    }
    order.records = tail;
    order.records.append(&mut head);
    let broken = match end {
        End::Broken(at) => Some(at),
        End::Marker(at) => known.write.map(|_| at),
        End::Bound => None,
    };
    if let Some(at) = broken {
        let to = write.unwrap_or(bytes.len());
        // From the newest record back to where the chain is broken.
        let rest = write.map(|w| walk.backward(w, order.floor(at))).unwrap_or_default();
        let bound = rest.first().map_or(to, |r| r.at);
        order.resync(walk, at, bound, rest, to);
    }
    order
}

/// Adds the records of the lap before, after the newest record, where the chain back from its end is broken, or its end is
/// not known. They are taken where they lead up to the records that are known already.
fn older(
    walk: Walk<'_>,
    (write, packet): (usize, Option<Packet>),
    tail: &mut Vec<Record>,
    first: Option<&Record>,
    order: &mut Order,
) {
    let len = walk.bytes.len();
    let full = packet.map_or(0, |p| p.length);
    let bounded = full > write && full <= len;
    if !bounded && !order.damaged && !first.is_some_and(|r| r.header.is_preceded()) {
        return;
    }
    let from = write + 4;
    let to = tail.first().map_or(if bounded { full } else { len }, |r| r.at);
    let mut found = walk.chains(from, to);
    let Some(last) = found.last().copied() else { return };
    // The end of the lap is not known: its last record is the one before the first of this lap. Unless it is known, and
    // the bytes end before it.
    let cut = packet.is_some() && full > len;
    if !bounded && !cut && !first.is_some_and(|f| f.header.follows(&last.header)) {
        return;
    }
    order.wrapped = true;
    // A lap cannot have ended before where the next one writes, and left records behind it.
    order.damaged |= !bounded;
    let start = found.first().map_or(from, |r| r.at);
    found.append(tail);
    order.note_gaps(start, &found, 0);
    *tail = found;
}

fn circular(bytes: &[u8], known: &Known) -> Order {
    let len = bytes.len();
    // A pointer after the part that could be read: the records end with that part.
    let write = known.write.unwrap_or(len).min(len);
    let read = known.read.unwrap_or(0).min(len);
    let (front, back) = bytes.split_at(read);
    let mut line = back.to_vec();
    let around = write < read;
    if around {
        line.extend_from_slice(front);
    }
    let to = if around { back.len() + write } else { write - read };
    let walk = Walk { bytes: &line, endian: known.endian };
    let mut order = Order { turned: read, wrapped: around, write: known.write, ..Order::default() };
    let mut from = 0;
    loop {
        match walk.forward(from, to, &mut order.records) {
            End::Bound => break,
            // What did not fit before the end of the ring was put at its start.
            End::Marker(at) | End::Broken(at) if around && at < back.len() && from < back.len() => {
                let rest = line.get(at..back.len()).unwrap_or(&[]);
                if rest.iter().any(|b| *b != 0) {
                    order.lost.push(Lost { before: order.records.len(), at, len: rest.len() });
                }
                from = back.len();
            }
            End::Marker(at) | End::Broken(at) => {
                order.resync(walk, at, to, Vec::new(), to);
                break;
            }
        }
    }
    order.bytes = line;
    order
}

/// A packet among others: its number, where its records begin and end, and whether that end is certain.
type Filled = (u16, usize, usize, bool);

fn packets(bytes: &[u8], known: &Known) -> Order {
    let mut order = Order { bytes: bytes.to_vec(), write: known.write, ..Order::default() };
    let Some(first) = Packet::of(bytes) else {
        order.lost.push(Lost { before: 0, at: 0, len: bytes.len() });
        return order;
    };
    let found = filled_packets(bytes, first, known.write);
    order.wrapped = found.first().is_some_and(|f| f.0 > 0);
    let walk = Walk { bytes, endian: known.endian };
    for (_, from, to, bounded) in found {
        let before = order.records.len();
        match walk.forward(from, to, &mut order.records) {
            End::Bound | End::Marker(_) => {}
            End::Broken(at) if !bounded && order.records.len() == before && at == from => {}
            End::Broken(at) => order.resync(walk, at, to, Vec::new(), to),
        }
    }
    order
}

/// The packets of a buffer, the oldest first.
fn filled_packets(bytes: &[u8], first: Packet, write: Option<usize>) -> Vec<Filled> {
    // Packets of one logger name it in their third word, and have one size.
    let whole = first.header == layout::PACKET;
    let named = |at: usize| {
        let packet = Packet::of(bytes.get(at..)?)?;
        let same = packet.header == first.header && packet.source == first.source && (whole || packet.length > 0);
        same.then_some(packet)
    };
    let mut sizes = (first.header..bytes.len()).step_by(4);
    let size = sizes.find(|at| whole && named(*at).is_some() && bytes.len().is_multiple_of(*at));
    let size = size.unwrap_or(bytes.len());
    let mut found: Vec<Filled> = Vec::new();
    for start in (0..bytes.len()).step_by(size) {
        let Some(packet) = named(start).or((start == 0).then_some(first)) else { continue };
        let room = (start + size).min(bytes.len());
        let filled = start + packet.length;
        let writing = write.filter(|w| *w > start && *w < room);
        let sound = packet.length >= packet.header && filled <= room;
        let end = writing.or(sound.then_some(filled)).unwrap_or(room);
        found.push((packet.sequence, start + packet.header, end, writing.is_some() || sound));
    }
    // Numbers count on, and start over at 65536; they are a part of that circle.
    found.sort_unstable();
    let mut before = found.last().map_or(0, |f| f.0);
    let gaps = found.iter().map(|f| f.0.wrapping_sub(std::mem::replace(&mut before, f.0)));
    let oldest = gaps.enumerate().max_by_key(|(i, gap)| (*gap, std::cmp::Reverse(*i))).map_or(0, |(i, _)| i);
    found.rotate_left(oldest);
    found
}
