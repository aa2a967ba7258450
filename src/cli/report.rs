//! `report`: for people one document, from what runs now down to the counters; for programs the rows of its tables.

mod facts;
mod notes;
mod summary;
mod verdict;

use std::io::Write;

use super::backtraces::{Named, Stacks, Wanted};
use super::crash::Places;
use super::names::SymbolNames;
use super::print;
use super::sink::Sink;
use super::{explain, now, reports, threads};
use crate::abi::Addr;
use crate::analysis::{Name, ReportRequest};
use crate::error::Error;
use crate::explain::{Confidence, Explanation};
use crate::kernel::{self, Detail, Kernel};
use crate::output::picture::html;
use crate::output::{Format, Part, Reader, ReportWriter, Resolve, TableOptions, UNLIMITED, View, report_writer};
use crate::query::{Filters, Query};
use crate::report::{Cell, Report};
use crate::session::{Interrupted, Loaded, Target};
use crate::trace::Trace;

pub use facts::date;
use notes::Notes;
use summary::Summary;

/// Rows of threads.
const THREADS: usize = 100;
/// Columns of inversions that fit a terminal and a page; `inversions` has all.
const INVERSIONS: [&str; 9] = ["waiter", "owner", "mutex", "ticks", "ended", "culprit", "culprit_ticks", "from", "to"];
/// Columns of waits that do; `blocked` has all.
const WAITS: [&str; 6] = ["thread", "object", "call", "open", "since", "total"];

/// What is read for the document beside the trace.
pub struct Found {
    /// The lines of its head.
    facts: Vec<(&'static str, String)>,
    /// The kernel's objects in memory, where they can be read.
    kernel: Option<Kernel>,
    /// The stacks of its threads, where the program says how functions are unwound.
    stacks: Option<Stacks>,
    /// What most likely went wrong.
    explanation: Explanation,
    /// What the events say, for people.
    summary: Option<Summary>,
    /// The rows of all reports, for programs.
    rows: Vec<Report>,
}

/// What a document is asked: reports, and the events to look at.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    /// Its tables.
    pub request: &'a ReportRequest,
    /// Of which events.
    pub filters: &'a Filters,
    /// Who reads it.
    pub reader: Reader,
}

/// Reads it. The state of the kernel is what `threads` shows; a trace without memory has none.
pub fn read(target: &mut Target<'_>, loaded: &mut Loaded, asked: Asked<'_>) -> Result<Found, Error> {
    let kernel = threads::beside(target, &mut loaded.trace)?;
    let stacks = match &kernel {
        Some(kernel) if target.has_unwind_information() => Stacks::read(kernel, target, &Wanted::All)?,
        _ => None,
    };
    let (explanation, summary, rows) = summary::read(target, loaded, kernel.as_ref(), asked)?;
    Ok(Found { facts: facts::read(target, &loaded.trace), kernel, stacks, explanation, summary, rows })
}

impl Found {
    /// The kernel with the functions that called it, and the backtraces of its threads.
    fn named(&self, target: &Target<'_>) -> (Option<Kernel>, Option<Named<'_>>) {
        let mut kernel = self.kernel.clone();
        let named = kernel.as_mut().zip(self.stacks.as_ref()).map(|(kernel, stacks)| stacks.name(kernel, target));
        (kernel, named)
    }

    /// What most likely went wrong.
    pub(super) const fn explanation(&self) -> &Explanation {
        &self.explanation
    }

    /// The lines of its head.
    pub(super) fn facts(&self) -> &[(&'static str, String)] {
        &self.facts
    }

    /// Adds when the bytes are from.
    pub(super) fn date(&mut self, date: Option<String>) {
        let at = self.facts.len().min(1);
        self.facts.splice(at..at, date.map(|date| ("time", date)));
    }

    /// Adds what the bytes of the trace are: a page is read where the files are not.
    pub(super) fn digest(&mut self, target: &mut Target<'_>) {
        self.facts.extend(reports::digest(target).map(|digest| ("bytes", digest)));
    }
}

/// Names for the addresses of a trace, which may be cut to its words, and for those in memory, which are whole.
struct Names<'a> {
    of_trace: SymbolNames<'a>,
    whole: SymbolNames<'a>,
}

impl<'a> Names<'a> {
    fn of(target: &'a Target<'_>, trace: &'a Trace) -> Self {
        let arm = target.elf().is_some_and(|elf| elf.machine() == crate::elf::Machine::ARM);
        Self { of_trace: SymbolNames::new(target, trace), whole: SymbolNames::whole(target, arm) }
    }
}

impl Resolve for Names<'_> {
    fn object(&self, address: Addr) -> Option<String> {
        self.of_trace.object(address).or_else(|| self.whole.object(address))
    }

    fn code(&self, address: Addr) -> Option<String> {
        self.whole.code(address).or_else(|| self.of_trace.code(address))
    }

    fn exception(&self, number: u32) -> Option<String> {
        self.of_trace.exception(number)
    }
}

/// What the document is made of.
pub struct Document<'a> {
    /// What was read beside the trace.
    pub found: Option<&'a Found>,
    /// Where the running thread is.
    pub stopped: Option<&'a Interrupted>,
    /// The trace.
    pub loaded: &'a Loaded,
    /// Its events that the filters keep.
    pub query: &'a Query<'a>,
    /// What was opened.
    pub target: &'a Target<'a>,
}

impl Document<'_> {
    fn facts(&self) -> Vec<(&'static str, String)> {
        let mut facts = self.found.map(|found| found.facts.clone()).unwrap_or_default();
        if !self.query.keeps_all() {
            facts.push((
                "filters",
                "events and tables are of what the filters keep, all else is of the whole trace".to_owned(),
            ));
        }
        facts
    }

    fn kernel(&self) -> Option<&Kernel> {
        self.found.and_then(|found| found.kernel.as_ref())
    }

    /// The kernel with the functions that called it, and the backtraces of its threads.
    fn named(&self) -> (Option<Kernel>, Option<Named<'_>>) {
        self.found.map(|found| found.named(self.target)).unwrap_or_default()
    }

    /// Prints it: for programs the rows of all reports, and those of `threads`.
    pub(super) fn print(&self, format: Format, options: &TableOptions, sink: &mut Sink<'_>) -> Result<(), Error> {
        let Loaded { trace, catalogue, .. } = self.loaded;
        let names = Names::of(self.target, trace);
        let view = View { trace, catalogue, names: &names, source: self.target.name() };
        if format.reader() == Reader::Program {
            let (kernel, named) = self.named();
            let kernel = kernel.as_ref();
            let backtraces = kernel.zip(named).and_then(|(kernel, named)| named.report(kernel, Reader::Program));
            let kernel = kernel.map(|kernel| {
                let mut reports = kernel::reports(kernel, Detail::Full);
                reports.splice(1..1, Places::of(kernel, self.target).reports(kernel, Reader::Program));
                reports.extend(backtraces);
                (kernel.layout.shape.pointer, reports)
            });
            let (rows, explanation) =
                self.found.map_or((&[][..], None), |found| (&found.rows, Some(&found.explanation)));
            return reports::stream(rows.iter(), (kernel, explanation), &view, format, options, sink);
        }
        let is_page = format.reader() == Reader::Page;
        let writer = report_writer(format, sink, options, trace.about.word, &names);
        self.people(&view, options, Pages { writer, notes: Notes::default(), is_page })
    }

    /// The same for the page of a timeline.
    pub fn page(&self) -> Result<Vec<html::Document>, Error> {
        let Loaded { trace, catalogue, .. } = self.loaded;
        let names = Names::of(self.target, trace);
        let view = View { trace, catalogue, names: &names, source: self.target.name() };
        let mut documents = Vec::new();
        let writer = Box::new(html::Tables::new(&mut documents, trace.about.word, &names));
        let out = Pages { writer, notes: Notes::default(), is_page: true };
        self.people(&view, &TableOptions::default(), out)?;
        Ok(documents)
    }

    fn people(&self, view: &View<'_>, options: &TableOptions, mut out: Pages<'_>) -> Result<(), Error> {
        let trace = &self.loaded.trace;
        let Some(summary) = self.found.and_then(|found| found.summary.as_ref()) else { return Ok(()) };
        let events = self.events(summary, view, out.is_page, options)?;
        out.writer.begin(view)?;
        out.part(Part::Title(&format!("Trace report: {}", facts::source(self.target.name()))))?;
        out.part(Part::Facts(&self.facts()))?;
        out.part(Part::Section("At the end"))?;
        let crash = |kernel| Places::of(kernel, self.target).sentences(kernel);
        let found = self.found.and_then(|found| likely(&found.explanation, self.kernel()));
        let mut sentences = verdict::doubts(trace);
        sentences.extend(found);
        sentences.extend(self.kernel().map(crash).unwrap_or_default());
        sentences.extend_from_slice(&summary.sentences);
        out.part(Part::Sentences(&sentences))?;
        out.part(Part::Section("Last events"))?;
        out.part(Part::Lines(&events))?;
        let (kernel, named) = self.named();
        self.threads(kernel.as_ref(), summary, options, &mut out)?;
        if let (Some(kernel), Some(named)) = (&kernel, named) {
            let report = if out.is_page { named.report(kernel, Reader::Page) } else { Some(named.short(kernel)) };
            let report = report.filter(|report| !report.rows.is_empty());
            out.folded("Backtraces", report.into_iter().collect(), "threads --bt")?;
        }
        let some = |name, columns: &[&str]| {
            let mut reports = summary.reports(name);
            reports.iter_mut().for_each(|report| only(report, columns));
            reports
        };
        out.tables(some(Name::Inversions, &INVERSIONS), "inversions")?;
        out.tables(some(Name::Blocked, &WAITS), "blocked")?;
        for (title, name, command) in [
            ("Latency", Name::Latency, "latency"),
            ("Processor time", Name::Profile, "profile"),
            ("Statistics", Name::Stats, "stats"),
            ("Events", Name::Services, "services"),
            ("Stacks by events", Name::Stack, "stack"),
            ("Use of objects", Name::Use, "objects --use"),
        ] {
            out.folded(title, summary.reports(name), command)?;
        }
        out.notes(&trace.issues)?;
        out.part(Part::End)?;
        out.writer.finish(&trace.issues)?;
        Ok(())
    }

    /// The last events as a terminal shows them, and who runs now.
    fn events(
        &self,
        summary: &Summary,
        view: &View<'_>,
        is_page: bool,
        options: &TableOptions,
    ) -> Result<String, Error> {
        let mut text = Vec::new();
        // A page has the events as a terminal shows them.
        let options =
            if is_page { TableOptions { width: UNLIMITED, ..TableOptions::default() } } else { options.clone() };
        let any = print::print_last(&summary.events, view, options.clone(), &mut Sink::over(&mut text))?;
        if !any {
            text.clear();
            writeln!(text, "{}", print::none(view.trace))?;
        }
        now::print(self.loaded, self.stopped, view, &options.styles, &mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// The threads and what they hold: from memory, else what the events say.
    fn threads(
        &self,
        kernel: Option<&Kernel>,
        summary: &Summary,
        options: &TableOptions,
        out: &mut Pages<'_>,
    ) -> Result<(), Error> {
        let Some(kernel) = kernel else {
            return out.table("Threads", summary.threads.clone(), "list --event internal_thread_*");
        };
        // A page has the columns that a narrow terminal has: what a thread waits for must be visible.
        let width = if out.is_page { 0 } else { options.width };
        let mut reports = kernel::reports(kernel, Detail::Summary { width, all: false });
        reports.iter_mut().for_each(|report| summary::shorten(report, THREADS));
        let reader = if out.is_page { Reader::Page } else { Reader::Terminal };
        reports.splice(1..1, Places::of(kernel, self.target).reports(kernel, reader));
        out.tables(reports, "threads")
    }
}

/// Writes the sections, and keeps notes for the end.
struct Pages<'w> {
    writer: Box<dyn ReportWriter + 'w>,
    notes: Notes,
    is_page: bool,
}

impl Pages<'_> {
    fn part(&mut self, part: Part<'_>) -> Result<(), Error> {
        Ok(self.writer.part(&part)?)
    }

    /// Tables, each a section.
    fn tables(&mut self, reports: Vec<Report>, command: &str) -> Result<(), Error> {
        reports.into_iter().try_for_each(|report| self.table(report.title, report, command))
    }

    /// A section of several tables that a page folds.
    fn folded(&mut self, title: &str, reports: Vec<Report>, command: &str) -> Result<(), Error> {
        if self.is_page {
            self.part(Part::Folded(title))?;
        }
        for (i, report) in reports.into_iter().enumerate() {
            if !self.is_page || i > 0 {
                self.writer.heading(report.title)?;
            }
            self.rows(report, command)?;
        }
        Ok(())
    }

    /// A section of one table.
    fn table(&mut self, title: &str, report: Report, command: &str) -> Result<(), Error> {
        self.part(Part::Section(title))?;
        self.rows(report, command)
    }

    /// The rows of a table, and how many more there are. On a page no column is empty from top to bottom.
    fn rows(&mut self, mut report: Report, command: &str) -> Result<(), Error> {
        self.notes.add(&report);
        report.notes.clear();
        if self.is_page {
            without_empty_columns(&mut report);
        }
        self.writer.report(&report)?;
        if report.more > 0 { self.part(Part::More(report.more, command)) } else { Ok(()) }
    }

    /// The notes of all tables, each once, and what is wrong with the trace.
    fn notes(&mut self, issues: &[crate::trace::Issue]) -> Result<(), Error> {
        let sentences = std::mem::take(&mut self.notes).sentences(issues);
        if sentences.is_empty() {
            return Ok(());
        }
        self.part(if self.is_page { Part::Folded("Notes") } else { Part::Section("Notes") })?;
        self.part(Part::Sentences(&sentences))
    }
}

/// What most likely went wrong, in a sentence. That nothing was found says something only where the kernel was read.
fn likely(explanation: &Explanation, kernel: Option<&Kernel>) -> Option<String> {
    let cause = match explanation.findings.first().map(|first| first.confidence) {
        None => {
            let nothing = "Nothing wrong found: explain --all lists what was checked.";
            return kernel.map(|_| nothing.to_owned());
        }
        Some(Confidence::Proven) => "Cause: ",
        Some(Confidence::Likely) => "Likely cause: ",
        Some(Confidence::Hint) => "",
    };
    let headline = explain::page::headline(explanation);
    Some(format!("{cause}{headline}. explain has the evidence."))
}

/// Leaves out columns without any cell.
fn without_empty_columns(report: &mut Report) {
    let is_used = |at: usize| report.rows.iter().any(|row| row.get(at).is_some_and(|cell| *cell != Cell::Empty));
    let used: Vec<bool> = (0..report.columns.len()).map(is_used).collect();
    if used.contains(&true) {
        report.keep_columns(|at, _| used.get(at).is_some_and(|used| *used));
    }
}

/// Leaves out all but these columns.
fn only(report: &mut Report, names: &[&str]) {
    report.keep_columns(|_, column| names.contains(&column.name));
}
