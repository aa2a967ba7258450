//! Payloads that do not fit into an event.

/// Words of many payloads, one behind the other.
#[derive(Debug, Default)]
pub struct Arena {
    words: Vec<u64>,
    /// Where each payload begins, and how many words it has.
    places: Vec<(u32, u32)>,
}

impl Arena {
    /// The words of a payload; none for a number that [`Arena::push`] did not give.
    pub fn get(&self, number: u32) -> &[u64] {
        let words = || {
            let (start, len) = *self.places.get(usize::try_from(number).ok()?)?;
            let start = usize::try_from(start).ok()?;
            self.words.get(start..start.checked_add(usize::try_from(len).ok()?)?)
        };
        words().unwrap_or(&[])
    }

    /// Adds a payload; its number, or `None` where there is no room for it.
    pub fn push(&mut self, words: &[u64]) -> Option<u32> {
        let number = u32::try_from(self.places.len()).ok()?;
        self.places.push((u32::try_from(self.words.len()).ok()?, u32::try_from(words.len()).ok()?));
        self.words.extend_from_slice(words);
        Some(number)
    }
}
