//! Meaning: captured bytes to a trace. Pure.

use super::super::{DecodeOptions, Extent};
use super::combine::{self, Arena, Assembled, Assembly, IN_PLACE, Segment};
use super::kev;
use super::layout::{self, CONTROL, ELEMENT, INTERRUPT, KERNEL_CALL, PROCESS_THREAD, Shape, TIME};
use super::parse::{self, RawElement};
use super::people::{self, People};
use super::read::{Capture, Held};
use super::time::{self, Times};
use crate::abi::{Addr, Endian, Width};
use crate::bytes::Bytes;
use crate::catalogue::{looks_like_text, qnx_events};
use crate::code::Code;
use crate::error::Error;
use crate::trace::{
    About, Clock, ContextId, ContextKind, Counts, DefId, Direction, Event, Events, Extra, Issue, Known, Trace,
    WalkState, Words,
};

/// Mark of an event without a definition, or of one that interrupted nobody known.
const NONE: u32 = u32::MAX;
/// The only release whose rings were checked against its own listing.
const VERIFIED: std::ops::Range<u16> = 60..70;

/// Decodes a capture.
pub(super) fn decode(capture: &Capture, options: &DecodeOptions) -> Result<Trace, Error> {
    let mut issues = capture.issues.clone();
    let source = Source::of(capture, options)?;
    let Assembly { events: parts, arena, issues: trouble, elements, begins_torn } =
        combine::assemble(&source.segments, capture.endian);
    issues.extend(trouble);
    let reader = Reader { segments: source.segments, arena, endian: capture.endian };
    let mut builder = Builder::new(&reader, source.release, parts.len());
    for part in &parts {
        builder.event(*part);
    }
    let Builder { mut rows, times, people, cores, stamps_differ, unknown, .. } = builder;
    let (times, doubts) = times.finish();
    if !rows.is_empty() {
        issues.extend(time::doubted(doubts));
    }
    if unknown > 0 {
        issues.push(
            Issue::new(
                Code::UnknownEvent,
                format!("{unknown} events are in no table of this release: they are shown as words (--qnx-version)"),
            )
            .times(unknown),
        );
    }
    let first = times.first().copied().unwrap_or(0);
    for (row, time) in rows.iter_mut().zip(&times) {
        row.ticks = i64::try_from(i128::from(*time).saturating_sub(i128::from(first))).unwrap_or(i64::MAX);
    }
    if !VERIFIED.contains(&source.release) || source.shape.is_some_and(|s| s != Shape::Narrow) {
        issues.push(Issue::new(
            Code::UnverifiedRelease,
            format!(
                "no trace of QNX {} was at hand when this was written: layout and names are unverified",
                release(source.release)
            ),
        ));
    }
    let (contexts, objects) = people.finish();
    let held = rows.len() as u64;
    let clock = Clock {
        mask: Width::W4.max(),
        direction: Direction::Up,
        direction_known: Known::Detected,
        period: None,
        #[allow(clippy::cast_precision_loss, reason = "no clock has 2^53 ticks in a second")]
        hz: options.hz.or_else(|| capture.cycles.map(|c| c as f64)),
        counts: if stamps_differ || held < 2 { Counts::Time } else { Counts::Nothing },
        doubts: doubts.turns.saturating_add(doubts.falls),
        reason: "control events tell the high word, for each processor".to_owned(),
    };
    let mut facts = source.facts;
    facts.push(("elements", format!("{elements} of {ELEMENT} bytes make {held} events")));
    let about = About {
        format: "qnx",
        endian: capture.endian,
        word: Width::W4,
        pointer: source.shape.map(Shape::pointer).filter(|p| *p != Width::W4),
        base: source.base,
        capacity: source.capacity,
        held,
        empty: 0,
        wrapped: source.wrapped || begins_torn,
        origin: 0,
        cores,
        facts,
    };
    let skip = match capture.extent {
        Extent::All => 0,
        Extent::Newest(n) => held.saturating_sub(n),
        Extent::Nothing => held,
    };
    let who =
        contexts.iter().map(|(_, c)| (c.kind == ContextKind::Thread).then(|| people::numbers(c.address))).collect();
    let source = Entries { rows, skip: usize::try_from(skip).unwrap_or(usize::MAX), reader, who };
    Ok(Trace::new(about, clock, contexts, objects, issues, Box::new(source)))
}

/// `71` is 7.1.
fn release(number: u16) -> String {
    format!("{}.{}", number / 10, number % 10)
}

/// What a capture holds, before events are made of it.
struct Source {
    segments: Vec<Segment>,
    release: u16,
    shape: Option<Shape>,
    base: Addr,
    capacity: u64,
    wrapped: bool,
    facts: Vec<(&'static str, String)>,
}

impl Source {
    fn of(capture: &Capture, options: &DecodeOptions) -> Result<Self, Error> {
        match &capture.held {
            Held::File { address, bytes } => Self::of_file(bytes, *address, capture, options),
            Held::Ring { shape, start, base, buffers, filled } => {
                Ok(Self::of_ring(capture, *shape, (*start, *base), (*buffers).max(1), filled, options))
            }
        }
    }

    fn of_file(bytes: &Bytes, address: Addr, capture: &Capture, options: &DecodeOptions) -> Result<Self, Error> {
        let damaged = || {
            Error::failed(
                Code::HeaderDamaged,
                "the text header of the trace file is damaged",
                "give the whole .kev file",
            )
        };
        let head = kev::parse(bytes).ok_or_else(damaged)?;
        let rest = bytes.len().saturating_sub(head.events);
        let count = rest.checked_div(ELEMENT).unwrap_or(0);
        let events = bytes.cut(head.events, count.saturating_mul(ELEMENT)).unwrap_or_else(|| Bytes::from(Vec::new()));
        let release = options.release.or(head.release).unwrap_or(64);
        let mut facts = vec![
            ("found by", capture.how.clone()),
            ("layout", format!("{}, a file of the trace logger (.kev)", order_name(capture.endian))),
        ];
        let said = [("release", &head.release_text), ("machine", &head.machine), ("logged", &head.date)];
        facts.extend(said.into_iter().filter(|(_, text)| !text.is_empty()).map(|(what, text)| (what, text.clone())));
        let segment = Segment {
            bytes: events,
            address: address.wrapping_add(head.events as u64),
            slot: 0,
            after_gap: false,
            count: Some(count),
        };
        Ok(Self {
            segments: vec![segment],
            release,
            shape: None,
            base: address,
            capacity: count as u64,
            wrapped: false,
            facts,
        })
    }

    fn of_ring(
        capture: &Capture,
        shape: Shape,
        (start, own_start): (Addr, Addr),
        buffers: u64,
        filled: &[(Addr, Bytes)],
        options: &DecodeOptions,
    ) -> Self {
        let mut segments = Vec::new();
        let (mut sequences, mut written, mut previous) = (Vec::new(), None, None);
        for (address, bytes) in filled {
            let Ok((_, raw)) = parse::buffer(bytes, capture.endian, shape) else { continue };
            let index = address.wrapping_sub(start).checked_div(layout::BUFFER).unwrap_or(0);
            let header = shape.header();
            let bytes = bytes.cut(header, bytes.len().saturating_sub(header));
            let after_gap = previous.is_some_and(|p: u32| p.wrapping_add(1) != raw.sequence);
            previous = Some(raw.sequence);
            sequences.push(raw.sequence);
            if raw.flags & layout::BEING_WRITTEN != 0 {
                written = Some(index);
            }
            segments.push(Segment {
                bytes: bytes.unwrap_or_else(|| Bytes::from(Vec::new())),
                address: address.wrapping_add(header as u64),
                slot: index.saturating_mul(shape.capacity()),
                after_gap,
                count: raw.count(shape).0.and_then(|n| usize::try_from(n).ok()),
            });
        }
        let full = segments.len() as u64 >= buffers;
        let first = sequences.first().copied().unwrap_or(0);
        let release = options.release.unwrap_or_else(|| shape.release());
        Self {
            facts: facts(capture, shape, buffers, &sequences, written, release, options, (start, own_start)),
            segments,
            release,
            shape: Some(shape),
            base: start,
            capacity: buffers.saturating_mul(shape.capacity()),
            wrapped: full && first > 1,
        }
    }
}

#[allow(clippy::too_many_arguments, reason = "they are only put into sentences")]
fn facts(
    capture: &Capture,
    shape: Shape,
    buffers: u64,
    sequences: &[u32],
    written: Option<u64>,
    number: u16,
    options: &DecodeOptions,
    (start, base): (Addr, Addr),
) -> Vec<(&'static str, String)> {
    let mut said = match (sequences.first(), sequences.last()) {
        (Some(a), Some(b)) => format!("{} of {buffers} hold events, numbered {a} to {b}", sequences.len()),
        _ => format!("none of {buffers} holds events"),
    };
    if let Some(written) = written {
        said.push_str(&format!("; buffer {written} is being written"));
    }
    let from = if options.release.is_some() { "--qnx-version" } else { "the shape of its buffers" };
    let mut facts = vec![
        ("found by", capture.how.clone()),
        (
            "layout",
            format!(
                "{}, {} shape: {buffers} buffers of {} bytes, room for {} elements each",
                order_name(capture.endian),
                shape.name(),
                layout::BUFFER,
                shape.capacity()
            ),
        ),
        ("buffers", said),
        ("release", format!("{} (from {from})", release(number))),
    ];
    if base != 0 && base != start & shape.pointer().max() {
        facts.push(("copy", format!("the ring lies at {start:#x}, and the kernel addresses it at {base:#x}")));
    }
    facts
}

/// The name of a byte order, for sentences.
const fn order_name(endian: Endian) -> &'static str {
    match endian {
        Endian::Little => "little-endian",
        Endian::Big => "big-endian",
    }
}

/// Elements, and where they lie.
struct Reader {
    segments: Vec<Segment>,
    arena: Arena,
    endian: Endian,
}

impl Reader {
    fn element(&self, part: &Assembled) -> Option<(RawElement, &Segment)> {
        let segment = self.segments.get(usize::try_from(part.segment).ok()?)?;
        let start = usize::try_from(part.element).ok()?.checked_mul(ELEMENT)?;
        let (_, raw) = parse::element(segment.bytes.get(start..)?, self.endian).ok()?;
        Some((raw, segment))
    }

    /// The payload of an event, from its arena or its element.
    fn payload<'a>(&'a self, part: &Assembled, raw: &RawElement, own: &'a mut [u64; 2]) -> &'a [u64] {
        if part.payload == IN_PLACE {
            *own = raw.words.map(u64::from);
            return own;
        }
        self.arena.get(part.payload)
    }
}

/// One event, decided: everything that depends on the events before it.
#[derive(Debug, Clone, Copy)]
struct Row {
    part: Assembled,
    ticks: i64,
    context: ContextId,
    interrupted: u32,
    def: u32,
    priority: Option<u16>,
    class: u16,
}

/// Goes over the events once and remembers who is who.
struct Builder<'a> {
    reader: &'a Reader,
    release: u16,
    rows: Vec<Row>,
    times: Times,
    people: People,
    cores: u16,
    stamps_differ: bool,
    last_stamp: Option<u32>,
    last_segment: u32,
    unknown: u64,
}

impl<'a> Builder<'a> {
    fn new(reader: &'a Reader, release: u16, events: usize) -> Self {
        Self {
            reader,
            release,
            rows: Vec::with_capacity(events),
            times: Times::new(),
            people: People::new(),
            cores: 1,
            stamps_differ: false,
            last_stamp: None,
            last_segment: 0,
            unknown: 0,
        }
    }

    fn event(&mut self, part: Assembled) {
        let Some((raw, segment)) = self.reader.element(&part) else { return };
        if part.segment > self.last_segment && segment.after_gap {
            self.people.forget();
        }
        self.last_segment = self.last_segment.max(part.segment);
        let mut own = [0; 2];
        let words = self.reader.payload(&part, &raw, &mut own);
        self.stamps_differ |= self.last_stamp.is_some_and(|last| last != raw.stamp);
        self.last_stamp = Some(raw.stamp);
        self.cores = self.cores.max(u16::from(raw.cpu).saturating_add(1));
        if (raw.class, raw.event) == (CONTROL, TIME) {
            self.times.tell(raw.cpu, u64::from(raw.words[0]) << 32 | u64::from(raw.words[1]));
        }
        self.times.event(raw.cpu, raw.stamp);
        let endian = self.reader.endian;
        let is_text = || looks_like_text(characters(words, endian));
        let def = qnx_events().find(self.release, raw.class, raw.event, words, is_text);
        self.unknown = self.unknown.saturating_add(u64::from(def.is_none()));
        // An interrupt's own events are its own, and a thread that begins to run has begun.
        let is_exit = raw.class == INTERRUPT && raw.event == 2;
        let before = self.people.now(raw.cpu);
        self.learn(&raw, words, endian);
        let (context, interrupted, priority) = if is_exit { before } else { self.people.now(raw.cpu) };
        self.rows.push(Row {
            part,
            ticks: 0,
            context,
            interrupted: interrupted.map_or(NONE, |i| i.0),
            def: def.map_or(NONE, |d| d.0),
            priority,
            class: raw.class,
        });
    }

    /// What an event tells of processes, threads and interrupts.
    fn learn(&mut self, raw: &RawElement, words: &[u64], endian: Endian) {
        let word = |n: usize| words.get(n).and_then(|w| u32::try_from(*w).ok());
        let (Some(first), Some(second)) = (word(0), word(1)) else { return };
        let name = || {
            let bytes: Vec<u8> = characters(words.get(2..).unwrap_or(&[]), endian).take_while(|b| *b != 0).collect();
            Some(String::from_utf8_lossy(&bytes).into_owned()).filter(|n| !n.is_empty())
        };
        match (raw.class, raw.event) {
            (INTERRUPT, 1 | 5) => self.people.interrupt(raw.cpu, first),
            (INTERRUPT, 2) => self.people.interrupt_ends(raw.cpu, first),
            (KERNEL_CALL, call) if call & 0x1FF < 128 => self.people.calls(raw.cpu),
            (PROCESS_THREAD, 64) => self.people.process(second, first, None),
            (PROCESS_THREAD, 192) => self.people.process(second, first, name()),
            (PROCESS_THREAD, 128) => self.people.process_ends(second, first, None),
            (PROCESS_THREAD, 256) => self.people.process_ends(second, first, name()),
            (PROCESS_THREAD, 320) => {
                if let Some(name) = name() {
                    self.people.thread_name(first, second, name);
                }
            }
            // From 26 on 6.x and 7.x speak of virtual threads.
            (PROCESS_THREAD, state) if state < 26 || (self.release >= 80 && state < 64) => {
                let priority = word(2).filter(|_| words.len() >= 4).and_then(|p| u16::try_from(p).ok());
                let thread = self.people.thread_state(first, second, priority, state == 25);
                if state == 1 {
                    self.people.runs(raw.cpu, thread);
                }
            }
            _ => {}
        }
    }
}

/// The bytes of words as they lie in the target's memory.
fn characters(words: &[u64], endian: Endian) -> impl Iterator<Item = u8> {
    words.iter().flat_map(move |w| {
        let word = u32::try_from(*w & 0xFFFF_FFFF).unwrap_or(0);
        match endian {
            Endian::Little => word.to_le_bytes(),
            Endian::Big => word.to_be_bytes(),
        }
    })
}

/// The events of a capture.
struct Entries {
    rows: Vec<Row>,
    /// Events in front of those that were asked for.
    skip: usize,
    reader: Reader,
    /// Process and thread of each context.
    who: Vec<Option<(u32, u32)>>,
}

impl Entries {
    fn row(&self, event: &Event) -> Option<&Row> {
        self.rows.get(usize::try_from(event.seq).ok()?)
    }
}

impl Events for Entries {
    fn count(&self) -> u64 {
        self.rows.len().saturating_sub(self.skip) as u64
    }

    fn fill(&self, index: u64, _state: &mut WalkState, out: &mut [Event]) -> usize {
        let first = usize::try_from(index).unwrap_or(usize::MAX).saturating_add(self.skip);
        let rows = self.rows.get(first..).unwrap_or(&[]);
        let mut before = first.checked_sub(1).and_then(|i| self.rows.get(i)).map(|r| r.ticks);
        let mut filled = 0usize;
        for ((number, row), place) in rows.iter().enumerate().zip(out) {
            let Some((raw, segment)) = self.reader.element(&row.part) else { break };
            let mut own = [0; 2];
            let words = self.reader.payload(&row.part, &raw, &mut own);
            *place = Event {
                seq: first.saturating_add(number) as u64,
                slot: segment.slot.saturating_add(u64::from(row.part.element)),
                ticks: row.ticks,
                delta: before.map(|b| row.ticks.saturating_sub(b)),
                stamp: Some(u64::from(raw.stamp)),
                core: u16::from(raw.cpu),
                context: row.context,
                priority: row.priority,
                threshold: None,
                isr: None,
                interrupted: (row.interrupted != NONE).then_some(ContextId(row.interrupted)),
                id: u32::from(raw.event),
                def: (row.def != NONE).then_some(DefId(row.def)),
                words: Words::few(words).unwrap_or_else(|| Words::spilled(row.part.payload)),
                doubtful: 0,
            };
            before = Some(row.ticks);
            filled = filled.saturating_add(1);
        }
        filled
    }

    fn spilled(&self, event: &Event) -> &[u64] {
        self.reader.arena.get(event.words.spill)
    }

    fn extra_names(&self) -> &'static [&'static str] {
        &["context.pid", "context.tid", "class.id", "class.name"]
    }

    fn extras(&self, event: &Event, each: &mut dyn FnMut(Extra<'_>)) {
        let who = usize::try_from(event.context.0).ok().and_then(|i| *self.who.get(i)?);
        each(who.map_or(Extra::Null, |(pid, _)| Extra::Number(u64::from(pid))));
        each(who.map_or(Extra::Null, |(_, tid)| Extra::Number(u64::from(tid))));
        let class = self.row(event).map(|r| r.class);
        each(class.map_or(Extra::Null, |c| Extra::Number(u64::from(c))));
        let own = event.def.and_then(|d| qnx_events().def(d)).map(|d| d.class.as_str());
        let name = own.or_else(|| qnx_events().class(class?));
        each(name.map_or(Extra::Null, Extra::Text));
    }
}
