//! From the start of the program to its end where there is little to do, and what the program weighs.
//!
//!     cargo bench --bench start
//!
//! Goals: `--version` and `last` on a small file under 5 ms; the binary under 5 MiB; a cold build in under 2 minutes on
//! two cores. The build is measured where `TX_TRACE_BENCH_BUILD` is set.

#![allow(missing_docs, clippy::restriction, reason = "a benchmark")]

mod support;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use support::{fixture, goal, kept, least, mib, run, table, time, tx_trace};

const RUNS: usize = 50;

fn main() {
    let (trace, elf, core) = (fixture("cm3.trx"), fixture("cm3.elf"), fixture("cm3.core"));
    let mut rows = Vec::new();
    let mut slowest = Duration::ZERO;
    for words in [&["--version"][..], &["last", "--trace", &trace], &["last", "--elf", &elf, "--core", &core]] {
        let r = least(RUNS, || run(&mut tx_trace(words)));
        assert!(r.success);
        slowest = slowest.max(r.wall);
        let what: Vec<&str> = words.iter().map(|w| w.rsplit('/').next().unwrap_or(w)).collect();
        rows.push(vec![format!("`{}`", what.join(" ")), time(r.wall), time(r.cpu), mib(r.peak)]);
    }
    let r = least(RUNS, || run(&mut Command::new("true")));
    rows.push(vec!["`true`".to_owned(), time(r.wall), time(r.cpu), mib(r.peak)]);
    println!("The least of {RUNS} runs.\n");
    table(&["", "wall", "processor", "peak"], &rows);
    goal("under 5 ms", slowest < Duration::from_millis(5), &time(slowest));
    let size = std::fs::metadata(env!("CARGO_BIN_EXE_tx-trace")).unwrap().len();
    goal("release binary under 5 MiB", size < 5 << 20, &mib(size));
    if std::env::var_os("TX_TRACE_BENCH_BUILD").is_some() {
        let cold = kept().join("cold");
        let _ = std::fs::remove_dir_all(&cold);
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
        cargo.args(["build", "--release", "--locked", "--target-dir"]).arg(&cold).stderr(Stdio::null());
        let began = Instant::now();
        let built = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status().unwrap();
        let took = began.elapsed();
        assert!(built.success());
        let _ = std::fs::remove_dir_all(&cold);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let what = format!("cold `cargo build --release` in under 2 minutes, here on {cores} cores");
        goal(&what, took < Duration::from_secs(120), &time(took));
    }
}
