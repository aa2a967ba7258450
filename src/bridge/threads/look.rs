//! What a translation asks of a stopped target.

use std::rc::Rc;

use crate::debugger::{ListedThread, ThreadList};

/// What a stub lists as its threads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begun {
    /// Its CPUs, by the numbers that it gives them; empty where it gives none.
    Cpus(Vec<String>),
    /// Threads of an RTOS that it reads itself.
    Threads,
}

/// What is out of date.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forget {
    /// Registers of a CPU were written.
    Registers,
    /// A breakpoint was set or removed.
    Code,
    /// The target runs.
    Stop,
    /// Memory was written, or the stub did something of its own.
    All,
}

/// A CPU at a stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped {
    /// The number of the thread that it runs, or its own.
    pub id: usize,
    /// Its program counter.
    pub pc: Option<u64>,
}

/// The threads at a stop.
#[derive(Debug)]
pub struct Listing {
    /// The kernel's threads, and the CPUs that run none.
    pub threads: ThreadList,
    /// Why the CPUs are shown alone, or what is wrong with the list.
    pub remark: Option<String>,
}

/// What can be asked of a stopped target, between a debugger's packet and its answer.
pub trait Look {
    /// Asks the stub which threads it shows itself.
    fn begin(&mut self) -> Begun;
    /// What this CPU runs, with as few reads as possible.
    fn stopped(&mut self, cpu: usize) -> Stopped;
    /// All threads.
    fn list(&mut self) -> Rc<Listing>;
    /// What the last listing was remarkable for; nothing is read.
    fn remark(&self) -> Option<String>;
    /// The stub's `g` of this CPU; `None` where it gives none.
    fn registers(&mut self, cpu: usize) -> Option<Vec<Option<u8>>>;
    /// The `g` of a thread that does not run.
    fn saved(&mut self, thread: &ListedThread) -> Option<Vec<Option<u8>>>;
    /// Name and bytes of the stub's register of this number.
    fn described(&mut self, number: u32) -> Option<(String, usize)>;
    /// Lets the stub's next packets be about this CPU.
    fn select(&mut self, cpu: usize);
    /// Bytes of code at this stop: a debugger asks for those around each frame again and again. `None` where they are no code,
    /// or cannot be read.
    fn code(&mut self, at: u64, len: usize) -> Option<Vec<u8>>;
    /// Drops what is out of date.
    fn forget(&mut self, what: Forget);
}
