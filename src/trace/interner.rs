//! Dense numbers for words of the target: addresses of threads and objects.

use std::hash::{BuildHasher as _, RandomState};

/// The number that marks an empty place.
const EMPTY: u32 = u32::MAX;

/// A map from words to numbers: open addressing in one block of memory. Its hash has a random seed, so that a trace
/// cannot be made to fill one corner of it.
#[derive(Debug, Clone)]
pub struct Interner {
    /// A power of two of them, at most half of them taken.
    places: Vec<(u64, u32)>,
    len: usize,
    seed: u64,
}

impl Default for Interner {
    fn default() -> Self {
        Self { places: Vec::new(), len: 0, seed: RandomState::new().hash_one(0u8) | 1 }
    }
}

impl Interner {
    /// The number of a word that was inserted before.
    #[must_use]
    #[inline]
    pub fn get(&self, word: u64) -> Option<u32> {
        self.place(word).and_then(|at| self.places.get(at)).filter(|(_, number)| *number != EMPTY).map(|(_, n)| *n)
    }

    /// Gives a word a number, in place of the one that it may have had.
    pub fn insert(&mut self, word: u64, number: u32) {
        if self.len.saturating_mul(2) >= self.places.len() {
            let size = self.places.len().saturating_mul(2).max(16);
            let old = std::mem::replace(&mut self.places, vec![(0, EMPTY); size]);
            self.len = 0;
            for (word, number) in old.into_iter().filter(|(_, number)| *number != EMPTY) {
                self.put(word, number);
            }
        }
        self.put(word, number);
    }

    fn put(&mut self, word: u64, number: u32) {
        if let Some(place) = self.place(word).and_then(|at| self.places.get_mut(at)) {
            self.len = self.len.saturating_add(usize::from(place.1 == EMPTY));
            *place = (word, number);
        }
    }

    /// Where a word is, or would be put.
    #[inline]
    fn place(&self, word: u64) -> Option<usize> {
        let last = self.places.len().checked_sub(1)?;
        let mixed = (word ^ self.seed).wrapping_mul(0x9E37_79B9_7F4A_7C15 ^ (self.seed << 1));
        let mut at = usize::try_from(mixed >> 32).unwrap_or(0) & last;
        loop {
            let (own, number) = self.places.get(at)?;
            if *own == word || *number == EMPTY {
                return Some(at);
            }
            at = at.wrapping_add(1) & last;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_keeps_its_number() {
        let mut all = Interner::default();
        assert_eq!(all.get(0), None);
        let words: Vec<u64> = (0..5000u64).map(|n| 0x2000_0000 + n * 0xB0).chain([0, u64::MAX]).collect();
        for (n, word) in (0..).zip(&words) {
            all.insert(*word, n);
        }
        assert!((0..).zip(&words).all(|(n, word)| all.get(*word) == Some(n)));
        assert_eq!(all.get(0x2000_0001), None);
        all.insert(0, 7);
        assert_eq!(all.get(0), Some(7));
    }
}
