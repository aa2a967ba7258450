//! The terminal on standard output and standard error.

use terminal_size::{Height, Width, terminal_size_of};

/// Its width in columns; `None` where standard output is no terminal, or its width is not known.
pub fn columns() -> Option<usize> {
    width(terminal_size_of(std::io::stdout()))
}

/// The same of standard error.
pub fn columns_of_stderr() -> Option<usize> {
    width(terminal_size_of(std::io::stderr()))
}

fn width(size: Option<(Width, Height)>) -> Option<usize> {
    size.map(|(Width(columns), _)| usize::from(columns))
}
