//! `bridge` between GDB and OpenOCD: GDB does what it does without it, and leaves the target as it does without it.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use super::machine::{Running, Scratch};
use super::tools::{Done, gdb};
use super::*;

/// A bridge to this GDB port that forwards every byte, and its own port.
fn bridge(to: u16, elf: &str) -> (Running, u16) {
    bridge_with(to, elf, "off")
}

/// The same, which shows threads or not.
fn bridge_with(to: u16, elf: &str, threads: &str) -> (Running, u16) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tx-trace"));
    command.args([
        "bridge",
        "--listen",
        ":0",
        "--remote",
        &format!("127.0.0.1:{to}"),
        "--elf",
        elf,
        "--threads",
        threads,
    ]);
    command.env_remove("TX_TRACE_REMOTE").env_remove("TX_TRACE_ELF");
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let mut talk = BufReader::new(child.stderr.take().unwrap());
    talk.read_line(&mut line).unwrap();
    let port = line.trim().rsplit(':').next().and_then(|p| p.parse().ok()).unwrap_or_else(|| panic!("{line}"));
    // Its messages are read to the end, so that it never waits for a reader.
    std::thread::spawn(move || std::io::copy(&mut talk, &mut std::io::sink()));
    (Running(child), port)
}

/// A board with 300 events written, and GDB's commands on it; the target as GDB leaves it.
struct Session {
    done: Done,
    chip: CortexM,
    openocd: OpenOcd,
}

/// Runs GDB, through the bridge or without it. Each time that the target runs, Ctrl-C is pressed once.
fn session(name: &str, bridged: bool, commands: &[&str]) -> Option<Session> {
    if !tools::installed(&["gdb-multiarch"]) {
        return None;
    }
    let (chip, openocd) = start(Setup { ring: Some(256), ..Setup::default() })?;
    chip.burst(300);
    wait_for("a full ring", || chip.stats().events == 300);
    let elf = chip.elf().display().to_string();
    let held = bridged.then(|| bridge(openocd.gdb_port, &elf));
    let port = held.as_ref().map_or(openocd.gdb_port, |(_, port)| *port);
    let scratch = Scratch::new(&format!("openocd-bridge-{name}-{bridged}"));
    let pid_file = scratch.path("gdb.pid");
    let mut command = gdb("gdb-multiarch");
    let connect = format!("target remote 127.0.0.1:{port}");
    let tell = format!("shell echo $PPID > {}", pid_file.display());
    command.arg("-batch");
    let first = ["set confirm off", "set width 0", "set remotetimeout 20", &connect, &tell];
    for c in first.iter().chain(commands) {
        command.args(["-ex", c]);
    }
    command.arg(&elf);
    let gdb = std::thread::spawn(move || tools::run(&mut command));
    if commands.contains(&"continue # until Ctrl-C") {
        // GDB has halted the target before it tells its number, and lets it run afterwards.
        wait_for("GDB", || std::fs::read_to_string(&pid_file).is_ok_and(|pid| pid.ends_with('\n')));
        wait_for("the target to run", || chip.state() == State::Running || gdb.is_finished());
        let pid = std::fs::read_to_string(&pid_file).unwrap();
        Command::new("kill").args(["-INT", pid.trim()]).status().unwrap();
    }
    Some(Session { done: gdb.join().unwrap(), chip, openocd })
}

/// Read, write, step, continue to a breakpoint, interrupt.
const WORK: [&str; 17] = [
    "info registers",
    "continue # until Ctrl-C",
    "bt",
    "x/64xb &trace_buffer",
    "p/x _tx_trace_event_enable_bits",
    "set var _tx_trace_event_enable_bits = 0x80000000",
    "p/x _tx_trace_event_enable_bits",
    "stepi",
    "stepi",
    "p/x $pc",
    "hbreak fw_work",
    "continue",
    "p/x $pc",
    "delete",
    "set var $r4 = 77",
    "info registers r4 pc",
    "monitor targets",
];

#[test]
fn gdb_and_openocd_do_not_notice_the_bridge() {
    for (end, state) in [(&["detach"][..], State::Halted), (&["monitor resume", "disconnect"], State::Running)] {
        let commands = [&WORK[..], end].concat();
        let Some(without) = session("same", false, &commands) else { return };
        let Some(with) = session("same", true, &commands) else { return };
        assert!(without.done.out.contains("SIGINT") && without.done.out.contains("fw_work"), "{}", without.done.out);
        assert_eq!(without.done.out, with.done.out);
        assert_eq!(without.done.err, with.done.err);
        for session in [without, with] {
            let stats = session.chip.stats();
            let log = session.openocd.log();
            assert_eq!((session.chip.state(), stats.resets, stats.steps), (state, 0, 2), "{end:?}: {log}");
            let mask = symbol(session.chip.elf(), "_tx_trace_event_enable_bits") as u32;
            assert_eq!(stats.writes, [Write { address: mask, size: 4, value: 0x8000_0000 }]);
            assert_eq!((stats.breakpoints, stats.events), (0, 300));
        }
    }
}

#[test]
fn a_monitor_line_shows_the_trace_between_gdb_commands() {
    let commands = [
        "monitor tx-trace last 3 --format json",
        "continue # until Ctrl-C",
        "monitor tx-trace info",
        "monitor targets",
        "stepi",
        "detach",
    ];
    let Some(session) = session("monitor", true, &commands) else { return };
    let said = &session.done.err;
    for n in 297..300_u32 {
        assert!(said.contains(&format!("{n:#010x}")), "{n} in {said}");
    }
    assert!(said.contains("256 of 256 slots") && said.contains("cm.cpu"), "{said}");
    assert!(session.done.out.contains("SIGINT"), "{}", session.done.out);
    let stats = session.chip.stats();
    assert_eq!((stats.resets, stats.writes), (0, vec![]));
}
