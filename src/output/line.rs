//! One line of a table, never wider than it may be.

#![allow(clippy::arithmetic_side_effects, reason = "columns of one line, and bytes of it in memory")]

use std::io::{self, Write};
use std::iter::repeat_n;

use super::escape::{columns, escape, is_plain};

/// As many as are written at once.
const SPACES: &str = "                                ";

/// Adds so many spaces.
pub(super) fn pad(text: &mut String, n: usize) {
    match SPACES.get(..n) {
        Some(spaces) => text.push_str(spaces),
        None => text.extend(repeat_n(' ', n)),
    }
}

/// A line that is being built. Spaces are written when something follows them, so no line ends in one.
#[derive(Debug, Default)]
pub(super) struct Line {
    text: Vec<u8>,
    width: usize,
    /// The column after what is written; at most `width`.
    col: usize,
    /// Spaces that are not written yet.
    spaces: usize,
    /// Where the last visible character begins in `text`, and its end.
    last: (usize, usize),
    full: bool,
}

impl Line {
    /// An empty line of at most so many columns.
    pub(super) fn new(width: usize) -> Self {
        Self { width: width.max(1), ..Self::default() }
    }

    /// Writes the line to `out`; the next one begins empty.
    pub(super) fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.text.push(b'\n');
        let written = out.write_all(&self.text);
        self.text.clear();
        (self.col, self.spaces, self.last, self.full) = (0, 0, (0, 0), false);
        written
    }

    /// The column that comes next.
    pub(super) const fn at(&self) -> usize {
        self.col + self.spaces
    }

    /// So many spaces.
    pub(super) fn space(&mut self, n: usize) {
        self.spaces += n;
    }

    /// So many spaces fewer than are still to be written.
    pub(super) fn back(&mut self, n: usize) {
        self.spaces = self.spaces.saturating_sub(n);
    }

    /// Spaces up to this column.
    pub(super) fn to(&mut self, col: usize) {
        self.spaces = self.spaces.max(col.saturating_sub(self.col));
    }

    /// An escape sequence, which takes no room.
    pub(super) fn mark(&mut self, sequence: &str) {
        if !sequence.is_empty() && !self.full {
            self.write_spaces();
            self.text.extend_from_slice(sequence.as_bytes());
        }
    }

    /// The sequence that ends a colour, even where the line is full.
    pub(super) fn unmark(&mut self, sequence: &str) {
        self.text.extend_from_slice(sequence.as_bytes());
    }

    fn write_spaces(&mut self) {
        let spaces = std::mem::take(&mut self.spaces).min(self.width - self.col);
        if spaces > 0 {
            self.text.resize(self.text.len() + spaces, b' ');
            self.wrote(spaces, 1);
        }
    }

    /// So many columns were added, the last of them of so many bytes.
    fn wrote(&mut self, columns: usize, bytes: usize) {
        self.col += columns;
        self.last = (self.text.len() - bytes, self.text.len());
    }

    /// Any text, with what is hostile in it escaped; the part that fits.
    pub(super) fn text(&mut self, text: &str) {
        if is_plain(text) { self.plain(text) } else { self.escaped(&escape(text)) }
    }

    /// Text that is plain: it has as many columns as bytes.
    pub(super) fn plain(&mut self, text: &str) {
        if text.is_empty() || self.full {
            return;
        }
        self.write_spaces();
        let shown = text.len().min(self.width - self.col);
        if shown > 0 {
            self.text.extend_from_slice(text.as_bytes().get(..shown).unwrap_or_default());
            self.wrote(shown, 1);
        }
        if shown < text.len() {
            self.overflow();
        }
    }

    /// Text that was escaped.
    fn escaped(&mut self, text: &str) {
        if text.is_empty() || self.full {
            return;
        }
        self.write_spaces();
        for c in text.chars() {
            if self.col + columns(c) > self.width {
                return self.overflow();
            }
            self.text.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            self.wrote(columns(c), c.len_utf8());
        }
    }

    /// Cells of a row: text that is plain, and spaces behind it.
    pub(super) fn cells(&mut self, text: &str) {
        let shown = text.trim_end_matches(' ');
        self.plain(shown);
        self.space(text.len() - shown.len());
    }

    /// Marks the last column: something is missing.
    fn overflow(&mut self) {
        self.full = true;
        let (start, end) = self.last;
        if self.col < self.width {
            self.text.push(b'~');
            self.wrote(1, 1);
        } else if start < end {
            // What follows the character are sequences.
            self.text.splice(start..end, *b"~");
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
    fn sentences_are_wrapped() {
        assert_eq!(wrap("one two three", 8, 0), ["one two", "three"]);
    }
}
