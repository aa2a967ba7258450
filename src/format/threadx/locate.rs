//! Where the trace lies, found with as few reads as can be.

use super::super::{Hints, Location};
use super::held::Place;
use super::{layout, parse};
use crate::abi::{Addr, Endian, Width};
use crate::bytes::Bytes;
use crate::code::Code;
use crate::error::Error;
use crate::mem::{Memory, ReadError, ReadErrorKind};
use crate::sym::{Symbol, Symbols};

/// The kernel's pointers into the trace. They are set together by `tx_trace_enable` and lie together in `.bss`.
const POINTERS: [&str; 6] = [
    HEADER,
    "_tx_trace_registry_start_ptr",
    "_tx_trace_registry_end_ptr",
    "_tx_trace_buffer_start_ptr",
    "_tx_trace_buffer_end_ptr",
    "_tx_trace_buffer_current_ptr",
];
const HEADER: &str = "_tx_trace_header_ptr";
/// Names that an application may have given its buffer; ThreadX itself has none.
const BUFFERS: [&str; 2] = ["_tx_trace_buffer", "tx_trace_buffer"];
/// What is there in a kernel without the trace: with any of them the ELF is of a ThreadX program.
const KERNEL: [&str; 4] =
    ["_tx_version_id", "_tx_thread_created_ptr", "_tx_trace_initialize", "_tx_thread_current_ptr"];
/// The running thread: read together with the pointers, for the line that says who runs now.
const CURRENT_THREAD: &str = "_tx_thread_current_ptr";
/// Each core has one where this is an array: so many at most.
const MOST_CORES: u64 = 64;
/// Which events are inserted.
const ENABLE_BITS: &str = "_tx_trace_event_enable_bits";
/// CMSIS's name for the processor's clock in Hz.
const CORE_CLOCK: &str = "SystemCoreClock";
/// Variables that lie within so many bytes are read at once: one packet more costs more than the bytes between.
const TOGETHER: u64 = 256;
/// The most reads that variables may cost: two, and two more for the trace itself.
const READS: usize = 2;

/// Finds the header by option, by the kernel's pointers, or by the name of the buffer.
pub(super) fn locate(memory: &mut dyn Memory, symbols: &dyn Symbols, hints: &Hints) -> Result<Place, Error> {
    let endian = hints.endian.unwrap_or(Endian::Little);
    let at = |header, how| Location { header, endian: hints.endian, pointer: hints.pointer, how, by_symbols: true };
    if let Some(at) = hints.given() {
        let mut place = Place { at, known: Vec::new() };
        read_beside(memory, symbols, hints, endian, &mut place);
        return Ok(place);
    }
    let mut tried = Vec::new();
    if let Some(symbol) = symbols.lookup(HEADER) {
        let told = Width::from_bytes(symbol.size).or(hints.pointer);
        let found = match (hints.endian, told) {
            (Some(_), Some(_)) => None,
            (order, width) => shape(memory, symbol.address, order, width),
        };
        let (endian, width) = found.unwrap_or((endian, told.unwrap_or(Width::W4)));
        let mut place = Place { at: at(0, String::new()), known: Vec::new() };
        place.at.endian = found.map(|(e, _)| e).or(hints.endian);
        place.at.pointer = Some(width);
        read_pointers(memory, symbols, &symbol, width, endian, &mut place)?;
        let value = place.known(HEADER).unwrap_or(0);
        if value == 0 {
            return Err(never_enabled(symbol.address));
        }
        place.at.header = value;
        place.at.how = format!("{HEADER} at {:#x} holds {:#x}", symbol.address, place.at.header);
        return Ok(place);
    }
    tried.push(format!("{HEADER}: no such symbol"));
    if let Some(found) = by_neighbours(memory, symbols, hints, endian, &mut tried) {
        return Ok(found);
    }
    for name in BUFFERS {
        if let Some(symbol) = symbols.lookup(name) {
            let at = at(symbol.address, format!("the buffer {name} at {:#x}", symbol.address));
            return Ok(Place { at, known: Vec::new() });
        }
        tried.push(format!("{name}: no such symbol"));
    }
    let mut error = if let Some(name) = KERNEL.into_iter().find(|n| symbols.lookup(n).is_some()) {
        Error::not_found(
            Code::TraceNotBuiltIn,
            format!("this ELF is a ThreadX program ({name} is there) built without its event trace ({HEADER} is not)"),
            "build the kernel and the application with TX_ENABLE_EVENT_TRACE; a buffer of another name: --symbol _tx_trace_buffer=ADDR",
        )
    } else {
        Error::not_found(
            Code::NoTraceSymbol,
            format!("no symbol tells where the trace is ({HEADER} and its neighbours, _tx_trace_buffer)"),
            "give the unstripped ELF with --elf, or the place with --header ADDR or --symbol NAME=ADDR, or search the memory with --scan",
        )
    };
    error.tried = tried;
    Err(error)
}

fn never_enabled(at: Addr) -> Error {
    Error::not_found(
        Code::NeverEnabled,
        format!("{HEADER} at {at:#x} is 0: the trace was not enabled since the last start"),
        "call tx_trace_enable(buffer, size, registry entries) early; in GDB on OpenOCD zeros may be memory that could not be read (monitor gdb report_data_abort enable)",
    )
}

fn pointer_width(symbol: &Symbol, hints: &Hints) -> Width {
    Width::from_bytes(symbol.size).or(hints.pointer).unwrap_or(Width::W4)
}

/// A variable of the kernel that is worth a look.
struct Variable {
    name: &'static str,
    address: Addr,
    width: Width,
    /// More than one for an array.
    count: u64,
    /// True where the symbol has a size.
    sized: bool,
}

impl Variable {
    fn of(symbols: &dyn Symbols, name: &'static str, width: Width) -> Option<Self> {
        let symbol = symbols.lookup(name)?;
        Some(Self { name, address: symbol.address, width, count: 1, sized: symbol.size > 0 })
    }

    const fn end(&self) -> Addr {
        self.address.saturating_add((self.width.bytes() as u64).saturating_mul(self.count))
    }
}

/// What is worth a look, most wanted first.
fn variables(symbols: &dyn Symbols, width: Width) -> Vec<Variable> {
    let mut all: Vec<Variable> = POINTERS.into_iter().filter_map(|n| Variable::of(symbols, n, width)).collect();
    if let Some(symbol) = symbols.lookup(CURRENT_THREAD) {
        let count = symbol.size.checked_div(width.bytes() as u64).unwrap_or(0).clamp(1, MOST_CORES);
        all.push(Variable { name: CURRENT_THREAD, address: symbol.address, width, count, sized: symbol.size > 0 });
    }
    if let Some(ulong) = ulong(symbols, ENABLE_BITS, width) {
        all.extend(Variable::of(symbols, ENABLE_BITS, ulong));
    }
    all.extend(Variable::of(symbols, CORE_CLOCK, Width::W4));
    all
}

/// The width of a variable that is a ULONG: as its symbol says, else that of short pointers. With long ones it may be
/// either.
fn ulong(symbols: &dyn Symbols, name: &str, pointer: Width) -> Option<Width> {
    let size = symbols.lookup(name)?.size;
    Width::from_bytes(size).or_else(|| Some(Width::W4).filter(|_| pointer == Width::W4 && size == 0))
}

/// Stretches of memory that hold the variables: the first ones are always read, later ones where they cost no more
/// than [`READS`] in all. Decided by addresses alone, so that every source is read by the same plan.
fn stretches(all: &[Variable]) -> Vec<(Addr, Addr)> {
    let mut stretches: Vec<(Addr, Addr)> = Vec::new();
    for v in all {
        let joined = stretches.iter_mut().find_map(|s| {
            let (low, high) = (s.0.min(v.address), s.1.max(v.end()));
            (high.saturating_sub(low) <= TOGETHER).then(|| *s = (low, high))
        });
        // The pointers beside the header pointer, the enable bits and the clock are not worth a packet of their own.
        let alone = matches!(v.name, HEADER | CURRENT_THREAD) || (v.name == CORE_CLOCK && stretches.len() < READS);
        if joined.is_none() && alone {
            stretches.push((v.address, v.end()));
        }
    }
    stretches
}

/// Reads the header pointer, and with it what costs no packet of its own.
fn read_pointers(
    memory: &mut dyn Memory,
    symbols: &dyn Symbols,
    header: &Symbol,
    width: Width,
    endian: Endian,
    place: &mut Place,
) -> Result<(), Error> {
    let all = variables(symbols, width);
    let stretches = stretches(&all);
    let wanted: Vec<(Addr, usize)> =
        stretches.iter().map(|&(low, high)| (low, usize::try_from(high.saturating_sub(low)).unwrap_or(0))).collect();
    let results = memory.read_batch(&wanted);
    if let Some(Err(e)) = results.first() {
        if e.is_fatal() {
            return Err(e.explain(HEADER));
        }
        // The neighbours cannot be read, which only happens at the edge of a dump.
        match memory.read_bytes(header.address, width.bytes()) {
            Ok(alone) => place.known.push((HEADER, endian.word(width, &alone, 0).unwrap_or(0))),
            Err(e) => {
                let mut error = e.explain(HEADER);
                if matches!(e.kind, ReadErrorKind::Unmapped) {
                    error.hint =
                        "this ELF may be of another build, or the dump leaves out the kernel's variables (.bss): --header ADDR, or --scan".to_owned();
                }
                return Err(error);
            }
        }
    }
    take_known(&all, &wanted, &results, endian, place);
    Ok(())
}

/// Keeps every variable that lies in what was read.
fn take_known(
    all: &[Variable],
    wanted: &[(Addr, usize)],
    results: &[Result<Bytes, ReadError>],
    endian: Endian,
    place: &mut Place,
) {
    for ((low, _), bytes) in wanted.iter().zip(results).filter_map(|(w, r)| Some((w, r.as_ref().ok()?))) {
        for v in all.iter().filter(|v| v.address >= *low) {
            let offset = usize::try_from(v.address.saturating_sub(*low)).unwrap_or(usize::MAX);
            for i in 0..v.count {
                let step = usize::try_from(i).unwrap_or(usize::MAX).saturating_mul(v.width.bytes());
                if let Some(value) = endian.word(v.width, bytes, offset.saturating_add(step)) {
                    place.known.push((v.name, value));
                }
            }
            // Without a size nothing tells an array from a pointer.
            if v.name == CURRENT_THREAD && v.sized && offset < bytes.len() {
                place.known.push(("cores", v.count));
            }
        }
    }
}

/// Reads the same variables where the header came from an option: what the kernel says of its own trace only where it
/// is the one that was asked for.
fn read_beside(memory: &mut dyn Memory, symbols: &dyn Symbols, hints: &Hints, endian: Endian, place: &mut Place) {
    // The running thread may be an array, one pointer a core: its size is no pointer's.
    let width = match symbols.lookup(HEADER) {
        Some(symbol) => pointer_width(&symbol, hints),
        None => hints.pointer.unwrap_or(Width::W4),
    };
    let all = variables(symbols, width);
    let wanted: Vec<(Addr, usize)> = stretches(&all)
        .iter()
        .map(|&(low, high)| (low, usize::try_from(high.saturating_sub(low)).unwrap_or(0)))
        .collect();
    let results = memory.read_batch(&wanted);
    take_known(&all, &wanted, &results, endian, place);
    if place.known(HEADER) != Some(place.at.header) {
        place.known.retain(|(name, _)| matches!(*name, CURRENT_THREAD | CORE_CLOCK | "cores"));
    }
}

/// Symbols came as NAME=ADDR, and nothing tells the byte order or how wide pointers are: the shape in which the pointer
/// leads to a header is right.
fn shape(memory: &mut dyn Memory, at: Addr, order: Option<Endian>, width: Option<Width>) -> Option<(Endian, Width)> {
    let bytes = memory.read_bytes(at, 8).or_else(|_| memory.read_bytes(at, 4)).ok()?;
    let leads = |memory: &mut dyn Memory, header: Addr| {
        [Width::W8, Width::W4].into_iter().any(|w| {
            let head = memory.read_bytes(header, layout::header_size(w));
            head.is_ok_and(|head| parse::detect(&head).is_some())
        })
    };
    // Short first: of a long pointer to low memory in little-endian order that half is all there is.
    let widths = [Width::W4, Width::W8].into_iter().filter(|w| width.is_none_or(|told| told == *w));
    for width in widths {
        for endian in [Endian::Little, Endian::Big].into_iter().filter(|e| order.is_none_or(|told| told == *e)) {
            let header = endian.word(width, &bytes, 0).filter(|h| *h != 0);
            if header.is_some_and(|header| leads(memory, header)) {
                return Some((endian, width));
            }
        }
    }
    None
}

/// Without the header pointer (link-time optimisation can remove variables that nothing reads) the registry's start
/// lies right behind the header.
fn by_neighbours(
    memory: &mut dyn Memory,
    symbols: &dyn Symbols,
    hints: &Hints,
    endian: Endian,
    tried: &mut Vec<String>,
) -> Option<Place> {
    for name in ["_tx_trace_registry_start_ptr", "_tx_trace_buffer_start_ptr"] {
        let Some(symbol) = symbols.lookup(name) else {
            tried.push(format!("{name}: no such symbol"));
            continue;
        };
        let width = pointer_width(&symbol, hints);
        let Ok(bytes) = memory.read_bytes(symbol.address, width.bytes()) else {
            tried.push(format!("{name} at {:#x}: cannot be read", symbol.address));
            continue;
        };
        let value = endian.word(width, &bytes, 0).unwrap_or(0);
        if value == 0 {
            tried.push(format!("{name} at {:#x} is 0", symbol.address));
            continue;
        }
        let entries = registry_entries(memory, symbols, hints, endian).unwrap_or(0);
        for word in [Width::W4, Width::W8] {
            let behind = if name.contains("registry") {
                Some(0)
            } else {
                entries.checked_mul(layout::object_size(word, 32) as u64)
            };
            let back = behind.and_then(|b| b.checked_add(layout::header_size(word) as u64));
            let Some(header) = back.and_then(|b| value.checked_sub(b)) else { continue };
            let Ok(head) = memory.read_bytes(header, layout::header_size(word)) else { continue };
            if parse::detect(&head).is_some_and(|(_, w, _)| w == word) {
                let how = format!("{name} at {:#x} holds {value:#x}; the header lies before it", symbol.address);
                let at = Location { header, endian: hints.endian, pointer: Some(width), how, by_symbols: true };
                return Some(Place { at, known: Vec::new() });
            }
        }
        tried.push(format!("{name} at {:#x} holds {value:#x}: no header before it", symbol.address));
    }
    None
}

fn registry_entries(memory: &mut dyn Memory, symbols: &dyn Symbols, hints: &Hints, endian: Endian) -> Option<u64> {
    const ENTRIES: &str = "_tx_trace_total_registry_entries";
    let symbol = symbols.lookup(ENTRIES)?;
    let width = ulong(symbols, ENTRIES, hints.pointer.unwrap_or(Width::W4))?;
    let bytes = memory.read_bytes(symbol.address, width.bytes()).ok()?;
    endian.word(width, &bytes, 0)
}
