//! Keeping requests and answers in step: the next packet can only be the answer to the next request.

use std::time::{Duration, Instant};

use super::{Failure, Link, TRIES, Wait, bump};
use crate::rsp::client::reply;
use crate::rsp::error::{RspError, RspErrorKind};
use crate::rsp::packet::from_hex;

/// How often one more wait is granted while answers to earlier requests keep coming.
const MORE_WAITS: u32 = 64;

/// How long nothing must have come, at the least, before a link that was out of step is taken to be in step.
const QUIET: Duration = Duration::from_millis(60);

impl Link {
    /// Brings the link to a state where the next packet can only be an answer to the next request.
    pub(in super::super) fn prepare(&mut self) -> Result<(), RspError> {
        // A request after Ctrl-C ends with Ctrl-C, and not with the answer that did not come in time.
        self.check_interrupt()?;
        if self.doubtful() && self.features.is_some() && !self.fence(self.timeout) {
            let state = ", which we sent to resynchronize";
            let error = RspErrorKind::Stalled { packet: "qSupported".into(), timeout: self.timeout, state };
            return Err(self.fail(error));
        }
        self.drain()
    }

    /// The link is brought into step before the next request.
    pub(in super::super) const fn doubtful(&self) -> bool {
        self.outstanding || self.cautious
    }

    /// After a flight whose answers are all here: true unless one too many came.
    pub(in super::super) fn in_step(&mut self) -> Result<bool, RspError> {
        let before = self.stats.strays;
        self.drain()?;
        Ok(self.stats.strays == before)
    }

    /// True where the answer to something else is the answer to the read before it, once more: it may have come twice.
    pub(super) fn repeats_a_read(&self, body: &[u8], answer: &[u8]) -> bool {
        let is_read = matches!(body.first(), Some(b'm' | b'x'));
        !is_read && !answer.is_empty() && answer == self.last_answer && from_hex(answer).is_some()
    }

    /// Makes sure that no answer follows the one that has just come: then that was the right one.
    pub(in super::super) fn nothing_follows(&mut self) -> Result<bool, RspError> {
        let before = self.stats.strays;
        self.outstanding = true;
        self.prepare()?;
        self.outstanding = false;
        Ok(self.stats.strays == before)
    }

    /// Asks something whose answer resembles no other, and drops all that comes before that answer.
    pub(in super::super) fn resync(&mut self) -> bool {
        // One time-out has passed already.
        let limit = if self.ignore_interrupt { self.timeout } else { self.timeout.div_f32(4.0) };
        self.fence(limit)
    }

    /// The same; each of two attempts may take so long.
    #[allow(clippy::arithmetic_side_effects, reason = "counts tries, and doubles a time that has passed")]
    fn fence(&mut self, limit: Duration) -> bool {
        let Some(features) = self.features.clone() else { return false };
        // A stub may take `qSupported` for the start of a session, with acknowledgements: where nothing but memory was
        // asked for, and where others have agreed with the stub, a packet that no stub knows does as well.
        let fence = self.shared || !self.acks && self.reads_alone && self.stats.memory_bytes > 0;
        let alike = fence || features.is_empty();
        let question = if fence { reply::FENCE } else { reply::SUPPORTED };
        bump(&mut self.stats.resyncs, 1);
        let limit = std::mem::replace(&mut self.timeout, limit);
        let (mut tries, mut late, mut waits) = (0_u32, false, 0_u32);
        let mut asked = Instant::now();
        let answer = self.send(&[question]).map_err(Failure::Fatal).and_then(|()| {
            loop {
                let accept = |body: &[u8]| if fence { body.is_empty() } else { features.come_again_in(body) };
                match self.answer(question, &accept, Wait::Alone) {
                    // What is dropped may be damaged; but it may be the answer.
                    Err(Failure::Damaged | Failure::OutOfStep) if tries < TRIES => {
                        tries += 1;
                        asked = Instant::now();
                        self.send(&[question]).map_err(Failure::Fatal)?;
                    }
                    // The stub is still busy with what it was asked before: our question is after that.
                    Err(Failure::Late(received)) if received.stray.is_some() && waits < MORE_WAITS => {
                        waits += 1;
                    }
                    // This one may have been lost as any other.
                    Err(Failure::Late(_)) if !late && !self.ignore_interrupt => {
                        late = true;
                        asked = Instant::now();
                        self.send(&[question]).map_err(Failure::Fatal)?;
                    }
                    other => break other,
                }
            }
        });
        // Answers that are empty, or errors, look alike. Where an earlier question came doubled, the one that came may be the
        // answer to that, and each flight would take the data of the flight before for its own: our own answer comes within
        // as long again.
        let quiet = QUIET.max(asked.elapsed() * 2).min(limit.max(QUIET));
        let quiet = !alike || answer.is_err() || self.drain_until_quiet(quiet).is_ok();
        self.timeout = limit;
        self.outstanding = answer.is_err();
        self.reads_alone |= answer.is_ok();
        self.last_answer.clear();
        answer.is_ok() && quiet
    }
}
