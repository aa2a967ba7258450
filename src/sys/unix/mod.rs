//! Linux, macOS and other Unix systems.

#[cfg(feature = "cli")]
mod closed;
mod file;
mod links;
mod process;
mod serial;
mod sigbus;
#[cfg(feature = "cli")]
pub mod signals;
#[cfg(feature = "cli")]
mod user;
mod wait;

#[cfg(feature = "cli")]
pub use closed::stdout_was_closed;
#[cfg(feature = "cli")]
pub use file::{is_same_file, keep_access, only_for_users_of};
pub use file::{kind_of_file, open_for_reading};
pub use links::{LocalSocket, acknowledge_at_once, child_pipes, connect_local, shell, stdio};
pub use process::{GroupSignal, signal_group};
pub use serial::open_serial;
pub(super) use sigbus::{Guard, guard};
#[cfg(feature = "cli")]
pub use user::{data_home, is_plain_terminal};
pub use wait::{Waitable, WaitedFor, wait_readable, wait_writable};
