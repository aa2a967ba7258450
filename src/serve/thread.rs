//! The threads that a debugger sees, and which of their registers it is told about.

use std::cell::Cell;
use std::collections::HashSet;

use crate::abi::Endian;
use crate::cpu::{Architecture, Group, Kind, Register, Registers};

/// The most threads that are shown.
pub const MOST_THREADS: usize = 4096;
/// The most characters of a name or a remark.
const MOST_TEXT: usize = 400;
/// The largest number of a thread: GDB sends it back as an `int`.
const MOST_ID: u64 = i32::MAX as u64;

/// One thread, as whoever serves found it.
#[derive(Debug, Clone, Default)]
pub struct Thread {
    /// Its number: its control block's address. Where that of one thread is 0, taken, or too large for GDB, numbers are
    /// given.
    pub id: u64,
    /// Its name; hostile text.
    pub name: String,
    /// What else is to be said of it, in one line.
    pub extra: String,
    /// Its registers, as far as they are known.
    pub registers: Option<Registers>,
}

/// A thread that is served: its texts are fit for a terminal.
pub(super) struct Shown {
    pub(super) id: usize,
    pub(super) name: String,
    pub(super) extra: String,
    registers: Option<Registers>,
}

impl Shown {
    /// True where its program counter is known.
    fn stands(&self) -> bool {
        self.registers.as_ref().is_some_and(|r| r.pc().is_some())
    }
}

/// What is said of a thread that is given a program counter.
const NO_PC: &str = "where it stands is not known: pc 0 is there for GDB, which attaches to nothing without one";

/// All that debuggers ask about threads.
pub(super) struct Roster {
    pub(super) architecture: Option<Architecture>,
    pub(super) endian: Endian,
    threads: Vec<Shown>,
    /// The registers that are described to the debugger, in its order.
    pub(super) described: Vec<Register>,
    /// The thread that was last asked about: what stops is that one.
    selected: Cell<usize>,
}

impl Roster {
    /// At least one thread is always there: a debugger without any takes the target for gone.
    pub(super) fn new(architecture: Option<Architecture>, endian: Endian, threads: Vec<Thread>) -> Self {
        let fits = threads.iter().all(|t| t.id <= MOST_ID);
        let (mut shown, mut taken, mut next) = (Vec::new(), HashSet::new(), 1usize);
        for thread in threads.into_iter().take(MOST_THREADS) {
            let own = usize::try_from(thread.id).ok().filter(|id| fits && *id != 0 && !taken.contains(id));
            let id = own.unwrap_or_else(|| {
                while taken.contains(&next) {
                    next = next.saturating_add(1);
                }
                next
            });
            taken.insert(id);
            // Registers of another processor have no place in what is described.
            let registers = thread.registers.filter(|r| Some(r.architecture()) == architecture);
            shown.push(Shown { id, name: text(&thread.name), extra: text(&thread.extra), registers });
        }
        if shown.is_empty() {
            shown.push(Shown { id: 1, name: String::new(), extra: String::new(), registers: None });
        }
        if let (Some(architecture), false, Some(first)) =
            (architecture, shown.iter().any(Shown::stands), shown.first_mut())
        {
            first.registers.get_or_insert_with(|| Registers::new(architecture)).set("pc", 0);
            let and = if first.extra.is_empty() { "" } else { "; " };
            first.extra.push_str(&format!("{and}{NO_PC}"));
        }
        let known = |register: &Register| {
            let is = |s: &Shown| s.registers.as_ref().is_some_and(|r| r.get(register.name).is_some());
            register.group == Group::General || shown.iter().any(is)
        };
        let all = architecture.map_or(&[][..], Architecture::registers);
        // A group is described whole or not at all. GDB unwinds nothing by a Cortex-M's stack pointers of which the main
        // one is unknown, and does without both.
        let main_stack = || shown.iter().any(|s| s.registers.as_ref().is_some_and(|r| r.get("msp").is_some()));
        let group = |group: Group| match (architecture, group) {
            (_, Group::Fault) => false,
            (Some(Architecture::CortexM), Group::System) => main_stack(),
            _ => all.iter().filter(|r| r.group == group).any(known),
        };
        let described = all.iter().filter(|r| r.number().is_some() && group(r.group)).copied().collect();
        let roster = Self { architecture, endian, threads: shown, described, selected: Cell::new(1) };
        roster.begin();
        roster
    }

    /// Describes floating-point registers of this size, known or not; 0: none. A debugger refuses a program whose calls
    /// use registers that the target does not have.
    pub(super) fn describe_floats(&mut self, bits: u16) {
        let all = self.architecture.map_or(&[][..], Architecture::registers);
        self.described.retain(|r| r.group != Group::Float);
        let floats = all.iter().filter(|r| r.group == Group::Float && bits > 0).copied();
        self.described.extend(floats.map(|r| if r.kind == Kind::Double { r.sized(bits) } else { r }));
        self.described.sort_by_key(Register::number);
    }

    pub(super) fn threads(&self) -> &[Shown] {
        &self.threads
    }

    pub(super) fn thread(&self, id: usize) -> Option<&Shown> {
        self.threads.iter().find(|s| s.id == id)
    }

    /// The thread that was last asked about.
    pub(super) fn selected(&self) -> usize {
        self.selected.get()
    }

    /// What is not there is not selected.
    pub(super) fn select(&self, id: usize) {
        if self.thread(id).is_some() {
            self.selected.set(id);
        }
    }

    /// A new client has asked nothing.
    pub(super) fn begin(&self) {
        self.selected.set(self.stopped());
    }

    /// The thread that stopped, to a debugger: the first of which is known where it stands. GDB does not attach where
    /// the program counter is not available.
    pub(super) fn stopped(&self) -> usize {
        let first = self.threads.iter().find(|s| s.stands()).or_else(|| self.threads.first());
        first.map_or(1, |s| s.id)
    }

    /// One described register of a thread, as it goes over the link; a byte that is not known is `None`.
    pub(super) fn bytes(&self, thread: &Shown, register: &Register) -> Vec<Option<u8>> {
        let known = thread.registers.as_ref().map(|r| r.encode(register, self.endian));
        known.unwrap_or_else(|| vec![None; register.bytes()])
    }

    /// The target description; empty where the processor is not known.
    pub(super) fn target_xml(&self) -> String {
        self.architecture.map_or_else(String::new, |a| a.target_xml(&self.described))
    }

    /// All described registers of a thread.
    pub(super) fn all_bytes(&self, thread: &Shown) -> Vec<Option<u8>> {
        if self.described.is_empty() {
            // One register of four bytes, unavailable: an empty answer would read as "not supported".
            return vec![None; 4];
        }
        self.described.iter().flat_map(|register| self.bytes(thread, register)).collect()
    }
}

/// Text of a target, escaped and bounded.
fn text(text: &str) -> String {
    let mut end = text.char_indices().skip(MOST_TEXT).map(|(at, _)| at);
    match end.next().and_then(|at| text.get(..at)) {
        Some(head) => format!("{}~", crate::output::escape(head)),
        None => crate::output::escape(text),
    }
}
