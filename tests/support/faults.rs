//! A proxy between a client and a stub that does what bad lines and bad stubs do. It frames packets by itself and
//! knows nothing of the crate; what it does comes from a seed.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::dice::Dice;

/// What a line or a stub does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A packet comes some milliseconds later than it could.
    Delay,
    /// A packet comes in small parts.
    Split,
    /// A packet comes twice, the second time perhaps a little later.
    Double,
    /// One bit of a packet is another. Never two in one packet: the checksum of the protocol is a sum, and two that
    /// cancel each other are for nobody to see.
    Flip,
    /// A packet is lost.
    Drop,
    /// The link is closed, perhaps within a packet.
    Close,
    /// An answer comes after the client's patience.
    Late,
    /// Answers are shorter than asked for (the protocol allows it) or longer, and the packet size is not the true one.
    Lie,
    /// Notifications, console output and stop replies that nobody asked for, in between.
    Chat,
}

/// What a client must get over.
pub const GENTLE: [Fault; 4] = [Fault::Delay, Fault::Split, Fault::Double, Fault::Flip];
/// What it may fail at, and say so.
pub const HARSH: [Fault; 9] = [
    Fault::Delay,
    Fault::Split,
    Fault::Double,
    Fault::Flip,
    Fault::Drop,
    Fault::Close,
    Fault::Late,
    Fault::Lie,
    Fault::Chat,
];

/// What one session is put through.
#[derive(Clone, Debug)]
pub struct Script {
    pub seed: u64,
    pub faults: Vec<Fault>,
    /// One token in so many is hit.
    pub one_in: usize,
    /// The client's patience.
    pub timeout: Duration,
    /// The stub does not look at checksums: nothing that goes to it is damaged, as nobody could see it.
    pub trusting_stub: bool,
}

impl Script {
    pub fn of(seed: u64, from: &[Fault], timeout: Duration) -> Self {
        let mut dice = Dice::of(seed);
        let mut faults: Vec<Fault> = (0..=dice.below(3)).map(|_| from[dice.below(from.len())]).collect();
        faults.dedup();
        Self { seed, faults, one_in: [2, 4, 8, 20][dice.below(4)], timeout, trusting_stub: false }
    }
}

/// A proxy for one connection.
pub struct Proxy {
    pub address: SocketAddr,
    /// What was done, for the message of a test that fails.
    pub log: Arc<Mutex<Vec<String>>>,
}

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    ToStub,
    ToClient,
}

impl Proxy {
    /// Waits for one client and joins it to the stub at `upstream`.
    pub fn start(upstream: SocketAddr, script: &Script) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let log = Arc::new(Mutex::new(Vec::new()));
        let (script, kept) = (script.clone(), Arc::clone(&log));
        std::thread::spawn(move || {
            let Ok((client, _)) = listener.accept() else { return };
            let Ok(stub) = TcpStream::connect(upstream) else { return };
            client.set_nodelay(true).unwrap();
            stub.set_nodelay(true).unwrap();
            let (to_stub, to_client) = ((client.try_clone(), stub.try_clone()), (stub, client));
            let (Ok(from), Ok(to)) = to_stub else { return };
            let (other, log) = (script.clone(), Arc::clone(&kept));
            std::thread::spawn(move || pump(Way::ToStub, from, to, &other, &log));
            pump(Way::ToClient, to_client.0, to_client.1, &script, &kept);
        });
        Self { address, log }
    }
}

/// Cuts the first token off: a packet, or one byte that is none.
fn token(bytes: &[u8]) -> Option<usize> {
    if !matches!(bytes.first()?, b'$' | b'%') {
        return Some(1);
    }
    let end = bytes.iter().position(|b| *b == b'#')? + 3;
    (bytes.len() >= end).then_some(end)
}

fn framed(start: u8, body: &[u8]) -> Vec<u8> {
    let sum = body.iter().fold(0u8, |sum, b| sum.wrapping_add(*b));
    [&[start][..], body, format!("#{sum:02x}").as_bytes()].concat()
}

/// A body without run lengths; those of memory have no escapes.
fn expanded(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut bytes = body.iter();
    while let Some(&byte) = bytes.next() {
        match (byte, out.last().copied()) {
            (b'*', Some(last)) => {
                let more = bytes.next().map_or(0, |n| usize::from(*n) - 29);
                out.extend(std::iter::repeat_n(last, more));
            }
            _ => out.push(byte),
        }
    }
    out
}

/// The same packet, with a lie in it about its size; `None` where there is nothing to lie about.
fn lie(packet: &[u8], dice: &mut Dice) -> Option<Vec<u8>> {
    let body = packet.get(1..packet.len().checked_sub(3)?)?;
    if body.starts_with(b"PacketSize=") {
        let rest = body.iter().position(|b| *b == b';').map_or(&b""[..], |at| &body[at..]);
        let size = ["0", "1", "10", "ffffffff", "ffffffffffffffffffff", "20000", "-5", "zz"][dice.below(8)];
        return Some(framed(b'$', &[b"PacketSize=", size.as_bytes(), rest].concat()));
    }
    let mut digits = expanded(body);
    if digits.len() < 4 || digits.len() % 2 == 1 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    match dice.below(3) {
        0 => digits.extend_from_slice(b"00ff"),
        1 => digits.truncate(2 + 2 * dice.below(digits.len() / 2 - 1)),
        // An odd number of digits is no answer at all.
        _ => digits.truncate(digits.len() - 1),
    }
    Some(framed(b'$', &digits))
}

fn pump(way: Way, mut from: TcpStream, mut to: TcpStream, script: &Script, log: &Mutex<Vec<String>>) {
    let mut dice = Dice::of(script.seed.wrapping_mul(2).wrapping_add(u64::from(way == Way::ToClient)));
    // What has come and is no whole token yet; what is to come a second time behind the next token.
    let (mut bytes, mut again): (Vec<u8>, Vec<u8>) = (Vec::new(), Vec::new());
    let mut flips = 1 + dice.below(3);
    let mut losses = 1 + dice.below(3);
    let mut buf = [0; 8192];
    let mut number = 0;
    'link: loop {
        let n = match from.read(&mut buf) {
            Ok(0) | Err(_) => break,
            Ok(n) => n,
        };
        bytes.extend_from_slice(&buf[..n]);
        while let Some(end) = token(&bytes) {
            let mut packet: Vec<u8> = bytes.drain(..end).collect();
            number += 1;
            let hit = dice.once_in(script.one_in);
            let fault = script.faults[dice.below(script.faults.len())];
            let note = |what: &str, packet: &[u8]| {
                let start = &packet[..packet.len().min(24)];
                log.lock().unwrap().push(format!("{way:?} {number} {what} {}", start.escape_ascii()));
            };
            let mut parts: Vec<Vec<u8>> = Vec::new();
            let mut pause = Duration::ZERO;
            if hit {
                match fault {
                    Fault::Delay => pause = Duration::from_millis(dice.below(12) as u64),
                    Fault::Split => {
                        note("split", &packet);
                        let step = 1 + dice.below(packet.len().div_ceil(3));
                        parts = packet.chunks(step).map(<[u8]>::to_vec).collect();
                        pause = Duration::from_millis(dice.below(2) as u64);
                    }
                    Fault::Double => {
                        note("doubled", &packet);
                        // The copy comes at once, or a little later; but never out of order.
                        again = packet.clone();
                        parts = vec![packet.clone()];
                    }
                    Fault::Flip if flips > 0 && !(script.trusting_stub && way == Way::ToStub) => {
                        flips -= 1;
                        let (at, bit) = (dice.below(packet.len()), dice.below(8));
                        packet[at] ^= 1 << bit;
                        note(&format!("bit {bit} of {at} flipped"), &packet);
                    }
                    Fault::Drop if losses > 0 => {
                        losses -= 1;
                        note("dropped", &packet);
                        continue;
                    }
                    Fault::Close if dice.once_in(4) => {
                        note("closed", &packet);
                        let _ = to.write_all(&packet[..dice.below(packet.len())]);
                        break 'link;
                    }
                    Fault::Late if losses > 0 && way == Way::ToClient => {
                        losses -= 1;
                        note("late", &packet);
                        std::thread::sleep(script.timeout * (11 + dice.below(20) as u32) / 10);
                    }
                    Fault::Lie if way == Way::ToClient => {
                        if let Some(other) = lie(&packet, &mut dice) {
                            packet = other;
                            note("lied", &packet);
                        }
                    }
                    Fault::Chat if way == Way::ToClient => {
                        let other = match dice.below(5) {
                            0 => framed(b'%', b"Stop:T05thread:01;"),
                            1 => framed(b'%', b"X"),
                            2 => framed(b'$', b"O48656c6c6f0a"),
                            3 => framed(b'$', b"O"),
                            _ => framed(b'$', b"T05thread:01;"),
                        };
                        note("said beside it", &other);
                        let place = if dice.once_in(2) { [other, packet.clone()] } else { [packet.clone(), other] };
                        parts = place.to_vec();
                    }
                    _ => {}
                }
            }
            if parts.is_empty() {
                parts.push(packet);
            }
            for part in parts {
                if to.write_all(&part).is_err() {
                    break 'link;
                }
                std::thread::sleep(pause);
            }
            if !again.is_empty() {
                std::thread::sleep(Duration::from_millis([0, 0, 1, 4][dice.below(4)]));
                if to.write_all(&std::mem::take(&mut again)).is_err() {
                    break 'link;
                }
            }
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}
