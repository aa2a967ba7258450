//! The firmware of the fixtures counts for itself: the same numbers.

use super::*;

fn truth(name: &str) -> BTreeMap<String, u64> {
    let text = std::fs::read_to_string(fixture(name)).unwrap();
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
