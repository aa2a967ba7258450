//! A real Cortex-M4F (QEMU) whose threads use the floating-point unit: each frame has room for its registers, and the processor
//! stores them late, if at all.
#![cfg(all(unix, feature = "cli"))]

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tx_trace::mem::Memory as _;
use tx_trace::mem::remote::Remote;
use tx_trace::rsp::Leave;

use super::support::children::quiet;
use super::support::machine::{Running, Scratch, connect, free_port, installed, symbol, tx_trace, wait_for};

/// The options that put `fpu.c` beside other sources of the firmware.
pub const OPTIONS: [&str; 6] = [
    "-mcpu=cortex-m4",
    "-mfloat-abi=hard",
    "-mfpu=fpv4-sp-d16",
    "-Wl,--wrap=mk_kernel_enter",
    "-Wl,--wrap=fw_work",
    "fpu.c",
];

/// Those of `tests/firmware/build.sh` for planted crashes.
fn build(elf: &Path) {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/firmware");
    let mut compiler = Command::new("arm-none-eabi-gcc");
    compiler.current_dir(sources).args(OPTIONS).args(["-std=gnu11", "-Og", "-g", "-w", "-mthumb", "-T", "mps2.ld"]);
    compiler.args(["-ffreestanding", "-nostdlib", "-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections"]);
    compiler.args(["-fno-strict-aliasing", "-fno-omit-frame-pointer", "-DFW_VARIANT=FW_CRASH"]);
    compiler.args(["-DFW_MAY_BE_REPLACED=__attribute__((weak))", "kernel.c", "trace.c", "crashes.c", "port_cm3.c"]);
    assert!(compiler.args(["-lgcc", "-o"]).arg(elf).status().unwrap().success());
}

/// QEMU with the firmware, which has failed.
struct Failed {
    remote: String,
    /// The words of `crash_truth`.
    truth: Vec<u64>,
    /// FPCCR and FPCAR.
    lazy: [u64; 2],
    _qemu: Running,
}

impl Failed {
    fn start(elf: &Path, failure: u32) -> Self {
        let port = free_port();
        let mut qemu = Command::new("qemu-system-arm");
        qemu.args(["-M", "mps2-an386", "-display", "none", "-monitor", "none", "-serial", "none", "-device"]);
        qemu.arg(format!("loader,addr=0x20010000,data={failure},data-len=4"));
        qemu.args(["-gdb", &format!("tcp:127.0.0.1:{port}"), "-kernel"]).arg(elf);
        let qemu = quiet(&mut qemu);
        let truth = symbol(elf, "crash_truth");
        let words = |at: u64, count: usize| {
            let mut memory = Remote::new(connect(port, Leave::Running));
            let bytes = memory.read_bytes(at, 4 * count).unwrap();
            memory.into_client().leave();
            bytes.chunks(4).map(|w| u64::from(u32::from_le_bytes(w.try_into().unwrap()))).collect::<Vec<_>>()
        };
        wait_for("the handler", || words(truth, 10)[8] != 0);
        let lazy = words(0xE000_EF34, 2);
        Self { remote: format!("127.0.0.1:{port}"), truth: words(truth, 10), lazy: [lazy[0], lazy[1]], _qemu: qemu }
    }
}

fn rows(words: &[&str]) -> Vec<Value> {
    let out = tx_trace(&[&["threads", "--bt", "--format", "json"], words].concat());
    assert!(out.status.success(), "{out:?}");
    String::from_utf8(out.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn hex(value: &Value) -> u64 {
    u64::from_str_radix(value.as_str().unwrap().strip_prefix("0x").unwrap(), 16).unwrap()
}

/// The only place of a crash, with the truth beside it.
fn place(rows: &[Value], failed: &Failed) -> Value {
    let places: Vec<&Value> =
        rows.iter().filter(|row| row["report"] == "crash" || row["report"] == "interrupted").collect();
    let [place] = places.as_slice() else { panic!("{places:?}") };
    let truth = &failed.truth;
    assert_eq!([hex(&place["pc"]["address"]), hex(&place["sp"]), hex(&place["frame"])], [truth[0], truth[1], truth[8]]);
    (*place).clone()
}

#[test]
fn a_crash_whose_floats_were_not_stored() {
    require!(installed("qemu-system-arm") && installed("arm-none-eabi-gcc"));
    let scratch = Scratch::new("floats");
    let elf = scratch.path("crash.elf");
    build(&elf);
    let words = elf.to_str().unwrap();
    // Wild store, nested, in an interrupt, behind one.
    for failure in [1, 2, 3, 5] {
        let failed = Failed::start(&elf, failure);
        let exc_return = failed.truth[9];
        // In an interrupt the handler has used no floats: its frame has no room for them.
        let has_floats = exc_return & 0x10 == 0;
        assert_eq!(has_floats, failure != 3, "{exc_return:#x}");
        let [fpccr, fpcar] = failed.lazy;
        assert_eq!(fpccr & 1, 1, "LSPACT");
        let live = rows(&[words, "--remote", &failed.remote, "--leave", "halted"]);
        let psp = format!("psp={:#x}", failed.truth[8]);
        let with_psp = rows(&[words, "--remote", &failed.remote, "--leave", "halted", "--reg", &psp]);
        // QEMU gives no PSP: a candidate, which is the truth. Where PSP is known, the frame is certain, and its floats are not.
        let doubt = |rows: &[Value]| place(rows, &failed)["doubt"].clone();
        if has_floats {
            assert_eq!(fpcar, failed.truth[8] + 32);
            assert_eq!(doubt(&live).as_str().map(|text| text.starts_with("PSP is not known")), Some(true));
            assert_eq!(doubt(&with_psp), "LSPACT: s0 to s15 in the exception frame are stale");
        } else {
            // They are those of the thread that the interrupt came upon.
            assert_eq!(doubt(&live), Value::Null);
        }
        // The evidence core gives the same as the target.
        let core = scratch.path("crash.core");
        let dump = ["dump", "-o", core.to_str().unwrap(), words, "--remote", &failed.remote, "--leave", "halted"];
        assert!(tx_trace(&dump).status.success());
        let later = rows(&[words, core.to_str().unwrap()]);
        let of = |rows: &[Value]| {
            let known = |row: &&Value| {
                ["threads", "crash", "interrupted", "backtraces"].contains(&row["report"].as_str().unwrap_or_default())
            };
            rows.iter().filter(known).cloned().collect::<Vec<_>>()
        };
        assert_eq!(of(&later), of(&live), "{failure}");
    }
}
