//! Model or report to text. Names are found in one place, `row::Rows`; each sink only writes what it is given.
//!
//! A sink is pushed to: begin, events, finish. Data goes to the writer that the
//! sink was given and nowhere else; what is said about the data ([`write_issues`]) goes where the caller says.

mod arguments;
mod csv;
mod document;
mod escape;
mod issues;
mod json;
mod layout;
mod line;
mod listing;
mod markdown;
mod outcome;
pub mod picture;
mod report;
mod report_table;
mod row;
mod scale;
mod schema;
mod short;
mod show;
mod styles;
mod table;
mod text;
mod window;

use std::io::{self, BufWriter, Write};

pub use csv::Csv;
pub use document::Part;
pub use escape::{escape, escape_into, is_hostile};
pub use issues::{by_weight, issue_text, sentence, write_issues};
pub use json::{Json, SCHEMA, line as write_line, write_error};
pub use layout::{ExtraColumn, TableOptions, TimeFrom, UNLIMITED};
pub use listing::{InMemory, catalogue, objects};
pub use schema::JSON_SCHEMA;
pub use show::Show;
pub use styles::{Style, Styles};
pub use table::Table;
pub use window::Window;

use markdown::MdReports;
use report::{CsvReports, JsonReports};
use report_table::TableReports;

use crate::abi::{Addr, Width};
use crate::analysis::Outcome;
use crate::catalogue::Catalogue;
use crate::error::Error;
use crate::report::Report;
use crate::trace::{Event, Issue, Trace};

/// Names that the trace itself does not know: an ELF's, for one. Implemented by the caller.
#[allow(unused_variables, reason = "these do nothing unless they are implemented")]
pub trait Resolve {
    /// The name of the variable that covers this address, as C writes its address: `&queue`, `&queues+0x48`.
    fn object(&self, address: Addr) -> Option<String> {
        None
    }

    /// The name of the function that covers this address, with the offset into it.
    fn code(&self, address: Addr) -> Option<String> {
        None
    }

    /// The name of the exception of this number, where the processor numbers them.
    fn exception(&self, number: u32) -> Option<String> {
        None
    }
}

/// No further names.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoNames;

impl Resolve for NoNames {}

/// What a sink looks at, passed with every call: `follow` reads the trace again while the sink lives on.
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
#[allow(unused_variables, reason = "these do nothing unless they are implemented")]
pub trait EventSink {
    /// What comes before the first event. `window` describes what will come, where that is known.
    ///
    /// # Errors
    /// Where the writer fails.
    fn begin(&mut self, view: &View<'_>, window: &Window) -> io::Result<()>;

    /// The outcome of the call of the event that comes next. Formats of data alone ignore it.
    fn outcome(&mut self, outcome: Outcome) {}

    /// One event.
    ///
    /// # Errors
    /// Where the writer fails.
    fn event(&mut self, view: &View<'_>, event: &Event) -> io::Result<()>;

    /// Names may be others from here on: what was joined before is forgotten.
    fn renew(&mut self) {}

    /// Something went wrong right here. Formats of data alone ignore it: the caller prints it.
    ///
    /// # Errors
    /// Where the writer fails.
    fn issue(&mut self, view: &View<'_>, issue: &Issue) -> io::Result<()> {
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
#[allow(unused_variables, reason = "these do nothing unless they are implemented")]
pub trait ReportWriter {
    /// What comes before the first report: JSON says what the trace is.
    ///
    /// # Errors
    /// Where the writer fails.
    fn begin(&mut self, view: &View<'_>) -> io::Result<()> {
        Ok(())
    }

    /// Writes the trace's objects, each with its current state where that is known, in a form of their own; false where
    /// they come as a report.
    ///
    /// # Errors
    /// Where the writer fails.
    fn objects(&mut self, view: &View<'_>, states: &[InMemory]) -> io::Result<bool> {
        Ok(false)
    }

    /// The title of the report that follows, where there are several and the format does not show it by itself.
    ///
    /// # Errors
    /// Where the writer fails.
    fn heading(&mut self, title: &str) -> io::Result<()> {
        Ok(())
    }

    /// What is true of several of the reports that came: once, below all of them. Formats of data alone ignore it.
    ///
    /// # Errors
    /// Where the writer fails.
    fn notes(&mut self, notes: &[String]) -> io::Result<()> {
        Ok(())
    }

    /// A part of a document that is no table; formats for programs have none.
    ///
    /// # Errors
    /// Where the writer fails.
    fn part(&mut self, part: &Part<'_>) -> io::Result<()> {
        Ok(())
    }

    /// Addresses are this wide from here on. Formats for people print them as they are.
    fn addresses(&mut self, word: Width) {}

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

/// A format of `--format`: a row of [`Format::ALL`].
#[derive(Debug, Clone, Copy)]
pub struct Format(&'static Row);

/// What is known of a format.
#[derive(Debug)]
struct Row {
    /// Its name in `--format`.
    name: &'static str,
    /// What it is, for `--help`.
    help: &'static str,
    reader: Reader,
    /// A monitor line may ask for it.
    monitor: bool,
    /// Writes an error, where the output has everything in it: first what the trace is, then data, issues and errors.
    /// Without this, issues and errors go to stderr alone.
    error: Option<WriteError>,
    /// Writes events; `None` for a format of reports.
    events: Option<WriteEvents>,
    /// Writes reports. The width is that of addresses; the names are those of functions and variables.
    reports: for<'w> fn(Out<'w>, &TableOptions, Width, &'w dyn Resolve) -> Box<dyn ReportWriter + 'w>,
}

type Out<'w> = Box<dyn Write + 'w>;
type WriteError = fn(&mut dyn Write, &Error) -> io::Result<()>;
type WriteEvents = for<'w> fn(Out<'w>, &TableOptions) -> Box<dyn EventSink + 'w>;

/// Who reads what a format writes. This decides which columns it gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// A person at a terminal, which has a width.
    Terminal,
    /// A person with a page of any width.
    Page,
    /// A program: it gets all columns, and numbers as they are stored.
    Program,
}

impl Format {
    /// Every format, the default first.
    pub const ALL: [Self; 4] = [
        Self(&Row {
            name: "table",
            help: "For people",
            reader: Reader::Terminal,
            monitor: true,
            error: None,
            events: Some(|out, options| Box::new(Table::new(out, options.clone()))),
            reports: |out, options, word, names| Box::new(TableReports::new(out, options.clone(), word, names)),
        }),
        Self(&Row {
            name: "json",
            help: "JSON Lines",
            reader: Reader::Program,
            monitor: true,
            error: Some(write_error),
            events: Some(|out, _| Box::new(Json::new(out))),
            reports: |out, _, word, names| Box::new(JsonReports::new(out, word, names)),
        }),
        Self(&Row {
            name: "csv",
            help: "Comma-separated values",
            reader: Reader::Program,
            monitor: false,
            error: None,
            events: Some(|out, _| Box::new(Csv::new(out))),
            reports: |out, _, word, names| Box::new(CsvReports::new(out, word, names)),
        }),
        Self(&Row {
            name: "md",
            help: "Markdown",
            reader: Reader::Page,
            monitor: false,
            error: None,
            events: None,
            reports: |out, _, word, names| Box::new(MdReports::new(out, word, names)),
        }),
    ];

    /// The format of this name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|f| f.name() == text)
    }

    /// Its name in `--format`.
    pub const fn name(self) -> &'static str {
        self.0.name
    }

    /// What it is, in a few words.
    pub const fn help(self) -> &'static str {
        self.0.help
    }

    /// Who reads it.
    pub const fn reader(self) -> Reader {
        self.0.reader
    }

    /// True where it has events, not only reports.
    pub const fn has_events(self) -> bool {
        self.0.events.is_some()
    }

    /// True where a monitor line may ask for it.
    pub const fn is_for_monitor(self) -> bool {
        self.0.monitor
    }

    /// True where the output has its issues and errors in it; otherwise they are printed beside it.
    pub const fn has_issues(self) -> bool {
        self.0.error.is_some()
    }

    /// Writes an error, in a format that has errors.
    ///
    /// # Errors
    /// Where the writer fails.
    pub fn write_error(self, out: &mut dyn Write, error: &Error) -> io::Result<()> {
        self.0.error.map_or(Ok(()), |write| write(out, error))
    }
}

impl Default for Format {
    fn default() -> Self {
        let [first, ..] = Self::ALL;
        first
    }
}

/// A sink for events in this format; `None` for a format of reports.
pub fn event_sink<'w>(format: Format, out: impl Write + 'w, options: &TableOptions) -> Option<Box<dyn EventSink + 'w>> {
    format.0.events.map(|new| new(Box::new(out), options))
}

/// A writer of reports in this format. `word` gives addresses their width, `names` turns code addresses into
/// functions.
pub fn report_writer<'w>(
    format: Format,
    out: impl Write + 'w,
    options: &TableOptions,
    word: Width,
    names: &'w dyn Resolve,
) -> Box<dyn ReportWriter + 'w> {
    (format.0.reports)(Box::new(out), options, word, names)
}
