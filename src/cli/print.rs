//! Prints the answer to a question.

use std::ops::ControlFlow;

use super::diagnostics::Diagnostics;
use super::names::SymbolNames;
use super::read::{Answer, Ask, Question, start_of};
use super::report::Document;
use super::request::{self, Output, With};
use super::sink::Sink;
use super::{Outcome, now, reports};
use crate::analysis::{self, Outcomes};
use crate::code::Code;
use crate::error::Error;
use crate::output::{self, EventSink, Format, Reader, Show, TableOptions, TimeFrom, View, Window};
use crate::query::{Amount, Position, Query};
use crate::session::{Loaded, Target};
use crate::trace::{Event, Issue, Severity, Trace};

/// Prints it.
pub(super) fn answer(
    answer: &Answer,
    question: &Question,
    target: &Target<'_>,
    mut sink: Sink<'_>,
    With { output, diagnostics, .. }: With<'_>,
) -> Result<Outcome, Error> {
    let Loaded { trace, catalogue, .. } = &answer.loaded;
    let names = SymbolNames::new(target, trace);
    let view = View { trace, catalogue, names: &names, source: target.name() };
    let options = sink.table_options(output);
    let format = output.format;
    let query = || Query::compile_with(&question.filters, trace, catalogue, &|name| names.address_of(name));
    let found = match &question.ask {
        Ask::Objects => {
            output::objects(format, &mut sink, &view, &options, &answer.states, &trace.issues)?;
            true
        }
        Ask::Info => {
            if let Some(info) = &answer.info {
                info.print(format, &mut sink, &view, &options)?;
            }
            true
        }
        Ask::Document(_) => {
            let query = print_notes(query()?, diagnostics);
            let document = Document {
                loaded: &answer.loaded,
                found: answer.document.as_ref(),
                stopped: answer.stopped.as_ref(),
                query: &query,
                target,
            };
            document.print(format, &options, &mut sink)?;
            keeps_any(question, &query, trace, diagnostics)
        }
        Ask::Reports(request) => {
            let query = print_notes(query()?, diagnostics);
            reports::print(request, answer.origin.as_ref(), &query, &view, format, &options, &mut sink)?;
            keeps_any(question, &query, trace, diagnostics)
        }
        Ask::Show(positions) => show(positions, &view, format, &options, &mut sink, diagnostics)?,
        Ask::List { .. } | Ask::Last(_) => {
            let query = print_notes(query()?, diagnostics);
            let selection = Selection::of(&question.ask, &answer.loaded, &query)?;
            let any = selection.print(&view, format, options.clone(), &mut sink)?;
            if !any {
                diagnostics.failed(none(trace));
            }
            any
        }
    };
    if let (Ask::Last(_), Reader::Terminal) = (&question.ask, format.reader()) {
        now::print(&answer.loaded, answer.stopped.as_ref(), &view, &options.styles, &mut sink)?;
    }
    sink.finish()?;
    say_issues(question, output, trace, found, diagnostics);
    Ok(outcome(if found { Outcome::Done } else { Outcome::NotFound }, &trace.issues, output))
}

/// True where what is printed says what is lost or inferred. A document does, but who reads it as a file later may not see
/// it now.
fn has_issues_in_it(question: &Question, output: &Output) -> bool {
    let is_document =
        matches!(question.ask, Ask::Document(_)) && output.path.is_none() && output.format.reader() != Reader::Program;
    output.format.has_issues() || is_document
}

fn say_issues(question: &Question, output: &Output, trace: &Trace, found: bool, diagnostics: &Diagnostics) {
    if has_issues_in_it(question, output) {
        return;
    }
    if found || !trace.is_empty() {
        diagnostics.issues_of_result(&trace.issues);
    } else {
        diagnostics.issues(&trace.issues);
    }
}

/// `--strict`: what was lost is an error.
pub(super) fn outcome(outcome: Outcome, issues: &[Issue], output: &Output) -> Outcome {
    if output.strict && issues.iter().any(|i| i.severity == Severity::Lost) { Outcome::Failed } else { outcome }
}

/// The query, after its notes were printed.
fn print_notes<'q>(query: Query<'q>, diagnostics: &Diagnostics) -> Query<'q> {
    for note in query.notes() {
        diagnostics.say(note);
    }
    query
}

/// Whether any event passes the filters; if none does, it is said.
fn keeps_any(question: &Question, query: &Query<'_>, trace: &Trace, diagnostics: &Diagnostics) -> bool {
    let is_kept = question.filters.is_empty() || trace.events().any(|event| query.keeps(&event));
    if !is_kept {
        diagnostics.failed(none(trace));
    }
    is_kept
}

/// Why no event was printed.
pub(super) fn none(trace: &Trace) -> &'static str {
    let unreadable = trace.issues.iter().any(|i| i.code == Code::RingUnreadable);
    match (trace.is_empty(), unreadable) {
        (true, true) => "no event of the trace can be read",
        (true, false) => "the trace holds no event",
        (false, _) => "no event passes the filters",
    }
}

/// How many events are looked at before they are printed: for the widths of columns, and for the outcomes of calls. A
/// trace of any length needs no more memory.
const AHEAD: u64 = 1 << 16;

/// A writer of events.
fn event_writer<'w>(
    format: Format,
    sink: &'w mut Sink<'_>,
    options: &TableOptions,
) -> Result<Box<dyn EventSink + 'w>, Error> {
    output::event_sink(format, sink, options).ok_or_else(|| request::only_reports(format))
}

/// The events that `last` and `list` print: those that the query keeps, without the first few, from some ticks on.
pub struct Selection<'a> {
    loaded: &'a Loaded,
    query: &'a Query<'a>,
    skip: u64,
    /// So many after these.
    most: u64,
    from: i64,
    time: TimeFrom,
}

impl<'a> Selection<'a> {
    /// Of what was asked.
    pub fn of(ask: &Ask, loaded: &'a Loaded, query: &'a Query<'a>) -> Result<Self, Error> {
        let mut selection = Self { loaded, query, skip: 0, most: u64::MAX, from: i64::MIN, time: TimeFrom::Origin };
        let amount = match ask {
            Ask::Last(amount) => amount,
            Ask::List { most } => {
                selection.most = most.unwrap_or(u64::MAX);
                return Ok(selection);
            }
            _ => return Ok(selection),
        };
        selection.time = TimeFrom::Newest(loaded.trace.newest().map_or(0, |e| e.ticks));
        match amount {
            Amount::Events(n) => {
                let mut total = loaded.trace.len();
                if !query.keeps_all() {
                    total = 0;
                    selection.visit(&mut |_| {
                        total = total.saturating_add(1);
                        ControlFlow::Continue(())
                    });
                }
                selection.skip = total.saturating_sub(*n);
            }
            amount => selection.from = start_of(*amount, loaded)?,
        }
        Ok(selection)
    }

    fn visit(&self, each: &mut dyn FnMut(&Event) -> ControlFlow<()>) {
        let all = self.query.keeps_all();
        let (mut skip, mut left) = (self.skip, self.most);
        self.loaded.trace.visit(|event| {
            if !all && self.query.is_past(event) {
                return ControlFlow::Break(());
            }
            if event.ticks < self.from || !all && !self.query.keeps(event) {
                return ControlFlow::Continue(());
            }
            if skip > 0 {
                skip = skip.saturating_sub(1);
                return ControlFlow::Continue(());
            }
            if left == 0 {
                return ControlFlow::Break(());
            }
            left = left.saturating_sub(1);
            each(event)
        });
    }

    /// What the columns of a table have to hold, by the first events.
    fn window(&self) -> Window {
        let mut window = Window::default();
        self.visit(&mut |event| {
            window.add(event);
            window.is_open = window.events >= AHEAD;
            if window.is_open { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        if window.is_open {
            window.seq = window.seq.max(self.loaded.trace.about.held);
        }
        window
    }

    /// Prints them; false where there is none.
    pub(super) fn print(
        &self,
        view: &View<'_>,
        format: Format,
        mut options: TableOptions,
        sink: &mut Sink<'_>,
    ) -> Result<bool, Error> {
        let is_table = format.reader() == Reader::Terminal;
        let window = if is_table { self.window() } else { Window::default() };
        let mut outcomes = is_table.then(|| Outcomes::new(view.trace, view.catalogue, AHEAD));
        options.time = self.time;
        let mut writer = event_writer(format, sink, &options)?;
        writer.begin(view, &window)?;
        let (mut any, mut written) = (false, Ok(()));
        self.visit(&mut |event| {
            any = true;
            if let Some(outcome) = outcomes.as_mut().and_then(|o| o.of(event)) {
                writer.outcome(outcome);
            }
            written = writer.event(view, event);
            if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        written?;
        writer.finish(view, &view.trace.issues)?;
        Ok(any)
    }
}

/// Prints the last events of a document as a table; false where there is none.
pub(super) fn print_last(
    events: &[(Event, Option<analysis::Outcome>)],
    view: &View<'_>,
    mut options: TableOptions,
    sink: &mut Sink<'_>,
) -> Result<bool, Error> {
    options.time = TimeFrom::Newest(view.trace.newest().map_or(0, |e| e.ticks));
    let mut window = Window::default();
    events.iter().for_each(|(event, _)| window.add(event));
    let mut writer = event_writer(Format::default(), sink, &options)?;
    writer.begin(view, &window)?;
    for (event, outcome) in events {
        if let Some(outcome) = outcome {
            writer.outcome(*outcome);
        }
        writer.event(view, event)?;
    }
    writer.finish(view, &view.trace.issues)?;
    Ok(window.events > 0)
}

/// Writes events in full; false where one of them does not exist.
fn show(
    positions: &[Position],
    view: &View<'_>,
    format: Format,
    options: &TableOptions,
    sink: &mut Sink<'_>,
    diagnostics: &Diagnostics,
) -> Result<bool, Error> {
    let mut events = Vec::new();
    let mut missing = Vec::new();
    for position in positions {
        let seq = position.seq(view.trace)?;
        match seq.and_then(|s| view.trace.events().find(|e| e.seq == s)) {
            Some(event) => events.push(event),
            None => missing.push(match position {
                Position::Seq(n) => n.to_string(),
                Position::Newest(n) => format!("-{n}"),
                other => format!("{other:?}"),
            }),
        }
    }
    let is_table = format.reader() == Reader::Terminal;
    let mut writer: Box<dyn EventSink + '_> = if is_table {
        let newest = view.trace.newest().map(|e| e.ticks);
        Box::new(Show::new(&mut *sink, options.styles.clone(), newest))
    } else {
        event_writer(format, sink, options)?
    };
    writer.begin(view, &Window::of(events.iter().copied()))?;
    for event in &events {
        let outcome = || Outcomes::new(view.trace, view.catalogue, u64::MAX).of(event);
        if let Some(outcome) = if is_table { outcome() } else { None } {
            writer.outcome(outcome);
        }
        writer.event(view, event)?;
    }
    writer.finish(view, &view.trace.issues)?;
    drop(writer);
    let held = view.trace.about.held;
    for position in &missing {
        diagnostics.failed(format_args!(
            "there is no event {position}: the trace has the events 0 to {}, without those of unused slots",
            held.saturating_sub(1)
        ));
    }
    Ok(missing.is_empty())
}
