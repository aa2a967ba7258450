//! What stamps tell of the clock that made them, on traces from builders with known truth.

use crate::support::builder::{Buffer, Entry};
use crate::support::threadx::*;
use tx_trace::abi::{Endian, Width};
use tx_trace::catalogue::Names;
use tx_trace::code::Code;
use tx_trace::format::threadx::ThreadX;
use tx_trace::format::{DecodeOptions, Extent, Format, Hints};
use tx_trace::mem::segments::{Block, Segments};
use tx_trace::query::{Amount, Edge, Position};
use tx_trace::sym::Pairs;
use tx_trace::trace::{Direction, Severity};

#[test]
fn a_tie_counts_up() {
    let t = decode(&Buffer::new(BASE).record(8, &[steady(1, 10, 0)[0], steady(1, 20, 0)[0], steady(1, 10, 0)[0]]));
    assert_eq!(t.clock.direction, Direction::Up);
    issue(&t, "direction-unknown");
}

#[test]
fn a_clock_that_stands_still_is_said_to() {
    let t = decode(&Buffer::new(BASE).record(8, &steady(5, 7, 0)));
    assert!(!t.clock.runs() && issue(&t, "clock-stopped").message.contains("TRCENA"));
    let t = decode(&Buffer::new(BASE).record(8, &steady(5, 0, 0)));
    assert!(issue(&t, "clock-stopped").message.contains("are 0"));
}

/// `last 1ms --hz` showed every event of such a trace.
#[test]
fn a_time_says_nothing_where_the_clock_stands_still() {
    let buffer = Buffer::new(BASE).record(8, &steady(5, 7, 0));
    let options = DecodeOptions { hz: Some(1e6), ..DecodeOptions::default() };
    let trace = decode_bytes(&buffer, buffer.bytes(), &[], Extent::All, &options).unwrap();
    let start = Amount::parse("1ms").unwrap().start().unwrap();
    assert!(start.bound(&trace, Edge::From).is_err());
    assert!(Position::parse("2").unwrap().bound(&trace, Edge::From).is_ok());
}

#[test]
fn nanoseconds_that_restart_each_second() {
    let mut now = 990_000_000u64;
    let list: Vec<Entry> = (0..300u64)
        .map(|i| {
            now += 9_000_000 + (i * 7919) % 500_000;
            Entry::thread(ALPHA, 5, 5000, now % 1_000_000_000, [0; 4])
        })
        .collect();
    let t = decode(&Buffer::new(BASE).record(512, &list));
    assert_eq!((t.clock.period, t.clock.hz), (Some(1_000_000_000), Some(1e9)));
    let truth = (0..300u64).skip(1).map(|i| 9_000_000 + (i * 7919) % 500_000).sum::<u64>();
    assert_eq!(t.events().last().unwrap().ticks as u64, truth);
}

#[test]
fn a_timer_that_reloads_at_the_tick() {
    for down in [false, true] {
        let list: Vec<Entry> = (0..500u64)
            .map(|i| {
                let at = i * 7_001 % 250_000;
                Entry::thread(ALPHA, 5, 5000, if down { 249_999 - at } else { at }, [0; 4])
            })
            .collect();
        let t = decode(&Buffer::new(BASE).record(512, &list));
        assert_eq!(t.clock.direction, if down { Direction::Down } else { Direction::Up });
        assert_eq!(t.clock.period, Some(250_000), "down {down}: {}", t.clock.reason);
        assert_eq!(t.events().last().unwrap().ticks, 499 * 7_001);
        issue(&t, "period-inferred");
    }
}

/// The newest event was followed closely by the oldest, and the reload was taken for the beginning of the ring.
#[test]
fn events_of_a_clock_that_reloads_below_its_mask_were_put_in_another_order() {
    let mut list = steady(37, 0, 0);
    for (i, entry) in (0u64..).zip(&mut list) {
        entry.stamp = (13_900 + 17_500 - 477 * i) % 17_500;
    }
    let stamps: Vec<u64> = list.iter().map(|e| e.stamp).collect();
    let t = decode(&Buffer { mask: 0xFFFF, ..Buffer::new(BASE) }.record(37, &list));
    assert_eq!(t.events().filter_map(|e| e.stamp).collect::<Vec<_>>(), stamps);
}

#[test]
fn a_clock_of_sixteen_bits_needs_no_period() {
    let list: Vec<Entry> =
        (0..100u64).map(|i| Entry::thread(ALPHA, 5, 5000, 0xFFFF_FFFF - i * 9_000, [0; 4])).collect();
    let t = decode(&Buffer { mask: 0xFFFF, ..Buffer::new(BASE) }.record(128, &list));
    assert_eq!((t.clock.direction, t.clock.period), (Direction::Down, None));
    assert_eq!(t.events().last().unwrap().ticks, 99 * 9_000);
}

#[test]
fn a_count_of_events_is_no_time() {
    let t = decode(&Buffer::new(BASE).record(32, &steady(20, 100, 1)));
    assert!(t.clock.reason.contains("a count of events"), "{}", t.clock.reason);
}

/// SysTick interrupts of a Cortex-M, and work between them.
fn ticking(periods: &[(u64, bool)]) -> Vec<Entry> {
    let mut now = 1000;
    let mut list = Vec::new();
    for &(period, idle) in periods {
        now += period;
        list.push(Entry::isr(if idle { 0 } else { ALPHA }, 3, now, [0x2000_7F00, 15, 15, 0]));
        list.push(Entry::isr(if idle { 0 } else { ALPHA }, 4, now + 40, [0x2000_7F00, 15, 15, 0]));
    }
    list
}

#[test]
fn the_rate_is_known_only_where_the_trace_confirms_it() {
    let list = ticking(&[(250_010, false); 6]);
    let b = Buffer { objects: two_threads(), ..Buffer::new(BASE) }.record(32, &list);
    let t = decode_with(&b, &[("SystemCoreClock", 25_000_000)]);
    assert_eq!(t.clock.hz, Some(25e6));
    assert!(issue(&t, "rate-confirmed").message.contains("25000000 Hz"));
    assert!(fact(&t, "rate").contains("confirmed"));

    let t = decode_with(&b, &[("SystemCoreClock", 48_000_000)]);
    assert_eq!(t.clock.hz, None);
    assert!(fact(&t, "rate").contains("do not confirm"));
    let quiet = Buffer::new(BASE).record(32, &steady(20, 0, 50));
    let t = decode_with(&quiet, &[("SystemCoreClock", 48_000_000)]);
    assert!(t.clock.hz.is_none() && fact(&t, "rate").contains("no SysTick"));
}

#[test]
fn a_counter_that_stops_in_sleep_is_said_to() {
    let list = ticking(&[
        (250_000, false),
        (250_000, false),
        (31_000, true),
        (30_000, true),
        (250_000, false),
        (250_000, false),
        (28_000, true),
        (30_500, true),
        (250_000, false),
    ]);
    let b = Buffer { objects: two_threads(), ..Buffer::new(BASE) }.record(32, &list);
    let t = decode_with(&b, &[("SystemCoreClock", 25_000_000)]);
    assert!(issue(&t, "clock-sleeps").message.contains("stops in sleep"));
    assert_eq!(t.clock.hz, Some(25e6), "the busy periods tell the rate");
}

#[test]
fn a_gap_longer_than_the_clock_is_said_where_the_tick_count_shows_it() {
    let mut list = ticking(&[(250_000, false); 4]);
    list.push(Entry::thread(ALPHA, 5, 120, 1_010_000, [100, 0, 0, 0]));
    // 30,000 kernel ticks later, which is 7.5e9 clock ticks and more than 32 bits hold.
    list.push(Entry::thread(ALPHA, 5, 120, (1_010_000u64 + 7_500_000_000) & 0xFFFF_FFFF, [30_100, 0, 0, 0]));
    let t = decode(&Buffer { objects: two_threads(), ..Buffer::new(BASE) }.record(32, &list));
    let i = issue(&t, "gap-longer-than-clock");
    assert_eq!((i.severity, i.count, i.place.seq), (Severity::Lost, 1, Some(9)));
}

#[test]
fn threads_on_stacks_of_an_operating_system_have_its_clock() {
    let mut alpha = thread(ALPHA, "alpha", 5);
    alpha.params = [0x2000_8000, 0x400];
    let list: Vec<Entry> = (0..20u64)
        .map(|i| Entry::thread(ALPHA, 5, 103 + 9 * (i % 2), 500_000 + i * 31, [i, 0x7F00_1234, 0x7F00_1200, 0]))
        .collect();
    let hosted = Buffer { objects: vec![alpha.clone()], ..Buffer::new(BASE) }.record(32, &list);
    let native: Vec<Entry> =
        list.iter().map(|e| Entry { info: [e.info[0], 0x2000_8100, 0x2000_8100, 0], ..*e }).collect();
    let native = Buffer { objects: vec![alpha], ..Buffer::new(BASE) }.record(32, &native);
    // 112 tx_thread_sleep holds the stack pointer in I3.
    let t = decode(&hosted);
    assert_eq!(t.clock.period, Some(1_000_000_000));
    // A port for Windows has such stacks too, and counts at another rate: only a restart tells that these are nanoseconds.
    assert_eq!(t.clock.hz, None);
    assert_eq!(decode(&native).clock.period, None);
}

/// 0 is no stack: no pointer is outside of it.
#[test]
fn a_thread_that_is_registered_without_a_stack_made_its_port_a_hosted_one() {
    let mut alpha = thread(ALPHA, "alpha", 5);
    alpha.params = [0x2000_8000, 0];
    let list: Vec<Entry> = (0..20u64)
        .map(|i| Entry::thread(ALPHA, 5, 112, 500_000 + i * 31 + i % 3, [i, 0x2000_8100, 0x2000_8100, 0]))
        .collect();
    let t = decode(&Buffer { objects: vec![alpha], ..Buffer::new(BASE) }.record(32, &list));
    assert_eq!(t.clock.period, None, "{}", t.clock.reason);
}

/// Three events of a port to Linux, and a second begins between the first two: 2,563,807 ns later.
#[test]
fn three_events_around_the_begin_of_a_second_were_more_than_three_seconds_long() {
    let mut list = steady(20, 990_000_000, 1_000_000);
    list.iter_mut().zip([5, 3, 9, 1].iter().cycle()).for_each(|(e, n)| e.stamp = e.stamp % 1_000_000_000 + n);
    list.retain(|e| (990_000_000..998_000_000).contains(&e.stamp));
    list.extend([997_436_193 + 1_000_000, 1_000_000].map(|at| Entry::thread(ALPHA, 5, 5000, at, [0; 4])));
    list.push(Entry::thread(ALPHA, 5, 5000, 1_000_493, [0; 4]));
    let b = Buffer::new(BASE).record(32, &list);
    let last = |n, symbols: &[(&str, u64)]| {
        let mut memory = Segments::new(vec![Block::whole(b.base, b.bytes().into())]);
        let symbols = Pairs::new(symbols.iter().map(|(name, at)| ((*name).to_owned(), *at)).collect());
        let hints =
            Hints { header: Some(b.base), endian: Some(Endian::Little), pointer: Some(Width::W4), ..Hints::default() };
        let located = ThreadX.locate(&mut memory, &symbols, &hints).unwrap();
        let capture = located.capture(&mut memory, &symbols, Extent::Newest(n)).unwrap();
        capture.decode(&ThreadX.catalogue(Names::default()), &DecodeOptions::default()).unwrap()
    };
    for n in [2, 3, 4] {
        let t = last(n, &[("_tx_linux_time_stamp", 0x2000_8000)]);
        let ticks: Vec<i64> = events(&t).iter().map(|e| e.ticks).collect();
        let [.., second, newest] = ticks.as_slice() else { panic!("{ticks:?}") };
        assert_eq!(newest - second, 493, "last {n}");
        if let [.., first, second, _] = ticks.as_slice() {
            assert_eq!(second - first, 2_563_807, "last {n}: {}", t.clock.reason);
        }
        assert_eq!((t.clock.direction, t.clock.period), (Direction::Up, Some(1_000_000_000)));
        assert!(!codes(&t).iter().any(|c| ["direction-unknown", "period-inferred"].contains(c)), "{:?}", t.issues);
        // Without the symbol of the port the length is inferred.
        let t = last(n, &[("other", 0x2000_8000)]);
        assert_eq!(t.issues.iter().any(|i| i.code == Code::PeriodInferred), n > 2, "last {n}: {:?}", t.issues);
    }
}

/// Cores that read one clock, and interrupts that stamp before they insert, step back by a few ticks.
#[test]
fn small_steps_back_were_a_timer_that_reloads() {
    let list: Vec<Entry> = (0..400u64)
        .map(|i| Entry::thread(ALPHA, 5, 5000, 10_000 + i * 500 - if i % 50 == 49 { 700 } else { 0 }, [0; 4]))
        .collect();
    let t = decode(&Buffer::new(BASE).record(512, &list));
    assert_eq!((t.clock.direction, t.clock.period), (Direction::Up, None));
    // Near a second's end it is no restart either.
    let list: Vec<Entry> = list.iter().map(|e| Entry { stamp: e.stamp + 999_000_000, ..*e }).collect();
    let list: Vec<Entry> = list.into_iter().filter(|e| e.stamp < 999_990_000).collect();
    let t = decode(&Buffer::new(BASE).record(512, &list));
    assert_eq!((t.clock.period, t.clock.hz), (None, None));
}
