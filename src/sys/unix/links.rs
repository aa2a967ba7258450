//! The ends of links to a stub: pipes, local sockets, children.

use std::fs::File;
use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command};

/// A connection to a local socket.
pub type LocalSocket = UnixStream;

/// Connects to a local socket.
///
/// # Errors
/// The system's.
pub fn connect_local(path: &Path) -> io::Result<LocalSocket> {
    UnixStream::connect(path)
}

/// Our standard input and output, as ends of a link.
///
/// # Errors
/// The system's.
pub fn stdio() -> io::Result<(File, File)> {
    Ok((io::stdin().as_fd().try_clone_to_owned()?.into(), io::stdout().as_fd().try_clone_to_owned()?.into()))
}

/// A child's standard output and input, as ends of a link.
///
/// # Errors
/// Never, on these systems.
pub fn child_pipes(output: ChildStdout, input: ChildStdin) -> io::Result<(File, File)> {
    Ok((OwnedFd::from(output).into(), OwnedFd::from(input).into()))
}

/// The shell with a command. It leads a process group of its own, so that Ctrl-C in the terminal reaches us and not it.
///
/// # Errors
/// Never, on these systems.
pub fn shell(command: &str) -> io::Result<Command> {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(command).process_group(0);
    Ok(shell)
}

/// Makes the kernel acknowledge at once what a TCP connection receives, until it decides otherwise. Linux only; elsewhere
/// nothing happens. Best effort: without it the link is slower and works.
pub fn acknowledge_at_once(stream: &TcpStream) {
    #[cfg(target_os = "linux")]
    let _ = rustix::net::sockopt::set_tcp_quickack(stream, true);
    #[cfg(not(target_os = "linux"))]
    let _ = stream;
}
