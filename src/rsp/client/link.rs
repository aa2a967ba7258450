//! One request, one answer: acknowledgements, and what is skipped while waiting.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::monitor::{MonitorReply, is_monitor_reply, monitor_packet};
use super::reply::{self, Features};
use super::stats::Stats;
use crate::rsp::error::{RspError, RspErrorKind};
use crate::rsp::packet::{Decoder, encode};
use crate::rsp::transport::{Transport, TransportError, deadline_in};

mod receive;
mod resync;
mod unasked;
mod why;

use why::NEVER_SPOKE;

/// How often one request is tried when packets are damaged or refused.
const TRIES: u32 = 4;

/// The most console text that is kept of one monitor command, in bytes.
const MAX_CONSOLE: usize = 1 << 20;

/// How often the interrupt flag is checked.
const SLICE: Duration = Duration::from_millis(50);

/// The most tokens that are dropped before a request. For a stub that sends without end the request's own deadline holds.
const MAX_DRAIN: u32 = 4096;

/// Adds to a counter of bytes or packets.
#[allow(clippy::arithmetic_side_effects, reason = "no link carries 2^64 bytes")]
pub(super) const fn bump(counter: &mut u64, by: usize) {
    *counter += by as u64;
}

/// Why there is no answer.
pub(super) enum Failure {
    /// The deadline passed.
    Late(Received),
    /// The answer came damaged, in no-ack mode: the frame is whole, so the order of answers is not in doubt.
    Damaged,
    /// Unexpected bytes or packets came: which answer is to which request is in doubt.
    OutOfStep,
    /// Nothing more can come.
    Fatal(RspError),
}

/// What kind of answer is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    /// To the only request on its way: packets that are no answer to it are skipped.
    Alone,
    /// To the first of several: a packet that is no answer puts all of them in doubt.
    InFlight,
    /// To 0x03, which is not acknowledged.
    Unacknowledged,
}

/// What was received while no answer was.
#[derive(Default)]
pub(super) struct Received {
    ack: bool,
    console: bool,
    notified: u64,
    pub(super) stray: Option<Vec<u8>>,
    noise: bool,
}

/// An answer, and the console text in front of it.
pub(super) type WithConsole = (Vec<u8>, Vec<u8>);

/// A request, and what is an answer to it.
pub(super) type Question<'a> = (&'a [u8], &'a dyn Fn(&[u8]) -> bool);

/// A framed link with the rules of asking.
pub(super) struct Link {
    transport: Box<dyn Transport>,
    /// The endpoint, for messages.
    pub(super) name: String,
    decoder: Decoder,
    /// For each reply.
    pub(super) timeout: Duration,
    interrupt: Option<&'static AtomicBool>,
    /// The link is shared: nothing is sent but what is asked for.
    pub(super) shared: bool,
    /// Until when the target may be kept halted for us.
    pub(super) halt_until: Option<(Instant, Duration)>,
    /// Set on the way out, where Ctrl-C ends no wait any more.
    pub(super) ignore_interrupt: bool,
    /// Packets are acknowledged.
    pub(super) acks: bool,
    /// In a flight acknowledgements go out ahead of the answers. To a stub that reads one packet after the other this looks
    /// like a client that is always in time.
    pub(super) ahead: bool,
    /// The answers that are on their way have been acknowledged.
    pub(super) acked_ahead: bool,
    /// `D` is on its way: nothing but its answer is acknowledged. A stub that lets the target run halts it again for a
    /// byte that it does not wait for, as QEMU does.
    pub(super) parting: bool,
    /// The stub acknowledges requests before it answers, as it should: what comes before is no answer.
    pub(super) ack_first: Option<bool>,
    /// The first question went without an answer once.
    pub(super) hasty: bool,
    /// A stray was seen: before each request the link is brought into step.
    cautious: bool,
    /// The last answer to a request that was alone on its way.
    pub(super) last_answer: Vec<u8>,
    /// A request is on its way whose answer is not waited for any more.
    pub(super) outstanding: bool,
    /// Nothing but memory was asked for since the link was in step: no answer to that is empty.
    reads_alone: bool,
    /// How the stub answered `qSupported`; before that, nothing can bring the link back into step.
    pub(super) features: Option<Features>,
    /// Stop replies without a request.
    pub(super) unasked_stops: u64,
    /// The last error that came and was no answer to what was waited for.
    pub(super) last_error: Option<Vec<u8>>,
    /// Console text, while a monitor command collects it.
    console: Option<Vec<u8>>,
    /// Notifications of stops, where the stub is in non-stop mode.
    pub(super) notices: Option<Vec<Vec<u8>>>,
    /// The start of what came and was no packet.
    noise: Vec<u8>,
    /// The last packet that was damaged, as it came; `-` for one of ours.
    damaged: Vec<u8>,
    /// What broke the link for good.
    broken: Option<RspError>,
    pub(super) stats: Stats,
    silence: &'static str,
}

impl Link {
    pub(super) fn new(
        transport: Box<dyn Transport>,
        name: String,
        timeout: Duration,
        interrupt: Option<&'static AtomicBool>,
        silence: &'static str,
    ) -> Self {
        Self {
            transport,
            name,
            decoder: Decoder::default(),
            timeout,
            interrupt,
            shared: false,
            halt_until: None,
            ignore_interrupt: false,
            acks: true,
            ahead: false,
            acked_ahead: false,
            parting: false,
            ack_first: None,
            hasty: false,
            cautious: false,
            last_answer: Vec::new(),
            outstanding: false,
            reads_alone: false,
            features: None,
            unasked_stops: 0,
            last_error: None,
            console: None,
            notices: None,
            noise: Vec::new(),
            damaged: Vec::new(),
            broken: None,
            stats: Stats::default(),
            silence,
        }
    }

    /// Requests may be in flight together: the stub keeps their order, and no acknowledgement interferes.
    pub(super) const fn may_pipeline(&self) -> bool {
        (!self.acks || self.ahead) && !self.cautious
    }

    /// What broke the link for good, if anything did.
    pub(super) const fn broken(&self) -> Option<&RspError> {
        self.broken.as_ref()
    }

    /// Makes an error, and remembers that it broke the link.
    pub(super) fn fail(&mut self, kind: RspErrorKind) -> RspError {
        let error = self.error(kind);
        self.fail_with(error)
    }

    /// Remembers what broke the link. Ctrl-C and the end of the time for a halt do not break it.
    pub(super) fn fail_with(&mut self, error: RspError) -> RspError {
        let ours = matches!(error.kind, RspErrorKind::Interrupted | RspErrorKind::HaltedTooLong { .. });
        if !ours && self.broken.is_none() {
            self.broken = Some(error.clone());
        }
        error
    }

    /// On the way out after Ctrl-C, before the first answer has come: that is waited for, not long, and may come twice.
    pub(super) fn begin_to_leave(&mut self, limit: Duration) {
        self.ignore_interrupt = true;
        self.hasty = true;
        self.timeout = self.timeout.min(limit);
    }

    /// Closes the link. Nothing can be asked any more.
    pub(super) fn close(&mut self) {
        self.transport = Box::new(Closed);
    }

    /// Forgets what broke the link, for one more attempt on the way out.
    pub(super) fn forget_error(&mut self) {
        self.outstanding |= self.broken.take().is_some();
    }

    /// Asks and waits for an answer that `accept` takes for one. Damaged packets are sent again; after a time-out the
    /// link is brought into step and the request is tried once more.
    #[allow(clippy::arithmetic_side_effects, reason = "counts tries")]
    pub(super) fn ask(&mut self, body: &[u8], accept: &dyn Fn(&[u8]) -> bool) -> Result<Vec<u8>, RspError> {
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        // A flight in which it was asked for the first time has been waited for already.
        let (mut late, mut damaged) = (u32::from(self.hasty && self.features.is_none()), 0_u32);
        loop {
            self.prepare()?;
            self.send(&[body])?;
            let failure = match self.answer(body, accept, Wait::Alone) {
                Ok(answer) => {
                    self.outstanding = false;
                    if self.repeats_a_read(body, &answer) {
                        self.last_answer.clear();
                        self.outstanding = true;
                        continue;
                    }
                    self.last_answer.clone_from(&answer);
                    return Ok(answer);
                }
                Err(failure) => failure,
            };
            let known = self.features.is_some();
            match failure {
                Failure::Fatal(error) => return Err(self.fail_with(error)),
                // What was damaged may have been something else, and the answer may still come: it is not to be taken
                // for one to the next request.
                failure @ (Failure::Damaged | Failure::OutOfStep) => {
                    damaged += 1;
                    if damaged >= TRIES || known && !self.resync() {
                        let error = self.why_late(body, failure);
                        return Err(self.fail_with(error));
                    }
                    self.outstanding = false;
                }
                failure @ Failure::Late(_) => {
                    let error = self.why_late(body, failure);
                    late += 1;
                    // The first question cannot be brought into step by another: it is asked again.
                    if late > 1 || known && !self.resync() {
                        return Err(self.fail_with(error));
                    }
                    self.hasty |= !known;
                }
            }
        }
    }

    /// Switches acknowledgements off. From the moment when the stub has received it, it sends none, whether its
    /// answer has come or not.
    pub(super) fn start_no_ack(&mut self) -> Result<(), RspError> {
        let before = self.ack_first.replace(false);
        if self.ask(reply::NO_ACK, &reply::is_simple)? == b"OK" {
            self.acks = false;
        } else {
            self.ack_first = before;
        }
        Ok(())
    }

    /// Keeps the start of what is no packet, for the message about a wrong port.
    fn note_noise(&mut self) {
        let room = 64_usize.saturating_sub(self.noise.len());
        self.noise.extend(self.decoder.raw().iter().take(room));
    }

    /// Notes a packet that is no answer.
    fn skip(&mut self, body: &[u8]) {
        if reply::is_stop(body) {
            bump(&mut self.unasked_stops, 1);
        } else if reply::console(body).is_none() {
            bump(&mut self.stats.strays, 1);
            if reply::is_error(body) {
                self.last_error = Some(body.to_vec());
            }
            // Before the first answer it is what an earlier session left on the line; and what was asked twice is
            // answered twice.
            self.cautious |= self.features.is_some() && !(self.hasty && reply::is_features(body));
        }
    }

    /// Sends packets in one go.
    pub(super) fn send(&mut self, bodies: &[&[u8]]) -> Result<(), RspError> {
        self.send_packets(bodies, false)
    }

    /// Sends packets whose answers are waited for after the last of them was sent, by [`Wait::InFlight`].
    pub(super) fn send_flight(&mut self, bodies: &[&[u8]]) -> Result<(), RspError> {
        self.send_packets(bodies, self.acks)
    }

    fn send_packets(&mut self, bodies: &[&[u8]], ack_ahead: bool) -> Result<(), RspError> {
        self.acked_ahead = ack_ahead;
        if !self.outstanding {
            bump(&mut self.stats.round_trips, 1);
        }
        self.outstanding = true;
        let mut frames = Vec::new();
        for body in bodies {
            self.reads_alone &= matches!(body.first(), Some(b'm' | b'x')) || *body == reply::FENCE;
            bump(self.stats.sent.entry(reply::packet_name(body)).or_default(), 1);
            frames.extend(encode(body));
            frames.extend(ack_ahead.then_some(b'+'));
        }
        self.send_raw(&frames)
    }

    /// Sends bytes that are no packet.
    pub(super) fn send_raw(&mut self, bytes: &[u8]) -> Result<(), RspError> {
        self.send_raw_until(bytes, deadline_in(self.timeout))
    }

    /// The same, with its own bound on how long it may take.
    pub(super) fn send_raw_until(&mut self, bytes: &[u8], deadline: Instant) -> Result<(), RspError> {
        bump(&mut self.stats.bytes_out, bytes.len());
        let sent = self.transport.send(bytes, deadline);
        sent.map_err(|e| {
            // Whether a closed link is met while writing or while reading is chance; it is reported in the same words.
            let when = if self.stats.bytes_in == 0 { NEVER_SPOKE } else { "while we were sending" };
            let error = self.transport_error(e, when);
            self.fail_with(error)
        })
    }

    /// Runs a monitor command.
    pub(super) fn monitor(&mut self, command: &str) -> Result<MonitorReply, RspError> {
        let body = monitor_packet(command);
        self.console = Some(Vec::new());
        let answer = self.ask(&body, &is_monitor_reply);
        let text = self.console.take().unwrap_or_default();
        Ok(MonitorReply::of(&answer?, &text))
    }

    /// Asks questions that do not depend on each other in one flight; the answers, each with the console text in front
    /// of it. `None` where the stub takes no flights, or where an answer is missing: then each is to be asked alone.
    pub(super) fn ask_together(&mut self, questions: &[Question<'_>]) -> Result<Option<Vec<WithConsole>>, RspError> {
        self.prepare()?;
        if !self.may_pipeline() {
            return Ok(None);
        }
        self.send_flight(&questions.iter().map(|(body, _)| *body).collect::<Vec<_>>())?;
        let mut answers = Vec::with_capacity(questions.len());
        for (body, accept) in questions {
            self.console = Some(Vec::new());
            let answer = self.answer(body, accept, Wait::InFlight);
            let text = self.console.take().unwrap_or_default();
            match answer {
                Ok(answer) => answers.push((answer, text)),
                Err(Failure::Fatal(error)) => return Err(self.fail_with(error)),
                Err(_) => return Ok(None),
            }
        }
        self.outstanding = false;
        self.last_answer = answers.last().map(|(answer, _)| answer.clone()).unwrap_or_default();
        Ok(self.in_step()?.then_some(answers))
    }

    /// Ctrl-C was pressed, whether it is ignored or not.
    pub(super) fn interrupted(&self) -> bool {
        self.interrupt.is_some_and(|flag| flag.load(Ordering::Relaxed))
    }

    /// Why no more is to be waited for: Ctrl-C, or the target was halted long enough.
    pub(super) fn check_interrupt(&self) -> Result<(), RspError> {
        if self.ignore_interrupt {
            return Ok(());
        }
        if self.interrupted() {
            return Err(self.error(RspErrorKind::Interrupted));
        }
        match self.halt_until {
            Some((until, limit)) if Instant::now() >= until => Err(self.error(RspErrorKind::HaltedTooLong { limit })),
            _ => Ok(()),
        }
    }
}

/// The end of a link.
struct Closed;

impl Transport for Closed {
    fn send(&mut self, _: &[u8], _: Instant) -> Result<(), TransportError> {
        Err(TransportError::Closed(String::new()))
    }

    fn receive(&mut self, _: &mut [u8], _: Instant) -> Result<usize, TransportError> {
        Err(TransportError::Closed(String::new()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A link on which these bytes have come, and on which nothing can be sent.
    struct Came(&'static [u8]);

    impl Transport for Came {
        fn send(&mut self, _: &[u8], _: Instant) -> Result<(), TransportError> {
            Err(TransportError::Closed(String::new()))
        }

        fn receive(&mut self, buf: &mut [u8], _: Instant) -> Result<usize, TransportError> {
            let bytes = std::mem::take(&mut self.0);
            let room = buf.get_mut(..bytes.len()).filter(|b| !b.is_empty()).ok_or(TransportError::Timeout)?;
            room.copy_from_slice(bytes);
            Ok(bytes.len())
        }
    }

    fn link(came: &'static [u8]) -> Link {
        Link::new(Box::new(Came(came)), "here".into(), Duration::from_millis(10), None, "")
    }

    #[test]
    fn a_banner_that_came_before_the_first_request_is_kept_whole() {
        let mut link = link(b"Open On-Chip Debugger\r\n> ");
        link.prepare().unwrap();
        assert_eq!(link.noise, b"Open On-Chip Debugger\r\n> ");
    }

    #[test]
    fn a_link_closed_before_a_word_is_reported_alike_in_writing_and_in_reading() {
        let sent = link(b"").send_raw(b"+").unwrap_err().to_string();
        let closed = RspErrorKind::Closed { when: String::new(), why: String::new() }.at("here");
        assert_eq!(sent, link(b"").in_answer_to(closed, b"?").to_string());
    }
}
