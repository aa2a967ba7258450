//! Quantiles beside sorted numbers.

use super::*;

/// The number of this rank among all.
fn exact(sorted: &[u64], percent: u8) -> u64 {
    sorted[(sorted.len() * usize::from(percent)).div_ceil(100).max(1) - 1]
}

fn numbers() -> impl Strategy<Value = Vec<u64>> {
    let number = prop_oneof![0u64..200, 0u64..100_000, any::<u32>().prop_map(u64::from), any::<u64>(), Just(u64::MAX)];
    prop::collection::vec(number, 1..300)
}

proptest! {
    #[test]
    fn quantiles_are_within_one_percent(mut list in numbers()) {
        let mut all = Histogram::default();
        list.iter().for_each(|n| all.add(*n));
        list.sort_unstable();
        prop_assert_eq!(all.count(), list.len() as u64);
        prop_assert_eq!((all.min(), all.max()), (list.first().copied(), list.last().copied()));
        for percent in [1, 50, 90, 99, 100] {
            let (got, want) = (all.percentile(percent).unwrap(), exact(&list, percent));
            prop_assert!(u128::from(got.abs_diff(want)) * 100 <= u128::from(want), "{percent} %: {got}, not {want}");
        }
    }
}
