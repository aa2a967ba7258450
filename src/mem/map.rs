//! Files as memory maps: opened without reading, windowed without copying.

use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::bytes::Bytes;
use crate::error::reason;
use crate::sys;

/// The most bytes read from a file whose file system cannot map it.
const UNMAPPABLE: u64 = 1 << 30;
/// The most bytes read from a file that has a size of 0 and yet content, as those in `/proc`.
const SIZELESS: u64 = 64 << 20;

/// Why a file cannot be opened. Each is one sentence, with what to do.
#[derive(Debug, thiserror::Error)]
pub enum MapError {
    /// Nothing of this name.
    #[error("{} does not exist", .0.display())]
    Missing(PathBuf),
    /// We may not read it.
    #[error("{}: permission denied (QEMU writes its dumps with mode 0400, for their owner alone)", .0.display())]
    Denied(PathBuf),
    /// A directory.
    #[error("{} is a directory, not a file", .0.display())]
    Directory(PathBuf),
    /// No bytes.
    #[error("{} is empty", .0.display())]
    Empty(PathBuf),
    /// A FIFO, a device or a socket.
    #[error("{} is a {what}, and a file is needed", .path.display())]
    NotRegular {
        /// Its name.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// Anything else: what the system said.
    #[error("{} cannot be read: {}", .path.display(), reason(.error))]
    Io {
        /// Its name.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
}

enum Held {
    Mapped(sys::Map),
    Read(Vec<u8>),
}

/// A file, mapped read-only (`sys::Map`).
pub struct FileMap {
    held: Held,
    path: PathBuf,
    data: Vec<(u64, u64)>,
}

impl FileMap {
    /// Maps the file at `path`. Never blocks, on a FIFO neither.
    ///
    /// # Errors
    /// When it does not exist, may not be read, is a directory, empty, or not a regular file.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, MapError> {
        let path = path.as_ref();
        // Checked before it is opened, so that a FIFO's writer never sees us.
        let meta = std::fs::metadata(path).map_err(|e| failed(path, e))?;
        refuse(path, &meta)?;
        let file = sys::open_for_reading(path).map_err(|e| failed(path, e))?;
        let meta = file.metadata().map_err(|e| failed(path, e))?;
        refuse(path, &meta)?;
        let held = hold(&file, meta.len(), path).map_err(|e| failed(path, e))?;
        let data = match &held {
            Held::Read(bytes) if bytes.is_empty() => return Err(MapError::Empty(path.to_owned())),
            Held::Read(bytes) => vec![(0, bytes.len() as u64)],
            Held::Mapped(_) => sys::data_ranges(&file, &meta),
        };
        Ok(Self { held, path: path.to_owned(), data })
    }

    /// The name it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where a sparse file holds bytes, as offset and length, sorted; all else reads as zeros that were never written.
    /// One range over all where the file is not sparse or the file system does not say.
    pub fn data_ranges(&self) -> &[(u64, u64)] {
        &self.data
    }
}

impl AsRef<[u8]> for FileMap {
    fn as_ref(&self) -> &[u8] {
        match &self.held {
            Held::Mapped(map) => map.as_ref(),
            Held::Read(bytes) => bytes,
        }
    }
}

impl From<FileMap> for Bytes {
    fn from(map: FileMap) -> Self {
        Self::new(Arc::new(map))
    }
}

impl From<Arc<FileMap>> for Bytes {
    fn from(map: Arc<FileMap>) -> Self {
        Self::new(map)
    }
}

fn failed(path: &Path, error: io::Error) -> MapError {
    let path = path.to_owned();
    match error.kind() {
        ErrorKind::NotFound => MapError::Missing(path),
        ErrorKind::PermissionDenied => MapError::Denied(path),
        ErrorKind::IsADirectory => MapError::Directory(path),
        _ => MapError::Io { path, error },
    }
}

fn refuse(path: &Path, meta: &Metadata) -> Result<(), MapError> {
    let path = path.to_owned();
    if meta.is_dir() {
        return Err(MapError::Directory(path));
    }
    if !meta.is_file() {
        return Err(MapError::NotRegular { path, what: sys::kind_of_file(meta.file_type()) });
    }
    Ok(())
}

/// Maps the file; reads it where its file system has no maps or shows no size, and it is small enough.
fn hold(file: &File, len: u64, path: &Path) -> io::Result<Held> {
    if len == 0 {
        let mut bytes = Vec::new();
        file.take(SIZELESS + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > SIZELESS {
            let why = format!(
                "its size is shown as 0, and it has more than {} MiB: copy the part that matters",
                SIZELESS >> 20
            );
            return Err(io::Error::other(why));
        }
        return Ok(Held::Read(bytes));
    }
    match sys::Map::new(file, path) {
        Ok(map) => Ok(Held::Mapped(map)),
        Err(_) if len <= UNMAPPABLE => {
            let mut bytes = Vec::new();
            file.take(UNMAPPABLE).read_to_end(&mut bytes)?;
            Ok(Held::Read(bytes))
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A new file in the target's temporary directory, named after the test.
    fn temp(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("tx-trace-map-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        dir.join(name)
    }

    fn refused(path: &Path) -> String {
        FileMap::open(path).err().expect("refused").to_string()
    }

    #[test]
    fn a_file_is_windowed_without_copying() {
        let path = temp("plain");
        std::fs::write(&path, [1, 2, 3, 4]).unwrap();
        let map = FileMap::open(&path).unwrap();
        assert_eq!(map.path(), path);
        assert_eq!(map.data_ranges(), [(0, 4)]);
        let start = map.as_ref().as_ptr();
        let bytes = Bytes::from(map);
        let window = bytes.cut(1, 2).unwrap();
        drop(bytes);
        assert_eq!(&*window, [2, 3]);
        assert_eq!(window.as_ptr(), start.wrapping_add(1));
    }

    #[test]
    fn what_cannot_be_mapped_is_refused_in_words() {
        let dir = temp("dir");
        std::fs::create_dir_all(&dir).unwrap();
        assert!(refused(&dir).ends_with("is a directory, not a file"));
        let empty = temp("empty");
        std::fs::write(&empty, []).unwrap();
        assert!(refused(&empty).ends_with("is empty"));
        assert!(refused(&temp("nothing")).ends_with("does not exist"));
    }

    /// The size of what the kernel makes as it is read is 0.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_of_proc_was_called_empty() {
        let map = FileMap::open("/proc/self/maps").unwrap();
        assert!(map.as_ref().len() > 100);
        assert_eq!(map.data_ranges(), [(0, map.as_ref().len() as u64)]);
        // Address 0 of a process is not there.
        assert!(refused(Path::new("/proc/self/mem")).contains("cannot be read: input/output error"));
    }

    #[cfg(unix)]
    #[test]
    fn a_fifo_is_refused_at_once() {
        let fifo = temp("fifo");
        let made = std::process::Command::new("mkfifo").arg(&fifo).status();
        assert!(made.is_ok_and(|s| s.success()) || fifo.exists());
        let text = refused(&fifo);
        assert_eq!(text, format!("{} is a FIFO, and a file is needed", fifo.display()));
        assert!(refused(Path::new("/dev/null")).contains("is a device"));
    }

    #[cfg(unix)]
    #[test]
    fn a_file_of_another_user_is_denied() {
        use std::os::unix::fs::PermissionsExt;
        let path = temp("denied");
        std::fs::write(&path, [1]).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o000)).unwrap();
        // The super-user may read everything.
        if File::open(&path).is_err() {
            assert!(refused(&path).contains("permission denied"));
        }
    }
}
