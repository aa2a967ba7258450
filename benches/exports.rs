//! A million events through each format of `export`, and four million: time, peak memory, bytes an event.
//!
//!     cargo bench --bench exports
//!
//! Goals: a page of a million events in at most 7 MB; at most 32 MiB beside the file, of the longer trace too.

#![allow(missing_docs, clippy::restriction, reason = "a benchmark")]

mod support;

use std::path::{Path, PathBuf};

use support::{Run, goal, kept, least, mib, run_to_null, table, tx_trace};

const MILLION: usize = 1_000_000;
/// How many times more the second trace has.
const MORE: usize = 4;
const RUNS: usize = 3;
/// Memory beside the map of the file.
const MEMORY: u64 = 32 << 20;
/// Bytes of a page of a million events.
const PAGE: u64 = 7_000_000;

/// One export of a trace: what it took, and the size of its file.
fn export(trace: &Path, to: &str) -> (Run, u64) {
    let out: PathBuf = kept().join("export.out");
    let (trace, file) = (trace.display().to_string(), out.display().to_string());
    let words = ["export", "--to", to, "-o", &file, "--trace", &trace];
    let run = least(RUNS, || run_to_null(&mut tx_trace(&words)));
    assert!(run.success, "{words:?}");
    let size = std::fs::metadata(&out).unwrap().len();
    std::fs::remove_file(out).unwrap();
    (run, size)
}

fn main() {
    let [short, long] = [MILLION, MORE * MILLION].map(|events| {
        let path = kept().join(format!("export-{events}.trx"));
        support::events::make_varied(&path, events);
        path
    });
    let size = |path: &Path| std::fs::metadata(path).unwrap().len();
    let events = size(&short) / support::events::ENTRY as u64;
    println!(
        "{events} events, and {MORE} times as many. The least of {RUNS} runs; memory is beside the map of the file.\n"
    );
    let mut rows = Vec::new();
    let (mut most, mut page) = (0, 0);
    for to in ["perfetto", "chrome", "html", "trx"] {
        let (run, written) = export(&short, to);
        let (longer, _) = export(&long, to);
        let beside = run.peak.saturating_sub(size(&short));
        let later = longer.peak.saturating_sub(size(&long));
        most = most.max(beside).max(later);
        if to == "html" {
            page = written;
        }
        rows.push(vec![
            format!("`{to}`"),
            format!("{:.2} s", run.wall.as_secs_f64()),
            format!("{:.2} s", run.cpu.as_secs_f64()),
            format!("{:.1}", written as f64 / events as f64),
            mib(beside),
            format!("{:.2} s", longer.wall.as_secs_f64()),
            mib(later),
        ]);
    }
    let head = [
        "",
        "wall",
        "processor",
        "bytes an event",
        "peak",
        &format!("wall, {MORE} times"),
        &format!("peak, {MORE} times"),
    ];
    table(&head, &rows);
    goal("a page of a million events in at most 7 MB", page <= PAGE, &format!("{:.1} MB", page as f64 / 1e6));
    goal("at most 32 MiB beside the file, also of the longer trace", most <= MEMORY, &mib(most));
    for path in [short, long] {
        std::fs::remove_file(path).unwrap();
    }
}
