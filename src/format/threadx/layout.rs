//! The three structures of a ThreadX trace buffer in the two widths of `ULONG`, and where they are in one trace.
//!
//! ```text
//!            ULONG 4                         ULONG 8
//! header     48: id mask base registry       96: the same, every word 8 bytes; the two 16-bit
//!                u16 u16 registry_end            numbers (reserved, name size) with 4 bytes of padding
//!                start end current 3 x mark
//! registry   16 + name: 4 bytes, pointer,    32 + name: 4 bytes, 4 of padding, pointer, two parameters,
//!                two parameters, name            name
//! entry      32: eight words                 64: eight words
//! ```

use super::header::Header;
use crate::abi::{Addr, Endian, Width};
use crate::code::Code;
use crate::mem::Region;
use crate::trace::{Issue, Place};

/// The header's first word: `TXTB`.
pub const MAGIC: u32 = 0x5458_5442;
/// The header's last three words.
pub const MARKS: (u64, u64, u64) = (0xAAAA_AAAA, 0xBBBB_BBBB, 0xCCCC_CCCC);
/// Context word of an interrupt service routine.
pub const CONTEXT_ISR: u64 = 0xFFFF_FFFF;
/// Context word before the scheduler runs.
pub const CONTEXT_INIT: u64 = 0xF0F0_F0F0;
/// Number of words in a trace entry.
pub const ENTRY_WORDS: usize = 8;
/// The longest object name that is believed; the default is 32.
pub const MAX_NAME: u16 = 4096;
/// The length of object names in most kernels.
pub const USUAL_NAME: u16 = 32;
/// The largest buffer that is believed: 4 GiB hold 134 million events.
pub const MAX_BUFFER: u64 = 1 << 32;
/// The most registry entries that are believed; the largest seen in the field has a few hundred.
const MAX_OBJECTS: u64 = 65_536;

/// Bytes of the header.
pub const fn header_size(word: Width) -> usize {
    match word {
        Width::W4 => 48,
        Width::W8 => 96,
    }
}

/// Bytes of a trace entry.
pub const fn entry_size(word: Width) -> usize {
    match word {
        Width::W4 => 32,
        Width::W8 => 64,
    }
}

/// Bytes of a registry entry before its name.
pub const fn object_head(word: Width) -> usize {
    match word {
        Width::W4 => 16,
        Width::W8 => 32,
    }
}

/// Bytes of a registry entry: the C structure is padded to its alignment, whatever the name size.
pub fn object_size(word: Width, name_size: u16) -> usize {
    let unpadded = object_head(word).saturating_add(usize::from(name_size));
    unpadded.next_multiple_of(word.bytes())
}

/// Where header, registry and ring of one trace are, in addresses of the target and numbers of slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceLayout {
    /// Byte order.
    pub endian: Endian,
    /// Width of a stored word: the kernel's `ULONG`.
    pub word: Width,
    /// Address of the header, at full width.
    pub header: Addr,
    /// The header as it is stored.
    pub stored: Header,
    /// The same after its repair, where it is damaged.
    pub fields: Header,
    /// Address of the first registry entry.
    pub registry: Addr,
    /// Number of registry entries.
    pub objects: u64,
    /// Bytes of an object's name.
    pub name_size: u16,
    /// Address of the first slot.
    pub ring: Addr,
    /// Number of slots.
    pub capacity: u64,
    /// The slot that the next event goes to: the oldest one once the ring has wrapped. `None` where the pointer leads
    /// nowhere.
    pub current: Option<u64>,
    /// The slots that the kernel's own pointer and the header's copy of it point to.
    pub pointers: (Option<u64>, Option<u64>),
    /// Valid bits of a time stamp.
    pub time_mask: u64,
}

impl TraceLayout {
    /// The layout that a header at `header` describes. `current` is the kernel's own pointer where it was read: the
    /// header's copy is written after it, and stays when the trace is disabled.
    pub fn new(header: Addr, (endian, word): (Endian, Width), fields: Header, current: Option<u64>) -> Self {
        let name_size = name_size(&fields, word).unwrap_or_else(|guess| guess);
        let object = object_size(word, name_size);
        let start = fields.offset(fields.buffer_start, word);
        let size = fields.offset(fields.buffer_end, word).saturating_sub(start);
        let mut this = Self {
            endian,
            word,
            header,
            stored: fields,
            fields,
            registry: header.wrapping_add(fields.offset(fields.registry_start, word)),
            objects: whole(registry_bytes(&fields, word), object).min(MAX_OBJECTS),
            name_size,
            ring: header.wrapping_add(start),
            capacity: whole(size, entry_size(word)),
            current: None,
            pointers: (None, None),
            time_mask: fields.time_mask,
        };
        let (kernel, copy) = this.pointer_offsets(current);
        this.pointers = (kernel.and_then(|at| this.begins(at)), this.begins(copy));
        this.current = kernel.and_then(|at| this.holding(at)).or_else(|| this.holding(copy));
        this
    }

    /// What a header says that cannot be, and what was taken instead.
    pub(super) fn issues(&self, current: Option<u64>) -> Vec<Issue> {
        let mut issues = Vec::new();
        let bytes = registry_bytes(&self.fields, self.word);
        if let (Err(taken), true) = (name_size(&self.fields, self.word), bytes > 0) {
            let stated = self.fields.name_size;
            let message = format!(
                "the header says object names have {stated} bytes, which does not divide its registry of {bytes} bytes; {taken} is used"
            );
            issues.push(Issue::new(Code::NameSize, message).at(Place::address(self.header)));
        }
        let objects = whole(bytes, self.object_size());
        if objects > MAX_OBJECTS {
            let message = format!("the header claims {objects} objects; the first {MAX_OBJECTS} are read");
            issues.push(Issue::new(Code::RegistryTooLarge, message).at(Place::address(self.header)));
        }
        // The header's copy counts where the kernel's pointer is not known, or leads nowhere.
        let (kernel, copy) = self.pointer_offsets(current);
        let copy = kernel.is_none_or(|at| self.holding(at).is_none()).then_some(copy);
        issues.extend(kernel.into_iter().chain(copy).filter_map(|offset| self.pointer_issue(offset)));
        issues
    }

    fn pointer_issue(&self, offset: u64) -> Option<Issue> {
        let slot = whole(offset, self.entry_size());
        if slot > self.capacity {
            let message = "the current pointer does not point into the ring; order is recovered from the time stamps";
            let issue = Issue::new(Code::CurrentPointer, message);
            return Some(issue.at(Place::address(self.header)));
        }
        let message = format!("the current pointer does not point to the start of an entry; slot {slot} is used");
        let issue = Issue::new(Code::CurrentUnaligned, message);
        let place = Place::address(self.ring.wrapping_add(offset));
        self.begins(offset).is_none().then(|| issue.at(place))
    }

    /// Bytes from the ring's start to where the kernel's pointer and the header's copy of it lead. The kernel's is a full
    /// address, the copy may be a low half.
    fn pointer_offsets(&self, current: Option<u64>) -> (Option<u64>, u64) {
        let start = self.ring.wrapping_sub(self.header);
        let copy = self.fields.offset(self.fields.current, self.word).wrapping_sub(start);
        (current.map(|p| p.wrapping_sub(self.ring)), copy)
    }

    /// The slot that holds the byte so far into the ring. One past the last slot is where no kernel leaves its pointer, but
    /// dumps edited by hand do: the first one.
    fn holding(&self, offset: u64) -> Option<u64> {
        let slot = whole(offset, self.entry_size());
        (slot <= self.capacity).then_some(if slot == self.capacity { 0 } else { slot })
    }

    /// The same, where the slot begins there.
    fn begins(&self, offset: u64) -> Option<u64> {
        self.holding(offset).filter(|_| offset.is_multiple_of(self.entry_size() as u64))
    }

    /// Bytes of a slot.
    pub const fn entry_size(&self) -> usize {
        entry_size(self.word)
    }

    /// Bytes of a registry entry.
    pub fn object_size(&self) -> usize {
        object_size(self.word, self.name_size)
    }

    /// Bytes of the registry that are read.
    pub fn registry_len(&self) -> usize {
        usize::try_from(self.objects).ok().and_then(|n| n.checked_mul(self.object_size())).unwrap_or(0)
    }

    /// The slots of the kernel's pointer and of the header's copy where no kernel leaves them so: it stores its own first,
    /// so that the copy may be one slot behind.
    pub fn differing(&self) -> Option<(u64, u64)> {
        let (kernel, header) = (self.pointers.0?, self.pointers.1?);
        (kernel != header && kernel != self.after(header, 1)).then_some((kernel, header))
    }

    /// Address of a slot.
    pub const fn address(&self, slot: u64) -> Addr {
        self.ring.wrapping_add(slot.wrapping_mul(entry_size(self.word) as u64))
    }

    /// The slot that holds an address in the ring.
    pub fn slot_of(&self, address: Addr) -> u64 {
        whole(address.wrapping_sub(self.ring), self.entry_size())
    }

    /// The slot that a pointer in the header points to.
    pub fn slot_of_pointer(&self, pointer: u64) -> Option<u64> {
        let start = self.ring.wrapping_sub(self.header);
        self.holding(self.fields.offset(pointer, self.word).wrapping_sub(start))
    }

    /// The slot that begins at an address; `None` where that is no slot of the ring.
    pub fn slot_at(&self, address: Addr) -> Option<u64> {
        self.begins(address.wrapping_sub(self.ring)).filter(|slot| self.address(*slot) == address)
    }

    /// Bytes of `slots` slots.
    pub fn bytes(&self, slots: u64) -> usize {
        usize::try_from(slots.saturating_mul(self.entry_size() as u64)).unwrap_or(usize::MAX)
    }

    /// Whole slots in so many bytes.
    pub const fn slots(&self, bytes: usize) -> u64 {
        whole(bytes as u64, self.entry_size())
    }

    /// The slot at a position that may be past the last slot. A ring without slots has the position 0 alone.
    fn around(&self, position: u64) -> u64 {
        position.checked_rem(self.capacity).unwrap_or(0)
    }

    /// The slot so many after another, around the ring.
    #[expect(clippy::arithmetic_side_effects, reason = "a slot, and a number of slots that are read")]
    pub fn after(&self, slot: u64, count: u64) -> u64 {
        self.around(slot + count)
    }

    /// Slots from one to another, around the ring.
    #[expect(clippy::arithmetic_side_effects, reason = "both are slots of the ring, below its capacity")]
    pub fn distance(&self, from: u64, to: u64) -> u64 {
        self.around(to + self.capacity - from)
    }

    /// The slot so many before another, around the ring.
    pub fn before(&self, slot: u64, count: u64) -> u64 {
        self.distance(self.around(count), slot)
    }

    /// The sequence number of a slot: its place in ring order from the oldest.
    pub fn seq(&self, slot: u64, current: u64, wrapped: bool) -> u64 {
        if wrapped { self.distance(current, slot) } else { slot }
    }

    /// The address, at full width, that a pointer in the header means.
    pub const fn place(&self, pointer: u64) -> Addr {
        self.header.wrapping_add(self.fields.offset(pointer, self.word))
    }

    /// The pointer that the header would hold for an address.
    pub const fn pointer_to(&self, address: Addr) -> u64 {
        self.fields.base.wrapping_add(address.wrapping_sub(self.header)) & self.word.max()
    }

    /// Address of the header's copy of the current pointer: its ninth word, where the two 16-bit numbers count as one.
    pub const fn current_at(&self) -> Addr {
        self.header.wrapping_add((self.word.bytes() as u64).wrapping_mul(8))
    }

    /// The first byte after the ring.
    pub const fn ring_end(&self) -> Addr {
        self.address(self.capacity)
    }

    /// The whole buffer: header, registry and ring.
    pub const fn region(&self) -> Region {
        Region { start: self.header, len: self.ring_end().wrapping_sub(self.header) }
    }

    /// The part of the buffer that shares a byte with `region`.
    pub const fn part_at(&self, region: Region) -> Option<&'static str> {
        let end = region.start.saturating_add(region.len);
        if region.start >= self.ring_end() || end <= self.header {
            None
        } else if region.start < self.registry {
            Some("header")
        } else if region.start < self.ring {
            Some("registry")
        } else {
            Some("ring")
        }
    }
}

/// Whole records of `size` bytes in so many bytes.
#[expect(clippy::arithmetic_side_effects, reason = "no record of a trace has 0 bytes")]
const fn whole(bytes: u64, size: usize) -> u64 {
    bytes / size as u64
}

fn registry_bytes(fields: &Header, word: Width) -> u64 {
    let start = fields.offset(fields.registry_start, word);
    fields.offset(fields.registry_end, word).saturating_sub(start)
}

/// The size of names that the header states, where whole entries with such names fill its registry; else a likely one.
fn name_size(fields: &Header, word: Width) -> Result<u16, u16> {
    let bytes = registry_bytes(fields, word);
    let whole = |name: u16| bytes.is_multiple_of(object_size(word, name) as u64);
    let stated = fields.name_size;
    if (1..=MAX_NAME).contains(&stated) && whole(stated) {
        return Ok(stated);
    }
    Err(if whole(USUAL_NAME) { USUAL_NAME } else { stated.clamp(1, MAX_NAME) })
}
