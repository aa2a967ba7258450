//! QEMU's machine protocol: the monitor's `xp` reads physical memory while the machine runs, and puts no file onto
//! QEMU's host, as `pmemsave` would.

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::{Connection, Port};
use crate::abi::Addr;
use crate::mem::remote::failed_link;
use crate::mem::{ReadError, ReadErrorKind};
use crate::rsp::error::excerpt;
use crate::rsp::{RspError, RspErrorKind};

/// Ends every answer.
const END: u8 = b'\n';
/// The most messages that are passed over for an answer: QEMU reports events in between.
const MAX_EVENTS: usize = 4096;

/// Physical memory of a QEMU machine.
pub struct Qmp {
    connection: Connection,
}

/// A line of QEMU's. An event has none of these.
#[derive(Deserialize)]
struct Message {
    #[serde(rename = "QMP")]
    greeting: Option<IgnoredAny>,
    #[serde(rename = "return")]
    done: Option<Returned>,
    error: Option<Refusal>,
}

/// The result of a command: text of the monitor, or an object, which is empty.
#[derive(Deserialize)]
#[serde(untagged)]
enum Returned {
    Text(String),
    Other(IgnoredAny),
}

#[derive(Deserialize)]
struct Refusal {
    desc: String,
}

/// What QEMU said to a command.
enum Answer {
    /// The text of a monitor command; empty where there is none.
    Done(String),
    Refused(String),
}

impl Qmp {
    pub(super) fn connect(mut connection: Connection) -> Result<Self, RspError> {
        let greeting = match connection.answer(END, b"QMP") {
            Ok(line) => line,
            Err(RspError { endpoint, kind: RspErrorKind::Stalled { timeout, .. } }) => {
                if let Some(error) = connection.gdb_server() {
                    return Err(error);
                }
                let hint = "QMP serves one client at a time, and another may hold it; or it is not QEMU's QMP port";
                return Err(RspErrorKind::NoAnswer { timeout, hint }.at(endpoint));
            }
            Err(error) => return Err(error),
        };
        if serde_json::from_slice(&greeting).ok().and_then(|message: Message| message.greeting).is_none() {
            return Err(
                connection.wrong(format!("the other end does not speak QMP (it sent `{}`)", excerpt(&greeting)))
            );
        }
        let mut this = Self { connection };
        if let Answer::Refused(why) = this.ask("{\"execute\": \"qmp_capabilities\"}", "qmp_capabilities")? {
            return Err(this.connection.wrong(why));
        }
        Ok(this)
    }

    /// Runs a command of QEMU's monitor.
    fn monitor(&mut self, line: &str) -> Result<Answer, RspError> {
        let command =
            format!("{{\"execute\": \"human-monitor-command\", \"arguments\": {{\"command-line\": \"{line}\"}}}}");
        self.ask(&command, line)
    }

    /// Asks; `asked` is its short form, for messages.
    fn ask(&mut self, command: &str, asked: &str) -> Result<Answer, RspError> {
        self.connection.send(format!("{command}\r\n").as_bytes(), asked.as_bytes())?;
        for _ in 0..MAX_EVENTS {
            let line = self.connection.answer(END, asked.as_bytes())?;
            let Ok(message) = serde_json::from_slice(&line) else { break };
            match message {
                Message { done: Some(Returned::Text(text)), .. } => return Ok(Answer::Done(text)),
                Message { done: Some(Returned::Other(_)), .. } => return Ok(Answer::Done(String::new())),
                Message { error: Some(Refusal { desc }), .. } => return Ok(Answer::Refused(desc)),
                _ => {}
            }
        }
        let packet = excerpt(asked.as_bytes());
        Err(self.connection.fail(RspErrorKind::BadReply { packet, reply: "no answer of QMP".into() }))
    }
}

impl Port for Qmp {
    fn runs(&mut self) -> Result<bool, RspError> {
        let status = self.monitor("info status")?;
        Ok(!matches!(status, Answer::Done(text) if text.contains("paused")))
    }

    fn bytes(&mut self, addr: Addr, len: usize) -> Result<Vec<u8>, ReadError> {
        let asked = format!("xp /{len}xb {addr:#x}");
        let text = match self.monitor(&asked).map_err(|e| failed_link(addr, len, &e))? {
            Answer::Done(text) => text,
            Answer::Refused(why) => {
                let why = format!("{}: QEMU refuses to read memory: {why}", self.connection.name);
                return Err(ReadError::new(addr, len, ReadErrorKind::Source(why)));
            }
        };
        let mut bytes = Vec::with_capacity(len);
        for line in text.lines() {
            let Some((_, values)) = line.split_once(':') else { break };
            for value in values.split_ascii_whitespace() {
                match value.strip_prefix("0x").and_then(|v| u8::from_str_radix(v, 16).ok()) {
                    Some(byte) => bytes.push(byte),
                    // `Cannot access memory`
                    None => {
                        let at = addr.checked_add(bytes.len() as u64);
                        return Err(ReadError::unmapped(at.unwrap_or(addr), len));
                    }
                }
            }
        }
        if bytes.len() == len { Ok(bytes) } else { Err(ReadError::unmapped(addr, len)) }
    }
}
