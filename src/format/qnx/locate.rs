//! Where the ring is: by address, by the system page, by search.

use super::super::{self as format, Extent, Found, Haystack, Hints, Located, Location};
use super::kev;
use super::layout::{self, Shape};
use super::ring::Ring;
use super::{parse, read, syspage};
use crate::abi::{Addr, Endian, Width};
use crate::code::Code;
use crate::error::Error;
use crate::mem::Memory;
use crate::sym::Symbols;

/// The kernel's and every program's pointer to the system page.
const SYSPAGE_POINTER: &str = "_syspage_ptr";
/// Buffers are looked for at multiples of this in a dump.
const STEP: usize = 4;

/// Where a ring or a file is.
#[derive(Debug)]
pub(super) struct Place {
    pub at: Location,
    /// Ticks of the clock in a second, where a system page led here.
    pub cycles: Option<u64>,
}

impl Located for Place {
    fn location(&self) -> &Location {
        &self.at
    }

    fn capture(
        &self,
        memory: &mut dyn Memory,
        _symbols: &dyn Symbols,
        extent: Extent,
    ) -> Result<Box<dyn format::Capture>, Error> {
        Ok(Box::new(read::capture(memory, self, extent)?))
    }
}

/// Finds the ring by option, or by the system page.
pub(super) fn locate(memory: &mut dyn Memory, symbols: &dyn Symbols, hints: &Hints) -> Result<Place, Error> {
    let endian = hints.endian.unwrap_or(Endian::Little);
    let place = |header, how: String, cycles: Option<u64>, by_symbols| Place {
        at: Location { header, endian: hints.endian, pointer: hints.pointer, how, by_symbols },
        cycles,
    };
    if let Some(at) = hints.given() {
        let header = at.header;
        // A system page may be given as well: it names the buffer that is being written.
        let is_trace = kev::lies_at(memory, header) || Ring::walk(memory, header).is_ok();
        if !is_trace && let Some(page) = syspage::read(memory, header, endian) {
            let how = format!("--header {header:#x} is the system page; it names the buffer at {:#x}", page.buffer);
            return Ok(place(page.buffer, how, page.cycles, false));
        }
        return Ok(Place { at, cycles: None });
    }
    let mut error = Error::not_found(
        Code::NoTraceSymbol,
        format!("no symbol gives the address of the system page ({SYSPAGE_POINTER}), which names the trace ring"),
        "give the address of any buffer of the ring with --header ADDR, or search the memory with --scan",
    );
    let Some(symbol) = symbols.lookup(SYSPAGE_POINTER) else { return Err(error) };
    let width = Width::from_bytes(symbol.size).or(hints.pointer).unwrap_or(Width::W4);
    let pointer = memory
        .read_bytes(symbol.address, width.bytes())
        .map_err(|e| e.explain(SYSPAGE_POINTER))
        .map(|b| endian.word(width, &b, 0).unwrap_or_default())?;
    match syspage::read(memory, pointer, endian) {
        Some(page) => Ok(place(
            page.buffer,
            format!("the system page at {pointer:#x} names the buffer at {:#x}", page.buffer),
            page.cycles,
            true,
        )),
        None => {
            error.message = format!(
                "the system page at {pointer:#x} names no trace ring: the kernel was not asked to trace, or is not QNX 6.4"
            );
            Err(error)
        }
    }
}

/// Every ring whose header is in `bytes`, once each: at its first buffer that is sound.
pub(super) fn scan(hay: &Haystack<'_>, most: usize) -> Vec<Found> {
    let bytes = hay.bytes();
    let mut found = Vec::new();
    if most == 0 {
        return found;
    }
    if kev::is_file(bytes) {
        if let Some(kev) = kev::parse(bytes) {
            let elements = bytes.get(kev.events..).unwrap_or_default().len() / layout::ELEMENT;
            found.push(Found {
                offset: 0,
                base: 0,
                capacity: elements as u64,
                endian: kev.endian(),
                word: Width::W4,
                events: None,
            });
        }
        return found;
    }
    // Where the rings that were found begin and end, as offsets that may be before the bytes.
    let mut rings: Vec<(u64, u64)> = Vec::new();
    for at in hay.offsets(STEP) {
        let Some(window) = bytes.get(at..).filter(|w| w.len() >= Shape::Narrow.header()) else { break };
        if found.len() >= most {
            break;
        }
        if parse::may_be_buffer(window)
            && let Some((shape, endian, raw)) = parse::detect(window)
        {
            let offset = at as u64;
            let start = match shape {
                // Buffers without links that are together are one ring.
                Shape::Unlinked => rings.last().filter(|(_, end)| *end == offset).map_or(offset, |(start, _)| *start),
                _ => offset.wrapping_sub(layout::behind(raw.index())),
            };
            let end = offset.wrapping_add(layout::BUFFER as u64);
            match rings.iter_mut().find(|(s, _)| *s == start) {
                Some(ring) => ring.1 = end,
                None => {
                    rings.push((start, end));
                    let capacity = capacity(window, shape, endian, &raw);
                    let base = if shape == Shape::Unlinked { offset } else { raw.own(shape) };
                    found.push(Found { offset: at, base, capacity, endian, word: shape.pointer(), events: None });
                }
            }
        }
    }
    found
}

/// Number of elements that the ring has room for, as far as its buffers are in the bytes, which begin with one of it.
#[expect(clippy::arithmetic_side_effects, reason = "counts at most 65,536 buffers")]
fn capacity(bytes: &[u8], shape: Shape, endian: Endian, raw: &parse::RawBuffer) -> u64 {
    if shape == Shape::Unlinked {
        return shape.capacity();
    }
    let mut buffers = raw.index() + 1;
    for window in (0..).map_while(|n| bytes.get(n * layout::BUFFER..)) {
        let Ok((_, next)) = parse::buffer(window, endian, shape) else { break };
        if next.base != raw.base || !next.is_placed(shape) {
            break;
        }
        buffers = next.index() + 1;
        if next.is_last() {
            break;
        }
    }
    buffers * shape.capacity()
}

/// Each ring once, the live one first: the kernel's page names it; without a page it is the one that was written last. A
/// search in steps can find one ring twice.
pub(super) fn sift(memory: &mut dyn Memory, hits: Vec<(Addr, Found)>) -> Vec<(Addr, Found)> {
    let mut rings: Vec<(Addr, Found, Option<Ring>)> = Vec::new();
    for (address, found) in hits {
        let ring = Ring::walk(memory, address).ok();
        let start = ring.as_ref().map(|r| r.start);
        let known = |r: &Option<Ring>| start.is_some() && r.as_ref().map(|r| r.start) == start;
        if !rings.iter().any(|(_, _, r)| known(r)) {
            rings.push((address, found, ring));
        }
    }
    if rings.len() < 2 {
        return rings.into_iter().map(|(a, f, _)| (a, f)).collect();
    }
    let endian = rings.first().map_or(Endian::Little, |(_, f, _)| f.endian);
    let page =
        syspage::search(memory, endian, &|own| rings.iter().any(|(_, _, r)| r.as_ref().is_some_and(|r| r.holds(own))));
    rings.sort_by_key(|(address, _, ring)| {
        let named = page.is_some_and(|p| ring.as_ref().is_some_and(|r| r.holds(p.buffer)));
        let newest = ring.as_ref().and_then(Ring::newest);
        std::cmp::Reverse((named, newest, std::cmp::Reverse(*address)))
    });
    rings.into_iter().map(|(a, f, _)| (a, f)).collect()
}
