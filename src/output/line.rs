//! One line of a table, never wider than it may be.

use super::escape::{columns, escape, is_hostile, is_plain, is_plain_bytes};
use super::num;

/// A line that is being built. Spaces are owed until something follows them, so no line ends in one.
#[derive(Debug, Default)]
pub(super) struct Line {
    buf: Vec<u8>,
    width: usize,
    col: usize,
    owed: usize,
    /// Where the last visible character lies in `buf`, how long it is there and how wide on the screen.
    last: (usize, usize, usize),
    full: bool,
}

/// A part of a line that comes again and again, as it was written before.
#[derive(Debug, Default, Clone)]
pub(super) struct Cell {
    bytes: Vec<u8>,
    cols: usize,
    /// Bytes of the sequence behind the last visible character.
    tail: usize,
}

impl Cell {
    /// Plain text between two sequences that take no room; nothing for other text.
    pub fn plain(on: &str, text: &str, off: &str) -> Self {
        if !is_plain(text) {
            return Self::default();
        }
        Self { bytes: [on, text, off].concat().into_bytes(), cols: text.len(), tail: off.len() }
    }
}

impl Line {
    /// An empty line of at most so many columns.
    pub fn new(width: usize) -> Self {
        Self { width: width.max(1), ..Self::default() }
    }

    /// Begins the next line.
    pub fn clear(&mut self) {
        self.buf.clear();
        (self.col, self.owed, self.last, self.full) = (0, 0, (0, 0, 0), false);
    }

    /// What was written, with the end of the line.
    pub fn end(&mut self) -> &[u8] {
        self.buf.push(b'\n');
        &self.buf
    }

    /// The column that comes next.
    pub const fn at(&self) -> usize {
        self.col.saturating_add(self.owed)
    }

    /// True once something did not fit: what follows is lost.
    pub const fn is_full(&self) -> bool {
        self.full
    }

    /// So many spaces.
    pub fn space(&mut self, n: usize) {
        self.owed = self.owed.saturating_add(n);
    }

    /// So many spaces fewer than are owed.
    pub fn back(&mut self, n: usize) {
        self.owed = self.owed.saturating_sub(n);
    }

    /// Spaces up to this column.
    pub fn to(&mut self, col: usize) {
        self.owed = self.owed.max(col.saturating_sub(self.col));
    }

    /// A sequence that takes no room.
    pub fn mark(&mut self, sequence: &str) {
        if sequence.is_empty() || self.full {
            return;
        }
        self.pay();
        self.buf.extend_from_slice(sequence.as_bytes());
    }

    /// Closes a colour, even where the line is full.
    pub fn unmark(&mut self, sequence: &str) {
        self.buf.extend_from_slice(sequence.as_bytes());
    }

    fn pay(&mut self) {
        let n = self.owed.min(self.width.saturating_sub(self.col));
        self.buf.resize(self.buf.len().saturating_add(n), b' ');
        self.col = self.col.saturating_add(n);
        if n > 0 {
            self.last = (self.buf.len().saturating_sub(1), 1, 1);
        }
        self.owed = 0;
    }

    /// Printable ASCII.
    #[inline]
    pub fn ascii(&mut self, text: &[u8]) {
        if text.is_empty() || self.full {
            return;
        }
        self.pay();
        let room = self.width.saturating_sub(self.col);
        let fits = text.get(..room.min(text.len())).unwrap_or(text);
        self.buf.extend_from_slice(fits);
        self.col = self.col.saturating_add(fits.len());
        if !fits.is_empty() {
            self.last = (self.buf.len().saturating_sub(1), 1, 1);
        }
        if fits.len() < text.len() {
            self.overflow();
        }
    }

    /// What was written elsewhere, whole: false, and nothing written, where it does not fit. `cols` is the room it
    /// takes; it ends in visible ASCII or in a sequence behind it.
    #[inline]
    pub fn whole(&mut self, cell: &Cell) -> bool {
        // Cells that end in another character are left to the slow way, which knows where to cut them.
        if self.full || cell.cols == 0 || self.at().saturating_add(cell.cols) >= self.width {
            return false;
        }
        self.pay();
        self.buf.extend_from_slice(&cell.bytes);
        self.col = self.col.saturating_add(cell.cols);
        self.last = (self.buf.len().saturating_sub(cell.tail).saturating_sub(1), 1, 1);
        true
    }

    /// `label=text` in printable ASCII, cut where the line ends; false, and nothing written, for other text.
    #[inline]
    pub fn pair(&mut self, label: &str, text: &[u8]) -> bool {
        if !is_plain(label) || !is_plain_bytes(text) {
            return false;
        }
        let cols = label.len().saturating_add(text.len()).saturating_add(1);
        if self.full || self.at().saturating_add(cols) >= self.width {
            for part in [label.as_bytes(), b"=", text] {
                self.ascii(part);
            }
            return true;
        }
        self.pay();
        self.buf.extend_from_slice(label.as_bytes());
        self.buf.push(b'=');
        self.buf.extend_from_slice(text);
        self.col = self.col.saturating_add(cols);
        self.last = (self.buf.len().saturating_sub(1), 1, 1);
        true
    }

    /// Any text; what is hostile in it is spelled out.
    #[inline]
    pub fn text(&mut self, text: &str) {
        if is_plain(text) {
            return self.ascii(text.as_bytes());
        }
        if text.chars().any(is_hostile) {
            let text = escape(text);
            return self.wide(&text);
        }
        self.wide(text);
    }

    fn wide(&mut self, text: &str) {
        if self.full {
            return;
        }
        self.pay();
        for c in text.chars() {
            let wide = columns(c);
            if self.col.saturating_add(wide) > self.width {
                return self.overflow();
            }
            let at = self.buf.len();
            self.buf.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            self.col = self.col.saturating_add(wide);
            self.last = (at, c.len_utf8(), wide);
        }
    }

    /// Any text, cut to so many columns.
    pub fn cut(&mut self, text: &str, most: usize) {
        if self.full {
            return;
        }
        if is_plain(text) {
            if text.len() <= most {
                return self.ascii(text.as_bytes());
            }
            self.ascii(text.as_bytes().get(..most.saturating_sub(1)).unwrap_or(&[]));
            return self.ascii(b"~");
        }
        let text = escape(text);
        if width_of(&text) <= most {
            return self.wide(&text);
        }
        let mut used = 0usize;
        for (at, c) in text.char_indices() {
            used = used.saturating_add(columns(c));
            if used >= most {
                self.wide(text.get(..at).unwrap_or(""));
                break;
            }
        }
        self.ascii(b"~");
    }

    /// Printable ASCII, ending at a column this much further right.
    pub fn right(&mut self, text: &[u8], width: usize) {
        self.space(width.saturating_sub(text.len()));
        self.ascii(text);
    }

    /// A number in decimal, ending at a column this much further right.
    #[inline]
    pub fn right_dec(&mut self, n: u64, width: usize) {
        let mut digits = [b' '; 20];
        let text = num::digits(n, &mut digits);
        self.space(width.saturating_sub(text.len()));
        self.ascii(text);
    }

    /// Marks the last column: something is missing.
    fn overflow(&mut self) {
        self.full = true;
        if self.col < self.width {
            self.buf.push(b'~');
            self.col = self.col.saturating_add(1);
            return;
        }
        let (at, len, _) = self.last;
        let end = at.saturating_add(len);
        if end <= self.buf.len() {
            self.buf.splice(at..end, *b"~");
        }
    }
}

/// Columns of a text that was escaped.
pub(super) fn width_of(text: &str) -> usize {
    if is_plain(text) { text.len() } else { text.chars().map(columns).sum() }
}

/// Cuts a sentence into lines of at most so many columns, at spaces where it can.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let Some(last) = lines.last_mut() else { break };
        let used = width_of(last);
        if used > 0 && used.saturating_add(1).saturating_add(width_of(word)) > width {
            lines.push(word.to_owned());
        } else {
            if used > 0 {
                last.push(' ');
            }
            last.push_str(word);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(width: usize, f: impl Fn(&mut Line)) -> String {
        let mut line = Line::new(width);
        f(&mut line);
        String::from_utf8(line.end().to_vec()).unwrap()
    }

    #[test]
    fn lines_are_cut_at_their_width() {
        assert_eq!(line(5, |l| l.ascii(b"abcde")), "abcde\n");
        assert_eq!(line(5, |l| l.ascii(b"abcdef")), "abcd~\n");
        assert_eq!(line(5, |l| (l.ascii(b"abcde"), l.ascii(b"f")).0), "abcd~\n");
        assert_eq!(line(5, |l| (l.ascii(b"abc"), l.space(4), l.ascii(b"f")).0), "abc ~\n");
        assert_eq!(line(5, |l| (l.ascii(b"abc"), l.space(4)).0), "abc\n");
        assert_eq!(line(5, |l| l.text("温度温")), "温度~\n");
        assert_eq!(line(4, |l| l.text("温度温")), "温~\n");
        assert_eq!(line(9, |l| (l.cut("abcdef", 4), l.ascii(b"!")).0), "abc~!\n");
        assert_eq!(line(9, |l| (l.cut("ääääää", 4), l.ascii(b"!")).0), "äää~!\n");
    }

    #[test]
    fn a_colour_around_the_cut_stays_whole() {
        let text = line(5, |l| {
            l.mark("\x1b[1m");
            l.ascii(b"abcde");
            l.unmark("\x1b[0m");
            l.ascii(b"f");
        });
        assert_eq!(text, "\x1b[1mabcd~\x1b[0m\n");
    }

    #[test]
    fn sentences_are_wrapped() {
        assert_eq!(wrap("one two three", 8), ["one two", "three"]);
    }
}
