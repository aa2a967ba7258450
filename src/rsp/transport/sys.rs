//! The few calls for which the standard library has no words: poll(2), termios(3), `TCP_QUICKACK`, and a signal to a
//! process group.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::{Duration, Instant};

use super::remaining;

/// Waits until one of `fds` can be read (or is closed), and returns its index; `None` after `deadline` or a signal.
pub(super) fn wait_readable(fds: &[Option<BorrowedFd<'_>>], deadline: Instant) -> io::Result<Option<usize>> {
    poll(fds, libc::POLLIN, deadline)
}

/// Waits until `fd` takes bytes; false after `deadline`.
pub(super) fn wait_writable(fd: BorrowedFd<'_>, deadline: Instant) -> io::Result<bool> {
    loop {
        if poll(&[Some(fd)], libc::POLLOUT, deadline)?.is_some() {
            return Ok(true);
        }
        if Instant::now() >= deadline {
            return Ok(false);
        }
    }
}

fn poll(fds: &[Option<BorrowedFd<'_>>], events: libc::c_short, deadline: Instant) -> io::Result<Option<usize>> {
    // poll(2) skips negative descriptors.
    let mut wanted: Vec<libc::pollfd> = fds
        .iter()
        .map(|fd| libc::pollfd { fd: fd.as_ref().map_or(-1, AsRawFd::as_raw_fd), events, revents: 0 })
        .collect();
    // Rounded up, so that a wait never ends just before its deadline and spins.
    let wait = remaining(deadline).saturating_add(Duration::from_micros(999)).as_millis();
    let wait = libc::c_int::try_from(wait).unwrap_or(libc::c_int::MAX);
    let count = libc::nfds_t::try_from(wanted.len()).unwrap_or(0);
    // SAFETY: `wanted` holds `count` initialised pollfd structures and outlives the call; the descriptors are open,
    // since they are borrowed.
    let ready = unsafe { libc::poll(wanted.as_mut_ptr(), count, wait) };
    if ready < 0 {
        let error = io::Error::last_os_error();
        return if error.kind() == io::ErrorKind::Interrupted { Ok(None) } else { Err(error) };
    }
    // POLLHUP and POLLERR count: the read or write that follows tells what they mean.
    Ok(wanted.iter().position(|fd| fd.revents != 0))
}

/// Makes the kernel acknowledge at once what a TCP connection receives, until it decides otherwise. Linux only; elsewhere
/// nothing happens. Best effort: without it the link is slower and works.
pub(super) fn acknowledge_at_once(fd: BorrowedFd<'_>) {
    #[cfg(target_os = "linux")]
    {
        let on: libc::c_int = 1;
        let size = libc::socklen_t::try_from(size_of_val(&on)).unwrap_or(0);
        // SAFETY: the descriptor is borrowed, hence open; the option is a c_int, which outlives the call.
        unsafe {
            libc::setsockopt(
                fd.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_QUICKACK,
                (&raw const on).cast::<libc::c_void>(),
                size,
            );
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = fd;
}

/// Puts a serial line into raw mode, 8N1, at `baud` bits a second, and forgets what it received before.
pub(super) fn make_raw(fd: BorrowedFd<'_>, baud: u32) -> io::Result<()> {
    let speed = speed_of(baud).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{baud} is not a baud rate that serial lines here can have"),
        )
    })?;
    let fd = fd.as_raw_fd();
    // SAFETY: termios is plain data, for which all zeros is a value; tcgetattr then fills it. Every call gets a
    // pointer to that structure and a descriptor that is borrowed, hence open.
    unsafe {
        let mut mode: libc::termios = std::mem::zeroed();
        if libc::tcgetattr(fd, &raw mut mode) != 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a serial line"));
        }
        libc::cfmakeraw(&raw mut mode);
        mode.c_cflag |= libc::CLOCAL | libc::CREAD;
        mode.c_cflag &= !(libc::CSTOPB | libc::CRTSCTS);
        if libc::cfsetispeed(&raw mut mode, speed) != 0
            || libc::cfsetospeed(&raw mut mode, speed) != 0
            || libc::tcsetattr(fd, libc::TCSANOW, &raw const mode) != 0
            || libc::tcflush(fd, libc::TCIFLUSH) != 0
        {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

fn speed_of(baud: u32) -> Option<libc::speed_t> {
    Some(match baud {
        1200 => libc::B1200,
        2400 => libc::B2400,
        4800 => libc::B4800,
        9600 => libc::B9600,
        19_200 => libc::B19200,
        38_400 => libc::B38400,
        57_600 => libc::B57600,
        115_200 => libc::B115200,
        230_400 => libc::B230400,
        #[cfg(target_os = "linux")]
        460_800 => libc::B460800,
        #[cfg(target_os = "linux")]
        500_000 => libc::B500000,
        #[cfg(target_os = "linux")]
        576_000 => libc::B576000,
        #[cfg(target_os = "linux")]
        921_600 => libc::B921600,
        #[cfg(target_os = "linux")]
        1_000_000 => libc::B1000000,
        #[cfg(target_os = "linux")]
        1_500_000 => libc::B1500000,
        #[cfg(target_os = "linux")]
        2_000_000 => libc::B2000000,
        #[cfg(target_os = "linux")]
        3_000_000 => libc::B3000000,
        _ => return None,
    })
}

/// What is sent to a group of processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signal {
    /// Nothing: it asks whether the group is there.
    None,
    /// The request to end.
    Term,
    /// The end.
    Kill,
}

/// Sends a signal to every process of the group that `leader` leads; false where there is none any more.
pub(super) fn signal_group(leader: u32, signal: Signal) -> bool {
    let signal = match signal {
        Signal::None => 0,
        Signal::Term => libc::SIGTERM,
        Signal::Kill => libc::SIGKILL,
    };
    match libc::pid_t::try_from(leader) {
        // SAFETY: killpg takes two numbers and touches no memory of ours. The group was made for this child alone.
        Ok(group) if group > 1 => unsafe { libc::killpg(group, signal) == 0 },
        _ => false,
    }
}
