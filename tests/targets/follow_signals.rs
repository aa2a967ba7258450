//! Programs whose threads send each other signals, as ThreadX's Linux port does, under a real gdbserver: none of their
//! signals may be lost, whoever let them run before and however we leave.

#![cfg(all(target_os = "linux", target_arch = "x86_64", feature = "cli"))]

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::machine::{Running, Scratch, free_port, installed, quiet, said, tx_trace, wait_for};

/// What the program says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Counters {
    rounds: u64,
    sent: u64,
    taken: u64,
    written: u64,
}

/// `tests/targets/follow/signals.c`, to which gdbserver is attached.
struct Program {
    scratch: Scratch,
    elf: PathBuf,
    remote: String,
    _server: Running,
    _process: Running,
}

impl Program {
    fn start() -> Option<Self> {
        if !["cc", "gdbserver", "gdb"].into_iter().all(installed) {
            return None;
        }
        let port = free_port();
        let scratch = Scratch::new(&format!("signals-{port}"));
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/targets/follow/signals.c");
        let elf = scratch.path("signals");
        let mut compiler = Command::new("cc");
        compiler.args(["-O1", "-no-pie", "-pthread", "-Wno-pointer-to-int-cast", "-o"]).arg(&elf).arg(source);
        assert!(compiler.status().unwrap().success());
        // 0x03 is a signal to the process's group: without one of its own it would never come.
        let process = quiet(Command::new(&elf).arg(scratch.path("counters")).process_group(0));
        let remote = format!("127.0.0.1:{port}");
        wait_for("the first rounds", || {
            std::fs::metadata(scratch.path("counters")).is_ok_and(|file| file.len() > 0)
                && counters(&scratch.path("counters")).rounds > 10
        });
        let server = quiet(Command::new("gdbserver").args(["--attach", &remote, &process.0.id().to_string()]));
        let this = Self { scratch, elf, remote, _server: server, _process: process };
        wait_for("gdbserver", || this.run(&["info"]).status.success());
        Some(this)
    }

    fn run(&self, words: &[&str]) -> Output {
        let elf = self.elf.to_str().unwrap();
        tx_trace(&[words, &["--elf", elf, "--remote", &self.remote, "--timeout", "20"]].concat())
    }

    fn counters(&self) -> Counters {
        counters(&self.scratch.path("counters"))
    }

    /// Follows for a while: the program has to go on meanwhile, and each of its events is shown once.
    #[track_caller]
    fn follow(&self, words: &[&str]) {
        let before = self.counters();
        let output = self.run(&[&["follow", "--for", "1s", "--format", "csv"], words].concat());
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        let after = self.counters();
        assert!(after.rounds > before.rounds + 10, "from {before:?} to {after:?}: {}", said(&output));
        assert!(after.sent - after.taken <= 1, "a signal is lost: {after:?}");
        let numbers = numbers(&output);
        assert!(numbers.len() as u64 > 10, "{}", said(&output));
        assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "{numbers:?}");
        assert!(numbers.iter().all(|n| (before.written..after.written).contains(n)), "{numbers:?}");
    }

    /// GDB goes away while threads wait for their signals: it was shown one of them, and others are still to come.
    ///
    /// gdbserver stops the threads that it attaches to with SIGSTOP. Where a client connects and goes at once, it may report
    /// one of these to the next client (3 of 60 times; to send no packet at all is enough). GDB does not pass it on here.
    fn gdb_leaves_it_at_a_signal(&self) {
        let mut gdb = Command::new("gdb");
        gdb.args(["-nx", "-batch", "-ex", "set debuginfod enabled off"]);
        gdb.args(["-ex", "handle SIGSTOP nostop noprint nopass", "-ex"]);
        gdb.arg(format!("target remote {}", self.remote)).args(["-ex", "continue", "-ex", "disconnect"]).arg(&self.elf);
        let output = gdb.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("received signal SIGUSR"), "{text}");
    }

    fn goes_on_alone(&self) {
        let before = self.counters();
        wait_for("the program to go on alone", || self.counters().rounds > before.rounds + 50);
    }
}

fn counters(file: &Path) -> Counters {
    let bytes = std::fs::read(file).unwrap();
    let word = |i: usize| u64::from_le_bytes(bytes[8 * i..8 * i + 8].try_into().unwrap());
    Counters { rounds: word(0), sent: word(1), taken: word(2), written: word(3) }
}

/// The first word of each event: its number.
fn numbers(output: &Output) -> Vec<u64> {
    let text = String::from_utf8_lossy(&output.stdout);
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let column = head.iter().position(|name| *name == "words").unwrap_or_else(|| panic!("{head:?}"));
    let first = |line: &str| line.split(',').nth(column)?.split(' ').next().map(str::to_owned);
    lines
        .map(|line| {
            let word = first(line).unwrap();
            u64::from_str_radix(word.strip_prefix("0x").unwrap_or_else(|| panic!("{line}")), 16).unwrap()
        })
        .collect()
}

/// The first one stopped threads that had signals to take. Those were dropped by the `vCont;c` of the second, and the
/// program waited for them for ever.
#[test]
fn a_second_follow_on_the_same_gdbserver_saw_no_events() {
    let Some(program) = Program::start() else { return };
    for _ in 0..4 {
        program.follow(&[]);
    }
    for _ in 0..3 {
        program.follow(&["--halt-every", "20ms"]);
    }
    program.follow(&["--leave", "running"]);
    program.goes_on_alone();
}

/// `vCont;c` dropped the signal that a debugger before us had been shown.
#[test]
fn a_signal_that_was_pending_when_we_came_was_dropped() {
    let Some(program) = Program::start() else { return };
    program.gdb_leaves_it_at_a_signal();
    program.follow(&[]);
    program.gdb_leaves_it_at_a_signal();
    program.follow(&["--halt-every", "20ms"]);
    program.gdb_leaves_it_at_a_signal();
    let output = program.run(&["last", "--leave", "running"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    program.goes_on_alone();
}

/// Each signal stopped a thread until the next look: a program that sends hundreds in a second all but stood.
#[test]
fn a_followed_program_was_slowed_down_by_each_of_its_signals() {
    let Some(program) = Program::start() else { return };
    let before = program.counters().rounds;
    program.follow(&[]);
    let rounds = program.counters().rounds - before;
    assert!(rounds > 50, "{rounds} rounds in a second");
}
