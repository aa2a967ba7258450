//! What broke a link, or kept an answer from coming, in one sentence.

use super::{Failure, Link, Received};
use crate::rsp::error::{RspError, RspErrorKind, excerpt};
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
    /// An error at this endpoint.
    pub(in super::super) fn error(&self, kind: RspErrorKind) -> RspError {
        kind.at(self.name.clone())
    }

    pub(super) fn transport_error(&self, error: TransportError, when: &str) -> RspError {
        self.error(match error {
            TransportError::Closed(why) => RspErrorKind::Closed { when: when.to_owned(), why },
            TransportError::Timeout => {
                RspErrorKind::Link { why: format!("it accepted no bytes within {:?}", self.timeout) }
            }
            TransportError::Io(why) => RspErrorKind::Link { why },
        })
    }

    /// An error while the answer to `body` was waited for; nothing was asked where that is empty.
    pub(super) fn in_answer_to(&self, error: RspError, body: &[u8]) -> RspError {
        let kind = match error.kind {
            // A page of a server of something else, say. What a command said when it ended is more.
            RspErrorKind::Closed { why, .. } if why.is_empty() && self.features.is_none() && !self.noise.is_empty() => {
                RspErrorKind::NotAStub { sent: excerpt(&self.noise) }
            }
            RspErrorKind::Closed { why, .. } => {
                let when = if self.stats.bytes_in == 0 && !why.is_empty() {
                    // A command that ended says more than we can guess.
                    "before it sent anything".to_owned()
                } else if self.stats.bytes_in == 0 {
                    NEVER_SPOKE.to_owned()
                } else if self.stats.bytes_in == 1 && why.is_empty() {
                    ONLY_ACKNOWLEDGED.to_owned()
                } else if body.is_empty() {
                    "unexpectedly".to_owned()
                } else {
                    format!("in place of an answer to `{}`", excerpt(body))
                };
                RspErrorKind::Closed { when, why }
            }
            RspErrorKind::Endless { hint, .. } => RspErrorKind::Endless { packet: excerpt(body), hint },
            other => other,
        };
        self.error(kind)
    }

    pub(super) fn too_damaged(&self, body: &[u8]) -> RspError {
        self.error(RspErrorKind::Checksum { packet: excerpt(body), came: excerpt(&self.damaged) })
    }

    /// Turns a missing answer into a sentence.
    pub(in super::super) fn why_late(&self, body: &[u8], failure: Failure) -> RspError {
        let received = match failure {
            Failure::Fatal(error) => return error,
            Failure::Damaged => return self.too_damaged(body),
            Failure::OutOfStep => Received::default(),
            Failure::Late(received) => received,
        };
        self.error(self.why_missing(body, &received))
    }

    fn why_missing(&self, body: &[u8], received: &Received) -> RspErrorKind {
        let (packet, timeout) = (excerpt(body), self.timeout);
        if let Some(stray) = &received.stray {
            return RspErrorKind::stray(body, stray);
        }
        let pending = self.decoder.pending();
        if received.console || received.notified > FLOOD {
            let what = if received.console { "console output" } else { "notifications" };
            return RspErrorKind::Chatter { packet, timeout, what };
        }
        if self.features.is_none() {
            if self.stats.bytes_in == 0 {
                return RspErrorKind::NoAnswer { timeout, hint: self.silence };
            }
            if !self.noise.is_empty() {
                return RspErrorKind::NotAStub { sent: excerpt(&self.noise) };
            }
        }
        if pending.len() > 4096 {
            return RspErrorKind::Endless { packet, hint: "it had not ended when the time was up" };
        }
        let state = match (received.ack, pending.is_empty()) {
            (_, false) => ", only the start of a packet",
            (true, true) => ", only its acknowledgement",
            (false, true) if !received.noise => "",
            (false, true) => ", only noise",
        };
        RspErrorKind::Stalled { packet, timeout, state }
    }
}
