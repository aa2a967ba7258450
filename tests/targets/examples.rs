//! The scripted sessions of `scripts/examples`, each run unchanged, on the firmware in QEMU: what they print,
//! what they leave and how they end. Skipped, loudly, where a tool is not installed.
#![cfg(all(unix, feature = "cli"))]

use crate::support::tools;

use std::path::Path;
use std::process::Command;

use crate::support::tools::{
    Done, Scratch, Server, binary, connect, fixture, gdb, installed, qemu, run, script, shell,
};

/// The path of an example.
fn example(name: &str) -> String {
    format!("{}/scripts/examples/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// What is in a scratch directory, sorted.
fn files(scratch: &Scratch) -> Vec<String> {
    let names = std::fs::read_dir(&scratch.0).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

fn text(scratch: &Scratch, name: &str) -> String {
    std::fs::read_to_string(scratch.path(name)).unwrap()
}

/// A machine that stands where these commands of GDB have led it, and stays there.
fn machine_at(elf: &str, commands: &[&str]) -> (Server, u16) {
    let (server, port) = qemu(elf);
    let mut command = gdb("gdb-multiarch");
    command.args(["-batch", "-ex", "set tcp connect-timeout 20", "-ex", &connect(port)]);
    for c in commands.iter().chain(&["delete", "disconnect"]) {
        command.args(["-ex", c]);
    }
    let done = run(command.arg(elf));
    assert_eq!(done.status, Some(0), "{}\n{}", done.out, done.err);
    (server, port)
}

/// Early in the run: everybody has done its work, nobody was late.
const WELL: [&str; 2] = ["hbreak frame_checksum if number == 6", "continue"];
const DEAD: [&str; 2] = ["hbreak fault_spin", "continue"];

/// What is set in the environment of the CI step.
type Changed<'a> = &'a [(&'a str, &'a str)];

/// Runs the CI step into the scratch directory.
fn ci_step(scratch: &Scratch, changed: Changed<'_>, words: &[&str]) -> Done {
    let mut command = Command::new(example("ci-step.sh"));
    command.env_remove("TX_TRACE_REMOTE").env_remove("TX_TRACE_ELF").env_remove("NEVER_EVENT").env_remove("MOST_STACK");
    command.env("TX_TRACE_BIN", binary()).envs(changed.iter().copied());
    run(command.arg(&scratch.0).args(words))
}

/// Runs a GDB script on a machine that was just reset, in the scratch directory.
fn gdb_script(scratch: &Scratch, name: &str, elf: &str, commands: &[&str]) -> Done {
    let (_qemu, port) = qemu(elf);
    let mut command = gdb("gdb-multiarch");
    command.current_dir(&scratch.0).args(["-batch", "-ex", "set tcp connect-timeout 20"]);
    command.args(["-ex", &format!("source {}", script()), "-ex", &connect(port)]);
    for c in commands {
        command.args(["-ex", c]);
    }
    run(command.args(["-x", &example(name), elf]))
}

/// The newest event in a core that was left.
fn newest(elf: &str, core: &str) -> String {
    let done = shell(&["list", "--format", "csv", "--elf", elf, "--core", core]);
    assert_eq!(done.status, Some(0), "{}", done.err);
    done.out.lines().last().unwrap().to_owned()
}

#[test]
fn a_ci_step_passes_on_a_good_run() {
    require!(installed(&["bash", "jq", "qemu-system-arm", "gdb-multiarch"]));
    let (scratch, elf) = (Scratch::new(), fixture("cm3.elf"));
    let (_qemu, port) = machine_at(&elf, &WELL);
    // Of an earlier run that failed.
    std::fs::write(scratch.path("report.txt"), "old").unwrap();
    let done = ci_step(&scratch, &[], &[&elf, "--remote", &format!("127.0.0.1:{port}")]);
    assert_eq!(done.status, Some(0), "{}\n{}", done.out, done.err);
    let said: Vec<_> = done.out.lines().collect();
    assert_eq!(
        said,
        ["ok    no event APP_LATE", "ok    nothing was lost", "ok    no thread has used more than 90 % of its stack"]
    );
    assert_eq!(files(&scratch), ["evidence.core"]);
}

#[test]
fn a_ci_step_fails_on_a_crash_and_shows_it() {
    require!(installed(&["bash", "jq", "qemu-system-arm", "gdb-multiarch"]));
    let (scratch, elf) = (Scratch::new(), fixture("cm3.elf"));
    let (_qemu, port) = machine_at(&elf, &DEAD);
    let done = ci_step(&scratch, &[], &[&elf, "--remote", &format!("127.0.0.1:{port}")]);
    assert_eq!(done.status, Some(1), "{}\n{}", done.out, done.err);
    let begin =
        "FAIL  no event APP_LATE\n      seq 185, by watchdog\n      seq 253, by watchdog\nok    nothing was lost\nok";
    assert!(done.out.starts_with(begin), "{}", done.out);
    assert_eq!(files(&scratch), ["evidence.core", "last.txt", "report.txt"]);
    let (report, last) = (text(&scratch, "report.txt"), text(&scratch, "last.txt"));
    assert!(done.out.contains(&report) && report.contains("inversions"), "{report}");
    assert!(done.out.contains(&last) && last.contains("APP_FAULT"), "{last}");
    // A head, 50 events, and who runs.
    assert_eq!(last.lines().count(), 52, "{last}");
    assert!(done.out.contains("ci-step: failed; the evidence is "), "{}", done.out);
}

#[test]
fn each_condition_of_the_ci_step_can_fail() {
    require!(installed(&["bash", "jq"]));
    let scratch = Scratch::new();
    let (elf, core) = (fixture("cm3.elf"), fixture("cm3.core"));
    let changed = [("NEVER_EVENT", "APP_BOOT_STEP"), ("MOST_STACK", "33")];
    let done = ci_step(&scratch, &changed, &[&elf, &core]);
    assert_eq!(done.status, Some(1), "{}\n{}", done.out, done.err);
    // Boot has long left the ring; 253 bytes are 33 % of a stack.
    let begin = "ok    no event APP_BOOT_STEP\nok    nothing was lost\n\
                 FAIL  no thread has used more than 33 % of its stack\n      control: 260 of 768 bytes\n\n";
    assert!(done.out.starts_with(begin), "{}", done.out);

    // A slot that is no event any more.
    let mut ram = std::fs::read(fixture("cm3.ram.bin")).unwrap();
    let buffer = ram.windows(4).position(|w| w == b"BTXT").unwrap();
    ram[buffer + 48 + 24 * 48 + 32 * 100..][..32].fill(0xEE);
    let image = scratch.path("damaged.bin");
    std::fs::write(&image, ram).unwrap();
    let done = ci_step(&scratch, &[("NEVER_EVENT", "APP_BOOT_STEP")], &[&elf, &format!("{image}@0x20000000")]);
    assert_eq!(done.status, Some(1), "{}\n{}", done.out, done.err);
    assert!(done.out.contains("FAIL  nothing was lost\n      "), "{}", done.out);
}

#[test]
fn a_ci_step_that_cannot_look_does_not_pass() {
    require!(installed(&["bash", "jq"]));
    let (elf, core) = (fixture("cm3.elf"), fixture("cm3.core"));
    let (never, image) = (fixture("cm3-never.elf"), format!("{}@0x20000000", fixture("cm3-never.ram.bin")));
    let nobody = format!("127.0.0.1:{}", tools::free_port());
    let cases: [(Changed<'_>, &[&str], &str); 4] = [
        (&[("NEVER_EVENT", "APP_LTAE")], &[&elf, &core], "names no event APP_LTAE"),
        (&[], &[&never, &image], "ci-step: no events in "),
        (&[], &[&elf, "--remote", &nobody], "ci-step: no evidence of this target"),
        (&[], &[], "Status 0: every condition holds"),
    ];
    for (changed, words, sentence) in cases {
        let done = ci_step(&Scratch::new(), changed, words);
        assert_eq!(done.status, Some(2), "{words:?}: {}\n{}", done.out, done.err);
        assert!(done.err.contains(sentence) && done.out.is_empty(), "{words:?}: {}\n{}", done.out, done.err);
    }
}

#[test]
fn a_report_at_a_breakpoint() {
    require!(installed(&["qemu-system-arm", "gdb-multiarch"]));
    let (scratch, elf) = (Scratch::new(), fixture("cm3.elf"));
    let done = gdb_script(&scratch, "report-at-breakpoint.gdb", &elf, &[]);
    assert_eq!(done.status, Some(0), "{}\n{}", done.out, done.err);
    let (_, stopped) = done.out.split_once("report-at-breakpoint: stopped at\n").unwrap();
    assert!(stopped.starts_with("#0  watchdog_report (seen=262)"), "{stopped}");
    assert!(stopped.contains("APP_LATE") && !stopped.contains("APP_FAULT"), "{stopped}");
    assert_eq!(files(&scratch), ["report.core", "report.md"]);
    let report = text(&scratch, "report.md");
    assert!(report.contains("\n|---|") && report.contains("inversions"), "{report}");
    assert!(report.contains("| source | the memory of the debugger's target"), "{report}");
    assert!(newest(&elf, &scratch.path("report.core")).contains("APP_LATE"));
}

#[test]
fn a_report_that_cannot_be_had_shows_in_the_status() {
    require!(installed(&["qemu-system-arm", "gdb-multiarch"]));
    let scratch = Scratch::new();
    std::fs::write(scratch.path("report.md"), "old").unwrap();
    let done = gdb_script(&scratch, "report-at-breakpoint.gdb", &fixture("cm3-never.elf"), &[]);
    assert_eq!(done.status, Some(1), "{}\n{}", done.out, done.err);
    assert!(done.err.contains("the trace was not enabled"), "{}", done.err);
    assert_eq!(files(&scratch), ["report.core"]);

    let other = Scratch::new();
    let done = gdb_script(&other, "report-at-breakpoint.gdb", &fixture("cm3-stream.elf"), &[]);
    assert_eq!(done.status, Some(1), "{}\n{}", done.out, done.err);
    assert!(done.err.contains("\"watchdog_report\" not defined"), "{}", done.err);
    assert!(files(&other).is_empty());
}

#[test]
fn a_flight_recorder_keeps_every_crash() {
    require!(installed(&["qemu-system-arm", "gdb-multiarch"]));
    let (scratch, elf) = (Scratch::new(), fixture("cm3.elf"));
    // Of yesterday.
    std::fs::write(scratch.path("crash-002.core"), "old").unwrap();
    let done = gdb_script(&scratch, "flight-recorder.gdb", &elf, &["set $crash_limit = 2"]);
    assert_eq!(done.status, Some(0), "{}\n{}", done.out, done.err);
    let said: Vec<_> = done.out.lines().filter_map(|l| l.strip_prefix("flight-recorder: ")).collect();
    assert_eq!(said, ["crash-001.core", "crash-003.core", "that was the last one"], "{}", done.out);
    assert_eq!(files(&scratch), ["crash-001.core", "crash-002.core", "crash-003.core"]);
    assert_eq!(text(&scratch, "crash-002.core"), "old");
    assert_eq!(done.out.matches("APP_LATE").count(), 2, "{}", done.out);
    for name in ["crash-001.core", "crash-003.core"] {
        assert!(newest(&elf, &scratch.path(name)).contains("APP_LATE"), "{name}: before the handler has run");
        assert!(Path::new(&scratch.path(name)).metadata().unwrap().len() > 9408);
    }
}

#[test]
fn a_flight_recorder_that_cannot_record_ends() {
    require!(installed(&["qemu-system-arm", "gdb-multiarch"]));
    let scratch = Scratch::new();
    let wrong = "set tx-trace binary /nonexistent/tx-trace";
    let done = gdb_script(&scratch, "flight-recorder.gdb", &fixture("cm3.elf"), &[wrong]);
    assert_eq!(done.status, Some(1), "{}\n{}", done.out, done.err);
    assert!(done.err.contains("is not a program that can be run"), "{}", done.err);
    assert!(files(&scratch).is_empty());
}
