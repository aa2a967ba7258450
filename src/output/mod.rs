//! MODEL OR REPORT TO TEXT. Names are joined once, in [`Rows`]; each sink only writes what it is given.
//!
//! A sink is pushed to: begin, events, finish. Data goes to the writer that the
//! sink was given and nowhere else; what is said about the data ([`write_issues`]) goes where the caller says.

mod csv;
mod escape;
mod issues;
mod json;
mod line;
mod listing;
mod markdown;
mod report;
mod row;
mod scale;
mod show;
mod styles;
mod table;
mod text;
mod window;

use std::io::{self, BufWriter, Write};

pub use csv::Csv;
pub use escape::{escape, escape_into, is_hostile};
pub use issues::write_issues;
pub use json::{Json, write_error};
pub use listing::{InMemory, catalogue, objects, write_trace};
pub use markdown::MdReports;
pub use report::{CsvReports, JsonReports, TableReports};
pub use row::{Arg, Rows};
pub use scale::Scale;
pub use show::Show;
pub use styles::{Style, Styles};
pub use table::{Table, TableOptions, TimeFrom, WIDEST};
pub use window::Window;

use crate::abi::{Addr, Width};
use crate::catalogue::Catalogue;
use crate::report::Report;
use crate::trace::{Event, Issue, Trace};

/// Names that the trace itself does not know: an ELF's, for one. Implemented by the caller.
pub trait Resolve {
    /// The name of the variable that covers this address, as C writes its address: `&queue`, `&queues+0x48`.
    fn object(&self, address: Addr) -> Option<String> {
        let _ = address;
        None
    }

    /// The name of the function that covers this address, with the offset into it.
    fn code(&self, address: Addr) -> Option<String> {
        let _ = address;
        None
    }

    /// The name of the exception of this number, where the processor numbers them.
    fn exception(&self, number: u32) -> Option<String> {
        let _ = number;
        None
    }
}

/// No further names.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoNames;

impl Resolve for NoNames {}

/// What a sink looks at, handed in with every call: `follow` reads the trace again while the sink lives on.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// The trace.
    pub trace: &'a Trace,
    /// What its ids mean.
    pub catalogue: &'a Catalogue,
    /// Names from elsewhere.
    pub names: &'a dyn Resolve,
    /// Where the bytes came from, for people and for JSON's `source`.
    pub source: &'a str,
}

impl View<'_> {
    /// Digits of a stored word in hexadecimal.
    fn digits(&self) -> usize {
        digits(self.trace.about.word)
    }

    /// Digits of a stamp, which can be wider than a word.
    fn stamp_digits(&self) -> usize {
        self.digits().max(if self.trace.clock.mask > Width::W4.max() { digits(Width::W8) } else { 0 })
    }
}

/// Digits of a word of this width in hexadecimal.
const fn digits(word: Width) -> usize {
    word.bytes().saturating_mul(2)
}

/// Bytes that a writer gathers before it hands them on.
const BUFFER: usize = 1 << 16;

fn buffered<W: Write>(out: W) -> BufWriter<W> {
    BufWriter::with_capacity(BUFFER, out)
}

/// Takes events one by one.
pub trait EventSink {
    /// What comes before the first event. `window` tells what will come, where that is known.
    ///
    /// # Errors
    /// Where the writer fails.
    fn begin(&mut self, view: &View<'_>, window: &Window) -> io::Result<()>;

    /// One event.
    ///
    /// # Errors
    /// Where the writer fails.
    fn event(&mut self, view: &View<'_>, event: &Event) -> io::Result<()>;

    /// Names may be others from here on: what was joined before is forgotten.
    fn renew(&mut self) {}

    /// Something went wrong right here. Formats that are data alone leave it to whoever talks.
    ///
    /// # Errors
    /// Where the writer fails.
    fn issue(&mut self, view: &View<'_>, issue: &Issue) -> io::Result<()> {
        let _ = (view, issue);
        Ok(())
    }

    /// Hands on what was gathered so far: `follow` calls it after each poll.
    ///
    /// # Errors
    /// Where the writer fails.
    fn flush(&mut self) -> io::Result<()>;

    /// What comes after the last event.
    ///
    /// # Errors
    /// Where the writer fails.
    fn finish(&mut self, view: &View<'_>, issues: &[Issue]) -> io::Result<()>;
}

/// Takes reports one by one.
pub trait ReportWriter {
    /// What comes before the first report: JSON says what the trace is.
    ///
    /// # Errors
    /// Where the writer fails.
    fn begin(&mut self, view: &View<'_>) -> io::Result<()> {
        let _ = view;
        Ok(())
    }

    /// The name of the report that follows, where there are several and the format does not tell by itself.
    ///
    /// # Errors
    /// Where the writer fails.
    fn heading(&mut self, name: &str) -> io::Result<()> {
        let _ = name;
        Ok(())
    }

    /// One report.
    ///
    /// # Errors
    /// Where the writer fails.
    fn report(&mut self, report: &Report) -> io::Result<()>;

    /// Hands on what was gathered so far.
    ///
    /// # Errors
    /// Where the writer fails.
    fn flush(&mut self) -> io::Result<()>;

    /// What comes after the last report.
    ///
    /// # Errors
    /// Where the writer fails.
    fn finish(&mut self, issues: &[Issue]) -> io::Result<()>;
}

/// How data is written: `--format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// For people.
    #[default]
    Table,
    /// JSON Lines.
    Json,
    /// Comma-separated values.
    Csv,
    /// Markdown; reports only.
    Md,
}

impl Format {
    /// The format of this name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Table, Self::Json, Self::Csv, Self::Md].into_iter().find(|f| f.name() == text)
    }

    /// Its name in `--format`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Json => "json",
            Self::Csv => "csv",
            Self::Md => "md",
        }
    }
}

/// A sink for events in this format; `None` for Markdown, which is for reports.
#[must_use]
pub fn event_sink<'w>(format: Format, out: impl Write + 'w, options: &TableOptions) -> Option<Box<dyn EventSink + 'w>> {
    Some(match format {
        Format::Table => Box::new(Table::new(out, options.clone())),
        Format::Json => Box::new(Json::new(out)),
        Format::Csv => Box::new(Csv::new(out)),
        Format::Md => return None,
    })
}

/// A writer of reports in this format. `word` gives addresses their width, `names` turns code addresses into
/// functions.
#[must_use]
pub fn report_writer<'w>(
    format: Format,
    out: impl Write + 'w,
    options: &TableOptions,
    word: Width,
    names: &'w dyn Resolve,
) -> Box<dyn ReportWriter + 'w> {
    match format {
        Format::Table => Box::new(TableReports::new(out, options.clone(), word, names)),
        Format::Json => Box::new(JsonReports::new(out, word, names)),
        Format::Csv => Box::new(CsvReports::new(out, word, names)),
        Format::Md => Box::new(MdReports::new(out, word, names)),
    }
}
