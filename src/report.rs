//! A report: named columns of typed cells, and notes. Says what was found; `output` prints it.
//!
//! What a program reads has a name that never changes (`max_seq`); what people read has a title in words (`longest at
//! event`). Both are in the same place: the declaration of the report, the column or the term.

use std::ops::Index;
use std::slice::{ChunksExact, ChunksExactMut};

use crate::abi::Addr;

/// What a column holds, so that a writer can align, translate and name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Free text.
    Text,
    /// A count.
    Count,
    /// A count of a list of counters: where it is not known people read that in its place.
    Counter,
    /// Ticks of the trace's clock.
    Ticks,
    /// An address.
    Address,
    /// Yes or no.
    Flag,
    /// A number with a fraction, to so many decimals.
    Real(u8),
    /// Part of a whole in percent. CSV has it to so many decimals; people see one and the sign.
    Percent(u8),
    /// A word of a fixed list: programs read it as it is, people with spaces for its underscores.
    Word,
    /// A thread: its address and name.
    Thread,
    /// An object: its address and name.
    Object,
    /// The name of an event, as the catalogue has it.
    Event,
    /// The sequence number of an event.
    Seq,
    /// The number of an interrupt: a writer that knows the processor's exceptions shows the name.
    Interrupt,
    /// An address in code: a writer that knows functions shows its function.
    Code,
    /// Threads, and how long each ran.
    ThreadTimes,
    /// The frames of a backtrace.
    Frames,
    /// Registers of a processor, and their values.
    Registers,
    /// What fault registers record.
    FaultBits,
}

impl Kind {
    /// True where a cell has two parts, address and name.
    pub const fn is_named(self) -> bool {
        matches!(self, Self::Thread | Self::Object | Self::Code)
    }

    /// True where the column is aligned to the right.
    pub const fn is_right(self) -> bool {
        matches!(self, Self::Count | Self::Counter | Self::Ticks | Self::Real(_) | Self::Percent(_) | Self::Seq)
    }
}

/// A word of a fixed list, with what people read for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Term {
    /// Stable name, for programs: `context_switches`.
    pub name: &'static str,
    /// The same in words: `Context switches`.
    pub title: &'static str,
}

impl Term {
    /// A term of this name and title.
    pub const fn new(name: &'static str, title: &'static str) -> Self {
        Self { name, title }
    }
}

/// What a thread does, as far as a reader looks for it: a terminal shows each in a colour of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateKind {
    /// It has a core.
    Running,
    /// It could run.
    Ready,
    /// It waits for an object, or for time to pass.
    Blocked,
    /// It is suspended: another thread has to resume it.
    Suspended,
    /// It has completed, or was terminated.
    Ended,
    /// None of these is known.
    Unknown,
}

/// What a thread or an object is called. Hostile: escape before printing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name(pub String);

/// One cell. A table may have a million of them: only text has as many as three words, what else is long is kept elsewhere.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// Nothing known.
    Empty,
    /// Text. Hostile: escape before printing.
    Text(String),
    /// Text that is the same in each table.
    Word(&'static str),
    /// A word of a fixed list.
    Term(Box<Term>),
    /// The state of a thread, in words. Hostile: escape before printing.
    State(Box<(StateKind, String)>),
    /// A count.
    Count(u64),
    /// Ticks.
    Ticks(i64),
    /// An address.
    Address(Addr),
    /// Yes or no.
    Flag(bool),
    /// A number with a fraction.
    Real(f64),
    /// A thread or an object: its address, and its name where one is known. Hostile: escape before printing.
    Named(Addr, Option<Box<Name>>),
    /// An interrupt, with its number where one is known, among threads or other text.
    Isr(Option<u64>),
    /// Threads, and how long each ran.
    ThreadTimes(Box<[ThreadTime]>),
    /// The frames of a backtrace, the innermost first.
    Frames(Box<[Frame]>),
    /// Registers of a processor, and their values.
    Registers(Box<[(&'static str, u64)]>),
    /// What fault registers record.
    FaultBits(Box<[FaultBit]>),
}

impl Cell {
    /// Text, also where it is empty.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// Text, where there is any.
    pub fn some_text(text: Option<impl Into<String>>) -> Self {
        text.map(Into::into).filter(|text: &String| !text.is_empty()).map_or(Self::Empty, Self::Text)
    }

    /// A word of a fixed list.
    pub fn term(term: Term) -> Self {
        Self::Term(Box::new(term))
    }

    /// A thread or an object, with its name where one is known.
    pub fn named(address: Addr, name: Option<String>) -> Self {
        Self::Named(address, name.map(|name| Box::new(Name(name))))
    }

    /// A count, where it is known.
    pub fn count(n: Option<impl Into<u64>>) -> Self {
        n.map_or(Self::Empty, |n| Self::Count(n.into()))
    }

    /// An address, where it is known.
    pub fn address(at: Option<Addr>) -> Self {
        at.map_or(Self::Empty, Self::Address)
    }

    /// Yes or no, where it is known.
    pub fn flag(is: Option<bool>) -> Self {
        is.map_or(Self::Empty, Self::Flag)
    }
}

/// What one bit or field of a fault register records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultBit {
    /// The register.
    pub register: &'static str,
    /// The bit's name, or the field and its number.
    pub name: String,
    /// What it means.
    pub words: String,
    /// Whether it is of the fault whose handler runs; `None` where that is not known.
    pub current: Option<bool>,
}

/// A function of a backtrace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Where it was stopped, or goes on once the call in it has returned.
    pub pc: Addr,
    /// Its name, where one is known. Hostile: escape before printing.
    pub function: Option<String>,
    /// Its source file, as the compiler recorded it. Hostile.
    pub file: Option<String>,
    /// The line in it.
    pub line: Option<u32>,
    /// True where the compiler put it into the function that is next.
    pub inlined: bool,
    /// How its frame was found: `registers`, `cfi`, `exception` or `inferred`.
    pub origin: &'static str,
}

/// A thread, and how long it ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadTime {
    /// Its control block.
    pub address: Addr,
    /// Its name, where one is known. Hostile: escape before printing.
    pub name: Option<String>,
    /// How long it ran, in ticks of the trace's clock; `None` where the clock does not measure it.
    pub ticks: Option<i64>,
}

/// A named column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Stable name: JSON's key, CSV's head.
    pub name: &'static str,
    /// The head that people read.
    pub title: &'static str,
    /// What it holds.
    pub kind: Kind,
}

impl Column {
    /// A column whose name is a word that people read as well.
    pub const fn new(name: &'static str, kind: Kind) -> Self {
        Self { name, title: name, kind }
    }

    /// The same with another head for people.
    #[must_use]
    pub const fn titled(mut self, title: &'static str) -> Self {
        self.title = title;
        self
    }
}

/// A column of the rows of a `T`, and its cell in one of them.
pub type Of<'c, T> = (Column, &'c dyn Fn(&T) -> Cell);

/// Rows of cells, all of one length and in one block of memory: a table may have hundreds of thousands.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rows {
    cells: Vec<Cell>,
    /// Cells of a row.
    width: usize,
}

impl Rows {
    /// Makes room for so many more cells: a block that grows leaves others behind.
    pub fn reserve(&mut self, cells: usize) {
        self.cells.reserve(cells);
    }

    /// Adds a row. It is made as long as the first.
    pub fn push(&mut self, row: impl IntoIterator<Item = Cell>) {
        let before = self.cells.len();
        self.cells.extend(row);
        if before == 0 {
            self.width = self.cells.len();
        }
        self.cells.resize(before.saturating_add(self.width), Cell::Empty);
    }

    /// Them, from the first to the last.
    pub fn iter(&self) -> ChunksExact<'_, Cell> {
        self.cells.chunks_exact(self.width.max(1))
    }

    /// The same, to change cells.
    pub fn iter_mut(&mut self) -> ChunksExactMut<'_, Cell> {
        self.cells.chunks_exact_mut(self.width.max(1))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.iter().len()
    }

    /// True where there are none.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// Leaves out all but the first rows.
    pub fn truncate(&mut self, most: usize) {
        self.cells.truncate(most.saturating_mul(self.width));
    }

    /// Leaves out the cells of columns that are not kept.
    fn keep_columns(&mut self, kept: &[bool]) {
        let of_row = kept.iter().take(self.width);
        let mut of_cells = of_row.clone().cycle();
        self.cells.retain(|_| of_cells.next().is_none_or(|kept| *kept));
        self.width = of_row.filter(|kept| **kept).count();
    }
}

impl<'r> IntoIterator for &'r Rows {
    type Item = &'r [Cell];
    type IntoIter = ChunksExact<'r, Cell>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<R: IntoIterator<Item = Cell>> Extend<R> for Rows {
    fn extend<I: IntoIterator<Item = R>>(&mut self, rows: I) {
        rows.into_iter().for_each(|row| self.push(row));
    }
}

impl<R: IntoIterator<Item = Cell>> FromIterator<R> for Rows {
    fn from_iter<I: IntoIterator<Item = R>>(rows: I) -> Self {
        let mut this = Self::default();
        this.extend(rows);
        this
    }
}

impl Index<usize> for Rows {
    type Output = [Cell];

    fn index(&self, row: usize) -> &[Cell] {
        self.iter().nth(row).unwrap_or_default()
    }
}

/// A note on the unit of times that people read. Programs get ticks in any case.
pub const RATELESS: &str = "times are in ticks of the trace's clock, not of the kernel's: --hz RATE converts them";

/// Rows under named columns.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Report {
    /// Stable name of the report.
    pub name: &'static str,
    /// What people read above it.
    pub title: &'static str,
    /// Columns from left to right.
    pub columns: Vec<Column>,
    /// Rows; each as long as `columns`.
    pub rows: Rows,
    /// Rows that were counted and not made: more than were asked for.
    pub more: u64,
    /// Why there are no rows: one sentence, without a full stop.
    pub nothing: String,
    /// What is special about this trace, and changes how the rows are to be read: one line each. What a column means is
    /// in `docs/reports.md`. Hostile: escape before printing.
    pub notes: Vec<String>,
}

impl Report {
    /// A report without rows and notes.
    pub fn new(name: &'static str, title: &'static str, columns: impl Into<Vec<Column>>) -> Self {
        Self { name, title, columns: columns.into(), ..Self::default() }
    }

    /// A row for each of `rows`, with a cell of each column.
    pub fn table<T>(
        name: &'static str,
        title: &'static str,
        rows: impl IntoIterator<Item = T>,
        columns: &[Of<'_, T>],
    ) -> Self {
        let mut made = Rows::default();
        rows.into_iter().for_each(|of| made.push(columns.iter().map(|(_, cell)| cell(&of))));
        Self { rows: made, ..Self::new(name, title, columns.iter().map(|of| of.0).collect::<Vec<_>>()) }
    }

    /// Rows of name and value.
    pub fn facts(name: &'static str, title: &'static str, facts: Vec<(&'static str, String)>) -> Self {
        let columns = [Column::new("what", Kind::Text), Column::new("value", Kind::Text)];
        let rows = facts.into_iter().map(|(what, value)| [Cell::text(what), Cell::Text(value)]);
        Self { rows: rows.collect(), ..Self::new(name, title, columns) }
    }

    /// What people read in place of a table without rows.
    pub fn nothing(&self) -> &str {
        if self.nothing.is_empty() { "nothing" } else { &self.nothing }
    }

    /// Drops all but the first columns: what a narrow line has no room for.
    pub fn truncate_columns(&mut self, most: usize) {
        self.keep_columns(|at, _| at < most);
    }

    /// Drops columns, by their place and what they are.
    pub fn keep_columns(&mut self, keep: impl Fn(usize, &Column) -> bool) {
        let kept: Vec<bool> = self.columns.iter().enumerate().map(|(at, column)| keep(at, column)).collect();
        self.rows.keep_columns(&kept);
        let mut kept = kept.into_iter();
        self.columns.retain(|_| kept.next().unwrap_or(true));
    }
}

/// Takes the notes that several of the reports have out of them, and returns each once, in the order of their coming.
pub fn take_shared_notes(reports: &mut [Report]) -> Vec<String> {
    let mut shared: Vec<String> = Vec::new();
    for (at, report) in reports.iter().enumerate() {
        let others = || reports.iter().skip(at.saturating_add(1));
        let is_shared = |note: &&String| others().any(|other| other.notes.contains(note));
        let new: Vec<String> = report.notes.iter().filter(is_shared).filter(|n| !shared.contains(n)).cloned().collect();
        shared.extend(new);
    }
    reports.iter_mut().for_each(|report| report.notes.retain(|note| !shared.contains(note)));
    shared
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_that_several_reports_share_is_taken_out_of_all() {
        let report =
            |notes: &[&str]| Report { notes: notes.iter().map(|n| (*n).to_owned()).collect(), ..Report::default() };
        let mut all = [report(&["a", "own"]), report(&["b", "a"]), report(&["b"]), report(&["other"])];
        assert_eq!(take_shared_notes(&mut all), ["a", "b"]);
        let left: Vec<Vec<String>> = all.into_iter().map(|r| r.notes).collect();
        assert_eq!(left, [vec!["own".to_owned()], vec![], vec![], vec!["other".to_owned()]]);
    }
}
