//! Operating system calls that the standard library lacks: waits, serial lines, process groups, signals, memory maps, the
//! size of a terminal. A port to another system adds files here; no other room names the crates for it.

#[cfg(feature = "cli")]
mod closed;
mod file;
mod process;
mod serial;
#[cfg(feature = "cli")]
mod terminal;
mod wait;

#[cfg(unix)]
mod sigbus;
#[cfg(all(unix, feature = "cli"))]
pub mod signals;

#[cfg(feature = "cli")]
pub use closed::stdout_was_closed;
pub use file::{Map, data_ranges, open_for_reading};
pub use process::{GroupSignal, signal_group};
pub use serial::open_serial;
#[cfg(feature = "cli")]
pub use terminal::{columns, columns_of_stderr};
pub use wait::{acknowledge_at_once, wait_readable, wait_writable};
