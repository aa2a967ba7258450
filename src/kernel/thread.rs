//! One thread: its control block in words.

use super::About;
use super::layout::{Kind, Layout};
use super::object::{Object, name_of};
use super::port::FLOATS;
use super::position::Position;
use super::stack::Stack;
use super::walk::Node;
use crate::abi::{Addr, Region};
use crate::mem::Memory;
use crate::report::StateKind;

/// What a thread does: the kernel's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State(pub u32);

impl State {
    /// Ready to run, or running.
    pub const READY: Self = Self(0);
    /// Its function has returned.
    pub const COMPLETED: Self = Self(1);
    /// It sleeps.
    pub const SLEEPS: Self = Self(4);
    /// `tx_thread_terminate` ended it.
    pub const TERMINATED: Self = Self(2);
    /// In the middle of a change of its priority, while the kernel has taken it from the list of ready threads.
    pub const PRIORITY_CHANGE: Self = Self(14);

    /// In words.
    pub const fn name(self) -> &'static str {
        match self.0 {
            0 => "ready",
            1 => "completed",
            2 => "terminated",
            3 => "suspended",
            4 => "sleeps",
            5 => "queue",
            6 => "semaphore",
            7 => "event flags",
            8 => "block pool",
            9 => "byte pool",
            10 => "I/O driver",
            11 => "file",
            12 => "TCP/IP",
            13 => "mutex",
            14 => "priority change",
            _ => "unknown",
        }
    }
}

/// What a thread waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// What it is.
    pub kind: Kind,
    /// Its control block.
    pub address: Addr,
    /// Its name, where one is known.
    pub name: Option<String>,
    /// The owner of a mutex.
    pub owner: Option<Addr>,
    /// Of a queue that is full: false where the thread is in the call that takes a message, true where it is in one that puts
    /// one.
    pub sends: Option<bool>,
    /// More about it: `wants 0x7 (all)`, `full`; empty where there is nothing to say.
    pub more: String,
}

impl Wait {
    /// Its name; the address where it has none.
    pub fn label(&self) -> String {
        self.name.clone().unwrap_or_else(|| format!("{:#x}", self.address))
    }

    pub(super) fn of(thread: &Thread, kind: Kind, address: Addr, object: Option<&Object>) -> Self {
        let more = match (kind, object) {
            (Kind::EventFlags, _) => match (thread.suspend_info, thread.suspend_option) {
                (Some(flags), Some(option)) => {
                    format!("wants {flags:#x}, {}", if option & 2 == 0 { "any" } else { "all" })
                }
                _ => String::new(),
            },
            (Kind::Queue, Some(queue)) => match (queue.get("enqueued"), queue.get("available_storage")) {
                (Some(0), Some(0)) => String::new(),
                (Some(0), _) => "empty".to_owned(),
                (_, Some(0)) => "full".to_owned(),
                _ => String::new(),
            },
            _ => String::new(),
        };
        Self {
            kind,
            address,
            name: object.and_then(|o| o.name.clone()),
            owner: object.and_then(Object::owner),
            sends: None,
            more,
        }
    }
}

/// The event flags that a thread waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// Them.
    pub flags: u64,
    /// True where all of them are needed, false where any one is enough.
    pub all: bool,
    /// True where the thread that gets them clears them.
    pub clears: bool,
}

/// The first function of a thread that is neither of the kernel nor of the C library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CalledFrom {
    /// Where it goes on.
    pub pc: Addr,
    /// Its name. Hostile text: escape before printing.
    pub function: String,
    /// Its source file, as the compiler recorded it. Hostile text.
    pub file: Option<String>,
    /// The line in it.
    pub line: Option<u32>,
}

impl CalledFrom {
    /// `control_step (app.c:133)`. Hostile text.
    pub fn label(&self) -> String {
        let file = self.file.as_deref().map(|file| file.rsplit(['/', '\\']).next().unwrap_or(file));
        match (file, self.line) {
            (Some(file), Some(line)) => format!("{} ({file}:{line})", self.function),
            _ => self.function.clone(),
        }
    }
}

/// Which stacks a thread has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stacks {
    /// One of its own.
    Own,
    /// It is a module's: one of its own, and one for calls of the kernel where its module runs in user mode.
    Module,
    /// Those of the operating system; that in its control block is not used.
    System,
    /// It is a module's, or may be, and it is not known where its stacks are.
    Unknown,
}

/// A thread as its control block has it.
#[derive(Debug, Clone)]
pub struct Thread {
    /// Its control block.
    pub address: Addr,
    /// Its name, where one is known. Hostile text: escape before printing.
    pub name: Option<String>,
    /// Where its name is.
    pub name_at: Option<Addr>,
    /// What it does.
    pub state: Option<State>,
    /// The priority that it runs at.
    pub priority: Option<u32>,
    /// The priority that it was given; another than `priority` where it inherits one.
    pub own_priority: Option<u32>,
    /// Threads of this priority and below it do not preempt it.
    pub threshold: Option<u32>,
    /// Ticks for which it may run before threads of its priority do; 0 where nothing ends its turn.
    pub time_slice: Option<u64>,
    /// How often it was given the processor.
    pub run_count: Option<u64>,
    /// Its function.
    pub entry: Option<Addr>,
    /// What that function is called with.
    pub parameter: Option<u64>,
    /// Its stack.
    pub stack: Stack,
    /// The stack that a module's thread is on while it calls the kernel.
    pub kernel_stack: Option<Stack>,
    /// Which stacks it has.
    pub stacks: Stacks,
    /// Whether the frame that it saved holds floating-point registers, where its control block says so.
    pub floats: Option<bool>,
    /// True where it waits for a time at most, or sleeps.
    pub timed: Option<bool>,
    /// At most so many ticks are left of that time: the kernel counts them down in steps of its timer wheel.
    pub ticks_left: Option<u64>,
    /// What it waits for.
    pub waits: Option<Wait>,
    /// Mutexes that it owns.
    pub owns: Vec<Addr>,
    /// How many mutexes it counts that it owns.
    pub owned_mutexes: Option<u64>,
    /// The core that it runs on; `None` where it does not run.
    pub core: Option<usize>,
    /// The cores that must not run it, one bit for each; `None` where debug information does not show that.
    pub excluded: Option<u64>,
    /// The stack pointer in its control block: stale while it runs.
    pub saved: Option<Addr>,
    /// The thread of the operating system that it is, in the Linux port: its `pthread_t`. Such a thread does not use the
    /// stack in its control block.
    pub pthread: Option<Addr>,
    /// Where it was stopped.
    pub position: Position,
    /// The application's function that called the kernel, where its stack was unwound.
    pub called_from: Option<CalledFrom>,
    /// To be suspended once it leaves the kernel.
    pub delayed_suspend: bool,
    /// The last byte of the stack that its control block names.
    pub(super) stack_end: Option<Addr>,
    suspended_on: Option<Addr>,
    /// The function of the kernel that ends its wait, where a time-out does.
    pub cleanup: Option<Addr>,
    pub(super) suspended_next: Option<Addr>,
    suspend_info: Option<u64>,
    suspend_option: Option<u64>,
    more_info: Option<u64>,
    /// What its last call that waited returned.
    suspend_status: Option<u64>,
    /// The stack that its control block names, whichever that is: where, and how many bytes.
    named: Option<(Addr, u64)>,
    /// Where a module's thread goes on with its own stack when it has left the kernel.
    module_pointer: Option<Addr>,
}

/// The bytes of a thread's control block, by members.
struct Block<'a> {
    layout: &'a Layout,
    node: &'a Node,
}

impl Block<'_> {
    fn get(&self, name: &str) -> Option<u64> {
        self.layout.thread.get(&self.node.bytes, self.layout.shape.endian, name)
    }

    fn small(&self, name: &str) -> Option<u32> {
        self.get(name).and_then(|n| u32::try_from(n).ok())
    }

    /// The `pthread_t` in the Linux port.
    fn pthread(&self) -> Option<Addr> {
        self.get("tx_thread_linux_thread_id").filter(|id| *id != 0)
    }

    /// `modules`: some are loaded.
    fn stacks(&self, about: &About<'_>, modules: bool) -> Stacks {
        let in_program =
            || self.get("tx_thread_entry").is_some_and(|entry| about.symbols.function(entry & !1).is_some());
        match (self.get("tx_thread_module_instance_ptr"), self.get("tx_thread_module_kernel_stack_start")) {
            _ if self.pthread().is_some() => Stacks::System,
            (Some(0), _) => Stacks::Own,
            (Some(_), Some(_)) => Stacks::Module,
            (None, _) if !modules || in_program() => Stacks::Own,
            _ => Stacks::Unknown,
        }
    }

    /// The stack that every control block names.
    fn named(&self) -> Stack {
        let (start, size) = (self.get("tx_thread_stack_start"), self.get("tx_thread_stack_size"));
        Stack { start, size, ..Stack::default() }
    }

    /// A stack of a module's thread.
    fn of_module(&self, start: &str, size: &str) -> Option<Stack> {
        let start = self.get(start).filter(|at| *at != 0)?;
        Some(Stack { start: Some(start), size: self.get(size), ..Stack::default() })
    }

    /// The thread's own stack, and that for its calls of the kernel.
    fn both_stacks(&self, stacks: Stacks) -> (Stack, Option<Stack>) {
        match stacks {
            Stacks::Own | Stacks::System => (self.named(), None),
            Stacks::Module => (
                self.of_module("tx_thread_module_stack_start", "tx_thread_module_stack_size")
                    .unwrap_or_else(|| self.named()),
                self.of_module("tx_thread_module_kernel_stack_start", "tx_thread_module_kernel_stack_size"),
            ),
            Stacks::Unknown => (Stack::default(), None),
        }
    }
}

/// `TX_NO_MEMORY` (`tx_api.h`).
const NO_MEMORY: u64 = 0x10;
/// What calls return that got nothing in their time (`tx_api.h`).
const GOT_NOTHING: [(u64, &str); 5] = [
    (0x07, "TX_NO_EVENTS"),
    (0x0A, "TX_QUEUE_EMPTY"),
    (0x0B, "TX_QUEUE_FULL"),
    (0x0D, "TX_NO_INSTANCE"),
    (NO_MEMORY, "TX_NO_MEMORY"),
];

impl Thread {
    /// The event flags that it waits for, or waited for last.
    pub fn wanted(&self) -> Option<Wanted> {
        let (flags, option) = (self.suspend_info?, self.suspend_option?);
        Some(Wanted { flags, all: option & 2 != 0, clears: option & 1 != 0 })
    }

    /// True where it ran before, and is suspended at its beginning again: a call reset it, and none resumed it.
    pub fn is_reset(&self) -> bool {
        let is_suspended = self.state == Some(State(3));
        is_suspended && self.position.never_ran && self.run_count.is_some_and(|runs| runs > 0)
    }

    /// The bytes that it asks a byte pool for, where it waits for them.
    pub fn asks_bytes(&self) -> Option<u64> {
        let is_so = self.state.and_then(|state| Kind::of_state(state.0)) == Some(Kind::BytePool);
        self.suspend_info.filter(|_| is_so)
    }

    /// The pool for whose memory it waited last, in vain (`TX_NO_MEMORY`), and the bytes that it asked a byte pool for.
    pub fn got_no_memory(&self) -> Option<(Addr, u64)> {
        let is_over = self.state == Some(State::READY) && self.suspend_status == Some(NO_MEMORY);
        self.suspended_last().filter(|_| is_over).zip(self.suspend_info)
    }

    /// The object for which it waited last, where that wait ended without what it waited for, and what the call returned: the status of a
    /// call that timed out (`tx_api.h`). `None` while it waits.
    pub fn got_nothing(&self) -> Option<(Addr, &'static str)> {
        let waits = self.state.is_none_or(|state| Kind::of_state(state.0).is_some());
        let (_, name) = GOT_NOTHING.iter().find(|(status, _)| self.suspend_status == Some(*status))?;
        self.suspended_last().filter(|_| !waits).map(|at| (at, *name))
    }

    /// Where the message goes that it waits for, or comes from that it waits to send.
    pub fn message_buffer(&self) -> Option<Addr> {
        let is_so = self.state.and_then(|state| Kind::of_state(state.0)) == Some(Kind::Queue);
        self.more_info.filter(|buffer| is_so && *buffer != 0)
    }

    /// `modules`: some are loaded.
    pub(super) fn read(
        memory: &mut dyn Memory,
        layout: &Layout,
        node: &Node,
        about: &About<'_>,
        modules: bool,
    ) -> Self {
        let block = Block { layout, node };
        let get = |name| block.get(name);
        let stacks = block.stacks(about, modules);
        let (stack, kernel_stack) = block.both_stacks(stacks);
        let saved = get("tx_thread_stack_ptr");
        let mut thread = Self {
            address: node.address,
            name: name_of(memory, get("tx_thread_name"), node.address, about.names),
            name_at: get("tx_thread_name").filter(|p| *p != 0),
            state: block.small("tx_thread_state").map(State),
            priority: block.small("tx_thread_priority"),
            own_priority: block.small("tx_thread_user_priority"),
            threshold: block.small("tx_thread_preempt_threshold"),
            time_slice: get("tx_thread_new_time_slice"),
            run_count: get("tx_thread_run_count"),
            entry: get("tx_thread_entry"),
            parameter: get("tx_thread_entry_parameter"),
            stack,
            kernel_stack,
            stacks,
            // A value other than 0 and 1 was overwritten.
            floats: FLOATS.iter().find_map(|name| get(name)).filter(|flag| *flag <= 1).map(|flag| flag == 1),
            timed: get("tx_timer_internal_list_head").map(|list| list != 0),
            ticks_left: get("tx_timer_internal_remaining_ticks"),
            waits: None,
            owns: Vec::new(),
            owned_mutexes: get("tx_thread_owned_mutex_count"),
            core: None,
            excluded: get("tx_thread_smp_cores_excluded"),
            saved,
            pthread: block.pthread(),
            position: Position::default(),
            called_from: None,
            delayed_suspend: get("tx_thread_delayed_suspend").is_some_and(|d| d != 0),
            stack_end: get("tx_thread_stack_end"),
            suspended_on: get("tx_thread_suspend_control_block"),
            cleanup: get("tx_thread_suspend_cleanup"),
            suspended_next: get("tx_thread_suspended_next"),
            suspend_info: get("tx_thread_suspend_info"),
            suspend_option: get("tx_thread_suspend_option"),
            more_info: get("tx_thread_additional_suspend_info"),
            suspend_status: get("tx_thread_suspend_status"),
            named: block.get("tx_thread_stack_start").zip(block.get("tx_thread_stack_size")),
            // Its lowest bit says what was pushed there.
            module_pointer: get("tx_thread_module_stack_ptr").map(|sp| sp & !3),
        };
        if stacks != Stacks::System {
            thread.set_pointer(saved);
            if about.stacks {
                thread.stack.measure(memory);
                thread.kernel_stack.iter_mut().for_each(|stack| stack.measure(memory));
            }
        }
        thread
    }

    /// Takes `pointer` for its stack pointer: of whichever of its stacks it is in.
    pub(super) fn set_pointer(&mut self, pointer: Option<Addr>) {
        if self.stacks == Stacks::Unknown {
            return;
        }
        let calls = self.kernel_stack.as_mut().filter(|stack| pointer.is_some_and(|sp| stack.holds(sp)));
        if let Some(stack) = calls {
            stack.set_pointer(pointer);
            self.stack.set_pointer(self.module_pointer);
            return;
        }
        self.stack.set_pointer(pointer);
        // Outside of the kernel nothing of it is in use.
        let empty = pointer.and(self.kernel_stack.as_ref().and_then(Stack::end));
        self.kernel_stack.iter_mut().for_each(|stack| stack.set_pointer(empty));
    }

    /// True where an address is in one of its stacks.
    pub fn holds(&self, address: Addr) -> bool {
        self.stack.holds(address) || self.kernel_stack.is_some_and(|stack| stack.holds(address))
    }

    /// True where the stack that its control block names ends where its start and its size put it.
    pub fn has_whole_stack(&self) -> bool {
        let last = self.named.and_then(|(start, size)| start.checked_add(size.checked_sub(1)?));
        last.is_some() && last == self.stack_end
    }

    /// Its stacks: also what its control block names, where it is not known which of them that is.
    pub fn stacks(&self) -> impl Iterator<Item = Region> + '_ {
        let known = [Some(self.stack), self.kernel_stack].into_iter().flatten();
        let known = known.filter_map(|stack| stack.start.zip(stack.size));
        let named = self.named.filter(|_| self.stacks == Stacks::Unknown);
        known.chain(named).map(|(start, len)| Region { start, len })
    }

    /// The last byte of its stack by its control block, and by the start and the size in it: the kernel writes all three at once, so where
    /// they differ one of them was overwritten. `None` for a thread with other stacks.
    pub fn end_of_stack(&self) -> Option<(Addr, Addr)> {
        let last = self.stack.region().filter(|_| self.stacks == Stacks::Own)?.last()?;
        Some((self.stack_end?, last))
    }

    /// Its name, or its address.
    pub fn label(&self) -> String {
        self.name.clone().unwrap_or_else(|| format!("{:#x}", self.address))
    }

    /// The number of the operating system's thread that it is.
    pub fn lwp(&self) -> Option<u32> {
        self.position.registers.as_ref()?.lwp().filter(|_| self.pthread.is_some())
    }

    /// The object that it waited for last, also where it does not wait any more: nothing clears it. `None` where it never waited.
    #[must_use]
    pub fn suspended_last(&self) -> Option<Addr> {
        self.suspended_on.filter(|at| *at != 0)
    }

    /// What its state says it waits for, and the control block that it names, whether that is there or not.
    pub fn suspended_on(&self) -> Option<(Kind, Addr)> {
        // The control block of a wait that is over stays there.
        let kind = Kind::of_state(self.state?.0)?;
        Some((kind, self.suspended_on?))
    }

    pub(super) fn waits_on(&self, object: &Object) -> bool {
        self.suspended_on() == Some((object.kind, object.address))
    }

    /// The priority that it has from who waits for it: `None` where it runs at its own.
    pub fn inherits(&self) -> Option<u32> {
        let (now, own) = (self.priority?, self.own_priority?);
        (now != own).then_some(now)
    }

    /// What kind of state it is in.
    pub fn state_kind(&self) -> StateKind {
        match self.state {
            Some(State::READY) if self.core.is_some() => StateKind::Running,
            Some(State::READY) => StateKind::Ready,
            Some(State(1 | 2)) => StateKind::Ended,
            Some(State(3)) => StateKind::Suspended,
            Some(State(4..=14)) => StateKind::Blocked,
            _ => StateKind::Unknown,
        }
    }

    /// What it does, in words: `mutex bus_mutex of low_task`.
    pub(super) fn doing(&self, label: &dyn Fn(Addr) -> String) -> String {
        let Some(state) = self.state else { return "unknown".to_owned() };
        if self.core.is_some() && state == State::READY {
            return "runs".to_owned();
        }
        let mut text = match &self.waits {
            Some(wait) => {
                let mut text = format!("{} {}", wait.kind.name(), wait.label());
                if let Some(owner) = wait.owner.filter(|owner| *owner != 0) {
                    text.push_str(&format!(" ({})", label(owner)));
                }
                if !wait.more.is_empty() {
                    text.push_str(&format!(", {}", wait.more));
                }
                text
            }
            None if state.name() == "unknown" => format!("state {}", state.0),
            None => state.name().to_owned(),
        };
        if self.core.is_some() {
            text.push_str(", yet current");
        }
        if self.delayed_suspend {
            text.push_str(", to be suspended");
        }
        text
    }
}
