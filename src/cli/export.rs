//! `export`: the trace as a file for a viewer.

use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::path::Path;

use clap::ValueEnum;

use super::diagnostics::Diagnostics;
use super::names::SymbolNames;
use super::options::{self, ExportFormat};
use super::progress::Progress;
use super::report::{self, Document};
use super::request::{Output, Request, Task};
use super::sink::Sink;
use super::timeline::{Findings, Subject};
use super::{Outcome, explain, live, print};
use crate::analysis::ReportRequest;
use crate::code::Code;
use crate::error::Error;
use crate::format::Extent;
use crate::format::threadx::write::Writer;
use crate::output::picture::chrome::Chrome;
use crate::output::picture::html::{Html, Page};
use crate::output::picture::perfetto::Perfetto;
use crate::output::{Reader, View};
use crate::query::Query;
use crate::session::{Inputs, Interrupted, Loaded, Target};
use crate::timeline::{Noted, Plan};

/// What `export` is asked.
struct ExportTask {
    subject: Subject,
    to: ExportFormat,
}

/// Of what was typed. `--to` may be a format, and the end of a range.
pub(super) fn request<'t>(typed: options::Export, to: impl Iterator<Item = &'t String>) -> Result<Request, Error> {
    let options::Export { output: path, mut picture, strict } = typed;
    let (formats, positions): (Vec<&String>, Vec<&String>) = to.partition(|word| format(word).is_some());
    if formats.len() > 1 || positions.len() > 1 {
        return Err(Error::usage(Code::Usage, "export takes one format and one end of a range by --to"));
    }
    picture.filters.to = positions.first().map(|position| (*position).clone());
    let subject = Subject::of("export", picture).map_err(|error| match positions.first() {
        Some(word) if error.message.starts_with("--to ") => {
            Error::usage(error.code, format!("--to {word}: neither a format nor a position")).hint(FORMATS)
        }
        _ => error,
    })?;
    let Some(to) = formats.first().and_then(|word| format(word)).or_else(|| of_ending(&path)) else {
        let why = format!("export -o {}: neither the ending nor --to says which format", path.display());
        return Err(Error::usage(Code::Usage, why).hint(ENDINGS));
    };
    if let Some(other) = of_ending(&path).filter(|ending| *ending != to) {
        let name =
            |format: ExportFormat| format.to_possible_value().map_or_else(String::new, |v| v.get_name().to_owned());
        let why = format!("export -o {} --to {}: the ending means {}", path.display(), name(to), name(other));
        return Err(Error::usage(Code::Usage, why).hint(ENDINGS));
    }
    let path = Some(path).filter(|path| path.as_os_str() != "-");
    Ok(Request::new(ExportTask { subject, to }, Output { path, strict, ..Output::default() }))
}

/// The format of this name.
fn format(word: &str) -> Option<ExportFormat> {
    ExportFormat::from_str(word, false).ok()
}

/// The formats, for a hint.
const FORMATS: &str = "a format is perfetto, chrome, html or trx; a position is 100, -20, 1200t or 1.5ms";

/// What the endings mean, for a hint.
const ENDINGS: &str = ".pftrace: perfetto; .json: chrome; .html: html; .trx: trx";

/// The format that a file's ending names.
fn of_ending(path: &Path) -> Option<ExportFormat> {
    match path.extension().and_then(OsStr::to_str)? {
        "pftrace" | "perfetto-trace" => Some(ExportFormat::Perfetto),
        "json" => Some(ExportFormat::Chrome),
        "html" | "htm" => Some(ExportFormat::Html),
        "trx" => Some(ExportFormat::Trx),
        _ => None,
    }
}

impl Task for ExportTask {
    fn inputs(&self) -> Option<&Inputs> {
        Some(&self.subject.inputs)
    }

    fn run(mut self: Box<Self>, output: &Output, diagnostics: &Diagnostics) -> Result<Outcome, Error> {
        let inputs = std::mem::take(&mut self.subject.inputs);
        let findings = match self.to {
            // A page has the explanation that its report has.
            ExportFormat::Html | ExportFormat::Trx => Findings::None,
            _ => Findings::held(inputs.is_stdio()),
        };
        let read = |target: &mut Target<'static>| self.read(target, findings, diagnostics);
        live::run(inputs, diagnostics, read, |found, target, _| self.write(&found, target, output, diagnostics))
    }
}

/// What was read.
struct Found {
    loaded: Loaded,
    noted: Vec<Noted>,
    /// Of a page: what its reports show beside the trace.
    document: Option<(report::Found, Option<Interrupted>)>,
}

impl ExportTask {
    fn read(&self, target: &mut Target<'_>, findings: Findings, diagnostics: &Diagnostics) -> Result<Found, Error> {
        let (mut loaded, explanation) = self.subject.read(target, Extent::All, findings, diagnostics)?;
        let document = match self.to {
            ExportFormat::Html => {
                let (request, filters) = (&ReportRequest::default(), &self.subject.filters);
                let asked = report::Asked { request, filters, reader: Reader::Page };
                Some((report::read(target, &mut loaded, asked)?, target.interrupted(&loaded)?))
            }
            _ => None,
        };
        let explanation = document.as_ref().map(|(found, _)| found.explanation()).or(explanation.as_ref());
        let noted = explanation.map_or_else(Vec::new, |found| explain::noted(found, &loaded));
        Ok(Found { loaded, noted, document })
    }

    fn write(
        &self,
        found: &Found,
        target: &Target<'_>,
        output: &Output,
        diagnostics: &Diagnostics,
    ) -> Result<Outcome, Error> {
        let Found { loaded, noted, .. } = found;
        let Loaded { trace, catalogue, .. } = loaded;
        let names = SymbolNames::new(target, trace);
        let view = View { trace, catalogue, names: &names, source: target.name() };
        let query = Query::compile_with(&self.subject.filters, trace, catalogue, &|name| names.address_of(name))?;
        query.notes().iter().for_each(|note| diagnostics.say(note));
        let mut sink = Sink::open(output, None)?;
        let kept = match self.to {
            ExportFormat::Perfetto => {
                picture(&view, &query, noted, |plan, progress| plan.play(&mut Perfetto::new(&mut sink, view), progress))
            }
            ExportFormat::Chrome => {
                picture(&view, &query, noted, |plan, progress| plan.play(&mut Chrome::new(&mut sink, view), progress))
            }
            ExportFormat::Html => {
                let page = page(found, target, &query)?;
                picture(&view, &query, noted, |plan, progress| {
                    plan.play(&mut Html::new(&mut sink, view, page), progress)
                })
            }
            ExportFormat::Trx => buffer(&view, &query, &mut sink, diagnostics),
        }?;
        if kept == 0 {
            diagnostics.failed(if trace.is_empty() {
                "the trace holds no event"
            } else {
                "no event passes the filters"
            });
            diagnostics.issues(&trace.issues);
            return Ok(Outcome::NotFound);
        }
        sink.finish()?;
        diagnostics.issues_of_result(&trace.issues);
        let path = output.path.as_deref().unwrap_or_else(|| Path::new("-")).display();
        let of = if kept < trace.len() { format!(" of {}", trace.len()) } else { String::new() };
        diagnostics.say(format_args!("wrote {kept}{of} events to {path}; it holds contents of the target's memory"));
        Ok(print::outcome(Outcome::Done, &trace.issues, output))
    }
}

/// What a page says beside the timeline: what `explain` and `report` say.
fn page<'f>(found: &'f Found, target: &Target<'_>, query: &Query<'_>) -> Result<Page<'f>, Error> {
    let (beside, stopped) = found.document.as_ref().map_or((None, None), |(f, stopped)| (Some(f), stopped.as_ref()));
    let document = Document { found: beside, stopped, loaded: &found.loaded, query, target };
    let explanation = beside.map(report::Found::explanation);
    Ok(Page {
        title: target.name().to_owned(),
        facts: beside.map(report::Found::facts).unwrap_or_default().to_vec(),
        headline: explanation.map(|explained| {
            let doubt = explain::doubt(&found.loaded.trace.issues).map(|doubt| format!("Doubtful: {doubt}. "));
            doubt.unwrap_or_default() + &explain::headline(explained)
        }),
        findings: explanation.map(|found| found.findings.as_slice()),
        not_checked: explanation.map(|found| found.not_checked.as_slice()).unwrap_or_default(),
        documents: document.page()?,
    })
}

/// Writes a picture: two passes over the events. How many became instants.
fn picture<'a>(
    view: &View<'a>,
    query: &'a Query<'a>,
    noted: &[Noted],
    play: impl FnOnce(&Plan<'a>, &mut dyn FnMut(u64)) -> std::io::Result<()>,
) -> Result<u64, Error> {
    let events = view.trace.len();
    let mut progress = Progress::new("export", events.saturating_mul(2));
    let plan = Plan::of(view.trace, view.catalogue, query, noted, &mut |done| progress.at(done))?;
    if plan.scene().kept > 0 {
        play(&plan, &mut |done| progress.at(events.saturating_add(done)))?;
    }
    Ok(plan.scene().kept)
}

/// Writes a trace buffer of the events that the filters keep.
fn buffer(view: &View<'_>, query: &Query<'_>, sink: &mut Sink<'_>, diagnostics: &Diagnostics) -> Result<u64, Error> {
    let trace = view.trace;
    let mut kept = 0u64;
    trace.visit(|event| {
        kept = kept.saturating_add(u64::from(query.keeps(event)));
        if query.is_past(event) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let mut writer = Writer::begin(&mut *sink, trace, kept)?;
    let mut written = Ok(());
    trace.visit(|event| {
        if query.keeps(event) {
            written = writer.event(event);
        }
        if written.is_err() || query.is_past(event) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    written?;
    let left_out = writer.finish()?;
    if left_out > 0 {
        diagnostics.say(format_args!("{left_out} events are left out: nothing says who inserted them"));
    }
    if kept < trace.len() || !trace.gaps.is_empty() {
        diagnostics.say(
            "a .trx has no mark for events that are missing: times across them are right up to one period of the clock",
        );
    }
    Ok(kept.saturating_sub(left_out))
}
