//! `--report NAME --every 1s`: the report over each interval. A gap ends the interval: what was open in it is not known.

use std::time::{Duration, Instant};

use super::super::diagnostics::Diagnostics;
use super::printer::Buffer;
use crate::analysis::{self, ReportRequest};
use crate::error::Error;
use crate::follow::{Gap, Interval, Update};
use crate::format::Lost;
use crate::output::{self, Format, Reader, TableOptions, View};
use crate::query::{Filters, Query};
use crate::report::{Cell, Column, Kind, Report, take_shared_notes};
use crate::trace::{Issue, Trace};

/// The number of the interval.
const INTERVAL: Column = Column::new("interval", Kind::Count);

/// Reports over intervals.
pub struct Intervals {
    request: ReportRequest,
    every: Duration,
    format: Format,
    options: TableOptions,
    interval: Interval,
    since: Instant,
    /// Number of the interval, from 0.
    number: u64,
    /// Ticks at the end of what was printed last.
    reached: Option<i64>,
    /// Ticks between there and the first event of this interval that were not observed.
    unseen: i64,
    /// What was lost before this interval, all in one.
    gap: Option<Gap>,
    /// Something is missing since the last events that were printed.
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
            since: Instant::now(),
            number: 0,
            reached: None,
            unseen: 0,
            gap: None,
            missed: false,
            begun: false,
        }
    }

    /// Adds events; false where the interval has to end for want of room.
    pub fn add(&mut self, batch: &Update) -> bool {
        if self.interval.is_empty()
            && let (Some(first), Some(reached)) = (batch.events.first(), self.reached)
        {
            // Between intervals without a gap nothing was missed.
            self.unseen = if self.missed { first.ticks.saturating_sub(reached) } else { 0 };
        }
        self.interval.add(batch)
    }

    /// Something is missing behind what was gathered: that is printed, and the next interval begins with the gap.
    pub fn gap(
        &mut self,
        gap: &Gap,
        filters: &Filters,
        view: &View<'_>,
        out: &Buffer,
        diagnostics: &Diagnostics,
    ) -> Result<(), Error> {
        // Where nothing was seen since the last gap the interval goes on: time is what ends it.
        if !self.interval.is_empty() {
            self.print(filters, view, out, diagnostics)?;
        }
        let before = self.gap.map_or(Lost::default(), |g| g.lost);
        let lost =
            Lost { count: before.count.saturating_add(gap.lost.count), at_least: before.at_least || gap.lost.at_least };
        let restarted = gap.restarted || self.gap.is_some_and(|g| g.restarted);
        self.gap = Some(Gap { lost, restarted, seq: gap.seq });
        self.missed = true;
        Ok(())
    }

    /// True once the interval has lasted long enough.
    pub fn is_over(&self) -> bool {
        self.since.elapsed() >= self.every
    }

    /// Prints the interval and begins the next one. An interval in which all was lost is printed too.
    pub fn print(
        &mut self,
        filters: &Filters,
        view: &View<'_>,
        out: &Buffer,
        diagnostics: &Diagnostics,
    ) -> Result<(), Error> {
        self.since = Instant::now();
        let span = self.interval.span();
        let gap = self.gap.take();
        if span.is_none() && gap.is_none() {
            return Ok(());
        }
        // Once for each interval: a ring that goes around at every look would drown the reports.
        diagnostics.issues(&gap.iter().map(Gap::issue).collect::<Vec<_>>());
        let count = self.interval.len() as u64;
        let trace = self.interval.take(view.trace);
        let view = View { trace: &trace, ..*view };
        let head = self.head(&trace, span, count, gap.map_or(0, |g| g.lost.count));
        let mut reports = Vec::new();
        if span.is_some() {
            reports = self.reports(filters, &view)?;
        }
        self.write(&head, reports, &view, out)?;
        self.number = self.number.saturating_add(1);
        if let Some((_, to)) = span {
            self.reached = Some(to);
            self.missed = false;
        }
        self.unseen = 0;
        Ok(())
    }

    /// The row of the interval itself.
    fn head(&self, trace: &Trace, span: Option<(i64, i64)>, events: u64, lost: u64) -> Report {
        let (from, to) = span.unwrap_or_default();
        let seen = to.saturating_sub(from);
        let whole = seen.saturating_add(self.unseen);
        // Nothing is known of an interval whose events were all lost.
        let known = |cell| if span.is_some() { cell } else { Cell::Empty };
        let seq = |seq| known(Cell::Count(seq));
        let cells = [
            (INTERVAL, Cell::Count(self.number)),
            (Column::new("from", Kind::Seq).titled("from event"), seq(trace.about.origin)),
            (Column::new("to", Kind::Seq).titled("to event"), seq(trace.newest().map_or(0, |e| e.seq))),
            (Column::new("events", Kind::Count), Cell::Count(events)),
            (Column::new("ticks", Kind::Ticks).titled("time"), known(Cell::Ticks(seen))),
            (Column::new("lost_before", Kind::Count).titled("lost before"), Cell::Count(lost)),
            (
                Column::new("seen", Kind::Percent(1)).titled("time seen"),
                known(Cell::Real(analysis::share(seen, whole).unwrap_or(100.0))),
            ),
        ];
        let (columns, row): (Vec<Column>, _) = cells.into_iter().unzip();
        Report { rows: vec![row], ..Report::new("interval", "Interval", columns) }
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
                report.rows.iter_mut().for_each(|row| row.insert(0, Cell::Count(self.number)));
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
    pub fn finish(&mut self, view: &View<'_>, issues: &[Issue], out: &Buffer) -> Result<(), Error> {
        let word = view.trace.about.word;
        let mut writer = output::report_writer(self.format, out.clone(), &self.options, word, view.names);
        if self.format.has_issues() && !self.begun {
            writer.begin(view)?;
        }
        Ok(writer.finish(issues)?)
    }
}
