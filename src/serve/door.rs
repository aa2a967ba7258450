//! Who comes in next: the first client that says something. Those that connect and say nothing wait, few of them and not
//! for long, and keep nobody out.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The most clients that wait without a word.
const WAITING: usize = 32;
/// How long one may.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often they are looked at: a debugger is served that much later, and nobody is looked at for long.
const SLICE: Duration = Duration::from_millis(1);

/// A listener, and the clients that have said nothing yet.
pub(super) struct Door {
    listener: TcpListener,
    silent: RefCell<VecDeque<(TcpStream, SocketAddr, Instant)>>,
}

impl Door {
    pub(super) fn new(listener: TcpListener) -> Self {
        Self { listener, silent: RefCell::default() }
    }

    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// The next client, its socket as a new one is.
    pub(super) fn next(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let mut silent = self.silent.borrow_mut();
        loop {
            // Only where somebody waits is there anything else to do than to wait for one to come.
            self.listener.set_nonblocking(!silent.is_empty())?;
            match self.listener.accept() {
                Ok((stream, from)) => {
                    stream.set_nonblocking(true)?;
                    if silent.len() >= WAITING {
                        silent.pop_front();
                    }
                    silent.push_back((stream, from, Instant::now()));
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => sleep(SLICE),
                // It hung up before it was let in; or a signal came.
                Err(e) if matches!(e.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted) => {}
                Err(e) => return Err(e),
            }
            silent.retain(|(stream, _, since)| since.elapsed() < PATIENCE && speaks(stream) != Some(false));
            let speaking = silent.iter().position(|(stream, ..)| speaks(stream) == Some(true));
            if let Some((stream, from, _)) = speaking.and_then(|at| silent.remove(at)) {
                stream.set_nonblocking(false)?;
                return Ok((stream, from));
            }
        }
    }
}

/// Whether a client has said something; false where it has gone.
fn speaks(stream: &TcpStream) -> Option<bool> {
    match stream.peek(&mut [0]) {
        Ok(0) => Some(false),
        Ok(_) => Some(true),
        Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => None,
        Err(_) => Some(false),
    }
}
