//! `setup`: the code that it prints is compiled, by the compilers of each processor, and run on the host.

#![cfg(all(feature = "cli", unix))]

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::golden::check;
use crate::support::machine::{Scratch, fixture, installed, tx_trace};

/// The part of ThreadX's interface that the code uses; a port has the types.
const API: &str = r#"
#ifndef TX_API_H
#define TX_API_H
#ifdef TX_INCLUDE_USER_DEFINE_FILE
#include "tx_user.h"
#endif
typedef void VOID;
typedef unsigned int UINT;
typedef PORT_ULONG ULONG;
#define TX_SUCCESS 0
UINT tx_trace_enable (VOID *buffer, ULONG bytes, ULONG objects);
UINT tx_trace_event_filter (ULONG mask);
UINT tx_trace_user_event_insert (ULONG id, ULONG i1, ULONG i2, ULONG i3, ULONG i4);
VOID tx_trace_isr_enter_insert (ULONG id);
VOID tx_trace_isr_exit_insert (ULONG id);
#endif
"#;

/// The kernel takes the time of an event so.
const KERNEL: &str = r#"
#include "tx_api.h"
extern ULONG _tx_trace_simulated_time;
ULONG _tx_trace_simulated_time;
ULONG stamp (void);
ULONG stamp (void)
{
#ifdef TX_TRACE_TIME_SOURCE
    return TX_TRACE_TIME_SOURCE & TX_TRACE_TIME_MASK;
#else
    return ++_tx_trace_simulated_time;
#endif
}
"#;

/// A file of the application.
const HANDLER: &str = r#"
#include "trace.h"
void handler (void);
void handler (void)
{
    TRACE_ISR_ENTER (7);
    TRACE_EVENT (APP_SAMPLE, 1, 2, 3, 4);
    TRACE_ISR_EXIT (7);
}
"#;

/// What every ThreadX program has, and the functions by which its components are found.
const PROGRAM: &str = "char _tx_version_id[] = \"Copyright */ #error * ThreadX Test/GNU Version 6.4.2 *\";\n\
    void *_tx_thread_current_ptr;\nvoid _fx_media_open (void) {}\nvoid _nx_ip_create (void) {}\nvoid _ux_system_initialize (void) {}\n";

/// A compiler with its options, and its `ULONG`.
struct Machine {
    name: &'static str,
    compiler: &'static [&'static str],
    ulong: &'static str,
    /// What the code must contain.
    time: &'static str,
}

const MACHINES: [Machine; 8] = [
    Machine {
        name: "Cortex-M0",
        compiler: &["arm-none-eabi-gcc", "-mthumb", "-mcpu=cortex-m0"],
        ulong: "unsigned long",
        time: "++_tx_trace_simulated_time",
    },
    Machine {
        name: "Cortex-M7",
        compiler: &["arm-none-eabi-gcc", "-mthumb", "-mcpu=cortex-m7"],
        ulong: "unsigned long",
        time: "0xE0001004UL",
    },
    Machine {
        name: "Cortex-M33",
        compiler: &["arm-none-eabi-gcc", "-mthumb", "-mcpu=cortex-m33"],
        ulong: "unsigned long",
        time: "0xE0001004UL",
    },
    Machine {
        name: "Cortex-R5",
        compiler: &["arm-none-eabi-gcc", "-marm", "-mcpu=cortex-r5"],
        ulong: "unsigned long",
        time: "c9, c13, 0",
    },
    Machine {
        name: "Cortex-A9, clang",
        compiler: &["clang", "--target=arm-none-eabi", "-mcpu=cortex-a9", "-fuse-ld=lld"],
        ulong: "unsigned long",
        time: "c9, c13, 0",
    },
    Machine {
        name: "AArch64",
        compiler: &["clang", "--target=aarch64-none-elf", "-fuse-ld=lld"],
        ulong: "unsigned int",
        time: "cntvct_el0",
    },
    Machine {
        name: "RISC-V 32",
        compiler: &["riscv64-unknown-elf-gcc", "-march=rv32imac_zicsr", "-mabi=ilp32"],
        ulong: "unsigned long",
        time: "mcycle",
    },
    Machine {
        name: "RISC-V 64",
        compiler: &["riscv64-unknown-elf-gcc", "-march=rv64imac_zicsr", "-mabi=lp64", "-mcmodel=medany"],
        ulong: "unsigned long",
        time: "mcycle",
    },
];

/// Runs a compiler; its messages where it fails.
fn compile(compiler: &[&str], dir: &Path, words: &[&str]) {
    let out = Command::new(compiler[0]).args(&compiler[1..]).args(words).current_dir(dir).output().unwrap();
    assert!(out.status.success(), "{compiler:?} {words:?}: {}", String::from_utf8_lossy(&out.stderr));
}

/// The code for an ELF.
fn code(words: &[&str]) -> String {
    let out = tx_trace(&[&["setup"], words].concat());
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

/// The parts of the code, each written into the file that it names.
fn split(text: &str, dir: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for part in text.split("\n/* ==== ").skip(1) {
        let (name, rest) = part.split_once(' ').unwrap();
        std::fs::write(dir.join(name), format!("/* {rest}")).unwrap();
        names.push(name.to_owned());
    }
    names
}

const STRICT: [&str; 6] =
    ["-std=gnu99", "-Wno-unused-command-line-argument", "-Wall", "-Wextra", "-Werror", "-Wmissing-prototypes"];

/// Compiles the code as the files that it names, and as one.
fn compiles(text: &str, machine: &Machine, scratch: &Scratch) {
    let dir = scratch.path("code");
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("tx_api.h"), API).unwrap();
    std::fs::write(dir.join("kernel.c"), KERNEL).unwrap();
    std::fs::write(dir.join("handler.c"), HANDLER).unwrap();
    std::fs::write(dir.join("one.c"), text).unwrap();
    // Only #define: an assembler reads it.
    std::fs::write(dir.join("low.S"), "#include \"tx_user.h\"\n.globl low\nlow:\n").unwrap();
    let ulong = format!("-DPORT_ULONG={}", machine.ulong);
    let common = [&STRICT[..], &["-O2", "-ffreestanding", "-c", &ulong]].concat();
    compile(machine.compiler, &dir, &[&common[..], &["one.c", "-o", "one.o"]].concat());
    assert_eq!(split(text, &dir), ["tx_user.h", "trace.h", "trace.c"], "{}", machine.name);
    let user = [&common[..], &["-I.", "-DTX_INCLUDE_USER_DEFINE_FILE"]].concat();
    for file in ["trace.c", "kernel.c", "handler.c"] {
        compile(machine.compiler, &dir, &[&user[..], &[file, "-o", "out.o"]].concat());
    }
    compile(machine.compiler, &dir, &["-c", "-I.", "low.S", "-o", "low.o"]);
    // Without the trace the macros vanish, and the file still compiles.
    compile(machine.compiler, &dir, &[&common[..], &["-I.", "handler.c", "-o", "out.o"]].concat());
}

#[test]
fn the_code_compiles_for_each_processor() {
    let scratch = Scratch::new("setup");
    let mut tried = 0;
    let linker = |machine: &Machine| machine.compiler[0] != "clang" || installed("ld.lld");
    for machine in MACHINES.iter().filter(|machine| installed(machine.compiler[0]) && linker(machine)) {
        let dir = scratch.path("");
        std::fs::write(dir.join("program.c"), PROGRAM).unwrap();
        compile(machine.compiler, &dir, &["-nostdlib", "-Wl,-e,0", "program.c", "-o", "app.elf"]);
        let elf = dir.join("app.elf").display().to_string();
        for more in [&[][..], &["--over-reset"], &["--keep", "20ms", "--rate", "5000", "--objects", "1"]] {
            let text = code(&[&[&*elf], more].concat());
            assert!(text.contains(machine.time), "{}: {text}", machine.name);
            assert!(text.contains("ThreadX Test/GNU Version 6.4.2, FileX, NetX and USBX"), "{text}");
            assert!(text.contains("NX_TRACE_PACKET_EVENTS"), "{text}");
            compiles(&text, machine, &scratch);
        }
        let text = code(&[&elf, "--time-source", "(*((volatile ULONG *) 0x40000024UL))", "--time-mask", "0xffff"]);
        assert!(text.contains("#define TX_TRACE_TIME_MASK   0x0000FFFFUL") && !text.contains("start_time"), "{text}");
        compiles(&text, machine, &scratch);
        tried += 1;
    }
    assert!(tried > 0 || !installed("cc"), "no compiler was tried");
}

/// The kernel refuses a buffer that is too small, and the one of the head must be the one of the code.
#[test]
fn the_code_enables_a_buffer_of_the_size_that_it_names() {
    const MAIN: &str = r#"
        #include <stdio.h>
        #include <string.h>
        #include "trace.h"
        extern ULONG trace_before_reset[];
        extern ULONG tx_trace_buffer[];
        UINT tx_trace_enable (VOID *b, ULONG n, ULONG o) { memset (b, 0, n); printf ("enable %d %lu %lu\n", b == (void *) tx_trace_buffer, (unsigned long) n, (unsigned long) o); return 0; }
        UINT tx_trace_event_filter (ULONG m) { printf ("filter %lu\n", (unsigned long) m); return 0; }
        UINT tx_trace_user_event_insert (ULONG id, ULONG a, ULONG b, ULONG c, ULONG d) { printf ("event %lu %lu\n", (unsigned long) id, (unsigned long) (a + b + c + d)); return 0; }
        VOID tx_trace_isr_enter_insert (ULONG id) { (void) id; }
        VOID tx_trace_isr_exit_insert (ULONG id) { (void) id; }
        int main (void)
        {
            UINT status = trace_start ();
            printf ("%u, before %lx\n", status, (unsigned long) trace_before_reset[0]);
            tx_trace_buffer[0] = 0x54585442;
            tx_trace_buffer[100] = 77;
            status = trace_start ();
            printf ("%u, before %lx %lu\n", status, (unsigned long) trace_before_reset[0], (unsigned long) trace_before_reset[100]);
            return 0;
        }
    "#;
    require!(installed("cc"));
    let elf = fixture("host.elf").display().to_string();
    let text = code(&[&elf, "--all", "--over-reset", "--keep", "2s", "--rate", "500", "--objects", "20"]);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains("33008 bytes with a ULONG of four: 1000 events, 2s at 500 events a second, and 20"),
        "{text}"
    );
    let scratch = Scratch::new("setup-host");
    let dir: PathBuf = scratch.path("");
    split(&text, &dir);
    std::fs::write(dir.join("tx_api.h"), API).unwrap();
    std::fs::write(dir.join("main.c"), MAIN).unwrap();
    for (ulong, bytes) in [("unsigned int", 48 + 20 * 48 + 1000 * 32), ("unsigned long", 96 + 20 * 64 + 1000 * 64)] {
        let ulong = format!("-DPORT_ULONG={ulong}");
        compile(
            &["cc"],
            &dir,
            &["-g", "-I.", "-DTX_INCLUDE_USER_DEFINE_FILE", &ulong, "main.c", "trace.c", "-o", "run"],
        );
        let out = Command::new(dir.join("run")).output().unwrap();
        let once = format!("enable 1 {bytes} 20\nevent 4096 0\n0, before ");
        assert_eq!(String::from_utf8(out.stdout).unwrap(), format!("{once}0\n{once}54585442 77\n"));
    }
    // The enum names the application's events.
    let run = dir.join("run").display().to_string();
    let out = tx_trace(&["events", "--user", "--elf", &run]);
    let events = String::from_utf8(out.stdout).unwrap();
    for name in ["APP_START", "APP_SAMPLE", "APP_LATE"] {
        assert!(events.contains(name), "{events}");
    }
}

#[test]
fn what_setup_prints_for_each_state_of_a_program() {
    check(
        "setup",
        &[
            "setup cm3-notrace.elf",
            "setup --elf cm3-notrace.elf --time-source TIMER->CNT --time-mask 0xffff --keep 100ms --rate 20000",
            "setup cm3-never.elf --over-reset --objects 12",
            "setup cm3.elf",
            "setup cm3.elf --all",
            "setup host.elf",
            "setup uia-stop.elf",
            "setup",
            "setup cm3.elf --elf cm3.elf",
            "setup cm3.elf --keep 500s --rate 1000000",
            "setup cm3.elf --time-mask 5",
            "setup README.md",
        ],
    );
}

#[test]
fn the_errors_without_a_trace_name_setup() {
    for words in [
        ["last", "cm3-notrace.elf", "cm3-notrace.ram.bin@0x20000000"],
        ["last", "cm3-never.elf", "cm3-never.ram.bin@0x20000000"],
    ] {
        let words =
            words.map(|word| if word == "last" { word.to_owned() } else { fixture(word).display().to_string() });
        let out = tx_trace(&words.each_ref().map(String::as_str));
        let said = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(1), "{said}");
        assert!(said.lines().last().unwrap().contains("`tx-trace setup "), "{said}");
    }
}

#[test]
fn what_makes_no_trace_is_refused() {
    let source = ["--time-source", "TIMER"];
    for words in [
        &["--rate", "0"][..],
        &["--objects", "0"],
        &["--time-source", "*/ x"],
        &["--time-source", "x\ny"],
        &[&source[..], &["--time-mask", "0"]].concat(),
        &[&source[..], &["--time-mask", "0x1ff0"]].concat(),
    ] {
        let out = tx_trace(&[&["setup", "app.elf"], words].concat());
        let text = String::from_utf8_lossy(&out.stderr);
        let option = words.iter().rev().find(|word| word.starts_with("--")).unwrap();
        assert!(out.status.code() == Some(2) && text.contains(option) && out.stdout.is_empty(), "{words:?}: {text}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error_of_the_version() {
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let out = Command::new(env!("CARGO_BIN_EXE_tx-trace")).arg("--version").stdout(full).output().unwrap();
    assert_eq!(out.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&out.stderr).contains("no space left"));
}

/// Step 4 named a file with blanks as it is, and a core "has no symbol of ThreadX".
#[test]
fn a_name_with_blanks_was_not_quoted_and_a_core_was_a_program() {
    let scratch = Scratch::new("setup-blanks");
    let elf = scratch.path("a b.elf");
    std::fs::copy(fixture("cm3.elf"), &elf).unwrap();
    let path = elf.to_str().unwrap();
    for words in [&["setup", path][..], &["setup", "--all", path]] {
        let text = String::from_utf8(tx_trace(words).stdout).unwrap();
        assert!(text.contains("--elf \"a b.elf\" --remote"), "{text}");
    }
    let core = tx_trace(&["setup", fixture("cm3.core").to_str().unwrap()]);
    let said = String::from_utf8(core.stderr).unwrap();
    assert!(core.status.code() == Some(2) && said.contains("is an ELF core, which holds no program"), "{said}");
}
