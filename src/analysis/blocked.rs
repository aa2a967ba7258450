//! `blocked`: how long each thread waited, for what, in which call, and who woke it. What waits still comes first: on a dead
//! board that is the answer.

#![expect(clippy::arithmetic_side_effects, reason = "counts and indices; ticks are added with saturation")]

use std::cmp::Reverse;

use super::scope::Scope;
use super::tracker::{Call, Change, Ending, ObjectNo, Step, System, ThreadNo, Who, place};
use super::{Changes, Making, Needs, Of, many, object_cell, thread_cell, word};
use crate::catalogue::Effect;
use crate::error::Error;
use crate::report::{Cell, Column, Kind, Report};
use crate::trace::{DefId, Event, Interner};

/// The most kinds of waits that are counted apart: a damaged trace may name any number of objects.
const MAX_KINDS: usize = 1 << 16;
/// The most who are counted apart of those that end one kind of wait.
const MAX_WAKERS: usize = 64;
/// The most threads that a note names.
const MAX_NAMES: usize = 6;

/// Waits that are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Key {
    thread: ThreadNo,
    /// The number of what is waited for.
    what: u32,
}

/// What is waited for: an object in a call, or where no call names one, the event that blocks and its code of the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Object(ObjectNo, DefId),
    /// By its number in [`Blocked::states`].
    State(u32),
}

/// Who ended a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waker {
    Interrupt(Option<u64>),
    Other(Who),
}

impl Waker {
    fn of(who: Who, interrupt: Option<u64>) -> Self {
        if who == Who::Isr { Self::Interrupt(interrupt) } else { Self::Other(who) }
    }
}

/// How often each ended a wait. Most waits have one that always does.
#[derive(Debug, Default)]
struct Wakers {
    first: Option<(Waker, u64)>,
    others: Vec<(Waker, u64)>,
}

impl Wakers {
    fn add(&mut self, waker: Waker) {
        if self.first.is_none() {
            self.first = Some((waker, 0));
        }
        if let Some((_, times)) = self.first.iter_mut().chain(&mut self.others).find(|(known, _)| *known == waker) {
            *times += 1;
        } else if self.others.len() + 1 < MAX_WAKERS {
            self.others.push((waker, 1));
        }
    }

    /// The one that did it most often; of several, the first.
    fn most(&self) -> Option<(Waker, u64)> {
        self.others.iter().rev().chain(&self.first).copied().max_by_key(|(_, times)| *times)
    }
}

/// Those that are over; of none the shortest and the longest mean nothing.
#[derive(Debug, Default)]
struct Row {
    count: u64,
    total: i64,
    min: i64,
    /// The longest, and the event that began it.
    max: (i64, u64),
    wakers: Wakers,
    timeouts: u64,
    /// The call, where it names no object: the first that is known.
    call: Option<DefId>,
}

/// A wait that goes on.
#[derive(Debug, Clone, Copy)]
struct Open {
    from: i64,
    seq: u64,
    /// The number of what is waited for.
    what: u32,
    /// How many gaps are before it.
    gaps: u32,
    call: Option<DefId>,
    /// False where the filters keep neither the call nor the event that blocks.
    kept: bool,
}

/// Ticks so far and the event that began it, of a wait that goes on.
type Lasting = Option<(i64, u64)>;

/// Adds up waits.
#[derive(Debug, Default)]
pub(super) struct Blocked {
    /// Numbers of what is waited for: object and definition in one word, or the number of a state with the highest bit set.
    whats: Interner,
    /// Numbers of states: code and definition.
    states: Vec<(Option<DefId>, Option<u64>)>,
    /// Numbers of rows: thread and number of what it waits for, in one word.
    numbers: Interner,
    rows: Vec<(Key, Row)>,
    open: Vec<Option<Open>>,
    /// Threads that some change was about.
    met: Vec<bool>,
    /// Waits whose beginning is before the first event.
    before: u64,
    /// Waits that began before the window.
    earlier: u64,
    /// Places at which events are missing.
    gaps: u32,
    /// Waits that were open there.
    cut: u64,
    lost: u64,
}

/// The most states that are counted apart.
const MAX_STATES: usize = 256;

impl Blocked {
    /// The place of a row; it is added where it is new and there is room.
    fn row(&mut self, key: Key) -> Option<usize> {
        let number = u64::from(key.thread.0) << 32 | u64::from(key.what);
        if self.rows.len() >= MAX_KINDS && self.numbers.find(number).is_none() {
            self.lost += 1;
            return None;
        }
        let at = usize::try_from(self.numbers.intern(number)).ok()?;
        if at >= self.rows.len() {
            self.rows.push((key, Row::default()));
        }
        Some(at)
    }

    /// The number of what is waited for.
    fn number(&mut self, what: What) -> u32 {
        self.whats.intern(match what {
            What::Object(object, def) => u64::from(object.0) << 32 | u64::from(def.number()),
            What::State(number) => 1 << 63 | u64::from(number),
        })
    }

    /// What has a number.
    fn what(&self, number: u32) -> Option<What> {
        let word = self.whats.word(number)?;
        let half = |bits: u64| u32::try_from(bits & u64::from(u32::MAX)).unwrap_or(u32::MAX);
        Some(match word >> 63 {
            0 => What::Object(ObjectNo(half(word >> 32)), DefId::new(half(word))),
            _ => What::State(half(word)),
        })
    }

    /// The number of a state; those for which there is no room share that of the last.
    fn state(&mut self, def: Option<DefId>, code: Option<u64>) -> u32 {
        let known = self.states.iter().position(|s| *s == (def, code));
        if known.is_none() && self.states.len() < MAX_STATES {
            self.states.push((def, code));
        }
        u32::try_from(known.unwrap_or(self.states.len().saturating_sub(1))).unwrap_or(u32::MAX)
    }

    fn ends(&mut self, event: &Event, thread: ThreadNo, open: &Open, waker: Option<(Waker, bool)>, scope: &Scope<'_>) {
        // What began before the window is reported where the filters keep its end.
        let earlier = scope.is_before(open.from);
        if !scope.inside || !(scope.keeps || open.kept && !earlier) {
            return;
        }
        self.earlier += u64::from(earlier);
        let ticks = event.ticks.saturating_sub(open.from);
        let at = self.row(Key { thread, what: open.what });
        let Some((_, row)) = at.and_then(|at| self.rows.get_mut(at)) else { return };
        row.call = row.call.or(open.call);
        let is_first = row.count == 0;
        row.count += 1;
        row.total = row.total.saturating_add(ticks);
        row.min = if is_first { ticks } else { row.min.min(ticks) };
        if is_first || ticks > row.max.0 {
            row.max = (ticks, open.seq);
        }
        let Some((waker, timed_out)) = waker else { return };
        row.timeouts += u64::from(timed_out);
        row.wakers.add(waker);
    }

    /// The wait of a thread that is over now; one from before a gap may have been over long ago.
    fn take_open(&mut self, thread: ThreadNo) -> Option<Open> {
        let open = self.open.get_mut(thread.index())?.take()?;
        if open.gaps != self.gaps {
            self.cut += u64::from(open.kept);
            return None;
        }
        Some(open)
    }

    fn begins(&mut self, event: &Event, thread: ThreadNo, code: Option<u64>, call: Option<Call>, kept: bool) {
        let what = match call.and_then(|c| Some((c.object?, c.def))) {
            Some((object, def)) => What::Object(object, def),
            None => What::State(self.state(event.def, code)),
        };
        let (what, call) = (self.number(what), call.map(|c| c.def));
        let open = Open { from: event.ticks, seq: event.seq, what, gaps: self.gaps, call, kept };
        self.take_open(thread);
        if let Some(place) = place(&mut self.open, thread.index()) {
            *place = Some(open);
        }
    }

    fn change(&mut self, event: &Event, change: &Change, scope: &Scope<'_>, system: &System<'_>) {
        match *change {
            Change::Blocked { thread, code, call, .. } => {
                self.begins(event, thread, code, call, scope.keeps_wait(thread, call, system));
                self.meet(thread);
            }
            Change::Readied { thread, by, interrupt, waited, .. } => {
                let open = self.take_open(thread);
                let met = self.meet(thread);
                let Some(open) = open else {
                    // A thread that was never met may have waited, or be new.
                    self.before += u64::from(!met && scope.inside && scope.keeps);
                    return;
                };
                let interrupt = event.isr.map(u64::from).or(interrupt);
                let timed_out = waited.is_some_and(|w| w.ending == Ending::TimedOut);
                self.ends(event, thread, &open, Some((Waker::of(by, interrupt), timed_out)), scope);
            }
            Change::Ended { thread, waited } => {
                if let Some(open) = self.take_open(thread).filter(|_| waited) {
                    self.ends(event, thread, &open, None, scope);
                }
            }
            _ => {}
        }
    }
}

impl Making for Blocked {
    /// It follows waits from their beginning to their end.
    const NEEDS: Needs = Needs { spans: false, changes: Changes::UpToEnd, calls: true };

    fn make(of: &Of<'_>) -> Result<Self, Error> {
        let rows = Vec::with_capacity(of.trace.contexts.len().min(MAX_KINDS));
        Ok(Blocked { open: of.by_thread(), rows, ..Blocked::default() })
    }

    fn changes(&mut self, step: &Step<'_>, scope: &Scope<'_>, system: &System<'_>) {
        step.changes.iter().for_each(|change| self.change(step.event, change, scope, system));
    }

    fn gap(&mut self) {
        self.gaps += 1;
    }

    fn finish(mut self, scope: &Scope<'_>, system: &System<'_>) -> Vec<Report> {
        let to = scope.end();
        let mut lasting: Vec<Lasting> = Vec::new();
        for (no, _) in (0u32..).zip(0..self.open.len()) {
            let Some(open) = self.take_open(ThreadNo(no)).filter(|open| open.kept) else { continue };
            if let Some(at) = self.row(Key { thread: ThreadNo(no), what: open.what })
                && let (Some((_, row)), Some(ticks)) = (self.rows.get_mut(at), place(&mut lasting, at))
            {
                row.call = row.call.or(open.call);
                *ticks = Some((to.saturating_sub(open.from), open.seq));
            }
        }
        drop(std::mem::take(&mut self.open));
        lasting.resize(self.rows.len(), None);
        let mut rows: Vec<(&(Key, Row), Lasting)> = self.rows.iter().zip(lasting).collect();
        rows.sort_by_key(|((key, row), lasting)| {
            (lasting.is_none(), Reverse(lasting.map(|(t, _)| t)), Reverse(row.total), key.thread)
        });
        let mut report = Report {
            nothing: nothing(system).to_owned(),
            notes: self.notes(scope, system),
            ..Report::new("blocked", "Waits", COLUMNS)
        };
        for ((key, row), lasting) in rows {
            scope.push(&mut report, || self.cells(key, row, lasting, system));
        }
        vec![report]
    }
}

const COLUMNS: [Column; 13] = [
    Column::new("thread", Kind::Thread),
    Column::new("object", Kind::Object).titled("object or state"),
    Column::new("call", Kind::Event),
    Column::new("open", Kind::Ticks).titled("still waiting"),
    Column::new("since", Kind::Seq).titled("since event"),
    Column::new("count", Kind::Count).titled("waits over"),
    Column::new("total", Kind::Ticks),
    Column::new("woken_by", Kind::Thread).titled("main waker"),
    Column::new("max", Kind::Ticks),
    Column::new("max_seq", Kind::Seq).titled("max from event"),
    Column::new("timeouts", Kind::Count),
    Column::new("min", Kind::Ticks),
    Column::new("woken", Kind::Count).titled("wakes by main waker"),
];

/// Why there is no row.
fn nothing(system: &System<'_>) -> &'static str {
    if system.catalogue.has_effect(Effect::Block) {
        "no thread waits"
    } else {
        "waits: not recorded; no event of this system says that a thread blocks"
    }
}

impl Blocked {
    /// The cells of a row.
    fn cells(&self, key: &Key, row: &Row, lasting: Lasting, system: &System<'_>) -> Vec<Cell> {
        let state = |number| self.states.get(usize::try_from(number).ok()?).copied();
        let object = match self.what(key.what) {
            Some(What::Object(object, _)) => object_cell(object, system),
            Some(What::State(number)) => {
                state(number).and_then(|(def, code)| system.state_word(def, code)).map_or(Cell::Empty, Cell::Text)
            }
            None => Cell::Empty,
        };
        let most = row.wakers.most();
        let finished = |cell: Cell| if row.count > 0 { cell } else { Cell::Empty };
        vec![
            thread_cell(key.thread, system),
            object,
            row.call.map_or(Cell::Empty, |def| Cell::Text(system.catalogue[def].name.clone())),
            lasting.map_or(Cell::Empty, |(ticks, _)| Cell::Ticks(ticks)),
            lasting.map_or(Cell::Empty, |(_, seq)| Cell::Count(seq)),
            Cell::Count(row.count),
            finished(Cell::Ticks(row.total)),
            most.map_or(Cell::Empty, |(waker, _)| waker_cell(waker, system)),
            finished(Cell::Ticks(row.max.0)),
            finished(Cell::Count(row.max.1)),
            // No event of some systems says how long a caller will wait.
            if system.states_waits() { Cell::Count(row.timeouts) } else { Cell::Empty },
            finished(Cell::Ticks(row.min)),
            most.map_or(Cell::Empty, |(_, times)| Cell::Count(times)),
        ]
    }
}

fn waker_cell(waker: Waker, system: &System<'_>) -> Cell {
    match waker {
        Waker::Other(Who::Thread(no)) => thread_cell(no, system),
        Waker::Interrupt(number) => Cell::Isr(number),
        Waker::Other(who) => Cell::Text(word(who).to_owned()),
    }
}

impl Blocked {
    /// Notes a thread; true where it was met before.
    fn meet(&mut self, thread: ThreadNo) -> bool {
        place(&mut self.met, thread.index()).is_some_and(|met| std::mem::replace(met, true))
    }

    fn notes(&self, scope: &Scope<'_>, system: &System<'_>) -> Vec<String> {
        let mut notes = scope.notes();
        if self.rows.iter().any(|(_, r)| r.count > 0) && !system.states_waits() {
            notes.push("timeouts: not recorded; no event says how long a caller will wait".to_owned());
        }
        if self.earlier > 0 {
            notes.push(format!("waits that began before the window: {}; their time is whole", self.earlier));
        }
        if self.before > 0 {
            let threads = many(self.before, "thread was made ready by its", "threads were made ready by their");
            notes.push(format!("{threads} first event: a wait before it is not counted"));
        }
        if self.cut > 0 {
            notes.push(format!(
                "{} open where events are missing: when they ended, if they did, is not known",
                many(self.cut, "wait was", "waits were")
            ));
        }
        if self.lost > 0 {
            notes.push(format!(
                "more than {MAX_KINDS} kinds of waits: {} not counted",
                many(self.lost, "wait is", "waits are")
            ));
        }
        notes.extend(silent(system));
        notes
    }
}

/// The threads of the registry that are in no event.
fn silent(system: &System<'_>) -> Option<String> {
    let mut silent = system
        .trace
        .objects
        .iter()
        .filter(|o| o.is_thread && !o.deleted && !system.threads().any(|(_, thread)| thread.address == o.address));
    let names: Vec<String> = silent
        .by_ref()
        .take(MAX_NAMES)
        .map(|o| if o.name.is_empty() { format!("{:#x}", o.address) } else { o.name.clone() })
        .collect();
    if names.is_empty() {
        return None;
    }
    let more = silent.count();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    Some(format!("threads without an event, whose waits are not known: {}{more}", names.join(", ")))
}
