//! A core or dump as an RSP target: the only user of gdbstub. Read-only, and nothing runs.

mod line;
mod target;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};

use gdbstub::stub::GdbStub;

use crate::mem::Memory;
use line::Line;
use target::{DeadTarget, Loop};

/// The largest packet.
const PACKET: usize = 0x4000;

/// A server on loopback that has not answered anybody yet.
pub struct Server {
    listener: TcpListener,
}

impl Server {
    /// Binds a free port of 127.0.0.1.
    ///
    /// # Errors
    /// When no port can be bound.
    pub fn on_loopback() -> io::Result<Self> {
        Ok(Self { listener: TcpListener::bind((Ipv4Addr::LOCALHOST, 0))? })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves one client to its end.
    ///
    /// # Errors
    /// When no client comes, or the connection or the client's packets break.
    pub fn serve_one(&self, memory: &mut dyn Memory) -> io::Result<()> {
        let (stream, _) = self.listener.accept()?;
        serve(stream, memory)
    }
}

/// Serves the client at the other end of `stream` until it leaves.
fn serve(stream: TcpStream, memory: &mut dyn Memory) -> io::Result<()> {
    let mut buffer = vec![0; PACKET];
    let stub = GdbStub::builder(Line::new(stream))
        .with_packet_buffer(&mut buffer)
        .build()
        .map_err(|e| io::Error::other(format!("{e:?}")))?;
    let mut target = DeadTarget::new(memory);
    stub.run_blocking::<Loop<'_>>(&mut target).map(|_| ()).map_err(|e| io::Error::other(e.to_string()))
}
