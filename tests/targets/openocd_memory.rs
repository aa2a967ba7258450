//! Memory over the real OpenOCD, at both of its ports: reads leave nothing in its log, a read that failed is an error and
//! not zeros, and what an OpenOCD that cannot be used does is reported in words that help.
#![cfg(all(unix, feature = "cli"))]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use crate::support::cortex_m::{CortexM, RING, Setup, State};
use crate::support::machine::{installed, tx_trace, wait_for};
use crate::support::servers::{Config, OpenOcd};
use tx_trace::elf::Elf;
use tx_trace::rsp::client::ReadFailure;
use tx_trace::rsp::{Client, Endpoint, Options};
use tx_trace::sym::{ElfSymbols, Symbols as _};

/// Events that the ring of most tests holds.
const EVENTS: u32 = 256;

fn start(setup: Setup) -> Option<(CortexM, OpenOcd)> {
    if !installed("openocd") {
        return None;
    }
    let chip = CortexM::start(setup);
    let openocd = OpenOcd::start(&chip, Config::default());
    Some((chip, openocd))
}

/// A ring that is full.
fn traced() -> Option<(CortexM, OpenOcd)> {
    let (chip, openocd) = start(Setup { ring: Some(EVENTS), ..Setup::default() })?;
    chip.burst(300);
    wait_for("a full ring", || chip.stats().events == 300);
    Some((chip, openocd))
}

/// Exit code, standard output, standard error.
fn run(chip: &CortexM, remote: &str, words: &[&str]) -> (i32, String, String) {
    let elf = chip.elf().display().to_string();
    let output = tx_trace(&[words, &["--elf", &elf, "--remote", remote, "--timeout", "20"]].concat());
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn symbol(chip: &CortexM, name: &str) -> u32 {
    let elf = Elf::open(std::fs::read(chip.elf()).unwrap()).unwrap();
    let symbols = ElfSymbols::new(std::sync::Arc::new(elf), 0);
    u32::try_from(symbols.lookup(name).unwrap().address).unwrap()
}

/// The bytes of the simulated ring with its header and eight registry entries.
fn whole_trace() -> std::ops::Range<u32> {
    RING..RING + 48 + 8 * 48 + EVENTS * 32
}

fn client(openocd: &OpenOcd) -> Client {
    Client::connect(&Endpoint::parse(&openocd.gdb()).unwrap(), Options::default()).unwrap()
}

/// OpenOCD cuts the checksum off an answer of exactly 1020 characters: reads of 510 bytes failed, and of 192 zeros, which
/// are checked by their 48 words as text.
#[test]
fn openocd_damaged_answers_of_1020_characters() {
    let Some((chip, openocd)) = start(Setup { state: State::Halted, ..Setup::default() }) else { return };
    let mut client = client(&openocd);
    // A stack that nothing has written to.
    let at = 0x2001_0000;
    for len in [192, 509, 510, 511, 2000] {
        let mut bytes = vec![1; len];
        client.read_memory(at, &mut bytes).unwrap();
        assert_eq!(bytes, vec![0; len], "{len}");
    }
    (0..0x300).step_by(4).for_each(|i| chip.poke(at as u32 + i, 0x1111_1111));
    for len in [509, 510, 511, 512] {
        // Twice: what is the same as the answer before is asked for again, in other words.
        for _ in 0..2 {
            let mut bytes = vec![0; len];
            client.read_memory(at, &mut bytes).unwrap();
            assert_eq!(bytes, vec![0x11; len], "{len}");
        }
    }
    assert_eq!(client.stats().damaged, 0);
    client.leave();
}

/// OpenOCD prints the result of each Tcl command: `follow` filled its log, and the console of a GDB beside it.
#[test]
fn openocd_printed_every_read_into_its_log() {
    let Some((chip, openocd)) = traced() else { return };
    chip.set_rate(500);
    let before = openocd.log().len();
    for words in [&["list"][..], &["threads"], &["follow", "--for", "1s"]] {
        let (code, out, err) = run(&chip, &openocd.openocd(), words);
        assert_eq!(code, 0, "{words:?}: {err}");
        assert!(!out.is_empty());
    }
    // The log is written by another process.
    wait_for("the last client's end in the log", || openocd.log().matches("dropped 'tcl'").count() == 3);
    let log = openocd.log()[before..].to_owned();
    let other =
        log.lines().filter(|l| !l.is_empty() && !l.starts_with("Info : accepting") && !l.contains("dropped 'tcl'"));
    assert_eq!(other.collect::<Vec<_>>(), [""; 0], "{log}");
    assert_eq!((chip.state(), chip.stats().halts), (State::Running, 0));
}

/// What each way to lose a target looks like, and a word of OpenOCD's about it.
type Loss = (&'static str, fn(&CortexM), &'static str);

const LOSSES: &[Loss] = &[
    ("no power", CortexM::power_off, "Failed to read memory at"),
    ("unplugged", CortexM::unplug, "Invalid ACK"),
    ("no power at the trace", |chip| chip.fault(whole_trace()), "Failed to read memory at 0x20010000"),
];

/// OpenOCD's GDB port answers a failed read with zeros: that was "the trace was not enabled", or "made whole".
#[test]
fn memory_that_could_not_be_read_was_taken_for_zeros() {
    let Some((chip, openocd)) = traced() else { return };
    for (name, lose, words) in LOSSES {
        for remote in [openocd.gdb(), openocd.openocd()] {
            for command in [&["last", "5"][..], &["list"], &["info"], &["control", "show"], &["stats"]] {
                lose(&chip);
                let (code, out, err) = run(&chip, &remote, command);
                chip.heal();
                let all = format!("{name}, {remote}, {command:?}:\n{out}{err}");
                assert_eq!(code, 2, "{all}");
                assert!(err.contains(words), "{all}");
                assert!(!err.contains("not enabled") && !err.contains("made whole"), "{all}");
            }
        }
        wait_for("OpenOCD to find its target again", || {
            openocd.tcl("[target current] arp_poll; [target current] curstate").trim() != "unknown"
        });
    }
}

/// The kernel is there, and its trace is not: its threads are shown.
#[test]
fn threads_need_no_trace_that_can_be_read() {
    let Some((chip, openocd)) = traced() else { return };
    chip.fault(whole_trace());
    for remote in [openocd.gdb(), openocd.openocd()] {
        let (code, out, err) = run(&chip, &remote, &["threads"]);
        assert_eq!(code, 0, "{err}");
        assert!(out.contains("watchdog"), "{out}");
    }
    chip.heal();
    chip.power_off();
    for remote in [openocd.gdb(), openocd.openocd()] {
        let (code, out, err) = run(&chip, &remote, &["threads"]);
        assert_eq!(code, 2, "{out}{err}");
        assert!(!err.contains("no threads") && err.contains("OpenOCD cannot reach its target"), "{err}");
    }
}

#[test]
fn zeros_that_are_there_are_still_a_trace_that_was_never_enabled() {
    let Some((chip, openocd)) = traced() else { return };
    chip.poke(symbol(&chip, "_tx_trace_header_ptr"), 0);
    for remote in [openocd.gdb(), openocd.openocd()] {
        let (code, _, err) = run(&chip, &remote, &["last"]);
        assert_eq!(code, 1, "{err}");
        assert!(err.contains("was not enabled"), "{err}");
    }
}

/// A hole in a large answer made all of it zeros: the events around it were lost with it.
#[test]
fn events_beside_a_hole_are_read() {
    let Some((chip, openocd)) = traced() else { return };
    let hole = RING + 0x400;
    chip.fault(hole..hole + 64);
    for remote in [openocd.gdb(), openocd.openocd()] {
        let (code, out, err) = run(&chip, &remote, &["list", "--format", "json"]);
        assert_eq!(code, 0, "{err}");
        let events = out.lines().filter(|l| l.contains("\"type\":\"event\"")).count();
        // 64 bytes touch three slots at the most, and the one that is written next may be left out.
        assert!((252..=254).contains(&events), "{events} events; {err}");
        let issue = out.lines().find(|l| l.contains("ring-unreadable")).unwrap_or_else(|| panic!("{out}"));
        let issue: serde_json::Value = serde_json::from_str(issue).unwrap();
        let at = issue["where"]["address"].as_str().unwrap();
        let at = u32::from_str_radix(at.trim_start_matches("0x"), 16).unwrap();
        assert!((hole - 31..=hole).contains(&at), "{issue}");
    }
}

/// A ring that was never filled is zeros: they are not read twice, nor asked about one by one.
#[test]
fn zeros_cost_one_question() {
    let Some((_chip, openocd)) = start(Setup { ring: Some(EVENTS), ..Setup::default() }) else { return };
    let mut client = client(&openocd);
    let mut ram = vec![1; 128 << 10];
    client.read_memory(0x2010_0000, &mut ram).unwrap();
    assert_eq!(ram, vec![0; 128 << 10]);
    let asked = client.stats().count("qRcmd");
    assert!(asked <= 5, "the version, and a few checks: {asked} in all");
    client.read_memory(0x2010_0000, &mut [1; 48]).unwrap();
    assert_eq!(client.stats().count("qRcmd"), asked + 1);
    client.read_memory(u64::from(RING), &mut [0; 48]).unwrap();
    assert_eq!(client.stats().count("qRcmd"), asked + 1, "a header is not zeros");
    client.leave();
}

#[test]
fn a_read_that_fails_names_its_address_and_leaves_the_others_alone() {
    let Some((chip, openocd)) = traced() else { return };
    chip.fault(0x2010_2000..0x2010_2004);
    let mut client = client(&openocd);
    let got = client.read_batch(&[(0x2010_0000, 64), (0x2010_1f00, 0x200), (u64::from(RING), 4), (0x2010_3001, 3)]);
    assert_eq!(got[0], Ok(vec![0; 64]));
    let Err(ReadFailure::Unreadable { addr: 0x2010_1f00, why }) = &got[1] else { panic!("{:?}", got[1]) };
    assert!(why.contains("Failed to read memory"), "{why}");
    assert_eq!((&got[2], &got[3]), (&Ok(b"BTXT".to_vec()), &Ok(vec![0; 3])));
    client.leave();
}

/// It was "is the ELF of another build?".
#[test]
fn a_target_that_openocd_has_not_examined() {
    require!(installed("openocd"));
    let chip = CortexM::start(Setup { ring: Some(EVENTS), ..Setup::default() });
    chip.power_off();
    let openocd = OpenOcd::start(&chip, Config::default());
    let (code, _, err) = run(&chip, &openocd.gdb(), &["last"]);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("could not examine its target"), "{err}");
    assert!(err.contains("reset_config"), "{err}");
    let (code, _, err) = run(&chip, &openocd.openocd(), &["last"]);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("Target not examined yet") && err.contains("reset_config"), "{err}");
}

#[test]
fn a_second_client_reads_how_to_read_beside_the_first() {
    let Some((chip, openocd)) = traced() else { return };
    let mut debugger = TcpStream::connect(("127.0.0.1", openocd.gdb_port)).unwrap();
    debugger.write_all(b"+$qSupported#37").unwrap();
    assert_eq!(debugger.read(&mut [0; 1]).unwrap(), 1);
    let (code, _, err) = run(&chip, &openocd.gdb(), &["last"]);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("openocd:HOST:6666") && err.contains("tx-trace bridge"), "{err}");
    let (code, out, err) = run(&chip, &openocd.openocd(), &["last"]);
    assert_eq!((code, out.lines().count() > 20), (0, true), "{err}");
}

/// Where OpenOCD's `gdb-attach` event does not halt, connecting leaves the target running: nothing said so.
#[test]
fn a_target_that_runs_while_it_is_read_is_said_to() {
    let Some((chip, openocd)) = traced() else { return };
    chip.set_rate(200);
    openocd.tcl("[target current] configure -event gdb-attach {}");
    for remote in [openocd.gdb(), openocd.openocd()] {
        for words in [&["last"][..], &["threads"], &["stats"], &["objects"]] {
            let (code, out, err) = run(&chip, &remote, &[words, &["--format", "json"]].concat());
            assert_eq!(code, 0, "{words:?}: {err}");
            assert_eq!(out.matches("read-while-running").count(), 1, "{words:?}: {out}");
        }
        let (code, out, err) = run(&chip, &remote, &["follow", "--for", "1s", "--format", "json"]);
        assert_eq!((code, out.contains("\"event\"")), (0, true), "{out}{err}");
    }
    let (code, _, err) = run(&chip, &openocd.gdb(), &["control", "pause", "--yes"]);
    assert_eq!((code, err.contains("halt it first")), (2, true), "{err}");
    assert_eq!((chip.state(), chip.stats().halts), (State::Running, 0));
    openocd.tcl("[target current] configure -event gdb-attach {halt 1000}");
    let (code, out, err) = run(&chip, &openocd.gdb(), &["last", "--format", "json"]);
    assert_eq!((code, out.contains("read-while-running")), (0, false), "{out}{err}");
}
