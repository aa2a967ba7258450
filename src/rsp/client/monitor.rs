//! Monitor commands: their packets, and what a stub answers.

use super::reply;
use crate::rsp::packet::{from_hex, to_hex};

/// What a stub answered to a monitor command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum MonitorReply {
    /// The stub has no monitor commands.
    Unknown,
    /// It ran, and printed this.
    Done(String),
    /// It failed, and printed this.
    Failed(String),
}

impl MonitorReply {
    /// Understands the last answer to a monitor command; `console` came in front of it.
    pub(super) fn of(answer: &[u8], console: &[u8]) -> Self {
        let words = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
        match answer {
            b"" => Self::Unknown,
            b"OK" => Self::Done(words(console)),
            error if reply::is_error(error) => Self::Failed(words(console)),
            // Some stubs put the text into the last reply instead of `O` packets.
            other => Self::Done(words(&from_hex(other).unwrap_or_else(|| console.to_vec()))),
        }
    }

    /// What was printed.
    pub(super) fn text(self) -> Option<String> {
        match self {
            Self::Unknown => None,
            Self::Done(text) | Self::Failed(text) => Some(text),
        }
    }
}

/// The packet of a monitor command.
pub(super) fn monitor_packet(command: &str) -> Vec<u8> {
    let mut body = b"qRcmd,".to_vec();
    body.extend(to_hex(command.as_bytes()));
    body
}

/// What answers a monitor command: nothing, `OK`, an error, or text.
pub(super) fn is_monitor_reply(body: &[u8]) -> bool {
    body.is_empty() || body == b"OK" || reply::is_error(body) || from_hex(body).is_some()
}
