//! Fault registers of live targets: read where that changes nothing, kept in an evidence core, never invented.
#![cfg(all(unix, feature = "cli"))]

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tx_trace::rsp::{Endpoint, Leave};
use tx_trace::session::{Inputs, RemoteInput, SourceSpec, Target};

use crate::support::cortex_m::{CortexM, Setup, State};
use crate::support::machine::{
    Qemu, Running, Scratch, fixture, free_port, installed, quiet, symbol, tx_trace, wait_for,
};
use crate::support::servers::{Config, OpenOcd};

/// The lines of a command that succeeds.
fn lines(words: &[&str]) -> Vec<String> {
    let out = tx_trace(words);
    let text = String::from_utf8(out.stdout).unwrap();
    assert_eq!(out.status.code(), Some(0), "{words:?}\n{text}{}", String::from_utf8_lossy(&out.stderr));
    text.lines().map(str::to_owned).collect()
}

/// The rows of `threads`; and of `info`, but for what is said of the source and what only a live target leaves open.
fn threads_and_info(source: &[&str]) -> (Vec<Value>, Vec<(String, String)>) {
    let row = |line: &String| {
        let value: Value = serde_json::from_str(line).unwrap();
        (value["type"] == "row").then_some(value)
    };
    let threads = lines(&[&["threads", "--format", "json"], source].concat());
    let info = lines(&[&["info", "--format", "json"], source].concat());
    let pair = |value: Value| (value["what"].as_str().unwrap().to_owned(), value["value"].as_str().unwrap().to_owned());
    let of_state =
        |(what, _): &(String, String)| matches!(what.as_str(), "fault" | "fill" | "kernel" | "header" | "clock");
    let info = info.iter().filter_map(row).map(pair).filter(of_state).collect();
    (threads.iter().filter_map(row).collect(), info)
}

/// The rows of faults.
fn faults(rows: &[Value]) -> Vec<&Value> {
    rows.iter().filter(|row| row["report"] == "fault").collect()
}

#[test]
fn an_evidence_core_of_a_crash_says_what_the_live_target_did() {
    require!(installed("qemu-system-arm"));
    let scratch = Scratch::new("faults");
    let elf = fixture("cm3.elf").display().to_string();
    // A Cortex-M3 and a Cortex-M4.
    for machine in ["mps2-an385", "mps2-an386"] {
        let qemu = Qemu::dead_on(machine, &fixture("cm3.elf"));
        let remote = qemu.remote();
        let core = scratch.path(&format!("{machine}.core")).display().to_string();
        let live = threads_and_info(&["--elf", &elf, "--remote", &remote]);
        lines(&["dump", "-o", &core, "--elf", &elf, "--remote", &remote]);
        drop(qemu);
        assert_eq!(threads_and_info(&["--elf", &elf, &core]), live, "{machine}");
        // Where it crashed, and from where each thread called the kernel, takes the program's unwind information.
        let without = |(mut rows, info): (Vec<Value>, _)| {
            rows.retain(|row| row["report"] != "crash");
            for row in rows.iter_mut().filter_map(Value::as_object_mut) {
                row.retain(|name, _| !name.starts_with("called_from"));
            }
            (rows, info)
        };
        assert_eq!(without(threads_and_info(&[&core])), without(live.clone()), "{machine}, the core alone");
        let [fault] = faults(&live.0)[..] else { panic!("{:?}", live.0) };
        assert_eq!((&fault["name"], &fault["current"]), (&"HardFault".into(), &true.into()), "{fault}");
        assert_eq!((&fault["address"], &fault["address_valid"]), (&"0xe0200000".into(), &true.into()), "{fault}");
        let names: Vec<&Value> = fault["bits"].as_array().unwrap().iter().map(|bit| &bit["name"]).collect();
        assert_eq!(names, ["FORCED", "PRECISERR", "BFARVALID"], "{fault}");
        assert!(live.1.iter().any(|(what, value)| what == "fault" && value.contains("PRECISERR")), "{:?}", live.1);
        interrupts_are_in(&core);
    }
}

/// A word that GDB reads from a core.
fn word_in(core: &str, at: u64) -> Option<u64> {
    let show = format!("x/wx {at:#x}");
    let out = Command::new("gdb-multiarch").args(["-nx", "-batch", "-ex", &show, "--core", core]).output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{at:#x}:")))?;
    u64::from_str_radix(line.trim().strip_prefix("0x")?, 16).ok()
}

/// GDB reads the interrupt controller from the core: which interrupts are enabled, and the priority of PendSV and SysTick.
fn interrupts_are_in(core: &str) {
    require!(installed("gdb-multiarch"));
    assert_eq!(word_in(core, 0xE000_E100), Some(0x20));
    assert_eq!(word_in(core, 0xE000_ED20), Some(0x40FF_0000));
    assert!(word_in(core, 0xE000_E018).is_some());
    assert_eq!(word_in(core, 0xE000_E010), None, "reading it clears COUNTFLAG");
}

/// Vectors in RAM that no section has were not saved, and a wrong one was not seen later.
#[test]
fn vectors_that_were_moved_into_ram_were_not_in_the_core() {
    require!(installed("qemu-system-arm") && installed("gdb-multiarch"));
    let ways = std::fs::read_to_string("tests/firmware/stalls.tsv").unwrap();
    let mut ways = ways.lines().filter(|line| !line.starts_with('#'));
    let number = ways.position(|line| line.starts_with("vector\t")).unwrap();
    let way = format!("loader,addr=0x20010000,data={number},data-len=4");
    let (scratch, elf) = (Scratch::new("vectors"), fixture("stall.elf"));
    let qemu = Qemu::dead_with("mps2-an385", &elf, &["-device", &way]);
    let core = scratch.path("vectors.core").display().to_string();
    lines(&["dump", "-o", &core, "--elf", &elf.display().to_string(), "--remote", &qemu.remote()]);
    // The firmware has them at 0x20011000, and wrote over that of SysTick; interrupts 0 to 31 are implemented.
    assert_eq!(word_in(&core, 0x2001_103C), Some(symbol(&elf, "calibration") | 1));
    assert!(word_in(&core, 0x2001_10BC).is_some_and(|vector| vector & 1 == 1), "of interrupt 31");
    assert_eq!(word_in(&core, 0x2001_10C0), None);
}

/// A program that fails at once and stays in its handler.
struct Failing {
    machine: &'static [&'static str],
    compiler: &'static [&'static str],
    source: &'static str,
    /// What is said of it.
    said: &'static [&'static str],
}

const RISCV: Failing = Failing {
    machine: &["qemu-system-riscv32", "-M", "virt", "-bios", "none"],
    compiler: &["--target=riscv32-unknown-elf", "-march=rv32i", "-Wl,-Ttext=0x80000000"],
    source: ".globl _start\n_start: la t0, handler\ncsrw mtvec, t0\nli t1, 0x20\nsw t0, 0(t1)\n.align 2\nhandler: j handler\n",
    said: &["is not known", "cause 7", "address 0x20 (mtval)"],
};

const ARM: Failing = Failing {
    machine: &["qemu-system-arm", "-M", "virt", "-cpu", "cortex-a15"],
    compiler: &["--target=armv7a-none-eabi", "-Wl,-N", "-Wl,-Ttext=0x40010000"],
    source: ".arm\n.globl _start\n_start: ldr r0, =vectors\nmcr p15, 0, r0, c12, c0, 0\nldr r1, =0x3f000000\nstr r0, [r1]\n\
             .align 5\nvectors: b .\nb .\nb .\nb .\nb .\nnop\nb .\nb .\n",
    said: &["abort: its handler runs", "status 0x08", "address 0x3f000000 (dfar)"],
};

const AARCH64: Failing = Failing {
    machine: &["qemu-system-aarch64", "-M", "virt", "-cpu", "cortex-a53"],
    compiler: &["--target=aarch64-none-elf", "-Wl,-N", "-Wl,-Ttext=0x40080000"],
    source: ".globl _start\n_start: adr x0, vectors\nmsr vbar_el1, x0\nisb\nmovz x1, #0x3f00, lsl #16\nstr x0, [x1]\n\
             .balign 2048\nvectors: .rept 16\nb .\n.balign 128\n.endr\n",
    said: &["is not known", "EC 0x25", "address 0x3f000000 (far)"],
};

/// An Armv8-M with the security extension, whose handler of bus faults is enabled.
const CORTEX_M33: Failing = Failing {
    machine: &["qemu-system-arm", "-M", "mps2-an505"],
    compiler: &["--target=thumbv8m.main-none-eabi", "-mcpu=cortex-m33", "-Wl,-N", "-Wl,-Ttext=0x10000000"],
    source: ".syntax unified\n.cpu cortex-m33\n.thumb\n.word 0x38001000\n.word _start + 1\n.rept 14\n.word handler + 1\n.endr\n\
             .globl _start\n_start: ldr r0, =0xE000ED24\nldr r1, =0x70000\nstr r1, [r0]\nldr r0, =0xF0000000\n\
             ldr r2, [r0]\nhandler: b handler\n",
    said: &["BusFault: its handler runs; PRECISERR, BFARVALID; address 0xf0000000 (bfar)"],
};

fn build(of: &Failing, scratch: &Scratch) -> PathBuf {
    let (source, elf) = (scratch.path("failing.S"), scratch.path("failing.elf"));
    std::fs::write(&source, of.source).unwrap();
    let mut clang = Command::new("clang");
    clang.args(["-nostdlib", "-ffreestanding", "-fuse-ld=lld", "-static"]).args(of.compiler);
    let out = clang.arg(&source).arg("-o").arg(&elf).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    elf
}

/// What `info` and `threads` say of a live target's fault registers, which its stub describes.
fn said(elf: &Path, port: u16) -> Vec<String> {
    let endpoint = Endpoint::parse(&format!("127.0.0.1:{port}")).unwrap();
    let remote = RemoteInput { leave: Leave::Running, ..RemoteInput::new(endpoint) };
    let inputs = Inputs { elf: Some(elf.into()), source: SourceSpec::Remote(remote), ..Inputs::default() };
    // Until QEMU listens there is none.
    let Ok(mut target) = Target::open(inputs) else { return Vec::new() };
    let said = target.faults().unwrap();
    target.disconnect().unwrap().leave();
    said
}

#[test]
fn faults_of_other_processors_are_read_from_their_stubs() {
    for failing in [RISCV, ARM, AARCH64, CORTEX_M33] {
        if !["clang", "ld.lld", failing.machine[0]].into_iter().all(installed) {
            continue;
        }
        let scratch = Scratch::new("failing");
        let (elf, port) = (build(&failing, &scratch), free_port());
        let mut command = Command::new(failing.machine[0]);
        // A network card would need a ROM that not every installation of QEMU has.
        command.args(&failing.machine[1..]).args(["-nic", "none"]);
        command.args(["-display", "none", "-monitor", "none", "-serial", "none", "-gdb"]);
        let _child: Running = quiet(command.arg(format!("tcp:127.0.0.1:{port}")).arg("-kernel").arg(&elf));
        let mut last = Vec::new();
        wait_for("the program's fault", || {
            last = said(&elf, port);
            !last.is_empty()
        });
        for words in failing.said {
            assert!(last[0].contains(words), "{words}: {last:?}");
        }
        assert_eq!(last.len(), 1, "{last:?}");
    }
}

/// The simulated Cortex-M3 behind the real OpenOCD, which answers a read that failed with zeros.
#[test]
fn openocd_gives_the_fault_registers_and_no_zeros_for_them() {
    require!(installed("openocd"));
    let chip = CortexM::start(Setup { state: State::Halted, ..Setup::default() });
    let openocd = OpenOcd::start(&chip, Config::default());
    let (elf, remote) = (chip.elf().display().to_string(), openocd.gdb());
    let rows = || {
        let words = ["threads", "--format", "json", "--elf", &elf, "--remote", &remote, "--timeout", "20"];
        let all = lines(&words).into_iter().map(|line| serde_json::from_str::<Value>(&line).unwrap());
        all.filter(|row| row["report"] == "fault").collect::<Vec<_>>()
    };
    // Nothing is recorded there: the handler that it is in is all that is known.
    let before = rows();
    assert_eq!(before[0]["bits"], Value::Array(Vec::new()), "{before:?}");
    chip.poke(0xE000_ED28, 0x0000_0082);
    chip.poke(0xE000_ED2C, 0x4000_0000);
    chip.poke(0xE000_ED34, 0x2000_7000);
    let [fault] = &rows()[..] else { panic!("no fault") };
    assert_eq!((&fault["address"], &fault["address_register"]), (&"0x20007000".into(), &"mmfar".into()), "{fault}");
    // What cannot be read is not known, and no fault.
    chip.fault(0xE000_ED00..0xE000_EE00);
    assert_eq!(rows(), Vec::<Value>::new());
    assert_eq!(chip.stats().writes, vec![], "nothing was written");
}

/// The numbers that the firmware itself keeps of its fault are those of the registers.
#[test]
fn typed_registers_of_a_crash_log_are_the_live_ones() {
    let elf = fixture("cm3.elf");
    let at = (symbol(&elf, "fw_fault") - 0x2000_0000) as usize;
    let ram = std::fs::read(fixture("cm3.ram.bin")).unwrap();
    let words = ram[at..][..128].chunks(4).map(|w| u32::from_le_bytes(w.try_into().unwrap())).collect::<Vec<_>>();
    assert!(words.contains(&0x8200) && words.contains(&0x4000_0000) && words.contains(&0xE020_0000), "{words:x?}");
    let typed = ["--reg", "cfsr=0x8200", "--reg", "hfsr=0x40000000", "--reg", "bfar=0xe0200000"];
    let files = [elf.display().to_string(), format!("{}@0x20000000", fixture("cm3.ram.bin").display())];
    let source: Vec<&str> = typed.into_iter().chain(files.iter().map(String::as_str)).collect();
    // Of a dump of RAM nothing shows what the CPU does; that the log was of a HardFault is typed as well.
    let (rows, info) = threads_and_info(&source);
    assert_eq!(faults(&rows)[0]["current"], Value::Null, "{rows:?}");
    assert!(info.iter().any(|(what, value)| what == "fault" && value.contains("is not known")), "{info:?}");
    let (rows, _) = threads_and_info(&[&["--reg", "icsr=0x803"], source.as_slice()].concat());
    assert_eq!(faults(&rows)[0]["current"], true, "{rows:?}");
}
