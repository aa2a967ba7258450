//! The GDB command in real GDBs: on cores, processes, gdbserver and QEMU, and at a terminal. Skipped, loudly, where a
//! tool is not installed.
#![cfg(all(unix, feature = "cli"))]
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

mod command_line;
mod follow;
mod install;
mod no_python;
mod sources;
mod terminal;

use crate::support::tools;
