//! Traces of real kernels, where their folder is there: every event against what is known of it.

use crate::support;
use crate::support::decode::scanned;
use tx_trace::format::Extent;
use tx_trace::trace::ContextKind;

#[test]
fn every_event_of_the_expected_lists() {
    let Some(dir) = support::real_traces() else { return };
    for name in ["demo_threadx", "demo_netx_tcp"] {
        let bytes = std::fs::read(dir.join("threadx").join(format!("{name}.trx"))).unwrap();
        let (trace, _) = scanned(&bytes, Extent::All);
        let expected = std::fs::read_to_string(dir.join("threadx").join(format!("{name}.expected.tsv"))).unwrap();
        let mut events = trace.events();
        for line in expected.lines().skip(1) {
            let e = events.next().unwrap_or_else(|| panic!("{name}: no event for {line}"));
            let context = trace.contexts.get(e.context).unwrap();
            let words = trace.words(&e);
            let priority = e.priority.map_or_else(
                || {
                    e.interrupted
                        .and_then(|i| trace.contexts.get(i))
                        .map_or_else(|| "-".into(), |c| format!("{:#x}", c.address))
                },
                |p| p.to_string(),
            );
            let got = format!(
                "{}\t{}\t{}\t{:#x}\t{}\t{:#x}\t{}\t{}\t{:#x}\t{:#x}\t{:#x}\t{:#x}",
                e.seq,
                e.slot,
                e.ticks,
                e.stamp.unwrap(),
                context.kind.name(),
                context.address,
                priority,
                e.id,
                words[0],
                words[1],
                words[2],
                words[3]
            );
            let (g, x): (Vec<&str>, Vec<&str>) = (got.split('\t').collect(), line.split('\t').collect());
            for (i, (g, x)) in g.iter().zip(&x).enumerate() {
                assert!(i == 6 && e.priority.is_none() || g == x, "{name}:\n{got}\n{line}");
            }
        }
        assert!(events.next().is_none());
    }
}

#[test]
fn every_context_of_a_real_kernel_has_a_name() {
    let Some(dir) = support::real_traces() else { return };
    for name in ["real_cm4f.trx", "real_linux64.trx", "real_ppc_be.trx", "real_rv64.trx"] {
        let bytes = std::fs::read(dir.join("threadx").join(name)).unwrap();
        let (trace, catalogue) = scanned(&bytes, Extent::All);
        assert!(trace.about.wrapped, "{name}");
        assert_eq!(trace.len(), trace.about.capacity, "{name}");
        for (_, c) in trace.contexts.iter() {
            assert!(c.name.is_some(), "{name}: {c:?}");
        }
        for e in trace.events() {
            assert!(e.def.is_some() || e.id >= 4096, "{name}: {e:?}");
            let context = trace.contexts.get(e.context).unwrap();
            assert_eq!(e.priority.is_some(), context.kind == ContextKind::Thread);
        }
        assert!(catalogue.iter().count() > 0);
    }
}

#[test]
fn the_newest_events_are_the_tail_of_all_of_them() {
    let Some(dir) = support::real_traces() else { return };
    for name in ["real_cm4f.trx", "real_rv64.trx", "demo_filex.trx", "real_ppc_be.trx"] {
        let bytes = std::fs::read(dir.join("threadx").join(name)).unwrap();
        let (all, _) = scanned(&bytes, Extent::All);
        let all: Vec<_> = all.events().map(|e| (e.seq, e.slot, e.id, e.words)).collect();
        for n in [0u64, 1, 7, 50, 400, 5000] {
            let (tail, _) = scanned(&bytes, Extent::Newest(n));
            let tail: Vec<_> = tail.events().map(|e| (e.seq, e.slot, e.id, e.words)).collect();
            let expected = &all[all.len().saturating_sub(n as usize)..];
            assert_eq!(tail, expected, "{name} {n}");
        }
    }
}

/// What the README of the traces says of that board's threads, by the RAM and the addresses of symbols alone.
#[test]
#[cfg(feature = "cli")]
fn threads_of_a_real_kernel_without_its_elf() {
    let Some(dir) = support::real_traces() else { return };
    let out = std::process::Command::new(env!("CARGO_BIN_EXE_tx-trace"))
        .args(["threads", "--format", "json", "@real_cm4f.source"])
        .current_dir(dir.join("threadx"))
        .env_remove("TX_TRACE_ELF")
        .output()
        .unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    let lines = text.lines().map(|l| serde_json::from_str::<serde_json::Value>(l).unwrap());
    let rows: Vec<_> = lines.filter(|l| l["report"] == "threads").collect();
    let word = |v: &serde_json::Value| v.as_str().unwrap_or_default().to_owned();
    let got: Vec<_> = rows
        .iter()
        .map(|r| {
            let names = [&r["thread"]["name"], &r["state"], &r["waits_for"]["name"], &r["owner"]["name"]].map(word);
            (names, r["running"].as_bool().unwrap(), r["priority"].as_u64().unwrap())
        })
        .collect();
    assert_eq!(
        got,
        [
            (["watchdog", "ready", "", ""].map(str::to_owned), true, 1),
            (["System Timer Thread", "suspended", "", ""].map(str::to_owned), false, 0),
            (["hi_crit", "mutex", "cfg_mutex", "low_task"].map(str::to_owned), false, 4),
            (["sensor", "semaphore", "data_sem", ""].map(str::to_owned), false, 6),
            (["control", "queue", "samples_q", ""].map(str::to_owned), false, 8),
            (["mid_hog", "ready", "", ""].map(str::to_owned), false, 12),
            (["comms", "ready", "", ""].map(str::to_owned), false, 14),
            (["logger_with_a_rather_long_name_", "ready", "", ""].map(str::to_owned), false, 16),
            (["low_task", "ready", "", ""].map(str::to_owned), false, 20),
        ]
    );
    // All but the one that runs stand somewhere in flash.
    let places = rows[1..].iter().map(|r| word(&r["at"]["address"]));
    let mut places = places.map(|at| u64::from_str_radix(at.trim_start_matches("0x"), 16).unwrap());
    assert!(places.all(|pc| pc > 0 && pc < 0x1_0000));
}
