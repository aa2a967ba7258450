//! `follow` on targets that run: QEMU over its machine protocol and by short halts, gdbserver in non-stop mode, and a
//! stub that behaves as OpenOCD's Tcl port does. What is known of each event tells whether one is torn, doubled or lost.

#![cfg(all(unix, feature = "cli"))]
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "tests say what they expect by failing"
)]

#[path = "support/machine.rs"]
mod machine;
#[path = "support/openocd.rs"]
mod openocd;
#[path = "follow/stream.rs"]
mod stream;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Output, Stdio};

use machine::{Running, Scratch, fixture, free_port, installed, tx_trace, wait_for};
use openocd::{Deed, OpenOcd, SLOTS, Target};
use serde_json::Value;
use stream::{Stream, check, error, hex, stderr};

#[test]
fn every_event_of_a_machine_that_runs() {
    let Some(stream) = Stream::start(20_000) else { return };
    let output = stream.read(&["follow", "--until", "4097", "--for", "120s", "--format", "json", "--timeout", "20"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let told = check(&output, true);
    assert_eq!(told.gaps, [], "none is lost at a rate far below the ring's");
    assert_eq!(told.places.last().unwrap() % 65, 64, "it ends with the event that was waited for");
    assert!(!told.places.is_empty());
    // The same door serves the other commands.
    let last = stream.read(&["last", "3", "--format", "csv"]);
    assert_eq!(String::from_utf8(last.stdout).unwrap().lines().count(), 4);
}

#[test]
fn loss_is_told_where_the_target_is_faster() {
    let Some(stream) = Stream::start(0) else { return };
    let output = stream.read(&["follow", "--for", "1s", "--format", "json", "--timeout", "20", "--strict"]);
    assert_eq!(output.status.code(), Some(2), "something was lost, and that is a failure by --strict");
    let told = check(&output, true);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("\"events-lost\""), "{text}");
    assert!(told.gaps.iter().all(|(_, at_least)| *at_least));
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
    if !installed("gdbserver") || !cfg!(target_arch = "x86_64") {
        return;
    }
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
    let told = check(&output, true);
    assert_eq!(told.gaps, []);
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
    if !installed("gdbserver") || !cfg!(target_arch = "x86_64") {
        return;
    }
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

/// Up to the event that no other is.
const UNTIL_LAST: [&str; 4] = ["--until", "4097", "--for", "120s"];

/// Follows a stub of OpenOCD.
fn follow(stub: &OpenOcd, words: &[&str]) -> Output {
    let fixed = ["--symbol", "_tx_trace_header_ptr=0x20000000", "--format", "json", "--timeout", "20", "--remote"];
    tx_trace(&[&["follow"], words, &fixed, &[&stub.endpoint()]].concat())
}

#[test]
fn openocd_answers_while_the_target_runs() {
    for big in [false, true] {
        // Between any two questions some events come, and the next one has begun.
        let stub = OpenOcd::start(
            Target::new(big),
            Box::new(|asked, target| {
                (0..asked % 4).for_each(|_| target.insert());
                target.begin();
                Deed::Answer
            }),
        );
        let output = follow(&stub, &["--until", "4096", "--arg", "i1=400", "--for", "120s"]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let last: Value = serde_json::from_str(
            String::from_utf8(output.stdout.clone()).unwrap().lines().rfind(|l| l.contains("\"event\"")).unwrap(),
        )
        .unwrap();
        assert_eq!(hex(last["words"][0].as_str().unwrap()), 400);
        // With no filter but the end: all of them.
        let stub = OpenOcd::start(
            Target::new(big),
            Box::new(|asked, target| {
                (0..asked % 4).for_each(|_| target.insert());
                if asked == 100 {
                    target.insert_last();
                }
                target.begin();
                Deed::Answer
            }),
        );
        let told = check(&follow(&stub, &UNTIL_LAST), false);
        assert_eq!(told.gaps, [], "big-endian: {big}");
        assert!(told.places.len() > 3, "{told:?}");
    }
}

#[test]
fn a_ring_that_goes_around_between_two_looks() {
    let mut burst = 0;
    let stub = OpenOcd::start(
        Target::new(false),
        Box::new(move |asked, target| {
            target.insert();
            // Now and then more than the ring holds.
            if asked > 20 && asked % 16 == 0 && burst < 6 {
                burst += 1;
                (0..SLOTS * burst / 2 + 9).for_each(|_| target.insert());
            }
            if asked == 200 {
                target.insert_last();
            }
            Deed::Answer
        }),
    );
    let output = follow(&stub, &UNTIL_LAST);
    let told = check(&output, false);
    assert!(!told.gaps.is_empty(), "{told:?}");
    // A single lap is counted exactly, as far as the pointer tells.
    assert!(told.gaps.iter().zip(&told.missing).all(|((count, _), missing)| missing >= count));
}

#[test]
fn zeros_for_a_read_that_failed_are_no_events() {
    let stub = OpenOcd::start(
        Target::new(false),
        Box::new(|asked, target| {
            target.insert();
            if asked == 100 {
                target.insert_last();
            }
            if asked > 10 && asked % 7 == 0 { Deed::Zeros } else { Deed::Answer }
        }),
    );
    let output = follow(&stub, &[&["--wait"], &UNTIL_LAST[..]].concat());
    let told = check(&output, false);
    assert!(told.places.len() > 3, "{told:?} {}", stderr(&output));
    assert_eq!(told.gaps, [], "all of them are still there");
    // Who does not wait is told.
    let output = follow(&stub, &["--for", "120s"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("zero"), "{}", stderr(&output));
}

#[test]
fn a_link_that_is_cut_and_heals() {
    let stub = OpenOcd::start(
        Target::new(false),
        Box::new(|asked, target| {
            target.insert();
            match asked {
                15 => Deed::Cut,
                30 => {
                    (0..SLOTS + 5).for_each(|_| target.insert());
                    Deed::Cut
                }
                60 => {
                    target.insert_last();
                    Deed::Answer
                }
                _ => Deed::Answer,
            }
        }),
    );
    let output = follow(&stub, &[&["--wait"], &UNTIL_LAST[..]].concat());
    let told = check(&output, false);
    assert!(stderr(&output).contains("waiting (--wait)"), "{}", stderr(&output));
    assert!(stderr(&output).contains("there again"), "{}", stderr(&output));
    // The first cut cost nothing, the second one a lap.
    assert_eq!(told.gaps.len(), 1, "{told:?}");
    assert!(told.missing[0] >= told.gaps[0].0 && told.gaps[0].0 > 0, "{told:?}");
    let cut = OpenOcd::start(
        Target::new(false),
        Box::new(|asked, target| {
            target.insert();
            if asked == 12 { Deed::Cut } else { Deed::Answer }
        }),
    );
    assert_eq!(follow(&cut, &["--for", "120s"]).status.code(), Some(2), "without --wait a cut is the end");
}

#[test]
fn other_commands_read_through_openocd() {
    let stub = OpenOcd::start(
        Target::new(false),
        Box::new(|_, target| {
            target.insert();
            Deed::Answer
        }),
    );
    (0..100).for_each(|_| stub.target.lock().unwrap().insert());
    let output = tx_trace(&[
        "last",
        "5",
        "--symbol",
        "_tx_trace_header_ptr=0x20000000",
        "--format",
        "json",
        "--remote",
        &stub.endpoint(),
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let told = check(&output, false);
    assert_eq!(told.places.len(), 5);
    let refused = tx_trace(&["last", "--header", "0x60000000", "--remote", &stub.endpoint()]);
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    let leave = tx_trace(&["last", "--leave", "halted", "--remote", "openocd::1"]);
    assert_eq!(leave.status.code(), Some(2));
}

#[test]
fn ctrl_c_and_a_closed_pipe_are_no_failures() {
    let stub = || {
        OpenOcd::start(
            Target::new(false),
            Box::new(|_, target| {
                target.insert();
                Deed::Answer
            }),
        )
    };
    let start = |stub: &OpenOcd| {
        Command::new(env!("CARGO_BIN_EXE_tx-trace"))
            .args(["follow", "--symbol", "_tx_trace_header_ptr=0x20000000", "--format", "json", "--timeout", "20"])
            .args(["--remote", &stub.endpoint()])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let first = stub();
    let mut child = start(&first);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().contains("\"trace\""));
    assert!(lines.next().unwrap().unwrap().contains("\"event\""));
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    assert!(lines.last().unwrap().unwrap().contains("\"end\""), "it ends in order");
    assert_eq!(child.wait().unwrap().code(), Some(0));

    let second = stub();
    let mut child = start(&second);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.next().unwrap().unwrap();
    drop(lines);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let mut said = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut said).unwrap();
    assert!(!said.contains("nobody reads"), "{said}");
}

#[test]
fn words_that_come_late_are_waited_for() {
    let stub = OpenOcd::start(
        Target::new(false),
        Box::new(|asked, target| {
            match asked {
                0..10 => target.insert(),
                20 => target.insert_resumption(),
                26 => target.fill_in(0x2000_9000),
                _ => {}
            }
            Deed::Answer
        }),
    );
    let output = follow(&stub, &["--for", "120s", "--until", "1"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let event: Value = serde_json::from_str(text.lines().rfind(|l| l.contains("\"event\"")).unwrap()).unwrap();
    assert_eq!((event["id"].as_u64(), event["words"][3].as_str()), (Some(1), Some("0x20009000")), "{event}");
}

#[test]
fn a_trace_that_is_written_over() {
    let stub = OpenOcd::start(
        Target::new(false),
        Box::new(|asked, target| {
            target.insert();
            if asked == 20 {
                target.spoil();
            }
            Deed::Answer
        }),
    );
    let output = follow(&stub, &["--for", "120s"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert_eq!(error(&output), "trace-changed");
}

#[test]
fn reports_over_intervals() {
    let stub = OpenOcd::start(
        Target::new(false),
        Box::new(|asked, target| {
            target.insert();
            match asked {
                40 => (0..SLOTS + 5).for_each(|_| target.insert()),
                80 => target.insert_last(),
                _ => {}
            }
            Deed::Answer
        }),
    );
    let output = follow(&stub, &[&["--report", "services", "--every", "200ms"], &UNTIL_LAST[..]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    let rows: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let intervals: Vec<&Value> = rows.iter().filter(|r| r["report"] == "interval").collect();
    assert!(intervals.len() > 1, "{text}");
    // Each event counts once, in its own interval, and none is counted across the gap.
    for interval in &intervals {
        let own = rows.iter().filter(|r| r["report"] == "services" && r["interval"] == interval["interval"]);
        let counted: u64 = own.map(|r| r["count"].as_u64().unwrap()).sum();
        assert_eq!(Some(counted), interval["events"].as_u64(), "{text}");
    }
    assert!(intervals.iter().any(|i| i["lost_before"].as_u64().unwrap() > 0 && i["seen"].as_f64().unwrap() < 100.0));
}

/// Where the ring went around at every look, no interval was ever printed.
#[test]
fn intervals_in_which_all_was_lost_were_not_printed() {
    let stub = || {
        OpenOcd::start(
            Target::new(false),
            Box::new(|asked, target| {
                let count = if asked < 20 { 1 } else { SLOTS + 5 };
                (0..count).for_each(|_| target.insert());
                Deed::Answer
            }),
        )
    };
    let words = ["--report", "services", "--every", "100ms", "--for", "2s"];
    let output = follow(&stub(), &words);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let rows: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let lost: Vec<&Value> = rows.iter().filter(|r| r["report"] == "interval" && r["events"] == 0).collect();
    assert!(!lost.is_empty(), "{text}");
    for interval in lost {
        assert!(interval["lost_before"].as_u64().unwrap() >= u64::from(SLOTS), "{interval}");
        assert!(interval["from"].is_null() && interval["seen"].as_f64() == Some(0.0), "{interval}");
        assert!(!rows.iter().any(|r| r["report"] == "services" && r["interval"] == interval["interval"]), "{text}");
    }
    assert!(stderr(&output).contains("at least"), "{}", stderr(&output));
    let output = follow(&stub(), &[&words[..], &["--strict"]].concat());
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
}

/// The head of the table stood above the error.
#[test]
fn an_event_that_does_not_exist_is_told_before_anything_is_printed() {
    for option in ["--until", "--event"] {
        let stub = OpenOcd::start(Target::new(false), Box::new(|_, _| Deed::Answer));
        let fixed = ["--symbol", "_tx_trace_header_ptr=0x20000000", "--timeout", "20", "--remote", &stub.endpoint()];
        let output = tx_trace(&[&["follow", option, "nosuch"][..], &fixed].concat());
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
        assert!(stderr(&output).contains("nosuch"), "{}", stderr(&output));
    }
}

/// `timeout` sends its signal to the child and to the group: the second one ended the program at once, and QEMU stood.
#[test]
fn two_signals_at_once_left_qemu_paused() {
    let Some(stream) = Stream::start(20_000) else { return };
    let (elf, remote) = (fixture("cm3-stream.elf"), format!("127.0.0.1:{}", stream.gdb));
    for _ in 0..5 {
        let mut child = Command::new(env!("CARGO_BIN_EXE_tx-trace"))
            .args(["follow", "--halt-every", "1ms", "--format", "json", "--timeout", "20"])
            .args(["--elf", elf.to_str().unwrap(), "--remote", &remote])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        while !lines.next().unwrap().unwrap().contains("\"event\"") {}
        for _ in 0..2 {
            assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
        }
        lines.for_each(drop);
        assert_eq!(child.wait().unwrap().code(), Some(0), "it ends in order");
        let status = stream.ask("query-status");
        assert!(status.contains("\"running\": true"), "{status}");
    }
}

/// QEMU's end was told with the start of a line of JSON.
#[test]
fn a_killed_qemu_is_told_in_plain_words() {
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
        assert!(stderr(&output).starts_with("tx-trace: "), "{words:?}: {}", stderr(&output));
    }
}
