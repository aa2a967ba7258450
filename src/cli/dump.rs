//! `dump`: the trace's bytes as they lie, in a file.

use std::ffi::OsStr;
use std::io::Write;
use std::path::PathBuf;

use super::message::{self, Failure};
use super::plan::Output;
use super::sink::Sink;
use super::{Outcome, evidence, interrupt};
use crate::session::{Inputs, Raw, Session};

/// What to dump, and where to. Told before anything is opened.
pub struct DumpTask {
    /// Where the bytes come from.
    pub inputs: Inputs,
    /// The file to write.
    pub path: PathBuf,
}

impl DumpTask {
    /// Checks where the dump goes.
    pub fn new(inputs: Inputs, path: PathBuf) -> Result<Self, Failure> {
        if path.extension().and_then(OsStr::to_str) != Some("trx") {
            return Err(Failure::usage(
                "usage",
                format!(
                    "dump -o {}: only .trx is known, the trace buffer's bytes as they lie; end the name in it",
                    path.display()
                ),
            ));
        }
        Ok(Self { inputs, path })
    }
}

/// Reads the trace, lets the target go, writes the file.
pub fn run(task: DumpTask, output: &Output) -> Result<Outcome, Failure> {
    let DumpTask { inputs, path } = task;
    evidence::keep(&evidence::files(&inputs), &path)?;
    let stdio = inputs.is_stdio();
    let attached = inputs.is_remote().then(interrupt::Guard::arm);
    let mut session = Session::open(inputs)?;
    let raw = session.raw();
    if raw.is_err() {
        message::issues(session.issues());
    }
    if let Some(client) = session.disconnect() {
        let left = client.leave();
        if let Some(sentence) = left.message.filter(|_| !stdio) {
            message::say(&format!("tx-trace: {sentence}"));
        }
    }
    drop(attached);
    write(&raw?, path, output)
}

fn write(raw: &Raw, path: PathBuf, output: &Output) -> Result<Outcome, Failure> {
    let said = format!("tx-trace: wrote {} bytes, from {:#x} on, to {}", raw.bytes.len(), raw.address, path.display());
    let mut sink = Sink::open(&Output { path: Some(path), ..output.clone() }, None)?;
    sink.write_all(&raw.bytes)?;
    sink.finish()?;
    message::issues(&raw.issues);
    message::say(&crate::output::escape(&said));
    Ok(Outcome::Done)
}
