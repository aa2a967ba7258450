//! The read plan: the headers of all buffers, then of each what it holds. Everything that a ring holds is read,
//! even for a few events: the names of processes can be anywhere, and events are numbered by their assembled order.

use super::super::partial::prefix;
use super::super::{self as format, DecodeOptions, Extent, merged};
use super::assemble::Segment;
use super::kev::{self, Kev};
use super::layout::{self, ELEMENT, Shape};
use super::ring::{self, Ring, Slot};
use super::{decode, locate, parse, syspage};
use crate::abi::{Addr, Endian};
use crate::bytes::Bytes;
use crate::catalogue::{Catalogue, Names, qnx_events};
use crate::code::Code;
use crate::error::Error;
use crate::mem::{MAX_READ, Memory, Region};
use crate::trace::{Issue, Place, Trace};

/// Buffers that are read in one round trip.
const BATCH: usize = 8;

/// What was read of a ring or a file.
#[derive(Debug)]
pub(super) struct Capture {
    /// How it was found.
    pub how: String,
    pub endian: Endian,
    /// Ticks of the clock in a second.
    pub cycles: Option<u64>,
    /// The elements, oldest first.
    pub segments: Vec<Segment>,
    pub origin: Origin,
    /// What was read.
    regions: Vec<Region>,
    pub issues: Vec<Issue>,
    pub extent: Extent,
}

/// Where the elements are from.
#[derive(Debug)]
pub(super) enum Origin {
    /// A file of the trace logger.
    File { address: Addr, head: Kev, elements: u64 },
    /// The buffers of a ring.
    Ring {
        shape: Shape,
        /// Where its first buffer is, and where the kernel says that it is.
        start: Addr,
        base: Addr,
        /// How many buffers it has.
        buffers: u64,
        /// The numbers of those that hold events, oldest first.
        sequences: Vec<u32>,
        /// The place of the one that is being written.
        written: Option<u64>,
    },
}

impl format::Capture for Capture {
    fn catalogue(&self, _names: Names) -> Catalogue {
        qnx_events().catalogue()
    }

    fn decode(&self, _catalogue: &Catalogue, options: &DecodeOptions) -> Result<Trace, Error> {
        Ok(decode::decode(self, options))
    }

    fn ranges(&self) -> Vec<Region> {
        merged(self.regions.iter().copied())
    }

    fn issues(&self) -> &[Issue] {
        &self.issues
    }
}

/// Reads the ring, or the file.
#[expect(clippy::arithmetic_side_effects, reason = "at most 65,536 buffers of known size")]
pub(super) fn capture(memory: &mut dyn Memory, place: &locate::Place, extent: Extent) -> Result<Capture, Error> {
    if kev::lies_at(memory, place.at.header) {
        return file(memory, place, extent);
    }
    let ring = Ring::walk(memory, place.at.header)?;
    let order = ring.order();
    let mut issues = ring::issues(&ring, &order);
    let cycles = place.cycles.or_else(|| {
        // Only files list their memory: a target is not searched for a rate.
        syspage::search(memory, ring.endian, &|own| ring.holds(own)).and_then(|s| s.cycles)
    });
    let filled = read_buffers(memory, &ring, &order, &mut issues)?;
    let (shape, buffers) = (ring.shape, (ring.slots.len() as u64).max(1));
    let (mut segments, mut sequences, mut written) = (Vec::new(), Vec::new(), None);
    for (address, bytes) in &filled {
        let Ok((_, raw)) = parse::buffer(bytes, ring.endian, shape) else { continue };
        let index = address.wrapping_sub(ring.start) / layout::BUFFER as u64;
        let after_gap = sequences.last().is_some_and(|p: &u32| p.wrapping_add(1) != raw.sequence);
        sequences.push(raw.sequence);
        if raw.flags & layout::BEING_WRITTEN != 0 {
            written = Some(index);
        }
        let header = shape.header();
        segments.push(Segment {
            bytes: from(bytes, header),
            address: address.wrapping_add(header as u64),
            slot: index * shape.capacity(),
            after_gap,
            count: raw.count(shape).0.and_then(|n| usize::try_from(n).ok()),
        });
    }
    Ok(Capture {
        how: place.at.how.clone(),
        endian: ring.endian,
        cycles,
        segments,
        origin: Origin::Ring { shape, start: ring.start, base: ring.base, buffers, sequences, written },
        regions: filled.iter().map(|(start, b)| Region { start: *start, len: b.len() as u64 }).collect(),
        issues,
        extent,
    })
}

/// The bytes from an offset on; none where they end before it.
fn from(bytes: &Bytes, offset: usize) -> Bytes {
    let rest = bytes.len().checked_sub(offset).and_then(|len| bytes.cut(offset, len));
    rest.unwrap_or_else(|| Bytes::from(Vec::new()))
}

/// Reads the used part of each buffer, as far as it can be read.
fn read_buffers(
    memory: &mut dyn Memory,
    ring: &Ring,
    order: &[Slot],
    issues: &mut Vec<Issue>,
) -> Result<Vec<(Addr, Bytes)>, Error> {
    let header = ring.shape.header();
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "a header, and at most as many elements as a buffer has room for"
    )]
    let length = |slot: &Slot| slot.count as usize * ELEMENT + header;
    let mut filled = Vec::new();
    for part in order.chunks(BATCH) {
        let wanted: Vec<(Addr, usize)> = part.iter().map(|s| (s.address, length(s))).collect();
        for (slot, result) in part.iter().zip(memory.read_batch(&wanted)) {
            let bytes = match result {
                Ok(bytes) => bytes,
                Err(e) if e.is_fatal() => return Err(e.explain(ring::WHAT)),
                Err(_) => prefix(memory, slot.address, length(slot), ring::WHAT)?,
            };
            let got = from(&bytes, header).len() / ELEMENT;
            if let Some(missing) = slot.count.checked_sub(got as u64).filter(|missing| *missing > 0) {
                let text = format!("{missing} of {} elements of buffer {} cannot be read", slot.count, slot.index);
                let issue = Issue::new(Code::RingUnreadable, text).times(missing);
                issues.push(issue.at(Place::address(slot.address)));
            }
            filled.push((slot.address, bytes));
        }
    }
    Ok(filled)
}

/// A file of the trace logger is one segment.
fn file(memory: &mut dyn Memory, place: &locate::Place, extent: Extent) -> Result<Capture, Error> {
    let address = place.at.header;
    let broken = |why: &str| {
        Error::failed(Code::HeaderDamaged, format!("the trace file {why}"), "give the whole .kev file with --trace")
    };
    let inside = |r: &Region| r.len.checked_sub(address.checked_sub(r.start)?).filter(|left| *left > 0);
    let left = memory.regions().and_then(|all| all.iter().find_map(inside));
    let left = left.ok_or_else(|| broken("can only be read as a file"))?;
    let len = usize::try_from(left).ok().filter(|l| *l <= 8 * MAX_READ);
    let len = len.ok_or_else(|| broken("is too large"))?;
    let bytes = memory.read_bytes(address, len).map_err(|e| e.explain("the trace file"))?;
    let head = kev::parse(&bytes).ok_or_else(|| broken("has a text header that is damaged, or has no end"))?;
    let cycles =
        head.cycles.or_else(|| bytes.get(head.syspage..).and_then(|page| syspage::cycles(page, head.endian())));
    let at = address.wrapping_add(head.events as u64);
    let repaired = head.repaired.then(|| {
        let text = "the file's header is damaged: its elements were found by what they look like, and the first may be missing";
        Issue::new(Code::HeaderMended, text).at(Place::address(at))
    });
    let elements = from(&bytes, head.events);
    let count = elements.len() / ELEMENT;
    Ok(Capture {
        how: place.at.how.clone(),
        endian: head.endian(),
        cycles,
        segments: vec![Segment { bytes: elements, address: at, slot: 0, after_gap: false, count: Some(count) }],
        origin: Origin::File { address, head, elements: count as u64 },
        regions: vec![Region { start: address, len: bytes.len() as u64 }],
        issues: repaired.into_iter().collect(),
        extent,
    })
}
