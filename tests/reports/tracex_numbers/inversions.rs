//! Inversions.

use super::*;

fn get(thread: u64, priority: u64, stamp: u64, mutex: u64, owner: u64) -> Entry {
    Entry::thread(thread, priority, GET, stamp, [mutex, u64::from(u32::MAX), owner, u64::from(owner != 0)])
}

fn put(thread: u64, priority: u64, stamp: u64, mutex: u64) -> Entry {
    Entry::thread(thread, priority, PUT, stamp, [mutex, thread, 1, 0x2001_0100])
}

fn ranges(n: &Numbers) -> Vec<(u64, u64, u64)> {
    n.inversion_ranges.iter().map(|i| (i.start, i.end, i.bad_end)).collect()
}

#[test]
fn two_inversions() {
    let n = of(&[
        get(GAMMA, 20, 0, MUTEX, 0),
        get(GAMMA, 20, 10, OTHER, 0),
        get(ALPHA, 5, 20, MUTEX, GAMMA),
        get(BETA, 6, 30, OTHER, GAMMA),
        put(GAMMA, 20, 40, OTHER),
        put(GAMMA, 20, 50, MUTEX),
        user(ALPHA, 5, 60),
        user(BETA, 6, 70),
    ]);
    // Beta, less urgent than alpha, also closes alpha's window: it was the other's start that was remembered.
    assert_eq!(n.inversions, 2);
    assert_eq!(n.inversion_ranges.len(), 1, "the other lost its start");
    assert_eq!(n.inversion_ranges[0].start, 3);
}

#[test]
fn a_third_thread_makes_an_inversion_undeterministic() {
    let n = of(&[
        get(GAMMA, 20, 0, MUTEX, 0),
        get(ALPHA, 5, 10, MUTEX, GAMMA),
        user(BETA, 9, 20),
        put(GAMMA, 20, 30, MUTEX),
        user(ALPHA, 5, 40),
    ]);
    assert_eq!((n.inversions, n.bad_inversions, ranges(&n)), (1, 1, vec![(1, 0, 4)]));
    let n = of(&[
        get(GAMMA, 20, 0, MUTEX, 0),
        get(ALPHA, 5, 10, MUTEX, GAMMA),
        user(BETA, 5, 20),
        put(GAMMA, 20, 30, MUTEX),
        user(ALPHA, 5, 40),
    ]);
    assert_eq!((n.inversions, n.bad_inversions, ranges(&n)), (1, 0, vec![(1, 4, 0)]), "one of equal priority does not");
}

#[test]
fn inv_timeout() {
    let n = of(&[
        get(GAMMA, 20, 0, MUTEX, 0),
        get(ALPHA, 5, 10, MUTEX, GAMMA),
        Entry::thread(ALPHA, 5, SUSPEND, 11, [ALPHA, 13, 0x2001_0100, GAMMA]),
        user(GAMMA, 20, 20),
        // The wait is given up, and everything after it goes well; the window stays open until the mutex is put.
        Entry::isr(GAMMA, RESUME, 30, [ALPHA, 13, 0, ALPHA]),
        user(ALPHA, 5, 40),
        Entry::thread(ALPHA, 5, SUSPEND, 50, [ALPHA, 4, 0x2001_0100, GAMMA]),
        put(GAMMA, 20, 60, MUTEX),
    ]);
    assert_eq!((n.inversions, n.bad_inversions), (1, 0));
    assert_eq!(ranges(&n), [(1, 7, 0)], "it ended at 4");
}

#[test]
fn inversion_high_addr() {
    const HIGH: u64 = 0xFFF8_1000;
    let mut objects = registry();
    objects[0].pointer = HIGH;
    let n = by_registry(
        objects,
        &[get(GAMMA, 20, 0, MUTEX, 0), get(HIGH, 5, 10, MUTEX, GAMMA), put(GAMMA, 20, 30, MUTEX), user(HIGH, 5, 40)],
    );
    assert_eq!((n.inversions, n.bad_inversions), (0, 0), "there is 1");
    assert_eq!(n.threads[0].states, [(0, 0)], "its state stays unknown");
}

#[test]
fn mutexes_without_a_name_share_a_window() {
    let events = [
        get(GAMMA, 20, 0, 0x1111, 0),
        get(GAMMA, 20, 10, 0x2222, 0),
        get(ALPHA, 5, 20, 0x1111, GAMMA),
        get(BETA, 5, 30, 0x2222, GAMMA),
    ];
    assert_eq!(of(&events).inversions, 1, "there are 2");
}
