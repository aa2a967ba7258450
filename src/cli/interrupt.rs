//! SIGINT, SIGTERM and SIGHUP: a target is left as it should be left, and an unfinished file is removed.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use crate::session::INTERRUPT;
use crate::sys::signals;

/// Asks for the end of waiting on SIGINT, SIGTERM and SIGHUP for as long as it lives; then they end the program again.
pub struct Guard(());

impl Guard {
    /// Takes the signals over.
    pub(super) fn arm() -> Self {
        signals::attach(&INTERRUPT);
        Self(())
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        signals::detach();
    }
}

/// What goes to the terminal has colours: a signal that ends the program ends them too.
pub(super) fn end_colours() {
    signals::install(&INTERRUPT);
    signals::end_colours();
}

/// A file that is not complete: removed when this is dropped, and when a signal ends the program.
pub struct Unfinished {
    path: PathBuf,
    listed: Option<signals::Listed>,
}

impl Unfinished {
    /// Creates the file; `options` ask for a new one.
    pub(super) fn create(path: PathBuf, options: &OpenOptions) -> io::Result<(Self, File)> {
        Self::create_by(path, |path| options.open(path))
    }

    /// Lists the file for removal before it is there: a signal that comes as soon as it is there removes it too.
    fn create_by(path: PathBuf, open: impl FnOnce(&Path) -> io::Result<File>) -> io::Result<(Self, File)> {
        signals::install(&INTERRUPT);
        // A file of another program is never listed.
        if fs::symlink_metadata(&path).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let listed = signals::Listed::new(&path);
        let file = open(&path)?;
        Ok((Self { path, listed }, file))
    }

    /// Gives the file its final name.
    pub(super) fn rename(mut self, to: &Path) -> io::Result<()> {
        fs::rename(&self.path, to)?;
        // Nothing is left to be removed.
        self.path = PathBuf::new();
        Ok(())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.path.as_os_str().is_empty() {
            // The reason why it is unfinished is reported elsewhere.
            drop(fs::remove_file(&self.path));
        }
        drop(self.listed.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use signals::is_listed;

    /// A signal between the creation of the file and its entry in the list left `NAME.partPID` after. A file of
    /// another program is never listed.
    #[test]
    fn a_signal_right_after_the_creation_left_an_unfinished_file() {
        let path = std::env::temp_dir().join(format!("tx-trace-unfinished-{}", std::process::id()));
        let (unfinished, _) = Unfinished::create_by(path.clone(), |path| {
            let file = fs::File::create_new(path);
            assert!(is_listed(path));
            file
        })
        .unwrap();
        drop(unfinished);
        assert!(!is_listed(&path) && !path.exists());
        fs::write(&path, "theirs").unwrap();
        let taken = Unfinished::create_by(path.clone(), |_| panic!("it is not opened")).err().unwrap();
        assert_eq!((taken.kind(), is_listed(&path)), (io::ErrorKind::AlreadyExists, false));
        assert_eq!(fs::read(&path).unwrap(), b"theirs");
        // Nor is it listed where it cannot be created.
        fs::remove_file(&path).unwrap();
        let refused = Unfinished::create_by(path.clone(), |_| Err(io::ErrorKind::PermissionDenied.into()));
        assert!(refused.is_err() && !is_listed(&path));
    }
}
