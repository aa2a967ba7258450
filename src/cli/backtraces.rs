//! `threads --bt`: the backtraces of the kernel's threads.

use crate::abi::Addr;
use crate::code::Code;
use crate::error::Error;
use crate::kernel::{CalledFrom, Kernel, Thread};
use crate::near::{did_you_mean, nearest};
use crate::output::Reader;
use crate::report::{Cell, Column, Frame, Kind, Report};
use crate::session::{Function, Target, Unwound};
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
    /// Of what was typed after `--bt`: nothing at all, nothing after it, or names.
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
    fn choose<'k>(&self, kernel: &'k Kernel) -> Result<Vec<&'k Thread>, Error> {
        let all = kernel.in_order();
        match self {
            Self::Nothing => Ok(Vec::new()),
            Self::All => Ok(all.collect()),
            Self::Threads(names) => {
                for name in names {
                    known(name, kernel)?;
                }
                Ok(all.filter(|thread| names.iter().any(|name| is(thread, name))).collect())
            }
        }
    }
}

fn is(thread: &Thread, name: &str) -> bool {
    thread.name.as_deref() == Some(name) || name == format!("{:#x}", thread.address)
}

fn known(name: &str, kernel: &Kernel) -> Result<(), Error> {
    if kernel.threads.iter().any(|thread| is(thread, name)) {
        return Ok(());
    }
    let names: Vec<&str> = kernel.threads.iter().filter_map(|t| t.name.as_deref()).collect();
    let hint = match nearest(name, names.iter().copied()).as_slice() {
        [] => format!("the threads are {}", names.join(", ")),
        near => did_you_mean(near, "'"),
    };
    Err(Error::not_found(Code::NothingMatches, format!("--bt={name}: this kernel has no thread of that name"), hint))
}

/// The backtraces of a kernel's threads, and which of them are printed.
pub struct Stacks {
    unwound: Unwound,
    printed: Vec<Addr>,
}

impl Stacks {
    /// Reads the stacks of the threads that are wanted; of all threads where the program says how functions are unwound.
    ///
    /// # Errors
    /// Where a name is of no thread.
    pub fn read(kernel: &Kernel, target: &mut Target<'_>, wanted: &Wanted) -> Result<Option<Self>, Error> {
        let printed = wanted.choose(kernel)?;
        let all = target.has_unwind_information();
        if printed.is_empty() && !all {
            return Ok(None);
        }
        let threads = if all { kernel.in_order().collect() } else { printed.clone() };
        let unwound = target.unwind(kernel, &threads);
        Ok(Some(Self { unwound, printed: printed.iter().map(|t| t.address).collect() }))
    }

    /// Finds functions and lines: the kernel gets those that called it. Reads nothing of the target.
    pub fn name(&self, kernel: &mut Kernel, target: &Target<'_>) -> Named<'_> {
        let functions = target.functions(kernel, &self.unwound);
        for (thread, function) in self.unwound.threads.iter().zip(functions.called_from) {
            let Some(thread) = kernel.threads.iter_mut().find(|t| t.address == *thread) else { continue };
            thread.called_from =
                function.and_then(|f| Some(CalledFrom { pc: f.pc, function: f.name?, file: f.file, line: f.line }));
        }
        Named { stacks: self, functions: functions.all }
    }
}

/// The same with functions and lines.
pub struct Named<'a> {
    stacks: &'a Stacks,
    functions: Vec<Vec<Function>>,
}

impl Named<'_> {
    /// The backtraces that are printed, for `reader`; `None` where none is.
    pub(super) fn report(&self, kernel: &Kernel, reader: Reader) -> Option<Report> {
        let Stacks { unwound, printed } = self.stacks;
        let all = unwound.threads.iter().zip(&unwound.backtraces).zip(&self.functions);
        let all = all.filter(|((at, _), _)| printed.contains(at));
        let all = all
            .filter_map(|((at, backtrace), functions)| Some(One { thread: kernel.thread(*at)?, backtrace, functions }));
        (!printed.is_empty()).then(|| match reader {
            Reader::Program => for_programs(all),
            Reader::Terminal | Reader::Page => for_people(all),
        })
    }

    /// A row for each thread: its functions from the innermost to the first.
    pub(super) fn short(&self, kernel: &Kernel) -> Report {
        const COLUMNS: [Column; 2] = [
            Column::new("thread", Kind::Text),
            Column::new("frames", Kind::Text).titled("functions, the innermost first"),
        ];
        let Unwound { threads, backtraces } = &self.stacks.unwound;
        let all = threads.iter().zip(backtraces).zip(&self.functions).filter(|(_, all)| !all.is_empty());
        let row = |((at, backtrace), functions): ((&Addr, &Backtrace), &Vec<Function>)| {
            let mut names: Vec<String> = functions.iter().map(words).collect();
            names.extend((!backtrace.is_complete()).then(|| "?".to_owned()));
            Some(vec![Cell::Text(kernel.thread(*at)?.label()), Cell::Text(names.join(" < "))])
        };
        Report { rows: all.filter_map(row).collect(), ..Report::new("backtraces", "Backtraces", COLUMNS) }
    }
}

/// The backtrace of one thread.
struct One<'a> {
    thread: &'a Thread,
    functions: &'a [Function],
    backtrace: &'a Backtrace,
}

impl One<'_> {
    /// Why there are no more frames, in words.
    fn end(&self) -> String {
        let (how, end) = (&self.thread.position.how, &self.backtrace.end);
        if *end == End::NoRegisters && !how.is_empty() { how.clone() } else { end.to_string() }
    }
}

/// A row for each thread.
fn for_programs<'a>(all: impl Iterator<Item = One<'a>>) -> Report {
    Report::table(
        "backtraces",
        "Backtraces",
        all,
        &[
            (Column::new("thread", Kind::Thread), &|one| Cell::named(one.thread.address, one.thread.name.clone())),
            (Column::new("frames", Kind::Frames), &|one| Cell::Frames(one.functions.iter().map(frame).collect())),
            (Column::new("complete", Kind::Flag), &|one| Cell::Flag(one.backtrace.is_complete())),
            (Column::new("end", Kind::Text), &|one| Cell::Text(one.end())),
        ],
    )
}

/// One function for programs.
pub(super) fn frame(function: &Function) -> Frame {
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
            let name = Cell::some_text(label.take());
            inferred |= function.is_inferred();
            let (source, pc) = (Cell::some_text(source_of(function)), Cell::Address(function.pc));
            report.rows.push(vec![name, Cell::Count(number), Cell::Text(words(function)), source, pc]);
        }
        if !one.backtrace.is_complete() {
            let name = Cell::some_text(label.take());
            let end = Cell::Text(format!("({})", one.end()));
            report.rows.push(vec![name, Cell::Empty, end, Cell::Empty, Cell::Empty]);
        }
    }
    if inferred {
        report.notes.push(
            "inferred: a return address that is on the stack; it may be left over from a call that has returned"
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

/// `parse_field`, or `parse_field+0x8` where no line is known. Hostile: escape before printing.
pub fn name(function: &Function) -> String {
    match (&function.name, function.offset) {
        (Some(name), Some(offset)) if offset > 0 => format!("{name}+{offset:#x}"),
        (Some(name), _) => name.clone(),
        (None, _) => "?".to_owned(),
    }
}

/// `app.c:133`. Hostile: escape before printing.
pub(super) fn source_of(function: &Function) -> Option<String> {
    let file = function.file.as_deref()?;
    let name = file.rsplit(['/', '\\']).next().unwrap_or(file);
    Some(function.line.map_or_else(|| name.to_owned(), |line| format!("{name}:{line}")))
}
