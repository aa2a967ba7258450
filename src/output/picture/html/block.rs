//! A block of the page's data: events, and the slices, flows and levels that end with them.

#![allow(clippy::arithmetic_side_effects, reason = "indices of events in memory; differences of ticks wrap")]

use std::collections::{BTreeMap, HashMap};

use super::fields::Fields;
use super::pack::Column;
use crate::timeline::{FlowId, Instant};

/// Ticks from which on a page needs whole numbers of 64 bits: a JavaScript number holds 53.
const WIDE: u64 = 1 << 50;

/// The most flows whose beginning is waited for.
const FLOWS: usize = 1 << 16;

/// The most kinds of slices. Others have all with them.
const KINDS: usize = 1 << 16;

/// A slice as the page has it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece {
    /// Ticks at its start.
    pub from: i64,
    /// Ticks at its end.
    pub to: i64,
    /// Number of its state.
    pub state: u64,
    /// What is not known of it.
    pub flags: u64,
    /// Number of its object and one; 0 for none.
    pub object: u64,
    /// Number of the track that has that object, and one; 0 for none.
    pub owner: u64,
}

/// Where the slices or the levels of a track are: the event from which the next one counts, its time, and the last value.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    index: u64,
    time: i64,
    ends: i64,
    value: u64,
}

/// The columns of events.
#[derive(Debug, Default)]
struct Events {
    seq: Column,
    tick: Column,
    def: Column,
    who: Column,
    core: Column,
    words: Column,
    texts: Column,
    last: (u64, i64),
    texts_at: u64,
}

/// A block that is being filled, and what goes on from block to block.
#[derive(Debug, Default)]
pub(super) struct Block {
    base: i64,
    /// Index of its first event.
    first: u64,
    events: Events,
    /// Of its events: when they are drawn, which never falls.
    times: Vec<i64>,
    /// The same of the first event of all, and of the last.
    start: Option<i64>,
    last: i64,
    slices: BTreeMap<u64, Vec<Piece>>,
    levels: BTreeMap<u64, Vec<(i64, u64)>>,
    pieces: usize,
    flows: Vec<(u64, u64)>,
    waited: HashMap<FlowId, u64>,
    ends: HashMap<u64, Place>,
    kinds: Vec<[u64; 4]>,
    known_kinds: HashMap<[u64; 4], u64>,
    is_wide: bool,
}

impl Block {
    /// Times count from here.
    pub fn begin(&mut self, base: i64) {
        self.base = base;
    }

    /// How many events it has.
    pub fn len(&self) -> usize {
        self.times.len()
    }

    /// How many slices and levels it has.
    pub(super) const fn pieces(&self) -> usize {
        self.pieces
    }

    /// The index of the next event.
    pub(super) fn next_index(&self) -> u64 {
        self.first + self.times.len() as u64
    }

    /// True where the ticks do not fit into the numbers of JavaScript.
    pub(super) const fn is_wide(&self) -> bool {
        self.is_wide
    }

    /// Ticks from which all times count.
    pub(super) const fn base(&self) -> i64 {
        self.base
    }

    fn time(&mut self, ticks: i64) -> i64 {
        let time = ticks.wrapping_sub(self.base);
        self.is_wide |= time.unsigned_abs() > WIDE;
        time
    }

    /// Adds an event, whose fields were taken.
    pub fn event(&mut self, instant: &Instant<'_>, fields: &mut Fields, has_cores: bool) {
        let index = self.next_index();
        let time = self.time(instant.event.ticks);
        let e = &mut self.events;
        let (seq, tick) = e.last;
        e.seq.signed(instant.event.seq.wrapping_sub(seq).wrapping_sub(1).cast_signed());
        e.tick.step(tick, time);
        e.last = (instant.event.seq, time);
        e.who.number(u64::from(instant.track.0));
        if has_cores {
            e.core.number(u64::from(instant.event.core));
        }
        e.def.number(fields.schema());
        fields.values(&mut e.words);
        for (field, text) in fields.odd_texts() {
            e.texts.number(index - std::mem::replace(&mut e.texts_at, index));
            e.texts.number(*field);
            e.texts.bytes(text.as_bytes());
        }
        self.start.get_or_insert(time);
        self.last = if index == 0 { time } else { self.last.max(time) };
        self.times.push(self.last);
    }

    /// Adds a slice.
    pub(super) fn slice(&mut self, track: u64, piece: Piece) {
        let (from, to) = (self.time(piece.from), self.time(piece.to));
        self.slices.entry(track).or_default().push(Piece { from, to, ..piece });
        self.pieces += 1;
    }

    /// Adds a level of a counter.
    pub fn level(&mut self, track: u64, ticks: i64, value: Option<u64>) {
        let value = value.map_or(0, |value| value.min(WIDE) + 1);
        let place = self.ends.entry(track).or_default();
        if std::mem::replace(&mut place.value, value) == value {
            return;
        }
        let time = self.time(ticks);
        self.levels.entry(track).or_default().push((time, value));
        self.pieces += 1;
    }

    /// Adds a flow from an event to a track.
    pub(super) fn flow(&mut self, from: u64, track: u64) {
        self.flows.push((from, track));
    }

    /// A flow ends that has not begun: its event comes next.
    pub(super) fn wait_for(&mut self, flow: FlowId, track: u64) {
        if self.waited.len() < FLOWS {
            self.waited.insert(flow, track);
        }
    }

    /// The track at which such a flow ends.
    pub(super) fn waited_for(&mut self, flow: FlowId) -> Option<u64> {
        self.waited.remove(&flow)
    }

    /// The event at a time, of this block, and when that is drawn; the last one after all.
    fn at(&self, time: i64) -> (u64, i64) {
        let at = self.times.partition_point(|t| *t < time);
        match self.times.get(at) {
            Some(t) => (self.first + at as u64, *t),
            None => (self.next_index().saturating_sub(1), self.last),
        }
    }

    /// The bytes of all that can be written; the rest waits for the next block. `None` where there is nothing.
    pub(super) fn take(&mut self, is_last: bool) -> Option<Vec<u8>> {
        if self.times.is_empty() && self.pieces == 0 && self.flows.is_empty() {
            return None;
        }
        let slices = self.take_slices(is_last);
        let levels = self.take_levels(is_last);
        let flows = self.take_flows();
        let events = std::mem::take(&mut self.events);
        let mut out = Column::default();
        out.number(self.times.len() as u64);
        let Events { seq, tick, def, who, core, words, texts, .. } = &events;
        for column in [seq, tick, def, who, core, words, texts, &slices, &flows, &levels] {
            out.column(column);
        }
        self.first = self.next_index();
        self.events.texts_at = self.first;
        self.times.clear();
        Some(out.as_bytes().to_vec())
    }

    /// The place from which a track counts.
    fn place(&self, track: u64) -> Place {
        let start = Place { time: self.start.unwrap_or(0), ends: i64::MIN, ..Place::default() };
        match self.ends.get(&track) {
            Some(place) if place.index > 0 || place.time != 0 || place.ends != 0 => *place,
            Some(place) => Place { value: place.value, ..start },
            None => start,
        }
    }

    fn take_slices(&mut self, is_last: bool) -> Column {
        let mut all = Column::default();
        for (track, pieces) in std::mem::take(&mut self.slices) {
            let ready = if is_last { pieces.len() } else { pieces.iter().take_while(|p| p.to <= self.last).count() };
            let (now, later) = pieces.split_at(ready);
            if !later.is_empty() {
                self.slices.insert(track, later.to_vec());
            }
            if now.is_empty() {
                continue;
            }
            let mut place = self.place(track);
            let mut columns: [Column; 5] = Default::default();
            for piece in now {
                self.put_slice(piece, &mut place, &mut columns);
            }
            self.ends.insert(track, place);
            all.number(track);
            all.number(now.len() as u64);
            columns.iter().for_each(|column| all.column(column));
        }
        self.pieces = self.slices.values().map(Vec::len).sum();
        all
    }

    fn put_slice(&mut self, piece: &Piece, place: &mut Place, columns: &mut [Column; 5]) {
        let [gap, length, kinds, offsets, whole] = columns;
        let is_here = self.times.first().is_some_and(|first| piece.from >= *first);
        let (index, time) =
            if piece.from == place.ends || !is_here { (place.index, place.time) } else { self.at(piece.from) };
        gap.step(place.index.cast_signed(), index.cast_signed());
        let (end, end_time) = self.at(piece.to);
        length.step(index.cast_signed(), end.cast_signed());
        let is_odd = time != piece.from || end_time != piece.to;
        if is_odd {
            offsets.step(time, piece.from);
            offsets.step(end_time, piece.to);
        }
        let kind = self.kind(piece);
        kinds.number(kind << 1 | u64::from(is_odd));
        if kind == 0 {
            [piece.state, piece.flags, piece.object, piece.owner].iter().for_each(|n| whole.number(*n));
        }
        *place = Place { index: end, time: end_time, ends: piece.to, value: 0 };
    }

    /// The number of a slice's kind; 0 where there are too many.
    fn kind(&mut self, piece: &Piece) -> u64 {
        let kind = [piece.state, piece.flags, piece.object, piece.owner];
        if let Some(known) = self.known_kinds.get(&kind) {
            return *known;
        }
        if self.kinds.len() >= KINDS {
            return 0;
        }
        self.kinds.push(kind);
        let number = self.kinds.len() as u64;
        self.known_kinds.insert(kind, number);
        number
    }

    /// The kinds of slices: state, flags, object and owner.
    pub(super) fn kinds(&self) -> &[[u64; 4]] {
        &self.kinds
    }

    fn take_levels(&mut self, is_last: bool) -> Column {
        let mut all = Column::default();
        for (track, levels) in std::mem::take(&mut self.levels) {
            let ready = if is_last { levels.len() } else { levels.iter().take_while(|l| l.0 <= self.last).count() };
            let (now, later) = levels.split_at(ready);
            if !later.is_empty() {
                self.levels.insert(track, later.to_vec());
            }
            let mut place = self.place(track);
            let (mut gap, mut offset, mut values) = (Column::default(), Column::default(), Column::default());
            for (time, value) in now {
                let (index, at) = self.at(*time);
                gap.step(place.index.cast_signed(), index.cast_signed());
                offset.step(at, *time);
                values.step(place.ends.max(0), value.cast_signed());
                place = Place { index, time: at, ends: value.cast_signed(), value: place.value };
            }
            if !now.is_empty() {
                self.ends.insert(track, place);
                all.number(track);
                all.number(now.len() as u64);
                [gap, offset, values].iter().for_each(|column| all.column(column));
            }
        }
        self.pieces += self.levels.values().map(Vec::len).sum::<usize>();
        all
    }

    fn take_flows(&mut self) -> Column {
        let mut column = Column::default();
        let mut at = self.first;
        for (from, track) in std::mem::take(&mut self.flows) {
            column.step(std::mem::replace(&mut at, from).cast_signed(), from.cast_signed());
            column.number(track);
        }
        column
    }
}
