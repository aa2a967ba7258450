//! One debugger, one stub, and the bytes between them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::conversation::Conversation;
use super::shared::{SharedLink, Tally, lock};
use super::{Answer, SLICE, Stub, line};
use crate::mem::remote::Remote;
use crate::rsp::packet::{Decoder, Kind};
use crate::rsp::transport::{Transport, TransportError, deadline_in, wait_any};
use crate::rsp::{Client, Options};

/// How long a side may take to take bytes: at a debugger's pager its user holds the link.
const DAY: Duration = Duration::from_secs(24 * 3600);

/// How often one packet of ours is sent to a debugger that finds it damaged.
const TRIES: u32 = 4;

/// How a session ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// The debugger went.
    Debugger,
    /// The stub went; with what is known about the reason.
    Stub(String),
    /// A signal ended us.
    Interrupted,
}

/// Bytes of one side, cut into tokens, of which some are passed on before they are complete.
#[derive(Default)]
pub struct Watch {
    decoder: Decoder,
    /// So much of the incomplete token has been passed on.
    sent: usize,
}

impl Watch {
    /// Adds bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.decoder.push(bytes);
    }

    /// The next complete token, what of it has not been passed on yet, and whether any of it has been.
    pub fn token(&mut self) -> Option<(Kind, Vec<u8>, bool)> {
        match self.decoder.next_token() {
            Ok(Some(kind)) => {
                let sent = std::mem::take(&mut self.sent);
                let raw = self.decoder.raw().get(sent..).unwrap_or_default().to_vec();
                Some((kind, raw, sent > 0))
            }
            Ok(None) => None,
            // Too long to be understood; it goes through all the same.
            Err(_) => {
                let raw = self.rest();
                *self = Self::default();
                Some((Kind::Junk, raw, false))
            }
        }
    }

    /// The incomplete token, as far as it has come.
    pub fn pending(&self) -> &[u8] {
        self.decoder.pending()
    }

    /// What of the incomplete token has not been passed on; from now on it counts as passed on.
    pub fn rest(&mut self) -> Vec<u8> {
        let pending = self.decoder.pending();
        let rest = pending.get(self.sent..).unwrap_or_default().to_vec();
        self.sent = pending.len();
        rest
    }
}

/// The two links.
pub struct Ends {
    debugger: Box<dyn Transport>,
    pub stub: Box<dyn Transport>,
    /// What the debugger says.
    from_debugger: Watch,
    /// What the stub says.
    pub from_stub: Watch,
    /// What the stub was asked on our behalf since a line came.
    pub tally: Tally,
}

impl Ends {
    /// Passes bytes on to the debugger.
    pub fn debugger_gets(&mut self, bytes: &[u8]) -> Result<(), String> {
        send(&mut *self.debugger, bytes).map_err(|e| format!("the debugger does not listen ({e:?})"))
    }

    /// While the debugger waits for its answer: true where it interrupts that.
    pub fn receive_from_debugger(&mut self) -> Result<bool, TransportError> {
        let mut bytes = [0; 256];
        match self.debugger.receive(&mut bytes, Instant::now()) {
            Ok(count) => {
                let bytes = bytes.get(..count).unwrap_or_default();
                // In a packet 0x03 is a byte as any other.
                let outside = match self.from_debugger.pending() {
                    [] => bytes.iter().position(|b| *b == b'$').unwrap_or(count),
                    _ => 0,
                };
                let (outside, packets) = bytes.split_at_checked(outside).unwrap_or((&[], bytes));
                // The interrupt is meant for us: the stub stands still already.
                let rest: Vec<u8> = outside.iter().copied().filter(|b| *b != 3).collect();
                self.from_debugger.push(&rest);
                self.from_debugger.push(packets);
                Ok(rest.len() < outside.len())
            }
            Err(TransportError::Timeout) => Ok(false),
            Err(_) => Err(TransportError::Io("the debugger has gone".into())),
        }
    }
}

fn send(to: &mut dyn Transport, bytes: &[u8]) -> Result<(), TransportError> {
    if bytes.is_empty() { Ok(()) } else { to.send(bytes, deadline_in(DAY)) }
}

/// A session.
pub struct Relay {
    ends: Arc<Mutex<Ends>>,
    stub: Stub,
    talk: Conversation,
    /// A line of ours, which waits until the stub is idle, and how long.
    held: Option<(String, Instant)>,
    /// Packets of ours that the debugger has not acknowledged yet; the first of them has been sent.
    own: VecDeque<Vec<u8>>,
    /// How often that was sent.
    tries: u32,
    /// Answers to our own reads that may still come: nobody waits for them, and the debugger must not see them.
    owed: usize,
}

impl Relay {
    pub fn new(debugger: Box<dyn Transport>, link: Box<dyn Transport>, stub: &Stub) -> Self {
        let (from_debugger, from_stub) = (Watch::default(), Watch::default());
        let ends = Ends { debugger, stub: link, from_debugger, from_stub, tally: Tally::default() };
        Self {
            ends: Arc::new(Mutex::new(ends)),
            stub: stub.clone(),
            talk: Conversation::default(),
            held: None,
            own: VecDeque::new(),
            tries: 0,
            owed: 0,
        }
    }

    /// Passes bytes on until one side goes.
    pub fn run(mut self, answer: &mut Answer<'_>) -> End {
        match self.pass(answer) {
            Ok(never) => match never {},
            Err(end) => {
                if end == End::Debugger {
                    // What it began to say, the stub would have from_debugger too.
                    let mut ends = lock(&self.ends);
                    let rest = ends.from_debugger.rest();
                    let _ = ends.stub.send(&rest, deadline_in(self.stub.timeout));
                }
                end
            }
        }
    }

    fn pass(&mut self, answer: &mut Answer<'_>) -> Result<std::convert::Infallible, End> {
        let mut bytes = vec![0; 64 << 10];
        let mut stub_first = false;
        loop {
            self.debugger_said()?;
            if let Some((line, deadline)) = self.held.take() {
                if self.talk.is_idle() && self.owed == 0 {
                    self.answer(&line, answer)?;
                    continue;
                }
                if Instant::now() >= deadline {
                    self.tell(b"tx-trace: the stub has not answered yet what it was asked before: try again\n")?;
                    continue;
                }
                self.held = Some((line, deadline));
            }
            if self.stub.is_interrupted() {
                return Err(End::Interrupted);
            }
            // Whoever has much to say must not keep the other from being from_debugger.
            stub_first = !stub_first;
            match self.wait(stub_first)? {
                Some(true) => self.stub_says(&mut bytes)?,
                Some(false) => {
                    let mut ends = lock(&self.ends);
                    match ends.debugger.receive(&mut bytes, Instant::now()) {
                        Ok(count) => ends.from_debugger.push(bytes.get(..count).unwrap_or_default()),
                        Err(TransportError::Timeout) => {}
                        Err(_) => return Err(End::Debugger),
                    }
                }
                None => {}
            }
        }
    }

    /// Waits for bytes; true where the stub has some, false for the debugger.
    fn wait(&self, stub_first: bool) -> Result<Option<bool>, End> {
        let ends = lock(&self.ends);
        let (stub, debugger) = (&*ends.stub, &*ends.debugger);
        let deadline = match &self.held {
            // What it says now is for later.
            Some((_, until)) => {
                return Ok(wait_any(&[stub], (*until).min(deadline_in(SLICE))).map_err(broken)?.map(|_| true));
            }
            None => deadline_in(SLICE),
        };
        let links = if stub_first { [stub, debugger] } else { [debugger, stub] };
        Ok(wait_any(&links, deadline).map_err(broken)?.map(|ready| (ready == 0) == stub_first))
    }

    /// Bytes of the stub.
    fn stub_says(&mut self, buffer: &mut [u8]) -> Result<(), End> {
        let mut ends = lock(&self.ends);
        let count = match ends.stub.receive(buffer, Instant::now()) {
            Ok(count) => count,
            Err(TransportError::Timeout) => return Ok(()),
            Err(error) => return Err(stub_gone(error)),
        };
        let bytes = buffer.get(..count).unwrap_or_default();
        let gone = |_| End::Debugger;
        if self.owed == 0 {
            ends.debugger_gets(bytes).map_err(gone)?;
            ends.from_stub.push(bytes);
            while let Some((kind, ..)) = ends.from_stub.token() {
                if let Kind::Packet(body) = kind {
                    self.talk.answered(&body.data);
                }
            }
            ends.from_stub.rest();
            return Ok(());
        }
        ends.from_stub.push(bytes);
        while let Some((kind, raw, begun)) = ends.from_stub.token() {
            match kind {
                Kind::Packet(_) if self.owed > 0 && !begun => {
                    self.owed = self.owed.saturating_sub(1);
                    if self.talk.acks {
                        ends.stub.send(b"+", deadline_in(DAY)).map_err(stub_gone)?;
                    }
                }
                kind => {
                    ends.debugger_gets(&raw).map_err(gone)?;
                    if let Kind::Packet(body) = kind {
                        self.talk.answered(&body.data);
                    }
                }
            }
        }
        if self.owed == 0 {
            let rest = ends.from_stub.rest();
            ends.debugger_gets(&rest).map_err(gone)?;
        }
        Ok(())
    }

    /// Looks at what the debugger has said, and passes on what is not for us.
    fn debugger_said(&mut self) -> Result<(), End> {
        while self.held.is_none() {
            let token = lock(&self.ends).from_debugger.token();
            let Some((kind, raw, begun)) = token else { break };
            let ours = self.talk.acks && !self.own.is_empty();
            match &kind {
                Kind::Ack if ours => {
                    self.own.pop_front();
                    self.tries = 0;
                    self.send_own()?;
                    continue;
                }
                Kind::Nak if ours => {
                    self.send_own()?;
                    continue;
                }
                Kind::Interrupt if ours => {
                    // The first is on its way, and to be acknowledged.
                    let first = self.own.pop_front();
                    self.own = first.into_iter().chain(cut(&self.own)).collect();
                    continue;
                }
                Kind::Packet(body) if body.checksum_ok && !begun => {
                    // It goes on, so it has what it wanted of us.
                    self.own.clear();
                    if let Some(line) = line::ours(&body.data) {
                        self.hold(line)?;
                        continue;
                    }
                }
                _ => {}
            }
            if let Kind::Packet(body) = &kind
                && body.checksum_ok
            {
                self.talk.asked(&body.data);
            }
            send(&mut *lock(&self.ends).stub, &raw).map_err(stub_gone)?;
        }
        let mut ends = lock(&self.ends);
        if self.held.is_none() && !line::may_be_ours(ends.from_debugger.pending()) {
            let rest = ends.from_debugger.rest();
            send(&mut *ends.stub, &rest).map_err(stub_gone)?;
        }
        Ok(())
    }

    /// Takes a line of ours.
    fn hold(&mut self, line: String) -> Result<(), End> {
        if self.talk.acks {
            lock(&self.ends).debugger_gets(b"+").map_err(|_| End::Debugger)?;
        }
        if self.talk.runs() {
            return self.tell(b"tx-trace: the target is running: interrupt it first\n");
        }
        self.held = Some((line, deadline_in(self.stub.timeout)));
        Ok(())
    }

    /// Has a line answered.
    fn answer(&mut self, line: &str, answer: &mut Answer<'_>) -> Result<(), End> {
        lock(&self.ends).tally = Tally::default();
        let options = Options { timeout: self.stub.timeout, interrupt: self.stub.interrupt, ..Options::default() };
        let shared = Box::new(SharedLink::new(Arc::clone(&self.ends)));
        let name = self.stub.endpoint.to_string();
        let mut remote = Remote::new(Client::shared(shared, &name, options, &self.talk.features, self.talk.acks));
        let mut text = Vec::new();
        answer(line, &mut remote, &mut text);
        drop(remote);
        {
            let mut ends = lock(&self.ends);
            self.owed = ends.tally.owed(self.talk.acks);
            if self.owed == 0 {
                let rest = ends.from_stub.rest();
                ends.debugger_gets(&rest).map_err(|_| End::Debugger)?;
            }
        }
        self.tell(&text)
    }

    /// Answers a line by text.
    fn tell(&mut self, text: &[u8]) -> Result<(), End> {
        self.own = line::answer(text).into();
        self.tries = 0;
        self.send_own()
    }

    /// Sends what is ours: one packet, where each is to be acknowledged.
    fn send_own(&mut self) -> Result<(), End> {
        let mut ends = lock(&self.ends);
        let gone = |_| End::Debugger;
        if self.talk.acks {
            self.tries = self.tries.saturating_add(1);
            if self.tries > TRIES {
                self.own.clear();
            }
            if let Some(frame) = self.own.front() {
                ends.debugger_gets(frame).map_err(gone)?;
            }
            return Ok(());
        }
        while let Some(frame) = self.own.pop_front() {
            ends.debugger_gets(&frame).map_err(gone)?;
            if !self.own.is_empty() && ends.receive_from_debugger().map_err(|_| End::Debugger)? {
                self.own = cut(&self.own);
            }
        }
        Ok(())
    }
}

/// What is left to send of an answer that the debugger has interrupted: that it was, and the end.
fn cut(left: &VecDeque<Vec<u8>>) -> VecDeque<Vec<u8>> {
    // The last one is the end alone.
    match left.len() {
        0 => VecDeque::new(),
        1 => left.clone(),
        _ => line::answer(b"\ntx-trace: the rest is not shown: the debugger has interrupted it\n").into(),
    }
}

fn stub_gone(error: TransportError) -> End {
    End::Stub(match error {
        TransportError::Closed(why) => why,
        TransportError::Io(why) => format!(": {why}"),
        TransportError::Timeout => ": it takes no bytes".to_owned(),
    })
}

fn broken(error: std::io::Error) -> End {
    End::Stub(format!(": {error}"))
}
