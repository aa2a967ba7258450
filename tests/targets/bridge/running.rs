//! Letting a target with threads run: steps, waits, deletions and resets in the middle of a session.

use super::live::{Live, part, threads};

/// Source steps lead through calls, waits and other threads, and never end in a signal.
#[test]
fn hundreds_of_source_steps() {
    require!(Live::tools());
    let live = Live::cortex_m3();
    let steps = "python for _ in range(400): gdb.execute('step', to_string=True)";
    let text = live.gdb(&["break control_step", "continue", "delete", steps, "p $_thread", "info threads", "kill"]);
    assert!(text.contains("$1 = ") && !text.contains("Error") && !text.contains("SIGTRAP"), "{text}");
    assert_eq!(threads(&text).len(), 10, "{text}");
}

/// `watchdog` sleeps for seven ticks; others sleep, in the same function, for less, and wake before it.
#[test]
fn next_and_finish_over_a_wait_while_others_run_the_same_code() {
    require!(Live::tools());
    let live = Live::cortex_m3();
    let text = live.gdb(&[
        "break control_step",
        "continue",
        "delete",
        "python watchdog = [t.num for t in gdb.selected_inferior().threads() if t.name == 'watchdog'][0]",
        "python gdb.execute('break mk_thread_sleep thread %d' % watchdog)",
        "continue",
        "delete",
        "echo <next\\n",
        // The last line of the function is the one that waits.
        "next",
        "next",
        "next",
        "next",
        "next",
        "python print('of watchdog:', gdb.selected_thread().num == watchdog)",
        "bt 2",
        "echo next>\\n",
        "python gdb.execute('break mk_thread_sleep thread %d' % watchdog)",
        "continue",
        "delete",
        "echo <finish\\n",
        "finish",
        "python print('of watchdog:', gdb.selected_thread().num == watchdog)",
        "bt 1",
        "echo finish>\\n",
        "kill",
    ]);
    for name in ["next", "finish"] {
        assert!(part(&text, name).contains("of watchdog: True"), "{name}: {text}");
        assert!(part(&text, name).contains("watchdog_entry"), "{name}: {text}");
    }
    assert!(!text.contains("SIGTRAP"), "{text}");
}

/// What `tx_thread_delete` stores: the debugger asks whether the thread that it knows is still there.
#[test]
fn a_deleted_thread_is_gone() {
    require!(Live::tools());
    let live = Live::cortex_m3();
    let text = live.gdb(&[
        "break control_step",
        "continue",
        "info threads",
        "python updater = [t for t in gdb.selected_inferior().threads() if t.name == 'updater'][0]",
        "python number = updater.num",
        "set var updater.tx_thread_created_previous->tx_thread_created_next = updater.tx_thread_created_next",
        "set var updater.tx_thread_created_next->tx_thread_created_previous = updater.tx_thread_created_previous",
        "set var updater.tx_thread_id = 0",
        "set var _tx_thread_created_count = 9",
        "set debug remote 1",
        "python gdb.execute('thread %d' % number)",
        "set debug remote 0",
        "stepi",
        "echo <after\\n",
        "info threads",
        "python print('still there:', updater.is_valid())",
        "echo after>\\n",
        "kill",
    ]);
    assert!(text.contains("Sending packet: $Tp1.20004aa0#") || text.contains("$Tp01.20004aa0#"), "{text}");
    assert!(text.contains("Packet received: E01"), "{text}");
    assert_eq!(threads(part(&text, "after")).len(), 9, "{text}");
    assert!(part(&text, "after").contains("still there: False"), "{text}");
}

/// The list loops, or leads to nowhere: what can still be found is shown, and one line says what is wrong.
#[test]
fn a_list_that_the_debugger_has_damaged() {
    require!(Live::tools());
    for (damage, least) in [
        ("set var control.tx_thread_created_next = &control", 5),
        ("set var control.tx_thread_created_next = (void *) 0x40004000", 5),
        ("set var sensor.tx_thread_id = 0", 9),
        ("set var sensor.tx_thread_stack_ptr = (void *) 0xE000E000", 10),
    ] {
        let live = Live::cortex_m3();
        let text = live.gdb(&[
            "break control_step",
            "continue",
            damage,
            "stepi",
            "echo <list\\n",
            "info threads",
            "p $_thread",
            "echo list>\\n",
            "kill",
        ]);
        let list = threads(part(&text, "list"));
        assert!(list.len() >= least && list.len() <= 10, "{damage}: {text}");
        assert!(list.iter().any(|line| line.contains("\"control\" (running")), "{damage}: {text}");
    }
}

/// With scheduler locking a suspended thread is neither run nor moved, and the kernel goes on afterwards.
#[test]
fn scheduler_locking_runs_no_suspended_thread() {
    require!(Live::tools());
    let live = Live::cortex_m3();
    let text = live.gdb(&[
        "break control_step",
        "continue",
        "set scheduler-locking on",
        "python comms = [t for t in gdb.selected_inferior().threads() if t.name == 'comms'][0]",
        "python comms.switch()",
        "echo <locked\\n",
        "p $pc",
        "stepi",
        "p $pc",
        "p $r4 = 1",
        "echo locked>\\n",
        "set scheduler-locking off",
        "thread 2",
        "break sensor_entry",
        "break mk_queue_send",
        "continue",
        "p $_thread",
        "kill",
    ]);
    let locked = part(&text, "locked");
    let places: Vec<&str> =
        locked.lines().filter(|line| line.contains("= (") && line.contains("port_restore")).collect();
    assert!(
        places.len() == 2 && places[0].split_once('=').unwrap().1 == places[1].split_once('=').unwrap().1,
        "{text}"
    );
    assert!(text.contains("comms does not run") && text.contains("hit Breakpoint"), "{text}");
}

/// An interrupt that comes while no thread runs: the CPU has one number, at every stop, and all threads are there.
#[test]
fn an_idle_cpu_has_a_number_of_its_own() {
    require!(Live::tools());
    let live = Live::cortex_m3();
    let idle = "break SysTick_Handler if _tx_thread_current_ptr == 0 && _tx_timer_system_clock > 1";
    let look = ["continue", "echo <list\\n", "info threads", "echo list>\\n"];
    let text = live.gdb(&[&[idle][..], &look, &look, &["kill"]].concat());
    let lists: Vec<Vec<String>> =
        text.split("<list\n").skip(1).map(|rest| threads(rest.split("list>").next().unwrap())).collect();
    assert_eq!(lists.iter().map(Vec::len).collect::<Vec<_>>(), [11, 11], "{text}");
    for list in lists {
        let of_cpu = list.iter().find(|line| line.contains("\"CPU\"")).unwrap();
        assert!(
            of_cpu.starts_with("1 \"CPU\" (no thread runs") && of_cpu.contains("exception 15 (SysTick)"),
            "{of_cpu}"
        );
    }
}

/// What is not about threads reaches the stub: watchpoints, `load`, monitor commands.
#[test]
fn watchpoints_and_load_pass() {
    require!(Live::tools());
    let live = Live::cortex_m3();
    let text = live.gdb(&[
        "load",
        "break control_step",
        "continue",
        "watch control_cycles",
        "continue",
        "p $_thread",
        "monitor info status",
        "kill",
    ]);
    for expected in ["Loading section .text", "Hardware watchpoint 2: control_cycles", "Old value", "VM status: paused"]
    {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert!(text.contains("\"control\" hit Hardware watchpoint"), "{text}");
}
