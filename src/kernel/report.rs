//! The state of a kernel as reports.

use super::fault_report::fault;
use super::position::RUNS;
use super::{Above, Cpu, Kernel, Kind, Object, Thread, Under};
use crate::abi::{Addr, Width};
use crate::report::{Cell, Column, Kind as CellKind, Report};

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

fn text(text: impl Into<String>) -> Cell {
    Cell::Text(text.into())
}

/// Text; empty text and `unknown` are not known.
fn known(said: &str) -> Cell {
    if matches!(said, "" | "unknown") { Cell::Empty } else { text(said) }
}

fn count(n: Option<impl Into<u64>>) -> Cell {
    n.map_or(Cell::Empty, |n| Cell::Count(n.into()))
}

fn address(at: Option<Addr>) -> Cell {
    at.map_or(Cell::Empty, Cell::Address)
}

impl Kernel {
    fn named(&self, at: Addr) -> Cell {
        let name = self.thread(at).map(|t| t.name.clone()).or_else(|| self.object(at).map(|o| o.name.clone()));
        Cell::Named(at, name.flatten())
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
    let only_if = |shown: bool, name, kind| shown.then_some(Column::new(name, kind));
    let columns = [
        Some(Column::new("thread", CellKind::Text)),
        only_if(wide, "address", CellKind::Address),
        Some(Column::new("pri", CellKind::Text)),
        Some(Column::new("stack", CellKind::Text)),
        Some(Column::new("high", CellKind::Count)),
        Some(Column::new("runs", CellKind::Count)),
        only_if(wide, "entry", CellKind::Code),
        only_if(wide, "owns", CellKind::Text),
        only_if(wide && system, "lwp", CellKind::Count),
        only_if(places != Places::Function, "at", CellKind::Code),
        only_if(places == Places::Function, "function", CellKind::Code),
        (places == Places::Both).then_some(CALLED_FROM),
        Some(Column::new("state", CellKind::Text)),
    ];
    let row = |thread| summary_row(kernel, thread, wide, system, places);
    let mut notes = summary_notes(kernel, system);
    if !wide && !kernel.threads.is_empty() {
        notes.push(format!(
            "--width {} shows address, entry and the mutexes that a thread owns too",
            self::wide(kernel)
        ));
    }
    Report {
        rows: kernel.in_order().map(row).collect(),
        notes,
        ..Report::new("threads", "Threads", columns.into_iter().flatten().collect::<Vec<_>>())
    }
}

/// One thread, with the cells of [`summary`]'s columns.
fn summary_row(kernel: &Kernel, thread: &Thread, wide: bool, system: bool, places: Places) -> Vec<Cell> {
    let mark = if thread.core.is_some() { "* " } else { "  " };
    let at = match thread.position.pc {
        _ if thread.position.never_ran => text("never ran"),
        pc => address(pc),
    };
    let called_from = thread.called_from.as_ref();
    let at = match called_from.filter(|_| places == Places::Function) {
        Some(called_from) => text(&called_from.function),
        None => at,
    };
    let cells = [
        Some(text(format!("{mark}{}", thread.label()))),
        wide.then_some(Cell::Address(thread.address)),
        Some(text(priority(thread))),
        Some(text(stack(thread))),
        Some(count(thread.stack.high.bytes(thread.stack.size))),
        Some(count(thread.run_count)),
        wide.then(|| address(thread.entry)),
        wide.then(|| text(kernel.owned(thread))),
        (wide && system).then(|| count(thread.lwp())),
        Some(at),
        (places == Places::Both).then(|| called_from.map_or(Cell::Empty, |called_from| text(called_from.label()))),
        Some(Cell::State(thread.state_kind(), kernel.doing(thread))),
    ];
    cells.into_iter().flatten().collect()
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
    let columns = [
        Column::new("core", CellKind::Count),
        Column::new("state", CellKind::Text),
        Column::new("thread", CellKind::Thread),
        Column::new("exception", CellKind::Count),
        Column::new("exception_name", CellKind::Text).titled("exception name"),
        Column::new("under", CellKind::Text),
        Column::new("next", CellKind::Thread),
        Column::new("at", CellKind::Code),
    ];
    let row = |(core, cpu): (usize, &Cpu)| {
        let (thread, next) = match cpu.under {
            Under::Thread(thread) => (kernel.named(thread), Cell::Empty),
            Under::Scheduler(next) => (Cell::Empty, kernel.named(next)),
            Under::Idle | Under::Initialization | Under::StartUp => (Cell::Empty, Cell::Empty),
        };
        let (number, name) = match &cpu.above {
            Above::Exception(number, name) => (Some(*number), name.clone()),
            Above::Mode(mode) => (None, Some((*mode).to_owned())),
            Above::Nothing | Above::Interrupt | Above::Unknown => (None, None),
        };
        vec![
            count(u32::try_from(core).ok()),
            known(cpu.state()),
            thread,
            count(number),
            name.map_or(Cell::Empty, text),
            text(cpu.under.name()),
            next,
            match (cpu.pc, &cpu.function) {
                // A name that several share is left out.
                (Some(pc), None) => Cell::Named(pc, None),
                (pc, _) => address(pc),
            },
        ]
    };
    let rows: Vec<_> = kernel.cpus.iter().enumerate().map(row).collect();
    (!rows.is_empty()).then(|| Report { rows, ..Report::new("cpus", "CPUs", columns) })
}

/// All objects, or those that a thread holds or waits for, or that are used up.
fn held(kernel: &Kernel, all: bool) -> Report {
    let row = |object: &Object| {
        vec![text(object.kind.name()), text(object.label()), text(kernel.state(object)), text(kernel.waiting(object))]
    };
    let columns = [
        Column::new("object", CellKind::Text),
        Column::new("name", CellKind::Text),
        Column::new("state", CellKind::Text),
        Column::new("waiting", CellKind::Text).titled("threads waiting"),
    ];
    let title = if all { "Objects" } else { "Objects that are held, waited for or used up" };
    let rows = kernel.objects.iter().filter(|o| all || o.matters()).map(row).collect();
    Report { rows, ..Report::new("held", title, columns) }
}

/// The columns of the full report of threads, which only programs read.
const THREADS: [(&str, CellKind); 31] = [
    ("thread", CellKind::Thread),
    ("running", CellKind::Flag),
    ("core", CellKind::Count),
    ("state", CellKind::Text),
    ("state_code", CellKind::Count),
    ("doing", CellKind::Text),
    ("waits_for", CellKind::Object),
    ("waits_for_type", CellKind::Text),
    ("owner", CellKind::Thread),
    ("timed", CellKind::Flag),
    ("priority", CellKind::Count),
    ("own_priority", CellKind::Count),
    ("threshold", CellKind::Count),
    ("owns", CellKind::Text),
    ("run_count", CellKind::Count),
    ("stack_start", CellKind::Address),
    ("stack_size", CellKind::Count),
    ("stack_pointer", CellKind::Address),
    ("stack_used", CellKind::Count),
    ("stack_high", CellKind::Count),
    ("entry", CellKind::Code),
    ("at", CellKind::Code),
    ("at_how", CellKind::Text),
    ("called_from", CellKind::Code),
    ("called_from_file", CellKind::Text),
    ("called_from_line", CellKind::Count),
    ("lwp", CellKind::Count),
    ("kernel_stack_start", CellKind::Address),
    ("kernel_stack_size", CellKind::Count),
    ("kernel_stack_used", CellKind::Count),
    ("kernel_stack_high", CellKind::Count),
];

/// Threads with all that is known of them.
fn threads(kernel: &Kernel) -> Report {
    let rows = kernel.in_order().map(|thread| thread_row(kernel, thread)).collect();
    let columns = THREADS.map(|(name, kind)| Column::new(name, kind));
    Report { rows, ..Report::new("threads", "Threads", columns) }
}

/// One thread, with the cells of [`THREADS`].
fn thread_row(kernel: &Kernel, thread: &Thread) -> Vec<Cell> {
    let wait = thread.waits.as_ref();
    let calls = thread.kernel_stack.unwrap_or_default();
    let called_from = thread.called_from.as_ref();
    vec![
        kernel.named(thread.address),
        // Where it is not known which thread runs, none is shown as not running.
        if kernel.current.is_empty() { Cell::Empty } else { Cell::Flag(thread.core.is_some()) },
        count(thread.core.and_then(|c| u32::try_from(c).ok())),
        thread.state.map_or(Cell::Empty, |s| known(s.name())),
        count(thread.state.map(|s| s.0)),
        text(kernel.doing(thread)),
        wait.map_or(Cell::Empty, |w| Cell::Named(w.address, w.name.clone())),
        wait.map_or(Cell::Empty, |w| text(w.kind.name())),
        wait.and_then(|w| w.owner).map_or(Cell::Empty, |o| kernel.named(o)),
        thread.timed.map_or(Cell::Empty, Cell::Flag),
        count(thread.priority),
        count(thread.own_priority),
        count(thread.threshold),
        text(kernel.owned(thread)),
        count(thread.run_count),
        address(thread.stack.start),
        count(thread.stack.size),
        address(thread.stack.pointer),
        count(thread.stack.used),
        count(thread.stack.high.bytes(thread.stack.size)),
        address(thread.entry),
        address(thread.position.pc),
        known(&thread.position.how),
        called_from.map_or(Cell::Empty, |f| Cell::Named(f.pc, Some(f.function.clone()))),
        called_from.and_then(|f| f.file.clone()).map_or(Cell::Empty, Cell::Text),
        count(called_from.and_then(|f| f.line)),
        count(thread.lwp()),
        address(calls.start),
        count(calls.size),
        count(calls.used),
        count(calls.high.bytes(calls.size)),
    ]
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
    let mut columns = vec![Column::new("object", CellKind::Object), Column::new("state", CellKind::Text)];
    if kind == Kind::Mutex {
        columns.push(Column::new("owner", CellKind::Thread));
    }
    if kind == Kind::Timer {
        columns.push(Column::new("active", CellKind::Flag));
    }
    columns.extend(members(kind).iter().map(|(name, _, of)| Column::new(name, *of)));
    if kind != Kind::Timer {
        columns.push(Column::new("waiting", CellKind::Text));
    }
    let row = |object: &Object| {
        let mut cells = vec![kernel.named(object.address), text(kernel.state(object))];
        if kind == Kind::Mutex {
            cells.push(object.owner().map_or(Cell::Empty, |o| kernel.named(o)));
        }
        if kind == Kind::Timer {
            cells.push(object.active().map_or(Cell::Empty, Cell::Flag));
        }
        cells.extend(members(kind).iter().map(|(_, member, of)| match (object.get(member), of) {
            (None, _) => Cell::Empty,
            (Some(n), CellKind::Count) => Cell::Count(n),
            (Some(n), CellKind::Flag) => Cell::Flag(n != 0),
            (Some(n), _) => Cell::Address(n),
        }));
        if kind != Kind::Timer {
            cells.push(text(kernel.waiting(object)));
        }
        cells
    };
    let rows = kernel.objects.iter().filter(|o| o.kind == kind).map(row).collect();
    Report { rows, ..Report::new(kind.report(), kind.report(), columns) }
}
