//! Real faults of processors that are no Cortex-M, in QEMU, without any kernel (`tests/firmware/bare_*.c`): `explain` says what
//! failed by the fault registers of the architecture.
#![cfg(all(unix, feature = "cli"))]

use std::process::Command;

use serde_json::Value;

use super::support::children::quiet;
use super::support::machine::{fixture, free_port, installed, tx_trace, wait_for};

/// The first finding of a program that faults at once.
fn first(qemu: &str, options: &[&str], elf: &str) -> Option<Value> {
    if !installed(qemu) {
        return None;
    }
    let port = free_port();
    let mut command = Command::new(qemu);
    command
        .args(["-M", "virt", "-nic", "none", "-display", "none", "-monitor", "none", "-serial", "none"])
        .args(options);
    let _qemu = quiet(command.args(["-gdb", &format!("tcp:127.0.0.1:{port}")]).arg("-kernel").arg(fixture(elf)));
    let remote = format!("127.0.0.1:{port}");
    wait_for("QEMU", || std::net::TcpStream::connect(&remote).is_ok());
    let elf = fixture(elf).display().to_string();
    let words = ["explain", "--format", "json", "--elf", &elf, "--remote", &remote, "--leave", "running"];
    let mut found = None;
    wait_for("the fault", || {
        let text = String::from_utf8(tx_trace(&words).stdout).unwrap();
        let rows = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        found = rows.into_iter().find(|row| row["type"] == "finding");
        found.is_some()
    });
    found
}

#[test]
fn a_store_access_fault_of_a_riscv_names_function_and_address() {
    let Some(first) = first("qemu-system-riscv32", &["-bios", "none"], "bare-riscv.elf") else { return };
    assert_eq!(first["code"], "bus-fault", "{first}");
    let claim = first["claim"].as_str().unwrap();
    assert!(claim.contains("store_far (bare_riscv.c:") && claim.contains("0xf0000000"), "{first}");
}

#[test]
fn a_data_abort_of_an_arm_names_the_address() {
    let Some(first) = first("qemu-system-arm", &["-cpu", "cortex-a15"], "bare-arm.elf") else { return };
    assert_eq!((&first["code"], &first["confidence"]), (&"bus-fault".into(), &"proven".into()), "{first}");
    assert!(first["claim"].as_str().unwrap().contains("0xf0000000"), "{first}");
}
