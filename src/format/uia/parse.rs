//! Syntax: bytes to raw structures and record headers, on nom. What they mean is decided elsewhere.

use nom::number::Endianness;
use nom::number::complete::{be_u32, u16, u32};
use nom::{IResult, Parser};

use super::layout::{self, HeaderType};
use crate::abi::Endian;

const fn order(endian: Endian) -> Endianness {
    match endian {
        Endian::Little => Endianness::Little,
        Endian::Big => Endianness::Big,
    }
}

/// The state of the module LoggerMin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MinState {
    /// 1 where it records.
    pub enabled: u16,
    /// Bytes of the newest record.
    pub previous: u16,
    /// Events that were not recorded.
    pub dropped: u16,
    /// The packet: its header lies there.
    pub packet: u32,
    /// Where the packet starts; data lies four bytes on.
    pub start: u32,
    /// Where the next record goes.
    pub write: u32,
    /// A record that would end behind it goes to the start.
    pub end: u32,
    /// Events so far, of 16 bits.
    pub sequence: u16,
    /// Header type of its records.
    pub event_type: u32,
}

/// A LoggerStopMode object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StopObject {
    /// 1 where it records.
    pub enabled: u16,
    /// Number of the instance.
    pub instance: u16,
    /// Bytes of the buffer.
    pub size: u32,
    /// The packet: its header lies there, data 16 bytes on.
    pub buffer: u32,
    /// Where the next record goes.
    pub write: u32,
    /// A record that ends behind it is the last before the start.
    pub end: u32,
    /// Bytes of the largest record.
    pub most: u32,
    /// Bytes of the newest record.
    pub previous: u16,
    /// Events that were not recorded.
    pub dropped: u32,
    /// Events so far, of 16 bits.
    pub sequence: u16,
    /// Its queue descriptor.
    pub descriptor: u32,
}

/// A queue descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptor {
    /// Bytes of the descriptor.
    pub size: u32,
    /// The next one in the list.
    pub next: u32,
    /// What kind of queue it is: see [`layout::queue`].
    pub kind: u32,
    /// Where the host reads.
    pub read: u32,
    /// Where the target writes, a packet at a time.
    pub write: u32,
    /// First byte of the queue.
    pub start: u32,
    /// Bytes of the queue.
    pub len: u32,
    /// Number of the logger's instance.
    pub instance: u32,
    /// Module id of the logger.
    pub owner: u32,
    /// Where dropped events are counted; 0 for nowhere.
    pub dropped_at: u32,
    /// Where the next record goes; 0 where this is not kept.
    pub partial: u32,
}

/// What a packet's header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// Bytes of the header.
    pub header: usize,
    /// Bytes of the packet, its header included; 0 until it was first filled.
    pub length: u32,
    /// Sequence number of the packet; 0 in a minimal one.
    pub sequence: u16,
    /// Instance and module of the logger, in one word.
    pub source: u32,
}

/// The first word of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Five bits that say what the record is.
    pub number: u8,
    /// Bytes of the record, this word included; 0 marks the end.
    pub length: u16,
    /// Bytes of the record before it, where the header type has them.
    pub previous: Option<u16>,
    /// Sequence number: of 5 bits or 16 as the header type has them.
    pub sequence: Option<u16>,
}

impl Header {
    /// What the header type says.
    #[must_use]
    pub fn kind(&self) -> HeaderType {
        layout::header_type(self.number)
    }

    /// True where it says that its logger wrote a record before it.
    #[must_use]
    pub fn is_preceded(&self) -> bool {
        self.previous.is_some_and(|p| p > 0) || self.sequence.is_some_and(|s| s > 0)
    }

    /// The bits of the sequence number.
    #[must_use]
    pub fn sequence_mask(&self) -> u16 {
        if self.kind().chained { 31 } else { u16::MAX }
    }

    /// True where the length can be that of such a record: whole words, and all that the type asks for.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let kind = self.kind();
        let least = kind.head().saturating_add(if kind.snapshot { 24 } else { 0 });
        self.length.is_multiple_of(4) && usize::from(self.length) >= least
    }
}

/// Takes the first word of a record apart.
#[must_use]
pub fn header(word: u32) -> Header {
    let number = u8::try_from(word >> 27).unwrap_or(31);
    let length = u16::try_from((word >> 16) & 0x7FF).unwrap_or(0);
    let low = u16::try_from(word & 0xFFFF).unwrap_or(0);
    let (previous, sequence) = match number {
        0..=7 => (None, Some(low)),
        8..=12 => (Some(low >> 5), Some(low & 31)),
        _ => (None, None),
    };
    Header { number, length, previous, sequence }
}

/// The state of LoggerMin.
///
/// # Errors
/// Fewer bytes than it has.
pub fn min_state(i: &[u8], endian: Endian) -> IResult<&[u8], MinState> {
    let (h, w) = (u16(order(endian)), u32(order(endian)));
    let (i, (enabled, _empty, previous, dropped)) = (&h, &h, &h, &h).parse(i)?;
    let (i, (packet, start, write, end)) = (&w, &w, &w, &w).parse(i)?;
    let (i, (sequence, _packets, event_type)) = (&h, &h, &w).parse(i)?;
    Ok((i, MinState { enabled, previous, dropped, packet, start, write, end, sequence, event_type }))
}

/// A LoggerStopMode object.
///
/// # Errors
/// Fewer bytes than it has.
pub fn stop_object(i: &[u8], endian: Endian) -> IResult<&[u8], StopObject> {
    let (h, w) = (u16(order(endian)), u32(order(endian)));
    let (i, (_fxns, enabled, instance)) = (&w, &h, &h).parse(i)?;
    let (i, (size, buffer, write, end)) = (&w, &w, &w, &w).parse(i)?;
    let (i, (_most_words, most, previous, _pad)) = (&w, &w, &h, &h).parse(i)?;
    let (i, (dropped, sequence, _packets)) = (&w, &h, &h).parse(i)?;
    let (i, (descriptor, _packets)) = (&w, &w).parse(i)?;
    Ok((i, StopObject { enabled, instance, size, buffer, write, end, most, previous, dropped, sequence, descriptor }))
}

/// A queue descriptor, of UIA 2 or of UIA 1 by its own size.
///
/// # Errors
/// Fewer bytes than it has.
pub fn descriptor(i: &[u8], endian: Endian) -> IResult<&[u8], Descriptor> {
    let w = u32(order(endian));
    let (i, (size, next, kind, read)) = (&w, &w, &w, &w).parse(i)?;
    let (i, (write, start, len, instance)) = (&w, &w, &w, &w).parse(i)?;
    let (i, (owner, _priority, dropped_at)) = (&w, &w, &w).parse(i)?;
    let (i, partial) = if size as usize == layout::QUEUE_SIZE_1 { (i, 0) } else { (&w).parse(i)? };
    Ok((i, Descriptor { size, next, kind, read, write, start, len, instance, owner, dropped_at, partial }))
}

/// The header of a packet of events, minimal or whole.
///
/// # Errors
/// Fewer bytes than it has, or not a packet of events.
pub fn packet(i: &[u8]) -> IResult<&[u8], Packet> {
    let (rest, first) = be_u32.parse(i)?;
    let number = u8::try_from(first >> 28).unwrap_or(0);
    let wrong = || nom::Err::Error(nom::error::Error::new(i, nom::error::ErrorKind::Tag));
    match number {
        layout::PACKET_EVENT => {
            let (rest, (second, source, _to)) = (be_u32, be_u32, be_u32).parse(rest)?;
            let sequence = u16::try_from(second >> 16).unwrap_or(0);
            let length = first & 0x07FF_FFFF;
            Ok((rest, Packet { header: layout::PACKET, length, sequence, source }))
        }
        layout::PACKET_EVENT_MIN => {
            Ok((rest, Packet { header: layout::PACKET_MIN, length: first & 0xFFFF, sequence: 0, source: 0 }))
        }
        _ => Err(wrong()),
    }
}

impl MinState {
    /// True where the fields agree with each other.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.enabled <= 1
            && (8..=10).contains(&self.event_type)
            && self.packet != 0
            && self.packet.is_multiple_of(4)
            && self.start == self.packet
            && self.write.is_multiple_of(4)
            && self.write.wrapping_sub(self.start) >= 4
            && self.write > self.start
            && self.write <= self.end
            && u64::from(self.end.wrapping_sub(self.start)) <= layout::MAX_BUFFER
            && self.previous <= 0x7FF
    }
}

impl StopObject {
    /// True where the fields agree with each other.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let last = u64::from(self.buffer).saturating_add(u64::from(self.size));
        self.enabled <= 1
            && self.buffer != 0
            && self.buffer.is_multiple_of(4)
            && self.write.is_multiple_of(4)
            && self.size >= 32
            && u64::from(self.size) <= layout::MAX_BUFFER
            && u64::from(self.write) >= u64::from(self.buffer).saturating_add(layout::PACKET as u64)
            && self.write <= self.end
            && u64::from(self.end) < last
            && self.descriptor.is_multiple_of(4)
            && self.previous <= 0x7FF
    }
}

impl Descriptor {
    /// True where the fields agree with each other, and it is of a queue of events.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let end = u64::from(self.start).saturating_add(u64::from(self.len));
        let within = |p: u32| p >= self.start && u64::from(p) <= end && p.is_multiple_of(4);
        let events =
            [layout::queue::CIRCULAR, layout::queue::OVERFLOW, layout::queue::RUN_MODE, layout::queue::STOP_MODE];
        matches!(self.size as usize, layout::QUEUE_SIZE | layout::QUEUE_SIZE_1)
            && events.contains(&u64::from(self.kind))
            && self.start != 0
            && self.start.is_multiple_of(4)
            && self.len >= 8
            && u64::from(self.len) <= layout::MAX_BUFFER
            && end <= 1 << 32
            && within(self.write)
            && within(self.read)
            && (self.partial == 0 || within(self.partial))
            && self.next.is_multiple_of(4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_word_of_a_record() {
        // Type 9, 44 bytes, 28 before it, number 27.
        let h = header(0x482C_0000 | 28 << 5 | 27);
        assert_eq!(h, Header { number: 9, length: 44, previous: Some(28), sequence: Some(27) });
        let h = header(0x0010_FFFE);
        assert_eq!(h, Header { number: 0, length: 16, previous: None, sequence: Some(0xFFFE) });
        assert_eq!(header(0xF808_1234).sequence, None);
        // All eleven bits of the previous length.
        assert_eq!(header(8 << 27 | 0x7FF << 5).previous, Some(0x7FF));
    }

    #[test]
    fn packets_are_network_order_whatever_the_target_is() {
        let bytes = [0xA0, 0, 3, 0xF8, 0, 1, 0, 0xC8, 0, 1, 0x80, 0x33, 0xFF, 0xFF, 0, 0];
        let (_, p) = packet(&bytes).unwrap();
        assert_eq!(p, Packet { header: 16, length: 0x3F8, sequence: 1, source: 0x0001_8033 });
        let (_, p) = packet(&[0x30, 0, 1, 0xE4]).unwrap();
        assert_eq!((p.header, p.length), (4, 0x1E4));
        assert!(packet(&[0x20, 0, 0, 0]).is_err());
    }
}
