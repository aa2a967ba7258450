//! What debugger and stub have agreed on, and what the stub still has to answer. Pure; it only listens.

use std::collections::VecDeque;

/// The most requests that are remembered: nobody keeps so many in flight, and a stub that never answers costs no more.
const MOST: usize = 4096;

/// The longest answer to `qSupported` that is kept.
const LONGEST: usize = 1 << 16;

/// What a debugger asked for, as far as its answer matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    /// What the stub can do.
    Features,
    /// To do without acknowledgements.
    NoAcks,
    /// Non-stop mode, on or off.
    NonStop(bool),
    /// To run: the answer comes when the target stops.
    Run,
    /// Why the target stands: the answer is a stop reply too.
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
    waiting: VecDeque<Asked>,
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
    pub fn asked(&mut self, body: &[u8]) {
        let asked = match body.first() {
            // A kill or a restart is not answered; an `F` answers the stub.
            None | Some(b'k' | b'R' | b'F') => return,
            Some(b'c' | b'C' | b's' | b'S') => self.run(),
            Some(b'?') => Asked::Stop,
            // Backwards: `bc`, `bs`.
            Some(b'b') if matches!(body, b"bc" | b"bs") => self.run(),
            Some(b'v') if body.starts_with(b"vCont;") => self.run(),
            Some(b'v') if body.starts_with(b"vAttach") || body.starts_with(b"vRun") => Asked::Stop,
            Some(b'q') if body.starts_with(b"qSupported") => Asked::Features,
            Some(b'Q') if body == b"QStartNoAckMode" => Asked::NoAcks,
            Some(b'Q') if body.starts_with(b"QNonStop:") => Asked::NonStop(body.ends_with(b"1")),
            _ => Asked::Other,
        };
        if self.acks {
            // One at a time: what is sent while another waits is sent again, or in its place.
            self.waiting.clear();
        }
        if self.waiting.len() >= MOST {
            self.waiting.pop_front();
        }
        self.waiting.push_back(asked);
    }

    /// In non-stop mode the answer comes at once.
    const fn run(&self) -> Asked {
        if self.non_stop { Asked::Other } else { Asked::Run }
    }

    /// The stub has sent a packet.
    pub fn answered(&mut self, body: &[u8]) {
        let Some(asked) = self.waiting.front().copied() else { return };
        let is_stop = matches!(body, [b'T' | b'S', a, b, ..] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit());
        let is_text = matches!(body, [b'O', text @ ..] if text.iter().all(u8::is_ascii_hexdigit));
        let is_call = asked == Asked::Run && body.first() == Some(&b'F');
        // Console text and calls come in between; a stop reply may come unasked, as QEMU's does.
        if is_text || is_call || is_stop && !matches!(asked, Asked::Run | Asked::Stop) {
            return;
        }
        self.waiting.pop_front();
        match asked {
            Asked::Features => {
                self.features = body.get(..LONGEST).unwrap_or(body).to_vec();
            }
            Asked::NoAcks if body == b"OK" => self.acks = false,
            Asked::NonStop(on) if body == b"OK" => self.non_stop = on,
            _ => {}
        }
    }

    /// True where the stub owes no answer, so that it listens.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    /// True where the target runs and the stub listens to an interrupt alone.
    pub fn runs(&self) -> bool {
        self.waiting.contains(&Asked::Run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(packets: &[(&str, &str)]) -> Conversation {
        let mut c = Conversation::default();
        for (asked, answered) in packets {
            c.asked(asked.as_bytes());
            if *answered != "(nothing)" {
                c.answered(answered.as_bytes());
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
                c.answered(between.as_bytes());
                assert!(c.runs() && !c.is_idle(), "{go} {between}");
            }
            c.answered(b"T05thread:01;");
            assert!(!c.runs() && c.is_idle(), "{go}");
        }
        assert!(after(&[("vCont?", "vCont;c;s")]).is_idle());
        let mut c = after(&[("QNonStop:1", "OK"), ("vCont;c", "OK")]);
        assert!(c.is_idle() && !c.runs());
        c.asked(b"vStopped");
        assert!(!c.is_idle());
    }

    #[test]
    fn an_unasked_stop_reply_is_no_answer() {
        let mut c = after(&[("qSupported:a+", "T02thread:01;")]);
        assert!(!c.is_idle());
        c.answered(b"PacketSize=1000");
        assert!(c.is_idle() && c.features == b"PacketSize=1000");
    }

    #[test]
    fn requests_in_flight_are_counted_without_acks_alone() {
        let mut c = after(&[("m0,4", "(nothing)"), ("m0,4", "(nothing)")]);
        c.answered(b"00000000");
        assert!(c.is_idle(), "a repetition");
        c = after(&[("QStartNoAckMode", "OK"), ("m0,4", "(nothing)"), ("m4,4", "(nothing)")]);
        c.answered(b"00000000");
        assert!(!c.is_idle());
        c.answered(b"E01");
        assert!(c.is_idle());
        assert!(after(&[("QStartNoAckMode", "OK"), ("k", "(nothing)"), ("F0", "(nothing)")]).is_idle());
    }

    #[test]
    fn a_stub_that_never_answers_costs_no_memory() {
        let mut c = after(&[("QStartNoAckMode", "OK")]);
        (0..3 * MOST).for_each(|_| c.asked(b"m0,4"));
        assert_eq!(c.waiting.len(), MOST);
    }
}
