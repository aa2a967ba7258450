//! The index of events: snapshots are put together, who runs is followed, missing numbers are counted.

#![expect(clippy::arithmetic_side_effects, reason = "counts the records of a buffer that it holds")]

use std::collections::HashMap;
use std::sync::Arc;

use super::super::arena::Arena;
use super::super::running::{NO_CONTEXT, Running};
use super::FIRST_RAW;
use super::order::Order;
use super::read::Capture;
use super::record::{Record, SNAPSHOT_WORDS};
use super::text::Texts;
use crate::abi::{Endian, Width};
use crate::catalogue::{ArgKind, Catalogue, Effect, EventDef, uia_events};
use crate::trace::{ContextId, ContextKind, Contexts, DefId, Words};

/// One event.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub record: Record,
    pub context: ContextId,
    pub interrupted: Option<ContextId>,
    /// Its place in the arena, where its words do not fit into an event.
    pub payload: Option<u32>,
}

/// A snapshot put together from its records.
#[derive(Debug, Clone, Copy)]
pub(super) struct Snapshot {
    pub id: u64,
    pub address: u64,
    pub bytes: u64,
    pub total: u64,
    pub records: u64,
}

/// What the ids of an event say.
#[derive(Debug, Clone)]
pub(super) struct Meaning {
    pub def: Option<DefId>,
    /// The name of its module.
    pub module: Option<String>,
    /// Its format string.
    pub format: Option<String>,
    /// True where its name begins with that of its module.
    pub named_after_module: bool,
    /// True where it is of one of TI's own modules and has none of their names, or its module has lost its own.
    pub unnamed: bool,
}

/// What was counted while the records were put in order.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Numbers that are missing between records.
    pub gaps: u64,
    /// The first event after such a gap.
    pub first_gap: Option<u64>,
    /// True where sequence numbers have five bits.
    pub five_bits: bool,
    /// Records of snapshots that their logger overwrote.
    pub overwritten: u64,
    /// Events that contradict those before them in who runs.
    pub contradicting: u64,
    /// The first of them.
    pub first_contradicting: Option<u64>,
    /// Snapshots with less data than they state.
    pub incomplete: u64,
    /// Events that end before the argument that names the task or interrupt.
    pub cut_short: u64,
    /// The first of them.
    pub first_cut_short: Option<u64>,
}

/// Event and module; `None` where the record's layout is not public.
pub(super) type Ids = Option<(u16, u16)>;

/// The events of a capture.
pub(super) struct Index {
    pub order: Arc<Order>,
    pub texts: Arc<Texts>,
    endian: Endian,
    word: Width,
    pub entries: Vec<Entry>,
    pub arena: Arena,
    /// By number of the event.
    pub snapshots: HashMap<u64, Snapshot>,
    /// By header type and ids.
    meanings: HashMap<(u8, Ids), Meaning>,
    pub tally: Tally,
    /// Events before which others are missing.
    pub gaps: Vec<u64>,
}

impl Index {
    /// Makes the index of a capture, and the contexts of its events.
    pub fn of(capture: &Capture, catalogue: &Catalogue) -> (Self, Contexts) {
        let index = Self {
            order: Arc::clone(&capture.order),
            texts: Arc::clone(&capture.texts),
            endian: capture.logger.endian,
            word: capture.word,
            entries: Vec::new(),
            arena: Arena::default(),
            snapshots: HashMap::new(),
            meanings: HashMap::new(),
            tally: Tally::default(),
            gaps: Vec::new(),
        };
        let mut builder =
            Builder { catalogue, index, contexts: Contexts::default(), core: Running::default(), last: None };
        builder.take(&capture.order);
        (builder.index, builder.contexts)
    }

    pub fn ids(&self, record: &Record) -> Ids {
        record.ids(&self.order.bytes, self.endian)
    }

    pub fn stamp(&self, record: &Record) -> Option<u64> {
        record.stamp(&self.order.bytes, self.endian)
    }

    pub fn words(&self, record: &Record) -> Vec<u64> {
        record.words(&self.order.bytes, self.endian, self.word)
    }

    /// The stamps with the numbers of their events.
    pub fn stamps(&self) -> impl Iterator<Item = (u64, u64)> {
        (0..).zip(&self.entries).filter_map(|(seq, e)| Some((seq, self.stamp(&e.record)?)))
    }

    pub fn meaning(&self, record: &Record) -> Option<&Meaning> {
        self.meanings.get(&(record.header.number, self.ids(record)))
    }
}

/// The id of an event: the program's own, or one of ours where the record's layout is not public.
pub(super) fn event_id(number: u8, ids: Ids) -> u32 {
    ids.map_or_else(|| FIRST_RAW | u32::from(number), |(event, _)| event.into())
}

struct Builder<'a> {
    catalogue: &'a Catalogue,
    index: Index,
    contexts: Contexts,
    core: Running,
    /// Sequence number of the last record, and its bits.
    last: Option<(u16, u16)>,
}

impl Builder<'_> {
    fn take(&mut self, order: &Order) {
        // Nothing is known before the first record anyway.
        let mut lost: Vec<usize> = order.lost.iter().map(|lost| lost.before).filter(|before| *before > 0).collect();
        lost.sort_unstable();
        let mut lost = lost.into_iter().peekable();
        let mut rest = order.records.as_slice();
        while let Some((first, behind)) = rest.split_first() {
            self.count(first);
            let mut words = self.index.words(first);
            let merged = self.snapshot(first, behind, &mut words);
            rest = behind.get(merged..).unwrap_or(&[]);
            let taken = order.records.len() - rest.len();
            while lost.next_if(|before| *before < taken).is_some() {
                self.lose();
            }
            self.put(first, &words);
        }
    }

    /// Events are missing before the next one: who runs is not known.
    fn lose(&mut self) {
        self.core = Running::default();
        self.note_gap();
    }

    fn note_gap(&mut self) {
        let next = self.index.entries.len() as u64;
        if self.index.gaps.last() != Some(&next) {
            self.index.gaps.push(next);
        }
    }

    /// Puts a snapshot together that begins with this record; how many of those after it are parts of it.
    fn snapshot(&mut self, first: &Record, behind: &[Record], words: &mut Vec<u64>) -> usize {
        let Some(part) = first.part(words) else { return 0 };
        let ids = self.index.ids(first);
        let (mut bytes, mut merged) = (part.here, 0usize);
        for next in behind {
            let more = self.index.words(next);
            let other = next.part(&more).filter(|other| (other.id, other.total) == (part.id, part.total));
            let alike = next.header.number == first.header.number && self.index.ids(next) == ids;
            let Some(other) = other.filter(|_| bytes < part.total && alike && next.overwritten == 0) else { break };
            self.count(next);
            words.extend(more.get(SNAPSHOT_WORDS..).unwrap_or(&[]));
            bytes += other.here;
            merged += 1;
        }
        let tally = &mut self.index.tally;
        tally.overwritten += u64::from(first.overwritten);
        tally.incomplete += u64::from(bytes < part.total);
        let records = merged as u64 + 1;
        let whole = Snapshot { id: part.id, address: part.address, bytes, total: part.total, records };
        self.index.snapshots.insert(self.index.entries.len() as u64, whole);
        merged
    }

    /// Counts the numbers that are missing before a record.
    fn count(&mut self, record: &Record) {
        let mask = record.header.sequence_mask();
        let before = std::mem::replace(&mut self.last, record.header.sequence.map(|s| (s, mask)));
        let Some(((last, bits), sequence)) = before.zip(record.header.sequence).filter(|((_, b), _)| *b == mask) else {
            return;
        };
        // Sequence numbers are a circle of 5 or 16 bits.
        let here = record.overwritten + 1;
        let missing = u32::from(sequence).wrapping_sub(last.into()).wrapping_sub(here) & u32::from(bits);
        let (seq, tally) = (self.index.entries.len() as u64, &mut self.index.tally);
        tally.gaps += u64::from(missing);
        if missing > 0 {
            tally.first_gap = tally.first_gap.or(Some(seq));
            self.lose();
        }
    }

    fn put(&mut self, record: &Record, words: &[u64]) {
        let (key, catalogue) = ((record.header.number, self.index.ids(record)), self.catalogue);
        if !self.index.meanings.contains_key(&key) {
            let meaning = self.meaning(key.0, key.1);
            self.index.meanings.insert(key, meaning);
        }
        let meaning = self.index.meanings.get(&key);
        let def = meaning.and_then(|m| catalogue.def(m.def?));
        // An event without its text may be the first of an interrupt, or switch to another task.
        if def.is_none() || meaning.is_some_and(|m| m.unnamed) {
            self.core = Running::default();
        }
        let (context, interrupted) = match def {
            Some(def) => self.follow(def, words),
            None => self.core.now(),
        };
        let payload = if Words::few(words).is_some() { None } else { self.index.arena.push(words) };
        let context = context.unwrap_or(NO_CONTEXT);
        self.index.entries.push(Entry { record: *record, context, interrupted, payload });
        self.index.tally.five_bits |= record.header.kind().chained;
    }

    fn meaning(&self, number: u8, ids: Ids) -> Meaning {
        let def = self.catalogue.find(event_id(number, ids));
        let known = def.and_then(|d| self.catalogue.def(d));
        let texts = &self.index.texts;
        let module = ids.and_then(|(_, module)| texts.module(module));
        let format = ids.filter(|(event, _)| *event != 0).and_then(|(event, _)| texts.rope(event));
        let class = known.filter(|d| d.name.contains('.')).map(|d| d.class.as_str());
        let named_after_module = class.is_some() && class == module.as_deref();
        let unnamed = known.zip(ids).is_some_and(|(def, (_, id))| self.is_unnamed(def, id, module.as_deref()));
        Meaning { def, module, format, named_after_module, unnamed }
    }

    /// True for an event of TI's own modules that has none of their names, and for one whose module has lost its own.
    fn is_unnamed(&self, def: &EventDef, id: u16, module: Option<&str>) -> bool {
        let Some(module) = module else { return self.index.texts.has_tables() && id != 0 && !def.name.contains('.') };
        let declared = || uia_events().iter().filter(|d| d.module == module);
        let called = |name: &str| def.name.starts_with(name);
        // Those that differ in nothing but their names are called by the module.
        let short = module.rsplit('.').next().unwrap_or(module);
        declared().next().is_some() && !called(short) && !declared().any(|d| called(&d.def.name))
    }

    /// The context that inserts the event, as far as the events before it show, and the one that it interrupted.
    fn follow(&mut self, def: &EventDef, words: &[u64]) -> (Option<ContextId>, Option<ContextId>) {
        let on = |effect| def.effects.word(effect).map(|word| words.get(word));
        if [Effect::Run, Effect::IsrEnter].into_iter().any(|effect| on(effect) == Some(None)) {
            // It does not say who runs from here on.
            self.core = Running::default();
            let (seq, tally) = (self.index.entries.len() as u64, &mut self.index.tally);
            tally.cut_short += 1;
            tally.first_cut_short = tally.first_cut_short.or(Some(seq));
            return (None, None);
        }
        if let Some(Some(next)) = on(Effect::Run) {
            let names = def.field(0).is_some_and(|f| f.kind == ArgKind::ThreadPtr);
            if let Some(old) = words.first().filter(|w| names && *w != next && **w != 0) {
                self.switch_from(*old);
            }
            let here = self.core.now();
            // An interrupt switches tasks when it ends.
            let new = if *next == 0 { ContextKind::Idle } else { ContextKind::Thread };
            self.core.thread = Some(self.contexts.intern(new, *next));
            return here;
        }
        if let Some(Some(number)) = on(Effect::IsrEnter) {
            let isr = self.contexts.intern(ContextKind::Isr, *number);
            // No interrupt interrupts itself.
            self.agree(!self.core.is_active(isr));
            self.core.enter(isr);
            return self.core.now();
        }
        let here = self.core.now();
        if def.effects.has(Effect::IsrExit) {
            let ends = on(Effect::IsrExit).flatten().map(|w| self.contexts.intern(ContextKind::Isr, *w));
            self.agree(here.0.is_none() || ends.is_none() || ends == here.0);
            self.core.leave();
        }
        here
    }

    /// The task that is switched from runs until here, whatever the events before it say.
    fn switch_from(&mut self, old: u64) {
        let old = self.contexts.intern(ContextKind::Thread, old);
        self.agree(self.core.thread.is_none_or(|runs| runs == old));
        if !self.core.is_interrupted() {
            self.core.thread = Some(old);
        }
    }

    /// Counts an event that contradicts those before it.
    fn agree(&mut self, agrees: bool) {
        if !agrees {
            let (seq, tally) = (self.index.entries.len() as u64, &mut self.index.tally);
            tally.contradicting += 1;
            tally.first_contradicting = tally.first_contradicting.or(Some(seq));
            self.note_gap();
        }
    }
}
