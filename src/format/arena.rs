//! Payloads that do not fit into an event.

use std::ops::Range;

/// Words of many payloads, one after the other.
#[derive(Debug, Default)]
pub struct Arena {
    words: Vec<u64>,
    places: Vec<Range<usize>>,
}

impl Arena {
    /// The words of a payload; none for a number that [`Arena::push`] did not give.
    pub fn get(&self, number: u32) -> &[u64] {
        self.places.get(number as usize).and_then(|place| self.words.get(place.clone())).unwrap_or(&[])
    }

    /// Adds a payload; its number, or `None` where there is no room for it.
    pub fn push(&mut self, words: &[u64]) -> Option<u32> {
        let number = u32::try_from(self.places.len()).ok()?;
        let start = self.words.len();
        self.words.extend_from_slice(words);
        self.places.push(start..self.words.len());
        Some(number)
    }
}
