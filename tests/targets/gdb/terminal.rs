//! GDB at a terminal: its pager, Ctrl-C, colour.
#![allow(unsafe_code, reason = "a pseudo terminal is not to be had otherwise")]

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use super::tools::*;

/// A program at a pseudo terminal, which ends with the test.
struct Terminal {
    child: Child,
    master: File,
    seen: String,
}

impl Terminal {
    fn start(mut command: Command) -> Self {
        let (mut master, mut slave) = (0, 0);
        // SAFETY: openpty fills two descriptors; the other pointers may be null.
        let made = unsafe {
            libc::openpty(
                &raw mut master,
                &raw mut slave,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
                std::ptr::null_mut(),
            )
        };
        assert_eq!(made, 0, "a pseudo terminal");
        // SAFETY: both were just opened, and nobody else owns them.
        let (master, slave) = unsafe { (OwnedFd::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) };
        // Not for the children: while one of them has it open, the other end never hangs up.
        // SAFETY: a flag of a descriptor that we own.
        unsafe { libc::fcntl(master.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) };
        let end = || slave.try_clone().unwrap();
        command.stdin(end()).stdout(end()).stderr(end());
        // SAFETY: both calls are safe after a fork. They make the terminal that of the new session.
        unsafe {
            command.pre_exec(|| {
                libc::setsid();
                libc::ioctl(0, libc::TIOCSCTTY, 0);
                Ok(())
            });
        }
        let child = command.spawn().unwrap();
        Self { child, master: File::from(master), seen: String::new() }
    }

    fn type_in(&mut self, text: &str) {
        self.master.write_all(text.as_bytes()).unwrap();
    }

    /// Waits for a text, and returns all that came until then.
    fn wait(&mut self, text: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(at) = self.seen.find(text) {
                return self.seen.drain(..at + text.len()).collect();
            }
            assert!(Instant::now() < deadline, "no {text:?} in {:?}", self.seen);
            let mut wanted = libc::pollfd { fd: self.master.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one pollfd, of a descriptor that we own.
            if unsafe { libc::poll(&raw mut wanted, 1, 100) } > 0 {
                let mut bytes = [0; 4096];
                let count = self.master.read(&mut bytes).unwrap_or(0);
                assert!(count > 0, "it ended: {:?}", self.seen);
                self.seen.push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        }
    }

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

impl Drop for Terminal {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
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
    if !installed(&["gdb-multiarch"]) {
        return;
    }
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

/// True where a script is at its end: it sleeps, is stopped, or waits for a child of its own.
fn has_begun(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.contains("(sleep) ") || stat.contains(") T ") || !children(pid.parse().unwrap()).is_empty()
}

/// One that says nothing, one that reads memory and then says nothing, and one that will not be interrupted.
#[test]
fn ctrl_c_leaves_no_child() {
    if !installed(&["gdb-multiarch"]) {
        return;
    }
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
        let deadline = Instant::now() + PATIENCE;
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
    if !installed(&["gdb-multiarch"]) {
        return;
    }
    let mut terminal = on_core();
    assert!(has_colour(&terminal.command("tx-trace last 20")));
    assert!(!has_colour(&terminal.command("tx-trace last 20 --color never")));
    terminal.command("set style enabled off");
    assert!(!has_colour(&terminal.command("tx-trace last 20")));
    assert!(has_colour(&terminal.command("tx-trace last 20 --color always")));
}
