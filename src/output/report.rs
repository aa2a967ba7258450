//! Cells of reports as text, and reports as JSON rows and comma-separated values.

#![allow(clippy::arithmetic_side_effects, reason = "columns and rows of a report")]

use std::io::{self, BufWriter, Write};

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use super::json::Hex;
use super::listing::now;
use super::scale::Scale;
use super::text::hex;
use super::{InMemory, ReportWriter, Resolve, View, csv, digits, escape, json};
use crate::abi::Width;
use crate::report::{Cell, Column, FaultBit, Frame, Kind, RATELESS, Report, ThreadTime};
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

/// The title of a column that has nothing but a time: where there is no unit of time, the unit says more.
const TIME: &str = "time";

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

    /// The head of a column for people: its title, and the unit that its times are in.
    pub(super) fn head(&self, column: &Column) -> String {
        match (column.kind, column.title) {
            (Kind::Ticks, TIME) if !self.scale.is_time() => self.scale.unit.to_owned(),
            (Kind::Ticks, title) if self.scale != Scale::TICKS => format!("{title} {}", self.scale.unit),
            (_, title) => title.to_owned(),
        }
    }

    /// A cell with the unit that a head would have, where the cell is alone.
    pub(super) fn text_and_unit(&self, column: &Column, cell: &Cell) -> String {
        let text = self.text(column, cell);
        if matches!(cell, Cell::Ticks(_)) { format!("{text} {}", self.scale.unit) } else { text }
    }

    /// A cell as people read it; escaped.
    pub(super) fn text(&self, column: &Column, cell: &Cell) -> String {
        match cell {
            Cell::Empty if column.kind == Kind::Counter => "not known".to_owned(),
            Cell::Empty => String::new(),
            Cell::Flag(true) => "yes".to_owned(),
            Cell::Flag(false) => "no".to_owned(),
            Cell::Text(word) if column.kind == Kind::Word => escape(&word.replace('_', " ")),
            Cell::Text(text) => escape(text),
            Cell::Word(text) => (*text).to_owned(),
            Cell::State(state) => escape(&state.1),
            Cell::Term(term) => term.title.to_owned(),
            Cell::Count(n) => {
                let name = self.exception(*n).filter(|_| column.kind == Kind::Interrupt);
                name.map_or_else(|| n.to_string(), |name| escape(&name))
            }
            Cell::Ticks(n) => self.scale.text(*n),
            Cell::Address(address) => {
                let name = self.function(column, *address).or_else(|| self.variable(column, *address));
                name.map_or_else(|| hex(*address, self.digits), |name| escape(&name))
            }
            Cell::Real(n) if matches!(column.kind, Kind::Percent(_)) => percent(*n),
            Cell::Real(n) => real(column, *n),
            Cell::Named(_, Some(name)) if !name.0.is_empty() => escape(&name.0),
            Cell::Named(address, _) => {
                self.variable(column, *address).map_or_else(|| hex(*address, self.digits), |name| escape(&name))
            }
            Cell::Isr(number) => {
                let object = |n| self.names.object(n).map(|name| format!("isr {name}"));
                let named = number.and_then(|n| self.exception(n).or_else(|| object(n)));
                named.map_or_else(|| isr(*number), |name| escape(&name))
            }
            Cell::ThreadTimes(threads) => escape(&self.thread_times(threads, |ticks| self.scale.text(ticks))),
            Cell::Frames(frames) => escape(&self.frames(frames)),
            Cell::Registers(all) => self.registers(all),
            Cell::FaultBits(bits) => escape(&names(bits)),
        }
    }

    /// `cfsr=0x00008200 bfar=0xe0200000`.
    fn registers(&self, all: &[(&'static str, u64)]) -> String {
        let one = |(name, value): &(&str, u64)| format!("{name}={}", hex(*value, self.digits));
        all.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    /// Threads with their times, in one text. Hostile: escape before printing.
    fn thread_times(&self, threads: &[ThreadTime], time: impl Fn(i64) -> String) -> String {
        let one = |thread: &ThreadTime| {
            let symbol = || self.names.object(thread.address);
            let name = thread.name.clone().or_else(symbol).unwrap_or_else(|| hex(thread.address, self.digits));
            thread.ticks.map_or_else(|| name.clone(), |ticks| format!("{name} {}", time(ticks)))
        };
        threads.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    /// The functions of a backtrace in one text. Hostile: escape before printing.
    fn frames(&self, frames: &[Frame]) -> String {
        let one = |frame: &Frame| frame.function.clone().unwrap_or_else(|| hex(frame.pc, self.digits));
        frames.iter().map(one).collect::<Vec<_>>().join(" < ")
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
                let known = name.as_ref().map(|name| name.0.clone()).filter(|n| !n.is_empty());
                (Some(*address), known.or_else(|| self.variable(column, *address)))
            }
            Cell::Isr(number) => (None, Some(isr(*number))),
            Cell::Address(address) => (Some(*address), self.function(column, *address)),
            Cell::Text(name) => (None, Some(name.clone())),
            Cell::Word(name) => (None, Some((*name).to_owned())),
            Cell::Term(term) => (None, Some(term.name.to_owned())),
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
    let decimals = if let Kind::Real(decimals) | Kind::Percent(decimals) = column.kind { decimals } else { 3 };
    if n.is_finite() { format!("{n:.*}", usize::from(decimals)) } else { String::new() }
}

/// A share as people read it. What is there is never shown as nothing.
fn percent(n: f64) -> String {
    match n {
        n if !n.is_finite() => String::new(),
        n if n > 0.0 && n < 0.05 => "< 0.1 %".to_owned(),
        n => format!("{n:.1} %"),
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

/// A note of a report as JSON.
#[derive(Serialize)]
struct NoteLine<'a> {
    #[serde(rename = "type")]
    line: &'static str,
    report: &'static str,
    note: &'a str,
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
    Named(NamedValue),
    ThreadTimes(Vec<ThreadTimeValue>),
    Frames(Vec<FrameValue>),
    Registers(Vec<RegisterValue>),
    FaultBits(Vec<FaultBitValue>),
}

#[derive(Serialize)]
struct RegisterValue {
    name: &'static str,
    value: Hex,
}

#[derive(Serialize)]
struct FaultBitValue {
    register: &'static str,
    name: String,
    words: String,
    current: Option<bool>,
}

fn fault_bit(bit: &FaultBit) -> FaultBitValue {
    let FaultBit { register, name, words, current } = bit.clone();
    FaultBitValue { register, name, words, current }
}

/// `FORCED, PRECISERR`.
fn names(bits: &[FaultBit]) -> String {
    bits.iter().map(|bit| bit.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// Address and name; each is null where it is not known.
#[derive(Serialize)]
struct NamedValue {
    address: Option<Hex>,
    name: Option<String>,
}

#[derive(Serialize)]
struct ThreadTimeValue {
    thread: NamedValue,
    ticks: Option<i64>,
}

#[derive(Serialize)]
struct FrameValue {
    pc: Hex,
    function: Option<String>,
    file: Option<String>,
    line: Option<u32>,
    inlined: bool,
    origin: &'static str,
}

impl Words<'_> {
    fn value(&self, column: &Column, cell: &Cell) -> Value {
        if column.kind.is_named() && *cell != Cell::Empty {
            let (address, name) = self.parts(column, cell);
            return Value::Named(NamedValue { address: address.map(|a| Hex(a, self.digits)), name });
        }
        match cell {
            Cell::Empty => Value::Null,
            Cell::Text(text) => Value::Text(text.clone()),
            Cell::Word(text) => Value::Text((*text).to_owned()),
            Cell::State(state) => Value::Text(state.1.clone()),
            Cell::Term(term) => Value::Text(term.name.to_owned()),
            Cell::Count(n) => Value::Count(*n),
            Cell::Ticks(n) => Value::Ticks(*n),
            Cell::Flag(yes) => Value::Flag(*yes),
            Cell::Real(n) => Value::Real(*n),
            Cell::Named(_, Some(name)) => Value::Text(name.0.clone()),
            Cell::Address(a) | Cell::Named(a, None) => Value::Hex(Hex(*a, self.digits)),
            Cell::Isr(number) => Value::Text(isr(*number)),
            Cell::ThreadTimes(threads) => Value::ThreadTimes(threads.iter().map(|t| self.thread_time(t)).collect()),
            Cell::Frames(frames) => Value::Frames(frames.iter().map(|f| self.frame(f)).collect()),
            Cell::Registers(all) => Value::Registers(
                all.iter().map(|(name, value)| RegisterValue { name, value: Hex(*value, self.digits) }).collect(),
            ),
            Cell::FaultBits(bits) => Value::FaultBits(bits.iter().map(fault_bit).collect()),
        }
    }

    fn frame(&self, frame: &Frame) -> FrameValue {
        FrameValue {
            pc: Hex(frame.pc, self.digits),
            function: frame.function.clone(),
            file: frame.file.clone(),
            line: frame.line,
            inlined: frame.inlined,
            origin: frame.origin,
        }
    }

    fn thread_time(&self, thread: &ThreadTime) -> ThreadTimeValue {
        let name = thread.name.clone().or_else(|| self.names.object(thread.address));
        ThreadTimeValue {
            thread: NamedValue { address: Some(Hex(thread.address, self.digits)), name },
            ticks: thread.ticks,
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

    fn addresses(&mut self, word: Width) {
        self.words.digits = digits(word);
    }

    fn report(&mut self, report: &Report) -> io::Result<()> {
        let Self { out, words } = self;
        report.rows.iter().try_for_each(|row| json::line(out, &RowLine { report, row, words }))?;
        let note = |note| NoteLine { line: "note", report: report.name, note };
        let mut notes = report.notes.iter().filter(|text| *text != RATELESS);
        notes.try_for_each(|text| json::line(out, &note(text)))
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
            Cell::Empty => String::new(),
            Cell::Flag(yes) => yes.to_string(),
            Cell::Text(text) => csv::text(text),
            Cell::State(state) => csv::text(&state.1),
            Cell::Term(term) => term.name.to_owned(),
            // Programs read the number.
            Cell::Count(n) => n.to_string(),
            Cell::Address(a) => hex(*a, self.digits),
            Cell::Ticks(n) => n.to_string(),
            Cell::Real(n) => real(column, *n),
            Cell::ThreadTimes(threads) => csv::text(&self.thread_times(threads, |ticks| ticks.to_string())),
            cell => csv::text(&self.text(column, cell)),
        }]
    }
}

impl<W: Write> ReportWriter for CsvReports<'_, W> {
    fn addresses(&mut self, word: Width) {
        self.words.digits = digits(word);
    }

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
