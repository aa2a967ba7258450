//! The options of `setup`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::cli::values;

/// Options of `setup`.
#[derive(Args)]
pub struct Setup {
    /// The linked program
    #[arg(value_name = "ELF")]
    pub word: Option<PathBuf>,
    /// The linked program: the same as the argument ELF
    #[arg(long, value_name = "FILE")]
    pub elf: Option<PathBuf>,
    /// How far back a full buffer reaches: 500ms, 2s
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = values::time)]
    pub keep: Duration,
    /// Events a second that are expected (1000, which is a guess)
    #[arg(long, value_name = "N", value_parser = values::count)]
    pub rate: Option<u64>,
    /// Threads, queues and so on that get a name in the trace
    #[arg(long, value_name = "N", default_value = "40", value_parser = values::count)]
    pub objects: u64,
    /// The C expression that reads a free-running timer, in place of the one that the processor has
    #[arg(long, value_name = "EXPRESSION")]
    pub time_source: Option<String>,
    /// The largest value of that timer, where it has fewer than 32 bits: 0xffff
    #[arg(long, value_name = "N", value_parser = values::number, requires = "time_source")]
    pub time_mask: Option<u64>,
    /// The trace survives a reset
    #[arg(long)]
    pub over_reset: bool,
    /// The code also where the program has its trace already
    #[arg(long)]
    pub all: bool,
    /// Write to a file, - for standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}
