//! What is known of a trace between its steps: the place with the kernel's variables, and the bytes that were read.

use super::super::{self as format, DecodeOptions, Extent, Follow, Hints, Located, Location, merged};
use super::{clock, decode, locate, newer, parse, read, usbx};
use crate::abi::{Addr, Endian, Width};
use crate::bytes::Bytes;
use crate::catalogue::{Catalogue, Names};
use crate::error::Error;
use crate::mem::segments::Segments;
use crate::mem::{Memory, Region};
use crate::sym::Symbols;
use crate::trace::{Issue, Trace};

/// Where a trace lies.
#[derive(Debug, Clone)]
pub struct Place {
    /// What every format knows of it.
    pub at: Location,
    /// What was read on the way and need not be read again: name of a kernel variable and its value; its address where it
    /// is enough that it is there.
    pub known: Vec<(&'static str, u64)>,
}

impl Place {
    /// Finds the trace in a target, reading as little as can be.
    ///
    /// # Errors
    /// As [`format::Format::locate`].
    pub fn locate(memory: &mut dyn Memory, symbols: &dyn Symbols, hints: &Hints) -> Result<Self, Error> {
        let mut place = locate::locate(memory, symbols, hints)?;
        place.known.extend(clock::of_port(symbols));
        Ok(place)
    }

    /// The value of a kernel variable that was read while locating.
    #[must_use]
    pub fn known(&self, name: &str) -> Option<u64> {
        self.known.iter().find(|(n, _)| *n == name).map(|(_, v)| *v)
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

/// Bytes that were read, and from where.
#[derive(Debug, Clone)]
pub(super) struct Block {
    /// What they are: `header`, `registry`, `ring`.
    pub role: &'static str,
    /// Address of the first byte.
    pub address: Addr,
    /// The bytes.
    pub bytes: Bytes,
}

/// Captured bytes with their addresses.
#[derive(Debug, Clone)]
pub(super) struct Capture {
    /// Byte order.
    pub endian: Endian,
    /// Width of a stored word.
    pub word: Width,
    /// The bytes.
    pub blocks: Vec<Block>,
    /// Values that do not lie in the blocks.
    pub values: Vec<(&'static str, u64)>,
    /// What went wrong while reading.
    pub issues: Vec<Issue>,
    /// How the trace was found.
    pub place: Place,
    /// What was asked for.
    pub extent: Extent,
    /// True where it holds what [`Follow`] read, and not one part of the ring.
    pub is_newer: bool,
}

impl Capture {
    /// Reads what `extent` asks for.
    fn read(memory: &mut dyn Memory, symbols: &dyn Symbols, place: &Place, extent: Extent) -> Result<Self, Error> {
        let mut capture = read::capture(memory, place, extent)?;
        usbx::capture(memory, symbols, &mut capture);
        Ok(capture)
    }

    /// The blocks of this role, in the order in which they were put.
    pub fn blocks<'a>(&'a self, role: &'a str) -> impl Iterator<Item = &'a Block> {
        self.blocks.iter().filter(move |b| b.role == role)
    }

    /// The value of this name.
    pub fn value(&self, name: &str) -> Option<u64> {
        self.values.iter().find(|(n, _)| *n == name).map(|(_, v)| *v)
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

    fn ranges(&self) -> Vec<Region> {
        // The ring ends where the header says, whatever could be read of it.
        let header = self.blocks("header").next();
        let whole = header.and_then(|block| {
            let (_, word, raw) = parse::detect(&block.bytes).filter(|(_, word, raw)| raw.is_sound(*word))?;
            Some(Region { start: block.address, len: raw.offset(raw.buffer_end, word) })
        });
        let held = self.blocks.iter().map(|b| Region { start: b.address, len: b.bytes.len() as u64 });
        whole.map_or_else(|| merged(held), |range| vec![range])
    }

    fn running(&self) -> Vec<Addr> {
        self.values.iter().filter(|(n, _)| *n == "running").map(|(_, v)| *v).collect()
    }

    fn issues(&self) -> &[Issue] {
        &self.issues
    }

    fn follow(&self) -> Option<Box<dyn Follow>> {
        newer::cursor(self).map(|cursor| Box::new(cursor) as Box<dyn Follow>)
    }
}

/// Buffers that one run filled one after the other, oldest first.
#[derive(Debug)]
pub(super) struct Joined(Vec<Capture>);

impl Joined {
    /// Reads all of them.
    pub fn read(buffers: Vec<(Location, Segments)>, symbols: &dyn Symbols) -> Result<Self, Error> {
        let read = |(at, mut memory): (Location, Segments)| {
            Capture::read(&mut memory, symbols, &Place { at, known: Vec::new() }, Extent::All)
        };
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

    /// Decoding tells those of each buffer.
    fn issues(&self) -> &[Issue] {
        &[]
    }
}
