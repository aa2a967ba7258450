//! What a debugger sees of a live target is what it sees of an evidence core of the same stop, and what `threads --bt` shows.

use serde_json::Value;

use super::live::{Live, by_thread, part, threads};
use super::tools::*;

/// `info locals` fails in a frame without debug information; the others go on.
const LOOK: [&str; 10] = [
    "echo <list\\n",
    "info threads",
    "echo list>\\n",
    "echo <stacks\\n",
    "thread apply all bt",
    "echo stacks>\\n",
    "echo <locals\\n",
    "thread apply all -s frame apply 4 -s info locals",
    "echo locals>\\n",
    "thread find control_entry",
];

/// Where each machine is stopped, and what its list then says.
fn places(interrupted: &'static str) -> [(&'static str, &'static str); 3] {
    [
        ("break control_step", "\"control\" (running, priority 4)"),
        ("break SysTick_Handler if _tx_thread_current_ptr != 0", interrupted),
        ("break fault_spin", "\"watchdog\" (running"),
    ]
}

/// Compares each stop of a machine, begun anew for each.
fn compare(start: impl Fn() -> Live, interrupted: &'static str) {
    let scratch = Scratch::new();
    for (place, hit) in places(interrupted) {
        let live = start();
        // QEMU keeps the machine paused when a debugger just goes.
        let text = live.gdb(&[&[place, "continue"][..], &LOOK, &["disconnect"]].concat());
        assert!(text.contains(hit), "{place}: no {hit} in {text}");
        let core = scratch.path("evidence.core");
        live.evidence(&core);
        let dead = live.served(&core, &LOOK);
        assert_eq!(threads(part(&text, "list")).len(), 10, "{text}");
        assert_eq!(threads(part(&text, "list")), threads(part(&dead, "list")), "{place}");
        for name in ["stacks", "locals"] {
            assert_eq!(frames(part(&text, name)), frames(part(&dead, name)), "{place}: {name}");
        }
        assert!(part(&text, "locals").contains("\nnumber = "), "a local of a suspended thread: {text}");
        stacks_are_those_of_the_report(&live, part(&text, "stacks"));
    }
}

/// What GDB prints of all threads but one in an exception of a Cortex-M: behind it GDB needs PSP, which QEMU does not give. Live it
/// then takes MSP, and of a core it knows that PSP is missing.
fn frames(text: &str) -> Vec<String> {
    by_thread(text).into_iter().filter(|stack| !stack.contains("(running, in exception")).collect()
}

/// The functions of GDB's frames and of `threads --bt`, for each thread that does not run, as far as both go.
fn stacks_are_those_of_the_report(live: &Live, stacks: &str) {
    let from = format!(":{}", live.stub);
    let words = ["threads", "--bt", "--format", "json", "--elf", &live.elf, "--remote", &from, "--leave", "halted"];
    let report = shell(&words);
    assert_eq!(report.status, Some(0), "{}", report.err);
    let rows: Vec<Value> = report.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut compared = 0;
    for stack in by_thread(stacks) {
        let Some(name) = stack.split('"').nth(1).filter(|_| !stack.contains("(running")) else { continue };
        let row = rows.iter().find(|row| row["report"] == "backtraces" && row["thread"]["name"] == name);
        let frames = row.and_then(|row| row["frames"].as_array()).cloned().unwrap_or_default();
        let ours: Vec<String> = frames.iter().filter_map(|f| Some(f["function"].as_str()?.to_owned())).collect();
        let frames = stack.lines().filter_map(|line| line.strip_prefix('#')?.split_once(' '));
        let function = |rest: &str| {
            let rest = rest.trim_start();
            let rest = rest.split_once(" in ").map_or(rest, |(_, function)| function);
            rest.split_once(" (").map(|(function, _)| function.to_owned())
        };
        let theirs: Vec<String> = frames.filter_map(|(_, rest)| function(rest)).filter(|f| f != "??").collect();
        let most = ours.len().min(theirs.len());
        assert!(most > 0 || theirs.is_empty(), "{name}: {ours:?} {theirs:?} {rows:?}");
        assert_eq!(ours[..most], theirs[..most], "{name}");
        compared += usize::from(most > 1);
    }
    assert!(compared >= 5, "{compared} stacks: {stacks}\n{}", report.out);
}

#[test]
fn a_cortex_m3_has_the_threads_of_its_evidence_core() {
    if Live::tools() {
        compare(Live::cortex_m3, "in exception 15 (SysTick)");
    }
}

#[test]
fn a_cortex_m4f_whose_frames_hold_floats_has_the_threads_of_its_evidence_core() {
    if Live::tools() && Live::cortex_m4f().is_some() {
        compare(|| Live::cortex_m4f().unwrap(), "in exception 15 (SysTick)");
    }
}

#[test]
fn a_riscv_has_the_threads_of_its_evidence_core() {
    if Live::tools() && Live::riscv().is_some() {
        compare(|| Live::riscv().unwrap(), "in an interrupt");
    }
}
