//! The ends of links to a stub, and waiting for them. The system waits with a deadline for sockets alone, so what comes
//! from a pipe or a serial line is passed through a socket by a thread.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::windows::io::{AsHandle, AsRawSocket, AsSocket, BorrowedSocket};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use windows_sys::Win32::Networking::WinSock::{POLLIN, POLLOUT, SOCKET_ERROR, WSAPOLLFD, WSAPoll};

/// What the system waits for.
pub type WaitedFor<'a> = BorrowedSocket<'a>;

/// What can be waited for.
pub trait Waitable {
    /// What the system waits for; `None` where nothing need be waited for.
    fn waited_for(&self) -> Option<WaitedFor<'_>>;
}

impl<T: AsSocket> Waitable for T {
    fn waited_for(&self) -> Option<WaitedFor<'_>> {
        Some(self.as_socket())
    }
}

/// How often a signal came. A wait ends when one does.
static SIGNALS: AtomicUsize = AtomicUsize::new(0);
/// How late a wait sees a signal: it comes in a thread of its own, and ends no call.
const SLICE: Duration = Duration::from_millis(50);

/// Ends the waits of all threads.
#[cfg(feature = "cli")]
pub(super) fn end_waits() {
    SIGNALS.fetch_add(1, Ordering::SeqCst);
}

/// Waits until one of `links` can be read (or is closed), and returns its index; `None` after `deadline` or a signal.
///
/// # Errors
/// The system's.
pub fn wait_readable(links: &[Option<WaitedFor<'_>>], deadline: Instant) -> io::Result<Option<usize>> {
    poll(links, POLLIN, deadline)
}

/// Waits until `link` takes bytes; false after `deadline`. `None` takes them at any time.
///
/// # Errors
/// The system's.
pub fn wait_writable(link: Option<WaitedFor<'_>>, deadline: Instant) -> io::Result<bool> {
    if link.is_none() {
        return Ok(true);
    }
    loop {
        if poll(&[link], POLLOUT, deadline)?.is_some() {
            return Ok(true);
        }
        if Instant::now() >= deadline {
            return Ok(false);
        }
    }
}

fn poll(links: &[Option<WaitedFor<'_>>], events: i16, deadline: Instant) -> io::Result<Option<usize>> {
    let fd = |socket: BorrowedSocket<'_>| {
        let fd = socket.as_raw_socket().try_into().unwrap_or(usize::MAX);
        WSAPOLLFD { fd, events, revents: 0 }
    };
    let open = links.iter().enumerate().filter_map(|(index, link)| Some((index, fd((*link)?))));
    let (indexes, mut waiting): (Vec<usize>, Vec<WSAPOLLFD>) = open.unzip();
    let signals = SIGNALS.load(Ordering::SeqCst);
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        // Rounded up, so that a wait never ends just before its deadline and spins.
        let slice = left.min(SLICE).saturating_add(Duration::from_micros(999));
        let slice_ms = i32::try_from(slice.as_millis()).unwrap_or(1);
        if wait(&mut waiting, if left.is_zero() { 0 } else { slice_ms })? {
            // The other side is gone, or an error: the read or write that follows shows what it is.
            let ready = waiting.iter().position(|fd| fd.revents != 0);
            return Ok(ready.and_then(|at| indexes.get(at).copied()));
        }
        if left.is_zero() || SIGNALS.load(Ordering::SeqCst) != signals {
            return Ok(None);
        }
    }
}

/// True where one of `waiting` is ready.
fn wait(waiting: &mut [WSAPOLLFD], milliseconds: i32) -> io::Result<bool> {
    if waiting.is_empty() {
        // The call refuses an empty list.
        std::thread::sleep(Duration::from_millis(milliseconds.unsigned_abs().into()));
        return Ok(false);
    }
    let count = u32::try_from(waiting.len()).unwrap_or(0);
    // SAFETY: the pointer and the count are those of one slice, which lives as long as the call.
    #[allow(unsafe_code, reason = "the standard library waits for one socket alone")]
    let ready = unsafe { WSAPoll(waiting.as_mut_ptr(), count, milliseconds) };
    if ready == SOCKET_ERROR { Err(io::Error::last_os_error()) } else { Ok(ready != 0) }
}

/// The writing end of a pipe or a serial line. A write blocks until all is taken.
pub struct Writer<W>(pub(super) W);

impl<W: Write> Write for Writer<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl<W> Waitable for Writer<W> {
    fn waited_for(&self) -> Option<WaitedFor<'_>> {
        None
    }
}

/// A socket that receives what `from` gives, until that ends or the socket is closed.
pub(super) fn through_socket(mut from: impl Read + Send + 'static) -> io::Result<TcpStream> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut to = TcpStream::connect(listener.local_addr()?)?;
    let ours = to.local_addr()?;
    let (reader, who) = listener.accept()?;
    if who != ours {
        return Err(io::Error::new(ErrorKind::ConnectionRefused, "another program took our connection to ourselves"));
    }
    to.set_nodelay(true)?;
    reader.set_nonblocking(true)?;
    std::thread::Builder::new().name("reader".into()).spawn(move || {
        // The end of either side is seen by the one that reads the socket, or by nobody.
        drop(io::copy(&mut from, &mut to));
        drop(to.shutdown(Shutdown::Both));
    })?;
    Ok(reader)
}

/// Our standard input and output, as ends of a link.
///
/// # Errors
/// The system's.
pub fn stdio() -> io::Result<(TcpStream, Writer<File>)> {
    let input = File::from(io::stdin().as_handle().try_clone_to_owned()?);
    let output = File::from(io::stdout().as_handle().try_clone_to_owned()?);
    Ok((through_socket(input)?, Writer(output)))
}

/// A child's standard output and input, as ends of a link.
///
/// # Errors
/// The system's.
pub fn child_pipes(output: ChildStdout, input: ChildStdin) -> io::Result<(TcpStream, Writer<ChildStdin>)> {
    Ok((through_socket(output)?, Writer(input)))
}

/// No command is started here: the processes that a command starts could not all be ended with it.
///
/// # Errors
/// Always.
pub fn shell(_: &str) -> io::Result<Command> {
    Err(unsupported("|COMMAND does not work on Windows: start the stub yourself, and give its TCP port (:3333)"))
}

/// Stands for a connection to a local socket, of which there are none here.
pub type LocalSocket = TcpStream;

/// Local sockets are not connected to here.
///
/// # Errors
/// Always.
pub fn connect_local(_: &Path) -> io::Result<LocalSocket> {
    Err(unsupported("local sockets do not work on Windows: let the stub listen on TCP, and give its port (:3333)"))
}

fn unsupported(why: &str) -> io::Error {
    io::Error::new(ErrorKind::Unsupported, why)
}

/// Nothing: the system decides when it acknowledges. The link works, and may be slower.
pub const fn acknowledge_at_once(_: &TcpStream) {}
