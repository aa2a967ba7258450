//! Memory by other backends than a GDB stub: they read while the target runs, and do nothing else to it.
//!
//! [`openocd`] is OpenOCD's Tcl port, [`qmp`] QEMU's machine protocol. Both are lines of text, one question and one
//! answer at a time.

pub mod openocd;
pub mod qmp;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::{Memory, ReadError};
use crate::abi::{Addr, last_address};
use crate::rsp::error::excerpt;
use crate::rsp::transport::{self, Transport, TransportError, deadline_in};
use crate::rsp::{Endpoint, RspError, RspErrorKind};

/// The longest answer that is taken.
const MAX_ANSWER: usize = 4 << 20;
/// How often the interrupt flag is checked.
const SLICE: Duration = Duration::from_millis(50);
/// The most bytes of memory in one question.
const CHUNK: usize = 4096;

/// Opens the backend that `endpoint` names. `interrupt` ends every wait once it is set.
///
/// # Errors
/// Connection refused, no answer, or another protocol.
pub fn open(
    endpoint: &Endpoint,
    timeout: Duration,
    interrupt: Option<&'static AtomicBool>,
) -> Result<Box<dyn Memory>, RspError> {
    let connection = Connection {
        transport: transport::open(endpoint, timeout)?,
        name: endpoint.to_string(),
        timeout,
        interrupt,
        rest: Vec::new(),
        broken: None,
    };
    Ok(match endpoint {
        Endpoint::OpenOcd { .. } => Backend::open(openocd::OpenOcd::connect(connection)?)?,
        _ => Backend::open(qmp::Qmp::connect(connection)?)?,
    })
}

/// A link on which each answer ends with one certain byte.
struct Connection {
    transport: Box<dyn Transport>,
    /// The endpoint, for messages.
    name: String,
    timeout: Duration,
    interrupt: Option<&'static AtomicBool>,
    /// What came after the last answer.
    rest: Vec<u8>,
    /// Why nothing can be asked any more: an answer that comes late would be taken for the next one.
    broken: Option<RspError>,
}

impl Connection {
    /// Sends a question; `asked` is its short form, for the message where that fails.
    fn send(&mut self, bytes: &[u8], asked: &[u8]) -> Result<(), RspError> {
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        let sent = self.transport.send(bytes, deadline_in(self.timeout));
        sent.map_err(|e| {
            let kind = self.why(e, asked);
            self.fail(kind)
        })
    }

    /// The next answer, without the byte that ends it. `asked` is for the message where none comes.
    #[allow(clippy::arithmetic_side_effects, reason = "positions in bytes that are held in memory")]
    fn answer(&mut self, end: u8, asked: &[u8]) -> Result<Vec<u8>, RspError> {
        let deadline = deadline_in(self.timeout);
        let mut searched = 0;
        let mut buf = [0; 16 << 10];
        loop {
            if let Some(at) = self.rest.iter().skip(searched).position(|b| *b == end) {
                let line = self.rest.drain(..searched + at).collect();
                // The byte that ends it.
                self.rest.remove(0);
                return Ok(line);
            }
            searched = self.rest.len();
            if searched > MAX_ANSWER {
                let packet = excerpt(asked);
                return Err(self.fail(RspErrorKind::Endless { packet, hint: "is this the right port?" }));
            }
            if self.interrupt.is_some_and(|flag| flag.load(Ordering::Relaxed)) {
                return Err(self.fail(RspErrorKind::Interrupted));
            }
            match self.transport.receive(&mut buf, deadline.min(deadline_in(SLICE))) {
                Ok(n) => self.rest.extend_from_slice(buf.get(..n).unwrap_or_default()),
                Err(TransportError::Timeout) if Instant::now() < deadline => {}
                Err(error) => {
                    let kind = self.why(error, asked);
                    return Err(self.fail(kind));
                }
            }
        }
    }

    fn why(&self, error: TransportError, asked: &[u8]) -> RspErrorKind {
        let packet = excerpt(asked);
        match error {
            TransportError::Timeout => RspErrorKind::Stalled { packet, timeout: self.timeout, state: "" },
            TransportError::Closed(why) => {
                RspErrorKind::Closed { when: format!("in place of an answer to `{packet}`"), why }
            }
            TransportError::Io(why) => RspErrorKind::Link { why },
        }
    }

    fn fail(&mut self, kind: RspErrorKind) -> RspError {
        let error = kind.at(self.name.clone());
        self.broken = Some(error.clone());
        error
    }

    fn wrong(&self, why: String) -> RspError {
        RspErrorKind::CannotOpen { why }.at(self.name.clone())
    }

    /// The error where what came is a packet of a GDB server. It is left alone: whether it halted the target as we connected, or
    /// the target was halted before, is not known.
    fn gdb_server(&self) -> Option<RspError> {
        is_packet(&self.rest).then(|| {
            let at = self.name.split_once(':').map_or(self.name.as_str(), |(_, at)| at);
            let sent = excerpt(&self.rest);
            self.wrong(format!(
                "the other end is a GDB server (it sent `{sent}`), which is `--remote {at}`; it may have halted the target when we \
                 connected: attach a debugger and detach it to let the target run"
            ))
        })
    }
}

/// True for `$DATA#SUM`, also behind acknowledgements (GDB, appendix E.1).
fn is_packet(bytes: &[u8]) -> bool {
    let packet = bytes.trim_ascii_start();
    let packet = packet.iter().position(|byte| *byte != b'+').and_then(|at| packet.get(at..)).unwrap_or_default();
    let sum = packet.iter().position(|byte| *byte == b'#').and_then(|at| packet.get(at..)?.get(1..3));
    packet.first() == Some(&b'$') && sum.is_some_and(|sum| sum.iter().all(u8::is_ascii_hexdigit))
}

/// What another end than a GDB stub is asked.
trait Port {
    /// Whether the target is not known to be halted.
    fn runs(&mut self) -> Result<bool, RspError>;

    /// Reads no more than a chunk.
    fn bytes(&mut self, addr: Addr, len: usize) -> Result<Vec<u8>, ReadError>;
}

/// The memory of a target that such an end reads.
struct Backend<P> {
    port: P,
    /// The target is not known to be halted.
    runs: bool,
}

impl<P: Port + 'static> Backend<P> {
    fn open(mut port: P) -> Result<Box<dyn Memory>, RspError> {
        let runs = port.runs()?;
        Ok(Box::new(Self { port, runs }))
    }
}

impl<P: Port> Memory for Backend<P> {
    fn read(&mut self, addr: Addr, buf: &mut [u8]) -> Result<(), ReadError> {
        let len = buf.len();
        if last_address(addr, len).is_none() {
            return Err(ReadError::unmapped(addr, len));
        }
        (addr..).step_by(CHUNK).zip(buf.chunks_mut(CHUNK)).try_for_each(|(at, part)| {
            let bytes = self.port.bytes(at, part.len())?;
            part.copy_from_slice(bytes.get(..part.len()).ok_or_else(|| ReadError::unmapped(at, part.len()))?);
            Ok(())
        })
    }

    fn changes(&self) -> bool {
        self.runs
    }

    fn refresh(&mut self) {
        // Without an answer it is taken to run; the next read says what is wrong.
        self.runs = self.port.runs().unwrap_or(true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `openocd::3333` halted a target and said nothing of it: that is a GDB port.
    #[test]
    fn a_gdb_server_was_only_another_end() {
        assert!(is_packet(b"$T02thread:01;#04"));
        assert!(is_packet(b"+$T02thread:01;#04$T02thread:01;#04"));
        assert!(
            !is_packet(b"{\"QMP\": {\"version\": {}}}")
                && !is_packet(b"$5.00")
                && !is_packet(b"$a#")
                && !is_packet(b"")
        );
    }
}
