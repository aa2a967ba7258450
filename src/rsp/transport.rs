//! How bytes get to a stub and back: TCP, a local socket, a child's pipes, our own stdin and stdout, a serial line.
//!
//! Every call has a deadline. Nothing here knows what a packet is.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::endpoint::Endpoint;
use super::error::{RspError, RspErrorKind};
use crate::error::reason;
use crate::sys::{self, GroupSignal, LocalSocket, Waitable, WaitedFor};

/// Why bytes did not get across.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransportError {
    /// The deadline passed first.
    Timeout,
    /// The other side has closed the link. The text says what is known about the reason, or is empty.
    Closed(String),
    /// The system's words.
    Io(String),
}

/// A link to a stub or to a debugger.
pub trait Transport: Send {
    /// Sends all of `bytes`.
    ///
    /// # Errors
    /// [`TransportError`]; how much was sent is then unknown.
    fn send(&mut self, bytes: &[u8], deadline: Instant) -> Result<(), TransportError>;

    /// Waits for bytes and puts them into `buf`; the number is never 0. A deadline in the past asks for what is
    /// there already.
    ///
    /// # Errors
    /// [`TransportError`].
    fn receive(&mut self, buf: &mut [u8], deadline: Instant) -> Result<usize, TransportError>;

    /// What the system waits for where two links are served at once.
    fn readable(&self) -> Option<WaitedFor<'_>> {
        None
    }
}

/// Waits until one of `links` has something to receive, and returns its index; `None` when `deadline` passes, or when
/// a signal came in between. A link without a descriptor is never ready.
///
/// # Errors
/// The system's.
pub fn wait_any(links: &[&dyn Transport], deadline: Instant) -> io::Result<Option<usize>> {
    let fds: Vec<Option<WaitedFor<'_>>> = links.iter().map(|link| link.readable()).collect();
    sys::wait_readable(&fds, deadline)
}

/// Opens the link that `endpoint` names; `timeout` bounds the whole attempt.
///
/// # Errors
/// One of the `connect` kinds of [`RspError`].
pub fn open(endpoint: &Endpoint, timeout: Duration) -> Result<Box<dyn Transport>, RspError> {
    let name = endpoint.to_string();
    let cannot = |e: io::Error| connect_error(&name, timeout, &e);
    match endpoint {
        Endpoint::Tcp { host, port } | Endpoint::OpenOcd { host, port } | Endpoint::QmpTcp { host, port } => {
            Ok(Box::new(tcp(&name, host, *port, timeout)?))
        }
        Endpoint::Unix(path) | Endpoint::QmpUnix(path) => match local_socket(path, timeout) {
            // The system calls that a connection refused.
            Err(_) if path.metadata().is_ok_and(|file| sys::kind_of_file(file.file_type()) != "socket") => {
                let why = "it is not a socket; give a core or a dump as a FILE".to_owned();
                Err(RspErrorKind::CannotOpen { why }.at(name))
            }
            opened => Ok(Box::new(opened.map_err(cannot)?)),
        },
        Endpoint::Command(command) => Ok(Box::new(ChildLink::start(command).map_err(cannot)?)),
        Endpoint::Stdio => {
            let (reader, writer) = sys::stdio().map_err(cannot)?;
            Ok(Box::new(Channel { reader, writer, burst: PIPE_BURST }))
        }
        Endpoint::Serial { path, baud } => Ok(Box::new(serial(path, *baud).map_err(cannot)?)),
    }
}

/// Makes a link of a TCP connection that is already there: the accepted end of a server.
///
/// # Errors
/// The system's.
pub fn accepted(stream: TcpStream) -> io::Result<Box<dyn Transport>> {
    Ok(Box::new(Channel::of_tcp(stream)?))
}

/// Waits for a connection to a listening socket that does not block; `None` when `deadline` passes, or after a signal.
///
/// # Errors
/// The system's.
pub fn accept(listener: &TcpListener, deadline: Instant) -> io::Result<Option<(Box<dyn Transport>, SocketAddr)>> {
    if sys::wait_readable(&[listener.waited_for()], deadline)?.is_none() {
        return Ok(None);
    }
    match listener.accept() {
        Ok((stream, who)) => Ok(Some((accepted(stream)?, who))),
        // The client may have closed the connection already.
        Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => {
            Ok(None)
        }
        Err(e) => Err(e),
    }
}

fn connect_error(endpoint: &str, timeout: Duration, error: &io::Error) -> RspError {
    let why = match error.kind() {
        ErrorKind::ConnectionRefused => return RspErrorKind::Refused.at(endpoint),
        ErrorKind::TimedOut | ErrorKind::WouldBlock => return RspErrorKind::ConnectTimeout { timeout }.at(endpoint),
        ErrorKind::NotFound => "there is no such file".to_owned(),
        ErrorKind::PermissionDenied => "permission denied (is your user in the device's group?)".to_owned(),
        _ => reason(error),
    };
    RspErrorKind::CannotOpen { why }.at(endpoint)
}

/// Runs a call that cannot be given a deadline in a thread of its own. When it is late, the thread is left behind.
fn within<T: Send + 'static>(
    timeout: Duration,
    call: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let (sender, receiver) = mpsc::channel();
    std::thread::Builder::new().name("connect".into()).spawn(move || sender.send(call()))?;
    receiver.recv_timeout(timeout).unwrap_or_else(|_| Err(io::Error::from(ErrorKind::TimedOut)))
}

fn tcp(name: &str, host: &str, port: u16, timeout: Duration) -> Result<Channel<PromptTcp, TcpStream>, RspError> {
    let deadline = deadline_in(timeout);
    let target = (host.to_owned(), port);
    let addresses: Vec<SocketAddr> = within(timeout, move || Ok(target.to_socket_addrs()?.collect())).map_err(|e| {
        let late = e.kind() == ErrorKind::TimedOut;
        let why = if late { format!("no answer within {timeout:?}") } else { reason(&e) };
        RspErrorKind::HostUnknown { why }.at(name)
    })?;
    let mut worst = io::Error::from(ErrorKind::AddrNotAvailable);
    for (address, left) in addresses.iter().zip((1..=addresses.len()).rev()) {
        // A stub that listens on IPv4 only refuses `localhost` on IPv6 at once; a filtered address takes its share.
        let share = remaining(deadline).div_f64(left as f64);
        let attempt = TcpStream::connect_timeout(address, share.max(Duration::from_millis(10)));
        match attempt.and_then(Channel::of_tcp) {
            Ok(channel) => return Ok(channel),
            Err(e) => worst = e,
        }
    }
    Err(connect_error(name, timeout, &worst))
}

fn local_socket(path: &Path, timeout: Duration) -> io::Result<Channel<LocalSocket>> {
    let path = path.to_owned();
    // connect(2) blocks without end where the backlog of a stub that serves one client is full.
    let stream = within(timeout, move || sys::connect_local(&path))?;
    stream.set_nonblocking(true)?;
    Ok(Channel { writer: stream.try_clone()?, reader: stream, burst: usize::MAX })
}

fn serial(path: &Path, baud: u32) -> io::Result<impl Transport + use<>> {
    let (reader, writer) = sys::open_serial(path, baud)?;
    Ok(Channel { reader, writer, burst: usize::MAX })
}

/// The most bytes that a pipe takes without blocking once poll(2) has said that it takes any (POSIX: at least 512).
const PIPE_BURST: usize = 512;

/// Two descriptors, one to read and one to write.
struct Channel<R, W = R> {
    reader: R,
    writer: W,
    /// The most bytes in one write: everything where the descriptor does not block.
    burst: usize,
}

impl Channel<PromptTcp, TcpStream> {
    fn of_tcp(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        sys::acknowledge_at_once(&stream);
        Ok(Self { writer: stream.try_clone()?, reader: PromptTcp(stream), burst: usize::MAX })
    }
}

/// The receiving side of a TCP connection, which acknowledges what it receives at once.
///
/// A server that does not set `TCP_NODELAY` (pyOCD) holds its next small packet back until the one before is
/// acknowledged. The kernel delays that by 40 ms, and so would each batch of reads be.
struct PromptTcp(TcpStream);

impl Read for PromptTcp {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let count = self.0.read(buf)?;
        // The kernel goes back to delayed acknowledgements by itself.
        sys::acknowledge_at_once(&self.0);
        Ok(count)
    }
}

impl Waitable for PromptTcp {
    fn waited_for(&self) -> Option<WaitedFor<'_>> {
        self.0.waited_for()
    }
}

impl<R: Read + Waitable + Send, W: Write + Waitable + Send> Transport for Channel<R, W> {
    fn send(&mut self, bytes: &[u8], deadline: Instant) -> Result<(), TransportError> {
        let mut rest = bytes;
        while !rest.is_empty() {
            if !sys::wait_writable(self.writer.waited_for(), deadline).map_err(broken)? {
                return Err(TransportError::Timeout);
            }
            let now = rest.get(..self.burst.min(rest.len())).unwrap_or(rest);
            match self.writer.write(now) {
                Ok(0) => return Err(TransportError::Closed(String::new())),
                Ok(n) => rest = rest.get(n..).unwrap_or_default(),
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(e) => return Err(broken(e)),
            }
        }
        Ok(())
    }

    fn receive(&mut self, buf: &mut [u8], deadline: Instant) -> Result<usize, TransportError> {
        loop {
            if sys::wait_readable(&[self.reader.waited_for()], deadline).map_err(broken)?.is_some() {
                match self.reader.read(buf) {
                    Ok(0) => return Err(TransportError::Closed(String::new())),
                    Ok(n) => return Ok(n),
                    Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                    Err(e) => return Err(broken(e)),
                }
            }
            if Instant::now() >= deadline {
                return Err(TransportError::Timeout);
            }
        }
    }

    fn readable(&self) -> Option<WaitedFor<'_>> {
        self.reader.waited_for()
    }
}

fn broken(error: io::Error) -> TransportError {
    match error.kind() {
        ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::BrokenPipe => {
            TransportError::Closed(String::new())
        }
        _ => TransportError::Io(reason(&error)),
    }
}

/// How long the processes of a command may take to end after SIGTERM, before SIGKILL.
const TERM_GRACE: Duration = Duration::from_millis(500);
/// How long SIGKILL may take.
const KILL_GRACE: Duration = Duration::from_secs(1);

/// A stub that we started ourselves. Ctrl-C in the terminal does not reach it: we still have to leave the target in order.
struct ChildLink {
    /// Gone once the child is to end: its stdin is then closed.
    pipes: Option<Box<dyn Transport>>,
    child: Child,
}

impl ChildLink {
    fn start(command: &str) -> io::Result<Self> {
        let child = sys::shell(command)?.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut link = Self { pipes: None, child };
        if let (Some(output), Some(input)) = (link.child.stdout.take(), link.child.stdin.take()) {
            let (reader, writer) = sys::child_pipes(output, input)?;
            link.pipes = Some(Box::new(Channel { reader, writer, burst: PIPE_BURST }));
        }
        Ok(link)
    }

    /// Waits a moment for the child to end by itself.
    fn ended(&mut self, grace: Duration) -> Option<std::process::ExitStatus> {
        let deadline = deadline_in(grace);
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(2)),
                _ => return None,
            }
        }
    }

    fn explain(&mut self, error: TransportError) -> TransportError {
        match error {
            TransportError::Closed(_) => match self.ended(Duration::from_millis(100)) {
                Some(status) => TransportError::Closed(format!(": the command ended ({status})")),
                None => TransportError::Closed(String::new()),
            },
            other => other,
        }
    }
}

impl Transport for ChildLink {
    fn send(&mut self, bytes: &[u8], deadline: Instant) -> Result<(), TransportError> {
        let Some(pipes) = &mut self.pipes else { return Err(TransportError::Closed(String::new())) };
        pipes.send(bytes, deadline).map_err(|e| self.explain(e))
    }

    fn receive(&mut self, buf: &mut [u8], deadline: Instant) -> Result<usize, TransportError> {
        let Some(pipes) = &mut self.pipes else { return Err(TransportError::Closed(String::new())) };
        pipes.receive(buf, deadline).map_err(|e| self.explain(e))
    }

    fn readable(&self) -> Option<WaitedFor<'_>> {
        self.pipes.as_ref().and_then(|pipes| pipes.readable())
    }
}

impl Drop for ChildLink {
    fn drop(&mut self) {
        // A well-behaved stub ends at the end of its stdin; the rest of the group goes by signal.
        self.pipes = None;
        let _ = self.ended(Duration::from_millis(150));
        let group = self.child.id();
        let deadline = deadline_in(TERM_GRACE);
        let mut left = sys::signal_group(group, GroupSignal::Term);
        while left && Instant::now() < deadline {
            // A child that has ended is of the group until it is waited for.
            let _ = self.child.try_wait();
            std::thread::sleep(Duration::from_millis(5));
            left = sys::signal_group(group, GroupSignal::Test);
        }
        if left {
            let _ = sys::signal_group(group, GroupSignal::Kill);
        }
        // A process that hangs in the kernel ends later than we do.
        let _ = self.ended(KILL_GRACE);
    }
}

/// The moment `time` from now; a far one where that overflows.
pub(crate) fn deadline_in(time: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(time).or_else(|| now.checked_add(Duration::from_secs(86_400))).unwrap_or(now)
}

/// How long until `deadline`.
pub(crate) fn remaining(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}
