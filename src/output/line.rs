//! One line of a table, never wider than it may be.

use super::escape::{columns, escape, is_hostile, is_plain};
use super::num;

/// Bytes that are copied at once: longer than most of what a line is made of, and a copy of known length is a move or
/// two.
const CHUNK: usize = 32;

/// A line that is being built. Spaces are owed until something follows them, so no line ends in one.
#[derive(Debug, Default)]
pub(super) struct Line {
    /// The line up to `end`, and room behind it.
    buf: Vec<u8>,
    end: usize,
    width: usize,
    col: usize,
    owed: usize,
    /// Where the last visible character lies in `buf`, and how long it is there.
    last: (usize, usize),
    full: bool,
}

/// A part of a line that comes again and again, as it was written before.
#[derive(Debug, Default, Clone)]
pub(super) struct Cell {
    /// Its beginning: all of it, where it is no longer.
    short: [u8; CHUNK],
    bytes: Vec<u8>,
    cols: usize,
    /// Bytes of the sequence behind the last visible character.
    tail: usize,
}

impl Cell {
    /// Plain text between two sequences that take no room; nothing for other text.
    pub fn plain(on: &str, text: &str, off: &str) -> Self {
        let mut cell = Self::default();
        if is_plain(text) {
            cell.set(&[on.as_bytes(), text.as_bytes(), off.as_bytes()], text.len(), off.len());
        }
        cell
    }

    fn set(&mut self, parts: &[&[u8]], cols: usize, tail: usize) {
        self.bytes.clear();
        parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
        (self.cols, self.tail) = (cols, tail);
        self.short = [b' '; CHUNK];
        self.short.iter_mut().zip(&self.bytes).for_each(|(to, from)| *to = *from);
    }
}

impl Line {
    /// An empty line of at most so many columns.
    pub fn new(width: usize) -> Self {
        Self { width: width.max(1), ..Self::default() }
    }

    /// Begins the next line.
    #[inline]
    pub fn clear(&mut self) {
        (self.end, self.col, self.owed, self.last, self.full) = (0, 0, 0, (0, 0), false);
    }

    /// What was written, with the end of the line.
    #[inline]
    pub fn end(&mut self) -> &[u8] {
        self.put(b"\n");
        self.buf.get(..self.end).unwrap_or(&[])
    }

    /// Room for so many bytes more, and for a chunk.
    #[cold]
    fn grow(&mut self, more: usize) {
        let wanted = self.end.saturating_add(more).saturating_add(CHUNK);
        self.buf.resize(wanted.max(self.width.saturating_mul(2)).max(256), b' ');
    }

    /// Adds bytes.
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        let end = self.end.saturating_add(bytes.len());
        if end > self.buf.len() {
            self.grow(bytes.len());
        }
        if let Some(to) = self.buf.get_mut(self.end..end) {
            to.copy_from_slice(bytes);
            self.end = end;
        }
    }

    /// Adds the first bytes of a chunk.
    #[inline]
    fn put_chunk(&mut self, chunk: &[u8; CHUNK], len: usize) {
        match self.buf.get_mut(self.end..).and_then(|room| room.first_chunk_mut()) {
            Some(room) => {
                *room = *chunk;
                self.end = self.end.wrapping_add(len);
            }
            None => self.put(chunk.get(..len).unwrap_or(chunk)),
        }
    }

    /// Notes that visible ASCII was written last, `behind` bytes before the end.
    #[inline]
    fn visible(&mut self, behind: usize) {
        self.last = (self.end.wrapping_sub(behind).wrapping_sub(1), 1);
    }

    /// The column that comes next.
    #[inline]
    pub const fn at(&self) -> usize {
        self.col.saturating_add(self.owed)
    }

    /// True once something did not fit: what follows is lost.
    #[inline]
    pub const fn is_full(&self) -> bool {
        self.full
    }

    /// So many spaces.
    #[inline]
    pub fn space(&mut self, n: usize) {
        self.owed = self.owed.saturating_add(n);
    }

    /// So many spaces fewer than are owed.
    #[inline]
    pub fn back(&mut self, n: usize) {
        self.owed = self.owed.saturating_sub(n);
    }

    /// Spaces up to this column.
    #[inline]
    pub fn to(&mut self, col: usize) {
        self.owed = self.owed.max(col.saturating_sub(self.col));
    }

    /// A sequence that takes no room.
    #[inline]
    pub fn mark(&mut self, sequence: &str) {
        if sequence.is_empty() || self.full {
            return;
        }
        self.pay();
        self.put(sequence.as_bytes());
    }

    /// Closes a colour, even where the line is full.
    #[inline]
    pub fn unmark(&mut self, sequence: &str) {
        if !sequence.is_empty() {
            self.put(sequence.as_bytes());
        }
    }

    #[inline]
    fn pay(&mut self) {
        if self.owed > 0 {
            self.pay_owed();
        }
    }

    fn pay_owed(&mut self) {
        let n = self.owed.min(self.width.saturating_sub(self.col));
        self.owed = 0;
        if n == 0 {
            return;
        }
        self.col = self.col.wrapping_add(n);
        let mut left = n;
        while left > CHUNK {
            self.put(&[b' '; CHUNK]);
            left = left.wrapping_sub(CHUNK);
        }
        self.put_chunk(&[b' '; CHUNK], left);
        self.visible(0);
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
        self.put(fits);
        self.col = self.col.wrapping_add(fits.len());
        if !fits.is_empty() {
            self.visible(0);
        }
        if fits.len() < text.len() {
            self.overflow();
        }
    }

    /// True where so many columns more leave one free. What would fill the line is left to the slow way, which knows where
    /// to cut it.
    #[inline]
    const fn has_room(&self, cols: usize) -> bool {
        !self.full && self.at().saturating_add(cols) < self.width
    }

    /// What was written elsewhere, whole: false, and nothing written, where it does not fit or was not plain.
    #[inline]
    pub fn whole(&mut self, cell: &Cell) -> bool {
        if cell.cols == 0 || !self.has_room(cell.cols) {
            return false;
        }
        let (owed, len) = (self.owed, cell.bytes.len());
        let room = self.buf.get_mut(self.end..).and_then(|room| room.first_chunk_mut::<{ 2 * CHUNK }>());
        match room.filter(|_| owed <= CHUNK && len <= CHUNK) {
            Some(room) => {
                if let Some(spaces) = room.first_chunk_mut() {
                    *spaces = [b' '; CHUNK];
                }
                if let Some(place) = room.get_mut(owed..).and_then(|room| room.first_chunk_mut()) {
                    *place = cell.short;
                }
                self.end = self.end.wrapping_add(owed).wrapping_add(len);
                self.col = self.col.wrapping_add(owed).wrapping_add(cell.cols);
                self.owed = 0;
            }
            None => {
                self.pay();
                self.put(&cell.bytes);
                self.col = self.col.wrapping_add(cell.cols);
            }
        }
        self.visible(cell.tail);
        true
    }

    /// True where what is written next leaves all that is there as it is, though it be cut.
    #[inline]
    pub const fn goes_on(&self) -> bool {
        !self.full && self.col < self.width
    }

    /// The column behind what is written, and the spaces that are owed.
    #[inline]
    pub const fn column(&self) -> (usize, usize) {
        (self.col, self.owed)
    }

    /// Bytes so far, without the spaces that are owed.
    #[inline]
    pub const fn len(&self) -> usize {
        self.end
    }

    /// What was written since there were so many bytes.
    #[inline]
    pub fn since(&self, len: usize) -> &[u8] {
        self.buf.get(len..self.end).unwrap_or(&[])
    }

    /// All that follows, as another line had it that was as far.
    #[inline]
    pub fn rest(&mut self, bytes: &[u8]) {
        self.put(bytes);
    }

    /// `label=text` in printable ASCII, cut where the line ends.
    #[inline]
    pub fn pair(&mut self, label: &str, text: &[u8]) {
        let cols = label.len().saturating_add(text.len()).saturating_add(1);
        if !self.has_room(cols) {
            for part in [label.as_bytes(), b"=", text] {
                self.ascii(part);
            }
            return;
        }
        self.pay();
        for part in [label.as_bytes(), b"=", text] {
            self.put(part);
        }
        self.col = self.col.wrapping_add(cols);
        self.visible(0);
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
            let at = self.end;
            self.put(c.encode_utf8(&mut [0; 4]).as_bytes());
            self.col = self.col.saturating_add(wide);
            self.last = (at, c.len_utf8());
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
        // With the spaces in front.
        let whole = self.owed.wrapping_add(width);
        if whole <= CHUNK && self.has_room(width) {
            let start = self.end;
            self.put_chunk(&[b' '; CHUNK], whole);
            let field = self.buf.get_mut(start.wrapping_add(self.owed)..self.end);
            if field.is_some_and(|field| num::right(n, field)) {
                self.col = self.col.wrapping_add(whole);
                self.owed = 0;
                return self.visible(0);
            }
            // Longer than the column.
            self.end = start;
        }
        let mut digits = [b' '; 20];
        let text = num::digits(n, &mut digits);
        self.space(width.saturating_sub(text.len()));
        self.ascii(text);
    }

    /// Marks the last column: something is missing.
    #[cold]
    fn overflow(&mut self) {
        self.full = true;
        if self.col < self.width {
            self.put(b"~");
            self.col = self.col.saturating_add(1);
            return;
        }
        let (at, len) = self.last;
        let end = at.saturating_add(len);
        if end <= self.end && len > 0 {
            if let Some(place) = self.buf.get_mut(at) {
                *place = b'~';
            }
            // What follows the character are sequences.
            self.buf.copy_within(end..self.end, at.saturating_add(1));
            self.end = self.end.saturating_sub(len.saturating_sub(1));
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
