//! Where the target is, as the user typed it.

use crate::code::Code;
use crate::error::Error;
use std::fmt;
use std::path::PathBuf;

/// The baud rate of a serial line where none is given.
pub const DEFAULT_BAUD: u32 = 115_200;

/// A place to read a live target from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// `host:port`, `:port` (this machine), `[ipv6]:port`: a stub on TCP.
    Tcp {
        /// Host name or address, without brackets.
        host: String,
        /// TCP port, never 0.
        port: u16,
    },
    /// `/dev/ttyX[@baud]`, on Windows `COMn[@baud]`: a stub on a serial line.
    Serial {
        /// The device.
        path: PathBuf,
        /// Bits a second.
        baud: u32,
    },
    /// `unix:PATH`: a stub on a local socket.
    Unix(PathBuf),
    /// `|COMMAND`: a stub on a child's stdin and stdout, started by the shell.
    Command(String),
    /// `stdio:`: a stub on our own stdin and stdout.
    Stdio,
    /// `openocd:HOST:PORT`: OpenOCD's Tcl port. Memory only, no halt; not this protocol.
    OpenOcd {
        /// Host name or address.
        host: String,
        /// TCP port.
        port: u16,
    },
    /// `qmp:HOST:PORT`: QEMU's machine protocol on TCP. Memory only, no halt; not this protocol.
    QmpTcp {
        /// Host name or address.
        host: String,
        /// TCP port.
        port: u16,
    },
    /// `qmp:PATH`: QEMU's machine protocol on a local socket.
    QmpUnix(PathBuf),
}

/// Text that is no endpoint, and what would be one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not an endpoint: {why}")]
pub struct EndpointError {
    /// What was typed.
    pub text: String,
    /// What is wrong with it and what to type instead.
    pub why: String,
}

impl EndpointError {
    /// The stable code of this error.
    pub const fn code(&self) -> Code {
        Code::BadEndpoint
    }
}

impl From<EndpointError> for Error {
    fn from(error: EndpointError) -> Self {
        Self::because(error.code(), error)
    }
}

impl Endpoint {
    /// Understands every form of an endpoint.
    ///
    /// # Errors
    /// A sentence that says which form was likely meant.
    pub fn parse(text: &str) -> Result<Self, EndpointError> {
        let fail = |why: &str| Err(EndpointError { text: text.to_owned(), why: why.to_owned() });
        if let Some(command) = text.strip_prefix('|') {
            return match command.trim() {
                "" => fail("after `|` comes the command that starts the stub"),
                command => Ok(Self::Command(command.to_owned())),
            };
        }
        if text == "stdio:" || text == "stdio" {
            return Ok(Self::Stdio);
        }
        if let Some(path) = text.strip_prefix("unix:") {
            return match path {
                "" => fail("after `unix:` comes the socket's path"),
                path => Ok(Self::Unix(PathBuf::from(path))),
            };
        }
        match text {
            "openocd:" => return fail("the form is openocd:localhost:6666"),
            "qmp:" => return fail("the form is qmp:localhost:4444 or qmp:/run/qmp.sock"),
            _ => {}
        }
        let net = |rest: &str| host_port(rest).map_err(|why| EndpointError { text: text.to_owned(), why });
        if let Some(rest) = text.strip_prefix("openocd:") {
            if rest.parse::<u16>().is_ok() {
                return fail(&openocd_port(rest));
            }
            return net(rest).map(|(host, port)| Self::OpenOcd { host, port });
        }
        if let Some(rest) = text.strip_prefix("qmp:") {
            if rest.contains('/') {
                return Ok(Self::QmpUnix(PathBuf::from(rest.strip_prefix("unix:").unwrap_or(rest))));
            }
            return net(rest).map(|(host, port)| Self::QmpTcp { host, port });
        }
        if text.starts_with('/') || is_com(text) {
            return serial(text).map_err(|why| EndpointError { text: text.to_owned(), why });
        }
        if let Some(Ok((host, port))) = text.strip_prefix("tcp:").map(host_port) {
            return fail(&format!("TCP needs no prefix, type `{}`", join(&host, port)));
        }
        net(text).map(|(host, port)| Self::Tcp { host, port })
    }

    /// True for the forms that this protocol serves; false for the memory-only ones, which have readers of their own.
    pub const fn is_rsp(&self) -> bool {
        !matches!(self, Self::OpenOcd { .. } | Self::QmpTcp { .. } | Self::QmpUnix(_))
    }
}

/// For `openocd:3333`: a port of OpenOCD without a host.
fn openocd_port(port: &str) -> String {
    match port {
        "3333" => "3333 is OpenOCD's GDB port, type `:3333`; its Tcl port is `openocd::6666`".to_owned(),
        "4444" => "4444 is OpenOCD's telnet port, for people; its Tcl port is `openocd::6666`".to_owned(),
        port => format!("OpenOCD's Tcl port on this machine is `openocd::{port}`"),
    }
}

/// `COM3`, `com12@9600`: a serial line of Windows. No other endpoint looks like it.
fn is_com(text: &str) -> bool {
    let name = text.split_once('@').map_or(text, |(name, _)| name);
    let number = name.split_at_checked(3).filter(|(com, _)| com.eq_ignore_ascii_case("COM"));
    number.is_some_and(|(_, n)| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

fn serial(text: &str) -> Result<Endpoint, String> {
    let (path, baud) = match text.rsplit_once('@') {
        None => (text, DEFAULT_BAUD),
        Some((path, baud)) => match baud.parse() {
            Ok(baud) if baud > 0 => (path, baud),
            _ => return Err(format!("`{baud}` is not a baud rate; the form is {path}@115200")),
        },
    };
    Ok(Endpoint::Serial { path: PathBuf::from(path), baud })
}

fn host_port(text: &str) -> Result<(String, u16), String> {
    if text.is_empty() {
        return Err(
            "the forms are host:port, :port, /dev/ttyX[@baud], COMn[@baud], unix:PATH, |COMMAND and stdio:".into()
        );
    }
    if let Ok(port @ 1..) = text.parse::<u16>() {
        return Err(format!("for that port of this machine type `:{port}`"));
    }
    let (host, port) = match text.strip_prefix('[').map(|rest| rest.split_once(']')) {
        Some(Some((host, port))) => (host, port.strip_prefix(':')),
        Some(None) => return Err("the bracket is never closed; the form is [::1]:3333".into()),
        None => match text.rsplit_once(':') {
            Some((host, _)) if host.contains(':') => {
                return Err("an IPv6 address needs brackets: [::1]:3333".into());
            }
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    if host.contains(['[', ']']) {
        return Err(format!("`{host}` is not a host: brackets go around an IPv6 address, [::1]:3333"));
    }
    let Some(port) = port else {
        return Err(format!("the port is missing; the form is {host}:3333"));
    };
    match port.parse() {
        Ok(number @ 1..) => {
            let host = if host.is_empty() { "localhost" } else { host };
            Ok((host.to_owned(), number))
        }
        _ => Err(format!("`{port}` is not a port (1 to 65535)")),
    }
}

fn join(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } => f.write_str(&join(host, *port)),
            Self::Serial { path, baud } => write!(f, "{}@{baud}", path.display()),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Command(command) => write!(f, "|{command}"),
            Self::Stdio => f.write_str("stdio:"),
            Self::OpenOcd { host, port } => write!(f, "openocd:{}", join(host, *port)),
            Self::QmpTcp { host, port } => write!(f, "qmp:{}", join(host, *port)),
            Self::QmpUnix(path) => write!(f, "qmp:{}", path.display()),
        }
    }
}

impl std::str::FromStr for Endpoint {
    type Err = EndpointError;
    fn from_str(text: &str) -> Result<Self, EndpointError> {
        Self::parse(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_and_back() {
        for (text, shown) in [
            ("board:3333", "board:3333"),
            (":3333", "localhost:3333"),
            ("[::1]:1234", "[::1]:1234"),
            ("/dev/ttyACM0", "/dev/ttyACM0@115200"),
            ("/dev/ttyUSB0@9600", "/dev/ttyUSB0@9600"),
            ("COM3", "COM3@115200"),
            ("com12@9600", "com12@9600"),
            // A host may have any other name.
            ("com:3333", "com:3333"),
            ("com1x:3333", "com1x:3333"),
            ("unix:/run/gdb.sock", "unix:/run/gdb.sock"),
            ("|openocd -c 'gdb_port pipe'", "|openocd -c 'gdb_port pipe'"),
            ("| gdbserver - ./app", "|gdbserver - ./app"),
            ("stdio:", "stdio:"),
            ("openocd:localhost:6666", "openocd:localhost:6666"),
            ("openocd::6666", "openocd:localhost:6666"),
            ("qmp:lab:4444", "qmp:lab:4444"),
            ("qmp:/run/qmp.sock", "qmp:/run/qmp.sock"),
            ("qmp:./qmp.sock", "qmp:./qmp.sock"),
        ] {
            let endpoint = Endpoint::parse(text).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(endpoint.to_string(), shown);
            assert_eq!(Endpoint::parse(shown), Ok(endpoint));
        }
    }

    #[test]
    fn mistakes_are_answered_with_what_to_type() {
        for (text, hint) in [
            ("", "host:port"),
            ("localhost", "localhost:3333"),
            ("3333", "`:3333`"),
            ("::1:3333", "brackets"),
            ("[::1", "bracket"),
            ("[::1]", "port"),
            // Found by fuzzing: it was taken, and shown as what is none.
            ("[[U[A]:4", "not a host"),
            ("a]:4", "not a host"),
            ("host:0", "1 to 65535"),
            ("host:99999", "1 to 65535"),
            ("host:gdb", "`gdb`"),
            ("|", "command"),
            ("unix:", "path"),
            ("/dev/ttyS0@fast", "`fast`"),
            ("COM3@", "COM3@115200"),
            ("COM3:3333x", "is not a port"),
            ("tcp:localhost:3333", "`localhost:3333`"),
            ("openocd:", "openocd:localhost:6666"),
            ("openocd:3333", "GDB port, type `:3333`"),
            ("openocd:4444", "`openocd::6666`"),
            ("openocd:6666", "`openocd::6666`"),
        ] {
            let error = Endpoint::parse(text).unwrap_err();
            assert!(error.why.contains(hint), "{text}: {error}");
        }
    }

    #[test]
    fn backends_are_not_this_protocol() {
        assert!(Endpoint::parse(":1").unwrap().is_rsp());
        assert!(!Endpoint::parse("openocd::6666").unwrap().is_rsp());
        assert!(!Endpoint::parse("qmp::4444").unwrap().is_rsp());
    }
}
