//! The GDB remote serial protocol, seen from the client's side.
//!
//! [`packet`] knows what bytes mean, [`endpoint`] what the user typed, [`transport`] how bytes get there, and
//! [`client`] what a stub may be asked and in which order. [`tcl`] asks OpenOCD's Tcl port about a target before the
//! client opens the GDB port.

pub mod client;
pub mod endpoint;
pub mod error;
pub(crate) mod openocd;
pub mod packet;
pub mod tcl;
pub mod thread_id;
pub mod transport;

pub use client::{After, Before, Client, Leave, LeaveOutcome, Options, Stop};
pub use endpoint::{Endpoint, EndpointError};
pub use error::{RspError, RspErrorKind};
