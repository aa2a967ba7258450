//! Ten million events through every report in one process, beside a plain read of the same file from a warm cache.
//!
//!     cargo bench --bench reports
//!
//! The file is made of the fixture's events, over and over, with the stamps going on. Printed are the wall time, the
//! peak of resident memory (the map of the file counts as resident), and both as multiples of the reading loop and the
//! file.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss
)]

use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const EVENTS: usize = 10_000_000;
/// Bytes of the header, of an entry, and where words of the header lie.
const HEADER: usize = 48;
const ENTRY: usize = 32;

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// A ring of so many events that has just wrapped.
fn make(path: &Path) {
    let small = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/cm3.trx")).unwrap();
    let base = word(&small, 8);
    let [ring, end, current] = [24, 28, 32].map(|at| (word(&small, at) - base) as usize);
    let order = [&small[current..end], &small[ring..current]].concat();
    let span = word(&order, order.len() - ENTRY + 12).wrapping_sub(word(&order, 12)) + 1000;
    let rounds = EVENTS / (order.len() / ENTRY);
    let mut head = small[..ring].to_vec();
    let new_end = base.wrapping_add((ring + rounds * order.len()) as u32);
    head[28..32].copy_from_slice(&new_end.to_le_bytes());
    head[32..36].copy_from_slice(&base.wrapping_add(ring as u32).to_le_bytes());
    assert!(ring > HEADER);
    let mut out = BufWriter::new(File::create(path).unwrap());
    out.write_all(&head).unwrap();
    for round in 0..rounds as u32 {
        for entry in order.chunks_exact(ENTRY) {
            let stamp = word(entry, 12).wrapping_add(span.wrapping_mul(round));
            out.write_all(&entry[..12]).unwrap();
            out.write_all(&stamp.to_le_bytes()).unwrap();
            out.write_all(&entry[16..]).unwrap();
        }
    }
    out.flush().unwrap();
}

fn read_loop(path: &Path) -> Duration {
    let began = Instant::now();
    let mut file = File::open(path).unwrap();
    let mut buffer = vec![0; 1 << 20];
    while file.read(&mut buffer).unwrap() > 0 {
        std::hint::black_box(&buffer);
    }
    began.elapsed()
}

/// Wall time and peak resident bytes of the program.
fn run(words: &[&str], path: &Path) -> (Duration, u64) {
    let began = Instant::now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_tx-trace"))
        .args(words)
        .arg("--trace")
        .arg(path)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let status = PathBuf::from(format!("/proc/{}/status", child.id()));
    let mut peak = 0;
    while child.try_wait().unwrap().is_none() {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|l| l.strip_prefix("VmHWM:"));
        let kib = line.and_then(|l| l.split_whitespace().next()).and_then(|n| n.parse::<u64>().ok());
        peak = peak.max(kib.unwrap_or(0) * 1024);
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(child.wait().unwrap().success());
    (began.elapsed(), peak)
}

fn main() {
    let path = std::env::temp_dir().join(format!("tx-trace-bench-{}.trx", std::process::id()));
    make(&path);
    let size = std::fs::metadata(&path).unwrap().len();
    read_loop(&path);
    let reading = (0..3).map(|_| read_loop(&path)).min().unwrap();
    println!("{} events, {} MiB; read in steps of 1 MiB: {reading:.3?}", size / ENTRY as u64, size >> 20);
    for words in
        [&["report"][..], &["profile"], &["profile", "--tracex"], &["list", "--format", "csv"], &["last", "50"]]
    {
        let (time, peak) = run(words, &path);
        println!(
            "{:<20} {time:>9.3?}, {:>6.1} times the read; peak {} MiB, {} MiB beside the file",
            words.join(" "),
            time.as_secs_f64() / reading.as_secs_f64(),
            peak >> 20,
            peak.saturating_sub(size) >> 20
        );
    }
    std::fs::remove_file(&path).unwrap();
}
