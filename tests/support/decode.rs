//! Bytes to plain events by the library, through each of the ways in which it can be led to a trace.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::builder::Buffer;
use super::flat::Flat;
use tx_trace::abi::{Endian, Width};
use tx_trace::catalogue::{Catalogue, Names};
use tx_trace::code::Code;
use tx_trace::error::Error;
use tx_trace::format::{ALL, DecodeOptions, Extent, Format, Hints};
use tx_trace::report::{Cell, ThreadTime};
use tx_trace::sym::{NoSymbols, Pairs, Symbols};
use tx_trace::trace::{ContextKind, Trace};

/// One event as the library gives it, with numbers resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub seq: u64,
    pub slot: u64,
    pub core: u16,
    pub kind: ContextKind,
    pub address: u64,
    pub name: Option<String>,
    pub priority: Option<u16>,
    pub threshold: Option<u16>,
    pub interrupted: Option<(ContextKind, u64)>,
    pub id: u32,
    pub stamp: Option<u64>,
    pub words: Vec<u64>,
}

pub fn threadx() -> &'static dyn Format {
    ALL.iter().find(|f| f.name() == "threadx").copied().unwrap()
}

/// The path of a fixture.
pub fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// The trace in bytes that hold one somewhere.
pub fn scanned(bytes: &[u8], extent: Extent) -> (Trace, Catalogue) {
    let found = threadx().scan(bytes, 1)[0];
    let mut memory = Flat::new(found.base, bytes[found.offset..].to_vec());
    let hints = Hints { header: Some(found.base), ..Hints::default() };
    let located = threadx().locate(&mut memory, &NoSymbols, &hints).unwrap();
    let capture = located.capture(&mut memory, &NoSymbols, extent).unwrap();
    let catalogue = threadx().catalogue(Names::Duo);
    (capture.decode(&catalogue, &DecodeOptions::default()).unwrap(), catalogue)
}

/// The trace in a fixture that holds one somewhere.
pub fn load(name: &str) -> Trace {
    scanned(&std::fs::read(fixture(name)).unwrap(), Extent::All).0
}

/// A cell of a report as a short text.
pub fn text(cell: &Cell) -> String {
    match cell {
        Cell::Empty => "-".to_owned(),
        Cell::Text(t) => t.clone(),
        Cell::Word(t) => (*t).to_owned(),
        Cell::State(state) => state.1.clone(),
        Cell::Term(term) => term.name.to_owned(),
        Cell::Count(n) => n.to_string(),
        Cell::Ticks(n) => n.to_string(),
        Cell::Address(a) | Cell::Named(a, None) => format!("{a:#x}"),
        Cell::Isr(n) => n.map_or("isr".to_owned(), |n| format!("isr {n}")),
        Cell::Flag(f) => f.to_string(),
        Cell::Real(n) => n.to_string(),
        Cell::Named(_, Some(name)) => name.0.clone(),
        Cell::ThreadTimes(all) if all.is_empty() => "none".to_owned(),
        Cell::ThreadTimes(all) => {
            let name = |t: &ThreadTime| t.name.clone().unwrap_or_else(|| format!("{:#x}", t.address));
            let one = |t: &ThreadTime| format!("{} {}", name(t), t.ticks.unwrap());
            all.iter().map(one).collect::<Vec<_>>().join(", ")
        }
        other => format!("{other:?}"),
    }
}

/// All events that the library hands out.
pub fn seen(trace: &Trace) -> Vec<Seen> {
    let all: Vec<Seen> = trace
        .events()
        .map(|e| {
            let context = trace.contexts.get(e.context).unwrap();
            Seen {
                seq: e.seq,
                slot: e.slot,
                core: e.core,
                kind: context.kind,
                address: context.address,
                name: context.name.as_deref().map(str::to_owned),
                priority: e.priority,
                threshold: e.threshold,
                interrupted: e.interrupted.and_then(|i| trace.contexts.get(i)).map(|c| (c.kind, c.address)),
                id: e.id,
                stamp: e.stamp,
                words: trace.words(&e).to_vec(),
            }
        })
        .collect();
    assert_eq!(all.len() as u64, trace.len(), "the count that is announced");
    all
}

/// How the library is led to the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Only where the header is.
    Header,
    /// The kernel's pointers by name; with or without the byte order.
    Symbols { order_known: bool },
    /// The same after `tx_trace_disable`: two of the pointers are 0.
    Disabled,
    /// A file of which only the bytes are known, so many of them before the header.
    Scan { before: usize },
}

/// Opens the buffer's bytes (`bytes`, maybe damaged since they were built) through a source.
///
/// The memory holds nothing else than the kernel's pointers and the buffer: a read beside them is an error.
pub fn open(buffer: &Buffer, bytes: &[u8], source: Source, extent: Extent) -> Result<Trace, Error> {
    let pointer = if buffer.wide || buffer.base > 0xFFFF_FFFF { Width::W8 } else { Width::W4 };
    let mut hints = Hints { pointer: Some(pointer), ..Hints::default() };
    let endian = if buffer.big { Endian::Big } else { Endian::Little };
    match source {
        Source::Header => {
            hints.header = Some(buffer.base);
            let mut memory = Flat::new(buffer.base, bytes.to_vec());
            run(&mut memory, &NoSymbols, &hints, extent)
        }
        Source::Scan { before } => {
            let mut file = vec![0x42; before];
            file.extend(bytes);
            let found = threadx().scan(&file, 4);
            let Some(found) = found.first() else {
                return Err(Error::not_found(Code::NoTrace, "scan finds nothing", ""));
            };
            assert_eq!(found.offset, before, "where the scan finds the header");
            hints.header = Some(found.base);
            hints.pointer = None;
            let mut memory = Flat::new(found.base, bytes.to_vec());
            run(&mut memory, &NoSymbols, &hints, extent)
        }
        Source::Symbols { .. } | Source::Disabled => {
            let disabled = source == Source::Disabled;
            if source != (Source::Symbols { order_known: false }) {
                hints.endian = Some(endian);
            }
            let (names, mut memory) = kernel(buffer, bytes, pointer, disabled);
            run(&mut memory, &names, &hints, extent)
        }
    }
}

/// The kernel's pointers in front of the buffer, in the order in which ThreadX declares them.
fn kernel(buffer: &Buffer, bytes: &[u8], pointer: Width, disabled: bool) -> (Pairs, Flat) {
    // A kernel's pointers are whole addresses, whatever the width of the trace's words.
    let values = [
        ("_tx_trace_header_ptr", buffer.base),
        ("_tx_trace_registry_start_ptr", if disabled { 0 } else { buffer.registry() }),
        ("_tx_trace_registry_end_ptr", buffer.ring()),
        ("_tx_trace_buffer_start_ptr", buffer.ring()),
        ("_tx_trace_buffer_end_ptr", buffer.end()),
        ("_tx_trace_buffer_current_ptr", if disabled { 0 } else { buffer.current_address() }),
        ("_tx_thread_current_ptr", 0),
    ];
    let start = buffer.base - (values.len() * pointer.bytes()) as u64;
    let (mut names, mut all) = (Vec::new(), Vec::new());
    for (name, value) in values {
        names.push((name.to_owned(), start + all.len() as u64));
        match (pointer, buffer.big) {
            (Width::W4, false) => all.extend(u32::try_from(value).unwrap().to_le_bytes()),
            (Width::W4, true) => all.extend(u32::try_from(value).unwrap().to_be_bytes()),
            (Width::W8, false) => all.extend(value.to_le_bytes()),
            (Width::W8, true) => all.extend(value.to_be_bytes()),
        }
    }
    all.extend(bytes);
    (Pairs::new(names), Flat::new(start, all))
}

fn run(memory: &mut Flat, symbols: &dyn Symbols, hints: &Hints, extent: Extent) -> Result<Trace, Error> {
    let located = threadx().locate(memory, symbols, hints)?;
    let capture = located.capture(memory, symbols, extent)?;
    // Made once: it is many times the work of a small trace.
    static CATALOGUE: OnceLock<Catalogue> = OnceLock::new();
    let catalogue = CATALOGUE.get_or_init(|| threadx().catalogue(Names::Duo));
    capture.decode(catalogue, &DecodeOptions::default())
}
