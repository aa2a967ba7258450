//! Meaning: captured bytes to a trace. Pure.

use std::collections::{HashMap, HashSet};

use super::super::DecodeOptions;
use super::about::Tally;
use super::read::Capture;
use super::ring::{Order, Record};
use super::text::{self, Tables, Texts};
use super::time::{self, Back};
use super::{FIRST_RAW, about, record};
use crate::abi::{Addr, Endian, Width};
use crate::catalogue::{ArgKind, Catalogue, Effect, Effects, EventDef, FieldDef, Product, uia_events};
use crate::code::Code;
use crate::trace::{
    About, Clock, ContextId, ContextKind, Contexts, CoreClock, Counts, DefId, Direction, Event, Events, Extra, Issue,
    Known, ObjectTable, Trace, WalkState, Words,
};

/// No number.
const NONE: u32 = u32::MAX;
/// How deep interrupts are believed to interrupt each other.
const DEEPEST: usize = 64;

/// Puts the ids of this program's events beside the declared ones.
pub(super) fn catalogue_of(mut catalogue: Catalogue, capture: &Capture) -> Catalogue {
    if !matches!(capture.names, Tables::At { .. }) {
        return catalogue;
    }
    let texts = Texts::of(capture);
    let order = capture.order();
    let mut events: Vec<(u16, Vec<u16>)> = Vec::new();
    let mut places: HashMap<u16, usize> = HashMap::new();
    for r in &order.records {
        let Some((event, module)) = record::ids(&order.bytes, r, capture.logger.endian) else { continue };
        let place = *places.entry(event).or_insert(events.len());
        if place == events.len() {
            events.push((event, Vec::new()));
        }
        if let Some((_, modules)) = events.get_mut(place).filter(|(_, m)| !m.contains(&module) && m.len() < 64) {
            modules.push(module);
        }
    }
    for (event, modules) in events {
        let def = if event == 0 {
            Some(print_definition())
        } else {
            let modules: Vec<String> = modules.iter().filter_map(|m| texts.module(*m)).collect();
            texts.rope(event).map(|format| text::definition(event, &format, &modules))
        };
        let Some(mut def) = def else { continue };
        // A program can have one text under two ids; a declared event gets its real id.
        let taken = catalogue.named(&def.name).is_some_and(|old| old.id < FIRST_RAW || old.class != def.class);
        if taken {
            def.name = format!("{}_{event}", def.name);
        }
        catalogue.renumber(&def.name, def.id);
        catalogue.put(def);
    }
    catalogue
}

/// Id 0 is printed text: its first argument is the format string.
fn print_definition() -> EventDef {
    EventDef {
        id: 0,
        name: "Log.print".to_owned(),
        macro_name: String::new(),
        product: Product::User,
        class: "xdc.runtime.Log".to_owned(),
        fields: vec![Some(FieldDef::new("format", ArgKind::Str, None))],
        effects: Effects::mark(),
        late: 0,
        unused: false,
        label: String::new(),
    }
}

/// Decodes a capture.
pub(super) fn decode(capture: &Capture, catalogue: &Catalogue, options: &DecodeOptions) -> Trace {
    let (base, endian) = (capture.logger.base, capture.logger.endian);
    let order = capture.order();
    let mut issues = capture.issues.clone();
    let mut builder = Builder::new(capture, catalogue);
    builder.take(&order);
    about::complain(capture, &order, &builder.tally, base, &mut issues);
    let mut clock = find_clock(&order, endian, options, &mut issues);
    let stamps: Vec<(u64, u64)> = (0..)
        .zip(&builder.entries)
        .filter_map(|(seq, e)| Some((seq, record::stamp(&order.bytes, &e.record, endian)?)))
        .collect();
    let back = time::back(&stamps, &clock, &mut issues);
    clock.doubts = back.len() as u64;
    let about = About {
        format: "uia",
        endian,
        word: capture.word,
        pointer: capture.pointer,
        base: base,
        capacity: (order.bytes.len() / 4) as u64,
        held: builder.entries.len() as u64,
        empty: 0,
        wrapped: order.wrapped,
        origin: 0,
        cores: 1,
        facts: about::facts(capture, &order, builder.tally.events, base),
    };
    let Builder { entries, arena, spans, snapshots, contexts, texts, modules, formats, defs, named_after, .. } =
        builder;
    let source = Source {
        order,
        endian,
        word: capture.word,
        entries,
        arena,
        spans,
        snapshots,
        clock: clock.clone(),
        back,
        defs,
        texts,
        modules,
        formats,
        named_after,
    };
    Trace::new(about, clock, contexts, ObjectTable::default(), issues, Box::new(source))
}

/// One event of the index.
#[derive(Debug, Clone, Copy)]
struct Entry {
    record: Record,
    context: ContextId,
    interrupted: u32,
    /// Its place in the arena, where its words do not fit into an event.
    span: u32,
}

/// A snapshot put together from its records.
#[derive(Debug, Clone, Copy)]
struct Snapshot {
    id: u64,
    address: u64,
    bytes: u64,
    total: u64,
    records: u64,
}

/// Builds the index: snapshots are put together, contexts followed, gaps counted.
struct Builder<'a> {
    catalogue: &'a Catalogue,
    endian: Endian,
    word: Width,
    entries: Vec<Entry>,
    arena: Vec<u64>,
    spans: Vec<(u32, u32)>,
    snapshots: HashMap<u32, Snapshot>,
    contexts: Contexts,
    running: ContextId,
    /// What interrupts interrupted, the outermost first.
    stack: Vec<ContextId>,
    texts: Texts,
    has_texts: bool,
    modules: HashMap<u16, String>,
    formats: HashMap<u16, String>,
    defs: HashMap<u32, Option<DefId>>,
    named_after: HashSet<(u32, u16)>,
    /// Sequence number of the last record, and its bits.
    last: Option<(u16, u16)>,
    tally: Tally,
}

impl<'a> Builder<'a> {
    fn new(capture: &Capture, catalogue: &'a Catalogue) -> Self {
        Self {
            catalogue,
            endian: capture.logger.endian,
            word: capture.word,
            entries: Vec::new(),
            arena: Vec::new(),
            spans: Vec::new(),
            snapshots: HashMap::new(),
            contexts: Contexts::default(),
            running: ContextId(NONE),
            stack: Vec::new(),
            texts: Texts::of(capture),
            has_texts: matches!(capture.names, Tables::At { .. }),
            modules: HashMap::new(),
            formats: HashMap::new(),
            defs: HashMap::new(),
            named_after: HashSet::new(),
            last: None,
            tally: Tally::default(),
        }
    }

    fn take(&mut self, order: &Order) {
        let mut records = order.records.iter().peekable();
        while let Some(first) = records.next() {
            self.count(first);
            let mut words = record::words(&order.bytes, first, self.endian, self.word);
            if let Some(part) = record::part(first, &words) {
                let ids = record::ids(&order.bytes, first, self.endian);
                let mut all =
                    Snapshot { id: part.id, address: part.address, bytes: part.here, total: part.total, records: 1 };
                while all.bytes < all.total
                    && let Some(next) = records.peek()
                    && next.header.number == first.header.number
                    && record::ids(&order.bytes, next, self.endian) == ids
                {
                    let more = record::words(&order.bytes, next, self.endian, self.word);
                    let Some(other) = record::part(next, &more) else { break };
                    if other.id != part.id || other.total != part.total || next.overwritten > 0 {
                        break;
                    }
                    self.count(next);
                    words.extend(more.get(record::SNAPSHOT_WORDS..).unwrap_or(&[]));
                    all.bytes = all.bytes.saturating_add(other.here);
                    all.records = all.records.saturating_add(1);
                    records.next();
                }
                self.tally.overwritten = self.tally.overwritten.saturating_add(first.overwritten.into());
                self.tally.incomplete = self.tally.incomplete.saturating_add(u64::from(all.bytes < all.total));
                if let Ok(number) = u32::try_from(self.entries.len()) {
                    self.snapshots.insert(number, all);
                }
            }
            self.put(order, first, &words);
        }
    }

    /// Counts the numbers that are missing before a record.
    fn count(&mut self, record: &Record) {
        let Some(sequence) = record.header.sequence else {
            self.last = None;
            return;
        };
        let mask = record.header.sequence_mask();
        if let Some((last, bits)) = self.last.filter(|(_, bits)| *bits == mask) {
            let here = record.overwritten.saturating_add(1);
            let missing = sequence.wrapping_sub(last).wrapping_sub(here) & bits;
            self.tally.gaps = self.tally.gaps.saturating_add(missing.into());
            if missing > 0 {
                self.tally.first_gap = self.tally.first_gap.or(Some(self.entries.len() as u64));
            }
        }
        self.last = Some((sequence, mask));
    }

    fn put(&mut self, order: &Order, record: &Record, words: &[u64]) {
        let ids = record::ids(&order.bytes, record, self.endian);
        let id = event_id(record, ids);
        let catalogue = self.catalogue;
        let def = *self.defs.entry(id).or_insert_with(|| catalogue.find(id));
        if let Some((event, module)) = ids {
            let texts = &self.texts;
            if let std::collections::hash_map::Entry::Vacant(place) = self.modules.entry(module)
                && let Some(name) = texts.module(module)
            {
                place.insert(name);
            }
            let class = def.and_then(|d| catalogue.def(d)).filter(|d| d.name.contains('.')).map(|d| &d.class);
            if class.is_some() && self.modules.get(&module) == class {
                self.named_after.insert((id, module));
            }
            if let std::collections::hash_map::Entry::Vacant(place) = self.formats.entry(event)
                && event != 0
                && let Some(format) = texts.rope(event)
            {
                place.insert(format);
            }
        }
        let span = if Words::few(words).is_some() {
            NONE
        } else {
            let span = u32::try_from(self.arena.len()).ok().zip(u32::try_from(words.len()).ok());
            self.arena.extend_from_slice(words);
            let number = u32::try_from(self.spans.len()).unwrap_or(NONE);
            self.spans.push(span.unwrap_or((0, 0)));
            number
        };
        let known = def.and_then(|d| catalogue.def(d));
        // One whose text is lost may be an interrupt's first, or switch to another task.
        if known.is_none() || ids.is_some_and(|(_, module)| self.is_unnamed(known, module)) {
            self.running = ContextId(NONE);
            self.stack.clear();
        }
        let (context, interrupted) = self.follow(known, words);
        self.entries.push(Entry { record: *record, context, interrupted, span });
        self.tally.events = self.entries.len();
        self.tally.five_bits |= record.header.kind().chained;
    }

    /// True for an event of TI's own modules that has none of their names, and for one whose module has lost its own.
    fn is_unnamed(&self, def: Option<&EventDef>, id: u16) -> bool {
        let Some(def) = def else { return false };
        let Some(module) = self.modules.get(&id) else { return self.has_texts && id != 0 && !def.name.contains('.') };
        let declared = || uia_events().iter().filter(|d| d.module == module);
        let called = |name: &str| def.name.starts_with(name);
        // Those that differ in nothing but their names are called by the module.
        let short = module.rsplit('.').next().unwrap_or(module);
        declared().next().is_some() && !called(short) && !declared().any(|d| called(&d.def.name))
    }

    /// Who inserts the event, as far as the events before it tell, and who runs after it.
    fn follow(&mut self, def: Option<&EventDef>, words: &[u64]) -> (ContextId, u32) {
        let Some(def) = def else { return self.here() };
        let on = |effect| def.effects.iter().find(|(e, _)| *e == effect).map(|(_, w)| w.and_then(|w| words.get(w)));
        if let Some(Some(next)) = on(Effect::Run) {
            let names = def.field(0).is_some_and(|f| f.kind == ArgKind::ThreadPtr);
            if let Some(old) = words.first().filter(|w| names && *w != next && **w != 0) {
                self.switch_from(*old);
            }
            let here = self.here();
            let new = if *next == 0 { ContextKind::Idle } else { ContextKind::Thread };
            let new = self.contexts.intern(new, *next);
            match self.stack.first_mut() {
                // An interrupt switches tasks when it ends.
                Some(bottom) => *bottom = new,
                None => self.running = new,
            }
            return here;
        }
        if let Some(word) = on(Effect::IsrEnter) {
            let isr = self.contexts.intern(ContextKind::Isr, word.copied().unwrap_or(0));
            // No interrupt interrupts itself.
            self.agree(self.running != isr && !self.stack.contains(&isr));
            if self.stack.len() < DEEPEST {
                self.stack.push(self.running);
            }
            self.running = isr;
            return self.here();
        }
        let here = self.here();
        if let Some(word) = on(Effect::IsrExit) {
            let ends = word.map(|w| self.contexts.intern(ContextKind::Isr, *w));
            self.agree(self.running.0 == NONE || ends.is_none_or(|isr| isr == self.running));
            self.running = self.stack.pop().unwrap_or(ContextId(NONE));
        }
        here
    }

    /// Who is switched from is still the one that runs, whoever ran by the events before.
    fn switch_from(&mut self, old: u64) {
        let old = self.contexts.intern(ContextKind::Thread, old);
        let runs = self.stack.first().copied().unwrap_or(self.running);
        self.agree(runs.0 == NONE || runs == old);
        if self.stack.is_empty() {
            self.running = old;
        }
    }

    /// Counts an event that contradicts those before it.
    fn agree(&mut self, agrees: bool) {
        if !agrees {
            self.tally.contradicting = self.tally.contradicting.saturating_add(1);
            self.tally.first_contradicting = self.tally.first_contradicting.or(Some(self.entries.len() as u64));
        }
    }

    fn here(&self) -> (ContextId, u32) {
        (self.running, self.stack.last().map_or(NONE, |c| c.0))
    }
}

/// The id of an event: the program's own, or one of ours where the record's layout is not public.
fn event_id(record: &Record, ids: Option<(u16, u16)>) -> u32 {
    ids.map_or_else(|| FIRST_RAW.saturating_add(record.header.number.into()), |(event, _)| event.into())
}

fn find_clock(order: &Order, endian: Endian, options: &DecodeOptions, issues: &mut Vec<Issue>) -> Clock {
    let (mut up, mut down, mut stamps, mut wide) = (0u64, 0u64, 0u64, 0u64);
    let mut before = None;
    for r in &order.records {
        let Some(stamp) = record::stamp(&order.bytes, r, endian) else { continue };
        wide = wide.saturating_add(u64::from(r.header.kind().stamp == Some(8)));
        stamps = stamps.saturating_add(1);
        match before.map(|b| stamp.cmp(&b)) {
            Some(std::cmp::Ordering::Greater) => up = up.saturating_add(1),
            Some(std::cmp::Ordering::Less) => down = down.saturating_add(1),
            _ => {}
        }
        before = Some(stamp);
    }
    let runs = up > 0 || down > 0 || stamps == 1;
    let (direction, direction_known, reason) = match options.direction {
        Some(given) => (given, Known::Given, "given by --direction".to_owned()),
        None if up == down => {
            (Direction::Up, Known::Assumed, "too few stamps differ to tell; up is the usual".to_owned())
        }
        None => {
            let way = if down > up { Direction::Down } else { Direction::Up };
            (way, Known::Detected, format!("{up} stamps are larger than the one before, {down} are smaller"))
        }
    };
    if stamps == 0 && !order.records.is_empty() {
        issues.push(Issue::new(
            Code::NoStamps,
            "this logger was built without time stamps: the order of events is known, not their time",
        ));
    } else if !runs && stamps > 1 {
        issues.push(Issue::new(
            Code::ClockStopped,
            "all time stamps are equal: the time source does not run, so no times are shown",
        ));
    }
    // A logger writes stamps of one width: a few records of the other are none of its own.
    let mask = if wide > stamps / 2 { u64::MAX } else { Width::W4.max() };
    let counts = if runs { Counts::Time } else { Counts::Nothing };
    Clock { mask, direction, direction_known, period: options.period, hz: options.hz, counts, doubts: 0, reason }
}

/// The events of a capture.
struct Source {
    order: Order,
    endian: Endian,
    word: Width,
    entries: Vec<Entry>,
    arena: Vec<u64>,
    spans: Vec<(u32, u32)>,
    snapshots: HashMap<u32, Snapshot>,
    clock: Clock,
    back: Back,
    defs: HashMap<u32, Option<DefId>>,
    texts: Texts,
    modules: HashMap<u16, String>,
    formats: HashMap<u16, String>,
    /// Events with modules that their names begin with.
    named_after: HashSet<(u32, u16)>,
}

impl Source {
    fn entry(&self, event: &Event) -> Option<&Entry> {
        self.entries.get(usize::try_from(event.seq).ok()?)
    }

    fn event(&self, seq: u64, entry: &Entry, clock: &mut CoreClock) -> Event {
        let record = &entry.record;
        let stamp = record::stamp(&self.order.bytes, record, self.endian);
        let delta = stamp.filter(|_| clock.seen).map(|s| match self.back.binary_search_by_key(&seq, |(n, _)| *n) {
            Ok(i) => self.back.get(i).map_or(0, |(_, ticks)| *ticks),
            Err(_) => i64::try_from(self.clock.step(clock.stamp, s)).unwrap_or(i64::MAX),
        });
        clock.ticks = clock.ticks.saturating_add(delta.unwrap_or(0));
        if let Some(stamp) = stamp {
            clock.seen = true;
            clock.stamp = stamp;
        }
        let id = event_id(record, record::ids(&self.order.bytes, record, self.endian));
        let words = if entry.span == NONE {
            Words::few(&record::words(&self.order.bytes, record, self.endian, self.word)).unwrap_or_default()
        } else {
            Words::spilled(entry.span)
        };
        Event {
            seq,
            slot: self.order.slot(record.at),
            ticks: clock.ticks,
            delta,
            stamp,
            core: 0,
            context: entry.context,
            priority: None,
            threshold: None,
            interrupted: Some(ContextId(entry.interrupted)).filter(|c| c.0 != NONE),
            isr: None,
            id,
            def: self.defs.get(&id).copied().flatten(),
            words,
            doubtful: 0,
        }
    }

    /// The event's text with its arguments in it.
    fn message(&self, event: &Event, ids: Option<(u16, u16)>) -> Option<String> {
        let (id, _) = ids?;
        let words = if event.words.is_spilled() { self.spilled(event) } else { event.words.inline() };
        if id == 0 {
            let format = self.texts.at(*words.first()?)?;
            return Some(self.texts.say(format, words.get(1..)?));
        }
        Some(self.texts.say(self.formats.get(&id)?, words))
    }
}

impl Events for Source {
    fn count(&self) -> u64 {
        self.entries.len() as u64
    }

    fn fill(&self, index: u64, state: &mut WalkState, out: &mut [Event]) -> usize {
        let start = usize::try_from(index).unwrap_or(usize::MAX);
        let entries = self.entries.get(start..).unwrap_or(&[]);
        let mut clock = state.cores.first().copied().unwrap_or_default();
        let mut filled = 0usize;
        for ((seq, entry), place) in (index..).zip(entries).zip(out.iter_mut()) {
            *place = self.event(seq, entry, &mut clock);
            filled = filled.saturating_add(1);
        }
        state.ticks = clock.ticks;
        state.cores.clear();
        state.cores.push(clock);
        filled
    }

    fn spilled(&self, event: &Event) -> &[u64] {
        let span = usize::try_from(event.words.spill).ok().and_then(|s| self.spans.get(s)).copied();
        let (start, len) = span.unwrap_or((0, 0));
        let start = usize::try_from(start).unwrap_or(usize::MAX);
        let end = start.saturating_add(usize::try_from(len).unwrap_or(0));
        self.arena.get(start..end).unwrap_or(&[])
    }

    fn text(&self, address: Addr) -> Option<&str> {
        self.texts.at(address)
    }

    fn extra_names(&self) -> &'static [&'static str] {
        &[
            "header_type",
            "length",
            "prev_length",
            "sequence",
            "module.id",
            "module.name",
            "message",
            "snapshot.id",
            "snapshot.address",
            "snapshot.bytes",
            "snapshot.total",
            "snapshot.records",
        ]
    }

    fn extras(&self, event: &Event, each: &mut dyn FnMut(Extra<'_>)) {
        let Some(entry) = self.entry(event) else { return };
        let number = |n: Option<u64>| n.map_or(Extra::Null, Extra::Number);
        let header = &entry.record.header;
        let ids = record::ids(&self.order.bytes, &entry.record, self.endian);
        each(Extra::Number(header.number.into()));
        each(Extra::Number(header.length.into()));
        each(number(header.previous.map(u64::from)));
        each(number(header.sequence.map(u64::from)));
        each(number(ids.map(|(_, module)| module.into())));
        each(ids.and_then(|(_, m)| self.modules.get(&m)).map_or(Extra::Null, |n| Extra::Text(n)));
        let message = self.message(event, ids);
        each(message.as_deref().map_or(Extra::Null, Extra::Text));
        let snapshot = u32::try_from(event.seq).ok().and_then(|n| self.snapshots.get(&n));
        each(number(snapshot.map(|s| s.id)));
        each(snapshot.map_or(Extra::Null, |s| Extra::Hex(s.address)));
        each(number(snapshot.map(|s| s.bytes)));
        each(number(snapshot.map(|s| s.total)));
        each(number(snapshot.map(|s| s.records)));
    }

    fn asides(&self, event: &Event, each: &mut dyn FnMut(&str, &str)) {
        let Some(entry) = self.entry(event) else { return };
        let Some((_, module)) = record::ids(&self.order.bytes, &entry.record, self.endian) else { return };
        match self.modules.get(&module) {
            // The event's name tells it already.
            Some(_) if self.named_after.contains(&(event.id, module)) => {}
            // A package is long, and the same for many.
            Some(name) => each("module", name.rsplit('.').next().unwrap_or(name)),
            None => each("module", &format!("{module:#x}")),
        }
        let ids = record::ids(&self.order.bytes, &entry.record, self.endian);
        if ids.is_some_and(|(id, _)| self.formats.get(&id).map_or(id == 0, |f| text::points(f)))
            && let Some(message) = self.message(event, ids)
        {
            each("says", &message);
        }
        if let Some(s) = u32::try_from(event.seq).ok().and_then(|n| self.snapshots.get(&n)) {
            each("snapshot", &s.id.to_string());
            each("bytes", &s.bytes.to_string());
            each("of", &format!("{:#x}", s.address));
        }
    }
}
