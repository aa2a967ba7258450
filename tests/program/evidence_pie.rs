//! The evidence core of a position-independent program: a debugger has to move the program to where it was loaded, or it
//! shows `??` for everything.

#![cfg(all(feature = "cli", target_os = "linux", target_arch = "x86_64"))]

use std::process::{Command, Stdio};

use crate::support::machine::{Scratch, fixture, gdbserver_at_the_end, installed, symbol, tx_trace};

fn path(name: &str) -> String {
    fixture(name).display().to_string()
}

/// What GDB says of the fixture's program and a core: where a variable is and what it holds, where a function is.
fn look(core: &str) -> String {
    let mut command = Command::new("gdb");
    command.args(["-nx", "-nh", "-q", "-batch", "-iex", "set debuginfod enabled off", "-iex", "set width 0"]);
    command.args([
        "-ex",
        "print &watchdog",
        "-ex",
        "print watchdog.tx_thread_name",
        "-ex",
        "print port_fault",
        "-ex",
        "p/x $pc",
    ]);
    let out = command.args([&path("host.elf"), core]).stdin(Stdio::null()).output().unwrap();
    format!("{}\n{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr))
}

/// The core that `dump` writes of this.
fn dump(scratch: &Scratch, name: &str, words: &[&str]) -> String {
    let to = scratch.path(name).display().to_string();
    let out = tx_trace(&[&["dump", "-o", &to], words].concat());
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    to
}

/// It has variables and functions where they were.
#[track_caller]
fn is_found(said: &str, load: u64) {
    let watchdog = symbol(&fixture("host.elf"), "watchdog") + load;
    assert!(said.contains(&format!("{watchdog:#x} <watchdog>")) && said.contains("\"watchdog\""), "{said}");
    let function = symbol(&fixture("host.elf"), "port_fault") + load;
    assert!(said.contains(&format!("{function:#x} <port_fault>")) && said.contains("$4 = 0x"), "{said}");
    assert!(!said.contains("Unexpected size of section"), "{said}");
}

/// Where the fixture's core has the program: what GDB itself says of that core.
const LOADED: u64 = 0x5555_5555_4000;

#[test]
fn gdb_showed_question_marks_for_a_program_that_was_moved() {
    require!(installed("gdb"));
    let scratch = Scratch::new("evidence-pie");
    let (elf, source) = (path("host.elf"), path("host.core"));
    is_found(&look(&source), LOADED);
    let core = dump(&scratch, "x.core", &[&elf, &source]);
    is_found(&look(&core), LOADED);
    // A core of it, with the program and without it.
    is_found(&look(&dump(&scratch, "again.core", &[&elf, &core])), LOADED);
    is_found(&look(&dump(&scratch, "bare.core", &[&core])), LOADED);
    // The source does not know where the program was: what was said is what the core says.
    let mut image = std::fs::read(&source).unwrap();
    let note = note_of_auxv();
    let at = image.windows(16).position(|w| w == note).unwrap();
    image[at + 12..at + 16].copy_from_slice(b"GORE");
    let lost = scratch.path("lost.core").display().to_string();
    std::fs::write(&lost, image).unwrap();
    let core = dump(&scratch, "said.core", &["--load-offset", &format!("{LOADED:#x}"), &elf, &lost]);
    is_found(&look(&core), LOADED);
}

/// The head of such a note: sizes of its name and of 21 pairs of words, its type, its name.
fn note_of_auxv() -> Vec<u8> {
    let elf = tx_trace::elf::Elf::open(std::fs::read(fixture("host.core")).unwrap()).unwrap();
    let len = elf.notes().filter_map(Result::ok).find(|n| n.name == b"CORE" && n.kind == 6).unwrap().desc.len() as u32;
    [5, len, 6].iter().flat_map(|n| n.to_le_bytes()).chain(*b"CORE").collect()
}

#[test]
fn the_core_of_a_live_process_tells_where_it_was_loaded() {
    require!(installed("gdb") && installed("gdbserver"));
    let scratch = Scratch::new("evidence-pie-live");
    let elf = fixture("host.elf");
    let server = gdbserver_at_the_end(&elf);
    let core = dump(&scratch, "x.core", &["--elf", &elf.display().to_string(), "--remote", &server.remote()]);
    let info = tx_trace(&["info", "--format", "json", &elf.display().to_string(), &core]);
    let info = String::from_utf8_lossy(&info.stdout).into_owned();
    let said = look(&core);
    // Where that is the system chose.
    let place = said.split("(TX_THREAD *) 0x").nth(1).and_then(|rest| rest.split(' ').next());
    let place = u64::from_str_radix(place.unwrap_or_else(|| panic!("{said}{info}")), 16).unwrap();
    let load = place - symbol(&elf, "watchdog");
    assert!(load > 0x1_0000_0000 && load.is_multiple_of(4096), "{said}");
    is_found(&said, load);
}
