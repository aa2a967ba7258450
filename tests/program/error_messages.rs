//! What is said of bad input, bad stubs and mistyped names, and the exit code.

#![cfg(feature = "cli")]

use crate::support::machine;

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};

use crate::support::machine::{Scratch, fixture, said, text, tx_trace};

/// A stub that answers each request as it is reported.
fn stub(answers: Vec<(&'static str, Vec<u8>)>) -> String {
    stub_that_reports(answers).0
}

/// The same, and each request that came.
fn stub_that_reports(answers: Vec<(&'static str, Vec<u8>)>) -> (String, Receiver<String>) {
    let (report, requests) = channel();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        let Ok((mut link, _)) = listener.accept() else { return };
        let mut came = Vec::new();
        let mut buf = [0; 4096];
        while let Ok(n @ 1..) = link.read(&mut buf) {
            came.extend_from_slice(&buf[..n]);
            while let Some(end) = came.iter().position(|b| *b == b'#').filter(|end| came.len() >= end + 3) {
                let packet: Vec<u8> = came.drain(..end + 3).collect();
                let start = packet.iter().position(|b| *b == b'$').unwrap_or(0);
                let body = text(&packet[start + 1..packet.len() - 3]);
                // Not everybody wants to know.
                let _ = report.send(body.clone());
                let answer = answers.iter().find(|(request, _)| body.starts_with(request));
                let answer = answer.map_or_else(|| framed(b"", b'$'), |(_, answer)| answer.clone());
                if link.write_all(b"+").and_then(|()| link.write_all(&answer)).is_err() {
                    return;
                }
            }
        }
    });
    (address, requests)
}

fn framed(body: &[u8], start: u8) -> Vec<u8> {
    let sum = body.iter().fold(0u8, |sum, b| sum.wrapping_add(*b));
    [&[start][..], body, format!("#{sum:02x}").as_bytes()].concat()
}

fn greets() -> Vec<(&'static str, Vec<u8>)> {
    vec![("qSupported", framed(b"PacketSize=400;vContSupported+", b'$')), ("?", framed(b"S05", b'$'))]
}

#[test]
fn a_flood_of_notifications_was_called_a_packet_without_end() {
    let mut answers = greets();
    answers.push(("m", framed(b"Stop:T05thread:01;", b'%').repeat(20_000)));
    let remote = stub(answers);
    let elf = fixture("cm3.elf");
    let words = ["list", "--elf", elf.to_str().unwrap(), "--remote", &remote, "--timeout", "0.4", "--leave", "halted"];
    let out = tx_trace(&words);
    assert_eq!(out.status.code(), Some(2));
    assert!(!said(&out).contains("without end"), "{}", said(&out));
    assert!(said(&out).contains("keeps sending notifications"), "{}", said(&out));
}

#[test]
fn the_stubs_own_words_in_a_refusal_were_dropped() {
    let mut answers = greets();
    answers.push(("m", framed(b"E.the core is\x1b[2J asleep", b'$')));
    let remote = stub(answers);
    let elf = fixture("cm3.elf");
    let words = ["list", "--elf", elf.to_str().unwrap(), "--remote", &remote, "--leave", "halted"];
    let out = tx_trace(&words);
    assert_eq!(out.status.code(), Some(2));
    assert!(said(&out).contains("the stub says `the core is\\x1b[2J asleep`"), "{}", said(&out));
}

#[test]
fn ctrl_c_during_reads_had_the_code_of_a_broken_source_and_waited_on() {
    let mut answers = greets();
    // It never ends: the client waits for it.
    answers.push(("m", b"$00".to_vec()));
    let (remote, requests) = stub_that_reports(answers);
    let elf = fixture("cm3.elf");
    let began = std::time::Instant::now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_tx-trace"))
        .args(["list", "--elf", elf.to_str().unwrap(), "--remote", &remote, "--timeout", "60", "--format", "json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let asked = std::iter::from_fn(|| requests.recv_timeout(std::time::Duration::from_secs(30)).ok());
    assert!(asked.into_iter().any(|request| request.starts_with('m')), "it reads memory");
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let mut out = String::new();
    child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(2));
    assert!(out.contains(r#""code":"interrupted""#), "{out}");
    // It was asked to be patient for a minute with a stub that answers, not with a user who has enough.
    assert!(began.elapsed() < std::time::Duration::from_secs(45), "{:?}", began.elapsed());
}

#[test]
fn a_header_cut_short_was_not_said_to_be() {
    let scratch = Scratch::new("cut-header");
    let whole = std::fs::read(fixture("cm3.trx")).unwrap();
    for len in [4, 20, 47] {
        let path = scratch.path("cut.trx");
        std::fs::write(&path, &whole[..len]).unwrap();
        for words in [&["list"][..], &["list", "--trace"], &["info"]] {
            let out = tx_trace(&[words, &[path.to_str().unwrap()]].concat());
            assert_eq!(out.status.code(), Some(2), "{}", said(&out));
            let reported = format!("is cut short: {len} of the header's 48 bytes");
            assert!(said(&out).contains(&reported), "{}", said(&out));
        }
    }
}

#[test]
fn unreadable_slots_were_called_a_trace_without_events() {
    let scratch = Scratch::new("unreadable");
    let whole = std::fs::read(fixture("cm3.trx")).unwrap();
    let path = scratch.path("head.trx");
    std::fs::write(&path, &whole[..60]).unwrap();
    let out = tx_trace(&["list", path.to_str().unwrap()]);
    assert_eq!(out.status.code(), Some(1));
    assert!(said(&out).contains("no event of the trace can be read"), "{}", said(&out));
    assert!(!said(&out).contains("holds no event"), "{}", said(&out));
}

#[test]
fn a_number_of_times_was_reported_twice() {
    let scratch = Scratch::new("twice");
    let whole = std::fs::read(fixture("cm3.trx")).unwrap();
    let path = scratch.path("head.trx");
    std::fs::write(&path, &whole[..60]).unwrap();
    let out = tx_trace(&["list", path.to_str().unwrap()]);
    assert!(said(&out).contains("24 registry entries cannot be read"), "{}", said(&out));
    assert!(!said(&out).contains("24 times"), "{}", said(&out));
}

#[test]
fn no_such_event_in_the_catalogue_was_answered_with_silence() {
    let out = tx_trace(&["events", "9999999"]);
    assert_eq!(out.status.code(), Some(1));
    assert!(said(&out).contains("no event of the catalogue matches 9999999"), "{}", said(&out));
}

#[test]
fn the_class_of_the_applications_events_had_no_hint_how_they_are_named() {
    let out = tx_trace(&["events", "--class", "TX_TRACE_USER_EVENTS"]);
    assert_eq!(out.status.code(), Some(1));
    assert!(said(&out).contains("--elf FILE or --events FILE names"), "{}", said(&out));
}

#[test]
fn the_end_of_a_line_in_a_file_name_broke_the_line() {
    let scratch = Scratch::new("newline");
    let name = scratch.path("no\nsuch\x1b[2Jfile");
    let out = tx_trace(&["list", name.to_str().unwrap()]);
    assert_eq!(out.status.code(), Some(2));
    assert_eq!(said(&out).lines().count(), 1, "{}", said(&out));
    assert!(said(&out).contains("no\\nsuch\\x1b[2Jfile"), "{}", said(&out));
    // Where it exists, in what is said beside the data.
    std::fs::copy(fixture("cm3.trx"), &name).unwrap();
    let dump = scratch.path("a\nb.trx");
    let out = tx_trace(&["dump", name.to_str().unwrap(), "-o", dump.to_str().unwrap()]);
    assert!(out.status.success() && said(&out).lines().count() == 1, "{}", said(&out));
}

#[test]
fn gzip_in_gzip_was_no_trace() {
    let scratch = Scratch::new("gzip-twice");
    let pack = |bytes: &[u8]| {
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        out.write_all(bytes).unwrap();
        out.finish().unwrap()
    };
    let whole = std::fs::read(fixture("cm3.trx")).unwrap();
    let path = scratch.path("crash.trx.gz.gz");
    std::fs::write(&path, pack(&pack(&whole))).unwrap();
    let plain = tx_trace(&["list", fixture("cm3.trx").to_str().unwrap()]);
    let out = tx_trace(&["list", path.to_str().unwrap()]);
    assert!(out.status.success() && out.stdout == plain.stdout, "{}", said(&out));
    // Not for ever: a file may be made to unpack to itself.
    std::fs::write(&path, (0..6).fold(whole, |bytes, _| pack(&bytes))).unwrap();
    let out = tx_trace(&["list", path.to_str().unwrap()]);
    assert_eq!(out.status.code(), Some(2));
    assert!(said(&out).contains("compressed more than 3 times"), "{}", said(&out));
}

#[test]
fn a_bare_trace_was_said_to_be_found_by_an_option_that_nobody_typed() {
    let trace = fixture("cm3.trx");
    let out = tx_trace(&["info", trace.to_str().unwrap()]);
    let found = |out: &Output| text(&out.stdout).lines().find(|l| l.starts_with("found by")).unwrap().to_owned();
    assert!(!found(&out).contains("--header"), "{}", found(&out));
    let header = text(&out.stdout)
        .lines()
        .find(|l| l.starts_with("header"))
        .unwrap()
        .split_whitespace()
        .last()
        .unwrap()
        .to_owned();
    let out = tx_trace(&["info", trace.to_str().unwrap(), "--header", &header]);
    assert!(found(&out).contains("--header"), "{}", found(&out));
}

#[test]
fn a_file_name_that_is_no_text_was_refused() {
    let scratch = Scratch::new("name");
    let path = scratch.path("x").with_file_name(OsStr::from_bytes(b"crash\xff\xfe.trx"));
    std::fs::copy(fixture("cm3.trx"), &path).unwrap();
    for command in ["list", "last", "info", "report"] {
        let out = Command::new(env!("CARGO_BIN_EXE_tx-trace")).arg(command).arg(&path).output().unwrap();
        assert!(out.status.success(), "{command}: {}", said(&out));
    }
}

/// An older file stayed, and nobody said that it is not this report.
#[test]
fn an_older_report_was_left_in_place_without_a_word() {
    let scratch = Scratch::new("older");
    let file = scratch.path("report.txt");
    let name = file.display().to_string();
    let image = |stem: &str| format!("{}@0x20000000", fixture(&format!("{stem}.ram.bin")).display());
    let elf = |stem: &str| fixture(&format!("{stem}.elf")).display().to_string();
    for command in ["report", "last", "dump"] {
        let file = if command == "dump" { scratch.path("older.trx") } else { file.clone() };
        std::fs::write(&file, "older").unwrap();
        let name = file.display().to_string();
        let words = [command, "--elf", &elf("cm3-never"), "--image", &image("cm3-never"), "-o", &name];
        let out = tx_trace(&words);
        assert_eq!(out.status.code(), Some(1), "{}", said(&out));
        assert!(said(&out).contains(&format!("tx-trace: {name} is left as it was\n")), "{}", said(&out));
        assert_eq!(std::fs::read(&file).unwrap(), b"older");
    }
    // Where there was none, none is left.
    std::fs::remove_file(&file).unwrap();
    let words = ["report", "--elf", &elf("cm3-never"), "--image", &image("cm3-never"), "-o", &name];
    let out = tx_trace(&words);
    assert!(out.status.code() == Some(1) && !said(&out).contains("is left as it was"), "{}", said(&out));
    assert!(!file.exists());
    // What was found, with something lost in it, is there.
    std::fs::write(&file, "older").unwrap();
    let mut ram = std::fs::read(fixture("cm3.ram.bin")).unwrap();
    // The last slots of the ring are missing.
    let end = machine::symbol(&fixture("cm3.elf"), "trace_buffer") - 0x2000_0000 + 0x2000;
    ram.truncate(usize::try_from(end).unwrap());
    std::fs::write(scratch.path("ram.bin"), ram).unwrap();
    let damaged = format!("{}@0x20000000", scratch.path("ram.bin").display());
    let out = tx_trace(&["report", "--strict", "--elf", &elf("cm3"), "--image", &damaged, "-o", &name]);
    assert!(out.status.code() == Some(2) && !said(&out).contains("is left as it was"), "{}", said(&out));
    assert!(text(&std::fs::read(&file).unwrap()).contains("Processor time"), "{}", said(&out));
}

/// The option file was overwritten.
#[test]
fn an_option_file_was_no_input() {
    let scratch = Scratch::new("options");
    let (outer, inner) = (scratch.path("outer.txt"), scratch.path("inner.core"));
    let source =
        format!("--elf {}\n--image {}@0x20000000\n", fixture("cm3.elf").display(), fixture("cm3.ram.bin").display());
    std::fs::write(&inner, &source).unwrap();
    std::fs::write(&outer, "@inner.core\n").unwrap();
    let options = format!("@{}", outer.display());
    for (command, file) in [("last", &outer), ("last", &inner), ("report", &outer), ("dump", &inner)] {
        let before = std::fs::read(file).unwrap();
        let name = file.display().to_string();
        let out = tx_trace(&[command, &options, "-o", &name]);
        assert_eq!(out.status.code(), Some(2), "{command} {name}: {}", said(&out));
        assert!(said(&out).contains("which is an input; give another name"), "{}", said(&out));
        assert_eq!(std::fs::read(file).unwrap(), before);
    }
}

/// A command whose standard input is this.
fn piped(words: &[&str], bytes: &[u8]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tx-trace"));
    command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(bytes).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn a_dump_could_not_be_piped_in() {
    let bytes = std::fs::read(fixture("cm3.ram.bin")).unwrap();
    let elf = fixture("cm3.elf").display().to_string();
    let file = format!("{}@0x20000000", fixture("cm3.ram.bin").display());
    let read = tx_trace(&["list", "--elf", &elf, "--image", &file]);
    for image in ["-@0x20000000", "-"] {
        let out = piped(&["list", "--elf", &elf, "--image", image], &bytes);
        assert!(out.status.success() && out.stdout == read.stdout, "{image}: {}", said(&out));
    }
}

#[test]
fn n_is_an_option_too() {
    let trace = fixture("cm3.trx").display().to_string();
    let lines = |words: &[&str]| {
        let out = tx_trace(&[words, &["--format", "csv", &trace]].concat());
        assert!(out.status.success(), "{words:?}: {}", said(&out));
        text(&out.stdout).lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(lines(&["last", "-n", "7"]), lines(&["last", "7"]));
    assert_eq!(lines(&["last", "-n1200t"]), lines(&["last", "1200t"]));
    // The first that the filters keep, from a place on.
    assert_eq!(lines(&["list", "-n", "7"]), lines(&["list"])[..7]);
    let kept = lines(&["list", "--class", "queue", "--from", "100"]);
    assert_eq!(lines(&["list", "--class", "queue", "--from", "100", "-n", "3"]), kept[..3]);
}

/// The ELF of another build beside a live target: the first sentence was about eight bytes of memory.
#[test]
fn the_bytes_were_named_before_the_cause() {
    let path = |name: &str| fixture(name).display().to_string();
    let server = format!("|{} serve --stdio {} {}", env!("CARGO_BIN_EXE_tx-trace"), path("cm3.elf"), path("cm3.core"));
    let out = tx_trace(&["last", "--elf", &path("cm3-unwrapped.elf"), "--remote", &server, "--leave", "halted"]);
    assert_ne!(out.status.code(), Some(0));
    let said = said(&out);
    let error = said.lines().find(|line| line.starts_with("error: ")).unwrap();
    assert!(error.starts_with("error: ELF and memory do not match: "), "{said}");
    assert!(said.contains("tried: "), "{said}");
}

/// `last --reg zz=1` printed its events as if nothing had been typed.
#[test]
fn an_unknown_register_was_ignored_by_last() {
    let (elf, core) = (fixture("cm3.elf"), fixture("cm3.core"));
    let (elf, core, trace) = (elf.to_str().unwrap(), core.to_str().unwrap(), fixture("cm3.trx"));
    for command in ["last", "list", "info", "objects", "threads", "stats", "report"] {
        let out = tx_trace(&[command, "--reg", "zz=1", elf, core]);
        assert_eq!(out.status.code(), Some(2), "{command}");
        assert!(
            said(&out).starts_with("error: --reg zz=0x1: Cortex-M has no such register\nhint: its registers are r0,")
        );
        let out = tx_trace(&[command, "--reg", "pcc=1", elf, core]);
        assert!(
            out.status.code() == Some(2) && said(&out).contains("hint: did you mean pc or fpccr?"),
            "{}",
            said(&out)
        );
    }
    let out = tx_trace(&["last", "--reg", "pc=0x100000000", elf, core]);
    assert!(out.status.code() == Some(2) && said(&out).contains("too large for pc of Cortex-M"), "{}", said(&out));
    // Nothing shows which processor it is: a register of any will do.
    let trace = trace.to_str().unwrap();
    let out = tx_trace(&["last", "--reg", "rip=1", trace]);
    assert_eq!(out.status.code(), Some(0), "{}", said(&out));
    let out = tx_trace(&["last", "--reg", "zz=1", trace]);
    assert!(out.status.code() == Some(2) && said(&out).contains("no supported processor"), "{}", said(&out));
}

/// Of an ELF that was cut short on its way here names are missing, and only `info` said so.
#[test]
fn files_that_are_cut_short_were_used_without_a_word() {
    let files = Scratch::new("cut-short");
    let cut = |name: &str, len: usize| {
        let path = files.path(name);
        std::fs::write(&path, &std::fs::read(fixture(name)).unwrap()[..len]).unwrap();
        path.display().to_string()
    };
    let (elf, core) = (fixture("cm3.elf").display().to_string(), fixture("cm3.core").display().to_string());
    for command in ["last", "list", "stats", "threads"] {
        let out = tx_trace(&[command, &cut("cm3.elf", 12_000), &core]);
        assert!(out.status.success() && said(&out).contains("copy it again"), "{command}: {}", said(&out));
        let out = tx_trace(&[command, &elf, &cut("cm3.core", 41_500)]);
        assert!(out.status.success() && said(&out).contains("is cut short"), "{command}: {}", said(&out));
    }
}
