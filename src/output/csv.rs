//! Events as comma-separated values: JSON's names, nested ones with a dot, arguments as in the table.

use std::io::{self, Write};
use std::ops::ControlFlow;

use super::escape::escape;
use super::row::Rows;
use super::text::hex;
use super::window::Window;
use super::{EventSink, Flow, View};
use crate::trace::{Event, Extra, Issue};

/// The head of the event table, up to the context and behind it.
const CONTEXT: [&str; 9] =
    ["seq", "slot", "ticks", "delta", "stamp", "core", "context.kind", "context.address", "context.name"];
const EVENT: [&str; 9] =
    ["priority", "threshold", "interrupted.address", "interrupted.name", "id", "name", "macro", "args", "words"];
/// The interrupt's number, where events tell one.
const ISR: &str = "context.isr";
/// What a formula begins with, in a spreadsheet of any language.
const FORMULA: [char; 8] = ['=', '+', '-', '@', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}'];

/// A writer of records of any length: reports have heads of their own.
pub(super) fn writer<W: Write>(out: W) -> csv::Writer<W> {
    csv::WriterBuilder::new().flexible(true).from_writer(out)
}

/// Writes a record. A failure of the writer comes back as it is: its kind distinguishes a closed pipe from a full disk.
pub(super) fn record<W: Write>(
    out: &mut csv::Writer<W>,
    fields: impl IntoIterator<Item = impl AsRef<[u8]>>,
) -> io::Result<()> {
    out.write_record(fields).map_err(|error| match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    })
}

/// Text that a spreadsheet takes for text, with control characters spelled out: these lines may be looked at in a
/// terminal. An apostrophe goes in front of what would be a formula. A semicolon ends a cell too where the comma is the
/// decimal point.
pub(super) fn text(text: &str) -> String {
    let is_number =
        |cell: &str| cell.strip_prefix(['+', '-']).is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
    let inert = |cell: &str| {
        let mark = if cell.starts_with(FORMULA) && !is_number(cell) { "'" } else { "" };
        format!("{mark}{cell}")
    };
    let cells: Vec<String> = text.split(';').map(inert).collect();
    escape(&cells.join(";"))
}

/// A number, or nothing.
fn number(n: Option<impl ToString>) -> String {
    n.map(|n| n.to_string()).unwrap_or_default()
}

/// Writes events as comma-separated values.
pub struct Csv<W: Write> {
    out: csv::Writer<W>,
    rows: Rows,
}

impl<W: Write> Csv<W> {
    /// Comma-separated values that are written to `out`.
    pub fn new(out: W) -> Self {
        Self { out: writer(out), rows: Rows::new() }
    }

    /// The arguments as in the table.
    fn args(&mut self, view: &View<'_>, event: &Event) -> String {
        let mut args: Vec<String> = Vec::new();
        self.rows.table_args(view, event, |label, said| {
            args.push(if label.is_empty() { said.to_owned() } else { format!("{label}={said}") });
            ControlFlow::Continue(())
        });
        text(&args.join(" "))
    }
}

impl<W: Write> EventSink for Csv<W> {
    fn begin(&mut self, view: &View<'_>, _: &Window) -> io::Result<()> {
        let isr = (!view.trace.interrupts.is_empty()).then_some(ISR);
        let extras = view.trace.extra_names().iter().copied();
        record(&mut self.out, CONTEXT.into_iter().chain(isr).chain(EVENT).chain(extras))
    }

    fn event(&mut self, view: &View<'_>, event: &Event) -> io::Result<Flow> {
        let (trace, digits) = (view.trace, view.digits());
        let context = trace.contexts.get(event.context);
        let behind = event.interrupted.and_then(|id| trace.contexts.get(id));
        let def = event.def.and_then(|d| view.catalogue.def(d));
        let words: Vec<String> = trace.words(event).iter().map(|w| hex(*w, digits)).collect();
        let mut fields = vec![
            event.seq.to_string(),
            event.slot.to_string(),
            event.ticks.to_string(),
            number(event.delta),
            number(event.stamp.map(|s| hex(s, view.stamp_digits()))),
            event.core.to_string(),
            number(context.map(|c| c.kind.name())),
            number(context.map(|c| hex(c.address, digits))),
            number(self.rows.name_of(view, event).map(|n| text(&n))),
        ];
        if !trace.interrupts.is_empty() {
            fields.push(number(event.isr));
        }
        fields.extend([
            number(event.priority),
            number(event.threshold),
            number(behind.map(|c| hex(c.address, digits))),
            number(event.interrupted.and_then(|id| self.rows.name(view, id)).map(|n| text(&n))),
            event.id.to_string(),
            number(def.map(|d| text(&d.name))),
            number(def.map(|d| text(&d.macro_name))),
            self.args(view, event),
            words.join(" "),
        ]);
        trace.extras(event, |_, value| {
            fields.push(match value {
                Extra::Null => String::new(),
                Extra::Number(n) => n.to_string(),
                Extra::Hex(n) => hex(n, digits),
                Extra::Text(said) => text(said),
            });
        });
        record(&mut self.out, &fields)?;
        Ok(Flow::More)
    }

    fn renew(&mut self) {
        self.rows = Rows::new();
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn finish(&mut self, _: &View<'_>, _: &[Issue]) -> io::Result<()> {
        self.out.flush()
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
