//! The arguments of rows as they were written before. A trace holds the same calls again and again, and a line that is full
//! shows the first of their words alone: rows that differ in none that they show have the same arguments.

use crate::trace::{ContextId, DefId, Event};

/// How many are kept: a power of two.
const PLACES: usize = 1024;
/// Longer ones are not worth their room.
const LONGEST: usize = 512;
/// Words of a payload that are looked at: those of all events that lie in place.
const WORDS: usize = 4;

/// What decides how arguments are written, beside their words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Key {
    def: Option<DefId>,
    context: ContextId,
    isr: Option<u32>,
    doubtful: u8,
    /// The column behind what is written, and the spaces that are owed.
    column: (usize, usize),
}

impl Key {
    /// Of an event's arguments, where the line has come to this column and owes so many spaces.
    #[inline]
    pub fn of(event: &Event, column: (usize, usize)) -> Self {
        let Event { def, context, isr, doubtful, .. } = *event;
        Self { def, context, isr, doubtful, column }
    }
}

/// The arguments of one row.
#[derive(Debug, Default, Clone)]
struct Tail {
    key: Option<Key>,
    words: [u64; WORDS],
    /// Bit n set: word n decides.
    looked: u8,
    bytes: Vec<u8>,
}

/// The arguments written last.
#[derive(Debug, Default)]
pub(super) struct Tails(Vec<Tail>);

/// All words of an event, where they are as many as can be kept.
#[inline]
fn all(words: &[u64]) -> Option<&[u64; WORDS]> {
    words.try_into().ok()
}

impl Tails {
    /// Forgets everything.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// The place of an event's arguments: by the word that is shown first.
    #[inline]
    fn place(key: &Key, words: &[u64; WORDS], first: usize) -> usize {
        let def = u64::from(key.def.map_or(u32::MAX, |d| d.0));
        let word = words.get(first).copied().unwrap_or(0);
        let mixed = (word ^ def << 40 ^ u64::from(key.context.0) << 52).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        usize::try_from(mixed >> 44).unwrap_or(0) & (PLACES - 1)
    }

    /// What was written for such an event before.
    #[inline]
    pub fn get(&self, key: &Key, words: &[u64], first: usize) -> Option<&[u8]> {
        let words = all(words)?;
        let tail = self.0.get(Self::place(key, words, first)).filter(|t| t.key == Some(*key))?;
        let differs =
            words.iter().zip(&tail.words).enumerate().fold(0u8, |bits, (i, (a, b))| bits | u8::from(a != b) << i);
        (differs & tail.looked == 0).then_some(&tail.bytes)
    }

    /// Keeps what was written; `looked` has a bit for each word that decided it.
    pub fn put(&mut self, key: &Key, words: &[u64], first: usize, looked: u8, bytes: &[u8]) {
        let Some(words) = all(words).filter(|_| bytes.len() <= LONGEST) else { return };
        if self.0.is_empty() {
            self.0.resize(PLACES, Tail::default());
        }
        if let Some(tail) = self.0.get_mut(Self::place(key, words, first)) {
            (tail.key, tail.words, tail.looked) = (Some(*key), *words, looked);
            tail.bytes.clear();
            tail.bytes.extend_from_slice(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_decides_is_compared_and_nothing_else() {
        let event = Event { def: Some(DefId(7)), ..Event::default() };
        let key = Key::of(&event, (40, 2));
        let mut all = Tails::default();
        assert_eq!(all.get(&key, &[1, 2, 3, 4], 0), None);
        all.put(&key, &[1, 2, 3, 4], 0, 0b0101, b"a=1 c=3");
        assert_eq!(all.get(&key, &[1, 2, 3, 4], 0), Some(&b"a=1 c=3"[..]));
        assert_eq!(all.get(&key, &[1, 9, 3, 9], 0), Some(&b"a=1 c=3"[..]));
        assert_eq!(all.get(&key, &[1, 2, 4, 4], 0), None);
        assert_eq!(all.get(&key, &[1, 2, 3], 0), None);
        for other in [
            Key::of(&event, (41, 2)),
            Key::of(&event, (40, 1)),
            Key::of(&Event { def: None, ..event }, (40, 2)),
            Key::of(&Event { context: ContextId(1), ..event }, (40, 2)),
            Key::of(&Event { isr: Some(15), ..event }, (40, 2)),
            Key::of(&Event { doubtful: 1, ..event }, (40, 2)),
        ] {
            assert_eq!(all.get(&other, &[1, 2, 3, 4], 0), None, "{other:?}");
        }
        all.clear();
        assert_eq!(all.get(&key, &[1, 2, 3, 4], 0), None);
    }
}
