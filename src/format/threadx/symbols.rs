//! The names of the kernel's variables that a trace is found and read by.

/// All of them.
pub const ALL: &[&str] = &[
    "_tx_trace_header_ptr",
    "_tx_trace_registry_start_ptr",
    "_tx_trace_registry_end_ptr",
    "_tx_trace_buffer_start_ptr",
    "_tx_trace_buffer_end_ptr",
    "_tx_trace_buffer_current_ptr",
    "_tx_trace_event_enable_bits",
    "_tx_trace_simulated_time",
    "_tx_trace_full_notify_function",
    "_tx_trace_total_registry_entries",
    "_tx_trace_available_registry_entries",
    "_tx_trace_registry_search_start",
    "_tx_trace_initialize",
    "_tx_trace_buffer",
    "tx_trace_buffer",
    "_tx_linux_time_stamp",
    "_ux_version_id",
    "SystemCoreClock",
];
