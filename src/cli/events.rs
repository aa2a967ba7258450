//! `events`: the catalogue, and what the application's events are called.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use super::Outcome;
use super::diagnostics::Diagnostics;
use super::options;
use super::request::{Output, Request, Task, enum_names, variable};
use super::sink::Sink;
use crate::abi::Width;
use crate::catalogue::user::UserEvents;
use crate::catalogue::{Catalogue, Names, Product};
use crate::code::Code;
use crate::error::Error;
use crate::format;
use crate::output::{self, NoNames, Reader};
use crate::query::{self, Filters, Key};
use crate::report::{Cell, Report};
use crate::session::{self, events::EventNames};

/// What to list.
struct Events {
    /// Names, globs, ids, ranges.
    words: Vec<String>,
    /// Classes.
    class: Vec<String>,
    format: &'static dyn format::Format,
    names: Names,
    /// Only those of the application.
    user: bool,
    elf: Option<PathBuf>,
    files: Vec<PathBuf>,
    enums: Vec<String>,
    /// Written as what `--events` reads: this of it.
    text: Option<ToText>,
}

/// A format of the list.
#[derive(Debug, Clone, Copy)]
pub enum Format {
    /// That of a report.
    Report(output::Format),
    /// One that `--events` reads.
    Text(ToText),
}

/// How the application's events get names.
const NAMES: &str = "--elf FILE or --events FILE names the application's events: tx-trace help events";

type ToText = fn(&UserEvents) -> String;

/// The formats that `--events` reads, each with its help.
const TEXTS: [(&str, &str, ToText); 2] = [
    ("tsv", "The application's events as `--events` reads them", UserEvents::to_tsv),
    ("trxc", "The application's events as TraceX reads them", UserEvents::to_trxc),
];

/// What `--format` takes.
pub(super) fn formats() -> impl TypedValueParser<Value = Format> {
    let reports = output::Format::ALL.into_iter().map(|f| PossibleValue::new(f.name()).help(f.help()));
    let texts = TEXTS.into_iter().map(|(name, help, _)| PossibleValue::new(name).help(help));
    PossibleValuesParser::new(reports.chain(texts)).map(|typed| {
        let text = TEXTS.into_iter().find(|(name, ..)| *name == typed);
        let report = || Format::Report(output::Format::parse(&typed).unwrap_or_default());
        text.map_or_else(report, |(.., text)| Format::Text(text))
    })
}

/// Of what was typed.
pub(super) fn request(e: options::Events) -> Result<Request, Error> {
    let format = e.format_in.or_else(|| format::ALL.first().copied());
    let format = format.ok_or_else(|| Error::usage(Code::FormatIn, "no format is built in"))?;
    let (printed, text) = match e.format {
        Format::Report(format) => (format, None),
        Format::Text(text) => (output::Format::default(), Some(text)),
    };
    if text.is_some() && !e.user {
        return Err(Error::usage(Code::Usage, "--format tsv and trxc are of the application's events: add --user"));
    }
    let from_environment = || variable("TX_TRACE_ELF").filter(|_| e.user).map(PathBuf::from);
    let events = Events {
        words: e.words,
        class: e.class,
        format,
        names: e.netx,
        user: e.user,
        elf: e.elf.or_else(from_environment),
        files: e.names.events,
        enums: enum_names(&e.names.event_enum),
        text,
    };
    Ok(Request::new(events, Output::new(printed, e.printing)))
}

impl Task for Events {
    fn files(&self) -> Vec<PathBuf> {
        self.elf.iter().chain(&self.files).cloned().collect()
    }

    fn run(self: Box<Self>, output: &Output, diagnostics: &Diagnostics) -> Result<Outcome, Error> {
        let mut catalogue = self.format.catalogue(self.names);
        let names = self.names(&mut catalogue, diagnostics)?;
        if let Some(text) = self.text {
            return write_text(text, &names.collect(&catalogue), output);
        }
        let report = self.report(&catalogue)?;
        let mut sink = Sink::open(output, None)?;
        if report.rows.is_empty() {
            let (nothing, hint) = self.nothing(&catalogue);
            diagnostics.failed(nothing);
            diagnostics.hint(hint);
        }
        if !report.rows.is_empty() || output.format.reader() == Reader::Program {
            print(&report, output, &mut sink)?;
        }
        sink.finish()?;
        Ok(if report.rows.is_empty() { Outcome::NotFound } else { Outcome::Done })
    }
}

impl Events {
    /// Names the application's events in the catalogue.
    fn names(&self, catalogue: &mut Catalogue, diagnostics: &Diagnostics) -> Result<EventNames, Error> {
        let ids = || catalogue.user_ids().unwrap_or(0..=u32::MAX);
        let mut names = EventNames::open(&self.files, self.enums.clone(), self.elf.as_deref(), ids)?;
        names.add_of_files(catalogue)?;
        if let Some(path) = &self.elf {
            let elf = Arc::new(session::open_elf(path)?);
            diagnostics.issues(session::cut_short(path, &elf).as_slice());
            names.add_all_of_elf(&elf, catalogue)?;
        }
        diagnostics.issues(names.issues());
        for how in names.sources().iter().filter(|_| self.user) {
            diagnostics.say(how);
        }
        Ok(names)
    }

    /// The rows that were asked for.
    fn report(&self, catalogue: &Catalogue) -> Result<Report, Error> {
        let mut filters = Filters::default();
        for word in &self.words {
            filters.add(Key::Event, word)?;
        }
        let words = self.words.iter().map(Path::new);
        if let Some(file) = words.into_iter().find(|word| word.is_file()) {
            return Err(self.file_as_event(file));
        }
        for class in &self.class {
            filters.add(Key::Class, class)?;
        }
        let keep = query::definitions(&filters, catalogue)?;
        let own = catalogue.iter().map(|d| !self.user || d.product == Product::User);
        let mut kept = keep.into_iter().zip(own).map(|(keep, own)| keep && own);
        let all = output::catalogue(catalogue);
        let rows = all.rows.iter().filter(|_| kept.next().unwrap_or(true)).map(<[Cell]>::to_vec).collect();
        Ok(Report { rows, ..all })
    }

    /// A word that is a file. Names of events have no dots and slashes, but a file may have any name.
    fn file_as_event(&self, file: &Path) -> Error {
        let file = file.display();
        let user = if self.user { "--user " } else { "" };
        Error::usage(Code::Usage, format!("{file} is a file: arguments of `events` are names, globs or ids of events"))
            .hint(format!("tx-trace events {user}--elf {file}, or --events {file} for a file of names"))
    }

    /// Why nothing is listed, and what to do.
    fn nothing(&self, catalogue: &Catalogue) -> (String, &'static str) {
        let asked: Vec<&str> = self.words.iter().chain(&self.class).map(String::as_str).collect();
        let asked = asked.join(" ");
        match (self.user, asked.is_empty()) {
            (true, true) => ("no event of the application is known".to_owned(), NAMES),
            (true, false) => (format!("no event of the application matches {asked}"), NAMES),
            (false, _) if self.is_of_application(catalogue) => {
                (format!("{asked}: an id of the application's own events, whose names are not known"), NAMES)
            }
            // A class that the catalogue does not know is refused before.
            (false, _) if self.words.is_empty() => {
                (format!("{asked}: the class of the application's own events, whose names are not known"), NAMES)
            }
            (false, _) => (format!("no event of the catalogue matches {asked}"), "`tx-trace events` lists them all"),
        }
    }

    /// True where ids are asked for, and all of them are the application's.
    fn is_of_application(&self, catalogue: &Catalogue) -> bool {
        let id = |word: &String| word.parse().is_ok_and(|id| catalogue.user_ids().is_some_and(|ids| ids.contains(&id)));
        self.class.is_empty() && !self.words.is_empty() && self.words.iter().all(id)
    }
}

fn print(report: &Report, output: &Output, sink: &mut Sink<'_>) -> Result<(), Error> {
    let mut report = report.clone();
    let options = sink.table_options(output);
    if output.format.reader() == Reader::Terminal && report.rows.len() > 1 {
        // Of one event all is shown. A list has three columns in 80, one more from 120, all from 200.
        report.truncate_columns(match options.width {
            ..120 => 3,
            120..200 => 4,
            _ => usize::MAX,
        });
    }
    let mut writer = output::report_writer(output.format, sink, &options, Width::W4, &NoNames);
    writer.report(&report)?;
    writer.finish(&[])?;
    Ok(())
}

/// Writes the application's events as what `--events` reads.
fn write_text(text: ToText, user: &UserEvents, output: &Output) -> Result<Outcome, Error> {
    if user.events.is_empty() {
        return Err(Error::not_found(
            Code::NoUserEvents,
            "no event of the application is known",
            "--elf FILE or --events FILE names them",
        ));
    }
    let mut sink = Sink::open(output, None)?;
    sink.write_all(text(user).as_bytes())?;
    sink.finish()?;
    Ok(Outcome::Done)
}
