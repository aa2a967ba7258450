//! One event, small and `Copy`.

use std::num::NonZero;

use super::ContextId;

/// Number of an event definition in the catalogue that goes with the trace, from 0 on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DefId {
    /// One more: one that is not known needs no room of its own then.
    behind: NonZero<u32>,
}

impl DefId {
    /// The definition of this number. The last two numbers are one: no catalogue has so many.
    #[must_use]
    #[inline]
    pub const fn new(number: u32) -> Self {
        Self { behind: NonZero::<u32>::MIN.saturating_add(number) }
    }

    /// Its number.
    #[must_use]
    #[inline]
    pub const fn number(self) -> u32 {
        self.behind.get().wrapping_sub(1)
    }

    /// Its place in a list by number.
    #[must_use]
    #[inline]
    pub const fn index(self) -> usize {
        self.number() as usize
    }
}

/// The value of a field that only one format's events have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extra<'a> {
    /// The event has none.
    Null,
    /// A count, an id: a number in JSON.
    Number(u64),
    /// An address or a word: hexadecimal, a string in JSON.
    Hex(u64),
    /// Text. Hostile: escape before printing.
    Text(&'a str),
}

/// One recorded event.
#[derive(Debug, Clone, Copy, Default)]
pub struct Event {
    /// Number of its slot in ring order from the oldest: the same whatever was read.
    pub seq: u64,
    /// Index of the slot in the buffer.
    pub slot: u64,
    /// Ticks since the event whose seq is the trace's origin.
    pub ticks: i64,
    /// Ticks since the event before it in the trace (on its core); `None` for the first read.
    pub delta: Option<i64>,
    /// The stored stamp under the time mask; `None` where the record has none.
    pub stamp: Option<u64>,
    /// The core that inserted it; 0 on one core.
    pub core: u16,
    /// The context that inserted it.
    pub context: ContextId,
    /// The thread's priority; `None` outside threads or where it was not recorded.
    pub priority: Option<u16>,
    /// The thread's preemption threshold; `None` outside threads or where it was not recorded.
    pub threshold: Option<u16>,
    /// In an ISR: the context that it interrupted, idle included. `None` where the kernel stored none.
    pub interrupted: Option<ContextId>,
    /// In an ISR: the number of its interrupt, where an event that was read shows it. Formats leave it empty: it is
    /// filled in by the walk over [`Trace::interrupts`](super::Trace::interrupts).
    pub isr: Option<u32>,
    /// What happened: an id of the format's catalogue.
    pub id: u32,
    /// The definition of that id; `None` where the catalogue has none.
    pub def: Option<DefId>,
    /// The payload.
    pub words: Words,
    /// Bit n set: word n (from 0) is not reliable (filled in late, or overwritten by the kernel's filter bug).
    pub doubtful: u8,
}

/// The payload words of an event: up to four of them in place, longer ones in the format's arena.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Words {
    inline: [u64; 4],
    len: u8,
    /// Where a longer payload is in the arena of the source.
    pub spill: u32,
}

impl Words {
    /// Mark in `len` for a payload in the arena.
    const SPILLED: u8 = u8::MAX;

    /// Exactly four words: every ThreadX event.
    #[inline]
    pub const fn four(words: [u64; 4]) -> Self {
        Self { inline: words, len: 4, spill: 0 }
    }

    /// Up to four words; `None` for more.
    pub fn few(words: &[u64]) -> Option<Self> {
        let mut inline = [0; 4];
        inline.get_mut(..words.len())?.copy_from_slice(words);
        Some(Self { inline, len: u8::try_from(words.len()).ok()?, spill: 0 })
    }

    /// A payload that is in the arena of the source at `spill`.
    pub const fn spilled(spill: u32) -> Self {
        Self { inline: [0; 4], len: Self::SPILLED, spill }
    }

    /// True where the payload is in the arena.
    #[inline]
    pub const fn is_spilled(&self) -> bool {
        self.len == Self::SPILLED
    }

    /// The words held in place.
    #[inline]
    pub fn inline(&self) -> &[u64] {
        self.inline.get(..usize::from(self.len)).unwrap_or(&[])
    }

    /// The same, with zeros for those that are missing.
    #[inline]
    pub const fn padded(&self) -> [u64; 4] {
        self.inline
    }
}
