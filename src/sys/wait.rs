//! Waiting for descriptors, with a deadline.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

/// Waits until one of `fds` can be read (or is closed), and returns its index; `None` after `deadline` or a signal.
///
/// # Errors
/// The system's.
pub fn wait_readable(fds: &[Option<BorrowedFd<'_>>], deadline: Instant) -> io::Result<Option<usize>> {
    poll(fds, PollFlags::IN, deadline)
}

/// Waits until `fd` takes bytes; false after `deadline`.
///
/// # Errors
/// The system's.
pub fn wait_writable(fd: BorrowedFd<'_>, deadline: Instant) -> io::Result<bool> {
    loop {
        if poll(&[Some(fd)], PollFlags::OUT, deadline)?.is_some() {
            return Ok(true);
        }
        if Instant::now() >= deadline {
            return Ok(false);
        }
    }
}

fn poll(fds: &[Option<BorrowedFd<'_>>], events: PollFlags, deadline: Instant) -> io::Result<Option<usize>> {
    let open = fds.iter().enumerate().filter_map(|(index, fd)| Some((index, PollFd::from_borrowed_fd((*fd)?, events))));
    let (indexes, mut waiting): (Vec<usize>, Vec<PollFd<'_>>) = open.unzip();
    // Rounded up, so that a wait never ends just before its deadline and spins.
    let wait = deadline.saturating_duration_since(Instant::now()).saturating_add(Duration::from_micros(999));
    let wait = Timespec::try_from(wait).unwrap_or(Timespec { tv_sec: i64::from(i32::MAX), tv_nsec: 0 });
    match rustix::event::poll(&mut waiting, Some(&wait)) {
        // The other side is gone, or an error: the read or write that follows shows what it is.
        Ok(_) => {
            let ready = waiting.iter().position(|fd| !fd.revents().is_empty());
            Ok(ready.and_then(|at| indexes.get(at).copied()))
        }
        Err(Errno::INTR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Makes the kernel acknowledge at once what a TCP connection receives, until it decides otherwise. Linux only; elsewhere
/// nothing happens. Best effort: without it the link is slower and works.
pub fn acknowledge_at_once(fd: BorrowedFd<'_>) {
    #[cfg(target_os = "linux")]
    let _ = rustix::net::sockopt::set_tcp_quickack(fd, true);
    #[cfg(not(target_os = "linux"))]
    let _ = fd;
}
