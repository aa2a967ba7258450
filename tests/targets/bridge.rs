//! The bridge: byte for byte between two sockets, and between real debuggers and real stubs. Skipped, loudly, where a
//! tool is not installed.
#![cfg(all(unix, feature = "cli"))]

mod cpus;
mod debuggers;
mod editors;
mod live;
mod round_trips;
mod running;
mod same_as_serve;
mod sockets;
mod threads;

use crate::floats;
use crate::support::{live_stub, tools};
