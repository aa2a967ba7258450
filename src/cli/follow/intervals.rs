//! `--report NAME --every 1s`: the report over each interval. A gap ends the interval: what was open in it is not known.

use std::time::{Duration, Instant};

use super::super::message;
use super::printer::Shared;
use crate::analysis::{self, Name, Wish};
use crate::cli::plan::time;
use crate::code::Code;
use crate::error::Error;
use crate::follow::{Gap, Gather, News};
use crate::format::Lost;
use crate::output::{self, Format, TableOptions, View};
use crate::query::{Filters, Query};
use crate::report::{Cell, Column, Kind, Report};
use crate::trace::Issue;

/// The reports by their names.
const NAMES: [(&str, Name); 8] = [
    ("profile", Name::Profile),
    ("stats", Name::Stats),
    ("services", Name::Services),
    ("stack", Name::Stack),
    ("inversions", Name::Inversions),
    ("blocked", Name::Blocked),
    ("latency", Name::Latency),
    ("use", Name::Use),
];

/// What `--report` and `--every` ask for.
pub fn wish(reports: &[String], every: Option<&str>) -> Result<Option<(Wish, Duration)>, Error> {
    if reports.is_empty() {
        return match every {
            Some(_) => Err(Error::usage(Code::Usage, "--every goes with --report")),
            None => Ok(None),
        };
    }
    let mut names = Vec::new();
    for name in reports.iter().flat_map(|r| r.split(',')) {
        let found = NAMES.iter().find(|(n, _)| *n == name).map(|(_, name)| *name);
        names.push(found.ok_or_else(|| {
            let all: Vec<&str> = NAMES.iter().map(|(n, _)| *n).collect();
            Error::usage(Code::Usage, format!("--report {name}: reports are {}", all.join(", ")))
        })?);
    }
    let every = time("--every", every.unwrap_or("1s"))?;
    Ok(Some((Wish { names, ..Wish::default() }, every)))
}

/// Reports over intervals.
pub struct Intervals {
    wish: Wish,
    every: Duration,
    format: Format,
    options: TableOptions,
    gather: Gather,
    since: Instant,
    /// Number of the interval, from 0.
    number: u64,
    /// Ticks at the end of what was seen last.
    reached: Option<i64>,
    /// Ticks between there and the first event of this interval that nobody saw.
    unseen: i64,
    /// What was lost before this interval, all in one.
    gap: Option<Gap>,
    /// Something is missing since the last events that were printed.
    missed: bool,
    begun: bool,
}

impl Intervals {
    /// Of `every` length.
    pub fn new(wish: Wish, every: Duration, format: Format, options: TableOptions) -> Self {
        Self {
            wish,
            every,
            format,
            options,
            gather: Gather::default(),
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
    pub fn add(&mut self, news: &News) -> bool {
        if self.gather.is_empty()
            && let (Some(first), Some(reached)) = (news.events.first(), self.reached)
        {
            // Between intervals without a gap nothing was missed.
            self.unseen = if self.missed { first.ticks.saturating_sub(reached) } else { 0 };
        }
        self.gather.add(news)
    }

    /// Something is missing behind what was gathered: that is printed, and the next interval begins with the gap.
    pub fn gap(&mut self, gap: &Gap, filters: &Filters, view: &View<'_>, out: &Shared) -> Result<(), Error> {
        // Where nothing was seen since the last gap the interval goes on: time is what ends it.
        if !self.gather.is_empty() {
            self.print(filters, view, out)?;
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

    /// Prints the interval and begins the next one. An interval in which all was lost is told too.
    pub fn print(&mut self, filters: &Filters, view: &View<'_>, out: &Shared) -> Result<(), Error> {
        self.since = Instant::now();
        let span = self.gather.span();
        let gap = self.gap.take();
        if span.is_none() && gap.is_none() {
            return Ok(());
        }
        // Once for each interval: a ring that goes around at every look would drown the reports.
        message::issues(&gap.iter().map(Gap::issue).collect::<Vec<_>>());
        let (from, to) = span.unwrap_or_default();
        let events = self.gather.len() as u64;
        let trace = self.gather.take(view.trace);
        let seqs = (trace.about.origin, trace.newest().map_or(0, |e| e.seq));
        let seen = to.saturating_sub(from);
        let whole = seen.saturating_add(self.unseen);
        let share = match span {
            Some(_) if whole > 0 => analysis::share(seen, whole),
            Some(_) => 100.0,
            None => 0.0,
        };
        let view = View { trace: &trace, ..*view };
        let query = match Query::compile_with(filters, &trace, view.catalogue, &|_| None) {
            Ok(query) => Some(query),
            Err(e) if e.is_not_found() => None,
            Err(e) => return Err(e),
        };
        let mut reports = match &query {
            Some(query) if span.is_some() => analysis::reports(&trace, view.catalogue, query, &self.wish)?,
            _ => Vec::new(),
        };
        let data = matches!(self.format, Format::Json | Format::Csv);
        let column = |name, kind| Column { name, kind };
        let whole = Report {
            name: "interval",
            columns: vec![
                column("interval", Kind::Count),
                column("from", Kind::Seq),
                column("to", Kind::Seq),
                column("events", Kind::Count),
                column("ticks", Kind::Ticks),
                column("lost_before", Kind::Count),
                column("seen", Kind::Real(1)),
            ],
            rows: vec![vec![
                Cell::Count(self.number),
                span.map_or(Cell::Empty, |_| Cell::Count(seqs.0)),
                span.map_or(Cell::Empty, |_| Cell::Count(seqs.1)),
                Cell::Count(events),
                Cell::Ticks(seen),
                Cell::Count(gap.map_or(0, |g| g.lost.count)),
                Cell::Real(share),
            ]],
            notes: Vec::new(),
        };
        if data {
            for report in &mut reports {
                report.columns.insert(0, column("interval", Kind::Count));
                report.rows.iter_mut().for_each(|row| row.insert(0, Cell::Count(self.number)));
            }
        }
        let mut writer = output::report_writer(self.format, out.clone(), &self.options, trace.about.word, view.names);
        // JSON says once what the trace is; the others take the clock's rate from here.
        if self.format != Format::Json || !self.begun {
            writer.begin(&view)?;
        }
        self.begun = true;
        writer.report(&whole)?;
        for report in &reports {
            writer.heading(report.name)?;
            writer.report(report)?;
        }
        writer.flush()?;
        self.number = self.number.saturating_add(1);
        if span.is_some() {
            self.reached = Some(to);
            self.missed = false;
        }
        self.unseen = 0;
        Ok(())
    }

    /// The last line.
    pub fn finish(&mut self, view: &View<'_>, issues: &[Issue], out: &Shared) -> Result<(), Error> {
        let mut writer =
            output::report_writer(self.format, out.clone(), &self.options, view.trace.about.word, view.names);
        if self.format == Format::Json && !self.begun {
            writer.begin(view)?;
        }
        writer.finish(issues)?;
        Ok(())
    }
}
