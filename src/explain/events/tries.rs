//! Locks that threads ask for and do not get, and waits behind less urgent owners.

use std::collections::BTreeMap;

use crate::abi::Addr;
use crate::analysis::{Name, ReportRequest, reports};
use crate::catalogue::Catalogue;
use crate::query::{Filters, Query};
use crate::report::{Cell, Report};
use crate::trace::Trace;

/// The most pairs of thread and lock that are followed.
const MAX: usize = 4096;

/// How often a thread asked for a lock and did not get it, since it last had it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failed {
    /// How often.
    pub times: u64,
    /// Who had the lock each time; `None` where that changed, or is not known.
    pub owner: Option<Addr>,
    /// The first and the last event.
    pub seqs: (u64, u64),
}

/// All of them.
#[derive(Debug, Default)]
pub struct Tries {
    /// By thread and lock.
    pub failed: BTreeMap<(Addr, Addr), Failed>,
}

impl Tries {
    /// A thread asks and does not get it.
    pub fn fails(&mut self, thread: Addr, lock: Addr, owner: Option<Addr>, seq: u64) {
        if self.failed.len() >= MAX && !self.failed.contains_key(&(thread, lock)) {
            return;
        }
        let failed = self.failed.entry((thread, lock)).or_insert(Failed { times: 0, owner, seqs: (seq, seq) });
        failed.times = failed.times.saturating_add(1);
        failed.seqs.1 = seq;
        if failed.owner != owner {
            failed.owner = None;
        }
    }

    /// A thread gets a lock.
    pub fn succeeds(&mut self, thread: Addr, lock: Addr) {
        self.failed.remove(&(thread, lock));
    }

    /// Events are missing.
    pub fn forget(&mut self) {
        self.failed.clear();
    }
}

/// A wait for a lock that a less urgent thread has, still on at the end of the trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inversion {
    /// Who waits, as the trace stores its address.
    pub waiter: Addr,
    /// Who has the lock.
    pub owner: Addr,
    /// The lock.
    pub lock: Addr,
    /// Ticks so far.
    pub waited: i64,
    /// Who ran instead of the owner most, and how long.
    pub culprit: Addr,
    /// Ticks.
    pub ran: i64,
    /// Priorities of waiter and owner.
    pub priorities: (u64, u64),
    /// The event with which it began.
    pub from: u64,
}

/// Those that are still on, of the report of inversions.
pub fn inversions(trace: &Trace, catalogue: &Catalogue) -> Vec<Inversion> {
    let Ok(query) = Query::compile(&Filters::default(), trace, catalogue) else { return Vec::new() };
    let request = ReportRequest { names: vec![Name::Inversions], ..ReportRequest::default() };
    let made = reports(trace, catalogue, &query, &request).unwrap_or_default();
    made.iter().flat_map(|report| report.rows.iter().filter_map(|row| open(report, row))).collect()
}

fn open(report: &Report, row: &[Cell]) -> Option<Inversion> {
    let cell = |name: &str| row.get(report.columns.iter().position(|column| column.name == name)?);
    let address = |name| match cell(name) {
        Some(Cell::Named(address, _)) => Some(*address),
        _ => None,
    };
    let number = |name| match cell(name) {
        Some(Cell::Count(n)) => Some(*n),
        _ => None,
    };
    let ticks = |name| match cell(name) {
        Some(Cell::Ticks(n)) => Some(*n),
        _ => None,
    };
    match cell("ended") {
        Some(Cell::Text(word)) if word == "open" => {}
        _ => return None,
    }
    Some(Inversion {
        waiter: address("waiter")?,
        owner: address("owner")?,
        lock: address("mutex")?,
        waited: ticks("ticks")?,
        culprit: address("culprit")?,
        ran: ticks("culprit_ticks")?,
        priorities: (number("waiter_priority")?, number("owner_priority")?),
        from: number("from")?,
    })
}
