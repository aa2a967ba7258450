//! Records between damage: where a chain of lengths is broken, what lies beyond is found by the chains in it.

use super::parse::{self, Header};
use super::ring::Record;
use crate::abi::Endian;

/// The records in `from..to` that vouch for each other, in chains, oldest first. A single record proves nothing but
/// where it ends at `to`, before a record that tells its length.
pub(super) fn chains(bytes: &[u8], from: usize, to: usize, endian: Endian) -> Vec<Record> {
    let mut found = Vec::new();
    let to = to.min(bytes.len());
    let mut at = from;
    while at < to {
        let chain = chain(bytes, at, to, endian);
        let end = chain.last().map(|r: &Record| r.at.saturating_add(usize::from(r.header.length)));
        match end {
            Some(end) if chain.len() > 1 || follows_at(bytes, end, &chain, endian) => {
                found.extend(chain);
                at = end;
            }
            _ => at = at.saturating_add(4),
        }
    }
    found
}

fn header_at(bytes: &[u8], at: usize, endian: Endian) -> Option<Header> {
    endian.u32(bytes, at).map(parse::header)
}

fn sound_at(bytes: &[u8], at: usize, to: usize, endian: Endian) -> Option<Header> {
    header_at(bytes, at, endian).filter(|h| h.is_sound() && at.saturating_add(usize::from(h.length)) <= to)
}

/// From one record on, as far as each is followed by one that knows of it.
fn chain(bytes: &[u8], from: usize, to: usize, endian: Endian) -> Vec<Record> {
    let mut chain = Vec::new();
    let mut at = from;
    let Some(mut header) = sound_at(bytes, at, to, endian) else { return chain };
    loop {
        chain.push(Record { at, header, overwritten: 0 });
        let next = at.saturating_add(usize::from(header.length));
        match sound_at(bytes, next, to, endian).filter(|h| follows(&header, h)) {
            Some(after) => (at, header) = (next, after),
            None => return chain,
        }
    }
}

/// True where the second record, or mark, can stand behind the first.
pub(super) fn follows(before: &Header, after: &Header) -> bool {
    let mask = if before.kind().chained { 31 } else { u16::MAX };
    let counts = before.sequence.is_some() && after.sequence == before.sequence.map(|s| s.wrapping_add(1) & mask);
    counts && (!before.kind().chained || after.previous == Some(before.length))
}

/// True where what stands behind a chain knows of its last record, be it a mark of length 0.
fn follows_at(bytes: &[u8], end: usize, chain: &[Record], endian: Endian) -> bool {
    let last = chain.last().map(|r| r.header);
    last.zip(header_at(bytes, end, endian)).is_some_and(|(last, after)| last.kind().chained && follows(&last, &after))
}
