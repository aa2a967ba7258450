//! A stub in a thread, whose behaviours are switches. It frames packets by itself and knows nothing of the crate.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub const RAM: u64 = 0x2000_0000;
pub const RAM_LEN: u64 = 0x1_0000;

/// What the target holds at `addr`: runs of equal bytes (for run lengths) between changing ones.
pub fn byte_at(addr: u64) -> u8 {
    if addr & 0x40 == 0 { (addr >> 7) as u8 } else { (addr.wrapping_mul(167) >> 3) as u8 }
}

pub fn bytes_at(addr: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|i| byte_at(addr + i)).collect()
}

#[derive(Clone)]
pub struct Stub {
    pub supported: &'static str,
    pub no_ack: bool,
    /// Never sends `+`.
    pub mute_acks: bool,
    pub run_lengths: bool,
    pub binary: bool,
    /// Sent before anything was asked.
    pub unasked: &'static str,
    pub stop: &'static str,
    /// E01 to `m` before `?`.
    pub question_first: bool,
    /// E22 above.
    pub e22_above: usize,
    /// Dies above, as gdbserver does.
    pub dies_above: usize,
    /// Answers with at most this much.
    pub partial: usize,
    /// Does nothing before it has read one byte.
    pub waits_for_byte: bool,
    pub zeros_for_holes: bool,
    /// Knows neither `m` nor `x`.
    pub no_memory: bool,
    pub silent: bool,
    /// Closes in place of the n-th answer.
    pub closes_at: usize,
    /// Half an answer first.
    pub closes_midway: bool,
    /// Console output for ever from the n-th answer on.
    pub chatters_at: usize,
    /// A packet without end in place of the n-th answer.
    pub endless_at: usize,
    /// These answers (counted from 1) go out damaged, once each.
    pub damages: &'static [usize],
    pub damages_always: bool,
    /// The `#` of these answers is lost.
    pub cuts: &'static [usize],
    pub notifications: bool,
    pub console: bool,
    pub doubles: bool,
    /// A stop reply after every answer.
    pub stray_stops: bool,
    /// The n-th answer comes late by so much.
    pub late: Option<(usize, Duration)>,
    /// The n-th answer never comes.
    pub swallows: usize,
    /// The n-th answer is this.
    pub lies: Option<(usize, &'static str)>,
    /// Answers `-` to the n-th request, once.
    pub naks: usize,
    /// The target runs until 0x03.
    pub runs: bool,
    pub detach: &'static str,
    /// Answers to monitor commands; unknown ones are answered empty.
    pub monitor: &'static [(&'static str, &'static str)],
    pub qemu: bool,
    /// Accepted, then served only after the first client has gone.
    pub auxv: Option<Vec<u8>>,
    /// The answer to `g`.
    pub registers: &'static str,
}

impl Default for Stub {
    fn default() -> Self {
        Self {
            supported: "PacketSize=1000;vContSupported+",
            no_ack: false,
            mute_acks: false,
            run_lengths: false,
            binary: false,
            unasked: "",
            stop: "T05thread:01;",
            question_first: false,
            e22_above: usize::MAX,
            dies_above: usize::MAX,
            partial: usize::MAX,
            waits_for_byte: false,
            zeros_for_holes: false,
            no_memory: false,
            silent: false,
            closes_at: 0,
            closes_midway: false,
            chatters_at: 0,
            endless_at: 0,
            damages: &[],
            damages_always: false,
            cuts: &[],
            notifications: false,
            console: false,
            doubles: false,
            stray_stops: false,
            late: None,
            swallows: 0,
            lies: None,
            naks: 0,
            runs: false,
            detach: "OK",
            monitor: &[],
            qemu: false,
            auxv: None,
            registers: "",
        }
    }
}

/// QEMU 7.2, system.
pub fn qemu(was_running: bool) -> Stub {
    Stub {
        supported: "PacketSize=1000;qXfer:features:read+;vContSupported+;multiprocess+",
        e22_above: 0x800,
        unasked: if was_running { "T02thread:01;" } else { "" },
        monitor: &[("info status", "VM status: paused\r\n"), ("info version", "7.2.22Debian\r\n")],
        qemu: true,
        ..Stub::default()
    }
}

/// gdbserver 13.
pub fn gdbserver() -> Stub {
    Stub {
        supported: "PacketSize=47ff;QPassSignals+;QProgramSignals+;qXfer:auxv:read+;QStartNoAckMode+;multiprocess+;\
                    qXfer:exec-file:read+;vContSupported+",
        no_ack: true,
        run_lengths: true,
        question_first: true,
        dies_above: 0x23ff,
        stop: "T0506:0*,;07:60e6;thread:p1.1;core:0;",
        auxv: Some((0..320_u32).map(|i| i as u8).collect()),
        ..Stub::default()
    }
}

/// OpenOCD 0.12.
pub fn openocd(stop: &'static str) -> Stub {
    Stub {
        supported: "PacketSize=4000;qXfer:memory-map:read-;qXfer:features:read+;qXfer:threads:read+;QStartNoAckMode+;\
                    vContSupported+",
        no_ack: true,
        waits_for_byte: true,
        zeros_for_holes: true,
        stop,
        monitor: &[
            ("version", "Open On-Chip Debugger 0.12.0\n"),
            ("resume", ""),
            ("[target current] curstate", "halted\n"),
        ],
        ..Stub::default()
    }
}

/// A server built on gdbstub, with `x`.
pub fn gdbstub() -> Stub {
    Stub {
        supported: "PacketSize=1000;vContSupported+;multiprocess+;QStartNoAckMode+;binary-upload+",
        no_ack: true,
        run_lengths: true,
        binary: true,
        ..Stub::default()
    }
}

#[derive(Default)]
pub struct Log {
    /// Every request, in order.
    pub requests: Vec<String>,
    pub naks: usize,
    pub interrupts: usize,
    /// The longest series of requests that were read before the first of them was answered.
    pub together: usize,
    pub died: bool,
    pub closed: bool,
    pub first_byte: Option<u8>,
}

#[derive(Clone)]
pub struct Handle {
    pub port: u16,
    pub log: Arc<Mutex<Log>>,
}

impl Handle {
    pub fn requests(&self) -> Vec<String> {
        self.log.lock().unwrap().requests.clone()
    }

    pub fn reads(&self) -> Vec<String> {
        self.requests().into_iter().filter(|r| r.starts_with(['m', 'x'])).collect()
    }

    /// Waits until the client has closed its end.
    pub fn closed(&self) -> bool {
        for _ in 0..500 {
            if self.log.lock().unwrap().closed {
                return true;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }
}

impl Stub {
    /// Listens on a free port and serves one client.
    pub fn start(self) -> Handle {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let handle = Handle { port: listener.local_addr().unwrap().port(), log: Arc::default() };
        let log = Arc::clone(&handle.log);
        std::thread::spawn(move || {
            if let Ok((stream, _)) = listener.accept() {
                stream.set_nodelay(true).unwrap();
                let mut session =
                    Session { stub: self, stream, log, acks: true, asked: false, answers: 0, last: vec![] };
                let _ = session.serve();
                session.log.lock().unwrap().closed = true;
            }
        });
        handle
    }
}

struct Session {
    stub: Stub,
    stream: TcpStream,
    log: Arc<Mutex<Log>>,
    acks: bool,
    asked: bool,
    answers: usize,
    last: Vec<u8>,
}

type Done = std::io::Result<()>;

fn gone() -> std::io::Error {
    std::io::Error::from(std::io::ErrorKind::ConnectionAborted)
}

impl Session {
    fn serve(&mut self) -> Done {
        if !self.stub.unasked.is_empty() {
            self.frame(self.stub.unasked.as_bytes())?;
        }
        let mut input = Vec::new();
        let mut buf = [0; 4096];
        loop {
            let n = self.stream.read(&mut buf)?;
            if n == 0 {
                return Ok(());
            }
            self.log.lock().unwrap().first_byte.get_or_insert(buf[0]);
            if self.stub.silent {
                continue;
            }
            input.extend_from_slice(&buf[..n]);
            let mut batch = Vec::new();
            loop {
                match input.first() {
                    Some(b'-') => {
                        self.log.lock().unwrap().naks += 1;
                        let last = self.last.clone();
                        if self.stub.damages_always {
                            self.stream.write_all(&spoil(&last))?
                        } else {
                            self.stream.write_all(&last)?
                        }
                        input.remove(0);
                    }
                    Some(3) => {
                        self.log.lock().unwrap().interrupts += 1;
                        self.stub.runs = false;
                        self.frame(b"T02thread:01;")?;
                        input.remove(0);
                    }
                    Some(b'$') => {
                        let Some(end) = input.iter().position(|&b| b == b'#') else { break };
                        if input.len() < end + 3 {
                            break;
                        }
                        let body = input[1..end].to_vec();
                        let sum = body.iter().fold(0_u8, |s, b| s.wrapping_add(*b));
                        assert_eq!(format!("{sum:02x}").as_bytes(), &input[end + 1..end + 3], "the client's checksum");
                        input.drain(..end + 3);
                        batch.push(String::from_utf8(body).unwrap());
                    }
                    Some(_) => {
                        input.remove(0);
                    }
                    None => break,
                }
            }
            {
                let mut log = self.log.lock().unwrap();
                log.together = log.together.max(batch.len());
            }
            for request in batch {
                self.log.lock().unwrap().requests.push(request.clone());
                if self.log.lock().unwrap().requests.len() == self.stub.naks {
                    self.stub.naks = 0;
                    self.stream.write_all(b"-")?;
                    continue;
                }
                if self.acks && !self.stub.mute_acks {
                    self.stream.write_all(b"+")?;
                }
                if self.stub.runs && !request.starts_with('q') && !request.starts_with('Q') {
                    continue;
                }
                let answer = self.answer(&request)?;
                self.send(&answer)?;
                if request == "QStartNoAckMode" && answer == b"OK" {
                    self.acks = false;
                }
            }
        }
    }

    fn answer(&mut self, request: &str) -> std::io::Result<Vec<u8>> {
        let text = |s: &str| Ok(s.as_bytes().to_vec());
        if request.starts_with("qSupported") {
            return text(self.stub.supported);
        }
        if let Some(command) = request.strip_prefix("qRcmd,") {
            let command = String::from_utf8(unhex(command)).unwrap();
            if self.stub.zeros_for_holes && command.contains("mdw ") {
                return self.dump_words(&command);
            }
            let Some((_, out)) = self.stub.monitor.iter().find(|(name, _)| *name == command) else { return text("") };
            if !out.is_empty() {
                self.frame(format!("O{}", hex(out.as_bytes())).as_bytes())?;
            }
            return text("OK");
        }
        if let Some(range) = request.strip_prefix("qXfer:auxv:read::") {
            let Some(auxv) = &self.stub.auxv else { return text("") };
            let (offset, len) = numbers(range);
            let start = auxv.len().min(offset as usize);
            // Never everything at once, so that the client has to go on.
            let end = auxv.len().min(start + len.min(100));
            let mark = if end == auxv.len() { b'l' } else { b'm' };
            return Ok([&[mark][..], &escape(&auxv[start..end])].concat());
        }
        match request.as_bytes() {
            b"?" => {
                self.asked = true;
                text(self.stub.stop)
            }
            b"QStartNoAckMode" if self.stub.no_ack => text("OK"),
            b"qqemu.sstepbits" if self.stub.qemu => text("ENABLE=1,NOIRQ=2,NOTIMER=4"),
            b"D" => text(self.stub.detach),
            b"g" => text(self.stub.registers),
            [b'm' | b'x', ..] if self.stub.no_memory => text(""),
            [b'm', ..] => {
                let (addr, len) = numbers(&request[1..]);
                Ok(self.memory(addr, len)?.map_or_else(|e| e.as_bytes().to_vec(), |b| hex(&b).into_bytes()))
            }
            [b'x', ..] if self.stub.binary => {
                let (addr, len) = numbers(&request[1..]);
                Ok(self
                    .memory(addr, len)?
                    .map_or_else(|e| e.as_bytes().to_vec(), |b| [&b"b"[..], &escape(&b)].concat()))
            }
            _ => text(""),
        }
    }

    /// OpenOCD's `mdw`, once or several times: words, or an error where there is no memory.
    fn dump_words(&mut self, command: &str) -> std::io::Result<Vec<u8>> {
        let mut text = String::new();
        for asked in command.split("mdw ").skip(1) {
            let mut words = asked.split([' ', ']']);
            let addr = u64::from_str_radix(words.next().unwrap().strip_prefix("0x").unwrap(), 16).unwrap();
            let len = 4 * words.next().unwrap().parse::<usize>().unwrap();
            if addr < RAM || addr + len as u64 > RAM + RAM_LEN {
                let said = format!("Failed to read memory at {addr:#x}\n");
                self.frame(format!("O{}", hex(said.as_bytes())).as_bytes())?;
                return Ok(b"E95".to_vec());
            }
            for (i, line) in bytes_at(addr, len).chunks(32).enumerate() {
                text += &format!("{:#010x}: ", addr + 32 * i as u64);
                let words = line.chunks(4).map(|w| u32::from_le_bytes(w.try_into().unwrap()));
                text += &words.map(|w| format!("{w:08x} ")).collect::<String>();
                text.push('\n');
            }
        }
        Ok(hex(text.as_bytes()).into_bytes())
    }

    fn memory(&mut self, addr: u64, len: usize) -> std::io::Result<Result<Vec<u8>, &'static str>> {
        if len > self.stub.dies_above {
            self.log.lock().unwrap().died = true;
            return Err(gone());
        }
        if self.stub.question_first && !self.asked {
            return Ok(Err("E01"));
        }
        if len > self.stub.e22_above {
            return Ok(Err("E22"));
        }
        let inside = addr >= RAM && addr + len as u64 <= RAM + RAM_LEN;
        Ok(match (inside, self.stub.zeros_for_holes) {
            (true, _) => Ok(bytes_at(addr, len.min(self.stub.partial))),
            (false, true) => Ok(vec![0; len]),
            (false, false) => Err("E14"),
        })
    }

    fn frame(&mut self, body: &[u8]) -> Done {
        let frame = framed(body);
        self.stream.write_all(&frame)
    }

    fn send(&mut self, body: &[u8]) -> Done {
        self.answers += 1;
        let n = self.answers;
        if self.stub.notifications {
            let frame = framed(b"Stop:T05thread:01;");
            self.stream.write_all(b"%")?;
            self.stream.write_all(&frame[1..])?;
        }
        if self.stub.console {
            self.frame(b"O48656c6c6f0a")?;
        }
        if n == self.stub.closes_at {
            if self.stub.closes_midway {
                self.stream.write_all(b"$0011")?;
            }
            return Err(gone());
        }
        if self.stub.chatters_at > 0 && n >= self.stub.chatters_at {
            loop {
                self.frame(b"O626c6162")?;
            }
        }
        if n == self.stub.endless_at {
            self.stream.write_all(b"$")?;
            loop {
                self.stream.write_all(&[b'0'; 4096])?;
            }
        }
        if n == self.stub.swallows {
            return Ok(());
        }
        if let Some((_, delay)) = self.stub.late.filter(|(at, _)| *at == n) {
            std::thread::sleep(delay);
        }
        let body = match self.stub.lies {
            Some((at, lie)) if at == n => lie.as_bytes().to_vec(),
            _ if self.stub.run_lengths && !body.starts_with(b"b") => runs(body),
            _ => body.to_vec(),
        };
        let frame = framed(&body);
        self.last.clone_from(&frame);
        let sent = if self.stub.damages_always || self.stub.damages.contains(&n) {
            spoil(&frame)
        } else if self.stub.cuts.contains(&n) {
            frame[..frame.len() - 3].to_vec()
        } else {
            frame
        };
        self.stream.write_all(&sent)?;
        if self.stub.doubles {
            self.stream.write_all(&sent)?;
        }
        if self.stub.stray_stops {
            self.frame(b"T05thread:01;")?;
        }
        Ok(())
    }
}

/// Changes one byte of the body.
fn spoil(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    frame[1] ^= 1;
    frame
}

fn framed(body: &[u8]) -> Vec<u8> {
    let sum = body.iter().fold(0_u8, |s, b| s.wrapping_add(*b));
    [b"$", body, format!("#{sum:02x}").as_bytes()].concat()
}

fn runs(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut i = 0;
    while i < body.len() {
        let same = body[i..].iter().take_while(|b| **b == body[i]).count().min(98);
        // A count of 6 or 7 would read `#` or `$`, 14 and 16 `+` and `-`.
        let same = if matches!(same - 1, 6 | 7 | 14 | 16) { 4 } else { same };
        out.push(body[i]);
        if same > 3 {
            out.extend([b'*', (same - 1 + 29) as u8]);
            i += same;
        } else {
            i += 1;
        }
    }
    out
}

fn escape(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().flat_map(|b| if b"#$}*".contains(b) { vec![b'}', b ^ 0x20] } else { vec![*b] }).collect()
}

fn numbers(text: &str) -> (u64, usize) {
    let (a, b) = text.split_once(',').unwrap();
    (u64::from_str_radix(a, 16).unwrap(), usize::from_str_radix(b, 16).unwrap())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap()).collect()
}
