//! Where the loggers are: by option, by the symbols of their modules, or by the list of queue descriptors.

use super::super::{self as format, Extent, Hints, Located, Location};
use super::logger::{HEAD, Kind, Logger};
use super::{layout, read};
use crate::abi::{Addr, Endian, Width};
use crate::bytes::Bytes;
use crate::code::Code;
use crate::error::Error;
use crate::mem::Memory;
use crate::sym::Symbols;

/// The state of LoggerMin, of which a program has one.
const MIN: &str = "ti_uia_loggers_LoggerMin_Module__state__V";
/// The objects of LoggerStopMode that were configured, one after the other.
const STOP: &str = "ti_uia_loggers_LoggerStopMode_Object__table__V";
/// Leads to the first queue descriptor: every logger but LoggerMin has one.
const QUEUES: &str = "ti_uia_runtime_QueueDescriptor_gPtrToFirstDescriptor";
/// The most loggers of one program.
const MAX_LOGGERS: usize = 64;

/// Reads the bytes that may describe a logger; the dump can end right after them.
fn head(memory: &mut dyn Memory, address: Addr, kind: Option<Kind>) -> Option<Bytes> {
    let all = [HEAD, 192, 128, 96, 64, layout::STOP_SIZE, layout::QUEUE_SIZE, layout::QUEUE_SIZE_1, layout::MIN_SIZE];
    // A descriptor of UIA 1 is shorter.
    let one = kind.map(|kind| [kind.size(), layout::QUEUE_SIZE_1]);
    let lens = one.as_ref().map_or(&all[..], |one| &one[..]);
    lens.iter().find_map(|len| memory.read_bytes(address, *len).ok())
}

/// Where a logger is.
#[derive(Debug)]
pub(super) struct Place {
    pub at: Location,
    /// What describes it.
    kind: Option<Kind>,
    /// The other loggers of the program.
    pub others: Vec<Addr>,
    /// What describes the same buffer, with a length that cannot be.
    pub damaged: Option<Addr>,
}

impl Place {
    pub const fn new(at: Location) -> Self {
        Self { at, kind: None, others: Vec::new(), damaged: None }
    }

    /// The logger there, and the bytes that describe it.
    pub fn logger(&self, memory: &mut dyn Memory) -> Option<(Logger, Bytes)> {
        let Location { header: address, endian, .. } = self.at;
        let head = head(memory, address, self.kind)?;
        let logger = match (self.kind, endian) {
            (Some(kind), Some(endian)) => Logger::of(kind, &head, address, endian),
            _ => Logger::detect(&head, address, endian).or_else(|| Logger::detect(&head, address, None)),
        };
        logger.map(|logger| (logger, head))
    }
}

impl Located for Place {
    fn location(&self) -> &Location {
        &self.at
    }

    fn capture(
        &self,
        memory: &mut dyn Memory,
        symbols: &dyn Symbols,
        _extent: Extent,
    ) -> Result<Box<dyn format::Capture>, Error> {
        Ok(Box::new(read::capture(memory, symbols, self)?))
    }
}

/// What was found by symbols.
struct Search<'a> {
    memory: &'a mut dyn Memory,
    endian: Option<Endian>,
    found: Vec<(Addr, Logger, &'static str)>,
    tried: Vec<String>,
}

impl Search<'_> {
    fn take(&mut self, kind: Kind, address: Addr, name: &'static str) -> Option<Logger> {
        let Some(head) = head(self.memory, address, Some(kind)) else {
            self.tried.push(format!("{name} at {address:#x}: cannot be read"));
            return None;
        };
        let orders = self.endian.map_or([Endian::Little, Endian::Big], |e| [e, e]);
        let Some(logger) = orders.into_iter().find_map(|e| Logger::of(kind, &head, address, e)) else {
            let zero = head.iter().all(|b| *b == 0);
            let what = if zero { "all zero: the logger was not started" } else { "its fields contradict each other" };
            self.tried.push(format!("{name} at {address:#x}: {what}"));
            return None;
        };
        self.endian = Some(logger.endian);
        // Object and descriptor describe one buffer, but where one of them is damaged.
        let same = |l: &Logger| l.base == logger.base && l.len == logger.len;
        if !self.found.iter().any(|(_, l, _)| same(l)) && self.found.len() < MAX_LOGGERS {
            self.found.push((address, logger, name));
        }
        Some(logger)
    }

    /// Objects of one kind after each other: as many as the symbol's size says, or as make sense.
    #[expect(clippy::arithmetic_side_effects, reason = "divides by a constant")]
    fn objects(&mut self, address: Addr, size: u64) {
        let count = Some(size / layout::STOP_SIZE as u64).filter(|count| *count > 0);
        for i in 0..count.unwrap_or(MAX_LOGGERS as u64).min(MAX_LOGGERS as u64) {
            let Some(at) = i.checked_mul(layout::STOP_SIZE as u64).and_then(|o| address.checked_add(o)) else { break };
            let before = self.tried.len();
            if self.take(Kind::Stop, at, STOP).is_none() && count.is_none() {
                // After the last one is something else.
                if i > 0 {
                    self.tried.truncate(before);
                }
                break;
            }
        }
    }

    /// Queues link to each other, from the one that the pointer points to.
    fn queues(&mut self, pointer: Addr) {
        let bytes = self.memory.read_bytes(pointer, 4).ok().and_then(|bytes| bytes.first_chunk::<4>().copied());
        let Some(bytes) = bytes else {
            return self.tried.push(format!("{QUEUES} at {pointer:#x}: cannot be read"));
        };
        let little = (Endian::Little, Addr::from(u32::from_le_bytes(bytes)));
        let big = (Endian::Big, Addr::from(u32::from_be_bytes(bytes)));
        if little.1 == 0 {
            return self.tried.push(format!("{QUEUES} at {pointer:#x} is 0: no logger was started"));
        }
        // The order in which the pointer points to a descriptor is right.
        let mut leads = |(endian, at): (Endian, Addr)| {
            head(self.memory, at, Some(Kind::Queue)).is_some_and(|h| Logger::of(Kind::Queue, &h, at, endian).is_some())
        };
        let is_big = match self.endian {
            Some(endian) => endian == Endian::Big,
            None => leads(big) && !leads(little),
        };
        let mut at = if is_big { big.1 } else { little.1 };
        let mut seen = Vec::new();
        while at != 0 && seen.len() < MAX_LOGGERS && !seen.contains(&at) {
            seen.push(at);
            let next = match self.take(Kind::Queue, at, QUEUES) {
                Some(logger) => Some(logger.next),
                // A queue of another kind is a link in the list like any other.
                None => {
                    let link = self.memory.read_bytes(at, 8).ok();
                    link.and_then(|link| self.endian.unwrap_or(Endian::Little).word(Width::W4, &link, 4))
                }
            };
            let Some(next) = next else { break };
            at = next;
        }
    }

    /// Looks at all symbols; why there is no logger where that is so.
    fn all(&mut self, symbols: &dyn Symbols) -> Result<(), Error> {
        let mut known = false;
        for name in [MIN, STOP, QUEUES] {
            let Some(symbol) = symbols.lookup(name) else {
                self.tried.push(format!("{name}: no such symbol"));
                continue;
            };
            known = true;
            match name {
                MIN => drop(self.take(Kind::Min, symbol.address, MIN)),
                STOP => self.objects(symbol.address, symbol.size),
                _ => self.queues(symbol.address),
            }
        }
        if !self.found.is_empty() {
            return Ok(());
        }
        let mut error = if known {
            Error::not_found(
                Code::NeverEnabled,
                "this program has UIA loggers, but none of them was started",
                "read it after main() has begun: startup functions set up a logger; or a reset cleared the memory",
            )
        } else {
            Error::not_found(
                Code::NoTraceSymbol,
                "no symbol gives the address of a UIA logger (LoggerMin, LoggerStopMode, the list of queue descriptors)",
                "give the unstripped ELF with --elf, or the place with --header ADDR, or search the memory with --scan",
            )
        };
        error.tried = std::mem::take(&mut self.tried);
        Err(error)
    }
}

/// True where a logger's buffer can be read to its end: a size that is damaged makes a logger large, and no better.
fn is_there(memory: &mut dyn Memory, logger: &Logger) -> bool {
    let Some(last) = logger.len.and_then(|len| logger.base.checked_add(len)?.checked_sub(4)) else { return true };
    memory.read_batch(&[(logger.base, 4), (last, 4)]).iter().all(Result::is_ok)
}

/// Finds a logger: one that recorded, whose buffer is there, and of those the largest.
pub(super) fn locate(memory: &mut dyn Memory, symbols: &dyn Symbols, hints: &Hints) -> Result<Place, Error> {
    if let Some(at) = hints.given() {
        return Ok(Place::new(at));
    }
    let mut search = Search { memory, endian: hints.endian, found: Vec::new(), tried: Vec::new() };
    search.all(symbols)?;
    let Search { found, memory, .. } = search;
    let several = found.len() > 1;
    let best =
        found.iter().max_by_key(|(at, l, _)| (l.used, !several || is_there(memory, l), l.len, std::cmp::Reverse(*at)));
    let Some((header, logger, name)) = best else {
        return Err(Error::not_found(Code::NoTrace, "no logger was found", ""));
    };
    let at = Location {
        header: *header,
        endian: Some(logger.endian),
        pointer: hints.pointer,
        how: format!("{name}: {} at {header:#x}", logger.kind.name()),
        by_symbols: true,
    };
    let mut place = Place { kind: Some(logger.kind), ..Place::new(at) };
    for (at, l, _) in found.iter().filter(|(at, ..)| at != header) {
        if l.base != logger.base {
            place.others.push(*at);
        } else if !is_there(memory, l) {
            place.damaged = place.damaged.or(Some(*at));
        }
    }
    Ok(place)
}
