//! The table of events: made for a tired reader, streamed row by row.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::sync::Arc;

use super::escape::{is_plain, is_plain_bytes};
use super::line::{Cell, Line, width_of};
use super::paint::{Ink, Paint, ink_of};
use super::row::Rows;
use super::scale::Scale;
use super::tail::{Key, Tails};
use super::window::Window;
use super::{EventSink, Flow, Out, View, escape, num};
use crate::analysis::Outcomes;
use crate::catalogue::{Effect, EventDef};
use crate::trace::{ContextId, ContextKind, Event, Issue};

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
    pub paint: Paint,
    /// What the time column counts from.
    pub time: TimeFrom,
    /// What became of calls: shown where the line is wide enough.
    pub outcomes: Option<Arc<Outcomes>>,
}

impl Default for TableOptions {
    fn default() -> Self {
        Self { width: 80, paint: Paint::default(), time: TimeFrom::Origin, outcomes: None }
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

/// What decides how who is written: context, interrupt, whom it interrupted, and whether it changes.
type Who = (ContextId, Option<u32>, Option<ContextId>, bool);

/// How many cells of who are kept: a power of two.
const PEOPLE: usize = 256;

/// How many names are kept of events that nobody knows: a power of two.
const STRANGERS: usize = 64;

/// The place among people.
fn place_of((context, isr, behind, changes): &Who) -> usize {
    let mix = context.0.wrapping_mul(31).wrapping_add(isr.unwrap_or(0).wrapping_mul(7));
    let mix = mix.wrapping_add(behind.map_or(0, |b| b.0.wrapping_add(1)).wrapping_mul(17));
    usize::try_from(mix.wrapping_mul(2).wrapping_add(u32::from(*changes))).unwrap_or(0) & (PEOPLE - 1)
}

/// Writes events as a table.
#[derive(Debug)]
pub struct Table<W> {
    out: Out<W>,
    options: TableOptions,
    line: Line,
    rows: Rows,
    time: Scale,
    delta: Scale,
    layout: Layout,
    inks: Vec<Ink>,
    /// Names of events, by definition.
    names: Vec<Cell>,
    /// The same of ids without one, for those that were shown last.
    strangers: Vec<(Option<u32>, Cell)>,
    /// The arguments of rows that were shown last.
    tails: Tails,
    /// Who, for the contexts that were shown last.
    people: Vec<(Option<Who>, Cell)>,
    /// The last context shown on each core.
    before: Vec<Option<(ContextId, Option<u32>)>>,
    scratch: Vec<u8>,
    who: String,
}

impl<W: Write> Table<W> {
    /// A table that is written to `out`.
    pub fn new(out: W, options: TableOptions) -> Self {
        Self {
            out: Out::new(out),
            line: Line::new(options.width),
            options,
            rows: Rows::new(),
            time: Scale::TICKS,
            delta: Scale::TICKS,
            layout: Layout::default(),
            inks: Vec::new(),
            names: Vec::new(),
            strangers: vec![(None, Cell::default()); STRANGERS],
            tails: Tails::default(),
            people: vec![(None, Cell::default()); PEOPLE],
            before: Vec::new(),
            scratch: Vec::new(),
            who: String::new(),
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
            let ends = [window.first, window.last].map(|t| t.saturating_sub(self.base()));
            let far = ends.iter().map(|t| t.unsigned_abs()).max().unwrap_or(0);
            self.time = Scale::of(clock, far, 6);
            self.delta = Scale::of(clock, window.step, 7);
            let time = ends.iter().map(|t| self.time.width(*t)).max().unwrap_or(1);
            let step = self.delta.width(i64::try_from(window.step).unwrap_or(i64::MAX));
            layout.delta = step.max(width_of("delta ").saturating_add(self.delta.unit.len()));
            if wide {
                layout.time = time.max(width_of("time ").saturating_add(self.time.unit.len()));
            }
            // Ticks that are not to be believed stand beside what they were made of.
            if widest || clock.doubts > 0 {
                layout.stamp = usize::try_from(view.stamp_digits()).unwrap_or(16).saturating_add(2);
            }
        }
        if wide {
            layout.priority = num::dec_len(u64::from(window.priority)).max(3);
        }
        if widest {
            layout.threshold = num::dec_len(u64::from(window.priority)).max(3);
        }
        layout.seq = num::dec_len(window.seq).max(3);
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
        let names = window.defs().filter_map(|d| view.catalogue.def(crate::trace::DefId(d))).map(|d| width_of(&d.name));
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
            most = most.max(behind.map_or(own, |b| own.saturating_add(1).saturating_add(b)));
        }
        for id in window.contexts() {
            let own = width_of(&escape(self.rows.who(view, ContextId(id))));
            let isr = view.trace.contexts.get(ContextId(id)).is_some_and(|c| c.kind == ContextKind::Isr);
            let more = behind.filter(|_| isr).map_or(0, |b| b.saturating_add(1));
            most = most.max(own.saturating_add(more));
        }
        // Nothing known of what will come: room for an ordinary name.
        if most == 0 { 12 } else { most }
    }

    fn head(&mut self) {
        let layout = &self.layout;
        let line = &mut self.line;
        line.clear();
        let (on, off) = self.options.paint.around(Ink::Head);
        line.mark(on);
        let right = |line: &mut Line, text: &str, width: usize| {
            if width > 0 {
                line.right(text.as_bytes(), width);
                line.space(GAP);
            }
        };
        right(line, &format!("time {}", self.time.unit), layout.time);
        right(line, "stamp", layout.stamp);
        right(line, "pri", layout.priority);
        right(line, "thr", layout.threshold);
        right(line, "seq", layout.seq);
        right(line, &format!("delta {}", self.delta.unit), layout.delta);
        right(line, "core", layout.core);
        let who = line.at();
        line.ascii(b"who");
        line.to(who.saturating_add(layout.who).saturating_add(GAP));
        let event = line.at();
        line.ascii(b"event");
        line.to(event.saturating_add(layout.event).saturating_add(GAP));
        line.ascii(b"arguments");
        line.unmark(off);
        self.out.buf.extend_from_slice(line.end());
    }

    /// Who inserted the event; at an interrupt also whom it interrupted.
    fn join_who(&mut self, view: &View<'_>, event: &Event) {
        self.who.clear();
        self.who.push_str(self.rows.who_of(view, event));
        if self.layout.behind
            && let Some(behind) = event.interrupted
        {
            self.who.push('<');
            self.who.push_str(self.rows.who(view, behind));
        }
    }

    /// Writes who inserted the event, from what was written before where it can.
    fn who(&mut self, view: &View<'_>, event: &Event, changes: bool) {
        let key = (event.context, event.isr, event.interrupted, changes);
        let place = place_of(&key);
        if let Some((_, cell)) = self.people.get(place).filter(|(k, _)| *k == Some(key))
            && self.line.whole(cell)
        {
            return;
        }
        self.join_who(view, event);
        let Self { line, layout, options, who, people, .. } = self;
        let (on, off) = options.paint.around(if changes { Ink::Bold } else { Ink::Plain });
        let mark = if changes { "*" } else { "" };
        line.mark(on);
        line.ascii(mark.as_bytes());
        line.cut(who, layout.who);
        line.unmark(off);
        let Some(place) = people.get_mut(place).filter(|_| is_plain(who)) else { return };
        // As the line cuts it.
        let (own, more) = match who.get(..layout.who.saturating_sub(1)) {
            Some(cut) if who.len() > layout.who => (cut, "~"),
            _ => (who.as_str(), ""),
        };
        *place = (Some(key), Cell::plain(on, &[mark, own, more].concat(), off));
    }

    /// Writes what the event is called, from what was written before where it can.
    fn name(&mut self, view: &View<'_>, event: &Event) {
        let Self { line, options, inks, names, strangers, .. } = self;
        let def = event.def.and_then(|d| usize::try_from(d.0).ok());
        let known = match def {
            Some(def) => names.get(def),
            None => {
                let place = usize::try_from(event.id).unwrap_or(0) & (STRANGERS - 1);
                strangers.get(place).filter(|(id, _)| *id == Some(event.id)).map(|(_, cell)| cell)
            }
        };
        if known.is_some_and(|name| line.whole(name)) {
            return;
        }
        let ink = def.and_then(|d| inks.get(d)).copied().unwrap_or(Ink::Mark);
        let (on, off) = options.paint.around(ink);
        let name = Rows::event(view, event);
        line.mark(on);
        line.text(&name);
        line.unmark(off);
        let place = usize::try_from(event.id).unwrap_or(0) & (STRANGERS - 1);
        if let Some(place) = strangers.get_mut(place).filter(|_| def.is_none()) {
            *place = (Some(event.id), Cell::plain(on, &name, off));
        }
    }

    /// True where another context than on the row before runs on this core: another thread, or another interrupt as far
    /// as they can be told apart.
    fn changes(&mut self, view: &View<'_>, event: &Event) -> bool {
        let core = usize::from(event.core);
        if core >= self.before.len() {
            self.before.resize(core.saturating_add(1), None);
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
        let base = self.base();
        let Self { line, layout, scratch, options, .. } = self;
        let (on, off) = options.paint.around(Ink::Dim);
        line.mark(on);
        let ticks = |line: &mut Line, scratch: &mut Vec<u8>, scale: &Scale, ticks: i64, width: usize| {
            match u64::try_from(ticks) {
                Ok(n) if scale.is_ticks() => line.right_dec(n, width),
                _ => {
                    scratch.clear();
                    scale.write(scratch, ticks);
                    line.right(scratch, width);
                }
            }
        };
        let dec = |line: &mut Line, n: Option<u64>, width: usize| {
            match n {
                Some(n) => line.right_dec(n, width),
                None => line.space(width),
            }
            line.space(GAP);
        };
        if layout.time > 0 {
            ticks(line, scratch, &self.time, event.ticks.saturating_sub(base), layout.time);
            line.space(GAP);
        }
        if layout.stamp > 0 {
            scratch.clear();
            event.stamp.into_iter().for_each(|s| num::hex(scratch, s, view.stamp_digits()));
            line.right(scratch, layout.stamp);
            line.space(GAP);
        }
        if layout.priority > 0 {
            dec(line, event.priority.map(u64::from), layout.priority);
        }
        if layout.threshold > 0 {
            let differs = event.threshold.filter(|t| Some(*t) != event.priority);
            dec(line, differs.map(u64::from), layout.threshold);
        }
        dec(line, Some(event.seq), layout.seq);
        if layout.delta > 0 {
            match event.delta {
                Some(delta) => ticks(line, scratch, &self.delta, delta, layout.delta),
                None => line.right(b"-", layout.delta),
            }
            line.space(GAP);
        }
        if layout.core > 0 {
            dec(line, Some(u64::from(event.core)), layout.core);
        }
        line.unmark(off);
    }
}

/// Writes an argument, of at most so many columns; breaks where the line is full. `dim` is around its label.
fn argument(line: &mut Line, dim: (&str, &str), most: usize, label: &str, text: &[u8]) -> ControlFlow<()> {
    if line.is_full() {
        return ControlFlow::Break(());
    }
    line.space(1);
    let (on, off) = dim;
    if !label.is_empty() && on.is_empty() && text.len() <= most && is_plain(label) && is_plain_bytes(text) {
        line.pair(label, text);
        return ControlFlow::Continue(());
    }
    let text = String::from_utf8_lossy(text);
    if label.is_empty() {
        line.text(&text);
        return ControlFlow::Continue(());
    }
    line.mark(on);
    line.text(label);
    line.ascii(b"=");
    line.unmark(off);
    line.cut(&text, most);
    ControlFlow::Continue(())
}

fn ends_isr(def: &EventDef) -> bool {
    def.effects.has(Effect::IsrExit)
}

impl<W: Write> EventSink for Table<W> {
    fn begin(&mut self, view: &View<'_>, window: &Window) -> io::Result<()> {
        self.measure(view, window);
        self.inks = view.catalogue.iter().map(|d| ink_of(Some(d))).collect();
        let paint = &self.options.paint;
        let cell = |(def, ink): (&EventDef, &Ink)| {
            let (on, off) = paint.around(*ink);
            Cell::plain(on, &def.name, off)
        };
        self.names = view.catalogue.iter().zip(&self.inks).map(cell).collect();
        self.people.fill((None, Cell::default()));
        self.strangers.fill((None, Cell::default()));
        self.tails.clear();
        self.head();
        Ok(())
    }

    fn event(&mut self, view: &View<'_>, event: &Event) -> io::Result<Flow> {
        self.line.clear();
        self.numbers(view, event);
        let changes = self.changes(view, event);
        let start = self.line.at();
        if changes {
            self.line.back(1);
        }
        self.who(view, event, changes);
        self.line.to(start.saturating_add(self.layout.who).saturating_add(GAP));

        let start = self.line.at();
        self.name(view, event);
        self.line.to(start.saturating_add(self.layout.event).saturating_add(1));

        let Self { line, layout, options, rows, tails, .. } = self;
        let (dim, most) = (options.paint.around(Ink::Dim), layout.arg);
        view.trace.asides(event, |label, text| {
            let _ = argument(line, dim, most, label, text.as_bytes());
        });
        let outcome = options.outcomes.as_ref().and_then(|o| o.get(event.seq));
        // What follows may be cut, but not into what is there: so it is the same wherever it begins at the same column.
        let alike = outcome.is_none() && line.goes_on();
        let (key, words, first) = (Key::of(event, line.column()), view.trace.words(event), rows.first_word(event.def));
        match tails.get(&key, words, first).filter(|_| alike) {
            Some(tail) => line.rest(tail),
            None => {
                let from = line.len();
                let looked = rows.table_args(view, event, |label, text| argument(line, dim, most, label, text));
                if let Some(looked) = looked.filter(|_| alike) {
                    tails.put(&key, words, rows.first_word(event.def), looked, line.since(from));
                }
            }
        }
        if let Some(outcome) = outcome {
            line.space(1);
            line.mark(dim.0);
            line.text(&escape(&rows.outcome(view, outcome)));
            line.unmark(dim.1);
        }
        self.out.buf.extend_from_slice(self.line.end());
        self.out.row()?;
        Ok(Flow::More)
    }

    fn renew(&mut self) {
        self.rows = Rows::new();
        self.tails.clear();
        self.people.fill((None, Cell::default()));
        self.strangers.fill((None, Cell::default()));
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn finish(&mut self, _: &View<'_>, _: &[Issue]) -> io::Result<()> {
        // Issues are talk; see `write_issues`.
        self.out.flush()
    }
}
