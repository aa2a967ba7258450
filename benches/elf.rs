//! `last 50` with a program of some 200 MB, to its first line, beside what else reads symbols.
//!
//!     cargo bench --bench elf
//!
//! The program is built once and kept. Goal: under a fifth of the fastest of the others.

#![allow(missing_docs, clippy::restriction, reason = "a benchmark")]

mod support;

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use support::{Run, fixture, goal, installed, kept, least, mib, run, table, time, tx_trace};

const RUNS: usize = 7;

fn row(what: &str, r: Run) -> Vec<String> {
    vec![what.to_owned(), time(r.first), time(r.wall), time(r.cpu), mib(r.peak)]
}

/// The backtraces of all threads, beside GDB's over `serve`.
fn backtraces(elf: &str, image: &str) {
    let words = ["threads", "--bt", "--elf", elf, "--image", image];
    let mut rows = vec![row("`tx-trace threads --bt`", least(RUNS, || run(&mut tx_trace(&words))))];
    if installed("gdb-multiarch") {
        let mut server = tx_trace(&["serve", "--elf", elf, "--image", image, "--listen", ":0"])
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(server.stderr.take().unwrap()).lines().map_while(Result::ok);
        let target = said.into_iter().find_map(|line| Some(line.strip_prefix("(gdb) ")?.to_owned())).unwrap();
        let gdb = ["-nx", "-batch", "-ex", &target, "-ex", "thread apply all bt", "-ex", "detach", elf];
        let r = least(3, || run(Command::new("gdb-multiarch").args(gdb)));
        rows.push(row("`gdb -batch -ex 'thread apply all bt'`, over `serve`", r));
        let _ = (server.kill(), server.wait());
    }
    table(&["backtraces of 10 threads", "first line", "end", "processor", "peak"], &rows);
}

fn main() {
    let Some(elf) = support::firmware::large(&kept()) else { return };
    let elf = elf.display().to_string();
    let image = format!("{}@0x20000000", fixture("cm3.ram.bin"));
    let size = std::fs::metadata(&elf).unwrap().len();
    let symbols = Command::new("arm-none-eabi-nm").args(["-a", &elf]).output().unwrap().stdout;
    let symbols = symbols.iter().filter(|b| **b == b'\n').count();
    let all = Command::new("arm-none-eabi-readelf").args(["-sW", &elf]).output().unwrap().stdout;
    let all = all.iter().filter(|b| **b == b'\n').count();
    println!(
        "A program of {}; {symbols} symbols as `nm -a` counts, {all} lines of `readelf -s`, which counts the marks of code \
         and data too; the least of {RUNS} runs from a warm cache.\n",
        mib(size)
    );

    // The same events as with the fixture's own program: the dump belongs to both.
    let print = |elf: &str| tx_trace(&["last", "50", "--elf", elf, "--image", &image]).output().unwrap();
    let (large, small) = (print(&elf), print(&fixture("cm3.elf")));
    assert!(large.status.success(), "{}", String::from_utf8_lossy(&large.stderr));
    assert_eq!(
        String::from_utf8_lossy(&large.stdout),
        String::from_utf8_lossy(&small.stdout),
        "another compiler than the fixtures': scripts/fixtures makes them anew"
    );

    let ours = least(RUNS, || run(&mut tx_trace(&["last", "50", "--elf", &elf, "--image", &image])));
    let mut rows = vec![row("`tx-trace last 50`", ours)];
    let mut peers = Vec::new();
    let gdb = ["-nx", "-batch", "-ex", "print &_tx_trace_header_ptr"];
    for (what, program, words) in [
        ("`nm`", "arm-none-eabi-nm", &[][..]),
        ("`readelf -s`", "arm-none-eabi-readelf", &["-sW"]),
        ("`gdb -batch -ex 'print &_tx_trace_header_ptr'`", "gdb-multiarch", &gdb),
    ] {
        if installed(program) {
            let runs = if program.starts_with("gdb") { 3 } else { RUNS };
            let r = least(runs, || run(Command::new(program).args(words).arg(&elf)));
            peers.push(r.first);
            rows.push(row(what, r));
        }
    }
    table(&["", "first line", "end", "processor", "peak"], &rows);
    println!();
    backtraces(&elf, &image);
    if let Some(fastest) = peers.into_iter().min() {
        let part = ours.first.as_secs_f64() / fastest.as_secs_f64();
        goal("first line under a fifth of the fastest", part < 0.2, &format!("{part:.3} of it"));
    }
}
