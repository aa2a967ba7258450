//! The one error that a command ends with.

use std::io::{self, ErrorKind as ErrorKindOfSystem};
use std::sync::Arc;

use crate::code::Code;

/// Why there is no result. Its texts can hold names from the target: escape before printing.
#[derive(Debug, Clone)]
pub struct Error {
    /// Its stable code.
    pub code: Code,
    /// Not found (exit 1), or failed (exit 2).
    pub kind: ErrorKind,
    /// One sentence: what is wrong.
    pub message: String,
    /// What was tried, one sentence each.
    pub tried: Vec<String>,
    /// What to try next; empty where the message says it.
    pub hint: String,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

/// Not found, and failed, are different things.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The target or the file was read, and does not have what was asked for (exit 1).
    NotFound,
    /// The request is wrong, or something could not be read or written (exit 2).
    Failed,
}

impl Error {
    /// What was asked for is not there.
    #[must_use]
    pub fn not_found(code: Code, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(code, ErrorKind::NotFound, message.into(), hint.into())
    }

    /// Something could not be read, written or understood.
    #[must_use]
    pub fn failed(code: Code, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(code, ErrorKind::Failed, message.into(), hint.into())
    }

    /// A mistake in what was typed.
    #[must_use]
    pub fn usage(code: Code, message: impl Into<String>) -> Self {
        Self::failed(code, message, "")
    }

    const fn new(code: Code, kind: ErrorKind, message: String, hint: String) -> Self {
        Self { code, kind, message, tried: Vec::new(), hint, source: None }
    }

    /// A failure that another error explains: its text is the message.
    #[must_use]
    pub fn because(code: Code, cause: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::failed(code, cause.to_string(), "").caused_by(cause)
    }

    /// The same, with the error that caused it.
    #[must_use]
    pub fn caused_by(mut self, cause: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(cause));
        self
    }

    /// The same, with what was tried.
    #[must_use]
    pub fn tried(mut self, tried: Vec<String>) -> Self {
        self.tried = tried;
        self
    }

    /// The same, with what to try next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    /// True where the target or file was read and does not have what was asked for.
    #[must_use]
    pub const fn is_not_found(&self) -> bool {
        matches!(self.kind, ErrorKind::NotFound)
    }
}

/// Why the system did not do it, in words that people know: Rust's own text ends in `(os error 2)`.
#[must_use]
pub fn reason(error: &io::Error) -> String {
    let plain = match error.kind() {
        ErrorKindOfSystem::NotFound => "there is no such file or directory",
        ErrorKindOfSystem::PermissionDenied => "permission denied",
        ErrorKindOfSystem::IsADirectory => "it is a directory",
        ErrorKindOfSystem::NotADirectory => "a part of its path is not a directory",
        ErrorKindOfSystem::AddrInUse => "another program listens there",
        ErrorKindOfSystem::AddrNotAvailable => "this machine does not have that address",
        _ => "",
    };
    if !plain.is_empty() && error.raw_os_error().is_some() {
        return plain.to_owned();
    }
    let text = error.to_string();
    let number = error.raw_os_error().map(|number| format!(" (os error {number})")).unwrap_or_default();
    let text = text.strip_suffix(&number).unwrap_or(&text);
    let mut letters = text.chars();
    // A sentence of the system begins with a capital letter; here it goes on after a colon.
    let first = letters.next().filter(|_| !number.is_empty()).map(|first| first.to_ascii_lowercase());
    first.map_or_else(|| text.to_owned(), |first| format!("{first}{}", letters.as_str()))
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|e| e as &(dyn std::error::Error + 'static))
    }
}

impl From<io::Error> for Error {
    /// A reader that has seen enough is no failure; a full disk is.
    fn from(e: io::Error) -> Self {
        if e.kind() == ErrorKindOfSystem::BrokenPipe {
            return Self::failed(Code::BrokenPipe, "the reader closed the pipe", "");
        }
        Self::failed(Code::Output, format!("writing: {}", reason(&e)), "")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_have_no_numbers_of_the_system() {
        let of_number = |number| reason(&io::Error::from_raw_os_error(number));
        assert_eq!(of_number(2), "there is no such file or directory");
        assert_eq!(of_number(98), "another program listens there");
        assert_eq!(of_number(5), "input/output error");
        assert_eq!(reason(&io::Error::other("Too many names")), "Too many names");
        assert_eq!(reason(&io::ErrorKind::BrokenPipe.into()), "broken pipe");
    }
}
