//! What the firmware counted for itself, against what is decoded of its trace: every event id, on every capture.

use std::collections::BTreeMap;

use crate::support::decode::{Seen, fixture, load, seen};
use tx_trace::abi::{Endian, Width};
use tx_trace::trace::ContextKind;

/// The counters of what is in the ring: the window, or all where the ring has not wrapped.
fn truth(name: &str) -> BTreeMap<String, u64> {
    let text = std::fs::read_to_string(fixture(name)).unwrap();
    let rows: Vec<Vec<&str>> = text.lines().skip(1).map(|l| l.split('\t').collect()).collect();
    let whole = rows.iter().find(|r| r[0] == "wraps").is_none_or(|r| r[1] == "0");
    rows.iter()
        .filter_map(|r| Some((r[0].to_owned(), r[if whole { 1 } else { 2 }].parse().ok()?)))
        .filter(|(_, n)| *n != 0)
        .collect()
}

/// The id without the core that ThreadX SMP puts into its top byte.
fn plain(e: &Seen) -> u32 {
    e.id & 0x00FF_FFFF
}

const CAPTURES: [(&str, &str); 8] = [
    ("cm3.trx", "cm3.truth.tsv"),
    ("cm3.ram.bin", "cm3.truth.tsv"),
    ("cm3-disabled.ram.bin", "cm3-disabled.truth.tsv"),
    ("cm3-unwrapped.ram.bin", "cm3-unwrapped.truth.tsv"),
    ("cm3-straddle.ram.bin", "cm3-straddle.truth.tsv"),
    ("host-ulong64.trx", "host.truth.tsv"),
    ("be.trx", "be.truth.tsv"),
    ("smp.trx", "smp.truth.tsv"),
];

#[test]
fn every_event_that_the_firmware_counted_is_there() {
    for (capture, counters) in CAPTURES {
        let events = seen(&load(capture));
        let mut want = truth(counters);
        assert_eq!(Some(events.len() as u64), want.remove("events"), "{capture}");
        let mut got = BTreeMap::new();
        for e in &events {
            let id = plain(e);
            let name = if id < 128 || (4096..4112).contains(&id) { format!("event.{id}") } else { "other".to_owned() };
            *got.entry(name).or_insert(0u64) += 1;
        }
        want.retain(|name, _| name.starts_with("event.") || name == "other");
        assert_eq!(got, want, "{capture}");
    }
}

/// Resumed and suspended, by thread: events 1 and 2 say whose, the registry says its name.
#[test]
fn every_resumption_and_suspension_is_of_its_thread() {
    for (capture, counters) in CAPTURES {
        let trace = load(capture);
        let mut got = BTreeMap::new();
        for e in seen(&trace) {
            let what = match plain(&e) {
                1 => "resumptions",
                2 => "suspensions",
                _ => continue,
            };
            let object = trace.objects.at(e.words[0]).unwrap();
            assert!(object.is_thread);
            *got.entry(format!("thread.{}.{what}", object.name)).or_insert(0u64) += 1;
        }
        let mut want = truth(counters);
        want.retain(|name, _| name.ends_with(".resumptions") || name.ends_with(".suspensions"));
        assert_eq!(got, want, "{capture}");
    }
}

/// The same firmware on a Cortex-M3, on big-endian PowerPC and with words of 8 bytes does the same things at the same
/// times; only addresses and sizes differ.
#[test]
fn byte_order_and_width_change_nothing() {
    let cm3 = seen(&load("cm3.trx"));
    for (name, endian, word) in [("be.trx", Endian::Big, Width::W4), ("host-ulong64.trx", Endian::Little, Width::W8)] {
        let trace = load(name);
        assert_eq!((trace.about.endian, trace.about.word), (endian, word));
        let other = seen(&trace);
        assert_eq!(cm3.len(), other.len());
        for (a, b) in cm3.iter().zip(&other) {
            let own = |e: &Seen| {
                let interrupted = e.interrupted.map(|(kind, _)| kind);
                (e.seq, e.slot, e.kind, e.name.clone(), e.priority, e.threshold, interrupted, e.id, e.stamp)
            };
            assert_eq!(own(a), own(b), "{name}");
            if (4096..5000).contains(&a.id) {
                let low = |e: &Seen| e.words.iter().map(|w| w & 0xFFFF_FFFF).collect::<Vec<_>>();
                assert_eq!(low(a), low(b), "{name}: what the application said");
            }
        }
    }
}

#[test]
fn cores_are_distinguished() {
    let trace = load("smp.trx");
    let events = seen(&trace);
    let want = truth("smp.truth.tsv");
    assert_eq!(trace.about.cores, 2);
    for core in [0u16, 1] {
        let count = events.iter().filter(|e| e.core == core).count() as u64;
        assert_eq!(Some(&count), want.get(&format!("by_core.{core}")));
    }
    for e in &events {
        assert!(e.id < 0x0100_0000, "the id without its core: {e:?}");
        let homes: &[u16] = match (e.kind, e.name.as_deref()) {
            (ContextKind::Thread, Some("System Timer Thread" | "watchdog" | "control")) => &[0],
            (ContextKind::Thread, Some("comms" | "filter" | "logger" | "low_task")) => &[1],
            // sensor may run on either, and does.
            (ContextKind::Thread, Some("sensor")) | (ContextKind::Isr, _) => &[0, 1],
            _ => panic!("{e:?}"),
        };
        assert!(homes.contains(&e.core), "{e:?}");
        // The tick (15) comes to core 0, the UART (21) to core 1.
        match (e.id, e.words[1]) {
            (3 | 4, 15) => assert_eq!(e.core, 0),
            (3 | 4, 21) => assert_eq!(e.core, 1),
            _ => {}
        }
    }
    for core in [0, 1] {
        assert!(events.iter().any(|e| e.core == core && e.name.as_deref() == Some("sensor")));
    }
}
