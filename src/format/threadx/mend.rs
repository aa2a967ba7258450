//! A header that was partly written over: what the rest of it, the kernel's own pointers and the memory itself still
//! tell.

use super::held::{self, Capture};
use super::layout::{self, MAGIC};
use super::parse::{MAX_BUFFER, RawHeader};
use super::walk::Behind;
use crate::abi::{Addr, Width};
use crate::code::Code;
use crate::trace::{Issue, Place};

/// Fields that are mended, by the names under which a capture holds them.
const FIELDS: [&str; 6] =
    ["mend_base", "mend_registry_end", "mend_buffer_start", "mend_buffer_end", "mend_current", "mend_mask"];

/// No kernel has a registry of more bytes: 20000 objects.
const MAX_REGISTRY: u64 = 1 << 20;
/// What the first word, and one value in all others, count for.
const SAME_BYTES: u32 = 6;
/// With more wrong bits a mask tells nothing.
const FEW_BITS: u32 = 4;

impl RawHeader {
    /// The header as it was mended when it was read.
    pub(super) fn mended(self, capture: &Capture) -> Self {
        self.with(&capture.values, capture.word)
    }

    /// The header with these values instead of its own.
    pub fn with(mut self, values: &[(&'static str, u64)], word: Width) -> Self {
        let value = |name: &str| values.iter().find(|(n, _)| *n == name).map(|(_, v)| *v);
        let [base, registry_end, start, end, current, mask] = FIELDS.map(value);
        if let Some(base) = base {
            self.id = u64::from(MAGIC);
            self.base = base;
            self.registry_start = base.wrapping_add(layout::header_size(word) as u64) & word.max();
        }
        self.registry_end = registry_end.unwrap_or(self.registry_end);
        self.buffer_start = start.unwrap_or(self.buffer_start);
        self.buffer_end = end.unwrap_or(self.buffer_end);
        self.current = current.unwrap_or(self.current);
        self.time_mask = mask.unwrap_or(self.time_mask);
        self
    }
}

/// What was found instead of what the header says.
pub(super) struct Mended {
    /// For the capture.
    pub values: Vec<(&'static str, u64)>,
    /// What was wrong.
    pub issue: Issue,
}

/// Makes a damaged header whole; `None` where too little is left. `room` is how many bytes of memory lie from the
/// header on, where the source tells, and `behind` the first of them.
pub(super) fn mend(raw: &RawHeader, place: &held::Place, behind: &Behind, room: Option<u64>) -> Option<Mended> {
    let header = place.at.header;
    let known = |name: &str| {
        let pointer = place.known(name).filter(|p| *p != 0)?;
        pointer.checked_sub(header).filter(|offset| *offset <= MAX_BUFFER)
    };
    let mut mended = mend_at(raw, Some(header), &known, behind, room)?;
    mended.issue = mended.issue.at(Place::address(header));
    Some(mended)
}

/// The same of a header that was found by what it looks like, wherever it lies: the header as it was.
pub(super) fn guess(raw: &RawHeader, behind: &Behind) -> Option<RawHeader> {
    let word = behind.word;
    // Bytes that are all the same agree with each other too.
    let told = raw.marked || raw.leads_to_registry(word) || raw.evidence(word) > SAME_BYTES;
    let room = Some(behind.bytes.len() as u64);
    let mended = mend_at(raw, None, &|_| None, behind, room).filter(|_| told)?;
    Some(raw.with(&mended.values, word))
}

/// The header's own address: what it says where its registry lies right behind, else where it was read. Where that is not
/// known: what it says or what its registry says, where whole entries lie from there to the ring, or else the ring's address
/// less what looks like a registry.
fn own_address(raw: &RawHeader, header: Option<Addr>, object: usize, behind: &Behind) -> Addr {
    let word = behind.word;
    let size = layout::header_size(word) as u64;
    let (said, before) = (raw.base & word.max(), raw.registry_start.wrapping_sub(size) & word.max());
    if said == before {
        return raw.base;
    }
    if let Some(header) = header {
        return header & word.max();
    }
    let fits = |base: &Addr| {
        let whole = |end: u64| {
            let len = end.wrapping_sub(*base).wrapping_sub(size) & word.max();
            len <= MAX_REGISTRY && len.checked_rem(object as u64) == Some(0)
        };
        u32::from(whole(raw.registry_end)).saturating_add(u32::from(whole(raw.buffer_start)))
    };
    let walked = raw.buffer_start.wrapping_sub(behind.registry(object)).wrapping_sub(size) & word.max();
    // The last of the best.
    let likely = [walked, said, before].into_iter().max_by_key(fits);
    likely.unwrap_or(said)
}

/// The mask that differs from this one in the fewest bits, of those that ports have: all bits below the highest.
fn nearest_mask(damaged: u64) -> u64 {
    let masks = (8..=32).map(|bits| u64::MAX >> (64_u32.saturating_sub(bits)));
    let wrong = |mask: &u64| (mask ^ damaged).count_ones();
    masks.rev().min_by_key(wrong).filter(|mask| wrong(mask) <= FEW_BITS).unwrap_or(u64::from(u32::MAX))
}

fn mend_at(
    raw: &RawHeader,
    header: Option<Addr>,
    known: &dyn Fn(&str) -> Option<u64>,
    behind: &Behind,
    room: Option<u64>,
) -> Option<Mended> {
    let word = behind.word;
    let size = layout::header_size(word) as u64;
    let entry = layout::entry_size(word) as u64;
    let names = if (1..=layout::MAX_NAME).contains(&raw.name_size) { raw.name_size } else { layout::USUAL_NAME };
    let object = layout::object_size(word, names) as u64;
    let base = own_address(raw, header, layout::object_size(word, names), behind);
    let stated = |pointer: u64| pointer.wrapping_sub(base) & word.max();
    let sane = |offset: u64| (size..=MAX_BUFFER).contains(&offset);
    let options = |from_header: u64, name: &str| -> Vec<u64> {
        [known(name), Some(stated(from_header))].into_iter().flatten().filter(|o| sane(*o)).collect()
    };
    let registry_ends = options(raw.registry_end, "_tx_trace_registry_end_ptr");
    let starts = options(raw.buffer_start, "_tx_trace_buffer_start_ptr");
    let ends = options(raw.buffer_end, "_tx_trace_buffer_end_ptr");
    // The kernel puts the ring right behind the registry: the same number stands in both fields, whole entries lie
    // before it and whole slots behind it.
    let likely = |start: &u64| {
        let both = starts.contains(start) && registry_ends.contains(start);
        let before = start.saturating_sub(size).checked_rem(object) == Some(0);
        let behind = ends
            .iter()
            .filter_map(|e| e.checked_sub(*start))
            .any(|len| len >= entry && len.checked_rem(entry) == Some(0));
        u32::from(both).saturating_mul(4).saturating_add(u32::from(before).saturating_add(u32::from(behind)))
    };
    // The first of the best: what the kernel's pointers say comes before what the header says.
    let candidates = starts.iter().chain(&registry_ends).copied();
    let start = candidates.rev().max_by_key(likely)?;
    // A registry of whole entries that ends a little before the ring: something lies in between.
    let between = |end: &u64| start.checked_sub(*end).is_some_and(|gap| gap > 0 && gap < object);
    let entries = |end: &u64| end.checked_sub(size).and_then(|len| len.checked_rem(object)) == Some(0);
    let apart = Some(stated(raw.registry_end)).filter(|end| between(end) && entries(end));
    let registry_end = apart.unwrap_or(start);
    let current = stated(raw.current).checked_sub(start).filter(|at| at.checked_rem(entry) == Some(0));
    let current = current.and_then(|at| at.checked_div(entry));
    // A ring of whole slots, in memory that is there; a dump that was cut may hold only its start.
    let whole = |e: &u64| {
        let len = e.checked_sub(start).filter(|len| *len >= entry && len.checked_rem(entry) == Some(0));
        let inside = |len: u64| current.and_then(|at| at.checked_mul(entry)).is_some_and(|at| at < len);
        len.is_some_and(|len| room.is_none_or(|room| *e <= room) || inside(len))
    };
    let end = ends.into_iter().find(whole).or_else(|| {
        let slots = behind.slots(start, layout::object_size(word, names), current.filter(|at| *at <= MAX_BUFFER));
        start.checked_add(slots.checked_mul(entry)?).filter(|end| *end > start)
    })?;
    let pointer = |offset: u64| base.wrapping_add(offset) & word.max();
    let mut values = vec![("mend_base", base)];
    let mut wrong = Vec::new();
    for (name, what, stated, offset) in [
        ("mend_registry_end", "registry end", raw.registry_end, registry_end),
        ("mend_buffer_start", "ring start", raw.buffer_start, start),
        ("mend_buffer_end", "ring end", raw.buffer_end, end),
    ] {
        if pointer(offset) != stated & word.max() {
            wrong.push(format!("{what} {stated:#x} (taken: {:#x})", pointer(offset)));
            values.push((name, pointer(offset)));
        }
    }
    if let Some(end) = apart {
        wrong.push(format!("{} bytes between registry and ring", start.saturating_sub(end)));
    }
    if !raw.has_clock() {
        let mask = nearest_mask(raw.time_mask);
        wrong.push(format!("time mask {:#x} (taken: {} bits)", raw.time_mask, mask.count_ones()));
        values.push(("mend_mask", mask));
    }
    if raw.id != u64::from(MAGIC) {
        wrong.push(format!("first word {:#x}", raw.id));
    }
    if raw.base != base {
        wrong.push(format!("own address {:#x}", raw.base));
    }
    if raw.registry_start & word.max() != pointer(size) {
        wrong.push(format!("registry start {:#x}", raw.registry_start));
    }
    let what = wrong.join(", ");
    let issue = Issue::new(
        Code::HeaderMended,
        format!(
            "the trace header is damaged ({what}): made whole by the rest of it, the kernel's pointers and what lies behind it"
        ),
    );
    Some(Mended { values, issue })
}
