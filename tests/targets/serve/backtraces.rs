//! Our backtraces beside those of GDB, which unwinds the same registers over `serve`.

use std::path::Path;

use tx_trace::session::{Inputs, Target, ThreadBacktrace};

use super::debuggers::{of, session};
use super::image::{CORE, Image};
use super::tools::{fixture, installed};

/// Function, file and line.
type Line = (String, String, u32);

/// The frames of each thread that GDB printed, by the thread's name.
fn of_gdb(text: &str) -> Vec<(String, Vec<Line>)> {
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

fn base(path: &str) -> String {
    Path::new(path).file_name().unwrap().to_string_lossy().into_owned()
}

fn lines(backtrace: &ThreadBacktrace) -> Vec<Line> {
    let known = |f: &tx_trace::session::Function| Some((f.name.clone()?, base(f.file.as_deref()?), f.line?));
    backtrace.functions.iter().filter_map(known).collect()
}

fn ours(inputs: Inputs) -> (Vec<(String, Vec<Line>)>, Vec<String>) {
    let mut target = Target::open(inputs).unwrap();
    let kernel = target.kernel(None).unwrap();
    let threads: Vec<_> = kernel.threads.iter().collect();
    let found = target.backtraces(&kernel, &threads);
    let ends = threads.iter().zip(&found).map(|(t, b)| format!("{}: {}", t.label(), b.end)).collect();
    let mut all: Vec<_> = threads.iter().zip(&found).map(|(t, b)| (t.label(), lines(b))).collect();
    all.sort();
    (all, ends)
}

#[test]
fn backtraces_of_a_core_are_those_of_gdb() {
    if !installed(&["gdb-multiarch"]) {
        return;
    }
    let image = Image::serve(&CORE);
    let text = session(&[&format!("target remote :{}", image.port), "thread apply all bt", "detach"]);
    let gdb = of_gdb(&of(&text, "thread apply all bt").replace("\n\n", "\n"));
    let (all, ends) = ours(Inputs::new().elf(fixture("cm3.elf")).file(fixture("cm3.core")));
    assert_eq!(all, gdb);
    assert!(all.iter().map(|(_, lines)| lines.len()).sum::<usize>() > 30, "{all:?}");
    assert_eq!(ends, [""; 0], "{text}");
}
