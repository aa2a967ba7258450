//! Reports for people: a table; where a row is too wide for the terminal its columns in several tables, or each row as a
//! record, line by line. No number and no word is ever cut.

#![allow(clippy::arithmetic_side_effects, reason = "columns and rows of a report")]

use std::collections::HashSet;
use std::io::{self, BufWriter, Write};
use std::ops::RangeInclusive;

use super::line::{Line, width_of, wrap};
use super::report::Words;
use super::styles::{Style, Styles, style_of_state};
use super::{Part, ReportWriter, Resolve, TableOptions, View, document, escape};
use crate::abi::Width;
use crate::report::{Cell, Column, Kind, Report};
use crate::trace::Issue;

/// Spaces between columns.
const GAP: usize = 2;
/// A column of text is not made narrower than this: a word in each line would be hard to read.
const NARROW: usize = 16;
/// Nor narrower than this, where otherwise a row would not fit.
const NARROWEST: usize = 10;
/// Rows that decide which column is folded.
const SAMPLE: usize = 200;
/// Rows of which several tables are made: fewer are easier to read as records, and of more each part would be long and
/// take as much memory as the whole.
const SPLIT: RangeInclusive<usize> = 3..=10_000;
/// The most columns that the tables of one report repeat.
const KEY: usize = 3;
/// The least room for a value of a record.
const VALUE: usize = 20;
/// What is in front of a note.
const NOTE: &str = "note: ";

/// Writes reports for people.
pub(super) struct TableReports<'w, W: Write> {
    out: BufWriter<W>,
    options: TableOptions,
    words: Words<'w>,
    /// True where an empty line has to come before what comes next.
    any: bool,
}

impl<'w, W: Write> TableReports<'w, W> {
    /// Tables that are written to `out`.
    pub(super) fn new(out: W, options: TableOptions, word: Width, names: &'w dyn Resolve) -> Self {
        Self { out: BufWriter::new(out), options, words: Words::new(word, names), any: false }
    }

    /// An empty line between two parts.
    fn space(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.any, true) { writeln!(self.out) } else { Ok(()) }
    }

    /// A sentence, after something that its further lines leave room for.
    fn sentence(&mut self, before: &str, text: &str) -> io::Result<()> {
        let indent = before.len();
        let mut line = Line::new(usize::MAX);
        for (i, part) in wrap(&escape(text), self.options.width.saturating_sub(indent).max(1), 0).iter().enumerate() {
            line.text(if i == 0 { before } else { "" });
            line.to(indent);
            line.text(part);
            line.end(&mut self.out)?;
        }
        Ok(())
    }

    fn lines_of_notes(&mut self, notes: &[String]) -> io::Result<()> {
        notes.iter().try_for_each(|note| self.sentence(NOTE, note))
    }
}

/// Writes a view as a table.
fn table(view: &TableView<'_>, widths: &[usize], styles: &Styles, out: &mut impl Write) -> io::Result<()> {
    let (on, off) = styles.around(Style::Head);
    let mut line = Line::new(usize::MAX);
    let heads: Vec<Vec<String>> = view.heads.iter().zip(widths).map(|(head, width)| folded(head, *width)).collect();
    let most = heads.iter().map(Vec::len).max().unwrap_or(1);
    for at in 0..most {
        // Heads of fewer lines stand just above their columns.
        let part = |head: &Vec<String>| (at + head.len()).checked_sub(most).and_then(|at| head.get(at)).cloned();
        line.mark(on);
        put(&mut line, heads.iter().map(part), &view.columns, widths, |_, _| {});
        line.unmark(off);
        line.end(out)?;
    }
    for row in &view.report.rows {
        let cells: Vec<Vec<String>> = view.texts(row).zip(widths).map(|(text, width)| folded(&text, *width)).collect();
        for at in 0..cells.iter().map(Vec::len).max().unwrap_or(1) {
            let parts = cells.iter().map(|cell| cell.get(at).cloned());
            put(&mut line, parts, &view.columns, widths, |line, place| {
                let (on, off) = styles.around(view.cell(row, place.column).map_or(Style::Plain, style_of));
                if place.begins { line.mark(on) } else { line.unmark(off) }
            });
            line.end(out)?;
        }
    }
    Ok(())
}

/// Writes each row as a record: a line for each cell that is not empty.
fn records(view: &TableView<'_>, options: &TableOptions, out: &mut impl Write) -> io::Result<()> {
    let indent = view.columns.iter().map(|c| width_of(c.title)).max().unwrap_or(0) + GAP;
    let room = options.width.saturating_sub(indent).max(VALUE);
    let (on, off) = options.styles.around(Style::Head);
    let mut line = Line::new(usize::MAX);
    for (number, row) in view.report.rows.iter().enumerate() {
        if number > 0 {
            writeln!(out)?;
        }
        let cells = view.report.columns.iter().zip(row).filter(|(_, cell)| **cell != Cell::Empty);
        for (column, cell) in cells {
            let text = view.words.text_and_unit(column, cell);
            let (begin, end) = options.styles.around(style_of(cell));
            for (i, part) in folded(&text, room).iter().enumerate().filter(|(_, part)| !part.is_empty()) {
                if i == 0 {
                    line.mark(on);
                    line.text(column.title);
                    line.unmark(off);
                }
                line.to(indent);
                line.mark(begin);
                line.text(part);
                line.unmark(end);
                line.end(out)?;
            }
        }
    }
    Ok(())
}

impl<W: Write> ReportWriter for TableReports<'_, W> {
    fn begin(&mut self, view: &View<'_>) -> io::Result<()> {
        self.words.begin(&view.trace.clock);
        Ok(())
    }

    fn heading(&mut self, title: &str) -> io::Result<()> {
        self.space()?;
        self.any = false;
        writeln!(self.out, "{}", self.options.styles.text(Style::Bold, &escape(title)))
    }

    fn part(&mut self, part: &Part<'_>) -> io::Result<()> {
        document::text(part, &self.options, &mut self.any, &mut self.out)
    }

    fn report(&mut self, report: &Report) -> io::Result<()> {
        self.space()?;
        self.words.measure(report);
        if report.rows.is_empty() {
            self.sentence("", report.nothing())?;
            return self.lines_of_notes(&report.notes);
        }
        let view = TableView::of(report, &self.words);
        let fits = |narrow| view.fit(self.options.width, narrow);
        if let Some(widths) = fits(NARROW).or_else(|| fits(NARROWEST)) {
            table(&view, &widths, &self.options.styles, &mut self.out)?;
        } else if let Some(tables) = view.tables(self.options.width) {
            for (i, (view, widths)) in tables.iter().enumerate() {
                if i > 0 {
                    writeln!(self.out)?;
                }
                table(view, widths, &self.options.styles, &mut self.out)?;
            }
        } else {
            records(&view, &self.options, &mut self.out)?;
        }
        self.lines_of_notes(&report.notes)
    }

    fn notes(&mut self, notes: &[String]) -> io::Result<()> {
        if notes.is_empty() {
            return Ok(());
        }
        self.space()?;
        self.lines_of_notes(notes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn finish(&mut self, _: &[Issue]) -> io::Result<()> {
        self.out.flush()
    }
}

/// The style of a cell.
const fn style_of(cell: &Cell) -> Style {
    match cell {
        Cell::State(state) => style_of_state(state.0),
        _ => Style::Plain,
    }
}

/// What a table has in its lines and columns: of the report's columns those that have a value. The texts of its cells are
/// made when they are asked for: those of all rows would take more room than the rows.
struct TableView<'r> {
    report: &'r Report,
    words: &'r Words<'r>,
    /// By column of the table: that of the report.
    kept: Vec<usize>,
    columns: Vec<&'r Column>,
    heads: Vec<String>,
    /// The width of the widest cell of each column.
    widest: Vec<usize>,
}

impl<'r> TableView<'r> {
    fn of(report: &'r Report, words: &'r Words<'_>) -> Self {
        let is_shown =
            |cell: &Cell| !matches!(cell, Cell::Empty) && !matches!(cell, Cell::Text(text) if text.is_empty());
        let has_value = |at: usize| report.rows.iter().any(|row| row.get(at).is_some_and(is_shown));
        let kept: Vec<usize> = (0..report.columns.len()).filter(|at| *at == 0 || has_value(*at)).collect();
        let columns: Vec<&Column> = kept.iter().filter_map(|at| report.columns.get(*at)).collect();
        let heads = columns.iter().map(|c| words.head(c)).collect();
        let mut this = Self { report, words, kept, columns, heads, widest: Vec::new() };
        this.widest = (0..this.columns.len()).map(|at| this.most(at, width_of)).collect();
        this
    }

    /// The cell of a row in a column.
    fn cell(&self, row: &'r [Cell], at: usize) -> Option<&'r Cell> {
        row.get(*self.kept.get(at)?)
    }

    /// The texts of a row; escaped.
    fn texts(&self, row: &'r [Cell]) -> impl Iterator<Item = String> {
        let cells = self.columns.iter().enumerate().filter_map(|(at, column)| Some((column, self.cell(row, at)?)));
        cells.map(|(column, cell)| self.words.text(column, cell))
    }

    /// Several tables with a part of the columns each and their widths, which all begin with those that tell the rows apart.
    /// `None` where no table is narrow enough, or records are easier to read.
    fn tables(&self, most: usize) -> Option<Vec<(Self, Vec<usize>)>> {
        if !SPLIT.contains(&self.report.rows.len()) {
            return None;
        }
        let key: Vec<usize> = (0..self.key()?).collect();
        let mut tables = Vec::new();
        let (mut columns, mut last) = (key.clone(), None);
        for at in key.len()..self.columns.len() {
            columns.push(at);
            let part = self.part(&columns);
            match (part.fit(most, NARROW), last.take()) {
                (Some(widths), _) => last = Some((part, widths)),
                (None, Some(full)) => {
                    tables.push(full);
                    columns = [key.as_slice(), &[at]].concat();
                    let part = self.part(&columns);
                    let widths = part.fit(most, NARROW)?;
                    last = Some((part, widths));
                }
                (None, None) => return None,
            }
        }
        tables.extend(last);
        Some(tables)
    }

    /// How many of the first columns tell the rows apart.
    fn key(&self) -> Option<usize> {
        (1..=KEY.min(self.columns.len())).find(|columns| {
            let mut seen = HashSet::new();
            self.report.rows.iter().all(|row| seen.insert(self.texts(row).take(*columns).collect::<Vec<_>>()))
        })
    }

    /// The same rows with these columns.
    fn part(&self, columns: &[usize]) -> Self {
        Self {
            report: self.report,
            words: self.words,
            kept: columns.iter().filter_map(|at| self.kept.get(*at)).copied().collect(),
            columns: columns.iter().filter_map(|at| self.columns.get(*at)).copied().collect(),
            heads: columns.iter().filter_map(|at| self.heads.get(*at)).cloned().collect(),
            widest: columns.iter().filter_map(|at| self.widest.get(*at)).copied().collect(),
        }
    }

    /// The largest of what a function says of a column's cells.
    fn most(&self, at: usize, of: impl Fn(&str) -> usize) -> usize {
        let Some(column) = self.columns.get(at) else { return 0 };
        let cells = self.report.rows.iter().filter_map(|row| self.cell(row, at));
        cells.map(|cell| of(&self.words.text(column, cell))).max().unwrap_or(0)
    }

    /// Widths with which a row takes at most so many columns of the terminal; `None` where there are none, as every word
    /// and every number needs its room. What is folded at words is what adds the fewest lines for the room that it gives. A
    /// column of at most `narrow` is not folded further.
    fn fit(&self, most: usize, narrow: usize) -> Option<Vec<usize>> {
        let natural: Vec<usize> =
            self.heads.iter().zip(&self.widest).map(|(head, widest)| width_of(head).max(*widest)).collect();
        let most = most.saturating_sub(self.columns.len().saturating_sub(1) * GAP);
        let mut widths = natural.clone();
        loop {
            let over = widths.iter().sum::<usize>().saturating_sub(most);
            if over == 0 {
                break;
            }
            let lines = self.lines(&widths);
            let folds = (0..widths.len()).filter_map(|at| {
                let narrower = self.narrower(at, *widths.get(at)?, narrow)?;
                let mut with = widths.clone();
                *with.get_mut(at)? = narrower;
                let gained = widths.get(at)?.checked_sub(narrower)?.min(over).max(1);
                Some(((self.lines(&with) - lines) * 100 / gained, with))
            });
            widths = folds.min_by_key(|(cost, _)| *cost)?.1;
        }
        // The last fold may have given more room than was needed.
        let mut spare = most - widths.iter().sum::<usize>();
        let mut folds: Vec<(&mut usize, usize)> = widths.iter_mut().zip(natural).collect();
        folds.sort_by_key(|(width, natural)| natural - **width);
        for (width, natural) in folds {
            let more = natural - *width;
            if more <= spare {
                *width = natural;
                spare -= more;
            }
        }
        Some(widths)
    }

    /// The width that a column of this width has once it is folded further; `None` where it cannot be.
    fn narrower(&self, at: usize, width: usize, narrow: usize) -> Option<usize> {
        let column = self.columns.get(at)?;
        let widest = |text: &str| folded(text, width - 1).iter().map(|line| width_of(line)).max().unwrap_or(0);
        let is_whole = column.kind.is_right() || column.kind == Kind::Address;
        let cells = if is_whole { *self.widest.get(at)? } else { self.most(at, widest) };
        let head = widest(self.heads.get(at)?);
        let narrower = cells.max(head);
        (narrower < width && (is_whole || width > narrow)).then_some(narrower)
    }

    /// Lines of the head and of the first rows with these widths.
    fn lines(&self, widths: &[usize]) -> usize {
        let most = |lines: &mut dyn Iterator<Item = usize>| lines.max().unwrap_or(1);
        let row = |row: &'r [Cell]| most(&mut self.texts(row).zip(widths).map(|(text, w)| folded(&text, *w).len()));
        let head = most(&mut self.heads.iter().zip(widths).map(|(head, width)| folded(head, *width).len()));
        head + self.report.rows.iter().take(SAMPLE).map(row).sum::<usize>()
    }
}

/// A text in lines of at most so many columns; one that fits is as it is.
fn folded(text: &str, width: usize) -> Vec<String> {
    if width_of(text) <= width {
        return vec![text.to_owned()];
    }
    // What is indented stays so in all of its lines.
    let indent = text.len() - text.trim_start_matches(' ').len();
    let lines = wrap(text.trim_start_matches(' '), width.saturating_sub(indent).max(1), 0);
    lines.into_iter().map(|line| " ".repeat(indent) + &line).collect()
}

/// Where a cell begins or ends in a line.
struct Place {
    column: usize,
    begins: bool,
}

/// Adds cells to a line; `mark` is called before and after each.
fn put(
    line: &mut Line,
    cells: impl Iterator<Item = Option<String>>,
    columns: &[&Column],
    widths: &[usize],
    mut mark: impl FnMut(&mut Line, Place),
) {
    let mut start = 0usize;
    for (at, ((cell, column), width)) in cells.zip(columns).zip(widths).enumerate() {
        let cell = cell.filter(|cell| !cell.is_empty());
        if let Some(cell) = cell {
            let pad = if column.kind.is_right() { width.saturating_sub(width_of(&cell)) } else { 0 };
            line.to(start + pad);
            mark(line, Place { column: at, begins: true });
            line.text(&cell);
            mark(line, Place { column: at, begins: false });
        }
        start += *width + GAP;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::NoNames;
    use crate::report::{Rows, StateKind};

    fn printed(report: &Report, width: usize, colour: bool) -> String {
        let mut out = Vec::new();
        let options = TableOptions { width, styles: super::super::Styles::new(colour), ..TableOptions::default() };
        let mut writer = TableReports::new(&mut out, options, Width::W8, &NoNames);
        writer.report(report).unwrap();
        writer.finish(&[]).unwrap();
        drop(writer);
        String::from_utf8(out).unwrap()
    }

    fn cells(texts: &[&str]) -> Vec<Cell> {
        texts.iter().map(|t| Cell::Text((*t).to_owned())).collect()
    }

    fn threads() -> Report {
        let columns = [
            Column::new("thread", Kind::Text),
            Column::new("runs", Kind::Count),
            Column::new("max_seq", Kind::Seq).titled("max at event"),
            Column::new("at", Kind::Code),
            Column::new("none", Kind::Text),
            Column::new("state", Kind::Text),
        ];
        let row = |name: &str, at| {
            let state = Cell::State(Box::new((StateKind::Blocked, "semaphore rx_ready".to_owned())));
            vec![
                Cell::Text(name.to_owned()),
                Cell::Count(1_000_000),
                Cell::Count(7),
                Cell::Address(at),
                Cell::Empty,
                state,
            ]
        };
        let rows = [row("System Timer Thread", 0xFFFF_FFFF_8000_1234), row("comms", 0x10)].into_iter().collect();
        Report { rows, ..Report::new("threads", "Threads", columns) }
    }

    #[test]
    fn columns_without_a_value_are_left_out_and_text_folds_at_words() {
        let whole = "\
thread                  runs  max at event  at                  state
System Timer Thread  1000000             7  0xffffffff80001234  semaphore rx_ready
comms                1000000             7  0x0000000000000010  semaphore rx_ready
";
        assert_eq!(printed(&threads(), usize::MAX, false), whole);
        assert_eq!(printed(&threads(), 82, false), whole);
        let folded = [
            "                       max at",
            "thread           runs   event  at                  state",
            "System Timer  1000000       7  0xffffffff80001234  semaphore rx_ready",
            "Thread",
            "comms         1000000       7  0x0000000000000010  semaphore rx_ready\n",
        ]
        .join("\n");
        assert_eq!(printed(&threads(), 72, false), folded);
    }

    /// One wild number, or a board that ran for long, must not take away what each thread does.
    #[test]
    fn columns_were_dropped_where_a_row_is_wider_than_the_terminal() {
        let records = "\
thread        System Timer Thread
runs          1000000
max at event  7
at            0xffffffff80001234
state         semaphore rx_ready

thread        comms
runs          1000000
max at event  7
at            0x0000000000000010
state         semaphore rx_ready
";
        assert_eq!(printed(&threads(), 50, false), records);
        // Not even then is a word cut.
        assert!(printed(&threads(), 20, false).contains("at            0xffffffff80001234\n"));
    }

    /// `blocked` was a record of ten lines for each wait at 120 columns.
    #[test]
    fn many_rows_that_are_too_wide_are_tables_that_repeat_what_tells_them_apart() {
        let mut report = threads();
        let mut again = threads();
        for row in again.rows.iter_mut() {
            // The same threads a second time: the first two columns tell the rows apart.
            if let Some(cell) = row.get_mut(1) {
                *cell = Cell::Count(2);
            }
        }
        report.rows.extend(again.rows.iter().map(<[Cell]>::to_vec));
        let tables = "                       max at
thread           runs   event  at
System Timer  1000000       7  0xffffffff80001234
Thread
comms         1000000       7  0x0000000000000010
System Timer        2       7  0xffffffff80001234
Thread
comms               2       7  0x0000000000000010

thread                  runs  state
System Timer Thread  1000000  semaphore rx_ready
comms                1000000  semaphore rx_ready
System Timer Thread        2  semaphore rx_ready
comms                      2  semaphore rx_ready
";
        assert_eq!(printed(&report, 50, false), tables);
        // Nothing distinguishes these rows, or a column does not fit beside what does.
        let same =
            Report { rows: threads().rows.iter().chain(&threads().rows).map(<[Cell]>::to_vec).collect(), ..threads() };
        for (report, width) in [(same, 50), (report, 26)] {
            assert!(printed(&report, width, false).starts_with("thread        System Timer Thread\n"), "{width}");
        }
    }

    #[test]
    fn an_empty_report_is_one_line() {
        let nothing = Report { rows: Rows::default(), nothing: "no thread waits".to_owned(), ..threads() };
        assert_eq!(printed(&nothing, 80, false), "no thread waits\n");
        assert_eq!(printed(&Report { nothing: String::new(), ..nothing }, 80, false), "nothing\n");
    }

    #[test]
    fn what_is_indented_stays_so_where_it_folds() {
        assert_eq!(folded("  System Timer Thread", 14), ["  System Timer", "  Thread"]);
        assert_eq!(folded("  short", 14), ["  short"]);
    }

    #[test]
    #[cfg(feature = "cli")]
    fn states_have_colours() {
        let text = printed(&threads(), 200, true);
        assert!(text.contains("\x1b[33msemaphore rx_ready\x1b[0m"), "{text:?}");
        assert_eq!(text.matches('\x1b').count(), 2 + 2 * 2, "{text:?}");
    }

    #[test]
    fn text_of_the_target_cannot_write_to_the_terminal() {
        let row = cells(&["a\x1b[31m\nb", "c"]);
        let columns = [Column::new("name", Kind::Text), Column::new("other", Kind::Text)];
        let report = Report { rows: [row].into_iter().collect(), ..Report::new("x", "X", columns) };
        for width in [1, 10, 80] {
            let text = printed(&report, width, false);
            assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
        }
    }
}
