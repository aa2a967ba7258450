//! The command line, and the only user of clap. `commands` is the table of all commands, `options` what they take and
//! `values` the types of that; `request` makes of it a task that runs; `diagnostics` is all that goes to stderr.

mod bridge;
mod commands;
mod control;
mod demo;
mod diagnostics;
mod dump;
mod events;
mod follow;
mod gdb;
mod info;
mod inputs_kept;
mod interrupt;
mod listen;
mod live;
mod monitor;
mod names;
mod now;
mod option_files;
mod options;
mod print;
mod read;
mod report;
mod reports;
mod request;
mod serve;
mod sink;
mod threads;
mod values;
mod whole_file;

use std::error::Error as _;
use std::ffi::OsString;
use std::io::{Write, stdout};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};

use crate::code::Code;
use crate::error::Error;
use crate::output;
use commands::Typed;
use diagnostics::Diagnostics;
use request::Request;
use values::Wrong;

/// How a run ended: the contract's exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Done.
    Done,
    /// Not found.
    NotFound,
    /// An error.
    Failed,
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        Self::from(match outcome {
            Outcome::Done => 0,
            Outcome::NotFound => 1,
            Outcome::Failed => 2,
        })
    }
}

/// Runs the command line of this process.
#[must_use]
pub fn main() -> ExitCode {
    run(std::env::args_os().skip(1).collect(), &Diagnostics::stderr()).into()
}

/// Runs one command line without the program's name. Returns its diagnostics in place of printing them on stderr; data
/// goes where `-o` says.
#[must_use]
pub fn run_captured(words: Vec<OsString>) -> (Outcome, String) {
    let diagnostics = Diagnostics::buffer();
    (run(words, &diagnostics), diagnostics.into_text())
}

/// True where a monitor line may be asked. Nothing is opened or run.
#[must_use]
pub fn takes_monitor_line(line: &str) -> bool {
    monitor::parse(line).is_ok()
}

/// Parses, makes a request, runs it.
fn run(words: Vec<OsString>, diagnostics: &Diagnostics) -> Outcome {
    let typed = words.clone();
    let (words, option_files) = match option_files::expand(words) {
        Ok(expanded) => expanded,
        Err(error) => return Refusal::from(error).report(&typed, diagnostics),
    };
    match parse(&words) {
        Ok(request) => request.run(&option_files, diagnostics),
        Err(refusal) => refusal.report(&words, diagnostics),
    }
}

fn parse(words: &[OsString]) -> Result<Request, Refusal> {
    Ok(Typed::parse(words)?.request()?)
}

/// Why a command line does not run: a mistake in it, or clap answers it: help, version, and mistakes of clap's own.
enum Refusal {
    Mistake(Error),
    Clap(clap::Error),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Mistake(error)
    }
}

impl From<clap::Error> for Refusal {
    /// What an option does not take is an error of ours, which clap carries with the option and the value.
    fn from(error: clap::Error) -> Self {
        let context = |kind| match error.get(kind) {
            Some(ContextValue::String(text)) => text.as_str(),
            _ => "",
        };
        let Some(Wrong { code, why }) = error.source().and_then(|e| e.downcast_ref()) else {
            return Self::Clap(error);
        };
        let option = context(ContextKind::InvalidArg).split(' ').next().unwrap_or_default();
        let value = context(ContextKind::InvalidValue);
        Self::Mistake(Error::usage(*code, format!("{option} {value}: {why}")))
    }
}

impl Refusal {
    /// In one line.
    fn message(&self) -> String {
        match self {
            Self::Mistake(error) => error.message.clone(),
            Self::Clap(error) => {
                let text = error.to_string();
                let line = text.lines().next().unwrap_or_default();
                line.strip_prefix("error: ").unwrap_or(line).to_owned()
            }
        }
    }

    /// Prints it: an `error` line for who asked for JSON, and sentences.
    fn report(self, words: &[OsString], diagnostics: &Diagnostics) -> Outcome {
        let mut out = stdout();
        match &self {
            Self::Clap(answer) if !answer.use_stderr() => {
                // A reader that closes the pipe of `--help` has seen enough.
                let _ = out.write_all(answer.render().to_string().as_bytes());
                return Outcome::Done;
            }
            _ => {}
        }
        let error = match &self {
            Self::Mistake(error) => error.clone(),
            Self::Clap(_) => Error::usage(Code::Usage, self.message()),
        };
        if wants_json(words) {
            // Who does not read it has the exit code.
            let _ = output::write_error(&mut out, &error);
        }
        match &self {
            Self::Mistake(error) => diagnostics.error(error),
            Self::Clap(error) => {
                diagnostics.write(&error.render().to_string());
                Outcome::Failed
            }
        }
    }
}

/// True where the words ask for JSON on standard output. They need not be a command line that is right.
fn wants_json(words: &[OsString]) -> bool {
    let is = |word: &OsString, text: &str| word.to_str() == Some(text);
    let json = words.iter().any(|w| is(w, "--format=json"))
        || words.windows(2).any(|pair| matches!(pair, [a, b] if is(a, "--format") && is(b, "json")));
    let file = |w: &OsString| w.to_str().is_some_and(|w| w.starts_with("-o") || w.starts_with("--output"));
    json && !words.iter().any(file)
}
