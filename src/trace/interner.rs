//! Dense numbers for words of the target: addresses of threads and objects.

#![expect(clippy::arithmetic_side_effects, reason = "numbers of words that are held")]

use std::hash::{BuildHasher, RandomState};

/// Gives each word a number, from 0, in the order in which they come: open addressing in two blocks of memory.
#[derive(Debug, Clone)]
pub struct Interner {
    words: Vec<u64>,
    /// By hash: the number of the word plus one; 0 where the slot is free. At most four of five slots are taken.
    slots: Vec<u32>,
    /// Drawn for each table: a trace that is made to collide does not know them.
    keys: (u64, u64),
}

impl Default for Interner {
    fn default() -> Self {
        let random = RandomState::new();
        Self { words: Vec::new(), slots: vec![0; 64], keys: (random.hash_one(0u8), random.hash_one(1u8) | 1) }
    }
}

impl Interner {
    /// With room for so many words: a list that grows leaves blocks of memory behind.
    pub fn with_room(words: usize) -> Self {
        let slots = vec![0; (words.saturating_mul(5) / 4).next_power_of_two().max(64)];
        Self { words: Vec::with_capacity(words), slots, ..Self::default() }
    }

    /// The slot in which a word is, or which is free for it.
    #[inline]
    fn slot(&self, word: u64) -> usize {
        let product = u128::from(word ^ self.keys.0).wrapping_mul(u128::from(self.keys.1));
        #[allow(clippy::cast_possible_truncation, reason = "both halves are taken")]
        let hash = product as u64 ^ (product >> 64) as u64;
        let last = self.slots.len() - 1;
        let mut at = usize::try_from(hash & u64::from(u32::MAX)).unwrap_or(0) & last;
        while let Some(number) = self.slots.get(at).and_then(|n| n.checked_sub(1)) {
            if self.word(number) == Some(word) {
                break;
            }
            at = at.wrapping_add(1) & last;
        }
        at
    }

    /// The number of a word that was added before.
    #[inline]
    pub fn find(&self, word: u64) -> Option<u32> {
        self.slots.get(self.slot(word))?.checked_sub(1)
    }

    /// The number of a word, which is added where it is new.
    #[inline]
    pub fn intern(&mut self, word: u64) -> u32 {
        let slot = self.slot(word);
        match self.slots.get(slot).and_then(|n| n.checked_sub(1)) {
            Some(number) => number,
            None => self.add(word, slot),
        }
    }

    #[cold]
    fn add(&mut self, word: u64, slot: usize) -> u32 {
        self.words.push(word);
        let next = u32::try_from(self.words.len()).unwrap_or(u32::MAX);
        if let Some(free) = self.slots.get_mut(slot) {
            *free = next;
        }
        if self.words.len() > self.slots.len() / 5 * 4 {
            self.grow();
        }
        next - 1
    }

    fn grow(&mut self) {
        self.slots = vec![0; self.slots.len() * 2];
        for (number, at) in (1u32..).zip(0..self.words.len()) {
            let slot = self.words.get(at).map_or(usize::MAX, |word| self.slot(*word));
            if let Some(free) = self.slots.get_mut(slot) {
                *free = number;
            }
        }
    }

    /// The word of a number.
    #[inline]
    pub fn word(&self, number: u32) -> Option<u64> {
        self.words.get(usize::try_from(number).ok()?).copied()
    }

    /// All words, by their numbers.
    pub fn words(&self) -> &[u64] {
        &self.words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_keep_their_numbers() {
        let mut all = Interner::default();
        assert_eq!(all.find(0), None);
        let address = |n: u32| 0x2000_0000 + u64::from(n) * 0x100;
        for n in 0..10_000 {
            assert_eq!(all.intern(address(n)), n);
        }
        assert!((0..10_000).all(|n| all.intern(address(n)) == n && all.find(address(n)) == Some(n)));
        assert_eq!((all.words().len(), all.find(1), all.word(3)), (10_000, None, Some(address(3))));
    }
}
