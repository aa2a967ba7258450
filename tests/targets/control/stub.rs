//! A stub with the Cortex-M3's RAM behind it, as QEMU would have it, that takes only so many writes.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use super::*;

/// What was asked of it.
pub struct Log {
    pub target: Target,
    pub requests: Vec<String>,
}

/// Serves one client that finds the target running; returns the port, and what is left when the client has gone.
pub fn start(target: Target, writes: usize) -> (u16, std::thread::JoinHandle<Log>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let serving = std::thread::spawn(move || {
        let mut stub = Stub { log: Log { target, requests: Vec::new() }, writes };
        stub.serve(listener.accept().unwrap().0);
        stub.log
    });
    (port, serving)
}

struct Stub {
    log: Log,
    writes: usize,
}

impl Stub {
    fn serve(&mut self, mut stream: TcpStream) {
        let frame = |body: &str| {
            let sum = body.bytes().fold(0_u8, |sum, b| sum.wrapping_add(b));
            format!("${body}#{sum:02x}")
        };
        // It ran until now.
        stream.write_all(frame("T02thread:01;").as_bytes()).unwrap();
        let (mut input, mut buf) = (Vec::new(), [0; 4096]);
        loop {
            let count = stream.read(&mut buf).unwrap_or(0);
            if count == 0 {
                return;
            }
            input.extend_from_slice(&buf[..count]);
            while let Some(end) = input.iter().position(|b| *b == b'#').filter(|end| input.len() > end + 2) {
                let packet: Vec<u8> = input.drain(..end + 3).collect();
                let begin = packet.iter().position(|b| *b == b'$').unwrap();
                let body = String::from_utf8(packet[begin + 1..packet.len() - 3].to_vec()).unwrap();
                let answer = self.answer(&body);
                self.log.requests.push(body);
                let _ = stream.write_all(format!("+{}", frame(&answer)).as_bytes());
            }
        }
    }

    fn answer(&mut self, request: &str) -> String {
        let number = |text: &str| u64::from_str_radix(text, 16).unwrap();
        if request.starts_with("qSupported") {
            return "PacketSize=1000;qXfer:features:read+;vContSupported+;multiprocess+".into();
        }
        match (request, request.split_at(1)) {
            ("?", _) => "T02thread:01;".into(),
            ("D", _) => "OK".into(),
            ("qqemu.sstepbits", _) => "ENABLE=1,NOIRQ=2,NOTIMER=4".into(),
            (_, ("m", range)) => {
                let (at, len) = range.split_once(',').unwrap();
                let bytes = self.log.target.memory().read_bytes(number(at), number(len) as usize);
                bytes.map_or("E14".into(), |bytes| bytes.iter().map(|b| format!("{b:02x}")).collect())
            }
            (_, ("M", rest)) => {
                if self.writes == 0 {
                    return "E14".into();
                }
                self.writes -= 1;
                let (range, digits) = rest.split_once(':').unwrap();
                let at = (number(range.split_once(',').unwrap().0) - RAM) as usize;
                for (i, pair) in digits.as_bytes().chunks(2).enumerate() {
                    self.log.target.ram[at + i] = number(std::str::from_utf8(pair).unwrap()) as u8;
                }
                "OK".into()
            }
            _ => String::new(),
        }
    }
}
