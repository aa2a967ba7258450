//! The bytes of one client: a TCP stream, or standard input and output.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// How long a client may take to read what it asked for.
const WRITING: Duration = Duration::from_secs(30);

/// Bytes in and out.
pub(super) trait Wire {
    /// Some bytes; none at the end.
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize>;
    /// All of these.
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// How long the next reads may wait; `None`: without end, as a wire without timeouts always does.
    fn set_timeout(&mut self, _: Option<Duration>) -> io::Result<()> {
        Ok(())
    }
}

/// A TCP client.
pub(super) struct Tcp {
    stream: TcpStream,
    timeout: Option<Duration>,
}

impl Tcp {
    pub(super) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(WRITING))?;
        stream.set_read_timeout(None)?;
        Ok(Self { stream, timeout: None })
    }
}

impl Wire for Tcp {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.stream.read(buf)
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    fn set_timeout(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        if self.timeout != timeout {
            self.stream.set_read_timeout(timeout)?;
            self.timeout = timeout;
        }
        Ok(())
    }
}

/// A debugger at the other end of a pipe.
pub(super) struct Pipe<R, W> {
    pub(super) input: R,
    pub(super) output: W,
}

impl<R: Read, W: Write> Wire for Pipe<R, W> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.input.read(buf)
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.output.write_all(bytes)?;
        self.output.flush()
    }
}
