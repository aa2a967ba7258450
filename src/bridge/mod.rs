//! A bridge between a debugger and a live stub: it forwards every byte unchanged, and answers monitor lines that begin with
//! `tx-trace` itself. With [`Threads`] it also translates the packets that are about threads.
//!
//! The stub's bytes are forwarded before they are parsed, the debugger's as soon as they cannot become such a line: what
//! the bridge does not understand makes no difference. It reads memory itself, over the same link, only while the stub is
//! idle, between the debugger's line and its answer.

mod conversation;
mod line;
mod relay;
mod shared;
mod threads;

use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::mem::remote::Remote;
use crate::rsp::transport::{self, Transport, deadline_in};
use crate::rsp::{Endpoint, RspError};

pub use relay::End;
use relay::Relay;
pub use threads::{Mode, Threads};

/// Answers a monitor line: gets the text after `tx-trace`, memory to read, and where to write.
pub type Answer<'a> = dyn FnMut(&str, &mut Remote, &mut dyn Write) + 'a;

/// How often the interrupt flag is checked.
const SLICE: Duration = Duration::from_millis(200);

/// The stub to connect to.
#[derive(Clone)]
pub struct Stub {
    /// Its address. The connection is opened when a debugger connects, and closed when it leaves.
    pub endpoint: Endpoint,
    /// The time limit for the connection, and for each reply to the bridge's own reads.
    pub timeout: Duration,
    /// Set from a signal handler: the bridge then ends.
    pub interrupt: Option<&'static AtomicBool>,
}

impl Stub {
    fn is_interrupted(&self) -> bool {
        self.interrupt.is_some_and(|flag| flag.load(Ordering::Relaxed))
    }
}

/// Why a session cannot begin.
#[derive(Debug)]
pub enum BridgeError {
    /// The stub cannot be reached; the debugger's connection was closed.
    Stub(RspError),
    /// The listening socket failed.
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

    /// The address that it listens on.
    ///
    /// # Errors
    /// The system's.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Waits for a debugger, and forwards between it and the stub until one of them closes its connection; `None` where a
    /// signal came first. `connected` gets the debugger's address, `say` lines about the kernel's threads.
    ///
    /// # Errors
    /// [`BridgeError`].
    pub fn serve_one(
        &self,
        stub: &Stub,
        threads: Option<&Threads>,
        answer: &mut Answer<'_>,
        connected: &mut dyn FnMut(SocketAddr),
        say: &mut dyn FnMut(&str),
    ) -> Result<Option<End>, BridgeError> {
        let (debugger, who) = loop {
            if stub.is_interrupted() {
                return Ok(None);
            }
            if let Some(found) = transport::accept(&self.listener, deadline_in(SLICE)).map_err(BridgeError::Listen)? {
                break found;
            }
        };
        connected(who);
        let link = transport::open(&stub.endpoint, stub.timeout).map_err(BridgeError::Stub)?;
        Ok(Some(between(debugger, link, stub, threads, answer, say)))
    }
}

/// Forwards between two open links until one of them ends. With `threads` the debugger gets the kernel's threads, and
/// `say` gets lines about them.
pub fn between(
    debugger: Box<dyn Transport>,
    link: Box<dyn Transport>,
    stub: &Stub,
    threads: Option<&Threads>,
    answer: &mut Answer<'_>,
    say: &mut dyn FnMut(&str),
) -> End {
    Relay::new(debugger, link, stub, threads.and_then(Threads::session)).run(answer, say)
}
