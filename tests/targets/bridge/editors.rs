//! The lines of GDB/MI that editors send, in their order: cortex-debug 1.13 and cdt-gdb-adapter.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};

use super::live::Live;
use super::tools::*;

/// GDB, as an editor runs it.
struct Mi {
    input: ChildStdin,
    lines: Receiver<String>,
    _gdb: Server,
}

impl Mi {
    fn start(elf: &str) -> Self {
        let mut command = gdb("gdb-multiarch");
        command.args(["--interpreter=mi2", elf]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { input, lines, _gdb: Server(child) }
    }

    /// The first line that begins so.
    fn wait(&self, begins: &str) -> String {
        let mut seen = String::new();
        loop {
            let line = self.lines.recv_timeout(TIME_LIMIT).unwrap_or_else(|_| panic!("no {begins} in {seen}"));
            if line.starts_with(begins) {
                return line;
            }
            seen.push_str(&line);
            seen.push('\n');
        }
    }

    /// The result of a command: `^done,...`.
    fn ask(&mut self, command: &str) -> String {
        writeln!(self.input, "{command}").unwrap();
        self.wait("^")
    }
}

/// The number after `name="`, wherever it is.
fn number_of(result: &str, thread: &str) -> String {
    let of = result.split("{id=\"").find(|part| part.contains(&format!("name=\"{thread}\"")));
    of.and_then(|part| part.split('"').next()).unwrap_or_else(|| panic!("no {thread} in {result}")).to_owned()
}

/// Lists, frames and variables of a suspended thread.
fn look(mi: &mut Mi, comms: &str) {
    let depth = mi.ask(&format!("-stack-info-depth --thread {comms} 100"));
    assert!(depth.starts_with("^done,depth=\""), "{depth}");
    let frames = mi.ask(&format!("-stack-list-frames --thread {comms} 0 3"));
    for function in ["port_restore", "leave", "mk_semaphore_get", "comms_entry"] {
        assert!(frames.contains(&format!("func=\"{function}\"")), "{frames}");
    }
    let variables = mi.ask(&format!("-stack-list-variables --thread {comms} --frame 2 --simple-values"));
    assert!(variables.contains("name=\"wait\"") && variables.contains("value=\"4294967295\""), "{variables}");
    let selected = mi.ask(&format!("-thread-select {comms}"));
    assert!(selected.starts_with(&format!("^done,new-thread-id=\"{comms}\"")), "{selected}");
}

#[test]
fn cortex_debug_lists_threads_and_frames() {
    require!(Live::tools());
    let live = Live::cortex_m3();
    let mut mi = Mi::start(&live.elf);
    mi.ask("-gdb-set mi-async on");
    let connected = mi.ask(&format!("-target-select extended-remote localhost:{}", live.bridge.port));
    assert!(connected.starts_with("^connected") || connected.starts_with("^done"), "{connected}");
    // QEMU has no such command, and says so; OpenOCD and J-Link halt.
    mi.ask("-interpreter-exec console \"monitor halt\"");
    assert!(mi.ask("-break-insert control_step").starts_with("^done"));
    assert!(mi.ask("-exec-continue --all").starts_with("^running"));
    let stopped = mi.wait("*stopped");
    assert!(stopped.contains("reason=\"breakpoint-hit\"") && stopped.contains("func=\"control_step\""), "{stopped}");
    let ids = mi.ask("-thread-list-ids");
    assert!(ids.contains("number-of-threads=\"10\"") && ids.contains("current-thread-id=\"2\""), "{ids}");
    let numbers = ids.split("thread-id=\"").skip(1).filter_map(|part| part.split('"').next());
    let mut all = String::new();
    for number in numbers.map(str::to_owned).collect::<Vec<_>>() {
        all.push_str(&mi.ask(&format!("-thread-info {number}")));
    }
    assert!(all.contains("target-id=\"Thread 1.536890736\"") && all.contains("name=\"control\""), "{all}");
    assert!(all.contains("details=\"suspended on semaphore rx_ready, priority 8\""), "{all}");
    let comms = number_of(&all, "comms");
    look(&mut mi, &comms);
}

#[test]
fn cdt_gdb_adapter_lists_threads_and_frames() {
    require!(Live::tools());
    let live = Live::cortex_m3();
    let mut mi = Mi::start(&live.elf);
    mi.ask("-gdb-set non-stop off");
    mi.ask("-gdb-set mi-async on");
    assert!(mi.ask(&format!("-target-select remote localhost:{}", live.bridge.port)).starts_with("^connected"));
    assert!(mi.ask("-break-insert control_step").starts_with("^done"));
    assert!(mi.ask("-exec-continue").starts_with("^running"));
    mi.wait("*stopped");
    let all = mi.ask("-thread-info");
    assert_eq!(all.matches("target-id=\"Thread 1.").count(), 10, "{all}");
    let comms = number_of(&all, "comms");
    look(&mut mi, &comms);
    let stepped = mi.ask("-exec-next --thread 2");
    assert!(stepped.starts_with("^running"), "{stepped}");
    assert!(mi.wait("*stopped").contains("reason=\"end-stepping-range\""));
}
