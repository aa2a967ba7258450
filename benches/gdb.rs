//! `(gdb) tx-trace last 50` beside the binary alone: both on the fixture's core, and GDB's own start taken off.
//!
//!     cargo bench --bench gdb
//!
//! Goal: at most 50 ms more than the binary alone.

#![allow(missing_docs, clippy::restriction, reason = "a benchmark")]

mod support;

use std::process::Command;
use std::time::Duration;

use support::{fixture, goal, installed, kept, least, run, table, time, tx_trace};

const RUNS: usize = 15;

fn main() {
    if !installed("gdb-multiarch") {
        return;
    }
    let (elf, core) = (fixture("cm3.elf"), fixture("cm3.core"));
    let script = kept().join("tx_trace.py");
    std::fs::write(&script, tx_trace(&["gdb"]).output().unwrap().stdout).unwrap();
    let source = format!("source {}", script.display());
    let gdb = |more: &[&str]| {
        let mut command = Command::new("gdb-multiarch");
        command.args(["-nx", "-batch", "-ex", &source]).args(more.iter().flat_map(|m| ["-ex", m])).args([&elf, &core]);
        command.env("TX_TRACE_BIN", env!("CARGO_BIN_EXE_tx-trace"));
        command
    };
    let alone = least(RUNS, || run(&mut tx_trace(&["last", "50", "--elf", &elf, "--core", &core])));
    let bare = least(RUNS, || run(&mut gdb(&[])));
    let once = least(RUNS, || run(&mut gdb(&["tx-trace last 50"])));
    assert!(once.success && once.printed >= bare.printed + alone.printed, "the events");
    let first = once.wall.saturating_sub(bare.wall);
    let more = first.saturating_sub(alone.wall);
    println!("The least of {RUNS} runs; GDB without the command takes {}.\n", time(bare.wall));
    let row = |what: &str, t: Duration| vec![what.to_owned(), time(t)];
    table(
        &["", "wall"],
        &[row("the binary alone, `last 50` on a core", alone.wall), row("`(gdb) tx-trace last 50`", first)],
    );
    goal("at most 50 ms more than the binary alone", more < Duration::from_millis(50), &time(more));
}
