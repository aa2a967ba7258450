//! A healthy target is halted at random moments: `explain` claims nothing above a hint.
#![cfg(all(unix, feature = "cli"))]

use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::support::children::quiet;
use super::support::dice::Dice;
use super::support::machine::{fixture, free_port, installed, tx_trace, wait_for};

/// How often each is halted; `HALTS=200` for a longer run.
fn halts() -> usize {
    std::env::var("HALTS").ok().and_then(|n| n.parse().ok()).unwrap_or(25)
}

/// The findings of a target that is halted for them, and runs on.
fn explain(elf: &str, remote: &str) -> Vec<Value> {
    let out = tx_trace(&["explain", "--format", "json", "--elf", elf, "--remote", remote, "--leave", "running"]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let rows = String::from_utf8(out.stdout).unwrap();
    let rows = rows.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    rows.filter(|row| row["type"] == "finding").collect()
}

/// Halts the program in one of its healthy ways.
fn halt_at_random(elf: &str, way: u32) {
    let port = free_port();
    let mut command = Command::new("qemu-system-arm");
    command.args(["-M", "mps2-an385", "-display", "none", "-monitor", "none", "-serial", "none"]);
    let word = format!("loader,addr=0x20010000,data={way},data-len=4");
    command.args(["-device", &word, "-gdb", &format!("tcp:127.0.0.1:{port}")]);
    let _qemu = quiet(command.arg("-kernel").arg(fixture(elf)));
    let remote = format!("127.0.0.1:{port}");
    wait_for("QEMU", || std::net::TcpStream::connect(&remote).is_ok());
    let elf = fixture(elf).display().to_string();
    wait_for("its threads", || {
        tx_trace(&["threads", "--elf", &elf, "--remote", &remote, "--leave", "running"]).status.success()
    });
    let mut dice = Dice::of(17);
    let mut hints = 0usize;
    for halt in 0..halts() {
        std::thread::sleep(Duration::from_micros(dice.next() % 30_000));
        let findings = explain(&elf, &remote);
        for finding in &findings {
            assert_eq!(finding["confidence"], "hint", "way {way}, halt {halt}: {finding}");
            println!("way {way}, halt {halt}: {}: {}", finding["code"], finding["claim"]);
        }
        hints = hints.saturating_add(usize::from(!findings.is_empty()));
    }
    println!("{} halts of way {way}, {hints} with hints", halts());
}

#[test]
fn nothing_is_claimed_where_a_healthy_target_is_halted() {
    if installed("qemu-system-arm") {
        for elf in ["failure.elf", "failure-other.elf"] {
            halt_at_random(elf, 0);
        }
    }
}

#[test]
fn nothing_is_claimed_where_a_loaded_target_is_halted() {
    if installed("qemu-system-arm") {
        for elf in ["failure.elf", "failure-other.elf"] {
            halt_at_random(elf, 1);
        }
    }
}
