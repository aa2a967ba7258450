//! ThreadX's threads in real debuggers on a real live stub, through the bridge.

use std::process::Command;

use super::live::{Live, threads};
use super::tools::*;

/// Breakpoints, steps and waits of one thread among others that run the same code.
#[test]
fn a_thread_is_stepped_and_broken_into_alone() {
    require!(Live::tools());
    let live = Live::cortex_m3();
    let text = live.gdb(&[
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
    ]);
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
    require!(Live::tools());
    let live = Live::cortex_m3();
    let mut commands = vec!["break sensor_entry", "continue", "delete"];
    commands.extend(["next"; 60]);
    commands.extend(["p $_thread", "info symbol $pc", "kill"]);
    let text = live.gdb(&commands);
    assert!(text.contains("sensor_entry + ") && !text.contains("SIGTRAP"), "{text}");
}

#[test]
fn a_thousand_steps_and_an_interrupt() {
    require!(Live::tools());
    let live = Live::cortex_m3();
    let steps = "python for _ in range(1000): gdb.execute('stepi', to_string=True)";
    let interrupt =
        "python import os, signal, threading; threading.Timer(1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()";
    let text = live.gdb(&[
        "break control_step",
        "continue",
        "delete",
        steps,
        "p $_thread",
        interrupt,
        "continue",
        "info threads",
        "kill",
    ]);
    assert!(text.contains("$1 = 2") && text.contains("SIGINT"), "{text}");
    assert!(text.contains("running, in exception 3 (HardFault)"), "{text}");
    assert_eq!(threads(&text).len(), 10, "{text}");
}

/// Before the scheduler, after a reset over RAM that outlives it, and with a list that the debugger has destroyed.
#[test]
fn without_threads_the_cpu_is_shown_alone() {
    require!(Live::tools());
    let live = Live::cortex_m3();
    let destroy = "set var {unsigned} &_tx_thread_created_ptr = 0";
    let text = live.gdb(&[
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
    ]);
    let part = |name: &str| {
        let text = text.split_once(&format!("<{name}\n")).unwrap_or_else(|| panic!("{text}")).1;
        threads(text.split_once(&format!("{name}>\n")).unwrap().0)
    };
    assert!(part("before").len() == 1 && part("before")[0].contains("no threads"), "{text}");
    assert!(part("reset").iter().any(|line| line.contains("left by the run before")), "{text}");
    assert_eq!(part("again").len(), 10, "{text}");
    // Other variables lead to the threads.
    assert_eq!(part("destroyed").len(), 10, "{text}");
    for line in ["the CPU is shown alone, no threads", "the list of threads is broken: its head points to 0x0"] {
        assert!(text.contains(&format!("tx-trace: {line}")), "one line says why: {text}");
    }
}

/// Numbers survive a reconnection, and equal those of `serve`: the lower 31 bits of the control block's address.
#[test]
fn numbers_of_threads_survive_a_reconnection() {
    require!(Live::tools());
    let live = Live::cortex_m3();
    let first = live.gdb(&["break control_step", "continue", "info threads", "disconnect"]);
    let second = live.gdb(&["info threads", "kill"]);
    assert_eq!(threads(&first), threads(&second));
    assert!(threads(&first).len() == 10, "{first}");
}

#[test]
fn lldb_lists_the_threads_of_a_live_target() {
    require!(Live::tools() && installed(&["lldb"]));
    let live = Live::cortex_m3();
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
