//! Prints the trace of a program and its core: `cargo run --example core -- app.elf app.core`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example prints")]

use std::error::Error;
use std::path::PathBuf;

use tx_trace::{ReportName, Target, escape};

fn main() -> Result<(), Box<dyn Error>> {
    let files: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let trace = Target::open(files)?.trace()?;
    for event in trace.events() {
        println!(
            "{:>10} {:16} {}",
            event.ticks,
            escape(&trace.context_name(&event)),
            escape(&trace.event_name(&event))
        );
    }
    for report in trace.report(ReportName::Stats)? {
        println!("{}: {} rows", report.name, report.rows.len());
    }
    Ok(())
}
