//! What the bridge costs: the time of a packet and its answer on loopback, straight to a stub that answers at once,
//! through a relay that only copies bytes, and through the bridge.
//!
//!     cargo bench --bench bridge
#![allow(missing_docs, clippy::restriction, reason = "a benchmark")]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use tx_trace::bridge::{Bridge, Stub};
use tx_trace::rsp::Endpoint;

/// Packets of one run.
const PACKETS: usize = 20_000;
/// Runs; the best and the middle one are reported.
const RUNS: usize = 5;

/// A stub that answers each packet with the same bytes.
fn stub(answer: Vec<u8>) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, answer) = (stream.unwrap(), answer.clone());
            stream.set_nodelay(true).unwrap();
            thread::spawn(move || {
                let mut bytes = [0; 4096];
                while let Ok(count @ 1..) = stream.read(&mut bytes) {
                    for _ in bytes[..count].iter().filter(|b| **b == b'#') {
                        stream.write_all(&answer).unwrap();
                    }
                }
            });
        }
    });
    address
}

/// Copies bytes both ways and looks at none.
fn relay(to: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for one in listener.incoming() {
            let (one, other) = (one.unwrap(), TcpStream::connect(to).unwrap());
            for (mut from, mut to) in [
                (one.try_clone().unwrap(), other.try_clone().unwrap()),
                (other.try_clone().unwrap(), one.try_clone().unwrap()),
            ] {
                from.set_nodelay(true).unwrap();
                thread::spawn(move || {
                    let mut bytes = [0; 65536];
                    while let Ok(count @ 1..) = from.read(&mut bytes) {
                        if to.write_all(&bytes[..count]).is_err() {
                            break;
                        }
                    }
                });
            }
        }
    });
    address
}

fn bridge(to: SocketAddr) -> SocketAddr {
    let bridge = Bridge::bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let address = bridge.address().unwrap();
    let endpoint = Endpoint::parse(&to.to_string()).unwrap();
    let stub = Stub { endpoint, timeout: Duration::from_secs(2), interrupt: None };
    thread::spawn(move || {
        loop {
            drop(bridge.serve_one(&stub, None, &mut |_, _, _| {}, &mut |_| {}, &mut |_| {}));
        }
    });
    address
}

/// Microseconds of a packet and its answer: the best run, and the middle one.
fn measure(to: SocketAddr, request: &[u8], length: usize) -> (f64, f64) {
    let mut runs: Vec<f64> = (0..RUNS)
        .map(|_| {
            let mut stream = TcpStream::connect(to).unwrap();
            stream.set_nodelay(true).unwrap();
            let mut bytes = vec![0; length];
            let mut ask = |count: usize| {
                for _ in 0..count {
                    stream.write_all(request).unwrap();
                    stream.read_exact(&mut bytes).unwrap();
                }
            };
            ask(PACKETS / 10);
            let began = Instant::now();
            ask(PACKETS);
            began.elapsed().as_secs_f64() * 1e6 / PACKETS as f64
        })
        .collect();
    runs.sort_by(f64::total_cmp);
    (runs[0], runs[RUNS / 2])
}

fn main() {
    println!("microseconds of a packet and its answer on loopback, best and middle of {RUNS} runs of {PACKETS}");
    println!("{:<24} {:>8} {:>8}  added", "", "best", "middle");
    for (what, payload) in [("m of 4 bytes", 8), ("m of 2048 bytes", 4096)] {
        let body = "0".repeat(payload);
        let sum = body.bytes().fold(0_u8, |s, b| s.wrapping_add(b));
        let answer = format!("+${body}#{sum:02x}").into_bytes();
        let length = answer.len();
        let request = b"$m20000000,4#85";
        let straight = stub(answer);
        println!("{what}");
        let base = measure(straight, request, length);
        for (name, address) in [("straight", straight), ("plain relay", relay(straight)), ("bridge", bridge(straight))]
        {
            let (best, middle) = if address == straight { base } else { measure(address, request, length) };
            println!("  {name:<22} {best:>8.1} {middle:>8.1}  {:+.1}", middle - base.1);
        }
    }
}
