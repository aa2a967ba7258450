//! Spans from one event to the next of another: `--span`.

#![expect(clippy::arithmetic_side_effects, reason = "counts and indices; ticks are added with saturation")]

use std::collections::HashMap;

use super::timing::{Timing, notes, timing_columns};
use crate::abi::Endian;
use crate::analysis::many;
use crate::analysis::scope::Scope;
use crate::analysis::tracker::System;
use crate::catalogue::Catalogue;
use crate::error::Error;
use crate::query::wrong_filter;
use crate::query::{EventField, EventSet};
use crate::report::{Cell, Column, Kind, Report, Rows};
use crate::trace::{Event, Trace};

/// Beginnings that may wait for their ends at a time.
const MAX_OPEN: usize = 1 << 16;

/// An end of a span.
#[derive(Debug)]
struct End {
    set: EventSet,
    /// The field whose value must be the same at both ends.
    field: Option<EventField>,
}

impl End {
    /// The value that pairs the event; `Some(None)` where it should have one and has not.
    #[allow(clippy::option_option, reason = "not this event, this event without a value, and the value")]
    fn value(&self, event: &Event, words: &[u64], endian: Endian) -> Option<Option<u64>> {
        if !self.set.has(event) {
            return None;
        }
        Some(match &self.field {
            None => Some(0),
            Some(field) => field.value(event, words, endian),
        })
    }
}

#[derive(Debug)]
struct Span {
    text: String,
    from: End,
    to: End,
    timing: Timing,
    /// Ticks of the beginnings that wait for their end, by the value that pairs them.
    open: HashMap<u64, Vec<i64>>,
    waiting: usize,
    /// Beginnings for which there was no room.
    overflow: u64,
    /// Ends without a beginning.
    unmatched: u64,
    /// Beginnings that were open where events are missing.
    cut: u64,
    /// Events that have no value to be paired by.
    valueless: u64,
}

#[derive(Debug)]
pub(super) struct Spans {
    all: Vec<Span>,
    endian: Endian,
}

/// `A..B` or `A..B:FIELD`.
fn parse(text: &str, catalogue: &Catalogue) -> Result<Span, Error> {
    let wrong = || {
        wrong_filter(format!("--span {text}: not A..B or A..B:FIELD, where A and B are events"))
            .hint("--span tx_queue_send..tx_queue_receive:queue_ptr")
    };
    let (from, rest) = text.split_once("..").ok_or_else(wrong)?;
    let (from, rest) = (from.trim(), rest.trim());
    if from.is_empty() || rest.is_empty() {
        return Err(wrong());
    }
    let set = |text: &str| EventSet::compile(text, catalogue);
    // A name of the application's may hold a colon itself.
    let (to, field) = match rest.rsplit_once(':') {
        Some((to, field)) => match set(rest) {
            Ok(scope) => (scope, None),
            Err(_) if to.is_empty() || field.is_empty() => return Err(wrong()),
            Err(_) => (set(to)?, Some(field.trim())),
        },
        None => (set(rest)?, None),
    };
    let end = |set: EventSet| {
        let field = field.map(|name| EventField::compile(name, &set, catalogue)).transpose();
        field.map(|field| End { set, field })
    };
    Ok(Span {
        text: text.to_owned(),
        from: end(set(from)?)?,
        to: end(to)?,
        timing: Timing::default(),
        open: HashMap::new(),
        waiting: 0,
        overflow: 0,
        unmatched: 0,
        cut: 0,
        valueless: 0,
    })
}

impl Span {
    fn event(&mut self, event: &Event, words: &[u64], endian: Endian) {
        let (from, to) = (self.from.value(event, words, endian), self.to.value(event, words, endian));
        if from == Some(None) || to == Some(None) {
            self.valueless += 1;
        }
        // An event that is both ends one span before it begins the next.
        if let Some(Some(value)) = to {
            let begun = self.open.remove(&value).unwrap_or_default();
            if begun.is_empty() {
                self.unmatched += 1;
            }
            self.waiting = self.waiting.saturating_sub(begun.len());
            for since in begun {
                self.timing.add(since, event.ticks, event.seq);
            }
        }
        if let Some(Some(value)) = from {
            if self.waiting >= MAX_OPEN {
                self.overflow += 1;
            } else {
                self.open.entry(value).or_default().push(event.ticks);
                self.waiting += 1;
            }
        }
    }
}

impl Spans {
    pub fn new(asked: &[String], trace: &Trace, catalogue: &Catalogue) -> Result<Option<Self>, Error> {
        if asked.is_empty() {
            return Ok(None);
        }
        let all = asked.iter().map(|text| parse(text, catalogue)).collect::<Result<_, _>>()?;
        Ok(Some(Self { all, endian: trace.about.endian }))
    }

    /// Whether the ends of what is open are among the missing events is not known.
    pub fn gap(&mut self) {
        for span in &mut self.all {
            span.open = HashMap::new();
            span.cut += std::mem::take(&mut span.waiting) as u64;
        }
    }

    pub fn event(&mut self, event: &Event, system: &System<'_>) {
        for span in &mut self.all {
            if span.from.set.has(event) || span.to.set.has(event) {
                span.event(event, system.trace.words(event), self.endian);
            }
        }
    }

    pub fn report(&self, scope: &Scope<'_>) -> Report {
        let more = [
            Column::new("no_end", Kind::Count).titled("without end"),
            Column::new("no_start", Kind::Count).titled("without start"),
        ];
        let columns = timing_columns(Column::new("span", Kind::Text), &more);
        let mut rows = Rows::default();
        let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        for span in &self.all {
            let open = count(span.waiting).saturating_add(span.overflow);
            let counts = [Cell::Count(open), Cell::Count(span.unmatched)];
            rows.push([Cell::Text(span.text.clone())].into_iter().chain(span.timing.cells()).chain(counts));
        }
        let backwards = self.all.iter().fold(0u64, |n, s| n.saturating_add(s.timing.backwards));
        let mut notes = notes(scope, backwards);
        for span in &self.all {
            if span.valueless > 0 {
                notes.push(format!(
                    "--span {}: {} left out: the value of the field there is not reliable",
                    span.text,
                    many(span.valueless, "event is", "events are")
                ));
            }
            if span.cut > 0 {
                notes.push(format!(
                    "--span {}: {} open where events are missing: left out",
                    span.text,
                    many(span.cut, "A was", "A were")
                ));
            }
            if span.overflow > 0 {
                notes.push(format!(
                    "--span {}: {MAX_OPEN} of A waited for a B at a time; {} more were not followed",
                    span.text, span.overflow
                ));
            }
        }
        Report { rows, notes, ..Report::new("latency_spans", "Spans: from one event to another", columns) }
    }
}
