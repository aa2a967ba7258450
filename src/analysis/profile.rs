//! `profile`: who had the processor, for how long. The parts add up to the scope: what cannot be attributed is a row.

#![expect(clippy::arithmetic_side_effects, reason = "counts and indices; ticks are added with saturation")]

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::scope::{Scope, interrupted_time};
use super::tracker::{Span, System, ThreadNo, Who, place};
use super::{Making, Needs, Of, address_cell, many, share_cell, who_cell, word};
use crate::abi::Addr;
use crate::error::Error;
use crate::report::{Cell, Column, Kind, Report};

/// The time of everybody on one core, by [`Who::place`]; `None` for those that never had it.
#[derive(Debug, Clone, Default)]
struct Core(Vec<Option<i64>>);

impl Core {
    /// All that had the core, with their time: threads first. Where a core's last event has the tick of its first, no one
    /// has any.
    fn all(&self) -> impl Iterator<Item = (Who, i64)> {
        let threads = (0u32..).map(|n| Who::Thread(ThreadNo(n))).zip(self.0.iter().skip(Who::OTHERS.len()));
        let all = threads.chain(Who::OTHERS.into_iter().zip(&self.0));
        all.filter_map(|(who, ticks)| Some((who, (*ticks)?))).filter(|(who, t)| *t != 0 || *who != Who::Unknown)
    }
}

/// Adds up the time of everybody, by core.
#[derive(Debug, Default)]
pub(super) struct Profile {
    cores: Vec<Core>,
}

/// Who had a core where threads belong to processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Occupant {
    /// A process, by its address in the registry.
    Process(Addr),
    /// Anybody else.
    Other(Who),
}

/// The process of a thread; itself where it is known to have none.
fn occupant(who: Who, system: &System<'_>) -> Occupant {
    let Who::Thread(no) = who else { return Occupant::Other(who) };
    let context = system.thread(no).and_then(|t| t.context).and_then(|c| system.trace.contexts.get(c));
    context.and_then(|c| c.process).map_or(Occupant::Other(who), Occupant::Process)
}

impl Making for Profile {
    /// It adds up spans.
    const NEEDS: Needs = Needs { spans: true, ..Needs::NOTHING };

    fn make(_: &Of<'_>) -> Result<Self, Error> {
        Ok(Profile::default())
    }

    fn span(&mut self, span: &Span, _: &System<'_>) {
        let core = place(&mut self.cores, usize::from(span.core));
        if let Some(sum) = core.and_then(|core| place(&mut core.0, span.who.place())) {
            *sum = Some(sum.unwrap_or(0).saturating_add(span.to.saturating_sub(span.from)));
        }
    }

    fn finish(self, scope: &Scope<'_>, system: &System<'_>) -> Vec<Report> {
        let mut reports = vec![self.threads(scope, system)];
        if system.trace.contexts.iter().any(|(_, c)| c.process.is_some()) {
            reports.push(self.processes(scope, system));
        }
        reports
    }
}

impl Profile {
    /// Core, who and ticks, in the order of both.
    fn all(&self) -> impl Iterator<Item = (u16, Who, i64)> {
        (0u16..).zip(&self.cores).flat_map(|(core, times)| times.all().map(move |(who, ticks)| (core, who, ticks)))
    }
}

/// The columns of a profile, with the core in front where there are several.
fn profile_columns(first: &[Column], scope: &Scope<'_>) -> Vec<Column> {
    let core = (scope.cores > 1).then_some(Column::new("core", Kind::Count));
    let time = [Column::new("ticks", Kind::Ticks).titled("time"), Column::new("share", Kind::Percent(2))];
    core.into_iter().chain(first.iter().copied()).chain(time).collect()
}

impl Profile {
    /// The time of each core, of which shares are parts.
    fn totals(&self) -> Vec<i64> {
        let total = |core: &Core| core.all().fold(0i64, |sum, (_, ticks)| sum.saturating_add(ticks));
        self.cores.iter().map(total).collect()
    }

    /// Adds rows to a table, the most time first: by core, the first cells, ticks and share. `cells` makes the first ones.
    fn rows<T>(
        &self,
        mut list: Vec<(u16, T, i64)>,
        cells: impl Fn(T) -> Vec<Cell>,
        scope: &Scope<'_>,
        report: &mut Report,
    ) {
        let totals = self.totals();
        list.sort_by_key(|(core, _, ticks)| (*core, Reverse(*ticks)));
        let row = |(core, first, ticks): (u16, T, i64)| {
            let total = totals.get(usize::from(core)).copied().unwrap_or(0);
            let core = (scope.cores > 1).then(|| Cell::Count(u64::from(core)));
            core.into_iter().chain(cells(first)).chain([Cell::Ticks(ticks), share_cell(ticks, total)]).collect()
        };
        list.into_iter().for_each(|one| scope.push(report, || row(one)));
    }

    fn threads(&self, scope: &Scope<'_>, system: &System<'_>) -> Report {
        let first = [Column::new("who", Kind::Thread), Column::new("kind", Kind::Text)];
        let cells = |who| vec![who_cell(who, system), Cell::Text(word(who).to_owned())];
        let mut notes = scope.notes();
        let gaps = system.trace.gaps.len() as u64;
        if gaps > 0 {
            notes.push(format!("events are missing at {}: the time across is unknown", many(gaps, "place", "places")));
        }
        if self.all().next().is_some() {
            notes.extend(interrupted_time(system));
        }
        let nothing = "no event shows who had the processor".to_owned();
        let mut report = Report::new("profile", "Processor time", profile_columns(&first, scope));
        (report.notes, report.nothing) = (notes, nothing);
        self.rows(self.all().collect(), cells, scope, &mut report);
        report
    }

    /// The same by process; the other rows are as they are.
    fn processes(&self, scope: &Scope<'_>, system: &System<'_>) -> Report {
        let mut by: BTreeMap<(u16, Occupant), (i64, u64)> = BTreeMap::new();
        for (core, who, ticks) in self.all() {
            let (sum, threads) = by.entry((core, occupant(who, system))).or_default();
            *sum = sum.saturating_add(ticks);
            *threads += 1;
        }
        let first = [
            Column::new("process", Kind::Object),
            Column::new("kind", Kind::Text),
            Column::new("threads", Kind::Count),
        ];
        let cells = |(occupant, threads)| match occupant {
            Occupant::Process(address) => {
                vec![address_cell(address, system), Cell::Text("process".to_owned()), Cell::Count(threads)]
            }
            Occupant::Other(who) => vec![who_cell(who, system), Cell::Text(word(who).to_owned()), Cell::Empty],
        };
        let list = by.iter().map(|((core, occupant), (ticks, n))| (*core, (*occupant, *n), *ticks)).collect();
        let mut report = Report::new("profile_processes", "Processor time by process", profile_columns(&first, scope));
        report.notes = scope.notes();
        self.rows(list, cells, scope, &mut report);
        report
    }
}
