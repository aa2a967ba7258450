//! The terminal on standard output.

/// Its width in columns; `None` where standard output is no terminal, or its width is not known.
#[must_use]
pub fn columns() -> Option<usize> {
    let (terminal_size::Width(columns), _) = terminal_size::terminal_size_of(std::io::stdout())?;
    Some(usize::from(columns))
}
