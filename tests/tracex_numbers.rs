//! TraceX's own numbers: against what TraceX's library printed for real traces, and on hand-made traces for each rule by
//! which it differs from the truth.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "a test"
)]

mod support;

use std::collections::BTreeMap;
use std::path::Path;

use support::builder::{Buffer, Entry, Registered};
use support::decode::{Door, open, threadx};
use support::flat::Flat;
use tx_trace::analysis::tracex::{FILEX, NETX, Numbers, numbers};
use tx_trace::analysis::{self, Name, Wish};
use tx_trace::catalogue::Names;
use tx_trace::format::{ALL, DecodeOptions, Extent, Hints};
use tx_trace::query::{Filters, Query, Wrong};
use tx_trace::sym::NoSymbols;
use tx_trace::trace::Trace;

const BASE: u64 = 0x2000_4000;
const ALPHA: u64 = 0x2000_1000;
const BETA: u64 = 0x2000_2000;
const GAMMA: u64 = 0x2000_3000;
const MUTEX: u64 = 0x2000_0100;
const OTHER: u64 = 0x2000_0200;
const USER: u64 = 5000;
const RESUME: u64 = 1;
const SUSPEND: u64 = 2;
const ISR_ENTER: u64 = 3;
const ISR_EXIT: u64 = 4;
const TIME_SLICE: u64 = 5;
const GET: u64 = 52;
const PUT: u64 = 57;

fn registry() -> Vec<Registered> {
    let thread = |address, name| Registered { params: [0x2001_0000, 0x400], ..Registered::new(1, address, name) };
    vec![
        thread(ALPHA, "alpha"),
        thread(BETA, "beta"),
        thread(GAMMA, "gamma"),
        Registered::new(5, MUTEX, "mutex"),
        Registered::new(5, OTHER, "other"),
    ]
}

fn by_registry(objects: Vec<Registered>, events: &[Entry]) -> Numbers {
    numbers(&load(&Buffer { objects, ..Buffer::new(BASE) }.record(events.len() + 4, events)), true).unwrap()
}

fn of(events: &[Entry]) -> Numbers {
    by_registry(registry(), events)
}

fn load(buffer: &Buffer) -> Trace {
    open(buffer, &buffer.bytes(), Door::Header, Extent::All).unwrap()
}

fn user(thread: u64, priority: u64, stamp: u64) -> Entry {
    Entry::thread(thread, priority, USER, stamp, [0; 4])
}

/// Ticks of a thread, idle and so on as the profile has them.
fn ticks(n: &Numbers, name: &str) -> u64 {
    n.threads.iter().find(|t| t.name == name).unwrap().ticks
}

// ---- What TraceX printed ----

/// Sections of a `.tracex-stats.txt`, with the lines that are no comments.
fn sections(path: &Path) -> Vec<(String, Vec<String>)> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut all: Vec<(String, Vec<String>)> = Vec::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|l| l.split(']').next()) {
            all.push((name.to_owned(), Vec::new()));
        } else if !line.starts_with('#') && !line.is_empty() {
            all.last_mut().unwrap().1.push(line.to_owned());
        }
    }
    all
}

fn from_file(path: &Path) -> Trace {
    let bytes = std::fs::read(path).unwrap();
    let base = threadx().scan(&bytes, 4)[0].base;
    let mut memory = Flat::new(base, bytes);
    let hints = Hints { header: Some(base), ..Hints::default() };
    let located = threadx().locate(&mut memory, &NoSymbols, &hints).unwrap();
    let capture = threadx().capture(&mut memory, &NoSymbols, &located, Extent::All).unwrap();
    threadx().decode(&capture, &threadx().catalogue(Names::Duo), &DecodeOptions::default()).unwrap()
}

fn counters(n: &Numbers) -> Vec<String> {
    let p = &n.performance;
    [
        ("context_switches", p.context_switches),
        ("thread_preemptions", p.thread_preemptions),
        ("time_slices", p.time_slices),
        ("thread_suspensions", p.thread_suspensions),
        ("thread_resumptions", p.thread_resumptions),
        ("interrupts", p.interrupts),
        ("nested_interrupts", p.nested_interrupts),
        ("deterministic_priority_inversions", n.inversions),
        ("undeterministic_priority_inversions", n.bad_inversions),
    ]
    .iter()
    .map(|(k, v)| format!("{k}={v}"))
    .collect()
}

fn profile(n: &Numbers) -> Vec<String> {
    let mut lines = vec![format!("interrupt={}", n.interrupt), format!("idle={}", n.idle)];
    lines.extend(n.threads.iter().map(|t| format!("thread {:08X} {}={}", t.address, t.name, t.ticks)));
    let sum: u64 = n.interrupt + n.idle + n.threads.iter().map(|t| t.ticks).sum::<u64>();
    lines.push(format!("initialize_by_difference={}", n.max_relative_ticks - sum));
    lines
}

fn threads(n: &Numbers) -> Vec<String> {
    let word = |n: Option<u32>| n.map_or("-1".to_owned(), |n| n.to_string());
    let line = |(i, t): (usize, &tx_trace::analysis::tracex::Thread)| {
        format!(
            "{i}\t{:08X}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}",
            t.address,
            t.name,
            t.events,
            t.suspensions,
            t.resumptions,
            word(t.priorities.map(|p| p.0)),
            word(t.priorities.map(|p| p.1)),
            word(t.low_threshold),
            word(t.high_threshold),
            t.stack_size,
            t.min_available,
            t.min_event
        )
    };
    n.threads.iter().enumerate().map(line).collect()
}

/// Ids and counts: which of two equal counts comes first is left to the sorting.
fn services(lines: &[String]) -> BTreeMap<u32, u64> {
    let pair = |l: &String| {
        let (name, count) = l.rsplit_once('=').unwrap();
        (name.split(' ').next().unwrap().parse().unwrap(), count.parse().unwrap())
    };
    lines.iter().map(pair).collect()
}

fn falls(list: &[(u32, u64)]) -> bool {
    list.windows(2).all(|w| w[0].1 >= w[1].1)
}

#[test]
fn every_line_of_what_tracex_printed() {
    let Some(dir) = support::real_traces() else { return };
    let mut seen = 0;
    for file in std::fs::read_dir(dir.join("threadx")).unwrap() {
        let path = file.unwrap().path();
        let Some(stem) = path.to_str().and_then(|p| p.strip_suffix(".tracex-stats.txt")) else { continue };
        seen += 1;
        let n = numbers(&from_file(Path::new(&format!("{stem}.trx"))), true).unwrap();
        let mut by_thread = n.threads.iter();
        for (section, lines) in sections(&path) {
            let what = format!("{stem} [{section}]");
            match section.as_str() {
                "header" => {
                    let stated: BTreeMap<&str, &str> = lines.iter().map(|l| l.split_once('=').unwrap()).collect();
                    for (key, value) in [
                        ("total_threads", n.total_threads),
                        ("total_objects", n.total_objects),
                        ("total_events_incl_synth", n.total_events),
                        ("max_relative_ticks", n.max_relative_ticks),
                        ("synth_running_events", n.inserted_events),
                    ] {
                        assert_eq!(stated[key], value.to_string(), "{what} {key}");
                    }
                }
                "performance" => assert_eq!(lines, counters(&n), "{what}"),
                "execution_profile" => assert_eq!(lines, profile(&n), "{what}"),
                "threads" => assert_eq!(lines, threads(&n), "{what}"),
                "popular_services" => {
                    assert_eq!(services(&lines), n.services.iter().copied().collect(), "{what}");
                    assert!(falls(&n.services), "{what}");
                }
                "inversions" => {
                    let ours: Vec<String> =
                        n.inversion_ranges.iter().map(|i| format!("{}\t{}\t{}", i.start, i.end, i.bad_end)).collect();
                    assert_eq!(lines, ours, "{what}");
                }
                "thread_status" => {
                    for (line, t) in lines.iter().zip(&n.threads) {
                        let states: String = t.states.iter().map(|(i, s)| format!(" ({i},{s})")).collect();
                        assert_eq!(*line, format!("{}:{states}", t.name), "{what}");
                    }
                    assert_eq!(lines.len(), n.threads.len());
                }
                "filex" => {
                    let ours: Vec<String> = FILEX.iter().zip(n.filex).map(|(k, v)| format!("{k}={v}")).collect();
                    assert_eq!(lines, ours, "{what}");
                }
                "netx" => {
                    let ours: Vec<String> = NETX.iter().zip(n.netx).map(|(k, v)| format!("{k}={v}")).collect();
                    assert_eq!(lines, ours, "{what}");
                }
                "objects" => {}
                other => {
                    let thread = by_thread.next().unwrap();
                    assert_eq!(other, format!("popular_services {}", thread.name), "{what}");
                    assert_eq!(services(&lines), thread.services.iter().copied().collect(), "{what}");
                    assert!(falls(&thread.services), "{what}");
                }
            }
        }
        assert!(by_thread.next().is_none(), "{stem}");
    }
    assert!(seen >= 2, "{seen}");
}

/// Traces for which TraceX's library printed nothing that lies beside them; it was asked for these numbers once.
#[test]
fn numbers_of_traces_that_are_not_in_that_list() {
    let Some(dir) = support::real_traces() else { return };
    let n = |name: &str| numbers(&from_file(&dir.join("threadx").join(name)), false).unwrap();
    let udp = n("demo_netx_udp.trx");
    let slices = udp.services.iter().find(|(id, _)| u64::from(*id) == TIME_SLICE).map(|(_, n)| *n);
    assert_eq!((slices, udp.performance.time_slices), (Some(25), 0), "25 time slices are counted as 0");
    assert_eq!((udp.total_events, udp.inserted_events, udp.performance.context_switches), (951, 1, 87));
    assert_eq!((udp.performance.interrupts, udp.performance.thread_preemptions), (27, 21));
    let cm4f = n("real_cm4f.trx");
    assert_eq!((cm4f.total_events, cm4f.inserted_events, cm4f.max_relative_ticks), (2139, 153, 38_551_371));
    assert_eq!((cm4f.performance.context_switches, cm4f.performance.thread_preemptions), (553, 168));
    assert_eq!((cm4f.inversions, cm4f.bad_inversions, cm4f.interrupt), (1, 1, 19_871));
    let ppc = n("real_ppc_be.trx");
    assert_eq!((ppc.total_events, ppc.max_relative_ticks, ppc.interrupt), (2139, 317_067_088, 484_450));
    let linux = n("real_linux64.trx");
    assert_eq!((linux.total_events, linux.performance.context_switches), (2145, 544));
}

/// The same for the fixtures' firmware, whose true numbers stand in the `.truth.tsv` beside each.
#[test]
fn numbers_of_the_fixtures() {
    for (name, expected) in [
        ("cm3.trx", [270, 14, 4_500_652, 53, 26, 0, 34, 38, 28, 0, 1, 1, 4122]),
        ("be.trx", [270, 14, 4_500_652, 53, 26, 0, 34, 38, 28, 0, 1, 1, 4122]),
        ("smp.trx", [281, 25, 5_248_147, 85, 25, 0, 34, 36, 30, 0, 2, 1, 4777]),
    ] {
        let n = numbers(&from_file(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)), false);
        let n = n.unwrap();
        let p = n.performance;
        let ours = [
            n.total_events,
            n.inserted_events,
            n.max_relative_ticks,
            p.context_switches,
            p.thread_preemptions,
            p.time_slices,
            p.thread_suspensions,
            p.thread_resumptions,
            p.interrupts,
            p.nested_interrupts,
            n.inversions,
            n.bad_inversions,
            n.interrupt,
        ];
        assert_eq!(ours, expected, "{name}");
    }
}

// ---- Order and time ----

#[test]
fn two_events_increasing() {
    assert_eq!(of(&[user(ALPHA, 5, 100), user(ALPHA, 5, 250)]).max_relative_ticks, 4_294_967_146);
    // A third one has a vote.
    assert_eq!(of(&[user(ALPHA, 5, 100), user(ALPHA, 5, 250), user(ALPHA, 5, 300)]).max_relative_ticks, 200);
}

#[test]
fn equal_stamps_are_one_tick() {
    assert_eq!(of(&[user(ALPHA, 5, 7), user(ALPHA, 5, 7)]).max_relative_ticks, 1);
}

#[test]
fn nanoseconds_of_a_second_wrap_at_the_mask() {
    let stamps = [999_999_000u64, 999_999_500, 999_999_900, 400, 700];
    let n = of(&stamps.map(|s| user(ALPHA, 5, s)));
    assert_eq!(n.max_relative_ticks, 1_700 + 3_294_967_296);
}

#[test]
fn a_sixteen_bit_clock_that_counts_down() {
    let events = [0x100u64, 0x80, 0x10, 0xFFF0, 0xFF00].map(|s| user(ALPHA, 5, s));
    let b = Buffer { objects: registry(), mask: 0xFFFF, ..Buffer::new(BASE) }.record(8, &events);
    assert_eq!(numbers(&load(&b), false).unwrap().max_relative_ticks, 0x200);
}

#[test]
fn hole_in_middle() {
    let events: Vec<Entry> = (0..9).map(|i| user(ALPHA, 5, 100 + i * 10)).collect();
    let mut b = Buffer { objects: registry(), ..Buffer::new(BASE) }.record(9, &events);
    b.slots[4] = Entry::UNUSED;
    let trace = load(&b);
    assert_eq!(trace.len(), 8);
    let n = numbers(&trace, false).unwrap();
    assert_eq!((n.total_events, n.unread_events, n.max_relative_ticks), (4, 4, 30));
    // Where the ring has turned it stops at the same slot, and never comes to the oldest.
    let late: Vec<Entry> = (0..15).map(|i| user(ALPHA, 5, 100 + i * 10)).collect();
    let mut b = Buffer { objects: registry(), ..Buffer::new(BASE) }.record(9, &late);
    b.slots[4] = Entry::UNUSED;
    let n = numbers(&load(&b), false).unwrap();
    assert_eq!((n.total_events, n.unread_events, n.max_relative_ticks), (4, 4, 30));
}

#[test]
fn a_hole_at_the_end_of_the_buffer_loses_nothing() {
    let late: Vec<Entry> = (0..15).map(|i| user(ALPHA, 5, 100 + i * 10)).collect();
    for (hole, left) in [(8, 8), (0, 0), (1, 1)] {
        let mut b = Buffer { objects: registry(), ..Buffer::new(BASE) }.record(9, &late);
        b.slots[hole] = Entry::UNUSED;
        assert_eq!(numbers(&load(&b), false).unwrap().total_events, left, "{hole}");
    }
}

#[test]
fn cur_bad() {
    let events: Vec<Entry> = (0..15).map(|i| user(ALPHA, 5, 100 * (i + 1))).collect();
    let mut b = Buffer { objects: registry(), ..Buffer::new(BASE) }.record(10, &events[..15]);
    b.current = 5_000_000;
    // Slots 0 to 4 are the newest: 1100 to 1500, then 600 to 1000.
    let n = numbers(&load(&b), false).unwrap();
    assert_eq!((n.total_events, n.max_relative_ticks), (10, 4_294_967_196));
}

#[test]
fn syn_10000_be() {
    let events: Vec<Entry> = (0..10_000u64)
        .map(|i| match i % 7 {
            0 => Entry::thread(ALPHA, 5, SUSPEND, 50 * i, [ALPHA, 4, 0x2001_0100, BETA]),
            1 => user(BETA, 9, 50 * i),
            2 => Entry::isr(BETA, ISR_ENTER, 50 * i, [0, 15, 1, 0]),
            3 => Entry::isr(BETA, RESUME, 50 * i, [ALPHA, 4, 0, ALPHA]),
            4 => Entry::isr(BETA, ISR_EXIT, 50 * i, [0, 15, 1, 0]),
            5 => Entry::thread(ALPHA, 5, GET, 50 * i, [MUTEX, 0, 0, 0]),
            _ => Entry::thread(ALPHA, 5, PUT, 50 * i, [MUTEX, ALPHA, 1, 0x2001_0080]),
        })
        .collect();
    let twin = |big| {
        let b = Buffer { objects: registry(), big, ..Buffer::new(BASE) }.record(10_000, &events);
        numbers(&load(&b), true).unwrap()
    };
    let le = twin(false);
    assert_eq!(le, twin(true));
    assert_eq!(le.total_events - le.inserted_events, 10_000);
    assert_eq!(le.performance.thread_suspensions, 1429);
    assert_eq!(le.threads[0].min_available, 0x80);
}

// ---- Who runs ----

/// A thread sleeps over so many timer ticks and is woken by the next.
fn sleeps(over: u64) -> Vec<Entry> {
    let mut events = vec![user(ALPHA, 5, 0), Entry::thread(ALPHA, 5, SUSPEND, 10, [ALPHA, 4, 0x2001_0100, 0])];
    for i in 1..=over {
        events.push(Entry::isr(0, ISR_ENTER, i * 1000, [0, 15, 1, 0]));
        events.push(Entry::isr(0, ISR_EXIT, i * 1000 + 20, [0, 15, 1, 0]));
    }
    let wakes = (over + 1) * 1000;
    events.push(Entry::isr(0, ISR_ENTER, wakes, [0, 15, 1, 0]));
    events.push(Entry::isr(0, RESUME, wakes + 10, [ALPHA, 4, 0, ALPHA]));
    events.push(Entry::isr(0, ISR_EXIT, wakes + 20, [0, 15, 1, 0]));
    events.push(user(ALPHA, 5, wakes + 30));
    events
}

#[test]
fn idle_ticks() {
    let n = of(&sleeps(5));
    assert_eq!(n.performance.context_switches, 12, "there are 2");
    assert_eq!((n.performance.interrupts, n.performance.nested_interrupts), (6, 0));
    assert_eq!((n.interrupt, n.inserted_events), (6 * 20, 6));
    assert_eq!(n.idle, n.max_relative_ticks - 20 - 120);
}

#[test]
fn init_time() {
    let n = of(&[
        Entry::init(USER, 0, [0; 4]),
        Entry::init(USER, 1000, [0; 4]),
        user(ALPHA, 5, 1500),
        user(ALPHA, 5, 2100),
    ]);
    assert_eq!((ticks(&n, "alpha"), n.interrupt, n.idle, n.max_relative_ticks), (1100, 0, 0, 2100));
}

#[test]
fn interrupts_without_an_enter_count_once_an_event() {
    let isr = |s| Entry::isr(ALPHA, USER, s, [0; 4]);
    let n = of(&[user(ALPHA, 5, 0), isr(10), isr(20), isr(30), user(ALPHA, 5, 40)]);
    assert_eq!((n.performance.interrupts, n.performance.nested_interrupts), (3, 0));
    let enter = |s| Entry::isr(ALPHA, ISR_ENTER, s, [0; 4]);
    let exit = |s| Entry::isr(ALPHA, ISR_EXIT, s, [0; 4]);
    let n = of(&[user(ALPHA, 5, 0), enter(10), isr(12), enter(20), exit(30), exit(40), user(ALPHA, 5, 50)]);
    assert_eq!((n.performance.interrupts, n.performance.nested_interrupts), (2, 1));
}

#[test]
fn time_slices_are_none() {
    let slice = |s, next| Entry::isr(ALPHA, TIME_SLICE, s, [next, 0, 0, 0]);
    let middle = [user(ALPHA, 5, 0), slice(10, BETA), user(BETA, 5, 20), user(BETA, 5, 30)];
    assert_eq!(of(&middle).performance.time_slices, 0, "there is 1");
    // As the first event it is one, whatever it leads to.
    assert_eq!(of(&[slice(10, BETA), user(BETA, 5, 20), user(BETA, 5, 30)]).performance.time_slices, 1);
}

#[test]
fn a_wake_up_from_idle_is_a_preemption() {
    let resumed = |s| Entry::isr(0, RESUME, s, [BETA, 4, 0, BETA]);
    let n = of(&[
        Entry::thread(ALPHA, 5, SUSPEND, 0, [ALPHA, 4, 0, 0]),
        resumed(100),
        user(BETA, 9, 110),
        user(BETA, 9, 120),
    ]);
    assert_eq!(n.performance.thread_preemptions, 1, "nobody ran who could be preempted");
}

#[test]
fn smp_core1() {
    let on = |core: u64, mut e: Entry| {
        e.id |= core << 24;
        e
    };
    let events =
        [on(0, user(ALPHA, 5, 10)), on(1, user(BETA, 9, 20)), on(0, user(ALPHA, 5, 30)), on(1, user(BETA, 9, 40))];
    assert_eq!(of(&events).performance.context_switches, 3, "there is none");
}

#[test]
fn an_event_is_inserted_where_who_runs_does_not_show() {
    // Alpha blocks into beta, and the next event is of an ISR that does not say whom it found.
    let n = of(&[
        user(ALPHA, 5, 0),
        Entry::thread(ALPHA, 5, SUSPEND, 100, [ALPHA, 4, 0x2001_0100, BETA]),
        Entry::isr(0, USER, 150, [0; 4]),
        user(BETA, 9, 1000),
    ]);
    assert_eq!((n.inserted_events, n.total_events), (1, 5));
    let beta = &n.threads[1];
    assert_eq!((beta.events, beta.ticks, &beta.services[..]), (2, 900, &[(5000, 1), (6, 1)][..]));
    assert_eq!(n.services.iter().map(|(_, n)| n).sum::<u64>(), 4, "the system's list leaves them out");
}

#[test]
fn a_resumption_that_names_nobody_looks_ahead() {
    // In an ISR: whoever of the two comes first, however far away.
    let events = |first, then| {
        [
            user(ALPHA, 5, 0),
            Entry::isr(ALPHA, RESUME, 10, [BETA, 4, 0, 0]),
            Entry::isr(0, USER, 20, [0; 4]),
            user(GAMMA, 9, 30),
            user(first, 5, 40),
            user(then, 5, 50),
        ]
    };
    assert_eq!(of(&events(BETA, ALPHA)).inserted_events, 1);
    assert_eq!(ticks(&of(&events(BETA, ALPHA)), "beta"), 20);
    assert_eq!(ticks(&of(&events(ALPHA, BETA)), "beta"), 10);
    // In a thread: only the next.
    let n =
        of(&[Entry::thread(ALPHA, 5, RESUME, 10, [BETA, 4, 0, 0]), Entry::isr(0, USER, 20, [0; 4]), user(BETA, 3, 30)]);
    assert_eq!(ticks(&n, "beta"), 20);
}

// ---- Threads ----

#[test]
fn stale_object_at_thread_addr() {
    let mut objects = registry();
    objects.insert(0, Registered { available: 1, ..Registered::new(3, 0x2000_7000, "old queue") });
    objects.truncate(2);
    let events: Vec<Entry> = (0..4000).map(|i| user(0x2000_7000, 5, i * 10)).collect();
    let n = by_registry(objects, &events);
    assert_eq!(n.total_threads, 4001);
    let made_up = n.threads.last().unwrap();
    assert_eq!((made_up.name.as_str(), made_up.copies, made_up.ticks), ("Un-named Thread", 4000, 39_990));
}

#[test]
fn a_thread_that_no_registry_names_is_added_once() {
    let n = of(&[user(0x2000_7000, 5, 0), user(0x2000_7000, 5, 10), user(ALPHA, 5, 20)]);
    assert_eq!((n.total_threads, n.total_objects), (4, 6));
    assert_eq!((n.threads[3].copies, n.threads[3].events, n.threads[3].registered), (1, 2, false));
}

#[test]
fn preempt_threshold_range() {
    let with = |threshold: u64, stamp| Entry { priority: 0x8000_0005 | threshold << 16, ..user(ALPHA, 5, stamp) };
    let n = of(&[with(5, 0), with(2, 10), with(4, 20)]);
    assert_eq!((n.threads[0].low_threshold, n.threads[0].high_threshold), (Some(5), Some(5)), "it is 5 to 2");
    let without = Entry { priority: 5, ..user(ALPHA, 5, 30) };
    let n = of(&[with(5, 0), with(2, 10), without]);
    assert_eq!((n.threads[0].low_threshold, n.threads[0].high_threshold), (None, Some(5)));
}

#[test]
fn a_stack_pointer_is_taken_at_face_value() {
    let at = |sp, stamp| Entry::thread(ALPHA, 5, SUSPEND, stamp, [ALPHA, 4, sp, ALPHA]);
    let n = of(&[at(0x2001_0300, 0), at(0x2001_0200, 10), at(0x7FFF_0000, 20)]);
    assert_eq!((n.threads[0].stack_size, n.threads[0].min_available, n.threads[0].min_event), (0x400, 0x200, 1));
    let n = of(&[at(0x2001_0300, 0), at(0x1000, 10)]);
    assert_eq!((n.threads[0].min_available, n.threads[0].min_seq), (0, Some(1)), "another stack is a full stack");
}

#[test]
fn who_suspended_is_counted_not_whom() {
    let n = of(&[
        Entry::thread(ALPHA, 5, SUSPEND, 0, [BETA, 3, 0x2001_0100, ALPHA]),
        Entry::thread(ALPHA, 5, RESUME, 10, [BETA, 3, 0x2001_0100, ALPHA]),
    ]);
    let of_thread = |i: usize| (n.threads[i].suspensions, n.threads[i].resumptions);
    assert_eq!((of_thread(0), of_thread(1)), ((1, 1), (0, 0)));
    assert_eq!(n.threads[1].states, [(0, 99), (0, 3), (1, 99)]);
}

// ---- Inversions ----

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

// ---- What the command says ----

fn report(trace: &Trace, names: &[Name], filters: &Filters) -> Result<Vec<tx_trace::report::Report>, (Wrong, String)> {
    let catalogue = threadx().catalogue(Names::Duo);
    let query = Query::compile(filters, trace, &catalogue).unwrap();
    let wish = Wish { names: names.to_vec(), tracex: true, ..Wish::default() };
    analysis::reports(trace, &catalogue, &query, &wish).map_err(|e| (e.wrong, e.message))
}

#[test]
fn reports_have_the_names_of_tracex_with_a_suffix() {
    let trace = load(&Buffer { objects: registry(), ..Buffer::new(BASE) }.record(64, &sleeps(3)));
    let names = |of: &[Name]| -> Vec<&str> {
        report(&trace, of, &Filters::default()).unwrap().iter().map(|r| r.name).collect()
    };
    assert_eq!(
        names(&Name::ALL),
        ["profile_tracex", "stats_tracex", "threads_tracex", "services_tracex", "stack_tracex", "inversions_tracex"]
    );
    assert_eq!(names(&[Name::Stack]), ["stack_tracex"]);
    for report in report(&trace, &Name::ALL, &Filters::default()).unwrap() {
        assert!(report.rows.iter().all(|r| r.len() == report.columns.len()), "{}", report.name);
    }
}

#[test]
fn what_tracex_cannot_do_is_refused() {
    let trace = load(&Buffer { objects: registry(), ..Buffer::new(BASE) }.record(64, &sleeps(3)));
    for name in [Name::Blocked, Name::Latency] {
        let refused = report(&trace, &[name], &Filters::default()).unwrap_err();
        assert_eq!(refused, (Wrong::Usage, "TraceX has no such report".to_owned()));
    }
    let filters = Filters { to: Some(tx_trace::query::Position::Seq(3)), ..Filters::default() };
    assert_eq!(report(&trace, &[Name::Stats], &filters).unwrap_err().0, Wrong::Usage);
    let wide = Buffer { wide: true, objects: registry(), ..Buffer::new(BASE) }.record(16, &sleeps(2));
    let (wrong, why) = report(&load(&wide), &[Name::Stats], &Filters::default()).unwrap_err();
    assert!(wrong == Wrong::Usage && why.contains("ULONG"), "{why}");
}

#[test]
fn other_systems_are_refused() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/qnx-ring.bin");
    let bytes = std::fs::read(file).unwrap();
    let qnx = ALL.iter().find(|f| f.name() == "qnx").copied().unwrap();
    let Some(found) = qnx.scan(&bytes, 4).first().cloned() else { panic!("the fixture holds a ring") };
    let mut memory = Flat::new(found.base, bytes);
    let hints = Hints { header: Some(found.base), ..Hints::default() };
    let located = qnx.locate(&mut memory, &NoSymbols, &hints).unwrap();
    let capture = qnx.capture(&mut memory, &NoSymbols, &located, Extent::All).unwrap();
    let trace = qnx.decode(&capture, &qnx.catalogue(Names::Duo), &DecodeOptions::default()).unwrap();
    let refused = numbers(&trace, false).unwrap_err();
    assert!(refused.message.contains("TraceX cannot read") && refused.message.contains("QNX"), "{refused}");
}
