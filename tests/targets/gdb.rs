//! The GDB command in real GDBs: on cores, processes, gdbserver and QEMU, and at a terminal. Skipped, loudly, where a
//! tool is not installed.
#![cfg(all(unix, feature = "cli"))]

mod command_line;
mod follow;
mod install;
mod no_python;
mod sources;
mod terminal;

use crate::support::tools;
