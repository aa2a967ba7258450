//! Inversions that go on at the end of the trace.

use tx_trace::analysis::tracker::{Step, System};
use tx_trace::analysis::{Consumer, Made};

use super::*;

/// Looks at nothing.
struct Nobody;

impl Consumer for Nobody {
    fn step(&mut self, _: &Step<'_>, _: &System<'_>) {}
}

#[test]
fn inversions_that_go_on_come_first_where_some_have_no_room() {
    let begins = |from: u64| {
        [
            get(L, from + 100, M1, FOREVER, 0),
            Entry::isr(LOW, 3, from + 200, [0, 15, 0, 0]),
            Entry::isr(LOW, 1, from + 210, [HIGH, 4, 0, HIGH]),
            Entry::isr(LOW, 4, from + 220, [0, 15, 0, 0]),
            get(H, from + 300, M1, FOREVER, LOW),
            suspend(H, from + 310, MUTEX_SUSP, LOW),
        ]
    };
    let ends = |from: u64| {
        [
            put(L, from + 700, M1),
            resume(L, from + 710, HIGH, MUTEX_SUSP, HIGH),
            put(H, from + 720, M1),
            suspend(H, from + 730, 4, LOW),
        ]
    };
    let mut list: Vec<Entry> =
        [0, 1000, 2000].into_iter().flat_map(|from| [&begins(from)[..], &ends(from)].concat()).collect();
    list.extend(begins(3000));
    let (trace, catalogue) = trace_of(&list);
    let query = Query::compile(&Filters::default(), &trace, &catalogue).unwrap();
    let request = ReportRequest::of(Name::Inversions);
    // Who looks at them as periods of time takes nothing from the report.
    let (mut made, (ranges, _)) = Made::beside(&trace, &catalogue, &query, &request, &mut Nobody).unwrap();
    assert_eq!(ranges.iter().filter(|one| one.to.is_none()).count(), 1);
    let r = made.report(Name::Inversions, 2).remove(0);
    assert_eq!((cell(&r, 0, "ended"), cell(&r, 1, "ended"), r.more), ("open".to_owned(), "released".to_owned(), 2));
}
