//! `setup`: the C code that enables the trace in a program.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::diagnostics::Diagnostics;
use super::request::{Output, Request, Task, variable};
use super::sink::Sink;
use super::{Outcome, options};
use crate::code::Code;
use crate::error::Error;
use crate::session;
use crate::setup::{Program, State, Wanted};

/// Events in a second, where nobody knows better.
const RATE: u64 = 1000;
/// The most events and objects that are asked for: a buffer of 4 GiB.
const MOST: u64 = 1 << 27;

/// What to print.
struct Setup {
    elf: PathBuf,
    wanted: Wanted,
}

/// Of what was typed.
pub fn request(typed: options::Setup) -> Result<Request, Error> {
    let options::Setup { word, elf, keep, rate, objects, time_source, time_mask, over_reset, all, output } = typed;
    let typed_elf = match (word, elf) {
        (Some(_), Some(_)) => return Err(Error::usage(Code::Usage, "give one ELF")),
        (word, elf) => word.or(elf),
    };
    let elf = typed_elf.or_else(|| variable("TX_TRACE_ELF").map(PathBuf::from)).ok_or_else(|| {
        Error::usage(Code::NoSource, "which program is it for?")
            .hint("tx-trace setup app.elf, the linked ThreadX program")
    })?;
    let events = |rate: u64| u128::from(rate).saturating_mul(keep.as_millis()).div_euclid(1000);
    if events(rate.unwrap_or(RATE)) > u128::from(MOST) || objects > MOST {
        return Err(Error::usage(Code::Usage, format!("a buffer for more than {MOST} events or objects is too large")));
    }
    if time_source.as_ref().is_some_and(|source| source.trim().is_empty() || source.chars().any(char::is_control)) {
        return Err(Error::usage(Code::Usage, "--time-source is a C expression in one line"));
    }
    let wanted = Wanted {
        keep,
        rate: rate.unwrap_or(RATE),
        rate_is_guessed: rate.is_none(),
        objects,
        time_source,
        time_mask: time_mask.unwrap_or(u64::from(u32::MAX)),
        over_reset,
        all,
    };
    let path = output.filter(|path| path.as_os_str() != "-");
    Ok(Request::new(Setup { elf, wanted }, Output { path, ..Output::default() }))
}

impl Task for Setup {
    fn files(&self) -> Vec<PathBuf> {
        vec![self.elf.clone()]
    }

    fn run(self: Box<Self>, output: &Output, diagnostics: &Diagnostics) -> Result<Outcome, Error> {
        let elf = session::open_elf(&self.elf)?;
        diagnostics.issues(session::cut_short(&self.elf, &elf).as_slice());
        let program = Program::of(&name(&self.elf), &elf).ok_or_else(|| {
            Error::failed(
                Code::NoKernelSymbol,
                format!("{}: it has no symbol of ThreadX", self.elf.display()),
                "give the linked program of a ThreadX project, unstripped",
            )
        })?;
        let mut sink = Sink::open(output, None)?;
        sink.write_all(program.text(&self.wanted).as_bytes())?;
        sink.finish()?;
        if program.state() == State::There && !self.wanted.all && output.path.is_some() {
            diagnostics.hint("the file holds no code: nothing is to be added; --all prints the code");
        }
        Ok(Outcome::Done)
    }
}

/// The file's name, for texts.
fn name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}
