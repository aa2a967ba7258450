//! Backtraces of the fixture's firmware as other options of the compiler make it, live and in a core, beside GDB's.

use std::path::Path;
use std::process::Command;

use super::backtraces::{Threads, base, ours};
use super::debuggers::session;
use super::image::Image;
use super::tools::{binary, installed, run};
use crate::floats;
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

/// The compiler, the board, and options.
const BUILDS: [(&str, &str, &[&str]); 9] = [
    ("arm-none-eabi-gcc", "mps2-an385", &["-mcpu=cortex-m3", "-O0"]),
    ("arm-none-eabi-gcc", "mps2-an385", &["-mcpu=cortex-m3", "-O2"]),
    ("arm-none-eabi-gcc", "mps2-an385", &["-mcpu=cortex-m3", "-Os"]),
    ("arm-none-eabi-gcc", "mps2-an385", &["-mcpu=cortex-m3", "-O2", "-flto"]),
    // With frames that have floating-point registers.
    ("arm-none-eabi-gcc", "mps2-an386", &["-Og"]),
    ("arm-none-eabi-gcc", "mps2-an386", &["-O2"]),
    ("clang", "mps2-an385", &["-mcpu=cortex-m3", "-O0"]),
    ("clang", "mps2-an385", &["-mcpu=cortex-m3", "-O2"]),
    ("clang", "mps2-an385", &["-mcpu=cortex-m3", "-Os"]),
];

/// Clang's own name for a function, and the linker of its project.
const CLANG: [&str; 3] = ["--target=thumbv7m-none-eabi", "-fuse-ld=lld", "-Wl,--defsym=__aeabi_memcpy4=memcpy"];

fn build(compiler: &str, options: &[&str], elf: &str) {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/firmware");
    let libgcc = run(Command::new("arm-none-eabi-gcc").args(["-mcpu=cortex-m3", "-mthumb", "-print-libgcc-file-name"]));
    let mut command = Command::new(compiler);
    if compiler == "clang" {
        command.args(CLANG);
    }
    command.current_dir(sources).args(options).args(["-std=gnu11", "-g", "-w", "-mthumb"]);
    command.args(["-fno-strict-aliasing", "-ffreestanding", "-nostdlib", "-ffunction-sections", "-fdata-sections"]);
    command.args(["-Wl,--gc-sections", "-Wl,-u,mk_pick", "-T", "mps2.ld"]);
    command.args(["-DFW_VARIANT=FW_CRASH", "-DFW_MAY_BE_REPLACED=", "kernel.c", "trace.c", "app.c", "port_cm3.c"]);
    match compiler {
        "clang" => command.arg(libgcc.out.trim()),
        _ => command.arg("-lgcc"),
    };
    let done = run(command.args(["-o", elf]));
    assert_eq!(done.status, Some(0), "{compiler} {options:?}: {}", done.err);
}

/// How many threads have floating-point registers in the frame that they left on their stack.
fn saved_floats(files: &[&str]) -> usize {
    let words = ["info", "registers", "d8"];
    let image = Image::serve(files);
    let remote = format!("target remote :{}", image.port);
    let text = session(&[&remote, &format!("thread apply all -s {}", words.join(" ")), "detach"]);
    text.lines().filter(|line| line.starts_with("d8 ") && !line.contains("<unavailable>")).count()
}

#[test]
fn backtraces_of_optimized_programs_are_those_of_gdb() {
    require!(installed(&["arm-none-eabi-gcc", "gdb-multiarch", "qemu-system-arm"]));
    let scratch = Scratch::new("built");
    let path = |name| scratch.path(name).display().to_string();
    let script = path("frames.py");
    std::fs::write(&script, FRAMES).unwrap();
    for (compiler, board, options) in BUILDS {
        if compiler == "clang" && !installed(&["clang", "ld.lld"]) {
            continue;
        }
        let floats = board == "mps2-an386";
        let options = if floats { &[options, &floats::OPTIONS[..]].concat() } else { options };
        let (elf, core) = (path("built.elf"), path("built.core"));
        build(compiler, options, &elf);
        let qemu = Qemu::dead_on(board, Path::new(&elf));
        let remote = qemu.remote();
        let live = ours(&["--remote", &remote, &elf]);
        let dump = run(Command::new(binary()).args(["dump", "-o", &core, "--remote", &remote, &elf]));
        assert_eq!(dump.status, Some(0), "{compiler} {options:?}: {}", dump.err);
        let (threads, ends) = ours(&[&elf, &core]);
        assert_eq!(live, (threads.clone(), ends), "{compiler} {options:?}");
        let want = of_gdb(&script, &elf, &core);
        assert_eq!(threads, want, "{compiler} {options:?}");
        assert!(
            threads.iter().map(|(_, frames)| frames.len()).sum::<usize>() > 20,
            "{compiler} {options:?}: {threads:?}"
        );
        let with_floats = saved_floats(&[&elf, &core]);
        assert_eq!(with_floats > 2, floats, "{with_floats}");
    }
}
