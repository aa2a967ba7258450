//! `setup`: the C code that enables the trace in a program.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::diagnostics::Diagnostics;
use super::request::{Output, Request, Task, variable};
use super::sink::Sink;
use super::{Outcome, options};
use crate::code::Code;
use crate::elf::ElfKind;
use crate::error::Error;
use crate::session;
use crate::setup::{Program, State, Wanted};

/// Events in a second, where nothing better is known.
const RATE: u64 = 1000;
/// The most events and objects that are asked for: a buffer of 4 GiB.
const MOST: u64 = 1 << 27;

/// What to give, for a hint.
const PROGRAM: &str = "give the linked program of a ThreadX project (.elf, .axf, .out), unstripped";

/// What to print.
struct Setup {
    elf: PathBuf,
    wanted: Wanted,
}

/// Of what was typed.
pub(super) fn request(typed: options::Setup) -> Result<Request, Error> {
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
    let refuse = |why: &str| Err(Error::usage(Code::Usage, why));
    if rate == Some(0) {
        return refuse("--rate 0: how many events a second, 1 or more");
    }
    if objects == 0 {
        return refuse("--objects 0: how many objects get a name, 1 or more");
    }
    if time_mask.is_some_and(|mask| mask == 0 || mask & mask.wrapping_add(1) != 0 || mask > u64::from(u32::MAX)) {
        return refuse("--time-mask is one less than a power of 2, to 32 bits: 0xffff, 0xffffff, 0xffffffff");
    }
    if time_source.as_deref().is_some_and(|source| !is_expression(source)) {
        return refuse("--time-source is a C expression in one line, without comments");
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

/// True where the text can be the value of a macro: no line ends in it, and no comment begins or ends.
fn is_expression(text: &str) -> bool {
    let marks = ["/*", "*/", "//"];
    !text.trim().is_empty()
        && !text.chars().any(char::is_control)
        && !text.ends_with('\\')
        && !marks.iter().any(|mark| text.contains(mark))
}

impl Task for Setup {
    fn files(&self) -> Vec<PathBuf> {
        vec![self.elf.clone()]
    }

    fn run(self: Box<Self>, output: &Output, diagnostics: &Diagnostics) -> Result<Outcome, Error> {
        let elf = session::open_elf(&self.elf).map_err(|error| match error.code {
            Code::NotElf => error.hint(PROGRAM),
            _ => error,
        })?;
        diagnostics.issues(session::cut_short(&self.elf, &elf).as_slice());
        if elf.kind() == ElfKind::Core {
            let why = format!("{} is an ELF core, which holds no program", self.elf.display());
            return Err(Error::failed(Code::NotElf, why, PROGRAM));
        }
        let program = Program::of(&name(&self.elf), &elf).ok_or_else(|| {
            Error::failed(Code::NoKernelSymbol, format!("{}: it has no symbol of ThreadX", self.elf.display()), PROGRAM)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_source_ends_no_comment_and_no_line() {
        assert!(is_expression("(*((volatile ULONG *) 0xE0001004UL))") && is_expression("a / b * c"));
        for text in ["", " ", "*/ x", "x /* y", "x // y", "x\ny", "x \\"] {
            assert!(!is_expression(text), "{text}");
        }
    }
}
