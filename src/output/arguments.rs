//! The arguments of a line: one that does not fit is left out whole.

#![allow(clippy::arithmetic_side_effects, reason = "columns of one line, and bytes of it in memory")]

use std::ops::ControlFlow;

use super::line::{Line, Place};

/// What shows that something is missing.
const MORE: &str = " ~";

/// The arguments of one line, written behind what it has.
#[derive(Debug)]
pub(super) struct Arguments<'l> {
    line: &'l mut Line,
    /// What is around labels.
    dim: (&'l str, &'l str),
    /// The column that ends the room for them.
    end: usize,
    /// The end of the last one that leaves room for the mark.
    fitting: Place,
    /// True once one did not fit.
    is_full: bool,
}

impl<'l> Arguments<'l> {
    /// For a line of so many columns. `dim` is around labels.
    pub(super) const fn new(line: &'l mut Line, end: usize, dim: (&'l str, &'l str)) -> Self {
        let fitting = line.place();
        Self { line, dim, end, fitting, is_full: false }
    }

    /// The columns that are left.
    pub(super) const fn left(&self) -> usize {
        self.end.saturating_sub(self.line.at())
    }

    /// `label=text`; breaks where no more fits.
    pub(super) fn add(&mut self, label: &str, text: &str) -> ControlFlow<()> {
        let (on, off) = self.dim;
        self.part(|line| {
            if !label.is_empty() {
                line.mark(on);
                line.text(label);
                line.plain("=");
                line.unmark(off);
            }
            line.text(text);
        })
    }

    /// `(text)`; breaks where no more fits.
    pub(super) fn add_in_brackets(&mut self, text: &str) -> ControlFlow<()> {
        self.part(|line| {
            line.plain("(");
            line.text(text);
            line.plain(")");
        })
    }

    /// The same of a message: each of its words may be the last that is shown.
    pub(super) fn add_prose(&mut self, label: &str, text: &str) -> ControlFlow<()> {
        let (first, rest) = text.split_once(' ').map_or((text, None), |(first, rest)| (first, Some(rest)));
        self.add(label, first)?;
        rest.into_iter().flat_map(|rest| rest.split(' ')).try_for_each(|word| self.add("", word))
    }

    /// One argument, with a space before it. Where it does not fit, a mark stands for it and all that follow.
    fn part(&mut self, write: impl FnOnce(&mut Line)) -> ControlFlow<()> {
        if self.is_full {
            return ControlFlow::Break(());
        }
        self.line.space(1);
        write(self.line);
        if self.line.at() > self.end {
            self.is_full = true;
            self.line.truncate(self.fitting);
            self.line.plain(MORE);
            return ControlFlow::Break(());
        }
        if self.left() >= MORE.len() {
            self.fitting = self.line.place();
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(room: usize, add: impl Fn(&mut Arguments<'_>)) -> String {
        let mut line = Line::new(room);
        add(&mut Arguments::new(&mut line, room, ("", "")));
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
