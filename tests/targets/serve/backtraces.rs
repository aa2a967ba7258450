//! Our backtraces beside those of GDB, which unwinds the same registers over `serve`.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::debuggers::{of, session};
use super::image::{CORE, Image, RAM};
use super::tools::{binary, fixture, installed, run};

/// Function, file and line.
pub type Line = (String, String, u32);

/// The frames of each thread, by the thread's name.
pub type Threads = Vec<(String, Vec<Line>)>;

/// Those that GDB printed.
fn of_gdb(text: &str) -> Threads {
    let mut threads = Vec::new();
    for part in text.split("\nThread ").skip(1) {
        let name = part.split('"').nth(1).unwrap().to_owned();
        let frames = part.lines().filter(|line| line.starts_with('#')).filter_map(|line| {
            let rest = line.split_once("  ")?.1;
            let (function, rest) = rest.split_once(" (")?;
            let function = function.rsplit(' ').next()?;
            let (file, line) = rest.rsplit_once(" at ")?.1.rsplit_once(':')?;
            Some((function.to_owned(), base(file), line.parse().ok()?))
        });
        threads.push((name, frames.collect()));
    }
    threads.sort();
    threads
}

pub fn base(path: &str) -> String {
    Path::new(path).file_name().unwrap().to_string_lossy().into_owned()
}

/// What `threads --bt` gives for these files: the frames of each thread by its name, and why they end.
pub fn ours(files: &[&str]) -> (Threads, Vec<(String, String)>) {
    let mut command = Command::new(binary());
    let out = run(command.args(["threads", "--bt", "--format", "json"]).args(files).current_dir(fixture("")));
    let rows = out.out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let (mut all, mut ends) = (Vec::new(), Vec::new());
    for row in rows.filter(|row| row["report"] == "backtraces") {
        let name = row["thread"]["name"].as_str().unwrap().to_owned();
        let frame = |f: &Value| {
            let line = u32::try_from(f["line"].as_u64()?).unwrap();
            Some((f["function"].as_str()?.to_owned(), base(f["file"].as_str()?), line))
        };
        // GDB has no frames that are inferred.
        let sure = row["frames"].as_array().unwrap().iter().filter(|f| f["origin"] != "inferred");
        all.push((name.clone(), sure.filter_map(frame).collect()));
        ends.push((name, row["end"].as_str().unwrap().to_owned()));
    }
    all.sort();
    (all, ends)
}

/// What GDB gives for them over `serve`.
fn of_gdb_on(files: &[&str]) -> Threads {
    let image = Image::serve(files);
    let text = session(&[&format!("target remote :{}", image.port), "thread apply all bt", "detach"]);
    of_gdb(&of(&text, "thread apply all bt").replace("\n\n", "\n"))
}

#[test]
fn backtraces_of_a_core_are_those_of_gdb() {
    require!(installed(&["gdb-multiarch"]));
    let (all, ends) = ours(&CORE);
    assert_eq!(all, of_gdb_on(&CORE));
    assert!(all.iter().map(|(_, lines)| lines.len()).sum::<usize>() > 30, "{all:?}");
    for (thread, end) in ends {
        let want = match &*thread {
            // Its handler is written in assembler, and where that keeps the link register no unwind information says.
            "watchdog" => "the return address of the function at 0x2550 is not known",
            "startup" => "ended",
            _ => "this is the first function",
        };
        assert_eq!(end, want, "{thread}");
    }
}

/// What a crash log printed at the start of the fault handler: from there on to the thread that it interrupted.
const LOG: [&str; 10] = [
    "--reg",
    "pc=0x2540",
    "--reg",
    "sp=0x20007fa0",
    "--reg",
    "lr=0xfffffffd",
    "--reg",
    "xpsr=0x1000003",
    "--reg",
    "psp=0x20002f00",
];

#[test]
fn backtraces_of_ram_with_registers_are_those_of_gdb() {
    require!(installed(&["gdb-multiarch"]));
    let look = |more: &[&str]| {
        let files = [&RAM[..], &LOG, more].concat();
        let (all, ends) = ours(&files);
        let is_watchdog = |(thread, _): &&(String, _)| thread == "watchdog";
        // Over `serve` the thread begins at the crash, and the CPU in the handler is a thread of its own.
        let mut expected = all.clone();
        let whole = all.iter().find(is_watchdog).unwrap().1.clone();
        expected.iter_mut().filter(|(thread, _)| thread == "watchdog").for_each(|(_, lines)| drop(lines.remove(0)));
        expected.push(("CPU".to_owned(), whole));
        expected.sort();
        assert_eq!(expected, of_gdb_on(&files));
        let lines = all.iter().find(is_watchdog).unwrap().1.iter().map(|l| l.0.clone()).collect::<Vec<_>>();
        let end = ends.into_iter().find(|(thread, _)| thread == "watchdog").unwrap().1;
        (lines, end)
    };
    let (lines, end) = look(&[]);
    assert_eq!(lines, ["HardFault_Handler", "record_write"]);
    assert_eq!(end, "the unwind information for 0x1d74 needs register r7, which is not known");
    let (lines, end) = look(&["--reg", "r7=0x20002f24"]);
    assert_eq!(lines, ["HardFault_Handler", "record_write", "watchdog_report", "watchdog_entry", "mk_thread_shell"]);
    assert_eq!(end, "this is the first function");
}

/// The functions of `threads --bt` that are inferred, with their lines, of each thread that has any.
pub fn inferred_by_thread(files: &[&str]) -> Threads {
    let mut command = Command::new(binary());
    let out = run(command.args(["threads", "--bt", "--format", "json"]).args(files).current_dir(fixture("")));
    let rows: Vec<Value> = out.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let line = |f: &Value| {
        let file = base(f["file"].as_str().unwrap());
        (f["function"].as_str().unwrap().to_owned(), file, u32::try_from(f["line"].as_u64().unwrap()).unwrap())
    };
    let threads = rows.iter().filter(|row| row["report"] == "backtraces").map(|row| {
        let frames = row["frames"].as_array().unwrap().iter().filter(|frame| frame["origin"] == "inferred");
        (row["thread"]["name"].as_str().unwrap().to_owned(), frames.map(line).collect::<Vec<_>>())
    });
    threads.filter(|(_, frames)| !frames.is_empty()).collect()
}

/// The thread is in the C library, for which there is no unwind information: no caller was found in a program that moves,
/// which was looked for where it was linked. GDB has the library here.
#[test]
fn callers_in_front_of_a_library_were_not_found() {
    let [(thread, found)] = &*inferred_by_thread(&["host.elf", "host.core"]) else { panic!("one thread runs") };
    assert_eq!(thread, "watchdog");
    let functions: Vec<&str> = found.iter().map(|line| line.0.as_str()).collect();
    assert_eq!(functions, ["port_fault", "record_write", "watchdog_report", "watchdog_entry", "mk_thread_shell"]);
    if installed(&["gdb"]) {
        let gdb = ["-nx", "-batch", "-ex", "bt", "host.elf", "host.core"];
        let text = run(Command::new("gdb").args(gdb).current_dir(fixture(""))).out;
        let line = |line: &str| {
            let (function, rest) = line.split_once(" in ")?.1.split_once(" (")?;
            let (file, line) = rest.rsplit_once(" at ")?.1.rsplit_once(':')?;
            Some((function.to_owned(), base(file), line.parse().ok()?))
        };
        let gdb: Vec<Line> = text.lines().filter_map(line).filter(|line| functions.contains(&&*line.0)).collect();
        assert_eq!(*found, gdb, "{text}");
    }
}
