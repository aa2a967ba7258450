//! ThreadX's threads in real debuggers on a real live stub, through the bridge.

use std::process::Command;

use super::debuggers::{Running, bridge_with, plain, wait_for_port};
use super::tools::*;

/// A halted machine with a bridge in front of it.
struct Live {
    bridge: Running,
    stub: u16,
    _qemu: Server,
}

fn live(options: &[&str]) -> Live {
    let elf = fixture("cm3.elf");
    let (qemu, stub) = qemu(&elf);
    wait_for_port(stub);
    Live { bridge: bridge_with(stub, &elf, options), stub, _qemu: qemu }
}

fn tools() -> bool {
    installed(&["gdb-multiarch", "qemu-system-arm"])
}

fn gdb_session(live: &Live, commands: &[&str]) -> String {
    let done = plain("gdb-multiarch", &[&fixture("cm3.elf")], live.bridge.port, commands);
    format!("{}\n{}", done.out, done.err)
}

/// The lines of `info threads` as GDB prints them of any connection: without its own numbers and the process's, sorted.
fn threads(text: &str) -> Vec<String> {
    let lines = text.lines().filter_map(|line| line.split_once(" Thread "));
    let is_number = |head: &str| head.trim_start_matches('*').trim().parse::<u32>().is_ok();
    let mut lines: Vec<String> = lines
        .filter(|(head, _)| is_number(head))
        .map(|(_, rest)| rest.strip_prefix("1.").unwrap_or(rest).split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    lines.sort();
    lines
}

/// The frames of `thread apply all bt`, by thread, without GDB's own numbers.
fn stacks(text: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for line in text.lines() {
        if let Some((_, rest)) = line.strip_prefix("Thread ").and_then(|line| line.split_once("(Thread ")) {
            all.push(rest.strip_prefix("1.").unwrap_or(rest).to_owned());
        } else if let (true, Some(last)) = (line.starts_with('#'), all.last_mut()) {
            last.push_str(line);
        }
    }
    all.sort();
    all
}

const LOOK: [&str; 4] = ["info threads", "thread apply all bt", "thread find control_entry", "echo done\\n"];

/// What a debugger sees of a live target is what it sees of an evidence core of the same stop.
#[test]
fn a_live_target_has_the_threads_of_its_evidence_core() {
    if !tools() {
        return;
    }
    let scratch = Scratch::new();
    let places = [
        ("break control_step", "\"control\" (running, priority 4)"),
        ("break SysTick_Handler if _tx_thread_current_ptr != 0", "in exception 15 (SysTick)"),
    ];
    for (place, hit) in places {
        let live = live(&[]);
        let first = [place, "continue"];
        let text = gdb_session(&live, &[&first[..], &LOOK, &["disconnect"]].concat());
        assert!(text.contains(hit), "{text}");
        // QEMU keeps the machine paused when a debugger just goes.
        let core = scratch.path("evidence.core");
        let from = format!(":{}", live.stub);
        let elf = fixture("cm3.elf");
        let saved = shell(&["dump", "-o", &core, "--elf", &elf, "--remote", &from, "--leave", "halted"]);
        assert_eq!(saved.status, Some(0), "{}", saved.err);
        let served = format!("target remote | {} serve --stdio {elf} {core}", binary());
        let mut command = gdb("gdb-multiarch");
        command.args(["-batch", "-ex", "set confirm off", "-ex", "set width 0", "-ex", &served]);
        for line in LOOK {
            command.args(["-ex", line]);
        }
        let dead = run(command.arg(&elf));
        let (live, dead) = (threads(&text), threads(&dead.out));
        assert!(live.len() >= 10, "{text}");
        assert_eq!(live, dead);
    }
}

/// The stacks of suspended threads are those that `threads --bt` shows.
#[test]
fn suspended_threads_have_their_frames_and_locals() {
    if !tools() {
        return;
    }
    let live = live(&[]);
    let text = gdb_session(
        &live,
        &[
            "break control_step",
            "continue",
            "thread apply all bt",
            "thread 7",
            "frame 2",
            "info locals",
            "p wait",
            "kill",
        ],
    );
    let stacks = stacks(&text);
    let of =
        |name: &str| stacks.iter().find(|s| s.contains(&format!("\"{name}\""))).unwrap_or_else(|| panic!("{text}"));
    for (name, function) in [("sensor", "mk_queue_send"), ("comms", "comms_entry"), ("filter", "filter_entry")] {
        assert!(of(name).contains(function), "{}", of(name));
    }
    assert!(of("startup").contains("<unavailable>"), "a thread that has ended has no registers");
    assert!(text.contains("$1 = 4294967295"), "{text}");
}

/// Breakpoints, steps and waits of one thread among others that run the same code.
#[test]
fn a_thread_is_stepped_and_broken_into_alone() {
    if !tools() {
        return;
    }
    let live = live(&[]);
    let text = gdb_session(
        &live,
        &[
            "break control_step",
            "continue",
            "delete",
            "echo <other\\n",
            // A suspended thread: it cannot be stepped, and its registers are not written.
            "thread 6",
            "stepi",
            "stepi",
            "set $r4 = 5",
            "echo other>\\n",
            // A breakpoint where it goes on does not keep the target from running.
            "break *$pc",
            "continue",
            "delete",
            "echo <own\\n",
            "break mk_queue_send thread 6",
            "continue",
            "p $_thread",
            "delete",
            "finish",
            "p $_thread",
            "echo own>\\n",
            "echo <lock\\n",
            "set scheduler-locking on",
            "stepi",
            "set scheduler-locking off",
            "p $_thread",
            "echo lock>\\n",
            "kill",
        ],
    );
    let part = |name: &str| {
        let text = text.split_once(&format!("<{name}\n")).unwrap_or_else(|| panic!("{text}")).1;
        text.split_once(&format!("{name}>\n")).unwrap().0.to_owned()
    };
    assert!(text.contains("sensor does not run (ready"), "{text}");
    assert!(text.contains("does not run: its registers are what it saved"), "{text}");
    assert!(text.contains("hit Breakpoint 2"), "{text}");
    let own = part("own");
    assert!(own.contains("\"sensor\" hit Breakpoint 3") && own.contains("$1 = 6"), "{own}");
    assert!(own.contains("Value returned") && own.contains("$3 = 6"), "{own}");
    assert!(part("lock").contains("$4 = 6"), "{text}");
}

/// `next` over calls that block, many times: the thread is the same after each, though others run between.
#[test]
fn next_over_a_blocking_call_comes_back_to_its_thread() {
    if !tools() {
        return;
    }
    let live = live(&[]);
    let mut commands = vec!["break sensor_entry", "continue", "delete"];
    commands.extend(["next"; 60]);
    commands.extend(["p $_thread", "info symbol $pc", "kill"]);
    let text = gdb_session(&live, &commands);
    assert!(text.contains("sensor_entry + ") && !text.contains("SIGTRAP"), "{text}");
}

#[test]
fn a_thousand_steps_and_an_interrupt() {
    if !tools() {
        return;
    }
    let live = live(&[]);
    let steps = "python for _ in range(1000): gdb.execute('stepi', to_string=True)";
    let interrupt =
        "python import os, signal, threading; threading.Timer(1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()";
    let text = gdb_session(
        &live,
        &[
            "break control_step",
            "continue",
            "delete",
            steps,
            "p $_thread",
            interrupt,
            "continue",
            "info threads",
            "kill",
        ],
    );
    assert!(text.contains("$1 = 2") && text.contains("SIGINT"), "{text}");
    assert!(text.contains("running, in exception 3 (HardFault)"), "{text}");
    assert_eq!(threads(&text).len(), 10, "{text}");
}

/// Before the scheduler, after a reset over RAM that outlives it, and with a list that the debugger has destroyed.
#[test]
fn without_threads_the_cpu_is_shown_alone() {
    if !tools() {
        return;
    }
    let live = live(&[]);
    let destroy = "set var {unsigned} &_tx_thread_created_ptr = 0";
    let text = gdb_session(
        &live,
        &[
            "echo <before\\n",
            "info threads",
            "echo before>\\n",
            "break control_step",
            "continue",
            "info threads",
            "monitor system_reset",
            "maintenance flush register-cache",
            "echo <reset\\n",
            "info threads",
            "echo reset>\\n",
            "continue",
            "echo <again\\n",
            "info threads",
            "echo again>\\n",
            destroy,
            "stepi",
            "echo <destroyed\\n",
            "info threads",
            "p $pc",
            "echo destroyed>\\n",
            "kill",
        ],
    );
    let part = |name: &str| {
        let text = text.split_once(&format!("<{name}\n")).unwrap_or_else(|| panic!("{text}")).1;
        threads(text.split_once(&format!("{name}>\n")).unwrap().0)
    };
    assert!(part("before").len() == 1 && part("before")[0].contains("no threads"), "{text}");
    assert!(part("reset").iter().any(|line| line.contains("left by the run before")), "{text}");
    assert_eq!(part("again").len(), 10, "{text}");
    // Other variables lead to the threads.
    assert_eq!(part("destroyed").len(), 10, "{text}");
    for line in ["the CPU is shown alone, no threads", "the list of threads is broken: its head leads to 0x0"] {
        assert!(text.contains(&format!("tx-trace: {line}")), "one line says why: {text}");
    }
}

/// Numbers survive a reconnection, and equal those of `serve`: the lower 31 bits of the control block's address.
#[test]
fn numbers_of_threads_survive_a_reconnection() {
    if !tools() {
        return;
    }
    let live = live(&[]);
    let first = gdb_session(&live, &["break control_step", "continue", "info threads", "disconnect"]);
    let second = gdb_session(&live, &["info threads", "kill"]);
    assert_eq!(threads(&first), threads(&second));
    assert!(threads(&first).len() == 10, "{first}");
}

#[test]
fn gdb_mi_lists_threads_and_frames_as_editors_ask() {
    if !tools() {
        return;
    }
    let live = live(&[]);
    let scratch = Scratch::new();
    let script = [
        &format!("-target-select remote 127.0.0.1:{}", live.bridge.port)[..],
        "-break-insert control_step",
        "-exec-continue",
    ]
    .join("\n");
    let file = scratch.path("mi");
    std::fs::write(&file, format!("{script}\n")).unwrap();
    let lines =
        "sleep 6; printf '%s\\n' '-thread-info' '-thread-list-ids' '-stack-list-frames --thread 7 0 3' '-gdb-exit'";
    let mut command = Command::new("sh");
    let gdb = "gdb-multiarch -nx -q -i=mi3 -iex 'set debuginfod enabled off'";
    command.args(["-c", &format!("(cat {file}; {lines}; sleep 1) | {gdb} {}", fixture("cm3.elf"))]);
    let out = run(&mut command).out;
    assert!(out.contains("target-id=\"Thread 1.536890736\"") && out.contains("name=\"control\""), "{out}");
    assert!(out.contains("details=\"suspended on semaphore rx_ready, priority 8\""), "{out}");
    assert!(out.contains("func=\"mk_semaphore_get\""), "{out}");
}

#[test]
fn lldb_lists_the_threads_of_a_live_target() {
    if !tools() || !installed(&["lldb"]) {
        return;
    }
    let live = live(&[]);
    let connect = format!("gdb-remote 127.0.0.1:{}", live.bridge.port);
    let mut lldb = Command::new("timeout");
    lldb.args(["60", "lldb", "--no-lldbinit", "-b", "-o", &connect]);
    for line in ["breakpoint set -n control_step", "continue", "thread list", "thread select 3", "bt", "process kill"] {
        lldb.args(["-o", line]);
    }
    let Done { out, err, .. } = run(lldb.arg("cm3.elf").current_dir(fixture("")));
    assert!(out.contains("name = 'control', stop reason = breakpoint"), "{out}{err}");
    assert!(out.contains("name = 'comms'") && out.contains("timer_thread"), "{out}{err}");
}
