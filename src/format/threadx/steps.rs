//! How far apart the stamps of a trace are, in one pass: which steps are ordinary, and where the others are.

#![expect(
    clippy::arithmetic_side_effects,
    reason = "counts of events, and numbers of bits; stamps and ticks are computed with checks"
)]

use std::ops::ControlFlow;

use super::entry::{Codec, Entry};
use super::ids::Ids;
use super::order::{Ring, Votes};
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

/// Where a block of slots is: number of its run, first slot in it, and how many.
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
            (0..count).step_by(BLOCK).map(move |first| Place { run, first, count: (count - first).min(BLOCK) })
        })
    }

    /// Shows the slots of a block, some at a time, with the sequence number of the first.
    #[inline]
    pub fn slots_of(&self, place: Place, codec: &Codec, mut each: impl FnMut(u64, &[Entry])) {
        let Some(run) = self.runs.get(place.run) else { return };
        let start = place.first * codec.size();
        let bytes = run.bytes.as_slice().get(start..start + place.count * codec.size()).unwrap_or(&[]);
        let mut seq = run.first_seq + place.first as u64;
        codec.entries(bytes, |entries| {
            each(seq, entries);
            seq += entries.len() as u64;
            ControlFlow::Continue(())
        });
    }
}

impl View<'_> {
    /// Every event of a block.
    pub fn events(&self, place: Place, mut each: impl FnMut(u64, &Entry)) {
        self.ring.slots_of(place, &self.codec, |first, entries| {
            for (seq, entry) in (first..).zip(entries) {
                let own = self.core.is_none_or(|core| entry.core == core);
                if own && entry.context != 0 && self.ids.is_entry(entry, self.codec.cores) {
                    each(seq, entry);
                }
            }
        });
    }
}

/// An event's sequence number and stamp, with its context and core.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Stamped {
    pub seq: u64,
    pub stamp: u64,
    pub context: u64,
    pub core: u16,
}

impl Stamped {
    pub const fn of(seq: u64, entry: &Entry) -> Self {
        Self { seq, stamp: entry.stamp, context: entry.context, core: entry.core }
    }
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
    /// The longest of those that go in the clock's direction.
    forward: u64,
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

/// The parts of a clock that its steps depend on.
pub(super) type Identity = (u64, Direction, Option<u64>);

pub(super) const fn identity(clock: &Clock) -> Identity {
    (clock.mask, clock.direction, clock.period)
}

/// Steps against the clock's direction that are kept one by one.
const MAX_TURNS: usize = 1 << 16;

/// A step against the clock's direction: the clock started over.
#[derive(Debug, Clone, Copy)]
struct Turn {
    block: usize,
    stamps: (u64, u64),
}

/// The steps of a clock.
#[derive(Debug, Clone)]
pub(super) struct Steps {
    clock: Identity,
    range: u64,
    pub events: u64,
    pub first: Option<Stamped>,
    pub last: Stamped,
    last_but_one: u64,
    /// The smallest stamp, and the largest.
    pub least: u64,
    pub most: u64,
    /// Ticks from the first event to the last, as if none were longer than the clock's range.
    pub elapsed: u64,
    /// Number of steps by the number of their bits; small steps back count as what they are.
    sizes: [u64; 65],
    /// Steps of no ticks.
    zeros: u64,
    turns: Vec<Turn>,
    pub backs: Backwards,
    pub evenness: EqualSteps,
    pub blocks: Vec<Block>,
    /// Events and ticks before the current block.
    before: (u64, u64),
    /// The longest step of the current block in the clock's direction, and the longest against it.
    longest: (u64, u64),
}

/// Steps of the same length, one after the other.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct EqualSteps {
    /// The step to the event before.
    step: u64,
    /// How many steps were the same as the one before, and the last of these.
    pub same: u64,
    pub even: u64,
}

impl EqualSteps {
    #[inline(always)]
    fn add(&mut self, step: u64) {
        let same = step == std::mem::replace(&mut self.step, step) && step > 0;
        self.same += u64::from(same);
        self.even = if same { step } else { self.even };
    }

    /// Slots that are left out were counted as well.
    #[cold]
    fn add_behind_gap(&mut self, step: u64, slots: u64) {
        let each = step.checked_div(slots).unwrap_or(0);
        if each == self.step && step > 0 && each.wrapping_mul(slots) == step {
            self.same += 1;
            self.even = each;
        }
        self.step = each;
    }
}

/// Steps against the clock's direction.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Backwards {
    pub count: u64,
    /// How far the stamps go back in all of them.
    pub distance: u64,
}

impl Steps {
    pub fn new(clock: &Clock) -> Self {
        Self {
            clock: identity(clock),
            range: range(clock),
            events: 0,
            first: None,
            last: Stamped::default(),
            last_but_one: 0,
            least: u64::MAX,
            most: 0,
            elapsed: 0,
            sizes: [0; 65],
            zeros: 0,
            turns: Vec::new(),
            backs: Backwards::default(),
            evenness: EqualSteps::default(),
            blocks: Vec::new(),
            before: (0, 0),
            longest: (0, 0),
        }
    }

    /// Those of the events in view.
    pub fn of(view: View<'_>) -> Self {
        let mut this = Self::new(view.clock);
        for place in view.ring.blocks() {
            view.events(place, |seq, entry| this.add(seq, std::slice::from_ref(entry), view.clock, &mut [0]));
            this.end_block(place);
        }
        this
    }

    /// Takes events of slots that follow each other, by the same clock as the others; `elapsed` is set to that at each.
    #[inline]
    pub fn add(&mut self, seq: u64, entries: &[Entry], clock: &Clock, elapsed: &mut [u64]) {
        match clock.direction {
            Direction::Up => self.add_by(seq, entries, clock, elapsed, |before, stamp| stamp.checked_sub(before)),
            Direction::Down => self.add_by(seq, entries, clock, elapsed, |before, stamp| before.checked_sub(stamp)),
        }
    }

    /// The same; `forward` gives the length of a step in the clock's direction.
    #[inline(always)]
    fn add_by(
        &mut self,
        seq: u64,
        entries: &[Entry],
        clock: &Clock,
        elapsed: &mut [u64],
        forward: impl Fn(u64, u64) -> Option<u64>,
    ) {
        let Some(newest) = entries.last() else { return };
        let mut rest = entries.iter().zip(elapsed.iter_mut());
        // Stamp and sequence number of the event before.
        let mut before = (self.last.stamp, self.last.seq);
        if self.events == 0
            && let Some((entry, elapsed)) = rest.next()
        {
            self.first = Some(Stamped::of(seq, entry));
            (self.least, self.most, *elapsed) = (entry.stamp, entry.stamp, 0);
            before = (entry.stamp, seq);
        }
        let slots = seq.wrapping_sub(before.1);
        let behind_gap = rest.len() == entries.len() && slots != 1;
        let (mut stamp, mut before_that) = (before.0, self.last_but_one);
        let (mut least, mut most, mut sum, mut zeros) = (self.least, self.most, self.elapsed, self.zeros);
        let (mut longest, mut evenness) = (self.longest.0, self.evenness);
        for (n, (entry, elapsed)) in rest.enumerate() {
            (before_that, stamp) = (stamp, entry.stamp);
            (least, most) = (least.min(stamp), most.max(stamp));
            let step = match forward(before_that, stamp) {
                Some(step) => {
                    longest = longest.max(step);
                    zeros += u64::from(step == 0);
                    step
                }
                None => self.turn((before_that, stamp), clock),
            };
            if let Some(n) = self.sizes.get_mut(size(step, self.range)) {
                *n += 1;
            }
            sum = sum.saturating_add(step);
            *elapsed = sum;
            if n == 0 && behind_gap {
                evenness.add_behind_gap(step, slots);
            } else {
                evenness.add(step);
            }
        }
        (self.least, self.most, self.elapsed, self.zeros) = (least, most, sum, zeros);
        (self.longest.0, self.evenness, self.last_but_one) = (longest, evenness, before_that);
        self.events += entries.len() as u64;
        self.last = Stamped::of(seq + entries.len() as u64 - 1, newest);
    }

    /// The clock started over, or was set back: the step that this makes.
    #[cold]
    fn turn(&mut self, stamps: (u64, u64), clock: &Clock) -> u64 {
        let step = clock.step(stamps.0, stamps.1);
        self.backs.count += 1;
        self.backs.distance = self.backs.distance.wrapping_add(stamps.0.abs_diff(stamps.1));
        self.longest.1 = self.longest.1.max(step);
        if self.turns.len() < MAX_TURNS {
            self.turns.push(Turn { block: self.blocks.len(), stamps });
        }
        step
    }

    /// All events of a block were taken.
    pub fn end_block(&mut self, place: Place) {
        let (events, elapsed) = std::mem::replace(&mut self.before, (self.events, self.elapsed));
        let (forward, against) = std::mem::take(&mut self.longest);
        let count = self.events - events;
        if count > 0 {
            let (last, last_but_one) = (self.last, self.last_but_one);
            let elapsed = self.elapsed.wrapping_sub(elapsed);
            self.blocks.push(Block {
                place,
                count,
                elapsed,
                longest: forward.max(against),
                forward,
                last,
                last_but_one,
            });
        }
    }

    /// The same steps by a clock that starts over elsewhere: only those against its direction are others then. `None` where
    /// more is another.
    pub fn by(&self, clock: &Clock) -> Option<Self> {
        let (mask, direction, _) = self.clock;
        if self.clock == identity(clock) {
            return Some(self.clone());
        }
        let range = range(clock);
        let most = self.blocks.iter().map(|block| block.forward).max().unwrap_or(0);
        let is_small = |range: u64| most < range.saturating_sub(little(range));
        let all_kept = self.turns.len() as u64 == self.backs.count;
        if (clock.mask, clock.direction) != (mask, direction) || !all_kept || !is_small(range) || !is_small(self.range)
        {
            return None;
        }
        let before = super::order::rough_clock(mask, direction);
        let before = Clock { period: self.clock.2, ..before };
        let mut this = Self { clock: identity(clock), range, ..self.clone() };
        this.blocks.iter_mut().for_each(|block| block.longest = block.forward);
        for Turn { block, stamps: (from, to) } in &self.turns {
            let (was, is) = (before.step(*from, *to), clock.step(*from, *to));
            let block = this.blocks.get_mut(*block)?;
            block.longest = block.longest.max(is);
            block.elapsed = block.elapsed.wrapping_sub(was).wrapping_add(is);
            this.elapsed = this.elapsed.wrapping_sub(was).wrapping_add(is);
            let n = this.sizes.get_mut(size(was, self.range))?;
            *n = n.checked_sub(1)?;
            *this.sizes.get_mut(size(is, range))? += 1;
        }
        Some(this)
    }

    pub const fn direction(&self) -> Direction {
        self.clock.1
    }

    /// Which way the stamps go, one after the other.
    pub const fn votes(&self) -> Votes {
        let Backwards { count: against, .. } = self.backs;
        let steps = self.events.saturating_sub(1);
        let with = steps.wrapping_sub(against).wrapping_sub(self.zeros);
        match self.clock.1 {
            Direction::Up => Votes { up: with, down: against },
            Direction::Down => Votes { up: against, down: with },
        }
    }

    /// The longest step of all.
    pub fn longest(&self) -> Option<u64> {
        let most = self.blocks.iter().map(|block| block.longest).max();
        most.filter(|_| self.events > 1)
    }

    /// True where the newest stamp is more than half the clock's range behind the one before it.
    pub fn ends_with_jump(&self, clock: &Clock) -> bool {
        self.events > 1 && clock.step(self.last_but_one, self.last.stamp) > range(clock) >> 1
    }

    /// What steps are ordinary. `None` where long steps are nothing out of the ordinary.
    pub fn scale(&self) -> Option<Scale> {
        let events = self.events;
        if events < FEWEST {
            return None;
        }
        let allowed = (events / EXCEPTIONS).clamp(2, MAX_EXCEPTIONS);
        let sizes = || (0..65u32).zip(self.sizes.iter().copied());
        let bits = reaches(allowed, sizes().rev())?;
        let middle = reaches(events / 2, sizes())?;
        let usual = 1u64.checked_shl(bits)?;
        let nested = 1u64.checked_shl(middle + 1)?;
        let most = self.range >> 3;
        let big = 1u64.checked_shl(bits + FACTOR).unwrap_or(u64::MAX).min(most);
        (bits > 0 && usual <= most).then_some(Scale { big, usual, nested })
    }
}

/// The number of bits of a step; of a small one back those of its distance.
#[inline(always)]
fn size(step: u64, range: u64) -> usize {
    let back = range.saturating_sub(step);
    let long = if back <= little(range) { back } else { step };
    (u64::BITS - long.leading_zeros()) as usize
}

/// The size at which a sum of counts goes above `limit`.
fn reaches(limit: u64, mut sizes: impl Iterator<Item = (u32, u64)>) -> Option<u32> {
    let mut sum = 0u64;
    sizes.find_map(|(bits, count)| {
        sum += count;
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
