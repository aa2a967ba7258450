//! Two cores.

use super::*;

fn on_core(core: u64, mut e: Entry) -> Entry {
    e.id |= core << 24;
    e
}

#[test]
fn on_two_cores_who_runs_beside_the_owner_delays_nobody() {
    // Core 0: high waits for m1 and core 0 idles. Core 1: low, the owner, and then mid in its place.
    let beside = [
        on_core(1, get(L, 100, M1, FOREVER, 0)),
        on_core(0, get(H, 200, M1, FOREVER, LOW)),
        on_core(0, suspend(H, 210, MUTEX_SUSP, MID)),
        on_core(0, works(M, 220)),
        on_core(1, works(L, 300)),
        on_core(0, works(M, 900)),
        on_core(1, put(L, 1000, M1)),
        on_core(1, resume(L, 1010, HIGH, MUTEX_SUSP, 0)),
        on_core(0, works(M, 1100)),
    ];
    let run = |list: &[Entry]| {
        let buffer = Buffer { objects: registry(), ..Buffer::new(BASE) }.record(32, list);
        report_with(&decode(&buffer, &[("cores", 2)]), Name::Inversions, &Filters::default())
    };
    let r = run(&beside);
    assert_eq!(row(&r, 0, WHAT), "high low m1 released 790 2 6 true");
    assert_eq!(row(&r, 0, "owner_ticks culprit_ticks other_ticks"), "790 0 790", "the sum over both cores");
    let instead = [
        on_core(1, get(L, 100, M1, FOREVER, 0)),
        on_core(0, get(H, 200, M1, FOREVER, LOW)),
        on_core(0, suspend(H, 210, MUTEX_SUSP, 0)),
        on_core(1, Entry::isr(LOW, 3, 300, [0, 15, 0, 0])),
        on_core(1, Entry::isr(LOW, 1, 310, [MID, 4, 0, MID])),
        on_core(1, Entry::isr(LOW, 4, 320, [0, 15, 0, 0])),
        on_core(1, works(M, 400)),
        on_core(0, Entry::isr(0, 3, 800, [0, 15, 0, 0])),
        on_core(0, Entry::isr(0, 4, 810, [0, 15, 0, 0])),
        on_core(1, works(M, 1210)),
    ];
    let r = run(&instead);
    assert_eq!(row(&r, 0, WHAT), "high low m1 open 1000 2 - false");
    assert_eq!(row(&r, 0, "owner_ticks culprits"), "90 mid 890");
}
