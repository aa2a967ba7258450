//! The captured slots in the order in which they were written.

#![expect(
    clippy::arithmetic_side_effects,
    reason = "numbers of slots, of which a buffer of 4 GiB has 2^27; ticks are added with saturation"
)]

use std::ops::Range;

use super::super::Extent;
use super::capture::Capture;
use super::entry::Codec;
use super::layout::TraceLayout;
use crate::abi::Addr;
use crate::bytes::Bytes;
use crate::code::Code;
use crate::trace::{Clock, Counts, Direction, Issue, Known, Place};

/// Slots that follow each other in ring order and are together in memory.
#[derive(Debug, Clone)]
pub(super) struct Run {
    pub first_seq: u64,
    pub first_slot: u64,
    pub count: usize,
    pub bytes: Bytes,
}

impl Run {
    /// The slots from a sequence number on; `None` where none is left.
    fn rest(self, seq: u64) -> Option<Self> {
        let skip = seq.saturating_sub(self.first_seq);
        let skipped = usize::try_from(skip).ok().filter(|skipped| *skipped < self.count)?;
        let offset = skipped * (self.bytes.len() / self.count);
        Some(Self {
            first_seq: self.first_seq + skip,
            first_slot: self.first_slot + skip,
            count: self.count - skipped,
            bytes: self.bytes.cut(offset, self.bytes.len() - offset)?,
        })
    }
}

/// The captured slots in ring order.
#[derive(Debug, Clone)]
pub(super) struct Ring {
    pub runs: Vec<Run>,
    /// Number of slots that hold events, read or not.
    pub held: u64,
    pub wrapped: bool,
    /// True where every slot that holds an event was captured.
    pub complete: bool,
}

/// Captured ranges of whole slots inside the ring.
pub(super) struct Slots<'a> {
    parts: Vec<(u64, Bytes)>,
    g: &'a TraceLayout,
    codec: Codec,
}

/// Slots before the current pointer that the one at it is compared with.
pub(super) const COMPARED: u64 = 16;

impl<'a> Slots<'a> {
    /// What a capture holds of the ring.
    pub fn of(capture: &Capture, g: &'a TraceLayout, codec: Codec) -> Self {
        let mut parts: Vec<(u64, Bytes)> = Vec::new();
        for part in &capture.ring {
            let room = g.capacity.saturating_sub(part.slot);
            let count = g.slots(part.bytes.len()).min(room);
            if let Some(bytes) = part.bytes.cut(0, g.bytes(count)).filter(|_| count > 0) {
                parts.push((part.slot, bytes));
            }
        }
        parts.sort_by_key(|(first, _)| *first);
        Self { parts, g, codec }
    }

    /// The bytes of a slot, where it was captured.
    pub fn get(&self, slot: u64) -> Option<&[u8]> {
        let (first, bytes) = self.parts.iter().rev().find(|(first, _)| *first <= slot)?;
        let offset = self.g.bytes(slot.checked_sub(*first)?);
        bytes.as_slice().get(offset..offset.checked_add(self.codec.size())?)
    }

    /// Every captured slot with its number, in memory order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.parts.iter().flat_map(|(first, bytes)| (*first..).zip(bytes.chunks_exact(self.codec.size())))
    }

    fn context(&self, slot: u64) -> Option<u64> {
        self.get(slot).map(|b| self.codec.context(b))
    }

    fn stamp(&self, slot: u64) -> Option<u64> {
        self.get(slot).map(|b| self.codec.read(b)).filter(|e| e.context != 0).map(|e| e.stamp)
    }

    /// Where the trace describes itself.
    pub const fn header(&self) -> Addr {
        self.g.header
    }

    /// True where a slot holds an event.
    pub fn is_used(&self, slot: u64) -> bool {
        self.context(slot).is_some_and(|word| word != 0)
    }

    /// True where the last slot was never used, and the first one was.
    pub fn never_wrapped(&self) -> bool {
        self.is_used(0) && self.context(self.g.before(0, 1)) == Some(0)
    }

    /// True where the events from a slot on follow those before it as any other does: it is not where the ring begins.
    pub fn goes_on(&self, slot: u64) -> bool {
        let clock = rough_clock(self.codec.mask, self.direction());
        let before = (1..=COMPARED.min(self.g.capacity)).map_while(|n| self.stamp(self.g.before(slot, n)));
        let before: Vec<u64> = before.collect();
        let steps = before.windows(2).filter_map(|w| match w {
            [after, before] => Some(clock.step(*before, *after)),
            _ => None,
        });
        // One of them may be where the ring begins.
        let ordinary = steps.filter(|step| *step <= self.codec.mask >> 3);
        let most = ordinary.fold(0u64, u64::saturating_add);
        let (here, next) = (self.stamp(slot), self.stamp(self.g.after(slot, 1)));
        let (Some(newest), Some(here), Some(next)) = (before.first(), here, next) else { return false };
        clock.step(*newest, here).max(clock.step(here, next)) <= most && most > 0
    }

    /// True where most of the slots from this one on hold events.
    fn mostly_used(&self, first: u64) -> bool {
        let (mut used, mut unused) = (0u64, 0u64);
        for (_, slot) in self.iter().filter(|(number, _)| *number >= first) {
            let count = if self.codec.context(slot) == 0 { &mut unused } else { &mut used };
            *count += 1;
        }
        used > unused
    }

    /// How many there are.
    pub fn captured(&self) -> u64 {
        self.parts.iter().map(|(_, bytes)| self.g.slots(bytes.len())).sum()
    }

    /// Which way the stamps of the first so many slots go.
    pub fn direction(&self) -> Direction {
        let mut votes = Votes::default();
        let mut previous = None;
        for (_, slot) in self.iter().take(4096) {
            let entry = self.codec.read(slot);
            if entry.context == 0 {
                continue;
            }
            if let Some(before) = previous {
                votes.count(before, entry.stamp);
            }
            previous = Some(entry.stamp);
        }
        votes.direction().0
    }
}

impl Ring {
    /// Puts the slots in order: the oldest is at the current pointer once the ring has wrapped.
    pub fn order(
        slots: &Slots<'_>,
        g: &TraceLayout,
        torn: &[Range<u64>],
        direction: Direction,
        issues: &mut Vec<Issue>,
    ) -> Self {
        let current = g.current.unwrap_or_else(|| recover(slots, direction, issues));
        let mut out: Vec<Range<u64>> = torn.to_vec();
        let mut wrapped = match slots.context(current) {
            Some(word) => word != 0,
            None => {
                issues.push(Issue::new(
                    Code::WrapUnknown,
                    "the slot at the current pointer cannot be read: it is assumed that the ring has wrapped",
                ));
                true
            }
        };
        let after = current + 1;
        // A slot that holds no event where most after it do was cleared by something else than `tx_trace_enable`.
        let used_behind = || slots.mostly_used(after);
        if !wrapped && used_behind() {
            wrapped = true;
        } else if wrapped && after < g.capacity && slots.context(after) == Some(0) && !used_behind() {
            // The context word of the next event is stored first: it was being inserted when all stopped.
            wrapped = false;
            issues.push(in_progress(g, current));
        } else if wrapped && g.current.is_some() && half_written(slots, current, direction) {
            out.push(current..after);
            issues.push(in_progress(g, current));
        }
        Self::at(slots, current, wrapped, &out)
    }

    /// Slots that were captured in the order in which they were written.
    pub fn batch(capture: &Capture) -> Self {
        let (mut runs, mut held): (Vec<Run>, u64) = (Vec::new(), 0);
        for part in &capture.ring {
            let count = part.bytes.len() / capture.layout.entry_size();
            runs.push(Run { first_seq: held, first_slot: part.slot, count, bytes: part.bytes.clone() });
            held += count as u64;
        }
        Self { runs, held, wrapped: false, complete: false }
    }

    /// The order that begins at this slot.
    pub fn at(slots: &Slots<'_>, current: u64, wrapped: bool, out: &[Range<u64>]) -> Self {
        let g = slots.g;
        let held = if wrapped { g.capacity } else { current };
        let mut runs: Vec<Run> = Vec::new();
        for (first, bytes) in &slots.parts {
            let end = first + g.slots(bytes.len());
            // Cut where ring order starts over, without the slots that are left out.
            for whole in [*first..end.min(current), (*first).max(current)..end] {
                for piece in without(whole, out) {
                    if !wrapped && piece.start >= current {
                        continue;
                    }
                    let (first_slot, first_seq) = (piece.start, g.seq(piece.start, current, wrapped));
                    let (offset, len) = (g.bytes(first_slot - *first), g.bytes(piece.end - first_slot));
                    if let Some(bytes) = bytes.cut(offset, len) {
                        runs.push(Run { first_seq, first_slot, count: len / slots.codec.size(), bytes });
                    }
                }
            }
        }
        runs.sort_by_key(|r| r.first_seq);
        Self { runs, held, wrapped, complete: slots.captured() >= held }
    }

    /// Only those that were asked for.
    pub fn newest(mut self, extent: Extent) -> Self {
        let from = match extent {
            Extent::All => 0,
            Extent::Nothing => self.held,
            Extent::Newest(n) => self.held.saturating_sub(n),
        };
        self.runs = self.runs.into_iter().filter_map(|run| run.rest(from)).collect();
        self
    }

    /// The slots that this run has not written yet and the run before a reset had: `tx_trace_enable` clears only their
    /// first word. `plausible` is false for memory that never held an entry.
    pub fn previous(slots: &Slots<'_>, direction: Direction, plausible: &dyn Fn(&[u8]) -> bool) -> Self {
        let mut list: Vec<(u64, u64)> = Vec::new();
        for (slot, bytes) in slots.iter() {
            if slots.codec.context(bytes) == 0 && plausible(bytes) {
                list.push((slot, slots.codec.read(bytes).stamp));
            }
        }
        // The newest event of that run may be in the middle: after it the stamps fall back to its oldest.
        let clock = rough_clock(slots.codec.mask, direction);
        let half = slots.codec.mask >> 1;
        let pairs = list.windows(2).filter_map(|w| match w {
            [a, b] => Some((clock.step(a.1, b.1), b.0)),
            _ => None,
        });
        let first = pairs.filter(|(step, _)| *step > half).max().map_or(0, |(_, slot)| slot);
        let (newer, older): (Vec<_>, Vec<_>) = list.into_iter().partition(|(slot, _)| *slot < first);
        let order: Vec<u64> = older.into_iter().chain(newer).map(|(slot, _)| slot).collect();
        let held = order.len() as u64;
        let mut runs: Vec<Run> = Vec::new();
        let mut rest = order.as_slice();
        while let Some((first, _)) = rest.split_first() {
            let follows = |(i, slot): &(usize, &u64)| first + *i as u64 == **slot;
            let count = rest.iter().enumerate().take_while(follows).count();
            let first_seq = held - rest.len() as u64;
            let (taken, later) = rest.split_at(count);
            // Ranges that are apart in memory are cut apart.
            if let Some(bytes) = slots.cut(*first, taken.len() as u64) {
                runs.push(Run { first_seq, first_slot: *first, count: taken.len(), bytes });
                rest = later;
            } else if let Some(bytes) = slots.cut(*first, 1) {
                runs.push(Run { first_seq, first_slot: *first, count: 1, bytes });
                rest = rest.get(1..).unwrap_or(&[]);
            } else {
                rest = later;
            }
        }
        Self { runs, held, wrapped: false, complete: true }
    }

    /// How many of the newest events here are the oldest ones of `next`: rotated buffers may overlap.
    pub fn shared_with(&self, next: &Self, codec: Codec) -> u64 {
        let size = codec.size();
        let slots = |ring: &Self| -> Vec<Bytes> {
            let cut = |r: &Run| (0..r.count).filter_map(|i| r.bytes.cut(i * size, size)).collect::<Vec<_>>();
            ring.runs.iter().flat_map(cut).filter(|b| codec.context(b) != 0).collect()
        };
        let (mine, theirs) = (slots(self), slots(next));
        let Some(first) = theirs.first() else { return 0 };
        let starts = mine.iter().enumerate().rev().filter(|(_, b)| b.as_slice() == first.as_slice()).map(|(i, _)| i);
        for start in starts {
            let tail = mine.get(start..).unwrap_or(&[]);
            if tail.len() <= theirs.len() && tail.iter().zip(&theirs).all(|(a, b)| a.as_slice() == b.as_slice()) {
                return tail.len() as u64;
            }
        }
        0
    }

    /// Puts the events of `next` after these, without its first `shared` ones.
    pub fn append(&mut self, next: Self, shared: u64) {
        let held = self.held;
        let runs = next.runs.into_iter().filter_map(|run| run.rest(shared));
        self.runs.extend(runs.map(|run| Run { first_seq: held + (run.first_seq - shared), ..run }));
        self.held = held + next.held.saturating_sub(shared);
        self.wrapped |= next.wrapped;
        self.complete &= next.complete;
    }

    /// The sequence number of the first event, `skipped` slots into what was captured.
    pub fn first_seq(&self, skipped: u64) -> u64 {
        let mut skipped = skipped;
        for run in &self.runs {
            let count = run.count as u64;
            if skipped < count {
                return run.first_seq + skipped;
            }
            skipped -= count;
        }
        self.held
    }
}

impl Slots<'_> {
    fn cut(&self, slot: u64, count: u64) -> Option<Bytes> {
        let (first, bytes) = self.parts.iter().rev().find(|(first, _)| *first <= slot)?;
        bytes.cut(self.g.bytes(slot.checked_sub(*first)?), self.g.bytes(count))
    }
}

fn in_progress(g: &TraceLayout, slot: u64) -> Issue {
    Issue::new(Code::InsertionInProgress, "an event was being inserted when the target stopped; it is left out")
        .at(Place::address(g.address(slot)))
}

/// The oldest slot already has the stamp of a newer event than the newest: all but the current pointer was written.
fn half_written(slots: &Slots<'_>, current: u64, direction: Direction) -> bool {
    let g = slots.g;
    let (before, after) = (g.before(current, 1), g.after(current, 1));
    if g.capacity < 8 {
        return false;
    }
    let (Some(newest), Some(here), Some(oldest)) = (slots.stamp(before), slots.stamp(current), slots.stamp(after))
    else {
        return false;
    };
    let clock = rough_clock(slots.codec.mask, direction);
    // A clock that reloads far below its mask falls back anywhere: its stamps show nothing here. One that counts up falls back to
    // 0 alone: not to a stamp that is nearly as large as those before it.
    let is_far_from_zero = direction == Direction::Up && clock.step(oldest, here) < oldest >> 6;
    let is_large = [newest, here, oldest].into_iter().max().is_some_and(|most| most >= slots.codec.mask >> 2);
    if !is_large && !is_far_from_zero {
        return false;
    }
    // In a whole ring the step from the newest back to the oldest is the large one.
    if clock.step(here, oldest) <= slots.codec.mask >> 1
        || clock.step(newest, here) >= slots.codec.mask >> 6
        || newest == here
    {
        return false;
    }
    // One event shows as wrong only where all others follow each other closely.
    let (mut elapsed, mut last) = (0u64, oldest);
    let order = (after..g.capacity).chain(0..current);
    for slot in order.filter(|slot| *slot != current) {
        let Some(stamp) = slots.stamp(slot) else { return false };
        elapsed = elapsed.saturating_add(clock.step(last, stamp));
        if elapsed > slots.codec.mask >> 2 {
            return false;
        }
        last = stamp;
    }
    true
}

/// A range without those that are left out.
fn without(whole: Range<u64>, out: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut pieces = vec![whole];
    for hole in out {
        pieces = pieces
            .into_iter()
            .flat_map(|p| [p.start..p.end.min(hole.start), p.start.max(hole.end)..p.end])
            .filter(|p| p.start < p.end)
            .collect();
    }
    pieces.retain(|p| p.start < p.end);
    pieces
}

/// A clock by which small steps differ from large ones.
pub(super) const fn rough_clock(mask: u64, direction: Direction) -> Clock {
    Clock {
        mask,
        direction,
        direction_known: Known::Detected,
        period: None,
        hz: None,
        counts: Counts::Time,
        doubts: 0,
        reason: String::new(),
    }
}

/// Without a current pointer the oldest event is the one after the largest step of the clock: all others follow each
/// other closely.
fn recover(slots: &Slots<'_>, direction: Direction, issues: &mut Vec<Issue>) -> u64 {
    let clock = rough_clock(slots.codec.mask, direction);
    let (mut largest, mut first, mut previous) = (None, None, None);
    let mut unused: Vec<u64> = Vec::new();
    for (number, slot) in slots.iter() {
        let entry = slots.codec.read(slot);
        if entry.context == 0 {
            unused.push(number);
            continue;
        }
        if let Some(before) = previous {
            largest = largest.max(Some((clock.step(before, entry.stamp), number)));
        }
        first = first.or(Some(entry.stamp));
        previous = Some(entry.stamp);
    }
    // Unused slots up to the end of the ring: it has not wrapped. A few in the middle are damage.
    let tail = slots.g.capacity.saturating_sub(unused.len() as u64);
    if let Some(slot) = unused.first().filter(|slot| **slot >= tail) {
        return *slot;
    }
    // Back from the last slot to the first one is a step too.
    let around = first.zip(previous).map(|(first, last)| clock.step(last, first));
    match (largest, around) {
        (Some((step, slot)), Some(around)) if step > around => slot,
        (None, None) => {
            issues.push(Issue::new(Code::OrderUnknown, "no event shows where the ring begins"));
            0
        }
        _ => 0,
    }
}

/// Which way consecutive stamps go.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Votes {
    pub up: u64,
    pub down: u64,
}

impl Votes {
    #[inline]
    pub fn count(&mut self, before: u64, now: u64) {
        match now.cmp(&before) {
            std::cmp::Ordering::Greater => self.up += 1,
            std::cmp::Ordering::Less => self.down += 1,
            std::cmp::Ordering::Equal => {}
        }
    }

    /// Steps against a direction.
    pub const fn against(&self, direction: Direction) -> u64 {
        match direction {
            Direction::Up => self.down,
            Direction::Down => self.up,
        }
    }

    pub const fn join(self, other: Self) -> Self {
        Self { up: self.up + other.up, down: self.down + other.down }
    }

    /// The direction of the majority, and whether there is one; a tie counts up.
    pub const fn direction(&self) -> (Direction, bool) {
        if self.down > self.up { (Direction::Down, true) } else { (Direction::Up, self.up != self.down) }
    }
}
