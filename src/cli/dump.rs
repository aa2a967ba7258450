//! `dump`: the trace's bytes, or all of one stop, in a file.

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Display, Path};

use super::read::Ask;
use super::request::{Output, Reads, Request, With, inputs, take_words};
use super::sink::Sink;
use super::{Outcome, options};
use crate::bytes::Bytes;
use crate::code::Code;
use crate::error::Error;
use crate::mem::Region;
use crate::session::{Evidence, Inputs, Raw, Target};
use crate::trace::Issue;

/// What to dump.
struct Dump {
    inputs: Inputs,
    what: What,
}

/// What is written, by the file's ending.
enum What {
    /// The trace's bytes.
    Trace,
    /// Everything of one stop, and these ranges of memory besides.
    Evidence(Vec<Region>),
}

/// Of what was typed.
pub(super) fn request(typed: options::Dump) -> Result<Request, Error> {
    let options::Dump { words, source, output: path, range } = typed;
    let inputs = inputs(source, take_words("dump", &mut Ask::Info, false, words)?)?;
    let what = match path.extension().and_then(OsStr::to_str) {
        Some("core") => What::Evidence(range),
        Some("trx") if range.is_empty() => What::Trace,
        Some("trx") => return Err(Error::usage(Code::Usage, "--range is an option of dump -o FILE.core")),
        _ => {
            return Err(Error::usage(
                Code::Usage,
                format!(
                    "dump -o {}: the ending says what is written: .trx, the trace buffer's bytes; .core, all of one stop",
                    path.display()
                ),
            ));
        }
    };
    Ok(Request::new(Dump { inputs, what }, Output { path: Some(path), ..Output::default() }))
}

impl Reads for Dump {
    type Found = File;

    fn inputs(&self) -> &Inputs {
        &self.inputs
    }

    fn read(&self, target: &mut Target<'_>, with: With<'_>) -> Result<File, Error> {
        let path = with.output.path.as_deref().unwrap_or_else(|| Path::new("")).display();
        Ok(match &self.what {
            What::Trace => trace(target.raw()?, &path),
            What::Evidence(ranges) => evidence(target.evidence(ranges)?, &path),
        })
    }

    fn print(&self, file: File, _: &Target<'_>, mut sink: Sink<'_>, with: With<'_>) -> Result<Outcome, Error> {
        sink.write_all(&file.head)?;
        file.pieces.iter().try_for_each(|piece| sink.write_all(piece))?;
        sink.finish()?;
        with.diagnostics.issues(&file.issues);
        with.diagnostics.say(&file.summary);
        Ok(Outcome::Done)
    }
}

/// What is written.
struct File {
    head: Vec<u8>,
    pieces: Vec<Bytes>,
    issues: Vec<Issue>,
    summary: String,
}

fn trace(raw: Raw, path: &Display<'_>) -> File {
    let summary = format!("wrote {} bytes, from {:#x} on, to {path}", raw.bytes.len(), raw.address);
    File { head: Vec::new(), pieces: vec![raw.bytes], issues: raw.issues, summary }
}

fn evidence(evidence: Evidence, path: &Display<'_>) -> File {
    let summary = format!("wrote {path}: {}", evidence.said.join(", "));
    File { head: evidence.head, pieces: evidence.pieces, issues: evidence.issues, summary }
}
