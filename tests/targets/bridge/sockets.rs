//! A debugger and a stub that the test plays itself.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tx_trace::bridge::{Bridge, BridgeError, End, Stub, between};
use tx_trace::code::Code;
use tx_trace::mem::Memory as _;
use tx_trace::mem::remote::Remote;
use tx_trace::rsp::{Endpoint, transport};

/// The longest that anything may take on a busy machine.
const TIME_LIMIT: Duration = Duration::from_secs(30);

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let here = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    here.set_nodelay(true).unwrap();
    here.set_read_timeout(Some(TIME_LIMIT)).unwrap();
    (here, listener.accept().unwrap().0)
}

/// One end of the bridge.
struct Side(TcpStream);

impl Side {
    fn say(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.write_all(bytes.as_ref()).unwrap();
    }

    /// The next bytes are these.
    #[track_caller]
    fn hears(&mut self, bytes: impl AsRef<[u8]>) {
        let mut got = vec![0; bytes.as_ref().len()];
        self.0.read_exact(&mut got).unwrap();
        assert_eq!(got.escape_ascii().to_string(), bytes.as_ref().escape_ascii().to_string());
    }

    /// Nothing has come.
    #[track_caller]
    fn hears_nothing(&mut self) {
        self.0.set_nonblocking(true).unwrap();
        let mut got = [0; 256];
        match self.0.read(&mut got) {
            Err(e) if e.kind() == ErrorKind::WouldBlock => {}
            other => panic!("{other:?}: {}", got.escape_ascii()),
        }
        self.0.set_nonblocking(false).unwrap();
    }
}

struct Rig {
    debugger: Side,
    stub: Side,
    relay: JoinHandle<End>,
}

impl Rig {
    fn new(timeout: Duration, mut answer: impl FnMut(&str, &mut Remote, &mut dyn Write) + Send + 'static) -> Self {
        let (debugger, one) = pair();
        let (stub, other) = pair();
        let relay = thread::spawn(move || {
            let about = Stub { endpoint: Endpoint::parse(":9").unwrap(), timeout, interrupt: None };
            let (one, other) = (transport::accepted(one).unwrap(), transport::accepted(other).unwrap());
            between(one, other, &about, None, &mut answer, &mut |_| {})
        });
        Self { debugger: Side(debugger), stub: Side(stub), relay }
    }

    /// A bridge that answers by the word at the address that the line names.
    fn peeking(timeout: Duration) -> Self {
        Self::new(timeout, |line, memory, out| {
            let at = u64::from_str_radix(line.trim(), 16).unwrap();
            match memory.read_bytes(at, 4) {
                Ok(bytes) => writeln!(out, "{bytes:02x?}", bytes = &*bytes).unwrap(),
                Err(e) => writeln!(out, "{e}").unwrap(),
            }
        })
    }

    /// Debugger and stub agree on doing without acknowledgements.
    fn without_acks(mut self) -> Self {
        self.passes(&frame("QStartNoAckMode"), "+");
        self.answers(frame("OK"), "+");
        self
    }

    /// The debugger says this, the stub hears it and acknowledges.
    fn passes(&mut self, bytes: &[u8], ack: &str) {
        self.debugger.say(bytes);
        self.stub.hears(bytes);
        self.answers(ack.into(), "");
    }

    fn answers(&mut self, bytes: Vec<u8>, ack: &str) {
        self.stub.say(&bytes);
        self.debugger.hears(&bytes);
        self.debugger.say(ack);
        self.stub.hears(ack);
    }

    fn end(self) -> End {
        drop(self.debugger);
        self.relay.join().unwrap()
    }
}

/// What the client asks behind reads that are on their way together: their answers cannot have shifted if its own comes.
const FENCE: &str = "vMustReplyEmpty";

fn frame(body: &str) -> Vec<u8> {
    let sum = body.bytes().fold(0_u8, |sum, b| sum.wrapping_add(b));
    format!("${body}#{sum:02x}").into_bytes()
}

fn hex(text: &str) -> String {
    text.bytes().map(|b| format!("{b:02x}")).collect()
}

fn line(text: &str) -> Vec<u8> {
    frame(&format!("qRcmd,{}", hex(text)))
}

fn console(text: &str) -> Vec<u8> {
    frame(&format!("O{}", hex(text)))
}

/// Numbers that look random and are the same each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// Whatever a side may say, sense and nonsense.
fn speech(dice: &mut Dice) -> Vec<u8> {
    let mut all = Vec::new();
    for _ in 0..200 {
        let random = |dice: &mut Dice| (0..dice.roll(40)).map(|_| dice.roll(256) as u8).collect::<Vec<u8>>();
        match dice.roll(12) {
            0 => all.extend(b"+"),
            1 => all.extend(b"-"),
            2 => all.push(3),
            3 => all.extend(frame("m20000000,40")),
            4 => all.extend(b"%Stop:T05thread:p1.1;#00"),
            5 => all.extend(b"$0*\"00#7a"),
            6 => all.extend(line("help tx-trace")),
            // Ours, if its checksum agreed.
            7 => all.extend(line("tx-trace last")[..].iter().map(|b| if *b == b'#' { b'!' } else { *b })),
            8 => all.extend(b"$X0,3:}\x03}\x04}]#12"),
            9 => all.extend(b"$qRcm$qR"),
            10 => all.extend(random(dice)),
            _ => all.extend(frame("O48656c6c6f")),
        }
    }
    all.extend(b"$half a pack");
    all
}

#[test]
fn every_byte_goes_through_as_it_came() {
    for seed in 0..20 {
        let mut dice = Dice(seed);
        let mut rig = Rig::new(TIME_LIMIT, |line, _, _| panic!("nothing was for us: {line}"));
        let (to_stub, to_debugger) = (speech(&mut dice), speech(&mut dice));
        let talk = |mut to: TcpStream, bytes: Vec<u8>, mut dice: Dice| {
            thread::spawn(move || {
                let mut rest = &bytes[..];
                while !rest.is_empty() {
                    let (now, later) = rest.split_at((1 + dice.roll(60) as usize).min(rest.len()));
                    to.write_all(now).unwrap();
                    rest = later;
                }
            })
        };
        let one = talk(rig.debugger.0.try_clone().unwrap(), to_stub.clone(), Dice(seed + 100));
        let two = talk(rig.stub.0.try_clone().unwrap(), to_debugger.clone(), Dice(seed + 200));
        rig.stub.hears(&to_stub);
        rig.debugger.hears(&to_debugger);
        one.join().unwrap();
        two.join().unwrap();
        assert_eq!(rig.end(), End::Debugger);
    }
}

/// 5 MiB is more than the bridge keeps to understand a packet.
#[test]
fn a_packet_without_end_goes_through() {
    let mut rig = Rig::new(TIME_LIMIT, |_, _, _| {});
    let mut long = b"$qRcmd,74782d7472616365".to_vec();
    long.resize(5 << 20, b'2');
    let mut to = rig.debugger.0.try_clone().unwrap();
    let said = long.clone();
    let talk = thread::spawn(move || to.write_all(&said).unwrap());
    rig.stub.hears(&long);
    talk.join().unwrap();
    rig.answers(frame("OK"), "+");
    let mut to = rig.stub.0.try_clone().unwrap();
    let said = long.clone();
    let talk = thread::spawn(move || to.write_all(&said).unwrap());
    rig.debugger.hears(&long);
    talk.join().unwrap();
}

/// With acknowledgements: ours are ours, theirs are theirs.
#[test]
fn a_line_is_answered_with_acks() {
    let mut rig = Rig::peeking(TIME_LIMIT);
    rig.passes(&frame("qSupported:multiprocess+"), "+");
    rig.answers(frame("PacketSize=400"), "+");
    for word in ["0*\"00", "12*!21"] {
        rig.debugger.say(line("tx-trace 20000000"));
        rig.debugger.hears("+");
        rig.stub.hears(frame("m20000000,4"));
        rig.stub.say("+");
        rig.stub.say(frame(word));
        rig.stub.hears("+");
        let shown = if word.starts_with('0') { "[00, 00, 00, 00]\n" } else { "[12, 22, 22, 21]\n" };
        rig.debugger.hears(console(shown));
        rig.debugger.hears_nothing();
        rig.debugger.say("-");
        rig.debugger.hears(console(shown));
        rig.debugger.say("+");
        rig.debugger.hears(frame("OK"));
        rig.debugger.say("+");
        rig.passes(&frame("m0,4"), "+");
        rig.answers(frame("01020304"), "+");
    }
    rig.passes(&line("info status"), "+");
    rig.answers(console("paused"), "+");
    rig.answers(frame("OK"), "+");
    assert_eq!(rig.end(), End::Debugger);
}

#[test]
fn a_line_is_answered_without_acks() {
    let mut rig = Rig::peeking(TIME_LIMIT).without_acks();
    rig.debugger.say(line("tx-trace 20000000"));
    rig.stub.hears([frame("m20000000,4"), frame(FENCE)].concat());
    // A notification is the debugger's, and comes to it at once.
    rig.stub.say("%Stop:T05#00");
    rig.debugger.hears("%Stop:T05#00");
    rig.stub.say([frame("E14"), frame("")].concat());
    let refused = "no memory at 0x20000000 (4 bytes)\n";
    rig.debugger.hears([console(refused), frame("OK")].concat());
    // Another in the same breath as what comes before it.
    rig.debugger.say([frame("m0,4"), line("tx-trace 8"), frame("m4,4")].concat());
    rig.stub.hears(frame("m0,4"));
    rig.stub.hears_nothing();
    rig.answers(frame("00000000"), "");
    rig.stub.hears([frame("m8,4"), frame(FENCE)].concat());
    rig.stub.say([frame("01020304"), frame("")].concat());
    rig.debugger.hears([console("[01, 02, 03, 04]\n"), frame("OK")].concat());
    rig.stub.hears(frame("m4,4"));
}

#[test]
fn a_damaged_line_is_the_stubs_to_refuse() {
    let mut rig = Rig::peeking(TIME_LIMIT);
    let mut damaged = line("tx-trace 0");
    let end = damaged.len() - 1;
    damaged[end] ^= 1;
    rig.debugger.say(&damaged);
    rig.stub.hears(&damaged);
    rig.answers(b"-".to_vec(), "");
    rig.debugger.say(line("tx-trace 0"));
    rig.debugger.hears("+");
    rig.stub.hears(frame("m0,4"));
}

#[test]
fn nothing_is_asked_of_a_running_target() {
    let mut rig = Rig::peeking(TIME_LIMIT).without_acks();
    rig.passes(&frame("vCont;c"), "");
    rig.debugger.say(line("tx-trace 0"));
    let runs = "error: the target is running: interrupt it first\n";
    rig.debugger.hears([console(runs), frame("OK")].concat());
    rig.debugger.say([3]);
    rig.stub.hears([3]);
    rig.answers(frame("T02thread:01;"), "");
    rig.debugger.say(line("tx-trace 0"));
    rig.stub.hears(frame("m0,4"));
}

/// A stub that is slower than our patience: its answer is not taken for one to the debugger.
#[test]
fn a_late_answer_is_nobodys() {
    let mut rig = Rig::peeking(Duration::from_millis(300)).without_acks();
    rig.debugger.say(line("tx-trace 0"));
    rig.stub.hears(frame("m0,4"));
    let mut text = Vec::new();
    while !text.ends_with(b"$OK#9a") {
        let mut byte = [0];
        rig.debugger.0.read_exact(&mut byte).unwrap();
        text.extend(byte);
    }
    assert!(String::from_utf8_lossy(&text).contains(&hex("no answer to `m0,4`")));
    rig.debugger.say(frame("m4,4"));
    let own = frame("m4,4");
    let mut asked = Vec::new();
    while !asked.ends_with(&own) {
        let mut byte = [0];
        rig.stub.0.read_exact(&mut byte).unwrap();
        asked.extend(byte);
    }
    // The read, and all by which the client tried to get back into step, are answered late.
    let fences = asked.iter().filter(|b| **b == b'$').count() - 1;
    assert_eq!(asked, [frame(FENCE).repeat(fences), own].concat());
    rig.stub.say([frame("11111111"), frame("").repeat(fences), frame("22222222")].concat());
    rig.debugger.hears(frame("22222222"));
    rig.passes(&frame("m8,4"), "");
    rig.answers(frame("33333333"), "");
}

#[test]
fn the_debugger_interrupts_a_line() {
    let mut rig = Rig::peeking(Duration::from_secs(3600)).without_acks();
    rig.debugger.say(line("tx-trace 0"));
    rig.stub.hears([frame("m0,4"), frame(FENCE)].concat());
    rig.debugger.say([3]);
    let mut text = Vec::new();
    while !text.ends_with(b"$OK#9a") {
        let mut byte = [0];
        rig.debugger.0.read_exact(&mut byte).unwrap();
        text.extend(byte);
    }
    assert!(String::from_utf8_lossy(&text).contains(&hex("the debugger has interrupted it")));
    rig.stub.hears_nothing();
}

/// A line that prints `line 0`, `line 1` and so on.
fn talkative(lines: usize) -> Rig {
    Rig::new(TIME_LIMIT, move |_, _, out| (0..lines).for_each(|n| writeln!(out, "line {n}").unwrap()))
}

/// More than the links hold.
const LINES: usize = 700_000;
const CUT: &str = "\ntx-trace: the rest is not shown: the debugger has interrupted it\n";

/// Once its first packet was out, all of a line was sent, whatever the debugger said.
#[test]
fn a_line_that_printed_was_not_cut_by_an_interrupt() {
    let mut rig = talkative(1000);
    rig.debugger.say(line("tx-trace list"));
    rig.debugger.hears("+$O");
    let mut byte = [0];
    while byte != *b"#" {
        rig.debugger.0.read_exact(&mut byte).unwrap();
    }
    rig.debugger.0.read_exact(&mut [0; 2]).unwrap();
    rig.debugger.say([3]);
    rig.debugger.say("+");
    rig.debugger.hears(console(CUT));
    rig.debugger.say("+");
    rig.debugger.hears(frame("OK"));
    rig.debugger.say("+");
    // The stub has heard nothing of it.
    rig.passes(&frame("m0,4"), "+");
    assert_eq!(rig.end(), End::Debugger);
    // Without acknowledgements as much is on its way as the links hold.
    let mut rig = talkative(LINES).without_acks();
    rig.debugger.say(line("tx-trace list"));
    rig.debugger.hears("$O");
    rig.debugger.say([3]);
    // A packet behind it, in which 0x03 is a byte as any other.
    rig.debugger.say(b"$X0,1:\x03#e8");
    let (mut text, mut part) = (Vec::new(), vec![0; 1 << 20]);
    while !text.ends_with(b"$OK#9a") {
        let count = rig.debugger.0.read(&mut part).unwrap();
        text.extend(&part[..count]);
    }
    assert!(text.ends_with(&[console(CUT), frame("OK")].concat()));
    assert!(!String::from_utf8(text).unwrap().contains(&hex(&format!("line {}\n", LINES - 1))));
    rig.stub.hears(b"$X0,1:\x03#e8");
}

#[test]
fn each_end_is_reported() {
    let mut rig = Rig::peeking(TIME_LIMIT);
    rig.answers(b"+".to_vec(), "");
    rig.stub.0.shutdown(Shutdown::Both).unwrap();
    assert_eq!(rig.relay.join().unwrap(), End::Stub(String::new()));
    // The stub goes in the middle of our reading.
    let mut rig = Rig::peeking(TIME_LIMIT).without_acks();
    rig.debugger.say(line("tx-trace 0"));
    rig.stub.hears(frame("m0,4"));
    rig.stub.0.shutdown(Shutdown::Both).unwrap();
    assert!(matches!(rig.relay.join().unwrap(), End::Stub(_)));
    // The debugger goes in the middle of a packet: the stub has heard as much without us.
    let mut rig = Rig::peeking(TIME_LIMIT);
    rig.debugger.say("$qRcmd,7478");
    drop(rig.debugger);
    assert_eq!(rig.relay.join().unwrap(), End::Debugger);
    rig.stub.hears("$qRcmd,7478");
}

#[test]
fn a_debugger_is_let_go_where_there_is_no_stub() {
    let bridge = Bridge::bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let endpoint = Endpoint::parse(&free.to_string()).unwrap();
    let stub = Stub { endpoint, timeout: Duration::from_secs(2), interrupt: None };
    let mut debugger = TcpStream::connect(bridge.address().unwrap()).unwrap();
    let ended =
        bridge.serve_one(&stub, None, &mut |_, _, _| {}, &mut |who| assert!(who.ip().is_loopback()), &mut |_| {});
    assert!(matches!(ended, Err(BridgeError::Stub(e)) if e.code() == Code::ConnectRefused));
    assert_eq!(debugger.read(&mut [0]).unwrap_or(0), 0);
}

/// The bridge said "closed the connection", and of a stub that says nothing no word while the debugger waited.
#[test]
fn a_stub_that_closes_or_is_mute_had_no_advice() {
    let rig = Rig::new(TIME_LIMIT, |_, _, _| {});
    rig.stub.0.shutdown(Shutdown::Both).unwrap();
    let End::Stub(why) = rig.relay.join().unwrap() else { panic!("the stub closed") };
    assert!(why.starts_with(" before it sent anything") && why.contains("another debugger may hold it"), "{why}");

    let (mut debugger, one) = pair();
    let (stub, other) = pair();
    let (say, said) = std::sync::mpsc::channel();
    let relay = thread::spawn(move || {
        let timeout = Duration::from_millis(100);
        let about = Stub { endpoint: Endpoint::parse(":9").unwrap(), timeout, interrupt: None };
        let (one, other) = (transport::accepted(one).unwrap(), transport::accepted(other).unwrap());
        let mut tell = |line: &str| say.send(line.to_owned()).unwrap();
        between(one, other, &about, None, &mut |_, _, _| {}, &mut tell)
    });
    debugger.write_all(&frame("qSupported")).unwrap();
    let line = said.recv_timeout(TIME_LIMIT).unwrap();
    assert!(line.contains("nothing was answered within 100ms") && line.contains("another debugger"), "{line}");
    drop(debugger);
    assert_eq!(relay.join().unwrap(), End::Debugger);
    assert_eq!(said.try_iter().count(), 0, "it is said once");
    drop(stub);
}
