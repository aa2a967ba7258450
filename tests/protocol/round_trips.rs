//! How often `last 50` waits for a stub, from the connection to the last byte: counted between the two of them.
#![cfg(all(unix, feature = "cli", feature = "serve"))]

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::support::machine::{Qemu, fixture, free_port, gdbserver_at_the_end, installed, quiet, tx_trace, wait_for};
use proxy::Proxy;
use tx_trace::bytes::Bytes;
use tx_trace::mem::segments::{Block, Segments};
use tx_trace::serve::Server;

#[path = "../../benches/support/proxy.rs"]
#[allow(dead_code, reason = "benches measure the time as well")]
mod proxy;

/// Round trips of `last 50`.
fn last_50(elf: &Path, port: u16, leave: &str) -> u64 {
    last_50_and_now(elf, port, leave).0
}

/// The same, and the line `now:`.
fn last_50_and_now(elf: &Path, port: u16, leave: &str) -> (u64, String) {
    let proxy = Proxy::before(port, Duration::ZERO);
    let remote = format!("127.0.0.1:{}", proxy.port);
    let out = tx_trace(&["last", "50", "--elf", elf.to_str().unwrap(), "--remote", &remote, "--leave", leave]);
    assert!(out.status.success(), "{out:?}");
    let out = String::from_utf8_lossy(&out.stdout);
    let events = out.lines().filter(|l| l.trim_start().starts_with(|c: char| c.is_ascii_digit())).count();
    assert_eq!(events, 50);
    (proxy.last().turns, out.lines().last().unwrap_or_default().to_owned())
}

fn port_of(remote: &str) -> u16 {
    remote.rsplit(':').next().unwrap().parse().unwrap()
}

/// The handshake, two flights of reads, and `D` where the target is set running. Each question was waited for alone: 7.
#[test]
fn last_50_on_qemu_takes_four_round_trips() {
    require!(installed("qemu-system-arm"));
    let elf = fixture("cm3.elf");
    let qemu = Qemu::dead(&elf);
    assert_eq!(last_50(&elf, qemu.port, "as-found"), 4, "it ran");
    // To leave it halted the connection is closed, where QEMU is at the other end: one question in place of `D`.
    assert_eq!(last_50(&elf, qemu.port, "halted"), 4);
    assert_eq!(last_50(&elf, qemu.port, "as-found"), 4, "it was halted");
}

/// The function that the thread is in comes with them: GDB shows the same.
#[test]
fn last_50_names_the_function_in_four_round_trips() {
    require!(installed("qemu-system-arm") && installed("gdb-multiarch"));
    let (elf, port) = (fixture("cm3-stream.elf"), free_port());
    let mut qemu = Command::new("qemu-system-arm");
    qemu.args(["-M", "mps2-an385", "-display", "none", "-monitor", "none", "-serial", "none"]);
    qemu.args(["-device", "loader,addr=0x20010000,data=1000,data-len=4", "-gdb", &format!("tcp:127.0.0.1:{port}")]);
    let _qemu = quiet(qemu.arg("-kernel").arg(&elf));
    let (elf, remote) = (elf.to_str().unwrap(), format!("127.0.0.1:{port}"));
    let has_events =
        || tx_trace(&["show", "50", "--elf", elf, "--remote", &remote, "--leave", "running"]).status.success();
    wait_for("50 events", has_events);
    let mut named = 0;
    for _ in 0..10 {
        // Where it is halted cannot be chosen: in an interrupt `now:` names no function.
        let (turns, now) = last_50_and_now(Path::new(elf), port, "halted");
        // Where the newest slots are around the end of the ring there is a third read.
        assert!(turns == 4 || turns == 5, "{turns}");
        let mut gdb = Command::new("gdb-multiarch");
        gdb.args(["-nx", "-batch", elf, "-ex", &format!("target remote {remote}"), "-ex", "info symbol $pc"]);
        let gdb = String::from_utf8(gdb.output().unwrap().stdout).unwrap();
        let function = gdb.lines().find_map(|line| line.split_once(" in section").map(|(f, _)| f.to_owned()));
        if let Some((_, place)) = now.split_once(" runs in ") {
            let place = place.split([' ', ',', '+']).next();
            assert_eq!(place, function.as_deref().and_then(|f| f.split(' ').next()), "{now}\n{gdb}");
            named += u32::from(turns == 4);
        }
    }
    assert!(named > 0);
}

#[test]
fn last_50_on_gdbserver_takes_four_round_trips() {
    require!(installed("gdbserver") && cfg!(target_pointer_width = "64") && cfg!(target_endian = "little"));
    let elf = fixture("host.elf");
    let server = gdbserver_at_the_end(&elf);
    let turns = last_50(&elf, port_of(&server.remote()), "as-found");
    assert!(turns <= 4, "{turns}");
}

#[test]
fn last_50_on_serve_takes_four_round_trips() {
    let elf = fixture("cm3.elf");
    let server = Server::on_loopback().unwrap();
    let port = server.address().unwrap().port();
    let bytes = std::fs::read(fixture("cm3.ram.bin")).unwrap();
    std::thread::spawn(move || {
        let mut memory = Segments::new(vec![Block::whole(0x2000_0000, Bytes::from(bytes))]);
        let _ = server.serve_one(&mut memory);
    });
    let turns = last_50(&elf, port, "as-found");
    assert!(turns <= 4, "{turns}");
}
