//! BYTES -> MODEL: one folder a format.
//!
//! [`Format::locate`] finds where a trace is, [`Located::capture`] reads what a question needs, [`Capture::decode`] is
//! pure: the same bytes give the same trace whether they came from a probe, a core or a fuzzer. What a format knows
//! between these steps is its own: each has types of its own behind these traits. A new format touches its own folder,
//! its catalogue and one line in [`ALL`].

mod arena;
mod haystack;
mod partial;
pub mod qnx;
mod running;
pub mod threadx;
pub mod uia;

pub use haystack::Haystack;

use crate::abi::{Addr, Endian, Width};
use crate::catalogue::{Catalogue, Names};
use crate::code::Code;
use crate::error::Error;
use crate::mem::segments::Segments;
use crate::mem::{Memory, Region};
use crate::sym::Symbols;
use crate::trace::{Direction, Issue, Trace};

/// Every format that this program reads.
pub static ALL: &[&dyn Format] = &[&threadx::ThreadX, &uia::Uia, &qnx::Qnx];

/// The names of variables that the formats ask for in every program.
pub fn symbols() -> impl Iterator<Item = &'static str> {
    ALL.iter().flat_map(|format| format.symbols()).copied()
}

/// One trace format.
pub trait Format: Sync {
    /// Its name: `--format-in`, `trace.format`.
    fn name(&self) -> &'static str;

    /// Names of variables that it asks for in every program: looked up together.
    fn symbols(&self) -> &'static [&'static str] {
        &[]
    }

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

    /// The finds of a search, each trace once, the preferred one first: a live buffer, which is at the address that it
    /// states; of several the largest.
    fn sift(&self, memory: &mut dyn Memory, hits: Vec<(Addr, Found)>) -> Vec<(Addr, Found)> {
        let _ = memory;
        let mut hits = hits;
        hits.sort_by_key(|(at, f)| std::cmp::Reverse((f.claims(*at), f.capacity, std::cmp::Reverse(*at))));
        hits
    }

    /// Constants of the program, besides these, that say what its events mean.
    fn constants(&self) -> &'static [&'static str] {
        &[]
    }

    /// True where a trace can be followed while it is written.
    fn can_be_followed(&self) -> bool {
        false
    }

    /// Finds the trace in a target, reading as little as can be.
    ///
    /// # Errors
    /// [`Error`] when there is none or it cannot be reached, with all that was tried.
    fn locate(&self, memory: &mut dyn Memory, symbols: &dyn Symbols, hints: &Hints) -> Result<Box<dyn Located>, Error>;

    /// The trace at a location from a search: nothing else is known of it.
    fn at(&self, location: Location) -> Box<dyn Located>;

    /// Reads buffers that one run filled one after the other, oldest first, as one trace.
    ///
    /// # Errors
    /// [`Error`] when a buffer cannot be read, or the format has no such buffers.
    fn join(&self, buffers: Vec<(Location, Segments)>, symbols: &dyn Symbols) -> Result<Box<dyn Capture>, Error> {
        let mut buffers = buffers.into_iter();
        match (buffers.next(), buffers.next()) {
            (Some((location, mut memory)), None) => self.at(location).capture(&mut memory, symbols, Extent::All),
            _ => {
                Err(Error::failed(Code::Usage, format!("{} traces cannot be joined", self.name()), "give one --trace"))
            }
        }
    }
}

/// A trace that was found, with what its format knows of it.
pub trait Located: std::fmt::Debug + Send + Sync {
    /// Where it is.
    fn location(&self) -> &Location;

    /// Reads what `extent` asks for.
    ///
    /// # Errors
    /// [`Error`] when what was located turns out to be no trace, or cannot be read at all.
    fn capture(
        &self,
        memory: &mut dyn Memory,
        symbols: &dyn Symbols,
        extent: Extent,
    ) -> Result<Box<dyn Capture>, Error>;
}

/// The bytes of a trace with their addresses: all that decoding needs.
pub trait Capture: std::fmt::Debug {
    /// What its ids mean, where each program has its own. Pure.
    fn catalogue(&self, names: Names) -> Catalogue;

    /// Makes a trace of it. Pure.
    ///
    /// # Errors
    /// [`Error`] when it holds no trace of its format.
    fn decode(&self, catalogue: &Catalogue, options: &DecodeOptions) -> Result<Trace, Error>;

    /// Where the whole trace is, from its first byte to its last, of a capture of [`Extent::All`]: what `dump` writes.
    /// Sorted, and no two of them touch.
    fn ranges(&self) -> Vec<Region>;

    /// The threads that run, by core, as the kernel says: their addresses, 0 for none. Empty where nothing says.
    fn running(&self) -> Vec<Addr> {
        Vec::new()
    }

    /// What went wrong while it was read.
    fn issues(&self) -> &[Issue];

    /// Follows the trace from the end of this capture on. `None` where this format cannot be read while the target
    /// runs.
    fn follow(&self) -> Option<Box<dyn Follow>> {
        None
    }
}

/// The end of what was read of a trace, from which reading goes on while the target runs.
pub trait Follow: std::fmt::Debug {
    /// Reads what was inserted since: only what is whole, and how much was lost. Reads the objects again only where
    /// `names` says so, or they were never read.
    ///
    /// # Errors
    /// [`Error`] where the trace is not there any more (`trace-changed`: it is another), or cannot be read.
    fn read(&self, memory: &mut dyn Memory, names: bool) -> Result<Batch, Error>;

    /// The place so many slots further back, where they are among those that it knows and one before them is.
    fn back(&self, slots: u64) -> Option<Box<dyn Follow>>;

    /// Address of the header of the trace that is followed.
    fn header(&self) -> Addr;

    /// Number of slots of the ring.
    fn capacity(&self) -> u64;

    /// The next slot, and the bytes of the one before it: enough for [`Follow::restore`] in another run.
    fn save(&self) -> (u64, Vec<u8>);

    /// Goes on from a place that was saved. Does nothing where that is of another trace.
    fn restore(&mut self, slot: u64, before: &[u8]);
}

/// What was inserted since the last look.
#[derive(Debug)]
pub struct Batch {
    /// The new slots, after those that were known.
    pub capture: Box<dyn Capture>,
    /// How many slots at the start of the capture were known before.
    pub known: u64,
    /// Where to go on.
    pub next: Box<dyn Follow>,
    /// What is missing before the first new event.
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
    /// Where the events are, for what only describes them: several finds of the same events are one trace.
    pub events: Option<Addr>,
}

impl Found {
    /// True where it is at `address` and says so.
    pub const fn claims(&self, address: Addr) -> bool {
        address & self.word.max() == self.base
    }
}

/// What the user and the other inputs say before anything is read.
#[derive(Debug, Clone, Copy, Default)]
pub struct Hints {
    /// Where the trace describes itself (`--header`).
    pub header: Option<Addr>,
    /// True where `header` is not an option's: a file begins with a trace.
    pub header_in_file: bool,
    /// Byte order of the target, from an ELF or a core.
    pub endian: Option<Endian>,
    /// Width of a pointer on the target, from an ELF or a core.
    pub pointer: Option<Width>,
}

impl Hints {
    /// The location that [`Hints::header`] gives.
    pub fn given(&self) -> Option<Location> {
        let header = self.header?;
        let how =
            if self.header_in_file { "the file begins with it".to_owned() } else { format!("--header {header:#x}") };
        Some(Location { header, endian: self.endian, pointer: self.pointer, how, by_symbols: false })
    }
}

/// Where a trace is.
#[derive(Debug, Clone)]
pub struct Location {
    /// Where it describes itself.
    pub header: Addr,
    /// Byte order, where the way it was found shows it.
    pub endian: Option<Endian>,
    /// Pointer width, where the way it was found shows it.
    pub pointer: Option<Width>,
    /// One sentence: how it was found.
    pub how: String,
    /// True where it was found by symbols, which can be of another build than the memory.
    pub by_symbols: bool,
}

/// How much of a trace to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// All of it.
    All,
    /// No events: only the trace's own description, and its objects.
    Nothing,
    /// The newest slots, as many as this.
    Newest(u64),
}

/// A byte order as nom takes it.
const fn nom_order(endian: Endian) -> nom::number::Endianness {
    match endian {
        Endian::Little => nom::number::Endianness::Little,
        Endian::Big => nom::number::Endianness::Big,
    }
}

/// These ranges of memory sorted, and no two of them touch.
fn merged(spans: impl IntoIterator<Item = Region>) -> Vec<Region> {
    let mut spans: Vec<Region> = spans.into_iter().filter(|r| r.len > 0).collect();
    spans.sort_unstable_by_key(|r| (r.start, r.len));
    let mut ranges: Vec<Region> = Vec::new();
    for span in spans {
        let end = span.start.saturating_add(span.len);
        match ranges.last_mut() {
            Some(before) if span.start <= before.start.saturating_add(before.len) => {
                before.len = before.len.max(end.saturating_sub(before.start));
            }
            _ => ranges.push(span),
        }
    }
    ranges
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
    /// The run before the last start, as far as this one has not overwritten it (`--previous`).
    pub previous: bool,
}
