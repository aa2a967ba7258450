//! Machines that QEMU runs, each with a bridge in front of its stub, and what GDB prints of their threads.

use std::path::Path;
use std::process::Command;

use super::debuggers::{Running, bridge_with, plain, wait_for_port};
use super::floats;
use super::tools::*;

/// A machine that stands at its reset, with a bridge in front of it.
pub struct Live {
    pub bridge: Running,
    pub stub: u16,
    pub elf: String,
    _qemu: Server,
    _scratch: Scratch,
}

impl Live {
    pub fn tools() -> bool {
        installed(&["gdb-multiarch", "qemu-system-arm"])
    }

    pub fn cortex_m3() -> Self {
        Self::cortex_m3_with(&[])
    }

    /// With these options of the bridge.
    pub fn cortex_m3_with(options: &[&str]) -> Self {
        Self::start("qemu-system-arm", &["-M", "mps2-an385"], fixture("cm3.elf"), Scratch::new(), options)
    }

    /// The same program on a Cortex-M4F, whose threads use the floating-point unit. `None` where it cannot be built.
    pub fn cortex_m4f() -> Option<Self> {
        if !installed(&["arm-none-eabi-gcc"]) {
            return None;
        }
        let (scratch, mut options) = (Scratch::new(), floats::OPTIONS.to_vec());
        options.extend(["-mthumb", "-T", "mps2.ld", "port_cm3.c"]);
        let elf = firmware("arm-none-eabi-gcc", &options, &scratch);
        Some(Self::start("qemu-system-arm", &["-M", "mps2-an386"], elf, scratch, &[]))
    }

    /// The same program on a 32-bit RISC-V, where kernel calls and interrupts save frames of their own.
    pub fn riscv() -> Option<Self> {
        if !installed(&["riscv64-unknown-elf-gcc", "qemu-system-riscv32"]) {
            return None;
        }
        let scratch = Scratch::new();
        let options = ["-march=rv32imac_zicsr", "-mabi=ilp32", "-mcmodel=medany", "-T", "virt.ld", "port_riscv.c"];
        let elf = firmware("riscv64-unknown-elf-gcc", &options, &scratch);
        Some(Self::start("qemu-system-riscv32", &["-M", "virt", "-bios", "none"], elf, scratch, &[]))
    }

    fn start(qemu: &str, machine: &[&str], elf: String, scratch: Scratch, options: &[&str]) -> Self {
        let stub = free_port();
        let mut command = Command::new(qemu);
        command.args(machine).args(["-display", "none", "-monitor", "none", "-serial", "none", "-S", "-gdb"]);
        let qemu = Server::start(command.arg(format!("tcp:127.0.0.1:{stub}")).arg("-kernel").arg(&elf));
        wait_for_port(stub);
        Self { bridge: bridge_with(stub, &elf, options), stub, elf, _qemu: qemu, _scratch: scratch }
    }

    /// What GDB prints that runs these commands through the bridge.
    pub fn gdb(&self, commands: &[&str]) -> String {
        let done = plain("gdb-multiarch", &[&self.elf], self.bridge.port, commands);
        format!("{}\n{}", done.out, done.err)
    }

    /// An evidence core of the stop, which a debugger has left halted.
    pub fn evidence(&self, core: &str) {
        let from = format!(":{}", self.stub);
        let saved = shell(&["dump", "-o", core, "--elf", &self.elf, "--remote", &from, "--leave", "halted"]);
        assert_eq!(saved.status, Some(0), "{}", saved.err);
    }

    /// What GDB prints that runs these commands over `serve` on a core.
    pub fn served(&self, core: &str, commands: &[&str]) -> String {
        let served = format!("target remote | {} serve --stdio {} {core}", binary(), self.elf);
        let mut command = gdb("gdb-multiarch");
        command.args(["-batch", "-ex", "set confirm off", "-ex", "set width 0"]);
        // On a busy machine the program begins later than after the two seconds that GDB waits for an answer.
        command.args(["-ex", "set remotetimeout 60", "-ex", &served]);
        for line in commands {
            command.args(["-ex", line]);
        }
        run(command.arg(&self.elf)).out
    }
}

/// The fixture's program, built with these options too.
fn firmware(compiler: &str, options: &[&str], scratch: &Scratch) -> String {
    let elf = scratch.path("live.elf");
    let mut command = Command::new(compiler);
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/firmware")).args(options);
    command.args(["-std=gnu11", "-Og", "-g", "-w", "-ffreestanding", "-nostdlib", "-ffunction-sections"]);
    command.args(["-fdata-sections", "-Wl,--gc-sections", "-fno-strict-aliasing", "-fno-omit-frame-pointer"]);
    command.args(["-DFW_VARIANT=FW_CRASH", "-DFW_MAY_BE_REPLACED=", "kernel.c", "trace.c", "app.c", "-lgcc", "-o"]);
    assert!(command.arg(&elf).status().unwrap().success());
    elf
}

/// The lines of `info threads` as GDB prints them of any connection: without its own numbers and the process's, sorted.
pub fn threads(text: &str) -> Vec<String> {
    let lines = text.lines().filter_map(|line| line.split_once(" Thread "));
    let is_number = |head: &str| head.trim_start_matches('*').trim().parse::<u32>().is_ok();
    let mut lines: Vec<String> = lines
        .filter(|(head, _)| is_number(head))
        .map(|(_, rest)| rest.strip_prefix("1.").unwrap_or(rest).split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    lines.sort();
    lines
}

/// The output of `thread apply all COMMANDS`, by thread, without GDB's own numbers, sorted.
pub fn by_thread(text: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let mut of_a_thread = false;
    for line in text.lines() {
        if let Some((_, rest)) = line.strip_prefix("Thread ").and_then(|line| line.split_once("(Thread ")) {
            all.push(rest.strip_prefix("1.").unwrap_or(rest).to_owned());
            of_a_thread = true;
        } else if of_a_thread && let Some(last) = all.last_mut() {
            last.push('\n');
            last.push_str(line);
        }
    }
    all.iter_mut().for_each(|text| text.truncate(text.trim_end().len()));
    all.sort();
    all
}

/// What GDB prints between `echo <NAME\n` and `echo NAME>\n`.
pub fn part<'t>(text: &'t str, name: &str) -> &'t str {
    let rest = text.split_once(&format!("<{name}\n")).unwrap_or_else(|| panic!("no {name}: {text}")).1;
    rest.split_once(&format!("{name}>\n")).unwrap_or_else(|| panic!("no end of {name}: {text}")).0
}
