//! A live stub with ThreadX in its memory, of as many threads and CPUs as a test wants, behind a link of a given length. It
//! counts round trips, and knows nothing of the crate.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use super::machine::fixture;

const RAM: u32 = 0x2000_0000;
const THREAD: usize = 180;
const STACK: u32 = 0x300;
/// Where threads are added: over the trace buffer of the fixture, and behind its RAM.
const MORE_THREADS: u32 = 0x2000_4F8C;
const MORE_STACKS: u32 = 0x2000_8000;
/// The fixture's thread that is copied, the one that may be missing, and the first one.
const SENSOR: u32 = 0x2000_4CBC;
const UPDATER: u32 = 0x2000_4AA0;
const FIRST: u32 = 0x2000_2874;
/// Instructions of `watchdog_entry` that change no stack pointer, in their order: a step goes to the next one.
const PATH: [u32; 8] = [0x200A, 0x200C, 0x200E, 0x2010, 0x2012, 0x2014, 0x2016, 0x2018];

const CORTEX_M: &str = r#"<?xml version="1.0"?><!DOCTYPE target SYSTEM "gdb-target.dtd"><target>
<architecture>arm</architecture><feature name="org.gnu.gdb.arm.m-profile">
<reg name="r0" bitsize="32"/><reg name="r1" bitsize="32"/><reg name="r2" bitsize="32"/><reg name="r3" bitsize="32"/>
<reg name="r4" bitsize="32"/><reg name="r5" bitsize="32"/><reg name="r6" bitsize="32"/><reg name="r7" bitsize="32"/>
<reg name="r8" bitsize="32"/><reg name="r9" bitsize="32"/><reg name="r10" bitsize="32"/><reg name="r11" bitsize="32"/>
<reg name="r12" bitsize="32"/><reg name="sp" bitsize="32" type="data_ptr"/><reg name="lr" bitsize="32"/>
<reg name="pc" bitsize="32" type="code_ptr"/><reg name="xpsr" bitsize="32" regnum="25"/></feature></target>"#;

const CORTEX_A: &str = r#"<?xml version="1.0"?><!DOCTYPE target SYSTEM "gdb-target.dtd"><target>
<architecture>arm</architecture><feature name="org.gnu.gdb.arm.core">
<reg name="r0" bitsize="32"/><reg name="r1" bitsize="32"/><reg name="r2" bitsize="32"/><reg name="r3" bitsize="32"/>
<reg name="r4" bitsize="32"/><reg name="r5" bitsize="32"/><reg name="r6" bitsize="32"/><reg name="r7" bitsize="32"/>
<reg name="r8" bitsize="32"/><reg name="r9" bitsize="32"/><reg name="r10" bitsize="32"/><reg name="r11" bitsize="32"/>
<reg name="r12" bitsize="32"/><reg name="sp" bitsize="32" type="data_ptr"/><reg name="lr" bitsize="32"/>
<reg name="pc" bitsize="32" type="code_ptr"/><reg name="cpsr" bitsize="32" regnum="25"/></feature></target>"#;

/// What is behind the stub.
#[derive(Clone)]
pub struct Machine {
    /// Bytes at addresses.
    pub memory: Vec<(u32, Vec<u8>)>,
    /// The registers as XML.
    pub description: &'static str,
    /// r0 to r15 and the status register of each CPU.
    pub cpus: Vec<[u32; 17]>,
    /// It lists its CPUs as threads, as QEMU does, and OpenOCD with `hwthread`.
    pub lists_cpus: bool,
    /// It offers `QStartNoAckMode`, as OpenOCD does.
    pub no_ack: bool,
    /// The time that bytes take, each way.
    pub delay: Duration,
}

impl Machine {
    /// The Cortex-M3 fixture in its watchdog thread, with 9 threads or more.
    pub fn cortex_m3(threads: u32) -> Self {
        let mut ram = std::fs::read(fixture("cm3.ram.bin")).unwrap();
        ram.resize((MORE_STACKS - RAM + threads * STACK) as usize, 0xEF);
        (10..threads).for_each(|number| add_thread(&mut ram, number));
        if threads == 9 {
            remove_updater(&mut ram);
        }
        let mut cpu = [0; 17];
        (cpu[7], cpu[13], cpu[14], cpu[15], cpu[16]) = (0x2000_2F38, 0x2000_2F30, 0x202F, PATH[0], 0x2100_0000);
        let memory = vec![(0, flash(&std::fs::read(fixture("cm3.elf")).unwrap())), (RAM, ram)];
        Self { memory, cpus: vec![cpu], description: CORTEX_M, lists_cpus: false, no_ack: true, delay: Duration::ZERO }
    }

    /// The Cortex-A9 fixture of two cores: the first one runs `watchdog`, the second one `filter`. The stub lists both.
    pub fn two_cores() -> Self {
        let [elf, core] = ["smp.elf", "smp.core"].map(|name| std::fs::read(fixture(name)).unwrap());
        let mut memory = loads(&core);
        memory.extend(loads(&elf));
        let mut machine = Self {
            memory,
            cpus: Vec::new(),
            description: CORTEX_A,
            lists_cpus: true,
            no_ack: true,
            delay: Duration::ZERO,
        };
        let symbol = |name: &str| super::machine::symbol(&fixture("smp.elf"), name) as u32;
        for (thread, function) in [("watchdog", "watchdog_entry"), ("filter", "filter_entry")] {
            let stack = machine.read(symbol(thread) + 12, 8).unwrap();
            let [start, end] = [0, 4].map(|at| u32::from_le_bytes(stack[at..at + 4].try_into().unwrap()));
            let mut cpu = [0; 17];
            (cpu[13], cpu[15], cpu[16]) = ((start + end) / 2 & !7, symbol(function), 0x10);
            machine.cpus.push(cpu);
        }
        machine
    }

    /// A word of memory is another one.
    pub fn poke(&mut self, at: u32, word: u32) {
        self.write(at, &word.to_le_bytes()).unwrap();
    }

    fn read(&self, at: u32, len: usize) -> Option<&[u8]> {
        let (start, bytes) = self.memory.iter().find(|(start, bytes)| at.wrapping_sub(*start) < bytes.len() as u32)?;
        bytes.get((at - start) as usize..)?.get(..len)
    }

    fn write(&mut self, at: u32, new: &[u8]) -> Option<()> {
        let found = self.memory.iter_mut().find(|(start, bytes)| at.wrapping_sub(*start) < bytes.len() as u32);
        let (start, bytes) = found?;
        bytes.get_mut((at - *start) as usize..)?.get_mut(..new.len())?.copy_from_slice(new);
        Some(())
    }
}

fn word(ram: &[u8], at: u32) -> u32 {
    let at = (at - RAM) as usize;
    u32::from_le_bytes(ram[at..at + 4].try_into().unwrap())
}

fn set(ram: &mut [u8], at: u32, word: u32) {
    let at = (at - RAM) as usize;
    ram[at..at + 4].copy_from_slice(&word.to_le_bytes());
}

/// A copy of `sensor`, with a stack of its own, before the first thread: the last one of the list.
fn add_thread(ram: &mut [u8], number: u32) {
    let index = number - 10;
    let (at, stack) = (MORE_THREADS + index * THREAD as u32, MORE_STACKS + index * STACK);
    let (from, to) = ((SENSOR - RAM) as usize, (at - RAM) as usize);
    ram.copy_within(from..from + THREAD, to);
    let (start, size) = (word(ram, SENSOR + 12), word(ram, SENSOR + 20));
    assert_eq!((word(ram, SENSOR), size), (0x5448_5244, STACK), "the fixture has moved");
    let old = (start - RAM) as usize;
    ram.copy_within(old..old + STACK as usize, (stack - RAM) as usize);
    set(ram, at + 8, stack + (word(ram, SENSOR + 8) - start));
    set(ram, at + 12, stack);
    set(ram, at + 16, stack + STACK - 1);
    // Asleep: it is in the list of no object.
    set(ram, at + 48, 4);
    set(ram, at + 108, 0);
    let last = word(ram, FIRST + 140);
    set(ram, last + 136, at);
    set(ram, at + 140, last);
    set(ram, at + 136, FIRST);
    set(ram, FIRST + 140, at);
    let count = super::machine::symbol(&fixture("cm3.elf"), "_tx_thread_created_count") as u32;
    set(ram, count, number + 1);
}

/// Takes the thread that never ran out of the list.
fn remove_updater(ram: &mut [u8]) {
    let (next, last) = (word(ram, UPDATER + 136), word(ram, UPDATER + 140));
    set(ram, last + 136, next);
    set(ram, next + 140, last);
    let count = super::machine::symbol(&fixture("cm3.elf"), "_tx_thread_created_count") as u32;
    set(ram, count, 9);
}

/// What a little-endian 32-bit ELF holds, at its virtual addresses.
fn loads(file: &[u8]) -> Vec<(u32, Vec<u8>)> {
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    let headers = (0..usize::from(u16::from_le_bytes([file[44], file[45]]))).map(|i| word(28) as usize + i * 32);
    let loaded = headers.filter(|at| word(*at) == 1 && word(at + 16) > 0);
    loaded
        .map(|at| {
            let (offset, len) = (word(at + 4) as usize, word(at + 16) as usize);
            (word(at + 8), file[offset..offset + len].to_vec())
        })
        .collect()
}

/// The loaded bytes of a program for address 0.
fn flash(file: &[u8]) -> Vec<u8> {
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap()) as usize;
    let mut flash = vec![0; 0x8000];
    for header in (0..usize::from(file[44])).map(|i| word(28) + i * 32) {
        let (offset, address, len) = (word(header + 4), word(header + 12), word(header + 16));
        if word(header) == 1 && address + len <= flash.len() {
            flash[address..address + len].copy_from_slice(&file[offset..offset + len]);
        }
    }
    flash
}

/// The target was stepped or let run.
#[derive(Debug, Clone, Copy)]
pub struct Resumed {
    pub steps: bool,
    pub at: Instant,
    /// Round trips before it.
    pub round_trips: u32,
}

/// What went over the link.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    /// Requests that could not be sent before the answer to another was here: the longest chain of them.
    pub round_trips: u32,
    pub resumed: Vec<Resumed>,
    /// Every packet.
    pub asked: Vec<String>,
    /// The links of the chain that the client has got answers to.
    answered: u32,
}

impl Counts {
    fn resume(&mut self, steps: bool) {
        self.resumed.push(Resumed { steps, at: Instant::now(), round_trips: self.round_trips });
    }
}

/// A stub that listens until the test ends.
pub struct LiveStub {
    pub port: u16,
    counts: Arc<Mutex<Counts>>,
}

impl LiveStub {
    pub fn start(machine: Machine) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let counts = Arc::new(Mutex::new(Counts::default()));
        let counted = Arc::clone(&counts);
        thread::spawn(move || {
            let mut machine = machine;
            for client in listener.incoming().flatten() {
                client.set_nodelay(true).unwrap();
                let (sender, receiver) = channel();
                let (from, counts, delay) = (client.try_clone().unwrap(), Arc::clone(&counted), machine.delay);
                thread::spawn(move || listen(from, delay, &counts, &sender));
                Session::new(&mut machine, client, &counted).serve(&receiver);
            }
        });
        Self { port, counts }
    }

    pub fn counts(&self) -> Counts {
        self.counts.lock().unwrap().clone()
    }
}

/// When the answer is out, the request's place in the chain, and the bytes that came.
type Arrived = (Instant, u32, Vec<u8>);

/// Takes what comes, with the time at which the answer to it is out.
fn listen(mut from: TcpStream, delay: Duration, counts: &Mutex<Counts>, to: &Sender<Arrived>) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let bytes = &buffer[..count];
        let mut counts = counts.lock().unwrap();
        let link = counts.answered + 1;
        if bytes.iter().any(|b| *b != b'+') {
            counts.round_trips = counts.round_trips.max(link);
        }
        drop(counts);
        if to.send((Instant::now() + 2 * delay, link, bytes.to_vec())).is_err() {
            return;
        }
    }
}

struct Session<'a> {
    machine: &'a mut Machine,
    to: TcpStream,
    counts: &'a Mutex<Counts>,
    acks: bool,
    cpu: usize,
    breakpoints: Vec<u32>,
}

impl<'a> Session<'a> {
    fn new(machine: &'a mut Machine, to: TcpStream, counts: &'a Mutex<Counts>) -> Self {
        Self { machine, to, counts, acks: true, cpu: 0, breakpoints: Vec::new() }
    }

    fn serve(&mut self, from: &Receiver<Arrived>) {
        let mut bytes: Vec<u8> = Vec::new();
        for (due, link, new) in from {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            bytes.extend(new);
            while let Some(start) = bytes.iter().position(|b| *b == b'$') {
                let Some(end) = bytes.iter().position(|b| *b == b'#').filter(|end| bytes.len() > end + 2) else {
                    break;
                };
                let body = String::from_utf8_lossy(&bytes[start + 1..end]).into_owned();
                bytes.drain(..end + 3);
                let ack = if self.acks { "+" } else { "" };
                self.counts.lock().unwrap().asked.push(body.clone());
                let answer = self.answer(&body);
                let sum = answer.bytes().fold(0_u8, u8::wrapping_add);
                let mut counts = self.counts.lock().unwrap();
                counts.answered = counts.answered.max(link);
                drop(counts);
                let _ = self.to.write_all(format!("{ack}${answer}#{sum:02x}").as_bytes());
            }
        }
    }

    fn answer(&mut self, body: &str) -> String {
        let known = |ok: bool| if ok { "OK" } else { "" }.to_owned();
        match body.as_bytes() {
            [b'?', ..] => self.stop(),
            [b'g'] => self.registers().iter().map(|r| hex(&r.to_le_bytes())).collect(),
            [b'p', ..] => self.register(&body[1..]),
            [b'm', ..] => self.read(&body[1..]).unwrap_or_else(|| "E01".to_owned()),
            [b'M', ..] => self.write(&body[1..]).map_or("E01", |()| "OK").to_owned(),
            [b'H', _, ..] if self.machine.lists_cpus => self.select(&body[2..]),
            [b'H' | b'D', ..] => "OK".to_owned(),
            [b'Z', b'0' | b'1', ..] => known(self.breakpoint(body).map(|at| self.breakpoints.push(at)).is_some()),
            [b'z', b'0' | b'1', ..] => {
                known(self.breakpoint(body).map(|at| self.breakpoints.retain(|b| *b != at)).is_some())
            }
            [b'v', ..] if body.starts_with("vCont;s") => self.step(body),
            [b'v', ..] if body.starts_with("vCont;c") => self.run(),
            [b's', ..] => self.step(body),
            [b'c', ..] => self.run(),
            _ => self.query(body),
        }
    }

    fn query(&mut self, body: &str) -> String {
        let offered = if self.machine.no_ack { ";QStartNoAckMode+" } else { "" };
        match body {
            "vCont?" => "vCont;c;C;s;S".to_owned(),
            "qAttached" => "1".to_owned(),
            "QStartNoAckMode" => {
                self.acks = false;
                "OK".to_owned()
            }
            "qfThreadInfo" if self.machine.lists_cpus => {
                let all: Vec<String> = (1..=self.machine.cpus.len()).map(|n| n.to_string()).collect();
                format!("m{}", all.join(","))
            }
            "qsThreadInfo" if self.machine.lists_cpus => "l".to_owned(),
            _ if body.starts_with("qSupported") => {
                format!("PacketSize=1000;qXfer:features:read+;vContSupported+{offered}")
            }
            _ => match body.strip_prefix("qXfer:features:read:target.xml:") {
                Some(window) => self.description(window),
                None => String::new(),
            },
        }
    }

    fn description(&self, window: &str) -> String {
        let (at, len) = pair(window, ",").unwrap_or_default();
        let rest = self.machine.description.get(at as usize..).unwrap_or_default();
        let part = &rest[..rest.len().min(len as usize)];
        format!("{}{part}", if part.len() < rest.len() { 'm' } else { 'l' })
    }

    fn registers(&self) -> [u32; 17] {
        self.machine.cpus[self.cpu]
    }

    fn register(&self, number: &str) -> String {
        let index = match u32::from_str_radix(number, 16) {
            Ok(25) => Some(16),
            Ok(n @ 0..16) => Some(n as usize),
            _ => None,
        };
        index.map_or("E01".to_owned(), |index| hex(&self.registers()[index].to_le_bytes()))
    }

    fn read(&self, range: &str) -> Option<String> {
        let (at, len) = pair(range, ",")?;
        self.machine.read(at, len as usize).map(hex)
    }

    fn write(&mut self, text: &str) -> Option<()> {
        let (range, data) = text.split_once(':')?;
        let bytes: Option<Vec<u8>> =
            (0..data.len() / 2).map(|i| u8::from_str_radix(data.get(2 * i..2 * i + 2)?, 16).ok()).collect();
        self.machine.write(pair(range, ",")?.0, &bytes?)
    }

    fn breakpoint(&self, body: &str) -> Option<u32> {
        u32::from_str_radix(body.split(',').nth(1)?, 16).ok()
    }

    fn select(&mut self, id: &str) -> String {
        match id.parse::<usize>() {
            Ok(0) => "OK".to_owned(),
            Ok(n) if n <= self.machine.cpus.len() => {
                self.cpu = n - 1;
                "OK".to_owned()
            }
            _ if id == "-1" => "OK".to_owned(),
            _ => "E01".to_owned(),
        }
    }

    fn stop(&self) -> String {
        if self.machine.lists_cpus { format!("T05thread:{};", self.cpu + 1) } else { "S05".to_owned() }
    }

    fn step(&mut self, body: &str) -> String {
        self.counts.lock().unwrap().resume(true);
        if let Some(cpu) = body.split([':', ';']).nth(2).and_then(|id| id.parse::<usize>().ok()) {
            self.cpu = cpu - 1;
        }
        let pc = &mut self.machine.cpus[self.cpu][15];
        let here = PATH.iter().position(|at| at == pc).unwrap_or(0);
        *pc = PATH[(here + 1) % PATH.len()];
        self.stop()
    }

    /// To the first breakpoint that was set last.
    fn run(&mut self) -> String {
        self.counts.lock().unwrap().resume(false);
        let at = self.breakpoints.last().copied().unwrap_or(PATH[0]);
        self.machine.cpus[0][15] = at;
        self.cpu = 0;
        self.stop()
    }
}

fn pair(text: &str, between: &str) -> Option<(u32, u32)> {
    let (a, b) = text.split_once(between)?;
    Some((u32::from_str_radix(a, 16).ok()?, u32::from_str_radix(b, 16).ok()?))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
