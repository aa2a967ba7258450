//! The report commands: one pass over the events, then tables, JSON, CSV or Markdown.

use std::borrow::Borrow;
use std::io::Write;

use sha2::{Digest, Sha256};

use super::explain::page;
use crate::abi::Width;
use crate::analysis::{self, Made, ReportRequest};
use crate::bytes::hex;
use crate::code::Code;
use crate::error::Error;
use crate::explain::Explanation;
use crate::output::{Format, Reader, TableOptions, View, report_writer};
use crate::query::Query;
use crate::report::{Kind, Report, take_shared_notes};
use crate::session::Target;
use crate::trace::{Trace, many};

/// What a report in a file must say of itself: a bug report is read where the files are not.
pub struct Origin {
    rows: Vec<(&'static str, String)>,
}

impl Origin {
    /// Names the source, the trace's bytes and the program.
    pub fn of(target: &mut Target) -> Self {
        let source = if target.name() == "stdio:" { super::info::DEBUGGER } else { target.name() };
        let mut rows = vec![("source", source.to_owned())];
        rows.extend(digest(target).map(|digest| ("trace", digest)));
        if let Some(elf) = target.elf() {
            rows.push(("ELF", elf.describe()));
            rows.push(("build id", elf.build_id().map_or("none".to_owned(), |id| hex(&id))));
        }
        Self { rows }
    }

    fn report(&self) -> Report {
        Report::facts("trace", "Trace", self.rows.clone())
    }
}

/// The bytes of the trace: how many, where, and what they are.
pub(super) fn digest(target: &mut Target<'_>) -> Option<String> {
    let raw = target.raw().ok()?;
    let digest = Sha256::digest(raw.bytes.as_slice());
    Some(format!("{} bytes from {:#x}, SHA-256 {}", raw.bytes.len(), raw.address, hex(&digest)))
}

/// Notes below each table of times that not all of the trace's time is known.
fn mark_doubts(trace: &Trace, reports: &mut [Report]) {
    let doubts = trace.clock.doubts;
    let why = trace.issues.iter().find(|issue| issue.code == Code::ClockOfTicks);
    let timed = reports.iter_mut().filter(|r| r.columns.iter().any(|c| matches!(c.kind, Kind::Ticks)));
    for report in timed.filter(|_| doubts > 0) {
        let stamps = many(doubts, "time stamp does", "time stamps do");
        let across = || format!("{stamps} not follow the one before: the times across are doubtful");
        report.notes.push(why.map_or_else(across, |issue| issue.message.clone()));
    }
}

/// Makes the reports and prints them.
pub(super) fn print(
    request: &ReportRequest,
    origin: Option<&Origin>,
    query: &Query<'_>,
    view: &View<'_>,
    format: Format,
    options: &TableOptions,
    out: &mut dyn Write,
) -> Result<(), Error> {
    if format.reader() == Reader::Program && !request.tracex {
        let mut made = Made::of(view.trace, view.catalogue, query, request)?;
        return stream(all(&mut made, request), (None, None), view, format, options, out);
    }
    let mut reports = analysis::reports(view.trace, view.catalogue, query, request)?;
    mark_doubts(view.trace, &mut reports);
    let shared = take_shared_notes(&mut reports);
    let mut writer = report_writer(format, out, options, view.trace.about.word, view.names);
    writer.begin(view)?;
    if let Some(origin) = origin {
        writer.report(&origin.report())?;
    }
    for report in &reports {
        if reports.len() > 1 {
            writer.heading(report.title)?;
        }
        writer.report(report)?;
    }
    writer.notes(&shared)?;
    writer.finish(&view.trace.issues)?;
    Ok(())
}

/// The reports of a request with all their rows, each made when it is asked for.
pub(super) fn all<'m>(made: &'m mut Made<'_>, request: &'m ReportRequest) -> impl Iterator<Item = Report> + 'm {
    let trace = made.system().trace;
    request.names.iter().flat_map(move |name| {
        let mut reports = made.report(*name, usize::MAX);
        mark_doubts(trace, &mut reports);
        reports
    })
}

/// Prints one report after the other, so that the rows of one take room at a time: programs get all rows. Those of the
/// kernel in memory, where it was read, come last, with the backtraces of its threads; after them what `explain` finds.
pub(super) fn stream(
    reports: impl Iterator<Item = impl Borrow<Report>>,
    (kernel, explanation): (Option<(Width, Vec<Report>)>, Option<&Explanation>),
    view: &View<'_>,
    format: Format,
    options: &TableOptions,
    out: &mut dyn Write,
) -> Result<(), Error> {
    let mut writer = report_writer(format, &mut *out, options, view.trace.about.word, view.names);
    writer.begin(view)?;
    let pointer = kernel.as_ref().map_or(view.trace.about.word, |(pointer, _)| *pointer);
    for report in reports {
        writer.report(report.borrow())?;
    }
    if let Some((pointer, reports)) = kernel {
        writer.addresses(pointer);
        for report in reports {
            writer.report(&report)?;
        }
    }
    if let Some(explanation) = explanation {
        if format.has_issues() {
            // Its lines of findings are not those of a report.
            writer.flush()?;
            drop(writer);
            page::lines(explanation, pointer, out)?;
            writer = report_writer(format, &mut *out, options, pointer, view.names);
        } else if !explanation.findings.is_empty() {
            writer.report(&page::table(explanation))?;
        }
    }
    writer.finish(&view.trace.issues)?;
    Ok(())
}
