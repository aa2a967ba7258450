//! What the standard library lacks, or does in another way on each system: waits, serial lines, pipes, process groups,
//! signals, memory maps, the size of a terminal. `unix` and `windows` have the same names for it; a port to another
//! system adds a folder here. No other room asks which system it runs on.

#[cfg(feature = "cli")]
mod effect;
mod file;
#[cfg(feature = "cli")]
mod terminal;

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
use unix as system;
#[cfg(windows)]
use windows as system;

pub use file::{Map, data_ranges};
pub use system::{
    GroupSignal, LocalSocket, Waitable, WaitedFor, acknowledge_at_once, child_pipes, connect_local, kind_of_file,
    open_for_reading, open_serial, shell, signal_group, stdio, wait_readable, wait_writable,
};
#[cfg(feature = "cli")]
pub use system::{
    data_home, is_plain_terminal, is_same_file, keep_access, only_for_users_of, signals, stdout_was_closed,
};
#[cfg(feature = "cli")]
pub use terminal::{columns, columns_of_stderr};
