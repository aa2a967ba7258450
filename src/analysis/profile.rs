//! `profile`: who had the processor, for how long. The parts add up to the whole: what cannot be attributed is a row.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::{Span, Tracker, Visitor, Who, Whole, object_cell, share, who_cell, word};
use crate::abi::Addr;
use crate::report::{Cell, Column, Kind, Report};

/// How many sums are kept at hand.
const AT_HAND: usize = 64;

/// Adds up the time of everybody, by core.
#[derive(Debug)]
pub struct Profile {
    by: BTreeMap<(u16, Who), i64>,
    /// Who had a core lately, and the time that is not in the sums yet: most spans are of one of them.
    lately: [Option<((u16, Who), i64)>; AT_HAND],
}

impl Default for Profile {
    fn default() -> Self {
        Self { by: BTreeMap::new(), lately: [None; AT_HAND] }
    }
}

/// The place of somebody among those who had a core lately.
#[inline]
fn place((core, who): (u16, Who)) -> usize {
    let own = match who {
        Who::Isr => 0,
        Who::Idle => 1,
        Who::Init => 2,
        Who::Unknown => 3,
        Who::Thread(no) => no.index().wrapping_add(4),
    };
    own.wrapping_add(usize::from(core).wrapping_mul(13)) % AT_HAND
}

/// Who had a core where threads belong to processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Party {
    /// A process, by its address in the registry.
    Process(Addr),
    /// Anybody else.
    Other(Who),
}

/// The process of a thread; itself where it is known to have none.
fn party(who: Who, tracker: &Tracker<'_>) -> Party {
    let Who::Thread(no) = who else { return Party::Other(who) };
    let context = tracker.thread(no).and_then(|t| t.context).and_then(|c| tracker.trace.contexts.get(c));
    context.and_then(|c| c.process).map_or(Party::Other(who), Party::Process)
}

impl Visitor for Profile {
    fn span(&mut self, span: &Span, _: &Tracker<'_>) {
        let (key, ticks) = ((span.core, span.who), span.to.saturating_sub(span.from));
        match self.lately.get_mut(place(key)) {
            Some(Some((own, sum))) if *own == key => *sum = sum.saturating_add(ticks),
            Some(other) => {
                let before = other.replace((key, ticks));
                self.add(before);
            }
            None => self.add(Some((key, ticks))),
        }
    }

    fn finish(&mut self, whole: &Whole, tracker: &Tracker<'_>) -> Vec<Report> {
        for part in std::mem::replace(&mut self.lately, [None; AT_HAND]) {
            self.add(part);
        }
        // A core's last event at the same tick as its first gives nobody any time.
        self.by.retain(|(_, who), ticks| *ticks != 0 || *who != Who::Unknown);
        let mut reports = vec![self.threads(whole, tracker)];
        if tracker.trace.contexts.iter().any(|(_, c)| c.process.is_some()) {
            reports.push(self.processes(whole, tracker));
        }
        reports
    }
}

/// The columns of a profile, with the core in front where there are several.
fn columns(first: &[Column], whole: &Whole) -> Vec<Column> {
    let core = Column { name: "core", kind: Kind::Count };
    let time = [Column { name: "ticks", kind: Kind::Ticks }, Column { name: "share", kind: Kind::Real(2) }];
    (whole.cores > 1).then_some(core).into_iter().chain(first.iter().copied()).chain(time).collect()
}

impl Profile {
    fn add(&mut self, part: Option<((u16, Who), i64)>) {
        let Some((key, ticks)) = part else { return };
        let sum = self.by.entry(key).or_default();
        *sum = sum.saturating_add(ticks);
    }

    /// The time of each core, of which shares are parts.
    fn totals(&self) -> BTreeMap<u16, i64> {
        let mut totals: BTreeMap<u16, i64> = BTreeMap::new();
        for ((core, _), ticks) in &self.by {
            let total = totals.entry(*core).or_default();
            *total = total.saturating_add(*ticks);
        }
        totals
    }

    /// Rows of a table, the most time first: by core, whatever the first cells tell, ticks and share.
    fn rows(&self, list: Vec<(u16, Vec<Cell>, i64)>, whole: &Whole) -> Vec<Vec<Cell>> {
        let (totals, mut list) = (self.totals(), list);
        list.sort_by_key(|(core, _, ticks)| (*core, Reverse(*ticks)));
        let row = |(core, cells, ticks): (u16, Vec<Cell>, i64)| {
            let total = totals.get(&core).copied().unwrap_or(0);
            let core = (whole.cores > 1).then(|| Cell::Count(u64::from(core)));
            core.into_iter().chain(cells).chain([Cell::Ticks(ticks), Cell::Real(share(ticks, total))]).collect()
        };
        list.into_iter().map(row).collect()
    }

    fn threads(&self, whole: &Whole, tracker: &Tracker<'_>) -> Report {
        let first = [Column { name: "who", kind: Kind::Thread }, Column { name: "kind", kind: Kind::Text }];
        let cells = |who| vec![who_cell(who, tracker), Cell::Text(word(who).to_owned())];
        let list = self.by.iter().map(|((core, who), ticks)| (*core, cells(*who), *ticks)).collect();
        let mut notes = whole.notes();
        if self.by.iter().any(|((_, who), ticks)| *who == Who::Unknown && *ticks > 0) {
            notes.push(
                "unknown: no event tells who had the core; at the end of that time somebody is at work whom no event \
                 made run, or an interrupt begins that found a switch still to be done, or acts without having begun"
                    .to_owned(),
            );
        }
        if !self.by.is_empty() {
            notes.extend(whole.interrupted_time());
        }
        Report { name: "profile", columns: columns(&first, whole), rows: self.rows(list, whole), notes }
    }

    /// The same by process; the other rows are as they are.
    fn processes(&self, whole: &Whole, tracker: &Tracker<'_>) -> Report {
        let mut by: BTreeMap<(u16, Party), (i64, u64)> = BTreeMap::new();
        for ((core, who), ticks) in &self.by {
            let (sum, threads) = by.entry((*core, party(*who, tracker))).or_default();
            *sum = sum.saturating_add(*ticks);
            *threads = threads.saturating_add(1);
        }
        let first = [
            Column { name: "process", kind: Kind::Object },
            Column { name: "kind", kind: Kind::Text },
            Column { name: "threads", kind: Kind::Count },
        ];
        let cells = |party, threads| match party {
            Party::Process(address) => {
                vec![object_cell(address, tracker), Cell::Text("process".to_owned()), Cell::Count(threads)]
            }
            Party::Other(who) => vec![who_cell(who, tracker), Cell::Text(word(who).to_owned()), Cell::Empty],
        };
        let list = by.iter().map(|((core, party), (ticks, n))| (*core, cells(*party, *n), *ticks)).collect();
        let mut notes = whole.notes();
        notes.push("threads: how many of the process had the processor".to_owned());
        Report { name: "profile_processes", columns: columns(&first, whole), rows: self.rows(list, whole), notes }
    }
}
