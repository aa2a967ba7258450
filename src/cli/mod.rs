//! The command line, and the only user of clap: `args` (what was typed) to `plan` (what it means) to `command` (run).
//! `message` is all that goes to stderr.

mod args;
mod bridge;
mod command;
mod control;
mod demo;
mod dump;
mod events;
mod evidence;
mod files;
mod follow;
mod gdb;
mod info;
mod interrupt;
mod listen;
mod live;
mod message;
mod monitor;
mod names;
mod now;
mod plan;
mod reports;
mod serve;
mod sink;
mod threads;
mod whole_file;

use std::ffi::OsString;
use std::process::ExitCode;

use crate::error::Error;

/// How a run ended: the contract's exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Done.
    Done,
    /// Looked, and the answer is no.
    No,
    /// Could not look.
    Failed,
}

impl From<&Error> for Outcome {
    fn from(error: &Error) -> Self {
        if error.is_not_found() { Self::No } else { Self::Failed }
    }
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        Self::from(match outcome {
            Outcome::Done => 0,
            Outcome::No => 1,
            Outcome::Failed => 2,
        })
    }
}

/// Runs the command line of this process.
#[must_use]
pub fn main() -> ExitCode {
    run(std::env::args_os().skip(1).collect()).into()
}

/// Runs one command line, and returns what it has to say in place of saying it on stderr. Data goes where `-o` says.
#[must_use]
pub fn overheard(words: Vec<OsString>) -> (Outcome, String) {
    message::overhear(|| run(words))
}

/// True where a monitor line is one that may be asked. Nothing is opened or run.
#[must_use]
pub fn takes_monitor_line(line: &str) -> bool {
    monitor::parse(line).is_ok()
}

/// Runs one command line (without the program's name).
#[must_use]
pub fn run(words: Vec<OsString>) -> Outcome {
    let typed = message::wants_json(&words);
    let (words, option_files) = match files::expand(words) {
        Ok(expanded) => expanded,
        Err(e) => return message::refuse(&e, typed),
    };
    let json = message::wants_json(&words);
    let args = match args::parse(&words) {
        Ok(args) => args,
        Err(e) => return message::usage(&e, json),
    };
    match plan::plan(args) {
        Ok(plan) => command::run(plan, &option_files),
        Err(e) => message::refuse(&e, json),
    }
}
