//! Calls with a time to wait that is a negative number, as a difference of two times that is computed too late. The kernel takes it for a
//! very long time.

use std::collections::BTreeMap;

use super::MAX_OBJECTS;
use crate::abi::Addr;

/// `TX_WAIT_FOREVER`, whatever the width of `ULONG` is.
const FOREVER: u64 = 0xFFFF_FFFF;

/// Such calls of a thread with an object, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NegativeWait {
    /// The time of the last one, in ticks of the kernel, as the kernel takes it.
    pub ticks: u64,
    /// How far it is below zero as a number with a sign.
    pub below: u64,
    /// The event of the last one.
    pub seq: u64,
    /// How many there were.
    pub times: u64,
}

/// By the address of the thread and that of the object.
pub type NegativeWaits = BTreeMap<(Addr, Addr), NegativeWait>;

/// How far below zero a time is as a number with a sign. `most`: the largest number of a `ULONG`.
fn below_zero(ticks: u64, most: u64) -> Option<u64> {
    let is_negative = ticks > most >> 1 && ticks != FOREVER;
    most.checked_sub(ticks)?.checked_add(1).filter(|_| is_negative)
}

/// A call of a thread with an object.
pub(super) fn note(all: &mut NegativeWaits, call: (Addr, Addr), (ticks, most): (u64, u64), seq: u64) {
    let Some(below) = below_zero(ticks, most) else {
        all.remove(&call);
        return;
    };
    if all.len() < MAX_OBJECTS || all.contains_key(&call) {
        let times = all.get(&call).map_or(0, |before| before.times).saturating_add(1);
        all.insert(call, NegativeWait { ticks, below, seq, times });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A receive until a time that was over took a message each time, and nothing was said of it.
    #[test]
    fn times_that_are_negative_are_counted_until_one_is_not() {
        let mut all = NegativeWaits::new();
        let mut calls = |object, ticks, seq| {
            note(&mut all, (1, object), (ticks, u64::from(u32::MAX)), seq);
            all.clone()
        };
        calls(2, 0xFFFF_FA06, 5);
        calls(2, 0xFFFF_FA07, 9);
        calls(3, 0xFFFF_FFFF, 10);
        let last = NegativeWait { ticks: 0xFFFF_FA07, below: 1529, seq: 9, times: 2 };
        assert_eq!(calls(4, 50, 11), NegativeWaits::from([((1, 2), last)]));
        assert!(calls(2, 5, 12).is_empty());
    }

    /// 2^31 is no negative number where `ULONG` has 8 bytes.
    #[test]
    fn times_of_8_bytes() {
        let below = |ticks| below_zero(ticks, u64::MAX);
        assert_eq!([below(0x8000_0000), below(FOREVER), below(u64::MAX - 4)], [None, None, Some(5)]);
        assert_eq!([below(u64::MAX), below(0)], [Some(1), None]);
    }
}
