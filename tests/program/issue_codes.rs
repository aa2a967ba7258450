//! Each code that no other test provokes, provoked through the program: the JSON line, the exit code, the sentence.

#![cfg(all(feature = "cli", feature = "serve", unix))]

use crate::support::machine;

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::support::builder::{Buffer, Entry, Registered};
use crate::support::fake_stub::Stub;
use crate::support::machine::{Scratch, fixture, symbol};
use crate::support::qnx::{BUFFER, Kernel};
use crate::support::uia::{Ev, Lap, Ram, snapshot};
use serde_json::Value;
use tx_trace::bytes::Bytes;
use tx_trace::mem::segments::{Block, Segments};
use tx_trace::serve::Server;

const RAM: u64 = 0x2000_0000;

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tx-trace"));
    command.current_dir(fixture("")).stdin(Stdio::null());
    for variable in ["TX_TRACE_ELF", "TX_TRACE_REMOTE", "TX_TRACE_ENTRY", "COLUMNS"] {
        command.env_remove(variable);
    }
    command
}

/// Runs a line among the fixtures; a word in it cannot have a space.
fn run(line: &str) -> Output {
    program().args(line.split_whitespace()).output().unwrap()
}

fn lines(out: &Output) -> Vec<Value> {
    let text = std::str::from_utf8(&out.stdout).unwrap();
    text.lines().map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{l}: {e}"))).collect()
}

fn talk(out: &Output) -> String {
    String::from_utf8(out.stderr.clone()).unwrap()
}

/// The run ends with this error.
#[track_caller]
fn error(line: &str, exit: i32, code: &str, sentence: &str) {
    is_error(line, &run(&format!("{line} --format json")), exit, code, sentence);
}

#[track_caller]
fn is_error(line: &str, out: &Output, exit: i32, code: &str, sentence: &str) {
    let said = lines(out);
    let [only] = said.as_slice() else { panic!("{line}: {said:?} {}", talk(out)) };
    assert_eq!((&only["type"], &only["code"]), (&"error".into(), &code.into()), "{line}: {only}");
    let message = only["message"].as_str().unwrap();
    assert!(message.contains(sentence), "{line}: {message}");
    assert_eq!(out.status.code(), Some(exit), "{line}: {message}");
    assert!(talk(out).contains(&format!("error: {message}\n")), "{line}: {}", talk(out));
}

/// The run has a result, and this issue beside it.
#[track_caller]
fn issue(line: &str, severity: &str, code: &str, sentence: &str) {
    is_issue(line, &run(&format!("{line} --format json")), severity, code, sentence);
}

#[track_caller]
fn is_issue(line: &str, out: &Output, severity: &str, code: &str, sentence: &str) {
    let said = lines(out);
    let found: Vec<&Value> = said.iter().filter(|l| l["type"] == "issue" && l["code"] == code).collect();
    let [found] = found.as_slice() else {
        let codes: Vec<&Value> = said.iter().map(|l| &l["code"]).filter(|c| !c.is_null()).collect();
        panic!("{line}: {codes:?} {}", talk(out))
    };
    assert_eq!(found["severity"], severity, "{line}");
    let message = found["message"].as_str().unwrap();
    assert!(message.contains(sentence), "{line}: {message}");
    // An empty list is the answer no; else it is done.
    let any = said.iter().any(|l| l["type"] == "event" || l["type"] == "row");
    assert_eq!(out.status.code(), Some(i32::from(!any)), "{line}");
}

struct Files(Scratch);

impl Files {
    fn new(name: &str) -> Self {
        Self(Scratch::new(&format!("provoked-{name}")))
    }
    fn put(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        std::fs::write(self.0.path(name), bytes).unwrap();
        self.path(name)
    }
    fn path(&self, name: &str) -> String {
        self.0.path(name).display().to_string()
    }
}

fn fixture_bytes(name: &str) -> Vec<u8> {
    std::fs::read(fixture(name)).unwrap()
}

/// A ring of 32 slots with this many events of one thread in it.
fn buffer(events: u64) -> Buffer {
    let thread = 0x2000_9000;
    let all: Vec<Entry> =
        (0..events).map(|i| Entry::thread(thread, 5, 4096 + i % 7, 1000 + 100 * i, [i, 0, 0, 0])).collect();
    let mut buffer = Buffer::new(RAM).record(32, &all);
    buffer.objects = vec![Registered::new(1, thread, "worker"), Registered::new(2, thread + 0x100, "tick")];
    buffer.current = (events % 32) as usize;
    buffer
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}

// What was typed.

#[test]
fn what_was_typed() {
    let s = "cm3.elf cm3.core";
    for (line, code, sentence) in [
        (format!("show {s}"), "usage", "show needs the sequence number"),
        (format!("last --width 3 {s}"), "usage", "--width 3: not a number of columns from 20 to 10000"),
        (format!("last --qnx-version x {s}"), "usage", "--qnx-version x: not a release of QNX: 6.4"),
        (format!("last --nonsense {s}"), "usage", "last has no option --nonsense"),
        (format!("info --previous {s}"), "usage", "--previous is an option of last, list and show"),
        (format!("last --core cm3.core --trace {}", "cm3.trx"), "usage", "--core and --trace name different sources"),
        (format!("last cm3.trx {s}"), "usage", "a core and a trace buffer are different sources"),
        ("last --remote nonsense".to_owned(), "bad-endpoint", "`nonsense` is not an endpoint"),
        (format!("last --header 0xgg {s}"), "number", "--header 0xgg: not a number: 4096 or 0x20000000"),
        (format!("last --symbol nonsense {s}"), "symbol", "not NAME=ADDR, such as _tx_trace_header_ptr=0x20001000"),
        (format!("show 99999999999999999999999 {s}"), "position", "99999999999999999999999"),
        (format!("last --from soon {s}"), "filter", "soon"),
        (format!("last 5ms {s}"), "filter", "the clock's rate is not known"),
        (format!("last --direction sideways {s}"), "clock", "--direction sideways: not a direction: up or down"),
        (format!("last --netx trio {s}"), "netx", "--netx trio: not a NetX: duo or classic"),
        (format!("last --format-in ctf {s}"), "format-in", "--format-in ctf: not a format of traces: threadx"),
        (format!("last --hz SystemCoreClok {s}"), "no-such-symbol", "--hz SystemCoreClok: neither a rate nor a symbol"),
        ("last @nofile".to_owned(), "option-file", "option file nofile: there is no such file"),
    ] {
        error(&line, 2, code, sentence);
    }
    error(&format!("last --thread nobody {s}"), 1, "nothing-matches", "nobody");
    // A file for the data is not written where nothing is read.
    let files = Files::new("typed");
    let out = run(&format!("last --netx trio {s} --format json -o {}", files.path("x")));
    assert_eq!((out.status.code(), out.stdout.len()), (Some(2), 0));
    assert!(!Path::new(&files.path("x")).exists());
}

#[test]
fn names_of_the_applications_events() {
    error("last --events nofile cm3.trx", 2, "events-file", "nofile: there is no such file");
    error("last --event-enum nonsense cm3.elf cm3.core", 2, "no-such-enum", "has no enum 'nonsense'");
    // This format is no JSON: its sentence tells.
    let (out, code) = (run("events --user --format tsv"), "no-user-events");
    assert_eq!(out.status.code(), Some(1), "{code}");
    assert!(talk(&out).starts_with("error: no event of the application is known\n"), "{}", talk(&out));
}

// Files.

#[test]
fn files_that_are_not_what_they_should_be() {
    let files = Files::new("files");
    error("last", 2, "no-source", "nothing to read");
    error("last cm3.elf", 2, "no-source", "an ELF program holds no RAM");
    error("last nofile", 2, "file", "last nofile: neither a number of events nor a time, and not a file");
    error("last --elf cm3.ram.bin cm3.core", 2, "not-elf", "cm3.ram.bin: not an ELF file");
    error("last --core cm3.elf", 2, "not-a-core", "this is an ELF program");
    error("last --elf cm3.elf --core host.core", 2, "core-mismatch", "do not match");
    let overlapping = "last --image cm3.ram.bin@0x20000000 --image cm3.ram.bin@0x20001000";
    error(overlapping, 2, "image", "overlap");
    let xz = files.put("ram.xz", b"\xFD7zXZ\0rest");
    error(&format!("last {xz}"), 2, "packed", "is compressed (xz); only gzip is unpacked here");
    let nothing = files.put("nothing.gz", &gzip(b"")[..10]);
    error(&format!("last {nothing}"), 2, "gzip", "is compressed (gzip), and");
    let hz = "last --hz fw_fault --elf cm3.elf --trace cm3.trx";
    error(hz, 2, "unreadable", "fw_fault: no memory at");
    let core = fixture_bytes("be.core");
    let cut = files.put("cut.core", &core[..core.len() - 5000]);
    issue(&format!("last --elf be.elf --core {cut}"), "note", "core-truncated", "5000 bytes of memory are missing");
    issue("last cm3.elf cm3.core", "note", "core", "segments of the core overlap");
    let other = "last --elf cm3-never.elf --image cm3.ram.bin@0x20000000";
    issue(other, "inferred", "elf-mismatch", "this ELF is of another build");
    issue("last cm3.elf cm3.ram.bin", "inferred", "placed-by-header", "is placed at 0x20000000");
}

#[test]
fn the_same_buffer_twice_was_read_twice() {
    let files = Files::new("same");
    let packed = files.put("again.trx.gz", gzip(&fixture_bytes("cm3.trx")));
    let twice = format!("list --trace cm3.trx --trace {packed}");
    issue(&twice, "note", "same-buffer", "hold the same trace buffer: it is read once");
    let events = |line: &str| {
        let out = lines(&run(&format!("{line} --format json")));
        out.into_iter().filter(|l| l["type"] == "event").collect::<Vec<_>>()
    };
    assert_eq!(events(&twice), events("list --trace cm3.trx"));
}

#[test]
fn gzip_that_is_damaged() {
    let files = Files::new("gzip");
    let whole = gzip(&fixture_bytes("cm3.trx"));
    let cut = files.put("cut.gz", &whole[..whole.len() - 12]);
    issue(&format!("last --trace {cut}"), "lost", "gzip-cut", "it is cut short: ");
    let mut wrong = whole.clone();
    let checksum = wrong.len() - 8;
    wrong[checksum] ^= 0xFF;
    let damaged = files.put("damaged.gz", wrong);
    issue(&format!("last --trace {damaged}"), "lost", "gzip-damaged", "it is damaged");
    let trailing = files.put("trailing.gz", [whole, b"and more".to_vec()].concat());
    issue(&format!("last --trace {trailing}"), "note", "gzip-trailing", "8 bytes after its end are not gzip");
}

fn ihex(kind: u8, offset: u16, data: &[u8]) -> String {
    let mut all = vec![data.len() as u8, (offset >> 8) as u8, offset as u8, kind];
    all.extend(data);
    all.push(all.iter().fold(0u8, |s, b| s.wrapping_sub(*b)));
    all.iter().fold(":".to_owned(), |t, b| t + &format!("{b:02X}")) + "\n"
}

#[test]
fn text_dumps_that_are_damaged() {
    let files = Files::new("text");
    let bytes = buffer(40).bytes();
    let mut records = vec![ihex(4, 0, &[0x20, 0])];
    records.extend(bytes.chunks(16).enumerate().map(|(i, d)| ihex(0, 16 * i as u16, d)));
    let end = ":00000001FF\n".to_owned();
    let last = records.len() - 1;
    let hex = |name: &str, records: &[String]| files.put(name, records.concat());
    let mut wrong = records.clone();
    let len = wrong[last].len();
    wrong[last].replace_range(len - 3..len - 1, "00");
    wrong.push(end.clone());
    issue(&format!("last {}", hex("sum.hex", &wrong)), "lost", "dump-checksum", "wrong checksum in 1 record");
    let damaged = [&records[..], &[":nonsense\n".to_owned(), end.clone()]].concat();
    issue(&format!("last {}", hex("line.hex", &damaged)), "lost", "dump-damaged", "1 line that no record");
    issue(&format!("last {}", hex("cut.hex", &records)), "note", "dump-cut", "it has no end record");
    let after = [&records[..], std::slice::from_ref(&end), &records[last..]].concat();
    issue(&format!("last {}", hex("after.hex", &after)), "note", "dump-after-end", "after the end record");
    let twice = [&records[..], &[ihex(0, 0x60, &[1, 2, 3, 4]), end.clone()]].concat();
    issue(&format!("last {}", hex("twice.hex", &twice)), "inferred", "dump-overlap", "given twice, and differently");
    let whole = hex("whole.hex", &[&records[..], std::slice::from_ref(&end)].concat());
    issue(&format!("last {whole}@0x30000000"), "note", "dump-moved", "it was moved to 0x30000000, as given");
    let empty = [":020000042000DB\n".to_owned(), end].concat();
    let empty = files.put("empty.hex", empty);
    error(&format!("last {empty}"), 2, "dump-empty", "nothing in it can be used");
    let words = bytes.chunks(16).enumerate().fold(String::new(), |text, (i, line)| {
        let words: Vec<String> =
            line.chunks(4).map(|w| format!("{:08x}", u32::from_le_bytes(w.try_into().unwrap()))).collect();
        text + &format!("{:#010x}: {}\n", RAM + 16 * i as u64, words.join(" "))
    });
    let words = files.put("words.log", words);
    issue(&format!("last {words}"), "inferred", "dump-byte-order", "their byte order is not known");
}

// Finding the trace.

#[test]
fn no_trace_to_be_found() {
    let files = Files::new("find");
    let zeros = files.put("zeros.bin", vec![0; 4096]);
    error(&format!("last {zeros}"), 1, "no-trace", "no trace header in its 4096 bytes");
    error(&format!("last --image {zeros}@0"), 1, "no-trace-symbol", "no symbol gives the address of the trace");
    error(&format!("last --header 0x100 --image {zeros}@0"), 1, "header-zero", "all zero");
    error("last --trace cm3.truth.tsv", 1, "not-a-trace", "does not begin with a trace header, and holds none");
    error("last --trace cm3.ram.bin", 2, "not-a-trace", "one is at offset");
    // Its magic, and nothing else.
    let mut bytes = buffer(40).bytes();
    bytes[8..48].fill(0xA5);
    let damaged = files.put("damaged.trx", &bytes);
    error(&format!("last --trace {damaged}"), 2, "header-damaged", "contradicts itself");
    let outside = "last --header 0x10 --image cm3.ram.bin@0x20000000";
    error(outside, 2, "header-outside-memory", "no memory at 0x10");
    // A small logger without its buffer.
    let state = files.put("state.bin", &fixture_bytes("uia-min.ram.bin")[..32]);
    let alone = format!("last --format-in uia --header {RAM:#x} --image {state}@{RAM:#x}");
    error(&alone, 2, "header-outside-memory", "is not in this memory");
}

/// "The trace was not enabled since the last start", of a dump that had not read the target's memory.
#[test]
fn a_dump_of_zeros_was_taken_for_memory_without_a_trace() {
    let files = Files::new("blank");
    let [zeros, erased] = [0, 0xFF].map(|byte| files.put(&format!("{byte:x}.bin"), vec![byte; 4096]));
    let beside = format!("last cm3.elf cm3.ram.bin@{RAM:#x}");
    issue(&format!("{beside} {zeros}@0x30000000"), "inferred", "dump-blank", "all of its 4096 bytes are 0x00");
    issue(&format!("{beside} {erased}@0x30000000"), "inferred", "dump-blank", "all of its 4096 bytes are 0xff");
    let out = run(&format!("last cm3.elf {zeros}@{RAM:#x}"));
    assert!(talk(&out).contains("may not have read the target's memory"), "{}", talk(&out));
    error(&format!("last cm3.elf {zeros}@{:#x}", RAM + 0x2000), 1, "never-enabled", ", or this memory was not read");
    // A part of the memory may hold nothing.
    let short = files.put("short.bin", vec![0; 4095]);
    let out = run(&format!("{beside} {short}@0x30000000"));
    assert!(!talk(&out).contains("may not have read"), "{}", talk(&out));
}

#[test]
fn a_trace_from_before_the_start() {
    let files = Files::new("left-over");
    let mut ram = fixture_bytes("cm3.ram.bin");
    let at = (symbol(&fixture("cm3.elf"), "_tx_trace_header_ptr") - RAM) as usize;
    ram[at..at + 4].fill(0);
    let ram = files.put("ram.bin", ram);
    issue(&format!("last cm3.elf {ram}@{RAM:#x}"), "inferred", "left-over", "left over from before the last start");
}

#[test]
fn a_trace_in_pieces_is_no_single_file() {
    let files = Files::new("pieces");
    for source in ["uia-stop.elf uia-stop.ram.bin", "qnx-ring.bin"] {
        let out = run(&format!("dump -o {} {source}", files.path("x.trx")));
        // `dump` has no JSON: its sentence tells.
        let code = "in-pieces";
        let sentence = "error: this trace is in 3 pieces: a .trx holds one\n";
        assert!(talk(&out).contains(sentence), "{code}: {}", talk(&out));
        assert_eq!(out.status.code(), Some(2));
        assert!(!Path::new(&files.path("x.trx")).exists());
    }
}

// ThreadX.

#[test]
fn holes_in_a_threadx_trace() {
    let files = Files::new("holes");
    let b = buffer(40);
    let bytes = b.bytes();
    let (ring, slot) = ((b.ring() - RAM) as usize, (b.current_address() - RAM) as usize);
    let piece = |name: &str, from: usize, to: usize| {
        format!("--image {}@{:#x}", files.put(name, &bytes[from..to]), RAM + from as u64)
    };
    let at = format!("last --header {RAM:#x}");
    let head = piece("head.bin", 0, 48);
    let rest = piece("rest.bin", ring, bytes.len());
    issue(&format!("{at} {head} {rest}"), "lost", "registry-unreadable", "2 registry entries cannot be read");
    let (before, after) = (piece("before.bin", 0, slot), piece("after.bin", slot + 32, bytes.len()));
    let hole = format!("list --header {RAM:#x} {before} {after}");
    issue(&hole, "inferred", "wrap-unknown", "it is assumed that the ring has wrapped");
    issue(&hole, "lost", "ring-unreadable", "1 of 32 event slots cannot be read");
    // Neither a pointer nor an event.
    let mut headless = bytes[..ring].to_vec();
    headless[32..36].copy_from_slice(&0x1234u32.to_le_bytes());
    let headless = files.put("headless.bin", headless);
    let none = format!("list --header {RAM:#x} --image {headless}@{RAM:#x}");
    issue(&none, "inferred", "order-unknown", "no event shows where the ring begins");
}

#[test]
fn a_registry_that_cannot_be() {
    let files = Files::new("registry");
    let mut bytes = buffer(40).bytes();
    bytes[18..20].fill(0);
    let sizeless = files.put("sizeless.trx", bytes);
    issue(&format!("last {sizeless}"), "inferred", "name-size", "the header says object names have 0 bytes");
    let mut large = buffer(40);
    large.name_size = 4;
    large.objects = vec![Registered::new(2, 0x2000_9000, "t"); 65_537];
    let large = files.put("large.trx", large.bytes());
    issue(&format!("last {large}"), "lost", "registry-too-large", "claims 65537 objects; the first 65536 are read");
}

// UIA and QNX.

#[test]
fn snapshots_and_wide_targets() {
    let files = Files::new("uia");
    let mut lap = Lap::new(true, false, 0x2000_0020, 1024);
    (0..4).for_each(|i| lap.log(&Ev::new(8, 0x100, 0x8001, 0, &[i])));
    // The first of two records: the second was never written.
    lap.log(&snapshot(&Ev::new(12, 0x777, 0x8002, 9, &[]), 5, 0x2000_0000, &[7; 100], 64)[0]);
    (0..4).for_each(|i| lap.log(&Ev::new(8, 0x100, 0x8001, 0, &[i])));
    let ram = Ram::new(0x2000_0000).put(0x2000_0000, &lap.state()).put(lap.base, &lap.mem);
    let ram = files.put("ram.bin", ram.bytes);
    let line = format!("list --format-in uia --header {RAM:#x} --image {ram}@{RAM:#x}");
    issue(&line, "lost", "snapshot-incomplete", "1 snapshot holds less data than stated");
    let wide = format!("list --format-in uia --elf host.elf --image uia-min.ram.bin@{RAM:#x} --header {RAM:#x}");
    issue(&wide, "inferred", "layout-inferred", "arguments are assumed to have eight bytes");
}

#[test]
fn rings_with_parts_missing() {
    let files = Files::new("qnx");
    let ring = fixture_bytes("qnx-ring.bin");
    let cut = files.put("cut.bin", &ring[..2 * BUFFER]);
    issue(&format!("list {cut}"), "lost", "ring-open", "the ring is cut off there");
    let mut timeless = Kernel::new(1, 100);
    for i in 0..20 {
        timeless.raw(0, 0, 4, 24, 1000 + i, 1, 1);
    }
    let timeless_at = files.put("timeless.bin", timeless.bytes());
    issue(&format!("list {timeless_at}"), "inferred", "high-word-unknown", "no control event gives the high word");
    let mut strange = timeless.clone();
    strange.raw(0, 0, 9, 900, 2000, 1, 1);
    let strange = files.put("strange.bin", strange.bytes());
    issue(&format!("list {strange}"), "note", "unknown-event", "are not in the table of this release");
    let mut broken = timeless;
    broken.raw(0, 0, 4 | 1 << 12, 24, 2000, 1, 1);
    let broken = files.put("broken.bin", broken.bytes());
    issue(&format!("list {broken}"), "lost", "event-damaged", "bits are set that mean nothing");
}

// The stub.

/// Serves memory once, and asks it.
fn served(blocks: Vec<(u64, Vec<u8>)>, line: &str) -> Output {
    let server = Server::on_loopback().unwrap();
    let address = server.address().unwrap();
    let serving = std::thread::spawn(move || {
        let blocks = blocks.into_iter().map(|(at, bytes)| Block::whole(at, Bytes::from(bytes))).collect();
        let _ = server.serve_one(&mut Segments::new(blocks));
    });
    let out = run(&format!("{line} --remote {address} --leave halted --format json"));
    serving.join().unwrap();
    out
}

#[test]
fn a_live_trace_that_has_just_begun() {
    let out = served(vec![(RAM, buffer(5).bytes())], &format!("list --header {RAM:#x}"));
    is_issue("5 events", &out, "note", "just-begun", "the trace holds only 5 events");
}

#[test]
fn a_stub_that_does_not_tell_where_the_program_lies() {
    let out = served(vec![(RAM, buffer(40).bytes())], &format!("list --header {RAM:#x} --elf host.elf"));
    is_issue("PIE", &out, "inferred", "load-offset-unknown", "its load address is not known");
}

#[test]
fn stubs_that_fail() {
    let line = |stub: Stub| format!("last --header {:#x} --timeout 0.4 --remote 127.0.0.1:{}", RAM, stub.start().port);
    // The first three answers are those of the handshake.
    error(&line(Stub { closes_at: 4, ..Stub::default() }), 2, "source-failed", "the stub closed the connection");
    error(&line(Stub { silent: true, ..Stub::default() }), 2, "no-answer", "within 400ms");
    // It waits for the first question, knows no feature, and then runs on, deaf.
    let out = program()
        .args([
            "last",
            "--timeout",
            "0.3",
            "--format",
            "json",
            "--remote",
            "|head -c 20 >/dev/null; printf '+$#00'; sleep 20",
        ])
        .output()
        .unwrap();
    is_error("deaf", &out, 2, "target-runs", "did not stop within 300ms");
}

#[test]
fn a_stub_that_nobody_waits_for() {
    let stub = Stub { swallows: 4, ..Stub::default() }.start();
    let remote = format!("127.0.0.1:{}", stub.port);
    let child = program()
        .args(["last", "--header", "0x20000000", "--timeout", "60", "--format", "json", "--remote", &remote])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    machine::wait_for("the read", || !stub.reads().is_empty());
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let out = child.wait_with_output().unwrap();
    is_error("Ctrl-C", &out, 2, "interrupted", "interrupted");
    // Before it has answered at all.
    let stub = Stub { silent: true, ..Stub::default() }.start();
    let remote = format!("127.0.0.1:{}", stub.port);
    let child = program()
        .args(["last", "--header", "0x20000000", "--timeout", "60", "--format", "json", "--remote", &remote])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    machine::wait_for("the first byte", || stub.log.lock().unwrap().first_byte.is_some());
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    is_error("Ctrl-C", &child.wait_with_output().unwrap(), 2, "interrupted", "interrupted");
}

#[cfg(target_os = "linux")]
#[test]
#[allow(unsafe_code, reason = "a queue that is full, and a line that stands still, are not to be had from std")]
fn links_that_take_nothing() {
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
    use std::time::Duration;

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    // SAFETY: a plain call on a descriptor that is ours.
    assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 0) }, 0);
    let address: SocketAddr = listener.local_addr().unwrap();
    let mut held = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(200)) {
        held.push(stream);
        assert!(held.len() < 64, "the queue is never full");
    }
    error(&format!("last --timeout 0.3 --remote {address}"), 2, "connect-timeout", "300ms");

    // SAFETY: plain calls on descriptors that are checked; ptsname's buffer is copied before the next call, and no
    // other thread of this program calls it.
    let (_host, _line, path) = unsafe {
        let host = libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY);
        assert!(host >= 0 && libc::grantpt(host) == 0 && libc::unlockpt(host) == 0);
        let name = std::ffi::CStr::from_ptr(libc::ptsname(host)).to_owned();
        let line = libc::open(name.as_ptr(), libc::O_RDWR | libc::O_NOCTTY);
        assert!(line >= 0 && libc::tcflow(line, libc::TCOOFF) == 0);
        (OwnedFd::from_raw_fd(host), OwnedFd::from_raw_fd(line), name.into_string().unwrap())
    };
    error(&format!("last --timeout 0.3 --remote {path}"), 2, "link-failed", "it accepted no bytes within 300ms");
}

// Output.

#[test]
fn output_that_goes_nowhere() {
    // Neither has a place for JSON: "output" is recognized by its sentence.
    for (out, sentence) in [
        (
            run("last cm3.trx --format json -o no/such/dir/x"),
            "error: no/such/dir/x: the directory no/such/dir does not exist",
        ),
        (
            run("dump cm3.trx -o no/such/dir/x.trx"),
            "error: no/such/dir/x.trx: the directory no/such/dir does not exist",
        ),
    ] {
        assert!(talk(&out).contains(sentence), "{}", talk(&out));
        assert_eq!((out.status.code(), out.stdout.len()), (Some(2), 0), "output");
    }
    // `broken-pipe`: a reader that has seen enough is reported nothing.
    let code = "broken-pipe";
    let mut child =
        program().args(["events", "--format", "json"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut [0; 10]).unwrap();
    drop(out);
    let out = child.wait_with_output().unwrap();
    assert_eq!((out.status.code(), talk(&out).as_str()), (Some(0), ""), "{code}");
}

#[test]
fn no_place_to_install_to_and_no_port_to_serve_at() {
    let out = program().args(["gdb", "--install"]).env_remove("HOME").env_remove("XDG_DATA_HOME").output().unwrap();
    assert_eq!(out.status.code(), Some(2), "install");
    assert!(talk(&out).starts_with("error: neither HOME nor XDG_DATA_HOME says where to install\n"), "{}", talk(&out));
    // No descriptor beyond three: libraries are loaded by the first, which is closed; the listener's is one too many.
    let mut shell = Command::new("sh");
    shell.args(["-c", "exec 0<&-; ulimit -n 3; exec \"$0\" demo --format json", env!("CARGO_BIN_EXE_tx-trace")]);
    is_error("demo", &shell.output().unwrap(), 2, "demo", "no port of 127.0.0.1");
}

#[test]
fn a_kernel_by_its_symbols_alone() {
    let elf = fixture("cm3.elf");
    let names =
        ["_tx_thread_created_ptr", "_tx_thread_created_count", "_tx_thread_current_ptr", "_tx_mutex_created_ptr"];
    let symbols: Vec<String> = names.iter().map(|n| format!("--symbol {n}={:#x}", symbol(&elf, n))).collect();
    let line = format!("threads {} --image cm3.ram.bin@0x20000000", symbols.join(" "));
    issue(&line, "inferred", "cpu-inferred", "the processor is assumed to be one");
    issue(&line, "inferred", "kernel-layout", "the layout of the ports for Cortex-M");
    issue(&format!("{line} --reg rip=1"), "note", "reg-unused", "no such register of Cortex-M");
    issue("threads smp.elf smp.core", "note", "no-saved-frame", "no saved frame at ");
    error("threads --trace cm3.trx", 2, "no-kernel-symbol", "a trace buffer alone holds no threads");
}

/// The stamps of such a clock were called damaged, or the clock set back.
#[test]
fn a_clock_of_ticks_and_a_counter() {
    let files = Files::new("tick-clock");
    let tick = |n: u64| {
        let handler = |id, at| Entry::isr(0, id, at, [0x2000_8000, 15, 0, 0]);
        let begins = handler(3, (n - 1) * 25_000 + 12);
        [begins, handler(4, n * 25_000 + 180), Entry::thread(0x2000_9000, 5, 4096, n * 25_000 + 9_000, [n, 0, 0, 0])]
    };
    let all: Vec<Entry> = (10..40).flat_map(tick).collect();
    let mut buffer = Buffer::new(RAM).record(all.len() + 1, &all);
    buffer.objects = vec![Registered::new(1, 0x2000_9000, "worker")];
    let image = files.put("ring.bin", buffer.bytes());
    let sentence = "is made of a count of ticks and of a counter";
    issue(&format!("last --image {image}@{RAM:#x}"), "inferred", "clock-of-ticks", sentence);
}
