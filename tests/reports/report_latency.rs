//! `latency` and `objects --use`: hand-made traces with known truth, the firmware's own counters, a system that is not
//! ThreadX, and what people see.

#![cfg(feature = "cli")]

mod firmware;
mod foreign;
mod histogram;
mod printed;
mod usage;

use std::collections::BTreeMap;

use crate::support::builder::{Buffer, Entry, Registered};
use crate::support::decode::{Source, fixture, load, open, text};
use proptest::prelude::*;
use tx_trace::abi::{Endian, Width};
use tx_trace::analysis::histogram::Histogram;
use tx_trace::analysis::{Name, ReportRequest, reports};
use tx_trace::catalogue::{ArgKind, Catalogue, Effects, EventDef, FieldDef, Names, Product};
use tx_trace::error::Error;
use tx_trace::error::ErrorKind;
use tx_trace::format::Extent;
use tx_trace::query::{Filters, Key, Query};
use tx_trace::report::{Cell, Report};
use tx_trace::trace::{
    About, Clock, ContextKind, Contexts, DefId, Direction, Event, Events, Known, ObjectTable, Trace, WalkState, Words,
};

const BASE: u64 = 0x2000_4000;
const ALPHA: u64 = 0x2000_1000;
const BETA: u64 = 0x2000_2000;
const GAMMA: u64 = 0x2000_3000;
const QUEUE: u64 = 0x2000_0100;
const MUTEX: u64 = 0x2000_0200;
const POOL: u64 = 0x2000_0300;
const SEMAPHORE: u64 = 0x2000_0400;

// ---- Reading reports ----

/// Each row as one line, cells apart by blanks, in the order of their first cell.
fn lines(report: &Report) -> Vec<String> {
    let line = |row: &[Cell]| row.iter().map(text).collect::<Vec<_>>().join(" ");
    let mut all: Vec<String> = report.rows.iter().map(line).collect();
    assert!(report.rows.iter().all(|r| r.len() == report.columns.len()));
    all.sort();
    all
}

/// True where the notes below the rows, or the sentence in place of them, say this.
fn noted(report: &Report, words: &str) -> bool {
    let nothing = Some(&report.nothing).filter(|_| report.rows.is_empty());
    report.notes.iter().chain(nothing).any(|n| n.contains(words))
}

fn try_latency(trace: &Trace, catalogue: &Catalogue, every: &[&str], spans: &[&str]) -> Result<Vec<Report>, Error> {
    let filters = Filters::default();
    let query = Query::compile(&filters, trace, catalogue).unwrap();
    let owned = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect();
    let wish = ReportRequest {
        names: vec![Name::Latency],
        every: owned(every),
        spans: owned(spans),
        ..ReportRequest::default()
    };
    reports(trace, catalogue, &query, &wish)
}

fn latency(trace: &Trace, every: &[&str], spans: &[&str]) -> Vec<Report> {
    try_latency(trace, &Catalogue::threadx(Names::Duo), every, spans).unwrap()
}

fn usage(trace: &Trace, catalogue: &Catalogue) -> Report {
    let filters = Filters::default();
    let query = Query::compile(&filters, trace, catalogue).unwrap();
    let wish = ReportRequest { names: vec![Name::Use], ..ReportRequest::default() };
    reports(trace, catalogue, &query, &wish).unwrap().remove(0)
}

// ---- Traces of ThreadX ----

fn thread(pointer: u64, name: &str, priority: u16) -> Registered {
    Registered { priority: Some(priority), ..Registered::new(1, pointer, name) }
}

fn record(objects: &[Registered], list: &[Entry]) -> Trace {
    let mut all = vec![thread(ALPHA, "alpha", 5), thread(BETA, "beta", 9), thread(GAMMA, "gamma", 1)];
    all.extend_from_slice(objects);
    let buffer = Buffer { objects: all, ..Buffer::new(BASE) }.record(list.len() + 4, list);
    open(&buffer, &buffer.bytes(), Source::Header, Extent::All).unwrap()
}

fn alpha(id: u64, at: u64, info: [u64; 4]) -> Entry {
    Entry::thread(ALPHA, 5, id, at, info)
}

fn beta(id: u64, at: u64, info: [u64; 4]) -> Entry {
    Entry::thread(BETA, 9, id, at, info)
}

fn gamma(id: u64, at: u64, info: [u64; 4]) -> Entry {
    Entry::thread(GAMMA, 1, id, at, info)
}

fn enter(below: u64, number: u64, at: u64) -> Entry {
    Entry::isr(below, 3, at, [0x2000_7F00, number, number, 0])
}

fn exit(below: u64, number: u64, at: u64) -> Entry {
    Entry::isr(below, 4, at, [0x2000_7F00, number, number, 0])
}

/// An interrupt makes alpha ready while beta runs; then beta goes on, which is no latency.
#[test]
fn ready_to_run_is_from_waking_to_running() {
    let t = record(
        &[],
        &[
            beta(5000, 100, [0; 4]),
            enter(BETA, 21, 1000),
            Entry::isr(BETA, 1, 1010, [ALPHA, 5, 0x2000_7F00, ALPHA]),
            exit(BETA, 21, 1040),
            alpha(5000, 1200, [0; 4]),
            // alpha sleeps: beta, which lost its core at 1040, goes on.
            alpha(2, 1300, [ALPHA, 4, 0, BETA]),
            beta(5000, 1310, [0; 4]),
            enter(BETA, 15, 2000),
            Entry::isr(BETA, 1, 2005, [ALPHA, 4, 0x2000_7F00, ALPHA]),
            exit(BETA, 15, 2100),
            alpha(5000, 2110, [0; 4]),
            alpha(5000, 2500, [0; 4]),
        ],
    );
    let all = latency(&t, &[], &[]);
    assert_eq!(all.iter().map(|r| r.name).collect::<Vec<_>>(), ["latency_threads", "latency_interrupts"]);
    // The core is alpha's from the end of the interrupt; the event after it is the first to show it. beta waits.
    assert_eq!(lines(&all[0]), ["alpha 2 30 30 95 95 10 -", "beta 0 - - - - - 400"]);
    assert_eq!(lines(&all[1]), ["15 1 100 100 100 100 9 0", "21 1 40 40 40 40 3 0"]);
    assert!(noted(&all[0], "--hz"));
}

/// Two interrupts in a row: between them alpha did not run, whatever the first one's end looks like.
#[test]
fn an_interrupt_that_follows_at_once_delays_the_thread() {
    let t = record(
        &[],
        &[
            beta(5000, 100, [0; 4]),
            enter(BETA, 15, 1000),
            Entry::isr(BETA, 1, 1010, [ALPHA, 5, 0x2000_7F00, ALPHA]),
            exit(BETA, 15, 1040),
            enter(BETA, 21, 1044),
            exit(BETA, 21, 1110),
            alpha(5000, 1200, [0; 4]),
        ],
    );
    let all = latency(&t, &[], &[]);
    assert_eq!(lines(&all[0]), ["alpha 1 100 100 100 100 6 -", "beta 0 - - - - - 90"]);
    assert_eq!(lines(&all[1]), ["15 1 40 40 40 40 3 0", "21 1 66 66 66 66 5 0"]);
}

/// During initialization threads are made ready, and none of them runs before it is over.
#[test]
fn threads_that_initialization_makes_ready_start_after_it() {
    let t = record(
        &[],
        &[
            Entry::init(1, 100, [GAMMA, 3, 0, GAMMA]),
            Entry::init(1, 200, [ALPHA, 3, 0, GAMMA]),
            Entry::init(5000, 300, [0; 4]),
            gamma(5000, 400, [0; 4]),
            gamma(2, 500, [GAMMA, 4, 0, ALPHA]),
            alpha(5000, 510, [0; 4]),
        ],
    );
    let all = latency(&t, &[], &[]);
    assert_eq!(lines(&all[0]), ["alpha 1 300 300 300 300 4 -", "gamma 1 300 300 300 300 3 -"]);
    assert!(all[1].rows.is_empty() && noted(&all[1], "no event reports that an interrupt begins"));
}

#[test]
fn interrupts_nest_and_some_never_say_that_they_end() {
    let t = record(
        &[],
        &[
            enter(ALPHA, 15, 1000),
            enter(ALPHA, 21, 1100),
            exit(ALPHA, 21, 1150),
            exit(ALPHA, 15, 1400),
            alpha(5000, 1500, [0; 4]),
            enter(ALPHA, 30, 1600),
            alpha(5000, 1700, [0; 4]),
            Entry::isr(ALPHA, 5000, 1800, [0; 4]),
            enter(ALPHA, 15, 2000),
        ],
    );
    let all = latency(&t, &[], &[]);
    assert_eq!(lines(&all[1]), ["15 1 400 400 400 400 3 1", "21 1 50 50 50 50 2 0", "30 0 - - - - - 1"]);
    assert!(noted(&all[1], "some interrupts are not announced"));
    assert!(noted(&all[0], "no event shows when a thread becomes ready"));

    let never = record(&[], &[enter(ALPHA, 15, 1000), alpha(5000, 1100, [0; 4]), enter(ALPHA, 15, 2000)]);
    let all = latency(&never, &[], &[]);
    assert_eq!(lines(&all[1]), ["15 0 - - - - - 2"]);
    assert!(noted(&all[1], "no event reports that an interrupt ends"));
}

// ---- --every ----

#[test]
fn a_repeating_event_has_period_and_jitter() {
    let at = [0u64, 100, 200, 340, 400, 500];
    let mut list: Vec<Entry> = at.iter().map(|t| alpha(5000, 1000 + t, [0; 4])).collect();
    list.push(beta(103, 1600, [0; 4]));
    list.push(beta(5001, 1650, [0; 4]));
    let t = record(&[], &list);
    let every = |words: &[&str]| latency(&t, words, &[]).remove(2);
    let report = every(&["user_5000"]);
    assert_eq!(report.name, "latency_every");
    // Periods 100, 100, 140, 60, 100: the longest ends with event 3, and both 140 and 60 are 40 from the median.
    assert_eq!(lines(&report), ["user_5000 5 60 100 140 140 3 40"]);
    assert_eq!(lines(&every(&["5000-5001", "tx_thread_identify"])).len(), 3);
    // Once is no period.
    assert_eq!(lines(&every(&["tx_thread_i*"])), ["tx_thread_identify 0 - - - - - -"]);
    assert!(noted(&every(&["tx_queue_send"]), "--every tx_queue_send: no such event"));
    let wrong = try_latency(&t, &Catalogue::threadx(Names::Duo), &["tx_queue_sent"], &[]).unwrap_err();
    assert_eq!((wrong.kind, wrong.message.as_str()), (ErrorKind::Failed, "no catalogue has an event 'tx_queue_sent'"));
}

// ---- --span ----

fn span(t: &Trace, words: &str) -> Report {
    latency(t, &[], &[words]).remove(2)
}

#[test]
fn spans_reach_from_each_event_to_the_next_of_the_other() {
    let t = record(
        &[],
        &[
            beta(5001, 900, [7, 0, 0, 0]),
            alpha(5000, 1000, [7, 0, 0, 0]),
            alpha(5000, 1100, [8, 0, 0, 0]),
            beta(5001, 1150, [8, 0, 0, 0]),
            beta(5001, 1400, [7, 0, 0, 0]),
            alpha(5000, 1500, [9, 0, 0, 0]),
        ],
    );
    // Both beginnings find the first end; the other end has nothing to end.
    assert_eq!(lines(&span(&t, "5000..5001")), ["5000..5001 2 50 50 150 150 3 1 2"]);
    // By value: 7 from 1000 to 1400, 8 from 1100 to 1150.
    assert_eq!(lines(&span(&t, "user_5000..user_5001:i1")), ["user_5000..user_5001:i1 2 50 50 400 400 4 1 1"]);
    // An event may end one span and begin the next.
    assert_eq!(lines(&span(&t, "5000..5000")), ["5000..5000 2 100 100 400 400 5 1 1"]);
    assert_eq!(span(&t, "5000..5001").name, "latency_spans");
}

#[test]
fn spans_by_the_name_of_a_field() {
    let t = record(
        &[Registered::new(3, QUEUE, "line")],
        &[
            alpha(69, 1000, [QUEUE, 0, 0, 0]),
            alpha(69, 1050, [MUTEX, 0, 0, 0]),
            beta(68, 1300, [MUTEX, 0, 0, 1]),
            beta(68, 1350, [QUEUE, 0, 0, 1]),
        ],
    );
    for field in ["queue", "queue_ptr", "i1"] {
        let words = format!("tx_queue_send..tx_queue_receive:{field}");
        assert_eq!(lines(&span(&t, &words)), [format!("{words} 2 250 250 350 350 3 0 0")]);
    }
}

#[test]
fn what_makes_no_span_is_a_mistake() {
    let t = record(&[], &[alpha(5000, 1000, [0; 4])]);
    let catalogue = Catalogue::threadx(Names::Duo);
    for (words, says) in [
        ("tx_queue_send", "not A..B or A..B:FIELD"),
        ("..tx_queue_send", "not A..B or A..B:FIELD"),
        ("tx_queue_send..", "not A..B or A..B:FIELD"),
        ("tx_queue_send..tx_queue_receive:", "not A..B or A..B:FIELD"),
        ("tx_queue_sent..tx_queue_receive", "no catalogue has an event 'tx_queue_sent'"),
        ("tx_queue_send..tx_queue_received", "no catalogue has an event 'tx_queue_received'"),
        ("tx_queue_send..tx_queue_receive:nonsense", "'tx_queue_send' has no field 'nonsense'"),
        ("tx_queue_send..tx_mutex_get:enqueued", "'tx_mutex_get' has no field 'enqueued'"),
    ] {
        let e = try_latency(&t, &catalogue, &[], &[words]).unwrap_err();
        assert_eq!(e.kind, ErrorKind::Failed, "{words}");
        assert!(e.message.contains(says), "{words}: {}", e.message);
    }
}

/// Memory is bounded: what is not followed is counted and said.
#[test]
fn beginnings_beyond_all_measure_are_said() {
    let count = (1u64 << 16) + 10;
    let mut list: Vec<Entry> = (0..count).map(|i| alpha(5000, 1000 + i, [i, 0, 0, 0])).collect();
    list.push(beta(5001, 1000 + count, [5, 0, 0, 0]));
    let t = record(&[], &list);
    let report = span(&t, "5000..5001:i1");
    assert_eq!(lines(&report), [format!("5000..5001:i1 1 {0} {0} {0} {0} {1} {2} 0", count - 5, count, count - 1)]);
    assert!(noted(&report, "65536 of A waited for a B at a time; 10 more were not followed"));
}

/// Old kernels number the end of an interrupt otherwise than its beginning: the end is that of the one that began.
#[test]
fn an_interrupt_whose_end_has_another_number_never_ended() {
    let mut t = record(&[], &[enter(ALPHA, 0, 1000), exit(ALPHA, 1, 1300), alpha(5000, 1400, [0; 4])]);
    t.interrupts = Catalogue::threadx(Names::Duo).interrupts(false);
    let all = latency(&t, &[], &[]);
    assert_eq!(lines(&all[1]), ["0 1 300 300 300 300 1 0"]);
}

/// An interrupt that wakes a thread and tells neither its beginning nor its end.
#[test]
fn latency_behind_unannounced_interrupts_was_said_to_end_with_the_switch() {
    let woken = [
        beta(5000, 100, [0; 4]),
        Entry::isr(BETA, 1, 200, [ALPHA, 4, 0, ALPHA]),
        alpha(5000, 260, [0; 4]),
        alpha(5000, 300, [0; 4]),
    ];
    let all = latency(&record(&[], &woken), &[], &[]);
    assert_eq!(lines(&all[0]), ["alpha 1 60 60 60 60 2 -", "beta 0 - - - - - 40"]);
    assert!(noted(&all[0], "interrupts are not announced: their time counts"));

    let [first, wakes, goes_on, _] = woken;
    let announced = [first, enter(BETA, 15, 190), wakes, exit(BETA, 15, 210), goes_on];
    let all = latency(&record(&[], &announced), &[], &[]);
    assert!(!noted(&all[0], "not announced"), "{:?}", all[0].notes);
}

// ---- Cores ----

#[test]
fn a_start_that_no_event_of_its_core_shows_is_not_measured() {
    let on = |core: u64, mut e: Entry| {
        e.id |= core << 24;
        e
    };
    let t = record(
        &[],
        &[
            on(1, beta(69, 500, [QUEUE, 0, 0, 0])),
            on(0, gamma(69, 990, [QUEUE, 0, 0, 0])),
            // Core 0 wakes alpha for core 1, where it is found long after; and gives its own core to beta... later.
            on(0, gamma(1, 1000, [ALPHA, 5, 0, GAMMA])),
            on(1, alpha(69, 9000, [QUEUE, 0, 0, 0])),
            on(1, alpha(2, 9100, [ALPHA, 5, 0, BETA])),
            on(1, beta(68, 9200, [QUEUE, 0, 0, 0])),
            on(0, gamma(68, 9300, [QUEUE, 0, 0, 0])),
        ],
    );
    assert_eq!(t.about.cores, 2);
    let all = latency(&t, &[], &[]);
    assert!(noted(&all[0], "1 start is left out: no event showed when"), "{:?}", all[0].notes);
    assert!(all[0].rows.is_empty(), "{:?}", lines(&all[0]));
}
