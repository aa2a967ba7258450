//! `stats`, `services` and `stack`: on traces whose truth is known, on what the firmware counted for itself, on a
//! catalogue that is nobody's, and as people see them.

mod firmware;
mod foreign;
mod parts;

use std::collections::BTreeMap;

use crate::support::builder::{Buffer, Entry, Registered};
use crate::support::decode::{fixture, load, text, threadx};
use crate::support::flat::Flat;
use crate::support::threadx::capture_of;
use tx_trace::analysis::{Name, ReportRequest, reports};
use tx_trace::catalogue::{ArgKind, Effect};
use tx_trace::catalogue::{Catalogue, Effects, EventDef, FieldDef, Names, Product};
use tx_trace::format::{DecodeOptions, Extent};
use tx_trace::query::{Filters, Key, Query};
use tx_trace::report::{Cell, Report};
use tx_trace::trace::Trace;

const BASE: u64 = 0x2000_4000;
const TIMER: u64 = 0x2000_0800;
const ALPHA: u64 = 0x2000_1000;
const BETA: u64 = 0x2000_2000;

// ---- From events to reports ----

fn all_reports(trace: &Trace, catalogue: &Catalogue, filters: &Filters) -> Vec<Report> {
    let query = Query::compile(filters, trace, catalogue).unwrap();
    let names = vec![Name::Stats, Name::Services, Name::Stack];
    reports(trace, catalogue, &query, &ReportRequest { names, ..ReportRequest::default() }).unwrap()
}

fn decode(b: &Buffer, catalogue: &Catalogue, cores: u64) -> Trace {
    let mut memory = Flat::new(b.base, b.bytes());
    let capture = capture_of(&mut memory, b, &[("cores", cores)], Extent::All);
    capture.decode(catalogue, &DecodeOptions::default()).unwrap()
}

fn thread(pointer: u64, name: &str, priority: u16) -> Registered {
    let params = [pointer + 0x1_0000, 0x400];
    Registered { priority: Some(priority), params, ..Registered::new(1, pointer, name) }
}

fn people() -> Vec<Registered> {
    vec![thread(TIMER, "timer", 0), thread(ALPHA, "alpha", 5), thread(BETA, "beta", 9)]
}

fn of_cores(cores: u64, objects: Vec<Registered>, events: &[Entry]) -> Vec<Report> {
    let b = Buffer { objects, ..Buffer::new(BASE) }.record(events.len() + 1, events);
    let catalogue = Catalogue::threadx(Names::Duo);
    all_reports(&decode(&b, &catalogue, cores), &catalogue, &Filters::default())
}

fn of(events: &[Entry]) -> Vec<Report> {
    of_cores(1, people(), events)
}

fn get<'r>(reports: &'r [Report], name: &str) -> &'r Report {
    reports.iter().find(|r| r.name == name).unwrap_or_else(|| panic!("no report {name}"))
}

fn word(cell: &Cell) -> String {
    match cell {
        Cell::Empty => String::new(),
        Cell::Real(n) => format!("{n:.2}"),
        cell => text(cell),
    }
}

/// The rows of a report, each with its cells between spaces.
fn rows(reports: &[Report], name: &str) -> Vec<String> {
    let all = get(reports, name);
    assert!(all.rows.iter().all(|r| r.len() == all.columns.len()), "{name}");
    all.rows.iter().map(|r| r.iter().map(word).collect::<Vec<_>>().join(" ")).collect()
}

/// Counters that are not 0.
fn counters(reports: &[Report], name: &str) -> BTreeMap<String, String> {
    let all = get(reports, name).rows.iter().map(|r| (word(&r[0]), word(&r[1])));
    all.filter(|(_, n)| n != "0").collect()
}

fn count(reports: &[Report], name: &str) -> u64 {
    counters(reports, "stats").get(name).map_or(0, |n| n.parse().unwrap_or_else(|_| panic!("{name} is not reported")))
}

/// A value of the row whose first cell is this.
fn of_row(reports: &[Report], report: &str, first: &str, column: &str) -> u64 {
    let all = get(reports, report);
    let at = all.columns.iter().position(|c| c.name == column).unwrap();
    let row = all.rows.iter().find(|r| word(&r[0]) == first);
    row.map_or(0, |r| word(&r[at]).parse().unwrap())
}

// ---- Events by their names ----

fn resume(by: Entry, thread: u64, was: u64, next: u64) -> Entry {
    Entry { id: 1, info: [thread, was, 0, next], ..by }
}
fn suspend(by: Entry, thread: u64, now: u64, next: u64) -> Entry {
    Entry { id: 2, info: [thread, now, 0, next], ..by }
}
fn enter(below: u64, number: u64, stamp: u64) -> Entry {
    Entry::isr(below, 3, stamp, [0, number, 0, 0])
}
fn exit(below: u64, number: u64, stamp: u64) -> Entry {
    Entry::isr(below, 4, stamp, [0, number, 0, 0])
}
fn at(thread: u64, stamp: u64) -> Entry {
    let priority = if thread == TIMER {
        0
    } else if thread == ALPHA {
        5
    } else {
        9
    };
    Entry::thread(thread, priority, 5000, stamp, [0; 4])
}
fn in_isr(below: u64, stamp: u64) -> Entry {
    Entry::isr(below, 5000, stamp, [0; 4])
}

// ---- Known truth ----

/// One thread sleeps over five ticks of the timer; the fifth wakes the timer thread, which wakes it.
#[test]
fn idle_ticks_are_no_switches() {
    let mut e = vec![at(ALPHA, 100), suspend(at(ALPHA, 110), ALPHA, 4, 0)];
    for i in 1..=4 {
        e.extend([enter(0, 15, i * 1000), exit(0, 15, i * 1000 + 20)]);
    }
    e.extend([enter(0, 15, 5000), resume(in_isr(0, 5010), TIMER, 3, TIMER), exit(0, 15, 5020)]);
    e.extend([resume(at(TIMER, 5030), ALPHA, 4, TIMER), suspend(at(TIMER, 5040), TIMER, 3, ALPHA), at(ALPHA, 5050)]);
    let r = of(&e);
    assert_eq!(count(&r, "context_switches"), 2);
    assert_eq!(count(&r, "context_switches_from_idle"), 1);
    assert_eq!(count(&r, "idle_entries"), 1);
    assert_eq!(count(&r, "preemptions"), 0, "nobody was at work");
    assert_eq!((count(&r, "suspensions"), count(&r, "resumptions")), (2, 2));
    assert_eq!((count(&r, "resumptions_by_threads"), count(&r, "resumptions_by_interrupts")), (1, 1));
    assert_eq!(rows(&r, "stats_threads"), ["alpha 1 0 0 0 1 0 1", "timer 1 0 0 0 1 0 1"]);
    assert_eq!(rows(&r, "stats_wakeups"), ["alpha resumed timer  1", "timer resumed isr 15 1"]);
    assert_eq!(rows(&r, "stats_interrupts"), ["15 true 5 5 100 20 3"]);
}

#[test]
fn interrupts_nest() {
    let e = [
        at(ALPHA, 100),
        enter(ALPHA, 15, 200),
        enter(ALPHA, 21, 210),
        exit(ALPHA, 21, 240),
        enter(ALPHA, 33, 250),
        enter(ALPHA, 21, 255),
        exit(ALPHA, 21, 260),
        exit(ALPHA, 33, 270),
        exit(ALPHA, 15, 300),
        at(ALPHA, 310),
    ];
    let r = of(&e);
    assert_eq!((count(&r, "interrupts"), count(&r, "interrupts_announced")), (4, 4));
    assert_eq!((count(&r, "interrupts_nested"), count(&r, "interrupt_depth")), (3, 3));
    assert_eq!((count(&r, "interrupts_unannounced"), count(&r, "context_switches")), (0, 0));
    assert_eq!(rows(&r, "stats_interrupts"), ["15 true 1 1 100 100 8", "21 true 2 2 35 30 3", "33 true 1 1 20 20 7"]);
}

/// A kernel without the calls at an interrupt's beginning and end: one interrupt, however many events it inserts.
#[test]
fn interrupts_that_nobody_announced() {
    let e = [
        at(ALPHA, 100),
        in_isr(ALPHA, 200),
        in_isr(ALPHA, 210),
        in_isr(ALPHA, 220),
        at(ALPHA, 300),
        in_isr(ALPHA, 400),
        at(ALPHA, 500),
        enter(ALPHA, 15, 600),
        in_isr(ALPHA, 610),
        exit(ALPHA, 15, 620),
        in_isr(ALPHA, 700),
        at(ALPHA, 800),
    ];
    let r = of(&e);
    assert_eq!((count(&r, "interrupts_announced"), count(&r, "interrupts_unannounced")), (1, 3));
    assert_eq!(rows(&r, "stats_interrupts"), ["15 true 1 1 20 20 9", " false 3    "]);
}

/// Two of equal priority share the processor; the third slice finds nobody else.
#[test]
fn time_slices() {
    let gamma = 0x2000_3000;
    let mut objects = people();
    objects.push(thread(gamma, "gamma", 5));
    let slice = |below, next, stamp| Entry::isr(below, 5, stamp, [next, 0, 0, 0]);
    let own = |stamp| Entry { context: gamma, ..at(ALPHA, stamp) };
    let e = [
        at(ALPHA, 100),
        own(110),
        at(ALPHA, 120),
        enter(ALPHA, 15, 200),
        slice(ALPHA, gamma, 210),
        exit(ALPHA, 15, 220),
        own(230),
        enter(gamma, 15, 300),
        slice(gamma, ALPHA, 310),
        exit(gamma, 15, 320),
        at(ALPHA, 330),
        enter(ALPHA, 15, 400),
        slice(ALPHA, ALPHA, 410),
        exit(ALPHA, 15, 420),
        at(ALPHA, 430),
        // It lets go; then a more urgent one comes.
        Entry { id: 109, info: [0, gamma, 0, 0], ..at(ALPHA, 440) },
        own(450),
        enter(gamma, 15, 500),
        resume(in_isr(gamma, 510), TIMER, 3, TIMER),
        exit(gamma, 15, 520),
        suspend(at(TIMER, 530), TIMER, 3, gamma),
        own(540),
    ];
    let r = of_cores(1, objects, &e[3..]);
    assert_eq!((count(&r, "time_slice_events"), count(&r, "time_slices")), (3, 2));
    assert_eq!((count(&r, "yields"), count(&r, "preemptions")), (1, 1));
    assert_eq!(count(&r, "context_switches"), 5);
    // runs, preempted, sliced, yielded, blocked, stopped, woken
    assert_eq!(rows(&r, "stats_threads"), ["gamma 3 1 1 0 0 0 0", "alpha 1 0 1 1 0 0 0", "timer 1 0 0 0 1 0 1"]);
}

/// The end of an interrupt does not yet tell that the switch takes place: another interrupt may follow at once, before
/// it, and still finds the old thread below it.
#[test]
fn interrupts_that_follow_each_other_switch_once() {
    let e = [
        at(BETA, 100),
        enter(BETA, 15, 200),
        resume(in_isr(BETA, 210), ALPHA, 4, ALPHA),
        exit(BETA, 15, 220),
        enter(BETA, 21, 225),
        resume(in_isr(BETA, 230), TIMER, 3, TIMER),
        exit(BETA, 21, 240),
        suspend(at(TIMER, 260), TIMER, 3, ALPHA),
        at(ALPHA, 270),
    ];
    let r = of(&e);
    assert_eq!((count(&r, "context_switches"), count(&r, "preemptions"), count(&r, "yields")), (2, 1, 0));
    assert_eq!(rows(&r, "stats_threads"), ["alpha 1 0 0 0 0 0 1", "timer 1 0 0 0 1 0 1", "beta 0 1 0 0 0 0 0"]);
}

#[test]
fn initialization_goes_on_whoever_it_makes_ready() {
    let init = |stamp| Entry::init(5000, stamp, [0; 4]);
    let e = [
        init(10),
        resume(init(20), BETA, 3, BETA),
        init(30),
        resume(init(40), ALPHA, 3, ALPHA),
        init(50),
        suspend(at(ALPHA, 70), ALPHA, 4, BETA),
        at(BETA, 80),
    ];
    let r = of(&e);
    assert_eq!((count(&r, "context_switches"), count(&r, "preemptions")), (2, 0));
    assert!(get(&r, "stats").notes.iter().any(|n| n.starts_with("resumptions: of 2 ")), "{:?}", get(&r, "stats").notes);
}

/// Renesas RX and SH have RAM above the words that stand for interrupts and initialization.
#[test]
fn threads_at_high_addresses() {
    let (low, high) = (0xFFF8_1000, 0xFFF8_2000);
    let by = |thread, priority, stamp| Entry::thread(thread, priority, 5000, stamp, [0; 4]);
    let objects = vec![thread(low, "low", 20), thread(high, "high", 2)];
    let e = [
        by(low, 20, 100),
        resume(by(low, 20, 110), high, 4, high),
        by(high, 2, 120),
        suspend(by(high, 2, 130), high, 4, low),
        by(low, 20, 140),
        // Suspended from outside.
        suspend(by(low, 20, 150), high, 3, low),
    ];
    let r = of_cores(1, objects, &e);
    assert_eq!(rows(&r, "stats_threads"), ["high 1 0 0 0 1 1 1", "low 1 1 0 0 0 0 0"]);
    assert_eq!((count(&r, "suspensions_by_itself"), count(&r, "suspensions_by_others")), (1, 1));
    assert_eq!(rows(&r, "stats_wakeups"), ["high suspended low  1", "high resumed low  1"]);
}

#[test]
fn cores_switch_each_for_itself() {
    let on = |core: u64, e: Entry| Entry { id: e.id | core << 24, ..e };
    let e = [
        on(0, at(ALPHA, 100)),
        on(1, at(BETA, 110)),
        on(0, at(ALPHA, 120)),
        on(1, at(BETA, 130)),
        on(1, enter(BETA, 15, 140)),
        on(1, resume(in_isr(BETA, 150), TIMER, 3, TIMER)),
        on(1, exit(BETA, 15, 160)),
        on(0, at(ALPHA, 165)),
        on(1, suspend(at(TIMER, 170), TIMER, 3, BETA)),
        on(1, at(BETA, 180)),
        on(0, suspend(at(ALPHA, 190), ALPHA, 4, 0)),
    ];
    let r = of_cores(2, people(), &e);
    assert_eq!(count(&r, "context_switches"), 2, "what interleaves is no switch");
    assert_eq!(rows(&r, "stats_cores"), ["0 0 1 0 0 0 0", "1 2 0 1 0 1 0"]);
}

/// A thread that became ready before the eyes of the trace and is then at work was given a core, though no event of
/// that core tells who had it before.
#[test]
fn a_core_that_was_not_seen_before_is_given_to_whom_another_core_resumed() {
    let on = |core: u64, e: Entry| Entry { id: e.id | core << 24, ..e };
    let e = [
        on(0, at(ALPHA, 100)),
        on(0, resume(at(ALPHA, 110), BETA, 5, ALPHA)),
        on(1, at(BETA, 150)),
        on(0, at(ALPHA, 160)),
    ];
    let r = of_cores(2, people(), &e);
    assert_eq!(rows(&r, "stats_threads"), ["beta 1 0 0 0 0 0 1"]);
}

/// The mask of events can leave the scheduler's out: then switches are seen, and not why.
#[test]
fn without_the_schedulers_events_no_cause_is_reported() {
    let r = of(&[at(ALPHA, 100), at(BETA, 200), at(ALPHA, 300), at(BETA, 400)]);
    assert_eq!(count(&r, "context_switches"), 3);
    let all = counters(&r, "stats");
    assert_eq!((all["preemptions"].as_str(), all["yields"].as_str()), ("", ""));
    assert!(get(&r, "stats").notes.iter().any(|n| n.starts_with("preemptions, yields: not recorded")));
}

#[test]
fn filters_are_said_and_counted_by() {
    let e = [
        at(ALPHA, 100),
        resume(at(ALPHA, 105), TIMER, 3, TIMER),
        suspend(at(TIMER, 110), TIMER, 3, ALPHA),
        suspend(at(ALPHA, 120), ALPHA, 4, BETA),
        at(BETA, 130),
    ];
    let b = Buffer { objects: people(), ..Buffer::new(BASE) }.record(8, &e);
    let catalogue = Catalogue::threadx(Names::Duo);
    let mut filters = Filters::default();
    filters.add(Key::Thread, "alpha").unwrap();
    let r = all_reports(&decode(&b, &catalogue, 1), &catalogue, &filters);
    assert_eq!((count(&r, "events"), count(&r, "resumptions"), count(&r, "suspensions")), (3, 1, 1));
    for report in ["stats", "stats_threads", "stats_wakeups", "services", "stack"] {
        assert_eq!(get(&r, report).notes[0], "filters keep 3 of 5 events; only they are counted", "{report}");
    }
    assert_eq!(get(&r, "services_threads").rows.iter().map(|r| word(&r[0])).collect::<Vec<_>>(), ["alpha"; 3]);
}

// ---- As people see them ----

#[cfg(feature = "cli")]
mod golden {
    use std::fmt::Write as _;

    use crate::support::golden::{compare, stdout};

    #[test]
    fn stats_services_stack() {
        for (name, source) in [
            ("cm3", "cm3.elf cm3.core"),
            ("smp", "smp.elf smp.core"),
            ("qnx", "qnx.kev"),
            ("uia", "uia-stop.elf uia-stop.ram.bin"),
        ] {
            let mut got = String::new();
            for report in ["stats", "services", "stack"] {
                write!(got, "{}", stdout(&format!("{report} {source}"))).unwrap();
                write!(got, "{}", stdout(&format!("{report} {source} --format json"))).unwrap();
            }
            let narrow = stdout(&format!("stats {source} --width 120"));
            assert!(narrow.lines().all(|l| l.chars().count() <= 120), "{name}");
            got.push_str(&narrow);
            compare(&format!("reports/stats-{name}.txt"), &got);
        }
    }
}
