//! Chrome's trace events: JSON that Perfetto, `chrome://tracing` and speedscope open. Complete events (`X`) for slices and
//! for events, whose length is 0, as a flow needs something that it can begin at.

use std::io::{self, Write};

use serde_json::{Map, Value};

use super::words::{Field, Words};
use super::{Time, rows};
use crate::output::View;
use crate::timeline::{Doubt, FlowId, Gap, Instant, Level, Scene, Sink, Slice, TrackId};

/// The numbers of rows that are no tracks.
const MARKS: u64 = 1;
const LOST: u64 = 80;
const CLOCK: u64 = 81;
const FIRST: u64 = 100;

/// Writes a file of trace events.
pub struct Chrome<'v, W> {
    out: W,
    words: Words<'v>,
    time: Time,
    is_first: bool,
    counters: Vec<String>,
    has_gaps: [bool; 2],
}

fn row(id: TrackId) -> u64 {
    FIRST.wrapping_add(u64::from(id.0))
}

/// One event.
struct Line<'l> {
    phase: char,
    name: &'l str,
    category: &'l str,
    row: u64,
    from: i64,
    to: Option<i64>,
    fields: Map<String, Value>,
}

/// A value as JSON. Quotes, backslashes and `<` are written by their numbers: Perfetto's reader takes a backslash at the end of a
/// text for one that hides the quote after it, and no page that holds the file is ended by a name.
fn json(value: &Value) -> String {
    let text = value.to_string();
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '<' => out.push_str("\\u003c"),
            '\\' => match chars.next() {
                Some('\\') => out.push_str("\\u005c"),
                Some('"') => out.push_str("\\u0022"),
                other => {
                    out.push('\\');
                    out.extend(other);
                }
            },
            c => out.push(c),
        }
    }
    out
}

fn value(field: Field) -> Value {
    match field {
        Field::Number(n) => Value::from(n),
        Field::Text(text) => Value::from(text),
    }
}

impl<'v, W: Write> Chrome<'v, W> {
    /// Writes to `out`.
    pub fn new(out: W, view: View<'v>) -> Self {
        let time = Time { origin: 0, hz: None };
        Self { out, words: Words::new(view), time, is_first: true, counters: Vec::new(), has_gaps: [false; 2] }
    }

    /// Microseconds with three digits: nothing is lost.
    fn micros(nanos: u64) -> String {
        format!("{}.{:03}", nanos.wrapping_div(1000), nanos.wrapping_rem(1000))
    }

    fn begin_line(&mut self) -> io::Result<()> {
        let before: &[u8] = if std::mem::take(&mut self.is_first) { b"\n" } else { b",\n" };
        self.out.write_all(before)
    }

    fn put(&mut self, line: Line<'_>) -> io::Result<()> {
        self.begin_line()?;
        let Line { phase, name, category, row, from, to, fields } = line;
        let from = self.time.nanos(from);
        write!(
            self.out,
            "{{\"ph\":\"{phase}\",\"pid\":1,\"tid\":{row},\"ts\":{},\"name\":{},\"cat\":\"{category}\"",
            Self::micros(from),
            json(&Value::from(name))
        )?;
        if let Some(to) = to {
            write!(self.out, ",\"dur\":{}", Self::micros(self.time.nanos(to).saturating_sub(from)))?;
        }
        write!(self.out, ",\"args\":{}}}", json(&Value::Object(fields)))
    }

    /// One end of a flow, after the line that it is bound to.
    fn put_flow(&mut self, phase: &str, row: u64, at: i64, flow: FlowId) -> io::Result<()> {
        self.begin_line()?;
        let at = Self::micros(self.time.nanos(at));
        write!(
            self.out,
            "{{\"ph\":{phase},\"pid\":1,\"tid\":{row},\"ts\":{at},\"name\":\"wakes\",\"cat\":\"flow\",\"id\":{}}}",
            flow.0
        )
    }

    /// A name of the process or of a row, or the place of a row.
    fn describe(&mut self, row: u64, what: &str, key: &str, value: Value) -> io::Result<()> {
        self.begin_line()?;
        let args = json(&Value::Object(Map::from_iter([(key.to_owned(), value)])));
        write!(self.out, "{{\"ph\":\"M\",\"pid\":1,\"tid\":{row},\"name\":\"{what}\",\"args\":{args}}}")
    }

    fn describe_row(&mut self, row: u64, name: &str) -> io::Result<()> {
        self.describe(row, "thread_name", "name", Value::from(name))?;
        self.describe(row, "thread_sort_index", "sort_index", Value::from(row))
    }

    fn marks(&mut self, scene: &Scene<'_>) -> io::Result<()> {
        let rows = rows(scene.marks);
        for row in 0..rows.iter().max().map_or(0, |most| most.saturating_add(1)) {
            self.describe_row(MARKS.wrapping_add(u64::from(row)), "findings")?;
        }
        for (mark, row) in scene.marks.iter().zip(rows) {
            let events = [("from_event", mark.seq), ("to_event", mark.to_seq)];
            let fields =
                events.into_iter().filter_map(|(name, seq)| Some((name.to_owned(), Value::from(seq?)))).collect();
            let name = self.words.mark(scene, mark);
            let row = MARKS.wrapping_add(u64::from(row));
            let (from, to) = (mark.from, Some(mark.to));
            self.put(Line { phase: 'X', name: &name, category: "finding", row, from, to, fields })?;
        }
        Ok(())
    }
}

impl<W: Write> Sink for Chrome<'_, W> {
    fn begin(&mut self, scene: &Scene<'_>) -> io::Result<()> {
        self.time = Time::of(scene);
        let said = Map::from_iter([
            ("source".to_owned(), Value::from(self.words.title())),
            ("time".to_owned(), Value::from(self.time.sentence())),
        ]);
        write!(
            self.out,
            "{{\"displayTimeUnit\":\"ns\",\"otherData\":{},\"traceEvents\":[",
            json(&Value::Object(said))
        )?;
        let title = format!("{}; {}", self.words.title(), self.time.sentence());
        self.describe(0, "process_name", "name", Value::from(title))?;
        for (id, track) in (0u32..).map(TrackId).zip(scene.tracks) {
            let name = self.words.track(scene, track);
            self.describe_row(row(id), &name)?;
        }
        self.counters = scene.counters.iter().map(|counter| self.words.counter(scene, counter)).collect();
        self.marks(scene)
    }

    fn slice(&mut self, scene: &Scene<'_>, slice: &Slice) -> io::Result<()> {
        let name = self.words.slice(scene, slice);
        let mut fields = Map::new();
        self.words.slice_fields(scene, slice, |name, field| drop(fields.insert(name.to_owned(), value(field))));
        let (row, from, to) = (row(slice.track), slice.from, Some(slice.to));
        self.put(Line { phase: 'X', name: &name, category: Words::kind(scene, slice), row, from, to, fields })?;
        // Bound to what encloses it, and not to the next that begins.
        slice.flow.map_or(Ok(()), |flow| self.put_flow("\"f\",\"bp\":\"e\"", row, from, flow))
    }

    fn instant(&mut self, _: &Scene<'_>, instant: &Instant<'_>) -> io::Result<()> {
        let name = self.words.event(instant.event);
        let mut fields = Map::new();
        self.words.event_fields(instant.event, |name, field| drop(fields.insert(name.to_owned(), value(field))));
        let (row, from) = (row(instant.track), instant.event.ticks);
        self.put(Line { phase: 'X', name: &name, category: "event", row, from, to: Some(from), fields })?;
        instant.flows.iter().try_for_each(|flow| self.put_flow("\"s\"", row, from, *flow))
    }

    fn level(&mut self, _: &Scene<'_>, level: &Level) -> io::Result<()> {
        // The format has no word for unknown; the gap shows it.
        let Some(value) = level.value else { return Ok(()) };
        let Some(name) = self.counters.get(level.counter.index()).cloned() else { return Ok(()) };
        let fields = Map::from_iter([("value".to_owned(), Value::from(value))]);
        let (row, from) = (0, level.ticks);
        self.put(Line { phase: 'C', name: &name, category: "level", row, from, to: None, fields })
    }

    fn gap(&mut self, _: &Scene<'_>, gap: &Gap) -> io::Result<()> {
        let (row, at) = if gap.doubt == Doubt::Lost { (LOST, 0) } else { (CLOCK, 1) };
        if let Some(there) = self.has_gaps.get_mut(at)
            && !std::mem::replace(there, true)
        {
            self.describe_row(row, if gap.doubt == Doubt::Lost { "lost events" } else { "doubtful clock" })?;
        }
        let fields = Map::from_iter([("to_event".to_owned(), Value::from(gap.seq))]);
        let (from, to) = (gap.from, Some(gap.to));
        self.put(Line { phase: 'X', name: Words::gap(gap), category: "gap", row, from, to, fields })
    }

    fn finish(&mut self, _: &Scene<'_>) -> io::Result<()> {
        self.out.write_all(b"\n]}\n")?;
        self.out.flush()
    }
}
