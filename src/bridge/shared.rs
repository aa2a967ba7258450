//! The stub's link, lent to a client of our own while the debugger waits for the answer to its line.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::relay::Ends;
use crate::rsp::packet::Kind;
use crate::rsp::transport::{Transport, TransportError};

/// Takes the two links; a panic elsewhere does not make them worse.
pub fn lock(ends: &Arc<Mutex<Ends>>) -> MutexGuard<'_, Ends> {
    ends.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The stub as our own client sees it. What is for the debugger goes on to the debugger.
pub struct SharedLink {
    ends: Arc<Mutex<Ends>>,
    /// Bytes for the client that it has not fetched yet.
    ready: Vec<u8>,
}

impl SharedLink {
    pub fn new(ends: Arc<Mutex<Ends>>) -> Self {
        Self { ends, ready: Vec::new() }
    }
}

/// What the stub was asked on our behalf, and what it has answered.
#[derive(Debug, Default, Clone, Copy)]
pub struct Tally {
    sent: usize,
    acked: usize,
    answered: usize,
}

impl Tally {
    /// Answers that may still come although nobody waits for them.
    pub fn owed(self, acks: bool) -> usize {
        let from_debugger = if acks { self.acked } else { self.sent };
        from_debugger.saturating_sub(self.answered)
    }
}

impl Transport for SharedLink {
    fn send(&mut self, bytes: &[u8], deadline: Instant) -> Result<(), TransportError> {
        let mut ends = lock(&self.ends);
        // In a body `$` is escaped.
        let packets = bytes.iter().filter(|b| **b == b'$').count();
        ends.tally.sent = ends.tally.sent.saturating_add(packets);
        ends.stub.send(bytes, deadline)
    }

    fn receive(&mut self, buf: &mut [u8], deadline: Instant) -> Result<usize, TransportError> {
        let mut ends = lock(&self.ends);
        loop {
            if !self.ready.is_empty() {
                let count = self.ready.len().min(buf.len());
                for (to, from) in buf.iter_mut().zip(self.ready.drain(..count)) {
                    *to = from;
                }
                return Ok(count);
            }
            if ends.receive_from_debugger()? {
                return Err(TransportError::Io("the debugger has interrupted it".into()));
            }
            let mut bytes = [0; 16 << 10];
            // Never long: the debugger may interrupt. Whoever waits for the stub asks again.
            let count = ends.stub.receive(&mut bytes, deadline)?;
            ends.from_stub.push(bytes.get(..count).unwrap_or_default());
            while let Some((kind, raw, begun)) = ends.from_stub.token() {
                match kind {
                    Kind::Notification(_) => ends.debugger_gets(&raw).map_err(TransportError::Io)?,
                    // Its beginning is with the debugger already.
                    _ if begun => ends.debugger_gets(&raw).map_err(TransportError::Io)?,
                    kind => {
                        let tally = &mut ends.tally;
                        match kind {
                            Kind::Ack => tally.acked = tally.acked.saturating_add(1),
                            Kind::Packet(_) => tally.answered = tally.answered.saturating_add(1),
                            _ => {}
                        }
                        self.ready.extend_from_slice(&raw);
                    }
                }
            }
        }
    }
}
