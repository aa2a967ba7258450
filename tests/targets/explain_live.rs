//! What `explain` finds is the same over every way in, and pictures of a live target have it.
#![cfg(all(unix, feature = "cli", feature = "serve"))]

use std::process::Command;

use super::serve::image::Image;
use super::support::children::quiet;
use super::support::machine::{fixture, free_port, installed, tx_trace, wait_for};

/// What a command prints on stdout, and on stderr.
fn run(words: &[&str]) -> (String, String) {
    let out = tx_trace(words);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let (said, err) = (text(out.stdout), text(out.stderr));
    assert!(out.status.success(), "{words:?}: {err}");
    (said, err)
}

/// From a file the headline ended with "(an address at which a chip has no memory)", over `--remote` without these words.
#[test]
fn one_fault_had_two_headlines() {
    let (elf, core) = (fixture("cm3.elf").display().to_string(), fixture("cm3.core").display().to_string());
    let image = Image::serve(&["cm3.elf", "cm3.core"]);
    let remote = format!(":{}", image.port);
    let (from_file, _) = run(&["explain", &elf, &core]);
    let (live, _) = run(&["explain", "--elf", &elf, "--remote", &remote]);
    let headline = from_file.lines().next().unwrap();
    assert!(headline.contains("0xe0200000 (an address at which a chip has no memory)"), "{headline}");
    assert_eq!(live.lines().next(), Some(headline));
}

/// A picture of a live target had no findings of `explain`, and did not say so.
#[test]
fn a_picture_of_a_live_target_had_no_findings() {
    let (elf, core) = (fixture("cm3.elf").display().to_string(), fixture("cm3.core").display().to_string());
    let image = Image::serve(&["cm3.elf", "cm3.core"]);
    let remote = format!(":{}", image.port);
    let (of_file, _) = run(&["timeline", &elf, &core]);
    let (live, said) = run(&["timeline", "--elf", &elf, "--remote", &remote]);
    assert!(of_file.contains("1 bus-fault: HardFault in record_write"), "{of_file}");
    assert_eq!(live, of_file);
    assert!(!said.contains("is not marked"), "{said}");
    let (chrome, _) = run(&["export", "--to", "chrome", "-o", "-", "--elf", &elf, "--remote", &remote]);
    assert!(chrome.contains("bus-fault: HardFault in record_write"), "{chrome}");
}

/// A target that ran is not halted for longer, and that is said.
#[test]
fn a_picture_of_a_target_that_ran_has_no_findings_and_says_so() {
    require!(installed("qemu-system-arm"));
    let port = free_port();
    let mut command = Command::new("qemu-system-arm");
    command.args(["-M", "mps2-an385", "-display", "none", "-monitor", "none", "-serial", "none"]);
    command.args(["-device", "loader,addr=0x20010000,data=0,data-len=4", "-gdb", &format!("tcp:127.0.0.1:{port}")]);
    let _qemu = quiet(command.arg("-kernel").arg(fixture("failure.elf")));
    let remote = format!("127.0.0.1:{port}");
    wait_for("QEMU", || std::net::TcpStream::connect(&remote).is_ok());
    let elf = fixture("failure.elf").display().to_string();
    wait_for("its trace", || {
        tx_trace(&["last", "--elf", &elf, "--remote", &remote, "--leave", "running"]).status.success()
    });
    let (_, said) = run(&["timeline", "--elf", &elf, "--remote", &remote]);
    assert!(said.contains("what `explain` finds is not marked: the target ran"), "{said}");
}
