//! The packets of a session that are about threads, where these are shown.

use std::time::Instant;

use super::{End, Relay, is_on, lock, send, stub_closed};
use crate::bridge::threads::Todo;
use crate::rsp::packet::{Kind, encode};
use crate::rsp::transport::deadline_in;

/// A packet of the debugger that waits until the stub is idle.
pub(super) struct Held {
    body: Vec<u8>,
    /// As it came.
    raw: Vec<u8>,
    /// Then the stub gets it all the same.
    pub(super) until: Instant,
}

impl Relay {
    /// True while packets about threads are translated.
    pub(super) fn translates(&self) -> bool {
        is_on(self.session.as_ref())
    }

    /// Takes a packet of the debugger; false where it is forwarded as it is.
    pub(super) fn translate_request(&mut self, body: &[u8], raw: &[u8]) -> Result<bool, End> {
        if !self.translates() || self.conversation.runs() {
            return Ok(false);
        }
        let until = deadline_in(self.stub.timeout);
        self.held = Some(Held { body: body.to_vec(), raw: raw.to_vec(), until });
        self.carry_out_held().map(|()| true)
    }

    /// Carries out the packet that waits, where the stub is idle by now.
    pub(super) fn carry_out_held(&mut self) -> Result<(), End> {
        let free = self.is_free();
        let Some(held) = self.held.take_if(|held| free || Instant::now() >= held.until) else { return Ok(()) };
        let Some(mut session) = self.session.take_if(|_| free) else { return self.forward(&held.body, &held.raw) };
        let todo = self.lend(true, |remote| session.request(&held.body, remote));
        self.session = Some(session);
        match todo? {
            Todo::Pass => self.forward(&held.body, &held.raw),
            Todo::Instead(packet) => self.forward(&packet, &encode(&packet)),
            Todo::Answer(packets) => {
                if self.conversation.acks {
                    lock(&self.links).send_to_debugger(b"+").map_err(|_| End::Debugger)?;
                }
                self.send_own(packets.iter().map(|packet| encode(packet)).collect(), true)
            }
        }
    }

    fn forward(&mut self, body: &[u8], raw: &[u8]) -> Result<(), End> {
        self.conversation.request(body);
        send(&mut *lock(&self.links).stub, raw).map_err(stub_closed)
    }

    /// Takes a packet of the stub; false where it is forwarded as it is.
    pub(super) fn translate_reply(&mut self, kind: &Kind) -> Result<bool, End> {
        let Kind::Packet(body) = kind else { return Ok(false) };
        let to = self.conversation.translated(&body.data).filter(|_| body.checksum_ok && self.translates());
        let Some((to, mut session)) = to.and_then(|to| Some((to, self.session.take()?))) else { return Ok(false) };
        if self.conversation.acks {
            send(&mut *lock(&self.links).stub, b"+").map_err(stub_closed)?;
        }
        self.conversation.reply(&body.data);
        let packets = self.lend(true, |remote| session.reply(to, &body.data, remote));
        self.session = Some(session);
        self.send_own(packets?.iter().map(|packet| encode(packet)).collect(), true)?;
        Ok(true)
    }
}
