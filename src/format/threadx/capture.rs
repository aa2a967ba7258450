//! The location of a trace with the kernel's variables, and the bytes that were read of it.

use super::super::{self as format, DecodeOptions, Extent, Follow, Hints, Located, Location, merged};
use super::layout::TraceLayout;
use super::symbols::Variables;
use super::{decode, follow, locate, read, usbx};
use crate::abi::Addr;
use crate::bytes::Bytes;
use crate::catalogue::{Catalogue, Names};
use crate::error::Error;
use crate::mem::segments::Segments;
use crate::mem::{Memory, Region};
use crate::sym::Symbols;
use crate::trace::{Issue, Trace};

/// Where a trace is.
#[derive(Debug, Clone)]
pub struct Place {
    /// What every format knows of it.
    pub at: Location,
    /// The kernel's variables that were read on the way.
    pub kernel: Variables,
}

impl Place {
    /// Finds the trace in a target, reading as little as can be.
    ///
    /// # Errors
    /// As [`format::Format::locate`].
    pub fn locate(memory: &mut dyn Memory, symbols: &dyn Symbols, hints: &Hints) -> Result<Self, Error> {
        locate::locate(memory, symbols, hints)
    }

    /// A trace of which only the location is known.
    pub fn new(at: Location) -> Self {
        Self { at, kernel: Variables::default() }
    }
}

impl Located for Place {
    fn location(&self) -> &Location {
        &self.at
    }

    fn capture(
        &self,
        memory: &mut dyn Memory,
        symbols: &dyn Symbols,
        extent: Extent,
    ) -> Result<Box<dyn format::Capture>, Error> {
        Ok(Box::new(Capture::read(memory, symbols, self, extent)?))
    }
}

/// Slots that follow each other in memory.
#[derive(Debug, Clone)]
pub(super) struct Part {
    /// The first of them.
    pub slot: u64,
    /// Their bytes: whole slots.
    pub bytes: Bytes,
}

/// Slots that were written while they were read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Torn {
    pub first: u64,
    /// How many, around the ring.
    pub count: u64,
}

/// The bytes of a trace.
#[derive(Debug, Clone)]
pub(super) struct Capture {
    /// How the trace was found.
    pub place: Place,
    pub layout: TraceLayout,
    /// What could be read of the registry, from its start.
    pub registry: Bytes,
    /// What was read of the ring.
    pub ring: Vec<Part>,
    pub torn: Option<Torn>,
    /// The version of USBX, a byte a part, where the meaning of events depends on it.
    pub usbx: Option<u64>,
    /// What went wrong while reading.
    pub issues: Vec<Issue>,
    /// What was asked for.
    pub extent: Extent,
    /// True where [`Follow`] read it: its slots are in the order in which they were written.
    pub is_batch: bool,
}

impl Capture {
    /// Nothing yet of the trace with this layout.
    pub fn new(place: &Place, layout: TraceLayout, extent: Extent) -> Self {
        Self {
            place: place.clone(),
            layout,
            registry: Bytes::from(Vec::new()),
            ring: Vec::new(),
            torn: None,
            usbx: None,
            issues: Vec::new(),
            extent,
            is_batch: false,
        }
    }

    /// Reads what `extent` asks for.
    fn read(memory: &mut dyn Memory, symbols: &dyn Symbols, place: &Place, extent: Extent) -> Result<Self, Error> {
        let mut capture = read::capture(memory, place, extent)?;
        capture.usbx = usbx::version(memory, symbols, &capture);
        Ok(capture)
    }

    /// The bytes of a slot, where it was read.
    pub fn slot(&self, slot: u64) -> Option<Bytes> {
        self.ring.iter().find_map(|part| {
            let offset = self.layout.bytes(slot.checked_sub(part.slot)?);
            part.bytes.cut(offset, self.layout.entry_size())
        })
    }

    /// The first word of a slot, where it was read: 0 in one that was never used.
    pub fn context(&self, slot: u64) -> Option<u64> {
        self.layout.endian.word(self.layout.word, &self.slot(slot)?, 0)
    }
}

impl format::Capture for Capture {
    fn catalogue(&self, names: Names) -> Catalogue {
        let catalogue = Catalogue::threadx(names);
        if usbx::is_old(self) { usbx::renumber(catalogue) } else { catalogue }
    }

    fn decode(&self, catalogue: &Catalogue, options: &DecodeOptions) -> Result<Trace, Error> {
        decode::decode(self, catalogue, options)
    }

    /// The ring ends where the header says, whatever could be read of it.
    fn ranges(&self) -> Vec<Region> {
        vec![self.layout.region()]
    }

    fn running(&self) -> Vec<Addr> {
        self.place.kernel.running.clone()
    }

    fn issues(&self) -> &[Issue] {
        &self.issues
    }

    fn follow(&self) -> Option<Box<dyn Follow>> {
        follow::Cursor::of(self).map(|cursor| Box::new(cursor) as Box<dyn Follow>)
    }
}

/// Buffers that one run filled one after the other, oldest first.
#[derive(Debug)]
pub(super) struct Joined(Vec<Capture>);

impl Joined {
    /// Reads all of them.
    pub fn read(buffers: Vec<(Location, Segments)>, symbols: &dyn Symbols) -> Result<Self, Error> {
        let read =
            |(at, mut memory): (Location, Segments)| Capture::read(&mut memory, symbols, &Place::new(at), Extent::All);
        Ok(Self(buffers.into_iter().map(read).collect::<Result<_, _>>()?))
    }
}

impl format::Capture for Joined {
    fn catalogue(&self, names: Names) -> Catalogue {
        self.0.last().map_or_else(|| Catalogue::threadx(names), |last| last.catalogue(names))
    }

    fn decode(&self, catalogue: &Catalogue, options: &DecodeOptions) -> Result<Trace, Error> {
        decode::join(&self.0, catalogue, options)
    }

    fn ranges(&self) -> Vec<Region> {
        merged(self.0.iter().flat_map(format::Capture::ranges))
    }

    /// Decoding gives those of each buffer.
    fn issues(&self) -> &[Issue] {
        &[]
    }
}
