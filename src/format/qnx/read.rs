//! The read plan: the headers of all buffers, then of each what it holds. Everything that a ring holds is read,
//! whatever is asked: the names of processes can stand anywhere, and events are numbered by their assembled order.

use super::super::{self as format, DecodeOptions, Extent, merged};
use super::layout::{ELEMENT, Shape};
use super::locate;
use super::ring::{self, Ring, Slot};
use super::{decode, kev, syspage};
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
    pub held: Held,
    pub issues: Vec<Issue>,
    pub extent: Extent,
}

/// The bytes.
#[derive(Debug)]
pub(super) enum Held {
    /// A file of the trace logger.
    File { address: Addr, bytes: Bytes },
    /// The buffers of a ring that hold events, oldest first.
    Ring {
        shape: Shape,
        /// Where its first buffer lies, and where the kernel says that it does.
        start: Addr,
        base: Addr,
        /// How many buffers it has.
        buffers: u64,
        filled: Vec<(Addr, Bytes)>,
    },
}

impl format::Capture for Capture {
    fn catalogue(&self, _names: Names) -> Catalogue {
        qnx_events().catalogue()
    }

    fn decode(&self, _catalogue: &Catalogue, options: &DecodeOptions) -> Result<Trace, Error> {
        decode::decode(self, options)
    }

    fn ranges(&self) -> Vec<Region> {
        let region = |start: Addr, bytes: &Bytes| Region { start, len: bytes.len() as u64 };
        match &self.held {
            Held::File { address, bytes } => vec![region(*address, bytes)],
            Held::Ring { filled, .. } => merged(filled.iter().map(|(at, bytes)| region(*at, bytes))),
        }
    }

    fn issues(&self) -> &[Issue] {
        &self.issues
    }
}

/// Reads the ring, or the file.
pub(super) fn capture(memory: &mut dyn Memory, place: &locate::Place, extent: Extent) -> Result<Capture, Error> {
    if kev::lies_at(memory, place.at.header) {
        return file(memory, place, extent);
    }
    let ring = Ring::walk(memory, place.at.header)?;
    let order = ring.order();
    let mut issues = ring::issues(&ring, &order);
    let cycles = place.cycles.or_else(|| {
        // Files tell what memory they have; a target is not searched for a rate.
        syspage::search(memory, ring.endian, &|own| ring.holds(own)).and_then(|s| s.cycles)
    });
    let mut filled = Vec::new();
    for part in order.chunks(BATCH) {
        let wanted: Vec<(Addr, usize)> = part.iter().map(|s| (s.address, length(&ring, s))).collect();
        for (slot, result) in part.iter().zip(memory.read_batch(&wanted)) {
            let bytes = match result {
                Ok(bytes) => bytes,
                Err(e) if e.is_fatal() => return Err(e.explain("the trace ring")),
                Err(_) => {
                    let bytes = prefix(memory, slot.address, length(&ring, slot))?;
                    let got = (bytes.len().saturating_sub(ring.shape.header()) as u64).checked_div(ELEMENT as u64);
                    let missing = slot.count.saturating_sub(got.unwrap_or(0));
                    issues.push(
                        Issue::new(
                            Code::RingUnreadable,
                            format!("{missing} of {} elements of buffer {} cannot be read", slot.count, slot.index),
                        )
                        .times(missing)
                        .at(Place::address(slot.address)),
                    );
                    bytes
                }
            };
            filled.push((slot.address, bytes));
        }
    }
    let held =
        Held::Ring { shape: ring.shape, start: ring.start, base: ring.base, buffers: ring.slots.len() as u64, filled };
    Ok(Capture { how: place.at.how.clone(), endian: ring.endian, cycles, held, issues, extent })
}

/// Bytes of a buffer that mean something.
fn length(ring: &Ring, slot: &Slot) -> usize {
    let events = usize::try_from(slot.count).unwrap_or(0).saturating_mul(ELEMENT);
    ring.shape.header().saturating_add(events)
}

/// As much of a range as can be read from its start.
fn prefix(memory: &mut dyn Memory, address: Addr, len: usize) -> Result<Bytes, Error> {
    let (mut low, mut high) = (0usize, len);
    let mut best = Bytes::from(Vec::new());
    while low < high {
        let middle = low.saturating_add(high.saturating_sub(low).div_ceil(2));
        match memory.read_bytes(address, middle) {
            Ok(bytes) => (low, best) = (middle, bytes),
            Err(e) if e.is_fatal() => return Err(e.explain("the trace ring")),
            Err(_) => high = middle.saturating_sub(1),
        }
    }
    Ok(best)
}

/// A file of the trace logger is one block.
fn file(memory: &mut dyn Memory, place: &locate::Place, extent: Extent) -> Result<Capture, Error> {
    let address = place.at.header;
    let holds = |r: &Region| r.start <= address && address.wrapping_sub(r.start) < r.len;
    let region = memory.regions().and_then(|all| all.into_iter().find(holds));
    let broken = |why: &str| {
        Error::failed(Code::HeaderDamaged, format!("the trace file {why}"), "give the whole .kev file with --trace")
    };
    let region = region.ok_or_else(|| broken("can only be read as a file"))?;
    let len = region.len.saturating_sub(address.wrapping_sub(region.start));
    let len =
        usize::try_from(len).ok().filter(|l| *l <= MAX_READ.saturating_mul(8)).ok_or_else(|| broken("is too large"))?;
    let bytes = memory.read_bytes(address, len).map_err(|e| e.explain("the trace file"))?;
    let head = kev::parse(&bytes).ok_or_else(|| broken("has a text header that is damaged, or has no end"))?;
    let cycles =
        head.cycles.or_else(|| bytes.get(head.syspage..).and_then(|page| syspage::cycles(page, head.endian())));
    let mended = head.mended.then(|| {
        let text = "the file's header is damaged: its elements were found by what they look like, and the first may be missing";
        let at = address.wrapping_add(head.events as u64);
        Issue::new(Code::HeaderMended, text).at(Place::address(at))
    });
    Ok(Capture {
        how: place.at.how.clone(),
        endian: head.endian(),
        cycles,
        held: Held::File { address, bytes },
        issues: mended.into_iter().collect(),
        extent,
    })
}
