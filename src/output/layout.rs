//! The columns of the table of events: which there are, and how wide each is.

#![allow(clippy::arithmetic_side_effects, reason = "columns of a line; ticks are subtracted with a check")]

use super::line::width_of;
use super::row::Rows;
use super::scale::Scale;
use super::short::{EventNames, InserterNames, ShortNames};
use super::styles::Styles;
use super::window::Window;
use super::{View, escape};
use crate::trace::DefId;

/// The width of a table without a limit: nothing is cut.
pub const UNLIMITED: usize = usize::MAX;

/// What the time column counts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TimeFrom {
    /// The trace's origin, forward: `list`.
    #[default]
    Origin,
    /// These ticks, which are those of the newest event, backward: `last`.
    Newest(i64),
}

/// A column of the table of events that is shown only where it is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExtraColumn {
    /// The time of the event.
    Time,
    /// The stored time stamp.
    Stamp,
    /// The priority of the thread.
    Priority,
    /// Its preemption threshold, where that differs from the priority.
    Threshold,
}

impl ExtraColumn {
    /// All of them, in the order of the table.
    pub const ALL: [Self; 4] = [Self::Time, Self::Stamp, Self::Priority, Self::Threshold];

    /// Its name in `--columns`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Stamp => "stamp",
            Self::Priority => "priority",
            Self::Threshold => "threshold",
        }
    }
}

/// How tables look.
#[derive(Debug, Clone)]
pub struct TableOptions {
    /// Columns of the terminal, or [`UNLIMITED`].
    pub width: usize,
    /// Colours.
    pub styles: Styles,
    /// What the time column counts from.
    pub time: TimeFrom,
    /// Columns of the table of events beside those that it always has.
    pub columns: Vec<ExtraColumn>,
    /// A line below the table of events explains the marks in it.
    pub legend: bool,
}

impl Default for TableOptions {
    fn default() -> Self {
        Self { width: 80, styles: Styles::default(), time: TimeFrom::Origin, columns: Vec::new(), legend: false }
    }
}

impl TableOptions {
    /// The ticks that times count from.
    pub(super) const fn base(&self) -> i64 {
        match self.time {
            TimeFrom::Origin => 0,
            TimeFrom::Newest(ticks) => ticks,
        }
    }
}

/// Spaces between columns.
pub(super) const GAP: usize = 2;
/// From so many columns on an interrupt's row shows whom it interrupted.
const WIDE: usize = 120;
/// Names of events and of who inserted them are padded to at most so many columns; a longer one pushes what follows to
/// the right.
const WHO_MOST: usize = 40;
const EVENT_MOST: usize = 32;
/// What an ordinary name takes, where it is not known what will come.
const WHO_USUAL: usize = 12;
const EVENT_USUAL: usize = 23;
/// As far as names are narrowed where the arguments need the room.
const WHO_LEAST: usize = 10;
const EVENT_LEAST: usize = 18;

/// Widths of the columns; 0 for one that is not shown.
#[derive(Debug, Default)]
pub(super) struct Layout {
    pub seq: usize,
    pub delta: usize,
    pub time: usize,
    pub stamp: usize,
    pub core: usize,
    pub priority: usize,
    pub threshold: usize,
    pub who: usize,
    pub event: usize,
    /// True where an interrupt's row shows whom it interrupted.
    pub behind: bool,
    /// The unit of `time`.
    pub time_in: Option<Scale>,
    /// The unit of `delta`.
    pub delta_in: Option<Scale>,
}

/// The names in a table, as far as they are known before it is printed. All are escaped.
struct KnownNames {
    who: Vec<String>,
    events: Vec<String>,
}

impl KnownNames {
    fn of(view: &View<'_>, window: &Window, rows: &mut Rows, behind: bool) -> Self {
        let mut who: Vec<String> = Vec::new();
        for inserter in window.inserters() {
            let mut text = String::new();
            rows.add_who(view, inserter, behind, &mut text);
            who.push(text);
        }
        let named = window.defs().filter_map(|d| view.catalogue.def(DefId::new(d))).map(|d| escape(&d.name));
        let made_up = window.unknown.map(|id| view.catalogue.made_up_name(id));
        Self { who, events: named.chain(made_up).collect() }
    }
}

/// The width of the widest.
fn widest(names: &[String]) -> usize {
    names.iter().map(|name| width_of(name)).max().unwrap_or(0)
}

impl Layout {
    /// For these events. Also gives the names their forms: of who inserted an event, and of events.
    pub(super) fn of(
        view: &View<'_>,
        window: &Window,
        rows: &mut Rows,
        options: &TableOptions,
    ) -> (Self, InserterNames, EventNames) {
        let behind = options.width >= WIDE;
        let mut layout = Self { behind, ..Self::default() };
        layout.numbers(view, window, options);
        let names = KnownNames::of(view, window, rows, behind);
        let usual = |width: usize, usual: usize| if window.is_open { width.max(usual) } else { width };
        layout.who = usual(widest(&names.who), WHO_USUAL).clamp(3, WHO_MOST);
        layout.event = usual(widest(&names.events), EVENT_USUAL).clamp(5, EVENT_MOST);
        layout.narrow(options.width);
        let most = |width| if options.width == UNLIMITED { UNLIMITED } else { width };
        // A form is of one thread of the registry, and of one event of the catalogue: it is the same in every table.
        let threads = view.trace.objects.iter().filter(|o| o.is_thread).map(|o| escape(&o.name));
        let events = view.catalogue.iter().map(|def| escape(&def.name));
        let who = ShortNames::new(most(layout.who), true, names.who.into_iter().chain(threads));
        let events = ShortNames::new(most(layout.event), false, names.events.into_iter().chain(events));
        (layout, InserterNames::new(who), EventNames::new(events))
    }

    /// The columns of numbers.
    fn numbers(&mut self, view: &View<'_>, window: &Window, options: &TableOptions) {
        let clock = &view.trace.clock;
        let has = |column| options.columns.contains(&column);
        self.seq = digits(window.seq);
        if view.trace.about.cores > 1 {
            self.core = 4;
        }
        if has(ExtraColumn::Priority) {
            self.priority = digits(u64::from(window.priority));
        }
        if has(ExtraColumn::Threshold) {
            self.threshold = digits(u64::from(window.priority));
        }
        if !clock.runs() {
            return;
        }
        let delta = Scale::of(clock, window.step, 7);
        let step = delta.text(i64::try_from(window.step).unwrap_or(i64::MAX)).len();
        self.delta = step.max(width_of("delta ") + delta.unit.len());
        self.delta_in = Some(delta);
        if has(ExtraColumn::Time) {
            let ends = [window.first, window.last].map(|t| t.checked_sub(options.base()).unwrap_or(i64::MAX));
            let far = ends.iter().map(|t| t.unsigned_abs()).max().unwrap_or(0);
            let time = Scale::of(clock, far, 6);
            let most = ends.iter().map(|t| time.text(*t).len()).max().unwrap_or(1);
            self.time = most.max(width_of("time ") + time.unit.len());
            self.time_in = Some(time);
        }
        if has(ExtraColumn::Stamp) {
            self.stamp = view.stamp_digits() + 2;
        }
    }

    /// The arguments say most: where they have less than their share of the line, names are cut, of who inserted an
    /// event first.
    fn narrow(&mut self, width: usize) {
        if width == UNLIMITED {
            return;
        }
        let numbers = [self.seq, self.delta, self.time, self.stamp, self.core, self.priority, self.threshold];
        let before: usize = numbers.iter().filter(|width| **width > 0).map(|width| width + GAP).sum();
        let wanted = before + GAP + 1 + width / 5 * 2;
        let too_much = |layout: &Self| (wanted + layout.who + layout.event).saturating_sub(width);
        self.who = self.who.saturating_sub(too_much(self)).max(WHO_LEAST.min(self.who));
        self.event = self.event.saturating_sub(too_much(self)).max(EVENT_LEAST.min(self.event));
    }
}

/// Columns of a number, three at least: heads have as many.
fn digits(n: u64) -> usize {
    n.to_string().len().max(3)
}
