//! The loggers of UIA from the command line, through a stub and inside GDB: what people see. The fixtures are made by
//! the builder in `support/uia.rs`; `UPDATE_GOLDEN=1 cargo test --test formats uia_cli` writes them and the goldens anew.

#![cfg(feature = "cli")]
#![allow(clippy::precedence)]

use crate::support::machine;

use std::process::{Command, Stdio};

use crate::support::golden::{check, run, updating};
use crate::support::machine::{Running, Scratch, fixture, free_port, installed};
use crate::support::uia::{Ev, Lap, Ram, Texts, elf, snapshot};

const RAM: u32 = 0x2000_0000;
const FLASH: u32 = 0x8000;

/// A program whose pump stops: its RAM, and its ELF with the texts.
fn program() -> (Vec<u8>, Vec<u8>) {
    let mut t = Texts::new();
    let task = t.module("ti.sysbios.knl.", "Task");
    let sem = t.module("ti.sysbios.knl.", "Semaphore");
    let hwi = t.module("ti.sysbios.family.arm.m3.", "Hwi");
    let main = t.module("xdc.runtime.", "Main");
    let switch = t.text("LM_switch: oldtsk: 0x%x, oldfunc: 0x%x, newtsk: 0x%x, newfunc: 0x%x");
    let block = t.text("LD_block: tsk: 0x%x, func: 0x%x");
    let ready = t.text("LD_ready: tsk: 0x%x, func: 0x%x, pri: %d");
    let begin = t.text("LM_begin: hwi: 0x%x, func: 0x%x, preThread: %d, intNum: %d, irp: 0x%x");
    let end = t.text("LD_end: hwi: 0x%x");
    let post = t.text("LM_post: sem: 0x%x, count: %d");
    let pend = t.text("LM_pend: sem: 0x%x, count: %d, timeout: %d");
    let warning = t.text("WARNING: %$F%$S");
    let motor = t.text("motor %d at %d mm");
    let memory = t.text("at:%$F snapshotID: %d, adrs: 0x%x, numMAUsDataInEvent: %h, numMAUsDataInRecord: %h, %$S");
    t.chars.resize(t.chars.len().next_multiple_of(4), 0);
    let nodes_at = FLASH + t.chars.len() as u32;
    let strings_at = nodes_at + 4 * t.nodes.len() as u32;
    let mut strings = Vec::new();
    let mut string = |text: &str| {
        let at = strings_at + strings.len() as u32;
        strings.extend(text.as_bytes());
        strings.push(0);
        at
    };
    let (file, stuck, pump) = (string("pump.c"), string("%s is stuck, try %d"), string("the pump"));
    let retry = string("retry %d of %s");

    let (control, monitor, line) = (RAM + 0x800, RAM + 0x840, RAM + 0x880);
    let (full, irq) = (RAM + 0x8C0, RAM + 0x8E0);
    let mut now = 0x1_0000_0000u64;
    let mut tick = |by: u64| {
        now += by;
        now
    };
    let mut one = Lap::new(false, false, RAM + 0x100, 1024);
    for i in 0..14u32 {
        one.log(&Ev::new(10, switch, task, tick(900), &[monitor, 0x8801, control, 0x8901]));
        one.log(&Ev::new(10, motor, main, tick(120), &[2, 40u32.wrapping_sub(i * 5)]));
        one.log(&Ev::new(10, pend, sem, tick(60), &[full, 0, 0xFFFF_FFFF, 0]));
        one.log(&Ev::new(10, block, task, tick(14), &[control, 0x8901]));
        one.log(&Ev::new(10, switch, task, tick(30), &[control, 0x8901, line, 0x8A01]));
        one.log(&Ev::new(10, begin, hwi, tick(4000), &[irq, 0x8B01, 0, 21, 0x8902, 0, 0, 0]));
        one.log(&Ev::new(10, post, sem, tick(40), &[full, 0]));
        one.log(&Ev::new(10, ready, task, tick(22), &[control, 0x8901, 5, 0]));
        one.log(&Ev::new(10, end, hwi, tick(31), &[irq]));
        one.log(&Ev::new(10, switch, task, tick(25), &[line, 0x8A01, monitor, 0x8801]));
    }
    one.sequence += 3;
    one.dropped = 3;
    one.log(&Ev::new(10, 0, main, tick(500), &[retry, 3, pump, 0]));
    one.log(&Ev::new(10, warning, main, tick(90), &[file, 117, stuck, pump, 3, 0, 0, 0]));
    let data: Vec<u8> = (0..72u8).collect();
    for mut e in snapshot(&Ev::new(12, memory, main, tick(10), &[]), 9, line, &data, 40) {
        (e.words[0], e.words[5]) = (file, pump);
        one.log(&e);
    }
    let mut two = Lap::new(false, false, RAM + 0x600, 256);
    (0..5).for_each(|i| two.log(&Ev::new(10, motor, main, 0x1_0000_0000 + u64::from(i), &[1, i])));
    two.enabled = 0;
    let (objects, list) = (RAM + 0x10, RAM + 0x90);
    let ram = Ram::new(RAM)
        .put(objects, &[one.object(1, list), two.object(2, list + 48)].concat())
        .put(list - 4, &list.to_le_bytes())
        .put(list, &[one.descriptor(list + 48, 1, objects + 36), two.descriptor(0, 2, objects + 52 + 36)].concat())
        .put(one.base, &one.mem)
        .put(two.base, &two.mem)
        .put(RAM + 0x8FC, &[0; 4]);
    let rodata = [t.chars.clone(), t.node_bytes(false), strings].concat();
    let symbols = [
        ("ti_uia_loggers_LoggerStopMode_Object__table__V", objects, 104),
        ("ti_uia_runtime_QueueDescriptor_gPtrToFirstDescriptor", list - 4, 4),
        ("xdc_runtime_Text_charTab__A", FLASH, t.chars.len() as u32),
        ("xdc_runtime_Text_nodeTab__A", nodes_at, 4 * t.nodes.len() as u32),
        ("controlTask", control, 64),
        ("monitorTask", monitor, 64),
        ("lineTask", line, 64),
        ("tankFull", full, 32),
        ("levelHwi", irq, 28),
    ];
    (ram.bytes, elf(FLASH, &rodata, &symbols))
}

/// A small logger without time, and without a program: only its module's state is known.
fn minimal() -> Vec<u8> {
    let mut lap = Lap::new(true, false, RAM + 0x20, 256);
    for i in 0..30u32 {
        let words: Vec<u32> = (0..[0, 1, 2, 4, 8][i as usize % 5]).map(|k| i + k).collect();
        lap.log(&Ev::new(9, 0x100 + 3 * i as u16, 0x8001 + (i % 3) as u16, u64::from(i) * 0x1111, &words));
    }
    Ram::new(RAM).put(RAM, &lap.state()).put(lap.base, &lap.mem).bytes
}

#[test]
fn the_fixtures_are_what_the_builder_makes() {
    let (ram, program) = program();
    let files = [("uia-stop.ram.bin", ram), ("uia-stop.elf", program), ("uia-min.ram.bin", minimal())];
    for (name, bytes) in files {
        let path = fixture(name);
        if updating() {
            std::fs::write(&path, &bytes).unwrap();
        }
        assert!(std::fs::read(&path).unwrap() == bytes, "{name} is another one: UPDATE_GOLDEN=1 writes it");
    }
}

#[test]
fn every_command_on_the_fixtures() {
    if updating() {
        the_fixtures_are_what_the_builder_makes();
    }
    let sources = [
        ("uia-stop", "--elf uia-stop.elf --image uia-stop.ram.bin@0x20000000"),
        ("uia-stop-second", "--elf uia-stop.elf --image uia-stop.ram.bin@0x20000000 --header 0x20000044"),
        ("uia-stop-unplaced", "uia-stop.ram.bin"),
        ("uia-min", "--symbol ti_uia_loggers_LoggerMin_Module__state__V=0x20000000 --image uia-min.ram.bin@0x20000000"),
    ];
    for (name, source) in sources {
        let lines = [
            format!("last 12 {source}"),
            format!("last 6 --width 120 {source}"),
            format!("last 3 --format json {source}"),
            format!("list --to 4 --format csv {source}"),
            format!("show 0 -1 {source}"),
            format!("info --width 160 {source}"),
            format!("objects {source}"),
        ];
        check(name, &lines);
    }
    let s = "--elf uia-stop.elf --image uia-stop.ram.bin@0x20000000";
    let filters = [
        "last 3 --event Task.LM_switch",
        "last 3 --event Hwi.*",
        "last 3 --context isr",
        "last 3 --thread controlTask",
        "last 3 --object tankFull",
        "last 3 --class *.Semaphore",
        "last 2 --arg intNum=21",
        "last 100t",
    ];
    check("uia-filters", &filters.map(|f| format!("{f} {s}")));
    check("uia-events", &["events --format-in uia --width 200"]);
}

/// A halted target that holds the fixture's RAM and program.
fn target() -> Option<(Running, u16)> {
    if !installed("qemu-system-arm") {
        return None;
    }
    let port = free_port();
    let loader = |name: &str, at: u32| format!("loader,file={},addr={at:#x},force-raw=on", fixture(name).display());
    let child = Command::new("qemu-system-arm")
        .args(["-M", "mps2-an385", "-display", "none", "-monitor", "none", "-serial", "none", "-S", "-gdb"])
        .arg(format!("tcp:127.0.0.1:{port}"))
        .args(["-device", &loader("uia-stop.ram.bin", RAM)])
        // The program's segment is 0x80 bytes into its file.
        .args(["-device", &loader("uia-stop.elf", FLASH - 0x80)])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let child = Running(child);
    machine::wait_for("the stub", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    Some((child, port))
}

fn events(text: &str) -> String {
    text.lines().filter(|l| !l.starts_with(['$', '['])).map(|l| format!("{l}\n")).collect::<String>().trim().to_owned()
}

#[test]
fn the_same_events_from_a_file_a_stub_and_in_gdb() {
    let Some((_qemu, port)) = target() else { return };
    let want = events(&run("last 12 --elf uia-stop.elf --image uia-stop.ram.bin@0x20000000"));
    assert!(want.contains("Log.print"), "{want}");
    let live = events(&run(&format!("last 12 --elf uia-stop.elf --remote 127.0.0.1:{port}")));
    assert_eq!(live, want);
    require!(installed("gdb-multiarch"));
    let scratch = Scratch::new("uia-gdb");
    let script = Command::new(env!("CARGO_BIN_EXE_tx-trace")).arg("gdb").output().unwrap().stdout;
    std::fs::write(scratch.path("tx_trace.py"), script).unwrap();
    let out = Command::new("gdb-multiarch")
        .args(["-nx", "-batch", "-ex", "set pagination off", "-ex", "set width 0"])
        .args(["-ex", &format!("source {}", scratch.path("tx_trace.py").display())])
        .args(["-ex", &format!("set tx-trace binary {}", env!("CARGO_BIN_EXE_tx-trace"))])
        .args(["-ex", &format!("target remote 127.0.0.1:{port}"), "-ex", "tx-trace last 12"])
        .args(["-ex", "tx-trace show -1", "-ex", "tx-trace info", "-ex", "tx-trace objects"])
        .arg(fixture("uia-stop.elf"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(text.contains(&want), "{text}\n{}\n{want}", String::from_utf8_lossy(&out.stderr));
    assert!(text.contains("LoggerStopMode object at 0x20000010"), "{text}");
}
