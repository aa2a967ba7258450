//! Events as comma-separated values: JSON's names, nested ones with a dot, arguments as in the table.

use std::borrow::Cow;
use std::io::{self, Write};
use std::ops::ControlFlow;

use super::escape::{escape_into, is_hostile, is_plain};
use super::row::Rows;
use super::window::Window;
use super::{EventSink, Flow, Out, View, num};
use crate::trace::{Event, Extra, Issue};

/// The head of the event table, up to the context and behind it.
const HEAD: [&str; 2] = [
    "seq,slot,ticks,delta,stamp,core,context.kind,context.address,context.name",
    ",priority,threshold,interrupted.address,interrupted.name,id,name,macro,args,words",
];
/// What a formula begins with, in a spreadsheet of any language.
const FORMULA: [char; 8] = ['=', '+', '-', '@', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}'];
/// The interrupt's number, where events tell one.
const ISR: &str = ",context.isr";

/// Adds text, in quotes where it needs them. A control character is spelled out: these lines may be looked at.
pub(super) fn field(out: &mut Vec<u8>, text: &str) {
    let text = &*inert(text);
    if !is_plain(text) && text.chars().any(is_hostile) {
        let mut shown = String::new();
        escape_into(text, &mut shown);
        return quoted(out, &shown);
    }
    quoted(out, text);
}

/// Text that a spreadsheet takes for text: an apostrophe goes in front of what would be a formula. A semicolon ends a
/// cell too where the comma is the decimal point.
fn inert(text: &str) -> Cow<'_, str> {
    let is_number =
        |cell: &str| cell.strip_prefix(['+', '-']).is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
    let is_formula = |cell: &str| cell.starts_with(FORMULA) && !is_number(cell);
    if !text.split(';').any(is_formula) {
        return Cow::Borrowed(text);
    }
    let cells: Vec<String> =
        text.split(';').map(|c| if is_formula(c) { format!("'{c}") } else { c.to_owned() }).collect();
    Cow::Owned(cells.join(";"))
}

fn quoted(out: &mut Vec<u8>, text: &str) {
    if !text.contains([',', '"']) && !text.starts_with(' ') && !text.ends_with(' ') {
        return out.extend_from_slice(text.as_bytes());
    }
    out.push(b'"');
    for (i, part) in text.split('"').enumerate() {
        if i > 0 {
            out.extend_from_slice(b"\"\"");
        }
        out.extend_from_slice(part.as_bytes());
    }
    out.push(b'"');
}

/// Writes events as comma-separated values.
#[derive(Debug)]
pub struct Csv<W> {
    out: Out<W>,
    rows: Rows,
    args: String,
}

impl<W: Write> Csv<W> {
    /// Comma-separated values that are written to `out`.
    pub fn new(out: W) -> Self {
        Self { out: Out::new(out), rows: Rows::new(), args: String::new() }
    }
}

impl<W: Write> EventSink for Csv<W> {
    fn begin(&mut self, view: &View<'_>, _: &Window) -> io::Result<()> {
        let isr = if view.trace.interrupts.is_empty() { "" } else { ISR };
        for part in [HEAD[0], isr, HEAD[1]] {
            self.out.buf.extend_from_slice(part.as_bytes());
        }
        for name in view.trace.extra_names() {
            self.out.buf.push(b',');
            self.out.buf.extend_from_slice(name.as_bytes());
        }
        self.out.buf.push(b'\n');
        Ok(())
    }

    fn event(&mut self, view: &View<'_>, event: &Event) -> io::Result<Flow> {
        let digits = view.digits();
        let Self { out: Out { buf: out, .. }, rows, args } = self;
        let context = view.trace.contexts.get(event.context);
        let behind = event.interrupted.and_then(|id| view.trace.contexts.get(id));
        num::dec(out, event.seq);
        out.push(b',');
        num::dec(out, event.slot);
        out.push(b',');
        num::signed(out, event.ticks);
        out.push(b',');
        event.delta.into_iter().for_each(|d| num::signed(out, d));
        out.push(b',');
        event.stamp.into_iter().for_each(|s| num::hex(out, s, view.stamp_digits()));
        out.push(b',');
        num::dec(out, u64::from(event.core));
        out.push(b',');
        context.into_iter().for_each(|c| out.extend_from_slice(c.kind.name().as_bytes()));
        out.push(b',');
        context.into_iter().for_each(|c| num::hex(out, c.address, digits));
        out.push(b',');
        rows.name_of(view, event).into_iter().for_each(|n| field(out, &n));
        out.push(b',');
        if !view.trace.interrupts.is_empty() {
            event.isr.into_iter().for_each(|n| num::dec(out, u64::from(n)));
            out.push(b',');
        }
        event.priority.into_iter().for_each(|p| num::dec(out, u64::from(p)));
        out.push(b',');
        event.threshold.into_iter().for_each(|p| num::dec(out, u64::from(p)));
        out.push(b',');
        behind.into_iter().for_each(|c| num::hex(out, c.address, digits));
        out.push(b',');
        event.interrupted.and_then(|id| rows.name(view, id)).into_iter().for_each(|n| field(out, &n));
        out.push(b',');
        num::dec(out, u64::from(event.id));
        out.push(b',');
        let def = event.def.and_then(|d| view.catalogue.def(d));
        def.into_iter().for_each(|d| field(out, &d.name));
        out.push(b',');
        def.into_iter().for_each(|d| field(out, &d.macro_name));
        out.push(b',');
        args.clear();
        let _ = rows.table_args(view, event, |label, text| {
            if !args.is_empty() {
                args.push(' ');
            }
            if !label.is_empty() {
                args.push_str(label);
                args.push('=');
            }
            args.push_str(&String::from_utf8_lossy(text));
            ControlFlow::Continue(())
        });
        field(out, args);
        out.push(b',');
        for (i, word) in view.trace.words(event).iter().enumerate() {
            if i > 0 {
                out.push(b' ');
            }
            num::hex(out, *word, digits);
        }
        view.trace.extras(event, |_, value| {
            out.push(b',');
            match value {
                Extra::Null => {}
                Extra::Number(n) => num::dec(out, n),
                Extra::Hex(n) => num::hex(out, n, digits),
                Extra::Text(text) => field(out, text),
            }
        });
        out.push(b'\n');
        self.out.row()?;
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
        for (text, shown) in [
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
            let mut out = Vec::new();
            field(&mut out, text);
            assert_eq!(String::from_utf8(out).unwrap_or_default(), shown);
        }
    }
}
