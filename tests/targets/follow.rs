//! `follow` on targets that run: QEMU over its machine protocol and by short halts, gdbserver in non-stop mode. What is
//! known of each event tells whether one is torn, doubled or lost. OpenOCD's part is in openocd/follow.rs.

#![cfg(all(unix, feature = "cli"))]

pub mod stream;

use std::io::{BufRead, BufReader, Lines, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::support::machine::{Running, Scratch, fixture, free_port, installed, tx_trace, wait_for};
use serde_json::Value;
use stream::{Stream, check, error, hex, stderr};

#[test]
fn every_event_of_a_machine_that_runs() {
    let Some(stream) = Stream::start(20_000) else { return };
    let output = stream.read(&["follow", "--until", "4097", "--for", "120s", "--format", "json", "--timeout", "20"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let reported = check(&output, true);
    assert_eq!(reported.gaps, [], "none is lost at a rate far below the ring's");
    assert_eq!(reported.places.last().unwrap() % 65, 64, "it ends with the event that was waited for");
    assert!(!reported.places.is_empty());
    // The same source serves the other commands.
    let last = stream.read(&["last", "3", "--format", "csv"]);
    assert_eq!(String::from_utf8(last.stdout).unwrap().lines().count(), 4);
}

#[test]
fn loss_is_reported_where_the_target_is_faster() {
    let Some(stream) = Stream::start(0) else { return };
    let output = stream.read(&["follow", "--for", "1s", "--format", "json", "--timeout", "20", "--strict"]);
    assert_eq!(output.status.code(), Some(2), "something was lost, and that is a failure by --strict");
    let reported = check(&output, true);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("\"events-lost\""), "{text}");
    assert!(reported.gaps.iter().all(|(_, at_least)| *at_least));
}

#[test]
fn an_event_that_does_not_come_in_time() {
    let Some(stream) = Stream::start(20_000) else { return };
    let output = stream.read(&["follow", "--until", "tx_queue_send", "--for", "300ms", "--timeout", "20"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    // What is shown is no more than what the filters keep.
    let output = stream.read(&["follow", "5", "--event", "tx_queue_send", "--for", "100ms", "--timeout", "20"]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), 1, "the head alone");
}

#[test]
fn a_reset_begins_anew() {
    let Some(stream) = Stream::start(5_000) else { return };
    // The first mark of this run has come: the next first one is of the run after the reset.
    wait_for("the first mark", || stream.read(&["last", "1", "--event", "4097"]).status.success());
    let elf = fixture("cm3-stream.elf");
    let mut child = Command::new(env!("CARGO_BIN_EXE_tx-trace"))
        .args(["follow", "--wait", "--until", "4097", "--for", "120s", "--format", "json", "--timeout", "20"])
        .args(["--arg", "i1=0", "--elf", elf.to_str().unwrap(), "--remote", &stream.qmp])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    assert!(first.contains("\"trace\""), "{first}");
    stream.say("system_reset");
    // Nothing but the first mark after a start ends it: n / 64 is 0 in that one alone.
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(rest.iter().any(|l| l.contains("\"trace-restarted\"")), "{rest:?}");
    let mark = rest.iter().rfind(|l| l.contains("\"type\":\"event\"")).unwrap();
    assert!(mark.contains("\"id\":4097"), "{mark}");
}

#[test]
fn by_short_halts_where_a_stub_needs_them() {
    let Some(stream) = Stream::start(20_000) else { return };
    let output = stream.debug(&["follow", "--for", "1s", "--timeout", "20"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--halt-every"), "{}", stderr(&output));
    let words =
        ["follow", "--halt-every", "100ms", "--until", "4097", "--for", "120s", "--format", "json", "--timeout", "20"];
    let output = stream.debug(&words);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(check(&output, true).gaps, []);
    assert!(stderr(&output).contains("the target was halted "), "{}", stderr(&output));
    // It ran when we came, and runs on.
    let count = || {
        let output = stream.read(&["last", "1", "--event", "4096", "--format", "json", "--timeout", "20"]);
        let text = String::from_utf8(output.stdout).unwrap();
        let event: Value = serde_json::from_str(text.lines().find(|l| l.contains("\"event\"")).unwrap()).unwrap();
        hex(event["words"][0].as_str().unwrap())
    };
    let before = count();
    wait_for("more events", || count() > before);
}

#[test]
fn a_process_under_gdbserver_in_non_stop_mode() {
    require!(installed("gdbserver") && cfg!(target_arch = "x86_64"));
    let scratch = Scratch::new(&format!("stream-host-{}", free_port()));
    let program = scratch.path("stream.elf");
    // Copied by another process: a program that another thread's child still holds open for writing cannot be run.
    assert!(Command::new("cp").arg(fixture("host-stream.elf")).arg(&program).status().unwrap().success());
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let quiet = |command: &mut Command| {
        Running(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    };
    // 0x03 is a signal to the process's group: without one of its own it would never come.
    let process = quiet(Command::new(&program).env("STREAM_PERIOD", "20000").process_group(0));
    let pid = process.0.id();
    let port = free_port();
    let remote = format!("127.0.0.1:{port}");
    let _server = quiet(Command::new("gdbserver").args(["--attach", &remote, &pid.to_string()]));
    let run = |words: &[&str]| {
        let elf = program.to_str().unwrap();
        tx_trace(&[words, &["--elf", elf, "--remote", &remote, "--timeout", "20"]].concat())
    };
    // gdbserver may not listen yet, or have stopped the process before it enabled its trace: seen on a busy machine, where
    // a first `last` failed for ever.
    let output = run(&["follow", "--wait", "--until", "4097", "--for", "120s", "--format", "json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let output = run(&["follow", "--until", "4097", "--for", "120s", "--format", "json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let reported = check(&output, true);
    assert_eq!(reported.gaps, []);
    let state = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        status.lines().find(|l| l.starts_with("State:")).unwrap().to_owned()
    };
    assert!(state().contains("tracing stop"), "it stood when we came, and stands again: {}", state());
    // By short halts as well, and left running.
    let output = run(&[
        "follow",
        "--halt-every",
        "50ms",
        "--until",
        "4097",
        "--for",
        "120s",
        "--format",
        "json",
        "--leave",
        "running",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(check(&output, true).gaps, []);
    wait_for("the process runs on", || !state().contains("tracing stop"));
}

/// Between two tries a program that stood at its start was left standing there, and never enabled its trace.
#[test]
fn a_process_that_stood_at_its_start_was_waited_for_in_vain() {
    require!(installed("gdbserver") && cfg!(target_arch = "x86_64"));
    let scratch = Scratch::new(&format!("stream-start-{}", free_port()));
    let program = scratch.path("stream.elf");
    assert!(Command::new("cp").arg(fixture("host-stream.elf")).arg(&program).status().unwrap().success());
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let remote = format!("127.0.0.1:{}", free_port());
    let mut server = Command::new("gdbserver");
    server.args(["--once", &remote]).arg(&program).env("STREAM_PERIOD", "20000").process_group(0);
    let _server = Running(server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let elf = program.to_str().unwrap();
    let line = ["follow", "--wait", "--until", "4097", "--for", "60s", "--elf", elf, "--remote", &remote];
    let output = tx_trace(&[&line[..], &["--timeout", "20"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

/// A `follow` that has shown its first event, and what it prints after that.
fn following(words: &[&str], elf: &Path, remote: &str) -> (Child, Lines<BufReader<ChildStdout>>) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tx-trace"))
        .args(["follow", "--format", "json", "--timeout", "20"])
        .args(words)
        .args(["--elf", elf.to_str().unwrap(), "--remote", remote])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    while !lines.next().unwrap().unwrap().contains("\"event\"") {}
    (child, lines)
}

/// `timeout` sends its signal to the child and to the group: the second one ended the program at once, and QEMU stood.
#[test]
fn two_signals_at_once_left_qemu_paused() {
    let Some(stream) = Stream::start(20_000) else { return };
    let (elf, remote) = (fixture("cm3-stream.elf"), format!("127.0.0.1:{}", stream.gdb));
    for _ in 0..5 {
        let (mut child, lines) = following(&["--halt-every", "1ms"], &elf, &remote);
        // As many as can come, until it has ended: also after the target was left, when they ended it with another code.
        let pid = libc::pid_t::try_from(child.id()).unwrap();
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(500) && child.try_wait().unwrap().is_none() {
            // SAFETY: the child has not been waited for, so the number is its own.
            #[allow(unsafe_code, reason = "std sends no signals")]
            let sent = unsafe { libc::kill(pid, libc::SIGINT) };
            assert_eq!(sent, 0);
            std::thread::yield_now();
        }
        lines.for_each(drop);
        assert_eq!(child.wait().unwrap().code(), Some(0), "it ends in order");
        let status = stream.ask("query-status");
        assert!(status.contains("\"running\": true"), "{status}");
    }
}

/// `follow --wait` without `--until` succeeded though no target was ever there: a job in CI was green without a board.
#[test]
fn a_target_that_never_came_was_a_success() {
    let elf = fixture("cm3-stream.elf");
    let remote = format!("127.0.0.1:{}", free_port());
    let output = tx_trace(&["follow", "--wait", "--for", "1s", "--elf", elf.to_str().unwrap(), "--remote", &remote]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
}

/// A build that wrote the program anew, in place, ended `follow` by SIGBUS, and QEMU stood.
#[test]
fn a_program_that_was_rewritten_left_qemu_paused() {
    let Some(stream) = Stream::start(20_000) else { return };
    let scratch = Scratch::new(&format!("rewritten-{}", stream.gdb));
    let (elf, remote) = (scratch.path("app.elf"), format!("127.0.0.1:{}", stream.gdb));
    std::fs::copy(fixture("cm3-stream.elf"), &elf).unwrap();
    let (mut child, lines) = following(&["--halt-every", "10ms", "--for", "2s"], &elf, &remote);
    std::fs::write(&elf, b"").unwrap();
    lines.for_each(drop);
    assert_eq!(child.wait().unwrap().code(), Some(0), "it ends in order");
    let status = stream.ask("query-status");
    assert!(status.contains("\"running\": true"), "{status}");
}

/// QEMU's end was reported with the start of a line of JSON.
#[test]
fn a_killed_qemu_is_reported_in_plain_words() {
    let Some(mut stream) = Stream::start(20_000) else { return };
    let elf = fixture("cm3-stream.elf");
    let mut child = Command::new(env!("CARGO_BIN_EXE_tx-trace"))
        .args(["follow", "--format", "json", "--timeout", "20"])
        .args(["--elf", elf.to_str().unwrap(), "--remote", &stream.qmp])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    while !lines.next().unwrap().unwrap().contains("\"event\"") {}
    stream.child.0.kill().unwrap();
    lines.for_each(drop);
    let output = child.wait_with_output().unwrap();
    let said = stderr(&output);
    assert!(output.status.code() == Some(2) && !said.contains(['{', '\\']), "{said}");
    assert!(said.contains("closed the connection") || said.contains("was sending"), "{said}");
}

#[test]
fn what_cannot_be_followed_says_why() {
    let core = fixture("cm3.core");
    let output = tx_trace(&["follow", core.to_str().unwrap(), fixture("cm3.elf").to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("a file does not change"), "{}", stderr(&output));
    let output = tx_trace(&["follow", core.to_str().unwrap(), fixture("cm3.elf").to_str().unwrap(), "--format=json"]);
    assert_eq!(error(&output), "cannot-follow");
    for words in [
        &["follow", "--from", "3"][..],
        &["follow", "5", "--from-start"],
        &["follow", "5ms"],
        &["follow", "--every", "1s"],
        &["follow", "--report", "nonsense"],
        &["follow", "--halt-every", "3"],
        &["follow", "--for", "0ms"],
        &["follow", "--format", "md"],
        &["follow", "--after", "x"],
        &["follow", "--remote", "stdio:"],
    ] {
        let output = tx_trace(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", stderr(&output));
        assert!(stderr(&output).starts_with("error: "), "{words:?}: {}", stderr(&output));
    }
}
