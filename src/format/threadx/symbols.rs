//! The variables of the kernel that concern the trace: their names, and what they hold.

use crate::abi::Addr;

/// The header's address; 0 until `tx_trace_enable`.
pub const HEADER: &str = "_tx_trace_header_ptr";
/// The first registry entry; `tx_trace_disable` clears it.
pub const REGISTRY_START: &str = "_tx_trace_registry_start_ptr";
/// One past the last registry entry.
pub const REGISTRY_END: &str = "_tx_trace_registry_end_ptr";
/// The ring's first slot.
pub const RING_START: &str = "_tx_trace_buffer_start_ptr";
/// One past the ring's last slot.
pub const RING_END: &str = "_tx_trace_buffer_end_ptr";
/// The slot of the next event; 0 while nothing is inserted.
pub const CURRENT: &str = "_tx_trace_buffer_current_ptr";
/// Which events are inserted: a mask.
pub const ENABLE_BITS: &str = "_tx_trace_event_enable_bits";
/// Number of registry entries.
pub const TOTAL_ENTRIES: &str = "_tx_trace_total_registry_entries";
/// Registry entries that the kernel counts as free.
pub const AVAILABLE_ENTRIES: &str = "_tx_trace_available_registry_entries";
/// The clock of ports without one: a count of events.
pub const SIMULATED_TIME: &str = "_tx_trace_simulated_time";
/// The running thread: an array, one a core, on SMP.
pub const CURRENT_THREAD: &str = "_tx_thread_current_ptr";
/// 0 in a thread, a nesting depth in an interrupt, more before the scheduler runs.
pub const SYSTEM_STATE: &str = "_tx_thread_system_state";
/// CMSIS's name for the processor's clock in Hz.
pub const CORE_CLOCK: &str = "SystemCoreClock";
/// The variable that ThreadX's port to Linux reads the time into. Its nanoseconds are the stamps, unless a project has
/// another source.
pub const LINUX_TIME: &str = "_tx_linux_time_stamp";

/// The kernel's pointers into the trace. `tx_trace_enable` sets them together, and they are together in `.bss`.
pub const POINTERS: [&str; 6] = [HEADER, REGISTRY_START, REGISTRY_END, RING_START, RING_END, CURRENT];
/// The variables that a program has where the trace is compiled in.
pub const TRACE: [&str; 9] = [
    HEADER,
    REGISTRY_START,
    REGISTRY_END,
    RING_START,
    RING_END,
    CURRENT,
    ENABLE_BITS,
    TOTAL_ENTRIES,
    AVAILABLE_ENTRIES,
];
/// Names that an application may have given its buffer; ThreadX itself has none.
pub const BUFFERS: [&str; 2] = ["_tx_trace_buffer", "tx_trace_buffer"];
/// What is there in a kernel without the trace: with any of them the ELF is of a ThreadX program.
pub const KERNEL: [&str; 4] = ["_tx_version_id", "_tx_thread_created_ptr", "_tx_trace_initialize", CURRENT_THREAD];

/// The symbols that are looked up in every program, all at once.
pub const ALL: &[&str] = &[
    HEADER,
    REGISTRY_START,
    REGISTRY_END,
    RING_START,
    RING_END,
    CURRENT,
    ENABLE_BITS,
    TOTAL_ENTRIES,
    AVAILABLE_ENTRIES,
    SIMULATED_TIME,
    "_tx_trace_full_notify_function",
    "_tx_trace_registry_search_start",
    "_tx_trace_initialize",
    "_tx_trace_buffer",
    "tx_trace_buffer",
    CURRENT_THREAD,
    SYSTEM_STATE,
    LINUX_TIME,
    "_ux_version_id",
    CORE_CLOCK,
];

/// What the kernel's variables held when the trace was located, as far as they were read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Variables {
    /// [`HEADER`].
    pub header: Option<Addr>,
    /// [`REGISTRY_START`].
    pub registry_start: Option<Addr>,
    /// [`REGISTRY_END`].
    pub registry_end: Option<Addr>,
    /// [`RING_START`].
    pub ring_start: Option<Addr>,
    /// [`RING_END`].
    pub ring_end: Option<Addr>,
    /// [`CURRENT`].
    pub current: Option<Addr>,
    /// [`ENABLE_BITS`].
    pub enable_bits: Option<u64>,
    /// [`CORE_CLOCK`], in Hz.
    pub core_clock: Option<u64>,
    /// [`CURRENT_THREAD`], one a core: 0 for none.
    pub running: Vec<Addr>,
    /// Number of cores, where the size of [`CURRENT_THREAD`] shows it.
    pub cores: Option<u64>,
    /// True where the program has [`LINUX_TIME`].
    pub has_linux_time: bool,
}

impl Variables {
    /// Takes the value of a variable; other names are ignored.
    pub fn set(&mut self, name: &str, value: u64) {
        let place = match name {
            HEADER => &mut self.header,
            REGISTRY_START => &mut self.registry_start,
            REGISTRY_END => &mut self.registry_end,
            RING_START => &mut self.ring_start,
            RING_END => &mut self.ring_end,
            CURRENT => &mut self.current,
            ENABLE_BITS => &mut self.enable_bits,
            CORE_CLOCK => &mut self.core_clock,
            CURRENT_THREAD => return self.running.push(value),
            _ => return,
        };
        *place = Some(value);
    }

    /// Drops what is of the kernel's own trace: another one is read, perhaps a copy of an older run's. Which thread runs
    /// now says nothing of it.
    pub fn drop_trace(&mut self) {
        let Self { core_clock, cores, has_linux_time, .. } = std::mem::take(self);
        *self = Self { core_clock, cores, has_linux_time, ..Self::default() };
    }
}
