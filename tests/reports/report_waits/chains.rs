//! Chains of waits: each thread has a lock that the one before it waits for.

use std::time::Instant;

use super::*;

/// Thread n of a chain, of priority n + 1, and its lock.
fn member(n: u64) -> (u64, u64) {
    (0x2010_0000 + n * 0x100, n + 1)
}
fn lock(n: u64) -> u64 {
    0x2020_0000 + n * 0x100
}

/// `length` threads take a lock each; then all but the last wait for that of the next, from the end or from the front.
fn chain(length: u64, from_the_end: bool, waits: bool) -> Vec<Entry> {
    let mut list: Vec<Entry> = (0..length).map(|n| get(member(n), 10 * n, lock(n), FOREVER, 0)).collect();
    let order: Vec<u64> = if from_the_end { (0..length - 1).rev().collect() } else { (0..length - 1).collect() };
    // Each gives the processor to the one that waits next, and the last of them to the one that works.
    let next = order.iter().skip(1).copied().chain([length - 1]).collect::<Vec<u64>>();
    for ((at, n), next) in (10 * length..).step_by(10).zip(order).zip(next) {
        let owner = if waits { member(n + 1).0 } else { 0 };
        list.push(get(member(n), at, if waits { lock(n + 1) } else { lock(n) }, FOREVER, owner));
        // Who does not wait for a lock sleeps.
        list.push(suspend(member(n), at + 5, if waits { MUTEX_SUSP } else { 4 }, member(next).0));
    }
    list
}

/// The last of a chain works, and two threads that have nothing to do with it use a lock of their own.
fn work(length: u64, rounds: u64) -> Vec<Entry> {
    let mut list = Vec::new();
    for at in (40 * length..).step_by(100).take(usize::try_from(rounds).unwrap()) {
        list.extend([
            works(member(length - 1), at),
            Entry::isr(member(length - 1).0, 3, at + 10, [0, 15, 0, 0]),
            Entry::isr(member(length - 1).0, 1, at + 15, [TIMER, 4, 0, TIMER]),
            Entry::isr(member(length - 1).0, 4, at + 20, [0, 15, 0, 0]),
            get(T, at + 30, M1, FOREVER, 0),
            put(T, at + 40, M1),
            suspend(T, at + 50, 4, member(length - 1).0),
        ]);
    }
    list
}

#[test]
fn a_chain_of_any_length_works_for_its_first_waiter() {
    for (length, from_the_end) in [(2, true), (3, false), (3, true), (300, false), (300, true)] {
        let mut list = chain(length, from_the_end, true);
        list.extend(work(length, 3));
        let r = inversions(&list);
        assert_eq!(r.rows.len() as u64, length - 1, "{length}");
        // The last one, interrupts and a more urgent thread run: none of them is a culprit, whoever waits.
        for at in 0..r.rows.len() {
            assert_eq!(row(&r, at, "ended culprits deterministic cycle"), "open none true false", "{length} {at}");
        }
        let whole: i64 = cell(&r, 0, "ticks").parse().unwrap();
        let shares = ["owner_ticks", "isr_ticks", "other_ticks"];
        let sum: i64 = shares.iter().map(|name| cell(&r, 0, name).parse::<i64>().unwrap()).sum();
        assert_eq!(sum, whole, "{length}: {:?}", &r.rows[0]);
    }
}

/// Processor time of this thread in nanoseconds; the wall's where the system does not tell.
fn processor_time(began: Instant) -> u128 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let own = text.split_whitespace().next().and_then(|n| n.parse().ok());
    own.unwrap_or_else(|| began.elapsed().as_nanos())
}

#[test]
fn an_event_under_two_hundred_waits_costs_at_most_twice_one_without() {
    let began = Instant::now();
    let time = |waits: bool, rounds: u64| {
        let mut list = chain(200, true, waits);
        list.extend(work(200, rounds));
        let made = trace_of(&list);
        let once = || {
            let before = processor_time(began);
            let r = report_with(&made, Name::Inversions, &Filters::default());
            assert_eq!(r.rows.len(), if waits { 199 } else { 0 });
            processor_time(began) - before
        };
        (0..5).map(|_| once()).min().unwrap()
    };
    // What the chain itself costs at its beginning and end is not a cost of these events.
    let events = |waits: bool| time(waits, 6000).saturating_sub(time(waits, 1000));
    let (with, without) = (events(true), events(false));
    assert!(without > 0, "nothing was measured");
    assert!(with <= 2 * without, "{with} ns with 199 waits open, {without} ns with none");
}
