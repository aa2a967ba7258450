//! The state of a kernel as reports.

use super::fault_report::fault;
use super::position::RUNS;
use super::{Above, Cpu, Kernel, Kind, Object, Thread, Under};
use crate::abi::{Addr, Width};
use crate::report::{Cell, Column, Kind as CellKind, Of, Report};

/// How much the reports hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// What fits a terminal: threads, and the other objects that are held, waited for or used up.
    Summary {
        /// Columns of a line.
        width: usize,
        /// All objects.
        all: bool,
    },
    /// Everything, with stable names: for programs.
    Full,
}

/// From this many columns on it has a column each for where a thread continues and for what called the kernel.
const WIDEST: usize = 160;
/// From this many columns of a terminal on, the summary has more columns: addresses of eight bytes are eight digits longer, in
/// two of them.
const fn wide(kernel: &Kernel) -> usize {
    match kernel.layout.shape.pointer {
        Width::W4 => 120,
        Width::W8 => 136,
    }
}

/// Threads first; then the other objects: in one report, or kind by kind.
pub fn reports(kernel: &Kernel, detail: Detail) -> Vec<Report> {
    match detail {
        Detail::Summary { width, all } => {
            let mut reports = vec![summary(kernel, width)];
            reports.extend(fault(kernel, detail));
            reports.extend(Some(held(kernel, all)).filter(|held| !held.rows.is_empty()));
            reports
        }
        Detail::Full => {
            let kinds = Kind::ALL.into_iter().filter(|k| kernel.objects.iter().any(|o| o.kind == *k));
            let all = std::iter::once(threads(kernel)).chain(kinds.map(|k| objects(kernel, k)));
            all.chain(cpus(kernel)).chain(fault(kernel, detail)).collect()
        }
    }
}

/// Text; empty text and `unknown` are not known.
fn known(said: &str) -> Cell {
    Cell::some_text(Some(said).filter(|said| *said != "unknown"))
}

impl Kernel {
    fn named(&self, at: Addr) -> Cell {
        let name = self.thread(at).map(|t| t.name.clone()).or_else(|| self.object(at).map(|o| o.name.clone()));
        Cell::named(at, name.flatten())
    }

    /// What a thread does, in words: `mutex bus_mutex (low_task)`.
    pub fn doing(&self, thread: &Thread) -> String {
        thread.doing(&|owner| self.label_of(owner))
    }

    /// The state of an object, in words: `owned by low_task`, `2 of 4 messages`.
    pub fn state(&self, object: &Object) -> String {
        object.state(&|thread| self.label_of(thread))
    }

    /// One line about a thread: `mutex bus_mutex (low_task), priority 4`.
    pub fn line(&self, thread: &Thread) -> String {
        let mut line = self.doing(thread);
        if let Some(priority) = thread.priority {
            line.push_str(&format!(", priority {priority}"));
        }
        if let Some(own) = thread.own_priority.filter(|_| thread.inherits().is_some()) {
            line.push_str(&format!(" inherited, its own is {own}"));
        }
        line
    }

    /// The mutexes that a thread owns.
    fn owned(&self, thread: &Thread) -> String {
        let owned = thread.owns.iter().filter_map(|mutex| self.object(*mutex)).map(Object::label);
        owned.collect::<Vec<_>>().join(", ")
    }

    /// The threads that wait for an object.
    fn waiting(&self, object: &Object) -> String {
        let waiting = object.waiting.iter().map(|t| self.label_of(*t));
        waiting.collect::<Vec<_>>().join(", ")
    }

    /// Those that run first, the rest in the order of their creation.
    pub fn in_order(&self) -> impl Iterator<Item = &Thread> {
        let runs = self.threads.iter().filter(|t| t.core.is_some());
        runs.chain(self.threads.iter().filter(|t| t.core.is_none()))
    }
}

/// What the summary shows of where a thread is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Places {
    /// Where it continues: no stack was unwound.
    At,
    /// What called the kernel, and where that is not known where it continues: there is no room for both.
    Function,
    /// Both.
    Both,
}

impl Places {
    fn of(kernel: &Kernel, width: usize) -> Self {
        let any = kernel.threads.iter().any(|thread| thread.called_from.is_some());
        match any {
            false => Self::At,
            true if width < WIDEST => Self::Function,
            true => Self::Both,
        }
    }
}

const CALLED_FROM: Column = Column::new("called_from", CellKind::Code).titled("called from");

/// The threads, as wide as a terminal.
fn summary(kernel: &Kernel, width: usize) -> Report {
    let wide = width >= wide(kernel);
    let places = Places::of(kernel, width);
    let system = kernel.threads.iter().any(|t| t.pthread.is_some());
    let at = |thread: &&Thread| match thread.position.pc {
        _ if thread.position.never_ran => Cell::text("never ran"),
        pc => Cell::address(pc),
    };
    let label =
        |thread: &&Thread| Cell::Text(format!("{}{}", if thread.core.is_some() { "* " } else { "  " }, thread.label()));
    let columns: [(bool, Of<'_, &Thread>); 13] = [
        (true, (Column::new("thread", CellKind::Text), &label)),
        (wide, (Column::new("address", CellKind::Address), &|t| Cell::Address(t.address))),
        (true, (Column::new("pri", CellKind::Text), &|t| Cell::Text(priority(t)))),
        (true, (Column::new("stack", CellKind::Text), &|t| Cell::Text(stack(t)))),
        (true, (Column::new("high", CellKind::Count), &|t| Cell::count(t.stack.high.bytes(t.stack.size)))),
        (true, (Column::new("runs", CellKind::Count), &|t| Cell::count(t.run_count))),
        (wide, (Column::new("entry", CellKind::Code), &|t| Cell::address(t.entry))),
        (wide, (Column::new("owns", CellKind::Text), &|t| Cell::Text(kernel.owned(t)))),
        (wide && system, (Column::new("lwp", CellKind::Count), &|t| Cell::count(t.lwp()))),
        (places != Places::Function, (Column::new("at", CellKind::Code), &at)),
        (
            places == Places::Function,
            (Column::new("function", CellKind::Code), &|t| {
                t.called_from.as_ref().map_or_else(|| at(t), |from| Cell::text(&from.function))
            }),
        ),
        (
            places == Places::Both,
            (CALLED_FROM, &|t| t.called_from.as_ref().map_or(Cell::Empty, |from| Cell::Text(from.label()))),
        ),
        (true, (Column::new("state", CellKind::Text), &|t| Cell::State(Box::new((t.state_kind(), kernel.doing(t)))))),
    ];
    let columns: Vec<_> = columns.into_iter().filter(|(shown, _)| *shown).map(|(_, column)| column).collect();
    let mut report = Report::table("threads", "Threads", kernel.in_order(), &columns);
    report.notes = summary_notes(kernel, system);
    if !wide && !kernel.threads.is_empty() {
        let width = self::wide(kernel);
        report.notes.push(format!("--width {width} shows address, entry and the mutexes that a thread owns too"));
    }
    report
}

fn summary_notes(kernel: &Kernel, system: bool) -> Vec<String> {
    let mut notes = without_threads(kernel);
    if system {
        notes.push(
            "these threads run on stacks of the operating system, not on those in their control blocks".to_owned(),
        );
    }
    for thread in kernel.threads.iter().filter(|t| t.core.is_some() && !t.position.how.is_empty()) {
        let cpu = thread.core.and_then(|core| kernel.cpus.get(core));
        // The thread is not where the CPU is, also where an exception is only inferred.
        let interrupted = cpu.is_some_and(|c| c.is_interrupted() || c.above == Above::Unknown);
        if thread.position.pc.is_none() || (interrupted && thread.position.how != RUNS) {
            notes.push(format!("{}: {}", thread.label(), thread.position.how));
        }
    }
    notes
}

/// What a thread runs at, and in brackets its own where it inherited another.
fn priority(thread: &Thread) -> String {
    match (thread.priority, thread.inherits(), thread.own_priority) {
        (Some(now), Some(_), Some(own)) => format!("{now} ({own})"),
        (Some(now), ..) => now.to_string(),
        _ => String::new(),
    }
}

/// Bytes in use of how many.
fn stack(thread: &Thread) -> String {
    if thread.pthread.is_some() {
        return String::new();
    }
    match (thread.stack.used, thread.stack.size) {
        (Some(used), Some(size)) => format!("{used}/{size}"),
        (None, Some(size)) => format!("?/{size}"),
        _ => "?".to_owned(),
    }
}

/// What CPUs do that run no thread, where none of them runs one.
fn without_threads(kernel: &Kernel) -> Vec<String> {
    let name = |thread| kernel.label_of(thread);
    let all: Option<Vec<String>> = kernel.cpus.iter().map(|cpu| cpu.without_thread(&name)).collect();
    let Some(all) = all else { return Vec::new() };
    match all.as_slice() {
        [first, rest @ ..] if rest.iter().all(|other| other == first) => vec![first.clone()],
        _ => all.iter().enumerate().map(|(core, what)| format!("core {core}: {what}")).collect(),
    }
}

/// What each CPU does, where that is known.
fn cpus(kernel: &Kernel) -> Option<Report> {
    let columns: [Of<'_, (u64, &Cpu)>; 8] = [
        (Column::new("core", CellKind::Count), &|(core, _)| Cell::Count(*core)),
        (Column::new("state", CellKind::Text), &|(_, cpu)| known(cpu.state())),
        (Column::new("thread", CellKind::Thread), &|(_, cpu)| match cpu.under {
            Under::Thread(thread) => kernel.named(thread),
            _ => Cell::Empty,
        }),
        (Column::new("exception", CellKind::Count), &|(_, cpu)| match &cpu.above {
            Above::Exception(number, _) => Cell::count(Some(*number)),
            _ => Cell::Empty,
        }),
        (Column::new("exception_name", CellKind::Text).titled("exception name"), &|(_, cpu)| match &cpu.above {
            Above::Exception(_, Some(name)) => Cell::text(name),
            Above::Mode(mode) => Cell::text(*mode),
            _ => Cell::Empty,
        }),
        (Column::new("under", CellKind::Text), &|(_, cpu)| Cell::text(cpu.under.name())),
        (Column::new("next", CellKind::Thread), &|(_, cpu)| match cpu.under {
            Under::Scheduler(next) => kernel.named(next),
            _ => Cell::Empty,
        }),
        (Column::new("at", CellKind::Code), &|(_, cpu)| match (cpu.pc, &cpu.function) {
            // A name that several share is left out.
            (Some(pc), None) => Cell::Named(pc, None),
            (pc, _) => Cell::address(pc),
        }),
    ];
    (!kernel.cpus.is_empty()).then(|| Report::table("cpus", "CPUs", (0..).zip(&kernel.cpus), &columns))
}

/// All objects, or those that a thread holds or waits for, or that are used up.
fn held(kernel: &Kernel, all: bool) -> Report {
    let title = if all { "Objects" } else { "Objects that are held, waited for or used up" };
    Report::table(
        "held",
        title,
        kernel.objects.iter().filter(|o| all || o.matters()),
        &[
            (Column::new("object", CellKind::Text), &|object| Cell::text(object.kind.name())),
            (Column::new("name", CellKind::Text), &|object| Cell::Text(object.label())),
            (Column::new("state", CellKind::Text), &|object| Cell::Text(kernel.state(object))),
            (Column::new("waiting", CellKind::Text).titled("threads waiting"), &|object| {
                Cell::Text(kernel.waiting(object))
            }),
        ],
    )
}

/// Threads with all that is known of them, for programs.
fn threads(kernel: &Kernel) -> Report {
    let calls = |thread: &Thread| thread.kernel_stack.unwrap_or_default();
    Report::table(
        "threads",
        "Threads",
        kernel.in_order(),
        &[
            (Column::new("thread", CellKind::Thread), &|t| kernel.named(t.address)),
            // Where it is not known which thread runs, none is shown as not running.
            (Column::new("running", CellKind::Flag), &|t| {
                Cell::flag((!kernel.current.is_empty()).then_some(t.core.is_some()))
            }),
            (Column::new("core", CellKind::Count), &|t| Cell::count(t.core.and_then(|c| u32::try_from(c).ok()))),
            (Column::new("state", CellKind::Text), &|t| t.state.map_or(Cell::Empty, |s| known(s.name()))),
            (Column::new("state_code", CellKind::Count), &|t| Cell::count(t.state.map(|s| s.0))),
            (Column::new("doing", CellKind::Text), &|t| Cell::Text(kernel.doing(t))),
            (Column::new("waits_for", CellKind::Object), &|t| {
                t.waits.as_ref().map_or(Cell::Empty, |w| Cell::named(w.address, w.name.clone()))
            }),
            (Column::new("waits_for_type", CellKind::Text), &|t| {
                Cell::some_text(t.waits.as_ref().map(|w| w.kind.name()))
            }),
            (Column::new("owner", CellKind::Thread), &|t| {
                t.waits.as_ref().and_then(|w| w.owner).map_or(Cell::Empty, |o| kernel.named(o))
            }),
            (Column::new("timed", CellKind::Flag), &|t| Cell::flag(t.timed)),
            (Column::new("priority", CellKind::Count), &|t| Cell::count(t.priority)),
            (Column::new("own_priority", CellKind::Count), &|t| Cell::count(t.own_priority)),
            (Column::new("threshold", CellKind::Count), &|t| Cell::count(t.threshold)),
            (Column::new("owns", CellKind::Text), &|t| Cell::Text(kernel.owned(t))),
            (Column::new("run_count", CellKind::Count), &|t| Cell::count(t.run_count)),
            (Column::new("stack_start", CellKind::Address), &|t| Cell::address(t.stack.start)),
            (Column::new("stack_size", CellKind::Count), &|t| Cell::count(t.stack.size)),
            (Column::new("stack_pointer", CellKind::Address), &|t| Cell::address(t.stack.pointer)),
            (Column::new("stack_used", CellKind::Count), &|t| Cell::count(t.stack.used)),
            (Column::new("stack_high", CellKind::Count), &|t| Cell::count(t.stack.high.bytes(t.stack.size))),
            (Column::new("entry", CellKind::Code), &|t| Cell::address(t.entry)),
            (Column::new("at", CellKind::Code), &|t| Cell::address(t.position.pc)),
            (Column::new("at_how", CellKind::Text), &|t| known(&t.position.how)),
            (Column::new("called_from", CellKind::Code), &|t| {
                t.called_from.as_ref().map_or(Cell::Empty, |f| Cell::named(f.pc, Some(f.function.clone())))
            }),
            (Column::new("called_from_file", CellKind::Text), &|t| {
                Cell::some_text(t.called_from.as_ref().and_then(|f| f.file.as_deref()))
            }),
            (Column::new("called_from_line", CellKind::Count), &|t| {
                Cell::count(t.called_from.as_ref().and_then(|f| f.line))
            }),
            (Column::new("lwp", CellKind::Count), &|t| Cell::count(t.lwp())),
            (Column::new("kernel_stack_start", CellKind::Address), &|t| Cell::address(calls(t).start)),
            (Column::new("kernel_stack_size", CellKind::Count), &|t| Cell::count(calls(t).size)),
            (Column::new("kernel_stack_used", CellKind::Count), &|t| Cell::count(calls(t).used)),
            (Column::new("kernel_stack_high", CellKind::Count), &|t| Cell::count(calls(t).high.bytes(calls(t).size))),
        ],
    )
}

/// The members of an object in the full report: column, member, and what it holds.
const fn members(kind: Kind) -> &'static [(&'static str, &'static str, CellKind)] {
    match kind {
        Kind::Mutex => &[
            ("ownership_count", "ownership_count", CellKind::Count),
            ("inherit", "inherit", CellKind::Flag),
            ("original_priority", "original_priority", CellKind::Count),
            ("highest_waiting", "highest_priority_waiting", CellKind::Count),
        ],
        Kind::Queue => &[
            ("message_words", "message_size", CellKind::Count),
            ("capacity", "capacity", CellKind::Count),
            ("enqueued", "enqueued", CellKind::Count),
            ("available", "available_storage", CellKind::Count),
            ("start", "start", CellKind::Address),
        ],
        Kind::Semaphore => &[("count", "count", CellKind::Count)],
        Kind::EventFlags => &[("current", "current", CellKind::Address)],
        Kind::BlockPool => &[
            ("available", "available", CellKind::Count),
            ("total", "total", CellKind::Count),
            ("block_size", "block_size", CellKind::Count),
            ("start", "start", CellKind::Address),
            ("size", "size", CellKind::Count),
        ],
        Kind::BytePool => &[
            ("available", "available", CellKind::Count),
            ("fragments", "fragments", CellKind::Count),
            ("start", "start", CellKind::Address),
            ("size", "size", CellKind::Count),
        ],
        Kind::Timer => &[
            ("remaining", "tx_timer_internal_remaining_ticks", CellKind::Count),
            ("reschedule", "tx_timer_internal_re_initialize_ticks", CellKind::Count),
            ("function", "tx_timer_internal_timeout_function", CellKind::Code),
            ("parameter", "tx_timer_internal_timeout_param", CellKind::Address),
        ],
    }
}

/// All objects of one kind, for programs.
fn objects(kernel: &Kernel, kind: Kind) -> Report {
    let members: Vec<_> = members(kind)
        .iter()
        .map(|(name, member, of)| {
            (Column::new(name, *of), move |o: &&Object| match (o.get(member), of) {
                (None, _) => Cell::Empty,
                (Some(n), CellKind::Count) => Cell::Count(n),
                (Some(n), CellKind::Flag) => Cell::Flag(n != 0),
                (Some(n), _) => Cell::Address(n),
            })
        })
        .collect();
    let first: [(bool, Of<'_, &Object>); 4] = [
        (true, (Column::new("object", CellKind::Object), &|o| kernel.named(o.address))),
        (true, (Column::new("state", CellKind::Text), &|o| Cell::Text(kernel.state(o)))),
        (
            kind == Kind::Mutex,
            (Column::new("owner", CellKind::Thread), &|o| o.owner().map_or(Cell::Empty, |owner| kernel.named(owner))),
        ),
        (kind == Kind::Timer, (Column::new("active", CellKind::Flag), &|o| Cell::flag(o.active()))),
    ];
    let last: Of<'_, &Object> = (Column::new("waiting", CellKind::Text), &|o| Cell::Text(kernel.waiting(o)));
    let mut columns: Vec<_> = first.into_iter().filter(|(has, _)| *has).map(|(_, column)| column).collect();
    columns.extend(members.iter().map(|(column, cell)| -> Of<'_, &Object> { (*column, cell) }));
    columns.extend((kind != Kind::Timer).then_some(last));
    Report::table(kind.report(), kind.report(), kernel.objects.iter().filter(|o| o.kind == kind), &columns)
}
