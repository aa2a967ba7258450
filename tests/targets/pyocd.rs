//! The real pyOCD on a simulated Cortex-M3: what the commands show, and what they leave of the target, which is asked
//! itself. Skipped, loudly, where pyOCD is not installed.
#![cfg(all(unix, feature = "cli"))]

use crate::openocd::threads;
use crate::support::cortex_m;
use crate::support::cortex_m::{CortexM, Setup, State};
use crate::support::machine;
use crate::support::machine::{symbol, text, tx_trace, wait_for};
use crate::support::servers::PyOcd;

/// pyOCD, attached without a halt to a running chip whose ring holds the events 44 to 299.
fn start() -> Option<(CortexM, PyOcd)> {
    let program = PyOcd::program()?;
    let chip = CortexM::start(Setup { ring: Some(256), ..Setup::default() });
    chip.burst(300);
    wait_for("a full ring", || chip.stats().events == 300);
    let pyocd = PyOcd::start(&program, &chip, &["--connect", "attach"]);
    let stats = chip.stats();
    assert_eq!((chip.state(), stats.halts), (State::Running, 0), "{}", pyocd.log());
    Some((chip, pyocd))
}

fn run(chip: &CortexM, pyocd: &PyOcd, words: &[&str]) -> String {
    let elf = chip.elf().display().to_string();
    let output = tx_trace(&[words, &["--elf", &elf, "--remote", &pyocd.gdb(), "--timeout", "20"]].concat());
    assert_eq!(output.status.code(), Some(0), "{words:?}: {}{}", text(&output.stderr), pyocd.log());
    text(&output.stdout)
}

#[test]
fn pyocd_gives_the_newest_events_and_lets_the_target_run_on() {
    let Some((chip, pyocd)) = start() else { return };
    let shown = run(&chip, &pyocd, &["last", "20", "--format", "csv"]);
    for n in 280..300_u32 {
        // The first word of a user event, the last word of each eighth.
        let word = format!("{n:#010x}");
        assert!(shown.contains(&word), "{word} in {shown}");
    }
    // pyOCD lets the target run when its last client has gone.
    wait_for("the target to run", || chip.state() == State::Running);
    let stats = chip.stats();
    assert_eq!((stats.halts, stats.resets, stats.steps, &*stats.writes), (1, 0, 0, &[][..]));
    chip.burst(1);
    wait_for("one more event", || chip.stats().events == 301);
}

/// The options of the line in docs/recipes.md, behind the name of the chip.
fn options_of_the_recipe() -> Vec<String> {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/recipes.md");
    let page = std::fs::read_to_string(page).unwrap();
    let line = page.lines().find(|line| line.trim().starts_with("pyocd gdbserver")).unwrap();
    line.split_whitespace().skip_while(|word| *word != "--connect").map(str::to_owned).collect()
}

/// The target is halted while it is read, and afterwards in the state that the page says.
#[test]
fn the_recipe_of_pyocd_halts_only_while_it_is_read() {
    let Some(program) = PyOcd::program() else { return };
    let chip = CortexM::start(Setup { ring: Some(256), ..Setup::default() });
    chip.burst(300);
    wait_for("a full ring", || chip.stats().events == 300);
    let options = options_of_the_recipe();
    assert!(options.len() > 3, "{options:?}");
    let pyocd = PyOcd::start(&program, &chip, &options.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!((chip.state(), chip.stats().halts), (State::Running, 0), "{}", pyocd.log());
    let shown = run(&chip, &pyocd, &["last", "1", "--leave", "running", "--format", "csv"]);
    assert!(shown.contains("0x0000012b"), "{shown}");
    wait_for("the target to run", || chip.state() == State::Running);
    let stats = chip.stats();
    assert_eq!((stats.halts, stats.resets, &*stats.writes), (1, 0, &[][..]), "{}", pyocd.log());
    // The server is there for the next command.
    run(&chip, &pyocd, &["last", "1", "--leave", "running"]);
}

#[test]
fn pyocd_shows_what_control_has_written() {
    let Some((chip, pyocd)) = start() else { return };
    let enabled = symbol(chip.elf(), "_tx_trace_event_enable_bits") as u32;
    run(&chip, &pyocd, &["control", "off", "ux", "--yes"]);
    wait_for("the target to run", || chip.state() == State::Running);
    let bits = chip.peek(enabled);
    assert!(bits != u32::MAX, "{bits:#x}");
    let writes = chip.stats().writes;
    assert!(!writes.is_empty() && writes.iter().all(|w| w.address & !3 == enabled), "{writes:x?}");
    assert!(run(&chip, &pyocd, &["control", "show"]).contains(&format!("{bits:#010x}")));
}

#[test]
fn pyocd_says_that_memory_without_power_cannot_be_read() {
    let Some((chip, pyocd)) = start() else { return };
    chip.fault(cortex_m::RING..cortex_m::RING + 0x1_0000);
    let elf = chip.elf().display().to_string();
    let output = tx_trace(&["last", "--elf", &elf, "--remote", &pyocd.gdb(), "--timeout", "20"]);
    assert_eq!(output.status.code(), Some(2), "{}{}", text(&output.stdout), text(&output.stderr));
    wait_for("the target to run", || chip.state() == State::Running);
    chip.heal();
    assert!(run(&chip, &pyocd, &["last", "1"]).contains("0x12b"));
}

#[test]
fn pyocd_resumes_whatever_is_asked_and_that_is_said_before() {
    let Some((chip, pyocd)) = start() else { return };
    let elf = chip.elf().display().to_string();
    let output = tx_trace(&["last", "2", "--elf", &elf, "--remote", &pyocd.gdb(), "--timeout", "20"]);
    let said = text(&output.stderr);
    let before = said.lines().next().unwrap();
    assert!(before.contains("pyOCD resumes the target when its last client disconnects"), "{said}");
    assert!(before.contains("--leave halted"), "{said}");
    wait_for("the target to run", || chip.state() == State::Running);
}

#[test]
fn leave_halted_holds_the_connection_to_pyocd_until_ctrl_c() {
    let Some((chip, pyocd)) = start() else { return };
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tx-trace"));
    command.args(["last", "2", "--remote", &pyocd.gdb(), "--timeout", "20", "--leave", "halted", "--elf"]);
    let mut child = machine::Running(
        command
            .arg(chip.elf())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap(),
    );
    // The events are printed while the target is held.
    let mut shown = std::io::BufReader::new(child.0.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("0x12b") {
        line.clear();
        assert!(std::io::BufRead::read_line(&mut shown, &mut line).unwrap() > 0, "{}", pyocd.log());
    }
    assert_eq!(chip.state(), State::Halted);
    // It says so where it begins to wait.
    let mut said = std::io::BufRead::lines(std::io::BufReader::new(child.0.stderr.take().unwrap()));
    assert!(said.any(|line| line.unwrap().contains("Ctrl-C disconnects")), "{}", pyocd.log());
    assert!(child.0.try_wait().unwrap().is_none() && chip.state() == State::Halted);
    let signalled = std::process::Command::new("kill").args(["-INT", &child.0.id().to_string()]).status().unwrap();
    assert!(signalled.success());
    wait_for("the command to end", || child.0.try_wait().unwrap().is_some());
    wait_for("the target to run", || chip.state() == State::Running);
}

#[test]
fn the_bridge_shows_threads_in_front_of_pyocd() {
    let Some(program) = PyOcd::program() else { return };
    require!(machine::installed("gdb-multiarch"));
    let chip = CortexM::start(Setup { state: State::Halted, ..Setup::default() });
    let pyocd = PyOcd::start(&program, &chip, &["--connect", "attach", "-O", "rtos.enable=false"]);
    let commands = ["info threads", "thread apply all bt 3", threads::LIST];
    let (done, said) = threads::through_bridge(chip.elf(), &pyocd.gdb(), &commands);
    assert!(!said.contains("not shown"), "{said}");
    let list = threads::listed(&done.out);
    assert_eq!(list.len(), 10, "{}{}{}", done.out, done.err, pyocd.log());
    assert!(list.contains(&"watchdog: running, in exception 3 (HardFault), priority 1"), "{list:?}");
    assert!(done.out.contains("in leave (posture=posture@entry=0)"), "{}", done.out);
    assert_eq!(chip.stats().writes, []);
}
