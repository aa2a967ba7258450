//! The terminal on standard output.

/// Its width in columns; `None` where standard output is no terminal, or its width is not known.
#[must_use]
pub fn columns() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    Some(usize::from(size.ws_col))
}
