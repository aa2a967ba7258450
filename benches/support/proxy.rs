//! A link of a given length: a TCP proxy that passes bytes on after a delay each way, and counts them.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// What went over one connection.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tally {
    /// Times that the client spoke after the stub had spoken, or first.
    pub turns: u64,
    /// Those in which it asked for memory.
    pub reads: u64,
    /// Bytes to the stub, and from it.
    pub out: u64,
    pub back: u64,
    stub_spoke: bool,
    counted_read: bool,
    began: Option<Instant>,
    ended: Option<Instant>,
}

impl Tally {
    /// From the connection to the last byte.
    pub fn time(&self) -> Duration {
        self.began.zip(self.ended).map_or(Duration::ZERO, |(began, ended)| ended - began)
    }

    fn sent(&mut self, bytes: &[u8]) {
        self.out += bytes.len() as u64;
        // An acknowledgement asks for nothing.
        if bytes == b"+" {
            return;
        }
        if self.stub_spoke || self.turns == 0 {
            self.turns += 1;
            self.counted_read = false;
        }
        self.stub_spoke = false;
        let asks = bytes.windows(2).any(|two| matches!(two, [b'$', b'm' | b'x']));
        if asks && !self.counted_read {
            self.reads += 1;
            self.counted_read = true;
        }
        self.ended = Some(Instant::now());
    }

    fn received(&mut self, bytes: &[u8]) {
        self.back += bytes.len() as u64;
        self.stub_spoke |= bytes != b"+";
        self.ended = Some(Instant::now());
    }
}

pub struct Proxy {
    pub port: u16,
    tally: Arc<Mutex<Tally>>,
}

impl Proxy {
    /// In front of a port of this machine. Serves until the bench ends.
    pub fn before(port: u16, delay: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = listener.local_addr().unwrap().port();
        let tally = Arc::new(Mutex::new(Tally::default()));
        let counted = Arc::clone(&tally);
        thread::spawn(move || {
            for client in listener.incoming() {
                let (Ok(client), Ok(stub)) = (client, TcpStream::connect(("127.0.0.1", port))) else { continue };
                *counted.lock().unwrap() = Tally { began: Some(Instant::now()), ..Tally::default() };
                for stream in [&client, &stub] {
                    stream.set_nodelay(true).unwrap();
                }
                let (from, to) = (client.try_clone().unwrap(), stub.try_clone().unwrap());
                let count = Arc::clone(&counted);
                pass(from, to, delay, move |bytes| count.lock().unwrap().sent(bytes));
                let count = Arc::clone(&counted);
                pass(stub, client, delay, move |bytes| count.lock().unwrap().received(bytes));
            }
        });
        Self { port: own, tally }
    }

    /// What went over the last connection.
    pub fn last(&self) -> Tally {
        *self.tally.lock().unwrap()
    }
}

/// Passes one direction on: one thread takes and stamps what comes, one gives it out when its time has come, so that a
/// delay holds nothing up that comes behind. Counted is what the client sees: what it sends when it sends it, what it
/// gets when it gets it.
fn pass(mut from: TcpStream, mut to: TcpStream, delay: Duration, mut seen: impl FnMut(&[u8]) + Send + 'static) {
    let (sender, receiver) = mpsc::channel::<(Instant, Vec<u8>)>();
    thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(n) = from.read(&mut buffer) {
            if n == 0 || sender.send((Instant::now() + delay, buffer.get(..n).unwrap_or_default().to_vec())).is_err() {
                break;
            }
        }
    });
    thread::spawn(move || {
        for (due, bytes) in receiver {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            seen(&bytes);
            if to.write_all(&bytes).is_err() {
                return;
            }
        }
        let _ = to.shutdown(Shutdown::Write);
    });
}
