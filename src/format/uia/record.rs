//! Records and the packets that hold them, on nom. What they mean is decided elsewhere.

#![expect(
    clippy::arithmetic_side_effects,
    reason = "offsets in a buffer of at most 256 MiB, and lengths of eleven bits"
)]

use nom::number::complete::be_u32;
use nom::{IResult, Parser};

use super::layout::{self, HeaderType};
use crate::abi::{Endian, Width};

/// Words of a snapshot before its data: file name, line, number, address, lengths, format string.
pub(super) const SNAPSHOT_WORDS: usize = 6;

/// What a packet's header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Packet {
    /// Bytes of the header.
    pub header: usize,
    /// Bytes of the packet, its header included; 0 until it was first filled.
    pub length: usize,
    /// Sequence number of the packet; 0 in a minimal one.
    pub sequence: u16,
    /// Instance and module of the logger, in one word.
    pub source: u32,
}

impl Packet {
    /// The header of a packet of events, minimal or whole; `None` where the bytes begin with none.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let read: IResult<&[u8], u32> = be_u32.parse(bytes);
        let (rest, first) = read.ok()?;
        match first >> 28 {
            layout::PACKET_EVENT => {
                let read: IResult<&[u8], (u32, u32, u32)> = (be_u32, be_u32, be_u32).parse(rest);
                let (second, source, _to) = read.ok()?.1;
                let (length, sequence) = ((first & 0x07FF_FFFF) as usize, (second >> 16) as u16);
                Some(Self { header: layout::PACKET, length, sequence, source })
            }
            layout::PACKET_EVENT_MIN => {
                Some(Self { header: layout::PACKET_MIN, length: (first & 0xFFFF) as usize, sequence: 0, source: 0 })
            }
            _ => None,
        }
    }
}

/// The first word of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
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
    /// Takes the first word of a record apart.
    pub fn of(word: u32) -> Self {
        let [high, a, b, c] = word.to_be_bytes();
        let (number, low) = (high >> 3, u16::from_be_bytes([b, c]));
        let (previous, sequence) = match number {
            0..=7 => (None, Some(low)),
            8..=12 => (Some(low >> 5), Some(low & 31)),
            _ => (None, None),
        };
        Self { number, length: u16::from_be_bytes([high & 7, a]), previous, sequence }
    }

    /// What the header type says.
    pub const fn kind(&self) -> HeaderType {
        layout::header_type(self.number)
    }

    /// True where it says that its logger wrote a record before it.
    pub fn is_preceded(&self) -> bool {
        self.previous.is_some_and(|p| p > 0) || self.sequence.is_some_and(|s| s > 0)
    }

    /// The bits of the sequence number.
    pub const fn sequence_mask(&self) -> u16 {
        if self.kind().chained { 31 } else { u16::MAX }
    }

    /// The sequence number of the next record.
    pub fn next_sequence(&self) -> Option<u16> {
        self.sequence.map(|s| s.wrapping_add(1) & self.sequence_mask())
    }

    /// True where the length can be that of such a record: whole words, and all that the type asks for.
    pub fn is_sound(&self) -> bool {
        let kind = self.kind();
        let least = kind.head() + if kind.snapshot { 24 } else { 0 };
        self.length.is_multiple_of(4) && usize::from(self.length) >= least
    }

    /// True where this record, or mark, can follow another.
    pub fn follows(&self, before: &Self) -> bool {
        before.sequence.is_some()
            && self.sequence == before.next_sequence()
            && (!before.kind().chained || self.previous == Some(before.length))
    }
}

/// One record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record {
    /// Offset of its first word.
    pub at: usize,
    /// Its first word.
    pub header: Header,
    /// Records of the same snapshot before it that the target itself overwrote.
    pub overwritten: u32,
}

/// The fields of a record that describe the snapshot that it is a part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    /// Number of the snapshot.
    pub id: u64,
    /// Address of the data in this record.
    pub address: u64,
    /// Bytes of data in this record.
    pub here: u64,
    /// Bytes of the whole snapshot, cut to 16 bits.
    pub total: u64,
}

impl Record {
    pub const fn new(at: usize, header: Header) -> Self {
        Self { at, header, overwritten: 0 }
    }

    /// Offset of the byte after it.
    pub fn end(&self) -> usize {
        self.at + usize::from(self.header.length)
    }

    /// Event id and module id; `None` where the record's layout is not public.
    pub fn ids(&self, bytes: &[u8], endian: Endian) -> Option<(u16, u16)> {
        let kind = self.header.kind();
        kind.stamp?;
        let [a, b, c, d] = endian.u32(bytes, self.at + kind.head() - 4)?.to_be_bytes();
        Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
    }

    /// The stamp, of 32 or 64 bits, its lower word first whatever the byte order is.
    pub fn stamp(&self, bytes: &[u8], endian: Endian) -> Option<u64> {
        let word = |offset| endian.u32(bytes, self.at + offset).map(u64::from);
        match self.header.kind().stamp? {
            4 => word(4),
            8 => Some(word(8)? << 32 | word(4)?),
            _ => None,
        }
    }

    /// The words after event and module, of the target's width, or after the first word where nothing more is known.
    pub fn words(&self, bytes: &[u8], endian: Endian, word: Width) -> Vec<u64> {
        let body = bytes.get(self.at + self.header.kind().head()..self.end()).unwrap_or(&[]);
        body.chunks_exact(word.bytes()).filter_map(|c| endian.word(word, c, 0)).collect()
    }

    /// The parts of a snapshot's record, from its words.
    pub fn part(&self, words: &[u64]) -> Option<Part> {
        let [_file, _line, id, address, lengths, _format] = words.first_chunk::<SNAPSHOT_WORDS>()?;
        let part = Part { id: *id, address: *address, here: (lengths >> 16) & 0xFFFF, total: lengths & 0xFFFF };
        self.header.kind().snapshot.then_some(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_word_of_a_record() {
        // Type 9, 44 bytes, 28 before it, number 27.
        let h = Header::of(0x482C_0000 | 28 << 5 | 27);
        assert_eq!(h, Header { number: 9, length: 44, previous: Some(28), sequence: Some(27) });
        let h = Header::of(0x0010_FFFE);
        assert_eq!(h, Header { number: 0, length: 16, previous: None, sequence: Some(0xFFFE) });
        assert_eq!(Header::of(0xF808_1234).sequence, None);
        // All eleven bits of the previous length.
        assert_eq!(Header::of(8 << 27 | 0x7FF << 5).previous, Some(0x7FF));
    }

    #[test]
    fn packets_are_network_order_whatever_the_target_is() {
        let bytes = [0xA0, 0, 3, 0xF8, 0, 1, 0, 0xC8, 0, 1, 0x80, 0x33, 0xFF, 0xFF, 0, 0];
        assert_eq!(Packet::of(&bytes), Some(Packet { header: 16, length: 0x3F8, sequence: 1, source: 0x0001_8033 }));
        let min = Packet::of(&[0x30, 0, 1, 0xE4]).unwrap();
        assert_eq!((min.header, min.length), (4, 0x1E4));
        assert!(Packet::of(&[0x20, 0, 0, 0]).is_none());
    }
}
