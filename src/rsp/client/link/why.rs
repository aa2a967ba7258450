//! What broke a link, or kept an answer from coming, in one sentence.

use super::{Failure, Link, Received, TRIES};
use crate::rsp::error::{RspError, excerpt};
use crate::rsp::transport::TransportError;

/// More notifications than this in place of an answer are a flood.
const FLOOD: u64 = 64;

/// When a link was closed: before anything was received.
pub(super) const NEVER_SPOKE: &str = "before it sent anything: another debugger may be connected (on OpenOCD \
     `openocd:HOST:6666` reads beside it; `tx-trace bridge` serves both)";

/// When a link was closed: after one `+`, as OpenOCD does.
const ONLY_ACKNOWLEDGED: &str = "as soon as it had acknowledged us: OpenOCD does that where it could not examine its target \
     (its log says so: check power, wiring and `reset_config`)";

impl Link {
    pub(super) fn transport_error(&self, error: TransportError, when: &str) -> RspError {
        let endpoint = self.name.clone();
        match error {
            TransportError::Closed(why) => RspError::Closed { endpoint, when: when.to_owned(), why },
            TransportError::Timeout => {
                RspError::Link { endpoint, why: format!("it took no bytes within {:?}", self.timeout) }
            }
            TransportError::Io(why) => RspError::Link { endpoint, why },
        }
    }

    /// An error while the answer to `body` was waited for; nothing was asked where that is empty.
    pub(super) fn in_answer_to(&self, error: RspError, body: &[u8]) -> RspError {
        match error {
            // A page of a server of something else, say. What a command said when it ended is more.
            RspError::Closed { endpoint, why, .. }
                if why.is_empty() && self.features.is_none() && !self.noise.is_empty() =>
            {
                RspError::NotAStub { endpoint, sent: excerpt(&self.noise) }
            }
            RspError::Closed { endpoint, why, .. } => {
                let when = if self.stats.bytes_in == 0 {
                    NEVER_SPOKE.to_owned()
                } else if self.stats.bytes_in == 1 && why.is_empty() {
                    ONLY_ACKNOWLEDGED.to_owned()
                } else if body.is_empty() {
                    "unexpectedly".to_owned()
                } else {
                    format!("in place of an answer to `{}`", excerpt(body))
                };
                RspError::Closed { endpoint, when, why }
            }
            RspError::Endless { endpoint, hint, .. } => RspError::Endless { endpoint, packet: excerpt(body), hint },
            other => other,
        }
    }

    pub(super) fn too_damaged(&self, body: &[u8]) -> RspError {
        RspError::Checksum { endpoint: self.name.clone(), packet: excerpt(body), tries: TRIES }
    }

    /// Turns a missing answer into a sentence.
    pub(in crate::rsp::client) fn why_late(&self, body: &[u8], failure: Failure) -> RspError {
        let received = match failure {
            Failure::Fatal(error) => return error,
            Failure::Damaged => return self.too_damaged(body),
            Failure::OutOfStep => Received::default(),
            Failure::Late(received) => received,
        };
        let (endpoint, packet, timeout) = (self.name.clone(), excerpt(body), self.timeout);
        if let Some(stray) = received.stray {
            return RspError::stray(endpoint, body, &stray);
        }
        let pending = self.decoder.pending();
        let flood = received.notified > FLOOD;
        if received.console || flood {
            let what = if received.console { "console output" } else { "notifications" };
            return RspError::Chatter { endpoint, packet, timeout, what };
        }
        if self.features.is_none() {
            if self.stats.bytes_in == 0 {
                return RspError::NoAnswer { endpoint, timeout, hint: self.silence };
            }
            if !self.noise.is_empty() {
                return RspError::NotAStub { endpoint, sent: excerpt(&self.noise) };
            }
        }
        if pending.len() > 4096 {
            let hint = "it had not ended when the time was up";
            return RspError::Endless { endpoint, packet, hint };
        }
        let state = match (received.ack, pending.is_empty()) {
            (_, false) => ", only the start of a packet",
            (true, true) => ", only its acknowledgement",
            (false, true) if !received.noise => "",
            (false, true) => ", only noise",
        };
        RspError::Stalled { endpoint, packet, timeout, state }
    }
}
