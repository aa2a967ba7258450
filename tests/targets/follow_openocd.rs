//! `follow` on a simulated Cortex-M3 behind the real OpenOCD: what is shown and what is said to be lost, against what the
//! chip says it wrote. Skipped, loudly, where OpenOCD is not installed.

#![cfg(all(unix, feature = "cli"))]
#![allow(clippy::cast_precision_loss, reason = "tests say what they expect by failing")]

use crate::support::machine;

use std::os::fd::AsRawFd as _;
use std::process::Output;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::support::cortex_m::{CortexM, Setup, State};
use crate::support::machine::{installed, said, tx_trace, wait_for};
use crate::support::servers::{Config, OpenOcd};
use serde_json::Value;

fn start(events: u32, rate: u32, config: Config<'_>) -> Option<(CortexM, OpenOcd)> {
    if !installed("openocd") {
        return None;
    }
    let chip = CortexM::start(Setup { rate, ring: Some(events), ..Setup::default() });
    let openocd = OpenOcd::start(&chip, config);
    wait_for("the first events", || chip.stats().events > 10);
    Some((chip, openocd))
}

fn follow(chip: &CortexM, remote: &str, words: &[&str]) -> Output {
    let elf = chip.elf().display().to_string();
    let fixed = ["--format", "json", "--timeout", "20", "--elf", &elf, "--remote", remote];
    tx_trace(&[&["follow"], words, &fixed].concat())
}

/// What a run showed.
#[derive(Debug, Default)]
struct Account {
    first: u64,
    last: u64,
    shown: u64,
    /// How many it said are lost; the least, where one of the counts was.
    lost: u64,
    at_least: bool,
}

impl Account {
    /// Events that the chip wrote from the first one shown to the last.
    fn written(&self) -> u64 {
        self.last - self.first + 1
    }

    /// Events that are missing between the first one shown and the last.
    fn missing(&self) -> u64 {
        self.written() - self.shown
    }
}

/// Reads JSON lines. Each event is whole and follows the one before, or a loss is reported that is no greater than what is
/// missing, and exact unless it says `at least`.
fn account(output: &Output) -> Account {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let word = |value: &Value| u64::from_str_radix(value.as_str().unwrap().strip_prefix("0x").unwrap(), 16).unwrap();
    let mut account = Account::default();
    let mut gap: Option<(u64, bool)> = None;
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        if line["code"] == "events-lost" {
            let (count, at_least) = gap.unwrap_or_default();
            let now = line["message"].as_str().unwrap().starts_with("at least");
            gap = Some((count + line["count"].as_u64().unwrap(), at_least || now));
        }
        if line["type"] != "event" {
            continue;
        }
        let words: Vec<u64> = line["words"].as_array().unwrap().iter().map(word).collect();
        let n = if line["id"] == 69 { words[3] } else { words[0] };
        let whole = match line["id"].as_u64() {
            Some(69) => n % 8 == 7 && words[..3] == [0x2000_1000, 0x2000_1100, 0xFFFF_FFFF],
            Some(4096) => words[1..] == [!n & 0xFFFF_FFFF, (n * 2_654_435_761) & 0xFFFF_FFFF, 0x5354_524D],
            _ => false,
        };
        assert!(whole, "torn: {line}");
        if account.shown == 0 {
            account.first = n;
        } else {
            let missing =
                n.checked_sub(account.last + 1).unwrap_or_else(|| panic!("twice, after {}: {line}", account.last));
            let (count, at_least) = gap.unwrap_or_default();
            assert!(
                missing == count || at_least && missing > count,
                "{missing} are missing, {count} are reported: {line}"
            );
            (account.lost, account.at_least) = (account.lost + count, account.at_least || at_least);
        }
        gap = None;
        account.last = n;
        account.shown += 1;
    }
    account
}

/// The chip ran on, and nothing was done to it.
fn untouched(chip: &CortexM) {
    let stats = chip.stats();
    assert_eq!((chip.state(), stats.halts, stats.resets, stats.writes), (State::Running, 0, 0, vec![]));
}

#[test]
fn every_event_is_shown_or_reported_to_be_lost() {
    for events in [256, 1024] {
        for rate in [100, 1000, 5000, 20_000] {
            let Some((chip, openocd)) = start(events, rate, Config::default()) else { return };
            let within = |time| {
                let output = follow(&chip, &openocd.openocd(), &["--for", time]);
                assert_eq!(output.status.code(), Some(0), "{}", said(&output));
                account(&output)
            };
            let mut account = within("2s");
            // On a busy machine, connecting may take the two seconds. At 20,000 a second one look may be all, or less; the
            // next test has more time.
            if account.shown == 0 && rate <= 5000 {
                account = within("20s");
            }
            assert!(account.shown > 0 || rate > 5000, "{rate}/s, ring of {events}: {account:?}");
            assert!(account.lost <= account.missing(), "{account:?}");
            if account.shown > 0 && !account.at_least {
                assert_eq!(account.shown + account.lost, account.written(), "{account:?}");
            }
            if rate <= 100 {
                assert_eq!(account.lost, 0, "{account:?}");
            }
            untouched(&chip);
        }
    }
}

/// A ring of 256 events at 20,000 a second: nothing was shown, so `--until` never saw its event.
#[test]
fn until_never_fired_on_a_ring_that_was_always_overrun() {
    let Some((chip, openocd)) = start(256, 20_000, Config::default()) else { return };
    let ended = AtomicBool::new(false);
    let output = std::thread::scope(|scope| {
        scope.spawn(|| slow_down_until(&ended, &chip));
        let output = follow(&chip, &openocd.openocd(), &["--until", "tx_queue_send", "--for", "80s"]);
        ended.store(true, Ordering::Relaxed);
        output
    });
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    account(&output);
    untouched(&chip);
}

/// On a busy machine one read may take longer than the ring lasts at 20,000 events a second (13 ms), and then no reader can
/// see an event: after each 20 seconds, the chip writes half as many, down to 2500 a second.
fn slow_down_until(ended: &AtomicBool, chip: &CortexM) {
    for rate in [10_000, 5000, 2500] {
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(20) {
            if ended.load(Ordering::Relaxed) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        chip.set_rate(rate);
    }
}

/// The halt that connecting makes, and the one of the last look, were not among them.
#[test]
fn halts_were_counted_without_the_first_and_the_last() {
    let Some((chip, openocd)) = start(1024, 500, Config { usual_tcl_port: true, ..Config::default() }) else { return };
    let output = follow(&chip, &openocd.gdb(), &["--halt-every", "100ms", "--for", "1s"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(account(&output).lost, 0);
    let said = said(&output);
    let line = said.lines().find(|line| line.contains("was halted ")).unwrap_or_else(|| panic!("{said}"));
    let number = |before: &str, after: &str| -> f64 {
        let rest = &line[line.find(before).unwrap() + before.len()..];
        rest[..rest.find(after).unwrap()].parse().unwrap()
    };
    let (count, longest, total) =
        (number("was halted ", " times"), number("times, ", " ms"), number("at the longest, ", " ms"));
    let stats = chip.stats();
    assert_eq!((chip.state(), count), (State::Running, f64::from(stats.halts)), "{said} {stats:?}");
    // The tool counts from its request to its answer, and the chip between these.
    let (halted, longest_halt) = (stats.halted.as_secs_f64() * 1e3, stats.longest_halt.as_secs_f64() * 1e3);
    assert!(
        total >= halted * 0.9 && longest >= longest_halt * 0.9,
        "{said}: the chip says {halted} and {longest_halt} ms"
    );
}

/// The table in docs/follow.md, of the program that `TX_TRACE_TEST_PROGRAM` names:
///
///     cargo build --release
///     TX_TRACE_TEST_PROGRAM=target/release/tx-trace cargo test --test targets -- --ignored --nocapture table
#[test]
#[ignore = "a measurement: some minutes"]
fn table() {
    let program = std::env::var_os("TX_TRACE_TEST_PROGRAM").unwrap_or_else(|| env!("CARGO_BIN_EXE_tx-trace").into());
    let Some((chip, openocd)) = start(1024, 10, Config::default()) else { return };
    // What the probe carries: four kilobytes at a time, as follow reads them.
    let began = Instant::now();
    let mut bytes = 0;
    while began.elapsed() < Duration::from_secs(3) {
        openocd.tcl("string length [read_memory 0x20010000 32 1024]");
        bytes += 4096;
    }
    let carried = f64::from(bytes) / began.elapsed().as_secs_f64();
    let began = Instant::now();
    (0..200).for_each(|_| drop(openocd.tcl("read_memory 0x20010000 32 8")));
    let small = began.elapsed().as_secs_f64() * 1e3 / 200.0;
    println!(
        "the probe carries {:.0} KB/s, {:.0} events/s; {small:.1} ms for one event",
        carried / 1e3,
        carried / 32.0
    );
    drop((openocd, chip));
    println!("| ring | events/s | written | shown | reported as lost | lost |");
    println!("|---|---|---|---|---|---|");
    for events in [256, 1024, 4096] {
        for rate in [100, 500, 1000, 2000, 5000, 20_000] {
            let Some((chip, openocd)) = start(events, rate, Config::default()) else { return };
            let mut command = std::process::Command::new(&program);
            command.args(["follow", "--for", "5s", "--format", "json", "--timeout", "20", "--elf"]).arg(chip.elf());
            let account = account(&command.args(["--remote", &openocd.openocd()]).output().unwrap());
            println!(
                "| {events} | {rate} | {} | {} | {}{} | {} |",
                account.written(),
                account.shown,
                if account.at_least { "at least " } else { "" },
                account.lost,
                account.missing(),
            );
        }
    }
}

/// True where a write would not wait.
fn takes_bytes(pipe: &std::io::PipeWriter) -> bool {
    let mut wanted = libc::pollfd { fd: pipe.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
    // SAFETY: one pollfd, of a descriptor that we own.
    #[allow(unsafe_code, reason = "std does not ask a pipe whether it is full")]
    let ready = unsafe { libc::poll(&raw mut wanted, 1, 0) };
    ready > 0
}

/// `follow --halt-every` wrote while the target was halted: a reader that took its time, as `less` does, held the target, and
/// Ctrl-C did not end it.
#[test]
fn a_slow_reader_held_a_target_halted() {
    let Some((chip, openocd)) = start(256, 2000, Config { usual_tcl_port: true, ..Config::default() }) else { return };
    let elf = chip.elf().display().to_string();
    let words = ["follow", "--halt-every", "20ms", "--format", "json", "--elf", &elf, "--remote", &openocd.gdb()];
    let (reader, writer) = std::io::pipe().unwrap();
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_tx-trace"))
        .args(words)
        .stdin(std::process::Stdio::null())
        .stdout(writer.try_clone().unwrap())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    wait_for("a full pipe", || !takes_bytes(&writer));
    // What it looked at before is written now, and that waits.
    let events = chip.stats().events;
    wait_for("the target to run on", || chip.stats().events > events + 1000);
    let halts = chip.stats().halts;
    wait_for("the target to run on", || chip.stats().events > events + 2000);
    assert_eq!((chip.stats().halts, chip.state()), (halts, State::Running));
    // The reader goes.
    drop((reader, writer));
    child.wait().unwrap();
    assert_eq!(chip.state(), State::Running);
}

/// A FIFO was opened when the target was halted already, and opening waits for a reader: the target was held, and a signal
/// left it halted.
#[test]
fn a_fifo_without_a_reader_held_a_target_halted() {
    let Some((chip, openocd)) = start(256, 1000, Config { usual_tcl_port: true, ..Config::default() }) else { return };
    let scratch = machine::Scratch::new("follow-fifo");
    let fifo = scratch.path("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_tx-trace"))
        .args(["follow", "--halt-every", "20ms", "--remote", &openocd.gdb(), "--elf"])
        .arg(chip.elf())
        .arg("-o")
        .arg(&fifo)
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    // As long as it takes in the other tests until events are shown; without a reader nothing says what it does.
    let events = chip.stats().events;
    wait_for("events in the target", || chip.stats().events > events + 500);
    // Not SIGINT: a program that was started in the background may ignore that, and nothing of ours handles it yet.
    let killed = std::process::Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    child.wait().unwrap();
    assert_eq!((chip.state(), chip.stats().halts), (State::Running, 0));
}

/// With `--wait` the trace was waited for while the target was halted: it could never enable it.
#[test]
fn a_trace_that_was_gone_was_waited_for_with_the_target_halted() {
    let Some((chip, openocd)) = start(256, 1000, Config { usual_tcl_port: true, ..Config::default() }) else { return };
    let elf = chip.elf().display().to_string();
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_tx-trace"))
        .args(["follow", "--wait", "--halt-every", "50ms", "--for", "120s", "--elf", &elf, "--remote", &openocd.gdb()])
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    wait_for("a look", || chip.stats().halts > 1);
    chip.set_rate(0);
    let header = chip.peek(machine::symbol(chip.elf(), "_tx_trace_header_ptr") as u32);
    (0..48).step_by(4).for_each(|at| chip.poke(header + at, 0));
    let mut said = std::io::BufRead::lines(std::io::BufReader::new(child.stderr.take().unwrap())).map(Result::unwrap);
    assert!(said.any(|line| line.contains("waiting (--wait)")));
    let halts = chip.stats().halts;
    wait_for("it to run between two tries", || chip.stats().halts > halts + 3);
    assert!(std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let said: Vec<String> = said.collect();
    child.wait().unwrap();
    assert_eq!(chip.state(), State::Running, "{said:?}");
}
