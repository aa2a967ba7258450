//! The threads that a debugger sees, and which of their registers are described to it.

use std::cell::Cell;
use std::collections::HashSet;

use crate::abi::Endian;
use crate::cpu::{Architecture, Group, Kind, Register, Registers};

/// The most threads that are shown.
pub const MAX_THREADS: usize = 4096;
/// The most characters of a name or a remark.
const MAX_TEXT: usize = 400;
/// The largest number of a thread: GDB sends it back as an `int`.
const MAX_ID: u64 = i32::MAX as u64;

/// One thread, as its source has it.
#[derive(Debug, Clone, Default)]
pub struct Thread {
    /// Its control block's address, of which its number is made; 0 where a number is to be given.
    pub id: u64,
    /// The CPU whose registers these are, by its place among those that stopped.
    pub cpu: Option<usize>,
    /// Its name; hostile text.
    pub name: String,
    /// A remark in one line; hostile text.
    pub extra: String,
    /// Its registers, as far as they are known.
    pub registers: Option<Registers>,
}

/// A thread in the list, its texts escaped.
#[derive(Debug, Clone)]
pub struct ListedThread {
    /// Its number.
    pub id: usize,
    /// Its control block's address; 0 for none.
    pub address: u64,
    /// The CPU whose registers these are.
    pub cpu: Option<usize>,
    /// Its name, escaped.
    pub name: String,
    /// A remark, escaped.
    pub extra: String,
    registers: Option<Registers>,
}

impl ListedThread {
    /// Its registers, as far as they are known.
    pub const fn registers(&self) -> Option<&Registers> {
        self.registers.as_ref()
    }

    /// What it is called and what it does, in one line.
    pub fn described(&self) -> String {
        if self.name.is_empty() { self.extra.clone() } else { format!("{}: {}", self.name, self.extra) }
    }

    fn has_pc(&self) -> bool {
        self.registers.as_ref().is_some_and(|r| r.pc().is_some())
    }

    fn knows(&self, register: &str) -> bool {
        self.registers.as_ref().is_some_and(|r| r.get(register).is_some())
    }
}

/// The remark on a thread that is given a program counter.
const NO_PC: &str = "its position is not known: pc 0 is reported, because GDB cannot attach without one";

/// All that debuggers ask about threads.
#[derive(Debug, Clone)]
pub struct ThreadList {
    architecture: Option<Architecture>,
    endian: Endian,
    threads: Vec<ListedThread>,
    /// The registers that are described to the debugger, in its order.
    described: Vec<Register>,
    /// The thread that was last asked about: what stops is that one.
    selected: Cell<usize>,
}

impl ThreadList {
    /// The list has at least one thread: without any a debugger takes the target for gone.
    pub fn new(architecture: Option<Architecture>, endian: Endian, threads: Vec<Thread>) -> Self {
        let mut threads = numbered(threads, architecture);
        if threads.is_empty() {
            threads.push(ListedThread {
                id: 1,
                address: 0,
                cpu: None,
                name: String::new(),
                extra: String::new(),
                registers: None,
            });
        }
        if let (Some(architecture), false, Some(first)) =
            (architecture, threads.iter().any(ListedThread::has_pc), threads.first_mut())
        {
            first.registers.get_or_insert_with(|| Registers::new(architecture)).set("pc", 0);
            let and = if first.extra.is_empty() { "" } else { "; " };
            first.extra.push_str(&format!("{and}{NO_PC}"));
        }
        let described = architecture.map_or_else(Vec::new, |a| described(a, &threads));
        let list = Self { architecture, endian, threads, described, selected: Cell::new(1) };
        list.begin();
        list
    }

    /// The same with another number for what a CPU runs.
    pub fn renumbered(&self, cpu: usize, id: usize) -> Self {
        let mut list = self.clone();
        list.threads.iter_mut().filter(|thread| thread.cpu == Some(cpu)).for_each(|thread| thread.id = id);
        list
    }

    /// The processor; `None` where it is not known.
    pub const fn architecture(&self) -> Option<Architecture> {
        self.architecture
    }

    /// The processor's byte order.
    pub const fn endian(&self) -> Endian {
        self.endian
    }

    /// Describes floating-point registers of this size, known or not; 0: none. A debugger refuses a program whose calls
    /// use registers that the target does not have.
    pub fn describe_floats(&mut self, bits: u16) {
        let all = self.architecture.map_or(&[][..], Architecture::registers);
        self.described.retain(|r| r.group != Group::Float);
        let floats = all.iter().filter(|r| r.group == Group::Float && bits > 0).copied();
        self.described.extend(floats.map(|r| if r.kind == Kind::Double { r.sized(bits) } else { r }));
        self.described.sort_by_key(Register::number);
    }

    /// The threads, that which stopped first.
    pub fn threads(&self) -> &[ListedThread] {
        &self.threads
    }

    /// The thread of this number.
    pub fn thread(&self, id: usize) -> Option<&ListedThread> {
        self.threads.iter().find(|s| s.id == id)
    }

    /// The thread that was last asked about.
    pub fn selected(&self) -> usize {
        self.selected.get()
    }

    /// Selects a thread; one that is not there is not selected.
    pub fn select(&self, id: usize) {
        if self.thread(id).is_some() {
            self.selected.set(id);
        }
    }

    /// A new client has selected nothing.
    pub fn begin(&self) {
        self.selected.set(self.stopped());
    }

    /// The thread that stopped, to a debugger: the first whose program counter is known, without which GDB does not
    /// attach.
    pub fn stopped(&self) -> usize {
        let first = self.threads.iter().find(|s| s.has_pc()).or_else(|| self.threads.first());
        first.map_or(1, |s| s.id)
    }

    /// The described register of this number, of the selected thread, as a `p` packet has it; `None` where it is not
    /// described, or a byte of it is not known.
    pub fn register(&self, number: u16) -> Option<Vec<u8>> {
        let register = self.described.iter().find(|r| r.number() == Some(number))?;
        self.bytes(self.thread(self.selected())?, register).into_iter().collect()
    }

    fn bytes(&self, thread: &ListedThread, register: &Register) -> Vec<Option<u8>> {
        let known = thread.registers.as_ref().map(|r| r.encode(register, self.endian));
        known.unwrap_or_else(|| vec![None; register.bytes()])
    }

    /// All described registers of a thread, as a `g` packet has them.
    pub fn all_bytes(&self, thread: &ListedThread) -> Vec<Option<u8>> {
        if self.described.is_empty() {
            // One register of four bytes, unavailable: an empty answer would read as "not supported".
            return vec![None; 4];
        }
        self.described.iter().flat_map(|register| self.bytes(thread, register)).collect()
    }

    /// The target description; empty where the processor is not known.
    pub fn target_xml(&self) -> String {
        self.architecture.map_or_else(String::new, |a| a.target_xml(&self.described))
    }
}

/// Threads with their numbers and registers: those of another processor have no place in what is described. A thread's number
/// is the lower 31 bits of its control block's address, so that it is the same at every stop; a number is given where these
/// are 0 or another thread has them.
fn numbered(threads: Vec<Thread>, architecture: Option<Architecture>) -> Vec<ListedThread> {
    let (mut listed, mut taken, mut free) = (Vec::new(), HashSet::new(), 1usize..);
    for thread in threads.into_iter().take(MAX_THREADS) {
        let id = usize::try_from(thread.id & MAX_ID).ok().filter(|id| *id != 0 && !taken.contains(id));
        let Some(id) = id.or_else(|| free.find(|number| !taken.contains(number))) else { break };
        taken.insert(id);
        let registers = thread.registers.filter(|r| Some(r.architecture()) == architecture);
        let (name, extra) = (text(&thread.name), text(&thread.extra));
        listed.push(ListedThread { id, address: thread.id, cpu: thread.cpu, name, extra, registers });
    }
    listed
}

/// The registers that are described: a group of them whole or not at all.
fn described(architecture: Architecture, threads: &[ListedThread]) -> Vec<Register> {
    let all = architecture.registers();
    let known = |name: &str| threads.iter().any(|thread| thread.knows(name));
    let is_described = |group: Group| match group {
        Group::General => true,
        Group::Fault => false,
        // GDB unwinds nothing by a Cortex-M's stack pointers of which the main one is unknown, and does without both.
        Group::System if architecture == Architecture::CortexM => known("msp"),
        Group::System | Group::Float => all.iter().any(|r| r.group == group && known(r.name)),
    };
    all.iter().filter(|r| r.number().is_some() && is_described(r.group)).copied().collect()
}

/// Text of a target, escaped and bounded.
fn text(text: &str) -> String {
    let mut end = text.char_indices().skip(MAX_TEXT).map(|(at, _)| at);
    match end.next().and_then(|at| text.get(..at)) {
        Some(head) => format!("{}~", crate::output::escape(head)),
        None => crate::output::escape(text),
    }
}
