//! What debugger and stub have agreed on, and which requests the stub has not answered yet. No input or output here.

use std::collections::VecDeque;

use super::threads::Answered;

/// The most requests without an answer that are kept: a bound for a stub that never answers.
const MAX_WAITING: usize = 4096;

/// The longest answer to `qSupported` that is kept.
const MAX_FEATURES: usize = 1 << 16;

/// A debugger's request, as far as its answer matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Request {
    /// `qSupported`.
    Features,
    /// `vCont?`.
    Actions,
    /// `QStartNoAckMode`.
    NoAcks,
    /// `QNonStop`, on or off.
    NonStop(bool),
    /// To run: the answer comes when the target stops.
    Run,
    /// Why the target stopped: the answer is a stop reply too.
    Stop,
    /// Anything else.
    Other,
}

/// The state of a conversation.
#[derive(Debug)]
pub struct Conversation {
    /// Packets are acknowledged.
    pub acks: bool,
    /// Requests without an answer, oldest first.
    waiting: VecDeque<Request>,
    /// The stub's answer to `qSupported`.
    pub features: Vec<u8>,
    non_stop: bool,
}

impl Default for Conversation {
    fn default() -> Self {
        Self { acks: true, waiting: VecDeque::new(), features: Vec::new(), non_stop: false }
    }
}

impl Conversation {
    /// The debugger has sent a packet.
    pub(super) fn request(&mut self, body: &[u8]) {
        let request = match body.first() {
            // A kill or a restart is not answered; an `F` answers the stub.
            None | Some(b'k' | b'R' | b'F') => return,
            Some(b'c' | b'C' | b's' | b'S') => self.run(),
            Some(b'?') => Request::Stop,
            // Backwards: `bc`, `bs`.
            Some(b'b') if matches!(body, b"bc" | b"bs") => self.run(),
            Some(b'v') if body.starts_with(b"vCont;") => self.run(),
            Some(b'v') if body == b"vCont?" => Request::Actions,
            Some(b'v') if body.starts_with(b"vAttach") || body.starts_with(b"vRun") => Request::Stop,
            Some(b'q') if body.starts_with(b"qSupported") => Request::Features,
            Some(b'Q') if body == b"QStartNoAckMode" => Request::NoAcks,
            Some(b'Q') if body.starts_with(b"QNonStop:") => Request::NonStop(body.ends_with(b"1")),
            _ => Request::Other,
        };
        if self.acks {
            // One at a time: a request that is sent before the answer repeats or replaces the last one.
            self.waiting.clear();
        }
        if self.waiting.len() >= MAX_WAITING {
            self.waiting.pop_front();
        }
        self.waiting.push_back(request);
    }

    /// In non-stop mode the answer comes at once.
    const fn run(&self) -> Request {
        if self.non_stop { Request::Other } else { Request::Run }
    }

    /// The request that this packet of the stub answers; `None` for what comes in between.
    fn answered(&self, body: &[u8]) -> Option<Request> {
        let request = self.waiting.front().copied()?;
        let is_stop = matches!(body, [b'T' | b'S', a, b, ..] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit());
        let is_text = matches!(body, [b'O', text @ ..] if text.iter().all(u8::is_ascii_hexdigit));
        let is_call = request == Request::Run && body.first() == Some(&b'F');
        // Console text and calls come in between; a stop reply may come without a request, as QEMU's does.
        let between = is_text || is_call || is_stop && !matches!(request, Request::Run | Request::Stop);
        (!between).then_some(request)
    }

    /// What this packet of the stub answers, where threads in it are to be translated.
    pub(super) fn translated(&self, body: &[u8]) -> Option<Answered> {
        match self.answered(body)? {
            Request::Features => Some(Answered::Features),
            Request::Actions => Some(Answered::Actions),
            Request::Run | Request::Stop => Some(Answered::Stop),
            Request::NoAcks | Request::NonStop(_) | Request::Other => None,
        }
    }

    /// The stub has sent a packet.
    pub(super) fn reply(&mut self, body: &[u8]) {
        let Some(request) = self.answered(body) else { return };
        self.waiting.pop_front();
        match request {
            Request::Features => {
                self.features = body.get(..MAX_FEATURES).unwrap_or(body).to_vec();
            }
            Request::NoAcks if body == b"OK" => self.acks = false,
            Request::NonStop(on) if body == b"OK" => self.non_stop = on,
            _ => {}
        }
    }

    /// True where the stub has answered every request.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    /// True where the target runs, and the stub takes only an interrupt.
    pub(super) fn runs(&self) -> bool {
        self.waiting.contains(&Request::Run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(packets: &[(&str, &str)]) -> Conversation {
        let mut c = Conversation::default();
        for (asked, answered) in packets {
            c.request(asked.as_bytes());
            if *answered != "(nothing)" {
                c.reply(answered.as_bytes());
            }
        }
        c
    }

    #[test]
    fn the_switch_to_no_acks_counts_when_it_is_agreed() {
        assert!(after(&[("QStartNoAckMode", "")]).acks);
        assert!(after(&[("QStartNoAckMode", "(nothing)")]).acks);
        assert!(!after(&[("qSupported:a+", "PacketSize=400"), ("QStartNoAckMode", "OK")]).acks);
    }

    #[test]
    fn the_target_runs_until_it_stops() {
        for go in ["c", "vCont;c", "vCont;s:1;c", "s", "C05", "bc"] {
            let mut c = after(&[("?", "S05"), (go, "(nothing)")]);
            for between in ["O48656c6c6f", "Fopen,0/1,0,0", "O"] {
                c.reply(between.as_bytes());
                assert!(c.runs() && !c.is_idle(), "{go} {between}");
            }
            c.reply(b"T05thread:01;");
            assert!(!c.runs() && c.is_idle(), "{go}");
        }
        assert!(after(&[("vCont?", "vCont;c;s")]).is_idle());
        let mut c = after(&[("QNonStop:1", "OK"), ("vCont;c", "OK")]);
        assert!(c.is_idle() && !c.runs());
        c.request(b"vStopped");
        assert!(!c.is_idle());
    }

    #[test]
    fn an_unasked_stop_reply_is_no_answer() {
        let mut c = after(&[("qSupported:a+", "T02thread:01;")]);
        assert!(!c.is_idle());
        c.reply(b"PacketSize=1000");
        assert!(c.is_idle() && c.features == b"PacketSize=1000");
    }

    #[test]
    fn requests_in_flight_are_counted_without_acks_alone() {
        let mut c = after(&[("m0,4", "(nothing)"), ("m0,4", "(nothing)")]);
        c.reply(b"00000000");
        assert!(c.is_idle(), "a repetition");
        c = after(&[("QStartNoAckMode", "OK"), ("m0,4", "(nothing)"), ("m4,4", "(nothing)")]);
        c.reply(b"00000000");
        assert!(!c.is_idle());
        c.reply(b"E01");
        assert!(c.is_idle());
        assert!(after(&[("QStartNoAckMode", "OK"), ("k", "(nothing)"), ("F0", "(nothing)")]).is_idle());
    }

    #[test]
    fn a_stub_that_never_answers_costs_no_memory() {
        let mut c = after(&[("QStartNoAckMode", "OK")]);
        (0..3 * MAX_WAITING).for_each(|_| c.request(b"m0,4"));
        assert_eq!(c.waiting.len(), MAX_WAITING);
    }
}
