//! Meaning: captured bytes to a trace. Pure.

use super::super::DecodeOptions;
use super::index::{Entry, Index, Meaning, event_id};
use super::read::Capture;
use super::time::{self, Back};
use super::{format_string, info};
use crate::abi::Addr;
use crate::catalogue::Catalogue;
use crate::trace::{About, Clock, CoreClock, Event, Events, Extra, ObjectTable, Trace, WalkState, Words};

/// Decodes a capture.
pub(super) fn decode(capture: &Capture, catalogue: &Catalogue, options: &DecodeOptions) -> Trace {
    let order = &capture.order;
    let mut issues = capture.issues.clone();
    let (mut index, contexts) = Index::of(capture, catalogue);
    info::add_issues(capture, &index, &mut issues);
    let mut clock = time::find(&index, options, &mut issues);
    let stamps: Vec<(u64, u64)> = index.stamps().collect();
    let back = time::back(&stamps, &clock, &mut issues);
    clock.doubts = back.len() as u64;
    let about = About {
        format: "uia",
        endian: capture.logger.endian,
        word: capture.word,
        pointer: capture.pointer,
        base: Some(capture.logger.base),
        capacity: (order.bytes.len() / 4) as u64,
        held: index.entries.len() as u64,
        empty: 0,
        wrapped: order.wrapped,
        origin: 0,
        cores: 1,
        facts: info::facts(capture, &index),
    };
    let gaps = std::mem::take(&mut index.gaps);
    let source = Source { index, clock: clock.clone(), back };
    let mut trace = Trace::new(about, clock, contexts, ObjectTable::default(), issues, Box::new(source));
    trace.gaps = gaps;
    trace
}

/// The events of a capture.
struct Source {
    index: Index,
    clock: Clock,
    back: Back,
}

impl Source {
    fn entry(&self, event: &Event) -> Option<&Entry> {
        self.index.entries.get(usize::try_from(event.seq).ok()?)
    }

    fn event(&self, seq: u64, entry: &Entry, clock: &mut CoreClock) -> Event {
        let record = &entry.record;
        let stamp = self.index.stamp(record);
        let before = clock.seen.then_some(clock.stamp);
        let delta = before.zip(stamp).map(|(before, stamp)| {
            let at = self.back.binary_search_by_key(&seq, |(n, _)| *n).ok();
            let back = at.and_then(|i| self.back.get(i)).map(|(_, ticks)| *ticks);
            back.unwrap_or_else(|| self.clock.step(before, stamp).cast_signed())
        });
        if let Some(stamp) = stamp {
            (clock.seen, clock.stamp) = (true, stamp);
        }
        // Stamps have up to 64 bits: only a sum that wraps leads back to the true time behind damaged ones.
        clock.ticks = clock.ticks.wrapping_add(delta.unwrap_or_default());
        let inline = || Words::few(&self.index.words(record)).unwrap_or_default();
        Event {
            seq,
            slot: self.index.order.slot(record.at),
            ticks: clock.ticks,
            delta,
            stamp,
            context: entry.context,
            interrupted: entry.interrupted,
            id: event_id(record.header.number, self.index.ids(record)),
            def: self.index.meaning(record).and_then(|m| m.def),
            words: entry.payload.map_or_else(inline, Words::spilled),
            ..Event::default()
        }
    }

    /// The event's text with its arguments in it.
    fn message(&self, event: &Event, meaning: &Meaning) -> Option<String> {
        let words = if event.words.is_spilled() { self.spilled(event) } else { event.words.inline() };
        let texts = &self.index.texts;
        if event.id == 0 {
            return Some(texts.say(texts.at(*words.first()?)?, words.get(1..)?));
        }
        Some(texts.say(meaning.format.as_deref()?, words))
    }
}

impl Events for Source {
    fn count(&self) -> u64 {
        self.index.entries.len() as u64
    }

    fn fill(&self, index: u64, state: &mut WalkState, out: &mut [Event]) -> usize {
        let entries = usize::try_from(index).ok().and_then(|start| self.index.entries.get(start..)).unwrap_or(&[]);
        let mut clock = state.cores.first().copied().unwrap_or_default();
        let filled = entries.len().min(out.len());
        for ((seq, entry), place) in (index..).zip(entries).zip(out) {
            *place = self.event(seq, entry, &mut clock);
        }
        state.ticks = clock.ticks;
        state.cores.clear();
        state.cores.push(clock);
        filled
    }

    fn spilled(&self, event: &Event) -> &[u64] {
        self.index.arena.get(event.words.spill)
    }

    fn text(&self, address: Addr) -> Option<&str> {
        self.index.texts.at(address)
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
        let meaning = self.index.meaning(&entry.record);
        each(Extra::Number(header.number.into()));
        each(Extra::Number(header.length.into()));
        each(number(header.previous.map(u64::from)));
        each(number(header.sequence.map(u64::from)));
        each(number(self.index.ids(&entry.record).map(|(_, module)| module.into())));
        each(meaning.and_then(|m| m.module.as_deref()).map_or(Extra::Null, Extra::Text));
        let message = meaning.and_then(|m| self.message(event, m));
        each(message.as_deref().map_or(Extra::Null, Extra::Text));
        let snapshot = self.index.snapshots.get(&event.seq);
        each(number(snapshot.map(|s| s.id)));
        each(snapshot.map_or(Extra::Null, |s| Extra::Hex(s.address)));
        each(number(snapshot.map(|s| s.bytes)));
        each(number(snapshot.map(|s| s.total)));
        each(number(snapshot.map(|s| s.records)));
    }

    fn asides(&self, event: &Event, each: &mut dyn FnMut(&str, &str)) {
        let Some(entry) = self.entry(event) else { return };
        let ids = self.index.ids(&entry.record);
        let Some(((id, module), meaning)) = ids.zip(self.index.meaning(&entry.record)) else { return };
        match &meaning.module {
            // The event's name says it already.
            Some(_) if meaning.named_after_module => {}
            // A package is long, and the same for many.
            Some(name) => each("module", name.rsplit('.').next().unwrap_or(name)),
            None => each("module", &format!("{module:#x}")),
        }
        if meaning.format.as_deref().map_or(id == 0, format_string::takes_strings)
            && let Some(message) = self.message(event, meaning)
        {
            each("says", &message);
        }
        if let Some(s) = self.index.snapshots.get(&event.seq) {
            each("snapshot", &s.id.to_string());
            each("bytes", &s.bytes.to_string());
            each("of", &format!("{:#x}", s.address));
        }
    }
}
