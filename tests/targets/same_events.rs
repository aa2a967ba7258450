//! One target, every source: the same last events from a stub, a core, a dump and a bare trace, how few packets they cost,
//! and how the target is left. Real QEMU, gdb and gdbserver; skipped, loudly, where they are not installed.

#![cfg(feature = "cli")]

use crate::support::machine;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::support::machine::{Qemu, Scratch, fixture, installed, tx_trace, wait_for};
use tx_trace::catalogue::Names;
use tx_trace::format::{DecodeOptions, Extent};
use tx_trace::rsp::{After, Before, Client, Endpoint, Leave, Options};
use tx_trace::session::{Inputs, RemoteInput, SourceSpec, Target};

const PORT_NAMES: [&str; 2] = ["qemu-system-arm", "gdb-multiarch"];

/// Lines of events alone: `now:` needs symbols, which a bare trace has not.
fn events(text: &str) -> String {
    text.lines().filter(|l| !l.starts_with("now:")).map(|l| format!("{l}\n")).collect()
}

fn client(port: u16, leave: Leave) -> Client {
    let endpoint = Endpoint::parse(&format!("127.0.0.1:{port}")).unwrap();
    Client::connect(&endpoint, Options { leave, ..Options::default() }).unwrap()
}

fn gdb_batch(elf: &Path, port: u16, commands: &[String]) -> String {
    let mut gdb = Command::new("gdb-multiarch");
    gdb.args(["-nx", "-batch"]).arg(elf).args([
        "-ex",
        "set pagination off",
        "-ex",
        &format!("target remote 127.0.0.1:{port}"),
    ]);
    for command in commands {
        gdb.args(["-ex", command]);
    }
    let out = gdb.output().unwrap();
    format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr))
}

#[test]
fn every_door_prints_the_same_last_50() {
    require!(PORT_NAMES.iter().all(|p| installed(p)));
    let (elf, scratch) = (fixture("cm3.elf"), Scratch::new("sources"));
    let qemu = Qemu::dead(&elf);
    let [ram, core, trace] = ["ram.bin", "x.core", "x.trx"].map(|name| scratch.path(name));

    let remote = tx_trace(&["last", "50", "--elf", &elf.display().to_string(), "--remote", &qemu.remote()]);
    assert!(remote.status.success(), "{remote:?}");
    let expected = String::from_utf8(remote.stdout).unwrap();
    assert_eq!(events(&expected).lines().count(), 51, "{expected}");
    assert!(expected.contains("APP_LATE"), "{expected}");
    assert!(expected.ends_with("now: in an interrupt; watchdog is the running thread\n"), "{expected}");

    // RAM from QEMU's own monitor: no read of ours, and none of GDB's.
    let mut monitor = client(qemu.port, Leave::Halted);
    monitor.monitor(&format!("pmemsave 0x20000000 0x8000 \"{}\"", ram.display())).unwrap();
    monitor.leave();
    wait_for("the monitor's dump", || std::fs::metadata(&ram).is_ok_and(|m| m.len() == 0x8000));
    // The core and the bare trace from GDB.
    let said = gdb_batch(
        &elf,
        qemu.port,
        &[
            format!("generate-core-file {}", core.display()),
            format!("dump binary memory {} _tx_trace_header_ptr _tx_trace_buffer_end_ptr", trace.display()),
        ],
    );
    assert!(core.exists() && trace.exists(), "{said}");

    let names = scratch.path("names.tsv");
    let [elf, ram, core, trace, names] = [&elf, &ram, &core, &trace, &names].map(|p| p.display().to_string());
    // Without the ELF a file tells what the application calls its events.
    let written = tx_trace(&["events", "--user", "--elf", &elf, "--format", "tsv", "-o", &names]);
    assert!(written.status.success(), "{written:?}");
    for source in [
        vec!["--elf", &elf, "--image", &format!("{ram}@0x20000000")],
        vec!["--elf", &elf, "--core", &core],
        vec![&elf, &core],
    ] {
        let mut words = vec!["last", "50"];
        words.extend(&source);
        let out = tx_trace(&words);
        assert_eq!(String::from_utf8(out.stdout).unwrap(), expected, "{source:?}");
    }
    let named = tx_trace(&["last", "50", "--elf", &elf, "--trace", &trace]);
    assert_eq!(events(&String::from_utf8(named.stdout).unwrap()), events(&expected));
    // Without an ELF interrupts have no names; all else is the same.
    let bare = String::from_utf8(tx_trace(&["last", "50", "--events", &names, "--trace", &trace]).stdout).unwrap();
    assert_eq!(nameless(&events(&bare)), nameless(&events(&expected)));
    for source in [vec![trace.as_str()], vec!["--image", &ram], vec![ram.as_str()]] {
        let mut words = vec!["last", "50", "--events", &names];
        words.extend(&source);
        let out = tx_trace(&words);
        assert_eq!(events(&String::from_utf8(out.stdout).unwrap()), events(&bare), "{source:?}");
    }
    let words = ["last", "50", "--events", &names, "--trace", "-"];
    let piped = machine::tx_trace_with_input(&words, &std::fs::read(&trace).unwrap());
    assert_eq!(events(&String::from_utf8(piped.stdout).unwrap()), events(&bare));
}

/// The rows without what names of interrupts change: who, its mark, and arguments of interrupts.
fn nameless(text: &str) -> Vec<String> {
    let head = text.lines().next().unwrap();
    let (who, event) = (head.find("who").unwrap(), head.find("event").unwrap());
    let row = |line: &str| match line[event..].split_once(' ') {
        Some((name @ ("isr_enter" | "isr_exit"), _)) => format!("{} {name}", &line[..who - 1]),
        _ => format!("{} {}", &line[..who - 1], &line[event..]),
    };
    let unnamed = |line: String| {
        let named = ["UART_Handler", "SysTick"].map(|name| format!("woken by {name}"));
        named.iter().fold(line, |line, name| line.replace(name, "woken by an interrupt"))
    };
    text.lines().skip(1).map(row).map(unnamed).collect()
}

#[test]
fn last_50_costs_few_packets() {
    require!(PORT_NAMES.iter().all(|p| installed(p)));
    let elf = fixture("cm3.elf");
    let qemu = Qemu::dead(&elf);
    let mut session = Target::open(Inputs {
        elf: Some(elf.clone()),
        source: SourceSpec::Remote(RemoteInput {
            endpoint: Endpoint::parse(&qemu.remote()).unwrap(),
            timeout: Duration::from_secs(5),
            leave: Leave::AsFound,
            max_halt: None,
        }),
        ..Inputs::default()
    })
    .unwrap();
    let loaded = session.load(Extent::Newest(50), Names::default(), &DecodeOptions::default()).unwrap();
    assert_eq!(loaded.trace.events().count(), 50);
    let client = session.disconnect().unwrap();
    let (stats, chunk) = (client.stats().clone(), client.max_chunk() as u64);
    client.leave();

    let (header, registry, entries) = (48, 24 * 48, 50 * 32);
    let more = (header + registry as u64).div_ceil(chunk) - 1;
    let needed = 4 + header + registry as u64 + entries;
    println!(
        "last 50: {} reads, {} round trips, {} bytes of memory ({needed} needed), {} bytes on the wire",
        stats.reads(),
        stats.round_trips,
        stats.memory_bytes,
        stats.bytes_in + stats.bytes_out
    );
    assert!(stats.reads() <= 4 + more, "{stats:?}");
    assert!(stats.memory_bytes * 4 <= needed * 5, "{} of {needed}", stats.memory_bytes);

    // What GDB's own way costs, for comparison: the whole buffer.
    let scratch = Scratch::new("packets");
    let file = scratch.path("dump.bin");
    let said = gdb_batch(
        &elf,
        qemu.port,
        &[
            "set debug remote 1".to_owned(),
            format!("dump binary memory {} _tx_trace_header_ptr _tx_trace_buffer_end_ptr", file.display()),
        ],
    );
    let reads = said.lines().filter(|l| l.contains("Sending packet: $m") || l.contains("Sending packet: $x")).count();
    println!("gdb's dump binary memory: {reads} reads, {} bytes of memory", std::fs::metadata(&file).unwrap().len());
    assert!(reads as u64 > stats.reads(), "{said}");
}

#[test]
fn a_guest_that_ran_runs_on_and_one_that_stood_stays() {
    require!(installed("qemu-system-arm"));
    let elf = fixture("cm3.elf");
    let words = |remote: &str| {
        let out = tx_trace(&["last", "5", "--elf", &elf.display().to_string(), "--remote", remote]);
        assert!(out.status.success(), "{out:?}");
        String::from_utf8_lossy(&out.stderr).into_owned()
    };
    let qemu = Qemu::dead(&elf);
    let said = words(&qemu.remote());
    assert!(said.starts_with("tx-trace: the target was halted for ") && said.lines().count() == 1, "{said}");
    let mut c = client(qemu.port, Leave::AsFound);
    assert!(c.found_running(), "it ran before, and it ran on");
    // From now on it stands.
    c = {
        drop(c);
        client(qemu.port, Leave::Halted)
    };
    c.leave();
    words(&qemu.remote());
    assert!(!client(qemu.port, Leave::AsFound).found_running(), "it stood, and it stays");
}

#[test]
fn a_running_native_process_under_gdbserver() {
    require!(installed("gdbserver") && cfg!(all(target_arch = "x86_64", target_os = "linux")));
    let elf = fixture("host.elf");
    let server = machine::gdbserver_at_the_end(&elf);
    let elf = elf.display().to_string();
    let out = tx_trace(&["last", "50", "--elf", &elf, "--remote", &server.remote(), "--width", "200"]);
    let text = String::from_utf8(out.stdout).unwrap();
    assert_eq!(events(&text).lines().count(), 51, "{text} {}", String::from_utf8_lossy(&out.stderr));
    // Position-independent: the load offset came from the stub's auxiliary vector.
    let info = tx_trace(&["info", "--elf", &elf, "--remote", &server.remote()]);
    let info = String::from_utf8(info.stdout).unwrap();
    assert!(info.contains("AT_ENTRY from the stub"), "{info}");
    assert!(info.contains("ELF and memory  match: ") || info.contains("not compared"), "{info}");
    // The same story as in the committed core, but for the stamps and the addresses.
    let core = tx_trace(&[
        "last",
        "50",
        "--elf",
        &elf,
        "--core",
        &fixture("host.core").display().to_string(),
        "--width",
        "200",
    ]);
    let names = |text: &str| -> Vec<String> {
        let at = text.lines().next().and_then(|head| head.find("event")).unwrap();
        text.lines().skip(1).filter_map(|l| l.get(at..)?.split_whitespace().next().map(str::to_owned)).collect()
    };
    assert_eq!(names(&events(&text)), names(&events(&String::from_utf8(core.stdout).unwrap())));
}

/// Once a GDB was there QEMU answers a plain `D` with E22, to everybody, and a guest that ran stayed halted.
#[test]
fn qemu_stayed_halted_where_gdb_had_been_before() {
    require!(PORT_NAMES.iter().all(|p| installed(p)));
    let elf = fixture("cm3.elf");
    let qemu = Qemu::dead(&elf);
    let remote = format!("target remote {}", qemu.remote());
    let mut gdb = Command::new("gdb-multiarch");
    let out = gdb.args(["-nx", "-batch"]).arg(&elf).args(["-ex", &remote, "-ex", "detach"]).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    for _ in 0..2 {
        let out = tx_trace(&["last", "2", "--elf", elf.to_str().unwrap(), "--remote", &qemu.remote()]);
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(said.starts_with("tx-trace: the target was halted for ") && said.lines().count() == 1, "{said}");
        assert_eq!(out.status.code(), Some(0));
    }
    let client = Client::connect(&Endpoint::parse(&qemu.remote()).unwrap(), Options::default()).unwrap();
    let left = client.leave();
    assert_eq!((left.before, left.after), (Before::Running, After::Running), "{:?}", left.message);
}
