//! Any trace that a kernel can leave is read back as it happened: both widths, both byte orders, any size of names,
//! any number of slots, wrapped at any of them or not, from every source, in whole or only its newest events.

use crate::support::builder::{Buffer, Entry};
use crate::support::decode::{Source, open, seen, threadx};
use crate::support::generate::{Story, plain_clock, reloading_clock, story};
use proptest::prelude::*;
use tx_trace::abi::{Endian, Width};
use tx_trace::format::Extent;

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

fn any_story(most_slots: usize) -> impl Strategy<Value = Story> {
    prop_oneof![story(most_slots, false, plain_clock()), story(most_slots, true, plain_clock())]
}

fn source() -> impl Strategy<Value = Source> {
    prop_oneof![
        Just(Source::Header),
        Just(Source::Symbols { order_known: true }),
        Just(Source::Symbols { order_known: false }),
        Just(Source::Disabled),
        (0..9usize).prop_map(|before| Source::Scan { before }),
    ]
}

fn read(story: &Story, source: Source, extent: Extent) -> tx_trace::trace::Trace {
    open(&story.buffer, &story.bytes(), source, extent)
        .unwrap_or_else(|a| panic!("{source:?} {extent:?}: {} {a}", a.code))
}

/// In a trace of a kernel before version 6 the word of an ISR is always 0 and tells nothing. The newest events of such
/// a trace may all be of ISRs; then too they must not claim to have interrupted idle, as they do not in the whole list.
#[test]
fn the_tail_of_an_old_trace_claims_no_more_than_the_whole() {
    let stamp = |i: u64| i * 100;
    let thread = Entry { context: 0x2000_0100, priority: 5, id: 83, stamp: stamp(0), info: [0; 4] };
    let isr = |i| Entry { context: 0xFFFF_FFFF, priority: 0, id: 3, stamp: stamp(i), info: [0; 4] };
    let buffer = Buffer::new(0x2000_0000).record(4, &[thread, isr(1), isr(2)]);
    let of = |extent| {
        let trace = open(&buffer, &buffer.bytes(), Source::Header, extent).unwrap();
        seen(&trace).pop().unwrap().interrupted
    };
    assert_eq!(of(Extent::All), None);
    assert_eq!(of(Extent::Newest(1)), None);
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn every_event_comes_back_as_it_happened(story in any_story(300), source in source()) {
        let trace = read(&story, source, Extent::All);
        let (about, b) = (&trace.about, &story.buffer);
        let held = story.happenings.len().min(story.capacity);
        prop_assert_eq!(seen(&trace), story.kept());
        prop_assert_eq!(about.capacity, story.capacity as u64);
        prop_assert_eq!(about.held, held as u64);
        prop_assert_eq!(about.wrapped, story.happenings.len() >= story.capacity);
        prop_assert_eq!(about.word, if b.wide { Width::W8 } else { Width::W4 });
        prop_assert_eq!(about.endian, if b.big { Endian::Big } else { Endian::Little });
        prop_assert_eq!(trace.clock.mask, b.mask);
        // Random stamps may tell no direction, random names may have no end; nothing else is wrong with a sound trace.
        let fair = ["direction-unknown", "clock-stopped", "name-unterminated", "trace-disabled", "registry-full"];
        let unfair: Vec<_> = trace.issues.iter().filter(|i| !fair.contains(&i.code.name())).collect();
        prop_assert!(unfair.is_empty(), "{unfair:?}");
    }

    #[test]
    fn a_clock_that_reloads_costs_no_event(story in story(60, false, reloading_clock()), source in source()) {
        let trace = read(&story, source, Extent::All);
        prop_assert_eq!(seen(&trace), story.kept());
    }

    #[test]
    fn every_object_comes_back_as_it_was_registered(story in any_story(4), source in source()) {
        let trace = read(&story, source, Extent::Nothing);
        let word = if story.buffer.wide { u64::MAX } else { 0xFFFF_FFFF };
        let got: Vec<_> = trace.objects.iter().collect();
        let want: Vec<_> = story.buffer.objects.iter().filter(|o| o.kind != 0).collect();
        prop_assert_eq!(got.len(), want.len());
        for (g, w) in got.into_iter().zip(want) {
            prop_assert_eq!(g.address, w.pointer & word);
            prop_assert_eq!(g.type_code, u32::from(w.kind));
            prop_assert_eq!(&g.name, &story.object_name(w));
            prop_assert_eq!(g.deleted, w.available != 0);
            prop_assert_eq!(g.is_thread, w.kind == 1);
            prop_assert_eq!(g.priority, w.priority.filter(|_| w.kind == 1));
            prop_assert_eq!((g.param1, g.param2), (w.params[0] & word, w.params[1] & word));
        }
        prop_assert_eq!(trace.len(), 0, "no event was asked for");
        // What `info` says without reading the ring.
        let held = story.happenings.len().min(story.capacity);
        prop_assert_eq!(trace.about.held, held as u64);
    }

    #[test]
    fn the_newest_are_the_tail_of_all(story in any_story(24), source in source()) {
        let held = story.kept().len() as u64;
        for n in 0..=story.capacity + 2 {
            let trace = read(&story, source, Extent::Newest(n as u64));
            prop_assert_eq!(seen(&trace), story.newest(n), "newest {}", n);
            prop_assert_eq!(trace.about.held, held);
        }
    }

    #[test]
    fn the_newest_of_a_large_ring_are_the_tail_of_all(
        story in any_story(300), source in source(), n in prop_oneof![0..12u64, 0..320u64, Just(u64::MAX)],
    ) {
        let trace = read(&story, source, Extent::Newest(n));
        prop_assert_eq!(seen(&trace), story.newest(usize::try_from(n).unwrap_or(usize::MAX)));
    }

    #[test]
    fn a_scan_tells_what_the_header_says(story in any_story(300), before in 0..40usize, behind in 0..40usize) {
        let mut file = vec![0x58; before];
        file.extend(story.bytes());
        file.extend(vec![0x54; behind]);
        let found = threadx().scan(&file, 1);
        prop_assert_eq!(found.len(), 1);
        let (f, b) = (found[0], &story.buffer);
        prop_assert_eq!(f.offset, before);
        prop_assert_eq!(f.base, if b.wide { b.base } else { b.base & 0xFFFF_FFFF });
        prop_assert_eq!(f.capacity, story.capacity as u64);
        prop_assert_eq!(f.word, if b.wide { Width::W8 } else { Width::W4 });
        prop_assert_eq!(f.endian, if b.big { Endian::Big } else { Endian::Little });
    }
}
