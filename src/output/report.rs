//! Reports to text: a table, JSON rows, comma-separated values.

#![allow(clippy::arithmetic_side_effects, reason = "columns and rows of a report")]

use std::io::{self, BufWriter, Write};

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use super::json::Hex;
use super::line::{Line, width_of, wrap};
use super::listing::now;
use super::scale::Scale;
use super::styles::Style;
use super::text::hex;
use super::{InMemory, Part, ReportWriter, Resolve, TableOptions, View, csv, digits, document, escape, json};
use crate::abi::Width;
use crate::report::{Cell, Column, Kind, Report};
use crate::trace::{Clock, Issue};

/// What every writer of reports needs to turn a cell into text.
pub(super) struct Words<'w> {
    digits: usize,
    names: &'w dyn Resolve,
    /// The trace's clock, where people are to read time in its units.
    clock: Option<Clock>,
    /// The unit of the report that is being written.
    scale: Scale,
}

/// Digits before the point that a time may take before a coarser unit is chosen.
const DIGITS: u32 = 6;

impl<'w> Words<'w> {
    pub(super) fn new(word: Width, names: &'w dyn Resolve) -> Self {
        Self { digits: digits(word), names, clock: None, scale: Scale::TICKS }
    }

    /// Takes the units that people are to read times in from the trace's clock.
    pub(super) fn begin(&mut self, clock: &Clock) {
        self.clock = Some(clock.clone());
    }

    /// Chooses the unit for a report: one for all of its times, so that they can be compared.
    pub(super) fn measure(&mut self, report: &Report) {
        let ticks = |cell: &Cell| if let Cell::Ticks(n) = cell { Some(n.unsigned_abs()) } else { None };
        let most = report.rows.iter().flatten().filter_map(ticks).max().unwrap_or(0);
        self.scale = self.clock.as_ref().map_or(Scale::TICKS, |clock| Scale::of(clock, most, DIGITS));
    }

    /// The head of a column: its name, and the unit that its times are in.
    pub(super) fn head(&self, column: &Column) -> String {
        match (column.kind, column.name) {
            (Kind::Ticks, "ticks") => self.scale.unit.to_owned(),
            (Kind::Ticks, name) if self.scale != Scale::TICKS => format!("{name} {}", self.scale.unit),
            (_, name) => name.to_owned(),
        }
    }

    /// A cell as people read it; escaped.
    pub(super) fn text(&self, column: &Column, cell: &Cell) -> String {
        match cell {
            Cell::Empty | Cell::Flag(false) => String::new(),
            Cell::Flag(true) => "yes".to_owned(),
            Cell::Text(text) => escape(text),
            Cell::Count(n) => {
                let name = self.exception(*n).filter(|_| column.kind == Kind::Interrupt);
                name.map_or_else(|| n.to_string(), |name| escape(&name))
            }
            Cell::Ticks(n) => self.scale.text(*n),
            Cell::Address(address) => {
                let name = self.function(column, *address).or_else(|| self.variable(column, *address));
                name.map_or_else(|| hex(*address, self.digits), |name| escape(&name))
            }
            Cell::Real(n) => real(column, *n),
            Cell::Named(_, Some(name)) if !name.is_empty() => escape(name),
            Cell::Named(address, _) => {
                self.variable(column, *address).map_or_else(|| hex(*address, self.digits), |name| escape(&name))
            }
            Cell::Isr(number) => {
                let object = |n| self.names.object(n).map(|name| format!("isr {name}"));
                let named = number.and_then(|n| self.exception(n).or_else(|| object(n)));
                named.map_or_else(|| isr(*number), |name| escape(&name))
            }
        }
    }

    fn exception(&self, number: u64) -> Option<String> {
        self.names.exception(u32::try_from(number).ok()?)
    }

    /// What symbols call the thread or object at an address.
    fn variable(&self, column: &Column, address: u64) -> Option<String> {
        if matches!(column.kind, Kind::Thread | Kind::Object | Kind::Interrupt) {
            self.names.object(address)
        } else {
            None
        }
    }

    fn function(&self, column: &Column, address: u64) -> Option<String> {
        if column.kind == Kind::Code { self.names.code(address) } else { None }
    }

    /// Address and name of a cell in a column that has both.
    fn parts(&self, column: &Column, cell: &Cell) -> (Option<u64>, Option<String>) {
        match cell {
            Cell::Named(address, name) => {
                let known = name.clone().filter(|n| !n.is_empty());
                (Some(*address), known.or_else(|| self.variable(column, *address)))
            }
            Cell::Isr(number) => (None, Some(isr(*number))),
            Cell::Address(address) => (Some(*address), self.function(column, *address)),
            Cell::Text(name) => (None, Some(name.clone())),
            _ => (None, None),
        }
    }
}

/// An interrupt whose name is not known, or not wanted.
fn isr(number: Option<u64>) -> String {
    match number {
        // A number of that size is an address: the interrupt's own object, or its function.
        Some(number) if number > 0xFFFF => format!("isr {number:#x}"),
        Some(number) => format!("isr {number}"),
        None => "isr".to_owned(),
    }
}

/// A number with the decimals that its column asks for.
fn real(column: &Column, n: f64) -> String {
    let decimals = if let Kind::Real(decimals) = column.kind { decimals } else { 3 };
    if n.is_finite() { format!("{n:.*}", usize::from(decimals)) } else { String::new() }
}

/// Writes reports for people.
pub(super) struct TableReports<'w, W: Write> {
    out: BufWriter<W>,
    options: TableOptions,
    words: Words<'w>,
    any: bool,
}

impl<'w, W: Write> TableReports<'w, W> {
    /// Tables that are written to `out`.
    pub(super) fn new(out: W, options: TableOptions, word: Width, names: &'w dyn Resolve) -> Self {
        Self { out: BufWriter::new(out), options, words: Words::new(word, names), any: false }
    }
}

/// What a column of text is cut to before the columns at the end are left out.
const READABLE: usize = 17;
/// The least that a column of text is cut to before the line itself is cut.
const NARROW: usize = 12;
/// Columns that are shown in any case: who, and what of it.
const LEAST: usize = 3;

/// Widths of as many columns as a line has room for. The widest text gives way first; what has no room at the end is left
/// out whole, as half a number would be another number. The last of all may be narrow: it goes on below itself.
fn fit(columns: &[Column], heads: &[String], rows: &[Vec<String>], most: usize) -> Vec<usize> {
    let head = |at: usize| heads.get(at).map_or(0, |h| width_of(h));
    let widest = |at: usize| rows.iter().filter_map(|r| r.get(at)).map(|c| width_of(c)).max().unwrap_or(0);
    let natural: Vec<usize> = (0..columns.len()).map(|i| head(i).max(widest(i))).collect();
    // Where no name is known a cell of code, a thread or an object is an address.
    let bare = |cell: &&String| cell.strip_prefix("0x").is_some_and(|h| h.bytes().all(|b| b.is_ascii_hexdigit()));
    let addresses = columns.iter().enumerate().map(|(at, column)| {
        let cells = rows.iter().filter(|_| column.kind.is_named()).filter_map(|r| r.get(at));
        cells.filter(bare).map(String::len).max().unwrap_or(0)
    });
    let addresses: Vec<usize> = addresses.collect();
    let least = |at: usize, text: usize| {
        let text = text.max(addresses.get(at).copied().unwrap_or(0));
        // Half an address is another address, as half a number is another number.
        let is_text = columns.get(at).is_some_and(|c| !c.kind.is_right() && c.kind != Kind::Address);
        let folds = at + 1 == columns.len() && at > 0;
        let floor = if folds { NARROW } else { text }.max(head(at));
        natural.get(at).map_or(0, |n| if is_text { (*n).min(floor) } else { *n })
    };
    let total = |count: usize, width: &dyn Fn(usize) -> usize| {
        (0..count).fold(count.saturating_sub(1) * 2, |all, i| all + width(i))
    };
    let mut count = columns.len();
    // What goes on below itself is the point of its row: it stays as long as other text can give way.
    let folds = columns.last().is_some_and(|c| !c.kind.is_right()) && total(count, &|i| least(i, NARROW)) <= most;
    while !folds && count > LEAST && total(count, &|i| least(i, READABLE)) > most {
        count -= 1;
    }
    let floor = if total(count, &|i| least(i, READABLE)) > most { NARROW } else { READABLE };
    let mut widths: Vec<usize> = natural.iter().copied().take(count).collect();
    loop {
        let all = total(count, &|i| widths.get(i).copied().unwrap_or(0));
        if all <= most {
            return widths;
        }
        let spare = |(i, w): &(usize, &mut usize)| w.saturating_sub(least(*i, floor));
        let wide = widths.iter_mut().enumerate().filter(|at| spare(at) > 0).max_by_key(|(_, w)| **w);
        let Some((at, width)) = wide else { return widths };
        *width = width.saturating_sub(4.min(all - most)).max(least(at, floor));
    }
}

impl<W: Write> ReportWriter for TableReports<'_, W> {
    fn begin(&mut self, view: &View<'_>) -> io::Result<()> {
        self.words.begin(&view.trace.clock);
        Ok(())
    }

    fn heading(&mut self, name: &str) -> io::Result<()> {
        if std::mem::replace(&mut self.any, false) {
            writeln!(self.out)?;
        }
        writeln!(self.out, "{}", self.options.styles.text(Style::Bold, &escape(name)))
    }

    fn part(&mut self, part: &Part<'_>) -> io::Result<()> {
        document::text(part, &self.options, &mut self.any, &mut self.out)
    }

    fn report(&mut self, report: &Report) -> io::Result<()> {
        if std::mem::replace(&mut self.any, true) {
            writeln!(self.out)?;
        }
        self.words.measure(report);
        let text = |row: &Vec<Cell>| report.columns.iter().zip(row).map(|(c, cell)| self.words.text(c, cell)).collect();
        let rows: Vec<Vec<String>> = report.rows.iter().map(text).collect();
        let heads: Vec<String> = report.columns.iter().map(|c| self.words.head(c)).collect();
        let widths = fit(&report.columns, &heads, &rows, self.options.width);
        let fits = widths.len();
        let mut line = Line::new(self.options.width);
        // A table without rows needs no heads where a note says why.
        if !rows.is_empty() || report.notes.is_empty() {
            let (on, off) = self.options.styles.around(Style::Head);
            line.mark(on);
            put(&mut line, heads.iter().map(String::as_str), &report.columns, &widths);
            line.unmark(off);
            line.end(&mut self.out)?;
        }
        for row in &rows {
            let row = row.get(..fits).unwrap_or(row);
            for part in folded(row, report.columns.get(..fits).unwrap_or(&report.columns), &widths) {
                put(&mut line, part.iter().map(String::as_str), &report.columns, &widths);
                line.end(&mut self.out)?;
            }
        }
        let left = heads.get(fits..).filter(|h| !h.is_empty() && !rows.is_empty());
        let left = left.map(|heads| format!("no room for {}: --width shows more", heads.join(", ")));
        for note in report.notes.iter().chain(&left) {
            let indent = "note: ".len();
            for (i, part) in wrap(&escape(note), self.options.width.saturating_sub(indent).max(1)).iter().enumerate() {
                line.text(if i == 0 { "note:" } else { "" });
                line.to(indent);
                line.text(part);
                line.end(&mut self.out)?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn finish(&mut self, _: &[Issue]) -> io::Result<()> {
        self.out.flush()
    }
}

/// A row whose last text does not fit goes on below itself: there is nothing to its right that it could push away.
fn folded(row: &[String], columns: &[Column], widths: &[usize]) -> Vec<Vec<String>> {
    let whole = || vec![row.to_vec()];
    let (Some((last, before)), Some(width)) = (row.split_last(), widths.last()) else { return whole() };
    if width_of(last) <= *width || columns.last().is_none_or(|c| c.kind.is_right()) {
        return whole();
    }
    let mut lines = Vec::new();
    for part in wrap(last, *width) {
        let mut cells = if lines.is_empty() { before.to_vec() } else { vec![String::new(); before.len()] };
        cells.push(part);
        lines.push(cells);
    }
    lines
}

fn put<'t>(line: &mut Line, cells: impl Iterator<Item = &'t str>, columns: &[Column], widths: &[usize]) {
    let mut start = 0usize;
    for ((cell, column), width) in cells.zip(columns).zip(widths) {
        let pad = if column.kind.is_right() { width.saturating_sub(width_of(cell)) } else { 0 };
        line.to(start + pad);
        line.cut(cell, *width);
        start += *width + 2;
    }
}

/// Writes reports as JSON `row` lines.
pub(super) struct JsonReports<'w, W: Write> {
    out: BufWriter<W>,
    words: Words<'w>,
}

impl<'w, W: Write> JsonReports<'w, W> {
    /// JSON Lines that are written to `out`.
    pub(super) fn new(out: W, word: Width, names: &'w dyn Resolve) -> Self {
        Self { out: BufWriter::new(out), words: Words::new(word, names) }
    }
}

/// A row of a report as JSON.
struct RowLine<'a> {
    report: &'a Report,
    row: &'a [Cell],
    words: &'a Words<'a>,
}

impl Serialize for RowLine<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("type", "row")?;
        map.serialize_entry("report", self.report.name)?;
        for (column, cell) in self.report.columns.iter().zip(self.row) {
            map.serialize_entry(column.name, &self.words.value(column, cell))?;
        }
        map.end()
    }
}

/// A cell as JSON has it.
#[derive(Serialize)]
#[serde(untagged)]
enum Value {
    Null,
    Text(String),
    Count(u64),
    Ticks(i64),
    Flag(bool),
    Real(f64),
    Hex(Hex),
    Named { address: Option<Hex>, name: Option<String> },
}

impl Words<'_> {
    fn value(&self, column: &Column, cell: &Cell) -> Value {
        if column.kind.is_named() && *cell != Cell::Empty {
            let (address, name) = self.parts(column, cell);
            return Value::Named { address: address.map(|a| Hex(a, self.digits)), name };
        }
        match cell {
            Cell::Empty => Value::Null,
            Cell::Text(text) => Value::Text(text.clone()),
            Cell::Count(n) => Value::Count(*n),
            Cell::Ticks(n) => Value::Ticks(*n),
            Cell::Flag(yes) => Value::Flag(*yes),
            Cell::Real(n) => Value::Real(*n),
            Cell::Named(_, Some(name)) => Value::Text(name.clone()),
            Cell::Address(a) | Cell::Named(a, None) => Value::Hex(Hex(*a, self.digits)),
            Cell::Isr(number) => Value::Text(isr(*number)),
        }
    }
}

impl<W: Write> ReportWriter for JsonReports<'_, W> {
    fn begin(&mut self, view: &View<'_>) -> io::Result<()> {
        json::trace(&mut self.out, view.trace, view.source, view.digits())
    }

    fn objects(&mut self, view: &View<'_>, states: &[InMemory]) -> io::Result<bool> {
        for object in view.trace.objects.iter() {
            json::object(&mut self.out, object, now(object, states), view.digits())?;
        }
        Ok(true)
    }

    fn report(&mut self, report: &Report) -> io::Result<()> {
        let Self { out, words } = self;
        report.rows.iter().try_for_each(|row| json::line(out, &RowLine { report, row, words }))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn finish(&mut self, issues: &[Issue]) -> io::Result<()> {
        for issue in issues {
            json::issue(&mut self.out, issue, self.words.digits)?;
        }
        json::end(&mut self.out, 0, issues.len())?;
        self.out.flush()
    }
}

/// Writes reports as comma-separated values, each with its own head.
pub(super) struct CsvReports<'w, W: Write> {
    out: BufWriter<W>,
    words: Words<'w>,
    any: bool,
}

impl<'w, W: Write> CsvReports<'w, W> {
    /// Comma-separated values that are written to `out`.
    pub(super) fn new(out: W, word: Width, names: &'w dyn Resolve) -> Self {
        Self { out: BufWriter::new(out), words: Words::new(word, names), any: false }
    }
}

impl Words<'_> {
    /// The fields of a cell: address and name where its column has both.
    fn fields(&self, column: &Column, cell: &Cell) -> Vec<String> {
        if column.kind.is_named() {
            let (address, name) = self.parts(column, cell);
            let address = address.map(|a| hex(a, self.digits)).unwrap_or_default();
            return vec![address, name.map(|n| csv::text(&n)).unwrap_or_default()];
        }
        vec![match cell {
            Cell::Flag(yes) => yes.to_string(),
            Cell::Text(text) => csv::text(text),
            // Programs read the number.
            Cell::Count(n) => n.to_string(),
            Cell::Address(a) => hex(*a, self.digits),
            Cell::Ticks(n) => n.to_string(),
            Cell::Real(n) => real(column, *n),
            cell => csv::text(&self.text(column, cell)),
        }]
    }
}

impl<W: Write> ReportWriter for CsvReports<'_, W> {
    fn report(&mut self, report: &Report) -> io::Result<()> {
        if std::mem::replace(&mut self.any, true) {
            writeln!(self.out)?;
        }
        let mut out = csv::writer(&mut self.out);
        let head = |column: &Column| match column.kind.is_named() {
            true => vec![format!("{}.address", column.name), format!("{}.name", column.name)],
            false => vec![column.name.to_owned()],
        };
        csv::record(&mut out, report.columns.iter().flat_map(head))?;
        for row in &report.rows {
            let fields = report.columns.iter().zip(row).flat_map(|(column, cell)| self.words.fields(column, cell));
            csv::record(&mut out, fields)?;
        }
        out.flush()
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn finish(&mut self, _: &[Issue]) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One wild number, or a board that ran for long, must not take away what each thread does.
    #[test]
    fn text_gives_way_before_the_column_that_folds_is_left_out() {
        let kinds = [Kind::Text, Kind::Text, Kind::Text, Kind::Count, Kind::Count, Kind::Code, Kind::Text];
        let columns = kinds.map(|kind| Column { name: "", kind });
        let heads = ["thread", "pri", "stack", "high", "runs", "at", "state"].map(str::to_owned);
        let row = ["System Timer Thread", "4294967295 (6)", "180/8192", "1234", "1000000", "mk_thread_suspend+0x112"];
        let rows = [row.iter().copied().chain(["semaphore rx_ready"]).map(str::to_owned).collect::<Vec<_>>()];
        let widths = fit(&columns, &heads, &rows, 80);
        assert_eq!(widths.len(), columns.len());
        assert!(widths.iter().sum::<usize>() + 2 * (widths.len() - 1) <= 80, "{widths:?}");
        // Numbers and addresses are whole or not there at all.
        assert_eq!((widths[3], widths[4]), (4, 7));
        let mut wide = columns;
        wide[1].kind = Kind::Address;
        assert_eq!(fit(&wide, &heads, &rows, 80)[1], 14);
        assert!(fit(&columns, &heads, &rows, 60).len() < columns.len());
    }

    /// Without a symbol the place of a thread is a long address.
    #[test]
    fn half_of_a_64_bit_address_was_shown_where_no_function_is_known() {
        let kinds = [Kind::Text, Kind::Text, Kind::Code, Kind::Text];
        let columns = kinds.map(|kind| Column { name: "", kind });
        let heads = ["thread", "owns", "at", "state"].map(str::to_owned);
        let row =
            ["a thread with a long name", "some mutexes, of long names", "0xffffffff80001234", "semaphore rx_ready"];
        let rows = [row.map(str::to_owned).to_vec()];
        for most in [60, 80, 120] {
            assert_eq!(fit(&columns, &heads, &rows, most).get(2), Some(&18), "{most}");
        }
    }
}
