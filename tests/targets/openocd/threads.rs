//! ThreadX's threads through the bridge, in front of the real OpenOCD: without its own support for an RTOS, and with it.

use std::path::Path;
use std::process::{Command, Stdio};

use super::machine::{Running, Scratch};
use super::tools::{Done, gdb, run as run_tool};
use super::*;

/// GDB through a bridge, and what the bridge prints.
pub fn through_bridge(elf: &Path, remote: &str, commands: &[&str]) -> (Done, String) {
    let scratch = Scratch::new("openocd-threads");
    let (elf, log) = (elf.display().to_string(), scratch.path("bridge.log"));
    let mut bridge = Command::new(env!("CARGO_BIN_EXE_tx-trace"));
    bridge.args(["bridge", "--listen", ":0", "--remote", remote, "--elf", &elf, "--timeout", "20"]);
    bridge.env_remove("TX_TRACE_REMOTE").env_remove("TX_TRACE_ELF").stdin(Stdio::null()).stdout(Stdio::null());
    let _bridge = Running(bridge.stderr(std::fs::File::create(&log).unwrap()).spawn().unwrap());
    let said = || std::fs::read_to_string(&log).unwrap();
    let port =
        || said().lines().find_map(|line| line.split_once("listens at 127.0.0.1:")?.1.trim().parse::<u16>().ok());
    wait_for("the bridge", || port().is_some());
    let mut command = gdb("gdb-multiarch");
    let connect = format!("target remote 127.0.0.1:{}", port().unwrap());
    command.args([
        "-batch",
        "-ex",
        "set confirm off",
        "-ex",
        "set width 0",
        "-ex",
        "set remotetimeout 30",
        "-ex",
        &connect,
    ]);
    for line in commands {
        command.args(["-ex", line]);
    }
    let done = run_tool(command.arg(&elf));
    (done, said())
}

/// Prints the name of each thread, and what is said of it.
pub const LIST: &str =
    "python [print('thread %s: %s' % (t.name, t.details)) for t in gdb.selected_inferior().threads()]";

/// What [`LIST`] prints, each thread once.
pub fn listed(text: &str) -> Vec<&str> {
    let mut all: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("thread ")).collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn board(target: &str) -> Option<(CortexM, OpenOcd)> {
    if !installed("openocd") || !installed("gdb-multiarch") {
        return None;
    }
    let chip = CortexM::start(Setup { state: State::Halted, ..Setup::default() });
    let openocd = OpenOcd::start(&chip, Config { target, ..Config::default() });
    Some((chip, openocd))
}

#[test]
fn threads_are_those_of_the_evidence_core() {
    let Some((chip, openocd)) = board("") else { return };
    let (done, said) =
        through_bridge(chip.elf(), &openocd.gdb(), &["info threads", LIST, "thread apply all bt 3", "stepi", LIST]);
    assert!(!said.contains("not shown"), "{said}");
    let live = listed(&done.out);
    assert_eq!(live.len(), 10, "{}{}\n{}", done.out, done.err, openocd.log());
    assert!(live.contains(&"watchdog: running, in exception 3 (HardFault), priority 1"), "{live:?}");
    // The frames that OpenOCD's own support reads one word off.
    assert!(done.out.contains("in leave (posture=posture@entry=0)"), "{}", done.out);
    let scratch = Scratch::new("openocd-evidence");
    let core = scratch.path("evidence.core").display().to_string();
    let dump = run(&chip, &openocd.gdb(), &["dump", "-o", &core, "--leave", "halted"]);
    assert_eq!(dump.status.code(), Some(0), "{}", text(&dump.stderr));
    let elf = chip.elf().display().to_string();
    let served = format!("target remote | {} serve --stdio {elf} {core}", env!("CARGO_BIN_EXE_tx-trace"));
    let mut command = gdb("gdb-multiarch");
    let dead = run_tool(
        command.args(["-batch", "-ex", "set width 0", "-ex", &served, "-ex", "info threads", "-ex", LIST]).arg(&elf),
    );
    // GDB asks OpenOCD for PSP when it unwinds, and the bridge not at all; the core has it, and says that it is not the thread's.
    let others =
        |all: Vec<&str>| all.into_iter().filter(|line| !line.starts_with("watchdog")).map(str::to_owned).collect();
    let (live, dead): (Vec<String>, Vec<String>) = (others(live), others(listed(&dead.out)));
    assert_eq!((live.len(), &live), (9, &dead));
    assert_eq!((chip.state(), chip.stats().steps, chip.stats().writes.len()), (State::Halted, 1, 0));
}

#[test]
fn where_openocd_shows_an_rtos_its_threads_pass() {
    let Some((chip, openocd)) = board("-rtos auto") else { return };
    let (done, said) = through_bridge(chip.elf(), &openocd.gdb(), &["info threads"]);
    let lines: Vec<&str> = said.lines().filter(|line| line.contains("threads of ThreadX are not shown")).collect();
    assert_eq!(lines.len(), 1, "{said}\n{}{}\n{}", done.out, done.err, openocd.log());
    assert!(lines[0].contains("the stub shows threads itself"), "{said}");
    // OpenOCD's own words.
    assert!(done.out.contains("State: "), "{}{}", done.out, done.err);
}
