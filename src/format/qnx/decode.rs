//! Meaning: captured bytes to a trace. Pure.

use super::super::arena::Arena;
use super::super::{DecodeOptions, Extent};
use super::assemble::{self, Assembled, Assembly, Segment};
use super::doubts;
use super::info;
use super::layout::{CONTROL, ELEMENT, INTERRUPT, KERNEL_CALL, PROCESS_THREAD, Shape, TIME};
use super::parse::{self, RawElement};
use super::read::{Capture, Origin};
use super::threads::{self, Threads};
use super::time::{self, Doubts, Times};
use crate::abi::{Endian, Width};
use crate::catalogue::{looks_like_text, qnx_events};
use crate::trace::{
    About, Clock, ContextId, ContextKind, Counts, DefId, Direction, Event, Events, Extra, Known, Trace, WalkState,
    Words,
};

/// Decodes a capture.
pub(super) fn decode(capture: &Capture, options: &DecodeOptions) -> Trace {
    let mut issues = capture.issues.clone();
    let release = info::release(capture, options);
    let Assembly { events: parts, arena, issues: problems, elements, begins_torn, gaps } =
        assemble::assemble(&capture.segments, capture.endian);
    issues.extend(problems);
    let reader = Reader { segments: capture.segments.clone(), arena, endian: capture.endian };
    let mut builder = Builder::new(&reader, release, parts.len());
    let (mut missing, mut gaps_at) = (gaps.into_iter().peekable(), Vec::new());
    for (number, part) in parts.iter().enumerate() {
        if missing.next_if(|at| *at <= number).is_some() {
            builder.threads.forget();
            gaps_at.push(builder.rows.len() as u64);
        }
        builder.event(*part);
    }
    let Builder { mut rows, times, threads, cores, stamps_differ, unknown, .. } = builder;
    let (times, doubts) = times.finish();
    let (times, found) = corrected(&rows, times);
    // What is corrected is no step of the clock any more.
    let doubts = if found.count > 0 { Doubts { falls: 0, first_fall: None, ..doubts } } else { doubts };
    if !rows.is_empty() {
        issues.extend(time::doubted(doubts));
        issues.extend(doubts::issue(found));
    }
    issues.extend(info::doubts(capture, release, unknown));
    let first = times.first().copied().unwrap_or(0);
    for (row, time) in rows.iter_mut().zip(&times) {
        row.ticks = time::ticks(first, *time);
    }
    let (contexts, objects) = threads.finish();
    let held = rows.len() as u64;
    let clock = clock(capture, options, doubts.count().saturating_add(found.count), stamps_differ || held < 2);
    let mut about = about(capture, held, cores);
    about.wrapped |= begins_torn;
    about.facts = info::facts(capture, options);
    about.facts.push(("elements", format!("{elements} of {ELEMENT} bytes make {held} events")));
    let skip = match capture.extent {
        Extent::All => 0,
        Extent::Newest(n) => held.saturating_sub(n),
        Extent::Nothing => held,
    };
    let who =
        contexts.iter().map(|(_, c)| (c.kind == ContextKind::Thread).then(|| threads::numbers(c.address))).collect();
    let source = Entries { rows, skip, reader, who };
    let mut trace = Trace::new(about, clock, contexts, objects, issues, Box::new(source));
    trace.gaps = gaps_at;
    trace
}

/// The times without those that do not match.
fn corrected(rows: &[Row], times: Vec<u64>) -> (Vec<u64>, doubts::Found) {
    let moment = |(row, time): (&Row, u64)| doubts::Moment {
        cpu: row.cpu,
        time,
        in_interrupt: row.class == INTERRUPT || row.interrupted.is_some(),
    };
    let mut moments: Vec<doubts::Moment> = rows.iter().zip(times).map(moment).collect();
    let found = doubts::correct(&mut moments);
    (moments.iter().map(|moment| moment.time).collect(), found)
}

fn clock(capture: &Capture, options: &DecodeOptions, doubts: u64, runs: bool) -> Clock {
    Clock {
        mask: Width::W4.max(),
        direction: Direction::Up,
        direction_known: Known::Detected,
        period: None,
        #[allow(clippy::cast_precision_loss, reason = "no clock has 2^53 ticks in a second")]
        hz: options.hz.or_else(|| capture.cycles.map(|c| c as f64)),
        counts: if runs { Counts::Time } else { Counts::Nothing },
        doubts,
        reason: "control events give the high word, for each processor".to_owned(),
    }
}

#[expect(clippy::arithmetic_side_effects, reason = "at most 65,536 buffers of known size")]
fn about(capture: &Capture, held: u64, cores: u16) -> About {
    let (base, capacity, wrapped) = match &capture.origin {
        // A file alone begins at 0.
        Origin::File { address, elements, .. } => (Some(*address).filter(|at| *at != 0), *elements, false),
        Origin::Ring { shape, start, buffers, sequences, .. } => {
            let full = sequences.len() as u64 >= *buffers;
            let wrapped = full && sequences.first().is_some_and(|first| *first > 1);
            (Some(*start), buffers * shape.capacity(), wrapped)
        }
    };
    About {
        format: "qnx",
        endian: capture.endian,
        word: Width::W4,
        pointer: capture.shape().map(Shape::pointer).filter(|p| *p != Width::W4),
        base,
        capacity,
        held,
        empty: 0,
        wrapped,
        origin: 0,
        cores,
        facts: Vec::new(),
    }
}

/// Elements, and where they are.
struct Reader {
    segments: Vec<Segment>,
    arena: Arena,
    endian: Endian,
}

impl Reader {
    fn element(&self, part: &Assembled) -> Option<(RawElement, &Segment)> {
        let segment = self.segments.get(part.segment as usize)?;
        let bytes = segment.bytes.chunks_exact(ELEMENT).nth(part.element as usize)?;
        let (_, raw) = parse::element(bytes, self.endian).ok()?;
        Some((raw, segment))
    }

    /// The payload of an event, from its arena or its element.
    fn payload<'a>(&'a self, part: &Assembled, raw: &RawElement, own: &'a mut [u64; 2]) -> &'a [u64] {
        if let Some(payload) = part.payload {
            return self.arena.get(payload);
        }
        *own = raw.words.map(u64::from);
        own
    }
}

/// One event, with all that depends on the events before it.
#[derive(Debug, Clone, Copy)]
struct Row {
    part: Assembled,
    ticks: i64,
    context: ContextId,
    interrupted: Option<ContextId>,
    def: Option<DefId>,
    priority: Option<u16>,
    class: u16,
    cpu: u8,
}

/// Goes over the events once, and keeps what later events depend on.
struct Builder<'a> {
    reader: &'a Reader,
    release: u16,
    rows: Vec<Row>,
    times: Times,
    threads: Threads,
    cores: u16,
    stamps_differ: bool,
    last_stamp: Option<u32>,
    unknown: u64,
}

impl<'a> Builder<'a> {
    fn new(reader: &'a Reader, release: u16, events: usize) -> Self {
        Self {
            reader,
            release,
            rows: Vec::with_capacity(events),
            times: Times::default(),
            threads: Threads::default(),
            cores: 1,
            stamps_differ: false,
            last_stamp: None,
            unknown: 0,
        }
    }

    #[expect(clippy::arithmetic_side_effects, reason = "counts events")]
    fn event(&mut self, part: Assembled) {
        let Some((raw, _)) = self.reader.element(&part) else { return };
        let mut own = [0; 2];
        let words = self.reader.payload(&part, &raw, &mut own);
        self.stamps_differ |= self.last_stamp.is_some_and(|last| last != raw.stamp);
        self.last_stamp = Some(raw.stamp);
        self.cores = self.cores.max(u16::from(raw.cpu) + 1);
        if (raw.class, raw.event) == (CONTROL, TIME) {
            self.times.report(raw.cpu, u64::from(raw.words[0]) << 32 | u64::from(raw.words[1]));
        }
        self.times.event(raw.cpu, raw.stamp);
        let endian = self.reader.endian;
        let is_text = || looks_like_text(characters(words, endian));
        let def = qnx_events().find(self.release, raw.class, raw.event, words, is_text);
        self.unknown += u64::from(def.is_none());
        // An interrupt's own events are its own, and a thread that begins to run has begun.
        let is_exit = raw.class == INTERRUPT && raw.event == 2;
        let before = self.threads.now(raw.cpu);
        self.learn(&raw, words, endian);
        let (context, interrupted, priority) = if is_exit { before } else { self.threads.now(raw.cpu) };
        self.rows.push(Row { part, ticks: 0, context, interrupted, def, priority, class: raw.class, cpu: raw.cpu });
    }

    /// Updates processes, threads and interrupts from an event.
    fn learn(&mut self, raw: &RawElement, words: &[u64], endian: Endian) {
        let word = |n: usize| words.get(n).and_then(|w| u32::try_from(*w).ok());
        let (Some(first), Some(second)) = (word(0), word(1)) else { return };
        let name = || {
            let bytes: Vec<u8> = characters(words.get(2..).unwrap_or(&[]), endian).take_while(|b| *b != 0).collect();
            Some(String::from_utf8_lossy(&bytes).into_owned()).filter(|n| !n.is_empty())
        };
        match (raw.class, raw.event) {
            (INTERRUPT, 1 | 5) => self.threads.interrupt(raw.cpu, first),
            (INTERRUPT, 2) => self.threads.interrupt_ends(raw.cpu, first),
            (KERNEL_CALL, call) if call & 0x1FF < 128 => self.threads.calls(raw.cpu),
            (PROCESS_THREAD, 64) => self.threads.process(second, first, None),
            (PROCESS_THREAD, 192) => self.threads.process(second, first, name()),
            (PROCESS_THREAD, 128) => self.threads.process_ends(second, first, None),
            (PROCESS_THREAD, 256) => self.threads.process_ends(second, first, name()),
            (PROCESS_THREAD, 320) => {
                if let Some(name) = name() {
                    self.threads.thread_name(first, second, name);
                }
            }
            // In 6.x and 7.x, states from 26 on are those of virtual threads.
            (PROCESS_THREAD, state) if state < 26 || (self.release >= 80 && state < 64) => {
                let priority = word(2).filter(|_| words.len() >= 4).and_then(|p| u16::try_from(p).ok());
                let thread = self.threads.thread_state(first, second, priority, state == 25);
                if state == 1 {
                    self.threads.runs(raw.cpu, thread);
                }
            }
            _ => {}
        }
    }
}

/// The bytes of words as they are in the target's memory.
fn characters(words: &[u64], endian: Endian) -> impl Iterator<Item = u8> {
    words.iter().flat_map(move |w| {
        let [.., a, b, c, d] = w.to_be_bytes();
        match endian {
            Endian::Little => [d, c, b, a],
            Endian::Big => [a, b, c, d],
        }
    })
}

/// The events of a capture.
struct Entries {
    rows: Vec<Row>,
    /// Number of events before those that the capture asks for.
    skip: u64,
    reader: Reader,
    /// Process and thread of each context.
    who: Vec<Option<(u32, u32)>>,
}

impl Entries {
    fn row(&self, event: &Event) -> Option<&Row> {
        self.rows.get(usize::try_from(event.seq).ok()?)
    }
}

#[expect(clippy::arithmetic_side_effects, reason = "counts events, and slots of at most 65,536 buffers")]
impl Events for Entries {
    fn count(&self) -> u64 {
        self.rows.len() as u64 - self.skip
    }

    fn fill(&self, index: u64, _state: &mut WalkState, out: &mut [Event]) -> usize {
        let Some(first) = index.checked_add(self.skip) else { return 0 };
        let Some((earlier, rows)) = usize::try_from(first).ok().and_then(|i| self.rows.split_at_checked(i)) else {
            return 0;
        };
        let mut before = earlier.last().map(|r| r.ticks);
        let mut filled = 0usize;
        for ((seq, row), place) in (first..).zip(rows).zip(out) {
            let Some((raw, segment)) = self.reader.element(&row.part) else { break };
            let mut own = [0; 2];
            let words = self.reader.payload(&row.part, &raw, &mut own);
            *place = Event {
                seq,
                slot: segment.slot + u64::from(row.part.element),
                ticks: row.ticks,
                delta: before.map(|b| row.ticks.wrapping_sub(b)),
                stamp: Some(u64::from(raw.stamp)),
                core: u16::from(raw.cpu),
                context: row.context,
                priority: row.priority,
                interrupted: row.interrupted,
                id: u32::from(raw.event),
                def: row.def,
                words: Words::few(words).or(row.part.payload.map(Words::spilled)).unwrap_or_default(),
                ..Event::default()
            };
            before = Some(row.ticks);
            filled += 1;
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
        let who = self.who.get(event.context.0 as usize).copied().flatten();
        each(who.map_or(Extra::Null, |(pid, _)| Extra::Number(u64::from(pid))));
        each(who.map_or(Extra::Null, |(_, tid)| Extra::Number(u64::from(tid))));
        let class = self.row(event).map(|r| r.class);
        each(class.map_or(Extra::Null, |c| Extra::Number(u64::from(c))));
        let own = event.def.and_then(|d| qnx_events().def(d)).map(|d| d.class.as_str());
        let name = own.or_else(|| qnx_events().class(class?));
        each(name.map_or(Extra::Null, Extra::Text));
    }
}
