//! Where the loggers are: by option, by the symbols of their modules, or by the list of queue descriptors.

use super::super::{self as format, Extent, Found, Haystack, Hints, Located, Location};
use super::layout::{self, queue};
use super::ring::Shape;
use super::{parse, read};
use crate::abi::{Addr, Endian, Width};
use crate::bytes::Bytes;
use crate::code::Code;
use crate::error::Error;
use crate::mem::Memory;
use crate::sym::Symbols;

/// The state of LoggerMin, of which a program has one.
const MIN: &str = "ti_uia_loggers_LoggerMin_Module__state__V";
/// The objects of LoggerStopMode that were configured, one behind the other.
const STOP: &str = "ti_uia_loggers_LoggerStopMode_Object__table__V";
/// Leads to the first queue descriptor: every logger but LoggerMin has one.
const QUEUES: &str = "ti_uia_runtime_QueueDescriptor_gPtrToFirstDescriptor";
/// So many records behind each other are no accident.
const ENOUGH: usize = 512;
/// Bytes that are read to see what lies at an address.
const HEAD: usize = 256;
/// The most loggers that are believed.
const MOST: usize = 64;

/// What describes a logger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    Min,
    Stop,
    Queue,
    Packet,
}

impl By {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Min => "LoggerMin state",
            Self::Stop => "LoggerStopMode object",
            Self::Queue => "queue descriptor",
            Self::Packet => "packet of events",
        }
    }

    const fn most(self) -> usize {
        match self {
            Self::Min => layout::MIN_SIZE,
            Self::Stop => layout::STOP_SIZE,
            Self::Queue => layout::QUEUE_SIZE,
            Self::Packet => layout::PACKET,
        }
    }
}

/// One logger, as what describes it has it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Logger {
    pub by: By,
    pub shape: Shape,
    pub endian: Endian,
    /// First byte of the buffer.
    pub base: Addr,
    /// Bytes of the buffer; `None` where only the packet itself was found.
    pub len: Option<u64>,
    pub write: Option<Addr>,
    pub read: Option<Addr>,
    /// Events that were not recorded.
    pub dropped: Option<u64>,
    /// Where they are counted.
    pub dropped_at: Option<Addr>,
    pub enabled: Option<bool>,
    pub instance: Option<u64>,
    /// The next descriptor in the list.
    pub next: Addr,
    /// True where it says that something was recorded.
    pub used: bool,
}

impl Logger {
    /// What these bytes at `address` describe, in this byte order.
    pub fn of(by: By, head: &[u8], address: Addr, endian: Endian) -> Option<Self> {
        let at = |p: u32| Some(Addr::from(p)).filter(|p| *p != 0);
        let empty = Self {
            by,
            shape: Shape::Lap,
            endian,
            base: address,
            len: None,
            write: None,
            read: None,
            dropped: None,
            dropped_at: None,
            enabled: None,
            instance: None,
            next: 0,
            used: true,
        };
        match by {
            By::Min => {
                let (_, s) = parse::min_state(head, endian).ok().filter(|(_, s)| s.is_sound())?;
                let len = u64::from(s.end.wrapping_sub(s.start)).saturating_add(4);
                Some(Self {
                    base: s.start.into(),
                    len: Some(len),
                    write: at(s.write),
                    dropped: Some(s.dropped.into()),
                    enabled: Some(s.enabled != 0),
                    used: s.sequence > 0 || s.previous > 0,
                    ..empty
                })
            }
            By::Stop => {
                let (_, s) = parse::stop_object(head, endian).ok().filter(|(_, s)| s.is_sound())?;
                Some(Self {
                    base: s.buffer.into(),
                    len: Some(s.size.into()),
                    write: at(s.write),
                    dropped: Some(s.dropped.into()),
                    enabled: Some(s.enabled != 0),
                    instance: Some(s.instance.into()),
                    used: s.sequence > 0 || s.previous > 0,
                    ..empty
                })
            }
            By::Queue => {
                let (_, s) = parse::descriptor(head, endian).ok().filter(|(_, s)| s.is_sound())?;
                let shape = match u64::from(s.kind) {
                    queue::STOP_MODE => Shape::Lap,
                    queue::RUN_MODE => Shape::Packets,
                    _ => Shape::Circular,
                };
                // Only a circular queue is read by the target's own read pointer.
                let write = match (shape, at(s.partial)) {
                    (_, Some(partial)) => Some(partial),
                    (Shape::Circular, None) => at(s.write),
                    (Shape::Lap | Shape::Packets, None) => None,
                };
                Some(Self {
                    shape,
                    base: s.start.into(),
                    len: Some(s.len.into()),
                    write,
                    read: at(s.read),
                    dropped_at: at(s.dropped_at),
                    instance: Some(s.instance.into()),
                    next: s.next.into(),
                    ..empty
                })
            }
            By::Packet => is_packet(head, endian).then_some(empty),
        }
    }

    /// What these bytes describe, whatever it is; in the byte order that is known, or in the one that makes sense.
    pub fn detect(head: &[u8], address: Addr, known: Option<Endian>) -> Option<Self> {
        let orders = known.map_or([Endian::Little, Endian::Big], |e| [e, e]);
        let kinds = [By::Queue, By::Min, By::Stop, By::Packet];
        let one = |by, e| Self::of(by, head, address, e).filter(|_| by != By::Stop || is_stop(head, e));
        kinds.into_iter().find_map(|by| orders.into_iter().find_map(|e| one(by, e)))
    }
}

/// True where bytes begin with a packet's header, and two records behind it agree with each other. A header of four bytes
/// can be any number, and one of sixteen many a piece of code: what lies behind must be as a logger leaves it.
fn is_packet(bytes: &[u8], endian: Endian) -> bool {
    let Ok((_, packet)) = parse::packet(bytes) else { return false };
    let (length, first) = (packet.length as usize, bytes.first().copied().unwrap_or(0));
    let whole = packet.header == layout::PACKET;
    let sane = if whole {
        // Bits that no writer sets, and where packets go to.
        matches!(first, 0xA0 | 0xA8) && matches!(bytes.get(12..14), Some([0xFF, 0xFF | 0xFE]))
    } else {
        matches!(first, 0x30 | 0x38)
    };
    let filled = length.is_multiple_of(4) && length as u64 <= layout::MAX_BUFFER;
    let word = |at: usize| endian.u32(bytes, at).map(parse::header);
    let Some(one) = word(packet.header).filter(|h| h.is_sound() && h.kind().stamp.is_some() && sane && filled) else {
        return false;
    };
    let Some(two) = word(packet.header.saturating_add(usize::from(one.length))) else { return false };
    let follows = |mask: u16| two.sequence == one.sequence.map(|s| s.wrapping_add(1) & mask);
    if !one.kind().chained {
        return whole && two.is_sound() && two.number < 4 && follows(u16::MAX);
    }
    let chained = two.previous == Some(one.length) && follows(31) && (two.length == 0 || two.is_sound());
    chained && ends_as_a_lap(bytes, length, endian, one, whole)
}

/// Before the first lap is full the first record has no record before it; after that a mark stands where the lap ended,
/// and the last record before it.
fn ends_as_a_lap(bytes: &[u8], length: usize, endian: Endian, first: parse::Header, whole: bool) -> bool {
    if length == 0 {
        return whole || (first.previous == Some(0) && first.sequence == Some(0));
    }
    let word = |at: usize| endian.u32(bytes, at).map(parse::header);
    let ends = |mark: parse::Header| {
        let last = mark.previous.filter(|p| *p > 0).and_then(|p| length.checked_sub(p.into()));
        last.and_then(word).is_some_and(|h| Some(h.length) == mark.previous)
    };
    // Of a packet at `--header` only the beginning was read.
    word(length).map_or(bytes.len() <= HEAD, ends) || {
        // The next lap has come so far that it lies over the end of the last one.
        let mut at = if whole { layout::PACKET } else { layout::PACKET_MIN };
        for walked in 0.. {
            let Some(header) = word(at).filter(parse::Header::is_sound) else { break };
            if walked > ENOUGH {
                return true;
            }
            at = at.saturating_add(header.length.into());
        }
        word(at).map_or(bytes.len() <= HEAD, |mark| mark.length == 0) && at.saturating_add(0x800) > length
    }
}

/// True where bytes begin with a packet of events.
pub(super) fn sniff(bytes: &[u8]) -> bool {
    is_packet(bytes, Endian::Little) || is_packet(bytes, Endian::Big)
}

/// True where bytes describe a logger.
pub(super) fn describes(bytes: &[u8]) -> bool {
    Logger::detect(bytes, 0, None).is_some()
}

/// Every logger in `bytes`: what describes one, and packets that nothing here describes.
pub(super) fn scan(hay: &Haystack<'_>, most: usize) -> Vec<Found> {
    let bytes = hay.bytes();
    let mut found: Vec<Found> = Vec::new();
    let mut packets: Vec<Found> = Vec::new();
    let offsets = std::iter::successors(Some(hay.next(0)), |at| Some(hay.next(at.saturating_add(4))));
    for offset in offsets.take_while(|at| *at < bytes.len()) {
        if found.len() >= most || packets.len() >= most.max(16) {
            break;
        }
        let Some(head) = bytes.get(offset..) else { break };
        // Nearly all words are none of these: the cheapest question first.
        let (Some(first), Some(kind)) = (head.first(), head.get(..4)) else { break };
        let small = matches!(kind, [48 | 44, 0, 0, 0] | [0, 0, 0, 48 | 44]);
        let packet = matches!(first, 0xA0 | 0xA8 | 0x30 | 0x38);
        let by_type = matches!(head.get(28..32), Some([8..=10, 0, 0, 0] | [0, 0, 0, 8..=10]));
        let twice = head.get(12..16).filter(|b| **b != [0; 4]).is_some_and(|b| head.get(48..52) == Some(b));
        let candidates = [(By::Queue, small), (By::Min, by_type), (By::Stop, twice), (By::Packet, packet)];
        let logger = candidates.into_iter().filter(|(_, likely)| *likely).find_map(|(by, _)| {
            [Endian::Little, Endian::Big].into_iter().find_map(|e| Logger::of(by, head, offset as Addr, e))
        });
        let Some(logger) = logger else { continue };
        // A structure without a magic number is believed only where the packet that it leads to looks like one.
        let capacity = logger.len.unwrap_or(0) / 4;
        let one =
            |events| Found { offset, base: offset as Addr, capacity, endian: logger.endian, word: Width::W4, events };
        match logger.by {
            By::Packet => packets.push(one(None)),
            By::Stop if !is_stop(head, logger.endian) => {}
            _ if logger.used => found.push(one(Some(logger.base))),
            _ => {}
        }
    }
    found.append(&mut packets);
    place(bytes, &mut found);
    found.truncate(most);
    found
}

/// A LoggerStopMode object has no mark of its own: what its writer keeps must fit together to the byte.
fn is_stop(head: &[u8], endian: Endian) -> bool {
    let Ok((_, s)) = parse::stop_object(head, endian) else { return false };
    let room = u64::from(s.buffer).saturating_add(u64::from(s.size)).saturating_sub(u64::from(s.end));
    // The last record begins at the end at the latest, and is at most 48 bytes long, and the mark behind it.
    let packets = endian.u32(head, 48);
    (24..=256).contains(&room) && s.descriptor != 0 && packets == Some(s.buffer)
}

/// Where structure and buffer lie in the same bytes, the one tells the address of the other, and so of all of them.
fn place(bytes: &[u8], found: &mut [Found]) {
    let packets: Vec<usize> = found.iter().filter(|f| f.events.is_none()).map(|f| f.offset).collect();
    let shift = found.iter().find_map(|f| {
        let base = f.events?;
        // The one packet that is where the structure's write pointer says.
        let fits = |offset: usize| {
            let logger = bytes.get(f.offset..).and_then(|h| Logger::detect(h, 0, Some(f.endian)))?;
            let write = logger.write?.checked_sub(base).and_then(|w| usize::try_from(w).ok())?;
            let mark = f.endian.u32(bytes, offset.checked_add(write)?).map(parse::header)?;
            (mark.length == 0 && mark.number == 8).then_some(())
        };
        let mut all = packets.iter().filter(|p| fits(**p).is_some());
        let (one, None) = (all.next()?, all.next()) else { return None };
        base.checked_sub(*one as u64)
    });
    if let Some(shift) = shift {
        for f in found {
            f.base = shift.saturating_add(f.offset as u64);
        }
    }
}

/// What a search found, each logger once: what describes it rather than the bare packet, for it knows where the next
/// record goes. The largest is meant.
pub(super) fn sift(memory: &mut dyn Memory, hits: Vec<(Addr, Found)>) -> Vec<(Addr, Found)> {
    // What describes a logger must lead to a packet, if that can be read: numbers that fit each other are found in
    // any large memory.
    let leads = |memory: &mut dyn Memory, f: &Found| {
        let head = f.events.and_then(|e| memory.read_bytes(e, layout::PACKET).ok());
        head.is_none_or(|h| {
            parse::packet(&h).is_ok() || f.endian.u32(&h, 0).map(parse::header).is_some_and(|h| h.is_sound())
        })
    };
    let mut kept: Vec<(Addr, Found)> = Vec::new();
    for (at, found) in hits.iter().filter(|(_, f)| f.events.is_some()) {
        if leads(memory, found) && !kept.iter().any(|(_, k)| k.events == found.events) {
            kept.push((*at, *found));
        }
    }
    let bare = hits.iter().filter(|(at, f)| f.events.is_none() && !kept.iter().any(|(_, k)| k.events == Some(*at)));
    let bare: Vec<(Addr, Found)> = bare.copied().collect();
    kept.extend(bare);
    kept.sort_by_key(|(at, f)| std::cmp::Reverse((f.capacity, std::cmp::Reverse(*at))));
    kept
}

/// Reads what may describe a logger; it can be the last thing in a dump.
fn head(memory: &mut dyn Memory, address: Addr, by: Option<By>) -> Option<Bytes> {
    let all = [HEAD, 192, 128, 96, 64, layout::STOP_SIZE, layout::QUEUE_SIZE, layout::QUEUE_SIZE_1, layout::MIN_SIZE];
    let one = by.map(By::most);
    match one {
        // A descriptor of UIA 1 is shorter.
        Some(len) => [len, layout::QUEUE_SIZE_1].into_iter().find_map(|len| memory.read_bytes(address, len).ok()),
        None => all.into_iter().find_map(|len| memory.read_bytes(address, len).ok()),
    }
}

/// Where a logger lies.
#[derive(Debug)]
pub(super) struct Place {
    pub at: Location,
    /// What describes it.
    by: Option<By>,
    /// The other loggers of the program.
    pub others: Vec<Addr>,
    /// What describes the same buffer, with a length that cannot be.
    pub damaged: Option<Addr>,
}

impl Place {
    pub const fn new(at: Location) -> Self {
        Self { at, by: None, others: Vec::new(), damaged: None }
    }

    /// The logger there, and the bytes that describe it.
    pub fn logger(&self, memory: &mut dyn Memory) -> Option<(Logger, Bytes)> {
        let Location { header: address, endian, .. } = self.at;
        let head = head(memory, address, self.by)?;
        let logger = match (self.by, endian) {
            (Some(by), Some(endian)) => Logger::of(by, &head, address, endian),
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
    found: Vec<(Addr, Logger, String)>,
    tried: Vec<String>,
}

impl Search<'_> {
    fn take(&mut self, by: By, address: Addr, name: &str) -> Option<Logger> {
        let Some(head) = head(self.memory, address, Some(by)) else {
            self.tried.push(format!("{name} at {address:#x}: cannot be read"));
            return None;
        };
        let orders = self.endian.map_or([Endian::Little, Endian::Big], |e| [e, e]);
        let Some(logger) = orders.into_iter().find_map(|e| Logger::of(by, &head, address, e)) else {
            let zero = head.iter().all(|b| *b == 0);
            let what = if zero { "all zero: the logger was not started" } else { "its fields contradict each other" };
            self.tried.push(format!("{name} at {address:#x}: {what}"));
            return None;
        };
        self.endian = Some(logger.endian);
        // Object and descriptor describe one buffer, but where one of them is damaged.
        let same = |l: &Logger| l.base == logger.base && l.len == logger.len;
        if !self.found.iter().any(|(_, l, _)| same(l)) && self.found.len() < MOST {
            self.found.push((address, logger, name.to_owned()));
        }
        Some(logger)
    }

    /// Objects of one kind behind each other: as many as the symbol's size says, or as make sense.
    fn objects(&mut self, address: Addr, size: u64) {
        let count = size.checked_div(layout::STOP_SIZE as u64).filter(|c| *c > 0);
        for i in 0..count.unwrap_or(MOST as u64).min(MOST as u64) {
            let Some(at) = i.checked_mul(layout::STOP_SIZE as u64).and_then(|o| address.checked_add(o)) else { break };
            let before = self.tried.len();
            if self.take(By::Stop, at, STOP).is_none() && count.is_none() {
                // Behind the last one lies something else.
                self.tried.truncate(if i == 0 { self.tried.len() } else { before });
                break;
            }
        }
    }

    fn queues(&mut self, pointer: Addr) {
        let Ok(bytes) = self.memory.read_bytes(pointer, 4) else {
            self.tried.push(format!("{QUEUES} at {pointer:#x}: cannot be read"));
            return;
        };
        let both = [Endian::Little, Endian::Big].map(|e| e.word(Width::W4, &bytes, 0).unwrap_or(0));
        if both == [0, 0] {
            self.tried.push(format!("{QUEUES} at {pointer:#x} is 0: no logger was started"));
            return;
        }
        let mut seen = Vec::new();
        let mut at = match self.endian {
            Some(Endian::Little) => both[0],
            Some(Endian::Big) => both[1],
            // The order in which the pointer leads to a descriptor is right.
            None => {
                let fits = |memory: &mut dyn Memory, p: Addr, e| {
                    head(memory, p, Some(By::Queue))
                        .is_some_and(|h| parse::descriptor(&h, e).is_ok_and(|(_, d)| d.is_sound()))
                };
                let big = fits(self.memory, both[1], Endian::Big) && !fits(self.memory, both[0], Endian::Little);
                if big { both[1] } else { both[0] }
            }
        };
        while at != 0 && seen.len() < MOST && !seen.contains(&at) {
            seen.push(at);
            at = match self.take(By::Queue, at, QUEUES) {
                Some(logger) => logger.next,
                // A queue of another kind is a link in the list like any other.
                None => match self.memory.read_bytes(at, 8) {
                    Ok(b) => self.endian.unwrap_or(Endian::Little).word(Width::W4, &b, 4).unwrap_or(0),
                    Err(_) => 0,
                },
            };
        }
    }
}

/// True where a logger's buffer can be read to its end: a size that is damaged makes a logger large, and no better.
fn is_there(memory: &mut dyn Memory, logger: &Logger) -> bool {
    let Some(last) = logger.len.and_then(|len| logger.base.checked_add(len)?.checked_sub(4)) else { return true };
    memory.read_batch(&[(logger.base, 4), (last, 4)]).iter().all(Result::is_ok)
}

/// Finds a logger.
pub(super) fn locate(memory: &mut dyn Memory, symbols: &dyn Symbols, hints: &Hints) -> Result<Place, Error> {
    if let Some(at) = hints.given() {
        return Ok(Place::new(at));
    }
    let mut search = Search { memory, endian: hints.endian, found: Vec::new(), tried: Vec::new() };
    let mut known = 0u32;
    for name in [MIN, STOP, QUEUES] {
        let Some(symbol) = symbols.lookup(name) else {
            search.tried.push(format!("{name}: no such symbol"));
            continue;
        };
        known = known.saturating_add(1);
        match name {
            MIN => drop(search.take(By::Min, symbol.address, name)),
            STOP => search.objects(symbol.address, symbol.size),
            _ => search.queues(symbol.address),
        }
    }
    let Search { found, tried, memory, .. } = search;
    // One that recorded, whose buffer is there, and of those the largest.
    let several = found.len() > 1;
    let best =
        found.iter().max_by_key(|(at, l, _)| (l.used, !several || is_there(memory, l), l.len, std::cmp::Reverse(*at)));
    let Some((header, logger, name)) = best else {
        let mut error = if known == 0 {
            Error::not_found(
                Code::NoTraceSymbol,
                "no symbol tells where a UIA logger is (LoggerMin, LoggerStopMode, the list of queue descriptors)",
                "give the unstripped ELF with --elf, or the place with --header ADDR, or search the memory with --scan",
            )
        } else {
            Error::not_found(
                Code::NeverEnabled,
                "this program has UIA loggers, but none of them was started",
                "look after main() has begun: a logger is set up by the startup functions; or the memory was cleared by a reset",
            )
        };
        error.tried = tried;
        return Err(error);
    };
    let at = Location {
        header: *header,
        endian: Some(logger.endian),
        pointer: hints.pointer,
        how: format!("{name}: {} at {header:#x}", logger.by.name()),
        by_symbols: true,
    };
    let mut place = Place { by: Some(logger.by), ..Place::new(at) };
    for (at, l, _) in found.iter().filter(|(at, ..)| at != header) {
        if l.base != logger.base {
            place.others.push(*at);
        } else if !is_there(memory, l) {
            place.damaged = place.damaged.or(Some(*at));
        }
    }
    Ok(place)
}
