//! Repairs a header that was partly overwritten, by the rest of it, by the kernel's own pointers and by the memory
//! after it.

use super::after_header::AfterHeader;
use super::capture::Place;
use super::header::{self, Header};
use super::layout::{self, MAGIC, MAX_BUFFER, MAX_NAME, TraceLayout, USUAL_NAME};
use super::order_name;
use super::symbols::Variables;
use crate::abi::{Addr, Width};
use crate::bytes::Bytes;
use crate::code::Code;
use crate::error::Error;
use crate::mem::Memory;
use crate::trace::{Issue, Place as At};

/// No kernel has a registry of more bytes: 20000 objects.
const MAX_REGISTRY: u64 = 1 << 20;
/// The evidence of the first word, together with that of one value in all other words.
const SAME_BYTES: u32 = 6;
/// A mask with more wrong bits is not repaired.
const FEW_BITS: u32 = 4;

/// Bytes after a damaged header that are examined.
const LOOKED_AT: u64 = 1 << 20;
/// Slots before the ring's end, which show what its events are like.
const BEFORE_END: u64 = 256;

/// The layout of the trace whose header was read, and what is wrong with the header. `expected` is the layout by the
/// kernel's pointers, which are set together with the header, and never after.
pub(super) fn layout(
    memory: &mut dyn Memory,
    place: &Place,
    head: &Bytes,
    expected: Option<&TraceLayout>,
) -> Result<(TraceLayout, Vec<Issue>), Error> {
    // Without its magic a header is one only where the kernel's pointers agree with each other.
    let by_pointers = || {
        let (word, endian) = (expected?.word, place.at.endian?);
        Some((endian, word, header::parse(head, endian, word).ok()?.1))
    };
    let detected = header::detect(head).or_else(by_pointers);
    let (endian, word, stored) = detected.ok_or_else(|| not_a_header(place, head))?;
    let expected = expected.filter(|e| e.word == word);
    let current = place.kernel.current.filter(|p| *p != 0);
    let layout_of = |fields| {
        let layout = TraceLayout::new(place.at.header, (endian, word), fields, current);
        TraceLayout { stored, ..layout }
    };
    let mut layout = layout_of(stored);
    let agrees = expected.is_none_or(|e| (e.ring, e.capacity) == (layout.ring, layout.capacity));
    let mut repaired = None;
    if !(stored.is_sound(word) && stored.has_clock() && agrees) {
        let (fields, issue) = repair(memory, place, head, &layout).ok_or_else(|| beyond_repair(&layout))?;
        layout = layout_of(fields);
        repaired = Some(issue);
    }
    if expected.is_none()
        && let Some((end, issue)) = longer(memory, &layout)
    {
        layout = layout_of(Header { buffer_end: end, ..layout.fields });
        repaired.get_or_insert(issue);
    }
    let mut issues = layout.issues(current);
    issues.extend(repaired);
    Ok((layout, issues))
}

/// The header as it was, by what is there of it and of the memory behind it.
fn repair(memory: &mut dyn Memory, place: &Place, head: &Bytes, layout: &TraceLayout) -> Option<(Header, Issue)> {
    let header = place.at.header;
    let room = memory
        .regions()
        .and_then(|regions| regions.iter().filter_map(|r| r.len.checked_sub(header.checked_sub(r.start)?)).max());
    let there = usize::try_from(room.unwrap_or(0).min(LOOKED_AT)).unwrap_or(0);
    let bytes = if there > head.len() { memory.read_bytes(header, there).ok() } else { None };
    let behind = AfterHeader { bytes: bytes.as_deref().unwrap_or(head), endian: layout.endian, word: layout.word };
    Damaged { stored: layout.stored, header: Some(header), kernel: &place.kernel, behind, room }.repair()
}

/// Where the ring ends, with its issue, if events go on after where it is said to end. Only where it costs no packet to
/// look.
fn longer(memory: &mut dyn Memory, layout: &TraceLayout) -> Option<(u64, Issue)> {
    let end = layout.ring_end();
    let room = memory.regions()?.iter().find_map(|r| r.len.checked_sub(end.checked_sub(r.start)?))?;
    let entry = layout.entry_size() as u64;
    let before = layout.bytes(layout.capacity.min(BEFORE_END));
    let after = layout.bytes(room.min(LOOKED_AT).checked_div(entry).unwrap_or(0));
    if after == 0 {
        return None;
    }
    let described = layout.ring.wrapping_sub(layout.header).min(LOOKED_AT);
    let mut read = |address: Addr, len: usize| memory.read_bytes(address, len).ok();
    let described = read(layout.header, usize::try_from(described).ok()?)?;
    let tail = read(end.checked_sub(before as u64)?, before)?;
    let behind = read(end, after)?;
    let first = read(layout.ring, layout.entry_size())?;
    let known = AfterHeader { bytes: &described, endian: layout.endian, word: layout.word };
    let more = known.going_on(layout.object_size(), &first, &tail, &behind);
    let stated = layout.fields.buffer_end;
    let taken = stated.wrapping_add(more.saturating_mul(entry)) & layout.word.max();
    let message = format!(
        "the header says that the ring ends at {stated:#x}, and {more} slots after that go on with events: its end was overwritten, and {taken:#x} is used"
    );
    (more > 0).then(|| (taken, Issue::new(Code::HeaderMended, message).at(At::address(layout.header))))
}

fn beyond_repair(layout: &TraceLayout) -> Error {
    let stored = layout.stored;
    Error::failed(
        Code::HeaderDamaged,
        format!(
            "the trace header at {:#x} ({}) contradicts itself: registry {:#x}..{:#x}, ring {:#x}..{:#x}",
            layout.header,
            order_name(layout.endian),
            stored.registry_start,
            stored.registry_end,
            stored.buffer_start,
            stored.buffer_end
        ),
        "it was overwritten, or this is not the trace: try --scan, or --header ADDR",
    )
}

fn not_a_header(place: &Place, head: &Bytes) -> Error {
    let (at, how) = (place.at.header, &place.at.how);
    if head.iter().all(|b| *b == 0) {
        return Error::not_found(
            Code::HeaderZero,
            format!("memory at {at:#x} is all zero where the trace header should be ({how})"),
            "RAM was cleared by a reset, or a debugger gives zeros for memory that it cannot read (in GDB on OpenOCD: monitor gdb report_data_abort enable)",
        );
    }
    let start: Vec<String> = head.iter().take(8).map(|b| format!("{b:02x}")).collect();
    let start = start.join(" ");
    if !place.at.by_symbols {
        return Error::not_found(
            Code::NotAHeader,
            format!("{how}: no trace header is there: memory holds {start}, and TXTB is wanted"),
            "--scan in place of --header finds the traces in this memory",
        );
    }
    Error::not_found(
        Code::NotAHeader,
        format!(
            "the ELF is of another build, or the trace was overwritten: memory at {at:#x}, where its header should be, holds {start} ({how})"
        ),
        "give the ELF of the program that ran; or search the memory with --scan",
    )
}

/// A damaged header, and what there is to repair it by.
pub(super) struct Damaged<'a> {
    pub stored: Header,
    /// Where it is; `None` where only its own words can say so.
    pub header: Option<Addr>,
    pub kernel: &'a Variables,
    pub behind: AfterHeader<'a>,
    /// Bytes of memory from the header on, where the source knows.
    pub room: Option<u64>,
}

/// The parts of a buffer, as offsets from its header.
struct Parts {
    registry_end: u64,
    start: u64,
    end: u64,
    /// True where something is between registry and ring.
    apart: bool,
}

/// A header that was found by what it looks like, wherever it is: repaired by its own words and by what follows it.
pub(super) fn guess(stored: Header, behind: &AfterHeader) -> Option<Header> {
    let word = behind.word;
    // Bytes that are all the same agree with each other too.
    let is_header = stored.marked || stored.leads_to_registry(word) || stored.evidence(word) > SAME_BYTES;
    let room = Some(behind.bytes.len() as u64);
    let damaged = Damaged { stored, header: None, kernel: &Variables::default(), behind: *behind, room };
    damaged.repair().filter(|_| is_header).map(|(fields, _)| fields)
}

impl Damaged<'_> {
    const fn word(&self) -> Width {
        self.behind.word
    }

    fn header_size(&self) -> u64 {
        layout::header_size(self.word()) as u64
    }

    fn entry_size(&self) -> u64 {
        layout::entry_size(self.word()) as u64
    }

    /// Bytes of a registry entry.
    fn object_size(&self) -> usize {
        let stated = self.stored.name_size;
        layout::object_size(self.word(), if (1..=MAX_NAME).contains(&stated) { stated } else { USUAL_NAME })
    }

    /// The header as it was, and what was wrong with it; `None` where too little of it is left.
    pub fn repair(&self) -> Option<(Header, Issue)> {
        let stored = self.stored;
        let base = self.own_address();
        let parts = self.parts(base)?;
        let pointer = |offset: u64| base.wrapping_add(offset) & self.word().max();
        let time_mask = if stored.has_clock() { stored.time_mask } else { nearest_mask(stored.time_mask) };
        let fields = Header {
            id: u64::from(MAGIC),
            time_mask,
            base,
            registry_start: pointer(self.header_size()),
            registry_end: pointer(parts.registry_end),
            buffer_start: pointer(parts.start),
            buffer_end: pointer(parts.end),
            ..stored
        };
        let what = match self.differences(&fields, &parts).join(", ") {
            none if none.is_empty() => "the kernel's pointers to the trace differ from its header".to_owned(),
            all => format!("the trace header is damaged ({all})"),
        };
        let message = format!("{what}: repaired from the rest of it, the kernel's pointers and the memory after it");
        let issue = Issue::new(Code::HeaderMended, message);
        Some((fields, issue.at(self.header.map_or_else(At::default, At::address))))
    }

    /// What is wrong with the stored header.
    fn differences(&self, fields: &Header, parts: &Parts) -> Vec<String> {
        let stored = self.stored;
        let mut wrong = Vec::new();
        for (what, stated, taken) in [
            ("registry end", stored.registry_end, fields.registry_end),
            ("ring start", stored.buffer_start, fields.buffer_start),
            ("ring end", stored.buffer_end, fields.buffer_end),
        ] {
            if stated != taken {
                wrong.push(format!("{what} {stated:#x} (used: {taken:#x})"));
            }
        }
        if parts.apart {
            let between = parts.start.saturating_sub(parts.registry_end);
            wrong.push(format!("{between} bytes between registry and ring"));
        }
        if stored.time_mask != fields.time_mask {
            let bits = fields.time_mask.count_ones();
            wrong.push(format!("time mask {:#x} (used: {bits} bits)", stored.time_mask));
        }
        for (what, stated, right) in [
            ("first word", stored.id, fields.id),
            ("own address", stored.base, fields.base),
            ("registry start", stored.registry_start, fields.registry_start),
        ] {
            if stated != right {
                wrong.push(format!("{what} {stated:#x}"));
            }
        }
        wrong
    }

    /// The header's own address: what it says where its registry directly follows, else where it was read. Where that is
    /// not known: what it says or what its registry says, where whole entries are from there to the ring, or else the
    /// ring's address less what looks like a registry.
    fn own_address(&self) -> Addr {
        let (stored, max, size) = (self.stored, self.word().max(), self.header_size());
        let (stated, before) = (stored.base & max, stored.registry_start.wrapping_sub(size) & max);
        if stated == before {
            return stored.base;
        }
        if let Some(header) = self.header {
            return header & max;
        }
        let object = self.object_size();
        let score = |base: &Addr| {
            let whole = |end: u64| {
                let len = end.wrapping_sub(*base).wrapping_sub(size) & max;
                len <= MAX_REGISTRY && len.is_multiple_of(object as u64)
            };
            [stored.registry_end, stored.buffer_start].into_iter().filter(|end| whole(*end)).count()
        };
        let counted = stored.buffer_start.wrapping_sub(self.behind.registry(object)).wrapping_sub(size) & max;
        // The last of the best.
        [counted, stated, before].into_iter().max_by_key(score).unwrap_or(stated)
    }

    /// Where registry and ring are. The kernel's pointers come before those of the header.
    fn parts(&self, base: Addr) -> Option<Parts> {
        let (size, entry, object) = (self.header_size(), self.entry_size(), self.object_size());
        let stated = |pointer: u64| pointer.wrapping_sub(base) & self.word().max();
        let kernels = |pointer: Option<Addr>| pointer.filter(|p| *p != 0)?.checked_sub(self.header?);
        let options = |kernel: Option<Addr>, header: u64| -> Vec<u64> {
            let both = [kernels(kernel), Some(stated(header))].into_iter().flatten();
            both.filter(|offset| (size..=MAX_BUFFER).contains(offset)).collect()
        };
        let registry_ends = options(self.kernel.registry_end, self.stored.registry_end);
        let starts = options(self.kernel.ring_start, self.stored.buffer_start);
        let ends = options(self.kernel.ring_end, self.stored.buffer_end);
        let ring = |start: u64, end: u64| end.checked_sub(start).filter(|l| *l >= entry && l.is_multiple_of(entry));
        // The kernel puts the ring right after the registry: both fields hold the same number, whole entries are
        // before it and whole slots after it.
        let score = |start: &u64| {
            let both = starts.contains(start) && registry_ends.contains(start);
            let before = start.saturating_sub(size).is_multiple_of(object as u64);
            let behind = ends.iter().any(|end| ring(*start, *end).is_some());
            (both, [before, behind].into_iter().filter(|is_so| *is_so).count())
        };
        // The first of the best.
        let start = starts.iter().chain(&registry_ends).copied().rev().max_by_key(score)?;
        // A registry of whole entries that ends a little before the ring: something is in between.
        let apart = Some(stated(self.stored.registry_end)).filter(|end| {
            let gap = start.checked_sub(*end).filter(|gap| *gap > 0 && *gap < object as u64);
            gap.is_some() && end.checked_sub(size).is_some_and(|len| len.is_multiple_of(object as u64))
        });
        let current = stated(self.stored.current).checked_sub(start).filter(|at| at.is_multiple_of(entry));
        // A ring of whole slots, in memory that is there; a dump that was cut may hold only its start.
        let whole = |end: &u64| {
            ring(start, *end)
                .is_some_and(|len| self.room.is_none_or(|room| *end <= room) || current.is_some_and(|at| at < len))
        };
        let counted = || {
            let slot = current.and_then(|at| at.checked_div(entry)).filter(|at| *at <= MAX_BUFFER);
            let slots = self.behind.slots(start, object, slot);
            start.checked_add(slots.checked_mul(entry)?).filter(|end| *end > start)
        };
        let end = ends.iter().copied().find(whole).or_else(counted)?;
        Some(Parts { registry_end: apart.unwrap_or(start), start, end, apart: apart.is_some() })
    }
}

/// The mask that differs from this one in the fewest bits, of those that ports have: all bits below the highest.
fn nearest_mask(damaged: u64) -> u64 {
    let masks = (32..=56).rev().map(|unused| u64::MAX >> unused);
    let wrong = |mask: &u64| (mask ^ damaged).count_ones();
    masks.rev().min_by_key(wrong).filter(|mask| wrong(mask) <= FEW_BITS).unwrap_or(u64::from(u32::MAX))
}
