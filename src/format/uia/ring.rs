//! Order: where in a buffer the records lie, oldest first.
//!
//! A stop-mode packet is written round and round. Records differ in length, so after the first lap nobody knows where
//! the oldest whole one begins; but each holds the length of the one before it, and the chain is walked back from the
//! end of the lap. Everything else is read forward.

use super::layout;
use super::parse::{self, Header, Packet};
use super::salvage;
use crate::abi::Endian;

/// How a buffer is filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// One packet, overwritten from its start when it is full.
    Lap,
    /// Records round a ring without a packet, from the read pointer to the write pointer.
    Circular,
    /// Packets of one size, each filled once and then sent.
    Packets,
}

/// One record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// Offset of its first word in [`Order::bytes`].
    pub at: usize,
    /// Its first word.
    pub header: Header,
    /// Records of the same snapshot before it that the target itself wrote over.
    pub overwritten: u16,
}

/// Bytes in the middle that are no records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lost {
    /// Number of the record that follows.
    pub before: usize,
    /// Offset in the bytes.
    pub at: usize,
    /// How many.
    pub len: usize,
}

/// The records of a buffer.
#[derive(Debug, Default)]
pub struct Order {
    /// The bytes in which the offsets count: the buffer, or for a ring its bytes from the read pointer on.
    pub bytes: Vec<u8>,
    /// Offset in the buffer of the first of these bytes: a ring begins in its middle.
    pub turned: usize,
    /// The records, oldest first.
    pub records: Vec<Record>,
    /// True where older records were overwritten.
    pub wrapped: bool,
    /// What could not be read as records.
    pub lost: Vec<Lost>,
    /// The packet's header, where the buffer has one.
    pub packet: Option<Packet>,
    /// Where the next record goes, where that is known: an offset in the buffer.
    pub write: Option<usize>,
    /// True where the packet's header is none, or its length contradicts the records: nothing but these tells whether
    /// older ones lie behind the newest.
    pub damaged: bool,
}

/// What is known of a buffer beside its bytes; offsets count from its start.
#[derive(Debug, Clone, Copy)]
pub struct Known {
    /// How it is filled.
    pub shape: Shape,
    /// Byte order of its records.
    pub endian: Endian,
    /// Where the next record goes.
    pub write: Option<usize>,
    /// Where the host reads next.
    pub read: Option<usize>,
    /// Bytes of the packet's header, where the way it was found tells.
    pub header: Option<usize>,
}

/// Finds the records of a buffer.
#[must_use]
pub fn order(bytes: &[u8], known: &Known) -> Order {
    match known.shape {
        Shape::Lap => lap(bytes, known),
        Shape::Circular => circular(bytes, known),
        Shape::Packets => packets(bytes, known),
    }
}

/// Why a forward walk ended, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// At its bound.
    Bound,
    /// At a header of length 0: nothing was written from here on.
    Marker(usize),
    /// At something that is no record.
    Broken(usize),
}

fn header_at(bytes: &[u8], at: usize, endian: Endian) -> Option<Header> {
    endian.u32(bytes, at).map(parse::header)
}

/// A record whose length is sound and within the bound.
fn record_at(bytes: &[u8], at: usize, to: usize, endian: Endian) -> Option<Header> {
    header_at(bytes, at, endian).filter(|h| h.is_sound() && at.saturating_add(usize::from(h.length)) <= to)
}

/// Walks forward over `from..to`, adding records. Where a record holds the length of the one before it, that must be
/// so, but for the first.
fn forward(bytes: &[u8], from: usize, to: usize, endian: Endian, out: &mut Vec<Record>) -> End {
    let to = to.min(bytes.len());
    let (mut at, mut before, mut overwritten, mut chained) = (from, None, 0u16, false);
    while at < to {
        let Some(header) = header_at(bytes, at, endian) else { return End::Broken(at) };
        if header.length == 0 {
            return End::Marker(at);
        }
        let follows = before.is_none() || header.previous.is_none() || header.previous == before;
        let known =
            header.kind().chained || before.is_none() || !chained || is_confirmed(bytes, at, to, &header, endian);
        if !follows || !known {
            return End::Broken(at);
        }
        chained = header.kind().chained;
        if let Some(next) = writes_over(bytes, at, endian).filter(|next| *next < to) {
            before = Some(header.length);
            overwritten = overwritten.saturating_add(1);
            at = next;
            continue;
        }
        if record_at(bytes, at, to, endian).is_none() {
            return End::Broken(at);
        }
        before = Some(header.length);
        out.push(Record { at, header, overwritten });
        overwritten = 0;
        at = at.saturating_add(usize::from(header.length));
    }
    End::Bound
}

/// A record that does not hold the length of the one before it, behind one that does: any word can be that. It is one
/// where the next record knows its length, or nothing follows it.
fn is_confirmed(bytes: &[u8], at: usize, to: usize, header: &Header, endian: Endian) -> bool {
    let end = at.saturating_add(usize::from(header.length));
    let next = || header_at(bytes, end, endian);
    end == to || end < to && next().is_some_and(|n| n.previous.is_none_or(|p| p == header.length))
}

/// A writer of TI's (LoggerStopMode of UIA 2.30) does not move on between the records of one snapshot: each lies over
/// all but the first words of the one before it. Where the next one begins, if this record was treated so. Its own end
/// can lie behind that of the newest record.
fn writes_over(bytes: &[u8], at: usize, endian: Endian) -> Option<usize> {
    let header = header_at(bytes, at, endian).filter(Header::is_sound)?;
    let kind = header.kind();
    if !(kind.snapshot && kind.chained) {
        return None;
    }
    let next = at.checked_add(kind.head())?;
    let over = header_at(bytes, next, endian).filter(Header::is_sound)?;
    let event = |at: usize| endian.u32(bytes, at.checked_add(kind.head())?.checked_sub(4)?);
    let follows = over.number == header.number
        && over.previous == Some(header.length)
        && over.sequence == header.sequence.map(|s| s.wrapping_add(1) & 31)
        && event(next) == event(at);
    follows.then_some(next)
}

/// Walks the chain of previous lengths back from `end`, down to `floor`; the records oldest first.
fn backward(bytes: &[u8], end: usize, floor: usize, endian: Endian) -> Vec<Record> {
    let mut found = Vec::new();
    let mut at = end;
    while let Some(previous) = header_at(bytes, at, endian).and_then(|h| h.previous).filter(|p| *p > 0) {
        let Some(before) = at.checked_sub(usize::from(previous)).filter(|b| *b >= floor) else { break };
        let Some(header) = record_at(bytes, before, at, endian).filter(|h| h.length == previous) else { break };
        found.push(Record { at: before, header, overwritten: 0 });
        at = before;
    }
    found.reverse();
    found
}

/// Without previous lengths the oldest record of a lap is the first from which a chain of lengths, numbered without a
/// gap, leads exactly to its end.
fn leading_to(bytes: &[u8], end: usize, floor: usize, endian: Endian) -> Vec<Record> {
    let words = end.saturating_sub(floor) / 4;
    let mut leads = vec![false; words];
    let mut first = None;
    for i in (0..words).rev() {
        let at = end.saturating_sub(words.saturating_sub(i).saturating_mul(4));
        let Some(header) = record_at(bytes, at, end, endian).filter(|h| h.number < 4) else { continue };
        let next = at.saturating_add(usize::from(header.length));
        let on = next.saturating_sub(at) / 4;
        let good = next == end
            || leads.get(i.saturating_add(on)).copied().unwrap_or(false)
                && header_at(bytes, next, endian).and_then(|h| h.sequence)
                    == header.sequence.map(|s| s.wrapping_add(1));
        if let (true, Some(place)) = (good, leads.get_mut(i)) {
            *place = true;
            first = Some(at);
        }
    }
    let mut found = Vec::new();
    if let Some(first) = first {
        forward(bytes, first, end, endian, &mut found);
    }
    found
}

fn lap(bytes: &[u8], known: &Known) -> Order {
    let endian = known.endian;
    let packet = parse::packet(bytes).ok().map(|(_, p)| p).filter(|p| known.header.is_none_or(|h| h == p.header));
    let data = packet.map_or(known.header.unwrap_or(0), |p| p.header);
    let full = packet.map_or(0, |p| p.length as usize);
    let mut order = Order { bytes: bytes.to_vec(), packet, ..Order::default() };
    order.damaged = packet.is_none() || full > bytes.len();
    let mut head = Vec::new();
    let bound = known.write.unwrap_or(bytes.len());
    let end = forward(bytes, data, bound, endian, &mut head);
    let write = known.write.or(match end {
        End::Marker(at) => Some(at),
        End::Bound | End::Broken(_) => None,
    });
    order.write = write;
    let mut tail = Vec::new();
    if let Some(write) = write.filter(|w| full > *w && full <= bytes.len()) {
        order.wrapped = true;
        tail = backward(bytes, full, write, endian);
        if tail.is_empty() {
            tail = leading_to(bytes, full, write.saturating_add(4), endian);
        }
    }
    // The first record of all has none before it: where there was one, the buffer was filled, whatever its length says.
    order.damaged |= full == 0 && head.first().is_some_and(|r| r.header.is_preceded());
    if let Some(write) = write.filter(|w| *w < bytes.len()) {
        older(bytes, write, full, &mut tail, head.first(), &mut order, endian);
    }
    // The first record of a lap knows the length of the last one before it.
    if let (Some(last), Some(first)) = (tail.last(), head.first()) {
        order.damaged |= first.header.previous.is_some_and(|p| p != last.header.length);
    }
    order.records = tail;
    let broken = match (end, known.write) {
        (End::Bound, _) | (End::Marker(_), None) => None,
        (End::Marker(at) | End::Broken(at), _) => Some(at),
    };
    order.records.append(&mut head);
    if let Some(at) = broken {
        let floor = inside(&order.records, at);
        // From the newest record back to where the chain is broken.
        let rest = write.map(|w| backward(bytes, w, floor, endian)).unwrap_or_default();
        let next = rest.first().map_or(write.unwrap_or(bytes.len()), |r| r.at);
        let mut found = salvage::chains(bytes, floor, next, endian);
        found.extend(rest);
        behind(at, found, write.unwrap_or(bytes.len()), &mut order);
    }
    order
}

/// Where to look for records when the chain is broken at `at`: the length of the record before it can be what is
/// damaged, and then others lie in it.
fn inside(records: &[Record], at: usize) -> usize {
    let last = records.last().filter(|r| r.at.saturating_add(r.header.length.into()) == at);
    last.map_or(at, |r| r.at.saturating_add(4))
}

/// Adds the records that were found behind a break, up to `to`, and what lies between them.
fn behind(at: usize, mut found: Vec<Record>, to: usize, order: &mut Order) {
    let mut from = at;
    if found.first().is_some_and(|f| f.at < at) {
        from = order.records.pop().map_or(at, |r| r.at);
    }
    let end = found.last().map_or(from, |r| r.at.saturating_add(r.header.length.into()));
    gaps(from, &found, order.records.len(), &mut order.lost);
    order.records.append(&mut found);
    if end < to {
        order.lost.push(Lost { before: order.records.len(), at: end, len: to.saturating_sub(end) });
    }
}

/// What the lap before left behind the newest record, where the chain back from its end is broken, or its end is not
/// known. It counts where it leads up to what is known already.
fn older(
    bytes: &[u8],
    write: usize,
    full: usize,
    tail: &mut Vec<Record>,
    first: Option<&Record>,
    order: &mut Order,
    endian: Endian,
) {
    let bounded = full > write && full <= bytes.len();
    if !bounded && !order.damaged && !first.is_some_and(|r| r.header.is_preceded()) {
        return;
    }
    let from = write.saturating_add(4);
    let to = tail.first().map_or(if bounded { full } else { bytes.len() }, |r| r.at);
    let mut found = salvage::chains(bytes, from, to, endian);
    let Some(last) = found.last().copied() else { return };
    // The end of the lap is not known: its last record is the one before the first of this lap. Unless it is known, and
    // the bytes end before it.
    let cut = order.packet.is_some() && full > bytes.len();
    if !bounded && !cut && !first.is_some_and(|f| salvage::follows(&last.header, &f.header)) {
        return;
    }
    order.wrapped = true;
    // A lap cannot have ended before where the next one writes, and left records behind it.
    order.damaged |= !bounded;
    let start = found.first().map_or(from, |r| r.at);
    found.append(tail);
    gaps(start, &found, 0, &mut order.lost);
    *tail = found;
}

/// The bytes between records that are none.
fn gaps(from: usize, records: &[Record], number: usize, lost: &mut Vec<Lost>) {
    let mut at = from;
    for (i, r) in records.iter().enumerate() {
        if r.at > at {
            lost.push(Lost { before: number.saturating_add(i), at, len: r.at.saturating_sub(at) });
        }
        at = r.at.saturating_add(usize::from(r.header.length));
    }
}

fn circular(bytes: &[u8], known: &Known) -> Order {
    let len = bytes.len();
    let write = known.write.unwrap_or(0).min(len);
    let read = known.read.unwrap_or(0).min(len);
    let (front, back) = bytes.split_at(read);
    let mut line = back.to_vec();
    let mut to = write.saturating_sub(read);
    let around = write < read;
    if around {
        line.extend_from_slice(front);
        to = back.len().saturating_add(write);
    }
    let mut order = Order { turned: read, wrapped: around, write: known.write, ..Order::default() };
    let mut from = 0;
    loop {
        match forward(&line, from, to, known.endian, &mut order.records) {
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
                let found = salvage::chains(&line, inside(&order.records, at), to, known.endian);
                behind(at, found, to, &mut order);
                break;
            }
        }
    }
    order.bytes = line;
    order
}

fn packets(bytes: &[u8], known: &Known) -> Order {
    let mut order = Order { bytes: bytes.to_vec(), write: known.write, ..Order::default() };
    let Ok((_, first)) = parse::packet(bytes) else {
        order.lost.push(Lost { before: 0, at: 0, len: bytes.len() });
        return order;
    };
    order.packet = Some(first);
    // Packets of one logger name it in their third word, and have one size.
    let named = |at: usize| {
        bytes.get(at..).and_then(|b| parse::packet(b).ok()).map(|(_, p)| p).filter(|p| {
            p.header == first.header && p.source == first.source && (p.header == layout::PACKET || p.length > 0)
        })
    };
    let size = (first.header..bytes.len().saturating_sub(first.header))
        .step_by(4)
        .find(|at| first.header == layout::PACKET && named(*at).is_some() && bytes.len().checked_rem(*at) == Some(0))
        .unwrap_or(bytes.len());
    let mut found: Vec<(u16, usize, usize, bool)> = Vec::new();
    for start in (0..bytes.len()).step_by(size.max(1)) {
        let Some(packet) = named(start).or((start == 0).then_some(first)) else { continue };
        let room = start.saturating_add(size).min(bytes.len());
        let filled = start.saturating_add(packet.length as usize);
        let writing = known.write.filter(|w| *w > start && *w < room);
        let sound = packet.length as usize >= packet.header && filled <= room;
        let end = writing.or(sound.then_some(filled)).unwrap_or(room);
        found.push((packet.sequence, start.saturating_add(packet.header), end, writing.is_some() || sound));
    }
    // Oldest first: numbers count on, and start over at 65536; they are a part of that circle.
    found.sort_unstable();
    let gap = |i: usize| {
        let before = i.checked_sub(1).or(found.len().checked_sub(1)).and_then(|b| found.get(b)).map_or(0, |f| f.0);
        found.get(i).map_or(0, |f| f.0).wrapping_sub(before)
    };
    let oldest = (0..found.len()).max_by_key(|i| (gap(*i), std::cmp::Reverse(*i))).unwrap_or(0);
    let count = found.len();
    found.rotate_left(oldest.min(count));
    order.wrapped = found.first().is_some_and(|f| f.0 > 0);
    for (_, from, to, bounded) in found {
        let before = order.records.len();
        match forward(bytes, from, to, known.endian, &mut order.records) {
            End::Bound | End::Marker(_) => {}
            End::Broken(at) if !bounded && order.records.len() == before && at == from => {}
            End::Broken(at) => {
                let found = salvage::chains(bytes, inside(&order.records, at), to, known.endian);
                behind(at, found, to, &mut order);
            }
        }
    }
    order
}

impl Order {
    /// The word of the buffer at which a record begins.
    #[must_use]
    pub fn slot(&self, at: usize) -> u64 {
        let len = self.bytes.len().max(1);
        let place = at.saturating_add(self.turned);
        (if self.turned > 0 { place.checked_rem(len).unwrap_or(place) } else { place } / 4) as u64
    }
}
