//! Events as comma-separated values: JSON's names, nested ones with a dot; arguments as in the table, and each in columns of
//! its own.

use std::io::{self, Write};
use std::ops::ControlFlow;

use super::escape::escape_into;
use super::row::Rows;
use super::text::{HexBuffer, hex};
use super::window::Window;
use super::{BUFFER, EventSink, View};
use crate::catalogue::Catalogue;
use crate::trace::{ContextKind, Event, Extra, Issue};

/// The head of the event table, up to the context and after it.
const CONTEXT: [&str; 9] =
    ["seq", "slot", "ticks", "delta", "stamp", "core", "context.kind", "context.address", "context.name"];
const EVENT: [&str; 9] =
    ["priority", "threshold", "interrupted.address", "interrupted.name", "id", "name", "macro", "args", "words"];
/// The columns of each argument.
const ARG: [&str; 3] = ["name", "value", "text"];
/// The least arguments that have columns: words without a description are some.
const LEAST_ARGS: usize = 4;
/// The interrupt's number, where events give one.
const ISR: &str = "context.isr";
/// What a formula begins with, in a spreadsheet of any language.
const FORMULA: [char; 8] = ['=', '+', '-', '@', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}'];

/// A writer of records of any length: reports have heads of their own.
pub(super) fn writer<W: Write>(out: W) -> csv::Writer<W> {
    csv::WriterBuilder::new().flexible(true).buffer_capacity(BUFFER).from_writer(out)
}

/// Writes a record. A failure of the writer comes back as it is: its kind distinguishes a closed pipe from a full disk.
pub(super) fn record<W: Write>(
    out: &mut csv::Writer<W>,
    fields: impl IntoIterator<Item = impl AsRef<[u8]>>,
) -> io::Result<()> {
    out.write_record(fields).map_err(io_error)
}

fn io_error(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

/// Text that a spreadsheet takes for text, with control characters spelled out: these lines may be shown in a
/// terminal. An apostrophe goes in front of what would be a formula. A semicolon ends a cell too where the comma is the
/// decimal point.
pub(super) fn text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    add_text(&mut out, text);
    out
}

/// Adds such text.
fn add_text(out: &mut String, text: &str) {
    let is_number =
        |cell: &str| cell.strip_prefix(['+', '-']).is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
    for (i, cell) in text.split(';').enumerate() {
        out.push_str(if i > 0 { ";" } else { "" });
        out.push_str(if cell.starts_with(FORMULA) && !is_number(cell) { "'" } else { "" });
        escape_into(cell, out);
    }
}

/// The record of one event, field after field.
struct Record<W: Write> {
    out: csv::Writer<W>,
    field: String,
    /// The first failure since the last record ended.
    written: io::Result<()>,
}

impl<W: Write> Record<W> {
    fn add(&mut self, field: &str) {
        if self.written.is_ok() {
            self.written = self.out.write_field(field).map_err(io_error);
        }
    }

    fn end(&mut self) -> io::Result<()> {
        std::mem::replace(&mut self.written, Ok(()))?;
        record(&mut self.out, None::<&[u8]>)
    }

    fn nothing(&mut self, fields: usize) {
        (0..fields).for_each(|_| self.add(""));
    }

    fn number(&mut self, n: Option<impl itoa::Integer>) {
        match n {
            Some(n) => self.add(itoa::Buffer::new().format(n)),
            None => self.add(""),
        }
    }

    fn hex(&mut self, n: Option<u64>, digits: usize) {
        match n {
            Some(n) => self.add(HexBuffer::default().format(n, digits)),
            None => self.add(""),
        }
    }

    fn words(&mut self, words: &[u64], digits: usize) {
        let words: Vec<String> = words.iter().map(|word| hex(*word, digits)).collect();
        self.add(&words.join(" "));
    }

    /// Text as [`text`] has it, with something after it.
    fn text_and(&mut self, text: &str, behind: &str) {
        let mut field = std::mem::take(&mut self.field);
        field.clear();
        add_text(&mut field, text);
        field.push_str(behind);
        self.add(&field);
        self.field = field;
    }

    fn text(&mut self, text: Option<&str>) {
        self.text_and(text.unwrap_or_default(), "");
    }
}

/// Writes events as comma-separated values.
pub struct Csv<W: Write> {
    record: Record<W>,
    args: String,
    rows: Rows,
    /// Arguments that have columns.
    columns: usize,
}

/// The most arguments that an event of the catalogue has.
fn most_args(catalogue: &Catalogue) -> usize {
    catalogue.iter().map(|def| def.fields.iter().flatten().count()).max().unwrap_or(0).max(LEAST_ARGS)
}

impl<W: Write> Csv<W> {
    /// Comma-separated values that are written to `out`.
    pub fn new(out: W) -> Self {
        let record = Record { out: writer(out), field: String::new(), written: Ok(()) };
        Self { record, args: String::new(), rows: Rows::new(), columns: 0 }
    }

    /// The arguments as in the table.
    fn args(&mut self, view: &View<'_>, event: &Event) {
        let Self { args, rows, record, .. } = self;
        args.clear();
        rows.table_args(view, event, |label, said| {
            let between = [if args.is_empty() { "" } else { " " }, label, if label.is_empty() { "" } else { "=" }];
            args.extend(between);
            args.push_str(said);
            ControlFlow::Continue(())
        });
        record.text(Some(args));
    }

    /// Each argument in columns of its own. What is not to be relied on has a question mark after its text, as in the table.
    fn arg_columns(&mut self, view: &View<'_>, event: &Event) {
        let Self { rows, record, columns, .. } = self;
        let mut left = *columns;
        rows.args(view, event, |arg| {
            let Some(rest) = left.checked_sub(1) else { return };
            left = rest;
            record.text(Some(arg.name));
            if arg.kind.is_number() {
                record.number(Some(arg.value));
            } else {
                record.hex(Some(arg.value), view.digits());
            }
            // A question mark after it, as in the table: it is not to be relied on.
            record.text_and(arg.text, if arg.doubtful { "?" } else { "" });
        });
        record.nothing(left.saturating_mul(ARG.len()));
    }
}

impl<W: Write> EventSink for Csv<W> {
    fn begin(&mut self, view: &View<'_>, _: &Window) -> io::Result<()> {
        let isr = (!view.trace.interrupts.is_empty()).then_some(ISR);
        self.columns = most_args(view.catalogue);
        let args = (1..=self.columns).flat_map(|n| ARG.map(|part| format!("args.{n}.{part}")));
        let names = CONTEXT.into_iter().chain(isr).chain(EVENT).map(str::to_owned);
        let extras = view.trace.extra_names().iter().map(|name| (*name).to_owned());
        names.chain(extras).chain(args).for_each(|name| self.record.text(Some(&name)));
        self.record.end()
    }

    fn event(&mut self, view: &View<'_>, event: &Event) -> io::Result<()> {
        let (trace, digits) = (view.trace, view.digits());
        let context = trace.contexts.get(event.context);
        let behind = event.interrupted.and_then(|id| trace.contexts.get(id));
        let def = event.def.and_then(|d| view.catalogue.def(d));
        let name = self.rows.name_of(view, event);
        let interrupted = event.interrupted.and_then(|id| self.rows.name(view, id));
        let Self { record, .. } = self;
        record.number(Some(event.seq));
        record.number(Some(event.slot));
        record.number(Some(event.ticks));
        record.number(event.delta);
        record.hex(event.stamp, view.stamp_digits());
        record.number(Some(event.core));
        record.text(context.map(|c| c.kind).filter(|kind| *kind != ContextKind::Unknown).map(ContextKind::name));
        record.hex(context.map(|c| c.address), digits);
        record.text(name.as_deref());
        if !trace.interrupts.is_empty() {
            record.number(event.isr);
        }
        record.number(event.priority);
        record.number(event.threshold);
        record.hex(behind.map(|c| c.address), digits);
        record.text(interrupted.as_deref());
        record.number(Some(event.id));
        record.text(def.map(|d| d.name.as_str()));
        record.text(def.map(|d| d.macro_name.as_str()));
        self.args(view, event);
        let Self { record, .. } = self;
        record.words(trace.words(event), digits);
        trace.extras(event, |_, value| match value {
            Extra::Null => record.nothing(1),
            Extra::Number(n) => record.number(Some(n)),
            Extra::Hex(n) => record.hex(Some(n), digits),
            Extra::Text(said) => record.text(Some(said)),
        });
        self.arg_columns(view, event);
        self.record.end()
    }

    fn renew(&mut self) {
        self.rows = Rows::new();
    }

    fn flush(&mut self) -> io::Result<()> {
        self.record.out.flush()
    }

    fn finish(&mut self, _: &View<'_>, _: &[Issue]) -> io::Result<()> {
        self.record.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread called `=cmd|...` was a formula in whatever opened the file.
    #[test]
    fn text_of_the_target_was_a_formula_in_a_spreadsheet() {
        for (said, shown) in [
            ("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"),
            ("+1+2", "'+1+2"),
            ("-2+3", "'-2+3"),
            ("@SUM(A1,A2)", "\"'@SUM(A1,A2)\""),
            ("=\"x\"", "\"'=\"\"x\"\"\""),
            ("\u{ff1d}1+1", "'\u{ff1d}1+1"),
            ("a;=1+1", "a;'=1+1"),
            ("\t=1+1", "\\t=1+1"),
            ("\r=1+1", "\\r=1+1"),
            ("-", "-"),
            ("-12", "-12"),
            ("a=b-c", "a=b-c"),
        ] {
            let mut out = writer(Vec::new());
            record(&mut out, [text(said)]).unwrap();
            assert_eq!(String::from_utf8(out.into_inner().unwrap()).unwrap(), format!("{shown}\n"));
        }
    }
}
