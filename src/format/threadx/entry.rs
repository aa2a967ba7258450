//! One slot of the ring: eight words, and what the kernel means by the first four.

use std::ops::ControlFlow;

use super::layout::{CONTEXT_INIT, CONTEXT_ISR, ENTRY_WORDS};
use crate::abi::{Endian, Width};
use crate::trace::ContextKind;

/// Ids whose meaning the order, the clock and the trust of a trace hang on.
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
#[derive(Debug, Clone, Copy)]
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

    /// The words of a slot.
    #[inline]
    pub fn words(&self, slot: &[u8]) -> [u64; ENTRY_WORDS] {
        match (self.word, self.endian) {
            (Width::W4, Endian::Little) => load(slot, little4),
            (Width::W4, Endian::Big) => load(slot, big4),
            (Width::W8, Endian::Little) => load(slot, |b| u64::from_le_bytes(*b)),
            (Width::W8, Endian::Big) => load(slot, |b| u64::from_be_bytes(*b)),
        }
    }

    /// What the words mean.
    #[inline]
    pub const fn entry(&self, words: [u64; ENTRY_WORDS]) -> Entry {
        let [context, priority, id, stamp, i1, i2, i3, i4] = words;
        // An id is never wider than 32 bits; a damaged 64-bit slot shows its low half and keeps no definition.
        let (id, core) = if self.cores > 1 { (id & 0xFF_FFFF, (id >> 24) & 0xFF) } else { (id & 0xFFFF_FFFF, 0) };
        #[allow(clippy::cast_possible_truncation, reason = "both were cut to fewer bits just now")]
        let (id, core) = (id as u32, core as u16);
        Entry { context, priority, id, core, stamp: stamp & self.mask, info: [i1, i2, i3, i4] }
    }

    /// Shows the entry of each whole slot, in their order, until `each` breaks. How words are read is chosen once, not
    /// slot by slot.
    #[inline]
    pub fn entries(&self, slots: &[u8], each: impl FnMut(Entry) -> ControlFlow<()>) {
        const SMALL: usize = ENTRY_WORDS * 4;
        const LARGE: usize = ENTRY_WORDS * 8;
        match (self.word, self.endian) {
            (Width::W4, Endian::Little) => self.each::<4, SMALL>(slots, little4, each),
            (Width::W4, Endian::Big) => self.each::<4, SMALL>(slots, big4, each),
            (Width::W8, Endian::Little) => self.each::<8, LARGE>(slots, |b| u64::from_le_bytes(*b), each),
            (Width::W8, Endian::Big) => self.each::<8, LARGE>(slots, |b| u64::from_be_bytes(*b), each),
        }
    }

    /// The same for words of `W` bytes, which make slots of `N`.
    #[inline]
    fn each<const W: usize, const N: usize>(
        &self,
        slots: &[u8],
        word: impl Fn(&[u8; W]) -> u64,
        mut each: impl FnMut(Entry) -> ControlFlow<()>,
    ) {
        for slot in slots.as_chunks::<N>().0 {
            if each(self.entry(load(slot, &word))).is_break() {
                return;
            }
        }
    }

    /// The entry of a slot.
    #[inline]
    pub fn read(&self, slot: &[u8]) -> Entry {
        self.entry(self.words(slot))
    }

    /// A slot's context word alone.
    #[inline]
    pub fn context(&self, slot: &[u8]) -> u64 {
        self.endian.word(self.word, slot, 0).unwrap_or(0)
    }
}

fn little4(bytes: &[u8; 4]) -> u64 {
    u64::from(u32::from_le_bytes(*bytes))
}

fn big4(bytes: &[u8; 4]) -> u64 {
    u64::from(u32::from_be_bytes(*bytes))
}

/// The words of a slot, of `W` bytes each.
#[inline]
fn load<const W: usize>(slot: &[u8], word: impl Fn(&[u8; W]) -> u64) -> [u64; ENTRY_WORDS] {
    let mut words = [0; ENTRY_WORDS];
    for (to, from) in words.iter_mut().zip(slot.as_chunks::<W>().0) {
        *to = word(from);
    }
    words
}

/// What kind of context a context word means. Threads lie anywhere, also above 0xF0F0F0F0.
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
