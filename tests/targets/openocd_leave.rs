//! How the commands leave a target behind the real OpenOCD, on a simulated Cortex-M3. What the target was before and
//! after is asked of the target itself. Skipped, loudly, where OpenOCD is not installed.
#![cfg(all(unix, feature = "cli"))]

use crate::support::machine;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::cortex_m::{CortexM, Setup, State};
use crate::support::machine::{installed, wait_for};
use crate::support::servers::{Config, OpenOcd};

/// What a run printed, and how it ended.
struct Done {
    code: Option<i32>,
    out: String,
    err: String,
}

fn command(chip: &CortexM, remote: &str, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tx-trace"));
    command.args(words).arg("--elf").arg(chip.elf()).args(["--remote", remote]);
    command.env_remove("TX_TRACE_LEAVE").env_remove("TX_TRACE_REMOTE").env_remove("TX_TRACE_ELF");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(chip: &CortexM, remote: &str, words: &[&str]) -> Done {
    finish(command(chip, remote, words).spawn().unwrap())
}

fn finish(child: std::process::Child) -> Done {
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Done { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

/// The code of JSON's error line.
fn error_code(done: &Done) -> String {
    let line: serde_json::Value = serde_json::from_str(done.out.lines().next().unwrap()).unwrap();
    line["code"].as_str().unwrap().to_owned()
}

fn start(state: State, config: Config<'_>) -> Option<(CortexM, OpenOcd)> {
    if !installed("openocd") {
        return None;
    }
    // A crashed board holds the trace of its image.
    let ring = (state == State::Running).then_some(256);
    let chip = CortexM::start(Setup { state, rate: 1000, ring, ..Setup::default() });
    let openocd = OpenOcd::start(&chip, config);
    if state == State::Running {
        wait_for("events", || chip.stats().events > 20);
    }
    Some((chip, openocd))
}

/// The target as OpenOCD is asked about it: in the four states that there are.
fn four_states(config: Config<'_>) -> Option<[(&'static str, CortexM, OpenOcd); 4]> {
    let (ran, openocd_of_ran) = start(State::Running, config)?;
    let (crashed, openocd_of_crashed) = start(State::Halted, config)?;
    let (by_user, openocd_of_user) = start(State::Running, config)?;
    openocd_of_user.tcl("halt");
    wait_for("a halt", || by_user.state() == State::Halted);
    let (at_breakpoint, openocd_at_breakpoint) = start(State::Running, config)?;
    openocd_at_breakpoint.tcl("bp 0x2698 2 hw");
    wait_for("a breakpoint", || at_breakpoint.state() == State::Halted);
    wait_for("OpenOCD sees it", || openocd_at_breakpoint.tcl("[target current] curstate") == "halted");
    Some([
        ("ran", ran, openocd_of_ran),
        ("halted before OpenOCD came", crashed, openocd_of_crashed),
        ("halted by its user", by_user, openocd_of_user),
        ("at a breakpoint", at_breakpoint, openocd_at_breakpoint),
    ])
}

#[test]
fn as_found_in_all_four_states_where_the_tcl_port_shows_the_state() {
    let Some(all) = four_states(Config { usual_tcl_port: true, ..Config::default() }) else { return };
    for (what, chip, openocd) in all {
        let before = chip.state();
        for words in [&["last", "5"][..], &["threads"], &["info"], &["control", "show"]] {
            let done = run(&chip, &openocd.gdb(), words);
            assert_eq!(done.code, Some(0), "{what} {words:?}: {}", done.err);
            assert_eq!(chip.state(), before, "{what} {words:?}: {}", done.err);
            let said = done.err.contains("the target was halted for ");
            assert_eq!(said, before == State::Running, "{what} {words:?}: {}", done.err);
            assert!(!done.err.contains("--leave"), "{what} {words:?}: {}", done.err);
        }
        assert_eq!((chip.stats().resets, chip.stats().writes), (0, vec![]), "{what}");
        if before == State::Running {
            let events = chip.stats().events;
            wait_for("it goes on", || chip.stats().events > events + 10);
        }
    }
}

/// OpenOCD says S00 of a core that was halted before it came. The commands took that for a core that runs, and set it
/// running: the evidence was gone.
#[test]
fn a_crashed_board_was_set_running_without_a_word() {
    let Some(all) = four_states(Config::default()) else { return };
    for (what, chip, openocd) in all {
        let done = run(&chip, &openocd.gdb(), &["last", "5"]);
        assert_eq!(done.code, Some(0), "{what}: {}", done.err);
        assert_eq!(chip.state(), State::Halted, "{what}: {}", done.err);
        if what != "at a breakpoint" {
            // Once when it is reached, once when it is left.
            assert_eq!(done.err.matches("watchdog").count(), 2, "{what}: {}", done.err);
            assert!(done.err.contains("--leave running") && done.err.contains("left halted"), "{what}: {}", done.err);
        } else {
            assert_eq!(done.err, "", "OpenOCD says S05");
        }
    }
}

#[test]
fn leave_running_and_leave_halted_do_as_they_say_in_all_four_states() {
    for usual_tcl_port in [true, false] {
        let Some(all) = four_states(Config { usual_tcl_port, ..Config::default() }) else { return };
        for (what, chip, openocd) in all {
            let done = run(&chip, &openocd.gdb(), &["last", "5", "--leave", "halted"]);
            assert_eq!((done.code, chip.state()), (Some(0), State::Halted), "{what}: {}", done.err);
            // A halt may come in the middle of an event.
            assert!(
                done.err.is_empty() || done.err.starts_with("lost: an event was being inserted"),
                "{what}: {}",
                done.err
            );
            openocd.tcl("rbp all");
            let done = run(&chip, &openocd.gdb(), &["last", "5", "--leave", "running"]);
            assert_eq!((done.code, chip.state()), (Some(0), State::Running), "{what}: {}", done.err);
            assert!(!done.err.contains("may stay"), "{what}: {}", done.err);
        }
    }
}

#[test]
fn the_environment_and_an_option_file_set_how_a_board_is_left() {
    let Some((chip, openocd)) = start(State::Halted, Config::default()) else { return };
    let mut one = command(&chip, &openocd.gdb(), &["last", "5"]);
    let done = finish(one.env("TX_TRACE_LEAVE", "running").spawn().unwrap());
    assert_eq!((done.code, chip.state()), (Some(0), State::Running), "{}", done.err);
    let scratch = machine::Scratch::new("leave-options");
    let file = scratch.path("board");
    std::fs::write(&file, "--leave running\n").unwrap();
    let file = format!("@{}", file.display());
    for (typed, state) in [(&["--leave", "halted"][..], State::Halted), (&[], State::Running)] {
        let words = [&["last", "5", &file], typed].concat();
        let done = run(&chip, &openocd.gdb(), &words);
        assert_eq!((done.code, chip.state()), (Some(0), state), "{typed:?}: {}", done.err);
    }
    let mut wrong = command(&chip, &openocd.gdb(), &["last", "5"]);
    let done = finish(wrong.env("TX_TRACE_LEAVE", "sideways").spawn().unwrap());
    assert!(done.code == Some(2) && done.err.contains("TX_TRACE_LEAVE=sideways"), "{}", done.err);
}

#[test]
fn a_gdb_attach_event_that_resets_is_not_run() {
    for event in ["reset init", "halt 500; soft_reset_halt", "come_again"] {
        let before = "proc come_again {} {\n  reset halt\n}";
        let after = format!("$_TARGETNAME configure -event gdb-attach {{{event}}}");
        let config = Config { before, after: &after, usual_tcl_port: true, ..Config::default() };
        let Some((chip, openocd)) = start(State::Running, config) else { return };
        // A slow reading of a target that runs must not find the whole ring written anew.
        chip.set_rate(20);
        let done = run(&chip, &openocd.gdb(), &["last", "5", "--format", "json"]);
        assert_eq!(done.code, Some(2), "{event}: {}", done.err);
        assert_eq!(error_code(&done), "would-reset");
        assert!(done.err.contains("gdb-attach") && done.err.contains(&openocd.openocd()), "{event}: {}", done.err);
        assert_eq!((chip.state(), chip.stats().resets, chip.stats().halts), (State::Running, 0, 0), "{event}");
        let done = run(&chip, &openocd.openocd(), &["last", "5"]);
        assert_eq!((done.code, chip.stats().halts), (Some(0), 0), "what it names works: {}", done.err);
    }
}

/// A procedure that calls another one, a body in braces, and the events of a client that goes: the target was reset.
#[test]
fn events_that_reset_by_way_of_procedures_were_run() {
    let before = "proc come_again {} {\n  reset halt\n}\nproc outer {} { come_again }";
    for (event, code) in [
        ("gdb-attach", "outer"),
        ("gdb-attach", "if {1} { come_again; echo done }"),
        ("gdb-attach", "halt;outer"),
        ("gdb-attach", "halt; mww 0xe000ed0c 0x05fa0004"),
        ("gdb-end", "outer"),
    ] {
        let after = format!("$_TARGETNAME configure -event {event} {{{code}}}");
        let config = Config { before, after: &after, usual_tcl_port: true, ..Config::default() };
        let Some((chip, openocd)) = start(State::Halted, config) else { return };
        let done = run(&chip, &openocd.gdb(), &["last", "5"]);
        assert_eq!((done.code, chip.stats().resets), (Some(2), 0), "{event} {code}: {}", done.err);
        assert!(done.err.contains(event) && done.err.contains(&openocd.openocd()), "{event} {code}: {}", done.err);
    }
}

/// `gdb-attach {resume}`, or `gdb-end {resume}`: a crashed board was set running by connecting, or by leaving.
#[test]
fn events_that_resume_set_a_crashed_board_running() {
    for event in ["gdb-attach", "gdb-detach", "gdb-end"] {
        let after = format!("$_TARGETNAME configure -event {event} {{resume}}");
        let config = Config { after: &after, usual_tcl_port: true, ..Config::default() };
        let Some((chip, openocd)) = start(State::Halted, config) else { return };
        // Once it runs, a slow reading must not find the whole ring written anew.
        chip.set_rate(20);
        let done = run(&chip, &openocd.gdb(), &["last", "5", "--format", "json"]);
        assert_eq!((done.code, chip.state()), (Some(2), State::Halted), "{event}: {}", done.err);
        assert_eq!(error_code(&done), "would-resume");
        assert!(done.err.contains(event) && done.err.contains("--leave running"), "{event}: {}", done.err);
        let done = run(&chip, &openocd.gdb(), &["last", "5", "--leave", "running"]);
        assert_eq!((done.code, chip.state()), (Some(0), State::Running), "{event}: {}", done.err);
        let done = run(&chip, &openocd.gdb(), &["last", "5"]);
        assert_eq!((done.code, chip.state()), (Some(0), State::Running), "{event}: {}", done.err);
    }
}

/// With `poll off` OpenOCD goes on saying that a core runs that has crashed since. It was set running.
#[test]
fn an_old_state_of_openocd_set_a_crashed_board_running() {
    let Some((chip, openocd)) = start(State::Running, Config { usual_tcl_port: true, ..Config::default() }) else {
        return;
    };
    openocd.tcl("poll off");
    chip.halt();
    assert_eq!(openocd.tcl("[target current] curstate"), "running");
    let done = run(&chip, &openocd.gdb(), &["last", "5"]);
    assert_eq!((done.code, chip.state()), (Some(0), State::Halted), "{}", done.err);
    assert!(!openocd.log().contains("halt 1000"), "no answer is printed: {}", openocd.log());
}

/// A target that connecting does not halt: `--leave halted` did nothing, and said nothing.
#[test]
fn leave_halted_did_nothing_where_connecting_halts_nothing() {
    for usual_tcl_port in [true, false] {
        let after = "$_TARGETNAME configure -event gdb-attach { set nothing 0 }";
        let Some((chip, openocd)) = start(State::Running, Config { after, usual_tcl_port, ..Config::default() }) else {
            return;
        };
        // A slow reading must not find the whole ring written anew.
        chip.set_rate(20);
        let done = run(&chip, &openocd.gdb(), &["last", "5"]);
        assert_eq!((done.code, chip.state(), chip.stats().halts), (Some(0), State::Running, 0), "{}", done.err);
        assert!(!done.err.contains("the target was halted"), "{}", done.err);
        let done = run(&chip, &openocd.gdb(), &["last", "5", "--leave", "halted"]);
        assert_eq!((done.code, chip.state()), (Some(0), State::Halted), "{}", done.err);
    }
}

/// An error in answer to `monitor resume` counted as success.
#[test]
fn a_resume_that_failed_was_taken_for_one_that_worked() {
    let Some((chip, openocd)) = start(State::Halted, Config::default()) else { return };
    openocd.tcl("rename resume real_resume; proc resume {args} { error {no power} }");
    let done = run(&chip, &openocd.gdb(), &["last", "5", "--leave", "running"]);
    assert_eq!(chip.state(), State::Halted);
    assert!(done.err.contains("did not resume the target (no power)"), "{}", done.err);
}

/// 2 KB/s, as some probes give: 16 requests of 8 KB were on their way, and each was waited for no longer than 2 s.
#[test]
fn list_and_info_failed_at_2_kb_per_second() {
    let Some((chip, openocd)) = start(State::Running, Config { usual_tcl_port: true, ..Config::default() }) else {
        return;
    };
    wait_for("a full ring", || chip.stats().events > 300);
    chip.set_bandwidth(2000);
    for words in [&["list", "--format", "json"][..], &["info"]] {
        let done = run(&chip, &openocd.gdb(), words);
        assert_eq!(done.code, Some(0), "{words:?}: {}", done.err);
        assert_eq!(chip.state(), State::Running, "{words:?}: {}", done.err);
    }
}

/// Ctrl-C in `list` left a running board halted: what was on its way could not be drained in the second that was allowed.
#[test]
fn ctrl_c_on_a_slow_probe_left_a_running_board_halted() {
    let Some((chip, openocd)) = start(State::Running, Config { usual_tcl_port: true, ..Config::default() }) else {
        return;
    };
    wait_for("a full ring", || chip.stats().events > 300);
    for (rate, reads) in [(2000, 300), (2000, 1200), (20_000, 1200)] {
        chip.set_bandwidth(rate);
        let mut child = command(&chip, &openocd.gdb(), &["list"]).spawn().unwrap();
        wait_for("a halt", || chip.state() == State::Halted);
        let before = chip.stats().reads;
        wait_for("reads", || chip.stats().reads >= before + reads || child.try_wait().unwrap().is_some());
        let signalled = Instant::now();
        let pid = i32::try_from(child.id()).unwrap();
        let killed = Command::new("kill").args(["-INT", &pid.to_string()]).status().unwrap();
        assert!(killed.success());
        let done = finish(child);
        let took = signalled.elapsed();
        chip.set_bandwidth(0);
        // A run that was through before the signal is a run as well.
        assert!(matches!(done.code, Some(0 | 2)), "{rate}: {}", done.err);
        assert_eq!(chip.state(), State::Running, "{rate} after {reads} reads: {}", done.err);
        assert!(took < Duration::from_secs(8), "{rate}: {took:?}");
    }
}

#[test]
fn max_halt_bounds_how_long_a_running_target_is_halted() {
    let Some((chip, openocd)) = start(State::Running, Config { usual_tcl_port: true, ..Config::default() }) else {
        return;
    };
    wait_for("a full ring", || chip.stats().events > 300);
    chip.set_bandwidth(4000);
    chip.clear_stats();
    let done = run(&chip, &openocd.gdb(), &["list", "--max-halt", "600ms", "--format", "json"]);
    assert_eq!((done.code, chip.state()), (Some(2), State::Running), "{}", done.err);
    assert_eq!(error_code(&done), "halted-too-long");
    assert!(done.err.contains("--max-halt") && done.err.contains("the target was halted for"), "{}", done.err);
    let held = chip.stats().halted;
    assert!(held < Duration::from_secs(3), "{held:?}");
    chip.set_bandwidth(0);
    let done = run(&chip, &openocd.gdb(), &["last", "5", "--max-halt", "20s"]);
    assert_eq!((done.code, chip.state()), (Some(0), State::Running), "{}", done.err);
}

/// `follow` set a crashed board running.
#[test]
fn follow_set_a_halted_target_running() {
    for config in [Config::default(), Config { usual_tcl_port: true, ..Config::default() }] {
        let Some((chip, openocd)) = start(State::Halted, config) else { return };
        let words = ["follow", "--halt-every", "50ms", "--for", "300ms", "--format", "json"];
        let done = run(&chip, &openocd.gdb(), &words);
        assert_eq!((done.code, chip.state()), (Some(2), State::Halted), "{}", done.err);
        assert_eq!(error_code(&done), "target-halted");
        let done = run(&chip, &openocd.gdb(), &[&words[..], &["--leave", "running"]].concat());
        assert_eq!((done.code, chip.state()), (Some(0), State::Running), "{}", done.err);
    }
    let Some((chip, openocd)) = start(State::Running, Config { usual_tcl_port: true, ..Config::default() }) else {
        return;
    };
    let done = run(&chip, &openocd.gdb(), &["follow", "--halt-every", "50ms", "--for", "300ms"]);
    assert_eq!((done.code, chip.state()), (Some(0), State::Running), "{}", done.err);
}

/// The board crashed while OpenOCD was away: `follow --wait` halted it again with each try, without end and without a message.
#[test]
fn follow_wait_tried_a_halted_target_without_end() {
    let config = Config { usual_tcl_port: true, ..Config::default() };
    let Some((chip, mut openocd)) = start(State::Running, config) else { return };
    let words = ["follow", "--halt-every", "50ms", "--wait", "--for", "60s"];
    let began = Instant::now();
    let following = command(&chip, &openocd.gdb(), &words).spawn().unwrap();
    wait_for("looks", || chip.stats().halts > 3);
    openocd.restart_after(|| chip.halt());
    let done = finish(following);
    assert_eq!((done.code, chip.state()), (Some(2), State::Halted), "{}", done.err);
    assert!(done.err.contains("is not resumed") && began.elapsed() < Duration::from_secs(40), "{}", done.err);
}

/// The first halt of `follow` had no bound.
#[test]
fn max_halt_did_not_bound_the_first_halt_of_follow() {
    let config = Config { usual_tcl_port: true, ..Config::default() };
    let Some((chip, openocd)) = start(State::Running, config) else { return };
    chip.set_bandwidth(1000);
    let words = ["follow", "--halt-every", "50ms", "--max-halt", "300ms", "--for", "20s", "--format", "json"];
    let done = run(&chip, &openocd.gdb(), &words);
    assert_eq!((done.code, chip.state()), (Some(2), State::Running), "{}", done.err);
    assert_eq!(error_code(&done), "halted-too-long");
}
