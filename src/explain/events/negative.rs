//! Calls with a time to wait that is a negative number, as a difference of two times that is computed too late. The kernel takes it for a
//! very long time.

use std::collections::BTreeMap;

use super::MAX_OBJECTS;
use crate::abi::Addr;

/// The first negative number of a word of 32 bits, and the last one that is not `TX_WAIT_FOREVER`.
const NEGATIVE: std::ops::RangeInclusive<u64> = 0x8000_0000..=0xFFFF_FFFE;

/// Such calls of a thread with an object, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NegativeWait {
    /// The time of the last one, in ticks of the kernel, as the kernel takes it.
    pub ticks: u64,
    /// The event of the last one.
    pub seq: u64,
    /// How many there were.
    pub times: u64,
}

/// By the address of the thread and that of the object.
pub type NegativeWaits = BTreeMap<(Addr, Addr), NegativeWait>;

/// True for such a time.
fn is_negative(ticks: u64) -> bool {
    NEGATIVE.contains(&ticks)
}

/// A call of a thread with an object.
pub(super) fn note(all: &mut NegativeWaits, call: (Addr, Addr), ticks: u64, seq: u64) {
    if !is_negative(ticks) {
        all.remove(&call);
    } else if all.len() < MAX_OBJECTS || all.contains_key(&call) {
        let times = all.get(&call).map_or(0, |before| before.times).saturating_add(1);
        all.insert(call, NegativeWait { ticks, seq, times });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A receive until a time that was over took a message each time, and nothing was said of it.
    #[test]
    fn times_that_are_negative_are_counted_until_one_is_not() {
        let mut all = NegativeWaits::new();
        note(&mut all, (1, 2), 0xFFFF_FA06, 5);
        note(&mut all, (1, 2), 0xFFFF_FA07, 9);
        note(&mut all, (1, 3), 0xFFFF_FFFF, 10);
        note(&mut all, (1, 4), 50, 11);
        let last = NegativeWait { ticks: 0xFFFF_FA07, seq: 9, times: 2 };
        assert_eq!(all, NegativeWaits::from([((1, 2), last)]));
        note(&mut all, (1, 2), 5, 12);
        assert!(all.is_empty());
    }
}
