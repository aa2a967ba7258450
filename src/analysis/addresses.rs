//! Maps by address, for what is looked up at every event.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};

use crate::abi::Addr;

/// A map by address.
pub type ByAddress<T> = HashMap<Addr, T, Keyed>;

/// Hashes one number by one multiplication. The keys are drawn for each map: a trace made to collide does not know them.
#[derive(Debug, Clone, Copy)]
pub struct Keyed(u64, u64);

impl Default for Keyed {
    fn default() -> Self {
        let random = RandomState::new();
        Self(random.hash_one(0u8), random.hash_one(1u8) | 1)
    }
}

impl BuildHasher for Keyed {
    type Hasher = Folded;

    #[inline]
    fn build_hasher(&self) -> Folded {
        Folded { keys: *self, state: 0 }
    }
}

/// The product of number and key, both halves of it.
#[derive(Debug)]
pub struct Folded {
    keys: Keyed,
    state: u64,
}

impl Hasher for Folded {
    #[inline]
    fn write_u64(&mut self, n: u64) {
        let product = u128::from(self.state ^ n ^ self.keys.0).wrapping_mul(u128::from(self.keys.1));
        #[allow(clippy::cast_possible_truncation, reason = "both halves are taken")]
        let folded = product as u64 ^ (product >> 64) as u64;
        self.state = folded;
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|b| self.write_u64(u64::from(*b)));
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_told_apart_and_spread() {
        let mut map: ByAddress<u64> = ByAddress::default();
        for n in 0..10_000u64 {
            map.insert(0x2000_0000 + n * 0x100, n);
        }
        assert_eq!(map.len(), 10_000);
        assert!((0..10_000u64).all(|n| map.get(&(0x2000_0000 + n * 0x100)) == Some(&n)));
        // Of many keys a few spread these addresses badly; most do not.
        let places = |keys: Keyed| {
            let low = (0..4096u64).map(|n| keys.hash_one(0x2000_0000 + n * 0x100) & 0xFFF);
            low.collect::<std::collections::HashSet<u64>>().len()
        };
        let mut all: Vec<usize> = (0..15).map(|_| places(Keyed::default())).collect();
        all.sort_unstable();
        assert!(all[7] > 1024, "{all:?} of 4096 places");
    }
}
