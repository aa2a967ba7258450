//! Serves a core or dump as a target of the remote protocol: the only user of gdbstub. Nothing is written, and nothing
//! runs.

mod action;
mod clients;
mod link;
mod monitor;
mod target;
mod wire;

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use gdbstub::stub::GdbStub;

pub use monitor::Answer;

use crate::abi::Endian;
use crate::debugger::{Stopped, ThreadList, memory_map_xml};
use crate::mem::{Memory, Region};
use clients::Clients;
use link::{Link, PACKET};
use target::{DeadTarget, Loop};
use wire::{Pipe, Tcp, Wire};

/// A post-mortem target, served to one debugger after another.
pub struct PostMortem<'a> {
    memory: &'a mut dyn Memory,
    threads: Rc<ThreadList>,
    regions: Rc<Option<Vec<Region>>>,
    answer: Option<Box<Answer<'a>>>,
    offset: u64,
}

impl<'a> PostMortem<'a> {
    /// From memory and threads, those that ran first. Without any there is one thread without data.
    pub fn new(memory: &'a mut dyn Memory, stopped: Stopped) -> Self {
        let regions = Rc::new(memory.regions());
        let Stopped { architecture, endian, threads } = stopped;
        Self {
            memory,
            threads: Rc::new(ThreadList::new(architecture, endian, threads)),
            regions,
            answer: None,
            offset: 0,
        }
    }

    /// With the function that answers `monitor tx-trace`.
    #[must_use]
    pub fn answering(mut self, answer: Box<Answer<'a>>) -> Self {
        self.answer = Some(answer);
        self
    }

    /// With the bits of the floating-point registers that the program's calls use, 0 for none, where that depends on how it
    /// was built.
    #[must_use]
    pub fn with_floats(mut self, bits: Option<u16>) -> Self {
        if let Some((threads, bits)) = Rc::get_mut(&mut self.threads).zip(bits) {
            threads.describe_floats(bits);
        }
        self
    }

    /// With what was added to the program's addresses when it was loaded: a debugger asks for it.
    #[must_use]
    pub const fn loaded_at(mut self, offset: u64) -> Self {
        self.offset = offset;
        self
    }

    /// Serves the client at the other end of a pipe until it leaves.
    ///
    /// # Errors
    /// Where the pipe fails, or the client sends an invalid packet.
    pub fn serve_pipe(&mut self, input: impl Read, output: impl Write) -> io::Result<()> {
        self.serve(Box::new(Pipe { input, output }))
    }

    fn serve<'w>(&'w mut self, wire: Box<dyn Wire + 'w>) -> io::Result<()> {
        self.threads.begin();
        let packet = Rc::default();
        let link = Link::new(wire, Rc::clone(&self.threads), Rc::clone(&self.regions), self.offset, Rc::clone(&packet));
        let mut target = DeadTarget {
            memory: &mut *self.memory,
            threads: Rc::clone(&self.threads),
            description: self.threads.target_xml(),
            map: memory_map_xml(self.regions.as_deref()),
            resumed: None,
            answer: match &mut self.answer {
                Some(answer) => Some(answer.as_mut()),
                None => None,
            },
        };
        // With room for the frame of the largest packet.
        let mut buffer = vec![0; PACKET + 8];
        let stub = GdbStub::builder(link)
            .with_packet_buffer(&mut buffer)
            .build()
            .map_err(|e| io::Error::other(format!("{e:?}")))?;
        let served = catch_unwind(AssertUnwindSafe(|| stub.run_blocking::<Loop<'_>>(&mut target)));
        match served {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(e)) if e.is_connection_error() => {
                Err(e.into_connection_error().map_or_else(|| io::ErrorKind::UnexpectedEof.into(), |(e, _)| e))
            }
            // An invalid packet ends only the session of its client. gdbstub's own message is for authors of servers.
            Ok(Err(_)) | Err(_) => {
                let why = format!("it sent a packet that is not valid: {}", packet.borrow());
                Err(io::Error::new(io::ErrorKind::InvalidData, why))
            }
        }
    }
}

/// A server that listens.
pub struct Server {
    clients: Clients,
}

impl Server {
    /// Binds a free port of 127.0.0.1.
    ///
    /// # Errors
    /// When no port can be bound.
    pub fn on_loopback() -> io::Result<Self> {
        Self::on((Ipv4Addr::LOCALHOST, 0))
    }

    /// Binds an address.
    ///
    /// # Errors
    /// When it cannot be bound.
    pub fn on(address: impl ToSocketAddrs) -> io::Result<Self> {
        Ok(Self { clients: Clients::new(TcpListener::bind(address)?) })
    }

    /// The address that it listens on.
    ///
    /// # Errors
    /// The system's.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.clients.address()
    }

    /// Serves memory alone to one client, until it leaves.
    ///
    /// # Errors
    /// Where no client connects, the connection fails, or the client sends an invalid packet.
    pub fn serve_one(&self, memory: &mut dyn Memory) -> io::Result<()> {
        let stopped = Stopped { architecture: None, endian: Endian::Little, threads: Vec::new() };
        let mut alone = PostMortem::new(memory, stopped);
        self.next(&mut alone).map(|_| ()).map_err(|(_, e)| e)
    }

    /// Serves the next client until it leaves.
    ///
    /// # Errors
    /// As [`Server::serve_one`], with the client's address where one connected.
    pub fn next(&self, subject: &mut PostMortem<'_>) -> Result<SocketAddr, (Option<SocketAddr>, io::Error)> {
        let (stream, from) = self.clients.next().map_err(|e| (None, e))?;
        let served = Tcp::new(stream).and_then(|tcp| subject.serve(Box::new(tcp)));
        match served {
            // The client closed the connection: it is done.
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(from),
            Err(e) => Err((Some(from), e)),
            Ok(()) => Ok(from),
        }
    }
}
