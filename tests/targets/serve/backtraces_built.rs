//! Backtraces of the fixture's firmware as other options of the compiler make it, live and in a core, beside GDB's.

use std::path::Path;
use std::process::Command;

use super::backtraces::{Threads, base, ours};
use super::debuggers::session;
use super::image::Image;
use super::tools::{binary, installed, run};
use crate::support::machine::{Qemu, Scratch};

/// What GDB prints of each frame. Frames of tail calls are left out: GDB adds them by what a caller can only have called, and
/// they are not on the stack.
const FRAMES: &str = "
import gdb, os
for thread in sorted(gdb.selected_inferior().threads(), key=lambda t: t.num):
    thread.switch()
    print('@ ' + thread.name)
    try:
        frame = gdb.newest_frame()
        while frame is not None:
            sal = frame.find_sal()
            if frame.type() not in (gdb.SIGTRAMP_FRAME, gdb.TAILCALL_FRAME) and sal.symtab:
                print('# %s %s %d' % (frame.name(), os.path.basename(sal.symtab.filename), sal.line))
            frame = frame.older()
    except gdb.error:
        pass  # GDB's own end: a register of the next frame is not known
";

fn of_gdb(script: &str, elf: &str, core: &str) -> Threads {
    let image = Image::serve(&[elf, core]);
    let remote = format!("target remote :{}", image.port);
    let text = session(&[&format!("file {elf}"), &remote, &format!("source {script}"), "detach"]);
    let mut threads = Threads::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("@ ") {
            threads.push((name.to_owned(), Vec::new()));
        } else if let (Some(frame), Some((_, frames))) = (line.strip_prefix("# "), threads.last_mut()) {
            let words: Vec<&str> = frame.split(' ').collect();
            frames.push((words[0].to_owned(), base(words[1]), words[2].parse().unwrap()));
        }
    }
    threads.sort();
    threads
}

fn build(options: &[&str], elf: &str) {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/firmware");
    let mut compiler = Command::new("arm-none-eabi-gcc");
    compiler.current_dir(sources).args(options).args(["-std=gnu11", "-g", "-w", "-mcpu=cortex-m3", "-mthumb"]);
    compiler.args(["-fno-strict-aliasing", "-ffreestanding", "-nostdlib", "-ffunction-sections", "-fdata-sections"]);
    compiler.args([
        "-Wl,--gc-sections",
        "-Wl,-u,mk_pick",
        "-T",
        "mps2.ld",
        "-DFW_VARIANT=FW_CRASH",
        "-DFW_MAY_BE_REPLACED=",
    ]);
    compiler.args(["kernel.c", "trace.c", "app.c", "port_cm3.c", "-lgcc", "-o", elf]);
    let done = run(&mut compiler);
    assert_eq!(done.status, Some(0), "{options:?}: {}", done.err);
}

#[test]
fn backtraces_of_optimized_programs_are_those_of_gdb() {
    if !installed(&["arm-none-eabi-gcc", "gdb-multiarch", "qemu-system-arm"]) {
        return;
    }
    let scratch = Scratch::new("built");
    let path = |name| scratch.path(name).display().to_string();
    let script = path("frames.py");
    std::fs::write(&script, FRAMES).unwrap();
    for options in [&["-O0"][..], &["-O2"], &["-Os"], &["-O2", "-flto"]] {
        let (elf, core) = (path("built.elf"), path("built.core"));
        build(options, &elf);
        let qemu = Qemu::dead(Path::new(&elf));
        let remote = qemu.remote();
        let live = ours(&["--remote", &remote, &elf]);
        let dump = run(Command::new(binary()).args(["dump", "-o", &core, "--remote", &remote, &elf]));
        assert_eq!(dump.status, Some(0), "{options:?}: {}", dump.err);
        let (threads, ends) = ours(&[&elf, &core]);
        assert_eq!(live, (threads.clone(), ends), "{options:?}");
        let want = of_gdb(&script, &elf, &core);
        assert_eq!(threads, want, "{options:?}");
        assert!(threads.iter().map(|(_, frames)| frames.len()).sum::<usize>() > 20, "{options:?}: {threads:?}");
    }
}
