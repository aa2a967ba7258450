//! A Cortex-M3 simulated in the test's own process, for real debug servers: OpenOCD over `remote_bitbang`, pyOCD over its
//! remote probe. A test asks the chip itself what was done to it.
//!
//! A JTAG debug port, one memory access port, flash, RAM, the debug registers, and a program that traces while it runs.

mod chip;
mod dap;
mod firmware;
mod jtag;
mod remote_probe;

use std::net::{Shutdown, TcpListener, TcpStream};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use chip::{Chip, Shared};
pub use chip::{RAM, State, Stats, Write};
use firmware::{Firmware, Ring};

use super::machine::fixture;

/// Where a trace buffer of the simulator's own is.
pub const RING: u32 = 0x2001_0000;

/// What the chip is when the test begins.
pub struct Setup {
    /// Halted: by a debugger that has gone.
    pub state: State,
    /// Events a second that the firmware writes.
    pub rate: u32,
    /// A trace buffer for so many events; without it, the one in the image.
    pub ring: Option<u32>,
    /// The chip stores words most significant byte first; its RAM is empty but for the ring.
    pub big_endian: bool,
    pub elf: PathBuf,
    pub ram: PathBuf,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            state: State::Running,
            rate: 0,
            ring: None,
            big_endian: false,
            elf: fixture("cm3.elf"),
            ram: fixture("cm3.ram.bin"),
        }
    }
}

/// The simulated chip. It ends when it is dropped.
pub struct CortexM {
    shared: Arc<Shared>,
    firmware: Option<JoinHandle<()>>,
    jtag: Port,
    remote_probe: Port,
    elf: PathBuf,
}

impl CortexM {
    pub fn start(setup: Setup) -> Self {
        let mut chip = Chip::new();
        load_segments(&setup.elf, &mut chip.flash);
        if !setup.big_endian {
            let ram = std::fs::read(&setup.ram).unwrap();
            chip.ram[..ram.len()].copy_from_slice(&ram);
        }
        chip.big_endian = setup.big_endian;
        chip.pace.rate = setup.rate;
        // In the fixture's fault handler, where its RAM was written to the file.
        chip.registers[7] = 0x2000_7F58;
        chip.registers[13] = 0x2000_7F58;
        chip.registers[14] = 0x2763;
        chip.registers[15] = 0x2698;
        chip.registers[16] = 0x0100_0003;
        chip.registers[17] = 0x2000_7F58;
        match setup.state {
            State::Running => {}
            State::Asleep => {
                chip.sleepy = true;
                chip.resume();
            }
            State::Halted => chip.halt(chip::HALTED),
            State::InReset => chip.reset(true),
        }
        chip.clear_stats();
        let shared = Arc::new(Shared::new(chip));
        let ring = setup.ring.map(|events| Ring { address: RING, events });
        let firmware = Firmware::new(Arc::clone(&shared), &setup.elf, ring);
        let firmware = Some(std::thread::spawn(|| firmware.run()));
        Self {
            jtag: Port::open(&shared, jtag::serve),
            remote_probe: Port::open(&shared, remote_probe::serve),
            shared,
            firmware,
            elf: setup.elf,
        }
    }

    /// The port for OpenOCD's `remote_bitbang`.
    pub fn jtag_port(&self) -> u16 {
        self.jtag.number
    }

    /// The port for pyOCD's remote probe.
    pub fn remote_probe_port(&self) -> u16 {
        self.remote_probe.number
    }

    pub fn elf(&self) -> &Path {
        &self.elf
    }

    pub fn state(&self) -> State {
        self.shared.lock().state()
    }

    pub fn stats(&self) -> Stats {
        self.shared.lock().stats()
    }

    /// Counts from now on. The firmware's own number of calls goes on.
    pub fn clear_stats(&self) {
        self.shared.change(Chip::clear_stats);
    }

    /// A word of memory, read behind the debugger's back.
    pub fn peek(&self, at: u32) -> u32 {
        self.shared.lock().peek(at)
    }

    pub fn poke(&self, at: u32, word: u32) {
        self.shared.change(|chip| chip.poke(at, word));
    }

    /// A register of the core by its number in DCRSR, behind the debugger's back.
    pub fn register(&self, number: usize) -> u32 {
        self.shared.lock().registers[number]
    }

    pub fn set_register(&self, number: usize, value: u32) {
        self.shared.change(|chip| chip.registers[number] = value);
    }

    /// Events a second.
    pub fn set_rate(&self, rate: u32) {
        self.shared.change(|chip| chip.pace.rate = rate);
    }

    /// Writes so many events as fast as it can.
    pub fn burst(&self, events: u32) {
        self.shared.change(|chip| chip.pace.burst += events);
    }

    /// Time between any two stores of the firmware.
    pub fn stall(&self, time: Duration) {
        self.shared.change(|chip| chip.pace.stall = time);
    }

    /// Time that each reply of the probe takes, as over USB. OpenOCD's driver asks for a reply for about each word: 1 ms
    /// leaves 3 KB/s.
    pub fn set_latency(&self, time: Duration) {
        self.shared.change(|chip| chip.pace.latency = time);
    }

    /// The most bytes of memory a second that the probe carries; 0: no limit.
    pub fn set_bandwidth(&self, bytes: u32) {
        self.shared.change(|chip| chip.pace.bandwidth = bytes);
    }

    /// These addresses fault: a memory without power.
    pub fn fault(&self, range: Range<u32>) {
        self.shared.change(|chip| chip.faulty.push(range));
    }

    /// Every access to the bus faults; the debug port still answers.
    pub fn power_off(&self) {
        self.shared.change(|chip| chip.power_off = true);
    }

    /// The probe's cable is pulled out of the board.
    pub fn unplug(&self) {
        self.shared.change(|chip| chip.unplugged = true);
    }

    /// Undoes `fault`, `power_off` and `unplug`.
    pub fn heal(&self) {
        self.shared.change(|chip| {
            chip.faulty.clear();
            (chip.power_off, chip.unplugged) = (false, false);
        });
    }

    /// The core waits for an interrupt, or wakes.
    pub fn sleep(&self, asleep: bool) {
        self.shared.change(|chip| {
            chip.sleepy = asleep;
            if matches!(chip.state(), State::Running | State::Asleep) {
                chip.resume();
            }
        });
    }

    /// A reset that no debugger asked for, as a watchdog's.
    pub fn reset(&self) {
        self.shared.change(|chip| chip.reset(false));
    }

    /// Another debugger halts the core.
    pub fn halt(&self) {
        self.shared.change(|chip| chip.halt(chip::HALTED));
    }

    /// Another debugger lets it run.
    pub fn resume(&self) {
        self.shared.change(Chip::resume);
    }
}

impl Drop for CortexM {
    fn drop(&mut self) {
        self.shared.change(|chip| chip.ended = true);
        if let Some(firmware) = self.firmware.take() {
            let _ = firmware.join();
        }
        self.jtag.close();
        self.remote_probe.close();
    }
}

/// A port of this machine, served by a thread, one client after another.
struct Port {
    number: u16,
    client: Arc<Mutex<Option<TcpStream>>>,
    thread: Option<JoinHandle<()>>,
}

type Serve = fn(&Arc<Shared>, TcpStream) -> std::io::Result<()>;

impl Port {
    fn open(shared: &Arc<Shared>, serve: Serve) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let number = listener.local_addr().unwrap().port();
        let client: Arc<Mutex<Option<TcpStream>>> = Arc::default();
        let (shared, current) = (Arc::clone(shared), Arc::clone(&client));
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                *current.lock().unwrap() = stream.try_clone().ok();
                if shared.lock().ended {
                    return;
                }
                let _ = stream.set_nodelay(true);
                // A client that goes away is not the next one's concern.
                let _ = serve(&shared, stream);
                *current.lock().unwrap() = None;
            }
        });
        Self { number, client, thread: Some(thread) }
    }

    /// Ends the thread, which has been asked to: cuts the client that it has, or is a last one.
    fn close(&mut self) {
        if let Some(client) = self.client.lock().unwrap().take() {
            let _ = client.shutdown(Shutdown::Both);
        }
        let _ = TcpStream::connect(("127.0.0.1", self.number));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Copies the loaded segments of a little-endian 32-bit ELF to where they are in flash.
fn load_segments(elf: &Path, flash: &mut [u8]) {
    let file = std::fs::read(elf).unwrap();
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap()) as usize;
    let half = |at: usize| usize::from(u16::from_le_bytes(file[at..at + 2].try_into().unwrap()));
    for header in (0..half(44)).map(|i| word(28) + i * half(42)) {
        let (kind, offset, address, len) = (word(header), word(header + 4), word(header + 12), word(header + 16));
        if kind == 1 && len > 0 {
            flash[address..address + len].copy_from_slice(&file[offset..offset + len]);
        }
    }
}
