//! The rings of QNX's instrumented kernel: buffers of 16 KiB, linked in a circle, with elements of 16 bytes of which
//! longer events take several; and the files that its trace logger makes of them. See `docs/formats/qnx.md`.

mod assemble;
mod decode;
mod doubts;
mod info;
mod kev;
mod layout;
mod locate;
mod parse;
mod read;
mod ring;
mod syspage;
mod threads;
mod time;

use super::{Format, Found, Haystack, Hints, Located, Location};
use crate::abi::Addr;
use crate::catalogue::{Catalogue, Names, qnx_events};
use crate::error::Error;
use crate::mem::Memory;
use crate::sym::Symbols;

/// The format.
pub struct Qnx;

impl Format for Qnx {
    fn name(&self) -> &'static str {
        "qnx"
    }

    fn catalogue(&self, _names: Names) -> Catalogue {
        qnx_events().catalogue()
    }

    fn sniff(&self, head: &[u8]) -> bool {
        kev::is_file(head) || parse::detect(head).is_some()
    }

    fn search(&self, hay: &Haystack<'_>, most: usize) -> Vec<Found> {
        locate::scan(hay, most)
    }

    fn sift(&self, memory: &mut dyn Memory, hits: Vec<(Addr, Found)>) -> Vec<(Addr, Found)> {
        locate::sift(memory, hits)
    }

    fn locate(&self, memory: &mut dyn Memory, symbols: &dyn Symbols, hints: &Hints) -> Result<Box<dyn Located>, Error> {
        Ok(Box::new(locate::locate(memory, symbols, hints)?))
    }

    fn at(&self, at: Location) -> Box<dyn Located> {
        Box::new(locate::Place { at, cycles: None })
    }
}
