//! What one pass over the events gives a document: rows and sentences, made while the target is open, as `explain` needs the
//! same pass and the target's memory.

use super::verdict::{self, Verdict};
use super::{Asked, Names, THREADS};
use crate::analysis::{LastState, Made, Name, Outcome, ReportRequest};
use crate::cli::names::SymbolNames;
use crate::cli::{explain, reports};
use crate::error::Error;
use crate::explain::{Events, Explanation};
use crate::kernel::Kernel;
use crate::output::{Reader, Resolve};
use crate::query::Query;
use crate::report::{Cell, Column, Kind, Report};
use crate::session::{Loaded, Target};
use crate::trace::Event;

/// Events at the end of the trace.
const EVENTS: usize = 20;
/// Rows of a table that is part of the answer.
const MOST: usize = 20;
/// Rows of a table of counters.
const TOP: usize = 5;

/// Tables that the sentences are not made of.
const OTHERS: [(Name, usize); 6] = [
    // Its lists grow most: they are made while the heap is small.
    (Name::Services, TOP),
    (Name::Blocked, MOST),
    (Name::Latency, MOST),
    (Name::Profile, TOP),
    (Name::Stats, TOP),
    (Name::Use, TOP),
];
/// With more contexts each of these has a pass over the events of its own: what they count for each does not fit into memory
/// at a time.
const MOST_CONTEXTS: usize = 1 << 15;

/// What the events say, as a document shows it.
pub struct Summary {
    /// The last of them, with the outcomes of their calls.
    pub events: Vec<(Event, Option<Outcome>)>,
    /// What is so at the end.
    pub sentences: Vec<String>,
    /// Threads as the events leave them.
    pub threads: Report,
    reports: Vec<(Name, Vec<Report>)>,
}

/// Looks at all events, once: for what `explain` finds, and for people or for programs.
pub(super) fn read(
    target: &mut Target<'_>,
    loaded: &Loaded,
    kernel: Option<&Kernel>,
    asked: Asked<'_>,
) -> Result<(Explanation, Option<Summary>, Vec<Report>), Error> {
    let Loaded { trace, catalogue, .. } = loaded;
    let address_of = |name: &str| SymbolNames::new(target, trace).address_of(name);
    let query = Query::compile_with(asked.filters, trace, catalogue, &address_of)?;
    let is_for_programs = asked.reader == Reader::Program;
    let last = if is_for_programs { 0 } else { EVENTS };
    let one_by_one = !is_for_programs && trace.contexts.len() > MOST_CONTEXTS;
    let mut request = ReportRequest { last, ..asked.request.clone() };
    if one_by_one {
        request.names = vec![Name::Inversions, Name::Stack];
    }
    // Filters do not change what explains the end.
    let mut events = Events::new(trace, catalogue);
    let (mut made, (inversions, _)) = Made::beside(trace, catalogue, &query, &request, &mut events)?;
    events.end(made.system(), inversions);
    let explanation = explain::with_events(target, Some(loaded), kernel, Some(&events))?;
    drop(events);
    if is_for_programs {
        return Ok((explanation, None, reports::all(&mut made, &request).collect()));
    }
    let mut summary = Summary::of(&mut made, kernel, &Names::of(target, trace));
    if one_by_one {
        drop(made);
        for (name, most) in OTHERS {
            let request = ReportRequest { names: vec![name], last: 0, ..request.clone() };
            summary.reports.push((name, Made::of(trace, catalogue, &query, &request)?.report(name, most)));
        }
    } else {
        summary.reports.extend(OTHERS.map(|(name, most)| (name, made.report(name, most))));
    }
    Ok((explanation, Some(summary), Vec::new()))
}

impl Summary {
    /// Without the tables that it is not made of.
    fn of(made: &mut Made<'_>, kernel: Option<&Kernel>, names: &Names<'_>) -> Self {
        let inversions = made.report(Name::Inversions, MOST);
        let mut stack = made.report(Name::Stack, MOST);
        let (inverted, fullest) = (inversions.first(), stack.first());
        let verdict = Verdict { kernel, names, made, inversions: inverted, stack: fullest };
        let sentences = verdict.sentences();
        stack.iter_mut().for_each(|report| shorten(report, TOP));
        let events = made.last_events().map(|(event, outcome)| (*event, outcome)).collect();
        let threads = by_events(made, names);
        let reports = vec![(Name::Inversions, inversions), (Name::Stack, stack)];
        Self { events, sentences, threads, reports }
    }

    /// The tables of a report, with the rows that a document has.
    pub fn reports(&self, name: Name) -> Vec<Report> {
        self.reports.iter().find(|(of, _)| *of == name).map(|(_, reports)| reports.clone()).unwrap_or_default()
    }
}

/// Leaves out rows after the first ones.
pub(super) fn shorten(report: &mut Report, most: usize) {
    let more = report.rows.len().saturating_sub(most);
    report.rows.truncate(most);
    report.more = report.more.saturating_add(more as u64);
}

/// Threads as the events leave them.
fn by_events(made: &Made<'_>, names: &dyn Resolve) -> Report {
    let mut threads = made.last_states();
    let mut report = Report::table(
        "threads",
        "Threads",
        threads.by_ref().take(THREADS),
        &[
            (Column::new("thread", Kind::Thread), &|LastState { thread, .. }| {
                Cell::named(thread.address, thread.name.clone())
            }),
            (Column::new("pri", Kind::Count), &|thread| Cell::count(thread.priority)),
            (Column::new("since", Kind::Seq).titled("since event"), &|t| Cell::count(t.since.map(|(_, seq)| seq))),
            (Column::new("ticks", Kind::Ticks).titled("for"), &|t| {
                t.since.map_or(Cell::Empty, |(ticks, _)| Cell::Ticks(ticks))
            }),
            (Column::new("state", Kind::Text), &|thread| Cell::Text(verdict::words(thread, true, names))),
        ],
    );
    report.notes =
        vec!["states are those that the last events show: this source has no memory of the kernel".to_owned()];
    report.more = threads.count() as u64;
    report
}
