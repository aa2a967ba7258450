//! The arguments of a line: gathered before the first is written, so that one that does not fit is left out whole.

#![allow(clippy::arithmetic_side_effects, reason = "columns of one line, and bytes of it in memory")]

use std::ops::ControlFlow;

use super::escape::{escape_into, is_plain};
use super::line::{Line, width_of};

/// What shows that something is missing, after a space.
const MORE: &str = "~";

/// The arguments of one line.
#[derive(Debug, Default)]
pub(super) struct Arguments {
    /// All of them, escaped, one after the other, a space before each.
    text: String,
    parts: Vec<Part>,
    /// Columns that there are.
    room: usize,
    /// Columns that the parts take, with a space before each.
    used: usize,
    /// True where one of them is not plain.
    is_wide: bool,
}

/// One argument: a label with its `=`, or nothing, and a text; the space before it is not part of it.
#[derive(Debug, Clone, Copy)]
struct Part {
    start: usize,
    label: usize,
    end: usize,
    columns: usize,
}

impl Arguments {
    /// Begins a line with so much room.
    pub(super) fn begin(&mut self, room: usize) {
        self.text.clear();
        self.parts.clear();
        (self.room, self.used, self.is_wide) = (room, 0, false);
    }

    /// The columns that are left.
    pub(super) const fn left(&self) -> usize {
        self.room.saturating_sub(self.used)
    }

    /// `label=text`; breaks where no more fits.
    pub(super) fn add(&mut self, label: &str, text: &str) -> ControlFlow<()> {
        self.text.push(' ');
        let start = self.text.len();
        if !label.is_empty() {
            self.text.push_str(label);
            self.text.push('=');
        }
        let mut value = self.text.len();
        self.text.push_str(text);
        let is_plain = self.text.get(start..).is_some_and(is_plain);
        if !is_plain {
            self.text.truncate(start);
            if !label.is_empty() {
                escape_into(label, &mut self.text);
                self.text.push('=');
            }
            value = self.text.len();
            escape_into(text, &mut self.text);
        }
        self.end(start, value, is_plain)
    }

    /// `(text)`; breaks where no more fits.
    pub(super) fn add_in_brackets(&mut self, text: &str) -> ControlFlow<()> {
        self.text.push_str(" (");
        let start = self.text.len() - 1;
        let is_plain = escape_into(text, &mut self.text);
        self.text.push(')');
        self.end(start, start, is_plain)
    }

    /// The same of a message: each of its words may be the last that is shown.
    pub(super) fn add_prose(&mut self, label: &str, text: &str) -> ControlFlow<()> {
        let (first, rest) = text.split_once(' ').map_or((text, None), |(first, rest)| (first, Some(rest)));
        self.add(label, first)?;
        rest.into_iter().flat_map(|rest| rest.split(' ')).try_for_each(|word| self.add("", word))
    }

    fn end(&mut self, start: usize, label: usize, is_plain: bool) -> ControlFlow<()> {
        let end = self.text.len();
        let text = || self.text.get(start..end).unwrap_or_default();
        let columns = if is_plain { end - start } else { width_of(text()) } + 1;
        self.is_wide |= !is_plain;
        self.parts.push(Part { start, label, end, columns });
        self.used = self.used.saturating_add(columns);
        if self.used > self.room { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Writes what fits, and a mark where that is not all. `dim` is around labels.
    pub(super) fn write(&self, line: &mut Line, dim: (&str, &str)) {
        let text = |from, to| self.text.get(from..to).unwrap_or_default();
        let shown = self.parts.get(..self.fitting()).unwrap_or_default();
        if dim.0.is_empty() {
            // Nearly every line of a file or a pipe: what fits is written as it is.
            let all = text(0, shown.last().map_or(0, |last| last.end));
            if self.is_wide { line.text(all) } else { line.plain(all) }
        } else {
            for part in shown {
                line.space(1);
                if part.label > part.start {
                    line.mark(dim.0);
                    line.text(text(part.start, part.label));
                    line.unmark(dim.1);
                }
                line.text(text(part.label, part.end));
            }
        }
        if self.used > self.room {
            line.space(1);
            line.text(MORE);
        }
    }

    /// How many of the parts fit, with a mark behind them where these are not all.
    fn fitting(&self) -> usize {
        if self.used <= self.room {
            return self.parts.len();
        }
        let mut left = self.room.checked_sub(MORE.len() + 1);
        let fits = |part: &&Part| {
            left = left.and_then(|left| left.checked_sub(part.columns));
            left.is_some()
        };
        self.parts.iter().take_while(fits).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(room: usize, add: impl Fn(&mut Arguments)) -> String {
        let mut arguments = Arguments::default();
        arguments.begin(room);
        add(&mut arguments);
        let mut line = Line::new(room);
        arguments.write(&mut line, ("", ""));
        let mut out = Vec::new();
        line.end(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn what_does_not_fit_is_left_out_whole() {
        let parts = [("thread", "System Timer Thread"), ("was", "ready")];
        let line = |room, parts: &[(&str, &str)]| {
            line(room, |arguments| {
                let _ = parts.iter().try_for_each(|(label, text)| arguments.add(label, text));
            })
        };
        assert_eq!(line(37, &parts), " thread=System Timer Thread was=ready\n");
        assert_eq!(line(36, &parts), " thread=System Timer Thread ~\n");
        assert_eq!(line(29, &parts), " thread=System Timer Thread ~\n");
        assert_eq!(line(28, &parts), " ~\n");
        assert_eq!(line(usize::MAX, &parts), " thread=System Timer Thread was=ready\n");
        assert_eq!(line(9, &[]), "\n");
    }

    #[test]
    fn a_message_is_broken_between_words() {
        let of = |label, room| {
            line(room, |arguments| {
                let _ = arguments.add_prose(label, "sensor 5 is late again");
            })
        };
        assert_eq!(of("", 20), " sensor 5 is late ~\n");
        assert_eq!(of("text", 20), " text=sensor 5 is ~\n");
        assert_eq!(of("text", 28), " text=sensor 5 is late again\n");
    }
}
