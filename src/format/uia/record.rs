//! One record: what lies behind its first word.

use super::ring::Record;
use crate::abi::{Endian, Width};

/// Words of a snapshot before its data: file name, line, number, address, lengths, format string.
pub(super) const SNAPSHOT_WORDS: usize = 6;

/// Event id and module id; `None` where the record's layout is not public.
pub(super) fn ids(bytes: &[u8], record: &Record, endian: Endian) -> Option<(u16, u16)> {
    let kind = record.header.kind();
    kind.stamp?;
    let word = endian.u32(bytes, record.at.checked_add(kind.head())?.checked_sub(4)?)?;
    Some((u16::try_from(word >> 16).unwrap_or(0), u16::try_from(word & 0xFFFF).unwrap_or(0)))
}

/// The stamp, of 32 or 64 bits, its lower word first whatever the byte order is.
pub(super) fn stamp(bytes: &[u8], record: &Record, endian: Endian) -> Option<u64> {
    let at = record.at.checked_add(4)?;
    match record.header.kind().stamp? {
        4 => endian.u32(bytes, at).map(u64::from),
        8 => {
            let (low, high) = (endian.u32(bytes, at)?, endian.u32(bytes, at.checked_add(4)?)?);
            Some(u64::from(high) << 32 | u64::from(low))
        }
        _ => None,
    }
}

/// The bytes behind event and module, or behind the first word where nothing more is known.
pub(super) fn body<'a>(bytes: &'a [u8], record: &Record) -> &'a [u8] {
    let start = record.at.saturating_add(record.header.kind().head());
    let end = record.at.saturating_add(record.header.length.into());
    bytes.get(start..end).unwrap_or(&[])
}

/// The words there, of the target's width.
pub(super) fn words(bytes: &[u8], record: &Record, endian: Endian, word: Width) -> Vec<u64> {
    // A record of unknown layout is shown in the words that every header is made of, which may be half of its own.
    let size = word.bytes();
    body(bytes, record).chunks_exact(size).filter_map(|c| endian.word(word, c, 0)).collect()
}

/// What a record says of the snapshot that it is a part of.
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

/// The parts of a snapshot's record, from its words.
pub(super) fn part(record: &Record, words: &[u64]) -> Option<Part> {
    if !record.header.kind().snapshot {
        return None;
    }
    let [_file, _line, id, address, lengths, _format] = words.first_chunk::<SNAPSHOT_WORDS>()?;
    Some(Part { id: *id, address: *address, here: (lengths >> 16) & 0xFFFF, total: lengths & 0xFFFF })
}
