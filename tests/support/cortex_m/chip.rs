//! The chip: flash, RAM, the core's debug registers, and what a test may ask of them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub const RAM: u32 = 0x2000_0000;
const RAM_LEN: usize = 0x20_0000;
const FLASH_LEN: usize = 0x2_0000;

// The private peripheral bus.
const CYCCNT: u32 = 0xE000_1004;
const PCSR: u32 = 0xE000_101C;
const FP_CTRL: u32 = 0xE000_2000;
const FP_COMP0: u32 = 0xE000_2008;
const CPUID: u32 = 0xE000_ED00;
const AIRCR: u32 = 0xE000_ED0C;
const DFSR: u32 = 0xE000_ED30;
const CPACR: u32 = 0xE000_ED88;
const DHCSR: u32 = 0xE000_EDF0;
const DCRSR: u32 = 0xE000_EDF4;
const DCRDR: u32 = 0xE000_EDF8;
const DEMCR: u32 = 0xE000_EDFC;
const ROM_TABLE: u32 = 0xE00F_F000;

const C_DEBUGEN: u32 = 1;
const C_HALT: u32 = 2;
const C_STEP: u32 = 4;
const VC_CORERESET: u32 = 1;

/// Bits of DFSR: why the core halted.
pub const HALTED: u32 = 1;
pub const BREAKPOINT: u32 = 2;
const VECTOR_CATCH: u32 = 8;

/// What the core does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum State {
    #[default]
    Running,
    Asleep,
    Halted,
    InReset,
}

/// A debugger's write to memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Write {
    pub address: u32,
    pub size: u32,
    pub value: u32,
}

/// What happened to the chip since the test began, or since `clear_stats`.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    pub halts: u32,
    /// How long the core was halted, in all and at most at once.
    pub halted: Duration,
    pub longest_halt: Duration,
    pub resets: u32,
    pub steps: u32,
    /// Bus accesses of the debugger: reads that succeeded, each write to RAM, and faults.
    pub reads: u64,
    pub writes: Vec<Write>,
    pub faults: u64,
    /// The number of the firmware's next event since its start.
    pub next: u32,
    /// Events that it wrote, and those that it did not: masked, and without a current event pointer.
    pub events: u32,
    pub masked: u32,
    pub paused: u32,
    /// C_DEBUGEN: a debugger is attached, or left the core in debug mode.
    pub debug_enabled: bool,
    /// Breakpoint comparators that are in use.
    pub breakpoints: usize,
}

/// How fast things go.
#[derive(Clone, Copy, Default)]
pub struct Pace {
    /// Events a second.
    pub rate: u32,
    /// Events to write at once.
    pub burst: u32,
    /// Time between two stores of the firmware.
    pub stall: Duration,
    /// Time that a reply of the probe takes.
    pub latency: Duration,
    /// Bytes of memory a second that the probe carries; 0: no limit.
    pub bandwidth: u32,
}

/// An access that the bus refused.
pub struct BusFault;

#[derive(Default)]
pub struct Chip {
    pub flash: Vec<u8>,
    pub ram: Vec<u8>,
    /// By their DCRSR numbers: r0 to r15, xPSR, MSP, PSP, CONTROL.
    pub registers: [u32; 32],
    pub stats: Stats,
    pub pace: Pace,
    /// Addresses without power.
    pub faulty: Vec<Range<u32>>,
    pub power_off: bool,
    pub unplugged: bool,
    /// The program stores its words most significant byte first.
    pub big_endian: bool,
    /// The core sleeps when it has nothing to do.
    pub sleepy: bool,
    /// The test is over.
    pub ended: bool,
    /// Counts resets, for the firmware.
    pub boots: u32,
    /// Why the core halted (DFSR).
    pub reason: u32,
    state: State,
    since: Option<Instant>,
    ran: Duration,
    debug: u32,
    catch: u32,
    reset_seen: bool,
    /// Other words of the private peripheral bus.
    peripherals: BTreeMap<u32, u32>,
}

impl Chip {
    pub fn new() -> Self {
        let mut chip = Self {
            flash: vec![0; FLASH_LEN],
            ram: vec![0; RAM_LEN],
            catch: 1 << 24,
            // Cortex-M3 r2p1; six breakpoints; the cycle counter runs.
            peripherals: [(CPUID, 0x412F_C231), (FP_CTRL, 0x260), (0xE000_1000, 0x4000_0001)].into(),
            ..Self::default()
        };
        chip.component(0xE000_E000, 14, 0x000);
        chip.component(0xE000_1000, 14, 0x002);
        chip.component(0xE000_2000, 14, 0x003);
        chip.component(ROM_TABLE, 1, 0x4C3);
        let entries = [0xFFF0_F003, 0xFFF0_2003, 0xFFF0_3003];
        chip.peripherals.extend(entries.into_iter().enumerate().map(|(i, e)| (ROM_TABLE + 4 * i as u32, e)));
        chip.peripherals.insert(ROM_TABLE + 0xFCC, 1);
        chip
    }

    /// The identification registers of a CoreSight component of Arm.
    fn component(&mut self, base: u32, class: u32, part: u32) {
        let words = [4, 0, 0, 0, part & 0xFF, 0xB0 | part >> 8, 0x2B, 0, 0x0D, class << 4, 0x05, 0xB1];
        self.peripherals.extend((0..).map(|i| base + 0xFD0 + 4 * i).zip(words));
    }

    pub fn state(&self) -> State {
        self.state
    }

    /// How long it has been in its state.
    fn lasted(&self) -> Duration {
        self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// The time that the core has run, which is what its cycle counter counts.
    pub fn ran(&self) -> Duration {
        if self.state == State::Running { self.ran + self.lasted() } else { self.ran }
    }

    /// 25 MHz.
    pub fn cycles(&self) -> u32 {
        (self.ran().as_nanos() / 40) as u32
    }

    pub fn stats(&self) -> Stats {
        let mut stats = self.stats.clone();
        if self.state == State::Halted {
            stats.halted += self.lasted();
            stats.longest_halt = stats.longest_halt.max(self.lasted());
        }
        stats.debug_enabled = self.debug & C_DEBUGEN != 0;
        stats.breakpoints = self.breakpoints().count();
        stats
    }

    pub fn clear_stats(&mut self) {
        // The firmware goes on counting.
        self.stats = Stats { next: self.stats.next, ..Stats::default() };
        self.enter(self.state);
    }

    fn enter(&mut self, state: State) {
        let lasted = self.lasted();
        match self.state {
            State::Running => self.ran += lasted,
            State::Halted if state != State::Halted => {
                self.stats.halted += lasted;
                self.stats.longest_halt = self.stats.longest_halt.max(lasted);
            }
            _ => {}
        }
        self.state = state;
        self.since = Some(Instant::now());
    }

    /// Halts the core, as another debugger would.
    pub fn halt(&mut self, reason: u32) {
        self.debug |= C_DEBUGEN | C_HALT;
        if matches!(self.state, State::Running | State::Asleep) {
            self.stats.halts += 1;
            self.reason |= reason;
            self.enter(State::Halted);
        }
    }

    pub fn resume(&mut self) {
        self.debug &= !C_HALT;
        self.enter(if self.sleepy { State::Asleep } else { State::Running });
    }

    /// A reset; `hold` until `release_reset`.
    pub fn reset(&mut self, hold: bool) {
        self.stats.resets += 1;
        self.stats.next = 0;
        self.boots += 1;
        self.reset_seen = true;
        self.debug &= !C_HALT;
        self.reason = 0;
        let (stack, start) = (little_endian(&self.flash[..4]), little_endian(&self.flash[4..8]));
        (self.registers[13], self.registers[17], self.registers[15]) = (stack, stack, start & !1);
        self.registers[16] = 0x0100_0000;
        self.enter(State::InReset);
        if !hold {
            self.release_reset();
        }
    }

    pub fn release_reset(&mut self) {
        if self.state != State::InReset {
            return;
        }
        self.resume();
        if self.catch & VC_CORERESET != 0 && self.debug & C_DEBUGEN != 0 {
            self.halt(VECTOR_CATCH);
        }
    }

    fn breakpoints(&self) -> impl Iterator<Item = u32> + '_ {
        let enabled = self.peripherals.get(&FP_CTRL).is_some_and(|c| c & 1 != 0);
        let comparators = (0..6).filter_map(|i| self.peripherals.get(&(FP_COMP0 + 4 * i)).copied());
        comparators.filter(move |c| enabled && c & 1 != 0)
    }

    /// The firmware goes everywhere: it reaches a breakpoint as soon as there is one.
    pub fn reach_breakpoint(&mut self) {
        let Some(comparator) = self.breakpoints().next() else { return };
        if self.state == State::Running && self.debug & C_DEBUGEN != 0 {
            self.registers[15] = (comparator & 0x1FFF_FFFC) | if comparator >> 30 == 2 { 2 } else { 0 };
            self.halt(BREAKPOINT);
        }
    }

    fn memory(&mut self, at: u32, size: u32) -> Option<&mut [u8]> {
        let (bytes, at) = if at >= RAM { (&mut self.ram, at - RAM) } else { (&mut self.flash, at) };
        let at = at as usize;
        bytes.get_mut(at..at + size as usize)
    }

    /// A word of memory as the program sees it; 0 where there is none.
    pub fn peek(&mut self, at: u32) -> u32 {
        let big = self.big_endian;
        let word = self.memory(at, 4).map_or(0, |bytes| little_endian(bytes));
        if big { word.swap_bytes() } else { word }
    }

    pub fn poke(&mut self, at: u32, word: u32) {
        if at >> 20 == 0xE00 {
            self.peripherals.insert(at, word);
            return;
        }
        let bytes = if self.big_endian { word.to_be_bytes() } else { word.to_le_bytes() };
        self.memory(at, 4).unwrap().copy_from_slice(&bytes);
    }

    /// One access of the debugger, of 1, 2 or 4 bytes in their lanes of the word.
    pub fn access(&mut self, at: u32, size: u32, write: Option<u32>) -> Result<u32, BusFault> {
        let (at, lane) = (at & !(size - 1), 8 * (at & (4 - size)));
        let outcome = match write {
            _ if self.power_off || self.faulty.iter().any(|range| range.contains(&at)) => Err(BusFault),
            Some(word) if at >> 20 == 0xE00 => Ok(self.write_peripheral(at & !3, word)),
            None if at >> 20 == 0xE00 => Ok(self.read_peripheral(at & !3)),
            Some(_) if at < RAM => Err(BusFault),
            Some(word) => self.write_ram(at, size, word >> lane),
            None => self.memory(at, size).map(|bytes| little_endian(bytes) << lane).ok_or(BusFault),
        };
        match outcome {
            Err(BusFault) => self.stats.faults += 1,
            Ok(_) => self.stats.reads += u64::from(write.is_none()),
        }
        outcome
    }

    fn write_ram(&mut self, at: u32, size: u32, word: u32) -> Result<u32, BusFault> {
        let bytes = self.memory(at, size).ok_or(BusFault)?;
        bytes.copy_from_slice(&word.to_le_bytes()[..size as usize]);
        let value = little_endian(bytes);
        self.stats.writes.push(Write { address: at, size, value });
        Ok(0)
    }

    fn read_peripheral(&mut self, at: u32) -> u32 {
        match at {
            DHCSR => {
                let reset = std::mem::take(&mut self.reset_seen) || self.state == State::InReset;
                let state = match self.state {
                    State::Running => 1 << 24, // S_RETIRE_ST
                    State::Asleep => 1 << 18,  // S_SLEEP
                    State::Halted => 1 << 17,  // S_HALT
                    State::InReset => 0,
                };
                self.debug | 1 << 16 | state | u32::from(reset) << 25
            }
            DFSR => self.reason,
            DEMCR => self.catch,
            AIRCR => 0xFA05_0000,
            CYCCNT => self.cycles(),
            PCSR if self.state == State::Halted => u32::MAX,
            PCSR => self.registers[15],
            _ => self.peripherals.get(&at).copied().unwrap_or(0),
        }
    }

    fn write_peripheral(&mut self, at: u32, word: u32) -> u32 {
        match at {
            DHCSR if word >> 16 == 0xA05F => self.control_core(word & 0xF),
            DFSR => self.reason &= !word,
            DEMCR => self.catch = word,
            AIRCR if word >> 16 == 0x05FA && word & 5 != 0 => self.reset(false),
            DCRSR => {
                let register = (word & 31) as usize;
                if word & 1 << 16 == 0 {
                    self.peripherals.insert(DCRDR, self.registers[register]);
                } else {
                    self.registers[register] = self.peripherals.get(&DCRDR).copied().unwrap_or(0);
                    self.registers[17] = self.registers[13];
                }
            }
            FP_CTRL if word & 2 != 0 => drop(self.peripherals.insert(at, 0x260 | word & 1)),
            // Read-only, and a coprocessor that is not there.
            DHCSR | AIRCR | CPUID | FP_CTRL | CPACR => {}
            _ => drop(self.peripherals.insert(at, word)),
        }
        0
    }

    fn control_core(&mut self, control: u32) {
        let halted = self.state == State::Halted;
        self.debug = control;
        if control & C_DEBUGEN != 0 && control & C_HALT != 0 {
            self.halt(HALTED);
        } else if halted && control & C_DEBUGEN != 0 && control & C_STEP != 0 {
            self.stats.steps += 1;
            self.registers[15] += 2;
            self.debug |= C_HALT;
            self.reason |= HALTED;
        } else if halted {
            self.resume();
        }
    }
}

fn little_endian(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte))
}

/// The chip, as its threads share it.
pub struct Shared {
    chip: Mutex<Chip>,
    changed: Condvar,
}

impl Shared {
    pub fn new(chip: Chip) -> Self {
        Self { chip: Mutex::new(chip), changed: Condvar::new() }
    }

    pub fn lock(&self) -> MutexGuard<'_, Chip> {
        self.chip.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the chip, and wakes what waits for a change.
    pub fn change<T>(&self, change: impl FnOnce(&mut Chip) -> T) -> T {
        let result = change(&mut self.lock());
        self.changed.notify_all();
        result
    }

    /// Waits for the next change, or for so long.
    pub fn wait<'a>(&self, chip: MutexGuard<'a, Chip>, most: Duration) -> MutexGuard<'a, Chip> {
        self.changed.wait_timeout(chip, most).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Sleeps, but not beyond the end of the test.
    pub fn sleep(&self, time: Duration) {
        let began = Instant::now();
        let mut chip = self.lock();
        while !chip.ended && !time.saturating_sub(began.elapsed()).is_zero() {
            chip = self.wait(chip, time.saturating_sub(began.elapsed()));
        }
    }
}
