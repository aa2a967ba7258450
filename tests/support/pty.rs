//! Programs at a terminal.
#![allow(unsafe_code, reason = "a pseudo terminal is not to be had otherwise")]

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use super::tools::TIME_LIMIT;

/// A program at a pseudo terminal, which ends with the test.
pub struct Terminal {
    pub child: Child,
    master: File,
    seen: String,
}

impl Terminal {
    pub fn start(mut command: Command) -> Self {
        let (mut master, mut slave) = (0, 0);
        // SAFETY: openpty fills two descriptors; the other pointers may be null.
        let made = unsafe {
            libc::openpty(
                &raw mut master,
                &raw mut slave,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
                std::ptr::null_mut(),
            )
        };
        assert_eq!(made, 0, "a pseudo terminal");
        // SAFETY: both were just opened, and nobody else owns them.
        let (master, slave) = unsafe { (OwnedFd::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) };
        // Not for the children: while one of them has it open, the other end never hangs up.
        // SAFETY: a flag of a descriptor that we own.
        unsafe { libc::fcntl(master.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) };
        let end = || slave.try_clone().unwrap();
        command.stdin(end()).stdout(end()).stderr(end());
        // SAFETY: both calls are safe after a fork. They make the terminal that of the new session.
        unsafe {
            command.pre_exec(|| {
                libc::setsid();
                libc::ioctl(0, libc::TIOCSCTTY, 0);
                Ok(())
            });
        }
        let child = command.spawn().unwrap();
        Self { child, master: File::from(master), seen: String::new() }
    }

    pub fn type_in(&mut self, text: &str) {
        self.master.write_all(text.as_bytes()).unwrap();
    }

    /// Waits for a text, and returns all that came until then.
    pub fn wait(&mut self, text: &str) -> String {
        let deadline = Instant::now() + TIME_LIMIT;
        loop {
            if let Some(at) = self.seen.find(text) {
                return self.seen.drain(..at + text.len()).collect();
            }
            assert!(Instant::now() < deadline, "no {text:?} in {:?}", self.seen);
            let mut wanted = libc::pollfd { fd: self.master.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one pollfd, of a descriptor that we own.
            if unsafe { libc::poll(&raw mut wanted, 1, 100) } > 0 {
                let mut bytes = [0; 4096];
                let count = self.master.read(&mut bytes).unwrap_or(0);
                assert!(count > 0, "it ended: {:?}", self.seen);
                self.seen.push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
