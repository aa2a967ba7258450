//! `gdb`: the GDB command, as a file to source.

use super::Outcome;
use super::message::Failure;

/// Prints or installs it.
pub fn run(_no_python: bool, _install: bool) -> Result<Outcome, Failure> {
    Err(Failure::failed("gdb", "not built in", ""))
}
