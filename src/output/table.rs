//! The table of events: made for a tired reader, streamed row by row.

#![allow(clippy::arithmetic_side_effects, reason = "columns of a line; ticks are subtracted with a check")]

use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;
use std::sync::Arc;

use super::line::{Line, width_of};
use super::row::Rows;
use super::scale::Scale;
use super::styles::{Style, Styles, style_of};
use super::text::HexBuffer;
use super::window::Window;
use super::{EventSink, View, buffered, escape};
use crate::analysis::Outcomes;
use crate::catalogue::{Effect, EventDef};
use crate::trace::{ContextId, ContextKind, DefId, Event, Issue};

/// What the time column counts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TimeFrom {
    /// The trace's origin, forward: `list`.
    #[default]
    Origin,
    /// These ticks, which are those of the newest event, backward: `last`.
    Newest(i64),
}

/// How tables look.
#[derive(Debug, Clone)]
pub struct TableOptions {
    /// Columns of the terminal. More columns show more.
    pub width: usize,
    /// Colours.
    pub styles: Styles,
    /// What the time column counts from.
    pub time: TimeFrom,
    /// What became of calls: shown where the line is wide enough.
    pub outcomes: Option<Arc<Outcomes>>,
}

impl Default for TableOptions {
    fn default() -> Self {
        Self { width: 80, styles: Styles::default(), time: TimeFrom::Origin, outcomes: None }
    }
}

/// From so many columns time and priority are shown.
const WIDE: usize = 120;
/// From so many the raw stamp and the threshold as well.
pub const WIDEST: usize = 200;
/// Spaces between columns.
const GAP: usize = 2;
/// An event's name is padded to at most so many columns; a longer one pushes its arguments to the right. Narrow lines
/// have no room to pad all names to the longest.
const EVENT: usize = 24;
const EVENT_NARROW: usize = 18;

/// Widths of the columns; 0 for one that is not shown.
#[derive(Debug, Clone, Default)]
struct Layout {
    time: usize,
    stamp: usize,
    priority: usize,
    threshold: usize,
    seq: usize,
    delta: usize,
    core: usize,
    who: usize,
    event: usize,
    /// The most that one argument may take.
    arg: usize,
    /// True where an interrupt's row shows whom it interrupted.
    behind: bool,
}

/// Writes events as a table.
pub struct Table<W: Write> {
    out: BufWriter<W>,
    options: TableOptions,
    line: Line,
    rows: Rows,
    time: Scale,
    delta: Scale,
    layout: Layout,
    /// The last context shown on each core.
    before: Vec<Option<(ContextId, Option<u32>)>>,
    /// A text that is built before it is written.
    text: String,
}

impl<W: Write> Table<W> {
    /// A table that is written to `out`.
    pub fn new(out: W, options: TableOptions) -> Self {
        Self {
            out: buffered(out),
            line: Line::new(options.width),
            options,
            rows: Rows::new(),
            time: Scale::TICKS,
            delta: Scale::TICKS,
            layout: Layout::default(),
            before: Vec::new(),
            text: String::new(),
        }
    }

    fn base(&self) -> i64 {
        match self.options.time {
            TimeFrom::Origin => 0,
            TimeFrom::Newest(ticks) => ticks,
        }
    }

    fn measure(&mut self, view: &View<'_>, window: &Window) {
        let width = self.options.width;
        let (wide, widest) = (width >= WIDE, width >= WIDEST);
        let clock = &view.trace.clock;
        let mut layout = Layout { behind: wide, ..Layout::default() };
        if clock.runs() {
            let ends = [window.first, window.last].map(|t| t.checked_sub(self.base()).unwrap_or(i64::MAX));
            let far = ends.iter().map(|t| t.unsigned_abs()).max().unwrap_or(0);
            self.time = Scale::of(clock, far, 6);
            self.delta = Scale::of(clock, window.step, 7);
            let time = ends.iter().map(|t| self.time.text(*t).len()).max().unwrap_or(1);
            let step = self.delta.text(i64::try_from(window.step).unwrap_or(i64::MAX)).len();
            layout.delta = step.max(width_of("delta ") + self.delta.unit.len());
            if wide {
                layout.time = time.max(width_of("time ") + self.time.unit.len());
            }
            // Doubtful ticks are shown beside the stamp they were computed from.
            if widest || clock.doubts > 0 {
                layout.stamp = view.stamp_digits() + 2;
            }
        }
        if wide {
            layout.priority = digits(u64::from(window.priority));
        }
        if widest {
            layout.threshold = digits(u64::from(window.priority));
        }
        layout.seq = digits(window.seq);
        if view.trace.about.cores > 1 {
            layout.core = 4;
        }
        let most = if widest {
            40
        } else if wide {
            28
        } else {
            16
        };
        layout.who = self.measure_who(view, window).clamp(3, most);
        let names = window.defs().filter_map(|d| view.catalogue.def(DefId(d))).map(|d| width_of(&d.name));
        let unknown = window.unknown.map(|id| view.catalogue.made_up_name(id).len());
        layout.event = names.chain(unknown).max().unwrap_or(EVENT).clamp(5, if wide { EVENT } else { EVENT_NARROW });
        // Two arguments at least should find room where the line is narrow.
        layout.arg = width.div_euclid(4).clamp(16, 64);
        self.layout = layout;
    }

    fn measure_who(&mut self, view: &View<'_>, window: &Window) -> usize {
        let rows = &mut self.rows;
        let mut width_at = |id: u32| width_of(&escape(rows.who(view, ContextId(id))));
        let behind = if self.options.width >= WIDE { window.interrupted().map(&mut width_at).max() } else { None };
        let mut most = 0;
        for number in window.isrs() {
            let own = self.rows.exception(view, number).map_or(0, |name| width_of(&escape(name)));
            most = most.max(behind.map_or(own, |b| own + 1 + b));
        }
        for id in window.contexts() {
            let own = width_of(&escape(self.rows.who(view, ContextId(id))));
            let isr = view.trace.contexts.get(ContextId(id)).is_some_and(|c| c.kind == ContextKind::Isr);
            let more = behind.filter(|_| isr).map_or(0, |b| b + 1);
            most = most.max(own + more);
        }
        // Nothing known of what will come: room for an ordinary name.
        if most == 0 { 12 } else { most }
    }

    fn head(&mut self) -> io::Result<()> {
        let (layout, line) = (&self.layout, &mut self.line);
        let (on, off) = self.options.styles.around(Style::Head);
        line.mark(on);
        for (head, width) in [
            (format!("time {}", self.time.unit), layout.time),
            ("stamp".to_owned(), layout.stamp),
            ("pri".to_owned(), layout.priority),
            ("thr".to_owned(), layout.threshold),
            ("seq".to_owned(), layout.seq),
            (format!("delta {}", self.delta.unit), layout.delta),
            ("core".to_owned(), layout.core),
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
        let Self { line, text, rows, layout, options, .. } = self;
        let (on, off) = options.styles.around(if changes { Style::Bold } else { Style::Plain });
        let start = line.at();
        if changes {
            line.back(1);
        }
        line.mark(on);
        line.text(if changes { "*" } else { "" });
        if let Some(behind) = event.interrupted.filter(|_| layout.behind) {
            text.clear();
            text.push_str(rows.who_of(view, event));
            text.push('<');
            text.push_str(rows.who(view, behind));
            line.cut(text, layout.who);
        } else {
            line.cut(rows.who_of(view, event), layout.who);
        }
        line.unmark(off);
        line.to(start + layout.who + GAP);
    }

    /// The event's name.
    fn name(&mut self, view: &View<'_>, event: &Event) {
        let Self { line, layout, options: TableOptions { styles, .. }, .. } = self;
        let style = if styles.is_on() { style_of(event.def.and_then(|d| view.catalogue.def(d))) } else { Style::Plain };
        let (on, off) = styles.around(style);
        let start = line.at();
        line.mark(on);
        line.text(&Rows::event(view, event));
        line.unmark(off);
        line.to(start + layout.event + 1);
    }

    fn arguments(&mut self, view: &View<'_>, event: &Event) {
        let Self { line, layout, options, rows, .. } = self;
        let dim = options.styles.around(Style::Dim);
        view.trace.asides(event, |label, text| {
            let _ = argument(line, dim, layout.arg, label, text);
        });
        rows.table_args(view, event, |label, text| argument(line, dim, layout.arg, label, text));
        if let Some(outcome) = options.outcomes.as_ref().and_then(|o| o.get(event.seq)) {
            line.space(1);
            line.mark(dim.0);
            line.text(&rows.outcome(view, outcome));
            line.unmark(dim.1);
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
        let time = event.ticks.checked_sub(self.base());
        let Self { line, layout, options, text, .. } = self;
        let (on, off) = options.styles.around(Style::Dim);
        line.mark(on);
        if layout.time > 0 {
            ticks(line, text, layout.time, self.time, time);
        }
        let (mut hex, stamp) = (HexBuffer::default(), event.stamp.filter(|_| layout.stamp > 0));
        column(line, layout.stamp, stamp.map_or("", |stamp| hex.format(stamp, view.stamp_digits())));
        number(line, layout.priority, event.priority);
        number(line, layout.threshold, event.threshold.filter(|t| Some(*t) != event.priority));
        number(line, layout.seq, Some(event.seq));
        ticks(line, text, layout.delta, self.delta, event.delta);
        number(line, layout.core, Some(event.core));
        line.unmark(off);
    }
}

/// Columns of a number, three at least: heads have as many.
fn digits(n: u64) -> usize {
    n.to_string().len().max(3)
}

/// Writes a cell of a column of numbers; a column of no width is not shown.
fn column(line: &mut Line, width: usize, text: &str) {
    if width > 0 {
        line.number(width, text);
        line.space(GAP);
    }
}

/// Writes ticks in the unit of their column; a dash where they are not known.
fn ticks(line: &mut Line, text: &mut String, width: usize, scale: Scale, ticks: Option<i64>) {
    text.clear();
    match ticks {
        Some(ticks) => scale.add(text, ticks),
        None => text.push('-'),
    }
    column(line, width, text);
}

/// Writes a number, or nothing.
fn number(line: &mut Line, width: usize, n: Option<impl itoa::Integer>) {
    let mut buffer = itoa::Buffer::new();
    column(line, width, n.map_or("", |n| buffer.format(n)));
}

/// Writes an argument, of at most so many columns; breaks where the line is full. `dim` is around its label.
fn argument(line: &mut Line, dim: (&str, &str), most: usize, label: &str, text: &str) -> ControlFlow<()> {
    if line.is_full() {
        return ControlFlow::Break(());
    }
    line.space(1);
    if label.is_empty() {
        line.text(text);
    } else {
        line.mark(dim.0);
        line.text(label);
        line.text("=");
        line.unmark(dim.1);
        line.cut(text, most);
    }
    ControlFlow::Continue(())
}

fn ends_isr(def: &EventDef) -> bool {
    def.effects.has(Effect::IsrExit)
}

impl<W: Write> EventSink for Table<W> {
    fn begin(&mut self, view: &View<'_>, window: &Window) -> io::Result<()> {
        self.measure(view, window);
        self.head()
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
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn finish(&mut self, _: &View<'_>, _: &[Issue]) -> io::Result<()> {
        // Issues are talk; see `write_issues`.
        self.out.flush()
    }
}
