//! Stubs that list their CPUs as threads: each of the kernel's cores has one.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use super::debuggers::{bridge_with, plain};
use super::live::{part, threads};
use super::live_stub::{LiveStub, Machine};
use super::tools::*;

#[test]
fn each_core_of_the_kernel_has_its_cpu() {
    require!(installed(&["gdb-multiarch"]));
    let (stub, elf) = (LiveStub::start(Machine::two_cores()), fixture("smp.elf"));
    let bridge = bridge_with(stub.port, &elf, &[]);
    let commands = [
        "echo <list\\n",
        "info threads",
        "echo list>\\n",
        "python gdb.execute('thread ' + [str(t.num) for t in gdb.selected_inferior().threads() if t.name == 'filter'][0])",
        "echo <second\\n",
        "info symbol $pc",
        "stepi",
        "echo second>\\n",
    ];
    let done = plain("gdb-multiarch", &[&elf], bridge.port, &commands);
    let text = format!("{}\n{}", done.out, done.err);
    let list = threads(part(&text, "list"));
    let running: Vec<&String> = list.iter().filter(|line| line.contains("(running")).collect();
    assert_eq!(running.len(), 2, "{text}");
    for (name, function) in [("watchdog", "watchdog_entry ("), ("filter", "filter_entry (")] {
        let of = |line: &&&String| line.contains(&format!("\"{name}\"")) && line.contains(function);
        assert_eq!(running.iter().filter(of).count(), 1, "{name}: {text}");
    }
    assert!(part(&text, "second").contains("filter_entry"), "{text}");
    // The step is that of the second CPU, whose registers were asked for.
    let asked = stub.counts().asked;
    assert!(
        asked.iter().any(|packet| packet == "Hg2") && asked.iter().any(|p| p.starts_with("vCont;s:2")),
        "{asked:?}"
    );
}

/// Beside the CPU of the kernel there is another one, which a debugger can still look at.
#[test]
fn a_cpu_without_the_kernel_is_shown_too() {
    require!(installed(&["gdb-multiarch"]));
    let mut machine = Machine { lists_cpus: true, ..Machine::cortex_m3(10) };
    machine.cpus.push(machine.cpus[0]);
    machine.cpus[1][13] = 0x2000_7FF0;
    let (stub, elf) = (LiveStub::start(machine), fixture("cm3.elf"));
    let bridge = bridge_with(stub.port, &elf, &[]);
    let done = plain("gdb-multiarch", &[&elf], bridge.port, &["info threads"]);
    let list = threads(&done.out);
    assert_eq!(list.len(), 11, "{}", done.out);
    assert!(list.iter().any(|line| line.contains("\"watchdog\" (running")), "{list:?}");
    assert!(list.iter().any(|line| line.contains("\"CPU 1\" (the kernel does not run on this CPU)")), "{list:?}");
}

/// A stack pointer of a thread that has overflowed its stack is in no stack: the CPU is nobody's, and its line says where it is.
#[test]
fn a_cpu_below_the_stack_of_its_thread_runs_no_thread() {
    require!(installed(&["gdb-multiarch"]));
    let mut machine = Machine::cortex_m3(10);
    machine.cpus[0][13] = 0x2000_2C60 - 40;
    let (stub, elf) = (LiveStub::start(machine), fixture("cm3.elf"));
    let bridge = bridge_with(stub.port, &elf, &[]);
    let done = plain("gdb-multiarch", &[&elf], bridge.port, &["info threads"]);
    let list = threads(&done.out);
    assert!(
        list.iter().any(|line| line.contains("\"CPU\" (on the stack of no thread: 40 bytes below that of watchdog)")),
        "{}",
        done.out
    );
    assert!(!list.iter().any(|line| line.contains("(running")), "{list:?}");
}

/// Pointers of damaged control blocks lead to registers of devices: these are not read.
#[test]
fn no_damaged_pointer_leads_to_a_device() {
    require!(installed(&["gdb-multiarch"]));
    let control = 0x2000_4D70;
    for (offset, word) in
        [(136, 0x4000_4000), (136, 0xE000_ED00), (8, 0x4000_C010), (12, 0x4000_C000), (40, 0x5000_0000)]
    {
        let mut machine = Machine::cortex_m3(10);
        machine.poke(control + offset, word);
        let (stub, elf) = (LiveStub::start(machine), fixture("cm3.elf"));
        let bridge = bridge_with(stub.port, &elf, &[]);
        let done = plain(
            "gdb-multiarch",
            &[&elf],
            bridge.port,
            &["info threads", "break *0x2012", "continue", "info threads"],
        );
        assert!(threads(&done.out).len() >= 18, "{offset}: {}", done.out);
        let device = |packet: &&String| {
            let at = packet.strip_prefix('m').and_then(|rest| u64::from_str_radix(rest.split(',').next()?, 16).ok());
            at.is_some_and(|at| (0x4000_0000..0x6000_0000).contains(&at) || at >= 0xE000_0000)
        };
        let asked = stub.counts().asked;
        let read: Vec<&String> = asked.iter().filter(device).collect();
        assert!(read.is_empty(), "{offset}: {read:?}");
    }
}

/// In front of `serve` it said that no memory is at the head of the kernel's list of threads.
#[test]
fn a_bridge_that_is_asked_to_shows_its_threads_in_place_of_those_of_the_stub() {
    require!(installed(&["gdb-multiarch"]));
    let elf = fixture("cm3.elf");
    let mut server = Command::new(binary());
    server.args(["serve", &elf, &fixture("cm3.core"), "--listen", ":0"]).stdin(Stdio::null()).stderr(Stdio::piped());
    let mut server = server.spawn().unwrap();
    let mut said = BufReader::new(server.stderr.take().unwrap()).lines().map_while(Result::ok);
    let port = said.find_map(|line| line.strip_prefix("(gdb) target remote :")?.trim().parse().ok()).unwrap();
    let bridge = bridge_with(port, &elf, &["--threads", "on"]);
    let done = plain("gdb-multiarch", &[&elf], bridge.port, &["info threads"]);
    drop(server.kill());
    drop(server.wait());
    assert_eq!(threads(&done.out).len(), 10, "{}", done.out);
    assert!(done.out.contains("\"control\" (suspended on mutex bus_mutex owned by low_task"), "{}", done.out);
}
