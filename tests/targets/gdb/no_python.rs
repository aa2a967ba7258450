//! The command in plain GDB commands: in GDBs whose Python is not to be had, and in one that has none
//! (`TX_TRACE_TEST_GDB_MINIMAL` names it: the program of Debian's `gdb-minimal`).

use std::path::Path;
use std::process::Command;

use super::tools::*;

/// GDBs that read a core or run a process of this machine, and have no Python here.
fn without_python_on_the_host() -> Vec<Command> {
    let mut found = Vec::new();
    if !runs_host_fixture() {
        return found;
    }
    if installed(&["gdb"]) {
        found.push(without_modules("gdb"));
    }
    match std::env::var("TX_TRACE_TEST_GDB_MINIMAL") {
        Ok(minimal) => found.push(gdb(&minimal)),
        Err(_) => {
            println!("SKIPPED: TX_TRACE_TEST_GDB_MINIMAL names no GDB without Python");
            eprintln!("SKIPPED: TX_TRACE_TEST_GDB_MINIMAL names no GDB without Python");
        }
    }
    found
}

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
    require!(installed(&["gdb-multiarch"]));
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

/// The rows of `threads`, without what is said beside them.
fn threads(text: &str) -> Vec<&str> {
    text.lines().take_while(|l| !l.is_empty()).filter(|l| !l.starts_with("note: ")).collect()
}

/// GDB has them, and where the running thread stands follows from them alone.
#[test]
fn registers_were_not_passed_on() {
    if installed(&["gdb-multiarch"]) {
        let (elf, core) = (fixture("cm3.elf"), fixture("cm3.core"));
        // Not those of the frame that somebody looks at.
        let commands = [
            "up",
            "p $pc == 0x2698",
            "echo <threads\\n",
            "tx-trace threads --width 120",
            "echo threads>\\n",
            "p $pc == 0x2698",
        ];
        let done = plain(without_modules("gdb-multiarch"), &[&elf, &core], &commands);
        let expected = shell(&["threads", "--width", "120", "--color", "never", "--elf", &elf, "--core", &core]).out;
        assert!(expected.contains("interrupted by exception 3"), "{expected}");
        assert!(done.part("threads").contains("interrupted by exception 3"), "{}\n{}", done.out, done.err);
        assert_eq!(threads(done.part("threads")), threads(&expected), "{}", done.err);
        assert!(done.out.contains("$1 = 0") && done.out.contains("$2 = 0"), "the frame stays: {}", done.out);
    }
    for gdb in without_python_on_the_host() {
        let (elf, core) = (fixture("host.elf"), fixture("host.core"));
        let done =
            plain(gdb, &[&elf, &core], &["echo <threads\\n", "tx-trace threads --width 120", "echo threads>\\n"]);
        let expected = shell(&["threads", "--width", "120", "--color", "never", "--elf", &elf, "--core", &core]).out;
        assert!(expected.contains("* watchdog") && expected.contains("0x00007ffff7e5feec"), "{expected}");
        assert_eq!(threads(done.part("threads")), threads(&expected), "{}", done.err);
    }
}

/// The cause was another than with Python, as the registers of the fault were missing.
#[test]
fn explain_had_no_registers() {
    require!(installed(&["gdb-multiarch"]));
    let (elf, core) = (fixture("cm3.elf"), fixture("cm3.core"));
    let commands = ["echo <explain\\n", "tx-trace explain", "echo explain>\\n"];
    let done = plain(without_modules("gdb-multiarch"), &[&elf, &core], &commands);
    let first = |text: &str| text.lines().next().unwrap_or_default().to_owned();
    let expected = first(&shell(&["explain", "--elf", &elf, "--core", &core]).out);
    assert!(expected.starts_with("bus-fault: "), "{expected}");
    assert!(first(done.part("explain")).starts_with("bus-fault: "), "{}{}", done.out, done.err);
}

/// Every command read all registers from the target, and most of them use none.
#[test]
fn registers_were_read_for_every_command() {
    use std::os::unix::fs::PermissionsExt as _;
    require!(installed(&["gdb-multiarch"]));
    let scratch = Scratch::new();
    let program = scratch.path("options");
    std::fs::write(&program, "#!/bin/sh\nfor a; do case $a in @*) cat \"${a#@}\" ;; esac; done\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let (elf, core) = (fixture("cm3.elf"), fixture("cm3.core"));
    for (command, expected) in [
        ("last 5", false),
        ("profile", false),
        ("report", true),
        ("explain", true),
        ("threads", true),
        ("dump -o out.core", true),
        ("--color never threads", true),
    ] {
        let mut gdb = without_modules("gdb-multiarch");
        gdb.env("TX_TRACE_BIN", &program);
        let done = plain(gdb, &[&elf, &core], &[&format!("tx-trace {command}")]);
        assert!(done.out.contains("--image 0.bin@"), "{command}: {}{}", done.out, done.err);
        assert_eq!(done.out.contains("--debugger-reg sp="), expected, "{command}: {}", done.out);
    }
}

/// A register that GDB knows and the program does not is no mistake, and one that is unavailable is not 0.
#[test]
fn registers_of_a_debugger_are_taken_as_far_as_they_are_known() {
    let (elf, ram) = (fixture("cm3.elf"), format!("{}@0x20000000", fixture("cm3.ram.bin")));
    let source = ["--elf", &elf, "--image", &ram, "--width", "200"];
    let shown = ["--debugger-reg", "xpsr=0x1000003", "--debugger-reg", "k7=0x1", "--debugger-reg", "sp=0x20007f58"];
    let done = shell(&[&["threads"], &source[..], &shown].concat());
    assert_eq!(done.status, Some(0), "{}", done.err);
    assert!(done.out.contains("interrupted by exception 3") && !done.err.contains("k7"), "{}{}", done.out, done.err);
    // What is typed wins.
    let done = shell(&[&["threads"], &source[..], &shown, &["--reg", "xpsr=0x1000004"]].concat());
    assert!(done.out.contains("interrupted by exception 4"), "{}{}", done.out, done.err);
}

#[test]
fn live_cortex_m3() {
    require!(installed(&["gdb-multiarch", "qemu-system-arm"]));
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
    require!(runs_host_fixture());
    let (elf, core) = (fixture("host.elf"), fixture("host.core"));
    let expected = from_files(&["--elf", &elf, "--core", &core]);
    for gdb in without_python_on_the_host() {
        let done = plain(gdb, &[&elf, &core], &LAST_50);
        assert_eq!(done.part("last"), expected, "{}", done.err);
    }
    let Ok(minimal) = std::env::var("TX_TRACE_TEST_GDB_MINIMAL") else { return };
    let done = plain(gdb(&minimal), &[&elf, &core], &["python print(1)"]);
    assert!(done.err.contains("Python scripting is not supported"), "{}", done.err);
    let scratch = Scratch::new();
    let done = plain(gdb(&minimal), &[&scratch.executable("host.elf")], &[&["run"], &LAST_50[..], &["kill"]].concat());
    assert!(done.part("last").lines().count() >= 51, "{}", done.err);
}

#[test]
fn what_is_not_there() {
    require!(installed(&["gdb-multiarch"]));
    let commands = ["tx-trace last", "p $_tx_trace_exit"];
    let done = plain(without_modules("gdb-multiarch"), &[&fixture("cm3-never.elf")], &commands);
    assert!(done.out.contains("error: _tx_trace_header_ptr is 0"), "{}\n{}", done.out, done.err);
    assert!(done.out.contains("$1 = 1"));
    let done = plain(without_modules("gdb-multiarch"), &[&fixture("cm3-notrace.elf")], &commands);
    assert!(done.out.contains("error: GDB has no symbol _tx_trace_header_ptr"), "{}\n{}", done.out, done.err);
}

/// A line feed in a section's name makes lines of its own in `info files`.
#[test]
fn section_names_reach_no_expression_no_shell_and_no_option() {
    for gdb in without_python_on_the_host() {
        let scratch = Scratch::new();
        let (made, over) = (scratch.path("made"), scratch.path("over"));
        let forged = [
            "_tx_thread_created_count=77 - 0x9 is .data".to_owned(),
            "0x1+(_tx_thread_created_count=77) - 0x9 is .data".to_owned(),
            format!("from[$(touch${{IFS}}{made})] - 0x9 is .data"),
            format!("0x1;touch${{IFS}}{made} - 0x9 is .data"),
            format!("0x1 - 0x9$(touch {made}) is .data"),
            format!("0x10 - 0x20 is .data`touch {made}`"),
            format!("Entry point: 0x1 -o {over}"),
            "Entry point: 0x1$(reboot)".to_owned(),
            "`/etc/passwd', file type elf64-x86-64.".to_owned(),
            "Local exec file:".to_owned(),
        ];
        // What forges no line of a section that is dumped leaves the answer as it is.
        let name = format!(".fini\n\t{}", forged.join("\n\t"));
        let name = name.replace("0x10 - 0x20 is .data`", "0x10 - 0x20 is .text`");
        let elf = scratch.program("host.elf", with_section_name(&fixture("host.elf"), ".fini", &name));
        let commands = [
            &["run", "p _tx_thread_created_count"][..],
            &LAST_50[..],
            &["p $_tx_trace_exit", "p _tx_thread_created_count", "kill"],
        ];
        let done = plain(gdb, &[&elf], &commands.concat());
        let values: Vec<&str> =
            done.out.lines().filter_map(|l| l.strip_prefix('$')?.split_once(" = ")).map(|v| v.1).collect();
        assert!(matches!(values[..], [before, "0", after] if before == after), "{}\n{}", done.out, done.err);
        assert!(done.part("last").lines().count() >= 51, "{}\n{}", done.out, done.err);
        assert!(!Path::new(&made).exists() && !Path::new(&over).exists(), "{}\n{}", done.out, done.err);
    }
}

/// A forged line can be well formed. Then it is a read of memory, which may fail, and nothing is left behind.
#[test]
fn a_dump_that_fails_leaves_no_directory() {
    for gdb in without_python_on_the_host() {
        let scratch = Scratch::new();
        let elf = with_section_name(&fixture("host.elf"), ".fini", ".fini\n\t0x1000 - 0x2000 is .data");
        let elf = scratch.program("host.elf", elf);
        let done = plain(gdb, &[&elf, &fixture("host.core")], &["tx-trace last"]);
        assert!(done.err.contains("Cannot access memory at address 0x1000"), "{}\n{}", done.out, done.err);
    }
}

/// What cannot be dumped in a reasonable time and space is not tried.
#[test]
fn a_section_as_large_as_memory_is_left_out() {
    for gdb in without_python_on_the_host() {
        let scratch = Scratch::new();
        let name = ".fini\n\t0x0 - 0x7fffffffffffffff is .data\n\t0x0 - 0xffffffffffffffff is .bss";
        let elf = scratch.program("host.elf", with_section_name(&fixture("host.elf"), ".fini", name));
        let core = fixture("host.core");
        let done = plain(gdb, &[&elf, &core], &LAST_50);
        let expected = from_files(&["--elf", &elf, "--core", &core]);
        assert_eq!(done.part("last"), expected, "{}", done.err);
    }
}

/// GDB expands macros of the frame's file in what it evaluates.
#[test]
fn macros_of_a_program_are_not_expanded() {
    require!(installed(&["cc"]));
    let scratch = Scratch::new();
    let source = scratch.path("macros.c");
    let text = "
        unsigned long space[8];
        void *_tx_trace_header_ptr = space, *_tx_trace_buffer_end_ptr = space + 8;
        int written = 1;
        int main(void) {
        #define WRITE (written = 7)
        #define _tx_trace_header_ptr WRITE, space
        #define _tx_trace_buffer_end_ptr WRITE, space
        #define _tx_trace_from WRITE
        #define rip WRITE
        #define sp WRITE
        #define _thread WRITE
        #define unsigned WRITE)+(
        #define long WRITE)+(
            return written;
        }
    ";
    std::fs::write(&source, text).unwrap();
    let program = scratch.path("macros");
    let compiled = Command::new("cc").args(["-g3", "-O0", "-o", &program, &source]).status().unwrap();
    assert!(compiled.success());
    let written = |done: Done| {
        assert!(done.out.contains("$1 = 7"), "the macros are there: {}\n{}", done.out, done.err);
        assert!(done.out.contains("written is 1"), "{}\n{}", done.out, done.err);
    };
    let commands = [
        "break main",
        "run",
        "p _tx_trace_from",
        "set var written = 1",
        "tx-trace last",
        "printf \"written is %d\\n\", written",
        "kill",
    ];
    for gdb in without_python_on_the_host() {
        written(plain(gdb, &[&program], &commands));
    }
    if installed(&["gdb"]) {
        written(batch("gdb", &[&program], &commands));
    }
}
