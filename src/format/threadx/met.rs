//! Contexts that were met before: a buffer has few, and each of its events names one.

use crate::abi::Addr;
use crate::trace::ContextId;

/// Logarithm of the number of places.
const BITS: u32 = 4;

/// The contexts met last, each in the place that its word leads to.
#[derive(Default)]
pub(super) struct Met([Option<(Addr, ContextId)>; 1 << BITS]);

impl Met {
    /// The context of this word; `find` looks for one that was not met lately.
    #[inline]
    pub fn get(&mut self, word: Addr, find: impl FnOnce() -> ContextId) -> ContextId {
        // Control blocks lie in rows: the high bits of a product with an odd number spread them.
        let place = word.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - BITS);
        let Some(place) = usize::try_from(place).ok().and_then(|p| self.0.get_mut(p)) else { return find() };
        match place {
            Some((own, id)) if *own == word => *id,
            _ => {
                let id = find();
                *place = Some((word, id));
                id
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_keeps_its_context() {
        let mut met = Met::default();
        // More words than places: they drive each other out.
        for round in 0..3 {
            for n in 0..100u32 {
                let word = 0x2000_0000 + u64::from(n) * 0xB0;
                assert_eq!(met.get(word, || ContextId(n)), ContextId(n), "round {round}");
                assert_eq!(met.get(word, || ContextId(u32::MAX)), ContextId(n));
            }
        }
        assert_eq!(met.get(0, || ContextId(7)), ContextId(7));
    }
}
