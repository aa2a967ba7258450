//! The ThreadX event trace: one buffer of header, object registry and a ring of entries, all self-described.

mod after_header;
mod capture;
mod clock;
mod coherence;
mod cores;
mod decode;
mod doubts;
mod entries;
mod entry;
mod follow;
pub mod header;
mod ids;
mod kernel_ticks;
pub mod layout;
mod locate;
mod mask;
mod order;
mod pointer;
mod prescan;
mod read;
mod registry;
mod repair;
mod search;
mod steps;
pub mod symbols;
mod tick_clock;
mod usbx;
pub mod write;

pub use capture::Place;

use super::{Capture, Format, Found, Haystack, Hints, Located, Location};
use crate::abi::{Endian, Width};
use crate::catalogue::{Catalogue, Names};
use crate::error::Error;
use crate::mem::Memory;
use crate::mem::segments::Segments;
use crate::sym::Symbols;

/// The format.
pub struct ThreadX;

impl Format for ThreadX {
    fn name(&self) -> &'static str {
        "threadx"
    }

    fn symbols(&self) -> &'static [&'static str] {
        symbols::ALL
    }

    fn constants(&self) -> &'static [&'static str] {
        &[usbx::VERSION]
    }

    fn can_be_followed(&self) -> bool {
        true
    }

    fn catalogue(&self, names: Names) -> Catalogue {
        Catalogue::threadx(names)
    }

    fn sniff(&self, head: &[u8]) -> bool {
        header::detect(head).is_some()
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

    fn locate(&self, memory: &mut dyn Memory, symbols: &dyn Symbols, hints: &Hints) -> Result<Box<dyn Located>, Error> {
        Ok(Box::new(Place::locate(memory, symbols, hints)?))
    }

    fn at(&self, at: Location) -> Box<dyn Located> {
        Box::new(Place::new(at))
    }

    fn join(&self, buffers: Vec<(Location, Segments)>, symbols: &dyn Symbols) -> Result<Box<dyn Capture>, Error> {
        Ok(Box::new(capture::Joined::read(buffers, symbols)?))
    }
}

/// The name of a byte order, for sentences.
const fn order_name(endian: Endian) -> &'static str {
    match endian {
        Endian::Little => "little-endian",
        Endian::Big => "big-endian",
    }
}
