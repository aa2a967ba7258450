//! Windows: what differs from Unix, under the same names.

mod links;
mod serial;
#[cfg(feature = "cli")]
pub mod signals;

#[cfg(feature = "cli")]
use std::env::var_os;
use std::fs::{File, FileType};
#[cfg(feature = "cli")]
use std::fs::{Metadata, OpenOptions, canonicalize};
use std::io;
#[cfg(feature = "cli")]
use std::os::windows::io::{AsHandle, AsRawHandle};
use std::path::Path;
#[cfg(feature = "cli")]
use std::path::PathBuf;

#[cfg(feature = "cli")]
use windows_sys::Win32::System::Console::{ENABLE_VIRTUAL_TERMINAL_PROCESSING, GetConsoleMode, SetConsoleMode};

pub use links::{
    LocalSocket, Waitable, WaitedFor, acknowledge_at_once, child_pipes, connect_local, shell, stdio, wait_readable,
    wait_writable,
};
pub use serial::open_serial;

/// Opens a file for reading.
///
/// # Errors
/// The system's.
pub fn open_for_reading(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// A word for what is neither a regular file nor a directory.
pub const fn kind_of_file(_: FileType) -> &'static str {
    "device"
}

/// Watches a mapped file on Unix.
pub(super) enum Guard {}

/// Nothing is watched: the system cuts no file short that is mapped.
pub(super) const fn guard(_: usize, _: usize, _: &Path) -> Option<Guard> {
    None
}

/// What is sent to a group of processes. [`shell`] starts none here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupSignal {
    /// Nothing: it asks whether the group is there.
    Test,
    /// The request to end.
    Term,
    /// The end.
    Kill,
}

/// False: there are no such groups.
pub const fn signal_group(_: u32, _: GroupSignal) -> bool {
    false
}

/// True where both names lead to one file, whatever links are between.
#[cfg(feature = "cli")]
pub fn is_same_file(a: &Path, b: &Path) -> bool {
    canonicalize(a).is_ok_and(|a| canonicalize(b).is_ok_and(|b| a == b))
}

/// A new file here has the rights that its directory gives.
#[cfg(feature = "cli")]
pub const fn only_for_users_of(_: &Metadata, _: &mut OpenOptions) {}

/// Keeps the attributes of the old file.
///
/// # Errors
/// The system's.
#[cfg(feature = "cli")]
pub fn keep_access(file: &File, old: &Metadata) -> io::Result<()> {
    file.set_permissions(old.permissions())
}

/// False: the standard library shows what is written to a closed standard output as an error.
#[cfg(feature = "cli")]
pub const fn stdout_was_closed() -> bool {
    false
}

/// Where a user's programs keep their files; where that is unknown, the variables that could say it.
///
/// # Errors
/// The names of the variables.
#[cfg(feature = "cli")]
pub fn data_home() -> Result<PathBuf, &'static str> {
    let dir = |name: &str| var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    let home = dir("LOCALAPPDATA").or_else(|| Some(dir("USERPROFILE")?.join("AppData").join("Local")));
    home.ok_or("neither LOCALAPPDATA nor USERPROFILE")
}

/// True for a terminal without colours. A console understands colours only when it is asked to.
#[cfg(feature = "cli")]
pub fn is_plain_terminal() -> bool {
    var_os("TERM").is_some_and(|t| t == "dumb") || !takes_colours(&io::stdout()) || !takes_colours(&io::stderr())
}

/// Asks a console to understand colours; true for what is no console.
#[cfg(feature = "cli")]
fn takes_colours(stream: &impl AsHandle) -> bool {
    let console = stream.as_handle().as_raw_handle();
    let mut mode = 0;
    // SAFETY: the handle is open as long as `stream` is borrowed, and `mode` lives as long as the calls.
    #[allow(unsafe_code, reason = "the standard library does not set the mode of a console")]
    unsafe {
        GetConsoleMode(console, &raw mut mode) == 0
            || SetConsoleMode(console, mode | ENABLE_VIRTUAL_TERMINAL_PROCESSING) != 0
    }
}
