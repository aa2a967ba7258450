//! The link to one client: frames and bounds packets, answers those that gdbstub does not support, and forwards the rest
//! to it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use gdbstub::conn::{Connection, ConnectionExt};

use super::action;
use super::wire::Wire;
use crate::abi::Endian;
use crate::bytes::hex;
use crate::debugger::{ThreadList, piece, threads_json, threads_xml};
use crate::mem::Region;
use crate::output::escape;
use crate::rsp::packet::{checksum, encode, to_hex};
use crate::rsp::thread_id::Which;

/// The largest packet from a client, and half of the largest reply to `m`.
pub(super) const PACKET: usize = 0x4000;
/// The most bytes between packets; a client that sends more does not speak this protocol.
const MAX_NOISE: usize = 4096;
/// How long a client may take for one packet, and for its first bytes.
const PACKET_TIMEOUT: Duration = Duration::from_secs(10);
/// Replies longer than this go out in pieces.
const BUFFER: usize = 1 << 16;

/// The most bytes of a packet that are shown where it ends the session.
const EXCERPT: usize = 64;

/// How a packet about threads is handled.
enum Handling {
    /// It is answered here.
    Answer(Vec<u8>),
    /// gdbstub gets this packet in its place.
    Forward(String),
    /// It is not about threads.
    Other,
}

/// One client.
pub(super) struct Link<'a> {
    wire: Box<dyn Wire + 'a>,
    threads: Rc<ThreadList>,
    regions: Rc<Option<Vec<Region>>>,
    /// What was added to the program's addresses when it was loaded.
    offset: u64,
    /// Bytes that were received and not parsed yet.
    received: VecDeque<u8>,
    /// A packet for gdbstub.
    inbox: VecDeque<u8>,
    /// What gdbstub writes.
    outbox: Vec<u8>,
    /// The packet that was sent last, for a client that received it damaged.
    last: Vec<u8>,
    /// Packets are acknowledged.
    acks: bool,
    /// A whole packet was received: this is a debugger.
    is_client: bool,
    /// It is LLDB, which resumes again and again where no thread has a signal.
    lldb: bool,
    /// The thread that `Hc` chose to run or step, for packets that name none.
    resumes: Option<usize>,
    /// The packet that was forwarded last, escaped.
    forwarded: Rc<RefCell<String>>,
}

impl<'a> Link<'a> {
    pub(super) fn new(
        wire: Box<dyn Wire + 'a>,
        threads: Rc<ThreadList>,
        regions: Rc<Option<Vec<Region>>>,
        offset: u64,
        forwarded: Rc<RefCell<String>>,
    ) -> Self {
        Self {
            wire,
            threads,
            regions,
            offset,
            received: VecDeque::new(),
            inbox: VecDeque::new(),
            outbox: Vec::new(),
            last: Vec::new(),
            acks: true,
            is_client: false,
            lldb: false,
            resumes: None,
            forwarded,
        }
    }

    /// The signal with which a thread stops: none for GDB, which would report it as a signal of the program.
    pub(super) const fn signal(&self) -> u8 {
        if self.lldb { 5 } else { 0 }
    }

    /// The next byte of the wire; `deadline`: when an unfinished packet has to be complete.
    fn byte(&mut self, deadline: Option<Instant>) -> io::Result<u8> {
        loop {
            if let Some(byte) = self.received.pop_front() {
                return Ok(byte);
            }
            let timeout = deadline.map(|d| d.saturating_duration_since(Instant::now()));
            if timeout.is_some_and(|t| t.is_zero()) {
                return Err(slow());
            }
            self.wire.set_timeout(timeout)?;
            let mut buf = [0; 4096];
            let len = match self.wire.read(&mut buf) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
                Ok(len) => len,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => return Err(slow()),
                Err(e) => return Err(e),
            };
            self.received.extend(buf.iter().take(len));
        }
    }

    /// Waits for one packet, and answers it or forwards it to gdbstub.
    fn receive(&mut self) -> io::Result<()> {
        self.find_start()?;
        let Some(body) = self.body()? else {
            // Without acknowledgements there is no `-`: the client gets no answer, and asks again.
            return if self.acks { self.wire.write_all(b"-") } else { Ok(()) };
        };
        self.is_client = true;
        self.lldb |= body == b"QThreadSuffixSupported";
        let answer = match self.about_threads(&body) {
            Handling::Answer(answer) => Some(answer),
            Handling::Forward(packet) => {
                self.forward(packet.as_bytes());
                return Ok(());
            }
            Handling::Other => self.answer(&body),
        };
        match answer {
            Some(reply) => {
                let ack = self.acks;
                self.reply(&reply, ack)
            }
            None => {
                self.forward(&body);
                Ok(())
            }
        }
    }

    /// Reads up to the `$` that begins a packet.
    fn find_start(&mut self) -> io::Result<()> {
        let first = if self.is_client { None } else { soon() };
        let mut room = MAX_NOISE;
        loop {
            match self.byte(first)? {
                b'$' => return Ok(()),
                b'-' if !self.last.is_empty() => {
                    room = room.saturating_sub(16);
                    let again = self.last.clone();
                    self.wire.write_all(&again)?;
                }
                // Nothing runs that could be interrupted.
                b'+' | 0x03 => {}
                _ => room = room.saturating_sub(1),
            }
            if room == 0 {
                return Err(invalid("it does not speak the remote serial protocol"));
            }
        }
    }

    /// The rest of a packet; `None` where its checksum is wrong.
    fn body(&mut self) -> io::Result<Option<Vec<u8>>> {
        let deadline = soon();
        let mut body = Vec::new();
        loop {
            match self.byte(deadline)? {
                b'#' => break,
                // The end of the packet before was lost.
                b'$' => body.clear(),
                byte if body.len() < PACKET => body.push(byte),
                _ => return Err(invalid("a packet longer than PacketSize")),
            }
        }
        let sum = [self.byte(deadline)?, self.byte(deadline)?];
        let sum = std::str::from_utf8(&sum).ok().and_then(|s| u8::from_str_radix(s, 16).ok());
        Ok((sum == Some(checksum(&body))).then_some(body))
    }

    fn reply(&mut self, body: &[u8], ack: bool) -> io::Result<()> {
        let packet = encode(body);
        if ack {
            self.wire.write_all(b"+")?;
        }
        self.wire.write_all(&packet)?;
        self.last = packet;
        Ok(())
    }

    fn forward(&mut self, body: &[u8]) {
        if body == b"QStartNoAckMode" {
            self.acks = false;
        }
        self.forwarded.replace(escape(&String::from_utf8_lossy(body.get(..EXCERPT).unwrap_or(body))));
        // Its escapes are those that came.
        self.inbox.extend([b"$", body, b"#", to_hex(&[checksum(body)]).as_slice()].concat());
    }

    /// Checks a packet about threads: gdbstub ends the session over some that are well formed.
    fn about_threads(&mut self, body: &[u8]) -> Handling {
        let Ok(text) = std::str::from_utf8(body) else { return Handling::Other };
        let unknown = || Handling::Answer(b"E01".to_vec());
        if let Some(actions) = text.strip_prefix("vCont;") {
            return action::resume(actions, &self.threads).map_or_else(unknown, Handling::Forward);
        }
        if text.starts_with(['c', 'C', 's', 'S']) {
            let vcont = action::resume_old(text, self.resumes, &self.threads);
            return vcont.map_or_else(unknown, Handling::Forward);
        }
        if let Some(id) = text.strip_prefix('T') {
            let Some(Which::One(id)) = Which::parse(id) else { return unknown() };
            return if self.threads.thread(id).is_some() { Handling::Answer(b"OK".to_vec()) } else { unknown() };
        }
        let Some(choice) = text.strip_prefix('H') else { return Handling::Other };
        let (operation, id) = choice.split_at_checked(1).unwrap_or_default();
        match (operation, Which::parse(id)) {
            ("g", Some(Which::One(id))) => {
                self.threads.select(id);
                Handling::Forward(format!("Hg{id:x}"))
            }
            // The one that `?` names, for GDB takes that to be chosen.
            ("g", Some(Which::Any)) => Handling::Forward(format!("Hg{:x}", self.threads.selected())),
            ("c", Some(which)) => {
                self.resumes = if let Which::One(id) = which { Some(id) } else { None };
                Handling::Answer(b"OK".to_vec())
            }
            // There is no thread for other operations.
            _ => unknown(),
        }
    }

    /// The answer to packets that gdbstub does not know, does not survive, or answers without bounds.
    fn answer(&self, body: &[u8]) -> Option<Vec<u8>> {
        let text = std::str::from_utf8(body).ok()?;
        let (command, rest) = text.split_once(':').unwrap_or((text, ""));
        Some(match command {
            "qSupported" => self.features().into_bytes(),
            "qXfer" if rest.starts_with("threads:read:") => {
                // Escapes may double it.
                piece(&threads_xml(&self.threads, ""), rest.strip_prefix("threads:read::")?, PACKET / 2)
            }
            "qOffsets" if self.offset != 0 => {
                let offset = format!("{:x}", self.offset);
                format!("Text={offset};Data={offset};Bss={offset}").into_bytes()
            }
            "jThreadsInfo" => threads_json(&self.threads).into_bytes(),
            "qHostInfo" => self.host().into_bytes(),
            "qProcessInfo" => format!("pid:1;{}", self.host()).into_bytes(),
            "qMemoryRegionInfo" => self.region(rest).into_bytes(),
            // GDB falls back to `k`, which ends the session and nothing else.
            _ if command.starts_with("vKill") => Vec::new(),
            _ => return self.with_argument(text),
        })
    }

    /// Packets whose argument follows the command without a separator.
    fn with_argument(&self, text: &str) -> Option<Vec<u8>> {
        let refused = || b"E1e".to_vec();
        if let Some(id) = text.strip_prefix("qThreadStopInfo") {
            let thread = usize::from_str_radix(id, 16).ok().and_then(|id| self.threads.thread(id));
            return Some(thread.map_or_else(
                || b"E01".to_vec(),
                |t| self.stop_reply(t.id, if t.id == self.threads.stopped() { 5 } else { 0 }).into_bytes(),
            ));
        }
        let argument = text.get(1..).unwrap_or_default();
        match text.as_bytes().first()? {
            b'?' if argument.is_empty() => Some(self.stop_reply(self.threads.selected(), 5).into_bytes()),
            b'p' => Some(self.register(argument)),
            // GDB asks for no more than PacketSize holds; other clients may ask for more.
            b'm' => {
                let (from, len) = argument.split_once(',')?;
                let (from, len) = (u64::from_str_radix(from, 16).ok()?, u64::from_str_radix(len, 16).ok()?);
                let sane = len == 0 || len <= PACKET as u64 && Region { start: from, len }.last().is_some();
                (!sane).then(|| b"E16".to_vec())
            }
            b'P' | b'G' | b'M' | b'X' => Some(refused()),
            _ => None,
        }
    }

    fn features(&self) -> String {
        let mut features =
            format!("PacketSize={PACKET:x};QStartNoAckMode+;vContSupported+;swbreak+;hwbreak+;qXfer:threads:read+");
        if self.threads.architecture().is_some() {
            features.push_str(";qXfer:features:read+");
        }
        if self.regions.is_some() {
            features.push_str(";qXfer:memory-map:read+");
        }
        features
    }

    /// The thread that stopped has a signal, the others have none.
    fn stop_reply(&self, id: usize, signal: u8) -> String {
        let name = self.threads.thread(id).map(|t| t.name.as_str()).filter(|name| !name.is_empty());
        let name = name.map(|name| format!("hexname:{};", hex(name.as_bytes()))).unwrap_or_default();
        format!("T{signal:02x}thread:{id:x};{name}")
    }

    fn register(&self, argument: &str) -> Vec<u8> {
        let number = argument.split(';').next().and_then(|n| u16::from_str_radix(n, 16).ok());
        // Only LLDB asks for one register, and takes `xx` for the value cc: it gets an error for a register that is not known.
        let known = number.and_then(|number| self.threads.register(number));
        known.map_or_else(|| b"E01".to_vec(), |bytes| to_hex(&bytes))
    }

    fn host(&self) -> String {
        let Some(architecture) = self.threads.architecture() else { return String::new() };
        let triple = hex(architecture.triple().as_bytes());
        let endian = match self.threads.endian() {
            Endian::Little => "little",
            Endian::Big => "big",
        };
        format!("triple:{triple};endian:{endian};ptrsize:{};", architecture.width().bytes())
    }

    /// LLDB asks where a stack or code may be read.
    fn region(&self, argument: &str) -> String {
        let (Some(regions), Ok(at)) = (self.regions.as_ref(), u64::from_str_radix(argument, 16)) else {
            return String::new();
        };
        if let Some(region) = regions.iter().find(|r| r.contains(at)) {
            return format!("start:{:x};size:{:x};permissions:rx;", region.start, region.len);
        }
        let next = regions.iter().map(|r| r.start).filter(|start| *start > at).min();
        let size = next.unwrap_or(u64::MAX).abs_diff(at);
        format!("start:{at:x};size:{size:x};")
    }
}

/// The end of the time that a client may take for one packet.
fn soon() -> Option<Instant> {
    Instant::now().checked_add(PACKET_TIMEOUT)
}

fn slow() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "it sent half a packet or none, and then nothing")
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

impl Connection for Link<'_> {
    type Error = io::Error;

    fn write(&mut self, byte: u8) -> io::Result<()> {
        self.outbox.push(byte);
        if self.outbox.len() >= BUFFER { self.flush() } else { Ok(()) }
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.outbox.extend(bytes);
        if self.outbox.len() >= BUFFER { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        let packet = std::mem::take(&mut self.outbox);
        self.wire.write_all(&packet)?;
        self.last = packet.strip_prefix(b"+").unwrap_or(&packet).to_vec();
        Ok(())
    }
}

impl ConnectionExt for Link<'_> {
    fn read(&mut self) -> io::Result<u8> {
        loop {
            if let Some(byte) = self.inbox.pop_front() {
                return Ok(byte);
            }
            self.receive()?;
        }
    }

    fn peek(&mut self) -> io::Result<Option<u8>> {
        Ok(self.inbox.front().copied())
    }
}
