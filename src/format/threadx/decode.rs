//! Meaning: captured bytes to a trace. Pure.

use std::collections::HashMap;

use super::super::{Absence, Capture, DecodeOptions, Extent};
use super::layout::{self, CONTEXT_INIT, CONTEXT_ISR, ENTRY_WORDS};
use super::ring::Geometry;
use super::{order_name, parse, registry};
use crate::abi::{Addr, Endian, Width};
use crate::bytes::Bytes;
use crate::catalogue::Catalogue;
use crate::trace::{
    About, Clock, ContextId, ContextKind, Contexts, CoreClock, DefId, Direction, Event, Events, Issue, Known, Place,
    Severity, Trace, WalkState, Words,
};

/// Decodes a capture.
pub(super) fn decode(capture: &Capture, catalogue: &Catalogue, options: &DecodeOptions) -> Result<Trace, Absence> {
    let damaged = || Absence::broken("header-damaged", "the captured header is no trace header", "try --scan");
    let head = capture.blocks("header").next().ok_or_else(damaged)?;
    let (_, raw) = parse::header(&head.bytes, capture.endian, capture.word).map_err(|_| damaged())?;
    let mut issues = capture.issues.clone();
    // What the layout has to complain of was said when it was read.
    let g = Geometry::new(head.address, capture.endian, capture.word, &raw, capture.value("current"), &mut Vec::new());
    let objects = registry::read(capture, &g, &mut issues);
    let ring = Ring::order(capture, &g, &mut issues);
    let survey = Survey::of(&ring, &g);
    let clock = find_clock(&survey, &g, options, &mut issues);
    let mut contexts = survey.contexts;
    registry::name_contexts(&mut contexts, &objects);
    let stores_interrupted = survey.marks_threshold || survey.marks_interrupted || !survey.has_threads;
    if survey.unused > 0 {
        issues.push(
            Issue::new(
                "unused-slot",
                Severity::Note,
                format!("{} slots in the middle of the ring hold no event", survey.unused),
            )
            .times(survey.unused)
            .at(Place { seq: survey.first_unused, ..Place::default() }),
        );
    }
    let origin = ring.first_seq(survey.skipped_front);
    let about = About {
        format: "threadx",
        endian: capture.endian,
        word: capture.word,
        pointer: capture.pointer,
        base: head.address,
        capacity: g.capacity,
        held: ring.held,
        wrapped: ring.wrapped,
        origin,
        cores: 1,
        facts: facts(capture, &g, &raw),
    };
    let dense = (0..DENSE_IDS).map(|id| catalogue.find(id)).collect();
    let sparse = catalogue.iter().filter(|d| d.id >= DENSE_IDS).filter_map(|d| Some((d.id, catalogue.find(d.id)?)));
    let source = Entries {
        runs: ring.runs,
        endian: capture.endian,
        word: capture.word,
        mask: g.time_mask,
        clock: clock.clone(),
        stores_interrupted,
        by_word: contexts.iter().map(|(id, c)| ((c.kind, c.address), id)).collect(),
        dense,
        sparse: sparse.collect(),
        count: survey.events,
    };
    let mut trace = Trace::new(about, clock, contexts, objects, issues, Box::new(source));
    trace.issues.extend(registry::full(capture, &g, &trace, catalogue));
    Ok(trace)
}

fn facts(capture: &Capture, g: &Geometry, raw: &parse::RawHeader) -> Vec<(&'static str, String)> {
    let mut facts = vec![
        ("found by", capture.how.clone()),
        (
            "layout",
            format!(
                "{}, ULONG of {} bytes, {} registry entries of {} bytes (names of {}), {} slots of {} bytes",
                order_name(g.endian),
                g.word.bytes(),
                g.objects,
                layout::object_size(g.word, g.name_size),
                g.name_size,
                g.capacity,
                layout::entry_size(g.word)
            ),
        ),
    ];
    if raw.base != g.header & g.word.max() {
        facts.push((
            "copy",
            format!(
                "the header lies at {:#x} and says {:#x}: a copy of a buffer, decoded as it stands",
                g.header, raw.base
            ),
        ));
    } else if capture.pointer == Some(Width::W8) && g.word == Width::W4 {
        facts.push(("pointers", "64-bit addresses, cut to their low 32 bits in the trace".to_owned()));
    }
    facts
}

/// Slots that follow each other in ring order and lie together in memory.
struct Run {
    first_seq: u64,
    first_slot: u64,
    count: usize,
    bytes: Bytes,
}

/// The captured slots in ring order.
struct Ring {
    runs: Vec<Run>,
    held: u64,
    wrapped: bool,
}

impl Ring {
    fn order(capture: &Capture, g: &Geometry, issues: &mut Vec<Issue>) -> Self {
        let entry = layout::entry_size(g.word);
        // Captured stretches of whole slots inside the ring.
        let mut parts: Vec<(u64, Bytes)> = Vec::new();
        for block in capture.blocks("ring") {
            let first = g.slot_of(block.address);
            let room = g.capacity.saturating_sub(first);
            let count = (block.bytes.len() as u64).checked_div(entry as u64).unwrap_or(0).min(room);
            if let Some(bytes) = block.bytes.cut(0, g.bytes(count)).filter(|_| count > 0) {
                parts.push((first, bytes));
            }
        }
        parts.sort_by_key(|(first, _)| *first);
        let context = |slot: u64| -> Option<u64> {
            let (first, bytes) = parts.iter().rev().find(|(first, _)| *first <= slot)?;
            let offset = g.bytes(slot.checked_sub(*first)?);
            g.endian.word(g.word, bytes, offset)
        };
        let current = g.current.unwrap_or_else(|| recover(&parts, g, issues));
        let wrapped = match context(current) {
            Some(word) => word != 0,
            None => {
                issues.push(Issue::new(
                    "wrap-unknown",
                    Severity::Inferred,
                    "the slot at the current pointer cannot be read: the ring is taken to have wrapped",
                ));
                true
            }
        };
        let held = if wrapped { g.capacity } else { current };
        // Which sequence numbers were asked for.
        let from = match capture.extent {
            Extent::All => 0,
            _ if g.current.is_none() => 0,
            Extent::Newest(n) => held.saturating_sub(n),
            Extent::Nothing => held,
        };
        let mut runs: Vec<Run> = Vec::new();
        for (first, bytes) in &parts {
            let count = (bytes.len() as u64).checked_div(entry as u64).unwrap_or(0);
            let end = first.saturating_add(count);
            // Cut where ring order starts over, and keep what is asked for.
            for (low, high) in [(*first, end.min(current)), ((*first).max(current), end)] {
                if low >= high || (!wrapped && low >= current) {
                    continue;
                }
                let seq = g.seq(low, current, wrapped);
                let skip = from.saturating_sub(seq).min(high.saturating_sub(low));
                let (low, seq) = (low.saturating_add(skip), seq.saturating_add(skip));
                let (offset, len) = (g.bytes(low.saturating_sub(*first)), g.bytes(high.saturating_sub(low)));
                if let Some(cut) = bytes.cut(offset, len).filter(|c| !c.is_empty()) {
                    let count = cut.len().checked_div(entry).unwrap_or(0);
                    runs.push(Run { first_seq: seq, first_slot: low, count, bytes: cut });
                }
            }
        }
        runs.sort_by_key(|r| r.first_seq);
        Self { runs, held, wrapped }
    }

    /// The sequence number of the first event, `skipped` unused slots into what was captured.
    fn first_seq(&self, skipped: u64) -> u64 {
        let mut skipped = skipped;
        for run in &self.runs {
            let count = run.count as u64;
            if skipped < count {
                return run.first_seq.saturating_add(skipped);
            }
            skipped = skipped.saturating_sub(count);
        }
        self.held
    }
}

/// Without a current pointer the oldest event is the one behind the largest step of the clock: all others follow each
/// other closely.
fn recover(parts: &[(u64, Bytes)], g: &Geometry, issues: &mut Vec<Issue>) -> u64 {
    let entry = layout::entry_size(g.word);
    let mut votes = Votes::default();
    let (mut steps, mut previous, mut unused) = (Vec::new(), None, None);
    for (first, bytes) in parts {
        for (i, slot) in bytes.chunks_exact(entry).enumerate() {
            let number = first.saturating_add(i as u64);
            if g.endian.word(g.word, slot, 0) == Some(0) {
                unused = unused.or(Some(number));
                continue;
            }
            let stamp = stamp_of(slot, g) & g.time_mask;
            if let Some(before) = previous {
                votes.count(before, stamp);
                steps.push((number, before, stamp));
            }
            previous = Some(stamp);
        }
    }
    if let Some(slot) = unused {
        return slot;
    }
    let clock = Clock {
        mask: g.time_mask,
        direction: votes.direction().0,
        direction_known: Known::Detected,
        period: None,
        hz: None,
        runs: true,
        reason: String::new(),
    };
    let largest = steps.iter().map(|&(slot, a, b)| (clock.step(a, b), slot)).max();
    // Back from the last slot to the first one is a step too.
    let ends = steps.first().zip(steps.last()).map(|(a, z)| clock.step(z.2, a.1));
    match (largest, ends) {
        (Some((step, slot)), Some(around)) if step > around => slot,
        (None, _) if previous.is_none() => {
            issues.push(Issue::new("order-unknown", Severity::Inferred, "no event tells where the ring begins"));
            0
        }
        _ => 0,
    }
}

fn stamp_of(slot: &[u8], g: &Geometry) -> u64 {
    g.endian.word(g.word, slot, g.word.bytes().saturating_mul(3)).unwrap_or(0)
}

/// Which way consecutive stamps go.
#[derive(Default)]
struct Votes {
    up: u64,
    down: u64,
}

impl Votes {
    fn count(&mut self, before: u64, now: u64) {
        match now.cmp(&before) {
            std::cmp::Ordering::Greater => self.up = self.up.saturating_add(1),
            std::cmp::Ordering::Less => self.down = self.down.saturating_add(1),
            std::cmp::Ordering::Equal => {}
        }
    }

    fn direction(&self) -> (Direction, bool) {
        if self.down > self.up { (Direction::Down, true) } else { (Direction::Up, self.up != self.down) }
    }
}

/// What one pass over the captured slots tells.
struct Survey {
    contexts: Contexts,
    events: u64,
    unused: u64,
    skipped_front: u64,
    first_unused: Option<u64>,
    votes: Votes,
    marks_threshold: bool,
    marks_interrupted: bool,
    has_threads: bool,
}

impl Survey {
    fn of(ring: &Ring, g: &Geometry) -> Self {
        let mut this = Self {
            contexts: Contexts::default(),
            events: 0,
            unused: 0,
            skipped_front: 0,
            first_unused: None,
            votes: Votes::default(),
            marks_threshold: false,
            marks_interrupted: false,
            has_threads: false,
        };
        // Idle and ISR are always there: an ISR event may name idle as what it interrupted.
        this.contexts.intern(ContextKind::Isr, CONTEXT_ISR);
        let (mut last_word, mut previous) = (None, None);
        for run in &ring.runs {
            for (i, slot) in run.bytes.chunks_exact(layout::entry_size(g.word)).enumerate() {
                let Some((context, priority, stamp)) = g
                    .endian
                    .word(g.word, slot, 0)
                    .zip(g.endian.word(g.word, slot, g.word.bytes()))
                    .map(|(c, p)| (c, p, stamp_of(slot, g) & g.time_mask))
                else {
                    continue;
                };
                if context == 0 {
                    if this.events == 0 {
                        this.skipped_front = this.skipped_front.saturating_add(1);
                    }
                    this.unused = this.unused.saturating_add(1);
                    this.first_unused = this.first_unused.or(Some(run.first_seq.saturating_add(i as u64)));
                    continue;
                }
                this.events = this.events.saturating_add(1);
                if let Some(before) = previous {
                    this.votes.count(before, stamp);
                }
                previous = Some(stamp);
                let kind = kind_of(context);
                match kind {
                    ContextKind::Isr => {
                        this.marks_interrupted |= priority != 0;
                        let what = if priority == 0 { ContextKind::Idle } else { ContextKind::Thread };
                        this.contexts.intern(what, priority);
                    }
                    ContextKind::Thread => {
                        this.has_threads = true;
                        this.marks_threshold |= priority & 0x8000_0000 != 0;
                    }
                    ContextKind::Init | ContextKind::Idle => {}
                }
                if last_word != Some(context) {
                    this.contexts.intern(kind, context);
                    last_word = Some(context);
                }
            }
        }
        this
    }
}

const fn kind_of(context: u64) -> ContextKind {
    match context {
        CONTEXT_ISR => ContextKind::Isr,
        CONTEXT_INIT => ContextKind::Init,
        _ => ContextKind::Thread,
    }
}

fn find_clock(survey: &Survey, g: &Geometry, options: &DecodeOptions, issues: &mut Vec<Issue>) -> Clock {
    let Votes { up, down } = survey.votes;
    let (voted, decided) = survey.votes.direction();
    let runs = up > 0 || down > 0 || survey.events < 2;
    let (direction, direction_known, reason) = match options.direction {
        Some(given) => (given, Known::Given, "given by --direction".to_owned()),
        None if decided => {
            (voted, Known::Detected, format!("{up} stamps are larger than the one before, {down} are smaller"))
        }
        None => (Direction::Up, Known::Assumed, "too few stamps differ to tell; up is the usual".to_owned()),
    };
    if options.direction.is_none() && !decided && survey.events > 1 {
        if runs {
            issues.push(Issue::new(
                "direction-unknown",
                Severity::Inferred,
                "too few stamps differ to tell which way the clock counts: up is taken (--direction down)",
            ));
        } else {
            issues.push(Issue::new(
                "clock-stopped",
                Severity::Note,
                "all time stamps are equal: the time source does not run, so no times are shown (Cortex-M: CYCCNT needs TRCENA in DEMCR, which a debugger sets and a product does not)",
            ));
        }
    }
    Clock { mask: g.time_mask, direction, direction_known, period: options.period, hz: options.hz, runs, reason }
}

/// Ids below this are found by indexing.
const DENSE_IDS: u32 = 2048;

/// The events of a capture, decoded as they are asked for.
struct Entries {
    runs: Vec<Run>,
    endian: Endian,
    word: Width,
    mask: u64,
    clock: Clock,
    stores_interrupted: bool,
    by_word: HashMap<(ContextKind, Addr), ContextId>,
    dense: Vec<Option<DefId>>,
    sparse: HashMap<u32, DefId>,
    count: u64,
}

impl Entries {
    fn def(&self, id: u32) -> Option<DefId> {
        match usize::try_from(id).ok().and_then(|i| self.dense.get(i)) {
            Some(def) => *def,
            None => self.sparse.get(&id).copied(),
        }
    }

    fn context(&self, kind: ContextKind, address: Addr) -> ContextId {
        self.by_word.get(&(kind, address)).copied().unwrap_or_default()
    }

    #[inline]
    fn words(&self, slot: &[u8]) -> [u64; ENTRY_WORDS] {
        let mut words = [0; ENTRY_WORDS];
        match (self.word, self.endian) {
            (Width::W4, Endian::Little) => {
                for (w, b) in words.iter_mut().zip(slot.chunks_exact(4)) {
                    *w = u64::from(u32::from_le_bytes(b.try_into().unwrap_or([0; 4])));
                }
            }
            (Width::W4, Endian::Big) => {
                for (w, b) in words.iter_mut().zip(slot.chunks_exact(4)) {
                    *w = u64::from(u32::from_be_bytes(b.try_into().unwrap_or([0; 4])));
                }
            }
            (Width::W8, Endian::Little) => {
                for (w, b) in words.iter_mut().zip(slot.chunks_exact(8)) {
                    *w = u64::from_le_bytes(b.try_into().unwrap_or([0; 8]));
                }
            }
            (Width::W8, Endian::Big) => {
                for (w, b) in words.iter_mut().zip(slot.chunks_exact(8)) {
                    *w = u64::from_be_bytes(b.try_into().unwrap_or([0; 8]));
                }
            }
        }
        words
    }
}

/// The last context of each kind: nearly every event has one of them.
#[derive(Default)]
struct Recent {
    thread: Option<(Addr, ContextId)>,
    interrupted: Option<(Addr, ContextId)>,
}

impl Events for Entries {
    fn count(&self) -> u64 {
        self.count
    }

    fn fill(&self, _index: u64, state: &mut WalkState, out: &mut [Event]) -> usize {
        let size = layout::entry_size(self.word);
        let mut recent = Recent::default();
        let mut filled = 0usize;
        let mut clock = state.cores.first().copied().unwrap_or_default();
        while let Some(run) = self.runs.get(state.place.0) {
            let start = state.place.1.saturating_mul(size);
            let rest = run.bytes.as_slice().get(start..).unwrap_or(&[]);
            if rest.len() < size {
                state.place = (state.place.0.saturating_add(1), 0);
                continue;
            }
            for slot in rest.chunks_exact(size) {
                let Some(place) = out.get_mut(filled) else { break };
                let position = state.place.1 as u64;
                state.place.1 = state.place.1.saturating_add(1);
                let words = self.words(slot);
                if words[0] == 0 {
                    continue;
                }
                *place = self.event(words, run, position, &mut clock, &mut recent);
                filled = filled.saturating_add(1);
            }
            if filled == out.len() {
                break;
            }
        }
        state.ticks = clock.ticks;
        state.cores.clear();
        state.cores.push(clock);
        filled
    }
}

impl Entries {
    #[inline]
    fn event(
        &self,
        words: [u64; ENTRY_WORDS],
        run: &Run,
        position: u64,
        clock: &mut CoreClock,
        recent: &mut Recent,
    ) -> Event {
        let [context, priority, id, stamp, i1, i2, i3, i4] = words;
        let stamp = stamp & self.mask;
        let delta = clock.seen.then(|| i64::try_from(self.clock.step(clock.stamp, stamp)).unwrap_or(i64::MAX));
        clock.ticks = clock.ticks.saturating_add(delta.unwrap_or(0));
        clock.seen = true;
        clock.stamp = stamp;
        let kind = kind_of(context);
        let mut event = Event {
            seq: run.first_seq.wrapping_add(position),
            slot: run.first_slot.wrapping_add(position),
            ticks: clock.ticks,
            delta,
            stamp: Some(stamp),
            core: 0,
            context: ContextId::default(),
            priority: None,
            threshold: None,
            interrupted: None,
            isr: None,
            // An id is never wider than 32 bits; a damaged 64-bit slot shows its low half and keeps no definition.
            id: u32::try_from(id & 0xFFFF_FFFF).unwrap_or(u32::MAX),
            def: None,
            words: Words::four([i1, i2, i3, i4]),
            doubtful: 0,
        };
        event.def = self.def(event.id);
        event.context = match kind {
            ContextKind::Thread => {
                let marked = priority & 0x8000_0000 != 0;
                event.priority = u16::try_from(priority & 0x3FF).ok();
                event.threshold = marked.then(|| u16::try_from((priority >> 16) & 0x3FF).unwrap_or(0));
                cached(&mut recent.thread, context, || self.context(kind, context))
            }
            ContextKind::Isr => {
                if self.stores_interrupted {
                    let what = if priority == 0 { ContextKind::Idle } else { ContextKind::Thread };
                    event.interrupted =
                        Some(cached(&mut recent.interrupted, priority, || self.context(what, priority)));
                }
                self.context(kind, context)
            }
            ContextKind::Init | ContextKind::Idle => self.context(kind, context),
        };
        event
    }
}

#[inline]
fn cached(recent: &mut Option<(Addr, ContextId)>, address: Addr, find: impl FnOnce() -> ContextId) -> ContextId {
    match recent {
        Some((a, id)) if *a == address => *id,
        _ => {
            let id = find();
            *recent = Some((address, id));
            id
        }
    }
}
