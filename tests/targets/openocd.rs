//! The real OpenOCD on a simulated Cortex-M3: what the commands show, and what they leave of the target, which is asked
//! itself. Skipped, loudly, where OpenOCD is not installed.
#![cfg(all(unix, feature = "cli"))]

mod bridge;
mod control;
mod follow;
mod registers;
pub mod threads;
mod unreadable;

use crate::support::cortex_m;
use crate::support::machine;
use crate::support::tools;

use std::process::Output;

use crate::support::cortex_m::{CortexM, Setup, State, Write};
use crate::support::machine::{installed, symbol, text, tx_trace, wait_for};
use crate::support::servers::{Config, OpenOcd};

fn run(chip: &CortexM, remote: &str, words: &[&str]) -> Output {
    let elf = chip.elf().display().to_string();
    let output = tx_trace(&[words, &["--elf", &elf, "--remote", remote, "--timeout", "20"]].concat());
    assert!(output.stderr.len() < 10_000, "{}", String::from_utf8_lossy(&output.stderr));
    output
}

/// The events that JSON shows.
fn events(json: &[u8]) -> Vec<serde_json::Value> {
    let lines = text(json);
    let lines = lines.lines().map(|l| serde_json::from_str::<serde_json::Value>(l).unwrap());
    lines.filter(|line| line["type"] == "event").collect()
}

/// The numbers of the firmware's events among them.
fn numbers(json: &[u8]) -> Vec<u32> {
    events(json)
        .iter()
        .map(|e| {
            let at = if e["id"] == 4096 { 0 } else { 3 };
            u32::from_str_radix(e["words"][at].as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
        })
        .collect()
}

fn start(setup: Setup) -> Option<(CortexM, OpenOcd)> {
    if !installed("openocd") {
        return None;
    }
    let chip = CortexM::start(setup);
    let openocd = OpenOcd::start(&chip, Config::default());
    Some((chip, openocd))
}

#[test]
fn the_gdb_port_gives_the_newest_events() {
    let Some((chip, openocd)) = start(Setup { rate: 2000, ring: Some(256), ..Setup::default() }) else { return };
    wait_for("a full ring", || chip.stats().events > 300);
    assert_eq!((chip.state(), chip.stats().halts), (State::Running, 0), "OpenOCD halts nothing by itself");
    let output = run(&chip, &openocd.gdb(), &["last", "20", "--leave", "running", "--format", "json"]);
    assert_eq!(output.status.code(), Some(0), "{}{}", text(&output.stderr), openocd.log());
    let shown = numbers(&output.stdout);
    assert!(shown.len() == 20 && shown.windows(2).all(|w| w[1] == w[0] + 1), "{shown:?}");
    let stats = chip.stats();
    assert_eq!((chip.state(), stats.halts, stats.resets, stats.writes), (State::Running, 1, 0, vec![]));
    let events = stats.events;
    wait_for("more events", || chip.stats().events > events);
}

#[test]
fn the_tcl_port_gives_the_newest_events_without_a_halt() {
    let Some((chip, openocd)) = start(Setup { ring: Some(256), ..Setup::default() }) else { return };
    chip.burst(300);
    wait_for("a full ring", || chip.stats().events == 300);
    let output = run(&chip, &openocd.openocd(), &["last", "20", "--format", "json"]);
    assert_eq!(output.status.code(), Some(0), "{}{}", text(&output.stderr), openocd.log());
    assert_eq!(numbers(&output.stdout), Vec::from_iter(280..300));
    let stats = chip.stats();
    assert_eq!((chip.state(), stats.halts, stats.resets, stats.writes), (State::Running, 0, 0, vec![]));
}

#[test]
fn the_tcl_port_tells_a_big_endian_target() {
    require!(installed("openocd"));
    let chip = CortexM::start(Setup { ring: Some(256), big_endian: true, ..Setup::default() });
    // OpenOCD's Cortex-M target is always little-endian; a bare memory access port is not.
    let after = "target create memory mem_ap -dap cm.dap -ap-num 0 -endian big -gdb-port disabled; targets memory";
    let openocd = OpenOcd::start(&chip, Config { after, ..Config::default() });
    chip.burst(300);
    wait_for("a full ring", || chip.stats().events == 300);
    let header = format!("_tx_trace_header_ptr={:#x}", symbol(chip.elf(), "_tx_trace_header_ptr"));
    let output = tx_trace(&["last", "20", "--format", "json", "--symbol", &header, "--remote", &openocd.openocd()]);
    assert_eq!(output.status.code(), Some(0), "{}{}", text(&output.stderr), openocd.log());
    assert!(text(&output.stdout).contains("\"byte_order\":\"big\""), "{}", text(&output.stdout));
    assert_eq!(numbers(&output.stdout), Vec::from_iter(280..300));
}

#[test]
fn the_tcl_port_refuses_what_is_not_there() {
    let Some((chip, openocd)) = start(Setup::default()) else { return };
    let output = run(&chip, &openocd.openocd(), &["last", "--header", "0x60000000"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    // Nothing is halted through it: there is nothing to leave.
    let output = run(&chip, &openocd.openocd(), &["last", "--leave", "halted"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert_eq!((chip.state(), chip.stats().halts), (State::Running, 0));
}
