//! Receiving: the answer to a request, and what is skipped before it.

use std::time::Instant;

use super::{Failure, Link, MAX_CONSOLE, Received, SLICE, TRIES, Wait, bump};
use crate::rsp::client::reply;
use crate::rsp::error::{RspError, RspErrorKind};
use crate::rsp::packet::{Kind, from_hex};
use crate::rsp::transport::{TransportError, deadline_in};

/// The wait for one answer.
struct Waiting {
    wait: Wait,
    /// What comes is acknowledged, or refused as damaged. What was acknowledged ahead cannot be refused.
    acks: bool,
    /// The request has been acknowledged, or need not be.
    acked: bool,
    /// How often a packet was refused as damaged.
    refused: u32,
    /// A packet has lost its end.
    cut: bool,
    received: Received,
}

impl Link {
    /// Waits for the answer to `body`, which has been sent.
    pub(in super::super) fn answer(
        &mut self,
        body: &[u8],
        accept: &dyn Fn(&[u8]) -> bool,
        wait: Wait,
    ) -> Result<Vec<u8>, Failure> {
        // Without any answer so far the second wait is a short one.
        let limit = if self.hasty && self.features.is_none() { self.timeout.div_f32(2.0) } else { self.timeout };
        let deadline = deadline_in(limit);
        let mut waiting = Waiting {
            wait,
            acks: self.acks && !self.acked_ahead,
            acked: !self.acks || self.ack_first == Some(false) || wait == Wait::Unacknowledged,
            refused: 0,
            cut: false,
            received: Received::default(),
        };
        let mut first = true;
        loop {
            // The deadline holds even while tokens keep coming.
            let late = !first && Instant::now() >= deadline;
            first = false;
            let kind = match self.token(deadline) {
                Ok(Some(kind)) if !late => kind,
                Ok(_) => return Err(Failure::Late(waiting.received)),
                Err(error) => return Err(Failure::Fatal(self.in_answer_to(error, body))),
            };
            if let Some(answer) = self.take_token(kind, body, accept, &mut waiting)? {
                return Ok(answer);
            }
        }
    }

    /// Takes one token of what comes; the answer, where it is that.
    fn take_token(
        &mut self,
        kind: Kind,
        body: &[u8],
        accept: &dyn Fn(&[u8]) -> bool,
        waiting: &mut Waiting,
    ) -> Result<Option<Vec<u8>>, Failure> {
        match kind {
            Kind::Ack | Kind::Nak if !self.noise.is_empty() && self.features.is_none() => self.note_noise(),
            Kind::Ack => {
                waiting.acked = true;
                waiting.received.ack = true;
            }
            Kind::Nak if waiting.acks => {
                self.count_refusal(body, waiting)?;
                self.send(&[body]).map_err(Failure::Fatal)?;
            }
            // Some stubs refuse a damaged request all the same, without saying which one.
            Kind::Nak => {
                self.note_damage();
                return Err(if waiting.wait == Wait::InFlight { Failure::OutOfStep } else { Failure::Damaged });
            }
            Kind::Notification(body) => {
                bump(&mut waiting.received.notified, 1);
                self.notice(body);
            }
            Kind::Interrupt | Kind::Junk => {
                waiting.received.noise = true;
                waiting.cut |= self.decoder.raw().starts_with(b"$");
                self.note_noise();
                // Ahead of the first answer it is a greeting, or what an earlier session left.
                if !waiting.acks && self.features.is_some() {
                    return Err(Failure::OutOfStep);
                }
            }
            // After a packet that has lost its end: a `$` in its body may be damage, and what follows half of it.
            Kind::Packet(packet) if !packet.checksum_ok || std::mem::take(&mut waiting.cut) => {
                if !waiting.acks {
                    self.note_damage();
                    return Err(Failure::Damaged);
                }
                self.count_refusal(body, waiting)?;
                self.send_raw(b"-").map_err(Failure::Fatal)?;
            }
            Kind::Packet(packet) => return self.take_packet(packet.data, accept, waiting),
        }
        Ok(None)
    }

    /// A packet was refused as damaged, by the stub or by us. Not too often.
    #[allow(clippy::arithmetic_side_effects, reason = "counts tries")]
    fn count_refusal(&mut self, body: &[u8], waiting: &mut Waiting) -> Result<(), Failure> {
        self.note_damage();
        waiting.refused += 1;
        if waiting.refused >= TRIES { Err(Failure::Fatal(self.too_damaged(body))) } else { Ok(()) }
    }

    /// Counts the token that has just come as damage, and keeps it for the message.
    fn note_damage(&mut self) {
        bump(&mut self.stats.damaged, 1);
        self.damaged = self.decoder.raw().to_vec();
    }

    /// Takes a packet in good order.
    fn take_packet(
        &mut self,
        data: Vec<u8>,
        accept: &dyn Fn(&[u8]) -> bool,
        waiting: &mut Waiting,
    ) -> Result<Option<Vec<u8>>, Failure> {
        if waiting.acks && (!self.parting || accept(&data)) {
            self.send_raw(b"+").map_err(Failure::Fatal)?;
        }
        if self.take_console(&data) {
            waiting.received.console = true;
        } else if (waiting.acked || self.ack_first.is_none()) && accept(&data) {
            // The very first answer shows whether this stub acknowledges at all, unless that was damaged.
            let shown = waiting.acked || !waiting.received.noise;
            self.ack_first = self.ack_first.or(shown.then_some(waiting.acked));
            return Ok(Some(data));
        } else {
            self.skip(&data);
            if !reply::is_stop(&data) {
                if waiting.wait == Wait::InFlight {
                    return Err(Failure::OutOfStep);
                }
                waiting.received.stray = Some(data);
            }
        }
        Ok(None)
    }

    pub(super) fn take_console(&mut self, body: &[u8]) -> bool {
        let Some(text) = reply::console(body) else { return false };
        if let (Some(kept), Some(text)) = (&mut self.console, from_hex(text)) {
            let room = MAX_CONSOLE.saturating_sub(kept.len());
            kept.extend(text.iter().take(room));
        }
        true
    }

    /// The next token; `None` once the deadline has passed and nothing complete is here.
    pub(super) fn token(&mut self, deadline: Instant) -> Result<Option<Kind>, RspError> {
        let mut buf = [0; 16 << 10];
        let mut polled = false;
        loop {
            self.check_interrupt()?;
            match self.decoder.next_token() {
                Ok(Some(kind)) => return Ok(Some(kind)),
                Ok(None) => {}
                Err(_) => {
                    let hint = "the stub or the line does not work: restart the stub";
                    return Err(self.error(RspErrorKind::Endless { packet: String::new(), hint }));
                }
            }
            // The first look is free: what has come already counts.
            if polled && Instant::now() >= deadline {
                return Ok(None);
            }
            polled = true;
            match self.transport.receive(&mut buf, deadline.min(deadline_in(SLICE))) {
                Ok(n) => {
                    bump(&mut self.stats.bytes_in, n);
                    self.decoder.push(buf.get(..n).unwrap_or_default());
                }
                Err(TransportError::Timeout) => {}
                Err(error) => return Err(self.transport_error(error, "")),
            }
        }
    }
}
