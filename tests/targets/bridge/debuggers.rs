//! Real debuggers, real stubs: what they print through the bridge is what they print without it.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use super::tools::*;

/// A bridge that ends with the test.
pub struct Running {
    child: Child,
    pub port: u16,
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Starts a bridge on a free port, which it prints. It forwards every byte as it is.
fn bridge(to: u16, elf: &str) -> Running {
    bridge_with(to, elf, &["--threads", "off"])
}

/// The same with these options.
pub fn bridge_with(to: u16, elf: &str, options: &[&str]) -> Running {
    let mut command = Command::new(binary());
    command.args(["bridge", "--listen", ":0", "--remote", &format!(":{to}"), "--elf", elf]).args(options);
    command.env_remove("TX_TRACE_REMOTE").env_remove("TX_TRACE_ELF");
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let mut talk = BufReader::new(child.stderr.take().unwrap());
    talk.read_line(&mut line).unwrap();
    while line.contains("not shown to the debugger") {
        line.clear();
        talk.read_line(&mut line).unwrap();
    }
    let port = line.trim().rsplit(':').next().and_then(|p| p.parse().ok()).unwrap_or_else(|| panic!("{line}"));
    // Its talk is read to its end, so that it never waits for a reader.
    std::thread::spawn(move || std::io::copy(&mut talk, &mut std::io::sink()));
    Running { child, port }
}

pub fn plain(program: &str, files: &[&str], port: u16, commands: &[&str]) -> Done {
    let mut command = gdb(program);
    let first = ["set confirm off", "set width 0", "set tcp connect-timeout 20", &connect(port)];
    command.arg("-batch");
    for c in first.iter().chain(commands) {
        command.args(["-ex", c]);
    }
    run(command.args(files))
}

/// GDB prints what `monitor` prints on its stderr.
fn begin(name: &str) -> String {
    format!("python gdb.write(\"<{name}\\n\", gdb.STDERR)")
}

fn end(name: &str) -> String {
    format!("python gdb.write(\"{name}>\\n\", gdb.STDERR)")
}

fn part<'d>(done: &'d Done, name: &str) -> &'d str {
    let (begin, end) = (format!("<{name}\n"), format!("{name}>\n"));
    let text = done.err.split_once(&begin).unwrap_or_else(|| panic!("no {name} in {}\n{}", done.out, done.err)).1;
    text.split_once(&end).unwrap_or_else(|| panic!("no end of {name} in {}\n{}", done.out, done.err)).0
}

/// Break, continue, step, watch, write, look, and the stub's own monitor.
const QEMU: [&str; 20] = [
    "break control_step",
    "continue",
    "bt",
    "next",
    "stepi",
    "info registers",
    "watch control_cycles",
    "continue",
    "delete",
    "set var control_cycles = 77",
    "p control_cycles",
    "x/64xb &trace_buffer",
    "monitor info status",
    "monitor help",
    "info threads",
    "hbreak fault_spin",
    "continue",
    "p fw_fault",
    "find &trace_buffer, +sizeof(trace_buffer), 0x54585442",
    "kill",
];

#[test]
fn gdb_and_qemu_do_not_notice() {
    require!(installed(&["gdb-multiarch", "qemu-system-arm"]));
    let elf = fixture("cm3.elf");
    let through = |bridged: bool| {
        let (_qemu, port) = qemu(&elf);
        let held = bridged.then(|| {
            // QEMU listens before the debugger comes: the bridge tries only once.
            wait_for_port(port);
            bridge(port, &elf)
        });
        plain("gdb-multiarch", &[&elf], held.as_ref().map_or(port, |b| b.port), &QEMU)
    };
    let (without, with) = (through(false), through(true));
    assert!(without.out.contains("Old value") && without.err.contains("VM status"), "{}", without.out);
    assert_eq!(without.out, with.out);
    assert_eq!(without.err, with.err);
}

/// Waits until somebody listens there, without a connection that the listener would notice.
pub fn wait_for_port(port: u16) {
    let wanted = format!(":{port:04X}");
    let deadline = std::time::Instant::now() + TIME_LIMIT;
    loop {
        let listens = ["tcp", "tcp6"].iter().any(|table| {
            let text = std::fs::read_to_string(format!("/proc/net/{table}")).unwrap_or_default();
            text.lines().any(|l| {
                let mut words = l.split_whitespace().skip(1);
                let at_port = words.next().is_some_and(|local| local.ends_with(&wanted));
                at_port && words.nth(1) == Some("0A")
            })
        });
        if listens {
            return;
        }
        assert!(std::time::Instant::now() < deadline, "nobody listens at {port}");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

#[test]
fn monitor_lines_and_an_interrupt() {
    require!(installed(&["gdb-multiarch", "qemu-system-arm"]));
    let elf = fixture("cm3.elf");
    let (_qemu, port) = qemu(&elf);
    wait_for_port(port);
    let bridge = bridge(port, &elf);
    // By itself the firmware comes to its fault and spins there until Ctrl-C.
    let interrupt =
        "python import os, signal, threading; threading.Timer(1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()";
    let commands = [
        &begin("early"),
        "monitor tx-trace last 5",
        &end("early"),
        interrupt,
        "continue",
        "p fw_fault.magic",
        &begin("last"),
        "monitor tx-trace last 50",
        &end("last"),
        &begin("json"),
        "monitor tx-trace last 3 --thread watchdog --format json",
        &end("json"),
        &begin("refused"),
        "monitor tx-trace list -o /tmp/x",
        "monitor tx-trace control pause --yes",
        "monitor tx-trace last --remote |sh",
        &end("refused"),
        "monitor info status",
        &begin("wide"),
        "monitor tx-trace list --width 200",
        &end("wide"),
        "kill",
    ];
    let done = plain("gdb-multiarch", &[&elf], bridge.port, &commands);
    assert!(done.out.contains("received signal SIGINT"), "{}\n{}", done.out, done.err);
    assert!(
        part(&done, "early").contains("never") || part(&done, "early").contains("not enabled"),
        "{}",
        part(&done, "early")
    );
    let image = format!("{}@0x20000000", fixture("cm3.ram.bin"));
    let source = ["--elf", &elf, "--image", &image, "--color", "never", "--width"];
    let wanted = shell(&[&["last", "50"][..], &source, &["80"]].concat());
    assert_eq!(part(&done, "last"), wanted.out);
    let wanted = shell(&[&["list"][..], &source, &["200"]].concat());
    assert_eq!(part(&done, "wide"), wanted.out);
    let json: Vec<serde_json::Value> = part(&done, "json").lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let kinds: Vec<&str> = json.iter().map(|v| v["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["trace", "event", "event", "event", "end"]);
    let refused: Vec<&str> = part(&done, "refused").lines().collect();
    assert_eq!(refused.len(), 3, "{refused:?}");
    assert!(refused[0].contains("--output") && refused[1].contains("control") && refused[2].contains("--remote"));
    assert!(done.err.contains("VM status: paused"));
}

const NATIVE: [&str; 15] = [
    "break control_step",
    "continue",
    "bt 2",
    "next",
    "stepi",
    "info registers rip rsp",
    "watch control_cycles",
    "continue",
    "delete",
    "set var control_cycles = 77",
    "p control_cycles",
    "monitor help",
    "info threads",
    "continue",
    "p fw_fault",
];

#[test]
fn gdb_and_gdbserver_do_not_notice() {
    require!(installed(&["gdb", "gdbserver"]) && runs_host_fixture());
    let scratch = Scratch::new();
    let elf = scratch.executable("host.elf");
    let through = |bridged: bool, more: &[&str]| {
        let port = free_port();
        let mut command = Command::new("gdbserver");
        let _server = Server::start(command.args(["--once", &format!("127.0.0.1:{port}"), &elf]));
        wait_for_port(port);
        let held = bridged.then(|| bridge(port, &elf));
        let to = held.as_ref().map_or(port, |b| b.port);
        plain("gdb", &[&elf], to, &[&NATIVE[..], more].concat())
    };
    // Numbers of processes differ from run to run.
    let numbers = |text: &str| {
        // That of the process may be as short as those that are the same in each run.
        let pid = text.split_once("Thread ").and_then(|(_, rest)| rest.split_once('.')).map_or("none", |(pid, _)| pid);
        let text = text
            .replace(&format!("Thread {pid}.{pid} "), "Thread N ")
            .replace(&format!("process {pid})"), "process N)");
        let words = text.split_inclusive(|c: char| !c.is_ascii_digit());
        words
            .map(|w| if w.trim_end_matches(|c: char| !c.is_ascii_digit()).len() > 3 { "N " } else { w })
            .collect::<String>()
    };
    let (without, with) = (through(false, &["kill"]), through(true, &["kill"]));
    assert!(without.out.contains("Old value"), "{}\n{}", without.out, without.err);
    assert_eq!(numbers(&without.out), numbers(&with.out));
    // What GDB's own command reads of the same stop.
    let load = format!("source {}", script());
    let last = [
        "set width 80",
        &load,
        "echo <last\\n",
        "tx-trace last 50",
        "echo last>\\n",
        &begin("last"),
        "monitor tx-trace last 50",
        &end("last"),
        &begin("info"),
        "monitor tx-trace info",
        &end("info"),
        "kill",
    ];
    let done = through(true, &last);
    assert_eq!(part(&done, "last"), done.part("last"), "{}", done.err);
    assert!(done.part("last").lines().count() > 50, "{}", done.out);
    assert!(part(&done, "info").contains("AT_ENTRY from the stub"), "{}", part(&done, "info"));
}

#[test]
fn what_a_bridge_refuses() {
    for (words, said) in [
        (&["bridge"][..], "give it by --remote"),
        (&["bridge", "--core", "x"], "give it by --remote"),
        (&["bridge", "--remote", "openocd:localhost:6666"], "bridge needs a GDB stub"),
        (&["bridge", "--remote", "stdio:"], "bridge needs a GDB stub"),
        (&["bridge", "--remote", ":1", "--listen", "nonsense"], "--listen"),
        (&["bridge", "--remote", ":1", "--listen", ":0", "--elf", "/nowhere.elf"], "/nowhere.elf"),
        (&["bridge", "--remote", ":1", "--scan"], "--scan"),
        // It was accepted, and did nothing.
        (&["bridge", "--remote", ":1", "--leave", "halted"], "--leave"),
    ] {
        let done = shell(words);
        assert_eq!(done.status, Some(2), "{words:?}");
        assert!(done.err.contains(said), "{words:?}: {}", done.err);
    }
}

#[test]
fn other_addresses_than_loopback_are_reported() {
    let mut child = Command::new(binary())
        .args(["bridge", "--listen", "0.0.0.0:0", "--remote", ":1", "--elf", &fixture("cm3.elf")])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let talk = BufReader::new(child.stderr.take().unwrap());
    let said: Vec<String> = talk.lines().take(2).map(Result::unwrap).collect();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(said[1].contains("not loopback"), "{said:?}");
}
