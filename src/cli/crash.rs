//! Where a CPU was interrupted, as reports: `crash` for a fault, `interrupted` for any other exception.

use super::backtraces;
use crate::kernel::{Interrupted, Interruption, Kernel};
use crate::output::Reader;
use crate::report::{Cell, Column, Kind, Report};
use crate::session::{Function, Target, Unwound};

/// The places that were interrupted, with functions and lines.
pub struct Places<'k> {
    all: Vec<(&'k Interrupted, Vec<Place<'k>>)>,
}

/// One of them.
struct Place<'k> {
    at: &'k Interruption,
    functions: Vec<Function>,
}

impl Place<'_> {
    /// The function that it is in.
    fn function(&self) -> Option<&Function> {
        self.functions.first()
    }

    /// The function that called a wrong address, which is where it is.
    fn caller(&self) -> Option<&Function> {
        self.functions.get(1).filter(|f| f.is_inferred() && self.functions.first().is_some_and(|at| at.name.is_none()))
    }

    /// `parse_field`, `called by call`.
    fn name(&self) -> Option<String> {
        let called = |caller| format!("called by {}", backtraces::name(caller));
        self.caller().map(called).or_else(|| self.function().map(backtraces::name))
    }

    fn source(&self) -> Option<String> {
        self.caller().or(self.function()).and_then(backtraces::source_of)
    }

    /// `parse_field (crashes.c:121)`, `0x0, called by call (crashes.c:174)`.
    fn words(&self) -> String {
        let Some(name) = self.name() else { return "an unknown place".to_owned() };
        let pc = self.caller().and(self.at.registers.pc()).map_or(String::new(), |pc| format!("{pc:#x}, "));
        let source = self.source().map_or(String::new(), |source| format!(" ({source})"));
        format!("{pc}{name}{source}")
    }
}

impl<'k> Places<'k> {
    /// Of a kernel that was read from `target`. Reads nothing.
    pub fn of(kernel: &'k Kernel, target: &Target<'_>) -> Self {
        let functions = |at: &'k Interruption| {
            let one = Unwound { threads: Vec::new(), backtraces: vec![at.backtrace.clone()] };
            Place { at, functions: target.functions(kernel, &one).all.pop().unwrap_or_default() }
        };
        let all = kernel.interrupted.iter().map(|found| (found, found.places.iter().map(functions).collect()));
        Self { all: all.collect() }
    }

    /// What a reader has to see: a crash always, what another exception interrupted only where `at` does not show it.
    fn shown(&self, reader: Reader) -> impl Iterator<Item = &(&'k Interrupted, Vec<Place<'k>>)> {
        self.all.iter().filter(move |(found, _)| reader == Reader::Program || found.is_crash() || !found.is_certain)
    }

    /// A report for each CPU that was interrupted.
    pub fn reports(&self, kernel: &Kernel, reader: Reader) -> Vec<Report> {
        let make = |(found, places): &(&Interrupted, Vec<Place<'_>>)| match reader {
            Reader::Program => for_programs(found, places, kernel),
            Reader::Terminal | Reader::Page => for_people(found, places, kernel),
        };
        self.shown(reader).map(make).collect()
    }

    /// Where a crash is certain, in a sentence: `Crash: exception 3 (HardFault) in parse_field (crashes.c:121), thread victim.`
    pub(super) fn sentences(&self, kernel: &Kernel) -> Vec<String> {
        let crash = |(found, places): &(&Interrupted, Vec<Place<'_>>)| {
            let place = places.first().filter(|_| found.is_crash() && found.is_certain)?;
            Some(format!("Crash: {} in {}, {}.", found.by, place.words(), context(found, place, kernel)))
        };
        self.all.iter().filter_map(crash).collect()
    }
}

/// What was interrupted there: a thread, or another exception.
fn context(found: &Interrupted, place: &Place<'_>, kernel: &Kernel) -> String {
    match (&place.at.within, found.thread.and_then(|at| kernel.thread(at))) {
        (Some(exception), _) => format!("within {exception}"),
        (None, Some(thread)) => format!("thread {}", thread.label()),
        (None, None) => "no thread".to_owned(),
    }
}

/// Name and title of its report.
fn names(found: &Interrupted) -> (&'static str, &'static str) {
    if found.is_crash() { ("crash", "Crash") } else { ("interrupted", "Interrupted") }
}

/// A row for each place.
fn for_programs(found: &Interrupted, places: &[Place<'_>], kernel: &Kernel) -> Report {
    const COLUMNS: [Column; 14] = [
        Column::new("core", Kind::Count),
        Column::new("thread", Kind::Thread),
        Column::new("exception", Kind::Count),
        Column::new("exception_name", Kind::Text),
        Column::new("interrupted_exception", Kind::Count),
        Column::new("certain", Kind::Flag),
        Column::new("origin", Kind::Text),
        Column::new("pc", Kind::Code),
        Column::new("file", Kind::Text),
        Column::new("line", Kind::Count),
        Column::new("sp", Kind::Address),
        Column::new("frame", Kind::Address),
        Column::new("frames", Kind::Frames),
        Column::new("doubt", Kind::Text),
    ];
    let (name, title) = names(found);
    let mut report = Report::new(name, title, COLUMNS);
    let text = |text: Option<String>| text.filter(|t| !t.is_empty()).map_or(Cell::Empty, Cell::Text);
    let count = |n: Option<u32>| n.map_or(Cell::Empty, |n| Cell::Count(n.into()));
    let thread = found.thread.map_or(Cell::Empty, |at| Cell::Named(at, kernel.thread(at).and_then(|t| t.name.clone())));
    let row = |place: Option<&Place<'_>>| {
        let at = place.map(|p| p.at);
        let function = place.and_then(Place::function);
        let registers = at.map(|at| &at.registers);
        let address = |at: Option<u64>| at.map_or(Cell::Empty, Cell::Address);
        let frames = place.map_or(Cell::Empty, |p| Cell::Frames(p.functions.iter().map(backtraces::frame).collect()));
        vec![
            Cell::Count(found.core.try_into().unwrap_or_default()),
            thread.clone(),
            count(found.exception),
            text(found.name.clone()),
            count(at.and_then(Interruption::in_exception)),
            Cell::Flag(found.is_certain),
            text(at.map(|at| at.found.name().to_owned())),
            registers
                .and_then(|r| r.pc())
                .map_or(Cell::Empty, |pc| Cell::Named(pc, function.and_then(|f| f.name.clone()))),
            text(function.and_then(|f| f.file.clone())),
            count(function.and_then(|f| f.line)),
            address(registers.and_then(|r| r.sp())),
            address(at.map(|at| at.frame)),
            frames,
            text(Some(found.remarks.join("; "))),
        ]
    };
    report.rows = if places.is_empty() { vec![row(None)] } else { places.iter().map(|p| row(Some(p))).collect() };
    report
}

/// The same, narrow, with what is special about it below.
fn for_people(found: &Interrupted, places: &[Place<'_>], kernel: &Kernel) -> Report {
    let (name, title) = names(found);
    let columns = [
        Column::new(name, Kind::Text),
        Column::new("function", Kind::Text),
        Column::new("source", Kind::Text),
        Column::new("pc", Kind::Address),
        Column::new("frame", Kind::Address).titled("registers at"),
    ];
    let mut report = Report::new(name, title, columns);
    let label = |place: &Place<'_>, number: usize| {
        let context = context(found, place, kernel);
        if found.is_certain { context } else { format!("candidate {number}: {context}") }
    };
    for (number, place) in (1..).zip(places) {
        let pc = place.at.registers.pc().map_or(Cell::Empty, Cell::Address);
        let source = place.source().map_or(Cell::Empty, Cell::Text);
        let function = place.name().map_or(Cell::Empty, Cell::Text);
        report.rows.push(vec![Cell::Text(label(place, number)), function, source, pc, Cell::Address(place.at.frame)]);
    }
    if report.rows.is_empty() {
        let cells = [Cell::Text("place not known".to_owned())].into_iter();
        report.rows.push(cells.chain(std::iter::repeat_n(Cell::Empty, 4)).collect());
    }
    report.notes.extend(found.remarks.iter().cloned());
    report
}
