//! A bridge between a debugger and a live stub: every token goes through as it came, and monitor lines that begin with
//! `tx-trace` are answered here.
//!
//! The stub's bytes are passed on before anybody looks at them, and the debugger's as soon as they cannot become such a
//! line: what the bridge does not understand, neither side notices. Only while the stub is idle, between the debugger's
//! line and its answer, the bridge reads memory itself, over the same link.

mod conversation;
mod line;
mod relay;
mod shared;

use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::mem::remote::Remote;
use crate::rsp::transport::{self, Transport, deadline_in};
use crate::rsp::{Endpoint, RspError};

pub use relay::End;
use relay::Relay;

/// Answers a monitor line, of which it gets what stands behind `tx-trace`: memory to read, and where to write.
pub type Answer<'a> = dyn FnMut(&str, &mut Remote, &mut dyn Write) + 'a;

/// How often the interrupt flag is looked at.
const SLICE: Duration = Duration::from_millis(200);

/// Where the stub is, and how to treat it.
#[derive(Clone)]
pub struct Stub {
    /// Where it listens. It is connected to for each debugger anew, and closed with it.
    pub endpoint: Endpoint,
    /// Bounds the connect, and each reply to the bridge's own reads.
    pub timeout: Duration,
    /// Set from a signal handler: the bridge then ends.
    pub interrupt: Option<&'static AtomicBool>,
}

impl Stub {
    fn is_interrupted(&self) -> bool {
        self.interrupt.is_some_and(|flag| flag.load(Ordering::Relaxed))
    }
}

/// Why a session has not begun, or how the bridge broke.
#[derive(Debug)]
pub enum BridgeError {
    /// The stub cannot be reached; the debugger was let go.
    Stub(RspError),
    /// The listening socket is out of order.
    Listen(io::Error),
}

/// A listening bridge.
pub struct Bridge {
    listener: TcpListener,
}

impl Bridge {
    /// Listens.
    ///
    /// # Errors
    /// The system's.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Waits for a debugger and stands between it and the stub until one of them goes; `None` where a signal came first.
    /// `came` is told who it is.
    ///
    /// # Errors
    /// [`BridgeError`].
    pub fn serve_one(
        &self,
        stub: &Stub,
        answer: &mut Answer<'_>,
        came: &mut dyn FnMut(SocketAddr),
    ) -> Result<Option<End>, BridgeError> {
        let (debugger, who) = loop {
            if stub.is_interrupted() {
                return Ok(None);
            }
            if let Some(found) = transport::accept(&self.listener, deadline_in(SLICE)).map_err(BridgeError::Listen)? {
                break found;
            }
        };
        came(who);
        let link = transport::open(&stub.endpoint, stub.timeout).map_err(BridgeError::Stub)?;
        Ok(Some(between(debugger, link, stub, answer)))
    }
}

/// Stands between two open links until one of them ends.
pub fn between(debugger: Box<dyn Transport>, link: Box<dyn Transport>, stub: &Stub, answer: &mut Answer<'_>) -> End {
    Relay::new(debugger, link, stub).run(answer)
}
