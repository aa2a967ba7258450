//! Files: how they are opened, and who may read them.

use std::fs::{File, FileType};
#[cfg(feature = "cli")]
use std::fs::{Metadata, OpenOptions, Permissions, metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
#[cfg(feature = "cli")]
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::Path;

/// Opens a file for reading. Never blocks, on a FIFO neither.
///
/// # Errors
/// The system's.
pub fn open_for_reading(path: &Path) -> io::Result<File> {
    let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or(0);
    File::options().read(true).custom_flags(flags).open(path)
}

/// A word for what is neither a regular file nor a directory.
pub fn kind_of_file(kind: FileType) -> &'static str {
    if kind.is_fifo() {
        "FIFO"
    } else if kind.is_socket() {
        "socket"
    } else {
        "device"
    }
}

/// True where both names lead to one file, whatever links are between.
#[cfg(feature = "cli")]
pub fn is_same_file(a: &Path, b: &Path) -> bool {
    let id = |path: &Path| metadata(path).ok().map(|m| (m.dev(), m.ino()));
    id(a).is_some_and(|a| Some(a) == id(b))
}

/// Makes `options` create a file that only those may open who could open the old one.
#[cfg(feature = "cli")]
pub fn only_for_users_of(old: &Metadata, options: &mut OpenOptions) {
    options.mode(old.mode() & 0o600);
}

/// Gives the new file the owner and the mode of the old one.
///
/// # Errors
/// The system's.
#[cfg(feature = "cli")]
pub fn keep_access(file: &File, old: &Metadata) -> io::Result<()> {
    let new = file.metadata()?;
    let mut mode = old.mode() & 0o7777;
    if (new.uid(), new.gid()) != (old.uid(), old.gid()) && fchown(file, Some(old.uid()), Some(old.gid())).is_err() {
        // Only root gives files away. Another group must not get the rights of the old one.
        if new.gid() != old.gid() && fchown(file, None, Some(old.gid())).is_err() {
            mode &= !0o070;
        }
        mode &= 0o777;
    }
    // Not every file system can set a mode.
    if new.mode() & 0o7777 == mode { Ok(()) } else { file.set_permissions(Permissions::from_mode(mode)) }
}
