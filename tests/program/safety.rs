//! What must not happen to files, to pipes and to a target, whatever goes wrong.

#![cfg(all(feature = "cli", unix))]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::machine::{Qemu, Scratch, fixture, installed, said, tx_trace, wait_for};
use tx_trace::rsp::{Client, Endpoint, Leave, Options};

/// Every command with every format that it prints.
const PRINTS: &[&str] = &[
    "list",
    "list --format json",
    "list --format csv",
    "last 250 --width 200",
    "show 0 1 2 3",
    "objects",
    "objects --use",
    "info",
    "info --format json",
    "report",
    "report --format json",
    "report --format csv",
    "report --format md",
    "report --tracex",
];

fn command(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tx-trace"));
    command.args(line.split(' ')).env_remove("TX_TRACE_ELF").env_remove("TX_TRACE_REMOTE");
    command.stdin(Stdio::null());
    command
}

#[test]
fn an_input_is_never_written_by_whatever_name() {
    let scratch = Scratch::new("by-any-name");
    let whole = std::fs::read(fixture("cm3.trx")).unwrap();
    let trace = scratch.path("crash.trx");
    std::fs::write(&trace, &whole).unwrap();
    std::fs::create_dir(scratch.path("sub")).unwrap();
    let (hard, soft, around) = (scratch.path("hard.trx"), scratch.path("soft.trx"), scratch.path("sub/../crash.trx"));
    std::fs::hard_link(&trace, &hard).unwrap();
    std::os::unix::fs::symlink("crash.trx", &soft).unwrap();
    for output in [&trace, &hard, &soft, &around] {
        for line in PRINTS.iter().copied().chain(["dump"]) {
            let out = command(line).arg(&trace).arg("-o").arg(output).output().unwrap();
            assert_eq!(out.status.code(), Some(2), "{line} -o {}: {}", output.display(), said(&out));
            assert!(said(&out).contains("which is an input"), "{line}: {}", said(&out));
        }
        assert!(std::fs::read(&trace).unwrap() == whole, "{}", output.display());
    }
}

#[test]
fn a_file_is_there_whole_or_not_at_all() {
    let scratch = Scratch::new("whole");
    let trace = fixture("cm3.trx");
    let old = scratch.path("table");
    std::fs::write(&old, "what was here before").unwrap();
    // What fails leaves what was there, and nothing beside it.
    let out = command("list --from nonsense").arg(&trace).arg("-o").arg(&old).output().unwrap();
    assert_eq!(out.status.code(), Some(2), "{}", said(&out));
    let out = command("list --thread nobody").arg("/no/such/file").arg("-o").arg(&old).output().unwrap();
    assert_eq!(out.status.code(), Some(2), "{}", said(&out));
    assert_eq!(std::fs::read_to_string(&old).unwrap(), "what was here before");
    // A file may be no larger than 4 KiB: the disk is full, for this program.
    let limited = format!("ulimit -f 8; trap '' XFSZ; exec {} \"$@\"", env!("CARGO_BIN_EXE_tx-trace"));
    let mut sh = Command::new("sh");
    sh.args(["-c", &limited, "sh", "list"]).arg(&trace).arg("-o").arg(&old);
    let out = sh.output().unwrap();
    assert_eq!(out.status.code(), Some(2), "{}", said(&out));
    assert_eq!(std::fs::read_to_string(&old).unwrap(), "what was here before");
    assert_eq!(std::fs::read_dir(scratch.path(".")).unwrap().count(), 1, "half a file is left");
}

#[test]
fn a_full_disk_is_an_error_and_a_closed_pipe_is_none() {
    let trace = fixture("cm3.trx");
    for line in PRINTS.iter().copied() {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let out = command(line).arg(&trace).stdout(full).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(out.status.code(), Some(2), "{line}: {}", said(&out));
        assert!(said(&out).contains("no space left"), "{line}: {}", said(&out));
        let out = command(line).arg(&trace).args(["-o", "/dev/full"]).output().unwrap();
        assert_eq!(out.status.code(), Some(2), "{line} -o: {}", said(&out));
        // A reader that goes before anything was written.
        let mut child = command(line).arg(&trace).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let out = child.wait_with_output().unwrap();
        assert_eq!(out.status.code(), Some(0), "{line}: {}", said(&out));
        assert!(!said(&out).contains("pipe"), "{line}: {}", said(&out));
    }
}

#[test]
fn no_byte_of_a_target_reaches_a_terminal_as_it_is() {
    let scratch = Scratch::new("terminal");
    let mut bytes = std::fs::read(fixture("cm3.trx")).unwrap();
    // Every name in the registry: 24 entries of 48 bytes behind a header of 48, the name in the last 32.
    let evil = b"\x1b]0;owned\x07\x1b[2J\r\n\t\x9b31m\xe2\x80\xae\x7f\0";
    for entry in 0..24 {
        let at = 48 + entry * 48 + 16;
        bytes[at..at + evil.len()].copy_from_slice(evil);
    }
    let trace = scratch.path("evil.trx");
    std::fs::write(&trace, &bytes).unwrap();
    for line in PRINTS.iter().copied() {
        let out = command(line).arg(&trace).output().unwrap();
        for text in [&out.stdout, &out.stderr] {
            let raw = text.iter().filter(|b| **b < 0x20 && **b != b'\n' || **b == 0x7F).count();
            let text = String::from_utf8(text.clone()).unwrap();
            assert!(raw == 0 && !text.contains(['\u{202e}', '\u{9b}']), "{line}: {text}");
        }
        assert!(
            String::from_utf8_lossy(&out.stdout).contains("owned") || !matches!(line, "list" | "objects"),
            "{line}"
        );
    }
}

/// Names of the target were formulas in a spreadsheet, and links and mentions on GitHub.
#[test]
fn names_of_the_target_do_nothing_in_csv_and_markdown() {
    let scratch = Scratch::new("inert");
    let trace = scratch.path("evil.trx");
    let whole = std::fs::read(fixture("cm3.trx")).unwrap();
    for evil in
        ["=HYPERLINK(1)", "+1+cmd", "-1+cmd", "@SUM(A1)", "@octocat", "#1", "www.evil.example", "http://a.b", "<b>"]
    {
        let mut bytes = whole.clone();
        for entry in 0..24 {
            let at = 48 + entry * 48 + 16;
            bytes[at..at + evil.len()].copy_from_slice(evil.as_bytes());
            bytes[at + evil.len()] = 0;
        }
        std::fs::write(&trace, &bytes).unwrap();
        for line in PRINTS.iter().filter(|line| line.ends_with("csv")) {
            let out = command(line).arg(&trace).output().unwrap();
            let text = String::from_utf8(out.stdout).unwrap();
            assert!(text.contains(evil), "{line} {evil}");
            for cell in text.lines().flat_map(|l| l.split(',')).map(|c| c.trim_start_matches('"')) {
                let inert = !cell.starts_with(['=', '+', '-', '@']) || cell.parse::<f64>().is_ok();
                assert!(inert, "{line} {evil}: {cell}");
            }
        }
        let out = command("report --format md").arg(&trace).output().unwrap();
        let text = String::from_utf8(out.stdout).unwrap();
        // What is outside code spans. A sum in a spreadsheet is plain text here.
        let outside: String = text.split('`').step_by(2).collect();
        let is_live = !evil.starts_with(['=', '+', '-']);
        assert!(text.contains(evil) && !(is_live && outside.contains(evil)), "{evil}: {text}");
        assert!(!text.contains("\\_"), "{text}");
    }
}

/// What the test and a proxy tell each other.
#[derive(Default)]
struct HeldUp {
    /// The first request for memory has come, and waits.
    waits: AtomicBool,
    /// It may go on.
    goes_on: AtomicBool,
}

/// Passes bytes both ways; the first request for memory waits until it may go on.
fn held_up(upstream: String) -> (String, Arc<HeldUp>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let held_up = Arc::new(HeldUp::default());
    let ours = Arc::clone(&held_up);
    std::thread::spawn(move || {
        let Ok((mut client, _)) = listener.accept() else { return };
        let mut stub = TcpStream::connect(upstream).unwrap();
        let (mut back, mut to) = (stub.try_clone().unwrap(), client.try_clone().unwrap());
        std::thread::spawn(move || {
            let _ = std::io::copy(&mut back, &mut to);
            let _ = to.shutdown(Shutdown::Both);
        });
        let mut buf = [0; 4096];
        while let Ok(n @ 1..) = client.read(&mut buf) {
            if buf[..n].windows(2).any(|w| w == b"$m") && !ours.waits.swap(true, Ordering::SeqCst) {
                wait_for("the signal", || ours.goes_on.load(Ordering::SeqCst));
            }
            if stub.write_all(&buf[..n]).is_err() {
                return;
            }
        }
        let _ = stub.shutdown(Shutdown::Both);
    });
    (address, held_up)
}

#[test]
fn a_signal_while_attached_leaves_the_target_as_it_should_be_left() {
    require!(installed("qemu-system-arm"));
    let elf = fixture("cm3.elf");
    for (signal, leave, runs) in
        [("INT", "running", true), ("TERM", "halted", false), ("TERM", "running", true), ("INT", "as-found", true)]
    {
        let qemu = Qemu::dead(&elf);
        let (remote, held_up) = held_up(qemu.remote());
        let mut child = command("list --timeout 20 --leave")
            .arg(leave)
            .arg("--elf")
            .arg(&elf)
            .args(["--remote", &remote])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        wait_for("the first read", || held_up.waits.load(Ordering::SeqCst));
        assert!(
            Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status().unwrap().success()
        );
        held_up.goes_on.store(true, Ordering::SeqCst);
        let mut text = String::new();
        child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        let code = child.wait().unwrap().code();
        assert_eq!(code, Some(2), "{signal} {leave}: {text}");
        assert!(text.contains("interrupted"), "{signal} {leave}: {text}");
        let endpoint = Endpoint::parse(&qemu.remote()).unwrap();
        let options = Options { leave: Leave::Halted, timeout: Duration::from_secs(10), ..Options::default() };
        let client = Client::connect(&endpoint, options).unwrap();
        // QEMU before 8 tells it by a stop reply that nobody asked for; later ones do not tell.
        let out = Command::new("qemu-system-arm").arg("--version").output().unwrap();
        let version = String::from_utf8_lossy(&out.stdout).into_owned();
        let major: u32 = version.split("version ").nth(1).and_then(|v| v.split('.').next()?.parse().ok()).unwrap();
        if major < 8 {
            assert_eq!(client.found_running(), runs, "{signal} {leave}: {text}");
        }
    }
}

#[test]
fn the_device_that_takes_nothing_is_still_there() {
    let out = tx_trace(&["list", fixture("cm3.trx").to_str().unwrap(), "-o", "/dev/null"]);
    assert!(out.status.success(), "{}", said(&out));
    use std::os::unix::fs::FileTypeExt as _;
    assert!(std::fs::metadata("/dev/null").unwrap().file_type().is_char_device());
}
