//! `demo --export`: the built-in target as files, under the names that README.md uses.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

use super::{ELF, RAM, RAM_AT};
use crate::cli::Outcome;
use crate::cli::diagnostics::Diagnostics;
use crate::cli::request::{Output, Task};
use crate::cli::whole_file::WholeFile;
use crate::code::Code;
use crate::error::{Error, reason};

/// Its core, as GDB makes one.
static CORE: &[u8] = include_bytes!("../../../tests/fixtures/cm3.core");
/// The trace buffer alone.
static TRACE: &[u8] = include_bytes!("../../../tests/fixtures/cm3.trx");
/// The same after a reset, and six events of the run after it.
static RESET: &[u8] = include_bytes!("reset.trx");
/// Two buffers that one run filled, one after the other.
static ROTATED: [&[u8]; 2] = [include_bytes!("old.trx"), include_bytes!("new.trx")];
/// Options for `@board.source`, as for a board.
const BOARD: &str = "--elf app.elf\n--remote :3333\n";
/// A dump that ends within the trace has so many bytes.
const CUT: usize = 0x6000;

/// Where to write them.
pub struct Export(pub PathBuf);

impl Task for Export {
    fn run(self: Box<Self>, _: &Output, diagnostics: &Diagnostics) -> Result<Outcome, Error> {
        let Self(dir) = *self;
        let files = files()?;
        // What is there may be the user's own.
        let other = |(name, bytes): &&(&str, Vec<u8>)| fs::read(dir.join(name)).is_ok_and(|old| old != *bytes);
        if let Some((name, _)) = files.iter().find(other) {
            let path = dir.join(name);
            let message = format!("{} exists, and is a different file", path.display());
            return Err(Error::failed(Code::Demo, message, "give a new directory"));
        }
        for (name, bytes) in &files {
            let path = dir.join(name);
            let fail = |e: io::Error| Error::failed(Code::Demo, format!("{}: {}", path.display(), reason(&e)), "");
            put(&path, bytes).map_err(fail)?;
        }
        diagnostics.say(format_args!(
            "{} holds a Cortex-M3 that died: app.elf, app.core, ram.bin and others. Try there",
            dir.display()
        ));
        for line in
            ["tx-trace last 20 app.elf app.core", "tx-trace explain app.elf app.core", "tx-trace serve app.elf ram.bin"]
        {
            diagnostics.line(format_args!("    {line}"));
        }
        Ok(Outcome::Done)
    }
}

fn put(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir)?;
    }
    let mut file = WholeFile::create(path)?;
    file.write_all(bytes)?;
    file.finish()
}

/// Each file with its name.
fn files() -> Result<Vec<(&'static str, Vec<u8>)>, Error> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(RAM)?;
    let [old, new] = ROTATED;
    Ok(vec![
        ("app.elf", ELF.to_vec()),
        ("app.core", CORE.to_vec()),
        ("ram.bin", RAM.to_vec()),
        ("ram.bin.gz", packed.finish()?),
        ("cut.bin", RAM.iter().copied().take(CUT).collect()),
        ("openocd.log", log().into_bytes()),
        ("trace.trx", TRACE.to_vec()),
        ("old.trx", old.to_vec()),
        ("new.trx", new.to_vec()),
        ("reset.trx", RESET.to_vec()),
        ("board.source", BOARD.into()),
    ])
}

/// What OpenOCD prints for `mdw` of all RAM.
fn log() -> String {
    let mut text = format!("> mdw {RAM_AT:#x} {:#x}\n", RAM.len() / 4);
    for (at, line) in (RAM_AT..).step_by(16).zip(RAM.chunks(16)) {
        let words = line.chunks(4).map(|word| word.iter().rev().map(|byte| format!("{byte:02x}")).collect::<String>());
        let words = words.collect::<Vec<_>>().join(" ");
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{at:#010x}: {words}");
    }
    text
}
