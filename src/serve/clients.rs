//! The next client: the first that sends something. Those that connect and send nothing are kept, few of them and not for
//! long, and do not block the others.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The most clients that are kept without having sent anything.
const MAX_SILENT: usize = 32;
/// How long one is kept.
const MAX_SILENCE: Duration = Duration::from_secs(10);
/// How often they are polled: a debugger is served that much later.
const SLICE: Duration = Duration::from_millis(1);

/// A listener, and the clients that have sent nothing yet.
pub(super) struct Clients {
    listener: TcpListener,
    silent: RefCell<VecDeque<(TcpStream, SocketAddr, Instant)>>,
}

impl Clients {
    pub(super) fn new(listener: TcpListener) -> Self {
        Self { listener, silent: RefCell::default() }
    }

    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// The next client; its socket blocks.
    pub(super) fn next(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let mut silent = self.silent.borrow_mut();
        loop {
            // Without silent clients it waits for the next one.
            self.listener.set_nonblocking(!silent.is_empty())?;
            match self.listener.accept() {
                Ok((stream, from)) => {
                    stream.set_nonblocking(true)?;
                    if silent.len() >= MAX_SILENT {
                        silent.pop_front();
                    }
                    silent.push_back((stream, from, Instant::now()));
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => sleep(SLICE),
                // It hung up before it was accepted; or a signal came.
                Err(e) if matches!(e.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted) => {}
                Err(e) => return Err(e),
            }
            silent.retain(|(stream, _, since)| since.elapsed() < MAX_SILENCE && has_sent(stream) != Some(false));
            let first = silent.iter().position(|(stream, ..)| has_sent(stream) == Some(true));
            if let Some((stream, from, _)) = first.and_then(|at| silent.remove(at)) {
                stream.set_nonblocking(false)?;
                return Ok((stream, from));
            }
        }
    }
}

/// Whether a client has sent something; false where it has gone.
fn has_sent(stream: &TcpStream) -> Option<bool> {
    match stream.peek(&mut [0]) {
        Ok(0) => Some(false),
        Ok(_) => Some(true),
        Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => None,
        Err(_) => Some(false),
    }
}
