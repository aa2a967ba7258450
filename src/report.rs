//! A report: named columns of typed cells, and notes. Says what was found; `output` prints it.

use crate::abi::Addr;

/// What a column holds, so that a writer can align, translate and name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Free text.
    Text,
    /// A count.
    Count,
    /// Ticks of the trace's clock.
    Ticks,
    /// An address.
    Address,
    /// Yes or no.
    Flag,
    /// A number with a fraction, to so many decimals.
    Real(u8),
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
}

impl Kind {
    /// True where a cell has two parts, address and name.
    #[must_use]
    pub const fn is_named(self) -> bool {
        matches!(self, Self::Thread | Self::Object | Self::Code)
    }

    /// True where the column is aligned to the right.
    #[must_use]
    pub const fn is_right(self) -> bool {
        matches!(self, Self::Count | Self::Ticks | Self::Real(_) | Self::Seq)
    }
}

/// One cell.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// Nothing known.
    Empty,
    /// Text. Hostile: escape before printing.
    Text(String),
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
    Named(Addr, Option<String>),
    /// An interrupt, with its number where one is known, among threads or other text.
    Isr(Option<u64>),
    /// Threads, and how long each ran.
    ThreadTimes(Vec<ThreadTime>),
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
    /// What it holds.
    pub kind: Kind,
}

/// Rows under named columns.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Report {
    /// Stable name of the report.
    pub name: &'static str,
    /// Columns from left to right.
    pub columns: Vec<Column>,
    /// Rows; each as long as `columns`.
    pub rows: Vec<Vec<Cell>>,
    /// What the reader should know, one sentence each.
    pub notes: Vec<String>,
}

impl Report {
    /// Drops all but the first columns: what a narrow line has no room for.
    pub fn truncate_columns(&mut self, most: usize) {
        self.columns.truncate(most);
        self.rows.iter_mut().for_each(|row| row.truncate(most));
    }
}
