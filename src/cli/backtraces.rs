//! `threads --bt`: the backtraces of the kernel's threads.

use std::path::Path;

use super::threads::Found;
use crate::abi::Addr;
use crate::code::Code;
use crate::error::Error;
use crate::kernel::Thread;
use crate::near::{did_you_mean, nearest};
use crate::output::Reader;
use crate::report::{Cell, Column, Frame, Kind, Report};
use crate::session::{Function, Target};
use crate::unwind::{Backtrace, End};

/// Which threads' backtraces are asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Wanted {
    /// None.
    #[default]
    Nothing,
    /// Those of all threads.
    All,
    /// Those of threads with these names or addresses.
    Threads(Vec<String>),
}

impl Wanted {
    /// Of what was typed behind `--bt`: nothing at all, nothing behind it, or names.
    pub fn of(typed: Option<Vec<String>>) -> Self {
        match typed {
            None => Self::Nothing,
            Some(names) if names.iter().all(String::is_empty) => Self::All,
            Some(names) => Self::Threads(names),
        }
    }

    /// The threads.
    ///
    /// # Errors
    /// Where a name is of no thread.
    fn choose<'k>(&self, found: &'k Found) -> Result<Vec<&'k Thread>, Error> {
        let all = found.kernel.in_order();
        match self {
            Self::Nothing => Ok(Vec::new()),
            Self::All => Ok(all.collect()),
            Self::Threads(names) => {
                for name in names {
                    known(name, found)?;
                }
                Ok(all.filter(|thread| names.iter().any(|name| is(thread, name))).collect())
            }
        }
    }
}

fn is(thread: &Thread, name: &str) -> bool {
    thread.name.as_deref() == Some(name) || name == format!("{:#x}", thread.address)
}

fn known(name: &str, found: &Found) -> Result<(), Error> {
    if found.kernel.threads.iter().any(|thread| is(thread, name)) {
        return Ok(());
    }
    let names: Vec<&str> = found.kernel.threads.iter().filter_map(|t| t.name.as_deref()).collect();
    let hint = match nearest(name, names.iter().copied()).as_slice() {
        [] => format!("the threads are {}", names.join(", ")),
        near => did_you_mean(near, "'"),
    };
    Err(Error::not_found(Code::NothingMatches, format!("--bt={name}: this kernel has no thread of that name"), hint))
}

/// Backtraces without names.
#[derive(Default)]
pub struct Unwound {
    threads: Vec<Addr>,
    backtraces: Vec<Backtrace>,
}

impl Unwound {
    /// Reads the stacks of the threads that are wanted.
    ///
    /// # Errors
    /// Where a name is of no thread.
    pub fn read(found: &Found, target: &mut Target<'_>, wanted: &Wanted) -> Result<Option<Self>, Error> {
        if *wanted == Wanted::Nothing {
            return Ok(None);
        }
        let threads = wanted.choose(found)?;
        let backtraces = target.unwind(&found.kernel, &threads);
        Ok(Some(Self { threads: threads.iter().map(|t| t.address).collect(), backtraces }))
    }

    /// The same with functions and lines, for `reader`.
    pub fn report(&self, found: &Found, target: &Target<'_>, reader: Reader) -> Report {
        let functions = target.functions(&self.backtraces);
        let threads = self.threads.iter().filter_map(|at| found.kernel.thread(*at));
        let all = threads.zip(&self.backtraces).zip(&functions);
        let all = all.map(|((thread, backtrace), functions)| One { thread, end: &backtrace.end, functions });
        match reader {
            Reader::Program => for_programs(all),
            Reader::Terminal | Reader::Page => for_people(all),
        }
    }
}

/// The backtrace of one thread.
struct One<'a> {
    thread: &'a Thread,
    functions: &'a [Function],
    end: &'a End,
}

impl One<'_> {
    /// Why there are no more frames, in words.
    fn end(&self) -> String {
        let how = &self.thread.position.how;
        if *self.end == End::NoRegisters && !how.is_empty() { how.clone() } else { self.end.to_string() }
    }
}

/// A row for each thread.
fn for_programs<'a>(all: impl Iterator<Item = One<'a>>) -> Report {
    const COLUMNS: [Column; 4] = [
        Column::new("thread", Kind::Thread),
        Column::new("frames", Kind::Frames),
        Column::new("complete", Kind::Flag),
        Column::new("end", Kind::Text),
    ];
    let mut report = Report::new("backtraces", "Backtraces", COLUMNS);
    report.rows.extend(all.map(|one| {
        vec![
            Cell::Named(one.thread.address, one.thread.name.clone()),
            Cell::Frames(one.functions.iter().map(frame).collect()),
            Cell::Flag(one.end.is_complete()),
            Cell::Text(one.end()),
        ]
    }));
    report
}

/// One function for programs.
pub fn frame(function: &Function) -> Frame {
    Frame {
        pc: function.pc,
        function: function.name.clone(),
        file: function.file.clone(),
        line: function.line,
        inlined: function.is_inlined,
        origin: function.origin.name(),
    }
}

/// A row for each function.
fn for_people<'a>(all: impl Iterator<Item = One<'a>>) -> Report {
    const COLUMNS: [Column; 5] = [
        Column::new("thread", Kind::Text),
        Column::new("frame", Kind::Count),
        Column::new("function", Kind::Text),
        Column::new("source", Kind::Text),
        Column::new("pc", Kind::Address),
    ];
    let mut report = Report::new("backtraces", "Backtraces", COLUMNS);
    let mut inferred = false;
    for one in all {
        let mut label = Some(one.thread.label());
        for (number, function) in (0..).zip(one.functions) {
            let name = label.take().map_or(Cell::Empty, Cell::Text);
            inferred |= function.is_inferred();
            let (source, pc) = (source(function), Cell::Address(function.pc));
            report.rows.push(vec![name, Cell::Count(number), Cell::Text(words(function)), source, pc]);
        }
        if !one.end.is_complete() {
            let name = label.take().map_or(Cell::Empty, Cell::Text);
            let end = Cell::Text(format!("({})", one.end()));
            report.rows.push(vec![name, Cell::Empty, end, Cell::Empty, Cell::Empty]);
        }
    }
    if inferred {
        report.notes.push(
            "inferred: a return address that lies on the stack; it may be left over from a call that has returned"
                .to_owned(),
        );
    }
    report
}

/// The function, and what is special about its frame.
fn words(function: &Function) -> String {
    let mut text = name(function);
    if function.is_inlined {
        text.push_str(" [inlined]");
    }
    match function.origin.remark() {
        "" => {}
        remark => text.push_str(&format!(" [{remark}]")),
    }
    text
}

/// `parse_field`, or `parse_field+0x8` where no line is known.
pub fn name(function: &Function) -> String {
    match (&function.name, function.offset) {
        (Some(name), Some(offset)) if offset > 0 => format!("{name}+{offset:#x}"),
        (Some(name), _) => name.clone(),
        (None, _) => "?".to_owned(),
    }
}

fn source(function: &Function) -> Cell {
    file_and_line(function).map_or(Cell::Empty, Cell::Text)
}

/// `app.c:133`.
pub fn file_and_line(function: &Function) -> Option<String> {
    let file = function.file.as_ref()?;
    let name = Path::new(file).file_name().map_or_else(|| file.clone(), |name| name.to_string_lossy().into_owned());
    Some(function.line.map_or_else(|| name.clone(), |line| format!("{name}:{line}")))
}
