//! Reports of traces whose clock is not time: one stamp for all events, a count of events, a counter that stops in sleep.
//! The reason is beside each table, and what cannot be known is not shown as known.

#![cfg(feature = "cli")]

use crate::support;
use crate::support::builder::{Buffer, Entry, Registered};
use crate::support::machine::{Scratch, tx_trace};
use crate::support::simulated::{Kernel, STACK_SIZE, Setup, Who, stack};
use crate::support::threadx::{BASE, codes, decode, issue, steady, thread};
use tx_trace::analysis::{Name, ReportRequest, reports};
use tx_trace::catalogue::{Catalogue, Names};
use tx_trace::query::{Filters, Query};
use tx_trace::report::{Cell, Report, ThreadTime};
use tx_trace::trace::{Counts, Trace};

const HIGH: u64 = 0x2000_1000;
const MID: u64 = 0x2000_1100;
const LOW: u64 = 0x2000_1200;
const MUTEX: u64 = 0x2000_2000;

fn report(trace: &Trace, name: Name, of: &str) -> Report {
    let catalogue = Catalogue::threadx(Names::Duo);
    let query = Query::compile(&Filters::default(), trace, &catalogue).unwrap();
    let all =
        reports(trace, &catalogue, &query, &ReportRequest { names: vec![name], ..ReportRequest::default() }).unwrap();
    all.into_iter().find(|r| r.name == of).unwrap()
}

fn cell<'r>(report: &'r Report, row: usize, column: &str) -> &'r Cell {
    let at = report.columns.iter().position(|c| c.name == column).unwrap_or_else(|| panic!("no {column}"));
    &report.rows[row][at]
}

/// `low` has a mutex, `high` waits for it, and `mid`, which has nothing to do with it, runs. Twenty events.
fn inversion(stamp: impl Fn(u64) -> u64) -> Buffer {
    let (h, m, l) = ((HIGH, 4), (MID, 10), (LOW, 20));
    let event = |who: (u64, u64), id, info| Entry::thread(who.0, who.1, id, 0, info);
    let mut list = vec![
        event(l, 52, [MUTEX, 0xFFFF_FFFF, 0, 0]),
        event(l, 1, [HIGH, 4, 0, HIGH]),
        event(h, 52, [MUTEX, 0xFFFF_FFFF, LOW, 1]),
        event(h, 2, [HIGH, 13, 0, LOW]),
        event(l, 5000, [0; 4]),
        event(l, 1, [MID, 4, 0, MID]),
    ];
    list.extend((0..8).map(|i| event(m, 5001, [i, 0, 0, 0])));
    list.push(event(m, 2, [MID, 4, 0, LOW]));
    list.push(event(l, 57, [MUTEX, LOW, 1, 0]));
    list.push(event(l, 1, [HIGH, 13, 0, HIGH]));
    list.extend((0..3).map(|i| event(h, 5002, [i, 0, 0, 0])));
    list.iter_mut().zip(0..).for_each(|(e, i)| e.stamp = stamp(i));
    let objects = vec![thread(HIGH, "high", 4), thread(MID, "mid", 10), thread(LOW, "low", 20)];
    Buffer { objects, ..Buffer::new(BASE) }.record(list.len() + 1, &list)
}

/// Every report that has ticks.
const TIMED: [(Name, &str); 4] = [
    (Name::Profile, "profile"),
    (Name::Blocked, "blocked"),
    (Name::Latency, "latency_threads"),
    (Name::Inversions, "inversions"),
];

#[test]
fn a_clock_that_stands_still_gave_shares_of_0_and_a_culprit_nobody_named() {
    let t = decode(&inversion(|_| 7));
    assert_eq!(t.clock.counts, Counts::Nothing);
    for (name, of) in TIMED {
        let report = report(&t, name, of);
        assert!(!report.rows.is_empty(), "{of}");
        assert!(report.notes[0].contains("does not advance"), "{of}: {:?}", report.notes);
        assert!(report.notes.iter().all(|n| !n.contains("0 ticks")), "{of}: {:?}", report.notes);
        let ticks = report.rows.iter().flatten().filter(|c| matches!(c, Cell::Ticks(_)));
        assert_eq!(ticks.count(), 0, "{of} shows ticks");
    }
    let profile = report(&t, Name::Profile, "profile");
    assert!((0..profile.rows.len()).all(|row| *cell(&profile, row, "share") == Cell::Empty));
    for (name, of) in [(Name::Blocked, "blocked"), (Name::Latency, "latency_threads")] {
        assert_eq!(*cell(&report(&t, name, of), 0, "max_seq"), Cell::Empty, "{of}: no event ended the longest");
    }
    // Who ran meanwhile is known by the order of the events.
    let inversions = report(&t, Name::Inversions, "inversions");
    assert_eq!(*cell(&inversions, 0, "deterministic"), Cell::Flag(false));
    assert_eq!(*cell(&inversions, 0, "culprit"), Cell::named(MID, Some("mid".to_owned())));
    let mid = ThreadTime { address: MID, name: Some("mid".to_owned()), ticks: None };
    assert_eq!(*cell(&inversions, 0, "culprits"), Cell::ThreadTimes([mid].into()));
}

#[test]
fn a_count_of_events_was_shown_as_time() {
    let t = decode(&inversion(|i| 40 + i));
    assert_eq!(t.clock.counts, Counts::Events(1));
    assert!(issue(&t, "clock-counts-events").message.contains("no time is known"));
    for (name, of) in TIMED {
        let report = report(&t, name, of);
        assert!(report.notes[0].contains("counts events"), "{of}: {:?}", report.notes);
    }
    let profile = report(&t, Name::Profile, "profile");
    assert!((0..profile.rows.len()).all(|row| *cell(&profile, row, "share") == Cell::Empty));
    let inversions = report(&t, Name::Inversions, "inversions");
    // From its suspension, the fourth event, to the one that gives the mutex back, the sixteenth.
    assert_eq!(*cell(&inversions, 0, "ticks"), Cell::Ticks(12));
    assert!(inversions.notes.iter().any(|n| n.contains("12 events")), "{:?}", inversions.notes);
    assert!(inversions.notes.iter().all(|n| !n.contains("12 ticks")), "{:?}", inversions.notes);
}

#[test]
fn a_time_is_no_count_and_has_no_such_note() {
    let t = decode(&inversion(|i| 40 + i * 30 + i * i % 7));
    assert_eq!(t.clock.counts, Counts::Time);
    for (name, of) in TIMED {
        assert!(report(&t, name, of).notes.iter().all(|n| !n.contains("the clock")), "{of}");
    }
}

/// One damaged stamp, a slot without an event, or a slot overwritten, and the rest still counts events.
#[test]
fn one_odd_step_made_a_count_of_events_a_time() {
    let mut list = steady(100, 1000, 1);
    list[40].stamp ^= 0x100;
    let t = decode(&Buffer::new(BASE).record(128, &list));
    assert_eq!(t.clock.counts, Counts::Events(1));
    let mut b = Buffer::new(BASE).record(100, &steady(100, 1000, 1));
    (b.slots[40], b.slots[41], b.slots[70]) = (Entry::UNUSED, Entry::UNUSED, Entry::UNUSED);
    assert_eq!(decode(&b).clock.counts, Counts::Events(1));
    let thousands = decode(&Buffer::new(BASE).record(1024, &steady(900, 1000, 1000)));
    assert_eq!(thousands.clock.counts, Counts::Events(1000));
    // A clock as slow as the events is a clock.
    let slow: Vec<Entry> = steady(100, 0, 1).into_iter().map(|e| Entry { stamp: e.stamp * 6 / 5, ..e }).collect();
    assert_eq!(decode(&Buffer::new(BASE).record(128, &slow)).clock.counts, Counts::Time);
}

#[test]
fn tables_of_a_count_of_events_say_events_in_their_heads() {
    let folder = Scratch::new("report-clock-heads");
    let path = |name: &str| folder.path(name).to_str().unwrap().to_owned();
    let (count, still) = (path("count.trx"), path("still.trx"));
    std::fs::write(&count, inversion(|i| 40 + i).bytes()).unwrap();
    std::fs::write(&still, inversion(|_| 7).bytes()).unwrap();
    let say = |words: &[&str]| {
        let out = tx_trace(words);
        assert!(out.status.success(), "{words:?}");
        String::from_utf8([out.stdout, out.stderr].concat()).unwrap()
    };
    let profile = say(&["profile", "--trace", &count, "--hz", "1M"]);
    assert!(profile.lines().next().unwrap().contains("events"), "{profile}");
    assert!(profile.contains("--hz is not used"), "{profile}");
    let latency = say(&["latency", "--width", "200", "--trace", &count]);
    assert!(latency.contains("max events") && !latency.contains("--hz"), "{latency}");
    let json = say(&["profile", "--trace", &count, "--format", "json"]);
    assert!(json.contains(r#""code":"clock-counts-events""#) && json.contains(r#""share":null"#), "{json}");
    let json = say(&["profile", "--trace", &still, "--format", "json"]);
    assert!(json.contains(r#""ticks":null,"share":null"#) && json.contains(r#""code":"clock-stopped""#), "{json}");
    let csv = say(&["profile", "--trace", &still, "--format", "csv"]);
    assert!(csv.contains("low,thread,,"), "{csv}");
    let list = say(&["list", "--trace", &still, "--width", "200"]);
    assert!(list.contains("(blocked, woken by low)") && !list.contains("0 ticks"), "{list}");
    let info = say(&["info", "--trace", &still]);
    assert!(!info.contains("0 ticks"), "{info}");
    let info = say(&["info", "--trace", &count]);
    assert!(!info.contains("--hz"), "{info}");
}

/// A run of the simulated kernel, whose clock goes on while the processor is idle, or stops then.
fn kernel(seed: u64, stops: bool) -> (Trace, f64) {
    let setup = Setup {
        seed,
        threads: 3 + (seed % 5) as usize,
        announced: seed % 4 != 3,
        inheritance: false,
        timers_in_isr: seed.is_multiple_of(5),
        interrupts_in_calls: seed.is_multiple_of(2),
        events: 1500,
    };
    let kernel = Kernel::run(setup);
    let idle: Vec<(u64, u64)> =
        kernel.account.segments.iter().filter(|s| s.who == Who::Idle).map(|s| (s.from, s.to)).collect();
    let first = kernel.events[0].stamp;
    let last = kernel.events.last().unwrap().stamp;
    let all: u64 = idle.iter().map(|(from, to)| to.min(&last).saturating_sub(*from)).sum();
    let asleep = |stamp: u64| -> u64 { idle.iter().map(|(from, to)| stamp.min(*to).saturating_sub(*from)).sum() };
    let mut events = kernel.events.clone();
    if stops {
        events.iter_mut().for_each(|e| e.stamp -= asleep(e.stamp));
    }
    let registered = |(i, t): (usize, &support::simulated::Thread)| Registered {
        params: [stack(i), STACK_SIZE],
        ..thread(t.address, "t", t.own as u16)
    };
    let objects: Vec<Registered> = kernel.threads.iter().enumerate().map(registered).collect();
    let buffer = Buffer { objects, ..Buffer::new(BASE) }.record(events.len() + 1, &events);
    (decode(&buffer), all as f64 / (last - first) as f64)
}

/// DWT's cycle counter stops in WFI on many Cortex-M, and the cycle counter of RISC-V cores, too. Sleeps and
/// `tx_time_get` show it where no interrupt announces itself as SysTick.
#[test]
fn a_counter_that_stops_in_sleep_was_believed_where_no_systick_was_announced() {
    let (mut found, mut idle) = (0, 0);
    for seed in 0..200 {
        let (goes_on, share) = kernel(seed, false);
        assert!(!codes(&goes_on).contains(&"clock-sleeps"), "seed {seed}: the clock goes on: {:?}", goes_on.issues);
        if share > 0.4 {
            idle += 1;
            let (stops, _) = kernel(seed, true);
            found += u32::from(stops.clock.counts == Counts::AwakeTime);
        }
    }
    assert!(idle > 20, "only {idle} runs are idle for long");
    assert!(found * 10 >= idle * 8, "{found} of {idle} runs");
}
