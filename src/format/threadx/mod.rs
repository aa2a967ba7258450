//! The ThreadX event trace: one buffer of header, object registry and a ring of entries, all self-described.

mod clock;
mod coherence;
mod cores;
mod decode;
mod doubts;
mod entries;
mod entry;
mod ids;
mod kernel_ticks;
pub mod layout;
mod locate;
mod mask;
mod mend;
mod newer;
mod order;
mod parse;
mod pointer;
mod prescan;
mod read;
mod registry;
mod ring;
mod search;
mod steps;
mod usbx;
mod walk;

pub use parse::{RawHeader, detect, object};

use super::{Absence, Capture, Cursor, DecodeOptions, Extent, Format, Found, Haystack, Hints, Located, Newer};
use crate::abi::{Endian, Width};
use crate::catalogue::{Catalogue, Names};
use crate::mem::{Memory, Region};
use crate::sym::Symbols;
use crate::trace::Trace;

/// The format.
pub struct ThreadX;

impl Format for ThreadX {
    fn name(&self) -> &'static str {
        "threadx"
    }

    fn catalogue(&self, names: Names) -> Catalogue {
        Catalogue::threadx(names)
    }

    fn sniff(&self, head: &[u8]) -> bool {
        parse::detect(head).is_some()
    }

    fn cut_short(&self, bytes: &[u8]) -> Option<String> {
        let magic = layout::MAGIC;
        let starts = bytes.starts_with(&magic.to_le_bytes()) || bytes.starts_with(&magic.to_be_bytes());
        let size = layout::header_size(Width::W4);
        (starts && bytes.len() < size).then(|| {
            format!(
                "begins with a trace header and is cut short: {} of the header's {size} bytes are there",
                bytes.len()
            )
        })
    }

    fn search(&self, hay: &Haystack<'_>, most: usize) -> Vec<Found> {
        search::scan(hay, most)
    }

    fn locate(&self, memory: &mut dyn Memory, symbols: &dyn Symbols, hints: &Hints) -> Result<Located, Absence> {
        let mut located = locate::locate(memory, symbols, hints)?;
        located.known.extend(clock::of_port(symbols));
        Ok(located)
    }

    fn capture(
        &self,
        memory: &mut dyn Memory,
        symbols: &dyn Symbols,
        located: &Located,
        extent: Extent,
    ) -> Result<Capture, Absence> {
        let mut capture = read::capture(memory, located, extent)?;
        usbx::capture(memory, symbols, &mut capture);
        Ok(capture)
    }

    fn cursor(&self, capture: &Capture) -> Option<Cursor> {
        newer::cursor(capture)
    }

    fn newer(
        &self,
        memory: &mut dyn Memory,
        located: &Located,
        cursor: &Cursor,
        names: bool,
    ) -> Result<Newer, Absence> {
        newer::newer(memory, located, cursor, names)
    }

    fn catalogue_of(&self, capture: &Capture, names: Names) -> Catalogue {
        let catalogue = self.catalogue(names);
        if usbx::is_old(capture) { usbx::renumber(catalogue) } else { catalogue }
    }

    fn decode(&self, capture: &Capture, catalogue: &Catalogue, options: &DecodeOptions) -> Result<Trace, Absence> {
        decode::decode(capture, catalogue, options)
    }

    fn ranges(&self, capture: &Capture) -> Vec<Region> {
        // The ring ends where the header says, whatever could be read of it.
        let header = capture.blocks("header").next();
        let whole = header.and_then(|block| {
            let (_, word, raw) = parse::detect(&block.bytes).filter(|(_, word, raw)| raw.is_sound(*word))?;
            Some(Region { start: block.address, len: raw.offset(raw.buffer_end, word) })
        });
        whole.map_or_else(|| capture.ranges(), |range| vec![range])
    }

    fn join(&self, captures: &[Capture], catalogue: &Catalogue, options: &DecodeOptions) -> Result<Trace, Absence> {
        decode::join(captures, catalogue, options)
    }
}

/// The name of a byte order, for sentences.
const fn order_name(endian: Endian) -> &'static str {
    match endian {
        Endian::Little => "little-endian",
        Endian::Big => "big-endian",
    }
}
