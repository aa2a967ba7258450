//! A header that was partly written over: what the rest of it, the kernel's own pointers and the memory itself still
//! tell.

use super::super::{Capture, Located};
use super::layout::{self, MAGIC};
use super::parse::{MAX_BUFFER, RawHeader};
use crate::abi::{Addr, Width};
use crate::trace::{Issue, Place, Severity};

/// Fields that are mended, by the names under which a capture holds them.
const FIELDS: [&str; 6] =
    ["mend_base", "mend_registry_end", "mend_buffer_start", "mend_buffer_end", "mend_current", "mend_mask"];

/// What the first word, and one value in all others, count for.
const SAME_BYTES: u32 = 6;
/// With more wrong bits a mask tells nothing.
const FEW_BITS: u32 = 4;

impl RawHeader {
    /// The header as it was mended when it was read.
    pub fn mended(self, capture: &Capture) -> Self {
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
/// header on, where the source tells.
pub(super) fn mend(raw: &RawHeader, word: Width, located: &Located, room: Option<u64>) -> Option<Mended> {
    let header = located.header;
    let known = |name: &str| {
        let pointer = located.known(name).filter(|p| *p != 0)?;
        pointer.checked_sub(header).filter(|offset| *offset <= MAX_BUFFER)
    };
    let mut mended = mend_at(raw, word, Some(header), &known, room)?;
    mended.issue = mended.issue.at(Place::address(header));
    Some(mended)
}

/// The same of a header that was found by what it looks like, wherever it lies: the header as it was.
pub(super) fn guess(raw: &RawHeader, word: Width, room: u64) -> Option<RawHeader> {
    // Bytes that are all the same agree with each other too.
    let told = raw.marked || raw.leads_to_registry(word) || raw.evidence(word) > SAME_BYTES;
    let mended = mend_at(raw, word, None, &|_| None, Some(room)).filter(|_| told)?;
    Some(raw.with(&mended.values, word))
}

/// The header's own address: what it says where its registry lies right behind, else where it was read. Where that is not
/// known, what it says or what its registry says: that from which the registry has whole entries.
fn own_address(raw: &RawHeader, word: Width, header: Option<Addr>, object: u64) -> Addr {
    let size = layout::header_size(word) as u64;
    let (said, behind) = (raw.base & word.max(), raw.registry_start.wrapping_sub(size) & word.max());
    if said == behind {
        return raw.base;
    }
    let fits = |base: &Addr| {
        let whole = |end: u64| {
            let len = end.wrapping_sub(*base).wrapping_sub(size) & word.max();
            len <= MAX_BUFFER && len.checked_rem(object) == Some(0)
        };
        u32::from(whole(raw.registry_end)).saturating_add(u32::from(whole(raw.buffer_start)))
    };
    let likely = if fits(&behind) > fits(&said) { behind } else { said };
    header.map_or(likely, |header| header & word.max())
}

/// The mask that differs from this one in the fewest bits, of those that ports have: all bits below the highest.
fn nearest_mask(damaged: u64) -> u64 {
    let masks = (8..=32).map(|bits| u64::MAX >> (64_u32.saturating_sub(bits)));
    let wrong = |mask: &u64| (mask ^ damaged).count_ones();
    masks.rev().min_by_key(wrong).filter(|mask| wrong(mask) <= FEW_BITS).unwrap_or(u64::from(u32::MAX))
}

fn mend_at(
    raw: &RawHeader,
    word: Width,
    header: Option<Addr>,
    known: &dyn Fn(&str) -> Option<u64>,
    room: Option<u64>,
) -> Option<Mended> {
    let size = layout::header_size(word) as u64;
    let entry = layout::entry_size(word) as u64;
    let object = layout::object_size(word, raw.name_size.clamp(1, layout::MAX_NAME)) as u64;
    let base = own_address(raw, word, header, object);
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
    let registry_end = start;
    let whole = |e: &u64| e.checked_sub(start).is_some_and(|len| len >= entry);
    let end = ends.into_iter().find(whole).or_else(|| {
        let bytes = room?.checked_sub(start)?;
        let slots = bytes.checked_div(entry)?;
        start.checked_add(slots.checked_mul(entry)?).filter(whole)
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
    let what = if wrong.is_empty() { "registry start".to_owned() } else { wrong.join(", ") };
    let issue = Issue::new(
        "header-mended",
        Severity::Inferred,
        format!(
            "the trace header is damaged ({what}); it was made whole by what is left of it and by the kernel's pointers"
        ),
    );
    Some(Mended { values, issue })
}
