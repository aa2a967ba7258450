//! `gdb`: the GDB command, as a file to source.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::diagnostics::Diagnostics;
use super::request::{Output, Request, Task};
use super::whole_file::WholeFile;
use super::{Outcome, commands, options};
use crate::code::Code;
use crate::cpu::{Architecture, Group};
use crate::error::{Error, reason};
use crate::sys;

const PYTHON: &str = include_str!("../../gdb/tx_trace.py");
const PLAIN: &str = include_str!("../../gdb/tx_trace_no_python.gdb");

/// The most words that the command without Python passes on.
const MAX_WORDS: usize = 9;

/// What to print.
struct Gdb {
    no_python: bool,
    install: bool,
    commands: bool,
}

/// Of what was typed.
pub(super) fn request(typed: &options::Gdb) -> Result<Request, Error> {
    let options::Gdb { no_python, install, commands } = *typed;
    Ok(Request::new(Gdb { no_python, install, commands }, Output::default()))
}

impl Task for Gdb {
    /// Prints or installs it.
    fn run(self: Box<Self>, _: &Output, diagnostics: &Diagnostics) -> Result<Outcome, Error> {
        if self.commands {
            return print(&commands::completion());
        }
        let text = if self.no_python { without_python() } else { PYTHON.to_owned() };
        if !self.install {
            return print(&text);
        }
        let fail = |why: String| Error::failed(Code::Install, why, "print it: `tx-trace gdb > tx_trace.py`");
        let dir = sys::data_home().map_err(|asked| fail(format!("{asked} says where to install")))?;
        let path = dir.join("tx-trace").join(if self.no_python { "tx_trace.gdb" } else { "tx_trace.py" });
        let written = put(&path, text.as_bytes()).map_err(|e| fail(format!("{}: {}", path.display(), reason(&e))))?;
        let mut lines = format!("source {}\n", path.display());
        if !self.no_python
            && let Some(program) = program_off_path()
        {
            lines.push_str(&format!("set tx-trace binary {}\n", program.display()));
        }
        let done = if written { "written" } else { "there already, the same" };
        diagnostics.say(format_args!("{} ({done})", path.display()));
        diagnostics.say(
            "GDB loads it if ~/.config/gdb/gdbinit or ~/.gdbinit has what is printed (`tx-trace gdb --install >> ~/.gdbinit`)",
        );
        print(&lines)
    }
}

fn print(text: &str) -> Result<Outcome, Error> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush())?;
    Ok(Outcome::Done)
}

/// Commands of GDB alone. It has no word for "all arguments", so there is a line for each number of them.
fn without_python() -> String {
    let mut run = String::new();
    for count in 1..=MAX_WORDS {
        let words: String = (0..count).map(|i| format!(" $arg{i}")).collect();
        // The directory goes whatever ends the program: a shell that a signal ends runs no EXIT trap of itself.
        run.push_str(&format!(
            "        if $argc == {count}\n          shell exec /bin/sh -c 'd=/tmp/tx-trace-gdb-$PPID; trap \"exit 130\" INT TERM HUP; \
             trap \"rm -rf $d\" EXIT; TX_TRACE_ELF=$(cat \"$d/elf\") \"${{TX_TRACE_BIN:-tx-trace}}\" \"$@\" @\"$d/options\"' \
             tx-trace{words}\n        end\n"
        ));
    }
    let mut plain = String::new();
    for commands::Row { name, about, .. } in commands::without_source() {
        plain.push_str(&format!("define tx-trace {name}\n"));
        for count in 0..=MAX_WORDS {
            let words: String = (0..count).map(|i| format!(" $arg{i}")).collect();
            plain.push_str(&format!(
                "  if $argc == {count}\n    shell exec \"${{TX_TRACE_BIN:-tx-trace}}\" {name}{words}\n  end\n"
            ));
        }
        plain.push_str("  set $_tx_trace_exit = $_shell_exitcode\nend\n");
        plain.push_str(&format!("document tx-trace {name}\n{about}.\nend\n"));
    }
    PLAIN
        .replace("@REGISTERS@", registers().trim_end())
        .replace("@MOST@", &MAX_WORDS.to_string())
        .replace("@RUN@", run.trim_end())
        .replace("@PLAIN@\n", &plain)
}

/// Commands that show every register that is known, whatever the processor.
fn registers() -> String {
    let all = Architecture::ALL.iter().flat_map(|a| a.registers());
    let kept = all.filter(|r| r.group != Group::Float && r.bits <= 64 && r.number().is_some()).map(|r| r.name);
    let names: BTreeSet<&str> = kept.collect();
    names.iter().map(|name| format!("  echo {name}=\n  output/x ${name}\n  echo \\n\n")).collect()
}

/// Writes a file; false where it holds just that already. It is never seen half written.
fn put(path: &Path, bytes: &[u8]) -> io::Result<bool> {
    if fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(false);
    }
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir)?;
    }
    let mut file = WholeFile::create(path)?;
    file.write_all(bytes)?;
    file.finish().map(|()| true)
}

/// This program, where the PATH does not lead to it.
fn program_off_path() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let own = fs::canonicalize(&program).ok()?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let name = format!("tx-trace{}", std::env::consts::EXE_SUFFIX);
    let first = std::env::split_paths(&path).map(|d| d.join(&name)).find(|p| p.is_file());
    let same = first.is_some_and(|p| fs::canonicalize(p).is_ok_and(|p| p == own));
    // Windows writes the canonical name as `\\?\C:\...`, which other programs do not understand.
    (!same).then_some(program)
}
