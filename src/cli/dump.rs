//! `dump`: the trace's bytes as they lie, in a file.

use std::ffi::OsStr;
use std::io::Write;
use std::path::PathBuf;

use super::Outcome;
use super::live;
use super::message;
use super::plan::{Output, number};
use super::sink::Sink;
use crate::code::Code;
use crate::error::Error;
use crate::mem::Region;
use crate::session::{Evidence, Inputs, Raw, Session};

/// What to dump, and where to. Told before anything is opened.
pub struct DumpTask {
    /// Where the bytes come from.
    pub inputs: Inputs,
    /// The file to write.
    pub path: PathBuf,
    /// What is written.
    pub what: What,
}

/// What is written, by the file's ending.
pub enum What {
    /// The trace's bytes.
    Trace,
    /// Everything of one stop, and these stretches of memory besides.
    Evidence(Vec<Region>),
}

impl DumpTask {
    /// Checks where the dump goes.
    pub fn new(inputs: Inputs, path: PathBuf, ranges: &[String]) -> Result<Self, Error> {
        let what = match path.extension().and_then(OsStr::to_str) {
            Some("core") => What::Evidence(ranges.iter().map(|r| range(r)).collect::<Result<_, _>>()?),
            Some("trx") if ranges.is_empty() => What::Trace,
            Some("trx") => return Err(Error::usage(Code::Usage, "--range goes with dump -o FILE.core")),
            _ => {
                return Err(Error::usage(
                    Code::Usage,
                    format!(
                        "dump -o {}: the ending tells what is written: .trx, the trace buffer's bytes as they lie; .core, all of one stop",
                        path.display()
                    ),
                ));
            }
        };
        Ok(Self { inputs, path, what })
    }
}

/// `ADDR..ADDR`, both ends included.
pub(super) fn range(text: &str) -> Result<Region, Error> {
    let wrong =
        || Error::usage(Code::Usage, format!("--range {text}: FIRST..LAST is wanted, as 0x20000000..0x2000ffff"));
    let (first, last) = text.split_once("..").ok_or_else(wrong)?;
    let (first, last) = (number("--range", first)?, number("--range", last)?);
    let len = last.checked_sub(first).and_then(|n| n.checked_add(1)).ok_or_else(wrong)?;
    Ok(Region { start: first, len })
}

/// Reads the trace, lets the target go, writes the file.
pub fn run(task: DumpTask, output: &Output) -> Result<Outcome, Error> {
    let DumpTask { inputs, path, what } = task;
    let read = |session: &mut Session<'static>| match &what {
        What::Trace => Ok(Read::Trace(session.raw()?)),
        What::Evidence(ranges) => Ok(Read::Evidence(Box::new(session.evidence(ranges)?))),
    };
    live::run(inputs, read, |read, _, _| match read {
        Read::Trace(raw) => write(&raw, path, output),
        Read::Evidence(evidence) => write_evidence(&evidence, path, output),
    })
}

/// What was read.
enum Read {
    Trace(Raw),
    Evidence(Box<Evidence>),
}

fn write_evidence(evidence: &Evidence, path: PathBuf, output: &Output) -> Result<Outcome, Error> {
    let said = format!("tx-trace: wrote {}: {}", path.display(), evidence.said.join(", "));
    let mut sink = Sink::open(&Output { path: Some(path), ..output.clone() }, None)?;
    sink.write_all(&evidence.head)?;
    for piece in &evidence.pieces {
        sink.write_all(piece)?;
    }
    sink.finish()?;
    message::issues(&evidence.issues);
    message::say(&said);
    Ok(Outcome::Done)
}

fn write(raw: &Raw, path: PathBuf, output: &Output) -> Result<Outcome, Error> {
    let said = format!("tx-trace: wrote {} bytes, from {:#x} on, to {}", raw.bytes.len(), raw.address, path.display());
    let mut sink = Sink::open(&Output { path: Some(path), ..output.clone() }, None)?;
    sink.write_all(&raw.bytes)?;
    sink.finish()?;
    message::issues(&raw.issues);
    message::say(&crate::output::escape(&said));
    Ok(Outcome::Done)
}
