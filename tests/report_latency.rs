//! `latency` and `objects --use`: hand-made traces with known truth, the firmware's own counters, a system that is not
//! ThreadX, and what people see.

#![cfg(feature = "cli")]
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

mod support;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use proptest::prelude::*;
use support::builder::{Buffer, Entry, Registered};
use support::decode::{Door, open, threadx};
use support::flat::Flat;
use tx_trace::abi::{Endian, Width};
use tx_trace::analysis::histogram::Histogram;
use tx_trace::analysis::{Name, Wish, reports};
use tx_trace::catalogue::{ArgKind, Catalogue, Effects, EventDef, FieldDef, Names, Product};
use tx_trace::format::{DecodeOptions, Extent, Hints};
use tx_trace::query::{Filters, Key, Query, QueryError, Wrong};
use tx_trace::report::{Cell, Report};
use tx_trace::sym::NoSymbols;
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

fn text(cell: &Cell) -> String {
    match cell {
        Cell::Empty => "-".to_owned(),
        Cell::Text(t) => t.clone(),
        Cell::Count(n) => n.to_string(),
        Cell::Ticks(n) => n.to_string(),
        Cell::Address(a) => format!("{a:#x}"),
        Cell::Flag(f) => f.to_string(),
        Cell::Real(n) => n.to_string(),
        Cell::Named(a, name) => name.clone().unwrap_or(format!("{a:#x}")),
    }
}

/// Each row as one line, cells apart by blanks, in the order of their first cell.
fn lines(report: &Report) -> Vec<String> {
    let line = |row: &Vec<Cell>| row.iter().map(text).collect::<Vec<_>>().join(" ");
    let mut all: Vec<String> = report.rows.iter().map(line).collect();
    assert!(report.rows.iter().all(|r| r.len() == report.columns.len()));
    all.sort();
    all
}

fn noted(report: &Report, words: &str) -> bool {
    report.notes.iter().any(|n| n.contains(words))
}

fn try_latency(
    trace: &Trace,
    catalogue: &Catalogue,
    every: &[&str],
    spans: &[&str],
) -> Result<Vec<Report>, QueryError> {
    let filters = Filters::default();
    let query = Query::compile(&filters, trace, catalogue).unwrap();
    let owned = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect();
    let wish = Wish { names: vec![Name::Latency], every: owned(every), spans: owned(spans), ..Wish::default() };
    reports(trace, catalogue, &query, &wish)
}

fn latency(trace: &Trace, every: &[&str], spans: &[&str]) -> Vec<Report> {
    try_latency(trace, &Catalogue::threadx(Names::Duo), every, spans).unwrap()
}

fn usage(trace: &Trace, catalogue: &Catalogue) -> Report {
    let filters = Filters::default();
    let query = Query::compile(&filters, trace, catalogue).unwrap();
    let wish = Wish { names: vec![Name::Use], ..Wish::default() };
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
    open(&buffer, &buffer.bytes(), Door::Header, Extent::All).unwrap()
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
    assert!(noted(&all[0], "within 1 %") && noted(&all[0], "--hz"));
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
    assert!(all[1].rows.is_empty() && noted(&all[1], "no event tells that an interrupt begins"));
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
    assert!(noted(&all[1], "unended") && noted(&all[1], "1 events are of interrupts that no event announced"));
    assert!(noted(&all[0], "no event tells when a thread becomes ready"));

    let never = record(&[], &[enter(ALPHA, 15, 1000), alpha(5000, 1100, [0; 4]), enter(ALPHA, 15, 2000)]);
    let all = latency(&never, &[], &[]);
    assert_eq!(lines(&all[1]), ["15 0 - - - - - 2"]);
    assert!(noted(&all[1], "no event tells that an interrupt ends"));
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
    assert_eq!((wrong.wrong, wrong.message.as_str()), (Wrong::Usage, "there is no event 'tx_queue_sent'"));
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
        ("tx_queue_send", "A..B or A..B:FIELD is wanted"),
        ("..tx_queue_send", "A..B or A..B:FIELD is wanted"),
        ("tx_queue_send..", "A..B or A..B:FIELD is wanted"),
        ("tx_queue_send..tx_queue_receive:", "A..B or A..B:FIELD is wanted"),
        ("tx_queue_sent..tx_queue_receive", "there is no event 'tx_queue_sent'"),
        ("tx_queue_send..tx_queue_received", "there is no event 'tx_queue_received'"),
        ("tx_queue_send..tx_queue_receive:nonsense", "'tx_queue_send' has no field 'nonsense'"),
        ("tx_queue_send..tx_mutex_get:enqueued", "'tx_mutex_get' has no field 'enqueued'"),
    ] {
        let e = try_latency(&t, &catalogue, &[], &[words]).unwrap_err();
        assert_eq!(e.wrong, Wrong::Usage, "{words}");
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

// ---- Cores ----

#[test]
fn a_start_that_no_event_of_its_core_told_is_not_measured() {
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
    assert!(noted(&all[0], "1 starts are left out: no event told when"), "{:?}", all[0].notes);
    assert!(all[0].rows.is_empty(), "{:?}", lines(&all[0]));
}

// ---- A system that is not ThreadX ----

struct List(Vec<Event>);

impl Events for List {
    fn count(&self) -> u64 {
        self.0.len() as u64
    }

    fn fill(&self, index: u64, _: &mut WalkState, out: &mut [Event]) -> usize {
        let rest = &self.0[(index as usize).min(self.0.len())..];
        let n = rest.len().min(out.len());
        out[..n].copy_from_slice(&rest[..n]);
        n
    }
}

/// A system with a handful of events, whose fields stand elsewhere and are called differently.
fn foreign() -> Catalogue {
    let def = |id, name: &str, fields: &[(&str, ArgKind)], effects: &str| EventDef {
        id,
        name: name.to_owned(),
        macro_name: String::new(),
        product: Product::Kernel,
        class: "core".to_owned(),
        fields: fields.iter().map(|(n, k)| Some(FieldDef::new(n, *k, None))).collect(),
        effects: Effects::parse(effects).unwrap(),
        late: 0,
        unused: false,
        label: String::new(),
    };
    let task = ("task", ArgKind::ThreadPtr);
    let mailbox = ("mailbox_ptr", ArgKind::Ptr);
    Catalogue::new(
        vec![
            def(70, "wake", &[("why", ArgKind::Dec), task], "ready:2"),
            def(71, "stop", &[task], "block:1"),
            def(72, "switch", &[("from", ArgKind::ThreadPtr), ("to", ArgKind::ThreadPtr)], "run:2"),
            def(73, "irq_in", &[("level", ArgKind::Dec), ("line", ArgKind::Dec)], "isr_enter:2"),
            def(74, "irq_out", &[("line", ArgKind::Dec)], "isr_exit:1"),
            def(75, "post", &[("enqueued", ArgKind::Dec), mailbox], "put:2"),
            def(76, "pend", &[mailbox, ("enqueued", ArgKind::Dec)], "get:1"),
        ],
        Vec::new(),
    )
}

fn foreign_trace(catalogue: &Catalogue, list: &[(Option<u64>, i64, u32, &[u64])]) -> Trace {
    let mut contexts = Contexts::default();
    let events = list.iter().enumerate().map(|(seq, (who, ticks, id, words))| {
        let kind = if who.is_some() { ContextKind::Thread } else { ContextKind::Isr };
        Event {
            seq: seq as u64,
            slot: seq as u64,
            ticks: *ticks,
            context: contexts.intern(kind, who.unwrap_or(0)),
            id: *id,
            def: catalogue.find(*id),
            words: Words::few(words).unwrap(),
            ..Event::default()
        }
    });
    let events: Vec<Event> = events.collect();
    assert!(events.iter().all(|e| e.def.is_some_and(|d| d < DefId(7))));
    Trace::new(
        About {
            format: "foreign",
            endian: Endian::Little,
            word: Width::W4,
            pointer: None,
            base: 0,
            capacity: 64,
            held: events.len() as u64,
            wrapped: false,
            origin: 0,
            cores: 1,
            facts: Vec::new(),
        },
        Clock {
            mask: 0xFFFF_FFFF,
            direction: Direction::Up,
            direction_known: Known::Given,
            period: None,
            hz: None,
            runs: true,
            reason: String::new(),
        },
        contexts,
        ObjectTable::default(),
        Vec::new(),
        Box::new(List(events)),
    )
}

#[test]
fn another_system_is_measured_by_its_effects() {
    let catalogue = foreign();
    let t = foreign_trace(
        &catalogue,
        &[
            (Some(ALPHA), 0, 76, &[QUEUE, 0]),
            (Some(ALPHA), 10, 71, &[ALPHA]),
            (Some(BETA), 20, 72, &[ALPHA, BETA]),
            (Some(BETA), 30, 75, &[3, QUEUE]),
            (None, 100, 73, &[1, 44]),
            (None, 130, 75, &[4, QUEUE]),
            (None, 140, 70, &[9, ALPHA]),
            (None, 160, 74, &[44]),
            (Some(BETA), 200, 72, &[BETA, ALPHA]),
            (Some(ALPHA), 210, 76, &[QUEUE, 5]),
        ],
    );
    let all = try_latency(&t, &catalogue, &["pend"], &["post..pend:mailbox"]).unwrap();
    assert_eq!(lines(&all[0]), [format!("{ALPHA:#x} 1 60 60 60 60 8 -"), format!("{BETA:#x} 0 - - - - - 10")]);
    assert_eq!(lines(&all[1]), ["44 1 60 60 60 60 7 0"]);
    assert_eq!(lines(&all[2]), ["pend 1 210 210 210 210 9 0"]);
    assert_eq!(lines(&all[3]), ["post..pend:mailbox 2 80 80 180 180 9 0 1"]);
    // Two threads called, and an interrupt; alpha waited from 10 to 140.
    assert_eq!(lines(&usage(&t, &catalogue)), [format!("{QUEUE:#x} mailbox 2 2 1 130 0 5 - 2 -")]);
}

// ---- objects --use ----

#[test]
fn objects_are_counted_by_what_is_done_to_them() {
    let mut queue = Registered::new(3, QUEUE, "line");
    queue.params = [32, 2];
    let mut pool = Registered::new(7, POOL, "blocks");
    pool.params = [96, 10];
    let t = record(
        &[
            queue,
            pool,
            Registered::new(5, MUTEX, "bus"),
            // What was a thread once is a semaphore now.
            thread(SEMAPHORE, "gone", 3),
        ],
        &[
            alpha(69, 1000, [QUEUE, 0, 0, 2]),
            alpha(63, 1010, [QUEUE, 0, 0, 3]),
            alpha(52, 1020, [MUTEX, 0, 0, 0]),
            beta(52, 1100, [MUTEX, 0xFFFF_FFFF, ALPHA, 1]),
            beta(2, 1110, [BETA, 13, 0, ALPHA]),
            alpha(57, 1200, [MUTEX, ALPHA, 1, 0]),
            alpha(1, 1210, [BETA, 13, 0, ALPHA]),
            alpha(10, 1300, [POOL, 0x2000_9000, 0, 4]),
            alpha(10, 1310, [POOL, 0x2000_9010, 0, 3]),
            alpha(17, 1320, [POOL, 0x2000_9010, 0, 0]),
            alpha(83, 1400, [SEMAPHORE, 0xFFFF_FFFF, 0, 0]),
            alpha(2, 1410, [ALPHA, 6, 0, BETA]),
            beta(68, 1500, [QUEUE, 0, 0, 4]),
            Entry::isr(BETA, 88, 1600, [SEMAPHORE, 7, 0, 0]),
            beta(5000, 1700, [0; 4]),
        ],
    );
    let report = usage(&t, &Catalogue::threadx(Names::Duo));
    assert_eq!(report.name, "use");
    assert_eq!(
        lines(&report),
        [
            // alpha waits to the end, 1410 to 1700; an interrupt is no thread.
            format!("{SEMAPHORE:#x} semaphore 1 1 1 290 1 7 - 1 -"),
            // 96 bytes are six blocks of ten, each with its pointer: 10 becomes 12.
            "blocks block_pool 1 2 0 0 0 3 6 1 -".to_owned(),
            "bus mutex 1 2 1 100 0 - - 2 1".to_owned(),
            // 32 bytes are four messages of two words.
            "line queue 2 1 0 0 0 4 4 2 -".to_owned(),
        ]
    );
    assert!(noted(&report, "waiting") && noted(&report, "most is empty"));
}

#[test]
fn nothing_used_is_said() {
    let t = record(&[], &[alpha(5000, 1000, [0; 4])]);
    let report = usage(&t, &Catalogue::threadx(Names::Duo));
    assert!(report.rows.is_empty() && noted(&report, "no event puts anything"));
}

#[test]
fn a_window_is_said_to_be_one() {
    let list: Vec<Entry> = (0..10).map(|i| alpha(69, 1000 + i * 100, [QUEUE, 0, 0, i])).collect();
    let t = record(&[], &list);
    let catalogue = Catalogue::threadx(Names::Duo);
    let mut filters = Filters::default();
    filters.add(Key::Arg, "enqueued<4").unwrap();
    let query = Query::compile(&filters, &t, &catalogue).unwrap();
    let wish =
        Wish { names: vec![Name::Latency, Name::Use], every: vec!["tx_queue_send".to_owned()], ..Wish::default() };
    let all = reports(&t, &catalogue, &query, &wish).unwrap();
    assert!(all.iter().all(|r| noted(r, "filters keep 4 of 10 events")));
    assert_eq!(lines(&all[2]), ["tx_queue_send 3 100 100 100 100 1 0"]);
    assert_eq!(lines(&all[3]), [format!("{QUEUE:#x} queue 4 0 0 0 0 3 - 1 -")]);
}

// ---- The firmware's own counters ----

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

fn load(name: &str) -> Trace {
    let bytes = std::fs::read(fixtures().join(name)).unwrap();
    let found = threadx().scan(&bytes, 1)[0];
    let mut memory = Flat::new(found.base, bytes[found.offset..].to_vec());
    let hints = Hints { header: Some(found.base), ..Hints::default() };
    let located = threadx().locate(&mut memory, &NoSymbols, &hints).unwrap();
    let capture = threadx().capture(&mut memory, &NoSymbols, &located, Extent::All).unwrap();
    threadx().decode(&capture, &Catalogue::threadx(Names::Duo), &DecodeOptions::default()).unwrap()
}

fn truth(name: &str) -> BTreeMap<String, u64> {
    let text = std::fs::read_to_string(fixtures().join(name)).unwrap();
    let rows = text.lines().skip(1).map(|l| l.split('\t').collect::<Vec<_>>());
    rows.filter_map(|r| Some((r[0].to_owned(), r[1].parse().ok()?))).collect()
}

/// The ring holds the whole run: the longest latency of each thread is the one that the kernel measured. Only the first
/// start of all is seen late, at the first event of its thread: an insert takes 113 cycles at most.
#[test]
fn the_longest_latency_is_what_the_firmware_measured() {
    let report = latency(&load("cm3-unwrapped.ram.bin"), &[], &[]).remove(0);
    let mut want = truth("cm3-unwrapped.truth.tsv");
    want.retain(|name, _| name.ends_with(".max_latency"));
    assert_eq!(report.rows.len(), want.len());
    for row in &report.rows {
        let (name, max) = (text(&row[0]), text(&row[5]).parse::<u64>().unwrap());
        let want = want[&format!("thread.{name}.max_latency")];
        let late = if name == "watchdog" { 113 } else { 0 };
        assert!((want..=want + late).contains(&max), "{name}: {max}, the firmware measured {want}");
    }
}

/// Where the ring holds the end of the run, nothing is longer than the longest of the whole run, on any system.
#[test]
fn no_latency_is_longer_than_what_the_firmware_measured() {
    for (capture, counters) in [
        ("cm3.trx", "cm3.truth.tsv"),
        ("cm3-straddle.ram.bin", "cm3-straddle.truth.tsv"),
        ("host-ulong64.trx", "host.truth.tsv"),
        ("be.trx", "be.truth.tsv"),
        ("smp.trx", "smp.truth.tsv"),
    ] {
        let report = latency(&load(capture), &[], &[]).remove(0);
        let want = truth(counters);
        let mut measured = 0;
        for row in report.rows.iter().filter(|r| r[5] != Cell::Empty) {
            let (name, max) = (text(&row[0]), text(&row[5]).parse::<u64>().unwrap());
            measured += 1;
            assert!(max <= want[&format!("thread.{name}.max_latency")], "{capture}: {name} {max}");
        }
        assert!(measured >= 6, "{capture}");
    }
}

#[test]
fn interrupts_are_those_that_the_firmware_counted() {
    let report = latency(&load("cm3-unwrapped.ram.bin"), &[], &[]).remove(1);
    let want = truth("cm3-unwrapped.truth.tsv");
    let got: Vec<(String, String)> = report.rows.iter().map(|r| (text(&r[0]), text(&r[1]))).collect();
    for number in ["15", "21"] {
        let count = want[&format!("interrupts.{number}")].to_string();
        assert!(got.contains(&(number.to_owned(), count)), "{got:?}");
    }
}

#[test]
fn calls_are_those_that_the_firmware_counted() {
    let report = usage(&load("cm3-unwrapped.ram.bin"), &Catalogue::threadx(Names::Duo));
    let want = truth("cm3-unwrapped.truth.tsv");
    let of = |ids: &[u32]| ids.iter().filter_map(|id| want.get(&format!("event.{id}"))).sum::<u64>();
    for (kind, puts, gets) in [
        ("queue", of(&[63, 69]), of(&[68])),
        ("semaphore", of(&[80, 88]), of(&[83])),
        ("mutex", of(&[57]), of(&[52])),
        ("event_flags", of(&[36]), of(&[32])),
        ("block_pool", of(&[17]), of(&[10])),
        ("byte_pool", of(&[27]), of(&[20])),
    ] {
        let sum = |column: usize| -> u64 {
            let rows = report.rows.iter().filter(|r| text(&r[1]) == kind);
            rows.map(|r| text(&r[column]).parse::<u64>().unwrap()).sum()
        };
        assert_eq!((sum(2), sum(3)), (puts, gets), "{kind}");
    }
    // The story: control waits for the bus, which low_task has.
    let bus = report.rows.iter().find(|r| text(&r[0]) == "bus_mutex").unwrap();
    assert_eq!((text(&bus[6]), text(&bus[10])), ("1".to_owned(), "1".to_owned()));
}

// ---- The histogram ----

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

// ---- What people see ----

fn run(line: &str) -> String {
    let out = Command::new(env!("CARGO_BIN_EXE_tx-trace"))
        .args(line.split_whitespace())
        .current_dir(fixtures())
        .env_remove("TX_TRACE_ELF")
        .env_remove("TX_TRACE_REMOTE")
        .env_remove("COLUMNS")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let mut text = format!("$ tx-trace {line}\n");
    text.push_str(std::str::from_utf8(&out.stdout).unwrap());
    for said in std::str::from_utf8(&out.stderr).unwrap().lines() {
        writeln!(text, "[stderr] {said}").unwrap();
    }
    writeln!(text, "[exit {}]", out.status.code().unwrap()).unwrap();
    text
}

fn check(name: &str, lines: &[&str]) {
    let got: String = lines.iter().map(|l| run(l) + "\n").collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/cli").join(format!("{name}.txt"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, got).unwrap();
        return;
    }
    let want = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = got.lines().zip(want.lines()).position(|(a, b)| a != b).unwrap_or(0);
    assert!(
        got == want,
        "{name}: line {}\n  got:  {:?}\n  want: {:?}\n(UPDATE_GOLDEN=1 takes the new one)",
        differs + 1,
        got.lines().nth(differs),
        want.lines().nth(differs)
    );
}

#[test]
fn latency_as_printed() {
    check(
        "latency",
        &[
            "latency cm3.elf cm3.core",
            "latency cm3.elf cm3.core --hz 25M --every user_4097 --span tx_queue_send..tx_queue_receive:queue",
            "latency cm3.elf cm3.core --hz 25M --width 120 --span tx_block_allocate..tx_block_release:memory_ptr",
            "latency cm3.elf cm3.core --every APP_F* --format json",
            "latency cm3.elf cm3.core --from 200 --format csv",
            "latency cm3.elf cm3.core --hz 25M --every user_4097 --from 100",
            "latency smp.elf smp.core",
            "latency qnx.kev --every thread_running --span int_entry..thread_running",
            "latency uia-stop.elf uia-stop.ram.bin",
        ],
    );
}

#[test]
fn use_as_printed() {
    check(
        "use",
        &[
            "objects --use cm3.elf cm3.core",
            "objects --use cm3.elf cm3.core --hz 25M --width 120",
            "objects --use cm3.elf cm3.core --object bus_mutex --format json",
            "objects --use smp.elf smp.core --format csv",
            "objects --use qnx.kev",
            "objects --use uia-stop.elf uia-stop.ram.bin",
        ],
    );
}

#[test]
fn mistakes_are_said() {
    let source = "cm3.elf cm3.core";
    for (words, code, says) in [
        ("latency --span tx_queue_send", 2, "A..B or A..B:FIELD is wanted"),
        ("latency --span tx_queue_send..tx_queue_get", 2, "there is no event 'tx_queue_get'"),
        ("latency --span tx_queue_send..tx_queue_receive:nonsense", 2, "'tx_queue_send' has no field 'nonsense'"),
        ("latency --every no_such_event", 2, "there is no event 'no_such_event'"),
        ("latency --every no_such_*", 2, "no event in the catalogue fits 'no_such_*'"),
        ("profile --every tx_queue_send", 2, "--every and --span go with latency and report"),
        ("latency --every tx_queue_flush", 0, "--every tx_queue_flush: no such event"),
    ] {
        let got = run(&format!("{words} {source}"));
        assert!(got.contains(&format!("[exit {code}]")) && got.contains(says), "{got}");
    }
}
