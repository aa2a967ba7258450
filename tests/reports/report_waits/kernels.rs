//! The fixture firmware, real kernels, and what people see.

use super::*;

fn load(path: &std::path::Path) -> (Trace, Catalogue) {
    scanned(&std::fs::read(path).unwrap(), Extent::All)
}

fn fixture(name: &str) -> (Trace, Catalogue) {
    load(&support::decode::fixture(name))
}

#[test]
fn the_fixture_firmwares_planted_inversion() {
    for (name, open) in [("cm3.trx", 0), ("be.trx", 0), ("smp.trx", 1)] {
        let made = fixture(name);
        let r = report_with(&made, Name::Inversions, &Filters::default());
        assert_eq!(
            row(&r, open, "waiter owner mutex ended deterministic"),
            "control low_task bus_mutex open false",
            "{name}"
        );
        assert_eq!(row(&r, open, "waiter_priority owner_priority culprit inherited"), "4 20 filter false", "{name}");
        let b = report_with(&made, Name::Blocked, &Filters::default());
        assert_eq!(
            row(&b, 0, "thread object call count woken_by").split(' ').take(3).collect::<Vec<_>>(),
            ["control", "bus_mutex", "tx_mutex_get"]
        );
        assert_eq!(row(&b, 1, "thread object call count"), "sensor samples tx_queue_send 0", "{name}");
        assert_eq!(cell(&b, 0, "open"), cell(&r, open, "ticks"), "{name}: both reports say the same");
    }
    // On one core the shares are the whole.
    let r = report_with(&fixture("cm3.trx"), Name::Inversions, &Filters::default());
    let number = |n: &str| n.parse::<i64>().unwrap();
    let culprits: Vec<i64> =
        cell(&r, 0, "culprits").split(", ").map(|c| number(c.rsplit(' ').next().unwrap())).collect();
    assert!(culprits.len() > 1, "{culprits:?}");
    assert_eq!(cell(&r, 0, "culprit_ticks"), culprits[0].to_string(), "the culprit's own, which ran longest");
    let others: i64 = row(&r, 0, "owner_ticks isr_ticks other_ticks").split(' ').map(number).sum();
    assert_eq!((others + culprits.iter().sum::<i64>()).to_string(), cell(&r, 0, "ticks"));
    assert_eq!(row(&r, 0, "from to"), "110 -");
    // By another core low_task gives the bus back soon enough: it goes on beside everybody.
    let r = report_with(&fixture("smp.trx"), Name::Inversions, &Filters::default());
    assert_eq!(row(&r, 0, "waiter owner ended deterministic culprit_ticks"), "control low_task released true 0");
}

/// Each thread's finished waits against the firmware's own count of its resumptions in the window.
#[test]
fn waits_of_the_firmware_are_its_resumptions() {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    for name in ["cm3", "be", "smp"] {
        let r = report_with(&fixture(&format!("{name}.trx")), Name::Blocked, &Filters::default());
        let truth = std::fs::read_to_string(dir.join(format!("{name}.truth.tsv"))).unwrap();
        let counter = |key: &str| {
            let line = truth.lines().find(|l| l.split('\t').next() == Some(key));
            line.and_then(|l| l.split('\t').nth(2)).and_then(|n| n.parse::<u64>().ok())
        };
        let mut compared = 0;
        for thread in ["System Timer Thread", "watchdog", "control", "sensor", "comms", "filter", "logger"] {
            let rows: Vec<usize> = (0..r.rows.len()).filter(|i| cell(&r, *i, "thread") == thread).collect();
            let counts = rows.iter().map(|i| cell(&r, *i, "count").parse::<u64>().unwrap()).sum::<u64>();
            let open = rows.iter().filter(|i| cell(&r, **i, "open") != "-").count() as u64;
            let Some(resumed) = counter(&format!("thread.{thread}.resumptions")) else { continue };
            let suspended = counter(&format!("thread.{thread}.suspensions")).unwrap();
            // The first resumption may be of a wait that began before the ring's oldest event.
            assert!(resumed - counts <= 1, "{name} {thread}: {counts} of {resumed}");
            assert_eq!(counts + open, suspended, "{name} {thread}: each suspension ends or is open");
            compared += 1;
        }
        assert!(compared >= 5, "{name}: {compared}");
    }
}

#[test]
fn the_planted_inversion_of_a_real_kernel() {
    let Some(dir) = support::real_traces() else { return };
    for name in ["real_cm4f.trx", "real_linux64.trx", "real_ppc_be.trx", "real_rv64.trx"] {
        let made = load(&dir.join("threadx").join(name));
        let r = report_with(&made, Name::Inversions, &Filters::default());
        let last = r.rows.len() - 1;
        assert_eq!(
            row(&r, last, "waiter owner mutex ended deterministic waiter_priority owner_priority culprit"),
            "hi_crit low_task cfg_mutex open false 4 20 mid_hog",
            "{name}"
        );
        let b = report_with(&made, Name::Blocked, &Filters::default());
        assert_eq!(row(&b, 0, "thread object call"), "hi_crit cfg_mutex tx_mutex_get", "{name}");
    }
}

/// Where nothing overlaps and nothing times out, TraceX's own counts are right.
#[test]
fn as_many_inversions_as_tracex_where_it_is_right() {
    let Some(dir) = support::real_traces() else { return };
    let r = report_with(&load(&dir.join("threadx/demo_netx_tcp.trx")), Name::Inversions, &Filters::default());
    let culprits = (0..r.rows.len()).filter(|i| cell(&r, *i, "deterministic") == "false").count();
    assert_eq!((r.rows.len(), culprits), (11, 8));
}

#[cfg(feature = "cli")]
#[test]
fn what_people_see() {
    let mut got = String::new();
    for source in ["cm3.elf cm3.core", "smp.elf smp.core"] {
        for line in [
            format!("inversions {source}"),
            format!("inversions --width 120 {source}"),
            format!("inversions --format json {source}"),
            format!("blocked {source}"),
            format!("blocked --width 120 {source}"),
            format!("blocked --format json {source}"),
            format!("blocked --thread sensor --width 120 {source}"),
        ] {
            got.push_str(&support::golden::stdout(&line));
        }
    }
    support::golden::compare("cli/waits.txt", &got);
}
