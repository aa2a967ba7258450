//! Damage to a capture: by chance, and of the kinds that memory, debuggers and people do.

use std::ops::Range;

use crate::dice::Dice;
use crate::places::{Place, Places};

/// What was done to a capture.
#[derive(Clone, Debug, Default)]
pub struct Damage {
    /// In words, for the message of a test that fails.
    pub what: String,
    /// Bytes of the whole capture that are not what and where they were.
    pub touched: Vec<Range<usize>>,
    /// True where events of another time or place were put among those that are here.
    pub mixed: bool,
}

impl Damage {
    pub fn hits(&self, bytes: &Range<usize>) -> bool {
        self.touched.iter().any(|t| t.start < bytes.end && bytes.start < t.end)
    }
}

/// Numbers that counts and sizes should not be.
const HUGE: [u64; 12] = [
    0,
    1,
    0x7F,
    0xFFFF,
    0x7FFF_FFFF,
    0x8000_0000,
    0xFFFF_FFFF,
    0xFFFF_FFF0,
    0x1000_0000,
    u64::MAX,
    u64::MAX - 7,
    1 << 40,
];

/// Damages a capture by chance: truncate, flip, splice, huge counts, one to three of them. `dear` are the places that
/// decide most (headers, tables): one in three goes there.
pub fn by_chance(data: &mut Vec<u8>, others: &[&[u8]], dear: &[Range<usize>], dice: &mut Dice) -> Damage {
    let mut damage = Damage::default();
    for _ in 0..=dice.below(3) {
        let len = data.len();
        if len == 0 {
            break;
        }
        let at = if !dear.is_empty() && dice.once_in(3) {
            let place = &dear[dice.below(dear.len())];
            (place.start + dice.below(place.len())).min(len - 1)
        } else {
            dice.below(len)
        };
        let (what, touched) = match dice.below(8) {
            0 => {
                // Into a header nothing is left to be judged: most dumps are cut somewhere in their second half.
                let at = if dice.once_in(4) { at } else { len - dice.below(len / 2) };
                data.truncate(at);
                (format!("cut at {at:#x}"), at..usize::MAX)
            }
            1..=3 => {
                let bit = dice.below(8);
                data[at] ^= 1 << bit;
                (format!("bit {bit} of {at:#x} flipped"), at..at + 1)
            }
            4 | 5 => {
                let (word, width) = (HUGE[dice.below(HUGE.len())], [2, 4, 8][dice.below(3)]);
                let at = at & !(width - 1);
                let end = (at + width).min(len);
                let bytes = if dice.once_in(2) { word.to_le_bytes() } else { (word << (64 - 8 * width)).to_be_bytes() };
                data[at..end].copy_from_slice(&bytes[..end - at]);
                (format!("{word:#x} in {width} bytes at {at:#x}"), at..end)
            }
            _ => {
                let other = others[dice.below(others.len())];
                let from = dice.below(other.len());
                let part = &other[from..other.len().min(from + 1 + dice.below(200))];
                let over = if dice.once_in(4) { 0 } else { part.len() };
                let end = len.min(at + over);
                data.splice(at..end, part.iter().copied());
                let moved = data.len() != len;
                (
                    format!("{} bytes in place of {} at {at:#x}", part.len(), end - at),
                    at..if moved { usize::MAX } else { end },
                )
            }
        };
        damage.what.push_str(&format!("{}{what}", if damage.what.is_empty() { "" } else { ", " }));
        damage.touched.push(touched);
    }
    damage
}

/// A capture that is being damaged, and others that parts may come from.
pub struct Scene<'s> {
    pub data: Vec<u8>,
    pub places: &'s Places,
    pub others: &'s [(&'s [u8], &'s Places)],
    pub dice: Dice,
}

type Mutator = fn(&mut Scene) -> Option<Damage>;

/// Single damages, by name. One that has nothing to hit in a capture damages a word instead.
pub const MUTATORS: &[(&str, Mutator)] = &[
    ("one bit", |s| s.bit()),
    ("one byte", |s| s.byte()),
    ("one word", |s| s.word()),
    ("stamp set back", |s| s.stamp()),
    ("current pointer moved", |s| s.current()),
    ("mask damaged", |s| s.mask()),
    ("end moved", |s| s.end()),
    ("slots shifted", |s| s.shifted()),
    ("captures spliced", |s| s.spliced()),
    ("clock starts over", |s| s.clock()),
    ("older lap", |s| s.older()),
    ("page of zeros", |s| s.zeros()),
    ("cut", |s| s.cut()),
];

impl Scene<'_> {
    /// The single damage of a number.
    pub fn damage(&mut self, number: usize) -> Damage {
        let (name, mutator) = MUTATORS[number % MUTATORS.len()];
        let mut done = mutator(self).or_else(|| self.word()).unwrap();
        done.what = format!("{name}: {}", done.what);
        done
    }

    /// Anywhere, or in the header, or in the ring.
    fn place(&mut self) -> usize {
        let dear = &self.places.dear[self.dice.below(self.places.dear.len())];
        let part = [0..self.data.len(), dear.clone(), self.places.ring.clone()][self.dice.below(3)].clone();
        (part.start + self.dice.below(part.len())).min(self.data.len() - 1)
    }

    fn done(&self, what: String, touched: Range<usize>) -> Option<Damage> {
        Some(Damage { what, touched: vec![touched], mixed: false })
    }

    fn bit(&mut self) -> Option<Damage> {
        let (at, bit) = (self.place(), self.dice.below(8));
        self.data[at] ^= 1 << bit;
        self.done(format!("bit {bit} of {at:#x}"), at..at + 1)
    }

    fn byte(&mut self) -> Option<Damage> {
        let (at, value) = (self.place(), self.dice.below(256) as u8);
        self.data[at] = value;
        self.done(format!("{value:#x} at {at:#x}"), at..at + 1)
    }

    fn word(&mut self) -> Option<Damage> {
        let at = self.place() & !3;
        let end = self.data.len().min(at + 4);
        let value = if self.dice.once_in(2) { self.dice.next() } else { HUGE[self.dice.below(HUGE.len())] } as u32;
        self.data[at..end].copy_from_slice(&value.to_le_bytes()[..end - at]);
        self.done(format!("{value:#x} at {at:#x}"), at..end)
    }

    /// Stores a word, and says so.
    fn store(&mut self, at: &Range<usize>, value: u64) -> Damage {
        let old = self.places.word(&self.data, at);
        self.places.store(&mut self.data, at, value);
        Damage { what: format!("{old:#x} to {value:#x} at {:#x}", at.start), touched: vec![at.clone()], mixed: false }
    }

    /// An event that is shown of the undamaged capture, and has a stamp.
    fn event(&mut self) -> Option<(usize, Place)> {
        let events = &self.places.events;
        let i = self.dice.below(events.len());
        let place = events.get(i)?.clone();
        (place.bytes.start < self.data.len() && !place.stamp.is_empty()).then_some((i, place))
    }

    fn stamp(&mut self) -> Option<Damage> {
        let (_, place) = self.event()?;
        let old = self.places.word(&self.data, &place.stamp);
        let back = match self.dice.below(3) {
            0 => 0,
            1 => old & !(1 << self.dice.below(32)),
            _ => old.saturating_sub(1 << self.dice.below(32)),
        };
        Some(self.store(&place.stamp, back))
    }

    /// One of several words, or all: the header's copy and the kernel's own.
    fn some(&mut self, words: &[Range<usize>]) -> Vec<Range<usize>> {
        let one = self.dice.below(words.len() + 1);
        words.get(one).map_or_else(|| words.to_vec(), |w| vec![w.clone()])
    }

    /// Moves pointers by slots or bytes, not all of them in all cases.
    fn moved(&mut self, words: &[Range<usize>], most: usize) -> Option<Damage> {
        let words = self.some(words);
        let value = self.places.word(&self.data, words.first()?);
        let by = self.dice.below(most);
        let by = if self.dice.once_in(4) { by } else { by / self.places.step * self.places.step };
        let start = self.places.ring.start;
        let target = match self.dice.below(8) {
            0 => HUGE[self.dice.below(HUGE.len())],
            1 => value.wrapping_add(start as u64),
            2..=4 => value.wrapping_add(by as u64),
            _ => value.wrapping_sub(by as u64),
        };
        let mut damage = Damage::default();
        for word in &words {
            let one = self.store(word, target);
            damage.what.push_str(&format!("{} ", one.what));
            damage.touched.extend(one.touched);
        }
        Some(damage)
    }

    fn current(&mut self) -> Option<Damage> {
        self.moved(&self.places.current.clone(), self.places.ring.len())
    }

    fn end(&mut self) -> Option<Damage> {
        let most = if self.dice.once_in(2) { self.places.ring.len() } else { 8 * self.places.step };
        self.moved(&self.places.end.clone(), most)
    }

    fn mask(&mut self) -> Option<Damage> {
        let word = self.places.mask.first()?.clone();
        let old = self.places.word(&self.data, &word);
        let new = match self.dice.below(4) {
            0 => old >> self.dice.below(33),
            1 => self.dice.next() as u32 as u64,
            _ => old & !(1 << self.dice.below(32)),
        };
        Some(self.store(&word, new))
    }

    /// A range of slots within the ring.
    fn range(&mut self, most: usize) -> Option<Range<usize>> {
        let (ring, step) = (&self.places.ring, self.places.step);
        let end = ring.end.min(self.data.len());
        let slots = end.checked_sub(ring.start)? / step;
        let len = 1 + self.dice.below(most.min(slots));
        let first = ring.start + self.dice.below(slots.checked_sub(len)? + 1) * step;
        Some(first..first + len * step)
    }

    fn shifted(&mut self) -> Option<Damage> {
        let part = self.range(32)?;
        let by = (1 + self.dice.below(self.places.step - 1)).min(part.len() - 1);
        let by = if self.dice.once_in(2) { by } else { (by & !3).max(1) };
        if self.dice.once_in(2) {
            self.data.copy_within(part.start + by..part.end, part.start);
        } else {
            self.data.copy_within(part.start..part.end - by, part.start + by);
        }
        self.done(format!("{:#x}..{:#x} by {by}", part.start, part.end), part)
    }

    /// Slots of another capture of the same shape, or of elsewhere in this one.
    fn spliced(&mut self) -> Option<Damage> {
        let part = self.range(64)?;
        let alike = |(_, p): &&(&[u8], &Places)| p.step == self.places.step && p.big == self.places.big;
        let others: Vec<_> = self.others.iter().filter(alike).collect();
        let (bytes, places) = others[self.dice.below(others.len())];
        let slots = (places.ring.end.min(bytes.len()) - places.ring.start) / places.step;
        let from = places.ring.start + self.dice.below(slots) * places.step;
        let len = part.len().min(bytes.len() - from);
        self.data[part.start..part.start + len].copy_from_slice(&bytes[from..from + len]);
        let mut damage = self.done(format!("{len:#x} bytes at {:#x}", part.start), part)?;
        damage.mixed = true;
        Some(damage)
    }

    /// Sets the stamps of some events back by the same.
    fn back(&mut self, events: Range<usize>, by: u64) -> Damage {
        let mut damage = Damage { mixed: true, ..Damage::default() };
        let places = self.places;
        for place in &places.events[events.clone()] {
            if place.stamp.is_empty() || place.stamp.end > self.data.len() {
                continue;
            }
            let old = self.places.word(&self.data, &place.stamp);
            let wide = if place.stamp.len() == 4 { 0xFFFF_FFFF } else { u64::MAX };
            self.places.store(&mut self.data, &place.stamp, old.wrapping_sub(by) & wide);
            damage.touched.push(place.stamp.clone());
        }
        damage.what = format!("events {}..{} by {by:#x}", events.start, events.end);
        damage
    }

    fn clock(&mut self) -> Option<Damage> {
        let (first, place) = self.event()?;
        let old = self.places.word(&self.data, &place.stamp);
        let by = if self.dice.once_in(2) { old } else { old.min(1 << self.dice.below(32)) };
        let mut damage = self.back(first..self.places.events.len(), by);
        // All of them set back are only counted from elsewhere.
        damage.mixed = first > 0;
        Some(damage)
    }

    /// A range of events as they were a lap before.
    fn older(&mut self) -> Option<Damage> {
        let (first, _) = self.event()?;
        let stamp = |p: &Place| self.places.word(&self.data, &p.stamp);
        let ends = self.places.events.first().zip(self.places.events.last())?;
        let lap = stamp(ends.1).wrapping_sub(stamp(ends.0)) & 0xFFFF_FFFF;
        let len = 1 + self.dice.below(40.min(self.places.events.len() - first));
        Some(self.back(first..first + len, lap + 1))
    }

    fn zeros(&mut self) -> Option<Damage> {
        let ring = self.places.ring.start..self.places.ring.end.min(self.data.len());
        let size = [64, 256, 1024, 4096][self.dice.below(4)].min(ring.len() / 2);
        let at = (ring.start + self.dice.below(ring.len() - size)) & !31;
        let at = at.max(ring.start);
        self.data[at..at + size].fill(0);
        self.done(format!("{size} bytes at {at:#x}"), at..at + size)
    }

    fn cut(&mut self) -> Option<Damage> {
        let at =
            if self.dice.once_in(2) { self.place() } else { self.data.len() - self.dice.below(self.data.len() / 2) };
        self.data.truncate(at);
        self.done(format!("at {at:#x}"), at..usize::MAX)
    }
}
