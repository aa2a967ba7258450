//! The read plan: which bytes a question needs, the same for a probe, a core and a file.

use super::super::Extent;
use super::entry::Codec;
use super::held::{self, Block, Capture};
use super::mend::{self, Mended};
use super::order::Slots;
use super::parse::RawHeader;
use super::ring::{self, Geometry};
use super::walk::Behind;
use super::{clock, layout, order_name, parse};
use crate::abi::{Addr, Endian, Width};
use crate::bytes::Bytes;
use crate::code::Code;
use crate::error::Error;
use crate::mem::{Memory, ReadError, ReadErrorKind};
use crate::trace::{Issue, Place};

/// Reads header, registry and the slots that `extent` asks for.
pub(super) fn capture(memory: &mut dyn Memory, place: &held::Place, extent: Extent) -> Result<Capture, Error> {
    let mut issues = Vec::new();
    let planned = plan_by_pointers(place);
    let (head, registry, ring) = match planned.and_then(|p| read_planned(memory, place, &p, extent)) {
        Some(parts) => parts,
        None => read_header_first(memory, place)?,
    };
    let Header { endian, word, raw, mended } = whole_header(memory, place, &head)?;
    let current = place.known("_tx_trace_buffer_current_ptr").filter(|p| *p != 0);
    let geometry = Geometry::new(place.at.header, endian, word, &raw, current, &mut issues);
    let mut capture = Capture {
        endian,
        word,
        blocks: vec![Block { role: "header", address: place.at.header, bytes: head }],
        values: vec![("header", place.at.header)],
        issues,
        place: place.clone(),
        extent,
        is_newer: false,
    };
    if let Some(mended) = mended {
        capture.values.extend(mended.values);
        capture.issues.push(mended.issue);
    }
    capture.values.extend(current.map(|c| ("current", c)));
    remember(place, &mut capture);
    let running = place.known.iter().filter(|(n, _)| *n == "_tx_thread_current_ptr");
    capture.values.extend(running.map(|(_, v)| ("running", *v)));
    capture.issues.extend(standing_still(place));
    let mut reader = Reader { memory, geometry: &geometry, capture: &mut capture };
    let registry_bytes = usize::try_from(geometry.objects)
        .ok()
        .and_then(|n| n.checked_mul(layout::object_size(word, geometry.name_size)))
        .unwrap_or(0);
    let have_registry = registry.filter(|r| r.len() == registry_bytes);
    let have_ring = ring.filter(|r| geometry.slot_of(r.address) < geometry.capacity);
    reader.read(extent, registry_bytes, have_registry, have_ring)?;
    if memory.changes() {
        look_again(memory, &geometry, &mut capture);
    }
    Ok(capture)
}

/// What to say of a trace into which nothing is inserted. `tx_trace_disable` clears the registry's start with the current
/// pointer; who pauses (`control pause`, a debugger) clears the pointer alone.
fn standing_still(place: &held::Place) -> Option<Issue> {
    if place.known("_tx_trace_buffer_current_ptr") != Some(0) {
        return None;
    }
    Some(match place.known("_tx_trace_registry_start_ptr") {
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

/// What decoding needs of the kernel's variables.
pub(super) fn remember(place: &held::Place, capture: &mut Capture) {
    for (name, symbol) in [
        ("cores", "cores"),
        ("enable_bits", "_tx_trace_event_enable_bits"),
        ("core_clock", "SystemCoreClock"),
        (clock::LINUX, clock::LINUX),
    ] {
        capture.values.extend(place.known(symbol).map(|v| (name, v)));
    }
}

/// Where the target runs on while it is read: which slots were written meanwhile, and whether all of them were.
fn look_again(memory: &mut dyn Memory, g: &Geometry, capture: &mut Capture) {
    memory.refresh();
    let Some(before) = g.current else { return };
    // Its ninth word, in either width.
    let field = g.word.bytes().saturating_mul(8);
    let newest = before.checked_sub(1).unwrap_or(g.capacity.saturating_sub(1));
    let entry = layout::entry_size(g.word);
    let mut results = memory
        .read_batch(&[(g.header.wrapping_add(field as u64), g.word.bytes()), (g.address(newest), entry)])
        .into_iter();
    let pointer = results.next().and_then(Result::ok).and_then(|b| g.endian.word(g.word, &b, 0));
    let Some(after) = pointer.and_then(|p| g.slot_of_pointer(p)) else { return };
    let written = if after >= before {
        after.saturating_sub(before)
    } else {
        after.saturating_add(g.capacity).saturating_sub(before)
    };
    // What was the newest event before is another now: the ring went all around.
    let was = capture.blocks("ring").find_map(|b| {
        let offset = usize::try_from(g.address(newest).checked_sub(b.address)?).ok()?;
        b.bytes.cut(offset, entry)
    });
    // Its last words may have been filled in late; the first four stay.
    let lapped = results.next().and_then(Result::ok).zip(was).is_some_and(|(now, was)| !same_event(&now, &was, g.word));
    // The slot at the pointer may be half written, whatever moved.
    let count = if lapped { g.capacity } else { written.saturating_add(1) };
    capture.values.extend([("torn_first", before), ("torn_count", count)]);
    if lapped {
        capture.issues.push(Issue::new(
            Code::Lapped, "the target wrote the whole ring anew while it was read: nothing read can be trusted; halt it, or read fewer events",
        ));
    } else if written > 0 {
        capture.issues.push(
            Issue::new(Code::Torn, format!("{written} slots were written while they were read, and are left out"))
                .times(written),
        );
    }
}

/// True where two slots hold the same event: who, what and when; the kernel may have filled in the rest since.
pub(super) fn same_event(a: &[u8], b: &[u8], word: Width) -> bool {
    let first = word.bytes().saturating_mul(4);
    a.get(..first).is_some_and(|a| b.get(..first) == Some(a))
}

/// Bytes behind a damaged header that are looked at to make it whole.
const LOOKED_AT: u64 = 1 << 20;

/// A header that the rest can be read by.
struct Header {
    endian: Endian,
    word: Width,
    raw: RawHeader,
    mended: Option<Mended>,
}

/// False where the kernel's own pointers lead elsewhere: they are set together with the header, and never after.
fn agrees(place: &held::Place, word: Width, raw: &RawHeader) -> bool {
    let Some(plan) = plan_by_pointers(place).filter(|p| p.word == word) else { return true };
    let offset = |pointer: Addr| pointer.wrapping_sub(place.at.header);
    raw.offset(raw.buffer_start, word) == offset(plan.start) && raw.offset(raw.buffer_end, word) == offset(plan.end)
}

/// The header, made whole where it is damaged, with all of the ring that is there.
fn whole_header(memory: &mut dyn Memory, place: &held::Place, head: &Bytes) -> Result<Header, Error> {
    let mut header = sound_header(memory, place, head)?;
    if let Some((end, issue)) = longer(memory, place, &header) {
        let values = vec![("mend_buffer_end", end)];
        header.raw = header.raw.with(&values, header.word);
        match &mut header.mended {
            Some(mended) => {
                mended.values.retain(|(name, _)| *name != "mend_buffer_end");
                mended.values.extend(values);
            }
            None => header.mended = Some(Mended { values, issue }),
        }
    }
    Ok(header)
}

/// Slots before the ring's end, which show what its events are like.
const BEFORE_END: u64 = 256;

/// Where the ring ends, and what to say, if events go on behind where it is said to end. Only where it costs no packet to
/// look, and where the kernel's own pointers do not say the same.
fn longer(memory: &mut dyn Memory, place: &held::Place, header: &Header) -> Option<(u64, Issue)> {
    let (raw, word) = (&header.raw, header.word);
    if plan_by_pointers(place).is_some_and(|plan| plan.word == word) {
        return None;
    }
    let regions = memory.regions()?;
    let entry = layout::entry_size(word) as u64;
    let (start, end) = (raw.offset(raw.buffer_start, word), raw.offset(raw.buffer_end, word));
    let at = place.at.header.checked_add(end)?;
    let room = regions.iter().find_map(|r| r.len.checked_sub(at.checked_sub(r.start)?))?;
    let slots = |bytes: u64| bytes.checked_div(entry).unwrap_or(0);
    let before = slots(end.saturating_sub(start)).min(BEFORE_END).saturating_mul(entry);
    let after = slots(room.min(LOOKED_AT)).saturating_mul(entry);
    if after == 0 {
        return None;
    }
    let mut read = |address: Addr, len: u64| memory.read_bytes(address, usize::try_from(len).ok()?).ok();
    let described = read(place.at.header, start.min(LOOKED_AT))?;
    let tail = read(at.checked_sub(before)?, before)?;
    let behind = read(at, after)?;
    let first = read(place.at.header.checked_add(start)?, entry)?;
    let known = Behind { bytes: &described, endian: header.endian, word };
    let more = known.going_on(layout::object_size(word, raw.name_size.min(layout::MAX_NAME)), &first, &tail, &behind);
    let taken = raw.buffer_end.wrapping_add(more.saturating_mul(entry)) & word.max();
    let issue = Issue::new(
        Code::HeaderMended,
        format!(
            "the ring is said to end at {:#x}, and {more} slots behind that go on with events: its end was written over, and {taken:#x} is taken",
            raw.buffer_end
        ),
    );
    (more > 0).then(|| (taken, issue.at(Place::address(place.at.header))))
}

/// The header, made whole where it is damaged.
fn sound_header(memory: &mut dyn Memory, place: &held::Place, head: &Bytes) -> Result<Header, Error> {
    let detected = parse::detect(head);
    let sound = |(_, word, raw): &(Endian, Width, RawHeader)| {
        raw.is_sound(*word) && raw.has_clock() && agrees(place, *word, raw)
    };
    if let Some((endian, word, raw)) = detected.filter(sound) {
        return Ok(Header { endian, word, raw, mended: None });
    }
    // Without its magic a header is one only where the kernel's pointers agree with each other.
    let by_pointers = || {
        let plan = plan_by_pointers(place)?;
        let endian = place.at.endian?;
        let (_, raw) = parse::header(head, endian, plan.word).ok()?;
        Some((endian, plan.word, raw))
    };
    let Some((endian, word, raw)) = detected.or_else(by_pointers) else {
        return Err(not_a_header(place, head));
    };
    let room = memory.regions().and_then(|regions| {
        let inside = |r: &crate::mem::Region| r.len.checked_sub(place.at.header.checked_sub(r.start)?);
        regions.iter().filter_map(inside).max()
    });
    let there = usize::try_from(room.unwrap_or(0).min(LOOKED_AT)).unwrap_or(0);
    let bytes = if there > head.len() { memory.read_bytes(place.at.header, there).ok() } else { None };
    let behind = Behind { bytes: bytes.as_deref().unwrap_or(head), endian, word };
    let Some(mended) = mend::mend(&raw, place, &behind, room) else {
        return Err(Error::failed(
            Code::HeaderDamaged,
            format!(
                "the trace header at {:#x} ({}) contradicts itself: registry {:#x}..{:#x}, ring {:#x}..{:#x}",
                place.at.header,
                order_name(endian),
                raw.registry_start,
                raw.registry_end,
                raw.buffer_start,
                raw.buffer_end
            ),
            "it was overwritten, or this is not the trace: try --scan, or --header ADDR",
        ));
    };
    let raw = raw.with(&mended.values, word);
    Ok(Header { endian, word, raw, mended: Some(mended) })
}

/// What the kernel's pointers tell before the header is read.
struct Planned {
    word: Width,
    registry_end: Addr,
    start: Addr,
    end: Addr,
    current: Addr,
}

/// The pointers make the header, the registry and the newest events one round trip; `None` where they are not all
/// known, or make no sense.
fn plan_by_pointers(place: &held::Place) -> Option<Planned> {
    let known = |name| place.known(name).filter(|v| *v != 0);
    let registry_start = known("_tx_trace_registry_start_ptr")?;
    let start = known("_tx_trace_buffer_start_ptr")?;
    let end = known("_tx_trace_buffer_end_ptr")?;
    let current = known("_tx_trace_buffer_current_ptr")?;
    let registry_end = known("_tx_trace_registry_end_ptr").unwrap_or(start);
    let word = match registry_start.checked_sub(place.at.header)? {
        48 => Width::W4,
        96 => Width::W8,
        _ => return None,
    };
    let registry = registry_end.checked_sub(registry_start)?;
    let size = end.checked_sub(start)?;
    let entry = layout::entry_size(word) as u64;
    let sane = registry <= 1 << 20
        && start >= registry_end
        && size >= entry
        && size <= parse::MAX_BUFFER
        && current >= start
        && current < end
        && current.wrapping_sub(start).checked_rem(entry) == Some(0);
    sane.then_some(Planned { word, registry_end, start, end, current })
}

type Parts = (Bytes, Option<Bytes>, Option<Block>);

fn read_planned(memory: &mut dyn Memory, place: &held::Place, plan: &Planned, extent: Extent) -> Option<Parts> {
    let head_size = layout::header_size(plan.word);
    let described = usize::try_from(plan.registry_end.checked_sub(place.at.header)?).ok()?;
    let entry = layout::entry_size(plan.word) as u64;
    let capacity = plan.end.checked_sub(plan.start)?.checked_div(entry)?;
    let current = plan.current.checked_sub(plan.start)?.checked_div(entry)?;
    let mut wanted = vec![(place.at.header, described)];
    let slots = match extent {
        Extent::All => Some((0, capacity)),
        Extent::Newest(n) => Some(ring::newest(capacity, current, n).0),
        Extent::Nothing => Some((current, 1)),
    };
    if let Some((first, count)) = slots {
        let len = usize::try_from(count.checked_mul(entry)?).ok()?;
        wanted.push((plan.start.checked_add(first.checked_mul(entry)?)?, len));
    }
    let mut results = memory.read_batch(&wanted).into_iter();
    let described = results.next()?.ok()?;
    let head = described.cut(0, head_size)?;
    let registry = described.cut(head_size, described.len().checked_sub(head_size)?)?;
    let ring = match (results.next(), wanted.get(1)) {
        (Some(Ok(bytes)), Some((address, _))) => Some(Block { role: "ring", address: *address, bytes }),
        _ => None,
    };
    Some((head, Some(registry), ring))
}

fn read_header_first(memory: &mut dyn Memory, place: &held::Place) -> Result<Parts, Error> {
    let narrow = layout::header_size(Width::W4);
    let wide = layout::header_size(Width::W8);
    // A 32-bit pointer means a 32-bit ULONG; otherwise the first bytes tell.
    let first = if place.at.pointer == Some(Width::W4) { narrow } else { wide };
    let head = match memory.read_bytes(place.at.header, first) {
        Ok(head) => head,
        // A tiny buffer at the very end of a dump is shorter than a wide header.
        Err(e) if !e.is_fatal() => {
            memory.read_bytes(place.at.header, narrow).map_err(|e| unreadable_header(place, &e))?
        }
        Err(e) => return Err(unreadable_header(place, &e)),
    };
    let head = match parse::detect(&head) {
        Some((_, word, _)) => head.cut(0, layout::header_size(word)).unwrap_or(head),
        // Only the width was misjudged (a 32-bit pointer beside a 64-bit ULONG): look once more.
        None if first == narrow => memory.read_bytes(place.at.header, wide).unwrap_or(head),
        None => head,
    };
    Ok((head, None, None))
}

fn unreadable_header(place: &held::Place, e: &ReadError) -> Error {
    let mut error = e.explain(&format!("the trace header ({})", place.at.how));
    if !e.is_fatal() {
        error.code = Code::HeaderOutsideMemory;
        error.hint = match e.kind {
            ReadErrorKind::Refused(_) => {
                "the pointer leads to memory that is not there, or has no power; or the ELF is of another build, or RAM was overwritten"
            }
            _ => "the pointer leads outside the memory that is here: the ELF is of another build, the dump is too small, or RAM was overwritten",
        }
        .to_owned();
    }
    error
}

fn not_a_header(place: &held::Place, head: &Bytes) -> Error {
    let start: Vec<String> = head.iter().take(8).map(|b| format!("{b:02x}")).collect();
    if head.iter().all(|b| *b == 0) {
        return Error::not_found(
            Code::HeaderZero,
            format!("memory at {:#x} is all zero where the trace header should be ({})", place.at.header, place.at.how),
            "RAM was cleared by a reset, or a debugger gives zeros for memory that it cannot read (in GDB on OpenOCD: monitor gdb report_data_abort enable)",
        );
    }
    Error::not_found(
        Code::NotAHeader,
        format!(
            "memory at {:#x} does not begin with a trace header (TXTB): it holds {} ({})",
            place.at.header,
            start.join(" "),
            place.at.how
        ),
        "the ELF is of another build, or the buffer was overwritten: try --scan, or --header ADDR",
    )
}

struct Reader<'a> {
    memory: &'a mut dyn Memory,
    geometry: &'a Geometry,
    capture: &'a mut Capture,
}

impl Reader<'_> {
    fn read(
        &mut self,
        extent: Extent,
        registry_bytes: usize,
        registry: Option<Bytes>,
        ring: Option<Block>,
    ) -> Result<(), Error> {
        let g = *self.geometry;
        // Pointers that contradict each other are decided by all of the stamps. In a target that runs they were read at
        // different moments.
        let sure = g.differing().is_none() || self.memory.changes();
        let (first, second) = match (extent, g.current) {
            (Extent::Newest(n), Some(current)) if sure => ring::newest(g.capacity, current, n),
            (Extent::Nothing, current) => ((current.unwrap_or(0), 1), None),
            // Without a pointer all of it is needed to find the order.
            (Extent::All | Extent::Newest(_), _) => ((0, g.capacity), None),
        };
        let wanted = Some((g.address(first.0), g.bytes(first.1)));
        let have_ring = ring.is_some_and(|r| {
            let fits = wanted == Some((r.address, r.bytes.len()));
            if fits {
                self.capture.blocks.push(r);
            }
            fits
        });
        let mut batch = Vec::new();
        let need_registry = registry.is_none() && registry_bytes > 0;
        if need_registry {
            batch.push((g.registry, registry_bytes));
        }
        if !have_ring {
            batch.extend(wanted);
        }
        let mut results = self.memory.read_batch(&batch).into_iter();
        let registry = match registry {
            Some(bytes) => Some(bytes),
            None if need_registry => self.read_registry(results.next(), registry_bytes)?,
            None => None,
        };
        if let Some(bytes) = registry {
            let block = Block { role: "registry", address: g.registry, bytes };
            // Header, registry, ring: the order of the bytes.
            self.capture.blocks.insert(1, block);
        }
        if !have_ring && let Some((address, len)) = wanted {
            self.take_ring(results.next(), address, len)?;
        }
        // Slots behind the end of the ring hold events only once it has wrapped.
        if let Some((slot, count)) = second.filter(|_| self.has_wrapped()) {
            let (address, len) = (g.address(slot), g.bytes(count));
            let result = self.memory.read_bytes(address, len);
            self.take_ring(Some(result), address, len)?;
        }
        if matches!(extent, Extent::Newest(_)) && self.goes_on() {
            self.capture.blocks.retain(|b| b.role != "ring");
            let (address, len) = (g.ring, g.bytes(g.capacity));
            let result = self.memory.read_bytes(address, len);
            self.take_ring(Some(result), address, len)?;
        }
        Ok(())
    }

    /// True where the slot at the current pointer follows the one before it: the pointer was written over, and all of the
    /// ring is needed to find the newest events.
    fn goes_on(&self) -> bool {
        let g = self.geometry;
        let codec = Codec { endian: g.endian, word: g.word, mask: g.time_mask, cores: 1 };
        let slots = Slots::of(self.capture, g, codec);
        slots.captured() < g.capacity && g.current.is_some_and(|current| slots.goes_on(current))
    }

    fn has_wrapped(&self) -> bool {
        let g = self.geometry;
        let Some(current) = g.current else { return true };
        let is_used = |slot: u64| {
            let address = g.address(slot);
            self.capture.blocks("ring").any(|b| {
                let offset = address.checked_sub(b.address).and_then(|o| usize::try_from(o).ok());
                offset.and_then(|o| g.endian.word(g.word, &b.bytes, o)).is_some_and(|w| w != 0)
            })
        };
        // The one behind it is used where the one at the pointer alone was cleared.
        is_used(current) || is_used(current.saturating_add(1))
    }

    fn read_registry(&mut self, result: Option<Result<Bytes, ReadError>>, len: usize) -> Result<Option<Bytes>, Error> {
        match result {
            Some(Ok(bytes)) => Ok(Some(bytes)),
            Some(Err(e)) if e.is_fatal() => Err(e.explain("the object registry")),
            _ => {
                let address = self.geometry.registry;
                let object = layout::object_size(self.geometry.word, self.geometry.name_size);
                let parts = read_what_is_there(self.memory, address, len, object)?;
                let got: usize = parts.iter().map(|(_, b)| b.len()).sum();
                let missing = len.saturating_sub(got).checked_div(object).unwrap_or(0);
                self.capture.issues.push(
                    Issue::new(
                        Code::RegistryUnreadable,
                        format!("{missing} registry entries cannot be read: their objects have no names"),
                    )
                    .times(missing as u64)
                    .at(Place::address(address)),
                );
                // Only what lies at its start keeps its place.
                Ok(parts.into_iter().find(|(a, _)| *a == address).map(|(_, b)| b))
            }
        }
    }

    fn take_ring(&mut self, result: Option<Result<Bytes, ReadError>>, address: Addr, len: usize) -> Result<(), Error> {
        match result {
            Some(Ok(bytes)) => self.capture.blocks.push(Block { role: "ring", address, bytes }),
            Some(Err(e)) if e.is_fatal() => return Err(e.explain("the event ring")),
            _ => {
                let entry = layout::entry_size(self.geometry.word);
                let parts = read_what_is_there(self.memory, address, len, entry)?;
                let got: usize = parts.iter().map(|(_, b)| b.len()).sum();
                let missing = len.saturating_sub(got).checked_div(entry).unwrap_or(0);
                self.capture.issues.push(
                    Issue::new(
                        Code::RingUnreadable,
                        format!("{missing} of {} event slots cannot be read", len.checked_div(entry).unwrap_or(0)),
                    )
                    .times(missing as u64)
                    .at(Place::address(first_gap(&parts, address))),
                );
                for (address, bytes) in parts {
                    self.capture.blocks.push(Block { role: "ring", address, bytes });
                }
            }
        }
        Ok(())
    }
}

/// The first address from `start` on that none of these parts holds; they are sorted by address.
fn first_gap(parts: &[(Addr, Bytes)], start: Addr) -> Addr {
    parts.iter().fold(start, |at, (part, bytes)| if *part == at { at.wrapping_add(bytes.len() as u64) } else { at })
}

/// The whole records of `size` bytes that can be read in a range that cannot be read whole: by the source's own list
/// of regions, or by halving.
fn read_what_is_there(
    memory: &mut dyn Memory,
    address: Addr,
    len: usize,
    size: usize,
) -> Result<Vec<(Addr, Bytes)>, Error> {
    let mut found = Vec::new();
    let mut budget = 64u32;
    let mut todo = vec![(address, len.checked_div(size).unwrap_or(0))];
    if let Some(regions) = memory.regions() {
        todo.clear();
        let end = address.saturating_add(len as u64);
        for r in regions {
            let low = r.start.max(address);
            let high = r.start.saturating_add(r.len).min(end);
            if low >= high {
                continue;
            }
            // Whole records only.
            let skip = low.wrapping_sub(address).div_ceil(size as u64);
            let start = address.wrapping_add(skip.wrapping_mul(size as u64));
            let count = high.saturating_sub(start).checked_div(size as u64).unwrap_or(0);
            todo.push((start, usize::try_from(count).unwrap_or(0)));
        }
        todo.reverse();
    }
    while let Some((at, count)) = todo.pop() {
        if count == 0 || budget == 0 {
            continue;
        }
        budget = budget.saturating_sub(1);
        match memory.read_bytes(at, count.saturating_mul(size)) {
            Ok(bytes) => found.push((at, bytes)),
            Err(e) if e.is_fatal() => return Err(e.explain("the trace buffer")),
            Err(_) if count == 1 => {}
            Err(_) => {
                let half = count.div_ceil(2);
                let second = at.wrapping_add(half.saturating_mul(size) as u64);
                todo.push((second, count.saturating_sub(half)));
                todo.push((at, half));
            }
        }
    }
    Ok(found)
}
