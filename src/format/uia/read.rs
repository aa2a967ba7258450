//! The read plan: the buffer of one logger, and the texts that its records name.
//!
//! Records differ in length, so their numbers are known only once all of them were walked: the whole buffer is read
//! even for a few events.

use std::sync::Arc;

use super::super::partial::prefix;
use super::super::{self as format, DecodeOptions, Format, merged};
use super::locate;
use super::logger::{Kind, Logger};
use super::order::{Known, Order, Shape};
use super::record::Packet;
use super::text::Texts;
use super::{Uia, decode, definition, layout};
use crate::abi::{Addr, Width};
use crate::bytes::Bytes;
use crate::catalogue::{Catalogue, Names};
use crate::code::Code;
use crate::error::Error;
use crate::mem::{Memory, Region};
use crate::sym::Symbols;
use crate::trace::{Issue, Place, Trace};

/// Bytes of the first read of a bare packet, which does not hold its size before it was filled.
const FIRST_READ: usize = 1024;
/// The most that is read of a bare packet.
const MAX_PACKET: usize = 1 << 20;
/// What is read, for messages.
const EVENTS: &str = "the events";

/// A logger, its buffer, and the texts that its records name.
#[derive(Debug)]
pub(super) struct Capture {
    pub logger: Logger,
    /// How it was found.
    pub how: String,
    /// Address of what describes it.
    pub header: Addr,
    /// Width of an argument: that of a pointer. The words before the arguments are of four bytes everywhere.
    pub word: Width,
    /// Width of a pointer, where known.
    pub pointer: Option<Width>,
    /// The records of its buffer, as far as that could be read.
    pub order: Arc<Order>,
    pub texts: Arc<Texts>,
    /// What was read.
    regions: Vec<Region>,
    pub issues: Vec<Issue>,
}

impl format::Capture for Capture {
    /// The declared events, and the ids that this program gave to its own.
    fn catalogue(&self, names: Names) -> Catalogue {
        definition::extend(Uia.catalogue(names), &self.texts, &self.order, self.logger.endian)
    }

    fn decode(&self, catalogue: &Catalogue, options: &DecodeOptions) -> Result<Trace, Error> {
        Ok(decode::decode(self, catalogue, options))
    }

    fn ranges(&self) -> Vec<Region> {
        merged(self.regions.iter().chain(&self.texts.regions).copied())
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
    let order = order(&logger, &buffer);
    let word = place.at.pointer.unwrap_or(Width::W4);
    let texts = Texts::read(memory, symbols, &order, (logger.endian, word));
    let region = |start, bytes: &Bytes| Region { start, len: bytes.len() as u64 };
    Ok(Capture {
        regions: vec![region(place.at.header, &head), region(logger.base, &buffer)],
        logger,
        how: place.at.how.clone(),
        header: place.at.header,
        word,
        pointer: place.at.pointer,
        order: Arc::new(order),
        texts: Arc::new(texts),
        issues,
    })
}

/// The records of a logger's buffer.
fn order(logger: &Logger, buffer: &[u8]) -> Order {
    let offset = |address: Option<Addr>| {
        let at = usize::try_from(address?.checked_sub(logger.base)?).ok()?;
        (at <= buffer.len()).then_some(at)
    };
    let header = match logger.kind {
        Kind::Min => Some(layout::PACKET_MIN),
        Kind::Stop | Kind::Queue => Some(layout::PACKET),
        Kind::Packet => None,
    };
    let (write, read) = (offset(logger.write), offset(logger.read));
    Order::of(buffer, &Known { shape: logger.shape, endian: logger.endian, write, read, header })
}

/// The issues that the search for the logger found.
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
                Code::HeaderMended,
                format!("what describes the logger at {at:#x} gives its buffer a length that this memory does not have: the length at {:#x} is used", place.at.header),
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

/// Reads the buffer, or the readable part at its beginning.
#[expect(clippy::arithmetic_side_effects, reason = "addresses and lengths of 32 bits, and a part of the length")]
fn read_buffer(memory: &mut dyn Memory, logger: &Logger, issues: &mut Vec<Issue>) -> Result<Bytes, Error> {
    let Some(len) = logger.len else { return read_packet(memory, logger) };
    // At most as long as MAX_BUFFER.
    let bytes = prefix(memory, logger.base, len as usize, EVENTS)?;
    let missing = len - bytes.len() as u64;
    if missing > 0 && bytes.len() < 8 {
        return Err(Error::failed(
            Code::HeaderOutsideMemory,
            format!("the logger's buffer at {:#x} ({len} bytes) is not in this memory", logger.base),
            "the dump is too small: it must cover the buffer; or the ELF is of another build",
        ));
    }
    if missing > 0 {
        issues.push(
            Issue::new(Code::RingUnreadable, format!("{missing} of {len} bytes of the buffer cannot be read"))
                .at(Place::address(logger.base + bytes.len() as u64)),
        );
    }
    Ok(bytes)
}

/// A packet that only its own header describes: read on until the mark after the newest record.
#[expect(clippy::arithmetic_side_effects, reason = "lengths of at most 27 bits")]
fn read_packet(memory: &mut dyn Memory, logger: &Logger) -> Result<Bytes, Error> {
    let mut len = FIRST_READ;
    loop {
        let there = prefix(memory, logger.base, len, EVENTS)?;
        if there.len() < len || len >= MAX_PACKET {
            return Ok(there);
        }
        // The length of a packet that was filled, and the mark after it.
        let full = Packet::of(&there).map_or(0, |packet| packet.length + 4);
        if full > len {
            len = full.min(MAX_PACKET);
            continue;
        }
        let known = Known { shape: Shape::Lap, endian: logger.endian, write: None, read: None, header: None };
        let order = Order::of(&there, &known);
        // A broken chain is not repaired by reading on, unless it breaks at the very end.
        let broken = order.lost.first().is_some_and(|lost| lost.at + 0x800 < there.len());
        if order.write.is_some() || broken {
            return Ok(there);
        }
        len = (2 * len).min(MAX_PACKET);
    }
}
