//! Order: where registry and ring lie, which slot is next, and which slots hold which events.

use super::layout;
use super::parse::RawHeader;
use crate::abi::{Addr, Endian, Width};
use crate::code::Code;
use crate::trace::{Issue, Place};

/// The most registry entries that are believed; the largest seen in the field has a few hundred.
const MAX_OBJECTS: u64 = 65_536;

/// Where everything lies, in addresses of the target and numbers of slots.
#[derive(Debug, Clone, Copy)]
pub(super) struct Geometry {
    pub endian: Endian,
    pub word: Width,
    pub header: Addr,
    pub registry: Addr,
    pub objects: u64,
    pub name_size: u16,
    pub ring: Addr,
    pub capacity: u64,
    /// The slot that the next event goes to: the oldest one once the ring has wrapped. `None` where the pointer leads
    /// nowhere.
    pub current: Option<u64>,
    /// The slots that the kernel's own pointer and the header's copy of it lead to.
    pub pointers: (Option<u64>, Option<u64>),
    pub time_mask: u64,
}

impl Geometry {
    /// Reads the layout out of a header at `header`. `current` is the kernel's own pointer where it was read: the
    /// header's copy is written after it, and stays when the trace is disabled.
    pub fn new(
        header: Addr,
        endian: Endian,
        word: Width,
        raw: &RawHeader,
        current: Option<u64>,
        issues: &mut Vec<Issue>,
    ) -> Self {
        let entry = layout::entry_size(word) as u64;
        let start = raw.offset(raw.buffer_start, word);
        let end = raw.offset(raw.buffer_end, word);
        let registry = raw.offset(raw.registry_start, word);
        let mut name_size = raw.name_size;
        let registry_bytes = raw.offset(raw.registry_end, word).saturating_sub(registry);
        let whole = |name: u16| registry_bytes.checked_rem(layout::object_size(word, name) as u64) == Some(0);
        if name_size == 0 || name_size > layout::MAX_NAME || !whole(name_size) {
            let stated = name_size;
            name_size = if whole(32) { 32 } else { name_size.clamp(1, layout::MAX_NAME) };
            if registry_bytes > 0 {
                issues.push(
                    Issue::new(
                        Code::NameSize, format!(
                            "the header says object names have {stated} bytes, which does not divide its registry of {registry_bytes} bytes; {name_size} is taken"
                        ),
                    )
                    .at(Place::address(header)),
                );
            }
        }
        let object = layout::object_size(word, name_size) as u64;
        let mut objects = registry_bytes.checked_div(object).unwrap_or(0);
        if objects > MAX_OBJECTS {
            issues.push(
                Issue::new(
                    Code::RegistryTooLarge,
                    format!("the header claims {objects} objects; the first {MAX_OBJECTS} are read"),
                )
                .at(Place::address(header)),
            );
            objects = MAX_OBJECTS;
        }
        let capacity = end.saturating_sub(start).checked_div(entry).unwrap_or(0);
        let mut this = Self {
            endian,
            word,
            header,
            registry: header.wrapping_add(registry),
            objects,
            name_size,
            ring: header.wrapping_add(start),
            capacity,
            current: None,
            pointers: (None, None),
            time_mask: raw.time_mask,
        };
        // The kernel's pointer is a full address, the header's copy may be a low half: both as differences.
        let from_kernel = current.map(|p| p.wrapping_sub(header).wrapping_sub(start));
        let from_header = raw.offset(raw.current_ptr(), word).wrapping_sub(start);
        let leads = |offset: u64| this.slot_of_offset(offset);
        this.pointers = (from_kernel.and_then(leads), leads(from_header));
        this.current = this.slot_at(from_kernel.unwrap_or(from_header), issues);
        if this.current.is_none() && from_kernel.is_some() {
            this.current = this.slot_at(from_header, issues);
        }
        this
    }

    fn slot_at(&self, offset: u64, issues: &mut Vec<Issue>) -> Option<u64> {
        let entry = layout::entry_size(self.word) as u64;
        let slot = offset.checked_div(entry)?;
        if slot > self.capacity {
            issues.push(
                Issue::new(
                    Code::CurrentPointer,
                    "the current pointer does not lead into the ring; order is recovered from the time stamps",
                )
                .at(Place::address(self.header)),
            );
            return None;
        }
        if offset.checked_rem(entry) != Some(0) {
            issues.push(
                Issue::new(
                    Code::CurrentUnaligned,
                    format!("the current pointer does not lead to the start of an entry; slot {slot} is taken"),
                )
                .at(Place::address(self.ring.wrapping_add(offset))),
            );
        }
        // One past the last slot is where no kernel leaves it, but dumps edited by hand do.
        Some(if slot == self.capacity { 0 } else { slot })
    }

    /// The slot that begins so many bytes into the ring.
    fn slot_of_offset(&self, offset: u64) -> Option<u64> {
        let entry = layout::entry_size(self.word) as u64;
        let slot = offset.checked_div(entry).filter(|slot| *slot <= self.capacity)?;
        (offset.checked_rem(entry) == Some(0)).then_some(if slot == self.capacity { 0 } else { slot })
    }

    /// The slots of the kernel's pointer and of the header's copy where no kernel leaves them so: it stores its own first, so
    /// that the copy may be one slot behind.
    pub fn differing(&self) -> Option<(u64, u64)> {
        let (kernel, header) = (self.pointers.0?, self.pointers.1?);
        let behind = header.checked_add(1)?.checked_rem(self.capacity)?;
        (kernel != header && kernel != behind).then_some((kernel, header))
    }

    /// Address of a slot.
    pub fn address(&self, slot: u64) -> Addr {
        self.ring.wrapping_add(slot.wrapping_mul(layout::entry_size(self.word) as u64))
    }

    /// The slot that a stored pointer leads to, cut to the stored width.
    pub fn slot_of_pointer(&self, pointer: u64) -> Option<u64> {
        let offset = pointer.wrapping_sub(self.ring) & self.word.max();
        let slot = offset.checked_div(layout::entry_size(self.word) as u64)?;
        (slot < self.capacity).then_some(slot)
    }

    /// The slot at an address inside the ring.
    pub fn slot_of(&self, address: Addr) -> u64 {
        address.wrapping_sub(self.ring).checked_div(layout::entry_size(self.word) as u64).unwrap_or(0)
    }

    /// Bytes of `slots` slots.
    pub fn bytes(&self, slots: u64) -> usize {
        usize::try_from(slots.saturating_mul(layout::entry_size(self.word) as u64)).unwrap_or(usize::MAX)
    }

    /// The sequence number of a slot: its place in ring order from the oldest.
    pub fn seq(&self, slot: u64, current: u64, wrapped: bool) -> u64 {
        if !wrapped {
            return slot;
        }
        if slot >= current {
            slot.saturating_sub(current)
        } else {
            slot.saturating_add(self.capacity).saturating_sub(current)
        }
    }
}

impl RawHeader {
    const fn current_ptr(&self) -> u64 {
        self.current
    }
}

/// Consecutive slots: the first, and how many.
pub(super) type Slots = (u64, u64);

/// The slots that hold the newest `n` events, the one at the current pointer, which tells whether the ring has
/// wrapped, and the one behind it, which tells an insertion that was cut off from a wrap. The first stretch ends with
/// these two; the second lies behind the wrap and holds events only after it.
pub(super) fn newest(capacity: u64, current: u64, n: u64) -> (Slots, Option<Slots>) {
    let n = n.min(capacity);
    let before = n.min(current);
    let rest = n.saturating_sub(before);
    let end = current.saturating_add(2).min(capacity);
    // When everything is wanted the slots at the current pointer are among them, and are not read twice.
    let tail_start = capacity.saturating_sub(rest).max(end);
    let tail = capacity.saturating_sub(tail_start);
    let first = current.saturating_sub(before);
    ((first, end.saturating_sub(first)), (rest > 0 && tail > 0).then_some((tail_start, tail)))
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
