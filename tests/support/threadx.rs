//! What tests of ThreadX traces share: a buffer of a builder, decoded as the program does it.

use std::sync::LazyLock;

use tx_trace::abi::{Endian, Width};
use tx_trace::catalogue::{Catalogue, Names};
use tx_trace::error::Error;
use tx_trace::format::threadx::symbols::Variables;
use tx_trace::format::threadx::{Place, ThreadX};
use tx_trace::format::{Capture, DecodeOptions, Extent, Format, Located, Location};
use tx_trace::mem::Memory;
use tx_trace::mem::segments::{Block, Segments};
use tx_trace::sym::Layers;
use tx_trace::trace::{Event, Issue, Trace};

use super::builder::{Buffer, Entry, Registered};

pub const BASE: u64 = 0x2000_4000;
pub const ALPHA: u64 = 0x2000_1000;
pub const BETA: u64 = 0x2000_2000;

pub fn located(b: &Buffer, known: &[(&'static str, u64)]) -> Place {
    Place {
        at: Location {
            header: b.base,
            endian: Some(if b.big { Endian::Big } else { Endian::Little }),
            pointer: Some(if b.wide { Width::W8 } else { Width::W4 }),
            how: "the test".to_owned(),
            by_symbols: true,
        },
        kernel: variables(known),
    }
}

/// The kernel's variables with these values; `cores` is the length of the array of running threads.
pub fn variables(known: &[(&'static str, u64)]) -> Variables {
    let mut variables = Variables::default();
    for (name, value) in known {
        variables.set(name, *value);
    }
    variables.cores = known.iter().find(|(name, _)| *name == "cores").map(|(_, count)| *count);
    variables
}

pub fn capture_of(
    memory: &mut dyn Memory,
    b: &Buffer,
    known: &[(&'static str, u64)],
    extent: Extent,
) -> Box<dyn Capture> {
    located(b, known).capture(memory, &Layers::new(), extent).unwrap()
}

pub fn decode_bytes(
    b: &Buffer,
    bytes: Vec<u8>,
    known: &[(&'static str, u64)],
    extent: Extent,
    options: &DecodeOptions,
) -> Result<Trace, Error> {
    // Reading the tables takes as long as decoding a small trace.
    static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(|| ThreadX.catalogue(Names::default()));
    let mut memory = Segments::new(vec![Block::whole(b.base, bytes.into())]);
    let capture = located(b, known).capture(&mut memory, &Layers::new(), extent)?;
    capture.decode(&CATALOGUE, options)
}

pub fn decode(b: &Buffer) -> Trace {
    decode_bytes(b, b.bytes(), &[], Extent::All, &DecodeOptions::default()).unwrap()
}

pub fn decode_with(b: &Buffer, known: &[(&'static str, u64)]) -> Trace {
    decode_bytes(b, b.bytes(), known, Extent::All, &DecodeOptions::default()).unwrap()
}

pub fn events(t: &Trace) -> Vec<Event> {
    t.events().collect()
}

pub fn stamps(t: &Trace) -> Vec<u64> {
    t.events().map(|e| e.stamp.unwrap()).collect()
}

pub fn issue<'t>(t: &'t Trace, code: &str) -> &'t Issue {
    t.issues.iter().find(|i| i.code.name() == code).unwrap_or_else(|| panic!("no issue {code} in {:?}", t.issues))
}

pub fn codes(t: &Trace) -> Vec<&str> {
    t.issues.iter().map(|i| i.code.name()).collect()
}

pub fn fact<'t>(t: &'t Trace, label: &str) -> &'t str {
    let found = t.about.facts.iter().find(|(l, _)| *l == label);
    found.map(|(_, v)| v.as_str()).unwrap_or_else(|| panic!("no fact {label} in {:?}", t.about.facts))
}

/// User events of one thread, so many ticks apart.
pub fn steady(count: u64, first: u64, step: u64) -> Vec<Entry> {
    (0..count).map(|i| Entry::thread(ALPHA, 5, 5000, first + i * step, [i, 0, 0, 0])).collect()
}

pub fn thread(pointer: u64, name: &str, priority: u16) -> Registered {
    Registered { priority: Some(priority), ..Registered::new(1, pointer, name) }
}

pub fn two_threads() -> Vec<Registered> {
    vec![thread(ALPHA, "alpha", 5), thread(BETA, "beta", 9)]
}
