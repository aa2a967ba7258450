//! One word of an event's payload: its name, its kind, and the words for its numbers.

use std::sync::Arc;

use crate::abi::Endian;

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
    /// A number with a sign.
    Int,
    /// Address of a string.
    Str,
    /// The number of a process, which may be in the registry under that number.
    Process,
    /// Characters, from this word to the end of the payload or a zero byte.
    Text,
}

impl ArgKind {
    const ALL: [(Self, &'static str); 17] = [
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
        (Self::Int, "int"),
        (Self::Str, "str"),
        (Self::Process, "process"),
        (Self::Text, "text"),
    ];

    /// Its name in JSON and in listings.
    pub fn name(self) -> &'static str {
        if self == Self::System {
            // Nothing for a reader: only what interrupts are numbered by.
            return "hex";
        }
        Self::ALL.iter().find(|(k, _)| *k == self).map_or("hex", |(_, n)| n)
    }

    /// The kind of this name in a catalogue file.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, n)| *n == text).map(|(k, _)| *k)
    }

    /// True where JSON gives the value as a number, not as a hex string.
    pub const fn is_number(self) -> bool {
        matches!(self, Self::Dec | Self::Size | Self::Ticks | Self::State | Self::Process)
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
    /// How many words of the payload it takes.
    pub takes: Takes,
}

/// How many words of the payload a field takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Takes {
    /// One.
    #[default]
    One,
    /// Two of 32 bits: a number of 64 bits in the target's byte order.
    Two,
    /// All that follow.
    Rest,
}

impl Takes {
    /// The value of a field that begins at `word` (from 0); `None` where the payload ends before it.
    pub fn value(self, words: &[u64], word: usize, endian: Endian) -> Option<u64> {
        let first = *words.get(word)?;
        if self != Self::Two {
            return Some(first);
        }
        let second = *words.get(word.checked_add(1)?)?;
        Some(match endian {
            Endian::Little => (second & 0xFFFF_FFFF) << 32 | (first & 0xFFFF_FFFF),
            Endian::Big => (first & 0xFFFF_FFFF) << 32 | (second & 0xFFFF_FFFF),
        })
    }
}

impl FieldDef {
    /// A field of one word with the short name that its full name gives.
    pub fn new(name: &str, kind: ArgKind, words: Option<Arc<Enumeration>>) -> Self {
        Self { name: name.to_owned(), label: label(name).to_owned(), kind, words, takes: Takes::One }
    }
}

/// The short name of a field. A table has little room, and `_ptr` adds nothing.
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
        "sleep_value" => "kernel_ticks",
        "remaining_blocks" => "blocks",
        "size_requested" | "request_size" | "requested_length" => "size",
        "destination_ptr" | "destination_ip_address" => "to",
        "source_ptr" | "source_ip_address" => "from",
        "new_interrupt_posture" => "posture",
        other => other.strip_suffix("_ptr").unwrap_or(other),
    }
}
