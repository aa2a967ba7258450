//! What the operating system does for us and the standard library does not: waits, serial lines, process groups, signals,
//! memory maps, the size of a terminal. Another system gets files of its own here; nothing above names the crates by which it
//! is done.

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

pub use file::{Map, data_ranges, open_for_reading};
pub use process::{GroupSignal, signal_group};
pub use serial::open_serial;
#[cfg(feature = "cli")]
pub use terminal::columns;
pub use wait::{acknowledge_at_once, wait_readable, wait_writable};
