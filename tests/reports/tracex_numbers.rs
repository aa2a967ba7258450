//! TraceX's own numbers: against what TraceX's library printed for real traces, and on hand-made traces for each rule by
//! which it differs from the truth.

mod command;
mod inversions;
mod one_pass;
mod printed;

use crate::support;

use std::collections::BTreeMap;
use std::path::Path;

use crate::support::builder::{Buffer, Entry, Registered};
use crate::support::decode::{Source, open, scanned, threadx};
use crate::support::flat::Flat;
use tx_trace::analysis::tracex::{FILEX, NETX, Numbers, numbers};
use tx_trace::analysis::{self, Name, ReportRequest};
use tx_trace::catalogue::Names;
use tx_trace::error::ErrorKind;
use tx_trace::format::{ALL, DecodeOptions, Extent, Hints};
use tx_trace::query::{Filters, Query};
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
    open(buffer, &buffer.bytes(), Source::Header, Extent::All).unwrap()
}

fn user(thread: u64, priority: u64, stamp: u64) -> Entry {
    Entry::thread(thread, priority, USER, stamp, [0; 4])
}

/// Ticks of a thread, idle and so on as the profile has them.
fn ticks(n: &Numbers, name: &str) -> u64 {
    n.threads.iter().find(|t| t.name == name).unwrap().ticks
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

#[test]
fn registered_twice_with_another_stack_each() {
    let entry = |base: u64, size| Registered { params: [base, size], ..Registered::new(1, ALPHA, "alpha") };
    let at = |sp, stamp| Entry::thread(ALPHA, 5, SUSPEND, stamp, [ALPHA, 4, sp, ALPHA]);
    let events = [at(0x2001_0300, 0), at(0x2001_0240, 10), at(0x2001_0280, 20)];
    let n = by_registry(vec![entry(0x2001_0000, 0x400), entry(0x2001_0200, 0x800), entry(0x2001_0260, 0x100)], &events);
    let of_thread = |i: usize| (n.threads[i].stack_size, n.threads[i].min_available, n.threads[i].min_event);
    assert_eq!(of_thread(0), (0x400, 0x240, 1));
    assert_eq!(of_thread(1), (0x800, 0x40, 1), "it had the first one's");
    assert_eq!(of_thread(2), (0x100, 0, 1));
}

/// The inserted event of an address at which a mutex is registered counts for the first thread of the list.
#[test]
fn an_event_at_another_objects_address_is_the_first_threads() {
    let events = [
        Entry::thread(BETA, 5, SUSPEND, 0, [BETA, 4, 0, MUTEX]),
        Entry::isr(0, USER, 100, [0; 4]),
        user(MUTEX, 5, 200),
    ];
    let n = of(&events);
    assert_eq!(n.inserted_events, 1);
    let states = |name: &str| n.threads.iter().find(|t| t.name == name).unwrap().states.clone();
    assert_eq!((states("alpha"), states("gamma")), (vec![(0, 99)], vec![(0, 0)]));
}

/// Sixteen zeros between registry and ring, as an aligned buffer may have them.
#[test]
fn events_behind_a_gap_are_not_read() {
    let b = Buffer { objects: registry(), ..Buffer::new(BASE) }
        .record(16, &std::array::from_fn::<_, 10, _>(|i| user(ALPHA, 5, 100 + i as u64 * 13)));
    let ring = (b.ring() - BASE) as usize;
    let mut bytes = b.bytes();
    bytes.splice(ring..ring, [0; 16]);
    for at in [24, 28, 32] {
        let word = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) + 16;
        bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
    }
    let trace = open(&b, &bytes, Source::Header, Extent::All).unwrap();
    assert_eq!((trace.len(), trace.objects.len()), (10, 5));
    let said: Vec<&str> = trace.issues.iter().map(|i| i.message.as_str()).collect();
    assert!(said.iter().any(|m| m.contains("16 bytes between registry and ring")), "{said:?}");
    assert!(!said.iter().any(|m| m.contains("object names")), "the header says 240 bytes: {said:?}");
    let n = numbers(&trace, false).unwrap();
    assert_eq!((n.total_events, n.unread_events), (0, 10));
}
