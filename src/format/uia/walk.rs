//! Walks from record to record: forward by lengths, backward by the lengths of the records before, and where a chain
//! is broken, by whether the records after the damage match each other.

#![expect(
    clippy::arithmetic_side_effects,
    reason = "offsets in a buffer of at most 256 MiB, and lengths of eleven bits"
)]

use super::record::{Header, Record};
use crate::abi::Endian;

/// Why a forward walk ended, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// At its bound.
    Bound,
    /// At a header of length 0: nothing was written from here on.
    Marker(usize),
    /// At something that is no record.
    Broken(usize),
}

/// Bytes that hold records.
#[derive(Debug, Clone, Copy)]
pub(super) struct Walk<'a> {
    pub bytes: &'a [u8],
    pub endian: Endian,
}

impl Walk<'_> {
    /// The word at an offset as the first of a record.
    pub fn header(&self, at: usize) -> Option<Header> {
        self.endian.u32(self.bytes, at).map(Header::of)
    }

    /// A record whose length is sound and within the bound.
    fn record(&self, at: usize, to: usize) -> Option<Record> {
        let record = Record::new(at, self.header(at).filter(Header::is_sound)?);
        (record.end() <= to).then_some(record)
    }

    /// Walks forward over `from..to`, adding records. Where a record holds the length of the one before it, that must
    /// be so, but for the first.
    pub fn forward(&self, from: usize, to: usize, out: &mut Vec<Record>) -> End {
        let to = to.min(self.bytes.len());
        let (mut at, mut before, mut overwritten) = (from, None::<Header>, 0);
        while at < to {
            let Some(header) = self.header(at) else { return End::Broken(at) };
            if header.length == 0 {
                return End::Marker(at);
            }
            if before.is_some_and(|before| !self.goes_on(&before, &header, at, to)) {
                return End::Broken(at);
            }
            before = Some(header);
            if let Some(next) = self.writes_over(at).filter(|next| *next < to) {
                overwritten += 1;
                at = next;
                continue;
            }
            let Some(record) = self.record(at, to) else { return End::Broken(at) };
            out.push(Record { overwritten, ..record });
            overwritten = 0;
            at = record.end();
        }
        End::Bound
    }

    /// True where the record at `at` can be the one after another. One that does not hold the length of the one before
    /// it, after one that does, can be any word: it is a record where the next one knows its length, or nothing follows.
    fn goes_on(&self, before: &Header, header: &Header, at: usize, to: usize) -> bool {
        if header.previous.is_some_and(|p| p != before.length) {
            return false;
        }
        let end = at + usize::from(header.length);
        let known = |next: Header| next.previous.is_none_or(|p| p == header.length);
        header.kind().chained || !before.kind().chained || end == to || end < to && self.header(end).is_some_and(known)
    }

    /// A writer of TI's (LoggerStopMode of UIA 2.30) does not move on between the records of one snapshot: each is
    /// over all but the first words of the one before it. Where the next one begins, if this record was treated so. Its
    /// own end can follow that of the newest record.
    fn writes_over(&self, at: usize) -> Option<usize> {
        let header = self.header(at).filter(Header::is_sound)?;
        let kind = header.kind();
        if !(kind.snapshot && kind.chained) {
            return None;
        }
        let next = at + kind.head();
        let over = self.header(next).filter(Header::is_sound)?;
        let event = |at: usize| self.endian.u32(self.bytes, at + kind.head() - 4);
        (over.number == header.number && over.follows(&header) && event(next) == event(at)).then_some(next)
    }

    /// Walks the chain of previous lengths back from `end`, down to `floor`; the records oldest first.
    pub fn backward(&self, end: usize, floor: usize) -> Vec<Record> {
        let mut found = Vec::new();
        let mut at = end;
        while let Some(previous) = self.header(at).and_then(|h| h.previous).filter(|p| *p > 0) {
            let Some(before) = at.checked_sub(usize::from(previous)).filter(|b| *b >= floor) else { break };
            let Some(record) = self.record(before, at).filter(|r| r.header.length == previous) else { break };
            found.push(record);
            at = before;
        }
        found.reverse();
        found
    }

    /// Without previous lengths the oldest record of a lap is the first from which a chain of lengths, numbered without
    /// a gap, leads exactly to its end.
    pub fn leading_to(&self, end: usize, floor: usize) -> Vec<Record> {
        let words = end.saturating_sub(floor) / 4;
        let start = end - 4 * words;
        // Words from which such a chain leads to the end.
        let mut leads = vec![false; words];
        let mut first = None;
        for at in (start..end).step_by(4).rev() {
            let Some(record) = self.record(at, end).filter(|r| r.header.number < 4) else { continue };
            let numbered = || self.header(record.end()).and_then(|h| h.sequence) == record.header.next_sequence();
            let goes_on = |word: usize| leads.get(word).is_some_and(|leads| *leads) && numbered();
            let good = record.end() == end || goes_on((record.end() - start) / 4);
            if let (true, Some(place)) = (good, leads.get_mut((at - start) / 4)) {
                *place = true;
                first = Some(at);
            }
        }
        let mut found = Vec::new();
        if let Some(first) = first {
            self.forward(first, end, &mut found);
        }
        found
    }

    /// The records in `from..to` that confirm each other, in chains, oldest first. A single record is taken only where it
    /// ends at a record, or mark, that holds its length.
    pub fn chains(&self, from: usize, to: usize) -> Vec<Record> {
        let to = to.min(self.bytes.len());
        let (mut found, mut at) = (Vec::new(), from);
        while at < to {
            let chain = self.chain(at, to);
            let known = |last: &Record| {
                let behind = self.header(last.end());
                last.header.kind().chained && behind.is_some_and(|h| h.follows(&last.header))
            };
            match chain.last().copied() {
                Some(last) if chain.len() > 1 || known(&last) => {
                    found.extend(chain);
                    at = last.end();
                }
                _ => at += 4,
            }
        }
        found
    }

    /// From one record on, as far as each is followed by one that knows of it.
    fn chain(&self, from: usize, to: usize) -> Vec<Record> {
        let next = |r: &Record| self.record(r.end(), to).filter(|n| n.header.follows(&r.header));
        std::iter::successors(self.record(from, to), next).collect()
    }
}
