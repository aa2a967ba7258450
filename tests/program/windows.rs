//! The program for Windows, run by wine: it prints what the program for Linux prints.

#![cfg(all(feature = "cli", unix))]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::tools::{Done, Scratch, binary, fixture, free_port, installed, run, run_to_files};

const TARGET: &str = "x86_64-pc-windows-gnu";

/// wine 8 lacks this library of Windows, which Rust's standard library asks for the seeds of its hash maps.
const RANDOM: &str = "unsigned rand_s(unsigned *);
__declspec(dllexport) int ProcessPrng(unsigned char *p, unsigned long long n) {
    for (; n; n--) { unsigned r; if (rand_s(&r)) return 0; *p++ = (unsigned char)r; }
    return 1;
}
";

/// The program as its package installs it, and a Windows to run it.
struct Windows {
    scratch: Scratch,
    program: PathBuf,
}

impl Windows {
    /// `None`, said loudly, where this machine has no wine, no linker or no standard library for Windows.
    fn install() -> Option<Self> {
        if !installed(&["wine", "x86_64-w64-mingw32-gcc", "python3"]) || !has_standard_library() {
            return None;
        }
        let scratch = Scratch::new();
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut release = Command::new(root.join("scripts/release"));
        release.args(["--profile", "dev", "--program", binary(), "--out", &scratch.path(""), "windows"]);
        // It is compiled once and shows no backtrace: without these it takes a third of the time.
        finish(release.env("CARGO_INCREMENTAL", "0").env("CARGO_PROFILE_DEV_DEBUG", "0"));
        let zip = format!("tx-trace-{}-x86_64-windows", env!("CARGO_PKG_VERSION"));
        finish(Command::new("python3").args([
            "-m",
            "zipfile",
            "-e",
            &scratch.path(&format!("{zip}.zip")),
            &scratch.path(""),
        ]));
        let library = scratch.path(&format!("{zip}/bcryptprimitives.dll"));
        std::fs::write(scratch.path("random.c"), RANDOM).unwrap();
        finish(Command::new("x86_64-w64-mingw32-gcc").args(["-shared", "-o", &library, &scratch.path("random.c")]));
        let program = scratch.0.join(zip).join("tx-trace.exe");
        let windows = Self { scratch, program };
        // One server for all runs. By itself it ends when nothing runs for a while, and a program that starts just then
        // fails to reach it.
        std::fs::create_dir(windows.scratch.0.join("disk")).unwrap();
        start(&mut windows.server("-p"));
        // The first run makes a disk of Windows, which takes a while, and starts its services.
        start(windows.command().arg("--version"));
        Some(windows)
    }

    fn command(&self) -> Command {
        self.command_in(Path::new(&fixture("")))
    }

    /// The server of this disk of Windows, with an option.
    fn server(&self, option: &str) -> Command {
        let program = Path::new("/usr/lib/wine/wineserver");
        let mut command = Command::new(if program.exists() { program } else { Path::new("wineserver") });
        command.arg(option).env("WINEPREFIX", self.scratch.path("disk")).env("WINEDEBUG", "-all");
        command
    }

    fn command_in(&self, folder: &Path) -> Command {
        let mut command = Command::new("wine");
        command.arg(&self.program).current_dir(folder);
        command
            .env("WINEPREFIX", self.scratch.path("disk"))
            .env("WINEDEBUG", "-all")
            .env("WINEDLLOVERRIDES", "mscoree,mshtml=");
        command
    }

    fn run(&self, words: &[&str]) -> Done {
        self.run_wine(self.command().args(words))
    }

    /// Runs a command that runs wine. The services of Windows keep open what they are started with, and wine starts them again
    /// where they have ended: with pipes, a run seemed never to end.
    fn run_wine(&self, command: &mut Command) -> Done {
        run_to_files(command, &self.scratch.0)
    }

    /// Starts a server, and waits until it listens.
    fn serve(&self, words: &[&str]) -> Server {
        let child = self.command().args(words).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let mut server = Server(child);
        let lines = BufReader::new(server.0.stderr.take().unwrap()).lines();
        let heard: Vec<String> = lines.map_while(Result::ok).take_while(|line| !line.contains("127.0.0.1:")).collect();
        assert!(server.0.try_wait().unwrap().is_none(), "{heard:?}");
        server
    }
}

impl Drop for Windows {
    fn drop(&mut self) {
        // It holds files of the disk.
        drop(self.server("-k").status());
    }
}

/// A server that ends with the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn has_standard_library() -> bool {
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output().unwrap();
    let there = Path::new(String::from_utf8_lossy(&sysroot.stdout).trim()).join("lib/rustlib").join(TARGET).is_dir();
    if !there {
        eprintln!("SKIPPED: Rust's standard library for {TARGET} is not installed (rustup target add {TARGET})");
    }
    there
}

/// Runs a step of the preparation, however long it takes.
fn finish(command: &mut Command) {
    let done = command.stdin(Stdio::null()).output().unwrap();
    assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
}

/// Runs a program that leaves others behind it. They would keep pipes open, so it has none.
fn start(command: &mut Command) {
    let done = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    assert!(done.success(), "{command:?}: {done}");
}

fn native(words: &[&str]) -> Done {
    run(Command::new(binary()).args(words).current_dir(fixture("")))
}

/// The test below stood still: services of Windows that a run had started again kept its pipes open.
#[test]
fn a_run_that_left_a_process_behind_seemed_never_to_end() {
    let scratch = Scratch::new();
    let begun = Instant::now();
    let done = run_to_files(Command::new("sh").args(["-c", "sleep 20 & echo printed"]), &scratch.0);
    assert_eq!((done.out.as_str(), done.status), ("printed\n", Some(0)));
    assert!(begun.elapsed() < Duration::from_secs(15), "it waited for what was left behind");
}

#[test]
fn installed_on_windows_it_prints_what_it_prints_on_linux() {
    let Some(windows) = Windows::install() else { return };
    for words in [
        &["demo"][..],
        &["last", "20", "cm3.elf", "cm3.core"],
        &["threads", "cm3.elf", "cm3.core"],
        &["report", "cm3.elf", "cm3.core"],
        &["last", "20", "cm3.elf", "--image", "cm3.ram.bin@0x20000000", "--format", "json"],
        &["stats", "cm3.trx", "--format", "csv"],
        &["last", "5", "uia-stop.elf", "--image", "uia-stop.ram.bin"],
        &["show", "-1", "qnx.kev"],
        &["last", "nothing.elf"],
    ] {
        let (here, there) = (native(words), windows.run(words));
        assert_eq!((&there.out, there.status), (&here.out, here.status), "{words:?}: {}", there.err);
    }
    the_first_hour(&windows);
    what_it_writes(&windows);
    links(&windows);
    what_windows_does_not_have(&windows);
}

/// What a new user does once the package is unpacked: has the demo's files written, reads the dump, finds the cause, and
/// exports a picture. Each prints and writes the bytes that it does on Linux.
fn the_first_hour(windows: &Windows) {
    let version = windows.run(&["--version"]).out;
    assert!(version.contains(env!("CARGO_PKG_VERSION")) && version.contains(TARGET), "{version}");
    let folders = [windows.scratch.0.join("here"), windows.scratch.0.join("there")];
    let both = |within: &str, words: &[&str]| {
        let [here, there] = folders.each_ref().map(|folder| folder.join(within));
        let here = run(Command::new(binary()).args(words).current_dir(here));
        let there = windows.run_wine(windows.command_in(&there).args(words));
        assert_eq!((&there.out, there.status), (&here.out, here.status), "{words:?}: {}", there.err);
        there
    };
    for folder in &folders {
        std::fs::create_dir(folder).unwrap();
    }
    both("", &["demo", "--export", "board"]);
    both("board", &["last", "app.elf", "--image", "ram.bin"]);
    let cause = both("board", &["explain", "app.elf", "app.core"]);
    assert!(cause.out.starts_with("bus-fault: HardFault in record_write"), "{}", cause.out);
    let pictures = ["trace.html", "trace.pftrace", "trace.json"];
    for picture in pictures {
        let done = both("board", &["export", "-o", picture, "app.elf", "app.core"]);
        assert_eq!(done.status, Some(0), "{picture}: {}", done.err);
    }
    let [here, there] = folders.each_ref().map(|folder| files(&folder.join("board")));
    assert!(pictures.iter().all(|picture| here.iter().any(|(name, bytes)| name == picture && !bytes.is_empty())));
    let names = |files: &[(String, Vec<u8>)]| files.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&there), names(&here));
    for ((name, there), (_, here)) in there.iter().zip(&here) {
        assert!(there == here, "{name} of Windows has other bytes");
    }
}

/// The files in a folder with their bytes, by name.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    let read = |e: std::fs::DirEntry| (e.file_name().into_string().unwrap(), std::fs::read(e.path()).unwrap());
    let mut files: Vec<_> = entries.map(read).collect();
    files.sort();
    files
}

/// A file is complete, and replaces the one before.
fn what_it_writes(windows: &Windows) {
    let file = windows.scratch.path("events.csv");
    for count in ["30", "3"] {
        let done = windows.run(&["last", count, "cm3.elf", "cm3.core", "--format", "csv", "-o", &file]);
        assert_eq!(done.status, Some(0), "{}", done.err);
        let lines = std::fs::read_to_string(&file).unwrap().lines().count();
        assert_eq!(lines.to_string(), (count.parse::<usize>().unwrap() + 1).to_string());
    }
}

/// Servers and clients of both systems understand each other.
fn links(windows: &Windows) {
    let expected = native(&["last", "20", "cm3.elf", "cm3.core"]).out;
    let (stub, bridge) = (format!(":{}", free_port()), format!(":{}", free_port()));
    let _serve = windows.serve(&["serve", "cm3.elf", "cm3.core", "--listen", &stub]);
    for client in [
        native(&["last", "20", "cm3.elf", "--remote", &stub]),
        windows.run(&["last", "20", "cm3.elf", "--remote", &stub]),
    ] {
        assert_eq!(client.out, expected, "{}", client.err);
    }
    let _bridge = windows.serve(&["bridge", "--elf", "cm3.elf", "--remote", &stub, "--listen", &bridge]);
    let through = windows.run(&["last", "20", "cm3.elf", "--remote", &bridge]);
    assert_eq!(through.out, expected, "{}", through.err);
    // Pipes: a stub on our own standard input and output, which the GDB command is.
    let program = windows.program.display();
    let serve = format!("|wine {program} serve --stdio cm3.elf cm3.core");
    let mut piped = Command::new(binary());
    piped.args(["last", "20", "cm3.elf", "--timeout", "30", "--remote", &serve]).current_dir(fixture(""));
    for (name, value) in windows.command().get_envs() {
        piped.env(name, value.unwrap());
    }
    let piped = windows.run_wine(&mut piped);
    assert_eq!(piped.out, expected, "{}", piped.err);
    gdb_command(windows);
}

/// The program as GDB's child: it reads the memory that GDB has, over its standard input and output. The other ends of
/// these pipes are read as on Linux, and as on Windows.
fn gdb_command(windows: &Windows) {
    require!(installed(&["gdb-multiarch"]));
    let script = format!("source {}/gdb/tx_trace.py", env!("CARGO_MANIFEST_DIR"));
    let start = format!("#!/bin/sh\nexec wine {} \"$@\"\n", windows.program.display());
    let program = windows.scratch.program("tx-trace", start);
    let last = native(&["last", "20", "cm3.elf", "cm3.core", "--width", "10000"]).out;
    let newest = last.lines().rfind(|line| line.starts_with("255")).unwrap();
    for system in ["posix", "nt"] {
        let begin = format!("python import os, gdb, shutil, subprocess; os.name = '{system}'");
        let end = "python os.name = 'posix'";
        let mut gdb = Command::new("gdb-multiarch");
        gdb.args(["-nx", "-batch", "-ex", "set width 0", "-ex", &begin, "-ex", &script, "-ex", end]);
        gdb.args(["cm3.elf", "cm3.core", "-ex", "python print('windows', WINDOWS)", "-ex", "tx-trace last 20"]);
        gdb.args(["-ex", "tx-trace last --nonsense"]).current_dir(fixture("")).env("TX_TRACE_BIN", &program);
        for (name, value) in windows.command().get_envs() {
            gdb.env(name, value.unwrap());
        }
        let done = windows.run_wine(&mut gdb);
        let chosen = if system == "nt" { "windows True" } else { "windows False" };
        assert!(done.out.contains(newest) && done.out.contains(chosen), "{system}: {}\n{}", done.out, done.err);
        assert!(done.err.contains("--nonsense"), "{system}: {}", done.err);
    }
}

fn what_windows_does_not_have(windows: &Windows) {
    for (endpoint, message) in [
        ("|gdbserver - app", "|COMMAND does not work on Windows: start the stub yourself"),
        ("unix:gdb.sock", "local sockets do not work on Windows: let the stub listen on TCP"),
        ("qmp:/run/qmp.sock", "local sockets do not work on Windows: let the stub listen on TCP"),
        ("COM7", "COM7@115200: cannot open it: there is no such file"),
    ] {
        let done = windows.run(&["last", "--elf", "cm3.elf", "--remote", endpoint]);
        assert_eq!(done.status, Some(2), "{endpoint}: {}", done.err);
        assert!(done.err.contains(message), "{endpoint}: {}", done.err);
    }
}
