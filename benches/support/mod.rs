//! What the benches share: programs run and measured from outside, and the tables they print.

#![allow(dead_code, missing_docs, clippy::cast_precision_loss)]

pub mod events;
pub mod firmware;
pub mod proxy;

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// One run of a program, or the least of several runs, figure by figure.
#[derive(Debug, Clone, Copy)]
pub struct Run {
    /// From its start to its first line.
    pub first: Duration,
    /// From its start to its end.
    pub wall: Duration,
    /// Processor time, its own and the system's for it.
    pub cpu: Duration,
    /// The most memory that it had resident, maps of files included.
    pub peak: u64,
    /// Bytes that it printed.
    pub printed: u64,
    pub success: bool,
}

/// The binary under test.
pub fn tx_trace(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tx-trace"));
    command.args(words).env_remove("TX_TRACE_ELF").env_remove("TX_TRACE_REMOTE").env_remove("COLUMNS");
    command
}

/// A fixture's path, as an argument.
pub fn fixture(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name).display().to_string()
}

/// A place for files that are costly to make: they stay from one bench to the next.
pub fn kept() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
}

/// Runs it to its end. What it prints is read and dropped.
pub fn run(command: &mut Command) -> Run {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let began = Instant::now();
    let mut child = command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let mut out = BufReader::with_capacity(1 << 16, child.stdout.take().unwrap());
    let mut line = Vec::new();
    let mut printed = out.read_until(b'\n', &mut line).unwrap() as u64;
    let first = began.elapsed();
    let mut rest = vec![0; 1 << 16];
    loop {
        match out.read(&mut rest).unwrap() {
            0 => break,
            n => printed += n as u64,
        }
    }
    let (cpu, peak, success) = reap(child);
    Run { first, wall: began.elapsed(), cpu, peak, printed, success }
}

/// The same with the output to `/dev/null`, as a shell does it.
pub fn run_to_null(command: &mut Command) -> Run {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let began = Instant::now();
    let child = command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let (cpu, peak, success) = reap(child);
    let wall = began.elapsed();
    Run { first: wall, wall, cpu, peak, printed: 0, success }
}

/// The least of so many runs, after one that warms the caches.
pub fn least(runs: usize, mut once: impl FnMut() -> Run) -> Run {
    once();
    let less = |a: Run, b: Run| Run {
        first: a.first.min(b.first),
        wall: a.wall.min(b.wall),
        cpu: a.cpu.min(b.cpu),
        peak: a.peak.min(b.peak),
        success: a.success && b.success,
        ..a
    };
    (0..runs).map(|_| once()).reduce(less).unwrap()
}

/// Waits for the end of a child; the system tells what it used.
#[cfg(unix)]
#[allow(unsafe_code, reason = "the standard library does not tell what a child has used")]
fn reap(child: Child) -> (Duration, u64, bool) {
    let mut status = 0;
    // SAFETY: plain numbers, for which zeros are values.
    let mut used: libc::rusage = unsafe { std::mem::zeroed() };
    let pid = i32::try_from(child.id()).unwrap();
    // SAFETY: both pointers are to live variables of the types that the call writes. The child is reaped here and
    // nowhere else: `Child` does nothing when it is dropped.
    let got = unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut used) };
    assert_eq!(got, pid);
    let time = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000);
    (time(used.ru_utime) + time(used.ru_stime), used.ru_maxrss as u64 * 1024, status == 0)
}

/// True where a program is installed; says where it is not.
pub fn installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|dir| dir.join(program).is_file());
    if !found {
        eprintln!("SKIPPED: {program} is not installed");
    }
    found
}

/// A time as people read it.
pub fn time(t: Duration) -> String {
    let ms = t.as_secs_f64() * 1e3;
    match ms {
        ms if ms < 10.0 => format!("{ms:.2} ms"),
        ms if ms < 100.0 => format!("{ms:.1} ms"),
        ms if ms < 10_000.0 => format!("{ms:.0} ms"),
        ms => format!("{:.1} s", ms / 1e3),
    }
}

pub fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// A table as Markdown has it.
pub fn table(head: &[&str], rows: &[Vec<String>]) {
    println!("| {} |", head.join(" | "));
    println!("|{}", "---|".repeat(head.len()));
    for row in rows {
        println!("| {} |", row.join(" | "));
    }
    println!();
}

/// A goal with what was measured.
pub fn goal(what: &str, met: bool, measured: &str) {
    println!("* {what}: {measured}: {}", if met { "met" } else { "**missed**" });
}
