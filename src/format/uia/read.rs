//! The read plan: the buffer of one logger, and the texts that its records name.
//!
//! Records differ in length, so their numbers are known only once all of them were walked: the whole buffer is read
//! whatever was asked for.

use super::super::{self as format, DecodeOptions, Format, merged};
use super::locate::{self, By, Logger};
use super::ring::{self, Known, Order, Shape};
use super::text::{self, Texts};
use super::{Uia, decode, layout, record};
use crate::abi::{Addr, Endian, Width};
use crate::bytes::Bytes;
use crate::catalogue::{Catalogue, Names};
use crate::code::Code;
use crate::error::Error;
use crate::mem::{Memory, Region};
use crate::sym::Symbols;
use crate::trace::{Issue, Place, Trace};

/// The most strings that are read for names, and again for arguments.
const STRINGS: usize = 512;
/// Bytes that a bare packet is read in at first; it says nothing of its size before it was filled.
const FIRST: usize = 1024;
/// The most that is read of a bare packet.
const MOST: usize = 1 << 20;

/// A logger, its buffer, and the texts that its records name.
#[derive(Debug)]
pub(super) struct Capture {
    pub logger: Logger,
    /// How it was found.
    pub how: String,
    /// What describes it.
    pub header: (Addr, Bytes),
    /// Its buffer, as far as it could be read.
    pub buffer: Bytes,
    /// Width of an argument: that of a pointer. The words before the arguments are of four bytes everywhere.
    pub word: Width,
    /// Width of a pointer, where known.
    pub pointer: Option<Width>,
    /// Where names come from.
    pub names: text::Tables,
    pub nodes: Vec<(Addr, Bytes)>,
    pub texts: Vec<(Addr, Bytes)>,
    pub issues: Vec<Issue>,
}

impl Capture {
    /// The records of the buffer.
    pub fn order(&self) -> Order {
        let logger = &self.logger;
        let offset = |address: Option<Addr>| {
            let at = address?.checked_sub(logger.base)?;
            usize::try_from(at).ok().filter(|at| *at <= self.buffer.len())
        };
        let header = match logger.by {
            By::Min => Some(layout::PACKET_MIN),
            By::Stop | By::Queue => Some(layout::PACKET),
            By::Packet => None,
        };
        let (write, read) = (offset(logger.write), offset(logger.read));
        let known = Known { shape: logger.shape, endian: logger.endian, write, read, header };
        ring::order(&self.buffer, &known)
    }
}

impl format::Capture for Capture {
    /// The declared events, and the ids that this program gave to its own.
    fn catalogue(&self, names: Names) -> Catalogue {
        decode::catalogue_of(Uia.catalogue(names), self)
    }

    fn decode(&self, catalogue: &Catalogue, options: &DecodeOptions) -> Result<Trace, Error> {
        Ok(decode::decode(self, catalogue, options))
    }

    fn ranges(&self) -> Vec<Region> {
        let buffer = (self.logger.base, self.buffer.clone());
        let all = [&self.header, &buffer].into_iter().chain(&self.nodes).chain(&self.texts);
        merged(all.map(|(start, bytes)| Region { start: *start, len: bytes.len() as u64 }))
    }

    fn issues(&self) -> &[Issue] {
        &self.issues
    }
}

/// Reads the logger at the place that was located.
pub(super) fn capture(memory: &mut dyn Memory, symbols: &dyn Symbols, place: &locate::Place) -> Result<Capture, Error> {
    let Some((mut logger, head)) = place.logger(memory) else {
        return Err(not_a_logger(memory, &place.at));
    };
    if let (None, Some(at)) = (logger.dropped, logger.dropped_at) {
        logger.dropped = memory.read_bytes(at, 4).ok().and_then(|b| logger.endian.word(Width::W4, &b, 0));
    }
    let mut issues = Vec::new();
    let buffer = read_buffer(memory, &logger, &mut issues)?;
    issues.extend(of_place(place));
    if logger.enabled == Some(false) {
        issues.push(Issue::new(Code::TraceDisabled, "the logger was switched off: these are the events up to then"));
    }
    let mut capture = Capture {
        logger,
        how: place.at.how.clone(),
        header: (place.at.header, head),
        buffer,
        word: place.at.pointer.unwrap_or(Width::W4),
        pointer: place.at.pointer,
        names: text::Tables::None,
        nodes: Vec::new(),
        texts: Vec::new(),
        issues,
    };
    read_texts(memory, symbols, &mut capture);
    Ok(capture)
}

/// What was noticed while the logger was looked for.
fn of_place(place: &locate::Place) -> Vec<Issue> {
    let mut issues = Vec::new();
    let others: Vec<String> = place.others.iter().map(|a| format!("{a:#x}")).collect();
    if !others.is_empty() {
        issues.push(
            Issue::new(
                Code::SeveralTraces,
                format!("more loggers are described at {}: choose one with --header ADDR", others.join(", ")),
            )
            .times(others.len() as u64),
        );
    }
    if let Some(at) = place.damaged {
        issues.push(
            Issue::new(
                Code::HeaderMended, format!("what describes the logger at {at:#x} gives its buffer a length that this memory does not have: the length at {:#x} is taken", place.at.header),
            )
            .at(Place::address(at)),
        );
    }
    issues
}

fn not_a_logger(memory: &mut dyn Memory, located: &format::Location) -> Error {
    let head = match memory.read_bytes(located.header, layout::MIN_SIZE) {
        Ok(head) => head,
        Err(e) => {
            let mut error = e.explain(&format!("the logger ({})", located.how));
            if !e.is_fatal() {
                error.code = Code::HeaderOutsideMemory;
            }
            return error;
        }
    };
    let start: Vec<String> = head.iter().take(8).map(|b| format!("{b:02x}")).collect();
    if head.iter().all(|b| *b == 0) {
        return Error::not_found(
            Code::HeaderZero,
            format!("memory at {:#x} is all zero where a logger should be ({})", located.header, located.how),
            "the logger was not started yet, or a reset cleared the memory",
        );
    }
    Error::not_found(
        Code::NotAHeader,
        format!(
            "memory at {:#x} describes no UIA logger: neither a LoggerMin state, a LoggerStopMode object nor a queue descriptor, nor does a packet of events begin there; it holds {} ({})",
            located.header,
            start.join(" "),
            located.how
        ),
        "the ELF is of another build, or the memory was overwritten: try --scan, or --header ADDR",
    )
}

/// Reads the buffer, or as much of its beginning as there is.
fn read_buffer(memory: &mut dyn Memory, logger: &Logger, issues: &mut Vec<Issue>) -> Result<Bytes, Error> {
    let Some(len) = logger.len else { return read_packet(memory, logger) };
    let wanted = usize::try_from(len).unwrap_or(usize::MAX);
    match memory.read_bytes(logger.base, wanted) {
        Ok(bytes) => return Ok(bytes),
        Err(e) if e.is_fatal() => return Err(e.explain("the events")),
        Err(_) => {}
    }
    let there = readable(memory, logger.base, wanted)?;
    if there < 8 {
        return Err(Error::failed(
            Code::HeaderOutsideMemory,
            format!("the logger's buffer at {:#x} ({len} bytes) is not in this memory", logger.base),
            "the dump is too small: it must cover the buffer; or the ELF is of another build",
        ));
    }
    issues.push(
        Issue::new(
            Code::RingUnreadable,
            format!("{} of {len} bytes of the buffer cannot be read", wanted.saturating_sub(there)),
        )
        .at(Place::address(logger.base.saturating_add(there as u64))),
    );
    memory.read_bytes(logger.base, there).map_err(|e| e.explain("the events"))
}

/// How many bytes from an address can be read: by the source's own list, or by halving.
fn readable(memory: &mut dyn Memory, base: Addr, wanted: usize) -> Result<usize, Error> {
    if let Some(regions) = memory.regions() {
        let mut end = base;
        for r in regions {
            if r.start <= end && end < r.start.saturating_add(r.len) {
                end = r.start.saturating_add(r.len);
            }
        }
        return Ok(usize::try_from(end.saturating_sub(base)).unwrap_or(wanted).min(wanted));
    }
    let (mut good, mut bad) = (0usize, wanted);
    while bad.saturating_sub(good) > 1 {
        let middle = good.saturating_add(bad.saturating_sub(good) / 2);
        match memory.read_bytes(base, middle) {
            Ok(_) => good = middle,
            Err(e) if e.is_fatal() => return Err(e.explain("the events")),
            Err(_) => bad = middle,
        }
    }
    Ok(good)
}

/// A packet that only its own header describes: read on until the mark behind the newest record.
fn read_packet(memory: &mut dyn Memory, logger: &Logger) -> Result<Bytes, Error> {
    let head = memory.read_bytes(logger.base, layout::PACKET_MIN).map_err(|e| e.explain("the events"))?;
    let full = Endian::Big.u32(&head, 0).map_or(0, |w| if w >> 28 == 3 { w & 0xFFFF } else { w & 0x07FF_FFFF });
    // The length of a packet that was filled, and the mark behind it.
    let mut len = (full as usize).saturating_add(4).clamp(FIRST, MOST);
    loop {
        let there = match memory.read_bytes(logger.base, len) {
            Ok(bytes) => bytes,
            Err(e) if e.is_fatal() => return Err(e.explain("the events")),
            Err(_) => {
                let there = readable(memory, logger.base, len)?;
                return memory.read_bytes(logger.base, there).map_err(|e| e.explain("the events"));
            }
        };
        let known = Known { shape: Shape::Lap, endian: logger.endian, write: None, read: None, header: None };
        let order = ring::order(&there, &known);
        // A broken chain is not mended by reading on, unless it breaks at the very end.
        let broken = order.lost.first().is_some_and(|l| l.at.saturating_add(0x800) < there.len());
        if order.write.is_some() || broken || len >= MOST {
            return Ok(there);
        }
        len = len.saturating_mul(2).min(MOST);
    }
}

/// Reads the names of the modules and events that the records have, and the strings that their arguments point to.
fn read_texts(memory: &mut dyn Memory, symbols: &dyn Symbols, capture: &mut Capture) {
    let Some(chars) = symbols.lookup(text::CHARS).map(|s| s.address) else { return };
    if let Some(loaded) = symbols.lookup(text::LOADED)
        && memory.read_bytes(loaded.address, 2).is_ok_and(|b| b.iter().all(|b| *b == 0))
    {
        capture.names = text::Tables::LeftOut;
        return;
    }
    let nodes = symbols.lookup(text::NODES).map(|s| s.address);
    capture.names = text::Tables::At { chars, nodes };
    let order = capture.order();
    let endian = capture.logger.endian;
    let mut texts = Texts::new(Some(chars), capture.word);
    let mut ids: Vec<u16> = Vec::new();
    for r in &order.records {
        if let Some((event, module)) = record::ids(&order.bytes, r, endian) {
            ids.push(event);
            ids.extend(Some(module).filter(|m| m & text::NODE != 0));
        }
    }
    ids.sort_unstable();
    ids.dedup();
    // Parts name parts: a few rounds, each one batch.
    for _ in 0..text::DEPTH {
        let mut missing = Vec::new();
        ids.iter().for_each(|id| texts.missing(*id, 0, &mut missing));
        missing.sort_unstable();
        missing.dedup();
        missing.truncate(STRINGS);
        if missing.is_empty() {
            break;
        }
        let (parts, strings): (Vec<u16>, Vec<u16>) = missing.into_iter().partition(|id| id & text::NODE != 0);
        let at = |id: &u16| nodes.map(|n| n.saturating_add(u64::from(id & !text::NODE).saturating_mul(4)));
        let wanted: Vec<(Addr, usize)> = parts.iter().filter_map(|id| Some((at(id)?, 4))).collect();
        let mut any = false;
        for ((address, _), bytes) in wanted.iter().zip(memory.read_batch(&wanted)) {
            let Ok(bytes) = bytes else { continue };
            any = true;
            texts.add_node(address.wrapping_sub(nodes.unwrap_or(0)), &bytes, endian);
            capture.nodes.push((*address, bytes));
        }
        let strings: Vec<Addr> = strings.iter().map(|id| chars.saturating_add((*id).into())).collect();
        any |= read_strings(memory, &strings, &mut texts, capture);
        if !any {
            break;
        }
    }
    // Format strings in arguments name further arguments.
    for _ in 0..2 {
        let mut wanted: Vec<Addr> = Vec::new();
        for r in &order.records {
            let Some((event, _)) = record::ids(&order.bytes, r, endian) else { continue };
            let words = record::words(&order.bytes, r, endian, capture.word);
            match texts.rope(event) {
                // What is printed has its format string for its first argument.
                _ if event == 0 => text::pointers(&texts, "%$S", &words, &mut wanted),
                Some(format) => text::pointers(&texts, &format, &words, &mut wanted),
                None => {}
            }
            if wanted.len() > STRINGS.saturating_mul(4) {
                break;
            }
        }
        wanted.sort_unstable();
        wanted.dedup();
        wanted.retain(|a| texts.at(*a).is_none());
        wanted.truncate(STRINGS);
        if wanted.is_empty() || !read_strings(memory, &wanted, &mut texts, capture) {
            break;
        }
    }
}

/// A string near the end of what can be read: in ever smaller parts.
fn to_the_end(memory: &mut dyn Memory, address: Addr) -> Option<Bytes> {
    let mut all: Vec<u8> = Vec::new();
    for len in [64, 32, 16, 8, 4, 2, 1] {
        if let Ok(part) = memory.read_bytes(address.checked_add(all.len() as u64)?, len) {
            all.extend_from_slice(&part);
            if part.contains(&0) {
                break;
            }
        }
    }
    (!all.is_empty()).then(|| Bytes::from(all))
}

/// Reads strings; what lies behind their end need not be readable. True where one was read.
fn read_strings(memory: &mut dyn Memory, wanted: &[Addr], texts: &mut Texts, capture: &mut Capture) -> bool {
    let batch: Vec<(Addr, usize)> = wanted.iter().map(|a| (*a, text::LONGEST)).collect();
    let mut any = false;
    for (address, result) in wanted.iter().zip(memory.read_batch(&batch)) {
        let bytes = match result {
            Ok(bytes) => Some(bytes),
            Err(e) if e.is_fatal() => return any,
            Err(_) => to_the_end(memory, *address),
        };
        let Some(bytes) = bytes else { continue };
        any = true;
        texts.add_text(*address, &bytes);
        capture.texts.push((*address, bytes));
    }
    any
}
