//! What is told of a kernel: reports.

use super::position::RUNS;
use super::{Above, Cpu, Kernel, Kind, Object, Thread, Under};
use crate::abi::Addr;
use crate::report::{Cell, Column, Kind as CellKind, Report};

/// For whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Breadth {
    /// People with a line of this many columns: threads, and of the other objects what matters, or all.
    People {
        /// Columns of a line.
        width: usize,
        /// All objects.
        all: bool,
    },
    /// Programs: everything, with stable names.
    Everything,
}

/// From this many columns on people see more.
const WIDE: usize = 120;

/// Threads first; then, for people, what somebody holds or waits for and what is used up; for programs all objects, kind
/// by kind.
#[must_use]
pub fn reports(kernel: &Kernel, breadth: Breadth) -> Vec<Report> {
    match breadth {
        Breadth::People { width, all } => {
            let mut reports = vec![for_people(kernel, width >= WIDE)];
            reports.extend(Some(held(kernel, all)).filter(|held| !held.rows.is_empty()));
            reports
        }
        Breadth::Everything => {
            let kinds = Kind::ALL.into_iter().filter(|k| kernel.objects.iter().any(|o| o.kind == *k));
            let all = std::iter::once(threads(kernel)).chain(kinds.map(|k| objects(kernel, k)));
            all.chain(cpus(kernel)).collect()
        }
    }
}

const fn column(name: &'static str, kind: CellKind) -> Column {
    Column { name, kind }
}

fn text(text: impl Into<String>) -> Cell {
    Cell::Text(text.into())
}

fn count(n: Option<impl Into<u64>>) -> Cell {
    n.map_or(Cell::Empty, |n| Cell::Count(n.into()))
}

fn address(at: Option<Addr>) -> Cell {
    at.map_or(Cell::Empty, Cell::Address)
}

impl Kernel {
    fn name_of(&self, thread: Addr) -> Option<String> {
        self.thread(thread).map(Thread::label)
    }

    fn named(&self, at: Addr) -> Cell {
        let name = self.thread(at).map(|t| t.name.clone()).or_else(|| self.object(at).map(|o| o.name.clone()));
        Cell::Named(at, name.flatten())
    }

    /// What a thread does, in words: `mutex bus_mutex (low_task)`.
    #[must_use]
    pub fn doing(&self, thread: &Thread) -> String {
        thread.doing(&|owner| self.name_of(owner))
    }

    /// How an object stands, in words: `owned by low_task`, `2 of 4 messages`.
    #[must_use]
    pub fn state(&self, object: &Object) -> String {
        object.state(&|thread| self.name_of(thread))
    }

    /// One line about a thread: `mutex bus_mutex (low_task), priority 4`.
    #[must_use]
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

    /// Those that run first, the rest in the order of their creation.
    fn in_order(&self) -> impl Iterator<Item = &Thread> {
        let runs = self.threads.iter().filter(|t| t.core.is_some());
        runs.chain(self.threads.iter().filter(|t| t.core.is_none()))
    }
}

fn for_people(kernel: &Kernel, wide: bool) -> Report {
    let mut columns = vec![column("thread", CellKind::Text)];
    if wide {
        columns.push(column("address", CellKind::Address));
    }
    columns.extend([
        column("pri", CellKind::Text),
        column("stack", CellKind::Text),
        column("high", CellKind::Count),
        column("runs", CellKind::Count),
    ]);
    if wide {
        columns.extend([column("entry", CellKind::Code), column("owns", CellKind::Text)]);
    }
    let system = kernel.threads.iter().any(|t| t.pthread.is_some());
    if wide && system {
        columns.push(column("lwp", CellKind::Count));
    }
    // What a thread waits for is the last: where it does not fit it goes on below.
    columns.extend([column("at", CellKind::Code), column("state", CellKind::Text)]);
    let row = |thread: &Thread| {
        let mark = if thread.core.is_some() { "* " } else { "  " };
        let mut cells = vec![text(format!("{mark}{}", thread.label()))];
        if wide {
            cells.push(Cell::Address(thread.address));
        }
        cells.extend([
            text(priority(thread)),
            text(stack(thread)),
            count(thread.stack.high.bytes(thread.stack.size)),
            count(thread.run_count),
        ]);
        if wide {
            let owns = thread.owns.iter().filter_map(|m| kernel.object(*m)).map(Object::label);
            cells.extend([address(thread.entry), text(owns.collect::<Vec<_>>().join(", "))]);
        }
        if wide && system {
            cells.push(count(thread.lwp()));
        }
        cells.push(match thread.position.pc {
            _ if thread.position.never_ran => text("never ran"),
            Some(pc) => Cell::Address(pc),
            None => Cell::Empty,
        });
        cells.push(text(kernel.doing(thread)));
        cells
    };
    let mut notes: Vec<String> = Vec::new();
    notes.extend(without_threads(kernel));
    if kernel.threads.iter().any(|t| t.inherits().is_some()) {
        notes.push("priority: what a thread runs at, and in brackets its own where it inherited another".to_owned());
    }
    if system {
        notes.push(
            "stack: these threads run on stacks of the operating system, not on those in their control blocks"
                .to_owned(),
        );
    }
    for thread in kernel.threads.iter().filter(|t| t.core.is_some() && !t.position.how.is_empty()) {
        let cpu = thread.core.and_then(|core| kernel.cpus.get(core));
        // Also where an exception is but inferred, the thread is not where the CPU is.
        let interrupted = cpu.is_some_and(|c| c.is_interrupted() || c.above == Above::Unknown);
        if thread.position.pc.is_none() || (interrupted && thread.position.how != RUNS) {
            notes.push(format!("{}: {}", thread.label(), thread.position.how));
        }
    }
    Report { name: "threads", columns, rows: kernel.in_order().map(row).collect(), notes }
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
    let name = |thread: Addr| kernel.name_of(thread).unwrap_or_else(|| format!("{thread:#x}"));
    let all: Option<Vec<String>> = kernel.cpus.iter().map(|cpu| cpu.without_thread(&name)).collect();
    let Some(all) = all else { return Vec::new() };
    match all.as_slice() {
        [first, rest @ ..] if rest.iter().all(|other| other == first) => vec![first.clone()],
        _ => all.iter().enumerate().map(|(core, what)| format!("core {core}: {what}")).collect(),
    }
}

/// What each CPU does; nothing where nothing tells.
fn cpus(kernel: &Kernel) -> Option<Report> {
    let columns = vec![
        column("core", CellKind::Count),
        column("state", CellKind::Text),
        column("thread", CellKind::Thread),
        column("exception", CellKind::Count),
        column("exception_name", CellKind::Text),
        column("under", CellKind::Text),
        column("next", CellKind::Thread),
        column("at", CellKind::Code),
    ];
    let row = |(core, cpu): (usize, &Cpu)| {
        let (thread, next) = match cpu.under {
            Under::Thread(thread) => (kernel.named(thread), Cell::Empty),
            Under::Scheduler(next) => (Cell::Empty, kernel.named(next)),
            Under::Idle | Under::Initialization => (Cell::Empty, Cell::Empty),
        };
        let (number, name) = match &cpu.above {
            Above::Exception(number, name) => (Some(*number), name.clone()),
            Above::Mode(mode) => (None, Some((*mode).to_owned())),
            Above::Nothing | Above::Interrupt | Above::Unknown => (None, None),
        };
        vec![
            count(u32::try_from(core).ok()),
            text(cpu.state()),
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
    (!rows.is_empty()).then(|| Report { name: "cpus", columns, rows, notes: Vec::new() })
}

/// All objects, or those that somebody holds or waits for, or that are used up.
fn held(kernel: &Kernel, all: bool) -> Report {
    let row = |object: &Object| {
        let waiting = object.waiting.iter().map(|t| kernel.name_of(*t).unwrap_or_else(|| format!("{t:#x}")));
        vec![
            text(object.kind.name()),
            text(object.label()),
            text(kernel.state(object)),
            text(waiting.collect::<Vec<_>>().join(", ")),
        ]
    };
    Report {
        name: "held",
        columns: vec![
            column("object", CellKind::Text),
            column("name", CellKind::Text),
            column("state", CellKind::Text),
            column("waiting", CellKind::Text),
        ],
        rows: kernel.objects.iter().filter(|o| all || o.matters()).map(row).collect(),
        notes: Vec::new(),
    }
}

/// Threads with all that is known of them.
fn threads(kernel: &Kernel) -> Report {
    let columns = vec![
        column("thread", CellKind::Thread),
        column("running", CellKind::Flag),
        column("core", CellKind::Count),
        column("state", CellKind::Text),
        column("state_code", CellKind::Count),
        column("doing", CellKind::Text),
        column("waits_for", CellKind::Object),
        column("waits_for_type", CellKind::Text),
        column("owner", CellKind::Thread),
        column("timed", CellKind::Flag),
        column("priority", CellKind::Count),
        column("own_priority", CellKind::Count),
        column("threshold", CellKind::Count),
        column("owns", CellKind::Text),
        column("run_count", CellKind::Count),
        column("stack_start", CellKind::Address),
        column("stack_size", CellKind::Count),
        column("stack_pointer", CellKind::Address),
        column("stack_used", CellKind::Count),
        column("stack_high", CellKind::Count),
        column("entry", CellKind::Code),
        column("at", CellKind::Code),
        column("at_how", CellKind::Text),
        column("lwp", CellKind::Count),
        column("kernel_stack_start", CellKind::Address),
        column("kernel_stack_size", CellKind::Count),
        column("kernel_stack_used", CellKind::Count),
        column("kernel_stack_high", CellKind::Count),
    ];
    let row = |thread: &Thread| {
        let wait = thread.waits.as_ref();
        let owns = thread.owns.iter().filter_map(|m| kernel.object(*m)).map(Object::label);
        let calls = thread.kernel_stack.unwrap_or_default();
        vec![
            kernel.named(thread.address),
            // Where nothing tells which thread runs, none is said not to.
            if kernel.current.is_empty() { Cell::Empty } else { Cell::Flag(thread.core.is_some()) },
            count(thread.core.and_then(|c| u32::try_from(c).ok())),
            text(thread.state.map_or("unknown", |s| s.name())),
            count(thread.state.map(|s| s.0)),
            text(kernel.doing(thread)),
            wait.map_or(Cell::Empty, |w| Cell::Named(w.address, w.name.clone())),
            wait.map_or(Cell::Empty, |w| text(w.kind.name())),
            wait.and_then(|w| w.owner).map_or(Cell::Empty, |o| kernel.named(o)),
            thread.timed.map_or(Cell::Empty, Cell::Flag),
            count(thread.priority),
            count(thread.own_priority),
            count(thread.threshold),
            text(owns.collect::<Vec<_>>().join(", ")),
            count(thread.run_count),
            address(thread.stack.start),
            count(thread.stack.size),
            address(thread.stack.pointer),
            count(thread.stack.used),
            count(thread.stack.high.bytes(thread.stack.size)),
            address(thread.entry),
            address(thread.position.pc),
            text(thread.position.how.clone()),
            count(thread.lwp()),
            address(calls.start),
            count(calls.size),
            count(calls.used),
            count(calls.high.bytes(calls.size)),
        ]
    };
    Report { name: "threads", columns, rows: kernel.in_order().map(row).collect(), notes: Vec::new() }
}

/// What the members of an object are called for programs, and what they hold.
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

/// All objects of one kind.
fn objects(kernel: &Kernel, kind: Kind) -> Report {
    let mut columns = vec![column("object", CellKind::Object), column("state", CellKind::Text)];
    if kind == Kind::Mutex {
        columns.push(column("owner", CellKind::Thread));
    }
    if kind == Kind::Timer {
        columns.push(column("active", CellKind::Flag));
    }
    columns.extend(members(kind).iter().map(|(name, _, of)| column(name, *of)));
    if kind != Kind::Timer {
        columns.push(column("waiting", CellKind::Text));
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
            let waiting = object.waiting.iter().map(|t| kernel.name_of(*t).unwrap_or_else(|| format!("{t:#x}")));
            cells.push(text(waiting.collect::<Vec<_>>().join(", ")));
        }
        cells
    };
    let rows = kernel.objects.iter().filter(|o| o.kind == kind).map(row).collect();
    Report { name: kind.report(), columns, rows, notes: Vec::new() }
}
