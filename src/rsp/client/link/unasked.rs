//! What comes while nothing was asked: a target that stops by itself, and notifications of it.

use std::time::{Duration, Instant};

use super::{Link, MAX_DRAIN};
use crate::rsp::error::RspError;
use crate::rsp::packet::{Body, Kind};
use crate::rsp::transport::deadline_in;

/// The most notifications that are kept.
const MAX_NOTICES: usize = 16;

impl Link {
    /// Keeps a notification of a stop, where they are waited for. One comes, and waits for `vStopped`.
    pub(super) fn notice(&mut self, body: Body) {
        if let Some(kept) = self.notices.as_mut().filter(|kept| kept.len() < MAX_NOTICES)
            && body.checksum_ok
            && body.data.starts_with(b"Stop:")
        {
            kept.push(body.data);
        }
    }

    /// Takes in what has come unasked, without waiting.
    pub(in super::super) fn drain(&mut self) -> Result<(), RspError> {
        let now = Instant::now();
        for _ in 0..MAX_DRAIN {
            match self.token(now) {
                Ok(Some(kind)) => self.unasked(kind)?,
                Ok(None) => break,
                Err(error) => return Err(self.broke(error)),
            }
        }
        Ok(())
    }

    /// The same until nothing has come for so long.
    pub(in super::super) fn drain_until_quiet(&mut self, quiet: Duration) -> Result<(), RspError> {
        for _ in 0..MAX_DRAIN {
            match self.token(deadline_in(quiet)) {
                Ok(Some(kind)) => self.unasked(kind)?,
                Ok(None) => break,
                Err(error) => return Err(self.broke(error)),
            }
        }
        Ok(())
    }

    fn unasked(&mut self, kind: Kind) -> Result<(), RspError> {
        let in_noise = matches!(kind, Kind::Ack | Kind::Nak) && !self.noise.is_empty() && self.features.is_none();
        if kind == Kind::Junk || in_noise {
            self.note_noise();
        }
        let body = match kind {
            Kind::Packet(body) => body,
            Kind::Notification(body) => {
                self.notice(body);
                return Ok(());
            }
            _ => return Ok(()),
        };
        if self.acks {
            // Damaged or not: it was not asked for, and is not wanted again.
            self.send_raw(b"+")?;
        }
        self.skip(&body.data);
        Ok(())
    }

    /// Waits for a packet that comes while nothing is asked; `None` when `deadline` passes, or a notification came.
    pub(in super::super) fn unasked_until(&mut self, deadline: Instant) -> Result<Option<Vec<u8>>, RspError> {
        loop {
            match self.token(deadline) {
                Ok(Some(Kind::Packet(packet))) => {
                    if self.acks {
                        self.send_raw(b"+")?;
                    }
                    if packet.checksum_ok && !self.take_console(&packet.data) {
                        return Ok(Some(packet.data));
                    }
                }
                Ok(Some(Kind::Notification(body))) => {
                    self.notice(body);
                    return Ok(None);
                }
                Ok(Some(_)) => {}
                Ok(None) => return Ok(None),
                Err(error) => return Err(self.broke(error)),
            }
        }
    }

    /// The link failed while nothing was waited for.
    fn broke(&mut self, error: RspError) -> RspError {
        let error = self.in_answer_to(error, b"");
        self.fail_with(error)
    }
}
