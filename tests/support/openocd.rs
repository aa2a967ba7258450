//! OpenOCD's Tcl port in a thread, for what the real one cannot be made to show: so many events before each question, with a target behind it that runs: it inserts events into a ThreadX trace between any
//! two questions. States the layout for itself.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

pub const RAM: u32 = 0x2000_0000;
const POINTER: u32 = RAM;
const HEADER: u32 = RAM + 0x100;
const THREAD: u32 = 0x2000_8000;
pub const SLOTS: u32 = 64;
const OBJECTS: u32 = 4;
const RING: u32 = HEADER + 48 + OBJECTS * 48;

/// A target whose trace grows.
pub struct Target {
    ram: Vec<u8>,
    big: bool,
    /// Events inserted so far.
    pub inserted: u32,
    current: u32,
}

impl Target {
    pub fn new(big: bool) -> Self {
        let mut this = Self { ram: vec![0; 0x4000], big, inserted: 0, current: RING };
        this.enable();
        this
    }

    /// What `tx_trace_enable` leaves.
    pub fn enable(&mut self) {
        let end = RING + SLOTS * 32;
        for slot in 0..SLOTS {
            self.store(RING + slot * 32, 0);
        }
        let words = [0x5458_5442, 0xFFFF_FFFF, HEADER, HEADER + 48];
        for (i, word) in words.into_iter().enumerate() {
            self.store(HEADER + 4 * i as u32, word);
        }
        // Two halfwords: nothing, and the size of names.
        self.store(HEADER + 16, if self.big { 32 } else { 32 << 16 });
        for (i, word) in [RING, RING, end, RING, 0xAAAA_AAAA, 0xBBBB_BBBB, 0xCCCC_CCCC].into_iter().enumerate() {
            self.store(HEADER + 20 + 4 * i as u32, word);
        }
        let object = HEADER + 48;
        self.ram[(object - RAM) as usize + 1] = 1;
        self.store(object + 4, THREAD);
        let at = (object - RAM) as usize + 16;
        self.ram[at..at + 8].copy_from_slice(b"streamer");
        self.store(POINTER, HEADER);
        self.current = RING;
        self.inserted = 0;
    }

    fn store(&mut self, at: u32, word: u32) {
        let at = (at - RAM) as usize;
        let bytes = if self.big { word.to_be_bytes() } else { word.to_le_bytes() };
        self.ram[at..at + 4].copy_from_slice(&bytes);
    }

    fn load(&self, at: u32) -> Option<u32> {
        let at = at.checked_sub(RAM)? as usize;
        let bytes = self.ram.get(at..at + 4)?.try_into().unwrap();
        Some(if self.big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    }

    /// One event, its words in the order in which the kernel stores them.
    pub fn insert(&mut self) {
        let n = self.inserted;
        let words = [THREAD, 0x8005_0005, 4096, 1000 + 7 * n, n, !n, n.wrapping_mul(2_654_435_761), 0x5354_524D];
        for (i, word) in words.into_iter().enumerate() {
            self.store(self.current + 4 * i as u32, word);
        }
        self.current += 32;
        if self.current >= RING + SLOTS * 32 {
            self.current = RING;
        }
        self.store(HEADER + 32, self.current);
        self.inserted = n + 1;
    }

    /// An event that no other is: what a test waits for.
    pub fn insert_last(&mut self) {
        self.insert();
        let slot = self.newest();
        self.store(slot + 8, 4097);
    }

    fn newest(&self) -> u32 {
        (if self.current == RING { RING + SLOTS * 32 } else { self.current }) - 32
    }

    /// Half of one: what a look in the middle of an insertion finds.
    pub fn begin(&mut self) {
        self.store(self.current, THREAD);
        self.store(self.current + 4, 0x8005_0005);
    }
}

/// What happens between questions.
pub type Script = Box<dyn FnMut(usize, &mut Target) -> Deed + Send>;

/// How a question is answered.
#[derive(PartialEq, Eq)]
pub enum Deed {
    Answer,
    /// What OpenOCD gives for a read that failed.
    Zeros,
    /// The link is cut.
    Cut,
}

/// Where it listens, and what is behind it.
pub struct OpenOcd {
    pub port: u16,
    pub target: Arc<Mutex<Target>>,
}

impl OpenOcd {
    /// `script` is called before each memory read, with its number over all connections.
    pub fn start(target: Target, mut script: Script) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let target = Arc::new(Mutex::new(target));
        let shared = Arc::clone(&target);
        std::thread::spawn(move || {
            let mut asked = 0;
            for stream in listener.incoming().flatten() {
                // The client is gone: the next one may come.
                let _ = serve(stream, &shared, &mut script, &mut asked);
            }
        });
        Self { port, target }
    }

    pub fn endpoint(&self) -> String {
        format!("openocd:127.0.0.1:{}", self.port)
    }
}

fn serve(mut stream: TcpStream, target: &Mutex<Target>, script: &mut Script, asked: &mut usize) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut input = Vec::new();
    let mut buf = [0; 4096];
    loop {
        while let Some(end) = input.iter().position(|b| *b == 0x1a) {
            let command = String::from_utf8(input.drain(..=end).take(end).collect()).unwrap();
            // The scripts are OpenOCD's own language; what matters of them is which command they hold.
            let asked_for = command.split_once("read_memory ").map(|(_, rest)| rest);
            let words: Vec<&str> = asked_for.unwrap_or_default().split([' ', '}']).take(3).collect();
            let mut answer = match words[..] {
                [at, "32", count] => {
                    let mut target = target.lock().unwrap();
                    let deed = script(*asked, &mut target);
                    *asked += 1;
                    if deed == Deed::Cut {
                        return Ok(());
                    }
                    let at = u32::from_str_radix(at.strip_prefix("0x").unwrap(), 16).unwrap();
                    let count: u32 = count.parse().unwrap();
                    let zeros = deed == Deed::Zeros;
                    let word = |i: u32| if zeros { Some(0) } else { target.load(at + 4 * i) };
                    let words: Option<Vec<String>> = (0..count).map(|i| Some(format!("{:#x}", word(i)?))).collect();
                    words.map_or("failed running\nread_memory: failed to read memory\n".to_owned(), |words| {
                        words.join(" ")
                    })
                }
                _ if command.contains("cget -endian") => {
                    if target.lock().unwrap().big { "big" } else { "little" }.to_owned()
                }
                _ => format!("invalid command name \"{command}\""),
            }
            .into_bytes();
            answer.push(0x1a);
            stream.write_all(&answer)?;
        }
        match stream.read(&mut buf)? {
            0 => return Ok(()),
            n => input.extend_from_slice(&buf[..n]),
        }
    }
}
