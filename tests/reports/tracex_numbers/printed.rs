//! What TraceX printed, line by line.

use super::*;

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
    scanned(&bytes, Extent::All).0
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
                    let ours: Vec<String> = FILEX.iter().zip(n.filex).map(|(k, v)| format!("{}={v}", k.name)).collect();
                    assert_eq!(lines, ours, "{what}");
                }
                "netx" => {
                    let ours: Vec<String> = NETX.iter().zip(n.netx).map(|(k, v)| format!("{}={v}", k.name)).collect();
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

/// Traces for which TraceX's library printed nothing that is beside them; it was asked for these numbers once.
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
