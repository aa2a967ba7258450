//! `--report NAME --every 1s`: the report over each interval of the wall clock, also where nothing came. What was open at
//! a gap is not known.

use std::time::{Duration, Instant};

use super::printer::Buffer;
use crate::analysis::{self, ReportRequest};
use crate::error::Error;
use crate::follow::{Gap, Interval, Update};
use crate::output::{self, Format, Reader, TableOptions, View};
use crate::query::{Filters, Query};
use crate::report::{Cell, Column, Kind, Report, take_shared_notes};
use crate::rsp::transport::{deadline_in, remaining};
use crate::trace::{Issue, Trace};

/// The number of the interval.
const INTERVAL: Column = Column::new("interval", Kind::Count);

/// What was not seen.
#[derive(Debug, Clone, Copy, Default)]
struct Missed {
    events: u64,
    ticks: i64,
}

/// Reports over intervals.
pub struct Intervals {
    request: ReportRequest,
    every: Duration,
    format: Format,
    options: TableOptions,
    interval: Interval,
    /// When this interval ends.
    end: Instant,
    /// Number of the interval, from 0.
    number: u64,
    /// Ticks of the last event.
    reached: Option<i64>,
    before: Missed,
    within: Missed,
    /// Something is missing since the last event.
    missed: bool,
    begun: bool,
}

impl Intervals {
    /// Of `every` length.
    pub fn new(request: ReportRequest, every: Duration, format: Format, options: TableOptions) -> Self {
        Self {
            request,
            every,
            format,
            options,
            interval: Interval::default(),
            end: deadline_in(every),
            number: 0,
            reached: None,
            before: Missed::default(),
            within: Missed::default(),
            missed: false,
            begun: false,
        }
    }

    /// Adds events; false where the interval has to end for want of room.
    pub fn add(&mut self, batch: &Update) -> bool {
        if let (Some(first), Some(last)) = (batch.events.first(), batch.events.last()) {
            let unseen = self.reached.filter(|_| self.missed).map_or(0, |reached| first.ticks.saturating_sub(reached));
            let missed = self.missed();
            missed.ticks = missed.ticks.saturating_add(unseen);
            self.missed = false;
            self.reached = Some(last.ticks);
        }
        self.interval.add(batch)
    }

    /// Something is missing before the events that come next.
    pub(super) fn gap(&mut self, gap: &Gap) {
        self.interval.gap(gap.seq);
        let missed = self.missed();
        missed.events = missed.events.saturating_add(gap.lost.count);
        self.missed = true;
    }

    /// Where what is missing now counts.
    fn missed(&mut self) -> &mut Missed {
        if self.interval.is_empty() { &mut self.before } else { &mut self.within }
    }

    /// How long this interval goes on.
    pub(super) fn left(&self) -> Duration {
        remaining(self.end)
    }

    /// True where there is nothing to print yet.
    pub fn is_empty(&self) -> bool {
        self.interval.is_empty() && self.before.events == 0
    }

    /// Prints the interval and begins the next one. Where one or more ends have passed meanwhile, there is one row for
    /// all of that time.
    pub(super) fn print(&mut self, filters: &Filters, view: &View<'_>, out: &Buffer) -> Result<(), Error> {
        while self.left().is_zero() {
            self.end = self.end.checked_add(self.every).unwrap_or_else(|| deadline_in(self.every));
        }
        let span = self.interval.span();
        let count = self.interval.len() as u64;
        let trace = self.interval.take(view.trace);
        let view = View { trace: &trace, ..*view };
        let head = self.head(&trace, span, count);
        let reports = if span.is_some() { self.reports(filters, &view)? } else { Vec::new() };
        self.write(&head, reports, &view, out)?;
        self.number = self.number.saturating_add(1);
        (self.before, self.within) = (Missed::default(), Missed::default());
        Ok(())
    }

    /// The row of the interval itself.
    fn head(&self, trace: &Trace, span: Option<(i64, i64)>, events: u64) -> Report {
        let (from, to) = span.unwrap_or_default();
        let ticks = to.saturating_sub(from);
        let whole = ticks.saturating_add(self.before.ticks);
        let share = analysis::share(ticks.saturating_sub(self.within.ticks), whole).unwrap_or(100.0);
        // Nothing is known of an interval without events: no stamp shows how long it was.
        let known = |cell| if span.is_some() { cell } else { Cell::Empty };
        let seq = |seq| known(Cell::Count(seq));
        let cells = [
            (INTERVAL, Cell::Count(self.number)),
            (Column::new("from", Kind::Seq).titled("from event"), seq(trace.about.origin)),
            (Column::new("to", Kind::Seq).titled("to event"), seq(trace.newest().map_or(0, |e| e.seq))),
            (Column::new("events", Kind::Count), Cell::Count(events)),
            (Column::new("ticks", Kind::Ticks).titled("time"), known(Cell::Ticks(ticks))),
            (Column::new("lost_before", Kind::Count).titled("lost before"), Cell::Count(self.before.events)),
            (Column::new("lost_within", Kind::Count).titled("lost within"), Cell::Count(self.within.events)),
            (Column::new("seen", Kind::Percent(1)).titled("time seen"), known(Cell::Real(share))),
        ];
        let (columns, row): (Vec<Column>, Vec<Cell>) = cells.into_iter().unzip();
        Report { rows: [row].into_iter().collect(), ..Report::new("interval", "Interval", columns) }
    }

    /// The reports that were asked for; none where the filters name what did not come.
    fn reports(&self, filters: &Filters, view: &View<'_>) -> Result<Vec<Report>, Error> {
        let query = match Query::compile_with(filters, view.trace, view.catalogue, &|_| None) {
            Err(e) if e.is_not_found() => return Ok(Vec::new()),
            query => query?,
        };
        let mut reports = analysis::reports(view.trace, view.catalogue, &query, &self.request)?;
        if self.format.reader() == Reader::Program {
            for report in &mut reports {
                report.columns.insert(0, INTERVAL);
                let number = || [Cell::Count(self.number)].into_iter();
                report.rows = report.rows.iter().map(|row| number().chain(row.iter().cloned())).collect();
            }
        }
        Ok(reports)
    }

    fn write(&mut self, head: &Report, mut reports: Vec<Report>, view: &View<'_>, out: &Buffer) -> Result<(), Error> {
        let word = view.trace.about.word;
        let mut writer = output::report_writer(self.format, out.clone(), &self.options, word, view.names);
        // What has issues in it is one output, which begins once; the others take the clock's rate from here.
        if !self.format.has_issues() || !self.begun {
            writer.begin(view)?;
        }
        self.begun = true;
        writer.report(head)?;
        let shared = take_shared_notes(&mut reports);
        for report in &reports {
            writer.heading(report.title)?;
            writer.report(report)?;
        }
        writer.notes(&shared)?;
        Ok(writer.flush()?)
    }

    /// The last line.
    pub(super) fn finish(&mut self, view: &View<'_>, issues: &[Issue], out: &Buffer) -> Result<(), Error> {
        let word = view.trace.about.word;
        let mut writer = output::report_writer(self.format, out.clone(), &self.options, word, view.names);
        if self.format.has_issues() && !self.begun {
            writer.begin(view)?;
        }
        Ok(writer.finish(issues)?)
    }
}
