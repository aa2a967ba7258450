//! The same events from every source: what GDB reads and what the program reads from files is the same text.

use std::process::Command;

use super::tools::*;

/// What the shell prints of a source.
fn from_files(width: &str, source: &[&str]) -> String {
    let done = shell(&[&["last", "50", "--width", width, "--color", "never"], source].concat());
    assert_eq!(done.status, Some(0), "{}", done.err);
    assert!(done.out.lines().count() >= 51, "{}", done.out);
    done.out
}

const LAST_50: [&str; 4] = ["echo <last\\n", "tx-trace last 50", "echo last>\\n", "p $_tx_trace_exit"];

#[test]
fn core_of_a_cortex_m3() {
    require!(installed(&["gdb-multiarch"]));
    let (elf, core) = (fixture("cm3.elf"), fixture("cm3.core"));
    let image = format!("{}@0x20000000", fixture("cm3.ram.bin"));
    for width in ["80", "120", "200"] {
        let done = batch("gdb-multiarch", &[&elf, &core], &[&[&*format!("set width {width}")], &LAST_50[..]].concat());
        assert_eq!(done.part("last"), from_files(width, &["--elf", &elf, "--image", &image]), "{}", done.err);
        assert!(done.out.contains("$1 = 0"));
    }
}

#[test]
fn core_of_a_position_independent_program() {
    require!(installed(&["gdb"]) && runs_host_fixture());
    let (elf, core) = (fixture("host.elf"), fixture("host.core"));
    let done = batch("gdb", &[&elf, &core], &[&["set width 120"], &LAST_50[..]].concat());
    let expected = from_files("120", &["--elf", &elf, "--core", &core]);
    assert_eq!(done.part("last"), expected, "{}", done.err);
}

/// The host's firmware does what the Cortex-M3's does; only addresses and sizes differ.
#[test]
fn host_and_cortex_m3_tell_the_same_story() {
    require!(installed(&["gdb", "gdb-multiarch"]) && runs_host_fixture());
    let story = |program: &str, elf: &str, core: &str| {
        let commands = ["echo <csv\\n", "tx-trace list --format csv", "echo csv>\\n"];
        let done = batch(program, &[&fixture(elf), &fixture(core)], &commands);
        let mut rows = done.part("csv").lines().map(|l| l.split(',').map(str::to_owned).collect::<Vec<_>>());
        let head = rows.next().expect("a head");
        let wanted: Vec<usize> = ["seq", "ticks", "id", "name", "context.name", "priority"]
            .iter()
            .map(|name| head.iter().position(|h| h == name).unwrap_or_else(|| panic!("no {name} in {head:?}")))
            .collect();
        // Only a Cortex-M names its interrupts.
        let same = |cell: &String| match cell.as_str() {
            "SysTick" | "UART_Handler" => "ISR".to_owned(),
            _ => cell.clone(),
        };
        rows.map(|row| wanted.iter().map(|i| same(&row[*i])).collect::<Vec<_>>()).collect::<Vec<_>>()
    };
    let cm3 = story("gdb-multiarch", "cm3.elf", "cm3.core");
    assert_eq!(cm3.len(), 256);
    assert_eq!(cm3, story("gdb", "host.elf", "host.core"));
}

#[test]
fn qemu_at_the_fault() {
    require!(installed(&["gdb-multiarch", "qemu-system-arm"]));
    let elf = fixture("cm3.elf");
    let (_qemu, port) = qemu(&elf);
    let connect = connect(port);
    let first = ["set tcp connect-timeout 20", "set width 120", &connect, "hbreak fault_spin", "continue"];
    let state = ["echo <pc\\n", "p $pc", "info breakpoints", "echo pc>\\n"];
    let after = ["echo <after\\n", "p $pc", "info breakpoints", "echo after>\\n", "kill"];
    let done = batch("gdb-multiarch", &[&elf], &[&first[..], &state[..], &LAST_50[..], &after[..]].concat());
    let image = format!("{}@0x20000000", fixture("cm3.ram.bin"));
    let expected = from_files("120", &["--elf", &elf, "--image", &image]);
    assert_eq!(done.part("last"), expected, "{}", done.err);
    // Nothing of GDB's own has changed but the number of the value.
    let plain = |part: &str| part.split_once("= ").unwrap().1.to_owned();
    assert_eq!(plain(done.part("pc")), plain(done.part("after")));
}

/// A process, and after it the core that GDB writes of the same stop.
fn process_and_core(scratch: &Scratch, elf: &str, start: &[&str]) {
    let core = scratch.path("core");
    let write = format!("generate-core-file {core}");
    let commands = [&["set width 120"], start, &LAST_50[..], &[&write, "kill"]].concat();
    let done = batch("gdb", &[elf], &commands);
    assert!(std::path::Path::new(&core).exists(), "GDB writes a core: {}", done.err);
    let expected = from_files("120", &["--elf", elf, "--core", &core]);
    assert_eq!(done.part("last"), expected, "{}", done.err);
}

#[test]
fn process_under_gdb() {
    require!(installed(&["gdb"]) && runs_host_fixture());
    let scratch = Scratch::new();
    let elf = scratch.executable("host.elf");
    process_and_core(&scratch, &elf, &["run"]);
    // Somewhere else than where GDB puts programs when it keeps them from moving.
    process_and_core(&scratch, &elf, &["set disable-randomization off", "run"]);
}

#[test]
fn process_under_gdbserver() {
    require!(installed(&["gdb", "gdbserver"]) && runs_host_fixture());
    let scratch = Scratch::new();
    let (elf, port) = (scratch.executable("host.elf"), free_port());
    let mut command = Command::new("gdbserver");
    let _server = Server::start(command.args(["--once", &format!("127.0.0.1:{port}"), &elf]));
    process_and_core(&scratch, &elf, &["set tcp connect-timeout 20", &connect(port), "continue"]);
}

/// What GDB names by `add-symbol-file` alone is found too.
#[test]
fn symbols_in_another_file_than_the_program() {
    require!(installed(&["gdb-multiarch"]));
    let (elf, bare, core) = (fixture("cm3.elf"), fixture("cm3.stripped.elf"), fixture("cm3.core"));
    let image = format!("{}@0x20000000", fixture("cm3.ram.bin"));
    let add = format!("add-symbol-file {elf}");
    let commands = [&["set confirm off", "set width 120", &add], &LAST_50[..]].concat();
    let done = batch("gdb-multiarch", &[&bare, &core], &commands);
    let expected = from_files("120", &["--elf", &elf, "--image", &image]);
    assert_eq!(done.part("last"), expected, "{}", done.err);
}

/// A source that is typed wins over GDB's memory, and GDB's load offset is no business of it.
#[test]
fn typed_source_wins() {
    require!(installed(&["gdb"]) && runs_host_fixture());
    let (elf, core) = (fixture("cm3.elf"), fixture("cm3.core"));
    let (host, host_core) = (fixture("host.elf"), fixture("host.core"));
    let other = format!("tx-trace last 50 --elf {elf} --core {core}");
    let own = format!("tx-trace last 50 --core {host_core}");
    let files = [&*host, &host_core];
    let done = batch("gdb", &files, &["set width 120", "echo <last\\n", &other, "echo last>\\n"]);
    assert_eq!(done.part("last"), from_files("120", &["--elf", &elf, "--core", &core]), "{}", done.err);
    // Without a process GDB has the entry point as it was linked: wrong for the core.
    let done = batch("gdb", &[&host], &["set width 120", "echo <last\\n", &own, "echo last>\\n"]);
    assert_eq!(done.part("last"), from_files("120", &["--elf", &host, "--core", &host_core]), "{}", done.err);
}

/// Without debug information GDB names the file of a symbol behind its section, whose name may be anything.
#[test]
fn a_section_name_does_not_choose_the_elf() {
    require!(installed(&["gdb-multiarch", "arm-none-eabi-strip"]));
    let scratch = Scratch::new();
    let other = scratch.program("other.elf", b"no ELF");
    let stripped = scratch.path("stripped.elf");
    let strip = ["-g", "-o", &stripped, &fixture("cm3.elf")];
    assert!(Command::new("arm-none-eabi-strip").args(strip).status().unwrap().success());
    let elf = scratch.program("cm3.elf", with_section_name(&stripped, ".bss", &format!(".bss of {other}")));
    let done = batch("gdb-multiarch", &[&elf, &fixture("cm3.core")], &["tx-trace last 3", "p $_tx_trace_exit"]);
    assert!(done.out.contains("$1 = 0"), "{}\n{}", done.out, done.err);
}
