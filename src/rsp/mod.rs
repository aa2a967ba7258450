//! The GDB remote serial protocol, seen from the client's side.
//!
//! [`packet`] knows what bytes mean, [`endpoint`] what the user typed, [`transport`] how bytes get there, and
//! [`client`] what a stub may be asked and in which order. Only the client knows about targets.

pub mod client;
pub mod endpoint;
pub mod error;
pub(crate) mod openocd;
pub mod packet;
pub mod transport;

pub use client::{After, Before, Client, Leave, LeaveOutcome, Options, Stop};
pub use endpoint::{Endpoint, EndpointError};
pub use error::RspError;
