//! The command in plain GDB commands: in GDBs whose Python is not to be had, and in one that has none
//! (`TX_TRACE_TEST_GDB_MINIMAL` names it: the program of Debian's `gdb-minimal`).

use std::path::Path;
use std::process::Command;

use super::tools::*;

/// Runs it where Python cannot find its own `gdb` module, as an installation without Python's files.
fn plain(mut command: Command, files: &[&str], commands: &[&str]) -> Done {
    let scratch = Scratch::new();
    let script = scratch.path("tx_trace.gdb");
    std::fs::write(&script, shell(&["gdb", "--no-python"]).out).unwrap();
    command.args(["-batch", "-ex", &format!("source {script}")]);
    for c in commands {
        command.args(["-ex", c]);
    }
    let done = run(command.args(files));
    assert!(!Path::new(&format!("/tmp/tx-trace-gdb-{}", done.pid)).exists(), "it cleans up");
    done
}

fn without_modules(program: &str) -> Command {
    let mut command = gdb(program);
    command.args(["-data-directory", "/nonexistent"]);
    command
}

/// Event lines: what is below them comes from memory that a dump may lack.
fn from_files(source: &[&str]) -> String {
    shell(&[&["last", "50", "--width", "120", "--color", "never"], source].concat()).out
}

const LAST_50: [&str; 3] = ["echo <last\\n", "tx-trace last 50 --width 120", "echo last>\\n"];

#[test]
fn core_of_a_cortex_m3() {
    if !installed(&["gdb-multiarch"]) {
        return;
    }
    let (elf, core) = (fixture("cm3.elf"), fixture("cm3.core"));
    let more = [
        "p $_tx_trace_exit",
        "tx-trace show 9999",
        "p $_tx_trace_exit",
        "tx-trace last 5 --event 'isr_*' --class '!timer'",
        "tx-trace events tx_time_get",
        "tx-trace last a b c d e f g h i j",
        "p $_tx_trace_exit",
    ];
    let done = plain(without_modules("gdb-multiarch"), &[&elf, &core], &[&LAST_50[..], &more[..]].concat());
    assert_eq!(done.part("last"), from_files(&["--elf", &elf, "--core", &core]), "{}", done.err);
    for text in ["$1 = 0", "$2 = 1", "isr_exit", "tx_time_get", "at most 9 words", "$3 = 2"] {
        assert!(done.out.contains(text), "{text}: {}\n{}", done.out, done.err);
    }
}

#[test]
fn live_cortex_m3() {
    if !installed(&["gdb-multiarch", "qemu-system-arm"]) {
        return;
    }
    let elf = fixture("cm3.elf");
    let (_qemu, port) = qemu(&elf);
    let connect = connect(port);
    let first = ["set tcp connect-timeout 20", &connect, "hbreak fault_spin", "continue"];
    let done = plain(without_modules("gdb-multiarch"), &[&elf], &[&first[..], &LAST_50[..], &["kill"]].concat());
    let image = format!("{}@0x20000000", fixture("cm3.ram.bin"));
    assert_eq!(done.part("last"), from_files(&["--elf", &elf, "--image", &image]), "{}", done.err);
}

#[test]
fn position_independent_core_and_a_gdb_that_has_no_python() {
    if !runs_host_fixture() {
        return;
    }
    let (elf, core) = (fixture("host.elf"), fixture("host.core"));
    let expected = from_files(&["--elf", &elf, "--core", &core]);
    if installed(&["gdb"]) {
        let done = plain(without_modules("gdb"), &[&elf, &core], &LAST_50);
        assert_eq!(done.part("last"), expected, "{}", done.err);
    }
    let Ok(minimal) = std::env::var("TX_TRACE_TEST_GDB_MINIMAL") else {
        println!("SKIPPED: TX_TRACE_TEST_GDB_MINIMAL names no GDB without Python");
        eprintln!("SKIPPED: TX_TRACE_TEST_GDB_MINIMAL names no GDB without Python");
        return;
    };
    let done = plain(gdb(&minimal), &[&elf, &core], &[&["python print(1)"], &LAST_50[..]].concat());
    assert!(done.err.contains("Python scripting is not supported"), "{}", done.err);
    assert_eq!(done.part("last"), expected, "{}", done.err);
    let scratch = Scratch::new();
    let done = plain(gdb(&minimal), &[&scratch.executable("host.elf")], &[&["run"], &LAST_50[..], &["kill"]].concat());
    assert!(done.part("last").lines().count() >= 51, "{}", done.err);
}

#[test]
fn what_is_not_there() {
    if !installed(&["gdb-multiarch"]) {
        return;
    }
    let commands = ["tx-trace last", "p $_tx_trace_exit"];
    let done = plain(without_modules("gdb-multiarch"), &[&fixture("cm3-never.elf")], &commands);
    assert!(done.out.contains("tx-trace: _tx_trace_header_ptr is 0"), "{}\n{}", done.out, done.err);
    assert!(done.out.contains("$1 = 1"));
    let done = plain(without_modules("gdb-multiarch"), &[&fixture("cm3-notrace.elf")], &commands);
    assert!(done.out.contains("tx-trace: GDB has no symbol _tx_trace_header_ptr"), "{}\n{}", done.out, done.err);
}
