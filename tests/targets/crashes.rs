//! Crashes that were planted in the fixture firmware (`tests/firmware/crashes.c`): what is shown as the place of the crash is
//! where the firmware says that it failed, or no place is shown as certain.
#![cfg(all(unix, feature = "cli"))]

use std::collections::HashMap;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::support::children::quiet;
use super::support::dice::Dice;
use super::support::machine::{Running, Scratch, fixture, free_port, installed, tx_trace, wait_for};

const ALL: [&str; 10] = [
    "wild_store",
    "nested",
    "in_isr",
    "overflow",
    "after_interrupt",
    "divide",
    "null_call",
    "assert",
    "guard",
    "hollow",
];

/// What the firmware says of a crash.
struct Truth(HashMap<String, String>);

impl Truth {
    fn of(name: &str) -> Self {
        let text = std::fs::read_to_string(fixture(&format!("crash-{name}.truth.tsv"))).unwrap();
        Self(text.lines().filter_map(|l| l.split_once('\t')).map(|(k, v)| (k.to_owned(), v.to_owned())).collect())
    }

    fn text(&self, key: &str) -> Option<&str> {
        Some(self.0[key].as_str()).filter(|text| *text != "-")
    }

    fn number(&self, key: &str) -> Option<u64> {
        let text = self.text(key)?;
        Some(text.strip_prefix("0x").map_or_else(|| text.parse().unwrap(), |hex| u64::from_str_radix(hex, 16).unwrap()))
    }

    /// True where the place of a crash can be known: an exception came, and pushed what it pushes.
    fn is_known(&self) -> bool {
        self.number("frame").is_some()
    }
}

/// The rows of `threads`: of the thread, and of what was interrupted.
struct Shown {
    victim: Value,
    places: Vec<Value>,
}

fn threads(words: &[&str]) -> Shown {
    let out = tx_trace(&[&["threads", "--format", "json"], words].concat());
    assert!(out.status.success(), "{words:?}: {}", String::from_utf8_lossy(&out.stderr));
    let rows = String::from_utf8(out.stdout).unwrap();
    let rows: Vec<Value> = rows.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let is = |report: &'static str| move |row: &&Value| row["report"] == report;
    let victim = rows.iter().filter(is("threads")).find(|row| row["thread"]["name"] == "victim").unwrap().clone();
    let places = rows.iter().filter(|row| is("crash")(row) || is("interrupted")(row)).cloned().collect();
    Shown { victim, places }
}

/// Fixtures of a crash, and options.
fn files(name: &str, kind: &str, more: &[&str]) -> Vec<String> {
    let elf = fixture("crash.elf").display().to_string();
    let file = fixture(&format!("crash-{name}.{kind}.gz")).display().to_string();
    [elf, file].into_iter().chain(more.iter().map(|word| (*word).to_owned())).collect()
}

fn look(name: &str, kind: &str, more: &[&str]) -> Shown {
    let words = files(name, kind, more);
    threads(&words.iter().map(String::as_str).collect::<Vec<_>>())
}

fn hex(value: &Value) -> Option<u64> {
    u64::from_str_radix(value.as_str()?.strip_prefix("0x")?, 16).ok()
}

/// The place is that of the truth, in all that is said of it.
fn assert_true(name: &str, truth: &Truth, place: &Value) {
    let what = format!("{name}: {place}");
    assert_eq!(hex(&place["pc"]["address"]), truth.number("pc"), "{what}");
    assert_eq!(hex(&place["sp"]), truth.number("sp"), "{what}");
    assert_eq!(hex(&place["frame"]), truth.number("frame"), "{what}");
    assert_eq!(place["pc"]["name"].as_str(), truth.text("function"), "{what}");
    assert_eq!(place["line"].as_u64(), truth.number("line"), "{what}");
    assert_eq!(place["thread"]["name"].as_str(), truth.text("thread"), "{what}");
    assert_eq!(place["interrupted_exception"].as_u64(), truth.number("in_isr").filter(|n| *n != 0), "{what}");
    let functions: Vec<&str> =
        place["frames"].as_array().unwrap().iter().filter_map(|f| f["function"].as_str()).collect();
    if let Some(caller) = truth.text("caller") {
        assert_eq!(functions.first(), Some(&caller), "{what}");
    }
    if truth.number("in_isr") == Some(0) {
        assert_eq!(functions.last(), Some(&"mk_thread_shell"), "{what}");
    }
}

/// PSP and the fault registers, as a probe gives them.
fn given(truth: &Truth) -> Vec<String> {
    let cfsr = format!("cfsr={:#x}", truth.number("cfsr").unwrap());
    let psp = truth.number("psp").map(|psp| format!("psp={psp:#x}"));
    psp.into_iter().chain([cfsr]).flat_map(|pair| ["--reg".to_owned(), pair]).collect()
}

#[test]
fn the_place_of_a_crash_is_certain_where_psp_is_known() {
    for name in ALL {
        let truth = Truth::of(name);
        let given = given(&truth);
        let Shown { victim, places } = look(name, "core", &given.iter().map(String::as_str).collect::<Vec<_>>());
        if name == "assert" {
            assert_eq!(victim["at"]["name"].as_str().unwrap().split('+').next(), truth.text("function"));
            assert!(places.is_empty(), "{places:?}");
            continue;
        }
        let [place] = places.as_slice() else { panic!("{name}: {places:?}") };
        assert_eq!(place["report"], "crash", "{name}");
        assert_eq!(place["exception"], if name == "divide" { 6 } else { 3 });
        assert_eq!(place["certain"], truth.is_known(), "{name}: {place}");
        if truth.is_known() {
            assert_true(name, &truth, place);
            assert_eq!(place["doubt"], Value::Null, "{place}");
            assert_eq!(place["origin"], if name == "in_isr" { "msp" } else { "psp" });
        } else {
            assert_eq!([&place["pc"], &victim["at"]], [&Value::Null; 2], "{name}: {place}");
            let doubt = place["doubt"].as_str().unwrap();
            assert!(doubt.contains("MSTKERR: the exception frame may not have been written"), "{name}: {doubt}");
        }
    }
}

#[test]
fn without_psp_places_are_candidates_and_fill_no_position() {
    for name in ALL.into_iter().filter(|name| *name != "assert") {
        let truth = Truth::of(name);
        let Shown { victim, places } = look(name, "core", &[]);
        assert_eq!(victim["at"], Value::Null, "{name}");
        let first = places.first().unwrap();
        assert_eq!(first["report"], "crash", "{name}");
        // An interrupt's own registers are on the main stack, which the core has.
        assert_eq!(first["certain"], name == "in_isr", "{name}");
        if truth.is_known() {
            assert_true(name, &truth, first);
        }
    }
}

#[test]
fn ram_alone_shows_candidates_and_no_crash() {
    for name in ALL {
        let truth = Truth::of(name);
        let Shown { victim, places } = look(name, "ram.bin", &[]);
        assert_eq!(victim["at"], Value::Null, "{name}");
        let claimed = |place: &Value| place["report"] != "interrupted" || place["certain"] != false;
        assert!(!places.iter().any(claimed), "{name}: {places:?}");
        // What the processor pushed is among them: a call of address 0 looks like words that are 0.
        if truth.is_known() && !matches!(name, "in_isr" | "null_call") {
            let same = |place: &&Value| hex(&place["frame"]) == truth.number("frame");
            assert_true(name, &truth, places.iter().find(same).unwrap_or_else(|| panic!("{name}: {places:?}")));
        }
    }
}

/// What a fault handler pushed by an older exception was taken for that of this one.
#[test]
fn a_frame_that_was_not_written_is_no_position() {
    let truth = Truth::of("guard");
    let psp = format!("psp={:#x}", truth.number("psp").unwrap());
    // Without the fault registers nothing says so.
    let Shown { places, .. } = look("guard", "core", &["--reg", &psp]);
    assert_eq!(hex(&places[0]["frame"]), truth.number("psp"), "{places:?}");
    for bit in ["0x10", "0x1000", "0x100000"] {
        let Shown { victim, places } = look("guard", "core", &["--reg", &psp, "--reg", &format!("cfsr={bit}")]);
        assert_eq!([&victim["at"], &places[0]["pc"]], [&Value::Null; 2], "{places:?}");
    }
    // Floating-point registers that were not stored say nothing against the place.
    let truth = Truth::of("nested");
    let psp = format!("psp={:#x}", truth.number("psp").unwrap());
    let Shown { places, .. } = look("nested", "core", &["--reg", &psp, "--reg", "fpccr=1"]);
    assert_true("nested", &truth, &places[0]);
    assert_eq!(places[0]["doubt"], "LSPACT: s0 to s15 in the exception frame are stale");
}

/// GDB's first frames, of the thread that it selects.
fn gdb(words: &[&str]) -> String {
    let mut command = Command::new("gdb-multiarch");
    command.args(["-nx", "-batch", "-iex", "set pagination off", "-iex", "set debuginfod enabled off"]);
    let out = command.args(words).arg(fixture("crash.elf")).env("LC_ALL", "C").output().unwrap();
    String::from_utf8_lossy(&out.stdout).into_owned()
}

#[test]
fn gdb_begins_at_the_crash_in_an_evidence_core_and_over_serve() {
    require!(installed("gdb-multiarch"));
    let scratch = Scratch::new("crash");
    for name in ALL.into_iter().filter(|name| *name != "null_call" && *name != "assert") {
        let truth = Truth::of(name);
        let given = given(&truth);
        let more: Vec<&str> = given.iter().map(String::as_str).collect();
        let core = scratch.path(&format!("{name}.core")).display().to_string();
        let words = files(name, "core", &more);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let out = tx_trace(&[&["dump", "-o", &core], words.as_slice()].concat());
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        let pipe = format!("target remote | {} serve --stdio {}", env!("CARGO_BIN_EXE_tx-trace"), words.join(" "));
        for text in [gdb(&["-ex", &format!("core-file {core}"), "-ex", "bt"]), gdb(&["-ex", &pipe, "-ex", "bt"])] {
            let first = text.lines().find(|line| line.starts_with("#0")).unwrap_or_else(|| panic!("{name}: {text}"));
            let want = match truth.text("function").filter(|_| truth.is_known()) {
                Some(function) => format!("{function} ("),
                None => "crash_stop (".to_owned(),
            };
            assert!(first.contains(&want), "{name}: {text}");
        }
        // Read again it shows the same.
        let (before, after) = (threads(&words), threads(&[words[0], &core]));
        assert_eq!(before.places, after.places, "{name}");
        assert_eq!(before.victim["at"], after.victim["at"], "{name}");
    }
}

/// A program in QEMU; without a way to fail it never does.
struct Healthy {
    remote: String,
    _child: Running,
}

impl Healthy {
    fn start() -> Self {
        Self::of("crash.elf", 0)
    }

    /// A program that is made to fail in the way of this number.
    fn of(elf: &str, way: usize) -> Self {
        let port = free_port();
        let mut command = Command::new("qemu-system-arm");
        command.args(["-M", "mps2-an385", "-display", "none", "-monitor", "none", "-serial", "none"]);
        let way = format!("loader,addr=0x20010000,data={way},data-len=4");
        command.args(["-device", &way, "-gdb", &format!("tcp:127.0.0.1:{port}")]);
        let child = quiet(command.arg("-kernel").arg(fixture(elf)));
        let remote = format!("127.0.0.1:{port}");
        wait_for("QEMU", || std::net::TcpStream::connect(&remote).is_ok());
        Self { remote, _child: child }
    }
}

/// A core of a target that had not started its first thread lacked the main stack, and with it who called the function in which it was.
#[test]
fn a_core_from_before_the_first_thread_has_the_main_stack() {
    require!(installed("qemu-system-arm"));
    let ways = std::fs::read_to_string("tests/firmware/stalls.tsv").unwrap();
    let way = ways.lines().filter(|line| !line.starts_with('#')).position(|line| line.starts_with("init_waits\t"));
    let qemu = Healthy::of("stall.elf", way.unwrap());
    let scratch = Scratch::new("before-threads");
    let (elf, core) = (fixture("stall.elf").display().to_string(), scratch.path("it.core").display().to_string());
    wait_for("its initialisation", || {
        let out = tx_trace(&["threads", "--elf", &elf, "--remote", &qemu.remote, "--leave", "running"]);
        String::from_utf8_lossy(&out.stdout).contains("logger")
    });
    let out = tx_trace(&["dump", "-o", &core, "--elf", &elf, "--remote", &qemu.remote, "--leave", "halted"]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let out = tx_trace(&["explain", &elf, &core]);
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(text.contains("the kernel has not started its first thread"), "{text}");
    assert!(text.contains(" < mk_kernel_enter ") && text.contains(" < Reset_Handler "), "{text}");
}

/// How often a healthy target is halted; `HALTS=500` for a longer run.
fn halts() -> usize {
    std::env::var("HALTS").ok().and_then(|n| n.parse().ok()).unwrap_or(25)
}

#[test]
fn no_crash_is_invented_where_a_healthy_target_is_halted() {
    require!(installed("qemu-system-arm"));
    let healthy = Healthy::start();
    let elf = fixture("crash.elf").display().to_string();
    wait_for("its threads", || {
        tx_trace(&["threads", "--elf", &elf, "--remote", &healthy.remote, "--leave", "running"]).status.success()
    });
    let mut dice = Dice::of(16);
    let (mut in_exception, mut candidates) = (0, 0);
    for halt in 0..halts() {
        std::thread::sleep(Duration::from_micros(dice.next() % 20_000));
        let words = ["--elf", &elf, "--remote", &healthy.remote, "--leave", "running"];
        let out = tx_trace(&[&["threads", "--format", "json"], words.as_slice()].concat());
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        let text = String::from_utf8(out.stdout).unwrap();
        let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let of = |report: &'static str| rows.iter().filter(move |row| row["report"] == report);
        assert_eq!(of("crash").count(), 0, "halt {halt}: {text}");
        let exception = of("cpus").any(|cpu| cpu["state"] == "exception");
        in_exception += usize::from(exception);
        candidates += usize::from(of("interrupted").next().is_some());
        for place in of("interrupted") {
            // QEMU gives no PSP: what it interrupted is not certain, and fills no position.
            assert!(exception && place["certain"] == false, "halt {halt}: {text}");
            assert!(of("threads").filter(|row| row["running"] == true).all(|row| row["at"] == Value::Null), "{text}");
        }
    }
    println!("{} halts, {in_exception} in an exception, {candidates} with candidates", halts());
}
