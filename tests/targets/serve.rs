//! `serve`: a post-mortem image as a debugger sees it. Real GDB and LLDB, the protocol itself, and clients that mean no
//! good.
#![cfg(all(unix, feature = "serve", feature = "cli"))]
#![allow(clippy::zombie_processes, reason = "tests")]

mod backtraces;
mod backtraces_built;
mod backtraces_linux;
mod debuggers;
mod hostile;
pub mod image;
mod protocol;
mod riscv;

use crate::support::tools;
