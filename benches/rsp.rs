//! A whole buffer of 64 KiB, and `last 50`, over real stubs: straight, and behind a link that adds 1 ms each way; beside
//! GDB's `dump binary memory` of the same bytes.
//!
//!     cargo bench --bench rsp
//!
//! Goals: `last 50` asks for memory in at most 5 round trips; from the connection to the last byte of the whole buffer at
//! most a quarter of GDB's time behind the long link on `serve`.

#![allow(missing_docs, clippy::restriction, reason = "a benchmark")]

mod support;
#[path = "../tests/support/mod.rs"]
mod targets;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use support::proxy::{Proxy, Tally};
use support::{fixture, goal, installed, kept, table, time, tx_trace};
use targets::machine::{Running, free_port, symbol, wait_for};

const RUNS: usize = 5;
/// Bytes of the buffer, and where QEMU's board has room for it.
const SIZE: usize = 64 << 10;
const PSRAM: u64 = 0x2100_0000;

/// A stub that serves the buffer.
struct Stub {
    name: &'static str,
    port: u16,
    header: u64,
    /// What GDB has to know of a stub that does not say.
    architecture: &'static str,
    _child: Vec<Running>,
}

fn quiet(command: &mut Command) -> Running {
    Running(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
}

/// Waits until it listens, without a connection: stubs take the first for their debugger.
fn listening(port: u16) {
    let wanted = format!(":{port:04X} ");
    wait_for("a port", || {
        let all = std::fs::read_to_string("/proc/net/tcp").unwrap_or_default();
        all.lines().any(|l| {
            l.split_whitespace().nth(1).is_some_and(|a| format!("{a} ").ends_with(&wanted)) && l.contains(" 0A ")
        })
    });
}

fn serve(buffer: &Path) -> Stub {
    let port = free_port();
    let image = format!("{}@{PSRAM:#x}", buffer.display());
    let listen = format!("127.0.0.1:{port}");
    let (elf, ram) = (fixture("cm3.elf"), format!("{}@0x20000000", fixture("cm3.ram.bin")));
    let words = ["serve", "--listen", &listen, "--elf", &elf, "--image", &ram, "--image", &image];
    let child = quiet(&mut tx_trace(&words));
    listening(port);
    Stub { name: "`tx-trace serve`", port, header: PSRAM, architecture: "set architecture auto", _child: vec![child] }
}

fn qemu(buffer: &Path) -> Option<Stub> {
    if !installed("qemu-system-arm") {
        return None;
    }
    let port = free_port();
    let mut command = Command::new("qemu-system-arm");
    command.args(["-M", "mps2-an385", "-display", "none", "-monitor", "none", "-serial", "none", "-gdb"]);
    command.arg(format!("tcp:127.0.0.1:{port}")).args(["-kernel", &fixture("cm3.elf"), "-device"]);
    command.arg(format!("loader,file={},addr={PSRAM:#x},force-raw=on", buffer.display()));
    let child = quiet(&mut command);
    listening(port);
    Some(Stub { name: "QEMU", port, header: PSRAM, architecture: "set architecture armv7", _child: vec![child] })
}

/// A process that holds the buffer and waits, with gdbserver attached.
fn gdbserver(buffer: &Path, dir: &Path) -> Option<Stub> {
    if !installed("gdbserver") || !installed("gcc") {
        return None;
    }
    let (c, program) = (dir.join("holder.c"), dir.join("holder"));
    let text = format!(
        r#"#include <unistd.h>
__asm__(".data; .balign 16; .globl buffer; buffer: .incbin \"{}\"; .text");
int main(void) {{ for (;;) pause(); }}
"#,
        buffer.display()
    );
    std::fs::write(&c, text).unwrap();
    assert!(Command::new("gcc").args(["-static", "-no-pie", "-o"]).args([&program, &c]).status().unwrap().success());
    let header = symbol(&program, "buffer");
    let process = quiet(&mut Command::new(&program));
    let port = free_port();
    let pid = process.0.id().to_string();
    let server = quiet(Command::new("gdbserver").args(["--multi", "--attach", &format!("127.0.0.1:{port}"), &pid]));
    listening(port);
    Some(Stub { name: "gdbserver", port, header, architecture: "set architecture auto", _child: vec![server, process] })
}

/// The quickest of some runs over a link.
fn quickest(proxy: &Proxy, mut command: impl FnMut() -> Command) -> Tally {
    let mut all: Vec<Tally> = Vec::new();
    for _ in 0..RUNS {
        let out = command().stdin(Stdio::null()).output().unwrap();
        assert!(out.status.success(), "{:?}: {}", out.status, String::from_utf8_lossy(&out.stderr));
        std::thread::sleep(Duration::from_millis(20));
        all.push(proxy.last());
    }
    all.into_iter().min_by_key(Tally::time).unwrap()
}

fn row(stub: &str, link: &str, what: &str, t: &Tally) -> Vec<String> {
    let cells = [stub.to_owned(), link.to_owned(), what.to_owned()];
    let numbers = [t.turns.to_string(), t.reads.to_string(), t.out.to_string(), t.back.to_string(), time(t.time())];
    cells.into_iter().chain(numbers).collect()
}

fn main() {
    let dir = kept().join("rsp");
    std::fs::create_dir_all(&dir).unwrap();
    let buffer: PathBuf = dir.join("buffer.trx");
    support::events::make(&buffer, SIZE / support::events::ENTRY - 24);
    let size = std::fs::metadata(&buffer).unwrap().len();
    let (ours, theirs) = (dir.join("ours.trx"), dir.join("theirs.bin"));
    let mut rows = Vec::new();
    let mut reads = 0;
    let mut part = None;
    type Start<'a> = Box<dyn Fn() -> Option<Stub> + 'a>;
    let starts: [Start<'_>; 3] =
        [Box::new(|| Some(serve(&buffer))), Box::new(|| qemu(&buffer)), Box::new(|| gdbserver(&buffer, &dir))];
    for start in &starts {
        for (link, delay) in [("straight", Duration::ZERO), ("1 ms each way", Duration::from_millis(1))] {
            let Some(stub) = start() else { continue };
            let proxy = Proxy::before(stub.port, delay);
            let remote = format!("127.0.0.1:{}", proxy.port);
            let header = format!("{:#x}", stub.header);
            // It stays halted, and gdbserver stays.
            let words = ["--remote", &remote, "--header", &header, "--leave", "halted"];
            let last = quickest(&proxy, || tx_trace(&[&["last", "50"], &words[..]].concat()));
            reads = reads.max(last.reads);
            rows.push(row(stub.name, link, "`last 50`", &last));
            let file = ours.display().to_string();
            let whole = quickest(&proxy, || tx_trace(&[&["dump", "-o", &file], &words[..]].concat()));
            assert_eq!(std::fs::metadata(&ours).unwrap().len(), size, "the whole buffer");
            rows.push(row(stub.name, link, "`dump`", &whole));
            if installed("gdb-multiarch") {
                let target = format!("target remote {remote}");
                let dump =
                    format!("dump binary memory {} {:#x} {:#x}", theirs.display(), stub.header, stub.header + size);
                let gdb = quickest(&proxy, || {
                    let mut command = Command::new("gdb-multiarch");
                    command.args([
                        "-nx",
                        "-batch",
                        "-ex",
                        stub.architecture,
                        "-ex",
                        &target,
                        "-ex",
                        &dump,
                        "-ex",
                        "disconnect",
                    ]);
                    command
                });
                rows.push(row(stub.name, link, "GDB's `dump binary memory`", &gdb));
                if stub.name == "`tx-trace serve`" && !delay.is_zero() {
                    part = Some(whole.time().as_secs_f64() / gdb.time().as_secs_f64());
                }
            }
        }
    }
    println!(
        "A buffer of {size} bytes; the quickest of {RUNS} runs, from the connection to the last byte, handshake and \
         detach included.\n"
    );
    table(&["stub", "link", "what", "round trips", "of them reads", "bytes out", "bytes back", "time"], &rows);
    goal("`last 50` reads in at most 5 round trips", reads <= 5, &reads.to_string());
    if let Some(part) = part {
        goal(
            "the whole buffer in a quarter of GDB's time, 1 ms each way, on `serve`",
            part <= 0.25,
            &format!("{part:.2}"),
        );
    }
}
