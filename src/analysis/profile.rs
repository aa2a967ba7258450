//! `profile`: who had the processor, for how long. The parts add up to the scope: what cannot be attributed is a row.

#![expect(clippy::arithmetic_side_effects, reason = "counts and indices; ticks are added with saturation")]

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
    context
        .filter(|context| context.has_process)
        .map_or(Occupant::Other(who), |context| Occupant::Process(context.address & Addr::from(u32::MAX)))
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
        let has_processes = system.trace.contexts.iter().any(|(_, context)| context.has_process);
        let processes = has_processes.then(|| self.processes(scope, system));
        [self.threads(scope, system)].into_iter().chain(processes).collect()
    }
}

/// The columns of a profile, with the core in front where there are several.
fn profile_columns(first: &[Column], scope: &Scope<'_>) -> Vec<Column> {
    let core = (scope.cores > 1).then_some(Column::new("core", Kind::Count));
    let time = [Column::new("ticks", Kind::Ticks).titled("time"), Column::new("share", Kind::Percent(2))];
    core.into_iter().chain(first.iter().copied()).chain(time).collect()
}

/// Adds rows to a table, those of each core with the most time first: the core, the first cells, ticks and share. `cells`
/// makes the first ones.
fn rows<T: Ord>(
    cores: impl Iterator<Item = Vec<(T, i64)>>,
    cells: impl Fn(T) -> Vec<Cell>,
    scope: &Scope<'_>,
    report: &mut Report,
) {
    for (core, mut list) in (0u64..).zip(cores) {
        list.sort_unstable_by(|(a, x), (b, y)| y.cmp(x).then_with(|| a.cmp(b)));
        report.rows.reserve(list.len().min(scope.most).saturating_mul(report.columns.len()));
        let total = list.iter().fold(0i64, |sum, (_, ticks)| sum.saturating_add(*ticks));
        for (first, ticks) in list {
            let core = (scope.cores > 1).then_some(Cell::Count(core));
            let time = [Cell::Ticks(ticks), share_cell(ticks, total)];
            scope.push(report, || core.into_iter().chain(cells(first)).chain(time).collect());
        }
    }
}

impl Profile {
    fn threads(self, scope: &Scope<'_>, system: &System<'_>) -> Report {
        let first = [Column::new("who", Kind::Thread), Column::new("kind", Kind::Text)];
        let cells = |who| vec![who_cell(who, system), Cell::Word(word(who))];
        let mut notes = scope.notes_of_times();
        let gaps = system.trace.gaps.len() as u64;
        if gaps > 0 {
            notes.push(format!("events are missing at {}: the time across is unknown", many(gaps, "place", "places")));
        }
        if self.cores.iter().any(|core| core.all().next().is_some()) {
            notes.extend(interrupted_time(system));
        }
        let nothing = "no event shows who had the processor".to_owned();
        let mut report = Report::new("profile", "Processor time", profile_columns(&first, scope));
        (report.notes, report.nothing) = (notes, nothing);
        // What is added up for a core is dropped once its list is made.
        let list = |core: Core| {
            let mut list = Vec::with_capacity(core.0.len());
            list.extend(core.all());
            list
        };
        rows(self.cores.into_iter().map(list), cells, scope, &mut report);
        report
    }

    /// The same by process; the other rows are as they are.
    fn processes(&self, scope: &Scope<'_>, system: &System<'_>) -> Report {
        let by_process = |core: &Core| {
            let mut by: BTreeMap<Occupant, (i64, u64)> = BTreeMap::new();
            for (who, ticks) in core.all() {
                let (sum, threads) = by.entry(occupant(who, system)).or_default();
                *sum = sum.saturating_add(ticks);
                *threads += 1;
            }
            by.into_iter().map(|(occupant, (ticks, threads))| ((occupant, threads), ticks)).collect()
        };
        let first = [
            Column::new("process", Kind::Object),
            Column::new("kind", Kind::Text),
            Column::new("threads", Kind::Count),
        ];
        let cells = |(occupant, threads)| match occupant {
            Occupant::Process(address) => {
                vec![address_cell(address, system), Cell::Word("process"), Cell::Count(threads)]
            }
            Occupant::Other(who) => vec![who_cell(who, system), Cell::Word(word(who)), Cell::Empty],
        };
        let mut report = Report::new("profile_processes", "Processor time by process", profile_columns(&first, scope));
        report.notes = scope.notes_of_times();
        rows(self.cores.iter().map(by_process), cells, scope, &mut report);
        report
    }
}
