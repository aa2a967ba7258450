//! Options of the commands that make a picture of the events.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgAction, Args, Command, ValueEnum};

use super::{Clock, Filters, Printing, Source};

/// Options of the commands that make a picture of the events.
#[derive(Args)]
pub struct Picture {
    /// FILEs
    #[arg(value_name = "FILE", allow_negative_numbers = true)]
    pub words: Vec<OsString>,
    #[command(flatten)]
    pub source: Source,
    #[command(flatten)]
    pub filters: Filters,
    #[command(flatten)]
    pub clock: Clock,
}

/// Options of `timeline`.
#[derive(Args)]
pub struct Timeline {
    /// Draw with ASCII characters alone
    #[arg(long)]
    pub ascii: bool,
    #[command(flatten)]
    pub picture: Picture,
    #[command(flatten)]
    pub printing: Printing,
}

/// Options of `export`.
#[derive(Args)]
pub struct Export {
    /// Write to this file: .pftrace or .perfetto-trace, .json, .html, .trx
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    pub output: PathBuf,
    #[command(flatten)]
    pub picture: Picture,
    /// Exit with 2 where something was lost
    #[arg(long, help_heading = "Output")]
    pub strict: bool,
}

impl Export {
    /// Its options. `--to` names the format where the ending of the file does not, and is a filter as well.
    pub fn command(command: Command) -> Command {
        Self::augment_args(command).mut_arg("to", |arg| {
            arg.action(ArgAction::Append)
                .value_name("FORMAT|POSITION")
                .help("perfetto, chrome, html, trx: the format, where the file's ending does not say it. Or up to and including this event")
        })
    }
}

/// A format of `export`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// For ui.perfetto.dev: tracks, flows and counters
    Perfetto,
    /// JSON for chrome://tracing, speedscope and Perfetto
    Chrome,
    /// One page that a browser opens, without a network: timeline, findings and reports
    Html,
    /// A ThreadX trace buffer of the events that the filters keep, for TraceX
    Trx,
}
