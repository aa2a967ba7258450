//! One word of an event's payload: its name, its kind, and the words that stand for its numbers.

use std::sync::Arc;

/// How a payload word is to be read and printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ArgKind {
    /// Pointer to an object that may be in the registry.
    Ptr,
    /// Pointer to a thread; 0 is idle.
    ThreadPtr,
    /// A stack pointer.
    StackPtr,
    /// Any other address.
    Addr,
    /// An address in code: a function, or where one returns to.
    Code,
    /// The kernel's own state of interrupts. On ARM's M profile its low bits are the number of the exception.
    System,
    /// A number best read in hexadecimal.
    Hex,
    /// A number best read in decimal.
    Dec,
    /// Kernel timer ticks.
    Ticks,
    /// A thread state.
    State,
    /// A set of flags.
    Flags,
    /// An IPv4 address, most significant byte first.
    Ip,
    /// A number of bytes.
    Size,
}

impl ArgKind {
    const ALL: [(Self, &'static str); 13] = [
        (Self::Ptr, "ptr"),
        (Self::ThreadPtr, "thread_ptr"),
        (Self::StackPtr, "stack_ptr"),
        (Self::Addr, "addr"),
        (Self::Code, "code"),
        (Self::System, "system"),
        (Self::Hex, "hex"),
        (Self::Dec, "dec"),
        (Self::Ticks, "ticks"),
        (Self::State, "state"),
        (Self::Flags, "flags"),
        (Self::Ip, "ip"),
        (Self::Size, "size"),
    ];

    /// Its name in JSON and in listings.
    #[must_use]
    pub fn name(self) -> &'static str {
        if self == Self::System {
            // Nothing for a reader: only what interrupts are numbered by.
            return "hex";
        }
        Self::ALL.iter().find(|(k, _)| *k == self).map_or("hex", |(_, n)| n)
    }

    /// The kind of this name in a catalogue file.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, n)| *n == text).map(|(k, _)| *k)
    }

    /// True where JSON gives the value as a number, not as a hex string.
    #[must_use]
    pub const fn is_number(self) -> bool {
        matches!(self, Self::Dec | Self::Size | Self::Ticks | Self::State)
    }
}

/// Words for numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Enumeration {
    /// Its name in catalogue files.
    pub name: String,
    /// Each value with its word.
    pub words: Vec<(u64, String)>,
    /// True where a value is a set of bits, each with its word.
    pub bits: bool,
}

impl Enumeration {
    /// The word for this value.
    #[must_use]
    pub fn word(&self, value: u64) -> Option<&str> {
        self.words.iter().find(|(v, _)| *v == value).map(|(_, w)| w.as_str())
    }
}

/// What one payload word means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldDef {
    /// Its full name: `wait_option`, `queue_ptr`. JSON and `--arg` use it.
    pub name: String,
    /// Its short name for a table: `wait`, `queue`. `--arg` takes it as well.
    pub label: String,
    /// How to read it.
    pub kind: ArgKind,
    /// Words for its numbers.
    pub words: Option<Arc<Enumeration>>,
}

impl FieldDef {
    /// A field with the short name that its full name gives.
    #[must_use]
    pub fn new(name: &str, kind: ArgKind, words: Option<Arc<Enumeration>>) -> Self {
        Self { name: name.to_owned(), label: label(name).to_owned(), kind, words }
    }
}

/// The short name of a field. A table has little room, and `_ptr` tells a reader nothing.
fn label(name: &str) -> &str {
    match name {
        "wait_option" => "wait",
        "new_state" | "new_priority" | "new_threshold" | "new_timeslice" | "new_time" => "now",
        "previous_state" | "old_priority" | "old_threshold" | "old_timeslice" => "was",
        "thread_state" | "socket_state" => "state",
        "next_thread" | "next_thread_ptr" => "next",
        "owning_thread" => "owner",
        "own_count" => "owned",
        "stack_ptr" => "sp",
        "isr_number" => "isr",
        "system_state" => "system",
        "preempt_disable" => "disable",
        "requested_flags" => "want",
        "current_flags" => "have",
        "flags_to_set" => "flags",
        "get_option" | "set_option" => "option",
        "suspended_count" => "suspended",
        "current_count" | "initial_count" => "count",
        "sleep_value" => "ticks",
        "remaining_blocks" => "blocks",
        "size_requested" | "request_size" | "requested_length" => "size",
        "destination_ptr" | "destination_ip_address" => "to",
        "source_ptr" | "source_ip_address" => "from",
        "new_interrupt_posture" => "posture",
        other => other.strip_suffix("_ptr").unwrap_or(other),
    }
}
