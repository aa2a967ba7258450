//! `timeline` and `export`: goldens of what is drawn, and files loaded by the programs that they are for. Perfetto's own
//! trace processor answers SQL on them (`TX_TRACE_TEST_PERFETTO`, which `scripts/test` sets).

#![cfg(feature = "cli")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::support::builder::{Buffer, Entry, Registered};
use crate::support::damaged;
use crate::support::golden::{check, data, run, stdout};
#[cfg(unix)]
use crate::support::pty::Terminal;
use crate::support::tools::{Scratch, binary, fixture};

fn lines(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|l| (*l).to_owned()).collect()
}

#[test]
fn timelines_at_every_width() {
    let mut all = Vec::new();
    for source in ["cm3.elf cm3.core", "failure.elf failure-healthy.core.gz"] {
        all.extend(["--width 80", "--width 120", "--width 200", ""].map(|width| format!("timeline {width} {source}")));
    }
    for source in ["failure.elf failure-inversion.core.gz", "failure.elf failure-deadlock.core.gz", "smp.elf smp.core"]
    {
        all.push(format!("timeline --width 80 {source}"));
    }
    check("timeline_widths", &all);
}

#[test]
fn timelines_of_parts_and_of_other_systems() {
    check(
        "timeline_parts",
        &lines(&[
            "timeline --ascii --width 80 cm3.elf cm3.core",
            "timeline --around 110 --width 80 cm3.elf cm3.core",
            "timeline --from 100 --to 140 --hz 25M --width 80 cm3.elf cm3.core",
            "timeline --from -10 --width 80 cm3.elf cm3.core",
            "timeline --width 80 qnx.kev",
            "timeline --width 80 qnx-ring.bin",
            "timeline --width 80 host-ulong64.trx",
            "timeline --width 80 cm3.elf cm3-never.ram.bin",
            "timeline --from 9999 cm3.trx",
            "timeline --previous cm3.trx",
        ]),
    );
}

#[test]
fn exports_that_are_refused() {
    check(
        "export_refused",
        &lines(&[
            "export cm3.trx",
            "export -o x.foo cm3.trx",
            "export -o x.trx qnx.kev",
            "export -o x.trx host-ulong64.trx",
            "export -o x.json --to nonsense cm3.trx",
            "export -o x.json --to chrome --to trx cm3.trx",
            "export -o x.json --from 9999 cm3.trx",
            "export -o cm3.trx --to trx cm3.trx",
        ]),
    );
}

/// Where the trace processor is; says what is missing.
fn trace_processor() -> Option<PathBuf> {
    let is_node = Command::new("node").arg("--version").output().is_ok_and(|out| out.status.success());
    let place = std::env::var_os("TX_TRACE_TEST_PERFETTO").map(PathBuf::from).filter(|place| place.is_dir());
    if !is_node || place.is_none() {
        println!("SKIPPED: no Perfetto trace processor: node and TX_TRACE_TEST_PERFETTO");
        eprintln!("SKIPPED: no Perfetto trace processor: node and TX_TRACE_TEST_PERFETTO");
    }
    place.filter(|_| is_node)
}

/// The rows of each query.
fn ask(place: &PathBuf, file: &str, queries: &[&str]) -> Vec<Vec<Value>> {
    ask_all(place, &[file.to_owned()], queries)
}

/// The rows of each query, of one file after the other.
fn ask_all(place: &PathBuf, files: &[String], queries: &[&str]) -> Vec<Vec<Value>> {
    let script = format!("{}/tests/support/trace_processor.mjs", env!("CARGO_MANIFEST_DIR"));
    let out = Command::new("node").arg(script).arg(place).args(files).arg("--").args(queries).output().unwrap();
    assert!(out.status.success(), "{files:?}: {}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8(out.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

const ERRORS: &str = "select name, value from stats where value > 0 and (severity = 'error' or name like '%flow%')";
/// The name of a slice's track: of a thread in Chrome's format, of a track in Perfetto's.
const SLICES: &str = "select coalesce(th.name, t.name) as track, s.category as category, count(*) as n, sum(dur) as dur \
    from slice s left join track t on s.track_id = t.id left join thread_track tt on tt.id = s.track_id \
    left join thread th using (utid) group by 1, 2";
const FLOWS: &str = "select count(*) as n from flow";
const COUNTERS: &str = "select t.name as name, max(value) as most, count(*) as n from counter c \
    join counter_track t on c.track_id = t.id group by 1";
const WAITED: &str = "select t.name as name, sum(extract_arg(s.arg_set_id, 'debug.waited_ticks')) as ticks, \
    count(*) as n from slice s join track t on s.track_id = t.id \
    where extract_arg(s.arg_set_id, 'debug.waited_ticks') is not null group by 1";

fn report(line: &str) -> Vec<Value> {
    let text = stdout(&format!("{line} --format json"));
    let json = text.lines().filter(|line| line.starts_with('{'));
    json.map(|l| serde_json::from_str(l).unwrap()).filter(|v: &Value| v["type"] == "row").collect()
}

/// Ticks by who, as `profile` has them.
fn profile(source: &str) -> BTreeMap<String, i64> {
    let mut all = BTreeMap::new();
    for row in report(&format!("profile {source}")).iter().filter(|row| row["report"] == "profile") {
        let name = match row["kind"].as_str().unwrap() {
            "isr" => "interrupts".to_owned(),
            "thread" => {
                let who = &row["who"];
                tx_trace::escape(who["name"].as_str().or_else(|| who["address"].as_str()).unwrap())
            }
            kind => kind.to_owned(),
        };
        *all.entry(name).or_insert(0) += row["ticks"].as_i64().unwrap();
    }
    all.retain(|_, ticks| *ticks > 0);
    all
}

/// Captures with their name on the command line.
const LOADED: [&str; 8] = [
    "cm3.elf cm3.core",
    "smp.elf smp.core",
    "failure.elf failure-deadlock.core.gz",
    "be.elf be.core",
    "host-ulong64.trx",
    "qnx-ring.bin",
    "--elf uia-stop.elf uia-stop.ram.bin@0x20000000",
    "--symbol ti_uia_loggers_LoggerMin_Module__state__V=0x20000000 uia-min.ram.bin@0x20000000",
];

#[test]
fn perfetto_and_chrome_files_hold_the_numbers_of_the_reports() {
    let Some(place) = trace_processor() else { return };
    let scratch = Scratch::new();
    for source in LOADED {
        for ending in ["pftrace", "json"] {
            let file = scratch.path(&format!("x.{ending}"));
            run(&format!("export -o {file} {source}"));
            let answers = ask(&place, &file, &[ERRORS, SLICES, FLOWS, COUNTERS, WAITED]);
            assert_eq!(answers[0], Vec::<Value>::new(), "{source} as {ending}: errors");
            compare_slices(source, ending, &answers[1]);
            let waits = report(&format!("blocked {source}"));
            let sum = |name: &str| waits.iter().filter_map(|row| row[name].as_i64()).sum::<i64>();
            let ready = answers[1].iter().filter(|row| row["category"] == "ready");
            assert!(answers[2][0]["n"].as_i64() <= Some(ready.map(|row| row["n"].as_i64().unwrap()).sum()));
            assert!(answers[2][0]["n"].as_i64() >= Some(sum("count")), "{source} as {ending}: flows");
            if ending == "pftrace" {
                assert_eq!(drawn_waits(&answers[4]), blocked(&waits), "{source}: waits");
            }
            compare_counters(source, &answers[3]);
        }
    }
}

/// Tracks were sorted by name in Perfetto, which takes no order from a process.
#[test]
fn tracks_are_in_order_in_perfetto() {
    const ORDER: &str = "select t.name as name from track t join track p on t.parent_id = p.id \
        where extract_arg(p.source_arg_set_id, 'child_ordering') = 'explicit' and p.parent_id is null \
        order by extract_arg(t.source_arg_set_id, 'sibling_order_rank')";
    let Some(place) = trace_processor() else { return };
    let scratch = Scratch::new();
    let file = scratch.path("x.pftrace");
    run(&format!("export -o {file} cm3.elf cm3.core"));
    let rows = ask(&place, &file, &[ORDER]).remove(0);
    let names: Vec<&str> = rows.iter().map(|row| row["name"].as_str().unwrap()).filter(|n| *n != "findings").collect();
    let threads = ["System Timer Thread", "watchdog", "control", "sensor", "comms", "filter", "logger", "low_task"];
    let rest = ["idle", "unknown", "levels, as calls found them"];
    assert_eq!(names, [&["interrupts"][..], &threads, &rest].concat());
    assert_eq!(rows[0]["name"], "findings");
}

/// By thread: how many waits are over, and how long they took.
type Waits = BTreeMap<String, (i64, i64)>;

fn drawn_waits(rows: &[Value]) -> Waits {
    let of = |row: &Value| (row["n"].as_i64().unwrap(), row["ticks"].as_i64().unwrap_or(0));
    rows.iter().map(|row| (row["name"].as_str().unwrap().to_owned(), of(row))).collect()
}

/// The same, as `blocked` has it.
fn blocked(rows: &[Value]) -> Waits {
    let mut all = Waits::new();
    for row in rows.iter().filter(|row| row["count"].as_i64() > Some(0)) {
        let name = row["thread"]["name"].as_str().or_else(|| row["thread"]["address"].as_str()).unwrap();
        let (count, ticks) = all.entry(tx_trace::escape(name)).or_default();
        *count += row["count"].as_i64().unwrap();
        *ticks += row["total"].as_i64().unwrap_or(0);
    }
    all
}

/// Every track's slices last as long as `profile` says, and there is an instant for each event.
fn compare_slices(source: &str, ending: &str, rows: &[Value]) {
    let mut drawn: BTreeMap<String, i64> = BTreeMap::new();
    let mut events = 0;
    for row in rows {
        let category = row["category"].as_str().unwrap();
        if category == "event" {
            events += row["n"].as_i64().unwrap();
        }
        if ["running", "interrupt", "idle", "init", "unknown"].contains(&category) {
            let name = row["track"].as_str().unwrap();
            let name = name.split(", core ").next().unwrap().to_owned();
            *drawn.entry(name).or_insert(0) += row["dur"].as_i64().unwrap();
        }
    }
    drawn.retain(|_, ticks| *ticks > 0);
    assert_eq!(drawn, profile(source), "{source} as {ending}");
    let all = self::events(&format!("list {source}")).len() as i64;
    assert_eq!(events, all, "{source} as {ending}: events");
}

/// The fullest that each object was, as `objects --use` has it.
fn compare_counters(source: &str, rows: &[Value]) {
    for used in report(&format!("objects --use {source}")) {
        let (Some(name), Some(most)) = (used["object"]["name"].as_str(), used["most"].as_i64()) else { continue };
        let kind = used["object_type"].as_str().unwrap_or_default();
        // Only a registry knows the type of an object.
        let begin = [format!("in {kind} {name}"), format!("in {name}")];
        let counter =
            rows.iter().find(|row| begin.iter().any(|begin| row["name"].as_str().unwrap().starts_with(begin)));
        let counter = counter.unwrap_or_else(|| panic!("{source}: no counter of {name}: {rows:?}"));
        assert_eq!(counter["most"].as_f64(), Some(most as f64), "{source}: {name}");
    }
}

/// Events without what a new buffer gives them: slots and places.
fn events(line: &str) -> Vec<Value> {
    let text = stdout(&format!("{line} --format json"));
    let json = text.lines().filter(|line| line.starts_with('{'));
    let all = json.map(|l| serde_json::from_str(l).unwrap()).filter(|v: &Value| v["type"] == "event");
    all.map(|mut event: Value| {
        let map = event.as_object_mut().unwrap();
        for name in ["seq", "slot", "ticks", "delta"] {
            map.remove(name);
        }
        event
    })
    .collect()
}

#[test]
fn a_trx_reads_back_to_the_same_events() {
    let scratch = Scratch::new();
    let file = scratch.path("x.trx");
    for source in ["cm3.trx", "be.trx", "smp.core", "cm3.core", "cm3-unwrapped.ram.bin"] {
        run(&format!("export -o {file} {source}"));
        assert_eq!(events(&format!("list {file}")), events(&format!("list {source}")), "{source}");
        assert_eq!(profile(&file), profile(source), "{source}");
        let filters = "--class queue,mutex --from 50";
        run(&format!("export -o {file} {source} {filters}"));
        let kept = events(&format!("list {source} {filters}"));
        assert_eq!(events(&format!("list {file}")), kept, "{source}");
        assert!(!kept.is_empty() || source == "cm3-unwrapped.ram.bin", "{source}");
    }
}

const HOSTILE: [&[u8]; 6] = [
    b"\"quote'\\",
    b"</script><b>",
    b"\x1b[31mred\x07",
    b"\xff\xfe\x80bytes",
    "\u{202e}turned\u{200b}".as_bytes(),
    b"a\nb\tc,{}[]",
];

/// A trace whose names try to break out of every format.
fn hostile() -> Vec<u8> {
    let thread = |n: u64| 0x2000_1000 + n * 0x100;
    let mut buffer = Buffer::new(0x2000_4000);
    buffer.objects = HOSTILE
        .iter()
        .enumerate()
        .map(|(n, name)| Registered {
            priority: Some(n as u16),
            name: name.to_vec(),
            ..Registered::new(1, thread(n as u64), "")
        })
        .chain(HOSTILE.iter().enumerate().map(|(n, name)| Registered {
            name: name.to_vec(),
            ..Registered::new(3, 0x2000_3000 + n as u64 * 0x80, "")
        }))
        .collect();
    let mut all = Vec::new();
    for round in 0..20u64 {
        let no = round % HOSTILE.len() as u64;
        let (own, next) = (thread(no), thread((no + 1) % HOSTILE.len() as u64));
        let queue = 0x2000_3000 + no * 0x80;
        let at = round * 1000;
        all.push(Entry::thread(own, no, 68, at, [queue, 0x2000_8000, 0xFFFF_FFFF, round]));
        all.push(Entry::thread(own, no, 2, at + 100, [own, 5, 0x2000_9000, next]));
        all.push(Entry::thread(next, (no + 1) % 6, 4242, at + 300, [own, 5, 6, 7]));
        all.push(Entry::thread(next, (no + 1) % 6, 1, at + 400, [own, 5, 0, 0]));
    }
    buffer.record(100, &all).bytes()
}

#[test]
fn hostile_names_are_harmless_in_every_format() {
    let scratch = Scratch::new();
    let source = scratch.path("hostile.trx");
    std::fs::write(&source, hostile()).unwrap();
    let text = run(&format!("timeline {source}"));
    assert!(!text.contains(['\u{1b}', '\u{7}', '\u{202e}', '\u{200b}']), "{text}");
    let json = scratch.path("x.json");
    run(&format!("export -o {json} {source}"));
    let written = std::fs::read_to_string(&json).unwrap();
    assert!(!written.contains(['\u{1b}', '\u{7}', '\u{202e}', '\u{200b}', '\t']), "controls are spelled out");
    let parsed: Value = serde_json::from_str(&written).unwrap();
    let names: Vec<&str> = parsed["traceEvents"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["name"] == "thread_name")
        .map(|event| event["args"]["name"].as_str().unwrap())
        .collect();
    assert!(names.contains(&"\"quote'\\") && names.contains(&"</script><b>"), "{names:?}");
    let trx = scratch.path("x.trx");
    run(&format!("export -o {trx} {source}"));
    assert_eq!(events(&format!("list {trx}")), events(&format!("list {source}")));
    let pftrace = scratch.path("x.pftrace");
    run(&format!("export -o {pftrace} {source}"));
    let Some(place) = trace_processor() else { return };
    let answers = ask(&place, &pftrace, &[ERRORS, SLICES]);
    assert_eq!(answers[0], Vec::<Value>::new());
    compare_slices(&source, &pftrace, &answers[1]);
    // Perfetto's reader of JSON leaves `\u005c` as it is, so such names are not compared: they were read above.
    let answers = ask(&place, &json, &[ERRORS, "select count(*) as n from slice where category = 'event'"]);
    assert_eq!(answers[0], Vec::<Value>::new());
    assert_eq!(answers[1][0]["n"].as_u64(), Some(events(&format!("list {source}")).len() as u64));
}

/// Issues about the clock that name the event with which time is in doubt.
const CLOCK_ISSUES: [&str; 3] = ["stamps-step-back", "wrap-doubtful", "gap-longer-than-clock"];

/// The gaps that a capture has to show by its own listing: events before which others are missing, and events whose time is
/// in doubt.
fn stated_gaps(source: &str) -> [BTreeSet<u64>; 2] {
    let listing = data(&format!("list --format json {source}"));
    let lines: Vec<Value> = listing.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let seqs = lines.iter().filter(|line| line["type"] == "event").map(|line| line["seq"].as_u64().unwrap());
    let seqs: Vec<u64> = seqs.collect();
    let lost = seqs.windows(2).filter(|pair| pair[1] != pair[0] + 1).map(|pair| pair[1]).collect();
    let issues = lines.iter().filter(|line| line["type"] == "issue");
    let of_clock = issues.filter(|issue| CLOCK_ISSUES.contains(&issue["code"].as_str().unwrap()));
    [lost, of_clock.filter_map(|issue| issue["where"]["seq"].as_u64()).filter(|seq| *seq > seqs[0]).collect()]
}

/// The gaps that a file for Chrome shows.
fn drawn_gaps(json: &str) -> [BTreeSet<u64>; 2] {
    let parsed: Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    let gaps: Vec<&Value> = parsed["traceEvents"].as_array().unwrap().iter().filter(|e| e["cat"] == "gap").collect();
    let of = |lost: bool| {
        let those = gaps.iter().filter(|gap| gap["name"].as_str().unwrap().contains("missing") == lost);
        those.map(|gap| gap["args"]["to_event"].as_u64().unwrap()).collect()
    };
    [of(true), of(false)]
}

/// A picture of what is left, or a refusal: no crash, no file that does not load, and no lost event or doubtful clock that is
/// not shown.
#[test]
fn damaged_captures_become_pictures_that_say_so() {
    let scratch = Scratch::new();
    let mut files = Vec::new();
    for (number, (name, source)) in damaged::captures(&scratch, 3).into_iter().enumerate() {
        for ending in ["pftrace", "json", "trx"] {
            let file = scratch.path(&format!("{number}.{ending}"));
            let text = run(&format!("export -o {file} {source}"));
            assert!(["[exit 0]", "[exit 1]", "[exit 2]"].iter().any(|exit| text.contains(exit)), "{name}: {text}");
            if !text.contains("[exit 0]") {
                assert!(text.contains("[stderr] error: "), "{name}: {text}");
                continue;
            }
            match ending {
                "trx" => assert!(!events(&format!("list {file}")).is_empty(), "{name}"),
                "json" => {
                    let (stated, drawn) = (stated_gaps(&source), drawn_gaps(&file));
                    assert!(stated[0].is_subset(&drawn[0]), "{name}: lost: {stated:?} {drawn:?}");
                    assert!(stated[1].is_subset(&drawn[1]), "{name}: clock: {stated:?} {drawn:?}");
                    files.push(file);
                }
                _ => files.push(file),
            }
        }
        let text = run(&format!("timeline {source}"));
        assert!(["[exit 0]", "[exit 1]", "[exit 2]"].iter().any(|exit| text.contains(exit)), "{name}: {text}");
    }
    assert!(files.len() > 45, "most have something left: {}", files.len());
    let Some(place) = trace_processor() else { return };
    // One engine for all: its start takes longer than these files.
    let negative = "select count(*) as n from slice where dur < 0 or ts < 0";
    for (file, answers) in files.iter().zip(ask_all(&place, &files, &[ERRORS, negative]).chunks(2)) {
        assert_eq!(answers[0], Vec::<Value>::new(), "{file}");
        assert_eq!(answers[1][0]["n"], 0, "{file}");
    }
}

/// Stamps that do not match were given the time of the event before them, and the picture did not say so.
#[test]
fn a_stamp_that_is_not_believed_was_no_gap() {
    let scratch = Scratch::new();
    let file = scratch.path("x.json");
    run(&format!("export -o {file} qnx-ring.bin"));
    assert_eq!(drawn_gaps(&file), [BTreeSet::new(), BTreeSet::from([5, 21, 37, 53])]);
    let text = run("timeline --width 80 qnx-ring.bin");
    assert!(text.lines().any(|line| line.starts_with("clock ") && line.contains('?')), "{text}");
    assert!(!text.contains("events are missing"), "{text}");
}

/// Work of more than a second says how far it is, on a terminal alone, and takes it back at its end.
#[cfg(unix)]
#[test]
fn progress_is_for_a_terminal() {
    let scratch = Scratch::new();
    let (source, file) = (scratch.path("long.trx"), scratch.path("x.pftrace"));
    super::html_page::repeated(&source, 150_000);
    let mut command = Command::new(binary());
    command.args(["export", "-o", &file, &source]);
    let mut terminal = Terminal::start(command);
    let said = terminal.wait("tx-trace: wrote ");
    assert!(said.contains("\rtx-trace: export ") && said.contains(" %\u{1b}[K"), "{said:?}");
    assert!(said.ends_with("\r\u{1b}[Ktx-trace: wrote "), "{said:?}");
    let percents: Vec<u32> =
        said.split("export ").skip(1).map(|part| part.split(' ').next().unwrap().parse().unwrap()).collect();
    assert!(percents.is_sorted() && percents.iter().all(|percent| *percent <= 100), "{percents:?}");
    let quiet = run(&format!("export -o {file} {source}"));
    assert!(!quiet.contains('%'), "{quiet}");
    // What takes no time says nothing on a terminal either.
    let mut command = Command::new(binary());
    command.args(["export", "-o", &file, &fixture("cm3.trx")]);
    let said = Terminal::start(command).wait("tx-trace: wrote ");
    assert_eq!(said, "tx-trace: wrote ");
}

/// One finding was listed once for each of its events, a deadlock once by the trace and once by `explain`, and the first
/// finding of `explain` was number 2.
#[test]
fn one_finding_was_listed_twice() {
    let said = |line: &str| -> Vec<String> {
        let text = stdout(&format!("timeline --width 500 {line}"));
        let numbers = text.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit()));
        numbers.map(str::to_owned).collect()
    };
    let deadlock = said("failure.elf failure-deadlock.core.gz");
    let circles = deadlock.iter().filter(|line| line.contains("deadlock: ")).count();
    assert!(circles == 1 && deadlock[0].starts_with("1 deadlock: "), "{deadlock:#?}");
    assert!(deadlock[0].contains("and it goes on"), "{deadlock:#?}");
    let inversion = said("failure.elf failure-inversion.core.gz");
    assert!(inversion[0].starts_with("1 priority-inversion: "), "{inversion:#?}");
    let other = said("failure.elf cm3.core");
    assert_eq!(other.iter().filter(|line| line.contains("starvation: ")).count(), 1, "{other:#?}");
    let fault = said("cm3.elf cm3.core");
    assert!(fault[0].starts_with("1 bus-fault: ") && fault[1].starts_with("2 priority-inversion: "), "{fault:#?}");
    assert_eq!(fault.len(), 2, "{fault:#?}");
}
