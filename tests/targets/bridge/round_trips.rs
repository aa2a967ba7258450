//! What threads cost: packets between the bridge and a stub behind a slow link, counted by the stub.

use std::time::Duration;

use super::debuggers::{bridge_with, plain};
use super::live_stub::{Counts, LiveStub, Machine};
use super::tools::*;

/// A run of GDB, through the bridge or without it, and what the stub counted.
fn session(machine: Machine, bridged: bool, commands: &[&str]) -> (Done, Counts) {
    let stub = LiveStub::start(machine);
    let elf = fixture("cm3.elf");
    let bridge = bridged.then(|| bridge_with(stub.port, &elf, &[]));
    let port = bridge.as_ref().map_or(stub.port, |bridge| bridge.port);
    let done = plain("gdb-multiarch", &[&elf], port, commands);
    (done, stub.counts())
}

/// Round trips from each step to the next, or from each time that the target was let run.
fn between(counts: &Counts, steps: bool) -> Vec<u32> {
    let resumed: Vec<u32> = counts.resumed.iter().filter(|r| r.steps == steps).map(|r| r.round_trips).collect();
    resumed.windows(2).map(|two| two[1] - two[0]).collect()
}

/// Both kinds of links, with 1 ms each way.
fn slow(threads: u32) -> [Machine; 2] {
    [true, false].map(|no_ack| Machine { no_ack, delay: Duration::from_millis(1), ..Machine::cortex_m3(threads) })
}

#[test]
fn a_step_costs_at_most_two_more_round_trips() {
    require!(installed(&["gdb-multiarch"]));
    for threads in [10, 50] {
        for machine in slow(threads) {
            let steps = ["stepi"; 20];
            let (_, alone) = session(machine.clone(), false, &steps);
            let (done, bridged) = session(machine, true, &steps);
            assert_eq!(alone.resumed.len(), 20, "{}", done.out);
            assert_eq!(bridged.resumed.len(), 20, "{}\n{}", done.out, done.err);
            for (with, without) in between(&bridged, true).into_iter().zip(between(&alone, true)) {
                assert!(with <= without + 2, "{threads} threads: {with} round trips, {without} without the bridge");
            }
        }
    }
}

/// At 1 ms each way a round trip takes 2 ms: 500 of them are a second. GDB shows the frame of each thread, and asks for the
/// code around it.
#[test]
fn fifty_threads_are_listed_within_a_second() {
    require!(installed(&["gdb-multiarch"]));
    for machine in slow(50) {
        let stop = ["continue", "info threads"];
        let commands = [&["break *0x2012", "info threads"][..], &stop, &stop, &["continue"]].concat();
        let (done, counts) = session(machine, true, &commands);
        assert_eq!(done.out.matches("\"sensor\" (").count(), 3 * 41, "{}\n{}", done.out, done.err);
        // The first list is found link by link; those after it are known.
        let first = counts.resumed.first().unwrap().round_trips;
        let later = between(&counts, false).into_iter().max().unwrap();
        assert!(first < 250 && later < 200, "{first}, {later}");
    }
}

/// Where the bridge says that a thread runs, the debugger has read the CPU's registers, and no more than once.
#[test]
fn a_stop_reads_the_registers_once() {
    require!(installed(&["gdb-multiarch"]));
    let (done, counts) = session(Machine::cortex_m3(10), true, &["break *0x2012", "continue", "info registers"]);
    assert!(done.out.contains("\"watchdog\" hit Breakpoint 1"), "{}", done.out);
    let stopped = counts.asked.iter().rposition(|packet| packet.starts_with("vCont;c")).unwrap();
    let registers = counts.asked[stopped..].iter().filter(|packet| *packet == "g").count();
    assert_eq!(registers, 1, "{:?}", &counts.asked[stopped..]);
}
