//! The terminal on standard output and standard error.

use std::os::fd::AsFd;

/// Its width in columns; `None` where standard output is no terminal, or its width is not known.
#[must_use]
pub fn columns() -> Option<usize> {
    of(std::io::stdout())
}

/// The same of standard error.
#[must_use]
pub fn columns_of_stderr() -> Option<usize> {
    of(std::io::stderr())
}

fn of(stream: impl AsFd) -> Option<usize> {
    let (terminal_size::Width(columns), _) = terminal_size::terminal_size_of(stream)?;
    Some(usize::from(columns))
}
