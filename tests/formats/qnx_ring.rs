//! Rings that are built here: wraps, combine events over borders, gaps, damage, both byte orders, every shape.

use crate::support::flat::Flat;
use crate::support::qnx::{BUFFER, Expected, Kernel, Shape, syspage, text};
use proptest::prelude::*;
use tx_trace::catalogue::Names;
use tx_trace::error::Error;
use tx_trace::format::{ALL, DecodeOptions, Extent, Format, Hints};
use tx_trace::mem::segments::{Block, Segments};
use tx_trace::sym::NoSymbols;
use tx_trace::trace::{ContextKind, Event, Extra, Trace};

fn qnx() -> &'static dyn Format {
    ALL.iter().find(|f| f.name() == "qnx").copied().unwrap()
}

fn load_with(base: u64, bytes: Vec<u8>, header: u64, extent: Extent, options: &DecodeOptions) -> Result<Trace, Error> {
    let mut memory = Flat::new(base, bytes);
    let hints = Hints { header: Some(header), ..Hints::default() };
    let located = qnx().locate(&mut memory, &NoSymbols, &hints)?;
    let capture = located.capture(&mut memory, &NoSymbols, extent)?;
    capture.decode(&qnx().catalogue(Names::Duo), options)
}

fn load(kernel: &Kernel) -> Trace {
    let header = kernel.base;
    load_with(kernel.base, kernel.bytes(), header, Extent::All, &DecodeOptions::default()).unwrap()
}

fn class(trace: &Trace, event: &Event) -> u16 {
    let mut class = 0;
    trace.extras(event, |name, value| {
        if let ("class.id", Extra::Number(n)) = (name, value) {
            class = n as u16;
        }
    });
    class
}

fn seen(trace: &Trace) -> Vec<Expected> {
    trace
        .events()
        .map(|e| Expected {
            cpu: e.core as u8,
            stamp: e.stamp.unwrap() as u32,
            class: class(trace, &e),
            id: e.id as u16,
            words: trace.words(&e).iter().map(|w| *w as u32).collect(),
        })
        .collect()
}

fn codes(trace: &Trace) -> Vec<&'static str> {
    trace.issues.iter().map(|i| i.code.name()).collect()
}

/// Events of one to nine words, in turn.
fn story(kernel: &mut Kernel, events: usize) {
    for n in 0..events {
        let words: Vec<u32> = (0..n % 9 + 1).map(|w| (n * 16 + w) as u32 | 0x100).collect();
        kernel.event(0, 0xA_0000_1000 + n as u64 * 10, 6, (n % 1024) as u16, &words);
    }
}

#[test]
fn a_ring_is_read_in_order_whatever_its_fill() {
    for buffers in 1..4 {
        for events in 0..60 {
            let mut kernel = Kernel::new(buffers, 20);
            story(&mut kernel, events + 1);
            let trace = load(&kernel);
            assert_eq!(seen(&trace), kernel.expected(), "{buffers} {events}");
            assert_eq!(trace.about.wrapped, kernel.expected().len() < kernel.recorded(), "{buffers} {events}");
            assert!(trace.events().enumerate().all(|(i, e)| e.seq == i as u64));
            assert_eq!(trace.about.held, trace.len());
        }
    }
}

#[test]
fn thirty_two_buffers_of_full_size_that_wrapped() {
    let mut kernel = Kernel::new(32, 714);
    story(&mut kernel, 20_000);
    let trace = load(&kernel);
    assert_eq!(seen(&trace), kernel.expected());
    assert!(trace.about.wrapped);
    assert!(!codes(&trace).iter().any(|c| *c != "orphan-parts"), "{:?}", trace.issues);
    assert_eq!(trace.about.capacity, 32 * 1014);
}

#[test]
fn every_way_to_straddle_a_border_and_to_be_overwritten() {
    // The first long event begins at every place of a buffer of eight, and another buffer follows.
    for lead in 0..9 {
        for words in [3usize, 4, 5, 9, 30] {
            for rounds in [1usize, 2, 5] {
                let mut kernel = Kernel::new(2, 8);
                for round in 0..rounds {
                    for n in 0..lead {
                        kernel.event(0, (round * 1000 + n) as u64, 6, 1, &[n as u32]);
                    }
                    kernel.event(0, (round * 1000 + 500) as u64, 6, 2, &vec![7; words]);
                }
                let trace = load(&kernel);
                let mut expected = kernel.expected();
                // One event that fills more than the whole ring overwrites its own beginning.
                expected.retain(|e| e.words.len() <= 24);
                let mut got = seen(&trace);
                got.retain(|e| e.words.len() <= 24);
                assert_eq!(got, expected, "{lead} {words} {rounds}");
            }
        }
    }
}

#[test]
fn both_byte_orders_read_the_same() {
    let mut little = Kernel::new(3, 15);
    story(&mut little, 100);
    little.event(0, 0xA_0001_0000, 4, 192, &[&[1, 2][..], &text("sbin/devb", false)].concat());
    let mut big = little.clone();
    big.big = true;
    assert_eq!(seen(&load(&little)), seen(&load(&big)));
    assert_eq!(seen(&load(&big)), big.expected());
}

#[test]
fn parts_of_several_processors_and_interrupts_are_kept_apart() {
    let mut kernel = Kernel::new(2, 200);
    kernel.event(0, 100, 6, 9, &[1]);
    kernel.event(1, 100, 6, 9, &[1]);
    // The same stamp, class and number on another processor; and an interrupt in between.
    kernel.event_with(0, 200, 6, 5, &[1, 2, 3, 4], |k| {
        k.event_with(1, 200, 6, 5, &[5, 6, 7, 8], |k| k.event(0, 210, 3, 1, &[4, 0x1000]));
    });
    let trace = load(&kernel);
    assert_eq!(seen(&trace), kernel.expected());
    assert_eq!(trace.about.cores, 2);
    let long: Vec<_> = seen(&trace).into_iter().filter(|e| e.id == 5).map(|e| (e.cpu, e.words)).collect();
    assert_eq!(long, [(1, vec![5, 6, 7, 8]), (0, vec![1, 2, 3, 4])]);
}

#[test]
fn parts_without_a_beginning_and_beginnings_without_an_end() {
    let mut kernel = Kernel::new(2, 100);
    kernel.event(0, 10, 6, 1, &[1]);
    kernel.raw(2, 0, 6, 7, 20, 1, 2);
    kernel.raw(3, 0, 6, 7, 20, 3, 4);
    kernel.raw(1, 0, 6, 8, 30, 5, 6);
    kernel.raw(2, 0, 6, 8, 30, 7, 8);
    kernel.event(0, 40, 6, 2, &[1]);
    let trace = load(&kernel);
    let got = seen(&trace);
    assert_eq!(got.iter().map(|e| e.id).collect::<Vec<_>>(), [2, 1, 1, 2, 8]);
    assert_eq!(got[4].words, [5, 6, 7, 8], "as far as it goes");
    assert_eq!(codes(&trace), ["orphan-parts", "event-incomplete"]);
    assert_eq!(trace.issues[0].count, 2);
}

#[test]
fn a_buffer_that_is_missing_is_said_and_nothing_reaches_over_it() {
    let mut kernel = Kernel::new(4, 10);
    for n in 0..8u32 {
        kernel.event(0, 100 + u64::from(n), 6, n as u16, &[n; 8]);
    }
    let whole = seen(&load(&kernel));
    let mut bytes = kernel.bytes();
    // The header of the second buffer is overwritten.
    bytes[BUFFER..BUFFER + 160].fill(0xCC);
    let trace = load_with(kernel.base, bytes, kernel.base, Extent::All, &DecodeOptions::default()).unwrap();
    assert_eq!(codes(&trace)[..2], ["buffer-lost", "buffer-gap"], "{:?}", trace.issues);
    for e in seen(&trace) {
        assert!(whole.contains(&e) || e.words.len() < 8, "{e:?}");
    }
    assert!(trace.len() > 5);
}

#[test]
fn lengths_that_contradict_each_other_are_measured() {
    let mut kernel = Kernel::new(3, 30);
    story(&mut kernel, 40);
    for (at, value) in [(12usize, 0xFFFF_FFFFu32), (12, 2), (32, 0x1234_5678), (12, 1014)] {
        for buffer in 0..2 {
            let mut bytes = kernel.bytes();
            let place = buffer * BUFFER + at;
            bytes[place..place + 4].copy_from_slice(&value.to_le_bytes());
            let header = kernel.base + BUFFER as u64 * 2;
            let trace = load_with(kernel.base, bytes, header, Extent::All, &DecodeOptions::default()).unwrap();
            assert_eq!(seen(&trace), kernel.expected(), "{at} {value:#x} {buffer}");
            assert!(codes(&trace).contains(&"buffer-damaged"));
        }
    }
}

#[test]
fn a_kernel_stopped_between_count_and_end() {
    let mut kernel = Kernel::new(1, 60);
    story(&mut kernel, 20);
    let filled = kernel.fill() as u32;
    let mut bytes = kernel.bytes();
    // The end is written, the count is not; what follows was never an event.
    let end = kernel.base as u32 + 0xA0 + 16 * (filled + 1);
    bytes[32..36].copy_from_slice(&end.to_le_bytes());
    let trace = load_with(kernel.base, bytes, kernel.base, Extent::All, &DecodeOptions::default()).unwrap();
    assert_eq!(seen(&trace), kernel.expected());
    assert_eq!(codes(&trace), ["buffer-damaged"]);
    kernel = Kernel::new(2, 20);
    story(&mut kernel, 20);
    let mut bytes = kernel.bytes();
    let count = u32::from_le_bytes(bytes[12..16].try_into().unwrap());
    bytes[12..16].copy_from_slice(&(count + 1).to_le_bytes());
    let header = kernel.base + BUFFER as u64;
    let trace = load_with(kernel.base, bytes, header, Extent::All, &DecodeOptions::default()).unwrap();
    assert_eq!(seen(&trace), kernel.expected());
    assert!(codes(&trace).contains(&"buffer-damaged"));
}

#[test]
fn sequence_numbers_that_begin_again() {
    let mut kernel = Kernel::new(4, 10).first_sequence(u32::MAX - 5);
    story(&mut kernel, 60);
    let got: Vec<u32> = seen(&load(&kernel)).iter().filter(|e| e.class == 1 && e.id == 2).map(|e| e.words[0]).collect();
    assert!(got.windows(2).all(|w| w[1] == w[0].wrapping_add(1)), "{got:?}");
}

#[test]
fn time_has_sixty_four_bits_and_no_false_turn() {
    let mut kernel = Kernel::new(4, 50);
    let mut times = Vec::new();
    for step in [0u64, 10, 0xFFFF_FF00, 0x1_0000_0010, 0x1_0000_0008, 0x2_0000_0000, 0x2_8000_0000] {
        kernel.event(0, 0xA_0000_0000 + step, 6, 1, &[1]);
        times.push(step as i64);
    }
    let trace = load(&kernel);
    let ticks: Vec<i64> = trace.events().filter(|e| e.id == 1 && class(&trace, e) == 6).map(|e| e.ticks).collect();
    assert_eq!(ticks, times);
    let deltas: i64 = trace.events().filter_map(|e| e.delta).sum();
    assert_eq!(deltas, *times.last().unwrap());
    assert_eq!(trace.events().next().unwrap().delta, None);
}

#[test]
fn processes_threads_and_interrupts_have_names() {
    let mut kernel = Kernel::new(2, 200);
    let name = |pid, name: &str| [&[1, pid][..], &text(name, false)].concat();
    kernel.event(0, 1, 4, 192, &name(7, "sbin/devb-eide"));
    kernel.event(0, 2, 4, 24, &[7, 1]);
    kernel.event(0, 3, 4, 320, &[&[7, 2][..], &text("worker", false)].concat());
    kernel.event(0, 4, 4, 1, &[7, 2, 21, 2]);
    kernel.event(0, 5, 2, 11, &[0x4000_0001, 0]);
    kernel.event(1, 6, 4, 1, &[7, 1]);
    kernel.event(0, 7, 3, 1, &[4, 0x1000]);
    kernel.event(0, 8, 4, 2, &[7, 1]);
    kernel.event(0, 9, 3, 2, &[4, 0]);
    kernel.event(0, 10, 6, 3, &text("out of paper", false));
    kernel.event(0, 11, 4, 128, &[1, 7]);
    let trace = load(&kernel);
    let who = |n: usize| {
        let e = trace.events().filter(|e| class(&trace, e) != 1).nth(n).unwrap();
        trace.contexts.get(e.context).and_then(|c| c.name.as_deref()).unwrap_or("?").to_owned()
    };
    let all: Vec<String> = (0..11).map(who).collect();
    let (w, one, isr) = ("devb-eide:worker", "devb-eide:1", "intr 4");
    assert_eq!(all, ["?", "?", "?", w, w, one, isr, isr, isr, w, w]);
    let isr = trace.events().find(|e| class(&trace, e) == 3).unwrap();
    assert_eq!(trace.contexts.get(isr.interrupted.unwrap()).unwrap().name.as_deref(), Some(w));
    assert_eq!(trace.contexts.get(isr.context).unwrap().kind, ContextKind::Isr);
    let call = trace.events().find(|e| class(&trace, e) == 2).unwrap();
    assert_eq!(call.priority, Some(21));
    let mut pair = Vec::new();
    trace.extras(&call, |name, value| pair.push(format!("{name} {value:?}")));
    assert_eq!(pair[..2], ["context.pid Number(7)", "context.tid Number(2)"]);
    let objects: Vec<_> = trace.objects.iter().map(|o| (o.name.as_str(), o.deleted)).collect();
    assert_eq!(objects, [("devb-eide", true), (one, true), (w, true)]);
}

#[test]
fn a_search_finds_every_ring_once_and_the_live_one_first() {
    let mut old = Kernel::new(2, 30);
    story(&mut old, 30);
    let mut new = Kernel::new(3, 30).first_sequence(9);
    new.base = 0xE7E0_0000;
    story(&mut new, 30);
    let mut memory = vec![0u8; 4096 + 64];
    let old_at = memory.len();
    memory.extend(old.bytes());
    let new_at = memory.len();
    memory.extend(new.bytes());
    let hits = |memory: &[u8]| -> Vec<u64> {
        let found = qnx().scan(memory, 64);
        let hits = found.into_iter().map(|f| (0x1000 + f.offset as u64, f)).collect();
        let block = Block::whole(0x1000, tx_trace::bytes::Bytes::from(memory.to_vec()));
        qnx().sift(&mut Segments::new(vec![block]), hits).into_iter().map(|(at, _)| at - 0x1000).collect()
    };
    assert_eq!(hits(&memory), [new_at as u64, old_at as u64], "the higher numbers are newer");
    // A system page knows better.
    let at = memory.len();
    memory.extend(syspage(old.base as u32 + BUFFER as u32, 2_300_571_400));
    assert_eq!(hits(&memory), [old_at as u64, new_at as u64]);
    // By its address the page names the ring, and tells the clock's rate.
    let mut ring = old.bytes();
    ring.extend(syspage(old.base as u32, 2_300_571_400));
    let page = old.base + 2 * BUFFER as u64;
    let trace = load_with(old.base, ring, page, Extent::All, &DecodeOptions::default()).unwrap();
    assert_eq!((trace.clock.hz, trace.len() > 10), (Some(2_300_571_400.0), true));
    assert!(at > 0);
}

#[test]
fn later_releases_have_other_shapes() {
    for (shape, release) in [(Shape::Seven, "7.1"), (Shape::Eight, "8.0")] {
        for big in [false, true] {
            let mut kernel = Kernel::new(3, 20);
            (kernel.shape, kernel.big, kernel.base) = (shape, big, 0xFFFF_8000_0010_0000);
            story(&mut kernel, 100);
            for buffer in 0..3u64 {
                let header = kernel.base + buffer * BUFFER as u64;
                let trace =
                    load_with(kernel.base, kernel.bytes(), header, Extent::All, &DecodeOptions::default()).unwrap();
                let mut got = seen(&trace);
                got.retain(|e| (e.class, e.id) != (1, 4));
                assert_eq!(got, kernel.expected(), "{shape:?} {big} {buffer}");
                assert!(codes(&trace).contains(&"unverified-release"));
                assert!(trace.about.facts.iter().any(|(w, t)| *w == "release" && t.starts_with(release)));
            }
        }
    }
}

#[test]
fn files_of_the_trace_logger() {
    for big in [false, true] {
        let mut kernel = Kernel::new(8, 30);
        kernel.big = big;
        story(&mut kernel, 40);
        let bytes = kernel.kev(1_000_000, "6.4.1");
        assert!(qnx().sniff(&bytes));
        let found = qnx().scan(&bytes, 4);
        assert_eq!((found.len(), found[0].offset), (1, 0));
        let block = Block::whole(0, tx_trace::bytes::Bytes::from(bytes));
        let mut memory = Segments::new(vec![block]);
        let hints = Hints { header: Some(0), ..Hints::default() };
        let located = qnx().locate(&mut memory, &NoSymbols, &hints).unwrap();
        let capture = located.capture(&mut memory, &NoSymbols, Extent::All).unwrap();
        let trace = capture.decode(&qnx().catalogue(Names::Duo), &DecodeOptions::default()).unwrap();
        assert_eq!(seen(&trace), kernel.expected());
        assert_eq!(trace.clock.hz, Some(1e6));
        assert!(trace.issues.is_empty(), "{:?}", trace.issues);
    }
}

#[test]
fn the_release_chooses_the_names() {
    let mut kernel = Kernel::new(1, 100);
    kernel.event(0, 1, 2, 3, &[0]);
    kernel.event(0, 2, 4, 7, &[1, 1]);
    for (release, names) in [
        (None, ["spare1_enter", "thread_stack"]),
        (Some(71), ["cache_flush_enter", "thread_stack"]),
        (Some(80), ["cache_control_enter", "thread_mq_send"]),
    ] {
        let options = DecodeOptions { release, ..DecodeOptions::default() };
        let trace = load_with(kernel.base, kernel.bytes(), kernel.base, Extent::All, &options).unwrap();
        let catalogue = qnx().catalogue(Names::Duo);
        let got: Vec<&str> = trace.events().skip(2).map(|e| catalogue[e.def.unwrap()].name.as_str()).collect();
        assert_eq!(got, names);
        assert_eq!(codes(&trace).contains(&"unverified-release"), release.is_some());
    }
}

/// Walks all of a trace: nothing may panic.
fn walk(trace: &Trace) -> usize {
    trace.events().map(|e| trace.words(&e).len() + usize::from(class(trace, &e))).sum()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_recorded_is_read(
        buffers in 1usize..5,
        full in 6usize..40,
        first in prop_oneof![Just(1u32), 1u32..1_000_000],
        big in any::<bool>(),
        events in prop::collection::vec((0u8..3, 0u64..5000, 0u16..1024, prop::collection::vec(any::<u32>(), 1..10)), 1..120),
    ) {
        let mut kernel = Kernel::new(buffers, full).first_sequence(first);
        kernel.big = big;
        let mut time = 0x7_0000_0000u64;
        for (cpu, step, id, words) in &events {
            time += step;
            kernel.event(*cpu, time, 6, *id, words);
        }
        let trace = load(&kernel);
        prop_assert_eq!(seen(&trace), kernel.expected());
        let all: Vec<_> = trace.events().map(|e| (e.seq, e.slot, e.ticks, e.delta)).collect();
        for n in [0u64, 1, 7, 1000] {
            let newest = load_with(kernel.base, kernel.bytes(), kernel.base, Extent::Newest(n), &DecodeOptions::default()).unwrap();
            let tail: Vec<_> = newest.events().map(|e| (e.seq, e.slot, e.ticks, e.delta)).collect();
            prop_assert_eq!(&tail[..], &all[all.len().saturating_sub(n as usize)..]);
        }
    }

    #[test]
    fn damaged_rings_never_panic(
        shape in prop_oneof![Just(Shape::Six), Just(Shape::Seven), Just(Shape::Eight)],
        damage in prop::collection::vec((0usize..3 * BUFFER, any::<u8>()), 0..200),
        heads in prop::collection::vec((0usize..3, 0usize..220, any::<u8>()), 0..8),
        cut in 0usize..3 * BUFFER,
        header in 0u64..3,
    ) {
        let mut kernel = Kernel::new(3, 40);
        kernel.shape = shape;
        story(&mut kernel, 60);
        let mut bytes = kernel.bytes();
        for (at, value) in damage {
            bytes[at] = value;
        }
        for (buffer, at, value) in heads {
            bytes[buffer * BUFFER + at] = value;
        }
        bytes.truncate(bytes.len() - cut);
        let found = qnx().scan(&bytes, 64);
        prop_assert!(found.len() <= 64);
        let block = Block::whole(0x1000, tx_trace::bytes::Bytes::from(bytes.clone()));
        let hits = found.into_iter().map(|f| (0x1000 + f.offset as u64, f)).collect();
        qnx().sift(&mut Segments::new(vec![block]), hits);
        let header = kernel.base + header * BUFFER as u64;
        if let Ok(trace) = load_with(kernel.base, bytes, header, Extent::All, &DecodeOptions::default()) {
            walk(&trace);
        }
    }

    #[test]
    fn rubbish_never_panics(mut bytes in prop::collection::vec(any::<u8>(), 0..2000), kev in any::<bool>()) {
        if kev {
            bytes.splice(0..0, *b"TRACE_HEADER_BEGIN::TRACE_SYSPAGE_LEN::4TRACE_HEADER_END::abcd");
        }
        qnx().sniff(&bytes);
        qnx().scan(&bytes, 4);
        let len = bytes.len();
        let mut memory = Segments::new(vec![Block::whole(0, tx_trace::bytes::Bytes::from(bytes))]);
        let hints = Hints { header: Some(0), ..Hints::default() };
        if let Ok(located) = qnx().locate(&mut memory, &NoSymbols, &hints)
            && let Ok(capture) = located.capture(&mut memory, &NoSymbols, Extent::All)
            && let Ok(trace) = capture.decode(&qnx().catalogue(Names::Duo), &DecodeOptions::default())
        {
            walk(&trace);
            prop_assert!(trace.len() <= len as u64);
        }
    }
}
