//! What describes a logger: a structure of its module, on nom, or the packet of events itself.

#![expect(clippy::arithmetic_side_effects, reason = "sums of 32-bit numbers in 64 bits, and offsets in a few bytes")]

use nom::number::complete::{u16, u32};
use nom::{IResult, Parser};

use super::super::nom_order;
use super::layout::{self, queue};
use super::order::Shape;
use super::record::{Header, Packet};
use crate::abi::{Addr, Endian};

/// So many records after each other are no coincidence.
const ENOUGH: usize = 512;
/// Bytes that are read to see what is at an address.
pub(super) const HEAD: usize = 256;
/// The longest record.
const MAX_RECORD: u16 = 0x7FF;

/// What describes a logger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Min,
    Stop,
    Queue,
    Packet,
}

impl Kind {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Min => "LoggerMin state",
            Self::Stop => "LoggerStopMode object",
            Self::Queue => "queue descriptor",
            Self::Packet => "packet of events",
        }
    }

    /// Bytes of it.
    pub const fn size(self) -> usize {
        match self {
            Self::Min => layout::MIN_SIZE,
            Self::Stop => layout::STOP_SIZE,
            Self::Queue => layout::QUEUE_SIZE,
            Self::Packet => layout::PACKET,
        }
    }
}

/// One logger, as what describes it has it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Logger {
    pub kind: Kind,
    pub shape: Shape,
    pub endian: Endian,
    /// First byte of the buffer.
    pub base: Addr,
    /// Bytes of the buffer; `None` where only the packet itself was found.
    pub len: Option<u64>,
    pub write: Option<Addr>,
    pub read: Option<Addr>,
    /// Events that were not recorded.
    pub dropped: Option<u64>,
    /// Where they are counted.
    pub dropped_at: Option<Addr>,
    pub enabled: Option<bool>,
    pub instance: Option<u64>,
    /// The next descriptor in the list.
    pub next: Addr,
    /// True where its fields show that something was recorded.
    pub used: bool,
    /// False where it has no mark of its own, and its fields do not match each other exactly.
    pub certain: bool,
}

/// An address; 0 is none.
fn pointer(address: u32) -> Option<Addr> {
    Some(Addr::from(address)).filter(|p| *p != 0)
}

impl Logger {
    /// What these bytes at `address` describe, in this byte order; `None` where the fields contradict each other.
    pub fn of(kind: Kind, head: &[u8], address: Addr, endian: Endian) -> Option<Self> {
        match kind {
            Kind::Min => Self::min_state(head, endian),
            Kind::Stop => Self::stop_object(head, endian),
            Kind::Queue => Self::descriptor(head, endian),
            Kind::Packet => is_packet(head, endian).then_some(Self::empty(kind, endian, address)),
        }
    }

    /// What these bytes describe, whatever it is; in the byte order that is known, or in the one that makes sense.
    pub fn detect(head: &[u8], address: Addr, known: Option<Endian>) -> Option<Self> {
        let orders = known.map_or([Endian::Little, Endian::Big], |e| [e, e]);
        let kinds = [Kind::Queue, Kind::Min, Kind::Stop, Kind::Packet];
        let mut all = kinds.into_iter().flat_map(|kind| orders.map(|e| (kind, e)));
        all.find_map(|(kind, e)| Self::of(kind, head, address, e).filter(|l| l.certain))
    }

    const fn empty(kind: Kind, endian: Endian, base: Addr) -> Self {
        Self {
            kind,
            shape: Shape::Lap,
            endian,
            base,
            len: None,
            write: None,
            read: None,
            dropped: None,
            dropped_at: None,
            enabled: None,
            instance: None,
            next: 0,
            used: true,
            certain: true,
        }
    }

    /// The state of the module LoggerMin.
    fn min_state(head: &[u8], endian: Endian) -> Option<Self> {
        let (h, w) = (u16(nom_order(endian)), u32(nom_order(endian)));
        let read: IResult<_, _> = ((&h, &h, &h, &h), (&w, &w, &w, &w), (&h, &h, &w)).parse(head);
        let ((enabled, _empty, previous, dropped), (packet, start, write, end), (sequence, _packets, event_type)) =
            read.ok()?.1;
        // The header of the packet is at its start, data four bytes on.
        let sound = enabled <= 1
            && (8..=10).contains(&event_type)
            && packet != 0
            && packet.is_multiple_of(4)
            && start == packet
            && write.is_multiple_of(4)
            && (u64::from(start) + 4..=end.into()).contains(&write.into())
            && u64::from(end - start) <= layout::MAX_BUFFER
            && previous <= MAX_RECORD;
        sound.then(|| Self {
            len: Some(u64::from(end - start) + 4),
            write: pointer(write),
            dropped: Some(dropped.into()),
            enabled: Some(enabled != 0),
            used: sequence > 0 || previous > 0,
            ..Self::empty(Kind::Min, endian, start.into())
        })
    }

    /// A LoggerStopMode object.
    fn stop_object(head: &[u8], endian: Endian) -> Option<Self> {
        let (h, w) = (u16(nom_order(endian)), u32(nom_order(endian)));
        let fields = ((&w, &h, &h), (&w, &w, &w, &w), (&w, &w, &h, &h), (&w, &h, &h), (&w, &w));
        let read: IResult<_, _> = { fields }.parse(head);
        let (
            (_functions, enabled, instance),
            (size, buffer, write, end),
            (_most_words, _most, previous, _pad),
            (dropped, sequence, _packets),
            (descriptor, packets),
        ) = read.ok()?.1;
        let last = u64::from(buffer) + u64::from(size);
        let sound = enabled <= 1
            && buffer != 0
            && buffer.is_multiple_of(4)
            && write.is_multiple_of(4)
            && size >= 32
            && u64::from(size) <= layout::MAX_BUFFER
            && u64::from(write) >= u64::from(buffer) + layout::PACKET as u64
            && write <= end
            && u64::from(end) < last
            && descriptor.is_multiple_of(4)
            && previous <= MAX_RECORD;
        // The last record begins at the end at the latest, and is at most 48 bytes long, and the mark after it.
        let room = last.checked_sub(end.into());
        sound.then_some(Self {
            len: Some(size.into()),
            write: pointer(write),
            dropped: Some(dropped.into()),
            enabled: Some(enabled != 0),
            instance: Some(instance.into()),
            used: sequence > 0 || previous > 0,
            certain: room.is_some_and(|room| (24..=256).contains(&room)) && descriptor != 0 && packets == buffer,
            ..Self::empty(Kind::Stop, endian, buffer.into())
        })
    }

    /// A queue descriptor, of UIA 2 or of UIA 1 by its own size.
    fn descriptor(head: &[u8], endian: Endian) -> Option<Self> {
        let w = u32(nom_order(endian));
        let read: IResult<_, _> = ((&w, &w, &w, &w), (&w, &w, &w, &w), (&w, &w, &w)).parse(head);
        let (rest, ((size, next, kind, read), (write, start, len, instance), (_owner, _priority, dropped_at))) =
            read.ok()?;
        let partial = if size as usize == layout::QUEUE_SIZE_1 { 0 } else { endian.u32(rest, 0)? };
        let shape = match kind {
            queue::STOP_MODE => Shape::Lap,
            queue::RUN_MODE => Shape::Packets,
            queue::CIRCULAR | queue::OVERFLOW => Shape::Circular,
            _ => return None,
        };
        let end = u64::from(start) + u64::from(len);
        let within = |p: u32| p >= start && u64::from(p) <= end && p.is_multiple_of(4);
        let sound = matches!(size as usize, layout::QUEUE_SIZE | layout::QUEUE_SIZE_1)
            && start != 0
            && start.is_multiple_of(4)
            && len >= 8
            && u64::from(len) <= layout::MAX_BUFFER
            && end <= 1 << 32
            && within(write)
            && within(read)
            && (partial == 0 || within(partial))
            && next.is_multiple_of(4);
        // Only a circular queue is read by the target's own read pointer.
        let own = pointer(write).filter(|_| shape == Shape::Circular);
        sound.then_some(Self {
            shape,
            len: Some(len.into()),
            write: pointer(partial).or(own),
            read: pointer(read),
            dropped_at: pointer(dropped_at),
            instance: Some(instance.into()),
            next: next.into(),
            ..Self::empty(Kind::Queue, endian, start.into())
        })
    }
}

/// True where bytes begin with a packet of events, in either byte order of its records.
pub(super) fn sniff(bytes: &[u8]) -> bool {
    is_packet(bytes, Endian::Little) || is_packet(bytes, Endian::Big)
}

/// True where bytes begin with a packet's header, and two records after it agree with each other. A header of four bytes
/// can be any number, and one of sixteen many a piece of code: what follows must be as a logger leaves it.
fn is_packet(bytes: &[u8], endian: Endian) -> bool {
    let Some(packet) = Packet::of(bytes) else { return false };
    let (length, first) = (packet.length, bytes.first().copied().unwrap_or(0));
    let whole = packet.header == layout::PACKET;
    let sane = if whole {
        // Bits that no writer sets, and where packets go to.
        matches!(first, 0xA0 | 0xA8) && matches!(bytes.get(12..14), Some([0xFF, 0xFF | 0xFE]))
    } else {
        matches!(first, 0x30 | 0x38)
    };
    let filled = length.is_multiple_of(4) && length as u64 <= layout::MAX_BUFFER;
    let word = |at: usize| endian.u32(bytes, at).map(Header::of);
    let Some(one) = word(packet.header).filter(|h| h.is_sound() && h.kind().stamp.is_some() && sane && filled) else {
        return false;
    };
    let Some(two) = word(packet.header + usize::from(one.length)) else { return false };
    if !one.kind().chained {
        return whole && two.is_sound() && two.number < 4 && two.sequence == one.next_sequence();
    }
    two.follows(&one) && (two.length == 0 || two.is_sound()) && ends_as_a_lap(bytes, length, endian, one, whole)
}

/// Before the first lap is full the first record has no record before it; after that a mark is where the lap ended,
/// and the last record before it.
fn ends_as_a_lap(bytes: &[u8], length: usize, endian: Endian, first: Header, whole: bool) -> bool {
    if length == 0 {
        return whole || (first.previous == Some(0) && first.sequence == Some(0));
    }
    let word = |at: usize| endian.u32(bytes, at).map(Header::of);
    let ends = |mark: Header| {
        let last = mark.previous.filter(|p| *p > 0).and_then(|p| length.checked_sub(p.into()));
        last.and_then(word).is_some_and(|h| Some(h.length) == mark.previous)
    };
    // Of a packet at `--header` only the beginning was read.
    word(length).map_or(bytes.len() <= HEAD, ends) || {
        // The next lap has come so far that it is over the end of the last one.
        let mut at = if whole { layout::PACKET } else { layout::PACKET_MIN };
        for walked in 0.. {
            let Some(header) = word(at).filter(Header::is_sound) else { break };
            if walked > ENOUGH {
                return true;
            }
            at += usize::from(header.length);
        }
        word(at).map_or(bytes.len() <= HEAD, |mark| mark.length == 0) && at + 0x800 > length
    }
}
