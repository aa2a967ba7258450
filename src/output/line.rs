//! One line of a table, never wider than it may be.

#![allow(clippy::arithmetic_side_effects, reason = "columns of one line, and bytes of it in memory")]

use std::io::{self, Write};
use std::iter::repeat_n;

use super::escape::{columns, escape, escape_into, is_plain};
use super::styles::OFF;

/// As many as are written at once.
const SPACES: &str = "                                ";

/// A line that is being built. It is cut at its width when it ends, and no line ends in a space.
#[derive(Debug, Default)]
pub(super) struct Line {
    /// Escaped text and escape sequences of colours.
    text: String,
    width: usize,
    /// The column that comes next.
    col: usize,
}

/// A place in a line that [`Line::truncate`] goes back to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    bytes: usize,
    col: usize,
}

impl Line {
    /// An empty line of at most so many columns.
    pub(super) fn new(width: usize) -> Self {
        Self { width: width.max(1), ..Self::default() }
    }

    /// Writes the line to `out`; the next one begins empty.
    pub(super) fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let shown = self.text.trim_end_matches(' ').len();
        let spaces = self.text.len() - shown;
        self.text.truncate(shown);
        if self.col - spaces > self.width {
            self.text = cut(&self.text, self.width);
        }
        self.text.push('\n');
        let written = out.write_all(self.text.as_bytes());
        self.text.clear();
        self.col = 0;
        written
    }

    /// The column that comes next.
    pub(super) const fn at(&self) -> usize {
        self.col
    }

    /// The place that comes next.
    pub(super) const fn place(&self) -> Place {
        Place { bytes: self.text.len(), col: self.col }
    }

    /// Takes back what was added since.
    pub(super) fn truncate(&mut self, to: Place) {
        self.text.truncate(to.bytes);
        self.col = to.col;
    }

    /// So many spaces.
    pub(super) fn space(&mut self, n: usize) {
        match SPACES.get(..n) {
            Some(spaces) => self.text.push_str(spaces),
            None => self.text.extend(repeat_n(' ', n)),
        }
        self.col += n;
    }

    /// Takes back one space.
    pub(super) fn back(&mut self) {
        if self.text.ends_with(' ') {
            self.text.pop();
            self.col -= 1;
        }
    }

    /// Spaces up to this column.
    pub(super) fn to(&mut self, col: usize) {
        self.space(col.saturating_sub(self.col));
    }

    /// Begins a colour: an escape sequence, which takes no room.
    pub(super) fn mark(&mut self, sequence: &str) {
        self.text.push_str(sequence);
    }

    /// Ends a colour, before the spaces at the end.
    pub(super) fn unmark(&mut self, sequence: &str) {
        if !sequence.is_empty() {
            let end = self.text.trim_end_matches(' ').len();
            self.text.insert_str(end, sequence);
        }
    }

    /// Any text, with what is hostile in it escaped.
    pub(super) fn text(&mut self, text: &str) {
        if is_plain(text) {
            self.plain(text);
        } else {
            let start = self.text.len();
            escape_into(text, &mut self.text);
            self.col += self.text.get(start..).map_or(0, width_of);
        }
    }

    /// Text that is plain: it has as many columns as bytes.
    pub(super) fn plain(&mut self, text: &str) {
        self.text.push_str(text);
        self.col += text.len();
    }
}

/// The text of a line in so many columns: the last one is a mark, as something is missing. Colours end where they would.
fn cut(text: &str, width: usize) -> String {
    let mut out = String::new();
    // Where the last visible character begins and ends.
    let (mut col, mut last, mut is_full) = (0, 0..0, false);
    let mut rest = text.chars();
    loop {
        let before = rest.as_str();
        let Some(c) = rest.next() else { return out };
        if c == '\x1b' {
            // All others were escaped.
            let end = before.find('m').map_or(before.len(), |at| at + 1);
            let (sequence, after) = before.split_at_checked(end).unwrap_or((before, ""));
            if !is_full || sequence == OFF {
                out.push_str(sequence);
            }
            rest = after.chars();
        } else if !is_full && col + columns(c) <= width {
            last = out.len()..out.len() + c.len_utf8();
            out.push(c);
            col += columns(c);
        } else if !is_full {
            is_full = true;
            last = if col < width { out.len()..out.len() } else { last };
            out.replace_range(last.clone(), "~");
        }
    }
}

/// Columns of a text that was escaped.
pub(super) fn width_of(text: &str) -> usize {
    if is_plain(text) { text.len() } else { text.chars().map(columns).sum() }
}

/// Columns of a text when it is escaped.
pub(super) fn width_when_escaped(text: &str) -> usize {
    if is_plain(text) { text.len() } else { width_of(&escape(text)) }
}

/// Cuts a sentence into lines of at most so many columns, at spaces where it can; those after the first are moved to the right.
pub(super) fn wrap(text: &str, width: usize, indent: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let Some(last) = lines.last_mut() else { break };
        if !last.trim().is_empty() && width_of(last) + 1 + width_of(word) > width {
            lines.push(" ".repeat(indent) + word);
        } else {
            if !last.is_empty() {
                last.push(' ');
            }
            last.push_str(word);
        }
    }
    lines.iter_mut().for_each(|line| line.truncate(line.trim_end().len()));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(width: usize, f: impl Fn(&mut Line)) -> String {
        let mut line = Line::new(width);
        f(&mut line);
        let mut out = Vec::new();
        line.end(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn lines_are_cut_at_their_width() {
        assert_eq!(line(5, |l| l.text("abcde")), "abcde\n");
        assert_eq!(line(5, |l| l.text("abcdef")), "abcd~\n");
        assert_eq!(line(5, |l| (l.text("abcde"), l.text("f")).0), "abcd~\n");
        assert_eq!(line(5, |l| (l.text("abc"), l.space(4), l.text("f")).0), "abc ~\n");
        assert_eq!(line(5, |l| (l.text("abc"), l.space(4)).0), "abc\n");
        assert_eq!(line(5, |l| l.text("温度温")), "温度~\n");
        assert_eq!(line(4, |l| l.text("温度温")), "温~\n");
    }

    #[test]
    fn a_colour_around_the_cut_stays_whole() {
        let text = line(5, |l| {
            l.mark("\x1b[1m");
            l.text("abcde");
            l.unmark("\x1b[0m");
            l.text("f");
        });
        assert_eq!(text, "\x1b[1mabcd~\x1b[0m\n");
    }

    #[test]
    fn no_line_ends_in_a_space_and_no_colour_covers_one() {
        assert_eq!(line(9, |l| (l.text("ab  "), l.space(3)).0), "ab\n");
        let text = line(9, |l| {
            l.mark("\x1b[1m");
            l.text("ab ");
            l.unmark("\x1b[0m");
            l.back();
            l.text("c");
        });
        assert_eq!(text, "\x1b[1mab\x1b[0mc\n");
        let text = line(9, |l| {
            l.text("ab");
            let place = l.place();
            l.mark("\x1b[1m");
            l.text("温度");
            l.unmark("\x1b[0m");
            l.truncate(place);
            l.text("c");
        });
        assert_eq!(text, "abc\n");
    }

    #[test]
    fn sentences_are_wrapped() {
        assert_eq!(wrap("one two three", 8, 0), ["one two", "three"]);
    }
}
