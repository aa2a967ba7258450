//! What can go wrong on the link, each with a stable code and one sentence that says what to try.

use crate::code::Code;
use crate::error::Error;
use std::fmt;
use std::time::Duration;

/// An error of the link or of the stub at an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RspError {
    /// The endpoint, as messages name it.
    pub endpoint: String,
    /// What happened.
    pub kind: RspErrorKind,
}

impl fmt::Display for RspError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let colon = if self.kind == RspErrorKind::NotRsp { "" } else { ":" };
        write!(f, "{}{colon} {}", self.endpoint, self.kind)
    }
}

impl std::error::Error for RspError {}

/// What can go wrong on a link.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RspErrorKind {
    /// No program listens there.
    #[error("connection refused; is the stub running, and is this its port?")]
    Refused,
    /// The name has no address.
    #[error("the host name does not resolve ({why})")]
    HostUnknown {
        /// The resolver's words.
        why: String,
    },
    /// No answer to the attempt to connect.
    #[error("no connection within {timeout:?}; is the host up and the port open? (--timeout allows more)")]
    ConnectTimeout {
        /// The time allowed.
        timeout: Duration,
    },
    /// The device, socket or command cannot be opened.
    #[error("cannot open it: {why}")]
    CannotOpen {
        /// The system's words, or a sentence of this crate.
        why: String,
    },
    /// The endpoint is served by other code.
    #[error("does not speak the GDB remote protocol")]
    NotRsp,
    /// Connected, and not one byte came.
    #[error("connected, but nothing was answered within {timeout:?}; {hint}")]
    NoAnswer {
        /// The time allowed.
        timeout: Duration,
        /// What is likely, for this kind of endpoint.
        hint: &'static str,
    },
    /// It answered before, and then stopped to.
    #[error("no answer to `{packet}` within {timeout:?}{state}; --timeout allows more")]
    Stalled {
        /// The request.
        packet: String,
        /// The time allowed.
        timeout: Duration,
        /// What did come, with a comma in front; or nothing.
        state: &'static str,
    },
    /// The other side closed the link.
    #[error("the stub closed the connection {when}{why}")]
    Closed {
        /// What it was asked.
        when: String,
        /// What is known about the reason, with a separator in front; or nothing.
        why: String,
    },
    /// The system reported an error on the link.
    #[error("the link failed: {why}")]
    Link {
        /// The system's words.
        why: String,
    },
    /// Console output or notifications without end in place of an answer.
    #[error("the stub keeps sending {what} and did not answer `{packet}` within {timeout:?}")]
    Chatter {
        /// The request.
        packet: String,
        /// The time allowed.
        timeout: Duration,
        /// What it sends.
        what: &'static str,
    },
    /// A packet that does not end.
    #[error("a packet without end came in answer to `{packet}`; {hint}")]
    Endless {
        /// The request.
        packet: String,
        /// What to check.
        hint: &'static str,
    },
    /// Checksums keep failing.
    #[error("the link damages packets (last: `{came}` in answer to `{packet}`); check baud rate and cable")]
    Checksum {
        /// The request.
        packet: String,
        /// The start of the last damaged packet, escaped; `-` where the stub said that ours was.
        came: String,
    },
    /// An answer that cannot be one to this question.
    #[error("`{reply}` is not an answer to `{packet}`")]
    BadReply {
        /// The request.
        packet: String,
        /// The start of what came, escaped.
        reply: String,
    },
    /// The request itself came back.
    #[error(
        "the other end only echoes: `{packet}` came back as it was sent; is it a serial line with echo on, or no stub at all?"
    )]
    Echo {
        /// The request.
        packet: String,
    },
    /// Bytes that are not the protocol at all.
    #[error("the other end does not speak the GDB remote protocol (it sent `{sent}`); {}", other_port(.sent))]
    NotAStub {
        /// The start of what came, escaped.
        sent: String,
    },
    /// An `E` reply where the client cannot go on without an answer.
    #[error("the stub refused `{packet}` with {reply}")]
    Refusal {
        /// The request.
        packet: String,
        /// The reply: `E` and two digits, or `E.` and words.
        reply: String,
    },
    /// An empty reply: the stub does not know a packet that the client needs.
    #[error("the stub does not support `{packet}`")]
    Unsupported {
        /// The request.
        packet: String,
    },
    /// The stub has no target: nothing attached, or the program has ended.
    #[error(
        "the stub has no target (it says `{reply}`); attach it first, on Black Magic by \
         `monitor swdp_scan` and `attach 1` in GDB"
    )]
    NoTarget {
        /// The stop reply.
        reply: String,
    },
    /// The debugger answers, and does not reach its target.
    #[error("OpenOCD cannot reach its target (it says `{why}`): {hint}")]
    TargetLost {
        /// The debugger's own words.
        why: String,
        /// What to check.
        hint: &'static str,
    },
    /// The target runs and cannot be stopped.
    #[error("the target runs and did not stop within {timeout:?}, so its memory cannot be read")]
    Runs {
        /// The time allowed.
        timeout: Duration,
    },
    /// The target was halted for as long as it may be.
    #[error(
        "stopped reading, because the target has been halted for {limit:?} (--max-halt); read less (`last 50`), \
         or without a halt (--remote openocd:HOST:6666)"
    )]
    HaltedTooLong {
        /// The time allowed.
        limit: Duration,
    },
    /// OpenOCD would reset the target for the connection alone.
    #[error(
        "not opened: OpenOCD's {event} event resets the target for every GDB client (`{line}`), and the \
         evidence would be lost; {instead} reads memory without that"
    )]
    WouldReset {
        /// The event.
        event: String,
        /// The line of the event.
        line: String,
        /// The endpoint to use instead, as it is typed.
        instead: String,
    },
    /// OpenOCD would let a target run that is to stay halted.
    #[error(
        "not opened: OpenOCD's {event} event resumes the target for every GDB client (`{line}`), and it must \
         stay halted; {instead} reads memory without that, --leave running allows it"
    )]
    WouldResume {
        /// The event.
        event: String,
        /// The line of the event.
        line: String,
        /// The endpoint to use instead, as it is typed.
        instead: String,
    },
    /// The user pressed Ctrl-C.
    #[error("interrupted")]
    Interrupted,
}

/// Which port it is, by what came.
fn other_port(sent: &str) -> &'static str {
    if sent.contains("Open On-Chip Debugger") {
        "this is OpenOCD's telnet port, its GDB port is 3333 unless `gdb_port` says otherwise"
    } else {
        "is this its GDB port?"
    }
}

impl RspError {
    /// The stable code of this error.
    pub const fn code(&self) -> Code {
        self.kind.code()
    }
}

impl RspErrorKind {
    /// The same at an endpoint.
    pub fn at(self, endpoint: impl Into<String>) -> RspError {
        RspError { endpoint: endpoint.into(), kind: self }
    }

    /// A packet that came in place of the answer to `body`.
    pub(super) fn stray(body: &[u8], stray: &[u8]) -> Self {
        let packet = excerpt(body);
        if stray == body {
            return Self::Echo { packet };
        }
        Self::BadReply { packet, reply: excerpt(stray) }
    }

    const fn code(&self) -> Code {
        match self {
            Self::Refused => Code::ConnectRefused,
            Self::HostUnknown { .. } => Code::HostUnknown,
            Self::ConnectTimeout { .. } => Code::ConnectTimeout,
            Self::CannotOpen { .. } => Code::CannotOpen,
            Self::NotRsp => Code::NotRsp,
            Self::NoAnswer { .. } => Code::NoAnswer,
            Self::Stalled { .. } => Code::Stalled,
            Self::Closed { .. } => Code::LinkClosed,
            Self::Link { .. } => Code::LinkFailed,
            Self::Chatter { .. } => Code::Chatter,
            Self::Endless { .. } => Code::EndlessPacket,
            Self::Checksum { .. } => Code::Checksum,
            Self::BadReply { .. } | Self::Echo { .. } => Code::BadReply,
            Self::NotAStub { .. } => Code::NotAStub,
            Self::Refusal { .. } => Code::ErrorReply,
            Self::Unsupported { .. } => Code::Unsupported,
            Self::NoTarget { .. } => Code::NoTarget,
            Self::TargetLost { .. } => Code::SourceFailed,
            Self::Runs { .. } => Code::TargetRuns,
            Self::HaltedTooLong { .. } => Code::HaltedTooLong,
            Self::WouldReset { .. } => Code::WouldReset,
            Self::WouldResume { .. } => Code::WouldResume,
            Self::Interrupted => Code::Interrupted,
        }
    }
}

impl From<RspError> for Error {
    fn from(error: RspError) -> Self {
        Self::because(error.code(), error)
    }
}

/// The start of bytes that came, escaped.
pub(crate) fn excerpt(bytes: &[u8]) -> String {
    const SHOWN: usize = 40;
    let mut text = bytes.get(..SHOWN).unwrap_or(bytes).escape_ascii().to_string();
    if bytes.len() > SHOWN {
        text.push_str("...");
    }
    text
}
