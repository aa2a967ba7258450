//! What a server says of the port at which it listens.

use std::net::SocketAddr;

use super::diagnostics::Diagnostics;

/// Says where it listens, and what that lets everybody do who reaches the port.
pub(super) fn say(what: &str, address: SocketAddr, does: &str, diagnostics: &Diagnostics) {
    diagnostics.say(format_args!("{what} at {address}"));
    if !address.ip().is_loopback() {
        diagnostics.say(format_args!("{} is not loopback: anyone who can reach this port {does}", address.ip()));
    }
}
