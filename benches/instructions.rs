//! Instructions of three fixed runs, counted by valgrind's callgrind: the same on a noisy machine as on a quiet one, so
//! that a regression shows.
//!
//!     cargo bench --bench instructions

#![allow(missing_docs, clippy::restriction, reason = "a benchmark")]

mod support;

use std::process::Command;

use support::{fixture, installed, kept, table};

fn count(words: &[&str]) -> u64 {
    let out = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", env!("CARGO_BIN_EXE_tx-trace")])
        .args(words)
        .env_remove("TX_TRACE_ELF")
        .env_remove("TX_TRACE_REMOTE")
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8_lossy(&out.stderr).into_owned();
    let line = text.lines().find_map(|l| l.split_once("Collected : ")).expect("callgrind's sum").1;
    line.trim().parse().unwrap()
}

fn main() {
    if !installed("valgrind") {
        return;
    }
    let path = kept().join("instructions.trx");
    support::events::make(&path, 100_000);
    let file = path.display().to_string();
    let (elf, core) = (fixture("cm3.elf"), fixture("cm3.core"));
    let mut rows = Vec::new();
    for (what, words) in [
        ("`last 50 --elf cm3.elf --core cm3.core`", &["last", "50", "--elf", &elf, "--core", &core][..]),
        ("`list` of 100000 events", &["list", "--trace", &file]),
        ("`report` of 100000 events", &["report", "--trace", &file]),
    ] {
        rows.push(vec![what.to_owned(), format!("{:.1} million", count(words) as f64 / 1e6)]);
    }
    table(&["", "instructions"], &rows);
    std::fs::remove_file(&path).unwrap();
}
