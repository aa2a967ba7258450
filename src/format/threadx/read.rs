//! The read plan: which bytes are read, the same for a probe, a core and a file.

use super::super::Extent;
use super::capture::{Capture, Part, Place, Torn};
use super::entry::Codec;
use super::header::{self, Header};
use super::layout::{self, MAGIC, MAX_BUFFER, TraceLayout, USUAL_NAME};
use super::order::{COMPARED, Slots};
use super::repair;
use super::symbols::Variables;
use crate::abi::{Addr, Endian, Width};
use crate::bytes::Bytes;
use crate::code::Code;
use crate::error::Error;
use crate::mem::{Memory, ReadError, ReadErrorKind};
use crate::trace::{Issue, Place as At, many};

/// A registry of more bytes is not read before the header was seen.
const MAX_AHEAD: u64 = 1 << 20;
/// The most reads of parts of a range that cannot be read whole.
const MAX_PARTS: u32 = 64;

/// Reads header, registry and the slots that `extent` asks for.
pub(super) fn capture(memory: &mut dyn Memory, place: &Place, extent: Extent) -> Result<Capture, Error> {
    let expected = by_pointers(place);
    if let Some(layout) = &expected {
        read_ahead(memory, layout, extent);
    }
    let head = read_header(memory, place, expected.as_ref())?;
    let (layout, issues) = repair::layout(memory, place, &head, expected.as_ref())?;
    let mut capture = Capture { issues, ..Capture::new(place, layout, extent) };
    capture.issues.extend(not_inserting(&place.kernel));
    read_registry_and_ring(memory, &mut capture)?;
    if memory.changes() {
        find_torn(memory, &mut capture);
    }
    Ok(capture)
}

/// The layout that the kernel's pointers describe, before the header is read; `None` where they are not all known, or make
/// no sense.
fn by_pointers(place: &Place) -> Option<TraceLayout> {
    let known = |pointer: Option<Addr>| pointer.filter(|p| *p != 0);
    let header = place.at.header;
    let registry_start = known(place.kernel.registry_start)?;
    let buffer_start = known(place.kernel.ring_start)?;
    let buffer_end = known(place.kernel.ring_end)?;
    let current = known(place.kernel.current)?;
    let registry_end = known(place.kernel.registry_end).unwrap_or(buffer_start);
    let word = match registry_start.checked_sub(header)? {
        48 => Width::W4,
        96 => Width::W8,
        _ => return None,
    };
    let fields = Header {
        id: u64::from(MAGIC),
        time_mask: u64::from(u32::MAX),
        base: header,
        registry_start,
        name_size: USUAL_NAME,
        registry_end,
        buffer_start,
        buffer_end,
        current,
        marked: true,
    };
    let layout = TraceLayout::new(header, (place.at.endian.unwrap_or(Endian::Little), word), fields, Some(current));
    let sane = registry_end.checked_sub(registry_start)? <= MAX_AHEAD
        && buffer_start >= registry_end
        && buffer_end.checked_sub(buffer_start)? <= MAX_BUFFER
        && layout.capacity > 0
        && layout.slot_at(current).is_some();
    sane.then_some(layout)
}

/// Reads header, registry and newest slots in one round trip: sources with latency remember them.
fn read_ahead(memory: &mut dyn Memory, expected: &TraceLayout, extent: Extent) {
    let described = expected.place(expected.fields.registry_end).wrapping_sub(expected.header);
    let ((first, count), _) = wanted(expected, extent);
    let ring = (expected.address(first), expected.bytes(count));
    drop(memory.read_batch(&[(expected.header, usize::try_from(described).unwrap_or(0)), ring]));
}

fn read_header(memory: &mut dyn Memory, place: &Place, expected: Option<&TraceLayout>) -> Result<Bytes, Error> {
    let (narrow, wide) = (layout::header_size(Width::W4), layout::header_size(Width::W8));
    let at = place.at.header;
    if let Some(head) = expected.and_then(|e| memory.read_bytes(at, layout::header_size(e.word)).ok()) {
        return Ok(head);
    }
    // A 32-bit pointer means a 32-bit ULONG; otherwise the first bytes show it.
    let first = if place.at.pointer == Some(Width::W4) { narrow } else { wide };
    let head = match memory.read_bytes(at, first) {
        // A tiny buffer at the very end of a dump is shorter than a wide header.
        Err(e) if !e.is_fatal() => memory.read_bytes(at, narrow),
        other => other,
    };
    let head = head.map_err(|e| unreadable_header(place, &e))?;
    Ok(match header::detect(&head) {
        Some((_, word, _)) => head.cut(0, layout::header_size(word)).unwrap_or(head),
        // Only the width was misjudged (a 32-bit pointer beside a 64-bit ULONG): look once more.
        None if first == narrow => memory.read_bytes(at, wide).unwrap_or(head),
        None => head,
    })
}

fn unreadable_header(place: &Place, e: &ReadError) -> Error {
    let mut error = e.explain(&format!("the trace header ({})", place.at.how));
    if e.is_fatal() {
        return error;
    }
    error.code = Code::HeaderOutsideMemory;
    let hint = match e.kind {
        ReadErrorKind::Refused(_) => {
            "the pointer points to memory that is not there, or has no power; or the ELF is of another build, or RAM was overwritten"
        }
        _ => {
            "the pointer points outside the memory of this source: the ELF is of another build, the dump is too small, or RAM was overwritten"
        }
    };
    error.hint(hint)
}

/// The issue of a trace into which nothing is inserted. `tx_trace_disable` clears the registry's start with the current
/// pointer; a pause (`control pause`, a debugger) clears the pointer alone.
fn not_inserting(kernel: &Variables) -> Option<Issue> {
    if kernel.current != Some(0) {
        return None;
    }
    Some(match kernel.registry_start {
        Some(0) => Issue::new(
            Code::TraceDisabled,
            "tracing was switched off (tx_trace_disable): these are the events up to then",
        ),
        Some(_) => Issue::new(
            Code::TracePaused,
            "tracing is paused (_tx_trace_buffer_current_ptr is 0 and the rest is whole, as `control pause` leaves it): these are the events up to then; `control resume` lets it go on",
        ),
        None => Issue::new(
            Code::TraceDisabled,
            "nothing is inserted (_tx_trace_buffer_current_ptr is 0): tracing was switched off (tx_trace_disable), or paused (`control pause`): these are the events up to then",
        ),
    })
}

/// Consecutive slots: the first, and how many.
type SlotRange = (u64, u64);

/// The slots that are read for a question; the second range only where the ring has wrapped.
fn wanted(layout: &TraceLayout, extent: Extent) -> (SlotRange, Option<SlotRange>) {
    match (extent, layout.current) {
        // With fewer it would not show whether the pointer leads into the middle of the events.
        (Extent::Newest(n), Some(current)) => newest(layout.capacity, current, n.max(COMPARED)),
        (Extent::Nothing, current) => ((current.unwrap_or(0), 1), None),
        // Without a pointer all of it is needed to find the order.
        (Extent::All | Extent::Newest(_), _) => ((0, layout.capacity), None),
    }
}

/// The slots that hold the newest `n` events, the one at the current pointer, which shows whether the ring has wrapped, and
/// the one after it, which distinguishes a wrap from an insertion that was cut off. The first range ends with these two;
/// the second follows the wrap and holds events only after it.
#[expect(clippy::arithmetic_side_effects, reason = "numbers of slots of one ring")]
fn newest(capacity: u64, current: u64, n: u64) -> (SlotRange, Option<SlotRange>) {
    let n = n.min(capacity);
    let before = n.min(current);
    let rest = n - before;
    let end = (current + 2).min(capacity);
    // When everything is wanted the slots at the current pointer are among them, and are not read twice.
    let tail_start = (capacity - rest).max(end);
    let tail = capacity - tail_start;
    let first = current - before;
    ((first, end - first), (rest > 0 && tail > 0).then_some((tail_start, tail)))
}

fn read_registry_and_ring(memory: &mut dyn Memory, capture: &mut Capture) -> Result<(), Error> {
    let layout = capture.layout;
    // Pointers that contradict each other are decided by all of the stamps. In a target that runs they were read at
    // different moments.
    let sure = layout.differing().is_none() || memory.changes();
    let newest = matches!(capture.extent, Extent::Newest(_));
    let (first, second) = wanted(&layout, if newest && !sure { Extent::All } else { capture.extent });
    let registry = Some((layout.registry, layout.registry_len())).filter(|(_, len)| *len > 0);
    let ring = (layout.address(first.0), layout.bytes(first.1));
    let batch: Vec<(Addr, usize)> = registry.into_iter().chain([ring]).collect();
    let mut results = memory.read_batch(&batch).into_iter();
    if let Some(wanted) = registry {
        take_registry(memory, capture, wanted, results.next())?;
    }
    take_ring(memory, capture, first, results.next())?;
    // Slots after the end of the ring hold events only once it has wrapped.
    if let Some(second) = second.filter(|_| has_wrapped(capture)) {
        take_ring(memory, capture, second, None)?;
    }
    if newest && goes_on(capture) {
        capture.ring.clear();
        take_ring(memory, capture, (0, layout.capacity), None)?;
    }
    Ok(())
}

/// The slot at the current pointer is used, or the one after it is: something may have cleared the first alone.
fn has_wrapped(capture: &Capture) -> bool {
    let is_used = |slot: u64| capture.context(slot).is_some_and(|word| word != 0);
    capture.layout.current.is_none_or(|slot| is_used(slot) || is_used(slot.wrapping_add(1)))
}

/// True where the slot at the current pointer follows the one before it: the pointer was overwritten, and all of the ring
/// is needed to find the newest events.
fn goes_on(capture: &Capture) -> bool {
    let layout = &capture.layout;
    let codec = Codec { endian: layout.endian, word: layout.word, mask: layout.time_mask, cores: 1 };
    let slots = Slots::of(capture, layout, codec);
    slots.captured() < layout.capacity && layout.current.is_some_and(|current| slots.goes_on(current))
}

fn take_registry(
    memory: &mut dyn Memory,
    capture: &mut Capture,
    wanted: (Addr, usize),
    read: Option<Result<Bytes, ReadError>>,
) -> Result<(), Error> {
    let records = Records::read(memory, wanted, capture.layout.object_size(), read, "the object registry")?;
    if records.missing > 0 {
        let message = format!(
            "{} cannot be read: the names of the objects there are not known",
            many(records.missing, "registry entry", "registry entries")
        );
        let issue = Issue::new(Code::RegistryUnreadable, message).times(records.missing);
        capture.issues.push(issue.at(At::address(wanted.0)));
    }
    // Only what is at its start keeps its place.
    if let Some((_, bytes)) = records.parts.into_iter().find(|(at, _)| *at == wanted.0) {
        capture.registry = bytes;
    }
    Ok(())
}

fn take_ring(
    memory: &mut dyn Memory,
    capture: &mut Capture,
    (slot, count): SlotRange,
    read: Option<Result<Bytes, ReadError>>,
) -> Result<(), Error> {
    let layout = capture.layout;
    let wanted = (layout.address(slot), layout.bytes(count));
    let read = read.or_else(|| Some(memory.read_bytes(wanted.0, wanted.1)));
    let records = Records::read(memory, wanted, layout.entry_size(), read, "the event ring")?;
    if records.missing > 0 {
        let message = format!("{} of {count} event slots cannot be read", records.missing);
        let issue = Issue::new(Code::RingUnreadable, message).times(records.missing);
        capture.issues.push(issue.at(At::address(records.first_gap(wanted.0))));
    }
    let parts = records.parts.into_iter();
    capture.ring.extend(parts.map(|(at, bytes)| Part { slot: layout.slot_of(at), bytes }));
    Ok(())
}

/// Records of one size that were read.
struct Records {
    /// By address: whole records.
    parts: Vec<(Addr, Bytes)>,
    /// How many could not be read.
    missing: u64,
}

impl Records {
    /// Takes what was `read` of a range, or what of it can be read.
    fn read(
        memory: &mut dyn Memory,
        (address, len): (Addr, usize),
        size: usize,
        read: Option<Result<Bytes, ReadError>>,
        what: &str,
    ) -> Result<Self, Error> {
        match read {
            Some(Ok(bytes)) => return Ok(Self { parts: vec![(address, bytes)], missing: 0 }),
            Some(Err(e)) if e.is_fatal() => return Err(e.explain(what)),
            _ => {}
        }
        let parts = read_what_is_there(memory, address, len, size)?;
        let got: usize = parts.iter().map(|(_, bytes)| bytes.len()).sum();
        Ok(Self { parts, missing: len.saturating_sub(got).checked_div(size).unwrap_or(0) as u64 })
    }

    /// The first address from `start` on that no part holds; they are sorted by address.
    fn first_gap(&self, start: Addr) -> Addr {
        let next = |at: Addr, (part, bytes): &(Addr, Bytes)| {
            if *part == at { at.wrapping_add(bytes.len() as u64) } else { at }
        };
        self.parts.iter().fold(start, next)
    }
}

/// The whole records of `size` bytes that can be read in a range that cannot be read whole: by the source's own list of
/// regions, or by halving.
fn read_what_is_there(
    memory: &mut dyn Memory,
    address: Addr,
    len: usize,
    size: usize,
) -> Result<Vec<(Addr, Bytes)>, Error> {
    let record = size as u64;
    let mut left: Vec<(Addr, u64)> = vec![(address, (len as u64).checked_div(record).unwrap_or(0))];
    if let Some(regions) = memory.regions() {
        let end = address.saturating_add(len as u64);
        let inside = regions.iter().rev().map(|r| {
            // Whole records only.
            let skip = r.start.max(address).wrapping_sub(address).div_ceil(record).saturating_mul(record);
            let start = address.wrapping_add(skip);
            let past = r.start.saturating_add(r.len).min(end);
            (start, past.saturating_sub(start).checked_div(record).unwrap_or(0))
        });
        left = inside.collect();
    }
    let (mut found, mut budget) = (Vec::new(), MAX_PARTS);
    while let Some((at, count)) = left.pop() {
        if count == 0 || budget == 0 {
            continue;
        }
        budget = budget.saturating_sub(1);
        match memory.read_bytes(at, usize::try_from(count.saturating_mul(record)).unwrap_or(usize::MAX)) {
            Ok(bytes) => found.push((at, bytes)),
            Err(e) if e.is_fatal() => return Err(e.explain("the trace buffer")),
            Err(_) if count == 1 => {}
            Err(_) => {
                let half = count.div_ceil(2);
                left.push((at.wrapping_add(half.saturating_mul(record)), count.saturating_sub(half)));
                left.push((at, half));
            }
        }
    }
    Ok(found)
}

/// Where the target ran while it was read: which slots were written meanwhile, and whether all of them were.
fn find_torn(memory: &mut dyn Memory, capture: &mut Capture) {
    memory.refresh();
    let layout = capture.layout;
    let Some(before) = layout.current else { return };
    let newest = layout.before(before, 1);
    let wanted = [(layout.current_at(), layout.word.bytes()), (layout.address(newest), layout.entry_size())];
    let mut results = memory.read_batch(&wanted).into_iter();
    let pointer = results.next().and_then(Result::ok).and_then(|b| layout.endian.word(layout.word, &b, 0));
    let Some(after) = pointer.and_then(|p| layout.slot_of_pointer(p)) else { return };
    let written = layout.distance(before, after);
    // What was the newest event before is another now: the ring went all around.
    let lapped = results
        .next()
        .and_then(Result::ok)
        .zip(capture.slot(newest))
        .is_some_and(|(now, was)| !same_event(&now, &was, layout.word));
    // The slot at the pointer may be half written, whatever moved.
    let count = if lapped { layout.capacity } else { written.saturating_add(1) };
    capture.torn = Some(Torn { first: before, count });
    if lapped {
        capture.issues.push(Issue::new(
            Code::Lapped,
            "the target overwrote the whole ring while it was read: nothing read can be trusted; halt it, or read fewer events",
        ));
    } else if written > 0 {
        let message = format!(
            "{} while the trace was read, and left out",
            many(written, "slot was written", "slots were written")
        );
        capture.issues.push(Issue::new(Code::Torn, message).times(written));
    }
}

/// True where two slots hold the same event: the same context, id and stamp. The kernel may have filled in the rest since.
pub(super) fn same_event(a: &[u8], b: &[u8], word: Width) -> bool {
    let first = word.bytes().saturating_mul(4);
    a.get(..first).is_some_and(|a| b.get(..first) == Some(a))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_slots_never_overlap_and_always_hold_the_current_one() {
        for capacity in 1..12u64 {
            for current in 0..capacity {
                for n in 0..14u64 {
                    let (first, second) = newest(capacity, current, n);
                    let mut slots: Vec<u64> =
                        std::iter::once(&first).chain(&second).flat_map(|&(s, c)| s..s + c).collect();
                    assert!(slots.iter().all(|s| *s < capacity), "{capacity} {current} {n}");
                    assert!(slots.contains(&current));
                    let wanted: Vec<u64> = (1..=n.min(capacity)).map(|k| (current + capacity - k) % capacity).collect();
                    assert!(wanted.iter().all(|w| slots.contains(w)), "{capacity} {current} {n}: {slots:?}");
                    let len = slots.len();
                    slots.sort_unstable();
                    slots.dedup();
                    assert_eq!(len, slots.len());
                    assert!(len as u64 <= n.min(capacity) + 2);
                }
            }
        }
    }
}
