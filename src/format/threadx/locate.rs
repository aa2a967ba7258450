//! Where the trace is, found with as few reads as can be.

use super::super::{Hints, Location};
use super::capture::Place;
use super::symbols::{
    BUFFERS, CORE_CLOCK, CURRENT_THREAD, ENABLE_BITS, HEADER, KERNEL, LINUX_TIME, POINTERS, REGISTRY_START, RING_START,
    TOTAL_ENTRIES, Variables,
};
use super::{header, layout};
use crate::abi::{Addr, Endian, Width};
use crate::bytes::Bytes;
use crate::code::Code;
use crate::error::Error;
use crate::mem::{Memory, ReadError, ReadErrorKind};
use crate::sym::{Symbol, Symbols};

/// The most cores, each with a running thread of its own.
const MAX_CORES: u64 = 64;
/// Variables that are within so many bytes are read at once: one packet more costs more than the bytes between.
const TOGETHER: u64 = 256;
/// The most reads that variables may cost: two, and two more for the trace itself.
const READS: usize = 2;

/// Finds the header by option, by the kernel's pointers, or by the name of the buffer.
pub(super) fn locate(memory: &mut dyn Memory, symbols: &dyn Symbols, hints: &Hints) -> Result<Place, Error> {
    let mut place = match hints.given() {
        Some(at) => beside(memory, symbols, hints, at),
        None => by_symbols(memory, symbols, hints)?,
    };
    place.kernel.has_linux_time = symbols.lookup(LINUX_TIME).is_some();
    Ok(place)
}

fn by_symbols(memory: &mut dyn Memory, symbols: &dyn Symbols, hints: &Hints) -> Result<Place, Error> {
    if let Some(symbol) = symbols.lookup(HEADER) {
        return by_header_pointer(memory, symbols, hints, &symbol);
    }
    let mut tried = Tried { missing: vec![HEADER], other: Vec::new() };
    if let Some(found) = by_neighbours(memory, symbols, hints, &mut tried) {
        return Ok(found);
    }
    for name in BUFFERS {
        if let Some(symbol) = symbols.lookup(name) {
            let how = format!("the buffer {name} at {:#x}", symbol.address);
            return Ok(place(symbol.address, hints.endian, hints.pointer, how));
        }
        tried.missing.push(name);
    }
    Err(match KERNEL.into_iter().find(|n| symbols.lookup(n).is_some()) {
        Some(name) => Error::not_found(
            Code::TraceNotBuiltIn,
            format!("this ELF is a ThreadX program ({name} is there) built without its event trace ({HEADER} is not)"),
            "`tx-trace setup ELF` prints the code that puts the trace into this program; a buffer of another name: --symbol _tx_trace_buffer=ADDR",
        ),
        None => Error::not_found(
            Code::NoTraceSymbol,
            format!("no symbol gives the address of the trace ({HEADER} and its neighbours, _tx_trace_buffer)"),
            "give the unstripped ELF with --elf, or the place with --header ADDR or --symbol NAME=ADDR, or search the memory with --scan",
        ),
    }
    .tried(tried.lines()))
}

/// Why the trace was not found.
struct Tried {
    /// Symbols that are not there.
    missing: Vec<&'static str>,
    /// Others, in a sentence each.
    other: Vec<String>,
}

impl Tried {
    fn lines(self) -> Vec<String> {
        let missing = format!("the symbols {}: there are none", self.missing.join(", "));
        std::iter::once(missing).chain(self.other).collect()
    }
}

fn place(header: Addr, endian: Option<Endian>, pointer: Option<Width>, how: String) -> Place {
    Place::new(Location { header, endian, pointer, how, by_symbols: true })
}

/// The header that the kernel's pointer points to.
fn by_header_pointer(
    memory: &mut dyn Memory,
    symbols: &dyn Symbols,
    hints: &Hints,
    symbol: &Symbol,
) -> Result<Place, Error> {
    let known = Width::from_bytes(symbol.size).or(hints.pointer);
    let found = match (hints.endian, known) {
        (Some(_), Some(_)) => None,
        (order, width) => shape(memory, symbol.address, order, width),
    };
    let (order, width) = match found {
        Some((order, width)) => (Some(order), width),
        None => (hints.endian, known.unwrap_or(Width::W4)),
    };
    let endian = order.unwrap_or(Endian::Little);
    let all = variables(symbols, width);
    let mut kernel = Variables::default();
    if let Err(e) = read_variables(memory, &all, endian, &mut kernel) {
        if e.is_fatal() {
            return Err(e.explain(HEADER));
        }
        // The neighbours cannot be read, which only happens at the edge of a dump.
        let alone = memory.read_bytes(symbol.address, width.bytes()).map_err(|e| unreadable(&e))?;
        kernel.header = endian.word(width, &alone, 0);
    }
    let header = kernel.header.filter(|header| *header != 0).ok_or_else(|| never_enabled(symbol.address))?;
    let how = format!("{HEADER} at {:#x} holds {header:#x}", symbol.address);
    Ok(Place { kernel, ..place(header, order, Some(width), how) })
}

fn unreadable(e: &ReadError) -> Error {
    let error = e.explain(HEADER);
    if !matches!(e.kind, ReadErrorKind::Unmapped) {
        return error;
    }
    error.hint(
        "this ELF may be of another build, or the dump leaves out the kernel's variables (.bss): --header ADDR, or --scan",
    )
}

fn never_enabled(at: Addr) -> Error {
    Error::not_found(
        Code::NeverEnabled,
        format!("{HEADER} at {at:#x} is 0: the trace was not enabled since the last start"),
        "`tx-trace setup --all ELF` prints the code that enables it; in GDB on OpenOCD zeros may be memory that could not be read (monitor gdb report_data_abort enable)",
    )
}

/// The header came from an option: what the kernel says of its own trace counts only where it is the one that was asked
/// for.
fn beside(memory: &mut dyn Memory, symbols: &dyn Symbols, hints: &Hints, at: Location) -> Place {
    // The running thread may be an array, one pointer a core: its size is no pointer's.
    let width = symbols.lookup(HEADER).and_then(|symbol| Width::from_bytes(symbol.size)).or(hints.pointer);
    let all = variables(symbols, width.unwrap_or(Width::W4));
    let mut kernel = Variables::default();
    // Without them the header alone is read.
    drop(read_variables(memory, &all, hints.endian.unwrap_or(Endian::Little), &mut kernel));
    if kernel.header != Some(at.header) {
        kernel.drop_trace();
    }
    Place { at, kernel }
}

/// A variable of the kernel that is read.
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
        let is_array = name == CURRENT_THREAD;
        let count = symbol.size.checked_div(width.bytes() as u64).filter(|_| is_array).unwrap_or(1);
        let count = count.clamp(1, MAX_CORES);
        Some(Self { name, address: symbol.address, width, count, sized: symbol.size > 0 })
    }

    const fn end(&self) -> Addr {
        self.address.saturating_add((self.width.bytes() as u64).saturating_mul(self.count))
    }
}

/// What is read, most wanted first.
fn variables(symbols: &dyn Symbols, width: Width) -> Vec<Variable> {
    let pointers = POINTERS.into_iter().chain([CURRENT_THREAD]).map(|name| (name, Some(width)));
    let others = [(ENABLE_BITS, ulong(symbols, ENABLE_BITS, width)), (CORE_CLOCK, Some(Width::W4))];
    pointers.chain(others).filter_map(|(name, width)| Variable::of(symbols, name, width?)).collect()
}

/// The width of a variable that is a ULONG: as its symbol says, else that of short pointers. With long ones it may be
/// either.
fn ulong(symbols: &dyn Symbols, name: &str, pointer: Width) -> Option<Width> {
    let size = symbols.lookup(name)?.size;
    Width::from_bytes(size).or_else(|| Some(Width::W4).filter(|_| pointer == Width::W4 && size == 0))
}

/// Ranges of memory that hold the variables: the first ones are always read, later ones where they cost no more
/// than [`READS`] in all. Decided by addresses alone, so that every source is read by the same plan.
fn ranges(all: &[Variable]) -> Vec<(Addr, usize)> {
    let mut ranges: Vec<(Addr, Addr)> = Vec::new();
    for v in all {
        let joined = ranges.iter_mut().find_map(|s| {
            let (low, high) = (s.0.min(v.address), s.1.max(v.end()));
            (high.saturating_sub(low) <= TOGETHER).then(|| *s = (low, high))
        });
        // The pointers beside the header pointer, the enable bits and the clock are not worth a packet of their own.
        let alone = matches!(v.name, HEADER | CURRENT_THREAD) || (v.name == CORE_CLOCK && ranges.len() < READS);
        if joined.is_none() && alone {
            ranges.push((v.address, v.end()));
        }
    }
    let len = |(low, high): (Addr, Addr)| usize::try_from(high.saturating_sub(low)).unwrap_or(0);
    ranges.into_iter().map(|s| (s.0, len(s))).collect()
}

/// Reads variables, with all that cost no packet of their own. Fails where the first range cannot be read.
fn read_variables(
    memory: &mut dyn Memory,
    all: &[Variable],
    endian: Endian,
    kernel: &mut Variables,
) -> Result<(), ReadError> {
    let wanted = ranges(all);
    let results = memory.read_batch(&wanted);
    for ((low, _), bytes) in wanted.iter().zip(&results).filter_map(|(w, r)| Some((w, r.as_ref().ok()?))) {
        for v in all {
            take(v, bytes, v.address.wrapping_sub(*low), endian, kernel);
        }
    }
    results.into_iter().next().map_or(Ok(()), |first| first.map(drop))
}

/// Takes the values of a variable that begins so far into what was read.
fn take(v: &Variable, bytes: &Bytes, offset: u64, endian: Endian, kernel: &mut Variables) {
    let Some(bytes) = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..)) else { return };
    let words = bytes.chunks_exact(v.width.bytes()).zip(0..v.count);
    words.filter_map(|(word, _)| endian.word(v.width, word, 0)).for_each(|value| kernel.set(v.name, value));
    // Without a size nothing distinguishes an array from a pointer.
    if v.name == CURRENT_THREAD && v.sized && !bytes.is_empty() {
        kernel.cores = Some(v.count);
    }
}

/// Symbols came as NAME=ADDR, and nothing shows the byte order or how wide pointers are: the shape in which the pointer
/// points to a header is right.
fn shape(memory: &mut dyn Memory, at: Addr, order: Option<Endian>, width: Option<Width>) -> Option<(Endian, Width)> {
    let bytes = memory.read_bytes(at, 8).or_else(|_| memory.read_bytes(at, 4)).ok()?;
    let leads = |memory: &mut dyn Memory, header: Addr| {
        [Width::W8, Width::W4].into_iter().any(|w| {
            let head = memory.read_bytes(header, layout::header_size(w));
            head.is_ok_and(|head| header::detect(&head).is_some())
        })
    };
    // Short first: of a long pointer to low memory in little-endian order that half is all there is.
    let widths = [Width::W4, Width::W8].into_iter().filter(|w| width.is_none_or(|known| known == *w));
    for width in widths {
        for endian in [Endian::Little, Endian::Big].into_iter().filter(|e| order.is_none_or(|known| known == *e)) {
            let header = endian.word(width, &bytes, 0).filter(|h| *h != 0);
            if header.is_some_and(|header| leads(memory, header)) {
                return Some((endian, width));
            }
        }
    }
    None
}

/// Without the header pointer (link-time optimisation can remove variables that nothing reads) the registry's start
/// directly follows the header.
fn by_neighbours(memory: &mut dyn Memory, symbols: &dyn Symbols, hints: &Hints, tried: &mut Tried) -> Option<Place> {
    let endian = hints.endian.unwrap_or(Endian::Little);
    for name in [REGISTRY_START, RING_START] {
        let Some(symbol) = symbols.lookup(name) else {
            tried.missing.push(name);
            continue;
        };
        let at = symbol.address;
        let width = Width::from_bytes(symbol.size).or(hints.pointer).unwrap_or(Width::W4);
        let value = memory.read_bytes(at, width.bytes()).ok().map(|bytes| endian.word(width, &bytes, 0).unwrap_or(0));
        let why = match value {
            None => format!("{name} at {at:#x}: cannot be read"),
            Some(0) => format!("{name} at {at:#x} is 0"),
            Some(value) => {
                let entries =
                    if name == RING_START { registry_entries(memory, symbols, hints, endian) } else { Some(0) };
                if let Some(header) = header_before(memory, value, entries.unwrap_or(0)) {
                    let how = format!("{name} at {at:#x} holds {value:#x}; the header is before it");
                    return Some(place(header, hints.endian, Some(width), how));
                }
                format!("{name} at {at:#x} holds {value:#x}: no header before it")
            }
        };
        tried.other.push(why);
    }
    None
}

/// The header that is so many registry entries before an address.
fn header_before(memory: &mut dyn Memory, address: Addr, entries: u64) -> Option<Addr> {
    [Width::W4, Width::W8].into_iter().find_map(|word| {
        let size = layout::header_size(word);
        let registry = entries.checked_mul(layout::object_size(word, layout::USUAL_NAME) as u64)?;
        let header = address.checked_sub(registry.checked_add(size as u64)?)?;
        let head = memory.read_bytes(header, size).ok()?;
        header::detect(&head).filter(|(_, found, _)| *found == word).map(|_| header)
    })
}

fn registry_entries(memory: &mut dyn Memory, symbols: &dyn Symbols, hints: &Hints, endian: Endian) -> Option<u64> {
    let symbol = symbols.lookup(TOTAL_ENTRIES)?;
    let width = ulong(symbols, TOTAL_ENTRIES, hints.pointer.unwrap_or(Width::W4))?;
    let bytes = memory.read_bytes(symbol.address, width.bytes()).ok()?;
    endian.word(width, &bytes, 0)
}
