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

#[path = "gdb/doors.rs"]
mod doors;
#[path = "gdb/follow.rs"]
mod follow;
#[path = "gdb/install.rs"]
mod install;
#[path = "gdb/manners.rs"]
mod manners;
#[path = "gdb/no_python.rs"]
mod no_python;
#[path = "gdb/terminal.rs"]
mod terminal;
#[path = "gdb/tools.rs"]
mod tools;
