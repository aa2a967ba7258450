//! The firmware of the fixtures counts for itself: the same numbers.

use super::*;

/// Counters of what is in the ring: the window, or all where the ring has not wrapped.
fn truth(name: &str) -> BTreeMap<String, u64> {
    let text = std::fs::read_to_string(fixture(name)).unwrap();
    let rows: Vec<Vec<&str>> = text.lines().skip(1).map(|l| l.split('\t').collect()).collect();
    let whole = rows.iter().find(|r| r[0] == "wraps").is_none_or(|r| r[1] == "0");
    let of = |r: &Vec<&str>| Some((r[0].to_owned(), r[if whole { 1 } else { 2 }].parse().ok()?));
    rows.iter().filter_map(of).collect()
}

#[test]
fn the_numbers_are_those_of_the_firmware() {
    for (capture, counted) in [
        ("cm3.trx", "cm3"),
        ("cm3-disabled.ram.bin", "cm3-disabled"),
        ("cm3-straddle.ram.bin", "cm3-straddle"),
        ("cm3-unwrapped.ram.bin", "cm3-unwrapped"),
        ("host-ulong64.trx", "host"),
        ("be.trx", "be"),
        ("smp.trx", "smp"),
    ] {
        let trace = load(capture);
        let catalogue = threadx().catalogue(Names::Duo);
        let r = all_reports(&trace, &catalogue, &Filters::default());
        let want = truth(&format!("{counted}.truth.tsv"));
        for name in ["events", "context_switches", "idle_entries"] {
            assert_eq!(count(&r, name), want[name], "{capture}: {name}");
        }
        let (mut suspended, mut resumed, mut preempted) = (0, 0, 0);
        for (name, n) in want.iter().filter(|(n, _)| n.starts_with("thread.")) {
            let (thread, what) = name.strip_prefix("thread.").unwrap().rsplit_once('.').unwrap();
            let got = |column| of_row(&r, "stats_threads", thread, column);
            match what {
                "runs" => assert_eq!(got("runs"), *n, "{capture}: {name}"),
                // The firmware does not tell preempted ones from those that let go.
                "preemptions" => {
                    assert_eq!(got("preempted") + got("yielded"), *n, "{capture}: {name}");
                    preempted += n;
                }
                "suspensions" => {
                    assert_eq!(got("blocked") + got("stopped"), *n, "{capture}: {name}");
                    suspended += n;
                }
                "resumptions" => {
                    assert_eq!(got("woken"), *n, "{capture}: {name}");
                    resumed += n;
                }
                _ => {}
            }
        }
        assert_eq!((count(&r, "suspensions"), count(&r, "resumptions")), (suspended, resumed), "{capture}");
        assert_eq!(count(&r, "preemptions") + count(&r, "yields"), preempted, "{capture}");
        // The fault announces nothing, and inserts its event (counted under `other`) where the trace is still enabled. The
        // oldest event of some rings is in an interrupt whose beginning was
        // overwritten: the firmware counted it before the window.
        let begun = want["interrupts.15"] + want["interrupts.21"];
        assert_eq!(count(&r, "interrupts_announced"), begun, "{capture}");
        let oldest = trace.events().next().unwrap();
        let cut = oldest.interrupted.is_some() && oldest.id != 3;
        let fault = want.get("other").copied().unwrap_or(0);
        assert_eq!(count(&r, "interrupts_unannounced"), fault + u64::from(cut), "{capture}");
        for number in ["15", "21"] {
            let n = of_row(&r, "stats_interrupts", number, "count");
            assert_eq!(n, want[&format!("interrupts.{number}")], "{capture}: {number}");
        }
        assert_eq!((count(&r, "time_slice_events"), count(&r, "interrupts_nested")), (0, 0), "the firmware has none");
    }
}
