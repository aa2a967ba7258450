//! Threads in a debugger: round trips and time of a step and of a stop, with 9 and 50 threads, beside the stub alone.
//!
//!     cargo bench --bench threads
//!
//! GDB on a simulated stub, which counts the requests that could not be sent before the answer to another was here. A stop is
//! from the breakpoint to the end of `info threads`.
//!
//! Goals: at most two further round trips a step; 50 threads listed within a second at 1 ms each way.

#![allow(missing_docs, clippy::restriction, reason = "a benchmark")]

mod support;
#[path = "../tests/support/mod.rs"]
mod targets;

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use support::{fixture, goal, installed, table, time, tx_trace};
use targets::live_stub::{LiveStub, Machine};
use targets::machine::Running;

const STEPS: usize = 30;
const STOPS: usize = 10;

/// A bridge in front of a stub, and its port.
fn bridge(stub: u16) -> (Running, u16) {
    let remote = format!("127.0.0.1:{stub}");
    let mut command = tx_trace(&["bridge", "--listen", ":0", "--remote", &remote, "--elf", &fixture("cm3.elf")]);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut talk = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    talk.read_line(&mut line).unwrap();
    let port = line.trim().rsplit(':').next().unwrap().parse().unwrap();
    std::thread::spawn(move || std::io::copy(&mut talk, &mut std::io::sink()));
    (Running(child), port)
}

/// Round trips and time of one step, or of one stop: the middle one.
fn measure(machine: Machine, bridged: bool, stops: bool) -> (u32, Duration) {
    let stub = LiveStub::start(machine);
    let held = bridged.then(|| bridge(stub.port));
    let port = held.as_ref().map_or(stub.port, |(_, port)| *port);
    let mut commands = vec!["set confirm off".to_owned(), format!("target remote 127.0.0.1:{port}")];
    if stops {
        // A step leads past the breakpoint: the next one is somewhere else.
        commands.extend((0..STOPS).flat_map(|n| {
            let at = if n % 2 == 0 { "0x2012" } else { "0x200c" };
            [format!("tbreak *{at}"), "continue".to_owned(), "info threads".to_owned()]
        }));
    } else {
        commands.extend(std::iter::repeat_n("stepi".to_owned(), STEPS));
    }
    let mut gdb = Command::new("gdb-multiarch");
    gdb.args(["-nx", "-batch"]);
    for line in &commands {
        gdb.args(["-ex", line]);
    }
    let out = gdb.arg(fixture("cm3.elf")).stdin(Stdio::null()).output().unwrap();
    let resumed: Vec<_> = stub.counts().resumed.into_iter().filter(|r| r.steps != stops).collect();
    let wanted = if stops { STOPS } else { STEPS };
    assert_eq!(resumed.len(), wanted, "{}", String::from_utf8_lossy(&out.stderr));
    let pairs = resumed.windows(2);
    let mut all: Vec<(u32, Duration)> =
        pairs.map(|two| (two[1].round_trips - two[0].round_trips, two[1].at - two[0].at)).collect();
    all.sort_unstable();
    all[all.len() / 2]
}

fn main() {
    if !installed("gdb-multiarch") {
        return;
    }
    let mut rows = Vec::new();
    let (mut most, mut listed) = (i64::MIN, Duration::ZERO);
    for threads in [9, 50] {
        for (link, delay) in [("straight", Duration::ZERO), ("1 ms each way", Duration::from_millis(1))] {
            for (what, stops) in [("a step", false), ("a stop", true)] {
                let machine = Machine { delay, ..Machine::cortex_m3(threads) };
                let (alone, bridged) = (measure(machine.clone(), false, stops), measure(machine, true, stops));
                if !stops {
                    most = most.max(i64::from(bridged.0) - i64::from(alone.0));
                } else if !delay.is_zero() {
                    listed = listed.max(bridged.1);
                }
                let cells = [threads.to_string(), link.to_owned(), what.to_owned()];
                let cells = cells.into_iter().chain([alone.0.to_string(), time(alone.1)]);
                rows.push(cells.chain([bridged.0.to_string(), time(bridged.1)]).collect());
            }
        }
    }
    println!(
        "GDB on a simulated Cortex-M3, the middle one of {STEPS} steps and of {STOPS} stops. The stub alone shows one thread.\n"
    );
    table(&["threads", "link", "what", "alone: round trips", "time", "with the bridge: round trips", "time"], &rows);
    goal("at most two further round trips a step", most <= 2, &format!("{most:+}"));
    goal("50 threads listed within 1 s, 1 ms each way", listed.as_secs_f64() < 1.0, &time(listed));
}
