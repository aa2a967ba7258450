//! How far apart the stamps of a trace are, gathered in one pass: what steps are ordinary, and where others are.

use std::ops::ControlFlow;

use super::entry::{Codec, Entry};
use super::ids::Ids;
use super::order::Ring;
use crate::trace::{Clock, Direction};

/// Slots that are summed up together.
const BLOCK: usize = 512;
/// With fewer events nothing is out of the ordinary.
pub(super) const FEWEST: u64 = 8;
/// One step in so many may be larger than what is called ordinary; two at least, and so many at the most.
const EXCEPTIONS: u64 = 32;
const MAX_EXCEPTIONS: u64 = 32;
/// A step is out of the ordinary where it is so many times as long as the ordinary ones, as a power of two.
const FACTOR: u32 = 3;

/// Which slots to look at, and the clock by which to read them.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub ring: &'a Ring,
    pub codec: Codec,
    pub ids: &'a Ids,
    pub clock: &'a Clock,
    /// The events of this core alone.
    pub core: Option<u16>,
}

/// Where a block of slots lies: number of its run, first slot in it, and how many.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    run: usize,
    first: usize,
    count: usize,
}

impl Ring {
    /// The slots, block by block.
    pub fn blocks(&self) -> impl Iterator<Item = Place> {
        self.runs.iter().enumerate().flat_map(|(run, slots)| {
            let count = slots.count;
            (0..count).step_by(BLOCK).map(move |first| Place {
                run,
                first,
                count: count.saturating_sub(first).min(BLOCK),
            })
        })
    }

    /// Shows each slot of a block with its sequence number.
    #[inline]
    pub fn slots_of(&self, place: Place, codec: &Codec, mut each: impl FnMut(u64, &Entry)) {
        let Some(run) = self.runs.get(place.run) else { return };
        let (start, len) = (place.first.saturating_mul(codec.size()), place.count.saturating_mul(codec.size()));
        let bytes = run.bytes.as_slice().get(start..start.saturating_add(len)).unwrap_or(&[]);
        let mut seq = run.first_seq.saturating_add(place.first as u64);
        codec.entries(bytes, |entry| {
            each(seq, entry);
            seq = seq.wrapping_add(1);
            ControlFlow::Continue(())
        });
    }
}

impl View<'_> {
    /// Every event of a block.
    pub fn events(&self, place: Place, mut each: impl FnMut(u64, &Entry)) {
        self.ring.slots_of(place, &self.codec, |seq, entry| {
            let own = self.core.is_none_or(|core| entry.core == core);
            if own && entry.context != 0 && self.ids.is_entry(entry, self.codec.cores) {
                each(seq, entry);
            }
        });
    }
}

/// An event's place in time, and who inserted it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Stamped {
    pub seq: u64,
    pub stamp: u64,
    pub context: u64,
    pub core: u16,
}

/// The events of a block, summed up.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block {
    pub place: Place,
    pub count: u64,
    /// Ticks from the last event before it to its last one.
    pub elapsed: u64,
    /// The longest step to one of its events.
    pub longest: u64,
    pub last: Stamped,
    /// The stamp before the last one, of this block or of one before it.
    pub last_but_one: u64,
}

/// Ticks until the clock starts over.
pub(super) fn range(clock: &Clock) -> u64 {
    clock.period.unwrap_or_else(|| clock.mask.saturating_add(1))
}

/// A step back of so little is no long step, with a clock that starts over after so many ticks.
pub(super) const fn little(range: u64) -> u64 {
    range >> 10
}

/// What of a clock its steps hang on.
pub(super) type Identity = (u64, Direction, Option<u64>);

pub(super) const fn identity(clock: &Clock) -> Identity {
    (clock.mask, clock.direction, clock.period)
}

/// The steps of a clock.
#[derive(Debug, Default)]
pub(super) struct Steps {
    range: u64,
    little: u64,
    pub events: u64,
    pub first: Option<Stamped>,
    pub last: Stamped,
    last_but_one: u64,
    /// Ticks from the first event to the last, as if none were longer than the clock's range.
    pub elapsed: u64,
    longest: u64,
    /// Number of steps by the number of their bits; small steps back count as what they are.
    sizes: Vec<u64>,
    pub blocks: Vec<Block>,
    /// Events and ticks before the current block.
    before: (u64, u64),
}

impl Steps {
    pub fn new(clock: &Clock) -> Self {
        let range = range(clock);
        Self { range, little: little(range), sizes: vec![0; 65], ..Self::default() }
    }

    /// Those of the events in view.
    pub fn of(view: View<'_>) -> Self {
        let mut this = Self::new(view.clock);
        for place in view.ring.blocks() {
            view.events(place, |seq, entry| {
                this.add(seq, entry, view.clock);
            });
            this.end_block(place);
        }
        this
    }

    /// Takes an event, by the same clock as the others; its step, where it is not the first.
    #[inline]
    pub fn add(&mut self, seq: u64, entry: &Entry, clock: &Clock) -> Option<u64> {
        let own = Stamped { seq, stamp: entry.stamp, context: entry.context, core: entry.core };
        self.events = self.events.wrapping_add(1);
        let before = std::mem::replace(&mut self.last, own).stamp;
        if self.events == 1 {
            self.first = Some(own);
            return None;
        }
        self.last_but_one = before;
        let step = clock.step(before, entry.stamp);
        self.elapsed = self.elapsed.saturating_add(step);
        self.longest = self.longest.max(step);
        let back = self.range.saturating_sub(step);
        let long = if back <= self.little { back } else { step };
        let bits = u64::BITS.wrapping_sub(long.leading_zeros());
        if let Some(n) = self.sizes.get_mut(bits as usize) {
            *n = n.wrapping_add(1);
        }
        Some(step)
    }

    /// All events of a block were taken.
    pub fn end_block(&mut self, place: Place) {
        let (events, elapsed) = std::mem::replace(&mut self.before, (self.events, self.elapsed));
        let count = self.events.wrapping_sub(events);
        if count > 0 {
            let (last, last_but_one) = (self.last, self.last_but_one);
            let elapsed = self.elapsed.wrapping_sub(elapsed);
            self.blocks.push(Block { place, count, elapsed, longest: self.longest, last, last_but_one });
        }
        self.longest = 0;
    }

    /// The longest step of all.
    pub fn longest(&self) -> Option<u64> {
        let most = self.blocks.iter().map(|block| block.longest).max();
        most.filter(|_| self.events > 1)
    }

    /// True where the newest stamp lies more than half the clock's range behind the one before it.
    pub fn ends_with_leap(&self, clock: &Clock) -> bool {
        self.events > 1 && clock.step(self.last_but_one, self.last.stamp) > range(clock) >> 1
    }

    /// What steps are ordinary. `None` where long steps are nothing out of the ordinary.
    pub fn scale(&self) -> Option<Scale> {
        if self.events < FEWEST {
            return None;
        }
        let allowed = (self.events / EXCEPTIONS).clamp(2, MAX_EXCEPTIONS);
        let sizes = || (0..65u32).zip(self.sizes.iter().copied());
        let bits = reaches(allowed, sizes().rev())?;
        let middle = reaches(self.events / 2, sizes())?;
        let usual = 1u64.checked_shl(bits)?;
        let nested = 1u64.checked_shl(middle.saturating_add(1))?;
        let most = self.range >> 3;
        let big = 1u64.checked_shl(bits.saturating_add(FACTOR)).unwrap_or(u64::MAX).min(most);
        (bits > 0 && usual <= most).then_some(Scale { big, usual, nested })
    }
}

/// The size at which a sum of counts goes above `limit`.
fn reaches(limit: u64, mut sizes: impl Iterator<Item = (u32, u64)>) -> Option<u32> {
    let mut sum = 0u64;
    sizes.find_map(|(bits, count)| {
        sum = sum.saturating_add(count);
        (sum > limit).then_some(bits)
    })
}

/// What steps are ordinary.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    /// Steps from here on are out of the ordinary.
    pub big: u64,
    /// The largest ordinary step, as a power of two.
    pub usual: u64,
    /// So far back goes time at the most where an interrupt comes between reading the clock and storing the event.
    pub nested: u64,
}
