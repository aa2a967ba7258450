//! Where a server listens: on this machine alone, unless it is told otherwise.

use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};

use super::message;
use crate::code::Code;
use crate::error::Error;

/// Understands `:PORT` and `HOST:PORT`. Without a host it is 127.0.0.1; port 0 is any that is free.
pub fn parse(text: &str) -> Result<SocketAddr, Error> {
    let wrong = |why: String| Error::usage(Code::Listen, format!("--listen {text}: {why}"));
    if let Some(port) = text.strip_prefix(':') {
        let port: u16 = port.parse().map_err(|_| wrong(format!("`{port}` is no port (0 to 65535)")))?;
        return Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    }
    let mut found = text.to_socket_addrs().map_err(|e| wrong(format!("the form is :3334 or HOST:3334 ({e})")))?;
    found.next().ok_or_else(|| wrong("the host has no address".to_owned()))
}

/// Says where it listens, and what that lets everybody do who reaches the port.
pub fn say(what: &str, address: SocketAddr, does: &str) {
    message::say(&format!("tx-trace: {what} at {address}"));
    if !address.ip().is_loopback() {
        message::say(&format!("tx-trace: {} is not loopback: everybody who reaches this port {does}", address.ip()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_unless_told() {
        assert_eq!(parse(":3334").unwrap().to_string(), "127.0.0.1:3334");
        assert_eq!(parse("0.0.0.0:0").unwrap().to_string(), "0.0.0.0:0");
        assert_eq!(parse("[::1]:3334").unwrap().to_string(), "[::1]:3334");
        for wrong in ["", "3334", ":", ":70000", "::1:3334:", "host"] {
            assert!(parse(wrong).is_err_and(|f| f.code == Code::Listen && f.message.contains("--listen")), "{wrong}");
        }
    }
}
