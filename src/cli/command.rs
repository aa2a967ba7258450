//! Runs a plan: read, let the target go, print.

use std::io::Write;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use super::args;
use super::message;
use super::names::SymbolNames;
use super::plan::{Ask, ClockPlan, Output, Plan, Question, Task};
use super::sink::{self, Sink};
use super::{
    Outcome, bridge, control, demo, dump, events, evidence, follow, gdb, info, live, now, reports, serve, threads,
};
use crate::analysis::Outcomes;
use crate::catalogue::Names;
use crate::code::Code;
use crate::error::Error;
use crate::format::{DecodeOptions, Extent};
use crate::output::{self, EventSink, Format, Show, TableOptions, TimeFrom, View, Window};
use crate::query::{Amount, Filters, Position, Query};
use crate::session::{Loaded, Session};
use crate::trace::{Event, Issue, Severity};

/// Runs a plan and says how it ended.
pub fn run(plan: Plan, option_files: &[PathBuf]) -> Outcome {
    let output = plan.output;
    let target = match &plan.task {
        Task::Dump(task) => Some(task.path.clone()),
        _ => output.path.clone(),
    };
    if let Some(path) = &target {
        let read = [&files_read(&plan.task), option_files].concat();
        if let Err(failure) = evidence::keep(&read, path) {
            return report_failure(&failure, &output);
        }
    }
    let result = match plan.task {
        Task::Read(question) => read(*question, &output),
        Task::Events(task) => events::run(&task, &output),
        Task::Dump(task) => dump::run(*task, &output),
        Task::Follow(task) => follow::run(*task, &output),
        Task::Threads(task) => threads::run(*task, &output),
        Task::Control(task) => control::run(*task, &output),
        Task::Bridge(task) => bridge::run(*task),
        Task::Serve(task) => serve::run(*task),
        Task::Demo => demo::run(&output),
        Task::Gdb { no_python, install } => gdb::run(no_python, install),
    };
    result.unwrap_or_else(|failure| {
        let outcome = report_failure(&failure, &output);
        if let Some(path) = target.filter(|path| path.is_file()) {
            message::say(&format!("tx-trace: {} is left as it was", output::escape(&path.display().to_string())));
        }
        outcome
    })
}

/// The files that a task reads.
fn files_read(task: &Task) -> Vec<PathBuf> {
    match task {
        Task::Read(question) => evidence::files(&question.inputs),
        Task::Control(task) => evidence::files(&task.inputs),
        Task::Events(task) => task.elf.iter().chain(&task.files).cloned().collect(),
        Task::Follow(task) => evidence::files(&task.inputs),
        Task::Threads(task) => evidence::files(&task.inputs),
        Task::Dump(task) => evidence::files(&task.inputs),
        Task::Bridge(_) | Task::Serve(_) | Task::Demo | Task::Gdb { .. } => Vec::new(),
    }
}

/// The failure as the chosen format has it: JSON gets its `error` line, people get sentences. A file stays as it was.
fn report_failure(failure: &Error, output: &Output) -> Outcome {
    if failure.code == Code::BrokenPipe {
        return Outcome::Done;
    }
    if output.format == args::Format::Json && output.path.as_deref().is_none_or(sink::is_device) {
        // In a debugger's own session there is nowhere to print to but stderr.
        if let Ok(mut out) = Sink::open(output, None) {
            drop(output::write_error(&mut out, failure).map(|()| out.finish()));
        }
    }
    message::fail(failure)
}

/// Reads a target and answers a question about its trace.
pub fn read(question: Question, output: &Output) -> Result<Outcome, Error> {
    let Question { ask, inputs, filters, clock, names } = question;
    let is_report = matches!(ask, Ask::Reports(_)) && output.format == args::Format::Md;
    let read = |session: &mut Session<'static>| {
        let mut answer = answer(session, &ask, &filters, &clock, names)?;
        answer.origin = is_report.then(|| reports::Origin::of(session));
        Ok(answer)
    };
    live::run(inputs, read, |answer, session, client| {
        print(&answer, &ask, &filters, session, output, Sink::open(output, client)?)
    })
}

/// Answers a question about the trace of a target that somebody else has open. What is printed goes to `out`.
pub fn read_over(
    question: Question,
    mut session: Session<'_>,
    output: &Output,
    out: &mut dyn Write,
) -> Result<Outcome, Error> {
    let Question { ask, filters, clock, names, .. } = question;
    let loaded = answer(&mut session, &ask, &filters, &clock, names);
    if loaded.is_err() {
        message::issues(session.issues());
    }
    print(&loaded?, &ask, &filters, &session, output, Sink::over(out))
}

/// Reads what a question needs.
fn answer(
    session: &mut Session<'_>,
    ask: &Ask,
    filters: &Filters,
    clock: &ClockPlan,
    names: Names,
) -> Result<Answer, Error> {
    session.ask_events(filters.events.iter().map(|t| t.text.clone()).collect());
    let mut options = clock.options;
    if let Some(symbol) = &clock.hz_symbol {
        #[allow(clippy::cast_precision_loss, reason = "no clock has 2^53 ticks in a second")]
        let hz = session.variable(symbol)? as f64;
        options.hz = Some(hz).filter(|hz| *hz > 0.0);
    }
    Reader { session, filters, names, options }.answer(ask)
}

/// What was read for a question.
struct Answer {
    loaded: Loaded,
    info: Option<info::Info>,
    origin: Option<reports::Origin>,
    /// How objects stand in memory now.
    standing: Vec<output::Standing>,
}

/// Reads what a question needs, and no more.
struct Reader<'a, 'm> {
    session: &'a mut Session<'m>,
    filters: &'a Filters,
    names: Names,
    options: DecodeOptions,
}

impl Reader<'_, '_> {
    fn load(&mut self, extent: Extent) -> Result<Loaded, Error> {
        Ok(self.session.load(extent, self.names, &self.options)?)
    }

    fn answer(&mut self, ask: &Ask) -> Result<Answer, Error> {
        let loaded = match ask {
            Ask::List | Ask::Reports(_) => self.load(Extent::All)?,
            Ask::Objects => {
                let mut loaded = self.load(Extent::Nothing)?;
                let standing = threads::standing(self.session, &mut loaded.trace)?;
                return Ok(Answer { loaded, info: None, origin: None, standing });
            }
            Ask::Last(amount) => self.newest(*amount)?,
            Ask::Show(positions) => self.positions(positions)?,
            Ask::Info => {
                // A live target is halted while it is read, and a part of the ring is enough.
                let extent = if self.session.is_live() { Extent::Newest(info::SAMPLE) } else { Extent::All };
                let mut loaded = self.load(extent)?;
                let info = info::gather(self.session, &loaded);
                // Of files code and names are looked at for every command.
                let said = loaded.trace.issues.iter().any(|issue| issue.code == Code::ElfMismatch);
                loaded.trace.issues.extend(info.issue().filter(|_| !said));
                return Ok(Answer { loaded, info: Some(info), origin: None, standing: Vec::new() });
            }
        };
        Ok(Answer { loaded, info: None, origin: None, standing: Vec::new() })
    }

    /// The newest events that the filters keep: read backwards, each time twice as many.
    fn newest(&mut self, amount: Amount) -> Result<Loaded, Error> {
        let wanted = match amount {
            Amount::Events(n) if self.filters.is_empty() => {
                let loaded = self.load(Extent::Newest(n))?;
                // Where just the newest slots are lost, what is left is older.
                let lost = loaded.trace.is_empty() && loaded.trace.about.held > 0;
                return if lost { self.load(Extent::All) } else { Ok(loaded) };
            }
            Amount::Events(n) => Some(n),
            Amount::Ticks(_) | Amount::Time(_) => None,
        };
        let counted = |p: Option<Position>| matches!(p, Some(Position::Ticks(_) | Position::Time(_)));
        if counted(self.filters.from) || counted(self.filters.to) {
            // These count from the oldest event of all.
            return self.load(Extent::All);
        }
        let mut slots = wanted.unwrap_or(0).clamp(32, 1 << 20);
        loop {
            slots = slots.saturating_mul(2);
            let loaded = self.load(Extent::Newest(slots))?;
            if loaded.trace.about.held <= slots {
                return Ok(loaded);
            }
            let enough = match wanted {
                Some(n) => {
                    let query = match Query::compile(self.filters, &loaded.trace, &loaded.catalogue) {
                        Ok(query) => query,
                        // The name may be of a thread that ran longer ago.
                        Err(e) if e.is_not_found() => continue,
                        Err(e) => return Err(e),
                    };
                    let kept = loaded.trace.events().filter(|e| query.keeps(e)).count();
                    u64::try_from(kept).unwrap_or(u64::MAX) >= n
                }
                None => {
                    let start = start_of(amount, &loaded)?;
                    loaded.trace.events().next().is_none_or(|oldest| oldest.ticks < start)
                }
            };
            if enough {
                return Ok(loaded);
            }
        }
    }

    /// From the oldest event that is to be shown to the newest, and the one before it for its delta.
    fn positions(&mut self, positions: &[Position]) -> Result<Loaded, Error> {
        let mut back = 0u64;
        let mut held = None;
        for position in positions {
            let needed = match position {
                Position::Newest(n) => *n,
                Position::Seq(seq) => {
                    let total = match held {
                        Some(total) => total,
                        None => self.load(Extent::Nothing)?.trace.about.held,
                    };
                    held = Some(total);
                    total.saturating_sub(*seq)
                }
                _ => return self.load(Extent::All),
            };
            back = back.max(needed);
        }
        self.load(Extent::Newest(back.saturating_add(1)))
    }
}

/// The ticks at which the newest so much begins.
fn start_of(amount: Amount, loaded: &Loaded) -> Result<i64, Error> {
    let Some(position) = amount.start() else { return Ok(i64::MIN) };
    match position.bound(&loaded.trace, crate::query::Edge::From)? {
        crate::query::Bound::Ticks(t) => Ok(t),
        crate::query::Bound::Seq(_) => Ok(i64::MIN),
    }
}

pub const fn format_of(format: args::Format) -> Format {
    match format {
        args::Format::Table => Format::Table,
        args::Format::Json => Format::Json,
        args::Format::Csv => Format::Csv,
        args::Format::Md => Format::Md,
    }
}

fn print(
    answer: &Answer,
    ask: &Ask,
    filters: &Filters,
    session: &Session,
    output: &Output,
    mut sink: Sink<'_>,
) -> Result<Outcome, Error> {
    let Loaded { trace, catalogue, .. } = &answer.loaded;
    let names = SymbolNames::new(session, trace);
    let view = View { trace, catalogue, names: &names, source: session.name() };
    let options =
        TableOptions { width: sink.width(output), paint: sink.paint(output), time: TimeFrom::Origin, outcomes: None };
    let format = format_of(output.format);
    let issues = &trace.issues;
    let mut outcome = Outcome::Done;
    let written = match ask {
        Ask::Objects => {
            output::objects(format, &mut sink, &view, &options, &answer.standing, issues).map_err(Error::from)
        }
        Ask::Info => match &answer.info {
            Some(info) => info.print(format, &mut sink, &view, &options).map_err(Error::from),
            None => Ok(()),
        },
        Ask::Reports(wish) => {
            let query = Query::compile_with(filters, trace, catalogue, &|name| names.address_of(name))?;
            reports::print(wish, answer.origin.as_ref(), &query, &view, format, &options, &mut sink)
        }
        Ask::Show(positions) => show(positions, &view, format, &options, &mut sink).map(|all| {
            if !all {
                outcome = Outcome::No;
            }
        }),
        Ask::List | Ask::Last(_) => {
            let query = Query::compile_with(filters, trace, catalogue, &|name| names.address_of(name))?;
            selection(&answer.loaded, ask, &query, &view, format, options.clone(), &mut sink).map(|any| {
                if !any {
                    outcome = Outcome::No;
                }
            })
        }
    };
    written?;
    if let (Ask::Last(_), Format::Table) = (ask, format) {
        now::print(&answer.loaded, &view, &options.paint, &mut sink)?;
    }
    sink.finish()?;
    if format != Format::Json {
        message::issues(issues);
    }
    Ok(judge(outcome, issues, output))
}

/// `--strict`: what was lost is a failure.
pub fn judge(outcome: Outcome, issues: &[Issue], output: &Output) -> Outcome {
    if output.strict && issues.iter().any(|i| i.severity == Severity::Lost) { Outcome::Failed } else { outcome }
}

/// Writes the chosen events; false where there are none.
fn selection(
    loaded: &Loaded,
    ask: &Ask,
    query: &Query,
    view: &View<'_>,
    format: Format,
    mut options: TableOptions,
    sink: &mut Sink<'_>,
) -> Result<bool, Error> {
    for note in query.notes() {
        message::say(&format!("tx-trace: {}", output::escape(note)));
    }
    let chosen = || loaded.trace.events().take_while(|e| !query.is_past(e)).filter(|e| query.keeps(e));
    // What to pass over: `last` shows the end of what was kept.
    let (mut skip, mut from) = (0u64, i64::MIN);
    match ask {
        Ask::Last(Amount::Events(n)) => {
            let total = if query.keeps_all() {
                loaded.trace.len()
            } else {
                u64::try_from(chosen().count()).unwrap_or(u64::MAX)
            };
            skip = total.saturating_sub(*n);
        }
        Ask::Last(amount) => from = start_of(*amount, loaded)?,
        _ => {}
    }
    let all = query.keeps_all();
    let shown = |each: &mut dyn FnMut(&Event) -> ControlFlow<()>| {
        let mut skip = skip;
        loaded.trace.visit_ahead(|event| {
            if !all && query.is_past(event) {
                return ControlFlow::Break(());
            }
            if event.ticks < from || !all && !query.keeps(event) {
                return ControlFlow::Continue(());
            }
            if skip > 0 {
                skip = skip.saturating_sub(1);
                return ControlFlow::Continue(());
            }
            each(event)
        });
    };
    let mut window = Window::default();
    shown(&mut |event| {
        window.add(event);
        ControlFlow::Continue(())
    });
    if matches!(ask, Ask::Last(_)) {
        options.time = TimeFrom::Newest(loaded.trace.newest().map_or(0, |e| e.ticks));
    }
    if format == Format::Table && options.width >= output::WIDEST {
        let (mut first, mut last) = (u64::MAX, 0);
        shown(&mut |event| {
            (first, last) = (first.min(event.seq), last.max(event.seq));
            ControlFlow::Continue(())
        });
        options.outcomes = Some(Arc::new(Outcomes::of(&loaded.trace, &loaded.catalogue, first, last)));
    }
    let Some(mut writer) = output::event_sink(format, &mut *sink, &options) else {
        return Err(Error::usage(Code::Usage, "--format md is for reports"));
    };
    writer.begin(view, &window)?;
    let mut written = Ok(());
    shown(&mut |event| match writer.event(view, event) {
        Ok(output::Flow::More) => ControlFlow::Continue(()),
        Ok(output::Flow::Enough) => ControlFlow::Break(()),
        Err(e) => {
            written = Err(e);
            ControlFlow::Break(())
        }
    });
    written?;
    writer.finish(view, &loaded.trace.issues)?;
    if window.events == 0 {
        let unreadable = loaded.trace.issues.iter().any(|i| i.code == Code::RingUnreadable);
        let what = match (loaded.trace.is_empty(), unreadable) {
            (true, true) => "no event of the trace can be read",
            (true, false) => "the trace holds no event",
            (false, _) => "no event passes the filters",
        };
        message::say(&format!("tx-trace: {what}"));
    }
    Ok(window.events > 0)
}

fn write_events(
    writer: &mut dyn EventSink,
    view: &View<'_>,
    window: &Window,
    events: impl Iterator<Item = Event>,
) -> std::io::Result<()> {
    writer.begin(view, window)?;
    for event in events {
        if writer.event(view, &event)? == output::Flow::Enough {
            break;
        }
    }
    Ok(())
}

/// Writes events in full; false where one of them does not exist.
fn show(
    positions: &[Position],
    view: &View<'_>,
    format: Format,
    options: &TableOptions,
    sink: &mut Sink<'_>,
) -> Result<bool, Error> {
    let mut wanted = Vec::new();
    let mut missing = Vec::new();
    let held = view.trace.about.held;
    for position in positions {
        let seq = position.seq(view.trace)?;
        match seq.and_then(|s| view.trace.events().find(|e| e.seq == s)) {
            Some(event) => wanted.push(event),
            None => missing.push(match position {
                Position::Seq(n) => n.to_string(),
                Position::Newest(n) => format!("-{n}"),
                other => format!("{other:?}"),
            }),
        }
    }
    let newest = view.trace.newest().map(|e| e.ticks);
    let mut writer: Box<dyn EventSink + '_> = match format {
        Format::Table => {
            let all = Outcomes::of(
                view.trace,
                view.catalogue,
                wanted.iter().map(|e| e.seq).min().unwrap_or(0),
                wanted.iter().map(|e| e.seq).max().unwrap_or(0),
            );
            Box::new(Show::new(&mut *sink, options.paint.clone(), newest).with_outcomes(Arc::new(all)))
        }
        other => match output::event_sink(other, &mut *sink, options) {
            Some(writer) => writer,
            None => return Err(Error::usage(Code::Usage, "--format md is for reports")),
        },
    };
    let window = Window::of(wanted.iter().copied());
    write_events(&mut *writer, view, &window, wanted.iter().copied())?;
    writer.finish(view, &view.trace.issues)?;
    for position in &missing {
        message::say(&format!(
            "tx-trace: there is no event {position}: the trace holds {held} (0 to {}), some may be unused slots",
            held.saturating_sub(1)
        ));
    }
    Ok(missing.is_empty())
}
