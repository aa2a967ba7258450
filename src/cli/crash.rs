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
    fn pc(&self) -> Option<u64> {
        self.at.registers.pc()
    }

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
        let pc = self.caller().and(self.pc()).map_or(String::new(), |pc| format!("{pc:#x}, "));
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
    let (name, title) = names(found);
    let rows = if places.is_empty() { vec![None] } else { places.iter().map(Some).collect() };
    let thread = found.thread.map_or(Cell::Empty, |at| Cell::named(at, kernel.thread(at).and_then(|t| t.name.clone())));
    let pc = |place: &Option<&Place<'_>>| {
        let name = || place.and_then(Place::function).and_then(|f| f.name.clone());
        place.and_then(Place::pc).map_or(Cell::Empty, |pc| Cell::named(pc, name()))
    };
    let frames = |place: &Place<'_>| Cell::Frames(place.functions.iter().map(backtraces::frame).collect());
    Report::table(
        name,
        title,
        rows,
        &[
            (Column::new("core", Kind::Count), &|_| Cell::Count(found.core.try_into().unwrap_or_default())),
            (Column::new("thread", Kind::Thread), &|_| thread.clone()),
            (Column::new("exception", Kind::Count), &|_| Cell::count(found.exception)),
            (Column::new("exception_name", Kind::Text), &|_| Cell::some_text(found.name.as_deref())),
            (Column::new("interrupted_exception", Kind::Count), &|p| Cell::count(p.and_then(|p| p.at.in_exception()))),
            (Column::new("certain", Kind::Flag), &|_| Cell::Flag(found.is_certain)),
            (Column::new("origin", Kind::Text), &|p| Cell::some_text(p.map(|p| p.at.found.name()))),
            (Column::new("pc", Kind::Code), &pc),
            (Column::new("file", Kind::Text), &|p| {
                Cell::some_text(p.and_then(Place::function).and_then(|f| f.file.as_deref()))
            }),
            (Column::new("line", Kind::Count), &|p| Cell::count(p.and_then(Place::function).and_then(|f| f.line))),
            (Column::new("sp", Kind::Address), &|p| Cell::address(p.and_then(|p| p.at.registers.sp()))),
            (Column::new("frame", Kind::Address), &|p| Cell::address(p.map(|p| p.at.frame))),
            (Column::new("frames", Kind::Frames), &|p| p.map_or(Cell::Empty, frames)),
            (Column::new("doubt", Kind::Text), &|_| Cell::some_text(Some(found.remarks.join("; ")))),
        ],
    )
}

/// The same, narrow, with what is special about it below.
fn for_people(found: &Interrupted, places: &[Place<'_>], kernel: &Kernel) -> Report {
    let (name, title) = names(found);
    let label = |place: &Place<'_>, number: usize| {
        let context = context(found, place, kernel);
        if found.is_certain { context } else { format!("candidate {number}: {context}") }
    };
    let rows: Vec<_> = if places.is_empty() { vec![(1, None)] } else { (1..).zip(places.iter().map(Some)).collect() };
    let mut report = Report::table(
        name,
        title,
        rows,
        &[
            (Column::new(name, Kind::Text), &|(number, place)| {
                Cell::Text(place.map_or_else(|| "place not known".to_owned(), |place| label(place, *number)))
            }),
            (Column::new("function", Kind::Text), &|(_, p)| Cell::some_text(p.and_then(Place::name))),
            (Column::new("source", Kind::Text), &|(_, p)| Cell::some_text(p.and_then(Place::source))),
            (Column::new("pc", Kind::Address), &|(_, p)| Cell::address(p.and_then(Place::pc))),
            (Column::new("frame", Kind::Address).titled("registers at"), &|(_, p)| {
                Cell::address(p.map(|p| p.at.frame))
            }),
        ],
    );
    report.notes.extend(found.remarks.iter().cloned());
    report
}
