//! Threads of the operating system, as in ThreadX's port to Linux, which stop in the C library: for that the program has no
//! unwind information. GDB has the library here.
#![cfg(target_arch = "x86_64")]

use std::path::Path;
use std::process::Command;

use super::backtraces::{Line, base, inferred_by_thread};
use super::tools::{installed, run};
use crate::support::machine::Scratch;

fn build(program: &str) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/firmware/pthreads.c");
    let mut compiler = Command::new("gcc");
    compiler.args(["-O1", "-g", "-w", "-fno-omit-frame-pointer", "-fPIE", "-pie", "-pthread", "-o", program]);
    let done = run(compiler.arg(source));
    assert_eq!(done.status, Some(0), "{}", done.err);
}

/// The frames of each thread that GDB has in the program itself, in the order of its threads.
fn of_gdb(text: &str) -> Vec<Vec<Line>> {
    let mut threads: Vec<Vec<Line>> = Vec::new();
    for line in text.lines() {
        if line.starts_with("Thread ") && line.ends_with("):") {
            threads.push(Vec::new());
        }
        let frame = || {
            let (function, rest) = line.split_once(" in ")?.1.split_once(" (")?;
            let (file, line) = rest.rsplit_once(" at ")?.1.rsplit_once(':')?;
            let own = file.ends_with("pthreads.c");
            own.then(|| Some((function.to_owned(), base(file), line.parse().ok()?))).flatten()
        };
        threads.last_mut().zip(frame()).into_iter().for_each(|(frames, frame)| frames.push(frame));
    }
    threads
}

#[test]
fn callers_of_the_systems_threads_are_those_of_gdb() {
    require!(installed(&["gcc", "gdb"]));
    let scratch = Scratch::new("pthreads");
    let [program, core] = ["pthreads.elf", "pthreads.core"].map(|name| scratch.path(name).display().to_string());
    build(&program);
    let mut gdb = Command::new("gdb");
    gdb.args(["-nx", "-batch", "-ex", "set debuginfod enabled off", "-ex", "set breakpoint pending on"]);
    gdb.args(["-ex", "break pause", "-ex", "run", "-ex", &format!("generate-core-file {core}")]);
    let text = run(gdb.args(["-ex", "thread apply all -ascending bt", "-ex", "kill", &program])).out;
    // The first is the process's own, which is none of the kernel's.
    let want = of_gdb(&text).split_off(1);
    let found = inferred_by_thread(&[&program, &core]);
    assert_eq!(found.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["first", "second", "third"]);
    assert_eq!(found.into_iter().map(|(_, frames)| frames).collect::<Vec<_>>(), want, "{text}");
    assert_eq!(want.iter().map(Vec::len).collect::<Vec<_>>(), [8, 4, 8]);
}
