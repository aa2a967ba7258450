//! The table of events: made for a tired reader, streamed row by row.

#![allow(clippy::arithmetic_side_effects, reason = "columns of a line; ticks are subtracted with a check")]

use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;

use super::arguments::Arguments;
use super::escape::escape_into;
use super::layout::{GAP, Layout, TableOptions};
use super::line::{Line, width_when_escaped, wrap};
use super::row::Rows;
use super::scale::Scale;
use super::short::{EventNames, InserterNames};
use super::styles::{Style, style_of};
use super::text::HexBuffer;
use super::window::{Inserter, Window};
use super::{EventSink, View, buffered};
use crate::analysis::Outcome;
use crate::catalogue::{Effect, EventDef};
use crate::trace::{ContextId, Event, Issue};

/// Writes events as a table.
pub struct Table<W: Write> {
    out: BufWriter<W>,
    options: TableOptions,
    line: Line,
    rows: Rows,
    layout: Layout,
    who: InserterNames,
    events: EventNames,
    /// The outcome of the call of the event that comes next.
    outcome: Option<Outcome>,
    /// The last context shown on each core.
    before: Vec<Option<(ContextId, Option<u32>)>>,
    legend: Legend,
    /// A cell of ticks, built before it is written.
    cell: String,
}

/// What the marks in the table mean, once they were printed.
#[derive(Debug, Default)]
struct Legend {
    star: bool,
    /// The first `ISR<thread`: both names.
    interrupted: Option<(String, String)>,
}

impl<W: Write> Table<W> {
    /// A table that is written to `out`.
    pub fn new(out: W, options: TableOptions) -> Self {
        Self {
            out: buffered(out),
            line: Line::new(options.width),
            options,
            rows: Rows::new(),
            layout: Layout::default(),
            who: InserterNames::default(),
            events: EventNames::default(),
            outcome: None,
            before: Vec::new(),
            legend: Legend::default(),
            cell: String::new(),
        }
    }

    fn head(&mut self) -> io::Result<()> {
        let Self { layout, line, .. } = self;
        let (on, off) = self.options.styles.around(Style::Head);
        let unit = |scale: Option<Scale>| scale.map_or("", |scale| scale.unit);
        line.mark(on);
        for (head, width) in [
            ("seq".to_owned(), layout.seq),
            (format!("delta {}", unit(layout.delta_in)), layout.delta),
            (format!("time {}", unit(layout.time_in)), layout.time),
            ("stamp".to_owned(), layout.stamp),
            ("core".to_owned(), layout.core),
            ("pri".to_owned(), layout.priority),
            ("thr".to_owned(), layout.threshold),
        ] {
            column(line, width, &head);
        }
        let who = line.at();
        line.text("who");
        line.to(who + layout.who + GAP);
        let event = line.at();
        line.text("event");
        line.to(event + layout.event + GAP);
        line.text("arguments");
        line.unmark(off);
        line.end(&mut self.out)
    }

    /// Who inserted the event, with a star where the context changes; at an interrupt also whom it interrupted.
    fn who(&mut self, view: &View<'_>, event: &Event) {
        let changes = self.changes(view, event);
        let Self { line, rows, layout, options, who, legend, .. } = self;
        let (on, off) = options.styles.around(if changes { Style::Bold } else { Style::Plain });
        let start = line.at();
        if changes {
            line.back();
            legend.star = true;
        }
        line.mark(on);
        line.text(if changes { "*" } else { "" });
        line.text(who.of(view, rows, Inserter::of(event), layout.behind));
        line.unmark(off);
        line.to(start + layout.who);
        line.space(GAP);
        if let Some(behind) = event.interrupted.filter(|_| layout.behind && legend.interrupted.is_none()) {
            let own = rows.who_of(view, event).to_owned();
            legend.interrupted = Some((own, rows.who(view, behind).to_owned()));
        }
    }

    /// The event's name.
    fn name(&mut self, view: &View<'_>, event: &Event) {
        let Self { line, layout, options, events, .. } = self;
        let styles = &options.styles;
        let style = if styles.is_on() { style_of(event.def.and_then(|d| view.catalogue.def(d))) } else { Style::Plain };
        let (on, off) = styles.around(style);
        let start = line.at();
        line.mark(on);
        line.text(events.of(view, event));
        line.unmark(off);
        line.to(start + layout.event);
        line.space(1);
    }

    fn arguments(&mut self, view: &View<'_>, event: &Event) {
        let Self { line, options, rows, outcome, .. } = self;
        let mut arguments = Arguments::new(line, options.width, options.styles.around(Style::Dim));
        view.trace.asides(event, |label, text| {
            let _ = arguments.add_prose(label, text);
        });
        let outcome = outcome.take().map(|outcome| rows.outcome(view, &outcome));
        // The object says what the call was about; all other words come after the outcome.
        let mut before = outcome.as_ref().map(|_| usize::from(rows.leads_with_object(view, event)));
        let add_outcome = |arguments: &mut Arguments<'_>| match &outcome {
            Some(outcome) => add_shortest(arguments, outcome.texts()),
            None => ControlFlow::Continue(()),
        };
        rows.shown_args(view, event, |arg| {
            if before == Some(0) {
                add_outcome(&mut arguments)?;
            }
            before = before.and_then(|n| n.checked_sub(1));
            let add = if arg.is_prose { Arguments::add_prose } else { Arguments::add };
            add(&mut arguments, arg.label, arg.text)
        });
        if before.is_some() {
            let _ = add_outcome(&mut arguments);
        }
    }

    /// True where another context than on the row before runs on this core: another thread, or another interrupt as far
    /// as the trace distinguishes them.
    fn changes(&mut self, view: &View<'_>, event: &Event) -> bool {
        let core = usize::from(event.core);
        if core >= self.before.len() {
            self.before.resize(core + 1, None);
        }
        let isr = event.isr.filter(|n| self.rows.exception(view, *n).is_some());
        let Some(before) = self.before.get_mut(core) else { return false };
        let Some((context, old)) = before.replace((event.context, isr)) else { return false };
        // The end of an interrupt names it, where its beginning was not seen.
        let named = || old.is_none() && event.def.and_then(|d| view.catalogue.def(d)).is_some_and(ends_isr);
        context != event.context || (old != isr && !named())
    }

    /// The numbers to the left of who.
    fn numbers(&mut self, view: &View<'_>, event: &Event) {
        let Self { line, layout, options, cell, .. } = self;
        let (on, off) = options.styles.around(Style::Dim);
        line.mark(on);
        number(line, layout.seq, Some(event.seq));
        ticks(line, cell, layout.delta, layout.delta_in, event.delta);
        ticks(line, cell, layout.time, layout.time_in, event.ticks.checked_sub(options.base()));
        if layout.stamp > 0 {
            let mut hex = HexBuffer::default();
            column(line, layout.stamp, event.stamp.map_or("", |stamp| hex.format(stamp, view.stamp_digits())));
        }
        number(line, layout.core, Some(event.core));
        number(line, layout.priority, event.priority);
        number(line, layout.threshold, event.threshold.filter(|t| Some(*t) != event.priority));
        line.unmark(off);
    }

    /// Explains the marks that were printed.
    fn explain_marks(&mut self) -> io::Result<()> {
        let mut said = Vec::new();
        if self.legend.star {
            said.push("* the context changes".to_owned());
        }
        if let Some((isr, thread)) = &self.legend.interrupted {
            said.push(format!("{isr}<{thread}: {isr} interrupted {thread}"));
        }
        if !self.options.legend || said.is_empty() {
            return Ok(());
        }
        let mut text = String::new();
        escape_into(&said.join("; "), &mut text);
        for line in wrap(&text, self.options.width, 0) {
            writeln!(self.out, "{}", self.options.styles.text(Style::Dim, &line))?;
        }
        Ok(())
    }
}

/// Adds the longest of the texts that fits, in brackets; the shortest where none does.
fn add_shortest(arguments: &mut Arguments<'_>, texts: [&str; 3]) -> ControlFlow<()> {
    let fitting = texts.into_iter().find(|text| width_when_escaped(text) + 3 <= arguments.left());
    arguments.add_in_brackets(fitting.unwrap_or(texts[2]))
}

/// Adds a cell of a column of numbers, and the gap behind it; a column of no width is not shown.
fn column(line: &mut Line, width: usize, cell: &str) {
    if width > 0 {
        line.space(width.saturating_sub(cell.len()));
        line.plain(cell);
        line.space(GAP);
    }
}

/// Adds ticks in the unit of their column; a dash where they are not known.
fn ticks(line: &mut Line, cell: &mut String, width: usize, scale: Option<Scale>, ticks: Option<i64>) {
    let Some(scale) = scale else { return };
    cell.clear();
    match ticks {
        Some(ticks) => scale.add(cell, ticks),
        None => cell.push('-'),
    }
    column(line, width, cell);
}

/// Adds a number, or nothing.
fn number(line: &mut Line, width: usize, n: Option<impl itoa::Integer>) {
    if width > 0 {
        let mut buffer = itoa::Buffer::new();
        column(line, width, n.map_or("", |n| buffer.format(n)));
    }
}

fn ends_isr(def: &EventDef) -> bool {
    def.effects.has(Effect::IsrExit)
}

impl<W: Write> EventSink for Table<W> {
    fn begin(&mut self, view: &View<'_>, window: &Window) -> io::Result<()> {
        (self.layout, self.who, self.events) = Layout::of(view, window, &mut self.rows, &self.options);
        self.head()
    }

    fn outcome(&mut self, outcome: Outcome) {
        self.outcome = Some(outcome);
    }

    fn event(&mut self, view: &View<'_>, event: &Event) -> io::Result<()> {
        self.numbers(view, event);
        self.who(view, event);
        self.name(view, event);
        self.arguments(view, event);
        self.line.end(&mut self.out)
    }

    fn renew(&mut self) {
        self.rows = Rows::new();
        self.who.renew();
        self.events.renew();
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn finish(&mut self, _: &View<'_>, _: &[Issue]) -> io::Result<()> {
        // Issues are talk; see `write_issues`.
        self.explain_marks()?;
        self.out.flush()
    }
}
