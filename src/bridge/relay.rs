//! One session: a debugger, a stub, and the bytes between them.

mod translate;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::conversation::Conversation;
use super::shared::{SharedLink, Tally, lock};
use super::threads::Session;
use super::{Answer, SLICE, Stub, line};
use crate::mem::remote::Remote;
use crate::rsp::packet::{Decoder, Kind};
use crate::rsp::transport::{Transport, TransportError, deadline_in, wait_any};
use crate::rsp::{Client, Endpoint, Options};
use translate::Held;

/// How long sending may take: a debugger does not read while its user is at the pager.
const SEND_TIMEOUT: Duration = Duration::from_secs(24 * 3600);

/// How often one packet of the bridge is sent to a debugger that receives it damaged.
const TRIES: u32 = 4;

/// How a session ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// The debugger closed its connection.
    Debugger,
    /// The stub closed its connection; what is known about the reason.
    Stub(String),
    /// A signal ended the bridge.
    Interrupted,
}

/// One of the two.
#[derive(Clone, Copy)]
enum Side {
    Debugger,
    Stub,
}

/// Bytes from one side, cut into tokens. A token may be forwarded before it is complete.
#[derive(Default)]
pub struct Tokens {
    decoder: Decoder,
    /// Bytes of the incomplete token that have been forwarded.
    sent: usize,
}

impl Tokens {
    /// Adds bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.decoder.push(bytes);
    }

    /// The next complete token, those of its bytes that have not been forwarded, and whether any of them have.
    pub(super) fn token(&mut self) -> Option<(Kind, Vec<u8>, bool)> {
        match self.decoder.next_token() {
            Ok(Some(kind)) => {
                let sent = std::mem::take(&mut self.sent);
                let raw = self.decoder.raw().get(sent..).unwrap_or_default().to_vec();
                Some((kind, raw, sent > 0))
            }
            Ok(None) => None,
            // Too long to be parsed; it is forwarded all the same.
            Err(_) => {
                let raw = self.rest();
                *self = Self::default();
                Some((Kind::Junk, raw, false))
            }
        }
    }

    /// The bytes of the incomplete token.
    pub fn pending(&self) -> &[u8] {
        self.decoder.pending()
    }

    /// The bytes of the incomplete token that have not been forwarded; they then count as forwarded.
    fn rest(&mut self) -> Vec<u8> {
        let pending = self.decoder.pending();
        let rest = pending.get(self.sent..).unwrap_or_default().to_vec();
        self.sent = pending.len();
        rest
    }
}

/// The two links.
pub struct Links {
    debugger: Box<dyn Transport>,
    pub stub: Box<dyn Transport>,
    from_debugger: Tokens,
    pub from_stub: Tokens,
    /// The packets of the bridge's own client since the last line.
    pub tally: Tally,
}

impl Links {
    /// Sends bytes to the debugger.
    pub(super) fn send_to_debugger(&mut self, bytes: &[u8]) -> Result<(), String> {
        send(&mut *self.debugger, bytes).map_err(|e| format!("the debugger does not listen ({e:?})"))
    }

    /// Receives from a debugger that waits for the answer to its line; true where it interrupts that.
    pub(super) fn receive_from_debugger(&mut self) -> Result<bool, TransportError> {
        let mut bytes = [0; 256];
        match self.debugger.receive(&mut bytes, Instant::now()) {
            Ok(count) => {
                let bytes = bytes.get(..count).unwrap_or_default();
                // In a packet 0x03 is a byte like any other.
                let outside = match self.from_debugger.pending() {
                    [] => bytes.iter().position(|b| *b == b'$').unwrap_or(count),
                    _ => 0,
                };
                let (outside, packets) = bytes.split_at_checked(outside).unwrap_or((&[], bytes));
                // The interrupt is for the bridge: the target is halted already.
                let rest: Vec<u8> = outside.iter().copied().filter(|b| *b != 3).collect();
                self.from_debugger.push(&rest);
                self.from_debugger.push(packets);
                Ok(rest.len() < outside.len())
            }
            Err(TransportError::Timeout) => Ok(false),
            Err(_) => Err(TransportError::Io("the debugger disconnected".into())),
        }
    }
}

fn send(to: &mut dyn Transport, bytes: &[u8]) -> Result<(), TransportError> {
    if bytes.is_empty() { Ok(()) } else { to.send(bytes, deadline_in(SEND_TIMEOUT)) }
}

/// A session.
pub struct Relay {
    links: Arc<Mutex<Links>>,
    stub: Stub,
    conversation: Conversation,
    /// A monitor line for the bridge, which waits until the stub is idle, and until when.
    line: Option<(String, Instant)>,
    /// The kernel's threads, where they are shown.
    session: Option<Session>,
    /// A packet of the debugger that waits until the stub is idle.
    held: Option<Held>,
    /// Packets of the bridge that the debugger has not acknowledged yet; the first of them has been sent.
    unacknowledged: VecDeque<Vec<u8>>,
    /// An interrupt does not cut them off: they are answers, and no text.
    steady: bool,
    /// How often the first was sent.
    tries: u32,
    /// Answers to the bridge's own reads that may still come: the debugger must not see them.
    unanswered: usize,
    stub_output: StubOutput,
}

/// Whether the stub has sent anything.
#[derive(Clone, Copy)]
enum StubOutput {
    /// Nothing was asked yet.
    NotAsked,
    /// Something was, and nothing came up to now. After `until` this is reported, once.
    Nothing {
        until: Instant,
    },
    /// Nothing came in time, and this was reported.
    Reported,
    Something,
}

/// What is likely where a stub does not speak at all.
const HELD: &str = "a stub serves one client at a time, and another debugger may hold it: end that session";

impl Relay {
    pub fn new(debugger: Box<dyn Transport>, link: Box<dyn Transport>, stub: &Stub, session: Option<Session>) -> Self {
        let (from_debugger, from_stub) = (Tokens::default(), Tokens::default());
        let links = Links { debugger, stub: link, from_debugger, from_stub, tally: Tally::default() };
        Self {
            links: Arc::new(Mutex::new(links)),
            stub: stub.clone(),
            conversation: Conversation::default(),
            line: None,
            session,
            held: None,
            steady: false,
            unacknowledged: VecDeque::new(),
            tries: 0,
            unanswered: 0,
            stub_output: StubOutput::NotAsked,
        }
    }

    /// Forwards bytes until one side closes its connection.
    pub(super) fn run(mut self, answer: &mut Answer<'_>, say: &mut dyn FnMut(&str)) -> End {
        let mut bytes = vec![0; 64 << 10];
        let mut stub_first = false;
        let end = loop {
            // By turns, so that a side that sends without end does not keep the other from being read.
            stub_first = !stub_first;
            let done = self.step(stub_first, &mut bytes, answer);
            self.session.iter_mut().flat_map(Session::take_lines).for_each(|line| say(&line));
            if let Some(line) = self.silence() {
                say(&line);
            }
            if let Err(end) = done {
                break end;
            }
        };
        let end = match end {
            // What a command said when it ended is more than can be guessed.
            End::Stub(why) if self.is_new() && !matches!(self.stub.endpoint, Endpoint::Command(_)) => {
                End::Stub(format!(" before it sent anything{why}; {HELD}"))
            }
            end => end,
        };
        if end == End::Debugger {
            // Without the bridge the stub would have received the beginning of a packet too.
            let mut links = lock(&self.links);
            let rest = links.from_debugger.rest();
            let _ = links.stub.send(&rest, deadline_in(self.stub.timeout));
        }
        end
    }

    /// True while the stub has sent nothing.
    const fn is_new(&self) -> bool {
        !matches!(self.stub_output, StubOutput::Something)
    }

    /// What is to be said once a stub has answered nothing for as long as it may take for an answer.
    fn silence(&mut self) -> Option<String> {
        let StubOutput::Nothing { until } = self.stub_output else { return None };
        (Instant::now() >= until).then(|| {
            self.stub_output = StubOutput::Reported;
            let Stub { endpoint, timeout, .. } = &self.stub;
            format!("{endpoint}: connected, but nothing was answered within {timeout:?}; {HELD}")
        })
    }

    /// Sends the debugger's bytes to the stub.
    fn send_to_stub(&mut self, bytes: &[u8]) -> Result<(), End> {
        if matches!(self.stub_output, StubOutput::NotAsked) && !bytes.is_empty() {
            self.stub_output = StubOutput::Nothing { until: deadline_in(self.stub.timeout) };
        }
        send(&mut *lock(&self.links).stub, bytes).map_err(stub_closed)
    }

    fn step(&mut self, stub_first: bool, bytes: &mut [u8], answer: &mut Answer<'_>) -> Result<(), End> {
        self.forward_to_stub()?;
        if let Some((line, deadline)) = self.line.take() {
            if self.is_free() {
                return self.answer_line(&line, answer);
            }
            if Instant::now() >= deadline {
                return self.send_text(b"error: the stub has not answered the previous request yet: try again\n");
            }
            self.line = Some((line, deadline));
        }
        if self.held.is_some() {
            self.carry_out_held()?;
        }
        if self.stub.is_interrupted() {
            return Err(End::Interrupted);
        }
        match self.wait(stub_first)? {
            Some(Side::Stub) => self.receive_from_stub(bytes)?,
            Some(Side::Debugger) => {
                let mut links = lock(&self.links);
                match links.debugger.receive(bytes, Instant::now()) {
                    Ok(count) => links.from_debugger.push(bytes.get(..count).unwrap_or_default()),
                    Err(TransportError::Timeout) => {}
                    Err(_) => return Err(End::Debugger),
                }
            }
            None => {}
        }
        Ok(())
    }

    /// Waits until one side has bytes.
    fn wait(&self, stub_first: bool) -> Result<Option<Side>, End> {
        let links = lock(&self.links);
        let (stub, debugger) = ((Side::Stub, &*links.stub), (Side::Debugger, &*links.debugger));
        let until = self.line.as_ref().map(|(_, until)| *until).or(self.held.as_ref().map(|held| held.until));
        let sides = match until {
            // What the debugger sends now is for later.
            Some(_) => vec![stub],
            None if stub_first => vec![stub, debugger],
            None => vec![debugger, stub],
        };
        let deadline = until.map_or_else(|| deadline_in(SLICE), |until| until.min(deadline_in(SLICE)));
        let transports: Vec<&dyn Transport> = sides.iter().map(|(_, link)| *link).collect();
        let ready = wait_any(&transports, deadline).map_err(|error| End::Stub(format!(": {error}")))?;
        Ok(ready.and_then(|ready| sides.get(ready)).map(|(side, _)| *side))
    }

    fn receive_from_stub(&mut self, buffer: &mut [u8]) -> Result<(), End> {
        let mut links = lock(&self.links);
        let count = match links.stub.receive(buffer, Instant::now()) {
            Ok(count) => count,
            Err(TransportError::Timeout) => return Ok(()),
            Err(error) => return Err(stub_closed(error)),
        };
        self.stub_output = StubOutput::Something;
        let bytes = buffer.get(..count).unwrap_or_default();
        let closed = |_| End::Debugger;
        if self.unanswered == 0 && !is_on(self.session.as_ref()) {
            // What was kept back while packets were translated comes first.
            let rest = links.from_stub.rest();
            links.from_stub.push(bytes);
            links.send_to_debugger(&rest).map_err(closed)?;
            links.send_to_debugger(bytes).map_err(closed)?;
            while let Some((kind, ..)) = links.from_stub.token() {
                note_reply(&mut self.conversation, &kind);
            }
            links.from_stub.rest();
            return Ok(());
        }
        links.from_stub.push(bytes);
        drop(links);
        self.take_from_stub()
    }

    /// Cuts what the stub has sent into packets, and forwards those that are for the debugger.
    fn take_from_stub(&mut self) -> Result<(), End> {
        let closed = |_| End::Debugger;
        loop {
            let token = lock(&self.links).from_stub.token();
            let Some((kind, raw, begun)) = token else { break };
            let whole = matches!(kind, Kind::Packet(_)) && !begun;
            if let Some(left) = self.unanswered.checked_sub(1).filter(|_| whole) {
                self.unanswered = left;
                if self.conversation.acks {
                    send(&mut *lock(&self.links).stub, b"+").map_err(stub_closed)?;
                }
            } else if !(whole && self.translate_reply(&kind)?) {
                lock(&self.links).send_to_debugger(&raw).map_err(closed)?;
                note_reply(&mut self.conversation, &kind);
            }
        }
        if self.unanswered == 0 && !self.translates() {
            let mut links = lock(&self.links);
            let rest = links.from_stub.rest();
            links.send_to_debugger(&rest).map_err(closed)?;
        }
        Ok(())
    }

    /// Parses what the debugger has sent, and forwards what is not for the bridge.
    fn forward_to_stub(&mut self) -> Result<(), End> {
        while self.line.is_none() && self.held.is_none() {
            let token = lock(&self.links).from_debugger.token();
            let Some((kind, raw, begun)) = token else { break };
            if self.take_token(&kind, begun)? {
                continue;
            }
            if let Kind::Packet(body) = &kind
                && body.checksum_ok
            {
                if !begun && self.translate_request(&body.data, &raw)? {
                    continue;
                }
                self.conversation.request(&body.data);
            }
            self.send_to_stub(&raw)?;
        }
        let translates = self.translates();
        let mut links = lock(&self.links);
        let pending = links.from_debugger.pending();
        let kept = line::may_be_own(pending) || translates && pending.starts_with(b"$");
        if self.line.is_none() && self.held.is_none() && !kept {
            let rest = links.from_debugger.rest();
            drop(links);
            self.send_to_stub(&rest)?;
        }
        Ok(())
    }

    /// True for a token that is for the bridge. `begun`: some of it has been forwarded.
    fn take_token(&mut self, kind: &Kind, begun: bool) -> Result<bool, End> {
        let own = self.conversation.acks && !self.unacknowledged.is_empty();
        match kind {
            Kind::Ack if own => {
                self.unacknowledged.pop_front();
                self.tries = 0;
                self.send_unacknowledged()?;
            }
            Kind::Nak if own => self.send_unacknowledged()?,
            // The target has stopped already.
            Kind::Interrupt if own && self.steady => {}
            Kind::Interrupt if own => {
                // The first one has been sent, and will be acknowledged.
                let first = self.unacknowledged.pop_front();
                self.unacknowledged = first.into_iter().chain(cut(&self.unacknowledged)).collect();
            }
            Kind::Packet(body) if body.checksum_ok && !begun => {
                // A new request: the debugger has received the answer to its line.
                self.unacknowledged.clear();
                let Some(line) = line::own_line(&body.data) else { return Ok(false) };
                self.take_line(line)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Takes a monitor line for the bridge.
    fn take_line(&mut self, line: String) -> Result<(), End> {
        if self.conversation.acks {
            lock(&self.links).send_to_debugger(b"+").map_err(|_| End::Debugger)?;
        }
        if self.conversation.runs() {
            return self.send_text(b"error: the target is running: interrupt it first\n");
        }
        self.line = Some((line, deadline_in(self.stub.timeout)));
        Ok(())
    }

    /// True where the stub owes no answer, so that the bridge may ask.
    fn is_free(&self) -> bool {
        self.conversation.is_idle() && self.unanswered == 0
    }

    /// Answers a line: reads memory over the stub's link.
    fn answer_line(&mut self, line: &str, answer: &mut Answer<'_>) -> Result<(), End> {
        let text = self.lend(false, |remote| {
            let mut text = Vec::new();
            answer(line, remote, &mut text);
            text
        })?;
        self.send_text(&text)
    }

    /// Lends the stub's link to the bridge's own client. `ahead`: reads are together on their way also where packets are
    /// acknowledged.
    fn lend<T>(&mut self, ahead: bool, work: impl FnOnce(&mut Remote) -> T) -> Result<T, End> {
        let Conversation { features, acks, .. } = &self.conversation;
        lock(&self.links).tally = Tally::default();
        let options = Options { timeout: self.stub.timeout, interrupt: self.stub.interrupt, ..Options::default() };
        let shared = Box::new(SharedLink::new(Arc::clone(&self.links)));
        let name = self.stub.endpoint.to_string();
        let mut client = Client::shared(shared, &name, options, features, *acks);
        // A stub on a serial line may lose what comes while it answers.
        if ahead && !matches!(self.stub.endpoint, Endpoint::Serial { .. }) {
            client.acknowledge_ahead();
        }
        let mut remote = Remote::new(client);
        let done = work(&mut remote);
        drop(remote);
        let mut links = lock(&self.links);
        self.unanswered = links.tally.unanswered(*acks);
        if self.unanswered == 0 && !ahead {
            let rest = links.from_stub.rest();
            links.send_to_debugger(&rest).map_err(|_| End::Debugger)?;
        }
        Ok(done)
    }

    /// Sends text as the answer to a line.
    fn send_text(&mut self, text: &[u8]) -> Result<(), End> {
        self.send_own(line::answer(text).into(), false)
    }

    /// Sends packets of the bridge. `steady`: an interrupt does not cut them off.
    fn send_own(&mut self, packets: VecDeque<Vec<u8>>, steady: bool) -> Result<(), End> {
        (self.unacknowledged, self.steady, self.tries) = (packets, steady, 0);
        self.send_unacknowledged()
    }

    /// Sends packets of the bridge: one at a time, where each is acknowledged.
    #[allow(clippy::arithmetic_side_effects, reason = "counts tries")]
    fn send_unacknowledged(&mut self) -> Result<(), End> {
        let mut links = lock(&self.links);
        let closed = |_| End::Debugger;
        if self.conversation.acks {
            self.tries += 1;
            if self.tries > TRIES {
                self.unacknowledged.clear();
            }
            if let Some(frame) = self.unacknowledged.front() {
                links.send_to_debugger(frame).map_err(closed)?;
            }
            return Ok(());
        }
        while let Some(frame) = self.unacknowledged.pop_front() {
            links.send_to_debugger(&frame).map_err(closed)?;
            if !self.steady
                && !self.unacknowledged.is_empty()
                && links.receive_from_debugger().map_err(|_| End::Debugger)?
            {
                self.unacknowledged = cut(&self.unacknowledged);
            }
        }
        Ok(())
    }
}

/// What is still sent of an answer that the debugger has interrupted: a note of that, and the end.
fn cut(left: &VecDeque<Vec<u8>>) -> VecDeque<Vec<u8>> {
    match left.len() {
        0 => VecDeque::new(),
        // The last one is the end alone.
        1 => left.clone(),
        _ => line::answer(b"\ntx-trace: the rest is not shown: the debugger has interrupted it\n").into(),
    }
}

/// True while packets about threads are translated.
fn is_on(session: Option<&Session>) -> bool {
    session.is_some_and(Session::is_on)
}

/// A token that the stub has sent to the debugger.
fn note_reply(conversation: &mut Conversation, kind: &Kind) {
    if let Kind::Packet(body) = kind {
        conversation.reply(&body.data);
    }
}

fn stub_closed(error: TransportError) -> End {
    End::Stub(match error {
        TransportError::Closed(why) => why,
        TransportError::Io(why) => format!(": {why}"),
        TransportError::Timeout => ": it accepts no bytes".to_owned(),
    })
}
