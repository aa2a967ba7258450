//! Events that are missing in the middle of a trace: what was known before them is not known behind them.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use crate::support::builder::{Buffer, Entry, Registered};
use crate::support::flat::Flat;
use crate::support::qnx::{self, Kernel};
use crate::support::threadx;
use crate::support::uia::{Ev, Lap, Ram, Texts};
use tx_trace::analysis::tracker::{Consumer, Step, System, ThreadState, Tracker, Wants, Who};
use tx_trace::analysis::{Name, ReportRequest, reports};
use tx_trace::catalogue::{Catalogue, Names};
use tx_trace::explain::Events;
use tx_trace::follow::{Interval, Update};
use tx_trace::format::{ALL, DecodeOptions, Extent, Hints};
use tx_trace::query::{Filters, Query};
use tx_trace::report::{Cell, Report};
use tx_trace::sym::{NoSymbols, Pairs, Symbols};
use tx_trace::trace::Trace;

const ALPHA: u64 = 0x2000_1000;
const BETA: u64 = 0x2000_1100;
const MUTEX: u64 = 0x2000_2000;
/// The kernel's codes of `tx_thread_sleep` and of waiting for a mutex.
const SLEEPS: u64 = 4;
const WAITS: u64 = 13;
const FOREVER: u64 = 0xFFFF_FFFF;

type Loaded = (Trace, Catalogue);

fn made(loaded: &Loaded, request: &ReportRequest) -> Vec<Report> {
    let (trace, catalogue) = loaded;
    let query = Query::compile(&Filters::default(), trace, catalogue).unwrap();
    reports(trace, catalogue, &query, request).unwrap()
}

fn report(loaded: &Loaded, name: Name) -> Report {
    made(loaded, &ReportRequest { names: vec![name], ..ReportRequest::default() }).remove(0)
}

/// A column of a report, without its empty cells.
fn column(report: &Report, name: &str) -> Vec<u64> {
    let at = report.columns.iter().position(|c| c.name == name).unwrap();
    let number = |row: &[Cell]| match &row[at] {
        Cell::Count(n) => Some(*n),
        Cell::Ticks(n) => u64::try_from(*n).ok(),
        _ => None,
    };
    report.rows.iter().filter_map(number).collect()
}

/// No wait reaches over the loss, and the report says that one was open there.
fn no_wait_is_carried_over(loaded: &Loaded) {
    assert_eq!(loaded.0.gaps.len(), 1, "{:?}", loaded.0.gaps);
    let blocked = report(loaded, Name::Blocked);
    assert_eq!((column(&blocked, "count"), column(&blocked, "open")), (vec![], vec![]), "{:?}", blocked.rows);
    let note = "1 wait was open where events are missing: when they ended, if they did, is not known";
    assert!(blocked.notes.iter().any(|n| n == note), "{:?}", blocked.notes);
}

// ---- ThreadX ----

fn works(thread: u64, at: u64) -> Entry {
    Entry::thread(thread, 4, 5000, at, [0; 4])
}

fn suspends(thread: u64, at: u64, state: u64, next: u64) -> Entry {
    Entry::thread(thread, 4, 2, at, [thread, state, 0, next])
}

fn wakes(thread: u64, at: u64) -> Entry {
    Entry::isr(BETA, 1, at, [thread, 4, 0, thread])
}

fn gets(thread: u64, at: u64, owner: u64) -> Entry {
    Entry::thread(thread, 4, 52, at, [MUTEX, FOREVER, owner, u64::from(owner != 0)])
}

/// Alpha sleeps twice; from 3 to 5 are the end of its first sleep and the beginning of its second.
fn sleeps() -> Vec<Entry> {
    vec![
        works(ALPHA, 0),
        suspends(ALPHA, 100, SLEEPS, BETA),
        works(BETA, 150),
        wakes(ALPHA, 200),
        works(ALPHA, 250),
        suspends(ALPHA, 300, SLEEPS, BETA),
        works(BETA, 400),
        wakes(ALPHA, 500),
        works(ALPHA, 600),
        works(ALPHA, 700),
    ]
}

fn buffer(events: &[Entry]) -> Buffer {
    let objects = [(ALPHA, "alpha"), (BETA, "beta")].map(|(address, name)| threadx::thread(address, name, 4));
    let mut objects = objects.to_vec();
    objects.push(Registered::new(5, MUTEX, "mutex"));
    Buffer { objects, ..Buffer::new(threadx::BASE) }.record(events.len() + 1, events)
}

fn threadx_of(buffer: &Buffer) -> Loaded {
    (threadx::decode(buffer), Catalogue::threadx(Names::default()))
}

/// The events with some of their slots cleared.
fn without(events: &[Entry], lost: std::ops::Range<usize>) -> Loaded {
    let mut buffer = buffer(events);
    buffer.slots[lost].fill(Entry::UNUSED);
    threadx_of(&buffer)
}

#[test]
fn a_wait_was_carried_over_lost_events_of_threadx() {
    let whole = threadx_of(&buffer(&sleeps()));
    assert!(whole.0.gaps.is_empty());
    let blocked = report(&whole, Name::Blocked);
    assert_eq!((column(&blocked, "count"), column(&blocked, "total")), (vec![2], vec![300]));
    let cleared = without(&sleeps(), 3..6);
    assert_eq!(cleared.0.gaps, [6]);
    no_wait_is_carried_over(&cleared);
    // Slots that were overwritten, and hold no event.
    let mut buffer = buffer(&sleeps());
    for slot in &mut buffer.slots[3..6] {
        (slot.id, slot.priority) = (0xEEEE_EEEE, 0xEEEE_EEEE);
    }
    let damaged = threadx_of(&buffer);
    assert_eq!(damaged.0.gaps, [6]);
    no_wait_is_carried_over(&damaged);
}

#[test]
fn time_across_lost_events_was_given_to_who_ran_before() {
    let profile = report(&without(&sleeps(), 3..6), Name::Profile);
    let unknown = profile.rows.iter().position(|row| row[1] == Cell::Word("unknown")).unwrap();
    assert_eq!(column(&profile, "ticks")[unknown], 250, "from 150 to 400: {:?}", profile.rows);
    assert_eq!(column(&profile, "ticks").iter().sum::<u64>(), 700);
    assert!(profile.notes.iter().any(|n| n == "events are missing at 1 place: the time across is unknown"));
}

#[test]
fn an_owner_was_carried_over_lost_events() {
    // Beta gives the mutex back in what is lost.
    let events = [
        gets(BETA, 100, 0),
        Entry::thread(BETA, 4, 57, 200, [MUTEX, BETA, 1, 0]),
        suspends(BETA, 250, SLEEPS, ALPHA),
        works(ALPHA, 300),
        works(ALPHA, 400),
    ];
    let (trace, catalogue) = without(&events, 1..3);
    let mut tracker = Tracker::new(&trace, &catalogue, Wants::ALL);
    let mut owners = Vec::new();
    trace.visit(|event| {
        tracker.event(event, &mut Nobody);
        let system = tracker.system();
        owners.push(system.find_object(MUTEX).and_then(|lock| system.lock(lock)?.owner).is_some());
        ControlFlow::Continue(())
    });
    assert_eq!(owners, [true, false, false]);
}

#[test]
fn an_inversion_was_carried_over_lost_events() {
    let events = [
        gets(BETA, 100, 0),
        works(ALPHA, 150),
        gets(ALPHA, 200, BETA),
        suspends(ALPHA, 210, WAITS, BETA),
        works(BETA, 300),
        works(BETA, 400),
        works(BETA, 500),
    ];
    let mut buffer = buffer(&events);
    for slot in buffer.slots.iter_mut().filter(|slot| slot.context == BETA) {
        slot.priority = 0x8000_0000 | 20 << 16 | 20;
    }
    assert_eq!(report(&threadx_of(&buffer), Name::Inversions).rows.len(), 1);
    buffer.slots[5] = Entry::UNUSED;
    let inversions = report(&threadx_of(&buffer), Name::Inversions);
    assert!(inversions.rows.is_empty(), "{:?}", inversions.rows);
    let note = "1 wait for a lock was open where events are missing: how they ended is not known";
    assert!(inversions.notes.iter().any(|n| n == note), "{:?}", inversions.notes);
}

#[test]
fn a_period_and_a_span_reached_over_lost_events() {
    let events: Vec<Entry> = (0..10).map(|n| Entry::thread(ALPHA, 4, 5000 + n % 2, 100 * n, [0; 4])).collect();
    let request = ReportRequest {
        names: vec![Name::Latency],
        every: vec!["5000".to_owned()],
        spans: vec!["5000..5001".to_owned()],
        ..ReportRequest::default()
    };
    // 400 begins a span; 500 and 600 are lost.
    let all = made(&without(&events, 5..7), &request);
    let of = |name: &str| all.iter().find(|r| r.name == name).unwrap();
    assert_eq!(column(of("latency_every"), "count"), [2], "0 to 200, 200 to 400");
    assert_eq!(column(of("latency_every"), "max"), [200]);
    let spans = of("latency_spans");
    assert_eq!(
        (column(spans, "count"), column(spans, "no_end"), column(spans, "no_start")),
        (vec![3], vec![0], vec![1])
    );
    assert!(spans.notes.iter().any(|n| n.contains("1 A was open where events are missing")), "{:?}", spans.notes);
}

/// Takes nothing.
struct Nobody;

impl Consumer for Nobody {
    fn step(&mut self, _: &Step<'_>, _: &System<'_>) {}
}

#[test]
fn nothing_is_known_behind_a_gap() {
    let events = [works(ALPHA, 0), Entry::isr(ALPHA, 3, 100, [0, 15, 0, 0]), works(BETA, 200)];
    let (trace, catalogue) = threadx_of(&buffer(&events));
    let events: Vec<_> = trace.events().collect();
    let mut tracker = Tracker::new(&trace, &catalogue, Wants::ALL);
    tracker.event(&events[0], &mut Nobody);
    tracker.event(&events[1], &mut Nobody);
    assert_eq!(tracker.system().frames(0).len(), 1);
    tracker.gap(&mut Nobody);
    let system = tracker.system();
    assert_eq!((system.frames(0).len(), system.holder(0)), (0, Who::Unknown));
    let alpha = system.find_thread(ALPHA).unwrap();
    assert_eq!(system.thread(alpha).unwrap().state, ThreadState::Unknown);
}

/// Every second slot of a large ring is cleared, and each event is of another thread.
#[test]
fn many_gaps_and_many_threads_take_no_longer_than_their_events() {
    let events: Vec<Entry> = (0..60_000).map(|n| works(0x2000_0000 + 0x100 * (n + 1), n * 10)).collect();
    let mut buffer = buffer(&events);
    buffer.slots.iter_mut().step_by(2).for_each(|slot| *slot = Entry::UNUSED);
    let loaded = threadx_of(&buffer);
    assert!(loaded.0.gaps.len() > 29_000);
    let began = Instant::now();
    report(&loaded, Name::Blocked);
    report(&loaded, Name::Profile);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

/// Each gap cost as much as there are objects.
#[test]
fn explain_looked_at_all_objects_at_each_gap() {
    const PUT: u64 = 69;
    let puts = (0..80_000).map(|n| {
        let object = 0x2100_0000 + 0x40 * (n % 4096);
        Entry::thread(ALPHA, 4, PUT, n * 10, [object, 7, 3, 1])
    });
    let mut buffer = buffer(&puts.collect::<Vec<_>>());
    buffer.slots.iter_mut().skip(8192).step_by(2).for_each(|slot| *slot = Entry::UNUSED);
    let (trace, catalogue) = threadx_of(&buffer);
    assert!(trace.gaps.len() > 35_000);
    let began = Instant::now();
    let events = Events::of(&trace, &catalogue).unwrap();
    assert_eq!(events.objects().count(), 4096);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

/// `explain` looks at the newest events of a long trace: what is older is lost for it, and nothing of it is counted.
#[test]
fn explain_leaves_out_what_is_old_in_a_long_trace() {
    let (trace, catalogue) = threadx_of(&buffer(&sleeps()));
    let whole = Events::of(&trace, &catalogue).unwrap();
    assert_eq!((whole.count, whole.left_out, whole.is_whole, whole.span), (10, 0, true, (0, 700)));
    let newest = Events::of_newest(&trace, &catalogue, 4).unwrap();
    assert_eq!((newest.count, newest.left_out, newest.is_whole, newest.newest), (4, 6, false, whole.newest));
    assert_eq!(newest.span.1 - newest.span.0, 300);
    let ran = |events: &Events, thread| events.activity(thread).map_or(0, |activity| activity.ran);
    assert_eq!([ran(&whole, ALPHA), ran(&whole, BETA)], [400, 300], "of 700 ticks");
    assert_eq!([ran(&newest, ALPHA), ran(&newest, BETA)], [200, 100], "of 300 ticks");
}

/// Reports over intervals join the events of several reads: slots that were passed over are lost events there as well.
#[test]
fn an_interval_of_a_followed_target_did_not_know_of_lost_events() {
    let (trace, catalogue) = without(&sleeps(), 3..6);
    let events: Vec<_> = trace.events().collect();
    let mut interval = Interval::default();
    for part in events.chunks(4) {
        let (trace, _) = without(&sleeps(), 3..6);
        let events = part.to_vec();
        interval.add(&Update { trace, events, gap: None, renamed: false, more: false });
    }
    let joined = interval.take(&trace);
    assert_eq!(joined.gaps, [6]);
    no_wait_is_carried_over(&(joined, catalogue));
}

// ---- UIA, QNX ----

fn load(format: &str, base: u64, bytes: Vec<u8>, symbols: &dyn Symbols, hints: &Hints) -> Loaded {
    let format = ALL.iter().find(|f| f.name() == format).unwrap();
    let mut memory = Flat::new(base, bytes);
    let located = format.locate(&mut memory, symbols, hints).unwrap();
    let capture = located.capture(&mut memory, symbols, Extent::All).unwrap();
    let catalogue = capture.catalogue(Names::Duo);
    (capture.decode(&catalogue, &DecodeOptions::default()).unwrap(), catalogue)
}

/// The same sleeps of a task of SYS/BIOS; `lost` says whether the logger did not record 3 to 6.
fn uia_sleeps(lost: bool) -> Loaded {
    const RAM: u32 = 0x2000_0000;
    const BUFFER: u32 = RAM + 0x100;
    let (a, b) = (0x2000_8000, 0x2000_8100);
    let mut t = Texts::new();
    let task = t.module("ti.sysbios.knl.", "Task");
    let switch = t.text("LM_switch: oldtsk: 0x%x, oldfunc: 0x%x, newtsk: 0x%x, newfunc: 0x%x");
    let block = t.text("LD_block: tsk: 0x%x, func: 0x%x");
    let ready = t.text("LD_ready: tsk: 0x%x, func: 0x%x, pri: %d");
    let mut lap = Lap::new(false, false, BUFFER, 1024);
    let story: [(u16, &[u32]); 10] = [
        (switch, &[b, 0x901, a, 0x801]),
        (block, &[a, 0x801]),
        (switch, &[a, 0x801, b, 0x901]),
        (ready, &[a, 0x801, 2]),
        (switch, &[b, 0x901, a, 0x801]),
        (block, &[a, 0x801]),
        (switch, &[a, 0x801, b, 0x901]),
        // Says nothing of who runs: it is of beta only as long as nothing is missing.
        (ready, &[0x2000_8200, 0x801, 2]),
        (ready, &[a, 0x801, 2]),
        (switch, &[b, 0x901, a, 0x801]),
    ];
    for (i, (event, words)) in story.into_iter().enumerate() {
        if lost && (3..7).contains(&i) {
            lap.sequence += 1;
        } else {
            lap.log(&Ev::new(10, event, task, 1000 + 100 * i as u64, words));
        }
    }
    let (chars, nodes) = (RAM + 0x1000, RAM + 0x2000);
    let names = [
        ("ti_uia_loggers_LoggerStopMode_Object__table__V", RAM),
        ("xdc_runtime_Text_charTab__A", chars),
        ("xdc_runtime_Text_nodeTab__A", nodes),
    ];
    let symbols = Pairs::new(names.iter().map(|(n, a)| ((*n).to_owned(), u64::from(*a))).collect());
    let ram = Ram::new(RAM).put(RAM, &lap.object(1, RAM + 0x40)).put(RAM + 0x40, &lap.descriptor(0, 1, RAM + 36));
    let ram = ram.put(BUFFER, &lap.mem).put(chars, &t.chars).put(nodes, &t.node_bytes(false));
    load("uia", ram.base.into(), ram.bytes, &symbols, &Hints::default())
}

#[test]
fn a_wait_was_carried_over_lost_events_of_uia() {
    let whole = uia_sleeps(false);
    assert!(whole.0.gaps.is_empty());
    assert_eq!(column(&report(&whole, Name::Blocked), "count"), [2]);
    let lost = uia_sleeps(true);
    assert_eq!(lost.0.gaps, [3]);
    no_wait_is_carried_over(&lost);
    // Who runs is taken from the events before: it was carried over too.
    let events: Vec<_> = lost.0.events().collect();
    assert!(lost.0.contexts.get(events[2].context).is_some());
    assert!(lost.0.contexts.get(events[3].context).is_none());
}

/// The same sleeps of a QNX thread, one third of them in each buffer of the ring.
fn qnx_sleeps() -> Kernel {
    const FULL: usize = 12;
    const SLEEPER: [u32; 2] = [4099, 1];
    const OTHER: [u32; 2] = [8196, 1];
    let mut kernel = Kernel::new(4, FULL);
    let mut at = 1000;
    for part in [
        &[(SLEEPER, 1), (SLEEPER, 12), (OTHER, 1)][..],
        &[(SLEEPER, 2), (SLEEPER, 1), (SLEEPER, 12), (OTHER, 1)],
        &[(SLEEPER, 2), (SLEEPER, 1)],
    ] {
        for (who, state) in part {
            kernel.event(0, at, 4, *state, who);
            at += 100;
        }
        while kernel.fill() < FULL {
            kernel.event(0, at, 6, 9, &[1]);
            at += 1;
        }
    }
    kernel
}

fn qnx_of(kernel: &Kernel, bytes: Vec<u8>) -> Loaded {
    let hints = Hints { header: Some(kernel.base), ..Hints::default() };
    load("qnx", kernel.base, bytes, &NoSymbols, &hints)
}

#[test]
fn a_wait_was_carried_over_lost_events_of_qnx() {
    let kernel = qnx_sleeps();
    let whole = qnx_of(&kernel, kernel.bytes());
    assert!(whole.0.gaps.is_empty(), "{:?}", whole.0.gaps);
    assert_eq!(column(&report(&whole, Name::Blocked), "count"), [2]);
    let mut bytes = kernel.bytes();
    // The header of the second buffer is overwritten.
    bytes[qnx::BUFFER..qnx::BUFFER + 160].fill(0xCC);
    no_wait_is_carried_over(&qnx_of(&kernel, bytes));
    // In the second buffer an element that is none: what it held may have been anything.
    let mut bytes = kernel.bytes();
    let element = qnx::BUFFER + 160 + 16 * 4;
    bytes[element..element + 4].fill(0xFF);
    let damaged = qnx_of(&kernel, bytes);
    assert_eq!(damaged.0.gaps.len(), 1, "{:?}", damaged.0.issues);
}
