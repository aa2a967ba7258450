//! From ready to running, by thread.

#![expect(clippy::arithmetic_side_effects, reason = "counts and indices; ticks are added with saturation")]

use super::timing::{Timing, notes, ticks, timing_columns};
use crate::analysis::scope::{Scope, interrupted_time};
use crate::analysis::tracker::{Change, System, Thread, ThreadNo, ThreadState, place};
use crate::analysis::{many, thread_cell};
use crate::report::{Column, Kind, Report};
use crate::trace::Event;

#[derive(Debug, Clone, Default)]
pub(super) struct One {
    timing: Timing,
    /// The event that made it ready. A thread that lost its core is ready as well, but no event woke it.
    woken: Option<u64>,
}

#[derive(Debug)]
pub(super) struct Threads {
    all: Vec<One>,
    /// Starts that no event shows.
    unknown: u64,
}

impl Threads {
    pub const fn new(all: Vec<One>) -> Self {
        Self { all, unknown: 0 }
    }

    fn at(&mut self, no: ThreadNo) -> Option<&mut One> {
        place(&mut self.all, no.index())
    }

    pub fn change(&mut self, event: &Event, change: &Change) {
        match *change {
            Change::Readied { thread, .. } => {
                if let Some(one) = self.at(thread) {
                    one.woken = Some(event.seq);
                }
            }
            // One that made itself ready and lost its core with the same event was woken by no other.
            Change::Preempted { thread, .. } => {
                if let Some(one) = self.at(thread).filter(|o| o.woken == Some(event.seq)) {
                    one.woken = None;
                }
            }
            Change::Dispatched { thread, ready: Some((since, seq)), at } => {
                if let Some(one) = self.at(thread).filter(|o| o.woken == Some(seq)) {
                    match at {
                        Some(at) => one.timing.add(since, at, event.seq),
                        None => self.unknown += 1,
                    }
                }
            }
            _ => {}
        }
    }

    pub fn report(&self, scope: &Scope<'_>, system: &System<'_>) -> Report {
        let ready = Column::new("waiting", Kind::Ticks).titled("ready now for");
        let columns = timing_columns(Column::new("thread", Kind::Thread), &[ready]);
        let mut rows = Vec::new();
        let (mut backwards, nothing) = (0u64, One::default());
        let waiting = |thread: &Thread| {
            // Where filters leave events out, the end of the trace is not the end of what is looked at.
            let is_ready = thread.state == ThreadState::Ready && thread.since_seq().is_some() && !scope.filtered;
            let (_, end) = scope.span.filter(|_| is_ready)?;
            u64::try_from(end.checked_sub(thread.since)?).ok()
        };
        for (no, thread) in system.threads() {
            let (one, waiting) = (self.all.get(no.index()).unwrap_or(&nothing), waiting(thread));
            backwards += one.timing.backwards;
            if one.timing.count() > 0 || waiting.is_some() {
                rows.push((one.timing.max().max(waiting.unwrap_or(0)), no));
            }
        }
        rows.sort_unstable_by_key(|(longest, no)| (std::cmp::Reverse(*longest), *no));
        let mut notes = notes(scope, backwards);
        if !rows.is_empty() {
            notes.extend(interrupted_time(system));
        }
        if self.unknown > 0 {
            notes.push(format!("{} left out: no event showed when", many(self.unknown, "start is", "starts are")));
        }
        let mut report = Report {
            nothing: "no event shows when a thread becomes ready and then runs".to_owned(),
            notes,
            ..Report::new("latency_threads", "Threads: from ready to running", columns)
        };
        for (_, no) in rows {
            let waiting = system.thread(no).and_then(waiting);
            let timing = self.all.get(no.index()).map_or(&nothing.timing, |one| &one.timing);
            scope.push(&mut report, || {
                [thread_cell(no, system)].into_iter().chain(timing.cells()).chain([ticks(waiting)]).collect()
            });
        }
        report
    }
}
