//! Round trips and bytes of four commands over real debug servers: OpenOCD and pyOCD on a simulated Cortex-M3, QEMU with
//! the same program, and gdbserver.
//!
//!     cargo bench --bench servers
//!
//! pyOCD is measured where `TX_TRACE_TEST_PYOCD` names it, as `scripts/test` does.

#![allow(missing_docs, clippy::restriction, reason = "a benchmark")]

mod support;
#[path = "../tests/support/mod.rs"]
mod targets;

use std::process::Stdio;
use std::time::Duration;

use support::proxy::Proxy;
use support::{fixture, installed, table, time, tx_trace};
use targets::cortex_m::{CortexM, Setup, State};
use targets::machine::{self, Qemu, gdbserver_at_the_end};
use targets::servers::{Config, OpenOcd, PyOcd};

const COMMANDS: [&[&str]; 4] = [&["last", "50"], &["threads"], &["info"], &["control", "show"]];

/// A row for each command.
fn measure(name: &str, port: u16, elf: &str, rows: &mut Vec<Vec<String>>) {
    let proxy = Proxy::before(port, Duration::ZERO);
    let remote = format!("127.0.0.1:{}", proxy.port);
    for words in COMMANDS {
        let mut command = tx_trace(&[words, &["--elf", elf, "--remote", &remote]].concat());
        let out = command.stdin(Stdio::null()).output().unwrap();
        assert!(out.status.success(), "{name} {words:?}: {}", String::from_utf8_lossy(&out.stderr));
        std::thread::sleep(Duration::from_millis(50));
        let tally = proxy.last();
        let numbers = [tally.turns, tally.reads, tally.out, tally.back].map(|n| n.to_string());
        let cells = [name.to_owned(), format!("`{}`", words.join(" "))];
        rows.push(cells.into_iter().chain(numbers).chain([time(tally.time())]).collect());
    }
}

fn chip() -> CortexM {
    CortexM::start(Setup { state: State::Halted, ..Setup::default() })
}

fn main() {
    let mut rows = Vec::new();
    let elf = fixture("cm3.elf");
    if installed("openocd") {
        let chip = chip();
        let openocd = OpenOcd::start(&chip, Config::default());
        measure("OpenOCD", openocd.gdb_port, &elf, &mut rows);
    }
    if let Some(program) = PyOcd::program() {
        let chip = chip();
        let pyocd = PyOcd::start(&program, &chip, &["--connect", "attach"]);
        measure("pyOCD", pyocd.gdb_port, &elf, &mut rows);
    }
    if installed("qemu-system-arm") {
        let qemu = Qemu::dead(&machine::fixture("cm3.elf"));
        measure("QEMU", qemu.port, &elf, &mut rows);
    }
    if installed("gdbserver") {
        let server = gdbserver_at_the_end(&machine::fixture("host.elf"));
        measure("gdbserver", server.port, &fixture("host.elf"), &mut rows);
    }
    println!(
        "From the connection to the last byte, the handshake and leaving included; fixtures of `tests/fixtures`.\n"
    );
    table(&["server", "command", "round trips", "of them reads", "bytes out", "bytes back", "time"], &rows);
}
