//! Ten million events through every report in one process, beside a plain read of the same file from a warm cache; and
//! through `list`.
//!
//!     cargo bench --bench events
//!
//! Goals: every report in at most 8 times the reading, with at most 64 MiB beside the map of the file, on one core; `list`
//! at 5 million lines a second, as JSON at 1 million.

#![allow(missing_docs, clippy::restriction, reason = "a benchmark")]

mod support;

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use support::{Run, goal, kept, least, mib, run_to_null, table, time, tx_trace};

const EVENTS: usize = 10_000_000;
const RUNS: usize = 3;

fn read_loop(path: &Path) -> Duration {
    let began = Instant::now();
    let mut file = File::open(path).unwrap();
    let mut buffer = vec![0; 1 << 20];
    while file.read(&mut buffer).unwrap() > 0 {
        std::hint::black_box(&buffer);
    }
    began.elapsed()
}

fn seconds(time: Duration) -> String {
    format!("{:.3} s", time.as_secs_f64())
}

/// The same on one core, where `taskset` is installed.
fn on_one_core(words: &[&str]) -> Command {
    if !support::installed("taskset") {
        return tx_trace(words);
    }
    let mut command = Command::new("taskset");
    command.args(["-c", "0", env!("CARGO_BIN_EXE_tx-trace")]).args(words);
    command
}

fn main() {
    let path = kept().join("events.trx");
    support::events::make(&path, EVENTS);
    let size = std::fs::metadata(&path).unwrap().len();
    let events = size / support::events::ENTRY as u64;
    read_loop(&path);
    let reading = (0..5).map(|_| read_loop(&path)).min().unwrap();
    println!(
        "{events} events, {}; read in steps of 1 MiB: {}. The least of {RUNS} runs; output to /dev/null.\n",
        mib(size),
        time(reading)
    );
    let file = path.display().to_string();
    let mut rows = Vec::new();
    let mut one = |words: &[&str], pinned: bool| -> Run {
        let all = [words, &["--trace", &file]].concat();
        let r = least(RUNS, || run_to_null(&mut if pinned { on_one_core(&all) } else { tx_trace(&all) }));
        assert!(r.success, "{words:?}");
        let times = r.wall.as_secs_f64() / reading.as_secs_f64();
        rows.push(vec![
            format!("`{}`{}", words.join(" "), if pinned { ", one core" } else { "" }),
            seconds(r.wall),
            seconds(r.cpu),
            format!("{:.0} ns", r.cpu.as_secs_f64() * 1e9 / events as f64),
            format!("{times:.1}"),
            mib(r.peak.saturating_sub(size)),
        ]);
        r
    };
    one(&["profile"], true);
    let report = one(&["report"], true);
    one(&["report", "--tracex"], true);
    let list = one(&["list", "--width", "80"], false);
    let json = one(&["list", "--format", "json"], false);
    one(&["list", "--format", "csv"], false);
    one(&["last", "50"], false);
    table(&["", "wall", "processor", "processor for an event", "times the reading", "peak beside the file"], &rows);
    let times = report.wall.as_secs_f64() / reading.as_secs_f64();
    goal("every report in at most 8 times the reading", times <= 8.0, &format!("{times:.1}"));
    let beside = report.peak.saturating_sub(size);
    goal("at most 64 MiB beside the file", beside <= 64 << 20, &mib(beside));
    for (what, r, least) in [("`list`", list, 5.0), ("`list --format json`", json, 1.0)] {
        let rate = events as f64 / r.wall.as_secs_f64() / 1e6;
        goal(&format!("{what} at {least} million lines a second"), rate >= least, &format!("{rate:.1} million"));
    }
    std::fs::remove_file(&path).unwrap();
}
