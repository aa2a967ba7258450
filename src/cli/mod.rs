//! The command line, and the only user of clap. `commands` is the table of all commands, `options` what they take and
//! `values` the types of that; `request` makes of it a task that runs; `diagnostics` is all that goes to stderr.

mod backtraces;
mod bridge;
mod commands;
mod control;
mod crash;
mod demo;
mod diagnostics;
mod documents;
mod dump;
mod events;
mod explain;
mod export;
mod follow;
mod gdb;
mod help;
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
mod progress;
mod read;
mod report;
mod reports;
mod request;
mod serve;
mod setup;
mod sink;
mod task;
mod threads;
mod timeline;
mod usage;
mod values;
mod whole_file;

use std::ffi::OsString;
use std::io::{Write, stdout};
use std::process::ExitCode;

use clap::error::ErrorKind;

use crate::code::Code;
use crate::error::Error;
use crate::output;
use commands::Typed;
use diagnostics::Diagnostics;
use request::Request;

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

impl Outcome {
    /// The exit code.
    const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::NotFound => 1,
            Self::Failed => 2,
        }
    }
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        outcome.code().into()
    }
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    crate::sys::signals::unblock_interrupt();
    run(std::env::args_os().skip(1).collect(), &Diagnostics::stderr()).into()
}

/// Runs one command line without the program's name. Returns its diagnostics in place of printing them on stderr; data
/// goes where `-o` says.
pub fn run_captured(words: Vec<OsString>) -> (Outcome, String) {
    let diagnostics = Diagnostics::buffer();
    (run(words, &diagnostics), diagnostics.into_text())
}

/// True where a monitor line may be asked. Nothing is opened or run.
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

/// Why a command line does not run: a mistake in it, or it asks clap for help or the version.
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
    fn from(error: clap::Error) -> Self {
        Self::Clap(error)
    }
}

impl Refusal {
    /// The error; `None` where help or the version was asked for.
    fn error(self, words: &[OsString]) -> Option<Error> {
        match self {
            Self::Mistake(error) => Some(error),
            Self::Clap(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => None,
            Self::Clap(error) => Some(usage::error(&error, words)),
        }
    }

    /// Prints what was asked for, or the error: an `error` line for who asked for JSON, and sentences.
    fn report(self, words: &[OsString], diagnostics: &Diagnostics) -> Outcome {
        let mut out = stdout();
        if let Self::Clap(answer) = &self {
            let text = match answer.kind() {
                ErrorKind::DisplayHelp => usage::command(words).map_or_else(help::page::main, help::page::command),
                ErrorKind::DisplayVersion => answer.to_string(),
                // Nothing was typed.
                ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
                    diagnostics.write(&help::page::main());
                    return Outcome::Failed;
                }
                _ => String::new(),
            };
            // A reader that closes the pipe of `--help` has seen enough; a full disk is an error.
            let written = out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Error::from);
            if let Err(error) = written
                && error.code != Code::BrokenPipe
            {
                return diagnostics.error(&error);
            }
        }
        let Some(error) = self.error(words) else { return Outcome::Done };
        if wants_json(words) {
            // Who does not read it has the exit code.
            let _ = output::write_error(&mut out, &error);
        }
        diagnostics.error(&error)
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
