//! A big-endian target from every source: its core, and live in QEMU's user mode, whose stub is a real one.

#![cfg(feature = "cli")]

use crate::support::machine;

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Command, Stdio};

use crate::support::builder::{Buffer, Entry};
use crate::support::machine::{Running, Scratch, fixture, free_port, installed, tx_trace, wait_for};

/// Sends a packet, and waits for a reply that is none of the acknowledgements.
fn ask(stub: &mut TcpStream, payload: &str) -> String {
    let sum = payload.bytes().fold(0u8, u8::wrapping_add);
    write!(stub, "${payload}#{sum:02x}").unwrap();
    let (mut text, mut byte) = (String::new(), [0]);
    loop {
        stub.read_exact(&mut byte).unwrap();
        text.push(char::from(byte[0]));
        let Some((_, reply)) = text.split_once('$') else { continue };
        if let Some((reply, sum)) = reply.split_once('#')
            && sum.len() == 2
        {
            stub.write_all(b"+").unwrap();
            return reply.to_owned();
        }
    }
}

/// The stub starts the program at its first instruction and serves one connection only: this one lets it run into its
/// fault, and is then handed on.
fn at_its_fault(port: u16) -> TcpStream {
    let mut stub = None;
    wait_for("the stub", || {
        stub = TcpStream::connect(("127.0.0.1", port)).ok();
        stub.is_some()
    });
    let mut stub = stub.unwrap();
    stub.set_nodelay(true).unwrap();
    // Signal 11 at the store to nowhere, then once more behind the program's own handler.
    let first = ask(&mut stub, "c");
    assert!(first.starts_with("T0b"), "{first}");
    let second = ask(&mut stub, "C0b");
    assert!(second.starts_with("T0b"), "{second}");
    stub
}

/// Hands what comes to one client on to the stub, and back.
fn hand_on(stub: TcpStream, listener: TcpListener) {
    std::thread::spawn(move || {
        let (client, _) = listener.accept().unwrap();
        client.set_nodelay(true).unwrap();
        let (mut from, mut to) = (stub.try_clone().unwrap(), client.try_clone().unwrap());
        std::thread::spawn(move || {
            let _ = std::io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Both);
        });
        let (mut from, mut to) = (client, stub);
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Both);
    });
}

#[test]
fn a_live_big_endian_target_says_what_its_core_says() {
    require!(installed("qemu-ppc"));
    let scratch = Scratch::new("big-endian");
    let program = scratch.path("be.elf");
    // The fixture is data, and not executable; copied by another process, so that no child holds it open for writing.
    assert!(Command::new("cp").arg(fixture("be.elf")).arg(&program).status().unwrap().success());
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let port = free_port();
    let mut qemu = Command::new("qemu-ppc");
    qemu.args(["-g", &port.to_string()]).arg(&program).current_dir(scratch.path("."));
    let _qemu = Running(qemu.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let stub = at_its_fault(port);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let remote = listener.local_addr().unwrap().to_string();
    hand_on(stub, listener);

    let elf = fixture("be.elf").display().to_string();
    let core = fixture("be.core").display().to_string();
    let live = tx_trace(&["last", "256", "--width", "200", "--elf", &elf, "--remote", &remote]);
    let dead = tx_trace(&["last", "256", "--width", "200", "--elf", &elf, "--core", &core]);
    assert!(live.status.success(), "{}", String::from_utf8_lossy(&live.stderr));
    assert!(dead.status.success(), "{}", String::from_utf8_lossy(&dead.stderr));
    let (live, dead) = (String::from_utf8(live.stdout).unwrap(), String::from_utf8(dead.stdout).unwrap());
    assert!(live.lines().count() > 256);
    // Stack pointers of the very first stack are where the host's system put it, and may be cut differently.
    let without_sp = |text: &str| -> String {
        text.lines().map(|l| l.split(" sp=").next().unwrap_or(l).trim_end().to_owned() + "\n").collect()
    };
    assert_eq!(without_sp(&live), without_sp(&dead));
}

#[test]
fn a_big_endian_core_its_buffer_alone_and_a_symbol_by_hand_agree() {
    let path = |name: &str| fixture(name).display().to_string();
    let (elf, core, trx) = (path("be.elf"), path("be.core"), path("be.trx"));
    let by_elf = tx_trace(&["list", "--format", "json", "--elf", &elf, "--core", &core]);
    let header = machine::symbol(&fixture("be.elf"), "_tx_trace_header_ptr");
    let symbol = format!("_tx_trace_header_ptr={header:#x}");
    // Without the ELF a header tells what the application calls its events.
    let names = path("../firmware/app.c");
    let bare = ["list", "--format", "json", "--events", &names];
    let by_name = tx_trace(&[&bare[..], &["--symbol", &symbol, "--core", &core]].concat());
    let alone = tx_trace(&[&bare[..], &["--trace", &trx]].concat());
    let scanned = tx_trace(&[&bare[..], &["--scan", "--core", &core]].concat());
    let events = |out: std::process::Output| -> Vec<serde_json::Value> {
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        let text = String::from_utf8(out.stdout).unwrap();
        let lines = text.lines().map(|l| serde_json::from_str::<serde_json::Value>(l).unwrap());
        lines.filter(|v| v["type"] == "event").collect()
    };
    let want = events(by_elf);
    assert_eq!(want.len(), 256);
    assert_eq!(want[253]["words"][2], "0x00000007");
    for other in [by_name, alone, scanned] {
        assert_eq!(events(other), want);
    }
}

/// `--hz SYMBOL` read the variable as little-endian where no ELF said otherwise.
#[test]
fn the_rate_in_a_variable_had_its_bytes_swapped() {
    let scratch = Scratch::new("rate");
    let entries: Vec<Entry> = (0..20).map(|i| Entry::thread(0x1000, 5, 5000, i * 48_000, [0; 4])).collect();
    let b = Buffer { big: true, ..Buffer::new(0x2000_0100) }.record(32, &entries);
    let mut ram = 48_000_000u32.to_be_bytes().to_vec();
    ram.resize(0x100, 0);
    ram.extend(b.bytes());
    std::fs::write(scratch.path("ram.bin"), ram).unwrap();
    let image = format!("{}@0x20000000", scratch.path("ram.bin").display());
    let line = ["list", "--format", "json", "--hz", "core_clock", "--symbol", "core_clock=0x20000000"];
    let out = tx_trace(&[&line[..], &["--header", "0x20000100", "--image", &image]].concat());
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(text.contains("\"hz\":48000000"), "{text}{}", String::from_utf8_lossy(&out.stderr));
}
