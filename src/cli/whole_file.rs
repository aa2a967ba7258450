//! A file that gets its name only when it is complete: until then an older file of that name stays as it was.

use std::fs::{self, File, Metadata};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::interrupt::Unfinished;
use crate::error::reason;
use crate::sys;

/// The most symbolic links that are followed to a file that does not exist yet, as in Linux.
const MAX_LINKS: usize = 40;
/// The most names that are tried for the unfinished file.
const MAX_NAMES: u32 = 100;

/// A file that is being written, under a name of its own beside the final one.
pub struct WholeFile {
    out: BufWriter<File>,
    /// Removes the unfinished file when it is dropped, or when a signal ends the program.
    unfinished: Unfinished,
    path: PathBuf,
    replaces: bool,
}

impl WholeFile {
    /// Begins the file `path`. An older file keeps its mode and, where that is possible, its owner; a symbolic link
    /// stays a link, and the file that it points to is written.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let path = behind_links(path)?;
        let old = fs::metadata(&path).ok();
        if old.is_some() {
            // A file that may not be written may not be replaced either.
            File::options().write(true).open(&path)?;
        }
        let (unfinished, file) = create_beside(&path, old.as_ref())?;
        if let Some(old) = &old {
            sys::keep_access(&file, old)?;
        }
        Ok(Self { out: BufWriter::new(file), unfinished, path, replaces: old.is_some() })
    }

    /// Gives the complete file its name.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        if self.replaces {
            // Some file systems report only now that there is no space.
            self.out.get_ref().sync_all().map_err(|e| named(&self.path, &e))?;
        }
        self.unfinished.rename(&self.path).map_err(|e| named(&self.path, &e))
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes).map_err(|e| named(&self.path, &e))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush().map_err(|e| named(&self.path, &e))
    }
}

/// The error with the name of the file.
pub(super) fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {}", path.display(), reason(error)))
}

/// The file that a path leads to, which need not exist.
fn behind_links(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        if let Ok(real) = fs::canonicalize(&path) {
            return Ok(real);
        }
        // `canonicalize` refuses a link to a file that does not exist.
        match fs::read_link(&path) {
            Ok(target) => path = path.parent().unwrap_or(Path::new("")).join(target),
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::other("too many symbolic links"))
}

/// Creates the unfinished file. A name may be taken by a process of the same number in another container, or by one
/// that was killed.
fn create_beside(path: &Path, old: Option<&Metadata>) -> io::Result<(Unfinished, File)> {
    let mut options = File::options();
    options.write(true).create_new(true);
    if let Some(old) = old {
        sys::only_for_users_of(old, &mut options);
    }
    let mut number = 0_u32;
    loop {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".part{}", std::process::id()));
        if number > 0 {
            name.push(format!("-{number}"));
        }
        let created = Unfinished::create(PathBuf::from(name), &options);
        match created {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && number < MAX_NAMES => {
                number = number.saturating_add(1);
            }
            created => return created,
        }
    }
}
