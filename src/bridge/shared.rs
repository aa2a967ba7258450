//! The stub's link as a transport for the bridge's own client, while the debugger waits for the answer to its line.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::relay::Links;
use crate::rsp::packet::Kind;
use crate::rsp::transport::{Transport, TransportError};

/// Locks the two links, also after a panic elsewhere: they are valid in any state.
pub(super) fn lock(links: &Arc<Mutex<Links>>) -> MutexGuard<'_, Links> {
    links.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The stub's link for the bridge's own client. What the stub sends to the debugger meanwhile is forwarded.
pub struct SharedLink {
    links: Arc<Mutex<Links>>,
    /// Bytes for the client that it has not received yet.
    ready: Vec<u8>,
}

impl SharedLink {
    pub fn new(links: Arc<Mutex<Links>>) -> Self {
        Self { links, ready: Vec::new() }
    }
}

/// The packets of the bridge's own client, counted.
#[derive(Debug, Default, Clone, Copy)]
pub struct Tally {
    sent: usize,
    acked: usize,
    answered: usize,
}

impl Tally {
    /// Answers that may still come, though the client does not wait for them any more.
    pub(super) fn unanswered(self, acks: bool) -> usize {
        let taken = if acks { self.acked } else { self.sent };
        // A stub may send more packets than it was asked for.
        taken.saturating_sub(self.answered)
    }

    #[allow(clippy::arithmetic_side_effects, reason = "counts packets that were sent and received")]
    fn count(&mut self, kind: &Kind) {
        match kind {
            Kind::Ack => self.acked += 1,
            Kind::Packet(_) => self.answered += 1,
            _ => {}
        }
    }

    #[allow(clippy::arithmetic_side_effects, reason = "counts packets that were sent")]
    fn count_sent(&mut self, bytes: &[u8]) {
        // In a body `$` is escaped.
        self.sent += bytes.iter().filter(|b| **b == b'$').count();
    }
}

impl Transport for SharedLink {
    fn send(&mut self, bytes: &[u8], deadline: Instant) -> Result<(), TransportError> {
        let mut links = lock(&self.links);
        links.tally.count_sent(bytes);
        links.stub.send(bytes, deadline)
    }

    fn receive(&mut self, buf: &mut [u8], deadline: Instant) -> Result<usize, TransportError> {
        let mut links = lock(&self.links);
        while self.ready.is_empty() {
            if links.receive_from_debugger()? {
                return Err(TransportError::Io("the debugger has interrupted it".into()));
            }
            let mut bytes = [0; 16 << 10];
            // The client's deadlines are short, so that the debugger's interrupt is seen in time.
            let count = links.stub.receive(&mut bytes, deadline)?;
            links.from_stub.push(bytes.get(..count).unwrap_or_default());
            while let Some((kind, raw, begun)) = links.from_stub.token() {
                // A notification, or the rest of a token whose beginning was forwarded.
                if begun || matches!(kind, Kind::Notification(_)) {
                    links.send_to_debugger(&raw).map_err(TransportError::Io)?;
                } else {
                    links.tally.count(&kind);
                    self.ready.extend_from_slice(&raw);
                }
            }
        }
        let count = self.ready.len().min(buf.len());
        for (to, from) in buf.iter_mut().zip(self.ready.drain(..count)) {
            *to = from;
        }
        Ok(count)
    }
}
