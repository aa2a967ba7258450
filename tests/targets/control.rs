//! `control`: what it would write, bytes by bytes, and what becomes of it in running targets. Skipped, loudly, where a
//! tool is not installed.
#![cfg(all(unix, feature = "cli", feature = "serve"))]

mod addresses;
mod live;
mod stub;

use crate::support::machine;
use crate::support::tools;
use tx_trace::error::Error;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::machine::{fixture, symbol, tx_trace};
use tx_trace::bytes::Bytes;
use tx_trace::control::{Action, Change, Plan, State, check, plan};
use tx_trace::mem::Memory as _;
use tx_trace::mem::segments::{Block, Segments};
use tx_trace::serve::Server;
use tx_trace::session::{self, Inputs, SourceSpec};

const RAM: u64 = 0x2000_0000;

/// The Cortex-M3's RAM at its fault, with words of it changed, and words elsewhere.
#[derive(Clone)]
struct Target {
    ram: Vec<u8>,
    more: Vec<(u64, u32)>,
}

impl Target {
    fn new() -> Self {
        Self { ram: std::fs::read(fixture("cm3.ram.bin")).unwrap(), more: Vec::new() }
    }

    fn at(name: &str) -> u64 {
        symbol(&fixture("cm3.elf"), name)
    }

    fn word(&self, at: u64) -> u32 {
        let at = (at - RAM) as usize;
        u32::from_le_bytes(self.ram[at..at + 4].try_into().unwrap())
    }

    fn with(mut self, at: u64, value: u32) -> Self {
        match at.checked_sub(RAM).map(|a| a as usize).filter(|a| *a < self.ram.len()) {
            Some(at) => self.ram[at..at + 4].copy_from_slice(&value.to_le_bytes()),
            None => self.more.push((at, value)),
        }
        self
    }

    fn set(self, name: &str, value: u32) -> Self {
        self.with(Self::at(name), value)
    }

    fn memory(&self) -> Segments {
        let mut blocks = vec![Block::whole(RAM, Bytes::from(self.ram.clone()))];
        blocks.extend(self.more.iter().map(|(at, v)| Block::whole(*at, Bytes::from(v.to_le_bytes().to_vec()))));
        Segments::new(blocks)
    }

    fn ask<T>(&self, question: impl FnOnce(&mut session::Target<'_>) -> T) -> T {
        let mut memory = self.memory();
        let inputs = Inputs { elf: Some(fixture("cm3.elf")), ..Inputs::default() };
        question(&mut inputs.over("ram", &mut memory).unwrap())
    }

    fn plan(&self, action: Action) -> Result<Plan, Error> {
        self.ask(|session| {
            let state = State::read(session)?;
            plan(session, &state, action)
        })
    }

    /// With the writes done.
    fn after(&self, changes: &[Change]) -> Self {
        let mut next = self.clone();
        for change in changes {
            let at = (change.address - RAM) as usize;
            assert_eq!(self.ram[at..at + change.before.len()], change.before, "{change}");
            next.ram[at..at + change.bytes.len()].copy_from_slice(&change.bytes);
        }
        next
    }

    fn state(&self) -> State {
        self.ask(|session| State::read(session).unwrap())
    }

    /// The words of the slot at the header's current pointer, or so many before it.
    fn slot(&self, back: u32) -> Vec<u32> {
        let header = Self::at("trace_buffer");
        let at = u64::from(self.word(header + 32) - 32 * back);
        (0..8).map(|i| self.word(at + 4 * i)).collect()
    }
}

const MARK: Action = Action::Mark { id: 5001, info: [1, 2, 3, 4] };

#[test]
fn pause_clears_one_pointer_and_resume_puts_it_back() {
    let target = Target::new();
    let current = Target::at("_tx_trace_buffer_current_ptr");
    let value = target.word(current);
    let plan = target.plan(Action::Pause).unwrap();
    assert_eq!(plan.changes.len(), 1);
    assert_eq!((plan.changes[0].address, plan.changes[0].bytes.as_slice()), (current, &[0; 4][..]));
    let paused = target.after(&plan.changes);
    assert!(paused.state().is_paused() && !paused.state().is_enabled());
    assert!(paused.plan(Action::Pause).unwrap().changes.is_empty(), "it is paused already");
    let plan = paused.plan(Action::Resume).unwrap();
    let resumed = paused.after(&plan.changes);
    assert_eq!(resumed.word(current), value);
    assert!(resumed.ram == target.ram);
    assert!(target.plan(Action::Resume).unwrap().changes.is_empty(), "it runs already");
    // As tx_trace_disable leaves it.
    let disabled = paused.set("_tx_trace_registry_start_ptr", 0);
    assert!(!disabled.state().is_paused());
    assert!(disabled.plan(Action::Resume).unwrap().notes[0].contains("not registered"));
}

#[test]
fn masks() {
    let target = Target::new();
    let bits = Target::at("_tx_trace_event_enable_bits");
    for (action, before, after) in [
        (Action::Off(0x40), 0xFFFF_FFFF_u32, 0xFFFF_FFBF_u32),
        (Action::On(0x8000_0000), 1, 0x8000_0001),
        (Action::Only(0x67), 0xFFFF_FFFF, 0x67),
    ] {
        let target = target.clone().set("_tx_trace_event_enable_bits", before);
        let changed = target.after(&target.plan(action).unwrap().changes);
        assert_eq!(changed.word(bits), after, "{action:?}");
        assert!(changed.plan(action).unwrap().changes.iter().all(|c| !c.is_new()));
    }
    assert!(target.plan(Action::Only(0x40)).unwrap().notes.iter().any(|n| n.contains("oldest event")));
}

#[test]
fn a_mark_is_the_event_that_the_kernel_would_insert() {
    // The watchdog's, in its fault; the interrupt's number cannot be read here.
    let target = Target::new();
    let old = target.slot(0);
    let plan = target.plan(MARK).unwrap();
    assert_eq!(plan.changes.len(), 3, "the slot, the pointer, the header's copy");
    assert!(plan.notes.iter().any(|n| n.contains("cannot be read")) && plan.notes.iter().any(|n| n.contains("clock")));
    let marked = target.after(&plan.changes);
    let stamp = target.slot(1)[3];
    let watchdog = Target::at("watchdog") as u32;
    assert_eq!(marked.slot(1), [watchdog, 0x8001_0001, 5001, stamp, 1, 2, 3, 4]);
    assert_ne!(marked.slot(1), old);
    assert!(marked.state().sound().is_some());
    assert_eq!(
        marked.word(Target::at("_tx_trace_buffer_current_ptr")),
        target.word(Target::at("_tx_trace_buffer_current_ptr")) + 32
    );
    // In an interrupt, before the scheduler, and while nothing runs.
    let icsr = 0xE000_ED04;
    for (target, context) in [
        (target.clone().with(icsr, 15), [0xFFFF_FFFF, watchdog]),
        (target.clone().with(icsr, 0), [watchdog, 0x8001_0001]),
        (target.clone().set("_tx_thread_system_state", 1), [0xFFFF_FFFF, watchdog]),
        (target.clone().set("_tx_thread_system_state", 0xF0F0_F0F0), [0xF0F0_F0F0, 0]),
        (target.clone().set("_tx_thread_current_ptr", 0), [0xFFFF_FFFF, 0]),
    ] {
        let marked = target.after(&target.plan(MARK).unwrap().changes);
        assert_eq!(marked.slot(1)[..2], context);
    }
}

#[test]
fn a_marks_clock() {
    let target = Target::new();
    let stamp = target.slot(1)[3];
    let stands = target.clone().with(0xE000_1004, 0);
    assert_eq!(stands.after(&stands.plan(MARK).unwrap().changes).slot(1)[3], stamp, "a counter that does not run");
    let simulated = target.set("_tx_trace_simulated_time", stamp);
    let marked = simulated.after(&simulated.plan(MARK).unwrap().changes);
    assert_eq!(marked.slot(1)[3], stamp + 1);
    assert_eq!(marked.word(Target::at("_tx_trace_simulated_time")), stamp + 1);
}

#[test]
fn a_mark_in_the_last_slot_wraps() {
    let target = Target::new();
    let header = Target::at("trace_buffer");
    let (start, end) = (target.word(header + 24), target.word(header + 28));
    let target = target.with(header + 32, end - 32).set("_tx_trace_buffer_current_ptr", end - 32);
    let plan = target.plan(MARK).unwrap();
    assert!(plan.notes.iter().any(|n| n.contains("buffer-full")));
    let marked = target.after(&plan.changes);
    assert_eq!((marked.word(header + 32), marked.word(u64::from(end) - 24)), (start, 5001));
}

#[track_caller]
fn refused(target: &Target, actions: &[Action], code: &str, looked: bool) {
    for action in actions {
        let error = target.plan(*action).unwrap_err();
        assert_eq!((error.code.name(), error.is_not_found()), (code, looked), "{action:?}: {error}");
        assert!(!error.message.contains('\n'));
    }
}

#[test]
fn what_is_refused() {
    let target = Target::new();
    let header = Target::at("trace_buffer");
    let three = [Action::Pause, Action::Resume, MARK];
    let all = [Action::On(1), Action::Off(1), Action::Only(1), Action::Pause, Action::Resume, MARK];
    // The kernel has stored one of the two pointers.
    let between = target.clone().set("_tx_trace_buffer_current_ptr", target.word(header + 32) + 32);
    refused(&between, &three, "insertion-in-progress", false);
    for damaged in [
        target.clone().with(header, 0),
        target.clone().with(header + 20, 0),
        target.clone().with(header + 8, RAM as u32),
        target.clone().with(header + 32, RAM as u32),
        target.clone().set("_tx_trace_buffer_end_ptr", 4),
        target.clone().set("_tx_trace_buffer_current_ptr", target.word(header + 32) + 2),
        target.clone().set("_tx_trace_header_ptr", RAM as u32 + 4),
    ] {
        refused(&damaged, &all, "header-damaged", false);
    }
    refused(&target.clone().set("_tx_trace_header_ptr", 0), &all, "never-enabled", true);
    let paused = target.clone().set("_tx_trace_buffer_current_ptr", 0);
    refused(&paused, &[MARK], "not-inserting", true);
    refused(&target.clone().set("_tx_trace_event_enable_bits", 0x7FFF_FFFF), &[MARK], "not-inserting", true);
    refused(&target, &[Action::Mark { id: 1 << 32, info: [0; 4] }], "number", false);
    refused(&target.set("_tx_trace_header_ptr", 0xF000_0000), &[], "unreadable", false);
}

/// Another byte order, and pointers that are wider than what the trace stores.
#[test]
fn words_and_pointers_of_other_machines() {
    for (elf, core, pointer) in [("be.elf", "be.core", 4), ("host.elf", "host.core", 8)] {
        let inputs = Inputs { elf: Some(fixture(elf)), source: SourceSpec::Core(fixture(core)), ..Inputs::default() };
        let mut session = session::Target::open(inputs).unwrap();
        let mut state = State::read(&mut session).unwrap();
        let header = state.sound().unwrap().header;
        assert!(state.used == Some(256) && state.registry == Some((24, 5)), "{elf}");
        let current = state.current.unwrap();
        // As if it were paused.
        state.current = Some(tx_trace_variable(&current, 0));
        let resume = plan(&mut session, &state, Action::Resume).unwrap();
        let mut bytes = current.value.to_le_bytes()[..pointer].to_vec();
        if elf == "be.elf" {
            bytes.reverse();
        }
        assert_eq!(resume.changes[0].bytes, bytes, "{elf}: at full width");
        state.current = Some(current);
        let mark = plan(&mut session, &state, MARK).unwrap();
        for plan in [&resume, &mark] {
            assert_eq!(check(&mut session, &state, plan.clone(), &[]).unwrap().changes(), plan.changes, "{elf}");
        }
        let copy = &mark.changes[2];
        let next = (current.value + 32) as u32;
        let next = if elf == "be.elf" { next.to_be_bytes() } else { next.to_le_bytes() };
        assert_eq!((copy.address, copy.bytes.as_slice()), (header + 32, &next[..]), "{elf}");
        assert_eq!(mark.changes[1].bytes.len(), pointer);
    }
}

fn tx_trace_variable(like: &tx_trace::control::Variable, value: u64) -> tx_trace::control::Variable {
    tx_trace::control::Variable { value, ..*like }
}

/// An RSP server that only reads says so in its memory map.
#[test]
fn a_server_of_a_dump_refuses() {
    let server = Server::on_loopback().unwrap();
    let address = server.address().unwrap().to_string();
    let serving = std::thread::spawn(move || server.serve_one(&mut Target::new().memory()));
    let elf = fixture("cm3.elf");
    let done = tx_trace(&[
        "control",
        "pause",
        "--yes",
        "--format",
        "json",
        "--elf",
        elf.to_str().unwrap(),
        "--remote",
        &address,
    ]);
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert_eq!(done.status.code(), Some(2), "{out}{err}");
    assert!(out.contains("\"code\":\"not-ram\"") && err.contains("by the stub's memory map"), "{out}{err}");
    serving.join().unwrap().unwrap();
}

#[test]
fn what_is_typed() {
    let core = [fixture("cm3.elf").display().to_string(), fixture("cm3.core").display().to_string()];
    let elf = ["--elf", &core[0], "--core", &core[1]];
    for (words, code, said) in [
        (&["on"][..], 2, "needs classes of events"),
        (&["off", "nonsense"], 2, "there is no class 'nonsense'"),
        (&["filter", "queue"], 2, "not-written"),
        (&["unfilter", "queue"], 0, "already"),
        (&["enable", "x", "1"], 2, "in GDB `tx-trace control enable`"),
        (&["disable"], 2, "in GDB `tx-trace control disable`"),
        (&["mark"], 2, "mark ID"),
        (&["mark", "5"], 2, "begin at 4096"),
        (&["mark", "x"], 2, "a number"),
        (&["mark", "5000", "1", "2", "3", "4", "5"], 2, "mark ID"),
        (&["mark", "0x1388", "1"], 2, "not-written"),
        (&["pause"], 2, "not-written"),
        (&["start"], 2, "show, on, off"),
    ] {
        let done = tx_trace(&[&["control"], words, &elf, &["--format", "json"]].concat());
        let text = format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        assert_eq!(done.status.code(), Some(code), "{words:?}: {text}");
        assert!(text.contains(said), "{words:?}: {text}");
    }
}

#[test]
fn show_tells_each_state() {
    for (elf, image, code, lines) in [
        (
            "cm3.elf",
            "cm3.ram.bin",
            0,
            &[
                "compiled in|yes: _tx_trace_header_ptr",
                "enabled|yes",
                "paused|no",
                "event mask|0xffffffff (everything)",
                "capacity|256",
                "used|256",
                "registry free|5 of 24",
            ][..],
        ),
        ("cm3-unwrapped.elf", "cm3-unwrapped.ram.bin", 0, &["used|252", "next event|slot 252"]),
        ("cm3-disabled.elf", "cm3-disabled.ram.bin", 0, &["enabled|no: disabled by tx_trace_disable", "paused|no"]),
        ("cm3-never.elf", "cm3-never.ram.bin", 1, &["enabled|no: never", "event mask|0x00000000 (nothing)"]),
        ("cm3-notrace.elf", "cm3-notrace.ram.bin", 1, &["compiled in|no", "kernel|Pretend kernel"]),
    ] {
        let (elf, image) = (fixture(elf).display().to_string(), format!("{}@0x20000000", fixture(image).display()));
        let done = tx_trace(&["control", "show", "--elf", &elf, "--image", &image, "--format", "json"]);
        assert_eq!(done.status.code(), Some(code), "{elf}");
        let out = String::from_utf8(done.stdout).unwrap();
        let rows: Vec<serde_json::Value> = out.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        for line in lines {
            let (what, value) = line.split_once('|').unwrap();
            let row = rows.iter().find(|r| r["what"] == what).unwrap_or_else(|| panic!("{elf}: no {what} in {out}"));
            assert!(row["report"] == "control" && row["value"].as_str().unwrap().starts_with(value), "{elf}: {row}");
        }
    }
}

/// Runs the command on an image of the target.
fn on_image(target: &Target, words: &[&str]) -> (Option<i32>, String, String) {
    let scratch = tools::Scratch::new();
    let file = scratch.path("ram.bin");
    std::fs::write(&file, &target.ram).unwrap();
    let (elf, image) = (fixture("cm3.elf").display().to_string(), format!("{file}@0x20000000"));
    let done = tx_trace(&[words, &["--elf", &elf, "--image", &image]].concat());
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (done.status.code(), text(done.stdout), text(done.stderr))
}

#[test]
fn last_of_a_paused_trace_said_that_it_was_switched_off() {
    let paused = Target::new().set("_tx_trace_buffer_current_ptr", 0);
    let (code, out, err) = on_image(&paused, &["last", "3"]);
    assert!(code == Some(0) && out.lines().count() >= 4, "{out}{err}");
    assert!(err.contains("tracing is paused") && err.contains("`control resume`"), "{err}");
    assert!(!err.contains("switched off"), "{err}");
    let (_, out, _) = on_image(&paused, &["last", "1", "--format", "json"]);
    let code = "trace-paused";
    assert!(out.contains(&format!("\"code\":\"{code}\"")), "{out}");
    let off = paused.set("_tx_trace_registry_start_ptr", 0);
    let (_, _, err) = on_image(&off, &["last", "3"]);
    assert!(err.contains("switched off (tx_trace_disable)") && !err.contains("pause"), "{err}");
}

/// Paused in the middle of an insertion, a kernel goes on from 0. That was reported as an ELF of another build.
#[test]
fn a_kernel_that_went_on_from_0_was_called_another_build() {
    let target = Target::new();
    let header = Target::at("trace_buffer");
    let crashed = target.clone().with(header + 32, 0x40).set("_tx_trace_buffer_current_ptr", 0x40);
    for broken in [crashed.clone(), crashed.clone().set("_tx_trace_buffer_current_ptr", 0)] {
        let error = broken.plan(Action::Resume).unwrap_err();
        assert_eq!(error.code.name(), "header-damaged");
        assert!(error.message.contains("0x40") && error.message.contains("went on from 0"), "{error}");
        assert!(error.hint.contains("reset the target"), "{error}");
    }
    let (_, out, err) = on_image(&crashed, &["control", "show", "--width", "400"]);
    assert!(out.contains("went on from 0") && out.contains("not known"), "{out}{err}");
    // Elsewhere it is another build still.
    let other = target.clone().set("_tx_trace_buffer_current_ptr", 0x2100_0004);
    let error = other.plan(Action::Resume).unwrap_err();
    assert!(!error.message.contains("from 0") && error.hint.contains("check that the ELF"), "{error}");
    // Cut off between the two stores.
    let between = target.clone().set("_tx_trace_buffer_current_ptr", target.word(header + 32) + 32);
    assert!(between.plan(Action::Resume).unwrap_err().hint.contains("crashed"));
    let (_, out, _) = on_image(&between, &["control", "show", "--width", "400"]);
    assert!(out.contains("one is being made, or was cut off"), "{out}");
}

#[test]
fn a_pause_of_a_core_said_to_write_before_it_refused() {
    let (code, out, err) = on_image(&Target::new(), &["control", "pause", "--yes"]);
    assert!(code == Some(2) && out.is_empty() && err.contains("not a live target"), "{out}{err}");
    assert!(!err.contains("to write"), "{err}");
}

/// It was "the target runs while it is written to", or a way to give what was given.
#[test]
fn a_source_that_is_only_read_was_asked_to_halt() {
    for (remote, hint) in [("qmp::9", "QEMU's GDB stub"), ("qmp:./no.sock", "-gdb tcp"), ("openocd::9", "usually 3333")]
    {
        let done = tx_trace(&["control", "pause", "--yes", "--remote", remote]);
        let err = String::from_utf8(done.stderr).unwrap();
        assert!(done.status.code() == Some(2) && err.contains("only reads memory") && err.contains(hint), "{err}");
    }
}

#[test]
fn an_unexpected_word_was_a_file_that_does_not_exist() {
    for verb in ["show", "pause", "resume"] {
        let (code, out, err) = on_image(&Target::new(), &["control", verb, "extra"]);
        assert!(code == Some(2) && out.is_empty(), "{out}{err}");
        assert!(err.contains(&format!("control {verb}: unexpected argument 'extra'")), "{err}");
    }
    let elf = fixture("cm3.elf").display().to_string();
    let done = tx_trace(&["control", "show", &elf, &fixture("cm3.core").display().to_string()]);
    assert_eq!(done.status.code(), Some(0), "files are still taken");
}
