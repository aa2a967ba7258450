//! Waiting for descriptors, with a deadline.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

/// What the system waits for.
pub type WaitedFor<'a> = BorrowedFd<'a>;

/// What can be waited for.
pub trait Waitable {
    /// What the system waits for; `None` where nothing need be waited for.
    fn waited_for(&self) -> Option<WaitedFor<'_>>;
}

impl<T: AsFd> Waitable for T {
    fn waited_for(&self) -> Option<WaitedFor<'_>> {
        Some(self.as_fd())
    }
}

/// Waits until one of `fds` can be read (or is closed), and returns its index; `None` after `deadline` or a signal.
///
/// # Errors
/// The system's.
pub fn wait_readable(fds: &[Option<WaitedFor<'_>>], deadline: Instant) -> io::Result<Option<usize>> {
    poll(fds, PollFlags::IN, deadline)
}

/// Waits until `fd` takes bytes; false after `deadline`. `None` takes them at any time.
///
/// # Errors
/// The system's.
pub fn wait_writable(fd: Option<WaitedFor<'_>>, deadline: Instant) -> io::Result<bool> {
    if fd.is_none() {
        return Ok(true);
    }
    loop {
        if poll(&[fd], PollFlags::OUT, deadline)?.is_some() {
            return Ok(true);
        }
        if Instant::now() >= deadline {
            return Ok(false);
        }
    }
}

fn poll(fds: &[Option<WaitedFor<'_>>], events: PollFlags, deadline: Instant) -> io::Result<Option<usize>> {
    let open = fds.iter().enumerate().filter_map(|(index, fd)| Some((index, PollFd::from_borrowed_fd((*fd)?, events))));
    let (indexes, mut waiting): (Vec<usize>, Vec<PollFd<'_>>) = open.unzip();
    let left = deadline.saturating_duration_since(Instant::now());
    // Rounded up, so that a wait never ends just before its deadline and spins; a look at what is there is no wait.
    let wait = if left.is_zero() { left } else { left.saturating_add(Duration::from_micros(999)) };
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
