//! How often `explain` claims what is not so, for each code: over every capture of the repository, and over those of
//! `../shared/traces` where they are. What is planted in a capture, or described where it is from, is no false claim.
//! `UPDATE_GOLDEN=1 cargo test --test reports explain_rates` writes the table into docs/explain.md.
#![cfg(all(unix, feature = "cli"))]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use super::explain_failures::rows_of_fixtures;
use super::support::machine::fixture;
use super::support::real_traces;

/// The captures whose program fails on purpose, by the beginning of their names, and what is planted in them.
const PLANTED: [(&str, &[&str]); 6] = [
    ("cm3", &["priority-inversion", "bus-fault", "fault"]),
    ("host", &["priority-inversion"]),
    ("be", &["priority-inversion"]),
    ("smp", &["priority-inversion"]),
    ("real_", &["priority-inversion"]),
    (
        "crash-",
        &["bus-fault", "isr-fault", "usage-fault", "null-call", "stack-overflow", "assert", "fault", "isr-never-ends"],
    ),
];

/// Every source: its name, and the words that open it.
fn sources() -> Vec<(String, Vec<String>)> {
    let path = |name: &str| fixture(name).display().to_string();
    let mut all = Vec::new();
    let mut add = |name: &str, words: &[&str]| {
        let words: Vec<String> = words.iter().map(|word| path(word)).collect();
        all.push((name.to_owned(), words));
    };
    for (name, words) in [
        ("cm3 RAM", vec!["cm3.elf", "cm3.ram.bin"]),
        ("cm3 core", vec!["cm3.elf", "cm3.core"]),
        ("cm3 stripped", vec!["cm3.stripped.elf", "cm3.core"]),
        ("cm3 trace", vec!["cm3.trx"]),
        ("cm3-unwrapped", vec!["cm3-unwrapped.elf", "cm3-unwrapped.ram.bin"]),
        ("cm3-straddle", vec!["cm3-straddle.elf", "cm3-straddle.ram.bin"]),
        ("cm3 RAM without ELF", vec!["cm3.ram.bin"]),
        ("host core", vec!["host.elf", "host.core"]),
        ("host trace", vec!["host-ulong64.trx"]),
        ("be core", vec!["be.elf", "be.core"]),
        ("be trace", vec!["be.trx"]),
        ("smp core", vec!["smp.elf", "smp.core"]),
        ("smp trace", vec!["smp.trx"]),
        ("uia-stop", vec!["uia-stop.elf", "uia-stop.ram.bin"]),
        ("uia-min", vec!["uia-min.ram.bin"]),
        ("qnx ring", vec!["qnx-ring.bin"]),
        ("qnx file", vec!["qnx.kev"]),
    ] {
        add(name, &words);
    }
    let mut names: Vec<String> = std::fs::read_dir(fixture(""))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".core.gz") || name.ends_with(".ram.bin.gz"))
        .collect();
    names.sort();
    for name in &names {
        let elf = match name.as_str() {
            name if name.starts_with("failure-other-") => "failure-other.elf",
            name if name.starts_with("failure-") => "failure.elf",
            name if name.starts_with("resource-other-") => "resource-other.elf",
            name if name.starts_with("resource-") => "resource.elf",
            name if name.starts_with("wait-other-") => "wait-other.elf",
            name if name.starts_with("wait-") => "wait.elf",
            name if name.starts_with("use-other-") => "use-other.elf",
            name if name.starts_with("use-riscv-") => "use-riscv.elf",
            name if name.starts_with("use-") => "use.elf",
            name if name.starts_with("fault-other-") => "fault-other.elf",
            name if name.starts_with("fault-") => "fault.elf",
            name if name.starts_with("stall-other-") => "stall-other.elf",
            name if name.starts_with("stall-") => "stall.elf",
            _ => "crash.elf",
        };
        add(name, &[elf, name]);
        add(&format!("{name} without ELF"), &[name]);
    }
    if let Some(dir) = real_traces() {
        let mut paths = Vec::new();
        for system in ["threadx", "uia", "qnx"] {
            let entries = std::fs::read_dir(dir.join(system)).unwrap().map(|entry| entry.unwrap().path());
            paths.extend(entries);
        }
        paths.sort();
        all.extend(paths.iter().filter_map(|path| Some((name_of(path), vec![words_of(path)?]))));
    }
    all
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

fn words_of(path: &Path) -> Option<String> {
    match path.extension()?.to_str()? {
        "source" => Some(format!("@{}", path.display())),
        "trx" => Some(path.display().to_string()),
        "bin" if name_of(path).starts_with("qnx") => Some(path.display().to_string()),
        _ => None,
    }
}

/// What is planted in a capture.
fn planted(name: &str) -> Vec<String> {
    let tables = [
        ("failure-", "tests/firmware/failures.tsv"),
        ("resource-", "tests/firmware/resources.tsv"),
        ("wait-", "tests/firmware/waits.tsv"),
        ("use-", "tests/firmware/uses.tsv"),
        ("fault-", "tests/firmware/faults.tsv"),
        ("stall-", "tests/firmware/stalls.tsv"),
    ];
    let of_table = tables.iter().find_map(|(prefix, table)| Some((name.strip_prefix(prefix)?, table)));
    if let Some((way, table)) = of_table {
        let way = ["other-", "riscv-"].iter().find_map(|build| way.strip_prefix(build)).unwrap_or(way);
        let way = way.split('.').next().unwrap();
        let text = std::fs::read_to_string(table).unwrap();
        let row = text.lines().find(|line| line.split('\t').next() == Some(way)).unwrap();
        let mut codes = vec![row.split('\t').nth(1).unwrap().to_owned()];
        // What these stacks and this heap damage faults in the end.
        codes.extend(matches!(way, "quiet_overflow" | "stacks_overlap" | "heap_shared").then(|| "fault".to_owned()));
        // A fault: without the registers of faults its kind is not known.
        codes.extend(
            matches!(
                way,
                "past_end"
                    | "node_lost"
                    | "head_lost"
                    | "index_pointer"
                    | "unknown_code"
                    | "zero_passed"
                    | "list_below"
                    | "page_local"
                    | "divisor_cleared"
            )
            .then(|| "fault".to_owned()),
        );
        // Without the code only that is known.
        codes.extend((way == "not_released").then(|| "pool-empty".to_owned()));
        codes.extend((way == "both_flags").then(|| "lock-owner-gone".to_owned()));
        // The next search of a pool that was written over faults.
        let faults = matches!(way, "byte_fault" | "use_after_release");
        codes.extend(["bus-fault", "fault"].into_iter().filter(|_| faults).map(str::to_owned));
        codes.extend((way == "hold_and_wait").then(|| "pool-empty".to_owned()));
        codes.extend((way == "released_object").then(|| "fault".to_owned()));
        // Without its program's ELF it is not known which memory the program writes.
        codes.extend((way == "blocks_lost").then(|| "pool-empty".to_owned()));
        return codes;
    }
    let of = PLANTED.iter().filter(|(begins, _)| name.starts_with(begins));
    of.flat_map(|(_, codes)| codes.iter().map(|code| (*code).to_owned())).collect()
}

/// The rows of the answer for each source. One thread for all takes longer than all other tests of this program.
fn answers() -> Vec<(String, Vec<Value>)> {
    let sources = sources();
    let next = AtomicUsize::new(0);
    let some = || {
        let one = || sources.get(next.fetch_add(1, Ordering::Relaxed));
        let answer = |(name, words): &(String, Vec<String>)| {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            (name.clone(), rows_of_fixtures(&words))
        };
        std::iter::from_fn(one).map(answer).collect::<Vec<_>>()
    };
    std::thread::scope(|scope| {
        let all = [(); 4].map(|()| scope.spawn(some));
        all.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

#[derive(Default)]
struct Counts {
    sure: usize,
    wrong: usize,
    hints: usize,
    wrong_hints: usize,
}

#[test]
fn the_rates_of_false_claims_are_in_the_documentation() {
    let mut counts: BTreeMap<String, Counts> = BTreeMap::new();
    let (mut read, mut wrong) = (0, Vec::new());
    for (name, rows) in answers() {
        read += usize::from(rows.iter().any(|row| row["type"] == "end"));
        let planted = planted(&name);
        for finding in rows.iter().filter(|row| row["type"] == "finding") {
            let code = finding["code"].as_str().unwrap();
            // An interrupt that keeps all back is one or the other, where its code is not known, and the claim says so.
            let is_either = code == "isr-storm" && finding["claim"].as_str().unwrap().contains("or does not end");
            let is_wrong = !planted.iter().any(|planted| planted == code || is_either && planted == "isr-never-ends");
            let count = counts.entry(code.to_owned()).or_default();
            if finding["confidence"] == "hint" {
                count.hints += 1;
                count.wrong_hints += usize::from(is_wrong);
            } else {
                count.sure += 1;
                count.wrong += usize::from(is_wrong);
                wrong.extend(is_wrong.then(|| format!("{name}: {}: {}", finding["code"], finding["claim"])));
            }
        }
    }
    wrong.sort();
    assert!(wrong.is_empty(), "false claims above a hint:\n{}", wrong.join("\n"));
    if real_traces().is_none() {
        return;
    }
    let mut table = format!(
        "Over {read} sources:\n\n| code | claimed above a hint | of these false | hints | of these not planted |\n|---|--:|--:|--:|--:|\n"
    );
    for (code, Counts { sure, wrong, hints, wrong_hints }) in &counts {
        writeln!(table, "| `{code}` | {sure} | {wrong} | {hints} | {wrong_hints} |").unwrap();
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/explain.md");
    let text = std::fs::read_to_string(&page).unwrap();
    let (head, rest) = text.split_once("<!-- rates -->\n").unwrap();
    let (_, tail) = rest.split_once("<!-- end -->").unwrap();
    let new = format!("{head}<!-- rates -->\n{table}<!-- end -->{tail}");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&page, &new).unwrap();
    }
    assert!(std::fs::read_to_string(&page).unwrap() == new, "UPDATE_GOLDEN=1 writes docs/explain.md");
}
