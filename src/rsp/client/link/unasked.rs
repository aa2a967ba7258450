//! What comes while nothing was asked: a target that stops by itself, and notifications of it.

use std::time::Instant;

use super::Link;
use crate::rsp::error::RspError;
use crate::rsp::packet::{Body, Kind};

/// The most notifications that are kept.
const MOST_NOTICES: usize = 16;

impl Link {
    /// Keeps a notification of a stop, where they are waited for. One comes, and waits for `vStopped`.
    pub(super) fn notice(&mut self, body: Body) {
        if let Some(kept) = self.notices.as_mut().filter(|kept| kept.len() < MOST_NOTICES)
            && body.checksum_ok
            && body.data.starts_with(b"Stop:")
        {
            kept.push(body.data);
        }
    }

    /// Takes in what has come, without waiting.
    pub(in crate::rsp::client) fn take_in(&mut self) -> Result<(), RspError> {
        self.drain()
    }

    /// Waits for a packet that comes while nothing is asked; `None` when `deadline` passes, or a notification came.
    pub(in crate::rsp::client) fn unasked_until(&mut self, deadline: Instant) -> Result<Option<Vec<u8>>, RspError> {
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
                Err(error) => return Err(self.fail(error)),
            }
        }
    }
}
