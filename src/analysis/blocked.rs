//! `blocked`: how long each thread waited, for what, in which call, and who woke it. What waits still comes first: on a dead
//! board that is the answer.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::waits::{Ending, ending};
use super::{Call, Change, Seen, Span, ThreadNo, Tracker, Visitor, Who, Whole, object_cell, thread_cell, word};
use crate::abi::Addr;
use crate::catalogue::Effect;
use crate::report::{Cell, Column, Kind, Report};
use crate::trace::{DefId, Event};

/// The most kinds of waits that are told apart: a damaged trace may name any number of objects.
const MOST_KINDS: usize = 1 << 16;
/// The most who are told apart of those that end one kind of wait.
const MOST_WAKERS: usize = 64;
/// The most threads that a note names.
const MOST_NAMES: usize = 6;

/// Waits that are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Kept {
    thread: ThreadNo,
    /// What is waited for; where no call names an object, the event that blocks and its code of the state.
    what: What,
    /// The call that names the object.
    call: Option<DefId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum What {
    Object(Addr),
    State(Option<DefId>, Option<u64>),
}

/// Who ended a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Waker {
    who: Who,
    interrupt: Option<u64>,
}

#[derive(Debug, Default)]
struct Row {
    count: u64,
    total: i64,
    min: Option<i64>,
    /// The longest, and the event that began it.
    max: Option<(i64, u64)>,
    wakers: Vec<(Waker, u64)>,
    timeouts: u64,
    /// The call, where it names no object: the first that is known.
    call: Option<DefId>,
    /// Ticks so far and the event that began it, where one goes on.
    open: Option<(i64, u64)>,
}

/// A wait that goes on.
#[derive(Debug, Clone, Copy)]
struct Open {
    from: i64,
    seq: u64,
    key: Kept,
    call: Option<DefId>,
    /// False where the filters keep neither the call nor the event that blocks.
    kept: bool,
}

/// Adds up waits.
#[derive(Debug, Default)]
pub struct Blocked {
    index: HashMap<Kept, usize>,
    /// By thread: the row that was looked for last.
    recent: Vec<Option<usize>>,
    rows: Vec<(Kept, Row)>,
    open: Vec<Option<Open>>,
    /// Threads that some change was about.
    met: Vec<bool>,
    /// The last event that the filters keep, by context.
    last_kept: Vec<Option<u64>>,
    /// Waits whose beginning lies before the first event.
    before: u64,
    /// Waits that began before the window.
    earlier: u64,
    lost: u64,
    begun: Option<i64>,
    now: i64,
}

impl Blocked {
    fn place<T: Clone>(list: &mut Vec<T>, at: usize, empty: T) -> Option<&mut T> {
        if at >= list.len() && at < 1 << 24 {
            list.resize(at.saturating_add(1), empty);
        }
        list.get_mut(at)
    }

    fn row(&mut self, key: Kept) -> Option<&mut Row> {
        let thread = key.thread.index();
        if let Some(at) = self.recent.get(thread).copied().flatten()
            && self.rows.get(at).is_some_and(|(own, _)| *own == key)
        {
            return self.rows.get_mut(at).map(|(_, row)| row);
        }
        let next = self.rows.len();
        let at = match self.index.get(&key) {
            Some(at) => *at,
            None if next >= MOST_KINDS => {
                self.lost = self.lost.saturating_add(1);
                return None;
            }
            None => {
                self.index.insert(key, next);
                self.rows.push((key, Row::default()));
                next
            }
        };
        if let Some(place) = Self::place(&mut self.recent, thread, None) {
            *place = Some(at);
        }
        self.rows.get_mut(at).map(|(_, row)| row)
    }

    fn begins(&mut self, seen: &Seen<'_>, thread: ThreadNo, call: Option<Call>, code: Option<u64>, t: &Tracker<'_>) {
        let what = call.and_then(|c| c.object).map_or(What::State(seen.event.def, code), What::Object);
        let def = call.map(|c| c.def);
        let key = Kept { thread, what, call: def.filter(|_| matches!(what, What::Object(_))) };
        let context = t.thread(thread).and_then(|th| th.context).and_then(|c| usize::try_from(c.0).ok());
        let last = context.and_then(|c| self.last_kept.get(c).copied().flatten());
        let kept = seen.kept || !seen.inside || call.is_some_and(|c| last.is_some_and(|last| last >= c.seq));
        let open = Open { from: seen.event.ticks, seq: seen.event.seq, key, call: def, kept };
        if let Some(place) = Self::place(&mut self.open, thread.index(), None) {
            *place = Some(open);
        }
    }

    fn ends(&mut self, seen: &Seen<'_>, open: Open, waker: Option<Waker>, timed_out: bool) {
        // What began before the window is told where the filters keep its end.
        let earlier = self.begun.is_none_or(|begun| open.from < begun);
        if !seen.inside || !(seen.kept || open.kept && !earlier) {
            return;
        }
        self.earlier = self.earlier.saturating_add(u64::from(earlier));
        let ticks = seen.event.ticks.saturating_sub(open.from);
        let Some(row) = self.row(open.key) else { return };
        row.call = row.call.or(open.call);
        row.count = row.count.saturating_add(1);
        row.total = row.total.saturating_add(ticks);
        row.min = Some(row.min.map_or(ticks, |m| m.min(ticks)));
        if row.max.is_none_or(|(max, _)| ticks > max) {
            row.max = Some((ticks, open.seq));
        }
        row.timeouts = row.timeouts.saturating_add(u64::from(timed_out));
        let Some(waker) = waker else { return };
        if let Some((_, n)) = row.wakers.iter_mut().find(|(w, _)| *w == waker) {
            *n = n.saturating_add(1);
        } else if row.wakers.len() < MOST_WAKERS {
            row.wakers.push((waker, 1));
        }
    }

    fn begin(&mut self, event: &Event) {
        self.begun.get_or_insert(event.ticks);
        self.now = event.ticks;
    }
}

impl Visitor for Blocked {
    fn span(&mut self, span: &Span, _: &Tracker<'_>) {
        self.now = self.now.max(span.to);
    }

    fn seen(&mut self, seen: &Seen<'_>, change: &Change, tracker: &Tracker<'_>) {
        if seen.inside {
            self.begin(seen.event);
        }
        match *change {
            Change::Blocked { thread, code, call, .. } => {
                self.begins(seen, thread, call, code, tracker);
                self.meet(thread);
            }
            Change::Readied { thread, by, interrupt, waited, call, .. } => {
                let open = self.open.get_mut(thread.index()).and_then(Option::take);
                let met = self.meet(thread);
                let Some(open) = open else {
                    // A thread that was never met may have waited, or be new.
                    self.before = self.before.saturating_add(u64::from(!met && seen.inside && seen.kept));
                    return;
                };
                let interrupt = seen.event.isr.map(u64::from).or(interrupt).filter(|_| by == Who::Isr);
                let how = waited.map(|wait| ending(thread, &wait, call, tracker));
                self.ends(seen, open, Some(Waker { who: by, interrupt }), how == Some(Ending::TimedOut));
            }
            Change::Ended { thread, waited } => {
                if let Some(open) = self.open.get_mut(thread.index()).and_then(Option::take)
                    && waited.is_some()
                {
                    self.ends(seen, open, None, false);
                }
            }
            _ => {}
        }
    }

    fn event(&mut self, event: &Event, _: &Tracker<'_>) {
        self.begin(event);
        if let Ok(at) = usize::try_from(event.context.0)
            && let Some(place) = Self::place(&mut self.last_kept, at, None)
        {
            *place = Some(event.seq);
        }
    }

    fn finish(&mut self, whole: &Whole, tracker: &Tracker<'_>) -> Vec<Report> {
        let to = whole.span.map_or(self.now, |(_, to)| to);
        let still: Vec<Open> = self.open.iter().flatten().filter(|o| o.kept).copied().collect();
        for open in &still {
            if let Some(row) = self.row(open.key) {
                row.call = row.call.or(open.call);
                row.open = Some((to.saturating_sub(open.from), open.seq));
            }
        }
        let mut rows: Vec<&(Kept, Row)> = self.rows.iter().collect();
        rows.sort_by_key(|(key, row)| {
            (row.open.is_none(), Reverse(row.open.map(|(t, _)| t)), Reverse(row.total), key.thread)
        });
        let report = Report {
            name: "blocked",
            columns: COLUMNS.to_vec(),
            rows: rows.into_iter().map(|(key, row)| cells(key, row, tracker)).collect(),
            notes: self.notes(whole, &still, tracker),
        };
        vec![report]
    }
}

const COLUMNS: [Column; 13] = [
    Column { name: "thread", kind: Kind::Thread },
    Column { name: "object", kind: Kind::Object },
    Column { name: "call", kind: Kind::Event },
    Column { name: "open", kind: Kind::Ticks },
    Column { name: "since", kind: Kind::Seq },
    Column { name: "count", kind: Kind::Count },
    Column { name: "total", kind: Kind::Ticks },
    Column { name: "woken_by", kind: Kind::Thread },
    Column { name: "max", kind: Kind::Ticks },
    Column { name: "max_seq", kind: Kind::Seq },
    Column { name: "timeouts", kind: Kind::Count },
    Column { name: "min", kind: Kind::Ticks },
    Column { name: "woken", kind: Kind::Count },
];

fn cells(key: &Kept, row: &Row, tracker: &Tracker<'_>) -> Vec<Cell> {
    let object = match key.what {
        What::Object(address) => object_cell(address, tracker),
        What::State(def, code) => tracker.state_word(def, code).map_or(Cell::Empty, Cell::Text),
    };
    let most = row.wakers.iter().rev().max_by_key(|(_, n)| *n);
    let finished = |ticks: i64| if row.count > 0 { Cell::Ticks(ticks) } else { Cell::Empty };
    vec![
        thread_cell(key.thread, tracker),
        object,
        row.call.map_or(Cell::Empty, |def| Cell::Text(tracker.catalogue[def].name.clone())),
        row.open.map_or(Cell::Empty, |(ticks, _)| Cell::Ticks(ticks)),
        row.open.map_or(Cell::Empty, |(_, seq)| Cell::Count(seq)),
        Cell::Count(row.count),
        finished(row.total),
        most.map_or(Cell::Empty, |(w, _)| waker_cell(*w, tracker)),
        row.max.map_or(Cell::Empty, |(ticks, _)| Cell::Ticks(ticks)),
        row.max.map_or(Cell::Empty, |(_, seq)| Cell::Count(seq)),
        if row.timeouts > 0 { Cell::Count(row.timeouts) } else { Cell::Empty },
        row.min.map_or(Cell::Empty, Cell::Ticks),
        most.map_or(Cell::Empty, |(_, n)| Cell::Count(*n)),
    ]
}

fn waker_cell(waker: Waker, tracker: &Tracker<'_>) -> Cell {
    match (waker.who, waker.interrupt) {
        (Who::Thread(no), _) => thread_cell(no, tracker),
        (Who::Isr, number) => Cell::Isr(number),
        (who, _) => Cell::Text(word(who).to_owned()),
    }
}

impl Blocked {
    /// Notes a thread; true where it was met before.
    fn meet(&mut self, thread: ThreadNo) -> bool {
        Self::place(&mut self.met, thread.index(), false).is_some_and(|met| std::mem::replace(met, true))
    }

    fn notes(&self, whole: &Whole, still: &[Open], tracker: &Tracker<'_>) -> Vec<String> {
        let mut notes = whole.notes();
        if whole.filtered {
            notes.push(
                "a wait is listed where the filters keep the call, the event that blocks or the event that wakes; \
                 its time is whole"
                    .to_owned(),
            );
        }
        if !still.is_empty() {
            notes.push(
                "open: ticks from the event that blocks (since) to the last one; not in count, total, min and max"
                    .to_owned(),
            );
        }
        if !tracker.catalogue.tells(Effect::Block) {
            notes.push("waits: not told by this trace; no event of this system says that a thread blocks".to_owned());
        } else if self.rows.iter().any(|(_, r)| r.count > 0) && !tracker.tells_patience() {
            notes.push("timeouts: not told by this trace; no event says how long a caller will wait".to_owned());
        }
        if self.rows.iter().any(|(_, r)| r.timeouts > 0) {
            notes.push(
                "timeouts: waits with a limit that ended although nobody acted on the object or aborted them"
                    .to_owned(),
            );
        }
        if self.earlier > 0 {
            notes.push(format!("waits that began before the window: {}; their time is whole", self.earlier));
        }
        if self.before > 0 {
            notes.push(format!(
                "threads that were made ready by their first event: {}; they waited since before the trace, or are new, and \
                 are not counted",
                self.before
            ));
        }
        if self.lost > 0 {
            notes.push(format!("more than {MOST_KINDS} kinds of waits: {} waits are not counted", self.lost));
        }
        let mut silent =
            tracker.trace.objects.iter().filter(|o| {
                o.is_thread && !o.deleted && !tracker.threads().any(|(_, thread)| thread.address == o.address)
            });
        let names: Vec<String> = silent
            .by_ref()
            .take(MOST_NAMES)
            .map(|o| if o.name.is_empty() { format!("{:#x}", o.address) } else { o.name.clone() })
            .collect();
        if !names.is_empty() {
            let more = silent.count();
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            notes.push(format!("in no event, so that nothing is known of their waits: {}{more}", names.join(", ")));
        }
        notes
    }
}
