//! GDB at a terminal: its pager, Ctrl-C, colour.

use std::time::{Duration, Instant};

use super::tools::*;
use crate::support::pty::Terminal;

impl Terminal {
    /// A command of GDB and what it prints.
    fn command(&mut self, line: &str) -> String {
        self.type_in(&format!("{line}\n"));
        self.wait(line);
        self.wait("(gdb) ")
    }

    /// No child of GDB is left; the system may take a moment to tell.
    fn assert_childless(&self) {
        let deadline = Instant::now() + Duration::from_secs(5);
        while !children(self.child.id()).is_empty() {
            assert!(Instant::now() < deadline, "children are left: {:?}", children(self.child.id()));
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn at_terminal(files: &[&str], program: Option<&str>) -> Terminal {
    let mut command = gdb("gdb-multiarch");
    command.args(["-ex", "set width 100", "-ex", "set height 0", "-ex", &format!("source {}", script())]);
    command.env("TERM", "xterm-256color").args(files);
    if let Some(program) = program {
        command.env("TX_TRACE_BIN", program);
    }
    let mut terminal = Terminal::start(command);
    terminal.wait("(gdb) ");
    terminal
}

fn on_core() -> Terminal {
    at_terminal(&[&fixture("cm3.elf"), &fixture("cm3.core")], None)
}

/// Sequences that set colour or weight.
fn has_colour(text: &str) -> bool {
    text.split("\x1b[").skip(1).any(|t| {
        let end = t.find(|c: char| !c.is_ascii_digit() && c != ';').unwrap_or(t.len());
        t[end..].starts_with('m')
    })
}

#[test]
fn leaving_the_pager_leaves_no_child() {
    require!(installed(&["gdb-multiarch"]));
    let mut terminal = on_core();
    terminal.command("set height 10");
    terminal.type_in("tx-trace list\n");
    terminal.wait("--Type <RET> for more");
    terminal.type_in("\n");
    terminal.wait("--Type <RET> for more");
    terminal.type_in("q\n");
    let text = terminal.wait("(gdb) ");
    assert!(!text.contains("Python") && !text.contains("Traceback"), "{text}");
    terminal.assert_childless();
    terminal.command("set height 0");
    assert!(terminal.command("p $_tx_trace_exit").contains("= 2"));
    assert!(terminal.command("tx-trace last 1").contains("tx_thread_identify"));
    assert!(terminal.command("p $_tx_trace_exit").contains("= 0"));
}

/// True where a script is at its end: it sleeps, is stopped, or waits for a child that sleeps.
fn has_begun(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let sleeps = |child: &String| child.ends_with("(sleep");
    stat.contains("(sleep) ") || stat.contains(") T ") || children(pid.parse().unwrap()).iter().any(sleeps)
}

/// Ctrl-C that comes within `Popen`, when the process is there and Python does not know it yet.
#[test]
fn ctrl_c_within_popen_left_a_child() {
    require!(installed(&["gdb-multiarch"]));
    let scratch = Scratch::new();
    let program = scratch.program("sleeps.sh", "#!/bin/sh\n[ \"$1\" = gdb ] && exit\nexec sleep 600\n");
    let early = "import os, signal, subprocess\n\
                 popen = subprocess.Popen.__init__\n\
                 def with_ctrl_c(*words, **options):\n    \
                     popen(*words, **options)\n    \
                     os.kill(os.getpid(), signal.SIGINT)\n    \
                     [None for _ in range(1000)]\n\
                 subprocess.Popen.__init__ = with_ctrl_c\n";
    let file = scratch.path("early.py");
    std::fs::write(&file, early).unwrap();
    let mut terminal = at_terminal(&[&fixture("cm3.elf"), &fixture("cm3.core")], Some(&program));
    terminal.command(&format!("source {file}"));
    terminal.type_in("tx-trace last\n");
    terminal.wait("Quit");
    terminal.wait("(gdb) ");
    terminal.assert_childless();
}

/// One that says nothing, one that reads memory and then says nothing, and one that will not be interrupted.
#[test]
fn ctrl_c_leaves_no_child() {
    require!(installed(&["gdb-multiarch"]));
    let scratch = Scratch::new();
    for (name, does) in [
        ("silent", "exec sleep 600"),
        ("reads", "printf '+$qSupported#37'; exec sleep 600"),
        ("stopped", "printf '+$qSupported#37'; kill -STOP $$"),
        ("stubborn", "trap '' INT TERM; sleep 600; sleep 600"),
    ] {
        let pids = scratch.path(name);
        let program = scratch.program(
            &format!("{name}.sh"),
            format!("#!/bin/sh\n[ \"$1\" = gdb ] && exit\necho $$ >{pids}.part; mv {pids}.part {pids}\n{does}\n"),
        );
        let mut terminal = at_terminal(&[&fixture("cm3.elf"), &fixture("cm3.core")], Some(&program));
        terminal.type_in("tx-trace last\n");
        let deadline = Instant::now() + TIME_LIMIT;
        while !std::fs::read_to_string(&pids).is_ok_and(|pid| has_begun(pid.trim())) {
            assert!(Instant::now() < deadline, "{name} starts");
            std::thread::sleep(Duration::from_millis(10));
        }
        terminal.type_in("\x03");
        let began = Instant::now();
        terminal.wait("Quit");
        let text = terminal.wait("(gdb) ");
        assert!(!text.contains("Python") && !text.contains("Traceback"), "{name}: {text}");
        assert!(began.elapsed() < Duration::from_secs(10), "{name}: {:?}", began.elapsed());
        terminal.assert_childless();
        assert!(!is_alive(&std::fs::read_to_string(&pids).unwrap()), "{name}");
        assert!(terminal.command("p 6 * 7").contains("= 42"));
    }
}

#[test]
fn colour_follows_gdbs_style() {
    require!(installed(&["gdb-multiarch"]));
    let mut terminal = on_core();
    assert!(has_colour(&terminal.command("tx-trace last 20")));
    assert!(!has_colour(&terminal.command("tx-trace last 20 --color never")));
    terminal.command("set style enabled off");
    assert!(!has_colour(&terminal.command("tx-trace last 20")));
    assert!(has_colour(&terminal.command("tx-trace last 20 --color always")));
}
