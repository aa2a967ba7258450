//! BYTES -> MODEL: one folder a format, with the same file names in each.
//!
//! `locate` finds where a trace lies, `capture` reads what a question needs, `decode` is pure: the same bytes give the
//! same trace whether they came from a probe, a core or a fuzzer. A new format touches its own folder, its catalogue and
//! one line in [`ALL`].

mod haystack;
pub mod qnx;
pub mod threadx;
pub mod uia;

pub use haystack::Haystack;

use crate::abi::{Addr, Endian, Width};
use crate::bytes::Bytes;
use crate::catalogue::{Catalogue, Names};
use crate::code::Code;
use crate::error::Error;
use crate::mem::{Memory, Region};
use crate::sym::Symbols;
use crate::trace::{Direction, Issue, Trace};

/// Every format that this program reads.
pub static ALL: &[&dyn Format] = &[&threadx::ThreadX, &uia::Uia, &qnx::Qnx];

/// One trace format.
pub trait Format: Sync {
    /// Its name: `--format-in`, `trace.format`.
    fn name(&self) -> &'static str;

    /// What its ids mean.
    fn catalogue(&self, names: Names) -> Catalogue;

    /// True where bytes begin with a trace of this format.
    fn sniff(&self, head: &[u8]) -> bool;

    /// True where bytes at `--header` can describe a trace of this format: where that is something else than the
    /// beginning of the buffer.
    fn describes(&self, head: &[u8]) -> bool {
        self.sniff(head)
    }

    /// What is wrong with a file that begins as a trace of this format does, and ends before its header does.
    fn cut_short(&self, bytes: &[u8]) -> Option<String> {
        let _ = bytes;
        None
    }

    /// Offsets in `bytes` at which a trace that is consistent with itself begins, at most `most`, with the address
    /// that each claims for itself.
    fn scan(&self, bytes: &[u8], most: usize) -> Vec<Found> {
        self.search(&Haystack::new(bytes), most)
    }

    /// The same, in bytes of which a part needs no look.
    fn search(&self, hay: &Haystack<'_>, most: usize) -> Vec<Found>;

    /// What a search found, without what is the same trace twice, the one that is meant first: the live buffer lies
    /// where it says it lies; of several the largest is meant.
    fn sift(&self, memory: &mut dyn Memory, hits: Vec<(Addr, Found)>) -> Vec<(Addr, Found)> {
        let _ = memory;
        let mut hits = hits;
        hits.sort_by_key(|(at, f)| std::cmp::Reverse((f.claims(*at), f.capacity, std::cmp::Reverse(*at))));
        hits
    }

    /// Finds the trace in a target, reading as little as can be.
    ///
    /// # Errors
    /// [`Error`] when there is none or it cannot be reached, with all that was tried.
    fn locate(&self, memory: &mut dyn Memory, symbols: &dyn Symbols, hints: &Hints) -> Result<Located, Error>;

    /// Reads what `extent` asks for.
    ///
    /// # Errors
    /// [`Error`] when what was located turns out to be no trace, or cannot be read at all.
    fn capture(
        &self,
        memory: &mut dyn Memory,
        symbols: &dyn Symbols,
        located: &Located,
        extent: Extent,
    ) -> Result<Capture, Error>;

    /// Where a capture ends, for [`Format::newer`] to go on from. `None` where this format cannot be read while the
    /// target runs.
    fn cursor(&self, capture: &Capture) -> Option<Cursor> {
        let _ = capture;
        None
    }

    /// Reads what was inserted behind a cursor, in a target that may run on meanwhile: only what is whole, and how much
    /// was lost. Reads the objects again only where `names` says so, or they were never read.
    ///
    /// # Errors
    /// [`Error`] where the trace is not there any more (`trace-changed`: it is another), or cannot be read.
    fn newer(&self, memory: &mut dyn Memory, located: &Located, cursor: &Cursor, names: bool) -> Result<Newer, Error> {
        let _ = (memory, located, cursor, names);
        Err(Error::failed(Code::CannotFollow, format!("{} cannot be followed", self.name()), ""))
    }

    /// What the ids of this capture mean, where each program has its own. Pure.
    fn catalogue_of(&self, capture: &Capture, names: Names) -> Catalogue {
        let _ = capture;
        self.catalogue(names)
    }

    /// Makes a trace of captured bytes. Pure.
    ///
    /// # Errors
    /// [`Error`] when the capture holds no trace of this format.
    fn decode(&self, capture: &Capture, catalogue: &Catalogue, options: &DecodeOptions) -> Result<Trace, Error>;

    /// Where the whole trace lies, from its first byte to its last, of a capture of [`Extent::All`]: what `dump` writes.
    /// Sorted, and no two of them touch.
    fn ranges(&self, capture: &Capture) -> Vec<Region> {
        capture.ranges()
    }

    /// Makes one trace of buffers that one run filled one after the other, oldest first. Pure.
    ///
    /// # Errors
    /// [`Error`] when they are not of one run, or the format knows no such buffers.
    fn join(&self, captures: &[Capture], catalogue: &Catalogue, options: &DecodeOptions) -> Result<Trace, Error> {
        match captures {
            [one] => self.decode(one, catalogue, options),
            _ => {
                Err(Error::failed(Code::Usage, format!("{} traces cannot be joined", self.name()), "give one --trace"))
            }
        }
    }
}

/// A trace found by scanning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// Offset of its first byte in what was scanned.
    pub offset: usize,
    /// The address that it gives for itself (of the stored width).
    pub base: Addr,
    /// Number of event slots.
    pub capacity: u64,
    /// Byte order.
    pub endian: Endian,
    /// Width of a stored word.
    pub word: Width,
    /// Where the events lie, for what only describes them: several finds of the same events are one trace.
    pub events: Option<Addr>,
}

impl Found {
    /// True where it lies at `address` and says so.
    #[must_use]
    pub const fn claims(&self, address: Addr) -> bool {
        address & self.word.max() == self.base
    }
}

/// What the user and the other inputs tell before anything is read.
#[derive(Debug, Clone, Copy, Default)]
pub struct Hints {
    /// Where the trace describes itself (`--header`).
    pub header: Option<Addr>,
    /// Byte order of the target, from an ELF or a core.
    pub endian: Option<Endian>,
    /// Width of a pointer on the target, from an ELF or a core.
    pub pointer: Option<Width>,
}

/// Where a trace lies.
#[derive(Debug, Clone)]
pub struct Located {
    /// Where it describes itself.
    pub header: Addr,
    /// Byte order, where the way it was found tells.
    pub endian: Option<Endian>,
    /// Pointer width, where the way it was found tells.
    pub pointer: Option<Width>,
    /// One sentence: how it was found.
    pub how: String,
    /// What was read on the way and need not be read again: name of a kernel variable and its value; its address where it
    /// is enough that it is there.
    pub known: Vec<(&'static str, u64)>,
    /// True where symbols told, which can be of another build than the memory.
    pub by_symbols: bool,
}

impl Located {
    /// The value of a kernel variable that was read while locating.
    #[must_use]
    pub fn known(&self, name: &str) -> Option<u64> {
        self.known.iter().find(|(n, _)| *n == name).map(|(_, v)| *v)
    }
}

/// How much of a trace to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// All of it.
    All,
    /// No event at all: what the trace says of itself, and its objects.
    Nothing,
    /// The newest slots, as many as this.
    Newest(u64),
    /// What is newer than a cursor: [`Format::newer`] alone reads it.
    Newer,
}

/// Where following stands.
#[derive(Debug, Clone)]
pub struct Cursor {
    /// The slot that the next event goes to.
    pub slot: u64,
    /// Number of slots of the ring, and bytes of each.
    pub slots: (u64, usize),
    /// The slots before it as they were read: the last of them tells whether the ring went around since.
    pub before: Bytes,
    /// What describes the trace: its header and its objects, as they were read last.
    pub described: Vec<Block>,
    /// How often in a row the next slot was there and could not be read.
    pub misses: u32,
    /// The ring was filled faster than it could be read, and the slot before the cursor is not known: distances from here
    /// to the pointer may lack whole rounds of the ring. At least so many events are behind the cursor.
    pub unsure: Option<u64>,
}

impl Cursor {
    /// The cursor so many slots further back, where they are among those that it knows and one before them is.
    #[must_use]
    pub fn back(&self, slots: u64) -> Option<Self> {
        let (capacity, size) = self.slots;
        let bytes = usize::try_from(slots).ok()?.checked_mul(size)?;
        let left = self.before.len().checked_sub(bytes).filter(|left| *left >= size)?;
        let slot = self.slot.checked_add(capacity)?.checked_sub(slots)?.checked_rem(capacity)?;
        Some(Self { slot, before: self.before.cut(0, left)?, ..self.clone() })
    }
}

/// What was inserted behind a cursor.
#[derive(Debug, Clone)]
pub struct Newer {
    /// The new slots, behind those that the cursor knew.
    pub capture: Capture,
    /// How many slots at the start of the capture were known before.
    pub known: u64,
    /// Where to go on.
    pub cursor: Cursor,
    /// What is missing between the cursor and the first new event.
    pub lost: Lost,
    /// The ring was emptied since: the trace was enabled again.
    pub restarted: bool,
    /// More is there already.
    pub more: bool,
}

/// Events that were not read in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lost {
    /// How many.
    pub count: u64,
    /// True where the ring may have gone around more often than it shows.
    pub at_least: bool,
}

/// Captured bytes with their addresses: all that `decode` needs.
#[derive(Debug, Clone)]
pub struct Capture {
    /// Name of the format.
    pub format: &'static str,
    /// Byte order.
    pub endian: Endian,
    /// Width of a stored word.
    pub word: Width,
    /// Width of a pointer, where known.
    pub pointer: Option<Width>,
    /// The bytes.
    pub blocks: Vec<Block>,
    /// Values that do not lie in the blocks.
    pub values: Vec<(&'static str, u64)>,
    /// What went wrong while reading.
    pub issues: Vec<Issue>,
    /// How the trace was found.
    pub how: String,
    /// What was asked for.
    pub extent: Extent,
}

impl Capture {
    /// The blocks of this role, in the order in which they were put.
    pub fn blocks<'a>(&'a self, role: &'a str) -> impl Iterator<Item = &'a Block> {
        self.blocks.iter().filter(move |b| b.role == role)
    }

    /// Where the blocks lie: sorted, and no two of them touch.
    #[must_use]
    pub fn ranges(&self) -> Vec<Region> {
        let mut spans: Vec<(Addr, u64)> = self.blocks.iter().map(|b| (b.address, b.bytes.len() as u64)).collect();
        spans.sort_unstable();
        let mut ranges: Vec<Region> = Vec::new();
        for (start, len) in spans.into_iter().filter(|(_, len)| *len > 0) {
            let end = start.saturating_add(len);
            match ranges.last_mut() {
                Some(before) if start <= before.start.saturating_add(before.len) => {
                    before.len = before.len.max(end.saturating_sub(before.start));
                }
                _ => ranges.push(Region { start, len }),
            }
        }
        ranges
    }

    /// The value of this name.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<u64> {
        self.values.iter().find(|(n, _)| *n == name).map(|(_, v)| *v)
    }
}

/// Bytes that were read, and from where.
#[derive(Debug, Clone)]
pub struct Block {
    /// What they are, in the format's own words: `header`, `registry`, `ring`.
    pub role: &'static str,
    /// Address of the first byte.
    pub address: Addr,
    /// The bytes.
    pub bytes: Bytes,
}

/// What options say about decoding.
#[derive(Debug, Clone, Copy, Default)]
pub struct DecodeOptions {
    /// Which way the clock counts (`--direction`).
    pub direction: Option<Direction>,
    /// Ticks until the clock starts over (`--period`).
    pub period: Option<u64>,
    /// Ticks in a second (`--hz`).
    pub hz: Option<f64>,
    /// Release of the target's system, where its numbers changed between releases: 64 is 6.4.
    pub release: Option<u16>,
    /// The run before the last start, as far as this one has not written over it (`--previous`).
    pub previous: bool,
}
