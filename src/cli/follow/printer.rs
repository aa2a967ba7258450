//! Prints what each look finds: events by the writers of `list`, or reports.

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::super::diagnostics::Diagnostics;
use super::super::names::SymbolNames;
use super::super::request::{self, Output};
use super::super::sink::Sink;
use super::Follow;
use super::intervals::Intervals;
use super::losses::Losses;
use crate::code::Code;
use crate::error::Error;
use crate::follow::{First, Follower, Gap, How, Update};
use crate::output::{self, EventSink, Format, TableOptions, View, Window};
use crate::query::{Filters, Query};
use crate::trace::{Event, Issue, Severity, Trace};

/// A number with as many digits as a long run needs.
const LONG_RUN: u64 = 99_999;

/// Prints what comes.
pub struct Printer<'t> {
    task: &'t Follow,
    diagnostics: &'t Diagnostics,
    format: Format,
    options: TableOptions,
    writer: Option<Box<dyn EventSink>>,
    /// What was written and the sink does not have yet.
    bytes: Buffer,
    intervals: Option<Intervals>,
    losses: Losses,
    /// Issues that are printed at the end.
    issues: Vec<Issue>,
    /// The last trace, for what is written at the end.
    last: Option<Trace>,
    lost: bool,
    /// Sentences that were printed already.
    said: Vec<String>,
}

/// A buffer that the writers and the printer share: the sink is used by others as well.
#[derive(Clone, Default)]
pub struct Buffer(Rc<RefCell<Vec<u8>>>);

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn view<'v>(follower: &'v Follower, trace: &'v Trace, names: &'v SymbolNames<'v>) -> View<'v> {
    View { trace, catalogue: follower.catalogue(), names, source: follower.target().name() }
}

/// The filters, for this trace.
fn compile<'v>(filters: &Filters, view: &View<'v>, names: &SymbolNames<'_>) -> Result<Query<'v>, Error> {
    Query::compile_with(filters, view.trace, view.catalogue, &|name| names.address_of(name))
}

impl<'t> Printer<'t> {
    /// For what goes to `sink`.
    pub fn new(task: &'t Follow, output: &Output, sink: &Sink<'_>, diagnostics: &'t Diagnostics) -> Self {
        let options = sink.table_options(output);
        let format = output.format;
        let intervals =
            task.reports.clone().map(|(request, every)| Intervals::new(request, every, format, options.clone()));
        Self {
            task,
            diagnostics,
            format,
            options,
            writer: None,
            bytes: Buffer::default(),
            intervals,
            losses: Losses::new(task.reports.as_ref().map_or(Duration::ZERO, |(_, every)| *every)),
            issues: Vec::new(),
            last: None,
            lost: false,
            said: Vec::new(),
        }
    }

    /// What comes before the first event: the head of the table, and the issues of the trace.
    pub fn start(&mut self, follower: &Follower, batch: &Update, sink: &mut Sink<'_>) -> Result<(), Error> {
        self.check(follower, batch)?;
        self.begin(follower, batch, sink)?;
        self.issues = batch.trace.issues.clone();
        if self.task.first == First::Now {
            // What is wrong with events that are not shown is not reported.
            self.issues.retain(|i| {
                !matches!(
                    i.code,
                    Code::Torn | Code::Lapped | Code::InsertionInProgress | Code::SlotOverwritten | Code::UnusedSlot
                )
            });
        }
        if !self.format.has_issues() {
            self.diagnostics.issues_of_result(&self.issues);
        }
        Ok(())
    }

    /// Fails where a filter names what cannot come, before anything is printed.
    fn check(&self, follower: &Follower, batch: &Update) -> Result<(), Error> {
        let names = SymbolNames::new(follower.target(), &batch.trace);
        let view = view(follower, &batch.trace, &names);
        for filters in self.task.until.iter().chain([&self.task.filters]) {
            if let Err(error) = compile(filters, &view, &names).map(drop)
                && !error.is_not_found()
            {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Begins the output, once.
    pub fn begin(&mut self, follower: &Follower, batch: &Update, sink: &mut Sink<'_>) -> Result<(), Error> {
        if self.writer.is_some() || self.intervals.is_some() {
            return Ok(());
        }
        let names = SymbolNames::new(follower.target(), &batch.trace);
        let Some(mut writer) = output::event_sink(self.format, self.bytes.clone(), &self.options) else {
            return Err(request::only_reports(self.format));
        };
        // What comes is not known: as wide as what was there, and as what a long run needs.
        let mut window = Window::of(batch.trace.events());
        window.events = window.events.max(1);
        window.is_open = true;
        window.seq = LONG_RUN;
        window.first = 0;
        window.last = window.last.max(1_000_000);
        writer.begin(&view(follower, &batch.trace, &names), &window)?;
        writer.flush()?;
        self.writer = Some(writer);
        self.pass_on(sink)
    }

    /// Prints what a look found; true where the event that ends it was among it.
    pub(super) fn print(&mut self, follower: &Follower, mut batch: Update, sink: &mut Sink<'_>) -> Result<bool, Error> {
        let task = self.task;
        let names = SymbolNames::new(follower.target(), &batch.trace);
        let view = view(follower, &batch.trace, &names);
        let until = match &task.until {
            Some(filters) => self.compile(filters, &view, &names)?,
            None => None,
        };
        let end = until.and_then(|query| batch.events.iter().position(|e| query.keeps(e)));
        if let Some(end) = end {
            batch.events.truncate(end.saturating_add(1));
        }
        if let Some(gap) = &batch.gap {
            self.gap(gap, &view)?;
        }
        self.overwritten(&view)?;
        self.report_losses(sink, false)?;
        if let Some(intervals) = &mut self.intervals {
            if !intervals.add(&batch) {
                intervals.print(&task.filters, &view, &self.bytes)?;
            }
        } else {
            let last = end.and_then(|end| batch.events.get(end)).map(|e| e.seq);
            let query = self.compile(&task.filters, &view, &names)?;
            let kept = |e: &&Event| Some(e.seq) == last || query.as_ref().is_some_and(|q| q.keeps(e));
            self.events(batch.events.iter().filter(kept), batch.renamed, &view)?;
        }
        self.pass_on(sink)?;
        self.last = Some(batch.trace);
        Ok(end.is_some())
    }

    /// The filters, for this trace. What they name and is not there may come: `None`.
    fn compile<'v>(
        &mut self,
        filters: &Filters,
        view: &View<'v>,
        names: &SymbolNames<'_>,
    ) -> Result<Option<Query<'v>>, Error> {
        match compile(filters, view, names) {
            Ok(query) => Ok(Some(query)),
            Err(error) if error.is_not_found() => {
                if !self.said.contains(&error.message) {
                    self.diagnostics.say(format_args!("{}, so far", error.message));
                    self.said.push(error.message);
                }
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn events<'e>(
        &mut self,
        events: impl Iterator<Item = &'e Event>,
        renamed: bool,
        view: &View<'_>,
    ) -> Result<(), Error> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        if renamed {
            writer.renew();
        }
        for event in events {
            writer.event(view, event)?;
        }
        Ok(writer.flush()?)
    }

    /// Something is missing. In a format with issues they are where the events are missing.
    fn gap(&mut self, gap: &Gap, view: &View<'_>) -> Result<(), Error> {
        self.lost = true;
        if let Some(intervals) = &mut self.intervals {
            intervals.gap(gap);
        }
        match &mut self.writer {
            Some(writer) if self.format.has_issues() => writer.issue(view, &gap.issue())?,
            _ => self.losses.gap(gap),
        }
        Ok(())
    }

    /// Slots that were overwritten while they were read.
    fn overwritten(&mut self, view: &View<'_>) -> Result<(), Error> {
        for issue in view.trace.issues.iter().filter(|i| i.code == Code::SlotOverwritten) {
            self.lost = true;
            match &mut self.writer {
                Some(writer) if self.format.has_issues() => writer.issue(view, issue)?,
                _ => self.losses.slots(issue),
            }
        }
        Ok(())
    }

    /// Reports what was lost, if it is time to, or for the last time.
    fn report_losses(&mut self, sink: &mut Sink<'_>, is_last: bool) -> Result<(), Error> {
        let now = Instant::now();
        let issues = if is_last { self.losses.take(now) } else { self.losses.due(now) };
        if !issues.is_empty() {
            if let Some(writer) = &mut self.writer {
                writer.flush()?;
            }
            self.pass_on(sink)?;
            self.diagnostics.issues(&issues);
        }
        Ok(())
    }

    /// How long until [`Printer::tick`] has to be called; `None` where nothing waits for the time.
    pub(super) fn next_tick(&self) -> Option<Duration> {
        self.intervals.as_ref().map(Intervals::left)
    }

    /// Time has passed: an interval may have ended, and losses may be due.
    pub(super) fn tick(&mut self, follower: &Follower, sink: &mut Sink<'_>) -> Result<(), Error> {
        self.report_losses(sink, false)?;
        if let (Some(intervals), Some(trace)) = (&mut self.intervals, &self.last)
            && intervals.left().is_zero()
        {
            let names = SymbolNames::new(follower.target(), trace);
            let view = view(follower, trace, &names);
            intervals.print(&self.task.filters, &view, &self.bytes)?;
            self.pass_on(sink)?;
        }
        Ok(())
    }

    /// Hands on what is there, unless the target is halted meanwhile: the sink may block.
    fn pass_on(&self, sink: &mut Sink<'_>) -> Result<(), Error> {
        if matches!(self.task.how, How::Halting(_)) { Ok(()) } else { self.write_out(sink) }
    }

    /// Writes what waited for the target to run.
    pub(super) fn write_out(&self, sink: &mut Sink<'_>) -> Result<(), Error> {
        let bytes = self.bytes.0.take();
        if !bytes.is_empty() {
            sink.write_all(&bytes)?;
            sink.flush()?;
        }
        Ok(())
    }

    /// What comes after the last event; the target has been left.
    pub(super) fn finish(&mut self, follower: &Follower, sink: &mut Sink<'_>) -> Result<(), Error> {
        self.report_losses(sink, true)?;
        let Some(trace) = &self.last else { return Ok(()) };
        let names = SymbolNames::new(follower.target(), trace);
        let view = view(follower, trace, &names);
        if let Some(intervals) = &mut self.intervals {
            // The last one is as long as it came to be.
            if !intervals.is_empty() {
                intervals.print(&self.task.filters, &view, &self.bytes)?;
            }
            intervals.finish(&view, &self.issues, &self.bytes)?;
        } else if let Some(mut writer) = self.writer.take() {
            writer.finish(&view, &self.issues)?;
        }
        self.write_out(sink)
    }

    /// True where something was lost, for `--strict`.
    pub(super) fn has_lost(&self) -> bool {
        self.lost || self.issues.iter().any(|i| i.severity == Severity::Lost)
    }
}
