//! The report commands: one pass over the events, then tables, JSON, CSV or Markdown.

use std::io::Write;

use super::message::{self, Failure};
use crate::analysis::{self, Wish};
use crate::output::{Format, TableOptions, View, report_writer};
use crate::query::Query;

/// Makes the reports and prints them.
pub fn print(
    wish: &Wish,
    query: &Query<'_>,
    view: &View<'_>,
    format: Format,
    options: &TableOptions,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    for note in query.notes() {
        message::say(&format!("tx-trace: {note}"));
    }
    let reports = analysis::reports(view.trace, view.catalogue, query, wish)?;
    let mut writer = report_writer(format, out, options, view.trace.about.word, view.names);
    writer.begin(view)?;
    for report in &reports {
        writer.report(report)?;
    }
    writer.finish(&view.trace.issues)?;
    Ok(())
}
