//! Prints what each look finds: events by the writers of `list`, or reports.

use super::super::command::format_of;
use super::super::message;
use super::super::names::SymbolNames;
use super::super::plan::Output;
use super::super::sink::Sink;
use super::FollowTask;
use super::intervals::Intervals;
use crate::code::Code;
use crate::error::Error;
use crate::follow::{First, Follower, How, News};
use crate::output::{self, EventSink, Format, TableOptions, TimeFrom, View, Window};
use crate::query::{Filters, Query};
use crate::trace::{Event, Issue, Severity, Trace};

/// Digits of a number that a long run comes to.
const LONG_RUN: u64 = 99_999;

/// Writes into memory what then goes to the sink: the sink serves others as well.
type Writer = Box<dyn EventSink>;

/// Prints what comes.
pub struct Printer<'t> {
    task: &'t FollowTask,
    format: Format,
    options: TableOptions,
    writer: Option<Writer>,
    /// What the writer wrote and the sink does not have yet.
    bytes: Shared,
    intervals: Option<Intervals>,
    /// Issues that are told at the end.
    issues: Vec<Issue>,
    /// The last trace, for what is written at the end.
    last: Option<Trace>,
    lost: bool,
    /// Sentences that were said already.
    said: Vec<String>,
}

/// A buffer that writer and printer share.
#[derive(Clone, Default)]
pub struct Shared {
    bytes: std::rc::Rc<std::cell::RefCell<Vec<u8>>>,
    /// The target is halted while it is printed: the sink, which may block, has to wait until it runs.
    waits: bool,
}

impl std::io::Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.bytes.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Shared {
    /// Hands on what is there, unless it has to wait.
    pub fn hand_on(&self, sink: &mut Sink<'_>) -> Result<(), Error> {
        if self.waits { Ok(()) } else { self.write_out(sink) }
    }

    fn write_out(&self, sink: &mut Sink<'_>) -> Result<(), Error> {
        use std::io::Write as _;
        let bytes = std::mem::take(&mut *self.bytes.borrow_mut());
        if !bytes.is_empty() {
            sink.write_all(&bytes)?;
            sink.flush()?;
        }
        Ok(())
    }
}

impl<'t> Printer<'t> {
    /// For what goes to `sink`.
    pub fn new(task: &'t FollowTask, output: &Output, sink: &Sink<'_>) -> Self {
        let options = TableOptions {
            width: sink.width(output),
            paint: sink.paint(output),
            time: TimeFrom::Origin,
            outcomes: None,
        };
        let format = format_of(output.format);
        let intervals = task.reports.clone().map(|(wish, every)| Intervals::new(wish, every, format, options.clone()));
        Self {
            task,
            format,
            options,
            writer: None,
            bytes: Shared { waits: matches!(task.how, How::Halting(_)), ..Shared::default() },
            intervals,
            issues: Vec::new(),
            last: None,
            lost: false,
            said: Vec::new(),
        }
    }

    /// What comes before the first event: the head of the table, and what there is to say of the trace.
    pub fn start(&mut self, follower: &Follower, news: &News, sink: &mut Sink<'_>) -> Result<(), Error> {
        let trace = &news.trace;
        let mut issues = trace.issues.clone();
        if self.task.first == First::Now {
            // What is wrong with events that are not shown is not told.
            issues.retain(|i| {
                !matches!(
                    i.code,
                    Code::Torn | Code::Lapped | Code::InsertionInProgress | Code::SlotOverwritten | Code::UnusedSlot
                )
            });
        }
        self.check(follower, news)?;
        self.begin_with(follower, news, sink)?;
        if self.format != Format::Json {
            message::issues(&issues);
        }
        self.issues = issues;
        Ok(())
    }

    /// Fails where a filter names what cannot come, before anything is printed.
    fn check(&self, follower: &Follower, news: &News) -> Result<(), Error> {
        let names = SymbolNames::new(follower.session(), &news.trace);
        for filters in self.task.until.iter().chain([&self.task.filters]) {
            match Query::compile_with(filters, &news.trace, follower.catalogue(), &|name| names.address_of(name)) {
                Err(e) if !e.is_not_found() => return Err(e),
                _ => {}
            }
        }
        Ok(())
    }

    /// Begins the output, once.
    pub fn begin_with(&mut self, follower: &Follower, news: &News, sink: &mut Sink<'_>) -> Result<(), Error> {
        if self.writer.is_some() || self.intervals.is_some() {
            return Ok(());
        }
        let names = SymbolNames::new(follower.session(), &news.trace);
        let view = View {
            trace: &news.trace,
            catalogue: follower.catalogue(),
            names: &names,
            source: follower.session().name(),
        };
        let Some(mut writer) = output::event_sink(self.format, self.bytes.clone(), &self.options) else {
            return Err(Error::usage(Code::Usage, "--format md is for reports"));
        };
        // What comes is not known: as wide as what was there, and as what a long run needs.
        let mut window = Window::of(news.trace.events());
        window.events = window.events.max(1);
        window.seq = LONG_RUN;
        window.first = 0;
        window.last = window.last.max(1_000_000);
        writer.begin(&view, &window)?;
        writer.flush()?;
        self.writer = Some(writer);
        self.bytes.hand_on(sink)
    }

    /// Prints what a look found; true where the end was among it that is waited for.
    pub fn news(&mut self, follower: &Follower, news: News, sink: &mut Sink<'_>) -> Result<bool, Error> {
        let mut news = news;
        let names = SymbolNames::new(follower.session(), &news.trace);
        let catalogue = follower.catalogue();
        let compile = |filters: &Filters, said: &mut Vec<String>| {
            match Query::compile_with(filters, &news.trace, catalogue, &|name| names.address_of(name)) {
                Ok(query) => Ok(Some(query)),
                // It may come.
                Err(e) if e.is_not_found() => {
                    if !said.contains(&e.message) {
                        message::say(&format!("tx-trace: {}, so far", output::escape(&e.message)));
                        said.push(e.message);
                    }
                    Ok(None)
                }
                Err(e) => Err(Error::from(e)),
            }
        };
        let until = match &self.task.until {
            Some(filters) => compile(filters, &mut self.said)?,
            None => None,
        };
        let end = until.and_then(|query| news.events.iter().position(|e| query.keeps(e)));
        if let Some(end) = end {
            news.events.truncate(end.saturating_add(1));
        }
        let view = View { trace: &news.trace, catalogue, names: &names, source: follower.session().name() };
        if let Some(gap) = news.gap {
            let issue = gap.issue();
            self.lost = true;
            if let Some(intervals) = &mut self.intervals {
                intervals.gap(&gap, &self.task.filters, &view, &self.bytes)?;
            }
            match &mut self.writer {
                Some(writer) if self.format == Format::Json => writer.issue(&view, &issue)?,
                Some(writer) => {
                    writer.flush()?;
                    self.bytes.hand_on(sink)?;
                    message::issues(&[issue]);
                }
                // The interval behind it tells.
                None => self.bytes.hand_on(sink)?,
            }
        }
        for issue in news.trace.issues.iter().filter(|i| i.code == Code::SlotOverwritten) {
            self.lost = true;
            if let Some(writer) = &mut self.writer {
                writer.issue(&view, issue)?;
            }
            if self.format != Format::Json {
                message::issues(std::slice::from_ref(issue));
            }
        }
        if let Some(intervals) = &mut self.intervals {
            if !intervals.add(&news) {
                intervals.print(&self.task.filters, &view, &self.bytes)?;
            }
        } else if let Some(writer) = &mut self.writer {
            if news.renamed {
                writer.renew();
            }
            let query = compile(&self.task.filters, &mut self.said)?;
            let last = end.and_then(|end| news.events.get(end)).map(|e| e.seq);
            let kept = |e: &Event| Some(e.seq) == last || query.as_ref().is_some_and(|q| q.keeps(e));
            for event in news.events.iter().filter(|e| kept(e)) {
                writer.event(&view, event)?;
            }
            writer.flush()?;
        }
        self.bytes.hand_on(sink)?;
        self.last = Some(news.trace);
        Ok(end.is_some())
    }

    /// Time has passed: an interval may have ended.
    pub fn tick(&mut self, follower: &Follower, sink: &mut Sink<'_>) -> Result<(), Error> {
        if let (Some(intervals), Some(trace)) = (&mut self.intervals, &self.last)
            && intervals.is_over()
        {
            let names = SymbolNames::new(follower.session(), trace);
            let view =
                View { trace, catalogue: follower.catalogue(), names: &names, source: follower.session().name() };
            intervals.print(&self.task.filters, &view, &self.bytes)?;
            self.bytes.hand_on(sink)?;
        }
        Ok(())
    }

    /// Writes what waited for the target to run.
    pub fn write_out(&self, sink: &mut Sink<'_>) -> Result<(), Error> {
        self.bytes.write_out(sink)
    }

    /// What comes after the last event; the target has been left.
    pub fn finish(&mut self, follower: &Follower, sink: &mut Sink<'_>) -> Result<(), Error> {
        let Some(trace) = &self.last else { return Ok(()) };
        let names = SymbolNames::new(follower.session(), trace);
        let view = View { trace, catalogue: follower.catalogue(), names: &names, source: follower.session().name() };
        if let Some(intervals) = &mut self.intervals {
            // The last one is as long as it came to be.
            intervals.print(&self.task.filters, &view, &self.bytes)?;
            intervals.finish(&view, &self.issues, &self.bytes)?;
        } else if let Some(mut writer) = self.writer.take() {
            writer.finish(&view, &self.issues)?;
        }
        self.write_out(sink)
    }

    /// True where something was lost, for `--strict`.
    pub fn has_lost(&self) -> bool {
        self.lost || self.issues.iter().any(|i| i.severity == Severity::Lost)
    }
}
