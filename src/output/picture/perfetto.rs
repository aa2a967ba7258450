//! Perfetto's trace format: protocol buffers, made by hand. Field numbers are those of Perfetto's published `.proto` files
//! (`trace_packet`, `track_descriptor`, `track_event`, `interned_data`, `debug_annotation`, `counter_descriptor`).

use std::collections::HashMap;
use std::io::{self, Write};

use super::proto::Message;
use super::words::{Field, Words};
use super::{Time, rows};
use crate::output::View;
use crate::timeline::{Counter, Doubt, Gap, Instant, Level, Measure, Scene, Sink, Slice, TrackId};

/// Fields of a packet.
mod packet {
    pub(super) const TIMESTAMP: u32 = 8;
    pub(super) const SEQUENCE: u32 = 10;
    pub(super) const TRACK_EVENT: u32 = 11;
    pub(super) const INTERNED: u32 = 12;
    pub(super) const FLAGS: u32 = 13;
    pub(super) const TRACK: u32 = 60;
    /// Names are known from nothing on; a packet needs those before it.
    pub(super) const CLEARED: u64 = 1;
    pub(super) const NEEDS: u64 = 2;
}

/// Fields of the descriptor of a track, and of a counter.
mod track {
    pub(super) const UUID: u32 = 1;
    pub(super) const NAME: u32 = 2;
    pub(super) const PARENT: u32 = 5;
    pub(super) const COUNTER: u32 = 8;
    pub(super) const ORDER: u32 = 11;
    pub(super) const RANK: u32 = 12;
    /// Children are in the order of their ranks.
    pub(super) const EXPLICIT: u64 = 3;
    pub(super) const UNIT: u32 = 3;
    pub(super) const COUNT: u64 = 2;
    pub(super) const BYTES: u64 = 3;
}

/// Fields of an event of a track, and of its annotations.
mod event {
    pub(super) const CATEGORY_IID: u32 = 3;
    pub(super) const ANNOTATION: u32 = 4;
    pub(super) const TYPE: u32 = 9;
    pub(super) const NAME_IID: u32 = 10;
    pub(super) const TRACK: u32 = 11;
    pub(super) const COUNTER: u32 = 30;
    pub(super) const FLOW: u32 = 47;
    pub(super) const FLOW_END: u32 = 48;
    pub(super) const BEGIN: u64 = 1;
    pub(super) const END: u64 = 2;
    pub(super) const INSTANT: u64 = 3;
    pub(super) const LEVEL: u64 = 4;
    pub(super) const A_NAME_IID: u32 = 1;
    pub(super) const A_INT: u32 = 4;
    pub(super) const A_TEXT_IID: u32 = 17;
}

/// Kinds of names that are sent once: their fields in the interned data.
const CATEGORIES: u32 = 1;
const NAMES: u32 = 2;
const FIELDS: u32 = 3;
const TEXTS: u32 = 29;

/// The most names that are remembered, and the longest: when there are more, all are sent again.
const MAX_NAMES: usize = 1 << 15;

/// The tracks that are no [`TrackId`].
const ROOT: u64 = 1;
const LEVELS: u64 = 2;
const LOST: u64 = 3;
const CLOCK: u64 = 4;
const FIRST: u64 = 1 << 8;
const COUNTERS: u64 = 1 << 40;
const MARKS: u64 = 1 << 41;
/// A rank after all others: ranks have 31 bits.
const LAST: u64 = 1 << 30;

/// Writes a file for Perfetto.
pub struct Perfetto<'v, W> {
    out: W,
    words: Words<'v>,
    time: Time,
    /// Numbers of names, by kind.
    names: HashMap<(u32, String), u64>,
    /// Those that the packet has to bring with it.
    fresh: Message,
    is_cleared: bool,
    packet: Message,
    body: Message,
    part: Message,
    has_gaps: [bool; 2],
}

fn uuid(id: TrackId) -> u64 {
    FIRST.wrapping_add(u64::from(id.0))
}

impl<'v, W: Write> Perfetto<'v, W> {
    /// Writes to `out`.
    pub fn new(out: W, view: View<'v>) -> Self {
        Self {
            out,
            words: Words::new(view),
            time: Time { origin: 0, hz: None },
            names: HashMap::new(),
            fresh: Message::default(),
            is_cleared: true,
            packet: Message::default(),
            body: Message::default(),
            part: Message::default(),
            has_gaps: [false; 2],
        }
    }

    /// The number of a name; the packet that is being made brings it where it is new.
    fn name(&mut self, kind: u32, text: &str) -> u64 {
        let key = (kind, text.to_owned());
        if let Some(number) = self.names.get(&key) {
            return *number;
        }
        let number = (self.names.len() as u64).saturating_add(1);
        self.part.clear();
        self.part.number(1, number);
        self.part.text(2, text);
        self.fresh.message(kind, &self.part);
        self.names.insert(key, number);
        number
    }

    /// Forgets names where there are too many. Before a packet begins.
    fn make_room(&mut self) {
        if self.names.len() >= MAX_NAMES {
            self.names.clear();
            self.is_cleared = true;
        }
    }

    /// Writes the packet whose body is an event at these nanoseconds.
    fn put(&mut self, nanos: u64) -> io::Result<()> {
        self.packet.clear();
        self.packet.number(packet::TIMESTAMP, nanos);
        self.packet.number(packet::SEQUENCE, 1);
        let cleared = if std::mem::take(&mut self.is_cleared) { packet::CLEARED } else { 0 };
        self.packet.number(packet::FLAGS, packet::NEEDS | cleared);
        if !self.fresh.bytes().is_empty() {
            self.packet.message(packet::INTERNED, &self.fresh);
            self.fresh.clear();
        }
        self.packet.message(packet::TRACK_EVENT, &self.body);
        self.flush_packet()
    }

    fn flush_packet(&mut self) -> io::Result<()> {
        self.part.clear();
        self.part.message(1, &self.packet);
        self.out.write_all(self.part.bytes())
    }

    /// Begins the body of an event on a track.
    fn event(&mut self, kind: u64, track: u64) {
        self.body.clear();
        self.body.number(event::TYPE, kind);
        self.body.number(event::TRACK, track);
    }

    fn named(&mut self, kind: u64, track: u64, category: &str, name: &str) {
        self.make_room();
        self.event(kind, track);
        let (category, name) = (self.name(CATEGORIES, category), self.name(NAMES, name));
        self.body.number(event::CATEGORY_IID, category);
        self.body.number(event::NAME_IID, name);
    }

    fn fields(&mut self, fields: &[(String, Field)]) {
        for (name, value) in fields {
            let name = self.name(FIELDS, name);
            let text = match value {
                Field::Text(text) => Some(self.name(TEXTS, text)),
                Field::Number(_) => None,
            };
            self.part.clear();
            self.part.number(event::A_NAME_IID, name);
            match (value, text) {
                (Field::Number(n), _) => self.part.signed(event::A_INT, *n),
                (_, Some(text)) => self.part.number(event::A_TEXT_IID, text),
                _ => {}
            }
            self.body.message(event::ANNOTATION, &self.part);
        }
    }

    fn begin_and_end(&mut self, track: u64, from: i64, to: i64) -> io::Result<()> {
        self.put(self.time.nanos(from))?;
        self.event(event::END, track);
        self.put(self.time.nanos(to))
    }

    /// Describes a track. The root is no process: below one, Perfetto sorts by name whatever the ranks are.
    fn describe(&mut self, id: u64, name: &str, rank: u64, parent: Option<u64>) -> io::Result<()> {
        self.body.clear();
        self.body.number(track::UUID, id);
        self.body.text(track::NAME, name);
        if let Some(parent) = parent {
            self.body.number(track::PARENT, parent);
        }
        self.body.number(track::ORDER, track::EXPLICIT);
        self.body.number(track::RANK, rank);
        self.put_track()
    }

    fn put_track(&mut self) -> io::Result<()> {
        self.packet.clear();
        self.packet.number(packet::SEQUENCE, 1);
        self.packet.message(packet::TRACK, &self.body);
        self.flush_packet()
    }

    fn describe_counter(&mut self, id: u64, name: &str, counter: &Counter) -> io::Result<()> {
        self.body.clear();
        self.body.number(track::UUID, id);
        self.body.text(track::NAME, name);
        self.body.number(track::PARENT, LEVELS);
        self.part.clear();
        self.part.number(track::UNIT, if counter.measure == Measure::Stack { track::BYTES } else { track::COUNT });
        self.body.message(track::COUNTER, &self.part);
        self.put_track()
    }

    fn marks(&mut self, scene: &Scene<'_>) -> io::Result<()> {
        let rows = rows(scene.marks);
        for row in 0..rows.iter().max().map_or(0, |most| most.saturating_add(1)) {
            self.describe(MARKS.wrapping_add(u64::from(row)), "findings", u64::from(row), Some(ROOT))?;
        }
        for (mark, row) in scene.marks.iter().zip(rows) {
            let track = MARKS.wrapping_add(u64::from(row));
            let text = self.words.mark(scene, mark);
            self.named(event::BEGIN, track, "finding", &text);
            let seq = |seq: u64| Field::Number(i64::try_from(seq).unwrap_or(i64::MAX));
            let fields = [("from_event", mark.seq), ("to_event", mark.to_seq)];
            let fields: Vec<(String, Field)> =
                fields.into_iter().filter_map(|(name, at)| Some((name.to_owned(), seq(at?)))).collect();
            self.fields(&fields);
            self.begin_and_end(track, mark.from, mark.to)?;
        }
        Ok(())
    }
}

impl<W: Write> Sink for Perfetto<'_, W> {
    fn begin(&mut self, scene: &Scene<'_>) -> io::Result<()> {
        self.time = Time::of(scene);
        let title = format!("{}; {}", self.words.title(), self.time.sentence());
        self.describe(ROOT, &title, 0, None)?;
        for (id, one) in (0u32..).map(TrackId).zip(scene.tracks) {
            let name = self.words.track(scene, one);
            self.describe(uuid(id), &name, u64::from(id.0).wrapping_add(FIRST), Some(ROOT))?;
        }
        if !scene.counters.is_empty() {
            self.describe(LEVELS, "levels, as calls found them", LAST, Some(ROOT))?;
        }
        for (id, counter) in (0u64..).zip(scene.counters) {
            let name = self.words.counter(scene, counter);
            self.describe_counter(COUNTERS.wrapping_add(id), &name, counter)?;
        }
        self.marks(scene)
    }

    fn slice(&mut self, scene: &Scene<'_>, slice: &Slice) -> io::Result<()> {
        let name = self.words.slice(scene, slice);
        self.named(event::BEGIN, uuid(slice.track), Words::kind(scene, slice), &name);
        let mut fields = Vec::new();
        self.words.slice_fields(scene, slice, |name, value| fields.push((name.to_owned(), value)));
        self.fields(&fields);
        if let Some(flow) = slice.flow {
            self.body.fixed(event::FLOW_END, flow.0);
        }
        self.begin_and_end(uuid(slice.track), slice.from, slice.to)
    }

    fn instant(&mut self, _: &Scene<'_>, instant: &Instant<'_>) -> io::Result<()> {
        let name = self.words.event(instant.event);
        self.named(event::INSTANT, uuid(instant.track), "event", &name);
        let mut fields = Vec::new();
        self.words.event_fields(instant.event, |name, value| fields.push((name.to_owned(), value)));
        self.fields(&fields);
        for flow in instant.flows {
            self.body.fixed(event::FLOW, flow.0);
        }
        self.put(self.time.nanos(instant.event.ticks))
    }

    fn level(&mut self, _: &Scene<'_>, level: &Level) -> io::Result<()> {
        // The format has no word for unknown; the gap shows it.
        let Some(value) = level.value else { return Ok(()) };
        self.event(event::LEVEL, COUNTERS.wrapping_add(u64::from(level.counter.0)));
        self.body.signed(event::COUNTER, i64::try_from(value).unwrap_or(i64::MAX));
        self.put(self.time.nanos(level.ticks))
    }

    fn gap(&mut self, _: &Scene<'_>, gap: &Gap) -> io::Result<()> {
        let (track, at) = if gap.doubt == Doubt::Lost { (LOST, 0) } else { (CLOCK, 1) };
        if let Some(there) = self.has_gaps.get_mut(at)
            && !std::mem::replace(there, true)
        {
            let name = if gap.doubt == Doubt::Lost { "lost events" } else { "doubtful clock" };
            self.describe(track, name, 128, Some(ROOT))?;
        }
        self.named(event::BEGIN, track, "gap", Words::gap(gap));
        self.fields(&[("to_event".to_owned(), Field::Number(i64::try_from(gap.seq).unwrap_or(i64::MAX)))]);
        self.begin_and_end(track, gap.from, gap.to)
    }

    fn finish(&mut self, _: &Scene<'_>) -> io::Result<()> {
        self.out.flush()
    }
}
