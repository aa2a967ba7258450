//! One slot of the ring: eight words, and what the kernel means by the first four.

use std::ops::ControlFlow;

use super::layout::{CONTEXT_INIT, CONTEXT_ISR, ENTRY_WORDS};
use crate::abi::{Endian, Width};
use crate::trace::ContextKind;

/// Ids that order, clock and doubts of a trace depend on.
pub(super) mod id {
    /// Insertion of a thread that becomes ready; I4 is filled in late.
    pub const RESUME: u32 = 1;
    /// A thread that stops being ready; I4 is filled in late.
    pub const SUSPEND: u32 = 2;
    /// A time slice is over.
    pub const TIME_SLICE: u32 = 5;
    /// A thread lets others of its priority run.
    pub const RELINQUISH: u32 = 109;
    /// Entry of an interrupt routine that calls `tx_trace_isr_enter_insert`.
    pub const ISR_ENTER: u32 = 3;
    /// I2 is filled in late.
    pub const BLOCK_ALLOCATE: u32 = 10;
    /// I2 is filled in late.
    pub const BYTE_ALLOCATE: u32 = 20;
    /// I1 is the number of the kernel's ticks that the caller sleeps.
    pub const SLEEP: u32 = 112;
    /// I1 is the thread whose wait ends early.
    pub const WAIT_ABORT: u32 = 117;
    /// I1 is the kernel's tick count.
    pub const TIME_GET: u32 = 120;
    /// The kernel's tick count is set.
    pub const TIME_SET: u32 = 121;
}

/// Slots whose words are unpacked together.
pub(super) const AT_A_TIME: usize = 32;

/// How slots are read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Codec {
    pub endian: Endian,
    pub word: Width,
    /// Valid bits of a stamp.
    pub mask: u64,
    /// Number of cores; with more than one the top byte of an id is the core's number.
    pub cores: u16,
}

/// A slot's words, taken apart.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Entry {
    pub context: u64,
    pub priority: u64,
    pub id: u32,
    pub core: u16,
    /// Under the mask.
    pub stamp: u64,
    pub info: [u64; 4],
}

impl Codec {
    /// Bytes of a slot.
    pub const fn size(&self) -> usize {
        super::layout::entry_size(self.word)
    }

    /// Shows the entries of whole slots, in their order and some at a time, until `each` breaks. How words are read is chosen
    /// once for many slots.
    #[inline]
    pub fn entries(&self, slots: &[u8], mut each: impl FnMut(&[Entry]) -> ControlFlow<()>) {
        let mut buffer = [Entry::default(); AT_A_TIME];
        for slots in slots.chunks(self.size().saturating_mul(AT_A_TIME)) {
            let count = self.unpack(slots, &mut buffer);
            if each(buffer.get(..count).unwrap_or_default()).is_break() {
                return;
            }
        }
    }

    /// The entry of a slot.
    pub fn read(&self, slot: &[u8]) -> Entry {
        let mut entry = [Entry::default()];
        self.unpack(slot, &mut entry);
        entry[0]
    }

    /// A slot's context word alone.
    #[inline]
    pub fn context(&self, slot: &[u8]) -> u64 {
        self.endian.word(self.word, slot, 0).unwrap_or(0)
    }

    /// Reads whole slots; how many there were.
    fn unpack(&self, slots: &[u8], entries: &mut [Entry]) -> usize {
        const SMALL: usize = ENTRY_WORDS * 4;
        const LARGE: usize = ENTRY_WORDS * 8;
        match (self.word, self.endian) {
            (Width::W4, Endian::Little) => {
                self.unpack_by::<4, SMALL>(slots, entries, |b| u64::from(u32::from_le_bytes(b)))
            }
            (Width::W4, Endian::Big) => {
                self.unpack_by::<4, SMALL>(slots, entries, |b| u64::from(u32::from_be_bytes(b)))
            }
            (Width::W8, Endian::Little) => self.unpack_by::<8, LARGE>(slots, entries, u64::from_le_bytes),
            (Width::W8, Endian::Big) => self.unpack_by::<8, LARGE>(slots, entries, u64::from_be_bytes),
        }
    }

    /// The same for slots of `N` bytes and words of `W`.
    #[inline]
    fn unpack_by<const W: usize, const N: usize>(
        &self,
        slots: &[u8],
        entries: &mut [Entry],
        word: impl Fn([u8; W]) -> u64,
    ) -> usize {
        let (slots, _) = slots.as_chunks::<N>();
        for (slot, entry) in slots.iter().zip(entries.iter_mut()) {
            let mut words = [0; ENTRY_WORDS];
            for (to, from) in words.iter_mut().zip(slot.as_chunks::<W>().0) {
                *to = word(*from);
            }
            *entry = self.entry(words);
        }
        slots.len().min(entries.len())
    }

    /// What the words mean.
    #[inline]
    const fn entry(&self, words: [u64; ENTRY_WORDS]) -> Entry {
        let [context, priority, id, stamp, i1, i2, i3, i4] = words;
        // An id is never wider than 32 bits; a damaged 64-bit slot shows its low half and keeps no definition.
        let (id, core) = if self.cores > 1 { (id & 0xFF_FFFF, (id >> 24) & 0xFF) } else { (id & 0xFFFF_FFFF, 0) };
        #[allow(clippy::cast_possible_truncation, reason = "both were cut to fewer bits just now")]
        let (id, core) = (id as u32, core as u16);
        Entry { context, priority, id, core, stamp: stamp & self.mask, info: [i1, i2, i3, i4] }
    }
}

/// What kind of context a context word means. Threads are anywhere, also above 0xF0F0F0F0.
pub(super) const fn kind_of(context: u64) -> ContextKind {
    match context {
        CONTEXT_ISR => ContextKind::Isr,
        CONTEXT_INIT => ContextKind::Init,
        _ => ContextKind::Thread,
    }
}

impl Entry {
    /// The thread's priority and threshold from the priority word; old kernels stored no threshold.
    #[inline]
    pub fn priorities(&self) -> (Option<u16>, Option<u16>) {
        let marked = self.priority & 0x8000_0000 != 0;
        let low = |word: u64| u16::try_from(word & 0x3FF).ok();
        (low(self.priority), if marked { low(self.priority >> 16) } else { None })
    }
}

/// Bits of a thread's priority word that the kernel never sets.
pub(super) const PRIORITY_UNUSED: u64 = !0x83FF_03FF;

/// True for the ids that applications insert.
pub(super) const fn is_user(id: u32) -> bool {
    id >= 4096 && id <= 65_535
}
