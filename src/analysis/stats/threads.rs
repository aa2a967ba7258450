//! What happened to each thread, and who did it.

#![expect(clippy::arithmetic_side_effects, reason = "counts and indices; ticks are added with saturation")]

use std::collections::BTreeMap;

use super::can::Can;
use super::{BLIND, Interrupts, bump, number_cell};
use crate::analysis::scope::Scope;
use crate::analysis::tracker::{System, ThreadNo, Who, place};
use crate::analysis::{many, thread_cell, who_cell};
use crate::report::{Cell, Column, Kind, Report};

/// The columns of `stats_threads`.
const THREADS: [Column; 8] = [
    Column::new("thread", Kind::Thread),
    Column::new("runs", Kind::Count),
    Column::new("preempted", Kind::Count),
    Column::new("sliced", Kind::Count),
    Column::new("yielded", Kind::Count),
    Column::new("blocked", Kind::Count),
    Column::new("stopped", Kind::Count).titled("suspended by others"),
    Column::new("woken", Kind::Count),
];

/// The most pairs that are counted apart: a damaged trace may name any number.
const MAX_PAIRS: usize = 1 << 14;

/// One thread.
#[derive(Debug, Clone, Default)]
pub struct Row {
    /// How often it was given a core.
    pub runs: u64,
    /// Lost its core to a more urgent one.
    pub preempted: u64,
    /// Lost its core at the end of its time slice.
    pub sliced: u64,
    /// Let go of its core.
    pub yielded: u64,
    /// Suspended itself.
    pub blocked: u64,
    /// Was suspended.
    pub stopped: u64,
    /// Was resumed.
    pub woken: u64,
    /// Losses whose cause no event shows.
    pub unexplained: u64,
}

/// Who did what to whom: the thread, whether it was resumed, by whom, in which interrupt.
type Deed = (ThreadNo, bool, Who, Option<u64>);

/// By whom and in which interrupt something was done, and how often.
#[derive(Debug)]
struct Count {
    by: Who,
    interrupt: Option<u64>,
    n: u64,
}

/// All threads.
#[derive(Debug, Default)]
pub struct Threads {
    rows: Vec<Row>,
    spare: Row,
    /// What was done, by its place in `counts`.
    did: BTreeMap<Deed, usize>,
    counts: Vec<Count>,
    /// By thread, suspended and resumed: the place of what was done last, plus one. It mostly comes again.
    last: Vec<[u32; 2]>,
    left_out: u64,
}

impl Threads {
    /// With room for as many threads as insert events.
    pub fn new(rows: Vec<Row>) -> Self {
        Self { rows, ..Self::default() }
    }

    /// The row of a thread.
    pub fn row(&mut self, no: ThreadNo) -> &mut Row {
        place(&mut self.rows, no.index()).unwrap_or(&mut self.spare)
    }

    /// Somebody resumed a thread, or suspended it.
    pub fn did(&mut self, thread: ThreadNo, resumed: bool, by: Who, interrupt: Option<u64>) {
        let interrupt = interrupt.filter(|_| by == Who::Isr);
        let both = place(&mut self.last, thread.index());
        let Some(last) = both.and_then(|both| both.get_mut(usize::from(resumed))) else { return };
        let again = usize::try_from(*last).ok().and_then(|n| self.counts.get_mut(n.checked_sub(1)?));
        match again.filter(|count| (count.by, count.interrupt) == (by, interrupt)) {
            Some(count) => bump(&mut count.n),
            None => {
                let deed = (thread, resumed, by, interrupt);
                let next = self.counts.len();
                if next >= MAX_PAIRS && !self.did.contains_key(&deed) {
                    bump(&mut self.left_out);
                    return;
                }
                let at = *self.did.entry(deed).or_insert(next);
                if at == next {
                    self.counts.push(Count { by, interrupt, n: 0 });
                }
                if let Some(count) = self.counts.get_mut(at) {
                    bump(&mut count.n);
                }
                *last = u32::try_from(at + 1).unwrap_or(0);
            }
        }
    }

    /// `stats_threads`: those that ran most first; none where nothing happened to any.
    pub fn report(&self, blind: bool, can: Can, scope: &Scope<'_>, system: &System<'_>) -> Option<Report> {
        let mut report = Report { notes: scope.notes(), ..Report::new("stats_threads", "Counters by thread", THREADS) };
        let mut rows: Vec<(ThreadNo, &Row)> =
            system.threads().filter_map(|(no, _)| Some((no, self.rows.get(no.index())?))).collect();
        rows.sort_by(|(a, x), (b, y)| y.runs.cmp(&x.runs).then_with(|| system.name(*a).cmp(&system.name(*b))));
        for (no, row) in rows {
            let all = [row.runs, row.preempted, row.sliced, row.yielded, row.blocked, row.stopped, row.woken];
            if all.iter().all(|n| *n == 0) {
                continue;
            }
            let known = |n: u64| if blind || (n == 0 && row.unexplained > 0) { Cell::Empty } else { Cell::Count(n) };
            scope.push(&mut report, || {
                vec![
                    thread_cell(no, system),
                    Cell::Count(row.runs),
                    known(row.preempted),
                    can.slice(row.sliced),
                    if can.slices { known(row.yielded) } else { Cell::Empty },
                    Cell::Count(row.blocked),
                    Cell::Count(row.stopped),
                    Cell::Count(row.woken),
                ]
            });
        }
        if blind {
            report.notes.push(BLIND.to_owned());
        }
        (!report.rows.is_empty()).then_some(report)
    }

    /// `stats_wakeups`: who resumed or suspended whom; no report where there is none.
    pub fn wakeups(&self, interrupts: &Interrupts, scope: &Scope<'_>, system: &System<'_>) -> Option<Report> {
        let columns = [
            Column::new("thread", Kind::Thread),
            Column::new("was", Kind::Text),
            Column::new("by", Kind::Thread),
            Column::new("interrupt", interrupts.kind()),
            Column::new("count", Kind::Count),
        ];
        let title = "Who resumed or suspended whom";
        let mut report = Report { notes: scope.notes(), ..Report::new("stats_wakeups", title, columns) };
        let mut rows: Vec<(&Deed, u64)> =
            self.did.iter().map(|(d, at)| (d, self.counts.get(*at).map_or(0, |count| count.n))).collect();
        let name = |no: ThreadNo| system.name(no).unwrap_or("");
        rows.sort_by(|((a, ..), n), ((b, ..), m)| name(*a).cmp(name(*b)).then(a.cmp(b)).then(m.cmp(n)));
        for ((thread, resumed, by, interrupt), n) in rows {
            scope.push(&mut report, || {
                vec![
                    thread_cell(*thread, system),
                    Cell::Text(if *resumed { "resumed" } else { "suspended" }.to_owned()),
                    who_cell(*by, system),
                    number_cell(*interrupt, interrupts.kind(), system),
                    Cell::Count(n),
                ]
            });
        }
        if self.left_out > 0 {
            report.notes.push(format!(
                "{} of pairs for which there is no room here",
                many(self.left_out, "more is", "more are")
            ));
        }
        (!report.rows.is_empty()).then_some(report)
    }
}
