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
    fn quantiles_are_within_one_percent(a in numbers(), b in numbers()) {
        let of = |list: &[u64]| {
            let mut all = Histogram::default();
            list.iter().for_each(|n| all.add(*n));
            all
        };
        let mut merged = of(&a);
        merged.merge(&of(&b));
        let mut sorted: Vec<u64> = a.iter().chain(&b).copied().collect();
        sorted.sort_unstable();
        prop_assert_eq!(&merged, &of(&sorted));
        prop_assert_eq!(merged.count(), sorted.len() as u64);
        prop_assert_eq!((merged.min(), merged.max()), (sorted.first().copied(), sorted.last().copied()));
        for percent in [1, 50, 90, 99, 100] {
            let (got, want) = (merged.percentile(percent).unwrap(), exact(&sorted, percent));
            prop_assert!(u128::from(got.abs_diff(want)) * 100 <= u128::from(want), "{percent} %: {got}, not {want}");
        }
        // An empty one changes nothing.
        merged.merge(&Histogram::default());
        prop_assert_eq!(merged, of(&sorted));
    }
}
