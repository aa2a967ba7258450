//! TI UIA: the loggers of SYS/BIOS programs (LoggerMin, LoggerStopMode, and what else has a queue descriptor).
//!
//! The layouts, what is verified of them and what is not: `docs/formats/uia.md`.

mod decode;
mod definition;
mod format_string;
mod index;
mod info;
mod layout;
mod locate;
mod logger;
mod order;
mod read;
mod record;
mod search;
mod text;
mod time;
mod walk;

use super::{Format, Found, Haystack, Hints, Located, Location};
use crate::abi::Addr;
use crate::catalogue::{Catalogue, EventDef, Names, Product, Ways, uia_events};
use crate::error::Error;
use crate::mem::Memory;
use crate::sym::Symbols;

/// The format.
pub struct Uia;

/// The id given to a record whose layout is not public, the header type added.
const FIRST_RAW: u32 = 0x1_0000;

impl Format for Uia {
    fn name(&self) -> &'static str {
        "uia"
    }

    /// What is known without a program: records whose layout is not public, and the events that TI's modules declare.
    /// The numbers of both are ours, and above all that a record can hold.
    fn catalogue(&self, _names: Names) -> Catalogue {
        let raw = (0..32u8).filter(|n| layout::header_type(*n).stamp.is_none()).map(|n| {
            let class = "ti.uia.runtime.EventHdr".to_owned();
            EventDef::new(FIRST_RAW | u32::from(n), layout::header_name(n), Product::Kernel, class)
        });
        let ways = Ways { larger_is_urgent: true, idle_is_thread: true, ..Ways::default() };
        Catalogue::new(raw.chain(uia_events().iter().map(|d| d.def.clone())).collect(), Vec::new()).with_ways(ways)
    }

    fn sniff(&self, head: &[u8]) -> bool {
        logger::sniff(head)
    }

    fn describes(&self, head: &[u8]) -> bool {
        logger::Logger::detect(head, 0, None).is_some()
    }

    fn search(&self, hay: &Haystack<'_>, most: usize) -> Vec<Found> {
        search::scan(hay, most)
    }

    fn sift(&self, memory: &mut dyn Memory, hits: Vec<(Addr, Found)>) -> Vec<(Addr, Found)> {
        search::sift(memory, hits)
    }

    fn locate(&self, memory: &mut dyn Memory, symbols: &dyn Symbols, hints: &Hints) -> Result<Box<dyn Located>, Error> {
        Ok(Box::new(locate::locate(memory, symbols, hints)?))
    }

    fn at(&self, at: Location) -> Box<dyn Located> {
        Box::new(locate::Place::new(at))
    }
}
