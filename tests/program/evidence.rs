//! The evidence core: what is read from it is what was read from its source, with the program and without it.

#![cfg(all(feature = "cli", unix))]

use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::machine::{Qemu, Scratch, fixture, installed, symbol, text, tx_trace};
use serde_json::Value;
use tx_trace::bytes::Bytes;
use tx_trace::error::Error;
use tx_trace::mem::segments::{Block, Segments};
use tx_trace::session::{Evidence, Inputs};

/// Runs a line that has to do what it says; its output, and what it said beside it.
#[track_caller]
fn done(words: &[&str]) -> (String, String) {
    let out = tx_trace(words);
    assert_eq!(out.status.code(), Some(0), "{words:?}: {}", text(&out.stderr));
    (text(&out.stdout), text(&out.stderr))
}

fn path(name: &str) -> String {
    fixture(name).display().to_string()
}

/// Writes a core of `source`; its path, and what was said.
fn core(scratch: &Scratch, name: &str, source: &[&str]) -> (String, String) {
    let to = scratch.path(name).display().to_string();
    let (_, said) = done(&[&["dump", "-o", &to], source].concat());
    (to, said)
}

/// The events as JSON, without what only the program can name.
fn events(words: &[&str]) -> Vec<(Value, Value, Value, Value, Value)> {
    let (out, _) = done(&[&["list", "--format", "json"], words].concat());
    let lines = out.lines().map(|l| serde_json::from_str::<Value>(l).unwrap()).filter(|l| l["type"] == "event");
    lines
        .map(|l| (l["seq"].clone(), l["ticks"].clone(), l["context"].clone(), l["id"].clone(), l["words"].clone()))
        .collect()
}

/// The rows of `threads`, without how it is known where a thread stands.
fn threads(words: &[&str]) -> Vec<Value> {
    let (out, _) = done(&[&["threads", "--format", "json"], words].concat());
    let rows = out.lines().map(|l| serde_json::from_str::<Value>(l).unwrap()).filter(|l| l["type"] == "row");
    // Where it crashed takes the program's unwind information: `tests/targets/crashes.rs`.
    let rows = rows.filter(|row: &Value| row["report"] != "crash" && row["report"] != "interrupted");
    rows.map(|mut row| {
        row.as_object_mut().unwrap().remove("at_how");
        row
    })
    .collect()
}

/// The same without the functions that called the kernel: how functions are unwound is only in the program.
fn without_callers(mut rows: Vec<Value>) -> Vec<Value> {
    for row in &mut rows {
        let row = row.as_object_mut().unwrap();
        row.retain(|column, _| !column.starts_with("called_from"));
    }
    rows
}

/// Sources that hold whole memory: every byte order and width of the fixtures.
const SOURCES: [&[&str]; 5] = [
    &["cm3.elf", "cm3.core"],
    &["cm3-straddle.elf", "cm3-straddle.ram.bin@0x20000000"],
    &["host.elf", "host.core"],
    &["be.elf", "be.core"],
    &["smp.elf", "smp.core"],
];

#[test]
fn what_a_core_tells_is_what_its_source_reported() {
    let scratch = Scratch::new("evidence");
    for source in SOURCES {
        let files: Vec<String> = source.iter().map(|s| path(s)).collect();
        let words: Vec<&str> = files.iter().map(String::as_str).collect();
        let (core, said) = core(&scratch, &format!("{}.core", source[0]), &words);
        assert!(said.contains("threadx trace, ") && said.contains("10 threads with their stacks"), "{said}");
        // Without the program.
        assert_eq!(events(&[&core]), events(&words), "{source:?}");
        assert_eq!(without_callers(threads(&[&core])), without_callers(threads(&words)), "{source:?}");
        // With it, and a core of the core.
        assert_eq!(threads(&[words[0], &core]), threads(&words), "{source:?}");
        let (again, _) = self::core(&scratch, &format!("{}.again.core", source[0]), &[&core]);
        assert_eq!(events(&[&again]), events(&words), "{source:?}");
        assert_eq!(without_callers(threads(&[&again])), without_callers(threads(&words)), "{source:?}");
        let (_, talk) = done(&["last", words[0], &core]);
        assert!(!talk.contains("another ELF"), "{talk}");
    }
}

/// A core held an inferred layout as if debug information had given it.
#[test]
fn a_core_made_under_an_inferred_layout_lost_the_mark() {
    let scratch = Scratch::new("evidence-layout");
    let elf = tx_trace::elf::Elf::open(std::fs::read(fixture("cm3.elf")).unwrap()).unwrap();
    let names =
        ["_tx_thread_created_ptr", "_tx_thread_created_count", "_tx_thread_current_ptr", "_tx_mutex_created_ptr"];
    let symbols = names.map(|name| format!("--symbol={name}={:#x}", elf.symbol(name).unwrap().address));
    let image = format!("{}@0x20000000", path("cm3.ram.bin"));
    let words: Vec<&str> = symbols.iter().map(String::as_str).chain(["--image", &image]).collect();
    let (core, _) = core(&scratch, "x.core", &words);
    let (again, _) = self::core(&scratch, "y.core", &[&core]);
    for from in [&words[..], &[core.as_str()], &[again.as_str()]] {
        let (out, _) = done(&[&["threads", "--format", "json"], from].concat());
        let lines = out.lines().map(|l| serde_json::from_str::<Value>(l).unwrap());
        assert_eq!(lines.filter(|l| l["code"] == "kernel-layout").count(), 1, "{from:?}: {out}");
        assert_eq!(threads(from), threads(&words), "{from:?}");
    }
}

#[test]
fn reports_of_a_core_without_its_program() {
    let scratch = Scratch::new("evidence-reports");
    let (elf, source) = (path("cm3.elf"), path("cm3.core"));
    let (core, _) = core(&scratch, "x.core", &[&elf, &source]);
    for report in ["stats", "stack", "inversions", "blocked", "profile", "latency"] {
        let rows = |words: &[&str]| {
            let (out, _) = done(&[&[report, "--format", "csv"], words].concat());
            // What the application calls its own events only the program tells.
            out.lines().filter(|l| !l.contains("APP_") && !l.contains("user_")).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(rows(&[&core]), rows(&[&elf, &source]), "{report}");
    }
}

#[test]
fn another_program_than_the_one_it_was_taken_of_is_reported() {
    let scratch = Scratch::new("evidence-other");
    let (core, _) = core(&scratch, "x.core", &[&path("cm3.elf"), &path("cm3.core")]);
    let out = tx_trace(&["last", "1", "--format", "json", "--elf", &path("cm3-straddle.elf"), &core]);
    let codes = text(&out.stdout);
    let mut codes = codes.lines().map(|l| serde_json::from_str::<Value>(l).unwrap()["code"].clone());
    assert!(codes.any(|c| c == "elf-differs"), "{}", text(&out.stdout));
}

/// The symbols of an ELF of another build were taken in place of those that the core holds itself.
#[test]
fn an_elf_of_another_build_won_over_the_notes_of_the_core() {
    let scratch = Scratch::new("evidence-another-build");
    let (core, _) = core(&scratch, "own.core", &[&path("cm3.elf"), &path("cm3.core")]);
    let other = path("cm3-unwrapped.elf");
    assert_eq!(threads(&[&core, "--elf", &other]), threads(&[&core]));
    assert_eq!(events(&[&core, "--elf", &other]), events(&[&core]));
    let (_, said) = done(&["last", "1", &core, "--elf", &other]);
    assert!(said.contains("of another build: it is not used"), "{said}");
}

#[test]
fn what_is_named_goes_in_and_what_cannot_be_read_is_reported() {
    let scratch = Scratch::new("evidence-range");
    let (elf, image) = (path("cm3.elf"), format!("{}@0x20000000", path("cm3.ram.bin")));
    let ranges = ["--range", "0x20000000..0x20000fff", "--range", "0x40000000..0x400000ff"];
    let (core, said) = core(&scratch, "x.core", &[&ranges[..], &[&elf, &image]].concat());
    assert!(said.contains("range 0x40000000 to 0x400000ff cannot be read"), "{said}");
    let program = tx_trace::elf::Elf::open(std::fs::read(&core).unwrap()).unwrap();
    let mut core = tx_trace::mem::core::Core::open(program).unwrap();
    let mut got = vec![0; 0x8000];
    tx_trace::mem::Memory::read(&mut core, 0x2000_0000, &mut got).unwrap();
    assert!(got == std::fs::read(fixture("cm3.ram.bin")).unwrap(), "every byte is as it was");
    for (range, sentence) in [("5", "FIRST..LAST"), ("9..5", "FIRST..LAST"), ("x..5", "a number")] {
        let out = tx_trace(&["dump", "-o", scratch.path("x.core").to_str().unwrap(), "--range", range, &elf, &image]);
        assert_eq!(out.status.code(), Some(2));
        assert!(text(&out.stderr).contains(sentence), "{}", text(&out.stderr));
    }
    let out = tx_trace(&["dump", "-o", "x.trx", "--range", "1..2", &elf, &image]);
    assert!(text(&out.stderr).contains("--range is an option of"), "{}", text(&out.stderr));
}

#[test]
fn a_target_without_a_trace_still_leaves_evidence() {
    let scratch = Scratch::new("evidence-never");
    let (elf, image) = (path("cm3-never.elf"), format!("{}@0x20000000", path("cm3-never.ram.bin")));
    let (core, said) = core(&scratch, "x.core", &[&elf, &image]);
    assert!(said.contains("the core holds no trace") && said.contains("10 threads"), "{said}");
    assert_eq!(threads(&[&core]).len(), threads(&["--elf", &elf, "--image", &image]).len());
    // Nothing at all of it: a trace alone has no threads, and is there.
    let (trace, said) = self::core(&scratch, "y.core", &["--trace", &path("cm3.trx")]);
    assert!(said.contains("the core holds no threads"), "{said}");
    assert_eq!(events(&[&trace]).len(), 256);
}

/// A session over memory that is none.
fn over(memory: &mut Segments) -> Result<Evidence, Error> {
    let mut session = Inputs::default().over("nothing", memory).unwrap();
    session.evidence(&[])
}

#[test]
fn what_is_left_out_has_a_code_and_nothing_at_all_is_no_core() {
    let none = over(&mut Segments::default()).err().unwrap();
    assert_eq!((none.code.name(), none.is_not_found()), ("nothing-to-write", false));
    let mut memory = Segments::new(vec![Block::whole(0x1000, Bytes::from(vec![7; 64]))]);
    let some = over(&mut memory).unwrap();
    let codes: Vec<_> = some.issues.iter().map(|i| i.code.name()).collect();
    assert!(codes.len() >= 2 && codes.iter().all(|c| *c == "core-left-out"), "{:?}", some.issues);
    assert_eq!(some.pieces.len(), 1);
}

#[test]
fn the_core_that_is_read_is_not_written() {
    let scratch = Scratch::new("evidence-same");
    let copy = scratch.path("cm3.core");
    std::fs::copy(fixture("cm3.core"), &copy).unwrap();
    let copy = copy.display().to_string();
    let out = tx_trace(&["dump", "-o", &copy, &path("cm3.elf"), &copy]);
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("which is an input"), "{}", text(&out.stderr));
    assert_eq!(std::fs::read(&copy).unwrap(), std::fs::read(fixture("cm3.core")).unwrap());
}

#[test]
fn a_core_that_is_cut_short_or_scrambled_is_survived() {
    let scratch = Scratch::new("evidence-cut");
    let (core, _) = core(&scratch, "x.core", &[&path("cm3.elf"), &path("cm3.core")]);
    let whole = std::fs::read(&core).unwrap();
    let (cut, mut random) = (scratch.path("cut.core"), 0x9E37_79B9u32);
    for round in 0..24 {
        let mut bytes = whole.clone();
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        if round % 2 == 0 {
            bytes.truncate(random as usize % bytes.len());
        } else {
            for i in 0..64 {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let at = random as usize % 0x4000;
                bytes[at] = (random >> 24) as u8 ^ i;
            }
        }
        std::fs::write(&cut, bytes).unwrap();
        let out = tx_trace(&["threads", cut.to_str().unwrap()]);
        assert!(matches!(out.status.code(), Some(0..=2)), "{round}: {:?}", text(&out.stderr));
    }
}

/// What a GDB prints and complains of, in the order of a terminal.
fn gdb(program: &str, words: &[&str]) -> String {
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$0\" \"$@\" 2>&1", program]);
    command.args(["-nx", "-nh", "-batch", "-ex", "set pagination off", "-ex", "set confirm off"]);
    command.args(words).env_remove("TX_TRACE_ELF").env_remove("TX_TRACE_REMOTE").stdin(Stdio::null());
    let bin = Path::new(env!("CARGO_BIN_EXE_tx-trace")).parent().unwrap().display().to_string();
    command.env("PATH", format!("{bin}:{}", std::env::var("PATH").unwrap_or_default()));
    let out = command.output().unwrap();
    text(&out.stdout)
}

/// Threads, registers and call stacks, with the program; and without it what needs none.
fn opens_in_gdb(core: &str) {
    let elf = path("cm3.elf");
    let all = gdb("gdb-multiarch", &["-ex", "info threads", "-ex", "bt", "-ex", "thread apply all bt", &elf, core]);
    for what in ["fault_spin ()", "fault_handler", "mk_mutex_get", "control_step"] {
        assert!(all.contains(what), "{what}: {all}");
    }
    let first = all.lines().find(|l| l.starts_with("* 1")).unwrap();
    assert!(first.contains("fault_spin"), "the one that stopped comes first: {first}");
    let ram = symbol(&fixture("cm3.elf"), "_tx_thread_current_ptr");
    let bare =
        ["-ex", &format!("core {core}"), "-ex", "info threads", "-ex", "p $pc", "-ex", &format!("x/wx {ram:#x}")];
    let bare = gdb("gdb-multiarch", &bare);
    let spin = symbol(&fixture("cm3.elf"), "fault_spin");
    let pc = bare.split("$1 = ").nth(1).and_then(|rest| rest.split_whitespace().find_map(|w| w.strip_prefix("0x")));
    let pc = u64::from_str_radix(pc.unwrap_or_else(|| panic!("{bare}")), 16).unwrap();
    assert!((spin..spin + 16).contains(&pc), "{bare}");
    assert!(bare.contains(&format!("{ram:#x}:\t0x2000")), "{bare}");
}

/// `serve` of it, with the program and without it: a monitor line knows what the core's own notes say.
fn is_served(core: &str) {
    if !cfg!(feature = "serve") {
        return;
    }
    let ask = |line: &str| ["-ex".to_owned(), format!("echo \\n[{line}]\\n"), "-ex".to_owned(), line.to_owned()];
    let of = |said: &str, line: &str| {
        let rest = said.split_once(&format!("[{line}]\n")).unwrap_or_else(|| panic!("{line}: {said}")).1.to_owned();
        rest.split("\n[").next().unwrap().trim_end().to_owned()
    };
    let lines = ["info threads", "thread apply all bt", "monitor tx-trace threads", "monitor tx-trace last 3"];
    for elf in [None, Some(path("cm3.elf"))] {
        let program = elf.as_deref().unwrap_or_default();
        let mut words = vec!["-ex".to_owned(), format!("target remote | tx-trace serve --stdio {core} {program}")];
        words.extend(lines.iter().chain(&["monitor tx-trace info"]).flat_map(|line| ask(line)));
        words.extend(elf.clone());
        let said = gdb("gdb-multiarch", &words.iter().map(String::as_str).collect::<Vec<_>>());
        let listed = of(&said, lines[0]);
        assert!(listed.contains("* 1 ") && listed.contains("\"watchdog\" (running, in exception 3"), "{listed}");
        assert!(listed.contains("\"control\" (suspended on mutex bus_mutex owned by low_task"), "{listed}");
        assert_eq!(listed.matches("Thread ").count(), 10, "{listed}");
        let files: Vec<&str> = elf.as_deref().into_iter().chain([core]).collect();
        for line in &lines[2..] {
            let mut words: Vec<&str> = line.split(' ').skip(2).collect();
            words.extend(&files);
            words.extend(["--width", "80"]);
            assert_eq!(of(&said, line), done(&words).0.trim_end(), "{line} {program}: {said}");
        }
        let info = of(&said, "monitor tx-trace info");
        assert!(info.contains("found by        _tx_trace_header_ptr at") && !info.contains("--load-offset"), "{info}");
        if elf.is_some() {
            let all = of(&said, lines[1]);
            for (thread, service) in
                [("control", "mk_mutex_get"), ("sensor", "mk_queue_send"), ("comms", "mk_semaphore_get")]
            {
                let from = all.split_once(&format!("\"{thread}\"")).unwrap().1;
                assert!(from.split("\nThread ").next().unwrap().contains(service), "{thread}: {all}");
            }
        }
    }
}

/// The program's debug information names them, and is not there when the core is read.
#[test]
fn events_of_the_application_were_numbers_without_the_program() {
    let scratch = Scratch::new("evidence-events");
    let (core, said) = core(&scratch, "x.core", &[&path("cm3.elf"), &path("cm3.core")]);
    assert!(said.contains("11 names of events"), "{said}");
    let named = |core: &str| done(&["list", "--class", "user", core]).0;
    let with = done(&["list", "--class", "user", &path("cm3.elf"), &path("cm3.core")]).0;
    assert!(with.contains("APP_LATE") && with.contains("APP_FAULT"), "{with}");
    assert_eq!(named(&core), with);
    assert!(done(&["last", "1", "--event", "APP_LATE", &core]).0.contains("APP_LATE"));
    // What knows better wins, and a core of a core has them still.
    let file = scratch.path("mine.tsv").display().to_string();
    std::fs::write(&file, "id\tname\n4105\tMY_LATE\n").unwrap();
    let (mine, _) = done(&["list", "--class", "user", "--events", &file, &core]);
    assert!(mine.contains("MY_LATE") && mine.contains("APP_FAULT") && !mine.contains("APP_LATE"), "{mine}");
    let again = scratch.path("again.core").display().to_string();
    done(&["dump", "-o", &again, &core]);
    assert_eq!(named(&again), with);
    // The note is text that anybody may have written.
    let bytes = std::fs::read(&core).unwrap();
    let at = bytes.windows(8).rposition(|w| w == b"APP_LATE").unwrap();
    for (name, shown) in [(b"A\x1b[2JXXX", false), (b"APP\tLATE", false), (b"APP_SOON", true)] {
        let mut hostile = bytes.clone();
        hostile[at..at + 8].copy_from_slice(name);
        let file = scratch.path("hostile.core");
        std::fs::write(&file, hostile).unwrap();
        let out = tx_trace(&["list", "--class", "user", file.to_str().unwrap()]);
        let text = format!("{}{}", text(&out.stdout), text(&out.stderr));
        assert_eq!(out.status.code(), Some(0), "{text}");
        assert!(!text.contains('\u{1b}') && text.contains("APP_SOON") == shown, "{text}");
    }
}

/// A core without its program decoded the events of an old USBX with today's numbers: the string with its version was not in it.
#[test]
fn the_version_of_usbx_was_not_in_the_core() {
    const SLOTS: usize = 256;
    let scratch = Scratch::new("evidence-usbx");
    let [elf, core_of_it] = ["old.elf", "old.core"].map(|name| scratch.path(name));
    // The kernel's version string becomes that of USBX 6.1.7.
    let mut program = std::fs::read(fixture("cm3.elf")).unwrap();
    let find = |bytes: &[u8], what: &[u8]| bytes.windows(what.len()).position(|window| window == what).unwrap();
    let places = |bytes: &[u8]| {
        let all = bytes.windows(16).enumerate().filter(|(_, window)| *window == b"\0_tx_version_id\0");
        all.map(|(at, _)| at + 1).collect::<Vec<_>>()
    };
    places(&program).into_iter().for_each(|at| program[at..at + 3].copy_from_slice(b"_ux"));
    let rename = |bytes: &mut Vec<u8>| {
        let at = find(bytes, b"Pretend kernel");
        bytes[at..at + 19].copy_from_slice(b"USBX Version 6.1.7\0");
    };
    rename(&mut program);
    std::fs::write(&elf, program).unwrap();
    // One of the newest events becomes one of USBX.
    let trx = scratch.path("cm3.trx").display().to_string();
    done(&["dump", "-o", &trx, &path("cm3.elf"), &path("cm3.core")]);
    let trx = std::fs::read(trx).unwrap();
    let ring = &trx[trx.len() - SLOTS * 32..];
    let mut bytes = std::fs::read(fixture("cm3.core")).unwrap();
    let at = find(&bytes, ring);
    rename(&mut bytes);
    bytes[at + 8..at + 12].copy_from_slice(&868_u32.to_le_bytes());
    std::fs::write(&core_of_it, bytes).unwrap();
    let [elf, core_of_it] = [elf, core_of_it].map(|path| path.display().to_string());
    let named = |words: &[&str]| {
        let list = done(&[&["list", "--class", "ux"], words].concat()).0;
        list.contains("ux_device_stack_transfer_all_request_abort")
    };
    assert!(named(&[&elf, &core_of_it]), "868 is what 869 is today");
    let (alone, _) = core(&scratch, "alone.core", &[&elf, &core_of_it]);
    assert!(named(&[&alone]));
}

#[test]
fn gdb_opens_a_core_made_of_files() {
    require!(installed("gdb-multiarch"));
    let scratch = Scratch::new("evidence-gdb");
    let (core, _) = core(&scratch, "x.core", &[&path("cm3.elf"), &path("cm3.core")]);
    opens_in_gdb(&core);
    is_served(&core);
}

#[test]
fn a_core_over_the_link_from_qemu() {
    require!(installed("qemu-system-arm") && installed("gdb-multiarch"));
    let scratch = Scratch::new("evidence-qemu");
    let elf = path("cm3.elf");
    let qemu = Qemu::dead(&fixture("cm3.elf"));
    let (core, said) = core(&scratch, "live.core", &["--elf", &elf, "--remote", &qemu.remote()]);
    assert!(said.contains("10 threads"), "{said}");
    let (elf_and, live) = (["--elf", &elf, "--core", &core], ["--elf", &elf, "--remote", &qemu.remote()]);
    assert_eq!(without_callers(threads(&[&core])), without_callers(threads(&live)));
    assert_eq!(threads(&elf_and), threads(&live));
    let files = [path("cm3.elf"), path("cm3.core")];
    assert_eq!(events(&[&core]), events(&[&files[0], &files[1]]), "the same run, the same events");
    let (last, _) = done(&["last", "5", &core]);
    assert!(last.contains("tx_thread_identify"), "{last}");
    opens_in_gdb(&core);
    is_served(&core);

    // The same from within GDB, which knows the registers.
    let inner = scratch.path("inner.core").display().to_string();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("gdb/tx_trace.py").display().to_string();
    let connect = format!("target remote {}", qemu.remote());
    let dump = format!("tx-trace dump -o {inner}");
    let source = format!("source {script}");
    let said = gdb("gdb-multiarch", &["-ex", &source, "-ex", &connect, "-ex", "tx-trace threads", "-ex", &dump, &elf]);
    assert!(said.contains("* watchdog") && said.contains("interrupted by exception 3"), "{said}");
    assert!(said.contains("10 threads with their stacks"), "{said}");
    assert_eq!(threads(&[&inner]), threads(&[&core]));
    opens_in_gdb(&inner);
}

/// QEMU's core of a Cortex-M has the status word of another profile: it was "interrupted by exception 499", and without
/// the ELF another processor.
#[test]
fn a_core_of_qemus_own_was_interrupted_by_exception_499() {
    require!(installed("qemu-system-arm") && installed("gdb-multiarch"));
    let scratch = Scratch::new("evidence-guest");
    let elf = path("cm3.elf");
    let qemu = Qemu::dead(&fixture("cm3.elf"));
    let guest = scratch.path("guest.core").display().to_string();
    let (connect, dump) = (format!("target remote {}", qemu.remote()), format!("monitor dump-guest-memory {guest}"));
    gdb("gdb-multiarch", &["-ex", &connect, "-ex", &dump, "-ex", "disconnect"]);
    // The CPU is in handler mode, on the stack of exceptions: which exception it is nothing tells.
    let (table, _) = done(&["threads", "--width", "200", &elf, &guest]);
    assert!(!table.contains("by exception") && table.contains("watchdog: interrupted, or in the kernel"), "{table}");
    let json = |words: &[&str]| -> Vec<Value> {
        let (out, _) = done(&[&["threads", "--format", "json"], words].concat());
        out.lines().map(|l| serde_json::from_str(l).unwrap()).collect()
    };
    let of = |lines: &[Value], report: &str| lines.iter().find(|l| l["report"] == report).cloned().unwrap();
    let cpu = of(&json(&[&elf, &guest]), "cpus");
    assert_eq!((cpu["state"].as_str(), cpu["under"].as_str()), (None, Some("thread")), "{cpu}");
    assert!(cpu["exception"].is_null() && cpu["at"]["name"].as_str().unwrap().starts_with("fault_spin"), "{cpu}");
    // An evidence core of it knows no more.
    let (own, _) = core(&scratch, "own.core", &[&elf, &guest]);
    assert_eq!(of(&json(&[&own]), "cpus"), cpu);
    // Without the ELF: what the threads saved says that it is a Cortex-M.
    let names = ["_tx_thread_created_ptr", "_tx_thread_created_count", "_tx_thread_current_ptr"];
    let names = names.map(|name| format!("{name}={:#x}", symbol(&fixture("cm3.elf"), name)));
    let words: Vec<&str> = names.iter().flat_map(|name| ["--symbol", name]).chain([&*guest]).collect();
    let lines = json(&words);
    let inferred: Vec<_> = lines.iter().filter(|l| l["code"] == "cpu-inferred").map(|l| &l["message"]).collect();
    assert_eq!(inferred, ["the threads' stacks hold what a Cortex-M saves: the processor is assumed to be one"]);
    assert!(of(&lines, "cpus")["state"].is_null());
    let stands = lines.iter().filter(|l| l["report"] == "threads" && l["at_how"] == "switched out").count();
    assert_eq!(stands, 7);
}

/// The handler of HardFault is an endless loop that only its vector leads to.
const FAULT: &str = r#"
unsigned fw_fault;
void Reset_Handler(void);
__attribute__((noinline)) void HardFault_Handler(void) { for (;;) { } }
void Default_Handler(void) { for (;;) { fw_fault++; } }
__attribute__((section(".vectors"), used)) void (*const vectors[16])(void) = {
    (void (*)(void))0x20001000, Reset_Handler, Default_Handler, HardFault_Handler, Default_Handler, Default_Handler, Default_Handler,
};
__attribute__((noinline)) void store(volatile unsigned *at) { *at = 7; }
void Reset_Handler(void) { fw_fault = 0x44414544; store((volatile unsigned *)0xe0200000); for (;;) { } }
"#;

/// `explain` called it a loop without an exit, of which nothing more is known.
#[test]
fn a_fault_in_a_core_of_qemus_own_was_some_endless_loop() {
    require!(installed("qemu-system-arm") && installed("gdb-multiarch") && installed("arm-none-eabi-gcc"));
    let scratch = Scratch::new("evidence-qemu-fault");
    let [source, elf, guest] =
        ["fault.c", "fault.elf", "guest.core"].map(|name| scratch.path(name).display().to_string());
    // Another handler that jumps to it may be the one that runs.
    let jumps = FAULT.replace(
        "void Default_Handler(void) { for (;;) { fw_fault++; } }",
        "void Default_Handler(void) { HardFault_Handler(); }",
    );
    for (program, is_known) in [(FAULT, true), (jumps.as_str(), false)] {
        std::fs::write(&source, program).unwrap();
        let _ = std::fs::remove_file(&guest);
        let flags = "-mcpu=cortex-m3 -mthumb -O1 -g -nostdlib -ffreestanding -fno-ipa-icf -foptimize-sibling-calls \
            -Wl,--section-start=.vectors=0,-Ttext=0x100,-Tdata=0x20000000,-Tbss=0x20000000,-e,Reset_Handler";
        let built =
            Command::new("arm-none-eabi-gcc").args(flags.split_whitespace()).args(["-o", &elf, &source]).output();
        let built = built.unwrap();
        assert!(built.status.success(), "{}", text(&built.stderr));
        let qemu = Qemu::dead(Path::new(&elf));
        let (connect, dump) =
            (format!("target remote {}", qemu.remote()), format!("monitor dump-guest-memory {guest}"));
        gdb("gdb-multiarch", &["-ex", &connect, "-ex", &dump, "-ex", "disconnect"]);
        let (said, _) = done(&["explain", "--width", "500", &elf, &guest]);
        assert_eq!(said.starts_with("bus-fault: HardFault in store (fault.c:"), is_known, "{said}");
        assert_eq!(said.contains("bus-fault (likely)"), is_known, "{said}");
        assert_eq!(said.contains("xpsr is not known (--reg xpsr=N): the exception"), is_known, "{said}");
    }
}

/// The stack pointer that the crash log printed is what leads to where the running thread stands.
#[test]
fn registers_of_the_crash_log() {
    let (elf, core) = (path("cm3.elf"), path("cm3.core"));
    // The firmware keeps what a crash log would print.
    let fault = symbol(&fixture("cm3.elf"), "fw_fault") - 0x2000_0000;
    let ram = std::fs::read(fixture("cm3.ram.bin")).unwrap();
    let word = |i: usize| u32::from_le_bytes(ram[fault as usize + 4 * i..][..4].try_into().unwrap());
    let (psp, pc) = (word(4), word(11));
    let rows = threads(&["--reg", &format!("psp={psp:#x}"), &elf, &core]);
    let at = &rows[0]["at"];
    assert_eq!((&rows[0]["thread"]["name"], &at["address"]), (&"watchdog".into(), &format!("{pc:#010x}").into()));
    assert!(rows[0]["stack_used"].as_u64().is_some_and(|n| n > 0 && n < 768), "{}", rows[0]);
    // A slip of the hand is no place.
    for (typed, reported) in [
        (psp + 4, "there are none"),
        (psp + 1, "not a multiple of 4"),
        (psp + 2, "not a multiple of 4"),
        (0x2000_0000, "outside of its stack"),
    ] {
        let words = ["threads", "--width", "200", "--reg", &format!("psp={typed:#x}"), &elf, &core];
        let (table, _) = done(&words);
        assert!(table.contains(&format!("{typed:#x} ")) && table.contains(reported), "{table}");
        assert!(threads(&words[3..])[0]["at"].is_null(), "{table}");
    }
    let out = tx_trace(&["threads", "--reg", "psp=", &elf, &core]);
    assert!(
        text(&out.stderr).contains("--reg psp=: `` is not a number: it must be NAME=VALUE"),
        "{}",
        text(&out.stderr)
    );
    let out = tx_trace(&["threads", "--reg", "nonsense=1", &elf, &core]);
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("has no such register"), "{}", text(&out.stderr));
    let out = tx_trace(&["threads", "--reg", "cfrs=0x8200", &elf, &core]);
    assert!(text(&out.stderr).contains("did you mean cfsr"), "{}", text(&out.stderr));
    let out = tx_trace(&["threads", "--reg", "cfsr=0x100000000", &elf, &core]);
    assert!(text(&out.stderr).contains("too large for cfsr"), "{}", text(&out.stderr));
}

/// `--reg syst_csr=6` and `--reg nvic_iser0=1` were errors, though a crash log may print them.
#[test]
fn registers_of_systick_and_the_nvic_were_refused() {
    let (elf, core) = (fixture("stall.elf"), fixture("stall-tick_off.core.gz"));
    let (elf, core) = (elf.to_str().unwrap(), core.to_str().unwrap());
    let explained = |registers: &[&str]| {
        let given = registers.iter().flat_map(|register| ["--reg", register]);
        let out = tx_trace(&["explain", elf, core].into_iter().chain(given).collect::<Vec<_>>());
        assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
        text(&out.stdout).lines().next().unwrap_or_default().to_owned()
    };
    let head = explained(&[]);
    assert!(head.ends_with("is not even pending: its timer does not count"), "{head}");
    // The last one counts. Memory that the core has is overridden.
    let head = explained(&["syst_csr=7", "SYST_CSR=6", "nvic_iser0=1", "nvic_ipr123=0"]);
    assert!(head.ends_with("is not even pending: it is switched off (SYST_CSR.ENABLE is 0)"), "{head}");
    let head = explained(&["syst_csr=5"]);
    assert!(head.ends_with("it counts without an interrupt (SYST_CSR.TICKINT is 0)"), "{head}");
    for (register, message) in [
        ("syst_csr=0x100000000", "the value is too large for syst_csr of Cortex-M"),
        ("nvic_iser16=0", "Cortex-M has no such register"),
    ] {
        let out = tx_trace(&["explain", elf, core, "--reg", register]);
        assert_eq!(out.status.code(), Some(2), "{register}");
        assert!(text(&out.stderr).contains(message), "{}", text(&out.stderr));
    }
    let out = tx_trace(&["explain", "--elf", elf, "--trace", &path("cm3.trx"), "--reg", "syst_csr=1"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("it is memory at 0xe000e010, and only a core"), "{}", text(&out.stderr));
    let image = format!("{}@0x20000000", path("cm3.ram.bin"));
    let out = tx_trace(&["threads", "--elf", &path("use-riscv.elf"), "--image", &image, "--reg", "syst_csr=1"]);
    assert!(text(&out.stderr).contains("has no such register"), "{}", text(&out.stderr));
}
