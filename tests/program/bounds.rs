//! Small files that cost minutes or gigabytes: each is read within a bound of time and of memory.
//!
//! The files are made to be expensive, not to be sound. The bound is 10 s and 512 MB for an input below 16 MB.

#![cfg(all(feature = "cli", target_os = "linux"))]
#![allow(clippy::zombie_processes, unsafe_code, reason = "tests, and what a child took can be asked in no other way")]

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::builder::{Buffer, Entry};
use crate::support::machine::{Scratch, fixture};

/// Of the processor's time, so that a loaded machine does not count; debug builds have the same bound.
const MOST_TIME: Duration = Duration::from_secs(10);
/// Of memory that is the process's own or mapped.
const MOST_MEMORY: u64 = 512 << 20;

/// Of memory for each of many threads, beside the trace.
const MOST_OF_THREAD: u64 = 450;

/// What a run of the binary said and took.
struct Run {
    code: Option<i32>,
    memory: u64,
    out: String,
    err: String,
}

/// Names the file with the words of the command, and then what the run took: see [`measured`].
const MEASURED: &str = "TX_TRACE_TEST_MEASURED";

/// Runs the binary and holds it against the bounds.
fn bounded(words: &[&str]) -> Run {
    let scratch = Scratch::new(&format!("bounded-{:?}", std::thread::current().id()));
    let path = scratch.path("measured");
    std::fs::write(&path, words.join("\n")).unwrap();
    let mut alone = Command::new(std::env::current_exe().unwrap());
    alone.args(["--exact", "bounds::measured"]).env(MEASURED, &path).env("RUST_TEST_THREADS", "1");
    let done = alone.output().unwrap();
    let text = |name: &str| String::from_utf8_lossy(&std::fs::read(scratch.path(name)).unwrap()).into_owned();
    let said = text("measured");
    let numbers: Vec<i64> = said.split(' ').filter_map(|number| number.parse().ok()).collect();
    let [status, seconds, memory] = numbers[..] else { panic!("{words:?}: {said} {done:?}") };
    let (status, memory) = (i32::try_from(status).unwrap(), u64::try_from(memory).unwrap() * 1024);
    let code = libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status));
    let run = Run { code, memory, out: text("measured.out"), err: text("measured.err") };
    assert!(seconds < i64::try_from(MOST_TIME.as_secs()).unwrap(), "{words:?} took {seconds} s: {}", run.err);
    assert!(memory < MOST_MEMORY, "{words:?} took {} MB: {}", memory >> 20, run.err);
    run
}

/// The part of [`bounded`] that has to be in a small process of its own: what Linux says of a child is at least what the process that
/// started it had taken, and this one holds the files of all tests.
#[test]
fn measured() {
    let Ok(path) = std::env::var(MEASURED) else { return };
    let words = std::fs::read_to_string(&path).unwrap();
    let file = |end: &str| std::fs::File::create(format!("{path}.{end}")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tx-trace"));
    command.args(words.split('\n')).env_remove("TX_TRACE_ELF").env_remove("TX_TRACE_REMOTE").env_remove("COLUMNS");
    let child = command.stdin(Stdio::null()).stdout(file("out")).stderr(file("err")).spawn().unwrap();
    let (mut status, pid) = (0, i32::try_from(child.id()).unwrap());
    // SAFETY: plain numbers, for which zeros are valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: it fills the two values that we own, of a child of ours that nobody else waits for.
    assert_eq!(unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut usage) }, pid);
    let seconds = usage.ru_utime.tv_sec + usage.ru_stime.tv_sec;
    std::fs::write(&path, format!("{status} {seconds} {}", usage.ru_maxrss)).unwrap();
}

fn word(n: usize) -> [u8; 4] {
    u32::try_from(n).unwrap().to_le_bytes()
}

/// A 32-bit little-endian ELF file of ARM: program headers (type, offset in the body, address, size), and their bytes.
fn elf(kind: u16, headers: impl ExactSizeIterator<Item = (usize, usize, usize, usize)>, body: &[u8]) -> Vec<u8> {
    let count = headers.len();
    // Where 16 bits do not hold the count, section 0 does.
    let many = count >= 0xFFFF;
    let start = 52 + 32 * count + 40;
    let mut file = b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    file.extend(kind.to_le_bytes());
    file.extend(40u16.to_le_bytes());
    for n in [1, 0, 52, 52 + 32 * count, 0] {
        file.extend(word(n));
    }
    let short = |n: usize| u16::try_from(n).unwrap().to_le_bytes();
    for n in [52, 32, count.min(0xFFFF), 40, usize::from(many), 0] {
        file.extend(short(n));
    }
    for (kind, offset, address, size) in headers {
        for n in [kind, start + offset, address, address, size, size, 6, 4] {
            file.extend(word(n));
        }
    }
    for n in [0, 0, 0, 0, 0, 0, 0, count, 0, 0] {
        file.extend(word(n));
    }
    file.extend(body);
    file
}

const CORE: u16 = 4;
const LOAD: usize = 1;
const NOTE: usize = 4;

fn ram() -> Vec<u8> {
    std::fs::read(fixture("cm3.ram.bin")).unwrap()
}

/// Bytes that are not zero, and no trace.
fn noise(len: usize) -> Vec<u8> {
    let mut x = 0x2545_F491u32;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        x as u8
    };
    (0..len).map(|_| next()).collect()
}

fn write(scratch: &Scratch, name: &str, bytes: &[u8]) -> String {
    std::fs::write(scratch.path(name), bytes).unwrap();
    scratch.path(name).display().to_string()
}

#[test]
fn a_core_of_4000_overlapping_segments_took_15_seconds() {
    let scratch = Scratch::new("bounds-overlap");
    let body = noise(900 << 10);
    // The same bytes as 4 GiB of memory, as segments that are over each other, and as segments within segments.
    let same = elf(CORE, (0..4000).map(|i| (LOAD, 0, i << 20, body.len())), &body);
    let over = elf(CORE, (0..4000).map(|i| (LOAD, 0, i * 16, body.len())), &body);
    let within = elf(CORE, (0..4000).map(|i| (LOAD, i * 100, i * 100, body.len() - 200 * i)), &body);
    for (name, file) in [("same", same), ("over", over), ("within", within)] {
        let run = bounded(&["info", &write(&scratch, name, &file)]);
        assert_eq!(run.code, Some(1), "{name}: {}", run.err);
    }
    // A trace among them is found.
    let ram = ram();
    let file = elf(CORE, (0..1500).map(|i| (LOAD, 0, 0x2000_0000 + (i << 20), ram.len())), &ram);
    let run = bounded(&["last", "3", &write(&scratch, "trace", &file)]);
    assert_eq!((run.code, run.out.lines().count() > 3), (Some(0), true), "{}", run.err);
}

#[test]
fn a_core_of_400000_segments_took_12_seconds() {
    let scratch = Scratch::new("bounds-many");
    let body = noise(8192);
    let same = elf(CORE, (0..400_000).map(|i| (LOAD, 0, (i * 8192) & 0xFFFF_FFFF, 4096)), &body);
    assert!(same.len() < 16 << 20);
    assert_eq!(bounded(&["info", &write(&scratch, "same", &same)]).code, Some(1));
}

#[test]
fn overlapping_note_segments_took_minutes() {
    let scratch = Scratch::new("bounds-notes");
    let mut body = ram();
    let note = [&word(5)[..], &word(0), &word(1), b"CORE\0\0\0\0"].concat();
    let (at, notes) = (body.len(), note.repeat(100_000));
    body.extend(&notes);
    let headers = (0..60_000).map(|i| if i == 0 { (LOAD, 0, 0x2000_0000, at) } else { (NOTE, at, 0, notes.len()) });
    let run = bounded(&["info", &write(&scratch, "core", &elf(CORE, headers, &body))]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    assert!(run.out.contains("note segments overlap"), "{}", run.out);
}

#[test]
fn a_gzip_of_6_megabytes_took_a_gigabyte_of_memory() {
    let scratch = Scratch::new("bounds-gzip");
    let pack = |bytes: &[u8]| {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(bytes).unwrap();
        packed.finish().unwrap()
    };
    let mut file = pack(&ram());
    file.extend(pack(&vec![0; 16 << 20]).repeat(80));
    assert!(file.len() < 16 << 20);
    let once = write(&scratch, "ram.gz", &file);
    let run = bounded(&["last", "3", &once]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    assert!(
        run.err.contains("ram.gz: it holds more than 268435456 bytes") && run.err.contains("gunzip"),
        "{}",
        run.err
    );
    // One layer is in memory while the next is unpacked.
    let run = bounded(&["last", "3", &write(&scratch, "twice.gz", &pack(&file))]);
    assert_eq!(run.code, Some(0), "{}", run.err);
}

#[test]
fn a_sparse_file_of_4_gigabytes_took_36_seconds() {
    use std::os::unix::fs::FileExt as _;
    let scratch = Scratch::new("bounds-sparse");
    let path = scratch.path("ram.bin");
    let file = std::fs::File::create(&path).unwrap();
    file.set_len(4 << 30).unwrap();
    file.write_all_at(&ram(), 0x2000_0000).unwrap();
    file.sync_all().unwrap();
    if std::os::unix::fs::MetadataExt::blocks(&file.metadata().unwrap()) > 1 << 12 {
        return; // This file system has no holes.
    }
    let name = path.display().to_string();
    for words in [&["info", &name][..], &["info", &format!("{name}@0"), "--scan"]] {
        let run = bounded(words);
        assert_eq!(run.code, Some(0), "{}", run.err);
        assert!(run.out.contains("0x20004f8c"), "{}", run.out);
    }
}

/// An ELF program of debug information alone.
fn program(path: &Path, info: &[u8], abbreviations: &[u8]) -> String {
    let names = b"\0.shstrtab\0.debug_info\0.debug_abbrev\0";
    let unit = [&4u16.to_le_bytes()[..], &word(0), &[4], info].concat();
    let unit = [&word(unit.len())[..], &unit].concat();
    let mut file = elf(2, [].into_iter(), b"");
    let mut headers = vec![0; 40];
    for (name, kind, bytes) in [(1, 3, &names[..]), (11, 1, &unit), (23, 1, abbreviations)] {
        for n in [name, kind, 0, 0, file.len(), bytes.len(), 0, 0, 1, 0] {
            headers.extend(word(n));
        }
        file.extend(bytes);
    }
    let at = word(file.len());
    file[32..36].copy_from_slice(&at);
    file[48..52].copy_from_slice(&[4, 0, 1, 0]);
    file.extend(headers);
    std::fs::write(path, file).unwrap();
    path.display().to_string()
}

#[test]
fn a_type_that_holds_itself_took_a_gigabyte() {
    let scratch = Scratch::new("bounds-types");
    // Unit; struct with a name; member of a type, at an offset; member with a name, at an offset.
    let abbreviations =
        b"\x01\x11\x01\0\0\x02\x13\x01\x03\x08\0\0\x03\x0d\0\x49\x13\x38\x0b\0\0\x04\x0d\0\x03\x08\x38\x0b\0\0\0";
    let dump = format!("{}@0x20000000", fixture("cm3.ram.bin").display());
    for many in [10, 1000] {
        let itself = [&b"\x03"[..], &word(12), b"\x04"].concat().repeat(many);
        let info = [b"\x01\x02TX_THREAD_STRUCT\0", &itself[..], &b"\x04x\0\0".repeat(100), b"\0\0"].concat();
        let elf = program(&scratch.path("types.elf"), &info, abbreviations);
        let run = bounded(&["info", "--elf", &elf, &dump, "--header", "0x20004f8c"]);
        assert_eq!(run.code, Some(0), "{}", run.err);
    }
}

/// What all tables count for each thread took some 650 bytes at a time.
#[test]
fn a_report_of_many_threads_takes_the_memory_of_one_table_at_a_time() {
    let scratch = Scratch::new("bounds-threads");
    let trace = |threads: u64| {
        let (at, sp) = (|n: u64| 0x3000_0000 + n % threads * 0x100, 0x2000_1000);
        let semaphore = 0x2000_5000;
        let of_thread = |n: u64| {
            let event = |k: u64, id, info| Entry::thread(at(n), 16, id, 1000 + 37 * (4 * n + k), info);
            [
                event(0, 88, [semaphore, 0, 1, sp]),
                event(1, 1, [at(n + threads - 1), 6, sp, at(n)]),
                event(2, 83, [semaphore, 0xFFFF_FFFF, 0, sp]),
                event(3, 2, [at(n), 6, sp, at(n + 1)]),
            ]
        };
        let events: Vec<Entry> = (0..threads).flat_map(of_thread).collect();
        let bytes = Buffer::new(0x2000_0000).record(events.len(), &events).bytes();
        (bytes.len() as u64, write(&scratch, &threads.to_string(), &bytes))
    };
    let beside = |(size, name): (u64, String)| {
        let run = bounded(&["report", &name]);
        assert_eq!(run.code, Some(0), "{}", run.err);
        run.memory - size
    };
    let (few, many) = (beside(trace(100)), beside(trace(40_000)));
    assert!(many < few + 40_000 * MOST_OF_THREAD, "{} KiB, {} KiB of few threads", many >> 10, few >> 10);
}
